/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker of the gateway: one thread with its loop, listening sockets, connections, upstream pools
 * and a view of the configuration. Workers share nothing that changes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/slice.h"
#include "base/vec.h"
#include "gateway/exchange/failure.h"
#include "gateway/worker/bind.h"
#include "io/accept.h"
#include "io/addr.h"
#include "io/crew.h"
#include "io/loop.h"

struct sw_batch;
struct sw_exchange;
struct sw_gateway;
struct sw_gw_chain;
struct sw_gw_config;
struct sw_gw_conn;
struct sw_gw_host;
struct sw_gw_hosts;
struct sw_gw_listener;
struct sw_gw_lstats;
struct sw_gw_pool;
struct sw_gw_worker;
struct sw_h1;
struct sw_json;
struct sw_metrics_shard;
struct sw_tls;

enum {
    SW_GW_RX = 256 * 1024 + 64 * 1024, /* the thread's receive buffer */
    SW_GW_TX = 23 * 17920,             /* sealed records of one write */
    SW_GW_BATCH = 64,                  /* reads or writes of one system call */
    SW_GW_SPARE_CHUNKS = 64,
    SW_GW_SPARE_EXCHANGES = 256,
    SW_GW_SPARE_PARSERS = 64,
};

/* A snapshot in use by this worker, counted without atomics: exchanges hold it, connections do not
 * (they hold their listener). */
struct sw_gw_view {
    struct sw_gw_config *config; /* a reference */
    unsigned refs;
};

static inline struct sw_gw_view *sw_gw_view_ref(struct sw_gw_view *v)
{
    v->refs++;
    return v;
}
/* Returns NULL. */
struct sw_gw_view *sw_gw_view_unref(struct sw_gw_view *v);

/*
 * Anything a client began that keeps a worker from being idle, of any protocol. Linked while it
 * lives. A drain asks each to finish; the deadline kills what is left.
 */
struct sw_gw_down {
    struct sw_list link;
    struct sw_gw_lstats *stats; /* counts it while it is linked; NULL: nobody does */
    void (*drain)(struct sw_gw_down *d);
    void (*kill)(struct sw_gw_down *d);
    /* A new view arrived; NULL: does not care. */
    void (*renew)(struct sw_gw_down *d);
    /* Closes the connection at once if it is idle; false: it is not. NULL: it never is. */
    bool (*evict)(struct sw_gw_down *d);
};

struct sw_gw_worker {
    struct sw_crew_thread thread;
    struct sw_gateway *gw;
    unsigned index; /* the thread's, like the loop */
    struct sw_loop *loop;
    struct sw_gw_view *view;   /* newest; NULL before the first */
    struct sw_gw_hosts *hosts; /* cluster.c: clusters and hosts of this worker, kept across views */
    struct sw_metrics_shard *shard;
    struct sw_map lstats;   /* of stats.c: listener -> its counters here */
    void *tcp;              /* of tcp.c */
    void *udp;              /* of udp.c */
    struct sw_list sockets; /* listening; see listen.c */
    struct sw_accept_group accept;
    struct sw_list downs; /* sw_gw_down; the idle ones in the order they became so */
    struct sw_list pools; /* upstream; see up_pool.c */
    uint64_t said_ns;     /* begin of the time 'n_said' counts in: lines about hosts of pools */
    unsigned n_said;
    struct sw_gw_failures failures; /* of requests, logged and not */
    struct sw_list exchanges;
    struct sw_list ended; /* exchanges to be freed */
    struct sw_defer reap;
    struct sw_list dirty; /* connections with staged output */
    struct sw_list soon;  /* those of them that wait for nothing more */
    unsigned n_soon;
    struct sw_gw_ahead *ahead; /* of conn_ahead.c */
    struct sw_batch *batch;    /* queued and run by one function at a time */
    struct sw_defer flush;
    size_t n_downs;
    size_t n_exchanges;
    uint8_t *rx;                        /* SW_GW_RX + 1 */
    uint8_t *tx;                        /* SW_GW_TX */
    SW_VEC(uint8_t *) chunks;           /* spare stages */
    SW_VEC(struct sw_exchange *) spare; /* spare exchanges */
    SW_VEC(struct sw_h1 *) parsers[2];  /* spare, by enum sw_h1_kind */
    struct sw_timer bind_retry;
    uint64_t bind_wait_ns;                /* before the next attempt */
    SW_VEC(struct sw_gw_unbound) unbound; /* of bind.c: sockets not opened in this pass */
    bool told_unbound;                    /* the last report had some */
    bool serves;                          /* a configuration was applied */
    uint64_t connection_seq;
    char date[32]; /* RFC 9110 date of this second */
    size_t date_n;
    uint64_t date_until_ns;
};

