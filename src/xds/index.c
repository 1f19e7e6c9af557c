/* SPDX-License-Identifier: Apache-2.0 */
#include "xds/index.h"

#include <string.h>

#include "base/mem.h"
#include "base/vec.h"

/* A key with several records, which may come and go: it owns its bytes. */
struct group {
    struct sw_slice key;
    SW_VEC(struct xds_rec *) recs;
};

/* The lowest bit of the pointer marks a group. */
static bool is_group(const void *value)
{
    return ((uintptr_t)value & 1) != 0;
}

static struct group *group_of(const void *value)
{
    return (struct group *)((uintptr_t)value & ~(uintptr_t)1);
}

static void *tagged(struct group *g)
{
    return (void *)((uintptr_t)g | 1);
}

static void group_free(struct group *g)
{
    sw_vec_done(&g->recs);
    sw_slice_free(&g->key);
    sw_free(g);
}

void xds_index_done(struct xds_index *x)
{
    SW_MAP_FOREACH (it, &x->map) {
        if (is_group(it->value))
            group_free(group_of(it->value));
    }
    sw_map_done(&x->map);
}

void xds_index_add(struct xds_index *x, struct sw_slice key, struct xds_rec *rec)
{
    void *have = sw_map_get(&x->map, key);
    struct group *g;

    if (!have) {
        (void)sw_map_put(&x->map, key, rec);
        return;
    }
    if (is_group(have)) {
        g = group_of(have);
    } else if (have == rec) {
        return;
    } else {
        g = SW_NEW(struct group);
        g->key = sw_slice_copy(key);
        sw_vec_push(&g->recs, have);
        (void)sw_map_put(&x->map, g->key, tagged(g));
    }
    sw_vec_push(&g->recs, rec);
}

void xds_index_del(struct xds_index *x, struct sw_slice key, struct xds_rec *rec)
{
    void *have = sw_map_get(&x->map, key);
    struct group *g;

    if (have == rec) {
        (void)sw_map_del(&x->map, key);
        return;
    }
    if (!have || !is_group(have))
        return;
    g = group_of(have);
    for (size_t i = 0; i < g->recs.n; i++) {
        if (g->recs.p[i] == rec) {
            sw_vec_swap_remove(&g->recs, i);
            break;
        }
    }
    if (g->recs.n)
        return;
    (void)sw_map_del(&x->map, key);
    group_free(g);
}

void xds_index_find(const struct xds_index *x, struct sw_slice key, struct xds_hits *ret)
{
    void *have = sw_map_get(&x->map, key);

    *ret = (struct xds_hits){0};
    if (!have)
        return;
    if (is_group(have)) {
        ret->p = group_of(have)->recs.p;
        ret->n = group_of(have)->recs.n;
        return;
    }
    ret->one = have;
    ret->p = &ret->one;
    ret->n = 1;
}
