/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connection to an import: authorised at the control plane, carried to the exporting
 * site, joined. Until the first byte has moved, a tunnel that fails is tried at the peer's next
 * gateway, then at what the control plane names instead.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/h1.h"
#include "io/sock.h"
#include "link/link_int.h"
#include "tunnel/tconn.h"

enum {
    ANSWER_HEAD_MAX = 16 << 10, /* of a CONNECT */
    SOURCES_MAX = 16,           /* exports that are tried */
    AGAIN_MAX = 3,              /* carriers that went away under a request */
    EXCLUDE_MAX = 8 << 10,
    RENEWALS_MAX = 3, /* of the certificate, while one connection is made */
};
static const uint64_t answer_ns = 10 * SW_NS_PER_S;    /* for the peer's answer to a CONNECT */
static const uint64_t setup_ns = 30 * SW_NS_PER_S;     /* for everything before the first byte */
static const uint64_t renewal_ns = 500 * SW_NS_PER_MS; /* until a new certificate is here, too */
static const uint64_t look_ns = 20 * SW_NS_PER_MS;     /* between two looks whether it is */

/* What is needed only until bytes flow. */
struct setup {
    struct link_ask ask;
    struct link_reach reach;
    struct sw_timer timer; /* of the answer, or of everything */
    uint64_t until_ns;
    struct import *in;
    struct sw_h1 *h1;     /* parser of the answer */
    char *bearer;         /* "Bearer TOKEN"; a secret */
    struct sw_slice peer; /* owned, like the next */
    struct sw_slice export;
    struct sw_buf exclude; /* sources that failed */
    unsigned sources;
    unsigned again;
    unsigned renewals;
    uint64_t cred_version;  /* of the snapshot when the control plane was asked */
    uint64_t look_until_ns; /* for another certificate */
    struct sw_err err;      /* the last failure */
};

struct import {
    struct link_conn conn;
    struct link_res *res; /* a reference */
    struct setup *setup;  /* owned, NULL once bytes flow */
    struct sw_tstream stream;
    struct sw_tconn *tconn; /* NULL: HTTP/2 carries it */
    int fd;                 /* of the client until it is joined */
    struct sw_defer reap;
};

static void ask(struct import *in);

/* ---- the end ---- */

static void drop_bearer(struct setup *s)
{
    if (s->bearer)
        sw_free_secret(s->bearer, strlen(s->bearer));
    s->bearer = NULL;
}

static void setup_free(struct import *in)
{
    struct setup *s = SW_TAKE(in->setup);

    if (!s)
        return;
    link_ask_cancel(&s->ask);
    link_reach_cancel(&s->reach);
    sw_timer_stop(in->conn.w->loop, &s->timer);
    sw_h1_free(s->h1);
    drop_bearer(s);
    sw_slice_free(&s->peer);
    sw_slice_free(&s->export);
    sw_buf_done(&s->exclude);
    sw_free(s);
}

static void on_reap(struct sw_defer *d)
{
    struct import *in = SW_CONTAINER_OF(d, struct import, reap);

    setup_free(in);
    (void)link_res_unref(in->res);
    sw_free(in);
}

static void retire(struct import *in, const char *result, const char *why)
{
    struct link_worker *w = in->conn.w;

    link_conn_end(&in->conn, result, why);
    if (in->fd >= 0) {
        sw_sock_set_reset(in->fd);
        sw_sock_close(SW_TAKE_FD(in->fd));
    }
    if (in->setup) {
        link_ask_cancel(&in->setup->ask);
        link_reach_cancel(&in->setup->reach);
        sw_timer_stop(w->loop, &in->setup->timer);
    }
    sw_loop_defer(w->loop, &in->reap, on_reap);
}

static void kill(struct link_conn *c, const char *result, const char *why)
{
    struct import *in = SW_CONTAINER_OF(c, struct import, conn);

    if (in->tconn)
        sw_tconn_close(in->tconn, true);
    sw_tstream_abort(&in->stream, SW_H2_CANCEL);
    retire(in, result, why);
}

