/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listeners and the life of a connection. One step function moves a connection through its
 * states until it would block; callbacks only record and call it.
 */
#include "http/server.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/server_int.h"
#include "http/url.h"
#include "io/sock.h"

enum {
    STEPS_PER_WAKE = 64,
    READ_SIZE = 4096,
    IN_SLACK = 4096,
    OUT_SLACK = 64 * 1024, /* heads around the payload */
    FIELDS_MAX = 4096,
    LINGER_BYTES = 256 * 1024,
};
static const uint64_t linger_ns = SW_NS_PER_S;

/* --- connections ------------------------------------------------------------------------ */

static void maybe_stopped(struct sw_http_server *s);

void conn_account(struct conn *c)
{
    size_t now = sw_buf_len(&c->out) + sw_buf_len(&c->payload);

    c->server->out_total = c->server->out_total - c->accounted + now;
    c->accounted = now;
}

/* Frees what the socket needed; the object goes when nobody holds its response any more. */
static void conn_destroy(struct conn *c)
{
    sw_list_unlink(&c->link);
    sw_defer_cancel(&c->again);
    sw_defer_cancel(&c->reap);
    sw_timer_stop(c->server->loop, &c->timer);
    sw_watch_stop(&c->watch);
    sw_sock_close(c->fd);
    sw_buf_done(&c->in);
    sw_buf_done(&c->out);
    sw_buf_done(&c->payload);
    conn_account(c);
    sw_buf_done(&c->body);
    sw_buf_done(&c->resp.fields);
    sw_arena_clear(&c->arena);
    sw_h1_free(c->h1);
    sw_free(c);
}

static void on_reap(struct sw_defer *d)
{
    conn_destroy(SW_CONTAINER_OF(d, struct conn, reap));
}

/* The socket is finished with. Tells a handler that still works on an answer. */
static void conn_close(struct conn *c)
{
    struct sw_http_server *s = c->server;
    bool held = c->state == CONN_HANDLE || c->state == CONN_STREAM;
    void (*gone)(void *) = c->resp.on_gone;

    if (c->state == CONN_ZOMBIE || c->state == CONN_DEAD)
        return;
    sw_timer_stop(s->loop, &c->timer);
    sw_watch_stop(&c->watch);
    sw_sock_close(c->fd);
    c->fd = -1;
    sw_buf_done(&c->out);
    sw_buf_done(&c->payload);
    conn_account(c);
    sw_list_unlink(&c->link);
    sw_list_push_back(&s->dead, &c->link);
    s->nconns--;
    c->state = held && !gone ? CONN_ZOMBIE : CONN_DEAD;
    c->resp.on_gone = NULL;
    if (held && gone)
        gone(c->resp.gone_arg);
    if (c->state == CONN_DEAD)
        sw_loop_defer(s->loop, &c->reap, on_reap);
    maybe_stopped(s);
}

static void on_timeout(struct sw_timer *t);

static void arm(struct conn *c, uint64_t ns)
{
    sw_timer_start(c->server->loop, &c->timer, ns, on_timeout);
}

/* SW_OK when both queues are empty. */
static int flush(struct conn *c)
{
    while (sw_buf_len(&c->out) + sw_buf_len(&c->payload)) {
        struct sw_slice a = sw_buf_slice(&c->out);
        struct sw_slice b = sw_buf_slice(&c->payload);
        struct iovec iov[2] = {{(void *)(uintptr_t)a.p, a.n}, {(void *)(uintptr_t)b.p, b.n}};
        ssize_t n = sw_sock_writev(c->fd, iov, 2);
        size_t head;

        if (n < 0)
            return (int)n;
        head = sw_min((size_t)n, a.n);
        sw_buf_consume(&c->out, head);
        sw_buf_consume(&c->payload, (size_t)n - head);
        conn_account(c);
        if (c->state == CONN_STREAM)
            arm(c, c->server->opts.write_timeout_ns);
    }
    return SW_OK;
}

/* Reads once; SW_OK when bytes came or the end of the stream was noted. */
static int fill(struct conn *c)
{
    size_t room = c->in.max - sw_buf_len(&c->in);
    char *to = room ? sw_buf_reserve(&c->in, sw_min(room, READ_SIZE)) : NULL;
    bool idle = sw_h1_idle(c->h1) && sw_buf_len(&c->in) == 0;
    ssize_t n;

    if (!to)
        return SW_EAGAIN;
    n = sw_sock_read(c->fd, to, sw_min(room, READ_SIZE));
    if (n == SW_EOF) {
        c->eof = true;
        return SW_OK;
    }
    if (n < 0) {
        if (sw_buf_len(&c->in) == 0)
            sw_buf_done(&c->in); /* an idle connection holds no buffer */
        return (int)n;
    }
    sw_buf_commit(&c->in, (size_t)n);
    if (idle && c->state == CONN_READ)
        arm(c, c->server->opts.header_timeout_ns);
    return SW_OK;
}

