/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of rules and of single backends, and the backends with their shares. */
#include <stdarg.h>
#include <stdio.h>

#include "control/gateway/build_int.h"

enum { ITEMS_MAX = 64, FILTERS_MAX = 16, BACKENDS_MAX = 16 };

void rule_bad(struct rule *r, const char *reason, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (r->bad.reason)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    r->bad = (struct verdict){reason, sw_arena_dup(r->b->a, sw_slice_str(text))};
}

/* ---- headers ---- */

static size_t read_pairs(struct rule *r, const struct sw_json *list,
                         const struct sw_gw_header **ret)
{
    size_t n = sw_min(sw_json_len(list), ITEMS_MAX);
    struct sw_gw_header *h = sw_arena_array(r->b->a, n + 1, sizeof(*h));

    for (size_t i = 0; i < n; i++) {
        h[i].name = js_or(sw_json_at(list, i), "name", "");
        h[i].value = js_or(sw_json_at(list, i), "value", "");
        if (!h[i].name.n)
            rule_bad(r, "UnsupportedValue", "a header without a name");
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

bool read_headers_filter(struct rule *r, const struct sw_json *f, struct sw_gw_headers *ret)
{
    if (ret->n_set || ret->n_add || ret->n_remove) {
        rule_bad(r, "IncompatibleFilters", "the same filter twice");
        return false;
    }
    ret->n_set = read_pairs(r, sw_json_find(f, "set"), &ret->set);
    ret->n_add = read_pairs(r, sw_json_find(f, "add"), &ret->add);
    ret->n_remove = read_texts(r->b, sw_json_find(f, "remove"), &ret->remove);
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
                           enum sw_gw_path_edit *ret_edit, struct sw_slice *ret)
{
    struct sw_slice type = js_or(path, "type", "");

    *ret_edit = SW_GW_PATH_KEEP;
    if (!path)
        return;
    if (sw_slice_eq_str(type, "ReplaceFullPath")) {
        *ret_edit = SW_GW_PATH_FULL;
        *ret = js_or(path, "replaceFullPath", "/");
        if (!ret->n || ret->p[0] != '/')
            *ret = gw_printf(r->b, "/%.*s", SW_SLICE_ARG(*ret));
    } else if (sw_slice_eq_str(type, "ReplacePrefixMatch")) {
        *ret_edit = SW_GW_PATH_REPLACE_PREFIX;
        *ret = js_or(path, "replacePrefixMatch", "");
        while (ret->n > 1 && ret->p[ret->n - 1] == '/')
            ret->n--;
        if (!ret->n)
            *ret = SW_SLICE_LIT("/");
        if (!prefix_matches_only(r))
            rule_bad(r, "IncompatibleFilters",
                     "ReplacePrefixMatch needs matches of type "
                     "PathPrefix");
    } else {
        rule_bad(r, "UnsupportedValue", "path modifier '%.*s' is not known", SW_SLICE_ARG(type));
    }
}

static void read_redirect(struct rule *r, const struct sw_json *f)
{
    static const int64_t codes[] = {301, 302, 303, 307, 308};
    struct sw_gw_redirect *d = SW_ARENA_NEW(r->b->a, struct sw_gw_redirect);
    int64_t code = js_int(f, "statusCode", 999, sw_json_find(f, "statusCode") ? 0 : 302);
    bool known = false;

    if (r->proto.redirect)
        rule_bad(r, "IncompatibleFilters", "the same filter twice");
    for (size_t i = 0; i < SW_ARRAY_LEN(codes); i++)
        known |= codes[i] == code;
    if (!known)
        rule_bad(r, "UnsupportedValue", "redirect with status %lld", (long long)code);
    d->status = (uint16_t)code;
    d->scheme = js_or(f, "scheme", "");
    d->host = js_or(f, "hostname", "");
    d->port = (uint16_t)js_int(f, "port", UINT16_MAX, 0);
    read_path_edit(r, sw_json_find(f, "path"), &d->path_edit, &d->path);
    if (d->scheme.n && !sw_slice_eq_str(d->scheme, "http") && !sw_slice_eq_str(d->scheme, "https"))
        rule_bad(r, "UnsupportedValue", "redirect to scheme '%.*s'", SW_SLICE_ARG(d->scheme));
    r->local_redirect = true; /* the port depends on the listener */
    r->proto.redirect = d;
    r->proto.action = SW_GW_REDIRECT;
}

static void read_rewrite(struct rule *r, const struct sw_json *f)
{
    struct sw_gw_rewrite *w = SW_ARENA_NEW(r->b->a, struct sw_gw_rewrite);

    if (r->proto.rewrite)
        rule_bad(r, "IncompatibleFilters", "the same filter twice");
    w->host = js_or(f, "hostname", "");
    read_path_edit(r, sw_json_find(f, "path"), &w->path_edit, &w->path);
    r->proto.rewrite = w;
}

/* ---- mirror ---- */

static void read_mirror(struct rule *r, const struct sw_json *f, struct sw_gw_mirror *list)
{
    const struct sw_json *fraction = sw_json_find(f, "fraction");
    struct sw_gw_mirror *m = &list[r->proto.n_mirrors];
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

static void read_cors(struct rule *r, const struct sw_json *f)
{
    struct sw_gw_cors *c = SW_ARENA_NEW(r->b->a, struct sw_gw_cors);

    if (r->proto.cors)
        rule_bad(r, "IncompatibleFilters", "the same filter twice");
    c->n_origins = read_texts(r->b, sw_json_find(f, "allowOrigins"), &c->origins);
    c->n_methods = read_texts(r->b, sw_json_find(f, "allowMethods"), &c->methods);
    c->n_headers = read_texts(r->b, sw_json_find(f, "allowHeaders"), &c->headers);
    c->n_expose = read_texts(r->b, sw_json_find(f, "exposeHeaders"), &c->expose);
    c->credentials = sw_json_true(sw_json_find(f, "allowCredentials"));
    c->max_age_s = (uint32_t)js_int(f, "maxAge", INT32_MAX, 5);
    r->proto.cors = c;
}

/* ---- all filters ---- */

static void read_filter(struct rule *r, const struct sw_json *f, struct sw_gw_mirror *mirrors)
{
    struct sw_slice type = js_or(f, "type", "");

    if (sw_slice_eq_str(type, "RequestHeaderModifier")) {
        (void)read_headers_filter(r, sw_json_find(f, "requestHeaderModifier"), &r->proto.request);
    } else if (sw_slice_eq_str(type, "ResponseHeaderModifier")) {
        (void)read_headers_filter(r, sw_json_find(f, "responseHeaderModifier"), &r->proto.response);
    } else if (sw_slice_eq_str(type, "RequestMirror")) {
        read_mirror(r, sw_json_find(f, "requestMirror"), mirrors);
    } else if (r->route->kind == RK_HTTP && sw_slice_eq_str(type, "RequestRedirect")) {
        read_redirect(r, sw_json_find(f, "requestRedirect"));
    } else if (r->route->kind == RK_HTTP && sw_slice_eq_str(type, "URLRewrite")) {
        read_rewrite(r, sw_json_find(f, "urlRewrite"));
    } else if (r->route->kind == RK_HTTP && sw_slice_eq_str(type, "CORS")) {
        read_cors(r, sw_json_find(f, "cors"));
    } else {
        /* Skipping it could let in what it was to keep out: such requests get an error. */
        r->fail_closed = true;
        rule_bad(r, "UnsupportedValue", "filter '%.*s' is not supported", SW_SLICE_ARG(type));
    }
}

void rule_filters(struct rule *r, const struct sw_json *filters)
{
    size_t n = sw_min(sw_json_len(filters), FILTERS_MAX);
    struct sw_gw_mirror *mirrors;

    if (!n)
        return;
    mirrors = sw_arena_array(r->b->a, n + r->proto.n_mirrors, sizeof(*mirrors));
    for (size_t i = 0; i < r->proto.n_mirrors; i++)
        mirrors[i] = r->proto.mirrors[i];
    for (size_t i = 0; i < n; i++)
        read_filter(r, sw_json_at(filters, i), mirrors);
    if (r->proto.redirect && r->proto.rewrite)
        rule_bad(r, "IncompatibleFilters", "RequestRedirect and URLRewrite exclude each other");
}

/* ---- backends ---- */

static bool is_host_rewrite(const struct sw_json *f)
{
    return sw_json_str_eq(sw_json_find(f, "type"), "URLRewrite") &&
           !sw_json_walk(f, "urlRewrite", "path", NULL);
}

/* What a data plane can do for one of several backends; with only one, all of it is the rule's. */
static void backend_filter(struct rule *r, const struct sw_json *f, struct sw_gw_backend *be,
                           bool only)
{
    struct sw_slice type = js_or(f, "type", "");

    if (sw_slice_eq_str(type, "RequestHeaderModifier")) {
        (void)read_headers_filter(r, sw_json_find(f, "requestHeaderModifier"), &be->request);
    } else if (sw_slice_eq_str(type, "ResponseHeaderModifier")) {
        (void)read_headers_filter(r, sw_json_find(f, "responseHeaderModifier"), &be->response);
    } else if (is_host_rewrite(f)) {
        be->host_rewrite = js_or(sw_json_find(f, "urlRewrite"), "hostname", "");
    } else if (only) {
        struct sw_json list = {.type = SW_JSON_ARRAY};
        struct sw_json item = *f;
        struct sw_json *items[1] = {&item};

        list.arr.items = items;
        list.arr.n = 1;
        rule_filters(r, &list);
    } else {
        r->fail_closed = true;
        rule_bad(r, "UnsupportedValue", "filter '%.*s' on one of several backends",
                 SW_SLICE_ARG(type));
    }
}

static void read_backend(struct rule *r, const struct sw_json *ref, struct sw_gw_backend *be,
                         bool only)
{
    const struct sw_json *filters = sw_json_find(ref, "filters");
    struct sw_gw_cluster *c;
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
    for (size_t i = 0; i < sw_min(sw_json_len(filters), FILTERS_MAX); i++)
        backend_filter(r, sw_json_at(filters, i), be, only);
}

void rule_backends(struct rule *r)
{
    const struct sw_json *refs = sw_json_find(r->json, "backendRefs");
    size_t n = sw_min(sw_json_len(refs), BACKENDS_MAX);
    struct sw_gw_backend *list = sw_arena_array(r->b->a, n + 1, sizeof(*list));
    bool any = false;

    for (size_t i = 0; i < n; i++) {
        read_backend(r, sw_json_at(refs, i), &list[i], n == 1);
        any |= list[i].cluster && list[i].weight;
    }
    r->proto.invalid_status = r->route->kind == RK_GRPC ? 503 : 500;
    if (r->proto.action == SW_GW_REDIRECT) {
        if (n && !sw_json_len(sw_json_find(sw_json_at(refs, 0), "filters")))
            rule_bad(r, "IncompatibleFilters", "RequestRedirect excludes backendRefs");
        return;
    }
    if (!any) {
        r->proto.action = SW_GW_RESPOND;
        r->proto.status = r->proto.invalid_status;
        return;
    }
    r->proto.backends = list;
    r->proto.n_backends = n;
}

bool rule_finish(struct rule *r)
{
    if (r->first)
        r->route->n_rules++;
    if (!r->bad.reason)
        return true;
    if (r->first) {
        r->route->n_bad_rules++;
        if (!r->route->bad_rule.reason)
            r->route->bad_rule = r->bad;
    }
    r->proto = (struct sw_gw_route){.action = SW_GW_RESPOND,
                                    .status = r->route->kind == RK_GRPC ? 503 : 500,
                                    .request_timeout_ms = -1,
                                    .backend_timeout_ms = -1};
    r->local_redirect = false;
    return r->fail_closed;
}
