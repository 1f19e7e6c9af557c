/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which workloads belong to which service. Changes are collected and applied once for each service
 * when the next snapshot is made, removals and additions together: a service of ten thousand
 * endpoints of which a thousand change costs one pass.
 */
#include <string.h>

#include "base/mem.h"
#include "node/state/state_int.h"

enum { FEW = 8 }; /* removals that are looked for one by one */

static uint64_t key_hash(struct sw_slice key)
{
    return sw_state_hash_text(key, sw_slice("", 0));
}

struct sw_roster *sw_roster_find(const struct sw_state_builder *b, struct sw_slice key)
{
    const struct sw_roster *r = SW_SMAP_FIND(const struct sw_roster, it, &b->rosters, key_hash(key),
                                             sw_slice_eq(it->key, key));

    return (struct sw_roster *)(uintptr_t)r; /* the builder's to write */
}

struct sw_roster *sw_roster_get(struct sw_state_builder *b, struct sw_slice key)
{
    struct sw_roster *r = sw_roster_find(b, key);

    if (!r) {
        r = sw_calloc(1, sizeof(*r) + key.n);
        memcpy(r->text, key.p, key.n);
        r->key = sw_slice(r->text, key.n);
        sw_smap_add(&b->rosters, &b->own_edit, key_hash(r->key), r);
    }
    return r;
}

void sw_roster_touch(struct sw_state_builder *b, struct sw_roster *r)
{
    if (!r->dirty)
        sw_vec_push(&b->dirty, r);
    r->dirty = true;
}

void sw_roster_add(struct sw_state_builder *b, struct sw_slice key, const struct sw_workload *w)
{
    struct sw_roster *r = sw_roster_get(b, key);

    sw_vec_push(&b->joins, (struct sw_roster_move){r, w});
    r->joining++;
    sw_roster_touch(b, r);
}

void sw_roster_del(struct sw_state_builder *b, struct sw_slice key, const struct sw_workload *w)
{
    struct sw_roster *r = sw_roster_get(b, key);

    sw_vec_push(&b->leaves, (struct sw_roster_move){r, w});
    r->leaving++;
    sw_roster_touch(b, r);
}

/* ---- making the array again ---- */

struct gone {
    const struct sw_roster *r;
    struct sw_map set; /* bytes of the pointer -> something; empty when there are few */
};

static bool is_gone(const struct gone *g, const struct sw_workload *w)
{
    if (g->set.n)
        return sw_map_get(&g->set, sw_slice(&w, sizeof(w))) != NULL;
    for (size_t i = 0; i < g->r->leaving; i++) {
        if (g->r->moves[g->r->joining + i] == w)
            return true;
    }
    return false;
}

static bool is_odd(const struct sw_workload *w)
{
    return w->n_ips == 0 || w->has_capacity;
}

struct pass {
    const struct sw_workload **to;
    uint32_t n;
    uint32_t odd;
};

static void keep(struct pass *p, const struct sw_workload *const *from, size_t n,
                 const struct gone *g, bool healthy)
{
    for (size_t i = 0; i < n; i++) {
        const struct sw_workload *w = from[i];

        if (g->r->leaving && is_gone(g, w))
            continue;
        if (w->healthy != healthy)
            continue;
        p->to[p->n++] = w;
        p->odd += is_odd(w);
    }
}

