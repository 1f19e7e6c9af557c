/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: exactly once, in order, from the past into the present, paused, too late. */
#include "harness.h"

#include "base/rand.h"

enum { LOG_MAX = 4096 };

struct seen {
    struct sw_store_watch w;
    char log[LOG_MAX]; /* "C/a@1 U/a@2 ..." */
    size_t n;
    uint64_t last;
    int ended;
    size_t stop_after;   /* 0 = never */
    size_t pause_after;  /* 0 = never */
    struct seen *victim; /* stopped together with us */
};

static void on_event(struct sw_store_watch *w, struct sw_store_event *e, int rc)
{
    struct seen *s = SW_CONTAINER_OF(w, struct seen, w);
    size_t used = strlen(s->log);
    struct sw_slice key;

    if (!e) {
        s->ended = rc;
        return;
    }
    assert_int_equal(s->ended, 0);
    assert_true(e->revision > s->last);
    s->last = e->revision;
    s->n++;
    key = sw_store_event_key(e);
    if (used < LOG_MAX - 64)
        (void)snprintf(s->log + used, LOG_MAX - used, "%s%c%.*s@%llu", used ? " " : "",
                       "?CUD"[e->type], SW_SLICE_ARG(key), (unsigned long long)e -> revision);
    if (s->stop_after && s->n == s->stop_after) {
        if (s->victim)
            sw_store_watch_stop(&s->victim->w);
        sw_store_watch_stop(w);
    } else if (s->pause_after && s->n == s->pause_after) {
        sw_store_watch_pause(w);
    }
}

static void turn(struct fixture *f)
{
    for (int i = 0; i < 30; i++)
        sw_loop_turn(f->loop, 1);
}

static void start(struct sw_store_feed *feed, struct seen *s, const char *prefix, uint64_t revision)
{
    struct sw_err err = {0};

    if (sw_store_watch_start(feed, &s->w, sw_slice_str(prefix), revision, on_event, &err) != SW_OK)
        fail_msg("watch: %s", err.msg);
}

static void replays_the_past_then_follows(void **state)
{
    struct fixture *f = *state;
    struct sw_store_feed *feed;
    struct seen all = {0};
    struct seen a = {0};
    struct seen later = {0};

    open_store(f, NULL);
    (void)put(f, "/a/1", "x");
    (void)put(f, "/b/1", "x");
    (void)put(f, "/a/1", "y");
    close_store(f);
    open_store(f, NULL); /* the log survives a restart */
    feed = sw_store_feed_new(f->store, f->loop);
    start(feed, &all, "", 0);
    start(feed, &a, "/a/", 1);
    start(feed, &later, "/a/", 5);
    assert_int_equal(all.n, 0); /* nothing before the loop turns */
    turn(f);
    assert_string_equal(all.log, "C/a/1@1 C/b/1@2 U/a/1@3");
    assert_string_equal(a.log, "U/a/1@3");
    assert_int_equal(sw_store_watch_revision(&a.w), 3);
    (void)put(f, "/b/1", "z");
    (void)del(f, "/a/1");
    (void)put(f, "/a/1", "again");
    turn(f);
    assert_string_equal(all.log, "C/a/1@1 C/b/1@2 U/a/1@3 U/b/1@4 D/a/1@5 C/a/1@6");
    assert_string_equal(a.log, "U/a/1@3 D/a/1@5 C/a/1@6");
    assert_string_equal(later.log, "C/a/1@6");
    assert_int_equal(sw_store_watch_revision(&a.w), 6);
    (void)put(f, "/b/1", "w");
    turn(f);
    assert_int_equal(sw_store_watch_revision(&a.w), 7); /* a bookmark may say 7 */
    sw_store_watch_stop(&all.w);
    sw_store_watch_stop(&a.w);
    sw_store_watch_stop(&a.w);
    sw_store_watch_stop(&later.w);
    sw_store_feed_free(feed);
}

