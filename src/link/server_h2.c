/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 on the external port: many requests and tunnels on one connection. */
#include <stdio.h>

#include "base/mem.h"
#include "link/server.h"

static struct link_export *export_of(struct sw_tstream *t)
{
    return SW_CONTAINER_OF(t, struct link_export, stream);
}

/* ---- answers ---- */

void link_h2_reply(struct link_export *e, const struct link_reply *r)
{
    struct sw_h2_header f[8];
    struct sw_slice token = r->authorization;
    char status[16];
    char length[24];
    size_t n = 0;

    (void)snprintf(status, sizeof(status), "%u", r->status % 1000);
    (void)snprintf(length, sizeof(length), "%zu",
                   e->tunnel ? (size_t)0 : sw_min(r->body.n, SW_TSTREAM_REPLY_MAX));
    f[n++] = (struct sw_h2_header){SW_SLICE_LIT(":status"), sw_slice_str(status)};
    if (r->labels.n)
        f[n++] = (struct sw_h2_header){SW_SLICE_LIT("clusterlinkpeerlabels"), r->labels};
    if (token.n)
        f[n++] = (struct sw_h2_header){SW_SLICE_LIT("authorization"), token};
    if (sw_slice_has_prefix(token, SW_SLICE_LIT("Bearer ")))
        f[n++] = (struct sw_h2_header){SW_SLICE_LIT("x-access-token"), sw_slice_from(token, 7)};
    if (r->body.n && !e->tunnel)
        f[n++] = (struct sw_h2_header){SW_SLICE_LIT("content-type"),
                                       SW_SLICE_LIT("text/plain; charset=utf-8")};
    f[n++] = (struct sw_h2_header){SW_SLICE_LIT("content-length"), sw_slice_str(length)};
    /* A tunnel that is refused ends with its head: its peer may never end its own direction. */
    sw_tstream_reply(&e->stream, f, n, e->tunnel ? sw_slice(NULL, 0) : r->body);
}

void link_h2_connected(struct link_export *e, struct sw_dialled *dialled)
{
    sw_tstream_accept(&e->stream, NULL, 0);
    sw_tstream_relay_dialled(&e->stream, dialled);
}

/* ---- requests ---- */

static void kill(struct link_conn *c, const char *result, const char *why)
{
    struct link_export *e = SW_CONTAINER_OF(c, struct link_export, conn);

    sw_tstream_abort(&e->stream, SW_H2_CONNECT_ERROR);
    link_export_end(e, result, why);
}

static void on_moved(struct sw_tstream *t, size_t up, size_t down)
{
    link_conn_moved(&export_of(t)->conn, down, up);
}

static void on_done(struct sw_tstream *t, int rc, const struct sw_err *err)
{
    struct link_export *e = export_of(t);

    if (e->over) /* answered, and now the stream is gone, too */
        link_export_free(e);
    else
        link_export_closed(e, !t->lost && (rc == SW_OK || rc == SW_ECLOSED || rc == SW_EREFUSED),
                           err);
}

static void give_up(struct link_export *e, unsigned status)
{
    sw_tstream_refuse(&e->stream, status);
    link_export_end(e, "refused", NULL);
}

static void on_body_timeout(struct sw_timer *t)
{
    struct link_export *e = SW_CONTAINER_OF(t, struct link_export, timer);

    link_refused(e->server->w, "slow_request", &e->server->addr, e->server->peer);
    give_up(e, 408);
}

/* The body of POST /authz is complete, or too long. */
static void on_held(struct sw_tstream *t)
{
    struct link_export *e = export_of(t);
    size_t n = t->rest ? sw_buf_len(t->rest) : 0;
    struct link_question q =
        link_export_token(e->server, t->rest ? sw_buf_slice(t->rest) : sw_slice("", 0));

    if (e->over || e->asked)
        return;
    if (n > LINK_BODY_MAX) {
        link_refused(e->server->w, "bad_request", &e->server->addr, "body is too long");
        give_up(e, 413);
    } else if (t->peer_end) {
        e->asked = true;
        sw_timer_stop(e->server->w->loop, &e->timer);
        link_export_ask(e, &q);
    }
}

static const struct sw_tstream_ops tunnel_ops = {.on_moved = on_moved, .on_done = on_done};
static const struct sw_tstream_ops body_ops = {
    .on_held = on_held, .on_moved = on_moved, .on_done = on_done};

static struct link_export *attach(struct sw_session *session, int32_t id, enum link_ask_kind kind)
{
    struct link_server *s = sw_session_owner(session);
    struct link_export *e = SW_NEW(struct link_export);

    link_export_init(e, s, kind == LINK_ASK_INGRESS);
    e->h2 = true;
    e->conn.kill = kill;
    sw_tstream_attach(session, id, &e->stream, kind == LINK_ASK_TOKEN ? &body_ops : &tunnel_ops);
    return e;
}

void link_h2_request(struct sw_session *session, int32_t id, const struct sw_h2_head *head)
{
    struct link_server *s = sw_session_owner(session);
    struct link_question q;
    SW_BUF_AUTO text = {.max = 256};
    struct link_reply refusal = {0};
    struct link_export *e;

    if (head->protocol.n ||
        !link_export_question(s, head->method, head->path, &q, &refusal, &text)) {
        link_refused(s->w, "bad_request", &s->addr, "no such request");
        sw_session_refuse(session, id, 400);
        return;
    }
    q.authorization = sw_h2_head_get(head, "authorization");
    if (!link_export_ok(s, &q, &refusal)) {
        sw_session_refuse(session, id, refusal.status);
        return;
    }
    e = attach(session, id, q.kind);
    if (q.kind != LINK_ASK_TOKEN)
        link_export_ask(e, &q);
    else if (!e->over && !e->asked)
        sw_timer_start(s->w->loop, &e->timer, LINK_BODY_NS, on_body_timeout);
}
