/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client half of the tunnel protocol: one QUIC connection per node, dialled once for any number
 * of concurrent calls, a stream per call, closed when idle for long. A connection that went silent
 * or has no streams left is set apart: what runs on it continues, new calls get another.
 *
 * One loop, one thread. Callbacks come from the loop or from sw_qcall_... calls on other objects,
 * never from inside sw_qcall_start.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"
#include "base/list.h"
#include "base/slice.h"
#include "http/h1.h"
#include "io/loop.h"
#include "quic/quic.h"
#include "tunnel/qhead.h"

struct sw_qcall;
struct sw_qdial;
struct sw_qlookup;

/* Why a call failed. The text form (sw_qfail_text) is what counters and reason headers carry. */
enum sw_qfail {
    SW_QFAIL_NONE,
    SW_QFAIL_UNKNOWN_NODE, /* no source has an address of it */
    SW_QFAIL_LOOKUP,       /* finding out failed or took too long */
    SW_QFAIL_OFFLINE,      /* known not to be there (its lease expired) */
    SW_QFAIL_DIAL_TIMEOUT, /* no answer */
    SW_QFAIL_DIAL_FAILED,  /* refused, unreachable */
    SW_QFAIL_IDENTITY,     /* another node answered */
    SW_QFAIL_NOT_ADMITTED, /* the node refused our key, or does not speak the protocol */
    SW_QFAIL_LIMIT,        /* too many connections or calls waiting here */
    SW_QFAIL_STREAM,       /* no stream to be had */
    SW_QFAIL_LOST,         /* the connection broke */
    SW_QFAIL_RESET,        /* the node reset the stream */
    SW_QFAIL_BAD_ANSWER,   /* no head, or not one of the protocol */
    SW_QFAIL_ANSWER_TIMEOUT,
    SW_QFAIL_DRAINING,
};

const char *sw_qfail_text(enum sw_qfail f);

/* ---- calls ---- */

/* All are called from the loop. Each may cancel its own call or start others. */
struct sw_qcall_ops {
    /*
     * The head of the answer; 1xx other than 101 are skipped. msg lives for the call. 'data'
     * follows, from here on (never from inside).
     */
    void (*answered)(struct sw_qcall *c, const struct sw_h1_msg *msg);
    /* As in sw_qstream_ops; sw_qcall_resume when more would be taken. */
    size_t (*data)(struct sw_qcall *c, const uint8_t *p, size_t n, bool fin);
    /* Room to write (again). Also called once when the stream is open. */
    void (*writable)(struct sw_qcall *c);
    /* The node does not want what we send (STOP_SENDING). May be NULL. */
    void (*stopped)(struct sw_qcall *c);
    /* A UDP payload that came as a QUIC datagram (context id stripped). May be NULL. */
    void (*datagram)(struct sw_qcall *c, const uint8_t *p, size_t n);
    /* Last: SW_QFAIL_NONE when both directions ended. text is for people. */
    void (*ended)(struct sw_qcall *c, enum sw_qfail why, const char *text);
};

/*
 * Embedded in what wants the exchange. Once ended or cancelled it may be used again or freed; from
 * inside one of its own callbacks, free it with sw_loop_defer.
 */
struct sw_qcall {
    struct sw_list link;
    struct sw_qdial *dial;
    struct sw_qnode *node;     /* NULL: not waiting, not open */
    struct sw_qstream *stream; /* NULL before it is open */
    const struct sw_qcall_ops *ops;
    struct sw_slice head; /* owned until the answer */
    struct sw_h1 *parser; /* owned until the answer */
    struct sw_buf *in;    /* owned: the begin of the answer's head */
    struct sw_timer timer;
    struct sw_defer defer;
    uint64_t answer_ns;
    uint64_t opened_ns; /* when its head left */
    uint64_t since_ns;  /* when the call's wait for a stream began; 0: the node is being dialled */
    enum sw_qfail fail;
    size_t head_at; /* bytes of head written */
    uint64_t sent;  /* body bytes */
    int64_t id;     /* of the stream */
    bool active : 1;
    bool connect : 1;
    bool udp : 1;
    bool safe : 1;   /* may be sent again while no body byte left */
    bool reused : 1; /* the connection was there already */
    bool retried : 1;
    bool head_out : 1;
    bool heard : 1; /* a byte of the answer came */
    bool answered : 1;
    bool finished : 1;
    bool datagrams : 1; /* agreed on */
};

struct sw_qcall_spec {
    struct sw_nodeid node;
    struct sw_slice head;   /* complete, see qhead.h; copied */
    struct sw_slice method; /* decides how the answer is read */
    bool safe; /* no harm when the node sees the head twice (CONNECT, GET without body) */
    bool udp;  /* the head is of sw_qhead_put_udp */
    uint64_t answer_timeout_ns; /* from the dial's end on, a wait for a stream included; 0: none */
};

/* Begins; ops->ended comes in any case unless cancelled. */
void sw_qcall_start(struct sw_qdial *d, struct sw_qcall *c, const struct sw_qcall_spec *spec,
                    const struct sw_qcall_ops *ops);
