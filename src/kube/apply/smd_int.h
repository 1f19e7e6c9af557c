/* SPDX-License-Identifier: Apache-2.0 */
/* What the walks over typed values share: places in the schema and items of lists. */
#pragma once

#include "kube/apply/smd.h"

/* How a value is treated at a place. */
enum smd_shape { SMD_SCALAR, SMD_LIST, SMD_MAP };

/* A place in the schema; s == NULL: untyped, deduced from the value. */
struct smd_place {
    const struct sw_schema *s;
    bool root; /* apiVersion, kind and metadata are known here */
};

struct smd_kind {
    enum smd_shape shape;
    bool atomic;
};

static inline enum smd_shape smd_shape_of(const struct sw_json *v)
{
    if (!v)
        return SMD_SCALAR;
    return v->type == SW_JSON_OBJECT ? SMD_MAP : v->type == SW_JSON_ARRAY ? SMD_LIST : SMD_SCALAR;
}

static inline bool smd_untyped(const struct sw_schema *s)
{
    return !s || (s->type == SW_T_NONE && !s->int_or_string);
}

static inline struct smd_place smd_item(struct smd_place p)
{
    return (struct smd_place){.s = smd_untyped(p.s) ? NULL : p.s->items};
}

static inline struct sw_pe smd_field_pe(struct sw_slice name)
{
    return (struct sw_pe){.kind = SW_PE_FIELD, .name = name};
}

static inline struct smd_place smd_root(const struct sw_smd *c)
{
    return (struct smd_place){.s = c->schema, .root = true};
}

/* How the value of a place is treated; x counts, or y where x is missing or null. */
struct smd_kind smd_kind_of(struct smd_place p, const struct sw_json *x, const struct sw_json *y);
/* The place of a member; false when the schema does not know it. */
bool smd_child(const struct sw_smd *c, struct smd_place p, struct sw_slice key,
               struct smd_place *ret, bool *ret_declared);
/* The key of an item of a list. False: it has none, *why has the reason. */
bool smd_item_pe(const struct sw_smd *c, const struct sw_schema *s, const struct sw_json *v,
                 struct sw_pe *ret, const char **why);
/* Members in key order: sets are then built by appending. */
const struct sw_json_member **smd_sorted_members(const struct sw_smd *c, const struct sw_json *v);

struct smd_entry {
    struct sw_pe pe; /* pe.index: position in the list, for these kinds not part of the order */
    const struct sw_json *v;
};

/* The items of a list by element; of equal ones the first counts. */
struct smd_index {
    struct smd_entry *p; /* in list order */
    size_t n;
    struct smd_entry *sorted; /* by element; pe.index is the place in p */
};

const struct smd_entry *smd_index_find(const struct smd_index *x, const struct sw_pe *pe);
/* Items without an element of their own are left out. */
void smd_index_list(const struct sw_smd *c, const struct sw_schema *s, const struct sw_json *v,
                    struct smd_index *ret);
