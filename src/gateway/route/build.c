/* SPDX-License-Identifier: Apache-2.0 */
/* RouteConfiguration -> route table. Refuses what it does not understand: a route that matches more
 * than was meant is worse than none. */
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/route.pb-c.h>

#include "base/log.h"
#include "base/mem.h"
#include "gateway/config/build.h"
#include "gateway/config/routes.h"
#include "gateway/filter/build.h"
#include "gateway/observe/header_add.h"
#include "gateway/route/build.h"
#include "gateway/route/match.h"
#include "http/grammar.h"
#include "proto/pb.h"
#include "regex/regex.h"
#include "xds/limits.h"

enum { ROUTES_MAX = 1000000, CONDITIONS_MAX = 1000 };

int sw_gw_build_header_ops(struct sw_gw_build *b, struct Sw__HeaderValueOption *const *add,
                           size_t n_add, const ProtobufCBinaryData *remove, size_t n_remove,
                           struct sw_gw_header_ops *ret)
{
    struct sw_slice *names = n_remove ? sw_arena_array(b->arena, n_remove, sizeof(*names)) : NULL;

    for (size_t i = 0; i < n_remove; i++) {
        names[i] = sw_gw_lower(b, SW_PB_SLICE(remove[i]));
        if (!sw_http_token_valid(names[i]) || sw_slice_eq_str(names[i], "host"))
            return SW_GW_BAD(b, "header '%.*s' may not be removed", SW_SLICE_ARG_MAX(names[i], 60));
    }
    ret->remove = names;
    ret->n_remove = n_remove;
    return sw_gw_build_headers(b, add, n_add, &ret->add, &ret->n_add);
}
static int build_query_match(struct sw_gw_build *b, const Sw__QueryParameterMatcher *in,
                             struct sw_gw_query_match *m)
{
    m->name = sw_gw_text(b, &in->name);
    m->present = true;
    if (in->query_parameter_match_specifier_case ==
        SW__QUERY_PARAMETER_MATCHER__QUERY_PARAMETER_MATCH_SPECIFIER_STRING_MATCH) {
        m->has_str = true;
        return sw_gw_build_str_match(b, in->string_match, &m->str);
    }
    if (in->query_parameter_match_specifier_case ==
        SW__QUERY_PARAMETER_MATCHER__QUERY_PARAMETER_MATCH_SPECIFIER_PRESENT_MATCH)
        m->present = in->present_match;
    return SW_OK;
}

static int build_path(struct sw_gw_build *b, const Sw__RouteMatch *in, struct sw_gw_match *m)
{
    const ProtobufCBinaryData *text = NULL;

    switch ((int)in->path_specifier_case) {
    case SW__ROUTE_MATCH__PATH_SPECIFIER_PREFIX:
        m->path_kind = SW_GW_PATH_PREFIX;
        text = &in->prefix;
        break;
    case SW__ROUTE_MATCH__PATH_SPECIFIER_PATH:
        m->path_kind = SW_GW_PATH_EXACT;
        text = &in->path;
        break;
    case SW__ROUTE_MATCH__PATH_SPECIFIER_PATH_SEPARATED_PREFIX:
        m->path_kind = SW_GW_PATH_SEPARATED;
        text = &in->path_separated_prefix;
        if (text->len < 2 || text->data[text->len - 1] == '/' ||
            memchr(text->data, '?', text->len) || memchr(text->data, '#', text->len))
            return SW_GW_BAD(b, "path_separated_prefix may not end in '/' nor hold '?' or '#'");
        break;
    case SW__ROUTE_MATCH__PATH_SPECIFIER_SAFE_REGEX:
        m->path_kind = SW_GW_PATH_REGEX;
        return sw_gw_build_regex(b, SW_PB_SLICE(in->safe_regex->regex), true, &m->re);
    case SW__ROUTE_MATCH__PATH_SPECIFIER_CONNECT_MATCHER:
        m->path_kind = SW_GW_PATH_CONNECT;
        return SW_OK;
    default:
        return SW_GW_BAD(b, "unsupported path specifier in match");
    }
    if (text->len > SW_XDS_PATH_MAX)
        return sw_err_set(b->err, SW_ELIMIT, "path too long");
    m->path = sw_gw_text(b, text);
    m->icase = in->case_sensitive && !in->case_sensitive->value;
    return SW_OK;
}

