/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The UDP proxy: sockets of listeners, as the configuration wants them, and their end. The kernel
 * spreads clients over the workers; what becomes of them is in udp_session.c.
 */
#include "gateway/l4/udp.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "gateway/config/config.h"
#include "gateway/conn/worker.h"
#include "gateway/l4/udp_int.h"
#include "gateway/observe/stats.h"
#include "io/dgram.h"
#include "io/sock.h"

enum { BATCH = 64 };

/*
 * While draining, clients that are here have so long. Until the socket is closed the kernel brings
 * it its share of what a successor on the same port could have had, so all of that is served, too.
 */
#define DRAIN_NS (1 * UINT64_C(1000000000))
/* However short idle_timeout is, looking for sessions that end takes turns with serving them. */
#define SWEEP_LEAST_NS (10 * SW_NS_PER_MS)

static void on_datagrams(struct udp_listener *l);

static void on_more(struct sw_defer *d)
{
    on_datagrams(SW_CONTAINER_OF(d, struct udp_listener, more));
}

static void on_datagrams(struct udp_listener *l)
{
    struct udp *u = l->worker->udp;

    for (unsigned i = 0; i < BATCH; i++) {
        struct sw_addr from = {0};
        ssize_t n = sw_dgram_recv(l->fd, u->buf, SW_DGRAM_MAX, &from);

        if (n == SW_EAGAIN)
            return;
        if (n >= 0)
            udp_forward(l, &from, u->buf, (size_t)n);
    }
    sw_loop_defer(l->worker->loop, &l->more, on_more); /* others have a turn in between */
}

static void on_readable(struct sw_watch *w, unsigned events)
{
    on_datagrams(SW_CONTAINER_OF(w, struct udp_listener, watch));
}

/* A new process on the same port gets all datagrams from now on. */
static void listener_shut(struct udp_listener *l)
{
    udp_end_sessions(l);
    sw_watch_stop(&l->watch);
    sw_defer_cancel(&l->more);
    sw_sock_close(SW_TAKE_FD(l->fd));
    sw_sock_close(SW_TAKE_FD(l->mark));
}

static void on_sweep(struct sw_timer *t)
{
    struct udp_listener *l = SW_CONTAINER_OF(t, struct udp_listener, sweep);
    uint64_t idle = l->config->udp.idle_timeout_ns;
    uint64_t now = sw_loop_now(l->worker->loop);
    uint64_t every = SW_NS_PER_S;

    if (l->drain_until_ns) {
        idle = idle ? sw_min(idle, DRAIN_NS) : DRAIN_NS;
        every = DRAIN_NS / 10;
    }

    if (idle)
        udp_end_idle(l, idle);
    if (l->drain_until_ns && (sw_list_empty(&l->sessions) || now >= l->drain_until_ns)) {
        listener_shut(l);
        return;
    }
    if (idle)
        every = sw_max(sw_min(idle, every), SWEEP_LEAST_NS);
    sw_timer_start(l->worker->loop, &l->sweep, every, on_sweep);
}

/* ---- listeners ---- */

static void listener_free(struct udp_listener *l)
{
    listener_shut(l);
    sw_map_done(&l->sessions_by_client);
    sw_timer_stop(l->worker->loop, &l->sweep);
    sw_list_unlink(&l->link);
    ((struct udp *)l->worker->udp)->n_listeners--;
    (void)sw_gw_listener_unref(l->config);
    sw_free(l);
}

static void listener_open(struct sw_gw_worker *w, struct sw_gw_listener *config,
                          const struct sw_addr *at)
{
    struct udp *u = w->udp;
    struct sw_err err = {0};
    struct udp_listener *l;
    char text[SW_ADDR_TEXT];
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    int mark;
    int fd;

    o.share = w->port_group;
    o.ret_mark = &mark;
    o.unnamed = true;
    if (sw_dgram_bind(at, &o, &fd, &err) != SW_OK) {
        w->calls->bind_failed(w, config, at, at, err.sys_errno);
        return;
    }
    l = SW_NEW(struct udp_listener);
    l->worker = w;
    l->config = sw_gw_listener_ref(config);
    l->stats = sw_gw_lstats(w, config->name);
    l->at = *at;
    l->fd = fd;
    l->mark = mark;
    sw_list_init(&l->sessions);
    sw_list_init(&l->link);
    sw_list_push_back(&u->listeners, &l->link);
    u->n_listeners++;
    if (sw_watch_start(w->loop, &l->watch, fd, on_readable, &err) != SW_OK) {
        w->calls->bind_failed(w, config, at, at, err.sys_errno);
        listener_free(l);
        return;
    }
    sw_timer_start(w->loop, &l->sweep, SW_NS_PER_S, on_sweep);
    if (w->index == 0)
        sw_log_info("udp", "listener '%.*s' on %s", SW_SLICE_ARG(config->name),
                    sw_addr_text(at, text));
}

