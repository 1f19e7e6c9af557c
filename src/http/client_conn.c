/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of the client: name, connect, handshake, then bytes in both directions. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/client_int.h"
#include "io/sock.h"
#include "tls/tls.h"
#include "tls/tlsbuf.h"

enum {
    IN_MAX = SW_TLS_RECORD_MAX + 2048 + 16384, /* one record of the largest kind and some more */
    PLAIN_MAX = 128 * 1024,
    HEAD_LIMIT = 64 * 1024,
    OUT_MAX = 66 << 20, /* a request of the largest kind */
    WIRE_MAX = 512 * 1024,
    WIRE_HIGH = 128 * 1024,
    READ_SIZE = 16384,
    TURN_BUDGET = 512 * 1024, /* bytes taken in one turn of the loop */
};

static void step(struct hc_conn *c);

/* --- end --- */

void hc_conn_free(struct hc_conn *c)
{
    if (c->state != HC_DEAD)
        c->client->n_conns--;
    if (c->resolve)
        c->resolve->arg = NULL;
    sw_watch_stop(&c->watch);
    sw_timer_stop(c->client->loop, &c->timer);
    sw_defer_cancel(&c->again);
    sw_defer_cancel(&c->reap);
    sw_sock_close(c->fd);
    sw_tls_free(c->tls);
    sw_h1_free(c->h1);
    sw_buf_done(&c->in);
    sw_buf_done(&c->plain);
    sw_buf_done(&c->out);
    sw_buf_done(&c->wire);
    sw_list_unlink(&c->link);
    sw_free(c);
}

static void on_reap(struct sw_defer *d)
{
    hc_conn_free(SW_CONTAINER_OF(d, struct hc_conn, reap));
}

void hc_conn_close(struct hc_conn *c)
{
    struct sw_loop *l = c->client->loop;

    if (c->state == HC_DEAD)
        return;
    if (c->state == HC_OPEN && c->tls && !c->call && sw_buf_len(&c->wire) == 0) {
        uint8_t bye[SW_TLS_CTRL_ROOM];
        size_t n = sw_tls_close_notify(c->tls, bye, sizeof(bye));

        (void)sw_sock_write(c->fd, bye, n);
    }
    c->state = HC_DEAD;
    c->client->n_conns--;
    sw_watch_stop(&c->watch);
    sw_timer_stop(l, &c->timer);
    sw_defer_cancel(&c->again);
    sw_sock_close(SW_TAKE_FD(c->fd));
    sw_loop_defer(l, &c->reap, on_reap);
    hc_dispatch_later(c->client);
}

/* The connection is of no use any more; its call hears why. */
static void broken(struct hc_conn *c, int rc, const struct sw_err *err)
{
    if (c->call)
        hc_call_broken(c, rc, err);
    hc_conn_close(c);
}

static void on_deadline(struct sw_timer *t)
{
    struct hc_conn *c = SW_CONTAINER_OF(t, struct hc_conn, timer);
    struct sw_err err = {0};

    if (c->state == HC_OPEN) {
        hc_conn_close(c); /* idle for long enough */
        return;
    }
    (void)sw_err_set(&err, SW_ETIME, "cannot connect to '%s' in time", c->client->authority);
    broken(c, SW_ETIME, &err);
}

/* --- connecting --- */

static void on_watch(struct sw_watch *w, unsigned events)
{
    (void)events;
    step(SW_CONTAINER_OF(w, struct hc_conn, watch));
}

/* The next address; SW_OK when a connect is under way. */
static int connect_next(struct hc_conn *c, struct sw_err *err)
{
    const struct sw_http_client_opts *o = &c->client->o;
    struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    int rc = SW_ENOENT;

    so.keepalive = true;
    so.keepalive_time_s = o->keepalive_s;
    so.keepalive_interval_s = o->keepalive_s / 3 ? o->keepalive_s / 3 : 1;
    so.keepalive_retries = 3;
    so.egress = o->egress;
    sw_watch_stop(&c->watch);
    sw_sock_close(SW_TAKE_FD(c->fd));
    while (c->at_addr < c->n_addrs) {
        rc = sw_sock_connect(&c->addrs[c->at_addr++], NULL, &so, &c->fd, err);
        if (rc == SW_OK)
            rc = sw_watch_start(c->client->loop, &c->watch, c->fd, on_watch, err);
        if (rc == SW_OK) {
            c->state = HC_CONNECT;
            return SW_OK;
        }
    }
    return rc;
}

