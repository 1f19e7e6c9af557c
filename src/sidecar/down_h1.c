/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 from the gateway: requests one after the other, each a stream to its node. A tunnel
 * takes the connection over: its socket is joined to the stream and nothing is copied here.
 */
#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "sidecar/down_h1_int.h"

enum {
    IN_MAX = 64 * 1024,
    LINGER_MAX = 1 << 20,
};
static const uint64_t idle_ns = 300 * SW_NS_PER_S;
static const uint64_t head_ns = 10 * SW_NS_PER_S;
static const uint64_t linger_ns = 2 * SW_NS_PER_S;

/* ---- the end ---- */

static void on_reap(struct sw_defer *d)
{
    struct h1c *c = SW_CONTAINER_OF(d, struct h1c, reap);

    sw_list_unlink(&c->link);
    c->s->n_conns--;
    sw_h1_free(c->parser);
    sw_capsule_done(&c->capsules);
    sw_buf_done(&c->in);
    sw_buf_done(&c->out);
    sw_arena_clear(&c->arena);
    sw_free(c);
}

void side_h1_close_books(struct h1c *c, const char *reason)
{
    if (!c->open)
        return;
    c->open = false;
    if (sw_qpump_running(&c->pump) || c->state == H1_TUNNEL) {
        c->log.up += c->pump.from_socket;
        c->log.down += c->pump.to_socket;
    }
    side_end(c->s, &c->log, reason);
}

void side_h1_kill(struct h1c *c, bool reset, const char *reason)
{
    if (c->state == H1_DEAD)
        return;
    side_h1_close_books(c, reason);
    c->state = H1_DEAD;
    sw_qcall_cancel(&c->call);
    sw_qpump_stop(&c->pump, reset);
    sw_timer_stop(c->s->loop, &c->timer);
    sw_defer_cancel(&c->again);
    sw_watch_stop(&c->watch);
    if (c->fd >= 0 && reset)
        sw_sock_set_reset(c->fd);
    sw_sock_close(c->fd);
    c->fd = -1;
    sw_loop_defer(c->s->loop, &c->reap, on_reap);
}

void side_h1_kill_all(struct sw_sidecar *s)
{
    SW_LIST_FOREACH (it, &s->h1) {
        struct h1c *c = SW_CONTAINER_OF(it, struct h1c, link);

        side_h1_kill(c, true, "stopped");
        sw_defer_cancel(&c->reap);
        on_reap(&c->reap);
    }
}

void side_h1_drain(struct sw_sidecar *s)
{
    SW_LIST_FOREACH (it, &s->h1) {
        struct h1c *c = SW_CONTAINER_OF(it, struct h1c, link);

        c->keep = false;
        if (c->state == H1_IDLE && sw_buf_len(&c->in) == 0)
            side_h1_kill(c, false, NULL);
    }
}

/* ---- writing ---- */

bool side_h1_flush(struct h1c *c)
{
    while (sw_buf_len(&c->out)) {
        ssize_t n = sw_sock_write(c->fd, sw_buf_data(&c->out), sw_buf_len(&c->out));

        if (n == SW_EAGAIN)
            return false;
        if (n < 0) {
            side_h1_kill(c, true, "client_gone");
            return false;
        }
        sw_buf_consume(&c->out, (size_t)n);
    }
    return true;
}

void side_h1_on_timer(struct sw_timer *t)
{
    struct h1c *c = SW_CONTAINER_OF(t, struct h1c, timer);

    side_h1_kill(c, false, "timeout");
}

static void on_again(struct sw_defer *d)
{
    side_h1_step(SW_CONTAINER_OF(d, struct h1c, again));
}

void side_h1_go_on(struct h1c *c)
{
    sw_loop_defer(c->s->loop, &c->again, on_again);
}

void side_h1_say_bye(struct h1c *c)
{
    side_h1_close_books(c, NULL);
    sw_qcall_cancel(&c->call);
    c->state = H1_BYE;
    sw_timer_start(c->s->loop, &c->timer, linger_ns, side_h1_on_timer);
    side_h1_go_on(c);
}

/* ---- between requests ---- */

void side_h1_next_request(struct h1c *c)
{
    sw_arena_reset(&c->arena, 4096);
    sw_h1_reset(c->parser);
    c->req = (struct side_out){0};
    c->body = (struct sw_slice){0};
    c->req_done = c->answered = c->chunked = c->length = c->no_body = c->blocked = false;
    c->state = H1_IDLE;
    if (c->s->draining)
        c->keep = false;
    if (!c->keep) {
        side_h1_say_bye(c);
        return;
    }
    sw_timer_start(c->s->loop, &c->timer, sw_buf_len(&c->in) ? head_ns : idle_ns, side_h1_on_timer);
    side_h1_go_on(c);
}

