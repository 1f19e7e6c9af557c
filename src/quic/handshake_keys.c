/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packet protection with application keys: the AEAD is src/tls's, with expanded keys kept per
 * thread and not per connection; header protection is one cipher block, by the AEAD's back end
 * where it has one and by GnuTLS elsewhere. ngtcp2 calls the same functions for the keys of the
 * handshake, which its own glue made: a context of ours carries a mark in the lowest bit of its
 * address.
 */
#include <gnutls/crypto.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>

#include "base/log.h"
#include "base/mem.h"
#include "quic/conn.h"
#include "quic/handshake.h"
#include "tls/cert/vault.h"
#include "tls/crypto/aead.h"
#include "tls/record.h"
#include "tls/sched.h"

struct aead_ctx {
    struct sw_qconn *c; /* borrowed: frees its keys before itself */
    uint64_t id;        /* of the expanded key */
    uint64_t next;      /* the lowest packet number that was not opened with it, nor a higher one */
    uint8_t iv[SW_QIV_LEN];
    enum sw_aead_alg alg;
    uint8_t key[SW_AEAD_KEY_MAX];
};

struct hp_ctx {
    struct sw_aead_block block; /* when 'cipher' is NULL */
    gnutls_cipher_hd_t cipher;
    bool chacha;
};

/* ngtcp2 does not say whose keys of the handshake it uses. */
static _Thread_local struct sw_qconn *reading;

void sw_qkeys_reading(struct sw_qconn *c)
{
    reading = c;
}

static void *mark(void *p)
{
    return (void *)((uintptr_t)p | 1);
}

/* NULL: not ours. */
static void *unmark(void *p)
{
    return ((uintptr_t)p & 1) ? (void *)((uintptr_t)p & ~(uintptr_t)1) : NULL;
}

/* ---- making ---- */

static struct aead_ctx *aead_new(struct sw_qconn *c, bool tx, const uint8_t *secret, size_t n,
                                 uint8_t iv[SW_QIV_LEN])
{
    struct aead_ctx *a = sw_vault_alloc(sizeof(*a));
    enum sw_aead_alg alg = (enum sw_aead_alg)c->keys.aead;

    a->c = c;
    a->next = 0;
    a->id = sw_sched_new_id() * 2 + tx;
    a->alg = alg;
    sw_hkdf_label(secret, n, "quic key", a->key, sw_aead_key_len(alg));
    sw_hkdf_label(secret, n, "quic iv", iv, SW_QIV_LEN);
    memcpy(a->iv, iv, SW_QIV_LEN);
    return a;
}

static void aead_free(struct aead_ctx *a)
{
    sw_sched_drop(a->id);
    sw_vault_free(a);
}

static void hp_free(struct hp_ctx *h)
{
    if (h->cipher)
        gnutls_cipher_deinit(h->cipher);
    sw_vault_free(h);
}

static struct hp_ctx *hp_new(enum sw_aead_alg alg, const uint8_t *secret, size_t n)
{
    uint8_t key[SW_AEAD_KEY_MAX];
    uint8_t zero[16] = {0};
    gnutls_datum_t k = {.data = key, .size = (unsigned)sw_aead_key_len(alg)};
    gnutls_datum_t iv = {.data = zero, .size = sizeof(zero)};
    struct hp_ctx *h = sw_vault_alloc(sizeof(*h));
    gnutls_cipher_algorithm_t cipher = GNUTLS_CIPHER_AES_128_CBC;

    if (alg == SW_AEAD_AES_256_GCM)
        cipher = GNUTLS_CIPHER_AES_256_CBC;
    else if (alg == SW_AEAD_CHACHA20_POLY1305)
        cipher = GNUTLS_CIPHER_CHACHA20_32;
    h->chacha = alg == SW_AEAD_CHACHA20_POLY1305;
    sw_hkdf_label(secret, n, "quic hp", key, k.size);
    h->cipher = NULL;
    if ((alg != SW_AEAD_AES_128_GCM || !sw_aead_block_expand(key, &h->block)) &&
        gnutls_cipher_init(&h->cipher, cipher, &k, &iv) != 0) {
        sw_vault_free(h);
        h = NULL;
    }
    explicit_bzero(key, sizeof(key));
    return h;
}

