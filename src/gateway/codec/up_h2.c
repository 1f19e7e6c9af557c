/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 toward upstreams: many exchanges on one connection, prior knowledge or by ALPN. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "gateway/codec/h2.h"
#include "gateway/codec/up.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/side.h"

enum {
    HEADER_LIST = 128 * 1024,
    PING_S = 15, /* unless the cluster sets it */
};

struct up_h2 {
    struct gw_h2 g;
    struct up_conn *u;
    struct sw_defer more; /* what has ended makes room for what waits */
    uint32_t opened;
};

static struct gw_h2_stream *of(const struct sw_exchange *x)
{
    return x->up.stream;
}

static struct up_h2 *owner_of(struct sw_h2 *h)
{
    return SW_CONTAINER_OF((struct gw_h2 *)sw_h2_owner(h), struct up_h2, g);
}

static struct gw_h2_stream *detach(struct sw_exchange *x)
{
    struct gw_h2_stream *s = gw_side_detach(&x->up);

    s->x = NULL;
    return s;
}

static void fail(struct sw_exchange *x, enum sw_gw_outcome how, const char *why)
{
    (void)detach(x);
    sw_exchange_up_failed(x, how, why);
}

/* ---- requests ---- */

static size_t put_head(struct sw_exchange *x, struct sw_h2_header *f, char length[24], bool end)
{
    const struct sw_gw_request *r = &x->req;
    bool extended = r->upgrade.n != 0 && !r->connect;
    size_t n = 0;

    f[n++] = (struct sw_h2_header){SW_SLICE_LIT(":method"),
                                   extended ? SW_SLICE_LIT("CONNECT") : r->method};
    f[n++] = (struct sw_h2_header){SW_SLICE_LIT(":authority"),
                                   x->plan.authority.p ? x->plan.authority : r->authority};
    if (!r->connect) {
        f[n++] = (struct sw_h2_header){SW_SLICE_LIT(":scheme"), r->scheme};
        f[n++] =
            (struct sw_h2_header){SW_SLICE_LIT(":path"), x->plan.path.p ? x->plan.path : r->path};
    }
    if (extended)
        f[n++] = (struct sw_h2_header){SW_SLICE_LIT(":protocol"), r->upgrade};
    n += gw_h2_put_fields(x, &r->fields, f + n);
    if (r->te_trailers)
        f[n++] = (struct sw_h2_header){SW_SLICE_LIT("te"), SW_SLICE_LIT("trailers")};
    if (r->length == SW_GW_LENGTH_KNOWN && !end)
        f[n++] = gw_h2_put_length(length, r->content_length);
    return n;
}

static void send_head(struct sw_exchange *x, bool end)
{
    struct gw_h2_stream *s = of(x);
    struct sw_h2_header few[48];
    struct sw_h2_header *f = few;
    char length[24];
    struct sw_err err = {0};

    if (x->req.fields.n + 8 > SW_ARRAY_LEN(few))
        f = sw_arena_array(&x->arena, x->req.fields.n + 8, sizeof(*f));
    if (end)
        s->end = s->end_out = true;
    s->id = sw_h2_request(s->g->h2, f, put_head(x, f, length, end), end, s, &err);
    if (s->id < 0) {
        struct gw_h2 *g = s->g;

        (void)detach(x);
        gw_h2_stream_free(s);
        g->goaway = true; /* out of stream numbers */
        sw_exchange_up_failed(x, SW_GW_REFUSED_STREAM, err.msg);
    }
}

static void send_data(struct sw_exchange *x, struct sw_slice data)
{
    gw_h2_send(of(x), data, x->sending_kept);
}

static void send_end(struct sw_exchange *x)
{
    gw_h2_send_end(of(x));
}

static void abort_up(struct sw_exchange *x)
{
    struct gw_h2_stream *s = detach(x);

    sw_h2_reset(s->g->h2, s->id, SW_H2_CANCEL);
    gw_h2_flush(s->g);
}

static void done(struct sw_exchange *x)
{
    struct gw_h2_stream *s = detach(x);

    if (s->end) { /* the stream goes when the engine closes it */
        if (!s->end_out)
            gw_h2_stream_rest(s);
        return;
    }
    /* A tunnel that the server refused: neither side has more to send, and the end was not sent. */
    sw_h2_reset(s->g->h2, s->id, SW_H2_CANCEL);
    gw_h2_flush(s->g);
}

static const struct sw_gw_side_ops side = {
    .send_head = send_head,
    .send_data = send_data,
    .send_end = send_end,
    GW_H2_SIDE_OPS,
    .abort = abort_up,
    .done = done,
};

bool up_h2_has_room(const struct up_conn *u)
{
    const struct up_h2 *o = u->h2;
    uint32_t own = u->pool->cluster->spec->h2.max_streams;
    uint32_t peer = sw_h2_peer_max_streams(o->g.h2);

    return !o->g.goaway && !o->g.dead && !u->conn.closed && !u->conn.failed && !u->conn.cut &&
           o->g.n_streams < sw_min(own ? own : 100, peer);
}

