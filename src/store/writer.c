/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer thread. Whatever queued up while the last commit was on its way to the disk becomes
 * the next transaction. Nothing is shown to readers, watchers or callers before it is durable.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/vec.h"
#include "store/store_int.h"

enum {
    COMPACT_STEP = 1000,    /* changes per compaction transaction */
    WAL_IDLE_PAGES = 1000,  /* worth a checkpoint when there is nothing else to do */
    WAL_BUSY_PAGES = 16384, /* checkpoint now, whatever waits */
    IDLE_MS = 20,
    RETRY_MIN_MS = 200, /* after a failed checkpoint or compaction; doubles */
    RETRY_MAX_MS = 10000,
};
static const uint64_t log_again_ns = 10 * SW_NS_PER_S;

/* One group of writes on its way into one transaction. */
struct batch {
    struct sw_store_request *head;
    size_t n;
    struct sw_tree *tree; /* owned: the state with the writes applied so far */
    uint64_t edit;
    uint64_t wall_ms;
    bool begun;
    SW_VEC(struct sw_store_event *) events; /* owned references */
};

/* ---- log lines: one when writes begin to fail and one when they work again ---- */

/*
 * Where small writes still fit and large ones do not, the two alternate: then a beginning is logged
 * only now and then.
 */
static void writes_fail(struct sw_store *s, size_t n, const struct sw_err *err)
{
    uint64_t now = sw_now_ns();

    if (s->failing || (s->failing_said_ns && now - s->failing_said_ns < log_again_ns)) {
        sw_log_debug("store", "%zu writes failed: %s", n, err->msg);
        return;
    }
    s->failing = true;
    s->failing_said_ns = now;
    sw_log_warn("store", "writes fail: %s", err->msg);
}

static void writes_work(struct sw_store *s)
{
    if (s->failing)
        sw_log_info("store", "writes work again");
    s->failing = false;
}

static bool upkeep_waits(const struct sw_store *s)
{
    return s->upkeep_wait_ms && sw_now_ns() < s->upkeep_retry_ns;
}

/* A checkpoint or a compaction failed: leave the disk alone for a while. */
static void upkeep_failed(struct sw_store *s, const char *what, const struct sw_err *err)
{
    if (s->upkeep_wait_ms)
        sw_log_debug("store", "%s failed: %s", what, err->msg);
    else
        sw_log_warn("store", "%s failed: %s", what, err->msg);
    s->upkeep_wait_ms =
        s->upkeep_wait_ms ? sw_min(2 * s->upkeep_wait_ms, (uint64_t)RETRY_MAX_MS) : RETRY_MIN_MS;
    s->upkeep_failed = what;
    s->upkeep_retry_ns = sw_now_ns() + s->upkeep_wait_ms * SW_NS_PER_MS;
}

/* Only what failed can show that it is over: a compaction may fit where a checkpoint does not. */
static void upkeep_worked(struct sw_store *s, const char *what)
{
    if (!s->upkeep_wait_ms || strcmp(s->upkeep_failed, what) != 0)
        return;
    sw_log_info("store", "%s works again", what);
    s->upkeep_wait_ms = 0;
}

/* ---- completion ---- */

static void deliver(struct sw_msg *m)
{
    struct sw_store_request *r = SW_CONTAINER_OF(m, struct sw_store_request, msg);
    struct sw_store_result res = {.rc = r->rc, .revision = r->revision, .msg = r->err.msg};

    if (r->rc == SW_OK) {
        res.obj = r->verb == SW_STORE_DELETE ? NULL : r->obj;
        res.prev = r->there;
    } else {
        res.obj = r->there;
    }
    if (r->cb)
        r->cb(r->arg, &res);
    (void)sw_store_obj_unref(r->obj);
    (void)sw_store_obj_unref(r->there);
    sw_free(r);
}

static void complete_all(struct sw_store_request *r)
{
    while (r) {
        struct sw_store_request *next = r->next;

        r->msg.cb = deliver;
        if (r->loop && r->cb)
            sw_loop_post(r->loop, &r->msg);
        else
            deliver(&r->msg);
        r = next;
    }
}

/* ---- applying ---- */

