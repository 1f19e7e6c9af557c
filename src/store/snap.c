/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: snapshots of now and of the past, walking them. */
#include <assert.h>
#include <inttypes.h>

#include "base/mem.h"
#include "store/store_int.h"

enum { UNDO_CHUNK = 512 };

struct sw_store_snap *sw_store_snap_new(struct sw_tree *root, uint64_t revision)
{
    struct sw_store_snap *n = SW_NEW(struct sw_store_snap);

    atomic_init(&n->refs, 1);
    n->revision = revision;
    n->root = root;
    return n;
}

struct sw_store_snap *sw_store_snap_ref(struct sw_store_snap *n)
{
    (void)atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
    return n;
}

struct sw_store_snap *sw_store_snap_unref(struct sw_store_snap *n)
{
    if (n && atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel) == 1) {
        n->root = sw_tree_unref(n->root);
        sw_free(n);
    }
    return NULL;
}

uint64_t sw_store_snap_revision(const struct sw_store_snap *n)
{
    return n->revision;
}

struct sw_store_obj *sw_store_snap_get(const struct sw_store_snap *n, struct sw_slice key)
{
    return sw_tree_get(n->root, key);
}

size_t sw_store_snap_count(const struct sw_store_snap *n, struct sw_slice prefix,
                           struct sw_slice from)
{
    struct sw_slice start = sw_slice_cmp(from, prefix) > 0 ? from : prefix;
    size_t below = sw_tree_rank(n->root, start);
    size_t behind = sw_tree_rank_behind(n->root, prefix);

    return behind > below ? behind - below : 0;
}

struct sw_store_snap *sw_store_snapshot(struct sw_store *s)
{
    struct sw_store_snap *n;

    (void)pthread_mutex_lock(&s->lock);
    n = sw_store_snap_ref(s->snap);
    (void)pthread_mutex_unlock(&s->lock);
    return n;
}

struct sw_store_obj *sw_store_get(struct sw_store *s, struct sw_slice key)
{
    struct sw_store_snap *n = sw_store_snapshot(s);
    struct sw_store_obj *o = sw_store_snap_get(n, key);

    if (o)
        (void)sw_store_obj_ref(o);
    (void)sw_store_snap_unref(n);
    return o;
}

uint64_t sw_store_revision(struct sw_store *s)
{
    uint64_t r;

    (void)pthread_mutex_lock(&s->lock);
    r = s->snap->revision;
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}

/* ---- the past ---- */

/* The known state nearest above (or at) the revision; 0 events to undo when it is there. */
static struct sw_store_snap *nearest_locked(struct sw_store *s, uint64_t revision)
{
    struct sw_store_snap *best = s->snap;

    for (int i = 0; i < HISTORY_SNAPS; i++) {
        struct sw_store_snap *h = s->history[i];

        if (h && h->revision >= revision && h->revision < best->revision)
            best = h;
    }
    return sw_store_snap_ref(best);
}

static int pick_base(struct sw_store *s, uint64_t revision, struct sw_store_snap **ret,
                     struct sw_err *err)
{
    int rc = SW_OK;

    (void)pthread_mutex_lock(&s->lock);
    if (revision > s->snap->revision)
        rc = sw_err_set(err, SW_STORE_TOO_NEW,
                        "revision %" PRIu64 " has not happened yet, the newest is %" PRIu64,
                        revision, s->snap->revision);
    else if (revision < s->floor)
        rc = sw_err_set(err, SW_STORE_TOO_OLD,
                        "revision %" PRIu64 " is compacted, the oldest is %" PRIu64, revision,
                        s->floor);
    else
        *ret = nearest_locked(s, revision);
    (void)pthread_mutex_unlock(&s->lock);
    return rc;
}

/* References to the newest events in (revision, upto], newest last; false when compacted. */
static bool take_events(struct sw_store *s, uint64_t revision, uint64_t upto,
                        struct sw_store_event **out, size_t *ret_n)
{
    bool there;

