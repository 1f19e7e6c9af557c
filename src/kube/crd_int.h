/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that read CustomResourceDefinitions. */
#pragma once

#include "kube/crd.h"

/* True when all versions have the same schema, which is then reported once. */
bool sw_crd_common_schema(const struct sw_json *versions);

/*
 * Everything but the schemas, whose errors are given: 'own' those at their versions, 'shared' those
 * of a schema that all versions have. old is the stored object, NULL on creation.
 */
void sw_crd_check(const struct sw_crd *c, const struct sw_json *old,
                  const struct sw_field_errs *own, const struct sw_field_errs *shared,
                  struct sw_field_errs *e);
/* Adds errors to a list. */
void sw_crd_append(struct sw_field_errs *to, const struct sw_field_errs *from);
