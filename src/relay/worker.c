/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: thread, loop, listening sockets, and what the main thread tells it. */
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "http/client.h"
#include "io/sock.h"
#include "quic/nodeid.h"
#include "relay/relay_int.h"
#include "tls/cred.h"

enum { ACCEPTS_PER_TURN = 64, ACCEPT_RETRY_MS = 100 };

void relay_refused(struct relay_worker *w, const char *reason, const char *detail)
{
    sw_log_info("relay", "refused (%s): %s", reason, detail);
    sw_metric_add(sw_metric_get1(w->shard, SW_METRIC_REFUSALS, reason), 1);
}

/* ---- accepting ---- */

static void mute(struct relay_worker *w, bool on)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(w->listeners); i++) {
        if (w->listeners[i].fd >= 0)
            sw_watch_mute(&w->listeners[i].watch, on);
    }
}

static void on_accept_retry(struct sw_timer *t)
{
    mute(SW_CONTAINER_OF(t, struct relay_worker, accept_retry), false);
}

static void pause_accepting(struct relay_worker *w)
{
    sw_metric_add(w->stats.accept_pauses, 1);
    mute(w, true);
    sw_timer_start(w->loop, &w->accept_retry, ACCEPT_RETRY_MS * SW_NS_PER_MS, on_accept_retry);
}

static void take(struct relay_worker *w, int fd, const struct sw_addr *peer, bool tls)
{
    struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    size_t have = atomic_load_explicit(&w->relay->n_clients, memory_order_relaxed);

    if (have >= w->relay->config->max_clients) {
        relay_refused(w, "max_clients", "as many clients as are allowed");
        sw_sock_close(fd);
        return;
    }
    sw_sock_tune(fd, &so);
    relay_client_start(w, fd, peer, tls);
}

static void on_listener(struct sw_watch *watch, unsigned events)
{
    struct relay_listener *l = SW_CONTAINER_OF(watch, struct relay_listener, watch);
    struct relay_worker *w = l->worker;

    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct sw_addr peer;
        struct sw_err err = {0};
        int fd;
        int rc = sw_sock_accept(l->fd, &fd, &peer, &err);

        if (rc == SW_EAGAIN)
            return;
        if (rc == SW_OK && fd < w->fd_ceiling) {
            take(w, fd, &peer, l->tls);
        } else if (rc == SW_OK || rc == SW_ELIMIT) {
            if (rc == SW_OK)
                sw_sock_close(fd);
            pause_accepting(w);
            return;
        }
    }
}

static int listen_on(struct relay_worker *w, struct relay_listener *l, const struct sw_addr *at,
                     struct sw_err *err)
{
    struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    int rc;

    so.reuse_port = true;
    rc = sw_sock_listen(at, &so, &l->fd, err);
    if (rc == SW_OK)
        rc = sw_watch_start_listener(w->loop, &l->watch, l->fd, on_listener, err);
    if (rc == SW_OK)
        sw_watch_mute(&l->watch, true); /* until it is known who may come: on_access */
    return rc;
}

static void stop_listening(struct relay_worker *w)
{
    sw_timer_stop(w->loop, &w->accept_retry);
    for (size_t i = 0; i < SW_ARRAY_LEN(w->listeners); i++) {
        struct relay_listener *l = &w->listeners[i];

        if (l->fd < 0)
            continue;
        sw_watch_stop(&l->watch);
        sw_sock_close(SW_TAKE_FD(l->fd));
    }
}

/* ---- messages ---- */

struct order {
    struct sw_msg msg;
    struct relay_worker *worker;
    void *arg;
};

static void send_order(struct relay_worker *w, void (*cb)(struct sw_msg *m), void *arg)
{
    struct order *o = SW_NEW(struct order);

    o->msg.cb = cb;
    o->worker = w;
    o->arg = arg;
    sw_loop_post(w->loop, &o->msg);
}

static struct relay_worker *take_order(struct sw_msg *m, void **ret_arg)
{
    struct order *o = SW_CONTAINER_OF(m, struct order, msg);
    struct relay_worker *w = o->worker;

    *ret_arg = o->arg;
    sw_free(o);
    return w;
}

static void on_cred(struct sw_msg *m)
{
    void *cred;
    struct relay_worker *w = take_order(m, &cred);

    (void)sw_tls_cred_unref(w->cred);
    w->cred = cred;
}

void relay_worker_send_cred(struct relay_worker *w, struct sw_tls_cred *cred)
{
    send_order(w, on_cred, cred);
}

/* Who may not be here any more goes at once. */
static void on_access(struct sw_msg *m)
{
    void *access;
    struct relay_worker *w = take_order(m, &access);

    (void)sw_relay_access_unref(w->access);
    w->access = access;
    SW_LIST_FOREACH (it, &w->clients) {
        struct relay_client *c = SW_CONTAINER_OF(it, struct relay_client, link);
        const char *why = c->id ? sw_relay_access_judge(w->access, &c->id->id) : NULL;

        if (why)
            relay_client_refuse(c, SW_WS_POLICY, "denied", why);
    }
    mute(w, sw_timer_running(&w->accept_retry));
}

