/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of a schema (x-kubernetes-validations): compiled with it, evaluated on its objects. */
#pragma once

#include <stdbool.h>

#include "base/json.h"
#include "kube/errs.h"
#include "kube/schema/schema.h"

/* What is known of a schema before it is compiled. */
struct sw_schema_opts {
    bool stored;                 /* admitted before: the cost of its rules is not judged */
    bool unchanged;              /* by this update: the cost of single rules is not judged */
    const struct sw_json *rules; /* holds the rules stored before, at any depth; NULL: none */
};

/*
 * Compiles all rules of a schema and judges their estimated cost; reports under path (the schema's
 * own path in the CRD). o may be NULL: all rules are new.
 */
void sw_rules_compile(struct sw_schema_set *set, struct sw_schema *root,
                      const struct sw_schema_opts *o, const struct sw_fpath *path,
                      struct sw_field_errs *e);
/* Evaluates all rules on an object; old (may be NULL) enables transition rules. */
void sw_rules_check(const struct sw_schema *s, const struct sw_json *v, const struct sw_json *old,
                    const struct sw_fpath *path, struct sw_field_errs *e);
