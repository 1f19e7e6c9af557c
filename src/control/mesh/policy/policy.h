/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may connect to workloads of a mesh: AuthorizationPolicies, PeerAuthentications and waypoints
 * go in one at a time, changed istio.security.Authorization resources come out, and each set of
 * labels can be asked which of them it lists. The result depends on the objects only, not on the
 * order they came in. No I/O, no clock, no threads; objects are read during the call and not kept.
 *
 * A node must know a resource before a workload lists its key: publish resources before the
 * workloads that flush() reports as affected, and removals after them.
 */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "control/mesh/policy/model.h"

struct sw_mesh_policies;

enum sw_mesh_policy_kind {
    SW_MESH_AUTHORIZATION_POLICY,
    SW_MESH_PEER_AUTHENTICATION,
};

SW_NODISCARD struct sw_mesh_policies *sw_mesh_policies_new(const struct sw_mesh_policy_conf *conf);
/* NULL is fine. */
void sw_mesh_policies_free(struct sw_mesh_policies *ix);

/* The object's newest state. One without name and namespace is ignored. */
void sw_mesh_policies_set(struct sw_mesh_policies *ix, enum sw_mesh_policy_kind kind,
                          const struct sw_json *obj);
void sw_mesh_policies_del(struct sw_mesh_policies *ix, enum sw_mesh_policy_kind kind,
                          struct sw_slice ns, struct sw_slice name);
/* The service accounts a waypoint runs as; none: it is gone, or has no pods. */
void sw_mesh_policies_set_waypoint(struct sw_mesh_policies *ix, struct sw_slice ns,
                                   struct sw_slice name, const struct sw_slice *accounts, size_t n);

/*
 * The keys ("namespace/name") of the policies that a workload with these labels (each key once)
 * lists, each followed by a newline except the last; in the arena. Every key has a resource. The
 * keys of its waypoints' policies (below) come after them.
 */
struct sw_slice sw_mesh_workload_policies(const struct sw_mesh_policies *ix, struct sw_slice ns,
                                          const struct sw_mesh_label *labels, size_t n,
                                          struct sw_arena *a);
/* The key of the policy that lets a waypoint in, for all workloads behind it; empty: none. */
struct sw_slice sw_mesh_waypoint_policy(const struct sw_mesh_policies *ix, struct sw_slice ns,
                                        struct sw_slice name, struct sw_arena *a);

/* Hands out what changed since the last call: resources, then statuses, then workloads. */
void sw_mesh_policies_flush(struct sw_mesh_policies *ix, const struct sw_mesh_policy_sink *sink);
