/* SPDX-License-Identifier: Apache-2.0 */
/* The calls on an established connection: to our records, or to GnuTLS where those cannot serve. */
#include "tls/tls.h"

#include <assert.h>

#include "tls/cert/vault.h"
#include "tls/tls_int.h"
#include "tls/verify.h"

void sw_tls_free(struct sw_tls *t)
{
    if (!t)
        return;
    sw_lib_free(t->lib);
    sw_peer_unref(t->peer);
    sw_record_done(&t->rec);
    sw_vault_free(t->exporter);
    sw_vault_free(t);
}

int sw_tls_open(struct sw_tls *t, uint8_t *buf, size_t n, size_t *ret_used,
                struct sw_slice *ret_plain, struct sw_err *err)
{
    assert(t->up);
    if (SW_UNLIKELY(t->lib != NULL))
        return sw_lib_open(t, buf, n, ret_used, ret_plain, err);
    return sw_record_open(&t->rec, buf, n, ret_used, ret_plain, err);
}

size_t sw_tls_seal(struct sw_tls *t, uint8_t *plain, size_t n, uint8_t *out)
{
    assert(t->up && n <= t->rec.max_plain);
    if (SW_UNLIKELY(t->lib != NULL))
        return sw_lib_seal(t, plain, n, out);
    return sw_record_seal(&t->rec, plain, n, out);
}

bool sw_tls_wants_flush(const struct sw_tls *t)
{
    return t->up && !t->lib && t->rec.ku_send && !t->rec.dead && !t->rec.tx_closed;
}

size_t sw_tls_flush(struct sw_tls *t, uint8_t *out, size_t cap)
{
    assert(cap >= SW_TLS_CTRL_ROOM);
    return sw_tls_wants_flush(t) ? sw_record_flush(&t->rec, out) : 0;
}

size_t sw_tls_close_notify(struct sw_tls *t, uint8_t *out, size_t cap)
{
    assert(cap >= SW_TLS_CTRL_ROOM);
    if (!t->up)
        return 0;
    return t->lib ? sw_lib_close_notify(t, out) : sw_record_close_notify(&t->rec, out);
}

size_t sw_tls_alert_for_err(struct sw_tls *t, const struct sw_err *err, uint8_t *out, size_t cap)
{
    assert(cap >= SW_TLS_CTRL_ROOM);
    if (!t->up)
        return 0;
    return t->lib ? sw_lib_alert(t, err, out) : sw_record_alert(&t->rec, err, out);
}

void sw_tls_key_update(struct sw_tls *t, bool request)
{
    assert(t->up);
    if (!t->lib)
        sw_record_key_update(&t->rec, request);
}

const struct sw_tls_peer *sw_tls_peer(const struct sw_tls *t)
{
    return t->peer;
}

bool sw_tls_peer_refused(const struct sw_tls *t)
{
    return t->refused;
}

const char *sw_tls_alpn(const struct sw_tls *t)
{
    return t->alpn;
}

size_t sw_tls_max_plain(const struct sw_tls *t)
{
    return t->rec.max_plain;
}

const char *sw_tls_cipher(const struct sw_tls *t)
{
    static const char *const names[] = {
        [SW_AEAD_AES_128_GCM] = "TLS1.3 AES-128-GCM",
        [SW_AEAD_AES_256_GCM] = "TLS1.3 AES-256-GCM",
        [SW_AEAD_CHACHA20_POLY1305] = "TLS1.3 CHACHA20-POLY1305",
    };

    if (!t->up)
        return "none";
    if (t->lib)
        return sw_lib_cipher(t);
    return names[t->rec.alg];
}

size_t sw_tls_mem(const struct sw_tls *t)
{
    /* GnuTLS's own state was measured at about eleven kilobytes. */
    return SW_VAULT_CELL + (t->lib ? 12288 : 0);
}

int sw_tls_recheck(const struct sw_tls *t, const struct sw_tls_cred *cred, struct sw_err *err)
{
    const struct sw_tls_peer *p = sw_tls_peer(t);

    return p ? sw_verify_recheck(p, cred, err) : SW_OK;
}