static int build_match(struct sw_gw_build *b, const Sw__RouteMatch *in, struct sw_gw_match *m)
{
    struct sw_gw_header_match *headers;
    struct sw_gw_query_match *queries;
    struct sw_gw_cookie_match *cookies;
    int rc;

    if (!in)
        return SW_GW_BAD(b, "match missing");
    if (in->n_headers > CONDITIONS_MAX || in->n_query_parameters > CONDITIONS_MAX ||
        in->n_cookies > CONDITIONS_MAX)
        return SW_GW_BAD(b, "too many conditions");
    rc = build_path(b, in, m);
    headers = sw_arena_array(b->arena, in->n_headers + 1, sizeof(*headers));
    queries = sw_arena_array(b->arena, in->n_query_parameters + 1, sizeof(*queries));
    cookies = sw_arena_array(b->arena, in->n_cookies + 1, sizeof(*cookies));
    for (size_t i = 0; rc == SW_OK && i < in->n_headers; i++)
        rc = sw_gw_build_header_match(b, in->headers[i], &headers[i]);
    for (size_t i = 0; rc == SW_OK && i < in->n_query_parameters; i++)
        rc = build_query_match(b, in->query_parameters[i], &queries[i]);
    for (size_t i = 0; rc == SW_OK && i < in->n_cookies; i++) {
        cookies[i].name = sw_gw_text(b, &in->cookies[i]->name);
        cookies[i].invert = in->cookies[i]->invert_match;
        rc = sw_gw_build_str_match(b, in->cookies[i]->string_match, &cookies[i].str);
    }
    m->headers = headers;
    m->queries = queries;
    m->cookies = cookies;
    m->n_headers = (uint16_t)in->n_headers;
    m->n_queries = (uint16_t)in->n_query_parameters;
    m->n_cookies = (uint16_t)in->n_cookies;
    m->grpc = in->grpc != NULL;
    m->millionths = sw_gw_build_fraction(in->runtime_fraction);
    m->tls_presented = -1;
    m->tls_validated = -1;
    if (in->tls_context && in->tls_context->presented)
        m->tls_presented = in->tls_context->presented->value ? 1 : 0;
    if (in->tls_context && in->tls_context->validated)
        m->tls_validated = in->tls_context->validated->value ? 1 : 0;
    return rc;
}

/* ---- routes and hosts ---- */

static int build_route(struct sw_gw_build *b, const Sw__Route *in, size_t body_max,
                       struct sw_gw_route *r)
{
    int rc = build_match(b, in->match, &r->match);

    r->name = sw_gw_text(b, &in->name);
    if (rc == SW_OK)
        rc = sw_gw_build_action(b, in, body_max, r);
    if (rc == SW_OK)
        rc = sw_gw_build_header_ops(b, in->request_headers_to_add, in->n_request_headers_to_add,
                                    in->request_headers_to_remove, in->n_request_headers_to_remove,
                                    &r->req);
    if (rc == SW_OK)
        rc = sw_gw_build_header_ops(b, in->response_headers_to_add, in->n_response_headers_to_add,
                                    in->response_headers_to_remove,
                                    in->n_response_headers_to_remove, &r->resp);
    if (rc == SW_OK)
        rc = sw_gw_build_per_filter(b, in->typed_per_filter_config, in->n_typed_per_filter_config,
                                    &r->filters, &r->n_filters);
    return rc;
}

static int fill_vhost(struct sw_gw_build *b, const Sw__VirtualHost *in, size_t body_max,
                      struct sw_gw_vhost *v)
{
    int rc = SW_OK;

