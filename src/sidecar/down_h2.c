/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 from the gateway (prior knowledge, or TLS where the listener has it): every stream is a
 * stream to a node. What a node cannot take waits here, bounded by the window the gateway was
 * given; what the gateway cannot take waits with the node.
 */
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "http/h2conn.h"
#include "sidecar/sidecar_int.h"

enum {
    WINDOW = 1 << 20,
    QUEUE_MAX = 256 * 1024, /* toward the gateway, per stream */
    FIELDS_MAX = 128,
};

struct h2c {
    struct sw_list link;
    struct sw_sidecar *s;
    struct sw_h2conn *conn;
    enum side_source source;
    bool tls;
};

struct h2x {
    struct sw_list link;
    struct sw_sidecar *s;
    struct sw_h2stream *stream; /* NULL once it is gone */
    struct sw_qcall call;
    struct side_out req; /* without its texts, but for the next */
    struct side_log log;
    struct sw_buf up; /* received, not passed on */
    struct sw_capsule_reader capsules;
    struct sw_defer reap;
    bool eof : 1; /* the gateway finished */
    bool finished : 1;
    bool answered : 1;
    bool tunnel : 1;
    bool no_body : 1;
    bool blocked : 1;
    bool over : 1;
    bool open : 1;
};

static const struct sw_qcall_ops call_ops;

static void on_reap(struct sw_defer *d)
{
    struct h2x *x = SW_CONTAINER_OF(d, struct h2x, reap);

    sw_list_unlink(&x->link);
    sw_capsule_done(&x->capsules);
    sw_buf_done(&x->up);
    sw_free(x);
}

/* Nothing more happens to the exchange but the end of its queued output. */
static void over(struct h2x *x, const char *reason)
{
    if (x->over)
        return;
    x->over = true;
    if (x->open)
        side_end(x->s, &x->log, reason);
    x->open = false;
    sw_loop_defer(x->s->loop, &x->reap, on_reap);
}

static void detach(struct h2x *x)
{
    static const struct sw_h2stream_ops none = {0};

    if (x->stream)
        sw_h2stream_own(x->stream, &none, NULL);
    x->stream = NULL;
}

/* Breaks the stream off toward both sides. */
static void abort_both(struct h2x *x, const char *reason)
{
    struct sw_h2stream *s = x->stream;

    sw_qcall_cancel(&x->call);
    detach(x);
    if (s)
        sw_h2stream_reset(s, x->tunnel ? SW_H2_CONNECT_ERROR : SW_H2_INTERNAL_ERROR);
    over(x, reason);
}

/* ---- answers ---- */

static struct sw_slice status_text(char out[8], unsigned status)
{
    (void)snprintf(out, 8, "%u", status);
    return sw_slice_str(out);
}

static void put_error(struct sw_sidecar *s, struct sw_h2stream *stream, unsigned status,
                      const char *reason, const char *proxy_error, const char *text)
{
    SW_ARENA_AUTO tmp = {0};
    char code[8];
    struct sw_h2_header f[6] = {
        {SW_SLICE_LIT(":status"), status_text(code, status)},
        {SW_SLICE_LIT("x-spanwire-reason"), sw_slice_str(reason)},
        {SW_SLICE_LIT("proxy-status"), side_proxy_status(&tmp, proxy_error, text)},
        {SW_SLICE_LIT("content-type"), SW_SLICE_LIT("text/plain")},
        {SW_SLICE_LIT("retry-after"), SW_SLICE_LIT("5")},
    };
    struct sw_slice body[2] = {sw_slice_str(text), SW_SLICE_LIT("\n")};

    side_error(s, status);
    sw_h2stream_respond(stream, f, status == 503 ? 5 : 4, false);
    (void)!sw_h2stream_sendv(stream, body, 2); /* a fresh queue has room */
    sw_h2stream_end(stream, NULL, 0);
}

static bool keep_answer_field(const struct h2x *x, const struct sw_h1_msg *m, struct sw_slice name)
{
    if (sw_h1_is_hop_by_hop(m, name))
        return false;
    return !x->tunnel || !sw_slice_ieq(name, SW_SLICE_LIT("content-length"));
}

