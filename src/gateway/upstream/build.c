/* SPDX-License-Identifier: Apache-2.0 */
/* Cluster and ClusterLoadAssignment -> settings and members. */
#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>

#include "base/hex.h"
#include "base/mem.h"
#include "base/time.h"
#include "gateway/config/build.h"
#include "gateway/upstream/build.h"
#include "gateway/upstream/cluster.h"
#include "http/grammar.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "xds/limits.h"

enum { ENDPOINTS_MAX = 1000000, CHECKS_MAX = 8 };

/* The sweep for ejected members takes the main thread's time. */
#define SWEEP_LEAST_NS (10 * SW_NS_PER_MS)
#define DNS_REFRESH_NS (5 * SW_NS_PER_S)

/* ---- settings ---- */

static void build_limits(const Sw__CircuitBreakers *in, struct sw_gw_cluster_spec *s)
{
    const struct sw_gw_limits base = {
        .max_connections = 1024, .max_pending = 1024, .max_requests = 1024, .max_retries = 3};

    s->limits = base;
    for (size_t i = 0; in && i < in->n_thresholds; i++) {
        const Sw__CircuitBreakers__Thresholds *t = in->thresholds[i];
        struct sw_gw_limits unused = base;
        /* No route has priority HIGH (route/build_action.c), so its thresholds apply to nothing. */
        struct sw_gw_limits *l = t->priority == SW__ROUTING_PRIORITY__HIGH ? &unused : &s->limits;

        l->max_connections = sw_gw_u32(t->max_connections, 1024);
        l->max_pending = sw_gw_u32(t->max_pending_requests, 1024);
        l->max_requests = sw_gw_u32(t->max_requests, 1024);
        l->max_retries = sw_gw_u32(t->max_retries, 3);
        if (t->retry_budget) {
            l->budget_percent =
                t->retry_budget->budget_percent ? t->retry_budget->budget_percent->value : 20;
            l->budget_min = sw_gw_u32(t->retry_budget->min_retry_concurrency, 3);
        }
    }
}

static void build_outlier(const Sw__OutlierDetection *in, struct sw_gw_outlier_opts *o)
{
    if (!in)
        return;
    o->on = true;
    o->consecutive_5xx = sw_gw_u32(in->consecutive_5xx, 5);
    if (sw_gw_u32(in->enforcing_consecutive_5xx, 100) == 0)
        o->consecutive_5xx = 0;
    o->consecutive_gateway = sw_gw_u32(in->consecutive_gateway_failure, 5);
    if (sw_gw_u32(in->enforcing_consecutive_gateway_failure, 0) == 0)
        o->consecutive_gateway = 0;
    o->consecutive_local = sw_gw_u32(in->consecutive_local_origin_failure, 5);
    o->split_local = in->split_external_local_origin_errors;
    o->interval_ns = sw_max(sw_gw_duration(in->interval, 10 * SW_NS_PER_S), SWEEP_LEAST_NS);
    o->base_ejection_ns = sw_gw_duration(in->base_ejection_time, 30 * SW_NS_PER_S);
    o->max_ejection_ns =
        sw_max(sw_gw_duration(in->max_ejection_time, 300 * SW_NS_PER_S), o->base_ejection_ns);
    o->max_percent = sw_gw_u32(in->max_ejection_percent, 10);
}

/* "00ff" of the text form, or the bytes themselves. */
static int build_payload(struct sw_gw_build *b, const Sw__HealthCheck__Payload *in,
                         struct sw_slice *ret)
{
    char *out;
    size_t n;

    *ret = sw_slice(NULL, 0);
    if (!in)
        return SW_OK;
    if (in->payload_case == SW__HEALTH_CHECK__PAYLOAD__PAYLOAD_BINARY) {
        *ret = sw_gw_text(b, &in->binary);
        return SW_OK;
    }
    n = in->text.len / 2;
    out = sw_arena_alloc(b->arena, n + 1);
    if (!sw_hex_read(SW_PB_SLICE(in->text), out, n))
        return SW_GW_BAD(b, "health check: payload text is not hex");
    *ret = sw_slice(out, n);
    return SW_OK;
}

