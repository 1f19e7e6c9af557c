/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods of a worker: they come and go while it runs. A removed pod's listeners, tunnels and
 * pooled connections end at once; its memory is freed when the last object that names it is.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "node/inbound.h"
#include "node/outbound.h"
#include "node/plain.h"
#include "node/socks5.h"
#include "node/worker.h"

enum {
    WORKLOAD_WAIT_S = 5,
    PARKED_MAX = 1024,
    BURY_S = 1,
};

/* ---- shared by all workers ---- */

struct sw_pod *sw_pod_new(const char *uid, const struct sw_node_workload *who, int netns_fd)
{
    struct sw_pod *p = SW_NEW(struct sw_pod);

    atomic_init(&p->refs, 1);
    p->uid = sw_strdup(uid);
    p->ns = sw_strdup(who->ns);
    p->name = sw_strdup(who->name);
    p->sa = sw_strdup(who->sa);
    p->netns_fd = netns_fd;
    return p;
}

struct sw_pod *sw_pod_ref(struct sw_pod *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

struct sw_pod *sw_pod_unref(struct sw_pod *p)
{
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
        return NULL;
    sw_sock_close(p->netns_fd);
    sw_free(p->uid);
    sw_free(p->ns);
    sw_free(p->name);
    sw_free(p->sa);
    sw_free(p);
    return NULL;
}

const struct sw_workload *sw_pod_workload(const struct sw_state *s, const struct sw_pod *p)
{
    return sw_state_local_workload(s, sw_slice_str(p->ns), sw_slice_str(p->name),
                                   sw_slice_str(p->sa));
}

/* ---- accepting ---- */

static void serve(struct sw_listener *l, int fd, const struct sw_addr *peer)
{
    switch (l->kind) {
    case SW_LISTEN_OUTBOUND:
        sw_outbound_accept(l->pod, fd, peer);
        break;
    case SW_LISTEN_PLAIN:
        sw_plain_accept(l->pod, fd, peer);
        break;
    case SW_LISTEN_HBONE:
        sw_inbound_accept(l->pod, fd, peer);
        break;
    case SW_LISTEN_SOCKS5:
        sw_socks5_accept(l->pod, fd, peer);
        break;
    }
}

static void unpark(struct sw_parked *k)
{
    sw_timer_stop(k->worker->loop, &k->deadline);
    sw_list_unlink(&k->link);
    k->worker->n_lives--;
    k->worker->n_parked--;
    sw_free(k);
}

static void turn_away(struct sw_listener *l, int fd, const struct sw_addr *peer, const char *why)
{
    bool out = l->kind == SW_LISTEN_OUTBOUND || l->kind == SW_LISTEN_SOCKS5;
    struct sw_addr dst = sw_sock_original_dst(fd);

    sw_ledger_refused(&l->pod->worker->book, out ? SW_OUTBOUND : SW_INBOUND, peer, &dst,
                      "unknown_workload", why);
    sw_sock_close(fd);
}

static void on_park_deadline(struct sw_timer *t)
{
    struct sw_parked *k = SW_CONTAINER_OF(t, struct sw_parked, deadline);

    turn_away(k->listener, k->fd, &k->peer,
              k->listener->pod->local ? "no certificate for the local workload in time"
                                      : "local workload did not become known in time");
    unpark(k);
}

/* The workload may be just about to become known: wait for it a while. */
static void park(struct sw_listener *l, int fd, const struct sw_addr *peer)
{
    struct sw_worker *w = l->pod->worker;
    struct sw_parked *k = SW_NEW(struct sw_parked);

    k->worker = w;
    k->listener = l;
    k->fd = fd;
    k->peer = *peer;
    sw_list_push_back(&w->parked, &k->link);
    w->n_lives++;
    w->n_parked++;
    sw_timer_start(w->loop, &k->deadline, WORKLOAD_WAIT_S * SW_NS_PER_S, on_park_deadline);
    if (l->pod->local)
        sw_worker_need_cred(l->pod);
}

/* One whose certificate cannot be had is served too: with the reason, at once. */
static bool pod_ready(const struct sw_listener *l)
{
    return l->pod->local && (l->kind != SW_LISTEN_HBONE || l->pod->cred || l->pod->cred_error);
}

void sw_worker_serve_parked(struct sw_worker *w)
{
    SW_LIST_EACH (struct sw_parked, k, &w->parked, link) {
        struct sw_parked copy = *k;

        if (!pod_ready(k->listener))
            continue;
        unpark(k);
        serve(copy.listener, copy.fd, &copy.peer);
    }
}

void sw_worker_accepted(struct sw_acceptor *a, int fd, const struct sw_addr *peer)
{
    struct sw_listener *l = SW_CONTAINER_OF(a, struct sw_listener, acceptor);

    if (pod_ready(l))
        serve(l, fd, peer);
    else if (l->pod->worker->n_parked < PARKED_MAX)
        park(l, fd, peer);
    else
        turn_away(l, fd, peer, "local workload is not known, and too many wait for it");
}

void sw_worker_close_parked(struct sw_worker *w, const struct sw_wpod *pod)
{
    SW_LIST_EACH (struct sw_parked, k, &w->parked, link) {
        if (pod && k->listener->pod != pod)
            continue;
        sw_sock_close(k->fd);
        unpark(k);
    }
}

/* ---- pods come and go ---- */

static struct sw_worker *worker_of(struct sw_crew_thread *t)
{
    return SW_CONTAINER_OF(t, struct sw_worker, thread);
}

static struct sw_wpod *find(struct sw_worker *w, const struct sw_pod *p)
{
    SW_LIST_EACH (struct sw_wpod, mine, &w->pods, link) {
        if (mine->pod == p)
            return mine;
    }
    return NULL;
}

static void wpod_free(struct sw_wpod *p)
{
    sw_list_unlink(&p->link);
    (void)sw_tls_cred_unref(p->cred);
    sw_free(p->cred_error);
    (void)sw_pod_unref(p->pod);
    sw_free(p);
}

struct pod_order {
    struct sw_pod *pod;
    struct sw_pod_sockets sockets;
    struct sw_tls_cred *cred;
    char *error; /* owned */
};

static void order(struct sw_worker *w, sw_crew_order_cb cb, const struct pod_order *from)
{
    struct pod_order *o = SW_NEW(struct pod_order);

    *o = *from;
    sw_crew_order(&w->thread, cb, o);
}

static void listen_for(struct sw_wpod *p, struct pod_order *o)
{
    struct sw_worker *w = p->worker;

    for (size_t i = 0; i < SW_LISTEN_KINDS; i++) {
        struct sw_listener *l = &p->listeners[i];
        struct sw_err err = {0};

        *l = (struct sw_listener){
            .acceptor = {.fd = -1, .mark = -1}, .pod = p, .kind = (enum sw_listen_kind)i};
        if (o->sockets.fd[i] < 0)
            continue;
        if (sw_accept_open(&w->accept, &l->acceptor, SW_TAKE_FD(o->sockets.fd[i]),
                           sw_worker_accepted, &err) == SW_OK)
            l->acceptor.mark = SW_TAKE_FD(o->sockets.mark[i]);
        else
            sw_log_error("node", "pod '%s': %s", p->pod->uid, err.msg);
    }
}

static void take_pod(struct sw_crew_thread *t, void *arg)
{
    struct sw_worker *w = worker_of(t);
    struct pod_order *o = arg;
    struct sw_wpod *p;

    if (!t->draining && !t->stopped) {
        p = SW_NEW(struct sw_wpod);
        p->worker = w;
        p->pod = sw_pod_ref(o->pod);
        p->local = sw_pod_workload(w->state, p->pod);
        sw_list_push_back(&w->pods, &p->link);
        listen_for(p, o);
    }
    for (size_t i = 0; i < SW_LISTEN_KINDS; i++) {
        sw_sock_close(o->sockets.fd[i]);
        sw_sock_close(o->sockets.mark[i]);
    }
    (void)sw_pod_unref(o->pod);
    sw_free(o);
}

void sw_worker_send_pod(struct sw_worker *w, struct sw_pod *p, const struct sw_pod_sockets *sockets)
{
    order(w, take_pod, &(struct pod_order){.pod = p, .sockets = *sockets});
}

static void on_bury(struct sw_timer *t)
{
    struct sw_worker *w = SW_CONTAINER_OF(t, struct sw_worker, bury);

    SW_LIST_EACH (struct sw_wpod, p, &w->graves, link) {
        if (p->users == 0)
            wpod_free(p);
    }
    if (!sw_list_empty(&w->graves))
        sw_timer_start(w->loop, t, BURY_S * SW_NS_PER_S, on_bury);
}

/* Any connection of the pod, or to it from another pod of this node. */
static void end_connections(struct sw_worker *w, const struct sw_wpod *p, const char *why)
{
    SW_LIST_EACH (struct sw_live, l, &w->lives, link) {
        if (l->pod == p)
            l->ops->end(l, why);
    }
    SW_LIST_EACH (struct sw_guard, g, &w->guards, link) {
        if (g->pod == p)
            g->deny(g, why);
    }
}

static void take_pod_gone(struct sw_crew_thread *t, void *arg)
{
    static const char why[] = "connection closed because the workload is gone";
    struct sw_worker *w = worker_of(t);
    struct pod_order *o = arg;
    struct sw_wpod *p = t->stopped ? NULL : find(w, o->pod);

    if (p) {
        for (size_t i = 0; i < SW_LISTEN_KINDS; i++)
            sw_accept_close(&p->listeners[i].acceptor);
        sw_list_unlink(&p->link);
        sw_list_push_back(&w->graves, &p->link);
        sw_worker_close_parked(w, p);
        end_connections(w, p, why);
        sw_inbound_close_all(w, p, why);
        sw_pool_close_owner(w->pool, p);
        /* Later: sessions and connections report their end from the loop, and name the pod then. */
        sw_timer_start(w->loop, &w->bury, BURY_S * SW_NS_PER_S, on_bury);
    }
    (void)sw_pod_unref(o->pod);
    sw_free(o);
}

void sw_worker_send_pod_gone(struct sw_worker *w, struct sw_pod *p)
{
    order(w, take_pod_gone, &(struct pod_order){.pod = p});
}

static void take_cred(struct sw_crew_thread *t, void *arg)
{
    struct sw_worker *w = worker_of(t);
    struct pod_order *o = arg;
    struct sw_wpod *p = t->stopped ? NULL : find(w, o->pod);

    if (p)
        sw_worker_take_cred(p, SW_TAKE(o->cred), SW_TAKE(o->error));
    (void)sw_tls_cred_unref(o->cred);
    sw_free(o->error);
    (void)sw_pod_unref(o->pod);
    sw_free(o);
}

void sw_worker_send_cred(struct sw_worker *w, struct sw_pod *p, struct sw_tls_cred *cred,
                         const char *error)
{
    order(w, take_cred,
          &(struct pod_order){
              .pod = p, .cred = cred, .error = error && !cred ? sw_strdup(error) : NULL});
}

void sw_worker_free_pods(struct sw_worker *w)
{
    struct sw_list *m;

    while ((m = sw_list_pop_front(&w->pods)) || (m = sw_list_pop_front(&w->graves)))
        wpod_free(SW_CONTAINER_OF(m, struct sw_wpod, link));
}
