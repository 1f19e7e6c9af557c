/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/record.h"

#include <assert.h>
#include <string.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "base/mem.h"
#include "base/time.h"
#include "tls/crypto/gnutls.h"
#include "tls/record_size.h"
#include "tls/sched.h"

enum {
    TYPE_CHANGE_CIPHER_SPEC = 20,
    TYPE_ALERT = 21,
    TYPE_HANDSHAKE = 22,
    TYPE_DATA = 23,
    MSG_TICKET = 4,
    MSG_KEY_UPDATE = 24,
    OUTER_MAX = 16640,
    INNER_MAX = SW_TLS_PLAIN_MAX + 1, /* content, type byte and padding together */
    OVERHEAD = SW_TLS_HEADER + 1 + SW_AEAD_TAG,
};

static const struct {
    uint8_t code;
    const char *name;
} alert_names[] = {
    {0, "close_notify"},
    {10, "unexpected_message"},
    {20, "bad_record_mac"},
    {22, "record_overflow"},
    {40, "handshake_failure"},
    {42, "bad_certificate"},
    {43, "unsupported_certificate"},
    {44, "certificate_revoked"},
    {45, "certificate_expired"},
    {46, "certificate_unknown"},
    {47, "illegal_parameter"},
    {48, "unknown_ca"},
    {49, "access_denied"},
    {50, "decode_error"},
    {51, "decrypt_error"},
    {70, "protocol_version"},
    {71, "insufficient_security"},
    {80, "internal_error"},
    {86, "inappropriate_fallback"},
    {90, "user_canceled"},
    {109, "missing_extension"},
    {110, "unsupported_extension"},
    {112, "unrecognized_name"},
    {116, "certificate_required"},
    {120, "no_application_protocol"},
};

const char *sw_alert_name(unsigned alert)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(alert_names); i++) {
        if (alert_names[i].code == alert)
            return alert_names[i].name;
    }
    return "unknown";
}

bool sw_alert_is_refusal(unsigned alert)
{
    return (alert >= 42 && alert <= 46) || alert == 48 || alert == 49 || alert == 116;
}

int sw_hkdf_expand_label(struct sw_slice secret, const char *label, struct sw_slice context,
                         uint8_t *out, size_t n)
{
    uint8_t info[2 + 1 + 6 + SW_HKDF_LABEL_MAX + 1 + SW_RECORD_SECRET_MAX];
    size_t label_len = strlen(label);
    gnutls_datum_t key = SW_DATUM(secret);
    gnutls_datum_t inf = {.data = info, .size = (unsigned)(10 + label_len + context.n)};

    assert(label_len <= SW_HKDF_LABEL_MAX && context.n <= SW_RECORD_SECRET_MAX);
    info[0] = (uint8_t)(n >> 8);
    info[1] = (uint8_t)n;
    info[2] = (uint8_t)(6 + label_len);
    memcpy(info + 3, "tls13 ", 6);
    memcpy(info + 9, label, label_len);
    info[9 + label_len] = (uint8_t)context.n;
    if (context.n)
        memcpy(info + 10 + label_len, context.p, context.n);
    return gnutls_hkdf_expand(secret.n == 48 ? GNUTLS_MAC_SHA384 : GNUTLS_MAC_SHA256, &key, &inf,
                              out, n);
}

void sw_hkdf_label(const uint8_t *secret, size_t secret_len, const char *label, uint8_t *out,
                   size_t n)
{
    int rc = sw_hkdf_expand_label(sw_slice(secret, secret_len), label, sw_slice(NULL, 0), out, n);

    assert(rc == 0);
}

static uint64_t sched_id(const struct sw_record *r, const struct sw_record_dir *d)
{
    return r->id * 2 + (d == &r->tx ? 1 : 0);
}

static void derive(struct sw_record *r, struct sw_record_dir *d)
{
    sw_hkdf_label(d->secret, r->secret_len, "key", d->key,
                  sw_aead_key_len((enum sw_aead_alg)r->alg));
    sw_hkdf_label(d->secret, r->secret_len, "iv", d->iv, sizeof(d->iv));
}

/* The next key of one direction (RFC 8446 section 7.2). */
static void advance(struct sw_record *r, struct sw_record_dir *d)
{
    uint8_t next[SW_RECORD_SECRET_MAX];

    sw_sched_drop(sched_id(r, d));
    sw_hkdf_label(d->secret, r->secret_len, "traffic upd", next, r->secret_len);
    memcpy(d->secret, next, r->secret_len);
    explicit_bzero(next, sizeof(next));
    derive(r, d);
    d->gen++;
    d->seq = 0;
    d->bytes = 0;
}

