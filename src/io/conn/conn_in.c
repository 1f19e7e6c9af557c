/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving. Bytes are read into the loop's memory, records are opened there too, and the owner
 * sees them where they lie; only what it does not use is copied.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "io/conn/conn_int.h"
#include "io/sock.h"

/* ---- delivering ---- */

/* Offers p[0..n) until the owner has enough; returns how many bytes were used. */
static size_t offer(struct sw_conn *c, const uint8_t *p, size_t n)
{
    size_t at = 0;

    while (at < n && io_conn_wants_bytes(c)) {
        size_t used = c->ops->on_bytes(c, sw_slice(p + at, n - at));

        assert(used <= n - at);
        at += used;
        if (used == 0)
            break;
    }
    return at;
}

static void offer_kept(struct sw_conn *c)
{
    struct sw_conn_bytes *b = c->in;
    size_t used;

    if (!b || !io_conn_wants_bytes(c))
        return;
    c->reading.offer = false;
    c->in = NULL;
    used = offer(c, b->b + b->off, b->n - b->off);
    if (c->closed || c->lingering) {
        sw_free(b);
        return;
    }
    c->in = b;
    sw_conn_bytes_consume(&c->in, used);
}

static void deliver(struct sw_conn *c, const uint8_t *p, size_t n)
{
    size_t used;

    if (n == 0 || c->closed || c->lingering)
        return;
    if (c->in) {
        sw_conn_bytes_append(&c->in, p, n);
        offer_kept(c);
        return;
    }
    used = offer(c, p, n);
    if (used < n && !c->closed && !c->lingering)
        sw_conn_bytes_append(&c->in, p + used, n - used);
}

/* ---- the filter ---- */

ssize_t io_conn_shake(struct sw_conn *c, struct sw_slice in)
{
    struct sw_err err = {0};
    SW_BUF_AUTO out;
    size_t used = 0;
    int rc;

    sw_buf_init(&out, SW_FILTER_HANDSHAKE_MAX);
    rc = c->filter->ops->handshake(c->filter, in, &used, &out, &err);
    io_conn_write_raw(c, sw_buf_data(&out), sw_buf_len(&out));
    if (rc == SW_OK) {
        io_conn_opened(c);
    } else if (rc != SW_EAGAIN) {
        io_conn_fail_now(c, &err);
        return rc;
    }
    return (ssize_t)used;
}

static void refuse_record(struct sw_conn *c, const struct sw_err *err)
{
    uint8_t alert[SW_FILTER_CTRL_ROOM];

    io_conn_write_raw(c, alert, c->filter->ops->alert(c->filter, err, alert));
    io_conn_fail_now(c, err);
}

/*
 * Opens the records at buf[from..n). Their content is delivered one by one, or (join) moved
 * together behind buf[0..to) and delivered with that. The start of an incomplete one is kept.
 */
static void open_records(struct sw_conn *c, uint8_t *buf, size_t to, size_t from, size_t n)
{
    uint8_t ctrl[SW_FILTER_CTRL_ROOM];

    if (c->opening) {
        ssize_t used = io_conn_shake(c, sw_slice(buf + from, n - from));

        if (used < 0)
            return;
        from += (size_t)used;
    }
    while (!c->opening && from < n && !c->closed && !c->lingering) {
        struct sw_err err = {0};
        struct sw_slice plain = {0};
        size_t used = 0;
        int rc = c->filter->ops->open(c->filter, buf + from, n - from, &used, &plain, &err);

        if (rc == SW_EAGAIN)
            break;
        from += used;
        if (rc == SW_EOF) {
            c->eof = true;
            from = n;
        } else if (rc != SW_OK) {
            refuse_record(c, &err);
            return;
        } else if (!c->join) {
            deliver(c, (const uint8_t *)plain.p, plain.n);
        } else if (plain.n) {
            memmove(buf + to, plain.p, plain.n);
            to += plain.n;
        }
    }
    if (c->closed || c->lingering)
        return;
    sw_conn_bytes_append(&c->raw, buf + from, n - from);
    if (!c->opening)
        io_conn_write_raw(c, ctrl, c->filter->ops->control(c->filter, ctrl));
    deliver(c, buf, to);
}

