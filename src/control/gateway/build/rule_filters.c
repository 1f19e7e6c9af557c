/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of rules and of single backends, and the backends with their shares. */
#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"
#include "control/gateway/build/build_int.h"
#include "control/gateway/build/rule.h"
#include "http/grammar.h"
#include "xds/limits.h"

enum { ITEMS_MAX = 64, FILTERS_MAX = 16, BACKENDS_MAX = 16, BODY_MAX = 1024 * 1024 };

/* Filters of which one list may have one. */
enum {
    FILTER_REQUEST = 1,
    FILTER_RESPONSE = 2,
    FILTER_REDIRECT = 4,
    FILTER_REWRITE = 8,
    FILTER_CORS = 16,
    FILTER_AUTH = 32,
};

void rule_bad(struct rule *r, const char *reason, const char *fmt, ...)
{
    struct sw_slice said;
    char text[512];
    va_list ap;

    if (r->bad.reason)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    said = sw_slice_str(text);
    /* Half a character is none that an API keeps: the status would be written again and again. */
    while (said.n && !sw_utf8_valid(said))
        said.n--;
    r->bad = (struct verdict){reason, sw_arena_dup(r->b->a, said)};
}

static void once(struct rule *r, unsigned filter)
{
    if (r->seen & filter)
        rule_bad(r, "IncompatibleFilters", "the same filter twice");
    r->seen |= filter;
}

/* ---- headers ---- */

void rule_header_name(struct rule *r, struct sw_slice name)
{
    if (!name.n)
        rule_bad(r, "UnsupportedValue", "a header without a name");
    else if (name.n > SW_XDS_HEADER_MAX)
        rule_bad(r, "UnsupportedValue", "a name of a header of %zu bytes: %d are possible", name.n,
                 SW_XDS_HEADER_MAX);
    else if (!sw_http_token_valid(name))
        rule_bad(r, "UnsupportedValue", "'%.*s' is no name of a header", SW_SLICE_ARG(name));
    else if (sw_slice_ieq(name, SW_SLICE_LIT("host")))
        rule_bad(r, "UnsupportedValue", "the Host header is changed by URLRewrite only");
    else if (sw_http_is_framing(name))
        rule_bad(r, "UnsupportedValue", "header '%.*s' is not for filters: it frames messages",
                 SW_SLICE_ARG(name));
}

static size_t count_percents(struct sw_slice s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++)
        n += s.p[i] == '%';
    return n;
}

static size_t read_pairs(struct rule *r, const struct sw_json *list,
                         const struct sw_model_header **ret)
{
    size_t n = sw_min(sw_json_len(list), ITEMS_MAX);
    struct sw_model_header *h = sw_arena_array(r->b->a, n + 1, sizeof(*h));

    for (size_t i = 0; i < n; i++) {
        h[i].name = js_or(sw_json_at(list, i), "name", "");
        h[i].value = js_or(sw_json_at(list, i), "value", "");
        rule_header_name(r, h[i].name);
        /* A percent sign is doubled on the way. */
        if (h[i].value.n > SW_XDS_HEADER_MAX / 2)
            rule_bad(r, "UnsupportedValue",
                     "header '%.*s' has a value of %zu bytes: %d are possible",
                     SW_SLICE_ARG(h[i].name), h[i].value.n, SW_XDS_HEADER_MAX / 2);
        if (2 * count_percents(h[i].value) + 1 > SW_XDS_FORMAT_MAX)
            rule_bad(r, "UnsupportedValue", "header '%.*s' has more than %d percent signs",
                     SW_SLICE_ARG(h[i].name), (SW_XDS_FORMAT_MAX - 1) / 2);
        if (h[i].value.n && !sw_http_value_valid(h[i].value))
            rule_bad(r, "UnsupportedValue", "header '%.*s' has a value that cannot be sent",
                     SW_SLICE_ARG(h[i].name));
    }
    *ret = h;
    return n;
}

static size_t read_texts(struct builder *b, const struct sw_json *list, const struct sw_slice **ret)
{
    size_t n = sw_min(sw_json_len(list), ITEMS_MAX);
    struct sw_slice *s = sw_arena_array(b->a, n + 1, sizeof(*s));

    for (size_t i = 0; i < n; i++)
        s[i] = sw_json_str(sw_json_at(list, i));
    *ret = s;
    return n;
}

