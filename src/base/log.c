/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One queue of finished lines under a mutex, one thread that writes it. Building a line happens
 * on the caller's stack without the lock; only the copy into the queue is locked.
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hex.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "base/utf8.h"

enum {
    QUEUE_MAX = 1 << 20,
    SCOPES_MAX = 32,
    SCOPE_LEN = 32,
    GATHER_NS = 10000000, /* how long the writer lets lines collect */
    STOP_S = 2,           /* how long the end waits for the reader of the lines */
};

static const char *const level_names[] = {"off", "error", "warn", "info", "debug", "trace"};

struct scope_level {
    char name[SCOPE_LEN];
    enum sw_log_level level;
};

struct filter {
    enum sw_log_level level;
    size_t n;
    struct scope_level scopes[SCOPES_MAX];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_cond_t written;
    pthread_t thread;
    bool running;
    bool stop;
    bool ended; /* the writer has nothing left to do but return */
    bool left;  /* the writer hangs in a write, and sw_log_stop has given it up */
    int fd;
    enum sw_log_format format;
    struct sw_buf queue;
    uint64_t queued; /* bytes ever queued and written, for flush */
    uint64_t done;
    uint64_t dropped;
    uint64_t dropped_said;
} logger = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .wake = PTHREAD_COND_INITIALIZER,
    .written = PTHREAD_COND_INITIALIZER,
    .fd = STDERR_FILENO,
    .queue = {.max = QUEUE_MAX},
};

static pthread_rwlock_t filter_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct filter filter = {.level = SW_LOG_INFO};
/* The most talkative level any scope has: checked first, without the lock. */
static atomic_int filter_most = SW_LOG_INFO;

static void write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && errno == EAGAIN) {
            (void)nanosleep(&(struct timespec){.tv_nsec = GATHER_NS}, NULL);
            continue;
        }
        if (k <= 0)
            return; /* nowhere to complain to */
        p += k;
        n -= (size_t)k;
    }
}

static void log_dropped_locked(void)
{
    if (logger.dropped == logger.dropped_said)
        return;
    if (sw_buf_printf(&logger.queue, "log: queue full, %llu lines dropped so far\n",
                      (unsigned long long)logger.dropped) != SW_OK)
        return;
    logger.dropped_said = logger.dropped;
    logger.queued += sw_buf_len(&logger.queue); /* it is the first line of a new queue */
}

static void *writer_main(void *arg)
{
    (void)pthread_mutex_lock(&logger.lock);
    for (;;) {
        struct sw_buf batch;

        while (!logger.stop && sw_buf_len(&logger.queue) == 0)
            (void)pthread_cond_wait(&logger.wake, &logger.lock);
        if (!logger.stop) {
            (void)pthread_mutex_unlock(&logger.lock);
            (void)nanosleep(&(struct timespec){.tv_nsec = GATHER_NS}, NULL);
            (void)pthread_mutex_lock(&logger.lock);
        }
        if (sw_buf_len(&logger.queue) == 0 && logger.stop)
            break;
        batch = logger.queue;
        sw_buf_init(&logger.queue, QUEUE_MAX);
        if (logger.dropped != logger.dropped_said)
            log_dropped_locked();
        (void)pthread_mutex_unlock(&logger.lock);
        write_all(logger.fd, sw_buf_data(&batch), sw_buf_len(&batch));
        (void)pthread_mutex_lock(&logger.lock);
        logger.done += sw_buf_len(&batch);
        (void)pthread_cond_broadcast(&logger.written);
        sw_buf_done(&batch);
    }
    logger.ended = true;
    (void)pthread_cond_broadcast(&logger.written);
    (void)pthread_mutex_unlock(&logger.lock);
    return NULL;
}

void sw_log_start(int fd, enum sw_log_format format)
{
    (void)pthread_mutex_lock(&logger.lock);
    logger.fd = fd;
    logger.format = format;
    if (!logger.running) {
        logger.stop = logger.ended = false;
        logger.running = sw_thread_start(&logger.thread, writer_main, NULL, "sw-log") == 0;
    }
    (void)pthread_mutex_unlock(&logger.lock);
}

/* Whether the writer ends in time. Not by a join with a deadline: ThreadSanitizer knows none. */
static bool writer_ends_locked(void)
{
    struct timespec by;
    int rc = 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &by);
    by.tv_sec += STOP_S;
    while (!logger.ended && rc == 0)
        rc = pthread_cond_clockwait(&logger.written, &logger.lock, CLOCK_MONOTONIC, &by);
    return logger.ended;
}

