/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS and the life of a connection. One step function reads, lets the protocol work and writes
 * until it would block; callbacks only record and call it.
 */
#include <string.h>

#include "apiserver/front/front_int.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "tls/tlsbuf.h"

enum {
    STEPS_PER_WAKE = 64,
    READ_SIZE = 64 * 1024,
    WIRE_HIGH = 128 * 1024, /* sealed bytes waiting for the socket */
    WIRE_MAX = WIRE_HIGH + 2 * SW_TLS_SEAL_ROOM(SW_TLS_PLAIN_MAX) + SW_TLS_HANDSHAKE_OUT_MAX,
    PLAIN_IN = FRONT_H1_HEAD + 64 * 1024,
};
static const uint64_t linger_ns = 2 * SW_NS_PER_S;
static const uint64_t slice_ns = SW_NS_PER_MS / 2; /* of one connection's requests at a time */
static const uint64_t share_ns = SW_NS_PER_MS / 2; /* of one turn, for all of one user's */
static const uint64_t busy_ns = SW_NS_PER_MS;      /* of one turn, for those that need more */

static void conn_step(struct front_conn *c);
static void on_timeout(struct sw_timer *t);

void front_conn_free(struct front_conn *c)
{
    sw_list_unlink(&c->link);
    sw_list_unlink(&c->queued);
    sw_defer_cancel(&c->again);
    sw_defer_cancel(&c->reap);
    sw_timer_stop(c->front->loop, &c->timer);
    sw_h1_free(c->h1);
    sw_h2_free(c->h2);
    sw_tls_free(c->tls);
    sw_buf_done(&c->in);
    sw_buf_done(&c->plain);
    sw_buf_done(&c->out);
    sw_buf_done(&c->wire);
    sw_free(c);
}

static void on_reap(struct sw_defer *d)
{
    front_conn_free(SW_CONTAINER_OF(d, struct front_conn, reap));
}

void front_conn_close(struct front_conn *c)
{
    struct sw_front *f = c->front;

    if (c->state == CONN_DEAD)
        return;
    c->state = CONN_DEAD;
    sw_timer_stop(f->loop, &c->timer);
    sw_watch_stop(&c->watch);
    sw_sock_close(c->fd);
    c->fd = -1;
    while (!sw_list_empty(&c->xchgs))
        front_xchg_release(SW_CONTAINER_OF(c->xchgs.next, struct front_xchg, link));
    sw_list_unlink(&c->queued); /* may be in its share */
    front_share_close(c);
    sw_list_unlink(&c->link);
    sw_list_push_back(&f->dead, &c->link);
    f->nconns--;
    sw_loop_defer(f->loop, &c->reap, on_reap);
    front_maybe_stopped(f);
}

static void arm(struct front_conn *c, uint64_t ns)
{
    sw_timer_start(c->front->loop, &c->timer, ns, on_timeout);
}

bool front_conn_idle(const struct front_conn *c)
{
    return c->state == CONN_OPEN && c->nxchgs == 0 && sw_buf_len(&c->wire) == 0;
}

/* --- writing --- */

/* SW_OK when all sealed bytes are out. */
static int write_wire(struct front_conn *c)
{
    while (sw_buf_len(&c->wire)) {
        ssize_t n = sw_sock_write(c->fd, sw_buf_data(&c->wire), sw_buf_len(&c->wire));

        if (n < 0)
            return (int)n;
        sw_buf_consume(&c->wire, (size_t)n);
        c->progress_ns = sw_loop_now(c->front->loop);
    }
    return SW_OK;
}

/* Seals from one buffer until it is empty, enough is sealed, or there is no room for more. */
static int seal_from(struct front_conn *c, struct sw_buf *b)
{
    int rc = sw_tls_seal_buf(c->tls, b, &c->wire, WIRE_HIGH);

    return rc == SW_ELIMIT ? SW_EAGAIN : rc;
}

