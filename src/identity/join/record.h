/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record: the Secret behind a join code, and from its redemption on behind the machine that
 * redeemed it. Type "spanwire.dev/join", in the namespace of what joins, so that who may write
 * Secrets there decides, and so that what was made for the machine is owned by it and goes with it.
 * It holds a hash of the secret, never the secret, and the machine's public key, never the private.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/slice.h"
#include "identity/join/code.h"

#define SW_JOIN_LABEL "spanwire.dev/join" /* its value is the kind */
#define SW_JOIN_TYPE  "spanwire.dev/join"

/* Everything is borrowed from the arena it was read into. */
struct sw_join_record {
    struct sw_slice id; /* "NAMESPACE/NAME" of the Secret */
    struct sw_slice ns;
    struct sw_slice uid;
    struct sw_slice rv;
    enum sw_join_kind kind;
    /* What was decided when the code was made. */
    struct sw_slice name;    /* of the machine */
    struct sw_slice account; /* its service account */
    struct sw_slice network;
    struct sw_slice address;      /* empty: where it calls from */
    const struct sw_json *labels; /* of its WorkloadEntry; may be NULL */
    struct sw_slice server;       /* devices, gateways: URL of the API, its roots (PEM) */
    struct sw_slice ca;
    struct sw_slice xds_address; /* gateways */
    struct sw_slice xds_ca;
    uint64_t expires_s; /* of the code, since the epoch */
    struct sw_slice secret_hash;
    /* What was added when it was redeemed; key is empty before. */
    struct sw_slice key; /* SubjectPublicKeyInfo, DER */
    struct sw_slice redeemed_at;
    struct sw_slice from; /* address */
    struct sw_slice host; /* its own word */
};

/* The name of the Secret: that of the id behind the namespace. */
struct sw_slice sw_join_record_name(const struct sw_join_record *r);
/* SW_EINVAL: not a record, or a part of it that this version cannot honour. */
SW_NODISCARD int sw_join_record_read(struct sw_arena *a, const struct sw_json *secret,
                                     struct sw_join_record *ret, struct sw_err *err);
/* The Secret of a new record; its name is that of r->id. */
struct sw_json *sw_join_record_new(struct sw_arena *a, const struct sw_join_record *r);
/* The merge patch that redeems it, only if it is still the one that was read. */
struct sw_json *sw_join_record_redeem(struct sw_arena *a, const struct sw_join_record *r);
/* An owner reference to the record. */
struct sw_json *sw_join_record_owner(struct sw_arena *a, const struct sw_join_record *r);

/* What a redemption meets. */
enum sw_join_verdict {
    SW_JOIN_FIRST, /* grant, once it is written down who it was */
    SW_JOIN_AGAIN, /* the same machine asks once more, because an answer was lost */
    SW_JOIN_WRONG, /* not the secret */
    SW_JOIN_EXPIRED,
    SW_JOIN_USED, /* by another machine */
};

/* hash: of the secret that was sent; key: of the caller; now_s since the epoch. */
enum sw_join_verdict sw_join_judge(const struct sw_join_record *r, const char hash[65],
                                   struct sw_slice key, uint64_t now_s);
/* For people. */
const char *sw_join_verdict_text(enum sw_join_verdict v);
