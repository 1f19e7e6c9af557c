/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h2serve.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/accept.h"
#include "io/sock.h"
#include "tls/cert/cred.h"

/* Our side of a connection. */
struct peer {
    struct sw_list link;
    struct sw_h2serve *serve;
    struct sw_h2conn *conn;
};

struct sw_h2serve {
    struct sw_loop *loop; /* borrowed */
    struct sw_h2serve_opts o;
    struct sw_accept_group accept;
    struct sw_list peers;
    size_t n_peers;
    struct sw_log_limit full;
    struct sw_log_limit dropped;
    bool stopping;
    struct sw_timer stop_timer;
    struct sw_defer stop_defer;
    void (*on_done)(void *arg);
    void *done_arg;
};

/* --- connections --- */

static void on_stopped(struct sw_defer *d)
{
    struct sw_h2serve *s = SW_CONTAINER_OF(d, struct sw_h2serve, stop_defer);
    void (*done)(void *) = s->on_done;

    s->on_done = NULL;
    if (done)
        done(s->done_arg);
}

static void maybe_stopped(struct sw_h2serve *s)
{
    if (!s->stopping || s->n_peers)
        return;
    sw_timer_stop(s->loop, &s->stop_timer);
    sw_loop_defer(s->loop, &s->stop_defer, on_stopped);
}

static void on_request(struct sw_h2conn *c, struct sw_h2stream *st, const struct sw_h2_head *head,
                       void *arg)
{
    struct peer *p = arg;

    p->serve->o.on_request(st, head, p->serve->o.arg);
}

static void peer_gone(struct peer *p)
{
    sw_list_unlink(&p->link);
    p->serve->n_peers--;
    sw_free(p);
}

static void on_closed(struct sw_h2conn *c, const struct sw_err *err, void *arg)
{
    struct peer *p = arg;
    struct sw_h2serve *s = p->serve;

    sw_log_debug(s->o.conn.scope, "connection ended: %s", err->msg);
    peer_gone(p);
    maybe_stopped(s);
}

static const struct sw_h2conn_ops conn_ops = {.on_request = on_request, .on_closed = on_closed};

/* Closes the oldest connection without a stream; false: all have some. */
static bool make_room(struct sw_h2serve *s)
{
    SW_LIST_EACH (struct peer, p, &s->peers, link) {
        if (sw_h2conn_streams(p->conn))
            continue;
        sw_h2conn_free(p->conn);
        peer_gone(p);
        return true;
    }
    return false;
}

static bool has_room(struct sw_h2serve *s)
{
    bool made;

    if (s->n_peers < s->o.max_conns)
        return true;
    made = make_room(s);
    sw_log_limited(&s->full, sw_loop_now(s->loop), SW_LOG_WARN, s->o.conn.scope,
                   "more than %zu connections: %s", s->o.max_conns,
                   made ? "closing those without a stream, the oldest first"
                        : "new ones are closed");
    return made;
}

void sw_h2serve_adopt(struct sw_h2serve *s, int fd)
{
    struct sw_h2conn_opts o = s->o.conn;
    struct sw_err err = {0};
    struct peer *p;

    if (s->stopping || !has_room(s)) {
        sw_sock_close(fd);
        return;
    }
    p = SW_NEW(struct peer);
    p->serve = s;
    o.arg = p;
    p->conn = sw_h2conn_new(s->loop, fd, &o, &err);
    if (!p->conn) {
        sw_log_limited(&s->dropped, sw_loop_now(s->loop), SW_LOG_WARN, s->o.conn.scope,
                       "connection dropped: %s", err.msg);
        sw_free(p);
        return;
    }
    sw_list_push_back(&s->peers, &p->link);
    s->n_peers++;
}

/* --- listeners --- */

static void on_accept(struct sw_acceptor *a, int fd, const struct sw_addr *peer)
{
    sw_h2serve_adopt(SW_CONTAINER_OF(a->group, struct sw_h2serve, accept), fd);
}

int sw_h2serve_listen(struct sw_h2serve *s, const struct sw_addr *at, struct sw_addr *ret_bound,
                      struct sw_err *err)
{
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;

    return sw_accept_listen(&s->accept, at, &o, on_accept, ret_bound, err);
}

/* --- the whole --- */

struct sw_h2serve *sw_h2serve_new(struct sw_loop *l, const struct sw_h2serve_opts *o)
{
    struct sw_h2serve *s = SW_NEW(struct sw_h2serve);

    s->loop = l;
    s->o = *o;
    s->o.conn.server = true;
    s->o.conn.scope = o->conn.scope ? o->conn.scope : "h2";
    s->o.conn.ops = &conn_ops;
    s->o.conn.cred = o->conn.cred ? sw_tls_cred_ref(o->conn.cred) : NULL;
    s->o.max_conns = o->max_conns ? o->max_conns : 1024;
    sw_accept_init(&s->accept, l, s->o.conn.scope);
    sw_list_init(&s->peers);
    return s;
}

void sw_h2serve_set_cred(struct sw_h2serve *s, struct sw_tls_cred *cred)
{
    struct sw_tls_cred *old = s->o.conn.cred;

    s->o.conn.cred = sw_tls_cred_ref(cred);
    sw_tls_cred_unref(old);
}

static void on_stop_deadline(struct sw_timer *t)
{
    struct sw_h2serve *s = SW_CONTAINER_OF(t, struct sw_h2serve, stop_timer);

    SW_LIST_EACH (struct peer, p, &s->peers, link)
        sw_h2conn_close(p->conn, SW_ETIME, "server stops");
}

void sw_h2serve_stop(struct sw_h2serve *s, uint64_t deadline_ns, void (*on_done)(void *arg),
                     void *arg)
{
    s->stopping = true;
    s->on_done = on_done;
    s->done_arg = arg;
    sw_accept_done(&s->accept);
    SW_LIST_EACH (struct peer, p, &s->peers, link)
        sw_h2conn_goaway(p->conn);
    sw_timer_start(s->loop, &s->stop_timer, deadline_ns, on_stop_deadline);
    maybe_stopped(s);
}

void sw_h2serve_free(struct sw_h2serve *s)
{
    if (!s)
        return;
    sw_accept_done(&s->accept);
    sw_timer_stop(s->loop, &s->stop_timer);
    SW_LIST_EACH (struct peer, p, &s->peers, link) {
        sw_h2conn_free(p->conn);
        sw_free(p);
    }
    sw_defer_cancel(&s->stop_defer);
    sw_tls_cred_unref(s->o.conn.cred);
    sw_free(s);
}
