/* SPDX-License-Identifier: Apache-2.0 */
#include "xds/table.h"

#include "base/mem.h"
#include "base/search.h"
#include "proto/types.h"

enum {
    LOG_SLACK = 4096,    /* entries that do not count any more, beyond one per record */
    REMOVED_MIN = 65536, /* removals that are remembered at least */
};

bool xds_table_for(struct sw_slice type)
{
    static const char *const types[] = {SW_TYPE_ADDRESS, SW_TYPE_WORKLOAD, SW_TYPE_AUTHORIZATION,
                                        NULL};

    return sw_word_in(type, types);
}

struct xds_table *xds_table_new(void)
{
    struct xds_table *t = SW_NEW(struct xds_table);

    sw_xds_version_text(t->sum, t->version);
    return t;
}

static void rec_free(struct xds_rec *r)
{
    if (r->res)
        sw_xds_res_unref(r->res);
    else
        sw_slice_free(&r->name);
    sw_free(r);
}

void xds_table_free(struct xds_table *t)
{
    if (!t)
        return;
    xds_index_done(&t->aliases);
    xds_index_done(&t->nodes);
    xds_index_done(&t->services);
    SW_MAP_DRAIN(&t->names, rec_free);
    sw_vec_done(&t->log);
    sw_vec_done(&t->free_slots);
    sw_free(t);
}

/* --- indexes --- */

static void each_key(struct xds_table *t, struct xds_rec *r,
                     void (*fn)(struct xds_index *x, struct sw_slice key, struct xds_rec *rec))
{
    for (size_t i = 0; i < r->res->n_aliases; i++)
        fn(&t->aliases, sw_xds_res_alias(r->res, i), r);
    for (size_t i = 0; i < r->res->n_services; i++)
        fn(&t->services, sw_xds_res_service(r->res, i), r);
    if (r->res->node.n)
        fn(&t->nodes, r->res->node, r);
}

static void count(struct xds_table *t, const struct sw_xds_res *res, bool in)
{
    t->sum[0] += in ? res->mix[0] : -res->mix[0];
    t->sum[1] += in ? res->mix[1] : -res->mix[1];
    t->n += in ? 1 : (size_t)-1;
}

/* The keys of the map and of the indexes are bytes of the resource. */
static void take_content(struct xds_table *t, struct xds_rec *r)
{
    each_key(t, r, xds_index_del);
    count(t, r->res, false);
    sw_xds_res_unref(r->res);
    r->res = NULL;
}

static void give_content(struct xds_table *t, struct xds_rec *r, struct sw_xds_res *res)
{
    r->res = sw_xds_res_ref(res);
    r->name = res->name;
    (void)sw_map_put(&t->names, r->name, r);
    each_key(t, r, xds_index_add);
    count(t, res, true);
}

/* --- changes --- */

static void log_change(struct xds_table *t, struct xds_rec *r)
{
    r->seq = ++t->seq;
    sw_vec_push(&t->log, (struct xds_change_at){.seq = r->seq, .rec = r});
}

static struct xds_rec *rec_new(struct xds_table *t)
{
    struct xds_rec *r = SW_NEW(struct xds_rec);

    if (t->free_slots.n)
        r->slot = t->free_slots.p[--t->free_slots.n];
    else
        r->slot = t->n_slots++;
    return r;
}

bool xds_table_set(struct xds_table *t, struct sw_xds_res *res, bool *ret_new)
{
    struct xds_rec *r = sw_map_get(&t->names, res->name);
    struct sw_slice name = {0};

    *ret_new = !r || !r->res;
    if (r && r->res && sw_slice_eq(r->res->version, res->version))
        return false;
    if (!r) {
        r = rec_new(t);
    } else if (r->res) {
        /* The map's key is a part of what goes: it is replaced before that does. */
        struct sw_xds_res *old = sw_xds_res_ref(r->res);

        take_content(t, r);
        give_content(t, r, res);
        sw_xds_res_unref(old);
        log_change(t, r);
        return true;
    } else {
        name = r->name;
        t->n_removed--;
    }
    give_content(t, r, res);
    sw_slice_free(&name);
    log_change(t, r);
    return true;
}

bool xds_table_del(struct xds_table *t, struct sw_slice name)
{
    struct xds_rec *r = xds_table_get(t, name);
    struct sw_slice copy;

    if (!r)
        return false;
    copy = sw_slice_copy(name);
    (void)sw_map_put(&t->names, copy, r);
    take_content(t, r);
    r->name = copy;
    t->n_removed++;
    log_change(t, r);
    return true;
}

static void forget(struct xds_table *t, struct xds_rec *r)
{
    t->forgotten = r->seq;
    t->n_removed--;
    (void)sw_map_del(&t->names, r->name);
    sw_vec_push(&t->free_slots, r->slot);
    rec_free(r);
}

/* Entries of a record that do not count come before the one that does, and so before its end. */
static void compact(struct xds_table *t, size_t surplus)
{
    size_t n = 0;

    for (size_t i = 0; i < t->log.n; i++) {
        struct xds_change_at at = t->log.p[i];

        if (!xds_change_counts(&at))
            continue;
        if (surplus && !at.rec->res) {
            surplus--;
            forget(t, at.rec);
        } else {
            t->log.p[n++] = at;
        }
    }
    t->log.n = n;
}

void xds_table_seal(struct xds_table *t)
{
    const uint64_t sum[2] = {t->sum[0] + t->n, t->sum[1]};
    size_t keep = sw_max((size_t)REMOVED_MIN, t->n / 2);

    sw_xds_version_text(sum, t->version);
    if (t->n_removed > keep)
        compact(t, t->n_removed - keep / 2);
    else if (t->log.n > 2 * t->names.n + LOG_SLACK)
        compact(t, 0);
}

/* --- reading --- */

struct xds_rec *xds_table_get(const struct xds_table *t, struct sw_slice name)
{
    struct xds_rec *r = sw_map_get(&t->names, name);

    return r && r->res ? r : NULL;
}

size_t xds_table_after(const struct xds_table *t, uint64_t seq)
{
    size_t lo = 0;
    size_t hi = t->log.n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (t->log.p[mid].seq <= seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}
