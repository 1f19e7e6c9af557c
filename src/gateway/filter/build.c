/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP filters of a connection manager and of routes, compiled. What is not known is refused,
 * unless it is switched off: then a request whose route switches it on is.
 */
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/httpfilter.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/route.pb-c.h>

#include "base/hash.h"
#include "base/search.h"
#include "base/time.h"
#include "gateway/config/build.h"
#include "gateway/filter/authz.h"
#include "gateway/filter/build.h"
#include "gateway/filter/gzip.h"
#include "http/grammar.h"
#include "proto/pb.h"
#include "proto/types.h"

/* Of the program in is_misdirected: before the name, behind it, and what stands for a wildcard. */
#define DIRECTED_HEAD UINT64_C(0xd1e1cf963a9cab48)
#define DIRECTED_TAIL UINT64_C(0x03d77c3b56554b32)
#define DIRECTED_SNI  UINT64_C(0x59289d51093b5e76)

enum { FILTERS_MAX = 100, HEADERS_MAX = 100 };

static int build_cors(struct sw_gw_build *b, const Sw__Any *any, const void **ret)
{
    const Sw__CorsPolicy *in = sw_gw_open_any(b, any, &sw__cors_policy__descriptor);
    struct sw_gw_cors *c = SW_ARENA_NEW(b->arena, struct sw_gw_cors);
    struct sw_gw_str_match *origins;

    if (!in)
        return SW_EINVAL;
    origins = sw_arena_array(b->arena, in->n_allow_origin_string_match + 1, sizeof(*origins));
    for (size_t i = 0; i < in->n_allow_origin_string_match; i++) {
        int rc = sw_gw_build_str_match(b, in->allow_origin_string_match[i], &origins[i]);

        if (rc < 0)
            return rc;
    }
    c->origins = origins;
    c->n_origins = in->n_allow_origin_string_match;
    c->methods = sw_gw_text(b, &in->allow_methods);
    c->headers = sw_gw_text(b, &in->allow_headers);
    c->expose = sw_gw_text(b, &in->expose_headers);
    c->max_age = sw_gw_text(b, &in->max_age);
    c->credentials = in->allow_credentials && in->allow_credentials->value;
    c->private_network =
        in->allow_private_network_access && in->allow_private_network_access->value;
    c->forward_preflights =
        !in->forward_not_matching_preflights || in->forward_not_matching_preflights->value;
    c->millionths = sw_gw_build_fraction(in->filter_enabled);
    if ((c->methods.n && !sw_http_value_valid(c->methods)) ||
        (c->headers.n && !sw_http_value_valid(c->headers)) ||
        (c->expose.n && !sw_http_value_valid(c->expose)) ||
        (c->max_age.n && !sw_http_value_valid(c->max_age)))
        return SW_GW_BAD(b, "cors: a value holds control characters");
    *ret = c;
    return SW_OK;
}

static int build_cookie(struct sw_gw_build *b, const Sw__CookieBasedSessionState *in,
                        struct sw_gw_session *s)
{
    const Sw__SessionCookie *k = in->cookie;
    SW_BUF_AUTO attrs = {0};

    if (!sw_http_token_valid(SW_PB_SLICE(k->name)))
        return SW_GW_BAD(b, "stateful_session: cookie without a proper name");
    s->name = sw_gw_text(b, &k->name);
    s->path = sw_gw_text(b, &k->path);
    s->ttl_s = sw_gw_duration(k->ttl, 0) / SW_NS_PER_S;
    sw_buf_init(&attrs, 4096);
    for (size_t i = 0; i < k->n_attributes; i++) {
        struct sw_slice name = SW_PB_SLICE(k->attributes[i]->name);
        struct sw_slice value = SW_PB_SLICE(k->attributes[i]->value);

        if (!sw_http_token_valid(name) || (value.n && !sw_http_value_valid(value)) ||
            sw_buf_printf(&attrs, "; %.*s%s%.*s", SW_SLICE_ARG(name), value.n ? "=" : "",
                          SW_SLICE_ARG(value)) < 0)
            return SW_GW_BAD(b, "stateful_session: bad cookie attribute");
    }
    if (s->path.n && !sw_http_value_valid(s->path))
        return SW_GW_BAD(b, "stateful_session: bad cookie path");
    s->attributes = sw_arena_slice(b->arena, sw_buf_slice(&attrs));
    return SW_OK;
}

