/* SPDX-License-Identifier: Apache-2.0 */
#include "io/splice.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/sock.h"

enum {
    PIPE_BIG = 1 << 20,
    POOL_MAX = 64, /* idle pipes kept per thread */
};

static _Thread_local struct {
    struct sw_pipe *free;
    size_t n;
} pool;

static void pipe_close(struct sw_pipe *p)
{
    (void)close(p->rd);
    (void)close(p->wr);
    sw_free(p);
}

struct sw_pipe *sw_pipe_get(void)
{
    struct sw_pipe *p = pool.free;
    int fds[2];

    if (p) {
        pool.free = p->next;
        pool.n--;
        return p;
    }
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return NULL;
    p = SW_NEW(struct sw_pipe);
    p->rd = fds[0];
    p->wr = fds[1];
    p->cap = 65536;
    return p;
}

void sw_pipe_grow(struct sw_pipe *p)
{
    int got;

    if (p->cap >= PIPE_BIG)
        return;
    got = fcntl(p->wr, F_SETPIPE_SZ, PIPE_BIG);
    /* A refusal (per-user limit) is remembered as "large" too, so it is not tried again. */
    p->cap = got > 0 ? (size_t)got : PIPE_BIG;
}

struct sw_pipe *sw_pipe_put(struct sw_pipe *p)
{
    if (!p)
        return NULL;
    if (p->n || pool.n >= POOL_MAX) {
        pipe_close(p);
        return NULL;
    }
    p->next = pool.free;
    pool.free = p;
    pool.n++;
    return NULL;
}

void sw_pipe_pool_done(void)
{
    while (pool.free) {
        struct sw_pipe *p = pool.free;

        pool.free = p->next;
        pipe_close(p);
    }
    pool.n = 0;
}

ssize_t sw_pipe_fill(struct sw_pipe *p, int from, size_t max)
{
    ssize_t n;

    do {
        n = splice(from, NULL, p->wr, NULL, max, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    } while (n < 0 && errno == EINTR);
    if (n == 0)
        return SW_EOF;
    if (n < 0) {
        /* EAGAIN means "no input" or "pipe full": bytes inside decide which. */
        if (errno == EAGAIN && p->n)
            return SW_ELIMIT;
        return sw_sock_rc(errno);
    }
    p->n += (size_t)n;
    return n;
}

ssize_t sw_pipe_drain(struct sw_pipe *p, int to)
{
    ssize_t n;

    do {
        n = splice(p->rd, NULL, to, NULL, p->n, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return sw_sock_rc(errno);
    p->n -= (size_t)n;
    return n;
}
