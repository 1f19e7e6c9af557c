/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of a pod's applications to the outside, and what the files of that path share:
 * outbound.c (choosing), outbound_hbone.c, outbound_fast.c.
 */
#pragma once

#include "io/resolver.h"
#include "node/ledger.h"
#include "node/worker.h"
#include "tunnel/dial.h"
#include "tunnel/pool.h"
#include "tunnel/pump.h"
#include "tunnel/session.h"

enum {
    OUTBOUND_TRIES = 3, /* endpoints tried before giving up */
    OUTBOUND_AGAIN = 3, /* connections to the same endpoint that may end before they are of use */
    OUTBOUND_ANSWER_S = 15, /* the peer's own connect may take 10 */
};

/* Takes a connection that was redirected to 15001 for the pod. */
void sw_outbound_accept(struct sw_wpod *p, int fd, const struct sw_addr *peer);
/* As if redirected: 'dst' is where the client wants to go. socks5: it waits for a reply. */
void sw_outbound_start(struct sw_wpod *p, int fd, const struct sw_addr *peer,
                       const struct sw_addr *dst, bool socks5);

struct outbound;
struct double_hbone;

/* What is needed only until bytes flow. */
struct outbound_setup {
    struct outbound *out;
    struct sw_state *state; /* owned reference: the route points into it */
    const struct sw_workload
        *local; /* in 'state': a reload may take the pod's own away meanwhile */
    struct sw_route_outbound route;
    const struct sw_workload *tried[OUTBOUND_TRIES]; /* of 'state' */
    size_t n_tried;
    unsigned n_again;  /* connections that went away under us */
    uint64_t start_ns; /* of the attempt */
    bool unopened;     /* its record is opened when it is known who is at the end */
    bool pooled;       /* the session in use was there before; it may have been dead already */
    struct sw_lookup lookup; /* on demand */
    struct sw_dial dial;
    struct sw_pool_wait wait;
    struct sw_cred_wait cred_wait;
    struct sw_timer answer;     /* how long a peer may think about a CONNECT */
    struct sw_resolve *resolve; /* ours until it answers */
    struct sw_trace trace;
    char last_error[200];
    enum sw_response_flag last_flag;
};

/* The inbound half of a connection that never leaves the process. */
struct outbound_fast {
    struct outbound *out;
    struct sw_ledger rec;
    struct sw_guard guard;
    struct sw_route_inbound route;
    struct sw_tls_cred *cred; /* owned: whose identity the guard shows */
};

struct outbound {
    struct sw_live live;
    struct sw_ledger rec;
    int fd; /* the client's, until a pump or stream has it */
    bool socks5;
    bool done;
    struct outbound_setup *setup; /* owned */
    struct outbound_fast *fast;   /* owned */
    struct double_hbone *twice;   /* borrowed: frees itself */
    union {
        struct sw_pump pump;
        struct sw_tstream stream;
    } u;
    bool streaming; /* u.stream is in use */
    bool pumping;   /* u.pump is in use */
    struct sw_defer reap;
};

static inline struct sw_worker *outbound_worker(const struct outbound *o)
{
    return o->live.pod->worker;
}

/* outbound.c */
void outbound_finish(struct outbound *o, enum sw_response_flag flag, const char *error);
/* The attempt failed before bytes moved: another endpoint, or the end. */
void outbound_retry(struct outbound *o, enum sw_response_flag flag, const char *error);
/* The way is open: answer SOCKS, drop the set-up state. */
void outbound_established(struct outbound *o);
void outbound_pump(struct outbound *o, struct sw_dialled *dialled);
/* The inner tunnel is open: the record names whom it ends at, as the answer tells. */
void outbound_open_inner(struct outbound *o, struct sw_session *inner,
                         const struct sw_h2_head *head);
/* outbound_hbone.c */
void outbound_hbone(struct outbound *o);
extern const struct sw_tstream_ops outbound_stream_ops;
/* outbound_double.c */
void outbound_double(struct outbound *o, struct sw_session *s);
void outbound_double_abandon(struct outbound *o);
/* Sends CONNECT: to the peer, or inside a tunnel to it ('inner'). */
int outbound_connect(struct outbound *o, struct sw_session *s, struct sw_tstream *t,
                     const struct sw_tstream_ops *ops, bool inner, struct sw_err *err);
/* outbound_fast.c */
bool outbound_fast(struct outbound *o);
void outbound_fast_done(struct outbound *o, enum sw_response_flag flag, const char *error);
