/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC over HTTP/2: framed messages both ways, status in trailers. A call is a stream of messages
 * in each direction; a unary call is one message each way. No compression is offered or accepted.
 * Everything here runs on the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "http/h2conn.h"

struct sw_grpc_server;
struct sw_grpc_client;
struct sw_grpc_call;

enum sw_grpc_status {
    SW_GRPC_OK = 0,
    SW_GRPC_CANCELLED = 1,
    SW_GRPC_UNKNOWN = 2,
    SW_GRPC_INVALID_ARGUMENT = 3,
    SW_GRPC_DEADLINE_EXCEEDED = 4,
    SW_GRPC_NOT_FOUND = 5,
    SW_GRPC_PERMISSION_DENIED = 7,
    SW_GRPC_RESOURCE_EXHAUSTED = 8,
    SW_GRPC_FAILED_PRECONDITION = 9,
    SW_GRPC_UNIMPLEMENTED = 12,
    SW_GRPC_INTERNAL = 13,
    SW_GRPC_UNAVAILABLE = 14,
    SW_GRPC_UNAUTHENTICATED = 16,
};

/* --- framing --- */

enum { SW_GRPC_HEAD = 5 };

/* Cuts a stream of bytes into messages. */
struct sw_grpc_reader {
    size_t max; /* bytes of a message */
    struct sw_buf buf;
    size_t taken; /* of buf, by the message handed out last */
};

void sw_grpc_reader_init(struct sw_grpc_reader *r, size_t max);
void sw_grpc_reader_done(struct sw_grpc_reader *r);
/* Appends received bytes. SW_ELIMIT when more than the largest message and 1 MiB wait. */
SW_NODISCARD int sw_grpc_reader_feed(struct sw_grpc_reader *r, struct sw_slice data,
                                     struct sw_err *err);
/*
 * The next whole message: SW_OK with *ret, which lives until the next call of any of these;
 * SW_EAGAIN; SW_ELIMIT when one is announced larger than allowed, SW_EPROTO for a flag that says
 * it is compressed. The last two are final.
 */
SW_NODISCARD int sw_grpc_reader_next(struct sw_grpc_reader *r, struct sw_slice *ret,
                                     struct sw_err *err);
/* True between messages: the only place where a stream may end. */
bool sw_grpc_reader_idle(const struct sw_grpc_reader *r);

/* The five bytes in front of a message of n bytes. */
void sw_grpc_head(char out[SW_GRPC_HEAD], size_t n);
/*
 * grpc-message: percent-encoding of everything but printable ASCII, and back (broken escapes are
 * taken literally). Both append as much as fits.
 */
void sw_grpc_message_encode(struct sw_slice in, struct sw_buf *out);
void sw_grpc_message_decode(struct sw_slice in, struct sw_buf *out);

/* --- calls --- */

/* All optional but on_done. Each may send, finish or cancel. */
struct sw_grpc_ops {
    /* A message; lives for the call. */
    void (*on_message)(struct sw_grpc_call *c, struct sw_slice msg, void *arg);
    /* The other side sends no more messages (server: the client half-closed). */
    void (*on_end)(struct sw_grpc_call *c, void *arg);
    /* All that was queued left the queue. */
    void (*on_drain)(struct sw_grpc_call *c, void *arg);
    /*
     * Over, exactly once and last; c is gone when it returns. Client: the server's status, or one
     * of our own (UNAVAILABLE: connection lost). Server: OK when all was sent, else CANCELLED; the
     * message is empty, or says why the call ended without its owner (a message too large).
     */
    void (*on_done)(struct sw_grpc_call *c, enum sw_grpc_status status, struct sw_slice message,
                    void *arg);
};

/* Queues a message. SW_ELIMIT when the queue is full, SW_ECLOSED after the end. */
SW_NODISCARD int sw_grpc_send(struct sw_grpc_call *c, struct sw_slice msg);
/* Bytes queued and not yet given to the connection. */
size_t sw_grpc_queued(const struct sw_grpc_call *c);
/* Bytes of a message that comes from now on, instead of what the server's options say. */
void sw_grpc_set_max(struct sw_grpc_call *c, size_t max);
/* Stops delivering messages; the other side runs out of credit. */
void sw_grpc_pause(struct sw_grpc_call *c, bool pause);

/* --- server --- */

/* A call that arrives. Lives for the call of 'open'. */
struct sw_grpc_request {
    const struct sw_h2_head *head;
    struct sw_slice token; /* of "authorization: Bearer ...", empty: none */
    struct sw_addr addr;
    const struct sw_tls_peer *cert; /* NULL: none */
};

struct sw_grpc_method {
    const char *path; /* "/package.Service/Method" */
    /*
     * Takes the call with sw_grpc_accept, or refuses it with sw_grpc_finish; the call stays valid
     * until on_done either way.
     */
    void (*open)(struct sw_grpc_call *c, const struct sw_grpc_request *req, void *arg);
    /*
     * Instead of open, for unary methods: the one message of the request. Answers with
     * sw_grpc_reply or sw_grpc_finish before it returns.
     */
    void (*unary)(struct sw_grpc_call *c, struct sw_slice msg, void *arg);
    void *arg;
    bool judges; /* 'open' authorises the call: the server's 'allow' is not called */
};

