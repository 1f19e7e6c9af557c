/* SPDX-License-Identifier: Apache-2.0 */
/* Workloads that no Pod and no WorkloadEntry stands for. */
#pragma once

#include "control/mesh/model.h"

/* Endpoints of a ServiceEntry: those it lists, or its hosts where DNS finds them. */
void mesh_entry_emit(struct sw_mesh_index *ix, struct mesh_svc *s);
/* Addresses of a slice that are no pods. s: the Service it belongs to, or NULL. */
void mesh_slice_emit(struct sw_mesh_index *ix, struct mesh_slice *slice, struct mesh_svc *s);
/* Gateways to other networks. */
void mesh_netgws_emit(struct sw_mesh_index *ix);
