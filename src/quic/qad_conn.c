/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of address discovery: ngtcp2 with the frame it does not know put in and out. */
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/rand.h"
#include "base/time.h"
#include "quic/qad_int.h"

enum {
    INITIAL_RTT_MS = 111,
    KEEPALIVE_S = 25,
    IDLE_S = 35,
    HANDSHAKE_S = 5, /* of a client at our server */
    WRITES_MAX = 16, /* packets of one turn */
    SEQ_MAX = 0x3fffffff,
    AGAIN_MS = 200,    /* what is not acknowledged is sent again after this much, */
    AGAIN_DOUBLED = 6, /* and then twice as much, so often */
};

static void on_timer(struct sw_timer *t);

/* ---- the seal ---- */

static bool is_short(const uint8_t *aad, size_t n)
{
    return n > 0 && !(aad[0] & 0x80);
}

static int on_encrypt(uint8_t *out, const ngtcp2_crypto_aead *aead,
                      const ngtcp2_crypto_aead_ctx *ctx, const uint8_t *p, size_t n,
                      const uint8_t *nonce, size_t nonce_n, const uint8_t *aad, size_t aad_n)
{
    if (is_short(aad, aad_n)) {
        if (out != p)
            memmove(out, p, n);
        p = out;
        if (!sw_qad_to_wire(out, n))
            return NGTCP2_ERR_CALLBACK_FAILURE;
    }
    return ngtcp2_crypto_encrypt_cb(out, aead, ctx, p, n, nonce, nonce_n, aad, aad_n);
}

static int on_decrypt(uint8_t *out, const ngtcp2_crypto_aead *aead,
                      const ngtcp2_crypto_aead_ctx *ctx, const uint8_t *p, size_t n,
                      const uint8_t *nonce, size_t nonce_n, const uint8_t *aad, size_t aad_n)
{
    int rc = ngtcp2_crypto_decrypt_cb(out, aead, ctx, p, n, nonce, nonce_n, aad, aad_n);

    if (rc == 0 && is_short(aad, aad_n) && !sw_qad_from_wire(out, n - aead->max_overhead))
        return NGTCP2_ERR_DECRYPT;
    return rc;
}

/* ---- what ngtcp2 tells ---- */

static void on_rand(uint8_t *p, size_t n, const ngtcp2_rand_ctx *ctx)
{
    (void)ctx;
    sw_rand_bytes(p, n);
}

static void new_cid(struct sw_qadc *c, ngtcp2_cid *cid, size_t n)
{
    cid->datalen = n;
    do
        sw_rand_bytes(cid->data, n);
    while (!c->ops->cid(c, cid->data, n));
}

static int on_new_cid(ngtcp2_conn *nc, ngtcp2_cid *cid, uint8_t *token, size_t n, void *user)
{
    (void)nc;
    new_cid(user, cid, n);
    sw_rand_bytes(token, NGTCP2_STATELESS_RESET_TOKENLEN); /* we never send resets */
    return 0;
}

static int on_cid_gone(ngtcp2_conn *nc, const ngtcp2_cid *cid, void *user)
{
    struct sw_qadc *c = user;

    (void)nc;
    c->ops->cid_gone(c, cid->data, cid->datalen);
    return 0;
}

static int on_crypto(ngtcp2_conn *nc, ngtcp2_crypto_level level, uint64_t offset, const uint8_t *p,
                     size_t n, void *user)
{
    const struct sw_qadc *c = user;

    if (c->tls)
        return ngtcp2_crypto_recv_crypto_data_cb(nc, level, offset, p, n, user);
    /* Session tickets of a server, which we do not use; a client has nothing more to say. */
    return c->server ? NGTCP2_ERR_CRYPTO : 0;
}

static int on_completed(ngtcp2_conn *nc, void *user)
{
    struct sw_qadc *c = user;

    (void)nc;
    c->established = true;
    return 0;
}