void sw_log_stop(void)
{
    (void)pthread_mutex_lock(&logger.lock);
    if (!logger.running || logger.left) {
        (void)pthread_mutex_unlock(&logger.lock);
        return;
    }
    logger.stop = true;
    (void)pthread_cond_signal(&logger.wake);
    if (!writer_ends_locked()) {
        /* A pipe that is not read: the process ends all the same. Later lines stay in the queue. */
        logger.left = true;
        (void)pthread_mutex_unlock(&logger.lock);
        (void)pthread_detach(logger.thread);
        return;
    }
    (void)pthread_mutex_unlock(&logger.lock);
    (void)pthread_join(logger.thread, NULL);
    (void)pthread_mutex_lock(&logger.lock);
    logger.running = false;
    sw_buf_done(&logger.queue);
    (void)pthread_mutex_unlock(&logger.lock);
}

void sw_log_flush(void)
{
    uint64_t upto;

    (void)pthread_mutex_lock(&logger.lock);
    upto = logger.queued;
    while (logger.running && !logger.stop && logger.done < upto)
        (void)pthread_cond_wait(&logger.written, &logger.lock);
    (void)pthread_mutex_unlock(&logger.lock);
}

uint64_t sw_log_dropped(void)
{
    uint64_t n;

    (void)pthread_mutex_lock(&logger.lock);
    n = logger.dropped;
    (void)pthread_mutex_unlock(&logger.lock);
    return n;
}

static bool level_parse(struct sw_slice s, enum sw_log_level *ret)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(level_names); i++) {
        if (sw_slice_ieq(s, sw_slice_str(level_names[i]))) {
            *ret = (enum sw_log_level)i;
            return true;
        }
    }
    return false;
}

static bool filter_set_scope(struct filter *f, struct sw_slice name, enum sw_log_level level)
{
    struct scope_level *s = NULL;

    if (!name.p || name.n == 0 || name.n >= SCOPE_LEN)
        return false;
    for (size_t i = 0; i < f->n; i++) {
        if (sw_slice_eq_str(name, f->scopes[i].name))
            s = &f->scopes[i];
    }
    if (!s) {
        if (f->n == SCOPES_MAX)
            return false;
        s = &f->scopes[f->n++];
        memcpy(s->name, name.p, name.n);
        s->name[name.n] = '\0';
    }
    s->level = level;
    return true;
}

static int filter_apply(struct filter *f, struct sw_slice directives, struct sw_err *err)
{
    struct sw_slice rest = directives;

    while (rest.p) {
        struct sw_slice d = sw_slice_trim(sw_slice_cut(&rest, ','));
        ptrdiff_t eq = sw_slice_find(d, '=');
        enum sw_log_level level;

        if (d.n == 0)
            continue;
        if (!level_parse(eq < 0 ? d : sw_slice_from(d, (size_t)eq + 1), &level))
            return sw_err_set(err, SW_EINVAL,
                              "log filter '%.*s': the level must be off, error, warn, info, debug "
                              "or trace",
                              SW_SLICE_ARG(d));
        if (eq < 0)
            f->level = level;
        else if (!filter_set_scope(f, sw_slice_head(d, (size_t)eq), level))
            return sw_err_set(err, SW_EINVAL, "log filter '%.*s': bad scope", SW_SLICE_ARG(d));
    }
    return SW_OK;
}

int sw_log_filter(struct sw_slice directives, bool replace, struct sw_err *err)
{
    struct filter next = {.level = SW_LOG_INFO};
    int most;
    int rc;

    (void)pthread_rwlock_wrlock(&filter_lock);
    if (!replace)
        next = filter;
    rc = filter_apply(&next, directives, err);
    if (rc == SW_OK) {
        filter = next;
        most = (int)next.level;
        for (size_t i = 0; i < next.n; i++)
            most = (int)next.scopes[i].level > most ? (int)next.scopes[i].level : most;
        atomic_store_explicit(&filter_most, most, memory_order_relaxed);
    }
    (void)pthread_rwlock_unlock(&filter_lock);
    return rc;
}

char *sw_log_filter_text(void)
{
    SW_BUF_AUTO b = {.max = (size_t)SCOPES_MAX * (SCOPE_LEN + 16)};

    (void)pthread_rwlock_rdlock(&filter_lock);
    for (size_t i = 0; i < filter.n; i++)
        (void)!sw_buf_printf(&b, "%s=%s,", filter.scopes[i].name,
                             level_names[filter.scopes[i].level]);
    (void)!sw_buf_append_str(&b, level_names[filter.level]);
    (void)pthread_rwlock_unlock(&filter_lock);
    return sw_buf_take_str(&b);
}

