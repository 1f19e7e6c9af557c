/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/exchange/side.h"

#include "io/conn/conn.h"

void gw_side_conn_flush(struct sw_gw_side *s)
{
    sw_conn_queue_flush(s->conn);
}

bool gw_side_conn_blocked(const struct sw_gw_side *s)
{
    return sw_conn_blocked(s->conn);
}

void gw_side_conn_pause(struct sw_gw_side *s)
{
    sw_conn_pause(s->conn);
}

void gw_side_conn_resume(struct sw_gw_side *s)
{
    sw_conn_resume(s->conn);
}

void gw_side_nothing(struct sw_gw_side *s)
{
}

bool gw_side_never_blocked(const struct sw_gw_side *s)
{
    return false;
}

void gw_side_client_gone(struct sw_exchange *x)
{
    if (!x)
        return;
    (void)gw_side_detach(&x->down);
    sw_exchange_down_gone(x);
}

void gw_side_no_info(struct sw_exchange *x, int status)
{
}
