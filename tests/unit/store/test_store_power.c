/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the power away at random operations of the disk below SQLite (power.h): whatever was
 * acknowledged is there afterwards, and no revision is given out twice. The same with syncs
 * that fail while the power stays.
 */
#include "harness.h"

#include "base/rand.h"
#include "power.h"
#include "store/db.h"

enum { ROUNDS = 1000, FAULT_ROUNDS = 200, KEYS = 40, OUTSTANDING = 24, REVISIONS = 400000 };

struct model {
    uint64_t revision[KEYS];   /* of the last acknowledged write */
    uint32_t value[KEYS];      /* 0 = deleted */
    uint32_t last_value;       /* counts up: a value belongs to one write */
    uint32_t given[REVISIONS]; /* which write a revision was acknowledged for */
    uint64_t highest;
    size_t acks;
    size_t refused;
    int outstanding;
};

struct attempt {
    struct model *m;
    uint32_t key;
    uint32_t value;
    bool deletes;
};

static void on_result(void *arg, const struct sw_store_result *r)
{
    struct attempt *a = arg;
    struct model *m = a->m;

    m->outstanding--;
    if (r->rc == SW_OK) {
        assert_true(r->revision > m->highest);
        assert_true(r->revision < REVISIONS);
        assert_int_equal(m->given[r->revision], 0);
        m->given[r->revision] = a->value;
        m->highest = r->revision;
        m->revision[a->key] = r->revision;
        m->value[a->key] = a->deletes ? 0 : a->value;
        m->acks++;
    } else {
        m->refused++;
    }
    sw_free(a);
}

/* Large values fill the log, so that it is moved into the file under way. */
static void submit(struct fixture *f, struct model *m, bool large, bool deletes)
{
    struct attempt *a = SW_NEW(struct attempt);
    static char text[40000];
    char key[16];
    struct sw_store_write w = {.loop = f->loop, .cb = on_result, .arg = a};

    *a = (struct attempt){.m = m,
                          .key = (uint32_t)sw_rand_below(KEYS),
                          .value = ++m->last_value,
                          .deletes = deletes && sw_rand_below(5) == 0};
    (void)snprintf(key, sizeof(key), "k%u", a->key);
    memset(text, '.', sizeof(text));
    (void)snprintf(text, sizeof(text), "%u", a->value);
    w.key = sw_slice_str(key);
    w.verb = a->deletes ? SW_STORE_DELETE : SW_STORE_PUT;
    if (!a->deletes)
        w.value = sw_slice(text, large ? 16 + sw_rand_below(sizeof(text) - 16) : 300);
    assert_int_equal(sw_store_submit(f->store, &w, NULL), SW_OK);
    m->outstanding++;
}

static void write_until_dark(struct fixture *f, struct model *m, size_t writes, bool deletes)
{
    bool large = sw_rand_below(2) == 0;
    size_t refused = m->refused;

    for (size_t i = 0; i < writes && m->refused == refused;) {
        while (m->outstanding < OUTSTANDING && i++ < writes)
            submit(f, m, large, deletes);
        sw_loop_turn(f->loop, 1000);
    }
    while (m->outstanding > 0)
        sw_loop_turn(f->loop, 1000);
}

/* A key holds its last acknowledged write, or a later one that was never acknowledged. */
static void compare(struct fixture *f, struct model *m, bool deletes)
{
    struct sw_store_snap *n = sw_store_snapshot(f->store);
    uint64_t now = sw_store_revision(f->store);

    assert_true(now >= m->highest);
    for (uint32_t k = 0; k < KEYS; k++) {
        char key[16];
        struct sw_store_obj *o;
        uint32_t value;

        (void)snprintf(key, sizeof(key), "k%u", k);
        o = sw_store_snap_get(n, sw_slice_str(key));
        value = o ? (uint32_t)strtoul(o->value.p, NULL, 10) : 0;
        if (o && o->revision <= m->highest) {
            assert_int_equal(o->revision, m->revision[k]);
            assert_int_equal(value, m->value[k]);
        } else if (!o) {
            assert_true(m->value[k] == 0 || (deletes && now > m->highest));
        }
        m->revision[k] = o ? o->revision : 0;
        m->value[k] = value;
    }
    m->highest = now;
    (void)sw_store_snap_unref(n);
}

