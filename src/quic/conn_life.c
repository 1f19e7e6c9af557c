/* SPDX-License-Identifier: Apache-2.0 */
/* A connection: made, and fed with packets and timers. */
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "quic/cid.h"
#include "quic/conn.h"
#include "quic/endpoint.h"
#include "quic/handshake.h"
#include "quic/pace.h"
#include "quic/path_int.h"
#include "quic/send.h"
#include "quic/stateless.h"

enum { ACK_SHARE = 8 }; /* of a round trip, as ngtcp2 delays acknowledgements */

#define EARLY_PTO_NS (200 * SW_NS_PER_MS) /* between two of them */
#define ACK_MIN_NS   SW_NS_PER_MS
#define ACK_MAX_NS   (20 * SW_NS_PER_MS) /* peers expect acknowledgements within 25 ms */

/* ---- asking for attention ---- */

void sw_qconn_touch(struct sw_qconn *c)
{
    if (!c->nc || sw_list_linked(&c->dirty))
        return;
    sw_list_push_back(&c->q->dirty, &c->dirty);
    sw_quic_wake(c->q);
}

void sw_qconn_touch_delayed(struct sw_qconn *c)
{
    uint64_t wait;

    if (!c->nc || c->end.closing || sw_list_linked(&c->dirty) || c->heard.ack_due_ns)
        return;
    wait = sw_min(sw_max(sw_qconn_rtt_ns(c) / ACK_SHARE, ACK_MIN_NS), ACK_MAX_NS);
    c->heard.ack_due_ns = sw_quic_now(c->q) + wait;
    if (!sw_timer_running(&c->timer) || c->timer.deadline_ns > c->heard.ack_due_ns)
        sw_timer_start(c->q->loop, &c->timer, wait, sw_qconn_on_timer);
}

void sw_qconn_note(struct sw_qconn *c)
{
    if (c->gone || sw_list_linked(&c->event))
        return;
    sw_list_push_back(&c->q->events, &c->event);
    sw_quic_wake(c->q);
}

/* ---- making ---- */

bool sw_qconn_identified(struct sw_qconn *c, const struct sw_nodeid *id)
{
    if (!sw_nodeid_valid(id))
        return false;
    if (c->dialled) {
        c->shake.wrong_key = !sw_nodeid_eq(&c->peer, id);
        return !c->shake.wrong_key;
    }
    c->peer = *id;
    return true;
}

const char *const sw_qcc_names[] = {"bbr", "cubic", "bbr2", NULL};

static ngtcp2_cc_algo congestion_control(enum sw_qcc cc)
{
    switch (cc) {
    case SW_QCC_CUBIC:
        return NGTCP2_CC_ALGO_CUBIC;
    case SW_QCC_BBR2:
        return NGTCP2_CC_ALGO_BBR2;
    case SW_QCC_BBR:
        break;
    }
    return NGTCP2_CC_ALGO_BBR;
}

static void fill_settings(const struct sw_qconn *c, ngtcp2_settings *s, ngtcp2_transport_params *p)
{
    const struct sw_quic_config *cfg = &c->q->cfg;

    ngtcp2_settings_default(s);
    s->initial_ts = sw_quic_now(c->q);
    s->initial_rtt = 100 * NGTCP2_MILLISECONDS;
    s->cc_algo = congestion_control(cfg->congestion);
    /* Every write pass acknowledges all that was received; may_delay_ack decides when one is made.
     */
    s->ack_thresh = 1;
    s->handshake_timeout = cfg->dial_ns;
    s->max_tx_udp_payload_size = c->jumbo ? QUIC_MTU_LOOPBACK : QUIC_MTU;
    /* Loopback takes any size; everywhere else it has to be found out. */
    s->no_tx_udp_payload_size_shaping = c->jumbo;
    s->no_pmtud = c->jumbo;

    ngtcp2_transport_params_default(p);
    p->initial_max_stream_data_bidi_local = cfg->first_window;
    p->initial_max_stream_data_bidi_remote = cfg->first_window;
    p->initial_max_data = cfg->conn_window;
    p->initial_max_streams_bidi = cfg->max_streams;
    p->max_idle_timeout = cfg->idle_ns;
    p->active_connection_id_limit = 7;
    p->max_datagram_frame_size = cfg->datagrams ? 65535 : 0;
    /* The dialling side may migrate: it accepts no packets that fit only into the present path. */
    if (c->dialled && !c->jumbo)
        p->max_udp_payload_size = QUIC_MTU;
}

