/* SPDX-License-Identifier: Apache-2.0 */
#include "node/dump/dump.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/time.h"
#include "node/config.h"
#include "node/route.h"

/* A text, or null when there is none. */
static void put_opt(struct sw_jw *j, const char *key, const char *s)
{
    if (s && *s)
        sw_jw_put_str(j, key, s);
    else
        sw_jw_put_null(j, key);
}

static void put_duration(struct sw_jw *j, const char *key, uint64_t ns)
{
    sw_jw_put_object(j, key);
    sw_jw_put_u64(j, "secs", ns / SW_NS_PER_S);
    sw_jw_put_u64(j, "nanos", ns % SW_NS_PER_S);
    sw_jw_object_end(j);
}

static void put_addr(struct sw_jw *j, const char *key, const struct sw_addr *a)
{
    char text[SW_ADDR_TEXT];

    sw_jw_put_str(j, key, sw_addr_text(a, text));
}

/* {"SocketAddr": "..."} or, for both loopback addresses, {"Localhost": [IPv6 too, port]}. */
static void put_place(struct sw_jw *j, const char *key, bool localhost, bool ipv6,
                      const struct sw_addr *a)
{
    sw_jw_put_object(j, key);
    if (localhost) {
        sw_jw_put_array(j, "Localhost");
        sw_jw_bool(j, ipv6);
        sw_jw_u64(j, a->port);
        sw_jw_array_end(j);
    } else {
        put_addr(j, "SocketAddr", a);
    }
    sw_jw_object_end(j);
}

static void put_ports(struct sw_jw *j, const struct sw_node_config *c)
{
    struct sw_addr at = {.ip = c->listen.ip};
    struct sw_addr socks = {.ip = {.family = 4, .b = {127, 0, 0, 1}}, .port = SW_PORT_SOCKS5};

    if (!at.ip.family)
        at.ip.family = c->listen.ipv6 ? 6 : 4;
    else
        socks.ip = at.ip;
    if (c->listen.socks5)
        put_addr(j, "socks5Addr", &socks);
    else
        sw_jw_put_null(j, "socks5Addr");
    put_place(j, "adminAddr", c->admin.is_default, c->listen.ipv6, &c->admin.addr);
    put_place(j, "statsAddr", false, false, &c->admin.stats_addr);
    put_place(j, "readinessAddr", false, false, &c->admin.ready_addr);
    at.port = SW_PORT_HBONE;
    put_addr(j, "inboundAddr", &at);
    at.port = SW_PORT_INBOUND_PLAIN;
    put_addr(j, "inboundPlaintextAddr", &at);
    at.port = SW_PORT_OUTBOUND;
    put_addr(j, "outboundAddr", &at);
    put_place(j, "dnsProxyAddr", c->dns.localhost, c->listen.ipv6, &c->dns.addr);
    sw_jw_put_array(j, "illegalPorts");
    sw_jw_u64(j, SW_PORT_OUTBOUND);
    sw_jw_u64(j, SW_PORT_INBOUND_PLAIN);
    sw_jw_u64(j, SW_PORT_HBONE);
    if (c->listen.socks5)
        sw_jw_u64(j, SW_PORT_SOCKS5);
    sw_jw_array_end(j);
}

/* Where roots come from: a file, the system's, or the text itself, which is not repeated. */
static void put_root(struct sw_jw *j, const char *key, const char *root)
{
    if (!root || strcmp(root, "SYSTEM") == 0) {
        sw_jw_put_str(j, key, "Default");
        return;
    }
    sw_jw_put_object(j, key);
    if (strstr(root, "-----BEGIN"))
        sw_jw_put_null(j, "Static");
    else
        sw_jw_put_str(j, "File", root);
    sw_jw_object_end(j);
}

static void put_workload(struct sw_jw *j, const char *key, const char *name, const char *ns,
                         const char *sa)
{
    if (!name || !ns || !sa) {
        sw_jw_put_null(j, key);
        return;
    }
    sw_jw_put_object(j, key);
    sw_jw_put_str(j, "name", name);
    sw_jw_put_str(j, "namespace", ns);
    sw_jw_put_str(j, "serviceAccount", sa);
    sw_jw_object_end(j);
}

