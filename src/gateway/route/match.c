/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which virtual host and which route. Order in the list decides among routes; the indexes only find
 * the candidates faster: exact paths and prefixes by hash, the rest one by one.
 */
#include <stdlib.h>

#include "gateway/config/config.h"
#include "gateway/message/match.h"
#include "gateway/route/match.h"
#include "http/url.h"
#include "regex/regex.h"

enum { LOWER_MAX = 256 };

/* ---- virtual hosts ---- */

static struct sw_slice without_port(struct sw_slice host)
{
    ptrdiff_t at = sw_slice_rfind(host, ':');

    if (at < 0 || sw_slice_find(sw_slice_from(host, (size_t)at), ']') >= 0)
        return host;
    for (size_t i = (size_t)at + 1; i < host.n; i++) {
        if (host.p[i] < '0' || host.p[i] > '9')
            return host;
    }
    return sw_slice_head(host, (size_t)at);
}

static const struct sw_gw_vhost *by_length(const struct sw_map *m, const uint32_t *lens, uint32_t n,
                                           struct sw_slice host, bool suffix)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct sw_gw_vhost *v;

        if (lens[i] >= host.n) /* a wildcard never stands for nothing */
            continue;
        v = sw_map_get(m, suffix ? sw_slice_from(host, host.n - lens[i])
                                 : sw_slice_head(host, lens[i]));
        if (v)
            return v;
    }
    return NULL;
}

