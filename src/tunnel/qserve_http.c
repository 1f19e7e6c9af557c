/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to a request in absolute form (qserve_request.c): read from the origin as HTTP/1.1,
 * its body unframed. A connection is used for one request at a time and may be used again; an
 * upgrade that the origin accepts becomes a pump.
 */
#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "tunnel/qserve_int.h"

enum {
    IN_MAX = 64 * 1024,
    TURN_BUDGET = 1 << 20,
};
static const struct sw_h1_limits answer_limits = {.line = 8192, .head = 32768, .headers = 128};

static void on_again(struct sw_defer *d);

void qs_http_free(struct qs_exchange *x, bool reset)
{
    struct qs_http *h = x->http;

    if (!h)
        return;
    sw_watch_stop(&h->watch);
    sw_defer_cancel(&h->again);
    sw_timer_stop(x->v->loop, &h->wait);
    if (h->fd >= 0 && reset)
        sw_sock_set_reset(h->fd);
    sw_sock_close(h->fd);
    sw_h1_free(h->parser);
    sw_buf_done(&h->out);
    sw_buf_done(&h->in);
    sw_buf_done(&h->head);
    sw_free(h);
    x->http = NULL;
}

/* ---- the answer ---- */

int qs_put_upgrade(struct sw_buf *out, struct sw_slice protocol)
{
    int rc = sw_h1_put_field_str(out, "connection", "Upgrade");

    return rc == SW_OK ? sw_h1_put_field(out, SW_SLICE_LIT("upgrade"), protocol) : rc;
}

static int put_answer(struct qs_exchange *x, const struct sw_h1_msg *m)
{
    struct sw_buf *out = &x->http->head;
    int rc = sw_h1_put_status(out, m->status, m->reason, 1);

    for (size_t i = 0; i < m->nfields && rc == SW_OK; i++) {
        if (!sw_h1_is_hop_by_hop(m, m->fields[i].name))
            rc = sw_h1_put_field(out, m->fields[i].name, m->fields[i].value);
    }
    if (rc == SW_OK && m->status == 101 && m->upgrade.n)
        rc = qs_put_upgrade(out, m->upgrade);
    return rc == SW_OK ? sw_h1_put_end(out) : rc;
}

/* The origin broke off: before the answer a 502 says so, afterwards a reset. */
static void origin_failed(struct qs_exchange *x, const char *reason)
{
    if (x->status == 0)
        qs_refuse(x, 502, "Origin Is Unreachable", reason);
    else
        qs_abort(x, reason);
}

/*
 * Authentication of a connection instead of a request (NTLM, Negotiate): it must not serve other
 * clients.
 */
static bool binds_connection(const struct sw_h1_msg *m)
{
    for (size_t i = 0; i < m->nfields; i++) {
        struct sw_slice v = m->fields[i].value;

        if ((sw_slice_ieq(m->fields[i].name, SW_SLICE_LIT("authorization")) ||
             sw_slice_ieq(m->fields[i].name, SW_SLICE_LIT("www-authenticate"))) &&
            (sw_slice_ieq(sw_slice_head(v, 4), SW_SLICE_LIT("NTLM")) ||
             sw_slice_ieq(sw_slice_head(v, 9), SW_SLICE_LIT("Negotiate"))))
            return true;
    }
    return false;
}

/* Both messages ended where they should, and neither side wants the connection to end. */
static bool may_keep(const struct qs_exchange *x)
{
    const struct qs_http *h = x->http;
    char more;

    return h->keep && !h->hup && !h->until_close && h->req_end && !h->unsent &&
           !binds_connection(x->msg) && sw_buf_len(&h->out) == 0 && sw_buf_len(&h->in) == 0 &&
           sw_sock_read(h->fd, &more, 1) == SW_EAGAIN;
}

/* The answer is complete. */
static void finish(struct qs_exchange *x)
{
    struct sw_qstream *s = x->stream;
    bool taken = x->fin;

    x->http->done = true;
    if (may_keep(x) && qs_pool_put(x, x->http->fd, &x->http->watch))
        x->http->fd = -1;
    sw_qstream_finish(s);
    if (!taken)
        sw_qstream_stop(s, 0); /* the rest of the request is not read */
    qs_over(x, NULL);
}

static void on_answer_head(struct qs_exchange *x)
{
    struct qs_http *h = x->http;
    const struct sw_h1_msg *m = sw_h1_msg(h->parser);

    if (m->status < 200 && m->status != 101)
        return; /* interim ones end here */
    if (m->status == 101 && x->head.kind != SW_QKIND_UPGRADE) {
        origin_failed(x, "bad_answer");
        return;
    }
    if (put_answer(x, m) != SW_OK || sw_buf_len(&h->head) > SW_QHEAD_MAX) {
        origin_failed(x, "answer_too_large");
        return;
    }
    qs_begun(x, (unsigned)m->status);
    h->upgraded = m->status == 101;
    /* Careless origins send bodies where there are none (HEAD, 204, 304): the next answer would
     * begin with it. */
    h->keep = m->keep_alive && (m->framing == SW_H1_LENGTH || m->framing == SW_H1_CHUNKED) &&
              !binds_connection(m);
    h->until_close = m->framing == SW_H1_UNTIL_CLOSE;
    if (m->framing == SW_H1_LENGTH)
        h->left = m->content_length;
}

