/* SPDX-License-Identifier: Apache-2.0 */
/* HTTPRoutes: rules and matches. */
#include "base/hash.h"
#include "base/time.h"
#include "control/gateway/build/build_int.h"
#include "control/gateway/build/rule.h"
#include "http/grammar.h"
#include "regex/regex.h"
#include "xds/limits.h"

enum { MATCHES_MAX = 128, CONDITIONS_MAX = 16, CODES_MAX = 64, REGEX_MAX = 4096 };

/* ---- matches ---- */

bool regex_ok(struct rule *r, struct sw_slice pattern)
{
    struct sw_regex *re = NULL;
    struct sw_err err;

    if (!pattern.n || pattern.n > REGEX_MAX) {
        rule_bad(r, "UnsupportedValue", "a regular expression of %zu bytes", pattern.n);
        return false;
    }
    if (sw_regex_new_bytes(pattern, &re, &err) != SW_OK) {
        rule_bad(r, "UnsupportedValue", "regular expression '%.*s': %s", SW_SLICE_ARG(pattern),
                 err.msg);
        return false;
    }
    r->words += sw_regex_size(re) + SW_XDS_REGEX_WRAP_WORDS;
    sw_regex_free(re);
    return true;
}

struct sw_slice lower_case(struct builder *b, struct sw_slice s)
{
    char *p = sw_arena_dup(b->a, s);

    for (size_t i = 0; i < s.n; i++) {
        if (p[i] >= 'A' && p[i] <= 'Z')
            p[i] = (char)(p[i] + 32);
    }
    return sw_slice(p, s.n);
}

static bool seen(const struct sw_model_value_match *m, size_t n, struct sw_slice name)
{
    for (size_t i = 0; i < n; i++) {
        if (sw_slice_eq(m[i].name, name))
            return true;
    }
    return false;
}

bool read_value_matches(struct rule *r, const struct sw_json *list, bool headers,
                        const struct sw_model_value_match **ret, size_t *ret_n)
{
    size_t n = sw_min(sw_json_len(list), CONDITIONS_MAX);
    struct sw_model_value_match *m;

    if (!n)
        return true;
    m = sw_arena_array(r->b->a, n, sizeof(*m));
    for (size_t i = 0; i < n; i++) {
        const struct sw_json *item = sw_json_at(list, i);
        struct sw_slice type = js_or(item, "type", "Exact");
        struct sw_model_value_match v = {.name = js_or(item, "name", ""),
                                         .value = js_or(item, "value", "")};

        if (headers)
            v.name = lower_case(r->b, v.name);
        if (headers ? !sw_http_token_valid(v.name) : !v.name.n) {
            rule_bad(r, "UnsupportedValue", "a match of no name that a %s can have",
                     headers ? "header" : "parameter");
            return false;
        }
        if (seen(m, *ret_n, v.name))
            continue; /* only the first of a name counts */
        if (sw_slice_eq_str(type, "RegularExpression")) {
            v.kind = SW_MODEL_MATCH_REGEX;
            if (!regex_ok(r, v.value))
                return false;
        } else if (!sw_slice_eq_str(type, "Exact")) {
            rule_bad(r, "UnsupportedValue", "match of type '%.*s'", SW_SLICE_ARG(type));
            return false;
        }
        m[(*ret_n)++] = v;
    }
    *ret = m;
    return true;
}

bool path_valid(struct sw_slice path)
{
    return path.n && path.n <= SW_XDS_PATH_MAX && path.p[0] == '/' && sw_http_target_valid(path) &&
           sw_slice_find(path, '?') < 0 && sw_slice_find(path, '#') < 0;
}

static bool read_path(struct rule *r, const struct sw_json *path, struct sw_model_match *m)
{
    struct sw_slice type = js_or(path, "type", "PathPrefix");

    m->path = js_or(path, "value", "/");
    if (sw_slice_eq_str(type, "RegularExpression")) {
        m->path_kind = SW_MODEL_PATH_REGEX;
        return regex_ok(r, m->path);
    }
    if (sw_slice_eq_str(type, "Exact")) {
        m->path_kind = SW_MODEL_PATH_EXACT;
    } else if (sw_slice_eq_str(type, "PathPrefix")) {
        m->path_kind = SW_MODEL_PATH_PREFIX;
        while (m->path.n > 1 && m->path.p[m->path.n - 1] == '/')
            m->path.n--;
    } else {
        rule_bad(r, "UnsupportedValue", "path match of type '%.*s'", SW_SLICE_ARG(type));
        return false;
    }
    if (m->path.n > SW_XDS_PATH_MAX) {
        rule_bad(r, "UnsupportedValue", "a path of %zu bytes: %d are possible", m->path.n,
                 SW_XDS_PATH_MAX);
        return false;
    }
    if (!path_valid(m->path)) {
        rule_bad(r, "UnsupportedValue",
                 sw_slice_has_prefix(m->path, SW_SLICE_LIT("/"))
                     ? "no request has the path '%.*s'"
                     : "path '%.*s' does not begin with '/'",
                 SW_SLICE_ARG(sw_slice_head(m->path, 256)));
        return false;
    }
    return true;
}

