/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the relay role. A client belongs to the worker its id names (relay_home): ids are
 * spread over the workers by a hash, so that all connections of one id, and everything addressed
 * to it, meet on one thread, and no table is shared. A connection is accepted by any worker and
 * moves once, when its id is proved; packets between ids of different workers travel in blocks.
 */
#pragma once

#include <stdatomic.h>

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/rate.h"
#include "http/h1.h"
#include "http/ws/wsconn.h"
#include "io/accept.h"
#include "io/addr.h"
#include "io/crew.h"
#include "quic/relay/auth.h"
#include "quic/wire/relay.h"
#include "relay/access.h"
#include "relay/relay.h"
#include "relay/roster.h"
#include "telemetry/process.h"

struct sw_filewatch;
struct sw_relay;
struct relay_ask;
struct relay_block;
struct relay_qad;
struct relay_worker;
struct sw_tls_cred;

/* Processes of this role may hand ports over to each other (io/port.h). */
#define RELAY_PORT_GROUP "relay"

enum relay_state {
    RELAY_HTTP,   /* requests, and the upgrade */
    RELAY_AUTH,   /* a challenge was sent */
    RELAY_JUDGED, /* the key is proved; an access check is under way, or it moves to its worker */
    RELAY_ACTIVE, /* in the table */
    RELAY_GONE,
};

/* What a connection needs until it is active. */
struct relay_setup {
    struct sw_h1 *h1;
    struct sw_addr peer;
    struct sw_nodeid id; /* proved, from RELAY_JUDGED on */
    uint8_t challenge[SW_RELAY_CHALLENGE_LEN];
    char *token; /* shown in the upgrade; NULL: none */
    struct relay_ask *ask;
    struct relay_client *client; /* whose it is */
    struct sw_defer move;
    struct sw_msg msg; /* on the way to its worker */
    bool answered;     /* a request of HTTP */
    bool awaited;      /* the control plane does not know it yet, and may in a moment */
};

/* A connection. Kept small: idle ones are many. */
struct relay_client {
    struct sw_wsconn ws;
    struct relay_worker *worker;
    struct sw_list link;       /* worker->clients */
    struct sw_list same;       /* id->clients, newest first */
    struct sw_list evictable;  /* worker->evictable, until active and from leaving on */
    struct relay_id *id;       /* when active */
    struct relay_setup *setup; /* owned; until active */
    struct sw_timer timer;     /* to be established; when active: ping, pong, or the rate */
    uint64_t rx_ns;            /* last message */
    uint64_t ping;             /* content of the ping that waits for its pong; 0: none */
    uint8_t state;             /* enum relay_state */
    uint8_t version;
    bool tls : 1;
    bool throttled : 1; /* waits for tokens */
    bool notified_rate : 1;
    bool unlimited : 1; /* in its rate */
    bool flooded : 1;   /* sends requests without reading: ended with the batch */
    bool upgraded : 1;  /* counted as a client, not as an HTTP connection */
};

/* What an id may send: one for all of its connections. */
struct relay_bucket {
    int64_t tokens;     /* bytes that may be read; below zero its connections wait */
    uint64_t tokens_ns; /* as of */
};

/* The bucket of an id that is not connected any more: connecting again does not fill it. */
struct relay_owed {
    struct sw_nodeid id;
    struct relay_bucket bucket;
};

enum { RELAY_OWED = 256 }; /* slots, of a worker; a collision forgives the older debt */

/* An id that is connected. */
struct relay_id {
    struct sw_nodeid id;
    struct relay_bucket bucket;
    struct sw_list clients; /* the first is active */
    struct sw_nodeid *sent; /* owned: ids it sent to; a hash table with holes of zeros */
    struct sw_nodeid last;  /* the one it sent to last: known to be in the table */
    uint32_t sent_n;
    uint32_t sent_cap; /* power of two, or 0 */
};

struct relay_listener {
    struct sw_acceptor acceptor; /* its fd is -1: none */
    bool tls;
};

