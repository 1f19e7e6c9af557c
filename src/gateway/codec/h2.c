/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/codec/h2.h"

#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "gateway/exchange/exchange.h"
#include "gateway/message/fields.h"

enum {
    MAX_FRAME = 16384,
    SEND_FRAME = 16375, /* with its head one TLS record */
    WINDOW_LEAST = 65535,
    WINDOW_MOST = 16 << 20,
    SMALL = 2048,             /* payloads up to this are copied behind their frame head */
    CREDIT_LEAST = 16 * 1024, /* window updates are collected up to this */
};

static uint32_t window(uint32_t wanted)
{
    return (uint32_t)sw_min(sw_max(wanted, WINDOW_LEAST), WINDOW_MOST);
}

struct sw_h2_config gw_h2_config(const struct sw_gw_h2_opts *o)
{
    struct sw_h2_config c = {
        .emit_takes_all = true,
        .stream_window = window(o->stream_window),
        .connection_window = window(o->conn_window),
        .max_frame = MAX_FRAME,
        .max_send_frame = SEND_FRAME,
    };

    if (c.connection_window <= c.stream_window)
        c.connection_window = c.stream_window + WINDOW_LEAST;
    return c;
}

void gw_h2_init(struct gw_h2 *g, struct sw_conn *c, const struct sw_h2_config *config,
                const struct sw_h2_ops *ops)
{
    g->conn = c;
    g->loop = c->watch.loop;
    sw_list_init(&g->streams);
    sw_list_init(&g->stuck);
    sw_list_init(&g->graves);
    g->h2 = sw_h2_new(config, ops, g);
}

static void bury(struct gw_h2 *g)
{
    struct gw_h2_stream *s;

    while ((s = SW_LIST_POP(&g->graves, struct gw_h2_stream, link)) != NULL) {
        sw_conn_bytes_free(&s->pend);
        sw_free(s->trailers);
        sw_free(s);
    }
}

void gw_h2_done(struct gw_h2 *g)
{
    SW_LIST_EACH (struct gw_h2_stream, s, &g->streams, link)
        gw_h2_stream_free(s);
    bury(g);
    sw_defer_cancel(&g->flush);
    sw_timer_stop(g->loop, &g->rest);
    sw_timer_stop(g->loop, &g->ping);
    sw_h2_free(g->h2);
    g->h2 = NULL;
}

struct gw_h2_stream *gw_h2_stream_new(struct gw_h2 *g, struct sw_exchange *x)
{
    struct gw_h2_stream *s = SW_NEW(struct gw_h2_stream);

    s->g = g;
    s->x = x;
    sw_list_init(&s->stuck);
    sw_list_push_back(&g->streams, &s->link);
    g->n_streams++;
    return s;
}

void gw_h2_stream_free(struct gw_h2_stream *s)
{
    sw_list_unlink(&s->link);
    sw_list_unlink(&s->stuck);
    s->g->n_streams--;
    sw_list_push_back(&s->g->graves, &s->link);
}

int gw_h2_feed(struct gw_h2 *g, struct sw_slice in)
{
    int rc;

    g->in_h2 = true;
    rc = sw_h2_feed(g->h2, in, &g->err);
    g->in_h2 = false;
    return rc;
}

static void on_flush(struct sw_defer *d)
{
    gw_h2_flush(SW_CONTAINER_OF(d, struct gw_h2, flush));
}

void gw_h2_flush_later(struct gw_h2 *g)
{
    sw_loop_defer(g->loop, &g->flush, on_flush);
}

void gw_h2_flush(struct gw_h2 *g)
{
    if (g->in_h2) {
        gw_h2_flush_later(g);
        return;
    }
    /* While the peer takes nothing, answers to its PINGs stay inside the engine, which counts
     * them. */
    if (g->dead || g->conn->closed || g->conn->opening || sw_conn_blocked(g->conn))
        return;
    bury(g);
    g->in_h2 = true;
    if (sw_h2_flush(g->h2, &g->err) != SW_OK)
        g->dead = true;
    g->in_h2 = false;
    if (g->dead)
        sw_conn_fail(g->conn, SW_EPROTO);
}

