/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 on the external port, ClusterLink's form: requests one after the other, then perhaps a
 * CONNECT, which ends HTTP. The 200 goes out in a record of its own, because importers written in
 * Go lose bytes that share it; bytes that came with the CONNECT reach the service.
 */

#include "base/mem.h"
#include "base/time.h"
#include "link/server.h"

static const uint64_t head_ns = 2 * SW_NS_PER_S;
static const uint64_t idle_ns = 120 * SW_NS_PER_S;

enum { REPLY_MAX = 32 << 10 };

static void close_server(struct link_server *s, bool reset)
{
    if (s->tconn)
        sw_tconn_close(SW_TAKE(s->tconn), reset);
    if (s->current)
        link_export_end(SW_TAKE(s->current), "ok", NULL);
    link_server_gone(s);
}

static void on_timeout(struct sw_timer *t)
{
    struct link_server *s = SW_CONTAINER_OF(t, struct link_server, timer);
    bool idle = !s->body_wanted && sw_h1_idle(s->h1);

    if (!idle)
        link_refused(s->w, "slow_request", &s->addr, s->peer);
    close_server(s, !idle);
}

static void wait_for_head(struct link_server *s, bool first)
{
    sw_timer_start(s->w->loop, &s->timer, first ? head_ns : idle_ns, on_timeout);
}

/* ---- answers ---- */

static int put_reply(struct sw_buf *out, const struct link_server *s, const struct link_reply *r)
{
    struct sw_slice token = r->authorization;
    int rc = sw_h1_put_status(out, (int)r->status, sw_slice(NULL, 0), 1);

    if (rc == SW_OK && r->labels.n)
        rc = sw_h1_put_field(out, SW_SLICE_LIT("Clusterlinkpeerlabels"), r->labels);
    if (rc == SW_OK && token.n)
        rc = sw_h1_put_field(out, SW_SLICE_LIT("Authorization"), token);
    if (rc == SW_OK && sw_slice_has_prefix(token, SW_SLICE_LIT("Bearer ")))
        rc = sw_h1_put_field(out, SW_SLICE_LIT("X-Access-Token"), sw_slice_from(token, 7));
    if (rc == SW_OK && r->body.n)
        rc = sw_h1_put_field_str(out, "Content-Type", "text/plain; charset=utf-8");
    if (rc == SW_OK && !s->keep_alive)
        rc = sw_h1_put_field_str(out, "Connection", "close");
    if (rc == SW_OK)
        rc = sw_h1_put_length(out, r->body.n);
    if (rc == SW_OK)
        rc = sw_h1_put_end(out);
    return rc == SW_OK ? sw_buf_append_slice(out, r->body) : rc;
}

static void answer(struct link_server *s, const struct link_reply *r)
{
    static const struct link_reply broken = {.status = 500};
    SW_BUF_AUTO out = {.max = REPLY_MAX};

    if (!s->tconn)
        return;
    if (put_reply(&out, s, r) != SW_OK) {
        sw_buf_clear(&out);
        (void)!put_reply(&out, s, &broken);
    }
    s->body_wanted = false;
    sw_buf_clear(&s->body);
    sw_tconn_send(s->tconn, sw_buf_slice(&out));
    if (!s->tconn)
        return;
    if (!s->keep_alive || s->draining) {
        sw_timer_stop(s->w->loop, &s->timer);
        s->finished = true;
        sw_tconn_finish(s->tconn);
        return;
    }
    sw_h1_reset(s->h1);
    wait_for_head(s, false);
}

/* What may have come behind the request is looked at now. */
void link_h1_reply(struct link_export *e, const struct link_reply *r)
{
    struct link_server *s = e->server;

    s->current = NULL;
    if (e->tunnel)
        s->keep_alive = false;
    answer(s, r);
    if (s->tconn && !s->finished)
        sw_tconn_start(s->tconn);
}

void link_h1_connected(struct link_export *e, struct sw_dialled *dialled)
{
    static const struct sw_slice ok =
        SW_SLICE_LIT("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n");
    struct link_server *s = e->server;

    sw_tconn_send(s->tconn, ok);
    if (!s->tconn) { /* reset meanwhile, and all is closed */
        sw_dialled_close(dialled);
        return;
    }
    sw_tconn_join_dialled(s->tconn, dialled);
}

/* ---- requests ---- */

static void kill(struct link_conn *c, const char *result, const char *why)
{
    struct link_export *e = SW_CONTAINER_OF(c, struct link_export, conn);
    struct link_server *s = e->server;

    s->current = NULL;
    link_export_end(e, result, why);
    close_server(s, true);
}

static void start_export(struct link_server *s, struct link_question *q)
{
    struct link_export *e = SW_NEW(struct link_export);

    link_export_init(e, s, q->kind == LINK_ASK_INGRESS);
    e->conn.kill = kill;
    s->current = e;
    sw_timer_stop(s->w->loop, &s->timer);
    link_export_ask(e, q);
}

