/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the gateway for a hostname of the demo until it answers, for `spanwire up`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "io/loop.h"

struct sw_up_page;

/*
 * GET / on 127.0.0.1, again and again. done comes once: the answer was 200, or 20 seconds are over.
 * hostname is borrowed for the call. NULL with err.
 */
SW_NODISCARD struct sw_up_page *sw_up_page_new(struct sw_loop *l, uint16_t port,
                                               struct sw_slice hostname,
                                               void (*done)(void *arg, bool answered), void *arg,
                                               struct sw_err *err);
/* NULL is fine. Not from inside the callback. */
void sw_up_page_free(struct sw_up_page *p);
