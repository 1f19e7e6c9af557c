/* SPDX-License-Identifier: Apache-2.0 */
/* A session's life: set-up, events, pings, draining and the end. */
#include "tunnel/session.h"

#include "base/mem.h"
#include "base/time.h"
#include "io/conn/conn.h"
#include "io/sock.h"
#include "tunnel/scratch.h"
#include "tunnel/session_impl.h"

enum {
    /* Below what HTTP/2 starts with, so that a connection that has just been made has room. */
    STALL_WINDOW = 16 << 10,
};

static void on_timer(struct sw_timer *t);

void *sw_session_owner(const struct sw_session *s)
{
    return s->owner;
}

const struct sw_tls_peer *sw_session_peer(const struct sw_session *s)
{
    return s->h2 ? sw_tls_peer(s->tls) : NULL;
}

const struct sw_tls *sw_session_tls(const struct sw_session *s)
{
    return s->tls;
}

size_t sw_session_streams(const struct sw_session *s)
{
    return s->n_streams;
}

size_t sw_session_room(const struct sw_session *s, size_t own_limit)
{
    size_t limit;

    if (s->state != SESSION_OPEN || s->drain.on || s->peer_goaway)
        return 0;
    limit = sw_min(own_limit, sw_h2_peer_max_streams(s->h2));
    return limit > s->n_streams ? limit - s->n_streams : 0;
}

bool sw_session_stalled(const struct sw_session *s)
{
    return s->state == SESSION_OPEN && (sw_h2_connection_window(s->h2) < STALL_WINDOW ||
                                        sw_h2_receive_window(s->h2) < STALL_WINDOW);
}

static void on_reap(struct sw_defer *d)
{
    struct sw_session *s = SW_CONTAINER_OF(d, struct sw_session, reap);

    /* Callbacks that ended the session may have been followed by others that armed these. */
    sw_timer_stop(s->loop, &s->timer);
    sw_defer_cancel(&s->flush);
    if (!s->taken)
        s->ops->on_closed(s, s->rc, &s->err, s->h2 && s->peer_spoke);
    sw_h2_free(s->h2);
    sw_tls_free(s->tls);
    sw_buf_done(&s->in);
    sw_buf_done(&s->out);
    sw_free(s);
}

/* Streams that ended well and only wait for a slow local reader may continue, unless 'all'. */
static void end_streams(struct sw_session *s, bool all)
{
    struct sw_list streams;
    struct sw_tstream *t;

    sw_list_init(&streams);
    sw_list_splice(&streams, &s->streams);
    while ((t = SW_LIST_FIRST(&streams, struct sw_tstream, link))) {
        if (t->closing && !all) {
            sw_list_unlink(&t->link);
            sw_list_push_back(&s->streams, &t->link);
        } else {
            t->lost = true;
            stream_finish(t, s->rc, &s->err, true);
        }
    }
}

void session_fail(struct sw_session *s, int rc, const struct sw_err *err)
{
    if (s->state == SESSION_DEAD)
        return;
    if (s->state == SESSION_LINGER || (rc == SW_EOF && s->n_streams == 0))
        rc = SW_OK;
    s->state = SESSION_DEAD;
    s->rc = rc;
    if (err)
        s->err = *err;
    sw_timer_stop(s->loop, &s->timer);
    sw_defer_cancel(&s->flush);
    end_streams(s, false);
    sw_watch_stop(&s->watch);
    sw_sock_close(SW_TAKE_FD(s->fd));
    sw_defer_cancel(&s->flush);
    session_check_over(s);
}

void session_check_over(struct sw_session *s)
{
    if (s->state == SESSION_DEAD && s->fd < 0 && sw_list_empty(&s->streams))
        sw_loop_defer(s->loop, &s->reap, on_reap);
}

void sw_session_take(struct sw_session *s, struct sw_session_parts *ret)
{
    sw_watch_stop(&s->watch);
    sw_timer_stop(s->loop, &s->timer);
    sw_defer_cancel(&s->flush);
    *ret = (struct sw_session_parts){.fd = SW_TAKE_FD(s->fd),
                                     .tls = SW_TAKE(s->tls),
                                     .in = s->in,
                                     .out = s->out,
                                     .readable = s->readable,
                                     .hup = s->hup};
    sw_buf_init(&s->in, 0);
    sw_buf_init(&s->out, 0);
    s->taken = true;
    s->state = SESSION_DEAD;
    session_check_over(s);
}

void sw_session_parts_close(struct sw_session_parts *p)
{
    sw_sock_close(SW_TAKE_FD(p->fd));
    sw_tls_free(SW_TAKE(p->tls));
    sw_buf_done(&p->in);
    sw_buf_done(&p->out);
}

/* TLS is done, and it is not for us. What follows the handshake waits in 'in'. */
void session_other(struct sw_session *s)
{
    struct sw_err err = {0};

    s->ops->on_other(s);
    if (!s->taken)
        session_fail(s, sw_err_set(&err, SW_EPROTO, "peer does not speak HTTP/2"), &err);
}

