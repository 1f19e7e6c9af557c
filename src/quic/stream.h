/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: what is received (stream_rx.c) and what is sent (stream_tx.c). */
#pragma once

#include "base/buf.h"
#include "quic/conn.h"

enum {
    QUIC_CHUNK_SMALL = 4096,
    QUIC_CHUNK = 65536,
    QUIC_CHUNKS_KEPT = 32,           /* free ones of an endpoint */
    QUIC_FLOOR = QUIC_CHUNK / 2,     /* what a stream may always hold, in each direction */
    QUIC_SEND_MAX = 16 * QUIC_CHUNK, /* bytes of a stream not sent yet */
};

/* Bytes on their way out: ngtcp2 points into them until they are acknowledged. */
struct sw_qchunk {
    struct sw_qchunk *next;
    uint32_t cap;
    uint32_t n;
    uint8_t p[];
};

struct sw_qstream {
    struct sw_qconn *c; /* borrowed */
    int64_t id;
    struct sw_list link;  /* c->streams.all */
    struct sw_list sendq; /* c->streams.sendable or .blocked */
    struct sw_list event; /* c->streams.events */
    const struct sw_qstream_ops *ops;
    void *arg;

    struct {
        struct sw_qchunk *head; /* owned; starts at offset base */
        struct sw_qchunk *tail;
        struct sw_qchunk *at;    /* holds the first byte not sent */
        uint32_t at_off;         /* its position there */
        struct sw_qchunk *spare; /* owned: lent by reserve as a second piece */
        uint64_t base;           /* stream offset of head's first byte */
        uint64_t acked;
        uint64_t sent;
        uint64_t end;
        uint64_t mem; /* of all chunks, used or not */
        bool finish;
        bool fin_sent;
        bool shut;      /* reset */
        bool starved;   /* a reserve found no room */
        bool held_back; /* because of what all hold together */
    } tx;

    struct {
        uint64_t window;    /* the peer may be ahead of the reader by so much */
        uint64_t window_ns; /* when credit was given last */
        uint64_t taken;     /* since then */
        uint64_t read;      /* since the beginning */
        uint32_t first;     /* gathered pieces of this batch, as index + 1; 0: none */
        uint32_t last;
        struct sw_buf rest; /* received, not taken */
        bool shut;          /* stopped */
        bool fin;           /* all bytes are here */
        bool done;          /* and were taken, or given up */
        bool paused;        /* data took less than it got */
    } rx;

    uint64_t stop_code;
    uint64_t reset_code;
    bool fresh;   /* opened by the peer, not reported yet */
    bool stopped; /* STOP_SENDING to report */
    bool reset;   /* RESET_STREAM to report */
    bool ended;   /* ngtcp2 has forgotten it */
    bool muted;   /* aborted: report nothing but the end */
    bool writable;
    bool in_call; /* inside data */
    bool again;   /* resumed from inside */
};

/* stream_rx.c */

struct sw_qstream *sw_qstream_new(struct sw_qconn *c, int64_t id);
void sw_qstream_received(struct sw_qstream *s, const uint8_t *p, size_t n, bool fin);
/* Schedules its callbacks. */
void sw_qstream_note(struct sw_qstream *s);
void sw_qstream_run_callbacks(struct sw_qstream *s);
/* The connection is gone: closed is called, and the stream freed. */
void sw_qstream_lost(struct sw_qstream *s);
/* All bytes are here, but the reader has not taken them. */
bool sw_qstream_unread(const struct sw_qstream *s);

/* stream_tx.c */

/* The peer will not read on: everything not yet acknowledged is void. */
void sw_qstream_was_stopped(struct sw_qstream *s, uint64_t code);
void sw_qstream_acked(struct sw_qstream *s, uint64_t upto);
/* Bytes were sent and are not acknowledged yet. */
bool sw_qstream_in_flight(const struct sw_qstream *s);
/* Has it something to send now? */
bool sw_qstream_pending(const struct sw_qstream *s);
/* n bytes from s->at on went into a packet, and the end with them. */
void sw_qstream_advance(struct sw_qstream *s, size_t n, bool fin);
/* Frees all that was to be sent. */
void sw_qstream_drop_chunks(struct sw_qstream *s);
void sw_qchunks_done(struct sw_quic *q);