void sw_record_init(struct sw_record *r, const struct sw_record_keys *k)
{
    assert(k->secret_len == 32 || k->secret_len == 48);
    assert(k->max_plain > 0 && k->max_plain <= SW_TLS_PLAIN_MAX);
    *r = (struct sw_record){
        .id = sw_sched_new_id(),
        .max_plain = (uint16_t)k->max_plain,
        .alg = (uint8_t)k->alg,
        .secret_len = (uint8_t)k->secret_len,
        .server = k->server,
    };
    memcpy(r->rx.secret, k->rx_secret, k->secret_len);
    memcpy(r->tx.secret, k->tx_secret, k->secret_len);
    derive(r, &r->rx);
    derive(r, &r->tx);
    r->rx.seq = k->rx_seq;
    r->tx.seq = k->tx_seq;
}

void sw_record_done(struct sw_record *r)
{
    sw_sched_drop(sched_id(r, &r->rx));
    sw_sched_drop(sched_id(r, &r->tx));
    explicit_bzero(r, sizeof(*r));
    r->dead = true;
}

static void make_nonce(const struct sw_record_dir *d, uint8_t nonce[SW_AEAD_NONCE])
{
    memcpy(nonce, d->iv, SW_AEAD_NONCE);
    for (int i = 0; i < 8; i++)
        nonce[4 + i] = (uint8_t)(nonce[4 + i] ^ (uint8_t)(d->seq >> (56 - 8 * i)));
}

static const struct sw_aead_sched *schedule(struct sw_record *r, const struct sw_record_dir *d)
{
    return sw_sched_get(sched_id(r, d), d->gen, (enum sw_aead_alg)r->alg, d->key);
}

/* --- sending --- */

/* inner = content and type byte (and padding), n bytes of it. */
static size_t seal_inner(struct sw_record *r, const uint8_t *inner, size_t n, uint8_t *out)
{
    size_t body = n + SW_AEAD_TAG;
    uint8_t nonce[SW_AEAD_NONCE];
    const struct sw_aead_input in = {nonce, out, SW_TLS_HEADER, inner, n};

    out[0] = TYPE_DATA;
    out[1] = 3;
    out[2] = 3;
    out[3] = (uint8_t)(body >> 8);
    out[4] = (uint8_t)body;
    make_nonce(&r->tx, nonce);
    sw_aead_seal(schedule(r, &r->tx), &in, out + SW_TLS_HEADER);
    r->tx.seq++;
    r->tx.bytes += body;
    return SW_TLS_HEADER + body;
}

static size_t seal_small(struct sw_record *r, uint8_t type, const uint8_t *p, size_t n,
                         uint8_t *out)
{
    uint8_t inner[16];

    assert(n < sizeof(inner));
    memcpy(inner, p, n);
    inner[n] = type;
    return seal_inner(r, inner, n + 1, out);
}

size_t sw_record_seal_raw(struct sw_record *r, uint8_t type, const uint8_t *p, size_t n, size_t pad,
                          uint8_t *out)
{
    uint8_t *inner = sw_calloc(1, n + 1 + pad);
    size_t len;

    if (n)
        memcpy(inner, p, n);
    inner[n] = type;
    len = seal_inner(r, inner, n + 1 + pad, out);
    sw_free(inner);
    return len;
}

static bool worn_out(const struct sw_record_dir *d)
{
    return d->seq >= SW_RECORD_REKEY_RECORDS || d->bytes >= SW_RECORD_REKEY_BYTES;
}

size_t sw_record_flush(struct sw_record *r, uint8_t *out)
{
    uint8_t msg[5] = {MSG_KEY_UPDATE, 0, 0, 1, r->ku_send == 2 ? 1 : 0};
    size_t n;

    if (!r->ku_send || r->dead || r->tx_closed)
        return 0;
    n = seal_small(r, TYPE_HANDSHAKE, msg, sizeof(msg), out);
    advance(r, &r->tx);
    r->ku_send = 0;
    return n;
}

void sw_record_key_update(struct sw_record *r, bool request)
{
    uint8_t kind = request ? 2 : 1;

    if (r->ku_send < kind)
        r->ku_send = kind;
}

size_t sw_record_seal(struct sw_record *r, uint8_t *plain, size_t n, uint8_t *out)
{
    size_t at;
    uint8_t saved;

    if (SW_UNLIKELY(r->dead || r->tx_closed))
        return 0;
    assert(n <= r->max_plain);
    if (SW_UNLIKELY(worn_out(&r->tx)))
        sw_record_key_update(r, false);
    at = SW_UNLIKELY(r->ku_send) ? sw_record_flush(r, out) : 0;
    if (n == 0)
        return at;
    saved = plain[n];
    plain[n] = TYPE_DATA;
    at += seal_inner(r, plain, n + 1, out + at);
    plain[n] = saved;
    return at;
}

