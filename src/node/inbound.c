/* SPDX-License-Identifier: Apache-2.0 */
/* 15008: HBONE connections from peers and the tunnels in them. */
#include "node/inbound.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "tunnel/session.h"

enum { HANDSHAKES_MAX = 1024 }; /* per worker, about 20 KB each */

/* One TLS connection of a peer. */
struct server {
    struct sw_list link;
    bool open; /* TLS is done */
    struct sw_wpod *pod;
    struct sw_session *session;
    struct sw_addr peer;
    struct sw_addr local;
};

/* What is needed only until the application is connected. */
struct setup {
    struct sw_dial dial;
    struct inbound *in; /* whose it is */
    struct sw_route_inbound route;
    struct sw_lookup lookup;   /* on demand */
    struct sw_inbound_ask ask; /* what is judged once that is answered */
    struct sw_arena arena;     /* its texts */
};

/* One tunnel. */
struct inbound {
    struct sw_tstream stream;
    struct sw_ledger rec;
    struct sw_guard guard;
    struct sw_live live;
    struct server *server;
    struct setup *setup; /* owned, NULL once relaying */
    struct sw_defer reap;
};

static struct sw_worker *worker_of(const struct inbound *in)
{
    return in->live.pod->worker;
}

static void on_reap(struct sw_defer *d)
{
    sw_free(SW_CONTAINER_OF(d, struct inbound, reap));
}

static void drop_setup(struct inbound *in)
{
    struct setup *setup = in->setup;

    if (!setup)
        return;
    sw_lookup_cancel(&setup->lookup);
    sw_dial_cancel(&setup->dial);
    sw_arena_clear(&setup->arena);
    sw_free(setup);
    in->setup = NULL;
}

/* The tunnel is over: forget it everywhere; memory goes with the loop's deferred calls. */
static void retire(struct inbound *in)
{
    struct sw_worker *w = worker_of(in);

    drop_setup(in);
    sw_list_unlink(&in->guard.link);
    sw_live_remove(w, &in->live);
    sw_loop_defer(w->loop, &in->reap, on_reap);
}

static void refuse(struct inbound *in, unsigned status, enum sw_response_flag flag, const char *why)
{
    sw_ledger_close(&in->rec, flag, why);
    sw_tstream_refuse(&in->stream, status);
    retire(in);
}

static void on_moved(struct sw_tstream *t, size_t up, size_t down)
{
    struct inbound *in = SW_CONTAINER_OF(t, struct inbound, stream);

    /* 'down' comes from the peer and goes to the application. */
    sw_ledger_moved(&in->rec, down, up);
}

static void on_done(struct sw_tstream *t, int rc, const struct sw_err *err)
{
    struct inbound *in = SW_CONTAINER_OF(t, struct inbound, stream);

    /* Resets are how TCP ends sometimes, not an error of ours. */
    if (rc == SW_OK || rc == SW_ECLOSED || rc == SW_EOF || rc == SW_EREFUSED)
        sw_ledger_close(&in->rec, SW_FLAG_NONE, NULL);
    else
        sw_ledger_close(&in->rec, rc == SW_EDENIED ? SW_FLAG_CERT_REVOKED : SW_FLAG_CONNECT,
                        err ? err->msg : "connection failed");
    retire(in);
}

static const struct sw_tstream_ops stream_ops = {
    .on_moved = on_moved,
    .on_done = on_done,
};

static void on_denied(struct sw_guard *g, const char *why)
{
    struct inbound *in = SW_CONTAINER_OF(g, struct inbound, guard);

    sw_ledger_close(&in->rec, SW_FLAG_DENY, "connection closed due to policy change");
    sw_tstream_abort(&in->stream, SW_H2_CONNECT_ERROR);
    retire(in);
}

static void on_drained(struct sw_live *l, const char *why)
{
    struct inbound *in = SW_CONTAINER_OF(l, struct inbound, live);

    sw_ledger_close(&in->rec, SW_FLAG_CONNECT, why);
    sw_tstream_abort(&in->stream, SW_H2_CONNECT_ERROR);
    retire(in);
}

static int dialled_fd(struct sw_live *l)
{
    return SW_CONTAINER_OF(l, struct inbound, live)->stream.fd;
}

