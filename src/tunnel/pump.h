/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies bytes both ways between two sockets until both directions ended: small exchanges through
 * the thread's scratch memory, bulk with splice(2). Half-closes travel as half-closes, resets as
 * resets. A slow receiver stops the reading side; what is held meanwhile is bounded.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "io/loop.h"
#include "io/splice.h"
#include "tunnel/dial.h"

struct sw_pump;

struct sw_pump_ops {
    /* Bytes moved from side 'from' since the last call. */
    void (*on_moved)(struct sw_pump *p, int from, size_t n);
    /* SW_OK: both ends finished. SW_ECLOSED: one end was reset, and so is the other now. */
    void (*on_done)(struct sw_pump *p, int rc);
};

struct sw_pump_side {
    int fd; /* owned until done */
    bool readable;
    bool hup;     /* read on until the end shows */
    bool eof;     /* nothing more will be read */
    bool broken;  /* a read failed; counts once what it held was passed on */
    bool bulk;    /* splice instead of copying */
    bool urgent;  /* urgent data came: copy */
    uint8_t grow; /* full pipes seen, enlarges the pipe */
    struct sw_watch watch;
    struct sw_pipe *pipe; /* bytes read from here, lent while there are any */
    struct sw_buf *rest;  /* same for copied bytes; owned, NULL while empty */
};

struct sw_pump {
    struct sw_loop *loop;
    struct sw_pump_side side[2];
    struct sw_defer again;
    bool done;
    const struct sw_pump_ops *ops;
};

/*
 * Takes both sockets (closed when done or stopped): side 0 is an accepted one, side 1 was dialled.
 * on_done comes from the loop, never from inside this call, exactly once unless stopped; on_moved
 * may. SW_ESYS: could not watch them; both are closed.
 */
SW_NODISCARD int sw_pump_start(struct sw_pump *p, struct sw_loop *l, int fd0,
                               struct sw_dialled *dialled, const struct sw_pump_ops *ops,
                               struct sw_err *err);
/* Ends it now: both ends are closed, with a reset when asked. No callback any more. */
void sw_pump_stop(struct sw_pump *p, bool reset);
