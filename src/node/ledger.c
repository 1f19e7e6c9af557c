/* SPDX-License-Identifier: Apache-2.0 */
#include "node/ledger.h"

#include "base/hex.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/loop.h"
#include "node/service.h"
#include "node/workload.h"

/*
 * One end of connections, as the log names it. Shared by all connections of a worker that have it
 * in common: thousands of tunnels to one pod keep its names once.
 */
struct sw_party {
    uint32_t refs;
    uint16_t n[4]; /* workload, namespace, identity, cluster */
    char bytes[];  /* all four, which is also the key */
};

enum { PARTY_WORKLOAD, PARTY_NS, PARTY_IDENTITY, PARTY_CLUSTER, PARTY_TEXTS, TEXT_MAX = 512 };

/* What is this connection's alone. */
struct sw_ledger_text {
    uint16_t hbone_n;
    uint16_t service_n;
    bool traced;
    uint8_t trace_id[16];
    char bytes[];
};

static struct sw_slice party_text(const struct sw_party *p, unsigned which)
{
    size_t at = 0;

    for (unsigned i = 0; i < which; i++)
        at += p->n[i];
    return sw_slice(p->bytes + at, p->n[which]);
}

static struct sw_slice party_key(const struct sw_party *p)
{
    /* The lengths belong to it, or "ab","c" and "a","bc" would be one. */
    return sw_slice(p->n, sizeof(p->n) + (size_t)p->n[0] + p->n[1] + p->n[2] + p->n[3]);
}

static struct sw_party *party_get(struct sw_ledger_book *b,
                                  const struct sw_slice texts[PARTY_TEXTS])
{
    size_t total = 0;
    struct sw_party *p;
    struct sw_party *known;
    char *at;

    for (size_t i = 0; i < PARTY_TEXTS; i++)
        total += sw_min(texts[i].n, TEXT_MAX);
    p = sw_calloc(1, sizeof(*p) + total);
    at = p->bytes;
    for (size_t i = 0; i < PARTY_TEXTS; i++) {
        p->n[i] = (uint16_t)sw_min(texts[i].n, TEXT_MAX);
        if (p->n[i])
            memcpy(at, texts[i].p, p->n[i]);
        at += p->n[i];
    }
    known = sw_map_get(&b->parties, party_key(p));
    if (known) {
        sw_free(p);
        p = known;
    } else {
        (void)sw_map_put(&b->parties, party_key(p), p);
    }
    p->refs++;
    return p;
}