    v->name = sw_gw_text(b, &in->name);
    if (in->n_routes > ROUTES_MAX)
        return SW_GW_BAD(b, "more than %d routes", ROUTES_MAX);
    v->n_routes = (uint32_t)in->n_routes;
    v->routes = sw_arena_array(b->arena, in->n_routes + 1, sizeof(*v->routes));
    for (size_t i = 0; rc == SW_OK && i < in->n_routes; i++) {
        rc = build_route(b, in->routes[i], body_max, &v->routes[i]);
        if (rc < 0)
            rc = sw_err_prefix(b->err, "routes[%zu]", i);
    }
    v->require_tls = (uint8_t)in->require_tls;
    v->attempt_count = in->include_request_attempt_count;
    if (rc == SW_OK)
        rc = sw_gw_build_header_ops(b, in->request_headers_to_add, in->n_request_headers_to_add,
                                    in->request_headers_to_remove, in->n_request_headers_to_remove,
                                    &v->req);
    if (rc == SW_OK)
        rc = sw_gw_build_header_ops(b, in->response_headers_to_add, in->n_response_headers_to_add,
                                    in->response_headers_to_remove,
                                    in->n_response_headers_to_remove, &v->resp);
    if (rc == SW_OK && in->retry_policy)
        rc = sw_gw_build_retry(b, in->retry_policy, &v->retry);
    if (rc == SW_OK)
        rc = sw_gw_build_mirrors(b, in->request_mirror_policies, in->n_request_mirror_policies,
                                 &v->mirrors, &v->n_mirrors);
    if (rc == SW_OK)
        rc = sw_gw_build_per_filter(b, in->typed_per_filter_config, in->n_typed_per_filter_config,
                                    &v->filters, &v->n_filters);
    return rc < 0 ? sw_err_prefix(b->err, "virtual host '%.*s'", SW_SLICE_ARG_MAX(v->name, 60))
                  : SW_OK;
}

/*
 * One host beyond a limit must not take the others of the table with it: it answers everything with
 * an error. What is not a matter of limits is a mistake of the server, and refused as a whole.
 */
static void make_invalid(struct sw_gw_build *b, struct sw_gw_vhost *v)
{
    struct sw_gw_route *r = sw_arena_array(&v->arena, 1, sizeof(*r));
    const char *why = b->err ? b->err->msg : "beyond a limit";

    if (!b->known_bad)
        sw_log_warn("config", "requests for it get an error, the others are served: %s", why);
    r->name = SW_SLICE_LIT("route_invalid");
    r->match.path_kind = SW_GW_PATH_PREFIX;
    r->match.path = SW_SLICE_LIT("/");
    r->match.millionths = 1000000;
    r->match.tls_presented = -1;
    r->match.tls_validated = -1;
    r->action = SW_GW_DIRECT;
    r->direct = (struct sw_gw_direct){.status = 500, .reason = SW_SLICE_LIT("route_invalid")};
    for (size_t i = 0; i < v->n_regexes; i++)
        sw_regex_free(v->regexes[i]);
    v->n_regexes = 0;
    v->regex_size = 0;
    v->routes = r;
    v->n_routes = 1;
    v->req = v->resp = (struct sw_gw_header_ops){0};
    v->retry = NULL;
    v->mirrors = NULL;
    v->n_mirrors = 0;
    v->filters = NULL;
    v->n_filters = 0;
    v->invalid = sw_arena_dup(&v->arena, sw_slice_str(why));
}

/* A host with one reference; 'bytes' is its message when it came alone. NULL with b->err. */
static struct sw_gw_vhost *build_vhost(struct sw_gw_build *b, const Sw__VirtualHost *in,
                                       struct sw_slice bytes, size_t body_max)
{
    struct sw_gw_vhost *v = SW_NEW(struct sw_gw_vhost);
    struct sw_arena *outer = b->arena;
    size_t first_regex = b->regexes.n;
    size_t before = b->regex_size;
    int rc;

    atomic_init(&v->refs, 1);
    b->arena = &v->arena;
    rc = fill_vhost(b, in, body_max, v);
    v->regexes = sw_gw_take_regexes(b, first_regex, &v->n_regexes);
    v->regex_size = b->regex_size - before;
    if (rc == SW_ELIMIT) {
        make_invalid(b, v);
        b->regex_size = before;
        rc = SW_OK;
    }
    v->domains = sw_arena_array(&v->arena, in->n_domains + 1, sizeof(*v->domains));
    for (; v->n_domains < in->n_domains; v->n_domains++)
        v->domains[v->n_domains] = sw_gw_lower(b, SW_PB_SLICE(in->domains[v->n_domains]));
    if (bytes.n)
        v->bytes = sw_arena_slice(&v->arena, bytes);
    b->arena = outer;
    if (rc < 0) {
        sw_gw_vhost_unref(v);
        return NULL;
    }
    sw_gw_vhost_index(v);
    return v;
}

/* "*", "*.x", "x.*" or a name; each once in a table. */
static int add_domain(struct sw_gw_build *b, struct sw_gw_routes *t, struct sw_gw_vhost *v,
                      struct sw_slice d)
{
    const void *old;

