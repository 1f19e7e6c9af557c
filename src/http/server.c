/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listeners and the life of a connection: requests are parsed as bytes come, responses given to io
 * as the client takes them.
 */
#include "http/server.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/server_int.h"
#include "http/url.h"
#include "io/sock.h"

enum {
    READ_TURN = 8192,
    IN_SLACK = 4096,
    OUT_SLACK = 64 * 1024, /* heads around the payload */
    FIELDS_MAX = 4096,
};

/* --- connections ------------------------------------------------------------------------ */

static void maybe_stopped(struct sw_http_server *s);

void conn_account(struct conn *c)
{
    size_t now = sw_buf_len(&c->out) + sw_buf_len(&c->payload);

    c->server->out_total = c->server->out_total - c->accounted + now;
    c->accounted = now;
}

/* Freed when no handler holds its response any more and io is done with it. */
static void conn_destroy(struct conn *c)
{
    sw_list_unlink(&c->link);
    sw_defer_cancel(&c->again);
    sw_timer_stop(c->server->loop, &c->timer);
    sw_conn_done(&c->io);
    sw_buf_done(&c->out);
    sw_buf_done(&c->payload);
    conn_account(c);
    sw_buf_done(&c->body);
    sw_buf_done(&c->resp.fields);
    sw_arena_clear(&c->arena);
    sw_h1_free(c->h1);
    sw_free(c);
}

/* The socket is finished with. Notifies a handler that still works on an answer. */
static void conn_close(struct conn *c)
{
    struct sw_http_server *s = c->server;
    bool held = c->state == CONN_HANDLE || c->state == CONN_STREAM;
    void (*gone)(void *) = c->resp.on_gone;

    if (c->state == CONN_ZOMBIE || c->state == CONN_DEAD)
        return;
    sw_timer_stop(s->loop, &c->timer);
    sw_conn_close(&c->io, false); /* on_free follows */
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
    maybe_stopped(s);
}

static void on_timeout(struct sw_timer *t);

static void arm(struct conn *c, uint64_t ns)
{
    sw_timer_start(c->server->loop, &c->timer, ns, on_timeout);
}

/* Gives io what it takes. True when both queues are empty. */
static bool flush(struct conn *c)
{
    struct sw_buf *queues[] = {&c->out, &c->payload};

    for (size_t i = 0; i < SW_ARRAY_LEN(queues); i++) {
        size_t n = sw_conn_write(&c->io, sw_buf_slice(queues[i]));

        sw_buf_consume(queues[i], n);
        conn_account(c);
        if (sw_buf_len(queues[i]))
            return false; /* on_drained comes */
    }
    return true;
}

/* The answer is complete: linger until the client has read it. */
static void finish(struct conn *c)
{
    c->state = CONN_LINGER;
    sw_timer_stop(c->server->loop, &c->timer);
    sw_conn_close_flushed(&c->io);
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
    struct sw_buf body = {.max = 512};

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
    c->begun = false;
    c->state = CONN_READ;
    arm(c, c->server->opts.idle_timeout_ns);
    if (c->in_step)
        return;
    if (c->eof && sw_conn_unused(&c->io) == 0)
        finish(c);
    else
        sw_conn_resume(&c->io); /* the next request may be here already */
}

/* Moves a response on. */
static void advance(struct conn *c)
{
    if (c->state == CONN_STREAM)
        (void)flush(c);
    if (c->state != CONN_FLUSH)
        return;
    /* Not re-armed on progress: a client that takes a byte a second cannot hold the body. */
    if (!sw_timer_running(&c->timer))
        arm(c, c->server->opts.write_timeout_ns);
    if (!flush(c))
        return;
    if (c->close_after || c->server->stopping)
        finish(c);
    else
        next_request(c);
}

static void on_again(struct sw_defer *d)
{
    struct conn *c = SW_CONTAINER_OF(d, struct conn, again);

    if (c->state != CONN_DEAD)
        advance(c);
    else if (c->io_gone)
        conn_destroy(c);
}

void conn_wake(struct conn *c)
{
    if (!c->in_step)
        sw_loop_defer(c->server->loop, &c->again, on_again);
}

/* One event of the parser. False: needs more bytes. */
static bool parse_step(struct conn *c, struct sw_slice in, size_t *at)
{
    enum sw_h1_event ev;
    struct sw_err err = {0};
    size_t used = 0;
    int rc;

    if (!c->begun && *at < in.n) {
        c->begun = true;
        arm(c, c->server->opts.header_timeout_ns);
    }
    rc = sw_h1_next(c->h1, sw_slice_from(in, *at), &used, &ev, &err);
    *at += used;
    if (rc == SW_EAGAIN)
        return false;
    if (rc != SW_OK) {
        sw_log_debug(c->server->opts.scope, "request refused: %s", err.msg);
        refuse(c, sw_h1_error_status(c->h1), err.msg);
    } else if (on_event(c, ev) != SW_OK) {
        conn_close(c);
    }
    return true;
}

