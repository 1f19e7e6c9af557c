/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 toward upstreams: one exchange at a time on a connection that is kept for the next. */
#include <string.h>

#include "base/base64.h"
#include "base/rand.h"
#include "gateway/codec/h1.h"
#include "gateway/codec/up.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/side.h"
#include "gateway/message/fields.h"

static const struct sw_h1_limits limits = {.line = 64 * 1024, .head = 128 * 1024, .headers = 256};

static struct up_conn *of(const struct sw_exchange *x)
{
    return x->up.stream;
}

/* ---- requests ---- */

/* WebSocket in a stream of HTTP/2 has no key (RFC 8441 5), and HTTP/1.1 does not work without. */
static void put_websocket_key(struct gw_h1_out *o, const struct sw_gw_request *r)
{
    SW_BUF_AUTO text;
    uint8_t key[16];

    sw_buf_init(&text, 32);
    if (!sw_slice_eq_str(r->method, "CONNECT") ||
        !sw_slice_ieq(r->upgrade, SW_SLICE_LIT("websocket")) ||
        sw_gw_fields_find(&r->fields, SW_SLICE_LIT("sec-websocket-key")))
        return;
    sw_rand_bytes(key, sizeof(key));
    if (sw_base64_append(&text, sw_slice((const char *)key, sizeof(key))) == SW_OK)
        gw_h1_out_field(o, SW_SLICE_LIT("sec-websocket-key"), sw_buf_slice(&text));
}

/*
 * Methods that usually have a body get "content-length: 0" without one: many servers answer 411
 * otherwise.
 */
static bool has_no_body(struct sw_slice method)
{
    return sw_slice_eq_str(method, "POST") || sw_slice_eq_str(method, "PUT") ||
           sw_slice_eq_str(method, "PATCH");
}

static void put_framing(struct gw_h1_out *o, struct up_conn *u, const struct sw_exchange *x,
                        bool end)
{
    const struct sw_gw_request *r = &x->req;

    u->chunked = false;
    if (r->length == SW_GW_LENGTH_KNOWN) {
        gw_h1_out_lit(o, "content-length: ");
        gw_h1_out_u64(o, r->content_length);
        gw_h1_out_lit(o, "\r\n");
    } else if ((r->length == SW_GW_LENGTH_UNKNOWN && end) ||
               (r->length == SW_GW_LENGTH_NONE && has_no_body(r->method))) {
        gw_h1_out_lit(o, "content-length: 0\r\n");
    } else if (r->length == SW_GW_LENGTH_UNKNOWN) {
        u->chunked = true;
        gw_h1_out_lit(o, "transfer-encoding: chunked\r\n");
    }
    if (r->upgrade.n) {
        gw_h1_out_lit(o, "connection: upgrade\r\n");
        gw_h1_out_field(o, SW_SLICE_LIT("upgrade"), r->upgrade);
        put_websocket_key(o, r);
    }
    if (r->te_trailers)
        gw_h1_out_lit(o, "te: trailers\r\nconnection: te\r\n");
}

/* CONNECT ends here: the connection itself is the tunnel. */
static void tunnel_now(struct up_conn *u, struct sw_exchange *x)
{
    u->tunnel = true;
    x->up.tunnel = true;
    u->parser = gw_h1_return(u->pool->worker, u->parser, SW_H1_RESPONSE);
    memset(&x->resp, 0, sizeof(x->resp));
    x->resp.status = 200;
    x->resp.length = SW_GW_LENGTH_TUNNEL;
    sw_exchange_up_head(x, false);
}

/* An extended CONNECT of HTTP/2 is a GET with Upgrade here. */
static struct sw_slice method_sent(const struct sw_gw_request *r)
{
    return r->upgrade.n && !r->connect && sw_slice_eq_str(r->method, "CONNECT")
               ? SW_SLICE_LIT("GET")
               : r->method;
}

static void send_head(struct sw_exchange *x, bool end)
{
    struct up_conn *u = of(x);
    const struct sw_gw_request *r = &x->req;
    struct sw_slice authority = x->plan.authority.p ? x->plan.authority : r->authority;
    struct sw_slice path = x->plan.path.p ? x->plan.path : r->path;
    struct sw_slice method = method_sent(r);
    struct gw_h1_out o;

    if (x->plan.connect_terminate && r->connect) {
        tunnel_now(u, x);
        return;
    }
    gw_h1_out_begin(&o, &u->conn,
                    method.n + path.n + 2 * authority.n + r->upgrade.n + 256 +
                        gw_h1_fields_size(&r->fields));
    gw_h1_out_put(&o, method);
    gw_h1_out_lit(&o, " ");
    gw_h1_out_put(&o, r->connect ? authority : path);
    gw_h1_out_lit(&o, " HTTP/1.1\r\n");
    gw_h1_out_field(&o, SW_SLICE_LIT("host"), authority);
    gw_h1_put_fields(&o, &r->fields);
    put_framing(&o, u, x, end);
    gw_h1_out_lit(&o, "\r\n");
    gw_h1_out_end(&o);
}

