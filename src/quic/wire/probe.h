/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two of our endpoints say to each other to find direct paths: small datagrams beside QUIC on
 * the same socket, and one message inside an authenticated connection. Bytes in, structs out; no
 * I/O and no clock. The layout is in doc/decisions/0021-direct-paths.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/addr.h"
#include "quic/id/nodeid.h"

enum {
    PROBE_LEN = 58, /* of every kind: an answer is never larger than its question */
    PROBE_TAG = 8,
    PROBE_TX = 12,
    PROBE_KEY = 32,
    REACH_MAX = 60 + SW_QUIC_ADDRS_MAX * 19,
};

/*
 * The two top bits are clear, as in no packet of QUIC but those whose fixed bit was greased (RFC
 * 9287), which ngtcp2 does between two of its kind. So length and sum decide what is a probe, and
 * what is none continues to QUIC.
 */
enum sw_probe_kind {
    SW_PROBE_ASK = 0x10,  /* which address do you see me at? */
    SW_PROBE_TOLD = 0x11, /* this one */
    SW_PROBE_PING = 0x12, /* the same two between ends of a connection */
    SW_PROBE_PONG = 0x13,
};

struct sw_probe {
    enum sw_probe_kind kind;
    uint8_t tag[PROBE_TAG]; /* of the receiver's connection; zero for ask and told */
    uint8_t tx[PROBE_TX];   /* random; an answer repeats the question's */
    struct sw_addr seen;    /* answers: where the question came from; family 0: a question */
};

/* Worth a closer look by the functions below. */
static inline bool sw_probe_is(const uint8_t *p, size_t n)
{
    return n == PROBE_LEN && p[0] >= SW_PROBE_ASK && p[0] <= SW_PROBE_PONG;
}

/* key: what the receiver checks with. */
void sw_probe_write(const struct sw_probe *m, const uint8_t key[PROBE_KEY], uint8_t ret[PROBE_LEN]);
/* Reads without the key, to find it. SW_EINVAL: not one of ours. */
SW_NODISCARD int sw_probe_read(const uint8_t *p, size_t n, struct sw_probe *ret,
                               struct sw_err *err);
/* Was p, which sw_probe_read took, made with this key? */
bool sw_probe_genuine(const uint8_t *p, const uint8_t key[PROBE_KEY]);
/* The key for probes to a node without a connection: derived from its NodeID. */
void sw_probe_ask_key(const struct sw_nodeid *to, uint8_t ret[PROBE_KEY]);

/*
 * The candidates of one end of a connection, sent to the other end in a DATAGRAM frame. It begins
 * with a quarter stream ID that no stream can have, so a peer that does not know it drops it as a
 * datagram of no flow (RFC 9297, 2.1).
 */
struct sw_reach {
    bool want;      /* the sender has no acknowledgement of its 'seq' yet: answer */
    bool varies[2]; /* its NAT maps every destination to another address: IPv4, IPv6 */
    uint8_t tag[PROBE_TAG];
    uint8_t key[PROBE_KEY];
    uint32_t seq; /* a new one: probe now */
    uint32_t ack; /* the other end's last seq; 0: none */
    struct sw_addr addrs[SW_QUIC_ADDRS_MAX];
    size_t n;
};

bool sw_reach_is(const uint8_t *p, size_t n);
size_t sw_reach_write(const struct sw_reach *m, uint8_t ret[REACH_MAX]);
SW_NODISCARD int sw_reach_read(const uint8_t *p, size_t n, struct sw_reach *ret,
                               struct sw_err *err);
