/* SPDX-License-Identifier: Apache-2.0 */
/* What the client's two files share. Not for others. */
#pragma once

#include "base/buf.h"
#include "http/client.h"
#include "io/addr.h"
#include "io/conn/conn.h"
#include "io/resolver.h"

enum hc_state {
    HC_RESOLVE,
    HC_CONNECT, /* and the handshake */
    HC_OPEN,
    HC_DEAD,
};

struct hc_conn {
    struct sw_conn io;
    struct sw_list link; /* in the client */
    struct sw_http_client *client;
    enum hc_state state;
    struct sw_timer timer;      /* until open: the deadline; idle: how long to keep it */
    struct sw_defer reap;       /* frees it where io's on_free does not */
    struct sw_resolve *resolve; /* under way */
    struct sw_addr addrs[SW_RESOLVE_MAX];
    size_t n_addrs;
    size_t at_addr;
    struct sw_h1 *h1;
    struct sw_http_call *call;
    size_t body_off; /* of the request's body: given to io */
    unsigned cred_gen;
    bool dialled;   /* io is in use: its on_free will come */
    bool reused;    /* carried a call before */
    bool got_bytes; /* of the answer to the current call */
};

struct sw_http_call {
    struct sw_list link; /* waiting in the client, or unlinked */
    struct sw_http_client *client;
    struct hc_conn *conn;       /* NULL while waiting and when over */
    struct sw_http_call_opts o; /* slices point into head */
    struct sw_buf head;         /* the request's head */
    struct sw_buf body;
    struct sw_timer timer;
    struct sw_defer reap;
    uint64_t body_seen;
    bool idempotent;
    bool answers_head;
    bool retried;
    bool sent;
    bool paused;
    bool in_body; /* the head of the answer was delivered */
    bool keep_alive;
    bool over;
};

struct sw_http_client {
    struct sw_loop *loop;
    struct sw_http_client_opts o; /* slices owned below */
    char *host;
    char *tls_name;
    const char *sni; /* NULL for an address */
    char *authority; /* for Host */
    struct sw_tls_cred *cred;
    unsigned cred_gen;
    struct sw_list conns;
    size_t n_conns;
    size_t n_streams;       /* of these, carrying a stream */
    struct sw_list waiting; /* calls without a connection */
    size_t n_waiting;
    struct sw_list zombies; /* of either kind: waiting to be freed */
    struct sw_defer dispatch;
    bool closing;
};

/* client.c */
/* Ends the call with a verdict: on_done, then it is freed by the loop. */
void hc_call_finish(struct sw_http_call *call, int rc, const struct sw_err *err);
/* The answer is complete. */
void hc_call_answered(struct hc_conn *c);
/* The connection broke under its call: tried again where that is safe, else finished. */
void hc_call_broken(struct hc_conn *c, int rc, const struct sw_err *err);
void hc_call_rearm(struct sw_http_call *call);
void hc_dispatch_later(struct sw_http_client *cl);

/* client_conn.c */
/* A new connection for a call. */
void hc_conn_open(struct sw_http_client *cl, struct sw_http_call *call);
/* Gives an idle connection a call. */
void hc_conn_use(struct hc_conn *c, struct sw_http_call *call);
/* Closes it; memory goes with the loop's next turn. The call, if any, is the caller's business. */
void hc_conn_close(struct hc_conn *c);
/* Its call was answered: waits for the next one. */
void hc_conn_rest(struct hc_conn *c);
/* Stops reading the answer, and continues. */
void hc_conn_pause(struct hc_conn *c, bool pause);
/* A part of the request did not leave yet. */
bool hc_conn_unsent(const struct hc_conn *c, const struct sw_http_call *call);
/* At the end of the client: at once. */
void hc_conn_free(struct hc_conn *c);