static void check(struct fixture *f)
{
    struct sw_store_report report;
    struct sw_err err = {0};

    if (sw_store_check(f->path, &report, &err) != SW_OK)
        fail_msg("check: %s", err.msg);
}

static struct sw_store *try_open(struct fixture *f)
{
    /* Small windows, so that compaction is under way too. */
    struct sw_store_opts opts = {.keep_events = 50,
                                 .keep_ms = 1,
                                 .compact_every_ms = 2,
                                 .max_events = 200,
                                 .skip_check = true};

    return sw_store_open(f->path, &opts, NULL);
}

/* What the disk holds once the power is back; what was in memory is gone. */
static void lose_power(struct fixture *f)
{
    char name[128];

    power_lose();
    (void)snprintf(name, sizeof(name), "%s-shm", f->path);
    (void)unlink(name);
    (void)snprintf(name, sizeof(name), "%s.new", f->path);
    sw_db_remove_side_files(name); /* of a creation: only what was renamed counts */
    (void)unlink(name);
}

static void rounds(struct fixture *f, struct model *m, int n, uint32_t sync_fails)
{
    for (int i = 0; i < n; i++) {
        bool deletes = i % 2 == 0;

        power_sync_fails(sync_fails);
        power_lasts(1 + sw_rand_below(sw_rand_below(4) ? 600 : 6000));
        f->store = try_open(f);
        if (f->store)
            write_until_dark(f, m, 20 + sw_rand_below(100), deletes);
        close_store(f);
        lose_power(f);
        power_lasts(0);
        power_sync_fails(0);
        if (access(f->path, F_OK) != 0)
            continue; /* not created yet */
        check(f);
        f->store = try_open(f);
        assert_non_null(f->store);
        compare(f, m, deletes);
        close_store(f);
    }
    lose_power(f);
}

static void acknowledged_writes_survive_power_loss(void **state)
{
    struct fixture *f = *state;
    struct model *m = SW_NEW(struct model);
    struct power_counts c;

    rounds(f, m, ROUNDS, 0);
    c = power_counts();
    print_message(
        "# %d times: %zu acknowledged, %zu refused, %llu syncs, sectors never synced: %llu "
        "lost, %llu kept; %llu truncations and removals undone\n",
        (int)ROUNDS, m->acks, m->refused, (unsigned long long)c.syncs,
        (unsigned long long)c.lost_sectors, (unsigned long long)c.kept_sectors,
        (unsigned long long)c.undone);
    assert_true(m->acks > ROUNDS);
    assert_true(m->refused > ROUNDS / 10);
    assert_true(c.lost_sectors > ROUNDS);
    assert_true(c.kept_sectors > ROUNDS);
    sw_free(m);
}

static void a_sync_that_fails_acknowledges_nothing(void **state)
{
    struct fixture *f = *state;
    struct model *m = SW_NEW(struct model);
    uint64_t before = power_counts().failed_syncs;

    rounds(f, m, FAULT_ROUNDS, 8);
    assert_true(power_counts().failed_syncs > before + FAULT_ROUNDS / 4);
    assert_true(m->acks > FAULT_ROUNDS);
    sw_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(acknowledged_writes_survive_power_loss),
        FIXTURE_TEST(a_sync_that_fails_acknowledges_nothing),
    };

    /* Every store begins with 4 MiB of log: in memory where there is a place for it. */
    if (access("/dev/shm", W_OK) == 0)
        assert_int_equal(setenv("TMPDIR", "/dev/shm", 0), 0);
    power_install();
    return cmocka_run_group_tests_name("store_power", tests, NULL, NULL);
}