static void dispatch(struct conn *c)
{
    struct sw_http_server *s = c->server;

    sw_timer_stop(s->loop, &c->timer);
    c->req.body = sw_buf_slice(&c->body);
    c->close_after = !c->req.msg->keep_alive || s->stopping;
    c->no_payload = sw_slice_eq_str(c->req.msg->method, "HEAD");
    c->state = CONN_HANDLE;
    if (c->req.msg->framing == SW_H1_TUNNEL) {
        c->close_after = true;
        sw_http_send_text(&c->resp, 405, "this is not a proxy\n");
        return;
    }
    s->opts.handler(&c->req, &c->resp, s->opts.arg);
}

/* The request is refused before a handler sees it; the connection ends after the answer. */
static void refuse(struct conn *c, int status, const char *why)
{
    struct sw_buf body;

    sw_buf_init(&body, 512);
    if (sw_buf_printf(&body, "%s\n", why) != SW_OK)
        sw_buf_clear(&body);
    c->close_after = true;
    c->no_payload = false;
    conn_respond(c, status, "text/plain; charset=utf-8", &body);
    arm(c, c->server->opts.write_timeout_ns);
}

static int on_event(struct conn *c, enum sw_h1_event ev)
{
    struct sw_h1_msg *m;

    switch (ev) {
    case SW_H1_HEAD:
        m = sw_h1_msg_dup(&c->arena, sw_h1_msg(c->h1));
        c->req.msg = m;
        sw_target_split(m->path_query, &c->req.path, &c->req.query);
        if (m->form == SW_H1_ABSOLUTE && c->req.path.n == 0)
            c->req.path = SW_SLICE_LIT("/"); /* "http://host?query" */
        if (m->framing == SW_H1_LENGTH || m->framing == SW_H1_CHUNKED)
            arm(c, c->server->opts.write_timeout_ns);
        if (m->expect_continue)
            return sw_buf_append_str(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
        return SW_OK;
    case SW_H1_BODY:
        return sw_buf_append_slice(&c->body, sw_h1_data(c->h1));
    case SW_H1_TRAILERS:
        return SW_OK;
    case SW_H1_END:
        dispatch(c);
        return SW_OK;
    }
    return SW_EINVAL;
}

static int step_read(struct conn *c)
{
    enum sw_h1_event ev;
    struct sw_err err = {0};
    size_t used;
    int rc = sw_h1_next(c->h1, sw_buf_slice(&c->in), &used, &ev, &err);

    if (rc == SW_OK) {
        rc = on_event(c, ev);
        sw_buf_consume(&c->in, used);
        return rc;
    }
    sw_buf_consume(&c->in, used);
    if (rc != SW_EAGAIN) {
        sw_log_debug(c->server->opts.scope, "request refused: %s", err.msg);
        refuse(c, sw_h1_error_status(c->h1), err.msg);
        return SW_OK;
    }
    if (c->eof)
        return SW_EOF;
    rc = flush(c); /* a pending 100 Continue */
    if (rc != SW_OK && rc != SW_EAGAIN)
        return rc;
    return fill(c);
}

/* Ready for the next request of the connection. */
static void next_request(struct conn *c)
{
    sw_h1_reset(c->h1);
    sw_arena_clear(&c->arena);
    sw_buf_done(&c->body);
    sw_buf_done(&c->resp.fields);
    c->resp = (struct sw_http_resp){.fields = {.max = FIELDS_MAX}};
    c->req = (struct sw_http_req){.peer = c->req.peer, .arena = &c->arena};
    c->fresh = false;
    c->state = CONN_READ;
    arm(c,
        sw_buf_len(&c->in) ? c->server->opts.header_timeout_ns : c->server->opts.idle_timeout_ns);
}

static int step_flush(struct conn *c)
{
    int rc;

    /* Not re-armed on progress: a client that takes a byte a second cannot hold the body. */
    if (!sw_timer_running(&c->timer))
        arm(c, c->server->opts.write_timeout_ns);
    rc = flush(c);
    if (rc != SW_OK)
        return rc;
    if (!c->close_after && !c->server->stopping) {
        next_request(c);
        return SW_OK;
    }
    sw_sock_shutdown_write(c->fd);
    c->state = CONN_LINGER;
    sw_buf_done(&c->in);
    arm(c, linger_ns);
    return SW_OK;
}

/* A close with unread bytes would reset the connection under our answer. */
static int step_linger(struct conn *c)
{
    char waste[READ_SIZE];
    ssize_t n = c->eof ? SW_EOF : sw_sock_read(c->fd, waste, sizeof(waste));

    if (n < 0)
        return (int)n;
    c->lingered += (size_t)n;
    return c->lingered > LINGER_BYTES ? SW_EOF : SW_OK;
}

static int step_stream(struct conn *c)
{
    int rc = flush(c);

    if (rc == SW_OK)
        sw_timer_stop(c->server->loop, &c->timer);
    else if (rc == SW_EAGAIN && !sw_timer_running(&c->timer))
        arm(c, c->server->opts.write_timeout_ns);
    else if (rc != SW_EAGAIN)
        return rc;
    rc = fill(c);
    if (c->eof)
        return SW_EOF; /* nobody is left to read the stream */
    return rc;
}

/* A late answer: all we can learn meanwhile is that the connection broke. */
static int step_handle(struct conn *c)
{
    return c->eof ? SW_EAGAIN : fill(c);
}

static void conn_step(struct conn *c);

static void on_again(struct sw_defer *d)
{
    conn_step(SW_CONTAINER_OF(d, struct conn, again));
}

static int step_once(struct conn *c)
{
    switch (c->state) {
    case CONN_READ:
        return step_read(c);
    case CONN_HANDLE:
        return step_handle(c);
    case CONN_STREAM:
        return step_stream(c);
    case CONN_FLUSH:
        return step_flush(c);
    case CONN_LINGER:
        return step_linger(c);
    case CONN_ZOMBIE:
    case CONN_DEAD:
        break;
    }
    return SW_EAGAIN;
}

static void conn_step(struct conn *c)
{
    int rc = SW_OK;

    if (c->in_step)
        return;
    c->in_step = true;
    for (int i = 0; i < STEPS_PER_WAKE && rc == SW_OK; i++)
        rc = step_once(c);
    c->in_step = false;
    if (rc == SW_OK)
        sw_loop_defer(c->server->loop, &c->again, on_again);
    else if (rc != SW_EAGAIN)
        conn_close(c);
}

void conn_wake(struct conn *c)
{
    if (c->state == CONN_DEAD)
        sw_loop_defer(c->server->loop, &c->reap, on_reap);
    else if (!c->in_step)
        sw_loop_defer(c->server->loop, &c->again, on_again);
}

static void on_conn(struct sw_watch *w, unsigned events)
{
    (void)events;
    conn_step(SW_CONTAINER_OF(w, struct conn, watch));
}

static bool conn_idle(const struct conn *c)
{
    return c->state == CONN_READ && sw_h1_idle(c->h1) && sw_buf_len(&c->in) == 0;
}

static void on_timeout(struct sw_timer *t)
{
    struct conn *c = SW_CONTAINER_OF(t, struct conn, timer);

    if (c->state == CONN_READ && !conn_idle(c)) {
        refuse(c, 408, "request not complete in time");
        conn_step(c);
        return;
    }
    conn_close(c);
}

/* Room for one more: the connection idle for longest goes first. */
static bool make_room(struct sw_http_server *s)
{
    if (s->nconns < s->opts.max_conns)
        return true;
    SW_LIST_FOREACH (it, &s->conns) {
        struct conn *c = SW_CONTAINER_OF(it, struct conn, link);

        if (conn_idle(c) && !c->fresh) {
            conn_close(c);
            return true;
        }
    }
    if (!s->full_said)
        sw_log_warn(s->opts.scope, "more than %zu connections: new ones are closed",
                    s->opts.max_conns);
    s->full_said = true;
    return false;
}

static void conn_open(struct sw_http_server *s, int fd, const struct sw_addr *peer)
{
    struct sw_err err;
    struct conn *c;

    if (s->stopping || !make_room(s)) {
        sw_sock_close(fd);
        return;
    }
    c = SW_NEW(struct conn);
    c->server = s;
    c->fd = fd;
    c->fresh = true;
    c->h1 = sw_h1_new(SW_H1_REQUEST, &s->opts.limits);
    sw_buf_init(&c->in, sw_max(s->opts.limits.head, s->opts.limits.line) + IN_SLACK);
    sw_buf_init(&c->out, s->opts.max_out + OUT_SLACK);
    sw_buf_init(&c->body, s->opts.limits.body);
    sw_buf_init(&c->resp.fields, FIELDS_MAX);
    c->req = (struct sw_http_req){.peer = *peer, .arena = &c->arena};
    sw_list_push_back(&s->conns, &c->link);
    s->nconns++;
    arm(c, s->opts.header_timeout_ns);
    if (sw_watch_start(s->loop, &c->watch, fd, on_conn, &err) != SW_OK) {
        sw_log_warn(s->opts.scope, "connection dropped: %s", err.msg);
        conn_close(c);
        return;
    }
    conn_wake(c);
}

void sw_http_server_adopt(struct sw_http_server *s, int fd)
{
    struct sw_addr peer = sw_sock_peer(fd);

    conn_open(s, fd, &peer);
}

/* --- listeners -------------------------------------------------------------------------- */

static void on_accept(struct sw_acceptor *a, int fd, const struct sw_addr *peer)
{
    conn_open(SW_CONTAINER_OF(a->group, struct sw_http_server, accept), fd, peer);
}

int sw_http_server_listen(struct sw_http_server *s, const struct sw_addr *at, struct sw_err *err)
{
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;

    o.share = s->opts.share;
    return sw_accept_listen(&s->accept, at, &o, on_accept, NULL, err);
}

struct sw_addr sw_http_server_addr(const struct sw_http_server *s, size_t i)
{
    SW_LIST_FOREACH (it, &s->accept.all) {
        if (i-- == 0)
            return sw_sock_local(SW_CONTAINER_OF(it, struct sw_acceptor, link)->fd);
    }
    return (struct sw_addr){0};
}

/* --- the server ------------------------------------------------------------------------- */

static void set_defaults(struct sw_http_server_opts *o)
{
    o->scope = o->scope ? o->scope : "http";
    o->limits.line = o->limits.line ? o->limits.line : 8192;
    o->limits.head = o->limits.head ? o->limits.head : 8192;
    o->limits.headers = o->limits.headers ? o->limits.headers : 64;
    o->limits.body = o->limits.body ? o->limits.body : UINT64_C(1024) * 1024;
    o->max_conns = o->max_conns ? o->max_conns : 256;
    o->max_out = o->max_out ? o->max_out : (size_t)64 * 1024 * 1024;
    o->header_timeout_ns = o->header_timeout_ns ? o->header_timeout_ns : 2 * SW_NS_PER_S;
    o->idle_timeout_ns = o->idle_timeout_ns ? o->idle_timeout_ns : 60 * SW_NS_PER_S;
    o->write_timeout_ns = o->write_timeout_ns ? o->write_timeout_ns : 30 * SW_NS_PER_S;
}

struct sw_http_server *sw_http_server_new(struct sw_loop *l, const struct sw_http_server_opts *o)
{
    struct sw_http_server *s = SW_NEW(struct sw_http_server);

    s->loop = l;
    s->opts = *o;
    set_defaults(&s->opts);
    sw_accept_init(&s->accept, l, s->opts.scope);
    sw_list_init(&s->conns);
    sw_list_init(&s->dead);
    return s;
}

size_t sw_http_server_conns(const struct sw_http_server *s)
{
    return s->nconns;
}

static void on_stopped(struct sw_defer *d)
{
    struct sw_http_server *s = SW_CONTAINER_OF(d, struct sw_http_server, stop_defer);
    void (*done)(struct sw_http_server *, void *) = s->on_done;

    s->on_done = NULL;
    if (done)
        done(s, s->done_arg);
}

static void maybe_stopped(struct sw_http_server *s)
{
    if (!s->stopping || s->nconns || !s->on_done)
        return;
    sw_timer_stop(s->loop, &s->stop_timer);
    sw_loop_defer(s->loop, &s->stop_defer, on_stopped);
}

static void on_stop_deadline(struct sw_timer *t)
{
    struct sw_http_server *s = SW_CONTAINER_OF(t, struct sw_http_server, stop_timer);

    SW_LIST_FOREACH (it, &s->conns)
        conn_close(SW_CONTAINER_OF(it, struct conn, link));
}

void sw_http_server_stop(struct sw_http_server *s, uint64_t deadline_ns,
                         void (*on_done)(struct sw_http_server *s, void *arg), void *arg)
{
    s->stopping = true;
    s->on_done = on_done;
    s->done_arg = arg;
    sw_accept_done(&s->accept);
    SW_LIST_FOREACH (it, &s->conns) {
        struct conn *c = SW_CONTAINER_OF(it, struct conn, link);

        if (conn_idle(c))
            conn_close(c);
    }
    sw_timer_start(s->loop, &s->stop_timer, deadline_ns, on_stop_deadline);
    maybe_stopped(s);
}

void sw_http_server_free(struct sw_http_server *s)
{
    if (!s)
        return;
    sw_accept_done(&s->accept);
    sw_timer_stop(s->loop, &s->stop_timer);
    s->on_done = NULL;
    SW_LIST_FOREACH (it, &s->conns)
        conn_close(SW_CONTAINER_OF(it, struct conn, link));
    SW_LIST_FOREACH (it, &s->dead)
        conn_destroy(SW_CONTAINER_OF(it, struct conn, link));
    sw_defer_cancel(&s->stop_defer);
    sw_free(s);
}