/* Finished with the exchange in front; the connection may take its next request. */
static void h1_answered(struct front_conn *c, struct front_xchg *x)
{
    bool close_after = x->close_after || c->front->stopping || x->pub.too_large;

    x->state = XCHG_DONE;
    front_xchg_release(x);
    if (close_after) {
        c->state = CONN_BYE;
        return;
    }
    sw_h1_reset(c->h1);
    arm(c, sw_buf_len(&c->plain) ? c->front->opts.head_timeout_ns : c->front->opts.idle_timeout_ns);
}

static int seal_h1(struct front_conn *c)
{
    struct front_xchg *x;
    int rc = seal_from(c, &c->out);

    if (rc != SW_OK || sw_list_empty(&c->xchgs))
        return rc;
    x = SW_CONTAINER_OF(c->xchgs.next, struct front_xchg, link);
    rc = seal_from(c, &x->out);
    if (rc != SW_OK)
        return rc;
    front_xchg_drained(x);
    if (c->state != CONN_OPEN || sw_list_empty(&c->xchgs) || sw_buf_len(&x->out))
        return SW_OK;
    if (x->state == XCHG_FLUSH)
        h1_answered(c, x);
    return SW_OK;
}

static void resume_stuck(struct front_conn *c)
{
    SW_LIST_FOREACH (it, &c->xchgs) {
        struct front_xchg *x = SW_CONTAINER_OF(it, struct front_xchg, link);

        if (x->stuck) {
            x->stuck = false;
            sw_h2_resume(c->h2, x->id);
        }
    }
}

/*
 * Answered before the request was complete: what is left of it is of no use (RFC 9113 8.1), nor is
 * the connection of who sends such things. Its other streams are served to their end.
 */
static void refuse_rest(struct front_conn *c)
{
    SW_LIST_FOREACH (it, &c->xchgs) {
        struct front_xchg *x = SW_CONTAINER_OF(it, struct front_xchg, link);

        if (!x->said_all)
            continue;
        x->said_all = false;
        sw_h2_reset(c->h2, x->id, SW_H2_NO_ERROR);
        sw_h2_goaway(c->h2, SW_H2_NO_ERROR);
        c->goaway = true;
    }
}

static int seal_h2(struct front_conn *c)
{
    struct sw_err err = {0};
    int rc;

    for (;;) {
        if (sw_buf_len(&c->out) == 0)
            resume_stuck(c);
        rc = sw_h2_flush(c->h2, &err);
        if (rc != SW_OK && rc != SW_EAGAIN)
            return rc;
        refuse_rest(c);
        if (sw_buf_len(&c->out) == 0)
            break;
        rc = seal_from(c, &c->out);
        if (rc != SW_OK || sw_buf_len(&c->wire) >= WIRE_HIGH)
            return rc;
    }
    SW_LIST_FOREACH (it, &c->xchgs)
        front_xchg_drained(SW_CONTAINER_OF(it, struct front_xchg, link));
    return SW_OK;
}

/* Moves answers to the socket. SW_OK: everything is out; SW_EAGAIN: the socket is full. */
static int flush(struct front_conn *c)
{
    int rc;

    for (;;) {
        rc = write_wire(c);
        if (rc != SW_OK)
            return rc;
        if (c->state == CONN_HANDSHAKE || c->state == CONN_LINGER)
            return SW_OK;
        sw_tls_flush_buf(c->tls, &c->wire);
        rc = c->h2 ? seal_h2(c) : seal_h1(c);
        if (rc != SW_OK)
            return rc == SW_EAGAIN ? SW_OK : rc;
        if (c->broken)
            return SW_ECLOSED;
        if (sw_buf_len(&c->wire) == 0)
            return SW_OK;
    }
}

/* --- reading --- */

static int handshake(struct front_conn *c)
{
    struct sw_err err = {0};
    size_t used = 0;
    int rc = sw_tls_handshake(c->tls, sw_buf_slice(&c->in), &used, &c->wire, &err);

    sw_buf_consume(&c->in, used);
    if (rc == SW_EAGAIN)
        return SW_EAGAIN;
    if (rc != SW_OK) {
        sw_log_debug("api", "TLS handshake failed: %s", err.msg);
        (void)write_wire(c);
        return SW_ECLOSED;
    }
    c->state = CONN_OPEN;
    if (strcmp(sw_tls_alpn(c->tls), "h2") == 0)
        front_h2_start(c);
    else
        c->h1 = sw_h1_new(SW_H1_REQUEST, &(struct sw_h1_limits){.line = (size_t)32 * 1024,
                                                                .head = FRONT_H1_HEAD,
                                                                .headers = 200});
    arm(c, c->front->opts.head_timeout_ns);
    return SW_OK;
}

