/* SPDX-License-Identifier: Apache-2.0 */
/* Records of connections our record layer cannot take: TLS 1.2, inside GnuTLS. */
#include <gnutls/gnutls.h>

#include "tls/tls_int.h"

static void lib_begin(struct sw_tls_lib *l, uint8_t *out, size_t cap)
{
    l->raw_out = out;
    l->raw_n = 0;
    l->raw_cap = cap;
}

static size_t lib_end(struct sw_tls_lib *l)
{
    l->raw_out = NULL;
    return l->raw_n;
}

static int lib_failed(struct sw_tls *t, int rc, struct sw_err *err)
{
    struct sw_tls_lib *l = t->lib;

    l->dead = true;
    t->rec.dead = true;
    if (rc == GNUTLS_E_FATAL_ALERT_RECEIVED || rc == GNUTLS_E_WARNING_ALERT_RECEIVED)
        return sw_lib_explain(l, rc, err);
    l->alert = SW_ALERT_UNEXPECTED_MESSAGE;
    return sw_err_set(err, SW_EPROTO, "record refused: %s", gnutls_strerror(rc));
}

int sw_lib_open(struct sw_tls *t, uint8_t *buf, size_t n, size_t *ret_used,
                struct sw_slice *ret_plain, struct sw_err *err)
{
    struct sw_tls_lib *l = t->lib;
    size_t len;
    ssize_t got;

    *ret_used = 0;
    *ret_plain = sw_slice(buf, 0);
    if (l->dead)
        return sw_err_set(err, SW_EPROTO, "the connection has failed already");
    if (l->rx_closed) {
        *ret_used = n;
        return SW_EOF;
    }
    if (n < SW_TLS_HEADER)
        return SW_EAGAIN;
    len = SW_TLS_HEADER + ((size_t)buf[3] << 8 | buf[4]);
    if (len > SW_TLS_RECORD_MAX + 2048)
        return lib_failed(t, GNUTLS_E_UNEXPECTED_PACKET_LENGTH, err);
    if (n < len)
        return SW_EAGAIN;
    /* The library copies the record before it writes the plaintext, so buf may take it. */
    l->in = sw_slice(buf, len);
    got = gnutls_record_recv(l->session, buf, len);
    if (got > 0)
        *ret_plain = sw_slice(buf, (size_t)got);
    else if (got == 0)
        l->rx_closed = true;
    else if (got == GNUTLS_E_REHANDSHAKE || got == GNUTLS_E_WARNING_ALERT_RECEIVED ||
             gnutls_error_is_fatal((int)got))
        return lib_failed(t, (int)got, err);
    *ret_used = len;
    return l->rx_closed ? SW_EOF : SW_OK;
}

size_t sw_lib_seal(struct sw_tls *t, const uint8_t *plain, size_t n, uint8_t *out)
{
    struct sw_tls_lib *l = t->lib;
    ssize_t rc;

    if (l->dead || l->tx_closed || n == 0)
        return 0;
    lib_begin(l, out, SW_TLS_SEAL_ROOM(n));
    rc = gnutls_record_send(l->session, plain, n);
    if (rc != (ssize_t)n)
        l->dead = true;
    return lib_end(l);
}

size_t sw_lib_close_notify(struct sw_tls *t, uint8_t *out)
{
    struct sw_tls_lib *l = t->lib;

    if (l->dead || l->tx_closed)
        return 0;
    l->tx_closed = true;
    lib_begin(l, out, SW_TLS_CTRL_ROOM);
    (void)gnutls_bye(l->session, GNUTLS_SHUT_WR);
    return lib_end(l);
}

size_t sw_lib_alert(struct sw_tls *t, const struct sw_err *err, uint8_t *out)
{
    struct sw_tls_lib *l = t->lib;
    uint8_t alert = l->alert;

    if (l->tx_closed || (l->dead && !alert))
        return 0;
    if (!l->dead)
        alert = err && err->rc == SW_EDENIED ? SW_ALERT_ACCESS_DENIED : SW_ALERT_INTERNAL_ERROR;
    l->tx_closed = true;
    l->dead = true;
    lib_begin(l, out, SW_TLS_CTRL_ROOM);
    (void)gnutls_alert_send(l->session, GNUTLS_AL_FATAL, (gnutls_alert_description_t)alert);
    return lib_end(l);
}

const char *sw_lib_cipher(const struct sw_tls *t)
{
    gnutls_cipher_algorithm_t c = gnutls_cipher_get(t->lib->session);

    return c == GNUTLS_CIPHER_AES_128_GCM   ? "TLS1.2 AES-128-GCM"
           : c == GNUTLS_CIPHER_AES_256_GCM ? "TLS1.2 AES-256-GCM"
                                            : "TLS1.2 CHACHA20-POLY1305";
}