void relay_worker_send_access(struct relay_worker *w, struct sw_relay_access *access)
{
    send_order(w, on_access, access);
}

static void on_drain(struct sw_msg *m)
{
    void *unused;
    struct relay_worker *w = take_order(m, &unused);

    if (w->draining)
        return;
    w->draining = true;
    stop_listening(w);
    SW_LIST_FOREACH (it, &w->clients)
        relay_client_drain(SW_CONTAINER_OF(it, struct relay_client, link));
}

void relay_worker_send_drain(struct relay_worker *w)
{
    send_order(w, on_drain, NULL);
}

static void on_kill(struct sw_msg *m)
{
    void *unused;
    struct relay_worker *w = take_order(m, &unused);

    w->draining = true;
    w->finished = true;
    w->stopped = true;
    stop_listening(w);
    SW_LIST_FOREACH (it, &w->clients)
        relay_client_kill(SW_CONTAINER_OF(it, struct relay_client, link));
}

void relay_worker_send_kill(struct relay_worker *w)
{
    send_order(w, on_kill, NULL);
}

/* ---- life ---- */

static void *worker_main(void *arg)
{
    struct relay_worker *w = arg;

    while (!w->stopped) {
        sw_loop_turn(w->loop, -1);
        if (w->draining && !w->finished && w->n_clients == 0) {
            w->finished = true;
            relay_worker_idle(w->relay);
        }
    }
    sw_http_client_free(w->asker);
    w->asker = NULL;
    for (int i = 0; i < 4; i++)
        sw_loop_turn(w->loop, 0); /* objects are freed from the loop */
    return NULL;
}

static void get_metrics(struct relay_worker *w)
{
    struct relay_stats *st = &w->stats;

#define GET(field, id) st->field = sw_metric_get1(w->shard, SW_METRIC_##id, NULL);
    RELAY_STATS(GET)
#undef GET
    st->dropped_unknown = sw_metric_get1(w->shard, SW_METRIC_RELAY_PACKETS_DROPPED, "unknown");
    st->dropped_queue = sw_metric_get1(w->shard, SW_METRIC_RELAY_PACKETS_DROPPED, "queue");
    st->accept_pauses = sw_metric_get1(w->shard, SW_METRIC_ACCEPT_PAUSES, NULL);
}

int relay_worker_init(struct relay_worker *w, struct sw_relay *r, unsigned index,
                      struct sw_err *err)
{
    const struct sw_relay_config *c = r->config;
    const struct sw_addr *at[2] = {&c->listen, &c->tls_listen};
    uint64_t fds = sw_sock_raise_fd_limit();
    int rc = SW_OK;

    *w = (struct relay_worker){.relay = r, .index = index};
    w->fd_ceiling = (int)sw_min(fds - sw_min(fds / 10, 256), INT32_MAX);
    sw_list_init(&w->clients);
    for (size_t i = 0; i < SW_ARRAY_LEN(w->listeners); i++)
        w->listeners[i] = (struct relay_listener){.worker = w, .fd = -1, .tls = i == 1};
    w->shard = sw_metrics_shard_new(r->metrics);
    get_metrics(w);
    w->loop = sw_loop_new(err);
    if (!w->loop)
        return err->rc;
    for (size_t i = 0; i < SW_ARRAY_LEN(at) && rc == SW_OK; i++) {
        if (at[i]->ip.family)
            rc = listen_on(w, &w->listeners[i], at[i], err);
    }
    if (rc == SW_OK && c->access_url)
        rc = relay_ask_open(w, err);
    return rc;
}

int relay_worker_start(struct relay_worker *w, struct sw_err *err)
{
    char name[16];
    int rc;

    w->out = SW_NEW_ARRAY(struct relay_block *, w->relay->n_workers);
    w->in_flight = sw_calloc(w->relay->n_workers, sizeof(*w->in_flight));
    (void)snprintf(name, sizeof(name), "sw-worker-%u", w->index % 1000);
    rc = sw_thread_start(&w->thread, worker_main, w, name);
    if (rc != 0)
        return sw_err_sys(err, rc, "cannot start a worker");
    w->started = true;
    return SW_OK;
}

void relay_worker_join(struct relay_worker *w)
{
    if (w->started)
        (void)pthread_join(w->thread, NULL);
    w->stopped = true;
}

void relay_worker_stop(struct relay_worker *w)
{
    if (!w->started && w->loop) {
        sw_http_client_free(w->asker);
        stop_listening(w);
    }
    if (w->loop)
        sw_loop_free(w->loop);
    w->loop = NULL;
}

void relay_worker_done(struct relay_worker *w)
{
    relay_forward_done(w);
    sw_map_done(&w->ids);
    (void)sw_tls_cred_unref(w->cred);
    (void)sw_relay_access_unref(w->access);
    sw_metrics_shard_free(w->shard);
}