static const struct sw_live_ops live_ops = {.end = on_drained, .dialled = dialled_fd};

static void answer_200(struct inbound *in)
{
    struct sw_worker *w = worker_of(in);
    SW_BUF_AUTO text = {.max = 2048};
    struct sw_h2_header extra = {SW_SLICE_LIT("baggage"), {NULL, 0}};
    struct sw_baggage own;

    if (!w->config->tunnel.response_baggage || !in->live.pod->local) {
        sw_tstream_accept(&in->stream, NULL, 0);
        return;
    }
    sw_baggage_of(in->live.pod->local, &own);
    if (sw_baggage_build(&own, &text) != SW_OK)
        sw_buf_clear(&text);
    extra.value = sw_buf_slice(&text);
    sw_tstream_accept(&in->stream, &extra, 1);
}

static struct sw_slice uri_of(const struct server *sv)
{
    const struct sw_tls_peer_id *id = sw_tls_peer_identity(sw_session_peer(sv->session));

    return id ? id->uri : sw_slice("", 0);
}

static void on_dialled(struct sw_dial *d, int rc, const struct sw_err *err)
{
    struct setup *setup = SW_CONTAINER_OF(d, struct setup, dial);
    struct inbound *in = setup->in;
    struct sw_dialled dialled;
    char text[SW_ERRTEXT];

    if (rc != SW_OK) {
        refuse(in, 503, SW_FLAG_CONNECT, sw_errtext_connect(err, text));
        return;
    }
    sw_dial_take(d, &dialled);
    if (!sw_inbound_send_proxy_header(dialled.fd, &setup->route, &in->server->peer,
                                      uri_of(in->server))) {
        sw_dialled_close(&dialled);
        refuse(in, 503, SW_FLAG_CONNECT, "cannot write the PROXY header");
        return;
    }
    drop_setup(in);
    answer_200(in);
    sw_tstream_relay_dialled(&in->stream, &dialled);
}

static struct inbound *inbound_new(struct server *sv, int32_t id)
{
    struct inbound *in = SW_NEW(struct inbound);

    in->server = sv;
    in->live.pod = sv->pod;
    sw_tstream_attach(sv->session, id, &in->stream, &stream_ops);
    in->setup = SW_NEW(struct setup);
    in->setup->in = in;
    return in;
}

/* It was judged good: from now on it is known to drains and policies, and connects. */
static void admit(struct inbound *in, const struct sw_ledger *rec,
                  const struct sw_route_inbound *route)
{
    struct server *sv = in->server;
    const struct sw_tls_peer_id *peer = sw_tls_peer_identity(sw_session_peer(sv->session));
    struct sw_worker *w = sv->pod->worker;

    in->rec = *rec;
    in->guard = (struct sw_guard){
        .pod = sv->pod,
        .src_ip = &in->live.src.ip,
        .src = peer ? &peer->id : NULL,
        .dst = route->rbac_dst,
        .waypoint = route->by_address && !route->proxy_protocol,
        .deny = on_denied,
    };
    sw_list_push_back(&w->guards, &in->guard.link);
    in->live = (struct sw_live){
        .inbound = true,
        .pod = sv->pod,
        .src = sv->peer,
        .original_dst = sv->local,
        .actual_dst = route->connect,
        .protocol = SW_LIVE_HBONE,
        .ops = &live_ops,
    };
    sw_live_add(w, &in->live);
    in->setup->route = *route;
    sw_inbound_dial(w, sv->pod, route, &in->setup->dial, on_dialled);
}

/* ---- on demand: what the judgement needs may have to be asked for ---- */

static char *missing(struct sw_worker *w, const struct sw_inbound_ask *ask)
{
    struct sw_lookup_inbound q = {
        .local = ask->dst->local,
        .network = w->env.network,
        .conn_dst = ask->conn_dst.ip,
        .authority = ask->authority,
    };

    if (!w->lookups.ask || !q.local)
        return NULL;
    if (!ask->from_network.p || sw_slice_ieq(ask->from_network, w->env.network))
        q.peer = ask->peer.ip;
    return sw_lookup_missing_inbound(&w->lookups, w->state, &q);
}

