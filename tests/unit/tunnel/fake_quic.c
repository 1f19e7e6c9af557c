/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_quic.h"

#include <string.h>

#include "base/list.h"
#include "base/mem.h"
#include "quic/path.h"

struct sw_quic {
    struct fake *f;
};

struct sw_qconn {
    struct sw_list link;
    struct fake *f;
    struct sw_qconn *peer; /* NULL once it is gone */
    const struct sw_qconn_ops *ops;
    void *arg;
    struct sw_nodeid id; /* of the other end */
    struct sw_slice alpn;
    struct sw_list streams;
    size_t n_streams;
    int64_t next_id;
    bool dialled;
    bool ready;
    bool starved;
    bool closing;
    struct sw_qclose why;
    struct sw_defer work;
    struct sw_defer end;
};

struct sw_qstream {
    struct sw_list link;
    struct sw_qconn *conn;
    struct sw_qstream *peer; /* NULL once it is gone */
    const struct sw_qstream_ops *ops;
    void *arg;
    int64_t id;
    uint8_t *tx;
    size_t off, n;
    bool fin, fin_seen; /* ours; the peer's, taken */
    bool tx_over;       /* our direction ended or was reset */
    bool rx_over;
    bool wants_room;
    bool stalled; /* the peer took less than offered */
    bool dead;
    bool mute; /* aborted: only closed is told */
    struct sw_defer work;
    struct sw_defer end;
};

static size_t ring(const struct sw_qstream *s)
{
    return s->conn->f->ring ? s->conn->f->ring : 65536;
}

/* ---- streams ---- */

static void on_stream_end(struct sw_defer *d)
{
    struct sw_qstream *s = SW_CONTAINER_OF(d, struct sw_qstream, end);
    struct sw_qconn *c = s->conn;

    sw_defer_cancel(&s->work);
    if (s->peer)
        s->peer->peer = NULL;
    if (s->ops)
        s->ops->closed(s, c->closing);
    sw_list_unlink(&s->link);
    c->n_streams--;
    c->f->streams--;
    if (c->starved && c->ops->room && !c->closing) {
        c->starved = false;
        c->ops->room(c);
    }
    sw_free(s->tx);
    sw_free(s);
}

static void check_end(struct sw_qstream *s)
{
    if (s->tx_over && s->rx_over && !s->dead) {
        s->dead = true;
        sw_loop_defer(s->conn->f->loop, &s->end, on_stream_end);
    }
}

static void deliver(struct sw_qstream *s)
{
    struct sw_qstream *to = s->peer;
    size_t step = s->conn->f->step;

    while (to && to->ops && !s->conn->f->dead && !to->rx_over && !s->stalled &&
           (s->n > s->off || s->fin)) {
        size_t have = s->n - s->off;
        size_t give = step && step < have ? step : have;
        bool fin = s->fin && give == have;
        size_t took = to->mute ? give : to->ops->data(to, s->tx + s->off, give, fin);

        s->off += took;
        if (s->off == s->n)
            s->off = s->n = 0;
        if (took < give) {
            s->stalled = true;
        } else if (fin) {
            s->fin = false;
            s->tx_over = true;
            to->rx_over = true;
        }
        if (took == 0)
            break;
    }
    if (s->wants_room && s->n - s->off < ring(s) && !s->tx_over) {
        s->wants_room = false;
        if (!s->mute)
            s->ops->writable(s);
    }
    if (to)
        check_end(to);
    check_end(s);
}

static void on_work(struct sw_defer *d)
{
    deliver(SW_CONTAINER_OF(d, struct sw_qstream, work));
}

static void touch(struct sw_qstream *s)
{
    if (!s->dead)
        sw_loop_defer(s->conn->f->loop, &s->work, on_work);
}

static struct sw_qstream *stream_new(struct sw_qconn *c, int64_t id)
{
    struct sw_qstream *s = SW_NEW(struct sw_qstream);

    s->conn = c;
    s->id = id;
    s->tx = sw_malloc(c->f->ring ? c->f->ring : 65536);
    sw_list_push_back(&c->streams, &s->link);
    c->n_streams++;
    c->f->streams++;
    return s;
}

static void on_conn_work(struct sw_defer *d)
{
    struct sw_qconn *c = SW_CONTAINER_OF(d, struct sw_qconn, work);

    if (c->dialled && !c->ready) {
        c->ready = true;
        c->f->accepted(c->f->arg, c->peer);
        c->ops->ready(c);
    }
    SW_LIST_FOREACH (it, &c->streams) {
        struct sw_qstream *s = SW_CONTAINER_OF(it, struct sw_qstream, link);

        if (!s->ops && !s->dead) {
            c->ops->stream(c, s);
            if (!s->ops)
                sw_qstream_abort(s, 0);
            if (s->peer)
                touch(s->peer);
        }
    }
}

