/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP/2 connection, client or server, without I/O: opened bytes go in with sw_h2_feed,
 * frames come out through the owner's emit callbacks. The payload of DATA frames is never
 * copied here: it is handed out as a slice of the caller's buffer and taken from the caller's
 * own memory. nghttp2 stays inside h2.c.
 *
 * No callback may free the connection; record what happened and act after feed or flush returned.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/slice.h"

struct sw_arena;
struct sw_h2;

/* RFC 9113 section 7. */
enum sw_h2_code {
    SW_H2_NO_ERROR = 0,
    SW_H2_PROTOCOL_ERROR = 1,
    SW_H2_INTERNAL_ERROR = 2,
    SW_H2_STREAM_CLOSED = 5,
    SW_H2_REFUSED_STREAM = 7,
    SW_H2_CANCEL = 8,
    SW_H2_CONNECT_ERROR = 10,
    SW_H2_ENHANCE_YOUR_CALM = 11,
};

struct sw_h2_header {
    struct sw_slice name; /* lower case */
    struct sw_slice value;
};

/* A header block that arrived; lives until the callback returns. */
struct sw_h2_head {
    struct sw_slice method;
    struct sw_slice authority;
    struct sw_slice scheme;
    struct sw_slice path;
    struct sw_slice protocol; /* RFC 8441 */
    unsigned status;          /* responses */
    const struct sw_h2_header *headers;
    size_t n;
    bool too_large; /* the block passed the limit: fields beyond it are missing */
};

/* Value of the first header of that name; p is NULL when there is none. */
struct sw_slice sw_h2_head_get(const struct sw_h2_head *head, const char *name);

enum { SW_H2_FRAME_HEAD = 9 };

struct sw_h2_ops {
    /*
     * Optional: a header block begins. Where its texts are kept: they live as long as that arena.
     * NULL: with the connection, until the callback that gets them returns.
     */
    struct sw_arena *(*on_begin)(struct sw_h2 *h, int32_t id, void *stream);
    /* A request (server) or response (client). *stream is what the owner attached, NULL on
     * requests. */
    void (*on_head)(struct sw_h2 *h, int32_t id, void *stream, const struct sw_h2_head *head,
                    bool end);
    /* Optional, client: an interim response (1xx); on_head follows. */
    void (*on_info)(struct sw_h2 *h, int32_t id, void *stream, const struct sw_h2_head *head);
    void (*on_data)(struct sw_h2 *h, int32_t id, void *stream, struct sw_slice data);
    /* Optional: fields behind the data; on_end follows. */
    void (*on_trailers)(struct sw_h2 *h, int32_t id, void *stream, const struct sw_h2_head *head);
    /* The peer finished sending on this stream. */
    void (*on_end)(struct sw_h2 *h, int32_t id, void *stream);
    /* The stream is gone; code is an RFC 9113 error code. The last callback of a stream. */
    void (*on_close)(struct sw_h2 *h, int32_t id, void *stream, uint32_t code);
    /* Optional: the send window of a stream (or of all: id 0) grew. */
    void (*on_window)(struct sw_h2 *h, int32_t id, void *stream);
    /* Optional: the peer's SETTINGS arrived. */
    void (*on_settings)(struct sw_h2 *h);
    void (*on_goaway)(struct sw_h2 *h, int32_t last_id, uint32_t code);
    /* Optional: the answer to a ping of ours. */
    void (*on_pong)(struct sw_h2 *h);
    /* Optional: the peer sent a frame that costs an answer (PING, SETTINGS): for counting. */
    void (*on_control)(struct sw_h2 *h);
    /*
     * Frames other than DATA, ready to send. SW_OK: all n bytes were taken; SW_EAGAIN: none, there
     * is no room now (not allowed with emit_takes_all). Anything else ends the connection.
     */
    int (*emit)(struct sw_h2 *h, const uint8_t *p, size_t n);
    /*
     * How many bytes (at most max) the stream can send right now; they must stay put until
     * emit_data. SW_EAGAIN: none; call sw_h2_resume later. *ret_end: these are the last.
     */
    ssize_t (*pull)(struct sw_h2 *h, int32_t id, void *stream, size_t max, bool *ret_end);
    /*
     * Optional: when pull returned the last bytes, the fields to send behind them, at most max;
     * returns how many, 0: none. They must live until the call returns.
     */
    size_t (*trailers)(struct sw_h2 *h, int32_t id, void *stream, struct sw_h2_header *out,
                       size_t max);
    /* Sends the frame head and the n bytes pulled before. Cannot fail: pull checked for room. */
    void (*emit_data)(struct sw_h2 *h, int32_t id, void *stream,
                      const uint8_t head[SW_H2_FRAME_HEAD], size_t n);
};

