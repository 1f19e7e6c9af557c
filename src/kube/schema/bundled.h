/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bringing roles that come with the program up to date without touching what users made of them.
 * The rules as they were delivered last are kept beside the role, in an annotation: those of them
 * that are no longer delivered go, new ones are added, and everything else is the user's and stays.
 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"

/* JSON text of the rules that were delivered last. */
#define SW_BUNDLED_RULES "spanwire.dev/bundled-rules"
/* "false": the role is the user's alone. Kubernetes' own annotation. */
#define SW_BUNDLED_AUTOUPDATE "rbac.authorization.kubernetes.io/autoupdate"

/* The user opted the object out of updates. */
bool sw_bundled_hands_off(const struct sw_json *obj);
/*
 * The rules a role should have: 'bundled' is delivered now. 'before' was delivered by releases that
 * left no annotation (may be NULL). Trees in the result are shared with the arguments.
 */
struct sw_json *sw_bundled_rules(struct sw_arena *a, const struct sw_json *role,
                                 const struct sw_json *bundled, const struct sw_json *before);
/* The value of the annotation. */
struct sw_slice sw_bundled_note(struct sw_arena *a, const struct sw_json *bundled);
/* True when the role has these rules, in any order, and the annotation says what is delivered. */
bool sw_bundled_current(struct sw_arena *a, const struct sw_json *role, const struct sw_json *rules,
                        const struct sw_json *bundled);
