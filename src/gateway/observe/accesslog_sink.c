/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where access logs go. Workers append lines to the queue of a file; one thread writes them all. A
 * full queue drops lines and counts them: traffic never waits for a disk. Pipes and other things
 * with a reader are written without waiting, since a reader that stops would stop the lines of all
 * other files, and the end of the process, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "base/vec.h"
#include "gateway/observe/accesslog.h"
#include "gateway/observe/accesslog_int.h"

enum { QUEUE_MAX = 4 << 20, PIECE = 4096 };

/*
 * When a sink has no writers left, a reader that takes nothing for LINGER loses the rest; the exit
 * of the process waits no longer than STOP for a slow reader. Losses are logged once in LOG_EVERY.
 */
#define LINGER_NS    (1 * SW_NS_PER_S)
#define STOP_NS      (5 * SW_NS_PER_S)
#define LOG_EVERY_NS (10 * SW_NS_PER_S)

struct sw_gw_sink {
    struct sw_list link;
    char *path; /* owned */
    unsigned refs;
    int fd;
    int std_fd;         /* the standard stream it is: not ours to close; -1: none */
    bool regular;       /* a file: a write of it comes to an end */
    bool failing;       /* the last write failed, and that was logged */
    bool stuck;         /* its reader has not taken everything yet */
    uint64_t took_ns;   /* when it took something last */
    uint64_t logged_ns; /* when dropped lines were logged last */
    uint64_t unlogged;  /* lines dropped since */
    struct sw_buf out;  /* queued */
    struct sw_buf busy; /* being written: the writer's, without the lock */
};

static struct {
    pthread_mutex_t lock;
    struct sw_list sinks;
    pthread_t thread;
    int wake_fd; /* of the writer; valid once started */
    bool asleep;
    bool started;
    bool stopping;
    bool reopen;
    uint64_t stop_ns;
    uint64_t lost; /* lines that no file has: queue full, or not written */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .sinks = {&all.sinks, &all.sinks}, .wake_fd = -1};

/* ---- descriptors ---- */

static bool is_kind(int fd, mode_t kind)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == kind;
}

/* A pipe without a reader is an error (ENXIO), not something to wait for. */
static int open_path(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0640);
}

/*
 * O_NONBLOCK belongs to the open file description, which other processes share with a standard
 * stream, so it is not ours to change: a pipe is opened once more. Where that fails the stream
 * itself is used.
 */
static int open_std(int fd)
{
    char path[40];
    int own;

    if (!is_kind(fd, S_IFIFO))
        return fd;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    own = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    return own >= 0 ? own : fd;
}

static void close_own(const struct sw_gw_sink *s)
{
    if (s->fd >= 0 && s->fd != s->std_fd)
        (void)close(s->fd);
}

/* ---- writing ---- */

/* Writes a piece that a stream takes without blocking when poll reports room. */
static ssize_t write_some(const struct sw_gw_sink *s, struct sw_slice in)
{
    if (!s->regular && s->fd == s->std_fd) {
        struct pollfd p = {.fd = s->fd, .events = POLLOUT};

        if (poll(&p, 1, 0) <= 0) {
            errno = EAGAIN;
            return -1;
        }
        in.n = sw_min(in.n, PIECE);
    }
    return write(s->fd, in.p, in.n);
}

/* 0: all of it was written; otherwise the error, EAGAIN when the reader must read first. */
static int write_busy(struct sw_gw_sink *s)
{
    while (sw_buf_len(&s->busy)) {
        ssize_t n = write_some(s, sw_buf_slice(&s->busy));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        s->took_ns = sw_now_ns();
        sw_buf_consume(&s->busy, (size_t)n);
    }
    return 0;
}

static void lose_locked(struct sw_buf *b)
{
    struct sw_slice rest = sw_buf_slice(b);

    for (size_t i = 0; i < rest.n; i++)
        all.lost += rest.p[i] == '\n';
    sw_buf_done(b);
}

