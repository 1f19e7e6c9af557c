/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches a tunnel's first bytes go by and finds whether a TLS handshake in them succeeded. It
 * opens nothing: headers of records, alerts in the clear and the size of the client's first
 * encrypted record are enough (an alert is smaller than every other message). No memory, no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sw_tlswatch_state {
    SW_TLSWATCH_BEGIN,   /* nothing from the client yet */
    SW_TLSWATCH_PENDING, /* the client speaks TLS */
    SW_TLSWATCH_OTHER,   /* the client does not, or the origin spoke first: nothing is reported */
    SW_TLSWATCH_OK,
    SW_TLSWATCH_NO_TLS, /* the client does, and the origin answers something else */
    SW_TLSWATCH_FAILED, /* one of them gave up */
};

struct sw_tlswatch_side {
    uint8_t head[7]; /* of the record that is read: header, and what an alert says */
    uint8_t have;
    uint32_t skip;  /* bytes of it that are left */
    bool encrypted; /* what follows is encrypted */
};

/* Zeroed to begin with. */
struct sw_tlswatch {
    enum sw_tlswatch_state state;
    struct sw_tlswatch_side up;
    struct sw_tlswatch_side down;
};

void sw_tlswatch_bytes(struct sw_tlswatch *w, bool from_origin, const uint8_t *p, size_t n);
/* The tunnel ended: a handshake that was under way failed. */
void sw_tlswatch_end(struct sw_tlswatch *w);
