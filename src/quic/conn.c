/* SPDX-License-Identifier: Apache-2.0 */
/* A connection: made, fed with packets and timers, and buried. */
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "quic/core.h"

enum {
    RESETS_PER_SECOND = 100, /* streams a peer may give up, on the average */
    ACK_THRESHOLD = 10,
};

/* ---- asking for attention ---- */

void sw_qconn_touch(struct sw_qconn *c)
{
    if (!c->nc || sw_list_linked(&c->dirty))
        return;
    sw_list_push_back(&c->q->dirty, &c->dirty);
    sw_quic_wake(c->q);
}

void sw_qconn_note(struct sw_qconn *c)
{
    if (c->gone || sw_list_linked(&c->event))
        return;
    sw_list_push_back(&c->q->events, &c->event);
    sw_quic_wake(c->q);
}

/* ---- ngtcp2's callbacks: they only write down ---- */

static void on_rand(uint8_t *p, size_t n, const ngtcp2_rand_ctx *ctx)
{
    sw_rand_bytes(p, n);
}

static int on_new_cid(ngtcp2_conn *nc, ngtcp2_cid *cid, uint8_t *token, size_t n, void *user)
{
    struct sw_qconn *c = user;

    do
        sw_rand_bytes(cid->data, n);
    while (!sw_qcid_add(c, cid->data, n));
    cid->datalen = n;
    sw_quic_reset_token(c->q, cid->data, n, token);
    return 0;
}

static int on_remove_cid(ngtcp2_conn *nc, const ngtcp2_cid *cid, void *user)
{
    sw_qcid_remove(user, cid->data, cid->datalen);
    return 0;
}

static int on_rx_key(ngtcp2_conn *nc, ngtcp2_crypto_level level, void *user)
{
    struct sw_qconn *c = user;

    if (level == NGTCP2_CRYPTO_LEVEL_HANDSHAKE)
        c->answered = true;
    return 0;
}

/* Protocols of an endpoint outlive its connections; the session's copy does not. */
static struct sw_slice own_alpn(const struct sw_quic *q, struct sw_slice alpn)
{
    for (size_t i = 0; i < q->cfg.n_alpns; i++)
        if (sw_slice_eq(q->alpns[i], alpn))
            return q->alpns[i];
    return (struct sw_slice){0};
}

static void refuse(struct sw_qconn *c, const char *why)
{
    char id[SW_NODEID_SHORT];

    c->q->stats.refused++;
    sw_log_info("quic", "refused node %s: %s", sw_nodeid_short(&c->peer, id), why);
    sw_qconn_fail(c, SW_QCLOSE_LOCAL, NGTCP2_CONNECTION_REFUSED, why);
}

static void end_half_open(struct sw_qconn *c)
{
    if (c->half_open)
        c->q->half_open--;
    c->half_open = false;
}

/* Of the server this is also the confirmation; who dials waits for the server's. */
static int on_completed(ngtcp2_conn *nc, void *user)
{
    struct sw_qconn *c = user;
    struct sw_quic *q = c->q;

    end_half_open(c);
    if (c->dialled)
        return 0;
    c->alpn = own_alpn(q, sw_qhs_alpn(c->hs));
    c->confirmed = true;
    if (q->cfg.admit && !q->cfg.admit(q->cfg.arg, &c->peer, c->alpn)) {
        refuse(c, "not admitted");
        return 0;
    }
    c->accepted_ready = true;
    sw_qconn_note(c);
    return 0;
}

static int on_confirmed(ngtcp2_conn *nc, void *user)
{
    struct sw_qconn *c = user;

    c->confirmed = true;
    if (c->dialled) {
        c->accepted_ready = true;
        sw_qconn_note(c);
    }
    return 0;
}

static int on_stream_open(ngtcp2_conn *nc, int64_t id, void *user)
{
    struct sw_qconn *c = user;
    struct sw_qstream *s;

    if (!ngtcp2_is_bidi_stream(id))
        return 0;
    s = sw_qstream_new(c, id);
    s->fresh = true;
    (void)ngtcp2_conn_set_stream_user_data(nc, id, s);
    sw_qstream_note(s);
    return 0;
}

