/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/exchange/clients.h"

#include "gateway/conn/worker.h"
#include "gateway/observe/stats.h"

void sw_gw_down_add(struct sw_gw_worker *w, struct sw_gw_down *d)
{
    sw_list_push_back(&w->downs, &d->link);
    w->n_downs++;
    sw_gw_lstats_conn(d->stats, 1);
}

void sw_gw_down_remove(struct sw_gw_worker *w, struct sw_gw_down *d)
{
    if (!sw_list_linked(&d->link))
        return;
    sw_list_unlink(&d->link);
    w->n_downs--;
    sw_gw_lstats_conn(d->stats, -1);
}

void sw_gw_down_idle(struct sw_gw_worker *w, struct sw_gw_down *d)
{
    if (!sw_list_linked(&d->link))
        return;
    sw_list_unlink(&d->link);
    sw_list_push_back(&w->downs, &d->link);
}
