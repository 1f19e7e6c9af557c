/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 toward clients: streams become exchanges. The engine counts frames that cost us and not
 * the peer; here the number of streams taken back early is added.
 */
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "gateway/codec/down.h"
#include "gateway/codec/h2.h"
#include "gateway/conn/abuse.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/side.h"
#include "gateway/message/fields.h"
#include "gateway/observe/stats.h"
#include "http/grammar.h"

enum {
    STREAMS_MAX = 1024,
    CONTROL_PER_S = 1000,
    CREDIT_MAX = 1000,    /* answered streams that excuse as many early resets */
    PROBATION_RESETS = 4, /* of a connection whose address used up its allowance */
};

struct down_h2 {
    struct gw_h2 g;
    struct down *d;
    struct sw_exchange *fresh; /* its arena takes the head being received */
    struct sw_timer goaway;
    struct sw_defer over; /* while draining: the last stream ended */
    uint64_t control_ns;  /* begin of the second 'control' counts in */
    uint32_t control;
    uint32_t credit;       /* answered streams, less the early resets they excused */
    uint32_t early_resets; /* not excused */
    bool draining;
    bool leaving; /* the client sent GOAWAY */
    bool refused; /* counted and logged */
};

static struct gw_h2_stream *of(const struct sw_exchange *x)
{
    return x->down.stream;
}

/* ---- answers ---- */

static size_t status_text(char out[4], unsigned status)
{
    out[0] = (char)('0' + status / 100 % 10);
    out[1] = (char)('0' + status / 10 % 10);
    out[2] = (char)('0' + status % 10);
    return 3;
}

static void send_head(struct sw_exchange *x, bool end)
{
    struct gw_h2_stream *s = of(x);
    struct sw_h2_header few[40];
    struct sw_h2_header *f = few;
    char status[4];
    char length[24];
    size_t n = 0;
    const struct sw_gw_response *r = &x->resp;

    if (r->fields.n + 2 > SW_ARRAY_LEN(few))
        f = sw_arena_array(&x->arena, r->fields.n + 2, sizeof(*f));
    /* What HTTP/1.1 calls 101 is a plain 200 to an extended CONNECT. */
    if (r->status == 101)
        x->resp.status = 200;
    f[n++] = (struct sw_h2_header){SW_SLICE_LIT(":status"),
                                   sw_slice(status, status_text(status, r->status))};
    n += gw_h2_put_fields(x, &r->fields, f + n);
    if ((r->length == SW_GW_LENGTH_KNOWN || r->has_length) && r->status != 204)
        f[n++] = gw_h2_put_length(length, r->content_length);
    /* HTTP/1.1 has no trailers behind a known length; HTTP/2 may. */
    if (r->length == SW_GW_LENGTH_KNOWN && r->version != SW_GW_HTTP2 && !x->req.head && !end) {
        s->known = true;
        s->left = r->content_length;
    }
    if (end)
        s->bare = s->end_out = s->end = true;
    if (sw_h2_respond(s->g->h2, s->id, f, n, end, NULL) != SW_OK)
        sw_h2_reset(s->g->h2, s->id, SW_H2_INTERNAL_ERROR);
    if (!end) /* its body may be long in coming */
        gw_h2_flush_later(s->g);
}

static void send_data(struct sw_exchange *x, struct sw_slice data)
{
    gw_h2_send(of(x), data, x->resp.local || x->gzip);
}

static void send_end(struct sw_exchange *x)
{
    gw_h2_send_end(of(x));
}

static struct gw_h2_stream *detach(struct sw_exchange *x)
{
    struct gw_h2_stream *s = gw_side_detach(&x->down);

    s->x = NULL;
    return s;
}

static void abort_down(struct sw_exchange *x)
{
    struct gw_h2_stream *s = detach(x);

    if (!s->end_out)
        sw_h2_reset(s->g->h2, s->id, SW_H2_INTERNAL_ERROR);
    gw_h2_stream_rest(s);
    gw_h2_flush(s->g);
}

