/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker threads of a role. Each turns a loop of its own and shares nothing that changes; the
 * main thread sends it orders, drains all, and ends them. What a worker does is the role's
 * business: it embeds a sw_crew_thread, and its ops drain and end it.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"
#include "io/loop.h"

struct sw_crew_thread;

/* All on the worker's thread. */
struct sw_crew_ops {
    /* Accept nothing more, let what is there end. At most once. */
    void (*drain)(struct sw_crew_thread *t);
    /* Called after the turns of a drain: is nothing left? */
    bool (*idle)(struct sw_crew_thread *t);
    /* Close what is left. The turn in progress is the last one that waits. */
    void (*kill)(struct sw_crew_thread *t);
    /* Free what belongs to the thread; a few turns follow, in which the loop frees objects. */
    void (*end)(struct sw_crew_thread *t);
    /* Free the thread's own memory, last of all; NULL: it has none. */
    void (*leave)(void);
};

/* All workers, as the main thread sees them. */
struct sw_crew {
    const char *scope;    /* of log lines; borrowed */
    struct sw_loop *main; /* borrowed; stopped when a drain is over */
    struct sw_list threads;
    unsigned n;
    atomic_uint n_idle;
    struct sw_msg drained;
    struct sw_timer deadline;
    bool draining;
};

struct sw_crew_thread {
    struct sw_list link;
    struct sw_crew *crew;
    const struct sw_crew_ops *ops;
    struct sw_loop *loop; /* owned */
    pthread_t thread;
    unsigned index;
    bool started;
    bool draining; /* this and the next: of the worker's thread */
    bool idle;     /* and it was reported */
    bool stopped;
};

/* What an order does, on the worker's thread. arg is what was sent. */
typedef void (*sw_crew_order_cb)(struct sw_crew_thread *t, void *arg);

/* How many workers are meant: 0 is one per processor. */
unsigned sw_crew_size(unsigned configured);
void sw_crew_init(struct sw_crew *c, const char *scope, struct sw_loop *main);
/*
 * Drains all within time_ns. The main loop is stopped when they have, or when the time is over.
 * Idempotent.
 */
void sw_crew_drain(struct sw_crew *c, uint64_t time_ns);
/* Kills those that run and waits for their threads; their loops stay. A crew that was never
 * initialised is fine. */
void sw_crew_end(struct sw_crew *c);

/* Gives t its loop and its index. SW_ESYS: there is no loop; sw_crew_thread_done is fine anyway. */
SW_NODISCARD int sw_crew_thread_init(struct sw_crew_thread *t, struct sw_crew *c,
                                     const struct sw_crew_ops *ops, struct sw_err *err);
/* Orders sent before this are the first thing it does. */
SW_NODISCARD int sw_crew_thread_start(struct sw_crew_thread *t, struct sw_err *err);
/*
 * From any thread. cb runs exactly once: an order that comes after the thread ended runs when its
 * loop is freed, so that it can free arg.
 */
void sw_crew_order(struct sw_crew_thread *t, sw_crew_order_cb cb, void *arg);
/* Frees the loop; after sw_crew_end. */
void sw_crew_thread_done(struct sw_crew_thread *t);
