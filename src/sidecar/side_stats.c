/* SPDX-License-Identifier: Apache-2.0 */
/* Counters and log lines. The names of the counters are those edge proxies of this kind have. */
#include <stdio.h>

#include "base/log.h"
#include "base/time.h"
#include "quic/path.h"
#include "quic/quic.h"
#include "sidecar/sidecar_int.h"

static void add(struct sw_sidecar *s, enum sw_metric_id id, const char *label, uint64_t n)
{
    if (s->stats.shard)
        sw_metric_add(sw_metric_get1(s->stats.shard, id, label), n);
}

static void bump(struct sw_sidecar *s, enum sw_metric_id id, const char *label)
{
    add(s, id, label, 1);
}

static void bump2(struct sw_sidecar *s, enum sw_metric_id id, const char *a, const char *b)
{
    struct sw_slice v[2] = {sw_slice_str(a), sw_slice_str(b)};

    if (s->stats.shard)
        sw_metric_add(sw_metric_get(s->stats.shard, id, v), 1);
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
static const enum sw_metric_id accepted_as[][SIDE_UDP + 1] = {
    [SIDE_H1] = {[SIDE_CONNECT] = SW_METRIC_SIDE_ACCEPTED_H1_CONNECT,
                 [SIDE_ORIGIN] = SW_METRIC_SIDE_ACCEPTED_H1,
                 [SIDE_UPGRADE] = SW_METRIC_SIDE_ACCEPTED_H1_UPGRADE,
                 [SIDE_UDP] = SW_METRIC_SIDE_ACCEPTED_H1_UPGRADE},
    [SIDE_H2] = {[SIDE_CONNECT] = SW_METRIC_SIDE_ACCEPTED_H2_CONNECT,
                 [SIDE_ORIGIN] = SW_METRIC_SIDE_ACCEPTED_H2,
                 [SIDE_UPGRADE] = SW_METRIC_SIDE_ACCEPTED_H2_EXTENDED_CONNECT,
                 [SIDE_UDP] = SW_METRIC_SIDE_ACCEPTED_H2_EXTENDED_CONNECT},
};

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
    bump(s, SW_METRIC_SIDE_REQUESTS, kind);
    bump(s, SW_METRIC_SIDE_REQUESTS_SOURCE, from);
    bump2(s, SW_METRIC_SIDE_REQUESTS_SOURCE_KIND, from, kind);
    bump2(s, SW_METRIC_SIDE_REUSE, kind, sw_qdial_state(s->dial, &o->node));
    bump(s, SW_METRIC_SIDE_ACCEPTED, NULL);
    bump(s, accepted_as[version][o->kind], NULL);
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
    bump(s, reason ? SW_METRIC_SIDE_FAILED : SW_METRIC_SIDE_COMPLETED, NULL);
    add(s, SW_METRIC_SIDE_UP, NULL, l->up);
    add(s, SW_METRIC_SIDE_DOWN, NULL, l->down);
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
    bump(s, SW_METRIC_SIDE_DENIED_REASON, why->reason);
    bump(s, SW_METRIC_SIDE_DENIED, NULL);
    sw_log_info("sidecar", "request refused with %u: %s: %s", why->status, why->reason, why->text);
}

void side_relay_refused(void *arg, const char *reason)
{
    bump(arg, SW_METRIC_REFUSALS, reason);
}

void side_error(struct sw_sidecar *s, unsigned status)
{
    char text[8];
    char class[8];

    (void)snprintf(text, sizeof(text), "%u", status % 1000);
    (void)snprintf(class, sizeof(class), "%uxx", status / 100 % 10);
    bump(s, SW_METRIC_SIDE_ERRORS, class);
    bump(s, SW_METRIC_SIDE_ERRORS_STATUS, text);
}

void side_failed(struct sw_sidecar *s, const struct side_log *l, enum sw_qfail why)
{
    bump2(s, SW_METRIC_SIDE_FAILURES, sw_qfail_text(why), sw_qdial_state(s->dial, &l->node));
}

/* ---- connections to nodes ---- */

static const char *const path_names[] = {
    [SW_QPATH_NONE] = "none", [SW_QPATH_DIRECT] = "direct", [SW_QPATH_RELAY] = "relay"};

void side_conn_opened(struct sw_sidecar *s, enum sw_qpath path)
{
    bump(s, SW_METRIC_SIDE_CONNS_OPENED, path_names[path]);
    bump(s, SW_METRIC_SIDE_POOL_OPENED, NULL);
}

void side_conn_closed(struct sw_sidecar *s, enum sw_qpath path, bool idle, bool error)
{
    bump(s, SW_METRIC_SIDE_CONNS_CLOSED, path_names[path]);
    if (idle)
        bump(s, SW_METRIC_SIDE_POOL_CLOSED_IDLE, NULL);
    if (error)
        bump(s, SW_METRIC_SIDE_POOL_CLOSED_ERROR, NULL);
}

void side_event(struct sw_sidecar *s, const char *event)
{
    bump(s, SW_METRIC_SIDE_EVENTS, event);
}

static void gauge(struct sw_sidecar *s, enum sw_metric_id id, const char *label, uint64_t v)
{
    sw_metric_set(sw_metric_get1(s->stats.shard, id, label), (int64_t)v);
}

void sw_sidecar_scrape(struct sw_sidecar *s)
{
    const struct sw_quic_stats *last = &s->stats.last;
    struct sw_quic_stats q = {0};

    if (!s->stats.shard)
        return;
    sw_quic_stats(s->quic, &q);
    add(s, SW_METRIC_SIDE_RX, NULL, q.rx_bytes - last->rx_bytes);
    add(s, SW_METRIC_SIDE_TX, NULL, q.tx_bytes - last->tx_bytes);
    add(s, SW_METRIC_SIDE_HELD_BACK, NULL, q.held_back - last->held_back);
    add(s, SW_METRIC_SIDE_EVENTS, "path_slower", q.renewals - last->renewals);
    add(s, SW_METRIC_SIDE_EVENTS, "probe_sent", q.probes_sent - last->probes_sent);
    add(s, SW_METRIC_SIDE_EVENTS, "probe_received", q.probes_received - last->probes_received);
    add(s, SW_METRIC_SIDE_EVENTS, "probe_dropped", q.probes_dropped - last->probes_dropped);
    add(s, SW_METRIC_SIDE_EVENTS, "direct_found", q.direct_found - last->direct_found);
    add(s, SW_METRIC_SIDE_EVENTS, "direct_failed", q.direct_failed - last->direct_failed);
    s->stats.last = q;
    gauge(s, SW_METRIC_QUIC_BUFFERED, NULL, q.buffered);
    gauge(s, SW_METRIC_QUIC_RTT, "direct", q.rtt_direct_ns / SW_NS_PER_US);
    gauge(s, SW_METRIC_QUIC_RTT, "relay", q.rtt_relay_ns / SW_NS_PER_US);
    gauge(s, SW_METRIC_SIDE_CONNS, "direct", q.conns - q.conns_relay);
    gauge(s, SW_METRIC_SIDE_CONNS, "relay", q.conns_relay);
    gauge(s, SW_METRIC_SIDE_PATHS, "direct", q.conns - q.conns_relay);
    gauge(s, SW_METRIC_SIDE_PATHS, "relay", q.conns_relay);
}