static int on_stream_data(ngtcp2_conn *nc, uint32_t flags, int64_t id, uint64_t offset,
                          const uint8_t *p, size_t n, void *user, void *stream)
{
    if (stream)
        sw_qstream_received(stream, p, n, (flags & NGTCP2_STREAM_DATA_FLAG_FIN) != 0);
    return 0;
}

static int on_acked(ngtcp2_conn *nc, int64_t id, uint64_t offset, uint64_t n, void *user,
                    void *stream)
{
    if (stream)
        sw_qstream_acked(stream, offset + n);
    return 0;
}

/*
 * A peer that opens streams only to give them up makes us work for nothing. What it may do falls
 * with time; more than that ends the connection.
 */
static void count_reset(struct sw_qconn *c)
{
    uint64_t now = sw_quic_now(c->q);
    uint64_t passed = (now - c->reset_at_ns) / (SW_NS_PER_S / RESETS_PER_SECOND);

    if (passed > 0) {
        c->resets = passed >= c->resets ? 0 : c->resets - (uint32_t)passed;
        c->reset_at_ns = now;
    }
    c->q->stats.resets++;
    if (++c->resets > sw_max(c->q->cfg.max_streams, RESETS_PER_SECOND) && !c->closing) {
        sw_log_warn("quic", "closing a connection: too many streams given up");
        sw_qconn_fail(c, SW_QCLOSE_FAILED, NGTCP2_PROTOCOL_VIOLATION, "too many resets");
    }
}

static int on_stream_reset(ngtcp2_conn *nc, int64_t id, uint64_t final_size, uint64_t code,
                           void *user, void *stream)
{
    struct sw_qstream *s = stream;

    count_reset(user);
    if (!s)
        return 0;
    s->reset = true;
    s->reset_code = code;
    sw_qstream_note(s);
    return 0;
}

static int on_stop_sending(ngtcp2_conn *nc, int64_t id, uint64_t code, void *user, void *stream)
{
    struct sw_qstream *s = stream;

    if (!s)
        return 0;
    s->stopped = true;
    s->stop_code = code;
    s->tx_shut = true; /* ngtcp2 answers with RESET_STREAM */
    sw_list_unlink(&s->sendq);
    sw_qstream_note(s);
    return 0;
}

static int on_stream_close(ngtcp2_conn *nc, uint32_t flags, int64_t id, uint64_t code, void *user,
                           void *stream)
{
    struct sw_qstream *s = stream;
    struct sw_qconn *c = user;

    if (s) {
        s->ended = true;
        sw_list_unlink(&s->sendq);
        sw_qstream_note(s);
    } else if (!ngtcp2_conn_is_local_stream(nc, id) && ngtcp2_is_bidi_stream(id)) {
        ngtcp2_conn_extend_max_streams_bidi(c->nc, 1);
    }
    return 0;
}

static int on_more_streams(ngtcp2_conn *nc, uint64_t max, void *user)
{
    struct sw_qconn *c = user;

    if (c->want_room) {
        c->want_room = false;
        c->room = true;
        sw_qconn_note(c);
    }
    return 0;
}

static int on_more_stream_data(ngtcp2_conn *nc, int64_t id, uint64_t max, void *user, void *stream)
{
    struct sw_qconn *c = user;
    struct sw_qstream *s = stream;

    if (s && sw_qstream_pending(s)) {
        sw_list_unlink(&s->sendq);
        sw_list_push_back(&c->sendable, &s->sendq);
    }
    return 0;
}

static int on_datagram(ngtcp2_conn *nc, uint32_t flags, const uint8_t *p, size_t n, void *user)
{
    struct sw_qconn *c = user;
    struct sw_qdgram *d;

    if (c->gone || n > SW_DGRAM_MAX)
        return 0;
    d = sw_malloc(sizeof(*d) + n);
    d->n = n;
    memcpy(d->p, p, n);
    sw_list_push_back(&c->dgrams_in, &d->link);
    sw_qconn_note(c);
    return 0;
}

