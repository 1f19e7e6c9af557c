/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving, opening and closing of a connection. One read per wake-up where the bytes fit,
 * straight into the worker's buffer; records are opened there too. Output is in conn_out.c.
 */
#include "gateway/conn.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "gateway/conn_int.h"
#include "gateway/worker.h"
#include "io/sock.h"
#include "tls/tls.h"

enum {
    READ_SMALL = 64 * 1024,
    READ_BULK = 256 * 1024,
    READS_PER_TURN = 4,
    LINGER_MS = 1000,
    STUCK_MS = 60000, /* for a peer that takes nothing of what was said last */
    IN_MAX = 1 << 20, /* kept for an owner that does not use what it gets */
    SOON_MAX = 32,    /* written at the latest when so many wait */
};

void gw_bytes_free(struct sw_gw_bytes *b)
{
    sw_free(b->p);
    *b = (struct sw_gw_bytes){0};
}

void gw_bytes_append(struct sw_gw_bytes *b, const void *p, size_t n)
{
    size_t have = b->n - b->off;
    size_t need = SW_GW_HEADROOM + have + n + 1;

    if (n == 0)
        return;
    if (b->n + n + 1 > b->cap) {
        if (need > b->cap) {
            size_t cap = sw_max(need, sw_min((size_t)b->cap * 2, b->cap + (1u << 20)));
            uint8_t *fresh = sw_malloc(cap);

            if (have)
                memcpy(fresh + SW_GW_HEADROOM, b->p + b->off, have);
            sw_free(b->p);
            b->p = fresh;
            b->cap = (uint32_t)cap;
        } else {
            memmove(b->p + SW_GW_HEADROOM, b->p + b->off, have);
        }
        b->off = SW_GW_HEADROOM;
        b->n = (uint32_t)(SW_GW_HEADROOM + have);
    }
    memcpy(b->p + b->n, p, n);
    b->n += (uint32_t)n;
}

void gw_bytes_consume(struct sw_gw_bytes *b, size_t n)
{
    b->off += (uint32_t)n;
    if (b->off == b->n)
        gw_bytes_free(b);
}

/* ---- failing ---- */

static void on_go(struct sw_defer *d);

void gw_conn_fail(struct sw_gw_conn *c, int rc, int sys_errno)
{
    if (c->failed || c->closed)
        return;
    c->failed = true;
    c->fail_rc = rc;
    c->fail_errno = sys_errno;
    sw_loop_defer(c->worker->loop, &c->defer, on_go);
}

static void tell_failed(struct sw_gw_conn *c)
{
    struct sw_err err = {0};

    if (c->lingering) {
        sw_gw_conn_close(c, false);
        return;
    }
    if (c->fail_errno)
        (void)sw_err_sys(&err, c->fail_errno, "connection failed");
    else
        (void)sw_err_set(&err, c->fail_rc, "connection %s", sw_rc_name(c->fail_rc));
    c->ops->on_fail(c, &err);
}

static void fail_now(struct sw_gw_conn *c, struct sw_err *err)
{
    if (c->closed)
        return;
    c->failed = true;
    if (c->lingering)
        sw_gw_conn_close(c, false);
    else
        c->ops->on_fail(c, err);
}

/* ---- delivering ---- */

/* What is in c->in goes to the owner first, so that it sees one contiguous text. */
static void deliver_kept(struct sw_gw_conn *c)
{
    while (c->in.n && !c->paused && !c->closed) {
        struct sw_gw_bytes b = c->in;
        size_t used;

        /* The owner may pause, close or put more in while it looks at the bytes. */
        c->in = (struct sw_gw_bytes){0};
        used = c->ops->on_bytes(c, sw_slice(b.p + b.off, b.n - b.off));
        assert(used <= b.n - b.off);
        gw_bytes_consume(&b, used);
        if (c->closed) {
            gw_bytes_free(&b);
            return;
        }
        c->in = b;
        if (used == 0)
            return;
    }
}