static void on_resolved(struct sw_resolve *r)
{
    struct hc_conn *c = r->arg;
    struct sw_err err = {0};
    int rc = r->rc;

    if (c) {
        c->resolve = NULL;
        c->n_addrs = 0;
        for (size_t i = 0; i < r->n && rc == SW_OK; i++)
            c->addrs[c->n_addrs++] = (struct sw_addr){.ip = r->ips[i], .port = c->client->o.port};
        if (c->state == HC_RESOLVE) {
            if (rc != SW_OK)
                (void)sw_err_set(&err, rc, "cannot find host '%s'", c->client->host);
            else
                rc = connect_next(c, &err);
            if (rc != SW_OK)
                broken(c, rc, &err);
        }
    }
    sw_free(r);
}

static void resolve(struct hc_conn *c)
{
    struct sw_err err = {0};
    struct sw_ip ip;
    int rc;

    if (sw_ip_parse(c->client->o.host, &ip, NULL) == SW_OK) {
        c->addrs[0] = (struct sw_addr){.ip = ip, .port = c->client->o.port};
        c->n_addrs = 1;
        rc = connect_next(c, &err);
        if (rc != SW_OK)
            broken(c, rc, &err);
        return;
    }
    c->resolve = SW_NEW(struct sw_resolve);
    c->resolve->loop = c->client->loop;
    c->resolve->cb = on_resolved;
    c->resolve->arg = c;
    memcpy(c->resolve->name, c->client->host, strlen(c->client->host) + 1);
    sw_resolve_start(c->resolve);
}

void hc_conn_open(struct sw_http_client *cl, struct sw_http_call *call)
{
    struct hc_conn *c = SW_NEW(struct hc_conn);

    c->client = cl;
    c->fd = -1;
    c->call = call;
    call->conn = c;
    c->cred_gen = cl->cred_gen;
    sw_buf_init(&c->in, IN_MAX);
    sw_buf_init(&c->plain, PLAIN_MAX);
    sw_buf_init(&c->out, OUT_MAX);
    sw_buf_init(&c->wire, WIRE_MAX);
    sw_list_push_back(&cl->conns, &c->link);
    cl->n_conns++;
    sw_timer_start(cl->loop, &c->timer, cl->o.connect_timeout_ns, on_deadline);
    resolve(c);
}

static int start_tls(struct hc_conn *c, struct sw_err *err)
{
    struct sw_http_client *cl = c->client;
    struct sw_tls_params p = {.web = true,
                              .tls12 = true,
                              .chacha = true,
                              .cred = cl->cred,
                              .alpn = "http/1.1",
                              .host = cl->tls_name,
                              .sni = cl->sni,
                              .insecure_skip = cl->o.insecure_skip_verify,
                              .leaf_ok = cl->o.leaf_ok,
                              .leaf_arg = cl->o.leaf_arg};

    c->tls = sw_tls_new(&p, err);
    return c->tls ? SW_OK : err->rc;
}

/* --- sending --- */

/* SW_OK: all of it is out. */
static int write_all(struct hc_conn *c, struct sw_buf *b)
{
    while (sw_buf_len(b)) {
        ssize_t n = sw_sock_write(c->fd, sw_buf_data(b), sw_buf_len(b));

        if (n < 0)
            return (int)n;
        if (c->state == HC_OPEN && c->call)
            c->call->sent = true;
        sw_buf_consume(b, (size_t)n);
    }
    return SW_OK;
}

/* SW_OK: nothing waits; SW_EAGAIN: the socket is full. */
static int flush(struct hc_conn *c)
{
    int rc;

    if (!c->tls)
        return write_all(c, &c->out);
    for (;;) {
        rc = write_all(c, &c->wire);
        if (rc != SW_OK)
            return rc;
        sw_tls_flush_buf(c->tls, &c->wire);
        rc = sw_tls_seal_buf(c->tls, &c->out, &c->wire, WIRE_HIGH);
        if (rc != SW_OK || sw_buf_len(&c->wire) == 0)
            return rc;
    }
}

static int load_request(struct hc_conn *c)
{
    int rc;

    if (!c->h1)
        c->h1 = sw_h1_new(SW_H1_RESPONSE, &(struct sw_h1_limits){.line = HEAD_LIMIT / 2,
                                                                 .head = HEAD_LIMIT,
                                                                 .headers = 256,
                                                                 .chunk_ext = 1 << 20});
    sw_h1_reset(c->h1);
    if (c->call->answers_head)
        sw_h1_answer_to(c->h1, SW_SLICE_LIT("HEAD"));
    c->got_bytes = false;
    rc = sw_buf_append_slice(&c->out, sw_buf_slice(&c->call->head));
    if (rc == SW_OK)
        rc = sw_buf_append_slice(&c->out, sw_buf_slice(&c->call->body));
    return rc;
}

static void open_done(struct hc_conn *c)
{
    c->state = HC_OPEN;
    sw_timer_stop(c->client->loop, &c->timer);
    if (load_request(c) != SW_OK)
        broken(c, SW_ELIMIT, NULL);
}

static void on_again(struct sw_defer *d)
{
    step(SW_CONTAINER_OF(d, struct hc_conn, again));
}

