/* SPDX-License-Identifier: Apache-2.0 */
/* Congestion control that begins anew. */
#pragma once

#include "quic/conn.h"

struct ngtcp2_conn_stat;

/* Looks whether congestion control has to begin anew, and sees to it. Before every write pass. */
void sw_qrenew_watch(struct sw_qconn *c, const struct ngtcp2_conn_stat *st);
/* Not 0: a pass sends one packet, and after it nothing but acknowledgements for so long. */
uint64_t sw_qrenew_pause_ns(const struct sw_qconn *c);
/* ngtcp2 is on another path and has reset congestion control. */
void sw_qrenew_moved(struct sw_qconn *c);
