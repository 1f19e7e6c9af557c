/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a connection on io/conn: turns to read, output, deadlines, the end. */
#include <string.h>

#include "apiserver/front/front_int.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/h2_body.h"
#include "io/sock.h"
#include "tls/connfilter.h"

enum {
    READ_TURN = 64 * 1024,
    KEPT_MAX = FRONT_H1_HEAD + 64 * 1024, /* pipelined: more waits for the answers */
    FEED = 16 * 1024,                     /* given to HTTP/2 between two looks at the clock */
};
static const uint64_t slice_ns = SW_NS_PER_MS / 2; /* of one connection's requests at a time */
static const uint64_t share_ns = SW_NS_PER_MS / 2; /* of one turn, for all of one user's */
static const uint64_t busy_ns = SW_NS_PER_MS;      /* of one turn, for those that need more */

static void on_timeout(struct sw_timer *t);

static struct front_conn *conn_of(struct sw_conn *io)
{
    return SW_CONTAINER_OF(io, struct front_conn, io);
}

void front_conn_free(struct front_conn *c)
{
    sw_conn_done(&c->io);
    sw_list_unlink(&c->link);
    sw_list_unlink(&c->queued);
    sw_defer_cancel(&c->again);
    sw_timer_stop(c->front->loop, &c->timer);
    sw_h1_free(c->h1);
    sw_h2_free(c->h2);
    sw_free(c);
}

void front_conn_close(struct front_conn *c)
{
    struct sw_front *f = c->front;

    if (c->state == CONN_DEAD)
        return;
    c->state = CONN_DEAD;
    sw_timer_stop(f->loop, &c->timer);
    sw_conn_close(&c->io, false); /* on_free follows */
    while (!sw_list_empty(&c->xchgs))
        front_xchg_release(SW_CONTAINER_OF(c->xchgs.next, struct front_xchg, link));
    sw_list_unlink(&c->queued); /* may be in its share */
    front_share_close(c);
    sw_list_unlink(&c->link);
    sw_list_push_back(&f->dead, &c->link);
    f->nconns--;
    front_maybe_stopped(f);
}

static void on_free(struct sw_conn *io)
{
    front_conn_close(conn_of(io)); /* after a linger */
    front_conn_free(conn_of(io));
}

static void on_fail(struct sw_conn *io, const struct sw_err *err)
{
    struct front_conn *c = conn_of(io);

    if (c->state == CONN_HANDSHAKE)
        sw_log_debug("api", "TLS handshake failed: %s", err->msg);
    else if (err->rc == SW_ETIME)
        c->front->counts.unread++;
    front_conn_close(c);
}

/* The answer is complete: linger until the client has read it. */
static void close_lingering(struct front_conn *c)
{
    struct sw_err err = {0};

    c->state = CONN_LINGER;
    sw_timer_stop(c->front->loop, &c->timer);
    sw_list_unlink(&c->queued);
    if (c->h2)
        (void)!sw_h2_flush(c->h2, &err); /* GOAWAY */
    sw_conn_close_flushed(&c->io);
}

static void arm(struct front_conn *c, uint64_t ns)
{
    sw_timer_start(c->front->loop, &c->timer, ns, on_timeout);
}

bool front_conn_idle(const struct front_conn *c)
{
    return c->state == CONN_OPEN && c->nxchgs == 0 && sw_conn_unsent(&c->io) == 0;
}

/* --- writing --- */

/* Finished with the exchange in front; the connection may take its next request. */
static void h1_answered(struct front_conn *c, struct front_xchg *x)
{
    bool close_after = x->close_after || c->front->stopping || x->pub.too_large;

    x->state = XCHG_DONE;
    front_xchg_release(x);
    if (close_after) {
        close_lingering(c);
        return;
    }
    sw_h1_reset(c->h1);
    arm(c,
        sw_conn_unused(&c->io) ? c->front->opts.head_timeout_ns : c->front->opts.idle_timeout_ns);
}

static int flush_h1(struct front_conn *c)
{
    struct front_xchg *x;

    if (sw_list_empty(&c->xchgs))
        return SW_OK;
    x = SW_CONTAINER_OF(c->xchgs.next, struct front_xchg, link);
    while (sw_buf_len(&x->out)) {
        size_t unsent = sw_conn_unsent(&c->io);
        size_t n = sw_min(sw_buf_len(&x->out), SW_H2_UNSENT_MAX - sw_min(SW_H2_UNSENT_MAX, unsent));

        sw_conn_put(&c->io, sw_buf_data(&x->out), n);
        sw_buf_consume(&x->out, n);
        if (sw_buf_len(&x->out) == 0)
            break;
        if (!sw_conn_flush(&c->io)) {
            front_xchg_account(x);
            return SW_EAGAIN; /* on_drained comes */
        }
    }
    front_xchg_drained(x);
    if (c->state == CONN_OPEN && !sw_list_empty(&c->xchgs) && sw_buf_len(&x->out) == 0 &&
        x->state == XCHG_FLUSH)
        h1_answered(c, x);
    return SW_OK;
}

