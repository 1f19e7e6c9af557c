/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of a connection, and what the engine calls. The transport is in h2conn.c. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/h2_body.h"
#include "http/h2conn_int.h"

static const uint64_t early_ns = SW_NS_PER_S; /* cancelled sooner, a stream was of no use */

static struct sw_h2stream *stream_new(struct sw_h2conn *c, int32_t id)
{
    struct sw_h2stream *s = SW_NEW(struct sw_h2stream);

    s->conn = c;
    s->id = id;
    s->since_ns = sw_loop_now(c->loop);
    sw_buf_init(&s->out, c->o.max_queue);
    sw_list_push_back(&c->streams, &s->link);
    c->n_streams++;
    return s;
}

void h2stream_gone(struct sw_h2stream *s, uint32_t code)
{
    struct sw_h2conn *c = s->conn;

    sw_list_unlink(&s->link);
    c->n_streams--;
    c->idle_ns = sw_loop_now(c->loop);
    if (s->ops && s->ops->on_close)
        s->ops->on_close(s, code, s->arg);
    sw_arena_clear(&s->arena);
    sw_buf_done(&s->out);
    sw_free(s);
}

/* --- the engine's callbacks --- */

static void on_head(struct sw_h2 *h, int32_t id, void *stream, const struct sw_h2_head *head,
                    bool end)
{
    struct sw_h2conn *c = sw_h2_owner(h);
    struct sw_h2stream *s = stream;

    if (!c->o.server) {
        if (!s)
            return;
        if (s->ops && s->ops->on_head)
            s->ops->on_head(s, head, s->arg);
        if (end && s->ops && s->ops->on_end)
            s->ops->on_end(s, s->arg);
        return;
    }
    if (head->too_large || c->goaway) {
        sw_h2_reset(h, id, SW_H2_REFUSED_STREAM);
        return;
    }
    s = stream_new(c, id);
    sw_h2_set_stream(h, id, s);
    c->o.ops->on_request(c, s, head, c->o.arg);
    if (!s->ops)
        sw_h2_reset(h, id, SW_H2_REFUSED_STREAM);
    else if (end && s->ops->on_end)
        s->ops->on_end(s, s->arg);
}

static void on_data(struct sw_h2 *h, int32_t id, void *stream, struct sw_slice data)
{
    struct sw_h2stream *s = stream;

    sw_h2_consume_connection(h, data.n);
    if (s && s->ops && s->ops->on_data)
        s->ops->on_data(s, data, s->arg);
    else
        sw_h2_consume_stream(h, id, data.n);
}

static void on_trailers(struct sw_h2 *h, int32_t id, void *stream, const struct sw_h2_head *head)
{
    struct sw_h2stream *s = stream;

    if (s && s->ops && s->ops->on_trailers)
        s->ops->on_trailers(s, head, s->arg);
}

static void on_end(struct sw_h2 *h, int32_t id, void *stream)
{
    struct sw_h2stream *s = stream;

    if (s && s->ops && s->ops->on_end)
        s->ops->on_end(s, s->arg);
}

static void on_close(struct sw_h2 *h, int32_t id, void *stream, uint32_t code)
{
    struct sw_h2conn *c = sw_h2_owner(h);
    struct sw_h2stream *s = stream;

    if (!s)
        return;
    if (c->feeding && c->o.server && !s->end && sw_loop_now(c->loop) - s->since_ns < early_ns)
        sw_h2_count_early_reset(h, sw_now_ns());
    h2stream_gone(s, code);
}

static int emit(struct sw_h2 *h, const uint8_t *p, size_t n)
{
    struct sw_h2conn *c = sw_h2_owner(h);

    return sw_h2_body_control(&c->io, p, n);
}

static ssize_t pull(struct sw_h2 *h, int32_t id, void *stream, size_t max, bool *ret_end)
{
    struct sw_h2conn *c = sw_h2_owner(h);
    struct sw_h2stream *s = stream;
    bool stuck;
    ssize_t n;

    if (!s)
        return SW_EAGAIN;
    n = sw_h2_body_pull(&c->io, &s->out, s->end, max, ret_end, &stuck);
    if (stuck)
        s->stuck = c->stuck = true; /* resumed when the connection has room again */
    return n;
}

static size_t give_trailers(struct sw_h2 *h, int32_t id, void *stream, struct sw_h2_header *out,
                            size_t max)
{
    struct sw_h2stream *s = stream;
    size_t n = s ? sw_min(s->n_trailers, max) : 0;

    if (n)
        memcpy(out, s->trailers, n * sizeof(*out));
    return n;
}

static void emit_data(struct sw_h2 *h, int32_t id, void *stream,
                      const uint8_t head[SW_H2_FRAME_HEAD], size_t n)
{
    struct sw_h2conn *c = sw_h2_owner(h);
    struct sw_h2stream *s = stream;

    sw_h2_body_emit(&c->io, &s->out, head, n);
}

static void on_goaway(struct sw_h2 *h, int32_t last_id, uint32_t code)
{
    struct sw_h2conn *c = sw_h2_owner(h);

    c->goaway = true; /* streams beyond last_id are closed by the engine */
    if (code != SW_H2_NO_ERROR && c->why.rc == 0)
        (void)sw_err_set(&c->why, SW_ECLOSED, "peer sent GOAWAY with code %u", (unsigned)code);
}

