/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection: opening, what happens next, failing, lingering, closing. Input is in
 * conn_in.c, output in conn_out.c.
 */
#include "io/conn/conn.h"

#include <assert.h>
#include <string.h>

#include "base/time.h"
#include "io/conn/conn_int.h"
#include "io/sock.h"

/* ---- failing ---- */

static void on_go(struct sw_defer *d);
static void on_deadline(struct sw_timer *t);

void io_conn_go_later(struct sw_conn *c)
{
    if (c->shared && !c->closed)
        sw_loop_defer(c->shared->loop, &c->defer, on_go);
}

void io_conn_arm(struct sw_conn *c, uint32_t ms)
{
    if (ms)
        sw_timer_start(c->shared->loop, &c->timer, ms * SW_NS_PER_MS, on_deadline);
    else
        sw_timer_stop(c->shared->loop, &c->timer);
}

void io_conn_fail(struct sw_conn *c, int rc, int sys_errno)
{
    if (c->failed || c->closed)
        return;
    c->failed = true;
    c->failure.rc = (int16_t)rc;
    c->failure.sys_errno = (int16_t)sys_errno;
    io_conn_go_later(c);
}

void io_conn_fail_now(struct sw_conn *c, const struct sw_err *err)
{
    if (c->closed)
        return;
    c->failed = true;
    if (!c->lingering)
        c->ops->on_fail(c, err);
    sw_conn_close(c, false);
}

static void report_failed(struct sw_conn *c)
{
    struct sw_err err = {0};

    if (c->failure.sys_errno)
        (void)sw_err_sys(&err, c->failure.sys_errno, "connection failed");
    else if (c->failure.rc == SW_ELIMIT)
        (void)sw_err_set(&err, SW_ELIMIT, "more than %u bytes wait for the peer", c->out_max);
    else
        (void)sw_err_set(&err, c->failure.rc, "connection %s",
                         c->failure.rc == SW_ECLOSED ? "was reset" : sw_rc_name(c->failure.rc));
    io_conn_fail_now(c, &err);
}

/* ---- continuing ---- */

void io_conn_opened(struct sw_conn *c)
{
    c->opening = false;
    io_conn_arm(c, 0);
    if (c->queued || c->shut_wanted)
        io_conn_mark_dirty(c);
    if (c->ops->on_open)
        c->ops->on_open(c);
}

static void connect_step(struct sw_conn *c)
{
    struct sw_err err = {0};
    int rc = sw_sock_connect_result(c->watch.fd, &err);

    if (rc == SW_EAGAIN)
        return;
    if (rc != SW_OK) {
        io_conn_fail_now(c, &err);
        return;
    }
    c->connecting = false;
    c->readable = true;
    if (c->filter)
        (void)io_conn_shake(c, (struct sw_slice){0});
    else
        io_conn_opened(c);
}

static void linger_step(struct sw_conn *c)
{
    /* What still comes is of no interest, but unread bytes would turn the FIN into a reset. */
    for (int i = 0; i < IO_READS_PER_TURN && c->readable && !c->eof; i++) {
        ssize_t n = sw_sock_read(c->watch.fd, c->shared->rx, IO_READ_BULK);

        if (n == SW_EAGAIN)
            c->readable = false;
        else if (n <= 0)
            c->eof = true;
    }
    if (c->failed || c->cut || (c->eof && c->shut))
        sw_conn_close(c, false);
    else if (c->readable && !c->eof)
        io_conn_go_later(c);
}

static void report_eof(struct sw_conn *c)
{
    struct sw_err err = {0};

    c->eof_reported = true;
    if (c->opening) {
        (void)sw_err_set(&err, SW_EOF, "peer closed during the handshake");
        io_conn_fail_now(c, &err);
    } else if (c->ops->on_eof) {
        c->ops->on_eof(c);
    }
}

/* Ends that are due, in the order in which the owner should learn of them. */
static void report_ends(struct sw_conn *c)
{
    if (c->was_high && !c->cut && !c->failed && !c->full && sw_conn_unsent(c) == 0 && !c->opening) {
        c->was_high = false;
        if (c->ops->on_drained)
            c->ops->on_drained(c);
    }
    if (c->eof && !c->eof_reported && !c->paused && !c->failed && !c->closed && !c->lingering)
        report_eof(c);
    if (c->closed || c->lingering)
        return;
    /* Writing failed: all that could be read was. */
    if (c->failed || (c->cut && !io_conn_may_read(c)))
        report_failed(c);
}

