/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the node's main thread share. */
#pragma once

#include "io/filewatch.h"
#include "io/loop.h"
#include "io/signal.h"
#include "node/cert/certs.h"
#include "node/dns/proxy.h"
#include "node/mesh/source.h"
#include "node/node.h"
#include "node/worker.h"
#include "telemetry/admin.h"
#include "telemetry/metrics.h"
#include "telemetry/ready.h"

/* Processes of this role may hand ports over to each other (io/port.h). */
#define NODE_PORT_GROUP "node"

struct sw_node {
    const struct sw_node_config *config; /* borrowed */
    struct sw_loop *loop;
    struct sw_signals *signals;
    struct sw_metrics *metrics;
    struct sw_metrics_shard *shard;
    struct sw_ready *ready;
    struct sw_admin *admin;
    struct sw_egress *egress; /* judges what host names of workloads resolve to */
    struct sw_certs *certs;
    struct sw_filewatch *watch;
    struct sw_mesh *mesh; /* the control plane; NULL: there is a file instead */
    struct sw_state *state;
    struct sw_slice text; /* of the local configuration as loaded; owned */
    struct sw_pod *pods;
    size_t n_pods;
    struct sw_crew crew;
    struct sw_worker *workers;
    size_t n_workers;
    struct sw_dns_proxy *dns; /* NULL: off */
    bool serving;             /* ports are open, workers run */
    struct sw_err fault;      /* why it had to stop; rc 0: it had not */
    struct sw_timer tick;
    uint64_t dropped_said; /* log lines lost, as last counted */
};

/* listen.c: the pods and their listening sockets. */
SW_NODISCARD int node_open_pods(struct sw_node *n, struct sw_err *err);
SW_NODISCARD int node_open_listeners(struct sw_node *n, struct sw_err *err);
void node_close_pods(struct sw_node *n);
/* dump.c: /config_dump. */
int node_config_dump(struct sw_buf *out, void *arg);