/* Counters of a worker. */
struct relay_stats {
#define RELAY_STATS(X)                                                                             \
    X(accepts, RELAY_ACCEPTS)                                                                      \
    X(disconnects, RELAY_DISCONNECTS)                                                              \
    X(clients, RELAY_CLIENTS)                                                                      \
    X(bytes_sent, RELAY_BYTES_SENT)                                                                \
    X(bytes_recv, RELAY_BYTES_RECV)                                                                \
    X(packets_sent, RELAY_PACKETS_SENT)                                                            \
    X(packets_recv, RELAY_PACKETS_RECV)                                                            \
    X(got_ping, RELAY_GOT_PING)                                                                    \
    X(sent_pong, RELAY_SENT_PONG)                                                                  \
    X(unknown_frames, RELAY_UNKNOWN_FRAMES)                                                        \
    X(limited_bytes, RELAY_LIMITED_BYTES)                                                          \
    X(limited_conns, RELAY_LIMITED_CONNS)                                                          \
    X(unique_keys, RELAY_UNIQUE_KEYS)                                                              \
    X(inactive_added, RELAY_INACTIVE_ADDED)                                                        \
    X(inactive_removed, RELAY_INACTIVE_REMOVED)                                                    \
    X(http, RELAY_HTTP_CONNECTIONS)                                                                \
    X(http_closed, RELAY_HTTP_CLOSED)                                                              \
    X(http_errored, RELAY_HTTP_ERRORED)
#define RELAY_STAT_FIELD(field, id) struct sw_metric *field;
    RELAY_STATS(RELAY_STAT_FIELD)
#undef RELAY_STAT_FIELD
    struct sw_metric *dropped_unknown;
    struct sw_metric *dropped_queue;
    struct sw_metric *accept_pauses;
};

struct relay_worker {
    struct sw_crew_thread thread;
    struct sw_relay *relay;
    unsigned index; /* the thread's, like the loop */
    struct sw_loop *loop;
    struct sw_accept_group accept;
    struct relay_listener listeners[2];
    struct sw_tls_cred *cred;       /* a reference; NULL: no TLS */
    struct sw_relay_access *access; /* a reference */
    struct relay_roster *roster;    /* a reference; NULL: no control plane */
    struct sw_map ids;              /* relay_id by its id */
    struct sw_list clients;
    struct sw_list evictable;      /* clients that leave, then those not admitted, oldest first */
    _Atomic ptrdiff_t n_evictable; /* of these, without those that other workers claimed */
    struct sw_rate evictions;      /* lines of the log, like the next two */
    struct sw_log_limit refused;
    struct sw_log_limit refused_proved;
    size_t n_clients;
    size_t sent_slots; /* of all tables of ids */
    struct relay_owed owed[RELAY_OWED];
    struct relay_block **out;    /* per worker: being filled; NULL: none */
    _Atomic unsigned *in_flight; /* per worker: blocks on the way to it from here */
    struct relay_block *spare;   /* blocks to use again */
    unsigned n_spare;
    struct sw_defer flush;
    struct sw_http_client *asker; /* NULL: no access URL */
    struct sw_metrics_shard *shard;
    struct relay_stats stats;
};

struct sw_relay {
    const struct sw_relay_config *config;
    struct sw_process process;
    struct sw_filewatch *watches[5];
    struct relay_qad *qad;        /* owned; NULL: no address discovery */
    struct relay_worker *workers; /* owned array */
    size_t n_workers;
    _Atomic size_t n_clients;           /* connections of all workers */
    struct relay_roster_follow *roster; /* owned; NULL: no control plane */
    bool roster_read;
    struct sw_timer reload;
    uint64_t hash_key[2];
};

/* ---- worker.c ---- */
/* One more of r's crew. */
SW_NODISCARD int relay_worker_init(struct relay_worker *w, struct sw_relay *r, struct sw_err *err);
SW_NODISCARD int relay_worker_start(struct relay_worker *w, struct sw_err *err);
/* From the main thread. References are taken over. */
void relay_worker_send_cred(struct relay_worker *w, struct sw_tls_cred *cred);
void relay_worker_send_access(struct relay_worker *w, struct sw_relay_access *access);
void relay_worker_send_roster(struct relay_worker *w, struct relay_roster *roster);
/* After sw_crew_end, each for all workers before the next, because they post to each other's loops:
 * frees the loop, which hands over what was still posted, */
