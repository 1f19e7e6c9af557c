/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which snapshot the node works with. A control plane may name a policy in a workload before it
 * sends the policy: between the two everything to that workload would be refused and its open
 * connections closed. Such a snapshot is held back for a moment, and the one before stays in force.
 */
#pragma once

#include "io/loop.h"
#include "node/state.h"

typedef void (*sw_mesh_publish_fn)(void *arg, struct sw_state *s); /* owns the reference */

struct sw_mesh_publish {
    struct sw_loop *loop;
    sw_mesh_publish_fn fn;
    void *arg;
    struct sw_state *published; /* owned; NULL: nothing yet */
    struct sw_state *next;      /* owned; held back while the timer runs */
    struct sw_timer timer;
};

void sw_mesh_publish_init(struct sw_mesh_publish *t, struct sw_loop *loop, sw_mesh_publish_fn fn,
                          void *arg);
void sw_mesh_publish_done(struct sw_mesh_publish *t);

/*
 * Publishes a snapshot, at once or, with may_wait, when all policies are known that workloads of
 * this node list, two seconds later at the most: then it counts, and what names an unknown policy
 * is refused. A key that was waited for in vain is not waited for again. Takes no reference over.
 */
void sw_mesh_publish(struct sw_mesh_publish *t, const struct sw_state *s, bool may_wait);