static int refuse(struct sw_store_request *r, struct sw_store_obj *there, int rc, const char *what)
{
    r->there = there ? sw_store_obj_ref(there) : NULL;
    r->rc = sw_err_set(&r->err, rc, "%s", what);
    return rc;
}

/* SW_OK when the write may continue. */
static int precondition(struct sw_store_request *r, struct sw_store_obj *there)
{
    if (r->verb == SW_STORE_CREATE)
        return there ? refuse(r, there, SW_STORE_EXISTS, "the object exists already") : SW_OK;
    if (!there && r->verb != SW_STORE_PUT)
        return refuse(r, NULL, SW_ENOENT, "the object does not exist");
    if (r->expect && (!there || there->revision != r->expect))
        return refuse(r, there, SW_STORE_CONFLICT, "the object has been changed meanwhile");
    return SW_OK;
}

static int apply(struct sw_store *s, struct batch *b, struct sw_store_request *r,
                 struct sw_err *err)
{
    struct sw_store_obj *there = sw_tree_get(b->tree, r->obj->key);
    struct sw_db_row row = {.key = r->obj->key, .wall_ms = b->wall_ms};
    enum sw_store_change type = there ? SW_STORE_UPDATED : SW_STORE_CREATED;
    bool keep = r->verb != SW_STORE_DELETE || r->has_value;
    int rc;

    if (precondition(r, there) != SW_OK)
        return SW_OK;
    if (!b->begun) {
        rc = sw_db_begin(s->db, err);
        if (rc != SW_OK)
            return rc;
        b->begun = true;
    }
    if (r->verb == SW_STORE_DELETE)
        type = SW_STORE_DELETED;
    r->revision = ++s->last;
    r->obj->revision = r->revision;
    r->obj->created = there ? there->created : r->revision;
    r->there = there ? sw_store_obj_ref(there) : NULL;
    row.revision = r->revision;
    row.type = type;
    row.created = r->obj->created;
    row.prev = there ? there->revision : 0;
    if (keep)
        row.value = r->obj->value;
    rc = sw_db_insert(s->db, &row, err);
    if (rc != SW_OK)
        return rc;
    sw_vec_push(&b->events,
                sw_store_event_new(type, r->revision, b->wall_ms, keep ? r->obj : NULL, r->there));
    if (type == SW_STORE_DELETED)
        b->tree = sw_tree_del(b->tree, r->obj->key, b->edit);
    else
        b->tree = sw_tree_put(b->tree, r->obj, b->edit);
    return SW_OK;
}

/* Shows the committed batch to readers and watchers. */
static void publish(struct sw_store *s, struct batch *b)
{
    struct sw_store_snap *fresh;
    struct sw_store_snap *old;

    if (b->events.n == 0)
        return;
    fresh = sw_store_snap_new(SW_TAKE(b->tree), s->last);
    (void)pthread_mutex_lock(&s->lock);
    old = s->snap;
    s->snap = fresh;
    SW_VEC_FOREACH (struct sw_store_event *, it, &b->events)
        sw_window_push(&s->window, *it);
    s->stats.writes += b->events.n;
    s->stats.commits++;
    if (b->events.n > s->stats.largest_batch)
        s->stats.largest_batch = b->events.n;
    sw_store_feeds_wake_locked(s);
    (void)pthread_mutex_unlock(&s->lock);
    b->events.n = 0;
    (void)sw_store_snap_unref(old);
}

/*
 * The transaction is lost. Every write of the batch failed with it, refused ones included: what
 * refused them may have been a write that never happened.
 */
static void fail_batch(struct sw_store *s, struct batch *b, const struct sw_err *err)
{
    sw_db_rollback(s->db);
    for (struct sw_store_request *r = b->head; r; r = r->next) {
        r->rc = err->rc;
        r->err = *err;
        r->revision = 0;
        r->there = sw_store_obj_unref(r->there);
    }
    (void)pthread_mutex_lock(&s->lock);
    s->stats.failed += b->n;
    (void)pthread_mutex_unlock(&s->lock);
    writes_fail(s, b->n, err);
    SW_VEC_FOREACH (struct sw_store_event *, it, &b->events)
        (void)sw_store_event_unref(*it);
    b->events.n = 0;
}

