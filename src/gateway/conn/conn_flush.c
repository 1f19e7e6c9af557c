/* SPDX-License-Identifier: Apache-2.0 */
/* Output of many connections, written together at the end of a turn. */
#include "gateway/conn/conn.h"
#include "gateway/conn/conn_int.h"
#include "gateway/conn/worker.h"

void gw_conn_flush_queued(struct sw_gw_worker *w)
{
    gw_conn_flush_list(w, &w->soon);
    w->n_soon = 0;
}

static void on_flush(struct sw_defer *d)
{
    struct sw_gw_worker *w = SW_CONTAINER_OF(d, struct sw_gw_worker, flush);

    gw_conn_flush_queued(w);
    gw_conn_flush_list(w, &w->dirty);
}

void gw_conn_dirty(struct sw_gw_conn *c)
{
    struct sw_gw_worker *w = c->worker;

    sw_list_push_back(&w->dirty, &c->dirty);
    sw_loop_defer(w->loop, &w->flush, on_flush);
}

void sw_gw_conn_queue_flush(struct sw_gw_conn *c)
{
    struct sw_gw_worker *w = c->worker;

    if (!sw_list_linked(&c->dirty))
        return;
    sw_list_unlink(&c->dirty);
    sw_list_push_back(&w->soon, &c->dirty);
    w->n_soon++;
}
