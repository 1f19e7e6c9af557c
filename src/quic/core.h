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

#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/vec.h"
#include "io/dgram.h"
#include "quic/cap.h"
#include "quic/id/addrs.h"
#include "quic/quic.h"
#include "quic/relay/client.h"
#include "quic/wire/frames.h"
#include "quic/wire/probe.h"

struct ngtcp2_callbacks;
struct ngtcp2_conn;
struct ngtcp2_conn_stat;
struct ngtcp2_path;
struct ngtcp2_path_storage;

enum {
    QUIC_CID_LEN = 8,
    QUIC_CID_MAX = 20,
    QUIC_TOKEN = 16, /* of a stateless reset */
    QUIC_SOCKS = 2,
    QUIC_PATHS_MAX = 8,
    QUIC_ROUTES_MAX = SW_QUIC_ADDRS_MAX + 1, /* every address and the relay */
    QUIC_MTU_FIRST = 1200,
    QUIC_MTU = 1452,
    QUIC_MTU_LOOPBACK = 16000,
    QUIC_SECRET = 32,
    QUIC_GATHER = SW_DGRAM_BATCH * SW_DGRAM_MAX,
    QUIC_REASON_MAX = 160,
    QUIC_CHUNK_SMALL = 4096,
    QUIC_CHUNK = 65536,
    QUIC_CHUNKS_KEPT = 32,           /* free ones of an endpoint */
    QUIC_FLOOR = QUIC_CHUNK / 2,     /* what a stream may always hold, in each direction */
    QUIC_SEND_MAX = 16 * QUIC_CHUNK, /* bytes of a stream not sent yet */
    QUIC_DGRAMS_MAX = 128,           /* datagrams waiting for a write pass */
    QUIC_DGRAM_BYTES_MAX = 256 * 1024,
    QUIC_HELD_MAX = 32,    /* packets from relays that wait for a direct one */
    QUIC_ACK_PACKETS = 10, /* so many received ones are acknowledged at once */
};

#define QUIC_HOLD_NS (120 * UINT64_C(1000000))

/* ---- routes ---- */

/* A relay, ours or a peer's. */
struct sw_qrelay {
    struct sw_list link;            /* q->relays */
    struct sw_quic *q;              /* borrowed */
    struct sw_slice url;            /* owned */
    struct sw_relay_client *client; /* owned */
    struct sw_qseen_by *seen_by;    /* owned; NULL: was never queried */
    bool home;
    bool up;
};

/* Where packets really go, and come from. */
struct sw_qroute {
    struct sw_qrelay *relay; /* borrowed; NULL: direct */
    struct sw_nodeid node;   /* by relay */
    uint8_t sock;            /* direct: index in q->sock */
    struct sw_ip local;      /* our address; family 0: the kernel chooses */
    struct sw_addr remote;
};

struct sw_qpathent {
    uint16_t id;  /* 0: free */
    bool genuine; /* an authenticated packet came by it */
    bool left;    /* accepted: ngtcp2 moved to another one */
    struct sw_qroute route;
};

/* ---- connections ---- */

struct sw_qcid {
    struct sw_list link;   /* conn->cids or conn->tokens */
    struct sw_qconn *conn; /* borrowed */
    uint8_t len;
    uint8_t b[QUIC_CID_MAX];
};

/* What only a dialled connection has: the places its peer may be reached at. */
struct sw_qroutes {
    struct sw_qroute route[QUIC_ROUTES_MAX];
    uint8_t n;
    bool racing;     /* packets go to all of them */
    uint8_t *flight; /* owned: what was sent last while racing, for a relay that comes up later */
    size_t flight_n;
    size_t flight_segment;
    uint8_t next;  /* the one to try next for a better path */
    uint8_t tries; /* made since the addresses were learnt */
    uint64_t retry_at_ns;
    uint16_t trying;        /* path under validation; 0: none */
    uint64_t trying_ns;     /* since */
    uint16_t proving;       /* path that was moved to before its validation; 0: none */
    uint64_t proving_ns;    /* since */
    bool anew;              /* our network changed: the present route needs a new path */
    struct sw_qroute stray; /* where packets came from while the path was silent */
    uint64_t stray_ns;      /* when the last one did; 0: none that was not tried */
    uint64_t stray_at_ns;   /* none is tried before */
    uint64_t relay_at_ns;   /* the relay is not tried before */
    uint8_t relay_tries;    /* in a row */
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
    struct sw_list link; /* c->dgrams_in or c->dgrams_out */
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
    uint64_t keepalive_at_ns; /* path.c: when it was made shorter */
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

/* ---- streams ---- */

/* Bytes on their way out: ngtcp2 points into them until they are acknowledged. */
struct sw_qchunk {
    struct sw_qchunk *next;
    uint32_t cap;
    uint32_t n;
    uint8_t p[];
};

struct sw_qstream {
    struct sw_qconn *c; /* borrowed */
    int64_t id;
    struct sw_list link;  /* c->streams.all */
    struct sw_list sendq; /* c->streams.sendable or .blocked */
    struct sw_list event; /* c->streams.events */
    const struct sw_qstream_ops *ops;
    void *arg;

