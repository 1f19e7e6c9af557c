/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: their life and their receiving half (stream_tx.c: the sending one). Bytes received in
 * one batch of packets are gathered in the endpoint's buffer and delivered together; only what the
 * reader leaves is copied to the stream.
 */
#include <ngtcp2/ngtcp2.h>

#include "base/mem.h"
#include "quic/conn.h"
#include "quic/memory.h"
#include "quic/stream.h"

/* ---- life ---- */

struct sw_qstream *sw_qstream_new(struct sw_qconn *c, int64_t id)
{
    struct sw_qstream *s = SW_NEW(struct sw_qstream);

    s->c = c;
    s->id = id;
    sw_list_init(&s->sendq);
    sw_list_init(&s->event);
    sw_list_push_back(&c->streams.all, &s->link);
    c->streams.n++;
    sw_buf_init(&s->rx.rest, c->q->cfg.stream_window + QUIC_CHUNK);
    sw_qmem_stream_begin(s);
    return s;
}

void sw_qstream_note(struct sw_qstream *s)
{
    if (!sw_list_linked(&s->event))
        sw_list_push_back(&s->c->streams.events, &s->event);
    sw_qconn_note(s->c);
}

/*
 * Connection credit for everything that came, read or not: windows of streams bound what is kept
 * (memory.c), and an application that does not read stops its own stream only.
 */
static void give_credit(struct sw_qconn *c)
{
    if (c->flow.owed == 0 || !c->nc)
        return;
    ngtcp2_conn_extend_max_offset(c->nc, c->flow.owed);
    c->flow.owed = 0;
}

static void stream_free(struct sw_qstream *s)
{
    struct sw_qconn *c = s->c;

    sw_qstream_drop_chunks(s);
    sw_qmem_stream_end(s);
    c->flow.held -= sw_buf_len(&s->rx.rest);
    sw_buf_done(&s->rx.rest);
    give_credit(c);
    sw_list_unlink(&s->link);
    sw_list_unlink(&s->sendq);
    sw_list_unlink(&s->event);
    c->streams.n--;
    sw_free(s);
}

/* Received bytes have no reader. */
static bool deaf(const struct sw_qstream *s)
{
    return !s->ops || !s->ops->data || s->muted || s->rx.shut || s->rx.done;
}

bool sw_qstream_unread(const struct sw_qstream *s)
{
    return s->rx.fin && sw_buf_len(&s->rx.rest) > 0 && !deaf(s);
}

static void report_closed(struct sw_qstream *s, bool lost)
{
    if (s->ops && s->ops->closed)
        s->ops->closed(s, lost);
}

void sw_qstream_lost(struct sw_qstream *s)
{
    /* It may have come to its end together with the connection. */
    bool lost = !s->ended || sw_qstream_unread(s);

    s->ended = true;
    report_closed(s, lost);
    stream_free(s);
}

/* Both directions ended and all callbacks were made. */
static void finish_off(struct sw_qstream *s)
{
    struct sw_qconn *c = s->c;
    bool theirs = !ngtcp2_conn_is_local_stream(c->nc, s->id);

    report_closed(s, false);
    stream_free(s);
    if (theirs)
        ngtcp2_conn_extend_max_streams_bidi(c->nc, 1);
    sw_qconn_touch_delayed(c);
    if (c->q->draining && c->streams.n == 0)
        sw_qconn_close(c, 0, "");
}

/* ---- receiving ---- */

static void credit(struct sw_qstream *s, size_t n)
{
    s->c->flow.held -= n;
    if (n == 0 || !s->c->nc)
        return;
    if (!s->ended && !s->rx.fin) {
        uint64_t give = sw_qmem_taken(s, n);

        if (give > 0) {
            (void)ngtcp2_conn_extend_max_stream_offset(s->c->nc, s->id, give);
            sw_qconn_touch(s->c);
        }
    }
    sw_qconn_touch_delayed(s->c);
}

static void keep(struct sw_qstream *s, const uint8_t *p, size_t n)
{
    /* Flow control bounds what can come; the buffer's own maximum is the same and some more. */
    if (n == 0)
        return;
    if (sw_buf_append(&s->rx.rest, p, n) == SW_OK)
        return;
    s->c->flow.held -= n;
    sw_qconn_fail(s->c, SW_QCLOSE_FAILED, NGTCP2_FLOW_CONTROL_ERROR, "window exceeded");
}

