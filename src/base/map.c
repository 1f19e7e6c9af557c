/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include "base/hash.h"
#include "base/mem.h"

enum { MAP_MIN = 8, SLOT_EMPTY = 0, SLOT_DELETED = 1, SLOT_FIRST = 2 };

static uint64_t hash_of(struct sw_slice key)
{
    uint64_t h = sw_hash(key.p, key.n);

    return h < SLOT_FIRST ? h + SLOT_FIRST : h;
}

void sw_map_done(struct sw_map *m)
{
    sw_free(m->slots);
    *m = (struct sw_map){0};
}

static struct sw_map_slot *lookup(const struct sw_map *m, struct sw_slice key, uint64_t h)
{
    if (m->cap == 0)
        return NULL;
    for (size_t i = h & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        struct sw_map_slot *s = &m->slots[i];

        if (s->hash == SLOT_EMPTY)
            return NULL;
        if (s->hash == h && sw_slice_eq(s->key, key))
            return s;
    }
}

void *sw_map_get(const struct sw_map *m, struct sw_slice key)
{
    struct sw_map_slot *s = lookup(m, key, hash_of(key));

    return s ? s->value : NULL;
}

static void place(struct sw_map *m, struct sw_map_slot entry)
{
    size_t i = entry.hash & (m->cap - 1);

    while (m->slots[i].hash >= SLOT_FIRST)
        i = (i + 1) & (m->cap - 1);
    if (m->slots[i].hash == SLOT_EMPTY)
        m->used++;
    m->slots[i] = entry;
    m->n++;
}

static void rehash(struct sw_map *m, size_t slots)
{
    struct sw_map old = *m;
    size_t cap = MAP_MIN;

    while (cap < slots)
        cap *= 2;
    *m = (struct sw_map){.slots = SW_NEW_ARRAY(struct sw_map_slot, cap), .cap = cap};
    for (size_t i = 0; i < old.cap; i++) {
        if (old.slots[i].hash >= SLOT_FIRST)
            place(m, old.slots[i]);
    }
    sw_free(old.slots);
}

void sw_map_reserve(struct sw_map *m, size_t n)
{
    if (n > m->n && n + n / 2 > m->cap)
        rehash(m, n + n / 2); /* a table is full at three quarters */
}

void *sw_map_put(struct sw_map *m, struct sw_slice key, void *value)
{
    uint64_t h = hash_of(key);
    struct sw_map_slot *s = lookup(m, key, h);

    if (s) {
        void *old = s->value;

        s->key = key;
        s->value = value;
        return old;
    }
    if (m->cap == 0 || (m->used + 1) * 4 > m->cap * 3)
        rehash(m, (m->n + 1) * 2);
    place(m, (struct sw_map_slot){.hash = h, .key = key, .value = value});
    return NULL;
}

void *sw_map_del(struct sw_map *m, struct sw_slice key)
{
    struct sw_map_slot *s = lookup(m, key, hash_of(key));
    void *old;

    if (!s)
        return NULL;
    old = s->value;
    *s = (struct sw_map_slot){.hash = SLOT_DELETED};
    m->n--;
    return old;
}