    struct {
        struct sw_qchunk *head; /* owned; starts at offset base */
        struct sw_qchunk *tail;
        struct sw_qchunk *at;    /* holds the first byte not sent */
        uint32_t at_off;         /* its position there */
        struct sw_qchunk *spare; /* owned: lent by reserve as a second piece */
        uint64_t base;           /* stream offset of head's first byte */
        uint64_t acked;
        uint64_t sent;
        uint64_t end;
        uint64_t mem; /* of all chunks, used or not */
        bool finish;
        bool fin_sent;
        bool shut;      /* reset */
        bool starved;   /* a reserve found no room */
        bool held_back; /* because of what all hold together */
    } tx;

    struct {
        uint64_t window;    /* the peer may be ahead of the reader by so much */
        uint64_t window_ns; /* when credit was given last */
        uint64_t taken;     /* since then */
        uint64_t read;      /* since the beginning */
        uint32_t first;     /* gathered pieces of this batch, as index + 1; 0: none */
        uint32_t last;
        struct sw_buf rest; /* received, not taken */
        bool shut;          /* stopped */
        bool fin;           /* all bytes are here */
        bool done;          /* and were taken, or given up */
        bool paused;        /* data took less than it got */
    } rx;

    uint64_t stop_code;
    uint64_t reset_code;
    bool fresh;   /* opened by the peer, not reported yet */
    bool stopped; /* STOP_SENDING to report */
    bool reset;   /* RESET_STREAM to report */
    bool ended;   /* ngtcp2 has forgotten it */
    bool muted;   /* aborted: report nothing but the end */
    bool writable;
    bool in_call; /* inside data */
    bool again;   /* resumed from inside */
};

/* ---- endpoints ---- */

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

/* Bytes of one stream in the gathering buffer. */
struct sw_qpiece {
    uint32_t off;
    uint32_t n;
    uint32_t next; /* index + 1 of the stream's next piece */
};

/* An Initial that came by relay and waits: a direct copy of it may follow. */
struct sw_qheld {
    struct sw_list link;
    struct sw_qroute route;
    uint64_t due_ns;
    uint8_t ecn;
    size_t n;
    uint8_t p[];
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

/* endpoint.c */

/* A datagram arrived. The bytes may be written to. */
void sw_quic_packet(struct sw_quic *q, const struct sw_qroute *from, uint8_t ecn, uint8_t *p,
                    size_t n);
/* Something is to be written or reported: schedules a turn. */
void sw_quic_wake(struct sw_quic *q);
/* Reports to the application everything that happened, then writes. After a batch of packets. */
void sw_quic_turn(struct sw_quic *q);
/* True when one more answer is within per_second. */
bool sw_qbucket_take(struct sw_qbucket *b, uint64_t now_ns, uint32_t per_second);

/* conn.c */

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

/* cid.c */

bool sw_qcid_add(struct sw_qconn *c, const uint8_t *p, size_t n);
/* A new one of n bytes, which leads to c. 'first': the one packets carry until a path changes. */
void sw_qcid_make(struct sw_qconn *c, uint8_t *p, size_t n, bool first);
void sw_qcid_remove(struct sw_qconn *c, const uint8_t *p, size_t n);
void sw_qcid_remove_all(struct sw_qconn *c);
struct sw_qconn *sw_qcid_find(struct sw_quic *q, const uint8_t *p, size_t n);
void sw_qcid_add_token(struct sw_qconn *c, const uint8_t token[QUIC_TOKEN]);
void sw_qcid_remove_token(struct sw_qconn *c, const uint8_t token[QUIC_TOKEN]);
struct sw_qconn *sw_qcid_find_token(const struct sw_quic *q, const uint8_t token[QUIC_TOKEN]);

/* path_table.c */

bool sw_qroute_eq(const struct sw_qroute *a, const struct sw_qroute *b);
/* The route to an address; false: no socket of that family. */
bool sw_qroute_direct(const struct sw_quic *q, const struct sw_addr *a, struct sw_qroute *ret);
/* The path of a route; made when 'make'. NULL: none. */
struct sw_qpathent *sw_qpath_of(struct sw_qconn *c, const struct sw_qroute *r, bool make);
/* Accepted: it has had all the numbers there are. One that came back might be ngtcp2's fallback. */
bool sw_qpath_exhausted(const struct sw_qconn *c);
/* A further path, also when there is one of that route. */
struct sw_qpathent *sw_qpath_add(struct sw_qconn *c, const struct sw_qroute *r);
struct sw_qpathent *sw_qpath_get(struct sw_qconn *c, uint16_t id);
/* The path as ngtcp2 knows it. */
void sw_qpath_fill(const struct sw_qpathent *p, struct ngtcp2_path_storage *ps);
/* The same for one received packet: valid until the next call. */
const struct ngtcp2_path *sw_qpath_lib(const struct sw_qconn *c, const struct sw_qpathent *p);
/* Of an endpoint; sw_free it. */
struct sw_qpathlib *sw_qpathlib_new(void);
/* The number ngtcp2's path carries. */
uint16_t sw_qpath_id(const struct ngtcp2_path *p);
/* A relay is going away: nothing may point to it. */
void sw_qpath_forget_relay(struct sw_qconn *c, const struct sw_qrelay *r);
bool sw_qpath_uses_relay(const struct sw_qconn *c, const struct sw_qrelay *r);

/* path.c */

/* A relay came up: a dial that is still racing sends its packets again. */
void sw_qpath_repeat(struct sw_qconn *c, struct sw_qrelay *r);
/* A packet by this route was genuine: a dial that is still racing has its path. */
void sw_qpath_race_won(struct sw_qconn *c, const struct sw_qroute *by);
/* Where a packet from 'from' belongs: its path, or NULL to drop it. */
struct sw_qpathent *sw_qpath_enter(struct sw_qconn *c, const struct sw_qroute *from);
/* Accepted, after each packet: notices that ngtcp2 changed paths. */
void sw_qpath_follow(struct sw_qconn *c);
/* After packets or timers: the same, and looks for better ones. */
void sw_qpath_check(struct sw_qconn *c);
void sw_qpath_validated(struct sw_qconn *c, uint16_t id, bool ok);
/* Learns addresses; true when one is new. */
bool sw_qdial_add(struct sw_quic *q, struct sw_qroutes *d, const struct sw_addr *a);
/* Time of the next attempt at a better path; UINT64_MAX: none is planned. */
uint64_t sw_qpath_due(const struct sw_qconn *c);
/* The network changed: what is known about paths may be wrong. */
void sw_qpath_network_changed(struct sw_qconn *c);
/* A new number for the present route: congestion control begins anew. False: not now. */
bool sw_qpath_renew(struct sw_qconn *c);
/* It is on a relay that we have lost. */
bool sw_qpath_relay_down(const struct sw_qconn *c);

/* send.c */

/* Writes what ngtcp2, datagrams and streams have to say, as far as congestion control lets it. */
void sw_qconn_write(struct sw_qconn *c);
/* max, or less while the path is not known to take that much. */
size_t sw_qconn_packet_max(const struct sw_qconn *c, size_t max);
/* Bytes were acknowledged after a silence: packets may be large again. */
void sw_qconn_hole_retry(struct sw_qconn *c);
/* Sends one or more packets on a route; SW_EAGAIN when the socket is full. */
int sw_qroute_send(struct sw_quic *q, const struct sw_qroute *r, uint8_t ecn, const uint8_t *p,
                   size_t n, size_t segment);
/* The same by way of a connection's path; everywhere while it is racing. */
int sw_qpath_send(struct sw_qconn *c, uint16_t id, uint8_t ecn, const uint8_t *p, size_t n,
                  size_t segment);

/* silence.c: peers that do not answer */

/* A packet went out on this path. */
void sw_qsilence_sent(struct sw_qconn *c, uint16_t path, const uint8_t *p, size_t n);
/* A packet of the peer arrived. */
void sw_qsilence_end(struct sw_qconn *c);
/* When sw_qsilence_check has something to do; UINT64_MAX: never. */
uint64_t sw_qsilence_due(const struct sw_qconn *c);
/* Repeats the probe, or gives the peer up. */
void sw_qsilence_check(struct sw_qconn *c);

/* pace.c */

/*
 * Is a path so near that nothing is paced? By its round trip, the lowest one and the rate of
 * congestion control.
 */
bool sw_qpace_near(uint64_t smoothed_rtt_ns, uint64_t min_rtt_ns, double bytes_per_ns);
/* Bytes a write pass made now may send. */
size_t sw_qpace_limit(struct sw_qconn *c);
/* A pass sent n bytes; 'again' of them had been sent before. */
void sw_qpace_sent(struct sw_qconn *c, size_t n, size_t again);
/* When the next pass may send; UINT64_MAX: at any time. */
uint64_t sw_qpace_due(const struct sw_qconn *c);

/* renew.c */

/* Looks whether congestion control has to begin anew, and sees to it. Before every write pass. */
void sw_qrenew_watch(struct sw_qconn *c, const struct ngtcp2_conn_stat *st);
/* Not 0: a pass sends one packet, and after it nothing but acknowledgements for so long. */
uint64_t sw_qrenew_pause_ns(const struct sw_qconn *c);
/* ngtcp2 is on another path and has reset congestion control. */
void sw_qrenew_moved(struct sw_qconn *c);

/* stateless.c: answers that need no connection */

/*
 * A packet of no connection: it makes a new one, is answered, kept for a moment, or dropped.
 * waited: it was kept already.
 */
void sw_quic_stranger(struct sw_quic *q, const struct sw_qroute *from, uint8_t ecn, uint8_t *p,
                      size_t n, bool waited);
void sw_quic_reset_token(const struct sw_quic *q, const uint8_t *cid, size_t n, uint8_t ret[16]);

/* stream.c */

struct sw_qstream *sw_qstream_new(struct sw_qconn *c, int64_t id);
void sw_qstream_received(struct sw_qstream *s, const uint8_t *p, size_t n, bool fin);
/* Schedules its callbacks. */
void sw_qstream_note(struct sw_qstream *s);
void sw_qstream_run_callbacks(struct sw_qstream *s);
/* The connection is gone: closed is called, and the stream freed. */
void sw_qstream_lost(struct sw_qstream *s);
/* All bytes are here, but the reader has not taken them. */
bool sw_qstream_unread(const struct sw_qstream *s);

/* stream_tx.c */

/* The peer will not read on: everything not yet acknowledged is void. */
void sw_qstream_was_stopped(struct sw_qstream *s, uint64_t code);
void sw_qstream_acked(struct sw_qstream *s, uint64_t upto);
/* Bytes were sent and are not acknowledged yet. */
bool sw_qstream_in_flight(const struct sw_qstream *s);
/* Has it something to send now? */
bool sw_qstream_pending(const struct sw_qstream *s);
/* n bytes from s->at on went into a packet, and the end with them. */
void sw_qstream_advance(struct sw_qstream *s, size_t n, bool fin);
/* Frees all that was to be sent. */
void sw_qstream_drop_chunks(struct sw_qstream *s);
void sw_qchunks_done(struct sw_quic *q);

/* memory.c */

/* A chunk of s was made (its size) or freed (the same, negative). */
void sw_qmem_count(struct sw_qstream *s, int64_t delta);
/*
 * How much more s may hold to be sent; at least QUIC_FLOOR when it holds nothing. lent: room it has
 * already and may fill.
 */
size_t sw_qmem_room(const struct sw_qstream *s, size_t lent);
/* s wanted room and got none: counted once until it does. */
void sw_qmem_held_back(struct sw_qstream *s);
/* Begin and end of a stream's window; the end as soon as nothing is kept for it, and again. */
void sw_qmem_stream_begin(struct sw_qstream *s);
void sw_qmem_stream_end(struct sw_qstream *s);
/* The reader took n bytes of s: credit to give to the peer now. */
uint64_t sw_qmem_taken(struct sw_qstream *s, size_t n);

/* reach.c: direct paths of connections by relay, between two of ours */

/* It was dialled and is on a relay: begins to request the peer's candidates. Once. */
void sw_qreach_start(struct sw_qconn *c);
void sw_qreach_free(struct sw_qconn *c);
/* Our addresses or the network changed: notifies the peer, and probes anew. */
void sw_qreach_restart(struct sw_qconn *c);
/* True when the datagram was ours, and nothing for the application. */
bool sw_qreach_datagram(struct sw_qconn *c, const uint8_t *p, size_t n);
/* A ping or a pong; p: its bytes. False: not genuine. */
bool sw_qreach_probe(struct sw_quic *q, const struct sw_qroute *from, const struct sw_probe *m,
                     const uint8_t *p);
/* The peer may still turn out to be one of ours. */
bool sw_qreach_pending(const struct sw_qconn *c);
/* It has. */
bool sw_qreach_known(const struct sw_qconn *c);
/*
 * The direct route to go to. now: the direct route it is on, NULL: on a relay. urgent: that one is
 * silent, any other will do.
 */
bool sw_qreach_best(struct sw_qconn *c, const struct sw_qroute *now, bool urgent,
                    struct sw_qroute *ret);
/* The direct path does not answer: probes all other candidates. */
void sw_qreach_silent(struct sw_qconn *c);
/* Whether datagrams may go to an address that another node named. */
bool sw_qprobe_allowed(const struct sw_quic *q, const struct sw_addr *a);
/* What became of an attempt to go there. */
void sw_qreach_outcome(struct sw_qconn *c, const struct sw_qroute *at, bool ok);

/* openings.c: before a dial */

struct sw_qopenings *sw_qopenings_new(struct sw_quic *q);
void sw_qopenings_free(struct sw_qopenings *s);
void sw_qopenings_network_changed(struct sw_quic *q);
/* A datagram that may be a probe. False: it is none, or no genuine one. */
bool sw_quic_probe(struct sw_quic *q, const struct sw_qroute *from, const uint8_t *p, size_t n);
/* All that is known of where we are. */
size_t sw_quic_candidates(const struct sw_quic *q, struct sw_addr ret[SW_QUIC_ADDRS_MAX]);

/* seen_by.c: how relays see us */

/* A relay came up, or the network changed: queries it anew. Not when it is down. */
void sw_qseen_by_start(struct sw_qrelay *r);
void sw_qseen_by_free(struct sw_qrelay *r);
/* True when the packet was an answer. */
bool sw_qseen_by_packet(struct sw_quic *q, const struct sw_qroute *from, uint8_t *p, size_t n);

/* relays.c */

/* The relay named for a peer. NULL: SW_EINVAL (no URL), SW_EDENIED (not allowed; logged). */
struct sw_qrelay *sw_qrelay_of_peer(struct sw_quic *q, const struct sw_nodeid *peer,
                                    struct sw_slice url, struct sw_err *err);
void sw_qrelays_sweep(struct sw_quic *q, bool all);
/* True when the packet was kept for later. */
bool sw_qrelay_hold(struct sw_quic *q, const struct sw_qroute *from, uint8_t ecn, const uint8_t *p,
                    size_t n);
/* A direct copy of an Initial came: the ones by relay are not needed. */
void sw_qrelay_unhold(struct sw_quic *q, const uint8_t *dcid, size_t n);
void sw_qrelay_held_done(struct sw_quic *q);

/* handshake.c */

/* What all handshakes of an endpoint share: our key and the protocols. */
struct sw_qtls *sw_qtls_new(const struct sw_rawkey *key, const struct sw_slice *alpns, size_t n,
                            struct sw_err *err);
void sw_qtls_free(struct sw_qtls *t);
/* One handshake. c->nc must exist. alpn: of a client; empty: server. */
int sw_qhs_start(struct sw_qconn *c, bool server, struct sw_err *err);
void sw_qhs_free(struct sw_qhs *hs);
/* The protocol agreed on; empty: none yet. */
struct sw_slice sw_qhs_alpn(const struct sw_qhs *hs);
/* The parts of the table that are cryptography. */
void sw_qhs_callbacks(struct ngtcp2_callbacks *cb);

/* handshake_keys.c */

/*
 * Application keys are ours: faster, and without a TLS session behind them. c->keys.aead says
 * which; n is 32 or 48. A packet that is opened with them and is no copy sets c->heard.genuine. 0,
 * or -1.
 */
int sw_qkeys_install(struct sw_qconn *c, bool tx, const uint8_t *secret, size_t n);
void sw_qkeys_callbacks(struct ngtcp2_callbacks *cb);
/* Whose packet is read now, in this thread; NULL: none is any more. */
void sw_qkeys_reading(struct sw_qconn *c);