void io_conn_step(struct sw_conn *c, size_t wire)
{
    struct sw_conn_shared *s = c->shared;
    bool kept = (c->reading.offer || c->reading.fresh) && !c->paused;

    if (c->closed || c->reading.ahead) /* what was read comes first */
        return;
    if (c->lingering) {
        linger_step(c);
        return;
    }
    if (c->connecting)
        connect_step(c);
    if (c->closed || c->connecting)
        return;
    if ((c->readable || c->reading.offer || c->reading.fresh) && !c->failed) {
        s->receiving = true;
        wire += io_conn_receive(c);
        s->receiving = false;
    }
    if ((wire || kept) && c->ops->on_batch && !c->opening && !c->closed && !c->lingering)
        c->ops->on_batch(c, wire);
    if ((c->was_high || c->eof || c->failed || c->cut) && !c->closed && !c->lingering)
        report_ends(c);
    /* What its own input caused leaves now: many that wake up together share few chunks. */
    if (!c->closed && sw_list_linked(&c->dirty) && !s->batch)
        io_conn_flush(c);
}

static void go_on(struct sw_conn *c)
{
    bool input = (c->reading.offer || (c->readable && !c->eof)) && !c->paused && !c->connecting;

    if (input && c->ops->on_ready && !c->closed && !c->lingering && !c->ops->on_ready(c))
        c->paused = true;
    io_conn_step(c, 0);
}

static void on_go(struct sw_defer *d)
{
    go_on(SW_CONTAINER_OF(d, struct sw_conn, defer));
}

static void on_event(struct sw_watch *w, unsigned events)
{
    struct sw_conn *c = SW_CONTAINER_OF(w, struct sw_conn, watch);
    struct io_batch *batch = c->shared->batch;

    if (events & (SW_READ | SW_HUP))
        c->readable = true;
    if (events & SW_HUP)
        c->hup = true;
    if ((events & SW_WRITE) && !c->connecting && c->full) {
        c->full = false;
        io_conn_flush(c);
    }
    if (batch && c->readable && io_batch_may_read(c))
        io_batch_read(c);
    else if (c->readable || c->connecting || c->failed || c->cut)
        go_on(c);
    if (batch)
        io_batch_flush_many(batch);
}

static void on_deadline(struct sw_timer *t)
{
    struct sw_conn *c = SW_CONTAINER_OF(t, struct sw_conn, timer);
    struct sw_err err = {0};
    const char *what = "peer takes nothing";

    if (c->lingering) {
        sw_conn_close(c, sw_conn_unsent(c) > 0); /* what is cut must not look complete */
        return;
    }
    if (c->opening)
        what = c->connecting ? "connect timed out" : "handshake timed out";
    (void)sw_err_set(&err, SW_ETIME, "%s", what);
    io_conn_fail_now(c, &err);
}

/* ---- life ---- */

int sw_conn_init(struct sw_conn *c, struct sw_loop *l, int fd, const struct sw_conn_opts *o,
                 struct sw_err *err)
{
    int rc;

    memset(c, 0, sizeof(*c));
    c->ops = o->ops;
    c->in_max = SW_CONN_IN_MAX;
    c->out_max = SW_CONN_OUT_MAX;
    c->linger_ms = SW_CONN_LINGER_MS;
    sw_list_init(&c->dirty);
    rc = sw_watch_start(l, &c->watch, fd, on_event, err);
    if (rc != SW_OK) {
        sw_sock_close(fd);
        if (o->filter)
            o->filter->ops->free(o->filter);
        c->closed = true;
        return rc;
    }
    c->shared = io_conn_shared(l);
    c->filter = o->filter;
    c->connecting = o->dialled;
    c->opening = o->dialled || o->filter;
    c->readable = !o->dialled;
    assert(o->pre.n <= IO_RX_KEPT);
    sw_conn_bytes_append(o->filter ? &c->raw : &c->in, o->pre.p, o->pre.n);
    c->reading.fresh = c->raw != NULL;
    c->reading.offer = c->in != NULL;
    if (o->open_ms && c->opening)
        io_conn_arm(c, o->open_ms);
    io_conn_go_later(c);
    return SW_OK;
}

void sw_conn_set_ops(struct sw_conn *c, const struct sw_conn_ops *ops)
{
    c->ops = ops;
    sw_conn_resume(c);
}