static int on_path_validation(ngtcp2_conn *nc, uint32_t flags, const ngtcp2_path *path,
                              ngtcp2_path_validation_result res, void *user)
{
    sw_qpath_validated(user, sw_qpath_id(path), res == NGTCP2_PATH_VALIDATION_RESULT_SUCCESS);
    return 0;
}

static int on_stateless_reset(ngtcp2_conn *nc, const ngtcp2_pkt_stateless_reset *sr, void *user)
{
    struct sw_qconn *c = user;

    c->was_reset = true;
    return 0;
}

static void fill_callbacks(ngtcp2_callbacks *cb)
{
    memset(cb, 0, sizeof(*cb));
    sw_qhs_callbacks(cb);
    cb->rand = on_rand;
    cb->get_new_connection_id = on_new_cid;
    cb->remove_connection_id = on_remove_cid;
    cb->recv_rx_key = on_rx_key;
    cb->handshake_completed = on_completed;
    cb->handshake_confirmed = on_confirmed;
    cb->stream_open = on_stream_open;
    cb->recv_stream_data = on_stream_data;
    cb->acked_stream_data_offset = on_acked;
    cb->stream_reset = on_stream_reset;
    cb->stream_stop_sending = on_stop_sending;
    cb->stream_close = on_stream_close;
    cb->extend_max_local_streams_bidi = on_more_streams;
    cb->extend_max_stream_data = on_more_stream_data;
    cb->recv_datagram = on_datagram;
    cb->path_validation = on_path_validation;
    cb->recv_stateless_reset = on_stateless_reset;
}

/* ---- making ---- */

bool sw_qconn_identified(struct sw_qconn *c, const struct sw_nodeid *id)
{
    if (!sw_nodeid_valid(id))
        return false;
    if (c->dialled) {
        c->wrong_key = !sw_nodeid_eq(&c->peer, id);
        return !c->wrong_key;
    }
    c->peer = *id;
    return true;
}

static void fill_settings(const struct sw_qconn *c, ngtcp2_settings *s, ngtcp2_transport_params *p)
{
    const struct sw_quic_config *cfg = &c->q->cfg;

    ngtcp2_settings_default(s);
    s->initial_ts = sw_quic_now(c->q);
    s->initial_rtt = 100 * NGTCP2_MILLISECONDS;
    s->cc_algo = NGTCP2_CC_ALGO_CUBIC;
    s->ack_thresh = ACK_THRESHOLD;
    s->handshake_timeout = cfg->dial_ns;
    s->max_tx_udp_payload_size = c->jumbo ? QUIC_MTU_LOOPBACK : QUIC_MTU;
    /* Loopback takes any size; everywhere else it has to be found out. */
    s->no_tx_udp_payload_size_shaping = c->jumbo;
    s->no_pmtud = c->jumbo;

    ngtcp2_transport_params_default(p);
    p->initial_max_stream_data_bidi_local = cfg->stream_window;
    p->initial_max_stream_data_bidi_remote = cfg->stream_window;
    p->initial_max_data = cfg->conn_window;
    p->initial_max_streams_bidi = cfg->max_streams;
    p->max_idle_timeout = cfg->idle_ns;
    p->active_connection_id_limit = 7;
    p->max_datagram_frame_size = cfg->datagrams ? 65535 : 0;
}

static struct sw_qconn *conn_new(struct sw_quic *q)
{
    struct sw_qconn *c = SW_NEW(struct sw_qconn);

    c->q = q;
    sw_list_init(&c->dirty);
    sw_list_init(&c->event);
    sw_list_init(&c->cids);
    sw_list_init(&c->streams);
    sw_list_init(&c->sendable);
    sw_list_init(&c->blocked);
    sw_list_init(&c->stream_events);
    sw_list_init(&c->dgrams_out);
    sw_list_init(&c->dgrams_in);
    sw_list_push_back(&q->conns, &c->link);
    q->n_conns++;
    c->reset_at_ns = sw_quic_now(q);
    c->keepalive_ns = q->cfg.keepalive_ns;
    return c;
}