size_t sw_record_close_notify(struct sw_record *r, uint8_t *out)
{
    static const uint8_t msg[2] = {1, SW_ALERT_CLOSE_NOTIFY};
    size_t at;

    if (r->dead || r->tx_closed)
        return 0;
    at = sw_record_flush(r, out);
    at += seal_small(r, TYPE_ALERT, msg, sizeof(msg), out + at);
    r->tx_closed = true;
    return at;
}

size_t sw_record_alert(struct sw_record *r, const struct sw_err *err, uint8_t *out)
{
    uint8_t msg[2] = {2, SW_ALERT_INTERNAL_ERROR};

    if (r->tx_closed)
        return 0;
    r->tx_closed = true;
    if (r->dead && r->alert == 0)
        return 0;
    if (r->dead)
        msg[1] = r->alert;
    else if (err && err->rc == SW_EDENIED)
        msg[1] = SW_ALERT_ACCESS_DENIED;
    r->dead = true;
    return seal_small(r, TYPE_ALERT, msg, sizeof(msg), out);
}

/* --- receiving --- */

static int fail(struct sw_record *r, enum sw_alert alert, struct sw_err *err, const char *what)
{
    r->dead = true;
    r->alert = (uint8_t)alert;
    return sw_err_set(err, SW_EPROTO, "%s", what);
}

static int got_alert(struct sw_record *r, const uint8_t *p, size_t n, struct sw_err *err)
{
    if (n != 2)
        return fail(r, n == 0 ? SW_ALERT_UNEXPECTED_MESSAGE : SW_ALERT_DECODE_ERROR, err,
                    "alert is not two bytes long");
    if (p[1] == SW_ALERT_CLOSE_NOTIFY) {
        r->rx_closed = true;
        return SW_EOF;
    }
    /* Only announces a close_notify; but a peer must not keep us busy with it. */
    if (p[1] == SW_ALERT_USER_CANCELED && p[0] == 1) {
        if (++r->empty_run > SW_RECORD_EMPTY_MAX)
            return fail(r, SW_ALERT_UNEXPECTED_MESSAGE, err, "too many records without content");
        return SW_OK;
    }
    r->dead = true;
    r->alert = 0;
    if (sw_alert_is_refusal(p[1]))
        return sw_err_set(err, SW_EDENIED, "peer refused our certificate (alert %u)", p[1]);
    return sw_err_set(err, SW_EPROTO, "peer sent alert %u (%s)", p[1], sw_alert_name(p[1]));
}

static int got_key_update(struct sw_record *r, uint8_t request, struct sw_err *err)
{
    uint64_t now;

    if (request > 1)
        return fail(r, SW_ALERT_ILLEGAL_PARAMETER, err, "KeyUpdate is neither 0 nor 1");
    now = sw_now_ns();
    if (r->ku_count == 0 || now - r->ku_from_ns > SW_RECORD_KEY_UPDATE_S * SW_NS_PER_S) {
        r->ku_from_ns = now;
        r->ku_count = 0;
    }
    if (++r->ku_count > SW_RECORD_KEY_UPDATES)
        return fail(r, SW_ALERT_UNEXPECTED_MESSAGE, err, "too many KeyUpdate messages");
    advance(r, &r->rx);
    if (request)
        sw_record_key_update(r, false);
    return SW_OK;
}

static int got_handshake_header(struct sw_record *r, struct sw_err *err)
{
    uint32_t len = (uint32_t)r->hs_head[1] << 16 | (uint32_t)r->hs_head[2] << 8 | r->hs_head[3];

    switch (r->hs_head[0]) {
    case MSG_TICKET:
        if (r->server)
            return fail(r, SW_ALERT_UNEXPECTED_MESSAGE, err, "client sent a session ticket");
        if (len == 0 || len > SW_RECORD_TICKET_MAX)
            return fail(r, SW_ALERT_DECODE_ERROR, err, "session ticket of impossible length");
        break;
    case MSG_KEY_UPDATE:
        if (len != 1)
            return fail(r, SW_ALERT_ILLEGAL_PARAMETER, err, "KeyUpdate of wrong length");
        break;
    default:
        return fail(r, SW_ALERT_UNEXPECTED_MESSAGE, err, "unexpected handshake message");
    }
    r->hs_left = len;
    return SW_OK;
}

