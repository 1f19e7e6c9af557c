/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TLS handshake of a connection: GnuTLS with raw public keys on both sides, driven by ngtcp2's
 * glue. It lives until the handshake is confirmed; application keys are made in handshake_keys.c
 * and need no session.
 */
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>

#include "base/mem.h"
#include "quic/conn.h"
#include "quic/handshake.h"
#include "tls/crypto/aead.h"

enum { ALERT_MISSING_EXTENSION = 109 };

static const char priorities[] =
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305"
    ":-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:-SIGN-ALL:+SIGN-EDDSA-ED25519"
    ":-CTYPE-ALL:+CTYPE-CLI-RAWPK:+CTYPE-SRV-RAWPK:%DISABLE_TLS13_COMPAT_MODE";

/* SubjectPublicKeyInfo of Ed25519 (RFC 8410) up to the 32 bytes that matter. */
static const uint8_t spki_head[] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                    0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

struct sw_qtls {
    gnutls_certificate_credentials_t cred;
    gnutls_priority_t priority;
    const struct sw_slice *alpns; /* borrowed */
    size_t n_alpns;
};

struct sw_qhs {
    ngtcp2_crypto_conn_ref ref; /* what the session's pointer must lead to */
    gnutls_session_t session;
    struct sw_qconn *conn;
};

/* ---- endpoint ---- */

/* The one certificate must be a raw Ed25519 key. Non-zero: GnuTLS answers bad_certificate. */
static int verify(gnutls_session_t session)
{
    ngtcp2_crypto_conn_ref *ref = gnutls_session_get_ptr(session);
    struct sw_qhs *hs = ref->user_data;
    unsigned n = 0;
    const gnutls_datum_t *d = gnutls_certificate_get_peers(session, &n);
    struct sw_nodeid id;

    if (!d || n != 1 || d->size != sizeof(spki_head) + SW_NODEID_LEN ||
        memcmp(d->data, spki_head, sizeof(spki_head)) != 0)
        return -1;
    memcpy(id.b, d->data + sizeof(spki_head), SW_NODEID_LEN);
    return sw_qconn_identified(hs->conn, &id) ? 0 : -1;
}

static int set_key(gnutls_certificate_credentials_t cred, const struct sw_rawkey *key)
{
    uint8_t spki[sizeof(spki_head) + SW_NODEID_LEN];
    uint8_t pkcs8[SW_RAWKEY_PKCS8];
    gnutls_datum_t pub = {.data = spki, .size = sizeof(spki)};
    gnutls_datum_t priv = {.data = pkcs8, .size = sizeof(pkcs8)};
    int rc;

    memcpy(spki, spki_head, sizeof(spki_head));
    memcpy(spki + sizeof(spki_head), sw_rawkey_id(key)->b, SW_NODEID_LEN);
    sw_rawkey_pkcs8(key, pkcs8);
    rc = gnutls_certificate_set_rawpk_key_mem(cred, &pub, &priv, GNUTLS_X509_FMT_DER, NULL,
                                              GNUTLS_KEY_DIGITAL_SIGNATURE, NULL, 0, 0);
    explicit_bzero(pkcs8, sizeof(pkcs8));
    return rc;
}

struct sw_qtls *sw_qtls_new(const struct sw_rawkey *key, const struct sw_slice *alpns, size_t n,
                            struct sw_err *err)
{
    struct sw_qtls *t = SW_NEW(struct sw_qtls);
    int rc = gnutls_certificate_allocate_credentials(&t->cred);

    t->alpns = alpns;
    t->n_alpns = n;
    if (rc == 0)
        rc = gnutls_priority_init(&t->priority, priorities, NULL);
    if (rc == 0)
        rc = set_key(t->cred, key);
    if (rc < 0) {
        (void)sw_err_set(err, SW_EINVAL, "cannot set up TLS: %s", gnutls_strerror(rc));
        sw_qtls_free(t);
        return NULL;
    }
    gnutls_certificate_set_verify_function(t->cred, verify);
    return t;
}

void sw_qtls_free(struct sw_qtls *t)
{
    if (!t)
        return;
    if (t->cred)
        gnutls_certificate_free_credentials(t->cred);
    if (t->priority)
        gnutls_priority_deinit(t->priority);
    sw_free(t);
}

