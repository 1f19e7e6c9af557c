/* SPDX-License-Identifier: Apache-2.0 */
/* When a peer counts as reachable, and when it is probed next: a state machine without a clock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

#define SW_LINK_BEAT_UP_NS      SW_NS_PER_S
#define SW_LINK_BEAT_DOWN_NS    (10 * SW_NS_PER_S)
#define SW_LINK_PEER_TIMEOUT_NS (3 * SW_NS_PER_S)

struct sw_link_beat {
    bool known; /* a probe came to an end */
    bool reachable;
    uint32_t failures; /* in a row */
};

/* Takes a result in; true when 'reachable' changed or became known. One result is enough. */
static inline bool sw_link_beat_take(struct sw_link_beat *b, bool ok)
{
    bool changed = !b->known || b->reachable != ok;

    b->known = true;
    b->reachable = ok;
    b->failures = ok ? 0 : b->failures + (b->failures < UINT32_MAX);
    return changed;
}

/* Until the next probe: 1 s while up; then 1, 2, 4, 8 and from there on 10 s. */
static inline uint64_t sw_link_beat_delay(const struct sw_link_beat *b)
{
    if (b->reachable || b->failures <= 1)
        return SW_LINK_BEAT_UP_NS;
    return b->failures > 4 ? SW_LINK_BEAT_DOWN_NS : SW_NS_PER_S << (b->failures - 1);
}