static void respond(struct h2x *x, const struct sw_h1_msg *m, unsigned status, bool end)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_h2_header f[SW_QHEAD_FIELDS + 2];
    char code[8];
    size_t n = 1;

    f[0] = (struct sw_h2_header){SW_SLICE_LIT(":status"), status_text(code, status)};
    for (size_t i = 0; i < m->nfields && n < SW_ARRAY_LEN(f); i++) {
        char *name;

        if (!keep_answer_field(x, m, m->fields[i].name))
            continue;
        name = sw_arena_dup(&tmp, m->fields[i].name);
        for (char *p = name; *p; p++) {
            if (*p >= 'A' && *p <= 'Z')
                *p = (char)(*p - 'A' + 'a');
        }
        f[n++] = (struct sw_h2_header){sw_slice(name, m->fields[i].name.n), m->fields[i].value};
    }
    if (x->log.why[0] && !sw_h1_field(m, SIDE_REASON) && n < SW_ARRAY_LEN(f))
        f[n++] = (struct sw_h2_header){SW_SLICE_LIT(SIDE_REASON), sw_slice_str(x->log.why)};
    sw_h2stream_respond(x->stream, f, n, end);
}

/* ---- the node's side ---- */

static struct h2x *of(struct sw_qcall *q)
{
    return SW_CONTAINER_OF(q, struct h2x, call);
}

/* Passes on what waits; credits the gateway for what left. */
static void push_up(struct h2x *x)
{
    size_t n = sw_buf_len(&x->up);
    size_t k = n ? sw_qcall_write(&x->call, sw_buf_data(&x->up), n) : 0;

    if (k) {
        sw_buf_consume(&x->up, k);
        x->log.up += k;
        if (x->stream)
            sw_h2stream_took(x->stream, k);
    }
    if (x->eof && sw_buf_len(&x->up) == 0 && !x->finished) {
        x->finished = true;
        sw_qcall_finish(&x->call);
    }
}

static void on_answered(struct sw_qcall *q, const struct sw_h1_msg *m)
{
    struct h2x *x = of(q);
    bool connect = x->req.kind == SIDE_CONNECT;
    bool tunnel = connect ? m->status / 100 == 2 : x->req.kind != SIDE_ORIGIN && m->status == 101;

    if (m->status == 101 && !tunnel) {
        abort_both(x, "bad_answer");
        return;
    }
    x->answered = true;
    x->tunnel = tunnel;
    side_answered(x->s, &x->log, m);
    x->no_body = x->req.head_only || m->status == 204 || m->status == 304;
    if (connect && !tunnel) { /* a refusal: its fields, and no body */
        respond(x, m, (unsigned)m->status, true);
        sw_qcall_cancel(q);
        detach(x);
        over(x, NULL);
        return;
    }
    respond(x, m, tunnel ? 200 : (unsigned)m->status, false);
}

static void answer_done(struct h2x *x)
{
    struct sw_h2stream *s = x->stream;

    if (s)
        sw_h2stream_end(s, NULL, 0);
    if (x->tunnel && !x->finished)
        return; /* the other direction continues */
    if (x->finished)
        sw_qcall_release(&x->call);
    else
        sw_qcall_cancel(&x->call); /* the rest of the request is not wanted */
    detach(x);
    over(x, NULL);
}

static size_t on_data(struct sw_qcall *q, const uint8_t *p, size_t n, bool fin)
{
    struct h2x *x = of(q);
    size_t queued = x->stream ? sw_h2stream_queued(x->stream) : 0;
    size_t k = x->no_body ? n : sw_min(n, queued < QUEUE_MAX ? QUEUE_MAX - queued : 0);

    if (!x->stream)
        return n;
    if (k && !x->no_body && sw_h2stream_send(x->stream, sw_slice(p, k)) != SW_OK) {
        abort_both(x, "client_gone");
        return n;
    }
    x->log.down += k;
    x->blocked = k < n;
    if (fin && k == n)
        answer_done(x);
    return k;
}

