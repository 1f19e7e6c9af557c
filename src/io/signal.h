/* SPDX-License-Identifier: Apache-2.0 */
/* Signals as events of one loop (signalfd). */
#pragma once

#include "io/loop.h"

typedef void (*sw_signal_cb)(int signo, void *arg);

struct sw_signals;

/* Blocks the given signals in the calling thread (do it before making threads) and delivers them to
 * cb. */
SW_NODISCARD struct sw_signals *sw_signals_new(struct sw_loop *l, const int *signos, size_t n,
                                               sw_signal_cb cb, void *arg, struct sw_err *err);
void sw_signals_free(struct sw_signals *s);