static void check_contents(struct sw_store_watch *w, struct sw_store_event *e, int rc)
{
    struct seen *s = SW_CONTAINER_OF(w, struct seen, w);

    assert_int_equal(rc, SW_OK);
    switch (++s->n) {
    case 1:
        assert_null(e->prev);
        assert_true(sw_slice_eq_str(e->obj->value, "v1"));
        break;
    case 2:
        assert_true(sw_slice_eq_str(e->prev->value, "v1"));
        assert_true(sw_slice_eq_str(e->obj->value, "v2"));
        break;
    case 3:
        assert_int_equal(e->type, SW_STORE_DELETED);
        assert_true(sw_slice_eq_str(e->prev->value, "v2"));
        assert_true(sw_slice_eq_str(e->obj->value, "final"));
        assert_int_equal(e->obj->revision, 3);
        assert_int_equal(e->obj->created, 1);
        break;
    default:
        assert_int_equal(e->type, e->revision == 4 ? SW_STORE_CREATED : SW_STORE_DELETED);
        assert_true(e->revision == 4 || !e->obj);
    }
}

static void events_carry_both_versions_also_after_a_restart(void **state)
{
    struct fixture *f = *state;

    open_store(f, NULL);
    (void)put(f, "k", "v1");
    (void)put(f, "k", "v2");
    assert_int_equal(do_write(f, SW_STORE_DELETE, "k", "final", 0).rc, SW_OK);
    (void)put(f, "k", "v3");
    (void)del(f, "k");
    for (int pass = 0; pass < 2; pass++) {
        struct sw_store_feed *feed = sw_store_feed_new(f->store, f->loop);
        struct seen s = {0};

        assert_int_equal(
            sw_store_watch_start(feed, &s.w, SW_SLICE_LIT("k"), 0, check_contents, NULL), SW_OK);
        turn(f);
        assert_int_equal(s.n, 5);
        sw_store_watch_stop(&s.w);
        sw_store_feed_free(feed);
        close_store(f);
        open_store(f, NULL);
    }
}

static void compaction_ends_only_those_who_need_what_is_gone(void **state)
{
    struct fixture *f = *state;
    struct sw_store_feed *feed;
    struct seen live = {0};
    struct seen slow = {.pause_after = 1};
    struct seen refused = {0};
    struct sw_err err;

    open_store(f, NULL);
    feed = sw_store_feed_new(f->store, f->loop);
    start(feed, &live, "", 0);
    start(feed, &slow, "", 0);
    for (int i = 0; i < 10; i++)
        (void)put(f, "k", "v");
    turn(f);
    assert_int_equal(live.n, 10);
    assert_int_equal(slow.n, 1);
    compact(f, 8);
    assert_int_equal(sw_store_watch_start(feed, &refused.w, SW_SLICE_LIT(""), 7, on_event, &err),
                     SW_STORE_TOO_OLD);
    (void)put(f, "k", "v");
    turn(f);
    assert_int_equal(live.n, 11);
    assert_int_equal(live.ended, 0);
    assert_int_equal(slow.ended, 0); /* it is told when it wants to go on */
    sw_store_watch_resume(&slow.w);
    turn(f);
    assert_int_equal(slow.n, 1);
    assert_int_equal(slow.ended, SW_STORE_TOO_OLD);
    assert_null(slow.w.feed);
    assert_int_equal(sw_store_watch_start(feed, &refused.w, SW_SLICE_LIT(""), 8, on_event, &err),
                     SW_OK);
    turn(f);
    assert_int_equal(refused.n, 3);
    sw_store_watch_stop(&refused.w);
    sw_store_watch_stop(&live.w);
    sw_store_feed_free(feed);
}

/* The loop sleeps through a compaction of events it has not seen: no gap may go unnoticed. */
static void a_sleeping_loop_notices_what_it_missed(void **state)
{
    struct fixture *f = *state;
    struct sw_loop *other = sw_loop_new(NULL);
    struct sw_store_feed *feed;
    struct seen s = {0};

    open_store(f, NULL);
    feed = sw_store_feed_new(f->store, other);
    start(feed, &s, "", 0);
    sw_loop_turn(other, 0);
    for (int i = 0; i < 10; i++)
        (void)put(f, "k", "v");
    compact(f, 5);
    for (int i = 0; i < 10; i++)
        sw_loop_turn(other, 1);
    assert_int_equal(s.n, 0);
    assert_int_equal(s.ended, SW_STORE_TOO_OLD);
    sw_store_feed_free(feed);
    sw_loop_free(other);
}

