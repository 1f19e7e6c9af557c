/* SPDX-License-Identifier: Apache-2.0 */
/* Policies of the L4 engine as resources that nodes read. */
#pragma once

#include "base/arena.h"
#include "policy/policy.h"

/* An istio.security.Authorization, encoded in the arena. Same policy, same bytes. */
struct sw_slice mesh_policy_pack(struct sw_arena *a, const struct sw_policy *p);
