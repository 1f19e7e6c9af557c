/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of the client: name, address after address, then requests and responses. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "http/client_int.h"
#include "io/sock.h"
#include "tls/connfilter.h"
#include "tls/tls.h"

enum {
    PLAIN_MAX = 128 * 1024,
    HEAD_LIMIT = 64 * 1024,
};

/* --- end --- */

void hc_conn_free(struct hc_conn *c)
{
    if (c->state != HC_DEAD)
        c->client->n_conns--;
    if (c->resolve)
        c->resolve->arg = NULL;
    sw_conn_done(&c->io);
    sw_timer_stop(c->client->loop, &c->timer);
    sw_defer_cancel(&c->reap);
    sw_h1_free(c->h1);
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
    if (c->state == HC_OPEN && c->io.filter && sw_conn_unsent(&c->io) == 0)
        sw_conn_shutdown(&c->io);
    c->state = HC_DEAD;
    c->client->n_conns--;
    sw_timer_stop(l, &c->timer);
    if (c->dialled)
        sw_conn_close(&c->io, false); /* on_free follows */
    else
        sw_loop_defer(l, &c->reap, on_reap);
    hc_dispatch_later(c->client);
}

/* The connection is of no use any more; its call fails. */
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

void hc_conn_rest(struct hc_conn *c)
{
    sw_timer_start(c->client->loop, &c->timer, c->client->o.idle_timeout_ns, on_deadline);
}

/* --- connecting --- */

static const struct sw_conn_ops io_ops;