/* Late ones are not news: the newest address counts (as in iroh). */
static int on_report(ngtcp2_conn *nc, uint32_t flags, const uint8_t *p, size_t n, void *user)
{
    struct sw_qadc *c = user;
    struct sw_addr at;
    uint64_t seq;

    (void)nc;
    (void)flags;
    if (c->server || !sw_qad_get_report(p, n, &at, &seq))
        return NGTCP2_ERR_CALLBACK_FAILURE;
    if (seq < c->observed_seq)
        return 0;
    c->fresh = c->fresh || c->observed_seq == 0 || !sw_addr_eq(&at, &c->observed);
    c->observed = at;
    c->observed_seq = seq + 1;
    return 0;
}

static int on_said_acked(ngtcp2_conn *nc, uint64_t id, void *user)
{
    struct sw_qadc *c = user;

    (void)nc;
    if (id == c->seq)
        c->unacked = false;
    return 0;
}

static int on_said_lost(ngtcp2_conn *nc, uint64_t id, void *user)
{
    struct sw_qadc *c = user;

    (void)nc;
    if (id == c->seq && c->unacked)
        c->due = true;
    return 0;
}

static void fill_callbacks(const struct sw_qadc *c, ngtcp2_callbacks *cb)
{
    *cb = (ngtcp2_callbacks){
        .client_initial = ngtcp2_crypto_client_initial_cb,
        .recv_client_initial = ngtcp2_crypto_recv_client_initial_cb,
        .recv_crypto_data = on_crypto,
        .handshake_completed = on_completed,
        .encrypt = on_encrypt,
        .decrypt = c->server ? ngtcp2_crypto_decrypt_cb : on_decrypt,
        .hp_mask = ngtcp2_crypto_hp_mask_cb,
        .recv_retry = ngtcp2_crypto_recv_retry_cb,
        .rand = on_rand,
        .get_new_connection_id = on_new_cid,
        .remove_connection_id = on_cid_gone,
        .update_key = ngtcp2_crypto_update_key_cb,
        .delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
        .delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
        .get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
        .version_negotiation = ngtcp2_crypto_version_negotiation_cb,
        .recv_datagram = on_report,
        .ack_datagram = on_said_acked,
        .lost_datagram = on_said_lost,
    };
}

static void fill_settings(const struct sw_qadc *c, ngtcp2_settings *s, ngtcp2_transport_params *p)
{
    ngtcp2_settings_default(s);
    s->initial_ts = sw_loop_now(c->loop);
    s->initial_rtt = INITIAL_RTT_MS * NGTCP2_MILLISECONDS;
    s->max_tx_udp_payload_size = QAD_PACKET;
    s->no_pmtud = 1;
    s->handshake_timeout = HANDSHAKE_S * NGTCP2_SECONDS;
    ngtcp2_transport_params_default(p);
    p->max_idle_timeout = IDLE_S * NGTCP2_SECONDS;
    p->active_connection_id_limit = 4;
    /* Not said to the peer (handshake_qad.c): ngtcp2 takes reports as DATAGRAM frames. */
    p->max_datagram_frame_size = c->server ? 0 : SW_QAD_DATAGRAM_FRAME;
}

static void fill_path(ngtcp2_path_storage *ps, const struct sw_addr *local,
                      const struct sw_addr *remote)
{
    struct sockaddr_storage l;
    struct sockaddr_storage r;
    socklen_t ln = sw_addr_to_sockaddr(local, &l);
    socklen_t rn = sw_addr_to_sockaddr(remote, &r);

    ngtcp2_path_storage_init(ps, (const ngtcp2_sockaddr *)&l, ln, (const ngtcp2_sockaddr *)&r, rn,
                             NULL);
}

static struct sw_addr addr_of(const ngtcp2_addr *a)
{
    struct sockaddr_storage ss = {0};

    memcpy(&ss, a->addr, sw_min(a->addrlen, sizeof(ss)));
    return sw_addr_from_sockaddr(&ss);
}

/* ---- the end ---- */

