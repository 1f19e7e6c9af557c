/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for listeners, their filters and their TLS. */
#include <string.h>

#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/httpfilter.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/tls.pb-c.h>

#include "base/buf.h"
#include "control/lint/lint_int.h"
#include "io/addr.h"
#include "proto/pb.h"
#include "proto/types.h"

/* --- filter chains --- */

static void check_server_names(struct lint *l, const Sw__FilterChainMatch *m, const char *field)
{
    for (size_t i = 0; i < m->n_server_names; i++) {
        struct sw_slice s = SW_PB_SLICE(m->server_names[i]);
        struct sw_slice rest = sw_slice_has_prefix(s, SW_SLICE_LIT("*.")) ? sw_slice_from(s, 2) : s;

        if (s.n == 0)
            sw_lint_warn(l, field, "a server name is empty");
        else if (rest.n == 0 || sw_slice_find(rest, '*') >= 0)
            sw_lint_error(l, field, "server name '%.*s' is neither full nor '*.suffix'",
                          SW_SLICE_ARG(sw_slice_head(s, 80)));
    }
}

/*
 * Two chains that the same connection could take by equal right are refused. Envoy compares each
 * server name with the rest of the match; the rest as packed bytes is a key for that.
 */
static void check_unique(struct lint *l, const Sw__FilterChainMatch *m, size_t index,
                         struct sw_map *seen)
{
    Sw__FilterChainMatch rest = *m;
    struct sw_slice any = {0};
    struct sw_slice packed;
    size_t n = m->n_server_names ? m->n_server_names : 1;

    rest.n_server_names = 0;
    packed = sw_pb_pack(&l->a, &rest.base);
    for (size_t i = 0; i < n; i++) {
        struct sw_slice name = m->n_server_names ? SW_PB_SLICE(m->server_names[i]) : any;
        char *p = sw_arena_alloc(&l->a, name.n + packed.n + 1);

        if (name.n)
            memcpy(p, name.p, name.n);
        memcpy(p + name.n + 1, packed.p, packed.n);
        if (sw_map_put(seen, sw_slice(p, name.n + packed.n + 1), seen))
            sw_lint_error(l, sw_arena_printf(&l->a, "filter_chains[%zu].filter_chain_match", index),
                          "an earlier chain matches the same ('%.*s')",
                          SW_SLICE_ARG(sw_slice_head(name, 80)));
    }
}

static bool has_listener_filter(const Sw__Listener *m, const ProtobufCMessageDescriptor *type)
{
    for (size_t i = 0; i < m->n_listener_filters; i++) {
        const Sw__ListenerFilter *f = m->listener_filters[i];

        if (f->config_type_case == SW__LISTENER_FILTER__CONFIG_TYPE_TYPED_CONFIG &&
            sw_pb_any_is(f->typed_config, type))
            return true;
    }
    return false;
}

static void check_chains(struct lint *l, const Sw__Listener *m)
{
    static const Sw__FilterChainMatch none = SW__FILTER_CHAIN_MATCH__INIT;
    bool inspects = has_listener_filter(m, &sw__tls_inspector__descriptor);
    struct sw_map seen = {0};
    struct sw_map names = {0};

    for (size_t i = 0; i < m->n_filter_chains; i++) {
        const Sw__FilterChain *c = m->filter_chains[i];
        const Sw__FilterChainMatch *match = c->filter_chain_match ? c->filter_chain_match : &none;
        const char *field = sw_arena_printf(&l->a, "filter_chains[%zu].filter_chain_match", i);

        check_server_names(l, match, field);
        check_unique(l, match, i, &seen);
        if (!inspects && (match->n_server_names || match->transport_protocol.len ||
                          match->n_application_protocols))
            sw_lint_warn(l, field, "needs the TLS inspector, which Envoy adds by itself");
        if (c->name.len && sw_map_put(&names, SW_PB_SLICE(c->name), &names))
            sw_lint_error(l, sw_arena_printf(&l->a, "filter_chains[%zu].name", i),
                          "another chain has it too");
    }
    sw_map_done(&seen);
    sw_map_done(&names);
}

static bool is_udp(const Sw__Listener *m)
{
    return m->address && m->address->address_case == SW__ADDRESS__ADDRESS_SOCKET_ADDRESS &&
           m->address->socket_address->protocol == SW__SOCKET_ADDRESS__PROTOCOL__UDP;
}

static void check_bind(struct lint *l, const Sw__Address *m)
{
    struct sw_slice at;
    struct sw_ip ip;

    if (!m || m->address_case != SW__ADDRESS__ADDRESS_SOCKET_ADDRESS)
        return;
    at = SW_PB_SLICE(m->socket_address->address);
    if (at.n && sw_ip_parse(at, &ip, NULL) != SW_OK)
        sw_lint_error(l, "address.socket_address.address", "'%.*s' is not an IP address",
                      SW_SLICE_ARG(sw_slice_head(at, 80)));
}