static void deliver(struct sw_gw_conn *c, struct sw_slice in)
{
    size_t used = 0;

    if (c->closed || in.n == 0)
        return;
    if (c->in.n || c->paused) {
        gw_bytes_append(&c->in, in.p, in.n);
        deliver_kept(c);
    } else {
        while (used < in.n && !c->paused && !c->closed) {
            size_t k = c->ops->on_bytes(c, sw_slice_from(in, used));

            used += k;
            if (k == 0)
                break;
        }
        if (!c->closed && used < in.n)
            gw_bytes_append(&c->in, in.p + used, in.n - used);
    }
    if (!c->closed && c->in.n - c->in.off > IN_MAX)
        gw_conn_fail(c, SW_ELIMIT, 0);
}

/* ---- TLS ---- */

static void opened(struct sw_gw_conn *c)
{
    c->opening = false;
    sw_timer_stop(c->worker->loop, &c->timer);
    c->ops->on_open(c);
}

/* Returns bytes used, or a failure that was reported. */
static ssize_t shake(struct sw_gw_conn *c, struct sw_slice in)
{
    struct sw_err err = {0};
    struct sw_buf out;
    size_t used = 0;
    int rc;

    sw_buf_init(&out, 2 * (size_t)SW_TLS_HANDSHAKE_OUT_MAX);
    rc = sw_tls_handshake(c->tls, in, &used, &out, &err);
    if (sw_buf_len(&out))
        gw_conn_write_raw(c, sw_buf_slice(&out));
    sw_buf_done(&out);
    if (rc == SW_OK) {
        opened(c);
    } else if (rc != SW_EAGAIN) {
        fail_now(c, &err);
        return rc;
    }
    return (ssize_t)used;
}

/* Opens records of buf[0..n); the start of an incomplete one is kept. */
static void open_records(struct sw_gw_conn *c, uint8_t *buf, size_t n)
{
    size_t at = 0;

    if (c->opening) {
        ssize_t used = shake(c, sw_slice(buf, n));

        if (used < 0 || c->closed)
            return;
        at = (size_t)used;
    }
    while (!c->opening && at < n && !c->closed) {
        struct sw_err err = {0};
        struct sw_slice plain = {0};
        size_t used = 0;
        int rc = sw_tls_open(c->tls, buf + at, n - at, &used, &plain, &err);

        if (rc == SW_EAGAIN)
            break;
        at += used;
        if (rc == SW_EOF) {
            c->eof = true;
            at = n;
            break;
        }
        if (rc != SW_OK) {
            uint8_t alert[SW_TLS_CTRL_ROOM];

            gw_conn_write_raw(
                c, sw_slice(alert, sw_tls_alert_for_err(c->tls, &err, alert, sizeof(alert))));
            fail_now(c, &err);
            return;
        }
        deliver(c, plain);
    }
    if (c->closed)
        return;
    if (at < n)
        gw_bytes_append(&c->raw, buf + at, n - at);
    if (!c->opening && sw_tls_wants_flush(c->tls)) {
        uint8_t ctrl[SW_TLS_CTRL_ROOM];

        gw_conn_write_raw(c, sw_slice(ctrl, sw_tls_flush(c->tls, ctrl, sizeof(ctrl))));
    }
}

/* ---- reading ---- */

/*
 * Unix sockets know no reset: a break looks like an end, and cuts an answer that lasts until the
 * end. A peer that ends its side first, and closes after ours, broke off when it is just gone.
 */
static bool broke_off(const struct sw_gw_conn *c)
{
    return c->says_end && !c->opening && !c->shut && sw_sock_hung_up(c->watch.fd);
}

bool gw_conn_took(struct sw_gw_conn *c, uint8_t *buf, size_t have, ssize_t n, size_t room,
                  int sys_errno)
{
    if (n > 0) {
        if ((size_t)n < room && !c->hup)
            c->readable = false;
        if (c->tls)
            open_records(c, buf, have + (size_t)n);
        else
            deliver(c, sw_slice(buf, have + (size_t)n));
    } else if (n == SW_EAGAIN) {
        c->readable = false;
    } else if (n == SW_EOF) {
        c->readable = false;
        c->eof = !broke_off(c);
        if (!c->eof)
            gw_conn_fail(c, SW_ECLOSED, ECONNRESET);
    } else {
        c->readable = false;
        gw_conn_fail(c, SW_ECLOSED, n == SW_ECLOSED ? 0 : sys_errno);
    }
    return n > 0 && c->readable;
}

