/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters, gauges and histograms. Each thread that counts owns a shard; it looks a label set up
 * once (per connection) and then bumps plain cells of its own: a relaxed load and store, no lock,
 * no read-modify-write. A scrape, on another thread, adds the shards up.
 * The number of label sets is bounded: see struct sw_metrics_opts.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "telemetry/metrics_table.h"

struct sw_metrics;
struct sw_metrics_shard;

#define SW_METRIC_ID(id, type, name, labels, help) SW_METRIC_##id,
enum sw_metric_id { SW_METRICS(SW_METRIC_ID) SW_METRIC_COUNT };
#undef SW_METRIC_ID

#define SW_FLAG_ID(id, text) SW_FLAG_##id,
enum sw_response_flag { SW_RESPONSE_FLAGS(SW_FLAG_ID) SW_FLAG_COUNT };
#undef SW_FLAG_ID

enum sw_reporter {
    SW_REPORTER_SOURCE,
    SW_REPORTER_DESTINATION,
};

/* Empty slices come out as "unknown". Values are cut at 256 bytes. */
struct sw_traffic_labels {
    enum sw_reporter reporter;
    bool mutual_tls; /* connection_security_policy */
#define SW_LABEL_FIELD(name) struct sw_slice name;
    SW_TRAFFIC_LABELS(SW_LABEL_FIELD)
    SW_TRAFFIC_LOCALITY(SW_LABEL_FIELD)
#undef SW_LABEL_FIELD
};

/* Zero in a field means the default in brackets. */
struct sw_metrics_opts {
    const char *component;  /* of istio_build ["ztunnel"] */
    const char *tag;        /* of istio_build [our version] */
    size_t max_traffic;     /* traffic label sets per shard [4096] */
    size_t max_series;      /* series of any other metric per shard [1000] */
    uint64_t evict_idle_ns; /* a full table gives up label sets unused for so long [10 min] */
};

SW_NODISCARD struct sw_metrics *sw_metrics_new(const struct sw_metrics_opts *o);
/* All shards must be freed before. NULL is fine. */
void sw_metrics_free(struct sw_metrics *m);

/* A shard for the calling thread (or the one that will be its only user). */
SW_NODISCARD struct sw_metrics_shard *sw_metrics_shard_new(struct sw_metrics *m);
/* Counts stay in the output; gauges go. Cells obtained from it are invalid afterwards. */
void sw_metrics_shard_free(struct sw_metrics_shard *s);

/* One number, written by its owner only. */
typedef _Atomic uint64_t sw_cell;

static inline void sw_cell_add(sw_cell *c, uint64_t n)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* --- traffic ---------------------------------------------------------------------------- */

struct sw_traffic {
    sw_cell opened;
    sw_cell received;
    sw_cell sent;
    sw_cell closed[SW_FLAG_COUNT];
};

/*
 * The counters of a label set; hold them while the connection lives, then release. When the table
 * is full and nothing can be given up the counters are shared ones labelled 'overflow' (logged
 * once). Never NULL.
 */
struct sw_traffic *sw_metrics_traffic(struct sw_metrics_shard *s,
                                      const struct sw_traffic_labels *labels);
/* t must not be used by the caller any more. NULL is fine. */
void sw_metrics_traffic_release(struct sw_metrics_shard *s, struct sw_traffic *t);

static inline void sw_traffic_opened(struct sw_traffic *t)
{
    sw_cell_add(&t->opened, 1);
}

/* received: from the connecting side toward the destination; sent: back to it. */
static inline void sw_traffic_bytes(struct sw_traffic *t, uint64_t received, uint64_t sent)
{
    sw_cell_add(&t->received, received);
    sw_cell_add(&t->sent, sent);
}

/* Counts as failed, too, with any flag but NONE. */
static inline void sw_traffic_closed(struct sw_traffic *t, enum sw_response_flag flag)
{
    sw_cell_add(&t->closed[flag], 1);
}

/* "-", "DENY", ... */
const char *sw_response_flag_text(enum sw_response_flag f);

/* --- everything else -------------------------------------------------------------------- */

/* A counter, gauge or histogram of one label set. Lives as long as its shard. */
struct sw_metric;

/*
 * values: one per label of the metric, in the order of the table (NULL without labels). Look it
 * up once and keep it. Never NULL: a full family hands out one labelled 'overflow'.
 */
struct sw_metric *sw_metric_get(struct sw_metrics_shard *s, enum sw_metric_id id,
                                const struct sw_slice *values);
/* For metrics with at most one label; value may be NULL. */
struct sw_metric *sw_metric_get1(struct sw_metrics_shard *s, enum sw_metric_id id,
                                 const char *value);
/* Counters and gauges. */
void sw_metric_add(struct sw_metric *m, uint64_t n);
/* Gauges. Shards add up: sw_metric_set only where one shard owns the number. */
void sw_metric_sub(struct sw_metric *m, uint64_t n);
void sw_metric_set(struct sw_metric *m, int64_t value);
/* One more of a counter, found as sw_metric_get1 does. s NULL: nothing is counted. */
void sw_metric_count(struct sw_metrics_shard *s, enum sw_metric_id id, const char *value);
/* Sets a gauge likewise. */
void sw_metric_gauge(struct sw_metrics_shard *s, enum sw_metric_id id, const char *value,
                     int64_t now);
/* Histograms. */
void sw_metric_observe(struct sw_metric *m, double value);
/* Takes a gauge out of the output (an identity that went). The pointer is invalid afterwards. */
void sw_metric_drop(struct sw_metrics_shard *s, struct sw_metric *m);

/* --- output ----------------------------------------------------------------------------- */

enum sw_metrics_format {
    SW_METRICS_PROMETHEUS,  /* text/plain; version=0.0.4 */
    SW_METRICS_OPENMETRICS, /* application/openmetrics-text; version=1.0.0 */
};

/* The format for an Accept value (may be empty). */
enum sw_metrics_format sw_metrics_negotiate(struct sw_slice accept);
const char *sw_metrics_content_type(enum sw_metrics_format f);
/*
 * Appends all metrics, sorted within a family; empty families are left out. From any one thread at
 * a time. SW_ELIMIT when out is full.
 */
SW_NODISCARD int sw_metrics_write(struct sw_metrics *m, enum sw_metrics_format f,
                                  struct sw_buf *out);
/* The reference page: every metric with type, labels and meaning, as a Markdown table. */
SW_NODISCARD int sw_metrics_reference(struct sw_buf *out);
