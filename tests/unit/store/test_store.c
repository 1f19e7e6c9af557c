/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing: preconditions, revisions, snapshots, history, limits. */
#include "harness.h"

#include <pthread.h>

#include "base/rand.h"

static void writes_and_reads_back(void **state)
{
    struct fixture *f = *state;
    struct sw_store_obj *o;

    open_store(f, NULL);
    assert_int_equal(sw_store_revision(f->store), 0);
    assert_int_equal(put(f, "/a/1", "one"), 1);
    assert_int_equal(put(f, "/a/2", "two"), 2);
    assert_int_equal(put(f, "/a/1", "uno"), 3);
    o = sw_store_get(f->store, SW_SLICE_LIT("/a/1"));
    assert_true(sw_slice_eq_str(o->value, "uno"));
    assert_int_equal(o->revision, 3);
    assert_int_equal(o->created, 1);
    (void)sw_store_obj_unref(o);
    assert_null(sw_store_get(f->store, SW_SLICE_LIT("/a")));
    assert_int_equal(del(f, "/a/2"), 4);
    assert_null(sw_store_get(f->store, SW_SLICE_LIT("/a/2")));
    assert_int_equal(sw_store_revision(f->store), 4);
}

static void checks_preconditions(void **state)
{
    struct fixture *f = *state;
    struct done d;

    open_store(f, NULL);
    d = do_write(f, SW_STORE_CREATE, "k", "v1", 0);
    assert_int_equal(d.rc, SW_OK);
    assert_int_equal(d.revision, 1);
    assert_int_equal(d.there, 1);
    assert_int_equal(d.prev, 0);
    d = do_write(f, SW_STORE_CREATE, "k", "v2", 0);
    assert_int_equal(d.rc, SW_STORE_EXISTS);
    assert_int_equal(d.there, 1);
    d = do_write(f, SW_STORE_UPDATE, "k", "v2", 7);
    assert_int_equal(d.rc, SW_STORE_CONFLICT);
    assert_int_equal(d.there, 1);
    d = do_write(f, SW_STORE_UPDATE, "none", "v2", 0);
    assert_int_equal(d.rc, SW_ENOENT);
    d = do_write(f, SW_STORE_UPDATE, "k", "v2", 1);
    assert_int_equal(d.rc, SW_OK);
    assert_int_equal(d.revision, 2);
    assert_int_equal(d.prev, 1);
    d = do_write(f, SW_STORE_PUT, "none", "v", 5);
    assert_int_equal(d.rc, SW_STORE_CONFLICT);
    d = do_write(f, SW_STORE_DELETE, "k", NULL, 1);
    assert_int_equal(d.rc, SW_STORE_CONFLICT);
    d = do_write(f, SW_STORE_DELETE, "none", NULL, 0);
    assert_int_equal(d.rc, SW_ENOENT);
    d = do_write(f, SW_STORE_DELETE, "k", NULL, 2);
    assert_int_equal(d.rc, SW_OK);
    assert_int_equal(d.revision, 3);
    assert_int_equal(d.prev, 2);
    assert_int_equal(d.there, 0);
    /* Refused writes take no revision; a new life has a new creation. */
    d = do_write(f, SW_STORE_CREATE, "k", "v", 0);
    assert_int_equal(d.revision, 4);
}

static void refuses_bad_writes_at_the_door(void **state)
{
    struct fixture *f = *state;
    struct sw_store_opts opts = {.max_key = 4, .max_value = 5};
    struct sw_store_write w = {.verb = SW_STORE_PUT, .value = SW_SLICE_LIT("v")};
    struct sw_err err;

    open_store(f, &opts);
    assert_int_equal(sw_store_submit(f->store, &w, &err), SW_EINVAL);
    w.key = SW_SLICE_LIT("12345");
    assert_int_equal(sw_store_submit(f->store, &w, &err), SW_EINVAL);
    w.key = SW_SLICE_LIT("1234");
    w.value = SW_SLICE_LIT("123456");
    assert_int_equal(sw_store_submit(f->store, &w, &err), SW_EINVAL);
    w.value = sw_slice(NULL, 0);
    assert_int_equal(sw_store_submit(f->store, &w, &err), SW_EINVAL);
    assert_int_equal(do_write(f, SW_STORE_PUT, "1234", "", 0).rc, SW_OK);
}

