/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks of ngtcp2: recorded here, reported to the application later. */
#include <ngtcp2/ngtcp2.h>

#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "quic/cid.h"
#include "quic/conn.h"
#include "quic/handshake.h"
#include "quic/path_int.h"
#include "quic/send.h"
#include "quic/stateless.h"
#include "quic/stream.h"

enum { RESETS_PER_SECOND = 100 }; /* streams a peer may give up, on the average */

static void on_rand(uint8_t *p, size_t n, const ngtcp2_rand_ctx *ctx)
{
    sw_rand_bytes(p, n);
}

static int on_new_cid(ngtcp2_conn *nc, ngtcp2_cid *cid, uint8_t *token, size_t n, void *user)
{
    struct sw_qconn *c = user;

    sw_qcid_make(c, cid->data, n, false);
    cid->datalen = n;
    sw_quic_reset_token(c->q, cid->data, n, token);
    return 0;
}

static int on_remove_cid(ngtcp2_conn *nc, const ngtcp2_cid *cid, void *user)
{
    sw_qcid_remove(user, cid->data, cid->datalen);
    return 0;
}

/* A stateless reset is known by its token alone, so these lead to their connection, too. */
static int on_peer_cid(ngtcp2_conn *nc, int type, uint64_t seq, const ngtcp2_cid *cid,
                       const uint8_t *token, void *user)
{
    struct sw_qconn *c = user;

    /* ngtcp2 activates the first ID when the handshake is over: see too_early in handshake_keys.c.
     */
    c->shake.through = true;
    if (!token)
        return 0;
    if (type == NGTCP2_CONNECTION_ID_STATUS_TYPE_ACTIVATE)
        sw_qcid_add_token(c, token);
    else
        sw_qcid_remove_token(c, token);
    return 0;
}

static int on_rx_key(ngtcp2_conn *nc, ngtcp2_crypto_level level, void *user)
{
    struct sw_qconn *c = user;

    if (level == NGTCP2_CRYPTO_LEVEL_HANDSHAKE)
        c->shake.answered = true;
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
    sw_log_limited(&c->q->limit.refused_lines, sw_quic_now(c->q), SW_LOG_INFO, "quic",
                   "refused node %s: %s", sw_nodeid_short(&c->peer, id), why);
    sw_qconn_fail(c, SW_QCLOSE_LOCAL, NGTCP2_CONNECTION_REFUSED, why);
}

/* On the server this also confirms the handshake; a client waits for HANDSHAKE_DONE. */
static int on_completed(ngtcp2_conn *nc, void *user)
{
    const ngtcp2_transport_params *params;
    struct sw_qconn *c = user;
    struct sw_quic *q = c->q;

    sw_qconn_end_half_open(c);
    if (c->dialled)
        return 0;
    if (q->conn.n_known >= q->cfg.max_conns) {
        refuse(c, "too many connections");
        return 0;
    }
    c->shake.known = true;
    q->conn.n_known++;
    c->alpn = own_alpn(q, sw_qhs_alpn(c->hs));
    c->shake.confirmed = true;
    params = ngtcp2_conn_get_remote_transport_params(nc);
    if (params && params->max_udp_payload_size <= 1500)
        c->jumbo = false;
    if (q->cfg.admit && !q->cfg.admit(q->cfg.arg, &c->peer, c->alpn)) {
        refuse(c, "not admitted");
        return 0;
    }
    c->shake.complete = true;
    sw_qconn_note(c);
    return 0;
}

static int on_confirmed(ngtcp2_conn *nc, void *user)
{
    struct sw_qconn *c = user;

    c->shake.confirmed = true;
    if (c->dialled) {
        c->shake.complete = true;
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
    struct sw_qconn *c = user;

    c->progress_ns = sw_quic_now(c->q);
    if (c->hole.found && c->hole.mute)
        sw_qconn_hole_retry(c);
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
    uint64_t passed = (now - c->resets.at_ns) / (SW_NS_PER_S / RESETS_PER_SECOND);

    if (passed > 0) {
        c->resets.used = passed >= c->resets.used ? 0 : c->resets.used - (uint32_t)passed;
        c->resets.at_ns = now;
    }
    c->q->stats.resets++;
    if (++c->resets.used > sw_max(c->q->cfg.max_streams, RESETS_PER_SECOND) && !c->end.closing) {
        sw_log_warn("quic", "closing a connection: too many reset streams");
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

static int on_stream_close(ngtcp2_conn *nc, uint32_t flags, int64_t id, uint64_t code, void *user,
                           void *stream)
{
    struct sw_qstream *s = stream;
    struct sw_qconn *c = user;

    if (s) {
        /* ngtcp2 does not say that the peer stopped us; if we were not through, it did. */
        if (!s->tx.shut && !(s->tx.fin_sent && s->tx.acked == s->tx.end))
            sw_qstream_was_stopped(s, code);
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

    if (c->streams.want_room) {
        c->streams.want_room = false;
        c->streams.room = true;
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
        sw_list_push_back(&c->streams.sendable, &s->sendq);
    }
    return 0;
}

static int on_datagram(ngtcp2_conn *nc, uint32_t flags, const uint8_t *p, size_t n, void *user)
{
    struct sw_qconn *c = user;

    if (c->gone || n > SW_DGRAM_MAX)
        return 0;
    sw_qdgram_add(&c->dgrams.in, p, n);
    sw_qconn_note(c);
    return 0;
}

static int on_path_validation(ngtcp2_conn *nc, uint32_t flags, const ngtcp2_path *path,
                              ngtcp2_path_validation_result res, void *user)
{
    struct sw_qconn *c = user;
    bool ok = res == NGTCP2_PATH_VALIDATION_RESULT_SUCCESS;

    if (ok)
        c->paths.valid = sw_qpath_id(path);
    sw_qpath_validated(c, sw_qpath_id(path), ok);
    return 0;
}

static int on_stateless_reset(ngtcp2_conn *nc, const ngtcp2_pkt_stateless_reset *sr, void *user)
{
    struct sw_qconn *c = user;

    c->was_reset = true;
    return 0;
}

void sw_qconn_callbacks(struct ngtcp2_callbacks *cb)
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
    cb->dcid_status = on_peer_cid;
    cb->stream_close = on_stream_close;
    cb->extend_max_local_streams_bidi = on_more_streams;
    cb->extend_max_stream_data = on_more_stream_data;
    cb->recv_datagram = on_datagram;
    cb->path_validation = on_path_validation;
    cb->recv_stateless_reset = on_stateless_reset;
}
