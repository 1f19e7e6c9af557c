/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A persistent hash multimap from a 64-bit hash to pointers: an edit copies the few small blocks on
 * its path and leaves every map that was frozen before as it was, so readers of those need no lock.
 * 4096 sorted leaves under two levels of 64; with a million entries a change copies about 5 KB.
 *
 * Neither keys nor whole hashes are stored: who looks up compares keys in the values. Entries of
 * one hash keep their order of insertion. Blocks that an edit replaces are handed to the bin, and
 * stay readable until its owner frees them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

enum { SW_SMAP_FAN = 64 };

/*
 * 16 bits of the hash, behind the 12 that chose the leaf, and a pointer: user space has 48 bits of
 * addresses on every system we run on. Two entries of a leaf that agree in them differ in
 * their keys.
 */
struct sw_smap_entry {
    uint64_t word;
};

static inline const void *sw_smap_value(const struct sw_smap_entry *e)
{
    return (const void *)(uintptr_t)(e->word & (UINT64_MAX >> 16));
}

static inline unsigned sw_smap_part(const struct sw_smap_entry *e)
{
    return (unsigned)(e->word >> 48);
}

static inline unsigned sw_smap_part_of(uint64_t hash)
{
    return (unsigned)(hash << 12 >> 48);
}

struct sw_smap_leaf {
    uint32_t edit; /* the edit that may write to it */
    uint32_t n;
    uint32_t cap;
    struct sw_smap_entry e[]; /* by their part, equal ones in the order of insertion */
};

struct sw_smap_mid {
    uint32_t edit;
    struct sw_smap_leaf *leaf[SW_SMAP_FAN];
};

struct sw_smap_top {
    uint32_t edit;
    struct sw_smap_mid *mid[SW_SMAP_FAN];
};

/* All zero is the empty map. Copying the struct freezes it once the edit number went up. */
struct sw_smap {
    struct sw_smap_top *top;
    size_t n;
};

/* Memory that readers may still look at; who owns the bin frees it with sw_free. */
struct sw_smap_bin {
    SW_VEC(void *) old;
};

struct sw_smap_edit {
    uint32_t number; /* goes up with every snapshot; never 0 */
    struct sw_smap_bin *bin;
};

void sw_smap_add(struct sw_smap *m, const struct sw_smap_edit *ed, uint64_t hash,
                 const void *value);
/* Puts 'value' in the place of 'old', which must be there under this hash; either may be NULL. */
void sw_smap_set(struct sw_smap *m, const struct sw_smap_edit *ed, uint64_t hash, const void *old,
                 const void *value);
/* Takes out 'old', which must be there under this hash. */
void sw_smap_del(struct sw_smap *m, const struct sw_smap_edit *ed, uint64_t hash, const void *old);
/* Frees the blocks of the map, not the values. */
void sw_smap_free(struct sw_smap *m);
/* Heap bytes of the blocks. */
size_t sw_smap_bytes(const struct sw_smap *m);

/* Where the run of a hash starts: the first entry whose part is not below its own. */
static inline const struct sw_smap_entry *sw_smap_seek(const struct sw_smap_leaf *l, uint64_t hash)
{
    unsigned part = sw_smap_part_of(hash);
    /* Hashes are uniform: the place is almost known. */
    size_t at = ((size_t)part * l->n) >> 16;

    while (at > 0 && sw_smap_part(&l->e[at - 1]) >= part)
        at--;
    while (at < l->n && sw_smap_part(&l->e[at]) < part)
        at++;
    return &l->e[at];
}

static inline const struct sw_smap_leaf *sw_smap_leaf(const struct sw_smap *m, uint64_t hash)
{
    const struct sw_smap_mid *mid = m->top ? m->top->mid[hash >> 58] : NULL;

    return mid ? mid->leaf[hash >> 52 & (SW_SMAP_FAN - 1)] : NULL;
}

/* The first entry of that hash, or NULL; *ret_end is where the leaf ends. */
static inline const struct sw_smap_entry *sw_smap_find(const struct sw_smap *m, uint64_t hash,
                                                       const struct sw_smap_entry **ret_end)
{
    const struct sw_smap_leaf *l = sw_smap_leaf(m, hash);

    *ret_end = l ? l->e + l->n : NULL;
    return l ? sw_smap_seek(l, hash) : NULL;
}

/* Visits the entries of one hash; the body still has to compare keys. */
#define SW_SMAP_PROBE(m, h, it)                                                                    \
    for (const struct sw_smap_entry *it##_end, *it = sw_smap_find((m), (h), &it##_end);            \
         it && it < it##_end && sw_smap_part(it) == sw_smap_part_of(h); it++)

/* The first 'type *v' of one hash that meets the condition, or NULL. */
#define SW_SMAP_FIND(type, v, m, h, condition)                                                     \
    ({                                                                                             \
        type *sw_found_ = NULL;                                                                    \
        uint64_t sw_hash_ = (h);                                                                   \
                                                                                                   \
        SW_SMAP_PROBE ((m), sw_hash_, sw_it_) {                                                    \
            type *v = sw_smap_value(sw_it_);                                                       \
                                                                                                   \
            if (condition) {                                                                       \
                sw_found_ = v;                                                                     \
                break;                                                                             \
            }                                                                                      \
        }                                                                                          \
        sw_found_;                                                                                 \
    })

/* Walks all entries, in no useful order. */
struct sw_smap_walk {
    const struct sw_smap *map;
    unsigned leaf; /* number of the next one */
    const struct sw_smap_entry *at;
    const struct sw_smap_entry *end;
};
/* The next value, or NULL at the end. Start with .map set and the rest zero. */
const void *sw_smap_next(struct sw_smap_walk *w);

/* The values, in no useful order, as 'type *it' of const. */
#define SW_SMAP_EACH(type, it, m)                                                                  \
    for (type * it, *sw_walk_##it = (void *)&(struct sw_smap_walk){.map = (m)};                    \
         (it = sw_smap_next((struct sw_smap_walk *)(uintptr_t)sw_walk_##it)) != NULL;)