static void lists_prefixes_in_order_and_pages(void **state)
{
    struct fixture *f = *state;
    struct sw_store_snap *n;
    char *page;

    open_store(f, NULL);
    (void)put(f, "/b/x", "1");
    (void)put(f, "/a/z", "2");
    (void)put(f, "/a/a", "3");
    (void)put(f, "/ab/a", "4");
    (void)put(f, "/a/m", "5");
    n = sw_store_snapshot(f->store);
    page = listing(n, "/a/", "");
    assert_string_equal(page, "/a/a=3@3 /a/m=5@5 /a/z=2@2");
    sw_free(page);
    page = listing(n, "/a/", "/a/m");
    assert_string_equal(page, "/a/m=5@5 /a/z=2@2");
    sw_free(page);
    page = listing(n, "/c", "");
    assert_string_equal(page, "");
    sw_free(page);
    page = listing(n, "", "");
    assert_string_equal(page, "/a/a=3@3 /a/m=5@5 /a/z=2@2 /ab/a=4@4 /b/x=1@1");
    sw_free(page);
    assert_int_equal(sw_store_snap_count(n, SW_SLICE_LIT("/a/"), SW_SLICE_LIT("")), 3);
    assert_int_equal(sw_store_snap_count(n, SW_SLICE_LIT("/a/"), sw_slice("/a/a", 5)), 2);
    assert_int_equal(sw_store_snap_count(n, SW_SLICE_LIT("/a/"), SW_SLICE_LIT("/zz")), 0);
    assert_int_equal(sw_store_snap_count(n, SW_SLICE_LIT(""), SW_SLICE_LIT("")), 5);
    assert_int_equal(sw_store_snap_count(n, SW_SLICE_LIT("/c"), SW_SLICE_LIT("")), 0);
    (void)sw_store_snap_unref(n);
}

static void snapshots_do_not_change(void **state)
{
    struct fixture *f = *state;
    struct sw_store_snap *then;

    open_store(f, NULL);
    (void)put(f, "a", "1");
    (void)put(f, "b", "1");
    then = sw_store_snapshot(f->store);
    (void)put(f, "a", "2");
    (void)del(f, "b");
    (void)put(f, "c", "1");
    assert_int_equal(sw_store_snap_revision(then), 2);
    assert_listing(then, "", "a=1@1 b=1@2");
    assert_listing(sw_store_snapshot(f->store), "", "a=2@3 c=1@5");
    then = sw_store_snapshot(f->store);
    close_store(f);
    assert_listing(then, "", "a=2@3 c=1@5"); /* outlives the store */
}

static void history_is_readable_down_to_the_floor(void **state)
{
    struct fixture *f = *state;
    struct sw_store_snap *n;
    struct sw_err err;

    open_store(f, NULL);
    (void)put(f, "a", "1");
    (void)put(f, "b", "1");
    (void)put(f, "a", "2");
    (void)del(f, "b");
    (void)put(f, "b", "2");
    static const char *const want[] = {"",      "a=1@1",      "a=1@1 b=1@2", "a=2@3 b=1@2",
                                       "a=2@3", "a=2@3 b=2@5"};
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 5; i >= 0; i--) {
            assert_int_equal(sw_store_snapshot_at(f->store, (uint64_t)i, &n, &err), SW_OK);
            assert_int_equal(sw_store_snap_revision(n), i);
            assert_listing(n, "", want[i]);
        }
        close_store(f); /* and it survives a restart */
        open_store(f, NULL);
    }
    assert_int_equal(sw_store_snapshot_at(f->store, 6, &n, &err), SW_STORE_TOO_NEW);
    compact(f, 3);
    assert_int_equal(sw_store_snapshot_at(f->store, 2, &n, &err), SW_STORE_TOO_OLD);
    assert_int_equal(sw_store_snapshot_at(f->store, 3, &n, &err), SW_OK);
    assert_listing(n, "", want[3]);
    close_store(f);
    open_store(f, NULL);
    assert_int_equal(sw_store_snapshot_at(f->store, 2, &n, &err), SW_STORE_TOO_OLD);
    assert_int_equal(sw_store_snapshot_at(f->store, 3, &n, &err), SW_OK);
    assert_listing(n, "", want[3]);
    assert_int_equal(sw_store_snapshot_at(f->store, 4, &n, &err), SW_OK);
    assert_listing(n, "", want[4]);
}

