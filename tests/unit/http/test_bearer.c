/* SPDX-License-Identifier: Apache-2.0 */
#include "http/bearer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/secret.h"

static const struct {
    const char *content;
    const char *token; /* NULL: refused */
} cases[] = {
    {"abc.def", "abc.def"},
    {"abc.def\n", "abc.def"},
    {" abc.def \t\r\n\n", "abc.def"},
    {"", NULL},
    {" \r\n", NULL},
    {"abc\ndef\n", NULL},
    {"abc\r\nX-Other: 1", NULL},
    {"abc\001", NULL},
};

static void tokens_are_one_line_without_blanks_around(void **state)
{
    char path[] = "/tmp/sw-bearer-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    (void)close(fd);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_slice text = sw_slice_str(cases[i].content);
        struct sw_slice token = {0};
        struct sw_err err = {0};
        int rc;

        assert_int_equal(sw_file_write(path, text, 0600, true, NULL), SW_OK);
        rc = sw_bearer_read(path, &token, &err);
        assert_int_equal(rc, cases[i].token ? SW_OK : SW_EINVAL);
        if (cases[i].token)
            assert_string_equal(token.p, cases[i].token);
        else
            assert_non_null(strstr(err.msg, path));
        assert_int_equal(token.n, cases[i].token ? strlen(cases[i].token) : 0);
        sw_slice_free_secret(&token);
    }
    assert_int_equal(unlink(path), 0);
    (void)state;
}

static void a_long_token_is_refused_and_not_cut(void **state)
{
    char path[] = "/tmp/sw-bearer-XXXXXX";
    SW_BUF_AUTO b = {.max = SW_BEARER_MAX + 1};
    struct sw_slice token = {0};
    struct sw_err err = {0};
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    (void)close(fd);
    for (int i = 0; i < SW_BEARER_MAX; i++)
        assert_int_equal(sw_buf_putc(&b, 'x'), SW_OK);
    assert_int_equal(sw_file_write(path, sw_buf_slice(&b), 0600, true, NULL), SW_OK);
    assert_int_equal(sw_bearer_read(path, &token, &err), SW_OK);
    assert_int_equal(token.n, SW_BEARER_MAX);
    sw_slice_free_secret(&token);
    assert_int_equal(sw_buf_putc(&b, 'x'), SW_OK);
    assert_int_equal(sw_file_write(path, sw_buf_slice(&b), 0600, true, NULL), SW_OK);
    assert_int_equal(sw_bearer_read(path, &token, &err), SW_ELIMIT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(sw_bearer_read(path, &token, &err), SW_ENOENT);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_one_line_without_blanks_around),
        cmocka_unit_test(a_long_token_is_refused_and_not_cut),
    };

    return cmocka_run_group_tests_name("bearer", tests, NULL, NULL);
}