/* Writes the waiting head and body into the stream. False: no room. */
static bool flush_in(struct qs_exchange *x)
{
    struct qs_http *h = x->http;
    size_t n;

    if (sw_buf_len(&h->head)) {
        n = sw_qstream_write(x->stream, sw_buf_data(&h->head), sw_buf_len(&h->head));
        sw_buf_consume(&h->head, n);
        if (sw_buf_len(&h->head))
            return false;
        sw_buf_done(&h->head);
    }
    if (h->body.n) {
        n = sw_qstream_write(x->stream, h->body.p, h->body.n);
        h->body = sw_slice_from(h->body, n);
        x->bytes_out += n;
        if (h->left)
            h->left -= n;
    }
    if (h->body.n)
        return false;
    sw_buf_consume(&h->in, h->body_used);
    h->body_used = 0;
    return true;
}

/* One event of the parser; SW_EAGAIN: it wants more bytes. */
static int parse_once(struct qs_exchange *x)
{
    struct qs_http *h = x->http;
    struct sw_err err = {0};
    enum sw_h1_event event;
    size_t used = 0;
    int rc = sw_h1_next(h->parser, sw_buf_slice(&h->in), &used, &event, &err);

    if (rc != SW_OK) {
        sw_buf_consume(&h->in, used);
        if (rc != SW_EAGAIN)
            origin_failed(x, "bad_answer");
        return rc;
    }
    h->body_used = used;
    switch (event) {
    case SW_H1_HEAD:
        on_answer_head(x);
        break;
    case SW_H1_BODY:
        h->body = sw_h1_data(h->parser);
        break;
    case SW_H1_TRAILERS:
        break;
    case SW_H1_END:
        if (sw_h1_msg(h->parser)->status < 200 && !h->upgraded) {
            sw_h1_reset(h->parser);
            sw_h1_answer_to(h->parser, x->msg->method);
        } else {
            h->done = true;
        }
        break;
    }
    return SW_OK;
}

/* Reads from the origin into 'in'. */
static int fill(struct qs_http *h)
{
    size_t room = IN_MAX - sw_buf_len(&h->in);
    char *to = room ? sw_buf_reserve(&h->in, room) : NULL;
    ssize_t n;

    if (!to)
        return SW_ELIMIT;
    if (!h->readable)
        return SW_EAGAIN;
    n = sw_sock_read(h->fd, to, room);
    if (n > 0) {
        h->heard = true;
        sw_buf_commit(&h->in, (size_t)n);
        return SW_OK;
    }
    if (n == SW_EAGAIN)
        h->readable = false;
    return (int)n;
}

/*
 * The origin closed a reused connection while our request was in flight, without an answer: it has
 * not processed it. Only idempotent requests are sent on such connections.
 */
static bool try_again(struct qs_exchange *x)
{
    struct qs_http *h = x->http;

    if (!h->reused || h->heard || x->status || (h->sent_head && h->req != SW_H1_NO_BODY))
        return false;
    x->no_body = h->sent_head;
    x->fresh = true;
    x->v->stats.stale++;
    sw_timer_stop(x->v->loop, &x->timer);
    qs_http_free(x, false);
    x->state = QS_RESOLVE;
    qs_dial(x);
    return true;
}

static void origin_closed(struct qs_exchange *x, int rc)
{
    struct sw_err err = {0};

    if (try_again(x))
        return;
    if (rc == SW_EOF && x->status && sw_h1_eof(x->http->parser, &err) == SW_OK)
        finish(x);
    else
        origin_failed(x, "origin_closed");
}

/* Straight from the socket into the stream: nothing to parse any more. */
static int read_direct(struct qs_exchange *x)
{
    struct qs_http *h = x->http;
    struct iovec room[2];
    int k = sw_qstream_reserve(x->stream, room);
    uint64_t max = h->until_close ? UINT64_MAX : h->left;
    ssize_t n;

    if (k == 0) {
        h->no_room = true;
        return SW_EAGAIN;
    }
    if (room[0].iov_len >= max) {
        room[0].iov_len = (size_t)max;
        k = 1;
    } else if (k == 2 && room[0].iov_len + room[1].iov_len > max) {
        room[1].iov_len = (size_t)(max - room[0].iov_len);
    }
    n = sw_sock_readv(h->fd, room, k);
    if (n == SW_EAGAIN)
        h->readable = false;
    sw_qstream_commit(x->stream, n > 0 ? (size_t)n : 0);
    if (n < 0)
        return (int)n;
    x->bytes_out += (uint64_t)n;
    if (!h->until_close)
        h->left -= (uint64_t)n;
    return SW_OK;
}