static void done(struct sw_exchange *x)
{
    bool whole = x->down.end_got;
    struct gw_h2_stream *s;

    s = detach(x);
    s->paused = false;
    /*
     * Answered before the request was complete: the rest is not read. The engine resets the stream
     * itself when the head ended the answer.
     */
    if (!whole && s->end_out && !s->bare && !s->pend)
        sw_h2_reset(s->g->h2, s->id, SW_H2_NO_ERROR);
    gw_h2_stream_rest(s);
    gw_h2_flush(s->g);
}

static void send_info(struct sw_exchange *x, int status)
{
    struct gw_h2_stream *s = of(x);
    struct sw_h2_header *f;
    char text[4];

    if (status == 100)
        return; /* HTTP/2 clients send their body without waiting */
    f = sw_arena_array(&x->arena, x->info.n + 1, sizeof(*f));
    f[0] = (struct sw_h2_header){SW_SLICE_LIT(":status"),
                                 sw_slice(text, status_text(text, (unsigned)status))};
    if (sw_h2_inform(s->g->h2, s->id, f, 1 + gw_h2_put_fields(x, &x->info, f + 1), NULL) == SW_OK)
        gw_h2_flush(s->g);
}

static const struct sw_gw_side_ops side = {
    .send_head = send_head,
    .send_data = send_data,
    .send_end = send_end,
    GW_H2_SIDE_OPS,
    .abort = abort_down,
    .done = done,
    .send_info = send_info,
};

/* ---- requests ---- */

static struct down_h2 *owner_of(struct sw_h2 *h)
{
    return SW_CONTAINER_OF((struct gw_h2 *)sw_h2_owner(h), struct down_h2, g);
}

static struct sw_arena *on_begin(struct sw_h2 *h, int32_t id, void *stream)
{
    struct down_h2 *o = owner_of(h);

    if (stream)
        return NULL; /* a trailer: its exchange may end before the block does */
    if (o->fresh)
        sw_arena_reset(&o->fresh->arena, SIZE_MAX);
    else
        o->fresh = sw_exchange_new(o->d->worker);
    return &o->fresh->arena;
}

static bool te_trailers(const struct sw_h2_head *head)
{
    return sw_slice_ieq(sw_h2_head_get(head, "te"), SW_SLICE_LIT("trailers"));
}

/* Cookies may come in pieces (RFC 9113 8.2.3); HTTP/1.1 wants one field. */
static void join_cookies(struct sw_exchange *x)
{
    struct sw_gw_fields *f = &x->req.fields;
    struct sw_slice *first = NULL;
    size_t total = 0;
    uint32_t count = 0;
    uint32_t k = 0;
    char *p;
    size_t at = 0;

    for (uint32_t i = 0; i < f->n; i++) {
        if (f->hid[i] == SW_GW_H_OTHER && sw_slice_eq_str(f->p[i].name, "cookie")) {
            total += f->p[i].value.n + 2;
            count++;
        }
    }
    if (count < 2)
        return;
    p = sw_arena_alloc(&x->arena, total);
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->hid[i] == SW_GW_H_OTHER && sw_slice_eq_str(f->p[i].name, "cookie")) {
            if (at) {
                memcpy(p + at, "; ", 2);
                at += 2;
            }
            memcpy(p + at, f->p[i].value.p, f->p[i].value.n);
            at += f->p[i].value.n;
            if (first)
                continue;
            first = &f->p[k].value;
        }
        f->p[k] = f->p[i];
        f->hid[k++] = f->hid[i];
    }
    f->n = k;
    if (first)
        *first = sw_slice(p, at);
}