/* Zero in a field means the default in brackets. */
struct sw_grpc_server_opts {
    const char *scope;        /* log scope, static ["grpc"] */
    struct sw_tls_cred *cred; /* NULL: plain HTTP/2; a reference is taken */
    size_t max_conns;         /* [1024] */
    uint32_t conn_calls;      /* of one connection at once [128] */
    size_t max_calls;         /* over all connections [4096] */
    size_t max_message;       /* of a request [4 MiB] */
    size_t max_in;            /* half-received messages of all calls [256 MiB] */
    size_t max_queue;         /* of a call [64 MiB] */
    /* Before any method: SW_OK or why not (UNAUTHENTICATED). NULL: every client is allowed. */
    int (*allow)(void *arg, const struct sw_grpc_request *req, struct sw_err *err);
    void *arg;
};

SW_NODISCARD struct sw_grpc_server *sw_grpc_server_new(struct sw_loop *l,
                                                       const struct sw_grpc_server_opts *o);
/* Calls get on_done. NULL is fine. Not from a callback. */
void sw_grpc_server_free(struct sw_grpc_server *s);
/* methods are copied, paths borrowed; may be called several times. */
void sw_grpc_server_methods(struct sw_grpc_server *s, const struct sw_grpc_method *m, size_t n);
/*
 * Takes requests that are not gRPC by their content type (any method), instead of refusing them: fn
 * owns the stream (sw_h2stream_own) or answers it. The server's 'allow' is not called. One at a
 * time; NULL: none.
 */
void sw_grpc_server_plain(struct sw_grpc_server *s,
                          void (*fn)(struct sw_h2stream *st, const struct sw_h2_head *head,
                                     void *arg),
                          void *arg);
SW_NODISCARD int sw_grpc_server_listen(struct sw_grpc_server *s, const struct sw_addr *at,
                                       struct sw_addr *ret_bound, struct sw_err *err);
/* Serves an already connected descriptor, which it takes over. */
void sw_grpc_server_adopt(struct sw_grpc_server *s, int fd);
void sw_grpc_server_set_cred(struct sw_grpc_server *s, struct sw_tls_cred *cred);
/*
 * No new calls; those open are the owner's to finish within deadline_ns. Then on_done (may be
 * NULL), once, from the loop.
 */
void sw_grpc_server_stop(struct sw_grpc_server *s, uint64_t deadline_ns, void (*on_done)(void *arg),
                         void *arg);
size_t sw_grpc_server_calls(const struct sw_grpc_server *s);

/* Sends the head of the answer; messages may follow. ops are borrowed. */
void sw_grpc_accept(struct sw_grpc_call *c, const struct sw_grpc_ops *ops, void *arg);
/* The end: status and text, behind what is queued. */
void sw_grpc_finish(struct sw_grpc_call *c, enum sw_grpc_status status, const char *fmt, ...)
    SW_PRINTF(3, 4);
/* Unary: the message and OK. */
void sw_grpc_reply(struct sw_grpc_call *c, struct sw_slice msg);

/* --- client --- */

enum { SW_GRPC_METADATA_MAX = 32 };

/* Zero in a field means the default in brackets. */
struct sw_grpc_client_opts {
    const char *scope;    /* log scope, static ["grpc"] */
    struct sw_slice host; /* DNS name or IP address, without brackets; copied */
    uint16_t port;
    struct sw_tls_cred *cred;  /* NULL: plain HTTP/2; a reference is taken */
    struct sw_slice tls_name;  /* name the certificate must be for [host]; copied */
    struct sw_slice authority; /* to send [host and port]; copied */
    sw_tls_leaf_cb leaf_ok;    /* judges the certificate instead of tls_name; see tls/tls.h */
    void *leaf_arg;            /* borrowed */
    bool insecure_skip;        /* accept any chain; leaf_ok is still called */
    const struct sw_h2_header *headers; /* metadata sent with every call, lower case; copied */
    size_t n_headers;                   /* at most SW_GRPC_METADATA_MAX */
    size_t max_message;                 /* of a response [4 MiB] */
    size_t max_queue;                   /* of a call [64 MiB] */
    uint32_t window;                    /* bytes of a response on the way [256 KiB] */
    uint32_t mark;                      /* SO_MARK of its sockets; 0: none */
    uint64_t connect_timeout_ns;        /* name, connection and handshake together [10 s] */
};

/*
 * One server, one connection, opened by the first call. After 30 s of silence the server is pinged;
 * one that does not answer within 10 s has lost the connection. NULL with SW_EINVAL.
 */
SW_NODISCARD struct sw_grpc_client *
sw_grpc_client_new(struct sw_loop *l, const struct sw_grpc_client_opts *o, struct sw_err *err);
/* Calls get on_done. NULL is fine. Not from a callback. */
void sw_grpc_client_free(struct sw_grpc_client *c);
void sw_grpc_client_set_cred(struct sw_grpc_client *c, struct sw_tls_cred *cred);

/*
 * Starts a call; messages may be queued at once. path and token (empty: none) are copied. on_done
 * always comes, never from inside. timeout_ns 0: no deadline.
 */
SW_NODISCARD struct sw_grpc_call *sw_grpc_call(struct sw_grpc_client *c, struct sw_slice path,
                                               struct sw_slice token, uint64_t timeout_ns,
                                               const struct sw_grpc_ops *ops, void *arg);
/* No more messages from us. */
void sw_grpc_end(struct sw_grpc_call *c);
/* Forgets it: no callback comes any more. */
void sw_grpc_cancel(struct sw_grpc_call *c);
