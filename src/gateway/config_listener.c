/* SPDX-License-Identifier: Apache-2.0 */
/* Listener -> compiled listener: addresses, filter chains and what each of them ends in. */
#include <proto/accesslog.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/hcm.pb-c.h>
#include <proto/httpfilter.pb-c.h>
#include <proto/l4.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/node.pb-c.h>
#include <proto/route.pb-c.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/time.h"
#include "gateway/accesslog.h"
#include "gateway/config_int.h"
#include "gateway/filter.h"
#include "http/h1.h"
#include "proto/pb.h"
#include "proto/types.h"

enum {
    CHAINS_MAX = 100000,
    ADDRS_MAX = 64,
    HEADERS_KB_MAX = 8192,
    ATTEMPTS_MAX = 100,         /* one follows the other without a pause */
    UDP_BUFFER_MAX = 64 * 1024, /* datagrams of one client before its tunnel stands */
};

static bool boolv(const Sw__BoolValue *v, bool otherwise)
{
    return v ? v->value != 0 : otherwise;
}

static uint32_t u32v(const Sw__UInt32Value *v, uint32_t otherwise)
{
    return v ? v->value : otherwise;
}

/* ---- HTTP connection manager ---- */

static int build_upgrades(struct sw_gw_build *b, const Sw__HttpConnectionManager *in,
                          struct sw_gw_hcm *h)
{
    struct sw_slice *u = sw_arena_array(b->arena, in->n_upgrade_configs + 1, sizeof(*u));

    for (size_t i = 0; i < in->n_upgrade_configs; i++) {
        if (in->upgrade_configs[i]->n_filters)
            return sw_err_set(b->err, SW_EINVAL, "upgrade_configs: own filters are not supported");
        if (boolv(in->upgrade_configs[i]->enabled, true))
            u[h->n_upgrades++] = sw_gw_lower(b, SW_PB_SLICE(in->upgrade_configs[i]->upgrade_type));
    }
    h->upgrades = u;
    return SW_OK;
}

static int build_routes_of(struct sw_gw_build *b, const Sw__HttpConnectionManager *in,
                           struct sw_gw_hcm *h)
{
    if (in->route_specifier_case == SW__HTTP_CONNECTION_MANAGER__ROUTE_SPECIFIER_RDS) {
        h->rds = sw_gw_text(b, &in->rds->route_config_name);
        if (h->rds.n == 0)
            return sw_err_set(b->err, SW_EINVAL, "rds without route_config_name");
        (void)sw_gw_need_present(b, SW_GW_TYPE_ROUTES, h->rds);
        return SW_OK;
    }
    if (in->route_specifier_case == SW__HTTP_CONNECTION_MANAGER__ROUTE_SPECIFIER_ROUTE_CONFIG) {
        h->inline_routes = sw_gw_build_route_config(b, in->route_config);
        return h->inline_routes ? SW_OK : SW_EINVAL;
    }
    return sw_err_set(b->err, SW_EINVAL, "neither rds nor route_config");
}

static void build_timeouts(const Sw__HttpConnectionManager *in, struct sw_gw_hcm *h)
{
    const Sw__HttpProtocolOptions *o = in->common_http_protocol_options;

    h->idle_timeout_ns = sw_gw_duration(o ? o->idle_timeout : NULL, 3600 * SW_NS_PER_S);
    h->stream_idle_timeout_ns = sw_gw_duration(in->stream_idle_timeout, 300 * SW_NS_PER_S);
    h->request_timeout_ns = sw_gw_duration(in->request_timeout, 0);
    h->request_headers_timeout_ns = sw_gw_duration(in->request_headers_timeout, 0);
    h->drain_timeout_ns = sw_gw_duration(in->drain_timeout, 5 * SW_NS_PER_S);
    h->delayed_close_timeout_ns = sw_gw_duration(in->delayed_close_timeout, SW_NS_PER_S);
    h->max_headers_count = 100;
    if (!o)
        return;
    h->max_connection_duration_ns = sw_gw_duration(o->max_connection_duration, 0);
    h->max_stream_duration_ns = sw_gw_duration(o->max_stream_duration, 0);
    h->max_headers_count = u32v(o->max_headers_count, 100);
    h->max_requests_per_connection = u32v(o->max_requests_per_connection, 0);
    h->underscores = (enum sw_gw_underscores)o->headers_with_underscores_action;
}