static int build_http_check(struct sw_gw_build *b, const Sw__HealthCheck__HttpHealthCheck *in,
                            struct sw_gw_check *c)
{
    static const char *const methods[] = {"GET",    "GET",     "HEAD",    "POST",  "PUT",
                                          "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"};

    c->kind = SW_GW_CHECK_HTTP;
    c->host = sw_gw_text(b, &in->host);
    c->path = sw_gw_text(b, &in->path);
    c->h2 = in->codec_client_type == 1;
    if ((unsigned)in->method >= SW_ARRAY_LEN(methods) || in->codec_client_type > 1)
        return SW_GW_BAD(b, "http_health_check: method or codec not supported");
    c->method = sw_slice_str(methods[in->method]);
    if (c->path.n == 0 || c->path.p[0] != '/' || !sw_http_value_valid(c->path) ||
        sw_slice_find(c->path, ' ') >= 0)
        return SW_GW_BAD(b, "http_health_check: bad path");
    if (c->host.n && !sw_http_host_valid(c->host))
        return SW_GW_BAD(b, "http_health_check: bad host");
    c->expected = sw_arena_array(b->arena, in->n_expected_statuses + 1, sizeof(*c->expected));
    for (size_t i = 0; i < in->n_expected_statuses; i++) {
        c->expected[i].from = in->expected_statuses[i]->start;
        c->expected[i].to = in->expected_statuses[i]->end;
    }
    c->n_expected = in->n_expected_statuses;
    return SW_OK;
}

static int build_check(struct sw_gw_build *b, const Sw__HealthCheck *in, struct sw_gw_check *c)
{
    struct sw_slice *receive;
    int rc;

    c->timeout_ns = sw_gw_duration(in->timeout, 0);
    c->interval_ns = sw_gw_duration(in->interval, 0);
    c->jitter_ns = sw_gw_duration(in->interval_jitter, 0);
    if (in->no_traffic_interval)
        c->no_traffic_interval_ns =
            sw_max(sw_gw_duration(in->no_traffic_interval, 0), SW_NS_PER_MS);
    c->unhealthy_interval_ns =
        sw_max(sw_gw_duration(in->unhealthy_interval, c->interval_ns), SW_NS_PER_MS);
    c->unhealthy_threshold = in->unhealthy_threshold->value;
    c->healthy_threshold = in->healthy_threshold->value;
    c->alt_port = (uint16_t)sw_gw_u32(in->alt_port, 0);
    if (c->interval_ns < SW_NS_PER_MS)
        return SW_GW_BAD(b, "interval must be at least 1 ms");
    switch ((int)in->health_checker_case) {
    case SW__HEALTH_CHECK__HEALTH_CHECKER_HTTP_HEALTH_CHECK:
        return build_http_check(b, in->http_health_check, c);
    case SW__HEALTH_CHECK__HEALTH_CHECKER_GRPC_HEALTH_CHECK:
        c->kind = SW_GW_CHECK_GRPC;
        c->h2 = true;
        c->service = sw_gw_text(b, &in->grpc_health_check->service_name);
        c->host = sw_gw_text(b, &in->grpc_health_check->authority);
        if (c->service.n > 127 || (c->host.n && !sw_http_host_valid(c->host)))
            return SW_GW_BAD(b, "grpc_health_check: bad service or authority");
        return SW_OK;
    case SW__HEALTH_CHECK__HEALTH_CHECKER_TCP_HEALTH_CHECK:
        c->kind = SW_GW_CHECK_TCP;
        rc = build_payload(b, in->tcp_health_check->send, &c->send);
        receive = sw_arena_array(b->arena, in->tcp_health_check->n_receive + 1, sizeof(*receive));
        for (size_t i = 0; rc == SW_OK && i < in->tcp_health_check->n_receive; i++)
            rc = build_payload(b, in->tcp_health_check->receive[i], &receive[i]);
        c->receive = receive;
        c->n_receive = in->tcp_health_check->n_receive;
        return rc;
    default:
        return SW_GW_BAD(b, "health checker of an unknown kind");
    }
}

static int build_protocol(struct sw_gw_build *b, const Sw__Cluster *in,
                          struct sw_gw_cluster_spec *s)
{
    const Sw__UpstreamProtocolOptions *o = NULL;
    const Sw__Http2ProtocolOptions *h2 = NULL;