static struct sw_qconn *conn_new(struct sw_quic *q)
{
    struct sw_qconn *c = SW_NEW(struct sw_qconn);

    c->q = q;
    sw_list_init(&c->half);
    sw_list_init(&c->dirty);
    sw_list_init(&c->event);
    sw_list_init(&c->cids);
    sw_list_init(&c->tokens);
    sw_list_init(&c->streams.all);
    sw_list_init(&c->streams.sendable);
    sw_list_init(&c->streams.blocked);
    sw_list_init(&c->streams.events);
    sw_list_init(&c->dgrams.out);
    sw_list_init(&c->dgrams.in);
    sw_list_push_back(&q->conns, &c->link);
    q->conn.n++;
    c->resets.at_ns = sw_quic_now(q);
    c->heard.at_ns = sw_quic_now(q);
    c->keepalive_ns = q->cfg.keepalive_ns;
    return c;
}

static void new_cid(struct sw_qconn *c, ngtcp2_cid *cid)
{
    cid->datalen = QUIC_CID_LEN;
    sw_qcid_make(c, cid->data, QUIC_CID_LEN, true);
}

static bool only_loopback(const struct sw_qroutes *d)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->route[i].relay || !sw_ip_is_loopback(&d->route[i].remote.ip))
            return false;
    return true;
}

/* What a connection of the library is made of, on the present path. */
struct lib_setup {
    ngtcp2_callbacks cb;
    ngtcp2_settings settings;
    ngtcp2_transport_params params;
    ngtcp2_path_storage ps;
    ngtcp2_cid scid;
    ngtcp2_cid dcid;
};

static void lib_setup(struct sw_qconn *c, struct lib_setup *s)
{
    sw_qpath_fill(sw_qpath_get(c, c->paths.now), &s->ps);
    sw_qconn_callbacks(&s->cb);
    fill_settings(c, &s->settings, &s->params);
    new_cid(c, &s->scid);
}

/* rc: of making the connection of the library. A failure frees c. */
static int start(struct sw_qconn *c, int rc, struct sw_err *err)
{
    if (rc != 0)
        rc = sw_err_set(err, SW_EINVAL, "cannot make a connection: %s", ngtcp2_strerror(rc));
    else
        rc = sw_qhs_start(c, !c->dialled, err);
    if (rc == SW_OK) {
        ngtcp2_conn_set_keep_alive_timeout(c->nc, c->keepalive_ns);
        return rc;
    }
    c->gone = true;
    sw_qconn_bury(c);
    sw_qconn_free(c);
    return rc;
}

struct sw_qconn *sw_qconn_dial(struct sw_quic *q, const struct sw_nodeid *peer,
                               struct sw_slice alpn, const struct sw_qroutes *dial,
                               struct sw_err *err)
{
    struct sw_qconn *c = conn_new(q);
    struct lib_setup s;
    int rc;

    c->dialled = true;
    sw_qids_init(&c->ids, false);
    c->shake.known = true;
    q->conn.n_known++;
    c->peer = *peer;
    c->alpn = sw_slice_copy(alpn);
    c->dial = SW_NEW(struct sw_qroutes);
    *c->dial = *dial;
    c->dial->racing = true;
    c->jumbo = only_loopback(dial);
    c->paths.now = sw_qpath_of(c, &dial->route[0], true)->id;
    lib_setup(c, &s);
    s.dcid.datalen = 18;
    sw_rand_bytes(s.dcid.data, s.dcid.datalen);
    rc = ngtcp2_conn_client_new(&c->nc, &s.dcid, &s.scid, &s.ps.path, NGTCP2_PROTO_VER_V1, &s.cb,
                                &s.settings, &s.params, NULL, c);
    if (start(c, rc, err) != SW_OK)
        return NULL;
    q->stats.dialled++;
    sw_qconn_touch(c);
    return c;
}

