/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signed tokens (RFC 7515, compact form) with ES256, or with HS256 between parts that share a key
 * (jws_hs256.c), and nothing else: the algorithm is ours to choose on both ends, so a header with
 * another one is refused before any key is touched.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/def.h"
#include "base/err.h"
#include "base/slice.h"

struct sw_jws_key;

enum { SW_JWS_TOKEN_MAX = 16384 };

/* A new P-256 key. NULL with err. */
struct sw_jws_key *sw_jws_key_new(struct sw_err *err);
/* From PEM (PKCS#8 or SEC1). Refuses anything but P-256. */
struct sw_jws_key *sw_jws_key_from_pem(struct sw_slice pem, struct sw_err *err);
/* From a public key (SubjectPublicKeyInfo, DER): it verifies and does not sign. P-256 only. */
struct sw_jws_key *sw_jws_key_public(struct sw_slice spki, struct sw_err *err);
/* Appends the private key as PKCS#8 PEM. */
SW_NODISCARD int sw_jws_key_pem(const struct sw_jws_key *k, struct sw_buf *out, struct sw_err *err);
void sw_jws_key_free(struct sw_jws_key *k);
/* The public key as one JWK (a JSON object); lives as long as the key. */
struct sw_slice sw_jws_jwk(const struct sw_jws_key *k);

/* Appends header.payload.signature. */
SW_NODISCARD int sw_jws_sign(const struct sw_jws_key *k, struct sw_slice payload,
                             struct sw_buf *out, struct sw_err *err);
/*
 * Checks a token and returns its payload (in the arena). Times and claims are the caller's.
 * SW_EINVAL: not a token of ours by form; SW_EDENIED: wrong signature.
 */
SW_NODISCARD int sw_jws_verify(const struct sw_jws_key *k, struct sw_arena *a,
                               struct sw_slice token, struct sw_slice *ret_payload,
                               struct sw_err *err);

enum { SW_JWS_HS256_KEY = 32 };

/* Appends header.payload.tag with the fixed header {"alg":"HS256","typ":"JWT"}. */
SW_NODISCARD int sw_jws_sign_hs256(const uint8_t key[SW_JWS_HS256_KEY], struct sw_slice payload,
                                   struct sw_buf *out);
/* As sw_jws_verify; any other header, byte for byte, is SW_EINVAL. */
SW_NODISCARD int sw_jws_verify_hs256(const uint8_t key[SW_JWS_HS256_KEY], struct sw_arena *a,
                                     struct sw_slice token, struct sw_slice *ret_payload,
                                     struct sw_err *err);

/* base64url without padding. */
SW_NODISCARD int sw_base64url_append(struct sw_buf *out, struct sw_slice s);
/* Refuses padding and anything not canonical. */
SW_NODISCARD int sw_base64url_decode(struct sw_buf *out, struct sw_slice text);
/* Digests for identifiers: appends nothing, writes 32 or 64 bytes. */
void sw_digest_sha256(struct sw_slice s, uint8_t ret[32]);
void sw_digest_sha512(struct sw_slice s, uint8_t ret[64]);
