/* SPDX-License-Identifier: Apache-2.0 */
/* Syntax: what RE2 refuses is refused, as found with the one in Envoy, in the words of Go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "regex/regex.h"

static int compiles(struct sw_slice pattern)
{
    struct sw_regex *re = NULL;
    struct sw_err err = {0};
    int rc = sw_regex_new_bytes(pattern, &re, &err);

    assert_true(rc == SW_OK || err.msg[0]);
    sw_regex_free(re);
    return rc;
}

static void what_re2_takes_is_taken(void **state)
{
    static const char *const good[] = {
        "/(a{10}){100}",
        "/((a{10}){10}){10}",
        "/(a{1000})*",
        "/(a{1000}){0}",
        "/(a{500,}){2}",
        "/(?:a{500}b{500}){2}",
        "/(a{0}){1000}",
        "/(a?){1000}",
        "/a{1000}b{1000}c{1000}",
        "/(a{,1000}){1000}",
        "a{",
        "a{,2}+",
        "a??",
        "a{2}?",
        "(?i)a",
        "(?P<n>a)",
        "(?s-i:a)",
        "\\p{Greek}+",
        "\\x{41}+",
        "\\pL{1000}?",
        "[[:word:]]+",
        "[]a]*",
        "[^]a]+",
        "\\Q**{2}{3}(\\E",
        "\\z",
        "\\A/.*\\.html",
        "(a|b{3})+",
        "[+*]+",
        "(.{10,50}/){20}",
        "()",
        "[-\\d]",
        "[\\w.-]+",
        "[a-z-\\d]",
        "[\\]a]",
        "\\/\\.",
        "(?:)",
        "(?)",
        "^*",
        "(?<n>a)",
        "\\012\\0",
        "(?i-s:a)(?U)b*",
        "[[:^alpha:]]",
        "\\p{^Lu}\\PN\\p{Any}",
        "a{01}",
        "[a-]",
        "[--a]",
        "x|",
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(good); i++) {
        if (compiles(sw_slice_str(good[i])) != SW_OK)
            fail_msg("refused: %s", good[i]);
    }
}

static void what_re2_refuses_is_refused(void **state)
{
    static const char *const bad[] = {
        "/(a{1000}){1000}",
        "/a{1001}",
        "/(a{10}){101}",
        "/((a{10}){10}){11}",
        "/(a{2}){600}",
        "/(a{1000}?){2}",
        "/(a{0,1000}){2}",
        "/(a{500,}){3}",
        "/(b|(a{1000}))c{2}(d(e{1000}){2})",
        "/a{99999999999999999999}",
        "a{1000}{2}",
        "a{2}{3}",
        "a**",
        "a+*",
        "a{2}*",
        "a++",
        "a*+",
        "a???",
        "a{2}??",
        "(a)\\1",
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?>a)",
        "(?|a)",
        "(?#c)",
        "(?x)a",
        "(?R)",
        "[\\b]",
        "[\\Qa\\E]",
        "(?i-)a",
        "[\\",
        "\\\xc3\xa9",
        "[a-\\d]",
        "\\E",
        "\\h",
        "\\R",
        "\\G",
        "\\K",
        "\\C",
        "*",
        "(*)",
        "a|*",
        "a{2,1}",
        "[a",
        "(\\d{10}){1000}",
        "\\x{100}",
        "(?P<n>a)(?P<n>b)",
        "(?P<n",
        "(?P<>a)",
        "(?P=n)",
        "[[:foo:]]",
        "\\pX",
        "\\p{Foo}",
        "\\p",
        "\\x1",
        "\\x{}",
        "\\",
        "a)",
        "(a",
        "(?",
        "(?i",
        "\\Z",
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++) {
        if (compiles(sw_slice_str(bad[i])) != SW_EINVAL)
            fail_msg("taken: %s", bad[i]);
    }
}

static void reasons_are_those_of_go(void **state)
{
    static const struct {
        const char *pattern, *why;
    } cases[] = {
        {"a**", "invalid nested repetition operator: `**`"},
        {"x*", NULL},
        {"*", "missing argument to repetition operator: `*`"},
        {"a|{2}", "missing argument to repetition operator: `{2}`"},
        {"a{1001}", "invalid repeat count: `{1001}`"},
        {"[z-a]", "invalid character class range: `z-a`"},
        {"[[:foo:]]", "invalid character class range: `[:foo:]`"},
        {"\\p{Foo}", "invalid character class range: `\\p{Foo}`"},
        {"[a", "missing closing ]: `[a`"},
        {"(a", "missing closing ): `(a`"},
        {"a)", "unexpected ): `a)`"},
        {"a\\", "trailing backslash at end of expression: ``"},
        {"\\8", "invalid escape sequence: `\\8`"},
        {"(?=a)", "invalid or unsupported Perl syntax: `(?=`"},
        {"(?P<n-m>a)", "invalid named capture: `(?P<n-m>`"},
        {"\xff", "invalid UTF-8"},
        {"\\x{1F600}\xc3\xa9", NULL},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_regex *re = NULL;
        struct sw_err err = {0};
        int rc = sw_regex_new(sw_slice_str(cases[i].pattern), &re, &err);

        sw_regex_free(re);
        assert_int_equal(rc, cases[i].why ? SW_EINVAL : SW_OK);
        if (cases[i].why)
            assert_string_equal(err.msg + strlen("error parsing regexp: "), cases[i].why);
    }
}

/* Properties and groups without an end or a bottom. */
static void large_expressions_are_refused(void **state)
{
    struct sw_buf b;

    sw_buf_init(&b, 16384);
    for (int i = 0; i < 20; i++)
        assert_int_equal(sw_buf_append(&b, "\\pL{1000}", 9), SW_OK);
    assert_int_equal(compiles(sw_buf_slice(&b)), SW_OK);
    for (int i = 0; i < 40; i++)
        assert_int_equal(sw_buf_append(&b, "\\pL{1000}", 9), SW_OK);
    assert_int_equal(compiles(sw_buf_slice(&b)), SW_EINVAL);
    sw_buf_done(&b);
    sw_buf_init(&b, 16384);
    for (int i = 0; i < 4000; i++)
        assert_int_equal(sw_buf_append(&b, "(", 1), SW_OK);
    assert_int_equal(compiles(sw_buf_slice(&b)), SW_EINVAL);
    sw_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_re2_takes_is_taken),
        cmocka_unit_test(what_re2_refuses_is_refused),
        cmocka_unit_test(reasons_are_those_of_go),
        cmocka_unit_test(large_expressions_are_refused),
    };

    return cmocka_run_group_tests_name("regex_syntax", tests, NULL, NULL);
}
