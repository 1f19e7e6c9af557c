/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the control plane sent, on disk: written now and then by a thread of its own from a
 * snapshot, replaced as a whole, read at the start. The file is a magic word and frames of a length
 * and a DeltaDiscoveryResponse; the last one says how many resources there are.
 */
#pragma once

#include "base/err.h"
#include "io/loop.h"
#include "node/state.h"

struct sw_mesh_store;

/* The directory must exist and be writable: NULL with SW_ESYS otherwise. */
SW_NODISCARD struct sw_mesh_store *sw_mesh_store_new(struct sw_loop *l, const char *dir,
                                                     struct sw_err *err);
/* Waits for the thread, and writes what has not been. NULL is fine. */
void sw_mesh_store_free(struct sw_mesh_store *s);
/* There is a newer snapshot; a reference is taken. */
void sw_mesh_store_changed(struct sw_mesh_store *s, const struct sw_state *state);
/*
 * Puts what is stored into the builder. SW_ENOENT: there is nothing. SW_EPROTO or SW_ELIMIT: the
 * file is damaged or cut off, and the builder may have some of it.
 */
SW_NODISCARD int sw_mesh_store_load(struct sw_mesh_store *s, struct sw_state_builder *b,
                                    struct sw_err *err);

/* The same on bytes: all of a file. */
SW_NODISCARD int sw_mesh_stored_read(struct sw_slice file, struct sw_state_builder *b,
                                     struct sw_err *err);
/* Appends all of a file. SW_ELIMIT when the buffer does not take it. */
SW_NODISCARD int sw_mesh_stored_write(const struct sw_state *state, struct sw_buf *out);
