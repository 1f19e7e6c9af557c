/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the device half share: qserve_conn.c (connections), qserve.c (life of an
 * exchange), qserve_dial.c (where to), qserve_request.c and qserve_http.c (requests to an origin,
 * and the answers), qserve_pool.c (connections between these), qserve_udp.c (datagrams).
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "http/capsule.h"
#include "http/h1.h"
#include "io/resolver.h"
#include "quic/quic.h"
#include "tunnel/dial.h"
#include "tunnel/qpump.h"
#include "tunnel/qserve.h"

struct sw_qserve {
    struct sw_loop *loop;
    struct sw_qserve_config c;
    struct sw_list conns;
    struct sw_list exchanges; /* all, also those whose stream is closed but not reaped */
    struct sw_qserve_stats stats;
    uint64_t overflow_logged_ns;
    struct sw_list idle; /* qserve_pool.c: connections to origins */
    size_t n_idle;
    struct sw_timer idle_sweep;
    bool draining;
};

/* An adopted connection. */
struct qs_conn {
    struct sw_list link;
    struct sw_qserve *v;
    struct sw_qconn *q;
    struct sw_map flows; /* stream id -> struct qs_exchange, UDP with datagrams */
};

enum qs_state {
    QS_HEAD,    /* reading it */
    QS_RESOLVE, /* looking the name up, connecting */
    QS_PUMP,    /* TCP or an accepted upgrade */
    QS_HTTP,    /* a request to an origin and its answer */
    QS_UDP,
    QS_REFUSED, /* an answer without a body was given; what still comes is dropped */
    QS_OVER,    /* reported; freed with the stream */
};

/* A request to an HTTP/1.1 origin. */
struct qs_exchange;

struct qs_http {
    struct qs_exchange *x;
    struct sw_watch watch;
    struct sw_defer again;
    struct sw_timer wait; /* whether a body comes */
    int fd;
    struct sw_h1 *parser; /* of the answer; owned */
    struct sw_buf out;    /* to the origin: head and framed body */
    struct sw_buf in;     /* from it */
    struct sw_buf head;   /* of the answer, to the stream */
    struct sw_slice body; /* in 'in', decoded, not in the stream yet */
    size_t body_used;     /* consumed from 'in' once body is gone */
    uint64_t want;        /* request body bytes to come (length) */
    uint64_t left;        /* answer's body, read straight into the stream */
    uint64_t moved;       /* bytes both ways, when idleness was looked for last */
    enum sw_h1_framing req;
    bool sent_head : 1; /* the request's is decided */
    bool req_end : 1;   /* the request's end was passed on */
    bool readable : 1;
    bool hup : 1;
    bool direct : 1; /* nothing left to parse */
    bool until_close : 1;
    bool upgraded : 1;
    bool no_room : 1;
    bool done : 1;
    bool reused : 1; /* the connection had a request before */
    bool heard : 1;  /* a byte came on it for this one */
    bool unsent : 1; /* the origin did not take all of the request */
    bool keep : 1;   /* the answer allows another request */
};

struct qs_udp {
    struct qs_exchange *x;
    struct sw_watch watch;
    struct sw_defer again;
    struct sw_timer idle;
    int fd;
    struct sw_capsule_reader reader;
    uint64_t active_ns;
    bool datagrams;
};

struct qs_exchange {
    struct sw_list link;
    struct sw_qserve *v;
    struct qs_conn *conn;      /* NULL once it is gone */
    struct sw_qstream *stream; /* NULL once closed */
    struct sw_nodeid peer;
    int64_t id; /* of the stream */
    enum qs_state state;
    struct sw_h1 *parser; /* owned, of the request's head */
    struct sw_buf in;
    struct sw_arena arena;
    const struct sw_h1_msg *msg; /* in the arena */
    struct sw_qhead head;        /* in the arena */
    struct sw_qserve_verdict verdict;
    struct sw_timer timer; /* head, then name lookup and connect, then draining a refused body */
    struct sw_defer reap;
    struct sw_resolve *resolve; /* under way */
    struct sw_dial dial;
    struct sw_addr to;       /* where the connection is to */
    struct sw_addr addrs[4]; /* to try */
    size_t n_addrs;
    size_t next_addr;
    uint64_t begin_ns;
    uint64_t dial_deadline_ns;
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t dropped; /* bytes that came after a refusal */
    unsigned status;
    const char *reason;
    bool fin : 1;     /* all of the peer's bytes were taken */
    bool begun : 1;   /* 'begun' was called */
    bool told : 1;    /* 'ended' was */
    bool in_data : 1; /* inside the stream's data callback */
    bool fresh : 1;   /* a connection between requests failed it: no other one */
    bool no_body : 1; /* the request was sent without a body before */
    struct sw_qpump pump;
    struct qs_http *http; /* owned */
    struct qs_udp *udp;   /* owned */
};