const struct sw_gw_vhost *sw_gw_vhost_find(const struct sw_gw_routes *t, struct sw_slice authority)
{
    char lower[LOWER_MAX];
    const struct sw_gw_vhost *v;
    struct sw_slice host;

    if (t->n_vhosts == 1 && t->any)
        return t->any;
    if (t->ignore_port)
        authority = without_port(authority);
    if (!authority.p || authority.n >= LOWER_MAX)
        return t->any;
    for (size_t i = 0; i < authority.n; i++) {
        char c = authority.p[i];

        lower[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    host = sw_slice(lower, authority.n);
    v = sw_map_get(&t->exact, host);
    if (!v)
        v = by_length(&t->suffix, t->suffix_lens, t->n_suffix_lens, host, true);
    if (!v)
        v = by_length(&t->prefix, t->prefix_lens, t->n_prefix_lens, host, false);
    return v ? v : t->any;
}

/* ---- conditions ---- */

static bool query_matches(const struct sw_gw_query_match *m, const struct sw_gw_request *req)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_slice v = {NULL, 0};
    bool have = sw_gw_query(req->path, m->name, &v);

    if (!m->has_str)
        return have == m->present;
    if (!have || !v.p)
        return false;
    if (memchr(v.p, '%', v.n) || memchr(v.p, '+', v.n)) {
        struct sw_slice decoded;

        if (sw_percent_decode(&tmp, v, true, &decoded, NULL) == SW_OK)
            v = decoded;
    }
    return sw_gw_str_matches(&m->str, v, req->work);
}

static bool path_matches(const struct sw_gw_match *m, struct sw_slice path,
                         const struct sw_gw_request *req)
{
    struct sw_slice head = sw_slice_head(path, m->path.n);

    if (m->path_kind == SW_GW_PATH_CONNECT)
        return req->connect;
    if (m->path_kind == SW_GW_PATH_REGEX)
        return sw_regex_match(m->re, path, req->work) == 1;
    if (m->icase ? !sw_slice_ieq(head, m->path) : !sw_slice_eq(head, m->path))
        return false;
    if (m->path_kind == SW_GW_PATH_EXACT)
        return path.n == m->path.n;
    return m->path_kind == SW_GW_PATH_PREFIX || path.n == m->path.n || path.p[m->path.n] == '/';
}

/* Everything but the path. */
static bool rest_matches(const struct sw_gw_match *m, const struct sw_gw_request *req,
                         const struct sw_gw_facts *facts)
{
    if (m->grpc && !req->grpc)
        return false;
    for (uint16_t i = 0; i < m->n_headers; i++) {
        if (!sw_gw_header_matches(&m->headers[i], req))
            return false;
    }
    for (uint16_t i = 0; i < m->n_queries; i++) {
        if (!query_matches(&m->queries[i], req))
            return false;
    }
    for (uint16_t i = 0; i < m->n_cookies; i++) {
        struct sw_slice v = sw_gw_cookie(&req->fields, m->cookies[i].name);

        if ((v.p && sw_gw_str_matches(&m->cookies[i].str, v, req->work)) == m->cookies[i].invert)
            return false;
    }
    if (m->tls_presented >= 0 && (m->tls_presented != 0) != facts->cert_presented)
        return false;
    if (m->tls_validated >= 0 && (m->tls_validated != 0) != facts->cert_validated)
        return false;
    return m->millionths >= 1000000 || facts->rnd % 1000000 < m->millionths;
}

static struct sw_slice bare_path(const struct sw_gw_request *req)
{
    struct sw_slice path;
    struct sw_slice query;

    sw_target_split(req->path, &path, &query);
    return path;
}

const struct sw_gw_route *sw_gw_route_scan(const struct sw_gw_vhost *v,
                                           const struct sw_gw_request *req,
                                           const struct sw_gw_facts *facts)
{
    struct sw_slice path = bare_path(req);

    for (uint32_t i = 0; i < v->n_routes; i++) {
        const struct sw_gw_match *m = &v->routes[i].match;

        if (path_matches(m, path, req) && rest_matches(m, req, facts))
            return &v->routes[i];
    }
    return NULL;
}

/* Follows the routes under one key; the best so far is the one with the lowest number. */
static uint32_t along(const struct sw_gw_vhost *v, uintptr_t first, struct sw_slice path,
                      const struct sw_gw_request *req, const struct sw_gw_facts *facts,
                      uint32_t best)
{
    for (uint32_t at = (uint32_t)first; at && at - 1 < best; at = v->routes[at - 1].next) {
        const struct sw_gw_match *m = &v->routes[at - 1].match;

        if (path_matches(m, path, req) && rest_matches(m, req, facts))
            return at - 1;
    }
    return best;
}

const struct sw_gw_route *sw_gw_route_find(const struct sw_gw_vhost *v,
                                           const struct sw_gw_request *req,
                                           const struct sw_gw_facts *facts)
{
    struct sw_slice path = bare_path(req);
    uint32_t best = UINT32_MAX;

    if (!v->indexed)
        return sw_gw_route_scan(v, req, facts);
    best = along(v, (uintptr_t)sw_map_get(&v->exact, path), path, req, facts, best);
    for (uint32_t i = 0; i < v->n_prefix_lens; i++) {
        if (v->prefix_lens[i] > path.n)
            continue;
        best = along(v, (uintptr_t)sw_map_get(&v->prefix, sw_slice_head(path, v->prefix_lens[i])),
                     path, req, facts, best);
    }
    for (uint32_t i = 0; i < v->n_others && v->others[i] < best; i++) {
        const struct sw_gw_match *m = &v->routes[v->others[i]].match;

        if (path_matches(m, path, req) && rest_matches(m, req, facts))
            best = v->others[i];
    }
    return best == UINT32_MAX ? NULL : &v->routes[best];
}

/* ---- indexes ---- */

enum { INDEX_FROM = 8 };

static int longest_first(const void *a, const void *b)
{
    uint32_t x;
    uint32_t y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Distinct key lengths of a map, longest first. */
static uint32_t *lengths(struct sw_arena *a, const struct sw_map *m, uint32_t *ret_n)
{
    uint32_t *out = sw_arena_array(a, m->n ? m->n : 1, sizeof(*out));
    uint32_t n = 0;
    uint32_t kept = 0;

    SW_MAP_FOREACH (it, m)
        out[n++] = (uint32_t)it->key.n;
    qsort(out, n, sizeof(*out), longest_first);
    for (uint32_t i = 0; i < n; i++) {
        if (kept == 0 || out[kept - 1] != out[i])
            out[kept++] = out[i];
    }
    *ret_n = kept;
    return out;
}

void sw_gw_vhost_index(struct sw_gw_vhost *v)
{
    struct sw_arena *a = &v->arena;

    if (v->n_routes <= INDEX_FROM)
        return;
    v->indexed = true;
    v->others = sw_arena_array(a, v->n_routes, sizeof(*v->others));
    /* Backwards, so that each chain starts with its lowest number. */
    for (uint32_t i = v->n_routes; i-- > 0;) {
        struct sw_gw_route *r = &v->routes[i];
        bool exact = r->match.path_kind == SW_GW_PATH_EXACT;
        void *number = (void *)(uintptr_t)(i + 1); /* NOLINT(performance-no-int-to-ptr) */

        if (r->match.icase || r->match.path_kind == SW_GW_PATH_REGEX ||
            r->match.path_kind == SW_GW_PATH_CONNECT)
            continue;
        r->next =
            (uint32_t)(uintptr_t)sw_map_put(exact ? &v->exact : &v->prefix, r->match.path, number);
    }
    for (uint32_t i = 0; i < v->n_routes; i++) {
        const struct sw_gw_match *m = &v->routes[i].match;

        if (m->icase || m->path_kind == SW_GW_PATH_REGEX || m->path_kind == SW_GW_PATH_CONNECT)
            v->others[v->n_others++] = i;
    }
    v->prefix_lens = lengths(a, &v->prefix, &v->n_prefix_lens);
}

void sw_gw_routes_index(struct sw_gw_routes *t)
{
    t->suffix_lens = lengths(&t->arena, &t->suffix, &t->n_suffix_lens);
    t->prefix_lens = lengths(&t->arena, &t->prefix, &t->n_prefix_lens);
}