static void new_cid(struct sw_qconn *c, ngtcp2_cid *cid)
{
    cid->datalen = QUIC_CID_LEN;
    do
        sw_rand_bytes(cid->data, QUIC_CID_LEN);
    while (!sw_qcid_add(c, cid->data, QUIC_CID_LEN));
}

static bool only_loopback(const struct sw_qdial *d)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->route[i].relay || !sw_ip_is_loopback(&d->route[i].remote.ip))
            return false;
    return true;
}

static int start(struct sw_qconn *c, int rc, struct sw_err *err)
{
    if (rc != 0)
        return sw_err_set(err, SW_EINVAL, "cannot make a connection: %s", ngtcp2_strerror(rc));
    rc = sw_qhs_start(c, !c->dialled, err);
    if (rc == SW_OK)
        ngtcp2_conn_set_keep_alive_timeout(c->nc, c->keepalive_ns);
    return rc;
}

struct sw_qconn *sw_qconn_dial(struct sw_quic *q, const struct sw_nodeid *peer,
                               struct sw_slice alpn, const struct sw_qdial *dial,
                               struct sw_err *err)
{
    struct sw_qconn *c = conn_new(q);
    ngtcp2_callbacks cb;
    ngtcp2_settings settings;
    ngtcp2_transport_params params;
    ngtcp2_path_storage ps;
    ngtcp2_cid scid;
    ngtcp2_cid dcid;
    int rc;

    c->dialled = true;
    c->peer = *peer;
    c->alpn = sw_slice(sw_slice_dup(alpn), alpn.n);
    c->dial = SW_NEW(struct sw_qdial);
    *c->dial = *dial;
    c->dial->racing = true;
    c->jumbo = only_loopback(dial);
    c->path_now = sw_qpath_of(c, &dial->route[0], true)->id;
    sw_qpath_fill(c, sw_qpath_get(c, c->path_now), &ps);
    fill_callbacks(&cb);
    fill_settings(c, &settings, &params);
    new_cid(c, &scid);
    dcid.datalen = 18;
    sw_rand_bytes(dcid.data, dcid.datalen);
    rc = ngtcp2_conn_client_new(&c->nc, &dcid, &scid, &ps.path, NGTCP2_PROTO_VER_V1, &cb, &settings,
                                &params, NULL, c);
    if (start(c, rc, err) != SW_OK) {
        c->gone = true;
        sw_qconn_bury(c);
        sw_qconn_free(c);
        return NULL;
    }
    q->stats.dialled++;
    sw_qconn_touch(c);
    return c;
}

struct sw_qconn *sw_qconn_accept(struct sw_quic *q, const struct sw_qaccept *a,
                                 const struct sw_qroute *from)
{
    struct sw_qconn *c = conn_new(q);
    ngtcp2_callbacks cb;
    ngtcp2_settings settings;
    ngtcp2_transport_params params;
    ngtcp2_path_storage ps;
    ngtcp2_cid scid;
    ngtcp2_cid dcid;
    struct sw_err err;
    int rc;

    c->half_open = true;
    q->half_open++;
    c->jumbo = !from->relay && sw_ip_is_loopback(&from->remote.ip);
    c->path_now = sw_qpath_of(c, from, true)->id;
    c->path_told = c->path_now;
    sw_qpath_fill(c, sw_qpath_get(c, c->path_now), &ps);
    fill_callbacks(&cb);
    fill_settings(c, &settings, &params);
    new_cid(c, &scid);
    /* Later packets of the client's first flight still carry the ID it made up. */
    (void)sw_qcid_add(c, a->now_dcid, a->now_dcid_len);
    ngtcp2_cid_init(&dcid, a->scid, a->scid_len);
    ngtcp2_cid_init(&params.original_dcid, a->dcid, a->dcid_len);
    if (a->retried) {
        params.retry_scid_present = 1;
        ngtcp2_cid_init(&params.retry_scid, a->now_dcid, a->now_dcid_len);
        settings.token = (ngtcp2_vec){.base = a->token, .len = a->token_len};
    }
    params.stateless_reset_token_present = 1;
    sw_quic_reset_token(q, scid.data, scid.datalen, params.stateless_reset_token);
    rc = ngtcp2_conn_server_new(&c->nc, &dcid, &scid, &ps.path, NGTCP2_PROTO_VER_V1, &cb, &settings,
                                &params, NULL, c);
    if (start(c, rc, &err) != SW_OK) {
        sw_log_warn("quic", "cannot accept a connection: %s", err.msg);
        c->gone = true;
        sw_qconn_bury(c);
        sw_qconn_free(c);
        return NULL;
    }
    return c;
}

