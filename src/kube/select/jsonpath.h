/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSONPath of printer columns, selectable fields and scale paths: .a.b ['a.b'] [n] [-1] [*] and
 * [?(@.x=="v")], a leading dot and enclosing braces optional. Missing keys give no result.
 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"

enum { SW_JSONPATH_RESULTS_MAX = 1000 };

struct sw_jsonpath_results {
    const struct sw_json **p;
    size_t n;
};

/* Finds all results in document order. SW_EINVAL when the path is not of the subset. */
SW_NODISCARD int sw_jsonpath(struct sw_arena *a, struct sw_slice path, const struct sw_json *v,
                             struct sw_jsonpath_results *ret);
