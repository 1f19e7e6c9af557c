/* SPDX-License-Identifier: Apache-2.0 */
/* Frames between a connection and its owner. */
#include "http/ws/wsconn.h"

#include <assert.h>
#include <string.h>

#include "base/rand.h"

enum {
    KEPT_MAX = 96 * 1024, /* start of a message or of a head */
    OUT_MAX = 16 << 20,   /* owners drop messages long before */
    PONG_ROOM = 1 << 20,  /* output that may wait when a ping is answered */
};
static_assert((int)SW_WSCONN_FRAME_MAX + SW_WS_HEAD_MAX <= (int)SW_CONN_ROOM_MAX, "a frame");

static struct sw_wsconn *ws_of(struct sw_conn *io)
{
    return SW_CONTAINER_OF(io, struct sw_wsconn, io);
}

/* ---- sending ---- */

void sw_wsconn_put(struct sw_wsconn *c, const void *p, size_t n)
{
    sw_conn_put(&c->io, p, n);
}

uint8_t *sw_wsconn_room(struct sw_wsconn *c, enum sw_ws_op op, size_t n, bool data)
{
    uint8_t mask[4];
    uint8_t *to;

    assert(n <= SW_WSCONN_FRAME_MAX);
    if (c->ws.client) {
        /* Only so that no cache between us mistakes the bytes for HTTP: any generator will do. */
        uint64_t r = sw_rand_u64();

        memcpy(mask, &r, sizeof(mask));
    }
    to = sw_conn_room(&c->io, SW_WS_HEAD_MAX + n);
    if (data)
        sw_conn_mark(&c->io);
    return to + sw_ws_put_head(to, op, n, c->ws.client ? mask : NULL);
}

void sw_wsconn_commit(struct sw_wsconn *c, uint8_t *payload, size_t n)
{
    const uint8_t *frame = sw_conn_room(&c->io, SW_WS_HEAD_MAX + n); /* where it began */

    if (c->ws.client)
        sw_ws_mask(payload, n, payload - 4);
    sw_conn_commit(&c->io, (size_t)(payload - frame) + n);
}

void sw_wsconn_send(struct sw_wsconn *c, enum sw_ws_op op, const void *p, size_t n)
{
    uint8_t *to;

    if (c->io.closed)
        return;
    to = sw_wsconn_room(c, op, n, false);
    if (n)
        memcpy(to, p, n);
    sw_wsconn_commit(c, to, n);
}

/* ---- receiving ---- */

static void peer_closed(struct sw_wsconn *c)
{
    struct sw_err err = {0};

    (void)sw_err_set(&err, SW_EOF, "peer closed");
    c->ops->on_end(c, &err);
    sw_wsconn_finish(c, 0, NULL);
}

static void on_frame(struct sw_wsconn *c, const struct sw_ws_event *ev)
{
    switch (ev->op) {
    case SW_WS_BINARY:
        c->ops->on_message(c, ev->p, ev->n);
        break;
    case SW_WS_TEXT:
        if (c->ops->on_text)
            c->ops->on_text(c, ev->n);
        break;
    case SW_WS_PING:
        /* A peer that sends pings without reading gets no pongs. */
        if (sw_wsconn_unsent(c) < PONG_ROOM)
            sw_wsconn_send(c, SW_WS_PONG, ev->p, ev->n);
        break;
    case SW_WS_CLOSE: {
        uint8_t code[2] = {(uint8_t)(ev->code >> 8), (uint8_t)ev->code};

        sw_wsconn_send(c, SW_WS_CLOSE, code, ev->code == SW_WS_NO_CODE ? 0 : 2);
        peer_closed(c);
        break;
    }
    case SW_WS_PONG:
    case SW_WS_CONTINUATION:
        break;
    }
}

