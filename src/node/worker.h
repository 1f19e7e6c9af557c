/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker: one thread, one loop, its own listeners, pool, counters and view of the state. Workers
 * share nothing that changes; the main thread sends them snapshots and credentials as messages.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/vec.h"
#include "io/accept.h"
#include "io/crew.h"
#include "io/loop.h"
#include "io/sock.h"
#include "node/config.h"
#include "node/errtext.h"
#include "node/ledger.h"
#include "node/lookup.h"
#include "node/route.h"
#include "node/state.h"
#include "policy/policy.h"
#include "telemetry/metrics.h"
#include "tls/cert/cred.h"
#include "tunnel/pool.h"

struct sw_worker;

/*
 * A workload we serve: one per pod namespace, or the only one in dedicated mode. Counted; nothing
 * changes once workers know it.
 */
struct sw_pod {
    atomic_uint refs;
    char *uid; /* the agent's, or "ns/name/sa"; owned */
    char *ns;  /* owned, like the next ones */
    char *name;
    char *sa;
    int netns_fd;     /* owned; -1: our own namespace */
    bool self;        /* the node's own workload: HBONE only, no spoofing */
    bool transparent; /* the kernel lets us use addresses that are not ours */
};

/* With one reference; copies the texts, takes the descriptor. */
struct sw_pod *sw_pod_new(const char *uid, const struct sw_node_workload *who, int netns_fd);
struct sw_pod *sw_pod_ref(struct sw_pod *p);
/* Accepts NULL; always returns NULL. */
struct sw_pod *sw_pod_unref(struct sw_pod *p);
/* The record of the pod, or NULL: not known (yet). */
const struct sw_workload *sw_pod_workload(const struct sw_state *s, const struct sw_pod *p);

/* The text of the log for that. */
static inline const char *sw_pod_unknown(const struct sw_pod *p, char out[SW_ERRTEXT])
{
    return sw_errtext_unknown(p->sa, p->ns, p->name, out);
}

/* A connection that waits until its pod has a certificate, or cannot have one. */
struct sw_cred_wait {
    struct sw_list link;
    struct sw_timer deadline;
    struct sw_wpod *pod;
    /* pod->cred is there, or NULL and 'error' says why. */
    void (*cb)(struct sw_cred_wait *wait, const char *error);
};

enum sw_listen_kind {
    SW_LISTEN_OUTBOUND, /* 15001 */
    SW_LISTEN_PLAIN,    /* 15006 */
    SW_LISTEN_HBONE,    /* 15008 */
    SW_LISTEN_SOCKS5,   /* 15080 */
};
enum { SW_LISTEN_KINDS = 4 };

struct sw_listener {
    struct sw_acceptor acceptor;
    struct sw_wpod *pod;
    enum sw_listen_kind kind;
};

/* The listening sockets of a pod for one worker, by kind; -1: none. */
struct sw_pod_sockets {
    int fd[SW_LISTEN_KINDS];   /* owned */
    int mark[SW_LISTEN_KINDS]; /* owned: of the shared port */
};

/* A worker's view of a pod. */
struct sw_wpod {
    struct sw_list link; /* in the worker's pods, or its graves */
    struct sw_worker *worker;
    struct sw_pod *pod;              /* a reference */
    const struct sw_workload *local; /* in worker->state; NULL while unknown */
    struct sw_tls_cred *cred;        /* owned; NULL while none was issued */
    char *cred_error;                /* owned; why there is none; NULL: it is being fetched */
    bool needed;                     /* the main thread knows that connections wait for it */
    struct sw_listener listeners[SW_LISTEN_KINDS];
    size_t users; /* connections that name it */
};

enum { SW_CONNECT_S = 10 }; /* how long any TCP connect may take */

/*
 * Something a policy change may end. Linked into the worker while the connection is open; 'deny'
 * must close it.
 */
struct sw_guard {
    struct sw_list link;
    struct sw_wpod *pod;         /* the destination */
    const struct sw_ip *src_ip;  /* lives as long as the guard */
    const struct sw_spiffe *src; /* NULL: plaintext. Lives as long as the guard */
    struct sw_addr dst;
    bool waypoint; /* dst is what the caller asked for: waypoint enforcement applies to it */
    void (*deny)(struct sw_guard *g, const char *why);
};

/* Any open connection, so that a drain can end it. */
enum sw_live_protocol { SW_LIVE_TCP, SW_LIVE_HBONE, SW_LIVE_DOUBLE_HBONE, SW_LIVE_SOCKS5 };

struct sw_live_ops;

struct sw_live {
    struct sw_list link;
    struct sw_wpod *pod;
    struct sw_addr src;
    struct sw_addr original_dst;
    struct sw_addr actual_dst;
    bool inbound;
    uint8_t protocol; /* enum sw_live_protocol */
    bool tuned;       /* the dialled socket has its keep-alive */
    const struct sw_live_ops *ops;
};

struct sw_live_ops {
    /* Closes it. */
    void (*end)(struct sw_live *l, const char *why);
    /* The socket that was dialled for it, -1 when there is none (yet). May be NULL. */
    int (*dialled)(struct sw_live *l);
};

/* A connection that arrived before its workload was known. */
struct sw_parked {
    struct sw_list link;
    struct sw_timer deadline;
    struct sw_listener *listener;
    struct sw_worker *worker;
    int fd;
    struct sw_addr peer;
};

