/* SPDX-License-Identifier: Apache-2.0 */
/* Signed DNS messages (TSIG, RFC 8945) with hmac-sha256 and nothing else. No clock: time comes in.
 */
#pragma once

#include "base/arena.h"
#include "dns/wire.h"
#include "tls/crypto/hmac.h"

enum { SW_DNS_TSIG_FUDGE_S = 300, SW_DNS_TSIG_MAX = 2 * SW_DNS_NAME_MAX + 80 };

struct sw_dns_key {
    struct sw_dns_name name;
    struct sw_slice secret;
};

/*
 * A key as text: "[hmac-sha256:]name:base64", as dig and kdig take it, or the statement of
 * named.conf that tsig-keygen prints. In the arena. SW_EINVAL; the secret is in no message.
 */
SW_NODISCARD int sw_dns_key_parse(struct sw_arena *a, struct sw_slice text, struct sw_dns_key *ret,
                                  struct sw_err *err);

/* A code to chain from: of the request in its answer, of the message before in a transfer. */
struct sw_dns_mac {
    bool set;
    uint8_t b[SW_HMAC_SHA256];
};

/* What signing and checking have in common. */
struct sw_dns_tsig_ctx {
    struct sw_dns_mac prior; /* replaced by the code of this message */
    bool timers_only;        /* second and later messages of a transfer */
    uint64_t now_s;
};

/*
 * Appends the signature and counts it. error: code to report, 0 = none; with BADSIG and BADKEY the
 * message goes out unsigned, as it must. False when it does not fit.
 */
bool sw_dns_tsig_sign(struct sw_dns_writer *w, const struct sw_dns_key *key, unsigned error,
                      struct sw_dns_tsig_ctx *c);

struct sw_dns_tsig_found {
    const struct sw_dns_key *key; /* NULL: unknown */
    struct sw_dns_name name;      /* of the requested key */
    unsigned error;               /* to report: BADSIG, BADKEY, BADTIME, or the peer's error */
    size_t start;                 /* where it begins: the message without it ends there */
};

/*
 * SW_OK: the last record signs the message with one of the keys. SW_ENOENT: it is not signed.
 * SW_EDENIED: it is, wrongly: see ret->error. SW_EPROTO: the message does not parse, or a
 * signature stands elsewhere.
 */
SW_NODISCARD int sw_dns_tsig_verify(struct sw_slice msg, const struct sw_dns_key *keys,
                                    size_t n_keys, struct sw_dns_tsig_ctx *c,
                                    struct sw_dns_tsig_found *ret);
