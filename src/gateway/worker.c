/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/worker.h"

#include <assert.h>
#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "gateway/abuse.h"
#include "gateway/cluster.h"
#include "gateway/config.h"
#include "gateway/conn_int.h"
#include "gateway/exchange.h"
#include "gateway/gateway_int.h"
#include "gateway/stats.h"
#include "gateway/udp.h"
#include "http/h1.h"
#include "io/sock.h"
#include "io/splice.h"
#include "telemetry/metrics.h"
#include "tunnel/scratch.h"

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
    gw_conn_flush_list(&w->soon);
    w->n_soon = 0;
}

static void on_flush(struct sw_defer *d)
{
    struct sw_gw_worker *w = SW_CONTAINER_OF(d, struct sw_gw_worker, flush);

    sw_gw_worker_flush_soon(w);
    gw_conn_flush_list(&w->dirty);
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

static void check_idle(struct sw_gw_worker *w)
{
    if (w->draining && !w->finished && w->n_downs == 0 && w->n_exchanges == 0) {
        w->finished = true;
        sw_gateway_worker_idle(w->gw);
    }
}

/* ---- messages ---- */

struct config_msg {
    struct sw_msg msg;
    struct sw_gw_worker *worker;
    struct sw_gw_config *config;
};

static void on_config(struct sw_msg *m)
{
    struct config_msg *c = SW_CONTAINER_OF(m, struct config_msg, msg);
    struct sw_gw_worker *w = c->worker;
    struct sw_gw_view *old = w->view;

    w->view = SW_NEW(struct sw_gw_view);
    w->view->config = c->config;
    w->view->refs = 1;
    sw_free(c);
    sw_gw_hosts_apply(w->hosts, w->view->config);
    if (!w->draining && !w->stopped)
        sw_gw_listen_apply(w);
    if (!w->stopped)
        sw_gw_udp_apply(w);
    SW_LIST_FOREACH (it, &w->downs) {
        struct sw_gw_down *d = SW_CONTAINER_OF(it, struct sw_gw_down, link);

        if (d->renew)
            d->renew(d);
    }
    (void)sw_gw_view_unref(old);
}

void sw_gw_worker_send_config(struct sw_gw_worker *w, struct sw_gw_config *config)
{
    struct config_msg *c = SW_NEW(struct config_msg);

    c->msg.cb = on_config;
    c->worker = w;
    c->config = config;
    sw_loop_post(w->loop, &c->msg);
}

struct order_msg {
    struct sw_msg msg;
    struct sw_gw_worker *worker;
};

static void send_order(struct sw_gw_worker *w, void (*cb)(struct sw_msg *m))
{
    struct order_msg *o = SW_NEW(struct order_msg);

    o->msg.cb = cb;
    o->worker = w;
    sw_loop_post(w->loop, &o->msg);
}

static void on_drain(struct sw_msg *m)
{
    struct order_msg *o = SW_CONTAINER_OF(m, struct order_msg, msg);
    struct sw_gw_worker *w = o->worker;

    sw_free(o);
    if (w->draining)
        return;
    w->draining = true;
    sw_gw_listen_close(w);
    SW_LIST_FOREACH (it, &w->downs) {
        struct sw_gw_down *d = SW_CONTAINER_OF(it, struct sw_gw_down, link);

        d->drain(d);
    }
}

void sw_gw_worker_send_drain(struct sw_gw_worker *w)
{
    send_order(w, on_drain);
}

static void on_kill(struct sw_msg *m)
{
    struct order_msg *o = SW_CONTAINER_OF(m, struct order_msg, msg);
    struct sw_gw_worker *w = o->worker;

    sw_free(o);
    w->stopped = true;
    w->draining = true;
    w->finished = true;
    sw_gw_listen_close(w);
    SW_LIST_FOREACH (it, &w->downs) {
        struct sw_gw_down *d = SW_CONTAINER_OF(it, struct sw_gw_down, link);

        d->kill(d);
    }
    while (!sw_list_empty(&w->exchanges))
        sw_exchange_kill(SW_CONTAINER_OF(w->exchanges.next, struct sw_exchange, link));
}

void sw_gw_worker_send_kill(struct sw_gw_worker *w)
{
    send_order(w, on_kill);
}

/* ---- life ---- */

static void *worker_main(void *arg)
{
    struct sw_gw_worker *w = arg;

    while (!w->stopped) {
        sw_loop_turn(w->loop, -1);
        check_idle(w);
    }
    sw_gw_udp_free(w);
    sw_gw_hosts_free(w->hosts);
    w->hosts = NULL;
    sw_gw_pools_close(w);
    for (int i = 0; i < 4; i++)
        sw_loop_turn(w->loop, 0); /* objects are freed from the loop */
    sw_pipe_pool_done();
    sw_scratch_done();
    return NULL;
}

int sw_gw_worker_init(struct sw_gw_worker *w, struct sw_gateway *gw, unsigned index,
                      struct sw_err *err)
{
    uint64_t fds = sw_sock_raise_fd_limit();

    *w = (struct sw_gw_worker){.gw = gw, .index = index};
    w->fd_ceiling = (int)sw_min(fds - fds / 10, INT32_MAX);
    sw_list_init(&w->sockets);
    sw_list_init(&w->downs);
    sw_list_init(&w->pools);
    sw_list_init(&w->exchanges);
    sw_list_init(&w->ended);
    sw_list_init(&w->dirty);
    sw_list_init(&w->soon);
    w->ahead = sw_gw_ahead_new(w);
    w->rx = sw_malloc(SW_GW_RX + 16);
    w->tx = sw_malloc(SW_GW_TX);
    w->shard = sw_metrics_shard_new(gw->metrics);
    w->loop = sw_loop_new(err);
    if (!w->loop)
        return err->rc;
    w->hosts = sw_gw_hosts_new(w);
    return SW_OK;
}

int sw_gw_worker_start(struct sw_gw_worker *w, struct sw_err *err)
{
    char name[16];
    int rc;

    (void)snprintf(name, sizeof(name), "sw-worker-%u", w->index % 1000);
    rc = sw_thread_start(&w->thread, worker_main, w, name);
    if (rc != 0)
        return sw_err_sys(err, rc, "cannot start a worker");
    w->started = true;
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
    if (w->started)
        (void)pthread_join(w->thread, NULL);
    else if (w->hosts)
        sw_gw_hosts_free(w->hosts);
    if (w->loop)
        sw_loop_free(w->loop);
    (void)sw_gw_view_unref(w->view);
    free_spares(w);
    sw_free(w->rx);
    sw_free(w->tx);
    sw_gw_ahead_free(w->ahead);
    sw_gw_lstats_done(w);
    sw_gw_abuse_free(w->abuse);
    if (w->shard)
        sw_metrics_shard_free(w->shard);
}
