/* SPDX-License-Identifier: Apache-2.0 */
/* One exchange of the client half: the head goes out, the answer's head is read, bytes follow. */
#include "base/mem.h"
#include "base/time.h"
#include "http/capsule.h"
#include "tunnel/qdial_int.h"
#include "tunnel/qpump.h"

enum { CODE = 0 };

static struct sw_loop *loop_of(const struct sw_qcall *c)
{
    return c->dial->loop;
}

/* ---- the end ---- */

static void drop_reading(struct sw_qcall *c)
{
    sw_h1_free(SW_TAKE(c->parser));
    sw_heapbuf_free(&c->in);
}

static void release(struct sw_qcall *c)
{
    sw_timer_stop(loop_of(c), &c->timer);
    sw_defer_cancel(&c->defer);
    drop_reading(c);
    sw_slice_free(&c->head);
    qnode_leave(c);
    c->active = false;
}

/* The stream continues without us, and ends. */
static void orphan(struct sw_qcall *c)
{
    struct sw_qstream *s = c->stream;

    c->stream = NULL;
    if (s) {
        sw_qstream_attach(s, &sw_qstream_orphan, NULL);
        sw_qstream_abort(s, CODE);
    }
}

void qcall_fail(struct sw_qcall *c, enum sw_qfail why, const char *text)
{
    orphan(c);
    release(c);
    c->ops->ended(c, why, text);
}

void sw_qcall_cancel(struct sw_qcall *c)
{
    if (!c->active)
        return;
    orphan(c);
    release(c);
}

void sw_qcall_release(struct sw_qcall *c)
{
    if (!c->active)
        return;
    if (c->stream)
        sw_qstream_attach(c->stream, &sw_qstream_orphan, NULL);
    c->stream = NULL;
    release(c);
}

static void on_failed(struct sw_defer *d)
{
    struct sw_qcall *c = SW_CONTAINER_OF(d, struct sw_qcall, defer);

    qcall_fail(c, c->fail, sw_qfail_text(c->fail));
}

/* ---- once more ---- */

/* The request has had no effect yet, or is idempotent; no body was sent, no answer came. */
static bool repeatable(const struct sw_qcall *c)
{
    return c->safe && !c->retried && !c->heard && c->sent == 0;
}

/* The head goes out again, on the connection that new calls use. Its stream is gone. */
static void send_again(struct sw_qcall *c)
{
    const struct sw_nodeid id = c->node->id;
    bool hurry = c->node->silent_ns != 0;
    struct sw_qnode *n;

    qnode_leave(c);
    c->retried = true;
    c->head_at = 0;
    c->head_out = false;
    n = qnode_get(c->dial, &id);
    if (n)
        n->hurry |= hurry && n->state == QNODE_NEW;
    if (n && qnode_join(n, c) == SW_OK)
        return;
    c->fail = SW_QFAIL_LOST;
    sw_loop_defer(loop_of(c), &c->defer, on_failed);
}

/* ---- waiting ---- */

/* How long the call has waited for a stream of the node and for the answer on it. */
static uint64_t waited_ns(const struct sw_qcall *c)
{
    return sw_loop_now(loop_of(c)) - c->since_ns;
}

/*
 * False: the call spent nearly all of its time waiting for a stream, so the missing answer does not
 * mean that the node is gone.
 */
static bool node_had_time(const struct sw_qcall *c)
{
    return sw_loop_now(loop_of(c)) - c->opened_ns >= sw_min(c->answer_ns, c->dial->c.silence_ns);
}

/* First whether the node is there at all, then whether it answers. */
static void on_timeout(struct sw_timer *t)
{
    struct sw_qcall *c = SW_CONTAINER_OF(t, struct sw_qcall, timer);
    uint64_t waited = waited_ns(c);
    bool unconfirmed = !c->heard && sw_qstream_unacked(c->stream) >= c->head_at + c->sent;
    uint64_t next = unconfirmed ? c->dial->c.silence_ns : UINT64_MAX;

    if (c->answer_ns && waited >= c->answer_ns) {
        if (!c->heard && node_had_time(c))
            qnode_suspect(c);
        qcall_fail(c, SW_QFAIL_ANSWER_TIMEOUT, "the node did not answer in time");
        return;
    }
    /* On a connection that lives it is a matter of its other streams, or of the answer. */
    if (unconfirmed && qnode_silent(c) && repeatable(c)) {
        orphan(c);
        send_again(c);
        return;
    }
    if (c->answer_ns)
        next = sw_min(next, c->answer_ns - waited);
    if (next != UINT64_MAX)
        sw_timer_start(loop_of(c), &c->timer, next, on_timeout);
}