/* Always true. */
static bool read_headers_filter(struct rule *r, const struct sw_json *f,
                                struct sw_model_headers *ret)
{
    ret->n_set = read_pairs(r, sw_json_find(f, "set"), &ret->set);
    ret->n_add = read_pairs(r, sw_json_find(f, "add"), &ret->add);
    ret->n_remove = read_texts(r->b, sw_json_find(f, "remove"), &ret->remove);
    for (size_t i = 0; i < ret->n_remove; i++)
        rule_header_name(r, ret->remove[i]);
    return true;
}

/* ---- redirect and rewrite ---- */

/* Replacing a prefix makes sense only where every match is one. */
static bool prefix_matches_only(const struct rule *r)
{
    const struct sw_json *matches = sw_json_find(r->json, "matches");

    for (size_t i = 0; i < sw_json_len(matches); i++) {
        struct sw_slice type =
            js_or(sw_json_find(sw_json_at(matches, i), "path"), "type", "PathPrefix");

        if (!sw_slice_eq_str(type, "PathPrefix"))
            return false;
    }
    return true;
}

static void read_path_edit(struct rule *r, const struct sw_json *path,
                           enum sw_model_path_edit *ret_edit, struct sw_slice *ret)
{
    struct sw_slice type = js_or(path, "type", "");

    *ret_edit = SW_MODEL_PATH_KEEP;
    if (!path)
        return;
    if (sw_slice_eq_str(type, "ReplaceFullPath")) {
        *ret_edit = SW_MODEL_PATH_FULL;
        *ret = js_or(path, "replaceFullPath", "/");
        if (!ret->n || ret->p[0] != '/')
            *ret = gw_printf(r->b, "/%.*s", SW_SLICE_ARG(*ret));
    } else if (sw_slice_eq_str(type, "ReplacePrefixMatch")) {
        *ret_edit = SW_MODEL_PATH_REPLACE_PREFIX;
        *ret = js_or(path, "replacePrefixMatch", "");
        while (ret->n > 1 && ret->p[ret->n - 1] == '/')
            ret->n--;
        if (!ret->n || ret->p[0] != '/')
            *ret = gw_printf(r->b, "/%.*s", SW_SLICE_ARG(*ret));
        if (!prefix_matches_only(r))
            rule_bad(r, "IncompatibleFilters",
                     "ReplacePrefixMatch needs matches of type "
                     "PathPrefix");
    } else {
        rule_bad(r, "UnsupportedValue", "path modifier '%.*s' is not known", SW_SLICE_ARG(type));
        return;
    }
    if (!sw_http_target_valid(*ret))
        rule_bad(r, "UnsupportedValue", "the new path has bytes that no path can have");
}

/* The name requests are sent on with; empty: none is given. */
static struct sw_slice read_host(struct rule *r, const struct sw_json *f)
{
    const struct sw_json *given = sw_json_find(f, "hostname");
    struct sw_slice host = sw_json_str(given);

    if (given && (!host_valid(host) || host.p[0] == '*'))
        rule_bad(r, "UnsupportedValue", "'%.*s' is no name of a host",
                 SW_SLICE_ARG(sw_slice_head(host, 253)));
    return given ? host : sw_slice("", 0);
}

static void read_redirect(struct rule *r, const struct sw_json *f)
{
    static const int64_t codes[] = {301, 302, 303, 307, 308};
    struct sw_model_redirect *d = SW_ARENA_NEW(r->b->a, struct sw_model_redirect);
    int64_t code = js_int(f, "statusCode", 999, sw_json_find(f, "statusCode") ? 0 : 302);
    bool known = false;

    once(r, FILTER_REDIRECT);
    for (size_t i = 0; i < SW_ARRAY_LEN(codes); i++)
        known |= codes[i] == code;
    if (!known)
        rule_bad(r, "UnsupportedValue", "redirect with status %lld", (long long)code);
    d->status = (uint16_t)code;
    d->scheme = js_or(f, "scheme", "");
    d->host = read_host(r, f);
    d->port = (uint16_t)js_int(f, "port", UINT16_MAX, 0);
    read_path_edit(r, sw_json_find(f, "path"), &d->path_edit, &d->path);
    if (d->scheme.n && !sw_slice_eq_str(d->scheme, "http") && !sw_slice_eq_str(d->scheme, "https"))
        rule_bad(r, "UnsupportedValue", "redirect to scheme '%.*s'", SW_SLICE_ARG(d->scheme));
    r->local_redirect = true; /* the port depends on the listener */
    r->proto.redirect = d;
    r->proto.action = SW_MODEL_REDIRECT;
}

