/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending. Output collects in chunks; a flush writes them with one call, through the filter if
 * there is one. What the socket does not take stays: plain in the chunks, sealed in 'out'.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "io/conn/conn_int.h"
#include "io/sock.h"

enum {
    IOV = 16,
    FLUSH_AT = 16 * 1024,        /* output collected before it is written */
    DEFERRED_FLUSH_AT = 2 << 20, /* the same for 'lazy': more than a turn brings */
    THROUGH = 4096,              /* pieces from here on are not copied */
};

size_t sw_conn_unsent(const struct sw_conn *c)
{
    return c->queued + sw_conn_bytes_len(c->out);
}

size_t sw_conn_loop_queued(const struct sw_loop *l)
{
    struct sw_loop_local *local = sw_loop_local(l);

    return local ? SW_CONTAINER_OF(local, struct sw_conn_shared, local)->queued : 0;
}

static void add_queued(struct sw_conn *c, size_t n)
{
    c->queued += (uint32_t)n;
    c->shared->queued += n;
}

static void pop_chunk(struct sw_conn *c)
{
    struct sw_conn_chunk *k = c->chunks.head;

    c->marks -= k->marks;
    c->chunks.head = k->next;
    if (!c->chunks.head)
        c->chunks.tail = NULL;
    io_chunk_put(c->shared, k);
}

void io_conn_consume(struct sw_conn *c, size_t n)
{
    c->queued -= (uint32_t)n;
    c->shared->queued -= n;
    while (c->chunks.head) {
        struct sw_conn_chunk *k = c->chunks.head;
        size_t part = sw_min(n, k->n - k->off);

        k->off += (uint32_t)part;
        n -= part;
        if (k->off < k->n)
            return;
        pop_chunk(c);
    }
}

void io_conn_drop_output(struct sw_conn *c)
{
    if (c->shared) /* of a connection that is detached it was taken off already */
        c->shared->queued -= c->queued;
    c->queued = 0;
    while (c->chunks.head)
        pop_chunk(c);
    sw_conn_bytes_free(&c->out);
}

/* ---- writing ---- */

size_t io_conn_wrote(struct sw_conn *c, ssize_t got, size_t n)
{
    /* A part: the socket is full, and an event follows when it is not. */
    c->full = got < (ssize_t)n;
    c->wrote |= got > 0;
    if (got >= 0)
        return (size_t)got;
    if (got != SW_EAGAIN && !c->cut) {
        /* What the peer sent before it closed may be there still: an early refusal. */
        c->cut = true;
        c->failure.rc = SW_ECLOSED;
        c->failure.sys_errno = got == SW_ECLOSED ? 0 : (int16_t)errno;
        c->readable = true;
        io_conn_drop_output(c);
        io_conn_go_later(c);
    }
    return 0;
}

/* True: all of it left. */
static bool write_sealed(struct sw_conn *c)
{
    while (c->out && !c->full) {
        size_t n = sw_conn_bytes_len(c->out);

        n = io_conn_wrote(c, sw_sock_write(c->watch.fd, c->out->b + c->out->off, n), n);
        sw_conn_bytes_consume(&c->out, n);
    }
    return !c->out && !c->cut;
}

void io_conn_write_raw(struct sw_conn *c, const void *p, size_t n)
{
    size_t done = 0;

    if (n == 0 || c->closed || c->cut)
        return;
    if (!c->out && !c->full)
        done = io_conn_wrote(c, sw_sock_write(c->watch.fd, p, n), n);
    if (!c->cut)
        sw_conn_bytes_append(&c->out, (const uint8_t *)p + done, n - done);
}

/* Writes chunks and the data behind them. Returns how much of data was taken. */
static size_t write_chunks(struct sw_conn *c, struct sw_slice data)
{
    __attribute__((uninitialized)) struct iovec iov[IOV + 1];
    size_t chunks = 0;
    int count = 0;
    size_t n;

    for (struct sw_conn_chunk *k = c->chunks.head; k && count < IOV; k = k->next) {
        iov[count++] = (struct iovec){.iov_base = k->b + k->off, .iov_len = k->n - k->off};
        chunks += k->n - k->off;
    }
    if (chunks < c->queued)
        data.n = 0;
    if (data.n) {
        memcpy(&iov[count].iov_base, &data.p, sizeof(data.p));
        iov[count++].iov_len = data.n;
    }
    n = io_conn_wrote(c,
                      count == 1 ? sw_sock_write(c->watch.fd, iov[0].iov_base, iov[0].iov_len)
                                 : sw_sock_writev(c->watch.fd, iov, count),
                      chunks + data.n);
    if (n)
        io_conn_consume(c, sw_min(n, chunks));
    return n > chunks ? n - chunks : 0;
}