static void revisions_continue_after_compaction_and_restart(void **state)
{
    struct fixture *f = *state;
    struct sw_store_stats st;

    open_store(f, NULL);
    (void)put(f, "a", "1");
    (void)put(f, "b", "1");
    (void)del(f, "b");
    compact(f, 3); /* the last row is a deletion and goes away */
    close_store(f);
    open_store(f, NULL);
    assert_int_equal(sw_store_revision(f->store), 3);
    sw_store_stats(f->store, &st);
    assert_int_equal(st.floor, 3);
    assert_int_equal(st.objects, 1);
    assert_int_equal(st.events, 0);
    assert_int_equal(put(f, "c", "1"), 4);
    compact(f, 1); /* below the floor: nothing to do */
    assert_int_equal(do_write(f, SW_STORE_COMPACT, NULL, NULL, 99).rc, SW_STORE_TOO_NEW);
}

static atomic_ullong fake_ms;

static uint64_t fake_clock(void)
{
    return fake_ms;
}

static void compacts_by_age_and_by_count(void **state)
{
    struct fixture *f = *state;
    struct sw_store_opts opts = {.keep_events = 10,
                                 .keep_ms = 1000,
                                 .max_events = 40,
                                 .compact_every_ms = 100,
                                 .clock_ms = fake_clock};
    struct sw_store_stats st;

    fake_ms = 1000000;
    open_store(f, &opts);
    for (int i = 0; i < 30; i++)
        (void)put(f, "k", "v");
    sw_store_stats(f->store, &st);
    assert_int_equal(st.floor, 0); /* young */
    fake_ms += 1001 + 100;
    (void)put(f, "k", "v");
    (void)put(f, "k", "v"); /* housekeeping of the first is done when the second is */
    sw_store_stats(f->store, &st);
    /* Old, but ten stay (of 30 or of 31: the writer may have looked before the last one). */
    assert_true(st.floor == 20 || st.floor == 21);
    assert_int_equal(st.events, 32 - st.floor);
    for (int i = 0; i < 40; i++)
        (void)put(f, "k", "v");
    sw_store_stats(f->store, &st);
    assert_true(st.events <= 41); /* young, but too many */
    assert_true(st.events >= 35);
    assert_int_equal(st.revision, 72);
}

/* Large objects: what is old is kept up to a size, what is young up to a larger one. */
static void compacts_by_bytes(void **state)
{
    struct fixture *f = *state;
    struct sw_store_opts opts = {.keep_ms = 1000,
                                 .keep_bytes = 50000,
                                 .max_bytes = 400000,
                                 .compact_every_ms = 100,
                                 .clock_ms = fake_clock};
    char value[10001] = "";
    struct sw_store_stats st;

    memset(value, 'v', sizeof(value) - 1);
    fake_ms = 1000000;
    open_store(f, &opts);
    for (int i = 0; i < 30; i++)
        (void)put(f, "k", value);
    sw_store_stats(f->store, &st);
    assert_int_equal(st.floor, 0); /* young */
    assert_true(st.event_bytes > 300000);
    for (int i = 0; i < 100; i++)
        (void)put(f, "k", value);
    sw_store_stats(f->store, &st);
    assert_true(st.floor > 0); /* young, but too large together */
    assert_true(st.event_bytes <= 410500);
    assert_true(st.event_bytes > 300000);
    fake_ms += 1001 + 100;
    (void)put(f, "k", "v");
    (void)put(f, "k", "v"); /* housekeeping of the first is done when the second is */
    sw_store_stats(f->store, &st);
    assert_true(st.event_bytes <= 50000); /* far fewer than keep_events */
    assert_true(st.events >= 4);
    sw_store_close(f->store);
    f->store = NULL;
    open_store(f, &opts); /* counted again from the file */
    sw_store_stats(f->store, &st);
    assert_true(st.event_bytes <= 50000 && st.event_bytes > 20000);
}