struct sw_h2_config {
    bool server;
    bool emit_takes_all;        /* emit never returns SW_EAGAIN: saves 16 KiB per connection */
    uint32_t stream_window;     /* bytes a peer may have in flight per stream */
    uint32_t connection_window; /* and over all streams; must exceed stream_window */
    uint32_t max_frame;         /* largest frame we accept */
    uint32_t max_send_frame;    /* largest DATA payload we send */
    uint32_t max_header_list;   /* bytes of a header block */
    uint32_t max_streams;       /* concurrent streams a client may open (servers) */
    bool extended_connect;      /* servers: accept :protocol (RFC 8441) */
};

/* Queues the connection preface and SETTINGS. ops and owner are borrowed. */
struct sw_h2 *sw_h2_new(const struct sw_h2_config *c, const struct sw_h2_ops *ops, void *owner);
/* Frees without further callbacks. NULL is fine. */
void sw_h2_free(struct sw_h2 *h);
void *sw_h2_owner(const struct sw_h2 *h);

/* Takes received bytes. SW_EPROTO when the connection cannot continue (GOAWAY is queued; flush,
 * then close). */
SW_NODISCARD int sw_h2_feed(struct sw_h2 *h, struct sw_slice in, struct sw_err *err);
/* Emits all that can go out now. SW_OK, SW_EAGAIN (emit had no room), SW_EPROTO. */
SW_NODISCARD int sw_h2_flush(struct sw_h2 *h, struct sw_err *err);
bool sw_h2_wants_write(const struct sw_h2 *h);
/* True when nghttp2 neither reads nor writes any more: close the connection. */
bool sw_h2_finished(const struct sw_h2 *h);

/* Why the connection ended, for people; never NULL. */
const char *sw_h2_fault(const struct sw_h2 *h);
/* Why a frame of the peer was turned down since the last call, for people; NULL: none was. */
const char *sw_h2_complaint(struct sw_h2 *h);

/*
 * Opens a stream; the request has a body that pull provides, unless it ends with its head. Any
 * number of fields. The id, or SW_ELIMIT/SW_ECLOSED.
 */
SW_NODISCARD int32_t sw_h2_request(struct sw_h2 *h, const struct sw_h2_header *fields, size_t n,
                                   bool end, void *stream, struct sw_err *err);
/*
 * Answers a request. With 'end' there is no body, and what is left of the request's is refused.
 * fields[0] must be :status.
 */
SW_NODISCARD int sw_h2_respond(struct sw_h2 *h, int32_t id, const struct sw_h2_header *fields,
                               size_t n, bool end, struct sw_err *err);
/* An interim answer (103 and the like) in front of it. */
SW_NODISCARD int sw_h2_inform(struct sw_h2 *h, int32_t id, const struct sw_h2_header *fields,
                              size_t n, struct sw_err *err);
void sw_h2_set_stream(struct sw_h2 *h, int32_t id, void *stream);
/* The stream may have bytes again. */
void sw_h2_resume(struct sw_h2 *h, int32_t id);
void sw_h2_reset(struct sw_h2 *h, int32_t id, enum sw_h2_code code);

/* Received bytes were passed on: gives the peer that much credit. */
void sw_h2_consume_stream(struct sw_h2 *h, int32_t id, size_t n);
void sw_h2_consume_connection(struct sw_h2 *h, size_t n);
/* Bytes that may be sent on all streams together now, and that the peer may send. */
size_t sw_h2_connection_window(const struct sw_h2 *h);
size_t sw_h2_receive_window(const struct sw_h2 *h);
/* Bytes that may be sent on a stream now: the smaller of its window and the connection's. */
size_t sw_h2_send_window(const struct sw_h2 *h, int32_t id);
/* What the peer allows us to have open; 100 until its SETTINGS arrive. */
uint32_t sw_h2_peer_max_streams(const struct sw_h2 *h);

/*
 * The peer cancelled a stream before it was answered. A few are normal; more than the allowance
 * is the rapid-reset attack and ends the connection with ENHANCE_YOUR_CALM.
 */
void sw_h2_count_early_reset(struct sw_h2 *h, uint64_t now_ns);

/* Ends the connection with ENHANCE_YOUR_CALM; why: static text. */
void sw_h2_calm(struct sw_h2 *h, const char *why);

void sw_h2_ping(struct sw_h2 *h);
/* First step of a graceful end: "no new streams soon" (servers only). */
void sw_h2_shutdown_notice(struct sw_h2 *h);
/* GOAWAY naming the last stream we took; streams up to it continue. */
void sw_h2_goaway(struct sw_h2 *h, enum sw_h2_code code);
