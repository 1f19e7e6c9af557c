/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One tunnel's two ends: the HTTP/2 stream and the local socket, and how the end of the one
 * becomes the end of the other.
 *
 *   FIN from the socket      -> END_STREAM         END_STREAM             -> shutdown(SHUT_WR)
 *   RST from the socket      -> RST_STREAM         RST_STREAM             -> RST
 *                               CONNECT_ERROR      (NO_ERROR, CANCEL)     -> FIN
 */
#include <stdio.h>

#include "base/mem.h"
#include "io/sock.h"
#include "tunnel/session_impl.h"

/* n held bytes were written, or can never be: their credit goes back. */
static void release_held(struct sw_session *s, size_t n)
{
    size_t pay = sw_min(s->owed, n);

    s->held -= n;
    s->owed -= pay;
    if (pay)
        sw_h2_consume_connection(s->h2, pay);
}

void stream_detach(struct sw_tstream *t)
{
    struct sw_session *s = t->session;

    if (!s)
        return;
    if (s->h2) {
        rx_gather_drop(t);
        if (!t->closing)
            sw_h2_set_stream(s->h2, t->id, NULL);
    }
    release_held(s, stream_held(t));
    sw_list_unlink(&t->link);
    sw_list_unlink(&t->queue);
    s->n_streams--;
    sw_heapbuf_free(&t->rest);
    sw_heapbuf_free(&t->reply);
    t->session = NULL;
    session_touch(s);
    session_check_over(s);
}

static void close_local(struct sw_tstream *t, bool reset)
{
    sw_watch_stop(&t->watch);
    if (t->fd >= 0 && reset)
        sw_sock_set_reset(t->fd);
    sw_sock_close(SW_TAKE_FD(t->fd));
}

void stream_finish(struct sw_tstream *t, int rc, const struct sw_err *err, bool reset)
{
    struct sw_session *s = t->session;

    stream_detach(t);
    close_local(t, reset);
    t->ops->on_done(t, rc, err);
    if (s->state == SESSION_OPEN && s->ops->on_room && !s->server)
        s->ops->on_room(s);
}

void stream_local_failed(struct sw_tstream *t)
{
    struct sw_err err = {0};

    (void)sw_err_set(&err, SW_ECLOSED, "connection reset by the local side");
    if (!t->closing)
        sw_h2_reset(t->session->h2, t->id, SW_H2_CONNECT_ERROR);
    stream_finish(t, SW_ECLOSED, &err, true);
}

void stream_written(struct sw_tstream *t, size_t n)
{
    if (!t->closing)
        sw_h2_consume_stream(t->session->h2, t->id, n);
    t->ops->on_moved(t, 0, n);
}

/* All received bytes are out: pass the end on. */
static void rest_written(struct sw_tstream *t)
{
    if (t->peer_end && !t->shut) {
        t->shut = true;
        sw_sock_shutdown_write(t->fd);
    }
    if (t->closing)
        stream_finish(t, SW_OK, NULL, false);
}

void stream_write_rest(struct sw_tstream *t)
{
    struct sw_session *s = t->session;

    while (t->rest) {
        ssize_t n = sw_sock_write(t->fd, sw_buf_data(t->rest), sw_buf_len(t->rest));

        if (n == SW_EAGAIN)
            return;
        if (n < 0) {
            stream_local_failed(t);
            return;
        }
        sw_heapbuf_consume(&t->rest, (size_t)n);
        release_held(s, (size_t)n);
        session_touch(s);
        stream_written(t, (size_t)n);
        if (!t->session) /* closed by its callback */
            return;
    }
    rest_written(t);
}

void stream_peer_ended(struct sw_tstream *t)
{
    rx_gather_flush(t);
    if (!t->session) /* the flush found the socket broken */
        return;
    t->peer_end = true;
    if (t->fd >= 0 && !t->rest)
        rest_written(t);
    else if (t->fd < 0 && t->ops->on_held)
        t->ops->on_held(t);
}

void stream_h2_closed(struct sw_tstream *t, uint32_t code)
{
    struct sw_session *s = t->session;
    bool clean = code == SW_H2_NO_ERROR || code == SW_H2_CANCEL;
    struct sw_err err = {0};

    rx_gather_flush(t);
    if (!t->session)
        return;
    t->closing = true;
    sw_h2_set_stream(s->h2, t->id, NULL);
    if (s->server && !t->answered && code != SW_H2_NO_ERROR)
        sw_h2_count_early_reset(s->h2, sw_loop_now(s->loop));
    if (t->fd < 0) { /* not relaying yet */
        (void)sw_err_set(&err, code == SW_H2_REFUSED_STREAM ? SW_EREFUSED : SW_ECLOSED,
                         "stream closed by the peer before it was used (HTTP/2 code %u)", code);
        stream_finish(t, err.rc, &err, false);
    } else if (!clean) {
        (void)sw_err_set(&err, SW_ECLOSED, "stream reset by the peer (HTTP/2 code %u)", code);
        stream_finish(t, SW_ECLOSED, &err, true);
    } else {
        sw_list_unlink(&t->queue);
        t->peer_end = true;
        t->read_end = true;
        if (!t->rest)
            rest_written(t);
        else if (!t->watch.loop)
            stream_watch(t); /* handed over in this turn: a watch reports when it is writable */
    }
}

void stream_ready(struct sw_tstream *t)
{
    if (t->read_end || t->closing || sw_list_linked(&t->queue))
        return;
    sw_list_push_back(&t->session->ready, &t->queue);
    session_touch(t->session);
}