static size_t on_bytes(struct sw_conn *io, struct sw_slice in)
{
    struct conn *c = SW_CONTAINER_OF(io, struct conn, io);
    size_t at = 0;

    c->in_step = true;
    while (c->state == CONN_READ && parse_step(c, in, &at))
        advance(c);
    if (c->state == CONN_READ)
        (void)flush(c); /* a pending 100 Continue */
    c->in_step = false;
    if (c->state == CONN_READ && c->eof)
        finish(c);
    else if (c->state == CONN_STREAM)
        advance(c);
    return at;
}

static void on_eof(struct sw_conn *io)
{
    struct conn *c = SW_CONTAINER_OF(io, struct conn, io);

    c->eof = true;
    if (c->state == CONN_READ)
        finish(c);
    else if (c->state == CONN_STREAM)
        conn_close(c); /* the stream has no reader left */
}

static void on_drained(struct sw_conn *io)
{
    advance(SW_CONTAINER_OF(io, struct conn, io));
}

static void on_fail(struct sw_conn *io, const struct sw_err *err)
{
    conn_close(SW_CONTAINER_OF(io, struct conn, io));
}

static void on_free(struct sw_conn *io)
{
    struct conn *c = SW_CONTAINER_OF(io, struct conn, io);

    c->io_gone = true;
    conn_close(c); /* after a linger */
    if (c->state == CONN_DEAD)
        conn_destroy(c);
}

static const struct sw_conn_ops io_ops = {
    .on_bytes = on_bytes,
    .on_eof = on_eof,
    .on_drained = on_drained,
    .on_fail = on_fail,
    .on_free = on_free,
};

static bool conn_idle(const struct conn *c)
{
    return c->state == CONN_READ && !c->begun && sw_conn_unsent(&c->io) == 0;
}

static void on_timeout(struct sw_timer *t)
{
    struct conn *c = SW_CONTAINER_OF(t, struct conn, timer);

    if (c->state == CONN_READ && c->begun) {
        refuse(c, 408, "request not complete in time");
        advance(c);
        return;
    }
    conn_close(c);
}

/* Room for one more: the connection idle for longest goes first. */
static bool make_room(struct sw_http_server *s)
{
    if (s->nconns < s->opts.max_conns)
        return true;
    SW_LIST_EACH (struct conn, c, &s->conns, link) {
        if (conn_idle(c) && !c->fresh) {
            conn_close(c);
            return true;
        }
    }
    if (!s->full_logged)
        sw_log_warn(s->opts.scope, "more than %zu connections: new ones are closed",
                    s->opts.max_conns);
    s->full_logged = true;
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
    if (sw_conn_init(&c->io, s->loop, fd, &(struct sw_conn_opts){.ops = &io_ops}, &err) != SW_OK) {
        sw_log_warn(s->opts.scope, "connection dropped: %s", err.msg);
        sw_free(c);
        return;
    }
    c->io.in_max = (uint32_t)(sw_max(s->opts.limits.head, s->opts.limits.line) + IN_SLACK);
    c->io.read_max = READ_TURN;
    c->io.stall_ms = (uint32_t)(s->opts.write_timeout_ns / SW_NS_PER_MS);
    c->server = s;
    c->fresh = true;
    c->h1 = sw_h1_new(SW_H1_REQUEST, &s->opts.limits);
    sw_buf_init(&c->out, s->opts.max_out + OUT_SLACK);
    sw_buf_init(&c->body, s->opts.limits.body);
    sw_buf_init(&c->resp.fields, FIELDS_MAX);
    c->req = (struct sw_http_req){.peer = *peer, .arena = &c->arena};
    sw_list_push_back(&s->conns, &c->link);
    s->nconns++;
    arm(c, s->opts.header_timeout_ns);
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
    SW_LIST_EACH (const struct sw_acceptor, a, &s->accept.all, link) {
        if (i-- == 0)
            return sw_sock_local(a->fd);
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

    SW_LIST_EACH (struct conn, c, &s->conns, link)
        conn_close(c);
}

void sw_http_server_stop(struct sw_http_server *s, uint64_t deadline_ns,
                         void (*on_done)(struct sw_http_server *s, void *arg), void *arg)
{
    s->stopping = true;
    s->on_done = on_done;
    s->done_arg = arg;
    sw_accept_done(&s->accept);
    SW_LIST_EACH (struct conn, c, &s->conns, link) {
        if (conn_idle(c))
            conn_close(c);
        else if (c->state == CONN_READ && !c->begun)
            finish(c); /* its last response is on the way */
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
    SW_LIST_EACH (struct conn, c, &s->conns, link)
        conn_close(c);
    SW_LIST_EACH (struct conn, c, &s->dead, link)
        conn_destroy(c);
    sw_defer_cancel(&s->stop_defer);
    sw_free(s);
}
