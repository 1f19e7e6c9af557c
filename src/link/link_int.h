/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the link role. The main thread follows the control plane over xDS and makes
 * snapshots; workers, which share nothing, listen, authorise and carry. Files:
 *
 *   xds.c      snapshots from the control plane          worker.c   a thread and its listeners
 *   import.c   a client's connection to another site     reach.c    a carrier to a peer's gateway
 *   server.c   the external port; server_h1.c, _h2.c are the two protocols, server_export.c one
 *              request on it
 *   control.c  questions to the control plane: control_http.c, control_check.c are the two forms
 *   review.c   open connections judged again             conn.c     log line and counters of one
 */
#pragma once

#include <stdatomic.h>

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/vec.h"
#include "io/accept.h"
#include "io/crew.h"
#include "io/port.h"
#include "link/control.h"
#include "link/link.h"
#include "link/snap.h"
#include "telemetry/process.h"
#include "tunnel/pool.h"

struct link_review;
struct link_worker;
struct link_xds;
struct sw_egress;
struct sw_filewatch;

enum {
    LINK_LISTEN_MAX = 8,    /* external addresses, and addresses of imports */
    LINK_PEER_NAME = 256,   /* a DNS name with its end */
    LINK_HANDSHAKES = 1024, /* per worker */
};

/* ---- conn.c: what every connection has, whichever way it goes ---- */

struct link_conn {
    struct sw_list link; /* worker->conns */
    struct link_worker *w;
    uint64_t id;
    bool import;
    bool open; /* bytes flow: it counts as open and is reviewed */
    uint64_t start_ns;
    struct sw_addr src;
    struct sw_addr dst;
    struct sw_slice peer;    /* this and the next four are owned */
    struct sw_slice service; /* "namespace/name" */
    struct sw_slice source;  /* who the control plane says the client is */
    struct sw_slice policy;
    char *grant;
    uint64_t epochs;   /* the worker's when the control plane was asked */
    uint64_t received; /* from the connecting side */
    uint64_t sent;
    struct sw_metric *m_received;
    struct sw_metric *m_sent;
    /* Closes it with that reason, which is logged; link_conn_end is called in it. */
    void (*kill)(struct link_conn *c, const char *result, const char *why);
};

void link_conn_init(struct link_conn *c, struct link_worker *w, bool import,
                    const struct sw_addr *src);
/* May there be another one? False: that is logged and counted. */
bool link_conn_room(struct link_worker *w, const struct sw_addr *from);
/* Replaces an owned text. */
void link_conn_set(struct sw_slice *to, struct sw_slice value);
/* The control plane is about to be asked; and it allowed the connection. */
void link_conn_asked(struct link_conn *c);
void link_conn_granted(struct link_conn *c, struct sw_slice grant);
/* Bytes flow from here on. */
void link_conn_opened(struct link_conn *c);
void link_conn_moved(struct link_conn *c, size_t received, size_t sent);
/* The line, the counters, the end of its texts. result: a label; why: NULL, ended well. */
void link_conn_end(struct link_conn *c, const char *result, const char *why);
/* The result of a connection that the control plane's answer ends: denied, or not decided. */
const char *link_refusal(const struct link_answer *a);
/* Refused before there was a connection: a counter, and a line at most ten times a second. */
void link_refused(struct link_worker *w, const char *reason, const struct sw_addr *from,
                  const char *detail);

/* ---- worker.c ---- */

/* An external address. */
struct link_port {
    struct sw_acceptor acceptor;
    struct link_worker *w;
};

/* What a worker learnt about a peer. */
struct link_far {
    struct sw_slice name; /* owned */
    bool h1;              /* it agreed on no HTTP/2 the last time */
    unsigned turn;        /* the gateway to begin with */
};

/* A gateway that failed lately. */
struct link_bad {
    struct sw_addr at;
    uint64_t until_ns;
};

struct link_worker {
    struct sw_crew_thread thread;
    struct sw_link *link;
    const struct sw_link_config *config;
    struct sw_loop *loop;
    struct sw_accept_group accept;
    struct link_port ports[LINK_LISTEN_MAX];
    size_t n_ports;
    struct sw_list sockets; /* of imports: link_socket */
    struct sw_timer rebind;
    struct link_snap *snap; /* a reference; NULL before the first */
    struct link_control *control;
    struct link_review *review;
    struct sw_pool *pool;
    struct sw_map far; /* link_far by name */
    SW_VEC(struct link_bad) bad;
    struct sw_list conns; /* link_conn */
    struct sw_list servers;
    size_t n_conns;
    size_t n_servers;
    size_t n_handshakes;
    struct sw_map peers; /* peer_load by name: connections of each that came in */
    uint64_t next_id;
    uint64_t epochs; /* how often the epoch changed */
    struct sw_log_limit refused;
    struct sw_metrics_shard *shard;
};

