/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/worker/worker.h"

#include "base/mem.h"
#include "gateway/codec/up_pool.h"
#include "gateway/config/config.h"
#include "gateway/config/options.h"
#include "gateway/conn/worker.h"
#include "gateway/exchange/clients.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/failure.h"
#include "gateway/filter/authz.h"
#include "gateway/filter/gzip.h"
#include "gateway/l4/udp.h"
#include "gateway/observe/stats.h"
#include "gateway/route/route.h"
#include "gateway/upstream/hosts.h"
#include "gateway/worker/bind.h"
#include "gateway/worker/listen.h"
#include "gateway/worker/process.h"
#include "http/h1.h"
#include "io/conn/conn.h"
#include "telemetry/metrics.h"
#include "tunnel/scratch.h"

enum {
    EVICT_MAX = 32,    /* idle connections closed at once when descriptors run out */
    EVICT_LOOKS = 512, /* connections looked at for that */
};

/* ---- orders ---- */

static struct sw_gw_worker *worker_of(struct sw_crew_thread *t)
{
    return SW_CONTAINER_OF(t, struct sw_gw_worker, thread);
}

static void take_config(struct sw_crew_thread *t, void *config)
{
    struct sw_gw_worker *w = worker_of(t);
    struct sw_gw_view *old = w->view;

    w->view = SW_NEW(struct sw_gw_view);
    w->view->config = config;
    w->view->refs = 1;
    sw_gw_hosts_apply(w->hosts, w->view->config);
    if (!t->draining)
        sw_gw_listen_apply(w, !old || old->config->listeners != w->view->config->listeners);
    SW_LIST_EACH (struct sw_gw_down, d, &w->downs, link) {
        if (d->renew)
            d->renew(d);
    }
    (void)sw_gw_view_unref(old);
}

void sw_gw_worker_send_config(struct sw_gw_worker *w, struct sw_gw_config *config)
{
    sw_crew_order(&w->thread, take_config, config);
}

static void worker_drain(struct sw_crew_thread *t)
{
    struct sw_gw_worker *w = worker_of(t);

    sw_gw_listen_close(w);
    sw_gw_udp_drain(w);
    SW_LIST_EACH (struct sw_gw_down, d, &w->downs, link)
        d->drain(d);
    sw_gw_pools_drain(w);
}

static bool worker_idle(struct sw_crew_thread *t)
{
    const struct sw_gw_worker *w = worker_of(t);

    return w->n_downs == 0 && w->n_exchanges == 0 && sw_gw_udp_idle(w);
}

static void worker_kill(struct sw_crew_thread *t)
{
    struct sw_gw_worker *w = worker_of(t);

    sw_gw_listen_close(w);
    SW_LIST_EACH (struct sw_gw_down, d, &w->downs, link)
        d->kill(d);
    while (!sw_list_empty(&w->exchanges))
        sw_exchange_kill(SW_CONTAINER_OF(w->exchanges.next, struct sw_exchange, link));
}

static void worker_end(struct sw_crew_thread *t)
{
    struct sw_gw_worker *w = worker_of(t);

    sw_gw_failures_done(w);
    sw_gw_udp_free(w);
    sw_gw_hosts_free(w->hosts);
    w->hosts = NULL;
    sw_gw_pools_close(w);
}

static const struct sw_crew_ops worker_ops = {
    .drain = worker_drain,
    .idle = worker_idle,
    .kill = worker_kill,
    .end = worker_end,
    .leave = sw_scratch_done,
};

/* ---- life ---- */

/*
 * The longest idle are at the front of the list, among connections that are not idle. Those are put
 * behind, so that each look begins where the last one ended.
 */