void relay_worker_stop(struct relay_worker *w);
/* and frees the rest. */
void relay_worker_done(struct relay_worker *w);
/*
 * One counter, and one line while there are not too many: strangers do not hide what clients with a
 * proved key are refused for.
 */
void relay_refused(struct relay_worker *w, bool proved, const char *reason, const char *detail);

/* The client may, or may not any more, be closed for a new one. */
void relay_evictable(struct relay_client *c, bool first);
void relay_not_evictable(struct relay_client *c);
/* One of --max-clients is free again. */
void relay_give_place(struct sw_relay *r);

/* ---- client.c ---- */
/* Takes an accepted socket. False: it was refused, and is closed. */
bool relay_client_start(struct relay_worker *w, int fd, const struct sw_addr *peer, bool tls);
/* The key of the connection is proved: access, and the way to its worker. */
void relay_client_proved(struct relay_client *c, const struct sw_nodeid *id);
/* The lists changed: for one that waits for that, or may not stay. */
void relay_client_judge_again(struct relay_client *c);
/* Admits the client. */
void relay_client_admitted(struct relay_client *c);
/* The reason that a client without a right to connect gets; the log has more. */
#define RELAY_UNAUTHORIZED "not authorized"
/* Refuses the client: the reason is sent to it, the detail logged, and both are counted as one. */
void relay_client_denied(struct relay_client *c, const char *reason, const char *detail);
/* Sends the challenge. */
void relay_client_challenge(struct relay_client *c);
/* Something broke the rules: one line, one counter, the end. code: of the close frame. */
void relay_client_refuse(struct relay_client *c, uint16_t code, const char *reason,
                         const char *detail);
/* One line that names the client, and one counter. */
void relay_client_note(const struct relay_client *c, const char *reason, const char *detail);
void relay_client_drain(struct relay_client *c);
void relay_client_kill(struct relay_client *c);
/* Sends a frame of control. */
void relay_client_send(struct relay_client *c, const void *p, size_t n);
void relay_client_status(struct relay_client *c, enum sw_relay_health status);

/* ---- http.c ---- */
/* Bytes before the upgrade; returns how many were used. */
size_t relay_http_bytes(struct relay_client *c, struct sw_slice in);

/* ---- qad.c ---- */
/* *ret is to be freed in any case. The credential is made here, or is sent when there is TLS. */
SW_NODISCARD int relay_qad_new(struct sw_relay *r, struct relay_qad **ret, struct sw_err *err);
SW_NODISCARD int relay_qad_start(struct relay_qad *q, struct sw_err *err);
/* The reference is taken over. */
void relay_qad_send_cred(struct relay_qad *q, struct sw_tls_cred *cred);
/* The value of SW_QAD_FIELD in the answer to an upgrade; as long as q. */
const char *relay_qad_field(const struct relay_qad *q);
/* After sw_crew_end. Accepts NULL. */
void relay_qad_free(struct relay_qad *q);

/* ---- ask.c ---- */
SW_NODISCARD int relay_ask_open(struct relay_worker *w, struct sw_err *err);
/* relay_client_admitted or _denied follows, later. */
void relay_ask(struct relay_client *c);
void relay_ask_cancel(struct relay_ask *a);

/* ---- table.c ---- */
unsigned relay_home(const struct sw_relay *r, const struct sw_nodeid *id);
/* The connection becomes the active one of its id. */
void relay_table_add(struct relay_client *c, const struct sw_nodeid *id);
/* The connection ended: another one of its id takes over, or the ids it sent to are notified. */
void relay_table_remove(struct relay_client *c);
struct relay_id *relay_table_get(struct relay_worker *w, const struct sw_nodeid *id);
/* Remembers that 'from' sent to 'to'. */
void relay_table_sent(struct relay_worker *w, struct relay_id *from, const struct sw_nodeid *to);

/* ---- forward.c ---- */
void relay_forward(struct relay_client *from, const struct sw_relay_frame *f);
/* Notifies 'to', wherever it is, that 'gone' is not here any more. */
void relay_forward_gone(struct relay_worker *w, const struct sw_nodeid *to,
                        const struct sw_nodeid *gone);
void relay_forward_done(struct relay_worker *w);