static const struct sw_h2_ops engine_ops = {
    .on_head = on_head,
    .on_data = on_data,
    .on_trailers = on_trailers,
    .on_end = on_end,
    .on_close = on_close,
    .on_goaway = on_goaway,
    .emit = emit,
    .pull = pull,
    .trailers = give_trailers,
    .emit_data = emit_data,
};

struct sw_h2 *h2stream_engine(struct sw_h2conn *c)
{
    struct sw_h2_config config = {
        .server = c->o.server,
        .stream_window = c->o.stream_window,
        .connection_window = 4 * c->o.stream_window,
        .max_frame = 16384,
        .max_send_frame = 16384 - SW_H2_FRAME_HEAD,
        .max_header_list = c->o.max_header_list,
        .max_streams = c->o.max_streams,
        .extended_connect = c->o.extended_connect,
    };

    return sw_h2_new(&config, &engine_ops, c);
}

void h2stream_resume_stuck(struct sw_h2conn *c)
{
    if (!c->stuck)
        return;
    c->stuck = false;
    SW_LIST_EACH (struct sw_h2stream, s, &c->streams, link) {
        if (s->stuck) {
            s->stuck = false;
            sw_h2_resume(c->h2, s->id);
        }
    }
}

void h2stream_drained(struct sw_h2conn *c)
{
    SW_LIST_EACH (struct sw_h2stream, s, &c->streams, link) {
        if (!s->filled || sw_buf_len(&s->out))
            continue;
        s->filled = false;
        if (s->ops && s->ops->on_drain)
            s->ops->on_drain(s, s->arg);
    }
}

/* --- for owners --- */

void sw_h2stream_own(struct sw_h2stream *s, const struct sw_h2stream_ops *ops, void *arg)
{
    s->ops = ops;
    s->arg = arg;
}

struct sw_h2conn *sw_h2stream_conn(const struct sw_h2stream *s)
{
    return s->conn;
}

struct sw_h2stream *sw_h2stream_open(struct sw_h2conn *c, const struct sw_h2_header *fields,
                                     size_t n, const struct sw_h2stream_ops *ops, void *arg,
                                     struct sw_err *err)
{
    struct sw_h2stream *s;
    int32_t id;

    if (c->state != H2C_OPEN || c->goaway || c->broken) {
        (void)sw_err_set(err, SW_ECLOSED, "connection takes no new streams");
        return NULL;
    }
    s = stream_new(c, 0);
    sw_h2stream_own(s, ops, arg);
    id = sw_h2_request(c->h2, fields, n, false, s, err);
    if (id < 0) {
        s->ops = NULL;
        h2stream_gone(s, SW_H2_REFUSED_STREAM);
        return NULL;
    }
    s->id = id;
    h2conn_wake(c);
    return s;
}

void sw_h2stream_respond(struct sw_h2stream *s, const struct sw_h2_header *fields, size_t n,
                         bool end)
{
    struct sw_err err = {0};

    s->end = s->end || end;
    if (sw_h2_respond(s->conn->h2, s->id, fields, n, end, &err) != SW_OK) {
        sw_log_debug(s->conn->o.scope, "HTTP/2 answer: %s", err.msg);
        sw_h2_reset(s->conn->h2, s->id, SW_H2_INTERNAL_ERROR);
    }
    h2conn_wake(s->conn);
}

int sw_h2stream_sendv(struct sw_h2stream *s, const struct sw_slice *v, size_t n)
{
    size_t total = 0;

    if (s->end)
        return SW_ECLOSED;
    for (size_t i = 0; i < n; i++)
        total += v[i].n;
    if (total > s->out.max - sw_buf_len(&s->out))
        return SW_ELIMIT;
    for (size_t i = 0; i < n; i++) {
        if (sw_buf_append_slice(&s->out, v[i]) != SW_OK)
            return SW_ELIMIT; /* cannot be: there was room */
    }
    s->filled = true;
    sw_h2_resume(s->conn->h2, s->id);
    h2conn_wake(s->conn);
    return SW_OK;
}

int sw_h2stream_send(struct sw_h2stream *s, struct sw_slice data)
{
    return sw_h2stream_sendv(s, &data, 1);
}

size_t sw_h2stream_queued(const struct sw_h2stream *s)
{
    return sw_buf_len(&s->out);
}

void sw_h2stream_end(struct sw_h2stream *s, const struct sw_h2_header *trailers, size_t n)
{
    if (s->end)
        return;
    s->end = true;
    s->n_trailers = sw_min(n, H2STREAM_TRAILERS);
    for (size_t i = 0; i < s->n_trailers; i++) {
        s->trailers[i].name = sw_arena_slice(&s->arena, trailers[i].name);
        s->trailers[i].value = sw_arena_slice(&s->arena, trailers[i].value);
    }
    sw_h2_resume(s->conn->h2, s->id);
    h2conn_wake(s->conn);
}

void sw_h2stream_reset(struct sw_h2stream *s, enum sw_h2_code code)
{
    sw_h2_reset(s->conn->h2, s->id, code);
    h2conn_wake(s->conn);
}

void sw_h2stream_took(struct sw_h2stream *s, size_t n)
{
    sw_h2_consume_stream(s->conn->h2, s->id, n);
    h2conn_wake(s->conn);
}
