/* SPDX-License-Identifier: Apache-2.0 */
#include "tunnel/tconn.h"

#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "io/conn/conn.h"
#include "io/sock.h"
#include "tunnel/scratch.h"

enum {
    TURNS = 4,       /* batches of a direction before others get a turn */
    IOV_MAX_RX = 64, /* records of one batch written with one call */
};

struct sw_tconn {
    struct sw_loop *loop;
    const struct sw_tconn_ops *ops;
    void *owner;
    struct sw_tls *tls; /* owned */
    struct sw_watch watch;
    struct sw_watch local_watch;
    struct sw_defer again;
    struct sw_defer reap;
    struct sw_timer linger;
    int fd;              /* the TLS side; owned */
    int local;           /* -1 before the join; owned */
    struct sw_buf in;    /* start of a record */
    struct sw_buf out;   /* sealed, not taken by the socket */
    struct sw_buf *rest; /* plain, not used by the owner or not taken by the local socket */
    bool readable;
    bool hup;
    bool local_readable;
    bool local_hup;
    bool bulk;         /* the last read of the local socket filled a record */
    bool peer_end;     /* close_notify came */
    bool reported_end; /* and was passed on */
    bool local_end;    /* end of the local socket */
    bool sent_end;     /* and was passed on */
    bool finishing;    /* sw_tconn_finish was called */
    bool done;
    bool working; /* inside a turn: a second one is put off */
};

/* ---- the end ---- */

static void close_fds(struct sw_tconn *c, bool reset)
{
    sw_watch_stop(&c->watch);
    sw_watch_stop(&c->local_watch);
    if (reset && c->local >= 0)
        sw_sock_set_reset(c->local);
    if (reset && c->fd >= 0)
        sw_sock_set_reset(c->fd);
    sw_sock_close(SW_TAKE_FD(c->local));
    sw_sock_close(SW_TAKE_FD(c->fd));
}

static void on_reap(struct sw_defer *d)
{
    sw_free(SW_CONTAINER_OF(d, struct sw_tconn, reap));
}

void sw_tconn_close(struct sw_tconn *c, bool reset)
{
    if (c->done)
        return;
    c->done = true;
    sw_defer_cancel(&c->again);
    sw_timer_stop(c->loop, &c->linger);
    close_fds(c, reset);
    sw_heapbuf_free(&c->rest);
    sw_buf_done(&c->in);
    sw_buf_done(&c->out);
    sw_tls_free(SW_TAKE(c->tls));
    sw_loop_defer(c->loop, &c->reap, on_reap);
}

static void end(struct sw_tconn *c, int rc, const struct sw_err *err, bool reset)
{
    if (c->done)
        return;
    sw_tconn_close(c, reset);
    c->ops->on_done(c, rc, err);
}

static void fail(struct sw_tconn *c, int rc, const char *why)
{
    struct sw_err err = {0};

    (void)sw_err_set(&err, rc, "%s", why);
    end(c, rc, &err, true);
}

/* ---- toward the peer ---- */

/* True when nothing is left. */
static bool write_out(struct sw_tconn *c)
{
    int rc = sw_sock_write_buf(c->fd, &c->out);

    if (rc != SW_OK && rc != SW_EAGAIN)
        fail(c, SW_ECLOSED, "connection reset by the peer");
    return rc == SW_OK;
}

/* Sends sealed bytes; what the socket does not take waits in 'out'. */
static void send_sealed(struct sw_tconn *c, const uint8_t *p, size_t n)
{
    ssize_t k = 0;

    if (sw_buf_len(&c->out) == 0)
        k = sw_sock_write(c->fd, p, n);
    if (k < 0 && k != SW_EAGAIN) {
        fail(c, SW_ECLOSED, "connection reset by the peer");
        return;
    }
    k = sw_max(k, 0);
    if ((size_t)k < n && sw_buf_append(&c->out, p + k, n - (size_t)k) != SW_OK)
        fail(c, SW_ELIMIT, "peer does not take what is sent");
}

static void send_end(struct sw_tconn *c)
{
    uint8_t bye[SW_TLS_CTRL_ROOM];
    size_t n = sw_tls_close_notify(c->tls, bye, sizeof(bye));

    c->sent_end = true;
    if (n)
        send_sealed(c, bye, n);
    if (!c->done && sw_buf_len(&c->out) == 0)
        sw_sock_shutdown_write(c->fd);
}