/* A full disk or a closed pipe: the lines are lost and counted, traffic continues. */
static void wrote_locked(struct sw_gw_sink *s, int why)
{
    if (why == EAGAIN) {
        if (!s->stuck)
            s->took_ns = sw_now_ns();
        s->stuck = true;
        return;
    }
    s->stuck = false;
    if (why && !s->failing)
        sw_log_warn("access", "cannot write access log '%s', dropping lines: %s", s->path,
                    sw_errno_text(why));
    else if (!why && s->failing)
        sw_log_info("access", "access log '%s' can be written again", s->path);
    s->failing = why != 0;
    lose_locked(&s->busy);
}

static void log_dropped_locked(struct sw_gw_sink *s, uint64_t now)
{
    sw_log_warn("access", "'%s' is not read fast enough: %" PRIu64 " lines are lost", s->path,
                s->unlogged);
    s->unlogged = 0;
    s->logged_ns = now;
}

/* The sink has no writers left, and its reader takes nothing. */
static void give_up_locked(struct sw_gw_sink *s)
{
    uint64_t since = all.stopping ? sw_max(all.stop_ns, s->took_ns) : s->took_ns;
    uint64_t before = all.lost;
    uint64_t now = sw_now_ns();

    if (!s->stuck || (s->refs && !all.stopping))
        return;
    if (now - since < LINGER_NS && !(all.stopping && now - all.stop_ns >= STOP_NS))
        return;
    s->stuck = false;
    lose_locked(&s->busy);
    lose_locked(&s->out);
    s->unlogged += all.lost - before;
    log_dropped_locked(s, now);
}

static void write_pending_locked(void)
{
    /* Others may be added meanwhile, but only this thread takes sinks off the list. */
    for (struct sw_list *l = all.sinks.next; l != &all.sinks; l = l->next) {
        struct sw_gw_sink *s = SW_CONTAINER_OF(l, struct sw_gw_sink, link);
        int why;

        if (sw_buf_len(&s->busy) == 0) {
            s->busy = s->out;
            sw_buf_init(&s->out, QUEUE_MAX);
        }
        if (sw_buf_len(&s->busy) == 0)
            continue;
        s->refs++; /* stays while we write without the lock */
        pthread_mutex_unlock(&all.lock);
        why = write_busy(s);
        pthread_mutex_lock(&all.lock);
        s->refs--;
        wrote_locked(s, why);
        give_up_locked(s);
    }
}

static void reopen_locked(void)
{
    SW_LIST_EACH (struct sw_gw_sink, s, &all.sinks, link) {
        int fd;

        if (s->std_fd >= 0)
            continue;
        fd = open_path(s->path);
        if (fd < 0) {
            sw_log_warn("access", "cannot reopen access log '%s': %s", s->path,
                        sw_errno_text(errno));
            continue;
        }
        close_own(s);
        s->fd = fd;
        s->regular = is_kind(fd, S_IFREG);
    }
}

static void reap_locked(void)
{
    SW_LIST_EACH (struct sw_gw_sink, s, &all.sinks, link) {
        if (s->refs || sw_buf_len(&s->out) || sw_buf_len(&s->busy))
            continue;
        sw_list_unlink(&s->link);
        close_own(s);
        sw_buf_done(&s->out);
        sw_buf_done(&s->busy);
        sw_free(s->path);
        sw_free(s);
    }
}

/*
 * Sleeps until there is something to write, or a reader has taken something. Returns at once when
 * a queue that is not stuck has lines. False: it is over, all is written or given up.
 */
static bool wait_locked(void)
{
    SW_VEC(struct pollfd) fds = {0};
    int timeout_ms = -1;

    sw_vec_push(&fds, ((struct pollfd){.fd = all.wake_fd, .events = POLLIN}));
    SW_LIST_EACH (const struct sw_gw_sink, s, &all.sinks, link) {
        if (s->stuck) {
            sw_vec_push(&fds, ((struct pollfd){.fd = s->fd, .events = POLLOUT}));
            if (s->refs == 0 || all.stopping)
                timeout_ms = 100; /* to check the deadlines */
        } else if (sw_buf_len(&s->out)) {
            timeout_ms = 0;
            break;
        }
    }
    if (timeout_ms < 0 && (all.stopping || all.reopen)) {
        sw_vec_done(&fds);
        return all.reopen;
    }
    if (timeout_ms != 0) {
        eventfd_t n;

        all.asleep = true;
        pthread_mutex_unlock(&all.lock);
        (void)poll(fds.p, (nfds_t)fds.n, timeout_ms);
        (void)!eventfd_read(all.wake_fd, &n);
        pthread_mutex_lock(&all.lock);
        all.asleep = false;
    }
    sw_vec_done(&fds);
    return true;
}