/* Fills the request; false: malformed beyond what the engine checks. */
static bool take_head(struct sw_exchange *x, const struct sw_h2_head *head, bool end)
{
    struct sw_gw_request *r = &x->req;
    struct sw_slice host = sw_h2_head_get(head, "host");

    r->method = head->method;
    r->authority = head->authority.n ? head->authority : host;
    if (host.n && !sw_slice_ieq(host, r->authority)) /* RFC 9113 8.3.1 */
        return false;
    r->path = head->path;
    r->version = SW_GW_HTTP2;
    r->head = sw_slice_eq_str(r->method, "HEAD");
    r->te_trailers = te_trailers(head);
    gw_h2_take_fields(x, &r->fields, head, false);
    join_cookies(x);
    r->grpc = sw_gw_fields_grpc(&r->fields);
    if (sw_slice_eq_str(r->method, "CONNECT")) {
        r->connect = head->protocol.n == 0;
        r->upgrade = head->protocol;
        r->length = SW_GW_LENGTH_TUNNEL;
        if (end || !sw_http_host_valid(r->authority))
            return false;
        if (r->connect)
            return true;
    } else {
        r->length = end                                      ? SW_GW_LENGTH_NONE
                    : gw_h2_length(head, &r->content_length) ? SW_GW_LENGTH_KNOWN
                                                             : SW_GW_LENGTH_UNKNOWN;
    }
    if (!sw_http_token_valid(r->method) || !sw_http_host_valid(r->authority))
        return false;
    if (sw_slice_eq_str(r->path, "*"))
        return sw_slice_eq_str(r->method, "OPTIONS");
    return sw_http_target_strict(r->path) && r->path.p[0] == '/';
}

static void on_head(struct sw_h2 *h, int32_t id, void *stream, const struct sw_h2_head *head,
                    bool end)
{
    struct down_h2 *o = owner_of(h);
    struct down *d = o->d;
    const struct sw_gw_hcm *hcm = down_hcm(d);
    struct sw_exchange *x = o->fresh;
    struct gw_h2_stream *s;

    if (stream || !x)
        return;
    if (!d->worker->view) {
        sw_h2_reset(h, id, SW_H2_REFUSED_STREAM);
        return;
    }
    o->fresh = NULL;
    d->requests++;
    if (d->waiting)
        down_set_waiting(d, false);
    down_introduce(d, x);
    s = gw_h2_stream_new(&o->g, x);
    s->id = id;
    sw_h2_set_stream(h, id, s);
    x->down.ops = &side;
    x->down.stream = s;
    if (!take_head(x, head, end)) {
        x->down.end_got = end;
        (void)detach(x);
        sw_exchange_discard(x);
        sw_h2_reset(h, id, SW_H2_PROTOCOL_ERROR);
        return;
    }
    if (head->too_large || head->n > hcm->max_headers_count) {
        x->down.end_got = end;
        sw_exchange_refuse(x, 431, "request header fields too large");
        return;
    }
    if (hcm->underscores != SW_GW_UNDERSCORES_ALLOW &&
        sw_gw_fields_drop_underscored(&x->req.fields) &&
        hcm->underscores == SW_GW_UNDERSCORES_REJECT) {
        x->down.end_got = end;
        sw_exchange_refuse(x, 400, "underscore in a header name");
        return;
    }
    sw_exchange_start(x, end);
    if (down_is_last(d) && !o->draining)
        down_h2_drain(d);
}

static void on_trailers(struct sw_h2 *h, int32_t id, void *stream, const struct sw_h2_head *head)
{
    struct gw_h2_stream *s = stream;

    if (s && s->x && head->too_large) {
        sw_exchange_reply(s->x, 431, SW_SLICE_LIT("request trailers too large"),
                          "request header fields too large");
        return;
    }
    gw_h2_on_trailers(h, id, stream, head);
    if (s && s->x && down_hcm(owner_of(h)->d)->underscores != SW_GW_UNDERSCORES_ALLOW)
        (void)sw_gw_fields_drop_underscored(&s->x->req.trailers); /* too late to refuse */
}

static void on_end(struct sw_h2 *h, int32_t id, void *stream)
{
    struct gw_h2_stream *s = stream;

    if (s && s->x)
        sw_exchange_down_end(s->x);
}

static void maybe_rest(struct down_h2 *o)
{
    struct down *d = o->d;

    if (o->g.n_streams == 0 && !d->waiting)
        down_set_waiting(d, true);
}

/* Counts and logs, once, why the connection is ended. */
static void refused(struct down *d, const char *reason, const char *why)
{
    if (d->h2->refused)
        return;
    d->h2->refused = true;
    sw_gw_lstats_refused(d->life.stats, reason);
    sw_gw_lstats_log_refusal(d->life.stats, reason, &d->from.peer, why);
}

