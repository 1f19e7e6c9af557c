/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resources of a mesh control plane, istio.workload.Address and istio.security.Authorization,
 * as the builder's records, with ztunnel's defaults and refusals. No I/O, no clock.
 *
 * Unlike ztunnel, conditions of a policy that cannot be understood (an empty string match, a
 * malformed block, a field that is new) fail closed: see sw_policy_match.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "node/state.h"

/* A resource as it travels; 'value' is the message inside the Any. */
struct sw_mesh_item {
    struct sw_slice name;
    struct sw_slice version;
    struct sw_slice value;
};

/*
 * Decodes a resource and puts it into the builder, where it replaces one of the same name. It must
 * call itself what its resource is called, or it could not be removed again. SW_EPROTO, SW_EINVAL
 * or SW_ELIMIT with the reason: the builder is as before. 'scratch' is for the call; the caller
 * clears it.
 */
SW_NODISCARD int sw_mesh_put_address(struct sw_state_builder *b, const struct sw_mesh_item *it,
                                     struct sw_arena *scratch, struct sw_err *err);
SW_NODISCARD int sw_mesh_put_policy(struct sw_state_builder *b, const struct sw_mesh_item *it,
                                    struct sw_arena *scratch, struct sw_err *err);
/* By the resource's name: a workload's uid, else "namespace/hostname". False: not there. */
bool sw_mesh_remove_address(struct sw_state_builder *b, struct sw_slice name);

/* Records as the resources that would make them again; the bytes are in the arena. */
struct sw_slice sw_mesh_write_workload(const struct sw_workload *w, struct sw_arena *a);
struct sw_slice sw_mesh_write_service(const struct sw_service *s, struct sw_arena *a);
