/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of objects that the mesh reads. */
#pragma once

#include <stdbool.h>

#include "control/mesh/types.h"
#include "kube/client/request.h"

/* Kinds besides those of enum sw_mesh_kind. */
enum { SW_MESH_WATCH_POLICY = SW_MESH_KINDS, SW_MESH_WATCH_PEER, SW_MESH_WATCHED };

struct sw_mesh_kind_info {
    struct sw_kube_gvr gvr;
    bool optional; /* a cluster need not have it */
};

extern const struct sw_mesh_kind_info sw_mesh_kinds[SW_MESH_WATCHED];
