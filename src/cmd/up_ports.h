/* SPDX-License-Identifier: Apache-2.0 */
/* Follows which ports of the gateway are bound, for `spanwire up`: asks its page /listeners. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"
#include "io/loop.h"

struct sw_up_ports;

/*
 * unbound: the listeners that are not bound, a line each ("NAME::ADDRESS why"), when that changed;
 * empty: all are. served: some listener was bound before. NULL with what was wrong.
 */
SW_NODISCARD struct sw_up_ports *sw_up_ports_new(struct sw_loop *l, const struct sw_addr *admin,
                                                 void (*unbound)(void *arg, struct sw_slice lines,
                                                                 bool served),
                                                 void *arg, struct sw_err *err);
/* NULL is fine. Not from inside the callback. */
void sw_up_ports_free(struct sw_up_ports *p);
