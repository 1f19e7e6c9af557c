/* SPDX-License-Identifier: Apache-2.0 */
/* The user of a request: name, groups, extra attributes. */
#include "apiserver/api/api.h"

bool api_in_groups(const struct api_user *u, struct sw_slice g)
{
    for (size_t i = 0; i < u->ngroups; i++) {
        if (sw_slice_eq(u->groups[i], g))
            return true;
    }
    return false;
}

struct sw_json *api_user_info(struct sw_arena *a, const struct api_user *u)
{
    struct sw_json *v = sw_json_new_object(a);
    struct sw_json *groups = sw_json_new_array(a);

    sw_json_put_str(a, v, "username", u->name);
    if (u->uid.n)
        sw_json_put_str(a, v, "uid", u->uid);
    for (size_t i = 0; i < u->ngroups; i++)
        sw_json_push(a, groups, sw_json_new_string(a, u->groups[i]));
    if (u->ngroups)
        sw_json_put(a, v, "groups", groups);
    if (sw_json_len(u->extra))
        sw_json_put(a, v, "extra", u->extra);
    return v;
}
