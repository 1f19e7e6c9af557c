/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas of custom resources with their rules: both compiled, and objects checked against both. */
#pragma once

#include "kube/cel/rules.h"
#include "kube/schema/schema.h"

/*
 * Compiles an openAPIV3Schema. The JSON is copied into the set. Everything wrong is reported under
 * 'path' with the reference's texts, rules included. Returns SW_OK, or SW_EINVAL when errors were
 * added; the set must be released in both cases.
 */
SW_NODISCARD int sw_schema_compile(struct sw_schema_set *set, const struct sw_json *v,
                                   const struct sw_fpath *path, struct sw_field_errs *e);
/* The same, with what is known of it (NULL: nothing). */
SW_NODISCARD int sw_schema_compile_as(struct sw_schema_set *set, const struct sw_json *v,
                                      const struct sw_schema_opts *o, const struct sw_fpath *path,
                                      struct sw_field_errs *e);

/*
 * All of it as an apiserver does for a custom resource: values, embedded resources, list types,
 * then rules, or the cause that says rules were not checked. old may be NULL.
 */
void sw_schema_check_object(const struct sw_schema *s, const struct sw_json *v,
                            const struct sw_json *old, const struct sw_fpath *prefix,
                            struct sw_field_errs *e);
