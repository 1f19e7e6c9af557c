/* SPDX-License-Identifier: Apache-2.0 */
/* One rule of an AuthorizationPolicy as a rule of the L4 engine. */
#pragma once

#include "base/json.h"
#include "base/vec.h"
#include "policy/policy.h"

/* What is converted, and what was found on the way. */
struct mesh_rules {
    struct sw_arena *arena;
    enum sw_policy_action action;
    struct sw_slice ns;        /* of the policy: where service accounts without a namespace are */
    SW_VEC(const char *) http; /* attributes that need HTTP, in any order and repeated */
    const char *bad; /* the first value that cannot be read, with its attribute; or NULL */
};

/*
 * Fills *ret, in the arena. False: no rule is to be sent. What nodes cannot judge makes an ALLOW
 * rule match less and a DENY rule match more than it says, never the other way round; a DENY rule
 * with a part of which nothing is left never matches.
 */
SW_NODISCARD bool mesh_rule_convert(struct mesh_rules *c, const struct sw_json *rule,
                                    struct sw_policy_rule *ret);
/* True when some connection can match: a part with only empty matches never does. */
bool mesh_rule_effective(const struct sw_policy_rule *r);
void mesh_rules_done(struct mesh_rules *c);
