/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ed25519 key pairs that are an identity by themselves (RFC 8032, and RFC 7250 in TLS): the public
 * key is the name of a device or a gateway, and nothing else vouches for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/slice.h"

enum { SW_NODEID_LEN = 32, SW_SEED_LEN = 32, SW_ED25519_SIG = 64, SW_RAWKEY_PKCS8 = 48 };

/* A public key: the NodeID (EndpointId in iroh's words). */
struct sw_nodeid {
    uint8_t b[SW_NODEID_LEN];
};

static inline bool sw_nodeid_eq(const struct sw_nodeid *a, const struct sw_nodeid *b)
{
    return memcmp(a->b, b->b, SW_NODEID_LEN) == 0;
}

/* A secret key with its NodeID. May be used from several threads at once. */
struct sw_rawkey;

SW_NODISCARD struct sw_rawkey *sw_rawkey_from_seed(const uint8_t seed[SW_SEED_LEN],
                                                   struct sw_err *err);
SW_NODISCARD struct sw_rawkey *sw_rawkey_generate(struct sw_err *err);
/*
 * The key of a file of 32 raw bytes; made once, mode 0600, when the file does not exist. A file of
 * another size, or one that others may read, is refused: SW_EINVAL, SW_ESYS.
 */
SW_NODISCARD struct sw_rawkey *sw_rawkey_open(const char *path, struct sw_err *err);
/* Wipes it. Accepts NULL. */
void sw_rawkey_free(struct sw_rawkey *k);
const struct sw_nodeid *sw_rawkey_id(const struct sw_rawkey *k);
const uint8_t *sw_rawkey_seed(const struct sw_rawkey *k);
/* The secret key as PKCS#8 (RFC 8410); callers overwrite it after use. */
void sw_rawkey_pkcs8(const struct sw_rawkey *k, uint8_t ret[SW_RAWKEY_PKCS8]);

SW_NODISCARD int sw_rawkey_sign(const struct sw_rawkey *k, struct sw_slice msg,
                                uint8_t ret_sig[SW_ED25519_SIG], struct sw_err *err);
/* True when the signature is right. */
bool sw_rawkey_verify(const struct sw_nodeid *id, struct sw_slice msg,
                      const uint8_t sig[SW_ED25519_SIG]);
/* False for bytes that are no point of the curve, or one of small order. */
bool sw_nodeid_valid(const struct sw_nodeid *id);
