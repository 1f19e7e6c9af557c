/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A commit merges two sorted lists: what a type has and what the transaction says. Resources whose
 * content did not change keep their pointer, so that finding differences later is comparing
 * pointers. Large types are tables instead (table.h), which change in place.
 */
#include "xds/cache.h"

#include "base/map.h"
#include "base/mem.h"
#include "xds/table.h"
#include "xds/txn_int.h"

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
    sw_xds_version_text(sum, s->version);
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

/* --- the cache --- */

struct type {
    char *url;
    struct sw_xds_snap *snap; /* of other types: empty */
    struct xds_table *table;  /* of large types, else NULL */
    bool offered;
    bool awaited; /* its first commit is still to come */
};

struct sw_xds_cache {
    struct sw_map types; /* url -> struct type */
    struct sw_xds_snap *empty;
    struct sw_list listeners;
    uint64_t generation;
    bool held;
    bool choosy; /* only types that were offered are served */
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
        struct sw_xds_listener *l = SW_LIST_POP(&c->listeners, struct sw_xds_listener, link);

        l->on_gone(l);
    }
    SW_MAP_EACH (struct type, t, &c->types) {
        sw_xds_snap_unref(t->snap);
        xds_table_free(t->table);
        sw_free(t->url);
        sw_free(t);
    }
    sw_map_done(&c->types);
    sw_xds_snap_unref(c->empty);
    sw_free(c);
}

/* Takes one side of the merge; counts what it means. */
static void merge_one(struct sw_xds_snap *out, struct sw_xds_res *old, const struct xds_op *o,
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

static struct sw_xds_snap *merge(const struct sw_xds_snap *old, const struct xds_change *c,
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

static struct type *type_of(struct sw_xds_cache *c, const char *url)
{
    struct type *t = sw_map_get(&c->types, sw_slice_str(url));

    if (t)
        return t;
    t = SW_NEW(struct type);
    t->url = sw_strdup(url);
    t->snap = sw_xds_snap_ref(c->empty);
    if (xds_table_for(sw_slice_str(url)))
        t->table = xds_table_new();
    (void)sw_map_put(&c->types, sw_slice_str(t->url), t);
    return t;
}

/* Takes the reference over. */
static void set_type(struct sw_xds_cache *c, const char *url, struct sw_xds_snap *next)
{
    struct type *t = type_of(c, url);

    snap_seal(next);
    sw_xds_snap_set(&t->snap, next);
}

/* What a whole set does not name goes. The names of the set are in 'keep'. */
static size_t remove_others(struct xds_table *t, const struct sw_map *keep)
{
    size_t removed = 0;

    SW_MAP_FOREACH (it, &t->names) { /* a removal changes the entry, and adds none */
        const struct xds_rec *r = it->value;

        if (r->res && !sw_map_get(keep, r->name))
            removed += xds_table_del(t, r->name);
    }
    return removed;
}

/* In the order of the operations: the last one of a name wins. */
static void apply_table(struct xds_table *t, const struct xds_change *ch, struct sw_xds_diff *d)
{
    struct sw_map keep = {0};

    SW_VEC_FOREACH (struct xds_op, o, &ch->ops) {
        bool fresh;

        if (!o->res) {
            d->removed += xds_table_del(t, o->name);
        } else if (xds_table_set(t, o->res, &fresh)) {
            d->added += fresh;
            d->changed += !fresh;
        }
        if (ch->whole)
            (void)sw_map_put(&keep, o->name, o->res);
    }
    if (ch->whole)
        d->removed += remove_others(t, &keep);
    sw_map_done(&keep);
    xds_table_seal(t);
}

static void apply(struct sw_xds_cache *c, struct xds_change *ch, struct sw_xds_diff *total)
{
    struct sw_xds_diff d = {0};
    struct sw_xds_snap *next;

    if (xds_table_for(sw_slice_str(ch->type))) {
        apply_table(type_of(c, ch->type)->table, ch, &d);
        type_of(c, ch->type)->awaited = false;
    } else {
        xds_change_settle(ch);
        next = merge(sw_xds_cache_get(c, sw_slice_str(ch->type)), ch, &d);
        if (d.added + d.changed + d.removed)
            set_type(c, ch->type, next);
        else
            sw_xds_snap_unref(next);
    }
    total->added += d.added;
    total->changed += d.changed;
    total->removed += d.removed;
}

static void tell(struct sw_xds_cache *c)
{
    SW_LIST_EACH (struct sw_xds_listener, l, &c->listeners, link)
        l->on_change(l);
}

struct sw_xds_diff sw_xds_cache_commit(struct sw_xds_cache *c, struct sw_xds_txn *t)
{
    struct sw_xds_diff d = {0};

    SW_VEC_FOREACH (struct xds_change, ch, &t->changes)
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

void sw_xds_cache_offer(struct sw_xds_cache *c, const char *type)
{
    type_of(c, type)->offered = true;
    c->choosy = true;
}

bool sw_xds_cache_offers(const struct sw_xds_cache *c, struct sw_slice type)
{
    const struct type *t = c->choosy ? sw_map_get(&c->types, type) : NULL;

    return !c->choosy || (t && t->offered);
}

void sw_xds_cache_await(struct sw_xds_cache *c, const char *type)
{
    type_of(c, type)->awaited = true;
}

bool sw_xds_cache_awaits(const struct sw_xds_cache *c, struct sw_slice type)
{
    const struct type *t = sw_map_get(&c->types, type);

    return t && t->awaited;
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

struct xds_table *sw_xds_cache_table(const struct sw_xds_cache *c, struct sw_slice type)
{
    const struct type *t = sw_map_get(&c->types, type);

    return t ? t->table : NULL;
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