static bool evict_idle(struct sw_accept_group *g)
{
    struct sw_gw_worker *w = SW_CONTAINER_OF(g, struct sw_gw_worker, accept);
    size_t looks = sw_min(w->n_downs, EVICT_LOOKS);
    unsigned n = 0;

    while (looks-- > 0 && n < EVICT_MAX) {
        struct sw_gw_down *d = SW_CONTAINER_OF(w->downs.next, struct sw_gw_down, link);

        sw_gw_down_idle(w, d);
        if (d->evict && d->evict(d))
            n++;
    }
    sw_metric_add(sw_metric_get1(w->shard, SW_METRIC_GW_EVICTED, NULL), n);
    return n > 0;
}

static void on_accept_pause(struct sw_accept_group *g)
{
    struct sw_gw_worker *w = SW_CONTAINER_OF(g, struct sw_gw_worker, accept);

    sw_metric_add(sw_metric_get1(w->shard, SW_METRIC_ACCEPT_PAUSES, NULL), 1);
}

static const struct sw_gw_calls worker_calls = {
    .release_pool = sw_gw_pool_release,
    .route = sw_gw_route_request,
    .route_continue = sw_gw_route_continue,
    .response = sw_gw_route_response,
    .more_body = sw_gw_authz_body,
    .leave_filters = sw_gw_authz_gone,
    .encode = sw_gw_gzip_data,
    .encode_end = sw_gw_gzip_end,
    .connect = sw_gw_pool_get,
    .cancel = sw_gw_pool_cancel,
    .accept_fd = sw_gw_accept_fd,
    .bind_failed = sw_gw_bind_failed,
};

/* While they are still in the cache. */
static void on_delivered(void *of)
{
    struct sw_gw_worker *w = of;

    if (!sw_list_empty(&w->ended))
        sw_exchange_reap(w);
}

int sw_gw_worker_init(struct sw_gw_worker *w, struct sw_gateway *gw, struct sw_err *err)
{
    int rc;

    *w = (struct sw_gw_worker){
        .calls = &worker_calls,
        .gw = gw,
        .abuse = gw->abuse,
        .port_group = gw->port_group,
    };
    sw_list_init(&w->sockets);
    sw_list_init(&w->downs);
    sw_list_init(&w->pools);
    sw_list_init(&w->exchanges);
    sw_list_init(&w->ended);
    w->rx = sw_malloc(SW_GW_FIRST_MAX);
    w->shard = sw_metrics_shard_new(gw->process.metrics);
    rc = sw_crew_thread_init(&w->thread, &gw->process.crew, &worker_ops, err);
    if (rc != SW_OK)
        return rc;
    w->index = w->thread.index;
    w->loop = w->thread.loop;
    sw_conn_share_calls(w->loop, &(struct sw_conn_sharing){
                                     .ring = !gw->config || gw->config->io_uring,
                                     .on_delivered = on_delivered,
                                     .of = w,
                                 });
    sw_accept_init(&w->accept, w->loop, "gateway");
    sw_accept_keep_spare(&w->accept);
    w->accept.make_room = evict_idle;
    w->accept.on_pause = on_accept_pause;
    w->hosts = sw_gw_hosts_new(w);
    return SW_OK;
}

static void free_spares(struct sw_gw_worker *w)
{
    SW_VEC_EACH (struct sw_exchange, x, &w->spare) {
        sw_arena_clear(&x->arena);
        sw_free(x);
    }
    sw_vec_done(&w->spare);
    for (size_t i = 0; i < SW_ARRAY_LEN(w->parsers); i++) {
        SW_VEC_EACH (struct sw_h1, p, &w->parsers[i])
            sw_h1_free(p);
        sw_vec_done(&w->parsers[i]);
    }
}

void sw_gw_worker_done(struct sw_gw_worker *w)
{
    if (w->hosts)
        sw_gw_hosts_free(w->hosts);
    sw_crew_thread_done(&w->thread);
    (void)sw_gw_view_unref(w->view);
    free_spares(w);
    sw_free(w->rx);
    sw_gw_lstats_done(w);
    if (w->shard)
        sw_metrics_shard_free(w->shard);
}
