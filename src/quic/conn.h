/* SPDX-License-Identifier: Apache-2.0 */
/* A connection, and what its files (conn_life.c, conn_events.c, conn_end.c) do for the others. */
#pragma once

#include "quic/cap.h"
#include "quic/core.h"
#include "quic/path_int.h"
#include "quic/wire/frames.h"

struct ngtcp2_callbacks;
struct ngtcp2_conn;

enum {
    QUIC_REASON_MAX = 160,
    QUIC_DGRAMS_MAX = 128, /* datagrams waiting for a write pass */
    QUIC_DGRAM_BYTES_MAX = 256 * 1024,
    QUIC_ACK_PACKETS = 10, /* so many received ones are acknowledged at once */
};

/* renew.c */
struct sw_qrenew {
    uint64_t from_ns;  /* begin of the window; 0: none yet */
    uint64_t low_ns;   /* the lowest round trip in it */
    uint64_t after_ns; /* no look before that */
    uint64_t gap_ns;   /* between the last two */
    uint64_t until_ns; /* draining at most until then; 0: not draining */
    uint64_t step_ns;  /* then: between two packets */
    bool moving;       /* nothing is under way, the peer's next packet is the move */
    bool tainted;      /* moved with packets under way */
};

struct sw_qdgram {
    struct sw_list link; /* c->dgrams.in or c->dgrams.out */
    size_t n;
    uint8_t p[];
};

struct sw_qconn {
    struct sw_quic *q;      /* borrowed */
    struct ngtcp2_conn *nc; /* owned; NULL from the end on */
    struct sw_qhs *hs;      /* owned; NULL once the handshake is confirmed */
    struct sw_list link;    /* q->conns or q->graves */
    struct sw_list half;    /* q->halves, then q->failures when the handshake failed */
    struct sw_list dirty;   /* q->dirty: wants to write */
    struct sw_list event;   /* q->events: has something to report */
    struct sw_list cids;
    struct sw_list tokens; /* of the peer's IDs */
    struct sw_timer timer;
    const struct sw_qconn_ops *ops;
    void *arg;
    struct sw_nodeid peer;
    struct sw_slice alpn;    /* owned when dialled, else of the endpoint */
    struct sw_qroutes *dial; /* owned; NULL: accepted */
    struct sw_qreach *reach; /* owned; NULL: was never on a relay with one of ours */
    struct sw_qrenew renew;
    struct sw_qids ids; /* that the peer gave */
    struct sw_qacks acks;

    struct {
        struct sw_qpathent ent[QUIC_PATHS_MAX];
        uint16_t now; /* the path ngtcp2 is on */
        uint16_t told;
        uint16_t next;    /* id of the next one */
        uint16_t renewed; /* id of a path that replaces another one of the same route */
        uint16_t valid;   /* accepted: the path on which the peer was proved to be last */
        bool changed;
    } paths;

    struct {
        struct sw_list all;
        struct sw_list sendable; /* with bytes, an end or a reset to send */
        struct sw_list blocked;  /* with bytes, but no credit */
        struct sw_list events;
        size_t n;
        bool want_room;
        bool room;
    } streams;

    struct {
        uint64_t held;      /* bytes received that the application has not read yet */
        uint64_t owed;      /* connection credit to give for bytes that came */
        uint64_t tx_beyond; /* memory.c: what streams hold to be sent, each beyond its floor */
        uint64_t promised;  /* memory.c: windows of streams, each beyond the first one */
    } flow;

    struct {
        struct sw_list out;
        struct sw_list in;
        size_t n; /* of out */
        size_t bytes;
    } dgrams;

    struct {
        uint64_t at_ns; /* pace.c: time of the next pass */
        bool on;
        struct sw_qcap cap;
    } pace;
    struct {
        uint8_t aead;        /* enum sw_aead_alg */
        uint64_t tx_packets; /* since the last update */
    } keys;
    struct { /* genuine packets: authenticated, no copies */
        uint64_t at_ns;
        bool genuine;        /* handshake_keys.c: the packet that is being read is one */
        bool since_write;    /* some came since the last write pass */
        bool ack_now;        /* handshake_keys.c: one of them allows no delayed acknowledgement */
        uint8_t n;           /* since the last write pass, up to QUIC_ACK_PACKETS */
        uint64_t ack_due_ns; /* of a delayed write pass; 0: none is scheduled */
    } heard;
    struct {
        uint64_t at_ns;
        uint32_t used; /* of the budget; falls with time */
    } resets;
    uint64_t keepalive_ns;
    uint64_t keepalive_at_ns; /* path_move.c: when it was made shorter */
    uint64_t early_pto_ns;    /* conn.c: the last one */
    uint64_t progress_ns;     /* bytes of streams were acknowledged, or none were under way */

