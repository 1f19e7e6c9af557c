/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the store, for the files that dump it. */
#pragma once

#include "base/list.h"
#include "base/vec.h"
#include "gateway/config/build.h"
#include "gateway/config/cred.h"
#include "gateway/xds/store.h"

struct sw_gw_res {
    struct sw_gw_store *store;
    enum sw_gw_type type;
    struct sw_slice name; /* owned, like the next two */
    struct sw_slice version;
    struct sw_slice bytes; /* newest that were accepted */
    SW_VEC(struct sw_gw_dep) deps;
    bool warming; /* waits for something; the object below is of an older version, or NULL */
    bool warm_logged;
    bool touched; /* is in the store's list */
    uint64_t warm_since_ns;
    struct sw_list unwanted; /* linked: nothing mentions it, and it is not kept up to date */
    uint64_t unwanted_ns;    /* since when */
    /* By type. */
    struct sw_gw_listener *listener;
    struct sw_gw_routes *routes;
    struct sw_gw_cluster *cluster;
    struct sw_gw_cluster_spec *spec;
    struct sw_gw_cluster_state *state;
    struct sw_gw_tls *tls;
    struct sw_gw_dns *dns;
    struct sw_gw_health *health;
    struct sw_gw_cstats *cstats; /* of stats.c; NULL: nothing to report */
};

/* A cluster that is no longer configured, while its last requests end. */
struct sw_gw_gone {
    struct sw_slice name;              /* owned */
    struct sw_gw_cluster_state *state; /* a reference */
    struct sw_gw_cstats *cstats;       /* what was reported, without gauges */
};

struct sw_gw_store {
    struct sw_gw_store_opts o;
    void *wanted_arg;                    /* of on_wanted */
    struct sw_map res[SW_GW_TYPES];      /* name -> struct sw_gw_res */
    struct sw_map needs[SW_GW_TYPES];    /* name -> resources that reference it */
    struct sw_gw_set *sets[SW_GW_TYPES]; /* of listeners and routes */
    struct sw_gw_shards *shards;         /* of clusters */
    SW_VEC(struct sw_gw_res *) shard_res[SW_GW_SHARDS];
    bool shard_dirty[SW_GW_SHARDS];
    bool dirty[SW_GW_TYPES];
    bool seen[SW_GW_TYPES];
    struct sw_gw_config *current; /* a reference */
    uint64_t version;
    uint64_t refused[SW_GW_TYPES];
    uint64_t refused_reported[SW_GW_TYPES]; /* as the metrics know it */
    size_t n_cstats;
    SW_VEC(struct sw_gw_gone) gone;
    uint64_t lost_reported;             /* lines of access logs, as the metrics know it */
    SW_VEC(struct sw_gw_res *) touched; /* by the update under way */
    struct sw_list unwanted;            /* tables of routes; the oldest first */
    struct sw_gw_creds creds;           /* credentials by content */
    struct sw_gw_source source;         /* what compilers see of this */
    struct sw_defer publish;
    struct sw_timer warm;
};

/* A name and the resources that mention it. */
struct sw_gw_need {
    struct sw_slice name; /* owned */
    SW_VEC(struct sw_gw_res *) users;
};

/* NULL: there is none. */
struct sw_gw_res *sw_gw_store_find(const struct sw_gw_store *s, enum sw_gw_type t,
                                   struct sw_slice name);
/* r mentions nothing any more. */
void sw_gw_drop_deps(struct sw_gw_store *s, struct sw_gw_res *r);
/* What r mentions from now on; takes the list over from b. */
void sw_gw_replace_deps(struct sw_gw_store *s, struct sw_gw_res *r, struct sw_gw_build *b);
/* It has no subscriber any more. */
void sw_gw_store_unwant(struct sw_gw_store *s, enum sw_gw_type t, struct sw_slice name);
/* Something of this type is different in the next snapshot, which comes at the end of the turn. */
void sw_gw_store_changed(struct sw_gw_store *s, enum sw_gw_type t);
/* The same for one cluster: only those that share its shard are collected again. */
void sw_gw_store_changed_cluster(struct sw_gw_store *s, struct sw_slice name);

/* ---- store_stats.c ---- */

/*
 * The cluster r is removed. Its gauges go with it; what its last requests count is reported until
 * the last of them ends.
 */
void sw_gw_stats_leave(struct sw_gw_store *s, struct sw_gw_res *r);
/* Reports what removed clusters counted since, and forgets those without users. */
void sw_gw_stats_sweep(struct sw_gw_store *s);
/* With the store: forgets all of them. */
void sw_gw_stats_done(struct sw_gw_store *s);
