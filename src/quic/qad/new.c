/* SPDX-License-Identifier: Apache-2.0 */
/* How a connection of address discovery begins: settings and callbacks of ngtcp2. */
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <string.h>

#include "base/mem.h"
#include "base/rand.h"
#include "quic/qad/qad_int.h"
#include "quic/wire/frames.h"

enum {
    INITIAL_RTT_MS = 111,
    IDLE_S = 35,
    HANDSHAKE_S = 5, /* of a client at our server */
};

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

/* ngtcp2 does not say whose keys it uses. */
static _Thread_local struct sw_qadc *reading;

int sw_qadc_read_lib(struct sw_qadc *c, const ngtcp2_path *path, const uint8_t *p, size_t n)
{
    ngtcp2_pkt_info pi = {0};
    int rc;

    reading = c;
    rc = ngtcp2_conn_read_pkt(c->nc, path, &pi, p, n, sw_loop_now(c->loop));
    reading = NULL;
    return rc;
}

static uint64_t number_of(const struct sw_qadc *c, const void *key, const uint8_t *nonce)
{
    const uint8_t *iv = c->rx[0].iv;

    for (size_t i = 1; i < SW_ARRAY_LEN(c->rx); i++)
        if (c->rx[i].key == key)
            iv = c->rx[i].iv;
    return sw_qnumber(iv, nonce);
}

/* As in quic/handshake_keys.c: a server's frames before ngtcp2 is through are fatal. */
static bool too_early(const struct sw_qadc *c)
{
    return !c->server && !c->through;
}

static int on_decrypt(uint8_t *out, const ngtcp2_crypto_aead *aead,
                      const ngtcp2_crypto_aead_ctx *ctx, const uint8_t *p, size_t n,
                      const uint8_t *nonce, size_t nonce_n, const uint8_t *aad, size_t aad_n)
{
    int rc = ngtcp2_crypto_decrypt_cb(out, aead, ctx, p, n, nonce, nonce_n, aad, aad_n);

    if (rc != 0)
        return rc;
    if (!reading)
        return NGTCP2_ERR_DECRYPT;
    n -= aead->max_overhead;
    if (!is_short(aad, aad_n)) {
        sw_qacks_screen_long(&reading->acks, aad[0], out, n);
        return 0;
    }
    if (too_early(reading) || (!reading->server && !sw_qad_from_wire(out, n)))
        return NGTCP2_ERR_DECRYPT;
    /* Neither side moves on purpose, and a new port needs no new connection ID. */
    (void)sw_qids_screen(NULL, out, n);
    sw_qacks_screen(&reading->acks, number_of(reading, ctx->native_handle, nonce), out, n);
    return 0;
}

static int on_update_key(ngtcp2_conn *nc, uint8_t *rx_secret, uint8_t *tx_secret,
                         ngtcp2_crypto_aead_ctx *rx_ctx, uint8_t *rx_iv,
                         ngtcp2_crypto_aead_ctx *tx_ctx, uint8_t *tx_iv, const uint8_t *rx_now,
                         const uint8_t *tx_now, size_t n, void *user)
{
    int rc = ngtcp2_crypto_update_key_cb(nc, rx_secret, tx_secret, rx_ctx, rx_iv, tx_ctx, tx_iv,
                                         rx_now, tx_now, n, user);
    struct sw_qadc *c = user;
    size_t at = 1;

    if (rc != 0)
        return rc;
    /* The address of one that is gone may be used again. */
    while (at < SW_ARRAY_LEN(c->rx) && c->rx[at].key != rx_ctx->native_handle)
        at++;
    if (at == SW_ARRAY_LEN(c->rx))
        at = 1 + c->updates++ % (SW_ARRAY_LEN(c->rx) - 1);
    c->rx[at].key = rx_ctx->native_handle;
    memcpy(c->rx[at].iv, rx_iv, SW_QIV_LEN);
    return 0;
}

/* ---- callbacks of ngtcp2 ---- */

