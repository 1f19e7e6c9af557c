/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches. A feed follows the window on its loop; watches that are up to date hang in groups by
 * prefix and get each event as the feed sees it, those behind (new or resumed) replay the window on
 * their own until they have caught up. No watch has a queue: a watch whose client does not read is
 * paused and later served from the window, or ends when its changes are compacted.
 */
#include <assert.h>
#include <inttypes.h>

#include "base/mem.h"
#include "store/store_int.h"

enum { PUMP_EVENTS = 256 }; /* per turn of the loop, for the feed and for each watch behind */

struct sw_store_group {
    struct sw_list link;    /* in feed->groups */
    struct sw_list watches; /* up to date */
    size_t users;           /* all watches with this prefix */
    size_t n;
    char prefix[];
};

struct sw_store_feed {
    struct sw_list link;    /* in store->feeds, guarded by store->lock */
    struct sw_store *store; /* borrowed */
    struct sw_loop *loop;   /* borrowed */
    struct sw_msg msg;
    atomic_bool posted; /* msg is on its way */
    bool closing;
    bool pumping;
    uint64_t seen; /* every event up to here was given to the groups */
    struct sw_list groups;
    struct sw_list behind;
    struct sw_defer again;
    const struct sw_store_watch *current; /* replaying now; NULL when it was stopped or paused */
};

static struct sw_slice prefix_of(const struct sw_store_group *g)
{
    return sw_slice(g->prefix, g->n);
}

static struct sw_store_watch *watch_of(struct sw_list *l)
{
    return SW_CONTAINER_OF(l, struct sw_store_watch, link);
}

static struct sw_store_group *group_get(struct sw_store_feed *f, struct sw_slice prefix)
{
    struct sw_store_group *g;

    SW_LIST_FOREACH (it, &f->groups) {
        g = SW_CONTAINER_OF(it, struct sw_store_group, link);
        if (sw_slice_eq(prefix_of(g), prefix))
            return g;
    }
    g = sw_calloc(1, sizeof(*g) + prefix.n + 1);
    if (prefix.n)
        memcpy(g->prefix, prefix.p, prefix.n);
    g->n = prefix.n;
    sw_list_init(&g->watches);
    sw_list_push_back(&f->groups, &g->link);
    return g;
}

/* Frees unused groups; not while the pump walks over them. */
static void sweep(struct sw_store_feed *f)
{
    if (f->pumping)
        return;
    SW_LIST_EACH (struct sw_store_group, g, &f->groups, link) {
        if (g->users == 0) {
            sw_list_unlink(&g->link);
            sw_free(g);
        }
    }
}

/* ---- delivering ---- */

static void give_to_group(struct sw_store_group *g, struct sw_store_event *e)
{
    struct sw_list pending;
    struct sw_list *it;

    /* Callbacks may stop or pause any watch: each one leaves 'pending' before it is called. */
    sw_list_init(&pending);
    sw_list_splice(&pending, &g->watches);
    while ((it = sw_list_pop_front(&pending)) != NULL) {
        struct sw_store_watch *w = watch_of(it);

        sw_list_push_back(&g->watches, &w->link);
        if (e->revision < w->next)
            continue;
        w->next = e->revision + 1;
        w->cb(w, e, SW_OK);
    }
}

static void dispatch(struct sw_store_feed *f, struct sw_store_event *e)
{
    struct sw_slice key = sw_store_event_key(e);

    SW_LIST_EACH (struct sw_store_group, g, &f->groups, link) {
        if (sw_slice_has_prefix(key, prefix_of(g)))
            give_to_group(g, e);
    }
    f->seen = e->revision;
}

/* References to events in (after, upto]; false when some of them are compacted. */
static bool fetch(struct sw_store *s, uint64_t after, uint64_t upto, struct sw_store_event **out,
                  size_t *ret_n, uint64_t *ret_revision)
{
    bool there;

    (void)pthread_mutex_lock(&s->lock);
    there = after >= s->floor;
    *ret_n = 0;
    if (there) {
        for (size_t i = sw_window_after(&s->window, after);
             i < s->window.n && *ret_n < PUMP_EVENTS &&
             sw_window_at(&s->window, i)->revision <= upto;
             i++)
            out[(*ret_n)++] = sw_store_event_ref(sw_window_at(&s->window, i));
    }
    *ret_revision = s->snap->revision;
    (void)pthread_mutex_unlock(&s->lock);
    return there;
}

/* The loop slept while what it had not seen was compacted: every watch is on its own now. */
static void fall_behind(struct sw_store_feed *f, uint64_t revision)
{
    SW_LIST_EACH (struct sw_store_group, g, &f->groups, link) {
        SW_LIST_FOREACH (w, &g->watches) {
            if (watch_of(w)->next <= f->seen)
                watch_of(w)->next = f->seen + 1;
            watch_of(w)->live = false;
        }
        sw_list_splice(&f->behind, &g->watches);
    }
    f->seen = revision;
}

/* True when there may be more. */
static bool pump_feed(struct sw_store_feed *f)
{
    struct sw_store_event *events[PUMP_EVENTS];
    uint64_t revision;
    size_t n;

    if (!fetch(f->store, f->seen, UINT64_MAX, events, &n, &revision)) {
        fall_behind(f, revision);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        dispatch(f, events[i]);
        (void)sw_store_event_unref(events[i]);
    }
    if (n < PUMP_EVENTS)
        f->seen = revision; /* revisions may have gaps */
    return n == PUMP_EVENTS;
}

static void too_late(struct sw_store_watch *w)
{
    sw_store_watch_cb cb = w->cb;

    sw_store_watch_stop(w);
    cb(w, NULL, SW_STORE_TOO_OLD);
}