/* Bytes flowed, and it ended. lost: not by itself, but with the connection that carried it. */
static void relayed(struct import *in, bool lost, int rc, const struct sw_err *err)
{
    if (!lost && (rc == SW_OK || rc == SW_ECLOSED || rc == SW_EREFUSED))
        retire(in, "ok", NULL);
    else
        retire(in, "lost", err ? err->msg : "connection lost");
}

/* ---- failures before bytes flowed ---- */

static void on_setup_timeout(struct sw_timer *t)
{
    kill(&SW_CONTAINER_OF(t, struct setup, timer)->in->conn, "timeout",
         "no tunnel within the time for it");
}

static void start_timer(struct setup *s, uint64_t ns, sw_timer_cb cb)
{
    uint64_t now = sw_loop_now(s->in->conn.w->loop);
    uint64_t left = s->until_ns > now ? s->until_ns - now : 0;

    sw_timer_start(s->in->conn.w->loop, &s->timer, sw_min(ns, left), cb);
}

/* This export cannot be reached: the control plane is asked for another one. */
static void source_failed(struct import *in, const struct sw_err *err)
{
    struct setup *s = in->setup;

    s->err = *err;
    link_reach_cancel(&s->reach);
    if (++s->sources >= SOURCES_MAX || !s->peer.n) {
        retire(in, "unreachable", err->msg);
        return;
    }
    sw_log_debug("link", "import '%.*s': source '%.*s' failed: %s", SW_SLICE_ARG(in->res->name),
                 SW_SLICE_ARG(s->peer), err->msg);
    if (sw_buf_printf(&s->exclude, "%s%.*s/%.*s", sw_buf_len(&s->exclude) ? "," : "",
                      SW_SLICE_ARG(s->peer), SW_SLICE_ARG(s->export)) != SW_OK) {
        retire(in, "unreachable", err->msg);
        return;
    }
    start_timer(s, setup_ns, on_setup_timeout);
    ask(in);
}

static void tunnel_failed(struct import *in, const struct sw_err *err)
{
    start_timer(in->setup, setup_ns, on_setup_timeout);
    link_reach_next(&in->setup->reach, err);
}

/* ---- a certificate that was renewed meanwhile ---- */

static uint64_t cred_version(const struct import *in)
{
    return in->conn.w->snap ? in->conn.w->snap->cred_version : 0;
}

static void on_look(struct sw_timer *t)
{
    struct setup *s = SW_CONTAINER_OF(t, struct setup, timer);
    struct import *in = s->in;
    struct sw_err err = s->err;

    if (cred_version(in) != s->cred_version) {
        s->renewals++;
        start_timer(s, setup_ns, on_setup_timeout);
        ask(in);
    } else if (sw_loop_now(in->conn.w->loop) < sw_min(s->look_until_ns, s->until_ns)) {
        start_timer(s, look_ns, on_look);
    } else {
        source_failed(in, &err);
    }
}

/*
 * A token is good for the certificate it was asked for with, by the control plane, and is shown
 * with ours. For the moment in which one of us has a new one these are two: it takes a new token.
 */
static void answer_refused(struct import *in, unsigned status)
{
    struct setup *s = in->setup;
    struct sw_err err = {0};

    (void)sw_err_set(&err, SW_EDENIED, "peer '%.*s' answered the CONNECT with status %u",
                     SW_SLICE_ARG(s->peer), status);
    if (status != 403 || s->renewals == RENEWALS_MAX) {
        source_failed(in, &err);
        return;
    }
    s->err = err;
    link_reach_cancel(&s->reach);
    s->look_until_ns = sw_loop_now(in->conn.w->loop) + renewal_ns;
    start_timer(s, 0, on_look);
}

/* ---- relaying ---- */

static void flow(struct import *in)
{
    in->conn.dst = in->setup->reach.at;
    setup_free(in);
    link_conn_opened(&in->conn);
}

