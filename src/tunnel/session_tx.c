/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending: frames collect in a stage that becomes one record; bulk payloads are read from their
 * sockets into slots that leave room for the frame head and are sealed from there. One stream at a
 * time holds the slots, and no more is read than its window and the output have room for, so
 * nothing is left over when the batch ends.
 */
#include <assert.h>
#include <string.h>

#include "io/sock.h"
#include "tunnel/scratch.h"
#include "tunnel/session_impl.h"

enum {
    ROUNDS_PER_TURN = 8,
    SMALL_DATA = 1024, /* payloads up to this are staged with the frames around them */
    /* A peer may negotiate records of 512 bytes: 22 bytes more for each. */
    TX_SLOT = SW_TLS_SEAL_ROOM(16384) + 1024,
    TX_RESERVE = TX_SLOT + SW_TLS_CTRL_ROOM, /* the stage and a last key update */
};

/* The end is decided on the reading side, which may still hold the peer's alert. */
static void write_failed(struct sw_session *s)
{
    s->broken = true;
    s->readable = true;
}

/* Sends what a short write left; true when nothing is left. */
bool session_write_out(struct sw_session *s)
{
    int rc = sw_sock_write_buf(s->fd, &s->out);

    if (rc != SW_OK && rc != SW_EAGAIN)
        write_failed(s);
    return rc == SW_OK;
}

static void seal_stage(struct sw_session *s)
{
    struct sw_scratch *sc = sw_scratch();
    size_t max = sw_tls_max_plain(s->tls);
    size_t at = 0;

    while (at < s->stage_n) {
        size_t n = sw_min(s->stage_n - at, max);

        s->tx_n += sw_tls_seal(s->tls, sc->stage + at, n, sc->tx + s->tx_n);
        at += n;
    }
    s->stage_n = 0;
}

static size_t tx_room(const struct sw_session *s)
{
    return SW_TX_SIZE - s->tx_n;
}

int tx_emit(struct sw_h2 *h, const uint8_t *p, size_t n)
{
    struct sw_session *s = sw_h2_owner(h);
    struct sw_scratch *sc = sw_scratch();

    /* Many small frames at once: what is sealed waits in 'out', whose limit bounds a flood. */
    if (n > SW_STAGE_SIZE - s->stage_n && tx_room(s) < 2 * TX_RESERVE) {
        if (sw_buf_append(&s->out, sc->tx, s->tx_n) != SW_OK)
            return SW_ELIMIT;
        s->tx_n = 0;
    }
    assert(n <= SW_STAGE_SIZE + 64); /* nghttp2 cuts header blocks at 16 KiB and a frame head */
    while (n) {
        size_t k = sw_min(n, SW_STAGE_SIZE - s->stage_n);

        memcpy(sc->stage + s->stage_n, p, k);
        s->stage_n += k;
        p += k;
        n -= k;
        if (s->stage_n == SW_STAGE_SIZE)
            seal_stage(s);
    }
    return SW_OK;
}

ssize_t tx_pull(struct sw_h2 *h, int32_t id, void *stream, size_t max, bool *ret_end)
{
    struct sw_session *s = sw_h2_owner(h);
    struct sw_tstream *t = stream;
    size_t in_slot;
    size_t left;

    if (!t || s->slots.of != t)
        return SW_EAGAIN;
    left = s->slots.end - s->slots.at;
    if (left == 0) {
        if (!s->slots.last)
            return SW_EAGAIN;
        *ret_end = true;
        return 0;
    }
    in_slot = SW_SLOT_DATA - s->slots.at % SW_SLOT_DATA;
    left = sw_min(sw_min(left, in_slot), max);
    *ret_end = s->slots.last && s->slots.at + left == s->slots.end;
    return (ssize_t)left;
}