static void party_put(struct sw_ledger_book *b, struct sw_party *p)
{
    if (--p->refs)
        return;
    (void)sw_map_del(&b->parties, party_key(p));
    sw_free(p);
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

static struct sw_party *party_of(struct sw_ledger_book *b, const struct sw_workload *wl,
                                 const struct sw_baggage *said, struct sw_slice identity)
{
    struct sw_slice t[PARTY_TEXTS] = {[PARTY_IDENTITY] = identity};

    if (wl) {
        t[PARTY_WORKLOAD] = sw_workload_name(wl);
        t[PARTY_NS] = wl->c->ns;
        t[PARTY_CLUSTER] = wl->at->cluster_id;
    } else if (said) {
        t[PARTY_WORKLOAD] = said->workload_name;
        t[PARTY_NS] = said->ns;
        t[PARTY_CLUSTER] = said->cluster;
    }
    return party_get(b, t);
}

static struct sw_ledger_text *text_of(const struct sw_ledger_info *info)
{
    struct sw_slice service = info->service ? info->service->hostname : sw_slice("", 0);
    size_t hbone_n = sw_min(info->hbone_addr.n, TEXT_MAX);
    size_t service_n = sw_min(service.n, TEXT_MAX);
    struct sw_ledger_text *t = sw_calloc(1, sizeof(*t) + hbone_n + service_n);

    t->hbone_n = (uint16_t)hbone_n;
    t->service_n = (uint16_t)service_n;
    if (hbone_n)
        memcpy(t->bytes, info->hbone_addr.p, hbone_n);
    if (service_n)
        memcpy(t->bytes + hbone_n, service.p, service_n);
    t->traced = info->trace != NULL;
    if (info->trace)
        memcpy(t->trace_id, info->trace->trace_id, sizeof(t->trace_id));
    return t;
}

static struct sw_access_peer peer_of(const struct sw_party *p, const struct sw_addr *addr)
{
    return (struct sw_access_peer){
        .addr = *addr,
        .workload = party_text(p, PARTY_WORKLOAD),
        .ns = party_text(p, PARTY_NS),
        .identity = party_text(p, PARTY_IDENTITY),
        .cluster = party_text(p, PARTY_CLUSTER),
    };
}

static void fill_access(const struct sw_ledger *r, struct sw_access *a, char trace[33])
{
    const struct sw_ledger_text *t = r->text;

    (void)sw_hex_write(trace, t->trace_id, sizeof(t->trace_id));
    *a = (struct sw_access){
        .direction = (enum sw_direction)r->direction,
        .src = peer_of(r->src_party, &r->src),
        .dst = peer_of(r->dst_party, &r->dst),
        .hbone_addr = sw_slice(t->bytes, t->hbone_n),
        .dst_service = sw_slice(t->bytes + t->hbone_n, t->service_n),
        .trace_id = sw_slice(trace, t->traced ? 32 : 0),
        .received = r->received,
        .sent = r->sent,
        .duration_ns = sw_loop_now(r->book->loop) - r->start_ns,
    };
}

void sw_ledger_open(struct sw_ledger *r, struct sw_ledger_book *b,
                    const struct sw_ledger_info *info)
{
    struct sw_traffic_labels labels;
    struct sw_access a;
    char trace[33];

    fill_labels(info, &labels);
    *r = (struct sw_ledger){
        .book = b,
        .traffic = sw_metrics_traffic(b->shard, &labels),
        .src_party = party_of(b, info->src_workload, info->src_baggage, info->src_identity),
        .dst_party = party_of(b, info->dst_workload, info->dst_baggage, info->dst_identity),
        .text = text_of(info),
        .src = info->src,
        .dst = info->dst,
        .start_ns = info->start_ns ? info->start_ns : sw_loop_now(b->loop),
        .direction = (uint8_t)info->direction,
    };
    sw_traffic_opened(r->traffic);
    if (sw_log_enabled(SW_LOG_DEBUG, "access")) {
        fill_access(r, &a, trace);
        sw_accesslog_opened(&a);
    }
}

static void count_refusal(struct sw_ledger_book *b, const char *reason)
{
    sw_metric_add(sw_metric_get1(b->shard, SW_METRIC_REFUSALS, reason), 1);
}

void sw_ledger_close(struct sw_ledger *r, enum sw_response_flag flag, const char *error)
{
    struct sw_access a;
    char trace[33];

    if (!r->book)
        return;
    sw_traffic_closed(r->traffic, flag);
    fill_access(r, &a, trace);
    a.error = error;
    sw_accesslog_complete(&a);
    if (flag != SW_FLAG_NONE)
        count_refusal(r->book, sw_response_flag_text(flag));
    sw_metrics_traffic_release(r->book->shard, r->traffic);
    party_put(r->book, r->src_party);
    party_put(r->book, r->dst_party);
    sw_free(r->text);
    r->text = NULL;
    r->traffic = NULL;
    r->book = NULL;
}

void sw_ledger_refused(struct sw_ledger_book *b, enum sw_direction d, const struct sw_addr *src,
                       const struct sw_addr *dst, const char *reason, const char *error)
{
    struct sw_access a = {.direction = d, .error = error};

    a.src.addr = *src;
    if (dst)
        a.dst.addr = *dst;
    sw_accesslog_failed(&a);
    count_refusal(b, reason);
}
