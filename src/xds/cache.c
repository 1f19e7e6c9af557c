/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A commit merges two sorted lists: what a type has and what the transaction says. Resources whose
 * content did not change keep their pointer, so that finding differences later is comparing
 * pointers.
 */
#include "xds/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "proto/pb.h"
#include "xds/limits.h"

/* Field numbers of Any and envoy.service.discovery.v3.Resource. */
enum {
    ANY_TYPE_URL = 1,
    ANY_VALUE = 2,
    RESOURCE_VERSION = 1,
    RESOURCE_RESOURCE = 2,
    RESOURCE_NAME = 3,
};

/* --- resources --- */

/* Versions outlive the process (clients name them when they come back), so the keys are fixed. */
static void hash_into(struct sw_slice a, uint64_t h[2])
{
    uint64_t h0 = sw_siphash13(h[0], h[1], a.p, a.n);

    h[1] = sw_siphash13(h[1] ^ UINT64_C(0x9e3779b97f4a7c15), h0, a.p, a.n);
    h[0] = h0;
}

static void version_text(const uint64_t h[2], char out[SW_XDS_VERSION_LEN + 1])
{
    static const char hex[] = "0123456789abcdef";

    for (int i = 0; i < SW_XDS_VERSION_LEN; i++)
        out[i] = hex[h[i / 16] >> (60 - 4 * (i % 16)) & 15];
    out[SW_XDS_VERSION_LEN] = 0;
}

static int put_any(struct sw_buf *b, struct sw_slice type, struct sw_slice value)
{
    if (sw_pb_put_bytes(b, ANY_TYPE_URL, type) != SW_OK)
        return SW_ELIMIT;
    /* An empty message is an empty value, which proto3 leaves out. */
    return value.n ? sw_pb_put_bytes(b, ANY_VALUE, value) : SW_OK;
}

/* Without the view it is kept for. */
static struct sw_slice plain_type(struct sw_slice type)
{
    ptrdiff_t at = sw_slice_find(type, '#');

    return at < 0 ? type : sw_slice_from(type, (size_t)at + 1);
}

/* Encodes everything into one piece of memory; the slices point into it. */
static struct sw_xds_res *res_new(struct sw_slice type, struct sw_slice name, struct sw_slice value)
{
    struct sw_xds_res *r = SW_NEW(struct sw_xds_res);
    char version[SW_XDS_VERSION_LEN + 1];
    size_t any = sw_pb_bytes_size(ANY_TYPE_URL, type.n) +
                 (value.n ? sw_pb_bytes_size(ANY_VALUE, value.n) : 0);
    size_t total = sw_pb_bytes_size(RESOURCE_VERSION, SW_XDS_VERSION_LEN) +
                   sw_pb_bytes_size(RESOURCE_RESOURCE, any) +
                   sw_pb_bytes_size(RESOURCE_NAME, name.n);
    struct sw_buf b;
    bool ok;

    hash_into(value, r->mix);
    version_text(r->mix, version);
    hash_into(name, r->mix);
    sw_buf_init(&b, total);
    ok = sw_buf_reserve(&b, total) != NULL &&
         sw_pb_put_bytes(&b, RESOURCE_VERSION, sw_slice_str(version)) == SW_OK;
    r->version = sw_slice(b.p + b.n - SW_XDS_VERSION_LEN, SW_XDS_VERSION_LEN);
    ok = ok && sw_pb_put_head(&b, RESOURCE_RESOURCE, any) == SW_OK;
    r->any = sw_slice(b.p + b.n, any);
    ok = ok && put_any(&b, type, value) == SW_OK;
    r->value = sw_slice(b.p + b.n - value.n, value.n);
    ok = ok && sw_pb_put_bytes(&b, RESOURCE_NAME, name) == SW_OK;
    r->name = sw_slice(b.p + b.n - name.n, name.n);
    r->resource = sw_slice(b.p, b.n);
    r->refs = 1;
    if (!ok)
        abort(); /* the sizes above are exact */
    return r;
}

struct sw_xds_res *sw_xds_res_ref(struct sw_xds_res *r)
{
    r->refs++;
    return r;
}

void sw_xds_res_unref(struct sw_xds_res *r)
{
    if (!r || --r->refs > 0)
        return;
    sw_slice_free(&r->resource);
    sw_free(r);
}

/* --- snapshots --- */