/* ---- one handshake ---- */

static ngtcp2_conn *get_conn(ngtcp2_crypto_conn_ref *ref)
{
    struct sw_qhs *hs = ref->user_data;

    return hs->conn->nc;
}

/*
 * A peer without transport parameters must be refused (RFC 9001, 8.2). ngtcp2 0.12 does not look,
 * and asserts when a server writes its next packet. Ours come with the ClientHello; a client has
 * the server's from EncryptedExtensions, after the keys of the handshake.
 */
static bool lacks_params(const struct sw_qhs *hs, ngtcp2_crypto_level l)
{
    return !ngtcp2_conn_get_remote_transport_params(hs->conn->nc) &&
           (!hs->conn->dialled || l == NGTCP2_CRYPTO_LEVEL_APPLICATION);
}

/* The ID that comes with a server's preferred address, which we do not go to (RFC 9000, 5.1.1). */
static void note_preferred(struct sw_qconn *c)
{
    if (c->dialled && ngtcp2_conn_get_remote_transport_params(c->nc)->preferred_address_present)
        sw_qids_given(&c->ids, 1);
}

/*
 * Keys below the application's are the library's affair. For those of the application its glue
 * would keep a GnuTLS cipher per key; ngtcp2 must still learn the suite from the session, which
 * the glue does when the handshake keys are installed.
 */
static int on_secret(gnutls_session_t session, gnutls_record_encryption_level_t level,
                     const void *rx, const void *tx, size_t n)
{
    ngtcp2_crypto_conn_ref *ref = gnutls_session_get_ptr(session);
    struct sw_qhs *hs = ref->user_data;
    ngtcp2_conn *nc = hs->conn->nc;
    ngtcp2_crypto_level l = ngtcp2_crypto_gnutls_from_gnutls_record_encryption_level(level);
    int alg = sw_aead_of_gnutls((int)gnutls_cipher_get(session));

    if (lacks_params(hs, l)) {
        ngtcp2_conn_set_tls_alert(nc, ALERT_MISSING_EXTENSION);
        return -1;
    }
    if (l != NGTCP2_CRYPTO_LEVEL_APPLICATION) {
        if (rx && ngtcp2_crypto_derive_and_install_rx_key(nc, NULL, NULL, NULL, l, rx, n) != 0)
            return -1;
        if (tx && ngtcp2_crypto_derive_and_install_tx_key(nc, NULL, NULL, NULL, l, tx, n) != 0)
            return -1;
        return 0;
    }
    if (alg < 0)
        return -1;
    hs->conn->keys.aead = (uint8_t)alg;
    note_preferred(hs->conn);
    if (rx && sw_qkeys_install(hs->conn, false, rx, n) != 0)
        return -1;
    if (tx && sw_qkeys_install(hs->conn, true, tx, n) != 0)
        return -1;
    return 0;
}

static int set_alpns(gnutls_session_t session, const struct sw_slice *alpns, size_t n)
{
    gnutls_datum_t d[16];

    n = sw_min(n, SW_ARRAY_LEN(d));
    for (size_t i = 0; i < n; i++) {
        union {
            const char *in;
            unsigned char *out;
        } p = {.in = alpns[i].p}; /* only read */

        d[i] = (gnutls_datum_t){.data = p.out, .size = (unsigned)alpns[i].n};
    }
    return gnutls_alpn_set_protocols(session, d, (unsigned)n, GNUTLS_ALPN_MANDATORY);
}

