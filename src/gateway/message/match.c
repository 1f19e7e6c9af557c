/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/message/match.h"

#include <string.h>

#include "base/arena.h"
#include "base/hex.h"
#include "http/url.h"

/* Those of the name that stand behind the first, joined to it by commas: in one go, since a client
 * chooses how many there are. */
static struct sw_slice join_fields(const struct sw_gw_fields *f, uint32_t first,
                                   struct sw_arena *tmp)
{
    struct sw_slice name = f->p[first].name;
    size_t total = 0;
    size_t at = 0;
    char *p;

    for (uint32_t i = first; i < f->n; i++)
        total += sw_slice_ieq(f->p[i].name, name) ? f->p[i].value.n + 1 : 0;
    p = sw_arena_alloc(tmp, total);
    for (uint32_t i = first; i < f->n; i++) {
        struct sw_slice v = f->p[i].value.p ? f->p[i].value : sw_slice("", 0);

        if (!sw_slice_ieq(f->p[i].name, name))
            continue;
        memcpy(p + at, v.p, v.n);
        p[at + v.n] = ',';
        at += v.n + 1;
    }
    return sw_slice(p, at - 1);
}

/* All fields of the name, joined by commas when there are several. p == NULL: none. */
static struct sw_slice header_value(const struct sw_gw_request *req, struct sw_slice name,
                                    struct sw_arena *tmp)
{
    struct sw_slice first = sw_slice(NULL, 0);
    uint32_t at = 0;

    if (name.p[0] == ':') {
        if (sw_slice_eq_str(name, ":method"))
            return req->method;
        if (sw_slice_eq_str(name, ":path"))
            return req->path;
        if (sw_slice_eq_str(name, ":authority"))
            return req->authority;
        return sw_slice_eq_str(name, ":scheme") ? req->scheme : first;
    }
    if (sw_slice_eq_str(name, "host"))
        return req->authority;
    for (uint32_t i = 0; i < req->fields.n; i++) {
        const struct sw_h1_field *f = &req->fields.p[i];

        if (f->name.n != name.n || !sw_slice_ieq(f->name, name))
            continue;
        if (first.p)
            return join_fields(&req->fields, at, tmp);
        first = f->value.p ? f->value : sw_slice("", 0);
        at = i;
    }
    return first;
}

static bool in_range(struct sw_slice v, int64_t from, int64_t to)
{
    bool minus = v.n && v.p[0] == '-';
    uint64_t n;
    int64_t i;

    if (!sw_slice_to_u64(minus ? sw_slice_from(v, 1) : v, INT64_MAX, &n))
        return false;
    i = minus ? -(int64_t)n : (int64_t)n;
    return i >= from && i < to;
}

bool sw_gw_header_matches(const struct sw_gw_header_match *m, const struct sw_gw_request *req)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_slice v = header_value(req, m->name, &tmp);
    bool hit = false;

    if (!v.p && m->missing_empty)
        v = sw_slice("", 0);
    if (m->kind == SW_GW_HEADER_PRESENT)
        return ((v.p != NULL) == m->present) != m->invert;
    /* An absent header matches no condition on its value, inverted or not. */
    if (!v.p)
        return false;
    if (m->kind == SW_GW_HEADER_STRING)
        hit = sw_gw_str_matches(&m->str, v, req->work);
    else
        hit = in_range(v, m->from, m->to);
    return hit != m->invert;
}

/* Compares as a form decodes: '+' and escapes count as what they stand for. */
static bool query_name_is(struct sw_slice key, struct sw_slice name)
{
    size_t k = 0;

    for (size_t i = 0; i < key.n; i++, k++) {
        char c = key.p[i] == '+' ? ' ' : key.p[i];

        if (c == '%') {
            int escaped = sw_hex_escape(key, i);

            if (escaped < 0) /* no encoding: a value is taken as it is then, too */
                return sw_slice_eq(key, name);
            c = (char)escaped;
            i += 2;
        }
        if (k >= name.n || name.p[k] != c)
            return false;
    }
    return k == name.n;
}

bool sw_gw_query(struct sw_slice path, struct sw_slice name, struct sw_slice *ret)
{
    struct sw_slice p;
    struct sw_slice q;

    sw_target_split(path, &p, &q);
    while (q.p) {
        struct sw_slice one = sw_slice_cut(&q, '&');
        ptrdiff_t eq = sw_slice_find(one, '=');
        struct sw_slice key = eq < 0 ? one : sw_slice_head(one, (size_t)eq);

        if (one.n && query_name_is(key, name)) {
            *ret = eq < 0 ? sw_slice("", 0) : sw_slice_from(one, (size_t)eq + 1);
            return true;
        }
    }
    return false;
}

struct sw_slice sw_gw_cookie(const struct sw_gw_fields *f, struct sw_slice name)
{
    for (uint32_t i = 0; i < f->n; i++) {
        struct sw_slice rest;

        if (!sw_slice_ieq(f->p[i].name, SW_SLICE_LIT("cookie")))
            continue;
        rest = f->p[i].value;
        while (rest.p) {
            struct sw_slice one = sw_slice_trim(sw_slice_cut(&rest, ';'));
            ptrdiff_t eq = sw_slice_find(one, '=');
            struct sw_slice v;

            if (eq < 0 || !sw_slice_eq(sw_slice_head(one, (size_t)eq), name))
                continue;
            v = sw_slice_from(one, (size_t)eq + 1);
            if (v.n >= 2 && v.p[0] == '"' && v.p[v.n - 1] == '"')
                v = sw_slice(v.p + 1, v.n - 2);
            return v;
        }
    }
    return sw_slice(NULL, 0);
}