struct sw_qconn *sw_qconn_accept(struct sw_quic *q, const struct sw_qaccept *a,
                                 const struct sw_qroute *from)
{
    struct sw_qconn *c = conn_new(q);
    struct lib_setup s;
    struct sw_err err;
    int rc;

    c->shake.half_open = true;
    sw_qids_init(&c->ids, true);
    q->conn.half_open++;
    sw_list_push_back(&q->conn.halves, &c->half);
    c->jumbo = !from->relay && sw_ip_is_loopback(&from->remote.ip);
    c->paths.now = sw_qpath_of(c, from, true)->id;
    c->paths.told = c->paths.now;
    c->paths.valid = c->paths.now; /* by the end of the handshake */
    lib_setup(c, &s);
    /* Later packets of the client's first flight still carry the ID it made up. */
    (void)sw_qcid_add(c, a->now_dcid, a->now_dcid_len);
    ngtcp2_cid_init(&s.dcid, a->scid, a->scid_len);
    ngtcp2_cid_init(&s.params.original_dcid, a->dcid, a->dcid_len);
    if (a->retried) {
        s.params.retry_scid_present = 1;
        ngtcp2_cid_init(&s.params.retry_scid, a->now_dcid, a->now_dcid_len);
        s.settings.token = (ngtcp2_vec){.base = a->token, .len = a->token_len};
    }
    s.params.stateless_reset_token_present = 1;
    sw_quic_reset_token(q, s.scid.data, s.scid.datalen, s.params.stateless_reset_token);
    rc = ngtcp2_conn_server_new(&c->nc, &s.dcid, &s.scid, &s.ps.path, NGTCP2_PROTO_VER_V1, &s.cb,
                                &s.settings, &s.params, NULL, c);
    if (start(c, rc, &err) == SW_OK)
        return c;
    sw_log_limited(&q->limit.refused_lines, sw_quic_now(q), SW_LOG_WARN, "quic",
                   "cannot accept a connection: %s", err.msg);
    return NULL;
}

/* ---- events ---- */

void sw_qconn_rearm(struct sw_qconn *c)
{
    uint64_t now = sw_quic_now(c->q);
    uint64_t due;

    if (!c->nc)
        return;
    c->heard.ack_due_ns = 0;
    due = sw_min(sw_min(ngtcp2_conn_get_expiry(c->nc), sw_qpace_due(c)),
                 sw_min(sw_qpath_due(c), sw_qsilence_due(c)));
    if (due == UINT64_MAX)
        sw_timer_stop(c->q->loop, &c->timer);
    else
        sw_timer_start(c->q->loop, &c->timer, due > now ? due - now : 0, sw_qconn_on_timer);
}

void sw_qconn_on_timer(struct sw_timer *t)
{
    struct sw_qconn *c = SW_CONTAINER_OF(t, struct sw_qconn, timer);
    uint64_t now = sw_quic_now(c->q);
    int rc;

    if (!c->nc) {
        sw_qconn_free(c);
        return;
    }
    if (c->end.closing) {
        sw_qconn_bury(c);
        return;
    }
    if (ngtcp2_conn_get_expiry(c->nc) <= now) {
        rc = ngtcp2_conn_handle_expiry(c->nc, now);
        if (rc != 0)
            sw_qconn_fail_lib(c, rc);
    }
    sw_qsilence_check(c);
    sw_qconn_touch(c);
}

/* The TLS session is not needed any more, and is a fifth of an idle connection. */
static void drop_session(struct sw_qconn *c)
{
    if (!c->shake.confirmed || !c->hs)
        return;
    sw_qhs_free(c->hs);
    c->hs = NULL;
}

/* A buried connection answers, ever more seldom, with its CONNECTION_CLOSE. */
static void answer_from_grave(struct sw_qconn *c, const struct sw_qroute *from)
{
    c->end.heard++;
    if (!c->end.words || (c->end.heard & (c->end.heard - 1)) != 0)
        return;
    (void)sw_qroute_send(c->q, from, 0, c->end.words, c->end.words_n, c->end.words_n);
}

/*
 * The peer validates another path, most likely because the present one is dead. ngtcp2 writes no
 * PATH_RESPONSE while the congestion window is used up, as it is for ever when nothing is
 * acknowledged, and gives up a connection ID for every challenge it leaves unanswered. A probe
 * timeout, taken early, lets two packets pass. Before the packet is read: the timeout forgets what
 * was received on paths that are not in use. So it is the second packet of a path that has this
 * effect, after a genuine one; challenges come in pairs, and again.
 */
static void make_room_to_answer(struct sw_qconn *c)
{
    uint64_t now = sw_quic_now(c->q);
    ngtcp2_conn_stat st;

    ngtcp2_conn_get_conn_stat(c->nc, &st);
    if (st.bytes_in_flight < st.cwnd || st.loss_detection_timer == UINT64_MAX ||
        now - c->early_pto_ns < EARLY_PTO_NS)
        return;
    c->early_pto_ns = now;
    (void)ngtcp2_conn_handle_expiry(c->nc, sw_max(now, st.loss_detection_timer));
}

/*
 * ngtcp2's own delay is an eighth of the round trip: on a near path a timer that is due at once,
 * and packets sent before it carry no acknowledgement. A request and its answer took four packets.
 */
