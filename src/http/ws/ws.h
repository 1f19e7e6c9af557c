/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSocket (RFC 6455) without I/O: heads and masks of frames, both roles, messages put together
 * from fragments, control frames, and the two ends of the upgrade. Extensions are not spoken.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "http/h1.h"

enum sw_ws_op {
    SW_WS_CONTINUATION = 0,
    SW_WS_TEXT = 1,
    SW_WS_BINARY = 2,
    SW_WS_CLOSE = 8,
    SW_WS_PING = 9,
    SW_WS_PONG = 10,
};

/* Close codes we say; a peer may use others. */
enum {
    SW_WS_NORMAL = 1000,
    SW_WS_GOING_AWAY = 1001,
    SW_WS_PROTOCOL_ERROR = 1002,
    SW_WS_NO_CODE = 1005, /* never sent: the close frame was empty */
    SW_WS_BAD_TEXT = 1007,
    SW_WS_POLICY = 1008,
    SW_WS_TOO_LARGE = 1009,
};

enum {
    SW_WS_HEAD_MAX = 14,
    SW_WS_CONTROL_MAX = 125,
    SW_WS_FRAGMENTS_MAX = 1024, /* of one message */
    SW_WS_ACCEPT = 28 + 1,
    SW_WS_KEY = 24 + 1,
};

/* The receiving half of a connection. */
struct sw_ws {
    uint32_t max;         /* bytes of one message */
    bool client;          /* our role: a client receives unmasked frames, a server masked ones */
    bool closed;          /* a close frame came: nothing may follow it */
    uint8_t fragment_op;  /* kind of the message being put together; 0: none */
    uint16_t fragments;   /* seen of it */
    uint16_t refusal;     /* close code that belongs to the last failure */
    struct sw_buf pieces; /* of it */
};

struct sw_ws_event {
    enum sw_ws_op op; /* text, binary, close, ping or pong */
    uint8_t *p;       /* payload, unmasked, writable; valid until the next call */
    size_t n;
    uint16_t code; /* close only; p and n are the reason then */
};

/* Nothing is allocated until a message arrives in fragments. */
void sw_ws_init(struct sw_ws *w, bool client, uint32_t max);
void sw_ws_done(struct sw_ws *w);

/*
 * Takes one frame of in[0..n), which is unmasked where it lies, and reports a message as soon as it
 * is whole. The bytes of an incomplete frame are offered again, with more behind them.
 * *ret_used is always written.
 *
 * SW_OK with an event; SW_EAGAIN: more bytes needed (a fragment may have been used); SW_EPROTO,
 * SW_ELIMIT: refused, w->refusal is the code to close with.
 */
SW_NODISCARD int sw_ws_next(struct sw_ws *w, uint8_t *in, size_t n, size_t *ret_used,
                            struct sw_ws_event *ret, struct sw_err *err);

/*
 * Writes the head of a whole (unfragmented) frame; mask: four bytes on clients, NULL on servers.
 * Returns its length.
 */
size_t sw_ws_put_head(uint8_t out[SW_WS_HEAD_MAX], enum sw_ws_op op, uint64_t payload,
                      const uint8_t *mask);
/* Masks or unmasks in place; the bytes begin at the start of the payload. */
void sw_ws_mask(uint8_t *p, size_t n, const uint8_t mask[4]);

/* A fresh Sec-WebSocket-Key. */
void sw_ws_new_key(char out[SW_WS_KEY]);
/* What a server answers to a key. */
void sw_ws_accept(struct sw_slice key, char out[SW_WS_ACCEPT]);
/*
 * Is this a request to speak WebSocket? SW_OK with the key; SW_EINVAL: not well-formed;
 * SW_ENOENT: a version other than 13.
 */
SW_NODISCARD int sw_ws_check_request(const struct sw_h1_msg *m, struct sw_slice *ret_key,
                                     struct sw_err *err);
/* The answer to our request with that key: SW_OK, SW_EDENIED (another status), SW_EPROTO. */
SW_NODISCARD int sw_ws_check_response(const struct sw_h1_msg *m, struct sw_slice key,
                                      struct sw_err *err);
