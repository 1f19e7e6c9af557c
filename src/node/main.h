/* SPDX-License-Identifier: Apache-2.0 */
/* The node as the files of its main thread share it. */
#pragma once

#include "base/vec.h"
#include "io/filewatch.h"
#include "io/loop.h"
#include "node/cert/certs.h"
#include "node/config.h"
#include "node/dns/dns.h"
#include "node/mesh/source.h"
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
