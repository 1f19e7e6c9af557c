/* SPDX-License-Identifier: Apache-2.0 */
/* An exchange, from its head to its end. */
#include "tunnel/qserve.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "tunnel/qserve_int.h"

enum {
    REFUSED_DROP_MAX = 1 << 20, /* what a peer may still send after a refusal */
    CODE = 0,                   /* of resets */
};
static const uint64_t refused_drain_ns = 10 * SW_NS_PER_S;

/* ---- reports to the owner ---- */

static struct sw_slice field_of(const struct qs_exchange *x, const char *name)
{
    const struct sw_slice *v = x->msg ? sw_h1_field(x->msg, name) : NULL;

    return v ? *v : sw_slice("", 0);
}

static void fill_record(const struct qs_exchange *x, struct sw_qserve_record *r)
{
    *r = (struct sw_qserve_record){
        .peer = &x->peer,
        .kind = x->head.kind,
        .method = x->msg ? x->msg->method : sw_slice(NULL, 0),
        .host = x->head.host,
        .port = x->head.port,
        .path = x->head.path,
        .request_id = field_of(x, SW_QHEAD_REQUEST_ID),
        .request = field_of(x, SW_QHEAD_REQUEST),
        .status = x->status,
        .reason = x->reason,
        .bytes_in = x->bytes_in,
        .bytes_out = x->bytes_out,
        .tag = x->verdict.tag,
    };
}

void qs_begun(struct qs_exchange *x, unsigned status)
{
    struct sw_qserve_record r;

    x->status = status;
    if (x->begun)
        return;
    x->begun = true;
    fill_record(x, &r);
    if (x->v->c.begun)
        x->v->c.begun(x->v->c.arg, &r);
}

static void tell(struct qs_exchange *x)
{
    struct sw_qserve_record r;
    struct sw_qserve *v = x->v;

    if (x->told)
        return;
    x->told = true;
    v->stats.bytes_in += x->bytes_in;
    v->stats.bytes_out += x->bytes_out;
    if (!x->reason)
        v->stats.completed++;
    else
        v->stats.failed++;
    fill_record(x, &r);
    r.duration_ns = sw_loop_now(v->loop) - x->begin_ns;
    if (v->c.ended)
        v->c.ended(v->c.arg, &r);
}

/* ---- the end ---- */

/* Lets everything but the stream go. */
static void release(struct qs_exchange *x, bool reset)
{
    sw_timer_stop(x->v->loop, &x->timer);
    qs_dial_cancel(x);
    sw_h1_free(SW_TAKE(x->parser));
    sw_buf_done(&x->in);
    if (sw_qpump_running(&x->pump)) {
        x->bytes_in = x->pump.to_socket;
        x->bytes_out += x->pump.from_socket;
        sw_qpump_stop(&x->pump, reset);
    }
    qs_http_free(x, reset);
    qs_udp_free(x);
}

static void on_reap(struct sw_defer *d)
{
    struct qs_exchange *x = SW_CONTAINER_OF(d, struct qs_exchange, reap);

    sw_list_unlink(&x->link);
    x->v->stats.streams--;
    sw_arena_clear(&x->arena);
    sw_free(x);
}

/* Freed once the stream is closed and no caller on the stack uses it. */
static void reap(struct qs_exchange *x)
{
    if (x->state == QS_OVER && !x->stream)
        sw_loop_defer(x->v->loop, &x->reap, on_reap);
}

void qs_over(struct qs_exchange *x, const char *reason)
{
    if (x->state == QS_OVER)
        return;
    if (!x->reason)
        x->reason = reason;
    release(x, reason != NULL);
    x->state = QS_OVER;
    tell(x);
    reap(x);
}

void qs_abort(struct qs_exchange *x, const char *reason)
{
    if (x->stream)
        sw_qstream_abort(x->stream, CODE);
    qs_over(x, reason);
}

void qs_want_data(struct qs_exchange *x)
{
    if (!x->in_data)
        sw_qstream_resume(x->stream);
}

/* ---- answers ---- */

bool qs_answer(struct qs_exchange *x, struct sw_slice head)
{
    if (sw_qstream_write(x->stream, head.p, head.n) == head.n)
        return true;
    qs_abort(x, "no_room");
    return false;
}

