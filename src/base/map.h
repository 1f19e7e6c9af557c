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

/* The same for SW_MAP_EACH, which keeps the slot in a pointer to the type of a value. */
static inline void *sw_map_after(const struct sw_map *m, const void *slot)
{
    return sw_map_next(m, (struct sw_map_slot *)(uintptr_t)slot);
}

static inline void *sw_map_value(const void *slot)
{
    return ((const struct sw_map_slot *)slot)->value;
}

/* The values, in any order and none of them NULL, under the same rule; 'it' has the type of a
 * value. */
#define SW_MAP_EACH(type, it, m)                                                                   \
    for (type * it, *sw_at_##it = sw_map_after((m), NULL);                                         \
         sw_at_##it && (it = sw_map_value(sw_at_##it), true);                                      \
         sw_at_##it = sw_map_after((m), sw_at_##it))

/* Gives each value to a function that frees it, then frees the map. */
#define SW_MAP_DRAIN(m, free_value)                                                                \
    do {                                                                                           \
        SW_MAP_FOREACH (sw_it_, (m))                                                               \
            free_value(sw_it_->value);                                                             \
        sw_map_done(m);                                                                            \
    } while (0)
