/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line for every request that failed, whether or not there is an access log: host, request id,
 * reason and device. A flood of failures is counted, not written.
 */
#pragma once

#include <stdint.h>

#include "io/loop.h"

struct sw_exchange;
struct sw_gw_worker;

enum { SW_GW_FAILURE_LINES = 10 }; /* a second and worker */

/* Of one worker; zeroes are a fresh one. */
struct sw_gw_failures {
    uint64_t second; /* that 'lines' counts in */
    unsigned lines;
    uint64_t unlogged;     /* since the last summary */
    struct sw_timer timer; /* until the next summary */
};

/* The exchange is over: logs it if it failed. */
void sw_gw_failure_note(struct sw_exchange *x);
/* The worker ends: says what was not logged. */
void sw_gw_failures_done(struct sw_gw_worker *w);