    for (size_t i = 0; i < in->n_typed_extension_protocol_options; i++) {
        const Sw__Any *any = in->typed_extension_protocol_options[i]->value;

        if (!sw_pb_any_is(any, &sw__upstream_protocol_options__descriptor))
            return SW_GW_BAD(b, "typed_extension_protocol_options: type not supported");
        o = sw_gw_open_any(b, any, &sw__upstream_protocol_options__descriptor);
        if (!o)
            return SW_EINVAL;
    }
    s->idle_timeout_ns = 3600 * SW_NS_PER_S;
    if (o && o->common_http_protocol_options) {
        const Sw__HttpProtocolOptions *c = o->common_http_protocol_options;

        s->idle_timeout_ns = sw_gw_duration(c->idle_timeout, s->idle_timeout_ns);
        s->max_connection_duration_ns = sw_gw_duration(c->max_connection_duration, 0);
        s->max_requests_per_connection = sw_gw_u32(c->max_requests_per_connection, 0);
        s->max_stream_ns = sw_gw_duration(c->max_stream_duration, 0);
        if (c->max_headers_count) /* of a listener it is read */
            return SW_GW_BAD(b, "common_http_protocol_options.max_headers_count: the bound of a "
                                "response's head is fixed");
    }
    if (o && o->upstream_http_protocol_options) {
        s->auto_sni = o->upstream_http_protocol_options->auto_sni;
        s->auto_san_validation = o->upstream_http_protocol_options->auto_san_validation;
    }
    switch (o ? (int)o->upstream_protocol_options_case : 0) {
    case 0:
        break;
    case SW__UPSTREAM_PROTOCOL_OPTIONS__UPSTREAM_PROTOCOL_OPTIONS_EXPLICIT_HTTP_CONFIG:
        if (o->explicit_http_config->protocol_config_case ==
            SW__UPSTREAM_PROTOCOL_OPTIONS__EXPLICIT_HTTP_CONFIG__PROTOCOL_CONFIG_HTTP2_PROTOCOL_OPTIONS) {
            s->protocol = SW_GW_UP_H2;
            h2 = o->explicit_http_config->http2_protocol_options;
        }
        break;
    case SW__UPSTREAM_PROTOCOL_OPTIONS__UPSTREAM_PROTOCOL_OPTIONS_USE_DOWNSTREAM_PROTOCOL_CONFIG:
        s->protocol = SW_GW_UP_DOWNSTREAM;
        h2 = o->use_downstream_protocol_config->http2_protocol_options;
        break;
    case SW__UPSTREAM_PROTOCOL_OPTIONS__UPSTREAM_PROTOCOL_OPTIONS_AUTO_CONFIG:
        s->protocol = SW_GW_UP_AUTO;
        h2 = o->auto_config->http2_protocol_options;
        break;
    default:
        return SW_GW_BAD(b, "upstream protocol options of an unknown kind");
    }
    sw_gw_build_h2(h2, &s->h2);
    return SW_OK;
}

/* DNS clusters as a type of their own: the enum's value, and the refresh rate. */
static int build_dns_cluster(struct sw_gw_build *b, const Sw__Cluster__CustomClusterType *in,
                             struct sw_gw_cluster_spec *s)
{
    const Sw__DnsCluster *d;

    if (!sw_pb_any_is(in->typed_config, &sw__dns_cluster__descriptor))
        return SW_GW_BAD(b, "cluster_type '%.*s' is not supported",
                         SW_SLICE_ARG_MAX(SW_PB_SLICE(in->name), 60));
    d = sw_gw_open_any(b, in->typed_config, &sw__dns_cluster__descriptor);
    if (!d)
        return SW_EINVAL;
    if (d->dns_lookup_family > SW__CLUSTER__DNS_LOOKUP_FAMILY__ALL + 1)
        return SW_GW_BAD(b, "dns_lookup_family %u is unknown", d->dns_lookup_family);
    s->discovery = d->all_addresses_in_single_endpoint ? SW_GW_LOGICAL_DNS : SW_GW_STRICT_DNS;
    s->dns_family = (uint8_t)(d->dns_lookup_family ? d->dns_lookup_family - 1 : 0);
    s->dns_refresh_ns = sw_gw_duration(d->dns_refresh_rate, s->dns_refresh_ns);
    if (s->dns_refresh_ns < SW_NS_PER_S)
        s->dns_refresh_ns = SW_NS_PER_S;
    return SW_OK;
}

