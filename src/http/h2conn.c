/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport half: what io/conn delivers goes to the engine, what the engine emits goes to
 * io/conn; timers. Streams and the engine's callbacks are in h2conn_stream.c.
 */
#include "http/h2conn.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/h2conn_int.h"
#include "io/sock.h"
#include "tls/connfilter.h"

/* --- end --- */

static struct sw_h2conn *conn_of(struct sw_conn *io)
{
    return SW_CONTAINER_OF(io, struct sw_h2conn, io);
}

static void release(struct sw_h2conn *c)
{
    sw_conn_done(&c->io);
    sw_defer_cancel(&c->again);
    sw_h2_free(c->h2);
    sw_tls_cred_unref(c->o.cred);
    sw_free(c->host);
    sw_free(c);
}

static void set_why(struct sw_h2conn *c, int rc, const char *why)
{
    if (c->why.rc == 0)
        (void)sw_err_set(&c->why, rc, "%s", why);
}

/* Stops the timer and closes the streams. */
static void shut(struct sw_h2conn *c)
{
    struct sw_h2stream *s;

    c->state = H2C_DEAD;
    sw_timer_stop(c->loop, &c->timer);
    while ((s = SW_LIST_FIRST(&c->streams, struct sw_h2stream, link)))
        h2stream_gone(s, SW_H2_CANCEL);
}

static void die(struct sw_h2conn *c, int rc, const char *why)
{
    if (c->state == H2C_DEAD)
        return;
    set_why(c, rc, why);
    sw_conn_close(&c->io, false); /* on_free follows */
    shut(c);
}

static void on_free(struct sw_conn *io)
{
    struct sw_h2conn *c = conn_of(io);

    set_why(c, SW_EOF, "peer closed the connection");
    if (c->state != H2C_DEAD) /* lingered */
        shut(c);
    if (c->o.ops->on_closed)
        c->o.ops->on_closed(c, &c->why, c->o.arg);
    release(c);
}