SW_NODISCARD int link_worker_init(struct link_worker *w, struct sw_link *l, struct sw_err *err);
/* After sw_crew_end. */
void link_worker_done(struct link_worker *w);
/* From the main thread; references are taken over. */
void link_worker_send_snap(struct link_worker *w, struct link_snap *s);
void link_worker_send_site(struct link_worker *w, struct sw_tls_cred *cred);

/* ---- listen.c: sockets of imports ---- */

/* Opens and closes sockets so that they fit the snapshot; those that cannot be opened are tried
 * again and concern no other. */
void link_listen_apply(struct link_worker *w);
void link_listen_finish(struct link_worker *w);
void link_listen_close(struct link_worker *w);

/* ---- import.c ---- */

/* Takes an accepted socket and a reference to the import. */
void link_import_start(struct link_worker *w, struct link_res *import, int fd,
                       const struct sw_addr *peer);

/* ---- reach.c ---- */

struct link_reach;
/*
 * One of them: a session with room for a stream, which is opened inside the callback; or a
 * connection of its own, TLS done (the content of *parts is taken); or neither, and err says why
 * no gateway serves.
 */
typedef void (*link_reach_cb)(struct link_reach *r, struct sw_session *s,
                              struct sw_session_parts *parts, const struct sw_err *err);

/* Embedded in what wants the carrier. */
struct link_reach {
    struct sw_pool_wait wait;
    struct link_worker *w;
    struct link_res *peer; /* a reference */
    link_reach_cb cb;
    struct sw_resolve *resolve;
    struct sw_addr addrs[16]; /* of the gateway at hand */
    size_t n_addrs;
    size_t at_addr;
    size_t tried;  /* gateways */
    unsigned turn; /* where it began */
    bool skipped;  /* some failed lately */
    bool second;   /* and are tried all the same */
    struct sw_addr at;
    struct sw_err err;
    bool fed; /* the pool has it */
};

/* cb may come from inside. */
void link_reach_start(struct link_reach *r, struct link_worker *w, struct link_res *peer,
                      link_reach_cb cb);
/* The carrier that was given is of no use: the next one. */
void link_reach_next(struct link_reach *r, const struct sw_err *err);
/* The carrier that was given is going away: another one to the same gateway. */
void link_reach_again(struct link_reach *r);
/* No callback any more; frees what it holds. Harmless on a zeroed one, and twice. */
void link_reach_cancel(struct link_reach *r);
/* The pool's callback for connections that are not HTTP/2. */
void link_reach_other(struct sw_pool_wait *w, struct sw_session_parts *parts);
/* Forgets peers that are no longer configured. */
void link_reach_sweep(struct link_worker *w);

/* ---- server.c ---- */

/* Takes an accepted socket of the external port. */
void link_server_accept(struct link_worker *w, int fd, const struct sw_addr *peer);
void link_servers_drain(struct link_worker *w, bool renewed);
void link_servers_kill(struct link_worker *w);

/* ---- review.c ---- */

struct link_review *link_review_new(struct link_worker *w);
void link_review_free(struct link_review *r);
/* The epoch changed: every open connection is asked about. */
void link_review_start(struct link_review *r);

/* ---- xds.c ---- */

struct link_xds_opts {
    struct sw_loop *loop;
    const struct sw_link_config *config;
    struct sw_tls_cred *cred; /* of the site; a reference is taken */
    struct sw_metrics_shard *shard;
    /* A new snapshot; the callee owns the reference. */
    void (*on_snap)(void *arg, struct link_snap *s);
    void *arg;
};
SW_NODISCARD struct link_xds *link_xds_new(const struct link_xds_opts *o, struct sw_err *err);
void link_xds_free(struct link_xds *x);
void link_xds_set_cred(struct link_xds *x, struct sw_tls_cred *cred);
/* The newest snapshot, borrowed; NULL: none yet. */
struct link_snap *link_xds_snap(const struct link_xds *x);
bool link_xds_connected(const struct link_xds *x);

/* ---- link.c ---- */

struct sw_link {
    const struct sw_link_config *config;
    struct sw_slice control_host;
    uint16_t control_port;
    struct sw_process process;
    struct sw_egress *egress;
    struct sw_tls_cred *site; /* a reference */
    struct sw_filewatch *watches[3];
    struct sw_timer reload;
    struct link_xds *xds;
    struct link_worker *workers; /* owned array */
    size_t n_workers;
    atomic_size_t n_conns; /* of all workers */
    bool served;
    char port_group[SW_PORT_GROUP_MAX];
    struct sw_addr listen[LINK_LISTEN_MAX];
    size_t n_listen;
    struct sw_ip import_ips[LINK_LISTEN_MAX];
    size_t n_import_ips;
};

/* ---- dump.c ---- */

SW_NODISCARD int link_dump(struct sw_link *l, struct sw_buf *out);
