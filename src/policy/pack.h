/* SPDX-License-Identifier: Apache-2.0 */
/* Policies as istio.security.Authorization: what control planes send, and nodes store. */
#pragma once

#include "base/arena.h"
#include "base/slice.h"
#include "policy/policy.h"

/* In the arena. */
struct sw_slice sw_policy_pack(struct sw_arena *a, const struct sw_policy *p);
