/* SPDX-License-Identifier: Apache-2.0 */
#include "http/wsconn.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "io/sock.h"
#include "tls/tls.h"

enum {
    READ_SMALL = 64 * 1024,
    READ_BULK = 256 * 1024,
    READS_PER_TURN = 4,
    LINGER_MS = 1000,
    KEPT_MAX = 96 * 1024, /* start of a message, of a head or of a record */
    RX = 2 * KEPT_MAX + READ_BULK,
    TX_RECORDS = 15,
    TX = TX_RECORDS * SW_TLS_SEAL_ROOM(SW_TLS_PLAIN_MAX),
    CHUNK = SW_WSCONN_FRAME_MAX + SW_WS_HEAD_MAX + 2,
    SPARE_CHUNKS = 32,
    IOV = 16,
    PONG_ROOM = 1 << 20, /* output that may wait when a ping is answered */
};

struct sw_wschunk {
    struct sw_wschunk *next;
    uint32_t off;
    uint32_t n;
    uint32_t frames;      /* data frames that begin in here */
    uint8_t b[CHUNK + 1]; /* sealing may touch the byte behind */
};

/* What a thread lends to whichever connection moves bytes. */
struct scratch {
    struct sw_wschunk *spare;
    unsigned n_spare;
    size_t queued; /* bytes in chunks of all connections of the thread */
    uint8_t rx[RX + 16];
    uint8_t tx[TX];
};

static _Thread_local struct scratch *mine;
static pthread_key_t at_exit_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void scratch_free(void *arg)
{
    struct scratch *s = arg;

    while (s->spare) {
        struct sw_wschunk *k = s->spare;

        s->spare = k->next;
        sw_free(k);
    }
    sw_free(s);
    mine = NULL;
}

static void make_key(void)
{
    if (pthread_key_create(&at_exit_key, scratch_free) != 0)
        __builtin_trap();
}

static struct scratch *scratch(void)
{
    if (SW_UNLIKELY(!mine)) {
        (void)pthread_once(&once, make_key);
        mine = sw_malloc(sizeof(*mine)); /* not zeroed: pages that are not used stay away */
        mine->spare = NULL;
        mine->n_spare = 0;
        mine->queued = 0;
        (void)pthread_setspecific(at_exit_key, mine);
    }
    return mine;
}

static struct sw_wschunk *chunk_get(void)
{
    struct scratch *s = scratch();
    struct sw_wschunk *k = s->spare;

    if (k) {
        s->spare = k->next;
        s->n_spare--;
    } else {
        k = sw_malloc(sizeof(*k));
    }
    k->next = NULL;
    k->off = k->n = k->frames = 0;
    return k;
}

static void chunk_put(struct sw_wschunk *k)
{
    struct scratch *s = scratch();

    if (s->n_spare == SPARE_CHUNKS) {
        sw_free(k);
        return;
    }
    k->next = s->spare;
    s->spare = k;
    s->n_spare++;
}

/* ---- bytes that wait ---- */

static void bytes_free(struct sw_wsbytes *b)
{
    sw_free(b->p);
    *b = (struct sw_wsbytes){0};
}

static void bytes_append(struct sw_wsbytes *b, const void *p, size_t n)
{
    size_t have = b->n - b->off;

    if (n == 0)
        return;
    if (b->n + n > b->cap) {
        size_t cap = have + n > b->cap ? sw_max(have + n, (size_t)b->cap * 2) : b->cap;
        uint8_t *fresh = sw_malloc(cap);

        if (have)
            memcpy(fresh, b->p + b->off, have);
        sw_free(b->p);
        *b = (struct sw_wsbytes){.p = fresh, .n = (uint32_t)have, .cap = (uint32_t)cap};
    }
    memcpy(b->p + b->n, p, n);
    b->n += (uint32_t)n;
}

static void bytes_consume(struct sw_wsbytes *b, size_t n)
{
    b->off += (uint32_t)n;
    if (b->off == b->n)
        bytes_free(b);
}

