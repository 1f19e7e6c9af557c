/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications of the kernel that addresses, links, default or local routes of this network
 * namespace changed. They say that something changed, not what: listeners read the present state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "io/loop.h"

struct sw_netchange;

/*
 * changed(arg, route) comes from the loop, once for all that happened meanwhile; route: a default
 * route came or went, which addresses alone do not show. NULL: SW_ESYS, the kernel does not report
 * it (a sandbox without netlink): the caller polls.
 */
SW_NODISCARD struct sw_netchange *sw_netchange_new(struct sw_loop *l,
                                                   void (*changed)(void *arg, bool route),
                                                   void *arg, struct sw_err *err);
/* NULL is fine. Not from inside changed. */
void sw_netchange_free(struct sw_netchange *n);

/*
 * What the messages in buf (n bytes, aligned as the kernel's) are about. Returns whether any
 * concerns us; *ret_route is set as described above, and never cleared.
 */
bool sw_netchange_read(const void *buf, size_t n, bool *ret_route);