/* Random writes against a plain array, with history, compaction and restarts between. */
static void agrees_with_a_simple_model(void **state)
{
    enum { KEYS = 40, ROUNDS = 1500 };
    struct fixture *f = *state;
    static int model[ROUNDS + 1][KEYS]; /* value per revision; 0 = none */
    uint64_t rev = 0;
    uint64_t floor = 0;

    memset(model, 0, sizeof(model));
    open_store(f, &(struct sw_store_opts){.relaxed_sync = true});
    for (int i = 0; i < ROUNDS; i++) {
        unsigned k = (unsigned)sw_rand_below(KEYS);
        char key[16];
        char value[16];
        struct done d;

        (void)snprintf(key, sizeof(key), "key%02u", k);
        (void)snprintf(value, sizeof(value), "%d", i + 1);
        if (sw_rand_below(3) == 0) {
            d = do_write(f, SW_STORE_DELETE, key, NULL, 0);
            assert_int_equal(d.rc, model[rev][k] ? SW_OK : SW_ENOENT);
        } else {
            d = do_write(f, SW_STORE_PUT, key, value, 0);
            assert_int_equal(d.rc, SW_OK);
        }
        if (d.rc == SW_OK) {
            assert_int_equal(d.revision, rev + 1);
            memcpy(model[rev + 1], model[rev], sizeof(model[0]));
            rev++;
            model[rev][k] = d.there ? i + 1 : 0;
        }
        if (i % 400 == 399) {
            floor = floor + sw_rand_below(rev - floor + 1);
            compact(f, floor);
        }
        if (i % 300 == 299) {
            close_store(f);
            open_store(f, &(struct sw_store_opts){.relaxed_sync = true});
        }
        if (i % 50 == 49) {
            uint64_t at = floor + sw_rand_below(rev - floor + 1);
            struct sw_store_snap *n;
            size_t live = 0;

            assert_int_equal(sw_store_snapshot_at(f->store, at, &n, NULL), SW_OK);
            for (unsigned j = 0; j < KEYS; j++) {
                struct sw_store_obj *o;

                (void)snprintf(key, sizeof(key), "key%02u", j);
                o = sw_store_snap_get(n, sw_slice_str(key));
                assert_int_equal(o != NULL, model[at][j] != 0);
                live += o != NULL;
                if (o) {
                    (void)snprintf(value, sizeof(value), "%d", model[at][j]);
                    assert_true(sw_slice_eq_str(o->value, value));
                }
            }
            assert_int_equal(sw_store_snap_count(n, SW_SLICE_LIT("key"), SW_SLICE_LIT("")), live);
            (void)sw_store_snap_unref(n);
        }
    }
}

struct counter {
    size_t n;
    uint64_t last;
};

static void count_in_order(void *arg, const struct sw_store_result *r)
{
    struct counter *c = arg;

    assert_int_equal(r->rc, SW_OK);
    assert_true(r->revision > c->last);
    c->last = r->revision;
    c->n++;
}

static size_t submit_many(struct fixture *f, size_t n, struct counter *c)
{
    size_t taken = 0;

    for (size_t i = 0; i < n; i++) {
        char key[40];
        struct sw_store_write w = {.verb = SW_STORE_CREATE,
                                   .value = SW_SLICE_LIT("{\"some\":\"value\"}"),
                                   .loop = f->loop,
                                   .cb = count_in_order,
                                   .arg = c};

        (void)snprintf(key, sizeof(key), "/many/%06zu", i);
        w.key = sw_slice_str(key);
        taken += sw_store_submit(f->store, &w, NULL) == SW_OK;
    }
    return taken;
}

static void commits_in_groups_and_takes_ten_thousand(void **state)
{
    struct fixture *f = *state;
    struct sw_store_opts opts = {.max_queue = 20000};
    struct counter c = {0};
    struct sw_store_stats st;

    open_store(f, &opts);
    assert_int_equal(submit_many(f, 10000, &c), 10000);
    while (c.n < 10000)
        sw_loop_turn(f->loop, 1000);
    sw_store_stats(f->store, &st);
    assert_int_equal(st.objects, 10000);
    assert_int_equal(st.writes, 10000);
    assert_true(st.commits < 1000);
    assert_true(st.largest_batch > 1);
    assert_true(st.largest_batch <= 512);
    close_store(f);
    open_store(f, NULL);
    sw_store_stats(f->store, &st);
    assert_int_equal(st.objects, 10000);
    assert_int_equal(st.revision, 10000);
}