void side_h1_put_error(struct h1c *c, unsigned status, const char *reason, const char *proxy_error,
                       const char *text)
{
    side_error(c->s, status);
    if (side_put_error(&c->out, status, reason, proxy_error, text, !c->keep) != SW_OK)
        side_h1_kill(c, true, reason);
}

static void refuse(struct h1c *c, const struct side_refusal *why)
{
    side_denied(c->s, why);
    side_h1_put_error(c, why->status, why->reason, "http_request_error", why->text);
    if (c->state != H1_DEAD)
        side_h1_next_request(c);
}

static void fill_in(const struct h1c *c, const struct sw_h1_msg *m, struct side_in *in)
{
    bool connect = m->form == SW_H1_AUTHORITY;

    *in = (struct side_in){
        .method = m->method,
        .authority = m->authority,
        .path = connect ? sw_slice(NULL, 0) : m->path_query,
        .protocol = connect ? sw_slice(NULL, 0) : m->upgrade,
        .fields = m->fields,
        .n = m->nfields,
        .msg = m,
        .length_known = m->framing == SW_H1_LENGTH,
        .length = m->content_length,
        .no_body = m->framing == SW_H1_NO_BODY,
        .datagrams = c->s->c->udp_datagrams,
    };
    if (!connect && in->path.n == 0)
        in->path = m->form == SW_H1_ASTERISK ? SW_SLICE_LIT("*") : SW_SLICE_LIT("/");
}

