/* SPDX-License-Identifier: Apache-2.0 */
/* Gateways that lead into other networks: our own of one class, those of other clusters of another.
 */
#pragma once

#include "control/mesh/model.h"

/* May be NULL. */
bool mesh_is_netgw(const struct mesh_gateway *g);
/* Gateways, or the own network, changed. Everything depends on it, and is for the caller to mark.
 */
void mesh_netgws_renew(struct sw_mesh_index *ix);
/* The first of a network, which is preferred; the others follow. NULL: there is none. */
const struct mesh_netgw *mesh_netgw_first(const struct sw_mesh_index *ix, struct sw_slice network);
/* How many there are from the first on. */
size_t mesh_netgw_count(const struct sw_mesh_index *ix, const struct mesh_netgw *first);

/* Gateways of another cluster: those that lead into its network are ours to use. True when that
 * changed something, as above. */
bool mesh_set_far_gateway(struct sw_mesh_index *ix, struct sw_slice cluster,
                          const struct sw_json *obj);
bool mesh_del_far_gateway(struct sw_mesh_index *ix, struct sw_slice cluster, struct sw_slice ns,
                          struct sw_slice name);
/* All of the cluster's. */
bool mesh_drop_far_gateways(struct sw_mesh_index *ix, struct sw_slice cluster);
void mesh_far_gateways_done(struct sw_mesh_index *ix);
