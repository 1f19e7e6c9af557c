/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structured merge and diff: which manager owns which field. Ordinary writes record ownership,
 * server-side apply merges a configuration into an object and finds conflicts. All of it is a
 * function of the objects, the schema and the time given.
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

enum sw_smd_status {
    SW_SMD_OK,
    SW_SMD_CONFLICT,    /* 409: message and causes */
    SW_SMD_TYPED,       /* 500: the configuration does not fit the schema */
    SW_SMD_BAD_REQUEST, /* 400 */
};

struct sw_smd_result {
    enum sw_smd_status status;
    struct sw_json *object; /* the new object, managedFields included */
    const char *message;
    struct sw_json *causes; /* array for Status.details */
    bool changed;           /* apply: false when nothing but times would differ */
};

/*
 * Records an ordinary create (live == NULL), update or patch in obj's metadata.managedFields. obj
 * is the object as it will be stored; it is changed in place.
 */
void sw_smd_update(const struct sw_smd *ctx, const struct sw_json *live, struct sw_json *obj);

/*
 * Server-side apply of 'config' to live (NULL: the object does not exist). The result is not yet
 * defaulted or validated. A config that names managedFields is a bad request.
 */
struct sw_smd_result sw_smd_apply(const struct sw_smd *ctx, const struct sw_json *live,
                                  const struct sw_json *config, bool force);

/* True when two objects differ in nothing but managedFields times. */
bool sw_smd_equal_but_times(struct sw_arena *a, const struct sw_json *x, const struct sw_json *y);

/* ---- building blocks, exported for tests ---- */

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