/* One read and its delivery. False: nothing more to do now. */
static bool read_once(struct sw_gw_conn *c)
{
    struct sw_gw_worker *w = c->worker;
    struct sw_gw_bytes *kept = c->tls ? &c->raw : &c->in;
    size_t have = kept->n - kept->off;
    size_t room = c->bulk ? READ_BULK : READ_SMALL;
    uint8_t *own = NULL;
    uint8_t *buf = w->rx + SW_GW_HEADROOM;
    ssize_t n;
    bool more;

    if (have > SW_GW_RX - READ_BULK - SW_GW_HEADROOM - 1)
        buf = SW_GW_HEADROOM +
              (own = sw_malloc(SW_GW_HEADROOM + have + room + 1)); /* a lot is kept */
    n = sw_sock_read(c->watch.fd, buf + have, room);
    if (n > 0) {
        if (have)
            memcpy(buf, kept->p + kept->off, have);
        gw_bytes_free(kept);
        c->bulk = (size_t)n == room;
        c->wide = n > GW_AHEAD_BYTES;
    }
    more = gw_conn_took(c, buf, have, n, room, errno);
    sw_free(own);
    return more;
}

/* Records that came before the connection was ours. */
static void open_fresh(struct sw_gw_conn *c)
{
    struct sw_gw_bytes b = c->raw;

    if (!c->raw_fresh)
        return;
    c->raw_fresh = false;
    c->raw = (struct sw_gw_bytes){0};
    open_records(c, b.p + b.off, b.n - b.off);
    gw_bytes_free(&b);
}

static void read_some(struct sw_gw_conn *c)
{
    for (int i = 0; i < READS_PER_TURN; i++) {
        if (!c->readable || c->paused || c->closed || c->failed || c->eof || !read_once(c))
            return;
    }
    if (!c->closed)
        sw_loop_defer(c->worker->loop, &c->defer, on_go);
}

static void connect_step(struct sw_gw_conn *c)
{
    struct sw_err err = {0};
    int rc = sw_sock_connect_result(c->watch.fd, &err);

    if (rc == SW_EAGAIN)
        return;
    if (rc != SW_OK) {
        fail_now(c, &err);
        return;
    }
    c->connecting = false;
    c->readable = true;
    if (c->tls)
        (void)shake(c, (struct sw_slice){0});
    else
        opened(c);
}

static void linger_step(struct sw_gw_conn *c)
{
    /* What still comes is of no interest, but unread bytes would turn the FIN into a reset. */
    for (int i = 0; i < READS_PER_TURN && c->readable; i++) {
        ssize_t n = sw_sock_read(c->watch.fd, c->worker->rx, READ_BULK);

        if (n == SW_EAGAIN)
            c->readable = false;
        else if (n <= 0)
            c->eof = true;
        if (n <= 0)
            break;
    }
    if (c->failed || (c->eof && sw_gw_conn_unsent(c) == 0))
        sw_gw_conn_close(c, false);
}

void gw_conn_go_on(struct sw_gw_conn *c)
{
    if (c->closed || c->ahead) /* what was read comes first */
        return;
    if (c->lingering) {
        linger_step(c);
        return;
    }
    if (c->connecting)
        connect_step(c);
    if (c->closed || c->connecting)
        return;
    if (c->announce) {
        c->announce = false;
        if (!c->tls)
            opened(c);
        else /* we speak first */
            (void)shake(c, sw_slice("", 0));
        if (c->closed)
            return;
    }
    if (!c->failed) {
        deliver_kept(c);
        open_fresh(c);
        if (!c->closed)
            read_some(c);
        if (!c->closed && !c->opening)
            c->ops->on_batch(c);
    }
    if (c->closed)
        return;
    if (c->lingering)
        linger_step(c);
    else if (c->failed)
        tell_failed(c);
    else if (c->eof && !c->eof_told && !c->paused) {
        c->eof_told = true;
        if (c->opening) {
            struct sw_err err = {0};

            (void)sw_err_set(&err, SW_EOF, "peer closed during the handshake");
            fail_now(c, &err);
        } else {
            c->ops->on_eof(c);
        }
    }
}