bool sw_log_enabled(enum sw_log_level level, const char *scope)
{
    enum sw_log_level limit;

    if ((int)level > atomic_load_explicit(&filter_most, memory_order_relaxed))
        return false;
    (void)pthread_rwlock_rdlock(&filter_lock);
    limit = filter.level;
    for (size_t i = 0; i < filter.n; i++) {
        if (strcmp(filter.scopes[i].name, scope) == 0)
            limit = filter.scopes[i].level;
    }
    (void)pthread_rwlock_unlock(&filter_lock);
    return level <= limit;
}

enum { TAIL = 8 }; /* kept free for the closing bytes */

static size_t room(const struct sw_log_line *l)
{
    return l->n + TAIL < sizeof(l->text) ? sizeof(l->text) - TAIL - l->n : 0;
}

static void put(struct sw_log_line *l, const char *p, size_t n)
{
    n = sw_min(n, room(l));
    memcpy(l->text + l->n, p, n);
    l->n += n;
}

/* All of it, or nothing: half an escape sequence or character would make the line unreadable. */
static bool put_whole(struct sw_log_line *l, const char *p, size_t n)
{
    if (n > room(l))
        return false;
    put(l, p, n);
    return true;
}

static void put_str(struct sw_log_line *l, const char *s)
{
    put(l, s, strlen(s));
}

/* Bytes that stand for themselves inside quotes. */
static bool plain_byte(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* The byte or character at s.p[at], escaped where it must be; returns its length, 0: no room. */
static size_t put_special(struct sw_log_line *l, struct sw_slice s, size_t at)
{
    unsigned char c = (unsigned char)s.p[at];
    size_t n = c >= 0x80 ? sw_utf8_len(s.p + at, s.n - at) : 0;
    bool fits;

    if (c == 0xc2 && n && (unsigned char)s.p[at + 1] < 0xa0)
        c = (unsigned char)s.p[at + 1]; /* C1, which terminals obey like ESC */
    else if (n)
        return put_whole(l, s.p + at, n) ? n : 0;
    if (c == '"' || c == '\\')
        fits = put_whole(l, (char[]){'\\', (char)c}, 2);
    else
        fits =
            put_whole(l, (char[]){'\\', 'u', '0', '0', sw_hex_lower(c >> 4), sw_hex_lower(c)}, 6);
    if (!fits)
        return 0;
    return n ? n : 1;
}

/* Always ends with its quote, for which TAIL has room: a line that is cut still is JSON. */
static void put_escaped(struct sw_log_line *l, struct sw_slice s)
{
    size_t at = 0;

    put(l, "\"", 1);
    while (at < s.n && room(l)) {
        size_t run = at;
        size_t n;

        while (run < s.n && plain_byte((unsigned char)s.p[run]))
            run++;
        put(l, s.p + at, run - at);
        if (run == s.n)
            break;
        n = put_special(l, s, run);
        if (n == 0)
            break;
        at = run + n;
    }
    l->text[l->n++] = '"';
}

/* Date and second change rarely: they are kept per thread, only the microseconds are written. */
static void put_time(struct sw_log_line *l)
{
    static _Thread_local char text[SW_RFC3339_LEN];
    static _Thread_local uint64_t second;
    uint64_t now = sw_wall_ns();
    uint64_t us = now % SW_NS_PER_S / 1000;

    if (now / SW_NS_PER_S != second) {
        second = now / SW_NS_PER_S;
        (void)sw_rfc3339(now, 1, text);
    }
    for (size_t i = 25; i > 19; i--) { /* behind "YYYY-MM-DDTHH:MM:SS." */
        text[i] = (char)('0' + us % 10);
        us /= 10;
    }
    put(l, text, 27);
}

void sw_log_begin(struct sw_log_line *l, enum sw_log_level level, const char *scope,
                  const char *fmt, ...)
{
    char msg[1024];
    va_list ap;

    l->n = 0;
    l->fields = false;
    l->json = logger.format == SW_LOG_JSON;
    l->on = sw_log_enabled(level, scope);
    if (!l->on)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    if (l->json) {
        put_str(l, "{\"level\":\"");
        put_str(l, level_names[level]);
        put_str(l, "\",\"time\":\"");
        put_time(l);
        put_str(l, "\",\"scope\":\"");
        put_str(l, scope);
        put_str(l, "\",\"message\":");
        put_escaped(l, sw_slice_str(msg));
        return;
    }
    put_time(l);
    put(l, "\t", 1);
    put_str(l, level_names[level]);
    put(l, "\t", 1);
    put_str(l, scope);
    put(l, "\t", 1);
    sw_utf8_mask(msg, strlen(msg), ' ');
    put_str(l, msg);
}

/* False: no room for the field and 'least' bytes of its value; the line ends with those before. */
static bool key(struct sw_log_line *l, const char *k, size_t least)
{
    if (strlen(k) + 4 + least > room(l))
        return false;
    if (l->json) {
        put_str(l, ",\"");
        put_str(l, k);
        put_str(l, "\":");
        return true;
    }
    /* The first field is set off by a tab, the rest by spaces. */
    put_str(l, l->fields ? " " : "\t");
    l->fields = true;
    put_str(l, k);
    put_str(l, "=");
    return true;
}

static bool bare(struct sw_slice s)
{
    if (s.n == 0)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c >= 0x7f)
            return false;
    }
    return true;
}