static void listener(struct lint *l, const void *msg)
{
    const Sw__Listener *m = msg;
    bool internal =
        m->listener_specifier_case == SW__LISTENER__LISTENER_SPECIFIER_INTERNAL_LISTENER;

    if (internal && m->address)
        sw_lint_error(l, "address", "excludes internal_listener");
    if (!internal && !m->address)
        sw_lint_error(l, "address", "is missing");
    check_bind(l, m->address);
    if (is_udp(m)) {
        if (m->n_filter_chains || m->default_filter_chain)
            sw_lint_error(l, "filter_chains", "are for TCP");
        if (!has_listener_filter(m, &sw__udp_proxy_config__descriptor))
            sw_lint_warn(l, "listener_filters", "no filter takes the datagrams");
        return;
    }
    if (m->n_filter_chains == 0 && !m->default_filter_chain)
        sw_lint_error(l, "filter_chains", "is empty");
    check_chains(l, m);
}

static void filter_chain(struct lint *l, const void *msg)
{
    const Sw__FilterChain *m = msg;

    if (m->n_filters == 0)
        sw_lint_warn(l, "filters", "is empty: connections would be closed");
    for (size_t i = 0; i + 1 < m->n_filters; i++) {
        if (m->filters[i]->config_type_case == SW__FILTER__CONFIG_TYPE_TYPED_CONFIG &&
            (sw_pb_any_is(m->filters[i]->typed_config, &sw__http_connection_manager__descriptor) ||
             sw_pb_any_is(m->filters[i]->typed_config, &sw__tcp_proxy__descriptor)))
            sw_lint_error(l, sw_arena_printf(&l->a, "filters[%zu]", i), "must be the last");
    }
}

/* --- HTTP --- */

static void manager(struct lint *l, const void *msg)
{
    const Sw__HttpConnectionManager *m = msg;

    for (size_t i = 0; i < m->n_http_filters; i++) {
        const Sw__HttpFilter *f = m->http_filters[i];
        bool router = f->config_type_case == SW__HTTP_FILTER__CONFIG_TYPE_TYPED_CONFIG &&
                      sw_pb_any_is(f->typed_config, &sw__router__descriptor);

        if (router != (i + 1 == m->n_http_filters))
            sw_lint_error(l, sw_arena_printf(&l->a, "http_filters[%zu]", i),
                          router ? "the router must be the last" : "the last must be the router");
    }
    if (m->n_http_filters == 0)
        sw_lint_warn(l, "http_filters", "is empty: nothing answers");
}

static void rds(struct lint *l, const void *msg)
{
    const Sw__Rds *m = msg;

    if (m->route_config_name.len == 0)
        sw_lint_warn(l, "route_config_name", "is empty");
    sw_lint_ref(l, REF_ROUTE, SW_PB_SLICE(m->route_config_name), "route_config_name");
}

/* --- bytes --- */

static void tcp_proxy(struct lint *l, const void *msg)
{
    const Sw__TcpProxy *m = msg;

    if (m->cluster_specifier_case == SW__TCP_PROXY__CLUSTER_SPECIFIER_CLUSTER) {
        if (m->cluster.len == 0)
            sw_lint_warn(l, "cluster", "is empty");
        sw_lint_ref(l, REF_CLUSTER, SW_PB_SLICE(m->cluster), "cluster");
    }
}

static void tcp_weighted(struct lint *l, const void *msg)
{
    const Sw__TcpProxy__WeightedCluster *m = msg;

    for (size_t i = 0; i < m->n_clusters; i++)
        sw_lint_ref(l, REF_CLUSTER, SW_PB_SLICE(m->clusters[i]->name),
                    sw_arena_printf(&l->a, "clusters[%zu]", i));
}

static void tunneling(struct lint *l, const void *msg)
{
    const Sw__TcpProxy__TunnelingConfig *m = msg;

    sw_lint_format(l, SW_PB_SLICE(m->hostname), "hostname");
    if (m->post_path.len && !m->use_post)
        sw_lint_error(l, "post_path", "needs use_post");
}

static void udp_proxy(struct lint *l, const void *msg)
{
    const Sw__UdpProxyConfig *m = msg;

    if (m->route_specifier_case == SW__UDP_PROXY_CONFIG__ROUTE_SPECIFIER_CLUSTER)
        sw_lint_ref(l, REF_CLUSTER, SW_PB_SLICE(m->cluster), "cluster");
    if (!m->tunneling_config)
        return;
    if (m->n_session_filters == 0 && !m->tunneling_config->use_post)
        sw_lint_warn(l, "session_filters", "a tunnel needs http_capsule");
    if (m->use_per_packet_load_balancing)
        sw_lint_error(l, "use_per_packet_load_balancing", "excludes tunneling_config");
}

