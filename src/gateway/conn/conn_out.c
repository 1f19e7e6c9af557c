/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending: small pieces collect in a stage, a chunk lent by the worker; large ones are written
 * through behind it with the same call. What the socket does not take is kept in 'out'.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "gateway/conn/conn.h"
#include "gateway/conn/conn_int.h"
#include "gateway/conn/worker.h"
#include "io/batch.h"
#include "io/sock.h"
#include "tls/tls.h"

enum {
    THROUGH = 4096,    /* pieces from here on are not copied */
    OUT_MAX = 8 << 20, /* a peer that takes nothing, and a source that does not listen */
    APART = 1360,      /* chunks used together begin at different places of a page */
    SEAL_ROOM = SW_TLS_SEAL_ROOM(SW_TLS_PLAIN_MAX) + 1024,
};

static uint8_t *chunk_get(struct sw_gw_worker *w)
{
    if (w->chunks.n)
        return w->chunks.p[--w->chunks.n];
    return sw_malloc(SW_GW_CHUNK + APART);
}

static void chunk_put(struct sw_gw_worker *w, uint8_t *p)
{
    if (w->chunks.n < SW_GW_SPARE_CHUNKS)
        sw_vec_push(&w->chunks, p);
    else
        sw_free(p);
}

void gw_conn_drop_stage(struct sw_gw_conn *c)
{
    sw_list_unlink(&c->dirty);
    if (c->stage)
        chunk_put(c->worker, c->stage);
    c->stage = NULL;
    c->stage_n = 0;
}

static void keep_out(struct sw_gw_conn *c, const void *p, size_t n)
{
    if (n == 0 || c->failed || c->closed)
        return;
    if (sw_gw_conn_unsent(c) + n > OUT_MAX) {
        gw_conn_fail(c, SW_ELIMIT, 0);
        return;
    }
    gw_bytes_append(&c->out, p, n);
    if (sw_gw_conn_blocked(c))
        c->was_high = true;
}

/* What became of writing the pieces: the rest is kept. */
static void wrote(struct sw_gw_conn *c, const struct iovec *iov, int count, ssize_t n)
{
    size_t done;

    if (n < 0 && n != SW_EAGAIN) {
        gw_conn_fail(c, SW_ECLOSED, n == SW_ECLOSED ? 0 : errno);
        return;
    }
    done = n > 0 ? (size_t)n : 0;
    c->wrote |= n > 0;
    for (int i = 0; i < count; i++) {
        size_t k = sw_min(done, iov[i].iov_len);

        done -= k;
        if (k < iov[i].iov_len)
            keep_out(c, (const uint8_t *)iov[i].iov_base + k, iov[i].iov_len - k);
    }
}

/* Writes the pieces in order; what is left over is kept. Nothing may wait in 'out'. */
static void write_pieces(struct sw_gw_conn *c, struct iovec *iov, int count)
{
    ssize_t n;

    if (c->failed)
        return;
    n = count == 1 ? sw_sock_write(c->watch.fd, iov[0].iov_base, iov[0].iov_len)
                   : sw_sock_writev(c->watch.fd, iov, count);
    wrote(c, iov, count, n);
}

void gw_conn_write_raw(struct sw_gw_conn *c, struct sw_slice bytes)
{
    struct iovec iov = {.iov_len = bytes.n};

    memcpy(&iov.iov_base, &bytes.p, sizeof(iov.iov_base));
    if (bytes.n == 0 || c->closed)
        return;
    if (sw_gw_conn_unsent(c))
        keep_out(c, bytes.p, bytes.n);
    else
        write_pieces(c, &iov, 1);
}

/* ---- sealing ---- */

static void tx_write(struct sw_gw_conn *c, size_t *n)
{
    if (*n)
        gw_conn_write_raw(c, sw_slice(c->worker->tx, *n));
    *n = 0;
}

/* Seals into the worker's buffer behind *at, writing when it is full. */
static void seal(struct sw_gw_conn *c, uint8_t *p, size_t n, size_t *at)
{
    size_t max = sw_tls_max_plain(c->tls);

    while (n && !c->failed) {
        size_t k = sw_min(n, max);

        if (SW_GW_TX - *at < SEAL_ROOM)
            tx_write(c, at);
        *at += sw_tls_seal(c->tls, p, k, c->worker->tx + *at);
        p += k;
        n -= k;
    }
}

static void flush_tls(struct sw_gw_conn *c, struct sw_slice data)
{
    size_t at = 0;
    uint8_t *p;

    memcpy(&p, &data.p, sizeof(p)); /* ours to write to: see on_bytes */
    seal(c, c->stage, c->stage_n, &at);
    seal(c, p, data.n, &at);
    tx_write(c, &at);
}

static void flush_plain(struct sw_gw_conn *c, struct sw_slice data)
{
    struct iovec iov[2];
    int count = 0;

    if (sw_gw_conn_unsent(c)) {
        keep_out(c, c->stage, c->stage_n);
        keep_out(c, data.p, data.n);
        return;
    }
    if (c->stage_n)
        iov[count++] = (struct iovec){.iov_base = c->stage, .iov_len = c->stage_n};
    if (data.n) {
        memcpy(&iov[count].iov_base, &data.p, sizeof(data.p));
        iov[count++].iov_len = data.n;
    }
    if (count)
        write_pieces(c, iov, count);
}

static void flush_with(struct sw_gw_conn *c, struct sw_slice data)
{
    if (c->closed || c->opening) /* nothing is put before it is open */
        return;
    if (c->stage_n + data.n) {
        if (c->tls)
            flush_tls(c, data);
        else
            flush_plain(c, data);
    }
    gw_conn_drop_stage(c);
}

/* ---- for owners ---- */