static void send_data(struct sw_exchange *x, struct sw_slice data)
{
    struct up_conn *u = of(x);

    if (u->chunked)
        gw_h1_send_chunk(&u->conn, data);
    else
        sw_conn_send(&u->conn, data);
}

static void send_end(struct sw_exchange *x)
{
    struct up_conn *u = of(x);

    if (x->up.tunnel)
        sw_conn_shutdown(&u->conn);
    else if (u->chunked)
        gw_h1_send_last_chunk(&u->conn, &x->req.trailers);
}

static struct up_conn *detach(struct sw_exchange *x)
{
    struct up_conn *u = gw_side_detach(&x->up);

    u->x = NULL;
    u->parser = gw_h1_return(u->pool->worker, u->parser, SW_H1_RESPONSE);
    return u;
}

static void abort_up(struct sw_exchange *x)
{
    up_gone(detach(x), true);
}

static void done(struct sw_exchange *x)
{
    struct up_conn *u = detach(x);

    if (u->tunnel || !u->keep_alive || sw_conn_unused(&u->conn)) {
        up_gone(u, false);
        return;
    }
    if (u->conn.paused)
        sw_conn_resume(&u->conn); /* the client that held it back has all it gets */
    u->served = true;
    up_free_again(u);
}

static const struct sw_gw_side_ops side = {
    .send_head = send_head,
    .send_data = send_data,
    .send_end = send_end,
    GW_SIDE_CONN_OPS,
    .abort = abort_up,
    .done = done,
};

void up_h1_attach(struct up_conn *u, struct sw_exchange *x)
{
    u->x = x;
    u->got_bytes = false;
    u->conn.wrote = false;
    x->up.ops = &side;
    x->up.stream = u;
    x->up.conn = &u->conn;
}

/* ---- answers ---- */

static void failed(struct up_conn *u, enum sw_gw_outcome how, const char *why)
{
    struct sw_exchange *x = u->x;

    if (x) {
        (void)detach(x);
        up_gone(u, true);
        sw_exchange_up_failed(x, how, why);
    } else {
        up_gone(u, true);
    }
}

/* What it means for the exchange that the connection ends now. */
static enum sw_gw_outcome how_ended(const struct up_conn *u)
{
    if (u->served && !u->got_bytes)
        return u->conn.wrote ? SW_GW_STALE : SW_GW_UNSENT;
    return u->x && u->x->up.head_got ? SW_GW_RESET_AFTER : SW_GW_RESET_BEFORE;
}

static void got_head(struct up_conn *u)
{
    const struct sw_h1_msg *m = sw_h1_msg(u->parser);
    struct sw_exchange *x = u->x;
    bool end = m->framing == SW_H1_NO_BODY || (m->framing == SW_H1_LENGTH && !m->content_length);

    if (m->status < 200 && m->status != 101) {
        if (m->status != 100 && x->infos < SW_GW_INFOS_MAX)
            gw_h1_take_trailers(x, &x->info, m->fields, m->nfields);
        sw_exchange_up_info(x, m->status);
        return;
    }
    if (m->status == 101 && x->req.upgrade.n == 0) {
        failed(u, SW_GW_BAD_RESPONSE, "101 without being asked");
        return;
    }
    if (m->status == 101 && !sw_slice_ieq(m->upgrade, x->req.upgrade)) {
        failed(u, SW_GW_BAD_RESPONSE, "101 to another protocol than asked for");
        return;
    }
    u->keep_alive = m->keep_alive;
    u->tunnel = m->framing == SW_H1_TUNNEL;
    x->up.tunnel = u->tunnel;
    /* Our sidecar half-closes a tunnel that ends, so a close without it is a break. */
    if (u->tunnel && x->host && x->host->addr.kind == SW_GW_ADDR_PIPE &&
        sw_h1_field(m, "x-spanwire-half-close"))
        u->conn.ends_first = true;
    gw_h1_take_response(x, m);
    sw_exchange_up_head(x, end);
}

