/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structured merge and diff of objects by their schema: what managed.h is made of, exported for
 * tests.
 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"
#include "kube/apply/fieldset.h"
#include "kube/errs.h"
#include "kube/schema/schema.h"

struct sw_smd {
    struct sw_arena *arena;           /* results live here */
    const struct sw_schema *schema;   /* of the whole object; metadata is added by us */
    const struct sw_schema *metadata; /* ObjectMeta */
    struct sw_slice api_version;      /* of the request, "group/version" */
    struct sw_slice manager;
    struct sw_slice subresource; /* empty on the main endpoint */
    const char *now;             /* RFC 3339, seconds */
    const char *const *reset;    /* NULL-terminated: top-level fields this endpoint does not own */
};

/* The set of paths an object has. */
struct sw_fset *sw_smd_fieldset(const struct sw_smd *ctx, const struct sw_json *v);
struct sw_smd_diff {
    struct sw_fset *added, *removed, *modified;
};
struct sw_smd_diff sw_smd_compare(const struct sw_smd *ctx, const struct sw_json *old,
                                  const struct sw_json *new);
struct sw_json *sw_smd_merge(const struct sw_smd *ctx, const struct sw_json *live,
                             const struct sw_json *config);
/* v without the members of the set; NULL when nothing is left. */
struct sw_json *sw_smd_remove(const struct sw_smd *ctx, const struct sw_json *v,
                              const struct sw_fset *set);
/* Declared struct fields that have members below become members. */
struct sw_fset *sw_smd_named(const struct sw_smd *ctx, const struct sw_fset *set);
/* What is wrong with a configuration, one line each ("path: text"); NULL when it fits. */
const char *sw_smd_typed_errors(const struct sw_smd *ctx, const struct sw_json *v);
