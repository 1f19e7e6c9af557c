/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kills a writing child with SIGKILL at random moments: every write it was told is durable must
 * be there afterwards, none twice, and revisions go on above all of them. Also a full disk.
 */
#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/rand.h"

enum { ROUNDS = 50, KEYS = 200, OUTSTANDING = 32, ROUND_VALUES = 1000000 };

/* What the child says through the pipe for each acknowledged write. */
struct ack {
    uint64_t revision;
    uint32_t key;
    uint32_t value; /* 0 = deleted */
};

/* Every other round only writes: then nothing that was acknowledged may be missing. */
static bool deleting(uint32_t value)
{
    return value / ROUND_VALUES % 2 == 0;
}

struct child_write {
    int fd;
    struct ack ack;
    int *outstanding;
};

static void report(void *arg, const struct sw_store_result *r)
{
    struct child_write *w = arg;

    if (r->rc == SW_OK) {
        w->ack.revision = r->revision;
        if (write(w->fd, &w->ack, sizeof(w->ack)) != (ssize_t)sizeof(w->ack))
            _exit(3);
    }
    (*w->outstanding)--;
    sw_free(w);
}

static void child_submit(struct sw_store *s, struct sw_loop *loop, int fd, uint32_t value,
                         int *outstanding)
{
    struct child_write *w = SW_NEW(struct child_write);
    char key[16];
    char text[300];
    struct sw_store_write x = {.loop = loop, .cb = report, .arg = w};

    w->fd = fd;
    w->outstanding = outstanding;
    w->ack.key = (uint32_t)sw_rand_below(KEYS);
    w->ack.value = !deleting(value) || sw_rand_below(5) ? value : 0;
    (void)snprintf(key, sizeof(key), "k%u", w->ack.key);
    memset(text, '.', sizeof(text));
    (void)snprintf(text, sizeof(text), "%u", value);
    x.key = sw_slice_str(key);
    x.verb = w->ack.value ? SW_STORE_PUT : SW_STORE_DELETE;
    if (w->ack.value)
        x.value = sw_slice(text, sizeof(text));
    if (sw_store_submit(s, &x, NULL) != SW_OK)
        _exit(4);
    (*outstanding)++;
}

static void child_main(const char *path, int fd, uint32_t seed)
{
    /* Small windows, so that compaction and checkpoints are under fire too. */
    struct sw_store_opts opts = {
        .keep_events = 100, .keep_ms = 1, .compact_every_ms = 3, .max_events = 400};
    struct sw_err err = {0};
    struct sw_store *s = sw_store_open(path, &opts, &err);
    struct sw_loop *loop = sw_loop_new(NULL);
    int outstanding = 0;
    uint32_t value = seed;

    if (!s || !loop) {
        (void)fprintf(stderr, "child: %s\n", err.msg);
        _exit(2);
    }
    for (;;) {
        while (outstanding < OUTSTANDING)
            child_submit(s, loop, fd, value++, &outstanding);
        sw_loop_turn(loop, 100);
    }
}

struct model {
    uint64_t revision[KEYS]; /* of the last acknowledged write */
    uint32_t value[KEYS];
    uint64_t highest;
    size_t acks;
};

static void drain(int fd, struct model *m)
{
    struct ack a;
    ssize_t n;

    while ((n = read(fd, &a, sizeof(a))) == (ssize_t)sizeof(a)) {
        assert_true(a.revision > m->highest); /* in order, never twice */
        m->highest = a.revision;
        m->revision[a.key] = a.revision;
        m->value[a.key] = a.value;
        m->acks++;
    }
    assert_int_equal(n, 0);
}

static void run_and_kill(struct fixture *f, struct model *m, uint32_t seed)
{
    int fds[2];
    int status;
    pid_t pid;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(fds[0]);
        child_main(f->path, fds[1], seed);
    }
    (void)close(fds[1]);
    /* The pipe holds 64 KiB, 4096 acknowledgements: read what comes until the time is up. */
    struct ack a;
    size_t first = 1 + sw_rand_below(800);
    for (size_t i = 0; i < first && read(fds[0], &a, sizeof(a)) == (ssize_t)sizeof(a); i++) {
        assert_true(a.revision > m->highest);
        m->highest = a.revision;
        m->revision[a.key] = a.revision;
        m->value[a.key] = a.value;
        m->acks++;
    }
    (void)usleep((useconds_t)sw_rand_below(3000));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    drain(fds[0], m);
    (void)close(fds[0]);
}

