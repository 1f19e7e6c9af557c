/* SPDX-License-Identifier: Apache-2.0 */
/* Counters and log lines. The names of the counters are those edge proxies of this kind have. */
#include <stdio.h>

#include "base/log.h"
#include "base/time.h"
#include "quic/path.h"
#include "quic/quic.h"
#include "sidecar/sidecar_int.h"

static void bump(struct sw_sidecar *s, enum sw_metric_id id, const char *a, const char *b)
{
    struct sw_slice v[2] = {sw_slice_str(a), sw_slice_str(b)};

    if (s->stats.shard)
        sw_metric_add(sw_metric_get(s->stats.shard, id, a ? v : NULL), 1);
}

void side_stats_init(struct sw_sidecar *s, struct sw_metrics *m)
{
    if (m)
        s->stats.shard = sw_metrics_shard_new(m);
}

void side_stats_done(struct sw_sidecar *s)
{
    if (s->stats.shard)
        sw_metrics_shard_free(s->stats.shard);
    s->stats.shard = NULL;
}

static const char *source_text(enum side_source source)
{
    return source == SIDE_UDS ? "uds" : "tcp";
}

/* The pool group: requests by what they came as. */
static enum sw_metric_id accepted_as(enum side_version v, enum side_kind k)
{
    if (v == SIDE_H1) {
        if (k == SIDE_CONNECT)
            return SW_METRIC_SIDE_ACCEPTED_H1_CONNECT;
        return k == SIDE_ORIGIN ? SW_METRIC_SIDE_ACCEPTED_H1 : SW_METRIC_SIDE_ACCEPTED_H1_UPGRADE;
    }
    if (k == SIDE_CONNECT)
        return SW_METRIC_SIDE_ACCEPTED_H2_CONNECT;
    return k == SIDE_ORIGIN ? SW_METRIC_SIDE_ACCEPTED_H2
                            : SW_METRIC_SIDE_ACCEPTED_H2_EXTENDED_CONNECT;
}

void side_begin(struct sw_sidecar *s, struct side_log *l, const struct side_out *o,
                enum side_source source, enum side_version version)
{
    const char *kind = side_kind_text(o->kind);
    const char *from = source_text(source);

    *l = (struct side_log){.node = o->node, .kind = o->kind, .source = source, .version = version};
    l->begin_ns = sw_loop_now(s->loop);
    (void)snprintf(l->target, sizeof(l->target), "%.*s", SW_SLICE_ARG(o->target));
    (void)snprintf(l->id, sizeof(l->id), "%.*s", SW_SLICE_ARG(o->id));
    s->n_requests++;
    bump(s, SW_METRIC_SIDE_REQUESTS, kind, NULL);
    bump(s, SW_METRIC_SIDE_REQUESTS_SOURCE, from, NULL);
    bump(s, SW_METRIC_SIDE_REQUESTS_SOURCE_KIND, from, kind);
    bump(s, SW_METRIC_SIDE_REUSE, kind, sw_qdial_state(s->dial, &o->node));
    bump(s, SW_METRIC_SIDE_ACCEPTED, NULL, NULL);
    bump(s, accepted_as(version, o->kind), NULL, NULL);
}

/* Words of a device go to the log only: anything but a plain word is left out. */
static bool plain_word(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!(s.p[i] >= 'a' && s.p[i] <= 'z') && s.p[i] != '_')
            return false;
    }
    return s.n > 0;
}

void side_answered(struct sw_sidecar *s, struct side_log *l, const struct sw_h1_msg *m)
{
    const struct sw_slice *why = sw_h1_field(m, SIDE_REASON);

    l->status = (unsigned)m->status;
    if (m->status < 400)
        return;
    side_error(s, l->status);
    if (why && plain_word(*why))
        (void)snprintf(l->why, sizeof(l->why), "%.*s", SW_SLICE_ARG(*why));
    else if (l->kind != SIDE_ORIGIN)
        (void)snprintf(l->why, sizeof(l->why), "refused_by_node");
}

void side_end(struct sw_sidecar *s, struct side_log *l, const char *reason)
{
    struct sw_log_line line;
    char id[SW_NODEID_SHORT];

    if (!reason && l->why[0])
        reason = l->why;
    s->n_requests--;
    bump(s, reason ? SW_METRIC_SIDE_FAILED : SW_METRIC_SIDE_COMPLETED, NULL, NULL);
    if (s->stats.shard) {
        sw_metric_add(sw_metric_get(s->stats.shard, SW_METRIC_SIDE_UP, NULL), l->up);
        sw_metric_add(sw_metric_get(s->stats.shard, SW_METRIC_SIDE_DOWN, NULL), l->down);
    }
    /* What the device refused is the operator's business too. */
    sw_log_begin(&line, reason || l->status >= 400 ? SW_LOG_INFO : SW_LOG_DEBUG, "sidecar",
                 "request");
    sw_log_cstr(&line, "kind", side_kind_text(l->kind));
    sw_log_cstr(&line, "node", sw_nodeid_short(&l->node, id));
    sw_log_cstr(&line, "target", l->target);
    sw_log_cstr(&line, "request_id", l->id[0] ? l->id : NULL);
    sw_log_u64(&line, "status", l->status);
    sw_log_u64(&line, "up", l->up);
    sw_log_u64(&line, "down", l->down);
    sw_log_u64(&line, "ms", (sw_loop_now(s->loop) - l->begin_ns) / SW_NS_PER_MS);
    sw_log_cstr(&line, "reason", reason);
    sw_log_end(&line);
}

