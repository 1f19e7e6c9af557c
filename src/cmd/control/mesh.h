/* SPDX-License-Identifier: Apache-2.0 */
/* The mesh's part of `spanwire control`: workloads and services for nodes, on the xDS server. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "opts/opts.h"

struct sw_control_mesh;
struct sw_kube_client;
struct sw_metrics_shard;
struct sw_xds_cache;

struct sw_control_mesh_opts {
    const char *cluster_id;
    const char *trust_domain;
    const char *domain;  /* of Services */
    const char *root_ns; /* whose label names the network */
    const char *network; /* where that label is missing; NULL: "" */
    struct sw_opt_list global;
    bool clusters;
    const char *revision; /* of Istio's objects that are read; NULL: all */
    bool statuses;        /* write conditions and addresses */
    bool allocate;        /* addresses for ServiceEntries */
    const char *prefix4;
    const char *prefix6;
    struct sw_opt_list visibility;
    bool dry_run;         /* policies annotated as dry-run are sent */
    bool allow_waypoints; /* workloads behind a waypoint accept only the waypoint */
    /* Not flags of their own: */
    const char *lease_ns; /* leader election; NULL: we are alone and lead */
    const char *identity; /* in the lease; NULL: made up */
};

/* Everything is borrowed and must outlive it, o included. NULL with what was wrong. */
SW_NODISCARD struct sw_control_mesh *sw_control_mesh_new(struct sw_kube_client *client,
                                                         struct sw_xds_cache *cache,
                                                         struct sw_metrics_shard *metrics,
                                                         const struct sw_control_mesh_opts *o,
                                                         struct sw_err *err);
/* Stops reading and writing; done comes from the loop. */
void sw_control_mesh_stop(struct sw_control_mesh *m, void (*done)(void *arg), void *arg);
/* NULL is fine. */
void sw_control_mesh_free(struct sw_control_mesh *m);
