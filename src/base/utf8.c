/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

size_t sw_utf8_len(const char *at, size_t n)
{
    const unsigned char *p = (const unsigned char *)at;
    unsigned char c = p[0];
    unsigned char lo = 0x80;
    unsigned char hi = 0xbf;
    size_t len;

    if (c < 0x80)
        return 1;
    if (c < 0xc2 || c > 0xf4)
        return 0;
    len = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (c == 0xe0)
        lo = 0xa0; /* overlong */
    else if (c == 0xed)
        hi = 0x9f; /* surrogates */
    else if (c == 0xf0)
        lo = 0x90; /* overlong */
    else if (c == 0xf4)
        hi = 0x8f; /* above U+10FFFF */
    if (n < len || p[1] < lo || p[1] > hi)
        return 0;
    for (size_t i = 2; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    return len;
}

/* Bytes of ASCII at the start, eight at a time: what remains of them is left to the caller. */
static size_t skip_ascii(const char *p, size_t n)
{
    size_t i = 0;
    uint64_t w;

    for (; i + sizeof(w) <= n; i += sizeof(w)) {
        memcpy(&w, p + i, sizeof(w));
        if (w & 0x8080808080808080U)
            break;
    }
    return i;
}

bool sw_utf8_valid(struct sw_slice a)
{
    size_t i = a.n ? skip_ascii(a.p, a.n) : 0;

    while (i < a.n) {
        size_t k = sw_utf8_len(a.p + i, a.n - i);

        if (k == 0)
            return false;
        i += k;
    }
    return true;
}

size_t sw_utf8_put(char to[4], uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 0x3f));
        to[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 0x3f));
    to[2] = (char)(0x80 | (c >> 6 & 0x3f));
    to[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* Of a well-formed sequence. C1 (U+0080 to U+009F) begins with c2: terminals obey it like ESC. */
static bool is_control(const char *at, size_t n)
{
    unsigned char c = (unsigned char)at[0];

    return n == 2 ? c == 0xc2 && (unsigned char)at[1] < 0xa0 : n == 1 && (c < 0x20 || c == 0x7f);
}

void sw_utf8_mask(char *text, size_t n, char with)
{
    for (size_t i = 0; i < n;) {
        size_t len = sw_utf8_len(text + i, n - i);
        size_t bad = !len ? 1 : is_control(text + i, len) ? len : 0;

        memset(text + i, with, bad);
        i += len ? len : 1;
    }
}