static void on_event(struct sw_watch *w, unsigned events)
{
    struct sw_tstream *t = SW_CONTAINER_OF(w, struct sw_tstream, watch);

    if (events & SW_HUP)
        t->hup = true;
    if (events & SW_READ) {
        t->readable = true;
        stream_ready(t);
    }
    if ((events & SW_WRITE) && t->session && t->rest)
        stream_write_rest(t);
}

static void stream_init(struct sw_session *s, struct sw_tstream *t, int32_t id,
                        const struct sw_tstream_ops *ops)
{
    *t = (struct sw_tstream){.session = s, .ops = ops, .id = id, .fd = -1, .early_fd = -1};
    sw_list_push_back(&s->streams, &t->link);
    sw_list_init(&t->queue);
    s->n_streams++;
}

int sw_tstream_open(struct sw_session *s, struct sw_tstream *t, const struct sw_tstream_ops *ops,
                    const struct sw_h2_header *fields, size_t n, struct sw_err *err)
{
    int32_t id;

    if (s->state != SESSION_OPEN || s->drain.on || s->peer_goaway)
        return sw_err_set(err, SW_ECLOSED, "connection is going away");
    id = sw_h2_request(s->h2, fields, n, false, t, err);
    if (id < 0)
        return id;
    stream_init(s, t, id, ops);
    session_touch(s);
    return SW_OK;
}

void sw_tstream_early(struct sw_tstream *t, int fd)
{
    if (!t->session->peer_spoke)
        return;
    t->early_fd = fd;
    stream_ready(t);
}

void sw_tstream_attach(struct sw_session *s, int32_t id, struct sw_tstream *t,
                       const struct sw_tstream_ops *ops)
{
    stream_init(s, t, id, ops);
    sw_h2_set_stream(s->h2, id, t);
}

void sw_session_refuse(struct sw_session *s, int32_t id, unsigned status)
{
    char text[16];
    struct sw_h2_header f = {SW_SLICE_LIT(":status"), {text, 0}};

    f.value.n = (size_t)snprintf(text, sizeof(text), "%u", status % 1000);
    if (sw_h2_respond(s->h2, id, &f, 1, true, NULL) == SW_OK)
        session_touch(s);
}

void sw_tstream_refuse(struct sw_tstream *t, unsigned status)
{
    struct sw_session *s = t->session;

    if (!s)
        return;
    t->answered = true;
    sw_session_refuse(s, t->id, status);
    stream_detach(t);
}

void sw_tstream_reply(struct sw_tstream *t, const struct sw_h2_header *fields, size_t n,
                      struct sw_slice body)
{
    struct sw_session *s = t->session;

    if (!s)
        return;
    t->answered = true;
    body = sw_slice_head(body, SW_TSTREAM_REPLY_MAX);
    (void)!sw_h2_respond(s->h2, t->id, fields, n, body.n == 0, NULL);
    if (body.n) {
        t->reply = sw_heapbuf_new(SW_TSTREAM_REPLY_MAX);
        (void)!sw_buf_append_slice(t->reply, body);
        stream_ready(t);
    }
    session_touch(s);
}

void sw_tstream_accept(struct sw_tstream *t, const struct sw_h2_header *extra, size_t n)
{
    struct sw_h2_header f[8] = {{SW_SLICE_LIT(":status"), SW_SLICE_LIT("200")}};

    n = sw_min(n, SW_ARRAY_LEN(f) - 1);
    for (size_t i = 0; i < n; i++)
        f[i + 1] = extra[i];
    t->answered = true;
    (void)!sw_h2_respond(t->session->h2, t->id, f, n + 1, false, NULL);
    session_touch(t->session);
}

void stream_watch(struct sw_tstream *t)
{
    struct sw_err err = {0};
    int rc = sw_watch_start(t->session->loop, &t->watch, t->fd, on_event, &err);

    if (rc == SW_OK)
        return;
    if (!t->closing)
        sw_h2_reset(t->session->h2, t->id, SW_H2_INTERNAL_ERROR);
    stream_finish(t, rc, &err, true);
}

/* The peer has what was sent ahead: now it leaves the socket. */
static void take_ahead(struct sw_tstream *t)
{
    size_t n = t->ahead;

    t->ahead = 0;
    if (sw_sock_discard(t->fd, n) != SW_OK) {
        stream_local_failed(t);
        return;
    }
    t->ops->on_moved(t, n, 0);
    if (t->session)
        stream_watch(t);
}

void sw_tstream_relay(struct sw_tstream *t, int fd)
{
    t->early_fd = -1;
    t->fd = fd;
    if (t->peer_end && !t->rest)
        rest_written(t);
    if (t->ahead) {
        sw_list_unlink(&t->queue);
        take_ahead(t);
        return;
    }
    /*
     * The application has usually spoken by now: its bytes leave with what the session is about to
     * send, and the socket is watched after that read (see send_stream), when it has nothing to
     * report any more.
     */
    t->readable = true;
    stream_ready(t);
    if (sw_buf_len(&t->session->out) && !t->session->joined)
        stream_watch(t); /* the session is stuck: that read may be a while */
}

void sw_tstream_relay_dialled(struct sw_tstream *t, struct sw_dialled *dialled)
{
    unsigned events = dialled->events;

    t->fd = SW_TAKE_FD(dialled->fd);
    sw_watch_move(&dialled->watch, &t->watch, on_event);
    if (t->peer_end && !t->rest)
        rest_written(t);
    /* The event that brought the connection is not repeated. */
    if (t->session)
        on_event(&t->watch, events | SW_WRITE);
}

void sw_tstream_abort(struct sw_tstream *t, enum sw_h2_code code)
{
    if (!t->session)
        return;
    if (!t->closing && t->session->h2 && t->session->state == SESSION_OPEN)
        sw_h2_reset(t->session->h2, t->id, code);
    t->session->room_grew = true;
    stream_detach(t);
    close_local(t, true);
}
