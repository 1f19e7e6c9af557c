/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller of links: runs the build (build.h), keeps an xDS cache filled for the site's data
 * planes, and hands the facts over to authorisation. Everything is called, and calls back, on the
 * loop's thread.
 */
#pragma once

#include "base/err.h"
#include "control/link/link.h"
#include "kube/client/client.h"

struct sw_link_controller;
struct sw_link_facts;
struct sw_metrics_shard;
struct sw_xds_cache;

struct sw_link_controller_opts {
    struct sw_link_conf conf; /* what it points to is borrowed for the controller's life */
    /*
     * Of the data planes, borrowed; a cache of its own. Clusters, listeners and secrets are
     * offered, and it is held until the first build and the identity are there.
     */
    struct sw_xds_cache *cache;
    struct sw_metrics_shard *metrics; /* borrowed, of the loop's thread; may be NULL */
    /* New facts; the reference is borrowed. May be NULL. */
    void (*on_facts)(void *arg, struct sw_link_facts *facts);
    void *arg;
    bool threaded; /* build on a thread of its own */
    struct sw_control_election election;
};

/* NULL with SW_EINVAL. */
SW_NODISCARD struct sw_link_controller *
sw_link_controller_new(struct sw_kube_client *c, const struct sw_link_controller_opts *o,
                       struct sw_err *err);
/* NULL is fine. */
void sw_link_controller_free(struct sw_link_controller *c);
void sw_link_controller_start(struct sw_link_controller *c);

/* What heartbeats found (sw_link_reach_json). Copied. */
void sw_link_controller_set_reach(struct sw_link_controller *c, struct sw_slice json);
/* Addresses that data planes connect from, as text. Copied. */
void sw_link_controller_set_planes(struct sw_link_controller *c, const struct sw_slice *ips,
                                   size_t n);
/* The site's certificate with its chain, its key, and the fabric's CAs, as PEM. */
void sw_link_controller_set_identity(struct sw_link_controller *c, struct sw_slice chain,
                                     struct sw_slice key, struct sw_slice ca);
