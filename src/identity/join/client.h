/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's side of joining. The roots are asked for first and compared with the hash in the
 * code; only the root that has it is trusted for the call that carries the secret. Each function
 * runs a loop of its own until it has its answer: for commands, not for roles, which have
 * sw_join_renewal_start.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "identity/join/code.h"
#include "identity/join/request.h"

struct sw_loop;

/* What a machine got. Everything is in the arena. */
struct sw_join_bundle {
    enum sw_join_kind kind;
    struct sw_slice ns;
    struct sw_slice name;
    struct sw_slice trust_domain;
    struct sw_slice roots;   /* PEM, of the port that answered */
    struct sw_slice account; /* nodes */
    struct sw_slice cluster;
    struct sw_slice network;
    struct sw_slice address;
    struct sw_slice server; /* devices and gateways */
    struct sw_slice ca;
    struct sw_slice token; /* callers wipe it */
    struct sw_slice expires;
    struct sw_slice xds_address;
    struct sw_slice xds_ca;
    struct sw_slice certificate; /* peers */
    struct sw_slice peer_roots;
    struct sw_join_gateways gateways; /* of the site that answered */
    struct sw_slice site;             /* what it is called */
};

/* What a machine says of itself. */
struct sw_join_self {
    struct sw_slice csr;                     /* PEM */
    const struct sw_join_gateways *gateways; /* peers; may be NULL */
};

/* How a machine that joined reaches the control plane. */
struct sw_join_at {
    struct sw_slice address; /* "HOST:PORT" */
    struct sw_slice roots;   /* PEM */
    struct sw_slice token;   /* of sw_machine_token */
};

/*
 * The root (PEM, one of those in 'roots') whose key has this hash. SW_EDENIED: none has.
 */
SW_NODISCARD int sw_join_root_find(struct sw_slice roots, const uint8_t hash[SW_JOIN_HASH],
                                   struct sw_slice *ret, struct sw_err *err);
/* The hash of the first root of a bundle, for a code. */
SW_NODISCARD int sw_join_root_hash(struct sw_slice roots, uint8_t ret[SW_JOIN_HASH],
                                   struct sw_err *err);

/*
 * Redeems the code for the key of the request. Retries while the control plane does not answer or
 * limits this address, until patience_ns went by. SW_EDENIED: refused, with the control plane's
 * reason; SW_ETIME: no answer, SW_ELIMIT: still limited, and in both cases the same call may
 * succeed later; SW_EPROTO.
 */
SW_NODISCARD int sw_join_redeem(const struct sw_join_code *code, const struct sw_join_self *self,
                                uint64_t patience_ns, struct sw_arena *a,
                                struct sw_join_bundle *ret, struct sw_err *err);
/* self: of peers; NULL for others. */
SW_NODISCARD int sw_join_renew(const struct sw_join_at *at, const struct sw_join_self *self,
                               uint64_t patience_ns, struct sw_arena *a, struct sw_join_bundle *ret,
                               struct sw_err *err);

/*
 * The same, once and on a loop that runs. done comes from the loop; the bundle lives for the call,
 * and is NULL unless rc is SW_OK. The renewal is gone when done is called.
 */
struct sw_join_renewal;
typedef void (*sw_join_renewal_cb)(void *arg, int rc, const struct sw_join_bundle *b,
                                   const struct sw_err *err);
SW_NODISCARD struct sw_join_renewal *sw_join_renewal_start(struct sw_loop *l,
                                                           const struct sw_join_at *at,
                                                           const struct sw_join_self *self,
                                                           sw_join_renewal_cb done, void *arg,
                                                           struct sw_err *err);
/* No callback any more. NULL is fine. */
void sw_join_renewal_cancel(struct sw_join_renewal *r);

SW_NODISCARD int sw_join_leave(const struct sw_join_at *at, uint64_t patience_ns,
                               struct sw_err *err);
/* For tests and fuzzing: an answer's bytes. SW_EPROTO: nothing this version can use. */
SW_NODISCARD int sw_join_bundle_read(struct sw_arena *a, struct sw_slice msg,
                                     struct sw_join_bundle *ret, struct sw_err *err);