void sw_log_str(struct sw_log_line *l, const char *k, struct sw_slice value)
{
    if (!l->on || !key(l, k, 2))
        return;
    if (!l->json && bare(value))
        put(l, value.p, value.n);
    else
        put_escaped(l, value);
}

void sw_log_quoted(struct sw_log_line *l, const char *k, struct sw_slice value)
{
    if (!l->on || !key(l, k, 2))
        return;
    put_escaped(l, value);
}

void sw_log_cstr(struct sw_log_line *l, const char *k, const char *value)
{
    if (value)
        sw_log_str(l, k, sw_slice_str(value));
}

void sw_log_u64(struct sw_log_line *l, const char *k, uint64_t value)
{
    char text[24];
    size_t n = (size_t)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);

    if (l->on && key(l, k, n))
        put(l, text, n);
}

void sw_log_end(struct sw_log_line *l)
{
    bool idle;

    if (!l->on)
        return;
    if (l->json)
        l->text[l->n++] = '}';
    l->text[l->n++] = '\n';
    (void)pthread_mutex_lock(&logger.lock);
    if (!logger.running) {
        write_all(logger.fd, l->text, l->n);
    } else {
        idle = sw_buf_len(&logger.queue) == 0;
        if (sw_buf_append(&logger.queue, l->text, l->n) == SW_OK)
            logger.queued += l->n;
        else
            logger.dropped++;
        if (idle)
            (void)pthread_cond_signal(&logger.wake);
    }
    (void)pthread_mutex_unlock(&logger.lock);
}

SW_PRINTF(4, 0)
static void log_text(struct sw_log_limit *limit, enum sw_log_level level, const char *scope,
                     const char *fmt, va_list ap)
{
    struct sw_log_line l;
    char msg[1024];

    (void)vsnprintf(msg, sizeof(msg), fmt, ap);
    sw_log_begin(&l, level, scope, "%s", msg);
    if (limit)
        sw_log_limit_put(limit, &l);
    sw_log_end(&l);
}

void sw_log(enum sw_log_level level, const char *scope, const char *fmt, ...)
{
    va_list ap;

    if (!sw_log_enabled(level, scope))
        return;
    va_start(ap, fmt);
    log_text(NULL, level, scope, fmt, ap);
    va_end(ap);
}

/* ---- limits ---- */

static const uint64_t each_line_ns = 100 * SW_NS_PER_MS;

bool sw_log_limit_take(struct sw_log_limit *l, uint64_t now_ns)
{
    if (sw_rate_used(&l->rate, each_line_ns, now_ns) >= SW_LOG_LIMIT_BURST) {
        l->suppressed++;
        return false;
    }
    (void)sw_rate_add(&l->rate, 1, SW_LOG_LIMIT_BURST, each_line_ns, now_ns);
    return true;
}

void sw_log_limit_put(struct sw_log_limit *l, struct sw_log_line *line)
{
    if (l->suppressed)
        sw_log_u64(line, "suppressed_lines", l->suppressed);
    l->suppressed = 0;
}

void sw_log_limited(struct sw_log_limit *l, uint64_t now_ns, enum sw_log_level level,
                    const char *scope, const char *fmt, ...)
{
    va_list ap;

    if (!sw_log_enabled(level, scope) || !sw_log_limit_take(l, now_ns))
        return;
    va_start(ap, fmt);
    log_text(l, level, scope, fmt, ap);
    va_end(ap);
}
