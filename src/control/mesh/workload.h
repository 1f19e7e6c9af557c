/* SPDX-License-Identifier: Apache-2.0 */
/* Workloads of Pods and WorkloadEntries, and what groups of them share. */
#pragma once

#include "control/mesh/model.h"

/* Encodes and emits one. */
void mesh_workload_emit(struct sw_mesh_index *ix, struct mesh_workload *w);
/* It is gone. */
void mesh_workload_retire(struct sw_mesh_index *ix, struct mesh_workload *w);
/* Services and policies of a group anew. True when the members have to be encoded again. */
bool mesh_group_renew(struct sw_mesh_index *ix, struct mesh_group *g);