static void got_end(struct up_conn *u)
{
    const struct sw_h1_msg *m = sw_h1_msg(u->parser);
    struct sw_exchange *x = u->x;

    if (m->status < 200 && m->status != 101) { /* interim: the real one follows */
        sw_h1_reset(u->parser);
        sw_h1_answer_to(u->parser, method_sent(&x->req));
        return;
    }
    if (u->tunnel) {
        u->parser = gw_h1_return(u->pool->worker, u->parser, SW_H1_RESPONSE);
        return;
    }
    sw_exchange_up_end(x);
}

static void got_trailers(struct up_conn *u)
{
    size_t n = 0;
    const struct sw_h1_field *f = sw_h1_trailers(u->parser, &n);

    gw_h1_take_trailers(u->x, &u->x->resp.trailers, f, n);
}

static void broken(struct up_conn *u)
{
    struct sw_err err = *sw_h1_error(u->parser); /* the parser goes with the exchange */

    failed(u, SW_GW_BAD_RESPONSE, err.msg);
}

/* False: stop for now. */
static bool step(struct up_conn *u, struct sw_slice in, size_t *used)
{
    enum sw_h1_event event;
    int rc = gw_h1_next(u->parser, in, used, &event);

    if (rc == SW_EAGAIN)
        return false;
    if (rc != SW_OK) {
        broken(u);
        return false;
    }
    switch (event) {
    case SW_H1_HEAD:
        got_head(u);
        break;
    case SW_H1_BODY:
        sw_exchange_up_data(u->x, sw_h1_data(u->parser));
        break;
    case SW_H1_TRAILERS:
        got_trailers(u);
        break;
    case SW_H1_END:
        got_end(u);
        break;
    }
    /* With all input used, no later read would fetch END: fetch it even while paused. */
    return u->x && !u->conn.closed && (!u->conn.paused || *used == in.n);
}

static size_t on_bytes(struct sw_conn *c, struct sw_slice in)
{
    struct up_conn *u = up_of(c);
    struct sw_exchange *x = u->x;
    size_t used = 0;

    if (!x) {
        up_gone(u, true); /* unsolicited bytes: they would be taken for the next response */
        return 0;
    }
    u->got_bytes = true;
    if (!u->parser && !u->tunnel) {
        u->parser = gw_h1_lend(u->pool->worker, SW_H1_RESPONSE, &limits);
        sw_h1_answer_to(u->parser, method_sent(&x->req));
    }
    while (u->x == x && u->parser && step(u, in, &used))
        ;
    if (u->x == x && u->tunnel && !u->parser && used < in.n && !c->closed && !c->paused) {
        sw_exchange_up_data(x, sw_slice_from(in, used));
        used = in.n;
    }
    /* The answer ended and there is more: the connection cannot be trusted. */
    if (!c->closed && u->x != x && used < in.n) {
        if (u->x)
            failed(u, SW_GW_BAD_RESPONSE, "bytes before the request");
        else
            up_gone(u, true);
    }
    return used;
}

static void on_batch(struct sw_conn *c, size_t wire)
{
    struct up_conn *u = up_of(c);

    if (u->x && u->x->down.ops)
        u->x->down.ops->flush(&u->x->down);
}

static void on_eof(struct sw_conn *c)
{
    struct up_conn *u = up_of(c);
    struct sw_err err = {0};

    if (!u->x) {
        up_gone(u, false);
        return;
    }
    if (u->tunnel && !u->parser) {
        sw_exchange_up_end(u->x);
        return;
    }
    if (u->got_bytes && sw_h1_eof(u->parser, &err) == SW_OK && u->x->up.head_got) {
        if (c->truncated) { /* RFC 9112 9.8: without close_notify the body may be cut */
            failed(u, SW_GW_RESET_AFTER,
                   c->cut ? "connection was reset"
                          : "upstream closed the connection without close_notify");
            return;
        }
        u->keep_alive = false;
        sw_exchange_up_end(u->x);
        return;
    }
    failed(u, how_ended(u), "upstream closed the connection");
}

static void on_drained(struct sw_conn *c)
{
    struct up_conn *u = up_of(c);

    if (u->x)
        sw_exchange_up_drained(u->x);
}

static void on_fail(struct sw_conn *c, const struct sw_err *err)
{
    struct up_conn *u = up_of(c);

    failed(u, how_ended(u), err->msg);
}

const struct sw_conn_ops up_h1_ops = GW_CODEC_OPS(up_free);

void up_h1_cleanup(struct up_conn *u)
{
    struct sw_exchange *x = u->x;

    if (x) {
        (void)detach(x);
        sw_exchange_up_failed(x, SW_GW_RESET_BEFORE, "connection closed");
    }
    u->parser = gw_h1_return(u->pool->worker, u->parser, SW_H1_RESPONSE);
}