void sw_session_close(struct sw_session *s, int rc, const struct sw_err *err)
{
    if (s->state == SESSION_OPEN && !s->in_h2) {
        sw_h2_goaway(s->h2,
                     rc == SW_OK || rc == SW_EDENIED ? SW_H2_NO_ERROR : SW_H2_INTERNAL_ERROR);
        session_send(s);
    }
    session_fail(s, rc, err);
    end_streams(s, true);
}

/* Sends GOAWAY and close_notify and lingers, so that a close does not destroy the last bytes. */
static void send_final_goaway(struct sw_session *s)
{
    uint8_t bye[SW_TLS_CTRL_ROOM];
    size_t n;

    if (!s->drain.goaway_sent) {
        s->drain.goaway_sent = true;
        sw_h2_goaway(s->h2, SW_H2_NO_ERROR);
        session_send(s);
    }
    if (s->state != SESSION_OPEN || sw_buf_len(&s->out))
        return; /* resumed once the socket drains */
    n = sw_tls_close_notify(s->tls, bye, sizeof(bye));
    if (n)
        (void)!sw_sock_write(s->fd, bye, n);
    sw_sock_shutdown_write(s->fd);
    s->state = SESSION_LINGER;
    sw_timer_start(s->loop, &s->timer, SW_CONN_LINGER_MS * SW_NS_PER_MS, on_timer);
}

void session_check_end(struct sw_session *s)
{
    struct sw_err err = {0};
    bool ending;

    if (s->state != SESSION_OPEN)
        return;
    if (s->n_streams && sw_h2_finished(s->h2)) {
        /* The engine refused what the peer sent and queued GOAWAY; the session has failed. */
        session_fail(s, sw_err_set(&err, SW_EPROTO, "HTTP/2: %s", sw_h2_fault(s->h2)), &err);
        return;
    }
    if (s->n_streams)
        return;
    ending = s->peer_goaway || (s->drain.on && (s->drain.goaway_sent || !s->server));
    if (ending || sw_h2_finished(s->h2))
        send_final_goaway(s);
}

/* Its answer is due in time. */
static void ping(struct sw_session *s)
{
    s->pinged = true;
    sw_h2_ping(s->h2);
    sw_timer_start(s->loop, &s->timer, s->config.ping_timeout_ns, on_timer);
}

static void on_flush(struct sw_defer *d)
{
    struct sw_session *s = SW_CONTAINER_OF(d, struct sw_session, flush);

    if (s->room_grew) {
        s->room_grew = false;
        if (s->state == SESSION_OPEN && s->ops->on_room && !s->server)
            s->ops->on_room(s);
    }
    session_send(s);
    if (s->drain.ping_next && s->state == SESSION_OPEN && !s->pinged) {
        /* Behind the notice on the wire, so that the answer proves the peer has seen it. */
        s->drain.ping_next = false;
        ping(s);
        session_send(s);
    }
    session_check_end(s);
    if (s->readable && s->state != SESSION_DEAD)
        session_receive(s);
}

void session_touch(struct sw_session *s)
{
    if (s->state == SESSION_OPEN || s->state == SESSION_LINGER)
        sw_loop_defer(s->loop, &s->flush, on_flush);
}

static void on_event(struct sw_watch *w, unsigned events)
{
    struct sw_session *s = SW_CONTAINER_OF(w, struct sw_session, watch);

    if (events & SW_HUP)
        s->hup = true;
    if (events & SW_READ) {
        s->readable = true;
        session_receive(s);
    }
    if ((events & SW_WRITE) && s->state != SESSION_DEAD && sw_buf_len(&s->out) && !s->joined) {
        (void)session_write_out(s);
        session_touch(s);
    }
}

static void start_pings(struct sw_session *s)
{
    if (s->config.ping_interval_ns)
        sw_timer_start(s->loop, &s->timer, s->config.ping_interval_ns, on_timer);
    else
        sw_timer_stop(s->loop, &s->timer);
}

static void on_timer(struct sw_timer *timer)
{
    struct sw_session *s = SW_CONTAINER_OF(timer, struct sw_session, timer);
    struct sw_err err = {0};

    switch (s->state) {
    case SESSION_HANDSHAKE:
        session_fail(s, sw_err_set(&err, SW_ETIME, "TLS handshake timed out"), &err);
        break;
    case SESSION_OPEN:
        if (s->pinged) {
            (void)sw_err_set(&err, SW_ETIME, "no answer to a PING");
            sw_h2_goaway(s->h2, SW_H2_NO_ERROR);
            session_send(s);
            session_fail(s, SW_ETIME, &err);
            break;
        }
        ping(s);
        session_touch(s);
        break;
    case SESSION_LINGER:
        session_fail(s, SW_OK, NULL);
        break;
    case SESSION_OTHER:
    case SESSION_DEAD:
        break;
    }
}