void gw_h2_drained(struct gw_h2 *g)
{
    struct gw_h2_stream *s;

    while ((s = SW_LIST_POP(&g->stuck, struct gw_h2_stream, stuck)) != NULL)
        sw_h2_resume(g->h2, s->id);
    gw_h2_flush(g);
}

/* ---- streams without exchange ---- */

static bool is_stuck(const struct gw_h2_stream *s)
{
    return !s->x &&
           sw_loop_now(s->g->loop) - s->moved_ns >= (uint64_t)SW_CONN_STUCK_MS * SW_NS_PER_MS;
}

static void on_rest(struct sw_timer *t)
{
    struct gw_h2 *g = SW_CONTAINER_OF(t, struct gw_h2, rest);
    bool resting = false;
    bool serving = false;
    bool stuck = false;

    if (g->dead || g->conn->closed || g->conn->lingering)
        return;
    SW_LIST_EACH (struct gw_h2_stream, s, &g->streams, link) {
        serving |= s->x != NULL;
        resting |= !s->x;
        if (is_stuck(s)) {
            stuck = true;
            sw_h2_reset(g->h2, s->id, s->end_out ? SW_H2_NO_ERROR : SW_H2_CANCEL);
        }
    }
    if (stuck && !serving && sw_conn_blocked(g->conn)) {
        sw_conn_fail(g->conn, SW_ETIME); /* resets would not leave, either */
        return;
    }
    if (resting)
        sw_timer_start(g->loop, t, SW_CONN_STUCK_MS * SW_NS_PER_MS, on_rest);
    gw_h2_flush(g);
}

void gw_h2_stream_rest(struct gw_h2_stream *s)
{
    struct gw_h2 *g = s->g;

    s->moved_ns = sw_loop_now(g->loop);
    if (!sw_timer_running(&g->rest))
        sw_timer_start(g->loop, &g->rest, SW_CONN_STUCK_MS * SW_NS_PER_MS, on_rest);
}

/* ---- signs of life ---- */

/* Alternates between the interval and the time an answer may take. */
static void on_ping(struct sw_timer *t)
{
    struct gw_h2 *g = SW_CONTAINER_OF(t, struct gw_h2, ping);

    if (g->conn->closed || g->conn->lingering)
        return;
    if (g->ping_sent && g->ping_due) {
        g->on_silent(g);
        return;
    }
    g->ping_sent = !g->ping_sent;
    if (g->ping_sent) {
        g->ping_due = true;
        sw_h2_ping(g->h2);
        gw_h2_flush(g);
    }
    sw_timer_start(g->loop, t, g->ping_sent ? g->ping_timeout_ns : g->ping_interval_ns, on_ping);
}

void gw_h2_keep_alive(struct gw_h2 *g, uint64_t interval_ns, uint64_t timeout_ns,
                      void (*on_silent)(struct gw_h2 *g))
{
    g->ping_interval_ns = sw_max(interval_ns, SW_NS_PER_MS);
    g->ping_timeout_ns = sw_max(timeout_ns, SW_NS_PER_MS);
    g->on_silent = on_silent;
    sw_timer_start(g->loop, &g->ping, g->ping_interval_ns, on_ping);
}

void gw_h2_on_pong(struct sw_h2 *h)
{
    struct gw_h2 *g = sw_h2_owner(h);

    g->ping_due = false;
}

/* ---- sending ---- */

int gw_h2_emit(struct sw_h2 *h, const uint8_t *p, size_t n)
{
    struct gw_h2 *g = sw_h2_owner(h);

    sw_conn_put(g->conn, p, n);
    return SW_OK;
}

static size_t waiting(const struct gw_h2_stream *s)
{
    return sw_conn_bytes_len(s->pend);
}

ssize_t gw_h2_pull(struct sw_h2 *h, int32_t id, void *stream, size_t max, bool *ret_end)
{
    struct gw_h2_stream *s = stream;
    size_t have;

    if (!s)
        return SW_EAGAIN;
    have = waiting(s) ? waiting(s) : s->live.n;
    if (have == 0 && !s->end)
        return SW_EAGAIN;
    if (sw_conn_blocked(s->g->conn)) {
        if (!sw_list_linked(&s->stuck))
            sw_list_push_back(&s->g->stuck, &s->stuck);
        return SW_EAGAIN;
    }
    max = sw_min(max, have);
    *ret_end = s->end && max == waiting(s) + s->live.n;
    if (s->known && s->left == max && max == waiting(s) + s->live.n)
        *ret_end = true; /* no empty frame behind it */
    if (*ret_end)
        s->end_out = true;
    return (ssize_t)max;
}

