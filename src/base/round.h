/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Round robin: things wait in the queue of their owner, and owners take turns. One thing of each
 * owner is taken at a time, however many others it has.
 */
#pragma once

#include "base/list.h"

/* In the owner. An owner that goes unlinks 'turn'; its queue is empty by then. */
struct sw_round {
    struct sw_list queue;
    struct sw_list turn; /* in the list of all owners that have something waiting */
};

static inline void sw_round_init(struct sw_round *r)
{
    sw_list_init(&r->queue);
    sw_list_init(&r->turn);
}

static inline void sw_round_add(struct sw_list *owners, struct sw_round *r, struct sw_list *thing)
{
    sw_list_push_back(&r->queue, thing);
    if (!sw_list_linked(&r->turn))
        sw_list_push_back(owners, &r->turn);
}

/* Takes out what is next; NULL: nothing waits. Things may have been unlinked meanwhile. */
static inline struct sw_list *sw_round_next(struct sw_list *owners)
{
    struct sw_list *thing = NULL;
    struct sw_list *it;

    while (!thing && (it = sw_list_pop_front(owners))) {
        struct sw_round *r = SW_CONTAINER_OF(it, struct sw_round, turn);

        thing = sw_list_pop_front(&r->queue);
        if (!sw_list_empty(&r->queue))
            sw_list_push_back(owners, &r->turn);
    }
    return thing;
}
