/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a WebSocket connection share. Not for others. */
#pragma once

#include "base/mem.h"
#include "http/ws/wsconn.h"
#include "tls/tls.h"

enum {
    WS_READ_SMALL = 64 * 1024,
    WS_READ_BULK = 256 * 1024,
    WS_KEPT_MAX = 96 * 1024, /* start of a message, of a head or of a record */
    WS_RX = 2 * WS_KEPT_MAX + WS_READ_BULK,
    WS_TX_RECORDS = 15,
    WS_TX = WS_TX_RECORDS * SW_TLS_SEAL_ROOM(SW_TLS_PLAIN_MAX),
    WS_CHUNK = SW_WSCONN_FRAME_MAX + SW_WS_HEAD_MAX + 2,
};

/* Output that waits. */
struct sw_wschunk {
    struct sw_wschunk *next;
    uint32_t off;
    uint32_t n;
    uint32_t frames;         /* data frames that begin in here */
    uint8_t b[WS_CHUNK + 1]; /* sealing may touch the byte behind */
};

/* What a thread lends to whichever connection moves bytes. */
struct ws_scratch {
    struct sw_wschunk *spare;
    unsigned n_spare;
    size_t queued; /* bytes in chunks of all connections of the thread */
    uint8_t rx[WS_RX + 16];
    uint8_t tx[WS_TX];
};

/* ---- wsmem.c ---- */

/* The calling thread's own; made on first use, freed with the thread. */
struct ws_scratch *ws_scratch(void);
struct sw_wschunk *ws_chunk_get(void);
void ws_chunk_put(struct sw_wschunk *k);

void ws_bytes_free(struct sw_wsbytes *b);
void ws_bytes_append(struct sw_wsbytes *b, const void *p, size_t n);
void ws_bytes_consume(struct sw_wsbytes *b, size_t n);
/* Moves what waits to 'to'; returns its length. */
size_t ws_bytes_take(struct sw_wsbytes *b, uint8_t *to);

/* ---- wsconn_out.c ---- */

/* Writes sealed bytes and handshake messages. True when all of it left. */
bool ws_write_raw(struct sw_wsconn *c);
/* Writes what waits, and ends our side when that was asked for. */
void ws_flush(struct sw_wsconn *c);

/* ---- wsconn.c ---- */

/* Goes on from the loop. */
void ws_go_later(struct sw_wsconn *c);
/* Remembers the first failure; on_end is told from the loop. */
void ws_fail(struct sw_wsconn *c, int rc, int sys_errno);
/* The socket took nothing for too long, or the linger is over. */
void ws_on_stalled(struct sw_timer *t);