/* ---- qserve.c ---- */

/* A stream of a peer becomes an exchange. */
void qs_accept(struct qs_conn *c, struct sw_qstream *s);
/* Ends and frees it at once, the stream is given up. */
void qs_stop(struct qs_exchange *x);
/* May it go to an address that its host resolved to? */
bool qs_permits(const struct qs_exchange *x, const struct sw_addr *to);
/* Authorises it again; resets it if refused. */
void qs_recheck(struct qs_exchange *x);
/* Writes an answer's head; false: there was no room for it, and the stream is aborted. */
bool qs_answer(struct qs_exchange *x, struct sw_slice head);
/* Answers without a body, and ends. phrase NULL: the standard one. */
void qs_refuse(struct qs_exchange *x, unsigned status, const char *phrase, const char *reason);
/* Reports to the owner that an answer was given. */
void qs_begun(struct qs_exchange *x, unsigned status);
/* The exchange is over: counts, reports, frees. reason NULL: success. */
void qs_over(struct qs_exchange *x, const char *reason);
/* The same, giving the stream up. */
void qs_abort(struct qs_exchange *x, const char *reason);
/* Bytes that were left in the stream are wanted now. */
void qs_want_data(struct qs_exchange *x);
/* Starts the pump on the dialled socket (tcp, upgrades). */
void qs_pump(struct qs_exchange *x, struct sw_dialled *d);
void qs_pump_done(struct sw_qpump *p, int rc);

/* ---- qserve_dial.c ---- */

/* Resolves, connects, and continues with qs_connected; or refuses. */
void qs_dial(struct qs_exchange *x);
void qs_dial_cancel(struct qs_exchange *x);
/* qserve.c: the way is open (tcp, http) or known (udp, d is NULL). */
void qs_connected(struct qs_exchange *x, struct sw_dialled *d, const struct sw_addr *to);

/* ---- qserve_pool.c ---- */

/* A connection to the request's origin that waits for one; false: dial. */
bool qs_pool_take(struct qs_exchange *x, struct sw_dialled *ret, struct sw_addr *ret_to);
/* Keeps the connection of a request that is complete; false: it is the caller's still. */
bool qs_pool_put(struct qs_exchange *x, int fd, struct sw_watch *watch);
/* Closes all. */
void qs_pool_clear(struct sw_qserve *v);

/* ---- qserve_http.c ---- */

/* reused: the connection had a request before. */
void qs_http_start(struct qs_exchange *x, struct sw_dialled *d, bool reused);
/* The fields of an upgrade, in the request and in the answer. */
int qs_put_upgrade(struct sw_buf *out, struct sw_slice protocol);
/* Moves what can be moved, both ways. */
void qs_http_step(struct qs_exchange *x);
void qs_http_writable(struct qs_exchange *x);
void qs_http_free(struct qs_exchange *x, bool reset);

/* ---- qserve_request.c ---- */

/* x->http is there: sends the head once it is known whether a body follows. */
void qs_request_start(struct qs_exchange *x);
/* Bytes of the body; how many were taken. */
size_t qs_request_data(struct qs_exchange *x, const uint8_t *p, size_t n, bool fin);
/* Writes what waits for the origin. False: it did not take all, or failed. */
bool qs_request_flush(struct qs_exchange *x);

/* ---- qserve_udp.c ---- */

void qs_udp_start(struct qs_exchange *x, const struct sw_addr *to);
size_t qs_udp_data(struct qs_exchange *x, const uint8_t *p, size_t n, bool fin);
/* A QUIC datagram for this flow, without the quarter stream id. */
void qs_udp_datagram(struct qs_exchange *x, struct sw_slice datagram);
void qs_udp_free(struct qs_exchange *x);