void tx_emit_data(struct sw_h2 *h, int32_t id, void *stream, const uint8_t head[SW_H2_FRAME_HEAD],
                  size_t n)
{
    struct sw_session *s = sw_h2_owner(h);
    struct sw_scratch *sc = sw_scratch();
    size_t slot = s->slots.at / SW_SLOT_DATA;
    uint8_t *p = sw_slot(sc, sw_min(slot, SW_SLOTS - 1)) + s->slots.at % SW_SLOT_DATA;
    struct sw_tstream *t = stream;

    if (n <= SMALL_DATA) {
        if (n + SW_H2_FRAME_HEAD > SW_STAGE_SIZE - s->stage_n)
            seal_stage(s);
        memcpy(sc->stage + s->stage_n, head, SW_H2_FRAME_HEAD);
        if (n)
            memcpy(sc->stage + s->stage_n + SW_H2_FRAME_HEAD, p, n);
        s->stage_n += n + SW_H2_FRAME_HEAD;
    } else {
        seal_stage(s);
        /* In front are either the slot's head room or bytes already sealed. */
        memcpy(p - SW_H2_FRAME_HEAD, head, SW_H2_FRAME_HEAD);
        s->tx_n +=
            sw_tls_seal(s->tls, p - SW_H2_FRAME_HEAD, n + SW_H2_FRAME_HEAD, sc->tx + s->tx_n);
    }
    s->slots.at += n;
    if (s->slots.last && s->slots.at == s->slots.end)
        t->sent_end = true;
}

/* Fills the slots from the stream's socket, at most 'budget' bytes. As sw_sock_readv. */
static ssize_t read_slots(struct sw_tstream *t, size_t budget)
{
    struct sw_scratch *sc = sw_scratch();
    struct iovec iov[SW_SLOTS];
    size_t slots = t->bulk ? SW_SLOTS : 1;
    size_t offered = 0;
    int count = 0;
    ssize_t n;

    for (size_t i = 0; i < slots && offered < budget; i++) {
        size_t k = sw_min(SW_SLOT_DATA, budget - offered);

        iov[count++] = (struct iovec){.iov_base = sw_slot(sc, i), .iov_len = k};
        offered += k;
    }
    n = sw_sock_readv(t->fd, iov, count);
    if (n == SW_EAGAIN || (n >= 0 && (size_t)n < offered && !t->hup))
        t->readable = false;
    t->bulk = n >= SW_SLOT_DATA;
    if (t->bulk)
        sw_scratch_bulk(t->session->loop);
    return n;
}

static int flush(struct sw_session *s)
{
    struct sw_err err = {0};
    int rc;

    s->in_h2 = true;
    rc = sw_h2_flush(s->h2, &err);
    s->in_h2 = false;
    if (rc == SW_EPROTO)
        session_fail(s, SW_EPROTO, &err);
    return rc;
}

/*
 * Sends n bytes that lie in the slots; 'last': the end of the stream follows them. False: the
 * stream, or the session, is gone.
 */
static bool send_slots(struct sw_session *s, struct sw_tstream *t, size_t n, bool last)
{
    s->slots = (struct session_slots){.of = t, .end = n, .last = last};
    sw_h2_resume(s->h2, t->id);
    (void)flush(s);
    s->slots.of = NULL;
    return s->state != SESSION_DEAD && t->session == s;
}

/* Reads one batch of a stream and sends it. */
static void send_some(struct sw_session *s, struct sw_tstream *t)
{
    size_t window = sw_h2_send_window(s->h2, t->id);
    size_t slots = sw_min((tx_room(s) - 2 * TX_RESERVE) / TX_SLOT, SW_SLOTS);
    ssize_t n;

    if (window == 0) {
        sw_list_push_back(&s->blocked, &t->queue);
        return;
    }
    n = read_slots(t, sw_min(window, slots * SW_SLOT_DATA));
    if (n == SW_EAGAIN)
        return;
    if (n < 0 && n != SW_EOF) {
        stream_local_failed(t);
        return;
    }
    if (n == SW_EOF)
        t->read_end = true;
    else if (n > 0) /* before the flush, which may end the stream */
        t->ops->on_moved(t, (size_t)n, 0);
    if (!send_slots(s, t, n > 0 ? (size_t)n : 0, n == SW_EOF))
        return;
    if (s->slots.at < s->slots.end || (s->slots.last && !t->sent_end))
        stream_local_failed(t); /* HTTP/2 did not want it any more, and it cannot be kept */
    else if (t->readable && !t->read_end)
        sw_list_push_back(&s->ready, &t->queue);
}

/* A copy of the application's first bytes goes ahead of the answer; the socket keeps them. */
static void send_early(struct sw_session *s, struct sw_tstream *t)
{
    size_t window = sw_h2_send_window(s->h2, t->id);
    ssize_t n = sw_sock_peek(t->early_fd, sw_slot(sw_scratch(), 0), sw_min(window, SW_SLOT_DATA));

    t->early_fd = -1;
    if (n <= 0)
        return; /* silent, or broken: to be seen after the answer */
    if (send_slots(s, t, (size_t)n, false))
        t->ahead = (uint16_t)s->slots.at;
}

