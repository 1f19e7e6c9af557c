/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the client half share: qdial.c (connections), qdial_apart.c (those that new
 * calls do not use any more), qdial_fail.c (those that failed a moment ago), qdial_call.c (one
 * exchange).
 */
#pragma once

#include "base/map.h"
#include "tunnel/qdial.h"

enum qnode_state {
    QNODE_NEW,    /* begins with the next turn */
    QNODE_LOOKUP, /* asking where it is */
    QNODE_DIAL,
    QNODE_READY,
    QNODE_CLOSING, /* we closed it, its end is still to come */
};

/* An answer to 'where is it' that is still to come. */
struct sw_qlookup {
    struct sw_qnode *node;
    void *data; /* the resolver's */
};

struct sw_qnode {
    struct sw_list link;       /* in sw_qdial.all */
    struct sw_list idle_link;  /* in sw_qdial.idle, oldest first */
    struct sw_list apart_link; /* in sw_qdial.apart: closed with its last call */
    struct sw_qdial *d;
    struct sw_nodeid id;
    enum qnode_state state;
    struct sw_qlookup *lookup; /* owned, while under way */
    struct sw_qconn *conn;
    struct sw_list waiting; /* calls without a stream */
    struct sw_list open;    /* calls with one */
    struct sw_map flows;    /* stream id -> call, those with datagrams */
    size_t n_calls;
    struct sw_timer timer; /* lookup and dial together, then idleness, or how long it is full */
    uint64_t silent_ns;    /* since when it is set apart for silence; 0: it is not */
    struct sw_defer wake;
    struct sw_defer reap;
    enum sw_qfail fail; /* why we ended a dial */
    bool full;          /* the peer allows no more streams now */
    bool was_idle;
    bool hurry; /* its last connection went silent: a dial gets less time */
};

/* A node that did not answer a moment ago. */
struct qnode_failure {
    struct sw_list link; /* oldest first */
    struct sw_nodeid id;
    uint64_t until_ns;
};

enum { QNODE_FAILURES_MAX = 1024 };

struct sw_qdial {
    struct sw_loop *loop;
    struct sw_qdial_config c;
    struct sw_map nodes; /* by id, those that new calls may use */
    struct sw_list all;
    struct sw_list idle;
    struct sw_list apart;
    size_t n_apart;
    struct sw_map failures; /* by id */
    struct sw_list failed;  /* the same, in order */
    size_t n_calls;
    size_t n_conns;
    bool draining;
};

static inline struct sw_slice qnode_key(const struct sw_nodeid *id)
{
    return sw_slice(id->b, sizeof(id->b));
}

/* ---- qdial.c ---- */

/* The node, made when there is none that new calls may use; NULL: too many. */
struct sw_qnode *qnode_get(struct sw_qdial *d, const struct sw_nodeid *id);
/* A call joins the ones that wait; SW_ELIMIT. */
int qnode_join(struct sw_qnode *n, struct sw_qcall *c);
/* A call leaves, whatever list it is in. */
void qnode_leave(struct sw_qcall *c);
/* Takes it out of all tables: new calls make a new one. */
void qnode_retire(struct sw_qnode *n);
/* Opens streams for calls that wait, in the next turn. */
void qnode_wake(struct sw_qnode *n);
/* Nothing uses it and nothing will. */
void qnode_close(struct sw_qnode *n, const char *reason);
/* Datagrams with the stream id of this call are for it. */
void qnode_add_flow(struct sw_qcall *c);

/* ---- qdial_apart.c ---- */

/* True: no packet arrived on the connection of this call for a while. It is set apart then. */
bool qnode_silent(struct sw_qcall *c);
/* The same of one that a new call is about to use. */
bool qnode_stale(struct sw_qnode *n);
/* The node did not answer: other calls get a new connection, what runs on this one continues. */
void qnode_suspect(struct sw_qcall *c);
/* The peer allows no more streams: after a while those that wait get another connection. */
void qnode_full(struct sw_qnode *n);
/* One that was set apart for silence and recovered, for new calls; NULL: none. */
struct sw_qnode *qnode_recover(struct sw_qdial *d, const struct sw_nodeid *id);
/* True: one of this node went silent. */
bool qnode_any_silent(const struct sw_qdial *d, const struct sw_nodeid *id);
/* Calls that wait for a stream of one wait for one of the other. */
void qnode_move_waiting(struct sw_qnode *from, struct sw_qnode *to);

/* ---- qdial_fail.c ---- */

/* True: a call to this node would wait in vain. */
bool qnode_failed_lately(struct sw_qdial *d, const struct sw_nodeid *id);
/* This node did not answer: calls in the next moments fail at once. */
void qnode_remember_failure(struct sw_qdial *d, const struct sw_nodeid *id);
/* Forgets that it did not, and frees f. */
void qnode_drop_failure(struct sw_qdial *d, struct qnode_failure *f);

/* ---- qdial_call.c ---- */

/* Opens the stream of a waiting call: SW_OK, SW_ELIMIT (later), SW_ECLOSED. */
int qcall_open(struct sw_qcall *c);
/* The call waits for the dial and then for a stream. */
void qcall_wait_dial(struct sw_qcall *c);
/*
 * A connection to the node is ready: the call waits only for a stream. No effect on a call that
 * did so already, because a further connection does not prolong the wait.
 */
void qcall_wait_stream(struct sw_qcall *c);
/* Ends it. */
void qcall_fail(struct sw_qcall *c, enum sw_qfail why, const char *text);
