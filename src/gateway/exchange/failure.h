/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line for every request that failed, whether or not there is an access log: host, request id,
 * reason and device. A flood of failures is counted, not written.
 */
#pragma once

struct sw_exchange;
struct sw_gw_worker;

enum { SW_GW_FAILURE_LINES = 10 }; /* a second and worker */

/* The exchange is over: logs it if it failed. */
void sw_gw_failure_note(struct sw_exchange *x);
/* The worker ends: logs what was not logged yet. */
void sw_gw_failures_done(struct sw_gw_worker *w);