static void read_rewrite(struct rule *r, const struct sw_json *f)
{
    struct sw_model_rewrite *w = SW_ARENA_NEW(r->b->a, struct sw_model_rewrite);

    once(r, FILTER_REWRITE);
    w->host = read_host(r, f);
    read_path_edit(r, sw_json_find(f, "path"), &w->path_edit, &w->path);
    r->proto.rewrite = w;
}

/* ---- mirror ---- */

static void read_mirror(struct rule *r, const struct sw_json *f, struct sw_model_mirror *list)
{
    const struct sw_json *fraction = sw_json_find(f, "fraction");
    struct sw_model_mirror *m = &list[r->proto.n_mirrors];
    struct verdict v;

    m->cluster = resolve_backend(r->b, &r->backend, sw_json_find(f, "backendRef"), &v);
    m->numerator = 100;
    m->denominator = 100;
    if (fraction) {
        m->numerator = (uint32_t)js_int(fraction, "numerator", INT32_MAX, 0);
        m->denominator = (uint32_t)js_int(fraction, "denominator", INT32_MAX, 100);
    } else if (sw_json_find(f, "percent")) {
        m->numerator = (uint32_t)js_int(f, "percent", 100, 0);
    }
    if (!m->denominator || m->numerator > m->denominator)
        rule_bad(r, "UnsupportedValue", "a mirror of more than all requests");
    if (m->cluster) {
        r->proto.mirrors = list;
        r->proto.n_mirrors++;
    } else if (r->first) {
        note_unresolved(r->route, v);
    }
}

/* ---- CORS ---- */

/* They end up in headers of answers: nothing may be in them that ends one. */
static void check_cors(struct rule *r, const struct sw_slice *p, size_t n, bool names)
{
    for (size_t i = 0; i < n; i++) {
        if (!p[i].n || !(names ? sw_http_token_valid(p[i]) : sw_http_value_valid(p[i])))
            rule_bad(r, "UnsupportedValue", "'%.*s' is no %s", SW_SLICE_ARG(p[i]),
                     names ? "name of a method or header" : "origin");
    }
}

static void read_cors(struct rule *r, const struct sw_json *f)
{
    struct sw_model_cors *c = SW_ARENA_NEW(r->b->a, struct sw_model_cors);

    once(r, FILTER_CORS);
    c->n_origins = read_texts(r->b, sw_json_find(f, "allowOrigins"), &c->origins);
    c->n_methods = read_texts(r->b, sw_json_find(f, "allowMethods"), &c->methods);
    c->n_headers = read_texts(r->b, sw_json_find(f, "allowHeaders"), &c->headers);
    c->n_expose = read_texts(r->b, sw_json_find(f, "exposeHeaders"), &c->expose);
    check_cors(r, c->origins, c->n_origins, false);
    check_cors(r, c->methods, c->n_methods, true);
    check_cors(r, c->headers, c->n_headers, true);
    check_cors(r, c->expose, c->n_expose, true);
    c->credentials = sw_json_true(sw_json_find(f, "allowCredentials"));
    c->max_age_s = (uint32_t)js_int(f, "maxAge", INT32_MAX, 5);
    r->proto.cors = c;
}

/* ---- outside authorisation ---- */

static size_t read_names(struct rule *r, const struct sw_json *list, const struct sw_slice **ret)
{
    size_t n = sw_min(sw_json_len(list), ITEMS_MAX);
    struct sw_slice *s = sw_arena_array(r->b->a, n + 1, sizeof(*s));

    for (size_t i = 0; i < n; i++) {
        s[i] = lower_case(r->b, sw_json_str(sw_json_at(list, i)));
        if (!sw_http_token_valid(s[i]))
            rule_bad(r, "UnsupportedValue", "'%.*s' is no name of a header", SW_SLICE_ARG(s[i]));
    }
    *ret = s;
    return n;
}