static bool may_delay_ack(const struct sw_qconn *c, const struct sw_qpathent *path)
{
    return c->shake.told && c->shake.confirmed && path->id == c->paths.now && !c->heard.ack_now &&
           c->heard.n < QUIC_ACK_PACKETS && c->renew.until_ns == 0 &&
           sw_list_empty(&c->streams.blocked) && sw_list_empty(&c->dgrams.out) &&
           (sw_list_empty(&c->streams.sendable) || c->pace.at_ns > sw_quic_now(c->q));
}

void sw_qconn_read(struct sw_qconn *c, const struct sw_qroute *from, uint8_t ecn, uint8_t *p,
                   size_t n)
{
    const ngtcp2_path *as;
    struct sw_qpathent *path;
    ngtcp2_pkt_info pi = {.ecn = ecn};
    int rc;

    if (!c->nc) {
        answer_from_grave(c, from);
        return;
    }
    path = c->end.closing ? NULL : sw_qpath_enter(c, from);
    if (!path) {
        c->q->stats.rx_dropped++;
        return;
    }
    as = sw_qpath_lib(c, path);
    if (!c->dialled && c->shake.told && path->id != c->paths.now && path->genuine)
        make_room_to_answer(c);
    c->heard.genuine = !c->shake.told;
    sw_qkeys_reading(c);
    rc = ngtcp2_conn_read_pkt(c->nc, as, &pi, p, n, sw_quic_now(c->q));
    sw_qkeys_reading(NULL);
    if (!c->dialled)
        sw_qpath_follow(c);
    if (c->shake.answered)
        sw_qpath_race_won(c, from);
    if (rc != 0)
        sw_qconn_fail_lib(c, rc);
    /* A packet that only has a known connection ID must not make a dead path look alive. */
    if (c->heard.genuine) {
        path->genuine = true;
        c->heard.since_write = true;
        c->heard.at_ns = sw_quic_now(c->q);
        sw_qsilence_end(c);
    }
    drop_session(c);
    c->heard.n = (uint8_t)sw_min(c->heard.n + 1, QUIC_ACK_PACKETS);
    c->heard.ack_now |= ecn == NGTCP2_ECN_CE;
    if (may_delay_ack(c, path))
        sw_qconn_touch_delayed(c);
    else
        sw_qconn_touch(c);
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

uint64_t sw_qconn_silence_ns(const struct sw_qconn *c)
{
    return sw_quic_now(c->q) - c->heard.at_ns;
}

size_t sw_qconn_streams(const struct sw_qconn *c)
{
    return c->streams.n;
}

void sw_qconn_close(struct sw_qconn *c, uint64_t code, const char *reason)
{
    if (c->end.closing || c->gone)
        return;
    c->end.app = true;
    sw_qconn_fail(c, SW_QCLOSE_LOCAL, code, reason ? reason : "");
}

/* The frame's own bytes, and those of the packet around it: flags, ID, number, tag. */
size_t sw_qconn_datagram_max(const struct sw_qconn *c)
{
    enum { FRAME = 3, PACKET = 1 + QUIC_CID_MAX + 4 + 16 };
    const ngtcp2_transport_params *p;
    size_t room;

    if (!c->nc || !c->shake.told || !c->q->cfg.datagrams)
        return 0;
    p = ngtcp2_conn_get_remote_transport_params(c->nc);
    room = sw_qconn_packet_max(c, ngtcp2_conn_get_path_max_tx_udp_payload_size(c->nc));
    if (!p || p->max_datagram_frame_size <= FRAME || room <= PACKET + FRAME)
        return 0;
    return sw_min(p->max_datagram_frame_size - FRAME, room - PACKET - FRAME);
}

void sw_qdgram_add(struct sw_list *l, const uint8_t *p, size_t n)
{
    struct sw_qdgram *d = sw_malloc(sizeof(*d) + n);

    d->n = n;
    memcpy(d->p, p, n);
    sw_list_push_back(l, &d->link);
}

int sw_qconn_datagram(struct sw_qconn *c, const uint8_t *p, size_t n)
{
    if (!c->nc || c->end.closing)
        return SW_ECLOSED;
    if (n > sw_qconn_datagram_max(c) || c->dgrams.n >= QUIC_DGRAMS_MAX ||
        c->dgrams.bytes + n > QUIC_DGRAM_BYTES_MAX)
        return SW_ELIMIT;
    sw_qdgram_add(&c->dgrams.out, p, n);
    c->dgrams.n++;
    c->dgrams.bytes += n;
    sw_qconn_touch(c);
    return SW_OK;
}
