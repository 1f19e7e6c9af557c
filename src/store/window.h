/* SPDX-License-Identifier: Apache-2.0 */
/* The recent events that watches resume from. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "store/object.h"

/* Recent events in order of revision: a ring that grows. */
struct sw_window {
    struct sw_store_event **ring; /* owned, with a reference each */
    size_t cap;                   /* power of two or 0 */
    size_t first;
    size_t n;
    size_t bytes; /* of all events: sw_window_cost */
};

/* What an event holds in memory: its object, which no later version shares. */
size_t sw_window_cost(const struct sw_store_event *e);
void sw_window_done(struct sw_window *w);
/* Takes over the reference. */
void sw_window_push(struct sw_window *w, struct sw_store_event *e);
struct sw_store_event *sw_window_at(const struct sw_window *w, size_t i);
/* Position of the first event with a revision above 'revision'. */
size_t sw_window_after(const struct sw_window *w, uint64_t revision);
/* Takes out the oldest; the reference goes to the caller. NULL when empty. */
struct sw_store_event *sw_window_pop(struct sw_window *w);