/* ---- over HTTP/2 ---- */

static void on_answer_timeout(struct sw_timer *t)
{
    struct import *in = SW_CONTAINER_OF(t, struct setup, timer)->in;
    struct sw_err err = {0};

    (void)sw_err_set(&err, SW_ETIME, "no answer to the CONNECT in time");
    if (in->tconn)
        sw_tconn_close(SW_TAKE(in->tconn), true);
    sw_tstream_abort(&in->stream, SW_H2_CANCEL);
    source_failed(in, &err);
}

static void on_response(struct sw_tstream *t, const struct sw_h2_head *head)
{
    struct import *in = SW_CONTAINER_OF(t, struct import, stream);

    if (head->status != 200) {
        sw_tstream_abort(t, SW_H2_CANCEL);
        answer_refused(in, head->status);
        return;
    }
    flow(in);
    sw_tstream_relay(t, SW_TAKE_FD(in->fd));
}

static void on_moved(struct sw_tstream *t, size_t up, size_t down)
{
    link_conn_moved(&SW_CONTAINER_OF(t, struct import, stream)->conn, up, down);
}

static void on_done(struct sw_tstream *t, int rc, const struct sw_err *err)
{
    struct import *in = SW_CONTAINER_OF(t, struct import, stream);
    struct setup *s = in->setup;
    struct sw_err why = {0};

    if (!s) {
        relayed(in, t->lost, rc, err);
        return;
    }
    if (t->ahead) { /* the service may have the first bytes: not again */
        retire(in, "lost", err ? err->msg : "connection lost");
    } else if (rc == SW_EREFUSED && s->again++ < AGAIN_MAX) {
        link_reach_again(&s->reach);
    } else {
        (void)sw_err_set(&why, SW_ECLOSED, "%s", err ? err->msg : "connection lost");
        tunnel_failed(in, &why);
    }
}

static const struct sw_tstream_ops stream_ops = {
    .on_response = on_response, .on_moved = on_moved, .on_done = on_done};

static void open_stream(struct import *in, struct sw_session *session)
{
    struct setup *s = in->setup;
    const struct sw_h2_header fields[] = {
        {SW_SLICE_LIT(":method"), SW_SLICE_LIT("CONNECT")},
        {SW_SLICE_LIT(":authority"), s->reach.peer->authority},
        {SW_SLICE_LIT("authorization"), sw_slice_str(s->bearer)},
    };
    struct sw_err err = {0};

    if (sw_tstream_open(session, &in->stream, &stream_ops, fields, SW_ARRAY_LEN(fields), &err) !=
        SW_OK) {
        tunnel_failed(in, &err);
        return;
    }
    start_timer(s, answer_ns, on_answer_timeout);
    sw_tstream_early(&in->stream, in->fd);
}

/* ---- over a connection of its own ---- */

static size_t on_bytes(struct sw_tconn *c, struct sw_slice bytes, bool eof);

static void on_tconn_moved(struct sw_tconn *c, size_t up, size_t down)
{
    link_conn_moved(&((struct import *)sw_tconn_owner(c))->conn, up, down);
}

static void on_tconn_done(struct sw_tconn *c, int rc, const struct sw_err *err)
{
    struct import *in = sw_tconn_owner(c);
    struct sw_err why = {0};

    if (!in->setup) {
        relayed(in, false, rc, err);
        return;
    }
    (void)sw_err_set(&why, SW_ECLOSED, "%s",
                     err ? err->msg : "gateway closed the connection before its answer");
    in->tconn = NULL;
    tunnel_failed(in, &why);
}

static const struct sw_tconn_ops tconn_ops = {
    .on_bytes = on_bytes, .on_moved = on_tconn_moved, .on_done = on_tconn_done};

