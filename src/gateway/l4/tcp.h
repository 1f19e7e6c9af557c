/* SPDX-License-Identifier: Apache-2.0 */
/* TCP proxying and internal listeners; see worker.h for sw_gw_tcp_start. */
#pragma once

#include "gateway/upstream/cluster.h"
#include "gateway/worker/worker.h"

struct sw_gw_vars;

/*
 * A connection to an internal listener of this worker: one end of a socket pair, the other is
 * served as if the listener had accepted it. The metadata that the cluster passes on goes along.
 * SW_ENOENT: there is no such listener.
 */
SW_NODISCARD int sw_gw_internal_connect(struct sw_gw_worker *w, const struct sw_gw_host *h,
                                        const struct sw_exchange *cause, int *ret_fd,
                                        struct sw_err *err);

/* tcp_tunnel.c: what is not plain bytes on both sides goes through an exchange. */
void sw_gw_tcp_exchange(struct sw_gw_worker *w, const struct sw_gw_accepted *a,
                        struct sw_slice cluster);
/* The fields a tunneling_config adds to the request of a tunnel, also for udp_tunnel.c. */
void sw_gw_tunnel_headers(struct sw_exchange *x, const struct sw_gw_header_add *headers, size_t n,
                          const struct sw_gw_vars *vars);
