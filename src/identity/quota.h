/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many certificates each caller gets: a burst for all identities of a node, then a steady rate.
 * One caller so leaves the CA's thread, its record and the log to the others.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"

enum {
    SW_QUOTA_BURST = 2000,   /* certificates at once */
    SW_QUOTA_PER_S = 20,     /* and then a second */
    SW_QUOTA_CALLERS = 8192, /* remembered */
};

struct sw_quota {
    struct sw_map callers; /* struct quota_caller by its name */
};

void sw_quota_done(struct sw_quota *q);
/* False: the caller has to wait. */
bool sw_quota_take(struct sw_quota *q, struct sw_slice caller, uint64_t now_ns);