bool up_h2_is_idle(const struct up_conn *u)
{
    return u->h2 && u->h2->g.n_streams == 0;
}

void up_h2_attach(struct up_conn *u, struct sw_exchange *x)
{
    struct gw_h2_stream *s = gw_h2_stream_new(&u->h2->g, x);
    uint32_t max = u->pool->cluster->spec->max_requests_per_connection;

    u->h2->opened++;
    if (max && u->requests >= max)
        u->h2->g.goaway = true; /* closed behind this one */
    x->up.ops = &side;
    x->up.stream = s;
}

/* ---- answers ---- */

static void take_head(struct sw_exchange *x, const struct sw_h2_head *head, bool end)
{
    struct sw_gw_response *r = &x->resp;

    memset(r, 0, sizeof(*r));
    r->status = (uint16_t)head->status;
    r->version = SW_GW_HTTP2;
    r->has_length = gw_h2_length(head, &r->content_length);
    if (x->req.length == SW_GW_LENGTH_TUNNEL && r->status / 100 == 2 && !end)
        r->length = SW_GW_LENGTH_TUNNEL;
    else if (end)
        r->length = SW_GW_LENGTH_NONE;
    else
        r->length = r->has_length ? SW_GW_LENGTH_KNOWN : SW_GW_LENGTH_UNKNOWN;
    if (end && !x->req.head && r->status != 304)
        r->has_length = false;
    gw_h2_take_fields(x, &r->fields, head, true);
}

static void on_head(struct sw_h2 *h, int32_t id, void *stream, const struct sw_h2_head *head,
                    bool end)
{
    struct gw_h2_stream *s = stream;
    struct sw_exchange *x = s ? s->x : NULL;

    if (!x)
        return;
    if (head->too_large || head->status < 200) {
        sw_h2_reset(h, id, SW_H2_CANCEL);
        fail(x, SW_GW_BAD_RESPONSE, "response head too large");
        return;
    }
    take_head(x, head, end);
    x->up.tunnel = x->resp.length == SW_GW_LENGTH_TUNNEL;
    sw_exchange_up_head(x, end);
}

static void on_info(struct sw_h2 *h, int32_t id, void *stream, const struct sw_h2_head *head)
{
    struct gw_h2_stream *s = stream;
    struct sw_exchange *x = s ? s->x : NULL;

    if (!x || head->too_large || head->status == 101 || x->infos >= SW_GW_INFOS_MAX)
        return;
    gw_h2_take_fields(x, &x->info, head, true);
    sw_exchange_up_info(x, head->status);
}

static void on_trailers(struct sw_h2 *h, int32_t id, void *stream, const struct sw_h2_head *head)
{
    struct gw_h2_stream *s = stream;
    struct sw_exchange *x = s ? s->x : NULL;

    if (!x || !head->too_large) {
        gw_h2_on_trailers(h, id, stream, head);
        return;
    }
    sw_h2_reset(h, id, SW_H2_CANCEL);
    fail(x, SW_GW_BAD_RESPONSE, "response trailers too large");
}

static void on_end(struct sw_h2 *h, int32_t id, void *stream)
{
    struct gw_h2_stream *s = stream;

    if (s && s->x && s->x->up.head_got)
        sw_exchange_up_end(s->x);
}

static void on_more(struct sw_defer *d);

/* Queued exchanges may be sent; from the loop, since the engine is in a callback. */
static void serve_more(struct up_h2 *o)
{
    sw_loop_defer(o->g.loop, &o->more, on_more);
}

static void on_close(struct sw_h2 *h, int32_t id, void *stream, uint32_t code)
{
    struct gw_h2_stream *s = stream;
    struct up_h2 *o = owner_of(h);
    struct sw_exchange *x = s ? s->x : NULL;

    if (!s)
        return;
    if (x)
        fail(x,
             code == SW_H2_REFUSED_STREAM ? SW_GW_REFUSED_STREAM
             : x->up.head_got             ? SW_GW_RESET_AFTER
                                          : SW_GW_RESET_BEFORE,
             "stream was reset");
    gw_h2_stream_free(s);
    o->u->since_ns = sw_loop_now(o->g.loop);
    serve_more(o);
}

static void on_settings(struct sw_h2 *h)
{
    serve_more(owner_of(h));
}

static void on_goaway(struct sw_h2 *h, int32_t last, uint32_t code)
{
    struct up_h2 *o = owner_of(h);

    o->g.goaway = true;
    SW_LIST_EACH (struct gw_h2_stream, s, &o->g.streams, link) {
        /* Beyond the last one it took: certainly not processed. */
        if (s->x && s->id > last)
            fail(s->x, SW_GW_REFUSED_STREAM, "upstream is going away");
    }
}

