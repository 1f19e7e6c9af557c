/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the gateway role. */
#pragma once

#include <stdatomic.h>

#include "gateway/config_store.h"
#include "gateway/gateway.h"
#include "gateway/worker.h"
#include "io/signal.h"
#include "telemetry/admin.h"

struct sw_gateway {
    const struct sw_gateway_config *config;
    struct sw_loop *loop;
    struct sw_signals *signals;
    struct sw_metrics *metrics;
    struct sw_metrics_shard *shard;
    struct sw_ready *ready;
    struct sw_admin *admin;
    struct sw_gw_store *store;
    struct sw_gw_dir *dir; /* one of this and the next is set */
    struct sw_gw_xds *xds;
    struct sw_gw_worker *workers; /* owned array */
    size_t n_workers;
    _Atomic size_t idle_workers;
    _Atomic size_t serving; /* workers that applied a first configuration */
    _Atomic size_t unbound; /* listening sockets workers could not open */
    struct sw_msg idle_msg;
    struct sw_msg serving_msg;
    struct sw_timer drain_deadline;
    bool draining;
    bool said_ready;
};

/* A worker finished draining; from its thread. */
void sw_gateway_worker_idle(struct sw_gateway *g);
/* So many more (or fewer) sockets of a worker could not be opened; from its thread. The gateway is
 * not ready while there are any. */
void sw_gateway_unbound(struct sw_gateway *g, int change);
/* A worker applied its first configuration; from its thread. */
void sw_gateway_worker_serves(struct sw_gateway *g);