static void on_no_stream(struct sw_timer *t)
{
    qcall_fail(SW_CONTAINER_OF(t, struct sw_qcall, timer), SW_QFAIL_STREAM,
               "the node allows no more streams");
}

void qcall_wait_dial(struct sw_qcall *c)
{
    const struct sw_qdial_config *d = &c->dial->c;

    c->since_ns = 0;
    sw_timer_start(loop_of(c), &c->timer, d->lookup_timeout_ns + d->wait_ns, on_no_stream);
}

void qcall_wait_stream(struct sw_qcall *c)
{
    if (c->since_ns)
        return;
    c->since_ns = sw_loop_now(loop_of(c));
    sw_timer_start(loop_of(c), &c->timer, c->dial->c.wait_ns, on_no_stream);
}

/* ---- the answer ---- */

static void answered(struct sw_qcall *c, const struct sw_h1_msg *m)
{
    const struct sw_slice *d = sw_h1_field(m, SW_QTUNNEL_DATAGRAMS);

    c->answered = true;
    sw_timer_stop(loop_of(c), &c->timer);
    sw_slice_free(&c->head);
    if (c->udp && m->status == 101 && d && sw_slice_eq_str(*d, "?1")) {
        c->datagrams = true;
        qnode_add_flow(c);
    }
    c->ops->answered(c, m);
}

/*
 * Reads from the answer's head; the number of bytes taken. The call may be over, or answered, when
 * it returns.
 */
static size_t read_head(struct sw_qcall *c, const uint8_t *p, size_t n)
{
    struct sw_err err = {0};
    size_t used = 0;
    int rc;

    if (!c->in) {
        c->in = sw_heapbuf_new(SW_QHEAD_MAX);
        c->parser = sw_h1_new(SW_H1_RESPONSE, &sw_qhead_limits);
        sw_h1_answer_to(c->parser, c->connect ? SW_SLICE_LIT("CONNECT") : SW_SLICE_LIT("HEAD"));
    }
    rc = sw_qhead_feed(c->parser, c->in, sw_slice(p, n), &used, &err);
    if (rc == SW_EAGAIN)
        return used;
    if (rc != SW_OK) {
        qcall_fail(c, SW_QFAIL_BAD_ANSWER, err.msg);
        return n;
    }
    if (sw_h1_msg(c->parser)->status < 200 && sw_h1_msg(c->parser)->status != 101) {
        drop_reading(c); /* an interim one */
        return used;
    }
    answered(c, sw_h1_msg(c->parser));
    if (c->active)
        drop_reading(c);
    return used;
}

/* ---- the stream ---- */

static size_t on_data(struct sw_qstream *s, const uint8_t *p, size_t n, bool fin)
{
    struct sw_qcall *c = sw_qstream_arg(s);
    size_t used = 0;

    c->heard = true;
    while (!c->answered && used < n) {
        used += read_head(c, p + used, n - used);
        if (c->stream != s) /* over, and *c may be gone */
            return n;
    }
    if (c->answered && (used < n || fin))
        used += c->ops->data(c, used ? p + used : p, n - used, fin); /* p may be NULL */
    else if (fin)
        qcall_fail(c, SW_QFAIL_BAD_ANSWER, "the stream ended before the answer");
    return used;
}

static void write_head(struct sw_qcall *c)
{
    while (c->head_at < c->head.n) {
        size_t n = sw_qstream_write(c->stream, c->head.p + c->head_at, c->head.n - c->head_at);

        if (n == 0)
            return;
        c->head_at += n;
    }
    c->head_out = true;
    if (c->finished)
        sw_qstream_finish(c->stream);
}

static void on_writable(struct sw_qstream *s)
{
    struct sw_qcall *c = sw_qstream_arg(s);

    if (!c->head_out)
        write_head(c);
    if (c->head_out)
        c->ops->writable(c);
}

static void on_stopped(struct sw_qstream *s, uint64_t code)
{
    struct sw_qcall *c = sw_qstream_arg(s);

    if (c->ops->stopped)
        c->ops->stopped(c);
}

static void on_reset(struct sw_qstream *s, uint64_t code)
{
    qcall_fail(sw_qstream_arg(s), SW_QFAIL_RESET, "the node reset the stream");
}

/* Another connection may do better where this one was old. */
static void on_closed(struct sw_qstream *s, bool lost)
{
    struct sw_qcall *c = sw_qstream_arg(s);

    c->stream = NULL;
    sw_timer_stop(loop_of(c), &c->timer);
    if (lost && c->reused && repeatable(c))
        send_again(c);
    else if (lost)
        qcall_fail(c, SW_QFAIL_LOST, "the connection to the node broke");
    else
        qcall_fail(c, c->answered ? SW_QFAIL_NONE : SW_QFAIL_BAD_ANSWER, "");
}