/*
 * The control plane sends the addresses it resolved for a name, for data planes that cannot judge
 * an address when they connect. This one can, and dials what the name resolves to then.
 */
static int build_named(struct sw_gw_build *b, struct sw_slice target, struct sw_gw_cluster_spec *s,
                       struct sw_slice *ret_members)
{
    Sw__SocketAddress *at = SW_PB_NEW(b->tmp, Sw__SocketAddress, sw__socket_address);
    Sw__Address *address = SW_PB_NEW(b->tmp, Sw__Address, sw__address);
    Sw__LbEndpoint *lb = SW_PB_NEW(b->tmp, Sw__LbEndpoint, sw__lb_endpoint);
    Sw__LocalityLbEndpoints *lo =
        SW_PB_NEW(b->tmp, Sw__LocalityLbEndpoints, sw__locality_lb_endpoints);
    Sw__ClusterLoadAssignment *la =
        SW_PB_NEW(b->tmp, Sw__ClusterLoadAssignment, sw__cluster_load_assignment);
    struct sw_slice host;
    uint16_t port;
    int rc = sw_authority_split(target, &host, &port, b->err);

    if (rc != SW_OK)
        return sw_err_prefix(b->err, "metadata '" SW_XDS_NAME_KEY "." SW_XDS_NAME_FIELD "'");
    at->address = SW_PB_BYTES(host);
    at->port_specifier_case = SW__SOCKET_ADDRESS__PORT_SPECIFIER_PORT_VALUE;
    at->port_value = port;
    address->address_case = SW__ADDRESS__ADDRESS_SOCKET_ADDRESS;
    address->socket_address = at;
    lb->host_identifier_case = SW__LB_ENDPOINT__HOST_IDENTIFIER_ENDPOINT;
    lb->endpoint = SW_PB_NEW(b->tmp, Sw__Endpoint, sw__endpoint);
    lb->endpoint->address = address;
    lo->lb_endpoints = &lb;
    lo->n_lb_endpoints = 1;
    la->cluster_name = SW_PB_BYTES(s->name);
    la->endpoints = &lo;
    la->n_endpoints = 1;
    s->discovery = SW_GW_STRICT_DNS;
    *ret_members = sw_pb_pack(b->arena, &la->base);
    return SW_OK;
}

/*
 * Names are looked up by the system's resolver: getaddrinfo. c-ares stands for the same as long as
 * it is not given servers of its own (field 1).
 */
static int check_resolver(struct sw_gw_build *b, const Sw__TypedExtensionConfig *in)
{
    static const char cares[] = "envoy.extensions.network.dns_resolver.cares.v3"
                                ".CaresDnsResolverConfig";
    const Sw__Any *any = in ? in->typed_config : NULL;
    struct sw_slice rest = any ? SW_PB_SLICE(any->value) : sw_slice(NULL, 0);
    struct sw_pb_field f = {0};

    if (!any || sw_pb_any_is(any, &sw__get_addr_info_dns_resolver__descriptor))
        return SW_OK;
    if (sw_slice_eq_str(sw_pb_type_name(SW_PB_SLICE(any->type_url)), cares)) {
        while (f.number != 1 && rest.n && sw_pb_next(&rest, &f) == SW_OK)
            ;
        if (f.number != 1)
            return SW_OK;
    }
    return SW_GW_BAD(
        b,
        "typed_dns_resolver_config '%.*s' is not supported: names are looked up by the "
        "system's resolver",
        SW_SLICE_ARG_MAX(SW_PB_SLICE(in->name), 60));
}

