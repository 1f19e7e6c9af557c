/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds guessing: how many refusals an address may cause, and all together. Only refusals count,
 * so a flooding client locks out only itself. IPv6 addresses count by their /64.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "base/rate.h"
#include "io/addr.h"

enum {
    SW_JOIN_BURST = 10,        /* refusals of an address at once */
    SW_JOIN_ADDRESSES = 4096,  /* remembered */
    SW_JOIN_LOGGED_BURST = 20, /* lines of refusals at once; the rest is counted */
};

struct sw_join_throttle {
    struct sw_map by_address; /* struct throttled by its key */
    struct sw_rate logged;
    uint64_t unlogged; /* refusals without a line since the last one with */
};

void sw_join_throttle_done(struct sw_join_throttle *t);
/* False: the address caused too many refusals and has to wait. */
/* Whether these are one address here: of IPv6, a network of 64 bits is. */
bool sw_join_throttle_same(const struct sw_ip *a, const struct sw_ip *b);
bool sw_join_throttle_ok(const struct sw_join_throttle *t, const struct sw_ip *ip, uint64_t now_ns);
void sw_join_throttle_refused(struct sw_join_throttle *t, const struct sw_ip *ip, uint64_t now_ns);
/* May this refusal have a line of the log? *ret_unlogged: how many had none before it. */
bool sw_join_throttle_log(struct sw_join_throttle *t, uint64_t now_ns, uint64_t *ret_unlogged);