/* ---- reading ---- */

/*
 * Unix sockets know no reset: a break looks like an end, and cuts an answer that lasts until the
 * end. A peer that ends its side first, and closes after ours, broke off when it is just gone.
 */
static bool broke_off(const struct sw_conn *c)
{
    return c->ends_first && !c->opening && !c->shut && sw_sock_hung_up(c->watch.fd);
}

static void note_end(struct sw_conn *c, ssize_t n, int sys_errno)
{
    c->readable = false;
    if (n == SW_EOF && broke_off(c)) {
        io_conn_fail(c, SW_ECLOSED, ECONNRESET);
    } else if (n == SW_EOF) {
        c->eof = true;
        c->truncated = c->filter || c->cut;
    } else if (n != SW_EAGAIN) {
        io_conn_fail(c, SW_ECLOSED, n == SW_ECLOSED ? 0 : sys_errno);
    }
}

static size_t take(struct sw_conn_bytes **b, uint8_t *to)
{
    size_t n = sw_conn_bytes_len(*b);

    if (n)
        memcpy(to, (*b)->b + (*b)->off, n);
    sw_conn_bytes_free(b);
    return n;
}

/* One read of up to 'room' bytes and its delivery. Returns bytes off the socket. */
static size_t read_once(struct sw_conn *c, size_t room)
{
    uint8_t *buf = c->shared->rx + SW_CONN_HEADROOM;
    size_t kept = sw_conn_bytes_len(c->in);
    bool merge = (!c->filter || c->join) && kept <= IO_RX_KEPT - SW_FILTER_RECORD_MAX;
    size_t front = merge ? kept : 0;
    size_t at = front + sw_conn_bytes_len(c->raw);
    ssize_t n = sw_sock_read(c->watch.fd, buf + at, room);

    if (n <= 0) {
        note_end(c, n, errno);
        return 0;
    }
    c->reading.bulk = (size_t)n == room;
    c->reading.wide = n > IO_AHEAD_BYTES;
    c->readable = c->reading.bulk || c->hup;
    if (front)
        (void)take(&c->in, buf);
    (void)take(&c->raw, buf + front);
    if (c->filter)
        open_records(c, buf, front, front, at + (size_t)n);
    else
        deliver(c, buf, at + (size_t)n);
    return (size_t)n;
}

size_t io_conn_took(struct sw_conn *c, const uint8_t *buf, ssize_t n, int sys_errno)
{
    if (n <= 0) {
        note_end(c, n, sys_errno);
        return 0;
    }
    c->reading.wide = n == IO_AHEAD_BYTES;
    c->readable = c->reading.wide || c->hup;
    deliver(c, buf, (size_t)n);
    return (size_t)n;
}

/* Records that came before the connection was ours. */
static void open_fresh(struct sw_conn *c)
{
    uint8_t *buf = c->shared->rx + SW_CONN_HEADROOM;

    c->reading.fresh = false;
    open_records(c, buf, 0, 0, take(&c->raw, buf));
}

size_t io_conn_receive(struct sw_conn *c)
{
    size_t wire = 0;

    if (c->reading.fresh && !c->paused)
        open_fresh(c);
    if (c->reading.offer)
        offer_kept(c);
    for (int i = 0; i < IO_READS_PER_TURN && io_conn_may_read(c); i++) {
        size_t room = c->reading.bulk ? IO_READ_BULK : IO_READ_SMALL;

        if (c->read_max)
            room = sw_min(room, c->read_max - wire);
        if (room == 0)
            break;
        wire += read_once(c, room);
    }
    if (io_conn_may_read(c))
        io_conn_go_later(c);
    return wire;
}

size_t sw_conn_unused(const struct sw_conn *c)
{
    return sw_conn_bytes_len(c->in);
}
