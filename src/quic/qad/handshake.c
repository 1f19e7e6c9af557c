/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TLS handshake of address discovery: X.509, the server alone shows a certificate. The hooks
 * are our own and not those of ngtcp2's glue, because the transport parameters need one more.
 */
#include <gnutls/gnutls.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "quic/qad/qad_int.h"
#include "tls/cert/cred_core.h"
#include "tls/cert/x509.h"
#include "tls/crypto/hmac.h"
#include "tls/crypto/jws.h"
#include "tls/record.h"
#include "tls/verify.h"

enum { EXT_PARAMS = 0x39, PARAMS_MAX = 1024, ALERT_MISSING_EXTENSION = 109 };

static const char priority_text[] =
    "NONE:+VERS-TLS1.3:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:+AEAD"
    ":+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1"
    ":+SIGN-ECDSA-SECP256R1-SHA256:+SIGN-ECDSA-SECP384R1-SHA384:+SIGN-EDDSA-ED25519"
    ":+SIGN-RSA-PSS-RSAE-SHA256:+SIGN-RSA-PSS-RSAE-SHA384:+SIGN-RSA-PSS-RSAE-SHA512"
    ":+SIGN-RSA-SHA256:+SIGN-RSA-SHA384:+SIGN-RSA-SHA512:+SIGN-ECDSA-SECP521R1-SHA512"
    ":+CTYPE-X509:+COMP-NULL:%SERVER_PRECEDENCE:%DISABLE_TLS13_COMPAT_MODE";
static gnutls_priority_t priority;
static int priority_rc;
static pthread_once_t priority_once = PTHREAD_ONCE_INIT;

struct sw_qad_tls {
    struct sw_qadc *conn;
    gnutls_session_t session;
    struct sw_qadc_trust trust; /* of a client */
};

static void make_priority(void)
{
    priority_rc = gnutls_priority_init(&priority, priority_text, NULL);
}

/* ---- the server's certificate ---- */

static bool same_pin(struct sw_slice leaf, const uint8_t *pin)
{
    uint8_t got[SW_QAD_PIN];

    sw_digest_sha256(leaf, got);
    return sw_secret_eq(got, pin, sizeof(got));
}

int sw_qad_pin(const struct sw_tls_cred *cred, uint8_t ret[SW_QAD_PIN], struct sw_err *err)
{
    gnutls_datum_t leaf;

    if (gnutls_certificate_get_crt_raw(sw_cred_gnutls(cred), 0, 0, &leaf) != 0)
        return sw_err_set(err, SW_EINVAL, "credential without a certificate");
    sw_digest_sha256(sw_slice(leaf.data, leaf.size), ret);
    return SW_OK;
}

static int judge(const struct sw_qadc_trust *t, const struct sw_slice *chain, size_t n,
                 struct sw_err *err)
{
    struct sw_verify_in in = {.cred = t->cred, .chain = chain, .n = n};
    const struct sw_tls_peer *peer = NULL;
    uint8_t alert;
    int rc;

    if (n == 0)
        return sw_err_set(err, SW_EDENIED, "relay sent no certificate");
    if (t->pin && same_pin(chain[0], t->pin))
        return SW_OK;
    if (t->pin)
        return sw_err_set(err, SW_EDENIED, "certificate is not the one the relay announced");
    rc = sw_verify_chain(&in, &peer, &alert, err);
    (void)sw_peer_unref(peer);
    return rc == SW_OK ? sw_x509_check_host(chain[0], sw_slice_str(t->host), err) : rc;
}

/* Not zero: GnuTLS answers bad_certificate. */
static int on_verify(gnutls_session_t session)
{
    struct sw_qad_tls *t = gnutls_session_get_ptr(session);
    struct sw_slice chain[SW_TLS_CHAIN_MAX];
    struct sw_err err = {0};
    unsigned n = 0;
    const gnutls_datum_t *der = gnutls_certificate_get_peers(session, &n);

    n = der ? n : 0;
    if (n > SW_TLS_CHAIN_MAX)
        (void)sw_err_set(&err, SW_EDENIED, "chain of %u certificates", n);
    for (unsigned i = 0; i < n && i < SW_TLS_CHAIN_MAX; i++)
        chain[i] = sw_slice(der[i].data, der[i].size);
    if (n <= SW_TLS_CHAIN_MAX && judge(&t->trust, chain, n, &err) == SW_OK)
        return 0;
    (void)snprintf(t->conn->why, sizeof(t->conn->why), "%s", err.msg);
    return -1;
}

