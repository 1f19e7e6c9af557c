/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verification of the peer in a handshake: protocol, chain, identity or name, and the caller's own
 * check.
 */
#include <gnutls/gnutls.h>

#include "base/slice.h"
#include "tls/cert/x509.h"
#include "tls/tls_int.h"
#include "tls/verify.h"

static int refuse(struct sw_tls_lib *l, uint8_t alert)
{
    l->alert = alert;
    if (l->verdict.rc == 0)
        l->verdict.rc = SW_EDENIED;
    return GNUTLS_E_CERTIFICATE_ERROR;
}

int sw_lib_refuse_version(struct sw_tls_lib *l)
{
    (void)sw_err_set(&l->verdict, SW_EPROTO, "peer does not offer TLS 1.3");
    (void)refuse(l, SW_ALERT_PROTOCOL_VERSION);
    return GNUTLS_E_UNSUPPORTED_VERSION_PACKET;
}

/* ---- sizes of keys ---- */

/* Of so few bytes a certificate has no key whose signature would cost much. */
enum { SMALL_CERT = 1024 };

/* A number of so many bytes, and the rest; false when there is less. */
static bool take_length(struct sw_slice *in, size_t bytes, size_t *ret)
{
    size_t n = 0;

    if (in->n < bytes)
        return false;
    for (size_t i = 0; i < bytes; i++)
        n = n << 8 | (uint8_t)in->p[i];
    *in = sw_slice_from(*in, bytes);
    *ret = n;
    return n <= in->n;
}

static bool take_bytes(struct sw_slice *in, size_t bytes, struct sw_slice *ret)
{
    size_t n;

    if (!take_length(in, bytes, &n))
        return false;
    *ret = sw_slice_head(*in, n);
    *in = sw_slice_from(*in, n);
    return true;
}

/* A Certificate message (RFC 8446 4.4.2, RFC 5246 7.4.2). A malformed one is GnuTLS's to refuse. */
int sw_lib_check_keys(struct sw_tls_lib *l, struct sw_slice msg)
{
    bool tls13 = gnutls_protocol_get_version(l->session) == GNUTLS_TLS1_3;
    struct sw_slice skipped;
    struct sw_slice list;
    struct sw_slice cert;

    if ((tls13 && !take_bytes(&msg, 1, &skipped)) || !take_bytes(&msg, 3, &list))
        return 0;
    while (take_bytes(&list, 3, &cert)) {
        if (cert.n > SMALL_CERT && sw_x509_key_too_large(cert)) {
            (void)sw_err_set(&l->verdict, SW_EDENIED,
                             "peer certificate has an RSA key of more than %d bits, or with an "
                             "exponent of more than %d bytes",
                             SW_RSA_BITS_MAX, SW_RSA_EXPONENT_MAX);
            return refuse(l, SW_ALERT_BAD_CERTIFICATE);
        }
        if (tls13 && !take_bytes(&list, 2, &skipped))
            return 0;
    }
    return 0;
}

int sw_lib_check_alpn(struct sw_tls_lib *l)
{
    gnutls_datum_t got = {0};

    if (l->n_alpn == 0 || l->params.web)
        return 0;
    if (gnutls_alpn_get_selected_protocol(l->session, &got) == 0 && got.size > 0)
        return 0;
    if (l->params.server && l->params.alpn_optional && !l->alpn_seen)
        return 0;
    (void)sw_err_set(&l->verdict, SW_EPROTO, "peer does not speak '%s' (no common ALPN protocol)",
                     l->params.alpn);
    (void)refuse(l, SW_ALERT_NO_APPLICATION_PROTOCOL);
    return GNUTLS_E_NO_APPLICATION_PROTOCOL;
}

static bool is_expected(const struct sw_tls_lib *l, const struct sw_tls_peer_id *id)
{
    for (size_t k = 0; k < l->params.n_expect; k++) {
        if (sw_slice_eq(id->uri, l->params.expect[k]))
            return true;
    }
    return false;
}

/* What depends on this connection, after the chain itself was found good. */
static int check_identity(struct sw_tls_lib *l)
{
    const struct sw_tls_peer_id *id = sw_tls_peer_identity(l->peer);
    struct sw_slice own;

    if (!l->params.server && l->params.insecure_any)
        return SW_OK;
    if (!id)
        return sw_err_set(&l->verdict, SW_EDENIED, "peer certificate has %s SPIFFE identity",
                          l->peer->several ? "more than one" : "no");
    if (l->params.server) {
        own = sw_tls_cred_id(l->cred)->trust_domain;
        if (sw_slice_eq(id->id.trust_domain, own))
            return SW_OK;
        return sw_err_set(&l->verdict, SW_EDENIED, "peer '%.*s' is not of trust domain '%.*s'",
                          SW_SLICE_ARG(sw_slice_head(id->uri, 80)),
                          SW_SLICE_ARG(sw_slice_head(own, 60)));
    }
    if (is_expected(l, id))
        return SW_OK;
    if (l->params.n_expect == 0)
        return sw_err_set(&l->verdict, SW_EDENIED, "peer is '%.*s', expected no identity",
                          SW_SLICE_ARG(sw_slice_head(id->uri, 70)));
    return sw_err_set(&l->verdict, SW_EDENIED, "peer is '%.*s', expected '%.*s'%s",
                      SW_SLICE_ARG(sw_slice_head(id->uri, 70)),
                      SW_SLICE_ARG(sw_slice_head(l->params.expect[0], 70)),
                      l->params.n_expect > 1 ? " or others" : "");
}