    if (d.n == 0)
        return SW_GW_BAD(b, "virtual host '%.*s': empty domain", SW_SLICE_ARG_MAX(v->name, 60));
    if (sw_slice_eq_str(d, "*")) {
        old = t->any;
        t->any = v;
    } else if (d.n > 1 && d.p[0] == '*') {
        old = sw_map_put(&t->suffix, sw_slice_from(d, 1), v);
    } else if (d.n > 1 && d.p[d.n - 1] == '*') {
        old = sw_map_put(&t->prefix, sw_slice_head(d, d.n - 1), v);
    } else {
        old = sw_map_put(&t->exact, d, v);
    }
    if (old)
        return SW_GW_BAD(b, "virtual host '%.*s': duplicate domain '%.*s'",
                         SW_SLICE_ARG_MAX(v->name, 60), SW_SLICE_ARG_MAX(d, 60));
    return SW_OK;
}

/* Everything but the hosts. */
static int build_rest(struct sw_gw_build *b, const Sw__RouteConfiguration *in,
                      struct sw_gw_routes *t)
{
    int rc;

    t->name = sw_gw_text(b, &in->name);
    t->ignore_port = in->ignore_port_in_host_matching;
    t->specific_wins = in->most_specific_header_mutations_wins;
    t->body_max = in->max_direct_response_body_size_bytes
                      ? in->max_direct_response_body_size_bytes->value
                      : 4096;
    rc = sw_gw_build_header_ops(b, in->request_headers_to_add, in->n_request_headers_to_add,
                                in->request_headers_to_remove, in->n_request_headers_to_remove,
                                &t->req);
    if (rc == SW_OK)
        rc = sw_gw_build_header_ops(b, in->response_headers_to_add, in->n_response_headers_to_add,
                                    in->response_headers_to_remove,
                                    in->n_response_headers_to_remove, &t->resp);
    if (rc == SW_OK)
        rc = sw_gw_build_mirrors(b, in->request_mirror_policies, in->n_request_mirror_policies,
                                 &t->mirrors, &t->n_mirrors);
    if (rc == SW_OK)
        rc = sw_gw_build_per_filter(b, in->typed_per_filter_config, in->n_typed_per_filter_config,
                                    &t->filters, &t->n_filters);
    return rc;
}

/* The table takes the reference. */
static int add_vhost(struct sw_gw_build *b, struct sw_gw_routes *t, struct sw_gw_vhost *v)
{
    int rc = SW_OK;

    if (!v)
        return SW_EINVAL;
    t->vhosts[t->n_vhosts++] = v;
    t->n_invalid += v->invalid != NULL;
    for (size_t k = 0; rc == SW_OK && k < v->n_domains; k++)
        rc = add_domain(b, t, v, v->domains[k]);
    return rc;
}

static struct sw_gw_routes *finish(struct sw_gw_build *b, struct sw_gw_routes *t,
                                   size_t first_regex, struct sw_arena *outer, int rc)
{
    if (rc == SW_OK)
        sw_gw_routes_index(t);
    b->arena = outer;
    /* The expressions of this table go with it, not with the object around it. */
    t->regexes = sw_gw_take_regexes(b, first_regex, &t->n_regexes);
    return rc < 0 ? sw_gw_routes_unref(t) : t;
}

static struct sw_gw_routes *begin(struct sw_gw_build *b, size_t n_vhosts)
{
    struct sw_gw_routes *t = SW_NEW(struct sw_gw_routes);

    atomic_init(&t->refs, 1);
    b->arena = &t->arena;
    t->vhosts = sw_arena_array(&t->arena, n_vhosts + 1, sizeof(struct sw_gw_vhost *));
    return t;
}

struct sw_gw_routes *sw_gw_build_route_config(struct sw_gw_build *b,
                                              const struct Sw__RouteConfiguration *in)
{
    struct sw_arena *outer = b->arena;
    size_t first_regex = b->regexes.n;
    struct sw_gw_routes *t = begin(b, in->n_virtual_hosts);
    int rc = build_rest(b, in, t);

    for (size_t i = 0; rc == SW_OK && i < in->n_virtual_hosts; i++)
        rc = add_vhost(b, t, build_vhost(b, in->virtual_hosts[i], sw_slice(NULL, 0), t->body_max));
    return finish(b, t, first_regex, outer, rc);
}

/* ---- from bytes, taking over what the table before has ---- */

/*
 * A RouteConfiguration cut into its hosts and the rest, which is small. What did not change is then
 * not even decoded.
 */
struct cut {
    struct sw_slice *hosts;
    size_t n_hosts;
    struct sw_slice rest;
};