void hc_conn_wake(struct hc_conn *c)
{
    sw_loop_defer(c->client->loop, &c->again, on_again);
}

void hc_conn_use(struct hc_conn *c, struct sw_http_call *call)
{
    c->call = call;
    call->conn = c;
    c->reused = true;
    sw_timer_stop(c->client->loop, &c->timer);
    if (load_request(c) != SW_OK)
        broken(c, SW_ELIMIT, NULL);
    else
        step(c);
}

/* --- receiving --- */

static int read_into(struct hc_conn *c, struct sw_buf *b)
{
    char *to = sw_buf_reserve(b, sw_min(READ_SIZE, b->max - sw_buf_len(b)));
    ssize_t n;

    if (!to || b->max == sw_buf_len(b))
        return SW_ELIMIT;
    n = sw_sock_read(c->fd, to, sw_min(READ_SIZE, b->max - sw_buf_len(b)));
    if (n < 0)
        return (int)n;
    sw_buf_commit(b, (size_t)n);
    return SW_OK;
}

static int open_record(struct hc_conn *c, struct sw_err *err)
{
    struct sw_slice plain = {0};
    size_t used = 0;
    int rc =
        sw_tls_open(c->tls, (uint8_t *)c->in.p + c->in.off, sw_buf_len(&c->in), &used, &plain, err);

    if (rc == SW_OK && plain.n && sw_buf_append_slice(&c->plain, plain) != SW_OK)
        return sw_err_set(err, SW_ELIMIT, "response does not fit the buffer");
    sw_buf_consume(&c->in, used);
    return rc;
}

/* More bytes for the parser. SW_OK: some came, or the end did (c->eof). */
static int fill(struct hc_conn *c, struct sw_err *err)
{
    int rc;

    if (!c->tls) {
        rc = read_into(c, &c->plain);
    } else {
        rc = sw_buf_len(&c->in) ? open_record(c, err) : SW_EAGAIN;
        if (rc != SW_EAGAIN) {
            c->eof = c->eof || rc == SW_EOF;
            return rc == SW_EOF ? SW_OK : rc;
        }
        rc = read_into(c, &c->in);
        c->cut = rc == SW_EOF;
    }
    if (rc == SW_EOF) {
        c->eof = true;
        return SW_OK;
    }
    if (rc != SW_OK && rc != SW_EAGAIN && err->rc == 0)
        (void)sw_err_set(err, rc, "connection to '%s' was lost", c->client->authority);
    return rc;
}

static void deliver_head(struct hc_conn *c)
{
    struct sw_http_call *call = c->call;
    const struct sw_h1_msg *m = sw_h1_msg(c->h1);

    call->in_body = true;
    call->keep_alive = m->keep_alive;
    hc_call_rearm(call);
    if (call->o.on_head)
        call->o.on_head(call, m, call->o.arg);
}

static int deliver_body(struct hc_conn *c, struct sw_err *err)
{
    struct sw_http_call *call = c->call;
    struct sw_slice data = sw_h1_data(c->h1);

    call->body_seen += data.n;
    if (call->o.body_max && call->body_seen > call->o.body_max)
        return sw_err_set(err, SW_ELIMIT, "response from '%s' is too large", c->client->authority);
    hc_call_rearm(call);
    if (call->o.on_body)
        call->o.on_body(call, data, call->o.arg);
    return SW_OK;
}

/* An interim answer (100, 103) is not the answer. */
static bool interim(const struct hc_conn *c)
{
    int status = sw_h1_msg(c->h1)->status;

    return status >= 100 && status < 200 && status != 101;
}

static int on_event(struct hc_conn *c, enum sw_h1_event ev, struct sw_err *err)
{
    switch (ev) {
    case SW_H1_HEAD:
        if (sw_h1_msg(c->h1)->framing == SW_H1_TUNNEL)
            return sw_err_set(err, SW_EPROTO, "server changed the protocol");
        if (!interim(c))
            deliver_head(c);
        return SW_OK;
    case SW_H1_BODY:
        return deliver_body(c, err);
    case SW_H1_TRAILERS:
        return SW_OK;
    case SW_H1_END:
        if (interim(c)) {
            sw_h1_reset(c->h1);
            if (c->call->answers_head)
                sw_h1_answer_to(c->h1, SW_SLICE_LIT("HEAD"));
            return SW_OK;
        }
        hc_call_answered(c);
        return SW_OK;
    }
    return SW_OK;
}

