/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection: opening, what happens next, failing, lingering, closing. Input is in
 * conn_in.c, output in conn_out.c.
 */
#include "gateway/conn/conn.h"

#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "gateway/conn/conn_int.h"
#include "gateway/conn/worker.h"
#include "io/sock.h"
#include "tls/tls.h"

enum {
    LINGER_READ = 256 * 1024,
    LINGER_READS = 4, /* per turn */
    LINGER_MS = 1000,
    STUCK_MS = 60000, /* for a peer that does not read the last bytes sent */
    SOON_MAX = 32,    /* flushed at the latest when so many connections wait */
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

void gw_conn_go_on_later(struct sw_gw_conn *c)
{
    sw_loop_defer(c->worker->loop, &c->defer, on_go);
}

void gw_conn_fail(struct sw_gw_conn *c, int rc, int sys_errno)
{
    if (c->failed || c->closed)
        return;
    c->failed = true;
    c->fail_rc = rc;
    c->fail_errno = sys_errno;
    gw_conn_go_on_later(c);
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

void gw_conn_fail_now(struct sw_gw_conn *c, struct sw_err *err)
{
    if (c->closed)
        return;
    c->failed = true;
    if (c->lingering)
        sw_gw_conn_close(c, false);
    else
        c->ops->on_fail(c, err);
}

/* ---- going on ---- */

void gw_conn_opened(struct sw_gw_conn *c)
{
    c->opening = false;
    sw_timer_stop(c->worker->loop, &c->timer);
    c->ops->on_open(c);
}

static void connect_step(struct sw_gw_conn *c)
{
    struct sw_err err = {0};
    int rc = sw_sock_connect_result(c->watch.fd, &err);

    if (rc == SW_EAGAIN)
        return;
    if (rc != SW_OK) {
        gw_conn_fail_now(c, &err);
        return;
    }
    c->connecting = false;
    c->readable = true;
    if (c->tls)
        (void)gw_conn_shake(c, (struct sw_slice){0});
    else
        gw_conn_opened(c);
}

static void linger_step(struct sw_gw_conn *c)
{
    /* What still comes is of no interest, but unread bytes would turn the FIN into a reset. */
    for (int i = 0; i < LINGER_READS && c->readable; i++) {
        ssize_t n = sw_sock_read(c->watch.fd, c->worker->rx, LINGER_READ);

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
            gw_conn_opened(c);
        else /* we speak first */
            (void)gw_conn_shake(c, sw_slice("", 0));
        if (c->closed)
            return;
    }
    if (!c->failed) {
        gw_conn_deliver_kept(c);
        gw_conn_open_fresh(c);
        if (!c->closed)
            gw_conn_read_some(c);
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
            gw_conn_fail_now(c, &err);
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
        gw_conn_flush_queued(w);
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
    gw_conn_fail_now(c, &err);
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
    gw_conn_go_on_later(c);
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
        gw_conn_go_on_later(c);
}

void sw_gw_conn_resume_batch(struct sw_gw_conn *c)
{
    if (!c->closed)
        gw_conn_go_on_later(c);
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
    gw_conn_go_on_later(c);
}
