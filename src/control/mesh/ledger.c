/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

static void gone_free(struct mesh_out *g)
{
    sw_free(g->name);
    sw_free(g);
}

/* Takes over the name. */
static void put_gone(struct sw_mesh_index *ix, char *name, uint64_t hash)
{
    struct mesh_out *g = SW_NEW(struct mesh_out);

    *g = (struct mesh_out){.name = name, .hash = hash};
    g = sw_map_put(&ix->gone, sw_slice_str(name), g);
    if (g)
        gone_free(g);
}

static uint64_t take_gone(struct sw_mesh_index *ix, struct sw_slice name)
{
    struct mesh_out *g = ix->gone.n ? sw_map_del(&ix->gone, name) : NULL;
    uint64_t hash = g ? g->hash : 0;

    if (g)
        gone_free(g);
    return hash;
}

/* The value says everything but in which services' split-horizon workloads it counts. */
static uint64_t hash_of(const struct sw_mesh_change *c)
{
    uint64_t h[3] = {sw_hash(c->value.p, c->value.n), c->global, 0};

    if (!c->far && !c->global)
        return h[0] | 1;
    h[1] |= c->far ? 2 : 0;
    for (size_t i = 0; c->far && i < c->far->n_counted; i++)
        h[2] = h[2] * 31 + sw_hash(c->far->counted[i].p, c->far->counted[i].n);
    return sw_hash(h, sizeof(h)) | 1;
}

void mesh_publish(struct sw_mesh_index *ix, uint64_t *slot, const struct sw_mesh_change *c)
{
    uint64_t hash = hash_of(c);

    if (!*slot)
        *slot = take_gone(ix, c->name);
    ix->computed++;
    ix->work += c->value.n;
    if (*slot == hash)
        return;
    *slot = hash;
    ix->emitted++;
    ix->emit(ix->emit_arg, c);
}

void mesh_retire(struct sw_mesh_index *ix, uint64_t *slot, struct sw_slice name)
{
    if (*slot && !ix->closing)
        put_gone(ix, sw_slice_dup(name), *slot);
    *slot = 0;
}

void mesh_outs_put(struct sw_mesh_index *ix, mesh_outs *outs, const struct sw_mesh_change *c)
{
    struct mesh_out o = {.name = sw_slice_dup(c->name)};

    mesh_publish(ix, &o.hash, c);
    sw_vec_push(outs, o);
}

bool mesh_outs_has(const mesh_outs *outs, struct sw_slice name)
{
    for (size_t i = 0; i < outs->n; i++) {
        if (sw_slice_eq_str(name, outs->p[i].name))
            return true;
    }
    return false;
}

void mesh_outs_retire(struct sw_mesh_index *ix, mesh_outs *outs)
{
    SW_VEC_FOREACH (struct mesh_out, o, outs)
        put_gone(ix, o->name, o->hash);
    sw_vec_done(outs);
}

static int by_name(const void *a, const void *b)
{
    const struct mesh_out *const *x = a;
    const struct mesh_out *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

void mesh_gone_flush(struct sw_mesh_index *ix)
{
    SW_VEC(struct mesh_out *) all = {0};

    SW_MAP_FOREACH (it, &ix->gone)
        sw_vec_push(&all, it->value);
    if (all.n > 1)
        qsort(all.p, all.n, sizeof(*all.p), by_name);
    SW_VEC_FOREACH (struct mesh_out *, g, &all) {
        ix->emitted++;
        ix->emit(ix->emit_arg, &(struct sw_mesh_change){.name = sw_slice_str((*g)->name)});
    }
    sw_vec_done(&all);
    mesh_gone_done(ix);
}

void mesh_gone_done(struct sw_mesh_index *ix)
{
    SW_MAP_DRAIN(&ix->gone, gone_free);
    ix->gone = (struct sw_map){0};
}