static int build_discovery(struct sw_gw_build *b, const Sw__Cluster *in,
                           struct sw_gw_cluster_spec *s, struct sw_slice *ret_members)
{
    *ret_members = sw_slice(NULL, 0);
    s->dns_refresh_ns = sw_max(sw_gw_duration(in->dns_refresh_rate, DNS_REFRESH_NS), SW_NS_PER_S);
    if (in->cluster_discovery_type_case == SW__CLUSTER__CLUSTER_DISCOVERY_TYPE_CLUSTER_TYPE) {
        int rc = build_dns_cluster(b, in->cluster_type, s);

        if (rc < 0)
            return rc;
    } else if ((unsigned)in->type > SW_GW_ORIGINAL_DST) {
        return SW_GW_BAD(b, "unknown discovery type %d", (int)in->type);
    } else {
        s->discovery = (enum sw_gw_discovery)in->type;
        s->dns_family = (uint8_t)in->dns_lookup_family;
    }
    if (s->discovery == SW_GW_EDS) {
        struct sw_slice name =
            sw_json_str(sw_json_walk(s->metadata, SW_XDS_NAME_KEY, SW_XDS_NAME_FIELD, NULL));

        if (name.n)
            return build_named(b, name, s, ret_members);
        if (!in->eds_cluster_config)
            return SW_GW_BAD(b, "EDS without eds_cluster_config");
        s->eds_name = in->eds_cluster_config->service_name.len
                          ? sw_gw_text(b, &in->eds_cluster_config->service_name)
                          : s->name;
        (void)sw_gw_need_present(b, SW_GW_TYPE_ENDPOINTS, s->eds_name);
        return SW_OK;
    }
    if (in->load_assignment)
        *ret_members = sw_pb_pack(b->arena, &in->load_assignment->base);
    else if (s->discovery != SW_GW_ORIGINAL_DST)
        return SW_GW_BAD(b, "load_assignment missing");
    return SW_OK;
}

static int build_spec(struct sw_gw_build *b, const Sw__Cluster *in, struct sw_gw_cluster_spec *s,
                      struct sw_gw_tls **ret_tls, struct sw_slice *ret_members)
{
    struct sw_gw_check *checks;
    int rc;

    s->name = sw_gw_text(b, &in->name);
    s->connect_timeout_ns = sw_gw_duration(in->connect_timeout, 5 * SW_NS_PER_S);
    s->metadata = sw_gw_build_metadata(b, in->metadata);
    if (in->upstream_connection_options && in->upstream_connection_options->tcp_keepalive) {
        const Sw__TcpKeepalive *k = in->upstream_connection_options->tcp_keepalive;

        s->keepalive = true;
        s->keepalive_time_s = sw_gw_u32(k->keepalive_time, 0);
        s->keepalive_interval_s = sw_gw_u32(k->keepalive_interval, 0);
        s->keepalive_probes = sw_gw_u32(k->keepalive_probes, 0);
    }
    if (in->n_health_checks > CHECKS_MAX)
        return SW_GW_BAD(b, "too many health checks");
    build_limits(in->circuit_breakers, s);
    build_outlier(in->outlier_detection, &s->outlier);
    rc = check_resolver(b, in->typed_dns_resolver_config);
    if (rc == SW_OK)
        rc = build_discovery(b, in, s, ret_members);
    if (rc == SW_OK)
        rc = sw_gw_build_lb(b, in, s);
    if (rc == SW_OK)
        rc = build_protocol(b, in, s);
    checks = sw_arena_array(b->arena, in->n_health_checks + 1, sizeof(*checks));
    for (size_t i = 0; rc == SW_OK && i < in->n_health_checks; i++) {
        rc = build_check(b, in->health_checks[i], &checks[i]);
        if (rc < 0)
            rc = sw_err_prefix(b->err, "health_checks[%zu]", i);
    }
    s->checks = checks;
    s->n_checks = in->n_health_checks;
    if (rc == SW_OK)
        rc = sw_gw_build_up_socket(b, in->transport_socket, s, ret_tls);
    if (rc == SW_OK && in->n_transport_socket_matches)
        rc = sw_gw_build_tls_matches(b, in, s, ret_tls);
    return rc;
}

struct sw_gw_cluster_spec *sw_gw_build_cluster(struct sw_gw_build *b, struct sw_slice bytes,
                                               struct sw_gw_tls **ret_tls,
                                               struct sw_slice *ret_inline_members)
{
    const Sw__Cluster *in = sw_gw_unpack(b, &sw__cluster__descriptor, bytes);
    struct sw_gw_cluster_spec *s;

    *ret_tls = NULL;
    if (!in)
        return NULL;
    s = SW_NEW(struct sw_gw_cluster_spec);
    atomic_init(&s->refs, 1);
    b->arena = &s->arena;
    if (build_spec(b, in, s, ret_tls, ret_inline_members) < 0)
        s = sw_gw_cluster_spec_unref(s);
    return s;
}

