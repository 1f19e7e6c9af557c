/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens whose signer and verifier share a key. */
#include "tls/crypto/hmac.h"
#include "tls/crypto/jws.h"

/* {"alg":"HS256","typ":"JWT"} and the dot behind it. */
#define HEAD "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."

static void make_tag(const uint8_t key[SW_JWS_HS256_KEY], struct sw_slice text,
                     uint8_t ret[SW_HMAC_SHA256])
{
    sw_hmac_sha256(sw_slice(key, SW_JWS_HS256_KEY), &text, 1, ret);
}

int sw_jws_sign_hs256(const uint8_t key[SW_JWS_HS256_KEY], struct sw_slice payload,
                      struct sw_buf *out)
{
    SW_BUF_AUTO text = {.max = SW_JWS_TOKEN_MAX};
    uint8_t tag[SW_HMAC_SHA256];

    if (sw_buf_append_str(&text, HEAD) != SW_OK || sw_base64url_append(&text, payload) != SW_OK)
        return SW_ELIMIT;
    make_tag(key, sw_buf_slice(&text), tag);
    if (sw_buf_putc(&text, '.') != SW_OK ||
        sw_base64url_append(&text, sw_slice(tag, sizeof(tag))) != SW_OK)
        return SW_ELIMIT;
    return sw_buf_append_slice(out, sw_buf_slice(&text));
}

int sw_jws_verify_hs256(const uint8_t key[SW_JWS_HS256_KEY], struct sw_arena *a,
                        struct sw_slice token, struct sw_slice *ret_payload, struct sw_err *err)
{
    ptrdiff_t dot = sw_slice_rfind(token, '.');
    struct sw_slice text = sw_slice_head(token, dot > 0 ? (size_t)dot : 0);
    SW_BUF_AUTO tag = {.max = 64};
    SW_BUF_AUTO payload = {.max = SW_JWS_TOKEN_MAX};
    uint8_t expected[SW_HMAC_SHA256];

    if (token.n > SW_JWS_TOKEN_MAX || !sw_slice_has_prefix(text, SW_SLICE_LIT(HEAD)))
        return sw_err_set(err, SW_EINVAL, "not a token signed with HS256");
    if (sw_base64url_decode(&tag, sw_slice_from(token, (size_t)dot + 1)) != SW_OK)
        return sw_err_set(err, SW_EINVAL, "signature does not parse");
    make_tag(key, text, expected);
    if (sw_buf_len(&tag) != sizeof(expected) ||
        !sw_secret_eq(sw_buf_data(&tag), expected, sizeof(expected)))
        return sw_err_set(err, SW_EDENIED, "signature does not match");
    if (sw_base64url_decode(&payload, sw_slice_from(text, sizeof(HEAD) - 1)) != SW_OK)
        return sw_err_set(err, SW_EINVAL, "payload does not parse");
    *ret_payload = sw_arena_slice(a, sw_buf_slice(&payload));
    return SW_OK;
}