static void end(struct sw_qadc *c, bool failed, const char *why)
{
    if (c->ended)
        return;
    c->ended = true;
    c->failed = failed;
    if (!c->why[0])
        (void)snprintf(c->why, sizeof(c->why), "%s", why);
    sw_timer_stop(c->loop, &c->timer);
}

static void send_close(struct sw_qadc *c, const ngtcp2_connection_close_error *e)
{
    ngtcp2_path_storage ps;
    ngtcp2_pkt_info pi;
    uint8_t buf[QAD_PACKET];
    ngtcp2_ssize n;
    struct sw_addr local;
    struct sw_addr to;

    ngtcp2_path_storage_zero(&ps);
    n = ngtcp2_conn_write_connection_close(c->nc, &ps.path, &pi, buf, sizeof(buf), e,
                                           sw_loop_now(c->loop));
    if (n <= 0)
        return;
    local = addr_of(&ps.path.local);
    to = addr_of(&ps.path.remote);
    c->ops->send(c, &to, &local.ip, buf, (size_t)n);
}

static void fail(struct sw_qadc *c, int liberr)
{
    ngtcp2_connection_close_error e;
    char text[QAD_WHY];

    switch (liberr) {
    case NGTCP2_ERR_DRAINING:
        ngtcp2_conn_get_connection_close_error(c->nc, &e);
        (void)snprintf(text, sizeof(text), "closed by the peer, code %#llx%s%.*s",
                       (unsigned long long)e.error_code, e.reasonlen ? ": " : "",
                       (int)sw_min(e.reasonlen, 80), e.reason ? (const char *)e.reason : "");
        /* Endpoints of iroh that end close everything with code 0, and not with QAD's 1. */
        end(c, e.type == NGTCP2_CONNECTION_CLOSE_ERROR_CODE_TYPE_TRANSPORT && e.error_code != 0,
            text);
        return;
    case NGTCP2_ERR_IDLE_CLOSE:
        end(c, !c->established, "no answer");
        return;
    case NGTCP2_ERR_HANDSHAKE_TIMEOUT:
        end(c, true, "handshake not finished in time");
        return;
    case NGTCP2_ERR_DROP_CONN:
    case NGTCP2_ERR_RETRY:
        end(c, true, "not a connection");
        return;
    case NGTCP2_ERR_CRYPTO:
        ngtcp2_connection_close_error_set_transport_error_tls_alert(
            &e, ngtcp2_conn_get_tls_alert(c->nc), NULL, 0);
        (void)snprintf(text, sizeof(text), "TLS handshake failed, alert %u",
                       ngtcp2_conn_get_tls_alert(c->nc));
        break;
    default:
        ngtcp2_connection_close_error_set_transport_error_liberr(&e, liberr, NULL, 0);
        (void)snprintf(text, sizeof(text), "%s", ngtcp2_strerror(liberr));
        break;
    }
    send_close(c, &e);
    end(c, true, text);
}

void sw_qadc_close(struct sw_qadc *c)
{
    static const char reason[] = "finished";
    ngtcp2_connection_close_error e;

    if (!c->nc || c->ended)
        return;
    ngtcp2_connection_close_error_set_application_error(
        &e, QAD_CLOSE_FINISHED, (const uint8_t *)reason, sizeof(reason) - 1);
    send_close(c, &e);
    end(c, false, "closed");
}

void sw_qadc_done(struct sw_qadc *c)
{
    sw_timer_stop(c->loop, &c->timer);
    sw_qad_tls_free(c);
    ngtcp2_conn_del(c->nc);
    c->nc = NULL;
}

/* ---- turns ---- */

static void say(struct sw_qadc *c)
{
    c->seq = (c->seq + 1) & SEQ_MAX;
    c->due = true;
    c->unacked = true;
    c->tries = 0;
}

