/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An account of events that is forgiven at a steady rate (the generic cell rate algorithm): one
 * number, exact however close together the events are.
 */
#pragma once

#include <stdint.h>

#include "base/def.h"

struct sw_rate {
    uint64_t clear_ns; /* when everything is forgiven; zeroed: an empty account */
};

/* Events that are not forgiven yet; each is after interval_ns. */
static inline uint64_t sw_rate_used(const struct sw_rate *r, uint64_t interval_ns, uint64_t now_ns)
{
    return r->clear_ns > now_ns ? (r->clear_ns - now_ns + interval_ns - 1) / interval_ns : 0;
}

/* Adds n events; at most 'most' are remembered. Returns sw_rate_used. */
static inline uint64_t sw_rate_add(struct sw_rate *r, uint64_t n, uint64_t most,
                                   uint64_t interval_ns, uint64_t now_ns)
{
    uint64_t from = sw_max(r->clear_ns, now_ns);

    r->clear_ns = sw_min(from + sw_min(n, most) * interval_ns, now_ns + most * interval_ns);
    return sw_rate_used(r, interval_ns, now_ns);
}
