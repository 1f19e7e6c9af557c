/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which manager owns which field. Ordinary writes record ownership, server-side apply merges a
 * configuration into an object and finds conflicts. All of it is a function of the objects, the
 * schema and the time given.
 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"
#include "kube/apply/smd.h"

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