    struct {
        uint64_t retry_ns; /* large packets got another chance; 0: never */
        uint16_t path;     /* on which large packets vanish */
        bool found;
        bool mute; /* found while no packet of the peer arrived: may have been an outage */
    } hole;

    struct {        /* silence.c */
        uint8_t *p; /* owned: the last packet sent into a silence; NULL: none */
        size_t n;
        uint64_t repeat_ns;
        uint16_t path;
        bool relays_asked; /* whether they are there, in this silence */
    } probe;

    struct { /* post-handshake messages, once the TLS session is gone */
        uint32_t left;
        uint8_t head_n;
        uint8_t head[4];
    } msg;

    struct {
        bool complete; /* not reported to the application yet */
        bool told;     /* it was */
        bool half_open;
        bool failed;   /* counts in q->n_failures */
        bool known;    /* counts in q->n_known */
        bool answered; /* the peer's first packet was genuine */
        bool through;  /* ngtcp2 is: it has written its last message of it */
        bool confirmed;
        bool wrong_key;
    } shake;

    bool dialled;
    bool was_reset; /* stateless */
    bool jumbo;     /* packets too large for anything but loopback */
    bool gone;      /* closed was called */

    struct {
        bool closing; /* 'why' is set; the close packet goes out in the next pass */
        bool quiet;   /* say nothing to the peer */
        bool linger;  /* streams still have to be read */
        bool app;     /* an error code of the application */
        uint64_t code;
        struct sw_qclose why;
        char reason[QUIC_REASON_MAX];
        uint8_t *words; /* owned: the close packet, repeated while the peer still sends */
        size_t words_n;
        uint32_t heard; /* packets since */
    } end;
};

/* conn_life.c */

/* SW_ELIMIT. The connection writes its first packet in the coming turn. */
struct sw_qconn *sw_qconn_dial(struct sw_quic *q, const struct sw_nodeid *peer,
                               struct sw_slice alpn, const struct sw_qroutes *dial,
                               struct sw_err *err);
struct sw_qaccept {
    const uint8_t *dcid; /* the client's first choice, or what a Retry remembered of it */
    size_t dcid_len;
    const uint8_t *now_dcid; /* as in the packet */
    size_t now_dcid_len;
    const uint8_t *scid;
    size_t scid_len;
    bool retried;
    uint8_t *token; /* then: what came with it */
    size_t token_len;
};
struct sw_qconn *sw_qconn_accept(struct sw_quic *q, const struct sw_qaccept *a,
                                 const struct sw_qroute *from);
void sw_qconn_read(struct sw_qconn *c, const struct sw_qroute *from, uint8_t ecn, uint8_t *p,
                   size_t n);
/* Schedules a write pass. */
void sw_qconn_touch(struct sw_qconn *c);
/*
 * The same after a delay (RFC 9000, 13.2.1), for acknowledgements and for credit that is far from
 * used up: a packet that leaves sooner takes them along.
 */
void sw_qconn_touch_delayed(struct sw_qconn *c);
/* Schedules its callbacks. */
void sw_qconn_note(struct sw_qconn *c);
void sw_qconn_rearm(struct sw_qconn *c);
void sw_qconn_on_timer(struct sw_timer *t);
/* A copy of the bytes at the end of c->dgrams.in or .out. */
void sw_qdgram_add(struct sw_list *l, const uint8_t *p, size_t n);
/* The handshake proved the peer's key; called by handshake.c. False: it is not the one expected. */
bool sw_qconn_identified(struct sw_qconn *c, const struct sw_nodeid *id);

/* conn_events.c */

void sw_qconn_callbacks(struct ngtcp2_callbacks *cb);

/* conn_end.c */

void sw_qconn_end_half_open(struct sw_qconn *c);
/* Frees the accepted connection that has been in its handshake, or failed in it, the longest. */
bool sw_qconn_drop_half_open(struct sw_quic *q);
/* Ends it for a reason of our own; sends CONNECTION_CLOSE unless 'quiet'. */
void sw_qconn_fail(struct sw_qconn *c, enum sw_qclose_kind kind, uint64_t code, const char *text);
/* As above, for a result of ngtcp2. */
void sw_qconn_fail_lib(struct sw_qconn *c, int liberr);
/*
 * True while a connection that the peer closed has streams with unread bytes: they arrived
 * complete, and a reader may take its time.
 */
bool sw_qconn_lingers(struct sw_qconn *c);
/* Sends CONNECTION_CLOSE, calls the application and frees what can be freed. */
void sw_qconn_bury(struct sw_qconn *c);
/* Frees what is left of a buried one. */
void sw_qconn_free(struct sw_qconn *c);
