/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: one per thread, nothing shared. Descriptors are watched edge-triggered: try the
 * operation first, wait only after EAGAIN. Timers and deferred calls are intrusive, so the loop
 * allocates nothing on the hot path.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"

struct sw_loop;
struct sw_watch;
struct sw_timer;
struct sw_defer;

enum {
    SW_READ = 1,   /* readable, or end of stream */
    SW_WRITE = 2,  /* writable, or connect finished */
    SW_HUP = 4,    /* the peer finished, reset or vanished, or SW_URGENT: read until EAGAIN or the
                      end, a short read is not the last */
    SW_URGENT = 8, /* TCP urgent data: reads stop short at the mark, and splice never passes it */
};

typedef void (*sw_watch_cb)(struct sw_watch *w, unsigned events);
typedef void (*sw_timer_cb)(struct sw_timer *t);
typedef void (*sw_defer_cb)(struct sw_defer *d);

/* A watched descriptor, embedded in the object that owns the descriptor. */
struct sw_watch {
    int fd;              /* borrowed: the owner closes it, after sw_watch_stop */
    unsigned generation; /* of the registration; stale events are dropped */
    sw_watch_cb cb;
    struct sw_loop *loop; /* NULL while not watched */
};

struct sw_timer {
    uint64_t deadline_ns;
    uint32_t slot; /* position in the heap + 1; 0 = not running */
    sw_timer_cb cb;
};

/* A call made once, after the current callbacks returned: the place to free objects. */
struct sw_defer {
    struct sw_list link;
    sw_defer_cb cb;
};

/* NULL with err filled when the kernel refuses an epoll instance. */
SW_NODISCARD struct sw_loop *sw_loop_new(struct sw_err *err);
void sw_loop_free(struct sw_loop *l);

/* What connections of one loop share (conn_mem.c): freed with the loop, after everything else. */
struct sw_loop_local {
    void (*free)(struct sw_loop_local *local);
};
struct sw_loop_local *sw_loop_local(const struct sw_loop *l);
/* Once per loop. */
void sw_loop_set_local(struct sw_loop *l, struct sw_loop_local *local);

/* Monotonic time sampled once per turn: cheap, good enough for deadlines. */
uint64_t sw_loop_now(const struct sw_loop *l);
/* Tests drive time themselves: returns the clock's value in ns. */
void sw_loop_set_clock(struct sw_loop *l, uint64_t (*clock)(void));

/* Handles events until sw_loop_stop is called from one of the callbacks. */
void sw_loop_run(struct sw_loop *l);
/* One turn: waits at most timeout_ms (-1 = until something happens), then handles it. */
void sw_loop_turn(struct sw_loop *l, int timeout_ms);
void sw_loop_stop(struct sw_loop *l);

/*
 * Watches fd for both directions, edge-triggered. Events are a hint: callers must be
 * ready for EAGAIN. SW_ESYS when the kernel refuses (out of watches).
 */
SW_NODISCARD int sw_watch_start(struct sw_loop *l, struct sw_watch *w, int fd, sw_watch_cb cb,
                                struct sw_err *err);
/*
 * The same for reading alone, until sw_watch_writable: a datagram socket is writable again after
 * each send, and each time that is an event.
 */
SW_NODISCARD int sw_watch_start_reading(struct sw_loop *l, struct sw_watch *w, int fd,
                                        sw_watch_cb cb, struct sw_err *err);
/* Of a watch for reading alone: whether SW_WRITE is reported too; at once when it is writable. */
void sw_watch_writable(struct sw_watch *w, bool on);
/*
 * Watches a listening socket: level-triggered and readable only, so that accepting may stop at any
 * time. Silence it with sw_watch_mute while nothing can be accepted.
 */
SW_NODISCARD int sw_watch_start_listener(struct sw_loop *l, struct sw_watch *w, int fd,
                                         sw_watch_cb cb, struct sw_err *err);
void sw_watch_mute(struct sw_watch *w, bool mute);
/*
 * Passes a watched descriptor to another owner without asking the kernel. Events that already
 * fired are not repeated: the new owner tries its operations first.
 */
void sw_watch_move(struct sw_watch *from, struct sw_watch *to, sw_watch_cb cb);
/* Forgets the descriptor; pending events of it are not delivered any more. Idempotent. */
void sw_watch_stop(struct sw_watch *w);

/* (Re)arms a timer, which fires in a later turn; a zeroed struct is a stopped timer. */
void sw_timer_start(struct sw_loop *l, struct sw_timer *t, uint64_t delay_ns, sw_timer_cb cb);
void sw_timer_stop(struct sw_loop *l, struct sw_timer *t);

static inline bool sw_timer_running(const struct sw_timer *t)
{
    return t->slot != 0;
}

/* Queues d once (queueing it again before it ran has no effect). A zeroed struct is unqueued. */
void sw_loop_defer(struct sw_loop *l, struct sw_defer *d, sw_defer_cb cb);
/* As sw_loop_defer, but ahead of what is queued already. */
void sw_loop_defer_first(struct sw_loop *l, struct sw_defer *d, sw_defer_cb cb);
void sw_defer_cancel(struct sw_defer *d);

/*
 * Runs cb on the loop's own thread, from any thread. The message belongs to the loop until cb
 * ran. Messages still queued when the loop is freed are handed to cb as well.
 */
struct sw_msg {
    struct sw_msg *next;
    void (*cb)(struct sw_msg *m);
};
void sw_loop_post(struct sw_loop *l, struct sw_msg *m);
