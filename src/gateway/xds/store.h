/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources in, snapshots out. Keeps every xDS resource by type and name, compiles it when it or
 * something it needs changed, holds back what waits for a dependency (the old version keeps
 * serving) and publishes a snapshot at most once per turn of the loop. Main thread only.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "gateway/config/build.h"
#include "gateway/config/config.h"
#include "io/loop.h"

struct sw_egress;
struct sw_gw_store;
struct sw_metrics_shard;

/* The names of a type: its URL without the prefix, on /config_dump, and in metrics. */
struct sw_gw_type_names {
    const char *url;
    const char *title;
    const char *label;
};
extern const struct sw_gw_type_names sw_gw_type_names[SW_GW_TYPES];
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

/* A change of one type, as a delta response carries it. */
struct sw_gw_delta {
    enum sw_gw_type type;
    const struct sw_gw_resource *changed;
    size_t n_changed;
    const struct sw_slice *removed; /* names; may be unknown */
    size_t n_removed;
};

/*
 * Applies a change. A resource that is refused leaves its old version in force; the others of the
 * same call are applied. SW_EINVAL with "what: where: why" for the first refused one (this text is
 * the NACK).
 */
SW_NODISCARD int sw_gw_store_update(struct sw_gw_store *s, const struct sw_gw_delta *d,
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
/* Brings the metrics of clusters up to date; on the main thread, whose shard the store has. */
void sw_gw_stats_scrape(struct sw_gw_store *s);