/* The address a client is seen at changed, or is known for the first time. */
static void check_report(struct sw_qadc *c)
{
    struct sw_addr now;

    if (!c->server || !c->established || c->ended ||
        (c->peer_role != SW_QAD_RECEIVES && c->peer_role != SW_QAD_BOTH))
        return;
    now = addr_of(&ngtcp2_conn_get_path(c->nc)->remote);
    if (sw_addr_eq(&now, &c->reported))
        return;
    c->reported = now;
    say(c);
}

static ngtcp2_ssize write_one(struct sw_qadc *c, ngtcp2_path_storage *ps, uint8_t *out, size_t cap)
{
    uint8_t frame[SW_QAD_REPORT_MAX];
    ngtcp2_vec v = {.base = frame, .len = sizeof(sw_qad_ping)};
    ngtcp2_pkt_info pi;
    uint64_t now = sw_loop_now(c->loop);
    int accepted = 0;
    ngtcp2_ssize n;

    if (!c->due)
        return ngtcp2_conn_write_pkt(c->nc, &ps->path, &pi, out, cap, now);
    if (c->server)
        v.len = sw_qad_put_report(frame, &c->reported, c->seq);
    else
        memcpy(frame, sw_qad_ping, sizeof(sw_qad_ping));
    n = ngtcp2_conn_writev_datagram(c->nc, &ps->path, &pi, out, cap, &accepted,
                                    NGTCP2_WRITE_DATAGRAM_FLAG_NONE, c->seq, &v, 1, now);
    if (accepted) {
        c->due = false;
        c->again_ns = now + (sw_max(3 * sw_qadc_rtt_ns(c), AGAIN_MS * SW_NS_PER_MS)
                             << sw_min(c->tries, AGAIN_DOUBLED));
        c->tries = (uint8_t)sw_min(c->tries + 1, AGAIN_DOUBLED);
    }
    return n;
}

static void write_all(struct sw_qadc *c)
{
    for (int i = 0; i < WRITES_MAX && !c->ended; i++) {
        uint8_t buf[QAD_PACKET];
        ngtcp2_path_storage ps;
        struct sw_addr local;
        struct sw_addr to;
        ngtcp2_ssize n;

        ngtcp2_path_storage_zero(&ps);
        n = write_one(c, &ps, buf, sizeof(buf));
        if (n < 0)
            fail(c, (int)n);
        if (n <= 0)
            return;
        local = addr_of(&ps.path.local);
        to = addr_of(&ps.path.remote);
        c->ops->send(c, &to, &local.ip, buf, (size_t)n);
    }
}

static void rearm(struct sw_qadc *c)
{
    uint64_t now = sw_loop_now(c->loop);
    uint64_t due = c->ended ? UINT64_MAX : ngtcp2_conn_get_expiry(c->nc);

    if (!c->server && c->established && !c->ended) {
        if (c->ping_ns == 0)
            c->ping_ns = now + KEEPALIVE_S * SW_NS_PER_S;
        due = sw_min(due, c->ping_ns);
    }
    if (c->unacked && !c->due && !c->ended)
        due = sw_min(due, c->again_ns);
    if (due == UINT64_MAX)
        sw_timer_stop(c->loop, &c->timer);
    else
        sw_timer_start(c->loop, &c->timer, due > now ? due - now : 0, on_timer);
}

void sw_qadc_write(struct sw_qadc *c)
{
    check_report(c);
    write_all(c);
    /* The session is most of a connection's memory, and of no use once the handshake is done. */
    if (c->established && (!c->server || ngtcp2_conn_get_handshake_completed(c->nc)))
        sw_qad_tls_free(c);
    rearm(c);
    c->ops->news(c);
}

static void on_timer(struct sw_timer *t)
{
    struct sw_qadc *c = SW_CONTAINER_OF(t, struct sw_qadc, timer);
    uint64_t now = sw_loop_now(c->loop);
    int rc = 0;

    if (ngtcp2_conn_get_expiry(c->nc) <= now)
        rc = ngtcp2_conn_handle_expiry(c->nc, now);
    if (rc != 0)
        fail(c, rc);
    if (c->ping_ns && c->ping_ns <= now) {
        c->ping_ns = 0;
        say(c);
    }
    if (c->unacked && c->again_ns <= now)
        c->due = true;
    sw_qadc_write(c);
}

