/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/exchange/side.h"

#include "gateway/conn/conn.h"
#include "gateway/conn/worker.h"

void gw_side_conn_flush(struct sw_gw_side *s)
{
    sw_gw_conn_queue_flush(s->conn);
}

bool gw_side_conn_blocked(const struct sw_gw_side *s)
{
    return sw_gw_conn_blocked(s->conn);
}

void gw_side_conn_pause(struct sw_gw_side *s)
{
    sw_gw_conn_pause(s->conn);
}

void gw_side_conn_resume(struct sw_gw_side *s)
{
    sw_gw_conn_resume(s->conn);
}

void gw_side_conn_open(struct sw_gw_conn *c)
{
    (void)c;
}

void gw_side_nothing(struct sw_gw_side *s)
{
    (void)s;
}

bool gw_side_never_blocked(const struct sw_gw_side *s)
{
    (void)s;
    return false;
}

void gw_side_no_info(struct sw_exchange *x, int status)
{
    (void)x;
    (void)status;
}
