/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QUIC between nodes identified by their keys: one endpoint is one UDP socket (and, where
 * configured, one or more relays) with many connections, dialled and accepted. Both sides present
 * an Ed25519 raw public key; the dialling side names the key it expects. Compatible with iroh.
 *
 * One loop, one thread. Callbacks may open, write, reset and close anything; objects are freed
 * later, from the loop.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"
#include "io/loop.h"
#include "quic/id/nodeid.h"

struct sw_quic;    /* an endpoint */
struct sw_qconn;   /* a connection */
struct sw_qstream; /* a bidirectional stream */

/* ---- connections ---- */

/* Why a connection ended. */
struct sw_qclose {
    enum sw_qclose_kind {
        SW_QCLOSE_LOCAL,     /* we closed it */
        SW_QCLOSE_APP,       /* the peer did, with an application code */
        SW_QCLOSE_TRANSPORT, /* the peer did, with a transport code; 0x100 + alert for TLS */
        SW_QCLOSE_IDLE,      /* silence */
        SW_QCLOSE_TIMEOUT,   /* never answered within the dial's deadline */
        SW_QCLOSE_IDENTITY,  /* the peer's key is not the one we expected */
        SW_QCLOSE_RESET,     /* stateless reset */
        SW_QCLOSE_FAILED,    /* anything else; text says what */
    } kind;
    uint64_t code;
    struct sw_slice text; /* valid inside the callback */
};

struct sw_qconn_ops {
    /* The handshake is done and the peer's key is known and expected. Streams may be opened. */
    void (*ready)(struct sw_qconn *c);
    /* The peer opened a stream: sw_qstream_attach it here, or it is reset. */
    void (*stream)(struct sw_qconn *c, struct sw_qstream *s);
    /* A datagram (RFC 9221). May be NULL. */
    void (*datagram)(struct sw_qconn *c, const uint8_t *p, size_t n);
    /* The path changed between relay and direct, or the peer's address. May be NULL. */
    void (*path)(struct sw_qconn *c);
    /* The peer allows more streams again after sw_qstream_open returned SW_ELIMIT. May be NULL. */
    void (*room)(struct sw_qconn *c);
    /* Last call, once, after those of the streams. The connection is freed after it returns. */
    void (*closed)(struct sw_qconn *c, const struct sw_qclose *why);
};

void sw_qconn_set_ops(struct sw_qconn *c, const struct sw_qconn_ops *ops, void *arg);
void *sw_qconn_arg(const struct sw_qconn *c);
/* Valid from ready on (dialled ones: the expected key, at once). */
const struct sw_nodeid *sw_qconn_peer(const struct sw_qconn *c);
struct sw_slice sw_qconn_alpn(const struct sw_qconn *c);
bool sw_qconn_dialled(const struct sw_qconn *c);
uint64_t sw_qconn_rtt_ns(const struct sw_qconn *c);
/* Time since the last packet of the peer. */
uint64_t sw_qconn_silence_ns(const struct sw_qconn *c);
size_t sw_qconn_streams(const struct sw_qconn *c);
/* Sends CONNECTION_CLOSE with an application code; closed follows from the loop. */
void sw_qconn_close(struct sw_qconn *c, uint64_t code, const char *reason);
/* Largest datagram the peer takes now; 0: it takes none. */
size_t sw_qconn_datagram_max(const struct sw_qconn *c);
/* SW_OK: queued (may still be lost); SW_ELIMIT: too large or the queue is full; SW_ECLOSED. */
SW_NODISCARD int sw_qconn_datagram(struct sw_qconn *c, const uint8_t *p, size_t n);

/* ---- streams ---- */

