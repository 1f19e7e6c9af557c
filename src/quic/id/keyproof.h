/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proof that the device behind a Connector has the secret half of the NodeID its status names.
 *
 * The challenge is what the API server chose for the object: its uid, random and used once, and the
 * resourceVersion the device saw, which only grows. The device signs both with the object's
 * namespace and name and its own NodeID, and puts the signature into an annotation. Every reader of
 * the object can verify it, and no nonce has to be stored: a proof copied to another object has the
 * wrong uid, one of an earlier key the wrong NodeID. Of two Connectors with proofs of one key the
 * one signed later, by resourceVersion, is where the device is now.
 *
 * The message begins with a text of its own and is longer than 100 bytes, so that nothing that TLS
 * (64 blanks first), a relay (a digest of 32 bytes) or pkarr ("3:seqi") makes a device sign is one.
 */
#pragma once

#include <stdint.h>

#include "base/json.h"
#include "quic/id/nodeid.h"

/* On a Connector: "v1.<resourceVersion>.<signature in hex>". */
#define SW_KEYPROOF "spanwire.dev/key-proof"

enum {
    SW_KEYPROOF_TEXT = 3 + 20 + 1 + 2 * SW_ED25519_SIG + 1,
    SW_KEYPROOF_FIELD = 253, /* bytes of uid, namespace and name at most */
};

/* What is proved; slices borrowed. */
struct sw_keyproof_of {
    struct sw_slice uid;
    struct sw_slice ns;
    struct sw_slice name;
    uint64_t version; /* the resourceVersion that the device saw */
};

enum sw_keyproof {
    SW_KEYPROOF_VALID,
    SW_KEYPROOF_NO_KEY,    /* the status names no NodeID, or none that can be one */
    SW_KEYPROOF_MISSING,   /* no annotation */
    SW_KEYPROOF_MALFORMED, /* an annotation that is no proof */
    SW_KEYPROOF_AHEAD,     /* names a resourceVersion that the object has not reached */
    SW_KEYPROOF_WRONG,     /* not signed by that key, or for another object */
};

/* The annotation's value. SW_EINVAL: a field is empty or too long; or the key cannot sign. */
SW_NODISCARD int sw_keyproof_sign(const struct sw_rawkey *key, const struct sw_keyproof_of *of,
                                  char ret[SW_KEYPROOF_TEXT], struct sw_err *err);
/* The parts of an annotation's value; SW_EINVAL for anything sw_keyproof_sign does not write. */
SW_NODISCARD int sw_keyproof_parse(struct sw_slice text, uint64_t *ret_version,
                                   uint8_t ret_sig[SW_ED25519_SIG]);
/*
 * Judges a Connector by itself, from its metadata and its status.connectionDetails; conditions are
 * not looked at. *ret_version (may be NULL): what was signed, when valid; otherwise 0. A function
 * of the object and nothing else, from any thread: results of signatures are remembered.
 */
enum sw_keyproof sw_keyproof_check(const struct sw_json *connector, uint64_t *ret_version);
/* What to read of it: ends a sentence that begins with "The device has not proved its key: ". */
const char *sw_keyproof_text(enum sw_keyproof p);
/* metadata.resourceVersion as a number; 0 when it is none. */
uint64_t sw_keyproof_version(const struct sw_json *obj);
