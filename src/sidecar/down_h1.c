/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 from the gateway: requests one after the other, each a stream to its node. A tunnel
 * takes the connection over: its socket is joined to the stream and nothing is copied here.
 */
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "sidecar/side_int.h"
#include "tunnel/qpump.h"

enum {
    IN_MAX = 64 * 1024,
    CHUNK = 32 * 1024,
    OUT_MAX = 2 * SW_QHEAD_MAX + CHUNK + 1024,
    LINGER_MAX = 1 << 20,
};
static const uint64_t idle_ns = 300 * SW_NS_PER_S;
static const uint64_t head_ns = 10 * SW_NS_PER_S;
static const uint64_t linger_ns = 2 * SW_NS_PER_S;

enum h1_state {
    H1_IDLE,   /* between requests, or reading a head */
    H1_CALL,   /* a request is under way */
    H1_TUNNEL, /* the pump has the socket */
    H1_UDP,    /* capsules here, datagrams there */
    H1_BYE,    /* what is in 'out' leaves, then the end */
    H1_DEAD,
};

struct h1c {
    struct sw_list link;
    struct sw_sidecar *s;
    enum side_source source;
    enum h1_state state;
    int fd; /* owned; -1 once the pump has it */
    struct sw_watch watch;
    struct sw_timer timer;
    struct sw_defer again;
    struct sw_defer reap;
    struct sw_h1 *parser;
    struct sw_buf in;
    struct sw_buf out;
    struct sw_arena arena; /* of the request */
    struct side_out req;
    struct side_log log;
    struct sw_qcall call;
    struct sw_qpump pump;
    struct sw_capsule_reader capsules;
    struct sw_slice body; /* of the request, in 'in', not passed on yet */
    size_t body_used;
    size_t lingered;
    uint64_t left; /* of the answer, when its length is known */
    bool readable : 1;
    bool eof : 1;
    bool req_done : 1; /* all of the request was passed on */
    bool answered : 1;
    bool chunked : 1; /* the answer, toward the client */
    bool length : 1;
    bool no_body : 1;
    bool keep : 1;    /* the connection may carry another request */
    bool minor1 : 1;  /* HTTP/1.1 */
    bool blocked : 1; /* the client does not take the answer */
    bool open : 1;    /* the books of a request are */
    bool shut : 1;
};

static void step(struct h1c *c);
static const struct sw_qcall_ops call_ops;

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

static void close_books(struct h1c *c, const char *reason)
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

static void kill(struct h1c *c, bool reset, const char *reason)
{
    if (c->state == H1_DEAD)
        return;
    close_books(c, reason);
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

        kill(c, true, "stopped");
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
            kill(c, false, NULL);
    }
}

/* ---- writing ---- */

/* False: the client does not take it now, or is gone. */
static bool flush(struct h1c *c)
{
    while (sw_buf_len(&c->out)) {
        ssize_t n = sw_sock_write(c->fd, sw_buf_data(&c->out), sw_buf_len(&c->out));

        if (n == SW_EAGAIN)
            return false;
        if (n < 0) {
            kill(c, true, "client_gone");
            return false;
        }
        sw_buf_consume(&c->out, (size_t)n);
    }
    return true;
}

static void on_timer(struct sw_timer *t)
{
    struct h1c *c = SW_CONTAINER_OF(t, struct h1c, timer);

    kill(c, false, "timeout");
}

static void on_again(struct sw_defer *d)
{
    step(SW_CONTAINER_OF(d, struct h1c, again));
}

static void go_on(struct h1c *c)
{
    sw_loop_defer(c->s->loop, &c->again, on_again);
}

/* Nothing more is taken from this connection; what it was told still leaves. */
static void say_bye(struct h1c *c)
{
    close_books(c, NULL);
    sw_qcall_cancel(&c->call);
    c->state = H1_BYE;
    sw_timer_start(c->s->loop, &c->timer, linger_ns, on_timer);
    go_on(c);
}

/* ---- between requests ---- */

static void next_request(struct h1c *c)
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
        say_bye(c);
        return;
    }
    sw_timer_start(c->s->loop, &c->timer, sw_buf_len(&c->in) ? head_ns : idle_ns, on_timer);
    go_on(c);
}

