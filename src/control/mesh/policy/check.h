/* SPDX-License-Identifier: Apache-2.0 */
/* What an AuthorizationPolicy may not say, beyond what its schema refuses. */
#pragma once

#include "base/arena.h"
#include "base/json.h"

/* NULL, or what is wrong with the spec; in the arena. */
const char *mesh_policy_check(struct sw_arena *a, const struct sw_json *spec);
