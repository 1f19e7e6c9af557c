/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners, and starting and stopping the whole. Connections are in conn.c. */
#include "apiserver/front/front.h"

#include "apiserver/front/front_int.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "tls/cert/cred.h"

/* --- listeners -------------------------------------------------------------------------- */

static void on_accept(struct sw_acceptor *a, int fd, const struct sw_addr *peer)
{
    front_conn_open(SW_CONTAINER_OF(a->group, struct sw_front, accept), fd, peer);
}

int sw_front_listen(struct sw_front *f, const struct sw_addr *at, struct sw_addr *ret_bound,
                    struct sw_err *err)
{
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;

    return sw_accept_listen(&f->accept, at, &o, on_accept, ret_bound, err);
}

/* --- the whole -------------------------------------------------------------------------- */

static void set_defaults(struct sw_front_opts *o)
{
    o->max_conns = o->max_conns ? o->max_conns : 4096;
    o->max_conns_addr = o->max_conns_addr ? o->max_conns_addr : 1024;
    o->max_body = o->max_body ? o->max_body : (size_t)3 << 20;
    o->max_bodies = o->max_bodies ? o->max_bodies : (size_t)256 << 20;
    o->max_out = o->max_out ? o->max_out : (size_t)1 << 30;
    o->max_out_user = o->max_out_user ? o->max_out_user : o->max_out / 8;
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
    sw_accept_init(&f->accept, l, "api");
    sw_accept_keep_spare(&f->accept);
    f->accept.make_room = front_share_make_room;
    sw_list_init(&f->unread);
    sw_list_init(&f->handshakes);
    sw_list_init(&f->busy);
    sw_list_init(&f->conns);
    sw_list_init(&f->dead);
    sw_list_init(&f->orphans);
    return f;
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

void sw_front_stop(struct sw_front *f, uint64_t deadline_ns, void (*on_done)(void *arg), void *arg)
{
    f->stopping = true;
    f->on_done = on_done;
    f->done_arg = arg;
    sw_accept_done(&f->accept);
    SW_LIST_EACH (struct front_conn, c, &f->conns, link) {
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
    sw_accept_done(&f->accept);
    sw_timer_stop(f->loop, &f->stop_timer);
    f->on_done = NULL;
    SW_LIST_FOREACH (it, &f->conns)
        front_conn_close(SW_CONTAINER_OF(it, struct front_conn, link));
    SW_LIST_FOREACH (it, &f->dead)
        front_conn_free(SW_CONTAINER_OF(it, struct front_conn, link));
    SW_LIST_EACH (struct front_xchg, x, &f->orphans, link) {
        x->state = XCHG_DONE;
        front_xchg_release(x);
    }
    sw_defer_cancel(&f->stop_defer);
    sw_defer_cancel(&f->handshakes_defer);
    sw_defer_cancel(&f->busy_defer);
    sw_timer_stop(f->loop, &f->unread_timer);
    sw_map_done(&f->users);
    sw_map_done(&f->places);
    sw_tls_cred_unref(f->opts.cred);
    sw_free(f);
}
