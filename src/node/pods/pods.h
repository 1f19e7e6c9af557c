/* SPDX-License-Identifier: Apache-2.0 */
/* The pods of a node on its main thread: which there are, their sockets, and the node agent. */
#pragma once

#include "node/main.h"

/* ---- listen.c: what is possible in the pod's namespace, and its listening sockets ---- */
SW_NODISCARD int node_probe_pod(const struct sw_node_config *c, struct sw_pod *p,
                                struct sw_err *err);
/* All sockets of a pod, a set for each worker, or none. */
SW_NODISCARD int node_open_sockets(struct sw_node *n, const struct sw_pod *p,
                                   struct sw_pod_sockets *all, struct sw_err *err);
void node_close_sockets(struct sw_pod_sockets *all, size_t n);

/* ---- pods.c: which pods there are ---- */
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

/* ---- zds.c: the client of the node agent ---- */
SW_NODISCARD struct node_zds *node_zds_new(struct sw_node *n, const char *path);
void node_zds_free(struct node_zds *z);
