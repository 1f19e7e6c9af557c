/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mesh's controller: watches the API, keeps an xDS cache filled with Address resources and
 * writes statuses back. Nothing is published before everything was read once: a node that comes
 * back would take what is missing for removed. Everything runs on the loop of the client.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "control/mesh/status.h"

struct sw_kube_client;
struct sw_mesh_controller;
struct sw_mesh_index;
struct sw_metrics_shard;
struct sw_xds_cache;

struct sw_mesh_controller_opts {
    struct sw_mesh_status_conf conf;
    struct sw_xds_cache *cache;
    struct sw_metrics_shard *metrics; /* may be NULL */
    bool statuses;                    /* write them, as the leader */
    bool clusters;                    /* read those that Secrets name, too */
    bool threaded;                    /* build statuses on a thread of its own */
    struct sw_control_election election;
};

/* NULL with SW_EINVAL. Everything is borrowed and must outlive it. */
SW_NODISCARD struct sw_mesh_controller *
sw_mesh_controller_new(struct sw_kube_client *c, const struct sw_mesh_controller_opts *o,
                       struct sw_err *err);
void sw_mesh_controller_start(struct sw_mesh_controller *m);
/* Stops reading, publishing and writing; done (may be NULL) comes from the loop. */
void sw_mesh_controller_stop(struct sw_mesh_controller *m, void (*done)(void *arg), void *arg);
/* NULL is fine. */
void sw_mesh_controller_free(struct sw_mesh_controller *m);
