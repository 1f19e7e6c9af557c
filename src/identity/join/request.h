/* SPDX-License-Identifier: Apache-2.0 */
/* The bodies of Redeem and Renew: bytes from unauthenticated clients, bounded and checked before
 * they are used. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "identity/join/code.h"

enum {
    SW_JOIN_REQUEST_MAX = 80 << 10, /* bytes */
    SW_JOIN_GATEWAYS_MAX = 64,
};

/* Where others reach a peer: "HOST:PORT" each. */
struct sw_join_gateways {
    struct sw_slice at[SW_JOIN_GATEWAYS_MAX];
    size_t n;
};

struct sw_join_request {
    struct sw_slice id;
    const uint8_t *secret; /* SW_JOIN_SECRET bytes */
    struct sw_slice csr;   /* not looked at yet */
    struct sw_slice host;  /* a DNS name, or empty */
    struct sw_join_gateways gateways;
};

/* In the arena. SW_EPROTO, SW_ELIMIT or SW_EINVAL. */
SW_NODISCARD int sw_join_request_read(struct sw_arena *a, struct sw_slice msg,
                                      struct sw_join_request *ret, struct sw_err *err);
/* Of Renew: csr and gateways alone, both optional. */
SW_NODISCARD int sw_join_renewal_read(struct sw_arena *a, struct sw_slice msg,
                                      struct sw_join_request *ret, struct sw_err *err);
/* "HOST:PORT" with a DNS name or an address? */
bool sw_join_gateway_ok(struct sw_slice at);