static void gather(struct sw_qstream *s, const uint8_t *p, size_t n)
{
    struct sw_quic *q = s->c->q;
    struct sw_qpiece *last = s->rx.last ? &q->scratch.pieces.p[s->rx.last - 1] : NULL;

    memcpy(q->scratch.gather + q->scratch.gathered, p, n);
    if (last && last->off + last->n == q->scratch.gathered) {
        last->n += (uint32_t)n;
    } else {
        sw_vec_push(&q->scratch.pieces,
                    ((struct sw_qpiece){.off = (uint32_t)q->scratch.gathered, .n = (uint32_t)n}));
        if (s->rx.last)
            q->scratch.pieces.p[s->rx.last - 1].next = (uint32_t)q->scratch.pieces.n;
        else
            s->rx.first = (uint32_t)q->scratch.pieces.n;
        s->rx.last = (uint32_t)q->scratch.pieces.n;
    }
    q->scratch.gathered += n;
}

/* A stream has pieces or a rest, never both: what comes after the pieces must stay behind them. */
static void keep_pieces(struct sw_qstream *s)
{
    struct sw_quic *q = s->c->q;

    for (uint32_t i = s->rx.first; i; i = q->scratch.pieces.p[i - 1].next)
        keep(s, q->scratch.gather + q->scratch.pieces.p[i - 1].off, q->scratch.pieces.p[i - 1].n);
    s->rx.first = 0;
    s->rx.last = 0;
}

void sw_qstream_received(struct sw_qstream *s, const uint8_t *p, size_t n, bool fin)
{
    s->c->flow.owed += n;
    if (fin)
        s->rx.fin = true;
    if (s->muted || s->rx.shut) {
        sw_qstream_note(s);
        return;
    }
    s->c->flow.held += n;
    /* Pieces do not outlive their batch; streams get no callback before the connection is ready. */
    if (n > 0 && (sw_buf_len(&s->rx.rest) > 0 || s->rx.paused || !s->c->shake.told)) {
        keep(s, p, n);
    } else if (n > 0 && s->c->q->scratch.gathered + n > QUIC_GATHER) {
        /* A packet that was lost brings all that waited behind it, up to a whole window. */
        keep_pieces(s);
        keep(s, p, n);
    } else if (n > 0) {
        gather(s, p, n);
    }
    sw_qstream_note(s);
}

/* Offers n bytes: how many were taken. The end goes with them when they are the last. */
static size_t offer(struct sw_qstream *s, const uint8_t *p, size_t n, bool fin)
{
    size_t took;

    s->in_call = true;
    took = sw_min(s->ops->data(s, p, n, fin), n);
    s->in_call = false;
    if (took < n)
        s->rx.paused = true;
    else if (fin)
        s->rx.done = true;
    credit(s, took);
    return took;
}

static void deliver_rest(struct sw_qstream *s)
{
    size_t took;

    do {
        size_t n = sw_buf_len(&s->rx.rest);

        s->again = false;
        if (n == 0 || deaf(s))
            break;
        s->rx.paused = false;
        took = offer(s, (const uint8_t *)sw_buf_data(&s->rx.rest), n, s->rx.fin);
        sw_buf_consume(&s->rx.rest, took);
    } while (s->again && took > 0);
    if (deaf(s)) {
        s->c->flow.held -= sw_buf_len(&s->rx.rest);
        sw_buf_consume(&s->rx.rest, sw_buf_len(&s->rx.rest));
    }
    if (sw_buf_len(&s->rx.rest) == 0)
        sw_buf_done(&s->rx.rest);
    give_credit(s->c);
}

