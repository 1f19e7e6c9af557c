/* SPDX-License-Identifier: Apache-2.0 */
#include "io/accept.h"

#include <limits.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"

enum { ACCEPTS_PER_TURN = 64, RETRY_MS = 100, LOG_EVERY_S = 60 };

void sw_accept_init(struct sw_accept_group *g, struct sw_loop *loop, const char *scope)
{
    *g = (struct sw_accept_group){.loop = loop, .scope = scope, .fd_ceiling = INT_MAX};
    sw_list_init(&g->all);
}

void sw_accept_keep_spare(struct sw_accept_group *g)
{
    uint64_t fds = sw_sock_raise_fd_limit();

    g->fd_ceiling = (int)sw_min(fds - fds / 10, INT_MAX);
}

/* ---- pauses ---- */

static void mute(struct sw_accept_group *g)
{
    SW_LIST_EACH (struct sw_acceptor, a, &g->all, link)
        sw_watch_mute(&a->watch, g->paused || g->held);
}

static void on_retry(struct sw_timer *t)
{
    struct sw_accept_group *g = SW_CONTAINER_OF(t, struct sw_accept_group, retry);

    g->paused = false;
    mute(g);
}

static void log_shortage(struct sw_accept_group *g, const char *what, const char *why)
{
    if (sw_loop_now(g->loop) < g->quiet_until_ns)
        return;
    sw_log_warn(g->scope, "%s: %s", what, why);
    g->quiet_until_ns = sw_loop_now(g->loop) + LOG_EVERY_S * SW_NS_PER_S;
}

static void run_short(struct sw_accept_group *g, const char *why)
{
    if (g->paused)
        return;
    if (g->make_room && g->make_room(g)) {
        log_shortage(g, "closing idle connections, the longest idle first", why);
        return;
    }
    g->paused = true;
    mute(g);
    log_shortage(g, "accepting paused", why);
    if (g->on_pause)
        g->on_pause(g);
    sw_timer_start(g->loop, &g->retry, RETRY_MS * SW_NS_PER_MS, on_retry);
}

void sw_accept_hold(struct sw_accept_group *g, bool held)
{
    g->held = held;
    mute(g);
}

/* ---- connections ---- */

/* One connection. False: there is no other. */
static bool accept_one(struct sw_acceptor *a)
{
    struct sw_accept_group *g = a->group;
    struct sw_err err = {0};
    struct sw_addr peer;
    int fd;
    int rc = sw_sock_accept(a->fd, &fd, &peer, &err);

    if (rc == SW_EAGAIN)
        return false;
    if (rc != SW_OK) {
        run_short(g, err.msg);
        return false;
    }
    /* Descriptors are handed out lowest first, so a high one means that few are left. */
    if (fd >= g->fd_ceiling)
        run_short(g, "few file descriptors left");
    a->cb(a, fd, &peer);
    return a->fd >= 0;
}

static void on_listener(struct sw_watch *w, unsigned events)
{
    struct sw_acceptor *a = SW_CONTAINER_OF(w, struct sw_acceptor, watch);
    unsigned most = a->burst < ACCEPTS_PER_TURN ? a->burst + 1 : ACCEPTS_PER_TURN;
    unsigned n = 0;

    /* Level-triggered: take as many as came lately, and one call that finds nothing only when that
     * many were there. */
    while (n < most && !a->group->paused && accept_one(a))
        n++;
    a->burst = n < most ? n / 2 : n;
}

/* ---- opening and closing ---- */

int sw_accept_open(struct sw_accept_group *g, struct sw_acceptor *a, int fd, sw_accept_cb cb,
                   struct sw_err *err)
{
    int rc;

    *a = (struct sw_acceptor){.group = g, .cb = cb, .fd = fd, .mark = -1};
    rc = sw_watch_start_listener(g->loop, &a->watch, fd, on_listener, err);
    if (rc != SW_OK) {
        sw_sock_close(SW_TAKE_FD(a->fd));
        return rc;
    }
    sw_list_push_back(&g->all, &a->link);
    if (g->paused || g->held)
        sw_watch_mute(&a->watch, true);
    return SW_OK;
}

void sw_accept_close(struct sw_acceptor *a)
{
    if (!a->group || a->fd < 0)
        return;
    sw_watch_stop(&a->watch);
    sw_list_unlink(&a->link);
    sw_sock_close(SW_TAKE_FD(a->fd));
    sw_sock_close(SW_TAKE_FD(a->mark));
    if (a->heap)
        sw_free(a);
}

int sw_accept_listen(struct sw_accept_group *g, const struct sw_addr *at,
                     const struct sw_sock_opts *o, sw_accept_cb cb, struct sw_addr *ret_bound,
                     struct sw_err *err)
{
    struct sw_sock_opts opts = *o;
    SW_AUTO_FD mark = -1;
    struct sw_acceptor *a;
    int fd;
    int rc;

    opts.ret_mark = &mark;
    rc = sw_sock_listen(at, &opts, &fd, err);
    if (rc != SW_OK)
        return rc;
    a = SW_NEW(struct sw_acceptor);
    rc = sw_accept_open(g, a, fd, cb, err);
    if (rc != SW_OK) {
        sw_free(a);
        return rc;
    }
    a->mark = SW_TAKE_FD(mark);
    a->heap = true;
    if (ret_bound)
        *ret_bound = sw_sock_local(fd);
    return SW_OK;
}

void sw_accept_finish(struct sw_acceptor *a)
{
    if (!a->group || a->fd < 0)
        return;
    sw_watch_stop(&a->watch);
    sw_sock_stop_listening(a->fd); /* or one could come between the last look and the close */
    while (accept_one(a))
        ;
    sw_accept_close(a);
}

void sw_accept_done(struct sw_accept_group *g)
{
    if (!g->loop)
        return;
    SW_LIST_EACH (struct sw_acceptor, a, &g->all, link)
        sw_accept_close(a);
    sw_timer_stop(g->loop, &g->retry);
    g->paused = false;
}
