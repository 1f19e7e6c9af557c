/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of field paths as managedFields records them (FieldsV1): a tree whose nodes may or may not
 * be members. Sets are persistent values in an arena: operations return new sets and may share
 * parts with their operands.
 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"
#include "kube/schema/schema.h"

enum sw_pe_kind { SW_PE_FIELD, SW_PE_KEY, SW_PE_VALUE, SW_PE_INDEX };

/* One element of a path. */
struct sw_pe {
    enum sw_pe_kind kind;
    struct sw_slice name;       /* FIELD */
    const struct sw_json *json; /* KEY: object, members sorted; VALUE: scalar */
    uint64_t index;
};

struct sw_fset;

struct sw_fset_node {
    struct sw_pe pe;
    bool member;
    struct sw_fset *kids; /* NULL when none */
};

struct sw_fset {
    struct sw_fset_node *p; /* sorted */
    size_t n;
    size_t cap;
};

struct sw_fset *sw_fset_new(struct sw_arena *a);
/* The node of an element, made when missing (not a member). */
struct sw_fset_node *sw_fset_at(struct sw_arena *a, struct sw_fset *s, const struct sw_pe *pe);
/* The node of an element or NULL. */
struct sw_fset_node *sw_fset_get(const struct sw_fset *s, const struct sw_pe *pe);
bool sw_fset_empty(const struct sw_fset *s);
bool sw_fset_equal(const struct sw_fset *x, const struct sw_fset *y);
struct sw_fset *sw_fset_union(struct sw_arena *a, const struct sw_fset *x, const struct sw_fset *y);
struct sw_fset *sw_fset_intersect(struct sw_arena *a, const struct sw_fset *x,
                                  const struct sw_fset *y);
/* Members of x that are not members of y. */
struct sw_fset *sw_fset_minus(struct sw_arena *a, const struct sw_fset *x, const struct sw_fset *y);
/* As minus, and whatever lies below a member of y goes too. */
struct sw_fset *sw_fset_minus_deep(struct sw_arena *a, const struct sw_fset *x,
                                   const struct sw_fset *y);

/* Compares elements; total order. */
int sw_pe_cmp(const struct sw_pe *x, const struct sw_pe *y);
/* ".name", "[k=v]", "[=v]", "[0]". */
const char *sw_pe_text(struct sw_arena *a, const struct sw_pe *pe);

/* Calls f for every member; path is its text. Members of a level come before what lies deeper. */
void sw_fset_each(struct sw_arena *a, const struct sw_fset *s, const char *prefix,
                  void (*f)(void *arg, const char *path), void *arg);

/* FieldsV1 to set; unknown keys are ignored. NULL gives an empty set. */
struct sw_fset *sw_fset_decode(struct sw_arena *a, const struct sw_json *v);
struct sw_json *sw_fset_encode(struct sw_arena *a, const struct sw_fset *s);
