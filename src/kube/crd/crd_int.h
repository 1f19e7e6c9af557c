/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that read CustomResourceDefinitions. */
#pragma once

#include "kube/crd/crd.h"

/* Text of a member, "" when it is missing. */
static inline struct sw_slice crd_text(const struct sw_json *v, const char *key)
{
    struct sw_slice s = sw_json_str(sw_json_find(v, key));

    return s.p ? s : sw_slice("", 0);
}

/* Whether s is in a list that ends with NULL. */
static inline bool crd_one_of(struct sw_slice s, const char *const *list)
{
    for (size_t i = 0; list[i]; i++) {
        if (sw_slice_eq_str(s, list[i]))
            return true;
    }
    return false;
}

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

/* ---- crd_check_parts.c: each at its path ---- */
void sw_crd_check_subresources(const struct sw_json *subs, const struct sw_fpath *path,
                               struct sw_field_errs *e);
/* additionalPrinterColumns */
void sw_crd_check_columns(const struct sw_json *list, const struct sw_fpath *up,
                          struct sw_field_errs *e);
/* selectableFields; schema NULL: it has faults of its own. */
void sw_crd_check_selectable(const struct sw_json *list, const struct sw_schema *schema,
                             const struct sw_fpath *up, struct sw_field_errs *e);
/* deprecationWarning of a version */
void sw_crd_check_warning(const struct sw_json *v, const struct sw_fpath *path,
                          struct sw_field_errs *e);
