/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions of schemas and rules: the RE2 syntax Kubernetes documents, run by PCRE2 with
 * match and depth limits because PCRE2, unlike RE2, can backtrack for ever.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

struct sw_regex;

/*
 * Compiles a pattern; refuses what RE2 has not (backreferences, look-around, atomic groups,
 * possessive quantifiers, recursion, callouts) or will not unfold (nested repeats of more than 1000
 * in all), so that what is accepted here is accepted elsewhere.
 *
 * Returns SW_OK with an expression to free, or SW_EINVAL with the reason, SW_ELIMIT when too long.
 */
SW_NODISCARD int sw_regex_new(struct sw_slice pattern, struct sw_regex **ret, struct sw_err *err);
void sw_regex_free(struct sw_regex *re);
/* False when a pattern names a character above \x{FF}: Envoy, which matches bytes, refuses that. */
bool sw_regex_fits_bytes(struct sw_slice pattern);
/*
 * Searches (unanchored). Returns 1 when found, 0 when not, SW_ELIMIT when the matcher gave up,
 * which callers treat as "does not match". ret_at/ret_len may be NULL.
 */
int sw_regex_search(const struct sw_regex *re, struct sw_slice text, size_t from, size_t *ret_at,
                    size_t *ret_len);
/*
 * As sw_regex_search, and also the whole match ([0]) and its groups, at most max of them; groups
 * that took no part have p == NULL. Returns how many were written, 0 when not found, or SW_ELIMIT.
 */
int sw_regex_groups(const struct sw_regex *re, struct sw_slice text, size_t from, size_t max,
                    struct sw_slice *ret);
/* Length of the pattern, for cost estimates. */
size_t sw_regex_cost(const struct sw_regex *re);