static void on_head(struct link_server *s)
{
    const struct sw_h1_msg *m = sw_h1_msg(s->h1);
    const struct sw_slice *auth = sw_h1_field(m, "authorization");
    struct link_question q;
    struct link_reply refusal;
    SW_BUF_AUTO text = {.max = 256};

    /* An unread body ends the connection with its answer. */
    s->keep_alive = m->keep_alive && (m->framing == SW_H1_NO_BODY || m->framing == SW_H1_TUNNEL);
    if (!link_export_question(s, m->method, m->path_query, &q, &refusal, &text)) {
        s->keep_alive = false;
        answer(s, &refusal);
        return;
    }
    if (q.kind == LINK_ASK_TOKEN) { /* its body comes first */
        s->body_wanted = true;
        s->keep_alive = m->keep_alive;
        sw_timer_start(s->w->loop, &s->timer, LINK_BODY_NS, on_timeout);
        return;
    }
    q.authorization = auth ? *auth : sw_slice(NULL, 0);
    if (!link_export_ok(s, &q, &refusal)) {
        s->keep_alive = false;
        answer(s, &refusal);
        return;
    }
    start_export(s, &q);
}

static void on_body_end(struct link_server *s)
{
    struct link_question q = link_export_token(s, sw_buf_slice(&s->body));

    s->body_wanted = false;
    start_export(s, &q);
}

static void bad_request(struct link_server *s, const struct sw_err *err)
{
    struct link_reply r = {.status = (unsigned)sw_h1_error_status(s->h1),
                           .body = sw_slice_str(err->msg)};

    link_refused(s->w, "bad_request", &s->addr, err->msg);
    s->keep_alive = false;
    answer(s, &r);
}

/* One step of the parser. False: wait for bytes, or for an answer. */
static bool step(struct link_server *s, struct sw_slice *in)
{
    enum sw_h1_event event = SW_H1_END;
    struct sw_err err = {0};
    size_t used = 0;
    int rc = sw_h1_next(s->h1, *in, &used, &event, &err);

    if (rc != SW_OK) {
        *in = sw_slice_from(*in, used);
        if (rc != SW_EAGAIN)
            bad_request(s, &err);
        return false;
    }
    if (event == SW_H1_HEAD)
        on_head(s); /* before the bytes go */
    else if (event == SW_H1_BODY && s->body_wanted)
        (void)!sw_buf_append_slice(&s->body, sw_h1_data(s->h1)); /* within the parser's limit */
    else if (event == SW_H1_END && s->body_wanted)
        on_body_end(s);
    *in = sw_slice_from(*in, used);
    return s->tconn && !s->current && !s->finished;
}

static size_t on_bytes(struct sw_tconn *c, struct sw_slice in, bool eof)
{
    struct link_server *s = sw_tconn_owner(c);
    struct sw_slice left = in;

    if (s->finished || (s->current && !eof))
        return 0;
    if (in.n && sw_h1_idle(s->h1) && !s->body_wanted && !s->current)
        sw_timer_start(s->w->loop, &s->timer, head_ns, on_timeout);
    /* The end of a body takes a step without bytes. */
    while ((left.n || s->body_wanted) && !s->current && step(s, &left))
        continue;
    if (eof && s->tconn && !s->current)
        close_server(s, false);
    return in.n - left.n;
}

static void on_moved(struct sw_tconn *c, size_t up, size_t down)
{
    struct link_server *s = sw_tconn_owner(c);

    if (s->current)
        link_conn_moved(&s->current->conn, down, up);
}

static void on_done(struct sw_tconn *c, int rc, const struct sw_err *err)
{
    struct link_server *s = sw_tconn_owner(c);
    struct link_export *e = SW_TAKE(s->current);

    s->tconn = NULL;
    if (e)
        link_export_closed(e, rc == SW_OK || rc == SW_ECLOSED, err);
    link_server_gone(s);
}

static const struct sw_tconn_ops tconn_ops = {
    .on_bytes = on_bytes, .on_moved = on_moved, .on_done = on_done};

void link_h1_serve(struct link_server *s, struct sw_session_parts *parts)
{
    static const struct sw_h1_limits limits = {
        .line = LINK_HEAD_MAX, .head = LINK_HEAD_MAX, .body = LINK_BODY_MAX, .bare_host = true};
    struct sw_err err = {0};

    s->h1 = sw_h1_new(SW_H1_REQUEST, &limits);
    s->tconn = sw_tconn_new(s->w->loop, parts, &tconn_ops, s, &err);
    if (!s->tconn) {
        link_server_gone(s);
        return;
    }
    wait_for_head(s, true);
    sw_tconn_start(s->tconn);
}

/* Tunnels continue; a connection without a request ends. */
void link_h1_drain(struct link_server *s)
{
    if (!s->current && !s->body_wanted)
        close_server(s, false);
}