uint8_t *sw_gw_conn_room(struct sw_gw_conn *c, size_t n)
{
    assert(n <= SW_GW_CHUNK);
    if (c->stage && SW_GW_CHUNK - c->stage_n < n)
        flush_with(c, (struct sw_slice){0});
    if (!c->stage) {
        c->stage = chunk_get(c->worker);
        c->stage_n = 0;
    }
    return c->stage + c->stage_n;
}

void sw_gw_conn_commit(struct sw_gw_conn *c, size_t n)
{
    c->stage_n += (uint32_t)n;
    if (n && !sw_list_linked(&c->dirty))
        gw_conn_dirty(c);
}

void sw_gw_conn_put(struct sw_gw_conn *c, const void *p, size_t n)
{
    const uint8_t *from = p;

    if (c->closed || c->failed || c->shut || c->shut_wanted)
        return;
    while (n) {
        uint8_t *to = sw_gw_conn_room(c, 1);
        size_t k = sw_min(n, SW_GW_CHUNK - c->stage_n);

        memcpy(to, from, k);
        sw_gw_conn_commit(c, k);
        from += k;
        n -= k;
    }
}

void sw_gw_conn_send(struct sw_gw_conn *c, struct sw_slice data)
{
    if (data.n < THROUGH) {
        sw_gw_conn_put(c, data.p, data.n);
        return;
    }
    if (c->closed || c->failed || c->shut || c->shut_wanted)
        return;
    flush_with(c, data);
}

static void finish_shutdown(struct sw_gw_conn *c)
{
    if (c->shut || sw_gw_conn_unsent(c))
        return;
    if (c->tls && !c->failed) {
        uint8_t ctrl[SW_TLS_CTRL_ROOM];

        c->shut = true;
        gw_conn_write_raw(c, sw_slice(ctrl, sw_tls_close_notify(c->tls, ctrl, sizeof(ctrl))));
        if (sw_gw_conn_unsent(c)) {
            c->shut = false; /* the notice waits: come again */
            return;
        }
    }
    c->shut = true;
    sw_sock_shutdown_write(c->watch.fd);
}

void sw_gw_conn_flush(struct sw_gw_conn *c)
{
    flush_with(c, (struct sw_slice){0});
}

/* ---- many at once ---- */

/* Writes queued in the worker's batch: whose, and what. */
struct flight {
    struct sw_gw_worker *worker;
    size_t sealed; /* bytes of worker->tx in use */
    unsigned n;
    struct sw_gw_conn *who[SW_GW_BATCH];
    struct iovec what[SW_GW_BATCH];
};

static void land(struct flight *f)
{
    const struct sw_batch_result *r = f->n ? sw_batch_run(f->worker->batch) : NULL;

    for (unsigned i = 0; i < f->n; i++) {
        struct sw_gw_conn *c = f->who[i];

        if (r[i].n != (ssize_t)f->what[i].iov_len) {
            errno = r[i].sys_errno;
            wrote(c, &f->what[i], 1, r[i].n);
        }
        c->wrote |= r[i].n > 0;
        gw_conn_drop_stage(c);
    }
    f->n = 0;
    f->sealed = 0;
}

/* Nothing special: a stage that fits one record, if any, and goes out as it is. */
static bool may_board(const struct sw_gw_conn *c)
{
    return !c->opening && !c->failed && !c->closed && c->stage_n && !sw_gw_conn_unsent(c) &&
           (!c->tls || c->stage_n <= sw_tls_max_plain(c->tls));
}

static void board(struct flight *f, struct sw_gw_conn *c)
{
    struct iovec *what;

    if (f->n == SW_GW_BATCH || (c->tls && SW_GW_TX - f->sealed < SEAL_ROOM))
        land(f);
    what = &f->what[f->n];
    if (c->tls) {
        size_t from = f->sealed;

        seal(c, c->stage, c->stage_n, &f->sealed);
        what->iov_base = f->worker->tx + from;
        what->iov_len = f->sealed - from;
    } else {
        what->iov_base = c->stage;
        what->iov_len = c->stage_n;
    }
    (void)sw_batch_write(f->worker->batch, c->watch.fd, what->iov_base, what->iov_len);
    f->who[f->n++] = c;
}

void gw_conn_flush_list(struct sw_gw_worker *w, struct sw_list *list)
{
    __attribute__((uninitialized)) struct flight f; /* 1.5 kB */
    struct sw_list *m;

    f.worker = w;
    f.n = 0;
    f.sealed = 0;
    while ((m = sw_list_pop_front(list)) != NULL) {
        struct sw_gw_conn *c = SW_CONTAINER_OF(m, struct sw_gw_conn, dirty);

        if (may_board(c)) {
            board(&f, c);
        } else {
            land(&f); /* it may seal, too */
            sw_gw_conn_flush(c);
        }
    }
    land(&f);
}

void gw_conn_write_out(struct sw_gw_conn *c)
{
    while (sw_gw_conn_unsent(c)) {
        ssize_t n = sw_sock_write(c->watch.fd, c->out.p + c->out.off, sw_gw_conn_unsent(c));

        if (n == SW_EAGAIN)
            return;
        if (n < 0) {
            gw_conn_fail(c, SW_ECLOSED, n == SW_ECLOSED ? 0 : errno);
            return;
        }
        c->wrote = true;
        gw_bytes_consume(&c->out, (size_t)n);
    }
    if (c->shut_wanted)
        finish_shutdown(c);
    if (c->was_high) {
        c->was_high = false;
        if (!c->lingering)
            c->ops->on_drained(c);
    }
}

void sw_gw_conn_shutdown(struct sw_gw_conn *c)
{
    if (c->closed || c->shut || c->shut_wanted)
        return;
    flush_with(c, (struct sw_slice){0});
    c->shut_wanted = true;
    finish_shutdown(c);
}