struct sw_worker {
    struct sw_crew_thread thread;
    const struct sw_node_config *config;
    struct sw_egress *egress; /* the node's */
    struct sw_loop *loop;     /* the thread's */
    struct sw_state *state;   /* owned reference */
    struct sw_route_env env;
    struct sw_pool *pool;
    struct sw_metrics_shard *shard;
    struct sw_metric *pool_hits;
    struct sw_metric *pool_misses;
    struct sw_metric *pool_retired;
    struct sw_metric *accept_pauses;
    struct sw_metric *fast_path;
    struct sw_metric *sockets[2]; /* by reporter */
    struct sw_list pods;          /* struct sw_wpod, owned */
    struct sw_list graves;        /* removed ones, freed when nothing names them any more */
    struct sw_timer bury;
    struct sw_ledger_book book;
    struct sw_list guards;
    struct sw_list lives;
    struct sw_timer tune;   /* runs while a connection waits for its keep-alive */
    struct sw_list servers; /* inbound HBONE connections */
    struct sw_list parked;
    struct sw_list cred_waits;
    struct sw_lookup_book lookups; /* on demand: connections that wait for the control plane */
    size_t n_lives;                /* with the parked ones */
    size_t n_parked;
    size_t n_servers;
    size_t n_handshakes; /* of these, TLS not done yet */
    struct sw_accept_group accept;
    struct sw_session_config session_config;
    struct sw_sock_opts sock; /* mark, keep-alive; netns is set per use */
    struct sw_loop *main;     /* this and the next two: of the setup */
    void (*on_need)(void *arg, struct sw_pod *pod);
    void *need_arg;
};

/* Options for a socket to the outside, made in the pod's namespace. */
struct sw_sock_opts sw_worker_sock(const struct sw_worker *w, const struct sw_wpod *p);
/* The same for one connection of an application: keep-alive is set later, if it lasts. */
struct sw_sock_opts sw_worker_dial_sock(const struct sw_worker *w, const struct sw_wpod *p);
/* The pod of this worker that serves the workload, or NULL: it is not on this node. */
struct sw_wpod *sw_worker_pod_of(struct sw_worker *w, const struct sw_workload *wl);
/* Evaluates the policies of the destination pod. False: denied, verdict->text says why. */
bool sw_worker_authorise(struct sw_worker *w, const struct sw_wpod *dst, const struct sw_ip *src_ip,
                         const struct sw_spiffe *src, const struct sw_addr *to,
                         struct sw_policy_verdict *verdict);

/* Connections that waited for what the pods lacked are served now. */
void sw_worker_serve_parked(struct sw_worker *w);
/* A connection needs the certificate the pod lacks: the main thread gets a message, once. */
void sw_worker_need_cred(struct sw_wpod *p);
/* Waits for the pod's certificate, which it lacks now. The callback comes later, unless cancelled.
 */
void sw_worker_wait_cred(struct sw_wpod *p, struct sw_cred_wait *wait,
                         void (*cb)(struct sw_cred_wait *wait, const char *error));
/* One that does not wait is fine. */
void sw_worker_cancel_wait(struct sw_worker *w, struct sw_cred_wait *wait);
/* The pod's certificate, or why there is none, arrived; takes both over. */
void sw_worker_take_cred(struct sw_wpod *p, struct sw_tls_cred *cred, char *error);

void sw_live_add(struct sw_worker *w, struct sw_live *l);
void sw_live_remove(struct sw_worker *w, struct sw_live *l);

/* ---- life, called by the main thread ---- */
/* What all workers of a node start with; borrowed for their life. */
struct sw_worker_setup {
    const struct sw_node_config *config;
    struct sw_crew *crew;
    struct sw_metrics *metrics;
    struct sw_egress *egress;
    struct sw_state *state; /* a reference is taken */
    /* On the main loop: a connection waits for the certificate of this pod (a
     * reference, the callee's). */
    struct sw_loop *main;
    void (*on_need)(void *arg, struct sw_pod *pod);
    void *arg;
    void (*lookup)(void *arg, struct sw_slice key); /* on demand only */
    void *lookup_arg;
};
/* One more of the crew. */
SW_NODISCARD int sw_worker_init(struct sw_worker *w, const struct sw_worker_setup *from,
                                struct sw_err *err);
/* Accepts and runs. */
SW_NODISCARD int sw_worker_start(struct sw_worker *w, struct sw_err *err);
/* Frees what the worker has; after sw_crew_end. */
void sw_worker_done(struct sw_worker *w);
/* Messages; each takes over the references and sockets it is given. */
void sw_worker_send_state(struct sw_worker *w, struct sw_state *s);
/* Serves the pod from now on. */
void sw_worker_send_pod(struct sw_worker *w, struct sw_pod *p,
                        const struct sw_pod_sockets *sockets);
/* Ends everything of the pod at once: it is gone. */
void sw_worker_send_pod_gone(struct sw_worker *w, struct sw_pod *p);
/* c NULL: there is none, and 'error' (copied) says why; both NULL: it is being fetched. */
void sw_worker_send_cred(struct sw_worker *w, struct sw_pod *p, struct sw_tls_cred *c,
                         const char *error);
/* A lookup has its answer; key is copied. */
void sw_worker_send_found(struct sw_worker *w, struct sw_slice key, enum sw_lookup_end end);
/* Lookups that were answered are made again when they are needed. */
void sw_worker_send_forget(struct sw_worker *w);

/* ---- inside the worker ---- */
/* A connection of a listener: serves or parks it, or turns it away. */
void sw_worker_accepted(struct sw_acceptor *a, int fd, const struct sw_addr *peer);
/* Closes the connections that wait for the pod; NULL: for any. */
void sw_worker_close_parked(struct sw_worker *w, const struct sw_wpod *pod);
/* Frees all pods; the loop is gone. */
void sw_worker_free_pods(struct sw_worker *w);
