/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server or client that the tests of this directory play: sockets over loopback beside a loop
 * with a fake clock, HTTP/2 frame by frame. Waiting is for the kernel only; time passes by
 * gw_pass().
 */
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gw_help.h"

#include "base/time.h"
#include "io/loop.h"
#include "io/sock.h"

static uint64_t gw_now_ns = 1000 * SW_NS_PER_S;

static inline uint64_t gw_clock(void)
{
    return gw_now_ns;
}

static inline struct sw_loop *gw_loop(void)
{
    struct sw_err err = {0};
    struct sw_loop *l = sw_loop_new(&err);

    assert_non_null(l);
    sw_loop_set_clock(l, gw_clock);
    return l;
}

static inline void gw_turns(struct sw_loop *l, int n)
{
    while (n-- > 0)
        sw_loop_turn(l, 0);
}

/* Time passes, and what is due comes. */
static inline void gw_pass(struct sw_loop *l, uint64_t ns)
{
    gw_now_ns += ns;
    gw_turns(l, 6);
}

#define GW_UNTIL(loop, cond)                                                                       \
    do {                                                                                           \
        for (int gw_i_ = 0; gw_i_ < 5000 && !(cond); gw_i_++)                                      \
            sw_loop_turn((loop), 1);                                                               \
        assert_true(cond);                                                                         \
    } while (0)

/* ---- a listening socket ---- */

static inline int gw_listen(struct sw_addr *ret)
{
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    struct sw_addr at = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_err err = {0};
    int fd = -1;

    assert_int_equal(sw_sock_listen(&at, &o, &fd, &err), SW_OK);
    *ret = sw_sock_local(fd);
    return fd;
}

/* The next connection, or -1 when none comes while the loop turns. */
static inline int gw_try_accept(struct sw_loop *l, int listener, int turns)
{
    struct sw_err err = {0};
    int fd = -1;

    for (int i = 0; i < turns; i++) {
        if (sw_sock_accept(listener, &fd, NULL, &err) == SW_OK)
            return fd;
        sw_loop_turn(l, 1);
    }
    return -1;
}

static inline int gw_accept(struct sw_loop *l, int listener)
{
    int fd = gw_try_accept(l, listener, 5000);

    assert_true(fd >= 0);
    return fd;
}

static inline void gw_expect_no_conn(struct sw_loop *l, int listener)
{
    assert_int_equal(gw_try_accept(l, listener, 10), -1);
}

static inline void gw_say_n(int fd, const void *p, size_t n)
{
    assert_int_equal(sw_sock_write(fd, p, n), (ssize_t)n);
}

static inline void gw_say(int fd, const char *text)
{
    gw_say_n(fd, text, strlen(text));
}

/* What arrives until 'end' is in it; the text is valid until the next call. */
static inline const char *gw_hear(struct sw_loop *l, int fd, const char *end)
{
    static char text[8192];
    size_t n = 0;

    text[0] = '\0';
    for (int i = 0; i < 5000 && !strstr(text, end); i++) {
        ssize_t k = sw_sock_read(fd, text + n, sizeof(text) - 1 - n);

        if (k > 0)
            n += (size_t)k;
        else if (k != SW_EAGAIN)
            break;
        else
            sw_loop_turn(l, 1);
        text[n] = '\0';
    }
    assert_non_null(strstr(text, end));
    return text;
}

/* Nothing came, and the connection is open. */
static inline void gw_hear_nothing(struct sw_loop *l, int fd)
{
    char c;

    for (int i = 0; i < 10; i++) {
        sw_loop_turn(l, 1);
        assert_int_equal(sw_sock_read(fd, &c, 1), SW_EAGAIN);
    }
}

/* The other end closed or reset it; bytes before are dropped. */
static inline bool gw_is_closed(int fd)
{
    char drop[4096];
    ssize_t k;

    while ((k = sw_sock_read(fd, drop, sizeof(drop))) > 0)
        ;
    return k != SW_EAGAIN;
}

/* ---- HTTP/2, frame by frame ---- */

enum {
    GW_DATA,
    GW_HEADERS,
    GW_PRIORITY,
    GW_RST,
    GW_SETTINGS,
    GW_PUSH,
    GW_PING,
    GW_GOAWAY,
    GW_WINDOW,
    GW_END_STREAM = 1, /* flags */
    GW_ACK = 1,
    GW_END_HEADERS = 4,
};

#define GW_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

struct gw_frame {
    uint8_t type;
    uint8_t flags;
    uint32_t id;
    uint32_t n;
    uint8_t p[17 << 10];
};

/* An end of a connection. Answers SETTINGS and, unless it is mute, PING. */
struct gw_h2peer {
    struct sw_loop *loop;
    int fd;
    bool mute;
    int pings;
    size_t n;
    uint8_t in[64 << 10];
};

static inline void gw_frame(int fd, uint8_t type, uint8_t flags, uint32_t id, const void *p,
                            size_t n)
{
    uint8_t b[9 + 1024] = {0, (uint8_t)(n >> 8), (uint8_t)n, type, flags};

    assert_true(n <= 1024);
    for (int i = 0; i < 4; i++)
        b[5 + i] = (uint8_t)(id >> (24 - 8 * i));
    if (n)
        memcpy(b + 9, p, n);
    gw_say_n(fd, b, 9 + n);
}

