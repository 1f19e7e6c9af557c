/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 on a connection of the front: the engine's callbacks. */
#include <string.h>

#include "apiserver/front/front_int.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/grammar.h"
#include "http/h2_body.h"
#include "http/url.h"

enum { FIELDS_MAX = 64 };
static const uint64_t early_ns = SW_NS_PER_S;

static void fill_request(struct front_xchg *x, const struct sw_h2_head *head)
{
    struct sw_arena *a = &x->pub.arena;
    struct sw_front_field *f = sw_arena_array(a, head->n + 2, sizeof(*f));
    struct sw_slice path = sw_arena_slice(a, head->path);

    x->pub.method = sw_arena_slice(a, head->method);
    sw_target_split(path, &x->pub.path, &x->pub.query);
    for (size_t i = 0; i < head->n; i++) {
        f[i].name = sw_arena_slice(a, head->headers[i].name);
        f[i].value = sw_arena_slice(a, head->headers[i].value);
    }
    f[head->n] = (struct sw_front_field){SW_SLICE_LIT("host"), sw_arena_slice(a, head->authority)};
    x->pub.fields = f;
    x->pub.nfields = head->n + 1;
}

static void on_head(struct sw_h2 *h, int32_t id, void *stream, const struct sw_h2_head *head,
                    bool end)
{
    struct front_conn *c = sw_h2_owner(h);
    struct front_xchg *x;
    uint64_t length;

    if (stream)
        return; /* a trailer */
    if (!head->too_large && (!sw_http_target_strict(head->path) || head->path.p[0] != '/')) {
        sw_h2_reset(h, id, SW_H2_PROTOCOL_ERROR);
        return;
    }
    if (head->too_large || c->front->stopping) {
        sw_h2_reset(h, id, SW_H2_REFUSED_STREAM);
        return;
    }
    sw_timer_stop(c->front->loop, &c->timer);
    x = front_xchg_new(c);
    x->id = id;
    fill_request(x, head);
    sw_h2_set_stream(h, id, x);
    if (end)
        front_xchg_dispatch(x);
    else if (sw_slice_to_u64(sw_h2_head_get(head, "content-length"), UINT64_MAX, &length))
        (void)front_xchg_refuse_length(x, length);
}

static void on_data(struct sw_h2 *h, int32_t id, void *stream, struct sw_slice data)
{
    struct front_xchg *x = stream;

    sw_h2_consume_connection(h, data.n);
    if (!x || x->state != XCHG_READ)
        return;
    sw_h2_consume_stream(h, id, data.n);
    if (!front_xchg_take_body(x, data))
        sw_h2_reset(h, id, SW_H2_CANCEL);
}

static void on_end(struct sw_h2 *h, int32_t id, void *stream)
{
    struct front_xchg *x = stream;

    if (x && x->state == XCHG_READ)
        front_xchg_dispatch(x);
}

/*
 * Taken back before it was worth anything: no whole answer was sent, or a stream (a watch) had no
 * time to be of use. Answers made at once count too: the work was done all the same.
 */
static bool early(const struct front_xchg *x)
{
    return x->state != XCHG_STREAM || sw_loop_now(x->front->loop) - x->since_ns < early_ns;
}

static void on_close(struct sw_h2 *h, int32_t id, void *stream, uint32_t code)
{
    struct front_conn *c = sw_h2_owner(h);
    struct front_xchg *x = stream;

    (void)code; /* the peer chooses it: it does not measure the damage */
    if (!x)
        return;
    if (c->feeding && early(x))
        sw_h2_count_early_reset(h, sw_now_ns());
    front_xchg_release(x);
}

static int emit(struct sw_h2 *h, const uint8_t *p, size_t n)
{
    struct front_conn *c = sw_h2_owner(h);

    return sw_h2_body_control(&c->io, p, n);
}