static void build_switches(struct sw_gw_build *b, const Sw__HttpConnectionManager *in,
                           struct sw_gw_hcm *h)
{
    h->server_name =
        in->server_name.len ? sw_gw_text(b, &in->server_name) : SW_SLICE_LIT("spanwire");
    h->server_header = (enum sw_gw_server_header)in->server_header_transformation;
    h->use_remote_address = boolv(in->use_remote_address, false);
    h->skip_xff_append = in->skip_xff_append;
    h->xff_trusted_hops = in->xff_num_trusted_hops;
    h->generate_request_id = boolv(in->generate_request_id, true);
    h->preserve_request_id = in->preserve_external_request_id;
    h->request_id_in_response = in->always_set_request_id_in_response;
    h->xfcc = (enum sw_gw_xfcc)in->forward_client_cert_details;
    h->xfcc_uri = in->set_current_client_cert_details && in->set_current_client_cert_details->uri;
    h->normalize_path = boolv(in->normalize_path, false);
    h->merge_slashes = in->merge_slashes;
    h->escaped_slash = in->path_with_escaped_slashes_action
                           ? (enum sw_gw_escaped_slash)(in->path_with_escaped_slashes_action - 1)
                           : SW_GW_SLASH_KEEP;
    h->strip_any_port = in->strip_port_mode_case ==
                            SW__HTTP_CONNECTION_MANAGER__STRIP_PORT_MODE_STRIP_ANY_HOST_PORT &&
                        in->strip_any_host_port;
    h->strip_matching_port = in->strip_matching_host_port;
    h->strip_trailing_dot = in->strip_trailing_host_dot;
    if (in->http_protocol_options) {
        h->accept_http10 = in->http_protocol_options->accept_http_10;
        h->h1_trailers = in->http_protocol_options->enable_trailers;
    }
    h->max_headers_kb = u32v(in->max_request_headers_kb, 60);
    sw_gw_build_h2(in->http2_protocol_options, &h->h2);
}

static int check_enums(struct sw_gw_build *b, const Sw__HttpConnectionManager *in)
{
    const Sw__HttpProtocolOptions *o = in->common_http_protocol_options;

    if ((unsigned)in->codec_type > 2)
        return sw_err_set(b->err, SW_EINVAL, "codec_type %d is not supported", (int)in->codec_type);
    if ((unsigned)in->server_header_transformation > 2 ||
        (unsigned)in->forward_client_cert_details > 4 ||
        (unsigned)in->path_with_escaped_slashes_action > 4 ||
        (o && (unsigned)o->headers_with_underscores_action > 2))
        return sw_err_set(b->err, SW_EINVAL, "unknown enum value");
    if (in->max_request_headers_kb && (in->max_request_headers_kb->value == 0 ||
                                       in->max_request_headers_kb->value > HEADERS_KB_MAX))
        return sw_err_set(b->err, SW_EINVAL, "max_request_headers_kb out of range");
    if (o && sw_gw_check_u32(b, o->max_headers_count, 1, UINT32_MAX,
                             "common_http_protocol_options.max_headers_count") < 0)
        return SW_EINVAL;
    if (in->server_name.len && !sw_http_value_valid(SW_PB_SLICE(in->server_name)))
        return sw_err_set(b->err, SW_EINVAL, "server_name is not a header value");
    if (in->set_current_client_cert_details &&
        (boolv(in->set_current_client_cert_details->subject, false) ||
         in->set_current_client_cert_details->cert || in->set_current_client_cert_details->chain ||
         in->set_current_client_cert_details->dns))
        return sw_err_set(b->err, SW_EINVAL,
                          "set_current_client_cert_details: only 'uri' is supported");
    if (in->local_reply_config && in->local_reply_config->n_mappers)
        return sw_err_set(b->err, SW_EINVAL, "local_reply_config.mappers are not supported");
    return SW_OK;
}

/* The filters, and what the last of them, the router, says about itself. */
static int build_filters(struct sw_gw_build *b, const Sw__HttpConnectionManager *in,
                         struct sw_gw_hcm *h)
{
    const Sw__Router *router;
    int rc =
        sw_gw_build_filters(b, in->http_filters, in->n_http_filters, &h->filters, &h->n_filters);

