/* SPDX-License-Identifier: Apache-2.0 */
/* What the front's files share. Not for others. */
#pragma once

#include "apiserver/front/front.h"
#include "base/list.h"
#include "base/map.h"
#include "base/round.h"
#include "http/h1.h"
#include "http/h2.h"
#include "io/accept.h"
#include "io/conn/conn.h"
#include "io/loop.h"
#include "tls/tls.h"

enum {
    FRONT_H1_HEAD = 64 * 1024,
    FRONT_H2_WINDOW = 256 * 1024,
    FRONT_H2_STREAMS = 250,
    FRONT_DISCARD = 64 << 20, /* of a body that is too large, before we hang up */
    FRONT_TINY = 4 * 1024,    /* answers and items that are queued above a user's share */
    FRONT_SMALL = 64 * 1024,  /* answers that are given however much is unread */
    FRONT_BUSY_STREAMS = 32,  /* connections with more are served in what busy ones get */
    FRONT_HANDSHAKES = 4,     /* steps of handshakes in one turn of the loop */
};

struct front_conn;

/* What one user or one address holds. Counted by connections and exchanges. */
struct front_share {
    struct sw_map *in; /* where it is found */
    size_t refs;
    size_t conns;
    size_t out;              /* bytes of answers not taken yet; users only */
    size_t bodies;           /* bytes of requests being read */
    bool first;              /* users only */
    struct sw_round waiting; /* connections whose next step waits */
    uint64_t turn_ns;        /* the turn of the loop in which spent_ns was spent */
    uint64_t spent_ns;
    size_t n;
    char key[];
};

enum xchg_state {
    XCHG_READ,   /* the body is coming */
    XCHG_HANDLE, /* the handler has it */
    XCHG_STREAM, /* the handler is writing */
    XCHG_FLUSH,  /* the whole answer is queued */
    XCHG_DONE,   /* sent or lost */
};

/* One exchange with what the front keeps about it. */
struct front_xchg {
    struct sw_xchg pub;
    struct sw_list link; /* in its connection, or in the front's list of orphans */
    struct sw_front *front;
    struct front_conn *conn; /* NULL: the client is gone */
    enum xchg_state state;
    int32_t id; /* HTTP/2 stream */
    struct sw_buf body;
    struct sw_buf out;         /* head (HTTP/1) and body of the answer */
    struct front_share *user;  /* counted; NULL: unknown */
    struct front_share *payer; /* counted: whose share has its body while it is read */
    struct sw_list unread;     /* in front.unread while something is queued */
    uint64_t moved_ns;         /* when the queue last became shorter, or began */
    size_t out_accounted;
    size_t body_accounted;
    uint64_t discarded;
    struct sw_buf fields; /* of the answer: pairs of NUL-terminated texts */
    const struct sw_xchg_stream_ops *ops;
    bool end; /* nothing follows what is in out */
    bool head_only;
    bool chunked;
    bool close_after;
    bool want_drain;
    bool responded; /* HTTP/2: the head was given to the engine */
    bool stuck;     /* HTTP/2: had bytes when there was no room for a frame */
    bool sent_all;  /* HTTP/2: the last DATA frame is out, though the request may continue */
    uint64_t since_ns;
};

enum conn_state {
    CONN_HANDSHAKE,
    CONN_OPEN,
    CONN_LINGER, /* all sent: io waits until it is read */
    CONN_DEAD,
};

struct front_conn {
    struct sw_conn io;
    struct sw_list link;
    struct sw_front *front;
    enum conn_state state;
    struct sw_timer timer;
    struct sw_defer again;
    struct sw_h1 *h1;
    struct sw_h2 *h2;
    struct sw_list xchgs;
    struct sw_addr peer;
    struct front_share *place; /* counted: its address */
    struct front_share *user;  /* counted: the authenticated user; NULL: none yet */
    struct sw_list queued;     /* in front.greeting or a share's waiting: its next step waits */
    uint64_t active_ns;        /* when it last did something */
    size_t nxchgs;
    uint64_t begin_ns; /* of what it does in its turn */
    bool in_step;
    bool eof;
    bool broken; /* close without ceremony */
    bool goaway;
    bool feeding; /* HTTP/2: streams that end now are ended by the peer */
    bool stuck;   /* HTTP/2: an exchange is */
};

