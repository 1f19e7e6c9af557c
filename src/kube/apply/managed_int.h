/* SPDX-License-Identifier: Apache-2.0 */
/* Owners of fields, for ordinary writes and for apply. */
#pragma once

#include "kube/apply/managed.h"
#include "kube/fields.h"

struct managed_owner {
    struct sw_slice manager;
    struct sw_slice api_version;
    struct sw_slice subresource;
    struct sw_slice time; /* empty when unknown */
    bool applied;
    const struct sw_fset *set;
};

struct managed_owners {
    struct sw_arena *a;
    struct managed_owner *p;
    size_t n;
    size_t cap;
};

/* ---- managed_owners.c ---- */
void managed_add(struct managed_owners *o, struct managed_owner x);
/* By name, version (not of those that applied), subresource and operation. */
bool managed_same(const struct managed_owner *x, const struct managed_owner *y);
struct managed_owner *managed_find(const struct managed_owners *o, const struct managed_owner *x);
/* The order in which they are written. */
int managed_cmp(const void *x, const void *y);
/* From managedFields; entries without fieldsV1 are left out, of equal ones the last counts. */
void managed_decode(struct sw_arena *a, const struct sw_json *list, struct managed_owners *ret);
/* Into metadata.managedFields, which is removed where there is no owner. */
void managed_store(struct sw_arena *a, struct sw_json *obj, struct managed_owners *o);
void managed_drop_empty(struct managed_owners *o);
/* A shallow copy whose metadata lacks managedFields. */
struct sw_json *managed_strip(struct sw_arena *a, const struct sw_json *v);
/* Fields without an owner: identity, and what the server fills in. */
struct sw_fset *managed_never_owned(struct sw_arena *a);
/* Without what writes of this kind do not change (c->reset). */
const struct sw_fset *managed_without_reset(const struct sw_smd *c, const struct sw_fset *s);
struct sw_smd_diff managed_diff(const struct sw_smd *c, const struct sw_json *old,
                                const struct sw_json *new);

/* ---- managed.c ---- */
/* The change old -> new made by 'me': all other managers lose what changed. */
void managed_record(const struct sw_smd *c, struct managed_owners *o,
                    const struct managed_owner *me, const struct sw_json *old,
                    const struct sw_json *new);
/* An object with its version and the kind of another, nothing else. */
struct sw_json *managed_bare(const struct sw_smd *c, const struct sw_json *like);