void sw_h2conn_close(struct sw_h2conn *c, int rc, const char *why)
{
    if (c->state == H2C_DEAD)
        return;
    set_why(c, rc, why);
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

/* Sends what the engine has left to say, GOAWAY for one, and lingers. */
static void close_lingering(struct sw_h2conn *c)
{
    struct sw_err err = {0};

    c->state = H2C_LINGERING;
    sw_timer_stop(c->loop, &c->timer);
    (void)!sw_h2_flush(c->h2, &err);
    sw_conn_close_within_linger(&c->io);
}

/* --- writing --- */

/* SW_OK: all that the engine has is io's. SW_EAGAIN: on_drained comes. */
static int flush(struct sw_h2conn *c)
{
    struct sw_err err = {0};
    int rc;

    do {
        h2stream_resume_stuck(c);
        rc = sw_h2_flush(c->h2, &err);
        if ((rc == SW_OK && !c->stuck) || (rc != SW_OK && rc != SW_EAGAIN))
            return rc;
    } while (sw_conn_flush(&c->io));
    return SW_EAGAIN;
}

static bool over(const struct sw_h2conn *c)
{
    return c->n_streams == 0 && (c->goaway || sw_h2_finished(c->h2));
}

/* Lets the engine write; ends the connection when that is due. */
static void conn_step(struct sw_h2conn *c)
{
    int rc = SW_OK;

    if (c->in_step || (c->state != H2C_OPEN && !c->broken))
        return;
    c->in_step = true;
    if (!c->broken) {
        rc = flush(c);
        h2stream_drained(c);
        if (rc == SW_OK && sw_h2_wants_write(c->h2))
            h2conn_wake_now(c); /* on_drain queued more */
    }
    c->in_step = false;
    if (c->broken || (rc != SW_OK && rc != SW_EAGAIN))
        die(c, SW_ECLOSED, "connection was lost");
    else if (over(c))
        close_lingering(c);
}

static void on_again(struct sw_defer *d)
{
    conn_step(SW_CONTAINER_OF(d, struct sw_h2conn, again));
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

static void on_drained(struct sw_conn *io)
{
    conn_step(conn_of(io));
}

/* --- reading --- */

static void on_open(struct sw_conn *io)
{
    struct sw_h2conn *c = conn_of(io);

    c->state = H2C_OPEN;
    c->read_ns = c->idle_ns = sw_loop_now(c->loop);
    c->h2 = h2stream_engine(c);
    h2conn_arm(c);
    if (c->o.ops->on_open)
        c->o.ops->on_open(c, c->o.arg);
    h2conn_wake_now(c); /* the preface, at least */
}

static size_t on_bytes(struct sw_conn *io, struct sw_slice in)
{
    struct sw_h2conn *c = conn_of(io);
    struct sw_err err = {0};
    int rc;

    if (c->broken)
        return in.n;
    c->in_step = true;
    c->feeding = true;
    rc = sw_h2_feed(c->h2, in, &err);
    c->feeding = false;
    c->in_step = false;
    if (rc != SW_OK && !c->broken) {
        set_why(c, rc, err.msg);
        close_lingering(c);
    }
    return in.n;
}

static void on_batch(struct sw_conn *io, size_t wire)
{
    struct sw_h2conn *c = conn_of(io);

    c->read_ns = sw_loop_now(c->loop);
    c->pinged = false;
    conn_step(c);
}

static void on_eof(struct sw_conn *io)
{
    die(conn_of(io), SW_EOF, "peer closed the connection");
}

static void on_fail(struct sw_conn *io, const struct sw_err *err)
{
    die(conn_of(io), err->rc, err->msg);
}

static const struct sw_conn_ops io_ops = {
    .on_open = on_open,
    .on_bytes = on_bytes,
    .on_batch = on_batch,
    .on_eof = on_eof,
    .on_drained = on_drained,
    .on_fail = on_fail,
    .on_free = on_free,
};

/* --- time --- */

static void on_timer(struct sw_timer *t)
{
    struct sw_h2conn *c = SW_CONTAINER_OF(t, struct sw_h2conn, timer);
    uint64_t now = sw_loop_now(c->loop);
    uint64_t quiet = now - c->read_ns;

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
    sw_timer_start(c->loop, &c->timer, sw_min(c->o.pong_ns, c->o.ping_ns) / 2, on_timer);
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

static struct sw_tls *make_tls(struct sw_h2conn *c, struct sw_err *err)
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
    return sw_tls_new(&p, err);
}

static int start_io(struct sw_h2conn *c, int fd, struct sw_err *err)
{
    /* Without TLS an accepted socket is opened as a dialled one: on_open comes from the loop. */
    struct sw_conn_opts o = {.ops = &io_ops,
                             .dialled = !c->o.server || !c->o.cred,
                             .open_ms = (uint32_t)(c->o.open_timeout_ns / SW_NS_PER_MS)};
    struct sw_tls *tls = c->o.cred ? make_tls(c, err) : NULL;
    int rc;

    if (c->o.cred && !tls) {
        sw_sock_close(fd);
        return err->rc;
    }
    o.filter = sw_tls_filter(tls);
    rc = sw_conn_init(&c->io, c->loop, fd, &o, err);
    c->io.deferred_output = true;
    c->io.stall_ms = (uint32_t)(c->o.write_timeout_ns / SW_NS_PER_MS);
    return rc;
}

struct sw_h2conn *sw_h2conn_new(struct sw_loop *l, int fd, const struct sw_h2conn_opts *o,
                                struct sw_err *err)
{
    struct sw_h2conn *c = SW_NEW(struct sw_h2conn);

    c->loop = l;
    c->o = *o;
    set_defaults(&c->o);
    c->o.cred = o->cred ? sw_tls_cred_ref(o->cred) : NULL;
    c->host = o->host ? sw_strdup(o->host) : NULL;
    sw_list_init(&c->streams);
    sw_sock_tune(fd, &(struct sw_sock_opts){.keepalive = true,
                                            .keepalive_time_s = 60,
                                            .keepalive_interval_s = 15,
                                            .keepalive_retries = 4,
                                            .netns_fd = -1});
    if (start_io(c, fd, err) == SW_OK)
        return c;
    sw_h2conn_free(c);
    return NULL;
}

struct sw_addr sw_h2conn_peer_addr(const struct sw_h2conn *c)
{
    return sw_sock_peer(c->io.watch.fd);
}

const struct sw_tls_peer *sw_h2conn_peer(const struct sw_h2conn *c)
{
    return c->io.filter && c->state == H2C_OPEN ? sw_tls_peer(sw_tls_of(c->io.filter)) : NULL;
}

bool sw_h2conn_agreed(const struct sw_h2conn *c)
{
    return c->io.filter && strcmp(sw_tls_alpn(sw_tls_of(c->io.filter)), "h2") == 0;
}

size_t sw_h2conn_streams(const struct sw_h2conn *c)
{
    return c->n_streams;
}