/* ---- hooks ---- */

static struct ngtcp2_conn *conn_of(gnutls_session_t session)
{
    struct sw_qad_tls *t = gnutls_session_get_ptr(session);

    return t->conn->nc;
}

/*
 * A peer without transport parameters is refused before a key is made (RFC 9001, 8.2): ngtcp2 0.12
 * does not look, and asserts when it writes. A client has them from EncryptedExtensions, after the
 * keys of the handshake.
 */
static int on_secret(gnutls_session_t session, gnutls_record_encryption_level_t level,
                     const void *rx, const void *tx, size_t n)
{
    const struct sw_qad_tls *t = gnutls_session_get_ptr(session);
    ngtcp2_conn *nc = conn_of(session);
    ngtcp2_crypto_level l = ngtcp2_crypto_gnutls_from_gnutls_record_encryption_level(level);

    if (!ngtcp2_conn_get_remote_transport_params(nc) &&
        (t->conn->server || l == NGTCP2_CRYPTO_LEVEL_APPLICATION)) {
        (void)snprintf(t->conn->why, sizeof(t->conn->why), "no transport parameters");
        ngtcp2_conn_set_tls_alert(nc, ALERT_MISSING_EXTENSION);
        return -1;
    }
    if (rx && l == NGTCP2_CRYPTO_LEVEL_APPLICATION)
        sw_hkdf_label(rx, n, "quic iv", t->conn->rx[0].iv, SW_QIV_LEN);
    if (rx && ngtcp2_crypto_derive_and_install_rx_key(nc, NULL, NULL, NULL, l, rx, n) != 0)
        return -1;
    if (tx && ngtcp2_crypto_derive_and_install_tx_key(nc, NULL, NULL, NULL, l, tx, n) != 0)
        return -1;
    return 0;
}

static int on_message(gnutls_session_t session, gnutls_record_encryption_level_t level,
                      gnutls_handshake_description_t type, const void *p, size_t n)
{
    if (type == GNUTLS_HANDSHAKE_CHANGE_CIPHER_SPEC)
        return 0;
    return ngtcp2_conn_submit_crypto_data(
               conn_of(session), ngtcp2_crypto_gnutls_from_gnutls_record_encryption_level(level), p,
               n) == 0
               ? 0
               : -1;
}

static int on_alert(gnutls_session_t session, gnutls_record_encryption_level_t level,
                    gnutls_alert_level_t alert_level, gnutls_alert_description_t alert)
{
    ngtcp2_conn_set_tls_alert(conn_of(session), (uint8_t)alert);
    return 0;
}

static int on_params_out(gnutls_session_t session, gnutls_buffer_t out)
{
    struct sw_qad_tls *t = gnutls_session_get_ptr(session);
    ngtcp2_transport_params params = *ngtcp2_conn_get_local_transport_params(t->conn->nc);
    uint8_t buf[PARAMS_MAX];
    ngtcp2_ssize n;

    params.max_datagram_frame_size = 0; /* known to ngtcp2 alone */
    n = ngtcp2_encode_transport_params(buf, sizeof(buf) - SW_QAD_PARAM,
                                       t->conn->server
                                           ? NGTCP2_TRANSPORT_PARAMS_TYPE_ENCRYPTED_EXTENSIONS
                                           : NGTCP2_TRANSPORT_PARAMS_TYPE_CLIENT_HELLO,
                                       &params);
    if (n < 0)
        return GNUTLS_E_INTERNAL_ERROR;
    sw_qad_put_param(buf + n, t->conn->server ? SW_QAD_SENDS : SW_QAD_RECEIVES);
    if (gnutls_buffer_append_data(out, buf, (size_t)n + SW_QAD_PARAM) != 0)
        return GNUTLS_E_MEMORY_ERROR;
    return (int)(n + SW_QAD_PARAM);
}

