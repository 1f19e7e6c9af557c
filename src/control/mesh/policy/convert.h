/* SPDX-License-Identifier: Apache-2.0 */
/* AuthorizationPolicies as nodes enforce them. */
#pragma once

#include "control/mesh/policy/labels.h"

/* One AuthorizationPolicy. */
struct mesh_authz {
    struct sw_slice key; /* "namespace/name" */
    struct sw_slice ns;
    struct sw_slice name;
    struct mesh_selector selector;
    struct sw_slice value; /* the encoded Authorization; p == NULL: nodes do not get it */
    bool judged;           /* false: it is for waypoints, and has no condition of nodes */
    struct sw_mesh_condition condition;
};

/* Fills everything but key, ns and name (which are set), in the arena. */
void mesh_authz_read(struct sw_arena *a, const struct sw_mesh_policy_conf *conf,
                     const struct sw_json *obj, struct mesh_authz *ret);
/* The encoded policy that lets a waypoint with these service accounts in. */
struct sw_slice mesh_authz_waypoint(struct sw_arena *a, const struct sw_mesh_policy_conf *conf,
                                    struct sw_slice ns, struct sw_slice name,
                                    const struct sw_slice *accounts, size_t n);