/* With one setting; 0: none. */
static inline void gw_settings(int fd, uint16_t what, uint32_t value)
{
    const uint8_t b[6] = {(uint8_t)(what >> 8),   (uint8_t)what,         (uint8_t)(value >> 24),
                          (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};

    gw_frame(fd, GW_SETTINGS, 0, 0, b, what ? sizeof(b) : 0);
}

static inline void gw_u32_frame(int fd, uint8_t type, uint32_t id, uint32_t value)
{
    const uint8_t b[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
                          (uint8_t)value};

    gw_frame(fd, type, 0, id, b, sizeof(b));
}

static inline void gw_rst(int fd, uint32_t id, uint32_t code)
{
    gw_u32_frame(fd, GW_RST, id, code);
}

static inline void gw_goaway(int fd, uint32_t last, uint32_t code)
{
    const uint8_t b[8] = {
        (uint8_t)(last >> 24), (uint8_t)(last >> 16), (uint8_t)(last >> 8), (uint8_t)last, 0, 0, 0,
        (uint8_t)code};

    gw_frame(fd, GW_GOAWAY, 0, 0, b, sizeof(b));
}

/* ":status: NNN" as a literal, or the fields behind it. Appends to b; returns the new length. */
static inline size_t gw_hpack(uint8_t *b, size_t n, const char *name, const char *value)
{
    b[n++] = 0; /* literal without indexing, new name */
    b[n++] = (uint8_t)strlen(name);
    memcpy(b + n, name, strlen(name));
    n += strlen(name);
    b[n++] = (uint8_t)strlen(value);
    memcpy(b + n, value, strlen(value));
    return n + strlen(value);
}

/* A head with this status. */
static inline void gw_h2_answer(int fd, uint32_t id, const char *status, bool end)
{
    uint8_t b[64];
    size_t n = gw_hpack(b, 0, ":status", status);

    gw_frame(fd, GW_HEADERS, GW_END_HEADERS | (end ? GW_END_STREAM : 0), id, b, n);
}

/* The same field 300 times: more than are taken. */
static inline void gw_h2_trailers_too_many(int fd, uint32_t id)
{
    uint8_t b[305] = {0x40, 1, 'x', 1, 'y'}; /* literal with incremental indexing */

    memset(b + 5, 0x80 | 62, sizeof(b) - 5);
    gw_frame(fd, GW_HEADERS, GW_END_HEADERS | GW_END_STREAM, id, b, sizeof(b));
}

static inline void gw_h2_serve(struct gw_h2peer *p, struct sw_loop *l, int fd)
{
    *p = (struct gw_h2peer){.loop = l, .fd = fd};
    gw_settings(fd, 0, 0);
}

/* A whole frame in 'in'. */
static inline bool gw_take_frame(struct gw_h2peer *p, struct gw_frame *ret)
{
    size_t preface = sizeof(GW_PREFACE) - 1;
    uint32_t n;

    if (p->n >= preface && memcmp(p->in, GW_PREFACE, preface) == 0) {
        p->n -= preface;
        memmove(p->in, p->in + preface, p->n);
    }
    if (p->n < 9 || p->in[0] == 'P')
        return false;
    n = (uint32_t)p->in[0] << 16 | (uint32_t)p->in[1] << 8 | p->in[2];
    if (p->n < 9 + n)
        return false;
    assert_true(n <= sizeof(ret->p));
    ret->type = p->in[3];
    ret->flags = p->in[4];
    ret->id = (uint32_t)(p->in[5] & 0x7f) << 24 | (uint32_t)p->in[6] << 16 |
              (uint32_t)p->in[7] << 8 | p->in[8];
    ret->n = n;
    memcpy(ret->p, p->in + 9, n);
    p->n -= 9 + n;
    memmove(p->in, p->in + 9 + n, p->n);
    return true;
}

/* True for what is no news to a test. */
static inline bool gw_manage(struct gw_h2peer *p, const struct gw_frame *f)
{
    if (f->type == GW_SETTINGS) {
        if (!(f->flags & GW_ACK))
            gw_frame(p->fd, GW_SETTINGS, GW_ACK, 0, NULL, 0);
        return true;
    }
    if (f->type == GW_PING) {
        p->pings += !(f->flags & GW_ACK);
        if (!p->mute && !(f->flags & GW_ACK))
            gw_frame(p->fd, GW_PING, GW_ACK, 0, f->p, f->n);
        return true;
    }
    return f->type == GW_WINDOW;
}

/* The next frame that is news; false: none within so many turns, or closed. */
static inline bool gw_try_frame(struct gw_h2peer *p, struct gw_frame *ret, int turns)
{
    for (int i = 0; i < turns;) {
        ssize_t k;

        if (gw_take_frame(p, ret)) {
            if (!gw_manage(p, ret))
                return true;
            continue;
        }
        k = sw_sock_read(p->fd, p->in + p->n, sizeof(p->in) - p->n);
        if (k > 0) {
            p->n += (size_t)k;
        } else {
            if (k != SW_EAGAIN)
                return false;
            i++;
            sw_loop_turn(p->loop, 1);
        }
    }
    return false;
}

/* The next one must be of this type and stream. */
static inline void gw_expect_frame(struct gw_h2peer *p, uint8_t type, uint32_t id,
                                   struct gw_frame *ret)
{
    assert_true(gw_try_frame(p, ret, 5000));
    assert_int_equal(ret->type, type);
    assert_int_equal(ret->id, id);
}

static inline void gw_expect_no_frame(struct gw_h2peer *p)
{
    struct gw_frame f;

    assert_false(gw_try_frame(p, &f, 10));
}