/* Also done on failure, with NULL: no TLS. */
static int make_filter(struct hc_conn *c, struct sw_filter **ret, struct sw_err *err)
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

    *ret = cl->o.tls ? sw_tls_filter(sw_tls_new(&p, err)) : NULL;
    return cl->o.tls && !*ret ? err->rc : SW_OK;
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
    while (c->at_addr < c->n_addrs) {
        struct sw_filter *filter;
        int fd;

        rc = sw_sock_connect(&c->addrs[c->at_addr++], NULL, &so, &fd, err);
        if (rc != SW_OK)
            continue;
        rc = make_filter(c, &filter, err);
        if (rc != SW_OK) {
            sw_sock_close(fd);
            return rc;
        }
        rc = sw_conn_init(&c->io, c->client->loop, fd,
                          &(struct sw_conn_opts){.ops = &io_ops, .filter = filter, .dialled = true},
                          err);
        if (rc == SW_OK) {
            c->io.in_max = PLAIN_MAX;
            c->dialled = true;
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
    c->call = call;
    call->conn = c;
    c->cred_gen = cl->cred_gen;
    sw_list_push_back(&cl->conns, &c->link);
    cl->n_conns++;
    sw_timer_start(cl->loop, &c->timer, cl->o.connect_timeout_ns, on_deadline);
    resolve(c);
}

/* The connection ended below HTTP. */
static void on_fail(struct sw_conn *io, const struct sw_err *why)
{
    struct hc_conn *c = SW_CONTAINER_OF(io, struct hc_conn, io);
    const char *authority = c->client->authority;
    struct sw_err err = *why;
    bool lost = why->rc == SW_ECLOSED || why->rc == SW_ESYS || why->rc == SW_EOF;

    if (c->state == HC_CONNECT && io->connecting) {
        if (c->at_addr < c->n_addrs)
            return; /* on_free dials the next one */
    } else if (c->state == HC_CONNECT && lost) {
        (void)sw_err_set(&err, SW_ECLOSED, "'%s' closed during the TLS handshake", authority);
    } else if (c->state == HC_CONNECT) {
        sw_err_prefix(&err, "TLS to '%s'", authority);
    } else if (lost) {
        (void)sw_err_set(&err, why->rc, "connection to '%s' was lost", authority);
    }
    broken(c, err.rc, &err);
}

static void on_free(struct sw_conn *io)
{
    struct hc_conn *c = SW_CONTAINER_OF(io, struct hc_conn, io);
    struct sw_err err = {0};
    int rc;

    c->dialled = false;
    if (c->state == HC_DEAD) {
        hc_conn_free(c);
        return;
    }
    rc = connect_next(c, &err);
    if (rc != SW_OK)
        broken(c, rc, &err);
}

/* --- sending --- */

/* The body is sent from the call's memory as the peer takes it. */
static void send_body(struct hc_conn *c)
{
    struct sw_slice rest = sw_slice_from(sw_buf_slice(&c->call->body), c->body_off);

    if (rest.n)
        c->body_off += sw_conn_write(&c->io, rest);
}

static void send_request(struct hc_conn *c)
{
    struct sw_http_call *call = c->call;

    if (!c->h1)
        c->h1 = sw_h1_new(SW_H1_RESPONSE, &(struct sw_h1_limits){.line = HEAD_LIMIT / 2,
                                                                 .head = HEAD_LIMIT,
                                                                 .headers = 256,
                                                                 .chunk_ext = 1 << 20});
    sw_h1_reset(c->h1);
    if (call->answers_head)
        sw_h1_answer_to(c->h1, SW_SLICE_LIT("HEAD"));
    c->got_bytes = false;
    c->body_off = 0;
    call->sent = true;
    sw_conn_put(&c->io, sw_buf_data(&call->head), sw_buf_len(&call->head));
    send_body(c);
    if (call->paused)
        sw_conn_pause(&c->io);
}

static void on_open(struct sw_conn *io)
{
    struct hc_conn *c = SW_CONTAINER_OF(io, struct hc_conn, io);

    c->state = HC_OPEN;
    sw_timer_stop(c->client->loop, &c->timer);
    send_request(c);
}

static void on_drained(struct sw_conn *io)
{
    struct hc_conn *c = SW_CONTAINER_OF(io, struct hc_conn, io);

    if (c->call)
        send_body(c);
}

bool hc_conn_unsent(const struct hc_conn *c, const struct sw_http_call *call)
{
    return sw_conn_unsent(&c->io) || c->body_off < sw_buf_len(&call->body);
}

void hc_conn_pause(struct hc_conn *c, bool pause)
{
    if (c->state != HC_OPEN)
        return;
    if (pause)
        sw_conn_pause(&c->io);
    else
        sw_conn_resume(&c->io);
}

void hc_conn_use(struct hc_conn *c, struct sw_http_call *call)
{
    c->call = call;
    call->conn = c;
    c->reused = true;
    sw_timer_stop(c->client->loop, &c->timer);
    send_request(c);
}

/* --- receiving --- */

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

/* At the end of the stream: what the parser makes of it. */
static int parse_end(struct hc_conn *c, struct sw_err *err)
{
    if (c->io.truncated && sw_h1_msg(c->h1)->framing == SW_H1_UNTIL_CLOSE && c->call->in_body)
        return sw_err_set(err, SW_EPROTO, "response was cut off");
    if (sw_h1_idle(c->h1))
        return sw_err_set(err, SW_ECLOSED, "'%s' closed the connection", c->client->authority);
    return sw_h1_eof(c->h1, err);
}

/* Parses until the call is over or paused, or bytes are missing. Returns how many were used. */
static size_t parse(struct hc_conn *c, struct sw_slice in, bool eof)
{
    struct sw_err err = {0};
    size_t at = 0;
    int rc = SW_OK;

    while (rc == SW_OK && c->state == HC_OPEN && c->call && !c->call->paused) {
        enum sw_h1_event ev = SW_H1_HEAD;
        size_t used = 0;

        rc = sw_h1_next(c->h1, sw_slice_from(in, at), &used, &ev, &err);
        at += used;
        if (rc == SW_OK)
            rc = on_event(c, ev, &err);
        else if (rc == SW_EAGAIN && eof)
            rc = parse_end(c, &err);
    }
    if (rc != SW_OK && rc != SW_EAGAIN && c->state != HC_DEAD)
        broken(c, rc, &err);
    return at;
}

static size_t on_bytes(struct sw_conn *io, struct sw_slice in)
{
    struct hc_conn *c = SW_CONTAINER_OF(io, struct hc_conn, io);

    c->got_bytes = true;
    if (!c->call)
        hc_conn_close(c); /* unsolicited: behind an answer, or while idle */
    return parse(c, in, false);
}

static void on_eof(struct sw_conn *io)
{
    struct hc_conn *c = SW_CONTAINER_OF(io, struct hc_conn, io);

    (void)parse(c, (struct sw_slice){0}, true);
    hc_conn_close(c);
}

static const struct sw_conn_ops io_ops = {
    .on_open = on_open,
    .on_bytes = on_bytes,
    .on_eof = on_eof,
    .on_drained = on_drained,
    .on_fail = on_fail,
    .on_free = on_free,
};
