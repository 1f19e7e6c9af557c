/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions with the syntax and semantics of RE2 (Go's regexp/syntax, which Kubernetes
 * documents, and Envoy's RE2): leftmost-first, no back-references, no look-around. Every match
 * takes time linear in the text: at most text times program steps. A compiled expression is
 * immutable and may be used by several threads at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/budget.h"
#include "base/err.h"
#include "base/slice.h"

struct sw_regex;

enum {
    SW_REGEX_PATTERN_MAX = 8192, /* bytes */
    SW_REGEX_STEPS = 20000000,   /* of one match without a budget */
    SW_REGEX_COMPILE_STEPS = 8,  /* of compiling one word of sw_regex_size */
};

/*
 * Compiles a pattern for texts in UTF-8. Refuses what RE2 refuses: back-references, look-around,
 * repeats of more than 1,000 (nested ones multiply), nesting above 1,000, and programs that are too
 * large.
 *
 * Returns SW_OK with an expression to free, or SW_EINVAL with the reason in Go's words and its
 * offset, SW_ELIMIT when the pattern is too long.
 */
SW_NODISCARD int sw_regex_new(struct sw_slice pattern, struct sw_regex **ret, struct sw_err *err);
/* The same for texts of any bytes, each of which is one character, as Envoy matches them. */
SW_NODISCARD int sw_regex_new_bytes(struct sw_slice pattern, struct sw_regex **ret,
                                    struct sw_err *err);
void sw_regex_free(struct sw_regex *re);

/*
 * Searches (unanchored). Returns 1 when found, 0 when not, SW_ELIMIT when the budget ended first,
 * which callers treat as a failure, never as a match. The budget may be NULL: SW_REGEX_STEPS.
 */
int sw_regex_match(const struct sw_regex *re, struct sw_slice text, struct sw_budget *b);
/* The same from an offset, with the place of the match; what is before still counts for '^', \b. */
int sw_regex_search(const struct sw_regex *re, struct sw_slice text, size_t from, size_t *ret_at,
                    size_t *ret_len, struct sw_budget *b);
/*
 * As sw_regex_search, and also the whole match ([0]) and its groups, at most max of them; groups
 * that took no part have p == NULL. Returns how many were written, 0 when not found, or SW_ELIMIT.
 */
int sw_regex_groups(const struct sw_regex *re, struct sw_slice text, size_t from, size_t max,
                    struct sw_slice *ret, struct sw_budget *b);

/* Length of the pattern, for cost estimates. */
size_t sw_regex_cost(const struct sw_regex *re);
/* About as many words of memory, and steps of compilation; for callers that keep many. */
size_t sw_regex_size(const struct sw_regex *re);
