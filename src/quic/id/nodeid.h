/* SPDX-License-Identifier: Apache-2.0 */
/* The text forms of a NodeID, and what is known of where it can be reached. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"
#include "tls/cert/rawkey.h"

enum {
    SW_NODEID_HEX = 64 + 1,
    SW_NODEID_B32 = 52 + 1,   /* base32 and z-base-32 */
    SW_NODEID_SHORT = 10 + 1, /* for logs: the first five bytes in hex */
    SW_QUIC_ADDRS_MAX = 16,
};

/* 64 lower-case hex digits: the canonical form. Each returns out. */
char *sw_nodeid_hex(const struct sw_nodeid *id, char out[SW_NODEID_HEX]);
char *sw_nodeid_short(const struct sw_nodeid *id, char out[SW_NODEID_SHORT]);
/* z-base-32, for DNS labels. */
char *sw_nodeid_z32(const struct sw_nodeid *id, char out[SW_NODEID_B32]);
/* RFC 4648 base32, lower case, no padding. */
char *sw_nodeid_b32(const struct sw_nodeid *id, char out[SW_NODEID_B32]);

/* 64 lower-case hex digits or 52 characters of base32 in any case; a valid key. SW_EINVAL. */
SW_NODISCARD int sw_nodeid_parse(struct sw_slice in, struct sw_nodeid *ret, struct sw_err *err);
/* 52 characters of z-base-32. SW_EINVAL. */
SW_NODISCARD int sw_nodeid_parse_z32(struct sw_slice in, struct sw_nodeid *ret, struct sw_err *err);

/* Addresses of a node. Borrowed from an arena or from the maker. */
struct sw_quic_target {
    struct sw_nodeid id;
    struct sw_slice relay; /* URL of its home relay; empty: none */
    const struct sw_addr *addrs;
    size_t n_addrs; /* at most SW_QUIC_ADDRS_MAX */
};