/* Seals and writes what one write should carry: chunks and the data behind them, in place. Returns
 * how much of data was taken. */
static size_t seal_some(struct sw_conn *c, struct sw_slice data)
{
    uint8_t *tx = io_conn_tx(c->shared);
    size_t max = c->filter->ops->max_plain(c->filter);
    size_t done = 0;
    size_t at = 0;
    uint8_t *p;

    memcpy(&p, &data.p, sizeof(p)); /* writable: see sw_conn_send */
    for (int i = 0; i < IO_TX_RECORDS && c->queued + data.n - done; i++) {
        struct sw_conn_chunk *k = c->queued ? c->chunks.head : NULL;
        size_t part = sw_min(k ? k->n - k->off : data.n - done, max);

        at += c->filter->ops->seal(c->filter, k ? k->b + k->off : p + done, part, tx + at);
        if (k)
            io_conn_consume(c, part);
        else
            done += part;
    }
    io_conn_write_raw(c, tx, at);
    return done;
}

static size_t write_some(struct sw_conn *c, struct sw_slice data)
{
    return c->filter ? seal_some(c, data) : write_chunks(c, data);
}

/* Writes what waits, as far as the socket takes it. */
static void write_out(struct sw_conn *c)
{
    if (!write_sealed(c) || c->opening)
        return;
    while (c->queued && !c->full && !c->cut)
        (void)write_some(c, (struct sw_slice){0});
}

static void finish_shutdown(struct sw_conn *c)
{
    if (!c->shut_wanted || c->shut || sw_conn_unsent(c))
        return;
    if (c->filter && !c->opening && !c->cut) {
        uint8_t ctrl[SW_FILTER_CTRL_ROOM];

        io_conn_write_raw(c, ctrl, c->filter->ops->close_notify(c->filter, ctrl));
        if (c->out)
            return; /* come again: close_notify has nothing to add then */
    }
    c->shut = true;
    sw_sock_shutdown_write(c->watch.fd);
}

/* Output that waits keeps a timer going, which starts anew with each progress. */
static void watch_stall(struct sw_conn *c, bool progress)
{
    if (c->opening)
        return;
    if (c->lingering) {
        if (c->shut || !progress)
            return;
        io_conn_arm(c, c->stall_ms ? c->stall_ms : SW_CONN_STUCK_MS);
    } else if (sw_conn_unsent(c) == 0) {
        io_conn_arm(c, 0);
    } else if (c->stall_ms && (progress || !sw_timer_running(&c->timer))) {
        io_conn_arm(c, c->stall_ms);
    }
}

void io_conn_settle(struct sw_conn *c, size_t before)
{
    size_t unsent = sw_conn_unsent(c);

    /* What was put while the socket took nothing counts, too. */
    if (sw_max(before, unsent) >= SW_CONN_HIGH)
        c->was_high = true;
    if (unsent > c->out_max)
        io_conn_fail(c, SW_ELIMIT, 0);
    if (unsent == 0) {
        bool was_shut = c->shut;

        finish_shutdown(c);
        if (c->lingering && c->shut && !was_shut)
            io_conn_arm(c, c->linger_ms);
        if (c->was_high || c->lingering)
            io_conn_go_later(c);
    }
    watch_stall(c, unsent < before);
}

void io_conn_flush(struct sw_conn *c)
{
    size_t before = sw_conn_unsent(c);

    sw_list_unlink(&c->dirty);
    if (c->closed || c->connecting || c->failed || c->cut)
        return;
    write_out(c);
    if (!io_conn_is_settled(c, before))
        io_conn_settle(c, before);
}

static void on_flush(struct sw_defer *d)
{
    struct sw_conn_shared *s = SW_CONTAINER_OF(d, struct sw_conn_shared, flush);
    struct sw_conn *c;

    if (s->batch)
        io_batch_flush_all(s->batch);
    while ((c = SW_LIST_POP(&s->dirty, struct sw_conn, dirty)))
        io_conn_flush(c);
}

