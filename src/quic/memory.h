/* SPDX-License-Identifier: Apache-2.0 */
/* What streams may hold, in both directions. */
#pragma once

#include "quic/stream.h"

/* A chunk of s was made (its size) or freed (the same, negative). */
void sw_qmem_count(struct sw_qstream *s, int64_t delta);
/*
 * How much more s may hold to be sent; at least QUIC_FLOOR when it holds nothing. lent: room it has
 * already and may fill.
 */
size_t sw_qmem_room(const struct sw_qstream *s, size_t lent);
/* s wanted room and got none: counted once until it does. */
void sw_qmem_held_back(struct sw_qstream *s);
/* Begin and end of a stream's window; the end as soon as nothing is kept for it, and again. */
void sw_qmem_stream_begin(struct sw_qstream *s);
void sw_qmem_stream_end(struct sw_qstream *s);
/* The reader took n bytes of s: credit to give to the peer now. */
uint64_t sw_qmem_taken(struct sw_qstream *s, size_t n);
