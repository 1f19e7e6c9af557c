/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tunnel's tests share: a loop whose clock they drive, credentials, socket pairs and bytes
 * that can be checked. Everything runs on the one loop; nothing sleeps.
 */
#pragma once

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "io/loop.h"
#include "io/sock.h"
#include "io/splice.h"
#include "tls/cert/ca.h"
#include "tunnel/scratch.h"
#include "tunnel/session.h"

#define CLIENT_ID "spiffe://td/ns/a/sa/client"
#define SERVER_ID "spiffe://td/ns/a/sa/server"

static uint64_t rig_now = 1000 * SW_NS_PER_S;

static inline uint64_t rig_clock(void)
{
    return rig_now;
}

static inline struct sw_loop *rig_loop(void)
{
    struct sw_err err = {0};
    struct sw_loop *l = sw_loop_new(&err);

    assert_non_null(l);
    sw_loop_set_clock(l, rig_clock);
    return l;
}

static inline void rig_loop_done(struct sw_loop *l)
{
    sw_scratch_done();
    sw_loop_free(l);
    sw_pipe_pool_done();
}

/* Turns the loop until cond holds; fails the test when it never does. */
#define RUN_UNTIL(l, cond)                                                                         \
    do {                                                                                           \
        int left_ = 20000;                                                                         \
        while (!(cond) && --left_)                                                                 \
            sw_loop_turn((l), 1);                                                                  \
        if (!left_)                                                                                \
            fail_msg("line %d: never became true: %s", __LINE__, #cond);                           \
    } while (0)

/* Lets everything that is on its way arrive. */
static inline void rig_settle(struct sw_loop *l)
{
    for (int i = 0; i < 30; i++)
        sw_loop_turn(l, 1);
}

static inline void rig_advance(struct sw_loop *l, uint64_t ns)
{
    rig_now += ns;
    rig_settle(l);
}

static inline void unix_pair(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
}

static inline int tcp_listener(struct sw_addr *ret)
{
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    struct sw_addr at = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_err err = {0};
    int fd;

    assert_int_equal(sw_sock_listen(&at, &o, &fd, &err), SW_OK);
    *ret = sw_sock_local(fd);
    return fd;
}

/* Until there is something to read, accept or be told of: the kernel may take its time. */
static inline void rig_wait_in(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&p, 1, 60000), 1);
}

static inline int tcp_accept(int listener)
{
    struct sw_err err = {0};
    int fd = -1;

    rig_wait_in(listener);
    assert_int_equal(sw_sock_accept(listener, &fd, NULL, &err), SW_OK);
    return fd;
}

/* Two ends of a TCP connection over loopback, both non-blocking. */
static inline void tcp_pair(int fds[2])
{
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    struct sw_err err = {0};
    struct sw_addr at;
    int listener = tcp_listener(&at);

    assert_int_equal(sw_sock_connect(&at, NULL, &o, &fds[0], &err), SW_OK);
    fds[1] = tcp_accept(listener);
    sw_sock_close(listener);
}

/* ---- bytes that can be checked by their position ---- */

static inline uint8_t pattern(size_t i, unsigned seed)
{
    return (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16) * 3 + seed);
}

struct feed {
    size_t at;
    size_t total;
    unsigned seed;
};

/* Writes as much as the socket takes. */
static inline void feed_write(struct feed *f, int fd)
{
    uint8_t buf[65536];

    while (f->at < f->total) {
        size_t n = sw_min(f->total - f->at, sizeof(buf));
        ssize_t k;

        for (size_t i = 0; i < n; i++)
            buf[i] = pattern(f->at + i, f->seed);
        k = sw_sock_write(fd, buf, n);
        if (k <= 0)
            return;
        f->at += (size_t)k;
    }
}

/* Reads at most max and compares; returns the last result of the read. */
static inline ssize_t feed_read(struct feed *f, int fd, size_t max)
{
    uint8_t buf[65536];
    size_t got = 0;

    while (got < max) {
        ssize_t k = sw_sock_read(fd, buf, sw_min(sizeof(buf), max - got));

        if (k <= 0)
            return k;
        for (ssize_t i = 0; i < k; i++) {
            if (buf[i] != pattern(f->at + (size_t)i, f->seed))
                fail_msg("byte %zu is wrong", f->at + (size_t)i);
        }
        f->at += (size_t)k;
        got += (size_t)k;
    }
    return (ssize_t)got;
}

static inline void put(int fd, const char *text)
{
    assert_int_equal(sw_sock_write(fd, text, strlen(text)), strlen(text));
}

/* Runs the loop until fd delivered exactly this text. */
static inline void expect(struct sw_loop *l, int fd, const char *text)
{
    char buf[256];
    size_t n = 0;

    for (int i = 0; i < 20000 && n < strlen(text); i++) {
        ssize_t k = sw_sock_read(fd, buf + n, strlen(text) - n);

        assert_true(k > 0 || k == SW_EAGAIN);
        if (k > 0)
            n += (size_t)k;
        else
            sw_loop_turn(l, 1);
    }
    assert_int_equal(n, strlen(text));
    assert_memory_equal(buf, text, n);
}

/* Runs the loop until reading fd says something else than "nothing yet". */
static inline ssize_t read_end(struct sw_loop *l, int fd)
{
    char buf[65536];
    ssize_t k = SW_EAGAIN;

    for (int i = 0; i < 20000 && (k == SW_EAGAIN || k > 0); i++) {
        k = sw_sock_read(fd, buf, sizeof(buf));
        if (k == SW_EAGAIN)
            sw_loop_turn(l, 1);
    }
    return k;
}

/* ---- credentials ---- */

struct creds {
    struct sw_ca *ca;
    struct sw_tls_cred *client;
    struct sw_tls_cred *server;
};

static inline void creds_make(struct creds *c)
{
    struct sw_err err = {0};

    c->ca = sw_ca_new(SW_SLICE_LIT("td"), 0, &err);
    assert_non_null(c->ca);
    c->client = sw_ca_issue_cred(c->ca, &(struct sw_ca_leaf){.id = SW_SLICE_LIT(CLIENT_ID)},
                                 (struct sw_slice){NULL, 0}, &err);
    c->server = sw_ca_issue_cred(c->ca, &(struct sw_ca_leaf){.id = SW_SLICE_LIT(SERVER_ID)},
                                 (struct sw_slice){NULL, 0}, &err);
    assert_non_null(c->client);
    assert_non_null(c->server);
}

static inline void creds_done(struct creds *c)
{
    c->client = sw_tls_cred_unref(c->client);
    c->server = sw_tls_cred_unref(c->server);
    sw_ca_free(c->ca);
}

static inline struct sw_session_config rig_config(void)
{
    return (struct sw_session_config){
        .stream_window = 4 << 20,
        .connection_window = 16 << 20,
        .max_frame = 1 << 20,
        .max_streams = 200,
        .handshake_ns = 10 * SW_NS_PER_S,
        .ping_interval_ns = 10 * SW_NS_PER_S,
        .ping_timeout_ns = 20 * SW_NS_PER_S,
    };
}
