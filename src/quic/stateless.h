/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that belong to no connection, and answers that need none. */
#pragma once

#include "quic/core.h"

struct sw_qroute;

/*
 * A packet of no connection: it makes a new one, is answered, kept for a moment, or dropped.
 * waited: it was kept already.
 */
void sw_quic_stranger(struct sw_quic *q, const struct sw_qroute *from, uint8_t ecn, uint8_t *p,
                      size_t n, bool waited);
void sw_quic_reset_token(const struct sw_quic *q, const uint8_t *cid, size_t n, uint8_t ret[16]);
