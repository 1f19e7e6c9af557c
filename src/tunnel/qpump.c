/* SPDX-License-Identifier: Apache-2.0 */
#include "tunnel/qpump.h"

#include "io/sock.h"
#include "quic/quic.h"

enum {
    TURN_BUDGET = 1 << 20, /* bytes read before others get a turn */
    RESET_CODE = 0,        /* of streams; peers do not look at it */
};

static void read_some(struct sw_qpump *p);

/* The stream outlives the pump: its bytes are dropped. */
static size_t orphan_data(struct sw_qstream *s, const uint8_t *p, size_t n, bool fin)
{
    return n;
}

static void orphan_writable(struct sw_qstream *s)
{
}

static void orphan_reset(struct sw_qstream *s, uint64_t code)
{
}

static void orphan_closed(struct sw_qstream *s, bool lost)
{
}

const struct sw_qstream_ops sw_qstream_orphan = {
    .data = orphan_data,
    .writable = orphan_writable,
    .reset = orphan_reset,
    .closed = orphan_closed,
};

/* Not attached: it is reset. */
static void orphan_stream(struct sw_qconn *q, struct sw_qstream *s)
{
}

static void orphan_conn_closed(struct sw_qconn *q, const struct sw_qclose *why)
{
}

const struct sw_qconn_ops sw_qconn_orphan = {.stream = orphan_stream, .closed = orphan_conn_closed};

bool sw_qpump_running(const struct sw_qpump *p)
{
    return p->loop != NULL;
}

void sw_qpump_stop(struct sw_qpump *p, bool reset)
{
    if (!p->loop)
        return;
    sw_timer_stop(p->loop, &p->idle);
    sw_defer_cancel(&p->again);
    sw_watch_stop(&p->watch);
    if (reset)
        sw_sock_set_reset(p->fd);
    sw_sock_close(SW_TAKE_FD(p->fd));
    p->loop = NULL;
}

static void finish(struct sw_qpump *p, int rc)
{
    sw_qpump_stop(p, rc != SW_OK);
    p->finished(p, rc);
}

static void fail(struct sw_qpump *p, int rc)
{
    sw_qstream_abort(p->stream, RESET_CODE);
    finish(p, rc);
}

static void check_over(struct sw_qpump *p)
{
    if (p->read_end && p->fin)
        finish(p, SW_OK);
}

static void on_again(struct sw_defer *d)
{
    read_some(SW_CONTAINER_OF(d, struct sw_qpump, again));
}

static void show(struct sw_qpump *p, const struct iovec *iov, size_t n)
{
    for (size_t i = 0; n; i++) {
        size_t k = sw_min(n, iov[i].iov_len);

        p->tap(p->tap_arg, true, iov[i].iov_base, k);
        n -= k;
    }
}

/* One read into the stream's room. False: nothing more to be had now. */
static bool read_once(struct sw_qpump *p, size_t *moved)
{
    struct iovec room[2];
    int k = sw_qstream_reserve(p->stream, room);
    size_t total = 0;
    ssize_t n;

    if (k == 0) {
        p->no_room = true;
        return false;
    }
    for (int i = 0; i < k; i++)
        total += room[i].iov_len;
    n = sw_sock_readv(p->fd, room, k);
    if (n > 0) {
        if (p->tap)
            show(p, room, (size_t)n);
        sw_qstream_commit(p->stream, (size_t)n);
        p->from_socket += (uint64_t)n;
        *moved += (size_t)n;
        /* A short read emptied the socket; an end behind it has its own event. */
        if ((size_t)n < total && !p->hup)
            p->readable = false;
        return p->readable;
    }
    sw_qstream_commit(p->stream, 0);
    p->readable = false;
    if (n == SW_EOF) {
        p->read_end = true;
        sw_qstream_finish(p->stream);
        check_over(p);
    } else if (n != SW_EAGAIN) {
        fail(p, SW_ECLOSED);
    }
    return false;
}

static void read_some(struct sw_qpump *p)
{
    size_t moved = 0;

    while (p->readable && !p->no_room && !p->read_end && moved < TURN_BUDGET) {
        if (!read_once(p, &moved))
            break;
    }
    if (!p->loop)
        return;
    if (moved)
        p->active_ns = sw_loop_now(p->loop);
    if (moved >= TURN_BUDGET && p->readable)
        sw_loop_defer(p->loop, &p->again, on_again);
}

static void on_event(struct sw_watch *w, unsigned events)
{
    struct sw_qpump *p = SW_CONTAINER_OF(w, struct sw_qpump, watch);

    if (events & SW_HUP)
        p->hup = true;
    if (events & (SW_READ | SW_HUP))
        p->readable = true;
    if ((events & (SW_WRITE | SW_HUP)) && p->blocked) {
        p->blocked = false;
        sw_qstream_resume(p->stream);
    }
    if (p->loop)
        read_some(p);
}

size_t sw_qpump_data(struct sw_qpump *p, const uint8_t *data, size_t n, bool fin)
{
    size_t done = 0;

    if (!p->loop || p->fin)
        return n;
    while (done < n) {
        ssize_t w = sw_sock_write(p->fd, data + done, n - done);

        if (w == SW_EAGAIN) {
            p->blocked = true;
            break;
        }
        if (w < 0) {
            fail(p, SW_ECLOSED);
            return n;
        }
        done += (size_t)w;
    }
    if (done) {
        if (p->tap)
            p->tap(p->tap_arg, false, data, done);
        p->to_socket += done;
        p->active_ns = sw_loop_now(p->loop);
    }
    if (fin && done == n) {
        p->fin = true;
        sw_sock_shutdown_write(p->fd);
        check_over(p);
    }
    return done;
}

void sw_qpump_writable(struct sw_qpump *p)
{
    if (!p->loop)
        return;
    p->no_room = false;
    read_some(p);
}

void sw_qpump_broken(struct sw_qpump *p)
{
    if (p->loop)
        fail(p, SW_ECLOSED);
}

static void on_idle(struct sw_timer *t)
{
    struct sw_qpump *p = SW_CONTAINER_OF(t, struct sw_qpump, idle);
    uint64_t quiet = sw_loop_now(p->loop) - p->active_ns;

    if (quiet >= p->idle_ns)
        fail(p, SW_ETIME);
    else
        sw_timer_start(p->loop, &p->idle, p->idle_ns - quiet, on_idle);
}

void sw_qpump_start_dialled(struct sw_qpump *p, struct sw_loop *l, struct sw_qstream *s,
                            struct sw_dialled *d, uint64_t idle_ns, sw_qpump_done_cb finished)
{
    *p = (struct sw_qpump){.loop = l,
                           .stream = s,
                           .fd = SW_TAKE_FD(d->fd),
                           .idle_ns = idle_ns,
                           .active_ns = sw_loop_now(l),
                           .finished = finished,
                           .tap = p->tap,
                           .tap_arg = p->tap_arg,
                           .readable = true, /* find out */
                           .hup = d->events & SW_HUP};
    sw_watch_move(&d->watch, &p->watch, on_event);
    if (idle_ns)
        sw_timer_start(l, &p->idle, idle_ns, on_idle);
    sw_loop_defer(l, &p->again, on_again);
}
