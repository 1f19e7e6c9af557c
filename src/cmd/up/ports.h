/* SPDX-License-Identifier: Apache-2.0 */
/* Follows which ports of the gateway are bound, for `spanwire up`: asks its page /listeners. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"
#include "io/loop.h"

struct sw_up_ports;

/* Where to ask, and the file of the token for it, which is made when there is none. */
struct sw_up_admin {
    struct sw_addr at;
    const char *token_file;
};

/*
 * unbound: the listeners that are not bound, a line each ("NAME::ADDRESS why"), when that changed;
 * empty: all are. served: some listener was bound before. NULL with what was wrong.
 */
SW_NODISCARD struct sw_up_ports *sw_up_ports_new(struct sw_loop *l, const struct sw_up_admin *admin,
                                                 void (*unbound)(void *arg, struct sw_slice lines,
                                                                 bool served),
                                                 void *arg, struct sw_err *err);
/* NULL is fine. Not from inside the callback. */
void sw_up_ports_free(struct sw_up_ports *p);
