/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving, opening and closing of a WebSocket connection. Output is in wsconn_out.c. */
#include "http/ws/wsconn.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/time.h"
#include "http/ws/wsconn_int.h"
#include "io/sock.h"

enum {
    READS_PER_TURN = 4,
    LINGER_MS = 1000,
    PONG_ROOM = 1 << 20, /* output that may wait when a ping is answered */
};

/* ---- ends ---- */

static void on_go(struct sw_defer *d);

void ws_go_later(struct sw_wsconn *c)
{
    if (c->loop && !c->closed)
        sw_loop_defer(c->loop, &c->defer, on_go);
}

void ws_fail(struct sw_wsconn *c, int rc, int sys_errno)
{
    if (c->fail_rc || c->closed)
        return;
    c->fail_rc = (uint8_t)-rc;
    c->fail_errno = sys_errno;
    ws_go_later(c);
}

static void end_now(struct sw_wsconn *c, const struct sw_err *why)
{
    if (c->closed)
        return;
    if (!c->lingering)
        c->ops->on_end(c, why);
    sw_wsconn_close(c);
}

static void tell_failed(struct sw_wsconn *c)
{
    struct sw_err err = {0};

    if (c->fail_errno)
        (void)sw_err_sys(&err, c->fail_errno, "connection failed");
    else if (c->fail_rc == -SW_ETIME)
        (void)sw_err_set(&err, SW_ETIME, "peer takes nothing");
    else
        (void)sw_err_set(&err, -(int)c->fail_rc, "connection was reset");
    end_now(c, &err);
}

static void on_free(struct sw_defer *d)
{
    struct sw_wsconn *c = SW_CONTAINER_OF(d, struct sw_wsconn, defer);

    c->ops->on_free(c);
}

/* Everything it owns but the descriptor and its place in the loop. */
static void let_go(struct sw_wsconn *c)
{
    ws_bytes_free(&c->in);
    ws_bytes_free(&c->raw);
    ws_bytes_free(&c->out);
    while (c->head) {
        struct sw_wschunk *k = c->head;

        c->head = k->next;
        ws_chunk_put(k);
    }
    if (c->loop)
        ws_scratch()->queued -= c->out_n;
    c->out_n = 0;
    sw_ws_done(&c->ws);
    sw_tls_free(c->tls);
    c->tls = NULL;
}

void sw_wsconn_close(struct sw_wsconn *c)
{
    int fd = c->watch.fd;

    if (c->closed)
        return;
    c->closed = true;
    sw_watch_stop(&c->watch);
    sw_sock_close(fd);
    sw_timer_stop(c->loop, &c->stall);
    let_go(c);
    sw_defer_cancel(&c->defer);
    sw_loop_defer(c->loop, &c->defer, on_free);
}

void sw_wsconn_discard(struct sw_wsconn *c)
{
    assert(!c->loop);
    c->closed = true;
    sw_sock_close(c->watch.fd);
    let_go(c);
}

/* ---- receiving ---- */

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
        /* Who asks without reading is not answered. */
        if (sw_wsconn_unsent(c) < PONG_ROOM)
            sw_wsconn_send(c, SW_WS_PONG, ev->p, ev->n);
        break;
    case SW_WS_CLOSE: {
        uint8_t code[2] = {(uint8_t)(ev->code >> 8), (uint8_t)ev->code};

        sw_wsconn_send(c, SW_WS_CLOSE, code, ev->code == SW_WS_NO_CODE ? 0 : 2);
        c->bye = true;
        break;
    }
    case SW_WS_PONG:
    case SW_WS_CONTINUATION:
        break;
    }
}