    if (rc < 0)
        return rc;
    router = sw_gw_open_any(b, in->http_filters[in->n_http_filters - 1]->typed_config,
                            &sw__router__descriptor);
    if (!router)
        return SW_EINVAL;
    h->suppress_envoy = router->suppress_envoy_headers;
    return SW_OK;
}

static int build_hcm(struct sw_gw_build *b, const Sw__Any *any, struct sw_gw_hcm *h)
{
    const Sw__HttpConnectionManager *in =
        sw_gw_open_any(b, any, &sw__http_connection_manager__descriptor);
    int rc;

    if (!in)
        return SW_EINVAL;
    h->stat_prefix = sw_gw_text(b, &in->stat_prefix);
    if (h->stat_prefix.n == 0)
        return sw_err_set(b->err, SW_EINVAL, "stat_prefix missing");
    h->codec = (enum sw_gw_codec)in->codec_type;
    rc = check_enums(b, in);
    if (rc < 0)
        return rc;
    build_switches(b, in, h);
    build_timeouts(in, h);
    rc = build_upgrades(b, in, h);
    if (rc == SW_OK)
        rc = build_filters(b, in, h);
    if (rc == SW_OK)
        rc = sw_gw_build_logs(b, in->access_log, in->n_access_log, &h->logs, &h->n_logs);
    if (rc == SW_OK)
        rc = build_routes_of(b, in, h);
    return rc;
}

/* ---- TCP ---- */

static int build_tunnel(struct sw_gw_build *b, const Sw__TcpProxy__TunnelingConfig *in,
                        struct sw_gw_tcp_proxy *t)
{
    struct sw_gw_tunneling *tu = SW_ARENA_NEW(b->arena, struct sw_gw_tunneling);
    int rc;

    if (in->hostname.len == 0)
        return sw_err_set(b->err, SW_EINVAL, "tunneling_config without a hostname");
    if (in->post_path.len && !in->use_post)
        return sw_err_set(b->err, SW_EINVAL, "tunneling_config: post_path without use_post");
    if (in->use_post)
        return sw_err_set(b->err, SW_EINVAL, "tunneling_config: use_post is not supported");
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
        return w->cluster.n ? SW_OK : sw_err_set(b->err, SW_EINVAL, "cluster missing");
    }
    if (in->cluster_specifier_case != SW__TCP_PROXY__CLUSTER_SPECIFIER_WEIGHTED_CLUSTERS ||
        in->weighted_clusters->n_clusters == 0)
        return sw_err_set(b->err, SW_EINVAL, "neither cluster nor weighted_clusters");
    w = sw_arena_array(b->arena, in->weighted_clusters->n_clusters, sizeof(*w));
    for (size_t i = 0; i < in->weighted_clusters->n_clusters; i++) {
        w[i].cluster = sw_gw_text(b, &in->weighted_clusters->clusters[i]->name);
        w[i].weight = in->weighted_clusters->clusters[i]->weight;
        t->total_weight += w[i].weight;
        if (w[i].cluster.n == 0)
            return sw_err_set(b->err, SW_EINVAL, "weighted cluster without a name");
    }
    t->clusters = w;
    t->n_clusters = in->weighted_clusters->n_clusters;
    return t->total_weight ? SW_OK : sw_err_set(b->err, SW_EINVAL, "the sum of weights is 0");
}

static int build_tcp(struct sw_gw_build *b, const Sw__Any *any, struct sw_gw_tcp_proxy *t)
{
    const Sw__TcpProxy *in = sw_gw_open_any(b, any, &sw__tcp_proxy__descriptor);
    int rc;

    if (!in)
        return SW_EINVAL;
    t->stat_prefix = sw_gw_text(b, &in->stat_prefix);
    if (t->stat_prefix.n == 0)
        return sw_err_set(b->err, SW_EINVAL, "stat_prefix missing");
    if (in->on_demand)
        return sw_err_set(b->err, SW_EINVAL, "on_demand is not supported");
    t->idle_timeout_ns = sw_gw_duration(in->idle_timeout, 3600 * SW_NS_PER_S);
    t->max_duration_ns = sw_gw_duration(in->max_downstream_connection_duration, 0);
    t->max_connect_attempts = (uint32_t)sw_min(u32v(in->max_connect_attempts, 1), ATTEMPTS_MAX);
    rc = sw_gw_check_u32(b, in->max_connect_attempts, 1, UINT32_MAX, "max_connect_attempts");
    if (rc == SW_OK)
        rc = build_tcp_clusters(b, in, t);
    if (rc == SW_OK && in->tunneling_config)
        rc = build_tunnel(b, in->tunneling_config, t);
    if (rc == SW_OK)
        rc = sw_gw_build_logs(b, in->access_log, in->n_access_log, &t->logs, &t->n_logs);
    return rc;
}