/*
 * Each answered stream excuses one reset: of a CDN's thousands of requests many are cancelled.
 * Others count for the connection and for its address. Once the address has used up its allowance
 * the connections that resets come from are ended; those without any are not touched.
 */
static void early_reset(struct down_h2 *o)
{
    static const char why[] = "too many early resets from this address";
    struct down *d = o->d;
    uint64_t now = sw_loop_now(d->worker->loop);
    bool spent;

    if (o->credit) {
        o->credit--;
        return;
    }
    spent = sw_gw_abuse_note(d->worker->abuse, &d->from.peer.ip, 1, now);
    sw_h2_count_early_reset(o->g.h2, now);
    if (++o->early_resets <= PROBATION_RESETS || !spent)
        return;
    sw_h2_calm(o->g.h2, why);
    refused(d, "abuse", why);
}

static void on_over(struct sw_defer *defer);

static void on_close(struct sw_h2 *h, int32_t id, void *stream, uint32_t code)
{
    struct gw_h2_stream *s = stream;
    struct down_h2 *o = owner_of(h);

    if (!s)
        return;
    if (s->end_out && code == SW_H2_NO_ERROR && o->credit < CREDIT_MAX)
        o->credit++;
    if (s->x && s->end_out && code == SW_H2_NO_ERROR) {
        /* All of a known length is sent; the upstream's end is yet to come. */
        s->x->down.end_sent = true;
        (void)detach(s->x);
    } else if (s->x) {
        if (!s->x->down.head_sent)
            early_reset(o);
        gw_side_client_gone(SW_TAKE(s->x));
    }
    gw_h2_stream_free(s);
    maybe_rest(o);
    if (o->draining && o->g.n_streams == 0) /* the client may have nothing more to send */
        sw_loop_defer(o->g.loop, &o->over, on_over);
}

/* Frames that cost us an answer and the peer nothing: a few per second are normal. */
static void on_control(struct sw_h2 *h)
{
    struct down_h2 *o = owner_of(h);
    uint64_t now = sw_loop_now(o->d->worker->loop);

    if (now - o->control_ns > SW_NS_PER_S) {
        o->control_ns = now;
        o->control = 0;
    }
    if (++o->control > CONTROL_PER_S)
        sw_h2_calm(h, "too many PING or SETTINGS frames");
}

static void on_goaway(struct sw_h2 *h, int32_t last, uint32_t code)
{
    (void)code; /* the client opens no more streams; it closes when it has its answers */
    owner_of(h)->leaving = true;
}

static const struct sw_h2_ops engine = {
    .on_begin = on_begin,
    .on_head = on_head,
    GW_H2_ENGINE_OPS,
    .on_trailers = on_trailers,
    .on_end = on_end,
    .on_close = on_close,
    .on_goaway = on_goaway,
    .on_control = on_control,
};

/* ---- the connection ---- */

static void gone(struct down *d);

static void on_silent(struct gw_h2 *g)
{
    struct down *d = SW_CONTAINER_OF(g, struct down_h2, g)->d;

    gone(d);
    sw_conn_close(&d->conn, true);
}

void down_h2_begin(struct down *d)
{
    const struct sw_gw_hcm *h = down_hcm(d);
    struct down_h2 *o = SW_NEW(struct down_h2);
    struct sw_h2_config config = gw_h2_config(&h->h2);

    config.server = true;
    config.max_header_list = h->max_headers_kb * 1024;
    config.max_streams = h->h2.max_streams ? (uint32_t)sw_min(h->h2.max_streams, STREAMS_MAX) : 128;
    config.extended_connect = h->h2.allow_connect;
    o->d = d;
    d->h2 = o;
    d->head_begun = false;
    gw_h2_init(&o->g, &d->conn, &config, &engine);
    gw_h2_flush(&o->g);
    if (h->h2.ping_interval_ns)
        gw_h2_keep_alive(&o->g, h->h2.ping_interval_ns, h->h2.ping_timeout_ns, on_silent);
}

