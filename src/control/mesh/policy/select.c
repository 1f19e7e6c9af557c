/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/policy/select.h"

#include "base/mem.h"
#include "base/vec.h"

struct entry {
    const struct mesh_selector *selector;
    const void *value;
};

struct bucket {
    struct sw_slice key; /* owned */
    SW_VEC(struct entry) all;
};

/* In the arena. */
static struct sw_slice pair(struct sw_arena *a, const struct sw_mesh_label *l)
{
    return sw_slice_str(
        sw_arena_printf(a, "%.*s\n%.*s", SW_SLICE_ARG(l->key), SW_SLICE_ARG(l->value)));
}

static void bucket_free(struct bucket *b)
{
    sw_vec_done(&b->all);
    sw_slice_free(&b->key);
    sw_free(b);
}

void mesh_select_done(struct mesh_select *m)
{
    SW_MAP_DRAIN(&m->buckets, bucket_free);
}

void mesh_select_add(struct mesh_select *m, const struct mesh_selector *s, const void *value)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice key = pair(&a, &s->p[0]);
    struct bucket *b = sw_map_get(&m->buckets, key);

    if (!b) {
        b = SW_NEW(struct bucket);
        b->key = sw_slice(sw_slice_dup(key), key.n);
        (void)sw_map_put(&m->buckets, b->key, b);
    }
    sw_vec_push(&b->all, (struct entry){.selector = s, .value = value});
}

void mesh_select_del(struct mesh_select *m, const struct mesh_selector *s, const void *value)
{
    SW_ARENA_AUTO a = {0};
    struct bucket *b = s->n ? sw_map_get(&m->buckets, pair(&a, &s->p[0])) : NULL;

    for (size_t i = 0; b && i < b->all.n; i++) {
        if (b->all.p[i].value == value) {
            sw_vec_swap_remove(&b->all, i);
            break;
        }
    }
    if (b && b->all.n == 0) {
        (void)sw_map_del(&m->buckets, b->key);
        bucket_free(b);
    }
}

void mesh_select_each(const struct mesh_select *m, const struct sw_mesh_label *labels, size_t n,
                      mesh_select_fn f, void *arg)
{
    SW_ARENA_AUTO a = {0};

    for (size_t i = 0; i < n && m->buckets.n; i++) {
        const struct bucket *b = sw_map_get(&m->buckets, pair(&a, &labels[i]));

        for (size_t k = 0; b && k < b->all.n; k++) {
            if (mesh_selector_match(b->all.p[k].selector, labels, n))
                f(arg, b->all.p[k].value);
        }
    }
}