static int build_session_state(struct sw_gw_build *b, const Sw__StatefulSession *in,
                               const void **ret)
{
    struct sw_gw_session *s = SW_ARENA_NEW(b->arena, struct sw_gw_session);
    const Sw__Any *any = in->session_state ? in->session_state->typed_config : NULL;

    *ret = NULL;
    if (!any)
        return SW_OK; /* nothing to do unless a route configures it */
    s->strict = in->strict;
    *ret = s;
    if (sw_pb_any_is(any, &sw__cookie_based_session_state__descriptor)) {
        const Sw__CookieBasedSessionState *k =
            sw_gw_open_any(b, any, &sw__cookie_based_session_state__descriptor);

        return k ? build_cookie(b, k, s) : SW_EINVAL;
    }
    if (sw_pb_any_is(any, &sw__header_based_session_state__descriptor)) {
        const Sw__HeaderBasedSessionState *h =
            sw_gw_open_any(b, any, &sw__header_based_session_state__descriptor);

        if (!h)
            return SW_EINVAL;
        s->header = true;
        s->name = sw_gw_lower(b, SW_PB_SLICE(h->name));
        return sw_http_token_valid(s->name) && !sw_http_is_framing(s->name)
                   ? SW_OK
                   : SW_GW_BAD(b, "stateful_session: bad header name");
    }
    return SW_GW_BAD(b, "stateful_session: state of an unknown type");
}

static int build_alive(struct sw_gw_build *b, const Sw__Any *any, const void **ret)
{
    const Sw__HealthCheckFilter *in = sw_gw_open_any(b, any, &sw__health_check_filter__descriptor);
    struct sw_gw_alive *h = SW_ARENA_NEW(b->arena, struct sw_gw_alive);
    struct sw_gw_header_match *headers;

    if (!in)
        return SW_EINVAL;
    if (!in->pass_through_mode || in->pass_through_mode->value)
        return SW_GW_BAD(b, "health_check: pass_through_mode has to be false");
    if (in->n_headers > HEADERS_MAX)
        return SW_GW_BAD(b, "health_check: more than %d headers", HEADERS_MAX);
    headers = sw_arena_array(b->arena, in->n_headers + 1, sizeof(*headers));
    for (size_t i = 0; i < in->n_headers; i++) {
        int rc = sw_gw_build_header_match(b, in->headers[i], &headers[i]);

        if (rc < 0)
            return rc;
    }
    h->headers = headers;
    h->n_headers = in->n_headers;
    *ret = h;
    return SW_OK;
}

/*
 * Filters without which every request is served right: statistics, and the translation of gRPC-Web,
 * whose requests are marked by their content type and pass unchanged.
 */
static bool dispensable(const Sw__Any *any)
{
    static const char *const types[] = {
        "envoy.extensions.filters.http.grpc_stats.v3.FilterConfig",
        "envoy.extensions.filters.http.grpc_web.v3.GrpcWeb",
        NULL,
    };

    return any && sw_word_in(sw_pb_type_name(SW_PB_SLICE(any->type_url)), types);
}

/* Lua that consists of comments, as a place for routes to put theirs. */
static bool only_comments(struct sw_slice code)
{
    if (sw_slice_find(code, '\r') >= 0) /* ends a comment in Lua, too */
        return false;
    while (code.n) {
        struct sw_slice line = sw_slice_trim(sw_slice_cut(&code, '\n'));

        if (line.n && !sw_slice_has_prefix(line, SW_SLICE_LIT("--")))
            return false;
        if (sw_slice_has_prefix(line, SW_SLICE_LIT("--["))) /* may end before the line does */
            return false;
    }
    return true;
}

/*
 * Contour gives every TLS virtual host the same small program: 421 unless the authority, without
 * its port, is the name the chain is for (or the server name, under a wildcard). There is no Lua
 * here; that one program is known by its hash, with the name cut out, and done in C.
 */