void sw_conn_fail(struct sw_conn *c, int rc)
{
    io_conn_fail(c, rc, 0);
}

void sw_conn_pause(struct sw_conn *c)
{
    c->paused = true;
}

void sw_conn_repeat_eof(struct sw_conn *c)
{
    c->paused = true;
    c->eof_reported = false;
}

void sw_conn_resume_now(struct sw_conn *c)
{
    if (c->shared->receiving) {
        sw_conn_resume(c);
        return;
    }
    c->paused = false;
    c->reading.offer = c->in != NULL;
    io_conn_step(c, 0);
}

void sw_conn_resume(struct sw_conn *c)
{
    c->paused = false;
    c->reading.offer = c->in != NULL;
    if (c->reading.offer || c->readable || (c->eof && !c->eof_reported))
        io_conn_go_later(c);
}

void sw_conn_detach(struct sw_conn *c)
{
    int fd = c->watch.fd;

    assert(!c->closed && !c->lingering && c->paused && !c->shared->batch);
    sw_watch_stop(&c->watch);
    c->watch.fd = fd;
    io_conn_arm(c, 0);
    sw_defer_cancel(&c->defer);
    sw_list_unlink(&c->dirty);
    c->shared->queued -= c->queued;
    c->shared = NULL;
}

int sw_conn_attach(struct sw_conn *c, struct sw_loop *l, struct sw_err *err)
{
    int fd = c->watch.fd;
    int rc = sw_watch_start(l, &c->watch, fd, on_event, err);

    c->shared = io_conn_shared(l);
    c->shared->queued += c->queued;
    if (rc != SW_OK) {
        c->watch.fd = fd;
        return rc;
    }
    c->readable = true;
    c->full = false;
    if (sw_conn_unsent(c))
        io_conn_mark_dirty(c);
    sw_conn_resume(c);
    return SW_OK;
}

void sw_conn_release(struct sw_conn *c, struct sw_watch *ret)
{
    assert(!c->closed && !c->opening && !c->filter && !sw_conn_unsent(c) && !c->in &&
           !c->reading.ahead);
    sw_watch_move(&c->watch, ret, NULL);
    io_conn_arm(c, 0);
    sw_list_unlink(&c->dirty);
    sw_defer_cancel(&c->defer);
    c->closed = true;
}

/* Everything but callbacks. */
static void let_go(struct sw_conn *c)
{
    int fd = c->watch.fd;

    c->closed = true;
    if (c->reading.ahead)
        io_batch_forget(c);
    if (c->shared) {
        sw_watch_stop(&c->watch);
        io_conn_arm(c, 0);
        sw_list_unlink(&c->dirty);
    }
    sw_sock_close(fd);
    sw_conn_bytes_free(&c->in);
    sw_conn_bytes_free(&c->raw);
    io_conn_drop_output(c);
    if (c->filter)
        c->filter->ops->free(c->filter);
    c->filter = NULL;
    sw_defer_cancel(&c->defer);
}

static void on_free(struct sw_defer *d)
{
    struct sw_conn *c = SW_CONTAINER_OF(d, struct sw_conn, defer);

    c->ops->on_free(c);
}

void sw_conn_close(struct sw_conn *c, bool reset)
{
    if (c->closed)
        return;
    if (reset)
        sw_sock_set_reset(c->watch.fd);
    let_go(c);
    sw_loop_defer(c->shared->loop, &c->defer, on_free);
}

void sw_conn_done(struct sw_conn *c)
{
    if (!c->ops)
        return;
    if (c->closed)
        sw_defer_cancel(&c->defer);
    else
        let_go(c);
}

void sw_conn_close_flushed(struct sw_conn *c)
{
    if (c->closed || c->lingering)
        return;
    if (c->failed || c->cut || c->opening) {
        sw_conn_close(c, false);
        return;
    }
    sw_conn_bytes_free(&c->in);
    sw_conn_bytes_free(&c->raw);
    c->lingering = true;
    c->paused = false;
    c->shut_wanted = true;
    io_conn_arm(c, c->shut ? c->linger_ms : c->stall_ms ? c->stall_ms : SW_CONN_STUCK_MS);
    io_conn_flush(c);
    io_conn_go_later(c);
}

void sw_conn_close_within_linger(struct sw_conn *c)
{
    c->stall_ms = SW_CONN_LINGER_MS;
    sw_conn_close_flushed(c);
}
