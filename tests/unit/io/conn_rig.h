/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of sw_conn: a loop with a fake clock, socket pairs, and owners of connections that
 * record their callbacks. A test program runs its group with rig_set_up and rig_tear_down.
 */
#pragma once

#include "base/buf.h"
#include "io/conn/conn.h"

#include "test.h"

enum { TURNS = 4000, BIG = 1 << 20 };

extern struct sw_loop *loop;
extern const struct sw_conn_ops rig_ops; /* of every end */

enum callback { NONE, OPEN, BYTES, BATCH, END, DRAINED, FAIL };

/* An owner that records its callbacks. */
struct end {
    struct sw_conn conn;
    struct sw_buf got;
    struct sw_err why;
    struct sw_slice to_send; /* pumped with sw_conn_write */
    unsigned opens, eofs, drains, fails, frees, calls;
    size_t wire;
    size_t use_max;         /* bytes that on_bytes uses at most; 0: all */
    size_t least;           /* ... and nothing below this */
    enum callback close_in; /* closes the connection in this callback */
    bool linger_in;         /* ... with close_flushed */
    bool pause_in_bytes;
    bool repeat_eof;
    bool hold;                   /* on_ready says no */
    struct end *other;           /* resumed in on_bytes */
    void (*hook)(struct end *e); /* called in on_bytes */
    unsigned readies, batches;
};

#define UNTIL(cond)                                                                                \
    do {                                                                                           \
        int turns_ = 0;                                                                            \
        while (!(cond)) {                                                                          \
            sw_loop_turn(loop, 1);                                                                 \
            assert_true(++turns_ < TURNS);                                                         \
        }                                                                                          \
    } while (0)

int rig_set_up(void **state);
int rig_tear_down(void **state);
/* Advances the fake clock and runs all timers that are due. */
void pass_ms(uint64_t ms);
/* Runs the loop until everything under way has happened. */
void settle(void);

/* A new TLS filter; the caller hands it to end_new(). */
struct sw_filter *tls_of_role(bool server);
/* Takes fd and f (NULL: plain). open_ms is the deadline of the handshake, 0: none. */
struct end *end_new(int fd, struct sw_filter *f, bool dialled, uint32_t open_ms);
/* The same from options, whose callbacks are set here. */
struct end *end_open(int fd, struct sw_conn_opts o);
void end_free(struct end *e);
/* Writes to_send until the connection takes no more. */
void pump(struct end *e);
/* Two open connections that face each other, with small socket buffers. */
void faced(bool tls, struct end **a, struct end **b);

/* Connected over loopback: TCP, where a reset exists. */
void tcp_pair(int fds[2]);
void unix_pair(int fds[2]);
void small_buffers(int fd);
/* Writes all bytes to the bare descriptor of the other side. */
void peer_write(int fd, const void *p, size_t n);
/* Reads to the end. Returns the code that ended it. */
int peer_read_all(int fd, struct sw_buf *got);
/* n bytes that do not repeat soon. The caller frees them with sw_free(). */
char *pattern(size_t n);
