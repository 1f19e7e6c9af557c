/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server for tests of clients, on the test's own loop: it understands requests just well enough
 * to hand them over whole, and sends exactly the bytes it is told to, well-formed or not.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "io/loop.h"
#include "io/sock.h"
#include "tls/tls.h"

struct fake;

struct fake_conn {
    struct sw_list link;
    struct fake *fake;
    int fd;
    struct sw_watch watch;
    struct sw_tls *tls;
    bool up;
    bool busy;         /* a request was handed over and not answered to the end */
    struct sw_buf in;  /* wire */
    struct sw_buf req; /* plain */
    struct sw_buf out;
    char *method;
    char *target;
    char *head; /* the whole head */
    char *body;
    int serial; /* connections are counted */
};

struct fake {
    struct sw_loop *loop;
    int fd;
    struct sw_watch watch;
    struct sw_list conns;
    struct sw_addr addr;
    struct sw_tls_cred *cred;
    void (*on_request)(struct fake_conn *c, void *arg);
    void (*on_gone)(struct fake_conn *c, void *arg); /* may be NULL */
    void *arg;
    int accepted;
    int requests;
};

static inline void fake_conn_free(struct fake_conn *c)
{
    if (c->fake->on_gone)
        c->fake->on_gone(c, c->fake->arg);
    sw_watch_stop(&c->watch);
    sw_sock_close(c->fd);
    sw_tls_free(c->tls);
    sw_buf_done(&c->in);
    sw_buf_done(&c->req);
    sw_buf_done(&c->out);
    sw_free(c->method);
    sw_free(c->target);
    sw_free(c->head);
    sw_free(c->body);
    sw_list_unlink(&c->link);
    sw_free(c);
}

static inline void fake_flush(struct fake_conn *c)
{
    while (sw_buf_len(&c->out)) {
        ssize_t n = sw_sock_write(c->fd, sw_buf_data(&c->out), sw_buf_len(&c->out));

        if (n <= 0)
            return;
        sw_buf_consume(&c->out, (size_t)n);
    }
}

static inline void fake_send_n(struct fake_conn *c, const char *p, size_t n)
{
    while (n) {
        static uint8_t plain[8193];
        size_t k = sw_min(n, 8192);

        if (c->tls) {
            char *to = sw_buf_reserve(&c->out, SW_TLS_SEAL_ROOM(k));

            memcpy(plain, p, k);
            sw_buf_commit(&c->out, sw_tls_seal(c->tls, plain, k, (uint8_t *)to));
        } else if (sw_buf_append(&c->out, p, k) != SW_OK) {
            abort();
        }
        p += k;
        n -= k;
    }
    fake_flush(c);
}

static inline void fake_send(struct fake_conn *c, const char *text)
{
    fake_send_n(c, text, strlen(text));
}

/* A whole response; the connection may be used again. */
static inline void fake_reply(struct fake_conn *c, int status, const char *extra, const char *body)
{
    char *head = sw_asprintf("HTTP/1.1 %d X\r\nContent-Type: application/json\r\n%s"
                             "Content-Length: %zu\r\n\r\n",
                             status, extra ? extra : "", strlen(body));

    fake_send(c, head);
    fake_send(c, body);
    sw_free(head);
    c->busy = false;
}

static inline void fake_stream_begin(struct fake_conn *c)
{
    fake_send(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                 "Transfer-Encoding: chunked\r\n\r\n");
}

static inline void fake_chunk(struct fake_conn *c, const char *text)
{
    char *t = sw_asprintf("%zx\r\n%s\r\n", strlen(text), text);

    fake_send(c, t);
    sw_free(t);
}

static inline void fake_stream_end(struct fake_conn *c)
{
    fake_send(c, "0\r\n\r\n");
    c->busy = false;
}

/* Hands one complete request over; true when there was one. */
static inline bool fake_take_request(struct fake_conn *c)
{
    struct sw_slice in = sw_buf_slice(&c->req);
    const char *end = in.n ? memmem(in.p, in.n, "\r\n\r\n", 4) : NULL;
    const char *length;
    size_t body = 0;
    size_t head;
    char *sp;

    if (!end || c->busy)
        return false;
    head = (size_t)(end - in.p) + 4;
    sw_free(c->head);
    c->head = sw_strndup(in.p, head);
    length = strcasestr(c->head, "\r\ncontent-length:");
    if (length)
        body = strtoul(length + 17, NULL, 10);
    if (in.n < head + body)
        return false;
    sw_free(c->method);
    sw_free(c->target);
    sw_free(c->body);
    c->body = sw_strndup(in.p + head, body);
    sp = strchr(c->head, ' ');
    c->method = sw_strndup(c->head, (size_t)(sp - c->head));
    c->target = sw_strndup(sp + 1, strcspn(sp + 1, " "));
    sw_buf_consume(&c->req, head + body);
    c->busy = true;
    c->fake->requests++;
    c->fake->on_request(c, c->fake->arg);
    return true;
}

