/* SPDX-License-Identifier: Apache-2.0 */
#include "apiserver/api/user.h"

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
    struct sw_json *groups = sw_json_new_array(a);

    for (size_t i = 0; i < u->ngroups; i++)
        sw_json_push(a, groups, sw_json_new_string(a, u->groups[i]));
    return SW_JSON_OF(a, {"username", .text = u->name}, {"uid", .some = u->uid},
                      {"groups", .json = u->ngroups ? groups : NULL},
                      {"extra", .json = sw_json_len(u->extra) ? u->extra : NULL});
}

struct sw_slice api_account_name(struct sw_arena *a, struct sw_slice ns, struct sw_slice name)
{
    return sw_slice_str(sw_arena_printf(a, "system:serviceaccount:%.*s:%.*s", SW_SLICE_ARG(ns),
                                        SW_SLICE_ARG(name)));
}

void api_account_groups(struct sw_arena *a, struct sw_slice ns, struct api_user *ret)
{
    const char *of_ns = sw_arena_printf(a, "system:serviceaccounts:%.*s", SW_SLICE_ARG(ns));

    ret->ngroups = 3;
    ret->groups = sw_arena_array(a, ret->ngroups, sizeof(*ret->groups));
    ret->groups[0] = SW_SLICE_LIT("system:serviceaccounts");
    ret->groups[1] = sw_slice_str(of_ns);
    ret->groups[2] = SW_SLICE_LIT("system:authenticated");
}