/* An answer that does not come leaves what is known: the judgement refuses what it must. */
static void on_lookup(struct sw_lookup *l, enum sw_lookup_end end)
{
    struct setup *setup = SW_CONTAINER_OF(l, struct setup, lookup);
    struct inbound *in = setup->in;
    struct sw_worker *w = worker_of(in);
    char *key = end == SW_LOOKUP_ANSWERED ? missing(w, &setup->ask) : NULL;
    struct sw_route_inbound route;
    struct sw_ledger rec = {0};
    unsigned status;

    if (key) {
        sw_lookup_start(&w->lookups, l, key, on_lookup);
        return;
    }
    status = sw_inbound_judge(w, &setup->ask, &rec, &route);
    if (status == 200) {
        admit(in, &rec, &route);
        return;
    }
    sw_tstream_refuse(&in->stream, status);
    retire(in);
}

static void wait_for_lookup(struct server *sv, int32_t id, const struct sw_inbound_ask *ask,
                            char *key)
{
    struct setup *setup = inbound_new(sv, id)->setup;
    struct sw_inbound_ask *mine = &setup->ask;
    struct sw_slice *texts[] = {&mine->authority, &mine->forwarded, &mine->baggage,
                                &mine->traceparent, &mine->from_network};

    *mine = *ask;
    for (size_t i = 0; i < SW_ARRAY_LEN(texts); i++) {
        if (texts[i]->p)
            *texts[i] = sw_arena_slice(&setup->arena, *texts[i]);
    }
    sw_lookup_start(&sv->pod->worker->lookups, &setup->lookup, key, on_lookup);
}

static void on_request(struct sw_session *s, int32_t id, const struct sw_h2_head *head)
{
    struct server *sv = sw_session_owner(s);
    const struct sw_tls_peer_id *peer = sw_tls_peer_identity(sw_session_peer(s));
    struct sw_worker *w = sv->pod->worker;
    struct sw_inbound_ask ask = {
        .dst = sv->pod,
        .peer = sv->peer,
        .conn_dst = sv->local,
        .src = peer ? &peer->id : NULL,
        .src_uri = uri_of(sv),
        .authority = head->authority,
        .forwarded = sw_h2_head_get(head, "forwarded"),
        .baggage = sw_h2_head_get(head, "baggage"),
        .traceparent = sw_h2_head_get(head, "traceparent"),
        .from_network = sw_h2_head_get(head, "x-forwarded-network"),
    };
    struct sw_route_inbound route;
    struct sw_ledger rec = {0};
    unsigned status;
    char text[SW_ERRTEXT];
    char *key;

    if (!sw_slice_eq_str(head->method, "CONNECT")) {
        (void)snprintf(text, sizeof(text), "expected method CONNECT, got %.*s",
                       SW_SLICE_ARG_MAX(head->method, 64));
        sw_ledger_refused(&w->book, SW_INBOUND, &sv->peer, &sv->local, "bad_request", text);
        sw_session_refuse(s, id, 400);
        return;
    }
    key = missing(w, &ask);
    if (key) {
        wait_for_lookup(sv, id, &ask, key);
        return;
    }
    status = sw_inbound_judge(w, &ask, &rec, &route);
    if (status == 200)
        admit(inbound_new(sv, id), &rec, &route);
    else
        sw_session_refuse(s, id, status);
}

static void on_ready(struct sw_session *s)
{
    struct server *sv = sw_session_owner(s);

    sv->open = true;
    sv->pod->worker->n_handshakes--;
    sw_log_debug("inbound", "HBONE connection with %s", sw_tls_cipher(sw_session_tls(s)));
    if (sv->pod->worker->thread.draining)
        sw_session_drain(s);
}

static void server_free(struct server *sv)
{
    struct sw_worker *w = sv->pod->worker;

    if (!sv->open)
        w->n_handshakes--;
    sw_metric_sub(w->sockets[SW_REPORTER_DESTINATION], 1);
    sw_list_unlink(&sv->link);
    sv->pod->users--;
    w->n_servers--;
    sw_free(sv);
}

