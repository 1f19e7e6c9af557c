/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory a worker thread lends to whichever connection is moving bytes right now, so that a
 * connection at rest owns no buffers. Nothing in here survives a return to the loop.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "io/loop.h"

struct sw_tstream;

enum {
    SW_SLOT_DATA = 16375,      /* payload of one DATA frame: with its head one TLS record */
    SW_SLOT_HEAD = 16,         /* room in front of a slot's payload, 9 bytes are used */
    SW_SLOT_SIZE = 16384 + 16, /* distance of slots; leaves a spare byte behind each */
    SW_SLOTS = 16,             /* records per system call */
    SW_RX_SIZE = 256 * 1024 + 17 * 1024, /* one batch and a record begun before it */
    SW_TX_SIZE = (SW_SLOTS + 6) * 16640,
    SW_STAGE_SIZE = 16384,  /* frames collected into one record */
    SW_GATHER_STREAMS = 16, /* streams whose data one receive batch may collect */
    SW_GATHER_IOV = 32,
};

/* Payloads of one stream found in a receive batch, not yet written to its socket. */
struct sw_gather {
    struct sw_tstream *stream; /* NULL: free */
    int n;
    size_t bytes;
    struct iovec iov[SW_GATHER_IOV];
};

struct sw_scratch {
    uint8_t *rx;    /* SW_RX_SIZE */
    uint8_t *slots; /* SW_SLOTS of SW_SLOT_SIZE */
    uint8_t *tx;    /* SW_TX_SIZE: sealed records */
    uint8_t *stage; /* SW_STAGE_SIZE + 1: plain frames of the next record */
    struct sw_gather gather[SW_GATHER_STREAMS];
    size_t gather_next;   /* which one to give up when all are taken */
    struct sw_loop *loop; /* of the timer; NULL: never started */
    struct sw_timer resting;
    bool bulk; /* since the timer was started */
};

/* The calling thread's own; made on first use. */
struct sw_scratch *sw_scratch(void);
/* Frees it (thread end, before the loop goes). */
void sw_scratch_done(void);
/* Call for what used more than a few pages of it: after half a second without, they are given back.
 */
void sw_scratch_bulk(struct sw_loop *l);

static inline uint8_t *sw_slot(const struct sw_scratch *s, size_t i)
{
    return s->slots + i * SW_SLOT_SIZE + SW_SLOT_HEAD;
}
