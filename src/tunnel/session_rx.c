/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving: one recv of up to 256 KiB into the thread's memory, records opened in place, payloads
 * gathered per stream and written to the local sockets with one call each.
 */
#include <string.h>

#include "base/mem.h"
#include "io/sock.h"
#include "tunnel/scratch.h"
#include "tunnel/session_impl.h"

enum {
    BATCHES_PER_TURN = 4,
    HELD_FREELY = 12 << 20,
    BULK_FROM = 16 << 10,
};

/*
 * Credit for the whole connection is given at once while it holds no more than this, so one slow
 * reader does not stop its neighbours; above, it waits for the bytes to be written.
 */
static size_t held_freely(const struct sw_session *s)
{
    return sw_min((size_t)HELD_FREELY, (size_t)s->config.connection_window / 4 * 3);
}

static void hold(struct sw_tstream *t, const void *p, size_t n)
{
    struct sw_session *s = t->session;

    if (!t->rest) {
        /* Until our SETTINGS are acknowledged the peer goes by HTTP/2's own default. */
        t->rest =
            sw_heapbuf_new(sw_max(s->config.stream_window, 65535) + (size_t)s->config.max_frame);
    }
    /* The peer cannot send more than the stream's window, which is what rest may hold. */
    if (sw_buf_append(t->rest, p, n) != SW_OK) {
        sw_h2_consume_connection(s->h2, n);
        sw_h2_reset(s->h2, t->id, SW_H2_INTERNAL_ERROR);
        return;
    }
    s->held += n;
    if (s->held <= held_freely(s))
        sw_h2_consume_connection(s->h2, n);
    else
        s->owed += n;
}

static void write_gathered(struct sw_gather *g)
{
    struct sw_tstream *t = g->stream;
    struct sw_h2 *h = t->session->h2;
    ssize_t n;
    size_t done;

    g->stream = NULL;
    n = sw_sock_writev(t->fd, g->iov, g->n);
    if (n < 0 && n != SW_EAGAIN) {
        /* These bytes have no reader any more: the credit goes back all the same. */
        sw_h2_consume_connection(h, g->bytes);
        stream_local_failed(t);
        return;
    }
    done = n > 0 ? (size_t)n : 0;
    if (done) {
        sw_h2_consume_connection(h, done);
        stream_written(t, done);
    }
    if (!t->session) { /* closed by its callback */
        sw_h2_consume_connection(h, g->bytes - done);
        return;
    }
    for (int i = 0; i < g->n; i++) {
        size_t skip = sw_min(done, g->iov[i].iov_len);

        done -= skip;
        if (skip < g->iov[i].iov_len)
            hold(t, (const char *)g->iov[i].iov_base + skip, g->iov[i].iov_len - skip);
    }
}

void rx_gather_flush(struct sw_tstream *t)
{
    struct sw_scratch *sc = sw_scratch();

    for (size_t i = 0; i < SW_GATHER_STREAMS; i++) {
        if (sc->gather[i].stream && (!t || sc->gather[i].stream == t))
            write_gathered(&sc->gather[i]);
    }
}

void rx_gather_drop(struct sw_tstream *t)
{
    struct sw_scratch *sc = sw_scratch();

    for (size_t i = 0; i < SW_GATHER_STREAMS; i++) {
        if (sc->gather[i].stream == t) {
            sw_h2_consume_connection(t->session->h2, sc->gather[i].bytes);
            sc->gather[i].stream = NULL;
        }
    }
}

/* The stream's gatherer, or a free one, or the one whose turn it is to be written. */
static struct sw_gather *gather_for(struct sw_tstream *t)
{
    struct sw_scratch *sc = sw_scratch();
    struct sw_gather *g = NULL;

    for (size_t i = 0; i < SW_GATHER_STREAMS; i++) {
        if (sc->gather[i].stream == t)
            return &sc->gather[i];
        if (!g && !sc->gather[i].stream)
            g = &sc->gather[i];
    }
    if (!g) {
        g = &sc->gather[sc->gather_next++ % SW_GATHER_STREAMS];
        write_gathered(g);
    }
    g->stream = t;
    g->n = 0;
    g->bytes = 0;
    return g;
}

void rx_data(struct sw_h2 *h, int32_t id, void *stream, struct sw_slice data)
{
    struct sw_tstream *t = stream;
    struct sw_gather *g;

    if (!t) { /* refused or aborted: swallow, return the connection's credit */
        sw_h2_consume_connection(h, data.n);
        return;
    }
    if (t->fd < 0 || t->rest) {
        hold(t, data.p, data.n);
        if (t->fd < 0 && t->ops->on_held)
            t->ops->on_held(t);
        return;
    }
    g = gather_for(t);
    if (g->n == SW_GATHER_IOV) {
        write_gathered(g);
        rx_data(h, id, t->session ? t : NULL, data); /* the stream may be blocked or gone now */
        return;
    }
    memcpy(&g->iov[g->n].iov_base, &data.p, sizeof(data.p)); /* written from, never to */
    g->iov[g->n++].iov_len = data.n;
    g->bytes += data.n;
}

