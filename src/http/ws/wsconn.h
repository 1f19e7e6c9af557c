/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A WebSocket on a socket, plain or TLS, accepted or dialled. It starts as a stream of bytes, for
 * the upgrade, and carries messages afterwards. A connection at rest owns no buffer: reads go into
 * memory of the thread, output waits in pieces that are borrowed while something waits.
 *
 * Callbacks come from the loop, never from inside a call of the owner. The owner may close the
 * connection in any of them; on_free tells when its memory may go. A connection that is paused and
 * detached may move to another loop.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "http/ws/ws.h"
#include "io/loop.h"

struct sw_tls;
struct sw_wsconn;
struct sw_wschunk;

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

/* Bytes that wait; owned, freed when there are none. */
struct sw_wsbytes {
    uint8_t *p;
    uint32_t off;
    uint32_t n; /* end of the content */
    uint32_t cap;
};

/* Embedded in what owns it. */
struct sw_wsconn {
    struct sw_watch watch;
    struct sw_loop *loop; /* NULL while detached */
    const struct sw_wsconn_ops *ops;
    struct sw_tls *tls; /* owned; NULL: plain */
    struct sw_ws ws;
    struct sw_defer defer; /* go on, or free */
    struct sw_timer stall; /* the socket takes nothing; and the end of a linger */
    struct sw_wsbytes in;  /* received and plain, not used yet */
    struct sw_wsbytes raw; /* start of a TLS record */
    struct sw_wsbytes out; /* sealed, not written yet; handshake messages */
    struct sw_wschunk *head;
    struct sw_wschunk *tail;
    uint32_t out_n;      /* bytes in the chunks */
    uint32_t out_frames; /* data frames in them */
    uint32_t stall_ms;
    uint32_t read_max; /* bytes read in one turn, the owner's to set; 0: what is there */
    uint8_t fail_rc;   /* as a positive number; 0: none */
    int fail_errno;
    bool readable : 1;
    bool hup : 1;
    bool eof : 1; /* the stream below ended */
    bool bye : 1; /* a close frame came */
    bool paused : 1;
    bool upgraded : 1;
    bool connecting : 1;
    bool opening : 1; /* connect or handshake in progress */
    bool flush_due : 1;
    bool lingering : 1;
    bool shut : 1;
    bool bulk : 1;
    bool closed : 1;
};

/*
 * Takes a socket, connected or (with 'dialled') connecting, and a TLS state of the right role or
 * NULL. max: bytes of a message; stall_ms: how long output may wait without progress. SW_ESYS when
 * the loop refuses the descriptor; everything given is closed or freed then.
 */
SW_NODISCARD int sw_wsconn_init(struct sw_wsconn *c, struct sw_loop *l, int fd, struct sw_tls *tls,
                                bool dialled, uint32_t max, uint32_t stall_ms,
                                const struct sw_wsconn_ops *ops, struct sw_err *err);
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
    return c->out_frames;
}
static inline size_t sw_wsconn_unsent(const struct sw_wsconn *c)
{
    return (size_t)c->out_n + (c->out.n - c->out.off);
}

/* Bytes that wait on all connections of this thread together. */
size_t sw_wsconn_thread_queue(void);

/* No messages until resume; the kernel's buffer fills and the peer slows down. */
void sw_wsconn_pause(struct sw_wsconn *c);
void sw_wsconn_resume(struct sw_wsconn *c);
/*
 * Takes a paused, open connection off its loop, and on to another one, where it goes on. Not from a
 * callback of the connection. SW_ESYS as for init.
 */
void sw_wsconn_detach(struct sw_wsconn *c);
SW_NODISCARD int sw_wsconn_attach(struct sw_wsconn *c, struct sw_loop *l, struct sw_err *err);
/* Instead of attaching it again: closes and frees what it owns, at once, without callbacks. */
void sw_wsconn_discard(struct sw_wsconn *c);

/* Closes now, without on_end; on_free follows from the loop. Harmless twice. */
void sw_wsconn_close(struct sw_wsconn *c);
/*
 * Says goodbye (code 0: no close frame), sends what waits, then FIN, gives the peer a second to
 * read it, and closes. Nothing but on_free follows.
 */
void sw_wsconn_finish(struct sw_wsconn *c, uint16_t code, const char *reason);