static ssize_t read_local(struct sw_tconn *c, size_t max, size_t *ret_offered)
{
    struct sw_scratch *sc = sw_scratch();
    size_t slots = c->bulk ? SW_SLOTS : 1;
    struct iovec iov[SW_SLOTS];
    ssize_t n;

    for (size_t i = 0; i < slots; i++)
        iov[i] = (struct iovec){.iov_base = sw_slot(sc, i), .iov_len = max};
    *ret_offered = slots * max;
    n = sw_sock_readv(c->local, iov, (int)slots);
    if (n == SW_EAGAIN || (n >= 0 && (size_t)n < *ret_offered && !c->local_hup))
        c->local_readable = false;
    c->bulk = n >= (ssize_t)max;
    return n;
}

static void seal_slots(struct sw_tconn *c, size_t n, size_t max)
{
    struct sw_scratch *sc = sw_scratch();
    size_t sealed = 0;

    for (size_t i = 0; n > 0; i++) {
        size_t k = sw_min(n, max);

        sealed += sw_tls_seal(c->tls, sw_slot(sc, i), k, sc->tx + sealed);
        n -= k;
    }
    send_sealed(c, sc->tx, sealed);
}

/* One batch from the local socket. False: stop for now. */
static bool send_batch(struct sw_tconn *c)
{
    size_t max = sw_min(sw_tls_max_plain(c->tls), 16384);
    size_t offered;
    ssize_t n;

    if (!c->local_readable || c->local_end || sw_buf_len(&c->out))
        return false;
    n = read_local(c, max, &offered);
    if (n == SW_EAGAIN)
        return false;
    if (n == SW_EOF) {
        c->local_end = true;
        send_end(c);
        return false;
    }
    if (n < 0) {
        fail(c, SW_ECLOSED, "connection reset by the local side");
        return false;
    }
    c->ops->on_moved(c, (size_t)n, 0);
    if (c->done)
        return false;
    seal_slots(c, (size_t)n, max);
    return !c->done && c->local_readable;
}

static void flush_control(struct sw_tconn *c)
{
    uint8_t ctrl[SW_TLS_CTRL_ROOM];
    size_t n;

    if (!sw_tls_wants_flush(c->tls) || c->sent_end)
        return;
    n = sw_tls_flush(c->tls, ctrl, sizeof(ctrl));
    if (n)
        send_sealed(c, ctrl, n);
}

/* ---- from the peer ---- */

/* Plain bytes of one batch, not yet written. */
struct gather {
    struct iovec iov[IOV_MAX_RX];
    int n;
    size_t bytes;
};

static void keep(struct sw_tconn *c, const void *p, size_t n)
{
    if (n == 0)
        return;
    if (!c->rest)
        c->rest = sw_heapbuf_new(SW_RX_SIZE + SW_TCONN_HEAD_MAX);
    if (sw_buf_append(c->rest, p, n) != SW_OK) /* bounded by the reads that lead here */
        fail(c, SW_ELIMIT, "peer sends more than may wait");
}

static void write_gathered(struct sw_tconn *c, struct gather *g)
{
    ssize_t n = 0;
    size_t done;

    if (g->n == 0)
        return;
    if (!c->rest)
        n = sw_sock_writev(c->local, g->iov, g->n);
    if (n < 0 && n != SW_EAGAIN) {
        fail(c, SW_ECLOSED, "connection reset by the local side");
        return;
    }
    done = n > 0 ? (size_t)n : 0;
    if (done)
        c->ops->on_moved(c, 0, done);
    for (int i = 0; i < g->n && !c->done; i++) {
        size_t skip = sw_min(done, g->iov[i].iov_len);

        done -= skip;
        keep(c, (const char *)g->iov[i].iov_base + skip, g->iov[i].iov_len - skip);
    }
    g->n = 0;
}

static void take_plain(struct sw_tconn *c, struct gather *g, struct sw_slice plain)
{
    if (plain.n == 0 || c->finishing)
        return;
    if (c->local < 0) {
        keep(c, plain.p, plain.n);
        return;
    }
    if (g->n == IOV_MAX_RX)
        write_gathered(c, g);
    if (c->done)
        return;
    memcpy(&g->iov[g->n].iov_base, &plain.p, sizeof(plain.p)); /* written from, never to */
    g->iov[g->n++].iov_len = plain.n;
}

static void open_failed(struct sw_tconn *c, const struct sw_err *err)
{
    uint8_t alert[SW_TLS_CTRL_ROOM];
    size_t n = sw_tls_alert_for_err(c->tls, err, alert, sizeof(alert));

    if (n && sw_buf_len(&c->out) == 0)
        (void)!sw_sock_write(c->fd, alert, n);
    end(c, err->rc, err, true);
}

