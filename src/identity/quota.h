/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much each caller may do: a burst, then a steady rate. Of certificates that is a burst for all
 * identities of a node; one caller so leaves the CA's thread, its record and the log to the others.
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

struct sw_quota_limits {
    uint64_t burst;
    uint64_t each_ns; /* after the burst, one every so often */
    size_t callers;   /* remembered; the one whose account is clear first is forgotten */
};

void sw_quota_done(struct sw_quota *q);
/* False: the caller has used up its burst and has to wait. */
bool sw_quota_left(const struct sw_quota *q, const struct sw_quota_limits *l,
                   struct sw_slice caller, uint64_t now_ns);
void sw_quota_count(struct sw_quota *q, const struct sw_quota_limits *l, struct sw_slice caller,
                    uint64_t now_ns);
/* A certificate, if one is left; false: the caller has to wait. */
bool sw_quota_take(struct sw_quota *q, struct sw_slice caller, uint64_t now_ns);