/* A key holds its last acknowledged write, or a later one whose answer got lost. */
static void compare(struct fixture *f, struct model *m, bool deletes)
{
    uint64_t now = sw_store_revision(f->store);
    struct sw_store_snap *n = sw_store_snapshot(f->store);

    assert_true(now >= m->highest);
    for (uint32_t k = 0; k < KEYS; k++) {
        char key[16];
        struct sw_store_obj *o;

        (void)snprintf(key, sizeof(key), "k%u", k);
        o = sw_store_snap_get(n, sw_slice_str(key));
        if (o && o->revision > m->highest)
            continue; /* committed, never acknowledged */
        if (!o) {
            /* Deleted by an acknowledged write, or by one after the last acknowledged. */
            assert_true(m->value[k] == 0 || (deletes && now > m->highest));
            continue;
        }
        assert_int_equal(o->revision, m->revision[k]);
        assert_int_equal(strtoul(o->value.p, NULL, 10), m->value[k]);
    }
    (void)sw_store_snap_unref(n);
    m->highest = now;
    for (uint32_t k = 0; k < KEYS; k++) {
        char key[16];
        struct sw_store_obj *o;

        (void)snprintf(key, sizeof(key), "k%u", k);
        o = sw_store_get(f->store, sw_slice_str(key));
        m->revision[k] = o ? o->revision : 0;
        m->value[k] = o ? (uint32_t)strtoul(o->value.p, NULL, 10) : 0;
        (void)sw_store_obj_unref(o);
    }
}

static void acknowledged_writes_survive_kill(void **state)
{
    struct fixture *f = *state;
    struct model m = {0};
    struct sw_store_report report_;
    struct sw_err err;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        run_and_kill(f, &m, round * ROUND_VALUES + 1);
        if (sw_store_check(f->path, &report_, &err) != SW_OK)
            fail_msg("check: %s", err.msg);
        open_store(f, NULL);
        compare(f, &m, deleting(round * ROUND_VALUES));
        close_store(f);
    }
    assert_true(m.acks > ROUNDS);
}

/* A file that may not grow stands for a full disk: SQLite sees short writes either way. */
static void a_full_disk_is_reported_and_survived(void **state)
{
    struct fixture *f = *state;
    struct rlimit old;
    struct rlimit small = {.rlim_cur = UINT64_C(300) * 1024};
    struct done d;
    uint64_t last = 0;
    int good = 0;
    static char value[20001];

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    (void)signal(SIGXFSZ, SIG_IGN);
    memset(value, 'x', sizeof(value) - 1);
    open_store(f, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    do {
        char key[16];

        (void)snprintf(key, sizeof(key), "k%d", good);
        d = do_write(f, SW_STORE_CREATE, key, value, 0);
        if (d.rc == SW_OK) {
            assert_true(d.revision > last);
            last = d.revision;
            good++;
        }
    } while (d.rc == SW_OK && good < 1000);
    assert_int_equal(d.rc, SW_ESYS);
    assert_true(strlen(d.msg) > 0);
    /* Reads go on and show only what was acknowledged. */
    assert_int_equal(sw_store_revision(f->store), last);
    struct sw_store_snap *n = sw_store_snapshot(f->store);
    assert_int_equal(sw_store_snap_count(n, SW_SLICE_LIT(""), SW_SLICE_LIT("")), good);
    (void)sw_store_snap_unref(n);
    assert_int_equal(do_write(f, SW_STORE_CREATE, "another", value, 0).rc, SW_ESYS);
    /* Space returns. */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    d = do_write(f, SW_STORE_CREATE, "another", value, 0);
    assert_int_equal(d.rc, SW_OK);
    assert_true(d.revision > last);
    close_store(f);
    open_store(f, NULL);
    assert_int_equal(sw_store_revision(f->store), d.revision);
    n = sw_store_snapshot(f->store);
    assert_int_equal(sw_store_snap_count(n, SW_SLICE_LIT(""), SW_SLICE_LIT("")), good + 1);
    (void)sw_store_snap_unref(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(acknowledged_writes_survive_kill),
        FIXTURE_TEST(a_full_disk_is_reported_and_survived),
    };

    return cmocka_run_group_tests_name("store_crash", tests, NULL, NULL);
}