void sw_qadc_read(struct sw_qadc *c, const struct sw_addr *local, const struct sw_addr *from,
                  uint8_t *p, size_t n)
{
    ngtcp2_path_storage ps;
    ngtcp2_pkt_info pi = {0};
    int rc;

    if (c->ended)
        return;
    fill_path(&ps, local, from);
    rc = ngtcp2_conn_read_pkt(c->nc, &ps.path, &pi, p, n, sw_loop_now(c->loop));
    if (rc != 0)
        fail(c, rc);
    sw_qadc_write(c);
}

void sw_qadc_ping(struct sw_qadc *c)
{
    if (c->ended || !c->established)
        return;
    c->ping_ns = 0;
    say(c);
    sw_qadc_write(c);
}

uint64_t sw_qadc_rtt_ns(const struct sw_qadc *c)
{
    ngtcp2_conn_stat st;

    if (!c->nc || !c->established)
        return 0;
    ngtcp2_conn_get_conn_stat(c->nc, &st);
    return st.smoothed_rtt;
}

/* ---- making ---- */

static int made(int rc, struct sw_err *err)
{
    return rc == 0
               ? SW_OK
               : sw_err_set(err, SW_EINVAL, "cannot make a connection: %s", ngtcp2_strerror(rc));
}

int sw_qadc_connect(struct sw_qadc *c, const struct sw_addr *to, const struct sw_qadc_trust *trust,
                    uint64_t timeout_ns, struct sw_err *err)
{
    struct sw_addr local = {.ip = {.family = to->ip.family}}; /* one socket: nothing to choose */
    ngtcp2_callbacks cb;
    ngtcp2_settings settings;
    ngtcp2_transport_params params;
    ngtcp2_path_storage ps;
    ngtcp2_cid scid;
    ngtcp2_cid dcid = {.datalen = 18};
    int rc;

    c->server = false;
    c->peer_role = SW_QAD_NONE;
    fill_callbacks(c, &cb);
    fill_settings(c, &settings, &params);
    settings.handshake_timeout = timeout_ns;
    fill_path(&ps, &local, to);
    new_cid(c, &scid, QAD_CID_LEN);
    sw_rand_bytes(dcid.data, dcid.datalen);
    rc = made(ngtcp2_conn_client_new(&c->nc, &dcid, &scid, &ps.path, NGTCP2_PROTO_VER_V1, &cb,
                                     &settings, &params, NULL, c),
              err);
    return rc == SW_OK ? sw_qad_tls_start(c, trust->cred, trust, err) : rc;
}

int sw_qadc_accept(struct sw_qadc *c, const struct sw_qadc_first *f, struct sw_tls_cred *cred,
                   struct sw_err *err)
{
    struct sw_addr local = {.ip = f->to, .port = f->port};
    ngtcp2_callbacks cb;
    ngtcp2_settings settings;
    ngtcp2_transport_params params;
    ngtcp2_path_storage ps;
    ngtcp2_cid scid;
    int rc;

    c->server = true;
    c->peer_role = SW_QAD_NONE;
    fill_callbacks(c, &cb);
    fill_settings(c, &settings, &params);
    fill_path(&ps, &local, &f->from);
    new_cid(c, &scid, QAD_CID_LEN);
    params.original_dcid = *f->odcid;
    if (f->retried) {
        params.retry_scid_present = 1;
        params.retry_scid = f->hd->dcid;
        settings.token = f->hd->token;
    }
    rc = made(ngtcp2_conn_server_new(&c->nc, &f->hd->scid, &scid, &ps.path, f->hd->version, &cb,
                                     &settings, &params, NULL, c),
              err);
    return rc == SW_OK ? sw_qad_tls_start(c, cred, NULL, err) : rc;
}
