/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an index of policies has to hand out: resources that are new, different or gone, and the
 * workloads that may list others now. Of a resource handed out only a hash is kept.
 */
#pragma once

#include "base/map.h"
#include "base/vec.h"
#include "control/mesh/policy/labels.h"

struct mesh_policy_res;
struct mesh_policy_affected;

/* Zeroed is empty. */
struct mesh_policy_out {
    struct sw_map all; /* key -> struct mesh_policy_res */
    SW_VEC(struct mesh_policy_res *) queue;
    SW_VEC(struct mesh_policy_affected *) scopes;
    bool everything; /* all workloads are affected, whatever the scopes say */
};

void mesh_policy_out_done(struct mesh_policy_out *o);
/* The resource's newest state; value.p == NULL: there is none. Copies. */
void mesh_policy_out_set(struct mesh_policy_out *o, struct sw_slice key, struct sw_slice value);
/* True when the resource is there, handed out or about to be. */
bool mesh_policy_out_has(const struct mesh_policy_out *o, struct sw_slice key);
/* Workloads that are affected: see struct sw_mesh_policy_scope. Copies. */
void mesh_policy_out_affect(struct mesh_policy_out *o, struct sw_slice ns,
                            struct mesh_selector labels, struct sw_slice waypoint);
/* Hand out what is different, in the order of keys; and forget it. */
void mesh_policy_out_resources(struct mesh_policy_out *o, const struct sw_mesh_policy_sink *sink);
void mesh_policy_out_scopes(struct mesh_policy_out *o, const struct sw_mesh_policy_sink *sink);