/* Opens one record. */
static int open_record(struct front_conn *c)
{
    struct sw_slice plain;
    struct sw_err err = {0};
    size_t used = 0;
    int rc;

    if (c->h1 && sw_buf_len(&c->plain) + SW_TLS_PLAIN_MAX > c->plain.max)
        return SW_EAGAIN; /* pipelined more than we hold: wait for the answers */
    rc = sw_tls_open(c->tls, (uint8_t *)c->in.p + c->in.off, sw_buf_len(&c->in), &used, &plain,
                     &err);
    if (rc == SW_OK && plain.n) {
        if (c->h2)
            rc = front_h2_feed(c, plain);
        else
            rc = sw_buf_append_slice(&c->plain, plain);
    }
    if (rc == SW_EOF)
        c->eof = true;
    sw_buf_consume(&c->in, used);
    return rc;
}

/* SW_OK: something was done. */
static int step_open(struct front_conn *c)
{
    int rc = SW_EAGAIN;
    int h1 = SW_EAGAIN;

    if (sw_buf_len(&c->in) && !c->eof)
        rc = open_record(c);
    if (c->h1)
        h1 = front_h1_step(c);
    if (h1 != SW_OK && h1 != SW_EAGAIN)
        return h1;
    if (rc == SW_EPROTO && c->h2) {
        c->state = CONN_BYE;
        return SW_OK;
    }
    return h1 == SW_OK ? SW_OK : rc;
}

static int fill(struct front_conn *c)
{
    size_t want = sw_min(c->in.max - sw_buf_len(&c->in), READ_SIZE);
    char *to = c->readable && want ? sw_buf_reserve(&c->in, want) : NULL;
    ssize_t n;

    if (!c->readable && sw_buf_len(&c->in) == 0)
        sw_buf_done(&c->in);
    if (!to)
        return SW_EAGAIN;
    n = sw_sock_read(c->fd, to, want);
    if (n < 0) {
        c->readable = n != SW_EAGAIN;
        if (n == SW_EAGAIN && sw_buf_len(&c->in) == 0)
            sw_buf_done(&c->in);
        return (int)n;
    }
    /* Less than asked for: that was all, and more will be announced. The end was already. */
    c->readable = (size_t)n == want || c->hup;
    sw_buf_commit(&c->in, (size_t)n);
    return SW_OK;
}

static int step_linger(struct front_conn *c)
{
    char waste[4096];
    ssize_t n = sw_sock_read(c->fd, waste, sizeof(waste));

    if (n < 0)
        return (int)n;
    c->lingered += (size_t)n;
    return c->lingered > FRONT_LINGER ? SW_EOF : SW_OK;
}

/* Says goodbye once all is out, then waits a little for the peer to read it. */
static int step_bye(struct front_conn *c)
{
    int rc = flush(c);

    if (rc != SW_OK)
        return rc;
    sw_tls_close_buf(c->tls, &c->wire);
    (void)write_wire(c);
    sw_sock_shutdown_write(c->fd);
    c->state = CONN_LINGER;
    arm(c, linger_ns);
    return SW_OK;
}

static int step_once(struct front_conn *c)
{
    int rc;

    switch (c->state) {
    case CONN_HANDSHAKE:
        rc = sw_buf_len(&c->in) ? handshake(c) : SW_EAGAIN;
        if (rc == SW_EAGAIN) {
            rc = write_wire(c);
            if (rc == SW_OK || rc == SW_EAGAIN)
                rc = fill(c);
        }
        return rc;
    case CONN_OPEN:
        rc = step_open(c);
        if (rc == SW_EAGAIN && !c->eof)
            rc = fill(c);
        return rc;
    case CONN_BYE:
        return step_bye(c);
    case CONN_LINGER:
        return step_linger(c);
    case CONN_DEAD:
        break;
    }
    return SW_EAGAIN;
}