static void resume_stuck(struct front_conn *c)
{
    c->stuck = false;
    SW_LIST_EACH (struct front_xchg, x, &c->xchgs, link) {
        if (x->stuck) {
            x->stuck = false;
            sw_h2_resume(c->h2, x->id);
        }
    }
}

/*
 * Answered before the request was complete: the rest of it is of no use (RFC 9113 8.1), nor is a
 * connection whose client sends such requests. Its other streams are served to their end.
 */
static bool refuse_rest(struct front_conn *c)
{
    bool any = false;

    SW_LIST_EACH (struct front_xchg, x, &c->xchgs, link) {
        if (!x->sent_all)
            continue;
        x->sent_all = false;
        sw_h2_reset(c->h2, x->id, SW_H2_NO_ERROR);
        sw_h2_goaway(c->h2, SW_H2_NO_ERROR);
        c->goaway = any = true;
    }
    return any;
}

static int flush_h2(struct front_conn *c)
{
    struct sw_err err = {0};
    bool again;
    int rc;

    do {
        if (c->stuck)
            resume_stuck(c);
        rc = sw_h2_flush(c->h2, &err);
        if (rc != SW_OK && rc != SW_EAGAIN)
            return rc;
        again = refuse_rest(c);
        if (rc == SW_EAGAIN || c->stuck) {
            if (!sw_conn_flush(&c->io))
                return SW_EAGAIN; /* on_drained comes */
            again = true;
        }
    } while (again);
    SW_LIST_FOREACH (it, &c->xchgs)
        front_xchg_drained(SW_CONTAINER_OF(it, struct front_xchg, link));
    return SW_OK;
}

/* The request whose body is awaited longest; NULL: none. */
static struct front_xchg *first_reading(const struct front_conn *c)
{
    SW_LIST_EACH (struct front_xchg, x, &c->xchgs, link) {
        if (x->state == XCHG_READ)
            return x;
    }
    return NULL;
}

/* Deadlines that depend on what the connection is waiting for. */
static void set_timer(struct front_conn *c)
{
    if (c->nxchgs == 0) {
        if (!sw_timer_running(&c->timer))
            arm(c, c->front->opts.idle_timeout_ns);
    } else {
        const struct front_xchg *x = first_reading(c);
        uint64_t now = sw_loop_now(c->front->loop);
        uint64_t at = x ? x->since_ns + c->front->opts.body_timeout_ns : 0;

        if (!x)
            sw_timer_stop(c->front->loop, &c->timer);
        else if (!sw_timer_running(&c->timer) || c->timer.deadline_ns != at)
            arm(c, at > now ? at - now : 0);
    }
}

/* HTTP/2: resets the requests whose body is late. False: there is none. */
static bool reset_late(struct front_conn *c)
{
    uint64_t now = sw_loop_now(c->front->loop);
    bool any = false;

    SW_LIST_EACH (struct front_xchg, x, &c->xchgs, link) {
        if (c->h2 && x->state == XCHG_READ && now - x->since_ns >= c->front->opts.body_timeout_ns) {
            sw_h2_reset(c->h2, x->id, SW_H2_CANCEL);
            x->state = XCHG_DONE; /* the reset waits as long as the client reads nothing */
            any = true;
        }
    }
    return any;
}

static bool h2_over(const struct front_conn *c)
{
    return c->h2 && c->nxchgs == 0 && (c->goaway || sw_h2_finished(c->h2));
}

/* The next request is here already and the one before it was answered while flushing. */
static bool request_waits(const struct front_conn *c)
{
    return c->h1 && c->nxchgs == 0 && sw_conn_unused(&c->io) && sw_h1_idle(c->h1) &&
           !sw_list_linked(&c->queued);
}

/* Moves answers on; then what follows from them, and from what was read before. */
static void advance(struct front_conn *c)
{
    int rc;

    if (c->in_step || c->state != CONN_OPEN)
        return;
    c->in_step = true;
    rc = c->h2 ? flush_h2(c) : flush_h1(c);
    c->in_step = false;
    if ((rc != SW_OK && rc != SW_EAGAIN) || c->broken) {
        front_conn_close(c);
        return;
    }
    if (c->state != CONN_OPEN)
        return;
    if ((c->eof || h2_over(c)) && c->nxchgs == 0) {
        close_lingering(c);
    } else if (c->eof) {
        front_conn_close(c); /* the client is gone: it would read no answer */
    } else {
        set_timer(c);
        if (request_waits(c))
            sw_conn_resume(&c->io);
    }
}

