/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the client half share: qdial.c (connections), qdial_fail.c (those that failed a
 * moment ago), qcall.c (one exchange).
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
    struct sw_list link;      /* in sw_qdial.all */
    struct sw_list idle_link; /* in sw_qdial.idle, oldest first */
    struct sw_qdial *d;
    struct sw_nodeid id;
    enum qnode_state state;
    struct sw_qlookup *lookup; /* owned, while under way */
    struct sw_qconn *conn;
    struct sw_list waiting; /* calls without a stream */
    struct sw_list open;    /* calls with one */
    struct sw_map flows;    /* stream id -> call, those with datagrams */
    size_t n_calls;
    struct sw_timer timer; /* lookup and dial together, then idleness */
    struct sw_defer kick;
    struct sw_defer reap;
    enum sw_qfail fail; /* why we ended a dial */
    bool full;          /* the peer allows no more streams now */
    bool was_idle;
    bool hurry; /* its last connection went silent: a new one is there soon or never */
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

/* The node, made when there is none; NULL: too many. */
struct sw_qnode *qnode_get(struct sw_qdial *d, const struct sw_nodeid *id);
/* A call joins the ones that wait; SW_ELIMIT. */
int qnode_join(struct sw_qnode *n, struct sw_qcall *c);
/* A call leaves, whatever list it is in. */
void qnode_leave(struct sw_qcall *c);
/* The node does not even confirm packets: ends its connection. */
void qnode_silent(struct sw_qcall *c);
/* The node did not answer: other calls get a new connection, what runs on this one goes on. */
void qnode_suspect(struct sw_qcall *c);
/* Datagrams with the stream id of this call are for it. */
void qnode_add_flow(struct sw_qcall *c);

/* ---- qdial_fail.c ---- */

/* True: a call to this node would wait in vain. */
bool qnode_failed_lately(struct sw_qdial *d, const struct sw_nodeid *id);
/* This node did not answer: calls that come soon need not wait for it. */
void qnode_remember_failure(struct sw_qdial *d, const struct sw_nodeid *id);
/* Forgets that it did not, and frees f. */
void qnode_forgive(struct sw_qdial *d, struct qnode_failure *f);

/* ---- qcall.c ---- */

/* Opens the stream of a waiting call: SW_OK, SW_ELIMIT (later), SW_ECLOSED. */
int qcall_open(struct sw_qcall *c);
/* Ends it. */
void qcall_fail(struct sw_qcall *c, enum sw_qfail why, const char *text);