/* Offers plain bytes; returns how many were used. */
static size_t deliver(struct sw_wsconn *c, uint8_t *p, size_t n)
{
    size_t at = 0;

    while (at < n && !c->paused && !c->closed && !c->fail_rc && !c->bye && !c->lingering) {
        struct sw_ws_event ev;
        struct sw_err err = {0};
        size_t used;
        int rc;

        if (!c->upgraded) {
            used = c->ops->on_bytes(c, sw_slice(p + at, n - at));
            at += used;
            if (used == 0)
                break;
            continue;
        }
        rc = sw_ws_next(&c->ws, p + at, n - at, &used, &ev, &err);
        at += used;
        if (rc == SW_OK) {
            on_frame(c, &ev);
        } else if (rc != SW_EAGAIN) {
            uint16_t code = c->ws.refusal;

            c->ops->on_end(c, &err);
            sw_wsconn_finish(c, code, "");
        } else if (used == 0) {
            break;
        }
    }
    return at;
}

static void opened(struct sw_wsconn *c)
{
    c->opening = false;
    c->flush_due = c->head != NULL;
    c->ops->on_open(c);
}

/* Returns bytes used, or -1 when it failed. */
static ssize_t shake(struct sw_wsconn *c, struct sw_slice in)
{
    struct sw_err err = {0};
    SW_BUF_AUTO out;
    size_t used = 0;
    int rc;

    sw_buf_init(&out, 2 * (size_t)SW_TLS_HANDSHAKE_OUT_MAX);
    rc = sw_tls_handshake(c->tls, in, &used, &out, &err);
    ws_bytes_append(&c->out, sw_buf_data(&out), sw_buf_len(&out));
    (void)ws_write_raw(c);
    if (rc == SW_OK) {
        opened(c);
    } else if (rc != SW_EAGAIN) {
        end_now(c, &err);
        return -1;
    }
    return (ssize_t)used;
}

/*
 * Opens the records at buf[from..n) and moves their content together at buf[to..). The start of an
 * incomplete record is kept. Returns the end of the content, or -1 when the connection ended.
 */
static ssize_t open_records(struct sw_wsconn *c, uint8_t *buf, size_t to, size_t from, size_t n)
{
    if (c->opening) {
        ssize_t used = shake(c, sw_slice(buf + from, n - from));

        if (used < 0 || c->closed)
            return -1;
        from += (size_t)used;
    }
    while (!c->opening && from < n) {
        struct sw_err err = {0};
        struct sw_slice plain = {0};
        size_t used = 0;
        int rc = sw_tls_open(c->tls, buf + from, n - from, &used, &plain, &err);

        if (rc == SW_EAGAIN)
            break;
        if (rc != SW_OK && rc != SW_EOF) {
            uint8_t alert[SW_TLS_CTRL_ROOM];

            ws_bytes_append(&c->out, alert,
                            sw_tls_alert_for_err(c->tls, &err, alert, sizeof(alert)));
            (void)ws_write_raw(c);
            end_now(c, &err);
            return -1;
        }
        memmove(buf + to, plain.p ? (const void *)plain.p : buf, plain.n);
        to += plain.n;
        from += used;
        if (rc == SW_EOF) {
            c->eof = true;
            from = n;
        }
    }
    ws_bytes_append(&c->raw, buf + from, n - from);
    if (!c->opening && sw_tls_wants_flush(c->tls)) {
        uint8_t ctrl[SW_TLS_CTRL_ROOM];

        ws_bytes_append(&c->out, ctrl, sw_tls_flush(c->tls, ctrl, sizeof(ctrl)));
        c->flush_due = true;
    }
    return (ssize_t)to;
}

/* Delivers buf[0..n), keeps what is not used. */
static void feed(struct sw_wsconn *c, uint8_t *buf, size_t n)
{
    size_t used = deliver(c, buf, n);

    if (c->closed || c->lingering)
        return;
    ws_bytes_append(&c->in, buf + used, n - used);
    if (n - used > WS_KEPT_MAX)
        ws_fail(c, SW_ELIMIT, 0);
}