static void begin_request(struct h1c *c)
{
    const struct sw_h1_msg *m = sw_h1_msg(c->parser);
    struct side_refusal why = {0};
    struct side_in in;
    struct sw_qcall_spec spec;

    sw_timer_stop(c->s->loop, &c->timer);
    fill_in(c, m, &in);
    c->minor1 = m->minor == 1;
    c->keep = m->keep_alive && m->framing == SW_H1_NO_BODY; /* for an early answer */
    if (c->s->draining) {
        why = (struct side_refusal){503, "draining", "the sidecar is going away"};
    } else if (side_request_read(&c->arena, &c->s->aliases, &in, &c->req, &why) &&
               side_may(c->s, &c->req, &why)) {
        c->keep = m->keep_alive && c->req.kind == SIDE_ORIGIN;
        c->req.protocol = sw_arena_slice(&c->arena, c->req.protocol);
        spec = (struct sw_qcall_spec){
            .node = c->req.node,
            .head = c->req.head,
            .method = c->req.kind == SIDE_CONNECT ? SW_SLICE_LIT("CONNECT") : m->method,
            .safe = c->req.safe,
            .udp = c->req.kind == SIDE_UDP,
            .answer_timeout_ns = c->req.kind == SIDE_ORIGIN ? 0 : c->s->c->answer_ns,
        };
        c->state = H1_CALL;
        c->open = true;
        side_begin(c->s, &c->log, &c->req, c->source, SIDE_H1);
        if (m->expect_continue)
            (void)!sw_buf_append_str(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
        sw_qcall_start(c->s->dial, &c->call, &spec, &side_h1_call_ops);
        return;
    }
    refuse(c, &why);
}

/* ---- reading ---- */

static int fill(struct h1c *c)
{
    size_t room = IN_MAX - sw_buf_len(&c->in);
    char *to = room && c->readable ? sw_buf_reserve(&c->in, room) : NULL;
    ssize_t n;

    if (!to)
        return SW_EAGAIN;
    n = sw_sock_read(c->fd, to, room);
    if (n > 0) {
        sw_buf_commit(&c->in, (size_t)n);
        return SW_OK;
    }
    if (n == SW_EAGAIN)
        c->readable = false;
    return (int)n;
}

/* A head that cannot be read. */
static void bad_head(struct h1c *c, const struct sw_err *err)
{
    struct side_refusal why = {.status = (unsigned)sw_h1_error_status(c->parser),
                               .reason = "bad_request",
                               .text = err->msg};

    c->keep = false;
    refuse(c, &why);
}

/* True: something was done, and more may be. */
static bool step_head(struct h1c *c)
{
    struct sw_err err = {0};
    enum sw_h1_event event;
    size_t used = 0;
    int rc = sw_h1_next(c->parser, sw_buf_slice(&c->in), &used, &event, &err);

    if (rc == SW_OK) {
        begin_request(c);
        if (c->state != H1_DEAD)
            sw_buf_consume(&c->in, used);
        return true;
    }
    sw_buf_consume(&c->in, used);
    if (rc != SW_EAGAIN) {
        bad_head(c, &err);
        return true;
    }
    rc = fill(c);
    if (rc == SW_OK) {
        if (!sw_timer_running(&c->timer) || sw_buf_len(&c->in))
            sw_timer_start(c->s->loop, &c->timer, head_ns, side_h1_on_timer);
        return true;
    }
    if (rc != SW_EAGAIN)
        side_h1_kill(c, false, NULL);
    return false;
}

/* Passes the request's body on. True: more may be done. */
static bool step_body(struct h1c *c)
{
    struct sw_err err = {0};
    enum sw_h1_event event;
    size_t used = 0;
    int rc;

    if (c->body.n) {
        size_t k = sw_qcall_write(&c->call, c->body.p, c->body.n);

        c->log.up += k;
        c->body = sw_slice_from(c->body, k);
        if (c->body.n)
            return false; /* its writable comes */
        sw_buf_consume(&c->in, c->body_used);
    }
    rc = sw_h1_next(c->parser, sw_buf_slice(&c->in), &used, &event, &err);
    if (rc == SW_OK && event == SW_H1_BODY) {
        c->body = sw_h1_data(c->parser);
        c->body_used = used;
        return true;
    }
    sw_buf_consume(&c->in, used);
    if (rc == SW_OK && event == SW_H1_END) {
        c->req_done = true;
        if (c->req.kind == SIDE_ORIGIN)
            sw_qcall_finish(&c->call);
        return true;
    }
    if (rc == SW_OK)
        return true; /* trailers are dropped */
    if (rc == SW_EAGAIN)
        rc = fill(c);
    if (rc != SW_OK && rc != SW_EAGAIN)
        side_h1_kill(c, true, rc == SW_EPROTO ? "bad_request" : "client_gone");
    return rc == SW_OK;
}

/* Datagrams from the gateway. */
static bool step_udp(struct h1c *c)
{
    int rc;

    if (sw_buf_len(&c->in)) {
        rc = side_udp_up(&c->capsules, &c->call, sw_buf_slice(&c->in), &c->log.up);
        sw_buf_consume(&c->in, sw_buf_len(&c->in));
        if (rc != SW_OK) {
            side_h1_kill(c, true, "bad_capsule");
            return false;
        }
    }
    rc = fill(c);
    if (rc == SW_EOF && sw_capsule_idle(&c->capsules))
        sw_qcall_finish(&c->call);
    else if (rc != SW_OK && rc != SW_EAGAIN)
        side_h1_kill(c, true, rc == SW_EOF ? "cut_capsule" : "client_gone");
    return rc == SW_OK;
}

static bool step_bye(struct h1c *c)
{
    char waste[4096];
    ssize_t n;

    if (!c->shut) {
        c->shut = true;
        sw_sock_shutdown_write(c->fd);
    }
    n = sw_sock_read(c->fd, waste, sizeof(waste));
    if (n > 0)
        c->lingered += (size_t)n;
    if ((n < 0 && n != SW_EAGAIN) || c->lingered > LINGER_MAX) {
        side_h1_kill(c, false, NULL);
        return false;
    }
    return n > 0;
}

void side_h1_step(struct h1c *c)
{
    bool more = true;

    for (int i = 0; i < 256 && more; i++) {
        if (c->state == H1_DEAD || c->state == H1_TUNNEL || !side_h1_flush(c))
            return;
        switch (c->state) {
        case H1_IDLE:
            more = step_head(c);
            break;
        case H1_CALL:
            more = !c->req_done && step_body(c);
            break;
        case H1_EARLY:
            side_h1_step_early(c);
            return;
        case H1_UDP:
            more = step_udp(c);
            break;
        case H1_BYE:
            more = step_bye(c);
            break;
        case H1_TUNNEL:
        case H1_DEAD:
            more = false;
            break;
        }
    }
    if (more && c->state != H1_DEAD)
        side_h1_go_on(c);
}

static void on_event(struct sw_watch *w, unsigned events)
{
    struct h1c *c = SW_CONTAINER_OF(w, struct h1c, watch);

    if (events & (SW_READ | SW_HUP))
        c->readable = true;
    if (events & SW_HUP)
        c->hup = true;
    if ((events & (SW_WRITE | SW_HUP)) && c->blocked && side_h1_flush(c)) {
        c->blocked = false;
        sw_qcall_resume(&c->call);
    }
    if (c->state != H1_DEAD && c->state != H1_TUNNEL)
        side_h1_step(c);
}

void side_h1_serve(struct sw_sidecar *s, int fd, enum side_source source)
{
    struct h1c *c = SW_NEW(struct h1c);
    struct sw_err err = {0};

    c->s = s;
    c->fd = fd;
    c->source = source;
    c->readable = true;
    c->keep = true;
    c->pump.fd = -1;
    c->parser = sw_h1_new(SW_H1_REQUEST, NULL);
    sw_buf_init(&c->in, IN_MAX);
    sw_buf_init(&c->out, H1_OUT_MAX);
    sw_list_push_back(&s->h1, &c->link);
    s->n_conns++;
    if (sw_watch_start(s->loop, &c->watch, fd, on_event, &err) != SW_OK) {
        side_h1_kill(c, false, NULL);
        return;
    }
    sw_timer_start(s->loop, &c->timer, head_ns, side_h1_on_timer);
    side_h1_go_on(c);
}
