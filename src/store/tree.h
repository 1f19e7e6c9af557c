/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ordered index: a persistent treap. Changing it copies the path from the root and leaves the
 * old tree as it was, so a root is a snapshot that readers may walk without locks. Nodes made
 * under the current edit number are not visible to anyone else yet and are changed in place.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "store/object.h"

struct sw_tree {
    atomic_uint refs;
    uint32_t count; /* objects in this subtree */
    uint64_t edit;
    struct sw_tree *kid[2];   /* owned; of the keys below and above */
    struct sw_store_obj *obj; /* owned */
};

struct sw_tree *sw_tree_ref(struct sw_tree *t); /* NULL is the empty tree */
struct sw_tree *sw_tree_unref(struct sw_tree *t);

/* Borrowed; NULL when the key is not there. */
struct sw_store_obj *sw_tree_get(const struct sw_tree *t, struct sw_slice key);
/* Both take over the caller's reference of t and return the changed tree with one. */
struct sw_tree *sw_tree_put(struct sw_tree *t, struct sw_store_obj *obj, uint64_t edit);
struct sw_tree *sw_tree_del(struct sw_tree *t, struct sw_slice key, uint64_t edit);
/* How many keys are below 'key'. */
size_t sw_tree_rank(const struct sw_tree *t, struct sw_slice key);
/* How many keys begin with prefix or are below it. */
size_t sw_tree_rank_behind(const struct sw_tree *t, struct sw_slice prefix);

static inline size_t sw_tree_count(const struct sw_tree *t)
{
    return t ? t->count : 0;
}
