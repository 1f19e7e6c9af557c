/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/select/selector_check.h"

#include "kube/fields.h"
#include "kube/names.h"
#include "kube/schema/meta.h"

static void check_selector_term(const struct sw_json *t, const struct sw_fpath *path,
                                struct sw_field_errs *e)
{
    const struct sw_json *values = sw_json_find(t, "values");
    struct sw_slice key = sw_field_text(t, "key");
    struct sw_fpath at_key = sw_fpath_str(path, "key");
    struct sw_fpath at_op = sw_fpath_str(path, "operator");
    struct sw_fpath at_values = sw_fpath_str(path, "values");

    if (sw_field_is(t, "operator", "In") || sw_field_is(t, "operator", "NotIn")) {
        if (!sw_json_len(values))
            sw_ferr_required(e, &at_values, "must be specified when `operator` is 'In' or 'NotIn'");
    } else if (sw_field_is(t, "operator", "Exists") || sw_field_is(t, "operator", "DoesNotExist")) {
        if (sw_json_len(values))
            sw_ferr_forbidden(e, &at_values,
                              "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
    } else {
        sw_ferr_invalid_str(e, &at_op, sw_field_text(t, "operator"),
                            "not a valid selector operator");
    }
    sw_name_report(e, &at_key, key, sw_name_label_key(key));
    for (size_t i = 0; i < sw_json_len(values); i++) {
        struct sw_fpath at = sw_fpath_index(&at_values, i);
        struct sw_slice v = sw_json_str(sw_json_at(values, i));

        sw_name_report(e, &at, v, sw_name_label_value(v));
    }
}

void sw_selector_check(const struct sw_json *sel, const struct sw_fpath *path,
                       struct sw_field_errs *e)
{
    const struct sw_json *terms = sw_json_find(sel, "matchExpressions");
    struct sw_fpath at_labels = sw_fpath_str(path, "matchLabels");
    struct sw_fpath at_terms = sw_fpath_str(path, "matchExpressions");

    sw_labels_validate(sw_json_find(sel, "matchLabels"), &at_labels, e);
    for (size_t k = 0; k < sw_json_len(terms); k++) {
        struct sw_fpath at = sw_fpath_index(&at_terms, k);

        check_selector_term(sw_json_at(terms, k), &at, e);
    }
}