void side_denied(struct sw_sidecar *s, const struct side_refusal *why)
{
    bump(s, SW_METRIC_SIDE_DENIED_REASON, why->reason, NULL);
    bump(s, SW_METRIC_SIDE_DENIED, NULL, NULL);
    sw_log_info("sidecar", "request refused with %u: %s: %s", why->status, why->reason, why->text);
}

void side_relay_refused(struct sw_sidecar *s, const char *reason)
{
    bump(s, SW_METRIC_REFUSALS, reason, NULL);
}

void side_error(struct sw_sidecar *s, unsigned status)
{
    char text[8];
    char class[8];

    (void)snprintf(text, sizeof(text), "%u", status % 1000);
    (void)snprintf(class, sizeof(class), "%uxx", status / 100 % 10);
    bump(s, SW_METRIC_SIDE_ERRORS, class, NULL);
    bump(s, SW_METRIC_SIDE_ERRORS_STATUS, text, NULL);
}

void side_failed(struct sw_sidecar *s, const struct side_log *l, enum sw_qfail why)
{
    bump(s, SW_METRIC_SIDE_FAILURES, sw_qfail_text(why), sw_qdial_state(s->dial, &l->node));
}

/* ---- connections to nodes ---- */

static const char *path_text(enum sw_qpath p)
{
    switch (p) {
    case SW_QPATH_DIRECT:
        return "direct";
    case SW_QPATH_RELAY:
        return "relay";
    case SW_QPATH_NONE:
        break;
    }
    return "none";
}

void side_conn_opened(struct sw_sidecar *s, enum sw_qpath path)
{
    bump(s, SW_METRIC_SIDE_CONNS_OPENED, path_text(path), NULL);
    bump(s, SW_METRIC_SIDE_POOL_OPENED, NULL, NULL);
}

void side_conn_closed(struct sw_sidecar *s, enum sw_qpath path, bool idle, bool error)
{
    bump(s, SW_METRIC_SIDE_CONNS_CLOSED, path_text(path), NULL);
    if (idle)
        bump(s, SW_METRIC_SIDE_POOL_CLOSED_IDLE, NULL, NULL);
    if (error)
        bump(s, SW_METRIC_SIDE_POOL_CLOSED_ERROR, NULL, NULL);
}

void side_event(struct sw_sidecar *s, const char *event)
{
    bump(s, SW_METRIC_SIDE_EVENTS, event, NULL);
}

static void gauge(struct sw_sidecar *s, enum sw_metric_id id, const char *label, uint64_t v)
{
    sw_metric_set(sw_metric_get1(s->stats.shard, id, label), (int64_t)v);
}

static void catch_up(struct sw_sidecar *s, const char *event, uint64_t now, uint64_t *last)
{
    sw_metric_add(sw_metric_get1(s->stats.shard, SW_METRIC_SIDE_EVENTS, event), now - *last);
    *last = now;
}

static void scrape_paths(struct sw_sidecar *s, const struct sw_quic_stats *q)
{
    catch_up(s, "probe_sent", q->probes_sent, &s->stats.last_probes_sent);
    catch_up(s, "probe_received", q->probes_received, &s->stats.last_probes_received);
    catch_up(s, "probe_dropped", q->probes_dropped, &s->stats.last_probes_dropped);
    catch_up(s, "direct_found", q->direct_found, &s->stats.last_direct_found);
    catch_up(s, "direct_failed", q->direct_failed, &s->stats.last_direct_failed);
    gauge(s, SW_METRIC_QUIC_RTT, "direct", q->rtt_direct_ns / SW_NS_PER_US);
    gauge(s, SW_METRIC_QUIC_RTT, "relay", q->rtt_relay_ns / SW_NS_PER_US);
}

void sw_sidecar_scrape(struct sw_sidecar *s)
{
    struct sw_quic_stats q = {0};

    if (!s->stats.shard)
        return;
    sw_quic_stats(s->quic, &q);
    sw_metric_add(sw_metric_get(s->stats.shard, SW_METRIC_SIDE_RX, NULL),
                  q.rx_bytes - s->stats.last_rx);
    sw_metric_add(sw_metric_get(s->stats.shard, SW_METRIC_SIDE_TX, NULL),
                  q.tx_bytes - s->stats.last_tx);
    s->stats.last_rx = q.rx_bytes;
    s->stats.last_tx = q.tx_bytes;
    sw_metric_add(sw_metric_get(s->stats.shard, SW_METRIC_SIDE_HELD_BACK, NULL),
                  q.held_back - s->stats.last_held_back);
    s->stats.last_held_back = q.held_back;
    sw_metric_add(sw_metric_get1(s->stats.shard, SW_METRIC_SIDE_EVENTS, "path_slower"),
                  q.renewals - s->stats.last_renewals);
    s->stats.last_renewals = q.renewals;
    sw_metric_set(sw_metric_get(s->stats.shard, SW_METRIC_QUIC_BUFFERED, NULL),
                  (int64_t)q.buffered);
    scrape_paths(s, &q);
    gauge(s, SW_METRIC_SIDE_CONNS, "direct", q.conns - q.conns_relay);
    gauge(s, SW_METRIC_SIDE_CONNS, "relay", q.conns_relay);
    gauge(s, SW_METRIC_SIDE_PATHS, "direct", q.conns - q.conns_relay);
    gauge(s, SW_METRIC_SIDE_PATHS, "relay", q.conns_relay);
}