/* The answer to the CONNECT; what stands behind it belongs to the tunnel. */
static size_t on_bytes(struct sw_tconn *c, struct sw_slice bytes, bool eof)
{
    struct import *in = sw_tconn_owner(c);
    struct setup *s = in->setup;
    enum sw_h1_event event = SW_H1_HEAD;
    struct sw_err err = {0};
    size_t used = 0;
    unsigned status;
    int rc;

    if (!s)
        return 0;
    rc = sw_h1_next(s->h1, bytes, &used, &event, &err);
    if (rc == SW_EAGAIN && !eof)
        return used;
    if (rc == SW_EAGAIN)
        (void)sw_err_set(&err, SW_EPROTO, "gateway ended the connection before its answer");
    status = rc == SW_OK ? (unsigned)sw_h1_msg(s->h1)->status : 0;
    if (rc == SW_OK && status == 200) {
        flow(in);
        sw_tconn_join(c, SW_TAKE_FD(in->fd));
        return used;
    }
    sw_tconn_close(c, false);
    in->tconn = NULL;
    if (status)
        answer_refused(in, status);
    else
        tunnel_failed(in, &err);
    return 0;
}

static int put_connect(struct sw_buf *out, const struct setup *s)
{
    struct sw_slice authority = s->reach.peer->authority;
    int rc = sw_h1_put_request(out, SW_SLICE_LIT("CONNECT"), authority, 1);

    if (rc == SW_OK)
        rc = sw_h1_put_field(out, SW_SLICE_LIT("Host"), authority);
    if (rc == SW_OK)
        rc = sw_h1_put_field_str(out, "User-Agent", "spanwire/" SW_VERSION);
    if (rc == SW_OK)
        rc = sw_h1_put_field_str(out, "Authorization", s->bearer);
    return rc == SW_OK ? sw_h1_put_end(out) : rc;
}

static void open_tconn(struct import *in, struct sw_session_parts *parts)
{
    static const struct sw_h1_limits limits = {.head = ANSWER_HEAD_MAX};
    struct setup *s = in->setup;
    SW_BUF_AUTO head = {.max = ANSWER_HEAD_MAX};
    struct sw_err err = {0};

    in->tconn = sw_tconn_new(in->conn.w->loop, parts, &tconn_ops, in, &err);
    if (!in->tconn) {
        tunnel_failed(in, &err);
        return;
    }
    if (put_connect(&head, s) != SW_OK) {
        sw_tconn_close(SW_TAKE(in->tconn), false);
        (void)sw_err_set(&err, SW_EINVAL, "token cannot be sent: not a field value");
        source_failed(in, &err);
        return;
    }
    sw_h1_free(s->h1);
    s->h1 = sw_h1_new(SW_H1_RESPONSE, &limits);
    sw_h1_answer_to(s->h1, SW_SLICE_LIT("CONNECT"));
    start_timer(s, answer_ns, on_answer_timeout);
    sw_tconn_send(in->tconn, sw_buf_slice(&head));
    if (sw_buf_len(&head))
        explicit_bzero(head.p, head.n);
    if (in->tconn)
        sw_tconn_start(in->tconn);
}

/* ---- the way to the peer ---- */

static void on_reached(struct link_reach *r, struct sw_session *session,
                       struct sw_session_parts *parts, const struct sw_err *err)
{
    struct import *in = SW_CONTAINER_OF(r, struct setup, reach)->in;

    if (session)
        open_stream(in, session);
    else if (parts)
        open_tconn(in, parts);
    else
        source_failed(in, err);
}

/* ---- authorisation ---- */

static void denied(struct import *in, const struct link_answer *a)
{
    char why[200];

    /* After a source that failed, its failure says more than that there is no other one. */
    if (in->setup->sources && (!a->reached || a->status >= 500))
        (void)snprintf(why, sizeof(why), "%s", in->setup->err.msg);
    else
        (void)snprintf(why, sizeof(why), "%.*s", SW_SLICE_ARG_MAX(a->reason, 190));
    if (a->reached && in->setup->sources)
        retire(in, "unreachable", why);
    else
        retire(in, link_refusal(a), why);
}