/* Opens the records of p[0..n); returns the bytes taken. */
static size_t open_records(struct sw_tconn *c, uint8_t *p, size_t n)
{
    struct gather g = {.n = 0};
    size_t at = 0;

    while (at < n && !c->done && !c->peer_end) {
        struct sw_err err = {0};
        struct sw_slice plain = {0};
        size_t used = 0;
        int rc = sw_tls_open(c->tls, p + at, n - at, &used, &plain, &err);

        if (rc == SW_EAGAIN)
            break;
        if (rc != SW_OK && rc != SW_EOF) {
            write_gathered(c, &g);
            if (!c->done)
                open_failed(c, &err);
            return at;
        }
        at += used;
        take_plain(c, &g, plain);
        c->peer_end = rc == SW_EOF;
    }
    if (!c->done)
        write_gathered(c, &g);
    return c->peer_end ? n : at;
}

/* Records that came with the handshake, and the bytes of one read. False: stop for now. */
static bool receive_batch(struct sw_tconn *c)
{
    uint8_t *rx = sw_scratch()->rx;
    size_t begun = sw_buf_len(&c->in);
    size_t room = SW_RX_SIZE - begun;
    ssize_t n = c->readable && room ? sw_sock_read(c->fd, rx + begun, room) : SW_EAGAIN;
    size_t used;

    if (n == SW_EAGAIN) {
        c->readable = false;
        return false;
    }
    if (n < 0) {
        fail(c, SW_ECLOSED,
             n == SW_EOF ? "peer closed the connection without close_notify"
                         : "connection reset by the peer");
        return false;
    }
    if (begun)
        memcpy(rx, sw_buf_data(&c->in), begun);
    sw_buf_consume(&c->in, begun);
    if ((size_t)n < room && !c->hup)
        c->readable = false;
    used = open_records(c, rx, begun + (size_t)n);
    if (c->done)
        return false;
    if (sw_buf_append(&c->in, rx + used, begun + (size_t)n - used) != SW_OK) {
        fail(c, SW_EPROTO, "TLS record too long");
        return false;
    }
    return c->readable;
}

/* The records that are there already, without a read. */
static void open_kept(struct sw_tconn *c)
{
    size_t n = sw_buf_len(&c->in);
    uint8_t *rx = sw_scratch()->rx;
    size_t used;

    if (n == 0)
        return;
    memcpy(rx, sw_buf_data(&c->in), n);
    used = open_records(c, rx, n);
    if (!c->done)
        sw_buf_consume(&c->in, used);
}

/* What the local socket did not take goes first. True: nothing is left. */
static bool write_rest(struct sw_tconn *c)
{
    while (c->rest) {
        ssize_t n = sw_sock_write(c->local, sw_buf_data(c->rest), sw_buf_len(c->rest));

        if (n == SW_EAGAIN)
            return false;
        if (n < 0) {
            fail(c, SW_ECLOSED, "connection reset by the local side");
            return false;
        }
        sw_heapbuf_consume(&c->rest, (size_t)n);
        c->ops->on_moved(c, 0, (size_t)n);
        if (c->done)
            return false;
    }
    return true;
}

/* Hands the owner what it has not used yet. */
static void offer(struct sw_tconn *c)
{
    struct sw_slice held = c->rest ? sw_buf_slice(c->rest) : sw_slice("", 0);
    size_t used;

    if (c->finishing || (held.n == 0 && !(c->peer_end && !c->reported_end)))
        return;
    c->reported_end = c->peer_end;
    used = c->ops->on_bytes(c, held, c->peer_end);
    if (!c->done && c->rest)
        sw_heapbuf_consume(&c->rest, used);
}

/* ---- turns ---- */

static void on_again(struct sw_defer *d);

static void run_head(struct sw_tconn *c)
{
    bool more = true;

    /* What came is offered before the next read, which may find the connection cut. */
    offer(c);
    for (int i = 0; i < TURNS && more && !c->done && !c->peer_end && c->local < 0; i++) {
        more = (!c->rest || sw_buf_len(c->rest) < SW_TCONN_HEAD_MAX) && receive_batch(c);
        if (!c->done && c->local < 0)
            offer(c);
    }
}

static void run_relay(struct sw_tconn *c)
{
    bool up = true;
    bool down = true;

    for (int i = 0; i < TURNS && (up || down) && !c->done; i++) {
        up = up && send_batch(c);
        if (c->done)
            return;
        down = down && write_rest(c) && !c->peer_end && receive_batch(c);
    }
    if (c->done)
        return;
    if (c->peer_end && !c->reported_end && !c->rest) {
        c->reported_end = true;
        sw_sock_shutdown_write(c->local);
    }
    if (up || down)
        sw_loop_defer(c->loop, &c->again, on_again);
}

static void check_over(struct sw_tconn *c)
{
    if (c->done || sw_buf_len(&c->out))
        return;
    if (c->sent_end && ((c->finishing && c->peer_end) || (c->local >= 0 && c->reported_end)))
        end(c, SW_OK, NULL, false);
}

