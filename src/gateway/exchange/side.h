/* SPDX-License-Identifier: Apache-2.0 */
/* What the sides of exchanges have in common, whatever they speak (exchange.h). */
#pragma once

#include "gateway/exchange/exchange.h"

struct sw_gw_conn;

/* For a side that has a connection of its own: it is in side->conn. Output leaves together with
 * others' once the callbacks in progress have returned. */
void gw_side_conn_flush(struct sw_gw_side *s);
bool gw_side_conn_blocked(const struct sw_gw_side *s);
void gw_side_conn_pause(struct sw_gw_side *s);
void gw_side_conn_resume(struct sw_gw_side *s);
/* For sw_gw_conn_ops: there is nothing to do once it is open. */
void gw_side_conn_open(struct sw_gw_conn *c);

/* For a side that takes everything and reports nothing. */
void gw_side_nothing(struct sw_gw_side *s);
bool gw_side_never_blocked(const struct sw_gw_side *s);
void gw_side_no_info(struct sw_exchange *x, int status);

/* Takes the codec off the exchange; returns what it had as its stream. */
static inline void *gw_down_detach(struct sw_exchange *x)
{
    void *stream = x->down.stream;

    x->down.ops = NULL;
    x->down.stream = NULL;
    x->down.conn = NULL;
    return stream;
}

static inline void *gw_up_detach(struct sw_exchange *x)
{
    void *stream = x->up.stream;

    x->up.ops = NULL;
    x->up.stream = NULL;
    x->up.conn = NULL;
    return stream;
}
