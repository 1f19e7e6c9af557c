/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 from the gateway: requests one after the other, each a stream to its node. A tunnel
 * takes the connection over: its socket is joined to the stream and nothing is copied here.
 */
#include "base/mem.h"
#include "base/time.h"
#include "sidecar/down_h1_int.h"

enum {
    IN_MAX = 64 * 1024,
};
static const uint64_t idle_ns = 300 * SW_NS_PER_S;
static const uint64_t head_ns = 10 * SW_NS_PER_S;

/* ---- the end ---- */

static struct h1c *conn_of(struct sw_conn *io)
{
    return SW_CONTAINER_OF(io, struct h1c, io);
}

static void conn_free(struct h1c *c)
{
    sw_conn_done(&c->io);
    sw_defer_cancel(&c->again);
    sw_defer_cancel(&c->reap);
    sw_list_unlink(&c->link);
    c->s->n_conns--;
    sw_h1_free(c->parser);
    sw_capsule_done(&c->capsules);
    sw_buf_done(&c->out);
    sw_arena_clear(&c->arena);
    sw_free(c);
}

static void on_reap(struct sw_defer *d)
{
    conn_free(SW_CONTAINER_OF(d, struct h1c, reap));
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
    if (c->io.closed) { /* the pump had the socket, or io ended */
        sw_loop_defer(c->s->loop, &c->reap, on_reap);
    } else {
        (void)!sw_conn_flush(&c->io); /* of an answer that is cut, what there is of it */
        sw_conn_close(&c->io, reset); /* on_free follows */
    }
}

void side_h1_kill_all(struct sw_sidecar *s)
{
    SW_LIST_EACH (struct h1c, c, &s->h1, link) {
        side_h1_kill(c, true, "stopped");
        conn_free(c);
    }
}

void side_h1_drain(struct sw_sidecar *s)
{
    SW_LIST_EACH (struct h1c, c, &s->h1, link) {
        c->keep = false;
        if (c->state == H1_IDLE && sw_conn_unused(&c->io) == 0)
            side_h1_kill(c, false, NULL);
    }
}

/* ---- writing ---- */

bool side_h1_flush(struct h1c *c)
{
    sw_buf_consume(&c->out, sw_conn_write(&c->io, sw_buf_slice(&c->out)));
    return sw_buf_len(&c->out) == 0;
}

/* The client sends no more, and all it sent was taken. */
static void client_ended(struct h1c *c)
{
    if (c->state == H1_IDLE)
        side_h1_kill(c, false, NULL);
    else if (c->state == H1_CALL && !c->req_done)
        side_h1_kill(c, true, "client_gone");
    else if (c->state == H1_UDP && sw_capsule_idle(&c->capsules))
        sw_qcall_finish(&c->call);
    else if (c->state == H1_UDP)
        side_h1_kill(c, true, "cut_capsule");
}

void side_h1_on_timer(struct sw_timer *t)
{
    struct h1c *c = SW_CONTAINER_OF(t, struct h1c, timer);

    side_h1_kill(c, false, "timeout");
}

static void on_again(struct sw_defer *d)
{
    struct h1c *c = SW_CONTAINER_OF(d, struct h1c, again);

    if (!side_h1_flush(c))
        return; /* on_drained comes */
    if (c->state == H1_EARLY)
        side_h1_step_early(c);
    else if (c->eof && sw_conn_unused(&c->io) == 0)
        client_ended(c);
    else
        sw_conn_resume(&c->io);
}

void side_h1_continue(struct h1c *c)
{
    sw_loop_defer(c->s->loop, &c->again, on_again);
}

void side_h1_close_lingering(struct h1c *c)
{
    side_h1_close_books(c, NULL);
    sw_qcall_cancel(&c->call);
    c->state = H1_LINGERING;
    sw_timer_stop(c->s->loop, &c->timer);
    sw_defer_cancel(&c->again);
    sw_conn_put(&c->io, sw_buf_data(&c->out), sw_buf_len(&c->out));
    sw_buf_done(&c->out);
    sw_conn_close_within_linger(&c->io);
}

/* ---- between requests ---- */

void side_h1_next_request(struct h1c *c)
{
    sw_arena_reset(&c->arena, 4096);
    sw_h1_reset(c->parser);
    c->req = (struct side_out){0};
    c->body_left = c->body_gap = 0;
    c->req_done = c->answered = c->chunked = c->length = c->no_body = c->blocked = false;
    c->state = H1_IDLE;
    if (c->s->draining)
        c->keep = false;
    if (!c->keep) {
        side_h1_close_lingering(c);
        return;
    }
    sw_timer_start(c->s->loop, &c->timer, sw_conn_unused(&c->io) ? head_ns : idle_ns,
                   side_h1_on_timer);
    side_h1_continue(c);
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
    static const char go_ahead[] = "HTTP/1.1 100 Continue\r\n\r\n";
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
        c->state = H1_CALL;
        c->open = true;
        side_begin(c->s, &c->log, &c->req, c->source, SIDE_H1);
        if (m->expect_continue)
            sw_conn_put(&c->io, go_ahead, sizeof(go_ahead) - 1);
        spec = side_call_spec(&c->req, m->method, c->s->c->answer_ns);
        sw_qcall_start(c->s->dial, &c->call, &spec, &side_h1_call_ops);
        return;
    }
    refuse(c, &why);
}

/* ---- reading ---- */

/* A head that cannot be read. */
static void bad_head(struct h1c *c, const struct sw_err *err)
{
    struct side_refusal why = {.status = (unsigned)sw_h1_error_status(c->parser),
                               .reason = "bad_request",
                               .text = err->msg};

    c->keep = false;
    refuse(c, &why);
}

