/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTPS for the API: TLS 1.3 and 1.2 with optional client certificates, HTTP/1.1 and HTTP/2 by
 * ALPN. A request is read whole (bounded) before the handler sees it; answers are either complete
 * or streams with a bounded queue. Everything runs on one loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"

struct sw_loop;
struct sw_front;
struct sw_tls_cred;
struct sw_tls_peer;

struct sw_front_field {
    struct sw_slice name; /* as sent; compare without regard to case */
    struct sw_slice value;
};

/* One request and its answer. Lives until the answer was given and the connection is done with it;
 * the handler may keep the pointer until it answered, even when the client is gone. */
struct sw_xchg {
    struct sw_arena arena; /* for the handler too; dies with the exchange */
    struct sw_slice method;
    struct sw_slice path;  /* before '?', as sent */
    struct sw_slice query; /* p == NULL without one */
    const struct sw_front_field *fields;
    size_t nfields;
    struct sw_slice body;
    bool too_large; /* the body passed the limit and was thrown away */
    bool crowded;   /* it was thrown away because of max_bodies */
    struct sw_addr peer;
    const struct sw_tls_peer *cert; /* verified client certificate, NULL: none */
    bool cert_refused;              /* one was shown that does not verify */
    void *user;                     /* the handler's */
    /* The client went while the handler works; it still has to answer, but not in this call. */
    void (*on_gone)(struct sw_xchg *x);
    bool compressed; /* sw_xchg_compress was called */
};

typedef void (*sw_front_handler)(struct sw_xchg *x, void *arg);

/* Zero in a field means the default in brackets. */
struct sw_front_opts {
    struct sw_tls_cred *cred;  /* a reference is taken */
    size_t max_conns;          /* then idle ones are closed, else the new one [4096] */
    size_t max_conns_addr;     /* of one address that is not loopback [1024] */
    size_t max_body;           /* of a request [3 MiB] */
    size_t max_bodies;         /* of all requests together [256 MiB]; being read for one user or
                                  address: an eighth */
    size_t max_out;            /* queued answers of all clients together [1 GiB] */
    size_t max_out_user;       /* of one user together, but for a single one [an eighth] */
    size_t max_stream;         /* queued on one stream before writes are refused [4 MiB] */
    uint64_t idle_timeout_ns;  /* between requests [180 s] */
    uint64_t head_timeout_ns;  /* handshake, and a request's head [10 s] */
    uint64_t body_timeout_ns;  /* a request's body [60 s] */
    uint64_t write_timeout_ns; /* without any progress of an answer [60 s] */
    sw_front_handler handler;
    void (*discard)(void *arg, struct sw_arena *a); /* frees an exchange's arena; NULL: at once */
    void *arg;
};

struct sw_front *sw_front_new(struct sw_loop *l, const struct sw_front_opts *o);
/* May be called several times. Port 0 takes a free one; *ret_bound (may be NULL) is the address. */
SW_NODISCARD int sw_front_listen(struct sw_front *f, const struct sw_addr *at,
                                 struct sw_addr *ret_bound, struct sw_err *err);
/*
 * Stops listening, ends idle connections and lets begun answers finish for at most deadline_ns;
 * then on_done is called once from the loop. Streams should be ended by their owners.
 */
void sw_front_stop(struct sw_front *f, uint64_t deadline_ns, void (*on_done)(void *arg), void *arg);
/* Closes everything. Not from inside a callback of it. NULL is fine. */
void sw_front_free(struct sw_front *f);

struct sw_front_stats {
    size_t conns;
    size_t unread_bytes;
    uint64_t evicted; /* idle connections closed to make room */
    uint64_t refused; /* new connections closed for want of room */
    uint64_t unread;  /* streams and connections cut because nothing was read */
    uint64_t full;    /* answers replaced by 429 or 503 because too much is unread */
};
void sw_front_stats(const struct sw_front *f, struct sw_front_stats *ret);

/*
 * The authenticated user of a request: the connection counts as this user's, and so do the bytes of
 * the answer that are not read. Before it is answered. first: its connections at work do not make
 * room for others.
 */
void sw_xchg_identify(struct sw_xchg *p, struct sw_slice user, bool first);

/* First field of that name; p == NULL when there is none. */
struct sw_slice sw_xchg_field(const struct sw_xchg *x, const char *name);

/* Adds a field to the answer, before it is given. Invalid values are dropped and logged. */
void sw_xchg_set(struct sw_xchg *p, const char *name, struct sw_slice value);
/*
 * Compresses a large body where the client accepts that, and says so in the answer. Beside the loop
 * too, before the answer is given: touches nothing but the exchange's own memory.
 */
void sw_xchg_compress(struct sw_xchg *p, struct sw_buf *body);
/* A complete answer; takes the buffer's storage. content_type NULL: none. Large bodies are
 * compressed where the client accepts that. */
void sw_xchg_send(struct sw_xchg *p, int status, const char *content_type, struct sw_buf *body);
/* The same with a copy of the bytes. */
void sw_xchg_send_slice(struct sw_xchg *x, int status, const char *content_type,
                        struct sw_slice body);

struct sw_xchg_stream_ops {
    /* The client went away (or we closed it): do not touch the exchange afterwards. */
    void (*on_gone)(struct sw_xchg *x);
    /* The queue is (nearly) empty again after a write was refused or it passed half its bound. */
    void (*on_drain)(struct sw_xchg *x);
};
/*
 * Begins an answer of unknown length; ops is borrowed. The head goes out at once. False: the client
 * is gone, on_gone was called and the exchange is freed.
 */
SW_NODISCARD bool sw_xchg_stream(struct sw_xchg *p, int status, const char *content_type,
                                 const struct sw_xchg_stream_ops *ops);
/*
 * SW_EAGAIN: the client is too slow, nothing was queued. SW_ELIMIT: nothing is queued on this
 * stream, but the user's share of unread bytes is used up by others: end it.
 */
SW_NODISCARD int sw_xchg_write(struct sw_xchg *p, struct sw_slice data);
/* Ends the stream; the exchange belongs to the front again. */
void sw_xchg_end(struct sw_xchg *p);