static struct udp_listener *find(struct udp *u, const struct sw_gw_listener *config,
                                 const struct sw_addr *at)
{
    SW_LIST_EACH (struct udp_listener, l, &u->listeners, link) {
        if (sw_addr_eq(&l->at, at) && sw_slice_eq(l->config->name, config->name))
            return l;
    }
    return NULL;
}

static struct udp *udp_of(struct sw_gw_worker *w)
{
    struct udp *u = w->udp;

    if (!u) {
        u = SW_NEW(struct udp);
        sw_list_init(&u->listeners);
        u->room = sw_malloc(SW_GW_UDP_FRONT + SW_DGRAM_MAX + SW_GW_UDP_BACK);
        u->buf = u->room + SW_GW_UDP_FRONT;
        /* Half of all descriptors stay for connections. */
        u->max_sockets = sw_max(sw_sock_raise_fd_limit() / 2 / sw_max(w->n_workers, 1), 1);
        w->udp = u;
    }
    return u;
}

static void want(struct sw_gw_worker *w, struct sw_gw_listener *config)
{
    for (size_t i = 0; i < config->n_addrs; i++) {
        struct udp_listener *l = find(w->udp, config, &config->addrs[i].ip);

        if (!l) {
            listener_open(w, config, &config->addrs[i].ip);
            continue;
        }
        l->gone = false;
        if (l->config != config) {
            if (l->config->udp.tunnel || config->udp.tunnel)
                udp_end_sessions(l); /* where a tunnel leads is part of the configuration */
            (void)sw_gw_listener_unref(l->config);
            l->config = sw_gw_listener_ref(config);
        }
    }
}

void sw_gw_udp_apply(struct sw_gw_worker *w)
{
    const struct sw_gw_config *c = w->view->config;
    struct udp *u = w->udp;
    bool any = u != NULL;

    for (size_t i = 0; i < c->n_list && !any; i++)
        any = c->list[i]->kind == SW_GW_LISTEN_UDP;
    if (!any)
        return;
    u = udp_of(w);
    SW_LIST_EACH (struct udp_listener, l, &u->listeners, link)
        l->gone = true;
    for (size_t i = 0; i < c->n_list; i++) {
        if (c->list[i]->kind == SW_GW_LISTEN_UDP && c->list[i]->bind)
            want(w, c->list[i]);
    }
    SW_LIST_EACH (struct udp_listener, l, &u->listeners, link) {
        if (l->gone)
            listener_free(l);
    }
}

void sw_gw_udp_drain(struct sw_gw_worker *w)
{
    struct udp *u = w->udp;

    if (!u)
        return;
    SW_LIST_EACH (struct udp_listener, l, &u->listeners, link) {
        if (l->drain_until_ns)
            continue;
        l->drain_until_ns = sw_loop_now(w->loop) + DRAIN_NS;
        sw_timer_start(w->loop, &l->sweep, DRAIN_NS / 10, on_sweep);
    }
}

bool sw_gw_udp_idle(const struct sw_gw_worker *w)
{
    const struct udp *u = w->udp;

    if (!u)
        return true;
    SW_LIST_EACH (const struct udp_listener, l, &u->listeners, link) {
        if (!sw_list_empty(&l->sessions))
            return false;
    }
    return true;
}

void sw_gw_udp_free(struct sw_gw_worker *w)
{
    struct udp *u = w->udp;

    if (!u)
        return;
    SW_LIST_EACH (struct udp_listener, l, &u->listeners, link)
        listener_free(l);
    sw_free(u->room);
    sw_free(u);
    w->udp = NULL;
}
