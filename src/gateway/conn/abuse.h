/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that clients reset before an answer, by source address, on all workers. A connection that
 * resets in bulk is ended by its codec; an attacker that spreads the resets over many connections
 * uses up the allowance of its address. From then on every connection of the address that keeps
 * resetting is ended after a few. The address itself is not refused: honest clients behind the same
 * NAT or CDN are served. A /64 counts as one address.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "io/addr.h"

struct sw_gw_abuse;

enum {
    SW_GW_ABUSE_BURST = 1000, /* resets at once: five connections' worth of early resets */
    SW_GW_ABUSE_PER_S = 100,  /* how fast that allowance refills */
    SW_GW_ABUSE_SLOTS = 1024, /* addresses remembered; the one with the fewest resets makes room */
};

/* Both may be called from any thread, and with NULL, which remembers nothing. */
struct sw_gw_abuse *sw_gw_abuse_new(void);
/* Counts resets of an address. True when its allowance is used up. */
bool sw_gw_abuse_note(struct sw_gw_abuse *a, const struct sw_ip *ip, unsigned resets,
                      uint64_t now_ns);
void sw_gw_abuse_free(struct sw_gw_abuse *a);
