/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the bytes of a tunnel go by and reports which HTTP/1.1 exchanges they are. It only looks:
 * what it cannot read (TLS, HTTP/2, anything else) makes it stop, and no byte is delayed. No I/O
 * and no clock; memory is bounded by one head per direction and SW_PEEK_QUEUE requests.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

enum { SW_PEEK_QUEUE = 32, SW_PEEK_METHOD = 16, SW_PEEK_PATH = 256, SW_PEEK_HOST = 128 };

/* Slices live for the call. Longer texts are cut. */
struct sw_peek_exchange {
    struct sw_slice method;
    struct sw_slice host;
    struct sw_slice path;
    int status;                 /* 0: no answer came */
    bool complete;              /* the answer was seen to its end */
    uint64_t duration_ns;       /* from the request's head to the end of the answer */
    uint64_t bytes_in;          /* of the request's body */
    uint64_t bytes_out;         /* of the answer's body */
    struct sw_capture *capture; /* the receiver's to keep or drop; NULL: none */
};

typedef void (*sw_peek_cb)(void *arg, const struct sw_peek_exchange *x);

struct sw_capture;
struct sw_capture_store;
struct sw_peek;
/* store: where exchanges are captured; borrowed. NULL: nowhere. */
SW_NODISCARD struct sw_peek *sw_peek_new(sw_peek_cb cb, void *arg, struct sw_capture_store *store);
/* The next bytes of one direction. */
void sw_peek_bytes(struct sw_peek *p, bool from_origin, const void *bytes, size_t n,
                   uint64_t now_ns);
/* The tunnel ended: reports exchanges under way. */
void sw_peek_end(struct sw_peek *p, uint64_t now_ns);
/* NULL is fine. Reports nothing. */
void sw_peek_free(struct sw_peek *p);
/* True when it began as HTTP/2 does, with prior knowledge. */
bool sw_peek_http2(const struct sw_peek *p);
/* How many exchanges were reported. 0 at the end: this was no HTTP/1.1. */
uint64_t sw_peek_reported(const struct sw_peek *p);
