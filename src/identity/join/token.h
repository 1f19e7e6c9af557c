/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a joined machine shows: a token it signs itself with the key that its record holds the
 * public half of. Good for ten minutes, for one trust domain. Nothing has to be renewed, and what
 * counts is the record: without it the key is void.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

struct sw_jws_key;

enum {
    SW_MACHINE_TOKEN_S = 600, /* seconds that one is good for */
    SW_MACHINE_TOKEN_MAX = 2048,
};

/* Files of a joined machine in its directory. */
#define SW_MACHINE_FILE  "machine.json"
#define SW_MACHINE_KEY   "machine.key"
#define SW_MACHINE_ROOTS "roots.pem"

/* Appends a token of the machine 'id' at now_s (since the epoch). */
SW_NODISCARD int sw_machine_token_sign(const struct sw_jws_key *key, struct sw_slice id,
                                       struct sw_slice trust_domain, uint64_t now_s,
                                       struct sw_buf *out, struct sw_err *err);
/* The same by the files of a directory. Callers wipe out. */
SW_NODISCARD int sw_machine_token(const char *dir, struct sw_buf *out, struct sw_err *err);

/* Whose token it claims to be, in the arena; p == NULL: not one of a machine. Proves nothing. */
struct sw_slice sw_machine_token_id(struct sw_arena *a, struct sw_slice token);
/*
 * SW_OK when the key signed it for this machine and trust domain and it is good at now_s;
 * otherwise SW_EDENIED with the reason.
 */
SW_NODISCARD int sw_machine_token_verify(const struct sw_jws_key *key, struct sw_slice token,
                                         struct sw_slice id, struct sw_slice trust_domain,
                                         uint64_t now_s, struct sw_err *err);
