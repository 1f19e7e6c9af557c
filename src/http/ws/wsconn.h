/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A WebSocket on a connection (io/conn.h). It starts as a stream of bytes, for the upgrade, and
 * carries messages afterwards.
 *
 * Callbacks come from the loop, never from inside a call of the owner. The owner may close the
 * connection in any of them; on_free tells when its memory may go. The owner pauses io, moves it to
 * another loop and sets its limits; the rest of io is ours.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "http/ws/ws.h"
#include "io/conn/conn.h"
#include "tls/connfilter.h"

struct sw_tls;
struct sw_wsconn;

enum { SW_WSCONN_FRAME_MAX = 65600 }; /* payload of one frame we send */

struct sw_wsconn_ops {
    /* Dialled: connected. With TLS: handshake done. Not called for accepted plain ones. */
    void (*on_open)(struct sw_wsconn *c);
    /* Before sw_wsconn_upgrade. Returns how many bytes were used; the rest comes again. */
    size_t (*on_bytes)(struct sw_wsconn *c, struct sw_slice in);
    /* A whole binary message, writable. */
    void (*on_message)(struct sw_wsconn *c, uint8_t *p, size_t n);
    /* A text message, which is otherwise skipped. May be NULL. */
    void (*on_text)(struct sw_wsconn *c, size_t n);
    /* What one wake-up brought was delivered, so many bytes off the socket. May be NULL. */
    void (*on_batch)(struct sw_wsconn *c, size_t wire);
    /*
     * It ended: SW_EOF (the peer closed), SW_ECLOSED, SW_ETIME (the peer takes nothing),
     * SW_EPROTO, SW_ELIMIT, SW_ESYS. Nothing but on_free follows; it is closed when this returns.
     */
    void (*on_end)(struct sw_wsconn *c, const struct sw_err *why);
    /* The last call. */
    void (*on_free)(struct sw_wsconn *c);
};

/* Embedded in what owns it. */
struct sw_wsconn {
    struct sw_conn io;
    const struct sw_wsconn_ops *ops;
    struct sw_ws ws;
    bool upgraded;
};

struct sw_wsconn_opts {
    const struct sw_wsconn_ops *ops;
    struct sw_tls *tls;   /* of the right role; taken. NULL: plain */
    bool dialled;         /* fd connects to the server; otherwise it was accepted */
    uint32_t message_max; /* bytes */
    uint32_t stall_ms;    /* how long output may wait without progress */
};

/* Takes fd. SW_ESYS when the loop refuses it; everything given is closed or freed then. */
SW_NODISCARD int sw_wsconn_init(struct sw_wsconn *c, struct sw_loop *l, int fd,
                                const struct sw_wsconn_opts *o, struct sw_err *err);
/* From the next byte on it speaks WebSocket. */
void sw_wsconn_upgrade(struct sw_wsconn *c);

/* Bytes as they are; before the upgrade. */
void sw_wsconn_put(struct sw_wsconn *c, const void *p, size_t n);
/*
 * Room for the payload of one frame of n <= SW_WSCONN_FRAME_MAX bytes: fill it, then commit. It
 * leaves at the end of the loop's turn. data: counts as one frame of the queue.
 */
uint8_t *sw_wsconn_room(struct sw_wsconn *c, enum sw_ws_op op, size_t n, bool data);
void sw_wsconn_commit(struct sw_wsconn *c, uint8_t *payload, size_t n);
/* The two in one. */
void sw_wsconn_send(struct sw_wsconn *c, enum sw_ws_op op, const void *p, size_t n);

/* Data frames that wait, and bytes of everything that waits. */
static inline size_t sw_wsconn_queued(const struct sw_wsconn *c)
{
    return c->io.marks;
}
static inline size_t sw_wsconn_unsent(const struct sw_wsconn *c)
{
    return sw_conn_unsent(&c->io);
}
/* NULL: plain, or closed. */
static inline struct sw_tls *sw_wsconn_tls(const struct sw_wsconn *c)
{
    return sw_tls_of(c->io.filter);
}

/* Instead of attaching io again: closes and frees what it owns, at once, without callbacks. */
void sw_wsconn_discard(struct sw_wsconn *c);
/* Closes now, without on_end; on_free follows from the loop. Idempotent. */
void sw_wsconn_close(struct sw_wsconn *c);
/*
 * Sends a close frame (code 0: none) and lingers as sw_conn_close_within_linger does. Nothing but
 * on_free follows.
 */
void sw_wsconn_finish(struct sw_wsconn *c, uint16_t code, const char *reason);
