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
    int rc;            /* of a connect that failed at once, reported by 'done' */
    struct sw_err err; /* goes with rc */
};

/*
 * Starts connecting. The callback comes later, never from inside this call. src as in
 * sw_sock_connect. *d is initialised here.
 */
void sw_dial_start(struct sw_dial *d, struct sw_loop *l, const struct sw_addr *to,
                   const struct sw_ip *src, const struct sw_sock_opts *o, uint64_t timeout_ns,
                   sw_dial_cb cb);
/* Gives up and closes; no callback any more. Harmless on a finished or zeroed dial. */
void sw_dial_cancel(struct sw_dial *d);
/* The connected socket, now the caller's. */
SW_NODISCARD int sw_dial_take(struct sw_dial *d);
