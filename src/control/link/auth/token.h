/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens and grants of links. A token lets one peer open one connection to one Export within five
 * seconds; a grant says what an open connection was allowed for, so that it can be judged again,
 * and is good for nothing else (a key of its own).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "policy/attr.h"
#include "tls/crypto/jws.h"

enum {
    SW_LINK_TOKEN_LIFE_S = 5,
    SW_LINK_JTI = 16,         /* bytes */
    SW_LINK_SRC_MAX = 6000,   /* bytes of source attributes as JSON, inside a token */
    SW_LINK_GRANT_MAX = 9000, /* bytes of a grant */
};

struct sw_link_key {
    uint8_t token[SW_JWS_HS256_KEY];
    uint8_t grant[SW_JWS_HS256_KEY]; /* derived from the former */
};

/* raw: 32 bytes or more of secret. */
SW_NODISCARD int sw_link_key_set(struct sw_link_key *k, struct sw_slice raw, struct sw_err *err);

/* What a token says. */
struct sw_link_token {
    struct sw_slice export_name;
    struct sw_slice export_ns;
    struct sw_slice peer;  /* whose certificate asked; empty: not known */
    struct sw_slice thumb; /* base64url of the SHA-256 of that certificate; empty: not known */
    struct sw_attrs src;
    uint64_t at_ms;           /* when it was minted, by the clock on the wall */
    uint64_t exp_s;           /* set by _mint */
    uint8_t jti[SW_LINK_JTI]; /* set by _mint */
};

/* SW_ELIMIT: the attributes are too long for a token. */
SW_NODISCARD int sw_link_token_mint(const struct sw_link_key *k, struct sw_link_token *t,
                                    uint64_t now_s, struct sw_buf *out, struct sw_err *err);
/* SW_EDENIED with the verifier's text: signature, form, a missing claim, expired. In the arena. */
SW_NODISCARD int sw_link_token_open(const struct sw_link_key *k, struct sw_arena *a,
                                    struct sw_slice text, uint64_t now_s, struct sw_link_token *ret,
                                    struct sw_err *err);

enum sw_link_side { SW_LINK_EGRESS, SW_LINK_INGRESS };

struct sw_link_grant {
    enum sw_link_side side;
    struct sw_slice import;   /* egress: "ns/name" */
    struct sw_slice client;   /* egress: address */
    struct sw_slice peer;     /* the other side */
    struct sw_slice exported; /* "ns/name" of the Export */
    struct sw_attrs src;      /* ingress */
};

SW_NODISCARD int sw_link_grant_mint(const struct sw_link_key *k, const struct sw_link_grant *g,
                                    struct sw_buf *out, struct sw_err *err);
SW_NODISCARD int sw_link_grant_open(const struct sw_link_key *k, struct sw_arena *a,
                                    struct sw_slice text, struct sw_link_grant *ret,
                                    struct sw_err *err);

/* ---- one use ---- */

struct sw_link_once;

SW_NODISCARD struct sw_link_once *sw_link_once_new(size_t max);
void sw_link_once_free(struct sw_link_once *o);
/* SW_OK: never seen before. SW_EDENIED: used. SW_ELIMIT: too many are remembered. */
SW_NODISCARD int sw_link_once_use(struct sw_link_once *o, const uint8_t jti[SW_LINK_JTI],
                                  uint64_t exp_s, uint64_t now_s);
