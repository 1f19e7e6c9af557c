/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a schema is structural; private to the schema files. */
#pragma once

#include "kube/schema.h"

/* Keywords that are not allowed at all ($ref, definitions, uniqueItems ...). */
void sw_structural_keywords(const struct sw_json *v, const struct sw_fpath *path,
                            struct sw_field_errs *e);
/* The invariants of structural schemas, list and map types, and defaults. */
void sw_structural_check(const struct sw_schema *s, const struct sw_json *v,
                         const struct sw_fpath *path, struct sw_field_errs *e);
