/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Label selectors: the textual form of query parameters and the structured form inside objects,
 * with the reference's parse errors. Everything lives in the arena given.
 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/slice.h"

enum sw_sel_op {
    SW_SEL_EQ,
    SW_SEL_DEQ, /* "==": same meaning, printed differently */
    SW_SEL_NE,
    SW_SEL_IN,
    SW_SEL_NOTIN,
    SW_SEL_EXISTS,
    SW_SEL_NOT_EXISTS,
    SW_SEL_GT,
    SW_SEL_LT,
};

struct sw_requirement {
    struct sw_slice key;
    enum sw_sel_op op;
    struct sw_slice *values; /* sorted, distinct */
    size_t n;
};

/* AND of all requirements, ordered by key; none = everything. */
struct sw_label_selector {
    struct sw_requirement *p;
    size_t n;
    bool nothing; /* matches no object at all */
};

/*
 * Parses "a=b,c in (d,e),!f". Returns SW_OK, or SW_EINVAL with the text for a 400 in *ret_why (in
 * the arena).
 */
SW_NODISCARD int sw_label_selector_parse(struct sw_arena *a, struct sw_slice in,
                                         struct sw_label_selector *ret, const char **ret_why);
/*
 * From a LabelSelector object {matchLabels, matchExpressions}. A missing object (NULL) selects
 * nothing, an empty one everything. Same result codes.
 */
SW_NODISCARD int sw_label_selector_from_json(struct sw_arena *a, const struct sw_json *v,
                                             struct sw_label_selector *ret, const char **ret_why);
/* labels: metadata.labels, may be NULL. */
bool sw_label_selector_match(const struct sw_label_selector *s, const struct sw_json *labels);
/* Canonical text; parsing it gives an equal selector. */
const char *sw_label_selector_text(struct sw_arena *a, const struct sw_label_selector *s);
