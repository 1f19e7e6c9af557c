/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, closing, and the way of a write into the queue. */
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/time.h"
#include "store/store_int.h"

static uint64_t real_clock_ms(void)
{
    return sw_wall_ns() / SW_NS_PER_MS;
}

static size_t or_default(size_t value, size_t otherwise)
{
    return value ? value : otherwise;
}

static struct sw_store_opts fill_in(const struct sw_store_opts *opts)
{
    struct sw_store_opts o = {0};

    if (opts)
        o = *opts;
    o.max_key = or_default(o.max_key, 1024);
    o.max_value = or_default(o.max_value, 8U << 20);
    o.max_queue = or_default(o.max_queue, 4096);
    o.max_queue_bytes = or_default(o.max_queue_bytes, 64U << 20);
    o.max_batch = or_default(o.max_batch, 512);
    o.keep_events = or_default(o.keep_events, 10000);
    o.keep_ms = or_default(o.keep_ms, 300000);
    o.keep_bytes = or_default(o.keep_bytes, 4 << 20);
    o.max_events = or_default(o.max_events, 100000);
    o.max_bytes = or_default(o.max_bytes, 128 << 20);
    o.compact_every_ms = or_default(o.compact_every_ms, 30000);
    if (!o.clock_ms)
        o.clock_ms = real_clock_ms;
    return o;
}

/* The lock is a file of its own: closing a descriptor of the database would drop SQLite's locks. */
int sw_store_lock(const char *path, int *ret_fd, struct sw_err *err)
{
    SW_AUTO_FREE char *name = sw_asprintf("%s.lock", path);
    SW_AUTO_FD fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    char pid[24] = "";
    int n;

    if (fd < 0)
        return sw_err_sys(err, errno, "cannot open '%s'", name);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK)
            return sw_err_sys(err, errno, "cannot lock '%s'", name);
        (void)!pread(fd, pid, sizeof(pid) - 1, 0);
        pid[strspn(pid, "0123456789")] = '\0';
        return sw_err_set(err, SW_STORE_LOCKED, "'%s' is in use by another process%s%s%s", path,
                          *pid ? " (pid " : "", pid, *pid ? ")" : "");
    }
    n = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, pid, (size_t)n, 0) != n)
        return sw_err_sys(err, errno, "cannot write '%s'", name);
    *ret_fd = SW_TAKE_FD(fd);
    return SW_OK;
}

static int open_file(struct sw_store *s, struct sw_load *load, struct sw_err *err)
{
    struct stat st;
    int rc = sw_store_lock(s->path, &s->lock_fd, err);

    if (rc != SW_OK)
        return rc;
    if (stat(s->path, &st) != 0 && errno == ENOENT)
        rc = sw_db_create(s->path, err);
    if (rc == SW_OK)
        rc = sw_db_open(s->path, s->opts.relaxed_sync ? SW_DB_RELAXED : SW_DB_WRITE, &s->db, err);
    if (rc == SW_OK && !s->opts.skip_check)
        rc = sw_db_verify(s->db, false, err);
    return rc == SW_OK ? sw_load_run(load, s->db, s->path, err) : rc;
}

static void store_free(struct sw_store *s)
{
    sw_db_close(s->db);
    sw_close_indirect(&s->lock_fd);
    for (int i = 0; i < HISTORY_SNAPS; i++)
        (void)sw_store_snap_unref(s->history[i]);
    (void)sw_store_snap_unref(s->snap);
    sw_window_done(&s->window);
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_mutex_destroy(&s->queue_lock);
    (void)pthread_cond_destroy(&s->queue_wake);
    sw_free(s->path);
    sw_free(s);
}

static struct sw_store *store_new(const char *path, const struct sw_store_opts *opts)
{
    struct sw_store *s = SW_NEW(struct sw_store);
    pthread_condattr_t attr;

    s->opts = fill_in(opts);
    s->path = sw_strdup(path);
    s->lock_fd = -1;
    s->queue_tail = &s->queue_head;
    sw_list_init(&s->feeds);
    atomic_init(&s->edits, 2); /* 1 is the loader's */
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_mutex_init(&s->queue_lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&s->queue_wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    return s;
}

struct sw_store *sw_store_open(const char *path, const struct sw_store_opts *opts,
                               struct sw_err *err)
{
    struct sw_store *s = store_new(path, opts);
    struct sw_load load = {0};
    size_t objects;
    size_t recent;
    int e;