int sw_qhs_start(struct sw_qconn *c, bool server, struct sw_err *err)
{
    struct sw_qtls *t = c->q->tls;
    struct sw_qhs *hs = SW_NEW(struct sw_qhs);
    unsigned flags = GNUTLS_ENABLE_RAWPK | GNUTLS_NO_TICKETS |
                     (server ? GNUTLS_SERVER | GNUTLS_NO_AUTO_SEND_TICKET : GNUTLS_CLIENT);
    int rc = gnutls_init(&hs->session, flags);

    hs->ref = (ngtcp2_crypto_conn_ref){.get_conn = get_conn, .user_data = hs};
    hs->conn = c;
    if (rc == 0)
        rc = gnutls_priority_set(hs->session, t->priority);
    if (rc == 0)
        rc = server ? ngtcp2_crypto_gnutls_configure_server_session(hs->session)
                    : ngtcp2_crypto_gnutls_configure_client_session(hs->session);
    if (rc == 0)
        rc = gnutls_credentials_set(hs->session, GNUTLS_CRD_CERTIFICATE, t->cred);
    if (rc == 0)
        rc = server ? set_alpns(hs->session, t->alpns, t->n_alpns)
                    : set_alpns(hs->session, &c->alpn, 1);
    if (rc != 0) {
        sw_qhs_free(hs);
        return sw_err_set(err, SW_EINVAL, "cannot start a handshake: %s", gnutls_strerror(rc));
    }
    gnutls_handshake_set_secret_function(hs->session, on_secret);
    if (server)
        gnutls_certificate_server_set_request(hs->session, GNUTLS_CERT_REQUIRE);
    gnutls_session_set_ptr(hs->session, &hs->ref);
    ngtcp2_conn_set_tls_native_handle(c->nc, hs->session);
    c->hs = hs;
    return SW_OK;
}

void sw_qhs_free(struct sw_qhs *hs)
{
    if (!hs)
        return;
    if (hs->conn->nc)
        ngtcp2_conn_set_tls_native_handle(hs->conn->nc, NULL);
    if (hs->session)
        gnutls_deinit(hs->session);
    sw_free(hs);
}

struct sw_slice sw_qhs_alpn(const struct sw_qhs *hs)
{
    gnutls_datum_t d;

    if (!hs || gnutls_alpn_get_selected_protocol(hs->session, &d) != 0)
        return (struct sw_slice){0};
    return sw_slice(d.data, d.size);
}

/* ---- callbacks ---- */

/*
 * What follows a handshake are session tickets, which we do not use: they are skipped without being
 * kept. Anything else does not belong here (a TLS KeyUpdate above all, RFC 9001 6). The session
 * never sees them, though it may still exist: GnuTLS would make new keys for a KeyUpdate, and
 * ngtcp2 0.12 aborts the process when it gets them.
 */
static int skip_messages(struct sw_qconn *c, const uint8_t *p, size_t n)
{
    while (n > 0) {
        size_t k;

        if (c->msg.left > 0) {
            k = sw_min(n, c->msg.left);
            c->msg.left -= (uint32_t)k;
        } else {
            k = sw_min(n, sizeof(c->msg.head) - c->msg.head_n);
            memcpy(c->msg.head + c->msg.head_n, p, k);
            c->msg.head_n = (uint8_t)(c->msg.head_n + k);
            if (c->msg.head_n == sizeof(c->msg.head)) {
                if (c->msg.head[0] != 4 /* new_session_ticket */)
                    return NGTCP2_ERR_CRYPTO;
                c->msg.left =
                    (uint32_t)c->msg.head[1] << 16 | (uint32_t)c->msg.head[2] << 8 | c->msg.head[3];
                c->msg.head_n = 0;
            }
        }
        p += k;
        n -= k;
    }
    return 0;
}

static int on_crypto(ngtcp2_conn *nc, ngtcp2_crypto_level level, uint64_t offset, const uint8_t *p,
                     size_t n, void *user)
{
    struct sw_qconn *c = user;
    int rc;

    if (c->hs && level != NGTCP2_CRYPTO_LEVEL_APPLICATION)
        return ngtcp2_crypto_recv_crypto_data_cb(nc, level, offset, p, n, user);
    rc = c->dialled ? skip_messages(c, p, n) : NGTCP2_ERR_CRYPTO;
    if (rc != 0)
        ngtcp2_conn_set_tls_alert(nc, GNUTLS_A_UNEXPECTED_MESSAGE);
    return rc;
}

void sw_qhs_callbacks(struct ngtcp2_callbacks *cb)
{
    cb->client_initial = ngtcp2_crypto_client_initial_cb;
    cb->recv_client_initial = ngtcp2_crypto_recv_client_initial_cb;
    cb->recv_crypto_data = on_crypto;
    cb->recv_retry = ngtcp2_crypto_recv_retry_cb;
    cb->version_negotiation = ngtcp2_crypto_version_negotiation_cb;
    cb->get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb;
    sw_qkeys_callbacks(cb);
}
