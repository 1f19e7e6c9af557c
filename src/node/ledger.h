/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is counted and logged about one connection: metric cells while it lives, one access-log line
 * when it ends. Keeps copies of the few strings the line needs, so no snapshot is held for it.
 */
#pragma once

#include "base/map.h"
#include "io/addr.h"
#include "node/headers.h"
#include "telemetry/accesslog.h"
#include "telemetry/metrics.h"

struct sw_ledger_text;
struct sw_loop;
struct sw_party;
struct sw_service;
struct sw_workload;

/* What the ledgers of one worker share. */
struct sw_ledger_book {
    struct sw_loop *loop; /* borrowed, like the next */
    struct sw_metrics_shard *shard;
    struct sw_map parties; /* one per end that open connections have in common */
};

struct sw_ledger {
    struct sw_ledger_book *book; /* NULL: not open */
    struct sw_traffic *traffic;  /* lent by the metrics */
    struct sw_ledger_text *text; /* owned */
    struct sw_party *src_party;  /* a reference each */
    struct sw_party *dst_party;
    struct sw_addr src;
    struct sw_addr dst;
    uint64_t start_ns;
    uint64_t received; /* toward the destination */
    uint64_t sent;     /* back to the client */
    uint8_t direction; /* enum sw_direction */
};

struct sw_ledger_info {
    enum sw_direction direction;
    bool mtls;
    struct sw_addr src;
    struct sw_addr dst;
    const struct sw_workload *src_workload; /* may be NULL, like all of these */
    const struct sw_workload *dst_workload;
    const struct sw_service *service;
    const struct sw_baggage *src_baggage; /* used where the workload is not known */
    const struct sw_baggage *dst_baggage;
    struct sw_slice src_identity; /* URI, only when proven */
    struct sw_slice dst_identity; /* whom the connection is for; refusals name it too */
    struct sw_slice hbone_addr;
    const struct sw_trace *trace;
    uint64_t start_ns; /* of the loop's clock; 0: now */
};

void sw_ledger_open(struct sw_ledger *r, struct sw_ledger_book *b,
                    const struct sw_ledger_info *info);

static inline void sw_ledger_moved(struct sw_ledger *r, size_t received, size_t sent)
{
    r->received += received;
    r->sent += sent;
    sw_traffic_bytes(r->traffic, received, sent);
}

/* Counts and logs the end; error NULL: it ended well. Harmless when not open. */
void sw_ledger_close(struct sw_ledger *r, enum sw_response_flag flag, const char *error);
/* A connection that was refused before there was a record. 'reason' is the metric's short word. */
void sw_ledger_refused(struct sw_ledger_book *b, enum sw_direction d, const struct sw_addr *src,
                       const struct sw_addr *dst, const char *reason, const char *error);