/* What goes before paths: nothing, or segments without an end in '/'. */
static struct sw_slice read_prefix(struct rule *r, struct sw_slice path)
{
    while (path.n && path.p[path.n - 1] == '/')
        path.n--;
    for (size_t i = 0; i < path.n; i++) {
        if (path.p[i] <= ' ' || path.p[i] == 0x7f || path.p[i] == '?' || path.p[i] == '#') {
            rule_bad(r, "UnsupportedValue", "'%.*s' is no path", SW_SLICE_ARG(path));
            break;
        }
    }
    return !path.n || path.p[0] == '/' ? path : gw_printf(r->b, "/%.*s", SW_SLICE_ARG(path));
}

static void read_auth(struct rule *r, const struct sw_json *f)
{
    struct sw_model_auth *x = SW_ARENA_NEW(r->b->a, struct sw_model_auth);
    struct sw_slice protocol = js_or(f, "protocol", "");
    const struct sw_json *http = sw_json_find(f, "http");
    struct backend_ctx ctx = r->backend;
    struct verdict v;

    once(r, FILTER_AUTH);
    r->fail_closed = true; /* a mistake in here must not open the door */
    x->grpc = sw_slice_eq_str(protocol, "GRPC");
    if (!x->grpc && !sw_slice_eq_str(protocol, "HTTP"))
        rule_bad(r, "UnsupportedValue", "authorisation by '%.*s'", SW_SLICE_ARG(protocol));
    ctx.http2 = x->grpc;
    x->cluster = resolve_backend(r->b, &ctx, sw_json_find(f, "backendRef"), &v);
    if (!x->cluster) {
        r->shut = true;
        if (r->first)
            note_unresolved(r->route, v);
        return;
    }
    if (x->grpc) {
        x->n_headers = read_names(r, sw_json_walk(f, "grpc", "allowedHeaders", NULL), &x->headers);
    } else {
        x->n_headers = read_names(r, sw_json_find(http, "allowedHeaders"), &x->headers);
        x->n_copied = read_names(r, sw_json_find(http, "allowedResponseHeaders"), &x->copied);
        x->path = read_prefix(r, js_or(http, "path", ""));
    }
    x->body_max = (uint32_t)js_int(sw_json_find(f, "forwardBody"), "maxSize", BODY_MAX,
                                   sw_json_walk(f, "forwardBody", "maxSize", NULL) ? BODY_MAX : 0);
    r->proto.auth = x;
}

/* ---- all filters ---- */

static void read_filter(struct rule *r, const struct sw_json *f, struct sw_model_mirror *mirrors)
{
    struct sw_slice type = js_or(f, "type", "");

    if (sw_slice_eq_str(type, "RequestHeaderModifier")) {
        once(r, FILTER_REQUEST);
        (void)read_headers_filter(r, sw_json_find(f, "requestHeaderModifier"), &r->proto.request);
    } else if (sw_slice_eq_str(type, "ResponseHeaderModifier")) {
        once(r, FILTER_RESPONSE);
        (void)read_headers_filter(r, sw_json_find(f, "responseHeaderModifier"), &r->proto.response);
    } else if (sw_slice_eq_str(type, "RequestMirror")) {
        read_mirror(r, sw_json_find(f, "requestMirror"), mirrors);
    } else if (r->route->kind == RK_HTTP && sw_slice_eq_str(type, "RequestRedirect")) {
        read_redirect(r, sw_json_find(f, "requestRedirect"));
    } else if (r->route->kind == RK_HTTP && sw_slice_eq_str(type, "URLRewrite")) {
        read_rewrite(r, sw_json_find(f, "urlRewrite"));
    } else if (r->route->kind == RK_HTTP && sw_slice_eq_str(type, "CORS")) {
        read_cors(r, sw_json_find(f, "cors"));
    } else if (r->route->kind == RK_HTTP && sw_slice_eq_str(type, "ExternalAuth")) {
        read_auth(r, sw_json_find(f, "externalAuth"));
    } else {
        /* Skipping it could let in what it was to keep out: such requests get an error. */
        r->fail_closed = true;
        rule_bad(r, "UnsupportedValue", "filter '%.*s' is not supported", SW_SLICE_ARG(type));
    }
}

