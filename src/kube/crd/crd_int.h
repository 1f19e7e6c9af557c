/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that read CustomResourceDefinitions. */
#pragma once

#include "kube/at.h"
#include "kube/crd/crd.h"
#include "kube/fields.h"

/* True when all versions have the same schema, which is then reported once. */
bool sw_crd_common_schema(const struct sw_json *versions);

/*
 * Everything but the schemas, whose errors are given: 'own' those at their versions, 'shared' those
 * of a schema that all versions have. old is the stored object, NULL on creation.
 */
void sw_crd_check(const struct sw_crd *c, const struct sw_json *old,
                  const struct sw_field_errs *own, const struct sw_field_errs *shared,
                  struct sw_field_errs *e);

/* ---- crd_check_parts.c: the parts of a version ---- */
void sw_crd_check_subresources(const struct sw_at *subs);
/* additionalPrinterColumns */
void sw_crd_check_columns(const struct sw_at *list);
/* selectableFields; schema NULL: it has faults of its own. */
void sw_crd_check_selectable(const struct sw_at *list, const struct sw_schema *schema);
/* deprecationWarning of a version */
void sw_crd_check_warning(const struct sw_at *version);
