/* SPDX-License-Identifier: Apache-2.0 */
/* TcpProxy and UdpProxyConfig -> where bytes and datagrams go, plain or through tunnels. */
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/listener.pb-c.h>

#include "base/time.h"
#include "gateway/config/build.h"
#include "gateway/observe/accesslog.h"
#include "gateway/observe/header_add.h"
#include "gateway/xds/listener.h"
#include "proto/pb.h"
#include "proto/types.h"

enum {
    ATTEMPTS_MAX = 100,         /* one follows the other without a pause */
    UDP_BUFFER_MAX = 64 * 1024, /* datagrams of one client before its tunnel stands */
};

/* ---- TCP ---- */

static int build_tunnel(struct sw_gw_build *b, const Sw__TcpProxy__TunnelingConfig *in,
                        struct sw_gw_tcp_proxy *t)
{
    struct sw_gw_tunneling *tu = SW_ARENA_NEW(b->arena, struct sw_gw_tunneling);
    int rc;

    if (in->post_path.len)
        return SW_GW_BAD(b, "tunneling_config: post_path without use_post");
    rc = sw_gw_format_parse(b->arena, SW_PB_SLICE(in->hostname), &tu->hostname, b->err);
    if (rc == SW_OK)
        rc = sw_gw_build_headers(b, in->headers_to_add, in->n_headers_to_add, &tu->headers,
                                 &tu->n_headers);
    t->tunnel = tu;
    return rc;
}

static int build_tcp_clusters(struct sw_gw_build *b, const Sw__TcpProxy *in,
                              struct sw_gw_tcp_proxy *t)
{
    struct sw_gw_weighted *w;

    if (in->cluster_specifier_case == SW__TCP_PROXY__CLUSTER_SPECIFIER_CLUSTER) {
        w = SW_ARENA_NEW(b->arena, struct sw_gw_weighted);
        w->cluster = sw_gw_text(b, &in->cluster);
        w->weight = 1;
        t->clusters = w;
        t->n_clusters = 1;
        t->total_weight = 1;
        return w->cluster.n ? SW_OK : SW_GW_BAD(b, "cluster missing");
    }
    if (in->cluster_specifier_case != SW__TCP_PROXY__CLUSTER_SPECIFIER_WEIGHTED_CLUSTERS)
        return SW_GW_BAD(b, "neither cluster nor weighted_clusters");
    w = sw_arena_array(b->arena, in->weighted_clusters->n_clusters, sizeof(*w));
    for (size_t i = 0; i < in->weighted_clusters->n_clusters; i++) {
        w[i].cluster = sw_gw_text(b, &in->weighted_clusters->clusters[i]->name);
        w[i].weight = in->weighted_clusters->clusters[i]->weight;
        t->total_weight += w[i].weight;
    }
    t->clusters = w;
    t->n_clusters = in->weighted_clusters->n_clusters;
    return t->total_weight ? SW_OK : SW_GW_BAD(b, "the sum of weights is 0");
}

int sw_gw_build_tcp(struct sw_gw_build *b, const struct Sw__Any *any, struct sw_gw_tcp_proxy *t)
{
    const Sw__TcpProxy *in = sw_gw_open_any(b, any, &sw__tcp_proxy__descriptor);
    int rc;

    if (!in)
        return SW_EINVAL;
    t->stat_prefix = sw_gw_text(b, &in->stat_prefix);
    if (t->stat_prefix.n == 0)
        return SW_GW_BAD(b, "stat_prefix missing");
    t->idle_timeout_ns = sw_gw_duration(in->idle_timeout, 3600 * SW_NS_PER_S);
    t->max_duration_ns = sw_gw_duration(in->max_downstream_connection_duration, 0);
    t->max_connect_attempts =
        (uint32_t)sw_min(sw_gw_u32(in->max_connect_attempts, 1), ATTEMPTS_MAX);
    rc = build_tcp_clusters(b, in, t);
    if (rc == SW_OK && in->tunneling_config)
        rc = build_tunnel(b, in->tunneling_config, t);
    if (rc == SW_OK)
        rc = sw_gw_build_logs(b, in->access_log, in->n_access_log, &t->logs, &t->n_logs);
    return rc;
}

/* ---- UDP ---- */

/* Datagrams become capsules either way; any other filter would change them. */
static int check_session_filters(struct sw_gw_build *b, const Sw__UdpProxyConfig *in)
{
    bool capsules = false;

    for (size_t i = 0; i < in->n_session_filters; i++) {
        const Sw__UdpProxyConfig__SessionFilter *f = in->session_filters[i];

        if (f->config_type_case != SW__UDP_PROXY_CONFIG__SESSION_FILTER__CONFIG_TYPE_TYPED_CONFIG ||
            !sw_pb_any_is(f->typed_config, &sw__http_capsule__descriptor))
            return SW_GW_BAD(b, "udp_proxy: session filter '%.*s' is not supported",
                             SW_SLICE_ARG_MAX(SW_PB_SLICE(f->name), 60));
        capsules = true;
    }
    if (capsules != (in->tunneling_config != NULL))
        return SW_GW_BAD(b, "udp_proxy: tunneling_config and the session filter http_capsule need "
                            "each other");
    return SW_OK;
}