/* How many of them are read. */
static size_t count_filters(struct rule *r, const struct sw_json *filters)
{
    if (sw_json_len(filters) > FILTERS_MAX) {
        r->fail_closed = true; /* what is not read may be a guard */
        rule_bad(r, "UnsupportedValue", "more than %d filters", (int)FILTERS_MAX);
    }
    return sw_min(sw_json_len(filters), FILTERS_MAX);
}

void rule_filters(struct rule *r, const struct sw_json *filters)
{
    size_t n = count_filters(r, filters);
    struct sw_model_mirror *mirrors;

    if (!n)
        return;
    mirrors = sw_arena_array(r->b->a, n + r->proto.n_mirrors, sizeof(*mirrors));
    for (size_t i = 0; i < r->proto.n_mirrors; i++)
        mirrors[i] = r->proto.mirrors[i];
    for (size_t i = 0; i < n; i++)
        read_filter(r, sw_json_at(filters, i), mirrors);
    if ((r->seen & FILTER_REDIRECT) && (r->seen & FILTER_REWRITE))
        rule_bad(r, "IncompatibleFilters", "RequestRedirect and URLRewrite exclude each other");
}

/* ---- backends ---- */

static bool is_host_rewrite(const struct sw_json *f)
{
    return sw_json_str_eq(sw_json_find(f, "type"), "URLRewrite") &&
           !sw_json_walk(f, "urlRewrite", "path", NULL);
}

/* What a list of clusters can have for each of them; false: the backend needs a route of its own.
 */
static bool cluster_filter(struct rule *r, const struct sw_json *f, struct sw_model_backend *be)
{
    struct sw_slice type = js_or(f, "type", "");

    if (sw_slice_eq_str(type, "RequestHeaderModifier")) {
        once(r, FILTER_REQUEST);
        return read_headers_filter(r, sw_json_find(f, "requestHeaderModifier"), &be->request);
    }
    if (sw_slice_eq_str(type, "ResponseHeaderModifier")) {
        once(r, FILTER_RESPONSE);
        return read_headers_filter(r, sw_json_find(f, "responseHeaderModifier"), &be->response);
    }
    if (!is_host_rewrite(f))
        return false;
    be->host_rewrite = read_host(r, sw_json_find(f, "urlRewrite"));
    return true;
}

/* The rule as it is for one backend, if that has filters of its own. */
static struct rule *own_rule(struct rule *r, const struct sw_json *filters,
                             struct sw_model_backend *be)
{
    size_t n = count_filters(r, filters);
    struct sw_json rest = {.type = SW_JSON_ARRAY};
    struct rule *own;

    rest.arr.items = sw_arena_array(r->b->a, n + 1, sizeof(*rest.arr.items));
    for (size_t i = 0; i < n; i++) {
        const struct sw_json *f = sw_json_at(filters, i);

        if (!cluster_filter(r, f, be))
            rest.arr.items[rest.arr.n++] = (struct sw_json *)(uintptr_t)f;
    }
    if (!rest.arr.n)
        return NULL;
    own = SW_ARENA_NEW(r->b->a, struct rule);
    *own = *r;
    own->seen = 0;
    rule_filters(own, &rest);
    if (!r->bad.reason)
        r->bad = own->bad;
    r->fail_closed |= own->fail_closed;
    return own;
}

static struct rule *read_backend(struct rule *r, const struct sw_json *ref,
                                 struct sw_model_backend *be)
{
    const struct sw_json *filters = sw_json_find(ref, "filters");
    struct sw_model_cluster *c;
    struct verdict v;

    be->weight = (uint32_t)js_int(ref, "weight", 1000000, 1);
    c = resolve_backend(r->b, &r->backend, ref, &v);
    if (c && r->proto.session) {
        c->sticky = true;
        sw_vec_push(&r->route->sticky, c);
    }
    if (!c && r->first)
        note_unresolved(r->route, v);
    be->cluster = c;
    return sw_json_len(filters) ? own_rule(r, filters, be) : NULL;
}