static bool is_misdirected(struct sw_gw_build *b, const Sw__Any *any, const void **ret)
{
    static const struct sw_slice mark = SW_SLICE_LIT("local target = ");
    const Sw__LuaFilter *l;
    struct sw_gw_directed *d;
    struct sw_slice code;
    struct sw_slice name;
    ptrdiff_t end;
    size_t at = 0;

    if (!sw_pb_any_is(any, &sw__lua_filter__descriptor))
        return false;
    l = sw_gw_open_any(b, any, &sw__lua_filter__descriptor);
    if (!l || l->inline_code.len || !l->default_source_code ||
        l->default_source_code->specifier_case != SW__DATA_SOURCE__SPECIFIER_INLINE_STRING)
        return false;
    code = SW_PB_SLICE(l->default_source_code->inline_string);
    while (at < code.n && !sw_slice_has_prefix(sw_slice_from(code, at), mark))
        at++;
    name = at < code.n ? sw_slice_from(code, at + mark.n) : code;
    end = sw_slice_find(name, '\n');
    if (at >= code.n || end < 0 || sw_siphash13(1, 2, code.p, at) != DIRECTED_HEAD ||
        sw_siphash13(1, 2, name.p + end, name.n - (size_t)end) != DIRECTED_TAIL)
        return false;
    name = sw_slice_head(name, (size_t)end);
    d = SW_ARENA_NEW(b->arena, struct sw_gw_directed);
    if (name.n > 2 && name.p[0] == '"' && name.p[name.n - 1] == '"')
        d->host = sw_gw_lower(b, sw_slice(name.p + 1, name.n - 2));
    else if (sw_siphash13(1, 2, name.p, name.n) != DIRECTED_SNI)
        return false;
    *ret = d;
    return true;
}

/* An unsupported filter, in a form that does nothing until a route configures it: disabled. */
static bool waits_for_routes(struct sw_gw_build *b, const Sw__Any *any)
{
    if (!any)
        return false;
    if (sw_slice_eq_str(sw_pb_type_name(SW_PB_SLICE(any->type_url)),
                        "envoy.extensions.filters.http.rbac.v3.RBAC"))
        return any->value.len == 0;
    if (sw_pb_any_is(any, &sw__local_rate_limit__descriptor)) /* a bucket would be refused */
        return sw_gw_open_any(b, any, &sw__local_rate_limit__descriptor) != NULL;
    if (sw_pb_any_is(any, &sw__lua_filter__descriptor)) {
        const Sw__LuaFilter *l = sw_gw_open_any(b, any, &sw__lua_filter__descriptor);
        const Sw__DataSource *d = l ? l->default_source_code : NULL;

        return l && l->inline_code.len == 0 &&
               (!d || (d->specifier_case == SW__DATA_SOURCE__SPECIFIER_INLINE_STRING &&
                       only_comments(SW_PB_SLICE(d->inline_string))));
    }
    return false;
}

static int build_filter(struct sw_gw_build *b, const Sw__HttpFilter *in, struct sw_gw_filter *f,
                        bool *ret_router, bool *ret_skip)
{
    const Sw__Any *any =
        in->config_type_case == SW__HTTP_FILTER__CONFIG_TYPE_TYPED_CONFIG ? in->typed_config : NULL;

    *ret_router = sw_pb_any_is(any, &sw__router__descriptor);
    *ret_skip = false;
    f->name = sw_gw_text(b, &in->name);
    f->disabled = in->disabled;
    if (*ret_router)
        return SW_OK;
    if (sw_pb_any_is(any, &sw__cors__descriptor)) {
        f->kind = SW_GW_FILTER_CORS;
        return SW_OK;
    }
    if (sw_pb_any_is(any, &sw__stateful_session__descriptor)) {
        const Sw__StatefulSession *s = sw_gw_open_any(b, any, &sw__stateful_session__descriptor);

        f->kind = SW_GW_FILTER_SESSION;
        return s ? build_session_state(b, s, &f->config) : SW_EINVAL;
    }
    if (sw_pb_any_is(any, &sw__ext_authz__descriptor)) {
        f->kind = SW_GW_FILTER_AUTHZ;
        return sw_gw_build_authz(b, any, &f->config);
    }
    if (sw_pb_any_is(any, &sw__health_check_filter__descriptor)) {
        f->kind = SW_GW_FILTER_HEALTH;
        return build_alive(b, any, &f->config);
    }
    if (sw_pb_any_is(any, &sw__compressor__descriptor)) {
        int rc = sw_gw_build_gzip(b, any, &f->config);

        f->kind = SW_GW_FILTER_GZIP;
        *ret_skip = rc == SW_OK && !f->config;
        return rc;
    }
    if (is_misdirected(b, any, &f->config)) {
        f->kind = SW_GW_FILTER_DIRECTED;
        return SW_OK;
    }
    *ret_skip = in->is_optional || dispensable(any);
    if (*ret_skip)
        return SW_OK;
    f->kind = SW_GW_FILTER_UNKNOWN;
    f->disabled = in->disabled || waits_for_routes(b, any);
    if (f->disabled)
        return SW_OK;
    return SW_GW_BAD(b, "http filter '%.*s': type '%.*s' is not supported",
                     SW_SLICE_ARG_MAX(f->name, 60), any ? (int)sw_min(any->type_url.len, 80) : 0,
                     any ? (const char *)any->type_url.data : "");
}

