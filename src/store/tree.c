/* SPDX-License-Identifier: Apache-2.0 */
#include "store/tree.h"

#include <stdbool.h>

#include "base/mem.h"

struct sw_tree *sw_tree_ref(struct sw_tree *t)
{
    if (t)
        (void)atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

struct sw_tree *sw_tree_unref(struct sw_tree *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
        return NULL;
    (void)sw_tree_unref(t->kid[0]);
    (void)sw_tree_unref(t->kid[1]);
    (void)sw_store_obj_unref(t->obj);
    sw_free(t);
    return NULL;
}

static void recount(struct sw_tree *t)
{
    t->count = (uint32_t)(1 + sw_tree_count(t->kid[0]) + sw_tree_count(t->kid[1]));
}

static struct sw_tree *leaf(struct sw_store_obj *obj, uint64_t edit)
{
    struct sw_tree *t = SW_NEW(struct sw_tree);

    atomic_init(&t->refs, 1);
    t->count = 1;
    t->edit = edit;
    t->obj = sw_store_obj_ref(obj);
    return t;
}

/* A node this edit may change, holding what t held; takes over the reference of t. */
static struct sw_tree *own(struct sw_tree *t, uint64_t edit)
{
    struct sw_tree *c;

    if (t->edit == edit)
        return t;
    c = leaf(t->obj, edit);
    c->kid[0] = sw_tree_ref(t->kid[0]);
    c->kid[1] = sw_tree_ref(t->kid[1]);
    c->count = t->count;
    (void)sw_tree_unref(t);
    return c;
}

/* Heap order, with the key as tie-break so that the shape depends on the content only. */
static bool above(const struct sw_tree *a, const struct sw_tree *b)
{
    if (a->obj->priority != b->obj->priority)
        return a->obj->priority > b->obj->priority;
    return sw_slice_cmp(a->obj->key, b->obj->key) < 0;
}

struct sw_store_obj *sw_tree_get(const struct sw_tree *t, struct sw_slice key)
{
    while (t) {
        int c = sw_slice_cmp(key, t->obj->key);

        if (c == 0)
            return t->obj;
        t = t->kid[c > 0];
    }
    return NULL;
}

struct sw_tree *sw_tree_put(struct sw_tree *t, struct sw_store_obj *obj, uint64_t edit)
{
    struct sw_tree *up;
    bool side;
    int c;

    if (!t)
        return leaf(obj, edit);
    t = own(t, edit);
    c = sw_slice_cmp(obj->key, t->obj->key);
    if (c == 0) {
        struct sw_store_obj *old = t->obj;

        t->obj = sw_store_obj_ref(obj);
        (void)sw_store_obj_unref(old);
        return t;
    }
    /* The child comes back owned by this edit, so rotating it is safe. */
    side = c > 0;
    up = t->kid[side] = sw_tree_put(t->kid[side], obj, edit);
    if (above(up, t)) {
        t->kid[side] = up->kid[!side];
        recount(t);
        up->kid[!side] = t;
        t = up;
    }
    recount(t);
    return t;
}

/* Joins two trees, all keys of a below those of b; takes over both references. */
static struct sw_tree *join(struct sw_tree *a, struct sw_tree *b, uint64_t edit)
{
    if (!a || !b)
        return a ? a : b;
    if (above(a, b)) {
        a = own(a, edit);
        a->kid[1] = join(a->kid[1], b, edit);
        recount(a);
        return a;
    }
    b = own(b, edit);
    b->kid[0] = join(a, b->kid[0], edit);
    recount(b);
    return b;
}

static struct sw_tree *del_present(struct sw_tree *t, struct sw_slice key, uint64_t edit)
{
    int c = sw_slice_cmp(key, t->obj->key);

    if (c == 0) {
        struct sw_tree *rest = join(sw_tree_ref(t->kid[0]), sw_tree_ref(t->kid[1]), edit);

        (void)sw_tree_unref(t);
        return rest;
    }
    t = own(t, edit);
    t->kid[c > 0] = del_present(t->kid[c > 0], key, edit);
    recount(t);
    return t;
}

struct sw_tree *sw_tree_del(struct sw_tree *t, struct sw_slice key, uint64_t edit)
{
    return sw_tree_get(t, key) ? del_present(t, key, edit) : t;
}

size_t sw_tree_rank(const struct sw_tree *t, struct sw_slice key)
{
    size_t n = 0;

    while (t) {
        if (sw_slice_cmp(t->obj->key, key) < 0) {
            n += 1 + sw_tree_count(t->kid[0]);
            t = t->kid[1];
        } else {
            t = t->kid[0];
        }
    }
    return n;
}

size_t sw_tree_rank_behind(const struct sw_tree *t, struct sw_slice prefix)
{
    size_t n = 0;

    while (t) {
        if (sw_slice_cmp(t->obj->key, prefix) < 0 || sw_slice_has_prefix(t->obj->key, prefix)) {
            n += 1 + sw_tree_count(t->kid[0]);
            t = t->kid[1];
        } else {
            t = t->kid[0];
        }
    }
    return n;
}
