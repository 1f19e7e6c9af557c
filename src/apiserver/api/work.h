/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long work beside the loop. A request that may take long (a large body, a large list, rules over
 * large objects) is handled on a worker thread instead of the loop, by the same code. The worker
 * and the loop take turns: everything a handler does happens in the worker's turn, while the loop
 * stands still, except for the stretches between api_off_loop and api_on_loop, in which the loop
 * serves other clients. Such a stretch may touch the request's own memory, its snapshot, compiled
 * schemas and nothing that changes.
 *
 * Work is queued per user, or for the accounts of a namespace together (api_tenant); each has one
 * request on the workers at a time. One thread more is kept free for administrators and the
 * system's accounts (api_first). Work ends by a deadline, or when the client goes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/slice.h"

struct api_req;
struct api_workers;
struct sw_api;
struct sw_arena;
struct sw_buf;
struct sw_err;
struct sw_xchg;

typedef void (*api_work_fn)(struct api_req *r, void *arg);

/* Sizes up to which a request is handled on the loop itself: some milliseconds at most. */
enum {
    API_INLINE_BODY = 32 * 1024,    /* bytes of a body */
    API_INLINE_OBJECT = 128 * 1024, /* bytes of an object that is read */
    API_INLINE_WRITE = 64 * 1024,   /* bytes of a body and the object it changes */
    API_INLINE_LIST = 256 * 1024,   /* bytes of a list, and of objects parsed for one */
    API_INLINE_ITEMS = 500,         /* objects looked at for a list */
};

struct api_work_opts {
    unsigned threads;     /* for all users; 0 = 2 */
    uint64_t deadline_ns; /* for one request, waiting included; 0 = 30 s */
    size_t max_queued;    /* requests of one user that wait; 0 = 64 */
};

/* Starts the threads. NULL with err: the system refused. */
SW_NODISCARD struct api_workers *api_work_new(struct sw_api *api, const struct api_work_opts *o,
                                              struct sw_err *err);
/* Answers what waits, cancels what runs and turns the loop until nothing is left of it. */
void api_work_stop(struct api_workers *k);
void api_work_free(struct api_workers *k);

/*
 * Handles the rest of the request on a worker: fn answers it in the end. Refused with 429 when too
 * much of the user's waits already.
 */
void api_work_run(struct api_req *r, api_work_fn fn, void *arg);
/*
 * Continues with a request after it waited for something: on a worker when it was on one before,
 * else at once. Never refused.
 */
void api_work_resume(struct api_req *r, api_work_fn fn, void *arg);
/* On a worker: fn does the rest of the request on the loop, as soon as this work returns. */
void api_work_then(struct api_req *r, api_work_fn fn);
/* True on a worker. */
bool api_work_here(void);
/* The request is answered: whatever of it is still on its way here forgets it. */
void api_work_forget(struct api_req *r);

/* From here on the loop runs beside the caller. On the loop itself nothing happens. */
void api_off_loop(void);
/* From here on the loop stands still again. No effect in a turn. */
void api_on_loop(void);

/* What the work may still cost; on the loop NULL. Borrowed. */
struct sw_budget *api_work_budget(void);
/* True when the work was cancelled; then the request is answered: 504, or 503 while stopping. */
bool api_work_ended(struct api_req *r);

/* Frees an arena, a large one on a worker: unmapping takes time too. */
void api_work_discard(struct api_workers *k, struct sw_arena *a);

/* Metrics in the text format of Prometheus. */
void api_workers_metrics(const struct api_workers *k, struct sw_buf *out);
