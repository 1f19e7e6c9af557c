/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the node's main thread share. */
#pragma once

#include "base/vec.h"
#include "io/filewatch.h"
#include "io/loop.h"
#include "node/cert/certs.h"
#include "node/dns/proxy.h"
#include "node/mesh/source.h"
#include "node/node.h"
#include "node/worker.h"
#include "telemetry/process.h"

/* Processes of this role may hand ports over to each other (io/port.h). */
#define NODE_PORT_GROUP "node"

struct node_zds;

/* A pod as the main thread knows it. */
struct node_pod {
    struct sw_pod *pod; /* a reference */
    const char *path;   /* of its namespace, from --pod; borrowed. NULL: it came otherwise */
    bool by_agent;      /* handed over by the node agent */
    bool up;            /* workers serve it; otherwise it is tried again */
    bool published;     /* workers have its credential, or know that there is none */
    uint64_t seen;      /* the agent's connection that named it last */
    struct sw_err why;  /* not up: the reason */
};

struct sw_node {
    const struct sw_node_config *config; /* borrowed */
    struct sw_process process;
    struct sw_egress *egress; /* judges what host names of workloads resolve to */
    struct sw_certs *certs;
    struct sw_filewatch *watch;
    struct sw_mesh *mesh; /* the control plane; NULL: there is a file instead */
    struct sw_state *state;
    struct sw_slice text; /* of the local configuration as loaded; owned */
    SW_VEC(struct node_pod) pods;
    struct sw_timer retry;   /* of pods that are not up */
    uint64_t retry_ms;       /* until the next one */
    struct sw_defer refresh; /* identities of pods that came or went */
    struct node_zds *zds;    /* NULL: no agent */
    struct sw_worker *workers;
    size_t n_workers;
    struct sw_dns_proxy *dns; /* NULL: off */
    bool serving;             /* ports are open, workers run */
    bool trimmed;             /* the heap, after start-up */
    struct sw_err fault;      /* why it had to stop; rc 0: it had not */
    struct sw_timer tick;
    uint64_t dropped_said; /* log lines lost, as last counted */
};

/* pods/listen.c: what is possible in the pod's namespace, and its listening sockets. */
SW_NODISCARD int node_probe_pod(const struct sw_node_config *c, struct sw_pod *p,
                                struct sw_err *err);
/* All sockets of a pod, a set for each worker, or none. */
SW_NODISCARD int node_open_sockets(struct sw_node *n, const struct sw_pod *p,
                                   struct sw_pod_sockets *all, struct sw_err *err);
void node_close_sockets(struct sw_pod_sockets *all, size_t n);

/* pods/pods.c: which pods there are. */
enum { NODE_PODS_MAX = 4096 };
/*
 * The pods of the command line. One whose namespace is gone, or whose ports are taken, is left out
 * and tried again; it is an error when no pod at all can be served.
 */
SW_NODISCARD int node_pods_start(struct sw_node *n, struct sw_err *err);
/*
 * Serves a pod of the agent; takes the descriptor. The same namespace again changes nothing,
 * another one replaces it. On failure the pod is kept and tried again (but for SW_ELIMIT).
 */
SW_NODISCARD int node_pods_add(struct sw_node *n, const char *uid,
                               const struct sw_node_workload *who, int netns_fd,
                               struct sw_err *err);
/* Ends a pod of the agent at once. False: there is none. */
bool node_pods_del(struct sw_node *n, const char *uid);
/* The agent's connection 'seen' named the pod; an unknown one is no matter. */
void node_pods_mark(struct sw_node *n, const char *uid, uint64_t seen);
/* Ends every pod of the agent that its connection 'seen' did not name. */
void node_pods_sweep(struct sw_node *n, uint64_t seen);
void node_pods_done(struct sw_node *n);

/* node.c: identities for pods that came or went, from the loop. */
void node_pods_changed(struct sw_node *n);

/* pods/zds.c: the client of the node agent. */
SW_NODISCARD struct node_zds *node_zds_new(struct sw_node *n, const char *path);
void node_zds_free(struct node_zds *z);

/* dump.c: /config_dump. */
int node_config_dump(struct sw_buf *out, void *arg);