/* A stream was reset for a malformed message; why may be NULL: none was. */
static void malformed(struct down *d, const char *why)
{
    if (!why)
        return;
    sw_gw_lstats_early_reply(d->life.stats, 0, "http2.codec_error");
    sw_gw_lstats_log_refusal(d->life.stats, "http2.codec_error", &d->from.peer, why);
}

static void end_if_finished(struct down *d)
{
    struct down_h2 *o = d->h2;

    if (d->conn.closed || d->conn.lingering || !sw_h2_finished(o->g.h2))
        return;
    if (!o->draining && !o->leaving) { /* the engine itself ended it */
        (void)sw_err_set(&o->g.err, SW_EPROTO, "broken HTTP/2 frame (%s)", sw_h2_fault(o->g.h2));
        refused(d, "http2_protocol", o->g.err.msg);
    }
    sw_conn_close_flushed(&d->conn);
}

static void on_over(struct sw_defer *defer)
{
    struct down_h2 *o = SW_CONTAINER_OF(defer, struct down_h2, over);

    if (!o->g.dead)
        end_if_finished(o->d);
}

static size_t on_bytes(struct sw_conn *c, struct sw_slice in)
{
    struct down *d = down_of(c);
    struct down_h2 *o = d->h2;

    if (o->g.dead)
        return in.n;
    if (gw_h2_feed(&o->g, in) != SW_OK) {
        refused(d, "http2_protocol", o->g.err.msg);
        gw_h2_flush(&o->g); /* GOAWAY carries the reason */
        o->g.dead = true;
        sw_conn_close_flushed(c);
    } else {
        malformed(d, sw_h2_complaint(o->g.h2));
    }
    return in.n;
}

static void on_batch(struct sw_conn *c, size_t wire)
{
    struct down *d = down_of(c);

    if (!d->h2 || d->h2->g.dead)
        return;
    gw_h2_flush(&d->h2->g);
    end_if_finished(d);
}

static void gone(struct down *d)
{
    struct down_h2 *o = d->h2;

    SW_LIST_EACH (struct gw_h2_stream, s, &o->g.streams, link)
        gw_side_client_gone(SW_TAKE(s->x));
}

static void on_eof(struct sw_conn *c)
{
    gone(down_of(c));
    sw_conn_close(c, false);
}

static void on_drained(struct sw_conn *c)
{
    struct down *d = down_of(c);

    gw_h2_drained(&d->h2->g);
    end_if_finished(d);
}

static void on_fail(struct sw_conn *c, const struct sw_err *err)
{
    gone(down_of(c));
    sw_conn_close(c, true);
}

const struct sw_conn_ops down_h2_ops = GW_CODEC_OPS(down_free);

void down_h2_goaway(struct down *d)
{
    sw_h2_goaway(d->h2->g.h2, SW_H2_NO_ERROR);
    gw_h2_flush(&d->h2->g);
}

static void on_goaway_due(struct sw_timer *t)
{
    struct down_h2 *o = SW_CONTAINER_OF(t, struct down_h2, goaway);

    if (o->d->conn.closed || o->d->conn.lingering)
        return;
    down_h2_goaway(o->d);
    if (o->g.n_streams == 0) /* though the engine may wait for the end of a header block */
        sw_conn_close_flushed(&o->d->conn);
    end_if_finished(o->d);
}

void down_h2_drain(struct down *d)
{
    struct down_h2 *o = d->h2;

    if (!o || o->draining || d->conn.closed || d->conn.lingering)
        return;
    /* Two steps, so that requests already on their way are still served (RFC 9113 6.8). */
    o->draining = true;
    sw_h2_shutdown_notice(o->g.h2);
    gw_h2_flush(&o->g);
    sw_timer_start(d->worker->loop, &o->goaway, down_hcm(d)->timeouts.drain_ns, on_goaway_due);
}

void down_h2_cleanup(struct down *d)
{
    struct down_h2 *o = d->h2;

    if (!o)
        return;
    gone(d);
    sw_timer_stop(d->worker->loop, &o->goaway);
    sw_defer_cancel(&o->over);
    gw_h2_done(&o->g);
    if (o->fresh)
        sw_exchange_discard(o->fresh);
    sw_free(o);
    d->h2 = NULL;
}
