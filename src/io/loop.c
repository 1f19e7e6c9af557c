/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoll, a binary heap of timers, a list of deferred calls and a lock-free inbox. Descriptors are
 * looked up by number and checked by generation, so an event that was already in flight when its
 * watch stopped is dropped instead of reaching freed memory.
 */
#include "io/loop.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "base/vec.h"

enum {
    EVENTS_PER_TURN = 128,
    DEFER_ROUNDS = 2,
    ALARM_MIN_MS = 20, /* nearer deadlines are waited for with epoll's own timeout */
};

struct sw_loop {
    int epoll_fd;
    int alarm_fd;      /* a timer for distant deadlines, -1 until the first */
    uint64_t alarm_ns; /* when it goes off */
    bool stop;
    unsigned generation;
    uint64_t now_ns;
    uint64_t (*clock)(void);
    struct sw_watch **by_fd; /* owned array, entries borrowed */
    size_t by_fd_n;
    SW_VEC(struct sw_timer *) timers; /* heap by deadline */
    struct sw_list deferred;
    _Atomic(struct sw_msg *) inbox;
    struct sw_watch inbox_watch;
    int inbox_fd;
    struct sw_loop_local *local; /* owned */
};

static void on_inbox(struct sw_watch *w, unsigned events);

struct sw_loop *sw_loop_new(struct sw_err *err)
{
    struct sw_loop *l = SW_NEW(struct sw_loop);

    sw_list_init(&l->deferred);
    l->clock = sw_now_ns;
    l->now_ns = sw_now_ns();
    l->inbox_fd = -1;
    l->alarm_fd = -1;
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll_fd >= 0)
        l->inbox_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->inbox_fd < 0)
        (void)sw_err_sys(err, errno, "cannot make an event loop%s",
                         l->epoll_fd < 0 ? "" : "'s inbox");
    else if (sw_watch_start(l, &l->inbox_watch, l->inbox_fd, on_inbox, err) == SW_OK)
        return l;
    sw_loop_free(l);
    return NULL;
}

static void run_inbox(struct sw_loop *l)
{
    struct sw_msg *m = atomic_exchange_explicit(&l->inbox, NULL, memory_order_acquire);
    struct sw_msg *in_order = NULL;

    while (m) {
        struct sw_msg *next = m->next;

        m->next = in_order;
        in_order = m;
        m = next;
    }
    while (in_order) {
        struct sw_msg *next = in_order->next;

        in_order->cb(in_order);
        in_order = next;
    }
}

static void run_deferred(struct sw_loop *l)
{
    struct sw_list batch;
    struct sw_defer *d;

    sw_list_init(&batch);
    sw_list_splice(&batch, &l->deferred);
    while ((d = SW_LIST_POP(&batch, struct sw_defer, link)))
        d->cb(d);
}

void sw_loop_free(struct sw_loop *l)
{
    if (!l)
        return;
    /* The one may add to the other. */
    do {
        run_inbox(l);
        run_deferred(l);
    } while (!sw_list_empty(&l->deferred) || atomic_load(&l->inbox));
    if (l->inbox_fd >= 0)
        (void)close(l->inbox_fd);
    if (l->alarm_fd >= 0)
        (void)close(l->alarm_fd);
    if (l->epoll_fd >= 0)
        (void)close(l->epoll_fd);
    sw_vec_done(&l->timers);
    sw_free(l->by_fd);
    if (l->local)
        l->local->free(l->local);
    sw_free(l);
}

struct sw_loop_local *sw_loop_local(const struct sw_loop *l)
{
    return l->local;
}

void sw_loop_set_local(struct sw_loop *l, struct sw_loop_local *local)
{
    assert(!l->local);
    l->local = local;
}

uint64_t sw_loop_now(const struct sw_loop *l)
{
    return l->now_ns;
}

void sw_loop_set_clock(struct sw_loop *l, uint64_t (*clock)(void))
{
    l->clock = clock;
    l->now_ns = clock();
}

static int watch(struct sw_loop *l, struct sw_watch *w, int fd, uint32_t events, sw_watch_cb cb,
                 struct sw_err *err)
{
    struct epoll_event ev = {.events = events};
    int rc;

    assert(fd >= 0);
    if ((size_t)fd >= l->by_fd_n) {
        size_t n = sw_max(l->by_fd_n * 2, (size_t)fd + 64);

        l->by_fd = sw_realloc(l->by_fd, n * sizeof(struct sw_watch *));
        memset(l->by_fd + l->by_fd_n, 0, (n - l->by_fd_n) * sizeof(struct sw_watch *));
        l->by_fd_n = n;
    }
    w->fd = fd;
    w->cb = cb;
    w->generation = ++l->generation;
    ev.data.u64 = (uint64_t)w->generation << 32 | (uint32_t)fd;
    rc = epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
    /* A watch that stopped without closing its descriptor is still registered. */
    if (rc != 0 && errno == EEXIST)
        rc = epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, fd, &ev);
    if (rc != 0)
        return sw_err_sys(err, errno, "cannot watch a descriptor");
    w->loop = l;
    l->by_fd[fd] = w;
    return SW_OK;
}