/* The pieces of this batch, in order; what is not taken is kept. */
static void deliver_pieces(struct sw_qstream *s)
{
    struct sw_quic *q = s->c->q;
    uint32_t i = s->rx.first;

    s->rx.first = 0;
    s->rx.last = 0;
    while (i) {
        struct sw_qpiece piece = q->scratch.pieces.p[i - 1];
        const uint8_t *p = q->scratch.gather + piece.off;
        size_t took = 0;

        i = piece.next;
        if (deaf(s)) {
            s->c->flow.held -= piece.n;
            continue;
        }
        if (!s->rx.paused && sw_buf_len(&s->rx.rest) == 0)
            took = offer(s, p, piece.n, s->rx.fin && !i);
        keep(s, p + took, piece.n - took);
        /* Resumed from inside: the rest is offered again when it is in place. */
        if (s->again)
            s->rx.paused = false;
        s->again = false;
    }
}

static void report_end(struct sw_qstream *s)
{
    if (s->rx.fin && !s->rx.done && !s->rx.paused && sw_buf_len(&s->rx.rest) == 0 && !deaf(s))
        (void)offer(s, NULL, 0, true);
    if (s->reset && !s->rx.done) {
        s->rx.done = true;
        s->c->flow.held -= sw_buf_len(&s->rx.rest);
        sw_buf_done(&s->rx.rest);
        if (!s->muted && s->ops->reset)
            s->ops->reset(s, s->reset_code);
    }
    if (s->stopped) {
        s->stopped = false;
        if (!s->muted && s->ops->stopped)
            s->ops->stopped(s, s->stop_code);
    }
    if (s->writable) {
        s->writable = false;
        if (!s->muted && !s->tx.shut && s->ops->writable)
            s->ops->writable(s);
    }
}

/* Offers a stream of the peer to the application. False: not attached, and so aborted. */
static bool introduce(struct sw_qstream *s)
{
    struct sw_qconn *c = s->c;

    s->fresh = false;
    if (c->ops && c->ops->stream && !c->end.closing)
        c->ops->stream(c, s);
    if (!s->ops) {
        s->muted = true;
        sw_qstream_abort(s, 0);
    }
    return s->ops != NULL;
}

void sw_qstream_run_callbacks(struct sw_qstream *s)
{
    if (s->fresh)
        (void)introduce(s);
    deliver_pieces(s);
    if (sw_buf_len(&s->rx.rest) > 0 && (!s->rx.paused || deaf(s)))
        deliver_rest(s);
    if (s->ops)
        report_end(s);
    give_credit(s->c);
    /* Nothing is kept for it any more, even if the other direction continues for hours. */
    if (s->rx.done || s->rx.shut || s->muted)
        sw_qmem_stream_end(s);
    /* The reader may still have to take what is left. */
    if (s->ended && (sw_buf_len(&s->rx.rest) == 0 || deaf(s)) && !s->c->end.closing)
        finish_off(s);
}

void sw_qstream_resume(struct sw_qstream *s)
{
    if (!s->rx.paused && !s->in_call)
        return;
    if (s->in_call) {
        s->again = true;
        return;
    }
    deliver_rest(s);
    if (!s->rx.paused)
        sw_qstream_note(s);
}

/* ---- giving up ---- */

void sw_qstream_stop(struct sw_qstream *s, uint64_t code)
{
    if (s->rx.shut)
        return;
    s->rx.shut = true;
    if (!s->ended && !s->rx.fin && s->c->nc)
        (void)ngtcp2_conn_shutdown_stream_read(s->c->nc, s->id, code);
    sw_qstream_note(s);
    sw_qconn_touch(s->c);
}

void sw_qstream_abort(struct sw_qstream *s, uint64_t code)
{
    s->muted = true;
    sw_qstream_reset(s, code);
    sw_qstream_stop(s, code);
    sw_qstream_note(s);
}

/* ---- opening ---- */

int sw_qstream_open(struct sw_qconn *c, const struct sw_qstream_ops *ops, void *arg,
                    struct sw_qstream **ret)
{
    struct sw_qstream *s;
    int64_t id;

    if (!c->nc || c->end.closing || !c->shake.told)
        return SW_ECLOSED;
    if (ngtcp2_conn_open_bidi_stream(c->nc, &id, NULL) != 0) {
        c->streams.want_room = true;
        return SW_ELIMIT;
    }
    s = sw_qstream_new(c, id);
    s->ops = ops;
    s->arg = arg;
    (void)ngtcp2_conn_set_stream_user_data(c->nc, id, s);
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
    return s->c;
}

int64_t sw_qstream_id(const struct sw_qstream *s)
{
    return s->id;
}
