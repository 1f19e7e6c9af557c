/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP/1.1 server on one loop: admin pages, metrics, readiness, control API. Requests are
 * read whole (bounded) before the handler runs; a connection carries one request at a time, in
 * order. Not for the data plane: bodies are not streamed in.
 * Everything here runs on the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "http/h1.h"
#include "io/addr.h"
#include "io/loop.h"

struct sw_http_server;
struct sw_http_resp;

struct sw_http_req {
    const struct sw_h1_msg *msg;
    struct sw_slice path;  /* before '?', as sent */
    struct sw_slice query; /* after '?', p == NULL without one */
    struct sw_slice body;
    struct sw_addr peer;
    struct sw_arena *arena; /* lives until the response is sent */
};

/*
 * Answers through resp, now or later (on the same thread); exactly one of the sw_http_send,
 * sw_http_stream_begin families. req lives until the response is finished or gone.
 */
typedef void (*sw_http_handler)(struct sw_http_req *req, struct sw_http_resp *resp, void *arg);

/* Zero in a field means the default in brackets. */
struct sw_http_server_opts {
    const char *scope;          /* log scope, static ["http"] */
    struct sw_h1_limits limits; /* [line and head 8 KiB, 64 fields, body 1 MiB] */
    size_t max_conns;           /* further ones are closed at once [256] */
    size_t max_out;             /* bytes queued for all clients together [64 MiB] */
    uint64_t header_timeout_ns; /* a begun request must be complete [2 s] */
    uint64_t idle_timeout_ns;   /* between requests [60 s] */
    uint64_t write_timeout_ns;  /* a response must be taken, streams: make progress [30 s] */
    const char *share;          /* group of processes that may listen beside us; NULL: none */
    sw_http_handler handler;
    void *arg;
};

SW_NODISCARD struct sw_http_server *sw_http_server_new(struct sw_loop *l,
                                                       const struct sw_http_server_opts *o);
/* May be called several times. Port 0 takes a free one. */
SW_NODISCARD int sw_http_server_listen(struct sw_http_server *s, const struct sw_addr *at,
                                       struct sw_err *err);
/* Address of the i-th listener as bound; family 0 when there is none. */
struct sw_addr sw_http_server_addr(const struct sw_http_server *s, size_t i);
/* Serves an already connected descriptor, which it takes over. */
void sw_http_server_adopt(struct sw_http_server *s, int fd);
size_t sw_http_server_conns(const struct sw_http_server *s);
/*
 * Stops listening, closes idle connections and lets begun requests finish (with Connection:
 * close) for at most deadline_ns; then on_done (may be NULL) is called, once, from the loop.
 */
void sw_http_server_stop(struct sw_http_server *s, uint64_t deadline_ns,
                         void (*on_done)(struct sw_http_server *s, void *arg), void *arg);
/* Closes everything at once. NULL is fine. Not from inside the handler or another callback of it.
 */
void sw_http_server_free(struct sw_http_server *s);

/* Adds a response field; before sending. An invalid one is dropped and logged. */
void sw_http_set(struct sw_http_resp *r, const char *name, struct sw_slice value);
/* Copies the body. content_type may be NULL with an empty body. gzip where accepted and worth it.
 */
void sw_http_send(struct sw_http_resp *r, int status, const char *content_type,
                  struct sw_slice body);
/* Same, taking the buffer's storage; *body is empty afterwards. */
void sw_http_send_buf(struct sw_http_resp *r, int status, const char *content_type,
                      struct sw_buf *body);
/* text/plain answer from a format, cut to 1 KiB. */
void sw_http_send_text(struct sw_http_resp *r, int status, const char *fmt, ...) SW_PRINTF(3, 4);
/* 405 with Allow. */
void sw_http_send_not_allowed(struct sw_http_resp *r, const char *allow);
/*
 * True when the method is GET or HEAD; otherwise 405 was sent. HEAD needs no care from handlers:
 * the body is left out, its length kept.
 */
bool sw_http_only_get(const struct sw_http_req *req, struct sw_http_resp *r);

/*
 * A response of unknown length (watches). on_gone is called once if the client goes before
 * sw_http_stream_end; afterwards r must not be touched.
 */
void sw_http_stream_begin(struct sw_http_resp *r, int status, const char *content_type,
                          void (*on_gone)(void *arg), void *arg);
/* SW_ELIMIT when the client is too slow for the queue: end or drop the stream. */
SW_NODISCARD int sw_http_stream_write(struct sw_http_resp *r, struct sw_slice data);
/* Bytes not yet taken by the client. */
size_t sw_http_stream_pending(struct sw_http_resp *r);
void sw_http_stream_end(struct sw_http_resp *r);
/* Where a late answer finds out that its client went away: called once, instead of nothing. */
void sw_http_on_gone(struct sw_http_resp *r, void (*on_gone)(void *arg), void *arg);