static void run_batch(struct sw_store *s, struct sw_store_request *head, size_t n)
{
    struct batch b = {.head = head, .n = n, .wall_ms = s->opts.clock_ms()};
    struct sw_err err = {0};
    int rc = SW_OK;

    /* Only this thread replaces the snapshot, so looking at it needs no lock. */
    b.tree = sw_tree_ref(s->snap->root);
    b.edit = atomic_fetch_add(&s->edits, 1);
    for (struct sw_store_request *r = head; r && rc == SW_OK; r = r->next)
        rc = apply(s, &b, r, &err);
    if (rc == SW_OK && b.begun)
        rc = sw_db_commit(s->db, &err);
    if (rc == SW_OK) {
        publish(s, &b);
        if (b.begun)
            writes_work(s);
    } else {
        fail_batch(s, &b, &err);
    }
    (void)sw_tree_unref(b.tree);
    sw_vec_done(&b.events);
    complete_all(head);
}

/* ---- compaction ---- */

static void forget_events(struct sw_store *s, uint64_t floor)
{
    struct sw_store_snap *old[HISTORY_SNAPS] = {0};
    SW_VEC(struct sw_store_event *) gone = {0};

    (void)pthread_mutex_lock(&s->lock);
    while (s->window.n && sw_window_at(&s->window, 0)->revision <= floor)
        sw_vec_push(&gone, sw_window_pop(&s->window));
    s->floor = floor;
    for (int i = 0; i < HISTORY_SNAPS; i++) {
        if (s->history[i] && s->history[i]->revision < floor)
            old[i] = SW_TAKE(s->history[i]);
    }
    (void)pthread_mutex_unlock(&s->lock);
    SW_VEC_FOREACH (struct sw_store_event *, it, &gone)
        (void)sw_store_event_unref(*it);
    sw_vec_done(&gone);
    for (int i = 0; i < HISTORY_SNAPS; i++)
        (void)sw_store_snap_unref(old[i]);
}

/* One bounded transaction towards s->compact_to. */
static int compact_step(struct sw_store *s, struct sw_err *err)
{
    uint64_t to = s->compact_to;
    int rc;

    if (s->window.n > COMPACT_STEP) {
        uint64_t bound = sw_window_at(&s->window, COMPACT_STEP - 1)->revision;

        to = bound < to ? bound : to;
    }
    rc = sw_db_begin(s->db, err);
    if (rc == SW_OK)
        rc = sw_db_compact(s->db, s->floor, to, err);
    if (rc == SW_OK)
        rc = sw_db_commit(s->db, err);
    if (rc == SW_OK) {
        forget_events(s, to);
        upkeep_worked(s, "compaction");
        return SW_OK;
    }
    sw_db_rollback(s->db);
    s->compact_to = s->floor; /* next period tries again */
    upkeep_failed(s, "compaction", err);
    return rc;
}

struct excess {
    const struct sw_store *store;
    size_t drop;  /* events, the oldest first */
    size_t bytes; /* of the others */
};

/* Drops events until no more than n of 'bytes' are left; with before_ms only those written before.
 */
static void drop_excess(struct excess *x, size_t n, size_t bytes, uint64_t before_ms)
{
    const struct sw_window *w = &x->store->window;

    while (x->drop < w->n && (w->n - x->drop > n || x->bytes > bytes)) {
        const struct sw_store_event *e = sw_window_at(w, x->drop);

        if (before_ms && e->wall_ms >= before_ms)
            return;
        x->bytes -= sw_window_cost(e);
        x->drop++;
    }
}

/*
 * Decides how far history may go: what is old and beyond what is kept of that, or simply too much;
 * then some more, so that a full window is not compacted one by one.
 */
static void compact_policy(struct sw_store *s, uint64_t now_ms)
{
    const struct sw_store_opts *o = &s->opts;
    struct excess x = {.store = s, .bytes = s->window.bytes};

    if (now_ms >= s->compact_next_ms) {
        if (now_ms > o->keep_ms)
            drop_excess(&x, o->keep_events, o->keep_bytes, now_ms - o->keep_ms);
        s->compact_next_ms = now_ms + o->compact_every_ms;
    }
    if (s->window.n > o->max_events || s->window.bytes > o->max_bytes)
        drop_excess(&x, o->max_events / 8 * 7, o->max_bytes / 8 * 7, 0);
    if (x.drop) {
        uint64_t to = sw_window_at(&s->window, x.drop - 1)->revision;

        if (to > s->compact_to)
            s->compact_to = to;
    }
}

