/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipes for splice(2), lent from a per-thread pool: a connection holds one only while bytes are
 * inside it, because idle 1 MiB pipes cost kernel memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct sw_pipe {
    struct sw_pipe *next; /* in the pool */
    int rd;
    int wr;
    size_t cap;
    size_t n; /* bytes inside */
};

/* From the pool, or a new one; NULL when the process is out of descriptors. */
struct sw_pipe *sw_pipe_get(void);
/* Tries to enlarge to 1 MiB; no effect when the kernel refuses. */
void sw_pipe_grow(struct sw_pipe *p);
/* Back to the pool; a pipe that still holds bytes is closed instead. Returns NULL. */
struct sw_pipe *sw_pipe_put(struct sw_pipe *p);
/* Closes the calling thread's pool (thread end). */
void sw_pipe_pool_done(void);

/* socket -> pipe: > 0 moved, SW_EAGAIN (nothing to read), SW_EOF, SW_ECLOSED, SW_ESYS; SW_ELIMIT
 * when the pipe is full. */
ssize_t sw_pipe_fill(struct sw_pipe *p, int from, size_t max);
/* pipe -> socket: > 0 moved, SW_EAGAIN (socket full), SW_ECLOSED, SW_ESYS. */
ssize_t sw_pipe_drain(struct sw_pipe *p, int to);
