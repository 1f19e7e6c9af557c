/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is written back: whether Services, ServiceEntries and WorkloadEntries are bound to the
 * waypoint they ask for, and the addresses of ServiceEntries that have none of their own. A pure
 * build over a whole view, for the runtime; no pods are in it.
 */
#pragma once

#include "control/mesh/types.h"
#include "control/runtime.h"

extern const struct sw_control_kind sw_mesh_status_kinds[SW_MESH_ST_KINDS];

void sw_mesh_status_build(const struct sw_view *v, const struct sw_mesh_status_conf *conf,
                          struct sw_output *out);