static void on_datagram(struct sw_qcall *q, const uint8_t *p, size_t n)
{
    struct h2x *x = of(q);
    uint8_t head[SW_CAPSULE_UDP_HEAD];
    struct sw_slice v[2] = {sw_slice(head, sw_capsule_udp_head(head, n)), sw_slice(p, n)};

    /* A slow reader loses it, as with any UDP. */
    if (x->stream && sw_h2stream_queued(x->stream) < QUEUE_MAX &&
        sw_h2stream_sendv(x->stream, v, 2) == SW_OK)
        x->log.down += n;
}

static void on_writable(struct sw_qcall *q)
{
    push_up(of(q));
}

static void on_ended(struct sw_qcall *q, enum sw_qfail why, const char *text)
{
    struct h2x *x = of(q);
    struct side_failure f = side_failure_of(why);

    if (x->over)
        return;
    if (why == SW_QFAIL_NONE) {
        detach(x);
        over(x, NULL);
        return;
    }
    side_failed(x->s, &x->log, why);
    if (x->answered || !x->stream) {
        abort_both(x, sw_qfail_text(why));
        return;
    }
    x->log.status = f.status;
    put_error(x->s, x->stream, f.status, sw_qfail_text(why), f.proxy_error,
              text[0] ? text : sw_qfail_text(why));
    detach(x);
    over(x, sw_qfail_text(why));
}

static const struct sw_qcall_ops call_ops = {
    .answered = on_answered,
    .data = on_data,
    .writable = on_writable,
    .datagram = on_datagram,
    .ended = on_ended,
};

/* ---- the gateway's side ---- */

static void on_stream_data(struct sw_h2stream *s, struct sw_slice data, void *arg)
{
    struct h2x *x = arg;
    size_t k = 0;

    if (x->call.datagrams) {
        sw_h2stream_took(s, data.n);
        if (side_udp_up(&x->capsules, &x->call, data, &x->log.up) != SW_OK)
            abort_both(x, "bad_capsule");
        return;
    }

    if (sw_buf_len(&x->up) == 0)
        k = sw_qcall_write(&x->call, data.p, data.n);
    if (k) {
        x->log.up += k;
        sw_h2stream_took(s, k);
    }
    /* The window bounds what is kept. */
    if (k < data.n && sw_buf_append_slice(&x->up, sw_slice_from(data, k)) != SW_OK)
        abort_both(x, "client_window");
}

static void on_stream_end(struct sw_h2stream *s, void *arg)
{
    struct h2x *x = arg;

    x->eof = true;
    push_up(x);
}

static void on_stream_drain(struct sw_h2stream *s, void *arg)
{
    struct h2x *x = arg;

    if (x->blocked) {
        x->blocked = false;
        sw_qcall_resume(&x->call);
    }
}

static void on_stream_close(struct sw_h2stream *s, uint32_t code, void *arg)
{
    struct h2x *x = arg;

    x->stream = NULL;
    if (x->over)
        return;
    if (code == SW_H2_NO_ERROR && x->finished)
        sw_qcall_release(&x->call);
    else
        sw_qcall_cancel(&x->call);
    over(x, code == SW_H2_NO_ERROR ? NULL : "client_reset");
}

static const struct sw_h2stream_ops stream_ops = {
    .on_data = on_stream_data,
    .on_end = on_stream_end,
    .on_drain = on_stream_drain,
    .on_close = on_stream_close,
};

static void fill_in(const struct sw_h2_head *head, struct sw_h1_field *fields, struct side_in *in)
{
    struct sw_slice cl = sw_h2_head_get(head, "content-length");
    struct sw_slice host = sw_h2_head_get(head, "host");
    size_t n = sw_min(head->n, FIELDS_MAX);

    for (size_t i = 0; i < n; i++)
        fields[i] = (struct sw_h1_field){head->headers[i].name, head->headers[i].value};
    *in = (struct side_in){
        .method = head->method,
        .authority = head->authority.n ? head->authority : host,
        .path = head->path,
        .protocol = head->protocol,
        .extended = head->protocol.n > 0,
        .fields = fields,
        .n = n,
    };
    in->length_known = cl.p && sw_slice_to_u64(cl, UINT64_MAX >> 1, &in->length);
}

static bool read_request(struct h2c *c, struct sw_arena *a, const struct sw_h2_head *head,
                         struct side_out *ret, struct side_refusal *why)
{
    struct sw_h1_field fields[FIELDS_MAX];
    struct side_in in;