struct sw_qstream_ops {
    /*
     * Bytes in order, 'fin' with the last ones (n may be 0 then). Returns how many were taken: the
     * rest stays with the stream, bounded by its window, until sw_qstream_resume; the peer may
     * send more only as bytes are taken. fin is repeated until all bytes were taken.
     */
    size_t (*data)(struct sw_qstream *s, const uint8_t *p, size_t n, bool fin);
    /* Room to write again, after a reserve that found none. */
    void (*writable)(struct sw_qstream *s);
    /*
     * The peer will not read on (STOP_SENDING). The sending side was reset. Noticed when something
     * is to be sent, or at the end; code 0: not known. May be NULL.
     */
    void (*stopped)(struct sw_qstream *s, uint64_t code);
    /* The peer gave its side up (RESET_STREAM): no more data. */
    void (*reset)(struct sw_qstream *s, uint64_t code);
    /* Last call, once: both directions ended or the connection is gone (lost). Freed after it. */
    void (*closed)(struct sw_qstream *s, bool lost);
};

/* SW_ELIMIT: the peer allows no more now (ops->room follows); SW_ECLOSED. */
SW_NODISCARD int sw_qstream_open(struct sw_qconn *c, const struct sw_qstream_ops *ops, void *arg,
                                 struct sw_qstream **ret);
void sw_qstream_attach(struct sw_qstream *s, const struct sw_qstream_ops *ops, void *arg);
void *sw_qstream_arg(const struct sw_qstream *s);
struct sw_qconn *sw_qstream_conn(const struct sw_qstream *s);
int64_t sw_qstream_id(const struct sw_qstream *s);

/*
 * Room for the next bytes to send, at most two pieces: fill them from the front, then commit. Bytes
 * stay in there until the peer has them. Returns the number of pieces; 0: none now, writable
 * follows.
 */
int sw_qstream_reserve(struct sw_qstream *s, struct iovec room[2]);
/* n may be 0: the room is given back. */
void sw_qstream_commit(struct sw_qstream *s, size_t n);
/* Copies what fits; the number taken. For heads and other small things. */
size_t sw_qstream_write(struct sw_qstream *s, const void *p, size_t n);
/* Nothing follows what was committed. */
void sw_qstream_finish(struct sw_qstream *s);
/* data returned less than it got: now it would take more. data may be called from inside. */
void sw_qstream_resume(struct sw_qstream *s);
/* Gives up sending (RESET_STREAM). */
void sw_qstream_reset(struct sw_qstream *s, uint64_t code);
/* Does not want what still comes (STOP_SENDING). */
void sw_qstream_stop(struct sw_qstream *s, uint64_t code);
/* Both; no further callback but closed. */
void sw_qstream_abort(struct sw_qstream *s, uint64_t code);
/* Bytes committed that the peer has not confirmed. */
size_t sw_qstream_unacked(const struct sw_qstream *s);

/* ---- endpoints ---- */

/* Congestion control. BBR measures the bottleneck: a lost packet alone is no sign of one. */
enum sw_qcc {
    SW_QCC_BBR,
    SW_QCC_CUBIC,
    SW_QCC_BBR2,
};
/* In that order, and NULL. */
extern const char *const sw_qcc_names[];

