/* SPDX-License-Identifier: Apache-2.0 */
/* Sending: frames collect in chunks and leave together at the end of the turn. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/rand.h"
#include "base/time.h"
#include "http/ws/wsconn_int.h"
#include "io/sock.h"

enum { IOV = 16 };

static void stalled(struct sw_wsconn *c, bool progress)
{
    if (c->lingering)
        return;
    if (sw_wsconn_unsent(c) == 0)
        sw_timer_stop(c->loop, &c->stall);
    else if (progress || !sw_timer_running(&c->stall))
        sw_timer_start(c->loop, &c->stall, c->stall_ms * SW_NS_PER_MS, ws_on_stalled);
}

/* Bytes the socket took, or a failure that was noted. */
static ssize_t wrote(struct sw_wsconn *c, ssize_t n)
{
    if (n >= 0)
        return n;
    if (n != SW_EAGAIN)
        ws_fail(c, SW_ECLOSED, n == SW_ECLOSED ? 0 : errno);
    return -1;
}

static void chunks_consume(struct sw_wsconn *c, size_t n)
{
    c->out_n -= (uint32_t)n;
    ws_scratch()->queued -= n;
    while (c->head) {
        struct sw_wschunk *k = c->head;
        size_t part = sw_min(n, k->n - k->off);

        k->off += (uint32_t)part;
        n -= part;
        if (k->off < k->n)
            return;
        c->out_frames -= k->frames;
        c->head = k->next;
        if (!c->head)
            c->tail = NULL;
        ws_chunk_put(k);
    }
}

/* True when something left and more is there. */
static bool write_chunks(struct sw_wsconn *c)
{
    struct iovec iov[IOV];
    int count = 0;
    ssize_t n;

    for (struct sw_wschunk *k = c->head; k && count < IOV; k = k->next)
        iov[count++] = (struct iovec){.iov_base = k->b + k->off, .iov_len = k->n - k->off};
    if (count == 0)
        return false;
    n = wrote(c, sw_sock_writev(c->watch.fd, iov, count));
    if (n < 0)
        return false;
    chunks_consume(c, (size_t)n);
    stalled(c, true);
    return c->head != NULL;
}

/* The same through the record layer: what the socket does not take waits sealed. */
static bool seal_chunks(struct sw_wsconn *c)
{
    uint8_t *tx = ws_scratch()->tx;
    size_t max = sw_tls_max_plain(c->tls);
    size_t at = 0;
    ssize_t n;

    for (int i = 0; i < WS_TX_RECORDS && c->head; i++) {
        struct sw_wschunk *k = c->head;
        size_t part = sw_min(k->n - k->off, max);

        at += sw_tls_seal(c->tls, k->b + k->off, part, tx + at);
        chunks_consume(c, part);
    }
    if (at == 0)
        return false;
    n = wrote(c, sw_sock_write(c->watch.fd, tx, at));
    if (n < 0)
        n = 0;
    ws_bytes_append(&c->out, tx + n, at - (size_t)n);
    stalled(c, n > 0);
    return c->head && (size_t)n == at;
}

bool ws_write_raw(struct sw_wsconn *c)
{
    while (c->out.n) {
        ssize_t n =
            wrote(c, sw_sock_write(c->watch.fd, c->out.p + c->out.off, c->out.n - c->out.off));

        if (n < 0) {
            stalled(c, false);
            return false;
        }
        ws_bytes_consume(&c->out, (size_t)n);
        stalled(c, true);
    }
    return true;
}

static void finish_step(struct sw_wsconn *c)
{
    if (!c->lingering || c->shut || sw_wsconn_unsent(c) || c->closed)
        return;
    c->shut = true;
    if (c->tls) {
        uint8_t bye[SW_TLS_CTRL_ROOM];

        (void)sw_sock_write(c->watch.fd, bye, sw_tls_close_notify(c->tls, bye, sizeof(bye)));
    }
    sw_sock_shutdown_write(c->watch.fd);
}

void ws_flush(struct sw_wsconn *c)
{
    c->flush_due = false;
    if (c->closed || c->connecting || c->fail_rc)
        return;
    if (!ws_write_raw(c))
        return;
    if (!c->opening) {
        while (c->tls ? seal_chunks(c) : write_chunks(c))
            continue;
        if (c->head)
            stalled(c, false);
    }
    finish_step(c);
}

static struct sw_wschunk *chunk_for(struct sw_wsconn *c, size_t n)
{
    if (!c->tail || WS_CHUNK - c->tail->n < n) {
        struct sw_wschunk *k = ws_chunk_get();

        if (c->tail)
            c->tail->next = k;
        else
            c->head = k;
        c->tail = k;
    }
    return c->tail;
}

static void added(struct sw_wsconn *c, size_t n)
{
    c->tail->n += (uint32_t)n;
    c->out_n += (uint32_t)n;
    ws_scratch()->queued += n;
    if (!c->flush_due) {
        c->flush_due = true;
        ws_go_later(c);
    }
}

void sw_wsconn_put(struct sw_wsconn *c, const void *p, size_t n)
{
    assert(n <= WS_CHUNK);
    if (c->closed || n == 0)
        return;
    memcpy(chunk_for(c, n)->b + c->tail->n, p, n);
    added(c, n);
}

uint8_t *sw_wsconn_room(struct sw_wsconn *c, enum sw_ws_op op, size_t n, bool data)
{
    uint8_t mask[4];
    struct sw_wschunk *k;
    size_t head;

    assert(n <= SW_WSCONN_FRAME_MAX && !c->closed);
    if (c->ws.client) {
        /* Only so that no cache between us mistakes the bytes for HTTP: any generator will do. */
        uint64_t r = sw_rand_u64();

        memcpy(mask, &r, sizeof(mask));
    }
    k = chunk_for(c, SW_WS_HEAD_MAX + n);
    head = sw_ws_put_head(k->b + k->n, op, n, c->ws.client ? mask : NULL);
    k->frames += data;
    c->out_frames += data;
    added(c, head);
    return k->b + k->n;
}

void sw_wsconn_commit(struct sw_wsconn *c, uint8_t *payload, size_t n)
{
    if (c->ws.client)
        sw_ws_mask(payload, n, payload - 4);
    added(c, n);
}

void sw_wsconn_send(struct sw_wsconn *c, enum sw_ws_op op, const void *p, size_t n)
{
    uint8_t *to;

    if (c->closed)
        return;
    to = sw_wsconn_room(c, op, n, false);
    if (n)
        memcpy(to, p, n);
    sw_wsconn_commit(c, to, n);
}

size_t sw_wsconn_thread_queue(void)
{
    return ws_scratch()->queued;
}