    if (c->s->draining) {
        *why = (struct side_refusal){503, "draining", "the sidecar is going away"};
        return false;
    }
    if (c->tls && !sw_h2conn_peer(c->conn)) {
        *why =
            (struct side_refusal){403, "no_client_certificate", "a client certificate is needed"};
        return false;
    }
    if (head->n > FIELDS_MAX) {
        *why = (struct side_refusal){431, "head_too_large", "too many fields"};
        return false;
    }
    fill_in(head, fields, &in);
    in.datagrams = c->s->c->udp_datagrams;
    return side_request_read(a, &c->s->aliases, &in, ret, why) && side_may(c->s, ret, why);
}

static void on_request(struct sw_h2conn *conn, struct sw_h2stream *s, const struct sw_h2_head *head,
                       void *arg)
{
    static const struct sw_h2stream_ops none = {0};
    SW_ARENA_AUTO tmp = {0};
    struct h2c *c = arg;
    struct side_refusal why = {0};
    struct side_out req;
    struct sw_qcall_spec spec;
    struct h2x *x;

    if (!read_request(c, &tmp, head, &req, &why)) {
        sw_h2stream_own(s, &none, NULL);
        side_denied(c->s, &why);
        put_error(c->s, s, why.status, why.reason, "http_request_error", why.text);
        return;
    }
    x = SW_NEW(struct h2x);
    x->s = c->s;
    x->stream = s;
    x->req = req;
    x->open = true;
    sw_list_push_back(&c->s->h2x, &x->link);
    sw_buf_init(&x->up, WINDOW + 65536);
    sw_h2stream_own(s, &stream_ops, x);
    side_begin(c->s, &x->log, &req, c->source, SIDE_H2);
    spec = side_call_spec(&req, SW_SLICE_LIT("GET"), c->s->c->answer_ns);
    x->req.head = x->req.target = x->req.protocol = (struct sw_slice){0};
    sw_qcall_start(c->s->dial, &x->call, &spec, &call_ops);
}

static void on_closed(struct sw_h2conn *conn, const struct sw_err *err, void *arg)
{
    struct h2c *c = arg;

    if (err->rc != SW_EOF && err->rc != SW_OK)
        sw_log_debug("sidecar", "HTTP/2 connection ended: %s", err->msg);
    sw_list_unlink(&c->link);
    c->s->n_conns--;
    sw_free(c);
}

static const struct sw_h2conn_ops conn_ops = {.on_request = on_request, .on_closed = on_closed};

void side_h2_serve(struct sw_sidecar *s, int fd, enum side_source source, bool tls)
{
    struct h2c *c = SW_NEW(struct h2c);
    struct sw_err err = {0};
    struct sw_h2conn_opts o = {
        .scope = "sidecar",
        .server = true,
        .cred = tls ? s->cred : NULL,
        .stream_window = WINDOW,
        .max_streams = 1024,
        .max_header_list = 64 * 1024,
        .extended_connect = true,
        .max_queue = (size_t)2 * QUEUE_MAX,
        .ops = &conn_ops,
        .arg = c,
    };

    c->s = s;
    c->source = source;
    c->tls = tls;
    c->conn = sw_h2conn_new(s->loop, fd, &o, &err);
    if (!c->conn) {
        sw_log_warn("sidecar", "connection: %s", err.msg);
        sw_free(c);
        return;
    }
    sw_list_push_back(&s->h2, &c->link);
    s->n_conns++;
}

void side_h2_drain(struct sw_sidecar *s)
{
    SW_LIST_EACH (struct h2c, c, &s->h2, link)
        sw_h2conn_goaway(c->conn);
}

void side_h2_kill_all(struct sw_sidecar *s)
{
    SW_LIST_EACH (struct h2c, c, &s->h2, link) {
        sw_h2conn_free(c->conn);
        sw_list_unlink(&c->link);
        s->n_conns--;
        sw_free(c);
    }
    SW_LIST_FOREACH (it, &s->h2x) { /* all are over */
        struct h2x *x = SW_CONTAINER_OF(it, struct h2x, link);

        sw_defer_cancel(&x->reap);
        on_reap(&x->reap);
    }
}