/* Parses what is there. SW_OK: the call is over or paused; SW_EAGAIN: needs more bytes. */
static int parse(struct hc_conn *c, struct sw_err *err)
{
    while (c->state == HC_OPEN && c->call && !c->call->paused) {
        enum sw_h1_event ev = SW_H1_HEAD;
        size_t used = 0;
        int rc = sw_h1_next(c->h1, sw_buf_slice(&c->plain), &used, &ev, err);

        if (rc == SW_EAGAIN && c->eof) {
            sw_buf_consume(&c->plain, used);
            if (c->cut && sw_h1_msg(c->h1)->framing == SW_H1_UNTIL_CLOSE && c->call->in_body)
                return sw_err_set(err, SW_EPROTO, "response was cut off");
            if (sw_h1_idle(c->h1))
                return sw_err_set(err, SW_ECLOSED, "'%s' closed the connection",
                                  c->client->authority);
            rc = sw_h1_eof(c->h1, err);
            if (rc != SW_OK)
                return rc;
            continue;
        }
        if (rc == SW_OK && ev == SW_H1_END) {
            sw_buf_consume(&c->plain, used); /* before it is judged what came unasked */
            used = 0;
        }
        if (rc == SW_OK)
            rc = on_event(c, ev, err);
        if (c->state == HC_DEAD)
            return SW_OK;
        sw_buf_consume(&c->plain, used);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

/* Nothing may come while nobody asked. */
static int watch_idle(struct hc_conn *c, struct sw_err *err)
{
    int rc;

    do {
        rc = fill(c, err);
    } while (rc == SW_OK && !c->eof && sw_buf_len(&c->plain) == 0);
    if (rc == SW_EAGAIN && !sw_timer_running(&c->timer))
        sw_timer_start(c->client->loop, &c->timer, c->client->o.idle_timeout_ns, on_deadline);
    return rc == SW_EAGAIN ? SW_OK : SW_ECLOSED;
}

static int step_open(struct hc_conn *c, struct sw_err *err)
{
    size_t budget = TURN_BUDGET;
    int rc = flush(c);

    if (rc != SW_OK && rc != SW_EAGAIN)
        c->cut = true; /* an answer may be there nevertheless: a server that refuses early */
    while (c->state == HC_OPEN && c->call) {
        size_t before = sw_buf_len(&c->plain);

        rc = parse(c, err);
        if (rc != SW_EAGAIN) {
            if (rc != SW_OK)
                return rc;
            break;
        }
        if (budget == 0) {
            hc_conn_wake(c);
            return SW_OK;
        }
        rc = fill(c, err);
        if (rc != SW_OK)
            return rc == SW_EAGAIN ? SW_OK : rc;
        if (sw_buf_len(&c->plain) > before)
            c->got_bytes = true;
        budget -= sw_min(budget, READ_SIZE);
    }
    if (c->state == HC_OPEN && !c->call)
        return watch_idle(c, err);
    return SW_OK;
}

static int step_connect(struct hc_conn *c, struct sw_err *err)
{
    int rc = sw_sock_connect_result(c->fd, err);

    if (rc == SW_EAGAIN)
        return SW_EAGAIN;
    if (rc != SW_OK) {
        int code = rc;

        rc = connect_next(c, err);
        return rc == SW_OK ? SW_EAGAIN : code;
    }
    if (!c->client->o.tls) {
        open_done(c);
        return SW_OK;
    }
    rc = start_tls(c, err);
    c->state = HC_HANDSHAKE;
    return rc;
}

static int step_handshake(struct hc_conn *c, struct sw_err *err)
{
    for (;;) {
        size_t used = 0;
        int rc = sw_tls_handshake(c->tls, sw_buf_slice(&c->in), &used, &c->wire, err);
        int wrote;

        sw_buf_consume(&c->in, used);
        wrote = write_all(c, &c->wire);
        if (rc == SW_OK) {
            open_done(c);
            return SW_OK;
        }
        if (rc != SW_EAGAIN)
            return sw_err_prefix(err, "TLS to '%s'", c->client->authority), rc;
        if (wrote != SW_OK && wrote != SW_EAGAIN)
            return sw_err_set(err, SW_ECLOSED, "'%s' closed the connection", c->client->authority);
        rc = read_into(c, &c->in);
        if (rc == SW_EAGAIN)
            return SW_EAGAIN;
        if (rc != SW_OK)
            return sw_err_set(err, SW_ECLOSED, "'%s' closed during the TLS handshake",
                              c->client->authority);
    }
}

static void step(struct hc_conn *c)
{
    struct sw_err err = {0};
    int rc = SW_OK;

    if (c->stepping)
        return;
    c->stepping = true;
    if (c->state == HC_CONNECT)
        rc = step_connect(c, &err);
    if (rc == SW_OK && c->state == HC_HANDSHAKE)
        rc = step_handshake(c, &err);
    if (rc == SW_OK && c->state == HC_OPEN)
        rc = step_open(c, &err);
    c->stepping = false;
    if (rc != SW_OK && rc != SW_EAGAIN && c->state != HC_DEAD)
        broken(c, rc, &err);
}
