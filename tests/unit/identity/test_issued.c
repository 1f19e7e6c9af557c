/* SPDX-License-Identifier: Apache-2.0 */
/* The record of issued certificates after a full disk, and after an end in the middle of a line. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/json.h"
#include "identity/issued.h"

static char path[] = "/tmp/spanwire-issued-XXXXXX";

static const struct sw_issued_cert cert = {.serial = {"41", 2},
                                           .id = {"spiffe://td/ns/a/sa/b", 21},
                                           .requester = {"spiffe://td/ns/s/sa/node", 24},
                                           .not_after_s = 7};

static int set_up(void **state)
{
    int fd;

    (void)state;
    memcpy(path + sizeof(path) - 7, "XXXXXX", 6);
    fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

static void append(const char *text)
{
    FILE *f = fopen(path, "a");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* Lines that are records of 'cert', and others. */
static void count_lines(size_t *ret_good, size_t *ret_bad)
{
    FILE *f = fopen(path, "r");
    char line[1024];

    *ret_good = *ret_bad = 0;
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        SW_ARENA_AUTO a = {0};
        struct sw_json *v = NULL;
        bool good = sw_json_parse(&a, sw_slice_str(line), NULL, &v, NULL) == SW_OK &&
                    sw_json_str_eq(sw_json_find(v, "serial"), "41");

        *ret_good += good;
        *ret_bad += !good;
    }
    (void)fclose(f);
}

static void a_record_begins_on_a_line_of_its_own(void **state)
{
    struct sw_err err;
    struct sw_issued *s;
    size_t good;
    size_t bad;

    (void)state;
    append("{\"time\":1,\"ser");
    s = sw_issued_open(path, 0, &err);
    assert_non_null(s);
    for (int i = 0; i < 2; i++)
        assert_int_equal(sw_issued_add(s, &cert, &err), SW_OK);
    sw_issued_close(s);
    s = sw_issued_open(path, 0, &err);
    assert_non_null(s);
    assert_int_equal(sw_issued_add(s, &cert, &err), SW_OK);
    sw_issued_close(s);
    count_lines(&good, &bad);
    assert_int_equal(good, 3);
    assert_int_equal(bad, 1);
}

/* The limit on the size of files is a disk that is full for a while. */
static void a_full_disk_spoils_no_later_record(void **state)
{
    struct rlimit before;
    struct rlimit full;
    struct sw_err err;
    struct sw_issued *s = sw_issued_open(path, 0, &err);
    size_t good;
    size_t bad;

    (void)state;
    assert_non_null(s);
    assert_int_equal(sw_issued_add(s, &cert, &err), SW_OK);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    full = before;
    full.rlim_cur = 150; /* in the second line */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    assert_int_not_equal(sw_issued_add(s, &cert, &err), SW_OK);
    assert_int_not_equal(sw_issued_add(s, &cert, &err), SW_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(sw_issued_add(s, &cert, &err), SW_OK);
    sw_issued_close(s);
    count_lines(&good, &bad);
    assert_int_equal(good, 2);
    assert_int_equal(bad, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_record_begins_on_a_line_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_spoils_no_later_record, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
