/* SPDX-License-Identifier: Apache-2.0 */
/* Listener -> compiled listener: addresses, and filter chains with what leads to each of them. */
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/listener.pb-c.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/time.h"
#include "gateway/config/build.h"
#include "gateway/config/ticket.h"
#include "gateway/config/tls.h"
#include "gateway/observe/accesslog.h"
#include "gateway/xds/listener.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "xds/limits.h"

enum { ADDRS_MAX = 64 };

/* ---- chains ---- */

static int build_cidrs(struct sw_gw_build *b, Sw__CidrRange *const *in, size_t n,
                       const struct sw_cidr **ret, size_t *ret_n)
{
    struct sw_cidr *out = sw_arena_array(b->arena, n + 1, sizeof(*out));

    for (size_t i = 0; i < n; i++) {
        char *text = sw_arena_printf(b->tmp, "%.*s/%u",
                                     SW_SLICE_ARG_MAX(SW_PB_SLICE(in[i]->address_prefix), 64),
                                     sw_gw_u32(in[i]->prefix_len, 0));

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
            return SW_GW_BAD(b, "server_names: '%.*s' is not a name or '*.suffix'",
                             SW_SLICE_ARG_MAX(n, 60));
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
    m->port = (uint16_t)sw_gw_u32(in->destination_port, 0);
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
            return SW_GW_BAD(b, "filter_chain_match.source_ports[%zu]: not a port", i);
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
        return SW_GW_BAD(b, "exactly one network filter is supported: the connection manager or "
                            "tcp_proxy");
    any = in->filters[0]->typed_config;
    if (sw_pb_any_is(any, &sw__http_connection_manager__descriptor)) {
        c->kind = SW_GW_CHAIN_HTTP;
        return sw_gw_build_hcm(b, any, &c->hcm);
    }
    if (sw_pb_any_is(any, &sw__tcp_proxy__descriptor)) {
        c->kind = SW_GW_CHAIN_TCP;
        return sw_gw_build_tcp(b, any, &c->tcp);
    }
    return SW_GW_BAD(b, "network filter '%.*s': type '%.*s' is not supported",
                     SW_SLICE_ARG_MAX(SW_PB_SLICE(in->filters[0]->name), 60),
                     SW_SLICE_ARG_MAX(SW_PB_SLICE(any->type_url), 80));
}

/* ---- listener ---- */

static int build_listener_filters(struct sw_gw_build *b, const Sw__Listener *in,
                                  struct sw_gw_listener *l)
{
    for (size_t i = 0; i < in->n_listener_filters; i++) {
        const Sw__ListenerFilter *f = in->listener_filters[i];
        const Sw__Any *any = f->typed_config;

        if (f->config_type_case != SW__LISTENER_FILTER__CONFIG_TYPE_TYPED_CONFIG)
            return SW_GW_BAD(b, "listener filter without typed_config");
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
            return SW_GW_BAD(b, "listener filter '%.*s' is not supported",
                             SW_SLICE_ARG_MAX(SW_PB_SLICE(f->name), 60));
        }
    }
    return SW_OK;
}

static int build_addrs(struct sw_gw_build *b, const Sw__Listener *in, struct sw_gw_listener *l)
{
    struct sw_gw_addr *a;
    uint8_t protocol = 0;
    int rc = SW_OK;

    if (in->listener_specifier_case == SW__LISTENER__LISTENER_SPECIFIER_INTERNAL_LISTENER) {
        l->kind = SW_GW_LISTEN_INTERNAL;
        return in->address ? SW_GW_BAD(b, "internal_listener excludes address") : SW_OK;
    }
    if (in->n_additional_addresses >= ADDRS_MAX)
        return SW_GW_BAD(b, "too many addresses");
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
        return SW_GW_BAD(b, "a listener needs an IP address");
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
            rc = SW_GW_BAD(b, "filter_chains[%zu]: same match as another chain", i);
    }
    sw_map_done(&seen);
    return rc;
}

static int build_all_chains(struct sw_gw_build *b, const Sw__Listener *in, struct sw_gw_listener *l)
{
    int rc = check_unique(b, in);

    if (in->n_filter_chains > SW_XDS_CHAINS_MAX)
        return SW_GW_BAD(b, "too many filter chains");
    l->chains = sw_arena_array(b->arena, in->n_filter_chains + 1, sizeof(*l->chains));
    for (size_t i = 0; rc == SW_OK && i < in->n_filter_chains; i++) {
        l->n_chains++; /* first: a half-built one is released too */
        rc = build_chain(b, in->filter_chains[i], &l->chains[i]);
        if (rc < 0)
            return sw_err_prefix(b->err, "filter_chains[%zu]", i);
        if (l->chains[i].match.n_names && !l->tls_inspector)
            return SW_GW_BAD(b, "filter_chains[%zu]: server_names needs the TLS inspector", i);
    }
    if (rc == SW_OK && in->default_filter_chain) {
        l->default_chain = SW_ARENA_NEW(b->arena, struct sw_gw_chain);
        rc = build_chain(b, in->default_filter_chain, l->default_chain);
        if (rc < 0)
            return sw_err_prefix(b->err, "default_filter_chain");
    }
    if (rc == SW_OK && l->n_chains == 0 && !l->default_chain)
        return SW_GW_BAD(b, "a listener needs a filter chain");
    return rc;
}

