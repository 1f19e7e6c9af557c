/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving. One read per wake-up where the bytes fit, straight into the worker's buffer; records
 * are opened there too, and their owner sees the bytes where they lie.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "gateway/conn/conn_int.h"
#include "gateway/conn/worker.h"
#include "io/sock.h"
#include "tls/tls.h"

enum {
    READ_SMALL = 64 * 1024,
    READ_BULK = 256 * 1024,
    READS_PER_TURN = 4,
    IN_MAX = 1 << 20, /* kept for an owner that does not use what it gets */
};

/* ---- delivering ---- */

void gw_conn_deliver_kept(struct sw_gw_conn *c)
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
        gw_conn_deliver_kept(c);
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

ssize_t gw_conn_shake(struct sw_gw_conn *c, struct sw_slice in)
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
        gw_conn_opened(c);
    } else if (rc != SW_EAGAIN) {
        gw_conn_fail_now(c, &err);
        return rc;
    }
    return (ssize_t)used;
}

/* Opens records of buf[0..n); the start of an incomplete one is kept. */
static void open_records(struct sw_gw_conn *c, uint8_t *buf, size_t n)
{
    size_t at = 0;

    if (c->opening) {
        ssize_t used = gw_conn_shake(c, sw_slice(buf, n));

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
            gw_conn_fail_now(c, &err);
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

void gw_conn_open_fresh(struct sw_gw_conn *c)
{
    struct sw_gw_bytes b = c->raw;

    if (!c->raw_fresh)
        return;
    c->raw_fresh = false;
    c->raw = (struct sw_gw_bytes){0};
    open_records(c, b.p + b.off, b.n - b.off);
    gw_bytes_free(&b);
}

void gw_conn_read_some(struct sw_gw_conn *c)
{
    for (int i = 0; i < READS_PER_TURN; i++) {
        if (!c->readable || c->paused || c->closed || c->failed || c->eof || !read_once(c))
            return;
    }
    if (!c->closed)
        gw_conn_go_on_later(c);
}
