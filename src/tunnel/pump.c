/* SPDX-License-Identifier: Apache-2.0 */
#include "tunnel/pump.h"

#include "base/mem.h"
#include "io/sock.h"
#include "tunnel/scratch.h"

enum {
    COPY_MAX = 64 * 1024,  /* one read of the copying path */
    BULK_FROM = 32 * 1024, /* a read this large turns splicing on */
    BULK_UNTIL = 4 * 1024, /* a wake-up this small turns it off again */
    GROW_AFTER = 4,        /* full pipes before one is enlarged */
    SPLICE_MAX = 1 << 20,  /* kept in a pipe */
    TURN_BUDGET = 4 << 20, /* bytes moved per direction before others get a turn */
};

static void close_side(struct sw_pump_side *s, bool reset)
{
    sw_watch_stop(&s->watch);
    s->pipe = sw_pipe_put(s->pipe);
    sw_heapbuf_free(&s->rest);
    if (s->fd >= 0 && reset && !s->broken)
        sw_sock_set_reset(s->fd);
    sw_sock_close(SW_TAKE_FD(s->fd));
}

void sw_pump_stop(struct sw_pump *p, bool reset)
{
    if (!p->loop)
        return;
    p->done = true;
    sw_defer_cancel(&p->again);
    close_side(&p->side[0], reset);
    close_side(&p->side[1], reset);
}

static void finish(struct sw_pump *p, int rc)
{
    sw_pump_stop(p, rc != SW_OK);
    p->ops->on_done(p, rc);
}

/* Each mover returns bytes moved, SW_EAGAIN (wait), SW_EOF or a failure. */

/* What a short write left behind goes first. */
static ssize_t write_rest(struct sw_pump_side *from, struct sw_pump_side *to)
{
    ssize_t n = sw_sock_write(to->fd, sw_buf_data(from->rest), sw_buf_len(from->rest));

    if (n < 0)
        return n;
    sw_heapbuf_consume(&from->rest, (size_t)n);
    return n || !from->rest ? n : SW_EAGAIN;
}

static void keep_rest(struct sw_pump_side *from, const uint8_t *p, size_t n)
{
    from->rest = sw_heapbuf_new(COPY_MAX);
    (void)!sw_buf_append(from->rest, p, n); /* n <= COPY_MAX */
}

static ssize_t copy_some(struct sw_pump_side *from, struct sw_pump_side *to)
{
    uint8_t *buf = sw_scratch()->rx;
    ssize_t n;
    ssize_t w;

    if (from->broken)
        return SW_ECLOSED;
    if (!from->readable)
        return SW_EAGAIN;
    n = sw_sock_read(from->fd, buf, COPY_MAX);
    if (n == SW_EAGAIN)
        from->readable = false;
    if (n == SW_ECLOSED)
        from->broken = true; /* its close needs no reset */
    if (n < 0)
        return n;
    /* A short read emptied the socket; an end behind it has its own event. */
    if (n < COPY_MAX && !from->hup)
        from->readable = false;
    if (n >= BULK_FROM && !from->urgent)
        from->bulk = true;
    w = sw_sock_write(to->fd, buf, (size_t)n);
    if (w < 0 && w != SW_EAGAIN)
        return w;
    if (w < n)
        keep_rest(from, buf + (w > 0 ? w : 0), (size_t)(n - (w > 0 ? w : 0)));
    return w > 0 ? w : SW_EAGAIN;
}

static ssize_t splice_in(struct sw_pump_side *from)
{
    ssize_t n;

    if (!from->pipe) {
        from->pipe = sw_pipe_get();
        if (!from->pipe) { /* out of descriptors: copying needs none */
            from->bulk = false;
            return 0;
        }
    }
    /* A pipe counts pages, and one of them may be 32 KiB large: the bytes need their own bound. */
    if (from->pipe->n >= SPLICE_MAX)
        return 0;
    n = sw_pipe_fill(from->pipe, from->fd, SPLICE_MAX - from->pipe->n);
    if (n == SW_EAGAIN)
        from->readable = false;
    if (n == SW_ECLOSED || n == SW_ESYS)
        from->broken = true; /* the kernel reports it once only */
    if (n >= (ssize_t)from->pipe->cap / 2 && ++from->grow >= GROW_AFTER)
        sw_pipe_grow(from->pipe);
    return n == SW_ELIMIT ? 0 : n;
}

static ssize_t drain_pipe(struct sw_pump_side *from, struct sw_pump_side *to)
{
    ssize_t out = SW_EAGAIN;

    if (from->pipe && from->pipe->n)
        out = sw_pipe_drain(from->pipe, to->fd);
    if (from->pipe && from->pipe->n == 0)
        from->pipe = sw_pipe_put(from->pipe);
    return out;
}