static void join_group(struct sw_store_watch *w)
{
    sw_list_unlink(&w->link);
    sw_list_push_back(&w->group->watches, &w->link);
    w->live = true;
}

/* Gives the watch a piece of the past; it joins its group when that was the last one. */
static void replay(struct sw_store_feed *f, struct sw_store_watch *w)
{
    struct sw_store_event *events[PUMP_EVENTS];
    struct sw_slice prefix = prefix_of(w->group);
    uint64_t revision;
    size_t n;

    if (w->next > f->seen) {
        join_group(w);
        return;
    }
    if (!fetch(f->store, w->next - 1, f->seen, events, &n, &revision)) {
        too_late(w);
        return;
    }
    f->current = w;
    for (size_t i = 0; i < n; i++) {
        if (f->current == w) {
            w->next = events[i]->revision + 1;
            if (sw_slice_has_prefix(sw_store_event_key(events[i]), prefix))
                w->cb(w, events[i], SW_OK);
        }
        (void)sw_store_event_unref(events[i]);
    }
    if (f->current == w && n < PUMP_EVENTS)
        join_group(w);
    f->current = NULL;
}

static void pump_behind(struct sw_store_feed *f)
{
    struct sw_list pending;
    struct sw_list *it;

    sw_list_init(&pending);
    sw_list_splice(&pending, &f->behind);
    while ((it = sw_list_pop_front(&pending)) != NULL) {
        sw_list_push_back(&f->behind, it);
        replay(f, watch_of(it));
    }
}

static void pump(struct sw_store_feed *f);

static void on_again(struct sw_defer *d)
{
    pump(SW_CONTAINER_OF(d, struct sw_store_feed, again));
}

static void pump(struct sw_store_feed *f)
{
    bool more;

    f->pumping = true;
    more = pump_feed(f);
    pump_behind(f);
    more |= !sw_list_empty(&f->behind);
    f->pumping = false;
    sweep(f);
    if (more)
        sw_loop_defer(f->loop, &f->again, on_again);
}

static void on_wake(struct sw_msg *m)
{
    struct sw_store_feed *f = SW_CONTAINER_OF(m, struct sw_store_feed, msg);

    atomic_store(&f->posted, false);
    if (f->closing)
        sw_free(f);
    else
        pump(f);
}

void sw_store_feeds_wake_locked(struct sw_store *s)
{
    SW_LIST_EACH (struct sw_store_feed, f, &s->feeds, link) {
        if (!atomic_exchange(&f->posted, true))
            sw_loop_post(f->loop, &f->msg);
    }
}

/* ---- feeds and watches ---- */

struct sw_store_feed *sw_store_feed_new(struct sw_store *s, struct sw_loop *loop)
{
    struct sw_store_feed *f = SW_NEW(struct sw_store_feed);

    f->store = s;
    f->loop = loop;
    f->msg.cb = on_wake;
    atomic_init(&f->posted, false);
    sw_list_init(&f->groups);
    sw_list_init(&f->behind);
    (void)pthread_mutex_lock(&s->lock);
    f->seen = s->snap->revision;
    sw_list_push_back(&s->feeds, &f->link);
    (void)pthread_mutex_unlock(&s->lock);
    return f;
}

void sw_store_feed_free(struct sw_store_feed *f)
{
    if (!f)
        return;
    assert(!f->pumping);
    sweep(f);
    assert(sw_list_empty(&f->groups));
    sw_defer_cancel(&f->again);
    (void)pthread_mutex_lock(&f->store->lock);
    sw_list_unlink(&f->link);
    (void)pthread_mutex_unlock(&f->store->lock);
    /* From here on no thread posts; a message under way frees the feed when it arrives. */
    f->closing = true;
    if (!atomic_load(&f->posted))
        sw_free(f);
}

static void go_behind(struct sw_store_watch *w)
{
    sw_list_push_back(&w->feed->behind, &w->link);
    sw_loop_defer(w->feed->loop, &w->feed->again, on_again);
}

int sw_store_watch_start(struct sw_store_feed *f, struct sw_store_watch *w, struct sw_slice prefix,
                         uint64_t revision, sw_store_watch_cb cb, struct sw_err *err)
{
    uint64_t floor;

    (void)pthread_mutex_lock(&f->store->lock);
    floor = f->store->floor;
    (void)pthread_mutex_unlock(&f->store->lock);
    if (revision < floor)
        return sw_err_set(err, SW_STORE_TOO_OLD,
                          "changes after revision %" PRIu64
                          " are compacted, the oldest is %" PRIu64,
                          revision, floor);
    *w = (struct sw_store_watch){.feed = f, .next = revision + 1, .cb = cb};
    w->group = group_get(f, prefix);
    w->group->users++;
    go_behind(w);
    return SW_OK;
}

void sw_store_watch_stop(struct sw_store_watch *w)
{
    struct sw_store_feed *f = w->feed;

    if (!f)
        return;
    if (f->current == w)
        f->current = NULL;
    sw_list_unlink(&w->link);
    w->group->users--;
    w->group = NULL;
    w->feed = NULL;
    sweep(f);
}

void sw_store_watch_pause(struct sw_store_watch *w)
{
    if (!w->feed || w->paused)
        return;
    w->next = sw_store_watch_revision(w) + 1;
    w->paused = true;
    w->live = false;
    if (w->feed->current == w)
        w->feed->current = NULL;
    sw_list_unlink(&w->link);
}

void sw_store_watch_resume(struct sw_store_watch *w)
{
    if (!w->feed || !w->paused)
        return;
    w->paused = false;
    go_behind(w);
}

uint64_t sw_store_watch_revision(const struct sw_store_watch *w)
{
    return w->live && w->feed && w->feed->seen >= w->next ? w->feed->seen : w->next - 1;
}
