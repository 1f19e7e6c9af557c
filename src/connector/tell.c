/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of exchanges: counters, the log, and the requests that are inside of tunnels. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "connector/connector_int.h"
#include "connector/inspect/peek.h"

enum { ID_MAX = 64 };

void connector_add_request(struct sw_connector *c, const struct sw_inspect_request *r)
{
    sw_history_add(&c->history, r);
    if (c->hooks.request)
        c->hooks.request(c->hooks.arg, r);
}

/* An HTTP exchange inside a tunnel. */
static void on_peeked(void *arg, const struct sw_peek_exchange *x)
{
    struct exchange *e = arg;
    struct sw_inspect_request r = {.wall_ns = sw_wall_ns(),
                                   .duration_ns = x->duration_ns,
                                   .bytes_in = x->bytes_in,
                                   .bytes_out = x->bytes_out,
                                   .status = (unsigned)x->status,
                                   .kind = x->status == 101 ? "upgrade" : "http",
                                   .reason = x->complete || x->status == 101 ? NULL : "incomplete"};

    sw_request_text(r.peer, sizeof(r.peer), sw_slice_str(e->peer));
    sw_request_text(r.method, sizeof(r.method), x->method);
    sw_request_text(r.host, sizeof(r.host), x->host);
    sw_request_text(r.path, sizeof(r.path), x->path);
    if (x->capture) {
        x->capture->wall_ns = r.wall_ns;
        x->capture->duration_ns = r.duration_ns;
        x->capture->origin_port = e->port;
        memcpy(x->capture->origin_host, e->host, sizeof(e->host));
        r.capture = sw_capture_keep(x->capture);
    }
    connector_add_request(e->c, &r);
}

void connector_tap(void *tag, bool from_origin, const uint8_t *p, size_t n)
{
    struct exchange *e = tag;

    if (!e->peek)
        e->peek = sw_peek_new(on_peeked, e, e->c->inspect.on ? &e->c->inspect.captures : NULL);
    sw_tlswatch_bytes(&e->tls, from_origin, p, n);
    sw_peek_bytes(e->peek, from_origin, p, n, sw_loop_now(e->c->loop));
}

static void count_exchange(struct sw_connector *c, const struct sw_qserve_record *r)
{
    struct sw_slice labels[] = {sw_slice_str(sw_qkind_text(r->kind)),
                                sw_slice_str(r->reason ? r->reason : "ok")};

    sw_metric_add(sw_metric_get(c->meter.shard, SW_METRIC_CONNECTOR_EXCHANGES, labels), 1);
    sw_metric_add(sw_metric_get1(c->meter.shard, SW_METRIC_CONNECTOR_BYTES, "in"), r->bytes_in);
    sw_metric_add(sw_metric_get1(c->meter.shard, SW_METRIC_CONNECTOR_BYTES, "out"), r->bytes_out);
}

static void log_exchange(const struct sw_qserve_record *r)
{
    struct sw_log_line line;
    char peer[SW_NODEID_SHORT];

    sw_log_begin(&line, r->reason ? SW_LOG_INFO : SW_LOG_DEBUG, "connector", "exchange ended");
    sw_log_cstr(&line, "kind", sw_qkind_text(r->kind));
    sw_log_str(&line, "method", r->method);
    sw_log_str(&line, "host", sw_slice_head(r->host, 253));
    sw_log_u64(&line, "port", r->port);
    sw_log_u64(&line, "status", r->status);
    sw_log_cstr(&line, "reason", r->reason);
    sw_log_u64(&line, "bytes_in", r->bytes_in);
    sw_log_u64(&line, "bytes_out", r->bytes_out);
    sw_log_u64(&line, "duration_ms", r->duration_ns / SW_NS_PER_MS);
    sw_log_cstr(&line, "peer", sw_nodeid_short(r->peer, peer));
    if (r->request_id.n)
        sw_log_str(&line, "request_id", sw_slice_head(r->request_id, ID_MAX));
    sw_log_end(&line);
}

/* A failed tunnel is shown as the request that it was for, where the gateway names it. */
static void name_request(struct sw_inspect_request *q, const struct sw_qserve_record *r)
{
    struct sw_slice path = r->request;
    struct sw_slice method = sw_slice_cut(&path, ' ');
    struct sw_slice host = path.p ? sw_slice_cut(&path, ' ') : path;

    if (q->reason && path.p && r->kind == SW_QKIND_TCP) {
        sw_request_text(q->method, sizeof(q->method), method);
        sw_request_text(q->host, sizeof(q->host), host);
        sw_request_text(q->path, sizeof(q->path), path);
        (void)snprintf(q->target, sizeof(q->target), "%.*s:%u", SW_SLICE_ARG_MAX(r->host, 70),
                       r->port);
        sw_request_text(q->target, sizeof(q->target), sw_slice_str(q->target));
        return;
    }
    sw_request_text(q->method, sizeof(q->method), r->method);
    (void)snprintf(q->host, sizeof(q->host), "%.*s:%u", SW_SLICE_ARG_MAX(r->host, 110), r->port);
    sw_request_text(q->host, sizeof(q->host), sw_slice_str(q->host));
    sw_request_text(q->path, sizeof(q->path), r->path);
}

/* A tunnel is open before TLS begins in it, so an open tunnel does not mean that TLS succeeded. */
static void judge_tls(struct exchange *e, struct sw_inspect_request *q)
{
    sw_tlswatch_end(&e->tls);
    if (q->reason || (e->tls.state != SW_TLSWATCH_FAILED && e->tls.state != SW_TLSWATCH_NO_TLS))
        return;
    q->status = 502;
    q->reason = e->tls.state == SW_TLSWATCH_NO_TLS ? SW_REQUEST_NO_TLS : SW_REQUEST_TLS_FAILED;
    sw_metric_count(e->c->meter.shard, SW_METRIC_REFUSALS, q->reason);
}

void connector_ended(void *arg, const struct sw_qserve_record *r)
{
    struct sw_connector *c = arg;
    struct exchange *e = r->tag;
    bool told = false;

    count_exchange(c, r);
    log_exchange(r);
    if (e && e->peek) {
        sw_peek_end(e->peek, sw_loop_now(c->loop));
        told = sw_peek_reported(e->peek) > 0;
    }
    if (!told) {
        struct sw_inspect_request q = {.wall_ns = sw_wall_ns(),
                                       .duration_ns = r->duration_ns,
                                       .bytes_in = r->bytes_in,
                                       .bytes_out = r->bytes_out,
                                       .status = r->status,
                                       .kind = sw_qkind_text(r->kind),
                                       .reason = r->reason};

        (void)sw_nodeid_short(r->peer, q.peer);
        sw_request_text(q.id, sizeof(q.id), r->request_id);
        if (e)
            judge_tls(e, &q);
        name_request(&q, r);
        if (e && e->peek && sw_peek_http2(e->peek))
            q.note = "HTTP/2, not inspected";
        connector_add_request(c, &q);
    }
    if (e) {
        sw_peek_free(e->peek);
        sw_free(e);
    }
}
