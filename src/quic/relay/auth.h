/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a client of a relay proves its key: by signing a challenge, or (over TLS) by signing what
 * only the two ends of that very TLS connection can know, sent along with the upgrade.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "quic/wire/relay.h"
#include "tls/cert/rawkey.h"

enum {
    SW_RELAY_KM_LEN = 32,           /* keying material of the TLS connection */
    SW_RELAY_AUTH_HEADER = 151 + 1, /* text of the header */
};
/* Label for sw_tls_export; the context is the client's id. */
#define SW_RELAY_EXPORT_LABEL "iroh-relay handshake v1"
#define SW_RELAY_AUTH_FIELD   "X-Iroh-Relay-Client-Auth-V1"

/* What is signed instead of the challenge itself: BLAKE3 in its key derivation mode. */
void sw_relay_challenge_digest(const uint8_t challenge[SW_RELAY_CHALLENGE_LEN], uint8_t ret[32]);
SW_NODISCARD int sw_relay_answer(const struct sw_rawkey *key,
                                 const uint8_t challenge[SW_RELAY_CHALLENGE_LEN],
                                 uint8_t ret_sig[SW_ED25519_SIG], struct sw_err *err);
/* True when the id's key signed the challenge. */
bool sw_relay_answer_ok(const struct sw_nodeid *id, const uint8_t challenge[SW_RELAY_CHALLENGE_LEN],
                        const uint8_t sig[SW_ED25519_SIG]);

/* The header of a client whose connection exports 'km'. */
SW_NODISCARD int sw_relay_header_make(const struct sw_rawkey *key,
                                      const uint8_t km[SW_RELAY_KM_LEN],
                                      char out[SW_RELAY_AUTH_HEADER], struct sw_err *err);

struct sw_relay_header {
    struct sw_nodeid id;
    uint8_t sig[SW_ED25519_SIG];
    uint8_t km_tail[16];
};
/* SW_EINVAL: malformed. */
SW_NODISCARD int sw_relay_header_parse(struct sw_slice text, struct sw_relay_header *ret,
                                       struct sw_err *err);
/* False when it belongs to another connection (a proxy in between), or the signature is wrong. */
bool sw_relay_header_ok(const struct sw_relay_header *h, const uint8_t km[SW_RELAY_KM_LEN]);
