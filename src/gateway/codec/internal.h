/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to listeners of this process. */
#pragma once

#include "base/err.h"

struct sw_exchange;
struct sw_gw_host;
struct sw_gw_worker;

/*
 * A connection to an internal listener of this worker: one end of a socket pair, the other is
 * served as if the listener had accepted it. The metadata that the cluster passes on goes along.
 * SW_ENOENT: there is no such listener.
 */
SW_NODISCARD int sw_gw_internal_connect(struct sw_gw_worker *w, const struct sw_gw_host *h,
                                        const struct sw_exchange *cause, int *ret_fd,
                                        struct sw_err *err);
