/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of HTTP/1.1 from the gateway share: the connection. Not for others. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "io/conn/conn.h"
#include "sidecar/sidecar_int.h"
#include "tunnel/qpump.h"

enum {
    H1_CHUNK = 32 * 1024, /* of an answer's body, at most */
    H1_OUT_MAX = 2 * SW_QHEAD_MAX + H1_CHUNK + 1024,
};

enum h1_state {
    H1_IDLE,      /* between requests, or reading a head */
    H1_CALL,      /* a request is under way */
    H1_EARLY,     /* a tunnel stands; what came with its head leaves first */
    H1_TUNNEL,    /* the pump has the socket */
    H1_UDP,       /* capsules here, datagrams there */
    H1_LINGERING, /* io lingers */
    H1_DEAD,
};

struct h1c {
    struct sw_conn io; /* closed once the pump has the socket */
    struct sw_list link;
    struct sw_sidecar *s;
    enum side_source source;
    enum h1_state state;
    struct sw_timer timer;
    struct sw_defer again;
    struct sw_defer reap;
    struct sw_h1 *parser;
    struct sw_buf out;     /* not io's yet */
    struct sw_arena arena; /* of the request */
    struct side_out req;
    struct side_log log;
    struct sw_qcall call;
    struct sw_qpump pump;
    struct sw_capsule_reader capsules;
    size_t body_left;  /* of the request, parsed and not passed on yet */
    size_t body_gap;   /* bytes behind it that are parsed, too */
    uint64_t left;     /* of the answer, when its length is known */
    bool eof : 1;      /* the client sends no more */
    bool req_done : 1; /* all of the request was passed on */
    bool answered : 1;
    bool chunked : 1; /* the answer, toward the client */
    bool length : 1;
    bool no_body : 1;
    bool keep : 1;       /* the connection may carry another request */
    bool minor1 : 1;     /* HTTP/1.1 */
    bool blocked : 1;    /* the client does not take the answer */
    bool open : 1;       /* the books of a request are */
    bool data_waits : 1; /* the stream had bytes during H1_EARLY */
    bool fin_waits : 1;  /* its end came then, without any */
};

/* ---- down_h1.c ---- */
/* The end of the connection: books, call, pump, socket. The struct goes from the loop. */
void side_h1_kill(struct h1c *c, bool reset, const char *reason);
/* The request is over; reason as in side_end. No effect when none is open. */
void side_h1_close_books(struct h1c *c, const char *reason);
/* Gives 'out' to io. False: on_drained comes first. */
bool side_h1_flush(struct h1c *c);
/* The connection's timer: too long. */
void side_h1_on_timer(struct sw_timer *t);
/* Continues with what was sent and not taken yet, from the loop. */
void side_h1_continue(struct h1c *c);
/* Nothing more is read from this connection; queued output still leaves. */
void side_h1_close_lingering(struct h1c *c);
/* Ready for another request, or closes where there may be none. */
void side_h1_next_request(struct h1c *c);
/* An answer of our own into 'out'; the connection is dead where it does not fit. */
void side_h1_put_error(struct h1c *c, unsigned status, const char *reason, const char *proxy_error,
                       const char *text);

/* ---- down_h1_answer.c ---- */
/* H1_EARLY: starts the pump once all that came with the head is with the stream. Not from a
 * callback of io. */
void side_h1_step_early(struct h1c *c);
extern const struct sw_qcall_ops side_h1_call_ops;
