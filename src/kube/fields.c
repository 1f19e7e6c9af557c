/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/fields.h"

bool sw_field_list_has(const struct sw_json *list, struct sw_slice text)
{
    SW_JSON_ITEMS (item, list) {
        if (sw_slice_eq(sw_json_str(item), text))
            return true;
    }
    return false;
}