/* The same, at the expense of its user. */
static void advance_paid(struct front_conn *c)
{
    uint64_t begin = sw_now_ns();

    advance(c);
    if (c->state != CONN_DEAD)
        front_share_spend(c, sw_now_ns() - begin);
}

static void on_again(struct sw_defer *d)
{
    advance_paid(SW_CONTAINER_OF(d, struct front_conn, again));
}

void front_wake(struct front_conn *c)
{
    if (!c->in_step && c->state == CONN_OPEN)
        sw_loop_defer(c->front->loop, &c->again, on_again);
}

static void on_drained(struct sw_conn *io)
{
    advance_paid(conn_of(io));
}

/* --- turns --- */

/* Reads and delivers; io tells what comes of it. */
static void go_on(struct front_conn *c)
{
    c->begin_ns = sw_now_ns();
    sw_conn_resume_now(&c->io);
}

/* Work of connections above their share of a turn waits here; users take turns. */
static void on_busy(struct sw_defer *d)
{
    struct sw_front *f = SW_CONTAINER_OF(d, struct sw_front, busy_defer);
    uint64_t until = sw_now_ns() + busy_ns;
    struct front_conn *c;

    if (f->busy_turn_ns != sw_loop_now(f->loop)) { /* once in a turn */
        f->busy_turn_ns = sw_loop_now(f->loop);
        do {
            c = front_share_next(f);
            if (c)
                go_on(c);
        } while (c && sw_now_ns() < until);
    }
    if (!sw_list_empty(&f->busy))
        sw_loop_defer(f->loop, &f->busy_defer, on_busy);
}

/* To read; what is answered leaves meanwhile. */
static void wait_turn(struct front_conn *c)
{
    struct sw_front *f = c->front;

    sw_conn_pause(&c->io);
    front_share_wait(c);
    sw_loop_defer(f->loop, &f->busy_defer, on_busy);
}

/* Its own end alone may take long, or its user had enough of this turn: others come first. */
static bool must_wait(const struct front_conn *c)
{
    return c->state == CONN_OPEN &&
           (c->nxchgs > FRONT_BUSY_STREAMS || front_share_spent(c) >= share_ns);
}

/* Handshakes are the costliest work for clients that are not authenticated: a few per turn. */
static bool may_handshake(struct front_conn *c)
{
    struct sw_front *f = c->front;

    if (c->state != CONN_HANDSHAKE)
        return true;
    if (f->handshake_until_ns != sw_loop_now(f->loop)) {
        f->handshake_until_ns = sw_loop_now(f->loop);
        f->n_handshakes = 0;
    }
    return f->n_handshakes++ < FRONT_HANDSHAKES;
}

static void on_handshakes(struct sw_defer *d)
{
    struct sw_front *f = SW_CONTAINER_OF(d, struct sw_front, handshakes_defer);

    while (!sw_list_empty(&f->handshakes)) {
        struct front_conn *c = SW_CONTAINER_OF(f->handshakes.next, struct front_conn, queued);

        if (!may_handshake(c))
            break;
        sw_list_unlink(&c->queued);
        go_on(c);
    }
    if (!sw_list_empty(&f->handshakes))
        sw_loop_defer(f->loop, &f->handshakes_defer, on_handshakes);
}

static bool on_ready(struct sw_conn *io)
{
    struct front_conn *c = conn_of(io);
    struct sw_front *f = c->front;

    c->active_ns = sw_loop_now(f->loop);
    if (sw_list_linked(&c->queued))
        return false;
    if (must_wait(c)) {
        wait_turn(c);
        return false;
    }
    if (sw_list_empty(&f->handshakes) ? may_handshake(c) : c->state != CONN_HANDSHAKE) {
        c->begin_ns = sw_now_ns();
        return true;
    }
    sw_list_push_back(&f->handshakes, &c->queued);
    sw_loop_defer(f->loop, &f->handshakes_defer, on_handshakes);
    return false;
}

/* --- reading --- */

