/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the session share: session.c (life), session_rx.c, session_tx.c,
 * session_stream.c. */
#pragma once

#include "tunnel/session.h"

enum session_state {
    SESSION_HANDSHAKE,
    SESSION_OTHER, /* TLS is done, and the protocol is not ours: on_other is being called */
    SESSION_OPEN,
    SESSION_LINGER, /* close_notify is sent, waiting for the peer to close */
    SESSION_DEAD,   /* on_closed was or will be called, memory goes with the next turn */
};

struct sw_session {
    struct sw_loop *loop;
    const struct sw_session_ops *ops;
    void *owner;
    struct sw_tls *tls; /* owned */
    struct sw_h2 *h2;   /* owned, from the end of the handshake on */
    struct sw_watch watch;
    int fd; /* owned */
    enum session_state state;
    bool server;
    bool readable;
    bool hup;
    bool broken;     /* a write failed */
    bool peer_spoke; /* a record of the peer was opened */
    bool joined;     /* 'out' holds the end of our handshake, to leave with the first frames */
    bool peer_goaway;
    bool pinged;       /* a PING is unanswered */
    bool room_grew;    /* a stream ended without on_done: on_room follows */
    bool in_h2;        /* inside feed or flush, which must not be entered again */
    bool taken;        /* socket and TLS went to the owner */
    struct sw_buf in;  /* a record begun, or handshake bytes */
    struct sw_buf out; /* sealed bytes the socket did not take */
    struct sw_list streams;
    struct sw_list ready;   /* streams that may have bytes to send */
    struct sw_list blocked; /* streams that wait for window */
    size_t n_streams;
    size_t held;           /* bytes received and not yet written, all streams */
    size_t owed;           /* of these, bytes whose connection credit was not given yet */
    struct sw_timer timer; /* handshake deadline, then pings, then linger */
    struct sw_defer flush;
    struct sw_defer reap;
    struct sw_err err;
    int rc;
    struct sw_session_config config;
    struct session_drain {
        bool on;
        bool when_open;   /* requested during the handshake */
        bool ping_next;   /* the notice is on its way, a PING follows */
        bool goaway_sent; /* GOAWAY was sent */
    } drain;
    /* While a batch is being sealed. */
    struct session_slots {
        struct sw_tstream *of; /* whose bytes are in the slots */
        size_t at;             /* next unsent byte */
        size_t end;
        bool last; /* the local end follows these bytes */
    } slots;
    size_t stage_n;
    size_t tx_n;
};

extern const struct sw_h2_ops session_h2_ops;

/* Bytes received and not yet written. */
static inline size_t stream_held(const struct sw_tstream *t)
{
    return t->rest ? sw_buf_len(t->rest) : 0;
}

/* session.c */
void session_fail(struct sw_session *s, int rc, const struct sw_err *err);
void session_check_over(struct sw_session *s); /* frees a dead session without streams */
void session_touch(struct sw_session *s);      /* schedule a flush */
void session_check_end(struct sw_session *s);
void session_opened(struct sw_session *s); /* TLS is done: pings from now on */
void session_other(struct sw_session *s);  /* TLS is done, and it is not HTTP/2 */
/* session_rx.c */
void session_receive(struct sw_session *s);
void rx_data(struct sw_h2 *h, int32_t id, void *stream, struct sw_slice data);
/* Writes what is gathered for t (all streams when NULL). */
void rx_gather_flush(struct sw_tstream *t);
/* Forgets what is gathered for a stream that ends. */
void rx_gather_drop(struct sw_tstream *t);
/* session_tx.c */
void session_send(struct sw_session *s);
bool session_write_out(struct sw_session *s);
int tx_emit(struct sw_h2 *h, const uint8_t *p, size_t n);
ssize_t tx_pull(struct sw_h2 *h, int32_t id, void *stream, size_t max, bool *ret_end);
void tx_emit_data(struct sw_h2 *h, int32_t id, void *stream, const uint8_t head[SW_H2_FRAME_HEAD],
                  size_t n);
/* session_stream.c */
void stream_ready(struct sw_tstream *t);
/* Registers the local socket; a failure ends the stream. */
void stream_watch(struct sw_tstream *t);
void stream_write_rest(struct sw_tstream *t);
void stream_peer_ended(struct sw_tstream *t);
/* n received bytes reached the socket: credit and count them. */
void stream_written(struct sw_tstream *t, size_t n);
void stream_local_failed(struct sw_tstream *t);
/* Detaches, closes the socket (with a reset when asked) and reports. */
void stream_finish(struct sw_tstream *t, int rc, const struct sw_err *err, bool reset);
void stream_h2_closed(struct sw_tstream *t, uint32_t code);
void stream_detach(struct sw_tstream *t);
