/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of a loop that share system calls. Small messages of several plain connections are
 * read first, with one call where that can be had, and delivered then, one after the other: the
 * kernel and our parsing do not chase each other out of the processor's caches. Output is written
 * together likewise, from a flat stack.
 */
#include <errno.h>

#include "base/mem.h"
#include "io/batch.h"
#include "io/conn/conn_int.h"
#include "io/sock.h"

enum {
    BATCH = 64,   /* reads or writes of one system call */
    AHEAD = 32,   /* connections read before any of them is looked at; BATCH at most */
    MANY = 32,    /* flushed at the latest when so many connections wait */
    APART = 1328, /* buffers used together begin at different places of a page */
};

struct ahead {
    struct sw_conn *conn; /* NULL: closed meanwhile */
    ssize_t got;
    int got_errno;
    uint8_t buf[SW_CONN_HEADROOM + IO_AHEAD_BYTES + APART];
};

struct io_batch {
    struct sw_conn_shared *shared;
    struct sw_batch *calls; /* owned; queued and run by one function at a time */
    struct sw_conn_sharing o;
    struct sw_list
        complete; /* connections whose output is complete; the others are in shared->dirty */
    unsigned n_complete;
    struct sw_defer deliver;
    unsigned n;
    struct ahead slots[AHEAD];
};

void sw_conn_share_calls(struct sw_loop *l, const struct sw_conn_sharing *o)
{
    struct sw_conn_shared *s = io_conn_shared(l);
    struct io_batch *b = SW_NEW(struct io_batch);

    b->shared = s;
    b->calls = sw_batch_new(BATCH, o->ring);
    b->o = *o;
    sw_list_init(&b->complete);
    s->batch = b;
}

void io_batch_free(struct io_batch *b)
{
    if (!b)
        return;
    sw_batch_free(b->calls);
    sw_free(b);
}

/* ---- reading ---- */

bool io_batch_may_read(const struct sw_conn *c)
{
    return !c->filter && !c->reading.wide && !c->paused && !c->in && !c->hup && !c->closed &&
           !c->failed && !c->cut && !c->eof && !c->lingering && !c->opening && !c->reading.ahead &&
           !c->read_max && !c->ops->on_ready;
}

/* Reads late: a connection closed since its event must not be read, its fd may be reused. */
static void read_all(struct io_batch *b)
{
    const struct sw_batch_result *r;
    unsigned k = 0;

    for (unsigned i = 0; i < b->n; i++) {
        struct ahead *s = &b->slots[i];

        if (s->conn)
            (void)sw_batch_read(b->calls, s->conn->watch.fd, s->buf + SW_CONN_HEADROOM,
                                IO_AHEAD_BYTES);
    }
    r = sw_batch_run(b->calls);
    for (unsigned i = 0; i < b->n; i++) {
        struct ahead *s = &b->slots[i];

        if (!s->conn)
            continue;
        s->got = r[k].n;
        s->got_errno = r[k++].sys_errno;
    }
}

static void deliver(struct io_batch *b, struct ahead *s)
{
    struct sw_conn *c = s->conn;
    size_t wire = 0;

    if (!c)
        return;
    c->reading.ahead = false;
    if (!c->lingering && !c->failed) {
        b->shared->receiving = true;
        wire = io_conn_took(c, s->buf + SW_CONN_HEADROOM, s->got, s->got_errno);
        b->shared->receiving = false;
    }
    io_conn_step(c, wire);
}

static void flush_soon(struct io_batch *b);

static void deliver_all(struct io_batch *b)
{
    read_all(b);
    for (unsigned i = 0; i < b->n; i++) {
        deliver(b, &b->slots[i]);
        b->o.on_delivered(b->o.of);
    }
    b->n = 0;
    flush_soon(b);
}

static void on_deliver(struct sw_defer *d)
{
    deliver_all(SW_CONTAINER_OF(d, struct io_batch, deliver));
}

void io_batch_read(struct sw_conn *c)
{
    struct io_batch *b = c->shared->batch;
    struct ahead *s = &b->slots[b->n++];

    s->conn = c;
    s->got = SW_EAGAIN;
    c->reading.ahead = true;
    if (b->n == AHEAD)
        deliver_all(b);
    else if (b->n == 1)
        sw_loop_defer_first(b->shared->loop, &b->deliver, on_deliver);
}

