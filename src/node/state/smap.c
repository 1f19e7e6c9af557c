/* SPDX-License-Identifier: Apache-2.0 */
#include "node/state/smap.h"

#include <assert.h>
#include <string.h>

enum { LEAVES = SW_SMAP_FAN * SW_SMAP_FAN };

static size_t leaf_size(size_t cap)
{
    return sizeof(struct sw_smap_leaf) + cap * sizeof(struct sw_smap_entry);
}

static struct sw_smap_leaf *leaf_new(const struct sw_smap_edit *ed, size_t cap)
{
    struct sw_smap_leaf *l = sw_malloc(leaf_size(cap));

    l->edit = ed->number;
    l->n = 0;
    l->cap = (uint32_t)cap;
    return l;
}

/* A block of the frozen map becomes one of this edit's own. */
static void *own(const struct sw_smap_edit *ed, void *block, size_t size)
{
    void *copy = sw_malloc(size);

    memcpy(copy, block, size);
    sw_vec_push(&ed->bin->old, block);
    return copy;
}

/* The slot of the leaf for this hash, everything above it owned by the edit. */
static struct sw_smap_leaf **slot_of(struct sw_smap *m, const struct sw_smap_edit *ed,
                                     uint64_t hash)
{
    struct sw_smap_mid **mid;

    if (!m->top) {
        m->top = SW_NEW(struct sw_smap_top);
    } else if (m->top->edit != ed->number) {
        m->top = own(ed, m->top, sizeof(*m->top));
    }
    m->top->edit = ed->number;
    mid = &m->top->mid[hash >> 58];
    if (!*mid)
        *mid = SW_NEW(struct sw_smap_mid);
    else if ((*mid)->edit != ed->number)
        *mid = own(ed, *mid, sizeof(**mid));
    (*mid)->edit = ed->number;
    return &(*mid)->leaf[hash >> 52 & (SW_SMAP_FAN - 1)];
}

/* Room grows by an eighth: leaves are many, and most never change again. */
static size_t room_for(size_t n)
{
    return n < 4 ? n : n + n / 8 + 1;
}

/* The leaf, owned by the edit, with room for one more. */
static struct sw_smap_leaf *leaf_to_grow(struct sw_smap_leaf **slot, const struct sw_smap_edit *ed)
{
    struct sw_smap_leaf *l = *slot;
    size_t cap = room_for(l ? (size_t)l->n + 1 : 1);

    if (!l) {
        l = leaf_new(ed, cap);
    } else if (l->edit != ed->number) {
        struct sw_smap_leaf *copy = leaf_new(ed, cap);

        copy->n = l->n;
        memcpy(copy->e, l->e, l->n * sizeof(*l->e));
        sw_vec_push(&ed->bin->old, l);
        l = copy;
    } else if (l->n == l->cap) {
        l = sw_realloc(l, leaf_size(cap));
        l->cap = (uint32_t)cap;
    }
    *slot = l;
    return l;
}

static struct sw_smap_entry entry(uint64_t hash, const void *value)
{
    uint64_t p = (uint64_t)(uintptr_t)value;

    assert(p >> 48 == 0);
    return (struct sw_smap_entry){(uint64_t)sw_smap_part_of(hash) << 48 | p};
}

void sw_smap_add(struct sw_smap *m, const struct sw_smap_edit *ed, uint64_t hash, const void *value)
{
    struct sw_smap_leaf *l = leaf_to_grow(slot_of(m, ed, hash), ed);
    size_t at = (size_t)(sw_smap_seek(l, hash) - l->e);

    while (at < l->n && sw_smap_part(&l->e[at]) == sw_smap_part_of(hash))
        at++;
    memmove(&l->e[at + 1], &l->e[at], (l->n - at) * sizeof(*l->e));
    l->e[at] = entry(hash, value);
    l->n++;
    m->n++;
}

/* The place of a value that is there, in a leaf the edit owns. */
static struct sw_smap_leaf *leaf_with(struct sw_smap *m, const struct sw_smap_edit *ed,
                                      uint64_t hash, const void *old, size_t *ret_at)
{
    struct sw_smap_leaf **slot = slot_of(m, ed, hash);
    size_t at;

    assert(*slot);
    if ((*slot)->edit != ed->number) {
        *slot = own(ed, *slot, leaf_size((*slot)->cap));
        (*slot)->edit = ed->number;
    }
    at = (size_t)(sw_smap_seek(*slot, hash) - (*slot)->e);
    while (at < (*slot)->n && sw_smap_value(&(*slot)->e[at]) != old)
        at++;
    assert(at < (*slot)->n && sw_smap_part(&(*slot)->e[at]) == sw_smap_part_of(hash));
    *ret_at = at;
    return *slot;
}

void sw_smap_del(struct sw_smap *m, const struct sw_smap_edit *ed, uint64_t hash, const void *old)
{
    size_t at;
    struct sw_smap_leaf *l = leaf_with(m, ed, hash, old, &at);

    l->n--;
    memmove(&l->e[at], &l->e[at + 1], (l->n - at) * sizeof(*l->e));
    m->n--;
}

void sw_smap_set(struct sw_smap *m, const struct sw_smap_edit *ed, uint64_t hash, const void *old,
                 const void *value)
{
    if (old && value) {
        size_t at;
        struct sw_smap_leaf *l = leaf_with(m, ed, hash, old, &at);

        l->e[at] = entry(hash, value);
    } else if (old) {
        sw_smap_del(m, ed, hash, old);
    } else if (value) {
        sw_smap_add(m, ed, hash, value);
    }
}

void sw_smap_free(struct sw_smap *m)
{
    for (unsigned i = 0; m->top && i < SW_SMAP_FAN; i++) {
        struct sw_smap_mid *mid = m->top->mid[i];

        for (unsigned k = 0; mid && k < SW_SMAP_FAN; k++)
            sw_free(mid->leaf[k]);
        sw_free(mid);
    }
    sw_free(m->top);
    *m = (struct sw_smap){0};
}

size_t sw_smap_bytes(const struct sw_smap *m)
{
    size_t sum = m->top ? sizeof(*m->top) : 0;

    for (unsigned i = 0; m->top && i < SW_SMAP_FAN; i++) {
        const struct sw_smap_mid *mid = m->top->mid[i];

        sum += mid ? sizeof(*mid) : 0;
        for (unsigned k = 0; mid && k < SW_SMAP_FAN; k++)
            sum += mid->leaf[k] ? leaf_size(mid->leaf[k]->cap) : 0;
    }
    return sum;
}

const void *sw_smap_next(struct sw_smap_walk *w)
{
    while (w->at == w->end) {
        const struct sw_smap_leaf *l;

        if (w->leaf == LEAVES)
            return NULL;
        l = sw_smap_leaf(w->map, (uint64_t)w->leaf++ << 52);
        if (l) {
            w->at = l->e;
            w->end = l->e + l->n;
        }
    }
    return sw_smap_value(w->at++);
}