static void handshake_done(struct sw_session *s)
{
    struct sw_h2_config c = {
        .server = s->server,
        .emit_takes_all = true,
        .stream_window = s->config.stream_window,
        .connection_window = s->config.connection_window,
        .max_frame = s->config.max_frame,
        .max_send_frame =
            (uint32_t)sw_min(SW_SLOT_DATA, sw_tls_max_plain(s->tls) - SW_H2_FRAME_HEAD),
        .max_header_list = s->server ? 65536 : 16384,
        .max_streams = s->config.max_streams,
    };

    s->state = SESSION_OPEN;
    s->h2 = sw_h2_new(&c, &session_h2_ops, s);
    session_opened(s);
    s->ops->on_ready(s);
    session_touch(s);
}

/* Feeds handshake bytes; returns how many were taken, or fails the session. */
static size_t handshake(struct sw_session *s, const uint8_t *p, size_t n)
{
    struct sw_err err = {0};
    size_t used = 0;
    int rc = sw_tls_handshake(s->tls, sw_slice(p, n), &used, &s->out, &err);

    if (rc == SW_OK && s->ops->on_other && strcmp(sw_tls_alpn(s->tls), "h2") != 0) {
        s->state = SESSION_OTHER;
        /* The whole batch may follow the handshake, and is not decrypted here. */
        sw_buf_done(&s->in);
        sw_buf_init(&s->in, SW_RX_SIZE);
    } else if (rc == SW_OK) {
        s->joined = sw_buf_len(&s->out) < SW_SLOT_SIZE;
        handshake_done(s);
    } else if (rc != SW_EAGAIN) {
        (void)session_write_out(s); /* the alert, best effort */
        session_fail(s, rc, &err);
        return n;
    }
    if (s->state != SESSION_DEAD && !s->joined)
        (void)session_write_out(s);
    return used;
}

static size_t open_record(struct sw_session *s, uint8_t *p, size_t n)
{
    struct sw_err err = {0};
    struct sw_slice plain = {0};
    size_t used = 0;
    int rc = sw_tls_open(s->tls, p, n, &used, &plain, &err);

    if (rc == SW_EAGAIN)
        return 0;
    if (rc == SW_OK) {
        s->peer_spoke = true;
        if (plain.n && s->state == SESSION_OPEN) {
            s->in_h2 = true;
            rc = sw_h2_feed(s->h2, plain, &err);
            s->in_h2 = false;
        }
    } else if (rc == SW_EOF) {
        (void)sw_err_set(&err, SW_EOF, "peer closed the connection");
    } else if (s->state == SESSION_OPEN) {
        uint8_t alert[SW_TLS_CTRL_ROOM];
        size_t k = sw_tls_alert_for_err(s->tls, &err, alert, sizeof(alert));

        if (sw_buf_len(&s->out) == 0 && k)
            (void)!sw_sock_write(s->fd, alert, k);
    }
    if (rc != SW_OK) {
        rx_gather_flush(NULL);
        if (rc == SW_EPROTO && s->state == SESSION_OPEN)
            session_send(s); /* the GOAWAY with the reason */
        session_fail(s, rc, &err);
        return n;
    }
    return used;
}

/* Consumes what it can of p[0..n); returns the bytes taken. */
static size_t take(struct sw_session *s, uint8_t *p, size_t n)
{
    size_t at = 0;

    while (at < n && s->state != SESSION_DEAD && s->state != SESSION_OTHER) {
        size_t used = s->state == SESSION_HANDSHAKE ? handshake(s, p + at, n - at)
                                                    : open_record(s, p + at, n - at);

        if (used == 0)
            break;
        at += used;
    }
    rx_gather_flush(NULL);
    return at;
}

/* One recv and all it brought. False: stop for now. */
static bool receive_batch(struct sw_session *s)
{
    uint8_t *rx = sw_scratch()->rx;
    size_t begun = sw_buf_len(&s->in);
    size_t room = SW_RX_SIZE - begun;
    struct sw_err err = {0};
    ssize_t n;
    size_t total;
    size_t used;

    n = sw_sock_read(s->fd, rx + begun, room);
    if (n == SW_EAGAIN && !s->broken) {
        s->readable = false;
        return false;
    }
    if (n < 0) {
        (void)sw_err_set(&err, SW_ECLOSED, "%s",
                         n == SW_EOF ? "peer closed the connection without close_notify"
                                     : "connection reset");
        session_fail(s, SW_ECLOSED, &err);
        return false;
    }
    if (begun) {
        memcpy(rx, sw_buf_data(&s->in), begun);
        sw_buf_consume(&s->in, begun);
    }
    if (n >= BULK_FROM)
        sw_scratch_bulk(s->loop);
    total = begun + (size_t)n;
    used = take(s, rx, total);
    if (s->state == SESSION_DEAD)
        return false;
    if (used < total && sw_buf_append(&s->in, rx + used, total - used) != SW_OK) {
        (void)sw_err_set(&err, SW_EPROTO, "TLS record too long");
        session_fail(s, SW_EPROTO, &err);
        return false;
    }
    /* A short read emptied the socket; an end behind it has its own event. */
    if ((size_t)n < room && !s->hup && !s->broken)
        s->readable = false;
    if (s->state == SESSION_OTHER) {
        session_other(s);
        return false;
    }
    return s->readable;
}

void session_receive(struct sw_session *s)
{
    int batches = 0;

    while (s->readable && s->state != SESSION_DEAD && batches++ < BATCHES_PER_TURN) {
        if (!receive_batch(s))
            break;
    }
    if (s->state != SESSION_DEAD)
        session_touch(s);
}