/* ---- events ---- */

static void on_timer(struct sw_timer *t);

void sw_qconn_rearm(struct sw_qconn *c)
{
    uint64_t now = sw_quic_now(c->q);
    uint64_t due;

    if (!c->nc)
        return;
    due = sw_min(ngtcp2_conn_get_expiry(c->nc), sw_qpath_due(c));
    if (due == UINT64_MAX)
        sw_timer_stop(c->q->loop, &c->timer);
    else
        sw_timer_start(c->q->loop, &c->timer, due > now ? due - now : 0, on_timer);
}

static void on_timer(struct sw_timer *t)
{
    struct sw_qconn *c = SW_CONTAINER_OF(t, struct sw_qconn, timer);
    uint64_t now = sw_quic_now(c->q);
    int rc;

    if (!c->nc) {
        sw_qconn_free(c);
        return;
    }
    if (ngtcp2_conn_get_expiry(c->nc) <= now) {
        rc = ngtcp2_conn_handle_expiry(c->nc, now);
        if (rc != 0)
            sw_qconn_fail_lib(c, rc);
    }
    sw_qconn_touch(c);
}

/* The TLS session is not needed any more, and is a fifth of an idle connection. */
static void drop_session(struct sw_qconn *c)
{
    if (!c->confirmed || !c->hs)
        return;
    sw_qhs_free(c->hs);
    c->hs = NULL;
}

/* A buried connection answers, ever more seldom, with its last words. */
static void answer_from_grave(struct sw_qconn *c, const struct sw_qroute *from)
{
    c->grave_heard++;
    if (!c->last_words || (c->grave_heard & (c->grave_heard - 1)) != 0)
        return;
    (void)sw_qroute_send(c->q, from, 0, c->last_words, c->last_words_n, c->last_words_n);
}

void sw_qconn_read(struct sw_qconn *c, const struct sw_qroute *from, uint8_t ecn, uint8_t *p,
                   size_t n)
{
    struct sw_qpathent *path;
    ngtcp2_path_storage ps;
    ngtcp2_pkt_info pi = {.ecn = ecn};
    int rc;

    if (!c->nc) {
        answer_from_grave(c, from);
        return;
    }
    path = c->closing ? NULL : sw_qpath_enter(c, from);
    if (!path) {
        c->q->stats.rx_dropped++;
        return;
    }
    sw_qpath_fill(c, path, &ps);
    rc = ngtcp2_conn_read_pkt(c->nc, &ps.path, &pi, p, n, sw_quic_now(c->q));
    if (c->answered)
        sw_qpath_race_won(c, from);
    if (rc != 0)
        sw_qconn_fail_lib(c, rc);
    drop_session(c);
    sw_qconn_touch(c);
}

/* ---- the end ---- */

void sw_qconn_fail(struct sw_qconn *c, enum sw_qclose_kind kind, uint64_t code, const char *text)
{
    if (c->closing || c->gone)
        return;
    c->closing = true;
    c->close_code = code;
    c->why.kind = kind;
    c->why.code = code;
    (void)snprintf(c->reason, sizeof(c->reason), "%s", text);
    c->why.text = sw_slice_str(c->reason);
    sw_qconn_note(c);
}

