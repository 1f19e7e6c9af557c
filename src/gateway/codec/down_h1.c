/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 toward clients. One exchange at a time: pipelined requests wait as bytes. The parser is
 * strict, and what it refuses is answered and the connection closed, so that nothing is framed
 * twice.
 */
#include <string.h>

#include "gateway/codec/down.h"
#include "gateway/codec/h1.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/side.h"
#include "gateway/message/fields.h"
#include "gateway/observe/stats.h"
#include "http/grammar.h"

static struct down *of(const struct sw_exchange *x)
{
    return x->down.stream;
}

/* ---- answers ---- */

static void put_status_line(struct gw_h1_out *o, int status)
{
    if (status == 200) {
        gw_h1_out_lit(o, "HTTP/1.1 200 OK\r\n");
        return;
    }
    gw_h1_out_lit(o, "HTTP/1.1 ");
    gw_h1_out_u64(o, (uint64_t)status);
    gw_h1_out_lit(o, " ");
    gw_h1_out_put(o, sw_slice_str(sw_http_reason(status)));
    gw_h1_out_lit(o, "\r\n");
}

static void put_framing(struct gw_h1_out *o, struct down *d, const struct sw_exchange *x, bool end)
{
    const struct sw_gw_response *r = &x->resp;
    bool bodiless = x->req.head || r->status == 304;

    d->chunked = false;
    if (r->status == 204 || r->length == SW_GW_LENGTH_TUNNEL)
        return;
    if (r->length == SW_GW_LENGTH_KNOWN || (end && !bodiless) || (bodiless && r->has_length)) {
        gw_h1_out_lit(o, "content-length: ");
        gw_h1_out_u64(o, r->length == SW_GW_LENGTH_KNOWN || r->has_length ? r->content_length : 0);
        gw_h1_out_lit(o, "\r\n");
    } else if (r->length == SW_GW_LENGTH_UNKNOWN && !bodiless) {
        if (d->old) {
            d->close_after = true; /* the end of the connection is the end of the body */
        } else {
            d->chunked = true;
            gw_h1_out_lit(o, "transfer-encoding: chunked\r\n");
        }
    }
}

static void put_connection(struct gw_h1_out *o, struct down *d, const struct sw_exchange *x)
{
    if (x->resp.status == 101) {
        gw_h1_out_lit(o, "connection: upgrade\r\n");
        gw_h1_out_field(o, SW_SLICE_LIT("upgrade"), x->req.upgrade);
    } else if (x->resp.length == SW_GW_LENGTH_TUNNEL) {
        return;
    } else if (d->close_after) {
        gw_h1_out_lit(o, "connection: close\r\n");
    } else if (d->old) {
        gw_h1_out_lit(o, "connection: keep-alive\r\n");
    }
}

static void send_head(struct sw_exchange *x, bool end)
{
    struct down *d = of(x);
    struct gw_h1_out o;

    if (!d->keep_alive || down_is_last(d) || (x->resp.local && !x->down.end_got))
        d->close_after = true;
    /* An HTTP/2 upstream answers an extended CONNECT with 200; HTTP/1.1 uses 101. */
    if (x->resp.length == SW_GW_LENGTH_TUNNEL && x->req.upgrade.n)
        x->resp.status = 101;
    gw_h1_out_begin(&o, &d->conn, gw_h1_fields_size(&x->resp.fields) + x->req.upgrade.n + 256);
    put_status_line(&o, x->resp.status);
    gw_h1_put_fields(&o, &x->resp.fields);
    put_framing(&o, d, x, end);
    put_connection(&o, d, x);
    gw_h1_out_lit(&o, "\r\n");
    gw_h1_out_end(&o);
    if (x->resp.length == SW_GW_LENGTH_TUNNEL) {
        d->tunnel = true;
        x->down.tunnel = true;
        (void)!sw_conn_flush(&d->conn);
        sw_conn_resume(&d->conn);
    }
}

static void send_data(struct sw_exchange *x, struct sw_slice data)
{
    struct down *d = of(x);

    if (x->req.head)
        return;
    if (d->chunked)
        gw_h1_send_chunk(&d->conn, data);
    else
        sw_conn_send(&d->conn, data);
}

static void send_end(struct sw_exchange *x)
{
    struct down *d = of(x);

    if (d->tunnel)
        sw_conn_shutdown(&d->conn);
    else if (d->chunked)
        gw_h1_send_last_chunk(&d->conn, &x->resp.trailers);
}

