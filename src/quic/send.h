/* SPDX-License-Identifier: Apache-2.0 */
/* The way out: packets, to routes and paths. */
#pragma once

#include "quic/conn.h"

/* Writes what ngtcp2, datagrams and streams have to say, as far as congestion control lets it. */
void sw_qconn_write(struct sw_qconn *c);
/* max, or less while the path is not known to take that much. */
size_t sw_qconn_packet_max(const struct sw_qconn *c, size_t max);
/* Bytes were acknowledged after a silence: packets may be large again. */
void sw_qconn_hole_retry(struct sw_qconn *c);
/* Sends one or more packets on a route; SW_EAGAIN when the socket is full. */
int sw_qroute_send(struct sw_quic *q, const struct sw_qroute *r, uint8_t ecn, const uint8_t *p,
                   size_t n, size_t segment);
/* The same by way of a connection's path; everywhere while it is racing. */
int sw_qpath_send(struct sw_qconn *c, uint16_t id, uint8_t ecn, const uint8_t *p, size_t n,
                  size_t segment);