/* The steps take bytes of 'in'; true: something was done, and more may be. */
static bool step_head(struct h1c *c, struct sw_slice in, size_t *used)
{
    struct sw_err err = {0};
    enum sw_h1_event event;
    int rc;

    if (!side_h1_flush(c))
        return false; /* on_drained comes */
    rc = sw_h1_next(c->parser, in, used, &event, &err);
    if (rc == SW_OK)
        begin_request(c);
    else if (rc != SW_EAGAIN)
        bad_head(c, &err);
    else if (in.n)
        sw_timer_start(c->s->loop, &c->timer, head_ns, side_h1_on_timer);
    return rc != SW_EAGAIN;
}

/* Passes bytes of the body on; what the stream does not take comes again, then the gap behind. */
static bool pass_body(struct h1c *c, struct sw_slice in, size_t *used)
{
    size_t k = c->body_left ? sw_qcall_write(&c->call, in.p, c->body_left) : 0;

    c->log.up += k;
    c->body_left -= k;
    *used = k;
    if (c->body_left)
        return false; /* its writable comes */
    *used += c->body_gap;
    c->body_gap = 0;
    return true;
}

static bool step_body(struct h1c *c, struct sw_slice in, size_t *used)
{
    struct sw_err err = {0};
    enum sw_h1_event event;
    struct sw_slice data;
    int rc;

    if (c->body_left || c->body_gap)
        return pass_body(c, in, used);
    rc = sw_h1_next(c->parser, in, used, &event, &err);
    if (rc == SW_EAGAIN)
        return false;
    if (rc != SW_OK) {
        side_h1_kill(c, true, rc == SW_EPROTO ? "bad_request" : "client_gone");
        return false;
    }
    if (event == SW_H1_BODY) {
        data = sw_h1_data(c->parser);
        c->body_left = data.n;
        c->body_gap = *used - data.n - (size_t)(data.p - in.p);
        *used = (size_t)(data.p - in.p);
    } else if (event == SW_H1_END) {
        c->req_done = true;
        if (c->req.kind == SIDE_ORIGIN)
            sw_qcall_finish(&c->call);
    }
    return true; /* trailers are dropped */
}

/* Datagrams from the gateway. */
static bool step_udp(struct h1c *c, struct sw_slice in, size_t *used)
{
    *used = in.n;
    if (in.n && side_udp_up(&c->capsules, &c->call, in, &c->log.up) != SW_OK)
        side_h1_kill(c, true, "bad_capsule");
    return false;
}

/* A tunnel stands: what came with its head goes first. */
static bool step_early(struct h1c *c, struct sw_slice in, size_t *used)
{
    *used = in.n ? sw_qcall_write(&c->call, in.p, in.n) : 0;
    c->log.up += *used;
    if (*used == in.n)
        side_h1_continue(c);
    else if (*used && c->s->c->tunnel_idle_ns)
        sw_timer_start(c->s->loop, &c->timer, c->s->c->tunnel_idle_ns, side_h1_on_timer);
    return false;
}

static bool step(struct h1c *c, struct sw_slice in, size_t *used)
{
    *used = 0;
    switch (c->state) {
    case H1_IDLE:
        return step_head(c, in, used);
    case H1_CALL:
        return !c->req_done && step_body(c, in, used);
    case H1_EARLY:
        return step_early(c, in, used);
    case H1_UDP:
        return step_udp(c, in, used);
    case H1_TUNNEL:
    case H1_LINGERING:
    case H1_DEAD:
        break;
    }
    return false;
}

static size_t on_bytes(struct sw_conn *io, struct sw_slice in)
{
    struct h1c *c = conn_of(io);
    size_t at = 0;
    size_t used = 0;

    while (step(c, sw_slice_from(in, at), &used))
        at += used;
    return c->state == H1_DEAD || c->state == H1_LINGERING ? in.n : at + used;
}

static void on_eof(struct sw_conn *io)
{
    struct h1c *c = conn_of(io);

    c->eof = true;
    if (sw_conn_unused(io) == 0)
        client_ended(c);
}

static void on_drained(struct sw_conn *io)
{
    struct h1c *c = conn_of(io);

    if (!side_h1_flush(c))
        return;
    if (c->blocked) {
        c->blocked = false;
        sw_qcall_resume(&c->call);
    }
    side_h1_continue(c);
}

static void on_fail(struct sw_conn *io, const struct sw_err *err)
{
    struct h1c *c = conn_of(io);
    bool idle = c->state == H1_IDLE;

    side_h1_kill(c, !idle, idle ? NULL : "client_gone");
}

static void on_free(struct sw_conn *io)
{
    side_h1_kill(conn_of(io), false, NULL); /* after a linger */
    conn_free(conn_of(io));
}

static const struct sw_conn_ops io_ops = {
    .on_bytes = on_bytes,
    .on_eof = on_eof,
    .on_drained = on_drained,
    .on_fail = on_fail,
    .on_free = on_free,
};

void side_h1_serve(struct sw_sidecar *s, int fd, enum side_source source)
{
    struct h1c *c = SW_NEW(struct h1c);
    struct sw_err err = {0};

    if (sw_conn_init(&c->io, s->loop, fd, &(struct sw_conn_opts){.ops = &io_ops}, &err) != SW_OK) {
        sw_free(c);
        return;
    }
    c->io.in_max = IN_MAX;
    c->s = s;
    c->source = source;
    c->keep = true;
    c->pump.fd = -1;
    c->parser = sw_h1_new(SW_H1_REQUEST, NULL);
    sw_buf_init(&c->out, H1_OUT_MAX);
    sw_list_push_back(&s->h1, &c->link);
    s->n_conns++;
    sw_timer_start(s->loop, &c->timer, head_ns, side_h1_on_timer);
}
