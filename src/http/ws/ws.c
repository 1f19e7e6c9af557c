/* SPDX-License-Identifier: Apache-2.0 */
#include "http/ws/ws.h"

#include <string.h>

#include "base/base64.h"
#include "base/rand.h"
#include "base/utf8.h"

/* ---- SHA-1: the upgrade's check that the other end speaks WebSocket; it protects nothing ---- */

static uint32_t rol(uint32_t x, unsigned n)
{
    return x << n | x >> (32 - n);
}

static uint32_t load_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void sha1_block(uint32_t h[5], const uint8_t block[64])
{
    uint32_t w[80];
    uint32_t v[5];

    for (unsigned i = 0; i < 16; i++)
        w[i] = load_be32(block + 4 * (size_t)i);
    for (unsigned i = 16; i < 80; i++)
        w[i] = rol(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(v, h, sizeof(v));
    for (unsigned i = 0; i < 80; i++) {
        static const uint32_t k[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
        uint32_t f = i < 20 || (i >= 40 && i < 60) ? 0 : v[1] ^ v[2] ^ v[3];
        uint32_t t;

        if (i < 20)
            f = (v[1] & v[2]) | (~v[1] & v[3]);
        else if (i >= 40 && i < 60)
            f = (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3]);
        t = rol(v[0], 5) + f + v[4] + k[i / 20] + w[i];
        v[4] = v[3];
        v[3] = v[2];
        v[2] = rol(v[1], 30);
        v[1] = v[0];
        v[0] = t;
    }
    for (unsigned i = 0; i < 5; i++)
        h[i] += v[i];
}

/* Of at most 119 bytes, two blocks: enough for a key and the constant behind it. */
static void sha1_short(const uint8_t *p, size_t n, uint8_t out[20])
{
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t block[128] = {0};
    size_t len = n < 56 ? 64 : 128;

    memcpy(block, p, n);
    block[n] = 0x80;
    block[len - 2] = (uint8_t)(n * 8 >> 8);
    block[len - 1] = (uint8_t)(n * 8);
    for (size_t at = 0; at < len; at += 64)
        sha1_block(h, block + at);
    for (size_t i = 0; i < 20; i++)
        out[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

/* ---- the upgrade ---- */

static void base64_text(const uint8_t *p, size_t n, char *out, size_t cap)
{
    SW_BUF_AUTO b = {.max = cap};

    if (sw_base64_append(&b, sw_slice(p, n)) == SW_OK)
        memcpy(out, sw_buf_data(&b), sw_buf_len(&b));
    out[sw_buf_len(&b)] = '\0';
}

void sw_ws_new_key(char out[SW_WS_KEY])
{
    uint8_t raw[16];

    sw_rand_bytes(raw, sizeof(raw));
    base64_text(raw, sizeof(raw), out, SW_WS_KEY - 1);
}

void sw_ws_accept(struct sw_slice key, char out[SW_WS_ACCEPT])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    uint8_t text[64 + sizeof(guid)];
    uint8_t digest[20];
    size_t n = sw_min(key.n, 64);

    memcpy(text, key.p, n);
    memcpy(text + n, guid, sizeof(guid) - 1);
    sha1_short(text, n + sizeof(guid) - 1, digest);
    base64_text(digest, sizeof(digest), out, SW_WS_ACCEPT - 1);
}

static bool key_valid(struct sw_slice key)
{
    SW_BUF_AUTO raw = {.max = 32};

    return key.n == SW_WS_KEY - 1 && sw_base64_decode(&raw, key) == SW_OK && sw_buf_len(&raw) == 16;
}

int sw_ws_check_request(const struct sw_h1_msg *m, struct sw_slice *ret_key, struct sw_err *err)
{
    const struct sw_slice *key = sw_h1_field(m, "sec-websocket-key");
    const struct sw_slice *version = sw_h1_field(m, "sec-websocket-version");

    if (!sw_slice_eq_str(m->method, "GET") || m->minor < 1)
        return sw_err_set(err, SW_EINVAL, "not a GET of HTTP/1.1");
    if (m->upgrade.n == 0 || !sw_h1_has_token(m, "upgrade", "websocket"))
        return sw_err_set(err, SW_EINVAL, "no upgrade to websocket");
    if (m->framing != SW_H1_NO_BODY)
        return sw_err_set(err, SW_EINVAL, "an upgrade with a body");
    if (!version || !sw_slice_eq_str(*version, "13"))
        return sw_err_set(err, version ? SW_ENOENT : SW_EINVAL, "no Sec-WebSocket-Version 13");
    if (!key || !key_valid(*key))
        return sw_err_set(err, SW_EINVAL, "no valid Sec-WebSocket-Key");
    *ret_key = *key;
    return SW_OK;
}

int sw_ws_check_response(const struct sw_h1_msg *m, struct sw_slice key, struct sw_err *err)
{
    const struct sw_slice *got = sw_h1_field(m, "sec-websocket-accept");
    char want[SW_WS_ACCEPT];

    if (m->status != 101)
        return sw_err_set(err, SW_EDENIED, "server answered %d", m->status);
    if (!sw_h1_has_token(m, "upgrade", "websocket"))
        return sw_err_set(err, SW_EPROTO, "server upgraded to something else");
    sw_ws_accept(key, want);
    if (!got || !sw_slice_eq_str(*got, want))
        return sw_err_set(err, SW_EPROTO, "Sec-WebSocket-Accept is wrong");
    if (sw_h1_field(m, "sec-websocket-extensions"))
        return sw_err_set(err, SW_EPROTO, "server uses an unrequested extension");
    return SW_OK;
}

/* ---- frames ---- */

void sw_ws_mask(uint8_t *p, size_t n, const uint8_t mask[4])
{
    typedef uint64_t wide __attribute__((vector_size(32)));
    uint64_t word;
    wide key;

    memcpy(&word, mask, 4);
    memcpy((uint8_t *)&word + 4, mask, 4);
    key = (wide){word, word, word, word};
    for (; n >= sizeof(wide); p += sizeof(wide), n -= sizeof(wide)) {
        wide v;

        memcpy(&v, p, sizeof(v));
        v ^= key;
        memcpy(p, &v, sizeof(v));
    }
    for (size_t i = 0; i < n; i++)
        p[i] ^= mask[i & 3];
}

size_t sw_ws_put_head(uint8_t out[SW_WS_HEAD_MAX], enum sw_ws_op op, uint64_t payload,
                      const uint8_t *mask)
{
    uint8_t bit = mask ? 0x80 : 0;
    size_t n = 2;

    out[0] = (uint8_t)(0x80u | (unsigned)op);
    if (payload < 126) {
        out[1] = (uint8_t)(bit | payload);
    } else if (payload <= UINT16_MAX) {
        out[1] = bit | 126;
        out[2] = (uint8_t)(payload >> 8);
        out[3] = (uint8_t)payload;
        n = 4;
    } else {
        out[1] = bit | 127;
        for (unsigned i = 0; i < 8; i++)
            out[2 + i] = (uint8_t)(payload >> (56 - 8 * i));
        n = 10;
    }
    if (mask) {
        memcpy(out + n, mask, 4);
        n += 4;
    }
    return n;
}

struct head {
    bool fin;
    uint8_t op;
    uint64_t len;
    const uint8_t *mask; /* NULL: none */
    size_t n;            /* bytes of the head */
};

void sw_ws_init(struct sw_ws *w, bool client, uint32_t max)
{
    *w = (struct sw_ws){.max = max, .client = client};
    sw_buf_init(&w->pieces, max);
}

void sw_ws_done(struct sw_ws *w)
{
    sw_buf_done(&w->pieces);
}

static int refuse(struct sw_ws *w, uint16_t code, int rc, struct sw_err *err, const char *why)
{
    w->refusal = code;
    return sw_err_set(err, rc, "websocket: %s", why);
}

/* Judges the first two bytes before more is awaited. */
static int check_head(struct sw_ws *w, const struct head *h, uint8_t first, struct sw_err *err)
{
    bool control = h->op >= 8;

    if (w->closed)
        return refuse(w, SW_WS_PROTOCOL_ERROR, SW_EPROTO, err, "frame after the close frame");
    if (first & 0x70)
        return refuse(w, SW_WS_PROTOCOL_ERROR, SW_EPROTO, err, "reserved bits are set");
    if (h->op > SW_WS_PONG || (h->op > SW_WS_BINARY && h->op < SW_WS_CLOSE))
        return refuse(w, SW_WS_PROTOCOL_ERROR, SW_EPROTO, err, "unknown kind of frame");
    if (control && !h->fin)
        return refuse(w, SW_WS_PROTOCOL_ERROR, SW_EPROTO, err, "fragmented control frame");
    if (!control && (h->op == SW_WS_CONTINUATION) != (w->fragment_op != 0))
        return refuse(w, SW_WS_PROTOCOL_ERROR, SW_EPROTO, err,
                      w->fragment_op ? "message inside a message" : "fragment of no message");
    return SW_OK;
}

static int check_length(struct sw_ws *w, const struct head *h, size_t width, struct sw_err *err)
{
    if (h->op >= 8 && h->len > SW_WS_CONTROL_MAX)
        return refuse(w, SW_WS_PROTOCOL_ERROR, SW_EPROTO, err, "long control frame");
    if ((width == 2 && h->len < 126) || (width == 8 && h->len <= UINT16_MAX))
        return refuse(w, SW_WS_PROTOCOL_ERROR, SW_EPROTO, err, "length is not in its short form");
    if (h->op < 8 && h->len > w->max - sw_buf_len(&w->pieces))
        return refuse(w, SW_WS_TOO_LARGE, SW_ELIMIT, err, "message is too large");
    return SW_OK;
}

/* SW_OK, SW_EAGAIN or a refusal. */
static int parse_head(struct sw_ws *w, const uint8_t *in, size_t n, struct head *h,
                      struct sw_err *err)
{
    size_t width;
    int rc;

    if (n < 2)
        return SW_EAGAIN;
    h->fin = in[0] & 0x80;
    h->op = in[0] & 0x0f;
    h->len = in[1] & 0x7f;
    rc = check_head(w, h, in[0], err);
    if (rc != SW_OK)
        return rc;
    if (!(in[1] & 0x80) != w->client)
        return refuse(w, SW_WS_PROTOCOL_ERROR, SW_EPROTO, err,
                      w->client ? "masked frame of a server" : "frame of a client without mask");
    width = h->len == 126 ? 2 : h->len == 127 ? 8 : 0;
    h->n = 2 + width + (w->client ? 0 : 4);
    if (n < h->n)
        return SW_EAGAIN;
    if (width)
        h->len = 0;
    for (size_t i = 0; i < width; i++)
        h->len = h->len << 8 | in[2 + i];
    h->mask = w->client ? NULL : in + 2 + width;
    return check_length(w, h, width, err);
}

static bool close_code_valid(unsigned code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

static int close_event(struct sw_ws *w, struct sw_ws_event *ev, struct sw_err *err)
{
    if (ev->n == 0) {
        ev->code = SW_WS_NO_CODE;
    } else if (ev->n == 1) {
        return refuse(w, SW_WS_PROTOCOL_ERROR, SW_EPROTO, err, "close frame of one byte");
    } else {
        ev->code = (uint16_t)(ev->p[0] << 8 | ev->p[1]);
        ev->p += 2;
        ev->n -= 2;
        if (!close_code_valid(ev->code))
            return refuse(w, SW_WS_PROTOCOL_ERROR, SW_EPROTO, err, "close code is not allowed");
        if (!sw_utf8_valid(sw_slice(ev->p, ev->n)))
            return refuse(w, SW_WS_BAD_TEXT, SW_EPROTO, err, "close reason is not UTF-8");
    }
    w->closed = true;
    return SW_OK;
}

/* Puts a fragment to its message. SW_OK: the message is whole, in *ev. */
static int assemble(struct sw_ws *w, const struct head *h, const uint8_t *p, struct sw_ws_event *ev,
                    struct sw_err *err)
{
    if (h->op != SW_WS_CONTINUATION) {
        sw_buf_clear(&w->pieces); /* of the message before, reported by now */
        w->fragment_op = h->op;
        w->fragments = 0;
    }
    if (++w->fragments > SW_WS_FRAGMENTS_MAX ||
        (h->len && sw_buf_append(&w->pieces, p, (size_t)h->len) != SW_OK))
        return refuse(w, SW_WS_TOO_LARGE, SW_ELIMIT, err, "message of too many fragments");
    if (!h->fin)
        return SW_EAGAIN;
    ev->op = (enum sw_ws_op)w->fragment_op;
    ev->n = sw_buf_len(&w->pieces);
    if (ev->n)
        ev->p = (uint8_t *)w->pieces.p + w->pieces.off;
    w->fragment_op = 0;
    return SW_OK;
}

int sw_ws_next(struct sw_ws *w, uint8_t *in, size_t n, size_t *ret_used, struct sw_ws_event *ret,
               struct sw_err *err)
{
    struct sw_ws_event ev = {0};
    struct head h = {0};
    int rc;

    *ret_used = 0;
    if (w->fragment_op == 0 && w->pieces.p)
        sw_buf_done(&w->pieces); /* the message in there was reported by the last call */
    rc = parse_head(w, in, n, &h, err);
    if (rc != SW_OK)
        return rc;
    if (n - h.n < h.len)
        return SW_EAGAIN;
    ev.op = (enum sw_ws_op)h.op;
    ev.p = in + h.n;
    ev.n = (size_t)h.len;
    if (h.mask)
        sw_ws_mask(ev.p, ev.n, h.mask);
    *ret_used = h.n + ev.n;
    if (h.op == SW_WS_CLOSE)
        rc = close_event(w, &ev, err);
    else if (h.op < 8 && (!h.fin || h.op == SW_WS_CONTINUATION))
        rc = assemble(w, &h, ev.p, &ev, err);
    if (rc == SW_OK && ev.op == SW_WS_TEXT && !sw_utf8_valid(sw_slice(ev.p, ev.n)))
        rc = refuse(w, SW_WS_BAD_TEXT, SW_EPROTO, err, "text is not UTF-8");
    if (rc == SW_OK)
        *ret = ev;
    return rc;
}
