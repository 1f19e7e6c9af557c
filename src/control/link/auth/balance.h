/* SPDX-License-Identifier: Apache-2.0 */
/* In which order the sources of an Import are tried for one connection. Pure. */
#pragma once

#include <stdint.h>

#include "control/link/facts.h"

/* What the choice depends on besides the Import. */
struct sw_link_choice {
    uint64_t turn; /* connections of this Import so far, this one included */
    /* Uniform below the bound (never 0). */
    uint64_t (*random)(void *arg, uint64_t bound);
    /* Does the source's peer answer? NULL: all do. */
    bool (*reachable)(void *arg, const struct sw_link_source *s);
    /* 0: same zone, 1: same region, 2: elsewhere. Only asked for scheme 'locality'. */
    int (*distance)(void *arg, const struct sw_link_source *s);
    /* Leave it out: its tunnel failed a moment ago. NULL: none. */
    bool (*excluded)(void *arg, const struct sw_link_source *s);
    void *arg;
};

/*
 * Writes indices of sources into ret, best first; returns how many. Sources that are not reachable
 * come last, in the scheme's order. An unknown scheme has none.
 */
size_t sw_link_order(const struct sw_link_import *i, const struct sw_link_choice *c,
                     uint32_t ret[SW_LINK_SOURCES_MAX]);
