/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work one request or one object may cost, counted in steps and bytes rather than in time, so
 * that the same input is accepted or refused on every machine. A deadline, or the end of the
 * connection, may cancel it from another thread. A caller that spends checks the result and fails
 * closed.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sw_budget {
    uint64_t steps;        /* left: about a nanosecond to ten each */
    uint64_t bytes;        /* left: memory of the tree that is made */
    bool spent;            /* something was refused; stays so. Of the spending thread only */
    atomic_bool cancelled; /* set by sw_budget_cancel, from any thread */
};

/* Ends the work at its next step. The budget must outlive the call. */
static inline void sw_budget_cancel(struct sw_budget *b)
{
    atomic_store_explicit(&b->cancelled, true, memory_order_relaxed);
}

static inline bool sw_budget_cancelled(const struct sw_budget *b)
{
    return b && atomic_load_explicit(&b->cancelled, memory_order_relaxed);
}

/* False when the work must end: something was refused before, or it was cancelled. */
static inline bool sw_budget_ok(const struct sw_budget *b)
{
    return !b || (!b->spent && !sw_budget_cancelled(b));
}

/* Takes n of *left; false when there is too little, and of a cancelled budget. */
static inline bool sw_budget_take(struct sw_budget *b, uint64_t *left, uint64_t n)
{
    if (!sw_budget_ok(b) || n > *left) {
        b->spent = true;
        return false;
    }
    *left -= n;
    return true;
}

/* Accounts for n steps about to be made. NULL: unlimited. */
static inline bool sw_budget_step(struct sw_budget *b, uint64_t n)
{
    return !b || sw_budget_take(b, &b->steps, n);
}

/* Accounts for n bytes about to be allocated. NULL: unlimited. */
static inline bool sw_budget_bytes(struct sw_budget *b, uint64_t n)
{
    return !b || sw_budget_take(b, &b->bytes, n);
}