void io_conn_mark_dirty(struct sw_conn *c)
{
    if (c->full || c->opening || sw_list_linked(&c->dirty))
        return;
    sw_list_push_back(&c->shared->dirty, &c->dirty);
    sw_loop_defer(c->shared->loop, &c->shared->flush, on_flush);
}

/* ---- for owners ---- */

static bool takes_output(const struct sw_conn *c)
{
    return !c->closed && !c->failed && !c->cut && !c->shut_wanted;
}

uint8_t *sw_conn_room(struct sw_conn *c, size_t n)
{
    assert(n <= SW_CONN_ROOM_MAX && c->shared && !c->closed);
    if (!c->chunks.tail || c->chunks.tail->cap - c->chunks.tail->n < n) {
        /* Where much is collected, fewer and larger pieces. */
        struct sw_conn_chunk *k =
            io_chunk_get(c->shared, c->deferred_output && c->chunks.tail ? SW_CONN_ROOM_MAX : n);

        if (c->chunks.tail)
            c->chunks.tail->next = k;
        else
            c->chunks.head = k;
        c->chunks.tail = k;
    }
    return c->chunks.tail->b + c->chunks.tail->n;
}

void sw_conn_commit(struct sw_conn *c, size_t n)
{
    c->chunks.tail->n += (uint32_t)n;
    add_queued(c, n);
    if (sw_list_linked(&c->dirty) && c->queued < FLUSH_AT && c->queued <= c->out_max)
        return;
    if (!c->full && !c->opening && c->queued >= (c->deferred_output ? DEFERRED_FLUSH_AT : FLUSH_AT))
        io_conn_flush(c);
    else if (c->queued > c->out_max)
        io_conn_fail(c, SW_ELIMIT, 0);
    else
        io_conn_mark_dirty(c);
}

void sw_conn_mark(struct sw_conn *c)
{
    c->chunks.tail->marks++;
    c->marks++;
}

void sw_conn_put(struct sw_conn *c, const void *p, size_t n)
{
    const uint8_t *from = p;

    while (n && takes_output(c)) {
        uint8_t *to = sw_conn_room(c, 1);
        size_t k = sw_min(n, c->chunks.tail->cap - c->chunks.tail->n);

        memcpy(to, from, k);
        sw_conn_commit(c, k);
        from += k;
        n -= k;
    }
}

void sw_conn_send(struct sw_conn *c, struct sw_slice data)
{
    size_t before = sw_conn_unsent(c);
    size_t done = 0;

    if (data.n < THROUGH || !takes_output(c)) {
        sw_conn_put(c, data.p, data.n);
        return;
    }
    sw_list_unlink(&c->dirty);
    while (done < data.n && !c->full && !c->opening && !c->cut)
        done += write_some(c, sw_slice_from(data, done));
    sw_conn_put(c, data.p + done, data.n - done);
    if (!io_conn_is_settled(c, before))
        io_conn_settle(c, before);
}

/* The filter seals in place, and this is not our memory. */
static size_t write_filtered(struct sw_conn *c, struct sw_slice data)
{
    size_t done = 0;

    while (done < data.n && takes_output(c) && !c->full) {
        size_t n = sw_min(data.n - done, FLUSH_AT);

        sw_conn_put(c, data.p + done, n);
        done += n;
    }
    return done;
}

size_t sw_conn_write(struct sw_conn *c, struct sw_slice data)
{
    size_t done = 0;

    if (data.n == 0 || !takes_output(c))
        return data.n; /* without a reader: on_fail comes, or the owner closed */
    if (!c->full && !c->opening) {
        if (data.n < THROUGH) {
            sw_conn_put(c, data.p, data.n);
            return data.n;
        }
        if (c->filter) {
            done = write_filtered(c, data);
        } else {
            size_t before = c->queued;

            while (done < data.n && !c->full && !c->cut)
                done += write_chunks(c, sw_slice_from(data, done));
            io_conn_settle(c, before);
        }
    }
    if (done < data.n)
        c->was_high = true; /* on_drained */
    return done;
}

bool sw_conn_flush(struct sw_conn *c)
{
    if (!c->opening && !c->full && sw_conn_unsent(c))
        io_conn_flush(c);
    if (sw_conn_unsent(c) == 0)
        return true;
    c->was_high = true; /* on_drained */
    return false;
}

void sw_conn_shutdown(struct sw_conn *c)
{
    if (c->closed || c->shut_wanted)
        return;
    c->shut_wanted = true;
    if (!c->opening)
        io_conn_flush(c);
}
