/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The static cost of an expression, as kube-apiserver estimates it before it admits a CRD: macros
 * are expanded into the loops they stand for (cost_expand.c), schemas say how large a value can be
 * (cost_decl.c), and the worst case of every call is added up (cost.c, cost_fn.c).
 *
 * The numbers decide which CRDs are admitted, so every step follows the reference, its oddities
 * included; tests/unit/kube/cel-cost.json holds what the reference itself answered.
 */
#pragma once

#include "kube/cel/cel_priv.h"

/* How many units something has: runes, bytes, items or entries. */
struct cel_span {
    uint64_t min, max;
};

/* A path into the types: variable, then field names, "@items", "@values", "@keys", "@indices". */
struct cel_path {
    struct sw_slice *p;
    size_t n;
    size_t cap; /* storage is shared by the paths made from one, as slices of the reference are */
};

enum cel_xkind {
    X_LITERAL,
    X_IDENT,
    X_SELECT,
    X_TEST, /* has() */
    X_CALL,
    X_LIST,
    X_MAP,
    X_LOOP, /* args: range, start, condition, step, result */
};

/* Overloads that differ in cost. */
enum cel_overload {
    OV_OTHER,
    OV_EQUAL, /* == and != */
    OV_ORDER, /* of strings and bytes */
    OV_ADD_TEXT,
    OV_ADD_LIST,
    OV_IN_LIST,
    OV_INDEX_LIST,
    OV_INDEX_MAP,
    OV_LOGIC,
    OV_COND,
    OV_MATCHES,
    OV_CONTAINS,
    OV_AFFIX, /* startsWith, endsWith */
    OV_FORMAT,
    OV_TO_BYTES,
    OV_TO_STRING,
    OV_QUOTE,
    OV_NET_TEXT, /* containsIP and containsCIDR of a string */
    OV_SETS,
    OV_SETS_TWICE,
};

/* A node of the expanded tree, with what the estimate finds out about it. */
struct cel_x {
    enum cel_xkind kind;
    struct sw_slice name;  /* identifier, field, function, loop variable */
    struct sw_slice name2; /* second loop variable; p == NULL when there is none */
    struct sw_slice accu;  /* loops: the accumulator */
    bool bind;             /* a loop that only gives a value a name */
    const struct cel_type *type;
    const struct cel_val *lit;
    struct cel_x *target;
    struct cel_x **args;
    size_t nargs;
    enum cel_overload ov[3];
    size_t nov;
    struct cel_path path;
    bool has_size, has_entry;
    struct cel_span size;
    struct cel_span entry_key, entry_val;
    bool entry_map; /* the entries are those of a map */
};

/* The expanded form of a checked program, in the arena; NULL when it is too large. */
struct cel_x *cel_expand(struct sw_arena *a, const struct sw_cel *c);

/* A loop variable or a named value. */
struct cel_local {
    struct sw_slice name;
    struct cel_path path;
    bool has_size, has_entry;
    struct cel_span size;
    struct cel_span entry_key, entry_val;
    bool entry_map;
    const struct cel_local *up;
};

struct cel_coster {
    struct sw_arena *a;
    const struct sw_cel *c;
    const struct cel_local *locals;
};

/* An argument as functions see it. */
struct cel_arg {
    const struct cel_x *x;
    struct cel_path path;
    bool has_size;
    struct cel_span size;
};

struct cel_call_cost {
    uint64_t max;
    bool has_size;
    struct cel_span size; /* of the result */
};

/* A call whose cost is asked for, as one of the overloads it may mean. */
struct cel_ask {
    struct cel_coster *k;
    const struct cel_x *x;
    enum cel_overload ov;
    const struct cel_arg *t; /* target; x == NULL when there is none */
    const struct cel_arg *a;
    size_t n;
};
/* A function with a price of its own; false: the price of its overload counts. */
bool cel_cost_function(const struct cel_ask *q, struct cel_call_cost *ret);
/* Size at a path, by the schema of self; false: unknown. */
bool cel_decl_size(const struct sw_cel *c, const struct cel_path *path, struct cel_span *ret);
/* A path with one more element. */
struct cel_path cel_path_add(struct sw_arena *a, const struct cel_path *path, struct sw_slice name);

static inline uint64_t cel_add(uint64_t x, uint64_t y)
{
    uint64_t r;

    return __builtin_add_overflow(x, y, &r) ? UINT64_MAX : r;
}

static inline uint64_t cel_mul(uint64_t x, uint64_t y)
{
    uint64_t r;

    return __builtin_mul_overflow(x, y, &r) ? UINT64_MAX : r;
}

/* A number of units times a price per unit, rounded up. */
uint64_t cel_scale(uint64_t x, double factor);