static const struct sw_h2_ops engine = {
    .on_head = on_head,
    .on_info = on_info,
    GW_H2_ENGINE_OPS,
    .on_trailers = on_trailers,
    .on_end = on_end,
    .on_close = on_close,
    .on_settings = on_settings,
    .on_goaway = on_goaway,
};

/* ---- the connection ---- */

static void lose_all(struct up_conn *u, const char *why)
{
    struct up_h2 *o = u->h2;
    bool fresh = o->opened <= o->g.n_streams;

    o->g.goaway = true; /* what is tried again goes elsewhere */
    o->g.in_h2 = true;  /* one that fails may take its mirrors along: no stream goes meanwhile */
    SW_LIST_EACH (struct gw_h2_stream, s, &o->g.streams, link) {
        if (s->x)
            fail(s->x,
                 s->x->up.head_got ? SW_GW_RESET_AFTER
                 : fresh           ? SW_GW_RESET_BEFORE
                                   : SW_GW_STALE,
                 why);
    }
    o->g.in_h2 = false;
}

static void on_silent(struct gw_h2 *g)
{
    struct up_conn *u = SW_CONTAINER_OF(g, struct up_h2, g)->u;

    lose_all(u, "upstream does not answer pings");
    up_gone(u, true);
}

void up_h2_begin(struct up_conn *u)
{
    const struct sw_gw_h2_opts *h = &u->pool->cluster->spec->h2;
    struct up_h2 *o = SW_NEW(struct up_h2);
    struct sw_h2_config config = gw_h2_config(h);
    uint64_t interval = h->ping_interval_ns ? h->ping_interval_ns : PING_S * SW_NS_PER_S;

    config.max_header_list = HEADER_LIST;
    o->u = u;
    u->h2 = o;
    gw_h2_init(&o->g, &u->conn, &config, &engine);
    o->g.upstream = true;
    gw_h2_flush(&o->g);
    gw_h2_keep_alive(&o->g, interval, h->ping_timeout_ns ? h->ping_timeout_ns : interval,
                     on_silent);
}

static size_t on_bytes(struct sw_conn *c, struct sw_slice in)
{
    struct up_conn *u = up_of(c);
    struct up_h2 *o = u->h2;

    if (gw_h2_feed(&o->g, in) != SW_OK) {
        sw_log_debug("gateway", "upstream '%.*s': %s", SW_SLICE_ARG(u->pool->cluster->spec->name),
                     o->g.err.msg);
        lose_all(u, o->g.err.msg);
        gw_h2_flush(&o->g);
        (void)!sw_conn_flush(c);
        up_gone(u, false);
    }
    return in.n;
}

/*
 * The engine by itself ends a connection whose peer violated the protocol: GOAWAY is sent, nothing
 * is read or sent any more. Exchanges still waiting on it would wait for ever.
 */
static bool end_if_finished(struct up_conn *u)
{
    struct up_h2 *o = u->h2;

    if (o->g.dead || !sw_h2_finished(o->g.h2))
        return false;
    sw_log_debug("gateway", "upstream '%.*s': %s", SW_SLICE_ARG(u->pool->cluster->spec->name),
                 sw_h2_fault(o->g.h2));
    lose_all(u, sw_h2_fault(o->g.h2));
    up_gone(u, false);
    return true;
}

static void go_on(struct up_conn *u)
{
    struct up_h2 *o = u->h2;

    gw_h2_flush(&o->g);
    if (u->conn.closed || end_if_finished(u))
        return;
    if (o->g.goaway && o->g.n_streams == 0) {
        up_gone(u, false);
        return;
    }
    up_more_room(u);
}

static void on_batch(struct sw_conn *c, size_t wire)
{
    go_on(up_of(c));
}

static void on_more(struct sw_defer *d)
{
    struct up_conn *u = SW_CONTAINER_OF(d, struct up_h2, more)->u;

    if (!u->conn.closed && !u->conn.failed)
        go_on(u);
}

static void on_eof(struct sw_conn *c)
{
    struct up_conn *u = up_of(c);

    lose_all(u, "upstream closed the connection");
    up_gone(u, false);
}

static void on_drained(struct sw_conn *c)
{
    struct up_conn *u = up_of(c);

    gw_h2_drained(&u->h2->g);
    if (!c->closed)
        (void)end_if_finished(u);
}

static void on_fail(struct sw_conn *c, const struct sw_err *err)
{
    struct up_conn *u = up_of(c);

    lose_all(u, err->msg);
    up_gone(u, true);
}

const struct sw_conn_ops up_h2_ops = GW_CODEC_OPS(up_free);

void up_h2_drain(struct up_conn *u)
{
    u->h2->g.goaway = true;
    if (u->h2->g.n_streams == 0)
        up_gone(u, false);
}

void up_h2_cleanup(struct up_conn *u)
{
    if (!u->h2)
        return;
    lose_all(u, "connection closed");
    sw_defer_cancel(&u->h2->more);
    gw_h2_done(&u->h2->g);
    sw_free(u->h2);
    u->h2 = NULL;
}