static void put_identity(struct sw_jw *j, const struct sw_node_config *c)
{
    put_workload(j, "proxyWorkloadInformation", c->serve.workload.name, c->serve.workload.ns,
                 c->serve.workload.sa);
    put_workload(j, "ztunnelWorkload", c->names.pod, c->names.pod_namespace,
                 c->names.service_account);
    sw_jw_name(j, "ztunnelIdentity");
    if (c->names.self_proxy) {
        char text[512];

        (void)snprintf(text, sizeof(text), "spiffe://%s/ns/%s/sa/%s", c->names.trust_domain,
                       c->names.pod_namespace, c->names.service_account);
        sw_jw_str(j, text);
    } else {
        sw_jw_null(j);
    }
}

static void put_control(struct sw_jw *j, const struct sw_node_config *c)
{
    put_opt(j, "caAddress", c->ca.address);
    put_root(j, "caRootCert", c->ca.root_ca);
    put_opt(j, "altCaHostname", c->ca.alt_hostname);
    put_opt(j, "xdsAddress", c->xds.address);
    put_root(j, "xdsRootCert", c->xds.root_ca);
    put_opt(j, "altXdsHostname", c->xds.alt_hostname);
    put_opt(j, "preferedServiceNamespace", c->dns.preferred_namespace);
    put_duration(j, "secretTtl", c->ca.secret_ttl_ns);
    sw_jw_put_bool(j, "xdsOnDemand", c->xds.on_demand);
    sw_jw_put_bool(j, "fakeCa", false);
    sw_jw_put_bool(j, "fakeSelfInbound", false);
    put_opt(j, "crlPath", c->ca.crl);
    sw_jw_put_object(j, "proxyMetadata");
    for (size_t i = 0; i < c->istio.n_metadata; i++) {
        sw_jw_key(j, c->istio.metadata[i].key);
        sw_jw_string(j, c->istio.metadata[i].value);
    }
    sw_jw_object_end(j);
}

static void put_sockets(struct sw_jw *j, const struct sw_node_config *c)
{
    if (c->sockets.orig_src == SW_NODE_AUTO)
        sw_jw_put_null(j, "requireOriginalSource");
    else
        sw_jw_put_bool(j, "requireOriginalSource", c->sockets.orig_src == SW_NODE_ON);
    if (c->sockets.packet_mark)
        sw_jw_put_u64(j, "packetMark", c->sockets.packet_mark);
    else
        sw_jw_put_null(j, "packetMark");
    sw_jw_put_object(j, "socketConfig");
    put_duration(j, "keepaliveTime", c->keepalive.time_ns);
    put_duration(j, "keepaliveInterval", c->keepalive.interval_ns);
    sw_jw_put_u64(j, "keepaliveRetries", c->keepalive.retries);
    sw_jw_put_bool(j, "keepaliveEnabled", c->keepalive.on);
    sw_jw_put_bool(j, "userTimeoutEnabled", c->keepalive.user_timeout);
    sw_jw_object_end(j);
}

void sw_dump_config(struct sw_jw *j, const struct sw_node_config *c)
{
    sw_jw_object(j);
    sw_jw_put_bool(j, "proxy", c->serve.proxy);
    sw_jw_put_bool(j, "dnsProxy", c->dns.capture);
    sw_jw_put_u64(j, "windowSize", c->h2.stream_window);
    sw_jw_put_u64(j, "connectionWindowSize", c->h2.connection_window);
    sw_jw_put_u64(j, "frameSize", c->h2.frame_size);
    sw_jw_put_u64(j, "poolMaxStreamsPerConn", c->tunnel.pool_max_streams);
    put_duration(j, "poolUnusedReleaseTimeout", c->tunnel.pool_unused_release_ns);
    put_ports(j, c);
    sw_jw_put_str(j, "network", c->names.network);
    put_opt(j, "localNode", c->names.node);
    sw_jw_put_str(j, "proxyMode", c->serve.mode == SW_NODE_DEDICATED ? "Dedicated" : "Shared");
    put_identity(j, c);
    sw_jw_put_str(j, "clusterId", c->names.cluster_id);
    sw_jw_put_str(j, "clusterDomain", c->names.cluster_domain);
    put_control(j, c);
    put_duration(j, "selfTerminationDeadline", c->drain.ns);
    sw_jw_put_u64(j, "numWorkerThreads", c->cpu.workers);
    put_opt(j, "inpodUds", c->serve.agent_socket);
    sw_jw_put_bool(j, "inpodPortReuse", c->listen.port_reuse);
    put_sockets(j, c);
    sw_jw_put_bool(j, "localhostAppTunnel", c->sockets.localhost_app_tunnel);
    sw_jw_put_bool(j, "ipv6Enabled", c->listen.ipv6);
    sw_jw_put_bool(j, "enableEnhancedBaggage", c->tunnel.response_baggage);
    sw_jw_object_end(j);
}