static struct sw_xds_snap *snap_new(size_t cap)
{
    struct sw_xds_snap *s = SW_NEW(struct sw_xds_snap);

    s->refs = 1;
    s->res = SW_NEW_ARRAY(struct sw_xds_res *, cap + 1);
    return s;
}

/*
 * All resources are in: the version follows from them. A sum, so that a set of thousands costs
 * little more than looking at each.
 */
static void snap_seal(struct sw_xds_snap *s)
{
    uint64_t sum[2] = {s->n, 0};

    for (size_t i = 0; i < s->n; i++) {
        sum[0] += s->res[i]->mix[0];
        sum[1] += s->res[i]->mix[1];
    }
    version_text(sum, s->version);
}

struct sw_xds_snap *sw_xds_snap_ref(struct sw_xds_snap *s)
{
    s->refs++;
    return s;
}

void sw_xds_snap_unref(struct sw_xds_snap *s)
{
    if (!s || --s->refs > 0)
        return;
    for (size_t i = 0; i < s->n; i++)
        sw_xds_res_unref(s->res[i]);
    sw_free(s->res);
    sw_free(s);
}

struct sw_xds_res *sw_xds_snap_get(const struct sw_xds_snap *s, struct sw_slice name)
{
    size_t lo = 0;
    size_t hi = s ? s->n : 0;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int cmp = sw_slice_cmp(s->res[mid]->name, name);

