/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request and its response, between a downstream and an upstream codec. The core (exchange*.c)
 * knows no wire format: codecs report what arrived, and the core calls them to send. Bytes are
 * pushed: a sink takes all it is given and reports when it is full, then the core pauses the
 * source. Everything lives on one worker thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/slice.h"
#include "gateway/message/message.h"
#include "io/addr.h"
#include "io/loop.h"

struct sw_exchange;
struct sw_conn;
struct sw_gw_view;
struct sw_gw_worker;
struct sw_json;
struct sw_tls;
struct sw_tls_peer;
/* config.h, route.h, cluster.h */
struct sw_gw_chain;
struct sw_gw_hcm;
struct sw_gw_host;
struct sw_gw_listener;
struct sw_gw_lstats;
struct sw_gw_pool;
struct sw_gw_route;
struct sw_gw_route_state;

/* ---- sides ---- */

struct sw_gw_side;

/* What a codec does for one exchange. 'send' is toward the peer of that side. */
struct sw_gw_side_ops {
    /* The head in x->req (upstream) or x->resp (downstream). */
    void (*send_head)(struct sw_exchange *x, bool end);
    void (*send_data)(struct sw_exchange *x, struct sw_slice data);
    /* With x->req.trailers or x->resp.trailers, when there are any. Tunnels: half-close. */
    void (*send_end)(struct sw_exchange *x);
    void (*flush)(struct sw_gw_side *s);
    /* True: more than it should is waiting; sw_exchange_*_drained comes later. */
    bool (*blocked)(const struct sw_gw_side *s);
    /* Back-pressure on what comes from this side. */
    void (*pause)(struct sw_gw_side *s);
    void (*resume)(struct sw_gw_side *s);
    /* Ends this side's part early: reset the stream or close the connection. Detaches. */
    void (*abort)(struct sw_exchange *x);
    /* The exchange is complete; the connection may be used again. Detaches. */
    void (*done)(struct sw_exchange *x);
    /* Downstream only: 100 Continue, or another one with the fields in x->info. */
    void (*send_info)(struct sw_exchange *x, int status);
};

struct sw_gw_side {
    const struct sw_gw_side_ops *ops; /* NULL: detached */
    void *stream;                     /* the codec's own */
    struct sw_conn *conn;             /* of a codec that has it for itself; NULL: shared, or none */
    bool head_sent : 1;
    bool end_sent : 1; /* we finished sending to this side */
    bool head_got : 1;
    bool end_got : 1; /* this side finished sending to us */
    bool paused : 1;
    bool tunnel : 1;
};

enum sw_gw_outcome {                       /* how an attempt at an upstream ended */
                     SW_GW_OK,             /* a response was passed on completely */
                     SW_GW_CONNECT_FAILED, /* no connection (refused, timed out): nothing was sent
                                            */
                     SW_GW_TLS_FAILED,     /* handshake failed: nothing was sent */
                     SW_GW_UNSENT, /* a connection that had served before ended before a byte of the
                                      request was written */
                     SW_GW_STALE, /* ... before a byte of the answer came: maybe it was idle for too
                                     long, maybe its server acted and broke */
                     SW_GW_RESET_BEFORE,    /* connection or stream ended before a response head */
                     SW_GW_RESET_AFTER,     /* and after it */
                     SW_GW_REFUSED_STREAM,  /* HTTP/2: certainly not processed */
                     SW_GW_BAD_RESPONSE,    /* the upstream broke the protocol */
                     SW_GW_TIMEOUT,         /* per try or whole request */
                     SW_GW_OVERFLOW,        /* a circuit breaker: the host was not tried */
                     SW_GW_STATUS,          /* a response head; should_retry looks at the status */
                     SW_GW_DOWNSTREAM_GONE, /* the client left, or we gave up: no verdict */
};

/* ---- the exchange ---- */

enum { SW_GW_INFOS_MAX = 8 }; /* interim responses passed on for one exchange */

enum sw_gw_xstate {
    SW_GW_X_ROUTE,   /* head arrived */
    SW_GW_X_CONNECT, /* waits for a connection */
    SW_GW_X_SEND,    /* request is on its way, no response head yet */
    SW_GW_X_BACKOFF, /* waits before the next attempt */
    SW_GW_X_ANSWER,  /* response head was sent downstream */
    SW_GW_X_DONE,
};

