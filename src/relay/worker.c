/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: thread, loop, listening sockets, and orders of the main thread. */
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/client.h"
#include "io/sock.h"
#include "relay/relay_int.h"
#include "tls/cert/cred.h"

enum { EVICT_AT_ONCE = 16 }; /* when descriptors run out */

void relay_refused(struct relay_worker *w, bool proved, const char *reason, const char *detail)
{
    sw_log_limited(proved ? &w->refused_proved : &w->refused, sw_loop_now(w->loop), SW_LOG_INFO,
                   "relay", "refused (%s): %s", reason, detail);
    sw_metric_add(sw_metric_get1(w->shard, SW_METRIC_REFUSALS, reason), 1);
}

/* ---- accepting ---- */

void relay_not_evictable(struct relay_client *c)
{
    if (!sw_list_linked(&c->evictable))
        return;
    sw_list_unlink(&c->evictable);
    (void)atomic_fetch_sub_explicit(&c->worker->n_evictable, 1, memory_order_relaxed);
}

void relay_evictable(struct relay_client *c, bool first)
{
    struct relay_worker *w = c->worker;

    relay_not_evictable(c);
    if (first)
        sw_list_push_front(&w->evictable, &c->evictable);
    else
        sw_list_push_back(&w->evictable, &c->evictable);
    (void)atomic_fetch_add_explicit(&w->n_evictable, 1, memory_order_relaxed);
}

/*
 * Connections that prove no key, or one without a right to be here, make room for others: strangers
 * would shut all devices out until --establish-timeout, or while what they were refused with
 * lingers, again and again.
 */
static bool evict(struct relay_worker *w, uint64_t most)
{
    uint64_t now = sw_loop_now(w->loop);
    uint64_t n = 0;

    for (; n < most && !sw_list_empty(&w->evictable); n++)
        relay_client_kill(SW_CONTAINER_OF(w->evictable.next, struct relay_client, evictable));
    sw_metric_add(sw_metric_get1(w->shard, SW_METRIC_REFUSALS, "evicted"), n);
    if (n && sw_rate_used(&w->evictions, SW_NS_PER_S, now) == 0) {
        (void)sw_rate_add(&w->evictions, 1, 1, SW_NS_PER_S, now);
        sw_log_info("relay", "refused (evicted): too many connections: closing those that are not "
                             "admitted yet, the oldest first");
    }
    return n > 0;
}

static void on_claimed(struct sw_crew_thread *t, void *arg)
{
    struct relay_worker *w = SW_CONTAINER_OF(t, struct relay_worker, thread);

    (void)atomic_fetch_add_explicit(&w->n_evictable, 1, memory_order_relaxed);
    if (!t->stopped)
        (void)evict(w, 1);
}