/* ---- chains ---- */

static int build_cidrs(struct sw_gw_build *b, Sw__CidrRange *const *in, size_t n,
                       const struct sw_cidr **ret, size_t *ret_n)
{
    struct sw_cidr *out = sw_arena_array(b->arena, n + 1, sizeof(*out));

    for (size_t i = 0; i < n; i++) {
        char *text =
            sw_arena_printf(b->tmp, "%.*s/%u", (int)sw_min(in[i]->address_prefix.len, 64),
                            (const char *)in[i]->address_prefix.data, u32v(in[i]->prefix_len, 0));

        if (sw_cidr_parse(sw_slice_str(text), &out[i], b->err) < 0)
            return SW_EINVAL;
    }
    *ret = out;
    *ret_n = n;
    return SW_OK;
}

static int build_names(struct sw_gw_build *b, const Sw__FilterChainMatch *in,
                       struct sw_gw_chain_match *m)
{
    struct sw_slice *names = sw_arena_array(b->arena, in->n_server_names + 1, sizeof(*names));

    for (size_t i = 0; i < in->n_server_names; i++) {
        struct sw_slice n = sw_gw_lower(b, SW_PB_SLICE(in->server_names[i]));

        if (n.n == 0 || sw_slice_eq_str(n, "*") || (n.p[0] == '*' && n.n > 1 && n.p[1] != '.'))
            return sw_err_set(b->err, SW_EINVAL, "server_names: '%.*s' is not a name or '*.suffix'",
                              (int)sw_min(n.n, 60), n.p);
        names[i] = n.p[0] == '*' ? sw_slice_from(n, 1) : n;
    }
    m->names = names;
    m->n_names = in->n_server_names;
    return SW_OK;
}

static int build_match(struct sw_gw_build *b, const Sw__FilterChainMatch *in,
                       struct sw_gw_chain_match *m)
{
    struct sw_slice *alpn;
    uint16_t *ports;
    int rc;

    if (!in)
        return SW_OK;
    if (in->address_suffix.len || in->n_direct_source_prefix_ranges)
        return sw_err_set(b->err, SW_EINVAL, "filter_chain_match uses fields not supported");
    rc = sw_gw_check_u32(b, in->destination_port, 1, UINT16_MAX,
                         "filter_chain_match.destination_port");
    if (rc < 0)
        return rc;
    m->port = (uint16_t)u32v(in->destination_port, 0);
    m->source_type = (uint8_t)in->source_type;
    m->transport = sw_gw_text(b, &in->transport_protocol);
    alpn = sw_arena_array(b->arena, in->n_application_protocols + 1, sizeof(*alpn));
    for (size_t i = 0; i < in->n_application_protocols; i++)
        alpn[i] = sw_gw_text(b, &in->application_protocols[i]);
    m->alpn = alpn;
    m->n_alpn = in->n_application_protocols;
    ports = sw_arena_array(b->arena, in->n_source_ports + 1, sizeof(*ports));
    for (size_t i = 0; i < in->n_source_ports; i++) {
        if (in->source_ports[i] == 0 || in->source_ports[i] > UINT16_MAX)
            return sw_err_set(b->err, SW_EINVAL, "filter_chain_match.source_ports[%zu]: not a port",
                              i);
        ports[i] = (uint16_t)in->source_ports[i];
    }
    m->src_ports = ports;
    m->n_src_ports = in->n_source_ports;
    rc = build_names(b, in, m);
    if (rc == SW_OK)
        rc = build_cidrs(b, in->prefix_ranges, in->n_prefix_ranges, &m->dst, &m->n_dst);
    if (rc == SW_OK)
        rc = build_cidrs(b, in->source_prefix_ranges, in->n_source_prefix_ranges, &m->src,
                         &m->n_src);
    return rc;
}

