/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include "base/err.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int sw_base64_append(struct sw_buf *out, struct sw_slice s)
{
    const unsigned char *in = (const unsigned char *)s.p;
    size_t n = (s.n + 2) / 3 * 4;
    char *to;

    if (n == 0)
        return SW_OK;
    to = sw_buf_reserve(out, n);
    if (!to)
        return SW_ELIMIT;
    for (size_t i = 0; i < s.n; i += 3) {
        size_t left = sw_min(s.n - i, 3);
        uint32_t v = (uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
                     (left > 2 ? in[i + 2] : 0);

        *to++ = alphabet[v >> 18];
        *to++ = alphabet[v >> 12 & 63];
        *to++ = '=';
        *to++ = '=';
        if (left > 1)
            to[-2] = alphabet[v >> 6 & 63];
        if (left > 2)
            to[-1] = alphabet[v & 63];
    }
    sw_buf_commit(out, n);
    return SW_OK;
}

static int value_of(char c)
{
    const char *at = c ? strchr(alphabet, c) : NULL;

    return at ? (int)(at - alphabet) : -1;
}

/* One group of four; returns the bytes it holds (1 to 3), 0 when malformed. */
static size_t decode_group(const char *p, bool last, char out[3])
{
    size_t n = !last || p[3] != '=' ? 3 : p[2] != '=' ? 2 : 1;
    uint32_t v = 0;

    for (size_t i = 0; i < 4; i++) {
        int d = i <= n ? value_of(p[i]) : 0;

        if (d < 0)
            return 0;
        v = v << 6 | (uint32_t)d;
    }
    /* Bits behind the last byte must be zero, or two texts would mean the same bytes. */
    if ((n == 1 && (v & 0xffff)) || (n == 2 && (v & 0xff)))
        return 0;
    out[0] = (char)(v >> 16);
    out[1] = (char)(v >> 8);
    out[2] = (char)v;
    return n;
}

int sw_base64_decode(struct sw_buf *out, struct sw_slice text)
{
    size_t before = sw_buf_len(out);

    if (text.n % 4)
        return SW_EINVAL;
    for (size_t i = 0; i < text.n; i += 4) {
        char bytes[3];
        size_t n = decode_group(text.p + i, i + 4 == text.n, bytes);
        int rc = n ? sw_buf_append(out, bytes, n) : SW_EINVAL;

        if (rc != SW_OK) {
            out->n -= sw_buf_len(out) - before; /* nothing on error */
            return rc;
        }
    }
    return SW_OK;
}