struct sw_quic_config {
    const struct sw_rawkey *key;  /* borrowed */
    struct sw_addr bind;          /* family 0: 0.0.0.0 and [::] with any port */
    const struct sw_slice *alpns; /* accepted ones; none: dials only */
    size_t n_alpns;
    size_t max_conns;       /* [4096] */
    size_t max_half_open;   /* handshakes under way before Retry is demanded [64] */
    uint64_t max_streams;   /* the peer may have open at once [100 for iroh, we use 1024] */
    uint64_t first_window;  /* of a stream; it grows when the peer uses it up [32 KiB] */
    uint64_t stream_window; /* and not beyond this [16 MiB] */
    uint64_t conn_window;   /* on the way at once, over all streams [32 MiB] */
    /*
     * Bytes streams may hold together, one half to be sent, one received; what each stream may
     * have in any case is not counted (32 KiB in each direction) [128 MiB].
     */
    uint64_t max_buffered;
    uint64_t max_conn_buffered; /* the same of one connection [half of that] */
    uint64_t idle_ns;           /* [30 s] */
    uint64_t keepalive_ns;      /* [5 s] */
    uint64_t dial_ns;           /* deadline of a dial [10 s] */
    bool datagrams;
    enum sw_qcc congestion;
    /*
     * May this key connect with this protocol? Called once the handshake proved the key. NULL: all.
     * A refused one is closed with transport error 2 (connection refused).
     */
    bool (*admit)(void *arg, const struct sw_nodeid *peer, struct sw_slice alpn);
    /* An accepted connection is ready: sw_qconn_set_ops it here. Its ready is not called. */
    void (*accepted)(void *arg, struct sw_qconn *c);
    void *arg;
    /* Of relays with https URLs; NULL: the system's roots. */
    const char *relay_ca_file;
    struct sw_slice relay_token;     /* bearer; empty: none */
    struct sw_slice relay_token_for; /* URL of the one relay that gets it, and over TLS only */
    bool relay_sign_over_tls;        /* as in sw_relay_client_config */
    /*
     * May we connect to this relay? Peers name it, from untrusted sources. NULL: no other than the
     * home relay is used.
     */
    bool (*relay_allowed)(void *arg, struct sw_slice url);
    /*
     * A relay, a token or a challenge was refused, and logged: reason is a counter label. May be
     * NULL.
     */
    void (*relay_refused)(void *arg, const char *reason);
    void (*relay_state)(void *arg, bool home_up); /* the home relay came or went. May be NULL */
    /* Direct paths between two of ours need 'datagrams' at both ends. */
    bool no_probes;   /* no part in that */
    bool answer_asks; /* report to nodes that know our NodeID which address they come from */
    /* May a datagram be sent to this address, which a peer named? NULL: all but loopback ones. */
    bool (*probe_allowed)(void *arg, const struct sw_addr *a);
    void (*mapped)(void *arg); /* sw_quic_mapped has news. May be NULL */
};

SW_NODISCARD struct sw_quic *sw_quic_new(struct sw_loop *l, const struct sw_quic_config *cfg,
                                         struct sw_err *err);
/* Closes everything at once with application code 0; closed callbacks come from inside. */
void sw_quic_free(struct sw_quic *q);
/* Stops accepting; connections without streams are closed, others when theirs end. */
void sw_quic_drain(struct sw_quic *q);
/* What the sockets are bound to: at most two. */
size_t sw_quic_bound(const struct sw_quic *q, struct sw_addr ret[2]);
/* The network changed (addresses, sleep): probe relays and paths now. */
void sw_quic_network_changed(struct sw_quic *q);

/*
 * Dials the node by every address and the relay at once; the first that answers with the right key
 * carries the connection, and a relay path moves to a direct one when that works. ready or closed
 * follows from the loop. NULL: SW_ELIMIT, SW_EINVAL (no address at all, or ourselves).
 */
SW_NODISCARD struct sw_qconn *sw_quic_dial(struct sw_quic *q, const struct sw_quic_target *t,
                                           struct sw_slice alpn, const struct sw_qconn_ops *ops,
                                           void *arg, struct sw_err *err);

struct sw_quic_stats {
    uint64_t accepted, dialled, failed, refused, retries, resets, migrations;
    uint64_t conns, conns_relay; /* now */
    uint64_t rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped;
    uint64_t rx_calls, tx_calls; /* system calls */
    uint64_t buffered;           /* now: bytes of streams, to be sent or not taken */
    uint64_t renewals;           /* of congestion control, on paths that became slower */
    uint64_t held_back;          /* times a stream got no room because of what all hold */
    uint64_t probes_sent, probes_received, probes_dropped;
    uint64_t direct_found;  /* moves to a path that answered probes */
    uint64_t direct_failed; /* connections that stay on a relay because none answers */
    uint64_t rtt_direct_ns, rtt_relay_ns; /* now: the largest of all connections */
};
void sw_quic_stats(const struct sw_quic *q, struct sw_quic_stats *ret);
