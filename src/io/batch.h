/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes of many sockets with one system call. Nothing is asynchronous: what was queued
 * has been tried, once and without waiting, when sw_batch_run returns. The kernel's submission ring
 * (io_uring) does it where there is one; without, the calls are made one after the other.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct sw_batch;

/* How one operation ended: what sw_sock_read or sw_sock_write would have returned. */
struct sw_batch_result {
    ssize_t n;
    int sys_errno; /* meaningful when n is SW_ESYS or SW_ECLOSED */
};

/*
 * Room for 'max' operations, a power of two. Belongs to the thread that runs it; the ring is
 * created at the first run that is worth one. ring = false: never.
 */
struct sw_batch *sw_batch_new(unsigned max, bool ring);
void sw_batch_free(struct sw_batch *b);

/*
 * Queues an operation and returns its number, counted from 0 after each run. The caller keeps
 * descriptor and buffer until the run, and queues no more than there is room for.
 */
unsigned sw_batch_read(struct sw_batch *b, int fd, void *buf, size_t n);
unsigned sw_batch_write(struct sw_batch *b, int fd, const void *buf, size_t n);
unsigned sw_batch_queued(const struct sw_batch *b);
/* Does all that is queued, in order. The results, by number, are valid until the next run. */
const struct sw_batch_result *sw_batch_run(struct sw_batch *b);

/*
 * Would this kernel give us a ring that keeps its word? Tries one and closes it again. SW_OK, or
 * the reason why not, for people: plain calls do the same.
 */
SW_NODISCARD int sw_batch_try_ring(struct sw_err *err);
/* Has the ring been used? For tests and status. */
bool sw_batch_has_ring(const struct sw_batch *b);