int sw_qstream_open(struct sw_qconn *c, const struct sw_qstream_ops *ops, void *arg,
                    struct sw_qstream **ret)
{
    struct sw_qstream *s;

    if (c->closing || !c->peer)
        return SW_ECLOSED;
    if (c->f->max_streams && c->n_streams >= c->f->max_streams) {
        c->starved = true;
        return SW_ELIMIT;
    }
    s = stream_new(c, c->next_id);
    s->ops = ops;
    s->arg = arg;
    s->peer = stream_new(c->peer, c->next_id);
    s->peer->peer = s;
    c->next_id += 4;
    sw_loop_defer(c->f->loop, &c->peer->work, on_conn_work);
    *ret = s;
    return SW_OK;
}

void sw_qstream_attach(struct sw_qstream *s, const struct sw_qstream_ops *ops, void *arg)
{
    s->ops = ops;
    s->arg = arg;
}

void *sw_qstream_arg(const struct sw_qstream *s)
{
    return s->arg;
}

struct sw_qconn *sw_qstream_conn(const struct sw_qstream *s)
{
    return s->conn;
}

int64_t sw_qstream_id(const struct sw_qstream *s)
{
    return s->id;
}

int sw_qstream_reserve(struct sw_qstream *s, struct iovec room[2])
{
    if (s->fin || s->tx_over)
        return 0;
    if (s->off) {
        memmove(s->tx, s->tx + s->off, s->n - s->off);
        s->n -= s->off;
        s->off = 0;
    }
    if (s->n == ring(s)) {
        s->wants_room = true;
        return 0;
    }
    room[0] = (struct iovec){.iov_base = s->tx + s->n, .iov_len = ring(s) - s->n};
    return 1;
}

void sw_qstream_commit(struct sw_qstream *s, size_t n)
{
    s->n += n;
    touch(s);
}

size_t sw_qstream_write(struct sw_qstream *s, const void *p, size_t n)
{
    struct iovec room[2];

    if (sw_qstream_reserve(s, room) == 0)
        return 0;
    s->wants_room = n > room[0].iov_len;
    n = sw_min(n, room[0].iov_len);
    memcpy(room[0].iov_base, p, n);
    sw_qstream_commit(s, n);
    return n;
}

void sw_qstream_finish(struct sw_qstream *s)
{
    if (s->tx_over)
        return;
    s->fin = true;
    touch(s);
}

void sw_qstream_resume(struct sw_qstream *s)
{
    if (!s->peer)
        return;
    s->peer->stalled = false;
    deliver(s->peer);
}

void sw_qstream_reset(struct sw_qstream *s, uint64_t code)
{
    if (s->tx_over)
        return;
    s->tx_over = true;
    s->n = s->off = 0;
    s->fin = false;
    if (s->peer && !s->peer->rx_over) {
        s->peer->rx_over = true;
        if (s->peer->ops && !s->peer->mute)
            s->peer->ops->reset(s->peer, code);
        if (s->peer)
            check_end(s->peer);
    }
    check_end(s);
}

void sw_qstream_stop(struct sw_qstream *s, uint64_t code)
{
    if (s->rx_over)
        return;
    s->rx_over = true;
    if (s->peer && !s->peer->tx_over) {
        s->peer->tx_over = true;
        s->peer->n = s->peer->off = 0;
        s->peer->fin = false;
        if (s->peer->ops && s->peer->ops->stopped && !s->peer->mute)
            s->peer->ops->stopped(s->peer, code);
        if (s->peer)
            check_end(s->peer);
    }
    check_end(s);
}

void sw_qstream_abort(struct sw_qstream *s, uint64_t code)
{
    s->mute = true;
    sw_qstream_reset(s, code);
    sw_qstream_stop(s, code);
}

size_t sw_qstream_unacked(const struct sw_qstream *s)
{
    return s->n - s->off;
}

/* ---- connections ---- */

static void on_conn_end(struct sw_defer *d)
{
    struct sw_qconn *c = SW_CONTAINER_OF(d, struct sw_qconn, end);

    sw_defer_cancel(&c->work);
    while (!sw_list_empty(&c->streams)) {
        struct sw_qstream *s = SW_CONTAINER_OF(c->streams.next, struct sw_qstream, link);

        sw_defer_cancel(&s->end);
        on_stream_end(&s->end);
    }
    if (c->peer)
        c->peer->peer = NULL;
    if (c->ops)
        c->ops->closed(c, &c->why);
    if (c->dialled)
        c->f->conns--;
    sw_list_unlink(&c->link);
    sw_free(c);
}

static void end_conn(struct sw_qconn *c, enum sw_qclose_kind kind, uint64_t code)
{
    if (c->closing)
        return;
    c->closing = true;
    c->why.kind = kind;
    c->why.code = code;
    sw_loop_defer(c->f->loop, &c->end, on_conn_end);
}

