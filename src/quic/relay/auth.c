/* SPDX-License-Identifier: Apache-2.0 */
#include "quic/relay/auth.h"

#include <string.h>

#include "base/buf.h"
#include "tls/crypto/hmac.h"
#include "tls/crypto/jws.h"

/* ---- BLAKE3: single blocks, which is all that is needed ---- */

enum {
    CHUNK_START = 1,
    CHUNK_END = 2,
    ROOT = 8,
    DERIVE_KEY_CONTEXT = 32,
    DERIVE_KEY_MATERIAL = 64,
};

static const uint32_t iv[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static uint32_t ror(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

/* Mixes a column of the 4 x 4 words, or with shift 1 the diagonal that begins there. */
static void mix(uint32_t s[16], size_t a, size_t shift, uint32_t x, uint32_t y)
{
    size_t b = 4 + (a + shift) % 4;
    size_t c = 8 + (a + 2 * shift) % 4;
    size_t d = 12 + (a + 3 * shift) % 4;

    s[a] += s[b] + x;
    s[d] = ror(s[d] ^ s[a], 16);
    s[c] += s[d];
    s[b] = ror(s[b] ^ s[c], 12);
    s[a] += s[b] + y;
    s[d] = ror(s[d] ^ s[a], 8);
    s[c] += s[d];
    s[b] = ror(s[b] ^ s[c], 7);
}

static void rounds(uint32_t s[16], uint32_t m[16])
{
    static const uint8_t order[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};

    for (int round = 0; round < 7; round++) {
        uint32_t next[16];

        for (size_t i = 0; i < 4; i++)
            mix(s, i, 0, m[2 * i], m[2 * i + 1]);
        for (size_t i = 0; i < 4; i++)
            mix(s, i, 1, m[8 + 2 * i], m[9 + 2 * i]);
        for (unsigned i = 0; i < 16; i++)
            next[i] = m[order[i]];
        memcpy(m, next, sizeof(next));
    }
}

/* Hash of at most one block; the first eight words of the output. */
static void one_block(const uint32_t cv[8], const void *p, size_t n, uint32_t flags,
                      uint32_t ret[8])
{
    uint8_t block[64] = {0};
    uint32_t m[16];
    uint32_t s[16];

    memcpy(block, p, n);
    for (size_t i = 0; i < 16; i++)
        m[i] = (uint32_t)block[4 * i] | (uint32_t)block[4 * i + 1] << 8 |
               (uint32_t)block[4 * i + 2] << 16 | (uint32_t)block[4 * i + 3] << 24;
    memcpy(s, cv, 8 * sizeof(s[0]));
    memcpy(s + 8, iv, 4 * sizeof(s[0]));
    s[12] = s[13] = 0;
    s[14] = (uint32_t)n;
    s[15] = flags;
    rounds(s, m);
    for (unsigned i = 0; i < 8; i++)
        ret[i] = s[i] ^ s[i + 8];
}

void sw_relay_challenge_digest(const uint8_t challenge[SW_RELAY_CHALLENGE_LEN], uint8_t ret[32])
{
    static const char context[] = "iroh-relay handshake v1 challenge signature";
    uint32_t key[8];
    uint32_t out[8];

    one_block(iv, context, sizeof(context) - 1, CHUNK_START | CHUNK_END | ROOT | DERIVE_KEY_CONTEXT,
              key);
    one_block(key, challenge, SW_RELAY_CHALLENGE_LEN,
              CHUNK_START | CHUNK_END | ROOT | DERIVE_KEY_MATERIAL, out);
    for (size_t i = 0; i < 32; i++)
        ret[i] = (uint8_t)(out[i / 4] >> (8 * (i % 4)));
}

int sw_relay_answer(const struct sw_rawkey *key, const uint8_t challenge[SW_RELAY_CHALLENGE_LEN],
                    uint8_t ret_sig[SW_ED25519_SIG], struct sw_err *err)
{
    uint8_t digest[32];

    sw_relay_challenge_digest(challenge, digest);
    return sw_rawkey_sign(key, sw_slice(digest, sizeof(digest)), ret_sig, err);
}

bool sw_relay_answer_ok(const struct sw_nodeid *id, const uint8_t challenge[SW_RELAY_CHALLENGE_LEN],
                        const uint8_t sig[SW_ED25519_SIG])
{
    uint8_t digest[32];

    sw_relay_challenge_digest(challenge, digest);
    return sw_nodeid_valid(id) && sw_rawkey_verify(id, sw_slice(digest, sizeof(digest)), sig);
}

/* ---- the header: id, length byte, signature, second half of the keying material ---- */

enum {
    HEADER_RAW = SW_NODEID_LEN + 1 + SW_ED25519_SIG + 16,
    HEADER_TEXT = SW_RELAY_AUTH_HEADER - 1
};

int sw_relay_header_make(const struct sw_rawkey *key, const uint8_t km[SW_RELAY_KM_LEN],
                         char out[SW_RELAY_AUTH_HEADER], struct sw_err *err)
{
    uint8_t raw[HEADER_RAW];
    SW_BUF_AUTO text = {.max = HEADER_TEXT + 4};
    int rc;

    memcpy(raw, sw_rawkey_id(key)->b, SW_NODEID_LEN);
    raw[SW_NODEID_LEN] = SW_ED25519_SIG;
    rc = sw_rawkey_sign(key, sw_slice(km, 16), raw + SW_NODEID_LEN + 1, err);
    if (rc != SW_OK)
        return rc;
    memcpy(raw + HEADER_RAW - 16, km + 16, 16);
    rc = sw_base64url_append(&text, sw_slice(raw, sizeof(raw)));
    if (rc != SW_OK)
        return rc;
    memcpy(out, sw_buf_data(&text), HEADER_TEXT);
    out[HEADER_TEXT] = '\0';
    return SW_OK;
}

int sw_relay_header_parse(struct sw_slice text, struct sw_relay_header *ret, struct sw_err *err)
{
    const uint8_t *raw;
    SW_BUF_AUTO out = {.max = HEADER_RAW};

    if (text.n != HEADER_TEXT)
        return sw_err_set(err, SW_EINVAL, SW_RELAY_AUTH_FIELD " of %zu characters", text.n);
    if (sw_slice_find(text, '+') >= 0 || sw_slice_find(text, '/') >= 0)
        return sw_err_set(err, SW_EINVAL, SW_RELAY_AUTH_FIELD " in the wrong alphabet");
    if (sw_base64url_decode(&out, text) != SW_OK || sw_buf_len(&out) != HEADER_RAW)
        return sw_err_set(err, SW_EINVAL, SW_RELAY_AUTH_FIELD " is no base64");
    raw = (const uint8_t *)sw_buf_data(&out);
    if (raw[SW_NODEID_LEN] != SW_ED25519_SIG)
        return sw_err_set(err, SW_EINVAL, SW_RELAY_AUTH_FIELD " with a signature of %u bytes",
                          raw[SW_NODEID_LEN]);
    memcpy(ret->id.b, raw, SW_NODEID_LEN);
    memcpy(ret->sig, raw + SW_NODEID_LEN + 1, SW_ED25519_SIG);
    memcpy(ret->km_tail, raw + HEADER_RAW - 16, 16);
    return SW_OK;
}

bool sw_relay_header_ok(const struct sw_relay_header *h, const uint8_t km[SW_RELAY_KM_LEN])
{
    return sw_secret_eq(h->km_tail, km + 16, 16) && sw_nodeid_valid(&h->id) &&
           sw_rawkey_verify(&h->id, sw_slice(km, 16), h->sig);
}
