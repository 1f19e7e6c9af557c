/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one byte connection: a socket (TCP, Unix, one end of a pair), accepted or dialled, with an
 * optional filter (TLS) below it. Reads go into memory of the loop, output collects in chunks lent
 * by the loop and leaves with one call at the end of the turn: a connection at rest owns no buffer.
 * Codecs (HTTP/1, HTTP/2, WebSocket) sit on top.
 *
 * Callbacks come from the loop, never from inside a call of the owner. The owner may close the
 * connection in any of them; on_free tells when its memory may go.
 *
 * Lingering is the same everywhere: sw_conn_close_flushed sends what waits (a peer that takes
 * nothing for stall_ms, SW_CONN_STUCK_MS without, is reset), then close_notify and FIN, discards
 * what still comes until the peer closes or SW_CONN_LINGER_MS are over, and closes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/slice.h"
#include "io/filter.h"
#include "io/loop.h"

struct sw_conn;
struct sw_conn_bytes;
struct sw_conn_chunk;
struct sw_conn_shared;

enum {
    SW_CONN_HIGH = 64 * 1024,    /* unsent output from here on: the source should pause */
    SW_CONN_OUT_MAX = 8 << 20,   /* unsent output beyond this fails it; see out_max */
    SW_CONN_IN_MAX = 1 << 20,    /* unused input from here on: reading stops; see in_max */
    SW_CONN_ROOM_MAX = 80 << 10, /* of sw_conn_room */
    SW_CONN_HEADROOM = 16,       /* writable bytes in front of received ones */
    SW_CONN_LINGER_MS = 2000,    /* for the peer to read what was sent last: see above */
    SW_CONN_STUCK_MS = 60000,
};

/* on_fail and on_free are needed; the others may be NULL where they cannot come or do not matter.
 */
struct sw_conn_ops {
    /* Dialled: connected. With a filter: its handshake is done. */
    void (*on_open)(struct sw_conn *c);
    /*
     * Input may be there, that of a handshake too. False pauses the connection: for owners that
     * give out turns. They go on with sw_conn_resume_now.
     */
    bool (*on_ready)(struct sw_conn *c);
    /*
     * Plain bytes. Returns how many were used; the rest is kept and offered again together with
     * what follows, or after sw_conn_resume. The bytes, SW_CONN_HEADROOM bytes in front of them and
     * one behind are writable.
     */
    size_t (*on_bytes)(struct sw_conn *c, struct sw_slice in);
    /* What one wake-up brought was delivered: 'wire' bytes off the socket, 0: kept ones. */
    void (*on_batch)(struct sw_conn *c, size_t wire);
    /*
     * The peer ended its direction; its bytes were delivered, though maybe not used. c->truncated:
     * without telling the filter, so the end may be an attacker's.
     */
    void (*on_eof)(struct sw_conn *c);
    /* Output was refused or at SW_CONN_HIGH, and all that was taken is sent now. */
    void (*on_drained)(struct sw_conn *c);
    /*
     * Of no use any more; it is closed when this returns. SW_ETIME: not open in time, or the peer
     * takes nothing for stall_ms; SW_EOF: closed during the handshake; SW_ECLOSED: reset;
     * SW_ELIMIT: SW_CONN_OUT_MAX; SW_EPROTO, SW_EDENIED: the filter's verdict; SW_ESYS: the
     * system's.
     */
    void (*on_fail)(struct sw_conn *c, const struct sw_err *err);
    /* The last call: the memory is the owner's again, to free or for another sw_conn_init. */
    void (*on_free)(struct sw_conn *c);
};

/* Embedded in what owns it. */
struct sw_conn {
    struct sw_watch watch;
    struct sw_conn_shared *shared; /* borrowed: of the loop; NULL while detached */
    const struct sw_conn_ops *ops;
    struct sw_filter *filter;   /* owned; NULL: none */
    struct sw_list dirty;       /* in shared->dirty while output is to be flushed */
    struct sw_defer defer;      /* go on, or free */
    struct sw_timer timer;      /* until open; while output stalls; while lingering */
    struct sw_conn_bytes *in;   /* plain, not used yet */
    struct sw_conn_bytes *raw;  /* start of a record */
    struct sw_conn_bytes *out;  /* sealed, not written yet */
    struct sw_conn_chunk *head; /* plain, not written yet */
    struct sw_conn_chunk *tail;
    uint32_t queued;   /* bytes in the chunks */
    uint32_t marks;    /* of sw_conn_mark, in the chunks */
    uint32_t in_max;   /* owner's: reading stops when so much waits; SW_CONN_IN_MAX at first */
    uint32_t out_max;  /* owner's: more than this unsent fails it; SW_CONN_OUT_MAX at first */
    uint32_t stall_ms; /* owner's: how long output may wait without progress; 0: for ever */
    uint32_t read_max; /* owner's: bytes read in one turn; 0: a megabyte at most */
    int16_t fail_rc;
    int16_t fail_errno;
    bool readable : 1;
    bool hup : 1;
    bool eof : 1;
    bool eof_told : 1;
    bool truncated : 1; /* ended below the filter */
    bool paused : 1;
    bool offer : 1; /* 'in' is to be offered again */
    bool join : 1;  /* owner's: the content of several records is offered as one */
    bool lazy : 1; /* owner's: small output waits for the end of the turn even when there is much */
    bool bulk : 1; /* reads fill the buffer: offer more room */
    bool full : 1; /* the socket takes nothing: wait for SW_WRITE */
    bool was_high : 1; /* on_drained is due when all is sent */
    bool connecting : 1;
    bool opening : 1;     /* connect or handshake in progress */
    bool shut : 1;        /* our direction ended */
    bool shut_wanted : 1; /* ... once the output is sent */
    bool cut : 1;         /* writing failed: read what is there, then fail */
    bool failed : 1;
    bool lingering : 1;
    bool closed : 1; /* no more callbacks but on_free */
};

