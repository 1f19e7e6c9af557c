/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources in, snapshots out. Keeps every xDS resource by type and name, compiles it when it or
 * something it needs changed, holds back what waits for a dependency (the old version goes on
 * serving) and publishes a snapshot at most once per turn of the loop. Main thread only.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "gateway/config/config.h"
#include "io/loop.h"

struct sw_egress;
struct sw_gw_store;
struct sw_metrics_shard;

enum sw_gw_type {
    SW_GW_TYPE_CLUSTER,
    SW_GW_TYPE_ENDPOINTS,
    SW_GW_TYPE_LISTENER,
    SW_GW_TYPE_ROUTES,
    SW_GW_TYPE_SECRET,
};
enum { SW_GW_TYPES = 5 };

/* "envoy.config.cluster.v3.Cluster", ...: the type URL without its prefix. */
const char *sw_gw_type_name(enum sw_gw_type t);
/* False: not a type a gateway consumes. */
SW_NODISCARD bool sw_gw_type_parse(struct sw_slice type_name, enum sw_gw_type *ret);

struct sw_gw_resource {
    struct sw_slice name;
    struct sw_slice version; /* shown in dumps; may be empty */
    struct sw_slice bytes;   /* encoded message; copied */
};

struct sw_gw_store_opts {
    struct sw_loop *loop; /* of the main thread: health checks and name lookups run there too */
    unsigned n_workers;
    struct sw_metrics_shard *shard; /* of the main thread; NULL: clusters are not counted */
    struct sw_egress *egress;       /* borrowed; NULL: clusters may be anywhere */
    uint64_t
        warm_timeout_ns; /* how long to wait for routes and endpoints that do not come [15 s] */
    bool no_io;          /* tests: no health checks, no lookups */
    /* A new snapshot; the callee owns the reference. */
    void (*on_config)(struct sw_gw_config *c, void *arg);
    /*
     * Names of a type that are needed from now on, or no longer: what an xDS client subscribes to
     * (clusters and listeners are wildcard). May be NULL.
     */
    void (*on_wanted)(enum sw_gw_type t, struct sw_slice name, bool wanted, void *arg);
    void *arg;
};

SW_NODISCARD struct sw_gw_store *sw_gw_store_new(const struct sw_gw_store_opts *o);
void sw_gw_store_free(struct sw_gw_store *s);

/*
 * Applies a change of one type, as a delta response carries it. A resource that is refused leaves
 * its old version in force; the others of the same call are applied. SW_EINVAL with "what: where:
 * why" for the first refused one (this text is the NACK).
 */
SW_NODISCARD int sw_gw_store_update(struct sw_gw_store *s, enum sw_gw_type t,
                                    const struct sw_gw_resource *changed, size_t n_changed,
                                    const struct sw_slice *removed, size_t n_removed,
                                    struct sw_err *err);
/* Another listener to what is wanted; only before the first update. */
void sw_gw_store_on_wanted(struct sw_gw_store *s,
                           void (*fn)(enum sw_gw_type t, struct sw_slice name, bool wanted,
                                      void *arg),
                           void *arg);
/* Publishes now what the end of the turn would publish (start-up, tests). */
void sw_gw_store_flush(struct sw_gw_store *s);
/* The snapshot published last (borrowed), NULL before the first. */
struct sw_gw_config *sw_gw_store_config(struct sw_gw_store *s);
/* True while a snapshot with other listeners than the last is about to be published. */
bool sw_gw_store_rebinds(const struct sw_gw_store *s);
/* True once a first set of listeners is serving or was found empty. */
bool sw_gw_store_ready(const struct sw_gw_store *s);

/* Pages of the admin server. Appended to out; SW_ELIMIT when it is full. */
SW_NODISCARD int sw_gw_store_dump(struct sw_gw_store *s, struct sw_buf *out);     /* /config_dump */
SW_NODISCARD int sw_gw_store_clusters(struct sw_gw_store *s, struct sw_buf *out); /* /clusters */

/* ---- resources from files ---- */

struct sw_gw_dir;

/*
 * Loads every *.yaml, *.yml and *.json file of a directory (each holds {"resources": [{"@type":
 * ...}]}, or one resource, or a list of them) and follows changes. The directory is the whole
 * truth: what is in no file goes. A file that does not parse is logged; the others count, and
 * nothing goes until it parses again. NULL when the directory cannot be read or watched.
 */
SW_NODISCARD struct sw_gw_dir *sw_gw_dir_new(struct sw_gw_store *s, struct sw_loop *l,
                                             const char *path, struct sw_err *err);
/* Reads everything again now. SW_EINVAL when something was refused: each thing has been logged. */
SW_NODISCARD int sw_gw_dir_reload(struct sw_gw_dir *d);
void sw_gw_dir_free(struct sw_gw_dir *d);

/* ---- resources from an xDS server ---- */

struct sw_gw_xds;
struct sw_xds_client_opts;

/*
 * Subscribes over delta ADS to all clusters and listeners, and to the routes, endpoints and secrets
 * they name. Options as in xds/client.h. NULL with err. What was learnt stays when the server goes.
 */
SW_NODISCARD struct sw_gw_xds *sw_gw_xds_new(struct sw_gw_store *s, struct sw_loop *l,
                                             const struct sw_xds_client_opts *o,
                                             struct sw_err *err);
struct sw_gateway_config;
/* The same from the options of the command (--xds-addr and friends). */
SW_NODISCARD struct sw_gw_xds *sw_gw_xds_open(struct sw_gw_store *s, struct sw_loop *l,
                                              const struct sw_gateway_config *c,
                                              struct sw_metrics_shard *shard, struct sw_err *err);
bool sw_gw_xds_connected(const struct sw_gw_xds *x);
/* What is wrong with listeners that were accepted (copied); empty: nothing. Goes to the server as
 * the reason of a refusal, and with every answer until it changes. */
void sw_gw_xds_set_trouble(struct sw_gw_xds *x, struct sw_slice text);
/* The workers opened the sockets of the newest listeners, or could not: the server is answered. */
void sw_gw_xds_applied(struct sw_gw_xds *x);
/* Before the store is freed. NULL is fine. */
void sw_gw_xds_free(struct sw_gw_xds *x);