/* One frame at p[0..n). Returns how many bytes were used; 0: more are needed. */
static size_t next_frame(struct sw_wsconn *c, uint8_t *p, size_t n)
{
    struct sw_ws_event ev;
    struct sw_err err = {0};
    size_t used;
    int rc = sw_ws_next(&c->ws, p, n, &used, &ev, &err);

    if (rc == SW_OK) {
        on_frame(c, &ev);
    } else if (rc != SW_EAGAIN) {
        uint16_t code = c->ws.refusal;

        c->ops->on_end(c, &err);
        sw_wsconn_finish(c, code, "");
    }
    return used;
}

static size_t on_bytes(struct sw_conn *io, struct sw_slice in)
{
    struct sw_wsconn *c = ws_of(io);
    size_t at = 0;
    size_t used = 1;
    uint8_t *p;

    memcpy(&p, &in.p, sizeof(p)); /* writable: see io/conn.h */
    while (at < in.n && used && !io->paused && !io->closed && !io->lingering) {
        used = c->upgraded ? next_frame(c, p + at, in.n - at)
                           : c->ops->on_bytes(c, sw_slice_from(in, at));
        at += used;
    }
    return at;
}

static void on_open(struct sw_conn *io)
{
    ws_of(io)->ops->on_open(ws_of(io));
}

static void on_batch(struct sw_conn *io, size_t wire)
{
    if (ws_of(io)->ops->on_batch)
        ws_of(io)->ops->on_batch(ws_of(io), wire);
}

static void on_eof(struct sw_conn *io)
{
    peer_closed(ws_of(io));
}

/* ---- life ---- */

static void on_fail(struct sw_conn *io, const struct sw_err *err)
{
    ws_of(io)->ops->on_end(ws_of(io), err);
}

static void on_free(struct sw_conn *io)
{
    sw_ws_done(&ws_of(io)->ws);
    ws_of(io)->ops->on_free(ws_of(io));
}

static const struct sw_conn_ops io_ops = {
    .on_open = on_open,
    .on_bytes = on_bytes,
    .on_batch = on_batch,
    .on_eof = on_eof,
    .on_fail = on_fail,
    .on_free = on_free,
};

int sw_wsconn_init(struct sw_wsconn *c, struct sw_loop *l, int fd, const struct sw_wsconn_opts *o,
                   struct sw_err *err)
{
    struct sw_conn_opts io = {
        .ops = &io_ops, .filter = sw_tls_filter(o->tls), .dialled = o->dialled};
    int rc = sw_conn_init(&c->io, l, fd, &io, err);

    if (rc != SW_OK)
        return rc;
    c->io.in_max = KEPT_MAX;
    c->io.out_max = OUT_MAX;
    c->io.stall_ms = o->stall_ms;
    c->io.join = true;
    c->io.deferred_output = true;
    c->ops = o->ops;
    c->upgraded = false;
    sw_ws_init(&c->ws, o->dialled, o->message_max);
    return SW_OK;
}

void sw_wsconn_upgrade(struct sw_wsconn *c)
{
    c->upgraded = true;
}

void sw_wsconn_close(struct sw_wsconn *c)
{
    sw_conn_close(&c->io, false);
}

void sw_wsconn_discard(struct sw_wsconn *c)
{
    sw_conn_done(&c->io);
    sw_ws_done(&c->ws);
}

void sw_wsconn_finish(struct sw_wsconn *c, uint16_t code, const char *reason)
{
    if (c->io.lingering)
        return;
    if (code && c->upgraded) {
        uint8_t body[SW_WS_CONTROL_MAX] = {(uint8_t)(code >> 8), (uint8_t)code};
        struct sw_slice text = sw_slice_head(sw_slice_str(reason), sizeof(body) - 2);

        memcpy(body + 2, text.p, text.n);
        sw_wsconn_send(c, SW_WS_CLOSE, body, text.n + 2);
    }
    /* Messages to a peer that left or was refused are not worth the time that answers get. */
    sw_conn_close_within_linger(&c->io);
}