static void bounds_its_queue(void **state)
{
    struct fixture *f = *state;
    struct sw_store_opts opts = {.max_queue = 8};
    struct counter c = {0};
    struct sw_store_stats st;
    size_t taken;

    open_store(f, &opts);
    taken = submit_many(f, 2000, &c);
    assert_true(taken < 2000);
    while (c.n < taken)
        sw_loop_turn(f->loop, 1000);
    sw_store_stats(f->store, &st);
    assert_int_equal(st.refused, 2000 - taken);
    assert_int_equal(st.revision, taken);
}

static void closing_commits_what_is_queued(void **state)
{
    struct fixture *f = *state;
    struct counter c = {0};
    size_t taken;

    open_store(f, NULL);
    taken = submit_many(f, 1000, &c);
    close_store(f);
    while (c.n < taken)
        sw_loop_turn(f->loop, 1000);
    open_store(f, NULL);
    assert_int_equal(sw_store_revision(f->store), taken);
}

struct reader {
    struct sw_store *store;
    atomic_bool *stop;
    uint64_t rounds;
    pthread_t thread;
};

/* Writers keep "/pair/a" and "/pair/b" at most one step apart; history must agree too. */
static void *read_all_the_time(void *arg)
{
    struct reader *r = arg;
    uint64_t last = 0;

    while (!atomic_load(r->stop)) {
        struct sw_store_snap *n = sw_store_snapshot(r->store);
        uint64_t rev = sw_store_snap_revision(n);
        struct sw_store_iter it;
        struct sw_store_obj *o;
        size_t seen = 0;
        struct sw_store_snap *past;

        assert_true(rev >= last);
        last = rev;
        sw_store_iter_init(&it, n, SW_SLICE_LIT("/obj/"), SW_SLICE_LIT(""));
        while ((o = sw_store_iter_next(&it)) != NULL) {
            assert_true(o->revision <= rev);
            seen++;
        }
        assert_int_equal(seen, sw_store_snap_count(n, SW_SLICE_LIT("/obj/"), SW_SLICE_LIT("")));
        (void)sw_store_snap_unref(n);
        if (rev > 20 && sw_store_snapshot_at(r->store, rev - 20, &past, NULL) == SW_OK) {
            assert_int_equal(sw_store_snap_revision(past), rev - 20);
            (void)sw_store_snap_unref(past);
        }
        r->rounds++;
    }
    return NULL;
}

static void readers_run_beside_the_writer(void **state)
{
    struct fixture *f = *state;
    struct reader readers[3];
    atomic_bool stop = false;

    open_store(f, &(struct sw_store_opts){.keep_events = 100, .keep_ms = 1, .compact_every_ms = 5});
    for (size_t i = 0; i < SW_ARRAY_LEN(readers); i++) {
        readers[i] = (struct reader){.store = f->store, .stop = &stop};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_all_the_time, &readers[i]),
                         0);
    }
    for (int i = 0; i < 600; i++) {
        char key[40];

        (void)snprintf(key, sizeof(key), "/obj/%d", (int)sw_rand_below(50));
        if (i % 5 == 4)
            (void)do_write(f, SW_STORE_DELETE, key, NULL, 0);
        else
            (void)put(f, key, "value");
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < SW_ARRAY_LEN(readers); i++) {
        assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
        assert_true(readers[i].rounds > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(writes_and_reads_back),
        FIXTURE_TEST(checks_preconditions),
        FIXTURE_TEST(refuses_bad_writes_at_the_door),
        FIXTURE_TEST(lists_prefixes_in_order_and_pages),
        FIXTURE_TEST(snapshots_do_not_change),
        FIXTURE_TEST(history_is_readable_down_to_the_floor),
        FIXTURE_TEST(revisions_continue_after_compaction_and_restart),
        FIXTURE_TEST(compacts_by_age_and_by_count),
        FIXTURE_TEST(compacts_by_bytes),
        FIXTURE_TEST(agrees_with_a_simple_model),
        FIXTURE_TEST(commits_in_groups_and_takes_ten_thousand),
        FIXTURE_TEST(bounds_its_queue),
        FIXTURE_TEST(closing_commits_what_is_queued),
        FIXTURE_TEST(readers_run_beside_the_writer),
    };

    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