static void on_go(struct sw_defer *d)
{
    gw_conn_go_on(SW_CONTAINER_OF(d, struct sw_gw_conn, defer));
}

static void on_event(struct sw_watch *watch, unsigned events)
{
    struct sw_gw_conn *c = SW_CONTAINER_OF(watch, struct sw_gw_conn, watch);
    struct sw_gw_worker *w = c->worker;

    if (events & (SW_READ | SW_HUP))
        c->readable = true;
    if (events & SW_HUP)
        c->hup = true;
    if ((events & SW_WRITE) && !c->connecting && sw_gw_conn_unsent(c))
        gw_conn_write_out(c);
    if (c->readable && gw_conn_may_read_ahead(c))
        gw_conn_read_ahead(c);
    else if (c->readable || c->connecting || c->failed)
        gw_conn_go_on(c);
    if (w->n_soon >= SOON_MAX)
        sw_gw_worker_flush_soon(w);
}

static void on_deadline(struct sw_timer *t);

static void linger_on(struct sw_gw_conn *c, uint64_t ms)
{
    c->linger_unsent = (uint32_t)sw_gw_conn_unsent(c);
    sw_timer_start(c->worker->loop, &c->timer, ms * SW_NS_PER_MS, on_deadline);
}

/* The peer has its time once all is sent; until then it may be slow, but not still. */
static void linger_late(struct sw_gw_conn *c)
{
    size_t unsent = sw_gw_conn_unsent(c);

    if (unsent != c->linger_unsent)
        c->linger_s = 0;
    if (unsent == 0 && c->linger_unsent && !c->eof)
        linger_on(c, c->linger_ms ? c->linger_ms : LINGER_MS);
    else if (unsent && c->linger_s++ < STUCK_MS / LINGER_MS)
        linger_on(c, LINGER_MS);
    else
        sw_gw_conn_close(c, unsent > 0); /* what is cut must not look complete */
}

static void on_deadline(struct sw_timer *t)
{
    struct sw_gw_conn *c = SW_CONTAINER_OF(t, struct sw_gw_conn, timer);
    struct sw_err err = {0};

    if (c->lingering) {
        linger_late(c);
        return;
    }
    (void)sw_err_set(&err, SW_ETIME, c->connecting ? "connect timed out" : "handshake timed out");
    fail_now(c, &err);
}

/* ---- life ---- */

static int set_up(struct sw_gw_conn *c, struct sw_gw_worker *w, int fd, struct sw_tls *tls,
                  uint64_t open_ns, const struct sw_gw_conn_ops *ops, struct sw_err *err)
{
    int rc;

    memset(c, 0, sizeof(*c));
    c->worker = w;
    c->ops = ops;
    rc = sw_watch_start(w->loop, &c->watch, fd, on_event, err);
    if (rc != SW_OK) {
        sw_sock_close(fd);
        sw_tls_free(tls);
        return rc;
    }
    c->tls = tls;
    sw_list_init(&c->dirty);
    c->opening = tls != NULL;
    if (open_ns && tls)
        sw_timer_start(w->loop, &c->timer, open_ns, on_deadline);
    return SW_OK;
}

int sw_gw_conn_init(struct sw_gw_conn *c, struct sw_gw_worker *w, int fd, struct sw_tls *tls,
                    struct sw_slice pre, uint64_t open_ns, const struct sw_gw_conn_ops *ops,
                    struct sw_err *err)
{
    int rc = set_up(c, w, fd, tls, open_ns, ops, err);

