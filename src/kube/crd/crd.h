/* SPDX-License-Identifier: Apache-2.0 */
/* CustomResourceDefinitions: validation of the object itself and its compiled form. */
#pragma once

#include <stdbool.h>

#include "base/json.h"
#include "kube/errs.h"
#include "kube/schema/schema.h"

struct sw_crd_version {
    struct sw_slice name;
    bool served;
    bool deprecated;
    bool status;             /* has the status subresource */
    struct sw_slice warning; /* text for deprecated versions, ready to send */
    struct sw_schema_set schema;
};

/* Immutable after sw_crd_compile; owns everything. */
struct sw_crd {
    struct sw_arena arena;
    const struct sw_json *object; /* a copy */
    struct sw_slice group, kind, plural;
    struct sw_crd_version *versions;
    size_t nversions;
};

/*
 * Validates a CRD (defaulted before) and compiles it; old is the stored object on update, else
 * NULL. All errors go to e; the result is NULL when there are any. Free with sw_crd_free.
 */
struct sw_crd *sw_crd_compile(const struct sw_json *obj, const struct sw_json *old,
                              struct sw_field_errs *e);
void sw_crd_free(struct sw_crd *c);
const struct sw_crd_version *sw_crd_version(const struct sw_crd *c, struct sw_slice name);

/* Orders version names as discovery does: v2, v1, v2beta1, v1beta2, v1alpha1, then by name. */
int sw_version_cmp(struct sw_slice x, struct sw_slice y);