enum { CONFIG_VIRTUAL_HOSTS = 2, HOST_NAME_TAG = 1 << 3 | 2 };

static int cut_config(struct sw_arena *a, struct sw_slice in, struct cut *ret, struct sw_err *err)
{
    char *rest = sw_arena_alloc(a, in.n + 1);
    size_t n_rest = 0;
    size_t cap = 0;

    while (in.n) {
        struct sw_pb_field f;
        struct sw_slice whole = in;

        if (sw_pb_next(&in, &f) != SW_OK)
            return sw_err_set(err, SW_EPROTO, "not a protobuf message");
        whole.n -= in.n;
        if (f.number != CONFIG_VIRTUAL_HOSTS || !f.bytes.p) {
            memcpy(rest + n_rest, whole.p, whole.n);
            n_rest += whole.n;
            continue;
        }
        if (ret->n_hosts == cap) {
            struct sw_slice *old = ret->hosts;

            cap = cap ? cap * 2 : 64;
            ret->hosts = sw_arena_array(a, cap, sizeof(*old));
            if (old)
                memcpy(ret->hosts, old, ret->n_hosts * sizeof(*old));
        }
        ret->hosts[ret->n_hosts++] = f.bytes;
    }
    ret->rest = sw_slice(rest, n_rest);
    return SW_OK;
}

/* The name of a host from the first field of its message; empty when it is elsewhere. */
static struct sw_slice peek_name(struct sw_slice host)
{
    struct sw_pb_field f;

    if (host.n && host.p[0] == HOST_NAME_TAG && sw_pb_next(&host, &f) == SW_OK)
        return f.bytes;
    return sw_slice(NULL, 0);
}

/*
 * The host of the old table with these bytes, or NULL. '*at' goes through the old hosts as the
 * caller goes through the new ones: servers that keep an order, ours by name, get everything that
 * did not change.
 */
static struct sw_gw_vhost *same_vhost(const struct sw_gw_routes *old, size_t *at,
                                      struct sw_slice bytes)
{
    struct sw_slice name = peek_name(bytes);

    while (old && *at < old->n_vhosts) {
        struct sw_gw_vhost *v = old->vhosts[*at];
        int d;

        if (sw_slice_eq(v->bytes, bytes)) {
            ++*at;
            sw_gw_take_ref(&v->refs);
            return v;
        }
        d = sw_slice_cmp(v->name, name);
        if (d > 0)
            break; /* a new one stands before it */
        ++*at;     /* gone, or changed */
        if (d == 0)
            break;
    }
    return NULL;
}

static struct sw_gw_vhost *decode_vhost(struct sw_gw_build *b, struct sw_slice bytes,
                                        size_t body_max)
{
    const Sw__VirtualHost *in = sw_gw_unpack(b, &sw__virtual_host__descriptor, bytes);

    if (in)
        return build_vhost(b, in, bytes, body_max);
    (void)sw_err_prefix(b->err, "virtual host '%.*s'", SW_SLICE_ARG_MAX(peek_name(bytes), 60));
    return NULL;
}

struct sw_gw_routes *sw_gw_build_routes(struct sw_gw_build *b, struct sw_slice bytes,
                                        const struct sw_gw_routes *old)
{
    struct sw_arena *outer = b->arena;
    size_t first_regex = b->regexes.n;
    const Sw__RouteConfiguration *in;
    struct sw_gw_routes *t;
    struct cut cut = {0};
    size_t at = 0;
    int rc;

    if (cut_config(b->tmp, bytes, &cut, b->err) != SW_OK)
        return NULL;
    in = sw_gw_unpack(b, &sw__route_configuration__descriptor, cut.rest);
    if (!in)
        return NULL;
    t = begin(b, cut.n_hosts);
    rc = build_rest(b, in, t);
    if (old && old->body_max != t->body_max)
        old = NULL;
    for (size_t i = 0; rc == SW_OK && i < cut.n_hosts; i++) {
        struct sw_gw_vhost *v = same_vhost(old, &at, cut.hosts[i]);

        b->known_bad = v && v->invalid;
        if (b->known_bad) {
            sw_gw_vhost_unref(v); /* there may be room for it now */
            v = NULL;
        }
        if (v)
            b->regex_size += v->regex_size;
        rc = add_vhost(b, t, v ? v : decode_vhost(b, cut.hosts[i], t->body_max));
    }
    return finish(b, t, first_regex, outer, rc);
}
