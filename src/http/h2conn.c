/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport half: socket, TLS, timers, and one step function that reads, lets the engine work
 * and writes until it would block. Streams and the engine's callbacks are in h2stream.c.
 */
#include "http/h2conn.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/h2conn_int.h"
#include "io/sock.h"
#include "tls/tlsbuf.h"

enum {
    STEPS_PER_WAKE = 64,
    READ_SIZE = 32 * 1024,
    IN_MAX = SW_TLS_RECORD_MAX + READ_SIZE,
    OUT_MAX = 128 * 1024,   /* frames waiting to be sealed */
    WIRE_HIGH = 128 * 1024, /* sealed bytes waiting for the socket */
    WIRE_MAX = WIRE_HIGH + 2 * SW_TLS_SEAL_ROOM(SW_TLS_PLAIN_MAX) + SW_TLS_HANDSHAKE_OUT_MAX,
    LINGER_MAX = 1 << 20,
};
static const uint64_t linger_ns = SW_NS_PER_S;

static void conn_step(struct sw_h2conn *c);

/* --- end --- */

static void release(struct sw_h2conn *c)
{
    sw_defer_cancel(&c->again);
    sw_defer_cancel(&c->reap);
    sw_h2_free(c->h2);
    sw_tls_free(c->tls);
    sw_buf_done(&c->in);
    sw_buf_done(&c->out);
    sw_buf_done(&c->wire);
    sw_tls_cred_unref(c->o.cred);
    sw_free(c->host);
    sw_free(c);
}

static void on_reap(struct sw_defer *d)
{
    struct sw_h2conn *c = SW_CONTAINER_OF(d, struct sw_h2conn, reap);

    if (c->o.ops->on_closed)
        c->o.ops->on_closed(c, &c->why, c->o.arg);
    release(c);
}

/* Socket and timers go; streams are told. */
static void shut(struct sw_h2conn *c)
{
    c->state = H2C_DEAD;
    sw_timer_stop(c->loop, &c->timer);
    sw_watch_stop(&c->watch);
    sw_sock_close(SW_TAKE_FD(c->fd));
    while (!sw_list_empty(&c->streams))
        h2stream_gone(SW_CONTAINER_OF(c->streams.next, struct sw_h2stream, link), SW_H2_CANCEL);
}

static void die(struct sw_h2conn *c, int rc, const char *why)
{
    if (c->state == H2C_DEAD)
        return;
    if (c->why.rc == 0)
        (void)sw_err_set(&c->why, rc, "%s", why);
    shut(c);
    sw_loop_defer(c->loop, &c->reap, on_reap);
}

void sw_h2conn_close(struct sw_h2conn *c, int rc, const char *why)
{
    if (c->state == H2C_DEAD)
        return;
    if (c->why.rc == 0)
        (void)sw_err_set(&c->why, rc, "%s", why);
    c->broken = true;
    h2conn_wake(c);
}

void sw_h2conn_free(struct sw_h2conn *c)
{
    if (!c)
        return;
    if (c->state != H2C_DEAD)
        shut(c);
    release(c);
}

/* --- writing --- */

static int write_out(struct sw_h2conn *c, struct sw_buf *b)
{
    while (sw_buf_len(b)) {
        ssize_t n = sw_sock_write(c->fd, sw_buf_data(b), sw_buf_len(b));

        if (n < 0)
            return (int)n;
        sw_buf_consume(b, (size_t)n);
        c->wrote_ns = sw_loop_now(c->loop);
    }
    return SW_OK;
}

/* SW_OK: all that was made is out. SW_EAGAIN: the socket is full. */
static int push_bytes(struct sw_h2conn *c)
{
    int rc;

    if (!c->tls)
        return write_out(c, &c->out);
    do {
        rc = write_out(c, &c->wire);
        if (rc != SW_OK)
            return rc;
        sw_tls_flush_buf(c->tls, &c->wire);
        rc = sw_tls_seal_buf(c->tls, &c->out, &c->wire, WIRE_HIGH);
        if (rc != SW_OK)
            return rc;
    } while (sw_buf_len(&c->wire));
    return SW_OK;
}