/* Filled by sw_gw_route_request for the core; zeroes are safe defaults. */
struct sw_gw_plan {
    uint64_t timeout_ns;       /* request received until response complete; 0: none */
    uint64_t idle_timeout_ns;  /* no byte either way; 0: none */
    uint64_t max_stream_ns;    /* head received until everything is over; 0: none */
    uint64_t try_timeout_ns;   /* one attempt until its response head; 0: none */
    bool retries;              /* a retry policy applies: keep the body while it fits */
    bool idempotent;           /* it may be done twice whatever its method */
    bool upgrade;              /* x->req.upgrade (or CONNECT) may pass; otherwise it is ignored */
    bool connect_terminate;    /* CONNECT ends here: raw bytes to the upstream */
    struct sw_slice authority; /* as to be sent upstream; p == NULL: as it came */
    struct sw_slice path;      /* as to be sent upstream; p == NULL: as it came */
    uint32_t hold;             /* bytes of the body that a waiting filter wants to see */
};

struct sw_exchange {
    struct sw_gw_worker *worker;
    struct sw_gw_view *view; /* the snapshot this request uses; counted */
    struct sw_arena arena;
    struct sw_gw_side down;
    struct sw_gw_side up;
    struct sw_gw_request req;
    struct sw_gw_response resp;
    struct sw_gw_fields info; /* of the interim response being passed on */

    struct {                             /* where it came from; lives as long as the exchange */
        struct sw_gw_listener *listener; /* a reference */
        const struct sw_gw_chain *chain; /* of the listener */
        struct sw_gw_lstats *stats;      /* of the listener; NULL: not counted as a request */
        struct sw_addr peer;             /* of the downstream connection */
        struct sw_addr local;
        uint64_t connection_id;
        struct sw_slice sni; /* empty: none */
        bool tls;
        const char *cipher;               /* static, NULL: no TLS */
        const struct sw_tls_peer *client; /* a reference; NULL: not authenticated */
        const struct sw_json *metadata;   /* from an internal listener; NULL: none */
    } from;

    const struct sw_gw_hcm *hcm; /* of from.chain; NULL: a mirror, or made here */
    struct sw_gw_plan plan;

    /* Owned by route.c, filter.c and cluster.c. */
    const struct sw_gw_route *route;
    struct sw_gw_route_state *rs; /* in the arena */
    struct sw_gw_host *host;      /* of the current attempt, a reference; NULL: none */
    struct sw_gw_copies *copies;  /* mirrors of this request, exchange_mirror.c; NULL: none */
    struct sw_gzip_stream *gzip;  /* of the answer, filter/gzip.c; NULL: it goes as it is */

    /* Facts for logs. */
    struct {
        uint64_t start_ns;      /* loop time when the head was complete */
        uint64_t start_wall_ns; /* 0: not needed yet */
        uint64_t request_ns;    /* the request was received whole; 0: not yet */
        uint64_t response_ns;   /* response head arrived; 0: not yet */
    } times;
    uint64_t rx_bytes; /* request body */
    uint64_t tx_bytes; /* response body */
    uint32_t flags;    /* enum sw_gw_flag */
    uint16_t attempts;
    uint8_t infos;      /* interim responses passed on */
    uint8_t failovers;  /* hosts that could not be connected to and were followed by another */
    const char *detail; /* why a local reply was made; static text, NULL: none */
    char failure[96];   /* upstream transport failure, for people */