static ssize_t splice_some(struct sw_pump_side *from, struct sw_pump_side *to)
{
    ssize_t in = SW_EAGAIN;
    ssize_t out;

    if (from->broken)
        in = SW_ECLOSED;
    else if (from->readable)
        in = splice_in(from);
    out = drain_pipe(from, to);
    if (out != SW_EAGAIN)
        return out;
    /* An end seen while bytes wait in the pipe shows again on the next read. */
    return from->pipe && from->pipe->n ? SW_EAGAIN : in;
}

static ssize_t move_some(struct sw_pump_side *from, struct sw_pump_side *to)
{
    if (from->rest)
        return write_rest(from, to);
    if (from->urgent && from->pipe)
        return drain_pipe(from, to);
    if (from->bulk || from->pipe)
        return splice_some(from, to);
    return copy_some(from, to);
}

/* Runs one direction until it blocks. Returns SW_OK, or SW_ECLOSED when the pump must end. */
static int run_side(struct sw_pump *p, int i)
{
    struct sw_pump_side *from = &p->side[i];
    struct sw_pump_side *to = &p->side[1 - i];
    size_t moved = 0;
    ssize_t n = 0;

    while (!from->eof && moved < TURN_BUDGET) {
        n = move_some(from, to);
        if (n < 0)
            break;
        moved += (size_t)n;
    }
    if (moved)
        p->ops->on_moved(p, i, moved);
    if (p->done)
        return SW_OK;
    if (from->bulk && moved < BULK_UNTIL)
        from->bulk = false;
    if (moved >= TURN_BUDGET)
        return SW_EAGAIN;
    if (n == SW_EOF) {
        from->eof = true;
        sw_sock_shutdown_write(to->fd);
    } else if (n < 0 && n != SW_EAGAIN) {
        return SW_ECLOSED;
    }
    return SW_OK;
}

static void on_again(struct sw_defer *d);

static void run(struct sw_pump *p)
{
    for (int i = 0; i < 2; i++) {
        int rc = run_side(p, i);

        if (p->done)
            return; /* stopped from 'moved' */
        if (rc == SW_ECLOSED) {
            finish(p, SW_ECLOSED);
            return;
        }
        if (rc == SW_EAGAIN)
            sw_loop_defer(p->loop, &p->again, on_again);
    }
    if (p->side[0].eof && p->side[1].eof)
        finish(p, SW_OK);
}

static void on_again(struct sw_defer *d)
{
    struct sw_pump *p = SW_CONTAINER_OF(d, struct sw_pump, again);

    if (!p->done)
        run(p);
}

static void on_event(struct sw_pump *p, int i, unsigned events)
{
    if (events & SW_READ)
        p->side[i].readable = true;
    if (events & SW_HUP)
        p->side[i].hup = true;
    if (events & SW_URGENT) {
        p->side[i].urgent = true;
        p->side[i].bulk = false;
    }
    run(p);
}

static void on_event0(struct sw_watch *w, unsigned events)
{
    on_event(SW_CONTAINER_OF(w, struct sw_pump, side[0].watch), 0, events);
}

static void on_event1(struct sw_watch *w, unsigned events)
{
    on_event(SW_CONTAINER_OF(w, struct sw_pump, side[1].watch), 1, events);
}

int sw_pump_start(struct sw_pump *p, struct sw_loop *l, int fd0, struct sw_dialled *dialled,
                  const struct sw_pump_ops *ops, struct sw_err *err)
{
    ssize_t n;
    int rc;

    *p = (struct sw_pump){.loop = l, .ops = ops};
    p->side[0] = (struct sw_pump_side){.fd = fd0, .readable = true};
    p->side[1] = (struct sw_pump_side){
        .fd = dialled->fd,
        .readable = dialled->events & SW_READ,
        .hup = dialled->events & SW_HUP,
        .urgent = dialled->events & SW_URGENT,
    };
    sw_watch_move(&dialled->watch, &p->side[1].watch, on_event1);
    /*
     * The client has usually spoken by now: its bytes go out before the registration, which then
     * has nothing to report.
     */
    n = copy_some(&p->side[0], &p->side[1]);
    if (n > 0)
        ops->on_moved(p, 0, (size_t)n);
    else if (n != SW_EAGAIN)
        sw_loop_defer(l, &p->again, on_again);           /* an end shows again there */
    p->side[0].broken = n == SW_ECLOSED || n == SW_ESYS; /* a failure does not */
    rc = sw_watch_start(l, &p->side[0].watch, fd0, on_event0, err);
    if (rc != SW_OK) {
        sw_pump_stop(p, true);
        return rc;
    }
    if (p->side[1].readable || p->side[0].rest)
        sw_loop_defer(l, &p->again, on_again);
    return SW_OK;
}
