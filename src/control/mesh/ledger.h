/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was emitted, so that only differences are. A resource whose owner went away waits in the
 * index's 'gone' for another owner of that name, and is removed if none came.
 */
#pragma once

#include "control/mesh/model.h"

/* *slot: hash of what was emitted under this name by this owner; 0: nothing. */
void mesh_publish(struct sw_mesh_index *ix, uint64_t *slot, const struct sw_mesh_change *c);
/* The owner has it no more. */
void mesh_retire(struct sw_mesh_index *ix, uint64_t *slot, struct sw_slice name);

/* The same for owners of several. A set is computed anew by retiring all and putting each. */
void mesh_outs_put(struct sw_mesh_index *ix, mesh_outs *outs, const struct sw_mesh_change *c);
bool mesh_outs_has(const mesh_outs *outs, struct sw_slice name);
void mesh_outs_retire(struct sw_mesh_index *ix, mesh_outs *outs);

/* Removes what was not taken over. */
void mesh_gone_flush(struct sw_mesh_index *ix);
void mesh_gone_done(struct sw_mesh_index *ix);