int sw_watch_start(struct sw_loop *l, struct sw_watch *w, int fd, sw_watch_cb cb,
                   struct sw_err *err)
{
    return watch(l, w, fd, EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET, cb, err);
}

int sw_watch_start_reading(struct sw_loop *l, struct sw_watch *w, int fd, sw_watch_cb cb,
                           struct sw_err *err)
{
    return watch(l, w, fd, EPOLLIN | EPOLLRDHUP | EPOLLET, cb, err);
}

static void modify(const struct sw_watch *w, uint32_t events)
{
    struct epoll_event ev = {.events = events};

    if (!w->loop)
        return;
    ev.data.u64 = (uint64_t)w->generation << 32 | (uint32_t)w->fd;
    (void)epoll_ctl(w->loop->epoll_fd, EPOLL_CTL_MOD, w->fd, &ev);
}

void sw_watch_writable(struct sw_watch *w, bool on)
{
    modify(w, EPOLLIN | EPOLLRDHUP | EPOLLET | (on ? EPOLLOUT : 0));
}

int sw_watch_start_listener(struct sw_loop *l, struct sw_watch *w, int fd, sw_watch_cb cb,
                            struct sw_err *err)
{
    return watch(l, w, fd, EPOLLIN, cb, err);
}

void sw_watch_mute(struct sw_watch *w, bool mute)
{
    modify(w, mute ? 0 : EPOLLIN);
}

void sw_watch_move(struct sw_watch *from, struct sw_watch *to, sw_watch_cb cb)
{
    *to = *from;
    to->cb = cb;
    if (to->loop)
        to->loop->by_fd[to->fd] = to;
    from->loop = NULL;
}

void sw_watch_stop(struct sw_watch *w)
{
    if (!w->loop)
        return;
    /* No EPOLL_CTL_DEL: nearly every stop is followed by close, which removes it for free. */
    if (w->loop->by_fd[w->fd] == w)
        w->loop->by_fd[w->fd] = NULL;
    w->loop = NULL;
}

static void heap_set(struct sw_loop *l, size_t i, struct sw_timer *t)
{
    l->timers.p[i] = t;
    t->slot = (uint32_t)i + 1;
}

static void heap_up(struct sw_loop *l, size_t i)
{
    struct sw_timer *t = l->timers.p[i];

    while (i > 0) {
        size_t parent = (i - 1) / 2;

        if (l->timers.p[parent]->deadline_ns <= t->deadline_ns)
            break;
        heap_set(l, i, l->timers.p[parent]);
        i = parent;
    }
    heap_set(l, i, t);
}

static void heap_down(struct sw_loop *l, size_t i)
{
    struct sw_timer *t = l->timers.p[i];

    for (;;) {
        size_t child = i * 2 + 1;

        if (child >= l->timers.n)
            break;
        if (child + 1 < l->timers.n &&
            l->timers.p[child + 1]->deadline_ns < l->timers.p[child]->deadline_ns)
            child++;
        if (l->timers.p[child]->deadline_ns >= t->deadline_ns)
            break;
        heap_set(l, i, l->timers.p[child]);
        i = child;
    }
    heap_set(l, i, t);
}

void sw_timer_stop(struct sw_loop *l, struct sw_timer *t)
{
    size_t i = t->slot;
    struct sw_timer *last;

    if (i == 0)
        return;
    i--;
    t->slot = 0;
    last = l->timers.p[--l->timers.n];
    if (last == t)
        return;
    heap_set(l, i, last);
    heap_up(l, i);
    heap_down(l, last->slot - 1);
}

void sw_timer_start(struct sw_loop *l, struct sw_timer *t, uint64_t delay_ns, sw_timer_cb cb)
{
    sw_timer_stop(l, t);
    t->cb = cb;
    /* Never due in the turn that armed it: a callback with a delay of 0 must not spin. */
    if (__builtin_add_overflow(l->now_ns, sw_max(delay_ns, 1), &t->deadline_ns))
        t->deadline_ns = UINT64_MAX;
    sw_vec_push(&l->timers, t);
    heap_up(l, l->timers.n - 1);
}

static void run_timers(struct sw_loop *l)
{
    while (l->timers.n && l->timers.p[0]->deadline_ns <= l->now_ns) {
        struct sw_timer *t = l->timers.p[0];

        sw_timer_stop(l, t);
        t->cb(t);
    }
}

