/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of keys to look at. A key waits once however often it is added; one that is added while
 * it is being worked on is queued again afterwards; failures are retried with growing delays. For
 * one loop.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "io/loop.h"

struct sw_workqueue;

/* Zero in a field means the default in brackets. */
struct sw_workqueue_opts {
    uint64_t backoff_first_ns; /* [5 ms] */
    uint64_t backoff_most_ns;  /* [1000 s] */
    double rate;               /* repetitions per second, all keys together [10] */
    double burst;              /* [100] */
    /* Called from the loop when there are keys to take and it was not called for them yet. */
    void (*ready)(struct sw_workqueue *q, void *arg);
    void *arg;
};

SW_NODISCARD struct sw_workqueue *sw_workqueue_new(struct sw_loop *l,
                                                   const struct sw_workqueue_opts *o);
void sw_workqueue_free(struct sw_workqueue *q);

/* The key is copied. */
void sw_workqueue_add(struct sw_workqueue *q, struct sw_slice key);
/* Not before delay_ns; of several delays for a key the shortest counts. */
void sw_workqueue_add_after(struct sw_workqueue *q, struct sw_slice key, uint64_t delay_ns);
/* After a failure: backs off per key, and all keys together within the rate. */
void sw_workqueue_add_rate_limited(struct sw_workqueue *q, struct sw_slice key);
/* After a success: the next failure begins with the shortest delay. */
void sw_workqueue_forget(struct sw_workqueue *q, struct sw_slice key);
/* Failures in a row. */
unsigned sw_workqueue_failures(const struct sw_workqueue *q, struct sw_slice key);

/*
 * Takes the next key, oldest first; it is being worked on until sw_workqueue_done. False when none
 * waits. The slice lives until then.
 */
bool sw_workqueue_get(struct sw_workqueue *q, struct sw_slice *ret_key);
void sw_workqueue_done(struct sw_workqueue *q, struct sw_slice key);

/* Keys that wait to be taken; delayed ones do not count. */
size_t sw_workqueue_len(const struct sw_workqueue *q);