static void callbacks_may_stop_anyone(void **state)
{
    struct fixture *f = *state;
    struct sw_store_feed *feed;
    struct seen w[6] = {0};

    open_store(f, NULL);
    feed = sw_store_feed_new(f->store, f->loop);
    for (size_t i = 0; i < 6; i++)
        start(feed, &w[i], i % 2 ? "/a" : "/", 0);
    w[0].stop_after = 2;
    w[0].victim = &w[2];
    w[1].stop_after = 1;
    w[1].victim = &w[5];
    turn(f);
    for (int i = 0; i < 5; i++)
        (void)put(f, "/a", "v");
    turn(f);
    assert_int_equal(w[0].n, 2);
    assert_true(w[2].n == 1 || w[2].n == 2);
    assert_int_equal(w[1].n, 1);
    assert_true(w[5].n <= 1);
    assert_int_equal(w[3].n, 5);
    assert_int_equal(w[4].n, 5);
    sw_store_watch_stop(&w[3].w);
    sw_store_watch_stop(&w[4].w);
    sw_store_feed_free(feed);
}

/* Random pausing and resuming, far more events than one turn takes. */
static void nothing_is_lost_or_doubled_under_pauses(void **state)
{
    enum { WATCHES = 20, WRITES = 3000 };
    struct fixture *f = *state;
    struct sw_store_feed *feed;
    struct seen w[WATCHES] = {0};
    size_t want[2] = {0};
    size_t acked = 0;

    open_store(f, &(struct sw_store_opts){.relaxed_sync = true});
    feed = sw_store_feed_new(f->store, f->loop);
    for (size_t i = 0; i < WATCHES; i++)
        start(feed, &w[i], i % 2 ? "/odd/" : "/even/", 0);
    while (acked < WRITES) {
        size_t burst = 1 + sw_rand_below(600);
        struct done d = {0};

        for (size_t i = 0; i < burst; i++, acked++) {
            struct sw_store_write x = {.verb = SW_STORE_PUT, .value = SW_SLICE_LIT("v")};
            bool last = i + 1 == burst;

            x.key = acked % 2 ? SW_SLICE_LIT("/odd/x") : SW_SLICE_LIT("/even/x");
            want[acked % 2]++;
            x.loop = last ? f->loop : NULL;
            x.cb = last ? on_done : NULL;
            x.arg = &d;
            assert_int_equal(sw_store_submit(f->store, &x, NULL), SW_OK);
        }
        while (!d.is) {
            struct seen *s = &w[sw_rand_below(WATCHES)];

            sw_loop_turn(f->loop, 1);
            if (s->w.paused)
                sw_store_watch_resume(&s->w);
            else
                sw_store_watch_pause(&s->w);
        }
    }
    for (size_t i = 0; i < WATCHES; i++)
        sw_store_watch_resume(&w[i].w);
    for (int i = 0; i < 100; i++)
        sw_loop_turn(f->loop, 1);
    for (size_t i = 0; i < WATCHES; i++) {
        assert_int_equal(w[i].ended, 0);
        assert_int_equal(w[i].n, want[i % 2]);
        assert_int_equal(sw_store_watch_revision(&w[i].w), acked);
        sw_store_watch_stop(&w[i].w);
    }
    sw_store_feed_free(feed);
}

static void a_feed_may_go_while_a_wake_up_is_under_way(void **state)
{
    struct fixture *f = *state;

    open_store(f, &(struct sw_store_opts){.relaxed_sync = true});
    for (int i = 0; i < 50; i++) {
        struct sw_store_feed *feed = sw_store_feed_new(f->store, f->loop);
        struct sw_store_write x = {
            .verb = SW_STORE_PUT, .key = SW_SLICE_LIT("k"), .value = SW_SLICE_LIT("v")};

        assert_int_equal(sw_store_submit(f->store, &x, NULL), SW_OK);
        if (i % 2)
            (void)usleep(500);
        sw_store_feed_free(feed);
        if (i % 3 == 0)
            sw_loop_turn(f->loop, 0);
    }
    turn(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(replays_the_past_then_follows),
        FIXTURE_TEST(events_carry_both_versions_also_after_a_restart),
        FIXTURE_TEST(compaction_ends_only_those_who_need_what_is_gone),
        FIXTURE_TEST(a_sleeping_loop_notices_what_it_missed),
        FIXTURE_TEST(callbacks_may_stop_anyone),
        FIXTURE_TEST(nothing_is_lost_or_doubled_under_pauses),
        FIXTURE_TEST(a_feed_may_go_while_a_wake_up_is_under_way),
    };

    return cmocka_run_group_tests_name("store_watch", tests, NULL, NULL);
}