static int flush(struct sw_h2conn *c)
{
    struct sw_err err = {0};
    int rc;

    do {
        rc = push_bytes(c);
        if (rc != SW_OK)
            return rc;
        h2stream_resume_stuck(c);
        rc = sw_h2_flush(c->h2, &err);
        if (rc != SW_OK && rc != SW_EAGAIN)
            return rc;
    } while (sw_buf_len(&c->out));
    return SW_OK;
}

/* --- reading --- */

static void opened(struct sw_h2conn *c)
{
    c->state = H2C_OPEN;
    c->read_ns = c->wrote_ns = c->idle_ns = sw_loop_now(c->loop);
    c->h2 = h2stream_engine(c);
    h2conn_arm(c);
    if (c->o.ops->on_open)
        c->o.ops->on_open(c, c->o.arg);
}

static int start_tls(struct sw_h2conn *c, struct sw_err *err)
{
    struct sw_tls_params p = {.server = c->o.server,
                              .tls12 = true,
                              .chacha = true,
                              .web = true,
                              .cred = c->o.cred,
                              .alpn = "h2",
                              .host = c->host,
                              .insecure_skip = c->o.insecure_skip,
                              .leaf_ok = c->o.leaf_ok,
                              .leaf_arg = c->o.leaf_arg,
                              .sni = c->host};
    struct sw_ip ip;

    if (c->host && sw_ip_parse(sw_slice_str(c->host), &ip, NULL) == SW_OK)
        p.sni = NULL;
    c->tls = sw_tls_new(&p, err);
    return c->tls ? SW_OK : err->rc;
}

static int step_connect(struct sw_h2conn *c)
{
    int rc = sw_sock_connect_result(c->fd, &c->why);

    if (rc == SW_EAGAIN) {
        c->why.rc = 0;
        return rc;
    }
    if (rc != SW_OK)
        return rc;
    c->why = (struct sw_err){0};
    if (!c->o.cred) {
        opened(c);
        return SW_OK;
    }
    c->state = H2C_HANDSHAKE;
    return start_tls(c, &c->why);
}

static int fill(struct sw_h2conn *c)
{
    size_t want = sw_min(c->in.max - sw_buf_len(&c->in), READ_SIZE);
    char *to = want ? sw_buf_reserve(&c->in, want) : NULL;
    ssize_t n;

    if (!to)
        return SW_ELIMIT; /* a record never exceeds the buffer */
    n = sw_sock_read(c->fd, to, want);
    if (n < 0) {
        if (n == SW_EAGAIN && sw_buf_len(&c->in) == 0)
            sw_buf_done(&c->in);
        return (int)n;
    }
    sw_buf_commit(&c->in, (size_t)n);
    c->read_ns = sw_loop_now(c->loop);
    c->pinged = false;
    return SW_OK;
}

static int step_handshake(struct sw_h2conn *c)
{
    size_t used = 0;
    int rc = sw_tls_handshake(c->tls, sw_buf_slice(&c->in), &used, &c->wire, &c->why);
    int wrote;

    sw_buf_consume(&c->in, used);
    wrote = write_out(c, &c->wire);
    if (rc == SW_OK) {
        c->why = (struct sw_err){0};
        opened(c);
        return SW_OK;
    }
    if (rc != SW_EAGAIN)
        return rc;
    c->why.rc = 0;
    if (wrote != SW_OK && wrote != SW_EAGAIN)
        return wrote;
    return fill(c);
}

static int feed(struct sw_h2conn *c, struct sw_slice plain)
{
    struct sw_err err = {0};
    int rc;

    c->feeding = true;
    rc = sw_h2_feed(c->h2, plain, &err);
    c->feeding = false;
    if (rc == SW_OK)
        return SW_OK;
    if (c->why.rc == 0)
        (void)sw_err_set(&c->why, rc, "%s", err.msg);
    c->state = H2C_BYE; /* its GOAWAY is to be sent */
    return SW_OK;
}

static int step_open(struct sw_h2conn *c)
{
    struct sw_slice plain = sw_buf_slice(&c->in);
    size_t used = plain.n;
    int rc;

    if (plain.n == 0)
        return fill(c);
    if (c->tls) {
        rc = sw_tls_open(c->tls, (uint8_t *)c->in.p + c->in.off, sw_buf_len(&c->in), &used, &plain,
                         &c->why);
        if (rc == SW_EAGAIN) {
            c->why.rc = 0;
            return fill(c);
        }
        if (rc != SW_OK)
            return rc;
    }
    rc = plain.n ? feed(c, plain) : SW_OK;
    sw_buf_consume(&c->in, used);
    return rc;
}

