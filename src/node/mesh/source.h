/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control plane as the source of what a node knows: the delta xDS client for addresses and
 * policies, the builder that takes them in, and what is stored of it on disk. Runs on the main
 * loop. What was learnt survives disconnects; nothing is forgotten because a stream ended.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "io/loop.h"
#include "node/config.h"
#include "node/state.h"

struct sw_mesh;
struct sw_metrics_shard;

struct sw_mesh_opts {
    const struct sw_node_config *config; /* borrowed */
    struct sw_metrics_shard *shard;      /* borrowed */
    /* Something changed: the reference is the callee's. */
    void (*on_state)(void *arg, struct sw_state *s);
    /*
     * Once: enough is known to serve. Both types were answered, or the control plane did not
     * answer and there is something stored.
     */
    void (*on_ready)(void *arg);
    /* A lookup ended: its answer is in the state, or (limit) too much is subscribed to. */
    void (*on_found)(void *arg, struct sw_slice key, bool limit);
    /* Answers "there is no such thing" do not hold any more: who needs one asks again. */
    void (*on_forgotten)(void *arg);
    void *arg;
};

/* NULL with SW_EINVAL. Reads what is stored; connects when started. */
SW_NODISCARD struct sw_mesh *sw_mesh_new(struct sw_loop *l, const struct sw_mesh_opts *o,
                                         struct sw_err *err);
void sw_mesh_start(struct sw_mesh *m);
/* Stores what changed since the last time. NULL is fine. Not from a callback. */
void sw_mesh_free(struct sw_mesh *m);
/* The snapshot of now; borrowed. */
const struct sw_state *sw_mesh_state(const struct sw_mesh *m);
/*
 * On demand: asks for "network/ip", "namespace/hostname" or a uid. on_found comes, from the loop,
 * or from inside when it was asked before or cannot be. Names that nothing has are
 * unsubscribed from when there is no room for another.
 */
void sw_mesh_lookup(struct sw_mesh *m, struct sw_slice key);
