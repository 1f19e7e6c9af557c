/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the public address for the exposed name, until an answer comes all the way. */
#pragma once

#include <stdbool.h>

#include "base/slice.h"
#include "io/loop.h"

struct sw_origin_probe;

/*
 * url: "http://name[:port]/"; at: address of the gateway. done comes once, from the loop: ok when
 * something other than a gateway's own 502, 503 or 504 answered, 404 only after the seconds that a
 * gateway may need for a new route, else why it did not within a minute. NULL: nothing that can be
 * asked.
 */
struct sw_origin_probe *sw_probe_new(struct sw_loop *l, struct sw_slice url, struct sw_slice at,
                                     void (*done)(void *arg, bool ok, const char *why), void *arg);
/* NULL is fine; done does not come any more. */
void sw_probe_free(struct sw_origin_probe *p);
/* Is a request one of these? */
bool sw_probe_is_ours(const char *method, const char *path);