static int on_params_in(gnutls_session_t session, const unsigned char *p, size_t n)
{
    struct sw_qad_tls *t = gnutls_session_get_ptr(session);
    uint8_t buf[PARAMS_MAX + SW_QAD_DATAGRAM_PARAM];
    struct sw_err err = {0};
    int rc = NGTCP2_ERR_MALFORMED_TRANSPORT_PARAM;

    if (n <= PARAMS_MAX &&
        sw_qad_params_in(sw_slice(p, n), buf, &n, &t->conn->peer_role, &err) == SW_OK)
        rc = ngtcp2_conn_decode_remote_transport_params(t->conn->nc, buf, n);
    if (rc == 0)
        return 0;
    if (err.rc)
        (void)snprintf(t->conn->why, sizeof(t->conn->why), "%s", err.msg);
    ngtcp2_conn_set_tls_error(t->conn->nc, rc);
    return GNUTLS_E_RECEIVED_ILLEGAL_PARAMETER;
}

static int set_hooks(struct sw_qad_tls *t)
{
    static unsigned char alpn[] = SW_QAD_ALPN;
    gnutls_datum_t protocol = {.data = alpn, .size = sizeof(alpn) - 1};
    gnutls_session_t s = t->session;
    int rc = gnutls_session_ext_register(
        s, "QUIC transport parameters", EXT_PARAMS, GNUTLS_EXT_TLS, on_params_in, on_params_out,
        NULL, NULL, NULL, GNUTLS_EXT_FLAG_TLS | GNUTLS_EXT_FLAG_CLIENT_HELLO | GNUTLS_EXT_FLAG_EE);

    gnutls_handshake_set_secret_function(s, on_secret);
    gnutls_handshake_set_read_function(s, on_message);
    gnutls_alert_set_read_function(s, on_alert);
    gnutls_session_set_ptr(s, t);
    return rc == 0 ? gnutls_alpn_set_protocols(s, &protocol, 1, GNUTLS_ALPN_MANDATORY) : rc;
}

static int set_client(gnutls_session_t s, const struct sw_qadc_trust *trust)
{
    struct sw_ip ip;

    gnutls_session_set_verify_function(s, on_verify);
    if (!trust->host || sw_ip_parse(sw_slice_str(trust->host), &ip, NULL) == SW_OK)
        return 0;
    return gnutls_server_name_set(s, GNUTLS_NAME_DNS, trust->host, strlen(trust->host));
}

int sw_qad_tls_start(struct sw_qadc *c, struct sw_tls_cred *cred, const struct sw_qadc_trust *trust,
                     struct sw_err *err)
{
    struct sw_qad_tls *t = SW_NEW(struct sw_qad_tls);
    unsigned flags = GNUTLS_NO_TICKETS |
                     (c->server ? GNUTLS_SERVER | GNUTLS_NO_AUTO_SEND_TICKET : GNUTLS_CLIENT);
    int rc = pthread_once(&priority_once, make_priority);

    t->conn = c;
    c->tls = t;
    if (trust)
        t->trust = *trust;
    rc = rc == 0 ? priority_rc : GNUTLS_E_INTERNAL_ERROR;
    if (rc == 0)
        rc = gnutls_init(&t->session, flags);
    if (rc == 0)
        rc = gnutls_priority_set(t->session, priority);
    if (rc == 0)
        rc = gnutls_credentials_set(t->session, GNUTLS_CRD_CERTIFICATE, sw_cred_gnutls(cred));
    if (rc == 0)
        rc = set_hooks(t);
    if (rc == 0 && !c->server)
        rc = set_client(t->session, trust);
    if (rc != 0)
        return sw_err_set(err, SW_EINVAL, "cannot start a TLS session: %s", gnutls_strerror(rc));
    ngtcp2_conn_set_tls_native_handle(c->nc, t->session);
    return SW_OK;
}

void sw_qad_tls_free(struct sw_qadc *c)
{
    if (!c->tls)
        return;
    if (c->nc)
        ngtcp2_conn_set_tls_native_handle(c->nc, NULL);
    if (c->tls->session)
        gnutls_deinit(c->tls->session);
    sw_free(c->tls);
    c->tls = NULL;
}
