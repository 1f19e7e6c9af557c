/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a connection share. Not for others. */
#pragma once

#include <sys/types.h>

#include "io/conn/conn.h"

enum {
    IO_READ_SMALL = 64 * 1024,
    IO_READ_BULK = 256 * 1024,
    IO_READS_PER_TURN = 4,
    IO_RX_KEPT = 192 * 1024, /* kept bytes that fit in front of what is read */
    IO_RX = SW_CONN_HEADROOM + IO_RX_KEPT + IO_READ_BULK + 1,
    IO_SEALED = SW_FILTER_PLAIN_MAX + SW_FILTER_CTRL_ROOM,
    IO_TX_RECORDS = 17, /* what one read brings, and a frame head */
    IO_TX = IO_TX_RECORDS * IO_SEALED,
    IO_CHUNK = 16 * 1024,
};

/* Output that waits; the byte behind the content is ours, too. */
struct sw_conn_chunk {
    struct sw_conn_chunk *next;
    uint32_t off;
    uint32_t n;
    uint32_t cap;
    uint32_t marks; /* messages that begin in here */
    uint8_t b[];
};

struct io_batch;

/* What a loop lends to whichever connection moves bytes. */
struct sw_conn_shared {
    struct sw_loop_local local;
    struct sw_loop *loop;
    struct sw_list dirty;
    struct sw_defer flush;
    struct io_batch *batch;         /* owned, see conn_batch.c; NULL: every connection for itself */
    struct sw_conn_chunk *spare[2]; /* IO_CHUNK and SW_CONN_ROOM_MAX */
    unsigned n_spare[2];
    size_t queued;
    bool receiving; /* rx is in use */
    uint8_t *rx;    /* IO_RX */
    uint8_t *tx;    /* IO_TX; NULL until a filter seals */
};

/* ---- conn_mem.c ---- */

/* The loop's; made on first use. */
struct sw_conn_shared *io_conn_shared(struct sw_loop *l);
uint8_t *io_conn_tx(struct sw_conn_shared *s);
/* A chunk with room for n <= SW_CONN_ROOM_MAX bytes. */
struct sw_conn_chunk *io_chunk_get(struct sw_conn_shared *s, size_t n);
/* s: NULL for a connection that is detached. */
void io_chunk_put(struct sw_conn_shared *s, struct sw_conn_chunk *k);

/* ---- conn.c ---- */

/* Does what can be done now, after 'wire' bytes were read and delivered; only from the loop. */
void io_conn_step(struct sw_conn *c, size_t wire);
/* The same from the loop, later. */
void io_conn_go_later(struct sw_conn *c);
/* Remembers the first failure; on_fail comes from the loop. */
void io_conn_fail(struct sw_conn *c, int rc, int sys_errno);
/* on_fail now: only from the loop. */
void io_conn_fail_now(struct sw_conn *c, const struct sw_err *err);
/* Connected, and the handshake done. */
void io_conn_opened(struct sw_conn *c);
/* (Re)starts the timer that stalled output and lingering share; 0 stops it. */
void io_conn_arm(struct sw_conn *c, uint32_t ms);

/* ---- conn_in.c ---- */

/* A step of the handshake. Returns bytes used, or a failure that was reported. */
ssize_t io_conn_shake(struct sw_conn *c, struct sw_slice in);
static inline bool io_conn_wants_bytes(const struct sw_conn *c)
{
    return !c->paused && !c->closed && !c->lingering && !c->failed;
}
/* More bytes may be there, and the owner takes them. */
static inline bool io_conn_may_read(const struct sw_conn *c)
{
    return c->readable && !c->eof && io_conn_wants_bytes(c) && sw_conn_bytes_len(c->in) < c->in_max;
}
/* Delivers what was kept, then reads and delivers, within the bounds of a turn. */
size_t io_conn_receive(struct sw_conn *c);
/* What reading ahead gave: bytes to deliver, or how it ended. Returns bytes off the socket. */
size_t io_conn_took(struct sw_conn *c, const uint8_t *buf, ssize_t n, int sys_errno);

/* ---- conn_out.c ---- */

/* Bytes as they are: handshake messages and alerts. */
void io_conn_write_raw(struct sw_conn *c, const void *p, size_t n);
/* Writes what waits and half-closes when that was requested. */
void io_conn_flush(struct sw_conn *c);
/* Flushes at the end of the turn. */
void io_conn_mark_dirty(struct sw_conn *c);
void io_conn_drop_output(struct sw_conn *c);
/* What a write of n bytes gave; a failure is noted. Returns bytes that the socket took. */
size_t io_conn_wrote(struct sw_conn *c, ssize_t got, size_t n);
/* Drops n bytes in front of the chunks. */
void io_conn_consume(struct sw_conn *c, size_t n);
/* All of a little left, as nearly always, and nothing waited for that. */
static inline bool io_conn_is_settled(const struct sw_conn *c, size_t before)
{
    return before < SW_CONN_HIGH && !c->was_high && !c->shut_wanted && !c->queued && !c->out &&
           !sw_timer_running(&c->timer);
}
/* After an attempt to write, with so much unsent before. */
void io_conn_settle(struct sw_conn *c, size_t before);

/* ---- conn_batch.c: connections that share calls; only with shared->batch ---- */

enum { IO_AHEAD_BYTES = 4096 };

void io_batch_free(struct io_batch *b);
/* May a connection that is readable be read before others are looked at? */
bool io_batch_may_read(const struct sw_conn *c);
/* Reads once, together with others; the bytes are delivered before the turn ends. */
void io_batch_read(struct sw_conn *c);
/* The connection was closed: it is not read any more, and bytes already read are dropped. */
void io_batch_forget(const struct sw_conn *c);
/* Flushes those that were queued for it, if they are many. */
void io_batch_flush_many(struct io_batch *b);
/* Flushes those that were queued for it, and all others with output. */
void io_batch_flush_all(struct io_batch *b);