void gw_h2_emit_data(struct sw_h2 *h, int32_t id, void *stream,
                     const uint8_t head[SW_H2_FRAME_HEAD], size_t n)
{
    struct gw_h2_stream *s = stream;
    bool pend = waiting(s) > 0;
    const uint8_t *p = pend ? s->pend->b + s->pend->off : (const uint8_t *)s->live.p;
    struct sw_conn *c = s->g->conn;

    if (n <= SMALL || !(pend || s->headroom)) {
        sw_conn_put(c, head, SW_H2_FRAME_HEAD);
        if (n)
            sw_conn_put(c, p, n);
    } else {
        uint8_t *at;

        memcpy(&at, &p, sizeof(at));
        memcpy(at - SW_H2_FRAME_HEAD, head, SW_H2_FRAME_HEAD); /* in front is nothing any more */
        sw_conn_send(c, sw_slice(at - SW_H2_FRAME_HEAD, n + SW_H2_FRAME_HEAD));
    }
    s->left -= sw_min(s->left, n);
    if (!s->x)
        s->moved_ns = sw_loop_now(s->g->loop);
    if (pend)
        sw_conn_bytes_consume(&s->pend, n);
    else if (n)
        s->live = sw_slice_from(s->live, n);
    if (s->was_high && waiting(s) < SW_CONN_HIGH / 2) {
        s->was_high = false;
        if (s->x && s->g->upstream)
            sw_exchange_up_drained(s->x);
        else if (s->x)
            sw_exchange_down_drained(s->x);
    }
}

void gw_h2_send(struct gw_h2_stream *s, struct sw_slice data, bool local)
{
    struct gw_h2 *g = s->g;

    if (data.n == 0 || s->end)
        return;
    if (g->in_h2 || waiting(s)) {
        sw_conn_bytes_append(&s->pend, data.p, data.n);
        sw_h2_resume(g->h2, s->id);
        gw_h2_flush(g);
    } else {
        s->live = data;
        s->headroom = !local;
        sw_h2_resume(g->h2, s->id);
        gw_h2_flush(g);
        if (s->live.n)
            sw_conn_bytes_append(&s->pend, s->live.p, s->live.n);
        s->live = (struct sw_slice){0};
    }
    if (waiting(s) >= SW_CONN_HIGH)
        s->was_high = true;
}

static const struct sw_gw_fields *trailers_of(const struct gw_h2_stream *s)
{
    return s->g->upstream ? &s->x->req.trailers : &s->x->resp.trailers;
}

/* The window is closed, and the exchange will not wait for it: one block with fields and texts. */
static void keep_trailers(struct gw_h2_stream *s)
{
    const struct sw_gw_fields *f = trailers_of(s);
    size_t text = 0;
    char *p;

    if (f->n == 0 || s->trailers)
        return;
    for (uint32_t i = 0; i < f->n; i++)
        text += f->p[i].name.n + f->p[i].value.n;
    s->trailers = sw_malloc(f->n * sizeof(*s->trailers) + text + 1);
    s->n_trailers = gw_h2_put_fields(s->x, f, s->trailers);
    p = (char *)(s->trailers + f->n);
    for (size_t i = 0; i < s->n_trailers; i++) {
        struct sw_h2_header *t = &s->trailers[i];

        memcpy(p, t->name.p, t->name.n);
        t->name.p = p;
        p += t->name.n;
        if (t->value.n)
            memcpy(p, t->value.p, t->value.n);
        t->value.p = p;
        p += t->value.n;
    }
}

void gw_h2_send_end(struct gw_h2_stream *s)
{
    s->end = true;
    if (s->end_out)
        return;
    sw_h2_resume(s->g->h2, s->id);
    gw_h2_flush(s->g);
    if (!s->end_out && s->x)
        keep_trailers(s);
}

