/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/select/selector_check.h"

#include "kube/schema/meta.h"

static void check_selector_term(const struct sw_at *t)
{
    const struct sw_at *key = SW_IN(t, "key");
    const struct sw_at *op = SW_IN(t, "operator");
    const struct sw_at *values = SW_IN(t, "values");

    if (sw_at_is(op, "In") || sw_at_is(op, "NotIn")) {
        (void)sw_at_need(values, "must be specified when `operator` is 'In' or 'NotIn'");
    } else if (sw_at_is(op, "Exists") || sw_at_is(op, "DoesNotExist")) {
        if (sw_at_len(values))
            sw_at_forbidden(values,
                            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
    } else {
        sw_at_invalid_text(op, "not a valid selector operator");
    }
    sw_name_report(key->e, &key->path, sw_at_text(key), sw_name_label_key(sw_at_text(key)));
    SW_AT_FOREACH (v, values)
        sw_at_set_name(&v, sw_name_label_value);
}

void sw_selector_check(const struct sw_at *sel)
{
    const struct sw_at *terms = SW_IN(sel, "matchExpressions");

    sw_labels_validate(SW_IN(sel, "matchLabels"));
    SW_AT_FOREACH (t, terms)
        check_selector_term(&t);
}