static void udp_tunneling(struct lint *l, const void *msg)
{
    const Sw__UdpProxyConfig__UdpTunnelingConfig *m = msg;

    sw_lint_format(l, SW_PB_SLICE(m->proxy_host), "proxy_host");
    sw_lint_format(l, SW_PB_SLICE(m->target_host), "target_host");
    if (m->post_path.len && !m->use_post)
        sw_lint_error(l, "post_path", "needs use_post");
}

static void udp_route(struct lint *l, const void *msg)
{
    const Sw__UdpRoute *m = msg;

    if (m->cluster_specifier_case == SW__UDP_ROUTE__CLUSTER_SPECIFIER_CLUSTER)
        sw_lint_ref(l, REF_CLUSTER, SW_PB_SLICE(m->cluster), "cluster");
}

/* --- TLS --- */

static void downstream_tls(struct lint *l, const void *msg)
{
    const Sw__DownstreamTlsContext *m = msg;
    const Sw__CommonTlsContext *c = m->common_tls_context;

    if (!c || (c->n_tls_certificates == 0 && c->n_tls_certificate_sds_secret_configs == 0))
        sw_lint_error(l, "common_tls_context", "has no certificate");
    if (m->require_client_certificate && m->require_client_certificate->value &&
        (!c || c->validation_context_type_case ==
                   SW__COMMON_TLS_CONTEXT__VALIDATION_CONTEXT_TYPE__NOT_SET))
        sw_lint_warn(l, "require_client_certificate", "needs a validation context");
}

static void common_tls(struct lint *l, const void *msg)
{
    const Sw__CommonTlsContext *m = msg;

    if (m->n_tls_certificates && m->n_tls_certificate_sds_secret_configs)
        sw_lint_error(l, "tls_certificates", "exclude certificates by SDS");
    for (size_t i = 0; i < m->n_alpn_protocols; i++) {
        if (m->alpn_protocols[i].len == 0)
            sw_lint_warn(l, "alpn_protocols", "one is empty");
        else if (m->alpn_protocols[i].len > 255)
            sw_lint_error(l, "alpn_protocols", "must have 1 to 255 bytes each");
    }
    /* In a combined one the roots come by SDS. */
    if (m->validation_context_type_case ==
            SW__COMMON_TLS_CONTEXT__VALIDATION_CONTEXT_TYPE_VALIDATION_CONTEXT &&
        m->validation_context->n_match_typed_subject_alt_names &&
        !m->validation_context->trusted_ca)
        sw_lint_error(l, "validation_context", "names to match need trusted_ca");
}

static void sds(struct lint *l, const void *msg)
{
    const Sw__SdsSecretConfig *m = msg;

    if (m->sds_config)
        sw_lint_ref(l, REF_SECRET, SW_PB_SLICE(m->name), "name");
}

static void upstream_tls(struct lint *l, const void *msg)
{
    const Sw__UpstreamTlsContext *m = msg;

    const Sw__CommonTlsContext *c = m->common_tls_context;

    if (m->sni.len > 255)
        sw_lint_error(l, "sni", "has more than 255 bytes");
    if (c && c->n_tls_certificates + c->n_tls_certificate_sds_secret_configs > 1)
        sw_lint_error(l, "common_tls_context", "a client has one certificate at most");
}

static void validation(struct lint *l, const void *msg)
{
    const Sw__CertificateValidationContext *m = msg;

    if (!m->trusted_ca && m->system_root_certs)
        sw_lint_warn(l, "system_root_certs", "means nothing to Envoy: nothing is verified");
}

const struct lint_rule sw_lint_listener_rules[] = {
    {&sw__listener__descriptor, listener},
    {&sw__filter_chain__descriptor, filter_chain},
    {&sw__http_connection_manager__descriptor, manager},
    {&sw__rds__descriptor, rds},
    {&sw__tcp_proxy__descriptor, tcp_proxy},
    {&sw__tcp_proxy__weighted_cluster__descriptor, tcp_weighted},
    {&sw__tcp_proxy__tunneling_config__descriptor, tunneling},
    {&sw__udp_proxy_config__descriptor, udp_proxy},
    {&sw__udp_proxy_config__udp_tunneling_config__descriptor, udp_tunneling},
    {&sw__udp_route__descriptor, udp_route},
    {&sw__downstream_tls_context__descriptor, downstream_tls},
    {&sw__upstream_tls_context__descriptor, upstream_tls},
    {&sw__common_tls_context__descriptor, common_tls},
    {&sw__sds_secret_config__descriptor, sds},
    {&sw__certificate_validation_context__descriptor, validation},
    {NULL, NULL},
};