    (void)pthread_mutex_lock(&s->lock);
    there = revision >= s->floor;
    if (there) {
        size_t first = sw_window_after(&s->window, revision);
        size_t end = sw_window_after(&s->window, upto);

        if (end - first > UNDO_CHUNK)
            first = end - UNDO_CHUNK;
        *ret_n = end - first;
        for (size_t i = first; i < end; i++)
            out[i - first] = sw_store_event_ref(sw_window_at(&s->window, i));
    }
    (void)pthread_mutex_unlock(&s->lock);
    return there;
}

static struct sw_tree *undo(struct sw_tree *t, const struct sw_store_event *e, uint64_t edit)
{
    if (e->type == SW_STORE_CREATED)
        return sw_tree_del(t, e->obj->key, edit);
    return sw_tree_put(t, e->prev, edit);
}

static void remember(struct sw_store *s, struct sw_store_snap *n)
{
    struct sw_store_snap *old;

    (void)pthread_mutex_lock(&s->lock);
    old = s->history[s->history_next];
    s->history[s->history_next] = sw_store_snap_ref(n);
    s->history_next = (s->history_next + 1) % HISTORY_SNAPS;
    (void)pthread_mutex_unlock(&s->lock);
    (void)sw_store_snap_unref(old);
}

int sw_store_snapshot_at(struct sw_store *s, uint64_t revision, struct sw_store_snap **ret,
                         struct sw_err *err)
{
    struct sw_store_event *events[UNDO_CHUNK];
    struct sw_store_snap *base = NULL;
    struct sw_tree *tree;
    uint64_t edit = atomic_fetch_add(&s->edits, 1);
    uint64_t upto;
    size_t n = 0;
    int rc = pick_base(s, revision, &base, err);

    if (rc != SW_OK || !base)
        return rc;
    if (base->revision == revision) {
        *ret = base;
        return SW_OK;
    }
    tree = sw_tree_ref(base->root);
    upto = base->revision;
    (void)sw_store_snap_unref(base);
    do {
        if (!take_events(s, revision, upto, events, &n)) {
            (void)sw_tree_unref(tree);
            return sw_err_set(err, SW_STORE_TOO_OLD, "revision %" PRIu64 " is compacted", revision);
        }
        for (size_t i = n; i > 0; i--) {
            tree = undo(tree, events[i - 1], edit);
            upto = events[i - 1]->revision - 1;
            (void)sw_store_event_unref(events[i - 1]);
        }
    } while (n == UNDO_CHUNK);
    *ret = sw_store_snap_new(tree, revision);
    remember(s, *ret);
    return SW_OK;
}

/* ---- walking ---- */

static void push(struct sw_store_iter *it, const struct sw_tree *t)
{
    assert(it->depth < SW_STORE_ITER_DEPTH);
    it->stack[it->depth++] = t;
}

void sw_store_iter_init(struct sw_store_iter *it, const struct sw_store_snap *n,
                        struct sw_slice prefix, struct sw_slice from)
{
    struct sw_slice start = sw_slice_cmp(from, prefix) > 0 ? from : prefix;
    const struct sw_tree *t = n->root;

    it->prefix = prefix;
    it->depth = 0;
    while (t) {
        if (sw_slice_cmp(t->obj->key, start) < 0) {
            t = t->kid[1];
        } else {
            push(it, t);
            t = t->kid[0];
        }
    }
}

struct sw_store_obj *sw_store_iter_next(struct sw_store_iter *it)
{
    const struct sw_tree *t;
    struct sw_store_obj *o;

    if (it->depth == 0)
        return NULL;
    t = it->stack[--it->depth];
    o = t->obj;
    if (!sw_slice_has_prefix(o->key, it->prefix)) {
        it->depth = 0;
        return NULL;
    }
    for (t = t->kid[1]; t; t = t->kid[0])
        push(it, t);
    return o;
}
