/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte connection of a worker, plain or TLS, accepted or dialled: reads into the thread's buffer,
 * delivers plain bytes, collects output and writes it with one call. A connection at rest owns no
 * buffer. HTTP codecs and the TCP proxy sit on top of it.
 *
 * Callbacks come from the loop, never from inside a call that the owner made. An owner may close
 * the connection in any callback: the struct itself is freed by the loop afterwards (ops->on_free
 * tells when).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/slice.h"
#include "io/addr.h"
#include "io/loop.h"
#include "io/sock.h"

struct sw_gw_ahead;
struct sw_gw_conn;
struct sw_gw_worker;
struct sw_tls;

enum {
    SW_GW_HIGH = 64 * 1024,  /* unsent output from here on: the source should pause */
    SW_GW_CHUNK = 16 * 1024, /* output collected before it is written */
    SW_GW_HEADROOM = 16,     /* in front of received bytes */
};

struct sw_gw_conn_ops {
    /* Dialled: connected. With TLS: the handshake ended well. Not called for plain accepted ones.
     */
    void (*on_open)(struct sw_gw_conn *c);
    /*
     * Plain bytes. Returns how many were used; the rest is kept and offered again together with
     * what follows, or after sw_gw_conn_resume. The bytes are writable memory; so are the
     * SW_GW_HEADROOM bytes in front and the one behind them, which may be overwritten: a frame head
     * can be put there and a record be sealed from where they lie.
     */
    size_t (*on_bytes)(struct sw_gw_conn *c, struct sw_slice in);
    /* Everything one wake-up brought was delivered: the place to flush what was caused by it. */
    void (*on_batch)(struct sw_gw_conn *c);
    /* The peer will send no more; its bytes were delivered, though maybe not used. */
    void (*on_eof)(struct sw_gw_conn *c);
    /* Output was at SW_GW_HIGH or above and all of it is sent now. */
    void (*on_drained)(struct sw_gw_conn *c);
    /* The connection is of no use any more (reset, bad record, failed dial or handshake). The owner
     * closes it. */
    void (*on_fail)(struct sw_gw_conn *c, const struct sw_err *err);
    /* The last call: free what embeds the connection. */
    void (*on_free)(struct sw_gw_conn *c);
};

/* Bytes that wait; owned, freed when there are none. */
struct sw_gw_bytes {
    uint8_t *p;
    uint32_t off;
    uint32_t n; /* end of the content */
    uint32_t cap;
};

/* Embedded in what owns it. */
struct sw_gw_conn {
    struct sw_watch watch;
    struct sw_gw_worker *worker;
    const struct sw_gw_conn_ops *ops;
    struct sw_tls *tls;     /* owned; NULL: plain */
    struct sw_list dirty;   /* in worker->dirty while something is staged */
    struct sw_defer defer;  /* go on, or free */
    struct sw_timer timer;  /* until open, and while closing */
    uint8_t *stage;         /* output not written yet: a chunk lent by the worker, NULL: none */
    struct sw_gw_bytes in;  /* received, not used yet */
    struct sw_gw_bytes raw; /* start of a record */
    struct sw_gw_bytes out; /* what a short write left */
    uint32_t stage_n;
    uint32_t linger_ms;     /* how long close_flushed waits for the peer; 0: a second */
    uint32_t linger_unsent; /* when that was looked at last */
    uint32_t linger_s;      /* since it became less */
    int fail_rc;            /* the argument of on_fail */
    int fail_errno;
    bool readable : 1;
    bool hup : 1;
    bool eof : 1;
    bool eof_told : 1;
    bool paused : 1; /* the owner does not want bytes now */
    bool was_high : 1;
    bool connecting : 1; /* connect in progress */
    bool opening : 1;    /* connect or handshake in progress */
    bool shut : 1;       /* our side ended */
    bool shut_wanted : 1;
    bool wrote : 1;  /* something left since an owner cleared this */
    bool closed : 1; /* no more callbacks but on_free */
    bool failed : 1;
    bool lingering : 1; /* close once the output is gone and the peer has read it */
    bool bulk : 1;      /* reads fill the buffer: offer more room */
    bool raw_fresh : 1; /* 'raw' was not looked at yet */
    bool announce : 1;  /* on_open is due */
    bool ahead : 1;     /* bytes were read and not delivered yet */
    bool wide : 1;      /* what comes does not fit into what is read ahead */
    bool says_end : 1;  /* a Unix socket whose peer ends its side before it closes: see conn_in.c */
};