    if (open_file(s, &load, err) != SW_OK) {
        store_free(s);
        return NULL;
    }
    s->window = load.window;
    s->floor = load.meta.floor;
    s->last = load.revision;
    s->stats.epoch = load.meta.epoch;
    s->snap = sw_store_snap_new(load.tree, load.revision);
    s->compact_next_ms = s->opts.clock_ms() + s->opts.compact_every_ms;
    objects = sw_tree_count(s->snap->root); /* the writer's from here on */
    recent = s->window.n;
    e = sw_thread_start(&s->thread, sw_store_writer_main, s, "sw-store");
    if (e != 0) {
        (void)sw_err_sys(err, e, "cannot start the store's writer");
        store_free(s);
        return NULL;
    }
    sw_log_info("store", "opened '%s' at revision %" PRIu64 ": %zu objects, %zu recent changes",
                path, load.revision, objects, recent);
    return s;
}

void sw_store_close(struct sw_store *s)
{
    if (!s)
        return;
    (void)pthread_mutex_lock(&s->queue_lock);
    s->closing = true;
    (void)pthread_cond_signal(&s->queue_wake);
    (void)pthread_mutex_unlock(&s->queue_lock);
    (void)pthread_join(s->thread, NULL);
    assert(sw_list_empty(&s->feeds));
    store_free(s);
}

void sw_store_stats(struct sw_store *s, struct sw_store_stats *ret)
{
    uint64_t queued;
    uint64_t refused;

    (void)pthread_mutex_lock(&s->queue_lock);
    queued = s->queue_n;
    refused = s->refused;
    (void)pthread_mutex_unlock(&s->queue_lock);
    (void)pthread_mutex_lock(&s->lock);
    *ret = s->stats;
    ret->revision = s->snap->revision;
    ret->floor = s->floor;
    ret->objects = sw_tree_count(s->snap->root);
    ret->events = s->window.n;
    ret->event_bytes = s->window.bytes;
    (void)pthread_mutex_unlock(&s->lock);
    ret->queued = queued;
    ret->refused = refused;
}

/* ---- writing ---- */

static int check_write(const struct sw_store *s, const struct sw_store_write *w, struct sw_err *err)
{
    if (w->verb == SW_STORE_COMPACT)
        return SW_OK;
    if (w->key.n == 0)
        return sw_err_set(err, SW_EINVAL, "empty key");
    if (w->key.n > s->opts.max_key)
        return sw_err_set(err, SW_EINVAL, "the key is longer than %zu bytes", s->opts.max_key);
    if (w->value.n > s->opts.max_value)
        return sw_err_set(err, SW_EINVAL, "the object is larger than %zu bytes", s->opts.max_value);
    if (w->verb != SW_STORE_DELETE && !w->value.p)
        return sw_err_set(err, SW_EINVAL, "no value");
    return SW_OK;
}

static struct sw_store_request *request_new(const struct sw_store_write *w)
{
    struct sw_store_request *r = SW_NEW(struct sw_store_request);

    r->verb = w->verb;
    r->expect = w->expect;
    r->loop = w->loop;
    r->cb = w->cb;
    r->arg = w->arg;
    r->bytes = sizeof(*r) + w->key.n + w->value.n;
    r->has_value = w->value.p != NULL;
    if (w->verb != SW_STORE_COMPACT)
        r->obj = sw_store_obj_new(w->key, w->value);
    return r;
}

static int enqueue(struct sw_store *s, struct sw_store_request *r, struct sw_err *err)
{
    int rc = SW_OK;

    (void)pthread_mutex_lock(&s->queue_lock);
    if (s->closing) {
        rc = sw_err_set(err, SW_ECLOSED, "the store is closing");
    } else if (s->queue_n >= s->opts.max_queue ||
               (s->queue_n && s->queue_bytes + r->bytes > s->opts.max_queue_bytes)) {
        rc = sw_err_set(err, SW_ELIMIT, "%zu writes are waiting already", s->queue_n);
        s->refused++;
    } else {
        *s->queue_tail = r;
        s->queue_tail = &r->next;
        s->queue_bytes += r->bytes;
        if (s->queue_n++ == 0)
            (void)pthread_cond_signal(&s->queue_wake);
    }
    (void)pthread_mutex_unlock(&s->queue_lock);
    return rc;
}

int sw_store_submit(struct sw_store *s, const struct sw_store_write *w, struct sw_err *err)
{
    struct sw_store_request *r;
    int rc = check_write(s, w, err);

    if (rc != SW_OK)
        return rc;
    r = request_new(w);
    rc = enqueue(s, r, err);
    if (rc != SW_OK) {
        (void)sw_store_obj_unref(r->obj);
        sw_free(r);
    }
    return rc;
}
