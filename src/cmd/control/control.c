/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire control`: the API server on its own loop until a signal ends it. */
#include "cmd/control/control.h"

#include <signal.h>
#include <string.h>

#include "apiserver/server.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/control/link_peers.h"
#include "cmd/control/options.h"
#include "cmd/control/pages.h"
#include "control/trust.h"
#include "io/loop.h"
#include "io/resolver.h"
#include "io/signal.h"
#include "io/sock.h"
#include "kube/client/client.h"
#include "kube/names.h"

/* In this order: what depends on the next goes first. */
enum stage { STOP_TRUST, STOP_DNS, STOP_CONNECTOR, STOP_MESH, STOP_GATEWAY, STOP_API };

struct run {
    struct sw_loop *loop;
    struct sw_api *api;
    struct sw_control_cluster *cluster; /* instead of api */
    struct sw_kube_client *client;      /* of the controllers; NULL: none run */
    struct sw_control_pages *pages;
    struct sw_trust *trust;
    struct sw_control_gateway *gateway;
    struct sw_control_connector *connector;
    struct sw_control_dns *dns;
    struct sw_control_mesh *mesh;
    struct sw_control_mesh_xds *mesh_xds;
    struct sw_control_link *link;
    struct sw_control_link_peers *peers;
    struct sw_egress *egress;
    uint64_t drain;
    enum stage stage; /* the next to stop */
    bool stopping;
    bool stopped;
};

static void on_stopped(void *arg)
{
    struct run *r = arg;

    r->stopped = true;
    sw_loop_stop(r->loop);
}

/* Stops what runs, one after the other: each calls this when it has stopped. */
static void stop_next(void *arg)
{
    struct run *r = arg;
    enum stage at = r->stage++;

    if (at == STOP_TRUST && r->trust)
        sw_trust_stop(r->trust, stop_next, r);
    else if (at == STOP_DNS && r->dns)
        sw_control_dns_stop(r->dns, stop_next, r);
    else if (at == STOP_CONNECTOR && r->connector)
        sw_control_connector_stop(r->connector, stop_next, r);
    else if (at == STOP_MESH && r->mesh)
        sw_control_mesh_stop(r->mesh, stop_next, r);
    else if (at == STOP_GATEWAY && r->gateway)
        sw_control_gateway_stop(r->gateway, r->drain, stop_next, r);
    else if (at < STOP_API)
        stop_next(r);
    else if (r->api)
        sw_api_stop(r->api, r->drain, on_stopped, r);
    else
        on_stopped(r);
}

static int start_trust(struct run *r, const struct control_options *o, struct sw_err *err)
{
    const char *ns = r->cluster ? sw_control_cluster_lease_ns(r->cluster) : "kube-system";
    const char *identity = r->cluster ? o->cluster.identity : "control";
    struct sw_trust_opts trust = {.election =
                                      sw_control_election(ns, "spanwire-control", identity)};
    struct sw_slice roots = {0};
    int rc = sw_file_read(o->trust_roots, 1 << 20, &roots, err);

    if (rc != SW_OK)
        return rc;
    trust.pem = roots;
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
    char *path SW_AUTO_FREE = sw_asprintf("%s/roles/control.kubeconfig", o->data);
    struct sw_kube_config config = {0};
    int rc = sw_kubeconfig_load(path, NULL, &config, err);

    if (rc != SW_OK)
        return rc;
    r->client = sw_kube_client_new(r->loop, &config, NULL, err);
    return r->client ? SW_OK : err->rc;
}

static bool controllers_wanted(const struct control_options *o)
{
    return o->trust_roots || o->gateway || o->connector || sw_control_dns_wanted(&o->dns) ||
           o->mx.listen.ip.family || o->ln.listen.ip.family;
}

static int start_mesh_xds(struct run *r, const struct control_options *o, struct sw_err *err)
{
    r->mesh_xds =
        sw_control_mesh_xds_new(r->client, sw_control_pages_metrics(r->pages), &o->mx, err);
    return r->mesh_xds ? SW_OK : err->rc;
}

/* Node proxies have a port of their own, or the gateway's. */
static int start_mesh(struct run *r, const struct control_options *o, struct sw_err *err)
{
    struct sw_xds_cache *cache = r->mesh_xds  ? sw_control_mesh_xds_cache(r->mesh_xds)
                                 : r->gateway ? sw_control_gateway_cache(r->gateway)
                                              : NULL;

    if (!cache)
        return SW_OK;
    r->mesh =
        sw_control_mesh_new(r->client, cache, sw_control_pages_metrics(r->pages), &o->ms, err);
    return r->mesh ? SW_OK : err->rc;
}

/* Controllers are clients like any other: they do not notice whose server it is. */
static int start_controllers(struct run *r, const struct control_options *o, struct sw_err *err)
{
    int rc = SW_OK;

    if (!controllers_wanted(o))
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
        r->connector =
            sw_control_connector_new(r->client, sw_control_pages_metrics(r->pages), &o->cn, err);
        rc = r->connector ? SW_OK : err->rc;
        if (r->connector && r->gateway)
            sw_control_gateway_rules(r->gateway, sw_control_connector_of(r->connector));
    }
    if (rc == SW_OK && o->mx.listen.ip.family)
        rc = start_mesh_xds(r, o, err);
    if (rc == SW_OK && o->mesh)
        rc = start_mesh(r, o, err);
    if (rc == SW_OK && o->ln.listen.ip.family) {
        r->link = sw_control_link_new(r->client, sw_control_pages_metrics(r->pages), &o->ln, err);
        rc = r->link ? SW_OK : err->rc;
    }
    if (rc == SW_OK && sw_control_dns_wanted(&o->dns)) {
        r->dns = sw_control_dns_new(r->loop, r->client, sw_control_pages_metrics(r->pages), &o->dns,
                                    err);
        rc = r->dns ? SW_OK : err->rc;
    }
    if (rc == SW_OK)
        sw_control_pages_show(r->pages, r->gateway, r->mesh_xds);
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
    stop_next(r);
}

static void log_port(const char *what, struct sw_addr at)
{
    char text[SW_ADDR_TEXT];

    sw_log_info("control", "%s %s", what, sw_addr_text(&at, text));
}

static void log_ports(const struct run *r)
{
    if (r->gateway)
        log_port("xDS on", sw_control_gateway_addr(r->gateway));
    /* Without a port its certificate is waited for. */
    if (r->mesh_xds && sw_control_mesh_xds_addr(r->mesh_xds).port)
        log_port("mesh on", sw_control_mesh_xds_addr(r->mesh_xds));
    if (r->link)
        log_port("links on", sw_control_link_addr(r->link));
    if (r->dns && sw_control_dns_addr(r->dns).port)
        log_port("DNS on", sw_control_dns_addr(r->dns));
}

static void free_controllers(struct run *r)
{
    sw_control_pages_show(r->pages, NULL, NULL);
    sw_trust_free(r->trust);
    sw_control_link_free(r->link);
    sw_control_mesh_free(r->mesh);
    sw_control_mesh_xds_free(r->mesh_xds);
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
    o->ms.lease_ns = o->mx.lease_ns = o->cn.lease_ns;
    o->ln.direct = false;
    o->ln.lease_ns = o->gw.lease_ns;
    o->ln.identity = o->cluster.identity;
    o->gw.identity = o->cn.identity = o->cluster.identity;
    o->ms.identity = o->mx.identity = o->cluster.identity;
    o->gw.review_ns = o->cluster.review_ns;
    r->pages = sw_control_pages_new(NULL);
    o->gw.metrics = sw_control_pages_metrics(r->pages);
    rc = start_controllers(r, o, err);
    if (rc == SW_OK)
        rc = sw_control_cluster_serve(r->cluster, r->gateway, r->pages, err);
    if (rc == SW_OK) {
        at = sw_control_cluster_addr(r->cluster);
        log_ports(r);
        sw_log_info("control", "pages on http://%s", sw_addr_text(&at, text));
        sw_loop_run(r->loop);
    }
    sw_control_cluster_close(r->cluster);
    free_controllers(r);
    sw_control_pages_free(r->pages);
    sw_control_cluster_free(r->cluster);
    return rc;
}

/* It is a file's name, too, beside those of the roles. */
static int check_device_account(const char *name, struct sw_err *err)
{
    static const char *const taken[] = {"control", "gateway", "relay", "sidecar"};

    if (!name)
        return SW_OK;
    for (size_t i = 0; i < SW_ARRAY_LEN(taken); i++) {
        if (strcmp(name, taken[i]) == 0)
            return sw_err_set(err, SW_EINVAL, "--device-account: '%s' is a role's name", name);
    }
    return sw_name_dns1123_label(sw_slice_str(name)).n
               ? sw_err_set(err, SW_EINVAL, "--device-account: '%s' is no name of an account", name)
               : SW_OK;
}

static int serve_api(struct control_options *o, struct run *r, struct sw_err *err)
{
    struct sw_api_config c = {.data_dir = o->data,
                              .listen = o->listen,
                              .advertise = o->advertise,
                              .names = o->names.p,
                              .audit_log = o->audit_log,
                              .relaxed_sync = o->relaxed_sync,
                              .max_inflight = o->max_inflight,
                              .max_watches = o->max_watches,
                              .space_objects = o->space_objects,
                              .space_bytes = (uint64_t)o->space_mib << 20,
                              .max_conns = o->max_conns,
                              .max_conns_addr = o->max_conns_addr,
                              .unread_timeout_ns = o->unread_timeout,
                              .work_deadline_ns = o->work_timeout,
                              .keep_events = o->keep_events,
                              .keep_events_ms = o->keep_for / SW_NS_PER_MS,
                              .fabric_kinds = o->fabric_kinds,
                              .accounts = controllers_wanted(o),
                              .device_account = o->device_account,
                              .loopback_endpoints = o->loopback_endpoints,
                              .egress = r->egress};
    struct sw_addr at;
    char text[SW_ADDR_TEXT];
    int rc = SW_OK;

    if (!o->data)
        return sw_err_set(err, SW_EINVAL, "--data is needed");
    rc = check_device_account(o->device_account, err);
    if (rc != SW_OK)
        return rc;
    r->api = sw_api_new(r->loop, &c, err);
    if (!r->api)
        return err->rc;
    r->pages = sw_control_pages_new(r->api);
    o->gw.metrics = sw_control_pages_metrics(r->pages);
    while (!sw_api_ready(r->api) && !r->stopping)
        sw_loop_turn(r->loop, -1);
    at = sw_api_addr(r->api);
    if (!r->stopping)
        rc = start_controllers(r, o, err);
    log_ports(r);
    if (rc == SW_OK && !r->stopping)
        sw_log_info("control", "ready on https://%s", sw_addr_text(&at, text));
    if (rc == SW_OK && !r->stopped)
        sw_loop_run(r->loop);
    free_controllers(r);
    sw_kube_client_free(r->client);
    sw_api_free(r->api);
    sw_control_pages_free(r->pages); /* the API showed them */
    return rc;
}

/*
 * Tenants choose target ports, and gateways connect to these at data planes unfiltered: beside
 * other programs of a machine only a range counts that is left to links.
 */
static int limit_link_ports(struct control_options *o, struct sw_err *err)
{
    bool shared = !sw_control_cluster_wanted(&o->cluster);
    const char *ports = o->ln.ports ? o->ln.ports : shared ? SW_LINK_PORTS_SHARED : NULL;

    if (ports && sw_link_ports_outside(sw_slice_str(ports), o->ln.outside, err) != SW_OK)
        return sw_err_prefix(err, "--link-ports");
    o->ln.n_outside = ports ? SW_ARRAY_LEN(o->ln.outside) : 0;
    o->gw.link_reserved = o->ln.outside;
    o->gw.n_link_reserved = o->ln.n_outside;
    return SW_OK;
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
    r.egress = o->gw.egress = o->ln.egress = sw_upstream_filter(r.loop, &o->upstream, false, err);
    if (!r.egress) {
        sw_loop_free(r.loop);
        return err->rc;
    }
    s = sw_signals_new(r.loop, signos, SW_ARRAY_LEN(signos), on_signal, &r, err);
    rc = s ? sw_control_link_peers_new(&o->ln, &r.peers, err) : err->rc;
    o->mx.peers = sw_control_link_peers_hook(r.peers);
    if (rc == SW_OK)
        rc = sw_control_cluster_wanted(&o->cluster) ? serve_cluster(o, &r, err)
                                                    : serve_api(o, &r, err);
    sw_control_link_peers_free(r.peers);
    sw_signals_free(s);
    sw_resolver_stop(); /* before the loop that its answers go to */
    sw_egress_free(r.egress);
    sw_loop_free(r.loop);
    return rc;
}

int sw_cmd_control(int argc, char **argv)
{
    SW_ARENA_AUTO arena = {0};
    struct control_options o = {0};
    struct sw_err err = {0};
    int rc =
        sw_opts_parse(&sw_control_options, &o, &arena, (struct sw_args){argc, argv}, NULL, &err);

    if (rc == SW_OK)
        rc = sw_cmd_start_log(o.log_level, o.log_format, &err);
    if (rc == SW_OK) {
        o.cn.data = o.data;
        o.dns.record = !o.connector;
        o.cn.dns = sw_control_dns_wanted(&o.dns);
        o.dns.data = o.data;
        o.mx.data = o.data;
        o.ln.data = o.data;
        o.ln.direct = true; /* unless the API is elsewhere */
        o.gw.link_ns = o.ln.ns;
        o.mx.trust_domain = o.ms.trust_domain;
        o.mx.cluster_id = o.ms.cluster_id;
        o.mx.root_ns = o.ms.root_ns;
        o.cn.gateway_controller = o.gw.controller;
        o.cn.port_offset = o.gw.port_offset;
        o.gw.api = o.listen;
        o.cn.dns_stale_ns = o.dns.stale_ns;
        rc = limit_link_ports(&o, &err);
        if (rc == SW_OK)
            rc = serve(&o, &err);
    }
    return sw_cmd_end(&sw_control_options, rc, &err);
}
