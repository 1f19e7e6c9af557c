/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 over a TCP connection, with TLS or without (prior knowledge), as server or client:
 * streams in both directions at once, trailers, pings, graceful ends. Bytes a stream sends are
 * queued up to a bound; bytes it receives are credited to the peer as the owner takes them.
 * For services of the control plane (gRPC); requests of the data plane have an engine of their own.
 * Everything here runs on the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "http/h2.h"
#include "io/addr.h"
#include "io/loop.h"
#include "tls/tls.h"

struct sw_tls_cred;
struct sw_tls_peer;
struct sw_h2conn;
struct sw_h2stream;

/*
 * All optional. Each may send, reset or end the stream or ask the connection to close; none may
 * free the connection. on_close is the last: s is gone when it returns.
 */
struct sw_h2stream_ops {
    void (*on_head)(struct sw_h2stream *s, const struct sw_h2_head *head, void *arg); /* clients */
    /* The peer gets credit for what is taken: sw_h2stream_took. */
    void (*on_data)(struct sw_h2stream *s, struct sw_slice data, void *arg);
    void (*on_trailers)(struct sw_h2stream *s, const struct sw_h2_head *head, void *arg);
    void (*on_end)(struct sw_h2stream *s, void *arg);   /* the peer sends no more */
    void (*on_drain)(struct sw_h2stream *s, void *arg); /* the queue is empty again */
    void (*on_close)(struct sw_h2stream *s, uint32_t code, void *arg);
};

struct sw_h2conn_ops {
    /* Handshake done: a client may open streams. May be NULL. */
    void (*on_open)(struct sw_h2conn *c, void *arg);
    /* Server: a request came; sw_h2stream_own takes it, otherwise it is refused. */
    void (*on_request)(struct sw_h2conn *c, struct sw_h2stream *s, const struct sw_h2_head *head,
                       void *arg);
    /* The connection is gone, its streams were closed before; freed when this returns. */
    void (*on_closed)(struct sw_h2conn *c, const struct sw_err *err, void *arg);
};

/* Zero in a field means the default in brackets. */
struct sw_h2conn_opts {
    const char *scope; /* log scope, static ["h2"] */
    bool server;
    struct sw_tls_cred *cred;  /* NULL: no TLS; a reference is taken */
    const char *host;          /* TLS client: name or address the certificate must be for; copied */
    sw_tls_leaf_cb leaf_ok;    /* TLS client: judges the certificate instead of host; tls/tls.h */
    void *leaf_arg;            /* borrowed */
    bool insecure_skip;        /* TLS client: accept any chain; leaf_ok is still called */
    uint32_t stream_window;    /* [256 KiB] */
    uint32_t max_streams;      /* server: at once [128] */
    uint32_t max_header_list;  /* [64 KiB] */
    bool extended_connect;     /* server: accept :protocol (RFC 8441) */
    size_t max_queue;          /* bytes a stream may have queued [64 MiB] */
    uint64_t open_timeout_ns;  /* connect and handshake [10 s] */
    uint64_t idle_timeout_ns;  /* server: without a stream [300 s] */
    uint64_t ping_ns;          /* after so long a silence a PING goes out [30 s] */
    uint64_t pong_ns;          /* and so long it may take to be answered [20 s] */
    uint64_t write_timeout_ns; /* a peer that takes nothing [60 s] */
    const struct sw_h2conn_ops *ops;
    void *arg;
};

/*
 * Takes over a descriptor that is connected or connecting. NULL with err (fd is closed then).
 * Callbacks never come from inside.
 */
SW_NODISCARD struct sw_h2conn *sw_h2conn_new(struct sw_loop *l, int fd,
                                             const struct sw_h2conn_opts *o, struct sw_err *err);
/* Frees at once: streams get on_close, on_closed does not come. Not from a callback. */
void sw_h2conn_free(struct sw_h2conn *c);
/* Ends it without ceremony; on_closed comes from the loop. From anywhere. */
void sw_h2conn_close(struct sw_h2conn *c, int rc, const char *why);
/* No new streams; the connection ends with the last one. */
void sw_h2conn_goaway(struct sw_h2conn *c);
struct sw_addr sw_h2conn_peer_addr(const struct sw_h2conn *c);
/* NULL without TLS or without a certificate. */
const struct sw_tls_peer *sw_h2conn_peer(const struct sw_h2conn *c);
size_t sw_h2conn_streams(const struct sw_h2conn *c);
/* Was HTTP/2 agreed on in the handshake? False without TLS. */
bool sw_h2conn_agreed(const struct sw_h2conn *c);

/* Attaches the owner; before that all callbacks are dropped. */
void sw_h2stream_own(struct sw_h2stream *s, const struct sw_h2stream_ops *ops, void *arg);
struct sw_h2conn *sw_h2stream_conn(const struct sw_h2stream *s);
/*
 * Client: opens a stream; fields are complete (pseudo-fields included). NULL with SW_ECLOSED or
 * SW_ELIMIT.
 */
SW_NODISCARD struct sw_h2stream *sw_h2stream_open(struct sw_h2conn *c,
                                                  const struct sw_h2_header *fields, size_t n,
                                                  const struct sw_h2stream_ops *ops, void *arg,
                                                  struct sw_err *err);
/* Server: the head of the answer; with 'end' that is all. fields[0] is :status. */
void sw_h2stream_respond(struct sw_h2stream *s, const struct sw_h2_header *fields, size_t n,
                         bool end);
/* Queues bytes (copied). SW_ELIMIT beyond max_queue, SW_ECLOSED after the end. */
SW_NODISCARD int sw_h2stream_send(struct sw_h2stream *s, struct sw_slice data);
/* Queues several pieces or nothing. */
SW_NODISCARD int sw_h2stream_sendv(struct sw_h2stream *s, const struct sw_slice *v, size_t n);
/* Bytes queued and not yet given to the connection. */
size_t sw_h2stream_queued(const struct sw_h2stream *s);
/* Nothing follows what is queued but these fields (copied), if any. */
void sw_h2stream_end(struct sw_h2stream *s, const struct sw_h2_header *trailers, size_t n);
void sw_h2stream_reset(struct sw_h2stream *s, enum sw_h2_code code);
/* n received bytes were taken: credit for the peer. */
void sw_h2stream_took(struct sw_h2stream *s, size_t n);
