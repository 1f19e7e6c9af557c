/* SPDX-License-Identifier: Apache-2.0 */
/* Members of objects, as validators of built-in kinds and of admission read them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "kube/errs.h"

/* Text of a member, "" when it is missing. */
static inline struct sw_slice sw_field_text(const struct sw_json *v, const char *key)
{
    struct sw_slice s = sw_json_str(sw_json_find(v, key));

    return s.p ? s : sw_slice("", 0);
}

/* Number of a member, 0 when it is missing. */
static inline int64_t sw_field_int(const struct sw_json *v, const char *key)
{
    int64_t n = 0;

    return sw_json_exact_i64(sw_json_find(v, key), &n) ? n : 0;
}

static inline bool sw_field_is(const struct sw_json *v, const char *key, const char *text)
{
    return sw_json_str_eq(sw_json_find(v, key), text);
}

/* True when a list has this string. */
bool sw_field_list_has(const struct sw_json *list, struct sw_slice text);
