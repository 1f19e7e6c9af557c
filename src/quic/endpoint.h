/* SPDX-License-Identifier: Apache-2.0 */
/* The turns of an endpoint. */
#pragma once

#include "quic/core.h"

struct sw_qroute;

/* A datagram arrived. The bytes may be written to. */
void sw_quic_packet(struct sw_quic *q, const struct sw_qroute *from, uint8_t ecn, uint8_t *p,
                    size_t n);
/* Something is to be written or reported: schedules a turn. */
void sw_quic_wake(struct sw_quic *q);
/* Reports to the application everything that happened, then writes. After a batch of packets. */
void sw_quic_turn(struct sw_quic *q);