/* Gives it up: the stream is reset both ways. No callback any more. No effect when it is over. */
void sw_qcall_cancel(struct sw_qcall *c);
/*
 * The answer is complete and so is what we sent: lets go of the stream, which ends by itself. No
 * callback any more.
 */
void sw_qcall_release(struct sw_qcall *c);
/* As the functions of sw_qstream; nothing to reserve before the head has left. */
int sw_qcall_reserve(struct sw_qcall *c, struct iovec room[2]);
void sw_qcall_commit(struct sw_qcall *c, size_t n);
size_t sw_qcall_write(struct sw_qcall *c, const void *p, size_t n);
void sw_qcall_finish(struct sw_qcall *c);
void sw_qcall_resume(struct sw_qcall *c);
/* Resets our direction only. */
/* The stream under it, for a pump; NULL before it is open. */
struct sw_qstream *sw_qcall_stream(const struct sw_qcall *c);
/* Largest UDP payload that fits a QUIC datagram now; 0: use capsules. */
size_t sw_qcall_datagram_max(const struct sw_qcall *c);
/* SW_OK, SW_ELIMIT (dropped), SW_ECLOSED. */
SW_NODISCARD int sw_qcall_datagram(struct sw_qcall *c, const uint8_t *p, size_t n);

/* ---- the connections ---- */

struct sw_qdial_ops {
    /*
     * Where is this node? Answer with one of the sw_qlookup functions, now or later, once. The
     * lookup is over after that.
     */
    void (*resolve)(void *arg, struct sw_qlookup *l);
    /* The asker of a lookup lost interest: forget it. May be NULL when resolve answers at once. */
    void (*cancel)(void *arg, struct sw_qlookup *l);
    /* For counters; each may be NULL. */
    void (*opened)(void *arg, struct sw_qconn *c);
    /* New calls use another connection to this node ("silent", "full"), or this one again
     * ("recovered"). */
    void (*set_apart)(void *arg, const struct sw_nodeid *id, const char *why);
    void (*path)(void *arg, struct sw_qconn *c);
    void (*closed)(void *arg, struct sw_qconn *c, bool idle, enum sw_qfail why);
    void (*dial_failed)(void *arg, const struct sw_nodeid *id, enum sw_qfail why, const char *text);
};

/* Zero in a field means the default in brackets. */
struct sw_qdial_config {
    struct sw_quic *quic;       /* borrowed */
    struct sw_slice alpn;       /* [iroh-http-proxy/1]; borrowed */
    size_t max_conns;           /* the oldest idle one goes, else the call fails [1024] */
    size_t max_calls;           /* of one node, waiting and open [4096] */
    size_t max_conns_of_node;   /* when it allows no more streams on the others [4] */
    uint64_t idle_ns;           /* without a call the connection is closed [1 h] */
    uint64_t lookup_timeout_ns; /* [10 s] for lookup and dial together */
    uint64_t wait_ns;           /* a call waits for a stream so long, from the dial's end [15 s] */
    /*
     * A connection on which a head was not even acknowledged after this, and no other packet
     * arrived either, is set apart: calls that may be retried are sent again on a new one, which
     * has to be established in the same time [2.5 s].
     */
    uint64_t silence_ns;
    uint64_t remember_ns; /* after a dial without an answer calls fail at once for so long [2 s] */
    const struct sw_qdial_ops *ops;
    void *arg;
};

SW_NODISCARD struct sw_qdial *sw_qdial_new(struct sw_loop *l, const struct sw_qdial_config *c);
/* Ends all calls with SW_QFAIL_DRAINING and closes the connections. Not from a callback. */
void sw_qdial_free(struct sw_qdial *d);
/* No new calls (SW_QFAIL_DRAINING); connections end with their last call. */
void sw_qdial_drain(struct sw_qdial *d);
size_t sw_qdial_calls(const struct sw_qdial *d);
size_t sw_qdial_conns(const struct sw_qdial *d);
/* "none", "dialing", "connected": the state a new call to this node would find. */
const char *sw_qdial_state(const struct sw_qdial *d, const struct sw_nodeid *id);
/* New knowledge about a node: its further addresses. What is remembered of it is forgotten. */
void sw_qdial_learn(struct sw_qdial *d, const struct sw_quic_target *t);
/* The node went away for good (its object was deleted): its connection is closed, calls end. */
void sw_qdial_forget(struct sw_qdial *d, const struct sw_nodeid *id);

const struct sw_nodeid *sw_qlookup_id(const struct sw_qlookup *l);
/* The resolver's own pointer, NULL at first. */
void sw_qlookup_set(struct sw_qlookup *l, void *p);
void *sw_qlookup_get(const struct sw_qlookup *l);
/* target is copied. */
void sw_qlookup_found(struct sw_qlookup *l, const struct sw_quic_target *target);
void sw_qlookup_failed(struct sw_qlookup *l, enum sw_qfail why, const char *text);