static void on_closed(struct sw_session *s, int rc, const struct sw_err *err, bool handshaken)
{
    struct server *sv = sw_session_owner(s);
    struct sw_worker *w = sv->pod->worker;

    if (!handshaken && rc == SW_EDENIED && sw_tls_peer_revoked(sw_session_tls(s)))
        sw_metric_add(sw_metric_get1(w->shard, SW_METRIC_CRL_REJECTIONS, "destination"), 1);
    if (!handshaken && rc != SW_OK)
        sw_ledger_refused(&w->book, SW_INBOUND, &sv->peer, &sv->local, "tls", err->msg);
    else if (rc == SW_EPROTO)
        sw_ledger_refused(&w->book, SW_INBOUND, &sv->peer, &sv->local, "http2", err->msg);
    server_free(sv);
}

static const struct sw_session_ops session_ops = {
    .on_ready = on_ready,
    .on_request = on_request,
    .on_closed = on_closed,
};

/* Why a new connection cannot be taken, or NULL. */
static const char *cannot_serve(const struct sw_wpod *p)
{
    if (!p->cred)
        return p->cred_error ? p->cred_error : "no certificate for the local workload yet";
    if (p->worker->n_handshakes >= HANDSHAKES_MAX)
        return "too many unfinished handshakes";
    return NULL;
}

void sw_inbound_accept(struct sw_wpod *p, int fd, const struct sw_addr *peer)
{
    struct sw_worker *w = p->worker;
    struct sw_tls_params tls = {
        .server = true, .alpn = "h2", .alpn_optional = true, .cred = p->cred};
    struct sw_addr local = sw_sock_local(fd);
    const char *why = cannot_serve(p);
    struct sw_err err = {0};
    struct server *sv;

    if (!p->cred)
        sw_worker_need_cred(p);
    if (why) {
        sw_ledger_refused(&w->book, SW_INBOUND, peer, &local, p->cred ? "handshakes" : "identity",
                          why);
        sw_sock_close(fd);
        return;
    }
    sv = SW_NEW(struct server);
    sv->pod = p;
    sv->peer = *peer;
    sv->local = local;
    tls.tls12 = w->config->crypto.tls12;
    sw_list_push_back(&w->servers, &sv->link);
    p->users++;
    w->n_servers++;
    w->n_handshakes++;
    sw_metric_add(w->sockets[SW_REPORTER_DESTINATION], 1);
    sv->session = sw_session_new(
        w->loop, fd,
        &(struct sw_session_setup){
            .tls = &tls, .config = &w->session_config, .ops = &session_ops, .owner = sv},
        &err);
    if (!sv->session) {
        sw_ledger_refused(&w->book, SW_INBOUND, peer, &local, "tls", err.msg);
        server_free(sv);
    }
}

void sw_inbound_drain(struct sw_worker *w)
{
    SW_LIST_EACH (struct server, sv, &w->servers, link)
        sw_session_drain(sv->session);
}

void sw_inbound_close_all(struct sw_worker *w, const struct sw_wpod *pod, const char *why)
{
    struct sw_err err = {0};

    (void)sw_err_set(&err, SW_ECLOSED, "%s", why);
    SW_LIST_EACH (struct server, sv, &w->servers, link) {
        if (!pod || sv->pod == pod)
            sw_session_close(sv->session, SW_OK, &err);
    }
}

static void recheck_client(struct sw_session *s, const void *owner, void *arg)
{
    const struct sw_wpod *p = owner;
    struct sw_err err = {0};

    if (p->cred && sw_tls_recheck(sw_session_tls(s), p->cred, &err) != SW_OK) {
        sw_metric_add(sw_metric_get1(p->worker->shard, SW_METRIC_CRL_REJECTIONS, "source"), 1);
        sw_session_close(s, SW_EDENIED, &err);
    }
}

void sw_inbound_recheck(struct sw_worker *w)
{
    SW_LIST_EACH (struct server, sv, &w->servers, link) {
        struct sw_err err = {0};

        if (sw_session_peer(sv->session) && sv->pod->cred &&
            sw_tls_recheck(sw_session_tls(sv->session), sv->pod->cred, &err) != SW_OK) {
            sw_metric_add(sw_metric_get1(w->shard, SW_METRIC_CRL_REJECTIONS, "destination"), 1);
            sw_session_close(sv->session, SW_EDENIED, &err);
        }
    }
    sw_pool_each(w->pool, recheck_client, NULL);
}
