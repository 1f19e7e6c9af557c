/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A join code: the one string that brings a machine into the fabric. It holds where to ask, the
 * hash of the root that the answer must come from, which record is meant, and the secret. Opaque to
 * people; "sw1-" and base64url, with its own length and a checksum, so that a paste that lost its
 * end says so.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* What joins. The values are part of codes. */
enum sw_join_kind {
    SW_JOIN_NODE = 1,
    SW_JOIN_DEVICE = 2,
    SW_JOIN_GATEWAY = 3,
    SW_JOIN_PEER = 4,
};

enum {
    SW_JOIN_SECRET = 32,       /* bytes */
    SW_JOIN_HASH = 32,         /* SHA-256 of the root's SubjectPublicKeyInfo */
    SW_JOIN_ADDRESS_MAX = 261, /* a DNS name, ':' and a port */
    SW_JOIN_ID_MAX = 127,      /* "NAMESPACE/NAME" */
    SW_JOIN_CODE_MAX = 1024,   /* characters */
};

struct sw_join_code {
    enum sw_join_kind kind;
    char address[SW_JOIN_ADDRESS_MAX + 1]; /* "HOST:PORT" */
    char id[SW_JOIN_ID_MAX + 1];
    uint8_t root[SW_JOIN_HASH];
    uint8_t secret[SW_JOIN_SECRET]; /* callers wipe it */
};

/* "node", "device", "gateway", "peer"; NULL: no such kind. */
const char *sw_join_kind_name(enum sw_join_kind kind);
/* False: no such kind. */
SW_NODISCARD bool sw_join_kind_parse(struct sw_slice name, enum sw_join_kind *ret);
/* "NAMESPACE/NAME", both names of objects. */
bool sw_join_id_ok(struct sw_slice id);

/* Appends the code. SW_EINVAL (a field that no code can have) or SW_ELIMIT. */
SW_NODISCARD int sw_join_code_write(const struct sw_join_code *c, struct sw_buf *out,
                                    struct sw_err *err);
/*
 * Spaces and line ends around it are passed over. SW_EINVAL with a message that distinguishes a
 * code that is cut off, one that was mistyped and one of a newer version. The message never quotes
 * it.
 */
SW_NODISCARD int sw_join_code_read(struct sw_slice text, struct sw_join_code *ret,
                                   struct sw_err *err);

/* What is stored of a secret, in hexadecimal. */
void sw_join_secret_hash(const uint8_t secret[SW_JOIN_SECRET], char ret[65]);