size_t gw_h2_trailers(struct sw_h2 *h, int32_t id, void *stream, struct sw_h2_header *out,
                      size_t max)
{
    struct gw_h2_stream *s = stream;

    if (s->trailers) {
        size_t n = sw_min(s->n_trailers, max);

        memcpy(out, s->trailers, n * sizeof(*out));
        return n;
    }
    if (!s->x || trailers_of(s)->n == 0 || trailers_of(s)->n > max)
        return 0;
    return gw_h2_put_fields(s->x, trailers_of(s), out);
}

/* ---- receiving ---- */

/* For what was passed on, unless the exchange wants no more. */
static void give_credit(struct gw_h2_stream *s)
{
    if (s->credit == 0 || s->paused)
        return;
    sw_h2_consume_stream(s->g->h2, s->id, s->credit);
    s->credit = 0;
}

void gw_h2_on_data(struct sw_h2 *h, int32_t id, void *stream, struct sw_slice data)
{
    struct gw_h2_stream *s = stream;

    sw_h2_consume_connection(h, data.n);
    if (!s)
        return;
    if (!s->x) {
        sw_h2_consume_stream(h, id, data.n);
        return;
    }
    if (s->g->upstream)
        sw_exchange_up_data(s->x, data);
    else
        sw_exchange_down_data(s->x, data);
    s->credit += (uint32_t)data.n;
    give_credit(s);
}

void gw_h2_on_trailers(struct sw_h2 *h, int32_t id, void *stream, const struct sw_h2_head *head)
{
    struct gw_h2_stream *s = stream;

    if (!s || !s->x)
        return;
    gw_h2_take_fields(s->x, s->g->upstream ? &s->x->resp.trailers : &s->x->req.trailers, head,
                      true);
}

/* ---- a side ---- */

void gw_h2_side_flush(struct sw_gw_side *s)
{
    struct gw_h2_stream *stream = s->stream;

    gw_h2_flush(stream->g);
}

bool gw_h2_side_blocked(const struct sw_gw_side *s)
{
    return waiting(s->stream) >= SW_CONN_HIGH;
}

void gw_h2_side_pause(struct sw_gw_side *s)
{
    struct gw_h2_stream *stream = s->stream;

    stream->paused = true;
}

void gw_h2_side_resume(struct sw_gw_side *s)
{
    struct gw_h2_stream *stream = s->stream;

    stream->paused = false;
    if (stream->credit) {
        give_credit(stream);
        gw_h2_flush(stream->g);
    }
}

/* ---- fields ---- */

static struct sw_slice lowered(struct sw_exchange *x, struct sw_slice name)
{
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] >= 'A' && name.p[i] <= 'Z')
            return sw_gw_lowered(&x->arena, name);
    }
    return name;
}

size_t gw_h2_put_fields(struct sw_exchange *x, const struct sw_gw_fields *f,
                        struct sw_h2_header *out)
{
    for (uint32_t i = 0; i < f->n; i++)
        out[i] = (struct sw_h2_header){lowered(x, f->p[i].name), f->p[i].value};
    return f->n;
}

void gw_h2_take_fields(struct sw_exchange *x, struct sw_gw_fields *to,
                       const struct sw_h2_head *head, bool copy)
{
    sw_gw_fields_init(&x->arena, to, head->n + 10);
    for (size_t i = 0; i < head->n; i++) {
        struct sw_slice name = head->headers[i].name;
        struct sw_slice value = head->headers[i].value;
        uint8_t hid = (uint8_t)sw_gw_hid(name);

        if (sw_gw_hid_of_hop(hid))
            continue;
        to->p[to->n].name = copy ? sw_arena_slice(&x->arena, name) : name;
        to->p[to->n].value = copy ? sw_arena_slice(&x->arena, value) : value;
        to->hid[to->n++] = hid;
    }
}

struct sw_h2_header gw_h2_put_length(char text[24], uint64_t length)
{
    char *p = text + 24;

    do {
        *--p = (char)('0' + length % 10);
        length /= 10;
    } while (length);
    return (struct sw_h2_header){SW_SLICE_LIT("content-length"),
                                 sw_slice(p, (size_t)(text + 24 - p))};
}

bool gw_h2_length(const struct sw_h2_head *head, uint64_t *ret)
{
    struct sw_slice v = sw_h2_head_get(head, "content-length");

    return v.p && sw_slice_to_u64(v, UINT64_MAX >> 1, ret);
}