        if (cmp == 0)
            return s->res[mid];
        if (cmp < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* Names of a that b does not have. Nearly everything is the same pointer in both. */
static size_t count_missing(const struct sw_xds_snap *a, const struct sw_xds_snap *b)
{
    size_t missing = 0;
    size_t i = 0;
    size_t j = 0;

    while (i < a->n) {
        int cmp = j == b->n                ? -1
                  : a->res[i] == b->res[j] ? 0
                                           : sw_slice_cmp(a->res[i]->name, b->res[j]->name);

        missing += cmp < 0;
        i += cmp <= 0;
        j += cmp >= 0;
    }
    return missing;
}

struct sw_xds_snap *sw_xds_snap_union(const struct sw_xds_snap *a, struct sw_xds_snap *b)
{
    size_t missing = a && a != b ? count_missing(a, b) : 0;
    struct sw_xds_snap *u;
    size_t i = 0;
    size_t j = 0;

    if (missing == 0)
        return sw_xds_snap_ref(b);
    u = snap_new(b->n + missing);
    while (i < a->n || j < b->n) {
        int cmp = i == a->n ? 1 : j == b->n ? -1 : sw_slice_cmp(a->res[i]->name, b->res[j]->name);

        u->res[u->n++] = sw_xds_res_ref(cmp < 0 ? a->res[i] : b->res[j]);
        i += cmp <= 0;
        j += cmp >= 0;
    }
    snap_seal(u);
    return u;
}

/* --- transactions --- */

struct op {
    struct sw_slice name;   /* of res, or owned when there is none */
    struct sw_xds_res *res; /* owned; NULL: delete */
    size_t seq;
};

struct change {
    char *type;
    bool whole; /* what is not named goes */
    SW_VEC(struct op) ops;
};

struct sw_xds_txn {
    SW_VEC(struct change) changes; /* few types: a list will do */
};

struct sw_xds_txn *sw_xds_txn_new(void)
{
    return SW_NEW(struct sw_xds_txn);
}

static void op_done(struct op *o)
{
    if (o->res)
        sw_xds_res_unref(o->res);
    else
        sw_slice_free(&o->name);
}

void sw_xds_txn_free(struct sw_xds_txn *t)
{
    if (!t)
        return;
    SW_VEC_FOREACH (struct change, c, &t->changes) {
        SW_VEC_FOREACH (struct op, o, &c->ops)
            op_done(o);
        sw_vec_done(&c->ops);
        sw_free(c->type);
    }
    sw_vec_done(&t->changes);
    sw_free(t);
}

static struct change *change_of(struct sw_xds_txn *t, const char *type, bool whole)
{
    SW_VEC_FOREACH (struct change, c, &t->changes) {
        if (strcmp(c->type, type) == 0)
            return c;
    }
    sw_vec_push(&t->changes, (struct change){.type = sw_strdup(type), .whole = whole});
    return &t->changes.p[t->changes.n - 1];
}

static int add_op(struct sw_xds_txn *t, const char *type, bool whole, struct sw_slice name,
                  const struct sw_slice *value, struct sw_err *err)
{
    struct change *c;
    struct op o = {0};

    if (name.n > SW_XDS_NAME_MAX || strlen(type) > SW_XDS_TYPE_MAX)
        return sw_err_set(err, SW_EINVAL, "name or type of a resource is too long");
    if (value && value->n > SW_XDS_RESOURCE_MAX)
        return sw_err_set(err, SW_ELIMIT, "resource '%.*s' is too large", SW_SLICE_ARG(name));
    c = change_of(t, type, whole);
    if (c->whole != whole)
        return sw_err_set(err, SW_EINVAL, "single changes and a whole set of '%s' are mixed", type);
    o.seq = c->ops.n;
    if (value) {
        o.res = res_new(plain_type(sw_slice_str(type)), name, *value);
        o.name = o.res->name;
    } else {
        o.name = sw_slice(sw_slice_dup(name), name.n);
    }
    sw_vec_push(&c->ops, o);
    return SW_OK;
}

int sw_xds_txn_put(struct sw_xds_txn *t, const char *type, struct sw_slice name,
                   struct sw_slice value, struct sw_err *err)
{
    return add_op(t, type, true, name, &value, err);
}

void sw_xds_txn_clear(struct sw_xds_txn *t, const char *type)
{
    (void)change_of(t, type, true);
}

int sw_xds_txn_set(struct sw_xds_txn *t, const char *type, struct sw_slice name,
                   struct sw_slice value, struct sw_err *err)
{
    return add_op(t, type, false, name, &value, err);
}

int sw_xds_txn_del(struct sw_xds_txn *t, const char *type, struct sw_slice name, struct sw_err *err)
{
    return add_op(t, type, false, name, NULL, err);
}

static int op_cmp(const void *x, const void *y)
{
    const struct op *a = x;
    const struct op *b = y;
    int cmp = sw_slice_cmp(a->name, b->name);

    return cmp ? cmp : a->seq < b->seq ? -1 : 1;
}

/* Sorted by name, the last of each name only. */
static void settle(struct change *c)
{
    size_t n = 0;

    if (c->ops.n == 0)
        return;
    qsort(c->ops.p, c->ops.n, sizeof(*c->ops.p), op_cmp);
    for (size_t i = 0; i < c->ops.n; i++) {
        if (i + 1 < c->ops.n && sw_slice_eq(c->ops.p[i].name, c->ops.p[i + 1].name))
            op_done(&c->ops.p[i]);
        else
            c->ops.p[n++] = c->ops.p[i];
    }
    c->ops.n = n;
}

/* --- the cache --- */

struct type {
    char *url;
    struct sw_xds_snap *snap;
};

struct sw_xds_cache {
    struct sw_map types; /* url -> struct type */
    struct sw_xds_snap *empty;
    struct sw_list listeners;
    uint64_t generation;
    bool held;
};

struct sw_xds_cache *sw_xds_cache_new(void)
{
    struct sw_xds_cache *c = SW_NEW(struct sw_xds_cache);

    c->empty = snap_new(0);
    snap_seal(c->empty);
    sw_list_init(&c->listeners);
    return c;
}

void sw_xds_cache_free(struct sw_xds_cache *c)
{
    if (!c)
        return;
    while (!sw_list_empty(&c->listeners)) {
        struct sw_xds_listener *l =
            SW_CONTAINER_OF(c->listeners.next, struct sw_xds_listener, link);

        sw_list_unlink(&l->link);
        l->on_gone(l);
    }
    SW_MAP_FOREACH (it, &c->types) {
        struct type *t = it->value;

        sw_xds_snap_unref(t->snap);
        sw_free(t->url);
        sw_free(t);
    }
    sw_map_done(&c->types);
    sw_xds_snap_unref(c->empty);
    sw_free(c);
}

/* Takes one side of the merge; counts what it means. */
static void merge_one(struct sw_xds_snap *out, struct sw_xds_res *old, const struct op *o,
                      bool whole, struct sw_xds_diff *d)
{
    if (!o) {
        if (whole)
            d->removed++;
        else
            out->res[out->n++] = sw_xds_res_ref(old);
    } else if (!o->res) {
        d->removed += old != NULL;
    } else if (old && sw_slice_eq(old->version, o->res->version)) {
        out->res[out->n++] = sw_xds_res_ref(old);
    } else {
        out->res[out->n++] = sw_xds_res_ref(o->res);
        d->changed += old != NULL;
        d->added += old == NULL;
    }
}

static struct sw_xds_snap *merge(const struct sw_xds_snap *old, const struct change *c,
                                 struct sw_xds_diff *d)
{
    struct sw_xds_snap *out = snap_new(old->n + c->ops.n);
    size_t i = 0;
    size_t j = 0;

    while (i < old->n || j < c->ops.n) {
        int cmp = i == old->n     ? 1
                  : j == c->ops.n ? -1
                                  : sw_slice_cmp(old->res[i]->name, c->ops.p[j].name);

        merge_one(out, cmp <= 0 ? old->res[i] : NULL, cmp >= 0 ? &c->ops.p[j] : NULL, c->whole, d);
        i += cmp <= 0;
        j += cmp >= 0;
    }
    return out;
}

/* Takes the reference over. */
static void set_type(struct sw_xds_cache *c, const char *url, struct sw_xds_snap *next)
{
    struct type *t = sw_map_get(&c->types, sw_slice_str(url));

    snap_seal(next);
    if (!t) {
        t = SW_NEW(struct type);
        t->url = sw_strdup(url);
        (void)sw_map_put(&c->types, sw_slice_str(t->url), t);
    }
    sw_xds_snap_unref(t->snap);
    t->snap = next;
}

static void apply(struct sw_xds_cache *c, struct change *ch, struct sw_xds_diff *total)
{
    struct sw_xds_diff d = {0};
    struct sw_xds_snap *next;

    settle(ch);
    next = merge(sw_xds_cache_get(c, sw_slice_str(ch->type)), ch, &d);
    if (d.added + d.changed + d.removed == 0) {
        sw_xds_snap_unref(next);
        return;
    }
    set_type(c, ch->type, next);
    total->added += d.added;
    total->changed += d.changed;
    total->removed += d.removed;
}

static void tell(struct sw_xds_cache *c)
{
    SW_LIST_FOREACH (it, &c->listeners) {
        struct sw_xds_listener *l = SW_CONTAINER_OF(it, struct sw_xds_listener, link);

        l->on_change(l);
    }
}

struct sw_xds_diff sw_xds_cache_commit(struct sw_xds_cache *c, struct sw_xds_txn *t)
{
    struct sw_xds_diff d = {0};

    SW_VEC_FOREACH (struct change, ch, &t->changes)
        apply(c, ch, &d);
    sw_xds_txn_free(t);
    if (d.added + d.changed + d.removed == 0)
        return d;
    c->generation++;
    tell(c);
    return d;
}

void sw_xds_cache_subset(struct sw_xds_cache *c, const char *to, const char *from,
                         const struct sw_slice *names, size_t n)
{
    const struct sw_xds_snap *all = sw_xds_cache_get(c, sw_slice_str(from));
    const struct sw_xds_snap *old = sw_xds_cache_get(c, sw_slice_str(to));
    struct sw_xds_snap *next = snap_new(n);
    bool same;

    for (size_t i = 0; i < n; i++) {
        struct sw_xds_res *r = sw_xds_snap_get(all, names[i]);

        if (r && (next->n == 0 || next->res[next->n - 1] != r))
            next->res[next->n++] = sw_xds_res_ref(r);
    }
    same = next->n == old->n;
    for (size_t i = 0; i < next->n && same; i++)
        same = next->res[i] == old->res[i];
    if (same) {
        sw_xds_snap_unref(next);
        return;
    }
    set_type(c, to, next);
    c->generation++;
    tell(c);
}

void sw_xds_cache_hold(struct sw_xds_cache *c, bool hold)
{
    bool before = c->held;

    c->held = hold;
    if (before && !hold)
        tell(c);
}

bool sw_xds_cache_held(const struct sw_xds_cache *c)
{
    return c->held;
}

struct sw_xds_snap *sw_xds_cache_get(const struct sw_xds_cache *c, struct sw_slice type)
{
    const struct type *t = sw_map_get(&c->types, type);

    return t ? t->snap : c->empty;
}

uint64_t sw_xds_cache_generation(const struct sw_xds_cache *c)
{
    return c->generation;
}

void sw_xds_cache_listen(struct sw_xds_cache *c, struct sw_xds_listener *l)
{
    sw_list_push_back(&c->listeners, &l->link);
}

void sw_xds_cache_unlisten(struct sw_xds_listener *l)
{
    sw_list_unlink(&l->link);
}
