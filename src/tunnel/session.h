/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A carrier: one HTTP/2 connection over mutual TLS on one socket, and the CONNECT streams on it.
 * A stream is embedded in the object that wants the tunnel; once it is given a local socket the
 * session moves the bytes by itself: one DATA frame per TLS record, sixteen records per system
 * call, received payloads written from where they were opened.
 *
 * Everything runs on one loop. Callbacks may start, finish or reset any stream; they may not free
 * a session (sessions free themselves after on_closed).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "http/h2.h"
#include "io/loop.h"
#include "tls/tls.h"
#include "tunnel/dial.h"

struct sw_session;
struct sw_tstream;

struct sw_session_config {
    uint32_t stream_window;
    uint32_t connection_window;
    uint32_t max_frame;
    uint32_t max_streams;      /* servers: what a client may open */
    uint64_t handshake_ns;     /* deadline for TLS */
    uint64_t ping_interval_ns; /* 0: no pings */
    uint64_t ping_timeout_ns;
};

/*
 * A connection whose TLS handshake is done, without a session: what sw_session_take gives away and
 * sw_tconn_new takes (tunnel/tconn.h).
 */
struct sw_session_parts {
    int fd;
    struct sw_tls *tls;
    struct sw_buf in;  /* records received and not opened */
    struct sw_buf out; /* sealed bytes the socket did not take */
    bool readable;
    bool hup;
};

struct sw_session_ops {
    /* TLS is done and streams may be opened (client) or will arrive (server). */
    void (*on_ready)(struct sw_session *s);
    /*
     * Instead of on_ready: TLS is done, and the protocol agreed on is not HTTP/2. The owner calls
     * sw_session_take, or the session ends with SW_EPROTO. NULL: everything is taken for HTTP/2.
     */
    void (*on_other)(struct sw_session *s);
    /*
     * Server: a request. Refuse it with sw_session_refuse, or bind a stream to it with
     * sw_tstream_attach and answer later. head lives for the call only.
     */
    void (*on_request)(struct sw_session *s, int32_t id, const struct sw_h2_head *head);
    /* Client: room for more streams (the peer's limit rose or a stream ended). May be NULL. */
    void (*on_room)(struct sw_session *s);
    /* The peer is going away: no new streams. May be NULL. */
    void (*on_goaway)(struct sw_session *s);
    /*
     * The end; every stream was closed before (those whose peer had finished may take their time to
     * hand the last bytes to a slow reader). rc: SW_OK graceful, SW_EDENIED identity, SW_EPROTO,
     * SW_ETIME, SW_ECLOSED... 'handshaken': TLS had been completed and the peer had sent anything.
     */
    void (*on_closed)(struct sw_session *s, int rc, const struct sw_err *err, bool handshaken);
};

struct sw_tstream_ops {
    /* Client: the answer's head. A status of 200 means: call sw_tstream_relay. */
    void (*on_response)(struct sw_tstream *t, const struct sw_h2_head *head);
    /*
     * Server, optional: bytes of an attached stream without a socket came, or their end (peer_end);
     * t->rest holds all of them, NULL: none came.
     */
    void (*on_held)(struct sw_tstream *t);
    /* Bytes moved since the last call: up = local socket to peer. */
    void (*on_moved)(struct sw_tstream *t, size_t up, size_t down);
    /*
     * The stream is gone, its socket closed. SW_OK: both directions ended; SW_ECLOSED: reset by
     * either side, err says which; SW_EREFUSED: the peer did not look at it, try elsewhere; others:
     * the session failed. The last callback; *t must stay readable until the loop's deferred calls
     * (free it with sw_loop_defer).
     */
    void (*on_done)(struct sw_tstream *t, int rc, const struct sw_err *err);
};

struct sw_tstream {
    struct sw_session *session; /* NULL when not attached */
    const struct sw_tstream_ops *ops;
    struct sw_list link;  /* in the session's streams */
    struct sw_list queue; /* in its ready or blocked list */
    struct sw_watch watch;
    int32_t id;
    int fd; /* owned once given; -1 before */
    bool readable;
    bool hup;
    bool bulk;     /* the last read filled everything offered */
    bool read_end; /* local end seen */
    bool sent_end;
    bool peer_end;        /* END_STREAM received */
    bool shut;            /* and passed on to the socket */
    bool answered;        /* server: a response was submitted */
    bool closing;         /* HTTP/2 stream is gone, received bytes are still being written */
    bool lost;            /* its connection ended, not reported yet */
    uint16_t ahead;       /* bytes sent before the answer and not taken from the socket yet */
    int early_fd;         /* borrowed until they are sent, else -1 */
    struct sw_buf *rest;  /* received, not yet written; owned, NULL while empty */
    struct sw_buf *reply; /* body of an answer, not yet sent; owned, NULL: none */
};

