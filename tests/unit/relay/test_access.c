/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "quic/id/nodeid.h"
#include "relay/access.h"

static char dir[] = "/tmp/spanwire-access-XXXXXX";
static char path[3][64];

static const char *put(size_t i, const char *text)
{
    FILE *f;

    (void)snprintf(path[i], sizeof(path[i]), "%s/%zu", dir, i);
    f = fopen(path[i], "w");
    assert_non_null(f);
    (void)fputs(text, f);
    (void)fclose(f);
    return path[i];
}

static struct sw_nodeid id_of(const char *text)
{
    struct sw_nodeid id = {{0}};
    struct sw_err err;

    assert_int_equal(sw_nodeid_parse(sw_slice_str(text), &id, &err), SW_OK);
    return id;
}

#define A "197f6b23e16c8532c6abc838facd5ea789be0c76b2920334039bfa8b3d368d61"
#define B "d04ab232742bb4ab3a1368bd4615e4e6d0224ab71a016baf8520a332c9778737"

static void test_without_rules_everybody_may_come(void **state)
{
    struct sw_err err;
    struct sw_relay_access *a = sw_relay_access_load(&(struct sw_relay_access_files){0}, &err);
    struct sw_nodeid id = id_of(A);

    (void)state;
    assert_non_null(a);
    assert_null(sw_relay_access_judge(a, &id));
    assert_true(sw_relay_access_token_ok(a, SW_SLICE_LIT("")));
    assert_true(sw_relay_access_token_ok(a, SW_SLICE_LIT("whatever")));
    assert_null(sw_relay_access_unref(a));
}

static void test_lists_agree_or_refuse(void **state)
{
    struct sw_err err;
    struct sw_relay_access_files f = {
        .allow = put(0, "# known\n\n " A " \r\n" B "\n"),
        .deny = put(1, B),
    };
    struct sw_relay_access *a = sw_relay_access_load(&f, &err);
    struct sw_nodeid in = id_of(A);
    struct sw_nodeid out = id_of(B);
    struct sw_nodeid other = {{3}};

    (void)state;
    assert_non_null(a);
    assert_null(sw_relay_access_judge(a, &in));
    assert_string_equal(sw_relay_access_judge(a, &out), "id is denied");
    assert_string_equal(sw_relay_access_judge(a, &other), "id is not allowed");
    a = sw_relay_access_unref(a);
}

static void test_tokens_are_compared_whole(void **state)
{
    struct sw_err err;
    struct sw_relay_access_files f = {.tokens = put(0, "alpha\nbeta gamma\n")};
    struct sw_relay_access *a = sw_relay_access_load(&f, &err);
    static const struct {
        const char *token;
        bool ok;
    } cases[] = {
        {"alpha", true},   {"beta gamma", true},  {"", false},      {"alph", false},
        {"alphaa", false}, {"alphaalpha", false}, {"Alpha", false}, {"beta", false},
    };

    (void)state;
    assert_non_null(a);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        if (sw_relay_access_token_ok(a, sw_slice_str(cases[i].token)) != cases[i].ok)
            fail_msg("'%s'", cases[i].token);
    }
    a = sw_relay_access_unref(a);
}

static void test_mistakes_are_named(void **state)
{
    struct sw_relay_access_files f = {.allow = put(0, A "\nnonsense\n")};
    struct sw_err err = {0};

    (void)state;
    assert_null(sw_relay_access_load(&f, &err));
    assert_non_null(strstr(err.msg, "/0:2"));
    f = (struct sw_relay_access_files){.deny = "/nonexistent/file"};
    assert_null(sw_relay_access_load(&f, &err));
    /* An empty list allows nobody; it is not the same as none. */
    f = (struct sw_relay_access_files){.allow = put(0, "")};
    {
        struct sw_relay_access *a = sw_relay_access_load(&f, &err);
        struct sw_nodeid id = id_of(A);

        assert_non_null(a);
        assert_non_null(sw_relay_access_judge(a, &id));
        (void)sw_relay_access_unref(a);
    }
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(path); i++) {
        if (path[i][0])
            (void)unlink(path[i]);
    }
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_rules_everybody_may_come),
        cmocka_unit_test(test_lists_agree_or_refuse),
        cmocka_unit_test(test_tokens_are_compared_whole),
        cmocka_unit_test(test_mistakes_are_named),
    };

    return cmocka_run_group_tests_name("relay access", tests, make_dir, remove_dir);
}
