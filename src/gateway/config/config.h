/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiled configuration of a gateway: one immutable, reference counted snapshot that every
 * worker reads without locks. Parts that did not change are shared between snapshots, so that a new
 * route table costs one route table. Nothing here changes after it was published, with two
 * exceptions that say so: counters of hosts and clusters (cluster.h).
 *
 * Made by the store (xds/store.h) from xDS resources; workers get it by message.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/map.h"
#include "gateway/config/listener.h"
#include "gateway/config/parts.h"

struct sw_gw_cluster;
struct sw_gw_routes;

/* Name -> object, each entry a reference. Shared by the snapshots in which nothing of the kind
 * changed. */
struct sw_gw_set {
    _Atomic uint32_t refs;
    struct sw_map map;
    void (*unref)(void *value);
};

/* Clusters are many and change one by one: sets by hash of the name, most of them shared with the
 * snapshot before. */
enum { SW_GW_SHARDS = 256 };
struct sw_gw_shards {
    _Atomic uint32_t refs;
    uint64_t serial; /* of the version in which a cluster changed last */
    struct sw_gw_set *set[SW_GW_SHARDS];
};

struct sw_gw_config {
    _Atomic uint32_t refs;
    uint64_t version;              /* counts up */
    struct sw_gw_set *listeners;   /* struct sw_gw_listener */
    struct sw_gw_set *routes;      /* struct sw_gw_routes */
    struct sw_gw_shards *clusters; /* struct sw_gw_cluster */
    struct sw_gw_listener **list;  /* the listeners sorted by name; borrowed from the set */
    size_t n_list;
};

/* Returns NULL. */
struct sw_gw_set *sw_gw_set_unref(struct sw_gw_set *s);
struct sw_gw_shards *sw_gw_shards_unref(struct sw_gw_shards *s);
/* Which of the sets a name is in. */
unsigned sw_gw_shard_of(struct sw_slice name);
struct sw_gw_config *sw_gw_config_ref(struct sw_gw_config *c);
/*
 * Accepts NULL, returns NULL. The last reference frees the parts that no other snapshot holds; from
 * any thread.
 */
struct sw_gw_config *sw_gw_config_unref(struct sw_gw_config *c);

/* All borrowed from the snapshot; NULL: there is none. */
const struct sw_gw_listener *sw_gw_config_listener(const struct sw_gw_config *c,
                                                   struct sw_slice name);
const struct sw_gw_routes *sw_gw_config_routes(const struct sw_gw_config *c,
                                               const struct sw_gw_hcm *hcm);
struct sw_gw_cluster *sw_gw_config_cluster(const struct sw_gw_config *c, struct sw_slice name);
