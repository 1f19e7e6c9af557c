/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests from a relay the address it sees us at (GET /observed): that of a NAT in front of us,
 * which no interface has. A relay without an answer is no error.
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"
#include "io/loop.h"

struct sw_observe;

/*
 * url: http or https; ca_file NULL: the system's roots. seen comes from the loop after each
 * sw_observe_ask that was answered. NULL: SW_EINVAL, SW_ENOENT, SW_ESYS.
 */
SW_NODISCARD struct sw_observe *sw_observe_new(struct sw_loop *l, struct sw_slice url,
                                               const char *ca_file,
                                               void (*seen)(void *arg, const struct sw_ip *ip),
                                               void *arg, struct sw_err *err);
/* NULL is fine. Not from inside seen. */
void sw_observe_free(struct sw_observe *o);
/*
 * Sends the request now, and from then on every few minutes; sooner, with growing pauses, without
 * an answer.
 */
void sw_observe_ask(struct sw_observe *o);
/* The address in an answer's body; false: there is none. */
bool sw_observe_read(struct sw_slice body, struct sw_ip *ret);