int sw_qkeys_install(struct sw_qconn *c, bool tx, const uint8_t *secret, size_t n)
{
    uint8_t iv[SW_QIV_LEN];
    struct hp_ctx *h = hp_new((enum sw_aead_alg)c->keys.aead, secret, n);
    struct aead_ctx *a;
    ngtcp2_crypto_aead_ctx aead;
    ngtcp2_crypto_cipher_ctx hp;
    int rc;

    if (!h)
        return -1;
    a = aead_new(c, tx, secret, n, iv);
    aead.native_handle = mark(a);
    hp.native_handle = mark(h);
    if (tx)
        rc = ngtcp2_conn_install_tx_key(c->nc, secret, n, &aead, iv, sizeof(iv), &hp);
    else
        rc = ngtcp2_conn_install_rx_key(c->nc, secret, n, &aead, iv, sizeof(iv), &hp);
    if (rc != 0) {
        aead_free(a);
        hp_free(h);
    }
    explicit_bzero(iv, sizeof(iv));
    return rc == 0 ? 0 : -1;
}

/* ---- ngtcp2's callbacks ---- */

static int on_encrypt(uint8_t *out, const ngtcp2_crypto_aead *aead,
                      const ngtcp2_crypto_aead_ctx *ctx, const uint8_t *p, size_t n,
                      const uint8_t *nonce, size_t nonce_n, const uint8_t *aad, size_t aad_n)
{
    const struct aead_ctx *a = unmark(ctx->native_handle);
    const struct sw_aead_input in = {nonce, aad, aad_n, p, n};

    if (!a)
        return ngtcp2_crypto_encrypt_cb(out, aead, ctx, p, n, nonce, nonce_n, aad, aad_n);
    sw_aead_seal(sw_sched_get(a->id, 0, a->alg, a->key), &in, out);
    return 0;
}

/* ngtcp2 does not say whether a packet was genuine. Copies have a number that was there before. */
static void note_opened(struct aead_ctx *a, uint64_t pn)
{
    if (pn < a->next)
        return;
    a->next = pn + 1;
    a->c->heard.genuine = true;
}

static void log_too_many_ids(struct sw_qconn *c)
{
    char id[SW_NODEID_SHORT];

    c->q->stats.rx_dropped++;
    if (sw_qbucket_take(&c->q->limit.ids, sw_quic_now(c->q), 1))
        sw_log_info("quic",
                    "node %s gives connection IDs and does not acknowledge that others are "
                    "retired: packet dropped",
                    sw_nodeid_short(&c->peer, id));
}

/*
 * A server has keys of the application before its client is through. ngtcp2 0.12 takes its frames
 * then, and aborts the process, or reads freed state, when HANDSHAKE_DONE or NEW_CONNECTION_ID was
 * among them. Such packets are sent again.
 */
static bool too_early(const struct sw_qconn *c)
{
    return c->dialled && !c->shake.through;
}

static int on_decrypt(uint8_t *out, const ngtcp2_crypto_aead *aead,
                      const ngtcp2_crypto_aead_ctx *ctx, const uint8_t *p, size_t n,
                      const uint8_t *nonce, size_t nonce_n, const uint8_t *aad, size_t aad_n)
{
    struct aead_ctx *a = unmark(ctx->native_handle);
    const struct sw_aead_input in = {nonce, aad, aad_n, p, n};
    uint64_t number;
    int rc;

    if (!a) {
        rc = ngtcp2_crypto_decrypt_cb(out, aead, ctx, p, n, nonce, nonce_n, aad, aad_n);
        if (rc == 0 && reading)
            sw_qacks_screen_long(&reading->acks, aad[0], out, n - aead->max_overhead);
        return rc;
    }
    if (too_early(a->c) || sw_aead_open_to(sw_sched_get(a->id, 0, a->alg, a->key), &in, out) != 0)
        return NGTCP2_ERR_DECRYPT;
    if (!sw_qids_screen(&a->c->ids, out, n - SW_AEAD_TAG)) {
        log_too_many_ids(a->c);
        return NGTCP2_ERR_DECRYPT;
    }
    number = sw_qnumber(a->iv, nonce);
    /* Out of order: RFC 9000, 13.2.1 */
    if (!a->c->heard.ack_now && a->c->heard.n < QUIC_ACK_PACKETS)
        a->c->heard.ack_now =
            number != a->next || !sw_qframes_allow_ack_delay(out, n - SW_AEAD_TAG);
    sw_qacks_screen(&a->c->acks, number, out, n - SW_AEAD_TAG);
    note_opened(a, number);
    return 0;
}

