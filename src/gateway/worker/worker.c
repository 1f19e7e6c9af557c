/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/worker/worker.h"

#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "base/time.h"
#include "gateway/config/config.h"
#include "gateway/conn/conn_int.h"
#include "gateway/exchange/exchange.h"
#include "gateway/l4/udp.h"
#include "gateway/observe/stats.h"
#include "gateway/upstream/cluster.h"
#include "gateway/worker/gateway.h"
#include "gateway/worker/gateway_int.h"
#include "http/h1.h"
#include "io/batch.h"
#include "telemetry/metrics.h"
#include "tunnel/scratch.h"

enum {
    EVICT_MAX = 32,    /* idle connections closed at once when descriptors run out */
    EVICT_LOOKS = 512, /* connections looked at for that */
};

struct sw_gw_view *sw_gw_view_unref(struct sw_gw_view *v)
{
    if (v && --v->refs == 0) {
        (void)sw_gw_config_unref(v->config);
        sw_free(v);
    }
    return NULL;
}

/* ---- the end of a turn ---- */

void sw_gw_worker_flush_soon(struct sw_gw_worker *w)
{
    gw_conn_flush_list(w, &w->soon);
    w->n_soon = 0;
}

static void on_flush(struct sw_defer *d)
{
    struct sw_gw_worker *w = SW_CONTAINER_OF(d, struct sw_gw_worker, flush);

    sw_gw_worker_flush_soon(w);
    gw_conn_flush_list(w, &w->dirty);
}

void sw_gw_worker_dirty(struct sw_gw_worker *w, struct sw_gw_conn *c)
{
    sw_list_push_back(&w->dirty, &c->dirty);
    sw_loop_defer(w->loop, &w->flush, on_flush);
}

void sw_gw_worker_soon(struct sw_gw_worker *w, struct sw_gw_conn *c)
{
    if (!sw_list_linked(&c->dirty))
        return;
    sw_list_unlink(&c->dirty);
    sw_list_push_back(&w->soon, &c->dirty);
    w->n_soon++;
}

struct sw_slice sw_gw_worker_date(struct sw_gw_worker *w)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    uint64_t now = sw_loop_now(w->loop);
    uint64_t wall;
    time_t s;
    struct tm tm;

    if (now < w->date_until_ns)
        return sw_slice(w->date, w->date_n);
    wall = sw_wall_ns();
    s = (time_t)(wall / SW_NS_PER_S);
    w->date_until_ns = now + SW_NS_PER_S - wall % SW_NS_PER_S;
    if (!gmtime_r(&s, &tm))
        return SW_SLICE_LIT("Thu, 01 Jan 1970 00:00:00 GMT");
    w->date_n = (size_t)snprintf(
        w->date, sizeof(w->date), "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT",
        days + (size_t)tm.tm_wday * 3, (unsigned)tm.tm_mday % 100, months + (size_t)tm.tm_mon * 3,
        ((unsigned)tm.tm_year + 1900) % 10000, (unsigned)tm.tm_hour % 100,
        (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
    return sw_slice(w->date, w->date_n);
}

/* ---- clients ---- */

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
    SW_LIST_FOREACH (it, &w->downs) {
        struct sw_gw_down *d = SW_CONTAINER_OF(it, struct sw_gw_down, link);

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
    SW_LIST_FOREACH (it, &w->downs) {
        struct sw_gw_down *d = SW_CONTAINER_OF(it, struct sw_gw_down, link);

        d->drain(d);
    }
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
    SW_LIST_FOREACH (it, &w->downs) {
        struct sw_gw_down *d = SW_CONTAINER_OF(it, struct sw_gw_down, link);

        d->kill(d);
    }
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

int sw_gw_worker_init(struct sw_gw_worker *w, struct sw_gateway *gw, struct sw_err *err)
{
    int rc;

    *w = (struct sw_gw_worker){.gw = gw};
    sw_list_init(&w->sockets);
    sw_list_init(&w->downs);
    sw_list_init(&w->pools);
    sw_list_init(&w->exchanges);
    sw_list_init(&w->ended);
    sw_list_init(&w->dirty);
    sw_list_init(&w->soon);
    w->ahead = sw_gw_ahead_new(w);
    w->batch = sw_batch_new(SW_GW_BATCH, !gw->config || gw->config->io_uring);
    w->rx = sw_malloc(SW_GW_RX + 16);
    w->tx = sw_malloc(SW_GW_TX);
    w->shard = sw_metrics_shard_new(gw->metrics);
    rc = sw_crew_thread_init(&w->thread, &gw->crew, &worker_ops, err);
    if (rc != SW_OK)
        return rc;
    w->index = w->thread.index;
    w->loop = w->thread.loop;
    sw_accept_init(&w->accept, w->loop, "gateway");
    sw_accept_keep_spare(&w->accept);
    w->accept.make_room = evict_idle;
    w->accept.on_pause = on_accept_pause;
    w->hosts = sw_gw_hosts_new(w);
    return SW_OK;
}

static void free_spares(struct sw_gw_worker *w)
{
    SW_VEC_FOREACH (uint8_t *, it, &w->chunks)
        sw_free(*it);
    sw_vec_done(&w->chunks);
    SW_VEC_FOREACH (struct sw_exchange *, it, &w->spare) {
        sw_arena_clear(&(*it)->arena);
        sw_free(*it);
    }
    sw_vec_done(&w->spare);
    for (size_t i = 0; i < SW_ARRAY_LEN(w->parsers); i++) {
        SW_VEC_FOREACH (struct sw_h1 *, it, &w->parsers[i])
            sw_h1_free(*it);
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
    sw_free(w->tx);
    sw_gw_ahead_free(w->ahead);
    sw_batch_free(w->batch);
    sw_gw_lstats_done(w);
    if (w->shard)
        sw_metrics_shard_free(w->shard);
}