/* Deadlines that depend on what the connection is waiting for. */
static void set_timer(struct front_conn *c, int flushed)
{
    if (c->state != CONN_OPEN && c->state != CONN_BYE)
        return;
    if (flushed == SW_EAGAIN) {
        if (!sw_timer_running(&c->timer))
            arm(c, c->front->opts.write_timeout_ns);
    } else if (c->nxchgs == 0) {
        if (!sw_timer_running(&c->timer))
            arm(c, c->front->opts.idle_timeout_ns);
    } else {
        struct front_xchg *x = SW_CONTAINER_OF(c->xchgs.next, struct front_xchg, link);

        if (x->state != XCHG_READ)
            sw_timer_stop(c->front->loop, &c->timer);
        else if (!sw_timer_running(&c->timer))
            arm(c, c->front->opts.body_timeout_ns);
    }
}

/* What connections ask for above their share of a turn waits here; users take turns. */
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
                conn_step(c);
        } while (c && sw_now_ns() < until);
    }
    if (!sw_list_empty(&f->busy))
        sw_loop_defer(f->loop, &f->busy_defer, on_busy);
}

static void wait_turn(struct front_conn *c)
{
    struct sw_front *f = c->front;

    front_share_wait(c);
    sw_loop_defer(f->loop, &f->busy_defer, on_busy);
}

/* Its own end alone may take long, or its user had enough of this turn: others come first. */
static bool must_wait(const struct front_conn *c)
{
    return c->state == CONN_OPEN &&
           (c->nxchgs > FRONT_BUSY_STREAMS || front_share_spent(c) >= share_ns);
}

static void on_again(struct sw_defer *d)
{
    struct front_conn *c = SW_CONTAINER_OF(d, struct front_conn, again);

    if (!sw_list_linked(&c->queued) && c->state == CONN_OPEN && front_share_spent(c) >= share_ns)
        wait_turn(c); /* to read; what is answered goes out now */
    conn_step(c);
}

static bool h2_over(const struct front_conn *c)
{
    return c->h2 && c->nxchgs == 0 && (c->goaway || sw_h2_finished(c->h2));
}

/* The next request is here already and the one before it was answered while flushing. */
static bool request_waits(const struct front_conn *c)
{
    return c->h1 && c->state == CONN_OPEN && c->nxchgs == 0 && sw_buf_len(&c->plain) &&
           sw_h1_idle(c->h1);
}

static void conn_step(struct front_conn *c)
{
    uint64_t begin = sw_now_ns();
    uint64_t until = begin + slice_ns;
    bool open = c->state == CONN_OPEN;
    int rc = sw_list_linked(&c->queued) ? SW_EAGAIN : SW_OK; /* its turn to read comes */
    int out = SW_OK;

    if (c->in_step || c->state == CONN_DEAD)
        return;
    c->in_step = true;
    for (int i = 0; i < STEPS_PER_WAKE && rc == SW_OK && sw_now_ns() < until; i++)
        rc = step_once(c);
    if (c->state == CONN_OPEN)
        out = flush(c);
    c->in_step = false;
    if (open && c->state != CONN_DEAD)
        front_share_spend(c, sw_now_ns() - begin);
    if ((rc != SW_OK && rc != SW_EAGAIN) || (out != SW_OK && out != SW_EAGAIN) || c->broken) {
        front_conn_close(c);
        return;
    }
    if (c->state == CONN_OPEN && (c->eof || h2_over(c)) && c->nxchgs == 0) {
        c->state = CONN_BYE;
        rc = SW_OK;
    } else if (c->eof && c->state == CONN_OPEN) {
        front_conn_close(c); /* nobody is left to read what would come */
        return;
    }
    set_timer(c, out);
    if (rc == SW_OK && c->state == CONN_OPEN && sw_now_ns() >= until)
        wait_turn(c);
    else if (rc == SW_OK || c->state == CONN_BYE || request_waits(c))
        sw_loop_defer(c->front->loop, &c->again, on_again);
}

