/* SPDX-License-Identifier: Apache-2.0 */
/* AuthorizationPolicies for waypoints: whether what they name is there, as their condition says. */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "control/mesh/policy/model.h"

/* What is known of the objects that a policy may name. */
struct sw_mesh_target_lookup {
    /* False: there is none. *ret is the waypoint it is bound to ("namespace/name"), or empty. */
    bool (*service)(void *arg, struct sw_slice ns, struct sw_slice name, struct sw_slice *ret);
    bool (*entry)(void *arg, struct sw_slice ns, struct sw_slice name, struct sw_slice *ret);
    /* True for a Gateway that is a waypoint. */
    bool (*waypoint)(void *arg, struct sw_slice ns, struct sw_slice name);
    /* False: there is no such GatewayClass. *ret is its controller. */
    bool (*class)(void *arg, struct sw_slice name, struct sw_slice *ret);
    void *arg;
};

/*
 * The condition of a policy with targetRef or targetRefs; texts are in the arena. False: it has
 * none of them, and no such condition.
 */
SW_NODISCARD bool sw_mesh_policy_targets(struct sw_arena *a, const struct sw_json *obj,
                                         struct sw_slice root_ns,
                                         const struct sw_mesh_target_lookup *l,
                                         struct sw_mesh_condition *ret);
