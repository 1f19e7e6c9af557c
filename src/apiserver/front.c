/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners, and starting and stopping the whole. Connections are in front_conn.c. */
#include "apiserver/front.h"

#include "apiserver/front_int.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "tls/cred.h"

enum { ACCEPTS_PER_WAKE = 32 };
static const uint64_t accept_retry_ns = 100 * SW_NS_PER_MS;

struct listener {
    struct sw_list link;
    struct sw_front *front;
    struct sw_watch watch;
    struct sw_timer retry;
    struct sw_defer again;
    int fd;
};

/* --- listeners -------------------------------------------------------------------------- */

static void accept_some(struct listener *l);

static void on_accept_again(struct sw_defer *d)
{
    accept_some(SW_CONTAINER_OF(d, struct listener, again));
}

static void on_accept_retry(struct sw_timer *t)
{
    accept_some(SW_CONTAINER_OF(t, struct listener, retry));
}

static void accept_some(struct listener *l)
{
    struct sw_front *f = l->front;
    struct sw_err err = {0};
    int rc = SW_OK;

    for (int i = 0; i < ACCEPTS_PER_WAKE && rc == SW_OK; i++) {
        struct sw_addr peer = {0};
        int fd;

        rc = sw_sock_accept(l->fd, &fd, &peer, &err);
        if (rc == SW_OK)
            front_conn_open(f, fd, &peer);
    }
    if (rc == SW_OK) {
        sw_loop_defer(f->loop, &l->again, on_accept_again);
    } else if (rc != SW_EAGAIN) {
        sw_log_warn("api", "%s", err.msg);
        sw_timer_start(f->loop, &l->retry, accept_retry_ns, on_accept_retry);
    }
}

static void on_listener(struct sw_watch *w, unsigned events)
{
    (void)events;
    accept_some(SW_CONTAINER_OF(w, struct listener, watch));
}

static void listener_free(struct listener *l)
{
    sw_list_unlink(&l->link);
    sw_watch_stop(&l->watch);
    sw_timer_stop(l->front->loop, &l->retry);
    sw_defer_cancel(&l->again);
    sw_sock_close(l->fd);
    sw_free(l);
}

int sw_front_listen(struct sw_front *f, const struct sw_addr *at, struct sw_addr *ret_bound,
                    struct sw_err *err)
{
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    struct listener *l;
    int fd = -1;
    int rc = sw_sock_listen(at, &o, &fd, err);

    if (rc != SW_OK)
        return rc;
    l = SW_NEW(struct listener);
    l->front = f;
    l->fd = fd;
    sw_list_push_back(&f->listeners, &l->link);
    rc = sw_watch_start(f->loop, &l->watch, fd, on_listener, err);
    if (rc != SW_OK)
        listener_free(l);
    else if (ret_bound)
        *ret_bound = sw_sock_local(fd);
    return rc;
}

/* --- the whole -------------------------------------------------------------------------- */

static void set_defaults(struct sw_front_opts *o)
{
    o->max_conns = o->max_conns ? o->max_conns : 4096;
    o->max_body = o->max_body ? o->max_body : (size_t)3 << 20;
    o->max_bodies = o->max_bodies ? o->max_bodies : (size_t)256 << 20;
    o->max_out = o->max_out ? o->max_out : (size_t)1 << 30;
    o->max_stream = o->max_stream ? o->max_stream : (size_t)4 << 20;
    o->idle_timeout_ns = o->idle_timeout_ns ? o->idle_timeout_ns : 180 * SW_NS_PER_S;
    o->head_timeout_ns = o->head_timeout_ns ? o->head_timeout_ns : 10 * SW_NS_PER_S;
    o->body_timeout_ns = o->body_timeout_ns ? o->body_timeout_ns : 60 * SW_NS_PER_S;
    o->write_timeout_ns = o->write_timeout_ns ? o->write_timeout_ns : 60 * SW_NS_PER_S;
}

struct sw_front *sw_front_new(struct sw_loop *l, const struct sw_front_opts *o)
{
    struct sw_front *f = SW_NEW(struct sw_front);

    f->loop = l;
    f->opts = *o;
    f->opts.cred = sw_tls_cred_ref(o->cred);
    set_defaults(&f->opts);
    sw_list_init(&f->listeners);
    sw_list_init(&f->conns);
    sw_list_init(&f->dead);
    sw_list_init(&f->orphans);
    return f;
}

size_t sw_front_conns(const struct sw_front *f)
{
    return f->nconns;
}

static void on_stopped(struct sw_defer *d)
{
    struct sw_front *f = SW_CONTAINER_OF(d, struct sw_front, stop_defer);
    void (*done)(void *) = f->on_done;

    f->on_done = NULL;
    if (done)
        done(f->done_arg);
}

void front_maybe_stopped(struct sw_front *f)
{
    if (!f->stopping || f->nconns || !f->on_done)
        return;
    sw_timer_stop(f->loop, &f->stop_timer);
    sw_loop_defer(f->loop, &f->stop_defer, on_stopped);
}

static void on_stop_deadline(struct sw_timer *t)
{
    struct sw_front *f = SW_CONTAINER_OF(t, struct sw_front, stop_timer);

    SW_LIST_FOREACH (it, &f->conns)
        front_conn_close(SW_CONTAINER_OF(it, struct front_conn, link));
}

static void close_listeners(struct sw_front *f)
{
    SW_LIST_FOREACH (it, &f->listeners)
        listener_free(SW_CONTAINER_OF(it, struct listener, link));
}

void sw_front_stop(struct sw_front *f, uint64_t deadline_ns, void (*on_done)(void *arg), void *arg)
{
    f->stopping = true;
    f->on_done = on_done;
    f->done_arg = arg;
    close_listeners(f);
    SW_LIST_FOREACH (it, &f->conns) {
        struct front_conn *c = SW_CONTAINER_OF(it, struct front_conn, link);

        if (front_conn_idle(c) || c->state == CONN_HANDSHAKE) {
            front_conn_close(c);
        } else if (c->h2) {
            sw_h2_goaway(c->h2, SW_H2_NO_ERROR);
            c->goaway = true;
            front_wake(c);
        }
    }
    sw_timer_start(f->loop, &f->stop_timer, deadline_ns, on_stop_deadline);
    front_maybe_stopped(f);
}

void sw_front_free(struct sw_front *f)
{
    if (!f)
        return;
    close_listeners(f);
    sw_timer_stop(f->loop, &f->stop_timer);
    f->on_done = NULL;
    SW_LIST_FOREACH (it, &f->conns)
        front_conn_close(SW_CONTAINER_OF(it, struct front_conn, link));
    SW_LIST_FOREACH (it, &f->dead)
        front_conn_free(SW_CONTAINER_OF(it, struct front_conn, link));
    SW_LIST_FOREACH (it, &f->orphans) {
        struct front_xchg *x = SW_CONTAINER_OF(it, struct front_xchg, link);

        x->state = XCHG_DONE;
        front_xchg_release(x);
    }
    sw_defer_cancel(&f->stop_defer);
    sw_tls_cred_unref(f->opts.cred);
    sw_free(f);
}
