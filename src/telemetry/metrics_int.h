/* SPDX-License-Identifier: Apache-2.0 */
/* What the metric files share. Not for others. */
#pragma once

#include <pthread.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/map.h"
#include "telemetry/metrics.h"

enum {
    FAMILY_TRAFFIC = SW_METRIC_COUNT, /* behind the ids of the table */
    FAMILIES,
    LABEL_MAX = 256, /* bytes of one value */
    LABELS_MAX = 24, /* of one family, reporter and the like apart */
    KEY_MAX = 8 + LABELS_MAX * (LABEL_MAX + 2),
    TRAFFIC_CELLS = sizeof(struct sw_traffic) / sizeof(sw_cell),
};

enum metric_type {
    TYPE_COUNTER,
    TYPE_GAUGE,
    TYPE_HISTOGRAM,
};

struct metric_info {
    enum metric_type type;
    const char *name;
    const char *labels; /* comma separated */
    const char *help;
};
extern const struct metric_info metric_table[SW_METRIC_COUNT];

/* Upper bounds of a histogram's buckets; the cells are one per bound, +Inf, then the sum. */
const double *metric_bounds(enum sw_metric_id id, size_t *ret_n);
size_t metric_label_count(enum sw_metric_id id);

/*
 * One label set of one family. Its owner thread writes the cells; the key never changes.
 * Key: family, reporter, mutual_tls (one byte each, the last two only for traffic), then per
 * label two bytes of length and the value; empty values print as "unknown".
 */
struct sw_metric {
    atomic_uint refs; /* the shard's and running scrapes' */
    unsigned users;   /* traffic: connections that hold it; owner only */
    uint64_t idle_since_ns;
    struct sw_list unused; /* traffic without users, oldest first */
    struct sw_slice key;   /* behind the cells */
    size_t ncells;
    sw_cell cells[];
};

struct sw_metrics_shard {
    struct sw_list link;
    struct sw_metrics *metrics;
    /* Taken for changes of the map by the owner and for reading it by others; never to count. */
    pthread_mutex_t lock;
    struct sw_map map;
    size_t count[FAMILIES];
    struct sw_list unused;
    struct sw_metric *overflow[2]; /* traffic, by reporter; also in the map */
};

struct sw_metrics {
    pthread_mutex_t lock; /* the list of shards, and the two shards of our own */
    struct sw_metrics_opts opts;
    struct sw_list shards;
    struct sw_metrics_shard *retired; /* counts of shards that went */
    struct sw_metrics_shard *own;     /* what a scrape measures itself */
    atomic_bool overflow_logged;
};

/* One label set with the shards' values added up. */
struct row {
    struct sw_metric *metric; /* a reference */
    uint64_t *v;
};

struct snapshot {
    struct sw_arena arena;
    struct sw_map by_key; /* key -> struct row */
};

static inline unsigned char metric_family(const struct sw_metric *m)
{
    return (unsigned char)m->key.p[0];
}

/* Adds the shards up. Ends with snapshot_done. */
void snapshot_take(struct sw_metrics *m, struct snapshot *ret);
void snapshot_done(struct snapshot *s);