static int build_udp_tunnel(struct sw_gw_build *b, const Sw__UdpProxyConfig *p,
                            struct sw_gw_udp_proxy *u)
{
    const Sw__UdpProxyConfig__UdpTunnelingConfig *in = p->tunneling_config;
    struct sw_gw_udp_tunneling *t = SW_ARENA_NEW(b->arena, struct sw_gw_udp_tunneling);
    bool has_port = in->proxy_port_kind_case ==
                    SW__UDP_PROXY_CONFIG__UDP_TUNNELING_CONFIG__PROXY_PORT_KIND_PROXY_PORT;
    uint32_t proxy_port = has_port ? sw_gw_u32(in->proxy_port, 0) : 0;
    int rc;

    if (p->use_per_packet_load_balancing)
        return SW_GW_BAD(b, "udp_proxy: tunneling_config excludes use_per_packet_load_balancing");
    if (in->proxy_host.len == 0 || in->target_host.len == 0)
        return SW_GW_BAD(b, "udp_proxy: proxy_host or target_host missing");
    if (in->default_target_port == 0 || in->default_target_port > UINT16_MAX ||
        proxy_port > UINT16_MAX)
        return SW_GW_BAD(b, "udp_proxy: not a port");
    t->proxy_port = (uint16_t)proxy_port;
    t->target_port = (uint16_t)in->default_target_port;
    if (in->buffer_options) {
        const Sw__UInt64Value *bytes = in->buffer_options->max_buffered_bytes;

        t->max_datagrams = sw_gw_u32(in->buffer_options->max_buffered_datagrams, 1024);
        t->max_bytes = (uint32_t)sw_min(bytes ? bytes->value : 16384, UDP_BUFFER_MAX);
    }
    rc = sw_gw_format_parse(b->arena, SW_PB_SLICE(in->proxy_host), &t->proxy_host, b->err);
    if (rc == SW_OK)
        rc = sw_gw_format_parse(b->arena, SW_PB_SLICE(in->target_host), &t->target_host, b->err);
    if (rc == SW_OK)
        rc = sw_gw_build_headers(b, in->headers_to_add, in->n_headers_to_add, &t->headers,
                                 &t->n_headers);
    u->tunnel = t;
    return rc;
}

int sw_gw_build_udp(struct sw_gw_build *b, const struct Sw__Listener *in, struct sw_gw_udp_proxy *u)
{
    int rc;
    const Sw__UdpProxyConfig *p = NULL;

    for (size_t i = 0; i < in->n_listener_filters && !p; i++) {
        if (sw_pb_any_is(in->listener_filters[i]->typed_config,
                         &sw__udp_proxy_config__descriptor)) {
            p = sw_gw_open_any(b, in->listener_filters[i]->typed_config,
                               &sw__udp_proxy_config__descriptor);
            if (!p)
                return SW_EINVAL;
        }
    }
    if (!p)
        return SW_GW_BAD(b, "a UDP listener needs udp_proxy");
    rc = check_session_filters(b, p);
    if (rc == SW_OK && p->tunneling_config)
        rc = build_udp_tunnel(b, p, u);
    if (rc < 0)
        return rc;
    u->stat_prefix = sw_gw_text(b, &p->stat_prefix);
    u->idle_timeout_ns = sw_gw_duration(p->idle_timeout, 60 * SW_NS_PER_S);
    u->per_packet = p->use_per_packet_load_balancing;
    for (size_t i = 0; i < p->n_hash_policies; i++)
        u->hash_source_ip |= p->hash_policies[i]->policy_specifier_case ==
                             SW__UDP_PROXY_CONFIG__HASH_POLICY__POLICY_SPECIFIER_SOURCE_IP;
    if (p->route_specifier_case == SW__UDP_PROXY_CONFIG__ROUTE_SPECIFIER_CLUSTER) {
        u->cluster = sw_gw_text(b, &p->cluster);
    } else if (p->route_specifier_case == SW__UDP_PROXY_CONFIG__ROUTE_SPECIFIER_MATCHER &&
               p->matcher->on_no_match &&
               p->matcher->on_no_match->on_match_case == SW__MATCHER__ON_MATCH__ON_MATCH_ACTION) {
        const Sw__UdpRoute *r = sw_gw_open_any(b, p->matcher->on_no_match->action->typed_config,
                                               &sw__udp_route__descriptor);

        if (!r)
            return SW_EINVAL;
        u->cluster = sw_gw_text(b, &r->cluster);
    }
    if (u->stat_prefix.n == 0 || u->cluster.n == 0)
        return SW_GW_BAD(b, "udp_proxy without stat_prefix or cluster");
    return sw_gw_build_logs(b, p->access_log, p->n_access_log, &u->logs, &u->n_logs);
}