static inline int fake_tls_in(struct fake_conn *c)
{
    struct sw_err err = {0};
    size_t used = 0;
    int rc;

    if (!c->up) {
        rc = sw_tls_handshake(c->tls, sw_buf_slice(&c->in), &used, &c->out, &err);
        sw_buf_consume(&c->in, used);
        fake_flush(c);
        c->up = rc == SW_OK;
        return rc;
    }
    for (;;) {
        struct sw_slice plain = {0};

        rc = sw_tls_open(c->tls, (uint8_t *)c->in.p + c->in.off, sw_buf_len(&c->in), &used, &plain,
                         &err);
        if (rc != SW_OK)
            return rc;
        if (plain.n && sw_buf_append_slice(&c->req, plain) != SW_OK)
            abort();
        sw_buf_consume(&c->in, used);
    }
}

static inline void fake_on_conn(struct sw_watch *w, unsigned events)
{
    struct fake_conn *c = SW_CONTAINER_OF(w, struct fake_conn, watch);
    char buf[4096];
    ssize_t n;

    (void)events;
    fake_flush(c);
    while ((n = sw_sock_read(c->fd, buf, sizeof(buf))) > 0) {
        if (sw_buf_append(c->tls ? &c->in : &c->req, buf, (size_t)n) != SW_OK)
            abort();
    }
    if (c->tls && sw_buf_len(&c->in)) {
        int rc = fake_tls_in(c);

        if (rc == SW_OK)
            rc = fake_tls_in(c);
        if (rc != SW_EAGAIN) {
            fake_conn_free(c);
            return;
        }
    }
    if (n == SW_EOF || n == SW_ECLOSED) {
        fake_conn_free(c);
        return;
    }
    (void)fake_take_request(c);
}

static inline void fake_on_listen(struct sw_watch *w, unsigned events)
{
    struct fake *f = SW_CONTAINER_OF(w, struct fake, watch);
    int fd;

    (void)events;
    while (sw_sock_accept(f->fd, &fd, NULL, NULL) == SW_OK) {
        struct fake_conn *c = SW_NEW(struct fake_conn);

        c->fake = f;
        c->fd = fd;
        c->serial = f->accepted++;
        sw_buf_init(&c->in, 64 << 20);
        sw_buf_init(&c->req, 64 << 20);
        sw_buf_init(&c->out, 256 << 20);
        if (f->cred) {
            struct sw_tls_params p = {
                .web = true, .server = true, .cred = f->cred, .alpn = "h2,http/1.1", .tls12 = true};

            c->tls = sw_tls_new(&p, NULL);
        }
        sw_list_push_back(&f->conns, &c->link);
        if (sw_watch_start(f->loop, &c->watch, fd, fake_on_conn, NULL) != SW_OK)
            abort();
        fake_on_conn(&c->watch, SW_READ);
    }
}

/* port 0: any. */
static inline void fake_listen(struct fake *f, uint16_t port)
{
    struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    struct sw_addr at = {.ip = {.family = 4, .b = {127, 0, 0, 1}}, .port = port};
    struct sw_err err = {0};

    if (sw_sock_listen(&at, &so, &f->fd, &err) != SW_OK) {
        (void)fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    f->addr = sw_sock_local(f->fd);
    if (sw_watch_start_listener(f->loop, &f->watch, f->fd, fake_on_listen, NULL) != SW_OK)
        abort();
}

static inline void fake_open(struct fake *f, struct sw_loop *l,
                             void (*on_request)(struct fake_conn *, void *), void *arg)
{
    *f = (struct fake){.loop = l, .fd = -1, .on_request = on_request, .arg = arg};
    sw_list_init(&f->conns);
    fake_listen(f, 0);
}

static inline void fake_drop_conns(struct fake *f)
{
    while (!sw_list_empty(&f->conns))
        fake_conn_free(SW_CONTAINER_OF(f->conns.next, struct fake_conn, link));
}

/* As a server that goes down; fake_listen brings it up again. */
static inline void fake_down(struct fake *f)
{
    sw_watch_stop(&f->watch);
    sw_sock_close(f->fd);
    f->fd = -1;
    fake_drop_conns(f);
}

static inline void fake_close(struct fake *f)
{
    fake_down(f);
    sw_tls_cred_unref(f->cred);
    f->cred = NULL;
}
