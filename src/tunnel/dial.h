/* SPDX-License-Identifier: Apache-2.0 */
/* A TCP connect with a deadline, embedded in the object that wants the connection. */
#pragma once

#include "base/err.h"
#include "io/loop.h"
#include "io/sock.h"

struct sw_dial;

/* rc SW_OK: take the descriptor with sw_dial_take. SW_ETIME: the deadline passed. Else err says
 * why. */
typedef void (*sw_dial_cb)(struct sw_dial *d, int rc, const struct sw_err *err);

struct sw_dial {
    struct sw_loop *loop;
    struct sw_watch watch;
    struct sw_timer deadline;
    struct sw_defer done;
    sw_dial_cb cb;
    int fd;
    unsigned events;   /* that came with the connect */
    int rc;            /* of a connect that was decided at once, reported by 'done' */
    struct sw_err err; /* goes with rc */
};

/* Where to connect, and how: to, src and opts as in sw_sock_connect. */
struct sw_dial_target {
    const struct sw_addr *to;
    const struct sw_ip *src;
    const struct sw_sock_opts *opts;
    uint64_t timeout_ns;
};
/*
 * Starts connecting. The callback comes later, never from inside this call. *d is initialised here,
 * *t lives for the call.
 */
void sw_dial_start(struct sw_dial *d, struct sw_loop *l, const struct sw_dial_target *t,
                   sw_dial_cb cb);
/* Gives up and closes; no callback any more. No effect on a finished or zeroed dial. */
void sw_dial_cancel(struct sw_dial *d);
/*
 * A connected socket that is already registered with the loop: its new owner moves the watch
 * (sw_watch_move) before returning to the loop, or drops both with sw_dialled_close.
 */
struct sw_dialled {
    int fd;
    unsigned events; /* seen with the connect; not reported again */
    struct sw_watch watch;
};

void sw_dial_take(struct sw_dial *d, struct sw_dialled *ret);
/* Gives the registration up and returns the bare descriptor, now the caller's. */
SW_NODISCARD int sw_dialled_fd(struct sw_dialled *c);
void sw_dialled_close(struct sw_dialled *c);