static bool same_source(const struct setup *s, struct sw_slice peer, struct sw_slice export)
{
    SW_BUF_AUTO text = {.max = 2048};
    struct sw_slice rest = sw_buf_slice(&s->exclude);

    if (sw_buf_printf(&text, "%.*s/%.*s", SW_SLICE_ARG(peer), SW_SLICE_ARG(export)) != SW_OK)
        return true;
    while (rest.n) {
        if (sw_slice_eq(sw_slice_cut(&rest, ','), sw_buf_slice(&text)))
            return true;
    }
    return false;
}

static void allowed(struct import *in, const struct link_answer *a)
{
    static const struct sw_slice prefix = SW_SLICE_LIT("remote-peer-");
    struct setup *s = in->setup;
    struct link_worker *w = in->conn.w;
    struct link_res *peer;
    struct sw_slice name;
    struct sw_err err = {0};

    if (!sw_slice_has_prefix(a->host, prefix) || !a->authorization.n) {
        retire(in, "failed", "control plane's answer names no peer, or has no token");
        return;
    }
    name = sw_slice_from(a->host, prefix.n);
    if (s->sources && same_source(s, name, a->export)) {
        retire(in, "unreachable", s->err.msg); /* it knows no other */
        return;
    }
    link_conn_set(&s->peer, name);
    link_conn_set(&in->conn.peer, name);
    link_conn_set(&s->export, a->export);
    link_conn_set(&in->conn.source, a->source);
    link_conn_set(&in->conn.policy, a->policy);
    link_conn_granted(&in->conn, a->grant);
    drop_bearer(s);
    s->bearer = sw_slice_dup(a->authorization);
    peer = w->snap ? sw_map_get(&w->snap->peers, name) : NULL;
    if (!peer || !w->snap->cred) {
        (void)sw_err_set(&err, SW_ENOENT,
                         peer ? "no fabric certificate yet" : "peer '%.*s' is not configured",
                         SW_SLICE_ARG_MAX(name, 100));
        source_failed(in, &err);
        return;
    }
    s->again = 0;
    link_reach_start(&s->reach, w, peer, on_reached);
}

static void on_answered(struct link_ask *ask_, const struct link_answer *a)
{
    struct import *in = SW_CONTAINER_OF(ask_, struct setup, ask)->in;

    if (a->status == 200)
        allowed(in, a);
    else
        denied(in, a);
}

static void ask(struct import *in)
{
    struct setup *s = in->setup;
    struct link_question q = {.kind = LINK_ASK_EGRESS,
                              .client = in->conn.src.ip,
                              .ns = in->res->ns,
                              .name = in->res->base,
                              .exclude = sw_buf_slice(&s->exclude)};

    link_conn_asked(&in->conn);
    s->cred_version = cred_version(in);
    if (link_ask_start(in->conn.w->control, &s->ask, &q, on_answered) != SW_OK)
        retire(in, "overload", "too many authorisations under way");
}

/* ---- the beginning ---- */

void link_import_start(struct link_worker *w, struct link_res *res, int fd,
                       const struct sw_addr *peer)
{
    struct sw_sock_opts tune = SW_SOCK_OPTS_INIT;
    struct import *in;

    if (!link_conn_room(w, peer)) {
        sw_sock_close(fd);
        return;
    }
    sw_sock_tune(fd, &tune);
    in = SW_NEW(struct import);
    link_conn_init(&in->conn, w, true, peer);
    in->conn.kill = kill;
    in->res = link_res_ref(res);
    in->fd = fd;
    in->stream.fd = -1;
    link_conn_set(&in->conn.service, res->name);
    in->setup = SW_NEW(struct setup);
    in->setup->in = in;
    in->setup->until_ns = sw_loop_now(w->loop) + setup_ns;
    sw_buf_init(&in->setup->exclude, EXCLUDE_MAX);
    start_timer(in->setup, setup_ns, on_setup_timeout);
    ask(in);
}
