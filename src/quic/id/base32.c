/* SPDX-License-Identifier: Apache-2.0 */
#include "quic/id/base32.h"

const char sw_base32_rfc4648[33] = "abcdefghijklmnopqrstuvwxyz234567";
const char sw_base32_z[33] = "ybndrfg8ejkmcpqxot1uwisza345h769";

void sw_base32_write(const char *alphabet, const uint8_t *p, size_t n, char *out)
{
    unsigned acc = 0;
    unsigned bits = 0;

    for (size_t i = 0; i < n; i++) {
        acc = acc << 8 | p[i];
        for (bits += 8; bits >= 5; bits -= 5)
            *out++ = alphabet[acc >> (bits - 5) & 31];
    }
    if (bits > 0)
        *out = alphabet[acc << (5 - bits) & 31];
}

bool sw_base32_read(const char *alphabet, bool fold, struct sw_slice text, uint8_t *out)
{
    unsigned acc = 0;
    unsigned bits = 0;

    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        const char *at;

        if (fold && c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        at = c ? strchr(alphabet, c) : NULL;
        if (!at)
            return false;
        acc = acc << 5 | (unsigned)(at - alphabet);
        bits += 5;
        if (bits >= 8) {
            bits -= 8;
            *out++ = (uint8_t)(acc >> bits);
        }
    }
    return bits < 5 && (acc & ((1u << bits) - 1)) == 0;
}
