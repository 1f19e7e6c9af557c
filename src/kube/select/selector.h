/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Label and field selectors: the textual forms of query parameters and the structured form inside
 * objects, with the reference's parse errors. Everything lives in the arena given.
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

struct sw_field_term {
    struct sw_slice path; /* "metadata.name" */
    struct sw_slice value;
    bool negate;
};

struct sw_field_selector {
    struct sw_field_term *p;
    size_t n;
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

/* Parses "metadata.name=x,type!=y" with \\ \, \= escapes. Result codes as above. */
SW_NODISCARD int sw_field_selector_parse(struct sw_arena *a, struct sw_slice in,
                                         struct sw_field_selector *ret, const char **ret_why);
/*
 * Reads the selected paths in the object; a missing value equals "". Support of a path is the
 * caller's check (sw_field_selector_check).
 */
bool sw_field_selector_match(const struct sw_field_selector *s, const struct sw_json *obj);
/*
 * Refuses paths not in the list (NULL-terminated) with 'field label not supported: X', or, when
 * strict_text is set, with the other wording some kinds use ('"X" is not a known field
 * selector: only ...').
 */
SW_NODISCARD int sw_field_selector_check(struct sw_arena *a, const struct sw_field_selector *s,
                                         const char *const *known, bool strict_text,
                                         const char **ret_why);
/* The value a term 'path=value' demands; false when there is none. */
bool sw_field_selector_exact(const struct sw_field_selector *s, const char *path,
                             struct sw_slice *ret);
const char *sw_field_selector_text(struct sw_arena *a, const struct sw_field_selector *s);

/* The scalar at a dotted path as text, "" when missing (strings as they are, numbers as written).
 */
struct sw_slice sw_field_value(const struct sw_json *obj, struct sw_slice path);
