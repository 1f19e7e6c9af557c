/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has cost more than is normal, by source address, on all workers. A connection that is misused
 * is ended by its codec; whoever comes back at once and goes on meets this: while the allowance of
 * an address is used up its new connections are closed unheard. A /64 counts as one address.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "io/addr.h"

struct sw_gw_abuse;

enum {
    SW_GW_ABUSE_BURST = 1000, /* offences at once: five connections' worth of early resets */
    SW_GW_ABUSE_PER_S = 100,  /* how fast that allowance comes back */
    SW_GW_ABUSE_SLOTS = 1024, /* addresses remembered; the least bad makes room */
};

/* All of them may be called from any thread, and with NULL, which remembers nobody. */
struct sw_gw_abuse *sw_gw_abuse_new(void);
void sw_gw_abuse_note(struct sw_gw_abuse *a, const struct sw_ip *ip, unsigned offences,
                      uint64_t now_ns);
/* True when the address has no allowance left. Costs nothing while everybody behaves. */
bool sw_gw_abuse_refused(struct sw_gw_abuse *a, const struct sw_ip *ip, uint64_t now_ns);
void sw_gw_abuse_free(struct sw_gw_abuse *a);
