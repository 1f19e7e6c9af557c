/* SPDX-License-Identifier: Apache-2.0 */
/* A service of which more than the own cluster's workloads are endpoints. */
#pragma once

#include "control/mesh/model.h"

/* Endpoints of it on one other network. */
struct mesh_cell {
    struct mesh_text *network;
    uint64_t weight; /* of the healthy ones */
    size_t n;
};

/* Who the endpoints on other networks are. */
struct mesh_san {
    struct mesh_text *identity;
    size_t n;
};

struct mesh_joint {
    struct mesh_text *key; /* "namespace/hostname" */
    struct sw_list dirty;
    SW_VEC(struct mesh_cell) cells;
    SW_VEC(struct mesh_san) sans;
    SW_VEC(struct sw_mesh_index *) elsewhere; /* other clusters that have it */
    mesh_outs outs;                           /* split-horizon workloads */
    uint64_t emitted;
};

/* A workload on another network comes or goes ('on'). Empty identities do not count. */
void mesh_joint_count(struct mesh_pool *p, struct mesh_joint *j, const struct sw_mesh_far *of,
                      bool weighs, bool on);
void mesh_joint_elsewhere(struct mesh_joint *j, struct sw_mesh_index *ix, bool on);
/* False when the own cluster's service stands alone, and the joint is not needed. */
bool mesh_joint_needed(const struct sw_mesh_index *home, const struct mesh_joint *j);
/* Emits the service and its split-horizon workloads, through home's ledger. */
void mesh_joint_emit(struct sw_mesh_index *home, struct mesh_joint *j);
void mesh_joint_free(struct sw_mesh_index *home, struct mesh_pool *p, struct mesh_joint *j);
