/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring without its asynchronous side. Every operation has MSG_DONTWAIT, which makes the kernel
 * complete it inside the call that submits it, with EAGAIN if need be; so no buffer, descriptor or
 * completion outlives sw_batch_run. What is saved is the way into the kernel and back, which costs
 * more than its own time: the processor's predictions are gone behind it.
 */
#include "io/batch.h"

#include <assert.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "io/sock.h"

enum { WORTH_IT = 4 /* operations; for fewer plain calls are as fast */ };

struct op {
    int fd;
    bool write;
    bool done;
    void *buf;
    size_t n;
};

struct ring {
    int fd; /* -1: none */
    void *map;
    size_t map_size;
    struct io_uring_sqe *sqes;
    size_t sqes_size;
    _Atomic unsigned *sq_tail;
    _Atomic unsigned *cq_head;
    _Atomic unsigned *cq_tail;
    unsigned sq_mask;
    unsigned cq_mask;
    const struct io_uring_cqe *cqes;
};

struct sw_batch {
    unsigned max;
    unsigned n;
    bool wants_ring;
    struct ring ring;
    struct op *ops;                  /* owned, max of them */
    struct sw_batch_result *results; /* owned, max of them */
};

/* ---- the ring ---- */

static void ring_close(struct ring *r)
{
    if (r->map)
        (void)munmap(r->map, r->map_size);
    if (r->sqes)
        (void)munmap(r->sqes, r->sqes_size);
    if (r->fd >= 0)
        (void)close(r->fd);
    *r = (struct ring){.fd = -1};
}

static void *map_ring(int fd, size_t n, off_t what)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);

    return p == MAP_FAILED ? NULL : p;
}

/* False: the kernel has none for us (old, switched off, a seccomp profile), which is no error. */
static bool ring_open(struct ring *r, unsigned max)
{
    struct io_uring_params p = {0};
    uint8_t *base;
    unsigned *order;

    r->fd = (int)syscall(SYS_io_uring_setup, max, &p);
    if (r->fd < 0)
        return false; /* and fd stays -1 */
    r->map_size = sw_max(p.sq_off.array + p.sq_entries * sizeof(unsigned),
                         p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe));
    r->sqes_size = p.sq_entries * sizeof(struct io_uring_sqe);
    if (p.sq_entries < max || !(p.features & IORING_FEAT_SINGLE_MMAP)) {
        ring_close(r);
        return false;
    }
    r->map = map_ring(r->fd, r->map_size, IORING_OFF_SQ_RING);
    r->sqes = map_ring(r->fd, r->sqes_size, IORING_OFF_SQES);
    if (!r->map || !r->sqes) {
        ring_close(r);
        return false;
    }
    base = r->map;
    r->sq_tail = (_Atomic unsigned *)(void *)(base + p.sq_off.tail);
    r->cq_head = (_Atomic unsigned *)(void *)(base + p.cq_off.head);
    r->cq_tail = (_Atomic unsigned *)(void *)(base + p.cq_off.tail);
    r->sq_mask = p.sq_entries - 1;
    r->cq_mask = p.cq_entries - 1;
    r->cqes = (const struct io_uring_cqe *)(void *)(base + p.cq_off.cqes);
    order = (unsigned *)(void *)(base + p.sq_off.array);
    for (unsigned i = 0; i < p.sq_entries; i++)
        order[i] = i;
    return true;
}

static void submit_op(struct io_uring_sqe *s, const struct op *o, unsigned number)
{
    *s = (struct io_uring_sqe){
        .opcode = o->write ? IORING_OP_SEND : IORING_OP_RECV,
        .fd = o->fd,
        .addr = (uintptr_t)o->buf,
        .len = (uint32_t)o->n,
        .msg_flags = MSG_DONTWAIT | (o->write ? MSG_NOSIGNAL : 0),
        .user_data = number,
    };
}

/* Takes the completions there are; returns how many. */
static unsigned reap(struct sw_batch *b)
{
    struct ring *r = &b->ring;
    unsigned head = atomic_load_explicit(r->cq_head, memory_order_relaxed);
    unsigned tail = atomic_load_explicit(r->cq_tail, memory_order_acquire);
    unsigned n = tail - head;

    for (; head != tail; head++) {
        const struct io_uring_cqe *c = &r->cqes[head & r->cq_mask];
        struct op *o = &b->ops[c->user_data];
        struct sw_batch_result *res = &b->results[c->user_data];

        if (c->res == -EINTR)
            continue; /* again, below */
        o->done = true;
        res->sys_errno = c->res < 0 ? -c->res : 0;
        if (c->res == 0 && !o->write && o->n)
            res->n = SW_EOF;
        else
            res->n = c->res < 0 ? sw_sock_rc(-c->res) : c->res;
    }
    atomic_store_explicit(r->cq_head, head, memory_order_release);
    return n;
}

/*
 * What the kernel did not take is left to plain calls, and the ring is given up for now: what waits
 * in it must not be sent later.
 */