static void put_error(struct h1c *c, unsigned status, const char *reason, const char *proxy_error,
                      const char *text)
{
    side_error(c->s, status);
    if (side_put_error(&c->out, status, reason, proxy_error, text, !c->keep) != SW_OK)
        kill(c, true, reason);
}

static void refuse(struct h1c *c, const struct side_refusal *why)
{
    side_denied(c->s, why);
    put_error(c, why->status, why->reason, "http_request_error", why->text);
    if (c->state != H1_DEAD)
        next_request(c);
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
        sw_qcall_start(c->s->dial, &c->call, &spec, &call_ops);
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
    if (n == SW_EOF)
        c->eof = true;
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
            sw_timer_start(c->s->loop, &c->timer, head_ns, on_timer);
        return true;
    }
    if (rc != SW_EAGAIN)
        kill(c, false, NULL);
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
        kill(c, true, rc == SW_EPROTO ? "bad_request" : "client_gone");
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
            kill(c, true, "bad_capsule");
            return false;
        }
    }
    rc = fill(c);
    if (rc == SW_EOF && sw_capsule_idle(&c->capsules))
        sw_qcall_finish(&c->call);
    else if (rc != SW_OK && rc != SW_EAGAIN)
        kill(c, true, rc == SW_EOF ? "cut_capsule" : "client_gone");
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
        kill(c, false, NULL);
        return false;
    }
    return n > 0;
}