static int build_chain(struct sw_gw_build *b, const Sw__FilterChain *in, struct sw_gw_chain *c)
{
    struct sw_slice packed = sw_pb_pack(b->tmp, &in->base);
    const Sw__Any *any;
    int rc;

    c->name = sw_gw_text(b, &in->name);
    c->hash = sw_siphash13(5, 6, packed.p, packed.n);
    c->connect_timeout_ns = sw_gw_duration(in->transport_socket_connect_timeout, 0);
    rc = build_match(b, in->filter_chain_match, &c->match);
    if (rc == SW_OK)
        rc = sw_gw_build_tls_down(b, in->transport_socket, &c->tls);
    if (rc < 0)
        return rc;
    if (in->n_filters != 1 ||
        in->filters[0]->config_type_case != SW__FILTER__CONFIG_TYPE_TYPED_CONFIG)
        return sw_err_set(b->err, SW_EINVAL,
                          "exactly one network filter is supported: the connection manager or "
                          "tcp_proxy");
    any = in->filters[0]->typed_config;
    if (sw_pb_any_is(any, &sw__http_connection_manager__descriptor)) {
        c->kind = SW_GW_CHAIN_HTTP;
        return build_hcm(b, any, &c->hcm);
    }
    if (sw_pb_any_is(any, &sw__tcp_proxy__descriptor)) {
        c->kind = SW_GW_CHAIN_TCP;
        return build_tcp(b, any, &c->tcp);
    }
    return sw_err_set(b->err, SW_EINVAL, "network filter '%.*s': type '%.*s' is not supported",
                      (int)sw_min(in->filters[0]->name.len, 60),
                      (const char *)in->filters[0]->name.data, (int)sw_min(any->type_url.len, 80),
                      (const char *)any->type_url.data);
}

/* ---- listener ---- */

static int build_listener_filters(struct sw_gw_build *b, const Sw__Listener *in,
                                  struct sw_gw_listener *l)
{
    for (size_t i = 0; i < in->n_listener_filters; i++) {
        const Sw__ListenerFilter *f = in->listener_filters[i];
        const Sw__Any *any = f->typed_config;

        if (f->config_type_case != SW__LISTENER_FILTER__CONFIG_TYPE_TYPED_CONFIG)
            return sw_err_set(b->err, SW_EINVAL, "listener filter without typed_config");
        if (sw_pb_any_is(any, &sw__tls_inspector__descriptor)) {
            l->tls_inspector = true;
        } else if (sw_pb_any_is(any, &sw__proxy_protocol__descriptor)) {
            const Sw__ProxyProtocol *p = sw_gw_open_any(b, any, &sw__proxy_protocol__descriptor);

            if (!p)
                return SW_EINVAL;
            l->proxy_protocol = true;
            l->proxy_optional = p->allow_requests_without_proxy_protocol;
        } else if (sw_slice_eq_str(
                       sw_pb_type_name(SW_PB_SLICE(any->type_url)),
                       "envoy.extensions.filters.listener.original_dst.v3.OriginalDst")) {
            l->original_dst = true;
        } else if (!sw_pb_any_is(any, &sw__udp_proxy_config__descriptor)) {
            return sw_err_set(b->err, SW_EINVAL, "listener filter '%.*s' is not supported",
                              (int)sw_min(f->name.len, 60), (const char *)f->name.data);
        }
    }
    return SW_OK;
}