static void run_compact_request(struct sw_store *s, struct sw_store_request *r)
{
    if (r->expect > s->snap->revision) {
        r->rc = sw_err_set(&r->err, SW_STORE_TOO_NEW, "revision %" PRIu64 " has not happened yet",
                           r->expect);
    } else {
        if (r->expect > s->compact_to)
            s->compact_to = r->expect;
        while (r->rc == SW_OK && s->floor < r->expect)
            r->rc = compact_step(s, &r->err);
        r->revision = s->floor;
    }
    r->next = NULL;
    complete_all(r);
}

/* ---- the thread ---- */

/* Takes the next writes (or one compaction request) off the queue. */
static struct sw_store_request *take_locked(struct sw_store *s, size_t *ret_n)
{
    struct sw_store_request *head = s->queue_head;
    struct sw_store_request **end = &s->queue_head;
    size_t n = 0;

    while (*end && n < s->opts.max_batch) {
        bool compact = (*end)->verb == SW_STORE_COMPACT;

        if (compact && n)
            break;
        s->queue_bytes -= (*end)->bytes;
        end = &(*end)->next;
        n++;
        if (compact)
            break;
    }
    s->queue_n -= n;
    s->queue_head = *end;
    if (!s->queue_head)
        s->queue_tail = &s->queue_head;
    *end = NULL;
    *ret_n = n;
    return n ? head : NULL;
}

/* How long to sleep when nothing is queued. */
static uint64_t idle_ms(const struct sw_store *s)
{
    if (upkeep_waits(s))
        return (s->upkeep_retry_ns - sw_now_ns()) / SW_NS_PER_MS + 1;
    if (s->compact_to > s->floor)
        return 0;
    return sw_db_wal_pages(s->db) >= WAL_IDLE_PAGES ? IDLE_MS : s->opts.compact_every_ms;
}

/* Waits for work. *ret_n == 0 with true: a moment of peace for housekeeping; false: the end. */
static bool wait_work(struct sw_store *s, struct sw_store_request **ret, size_t *ret_n)
{
    uint64_t until = sw_now_ns() + idle_ms(s) * SW_NS_PER_MS;
    struct timespec ts = {.tv_sec = (time_t)(until / SW_NS_PER_S),
                          .tv_nsec = (long)(until % SW_NS_PER_S)};
    bool go_on;
    int rc = 0;

    (void)pthread_mutex_lock(&s->queue_lock);
    while (!s->queue_head && !s->closing && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&s->queue_wake, &s->queue_lock, &ts);
    *ret = take_locked(s, ret_n);
    go_on = *ret_n > 0 || !s->closing;
    (void)pthread_mutex_unlock(&s->queue_lock);
    return go_on;
}

static void checkpoint(struct sw_store *s, bool truncate)
{
    struct sw_err err;

    if (sw_db_checkpoint(s->db, truncate, &err) != SW_OK)
        upkeep_failed(s, "checkpoint", &err);
    else
        upkeep_worked(s, "checkpoint");
}

static void housekeeping(struct sw_store *s, bool idle)
{
    struct sw_err err;
    uint64_t pages = sw_db_wal_pages(s->db);

    compact_policy(s, s->opts.clock_ms());
    if (s->compact_to > s->floor && !upkeep_waits(s))
        (void)compact_step(s, &err);
    if ((pages >= WAL_BUSY_PAGES || (idle && pages >= WAL_IDLE_PAGES)) && !upkeep_waits(s))
        checkpoint(s, false);
    if (!s->opts.relaxed_sync)
        sw_db_prepare_log(s->db);
}

void *sw_store_writer_main(void *arg)
{
    struct sw_store *s = arg;
    struct sw_store_request *head;
    size_t n;

    s->compact_to = s->floor;
    while (wait_work(s, &head, &n)) {
        if (n && head->verb == SW_STORE_COMPACT)
            run_compact_request(s, head);
        else if (n)
            run_batch(s, head, n);
        housekeeping(s, n == 0);
    }
    checkpoint(s, true);
    return NULL;
}
