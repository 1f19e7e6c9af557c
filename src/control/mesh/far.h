/* SPDX-License-Identifier: Apache-2.0 */
/* What is published of workloads on other networks. */
#pragma once

#include "control/mesh/model.h"

struct Sw__MeshWorkload;

/* The network of the mesh's own cluster. */
struct sw_slice mesh_home_network(const struct sw_mesh_index *ix);
/* "spiffe://..."; empty without an account. */
struct sw_slice mesh_identity(const struct sw_mesh_index *ix, struct sw_arena *a,
                              struct sw_slice ns, struct sw_slice account);
/*
 * NULL: the workload is on the home network. Otherwise, in the index's arena, what is to be known
 * of it; the services in whose split-horizon workloads it counts are taken off the message.
 */
const struct sw_mesh_far *mesh_far_take(struct sw_mesh_index *ix, struct Sw__MeshWorkload *w);