static void make_array(struct sw_state_builder *b, struct sw_roster *r)
{
    struct gone g = {.r = r};
    const struct sw_workload **old = r->p;
    struct pass p = {.to = SW_NEW_ARRAY(const struct sw_workload *, r->n + r->joining + 1)};
    const struct sw_workload **left = r->moves + r->joining;

    for (size_t i = 0; r->leaving > FEW && i < r->leaving; i++)
        (void)sw_map_put(&g.set, sw_slice(&left[i], sizeof(left[i])), r);
    keep(&p, old, r->healthy, &g, true);
    keep(&p, r->moves, r->joining, &g, true);
    r->odd_healthy = p.odd;
    keep(&p, old ? old + r->healthy : NULL, r->n - r->healthy, &g, false);
    r->healthy = 0; /* counted below: the first pass knows only those in front */
    keep(&p, r->moves, r->joining, &g, false);
    for (uint32_t i = 0; i < p.n && p.to[i]->healthy; i++)
        r->healthy++;
    r->p = p.to;
    r->n = p.n;
    r->odd = p.odd;
    if (old)
        sw_state_junk(b, old);
    sw_map_done(&g.set);
}

/* The record with the endpoints of now; one that is in a snapshot already is not written to. */
static void show(struct sw_state_builder *b, struct sw_roster *r)
{
    struct sw_service *svc = r->svc;

    if (r->svc_edit != b->edit.number) {
        svc = sw_malloc(sizeof(*svc));
        memcpy(svc, r->svc, sizeof(*svc));
        sw_state_relink_service(b, r->svc, svc);
        r->svc = svc;
        r->svc_edit = b->edit.number;
    }
    svc->endpoints = r->p;
    svc->n_endpoints = svc->allow_unhealthy ? r->n : r->healthy;
    svc->uniform = (svc->allow_unhealthy ? r->odd : r->odd_healthy) == 0;
}

static void stage(struct sw_state_builder *b, struct sw_roster *r)
{
    bool want = !r->svc && r->n > 0;
    uint64_t hash = sw_hash(r->key.p, r->key.n);

    if (want == (r->staged != NULL))
        return;
    if (want) {
        /* One block, because it is freed as one. */
        r->staged = sw_malloc(sizeof(*r->staged) + r->key.n);
        memcpy(r->staged + 1, r->key.p, r->key.n);
        *r->staged = sw_slice(r->staged + 1, r->key.n);
        sw_smap_add(&b->t.staged, &b->edit, hash, r->staged);
        return;
    }
    sw_smap_del(&b->t.staged, &b->edit, hash, r->staged);
    sw_state_junk(b, r->staged);
    r->staged = NULL;
}

static void drop_if_empty(struct sw_state_builder *b, struct sw_roster *r)
{
    if (r->svc || r->n)
        return;
    if (r->p)
        sw_state_junk(b, r->p);
    sw_smap_del(&b->rosters, &b->own_edit, key_hash(r->key), r);
    sw_free(r);
}

static void move(const struct sw_roster_move *m)
{
    m->r->moves[m->r->moved++] = m->w;
}

/* Sorts the moves by their rosters, in one array that is returned. */
static const struct sw_workload **sort_moves(struct sw_state_builder *b)
{
    const struct sw_workload **all =
        SW_NEW_ARRAY(const struct sw_workload *, b->joins.n + b->leaves.n + 1);
    size_t at = 0;

    SW_VEC_FOREACH (struct sw_roster *, it, &b->dirty) {
        (*it)->moves = all + at;
        at += (*it)->joining + (*it)->leaving;
    }
    SW_VEC_FOREACH (struct sw_roster_move, it, &b->joins)
        move(it);
    SW_VEC_FOREACH (struct sw_roster_move, it, &b->leaves)
        move(it);
    sw_vec_done(&b->joins);
    sw_vec_done(&b->leaves);
    return all;
}

void sw_rosters_settle(struct sw_state_builder *b)
{
    const struct sw_workload **moves = sort_moves(b);

    SW_VEC_FOREACH (struct sw_roster *, it, &b->dirty) {
        struct sw_roster *r = *it;

        r->dirty = false;
        if (r->joining || r->leaving)
            make_array(b, r);
        r->moves = NULL;
        r->joining = r->leaving = r->moved = 0;
        if (r->svc)
            show(b, r);
        stage(b, r);
        drop_if_empty(b, r);
    }
    sw_vec_done(&b->dirty);
    sw_free(moves);
}