/* A route that nothing can be sent to answers by itself. */
static void set_backends(struct builder *b, struct sw_model_route *to,
                         const struct sw_model_backend *list, size_t n, bool shut)
{
    const struct own_cluster *offline = shut ? NULL : all_offline(list, n);
    bool any = false;

    for (size_t i = 0; i < n; i++)
        any |= list[i].cluster && list[i].weight;
    if (shut || (to->action != SW_MODEL_REDIRECT && !any)) {
        to->action = SW_MODEL_RESPOND;
        to->status = to->invalid_status;
        to->redirect = NULL;
    } else if (to->action == SW_MODEL_FORWARD && offline) {
        respond_offline(b, to, offline);
    } else if (to->action == SW_MODEL_FORWARD) {
        to->backends = list;
        to->n_backends = n;
    }
}

static void add_share(struct rule *r, const struct rule *as, const struct sw_model_backend *list,
                      size_t n, uint64_t upto)
{
    struct rule_share *s = &r->shares[r->n_shares++];

    s->proto = as->proto;
    s->upto = (uint32_t)sw_max(upto, 1);
    s->local_redirect = as->local_redirect;
    set_backends(r->b, &s->proto, list, n, as->shut);
}

/*
 * Backends with filters of their own become routes of their own, each for its share of the
 * requests; the others stay together behind them and take what is left.
 */
static void split(struct rule *r, const struct sw_model_backend *list, struct rule *const *own,
                  size_t n)
{
    struct sw_model_backend *rest = sw_arena_array(r->b->a, n + 1, sizeof(*rest));
    uint64_t total = 0;
    uint64_t sum = 0;
    size_t n_rest = 0;

    r->shares = sw_arena_array(r->b->a, n + 1, sizeof(*r->shares));
    for (size_t i = 0; i < n; i++)
        total += list[i].weight;
    for (size_t i = 0; i < n; i++) {
        if (!own[i]) {
            rest[n_rest++] = list[i];
        } else if (list[i].weight) {
            sum += list[i].weight;
            add_share(r, own[i], &list[i], 1, sum * SW_MODEL_SHARES / total);
        }
    }
    if (sum < total || !r->n_shares)
        add_share(r, r, rest, n_rest, 0);
    r->shares[r->n_shares - 1].upto = 0;
    if (r->n_shares > 1)
        return;
    r->proto = r->shares[0].proto;
    r->local_redirect = r->shares[0].local_redirect;
    r->n_shares = 0;
}

void rule_backends(struct rule *r)
{
    const struct sw_json *refs = sw_json_find(r->json, "backendRefs");
    size_t n = sw_min(sw_json_len(refs), BACKENDS_MAX);
    struct sw_model_backend *list = sw_arena_array(r->b->a, n + 1, sizeof(*list));
    struct rule *own[BACKENDS_MAX] = {0};
    bool special = false;

    r->proto.invalid_status = r->route->kind == RK_GRPC ? 503 : 500;
    for (size_t i = 0; i < n; i++) {
        r->seen &= ~(unsigned)(FILTER_REQUEST | FILTER_RESPONSE);
        own[i] = read_backend(r, sw_json_at(refs, i), &list[i]);
        special |= own[i] != NULL;
    }
    if (r->proto.action == SW_MODEL_REDIRECT && n)
        rule_bad(r, "IncompatibleFilters", "RequestRedirect excludes backendRefs");
    if (special)
        split(r, list, own, n);
    else
        set_backends(r->b, &r->proto, list, n, r->shut);
}

bool rule_finish(struct rule *r)
{
    if (r->first)
        r->route->n_rules++;
    if (!r->bad.reason)
        return true;
    if (r->first) {
        r->route->n_bad_rules++;
        r->route->fail_closed |= r->fail_closed;
        if (!r->route->bad_rule.reason)
            r->route->bad_rule = r->bad;
    }
    r->proto = (struct sw_model_route){.action = SW_MODEL_RESPOND,
                                       .status = r->route->kind == RK_GRPC ? 503 : 500,
                                       .request_timeout_ms = -1,
                                       .backend_timeout_ms = -1};
    r->local_redirect = false;
    r->n_shares = 0;
    return r->fail_closed;
}
