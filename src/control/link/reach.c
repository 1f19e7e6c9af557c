/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link/reach.h"

#include "base/json.h"

struct sw_slice sw_link_reach_json(struct sw_arena *a, const struct sw_link_reach *p, size_t n)
{
    struct sw_json *peers = sw_json_new_object(a);

    for (size_t i = 0; i < n; i++) {
        struct sw_json *labels = sw_json_new_object(a);

        for (size_t k = 0; k < p[i].labels.n; k++)
            sw_json_set(a, labels, p[i].labels.p[k].key,
                        sw_json_new_string(a, p[i].labels.p[k].value));
        sw_json_set(a, peers, p[i].peer,
                    SW_JSON_OF(a, {"labels", .json = labels},
                               {"reachable", .json = sw_json_new_bool(a, p[i].reachable)},
                               {"since", .json = sw_json_new_u64(a, p[i].since_s)}));
    }
    sw_json_sort_members(peers);
    return sw_json_text(a, SW_JSON_OF(a, {"peers", .json = peers}), NULL);
}
