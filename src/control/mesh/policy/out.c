/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/policy/out.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum { SCOPES_MAX = 1024 }; /* more at once: all workloads are looked at */

/* What was handed out, and what waits for it. */
struct mesh_policy_res {
    char *key;             /* owned */
    struct sw_slice value; /* owned, until it is handed out; p == NULL: there is none */
    uint64_t sent;         /* hash of what was handed out */
    bool was_sent;
    bool queued;
};

struct mesh_policy_affected {
    struct sw_arena arena;
    struct sw_mesh_policy_scope s;
};

static void res_free(struct mesh_policy_res *r)
{
    sw_slice_free(&r->value);
    sw_free(r->key);
    sw_free(r);
}

static void affected_free(struct mesh_policy_affected *s)
{
    sw_arena_clear(&s->arena);
    sw_free(s);
}

void mesh_policy_out_done(struct mesh_policy_out *o)
{
    SW_MAP_FOREACH (it, &o->all)
        res_free(it->value);
    for (size_t i = 0; i < o->scopes.n; i++)
        affected_free(o->scopes.p[i]);
    sw_map_done(&o->all);
    sw_vec_done(&o->queue);
    sw_vec_done(&o->scopes);
}

/* ---- resources ---- */

static struct mesh_policy_res *res_of(struct mesh_policy_out *o, struct sw_slice key)
{
    struct mesh_policy_res *r = sw_map_get(&o->all, key);

    if (r)
        return r;
    r = SW_NEW(struct mesh_policy_res);
    r->key = sw_slice_dup(key);
    (void)sw_map_put(&o->all, sw_slice(r->key, key.n), r);
    return r;
}

void mesh_policy_out_set(struct mesh_policy_out *o, struct sw_slice key, struct sw_slice value)
{
    struct mesh_policy_res *r = value.p ? res_of(o, key) : sw_map_get(&o->all, key);

    if (!r)
        return;
    sw_slice_free(&r->value);
    r->value = value.p ? sw_slice(sw_slice_dup(value), value.n) : sw_slice(NULL, 0);
    if (!r->queued) {
        r->queued = true;
        sw_vec_push(&o->queue, r);
    }
}

bool mesh_policy_out_has(const struct mesh_policy_out *o, struct sw_slice key)
{
    const struct mesh_policy_res *r = sw_map_get(&o->all, key);

    return r && (r->queued ? r->value.p != NULL : r->was_sent);
}

static int by_key(const void *x, const void *y)
{
    const struct mesh_policy_res *const *a = x;
    const struct mesh_policy_res *const *b = y;

    return strcmp((*a)->key, (*b)->key);
}

static void hand_out(struct mesh_policy_res *r, const struct sw_mesh_policy_sink *sink)
{
    bool is = r->value.p != NULL;
    uint64_t hash = is ? sw_hash(r->value.p, r->value.n) : 0;

    if ((is != r->was_sent || hash != r->sent) && sink->resource)
        sink->resource(sink->arg, sw_slice_str(r->key), r->value);
    r->was_sent = is;
    r->sent = hash;
    r->queued = false;
    sw_slice_free(&r->value);
}

void mesh_policy_out_resources(struct mesh_policy_out *o, const struct sw_mesh_policy_sink *sink)
{
    if (o->queue.n > 1)
        qsort(o->queue.p, o->queue.n, sizeof(*o->queue.p), by_key);
    SW_VEC_EACH (struct mesh_policy_res, r, &o->queue) {
        hand_out(r, sink);
        if (!r->was_sent) {
            (void)sw_map_del(&o->all, sw_slice_str(r->key));
            res_free(r);
        }
    }
    o->queue.n = 0;
}

/* ---- workloads ---- */

void mesh_policy_out_affect(struct mesh_policy_out *o, struct sw_slice ns,
                            struct mesh_selector labels, struct sw_slice waypoint)
{
    struct mesh_policy_affected *s;

    if (o->scopes.n >= SCOPES_MAX || (!ns.n && !labels.n && !waypoint.n))
        o->everything = true;
    if (o->everything)
        return;
    s = SW_NEW(struct mesh_policy_affected);
    labels = mesh_selector_copy(&s->arena, labels);
    s->s = (struct sw_mesh_policy_scope){.ns = sw_arena_slice(&s->arena, ns),
                                         .labels = labels.p,
                                         .n = labels.n,
                                         .waypoint = sw_arena_slice(&s->arena, waypoint)};
    sw_vec_push(&o->scopes, s);
}

void mesh_policy_out_scopes(struct mesh_policy_out *o, const struct sw_mesh_policy_sink *sink)
{
    const struct sw_mesh_policy_scope all = {0};

    if (o->everything && sink->affected)
        sink->affected(sink->arg, &all);
    for (size_t i = 0; i < o->scopes.n; i++) {
        if (!o->everything && sink->affected)
            sink->affected(sink->arg, &o->scopes.p[i]->s);
        affected_free(o->scopes.p[i]);
    }
    o->scopes.n = 0;
    o->everything = false;
}
