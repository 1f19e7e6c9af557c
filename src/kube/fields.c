/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/fields.h"

void sw_field_one_of(const struct sw_json *v, const char *const *allowed, const struct sw_fpath *at,
                     struct sw_field_errs *e)
{
    for (size_t i = 0; allowed[i]; i++) {
        if (sw_json_str_eq(v, allowed[i]))
            return;
    }
    sw_ferr_unsupported(e, at, v ? v : sw_json_new_str(e->arena, ""), allowed);
}

bool sw_field_list_has(const struct sw_json *list, const char *text)
{
    for (size_t i = 0; i < sw_json_len(list); i++) {
        if (sw_json_str_eq(sw_json_at(list, i), text))
            return true;
    }
    return false;
}