static void direct_step(struct qs_exchange *x)
{
    struct qs_http *h = x->http;
    uint64_t before = x->bytes_out;
    int rc = SW_OK;

    while (rc == SW_OK && h->readable && x->bytes_out - before < TURN_BUDGET) {
        if (!h->until_close && h->left == 0)
            break;
        rc = read_direct(x);
    }
    if (!h->until_close && h->left == 0)
        finish(x);
    else if (rc == SW_EOF && h->until_close)
        finish(x);
    else if (rc != SW_OK && rc != SW_EAGAIN)
        origin_failed(x, "origin_closed");
    else if (rc == SW_OK && h->readable)
        sw_loop_defer(x->v->loop, &h->again, on_again);
}

/* The origin switched protocols: its buffered bytes go first, then the sockets are joined. */
static void become_pump(struct qs_exchange *x)
{
    struct qs_http *h = x->http;
    struct sw_dialled d = {.fd = h->fd, .events = h->hup ? SW_HUP : 0};

    h->fd = -1;
    sw_watch_move(&h->watch, &d.watch, NULL);
    qs_http_free(x, false);
    qs_pump(x, &d);
}

/* After a 101: the bytes behind it. False: no room yet. */
static bool flush_upgraded(struct qs_exchange *x)
{
    struct qs_http *h = x->http;
    size_t n = sw_qstream_write(x->stream, sw_buf_data(&h->in), sw_buf_len(&h->in));

    if (n && x->verdict.tap)
        x->verdict.tap(x->verdict.tag, true, (const uint8_t *)sw_buf_data(&h->in), n);
    x->bytes_out += n;
    sw_buf_consume(&h->in, n);
    return sw_buf_len(&h->in) == 0;
}

/* True: keep reading. */
static bool answer_step(struct qs_exchange *x)
{
    struct qs_http *h = x->http;
    int rc;

    if (!flush_in(x)) {
        h->no_room = true;
        return false;
    }
    if (h->upgraded) {
        h->no_room = !flush_upgraded(x);
        if (!h->no_room)
            become_pump(x);
        return false;
    }
    if (h->done) {
        finish(x);
        return false;
    }
    if ((h->left || h->until_close) && sw_buf_len(&h->in) == 0) {
        h->direct = true;
        return false;
    }
    rc = parse_once(x);
    if (x->state != QS_HTTP || rc == SW_OK)
        return x->state == QS_HTTP;
    if (rc != SW_EAGAIN)
        return false;
    rc = fill(h);
    if (rc != SW_OK && rc != SW_EAGAIN)
        origin_closed(x, rc);
    return rc == SW_OK;
}

void qs_http_step(struct qs_exchange *x)
{
    struct qs_http *h = x->http;
    size_t turns = 256;

    (void)qs_request_flush(x);
    while (x->state == QS_HTTP && !h->direct && turns && answer_step(x))
        turns--;
    if (x->state != QS_HTTP)
        return;
    if (h->direct)
        direct_step(x);
    else if (turns == 0)
        sw_loop_defer(x->v->loop, &h->again, on_again);
}

static struct qs_exchange *of_watch(struct sw_watch *w)
{
    return SW_CONTAINER_OF(w, struct qs_http, watch)->x;
}

static void on_event(struct sw_watch *w, unsigned events)
{
    struct qs_exchange *x = of_watch(w);
    struct qs_http *h = x->http;

    h->hup |= (events & SW_HUP) != 0;
    h->readable |= (events & (SW_READ | SW_HUP)) != 0;
    if ((events & SW_WRITE) && h->sent_head && !h->req_end && qs_request_flush(x))
        qs_want_data(x);
    if (x->state == QS_HTTP)
        qs_http_step(x);
}

static void on_again(struct sw_defer *d)
{
    qs_http_step(SW_CONTAINER_OF(d, struct qs_http, again)->x);
}

void qs_http_writable(struct qs_exchange *x)
{
    if (x->http->no_room) {
        x->http->no_room = false;
        qs_http_step(x);
    }
}

static void on_idle(struct sw_timer *t)
{
    struct qs_exchange *x = SW_CONTAINER_OF(t, struct qs_exchange, timer);
    uint64_t moved = x->bytes_in + x->bytes_out;

    if (x->http->moved == moved) {
        origin_failed(x, "idle");
        return;
    }
    x->http->moved = moved;
    sw_timer_start(x->v->loop, &x->timer, x->v->c.idle_timeout_ns, on_idle);
}

void qs_http_start(struct qs_exchange *x, struct sw_dialled *d, bool reused)
{
    struct qs_http *h = SW_NEW(struct qs_http);

    h->x = x;
    h->reused = reused;
    h->fd = d->fd;
    h->readable = true;
    h->hup = (d->events & SW_HUP) != 0;
    h->parser = sw_h1_new(SW_H1_RESPONSE, &answer_limits);
    sw_h1_answer_to(h->parser, x->msg->method);
    sw_buf_init(&h->in, IN_MAX);
    sw_buf_init(&h->head, IN_MAX);
    sw_watch_move(&d->watch, &h->watch, on_event);
    d->fd = -1;
    x->http = h;
    x->state = QS_HTTP;
    h->moved = UINT64_MAX;
    sw_timer_start(x->v->loop, &x->timer, x->v->c.idle_timeout_ns, on_idle);
    qs_request_start(x);
    if (x->state == QS_HTTP && !x->fin)
        qs_want_data(x);
}
