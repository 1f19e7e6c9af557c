/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exponential back-off: the time to wait doubles from attempt to attempt, and up to half of it is
 * left to chance, so that many clients of one server do not return together.
 */
#pragma once

#include "base/def.h"
#include "base/rand.h"

struct sw_backoff {
    uint64_t ns; /* the longest that the last wait could be; 0: nothing failed since the reset */
};

static inline void sw_backoff_reset(struct sw_backoff *b)
{
    b->ns = 0;
}

/* How long to wait after one more failure: between half and all of least * 2^n, at most 'most'. */
static inline uint64_t sw_backoff_next(struct sw_backoff *b, uint64_t least_ns, uint64_t most_ns)
{
    b->ns = b->ns == 0 ? sw_min(least_ns, most_ns) : b->ns > most_ns / 2 ? most_ns : b->ns * 2;
    return b->ns / 2 + sw_rand_below(b->ns / 2 + 1);
}