/* Datagrams become capsules either way; any other filter would change them. */
static int check_session_filters(struct sw_gw_build *b, const Sw__UdpProxyConfig *in)
{
    bool capsules = false;

    for (size_t i = 0; i < in->n_session_filters; i++) {
        const Sw__UdpProxyConfig__SessionFilter *f = in->session_filters[i];

        if (f->config_type_case != SW__UDP_PROXY_CONFIG__SESSION_FILTER__CONFIG_TYPE_TYPED_CONFIG ||
            !sw_pb_any_is(f->typed_config, &sw__http_capsule__descriptor))
            return sw_err_set(b->err, SW_EINVAL,
                              "udp_proxy: session filter '%.*s' is not supported",
                              (int)sw_min(f->name.len, 60), (const char *)f->name.data);
        capsules = true;
    }
    if (capsules != (in->tunneling_config != NULL))
        return sw_err_set(b->err, SW_EINVAL,
                          "udp_proxy: tunneling_config and the session filter http_capsule need "
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
    uint32_t proxy_port = has_port ? u32v(in->proxy_port, 0) : 0;
    int rc;

    if (in->use_post || in->post_path.len)
        return sw_err_set(b->err, SW_EINVAL, "udp_proxy: use_post is not supported");
    if (p->use_per_packet_load_balancing)
        return sw_err_set(b->err, SW_EINVAL,
                          "udp_proxy: tunneling_config excludes use_per_packet_load_balancing");
    if (in->proxy_host.len == 0 || in->target_host.len == 0)
        return sw_err_set(b->err, SW_EINVAL, "udp_proxy: proxy_host or target_host missing");
    if (in->default_target_port == 0 || in->default_target_port > UINT16_MAX ||
        proxy_port > UINT16_MAX)
        return sw_err_set(b->err, SW_EINVAL, "udp_proxy: not a port");
    t->proxy_port = (uint16_t)proxy_port;
    t->target_port = (uint16_t)in->default_target_port;
    if (in->buffer_options) {
        const Sw__UInt64Value *bytes = in->buffer_options->max_buffered_bytes;

        t->max_datagrams = u32v(in->buffer_options->max_buffered_datagrams, 1024);
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

static int build_udp(struct sw_gw_build *b, const Sw__Listener *in, struct sw_gw_udp_proxy *u)
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
        return sw_err_set(b->err, SW_EINVAL, "a UDP listener needs udp_proxy");
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
        return sw_err_set(b->err, SW_EINVAL, "udp_proxy without stat_prefix or cluster");
    return sw_gw_build_logs(b, p->access_log, p->n_access_log, &u->logs, &u->n_logs);
}

static int build_addrs(struct sw_gw_build *b, const Sw__Listener *in, struct sw_gw_listener *l)
{
    struct sw_gw_addr *a;
    uint8_t protocol = 0;
    int rc = SW_OK;

    if (in->listener_specifier_case == SW__LISTENER__LISTENER_SPECIFIER_INTERNAL_LISTENER) {
        l->kind = SW_GW_LISTEN_INTERNAL;
        return in->address ? sw_err_set(b->err, SW_EINVAL, "internal_listener excludes address")
                           : SW_OK;
    }
    if (in->n_additional_addresses >= ADDRS_MAX)
        return sw_err_set(b->err, SW_EINVAL, "too many addresses");
    a = sw_arena_array(b->arena, in->n_additional_addresses + 1, sizeof(*a));
    rc = sw_gw_build_addr(b, in->address, false, &a[0], NULL);
    for (size_t i = 0; rc == SW_OK && i < in->n_additional_addresses; i++)
        rc = sw_gw_build_addr(b, in->additional_addresses[i]->address, false, &a[i + 1], NULL);
    if (rc < 0)
        return rc;
    l->addrs = a;
    l->n_addrs = in->n_additional_addresses + 1;
    if (in->address->address_case == SW__ADDRESS__ADDRESS_SOCKET_ADDRESS)
        protocol = (uint8_t)in->address->socket_address->protocol;
    else
        return sw_err_set(b->err, SW_EINVAL, "a listener needs an IP address");
    l->kind = protocol == SW__SOCKET_ADDRESS__PROTOCOL__UDP ? SW_GW_LISTEN_UDP : SW_GW_LISTEN_TCP;
    return SW_OK;
}

/* Two chains that match the same connections are refused, as Envoy does. */
static int check_unique(struct sw_gw_build *b, const Sw__Listener *in)
{
    struct sw_map seen = {0};
    int rc = SW_OK;

    for (size_t i = 0; rc == SW_OK && i < in->n_filter_chains; i++) {
        const Sw__FilterChainMatch *m = in->filter_chains[i]->filter_chain_match;
        struct sw_slice key = m ? sw_pb_pack(b->tmp, &m->base) : sw_slice("", 0);

        if (sw_map_put(&seen, key, in->filter_chains[i]))
            rc =
                sw_err_set(b->err, SW_EINVAL, "filter_chains[%zu]: same match as another chain", i);
    }
    sw_map_done(&seen);
    return rc;
}

static int build_all_chains(struct sw_gw_build *b, const Sw__Listener *in, struct sw_gw_listener *l)
{
    int rc = check_unique(b, in);

    if (in->n_filter_chains > CHAINS_MAX)
        return sw_err_set(b->err, SW_EINVAL, "too many filter chains");
    if (in->filter_chain_matcher)
        return sw_err_set(b->err, SW_EINVAL, "filter_chain_matcher is not supported");
    l->chains = sw_arena_array(b->arena, in->n_filter_chains + 1, sizeof(*l->chains));
    for (size_t i = 0; rc == SW_OK && i < in->n_filter_chains; i++) {
        l->n_chains++; /* first: a half-built one is released too */
        rc = build_chain(b, in->filter_chains[i], &l->chains[i]);
        if (rc < 0)
            return sw_err_prefix(b->err, "filter_chains[%zu]", i);
        if (l->chains[i].match.n_names && !l->tls_inspector)
            return sw_err_set(b->err, SW_EINVAL,
                              "filter_chains[%zu]: server_names needs the TLS inspector", i);
    }
    if (rc == SW_OK && in->default_filter_chain) {
        l->default_chain = SW_ARENA_NEW(b->arena, struct sw_gw_chain);
        rc = build_chain(b, in->default_filter_chain, l->default_chain);
        if (rc < 0)
            return sw_err_prefix(b->err, "default_filter_chain");
    }
    if (rc == SW_OK && l->n_chains == 0 && !l->default_chain)
        return sw_err_set(b->err, SW_EINVAL, "a listener needs a filter chain");
    return rc;
}

/* Everything that the socket depends on. */
static uint64_t socket_hash(const struct sw_gw_listener *l)
{
    uint64_t h = sw_siphash13(7, 8, l->name.p, l->name.n);

    for (size_t i = 0; i < l->n_addrs; i++) {
        h = h * 31 + sw_siphash13(7, 8, l->addrs[i].ip.ip.b, sizeof(l->addrs[i].ip.ip.b));
        h = h * 31 + l->addrs[i].ip.port;
    }
    return h * 31 + (uint64_t)l->kind * 4 + (l->transparent ? 2 : 0) + (l->bind ? 1 : 0) +
           ((uint64_t)l->backlog << 8);
}

static int build_listener(struct sw_gw_build *b, const Sw__Listener *in, struct sw_gw_listener *l)
{
    int rc;

    l->name = sw_gw_text(b, &in->name);
    if (l->name.n == 0)
        return sw_err_set(b->err, SW_EINVAL, "listener without a name");
    l->bind = boolv(in->bind_to_port, true);
    l->transparent = boolv(in->transparent, false);
    l->original_dst = boolv(in->use_original_dst, false);
    l->filters_timeout_ns = sw_gw_duration(in->listener_filters_timeout, 15 * SW_NS_PER_S);
    l->continue_on_timeout = in->continue_on_listener_filters_timeout;
    l->buffer_limit = u32v(in->per_connection_buffer_limit_bytes, 1 << 20);
    l->backlog = u32v(in->tcp_backlog_size, 0);
    l->metadata = sw_gw_build_metadata(b, in->metadata);
    rc = build_addrs(b, in, l);
    if (rc == SW_OK)
        rc = build_listener_filters(b, in, l);
    if (rc == SW_OK)
        rc = sw_gw_build_logs(b, in->access_log, in->n_access_log, &l->logs, &l->n_logs);
    if (rc == SW_OK)
        rc = l->kind == SW_GW_LISTEN_UDP ? build_udp(b, in, &l->udp) : build_all_chains(b, in, l);
    if (rc == SW_OK)
        rc = sw_gw_seal_tickets(l, b->err);
    l->hash = socket_hash(l);
    return rc;
}

struct sw_gw_listener *sw_gw_build_listener(struct sw_gw_build *b, struct sw_slice bytes)
{
    const Sw__Listener *in = SW_PB_UNPACK(b->tmp, Sw__Listener, sw__listener, bytes, NULL, b->err);
    struct sw_gw_listener *l;
    int rc;

    if (!in)
        return NULL;
    l = SW_NEW(struct sw_gw_listener);
    atomic_init(&l->refs, 1);
    b->arena = &l->arena;
    rc = build_listener(b, in, l);
    l->regexes = b->regexes.p;
    l->n_regexes = b->regexes.n;
    l->owned_logs = b->logs.p;
    l->n_owned_logs = b->logs.n;
    b->regexes.p = NULL;
    b->regexes.n = b->regexes.cap = 0;
    b->logs.p = NULL;
    b->logs.n = b->logs.cap = 0;
    return rc == SW_OK ? l : sw_gw_listener_unref(l);
}