void io_batch_forget(const struct sw_conn *c)
{
    struct io_batch *b = c->shared->batch;

    for (unsigned i = 0; i < b->n; i++) {
        if (b->slots[i].conn == c)
            b->slots[i].conn = NULL;
    }
}

bool sw_conn_has_news(const struct sw_conn *c)
{
    const struct io_batch *b = c->shared->batch;
    char first;

    for (unsigned i = 0; c->reading.ahead && i < b->n; i++) {
        if (b->slots[i].conn == c && b->slots[i].got != SW_EAGAIN)
            return true;
    }
    return sw_sock_peek(c->watch.fd, &first, 1) != SW_EAGAIN;
}

/* ---- writing ---- */

/* Writes queued in the batch: whose, and what. */
struct flight {
    struct io_batch *batch;
    uint8_t *tx;   /* NULL until a filter seals */
    size_t sealed; /* bytes of tx in use */
    unsigned n;
    struct sw_conn *who[BATCH];
    struct iovec what[BATCH];
};

/* What became of one write. */
static void landed(struct sw_conn *c, const struct iovec *what, const struct sw_batch_result *r)
{
    size_t done;

    errno = r->sys_errno;
    done = io_conn_wrote(c, r->n, what->iov_len);
    if (c->cut)
        return;
    if (!c->filter)
        io_conn_consume(c, done);
    else if (done < what->iov_len)
        sw_conn_bytes_append(&c->out, (const uint8_t *)what->iov_base + done, what->iov_len - done);
    if (!io_conn_is_settled(c, what->iov_len))
        io_conn_settle(c, what->iov_len);
}

static void land(struct flight *f)
{
    const struct sw_batch_result *r = f->n ? sw_batch_run(f->batch->calls) : NULL;

    for (unsigned i = 0; i < f->n; i++)
        landed(f->who[i], &f->what[i], &r[i]);
    f->n = 0;
    f->sealed = 0;
}

/* Nothing special: one chunk that fits one record, if any, and goes out as it is. */
static bool may_board(const struct sw_conn *c)
{
    return c->queued && c->chunks.head == c->chunks.tail && !c->full && !c->opening && !c->failed &&
           !c->closed && !c->cut &&
           (!c->filter || c->queued <= c->filter->ops->max_plain(c->filter));
}

static void board(struct flight *f, struct sw_conn *c)
{
    struct sw_conn_chunk *k = c->chunks.head;
    struct iovec *what;

    if (f->n == BATCH || (c->filter && IO_TX - f->sealed < IO_SEALED))
        land(f);
    what = &f->what[f->n];
    if (c->filter) {
        if (!f->tx)
            f->tx = io_conn_tx(f->batch->shared);
        what->iov_base = f->tx + f->sealed;
        what->iov_len = c->filter->ops->seal(c->filter, k->b + k->off, c->queued, what->iov_base);
        f->sealed += what->iov_len;
        io_conn_consume(c, c->queued);
    } else {
        what->iov_base = k->b + k->off;
        what->iov_len = c->queued;
    }
    (void)sw_batch_write(f->batch->calls, c->watch.fd, what->iov_base, what->iov_len);
    f->who[f->n++] = c;
}

static void flush_list(struct io_batch *b, struct sw_list *list)
{
    __attribute__((uninitialized)) struct flight f; /* 1.5 kB */
    struct sw_conn *c;

    f.batch = b;
    f.tx = NULL;
    f.n = 0;
    f.sealed = 0;
    while ((c = SW_LIST_POP(list, struct sw_conn, dirty))) {
        if (may_board(c)) {
            board(&f, c);
        } else {
            land(&f); /* it may seal, too */
            io_conn_flush(c);
        }
    }
    land(&f);
}

static void flush_soon(struct io_batch *b)
{
    flush_list(b, &b->complete);
    b->n_complete = 0;
}

void io_batch_flush_many(struct io_batch *b)
{
    if (b->n_complete >= MANY)
        flush_soon(b);
}

void io_batch_flush_all(struct io_batch *b)
{
    flush_soon(b);
    flush_list(b, &b->shared->dirty);
}

void sw_conn_queue_flush(struct sw_conn *c)
{
    struct io_batch *b = c->shared->batch;

    if (!b || !sw_list_linked(&c->dirty))
        return;
    sw_list_unlink(&c->dirty);
    sw_list_push_back(&b->complete, &c->dirty);
    b->n_complete++;
}