void front_wake(struct front_conn *c)
{
    if (!c->in_step && c->state != CONN_DEAD)
        sw_loop_defer(c->front->loop, &c->again, on_again);
}

/* Handshakes cost most of what strangers can ask for: a few in one turn of the loop. */
static bool greets_now(struct front_conn *c)
{
    struct sw_front *f = c->front;

    if (c->state != CONN_HANDSHAKE)
        return true;
    if (f->greet_ns != sw_loop_now(f->loop)) {
        f->greet_ns = sw_loop_now(f->loop);
        f->greeted = 0;
    }
    return f->greeted++ < FRONT_HANDSHAKES;
}

static void on_greet(struct sw_defer *d)
{
    struct sw_front *f = SW_CONTAINER_OF(d, struct sw_front, greet);

    while (!sw_list_empty(&f->greeting)) {
        struct front_conn *c = SW_CONTAINER_OF(f->greeting.next, struct front_conn, queued);

        if (!greets_now(c))
            break;
        sw_list_unlink(&c->queued);
        conn_step(c);
    }
    if (!sw_list_empty(&f->greeting))
        sw_loop_defer(f->loop, &f->greet, on_greet);
}

static void on_conn(struct sw_watch *w, unsigned events)
{
    struct front_conn *c = SW_CONTAINER_OF(w, struct front_conn, watch);
    struct sw_front *f = c->front;

    c->readable |= (events & SW_READ) != 0;
    c->hup |= (events & SW_HUP) != 0;
    c->active_ns = sw_loop_now(f->loop);
    if (sw_list_linked(&c->queued))
        return;
    if (must_wait(c)) {
        wait_turn(c);
        return;
    }
    if (sw_list_empty(&f->greeting) ? greets_now(c) : c->state != CONN_HANDSHAKE) {
        conn_step(c);
        return;
    }
    sw_list_push_back(&f->greeting, &c->queued);
    sw_loop_defer(f->loop, &f->greet, on_greet);
}

static void on_timeout(struct sw_timer *t)
{
    struct front_conn *c = SW_CONTAINER_OF(t, struct front_conn, timer);
    uint64_t quiet = sw_loop_now(c->front->loop) - c->progress_ns;

    /* A slow reader that takes something now and then may stay. */
    if (c->state == CONN_OPEN && c->nxchgs && sw_buf_len(&c->wire) &&
        quiet < c->front->opts.write_timeout_ns) {
        arm(c, c->front->opts.write_timeout_ns - quiet);
        return;
    }
    if (front_conn_idle(c) && c->h2) {
        sw_h2_goaway(c->h2, SW_H2_NO_ERROR);
        c->state = CONN_BYE;
        conn_step(c);
        return;
    }
    if (sw_buf_len(&c->wire))
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
    c->front = f;
    c->fd = fd;
    c->tls = tls;
    c->peer = *peer;
    c->readable = true;
    c->active_ns = sw_loop_now(f->loop);
    front_share_open(c);
    sw_buf_init(&c->in, (size_t)2 * READ_SIZE);
    sw_buf_init(&c->plain, PLAIN_IN);
    sw_buf_init(&c->out, FRONT_PLAIN_MAX);
    sw_buf_init(&c->wire, WIRE_MAX);
    sw_list_init(&c->xchgs);
    sw_list_push_back(&f->conns, &c->link);
    f->nconns++;
    arm(c, f->opts.head_timeout_ns);
    sw_sock_tune(fd, &(struct sw_sock_opts){.keepalive = true,
                                            .keepalive_time_s = 60,
                                            .keepalive_interval_s = 15,
                                            .keepalive_retries = 4,
                                            .netns_fd = -1});
    if (sw_watch_start(f->loop, &c->watch, fd, on_conn, &err) != SW_OK) {
        sw_log_warn("api", "connection dropped: %s", err.msg);
        front_conn_close(c);
        return;
    }
    sw_list_push_back(&f->greeting, &c->queued);
    sw_loop_defer(f->loop, &f->greet, on_greet);
}
