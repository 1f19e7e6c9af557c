/* SPDX-License-Identifier: Apache-2.0 */
/* TCP proxying. */
#pragma once

#include "gateway/conn/worker.h"

struct sw_gw_header_add;
struct sw_gw_vars;

/*
 * tcp.c: proxies the connection by chain->tcp; with chain->tls it runs the handshake first
 * (sw_gw_tls_accept and conn.h).
 */
void sw_gw_tcp_start(struct sw_gw_worker *w, const struct sw_gw_accepted *a);

/* tcp_tunnel.c: what is not plain bytes on both sides goes through an exchange. */
void sw_gw_tcp_exchange(struct sw_gw_worker *w, const struct sw_gw_accepted *a,
                        struct sw_slice cluster);
/* The fields a tunneling_config adds to the request of a tunnel, also for udp_tunnel.c. */
void sw_gw_tunnel_headers(struct sw_exchange *x, const struct sw_gw_header_add *headers, size_t n,
                          const struct sw_gw_vars *vars);