struct sw_front {
    struct sw_loop *loop;
    struct sw_front_opts opts;
    struct sw_accept_group accept;
    struct sw_list conns;
    struct sw_list dead;
    struct sw_list orphans; /* exchanges whose client went before the handler answered */
    struct sw_map users;    /* struct front_share */
    struct sw_map places;   /* struct front_share */
    struct sw_list unread; /* exchanges with queued bytes, the one longest without progress first */
    struct sw_list handshakes; /* connections whose handshake waits */
    struct sw_defer handshakes_defer;
    struct sw_list busy; /* shares with connections that wait: they take turns */
    struct sw_defer busy_defer;
    uint64_t busy_turn_ns; /* the turn in which some of them were served last */
    struct sw_timer unread_timer;
    uint64_t handshake_until_ns; /* the turn in which handshakes were counted */
    unsigned n_handshakes;
    uint64_t quiet_until_ns; /* the last shortage was logged */
    struct sw_front_stats counts;
    size_t nconns;
    size_t out_total;
    size_t body_total;
    bool stopping;
    struct sw_timer stop_timer;
    struct sw_defer stop_defer;
    void (*on_done)(void *arg);
    void *done_arg;
};

static inline struct front_xchg *front_xchg_of(struct sw_xchg *x)
{
    return SW_CONTAINER_OF(x, struct front_xchg, pub);
}

/* --- front.c --- */
/* The last connection may have gone while stopping. */
void front_maybe_stopped(struct sw_front *f);

/* --- front_conn.c: connections --- */
/* Takes over a connected descriptor. */
void front_conn_open(struct sw_front *f, int fd, const struct sw_addr *peer);
/* Ends it: exchanges get their callbacks, the memory is freed from the loop. */
void front_conn_close(struct front_conn *c);
void front_conn_free(struct front_conn *c);
/* Nothing under way: may be closed without failing a request. */
bool front_conn_idle(const struct front_conn *c);
/* Something happened outside the connection's own step: continue from the loop. */
void front_wake(struct front_conn *c);

/* --- front_share.c: shares --- */
void front_share_open(struct front_conn *c);
void front_share_close(struct front_conn *c);
void front_share_leave(struct front_xchg *x);
/* Makes room for one more connection; false: there is none. */
bool front_share_room(struct sw_front *f, const struct sw_addr *peer);
bool front_share_make_room(struct sw_accept_group *g);
/* Time of this turn of the loop that the connection's user took; of its address before that. */
void front_share_spend(struct front_conn *c, uint64_t ns);
uint64_t front_share_spent(const struct front_conn *c);
/* Its next step comes when its user's turn does. */
void front_share_wait(struct front_conn *c);
/* Takes the connection out of the queue whose turn it is; NULL: none waits. */
struct front_conn *front_share_next(struct sw_front *f);
/* True when so many more bytes of an answer may wait for their reader. */
bool front_share_fits(const struct front_xchg *x, size_t n);
/* True when so many more bytes of its body may be kept. */
bool front_share_body_fits(struct front_xchg *x, size_t n);
/* The body was read. */
void front_share_body_read(struct front_xchg *x);
/* True when a shortage may be logged: once a minute. */
bool front_share_log(struct sw_front *f);
/* The queue has 'out' bytes now. */
void front_share_account(struct front_xchg *x, size_t out);

/* --- front_resp.c: exchanges --- */
struct front_xchg *front_xchg_new(struct front_conn *c);
/* Keeps the server-wide totals right after out or body changed. */
void front_xchg_account(struct front_xchg *x);
/* Appends received body bytes; beyond the limits they are only counted. False: hang up. */
bool front_xchg_take_body(struct front_xchg *x, struct sw_slice data);
/* Announced beyond the limit: dispatched at once, as too large. False: not so. */
bool front_xchg_refuse_length(struct front_xchg *x, uint64_t length);
/* The request is complete: calls the handler. */
void front_xchg_dispatch(struct front_xchg *x);
/* The client is gone or the answer is out; frees when the handler is done with it too. */
void front_xchg_release(struct front_xchg *x);
/* Bytes left the queue: tells a stream that waits for room. */
void front_xchg_drained(struct front_xchg *x);

/* --- front_h1.c --- */
/* Parses. SW_OK: continue, SW_EAGAIN: needs bytes or the answer first. */
int front_h1_step(struct front_conn *c, struct sw_slice in, size_t *ret_used);
/* Writes the head of an answer; length < 0: unknown. */
void front_h1_head(struct front_xchg *x, int status, const char *content_type, int64_t length);
void front_h1_chunk(struct front_xchg *x, struct sw_slice data);
void front_h1_finish(struct front_xchg *x);

/* --- front_h2.c --- */
void front_h2_start(struct front_conn *c);
int front_h2_feed(struct front_conn *c, struct sw_slice in);
void front_h2_head(struct front_xchg *x, int status, const char *content_type, int64_t length);