static void *writer(void *arg)
{
    pthread_mutex_lock(&all.lock);
    do {
        if (all.reopen) {
            all.reopen = false;
            reopen_locked();
        }
        write_pending_locked();
        reap_locked();
    } while (wait_locked());
    pthread_mutex_unlock(&all.lock);
    return NULL;
}

static void wake_locked(void)
{
    if (all.asleep)
        (void)!eventfd_write(all.wake_fd, 1);
    all.asleep = false; /* once is enough */
}

/* ---- for the logs ---- */

static void start_locked(void)
{
    if (all.started)
        return;
    if (all.wake_fd < 0)
        all.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    all.started = all.wake_fd >= 0 && sw_thread_start(&all.thread, writer, NULL, "sw-access") == 0;
}

static struct sw_gw_sink *find_locked(const char *path)
{
    SW_LIST_EACH (struct sw_gw_sink, s, &all.sinks, link) {
        if (strcmp(s->path, path) == 0)
            return s;
    }
    return NULL;
}

static struct sw_gw_sink *sink_new(const char *path, struct sw_err *err)
{
    int std_fd = strcmp(path, "/dev/stdout") == 0   ? STDOUT_FILENO
                 : strcmp(path, "/dev/stderr") == 0 ? STDERR_FILENO
                                                    : -1;
    int fd = std_fd >= 0 ? open_std(std_fd) : open_path(path);
    struct sw_gw_sink *s;

    if (fd < 0) {
        (void)sw_err_set(err, SW_EINVAL, "cannot open '%s': %s", path, sw_errno_text(errno));
        return NULL;
    }
    s = SW_NEW(struct sw_gw_sink);
    s->path = sw_strdup(path);
    s->fd = fd;
    s->std_fd = std_fd;
    s->regular = is_kind(fd, S_IFREG);
    sw_buf_init(&s->out, QUEUE_MAX);
    sw_list_init(&s->link);
    return s;
}

struct sw_gw_sink *sw_gw_sink_get(const char *path, struct sw_err *err)
{
    struct sw_gw_sink *s;

    pthread_mutex_lock(&all.lock);
    s = find_locked(path);
    if (!s) {
        s = sink_new(path, err);
        if (s)
            sw_list_push_back(&all.sinks, &s->link);
    }
    if (s) {
        s->refs++;
        start_locked();
    }
    pthread_mutex_unlock(&all.lock);
    return s;
}

void sw_gw_sink_put(struct sw_gw_sink *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&all.lock);
    s->refs--;
    wake_locked();
    pthread_mutex_unlock(&all.lock);
}

void sw_gw_sink_write(struct sw_gw_sink *s, struct sw_slice line)
{
    pthread_mutex_lock(&all.lock);
    if (sw_buf_append_slice(&s->out, line) < 0) {
        uint64_t now = sw_now_ns();

        all.lost++;
        s->unlogged++;
        if (s->logged_ns == 0 || now - s->logged_ns >= LOG_EVERY_NS)
            log_dropped_locked(s, now);
    } else if (!s->stuck) {
        wake_locked();
    }
    pthread_mutex_unlock(&all.lock);
}

uint64_t sw_gw_accesslog_lost(void)
{
    uint64_t n;

    pthread_mutex_lock(&all.lock);
    n = all.lost;
    pthread_mutex_unlock(&all.lock);
    return n;
}

void sw_gw_accesslog_reopen(void)
{
    pthread_mutex_lock(&all.lock);
    all.reopen = true;
    wake_locked();
    pthread_mutex_unlock(&all.lock);
}

void sw_gw_accesslog_stop(void)
{
    pthread_mutex_lock(&all.lock);
    all.stopping = true;
    all.stop_ns = sw_now_ns();
    wake_locked();
    pthread_mutex_unlock(&all.lock);
    if (all.started)
        (void)pthread_join(all.thread, NULL);
    all.started = false;
    all.stopping = false;
    if (all.wake_fd >= 0)
        (void)close(all.wake_fd);
    all.wake_fd = -1;
}
