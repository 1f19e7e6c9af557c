/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash map from bytes to a pointer, open addressing, keyed hash (safe for keys a peer chose).
 * Keys are borrowed: they must live as long as their entry (usually inside the value).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct sw_map_slot {
    uint64_t hash; /* 0 = empty, 1 = deleted, others carry a key */
    struct sw_slice key;
    void *value;
};

struct sw_map {
    struct sw_map_slot *slots; /* owned */
    size_t cap;                /* power of two or 0 */
    size_t n;                  /* live entries */
    size_t used;               /* live and deleted */
};

/* A zeroed struct is an empty map. */
void sw_map_done(struct sw_map *m);
/* Makes room for n entries in all, for a caller that knows how many will come. */
void sw_map_reserve(struct sw_map *m, size_t n);
void *sw_map_get(const struct sw_map *m, struct sw_slice key);
/* Inserts or replaces (key pointer included); returns the value that was there, or NULL. */
void *sw_map_put(struct sw_map *m, struct sw_slice key, void *value);
/* Removes and returns the value, or NULL. */
void *sw_map_del(struct sw_map *m, struct sw_slice key);

static inline struct sw_map_slot *sw_map_next(const struct sw_map *m, struct sw_map_slot *at)
{
    struct sw_map_slot *end;

    if (!m->slots)
        return NULL;
    end = m->slots + m->cap;
    at = at ? at + 1 : m->slots;
    while (at < end && at->hash < 2)
        at++;
    return at < end ? at : NULL;
}

/* Order is arbitrary. The current entry may be deleted in the body; inserting is not allowed. */
#define SW_MAP_FOREACH(it, m)                                                                      \
    for (struct sw_map_slot *it = sw_map_next((m), NULL); it; it = sw_map_next((m), it))