/* The numbers of Linux. */
enum {
    LEVEL_SOCKET = 1,
    LEVEL_TCP = 6,
    NAME_KEEPALIVE = 9,
    NAME_KEEPIDLE = 4,
    NAME_KEEPINTVL = 5,
    NAME_KEEPCNT = 6,
    KEEPALIVE_MAX = 32767, /* of the kernel, for seconds; its bound for probes is lower */
    PROBES_MAX = 127,
};

/* TCP keep-alive is all that control planes set; other options are not checked. */
static int build_options(struct sw_gw_build *b, const Sw__Listener *in, struct sw_gw_listener *l)
{
    l->keepalive.time_s = 7200;
    l->keepalive.interval_s = 75;
    l->keepalive.probes = 9;
    for (size_t i = 0; i < in->n_socket_options; i++) {
        const Sw__SocketOption *o = in->socket_options[i];
        bool number = o->value_case == SW__SOCKET_OPTION__VALUE_INT_VALUE;
        int64_t v = number ? o->int_value : -1;
        uint32_t *value = o->level != LEVEL_TCP       ? NULL
                          : o->name == NAME_KEEPIDLE  ? &l->keepalive.time_s
                          : o->name == NAME_KEEPINTVL ? &l->keepalive.interval_s
                          : o->name == NAME_KEEPCNT   ? &l->keepalive.probes
                                                      : NULL;

        if (number && o->level == LEVEL_SOCKET && o->name == NAME_KEEPALIVE)
            l->keepalive.on = v != 0;
        else if (!value)
            return SW_GW_BAD(b, "socket_options[%zu] is not supported: only TCP keep-alive is", i);
        else if (v < 1 || v > (value == &l->keepalive.probes ? PROBES_MAX : KEEPALIVE_MAX))
            return SW_GW_BAD(b, "socket_options[%zu]: value is out of range", i);
        else
            *value = (uint32_t)v;
    }
    if (l->freebind && l->kind != SW_GW_LISTEN_TCP)
        return SW_GW_BAD(b, "freebind is supported by TCP listeners only");
    return SW_OK;
}

/* What a socket keeps from the listener for which it was opened. */
static uint64_t socket_hash(const struct sw_gw_listener *l)
{
    const uint32_t options[] = {l->transparent,     l->freebind,         l->backlog,
                                l->keepalive.on,    l->keepalive.time_s, l->keepalive.interval_s,
                                l->keepalive.probes};

    return sw_siphash13(7, 8, options, sizeof(options));
}

static int build_listener(struct sw_gw_build *b, const Sw__Listener *in, struct sw_gw_listener *l)
{
    int rc;

    l->name = sw_gw_text(b, &in->name);
    l->bind = sw_gw_bool(in->bind_to_port, true);
    l->transparent = sw_gw_bool(in->transparent, false);
    l->freebind = sw_gw_bool(in->freebind, false);
    l->original_dst = sw_gw_bool(in->use_original_dst, false);
    l->filters_timeout_ns = sw_gw_duration(in->listener_filters_timeout, 15 * SW_NS_PER_S);
    l->continue_on_timeout = in->continue_on_listener_filters_timeout;
    l->backlog = sw_gw_u32(in->tcp_backlog_size, 0);
    l->metadata = sw_gw_build_metadata(b, in->metadata);
    rc = build_addrs(b, in, l);
    if (rc == SW_OK)
        rc = build_options(b, in, l);
    if (rc == SW_OK)
        rc = build_listener_filters(b, in, l);
    if (rc == SW_OK)
        rc = sw_gw_build_logs(b, in->access_log, in->n_access_log, &l->logs, &l->n_logs);
    if (rc == SW_OK)
        rc = l->kind == SW_GW_LISTEN_UDP ? sw_gw_build_udp(b, in, &l->udp)
                                         : build_all_chains(b, in, l);
    if (rc == SW_OK)
        rc = sw_gw_seal_tickets(l, b->err);
    l->socket_hash = socket_hash(l);
    return rc;
}

struct sw_gw_listener *sw_gw_build_listener(struct sw_gw_build *b, struct sw_slice bytes)
{
    const Sw__Listener *in = sw_gw_unpack(b, &sw__listener__descriptor, bytes);
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
    l->unref_log = b->unref_log;
    b->regexes.p = NULL;
    b->regexes.n = b->regexes.cap = 0;
    b->logs.p = NULL;
    b->logs.n = b->logs.cap = 0;
    return rc == SW_OK ? l : sw_gw_listener_unref(l);
}
