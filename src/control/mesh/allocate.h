/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses for the hosts of ServiceEntries that name none: one of either family for each, the
 * lowest that is free. What an entry has it keeps while it needs it; of two entries with one
 * address the older keeps it, and an address that a spec names is not allocated. Entries of one
 * namespace get and name no more than are left for all others; what they name beyond is not theirs.
 */
#pragma once

#include "control/mesh/types.h"
#include "control/runtime.h"

struct mesh_allocation {
    const struct sw_kube_obj *of;
    const struct sw_json *addresses; /* [{value, host}] as status.addresses should be */
    size_t refused; /* addresses beyond the namespace's share, or when there are none */
};

/* For each ServiceEntry of the view, in its order; the array is in the arena. */
struct mesh_allocation *mesh_allocate(const struct sw_view *v,
                                      const struct sw_mesh_status_conf *conf, struct sw_arena *a);