void sw_session_drain(struct sw_session *s)
{
    if (s->drain.on || s->state == SESSION_DEAD || s->state == SESSION_LINGER ||
        s->state == SESSION_OTHER)
        return;
    if (s->state == SESSION_HANDSHAKE) {
        /* A client in its handshake is accepted: it gets GOAWAY once the session is open. */
        s->drain.when_open = s->server;
        if (!s->server)
            session_fail(s, SW_OK, NULL);
        return;
    }
    s->drain.on = true;
    if (s->server) {
        /* Requests may be on their way: after one round trip the GOAWAY names the last of them. */
        sw_h2_shutdown_notice(s->h2);
        s->drain.ping_next = true;
    }
    session_touch(s);
}

/* ---- callbacks of HTTP/2 ---- */

static void h2_head(struct sw_h2 *h, int32_t id, void *stream, const struct sw_h2_head *head,
                    bool end)
{
    struct sw_session *s = sw_h2_owner(h);
    struct sw_tstream *t = stream;

    if (s->state != SESSION_OPEN)
        return;
    if (s->server) {
        if (head->too_large) {
            sw_session_refuse(s, id, 431);
            return;
        }
        s->ops->on_request(s, id, head);
        if (!end)
            return;
        SW_LIST_EACH (struct sw_tstream, it, &s->streams, link) {
            if (it->id == id) {
                stream_peer_ended(it);
                break;
            }
        }
    } else if (t) {
        t->ops->on_response(t, head);
        if (end && t->session)
            stream_peer_ended(t);
    }
}

static void h2_end(struct sw_h2 *h, int32_t id, void *stream)
{
    if (stream)
        stream_peer_ended(stream);
}

static void h2_close(struct sw_h2 *h, int32_t id, void *stream, uint32_t code)
{
    if (stream)
        stream_h2_closed(stream, code);
}

static void h2_window(struct sw_h2 *h, int32_t id, void *stream)
{
    struct sw_session *s = sw_h2_owner(h);
    struct sw_tstream *t = stream;

    if (id == 0) {
        sw_list_splice(&s->ready, &s->blocked);
    } else if (t && sw_list_linked(&t->queue)) {
        sw_list_unlink(&t->queue);
        sw_list_push_back(&s->ready, &t->queue);
    }
    session_touch(s);
}

static void h2_settings(struct sw_h2 *h)
{
    struct sw_session *s = sw_h2_owner(h);

    /* A larger initial window opens the windows of all streams. */
    sw_list_splice(&s->ready, &s->blocked);
    session_touch(s);
    if (!s->server && s->ops->on_room)
        s->ops->on_room(s);
}

static void h2_goaway(struct sw_h2 *h, int32_t last_id, uint32_t code)
{
    struct sw_session *s = sw_h2_owner(h);

    s->peer_goaway = true;
    if (s->ops->on_goaway)
        s->ops->on_goaway(s);
    session_touch(s);
}

static void h2_pong(struct sw_h2 *h)
{
    struct sw_session *s = sw_h2_owner(h);

    s->pinged = false;
    if (s->drain.ping_next) { /* an answer to an earlier one */
        session_touch(s);
        return;
    }
    if (s->drain.on && !s->drain.goaway_sent) {
        s->drain.goaway_sent = true;
        sw_h2_goaway(s->h2, SW_H2_NO_ERROR);
        session_touch(s);
    }
    start_pings(s);
}

const struct sw_h2_ops session_h2_ops = {
    .on_head = h2_head,
    .on_data = rx_data,
    .on_end = h2_end,
    .on_close = h2_close,
    .on_window = h2_window,
    .on_settings = h2_settings,
    .on_goaway = h2_goaway,
    .on_pong = h2_pong,
    .emit = tx_emit,
    .pull = tx_pull,
    .emit_data = tx_emit_data,
};

void session_opened(struct sw_session *s)
{
    start_pings(s);
    if (s->drain.when_open)
        sw_session_drain(s);
}

struct sw_session *sw_session_new(struct sw_loop *l, int fd, const struct sw_session_setup *setup,
                                  struct sw_err *err)
{
    struct sw_session *s = SW_NEW(struct sw_session);
    size_t used;

    s->loop = l;
    s->fd = fd;
    s->server = setup->tls->server;
    s->ops = setup->ops;
    s->owner = setup->owner;
    s->config = *setup->config;
    sw_list_init(&s->streams);
    sw_list_init(&s->ready);
    sw_list_init(&s->blocked);
    sw_buf_init(&s->in, SW_TLS_RECORD_MAX + SW_TLS_HANDSHAKE_OUT_MAX);
    sw_buf_init(&s->out, 4 * SW_TX_SIZE + SW_TLS_HANDSHAKE_OUT_MAX);
    s->tls = sw_tls_new(setup->tls, err);
    if (s->tls && !s->server &&
        sw_tls_handshake(s->tls, sw_slice("", 0), &used, &s->out, err) != SW_EAGAIN) {
        sw_tls_free(SW_TAKE(s->tls));
    }
    if (!s->tls || sw_watch_start(l, &s->watch, fd, on_event, err) != SW_OK) {
        sw_tls_free(s->tls);
        sw_buf_done(&s->out);
        sw_sock_close(fd);
        sw_free(s);
        return NULL;
    }
    sw_timer_start(l, &s->timer, s->config.handshake_ns, on_timer);
    (void)session_write_out(s);
    return s;
}