/* One read and its delivery. False: nothing more to do now. */
static bool read_once(struct sw_wsconn *c, size_t *wire)
{
    uint8_t *buf = ws_scratch()->rx;
    size_t most = c->bulk ? WS_READ_BULK : WS_READ_SMALL;
    size_t room = c->read_max ? sw_min(c->read_max, most) : most;
    size_t have = ws_bytes_take(&c->in, buf);
    size_t at = have + ws_bytes_take(&c->raw, buf + have);
    ssize_t n = sw_sock_read(c->watch.fd, buf + at, room);

    c->readable = n == (ssize_t)room || (n > 0 && c->hup);
    if (n > 0) {
        *wire += (size_t)n;
        c->bulk = (size_t)n == room;
    } else if (n == SW_EOF) {
        c->eof = true;
    } else if (n != SW_EAGAIN) {
        ws_fail(c, SW_ECLOSED, n == SW_ECLOSED ? 0 : errno);
    }
    at += n > 0 ? (size_t)n : 0;
    if (c->tls) {
        ssize_t end = open_records(c, buf, have, have, at);

        if (end < 0)
            return false;
        at = (size_t)end;
    }
    feed(c, buf, at);
    return n > 0 && c->readable;
}

/* What was kept while paused is looked at before more is read. */
static void deliver_kept(struct sw_wsconn *c)
{
    struct sw_wsbytes b = c->in;
    size_t used;

    if (b.n == 0 || c->paused)
        return;
    c->in = (struct sw_wsbytes){0};
    used = deliver(c, b.p + b.off, b.n - b.off);
    if (c->closed || c->lingering) {
        ws_bytes_free(&b);
        return;
    }
    ws_bytes_consume(&b, used);
    c->in = b;
}

static void read_some(struct sw_wsconn *c)
{
    size_t wire = 0;
    bool more = true;

    for (int i = 0; i < (c->read_max ? 1 : READS_PER_TURN) && more; i++) {
        if (!c->readable || c->paused || c->closed || c->fail_rc || c->eof || c->bye ||
            c->lingering)
            more = false;
        else
            more = read_once(c, &wire);
    }
    if (c->closed || c->lingering)
        return;
    if (more)
        ws_go_later(c);
    if (wire && c->ops->on_batch && !c->opening)
        c->ops->on_batch(c, wire);
}

static void linger_step(struct sw_wsconn *c)
{
    /* What still comes is of no interest, but unread bytes would turn the FIN into a reset. */
    for (int i = 0; i < READS_PER_TURN && c->readable; i++) {
        ssize_t n = sw_sock_read(c->watch.fd, ws_scratch()->rx, WS_READ_BULK);

        if (n <= 0)
            c->readable = false;
        if (n < 0 && n != SW_EAGAIN)
            c->eof = true;
    }
    if (c->fail_rc || (c->eof && c->shut))
        sw_wsconn_close(c);
}

static void connect_step(struct sw_wsconn *c)
{
    struct sw_err err = {0};
    int rc = sw_sock_connect_result(c->watch.fd, &err);

    if (rc == SW_EAGAIN)
        return;
    if (rc != SW_OK) {
        end_now(c, &err);
        return;
    }
    c->connecting = false;
    c->readable = true;
    if (c->tls)
        (void)shake(c, (struct sw_slice){0});
    else
        opened(c);
}

static void tell_eof(struct sw_wsconn *c)
{
    struct sw_err err = {0};

    if (c->paused)
        return;
    (void)sw_err_set(&err, SW_EOF, c->opening ? "peer closed during the handshake" : "peer closed");
    c->ops->on_end(c, &err);
    if (c->opening)
        sw_wsconn_close(c);
    else
        sw_wsconn_finish(c, 0, NULL);
}

static void go_on(struct sw_wsconn *c)
{
    if (c->connecting && !c->closed)
        connect_step(c);
    if (c->closed || c->connecting)
        return;
    if (!c->lingering && !c->fail_rc) {
        deliver_kept(c);
        if (!c->closed)
            read_some(c);
    }
    if (!c->closed && c->flush_due)
        ws_flush(c);
    if (c->closed)
        return;
    if (c->lingering)
        linger_step(c);
    else if (c->fail_rc)
        tell_failed(c);
    else if (c->eof || c->bye)
        tell_eof(c);
}

static void on_go(struct sw_defer *d)
{
    go_on(SW_CONTAINER_OF(d, struct sw_wsconn, defer));
}