static bool read_method(struct rule *r, struct sw_slice method, struct sw_model_match *m)
{
    static const char *const known[] = {"GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                        "CONNECT", "OPTIONS", "TRACE", "PATCH"};

    m->method = method;
    if (!method.n)
        return true;
    for (size_t i = 0; i < SW_ARRAY_LEN(known); i++) {
        if (sw_slice_eq_str(method, known[i]))
            return true;
    }
    rule_bad(r, "UnsupportedValue", "method '%.*s' is not known", SW_SLICE_ARG(method));
    return false;
}

static bool read_match(struct rule *r, const struct sw_json *json, struct sw_model_match *m)
{
    return read_path(r, sw_json_find(json, "path"), m) &&
           read_method(r, js_or(json, "method", ""), m) &&
           read_value_matches(r, sw_json_find(json, "headers"), true, &m->headers, &m->n_headers) &&
           read_value_matches(r, sw_json_find(json, "queryParams"), false, &m->queries,
                              &m->n_queries);
}

/* ---- timeouts, retry, session ---- */

static int64_t read_duration(struct rule *r, const struct sw_json *parent, const char *key)
{
    struct sw_slice text = js(parent, key);
    struct sw_err err;
    uint64_t ns;

    if (!text.p)
        return -1;
    if (sw_duration_parse(text, &ns, &err) != SW_OK) {
        rule_bad(r, "UnsupportedValue", "%s '%.*s' is not a duration", key, SW_SLICE_ARG(text));
        return -1;
    }
    return (int64_t)(ns / SW_NS_PER_MS);
}

static void read_retry(struct rule *r, const struct sw_json *retry)
{
    const struct sw_json *codes = sw_json_find(retry, "codes");
    size_t n = sw_min(sw_json_len(codes), CODES_MAX);
    struct sw_model_retry *t = SW_ARENA_NEW(r->b->a, struct sw_model_retry);
    uint16_t *list = sw_arena_array(r->b->a, n + 1, sizeof(*list));
    int64_t backoff = read_duration(r, retry, "backoff");

    for (size_t i = 0; i < n; i++) {
        int64_t code = 0;
        size_t at = t->n_codes;

        if (!sw_json_exact_i64(sw_json_at(codes, i), &code) || code < 400 || code > 599) {
            rule_bad(r, "UnsupportedValue", "retry on a code outside 400 to 599");
            return;
        }
        while (at && list[at - 1] > code) {
            list[at] = list[at - 1];
            at--;
        }
        list[at] = (uint16_t)code;
        t->n_codes++;
    }
    t->codes = list;
    t->attempts = (uint32_t)js_int(retry, "attempts", 1000, 1);
    t->backoff_ms = backoff > 0 ? (uint64_t)backoff : 0;
    if (t->attempts)
        r->proto.retry = t;
}

static void read_session(struct rule *r, const struct sw_json *s)
{
    struct sw_model_session *out = SW_ARENA_NEW(r->b->a, struct sw_model_session);
    struct sw_slice type = js_or(s, "type", "Cookie");
    struct sw_slice life = js_or(sw_json_find(s, "cookieConfig"), "lifetimeType", "Session");
    int64_t ttl = read_duration(r, s, "absoluteTimeout");

    out->kind = sw_slice_eq_str(type, "Header") ? SW_MODEL_SESSION_HEADER : SW_MODEL_SESSION_COOKIE;
    if (out->kind == SW_MODEL_SESSION_COOKIE && !sw_slice_eq_str(type, "Cookie"))
        rule_bad(r, "UnsupportedValue", "session of type '%.*s'", SW_SLICE_ARG(type));
    out->name = js_or(s, "sessionName", "");
    if (out->name.n && !sw_http_token_valid(out->name))
        rule_bad(r, "UnsupportedValue", "sessionName '%.*s' is no name of a %s",
                 SW_SLICE_ARG(out->name),
                 out->kind == SW_MODEL_SESSION_COOKIE ? "cookie" : "header");
    if (out->kind == SW_MODEL_SESSION_HEADER && out->name.n)
        rule_header_name(r, out->name);
    if (!out->name.n) {
        const struct sw_kube_obj *o = r->route->obj;

        out->name = gw_printf(r->b, "sw-session-%08x",
                              (unsigned)sw_siphash13(r->index, 7, o->key.p, o->key.n));
    }
    out->ttl_ms = ttl > 0 ? (uint64_t)ttl : 0;
    out->permanent = sw_slice_eq_str(life, "Permanent");
    out->path = SW_SLICE_LIT("/");
    if (out->permanent && !out->ttl_ms)
        rule_bad(r, "UnsupportedValue", "a permanent cookie needs absoluteTimeout");
    r->proto.session = out;
}

void rule_settings(struct rule *r)
{
    const struct sw_json *timeouts = sw_json_find(r->json, "timeouts");
    const struct sw_json *retry = sw_json_find(r->json, "retry");
    const struct sw_json *session = sw_json_find(r->json, "sessionPersistence");

    r->proto.request_timeout_ms = read_duration(r, timeouts, "request");
    r->proto.backend_timeout_ms = read_duration(r, timeouts, "backendRequest");
    if (retry)
        read_retry(r, retry);
    if (session)
        read_session(r, session);
}

/* ---- rules ---- */

static uint8_t rank_of(enum sw_model_path_kind k)
{
    switch (k) {
    case SW_MODEL_PATH_EXACT:
        return 0;
    case SW_MODEL_PATH_REGEX:
        return 1;
    case SW_MODEL_PATH_PREFIX:
    case SW_MODEL_PATH_START:
        break;
    }
    return 2;
}

static void add_entry(struct builder *b, struct compiled *c, struct entry e)
{
    c->entries =
        sw_arena_grow(b->a, c->entries, c->n_entries, &c->cap_entries, sizeof(*c->entries));
    c->entries[c->n_entries++] = e;
}

static void emit_one(struct rule *r, struct compiled *c, const struct sw_model_route *proto,
                     const struct sw_model_match *m, struct entry e, struct sw_slice name)
{
    struct sw_model_route *out = SW_ARENA_NEW(r->b->a, struct sw_model_route);

    *out = *proto;
    out->memo = new_memo(r->b, r->route);
    out->match = *m;
    out->name = name;
    out->websocket = r->route->kind == RK_HTTP;
    e.r = out;
    e.route = r->route;
    e.rule = r->index;
    add_entry(r->b, c, e);
}

void rule_emit(struct rule *r, struct compiled *c, const struct sw_model_match *m,
               const struct entry *like, const char *kind)
{
    struct sw_slice name = gw_printf(r->b, "%s/%.*s/rule/%u/match/%u", kind,
                                     SW_SLICE_ARG(r->route->obj->key), r->index, like->match);
    struct entry e = *like;

    if (!r->n_shares) {
        e.local_redirect = r->local_redirect;
        emit_one(r, c, &r->proto, m, e, name);
        return;
    }
    for (size_t i = 0; i < r->n_shares; i++) {
        e.share = (uint16_t)i;
        e.local_redirect = r->shares[i].local_redirect;
        r->shares[i].proto.share = r->shares[i].upto;
        emit_one(r, c, &r->shares[i].proto, m, e,
                 gw_printf(r->b, "%.*s/share/%zu", SW_SLICE_ARG(name), i));
    }
}

static void emit(struct rule *r, struct compiled *c, const struct sw_model_match *m, uint16_t index)
{
    const struct entry like = {
        .rank = rank_of(m->path_kind), .len1 = (uint32_t)m->path.n, .match = index};

    rule_emit(r, c, m, &like, "httproute");
}

void http_rule(struct rule *r, struct compiled *c)
{
    const struct sw_json *list = sw_json_find(r->json, "matches");
    size_t n = sw_min(sw_json_len(list), MATCHES_MAX);
    struct sw_model_match *matches = sw_arena_array(r->b->a, n + 1, sizeof(*matches));
    size_t good = 0;

    r->proto.request_timeout_ms = -1;
    r->proto.backend_timeout_ms = -1;
    rule_filters(r, sw_json_find(r->json, "filters"));
    rule_settings(r);
    rule_backends(r);
    if (!n)
        matches[good++] =
            (struct sw_model_match){.path_kind = SW_MODEL_PATH_PREFIX, .path = SW_SLICE_LIT("/")};
    for (size_t i = 0; i < n; i++)
        good += read_match(r, sw_json_at(list, i), &matches[good]);
    if (!rule_finish(r))
        return;
    for (size_t i = 0; i < good; i++)
        emit(r, c, &matches[i], (uint16_t)i);
}
