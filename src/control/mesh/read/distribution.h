/* SPDX-License-Identifier: Apache-2.0 */
/* How a service prefers near endpoints. */
#pragma once

#include "control/mesh/model.h"

/* Of a field or an annotation; p == NULL: not there. Case does not count. */
static inline enum mesh_distribution mesh_distribution(struct sw_slice s)
{
    if (!s.p)
        return MESH_DISTRIBUTION_NONE;
    if (sw_slice_ieq(s, SW_SLICE_LIT("PreferSameZone")) ||
        sw_slice_ieq(s, SW_SLICE_LIT("PreferClose")))
        return MESH_DISTRIBUTION_ZONE;
    return sw_slice_ieq(s, SW_SLICE_LIT("PreferSameNode")) ? MESH_DISTRIBUTION_NODE
                                                           : MESH_DISTRIBUTION_ANY;
}
