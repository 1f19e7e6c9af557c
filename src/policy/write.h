/* SPDX-License-Identifier: Apache-2.0 */
/* Policies as JSON, in the shape of the local configuration file. */
#pragma once

#include "base/json.h"
#include "policy/policy.h"

/* The value of "rules": rules, clauses, matches. */
void sw_policy_write_rules(struct sw_jw *j, const struct sw_policy *p);