static ssize_t pull(struct sw_h2 *h, int32_t id, void *stream, size_t max, bool *ret_end)
{
    struct front_conn *c = sw_h2_owner(h);
    struct front_xchg *x = stream;
    bool stuck;
    ssize_t n;

    if (!x)
        return SW_EAGAIN;
    n = sw_h2_body_pull(&c->io, &x->out, x->end, max, ret_end, &stuck);
    if (stuck)
        x->stuck = c->stuck = true; /* resumed when the connection has room again */
    return n;
}

static void emit_data(struct sw_h2 *h, int32_t id, void *stream,
                      const uint8_t head[SW_H2_FRAME_HEAD], size_t n)
{
    struct front_conn *c = sw_h2_owner(h);
    struct front_xchg *x = stream;

    sw_h2_body_emit(&c->io, &x->out, head, n);
    x->sent_all = x->end && sw_buf_len(&x->out) == 0;
    front_xchg_account(x);
}

static void on_goaway(struct sw_h2 *h, int32_t last_id, uint32_t code)
{
    struct front_conn *c = sw_h2_owner(h);

    c->goaway = true;
}

static const struct sw_h2_ops ops = {
    .on_head = on_head,
    .on_data = on_data,
    .on_end = on_end,
    .on_close = on_close,
    .on_goaway = on_goaway,
    .emit = emit,
    .pull = pull,
    .emit_data = emit_data,
};

void front_h2_start(struct front_conn *c)
{
    struct sw_h2_config config = {
        .server = true,
        .stream_window = FRONT_H2_WINDOW,
        .connection_window = 4 * FRONT_H2_WINDOW,
        .max_frame = 16384,
        .max_send_frame = 16384 - SW_H2_FRAME_HEAD,
        .max_header_list = FRONT_H1_HEAD,
        .max_streams = FRONT_H2_STREAMS,
    };

    c->h2 = sw_h2_new(&config, &ops, c);
}

int front_h2_feed(struct front_conn *c, struct sw_slice in)
{
    struct sw_err err = {0};
    int rc;

    c->feeding = true;
    rc = sw_h2_feed(c->h2, in, &err);
    c->feeding = false;
    if (rc != SW_OK)
        sw_log_debug("api", "HTTP/2 connection ends: %s", err.msg);
    return rc;
}

static struct sw_slice lower(struct sw_arena *a, const char *name)
{
    char *p = sw_arena_dup(a, sw_slice_str(name));

    for (char *c = p; *c; c++) {
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c + 'a' - 'A');
    }
    return sw_slice_str(p);
}

void front_h2_head(struct front_xchg *x, int status, const char *content_type, int64_t length)
{
    struct sw_h2_header h[FIELDS_MAX];
    struct sw_arena *a = &x->pub.arena;
    struct sw_slice f = sw_slice(x->fields.p, sw_buf_len(&x->fields));
    struct sw_err err = {0};
    size_t n = 0;

    h[n++] = (struct sw_h2_header){SW_SLICE_LIT(":status"),
                                   sw_slice_str(sw_arena_printf(a, "%d", status))};
    while (f.n && n < FIELDS_MAX - 2) {
        const char *name = f.p;
        size_t len = strlen(name) + 1;
        const char *value = f.p + len;

        h[n++] = (struct sw_h2_header){lower(a, name), sw_slice_str(value)};
        f = sw_slice_from(f, len + strlen(value) + 1);
    }
    if (content_type)
        h[n++] = (struct sw_h2_header){SW_SLICE_LIT("content-type"), sw_slice_str(content_type)};
    if (length >= 0 && status != 304)
        h[n++] = (struct sw_h2_header){
            SW_SLICE_LIT("content-length"),
            sw_slice_str(sw_arena_printf(a, "%llu", (unsigned long long)length))};
    x->responded = true;
    if (sw_h2_respond(x->conn->h2, x->id, h, n, x->head_only || length == 0, &err) != SW_OK) {
        sw_log_debug("api", "HTTP/2 answer: %s", err.msg);
        sw_h2_reset(x->conn->h2, x->id, SW_H2_INTERNAL_ERROR);
    }
}