int sw_gw_build_filters(struct sw_gw_build *b, struct Sw__HttpFilter *const *in, size_t n,
                        const struct sw_gw_filter **ret, size_t *ret_n)
{
    struct sw_gw_filter *out;
    size_t kept = 0;
    bool router = false;

    if (n > FILTERS_MAX)
        return SW_GW_BAD(b, "more than %d http filters", FILTERS_MAX);
    out = sw_arena_array(b->arena, n + 1, sizeof(*out));
    for (size_t i = 0; i < n; i++) {
        struct sw_gw_filter f = {0};
        bool skip;
        int rc;

        if (router)
            return SW_GW_BAD(b, "the router must be the last http filter");
        rc = build_filter(b, in[i], &f, &router, &skip);
        if (rc < 0)
            return rc;
        if (!router && !skip)
            out[kept++] = f;
    }
    if (!router)
        return SW_GW_BAD(b, "http_filters without a router");
    *ret = out;
    *ret_n = kept;
    return SW_OK;
}

static int build_per_typed(struct sw_gw_build *b, const Sw__Any *any, struct sw_gw_per_filter *p)
{
    if (sw_pb_any_is(any, &sw__cors_policy__descriptor)) {
        p->kind = SW_GW_FILTER_CORS;
        return build_cors(b, any, &p->config);
    }
    if (sw_pb_any_is(any, &sw__stateful_session_per_route__descriptor)) {
        const Sw__StatefulSessionPerRoute *s =
            sw_gw_open_any(b, any, &sw__stateful_session_per_route__descriptor);

        p->kind = SW_GW_FILTER_SESSION;
        if (!s)
            return SW_EINVAL;
        if (s->override_case == SW__STATEFUL_SESSION_PER_ROUTE__OVERRIDE_STATEFUL_SESSION)
            return build_session_state(b, s->stateful_session, &p->config);
        p->disabled = s->disabled;
        return SW_OK;
    }
    if (sw_pb_any_is(any, &sw__ext_authz_per_route__descriptor))
        return sw_gw_build_authz_route(b, any, p);
    if (sw_pb_any_is(any, &sw__compressor_per_route__descriptor))
        return sw_gw_build_gzip_route(b, any, p);
    return SW_GW_BAD(b, "typed_per_filter_config['%.*s']: type '%.*s' is not supported",
                     SW_SLICE_ARG_MAX(p->name, 60), any ? (int)sw_min(any->type_url.len, 80) : 0,
                     any ? (const char *)any->type_url.data : "");
}

/* A filter's own message, or one wrapped in what switches it on or off. */
static int build_per(struct sw_gw_build *b, const Sw__FilterConfigEntry *in,
                     struct sw_gw_per_filter *p)
{
    const Sw__FilterConfig *w;
    int rc = SW_OK;

    p->name = sw_gw_text(b, &in->key);
    if (!sw_pb_any_is(in->value, &sw__filter_config__descriptor))
        return build_per_typed(b, in->value, p);
    w = sw_gw_open_any(b, in->value, &sw__filter_config__descriptor);
    if (!w)
        return SW_EINVAL;
    p->kind = SW_GW_FILTER_NAMED;
    if (w->config && w->config->type_url.len && !w->disabled)
        rc = build_per_typed(b, w->config, p);
    p->disabled |= w->disabled;
    return rc;
}

int sw_gw_build_per_filter(struct sw_gw_build *b, struct Sw__FilterConfigEntry *const *in, size_t n,
                           const struct sw_gw_per_filter **ret, size_t *ret_n)
{
    struct sw_gw_per_filter *out = NULL;

    if (n > FILTERS_MAX)
        return SW_GW_BAD(b, "typed_per_filter_config is too long");
    if (n)
        out = sw_arena_array(b->arena, n, sizeof(*out));
    for (size_t i = 0; i < n; i++) {
        int rc = build_per(b, in[i], &out[i]);

        if (rc < 0)
            return rc;
    }
    *ret = out;
    *ret_n = n;
    return SW_OK;
}