/* What the peer said when it closed. */
static void fail_remote(struct sw_qconn *c)
{
    ngtcp2_connection_close_error e;
    enum sw_qclose_kind kind = SW_QCLOSE_TRANSPORT;
    size_t n;

    ngtcp2_conn_get_connection_close_error(c->nc, &e);
    if (e.type == NGTCP2_CONNECTION_CLOSE_ERROR_CODE_TYPE_APPLICATION)
        kind = SW_QCLOSE_APP;
    else if (c->was_reset)
        kind = SW_QCLOSE_RESET;
    sw_qconn_fail(c, kind, e.error_code, c->was_reset ? "stateless reset" : "");
    if (!c->was_reset && e.reason) {
        n = sw_min(e.reasonlen, sizeof(c->reason) - 1);
        memcpy(c->reason, e.reason, n);
        c->why.text = sw_slice(c->reason, n);
    }
    c->quiet = true;
}

void sw_qconn_fail_lib(struct sw_qconn *c, int liberr)
{
    uint64_t code;

    if (c->closing)
        return;
    switch (liberr) {
    case NGTCP2_ERR_DRAINING:
        fail_remote(c);
        return;
    case NGTCP2_ERR_IDLE_CLOSE:
        sw_qconn_fail(c, SW_QCLOSE_IDLE, 0, "nothing was heard");
        c->quiet = true;
        return;
    case NGTCP2_ERR_HANDSHAKE_TIMEOUT:
        sw_qconn_fail(c, SW_QCLOSE_TIMEOUT, 0, "no answer in time");
        return;
    case NGTCP2_ERR_DROP_CONN:
    case NGTCP2_ERR_RETRY:
        sw_qconn_fail(c, SW_QCLOSE_FAILED, 0, "not a connection");
        c->quiet = true;
        return;
    case NGTCP2_ERR_CRYPTO:
        code = NGTCP2_CRYPTO_ERROR | ngtcp2_conn_get_tls_alert(c->nc);
        sw_qconn_fail(c, c->wrong_key ? SW_QCLOSE_IDENTITY : SW_QCLOSE_FAILED, code,
                      c->wrong_key ? "the peer has another key" : "handshake failed");
        return;
    default:
        code = ngtcp2_err_infer_quic_transport_error_code(liberr);
        sw_qconn_fail(c, SW_QCLOSE_FAILED, code, ngtcp2_strerror(liberr));
        return;
    }
}

/* Writes and keeps the close packet. */
static void say_last_words(struct sw_qconn *c)
{
    ngtcp2_connection_close_error e;
    ngtcp2_path_storage ps;
    ngtcp2_pkt_info pi;
    ngtcp2_ssize n;
    const uint8_t *text = (const uint8_t *)c->reason;
    size_t text_n = strlen(c->reason);

    ngtcp2_connection_close_error_default(&e);
    if (c->close_app)
        ngtcp2_connection_close_error_set_application_error(&e, c->close_code, text, text_n);
    else
        ngtcp2_connection_close_error_set_transport_error(&e, c->close_code, text, text_n);
    ngtcp2_path_storage_zero(&ps);
    n = ngtcp2_conn_write_connection_close(c->nc, &ps.path, &pi, c->q->tx, QUIC_MTU, &e,
                                           sw_quic_now(c->q));
    if (n <= 0)
        return;
    (void)sw_qpath_send(c, sw_qpath_id(&ps.path), 0, c->q->tx, (size_t)n, (size_t)n);
    c->last_words = sw_malloc((size_t)n);
    c->last_words_n = (size_t)n;
    memcpy(c->last_words, c->q->tx, (size_t)n);
}

static void free_dgrams(struct sw_list *l)
{
    struct sw_list *m;

    while ((m = sw_list_pop_front(l)))
        sw_free(SW_CONTAINER_OF(m, struct sw_qdgram, link));
}

