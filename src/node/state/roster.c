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

struct sw_roster *sw_roster_get(struct sw_state_builder *b, struct sw_slice key)
{
    struct sw_roster *r = sw_map_get(&b->rosters, key);

    if (!r) {
        r = SW_NEW(struct sw_roster);
        r->key = sw_slice(sw_slice_dup(key), key.n);
        (void)sw_map_put(&b->rosters, r->key, r);
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

    sw_vec_push(&r->add, w);
    sw_roster_touch(b, r);
}

void sw_roster_del(struct sw_state_builder *b, struct sw_slice key, const struct sw_workload *w)
{
    struct sw_roster *r = sw_roster_get(b, key);

    sw_vec_push(&r->del, w);
    sw_roster_touch(b, r);
}

void sw_roster_free(struct sw_roster *r)
{
    if (!r)
        return;
    sw_vec_done(&r->add);
    sw_vec_done(&r->del);
    sw_slice_free(&r->key);
    sw_free(r);
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
    for (size_t i = 0; i < g->r->del.n; i++) {
        if (g->r->del.p[i] == w)
            return true;
    }
    return false;
}

static bool is_odd(const struct sw_workload *w)
{
    return w->n_ips == 0 || w->capacity != 1;
}

struct pass {
    const struct sw_workload **to;
    size_t n;
    size_t odd;
};

static void keep(struct pass *p, const struct sw_workload *const *from, size_t n,
                 const struct gone *g, bool healthy)
{
    for (size_t i = 0; i < n; i++) {
        const struct sw_workload *w = from[i];

        if (g->r->del.n && is_gone(g, w))
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
    struct pass p = {.to = SW_NEW_ARRAY(const struct sw_workload *, r->n + r->add.n + 1)};

    for (size_t i = 0; r->del.n > FEW && i < r->del.n; i++)
        (void)sw_map_put(&g.set, sw_slice(&r->del.p[i], sizeof(r->del.p[i])), r);
    keep(&p, old, r->healthy, &g, true);
    keep(&p, r->add.p, r->add.n, &g, true);
    r->odd_healthy = p.odd;
    keep(&p, old ? old + r->healthy : NULL, r->n - r->healthy, &g, false);
    r->healthy = 0; /* counted below: the first pass knows only those in front */
    keep(&p, r->add.p, r->add.n, &g, false);
    for (size_t i = 0; i < p.n && p.to[i]->healthy; i++)
        r->healthy++;
    r->p = p.to;
    r->n = p.n;
    r->odd = p.odd;
    if (old)
        sw_state_junk(b, old);
    sw_map_done(&g.set);
    sw_vec_done(&r->add);
    sw_vec_done(&r->del);
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
    (void)sw_map_del(&b->rosters, r->key);
    sw_roster_free(r);
}

void sw_rosters_settle(struct sw_state_builder *b)
{
    SW_VEC_FOREACH (struct sw_roster *, it, &b->dirty) {
        struct sw_roster *r = *it;

        r->dirty = false;
        if (r->add.n || r->del.n)
            make_array(b, r);
        if (r->svc)
            show(b, r);
        stage(b, r);
        drop_if_empty(b, r);
    }
    sw_vec_done(&b->dirty);
}