/* Has another worker evict one, which no third worker may count on from now. */
static bool claim(struct relay_worker *other)
{
    ptrdiff_t n = atomic_load_explicit(&other->n_evictable, memory_order_relaxed);

    while (n > 0) {
        if (atomic_compare_exchange_weak_explicit(&other->n_evictable, &n, n - 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            sw_crew_order(&other->thread, on_claimed, NULL);
            return true;
        }
    }
    return false;
}

/* The one with the most that can go: strangers of one worker must not shut out another's devices.
 */
static struct relay_worker *most_evictable(struct relay_worker *w)
{
    struct relay_worker *best = w;
    ptrdiff_t most = atomic_load_explicit(&w->n_evictable, memory_order_relaxed);

    for (size_t i = 0; i < w->relay->n_workers; i++) {
        struct relay_worker *other = &w->relay->workers[i];
        ptrdiff_t n = atomic_load_explicit(&other->n_evictable, memory_order_relaxed);

        if (n > most) {
            best = other;
            most = n;
        }
    }
    return best;
}

/* For a client beyond --max-clients. */
static bool make_room(struct relay_worker *w)
{
    struct relay_worker *from = most_evictable(w);

    return (from != w && claim(from)) || evict(w, 1);
}

/* Descriptors of another worker's clients are there a moment later. */
static bool on_shortage(struct sw_accept_group *g)
{
    struct relay_worker *w = SW_CONTAINER_OF(g, struct relay_worker, accept);
    struct relay_worker *from = most_evictable(w);

    if (from == w)
        return evict(w, EVICT_AT_ONCE);
    for (int i = 0; i < EVICT_AT_ONCE && claim(from); i++)
        ;
    return false;
}

static void on_accept_pause(struct sw_accept_group *g)
{
    sw_metric_add(SW_CONTAINER_OF(g, struct relay_worker, accept)->stats.accept_pauses, 1);
}

void relay_give_place(struct sw_relay *r)
{
    (void)atomic_fetch_sub_explicit(&r->n_clients, 1, memory_order_relaxed);
}

/* Counted before it is judged: two workers that accept at once must not both take the last one. */
static bool take_place(struct relay_worker *w)
{
    size_t before = atomic_fetch_add_explicit(&w->relay->n_clients, 1, memory_order_relaxed);

    if (before < w->relay->config->max_clients || make_room(w))
        return true;
    relay_give_place(w->relay);
    return false;
}

static void on_accept(struct sw_acceptor *a, int fd, const struct sw_addr *peer)
{
    struct relay_listener *l = SW_CONTAINER_OF(a, struct relay_listener, acceptor);
    struct relay_worker *w = SW_CONTAINER_OF(a->group, struct relay_worker, accept);
    struct sw_sock_opts so = SW_SOCK_OPTS_INIT;

    if (!take_place(w)) {
        relay_refused(w, false, "max_clients", "as many clients as are allowed");
        sw_sock_close(fd);
        return;
    }
    sw_sock_tune(fd, &so);
    if (!relay_client_start(w, fd, peer, l->tls))
        relay_give_place(w->relay);
}

static int listen_on(struct relay_worker *w, struct relay_listener *l, const struct sw_addr *at,
                     struct sw_err *err)
{
    struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    SW_AUTO_FD mark = -1;
    int fd;
    int rc;

    so.share = RELAY_PORT_GROUP;
    so.ret_mark = &mark;
    rc = sw_sock_listen(at, &so, &fd, err);
    if (rc == SW_OK)
        rc = sw_accept_open(&w->accept, &l->acceptor, fd, on_accept, err);
    if (rc == SW_OK)
        l->acceptor.mark = SW_TAKE_FD(mark);
    return rc;
}

/* ---- orders ---- */

static struct relay_worker *worker_of(struct sw_crew_thread *t)
{
    return SW_CONTAINER_OF(t, struct relay_worker, thread);
}

static void take_cred(struct sw_crew_thread *t, void *cred)
{
    struct relay_worker *w = worker_of(t);

    (void)sw_tls_cred_unref(w->cred);
    w->cred = cred;
}

void relay_worker_send_cred(struct relay_worker *w, struct sw_tls_cred *cred)
{
    sw_crew_order(&w->thread, take_cred, cred);
}

/* Disconnects clients that are not allowed any more at once. */
static void judge_all(struct relay_worker *w)
{
    SW_LIST_EACH (struct relay_client, c, &w->clients, link)
        relay_client_judge_again(c);
}

static void take_access(struct sw_crew_thread *t, void *access)
{
    struct relay_worker *w = worker_of(t);

    (void)sw_relay_access_unref(w->access);
    w->access = access;
    judge_all(w);
    sw_accept_hold(&w->accept, false);
}

void relay_worker_send_access(struct relay_worker *w, struct sw_relay_access *access)
{
    sw_crew_order(&w->thread, take_access, access);
}

static void take_roster(struct sw_crew_thread *t, void *roster)
{
    struct relay_worker *w = worker_of(t);

    (void)relay_roster_unref(w->roster);
    w->roster = roster;
    judge_all(w);
}

void relay_worker_send_roster(struct relay_worker *w, struct relay_roster *roster)
{
    sw_crew_order(&w->thread, take_roster, roster);
}

static void end_all(struct relay_worker *w, void (*end)(struct relay_client *c))
{
    sw_accept_done(&w->accept);
    SW_LIST_EACH (struct relay_client, c, &w->clients, link)
        end(c);
}

static void worker_drain(struct sw_crew_thread *t)
{
    end_all(worker_of(t), relay_client_drain);
}

static bool worker_idle(struct sw_crew_thread *t)
{
    return worker_of(t)->n_clients == 0;
}

static void worker_kill(struct sw_crew_thread *t)
{
    end_all(worker_of(t), relay_client_kill);
}

static void worker_end(struct sw_crew_thread *t)
{
    struct relay_worker *w = worker_of(t);

    sw_http_client_free(w->asker);
    w->asker = NULL;
}

static const struct sw_crew_ops worker_ops = {
    .drain = worker_drain,
    .idle = worker_idle,
    .kill = worker_kill,
    .end = worker_end,
};

/* ---- life ---- */

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

/* A client needs one descriptor: less than sw_accept_keep_spare keeps is enough. */
static int fd_ceiling(void)
{
    uint64_t fds = sw_sock_raise_fd_limit();

    return (int)sw_min(fds - sw_min(fds / 10, 256), INT32_MAX);
}

int relay_worker_init(struct relay_worker *w, struct sw_relay *r, struct sw_err *err)
{
    const struct sw_relay_config *c = r->config;
    const struct sw_addr *at[2] = {&c->listen, &c->tls_listen};
    int rc;

    *w = (struct relay_worker){.relay = r};
    sw_list_init(&w->clients);
    sw_list_init(&w->evictable);
    for (size_t i = 0; i < SW_ARRAY_LEN(w->listeners); i++)
        w->listeners[i] = (struct relay_listener){.acceptor.fd = -1, .tls = i == 1};
    w->shard = sw_metrics_shard_new(r->process.metrics);
    get_metrics(w);
    rc = sw_crew_thread_init(&w->thread, &r->process.crew, &worker_ops, err);
    if (rc != SW_OK)
        return rc;
    w->index = w->thread.index;
    w->loop = w->thread.loop;
    sw_accept_init(&w->accept, w->loop, "relay");
    w->accept.make_room = on_shortage;
    w->accept.on_pause = on_accept_pause;
    w->accept.fd_ceiling = fd_ceiling();
    sw_accept_hold(&w->accept, true); /* until the access lists are read: take_access */
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
    w->out = SW_NEW_ARRAY(struct relay_block *, w->relay->n_workers);
    w->in_flight = sw_calloc(w->relay->n_workers, sizeof(*w->in_flight));
    return sw_crew_thread_start(&w->thread, err);
}

void relay_worker_stop(struct relay_worker *w)
{
    sw_http_client_free(w->asker);
    sw_accept_done(&w->accept);
    sw_crew_thread_done(&w->thread);
    w->loop = NULL;
}

void relay_worker_done(struct relay_worker *w)
{
    relay_forward_done(w);
    sw_map_done(&w->ids);
    (void)sw_tls_cred_unref(w->cred);
    (void)sw_relay_access_unref(w->access);
    (void)relay_roster_unref(w->roster);
    sw_metrics_shard_free(w->shard);
}
