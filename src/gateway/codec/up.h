/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to upstream hosts: what pool and codecs share. Only for up*.c. */
#pragma once

#include "gateway/config/tls.h"
#include "gateway/conn/worker.h"
#include "gateway/exchange/exchange.h"
#include "gateway/upstream/host.h"
#include "http/h1.h"
#include "io/conn/conn.h"

struct up_h2;

enum up_state {
    UP_DIALLING,
    UP_IDLE, /* HTTP/1: in pool->idle */
    UP_BUSY, /* HTTP/1: has x; HTTP/2: open, in pool->h2 */
    UP_GONE, /* closed, or takes no more exchanges */
};

struct up_conn {
    struct sw_conn conn;
    struct sw_list link;     /* in the list of the pool that belongs to the state */
    struct sw_gw_pool *pool; /* counted by the pool */
    uint8_t state;           /* enum up_state */
    bool served : 1;         /* had an exchange before the current one */
    bool got_bytes : 1;      /* of the current answer */
    bool keep_alive : 1;
    bool tunnel : 1;
    bool chunked : 1; /* of the request being sent */
    uint32_t requests;
    uint64_t since_ns; /* idle since; HTTP/2: the last stream ended, or it connected */
    uint64_t born_ns;  /* connected since */
    /* HTTP/1 */
    struct sw_h1 *parser; /* lent while an answer is being received */
    struct sw_exchange *x;
    /* HTTP/2 */
    struct up_h2 *h2; /* owned */
};

struct sw_gw_pool {
    struct sw_gw_worker *worker;
    struct sw_list link;           /* in worker->pools */
    struct sw_gw_pool *next;       /* of the same host, for another server name or protocol */
    char *name;                    /* owned: the server name; NULL: none */
    struct sw_gw_tls_want want;    /* with TLS */
    struct sw_gw_host *host;       /* NULL once released */
    struct sw_gw_cluster *cluster; /* a reference: settings */
    struct sw_addr addr;
    struct sw_list idle;   /* up_conn, HTTP/1, used last first */
    struct sw_list busy;   /* up_conn, all others */
    struct sw_list queue;  /* exchanges that wait, x->queue */
    struct sw_timer sweep; /* closes what is idle or open too long */
    uint64_t logged_ns;    /* when its trouble was logged last */
    uint32_t n_conns;
    uint32_t n_dialling;
    uint32_t n_queue;
    enum sw_gw_up_protocol protocol; /* of the cluster, or that of its requests */
    bool h2;     /* the host speaks HTTP/2: configured, or negotiated by ALPN in the last dial */
    bool inside; /* the host is an internal listener */
    bool released;
    bool held; /* a caller up the stack still uses it */
};

/* ---- up_pool.c ---- */

/*
 * HTTP/1: the exchange ended; the connection returns to the pool, serves the next queued exchange,
 * or is closed.
 */
void up_free_again(struct up_conn *u);
/* The connection is no longer of use; the codec has detached its exchanges. */
void up_gone(struct up_conn *u, bool reset);
/* HTTP/2: streams were freed, or SETTINGS allow more: serve the queue. It may be closed then. */
void up_more_room(struct up_conn *u);

static inline struct up_conn *up_of(struct sw_conn *c)
{
    return SW_CONTAINER_OF(c, struct up_conn, conn);
}

/* ---- up_h1.c ---- */
extern const struct sw_conn_ops up_h1_ops;
void up_h1_attach(struct up_conn *u, struct sw_exchange *x);
void up_h1_cleanup(struct up_conn *u);

/* ---- up_h2.c ---- */
extern const struct sw_conn_ops up_h2_ops;
void up_h2_begin(struct up_conn *u);
/* False: no stream can be opened on it now. */
bool up_h2_has_room(const struct up_conn *u);
/* HTTP/2, and no stream is open. */
bool up_h2_is_idle(const struct up_conn *u);
void up_h2_attach(struct up_conn *u, struct sw_exchange *x);
void up_h2_cleanup(struct up_conn *u);
/* No new streams; closes when the last one ended. */
void up_h2_drain(struct up_conn *u);

/* on_free of every codec. */
void up_free(struct sw_conn *c);
