/* SPDX-License-Identifier: Apache-2.0 */
/* Pacing: how much a write pass may send, and when the next one may be made. */
#pragma once

#include "quic/conn.h"

/*
 * Is a path so near that nothing is paced? By its round trip, the lowest one and the rate of
 * congestion control.
 */
bool sw_qpace_near(uint64_t smoothed_rtt_ns, uint64_t min_rtt_ns, double bytes_per_ns);
/* Bytes a write pass made now may send. */
size_t sw_qpace_limit(struct sw_qconn *c);
/* A pass sent n bytes; 'again' of them had been sent before. */
void sw_qpace_sent(struct sw_qconn *c, size_t n, size_t again);
/* When the next pass may send; UINT64_MAX: at any time. */
uint64_t sw_qpace_due(const struct sw_qconn *c);