static void on_drain_timeout(struct sw_timer *t)
{
    qs_abort(SW_CONTAINER_OF(t, struct qs_exchange, timer), NULL);
}

/*
 * The peer may be in the middle of a body, which is read for a while: a peer that gets STOP_SENDING
 * may not read the answer.
 */
static void drain_refused(struct qs_exchange *x)
{
    release(x, false);
    x->state = QS_REFUSED;
    sw_qstream_finish(x->stream);
    if (x->fin) {
        qs_over(x, x->reason);
        return;
    }
    sw_timer_start(x->v->loop, &x->timer, refused_drain_ns, on_drain_timeout);
    qs_want_data(x);
}

void qs_refuse(struct qs_exchange *x, unsigned status, const char *phrase, const char *reason)
{
    SW_BUF_AUTO head = {.max = 1024};
    int rc = sw_h1_put_status(&head, (int)status, sw_slice_str(phrase), 1);
    char id[SW_NODEID_SHORT];

    if (rc == SW_OK)
        rc = sw_buf_printf(&head, "content-length: 0\r\nx-spanwire-reason: %s\r\n\r\n", reason);
    x->reason = reason;
    /* The owner logs those that it decided on. */
    sw_log(x->verdict.status || x->state > QS_HEAD ? SW_LOG_DEBUG : SW_LOG_INFO, "tunnel",
           "%s: %s %.*s:%u refused with %u: %s", sw_nodeid_short(&x->peer, id),
           sw_qkind_text(x->head.kind), (int)sw_min(x->head.host.n, 100),
           x->head.host.p ? x->head.host.p : "", x->head.port, status, reason);
    qs_begun(x, status);
    if (rc == SW_OK && qs_answer(x, sw_buf_slice(&head)))
        drain_refused(x);
}

/* ---- bytes through ---- */

void qs_pump_done(struct sw_qpump *p, int rc)
{
    struct qs_exchange *x = SW_CONTAINER_OF(p, struct qs_exchange, pump);

    x->bytes_in = p->to_socket;
    x->bytes_out += p->from_socket;
    if (rc == SW_ETIME)
        qs_over(x, "idle");
    else
        qs_over(x, rc == SW_OK ? NULL : "reset");
}

static void on_tap(void *arg, bool from_socket, const uint8_t *p, size_t n)
{
    struct qs_exchange *x = arg;

    x->verdict.tap(x->verdict.tag, from_socket, p, n);
}

void qs_pump(struct qs_exchange *x, struct sw_dialled *d)
{
    if (x->verdict.tap) {
        x->pump.tap = on_tap;
        x->pump.tap_arg = x;
    }
    x->state = QS_PUMP;
    sw_timer_stop(x->v->loop, &x->timer);
    sw_qpump_start_dialled(&x->pump, x->v->loop, x->stream, d, x->v->c.idle_timeout_ns,
                           qs_pump_done);
    if (x->fin)
        (void)sw_qpump_data(&x->pump, NULL, 0, true);
    else
        qs_want_data(x);
}

void qs_connected(struct qs_exchange *x, struct sw_dialled *d, const struct sw_addr *to)
{
    sw_timer_stop(x->v->loop, &x->timer);
    switch (x->head.kind) {
    case SW_QKIND_TCP:
        qs_begun(x, 200);
        if (qs_answer(x, SW_SLICE_LIT("HTTP/1.1 200 Connection Established\r\n\r\n")))
            qs_pump(x, d);
        else
            sw_dialled_close(d);
        break;
    case SW_QKIND_HTTP:
    case SW_QKIND_UPGRADE:
        x->to = *to;
        qs_http_start(x, d, false);
        break;
    case SW_QKIND_UDP:
        qs_udp_start(x, to);
        break;
    }
}

/* ---- the head ---- */

static struct sw_qserve_ask question(const struct qs_exchange *x)
{
    return (struct sw_qserve_ask){
        .peer = &x->peer,
        .kind = x->head.kind,
        .host = x->head.host,
        .port = x->head.port,
        .method = x->msg->method,
        .path = x->head.path,
        .request_id = field_of(x, SW_QHEAD_REQUEST_ID),
    };
}

