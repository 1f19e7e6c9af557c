/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of iroh's relay protocol, one per WebSocket message: a type and a body. Parsing copies
 * nothing; what a side may not send, and what is not exactly as long as it should be, is refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "tls/cert/rawkey.h"

enum sw_relay_type {
    SW_RELAY_CHALLENGE = 0,
    SW_RELAY_AUTH = 1,
    SW_RELAY_CONFIRMED = 2,
    SW_RELAY_DENIED = 3,
    SW_RELAY_SEND = 4, /* datagram, client to relay */
    SW_RELAY_SEND_BATCH = 5,
    SW_RELAY_RECV = 6, /* datagram, relay to client */
    SW_RELAY_RECV_BATCH = 7,
    SW_RELAY_GONE = 8,
    SW_RELAY_PING = 9,
    SW_RELAY_PONG = 10,
    SW_RELAY_HEALTH = 11,
    SW_RELAY_RESTARTING = 12,
    SW_RELAY_STATUS = 13,
};

enum sw_relay_health {
    SW_RELAY_HEALTHY = 0,
    SW_RELAY_SAME_ID = 1, /* the same id connected elsewhere: this connection is not used */
    SW_RELAY_RATE_LIMITED = 2,
};

enum {
    SW_RELAY_MESSAGE_MAX = 1 + 65536,
    SW_RELAY_CHALLENGE_LEN = 16,
    SW_RELAY_AUTH_LEN = 1 + SW_NODEID_LEN + 1 + SW_ED25519_SIG,
    SW_RELAY_PING_LEN = 8,
    SW_RELAY_DATAGRAM_HEAD = 1 + SW_NODEID_LEN + 1,
    SW_RELAY_BATCH_HEAD = SW_RELAY_DATAGRAM_HEAD + 2,
    SW_RELAY_PAYLOAD_MAX = SW_RELAY_MESSAGE_MAX - SW_RELAY_BATCH_HEAD,
    SW_RELAY_REASON_MAX = 120, /* of a refusal, as we send it */
};

/* The two versions, and their names as WebSocket subprotocols. */
enum { SW_RELAY_V1 = 1, SW_RELAY_V2 = 2 };
#define SW_RELAY_V1_NAME "iroh-relay-v1"
#define SW_RELAY_V2_NAME "iroh-relay-v2"

/* Which fields mean something depends on the type. Pointers lead into the message. */
struct sw_relay_frame {
    enum sw_relay_type type;
    const struct sw_nodeid *id; /* auth, datagrams, gone */
    uint8_t ecn;                /* datagrams: 0 none, 1 ECT(1), 2 ECT(0), 3 CE */
    uint16_t segment;           /* batches; 0: the payload is one datagram */
    uint8_t status;             /* status; values we do not know may come */
    uint32_t reconnect_ms;      /* restarting */
    uint32_t try_ms;
    uint8_t *p; /* payload, signature, challenge, bytes of a ping, text */
    size_t n;
};

/*
 * Reads a message. to_relay: which way it goes. SW_EPROTO: unknown type, wrong direction or
 * version, or a body that does not fit its type.
 */
SW_NODISCARD int sw_relay_parse(uint8_t *p, size_t n, bool to_relay, unsigned version,
                                struct sw_relay_frame *ret, struct sw_err *err);

/* Type, id, ECN and, in batches, segment: what stands before the payload. Returns its length. */
size_t sw_relay_put_datagram(uint8_t out[SW_RELAY_BATCH_HEAD], enum sw_relay_type type,
                             const struct sw_nodeid *id, uint8_t ecn, uint16_t segment);
size_t sw_relay_put_auth(uint8_t out[SW_RELAY_AUTH_LEN], const struct sw_nodeid *id,
                         const uint8_t sig[SW_ED25519_SIG]);
/* A reason longer than SW_RELAY_REASON_MAX is cut. */
size_t sw_relay_put_denied(uint8_t out[2 + SW_RELAY_REASON_MAX], const char *reason);
size_t sw_relay_put_restarting(uint8_t out[9], uint32_t reconnect_ms, uint32_t try_ms);