void ws_on_stalled(struct sw_timer *t)
{
    struct sw_wsconn *c = SW_CONTAINER_OF(t, struct sw_wsconn, stall);

    if (c->lingering)
        sw_wsconn_close(c);
    else
        ws_fail(c, SW_ETIME, 0);
}

static void on_event(struct sw_watch *w, unsigned events)
{
    struct sw_wsconn *c = SW_CONTAINER_OF(w, struct sw_wsconn, watch);

    if (events & (SW_READ | SW_HUP))
        c->readable = true;
    if (events & SW_HUP)
        c->hup = true;
    if ((events & SW_WRITE) && sw_wsconn_unsent(c))
        c->flush_due = true;
    if (c->flush_due && !c->readable && !c->connecting)
        ws_flush(c);
    if (c->readable || c->connecting || c->fail_rc)
        go_on(c);
}

/* ---- life ---- */

int sw_wsconn_init(struct sw_wsconn *c, struct sw_loop *l, int fd, struct sw_tls *tls, bool dialled,
                   uint32_t max, uint32_t stall_ms, const struct sw_wsconn_ops *ops,
                   struct sw_err *err)
{
    int rc;

    memset(c, 0, sizeof(*c));
    c->ops = ops;
    c->stall_ms = stall_ms;
    rc = sw_watch_start(l, &c->watch, fd, on_event, err);
    if (rc != SW_OK) {
        sw_sock_close(fd);
        sw_tls_free(tls);
        return rc;
    }
    c->loop = l;
    c->tls = tls;
    sw_ws_init(&c->ws, dialled, max);
    c->connecting = dialled;
    c->opening = dialled || tls;
    c->readable = !dialled;
    ws_go_later(c);
    return SW_OK;
}

void sw_wsconn_upgrade(struct sw_wsconn *c)
{
    c->upgraded = true;
}

void sw_wsconn_pause(struct sw_wsconn *c)
{
    c->paused = true;
}

void sw_wsconn_resume(struct sw_wsconn *c)
{
    if (!c->paused)
        return;
    c->paused = false;
    ws_go_later(c);
}

void sw_wsconn_detach(struct sw_wsconn *c)
{
    int fd = c->watch.fd;

    assert(!c->closed && !c->lingering && c->paused);
    sw_watch_stop(&c->watch);
    c->watch.fd = fd;
    sw_timer_stop(c->loop, &c->stall);
    sw_defer_cancel(&c->defer);
    ws_scratch()->queued -= c->out_n;
    c->loop = NULL;
}

int sw_wsconn_attach(struct sw_wsconn *c, struct sw_loop *l, struct sw_err *err)
{
    int fd = c->watch.fd;
    int rc = sw_watch_start(l, &c->watch, fd, on_event, err);

    c->loop = l;
    ws_scratch()->queued += c->out_n;
    if (rc != SW_OK) {
        c->watch.fd = fd;
        return rc;
    }
    c->readable = true;
    c->paused = false;
    c->flush_due = sw_wsconn_unsent(c) != 0;
    ws_go_later(c);
    return SW_OK;
}

void sw_wsconn_finish(struct sw_wsconn *c, uint16_t code, const char *reason)
{
    if (c->closed || c->lingering)
        return;
    if (c->fail_rc || c->connecting) {
        sw_wsconn_close(c);
        return;
    }
    if (code && c->upgraded) {
        uint8_t body[SW_WS_CONTROL_MAX] = {(uint8_t)(code >> 8), (uint8_t)code};
        struct sw_slice text = sw_slice_head(sw_slice_str(reason), sizeof(body) - 2);

        memcpy(body + 2, text.p, text.n);
        sw_wsconn_send(c, SW_WS_CLOSE, body, text.n + 2);
    }
    ws_bytes_free(&c->in);
    c->lingering = true;
    c->flush_due = true;
    sw_timer_start(c->loop, &c->stall, LINGER_MS * SW_NS_PER_MS, ws_on_stalled);
    ws_go_later(c);
}
