/* SPDX-License-Identifier: Apache-2.0 */
/* What the sides of exchanges have in common, whatever they speak (exchange.h). */
#pragma once

#include "gateway/exchange/exchange.h"

/* For a side that has a connection of its own: it is in side->conn. Output leaves together with
 * others' once the callbacks in progress have returned. */
void gw_side_conn_flush(struct sw_gw_side *s);
bool gw_side_conn_blocked(const struct sw_gw_side *s);
void gw_side_conn_pause(struct sw_gw_side *s);
void gw_side_conn_resume(struct sw_gw_side *s);

#define GW_SIDE_CONN_OPS                                                                           \
    .flush = gw_side_conn_flush, .blocked = gw_side_conn_blocked, .pause = gw_side_conn_pause,     \
    .resume = gw_side_conn_resume

/* How the files of codecs name what a connection calls. */
#define GW_CODEC_OPS(free_conn)                                                                    \
    {                                                                                              \
        .on_bytes = on_bytes, .on_batch = on_batch, .on_eof = on_eof, .on_drained = on_drained,    \
        .on_fail = on_fail, .on_free = (free_conn)                                                 \
    }

/* For a side that takes everything and reports nothing. */
void gw_side_nothing(struct sw_gw_side *s);
bool gw_side_never_blocked(const struct sw_gw_side *s);
void gw_side_no_info(struct sw_exchange *x, int status);

/* The client is gone: takes the codec off, and tells the exchange. NULL: there is none. */
void gw_side_client_gone(struct sw_exchange *x);
/* Takes the codec off its side of an exchange; returns what it had as its stream. */
static inline void *gw_side_detach(struct sw_gw_side *s)
{
    void *stream = s->stream;

    s->ops = NULL;
    s->stream = NULL;
    s->conn = NULL;
    return stream;
}
