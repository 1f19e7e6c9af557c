/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds guessing: how many refusals an address may cause, and all together. Only refusals count,
 * so a flooding client locks out only itself. IPv6 addresses count by their /64.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "identity/quota.h"
#include "io/addr.h"

enum {
    SW_JOIN_BURST = 10,       /* refusals of an address at once */
    SW_JOIN_ADDRESSES = 4096, /* remembered */
};

struct sw_join_throttle {
    struct sw_quota refusals; /* by address */
};

void sw_join_throttle_done(struct sw_join_throttle *t);
/* False: the address caused too many refusals and has to wait. */
bool sw_join_throttle_ok(const struct sw_join_throttle *t, const struct sw_ip *ip, uint64_t now_ns);
void sw_join_throttle_refused(struct sw_join_throttle *t, const struct sw_ip *ip, uint64_t now_ns);
