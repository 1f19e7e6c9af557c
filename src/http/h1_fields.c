/* SPDX-License-Identifier: Apache-2.0 */
/* Looking fields up in a message, and which of them are for one hop. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/search.h"
#include "http/h1_int.h"

const struct sw_slice *sw_h1_field(const struct sw_h1_msg *m, const char *name)
{
    struct sw_slice want = sw_slice_str(name);

    for (size_t i = 0; i < m->nfields; i++) {
        if (sw_slice_ieq(m->fields[i].name, want))
            return &m->fields[i].value;
    }
    return NULL;
}

bool sw_h1_value_has_token(struct sw_slice value, const char *token)
{
    struct sw_slice rest = value;

    while (rest.p) {
        if (sw_slice_ieq(sw_slice_trim(sw_slice_cut(&rest, ',')), sw_slice_str(token)))
            return true;
    }
    return false;
}

bool sw_h1_has_token(const struct sw_h1_msg *m, const char *name, const char *token)
{
    for (size_t i = 0; i < m->nfields; i++) {
        if (sw_slice_ieq(m->fields[i].name, sw_slice_str(name)) &&
            sw_h1_value_has_token(m->fields[i].value, token))
            return true;
    }
    return false;
}

struct sw_h1_msg *sw_h1_msg_dup(struct sw_arena *a, const struct sw_h1_msg *m)
{
    struct sw_h1_msg *d = SW_ARENA_NEW(a, struct sw_h1_msg);
    struct sw_h1_field *f = sw_arena_array(a, m->nfields ? m->nfields : 1, sizeof(*f));
    struct sw_slice *listed = sw_arena_array(a, m->nlisted ? m->nlisted : 1, sizeof(*listed));

    *d = *m;
    d->method = sw_arena_slice(a, m->method);
    d->target = sw_arena_slice(a, m->target);
    d->scheme = sw_arena_slice(a, m->scheme);
    d->authority = sw_arena_slice(a, m->authority);
    d->path_query = sw_arena_slice(a, m->path_query);
    d->reason = sw_arena_slice(a, m->reason);
    d->upgrade = sw_arena_slice(a, m->upgrade);
    for (size_t i = 0; i < m->nfields; i++) {
        f[i].name = sw_arena_slice(a, m->fields[i].name);
        f[i].value = sw_arena_slice(a, m->fields[i].value);
    }
    for (size_t i = 0; i < m->nlisted; i++)
        listed[i] = sw_arena_slice(a, m->listed[i]);
    d->fields = f;
    d->listed = listed;
    return d;
}

/*
 * ---- hop-by-hop fields (RFC 9110 7.6.1) ----
 *
 * Connection may list thousands of options and a head may have hundreds of fields: the names of the
 * fields are sorted once and each option looked up among them, so that the cost grows with the
 * bytes received and not with their product.
 */

static uint8_t lower(char c)
{
    return (uint8_t)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

/* Shorter names first: most comparisons end at the length. */
static int compare(struct sw_slice x, struct sw_slice y)
{
    if (x.n != y.n)
        return x.n < y.n ? -1 : 1;
    for (size_t i = 0; i < x.n; i++) {
        int d = lower(x.p[i]) - lower(y.p[i]);

        if (d)
            return d;
    }
    return 0;
}

static int compare_names(const void *x, const void *y)
{
    return compare(*(const struct sw_slice *)x, *(const struct sw_slice *)y);
}

/* The first of list that is not less than name, or n. */
static size_t find(const struct sw_slice *list, size_t n, struct sw_slice name)
{
    size_t from = 0;

    while (from < n) {
        size_t mid = from + (n - from) / 2;

        if (compare(list[mid], name) < 0)
            from = mid + 1;
        else
            n = mid;
    }
    return from;
}

/* Sets found[] for the names that one Connection value lists. */
static void mark(const struct sw_h1 *p, struct sw_slice value, bool *found)
{
    struct sw_slice rest = value;

    while (rest.p) {
        struct sw_slice option = sw_slice_trim(sw_slice_cut(&rest, ','));
        size_t i = find(p->listed.p, p->listed.n, option);

        if (i < p->listed.n && compare(p->listed.p[i], option) == 0)
            found[i] = true;
    }
}

void h1_list_hops(struct sw_h1 *p)
{
    bool *found = SW_NEW_ARRAY(bool, p->fields.n);
    size_t n = 0;

    p->listed.n = 0;
    SW_VEC_FOREACH (const struct sw_h1_field, it, &p->fields)
        sw_vec_push(&p->listed, it->name);
    qsort(p->listed.p, p->listed.n, sizeof(*p->listed.p), compare_names);
    SW_VEC_FOREACH (const struct sw_h1_field, it, &p->fields) {
        if (sw_slice_ieq(it->name, SW_SLICE_LIT("connection")))
            mark(p, it->value, found);
    }
    for (size_t i = 0; i < p->listed.n; i++) {
        if (found[i])
            p->listed.p[n++] = p->listed.p[i];
    }
    p->listed.n = n;
    p->msg.listed = p->listed.p;
    p->msg.nlisted = n;
    sw_free(found);
}

bool sw_h1_connection_lists(const struct sw_h1_msg *m, struct sw_slice name)
{
    size_t i = find(m->listed, m->nlisted, name);

    return i < m->nlisted && compare(m->listed[i], name) == 0;
}

bool sw_h1_is_hop_by_hop(const struct sw_h1_msg *m, struct sw_slice name)
{
    static const char *const fixed[] = {"connection", "keep-alive",         "proxy-connection",
                                        "te",         "transfer-encoding",  "upgrade",
                                        "trailer",    "proxy-authenticate", "proxy-authorization",
                                        NULL};

    if (sw_word_in_any_case(name, fixed))
        return true;
    /* A peer must not be able to make a proxy drop the routing fields. */
    if (sw_slice_ieq(name, SW_SLICE_LIT("host")) ||
        sw_slice_ieq(name, SW_SLICE_LIT("content-length")))
        return false;
    return sw_h1_connection_lists(m, name);
}
