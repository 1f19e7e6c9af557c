/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files: bounds, pipes, interrupted calls, replacement. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

#define S(lit) SW_SLICE_LIT(lit)

static char dir[] = "/tmp/sw-file-XXXXXX";

static const char *at(const char *name)
{
    static char path[64];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static size_t names_in_dir(void)
{
    DIR *d = opendir(dir);
    size_t n = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    (void)closedir(d);
    return n;
}

static void expect(const char *path, size_t max, const char *content)
{
    struct sw_slice text = {0};
    struct sw_err err = {0};

    assert_int_equal(sw_file_read(path, max, &text, &err), SW_OK);
    assert_true(sw_slice_eq_str(text, content));
    assert_int_equal(text.p[text.n], '\0');
    sw_slice_free(&text);
}

static void files_are_read_up_to_a_bound(void **state)
{
    struct sw_slice text = {0};
    struct sw_err err = {0};

    assert_int_equal(sw_file_write(at("a"), S("three"), 0600, true, &err), SW_OK);
    expect(at("a"), 100, "three");
    expect(at("a"), 5, "three");
    assert_int_equal(sw_file_read(at("a"), 4, &text, &err), SW_ELIMIT);
    assert_non_null(strstr(err.msg, "/a' is larger than 4 bytes"));
    assert_int_equal(sw_file_read(at("none"), 4, &text, &err), SW_ENOENT);
    assert_int_equal(sw_file_read(dir, 4, &text, &err), SW_ESYS);
    assert_null(text.p);
    assert_int_equal(sw_file_write(at("a"), S(""), 0600, true, &err), SW_OK);
    expect(at("a"), 0, "");
    assert_int_equal(unlink(at("a")), 0);
    (void)state;
}

static void large_files_arrive_whole(void **state)
{
    size_t n = (3 << 16) + 1;
    SW_AUTO_FREE char *p = sw_malloc(n);
    struct sw_slice text = {0};

    for (size_t i = 0; i < n; i++)
        p[i] = (char)(i * 7 >> 3);
    assert_int_equal(sw_file_write(at("a"), sw_slice(p, n), 0600, true, NULL), SW_OK);
    assert_int_equal(sw_file_read(at("a"), n, &text, NULL), SW_OK);
    assert_true(sw_slice_eq(text, sw_slice(p, n)));
    sw_slice_free(&text);
    assert_int_equal(sw_file_read(at("a"), n - 1, &text, NULL), SW_ELIMIT);
    assert_int_equal(unlink(at("a")), 0);
    (void)state;
}

static void content_is_appended_to_what_is_there(void **state)
{
    SW_BUF_AUTO b = {.max = 8};
    struct sw_err err = {0};
    int fd;

    assert_int_equal(sw_file_write(at("a"), S("fourth"), 0600, true, &err), SW_OK);
    fd = open(at("a"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(sw_buf_append_str(&b, "ab"), SW_OK);
    assert_int_equal(sw_fd_read_all(fd, "x", &b, &err), SW_OK);
    assert_true(sw_slice_eq_str(sw_buf_slice(&b), "abfourth"));
    sw_buf_consume(&b, 5);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(sw_fd_read_all(fd, "x", &b, &err), SW_ELIMIT);
    assert_string_equal(err.msg, "'x' is larger than 5 bytes");
    (void)close(fd);
    assert_int_equal(unlink(at("a")), 0);
    (void)state;
}

/* ---- pipes ---- */

static void on_alarm(int sig)
{
    (void)sig;
}

static void *write_late(void *arg)
{
    int *fd = arg;

    (void)usleep(30000);
    assert_int_equal(write(*fd, "one ", 4), 4);
    (void)usleep(30000);
    assert_int_equal(write(*fd, "two", 3), 3);
    (void)close(*fd);
    return NULL;
}

static void pipes_are_read_to_their_end_through_signals(void **state)
{
    struct sigaction act = {.sa_handler = on_alarm}; /* without SA_RESTART: read fails with EINTR */
    struct itimerval often = {{0, 2000}, {0, 2000}};
    struct itimerval never = {0};
    sigset_t set;
    pthread_t t;
    char path[32];
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGALRM);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL); /* the thread's */
    assert_int_equal(pthread_create(&t, NULL, write_late, &fds[1]), 0);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    (void)sigaction(SIGALRM, &act, NULL);
    (void)setitimer(ITIMER_REAL, &often, NULL);
    expect(path, 7, "one two");
    (void)setitimer(ITIMER_REAL, &never, NULL);
    (void)pthread_join(t, NULL);
    (void)close(fds[0]);
    (void)state;
}

static void a_pipe_without_a_writer_is_empty(void **state)
{
    assert_int_equal(mkfifo(at("fifo"), 0600), 0);
    (void)alarm(5); /* ends the test when the open blocks */
    expect(at("fifo"), 10, "");
    (void)alarm(0);
    assert_int_equal(unlink(at("fifo")), 0);
    (void)state;
}

/* ---- writing ---- */

static void files_are_replaced_whole_with_their_mode(void **state)
{
    mode_t mask = umask(077);
    struct sw_err err = {0};
    struct stat st;

    assert_int_equal(sw_file_write(at("a"), S("one"), 0644, false, &err), SW_OK);
    assert_int_equal(stat(at("a"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(sw_file_write(at("a"), S("two"), 0600, false, &err), SW_EINVAL);
    expect(at("a"), 10, "one");
    assert_int_equal(sw_file_write(at("a"), S("three"), 0600, true, &err), SW_OK);
    assert_int_equal(stat(at("a"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    expect(at("a"), 10, "three");
    assert_int_equal(names_in_dir(), 1);
    assert_int_equal(unlink(at("a")), 0);
    (void)umask(mask);
    (void)state;
}

static void what_fails_leaves_no_file_behind(void **state)
{
    struct sw_err err = {0};
    int fd;

    assert_int_equal(mkdir(at("d"), 0700), 0);
    assert_int_equal(sw_file_write(at("d"), S("one"), 0600, true, &err), SW_ESYS);
    assert_int_equal(names_in_dir(), 1);
    assert_int_equal(rmdir(at("d")), 0);
    assert_int_equal(sw_file_write(at("none/a"), S("one"), 0600, true, &err), SW_ESYS);
    fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(sw_fd_write_all(fd, S("one")), SW_ESYS);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(sw_fd_write_all(fd, S("")), SW_OK);
    (void)close(fd);
    (void)state;
}

static void what_was_begun_is_removed(void **state)
{
    static const struct {
        const char *name;
        bool removed;
    } rows[] = {
        {"a.conf.0123abcd.tmp", true},  {"a.conf.0123abcg.tmp", false},
        {"a.conf-0123abcd.tmp", false}, {"a.conf.123abcd.tmp", false},
        {".0123abcd.tmp", false},       {"a.conf.0123abcd", false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        char *path SW_AUTO_FREE = sw_asprintf("%s/%s", dir, rows[i].name);

        assert_int_equal(sw_file_write(path, S("x"), 0600, true, NULL), SW_OK);
        sw_file_remove_temporary(dir);
        assert_int_equal(access(path, F_OK), rows[i].removed ? -1 : 0);
        (void)unlink(path);
    }
    sw_file_remove_temporary("/nonexistent");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_read_up_to_a_bound),
        cmocka_unit_test(large_files_arrive_whole),
        cmocka_unit_test(content_is_appended_to_what_is_there),
        cmocka_unit_test(pipes_are_read_to_their_end_through_signals),
        cmocka_unit_test(a_pipe_without_a_writer_is_empty),
        cmocka_unit_test(files_are_replaced_whole_with_their_mode),
        cmocka_unit_test(what_fails_leaves_no_file_behind),
        cmocka_unit_test(what_was_begun_is_removed),
    };
    int rc;

    if (!mkdtemp(dir))
        return 1;
    rc = cmocka_run_group_tests_name("file", tests, NULL, NULL);
    (void)rmdir(dir);
    return rc;
}
