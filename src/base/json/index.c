/* SPDX-License-Identifier: Apache-2.0 */
/* Linear probing over (hash, position); positions follow the member array as it is edited. */
#include "base/json/index.h"

#include "base/hash.h"

struct slot {
    uint32_t hash;
    uint32_t pos1; /* position + 1; 0 = empty */
};

struct sw_json_index {
    uint32_t mask;
    uint32_t n;
    struct slot slots[];
};

struct sw_json_index *sw_json_index_new(struct sw_arena *a, size_t n)
{
    size_t cap = 64;
    struct sw_json_index *x;

    while (cap < n * 2)
        cap *= 2;
    x = sw_arena_alloc(a, sizeof(*x) + cap * sizeof(x->slots[0]));
    x->mask = (uint32_t)(cap - 1);
    return x;
}

bool sw_json_index_has_room(const struct sw_json_index *x)
{
    return (uint64_t)x->n * 4 < (uint64_t)x->mask * 3;
}

uint32_t sw_json_index_hash(struct sw_slice key)
{
    return (uint32_t)sw_hash(key.p, key.n);
}

ptrdiff_t sw_json_index_find(const struct sw_json_index *x, const struct sw_json_member *members,
                             struct sw_slice key, uint32_t hash)
{
    for (uint32_t i = hash & x->mask; x->slots[i].pos1; i = (i + 1) & x->mask) {
        const struct slot *s = &x->slots[i];

        if (s->hash == hash && sw_slice_eq(members[s->pos1 - 1].key, key))
            return (ptrdiff_t)s->pos1 - 1;
    }
    return -1;
}

void sw_json_index_add(struct sw_json_index *x, uint32_t hash, size_t pos)
{
    uint32_t i = hash & x->mask;

    while (x->slots[i].pos1)
        i = (i + 1) & x->mask;
    x->slots[i] = (struct slot){.hash = hash, .pos1 = (uint32_t)pos + 1};
    x->n++;
}

/* Closes the hole at i so that every probe sequence stays unbroken. */
static void fill_hole(struct sw_json_index *x, uint32_t i)
{
    uint32_t j = i;

    for (;;) {
        j = (j + 1) & x->mask;
        if (!x->slots[j].pos1)
            break;
        /* An entry may move back only if its home is not between the hole and itself. */
        if (((j - x->slots[j].hash) & x->mask) < ((j - i) & x->mask))
            continue;
        x->slots[i] = x->slots[j];
        i = j;
    }
    x->slots[i] = (struct slot){0};
}

void sw_json_index_del(struct sw_json_index *x, uint32_t hash, size_t pos)
{
    uint32_t i = hash & x->mask;

    while (x->slots[i].pos1 != pos + 1)
        i = (i + 1) & x->mask;
    fill_hole(x, i);
    x->n--;
    for (uint32_t k = 0; k <= x->mask; k++)
        x->slots[k].pos1 -= x->slots[k].pos1 > pos + 1;
}

void sw_json_index_shift(struct sw_json_index *x, size_t pos)
{
    for (uint32_t k = 0; k <= x->mask; k++)
        x->slots[k].pos1 += x->slots[k].pos1 > pos;
}

void sw_json_index_clear(struct sw_json_index *x)
{
    memset(x->slots, 0, ((size_t)x->mask + 1) * sizeof(x->slots[0]));
    x->n = 0;
}