static void on_open(struct sw_conn *io)
{
    struct front_conn *c = conn_of(io);

    c->state = CONN_OPEN;
    if (strcmp(sw_tls_alpn(sw_tls_of(io->filter)), "h2") == 0)
        front_h2_start(c);
    else
        c->h1 = sw_h1_new(SW_H1_REQUEST, &(struct sw_h1_limits){.line = (size_t)32 * 1024,
                                                                .head = FRONT_H1_HEAD,
                                                                .headers = 200});
    arm(c, c->front->opts.head_timeout_ns);
    front_wake(c); /* HTTP/2: SETTINGS */
}

/* One step. SW_EAGAIN: needs bytes, or the answer first. */
static int feed(struct front_conn *c, struct sw_slice in, size_t *used)
{
    *used = 0;
    if (c->h1)
        return front_h1_step(c, in, used);
    *used = sw_min(in.n, FEED);
    return front_h2_feed(c, sw_slice_head(in, *used));
}

static size_t on_bytes(struct sw_conn *io, struct sw_slice in)
{
    struct front_conn *c = conn_of(io);
    size_t at = 0;
    bool late;
    int rc;

    c->in_step = true;
    do {
        size_t used;

        rc = feed(c, sw_slice_from(in, at), &used);
        at += used;
        /* Behind the last byte HTTP/1 may have the end of a request: it does not come again. */
        late = sw_now_ns() - c->begin_ns >= slice_ns && (at < in.n || c->h2);
    } while (rc == SW_OK && !late && (at < in.n || c->h1) && !c->broken);
    c->in_step = false;
    if (rc == SW_EPROTO && c->h2)
        close_lingering(c);
    else if ((rc != SW_OK && rc != SW_EAGAIN) || c->broken)
        front_conn_close(c);
    else if (rc == SW_OK && late)
        wait_turn(c);
    return at;
}

static void on_batch(struct sw_conn *io, size_t wire)
{
    struct front_conn *c = conn_of(io);

    advance(c);
    if (c->state != CONN_DEAD)
        front_share_spend(c, sw_now_ns() - c->begin_ns);
}

static void on_eof(struct sw_conn *io)
{
    conn_of(io)->eof = true;
    advance(conn_of(io));
}

static const struct sw_conn_ops io_ops = {
    .on_open = on_open,
    .on_ready = on_ready,
    .on_bytes = on_bytes,
    .on_batch = on_batch,
    .on_eof = on_eof,
    .on_drained = on_drained,
    .on_fail = on_fail,
    .on_free = on_free,
};

static void on_timeout(struct sw_timer *t)
{
    struct front_conn *c = SW_CONTAINER_OF(t, struct front_conn, timer);

    if (front_conn_idle(c) && c->h2) {
        sw_h2_goaway(c->h2, SW_H2_NO_ERROR);
        close_lingering(c);
        return;
    }
    if (c->state == CONN_OPEN && reset_late(c)) {
        advance(c);
        return;
    }
    if (sw_conn_unsent(&c->io))
        c->front->counts.unread++;
    front_conn_close(c);
}

void front_conn_open(struct sw_front *f, int fd, const struct sw_addr *peer)
{
    struct sw_tls_params p = {.server = true,
                              .tls12 = true,
                              .chacha = true,
                              .web = true,
                              .cred = f->opts.cred,
                              .alpn = "h2,http/1.1"};
    struct sw_err err = {0};
    struct sw_conn_opts o = {.ops = &io_ops};
    struct front_conn *c;
    struct sw_tls *tls;

    if (f->stopping || !front_share_room(f, peer)) {
        sw_sock_close(fd);
        return;
    }
    tls = sw_tls_new(&p, &err);
    if (!tls) {
        sw_log_warn("api", "connection dropped: %s", err.msg);
        sw_sock_close(fd);
        return;
    }
    c = SW_NEW(struct front_conn);
    o.filter = sw_tls_filter(tls);
    if (sw_conn_init(&c->io, f->loop, fd, &o, &err) != SW_OK) {
        sw_log_warn("api", "connection dropped: %s", err.msg);
        sw_free(c);
        return;
    }
    c->io.deferred_output = true;
    c->io.in_max = KEPT_MAX;
    c->io.read_max = READ_TURN;
    c->io.stall_ms = (uint32_t)(f->opts.write_timeout_ns / SW_NS_PER_MS);
    c->front = f;
    c->peer = *peer;
    c->active_ns = sw_loop_now(f->loop);
    front_share_open(c);
    sw_list_init(&c->xchgs);
    sw_list_push_back(&f->conns, &c->link);
    f->nconns++;
    arm(c, f->opts.head_timeout_ns);
    sw_sock_tune(fd, &(struct sw_sock_opts){.keepalive = true,
                                            .keepalive_time_s = 60,
                                            .keepalive_interval_s = 15,
                                            .keepalive_retries = 4,
                                            .netns_fd = -1});
}