static void run_ring(struct sw_batch *b)
{
    struct ring *r = &b->ring;
    unsigned tail = atomic_load_explicit(r->sq_tail, memory_order_relaxed);
    unsigned taken = 0;
    unsigned got = 0;

    for (unsigned i = 0; i < b->n; i++)
        submit_op(&r->sqes[(tail + i) & r->sq_mask], &b->ops[i], i);
    atomic_store_explicit(r->sq_tail, tail + b->n, memory_order_release);
    while (taken < b->n) {
        long k = syscall(SYS_io_uring_enter, r->fd, b->n - taken, 0, 0, NULL, 0);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            break;
        taken += (unsigned)k;
        got += reap(b);
    }
    /* Never seen: they complete while they are submitted, as the probe has shown. */
    while (got < taken) {
        (void)syscall(SYS_io_uring_enter, r->fd, 0, taken - got, IORING_ENTER_GETEVENTS, NULL, 0);
        got += reap(b);
    }
    if (taken < b->n)
        ring_close(r);
}

/* Does this kernel end an operation that would have to wait, and move bytes as it should? */
static bool ring_keeps_its_word(struct sw_batch *b)
{
    struct sw_err err = {0};
    char to = 'x';
    char from = 0;
    struct op ops[] = {{.buf = &from, .n = 1}, {.buf = &to, .n = 1, .write = true}};
    struct sw_batch probe = {.ring = b->ring, .ops = ops, .n = 2, .max = 2};
    struct sw_batch_result results[2] = {0};
    int pair[2];

    if (sw_sock_pair(pair, &err) != SW_OK)
        return false;
    ops[0].fd = pair[0];
    ops[1].fd = pair[1]; /* were the first to wait after all, this would end it */
    probe.results = results;
    run_ring(&probe);
    b->ring = probe.ring;
    sw_sock_close(pair[0]);
    sw_sock_close(pair[1]);
    return b->ring.fd >= 0 && results[0].n == SW_EAGAIN && results[1].n == 1;
}

/* ---- without ---- */

static void run_one(const struct op *o, struct sw_batch_result *res)
{
    res->n = o->write ? sw_sock_write(o->fd, o->buf, o->n) : sw_sock_read(o->fd, o->buf, o->n);
    res->sys_errno = res->n < 0 ? errno : 0;
}

/* ---- with and without a ring ---- */

struct sw_batch *sw_batch_new(unsigned max, bool ring)
{
    struct sw_batch *b = SW_NEW(struct sw_batch);

    b->max = max;
    b->wants_ring = ring;
    b->ring.fd = -1;
    b->ops = SW_NEW_ARRAY(struct op, max);
    b->results = SW_NEW_ARRAY(struct sw_batch_result, max);
    return b;
}

void sw_batch_free(struct sw_batch *b)
{
    if (!b)
        return;
    ring_close(&b->ring);
    sw_free(b->ops);
    sw_free(b->results);
    sw_free(b);
}

static unsigned queue(struct sw_batch *b, struct op o)
{
    assert(b->n < b->max);
    b->ops[b->n] = o;
    return b->n++;
}

unsigned sw_batch_read(struct sw_batch *b, int fd, void *buf, size_t n)
{
    return queue(b, (struct op){.fd = fd, .buf = buf, .n = n});
}

unsigned sw_batch_write(struct sw_batch *b, int fd, const void *buf, size_t n)
{
    struct op o = {.fd = fd, .write = true, .n = n};

    memcpy(&o.buf, &buf, sizeof(buf)); /* only read from */
    return queue(b, o);
}

unsigned sw_batch_queued(const struct sw_batch *b)
{
    return b->n;
}

static bool open_ring(struct sw_batch *b)
{
    if (ring_open(&b->ring, b->max) && ring_keeps_its_word(b))
        return true;
    ring_close(&b->ring);
    b->wants_ring = false;
    return false;
}

int sw_batch_try_ring(struct sw_err *err)
{
    struct sw_batch b = {.max = 2, .ring.fd = -1};
    int rc = SW_OK;

    errno = 0;
    if (!ring_open(&b.ring, b.max))
        rc = errno ? sw_err_sys(err, errno, "io_uring")
                   : sw_err_set(err, SW_EINVAL, "io_uring of this kernel is too old");
    else if (!ring_keeps_its_word(&b))
        rc = sw_err_set(err, SW_EINVAL, "io_uring of this kernel does not send and receive");
    ring_close(&b.ring);
    return rc;
}

const struct sw_batch_result *sw_batch_run(struct sw_batch *b)
{
    if (b->n >= WORTH_IT && b->wants_ring) {
        if (b->ring.fd >= 0 || open_ring(b))
            run_ring(b);
    }
    for (unsigned i = 0; i < b->n; i++) {
        if (!b->ops[i].done)
            run_one(&b->ops[i], &b->results[i]);
    }
    b->n = 0;
    return b->results;
}

bool sw_batch_has_ring(const struct sw_batch *b)
{
    return b->ring.fd >= 0;
}
