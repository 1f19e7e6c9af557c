/* SPDX-License-Identifier: Apache-2.0 */
/* Field selectors: their text, and what they read in an object. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/slice.h"

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
 * Parses "metadata.name=x,type!=y" with \\ \, \= escapes. Returns SW_OK, or SW_EINVAL
 * with the text for a 400 in *ret_why; everything lives in the arena.
 */
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
