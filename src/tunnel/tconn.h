/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One TLS connection that carries one tunnel: first the owner reads and writes heads on it, then it
 * is joined to a local socket and the bytes move by themselves, sixteen records per system call,
 * opened and written from the thread's scratch memory. A half-close travels as close_notify, a
 * connection cut without one as a reset.
 *
 * Callbacks come from the loop or from sw_tconn_start, never from another call of the owner, but
 * for on_done. After on_done, and after sw_tconn_close, it frees itself from the loop's deferred
 * calls.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "io/loop.h"
#include "tunnel/dial.h"
#include "tunnel/session.h"

struct sw_tconn;

struct sw_tconn_ops {
    /*
     * Plain bytes, before the join: everything that was not used yet. Returns how many are used;
     * the rest is kept and offered again with what follows, or goes to the socket that is joined.
     * eof: the peer ended its direction behind these bytes.
     */
    size_t (*on_bytes)(struct sw_tconn *c, struct sw_slice in, bool eof);
    /* Bytes moved since the last call: up = local socket to peer. */
    void (*on_moved)(struct sw_tconn *c, size_t up, size_t down);
    /*
     * The end, once: everything is closed. SW_OK: both directions ended; SW_ECLOSED: reset by
     * either side; others: err says what the peer did. After sw_tconn_finish: all was sent.
     */
    void (*on_done)(struct sw_tconn *c, int rc, const struct sw_err *err);
};

/* The most that waits for an owner that uses nothing: then reading stops. */
enum { SW_TCONN_HEAD_MAX = 96 * 1024 };

/* Takes the parts, also when it fails (NULL: SW_ESYS). Nothing is delivered before sw_tconn_start.
 */
SW_NODISCARD struct sw_tconn *sw_tconn_new(struct sw_loop *l, struct sw_session_parts *parts,
                                           const struct sw_tconn_ops *ops, void *owner,
                                           struct sw_err *err);
void *sw_tconn_owner(const struct sw_tconn *c);
/* Delivers what is there; also after on_bytes left bytes unused and can use them now. */
void sw_tconn_start(struct sw_tconn *c);
/* Sends bytes, at most 64 KiB, as records of their own, at once as far as the socket takes them. */
void sw_tconn_send(struct sw_tconn *c, struct sw_slice data);
/* From here on bytes go to the local socket and come from it. Both take the descriptor. */
void sw_tconn_join(struct sw_tconn *c, int fd);
void sw_tconn_join_dialled(struct sw_tconn *c, struct sw_dialled *dialled);
/* Before a join: sends what waits, close_notify and FIN, discards what comes, then on_done. */
void sw_tconn_finish(struct sw_tconn *c);
/* Ends now, with a reset of both sides when asked. No on_done. Idempotent. */
void sw_tconn_close(struct sw_tconn *c, bool reset);