void sw_loop_defer(struct sw_loop *l, struct sw_defer *d, sw_defer_cb cb)
{
    if (sw_list_linked(&d->link))
        return;
    d->cb = cb;
    sw_list_push_back(&l->deferred, &d->link);
}

void sw_loop_defer_first(struct sw_loop *l, struct sw_defer *d, sw_defer_cb cb)
{
    sw_list_unlink(&d->link);
    d->cb = cb;
    sw_list_push_front(&l->deferred, &d->link);
}

void sw_defer_cancel(struct sw_defer *d)
{
    sw_list_unlink(&d->link);
}

void sw_loop_post(struct sw_loop *l, struct sw_msg *m)
{
    struct sw_msg *head = atomic_load_explicit(&l->inbox, memory_order_relaxed);
    int fd = l->inbox_fd; /* after the exchange the loop may be gone */

    do {
        m->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&l->inbox, &head, m, memory_order_release,
                                                    memory_order_relaxed));
    if (!head)
        (void)!eventfd_write(fd, 1);
}

static void on_inbox(struct sw_watch *w, unsigned events)
{
    struct sw_loop *l = SW_CONTAINER_OF(w, struct sw_loop, inbox_watch);
    eventfd_t n;

    (void)!eventfd_read(w->fd, &n);
    run_inbox(l);
}

static void to_timespec(uint64_t ns, struct timespec *ts)
{
    ts->tv_sec = (time_t)(ns / SW_NS_PER_S);
    ts->tv_nsec = (long)(ns % SW_NS_PER_S);
}

static int open_alarm(const struct sw_loop *l)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u64 = UINT32_MAX};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

    if (fd >= 0 && epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

/*
 * A timeout given to epoll is set up and torn down in the kernel with every call. A distant
 * deadline is left to a timer that stays armed instead; it may go off early, when the deadline it
 * was set for has been moved, and is set anew then. False: there is none to be had.
 */
static bool set_alarm(struct sw_loop *l, uint64_t due)
{
    struct itimerspec at = {0};

    if (l->alarm_ns > l->now_ns && l->alarm_ns <= due)
        return true;
    if (l->alarm_fd < 0)
        l->alarm_fd = open_alarm(l);
    to_timespec(due - l->now_ns, &at.it_value);
    if (l->alarm_fd < 0 || timerfd_settime(l->alarm_fd, 0, &at, NULL) != 0)
        return false;
    l->alarm_ns = due;
    return true;
}

static struct timespec *wait_time(struct sw_loop *l, int timeout_ms, struct timespec *ts)
{
    uint64_t ns = timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms * SW_NS_PER_MS;

    if (!sw_list_empty(&l->deferred)) {
        ns = 0;
    } else if (l->timers.n) {
        uint64_t due = l->timers.p[0]->deadline_ns;
        uint64_t left = due > l->now_ns ? due - l->now_ns : 0;

        if (left < ALARM_MIN_MS * SW_NS_PER_MS || !set_alarm(l, due))
            ns = sw_min(ns, left);
    }
    if (ns == UINT64_MAX)
        return NULL;
    to_timespec(ns, ts);
    return ts;
}

static unsigned to_events(uint32_t e)
{
    unsigned out = 0;

    if (e & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLPRI))
        out |= SW_READ;
    if (e & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        out |= SW_WRITE;
    if (e & (EPOLLERR | EPOLLHUP | EPOLLRDHUP | EPOLLPRI))
        out |= SW_HUP;
    if (e & EPOLLPRI)
        out |= SW_URGENT;
    return out;
}

void sw_loop_turn(struct sw_loop *l, int timeout_ms)
{
    __attribute__((uninitialized)) struct epoll_event ev[EVENTS_PER_TURN]; /* 1.5 kB */
    struct timespec ts;
    int n;

    n = epoll_pwait2(l->epoll_fd, ev, EVENTS_PER_TURN, wait_time(l, timeout_ms, &ts), NULL);
    l->now_ns = l->clock();
    for (int i = 0; i < n; i++) {
        size_t fd = (uint32_t)ev[i].data.u64;
        struct sw_watch *w = fd < l->by_fd_n ? l->by_fd[fd] : NULL;

        if (w && w->generation == (uint32_t)(ev[i].data.u64 >> 32))
            w->cb(w, to_events(ev[i].events));
    }
    run_timers(l);
    /* What these add in turn needs no look at the kernel, within reason. */
    for (int i = 0; i < DEFER_ROUNDS && !sw_list_empty(&l->deferred); i++)
        run_deferred(l);
}

void sw_loop_run(struct sw_loop *l)
{
    l->stop = false;
    while (!l->stop)
        sw_loop_turn(l, -1);
}

void sw_loop_stop(struct sw_loop *l)
{
    l->stop = true;
}
