/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/exchange/clients.h"

#include "gateway/conn/worker.h"
#include "gateway/observe/stats.h"
#include "gateway/upstream/hosts.h"

void sw_gw_origin_init(struct sw_gw_origin *o, const struct sw_gw_accepted *a)
{
    *o = (struct sw_gw_origin){
        .listener = sw_gw_listener_ref(a->listener),
        .chain = a->chain,
        .keep = a->keep ? sw_gw_host_ref(a->keep) : NULL,
        .metadata = a->metadata,
        .peer = a->peer,
        .local = a->local,
    };
    if (a->sni.n)
        o->sni = sw_slice_copy(a->sni);
}

void sw_gw_origin_done(struct sw_gw_origin *o)
{
    (void)sw_gw_listener_unref(o->listener);
    (void)sw_gw_host_unref(o->keep);
    sw_slice_free(&o->sni);
}

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
