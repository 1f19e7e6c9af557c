/* SPDX-License-Identifier: Apache-2.0 */
#include "node/ledger.h"

#include "base/mem.h"
#include "base/time.h"

enum {
    TEXT_SRC_WORKLOAD,
    TEXT_SRC_NS,
    TEXT_SRC_IDENTITY,
    TEXT_SRC_CLUSTER,
    TEXT_HBONE_ADDR,
    TEXT_DST_SERVICE,
    TEXT_DST_WORKLOAD,
    TEXT_DST_NS,
    TEXT_DST_IDENTITY,
    TEXT_DST_CLUSTER,
    TEXT_TRACE,
    TEXTS,
};

/* All strings of a line in one allocation. */
struct sw_ledger_text {
    uint16_t n[TEXTS];
    char bytes[];
};

static struct sw_ledger_text *pack(const struct sw_slice parts[TEXTS])
{
    struct sw_ledger_text *t;
    size_t total = 0;
    char *at;

    for (size_t i = 0; i < TEXTS; i++)
        total += sw_min(parts[i].n, 512);
    t = sw_calloc(1, sizeof(*t) + total);
    at = t->bytes;
    for (size_t i = 0; i < TEXTS; i++) {
        t->n[i] = (uint16_t)sw_min(parts[i].n, 512);
        if (t->n[i])
            memcpy(at, parts[i].p, t->n[i]);
        at += t->n[i];
    }
    return t;
}

static void unpack(const struct sw_ledger_text *t, struct sw_slice parts[TEXTS])
{
    const char *at = t->bytes;

    for (size_t i = 0; i < TEXTS; i++) {
        parts[i] = sw_slice(at, t->n[i]);
        at += t->n[i];
    }
}

/* What is known of one side, from the snapshot or, failing that, from what it says of itself. */
static void side_of(const struct sw_workload *w, const struct sw_baggage *said,
                    struct sw_baggage *ret)
{
    *ret = (struct sw_baggage){0};
    if (w)
        sw_baggage_of(w, ret);
    else if (said)
        *ret = *said;
}

static struct sw_slice app_of(const struct sw_workload *w, const struct sw_baggage *b)
{
    return w ? b->service_name : b->workload_name;
}

static void fill_labels(const struct sw_ledger_info *info, struct sw_traffic_labels *l)
{
    struct sw_baggage src;
    struct sw_baggage dst;

    side_of(info->src_workload, info->src_baggage, &src);
    side_of(info->dst_workload, info->dst_baggage, &dst);
    *l = (struct sw_traffic_labels){
        .reporter = info->direction == SW_OUTBOUND ? SW_REPORTER_SOURCE : SW_REPORTER_DESTINATION,
        .mutual_tls = info->mtls,
        .source_workload = src.workload_name,
        .source_canonical_service = src.service_name,
        .source_canonical_revision = src.revision,
        .source_workload_namespace = src.ns,
        .source_principal = info->src_identity,
        .source_app = app_of(info->src_workload, &src),
        .source_version = src.revision,
        .source_cluster = src.cluster,
        .destination_workload = dst.workload_name,
        .destination_canonical_service = dst.service_name,
        .destination_canonical_revision = dst.revision,
        .destination_workload_namespace = dst.ns,
        .destination_principal = info->dst_identity,
        .destination_app = app_of(info->dst_workload, &dst),
        .destination_version = dst.revision,
        .destination_cluster = dst.cluster,
        .source_region = src.region,
        .source_zone = src.zone,
        .destination_region = dst.region,
        .destination_zone = dst.zone,
    };
    if (info->service) {
        l->destination_service = info->service->hostname;
        l->destination_service_namespace = info->service->ns;
        l->destination_service_name = info->service->name;
    }
}

static void fill_parts(const struct sw_ledger_info *info, const char *trace,
                       struct sw_slice parts[TEXTS])
{
    const struct sw_workload *s = info->src_workload;
    const struct sw_workload *d = info->dst_workload;