/* Remembers that c has staged output; it is flushed at the end of the turn at the latest. */
void sw_gw_worker_dirty(struct sw_gw_worker *w, struct sw_gw_conn *c);
/*
 * c has all it is going to get: it is flushed together with others once the callbacks in progress
 * have returned. Sending many one after the other, from a flat stack, is a good deal cheaper than
 * sending between two requests' parsing.
 */
void sw_gw_worker_soon(struct sw_gw_worker *w, struct sw_gw_conn *c);
void sw_gw_worker_flush_soon(struct sw_gw_worker *w);
/* "Sun, 06 Nov 1994 08:49:37 GMT", made once per second. */
struct sw_slice sw_gw_worker_date(struct sw_gw_worker *w);

void sw_gw_down_add(struct sw_gw_worker *w, struct sw_gw_down *d);
void sw_gw_down_remove(struct sw_gw_worker *w, struct sw_gw_down *d);
/* It became idle: of those that are it is evicted last. */
void sw_gw_down_idle(struct sw_gw_worker *w, struct sw_gw_down *d);

/*
 * A connection after accept, when its chain is known. The call that gets it takes fd; the rest is
 * borrowed for the call.
 */
struct sw_gw_accepted {
    struct sw_gw_listener *listener;
    const struct sw_gw_chain *chain; /* of the listener */
    int fd;
    struct sw_addr peer;
    struct sw_addr local;
    struct sw_slice sni; /* empty: none seen */
    struct sw_slice pre; /* bytes already read from fd: a ClientHello, if the chain has TLS */
    const struct sw_json *metadata;  /* from an internal listener; NULL: none */
    struct sw_gw_host *keep;         /* keeps the metadata alive; NULL: none */
    const struct sw_exchange *cause; /* the request it is for; NULL: not known */
};

/* tcp.c: proxies the connection as chain->tcp says; with chain->tls it runs the handshake first
 * (sw_gw_tls_accept and conn.h). */
void sw_gw_tcp_start(struct sw_gw_worker *w, const struct sw_gw_accepted *a);

/* ---- listen.c ---- */

/* After the handshake: did the client prove who it is as the chain wants it? *ret_why: for logs. */
SW_NODISCARD bool sw_gw_tls_client_ok(const struct sw_gw_chain *chain, const struct sw_tls *tls,
                                      const char **ret_why);

/* The server side of a handshake as the chain wants it, certificate chosen by SNI; NULL with err.
 */
struct sw_tls *sw_gw_tls_accept(const struct sw_gw_chain *chain, struct sw_slice sni,
                                struct sw_err *err);

/*
 * Serves a connected socket as if the listener had accepted it; for internal listeners. Takes the
 * descriptor. metadata: goes along to routing, kept alive by 'keep' (a reference is taken; both may
 * be NULL). cause: the request it is for, for the call; NULL: not known.
 */
void sw_gw_accept_fd(struct sw_gw_worker *w, struct sw_gw_listener *l, int fd,
                     const struct sw_addr *peer, const struct sw_json *metadata,
                     struct sw_gw_host *keep, const struct sw_exchange *cause);
/* Closes and opens listening sockets, those for UDP too, so that they fit the view; the worker
 * opens new ones itself (SO_REUSEPORT). fresh: the view has other listeners than before. */
void sw_gw_listen_apply(struct sw_gw_worker *w, bool fresh);
void sw_gw_listen_close(struct sw_gw_worker *w);

/* ---- up_pool.c ---- */

/* Asks for a connection to x->host; sw_exchange_up_ready or _up_failed follows, maybe from inside
 * the call. */
void sw_gw_pool_get(struct sw_exchange *x);
/* Takes x out of the queue of its pool again. Harmless when it is in none. */
void sw_gw_pool_cancel(struct sw_exchange *x);
/* The host is going (config change, shutdown): idle connections are closed, busy ones when they are
 * done; the pool frees itself. NULL is fine. The host must not use it afterwards. */
void sw_gw_pool_release(struct sw_gw_pool *p);
/* The worker drains: connections to listeners of its own are not kept for later any more. */
void sw_gw_pools_drain(struct sw_gw_worker *w);
/* The worker ends and has no exchanges any more: what still dials, or waits for its peer, is closed
 * too. The loop frees it. */
void sw_gw_pools_close(struct sw_gw_worker *w);

/* ---- life, called by the main thread ---- */
/* One more of gw's crew; sw_crew_thread_start makes it run. */
SW_NODISCARD int sw_gw_worker_init(struct sw_gw_worker *w, struct sw_gateway *gw,
                                   struct sw_err *err);
/* After sw_crew_end. */
void sw_gw_worker_done(struct sw_gw_worker *w);
/* A new snapshot; takes the reference. */
void sw_gw_worker_send_config(struct sw_gw_worker *w, struct sw_gw_config *config);