    if (rc != SW_OK)
        return rc;
    c->readable = true;
    if (tls && pre.n) {
        gw_bytes_append(&c->raw, pre.p, pre.n);
        c->raw_fresh = true;
    } else {
        gw_bytes_append(&c->in, pre.p, pre.n);
    }
    sw_loop_defer(w->loop, &c->defer, on_go);
    return SW_OK;
}

int sw_gw_conn_dial(struct sw_gw_conn *c, struct sw_gw_worker *w, const struct sw_addr *to,
                    const struct sw_sock_opts *o, struct sw_tls *tls, uint64_t open_ns,
                    const struct sw_gw_conn_ops *ops, struct sw_err *err)
{
    int fd;
    int rc = sw_sock_connect(to, NULL, o, &fd, err);

    if (rc != SW_OK) {
        sw_tls_free(tls);
        return rc;
    }
    sw_sock_tune(fd, o);
    rc = set_up(c, w, fd, tls, 0, ops, err);
    if (rc != SW_OK)
        return rc;
    c->connecting = true;
    c->opening = true;
    if (open_ns)
        sw_timer_start(w->loop, &c->timer, open_ns, on_deadline);
    return SW_OK;
}

void sw_gw_conn_announce(struct sw_gw_conn *c)
{
    c->announce = true;
    c->opening = true;
    sw_loop_defer(c->worker->loop, &c->defer, on_go);
}

void sw_gw_conn_set_ops(struct sw_gw_conn *c, const struct sw_gw_conn_ops *ops)
{
    c->ops = ops;
    sw_gw_conn_resume(c);
}

void sw_gw_conn_pause(struct sw_gw_conn *c)
{
    c->paused = true;
}

void sw_gw_conn_resume(struct sw_gw_conn *c)
{
    c->paused = false;
    if (!c->closed && (c->in.n || c->readable || (c->eof && !c->eof_told)))
        sw_loop_defer(c->worker->loop, &c->defer, on_go);
}

void sw_gw_conn_resume_batch(struct sw_gw_conn *c)
{
    if (!c->closed)
        sw_loop_defer(c->worker->loop, &c->defer, on_go);
}

static void on_free(struct sw_defer *d)
{
    struct sw_gw_conn *c = SW_CONTAINER_OF(d, struct sw_gw_conn, defer);

    c->ops->on_free(c);
}

/* Everything but the descriptor. */
static void let_go(struct sw_gw_conn *c)
{
    c->closed = true;
    if (c->ahead)
        gw_conn_forget_ahead(c);
    sw_timer_stop(c->worker->loop, &c->timer);
    gw_conn_drop_stage(c);
    gw_bytes_free(&c->in);
    gw_bytes_free(&c->raw);
    gw_bytes_free(&c->out);
    sw_tls_free(c->tls);
    c->tls = NULL;
    sw_defer_cancel(&c->defer);
    sw_loop_defer(c->worker->loop, &c->defer, on_free);
}

void sw_gw_conn_close(struct sw_gw_conn *c, bool reset)
{
    int fd = c->watch.fd;

    if (c->closed)
        return;
    sw_watch_stop(&c->watch);
    if (reset)
        sw_sock_set_reset(fd);
    sw_sock_close(fd);
    let_go(c);
}

int sw_gw_conn_take_fd(struct sw_gw_conn *c)
{
    int fd = c->watch.fd;

    if (c->closed || c->failed || c->tls || c->opening || c->ahead || c->stage_n || c->in.n ||
        c->out.n)
        return -1;
    sw_watch_stop(&c->watch);
    let_go(c);
    return fd;
}

void sw_gw_conn_close_flushed(struct sw_gw_conn *c)
{
    if (c->closed || c->lingering)
        return;
    if (c->failed || c->connecting) {
        sw_gw_conn_close(c, false);
        return;
    }
    sw_gw_conn_shutdown(c);
    gw_bytes_free(&c->in);
    c->lingering = true;
    c->paused = false;
    linger_on(c, c->linger_ms ? c->linger_ms : LINGER_MS);
    sw_loop_defer(c->worker->loop, &c->defer, on_go);
}