    memset(parts, 0, sizeof(*parts) * TEXTS);
    if (s) {
        parts[TEXT_SRC_WORKLOAD] = sw_workload_name(s);
        parts[TEXT_SRC_NS] = s->c->ns;
        parts[TEXT_SRC_CLUSTER] = s->at->cluster_id;
    } else if (info->src_baggage) {
        parts[TEXT_SRC_WORKLOAD] = info->src_baggage->workload_name;
        parts[TEXT_SRC_NS] = info->src_baggage->ns;
        parts[TEXT_SRC_CLUSTER] = info->src_baggage->cluster;
    }
    if (d) {
        parts[TEXT_DST_WORKLOAD] = sw_workload_name(d);
        parts[TEXT_DST_NS] = d->c->ns;
        parts[TEXT_DST_CLUSTER] = d->at->cluster_id;
    }
    if (info->service)
        parts[TEXT_DST_SERVICE] = info->service->hostname;
    parts[TEXT_SRC_IDENTITY] = info->src_identity;
    parts[TEXT_DST_IDENTITY] = info->dst_identity;
    parts[TEXT_HBONE_ADDR] = info->hbone_addr;
    if (info->trace)
        parts[TEXT_TRACE] = sw_slice(trace + 3, 32);
}

static void fill_access(const struct sw_ledger *r, struct sw_access *a)
{
    struct sw_slice p[TEXTS];

    unpack(r->text, p);
    *a = (struct sw_access){
        .direction = (enum sw_direction)r->direction,
        .src = {r->src, p[TEXT_SRC_WORKLOAD], p[TEXT_SRC_NS], p[TEXT_SRC_IDENTITY],
                p[TEXT_SRC_CLUSTER]},
        .dst = {r->dst, p[TEXT_DST_WORKLOAD], p[TEXT_DST_NS], p[TEXT_DST_IDENTITY],
                p[TEXT_DST_CLUSTER]},
        .hbone_addr = p[TEXT_HBONE_ADDR],
        .dst_service = p[TEXT_DST_SERVICE],
        .trace_id = p[TEXT_TRACE],
        .received = r->received,
        .sent = r->sent,
        .duration_ns = sw_loop_now(r->worker->loop) - r->start_ns,
    };
}

void sw_ledger_open(struct sw_ledger *r, struct sw_worker *w, const struct sw_ledger_info *info)
{
    struct sw_traffic_labels labels;
    struct sw_slice parts[TEXTS];
    char trace[SW_TRACE_TEXT] = "";
    struct sw_access a;

    if (info->trace)
        (void)sw_trace_text(info->trace, trace);
    fill_labels(info, &labels);
    fill_parts(info, trace, parts);
    *r = (struct sw_ledger){
        .worker = w,
        .traffic = sw_metrics_traffic(w->shard, &labels),
        .text = pack(parts),
        .src = info->src,
        .dst = info->dst,
        .start_ns = sw_loop_now(w->loop),
        .direction = (uint8_t)info->direction,
    };
    sw_traffic_opened(r->traffic);
    if (sw_log_enabled(SW_LOG_DEBUG, "access")) {
        fill_access(r, &a);
        sw_accesslog_opened(&a);
    }
}

void sw_ledger_close(struct sw_ledger *r, enum sw_response_flag flag, const char *error)
{
    struct sw_access a;

    if (!r->worker)
        return;
    sw_traffic_closed(r->traffic, flag);
    fill_access(r, &a);
    a.error = error;
    sw_accesslog_complete(&a);
    if (flag != SW_FLAG_NONE)
        sw_worker_refused(r->worker, sw_response_flag_text(flag));
    sw_metrics_traffic_release(r->worker->shard, r->traffic);
    sw_free(r->text);
    r->text = NULL;
    r->traffic = NULL;
    r->worker = NULL;
}

void sw_ledger_refused(struct sw_worker *w, enum sw_direction d, const struct sw_addr *src,
                       const struct sw_addr *dst, const char *reason, const char *error)
{
    struct sw_access a = {.direction = d, .error = error};

    a.src.addr = *src;
    if (dst)
        a.dst.addr = *dst;
    sw_accesslog_failed(&a);
    sw_worker_refused(w, reason);
}
