/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire control`: the API server on its own loop until a signal ends it. */
#include <signal.h>
#include <unistd.h>

#include "apiserver/server.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/control_cluster.h"
#include "cmd/control_connector.h"
#include "cmd/control_dns.h"
#include "cmd/control_gateway.h"
#include "control/gateway/controller.h"
#include "control/trust.h"
#include "io/filewatch.h"
#include "io/loop.h"
#include "io/signal.h"
#include "io/sock.h"
#include "kube/client.h"

struct control_options {
    const char *data;
    struct sw_addr listen;
    const char *advertise;
    struct sw_opt_list names;
    const char *audit_log;
    bool relaxed_sync;
    uint32_t max_inflight;
    uint32_t keep_events;
    uint64_t keep_for;
    bool fabric_kinds;
    bool loopback_endpoints;
    const char *trust_roots;
    struct sw_control_cluster_opts cluster;
    bool gateway;
    struct sw_control_gateway_opts gw;
    bool connector;
    struct sw_control_connector_opts cn;
    struct sw_control_dns_opts dns;
    uint64_t drain;
    const char *log_level;
    int log_format;
};

static const char *const formats[] = {"plain", "json", NULL};

#define OPT(field) offsetof(struct control_options, field)
static const struct sw_opt table[] = {
    {.name = "data",
     .env = "SPANWIRE_DATA",
     .type = SW_OPT_STR,
     .offset = OPT(data),
     .arg = "DIR",
     .help = "directory of the store, the keys and admin.kubeconfig; made when missing. Needed "
             "unless controllers work on another cluster"},
    {.name = "listen",
     .env = "SPANWIRE_LISTEN",
     .type = SW_OPT_ADDR,
     .offset = OPT(listen),
     .def = "127.0.0.1:6443",
     .help = "address of the API (HTTPS); port 0 takes a free one"},
    {.name = "advertise",
     .env = "SPANWIRE_ADVERTISE",
     .type = SW_OPT_STR,
     .offset = OPT(advertise),
     .arg = "HOST:PORT",
     .help = "address clients should use, if not the one listened on"},
    {.name = "name",
     .type = SW_OPT_LIST,
     .offset = OPT(names),
     .arg = "NAME",
     .help = "further DNS name or address of the server's certificate; may be repeated"},
    {.name = "audit-log",
     .env = "SPANWIRE_AUDIT_LOG",
     .type = SW_OPT_STR,
     .offset = OPT(audit_log),
     .arg = "FILE",
     .help = "append one JSON line per request"},
    {.name = "relaxed-sync",
     .type = SW_OPT_BOOL,
     .offset = OPT(relaxed_sync),
     .help = "faster writes; a power failure may lose the last ones"},
    {.name = "max-inflight",
     .type = SW_OPT_U32,
     .offset = OPT(max_inflight),
     .def = "400",
     .min = 1,
     .max = 100000,
     .help = "requests of one client at a time; more are answered with 429"},
    {.name = "keep-events",
     .type = SW_OPT_U32,
     .offset = OPT(keep_events),
     .def = "10000",
     .min = 1,
     .max = 100000, /* the store holds no more */
     .help = "changes kept at least for watches that resume"},
    {.name = "keep-for",
     .type = SW_OPT_DURATION,
     .offset = OPT(keep_for),
     .def = "5m",
     .help = "and at least those this young"},
    {.name = "fabric-kinds",
     .type = SW_OPT_BOOL,
     .offset = OPT(fabric_kinds),
     .def = "true",
     .help =
         "install the kinds of gateways, connectors, peers and policies where they are missing"},
    {.name = "loopback-endpoints",
     .env = "SPANWIRE_LOOPBACK_ENDPOINTS",
     .type = SW_OPT_BOOL,
     .offset = OPT(loopback_endpoints),
     .help = "accept loopback addresses in EndpointSlices and Endpoints, which Kubernetes refuses: "
             "backends on this machine"},
    {.name = "trust-roots",
     .env = "SPANWIRE_TRUST_ROOTS",
     .type = SW_OPT_STR,
     .offset = OPT(trust_roots),
     .arg = "FILE",
     .help = "root certificates (PEM) to keep in a ConfigMap 'spanwire-ca-root-cert' of every "
             "namespace"},
    {.type = SW_OPT_GROUP, .help = "Another cluster"},
    {.name = "kubeconfig",
     .env = "SPANWIRE_KUBECONFIG",
     .type = SW_OPT_STR,
     .offset = OPT(cluster.kubeconfig),
     .arg = "FILE",
     .help = "controllers work on the Kubernetes API this file leads to, and none is served here; "
             "xDS is. Several such processes elect one that writes"},
    {.name = "context",
     .type = SW_OPT_STR,
     .offset = OPT(cluster.context),
     .arg = "NAME",
     .help = "context of the kubeconfig [the current one]"},
    {.name = "in-cluster",
     .env = "SPANWIRE_IN_CLUSTER",
     .type = SW_OPT_BOOL,
     .offset = OPT(cluster.in_cluster),
     .help = "the same with the service account of the pod this runs in"},
    {.name = "lease-namespace",
     .env = "SPANWIRE_LEASE_NAMESPACE,POD_NAMESPACE",
     .type = SW_OPT_STR,
     .offset = OPT(cluster.lease_ns),
     .arg = "NS",
     .help = "where the leases of the election are [the context's namespace]"},
    {.name = "identity",
     .env = "SPANWIRE_IDENTITY,POD_NAME",
     .type = SW_OPT_STR,
     .offset = OPT(cluster.identity),
     .arg = "NAME",
     .help = "our name in the election, unlike everybody else's [the host's and a random part]"},
    {.name = "xds-cert",
     .env = "SPANWIRE_XDS_CERT",
     .type = SW_OPT_STR,
     .offset = OPT(cluster.xds_cert),
     .arg = "FILE",
     .help = "certificate chain of the xDS server, followed when it changes [from a CA made in "
             "DIR/xds-ca]"},
    {.name = "xds-key",
     .env = "SPANWIRE_XDS_KEY",
     .type = SW_OPT_STR,
     .offset = OPT(cluster.xds_key),
     .arg = "FILE",
     .help = "its key"},
    {.name = "admin-addr",
     .env = "SPANWIRE_ADMIN_ADDR",
     .type = SW_OPT_ADDR,
     .offset = OPT(cluster.admin),
     .def = "127.0.0.1:15014",
     .help = "metrics, readiness and /debug/xds, which the API has otherwise"},

    {.type = SW_OPT_GROUP, .help = "Gateways"},
    {.name = "gateway",
     .env = "SPANWIRE_GATEWAY",
     .type = SW_OPT_BOOL,
     .offset = OPT(gateway),
     .def = "true",
     .help = "turn Gateway API objects and Ingresses into configuration of data planes"},
    {.name = "xds-listen",
     .env = "SPANWIRE_XDS_LISTEN",
     .type = SW_OPT_ADDR,
     .offset = OPT(gw.listen),
     .def = "127.0.0.1:15012",
     .help = "address of the xDS server (gRPC over TLS, bearer tokens), for `spanwire gateway` and "
             "Envoy; port 0 takes a free one"},
    {.name = "extension-listen",
     .env = "SPANWIRE_EXTENSION_LISTEN",
     .type = SW_OPT_ADDR,
     .offset = OPT(gw.hooks),
     .help = "loopback address where Envoy Gateway finds its extension server in plain HTTP/2; on "
             "the xDS port the same hooks want a token"},
    {.name = "gateway-controller",
     .env = "SPANWIRE_GATEWAY_CONTROLLER",
     .type = SW_OPT_STR,
     .offset = OPT(gw.controller),
     .def = SW_GATEWAY_CONTROLLER_NAME,
     .arg = "NAME",
     .help = "GatewayClasses with this controllerName are served"},
    {.name = "gateway-addresses",
     .env = "SPANWIRE_GATEWAY_ADDRESSES",
     .type = SW_OPT_STR,
     .offset = OPT(gw.addresses),
     .def = "127.0.0.1=0.0.0.0",
     .arg = "LIST",
     .help = "addresses Gateways are told to have, ADDRESS[=BIND] or ADDRESS/PREFIX, joined by "
             "commas; BIND is where data planes listen for it"},
    {.name = "gateway-port-offset",
     .env = "SPANWIRE_GATEWAY_PORT_OFFSET",
     .type = SW_OPT_U32,
     .offset = OPT(gw.port_offset),
     .def = "8000",
     .max = 60000,
     .help = "added to listener ports below 1024, which need no root then (80 is served on 8080); "
             "0 serves them as they are"},
    {.name = "gateway-access-log",
     .type = SW_OPT_BOOL,
     .offset = OPT(gw.access_log),
     .help = "data planes print a line per request"},
    {.name = "gateway-gzip",
     .env = "SPANWIRE_GATEWAY_GZIP",
     .type = SW_OPT_BOOL,
     .offset = OPT(gw.gzip),
     .help = "data planes compress text for clients that take gzip"},
    {.name = "connect-proxy",
     .env = "SPANWIRE_CONNECT_PROXY",
     .type = SW_OPT_STR,
     .offset = OPT(gw.connect_proxy),
     .arg = "ADDR|PATH",
     .help = "where data planes send CONNECT requests for connectors [127.0.0.1:15040]"},

    {.type = SW_OPT_GROUP, .help = "Connectors"},
    {.name = "connector",
     .env = "SPANWIRE_CONNECTOR",
     .type = SW_OPT_BOOL,
     .offset = OPT(connector),
     .def = "true",
     .help = "keep Connectors and their Leases, and serve HTTPProxies"},
    {.name = "connector-lease",
     .type = SW_OPT_DURATION,
     .offset = OPT(cn.lease),
     .def = "30s",
     .help = "how long a connector that does not report counts as alive"},
    {.name = "connector-gateway-class",
     .type = SW_OPT_STR,
     .offset = OPT(cn.gateway_class),
     .def = "spanwire",
     .arg = "NAME",
     .help = "GatewayClass of the Gateways made for HTTPProxies; made when missing, unless Envoy "
             "Gateway is to serve it"},
    {.name = "target-domain",
     .env = "SPANWIRE_TARGET_DOMAIN",
     .type = SW_OPT_STR,
     .offset = OPT(cn.target_domain),
     .def = "connect.localhost",
     .arg = "DOMAIN",
     .help = "every HTTPProxy gets a name below this domain"},
    {.name = "gateway-id",
     .type = SW_OPT_LIST,
     .offset = OPT(cn.gateway_ids),
     .arg = "NODEID",
     .help =
         "a gateway that connectors shall let in, besides those that registered themselves; may "
         "be repeated"},
    {.name = "relay-url",
     .env = "SPANWIRE_RELAY_URL",
     .type = SW_OPT_STR,
     .offset = OPT(cn.relay_url),
     .arg = "URL",
     .help = "relay that connectors without one of their own are told to use"},
    {.name = "connector-certificates",
     .type = SW_OPT_BOOL,
     .offset = OPT(cn.certificates),
     .def = "true",
     .help = "issue certificates for the names of HTTPProxies, from the CA in DIR/connect-ca"},
    {.name = "envoy-gateway",
     .type = SW_OPT_BOOL,
     .offset = OPT(cn.envoy_gateway),
     .help = "the Gateways of HTTPProxies are served by Envoy Gateway, with this process as its "
             "extension server: touch them when a connector comes or goes"},
    {.name = "envoy-static-tunnel",
     .type = SW_OPT_BOOL,
     .offset = OPT(gw.static_tunnel),
     .help =
         "its Envoys have the tunnel's listener and cluster in their bootstrap ('spanwire envoy "
         "patch')"},
    {.name = "envoy-patch-policies",
     .type = SW_OPT_BOOL,
     .offset = OPT(cn.patch_policies),
     .help = "write EnvoyPatchPolicies for HTTPProxies with connectors, for an Envoy Gateway "
             "without the extension server"},

    {.type = SW_OPT_GROUP, .help = "Discovery DNS"},
    {.name = "dns-listen",
     .env = "SPANWIRE_DNS_LISTEN",
     .type = SW_OPT_LIST,
     .offset = OPT(dns.listen),
     .arg = "ADDR",
     .help = "serve the zone of connectors here, UDP and TCP; may be repeated"},
    {.name = "dns-zone",
     .env = "SPANWIRE_DNS_ZONE",
     .type = SW_OPT_STR,
     .offset = OPT(dns.zone),
     .arg = "ZONE",
     .help = "where connectors are published: _iroh.<key>.ZONE"},
    {.name = "dns-ns",
     .env = "SPANWIRE_DNS_NS",
     .type = SW_OPT_LIST,
     .offset = OPT(dns.ns),
     .arg = "NAME[=IP]",
     .help = "a server of the zone, the first is the primary; a name without a dot stands below "
             "the zone; may be repeated, also for further addresses [ns=the address listened on]"},
    {.name = "dns-ttl",
     .type = SW_OPT_U32,
     .offset = OPT(dns.ttl),
     .def = "5",
     .min = 1,
     .max = 86400,
     .help = "seconds that resolvers may remember a connector, or that there is none"},
    {.name = "dns-secondary",
     .env = "SPANWIRE_DNS_SECONDARY",
     .type = SW_OPT_LIST,
     .offset = OPT(dns.secondaries),
     .arg = "IP[:PORT]",
     .help = "told about changes, and allowed to transfer the zone; may be repeated"},
    {.name = "dns-transfer-key",
     .type = SW_OPT_LIST,
     .offset = OPT(dns.keys),
     .arg = "FILE",
     .help = "TSIG key (hmac-sha256) that allows to transfer the zone; when there is one, "
             "addresses alone do not; may be repeated"},
    {.name = "dns-rate",
     .type = SW_OPT_U32,
     .offset = OPT(dns.rate),
     .def = "200",
     .max = 1000000,
     .help = "UDP answers per second to one network (/24 or /56); 0 does not limit"},
    {.name = "dns-stale",
     .type = SW_OPT_DURATION,
     .offset = OPT(dns.stale_ns),
     .def = "10m",
     .help = "a connector that was not ready for so long is withdrawn, and its key free for "
             "another; 0 keeps it"},
    {.name = "dns-update",
     .env = "SPANWIRE_DNS_UPDATE",
     .type = SW_OPT_STR,
     .offset = OPT(dns.update),
     .arg = "IP[:PORT]",
     .help = "keep the records in the zone of this server, by dynamic updates"},
    {.name = "dns-tsig-key",
     .env = "SPANWIRE_DNS_TSIG_KEY",
     .type = SW_OPT_STR,
     .offset = OPT(dns.tsig_key),
     .arg = "FILE",
     .help = "TSIG key (hmac-sha256) of updates"},
    {.name = "dns-resync",
     .type = SW_OPT_DURATION,
     .offset = OPT(dns.resync_ns),
     .def = "5m",
     .min = 100,
     .help = "how often that zone is compared with what it should have"},
    {.name = "dns-owner",
     .type = SW_OPT_STR,
     .offset = OPT(dns.owner),
     .arg = "NAME",
     .help = "our name among the publishers of that zone [made once, in DIR/dns-owner]"},

    {.type = SW_OPT_GROUP, .help = "Process"},
    {.name = "drain",
     .type = SW_OPT_DURATION,
     .offset = OPT(drain),
     .def = "5s",
     .help = "time for begun requests when stopping"},
    {.name = "log-level",
     .env = "SPANWIRE_LOG,RUST_LOG",
     .type = SW_OPT_STR,
     .offset = OPT(log_level),
     .def = "info",
     .help = "log filter, e.g. info or debug,api=trace"},
    {.name = "log-format",
     .env = "LOG_FORMAT",
     .type = SW_OPT_ENUM,
     .offset = OPT(log_format),
     .def = "plain",
     .choices = formats,
     .help = "form of log lines"},
};

const struct sw_opts_cmd sw_control_options = {
    .name = "control",
    .usage = "--data DIR | --kubeconfig FILE [options]",
    .summary = "Serves a Kubernetes-style API from an embedded store, and runs the\n"
               "controllers on it or on another cluster.",
    .opts = table,
    .n = SW_ARRAY_LEN(table),
    .config_file = true,
};

struct run {
    struct sw_loop *loop;
    struct sw_api *api;
    struct sw_control_cluster *cluster; /* instead of api */
    struct sw_kube_client *client;      /* of the controllers; NULL: none run */
    struct sw_trust *trust;
    struct sw_control_gateway *gateway;
    struct sw_control_connector *connector;
    struct sw_control_dns *dns;
    uint64_t drain;
    bool stopping;
    bool stopped;
};

static void on_stopped(void *arg)
{
    struct run *r = arg;

    r->stopped = true;
    sw_loop_stop(r->loop);
}

static void stop_api(void *arg)
{
    struct run *r = arg;

    if (r->api)
        sw_api_stop(r->api, r->drain, on_stopped, r);
    else
        on_stopped(r);
}

static void stop_gateway(void *arg)
{
    struct run *r = arg;

    if (r->gateway)
        sw_control_gateway_stop(r->gateway, r->drain, stop_api, r);
    else
        stop_api(r);
}

static void stop_connector(void *arg)
{
    struct run *r = arg;

    if (r->connector)
        sw_control_connector_stop(r->connector, stop_gateway, r);
    else
        stop_gateway(r);
}

static void stop_dns(void *arg)
{
    struct run *r = arg;

    if (r->dns)
        sw_control_dns_stop(r->dns, stop_connector, r);
    else
        stop_connector(r);
}

static int start_trust(struct run *r, const struct control_options *o, struct sw_err *err)
{
    const char *ns = r->cluster ? sw_control_cluster_lease_ns(r->cluster) : "kube-system";
    const char *identity = r->cluster ? o->cluster.identity : "control";
    struct sw_trust_opts trust = {.lease_ns = sw_slice_str(ns),
                                  .lease_name = SW_SLICE_LIT("spanwire-control"),
                                  .identity = sw_slice_str(identity ? identity : "")};
    struct sw_slice roots = {0};
    int rc = sw_file_read(o->trust_roots, 1 << 20, &roots, err);

    if (rc != SW_OK)
        return rc;
    trust.roots = roots;
    r->trust = sw_trust_new(r->client, &trust, err);
    sw_slice_free(&roots);
    if (!r->trust)
        return err->rc;
    sw_trust_start(r->trust);
    return SW_OK;
}

/* To the API of this process. */
static int open_client(struct run *r, const struct control_options *o, struct sw_err *err)
{
    char *path SW_AUTO_FREE = sw_asprintf("%s/admin.kubeconfig", o->data);
    struct sw_kube_config config = {0};
    int rc = sw_kubeconfig_load(path, NULL, &config, err);

    if (rc != SW_OK)
        return rc;
    r->client = sw_kube_client_new(r->loop, &config, NULL, err);
    return r->client ? SW_OK : err->rc;
}

/* Controllers are clients like any other: they do not notice whose server it is. */
static int start_controllers(struct run *r, const struct control_options *o, struct sw_err *err)
{
    int rc = SW_OK;

    if (!o->trust_roots && !o->gateway && !o->connector && !sw_control_dns_wanted(&o->dns))
        return SW_OK;
    if (!r->client)
        rc = open_client(r, o, err);
    if (rc != SW_OK)
        return rc;
    if (o->trust_roots)
        rc = start_trust(r, o, err);
    if (rc == SW_OK && o->gateway) {
        r->gateway = sw_control_gateway_new(r->loop, r->api, r->client, &o->gw, err);
        rc = r->gateway ? SW_OK : err->rc;
    }
    if (rc == SW_OK && o->connector) {
        r->connector = sw_control_connector_new(
            r->client, r->gateway ? sw_control_gateway_metrics(r->gateway) : NULL, &o->cn, err);
        rc = r->connector ? SW_OK : err->rc;
        if (r->connector && r->gateway)
            sw_control_gateway_rules(r->gateway, sw_control_connector_of(r->connector));
    }
    if (rc == SW_OK && sw_control_dns_wanted(&o->dns)) {
        r->dns = sw_control_dns_new(r->loop, r->client,
                                    r->gateway ? sw_control_gateway_metrics(r->gateway) : NULL,
                                    &o->dns, err);
        rc = r->dns ? SW_OK : err->rc;
    }
    return rc;
}

static void on_signal(int signo, void *arg)
{
    struct run *r = arg;

    if (r->stopping) {
        on_stopped(r);
        return;
    }
    sw_log_info("control", "stopping on signal %d", signo);
    r->stopping = true;
    if (r->trust)
        sw_trust_stop(r->trust, stop_dns, r);
    else
        stop_dns(r);
}

static void tell_ports(const struct run *r)
{
    char text[SW_ADDR_TEXT];

    if (r->gateway) {
        struct sw_addr xds = sw_control_gateway_addr(r->gateway);

        sw_log_info("control", "xDS on %s", sw_addr_text(&xds, text));
    }
    if (r->dns && sw_control_dns_addr(r->dns).port) {
        struct sw_addr dns = sw_control_dns_addr(r->dns);

        sw_log_info("control", "DNS on %s", sw_addr_text(&dns, text));
    }
}

static void free_controllers(struct run *r)
{
    sw_trust_free(r->trust);
    sw_control_dns_free(r->dns);
    sw_control_connector_free(r->connector);
    sw_control_gateway_free(r->gateway);
}

/* The controllers alone, on a cluster elsewhere. */
static int serve_cluster(struct control_options *o, struct run *r, struct sw_err *err)
{
    char text[SW_ADDR_TEXT];
    struct sw_addr at;
    int rc;

    if (!o->data && sw_control_dns_wanted(&o->dns))
        return sw_err_set(err, SW_EINVAL, "DNS needs --data");
    o->cluster.data = o->data;
    o->cluster.names = &o->names;
    r->cluster = sw_control_cluster_new(r->loop, &o->cluster, err);
    if (!r->cluster)
        return err->rc;
    r->client = sw_control_cluster_client(r->cluster);
    o->gw.cred = sw_control_cluster_cred(r->cluster);
    o->gw.access = sw_control_cluster_access(r->cluster);
    o->gw.lease_ns = o->cn.lease_ns = sw_control_cluster_lease_ns(r->cluster);
    o->gw.identity = o->cn.identity = o->cluster.identity;
    rc = start_controllers(r, o, err);
    if (rc == SW_OK)
        rc = sw_control_cluster_serve(r->cluster, r->gateway, err);
    if (rc == SW_OK) {
        at = sw_control_cluster_addr(r->cluster);
        tell_ports(r);
        sw_log_info("control", "ready, pages on http://%s", sw_addr_text(&at, text));
        sw_loop_run(r->loop);
    }
    free_controllers(r);
    sw_control_cluster_free(r->cluster);
    return rc;
}

static int serve_api(const struct control_options *o, struct run *r, struct sw_err *err)
{
    struct sw_api_config c = {.data_dir = o->data,
                              .listen = o->listen,
                              .advertise = o->advertise,
                              .names = o->names.p,
                              .audit_log = o->audit_log,
                              .relaxed_sync = o->relaxed_sync,
                              .max_inflight = o->max_inflight,
                              .keep_events = o->keep_events,
                              .keep_events_ms = o->keep_for / SW_NS_PER_MS,
                              .fabric_kinds = o->fabric_kinds,
                              .loopback_endpoints = o->loopback_endpoints};
    struct sw_addr at;
    char text[SW_ADDR_TEXT];
    int rc = SW_OK;

    if (!o->data)
        return sw_err_set(err, SW_EINVAL, "--data is needed");
    r->api = sw_api_new(r->loop, &c, err);
    if (!r->api)
        return err->rc;
    while (!sw_api_ready(r->api) && !r->stopping)
        sw_loop_turn(r->loop, -1);
    at = sw_api_addr(r->api);
    if (!r->stopping)
        rc = start_controllers(r, o, err);
    tell_ports(r);
    if (rc == SW_OK && !r->stopping)
        sw_log_info("control", "ready on https://%s", sw_addr_text(&at, text));
    if (rc == SW_OK && !r->stopped)
        sw_loop_run(r->loop);
    free_controllers(r);
    sw_kube_client_free(r->client);
    sw_api_free(r->api);
    return rc;
}

static int serve(struct control_options *o, struct sw_err *err)
{
    static const int signos[] = {SIGTERM, SIGINT};
    struct run r = {.loop = sw_loop_new(err), .drain = o->drain};
    struct sw_signals *s;
    int rc;

    if (!r.loop)
        return err->rc;
    (void)sw_sock_raise_fd_limit();
    s = sw_signals_new(r.loop, signos, SW_ARRAY_LEN(signos), on_signal, &r, err);
    if (!s)
        rc = err->rc;
    else if (sw_control_cluster_wanted(&o->cluster))
        rc = serve_cluster(o, &r, err);
    else
        rc = serve_api(o, &r, err);
    sw_signals_free(s);
    sw_loop_free(r.loop);
    return rc;
}

int sw_cmd_control(int argc, char **argv)
{
    SW_ARENA_AUTO arena = {0};
    struct control_options o = {0};
    struct sw_err err = {0};
    int rc = sw_opts_parse(&sw_control_options, &o, &arena, argc, argv, NULL, &err);

    if (rc == SW_OK)
        rc = sw_log_filter(sw_slice_str(o.log_level), true, &err);
    if (rc == SW_OK) {
        sw_log_start(STDERR_FILENO, (enum sw_log_format)o.log_format);
        o.cn.data = o.data;
        o.cn.dns = sw_control_dns_wanted(&o.dns);
        o.dns.data = o.data;
        o.cn.gateway_controller = o.gw.controller;
        o.cn.port_offset = o.gw.port_offset;
        o.cn.dns_stale_ns = o.dns.stale_ns;
        rc = serve(&o, &err);
        sw_log_stop();
    }
    if (rc == SW_EOF)
        return sw_cmd_help(&sw_control_options);
    return rc == SW_OK ? 0 : sw_cmd_fail(&err);
}