/*
 * Takes a connected socket (closed with the connection). tls: made by the caller (sw_tls_new) and
 * taken over, NULL: plain. 'pre': bytes already read from the socket, copied. The first bytes are
 * delivered from the loop. open_ns: the handshake must be done by then. SW_ESYS when the loop
 * refuses the descriptor; everything given is closed or freed then.
 */
SW_NODISCARD int sw_gw_conn_init(struct sw_gw_conn *c, struct sw_gw_worker *w, int fd,
                                 struct sw_tls *tls, struct sw_slice pre, uint64_t open_ns,
                                 const struct sw_gw_conn_ops *ops, struct sw_err *err);
/*
 * Begins to dial; on_open when connected (and the handshake done, with tls), on_fail otherwise,
 * with SW_ETIME after open_ns. Failure at once: nothing is left to close (tls is freed).
 */
SW_NODISCARD int sw_gw_conn_dial(struct sw_gw_conn *c, struct sw_gw_worker *w,
                                 const struct sw_addr *to, const struct sw_sock_opts *o,
                                 struct sw_tls *tls, uint64_t open_ns,
                                 const struct sw_gw_conn_ops *ops, struct sw_err *err);
/* What conn_ahead.c needs once per worker. */
struct sw_gw_ahead *sw_gw_ahead_new(struct sw_gw_worker *w);
void sw_gw_ahead_free(struct sw_gw_ahead *a);
/*
 * For a connection given to _init whose owner waits for it, and that this side begins: on_open is
 * called from the loop, with TLS after the handshake.
 */
void sw_gw_conn_announce(struct sw_gw_conn *c);
/* Another owner from now on; bytes that wait are offered to it from the loop. */
void sw_gw_conn_set_ops(struct sw_gw_conn *c, const struct sw_gw_conn_ops *ops);

/* Appends to the output, which leaves with the next flush, at the end of the turn at the latest.
 * Everything is taken. */
void sw_gw_conn_put(struct sw_gw_conn *c, const void *p, size_t n);
/*
 * The same for bytes that need no copy: large ones are written through at once, after what is
 * staged. With TLS, 'data' must come from on_bytes (see there).
 */
void sw_gw_conn_send(struct sw_gw_conn *c, struct sw_slice data);
/* Room of n <= SW_GW_CHUNK bytes in the stage; say with _commit how many were written. */
uint8_t *sw_gw_conn_room(struct sw_gw_conn *c, size_t n);
void sw_gw_conn_commit(struct sw_gw_conn *c, size_t n);
/* Writes what is staged. */
void sw_gw_conn_flush(struct sw_gw_conn *c);
/*
 * c has all it is going to get: it is flushed together with others once the callbacks in progress
 * have returned. Sending many one after the other, from a flat stack, is a good deal cheaper than
 * sending between two requests' parsing.
 */
void sw_gw_conn_queue_flush(struct sw_gw_conn *c);

/* Bytes that wait for the socket. */
static inline size_t sw_gw_conn_unsent(const struct sw_gw_conn *c)
{
    return c->out.n - c->out.off;
}

static inline bool sw_gw_conn_blocked(const struct sw_gw_conn *c)
{
    return sw_gw_conn_unsent(c) >= SW_GW_HIGH;
}

/* Whether something arrived that was not delivered to the owner yet: bytes, the end, a failure. */
bool sw_gw_conn_has_news(const struct sw_gw_conn *c);

/* No on_bytes until resume; the kernel's buffer fills and the peer slows down. */
void sw_gw_conn_pause(struct sw_gw_conn *c);
/* Delivery goes on from the loop. Also: offer again what on_bytes did not use. */
void sw_gw_conn_resume(struct sw_gw_conn *c);

/* on_batch comes once more from the loop, even without new bytes. */
void sw_gw_conn_resume_batch(struct sw_gw_conn *c);

/* Ends our direction after what was put before (close_notify, FIN). */
void sw_gw_conn_shutdown(struct sw_gw_conn *c);
/* Closes now; with reset the peer sees RST. on_free follows from the loop. Idempotent. */
void sw_gw_conn_close(struct sw_gw_conn *c, bool reset);
/*
 * Sends what is left, however slowly the peer takes it, then FIN, gives the peer a moment, and
 * closes. A peer that takes nothing for a minute is reset. No callbacks any more but on_free.
 */
void sw_gw_conn_close_flushed(struct sw_gw_conn *c);
