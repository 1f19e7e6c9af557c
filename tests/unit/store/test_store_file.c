/* SPDX-License-Identifier: Apache-2.0 */
/* The file: who may open it, what is refused, backup and restore. */
#include "harness.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <sqlite3.h>

static void refuse_open(struct fixture *f, int rc, const char *says)
{
    struct sw_err err = {0};
    struct sw_store *s = sw_store_open(f->path, NULL, &err);

    assert_null(s);
    if (err.rc != rc || !strstr(err.msg, says))
        print_error("got %d '%s'\n", err.rc, err.msg);
    assert_int_equal(err.rc, rc);
    assert_non_null(strstr(err.msg, says));
}

static void file_write(const char *path, const char *text, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, n), n);
    (void)close(fd);
}

static char *file_read(const char *path, size_t *ret_n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    char *p;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    p = sw_malloc((size_t)st.st_size + 1);
    assert_int_equal(read(fd, p, (size_t)st.st_size), st.st_size);
    (void)close(fd);
    *ret_n = (size_t)st.st_size;
    return p;
}

static void sql(const char *path, const char *text)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void fill(struct fixture *f)
{
    open_store(f, NULL);
    for (int i = 0; i < 200; i++) {
        char key[16];

        (void)snprintf(key, sizeof(key), "key%03d", i);
        (void)put(f, key, "some value that is long enough to recognise");
    }
    (void)del(f, "key007");
    close_store(f);
}

static void is_private_and_exclusive(void **state)
{
    struct fixture *f = *state;
    struct stat st;

    (void)umask(0);
    open_store(f, NULL);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    (void)put(f, "a", "b");
    refuse_open(f, SW_STORE_LOCKED, "is in use by another process (pid ");
    close_store(f);
    open_store(f, NULL);
    assert_int_equal(sw_store_revision(f->store), 1);
}

static void refuses_what_is_not_a_store(void **state)
{
    struct fixture *f = *state;
    static char junk[8192];
    char *after;
    size_t n;

    memset(junk, 'j', sizeof(junk));
    file_write(f->path, junk, sizeof(junk));
    refuse_open(f, SW_EINVAL, "not an SQLite file");
    after = file_read(f->path, &n);
    assert_int_equal(n, sizeof(junk));
    assert_memory_equal(after, junk, n);
    sw_free(after);
    file_write(f->path, "", 0);
    refuse_open(f, SW_EINVAL, "cut to 0 bytes");
    assert_int_equal(unlink(f->path), 0);
    sql(f->path, "CREATE TABLE t(x)");
    refuse_open(f, SW_EINVAL, "belongs to another program");
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(mkdir(f->path, 0700), 0);
    refuse_open(f, SW_EINVAL, "not a regular file");
    assert_int_equal(rmdir(f->path), 0);
}

static void refuses_a_newer_format(void **state)
{
    struct fixture *f = *state;

    fill(f);
    sql(f->path, "PRAGMA user_version = 2");
    refuse_open(f, SW_EINVAL, "newer version (format 2");
    sql(f->path, "PRAGMA user_version = 1");
    open_store(f, NULL);
}

static void refuses_rows_that_do_not_fit(void **state)
{
    struct fixture *f = *state;

    fill(f);
    sql(f->path, "UPDATE log SET value = x'6f74686572' WHERE rev = 50");
    refuse_open(f, SW_EINVAL, "row 50 has a bad checksum");
    assert_int_equal(unlink(f->path), 0);
    fill(f);
    sql(f->path, "DELETE FROM log WHERE key = CAST('key007' AS BLOB) AND type = 1");
    refuse_open(f, SW_EINVAL, "row 201 does not fit");
    assert_int_equal(unlink(f->path), 0);
    fill(f);
    sql(f->path, "DROP TABLE meta");
    refuse_open(f, SW_EINVAL, "is damaged");
}

/* Every place of the file is hit once: it either does not matter or is noticed. */
static void notices_damage_anywhere(void **state)
{
    struct fixture *f = *state;
    struct sw_store_report report;
    struct sw_err err;
    char *good;
    size_t n;
    size_t noticed = 0;
    size_t tried = 0;

    fill(f);
    good = file_read(f->path, &n);
    for (size_t at = 37; at < n; at += 509, tried++) {
        int rc;

        good[at] ^= 0x20;
        file_write(f->path, good, n);
        good[at] ^= 0x20;
        rc = sw_store_check(f->path, &report, &err);
        noticed += rc != SW_OK;
        if (rc == SW_OK) {
            assert_int_equal(report.objects, 199);
            assert_int_equal(report.revision, 201);
        }
    }
    assert_true(noticed * 2 > tried);
    /* Cut short. */
    for (size_t cut = 1; cut < n; cut += 4096 - 7) {
        file_write(f->path, good, n - cut);
        assert_int_not_equal(sw_store_check(f->path, &report, &err), SW_OK);
        refuse_open(f, SW_EINVAL, "damaged");
    }
    sw_free(good);
}