/* ---- members ---- */

static struct sw_slice member_text(struct sw_arena *a, const struct sw_gw_addr *addr)
{
    char text[SW_ADDR_TEXT];

    switch (addr->kind) {
    case SW_GW_ADDR_IP:
        if (addr->ip.ip.family == 0)
            return sw_slice_str(
                sw_arena_printf(a, "%.*s:%u", SW_SLICE_ARG(addr->name), addr->ip.port));
        return sw_slice_str(sw_arena_printf(a, "%s", sw_addr_text(&addr->ip, text)));
    case SW_GW_ADDR_PIPE:
        return addr->name;
    case SW_GW_ADDR_INTERNAL:
        return sw_slice_str(sw_arena_printf(a, "envoy://%.*s/%.*s", SW_SLICE_ARG(addr->name),
                                            SW_SLICE_ARG(addr->endpoint_id)));
    }
    return addr->name;
}

static int build_member(struct sw_gw_build *b, const Sw__LbEndpoint *in, bool names,
                        struct sw_gw_member *m)
{
    const Sw__Endpoint *e = in->endpoint;
    struct sw_slice dns;
    struct sw_slice meta = {NULL, 0};
    int rc = sw_gw_build_addr(b, e->address, names, &m->addr, &dns);

    if (rc < 0)
        return rc;
    m->text = member_text(b->arena, &m->addr);
    m->hostname = e->hostname.len ? sw_gw_text(b, &e->hostname) : dns;
    m->metadata = sw_gw_build_metadata(b, in->metadata);
    if (in->metadata)
        meta = sw_pb_pack(b->tmp, &in->metadata->base);
    m->check_addr = m->addr;
    if (e->health_check_config) {
        const Sw__Endpoint__HealthCheckConfig *h = e->health_check_config;

        m->no_active_check = h->disable_active_health_check;
        m->check_host = sw_gw_text(b, &h->hostname);
        if (h->address && h->address->address_case) {
            rc = sw_gw_build_addr(b, h->address, false, &m->check_addr, NULL);
            if (rc < 0)
                return rc;
        }
        if (h->port_value > UINT16_MAX)
            return SW_GW_BAD(b, "health_check_config.port_value is above 65535");
        if (h->port_value)
            m->check_addr.ip.port = (uint16_t)h->port_value;
    }
    {
        /* The same key is the same member: its health and connections survive an update. */
        size_t n = m->text.n + m->hostname.n + meta.n + 2;
        char *key = sw_arena_alloc(b->arena, n + 1);

        memcpy(key, m->text.p, m->text.n);
        if (m->hostname.n)
            memcpy(key + m->text.n + 1, m->hostname.p, m->hostname.n);
        if (meta.n)
            memcpy(key + m->text.n + m->hostname.n + 2, meta.p, meta.n);
        m->key = sw_slice(key, n);
    }
    return SW_OK;
}

/* What all members of one set share. */
struct member_rules {
    bool names;        /* addresses may be host names */
    struct sw_map old; /* key -> member of the previous set, to be kept */
    unsigned n_workers;
};

static struct sw_gw_member *make_member(struct sw_gw_build *b, const Sw__LbEndpoint *in,
                                        const struct member_rules *rules)
{
    struct sw_gw_member *m = sw_gw_member_new();
    struct sw_arena *outer = b->arena;
    struct sw_gw_member *same;
    int rc;

    if (in->host_identifier_case != SW__LB_ENDPOINT__HOST_IDENTIFIER_ENDPOINT || !in->endpoint) {
        (void)SW_GW_BAD(b, "lb_endpoint without an endpoint");
        return sw_gw_member_unref(m);
    }
    b->arena = &m->arena;
    rc = build_member(b, in, rules->names, m);
    b->arena = outer;
    if (rc < 0)
        return sw_gw_member_unref(m);
    same = sw_map_get(&rules->old, m->key);
    if (same) {
        (void)sw_gw_member_unref(m);
        return sw_gw_member_ref(same);
    }
    sw_gw_member_add_cells(m, rules->n_workers);
    return m;
}

