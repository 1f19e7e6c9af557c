/* SPDX-License-Identifier: Apache-2.0 */
/* A client's HTTP connection: what both codecs share. Only for down*.c and listen.c. */
#pragma once

#include "gateway/config/config.h"
#include "gateway/conn/worker.h"
#include "gateway/exchange/clients.h"
#include "gateway/exchange/exchange.h"
#include "http/h1.h"
#include "io/conn/conn.h"

struct down_h2;

struct down {
    struct sw_conn conn;
    struct sw_gw_down life;
    struct sw_gw_worker *worker;
    struct sw_gw_origin from;
    struct sw_gw_tls *tls; /* a reference: of the chain at the handshake; NULL: plain */
    uint64_t id;
    struct sw_timer timer; /* runs until the earliest wait might be over; see down.c */
    uint64_t since_ns;     /* begin of the current wait */
    uint64_t born_ns;
    uint32_t requests;
    bool waiting : 1;    /* no request is in progress: keep-alive, or the first one is awaited */
    bool head_begun : 1; /* some bytes of a head arrived */
    bool draining : 1;   /* no further request */
    bool late : 1;       /* its time is over, but there are bytes to be looked at */
    /* HTTP/1 */
    bool close_after : 1; /* this is the last exchange */
    bool request_done : 1;
    bool tunnel : 1;
    bool chunked : 1; /* of the response being sent */
    bool keep_alive : 1;
    bool old : 1;          /* HTTP/1.0 */
    struct sw_h1 *parser;  /* lent while a request is being received */
    struct sw_exchange *x; /* HTTP/1: the one in progress */
    struct down_h2 *h2;    /* owned; NULL: HTTP/1 */
};

/* Starts serving HTTP; takes a->fd. */
void down_start(struct sw_gw_worker *w, const struct sw_gw_accepted *a);

/* Fills in what an exchange knows of its connection. */
void down_introduce(struct down *d, struct sw_exchange *x);
/* The connection waits for a request again, or is busy from now on. */
void down_set_waiting(struct down *d, bool waiting);
/* True when no further request should be taken on this connection. */
bool down_is_last(const struct down *d);

static inline const struct sw_gw_hcm *down_hcm(const struct down *d)
{
    return &d->from.chain->hcm;
}

/* on_free of every codec. */
void down_free(struct sw_conn *c);

/* ---- down_h1.c ---- */
extern const struct sw_conn_ops down_h1_ops;
void down_h1_drain(struct down *d);
void down_h1_cleanup(struct down *d);
/* The head did not come in time: 408 where something of it came. */
void down_h1_head_late(struct down *d);

/* ---- down_h2.c ---- */
extern const struct sw_conn_ops down_h2_ops;
void down_h2_begin(struct down *d);
void down_h2_drain(struct down *d);
/* Writes a final GOAWAY; the caller closes. */
void down_h2_goaway(struct down *d);
void down_h2_cleanup(struct down *d);

static inline struct down *down_of(struct sw_conn *c)
{
    return SW_CONTAINER_OF(c, struct down, conn);
}