struct sw_conn_opts {
    const struct sw_conn_ops *ops; /* borrowed */
    struct sw_filter *filter;      /* in the right role; owned from here on; NULL: none */
    uint32_t open_ms;              /* on_fail with SW_ETIME unless open by then; 0: no bound */
    bool dialled;                  /* the socket may be connecting still */
};

/*
 * Takes a stream socket. Fields marked as the owner's may be set afterwards. SW_ESYS when the loop
 * refuses the descriptor; descriptor and filter are closed and freed then.
 */
SW_NODISCARD int sw_conn_init(struct sw_conn *c, struct sw_loop *l, int fd,
                              const struct sw_conn_opts *o, struct sw_err *err);

/*
 * Appends to the output, which leaves at the end of the turn at the latest. Everything is taken;
 * nothing once the connection failed, closes or was shut down. Before it is open the output waits.
 */
void sw_conn_put(struct sw_conn *c, const void *p, size_t n);
/*
 * Sends from the owner's memory behind what was put, without a copy where there is no filter.
 * Returns how many bytes were taken; unless that is all, on_drained tells when to come again.
 */
size_t sw_conn_write(struct sw_conn *c, struct sw_slice data);
/* Room for n <= SW_CONN_ROOM_MAX bytes of output in one piece; say with _commit how many there are.
 */
uint8_t *sw_conn_room(struct sw_conn *c, size_t n);
void sw_conn_commit(struct sw_conn *c, size_t n);
/* Counts a message that begins in the room given last; c->marks falls as they leave. */
void sw_conn_mark(struct sw_conn *c);

/*
 * Writes now what waits. False: the socket does not take all of it; on_drained tells when it did.
 */
SW_NODISCARD bool sw_conn_flush(struct sw_conn *c);

/* Bytes that wait, sealed or not. */
size_t sw_conn_unsent(const struct sw_conn *c);
/* Plain bytes that wait on all connections of the loop together. */
size_t sw_conn_loop_queued(const struct sw_loop *l);
/* Bytes that on_bytes did not use. */
size_t sw_conn_unused(const struct sw_conn *c);

/* No on_bytes and no on_eof until resume: the kernel's buffer fills and the peer slows down. */
void sw_conn_pause(struct sw_conn *c);
/* Delivery goes on from the loop; what on_bytes did not use is offered again. */
void sw_conn_resume(struct sw_conn *c);
/*
 * The same from inside, without asking on_ready: callbacks come before this returns. Not from a
 * callback of the connection; from another one's on_bytes it is as sw_conn_resume.
 */
void sw_conn_resume_now(struct sw_conn *c);

/*
 * Takes a paused, open connection off its loop and on to another one, resumed. Not from a callback
 * of the connection. SW_ESYS when the loop refuses the descriptor: all it is good for is to close.
 */
void sw_conn_detach(struct sw_conn *c);
SW_NODISCARD int sw_conn_attach(struct sw_conn *c, struct sw_loop *l, struct sw_err *err);

/*
 * Hands the socket of an open connection on with its registration; the memory is the owner's again,
 * no callback follows. Without a filter only, with nothing unsent and nothing unused, and not from
 * a callback of the connection.
 */
void sw_conn_release(struct sw_conn *c, struct sw_watch *ret);

/* Ends our direction behind what was put: close_notify, FIN. */
void sw_conn_shutdown(struct sw_conn *c);
/* Closes now; with reset the peer sees RST. on_free follows from the loop. Idempotent. */
void sw_conn_close(struct sw_conn *c, bool reset);
/* Lingers, see the top of this file. Nothing but on_free follows. */
void sw_conn_close_flushed(struct sw_conn *c);
/*
 * Closes and frees what it owns at once: no callback follows. Not from a callback of its own. No
 * effect after close, and on a zeroed struct.
 */
void sw_conn_done(struct sw_conn *c);