/* Those of one priority keep their order. There are few priorities, and localities without end. */
static void sort_localities(struct sw_gw_members *ms)
{
    struct sw_gw_locality *out =
        sw_arena_array(&ms->arena, ms->n_localities + 1, sizeof(*ms->localities));
    size_t n = 0;

    for (uint32_t p = 0; p < ms->n_priorities; p++) {
        for (size_t i = 0; i < ms->n_localities; i++) {
            if (ms->localities[i].priority == p)
                out[n++] = ms->localities[i];
        }
    }
    ms->localities = out;
}

static int build_locality(struct sw_gw_build *b, const Sw__LocalityLbEndpoints *in,
                          const struct member_rules *rules, struct sw_gw_members *ms,
                          struct sw_gw_locality *l)
{
    l->priority = in->priority;
    l->weight = sw_gw_u32(in->load_balancing_weight, 0);
    if (in->locality) {
        l->region = sw_gw_text(b, &in->locality->region);
        l->zone = sw_gw_text(b, &in->locality->zone);
        l->sub_zone = sw_gw_text(b, &in->locality->sub_zone);
    }
    l->endpoints = sw_arena_array(b->arena, in->n_lb_endpoints + 1, sizeof(*l->endpoints));
    for (size_t i = 0; i < in->n_lb_endpoints; i++) {
        const Sw__LbEndpoint *e = in->lb_endpoints[i];
        struct sw_gw_endpoint *ep = &l->endpoints[i];

        if (ms->n >= ENDPOINTS_MAX)
            return SW_GW_BAD(b, "more than %d endpoints", ENDPOINTS_MAX);
        ep->weight = sw_gw_u32(e->load_balancing_weight, 1);
        ep->unhealthy = e->health_status == SW__HEALTH_STATUS__UNHEALTHY ||
                        e->health_status == SW__HEALTH_STATUS__DRAINING ||
                        e->health_status == SW__HEALTH_STATUS__TIMEOUT;
        ep->degraded = e->health_status == SW__HEALTH_STATUS__DEGRADED;
        ep->member = make_member(b, e, rules);
        if (!ep->member)
            return sw_err_prefix(b->err, "lb_endpoints[%zu]", i);
        l->n++;
        ms->n++;
    }
    return SW_OK;
}

struct sw_gw_members *sw_gw_members_empty(void)
{
    static _Atomic uint64_t versions;
    struct sw_gw_members *ms = SW_NEW(struct sw_gw_members);

    atomic_init(&ms->refs, 1);
    ms->version = atomic_fetch_add_explicit(&versions, 1, memory_order_relaxed) + 1;
    ms->overprovisioning = 140;
    return ms;
}

struct sw_gw_members *sw_gw_build_members(struct sw_gw_build *b, struct sw_slice bytes, bool names,
                                          const struct sw_gw_members *old, unsigned n_workers)
{
    const Sw__ClusterLoadAssignment *in =
        sw_gw_unpack(b, &sw__cluster_load_assignment__descriptor, bytes);
    struct member_rules rules = {.names = names, .n_workers = n_workers};
    struct sw_gw_members *ms;
    int rc = SW_OK;

    if (!in)
        return NULL;
    if (old) {
        SW_GW_ENDPOINTS_EACH (e, old)
            (void)sw_map_put(&rules.old, e->member->key, e->member);
    }
    ms = sw_gw_members_empty();
    b->arena = &ms->arena;
    if (in->policy)
        ms->overprovisioning = sw_gw_u32(in->policy->overprovisioning_factor, 140);
    ms->localities = sw_arena_array(b->arena, in->n_endpoints + 1, sizeof(*ms->localities));
    for (size_t i = 0; rc == SW_OK && i < in->n_endpoints; i++) {
        struct sw_gw_locality *l = &ms->localities[ms->n_localities++];

        rc = build_locality(b, in->endpoints[i], &rules, ms, l);
        if (rc < 0)
            rc = sw_err_prefix(b->err, "endpoints[%zu]", i);
        if (l->priority + 1 > ms->n_priorities)
            ms->n_priorities = l->priority + 1;
    }
    sw_map_done(&rules.old);
    if (rc < 0)
        return sw_gw_members_unref(ms);
    if (ms->n_priorities > 1)
        sort_localities(ms);
    return ms;
}