/* Says goodbye once all is out, then waits a little so that the peer reads it. */
static int step_bye(struct sw_h2conn *c)
{
    int rc = flush(c);

    if (rc != SW_OK)
        return rc;
    if (c->tls)
        sw_tls_close_buf(c->tls, &c->wire);
    (void)write_out(c, &c->wire);
    sw_sock_shutdown_write(c->fd);
    c->state = H2C_LINGER;
    h2conn_arm(c);
    return SW_OK;
}

static int step_linger(struct sw_h2conn *c)
{
    char waste[4096];
    ssize_t n = sw_sock_read(c->fd, waste, sizeof(waste));

    if (n < 0)
        return (int)n;
    c->lingered += (size_t)n;
    return c->lingered > LINGER_MAX ? SW_EOF : SW_OK;
}

static int step_once(struct sw_h2conn *c)
{
    switch (c->state) {
    case H2C_CONNECT:
        return step_connect(c);
    case H2C_HANDSHAKE:
        return step_handshake(c);
    case H2C_OPEN:
        return step_open(c);
    case H2C_BYE:
        return step_bye(c);
    case H2C_LINGER:
        return step_linger(c);
    case H2C_DEAD:
        break;
    }
    return SW_EAGAIN;
}

static bool over(const struct sw_h2conn *c)
{
    return c->state == H2C_OPEN && c->n_streams == 0 && (c->goaway || sw_h2_finished(c->h2));
}

static void on_again(struct sw_defer *d)
{
    conn_step(SW_CONTAINER_OF(d, struct sw_h2conn, again));
}

static const char *reason(const struct sw_h2conn *c, int rc)
{
    if (rc == SW_EOF)
        return "peer closed the connection";
    if (c->state == H2C_CONNECT)
        return "cannot connect";
    return c->state == H2C_HANDSHAKE ? "TLS handshake failed" : "connection was lost";
}

static void conn_step(struct sw_h2conn *c)
{
    int rc = SW_OK;
    int out = SW_OK;

    if (c->in_step || c->state == H2C_DEAD)
        return;
    c->in_step = true;
    for (int i = 0; i < STEPS_PER_WAKE && rc == SW_OK && !c->broken; i++)
        rc = step_once(c);
    if (c->state == H2C_OPEN && !c->broken) {
        out = flush(c);
        h2stream_drained(c);
        if (out == SW_OK && sw_h2_wants_write(c->h2))
            h2conn_wake_now(c); /* on_drain queued more */
    }
    c->in_step = false;
    if (c->broken || (rc != SW_OK && rc != SW_EAGAIN) || (out != SW_OK && out != SW_EAGAIN)) {
        die(c, rc != SW_OK && rc != SW_EAGAIN ? rc : SW_ECLOSED, reason(c, rc));
        return;
    }
    if (over(c)) {
        c->state = H2C_BYE;
        rc = SW_OK;
    }
    if (rc == SW_OK)
        sw_loop_defer(c->loop, &c->again, on_again);
}

void h2conn_wake_now(struct sw_h2conn *c)
{
    sw_loop_defer(c->loop, &c->again, on_again);
}

void h2conn_wake(struct sw_h2conn *c)
{
    if (!c->in_step && c->state != H2C_DEAD)
        h2conn_wake_now(c);
}

static void on_watch(struct sw_watch *w, unsigned events)
{
    (void)events;
    conn_step(SW_CONTAINER_OF(w, struct sw_h2conn, watch));
}

/* --- time --- */

static void on_timer(struct sw_timer *t)
{
    struct sw_h2conn *c = SW_CONTAINER_OF(t, struct sw_h2conn, timer);
    uint64_t now = sw_loop_now(c->loop);
    uint64_t quiet = now - c->read_ns;
    bool stalled = sw_buf_len(&c->wire) || sw_buf_len(&c->out);

    if (c->state != H2C_OPEN) {
        die(c, SW_ETIME, c->state < H2C_OPEN ? "cannot connect in time" : "goodbye took too long");
        return;
    }
    if (stalled && now - c->wrote_ns >= c->o.write_timeout_ns) {
        die(c, SW_ETIME, "peer takes no bytes");
        return;
    }
    if (quiet >= c->o.ping_ns + c->o.pong_ns) {
        die(c, SW_ETIME, "peer does not answer pings");
        return;
    }
    if (c->o.server && c->n_streams == 0 && now - c->idle_ns >= c->o.idle_timeout_ns)
        sw_h2conn_goaway(c);
    if (quiet >= c->o.ping_ns && !c->pinged) {
        c->pinged = true;
        sw_h2_ping(c->h2);
        h2conn_wake(c);
    }
    h2conn_arm(c);
}