static void run(struct sw_tconn *c)
{
    if (c->done)
        return;
    if (c->working) {
        sw_loop_defer(c->loop, &c->again, on_again);
        return;
    }
    c->working = true;
    if (sw_buf_len(&c->out) && write_out(c) && c->sent_end)
        sw_sock_shutdown_write(c->fd);
    if (!c->done && c->local >= 0)
        run_relay(c);
    else if (!c->done)
        run_head(c);
    if (!c->done)
        flush_control(c);
    c->working = false;
    check_over(c);
}

static void on_again(struct sw_defer *d)
{
    run(SW_CONTAINER_OF(d, struct sw_tconn, again));
}

static void on_event(struct sw_watch *w, unsigned events)
{
    struct sw_tconn *c = SW_CONTAINER_OF(w, struct sw_tconn, watch);

    c->readable |= (events & SW_READ) != 0;
    c->hup |= (events & SW_HUP) != 0;
    run(c);
}

static void on_local_event(struct sw_watch *w, unsigned events)
{
    struct sw_tconn *c = SW_CONTAINER_OF(w, struct sw_tconn, local_watch);

    c->local_readable |= (events & SW_READ) != 0;
    c->local_hup |= (events & SW_HUP) != 0;
    run(c);
}

/* ---- what owners call ---- */

struct sw_tconn *sw_tconn_new(struct sw_loop *l, struct sw_session_parts *parts,
                              const struct sw_tconn_ops *ops, void *owner, struct sw_err *err)
{
    struct sw_tconn *c = SW_NEW(struct sw_tconn);

    *c = (struct sw_tconn){.loop = l,
                           .ops = ops,
                           .owner = owner,
                           .fd = SW_TAKE_FD(parts->fd),
                           .local = -1,
                           .tls = SW_TAKE(parts->tls),
                           .in = parts->in,
                           .out = parts->out,
                           .readable = parts->readable,
                           .hup = parts->hup};
    sw_buf_init(&parts->in, 0);
    sw_buf_init(&parts->out, 0);
    if (sw_watch_start(l, &c->watch, c->fd, on_event, err) == SW_OK)
        return c;
    sw_tconn_close(c, false);
    return NULL;
}

void *sw_tconn_owner(const struct sw_tconn *c)
{
    return c->owner;
}

void sw_tconn_start(struct sw_tconn *c)
{
    if (c->done)
        return;
    c->readable = true;
    if (!c->working) {
        c->working = true;
        open_kept(c);
        c->working = false;
    }
    run(c);
}

void sw_tconn_send(struct sw_tconn *c, struct sw_slice data)
{
    struct sw_scratch *sc = sw_scratch();
    size_t max = c->done ? 1 : sw_min(sw_tls_max_plain(c->tls), 16384);

    while (data.n && !c->done && !c->sent_end) {
        size_t n = sw_min(data.n, max);

        memcpy(sc->stage, data.p, n);
        send_sealed(c, sc->tx, sw_tls_seal(c->tls, sc->stage, n, sc->tx));
        data = sw_slice_from(data, n);
    }
}

void sw_tconn_join(struct sw_tconn *c, int fd)
{
    struct sw_err err = {0};

    c->local = fd;
    c->local_readable = true;
    c->reported_end = false; /* not passed to the socket yet */
    if (sw_watch_start(c->loop, &c->local_watch, fd, on_local_event, &err) != SW_OK)
        c->local_readable = c->local_hup = true; /* the next read or write says what is wrong */
    sw_loop_defer(c->loop, &c->again, on_again);
}

void sw_tconn_join_dialled(struct sw_tconn *c, struct sw_dialled *dialled)
{
    c->reported_end = false;
    c->local_hup = (dialled->events & SW_HUP) != 0;
    c->local_readable = true;
    c->local = SW_TAKE_FD(dialled->fd);
    sw_watch_move(&dialled->watch, &c->local_watch, on_local_event);
    sw_loop_defer(c->loop, &c->again, on_again);
}

static void on_linger(struct sw_timer *t)
{
    end(SW_CONTAINER_OF(t, struct sw_tconn, linger), SW_OK, NULL, false);
}

void sw_tconn_finish(struct sw_tconn *c)
{
    if (c->done || c->finishing)
        return;
    c->finishing = true;
    sw_heapbuf_free(&c->rest);
    sw_timer_start(c->loop, &c->linger, SW_CONN_LINGER_MS * SW_NS_PER_MS, on_linger);
    send_end(c);
    if (!c->done)
        sw_loop_defer(c->loop, &c->again, on_again);
}