bool qs_permits(const struct qs_exchange *x, const struct sw_addr *to)
{
    struct sw_qserve_ask q = question(x);

    return !x->v->c.permit || x->v->c.permit(x->v->c.arg, &q, to);
}

static void ask(const struct qs_exchange *x, struct sw_qserve_verdict *ret)
{
    struct sw_qserve_ask q = question(x);

    *ret = (struct sw_qserve_verdict){.tag = x->verdict.tag};
    if (x->v->c.authorise) {
        x->v->c.authorise(x->v->c.arg, &q, ret);
    } else {
        ret->status = 403;
        ret->reason = "denied";
    }
}

static void judge(struct qs_exchange *x)
{
    struct sw_qserve *v = x->v;
    bool udp = x->head.kind == SW_QKIND_UDP;

    if (v->draining) {
        qs_refuse(x, 503, NULL, "draining");
        return;
    }
    if (v->stats.streams > v->c.max_streams || (udp && v->stats.udp_flows >= v->c.max_udp)) {
        qs_refuse(x, 503, NULL, "too_many");
        return;
    }
    if ((udp && v->c.no_udp) || x->head.https) {
        qs_refuse(x, 501, NULL, udp ? "udp_off" : "https_origin");
        return;
    }
    ask(x, &x->verdict);
    x->verdict.host_header = sw_arena_slice(&x->arena, x->verdict.host_header);
    if (x->verdict.status) {
        v->stats.denied++;
        qs_refuse(x, x->verdict.status, NULL, x->verdict.reason ? x->verdict.reason : "denied");
        return;
    }
    v->stats.accepted++;
    x->state = QS_RESOLVE;
    qs_dial(x);
}

static void bad_head(struct qs_exchange *x, const struct sw_err *err)
{
    int status = err->rc == SW_ELIMIT ? 431 : 400;
    char id[SW_NODEID_SHORT];

    x->v->stats.malformed++;
    sw_log_debug("tunnel", "%s: bad head: %s", sw_nodeid_short(&x->peer, id), err->msg);
    qs_refuse(x, (unsigned)status, NULL, status == 431 ? "head_too_large" : "bad_head");
}

static size_t read_head(struct qs_exchange *x, const uint8_t *p, size_t n)
{
    size_t used = 0;
    struct sw_err err = {0};
    int rc = sw_qhead_feed(x->parser, &x->in, sw_slice(p, n), &used, &err);

    if (rc == SW_EAGAIN)
        return used;
    if (rc == SW_OK) {
        x->msg = sw_h1_msg_dup(&x->arena, sw_h1_msg(x->parser));
        rc = sw_qhead_read(x->msg, &x->head, &err);
    }
    if (rc != SW_OK) {
        bad_head(x, &err);
        return n;
    }
    sw_timer_stop(x->v->loop, &x->timer);
    sw_h1_free(SW_TAKE(x->parser));
    sw_buf_done(&x->in);
    return used;
}

static void on_head_timeout(struct sw_timer *t)
{
    struct qs_exchange *x = SW_CONTAINER_OF(t, struct qs_exchange, timer);

    x->v->stats.malformed++;
    qs_abort(x, "head_timeout");
}

/* ---- the stream ---- */

static size_t drop(struct qs_exchange *x, size_t n, bool fin)
{
    x->dropped += n;
    if (fin)
        qs_over(x, x->reason);
    else if (x->dropped > REFUSED_DROP_MAX)
        sw_qstream_stop(x->stream, CODE);
    return n;
}

static size_t on_head_data(struct qs_exchange *x, const uint8_t *p, size_t n, bool fin)
{
    size_t used = read_head(x, p, n);

    if (fin && used == n)
        x->fin = true;
    if (x->msg && x->state == QS_HEAD)
        judge(x);
    else if (fin && x->state == QS_HEAD)
        qs_abort(x, "cut_head");
    else if (fin && x->state == QS_REFUSED)
        qs_over(x, x->reason);
    return used;
}

static size_t take(struct qs_exchange *x, const uint8_t *p, size_t n, bool fin)
{
    switch (x->state) {
    case QS_HEAD:
        return on_head_data(x, p, n, fin);
    case QS_RESOLVE:
        if (n == 0 && fin)
            x->fin = true;
        return 0; /* until it can be consumed */
    case QS_PUMP:
        return sw_qpump_data(&x->pump, p, n, fin);
    case QS_HTTP:
        return qs_request_data(x, p, n, fin);
    case QS_UDP:
        return qs_udp_data(x, p, n, fin);
    case QS_REFUSED:
        return drop(x, n, fin);
    case QS_OVER:
        break;
    }
    return n;
}

