/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/fields.h"

bool sw_field_list_has(const struct sw_json *list, struct sw_slice text)
{
    for (size_t i = 0; i < sw_json_len(list); i++) {
        if (sw_slice_eq(sw_json_str(sw_json_at(list, i)), text))
            return true;
    }
    return false;
}