/* The body of an answer: small, and sent as far as the window goes. */
static void send_reply(struct sw_session *s, struct sw_tstream *t)
{
    size_t window = sw_h2_send_window(s->h2, t->id);
    size_t n = sw_min(sw_buf_len(t->reply), window);

    if (n == 0) {
        sw_list_push_back(&s->blocked, &t->queue);
        return;
    }
    memcpy(sw_slot(sw_scratch(), 0), sw_buf_data(t->reply), n);
    if (!send_slots(s, t, n, n == sw_buf_len(t->reply)))
        return;
    sw_buf_consume(t->reply, s->slots.at);
    if (s->slots.at < n)
        sw_list_push_back(&s->blocked, &t->queue);
    else if (sw_buf_len(t->reply))
        sw_list_push_back(&s->ready, &t->queue);
}

static void send_stream(struct sw_session *s, struct sw_tstream *t)
{
    if (t->reply) {
        send_reply(s, t);
        return;
    }
    if (t->early_fd >= 0) {
        send_early(s, t);
        return;
    }
    send_some(s, t);
    if (t->session == s && !t->watch.loop && t->fd >= 0 && s->state == SESSION_OPEN)
        stream_watch(t); /* it was just handed over */
}

/* Writes the batch; the rest of a short write waits in 'out'. False: the socket is full. */
static bool write_batch(struct sw_session *s)
{
    struct sw_scratch *sc = sw_scratch();
    ssize_t n;

    seal_stage(s);
    if (sw_tls_wants_flush(s->tls))
        s->tx_n += sw_tls_flush(s->tls, sc->tx + s->tx_n, tx_room(s));
    if (sw_buf_len(&s->out)) {
        if (sw_buf_append(&s->out, sc->tx, s->tx_n) != SW_OK)
            write_failed(s); /* cannot be: the reserve is kept free */
        s->tx_n = 0;
        return session_write_out(s);
    }
    if (s->tx_n == 0)
        return true;
    n = sw_sock_write(s->fd, sc->tx, s->tx_n);
    if (n < 0 && n != SW_EAGAIN) {
        write_failed(s);
        return false;
    }
    if (n < 0)
        n = 0;
    if ((size_t)n < s->tx_n)
        (void)!sw_buf_append(&s->out, sc->tx + n, s->tx_n - (size_t)n);
    s->tx_n = 0;
    return sw_buf_len(&s->out) == 0;
}

/* The end of the handshake and the first frames fit one segment: send them as one. */
static void take_handshake(struct sw_session *s)
{
    if (!s->joined)
        return;
    s->joined = false;
    s->tx_n = sw_buf_len(&s->out);
    if (s->tx_n == 0)
        return;
    memcpy(sw_scratch()->tx, sw_buf_data(&s->out), s->tx_n);
    sw_buf_consume(&s->out, s->tx_n);
}

/* One batch: frames that wait, then streams in turn while there is room. False: stop. */
static bool send_batch(struct sw_session *s)
{
    bool more;
    int rc;

    s->tx_n = 0;
    s->stage_n = 0;
    take_handshake(s);
    rc = flush(s);
    if (rc == SW_EPROTO)
        return false;
    /* Frames that found no room go before any stream: what it reads must go out at once. */
    while (rc == SW_OK && !sw_list_empty(&s->ready) && s->state == SESSION_OPEN &&
           tx_room(s) >= 2 * TX_RESERVE + TX_SLOT) {
        send_stream(s, SW_LIST_POP(&s->ready, struct sw_tstream, queue));
    }
    more = s->tx_n || s->stage_n;
    if (s->state == SESSION_DEAD)
        return false;
    return write_batch(s) && more && (!sw_list_empty(&s->ready) || sw_h2_wants_write(s->h2));
}

void session_send(struct sw_session *s)
{
    int rounds = 0;

    if (s->in_h2) {
        session_touch(s);
        return;
    }
    if (s->state != SESSION_OPEN || s->broken || (!s->joined && !session_write_out(s)))
        return;
    while (send_batch(s)) {
        if (++rounds == ROUNDS_PER_TURN) {
            session_touch(s);
            return;
        }
    }
}