static int on_hp_mask(uint8_t *out, const ngtcp2_crypto_cipher *hp,
                      const ngtcp2_crypto_cipher_ctx *ctx, const uint8_t *sample)
{
    const struct hp_ctx *h = unmark(ctx->native_handle);
    uint8_t block[16] = {0};
    int rc;

    if (!h)
        return ngtcp2_crypto_hp_mask_cb(out, hp, ctx, sample);
    if (!h->cipher) {
        sw_aead_block(&h->block, sample, block);
        rc = 0;
    } else if (h->chacha) {
        union {
            const uint8_t *in;
            void *out;
        } iv = {.in = sample}; /* only read */

        gnutls_cipher_set_iv(h->cipher, iv.out, 16);
        rc = gnutls_cipher_encrypt2(h->cipher, block, NGTCP2_HP_MASKLEN, block, NGTCP2_HP_MASKLEN);
    } else {
        gnutls_cipher_set_iv(h->cipher, block, sizeof(block));
        rc = gnutls_cipher_encrypt2(h->cipher, sample, 16, block, sizeof(block));
    }
    memcpy(out, block, NGTCP2_HP_MASKLEN);
    return rc == 0 ? 0 : NGTCP2_ERR_CALLBACK_FAILURE;
}

static int on_update_key(ngtcp2_conn *nc, uint8_t *rx_secret, uint8_t *tx_secret,
                         ngtcp2_crypto_aead_ctx *rx_ctx, uint8_t *rx_iv,
                         ngtcp2_crypto_aead_ctx *tx_ctx, uint8_t *tx_iv, const uint8_t *rx_now,
                         const uint8_t *tx_now, size_t n, void *user)
{
    struct sw_qconn *c = user;

    sw_hkdf_label(rx_now, n, "quic ku", rx_secret, n);
    sw_hkdf_label(tx_now, n, "quic ku", tx_secret, n);
    rx_ctx->native_handle = mark(aead_new(c, false, rx_secret, n, rx_iv));
    tx_ctx->native_handle = mark(aead_new(c, true, tx_secret, n, tx_iv));
    return 0;
}

static void on_delete_aead(ngtcp2_conn *nc, ngtcp2_crypto_aead_ctx *ctx, void *user)
{
    struct aead_ctx *a = unmark(ctx->native_handle);

    if (a)
        aead_free(a);
    else
        ngtcp2_crypto_delete_crypto_aead_ctx_cb(nc, ctx, user);
}

static void on_delete_cipher(ngtcp2_conn *nc, ngtcp2_crypto_cipher_ctx *ctx, void *user)
{
    struct hp_ctx *h = unmark(ctx->native_handle);

    if (!h) {
        ngtcp2_crypto_delete_crypto_cipher_ctx_cb(nc, ctx, user);
        return;
    }
    hp_free(h);
}

void sw_qkeys_callbacks(struct ngtcp2_callbacks *cb)
{
    cb->encrypt = on_encrypt;
    cb->decrypt = on_decrypt;
    cb->hp_mask = on_hp_mask;
    cb->update_key = on_update_key;
    cb->delete_crypto_aead_ctx = on_delete_aead;
    cb->delete_crypto_cipher_ctx = on_delete_cipher;
}