static void send_info(struct sw_exchange *x, int status)
{
    struct down *d = of(x);

    if (d->old)
        return;
    if (status == 100) {
        sw_conn_put(&d->conn, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    } else {
        struct gw_h1_out o;

        gw_h1_out_begin(&o, &d->conn, gw_h1_fields_size(&x->info) + 128);
        put_status_line(&o, status);
        gw_h1_put_fields(&o, &x->info);
        gw_h1_out_lit(&o, "\r\n");
        gw_h1_out_end(&o);
    }
    (void)!sw_conn_flush(&d->conn);
}

static struct down *detach(struct sw_exchange *x)
{
    struct down *d = gw_side_detach(&x->down);

    d->x = NULL;
    return d;
}

static void abort_down(struct sw_exchange *x)
{
    /* A half-sent answer must not look complete. */
    sw_conn_close(&detach(x)->conn, true);
}

static void done(struct sw_exchange *x)
{
    struct down *d = detach(x);

    if (d->close_after || d->tunnel || !d->request_done || d->conn.eof) {
        d->parser = gw_h1_return(d->worker, d->parser, SW_H1_REQUEST);
        sw_conn_close_flushed(&d->conn);
        return;
    }
    sw_conn_queue_flush(&d->conn);
    down_set_waiting(d, true);
    d->head_begun = false;
    if (d->conn.paused || sw_conn_unused(&d->conn))
        sw_conn_resume(&d->conn); /* pipelined requests */
}

static const struct sw_gw_side_ops side = {
    .send_head = send_head,
    .send_data = send_data,
    .send_end = send_end,
    GW_SIDE_CONN_OPS,
    .abort = abort_down,
    .done = done,
    .send_info = send_info,
};

/* ---- requests ---- */

/* An answer to what never became an exchange. */
static void refuse(struct down *d, int status, const char *why, const char *reason)
{
    struct gw_h1_out o;

    sw_gw_lstats_early_reply(d->life.stats, status, reason);
    sw_gw_lstats_log_refusal(d->life.stats, reason, &d->from.peer, why);
    gw_h1_out_begin(&o, &d->conn, 256);
    put_status_line(&o, status);
    gw_h1_out_field(&o, SW_SLICE_LIT("date"), sw_gw_worker_date(d->worker));
    if (status == 426)
        gw_h1_out_lit(&o, "upgrade: HTTP/1.1\r\nconnection: upgrade, close\r\n");
    else
        gw_h1_out_lit(&o, "connection: close\r\n");
    gw_h1_out_lit(&o, "content-length: 0\r\n\r\n");
    gw_h1_out_end(&o);
    sw_conn_close_flushed(&d->conn);
}

void down_h1_head_late(struct down *d)
{
    refuse(d, 408, "request head took too long", "request_head_timeout");
}

static void broken(struct down *d)
{
    int status = sw_h1_error_status(d->parser);

    if (!d->x)
        refuse(d, status, sw_h1_error(d->parser)->msg, "http1.codec_error");
    d->parser = gw_h1_return(d->worker, d->parser, SW_H1_REQUEST);
    if (!d->x)
        return;
    /*
     * The body is malformed: the upstream request is aborted, and an answer not begun gives the
     * reason.
     */
    d->close_after = true;
    d->x->flags |= SW_GW_FLAG_DPE;
    sw_exchange_reply(d->x, status, SW_SLICE_LIT("malformed request body"), "http1.codec_error");
}

static bool has_underscore(const struct sw_h1_msg *m)
{
    for (size_t i = 0; i < m->nfields; i++) {
        if (memchr(m->fields[i].name.p, '_', m->fields[i].name.n))
            return true;
    }
    return false;
}

static void got_head(struct down *d)
{
    const struct sw_h1_msg *m = sw_h1_msg(d->parser);
    const struct sw_gw_hcm *h = down_hcm(d);
    bool odd = h->underscores != SW_GW_UNDERSCORES_ALLOW && has_underscore(m);
    struct sw_exchange *x;

    d->requests++;
    d->old = m->minor == 0;
    d->keep_alive = m->keep_alive || m->framing == SW_H1_TUNNEL;
    d->close_after = false;
    if (d->old && !h->h1.accept_http10) {
        refuse(d, 426, "HTTP/1.0 is not accepted here", "http1.version");
        return;
    }
    if (m->form == SW_H1_ABSOLUTE && !sw_slice_ieq(m->scheme, SW_SLICE_LIT("http")) &&
        !sw_slice_ieq(m->scheme, SW_SLICE_LIT("https"))) {
        refuse(d, 400, "target of another scheme", "http1.scheme");
        return;
    }
    if ((odd && h->underscores == SW_GW_UNDERSCORES_REJECT) ||
        (m->authority.n == 0 && !(d->old && h->h1.host_http10.n))) {
        refuse(d, 400, odd ? "underscore in a header name" : "no host",
               odd ? "http1.underscore" : "http1.no_host");
        return;
    }
    down_set_waiting(d, false);
    x = sw_exchange_new(d->worker);
    down_introduce(d, x);
    gw_h1_take_request(x, m);
    if (x->req.authority.n == 0)
        x->req.authority = h->h1.host_http10;
    if (odd)
        (void)sw_gw_fields_drop_underscored(&x->req.fields);
    x->down.ops = &side;
    x->down.stream = d;
    x->down.conn = &d->conn;
    d->x = x;
    d->request_done =
        m->framing == SW_H1_NO_BODY || (m->framing == SW_H1_LENGTH && m->content_length == 0);
    if (d->request_done && m->framing == SW_H1_LENGTH)
        x->req.length = SW_GW_LENGTH_KNOWN; /* sends "content-length: 0" upstream too */
    if (m->framing == SW_H1_TUNNEL)
        d->request_done = true;
    sw_exchange_start(x, d->request_done && x->req.length != SW_GW_LENGTH_TUNNEL);
}

static void take_trailers(struct down *d)
{
    size_t n = 0;
    const struct sw_h1_field *f = sw_h1_trailers(d->parser, &n);

    if (!d->x || !down_hcm(d)->h1.trailers)
        return;
    gw_h1_take_trailers(d->x, &d->x->req.trailers, f, n);
    if (down_hcm(d)->underscores != SW_GW_UNDERSCORES_ALLOW)
        (void)sw_gw_fields_drop_underscored(&d->x->req.trailers); /* too late to refuse */
}

/* One step of the parser. False: stop for now. */
static bool step(struct down *d, struct sw_slice in, size_t *used)
{
    enum sw_h1_event event;
    int rc = gw_h1_next(d->parser, in, used, &event);

    if (rc == SW_EAGAIN)
        return false;
    if (rc != SW_OK) {
        broken(d);
        return false;
    }
    switch (event) {
    case SW_H1_HEAD:
        got_head(d);
        break;
    case SW_H1_BODY:
        if (d->x)
            sw_exchange_down_data(d->x, sw_h1_data(d->parser));
        break;
    case SW_H1_TRAILERS:
        take_trailers(d);
        break;
    case SW_H1_END:
        d->parser = gw_h1_return(d->worker, d->parser, SW_H1_REQUEST);
        if (!d->request_done) {
            d->request_done = true;
            if (d->x)
                sw_exchange_down_end(d->x);
        }
        break;
    }
    /* With all input used, no later read would fetch END: fetch it even while paused. */
    return !d->conn.closed && !d->conn.lingering && (!d->conn.paused || *used == in.n);
}

static struct sw_h1 *new_parser(struct down *d)
{
    const struct sw_gw_hcm *h = down_hcm(d);
    struct sw_h1_limits limits = {
        .line = (size_t)h->max_headers_kb * 1024,
        .head = (size_t)h->max_headers_kb * 1024,
        .headers = h->max_headers_count,
    };

    return gw_h1_lend(d->worker, SW_H1_REQUEST, &limits);
}

static size_t on_bytes(struct sw_conn *c, struct sw_slice in)
{
    struct down *d = down_of(c);
    size_t used = 0;

    if (c->lingering)
        return in.n; /* "Connection: close" was sent: discard later requests */
    if (d->tunnel && d->x) {
        sw_exchange_down_data(d->x, in);
        return in.n;
    }
    do {
        if (!d->parser) {
            if (d->x) {
                /* The next request (or a tunnel's first bytes) came early: it waits. */
                if (in.n > used)
                    sw_conn_pause(c);
                break;
            }
            if (used == in.n)
                break;
            if (sw_conn_blocked(c)) {
                sw_conn_pause(c); /* first it reads what it has asked for */
                break;
            }
            d->parser = new_parser(d);
        }
        if (d->tunnel)
            break;
    } while (step(d, in, &used));
    if (!c->closed && !c->lingering && d->parser && !d->x && !d->head_begun) {
        d->head_begun = true;
        down_set_waiting(d, true);
    }
    return used;
}

static void on_batch(struct sw_conn *c, size_t wire)
{
    struct down *d = down_of(c);

    if (d->x && d->x->up.ops && d->x->up.head_sent)
        d->x->up.ops->flush(&d->x->up);
}

static void gone(struct down *d)
{
    gw_side_client_gone(SW_TAKE(d->x));
}

static void on_eof(struct sw_conn *c)
{
    struct down *d = down_of(c);
    bool cut = d->x && d->x->down.head_sent;

    if (d->x && d->tunnel) {
        sw_exchange_down_end(d->x);
        return;
    }
    if (!d->x && sw_conn_unsent(c)) {
        sw_conn_close_flushed(c); /* the end of an answer that was complete */
        return;
    }
    /* A client that left looks like one that only stopped sending: its request is cancelled. */
    gone(d);
    sw_conn_close(c, cut);
}

static void on_drained(struct sw_conn *c)
{
    struct down *d = down_of(c);

    if (d->x)
        sw_exchange_down_drained(d->x);
    else if (c->paused)
        sw_conn_resume(c); /* requests that waited for it */
}

static void on_fail(struct sw_conn *c, const struct sw_err *err)
{
    gone(down_of(c));
    sw_conn_close(c, true);
}

const struct sw_conn_ops down_h1_ops = GW_CODEC_OPS(down_free);

void down_h1_drain(struct down *d)
{
    /*
     * A request may be in flight: it is served, and its response has "Connection: close". A client
     * that sends none for a while is disconnected (see patience in down.c).
     */
    if (!d->x)
        down_set_waiting(d, true);
}

void down_h1_cleanup(struct down *d)
{
    gone(d);
    d->parser = gw_h1_return(d->worker, d->parser, SW_H1_REQUEST);
}