static void on_rand(uint8_t *p, size_t n, const ngtcp2_rand_ctx *ctx)
{
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
    new_cid(user, cid, n);
    sw_rand_bytes(token, NGTCP2_STATELESS_RESET_TOKENLEN); /* we never send resets */
    return 0;
}

static int on_cid_gone(ngtcp2_conn *nc, const ngtcp2_cid *cid, void *user)
{
    struct sw_qadc *c = user;

    c->ops->cid_gone(c, cid->data, cid->datalen);
    return 0;
}

/* ngtcp2 activates the first ID when the handshake is over. */
static int on_peer_cid(ngtcp2_conn *nc, int type, uint64_t seq, const ngtcp2_cid *cid,
                       const uint8_t *token, void *user)
{
    struct sw_qadc *c = user;

    c->through = true;
    return 0;
}

static int on_crypto(ngtcp2_conn *nc, ngtcp2_crypto_level level, uint64_t offset, const uint8_t *p,
                     size_t n, void *user)
{
    const struct sw_qadc *c = user;

    if (c->tls && level != NGTCP2_CRYPTO_LEVEL_APPLICATION)
        return ngtcp2_crypto_recv_crypto_data_cb(nc, level, offset, p, n, user);
    /*
     * Session tickets of a server, which we do not use; a client has nothing more to say. Not for
     * the session: GnuTLS makes new keys for a TLS KeyUpdate, and ngtcp2 0.12 aborts then.
     */
    return c->server ? NGTCP2_ERR_CRYPTO : 0;
}

static int on_completed(ngtcp2_conn *nc, void *user)
{
    struct sw_qadc *c = user;

    c->established = true;
    return 0;
}

/* Late ones are not news: the newest address counts (as in iroh). */
static int on_report(ngtcp2_conn *nc, uint32_t flags, const uint8_t *p, size_t n, void *user)
{
    struct sw_qadc *c = user;
    struct sw_addr at;
    uint64_t seq;

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

    if (id == c->seq)
        c->unacked = false;
    return 0;
}

static int on_said_lost(ngtcp2_conn *nc, uint64_t id, void *user)
{
    struct sw_qadc *c = user;

    if (id == c->seq && c->unacked)
        c->due = true;
    return 0;
}

static void fill_callbacks(ngtcp2_callbacks *cb)
{
    *cb = (ngtcp2_callbacks){
        .client_initial = ngtcp2_crypto_client_initial_cb,
        .recv_client_initial = ngtcp2_crypto_recv_client_initial_cb,
        .recv_crypto_data = on_crypto,
        .handshake_completed = on_completed,
        .encrypt = on_encrypt,
        .decrypt = on_decrypt,
        .hp_mask = ngtcp2_crypto_hp_mask_cb,
        .recv_retry = ngtcp2_crypto_recv_retry_cb,
        .rand = on_rand,
        .get_new_connection_id = on_new_cid,
        .remove_connection_id = on_cid_gone,
        .dcid_status = on_peer_cid,
        .update_key = on_update_key,
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
    /* Not sent to the peer (handshake_qad.c): ngtcp2 takes reports as DATAGRAM frames. */
    p->max_datagram_frame_size = c->server ? 0 : SW_QAD_DATAGRAM_FRAME;
}

void sw_qadc_path(ngtcp2_path_storage *ps, const struct sw_addr *local,
                  const struct sw_addr *remote)
{
    struct sockaddr_storage l;
    struct sockaddr_storage r;
    socklen_t ln = sw_addr_to_sockaddr(local, &l);
    socklen_t rn = sw_addr_to_sockaddr(remote, &r);

    ngtcp2_path_storage_init(ps, (const ngtcp2_sockaddr *)&l, ln, (const ngtcp2_sockaddr *)&r, rn,
                             NULL);
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
    fill_callbacks(&cb);
    fill_settings(c, &settings, &params);
    settings.handshake_timeout = timeout_ns;
    sw_qadc_path(&ps, &local, to);
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
    fill_callbacks(&cb);
    fill_settings(c, &settings, &params);
    sw_qadc_path(&ps, &local, &f->from);
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