void sw_qconn_close(struct sw_qconn *c, uint64_t code, const char *reason)
{
    (void)reason;
    if (c->peer)
        end_conn(c->peer, SW_QCLOSE_APP, code);
    end_conn(c, SW_QCLOSE_LOCAL, code);
}

void fake_break(struct sw_qconn *c)
{
    if (c->peer)
        end_conn(c->peer, SW_QCLOSE_IDLE, 0);
    end_conn(c, SW_QCLOSE_IDLE, 0);
}

void fake_close_all(struct fake *f)
{
    SW_LIST_FOREACH (it, &f->all)
        sw_qconn_close(SW_CONTAINER_OF(it, struct sw_qconn, link), 0, "");
}

static struct sw_qconn *conn_new(struct fake *f)
{
    struct sw_qconn *c = SW_NEW(struct sw_qconn);

    c->f = f;
    sw_list_init(&c->streams);
    sw_list_push_back(&f->all, &c->link);
    return c;
}

struct sw_qconn *sw_quic_dial(struct sw_quic *q, const struct sw_quic_target *t,
                              struct sw_slice alpn, const struct sw_qconn_ops *ops, void *arg,
                              struct sw_err *err)
{
    struct fake *f = q->f;
    struct sw_qconn *c;

    f->dials++;
    if (f->mode == FAKE_DIAL_FULL) {
        (void)sw_err_set(err, SW_ELIMIT, "too many connections");
        return NULL;
    }
    c = conn_new(f);
    c->id = t->id;
    c->alpn = alpn;
    c->ops = ops;
    c->arg = arg;
    c->dialled = true;
    f->conns++;
    switch (f->mode) {
    case FAKE_DIAL_OK:
        c->peer = conn_new(f);
        c->peer->peer = c;
        c->peer->alpn = alpn;
        memset(c->peer->id.b, 0x77, sizeof(c->peer->id.b));
        sw_loop_defer(f->loop, &c->work, on_conn_work);
        break;
    case FAKE_DIAL_REFUSED:
        end_conn(c, SW_QCLOSE_TRANSPORT, 2);
        break;
    case FAKE_DIAL_IDENTITY:
        end_conn(c, SW_QCLOSE_IDENTITY, 0);
        break;
    case FAKE_DIAL_SILENT:
    case FAKE_DIAL_FULL:
        break;
    }
    return c;
}

void sw_qconn_set_ops(struct sw_qconn *c, const struct sw_qconn_ops *ops, void *arg)
{
    c->ops = ops;
    c->arg = arg;
}

void *sw_qconn_arg(const struct sw_qconn *c)
{
    return c->arg;
}

const struct sw_nodeid *sw_qconn_peer(const struct sw_qconn *c)
{
    return &c->id;
}

enum sw_qpath sw_qconn_path(const struct sw_qconn *c)
{
    return c->ready || !c->dialled ? SW_QPATH_DIRECT : SW_QPATH_NONE;
}

size_t sw_qconn_streams(const struct sw_qconn *c)
{
    return c->n_streams;
}

size_t sw_qconn_datagram_max(const struct sw_qconn *c)
{
    return c->f->datagrams ? 1200 : 0;
}

int sw_qconn_datagram(struct sw_qconn *c, const uint8_t *p, size_t n)
{
    if (n > sw_qconn_datagram_max(c))
        return SW_ELIMIT;
    if (!c->peer)
        return SW_ECLOSED;
    if (c->peer->ops && c->peer->ops->datagram)
        c->peer->ops->datagram(c->peer, p, n);
    return SW_OK;
}

uint64_t sw_qconn_silence_ns(const struct sw_qconn *c)
{
    return c->f->dead ? sw_loop_now(c->f->loop) - c->f->dead_ns : 0;
}

void fake_die(struct fake *f)
{
    f->dead = true;
    f->dead_ns = sw_loop_now(f->loop);
}

void fake_revive(struct fake *f)
{
    f->dead = false;
    SW_LIST_FOREACH (it, &f->all) {
        SW_LIST_FOREACH (s, &SW_CONTAINER_OF(it, struct sw_qconn, link)->streams)
            touch(SW_CONTAINER_OF(s, struct sw_qstream, link));
    }
}

void sw_qconn_more_addrs(struct sw_qconn *c, const struct sw_addr *addrs, size_t n)
{
    (void)c;
    (void)addrs;
    (void)n;
}

struct sw_quic *fake_new(struct fake *f, struct sw_loop *l)
{
    struct sw_quic *q = SW_NEW(struct sw_quic);

    f->loop = l;
    sw_list_init(&f->all);
    q->f = f;
    return q;
}

void fake_free(struct sw_quic *q)
{
    sw_free(q);
}