/*
 * Certificates are one of several ways to authenticate, so a bad one only means that nothing was
 * proved, unless one is needed: the layer above answers that in its own protocol.
 */
static int judge_web_client(struct sw_tls_lib *l, const struct sw_verify_in *in)
{
    uint8_t alert = SW_ALERT_BAD_CERTIFICATE;
    struct sw_err why = {0};

    if (in->n == 0 && l->params.need_client_cert) {
        (void)sw_err_set(&l->verdict, SW_EDENIED, "peer sent no certificate");
        return refuse(l, alert);
    }
    if (in->n == 0)
        return 0;
    if (sw_verify_chain(in, &l->peer, &alert, &why) != SW_OK) {
        l->refused = true;
    } else if (l->params.leaf_ok &&
               l->params.leaf_ok(l->params.leaf_arg, in->chain[0], &why) != SW_OK) {
        l->peer = sw_peer_unref(l->peer);
        l->refused = true;
    }
    if (!l->refused || !l->params.need_client_cert)
        return 0;
    l->verdict = why;
    return refuse(l, alert);
}

static int judge_leaf(struct sw_tls_lib *l, const struct sw_verify_in *in)
{
    if (in->n == 0)
        return sw_err_set(&l->verdict, SW_EDENIED, "peer sent no certificate");
    if (l->params.leaf_ok)
        return l->params.leaf_ok(l->params.leaf_arg, in->chain[0], &l->verdict);
    return sw_x509_check_host(in->chain[0], sw_slice_str(l->params.host), &l->verdict);
}

/* The server of an HTTPS client: chain, then name. Nothing here is a matter of taste but the skip.
 */
static int judge_web_server(struct sw_tls_lib *l, const struct sw_verify_in *in)
{
    uint8_t alert = SW_ALERT_BAD_CERTIFICATE;

    if (l->params.insecure_skip && l->params.leaf_ok && judge_leaf(l, in) != SW_OK)
        return refuse(l, alert);
    if (l->params.insecure_skip)
        return 0;
    if (sw_verify_chain(in, &l->peer, &alert, &l->verdict) != SW_OK)
        return refuse(l, alert);
    if (judge_leaf(l, in) != SW_OK) {
        l->peer = sw_peer_unref(l->peer);
        return refuse(l, SW_ALERT_BAD_CERTIFICATE);
    }
    if (l->params.verify && l->params.verify(l->params.verify_arg, l->peer, &l->verdict) != SW_OK) {
        l->peer = sw_peer_unref(l->peer);
        return refuse(l, SW_ALERT_ACCESS_DENIED);
    }
    l->verdict.rc = 0;
    return 0;
}

int sw_lib_judge(struct sw_tls_lib *l)
{
    gnutls_session_t s = l->session;
    struct sw_slice chain[SW_TLS_CHAIN_MAX];
    struct sw_verify_in in = {.cred = l->cred, .peer_is_client = l->params.server, .chain = chain};
    unsigned n = 0;
    const gnutls_datum_t *der = gnutls_certificate_get_peers(s, &n);
    uint8_t alert = SW_ALERT_BAD_CERTIFICATE;

    if (gnutls_certificate_type_get2(s, GNUTLS_CTYPE_PEERS) != GNUTLS_CRT_X509 || !der)
        n = 0;
    for (unsigned i = 0; i < n && i < SW_TLS_CHAIN_MAX; i++)
        chain[i] = sw_slice(der[i].data, der[i].size);
    in.n = n;
    if (!l->params.server && sw_lib_check_alpn(l) != 0)
        return GNUTLS_E_CERTIFICATE_ERROR;
    l->peer = sw_peer_unref(l->peer);
    if (l->params.web)
        return l->params.server ? judge_web_client(l, &in) : judge_web_server(l, &in);
    if (sw_verify_chain(&in, &l->peer, &alert, &l->verdict) != SW_OK)
        return refuse(l, alert);
    if (check_identity(l) != SW_OK)
        return refuse(l, SW_ALERT_BAD_CERTIFICATE);
    if (l->params.verify && l->params.verify(l->params.verify_arg, l->peer, &l->verdict) != SW_OK)
        return refuse(l, SW_ALERT_ACCESS_DENIED);
    l->verdict.rc = 0;
    return 0;
}
