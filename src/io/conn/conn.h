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
 * what still comes until the peer closes or linger_ms are over, and closes.
 *
 * Where many connections of a loop are busy at once, they may share system calls
 * (sw_conn_share_calls); for the others nothing changes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/slice.h"
#include "io/filter.h"
#include "io/loop.h"

struct sw_conn;
struct sw_conn_chunk;
struct sw_conn_shared;

enum {
    SW_CONN_HIGH = 64 * 1024,    /* unsent output from here on: the source should pause */
    SW_CONN_OUT_MAX = 8 << 20,   /* unsent output beyond this fails it; see out_max */
    SW_CONN_IN_MAX = 1 << 20,    /* unused input from here on: reading stops; see in_max */
    SW_CONN_ROOM_MAX = 80 << 10, /* of sw_conn_room */
    SW_CONN_HEADROOM = 16,       /* writable bytes in front of received ones */
    SW_CONN_LINGER_MS = 2000,    /* for the peer to read what was sent last: see linger_ms */
    SW_CONN_STUCK_MS = 60000,
};

/* on_fail and on_free are needed; the others may be NULL where they cannot come or do not matter.
 */
struct sw_conn_ops {
    /* Dialled: connected. With a filter: its handshake is done. */
    void (*on_open)(struct sw_conn *c);
    /*
     * Input may be there, that of a handshake too. False pauses the connection: for owners that
     * give out turns. They continue with sw_conn_resume_now.
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

/*
 * Bytes that wait at a connection, or for one; NULL while there are none. SW_CONN_HEADROOM bytes,
 * content from off to n, one byte of room: for a frame head and a filter that seals.
 */
struct sw_conn_bytes {
    uint32_t off;
    uint32_t n;
    uint32_t cap;
    uint8_t b[];
};

static inline size_t sw_conn_bytes_len(const struct sw_conn_bytes *b)
{
    return b ? b->n - b->off : 0;
}
void sw_conn_bytes_append(struct sw_conn_bytes **b, const void *p, size_t n);
/* Drops n bytes in front; frees the storage when nothing is left. */
void sw_conn_bytes_consume(struct sw_conn_bytes **b, size_t n);
void sw_conn_bytes_free(struct sw_conn_bytes **b);

struct sw_conn_chunks {
    struct sw_conn_chunk *head;
    struct sw_conn_chunk *tail;
};

/* What on_fail is going to report. */
struct sw_conn_failure {
    int16_t rc;
    int16_t sys_errno;
};

struct sw_conn_reading {
    bool offer : 1; /* 'in' is to be offered again */
    bool fresh : 1; /* 'raw' came with sw_conn_init and was not looked at yet */
    bool ahead : 1; /* together with others: bytes may be read and not delivered yet */
    bool wide : 1;  /* what comes does not fit into what is read ahead */
    bool bulk : 1;  /* reads fill the buffer: offer more room */
};

/* Embedded in what owns it. */
struct sw_conn {
    struct sw_watch watch;
    struct sw_conn_shared *shared; /* borrowed: of the loop; NULL while detached */
    const struct sw_conn_ops *ops;
    struct sw_filter *filter; /* owned; NULL: none */
    struct sw_list dirty;     /* among those of shared or its batch whose output is to be flushed */
    struct sw_defer defer;    /* continue, or free */
    struct sw_timer timer;    /* until open; while output stalls; while lingering */
    struct sw_conn_bytes *in; /* plain, not used yet */
    struct sw_conn_bytes *raw;    /* start of a record */
    struct sw_conn_bytes *out;    /* sealed, not written yet */
    struct sw_conn_chunks chunks; /* plain, not written yet */
    uint32_t queued;              /* bytes in the chunks */
    uint32_t marks;               /* of sw_conn_mark, in the chunks */
    uint32_t in_max;    /* owner's: reading stops when so much waits; SW_CONN_IN_MAX at first */
    uint32_t out_max;   /* owner's: more than this unsent fails it; SW_CONN_OUT_MAX at first */
    uint32_t stall_ms;  /* owner's: how long output may wait without progress; 0: for ever */
    uint32_t read_max;  /* owner's: bytes read in one turn; 0: a megabyte at most */
    uint32_t linger_ms; /* owner's: a configured time; SW_CONN_LINGER_MS at first */
    struct sw_conn_failure failure;
    struct sw_conn_reading reading;
    bool readable : 1;
    bool hup : 1;
    bool eof : 1;
    bool eof_reported : 1;
    bool truncated : 1; /* ended below the filter */
    bool paused : 1;
    bool join : 1;            /* owner's: the content of several records is offered as one */
    bool deferred_output : 1; /* owner's: small output waits for the end of the turn even when there
                                 is much */
    bool wrote : 1;           /* bytes left since the owner cleared this */
    /* Owner's: the peer, on a Unix socket, ends its direction before it closes; see conn_in.c. */
    bool ends_first : 1;
    bool full : 1;     /* the socket takes nothing: wait for SW_WRITE */
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
    struct sw_slice pre;           /* bytes already read from the socket, 128 KB at most; copied */
    uint32_t open_ms;              /* on_fail with SW_ETIME unless open by then; 0: no bound */
    bool dialled;                  /* the socket may be connecting still */
};

/*
 * Takes a stream socket. Fields marked as the owner's may be set afterwards. SW_ESYS when the loop
 * refuses the descriptor; descriptor and filter are closed and freed then.
 */
SW_NODISCARD int sw_conn_init(struct sw_conn *c, struct sw_loop *l, int fd,
                              const struct sw_conn_opts *o, struct sw_err *err);
/* Another owner from now on; bytes that wait are offered to it from the loop. */
void sw_conn_set_ops(struct sw_conn *c, const struct sw_conn_ops *ops);

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
/*
 * The same, and everything is taken: the socket gets large pieces at once, the rest is copied. With
 * a filter, data must be writable with one byte behind it, as bytes of on_bytes are: it is sealed
 * where it lies.
 */
void sw_conn_send(struct sw_conn *c, struct sw_slice data);
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
/*
 * All output of c was put. Where connections share calls it leaves together with that of others,
 * once the callbacks in progress have returned: earlier than the end of the turn.
 */
void sw_conn_queue_flush(struct sw_conn *c);

/* Bytes that wait, sealed or not. */
size_t sw_conn_unsent(const struct sw_conn *c);
/* So much output waits that its source should pause; on_drained tells when it is sent. */
static inline bool sw_conn_blocked(const struct sw_conn *c)
{
    return c->queued + sw_conn_bytes_len(c->out) >= SW_CONN_HIGH;
}
/* Plain bytes that wait on all connections of the loop together. */
size_t sw_conn_loop_queued(const struct sw_loop *l);
/* Bytes that on_bytes did not use. */
size_t sw_conn_unused(const struct sw_conn *c);
/* Whether something arrived that was not delivered to the owner yet: bytes, the end, a failure. */
bool sw_conn_has_news(const struct sw_conn *c);

/* No on_bytes and no on_eof until resume: the kernel's buffer fills and the peer slows down. */
void sw_conn_pause(struct sw_conn *c);
/* Delivery continues from the loop; what on_bytes did not use is offered again. */
void sw_conn_resume(struct sw_conn *c);
/* From on_eof: pauses, and the end is reported again after sw_conn_resume. */
void sw_conn_repeat_eof(struct sw_conn *c);
/*
 * As sw_conn_resume from inside, without asking on_ready: callbacks come before this returns. Not
 * from a callback of the connection; from another one's on_bytes it is as sw_conn_resume.
 */
void sw_conn_resume_now(struct sw_conn *c);

/*
 * Takes a paused, open connection off its loop and on to another one, resumed. Not from a callback
 * of the connection, and not where connections share calls. SW_ESYS when the loop refuses the
 * descriptor: all it is good for is to close.
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
/* Of no use any more: on_fail with rc follows from the loop. */
void sw_conn_fail(struct sw_conn *c, int rc);
/* Closes now; with reset the peer sees RST. on_free follows from the loop. Idempotent. */
void sw_conn_close(struct sw_conn *c, bool reset);
/* Lingers, see the top of this file. Nothing but on_free follows. */
void sw_conn_close_flushed(struct sw_conn *c);
/*
 * The same with SW_CONN_LINGER_MS as stall_ms: for a peer that left or was refused, where what
 * waits is not worth the time that an answer gets.
 */
void sw_conn_close_within_linger(struct sw_conn *c);
/*
 * Closes and frees what it owns at once: no callback follows. Not from a callback of its own. No
 * effect after close, and on a zeroed struct.
 */
void sw_conn_done(struct sw_conn *c);

/* How connections of one loop share system calls. */
struct sw_conn_sharing {
    bool ring;                      /* use io_uring where the kernel has it */
    void (*on_delivered)(void *of); /* after the bytes of one connection were delivered */
    void *of;
};
/*
 * From now on small messages that arrive on several plain connections of the loop are read first,
 * with one system call where that can be had, and delivered then, one after the other; output is
 * written together likewise. The kernel and the parsing do not chase each other out of the
 * processor's caches. Once per loop, before it runs.
 */
void sw_conn_share_calls(struct sw_loop *l, const struct sw_conn_sharing *o);