/* Moves what waits to 'to'; returns its length. */
static size_t bytes_take(struct sw_wsbytes *b, uint8_t *to)
{
    size_t n = b->n - b->off;

    if (n)
        memcpy(to, b->p + b->off, n);
    bytes_free(b);
    return n;
}

/* ---- ends ---- */

static void on_go(struct sw_defer *d);
static void on_stalled(struct sw_timer *t);

static void go_later(struct sw_wsconn *c)
{
    if (c->loop && !c->closed)
        sw_loop_defer(c->loop, &c->defer, on_go);
}

/* Remembers the first failure; on_end is told from the loop. */
static void fail(struct sw_wsconn *c, int rc, int sys_errno)
{
    if (c->fail_rc || c->closed)
        return;
    c->fail_rc = (uint8_t)-rc;
    c->fail_errno = sys_errno;
    go_later(c);
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
    bytes_free(&c->in);
    bytes_free(&c->raw);
    bytes_free(&c->out);
    while (c->head) {
        struct sw_wschunk *k = c->head;

        c->head = k->next;
        chunk_put(k);
    }
    if (c->loop)
        scratch()->queued -= c->out_n;
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

/* ---- sending ---- */

static void stalled(struct sw_wsconn *c, bool progress)
{
    if (c->lingering)
        return;
    if (sw_wsconn_unsent(c) == 0)
        sw_timer_stop(c->loop, &c->stall);
    else if (progress || !sw_timer_running(&c->stall))
        sw_timer_start(c->loop, &c->stall, c->stall_ms * SW_NS_PER_MS, on_stalled);
}

/* Bytes the socket took, or a failure that was noted. */
static ssize_t wrote(struct sw_wsconn *c, ssize_t n)
{
    if (n >= 0)
        return n;
    if (n != SW_EAGAIN)
        fail(c, SW_ECLOSED, n == SW_ECLOSED ? 0 : errno);
    return -1;
}

static void chunks_consume(struct sw_wsconn *c, size_t n)
{
    c->out_n -= (uint32_t)n;
    scratch()->queued -= n;
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
        chunk_put(k);
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
    uint8_t *tx = scratch()->tx;
    size_t max = sw_tls_max_plain(c->tls);
    size_t at = 0;
    ssize_t n;

    for (int i = 0; i < TX_RECORDS && c->head; i++) {
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
    bytes_append(&c->out, tx + n, at - (size_t)n);
    stalled(c, n > 0);
    return c->head && (size_t)n == at;
}

/* Sealed bytes and handshake messages. True when all of it left. */
static bool write_raw(struct sw_wsconn *c)
{
    while (c->out.n) {
        ssize_t n =
            wrote(c, sw_sock_write(c->watch.fd, c->out.p + c->out.off, c->out.n - c->out.off));

        if (n < 0) {
            stalled(c, false);
            return false;
        }
        bytes_consume(&c->out, (size_t)n);
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

static void flush(struct sw_wsconn *c)
{
    c->flush_due = false;
    if (c->closed || c->connecting || c->fail_rc)
        return;
    if (!write_raw(c))
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
    if (!c->tail || CHUNK - c->tail->n < n) {
        struct sw_wschunk *k = chunk_get();

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
    scratch()->queued += n;
    if (!c->flush_due) {
        c->flush_due = true;
        go_later(c);
    }
}

void sw_wsconn_put(struct sw_wsconn *c, const void *p, size_t n)
{
    assert(n <= CHUNK);
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
    bytes_append(&c->out, sw_buf_data(&out), sw_buf_len(&out));
    (void)write_raw(c);
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

            bytes_append(&c->out, alert, sw_tls_alert_for_err(c->tls, &err, alert, sizeof(alert)));
            (void)write_raw(c);
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
    bytes_append(&c->raw, buf + from, n - from);
    if (!c->opening && sw_tls_wants_flush(c->tls)) {
        uint8_t ctrl[SW_TLS_CTRL_ROOM];

        bytes_append(&c->out, ctrl, sw_tls_flush(c->tls, ctrl, sizeof(ctrl)));
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
    bytes_append(&c->in, buf + used, n - used);
    if (n - used > KEPT_MAX)
        fail(c, SW_ELIMIT, 0);
}

/* One read and its delivery. False: nothing more to do now. */
static bool read_once(struct sw_wsconn *c, size_t *wire)
{
    uint8_t *buf = scratch()->rx;
    size_t room = c->bulk ? READ_BULK : READ_SMALL;
    size_t have = bytes_take(&c->in, buf);
    size_t at = have + bytes_take(&c->raw, buf + have);
    ssize_t n = sw_sock_read(c->watch.fd, buf + at, room);

    c->readable = n == (ssize_t)room || (n > 0 && c->hup);
    if (n > 0) {
        *wire += (size_t)n;
        c->bulk = (size_t)n == room;
    } else if (n == SW_EOF) {
        c->eof = true;
    } else if (n != SW_EAGAIN) {
        fail(c, SW_ECLOSED, n == SW_ECLOSED ? 0 : errno);
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
        bytes_free(&b);
        return;
    }
    bytes_consume(&b, used);
    c->in = b;
}

static void read_some(struct sw_wsconn *c)
{
    size_t wire = 0;
    bool more = true;

    for (int i = 0; i < READS_PER_TURN && more; i++) {
        if (!c->readable || c->paused || c->closed || c->fail_rc || c->eof || c->bye ||
            c->lingering)
            more = false;
        else
            more = read_once(c, &wire);
    }
    if (c->closed || c->lingering)
        return;
    if (more)
        go_later(c);
    if (wire && c->ops->on_batch && !c->opening)
        c->ops->on_batch(c, wire);
}

static void linger_step(struct sw_wsconn *c)
{
    /* What still comes is of no interest, but unread bytes would turn the FIN into a reset. */
    for (int i = 0; i < READS_PER_TURN && c->readable; i++) {
        ssize_t n = sw_sock_read(c->watch.fd, scratch()->rx, READ_BULK);

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
        flush(c);
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

static void on_stalled(struct sw_timer *t)
{
    struct sw_wsconn *c = SW_CONTAINER_OF(t, struct sw_wsconn, stall);

    if (c->lingering)
        sw_wsconn_close(c);
    else
        fail(c, SW_ETIME, 0);
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
        flush(c);
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
    go_later(c);
    return SW_OK;
}

void sw_wsconn_upgrade(struct sw_wsconn *c)
{
    c->upgraded = true;
}

size_t sw_wsconn_thread_queue(void)
{
    return scratch()->queued;
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
    go_later(c);
}

void sw_wsconn_detach(struct sw_wsconn *c)
{
    int fd = c->watch.fd;

    assert(!c->closed && !c->lingering && c->paused);
    sw_watch_stop(&c->watch);
    c->watch.fd = fd;
    sw_timer_stop(c->loop, &c->stall);
    sw_defer_cancel(&c->defer);
    scratch()->queued -= c->out_n;
    c->loop = NULL;
}

int sw_wsconn_attach(struct sw_wsconn *c, struct sw_loop *l, struct sw_err *err)
{
    int fd = c->watch.fd;
    int rc = sw_watch_start(l, &c->watch, fd, on_event, err);

    c->loop = l;
    scratch()->queued += c->out_n;
    if (rc != SW_OK) {
        c->watch.fd = fd;
        return rc;
    }
    c->readable = true;
    c->paused = false;
    c->flush_due = sw_wsconn_unsent(c) != 0;
    go_later(c);
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
        size_t n = sw_min(strlen(reason), sizeof(body) - 2);

        memcpy(body + 2, reason, n);
        sw_wsconn_send(c, SW_WS_CLOSE, body, n + 2);
    }
    bytes_free(&c->in);
    c->lingering = true;
    c->flush_due = true;
    sw_timer_start(c->loop, &c->stall, LINGER_MS * SW_NS_PER_MS, on_stalled);
    go_later(c);
}