/* ---- sessions ---- */

struct sw_session_setup {
    /* tls->server: which end this is. What it borrows must live until on_ready or on_closed. */
    const struct sw_tls_params *tls;
    const struct sw_session_config *config; /* copied */
    const struct sw_session_ops *ops;
    void *owner;
};
/*
 * Takes the connected socket and starts TLS. NULL with err when TLS cannot be set up; the socket is
 * closed.
 */
struct sw_session *sw_session_new(struct sw_loop *l, int fd, const struct sw_session_setup *setup,
                                  struct sw_err *err);
void *sw_session_owner(const struct sw_session *s);
/* NULL before TLS is done. */
const struct sw_tls_peer *sw_session_peer(const struct sw_session *s);
const struct sw_tls *sw_session_tls(const struct sw_session *s);
size_t sw_session_streams(const struct sw_session *s);
/* How many more streams may be opened now (client). 0 when draining or failed. */
size_t sw_session_room(const struct sw_session *s, size_t own_limit);
/*
 * The connection's window is used up in one direction, by streams whose readers do not read: the
 * bytes of one more stream would wait for theirs.
 */
bool sw_session_stalled(const struct sw_session *s);

/* No new streams; ends by itself when the last stream does. */
void sw_session_drain(struct sw_session *s);
/*
 * From on_other only: gives socket and TLS to the caller. The session frees itself, without
 * on_closed.
 */
void sw_session_take(struct sw_session *s, struct sw_session_parts *ret);
/* Closes and frees what was taken. */
void sw_session_parts_close(struct sw_session_parts *p);
/* Ends now; all streams fail with rc and err. on_closed follows from the loop. */
void sw_session_close(struct sw_session *s, int rc, const struct sw_err *err);

/* ---- streams ---- */

/* Client: sends the CONNECT. SW_OK, or SW_ELIMIT/SW_ECLOSED and t is untouched. */
SW_NODISCARD int sw_tstream_open(struct sw_session *s, struct sw_tstream *t,
                                 const struct sw_tstream_ops *ops,
                                 const struct sw_h2_header *fields, size_t n, struct sw_err *err);
/*
 * Client, after opening: what the application has sent already goes out with the CONNECT. It is
 * not taken from the socket, which stays the caller's: until the answer, the tunnel may be tried
 * elsewhere unless t->ahead says that the peer may have passed bytes on. Nothing happens on a
 * connection on which the peer has not spoken yet.
 */
void sw_tstream_early(struct sw_tstream *t, int fd);
/* Server: binds t to a request; received bytes wait in t until it relays. */
void sw_tstream_attach(struct sw_session *s, int32_t id, struct sw_tstream *t,
                       const struct sw_tstream_ops *ops);
/* Server: answers a request that was not attached and ends it. */
void sw_session_refuse(struct sw_session *s, int32_t id, unsigned status);
/* Server: a non-200 answer to an attached stream, detached afterwards without on_done. */
void sw_tstream_refuse(struct sw_tstream *t, unsigned status);
enum { SW_TSTREAM_REPLY_MAX = 4096 };
/*
 * Server: any answer to an attached stream, with a body of at most SW_TSTREAM_REPLY_MAX bytes (cut;
 * copied). fields[0] is :status, one of them may be content-length. on_done follows.
 */
void sw_tstream_reply(struct sw_tstream *t, const struct sw_h2_header *fields, size_t n,
                      struct sw_slice body);
/* Server: 200 with the given extra fields; then call sw_tstream_relay. */
void sw_tstream_accept(struct sw_tstream *t, const struct sw_h2_header *extra, size_t n);
/* Hands over the local socket and starts moving bytes. */
void sw_tstream_relay(struct sw_tstream *t, int fd);
/* The same for a socket that was dialled. */
void sw_tstream_relay_dialled(struct sw_tstream *t, struct sw_dialled *dialled);
/* Gives the stream up: RST_STREAM with code, the socket is reset. No on_done. */
void sw_tstream_abort(struct sw_tstream *t, enum sw_h2_code code);