static const struct sw_qstream_ops stream_ops = {
    .data = on_data,
    .writable = on_writable,
    .stopped = on_stopped,
    .reset = on_reset,
    .closed = on_closed,
};

static void on_opened(struct sw_defer *d)
{
    struct sw_qcall *c = SW_CONTAINER_OF(d, struct sw_qcall, defer);

    if (c->head_out)
        c->ops->writable(c);
}

int qcall_open(struct sw_qcall *c)
{
    uint64_t first = c->dial->c.silence_ns;
    uint64_t waited = waited_ns(c);
    int rc = sw_qstream_open(c->node->conn, &stream_ops, c, &c->stream);

    if (rc != SW_OK)
        return rc;
    c->id = sw_qstream_id(c->stream);
    write_head(c);
    sw_loop_defer(loop_of(c), &c->defer, on_opened);
    c->opened_ns = sw_loop_now(loop_of(c));
    if (c->answer_ns)
        first = sw_min(first, c->answer_ns - sw_min(waited, c->answer_ns));
    sw_timer_start(loop_of(c), &c->timer, first, on_timeout);
    return SW_OK;
}

/* ---- what the owner does ---- */

void sw_qcall_start(struct sw_qdial *d, struct sw_qcall *c, const struct sw_qcall_spec *spec,
                    const struct sw_qcall_ops *ops)
{
    struct sw_qnode *n;

    *c = (struct sw_qcall){.dial = d, .ops = ops, .safe = spec->safe, .active = true};
    c->connect = sw_slice_eq_str(spec->method, "CONNECT");
    c->udp = spec->udp;
    c->answer_ns = spec->answer_timeout_ns;
    c->head = sw_slice_copy(spec->head);
    sw_list_init(&c->link);
    if (!d->draining)
        (void)qnode_recover(d, &spec->node);
    n = d->draining || qnode_failed_lately(d, &spec->node) ? NULL : qnode_get(d, &spec->node);
    if (d->draining)
        c->fail = SW_QFAIL_DRAINING;
    else if (!n && qnode_failed_lately(d, &spec->node))
        c->fail = SW_QFAIL_DIAL_TIMEOUT;
    else if (!n || qnode_join(n, c) != SW_OK)
        c->fail = SW_QFAIL_LIMIT;
    if (c->fail)
        sw_loop_defer(d->loop, &c->defer, on_failed);
}

int sw_qcall_reserve(struct sw_qcall *c, struct iovec room[2])
{
    return c->stream && c->head_out ? sw_qstream_reserve(c->stream, room) : 0;
}

void sw_qcall_commit(struct sw_qcall *c, size_t n)
{
    if (!c->stream)
        return;
    c->sent += n;
    sw_qstream_commit(c->stream, n);
}

size_t sw_qcall_write(struct sw_qcall *c, const void *p, size_t n)
{
    size_t k = c->stream && c->head_out ? sw_qstream_write(c->stream, p, n) : 0;

    c->sent += k;
    return k;
}

void sw_qcall_finish(struct sw_qcall *c)
{
    c->finished = true;
    if (c->stream && c->head_out)
        sw_qstream_finish(c->stream);
}

void sw_qcall_resume(struct sw_qcall *c)
{
    if (c->stream)
        sw_qstream_resume(c->stream);
}

struct sw_qstream *sw_qcall_stream(const struct sw_qcall *c)
{
    return c->stream;
}

/* ---- datagrams ---- */

size_t sw_qcall_datagram_max(const struct sw_qcall *c)
{
    size_t max = c->datagrams && c->stream ? sw_qconn_datagram_max(sw_qstream_conn(c->stream)) : 0;
    size_t ids = SW_VARINT_MAX + 1;

    return max > ids ? max - ids : 0;
}

int sw_qcall_datagram(struct sw_qcall *c, const uint8_t *p, size_t n)
{
    uint8_t buf[2048];
    size_t k;

    if (!c->stream)
        return SW_ECLOSED;
    k = sw_varint_put(buf, (uint64_t)sw_qstream_id(c->stream) / 4);
    buf[k++] = 0; /* context */
    if (n > sizeof(buf) - k)
        return SW_ELIMIT;
    memcpy(buf + k, p, n);
    return sw_qconn_datagram(sw_qstream_conn(c->stream), buf, n + k);
}
