/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the QUIC core share. ngtcp2 runs the protocol; it sees no real address: every
 * path of a connection has a number, the number stands in the addresses ngtcp2 compares, and
 * sw_qroute says where packets of that path go. So a relay is a path like any other, a dial may
 * send its first packets everywhere at once, and a path may be given up without ngtcp2's help.
 *
 * Nothing of the application is called from inside ngtcp2: its callbacks record what happened, and
 * sw_quic_turn tells it when a batch of packets has been read.
 */
#pragma once

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/time.h"
#include "base/vec.h"
#include "io/dgram.h"
#include "quic/quic.h"

struct sw_qchunk;
struct sw_qcid;
struct sw_qopenings;
struct sw_qpathlib;
struct sw_qtls;

enum {
    QUIC_CID_LEN = 8,
    QUIC_CID_MAX = 20,
    QUIC_TOKEN = 16, /* of a stateless reset */
    QUIC_SOCKS = 2,
    QUIC_MTU_FIRST = 1200,
    QUIC_MTU = 1452,
    QUIC_MTU_LOOPBACK = 16000,
    QUIC_SECRET = 32,
    QUIC_GATHER = SW_DGRAM_BATCH * SW_DGRAM_MAX,
};

struct sw_qsock {
    struct sw_watch watch;
    struct sw_quic *q;
    int fd;
    struct sw_addr addr;
    bool no_gso;
    bool full;        /* SW_WRITE follows */
    uint8_t *waiting; /* owned: the send that did not fit */
    struct sw_dgram_out waiting_out;
    bool more; /* stopped reading before the socket was empty */
};

/* A rate limit of answers to packets that match no connection. */
struct sw_qbucket {
    uint64_t at_ns;
    uint32_t used;
};

/* True when one more answer is within per_second. */
static inline bool sw_qbucket_take(struct sw_qbucket *b, uint64_t now_ns, uint32_t per_second)
{
    if (now_ns - b->at_ns >= SW_NS_PER_S)
        *b = (struct sw_qbucket){.at_ns = now_ns};
    if (b->used >= per_second)
        return false;
    b->used++;
    return true;
}

/* Bytes of one stream in the gathering buffer. */
struct sw_qpiece {
    uint32_t off;
    uint32_t n;
    uint32_t next; /* index + 1 of the stream's next piece */
};

struct sw_quic {
    struct sw_loop *loop; /* borrowed */
    struct sw_quic_config cfg;
    struct sw_slice *alpns;    /* owned */
    char *ca_file;             /* owned */
    struct sw_slice token;     /* owned */
    struct sw_slice token_for; /* owned */
    struct sw_qtls *tls;       /* owned */
    uint8_t secret[QUIC_SECRET];
    struct sw_qsock sock[QUIC_SOCKS];
    size_t n_socks;
    struct sw_list conns;
    struct sw_list dirty;
    struct sw_list events;
    struct sw_list relays;
    struct sw_qpathlib *path_lib;  /* owned */
    struct sw_map reaches;         /* tag to struct sw_qreach */
    struct sw_qopenings *openings; /* owned */
    bool loopback;                 /* our addresses are of this host: so may be others' */
    bool draining;
    bool busy; /* inside a turn of ours: no need to schedule another */
    struct sw_defer turn;
    struct sw_timer housekeeping;
    uint64_t key_update_after; /* packets */
    struct sw_quic_stats stats;

    struct {
        struct sw_map cids;   /* to struct sw_qcid */
        struct sw_qcid *last; /* borrowed: found last; packets come in runs. NULL: none */
        struct sw_map tokens;
    } ids;

    struct {
        struct sw_list graves;
        struct sw_list halves;   /* accepted, handshake under way; oldest first */
        struct sw_list failures; /* graves of those that never got through; oldest first */
        size_t n;
        size_t half_open;
        size_t n_failures;
        size_t n_known; /* of conns: dialled, or through the handshake */
    } conn;

    struct { /* Initials by relay that wait for a direct copy */
        struct sw_list all;
        size_t n;
        struct sw_timer timer;
    } held;

    struct {
        struct sw_timer timer; /* until then a change of the network waits */
        uint64_t at_ns;        /* of the last one that was acted on */
        uint64_t gap_ns;
        bool waits;
    } network;

    struct {
        uint8_t *rx;     /* owned: SW_DGRAM_BATCH buffers */
        uint8_t *tx;     /* owned: one send */
        uint8_t *gather; /* owned: stream bytes of one batch, QUIC_GATHER */
        size_t gathered;
        SW_VEC(struct sw_qpiece) pieces;
    } scratch;

    struct {
        struct sw_qchunk *free; /* owned */
        size_t n_free;
        uint64_t tx;        /* bytes of chunks that streams have */
        uint64_t tx_beyond; /* as of connections */
        uint64_t promised;
        uint64_t told_ns; /* that the limit was reached */
    } memory;

    struct { /* answers per second, and lines of the log */
        struct sw_qbucket reset;
        struct sw_qbucket version;
        struct sw_qbucket refused;
        struct sw_qbucket retry;
        struct sw_qbucket flood;
        struct sw_qbucket relay; /* lines */
        struct sw_qbucket ids;   /* lines */
        struct sw_qbucket ping;
        struct sw_qbucket pong;
        struct sw_log_limit refused_lines;
    } limit;
};

static inline uint64_t sw_quic_now(const struct sw_quic *q)
{
    return sw_loop_now(q->loop);
}