void sw_qconn_bury(struct sw_qconn *c)
{
    struct sw_quic *q = c->q;
    uint64_t stay = 0;

    if (c->nc) {
        stay = 3 * ngtcp2_conn_get_pto(c->nc);
        if (c->closing && !c->quiet)
            say_last_words(c);
    }
    end_half_open(c);
    sw_list_unlink(&c->dirty);
    sw_list_unlink(&c->event);
    sw_list_unlink(&c->link);
    sw_timer_stop(q->loop, &c->timer);
    q->n_conns--;
    SW_LIST_FOREACH (it, &c->streams)
        sw_qstream_lost(SW_CONTAINER_OF(it, struct sw_qstream, link));
    if (!c->gone) {
        c->gone = true;
        if (!c->ready)
            q->stats.failed++;
        if (c->ops && c->ops->closed)
            c->ops->closed(c, &c->why);
    }
    free_dgrams(&c->dgrams_in);
    free_dgrams(&c->dgrams_out);
    sw_qhs_free(c->hs);
    c->hs = NULL;
    if (c->nc)
        ngtcp2_conn_del(c->nc);
    c->nc = NULL;
    sw_free(c->dial);
    c->dial = NULL;
    /* Its IDs stay known for a while, so that late packets are not answered as a stranger's. */
    sw_list_push_back(&q->graves, &c->link);
    sw_timer_start(q->loop, &c->timer, sw_min(stay, 3 * SW_NS_PER_S), on_timer);
}

void sw_qconn_free(struct sw_qconn *c)
{
    sw_timer_stop(c->q->loop, &c->timer);
    sw_list_unlink(&c->link);
    sw_qcid_remove_all(c);
    if (c->dialled)
        sw_slice_free(&c->alpn);
    sw_free(c->last_words);
    sw_free(c);
}

/* ---- the application's side ---- */

void sw_qconn_set_ops(struct sw_qconn *c, const struct sw_qconn_ops *ops, void *arg)
{
    c->ops = ops;
    c->arg = arg;
}

void *sw_qconn_arg(const struct sw_qconn *c)
{
    return c->arg;
}

const struct sw_nodeid *sw_qconn_peer(const struct sw_qconn *c)
{
    return &c->peer;
}

struct sw_slice sw_qconn_alpn(const struct sw_qconn *c)
{
    return c->alpn;
}

bool sw_qconn_dialled(const struct sw_qconn *c)
{
    return c->dialled;
}

uint64_t sw_qconn_rtt_ns(const struct sw_qconn *c)
{
    ngtcp2_conn_stat st;

    if (!c->nc)
        return 0;
    ngtcp2_conn_get_conn_stat(c->nc, &st);
    return st.smoothed_rtt;
}

size_t sw_qconn_streams(const struct sw_qconn *c)
{
    return c->n_streams;
}

void sw_qconn_close(struct sw_qconn *c, uint64_t code, const char *reason)
{
    if (c->closing || c->gone)
        return;
    c->close_app = true;
    sw_qconn_fail(c, SW_QCLOSE_LOCAL, code, reason ? reason : "");
}

/* The frame's own bytes, and those of the packet around it: flags, ID, number, tag. */
size_t sw_qconn_datagram_max(const struct sw_qconn *c)
{
    enum { FRAME = 3, PACKET = 1 + QUIC_CID_MAX + 4 + 16 };
    const ngtcp2_transport_params *p;
    size_t room;

    if (!c->nc || !c->ready || !c->q->cfg.datagrams)
        return 0;
    p = ngtcp2_conn_get_remote_transport_params(c->nc);
    room = ngtcp2_conn_get_path_max_tx_udp_payload_size(c->nc);
    if (!p || p->max_datagram_frame_size <= FRAME || room <= PACKET + FRAME)
        return 0;
    return sw_min(p->max_datagram_frame_size - FRAME, room - PACKET - FRAME);
}

int sw_qconn_datagram(struct sw_qconn *c, const uint8_t *p, size_t n)
{
    struct sw_qdgram *d;

    if (!c->nc || c->closing)
        return SW_ECLOSED;
    if (n > sw_qconn_datagram_max(c) || c->n_dgrams >= QUIC_DGRAMS_MAX ||
        c->dgram_bytes + n > QUIC_DGRAM_BYTES_MAX)
        return SW_ELIMIT;
    d = sw_malloc(sizeof(*d) + n);
    d->n = n;
    memcpy(d->p, p, n);
    sw_list_push_back(&c->dgrams_out, &d->link);
    c->n_dgrams++;
    c->dgram_bytes += n;
    sw_qconn_touch(c);
    return SW_OK;
}