static void step(struct h1c *c)
{
    bool more = true;

    for (int i = 0; i < 256 && more; i++) {
        if (c->state == H1_DEAD || c->state == H1_TUNNEL || !flush(c))
            return;
        switch (c->state) {
        case H1_IDLE:
            more = step_head(c);
            break;
        case H1_CALL:
            more = !c->req_done && step_body(c);
            break;
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
        go_on(c);
}

static void on_event(struct sw_watch *w, unsigned events)
{
    struct h1c *c = SW_CONTAINER_OF(w, struct h1c, watch);

    if (events & (SW_READ | SW_HUP))
        c->readable = true;
    if ((events & (SW_WRITE | SW_HUP)) && c->blocked && flush(c)) {
        c->blocked = false;
        sw_qcall_resume(&c->call);
    }
    if (c->state != H1_DEAD && c->state != H1_TUNNEL)
        step(c);
}

/* ---- the answer ---- */

static int put_answer(struct h1c *c, const struct sw_h1_msg *m, bool upgraded)
{
    int rc = sw_h1_put_status(&c->out, m->status, m->reason, 1);

    for (size_t i = 0; i < m->nfields && rc == SW_OK; i++) {
        struct sw_slice name = m->fields[i].name;

        if (sw_h1_is_hop_by_hop(m, name) || sw_slice_ieq(name, SW_SLICE_LIT("content-length")))
            continue;
        rc = sw_h1_put_field(&c->out, name, m->fields[i].value);
    }
    if (rc == SW_OK && c->log.why[0] && !sw_h1_field(m, SIDE_REASON))
        rc = sw_h1_put_field_str(&c->out, SIDE_REASON, c->log.why);
    if (rc == SW_OK && upgraded) {
        rc = sw_buf_append_str(&c->out, "connection: upgrade\r\n");
        if (rc == SW_OK)
            rc = sw_h1_put_field(&c->out, SW_SLICE_LIT("upgrade"), c->req.protocol);
    } else if (rc == SW_OK && c->length) {
        rc = sw_buf_printf(&c->out, "content-length: %llu\r\n", (unsigned long long)c->left);
    } else if (rc == SW_OK && c->chunked) {
        rc = sw_buf_append_str(&c->out, "transfer-encoding: chunked\r\n");
    }
    if (rc == SW_OK && !upgraded && !c->keep)
        rc = sw_buf_append_str(&c->out, "connection: close\r\n");
    return rc == SW_OK ? sw_h1_put_end(&c->out) : rc;
}

/* How the answer's body is told to the client. */
static void frame_answer(struct h1c *c, const struct sw_h1_msg *m)
{
    const struct sw_slice *cl = sw_h1_field(m, "content-length");

    c->no_body = c->req.head_only || m->status == 204 || m->status == 304;
    c->length = cl && sw_slice_to_u64(*cl, UINT64_MAX >> 1, &c->left);
    if (c->req.kind == SIDE_CONNECT) { /* a refusal: its body is none of the client's business */
        c->length = true;
        c->left = 0;
        c->no_body = true;
    }
    c->chunked = !c->length && !c->no_body && c->minor1;
    if (!c->length && !c->no_body && !c->minor1)
        c->keep = false;
}

static void on_pump_done(struct sw_qpump *p, int rc)
{
    struct h1c *c = SW_CONTAINER_OF(p, struct h1c, pump);

    if (rc == SW_OK) /* the stream ends by itself: what is on its way must arrive */
        sw_qcall_release(&c->call);
    kill(c, false, rc == SW_OK ? NULL : rc == SW_ETIME ? "idle" : "reset");
}

/* The connection is the tunnel from now on. */
static void enter_tunnel(struct h1c *c)
{
    struct sw_dialled d = {.fd = c->fd};
    size_t n = sw_buf_len(&c->in);

    if (!flush(c) || (n && sw_qcall_write(&c->call, sw_buf_data(&c->in), n) != n)) {
        kill(c, true, "client_stuck");
        return;
    }
    c->log.up += n;
    sw_buf_done(&c->in);
    sw_buf_done(&c->out);
    sw_h1_free(c->parser);
    c->parser = NULL;
    c->fd = -1;
    c->state = H1_TUNNEL;
    sw_watch_move(&c->watch, &d.watch, NULL);
    sw_qpump_start_dialled(&c->pump, c->s->loop, sw_qcall_stream(&c->call), &d,
                           c->s->c->tunnel_idle_ns, on_pump_done);
}

static struct h1c *of(struct sw_qcall *q)
{
    return SW_CONTAINER_OF(q, struct h1c, call);
}

/*
 * A Unix socket cannot be reset. The gateway is told that the end of a tunnel's direction is always
 * said (the pump shuts its side down and waits for the other), so that a plain close is a break.
 */
static const char established[] = "HTTP/1.1 200 Connection Established\r\n"
                                  "x-spanwire-half-close: ?1\r\n\r\n";

static void on_answered(struct sw_qcall *q, const struct sw_h1_msg *m)
{
    struct h1c *c = of(q);
    bool tunnel = c->req.kind == SIDE_CONNECT ? m->status / 100 == 2
                                              : c->req.kind != SIDE_ORIGIN && m->status == 101;
    int rc;

    c->answered = true;
    side_answered(c->s, &c->log, m);
    if (!tunnel) {
        if (m->status == 101) {
            kill(c, true, "bad_answer");
            return;
        }
        frame_answer(c, m);
    }
    rc = tunnel && c->req.kind == SIDE_CONNECT ? sw_buf_append_str(&c->out, established)
                                               : put_answer(c, m, tunnel);
    if (rc != SW_OK) {
        kill(c, true, "bad_answer");
    } else if (tunnel && q->datagrams) {
        c->state = H1_UDP;
        go_on(c);
    } else if (tunnel) {
        enter_tunnel(c);
    }
    if (rc == SW_OK && !tunnel)
        (void)flush(c);
}

static void answer_done(struct h1c *c)
{
    if (c->chunked)
        (void)!sw_h1_put_last_chunk(&c->out);
    if (!c->req_done || c->req.kind != SIDE_ORIGIN)
        c->keep = false; /* the rest of the request is not wanted, and in the way */
    else
        sw_qcall_release(&c->call);
    close_books(c, NULL);
    next_request(c);
}

/* Writes what the client takes; the number of bytes, or SW_ECLOSED when it is gone. */
static ssize_t write_body(struct h1c *c, const uint8_t *p, size_t n)
{
    size_t done = 0;

    while (done < n && flush(c)) {
        size_t k = sw_min(n - done, CHUNK);
        ssize_t w;

        if (c->chunked) {
            if (sw_h1_put_chunk(&c->out, sw_slice(p + done, k)) != SW_OK)
                break;
            done += k;
            continue;
        }
        w = sw_sock_write(c->fd, p + done, n - done);
        if (w == SW_EAGAIN)
            break;
        if (w < 0) {
            kill(c, true, "client_gone");
            break;
        }
        done += (size_t)w;
    }
    return c->state == H1_DEAD ? SW_ECLOSED : (ssize_t)done;
}

static size_t take_answer(struct h1c *c, const uint8_t *p, size_t n, bool fin)
{
    ssize_t done = (ssize_t)n;

    if (c->length && !c->no_body && n > c->left) {
        kill(c, true, "bad_answer");
        return n;
    }
    if (!c->no_body) {
        done = write_body(c, p, n);
        if (done < 0)
            return n;
        if (c->length)
            c->left -= (uint64_t)done;
    }
    c->log.down += (uint64_t)done;
    if ((size_t)done < n) {
        c->blocked = true;
    } else if (fin && c->length && c->left && !c->no_body) {
        kill(c, true, "answer_cut");
    } else if (fin) {
        answer_done(c);
    } else {
        (void)flush(c);
    }
    return (size_t)done;
}

/* Capsules of the node: what came too large for a datagram, and the end. */
static size_t take_capsules(struct h1c *c, const uint8_t *p, size_t n, bool fin)
{
    ssize_t done = write_body(c, p, n);

    if (done < 0)
        return n;
    c->log.down += (uint64_t)done;
    c->blocked = (size_t)done < n;
    if (fin && !c->blocked)
        say_bye(c);
    return (size_t)done;
}

static void on_datagram(struct sw_qcall *q, const uint8_t *p, size_t n)
{
    struct h1c *c = of(q);
    uint8_t head[SW_CAPSULE_UDP_HEAD];
    size_t k = sw_capsule_udp_head(head, n);

    if (c->state != H1_UDP || c->blocked || sw_buf_len(&c->out) + k + n > OUT_MAX)
        return; /* a slow reader loses it, as with any UDP */
    (void)!sw_buf_append(&c->out, head, k);
    (void)!sw_buf_append(&c->out, p, n);
    c->log.down += n;
    (void)flush(c);
}

static size_t on_data(struct sw_qcall *q, const uint8_t *p, size_t n, bool fin)
{
    struct h1c *c = of(q);

    if (c->state == H1_TUNNEL)
        return sw_qpump_data(&c->pump, p, n, fin);
    if (c->state == H1_UDP)
        return take_capsules(c, p, n, fin);
    if (c->state != H1_CALL)
        return n;
    return take_answer(c, p, n, fin);
}

static void on_writable(struct sw_qcall *q)
{
    struct h1c *c = of(q);

    if (c->state == H1_TUNNEL)
        sw_qpump_writable(&c->pump);
    else if (c->state == H1_CALL)
        step(c);
}

static void on_stopped(struct sw_qcall *q)
{
    struct h1c *c = of(q);

    if (c->state == H1_TUNNEL)
        kill(c, true, "node_stopped");
    /* Otherwise the answer tells. */
}

static void on_ended(struct sw_qcall *q, enum sw_qfail why, const char *text)
{
    struct h1c *c = of(q);
    struct side_failure f = side_failure_of(why);

    if (c->state == H1_TUNNEL || c->state == H1_UDP) {
        kill(c, why != SW_QFAIL_NONE, why == SW_QFAIL_NONE ? NULL : sw_qfail_text(why));
        return;
    }
    if (c->state != H1_CALL)
        return;
    side_failed(c->s, &c->log, why);
    if (c->answered) {
        kill(c, true, sw_qfail_text(why));
        return;
    }
    c->log.status = f.status;
    c->keep = c->keep && c->req_done;
    put_error(c, f.status, sw_qfail_text(why), f.proxy_error, text[0] ? text : sw_qfail_text(why));
    if (c->state == H1_DEAD)
        return;
    close_books(c, sw_qfail_text(why));
    next_request(c);
}

static const struct sw_qcall_ops call_ops = {
    .answered = on_answered,
    .data = on_data,
    .writable = on_writable,
    .stopped = on_stopped,
    .datagram = on_datagram,
    .ended = on_ended,
};

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
    sw_buf_init(&c->out, OUT_MAX);
    sw_list_push_back(&s->h1, &c->link);
    s->n_conns++;
    if (sw_watch_start(s->loop, &c->watch, fd, on_event, &err) != SW_OK) {
        kill(c, false, NULL);
        return;
    }
    sw_timer_start(s->loop, &c->timer, head_ns, on_timer);
    go_on(c);
}