/* Messages may be cut anywhere; only their header is ever kept. */
static int got_handshake(struct sw_record *r, const uint8_t *p, size_t n, struct sw_err *err)
{
    int rc = SW_OK;

    if (n == 0)
        return fail(r, SW_ALERT_UNEXPECTED_MESSAGE, err, "empty handshake record");
    while (n > 0) {
        if (r->hs_head_n < sizeof(r->hs_head)) {
            r->hs_head[r->hs_head_n++] = *p++;
            n--;
            if (r->hs_head_n == sizeof(r->hs_head))
                rc = got_handshake_header(r, err);
            if (rc != SW_OK)
                return rc;
            continue;
        }
        if (r->hs_head[0] == MSG_KEY_UPDATE) {
            r->hs_head_n = 0;
            r->hs_left = 0;
            /* The key changes with the next record, so nothing may follow in this one. */
            if (n > 1)
                return fail(r, SW_ALERT_UNEXPECTED_MESSAGE, err, "data behind a KeyUpdate");
            return got_key_update(r, *p, err);
        }
        size_t skip = sw_min(n, r->hs_left);

        p += skip;
        n -= skip;
        r->hs_left -= (uint32_t)skip;
        if (r->hs_left == 0)
            r->hs_head_n = 0;
    }
    return SW_OK;
}

static int dispatch(struct sw_record *r, uint8_t type, const uint8_t *p, size_t n,
                    struct sw_slice *ret_plain, struct sw_err *err)
{
    if (r->hs_head_n != 0 && type != TYPE_HANDSHAKE)
        return fail(r, SW_ALERT_UNEXPECTED_MESSAGE, err, "record inside a handshake message");
    switch (type) {
    case TYPE_DATA:
        if (n > 0)
            r->empty_run = 0;
        else if (++r->empty_run > SW_RECORD_EMPTY_MAX)
            return fail(r, SW_ALERT_UNEXPECTED_MESSAGE, err, "too many records without content");
        *ret_plain = sw_slice(p, n);
        return SW_OK;
    case TYPE_HANDSHAKE:
        return got_handshake(r, p, n, err);
    case TYPE_ALERT:
        return got_alert(r, p, n, err);
    default:
        return fail(r, SW_ALERT_UNEXPECTED_MESSAGE, err, "record of unexpected inner type");
    }
}

/* Length of the body of the record at buf, SW_EAGAIN or a failure. */
static int check_header(struct sw_record *r, const uint8_t *buf, size_t n, size_t *ret_len,
                        struct sw_err *err)
{
    size_t len;

    if (n > 0 && buf[0] != TYPE_DATA)
        return fail(r, SW_ALERT_UNEXPECTED_MESSAGE, err, "record of unexpected type");
    if (n < SW_TLS_HEADER)
        return SW_EAGAIN;
    len = (size_t)buf[3] << 8 | buf[4];
    if (len > OUTER_MAX)
        return fail(r, SW_ALERT_RECORD_OVERFLOW, err, "record is too long");
    if (len < 1 + SW_AEAD_TAG)
        return fail(r, SW_ALERT_BAD_RECORD_MAC, err, "record is too short");
    if (n < SW_TLS_HEADER + len)
        return SW_EAGAIN;
    *ret_len = len;
    return SW_OK;
}

int sw_record_open(struct sw_record *r, uint8_t *buf, size_t n, size_t *ret_used,
                   struct sw_slice *ret_plain, struct sw_err *err)
{
    const uint8_t *header = buf;
    uint8_t *body;
    uint8_t nonce[SW_AEAD_NONCE];
    size_t len = 0;
    size_t inner;
    int rc;

    *ret_used = 0;
    *ret_plain = sw_slice(buf, 0);
    if (SW_UNLIKELY(r->dead))
        return sw_err_set(err, SW_EPROTO, "the connection has failed already");
    if (SW_UNLIKELY(r->rx_closed)) {
        *ret_used = n; /* RFC 8446 section 6.1: what follows a close_notify is ignored */
        return SW_EOF;
    }
    rc = check_header(r, buf, n, &len, err);
    if (rc != SW_OK)
        return rc;
    body = buf + SW_TLS_HEADER;
    make_nonce(&r->rx, nonce);
    if (SW_UNLIKELY(r->rx.seq >> 48 != 0))
        return fail(r, SW_ALERT_UNEXPECTED_MESSAGE, err, "too many records under one key");
    if (sw_aead_open(schedule(r, &r->rx), nonce, header, SW_TLS_HEADER, body, len) != 0)
        return fail(r, SW_ALERT_BAD_RECORD_MAC, err, "record does not authenticate");
    r->rx.seq++;
    inner = len - SW_AEAD_TAG;
    if (inner > INNER_MAX)
        return fail(r, SW_ALERT_RECORD_OVERFLOW, err, "record holds too much");
    while (inner > 0 && body[inner - 1] == 0)
        inner--;
    if (inner == 0)
        return fail(r, SW_ALERT_UNEXPECTED_MESSAGE, err, "record without a type");
    rc = dispatch(r, body[inner - 1], body, inner - 1, ret_plain, err);
    if (rc == SW_OK || rc == SW_EOF)
        *ret_used = SW_TLS_HEADER + len;
    return rc;
}
