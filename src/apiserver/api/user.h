/* SPDX-License-Identifier: Apache-2.0 */
/* The user of a request: name, groups, extra attributes. */
#pragma once

#include "base/json.h"

/* The user of a request. Slices live in the request's arena. */
struct api_user {
    struct sw_slice name;
    struct sw_slice uid;
    struct sw_slice *groups;
    size_t ngroups;
    struct sw_json *extra; /* object of arrays, or NULL */
    uint64_t expires_s;    /* wall time when the credential ends; 0: never */
};

/* Is the user in this group? */
bool api_in_groups(const struct api_user *u, struct sw_slice g);
/* The name and the groups of a service account as a user, in the arena. */
struct sw_slice api_account_name(struct sw_arena *a, struct sw_slice ns, struct sw_slice name);
void api_account_groups(struct sw_arena *a, struct sw_slice ns, struct api_user *ret);
/* UserInfo: username, uid, groups and extra. */
struct sw_json *api_user_info(struct sw_arena *a, const struct api_user *u);
