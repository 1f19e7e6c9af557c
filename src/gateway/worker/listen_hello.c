/* SPDX-License-Identifier: Apache-2.0 */
/* Reads SNI and ALPN out of a ClientHello (RFC 8446 4.1.2, RFC 6066 3, RFC 7301). */
#include <string.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/worker/listen_hello.h"

enum {
    RECORD_HEAD = 5,
    RECORD_HANDSHAKE = 22,
    RECORD_MAX = 16384,
    CLIENT_HELLO = 1,
    EXT_SNI = 0,
    EXT_ALPN = 16,
};

/* A cursor that never reads past its end: 'bad' sticks. */
struct reader {
    const uint8_t *p;
    size_t n;
    bool bad;
};

static struct reader take(struct reader *r, size_t n)
{
    struct reader part = {r->p, n, false};

    if (r->bad || n > r->n) {
        r->bad = true;
        return (struct reader){NULL, 0, true};
    }
    r->p += n;
    r->n -= n;
    return part;
}

static size_t number(struct reader *r, size_t bytes)
{
    struct reader f = take(r, bytes);
    size_t v = 0;

    for (size_t i = 0; i < f.n; i++)
        v = v << 8 | f.p[i];
    return v;
}

/* A vector with a length of so many bytes in front. */
static struct reader vector(struct reader *r, size_t bytes)
{
    return take(r, number(r, bytes));
}

static void read_sni(struct reader ext, struct sw_gw_hello *h)
{
    struct reader list = vector(&ext, 2);

    while (list.n && !list.bad) {
        size_t type = number(&list, 1);
        struct reader name = vector(&list, 2);

        if (type != 0 || name.bad || name.n == 0 || name.n >= sizeof(h->sni_text))
            continue;
        if (memchr(name.p, 0, name.n))
            continue;
        for (size_t i = 0; i < name.n; i++) {
            uint8_t c = name.p[i];

            h->sni_text[i] = c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
        }
        h->sni = sw_slice(h->sni_text, name.n);
        if (h->sni.p[h->sni.n - 1] == '.')
            h->sni.n--;
        return;
    }
}

static void read_alpn(struct reader ext, struct sw_gw_hello *h)
{
    struct reader list = vector(&ext, 2);
    size_t at = 0;

    while (list.n && !list.bad && h->n_alpn < SW_GW_HELLO_ALPN) {
        struct reader name = vector(&list, 1);

        if (name.bad || name.n == 0 || name.n > sizeof(h->alpn_text) - at)
            return;
        memcpy(h->alpn_text + at, name.p, name.n);
        h->alpn[h->n_alpn++] = sw_slice(h->alpn_text + at, name.n);
        at += name.n;
    }
}

static int read_hello(struct reader body, struct sw_gw_hello *h)
{
    struct reader exts;

    (void)take(&body, 2 + 32);
    (void)vector(&body, 1); /* session id */
    (void)vector(&body, 2); /* ciphers */
    (void)vector(&body, 1); /* compression */
    if (body.bad)
        return SW_EPROTO;
    if (body.n == 0)
        return SW_OK;
    exts = vector(&body, 2);
    while (exts.n && !exts.bad) {
        size_t type = number(&exts, 2);
        struct reader ext = vector(&exts, 2);

        if (type == EXT_SNI)
            read_sni(ext, h);
        else if (type == EXT_ALPN)
            read_alpn(ext, h);
    }
    return exts.bad || body.bad ? SW_EPROTO : SW_OK;
}

/* Puts the handshake bytes of all complete records together. The length, or a result code. */
static ssize_t join_records(struct sw_slice in, uint8_t *out, size_t cap)
{
    size_t at = 0;
    size_t n = 0;

    while (in.n - at >= 1) {
        const uint8_t *p = (const uint8_t *)in.p + at;
        size_t len;

        if (p[0] != RECORD_HANDSHAKE || (in.n - at >= 2 && p[1] != 3))
            return SW_EPROTO;
        if (in.n - at < RECORD_HEAD)
            break;
        len = (size_t)p[3] << 8 | p[4];
        if (len == 0 || len > RECORD_MAX)
            return SW_EPROTO;
        len = sw_min(len, in.n - at - RECORD_HEAD);
        if (len > cap - n)
            return SW_EPROTO;
        memcpy(out + n, p + RECORD_HEAD, len);
        n += len;
        at += RECORD_HEAD + len;
        if (n >= 4 && n >= 4 + ((size_t)out[1] << 16 | (size_t)out[2] << 8 | out[3]))
            break;
    }
    return (ssize_t)n;
}

int sw_gw_hello_parse(struct sw_slice in, struct sw_gw_hello *ret)
{
    SW_AUTO_FREE uint8_t *text = sw_malloc(SW_GW_HELLO_MAX);
    ssize_t n = join_records(in, text, SW_GW_HELLO_MAX);
    struct reader r = {text, n > 0 ? (size_t)n : 0, false};
    size_t len;
    int rc;

    memset(ret, 0, sizeof(*ret));
    if (n < 0)
        return (int)n;
    if (r.n >= 1 && r.p[0] != CLIENT_HELLO)
        return SW_EPROTO;
    if (r.n < 4)
        return in.n < SW_GW_HELLO_MAX ? SW_EAGAIN : SW_EPROTO;
    (void)take(&r, 1);
    len = number(&r, 3);
    if (len > SW_GW_HELLO_MAX - 4)
        return SW_EPROTO;
    if (len > r.n)
        return in.n < SW_GW_HELLO_MAX ? SW_EAGAIN : SW_EPROTO;
    rc = read_hello(take(&r, len), ret);
    if (rc != SW_OK)
        memset(ret, 0, sizeof(*ret));
    return rc;
}