static void backs_up_while_in_use(void **state)
{
    struct fixture *f = *state;
    struct sw_store_report report;
    struct sw_err err = {0};
    char out[128];
    struct stat st;

    (void)snprintf(out, sizeof(out), "%s/backup.db", f->dir);
    fill(f);
    open_store(f, NULL);
    (void)put(f, "new", "in the write-ahead log only");
    assert_int_equal(sw_store_check(f->path, &report, &err), SW_OK);
    assert_int_equal(report.revision, 202);
    assert_int_equal(sw_store_backup(f->path, out, false, &report, &err), SW_OK);
    assert_int_equal(report.revision, 202);
    assert_int_equal(report.objects, 200);
    assert_int_equal(stat(out, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(put(f, "more", "x"), 203);
    assert_int_equal(sw_store_backup(f->path, out, false, &report, &err), SW_EINVAL);
    assert_non_null(strstr(err.msg, "--force"));
    assert_int_equal(sw_store_backup(f->path, out, true, &report, &err), SW_OK);
    assert_int_equal(report.revision, 203);
    assert_int_equal(sw_store_backup(f->path, f->path, true, &report, &err), SW_EINVAL);
    assert_int_equal(sw_store_check(out, &report, &err), SW_OK);
    assert_int_equal(sw_store_backup("/nonexistent/x.db", out, true, &report, &err), SW_ENOENT);
}

static void restore_goes_above_everything_given_out(void **state)
{
    struct fixture *f = *state;
    struct sw_store_report report;
    struct sw_err err = {0};
    struct sw_store_snap *n;
    struct sw_store_stats st;
    char out[128];
    uint64_t before;

    (void)snprintf(out, sizeof(out), "%s/backup.db", f->dir);
    fill(f);
    assert_int_equal(sw_store_backup(f->path, out, false, &report, &err), SW_OK);
    open_store(f, NULL);
    for (int i = 0; i < 50; i++)
        (void)put(f, "after the backup", "x");
    before = sw_store_revision(f->store);
    assert_int_equal(sw_store_restore(out, f->path, true, &report, &err), SW_STORE_LOCKED);
    close_store(f);
    assert_int_equal(sw_store_restore(out, f->path, false, &report, &err), SW_EINVAL);
    assert_int_equal(sw_store_restore(out, f->path, true, &report, &err), SW_OK);
    assert_true(report.revision > before + 1000000);
    assert_int_equal(report.epoch, 1);
    open_store(f, NULL);
    sw_store_stats(f->store, &st);
    assert_int_equal(st.objects, 199);
    assert_int_equal(st.epoch, 1);
    assert_int_equal(st.revision, report.revision);
    assert_int_equal(st.floor, report.revision);
    assert_int_equal(sw_store_snapshot_at(f->store, before, &n, &err), SW_STORE_TOO_OLD);
    assert_int_equal(put(f, "k", "v"), report.revision + 1);
    close_store(f);
    open_store(f, NULL);
    assert_int_equal(sw_store_revision(f->store), report.revision + 1);
    close_store(f);
    /* Again, over a damaged one. */
    file_write(f->path, "rubbish", 7);
    assert_int_equal(sw_store_restore(out, f->path, true, &report, &err), SW_OK);
    open_store(f, NULL);
    sw_store_stats(f->store, &st);
    assert_int_equal(st.objects, 199);
}

static void refuses_a_damaged_backup(void **state)
{
    struct fixture *f = *state;
    struct sw_store_report report;
    struct sw_err err = {0};
    char out[128];

    (void)snprintf(out, sizeof(out), "%s/backup.db", f->dir);
    fill(f);
    assert_int_equal(sw_store_backup(f->path, out, false, &report, &err), SW_OK);
    sql(out, "UPDATE log SET value = x'78' WHERE rev = 3");
    assert_int_equal(sw_store_restore(out, f->path, true, &report, &err), SW_EINVAL);
    assert_non_null(strstr(err.msg, "row 3"));
    open_store(f, NULL); /* what was there is untouched */
    assert_int_equal(sw_store_revision(f->store), 201);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(is_private_and_exclusive),
        FIXTURE_TEST(refuses_what_is_not_a_store),
        FIXTURE_TEST(refuses_a_newer_format),
        FIXTURE_TEST(refuses_rows_that_do_not_fit),
        FIXTURE_TEST(notices_damage_anywhere),
        FIXTURE_TEST(backs_up_while_in_use),
        FIXTURE_TEST(restore_goes_above_everything_given_out),
        FIXTURE_TEST(refuses_a_damaged_backup),
    };

    return cmocka_run_group_tests_name("store_file", tests, NULL, NULL);
}