/* What the head's state leaves goes to the one that follows, in the same call. */
static size_t on_data(struct sw_qstream *s, const uint8_t *p, size_t n, bool fin)
{
    struct qs_exchange *x = sw_qstream_arg(s);
    enum qs_state before;
    size_t used = 0;

    x->in_data = true;
    do {
        before = x->state;
        used += take(x, used ? p + used : p, n - used, fin); /* p may be NULL */
    } while (x->state != before && used < n);
    x->in_data = false;
    return used;
}

static void on_writable(struct sw_qstream *s)
{
    struct qs_exchange *x = sw_qstream_arg(s);

    if (x->state == QS_PUMP)
        sw_qpump_writable(&x->pump);
    else if (x->state == QS_HTTP)
        qs_http_writable(x);
}

static void broken(struct qs_exchange *x, const char *reason)
{
    if (x->state == QS_PUMP)
        sw_qpump_broken(&x->pump);
    else if (x->state == QS_REFUSED)
        qs_abort(x, NULL);
    else if (x->state != QS_OVER)
        qs_abort(x, reason);
}

static void on_stopped(struct sw_qstream *s, uint64_t code)
{
    broken(sw_qstream_arg(s), "peer_stopped");
}

static void on_reset(struct sw_qstream *s, uint64_t code)
{
    broken(sw_qstream_arg(s), "peer_reset");
}

static void on_closed(struct sw_qstream *s, bool lost)
{
    struct qs_exchange *x = sw_qstream_arg(s);

    x->stream = NULL;
    if (x->state == QS_REFUSED)
        qs_over(x, x->reason);
    else
        qs_over(x, lost ? "connection_lost" : "closed");
    x->conn = NULL;
    reap(x);
}

static const struct sw_qstream_ops stream_ops = {
    .data = on_data,
    .writable = on_writable,
    .stopped = on_stopped,
    .reset = on_reset,
    .closed = on_closed,
};

void qs_accept(struct qs_conn *c, struct sw_qstream *s)
{
    struct sw_qserve *v = c->v;
    struct qs_exchange *x = SW_NEW(struct qs_exchange);

    x->v = v;
    x->conn = c;
    x->stream = s;
    x->peer = *sw_qconn_peer(c->q);
    x->id = sw_qstream_id(s);
    x->begin_ns = sw_loop_now(v->loop);
    x->parser = sw_h1_new(SW_H1_REQUEST, &sw_qhead_limits);
    x->pump.fd = -1;
    x->dial.fd = -1;
    sw_buf_init(&x->in, SW_QHEAD_MAX);
    sw_list_push_back(&v->exchanges, &x->link);
    v->stats.streams++;
    sw_timer_start(v->loop, &x->timer, v->c.head_timeout_ns, on_head_timeout);
    sw_qstream_attach(s, &stream_ops, x);
}

void qs_stop(struct qs_exchange *x)
{
    struct sw_qstream *s = x->stream;

    if (s) {
        sw_qstream_attach(s, &sw_qstream_orphan, NULL);
        sw_qstream_abort(s, CODE);
        x->stream = NULL;
    }
    qs_over(x, "stopped");
    sw_defer_cancel(&x->reap);
    on_reap(&x->reap);
}

void qs_recheck(struct qs_exchange *x)
{
    struct sw_qserve_verdict verdict;
    char id[SW_NODEID_SHORT];

    if (x->state == QS_HEAD || x->state == QS_REFUSED || x->state == QS_OVER)
        return;
    ask(x, &verdict);
    if (!verdict.status)
        return;
    x->v->stats.denied++;
    sw_log_info("tunnel", "%s: %s %.*s:%u ended: %s", sw_nodeid_short(&x->peer, id),
                sw_qkind_text(x->head.kind), SW_SLICE_ARG(x->head.host), x->head.port,
                verdict.reason ? verdict.reason : "denied");
    qs_abort(x, "revoked");
}
