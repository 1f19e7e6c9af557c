/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cni/child.h"

static void test_output_and_status(void **state)
{
    static const char *const argv[] = {"sh", "-c", "cat; echo oops >&2; exit 3", NULL};
    struct sw_child c = {.argv = argv, .input = SW_SLICE_LIT("fed\n")};
    SW_BUF_AUTO out = {.max = 100};
    int status;

    (void)state;
    assert_int_equal(sw_child_run(-1, &c, &out, &status, NULL), SW_OK);
    assert_int_equal(status, 3);
    assert_true(sw_slice_eq_str(sw_buf_slice(&out), "fed\noops\n"));
}

static void test_output_is_cut_but_the_child_ends(void **state)
{
    static const char *const argv[] = {"head", "-c", "300000", "/dev/zero", NULL};
    struct sw_child c = {.argv = argv};
    SW_BUF_AUTO out = {.max = 1000};
    int status;

    (void)state;
    assert_int_equal(sw_child_run(-1, &c, &out, &status, NULL), SW_OK);
    assert_int_equal(status, 0);
    assert_int_equal(sw_buf_len(&out), 1000);
}

static void test_a_child_that_does_not_read_is_no_trouble(void **state)
{
    static const char *const argv[] = {"true", NULL};
    static char much[200000];
    struct sw_child c = {.argv = argv, .input = {much, sizeof(much)}};
    SW_BUF_AUTO out = {.max = 100};
    int status;

    (void)state;
    assert_int_equal(sw_child_run(-1, &c, &out, &status, NULL), SW_OK);
    assert_int_equal(status, 0);
}

static void test_the_deadline_kills(void **state)
{
    static const char *const argv[] = {"sleep", "600", NULL};
    struct sw_child c = {.argv = argv, .timeout_ms = 50};
    SW_BUF_AUTO out = {.max = 100};
    struct sw_err err;
    int status;

    (void)state;
    assert_int_equal(sw_child_run(-1, &c, &out, &status, &err), SW_ETIME);
    assert_string_equal(err.msg, "'sleep' did not finish in time");
}

static void test_a_tool_that_is_not_there(void **state)
{
    static const char *const argv[] = {"no-such-tool", NULL};
    struct sw_child c = {.argv = argv};
    SW_BUF_AUTO out = {.max = 100};
    struct sw_err err;
    int status;

    (void)state;
    assert_int_equal(sw_child_run(-1, &c, &out, &status, &err), SW_ENOENT);
    assert_memory_equal(err.msg, "'no-such-tool' is not installed", 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_and_status),
        cmocka_unit_test(test_output_is_cut_but_the_child_ends),
        cmocka_unit_test(test_a_child_that_does_not_read_is_no_trouble),
        cmocka_unit_test(test_the_deadline_kills),
        cmocka_unit_test(test_a_tool_that_is_not_there),
    };

    return cmocka_run_group_tests_name("child", tests, NULL, NULL);
}
