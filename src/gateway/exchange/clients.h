/* SPDX-License-Identifier: Apache-2.0 */
/* What clients began on a worker, of any protocol: drained, renewed, evicted, killed alike. */
#pragma once

#include <stdbool.h>

#include "base/list.h"

struct sw_gw_lstats;
struct sw_gw_worker;

/*
 * Anything a client began that keeps a worker from being idle, of any protocol. Linked while it
 * lives. A drain lets each finish; the deadline kills what is left.
 */
struct sw_gw_down {
    struct sw_list link;
    struct sw_gw_lstats *stats; /* counts the connection while it is linked; NULL: not counted */
    void (*drain)(struct sw_gw_down *d);
    void (*kill)(struct sw_gw_down *d);
    /* A new view arrived; NULL: does not care. */
    void (*renew)(struct sw_gw_down *d);
    /* Closes the connection at once if it is idle; false: it is not. NULL: it never is. */
    bool (*evict)(struct sw_gw_down *d);
};

void sw_gw_down_add(struct sw_gw_worker *w, struct sw_gw_down *d);
void sw_gw_down_remove(struct sw_gw_worker *w, struct sw_gw_down *d);
/* It became idle: of those that are it is evicted last. */
void sw_gw_down_idle(struct sw_gw_worker *w, struct sw_gw_down *d);