    /* The core's own. */
    uint8_t state;         /* enum sw_gw_xstate */
    bool body_lost : 1;    /* more than 'kept' may hold was passed on */
    bool repeated : 1;     /* once, without a retry policy */
    bool sending_kept : 1; /* what is being sent was not received just now */
    bool mirror : 1;       /* a shadow request: its response is discarded */
    bool continued : 1;    /* 100 was sent, before the route was */
    struct sw_gw_kept {
        uint8_t *p; /* owned */
        uint32_t n;
        uint32_t cap;
    } kept; /* request body, for retries or until there is a connection */
    struct {
        struct sw_timer timer; /* the earliest of the next five */
        uint64_t deadline_ns;  /* whole request; 0: none */
        uint64_t try_deadline_ns;
        uint64_t stream_deadline_ns; /* of the attempt, its answer included */
        uint64_t retry_at_ns;
        uint64_t idle_ns;   /* 0: no limit */
        uint64_t active_ns; /* last byte either way */
    } clock;
    struct sw_list link;  /* worker->exchanges, then worker->ended */
    struct sw_list queue; /* of the pool, while it waits */
    struct sw_gw_pool *pool;
};

/* ---- codecs call the core ---- */

/* A fresh exchange from the worker's pool, with its arena empty. */
struct sw_exchange *sw_exchange_new(struct sw_gw_worker *w);
/* One without a client, made for x: its cluster is set, its request and its side are not. */
struct sw_exchange *sw_exchange_new_inner(const struct sw_exchange *x, struct sw_slice cluster);
/* Frees those that ended; only from where no exchange is being worked on. The loop does it too. */
void sw_exchange_reap(struct sw_gw_worker *w);
/* The client's TLS state, since its connection may be gone before the exchange is. NULL: no TLS. */
void sw_exchange_meet(struct sw_exchange *x, const struct sw_tls *tls);
/* Gives one back that was never started. */
void sw_exchange_discard(struct sw_exchange *x);
/* The downstream codec has filled req, listener, chain, peer ...: cleans the head, routes it and
 * continues. 'end': no body follows. The exchange may be over when this returns (freed later). */
void sw_exchange_start(struct sw_exchange *x, bool end);
void sw_exchange_down_data(struct sw_exchange *x, struct sw_slice data);
/* req.trailers may have been filled. */
void sw_exchange_down_end(struct sw_exchange *x);
/* The client is gone, or broke the protocol. The codec has detached already. */
void sw_exchange_down_gone(struct sw_exchange *x);
/* blocked() was true and is not any more. */
void sw_exchange_down_drained(struct sw_exchange *x);

/* The pool found or made a connection: x->up is attached. */
void sw_exchange_up_ready(struct sw_exchange *x);
/* An interim response other than 101; x->info is filled. */
void sw_exchange_up_info(struct sw_exchange *x, int status);
/* x->resp is filled. */
void sw_exchange_up_head(struct sw_exchange *x, bool end);
void sw_exchange_up_data(struct sw_exchange *x, struct sw_slice data);
void sw_exchange_up_end(struct sw_exchange *x);
/* The attempt failed; the codec has detached already. why: for logs, may be NULL. */
void sw_exchange_up_failed(struct sw_exchange *x, enum sw_gw_outcome how, const char *why);
void sw_exchange_up_drained(struct sw_exchange *x);

/* ---- any caller ---- */

/*
 * Answers here instead of asking an upstream (or after that failed before a response head was
 * sent). x->resp.fields may hold fields to send; body is copied. gRPC requests get trailers-only
 * answers with the mapped grpc-status. After the head was sent: aborts both sides.
 */
void sw_exchange_reply(struct sw_exchange *x, int status, struct sw_slice body, const char *detail);
/* Instead of sw_exchange_start: the head itself is refused, nothing of it is looked at. */
void sw_exchange_refuse(struct sw_exchange *x, int status, const char *detail);
/* Ends it at once, without an answer where none was begun. */
void sw_exchange_kill(struct sw_exchange *x);
/*
 * Whether it may be done twice: as if it was done once, then (RFC 9110 9.2.2). A tunnel carries
 * nothing before its answer.
 */
bool sw_exchange_repeatable(const struct sw_exchange *x);
/* Wall clock when it started. */
uint64_t sw_exchange_start_wall(struct sw_exchange *x);

enum { SW_GW_REPLIED = -51 }; /* a result beside those of base/err.h */

/* The filter that waited is done (sw_gw_calls.route gave SW_EPENDING): the exchange continues. */
void sw_exchange_continue(struct sw_exchange *x);

/* Sends copies of a request that is about to be forwarded, by its route (exchange_mirror.c). */
void sw_gw_mirror_start(struct sw_exchange *x);