void h2conn_arm(struct sw_h2conn *c)
{
    uint64_t ns = c->o.open_timeout_ns;

    if (c->state == H2C_OPEN)
        ns = sw_min(c->o.pong_ns, c->o.ping_ns) / 2;
    else if (c->state > H2C_OPEN)
        ns = linger_ns;
    sw_timer_start(c->loop, &c->timer, ns, on_timer);
}

void sw_h2conn_goaway(struct sw_h2conn *c)
{
    if (c->state < H2C_OPEN)
        sw_h2conn_close(c, SW_ECLOSED, "stopped");
    if (c->state != H2C_OPEN || c->goaway)
        return;
    c->goaway = true;
    sw_h2_goaway(c->h2, SW_H2_NO_ERROR);
    h2conn_wake(c);
}

/* --- beginning --- */

static void set_defaults(struct sw_h2conn_opts *o)
{
    o->scope = o->scope ? o->scope : "h2";
    o->stream_window = o->stream_window ? o->stream_window : 256 * 1024;
    o->max_streams = o->max_streams ? o->max_streams : 128;
    o->max_header_list = o->max_header_list ? o->max_header_list : 64 * 1024;
    o->max_queue = o->max_queue ? o->max_queue : (size_t)64 << 20;
    o->open_timeout_ns = o->open_timeout_ns ? o->open_timeout_ns : 10 * SW_NS_PER_S;
    o->idle_timeout_ns = o->idle_timeout_ns ? o->idle_timeout_ns : 300 * SW_NS_PER_S;
    o->ping_ns = o->ping_ns ? o->ping_ns : 30 * SW_NS_PER_S;
    o->pong_ns = o->pong_ns ? o->pong_ns : 20 * SW_NS_PER_S;
    o->write_timeout_ns = o->write_timeout_ns ? o->write_timeout_ns : 60 * SW_NS_PER_S;
}

struct sw_h2conn *sw_h2conn_new(struct sw_loop *l, int fd, const struct sw_h2conn_opts *o,
                                struct sw_err *err)
{
    struct sw_h2conn *c = SW_NEW(struct sw_h2conn);

    c->loop = l;
    c->fd = fd;
    c->o = *o;
    set_defaults(&c->o);
    c->o.cred = o->cred ? sw_tls_cred_ref(o->cred) : NULL;
    c->host = o->host ? sw_strdup(o->host) : NULL;
    c->state = H2C_CONNECT;
    sw_buf_init(&c->in, IN_MAX);
    sw_buf_init(&c->out, OUT_MAX);
    sw_buf_init(&c->wire, WIRE_MAX);
    sw_list_init(&c->streams);
    sw_sock_tune(fd, &(struct sw_sock_opts){.keepalive = true,
                                            .keepalive_time_s = 60,
                                            .keepalive_interval_s = 15,
                                            .keepalive_retries = 4,
                                            .netns_fd = -1});
    if (o->server && o->cred) {
        c->state = H2C_HANDSHAKE;
        if (start_tls(c, err) != SW_OK)
            goto fail;
    }
    if (sw_watch_start(l, &c->watch, fd, on_watch, err) != SW_OK)
        goto fail;
    h2conn_arm(c);
    h2conn_wake(c);
    return c;
fail:
    sw_h2conn_free(c);
    return NULL;
}

struct sw_addr sw_h2conn_peer_addr(const struct sw_h2conn *c)
{
    return sw_sock_peer(c->fd);
}

const struct sw_tls_peer *sw_h2conn_peer(const struct sw_h2conn *c)
{
    return c->tls && c->state == H2C_OPEN ? sw_tls_peer(c->tls) : NULL;
}

size_t sw_h2conn_streams(const struct sw_h2conn *c)
{
    return c->n_streams;
}
