/* SPDX-License-Identifier: Apache-2.0 */
/* Matches: a table of RE2's semantics, random patterns against a naive matcher, work, threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "naive.h"

/* "0-3 1-2 -": the whole match and the groups; "" when there is none. */
static const char *spans(struct sw_arena *a, const struct sw_regex *re, struct sw_slice text)
{
    struct sw_slice g[NAIVE_GROUPS];
    int n = sw_regex_groups(re, text, 0, NAIVE_GROUPS, g, NULL);
    const char *out = "";

    assert_true(n >= 0);
    assert_int_equal(sw_regex_match(re, text, NULL), n > 0);
    for (int i = 0; i < n; i++) {
        const char *one = g[i].p ? sw_arena_printf(a, "%zu-%zu", (size_t)(g[i].p - text.p),
                                                   (size_t)(g[i].p - text.p) + g[i].n)
                                 : "-";

        out = sw_arena_printf(a, "%s%s%s", out, i ? " " : "", one);
    }
    return out;
}

static void matches_are_leftmost_first(void **state)
{
    static const struct {
        const char *re, *text, *want;
    } cases[] = {
        {"", "", "0-0"},
        {"", "abc", "0-0"},
        {"a", "xay", "1-2"},
        {"a*", "baa", "0-0"},
        {"a+", "baa", "1-3"},
        {"a+?", "baa", "1-2"},
        {"a??b", "ab", "0-2"},
        {"(?U)a+", "aaa", "0-1"},
        {"(?U)a+?", "aaa", "0-3"},
        {"a|ab", "ab", "0-1"},
        {"ab|a", "ab", "0-2"},
        {"(a|ab)(c|bcd)(d*)", "abcd", "0-4 0-1 1-4 4-4"},
        {"(a+)(b+)?", "aac", "0-2 0-2 -"},
        {"(a*)*", "b", "0-0 0-0"},
        {"(a*)+", "b", "0-0 0-0"},
        {"(a|b)*", "ab", "0-2 1-2"},
        {"(|a)+", "aaa", "0-0 0-0"},
        {"(|a)*", "aaa", "0-0 0-0"},
        {"x{2,3}", "xxxx", "0-3"},
        {"x{2,3}?", "xxxx", "0-2"},
        {"x{2}", "x", ""},
        {"(x{1,2}){2}", "xxx", "0-3 2-3"},
        {"^a$", "a", "0-1"},
        {"^a$", "a\n", ""},
        {"(?m)^b$", "a\nb\nc", "2-3"},
        {"(?m)$", "a\nb", "1-1"},
        {"a\\z", "ba", "1-2"},
        {"\\Aa", "ba", ""},
        {".", "\n", ""},
        {"(?s).", "\n", "0-1"},
        {"[^a]", "\n", "0-1"},
        {"\\bfoo\\b", "a foo.", "2-5"},
        {"\\bfoo\\b", "afoo", ""},
        {"\\Boo\\b", "foo", "1-3"},
        {"\\b", "", ""},
        {"\\B", "", "0-0"},
        {"\\B", "a\xc3\x9f_", ""},
        {"\\B", "a\xc3\x9f\xc3\x9f_", "3-3"},
        {"(?i)straSSe", "STRASSE", "0-7"},
        {"(?i)k", "\xe2\x84\xaa", "0-3"},
        {"(?i)[^k]", "\xe2\x84\xaa", ""},
        {"(?i)\xc3\xa9", "\xc3\x89", "0-2"},
        {"(?i)\xc4\xb1", "I", ""},
        {"(?i:a)b", "Ab", "0-2"},
        {"(?i:a)b", "AB", ""},
        {".", "\xc3\xa9", "0-2"},
        {"^.{2}$", "\xc3\xa9\xf0\x9f\x98\x80", "0-6"},
        {"[\xc3\xa0-\xc3\xbf]+", "x\xc3\xa9\xc3\xaa", "1-5"},
        {"\\p{Greek}+", "a\xce\xb1\xce\xb2", "1-5"},
        {"\\pL+", "1\xc3\xa9z2", "1-4"},
        {"\\PL", "\xc3\xa9+", "2-3"},
        {"\\p{Lu}\\p{^Lu}", "xAb", "1-3"},
        {"(?i)\\p{Lu}", "b", "0-1"},
        {"[[:alpha:][:digit:]_-]+", "..a-1_..", "2-6"},
        {"[[:^space:]]", " x", "1-2"},
        {"[\\d\\s]+", "x1 2", "1-4"},
        {"\\s", "\v", ""},
        {"[[:space:]]", "\v", "0-1"},
        {"\\Q.*\\E+", "x.**", "1-4"},
        {"\\x41\\x{42}\\103\\n\\a", "ABC\n\a", "0-5"},
        {"[]a]+", "x]a", "1-3"},
        {"[^]a]", "]ab", "2-3"},
        {"a{,2}", "a{,2}", "0-5"},
        {"a{", "a{", "0-2"},
        {"(?P<year>\\d{4})-(?<month>\\d\\d)", "on 2024-05", "3-10 3-7 8-10"},
        {"^/api/v[0-9]+/users/[^/]+$", "/api/v1/users/bob", "0-17"},
        {"^/api/v[0-9]+/users/[^/]+$", "/api/v1/users/bob/x", ""},
        {"(a)|(b)", "b", "0-1 - 0-1"},
        {"(?:(a)|b)*", "ab", "0-2 0-1"},
        {"[^\\x00-\\x{10FFFF}]", "a", ""},
        {"a[^\\x00-\\x{10FFFF}]*b", "ab", "0-2"},
        {"$^", "", "0-0"},
        {"^^a", "a", "0-1"},
        {"a$b", "ab", ""},
        {"(?:^a|^b)c", "xbc", ""},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_regex *re = NULL;
        struct sw_err err = {0};

        if (sw_regex_new(sw_slice_str(cases[i].re), &re, &err) < 0)
            fail_msg("%s: %s", cases[i].re, err.msg);
        if (strcmp(spans(&a, re, sw_slice_str(cases[i].text)), cases[i].want) != 0)
            fail_msg("%s on '%s': %s", cases[i].re, cases[i].text,
                     spans(&a, re, sw_slice_str(cases[i].text)));
        sw_regex_free(re);
    }
}

static void bytes_are_characters(void **state)
{
    static const struct {
        const char *re, *text, *want;
    } cases[] = {
        {"^.$", "\xff", "0-1"},  {"^.$", "\xc3\xa9", ""},       {"\xc3\xa9", "x\xc3\xa9", "1-3"},
        {"[^a]", "\xff", "0-1"}, {"\\xff", "\xff", "0-1"},      {"(?i)\\xe9", "\xc9", "0-1"},
        {"\\pL", "\xe9", "0-1"}, {"(?i)k", "\xe2\x84\xaa", ""},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_regex *re = NULL;

        assert_int_equal(sw_regex_new_bytes(sw_slice_str(cases[i].re), &re, NULL), SW_OK);
        assert_string_equal(spans(&a, re, sw_slice_str(cases[i].text)), cases[i].want);
        sw_regex_free(re);
    }
}

static void searches_go_on_from_an_offset(void **state)
{
    struct sw_slice text = SW_SLICE_LIT("foo bar");
    struct sw_regex *re = NULL;
    size_t at;
    size_t len;

    (void)state;
    assert_int_equal(sw_regex_new(SW_SLICE_LIT("\\b\\w"), &re, NULL), SW_OK);
    assert_int_equal(sw_regex_search(re, text, 1, &at, &len, NULL), 1);
    assert_int_equal(at, 4); /* there is no boundary before the 'o' at 1 */
    sw_regex_free(re);
    assert_int_equal(sw_regex_new(SW_SLICE_LIT("^o|^f"), &re, NULL), SW_OK);
    assert_int_equal(sw_regex_search(re, text, 1, &at, &len, NULL), 0);
    assert_int_equal(sw_regex_search(re, text, 8, &at, &len, NULL), 0);
    sw_regex_free(re);
}

/* --- against the naive matcher ------------------------------------------------------------ */

static uint32_t rnd(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

static void random_pattern(struct sw_buf *b, uint64_t *seed, int depth)
{
    static const char *const atoms[] = {"a",   "b",     "ab",       ".",   "[ab]",  "[^a]",
                                        "\\b", "^",     "$",        "c",   "\\w",   "\\B",
                                        "",    "(?i)A", "\xc3\xa9", "\\n", "(?m)^", "[b-\xc3\xbf]"};
    static const char *const repeats[] = {"*",  "+",  "?",  "{2}",   "{1,3}",
                                          "*?", "+?", "??", "{0,2}?"};
    uint32_t n = 1 + rnd(seed, 3);

    for (uint32_t i = 0; i < n; i++) {
        uint32_t kind = rnd(seed, 8);
        bool group = kind < 3 && depth > 0;

        if (i && rnd(seed, 4) == 0)
            assert_int_equal(sw_buf_append_str(b, "|"), SW_OK);
        if (group) {
            assert_int_equal(sw_buf_append_str(b, kind ? "(" : "(?:"), SW_OK);
            random_pattern(b, seed, depth - 1);
            assert_int_equal(sw_buf_append_str(b, ")"), SW_OK);
        } else {
            assert_int_equal(sw_buf_append_str(b, atoms[rnd(seed, SW_ARRAY_LEN(atoms))]), SW_OK);
        }
        if (rnd(seed, 3) == 0)
            assert_int_equal(sw_buf_append_str(b, repeats[rnd(seed, SW_ARRAY_LEN(repeats))]),
                             SW_OK);
    }
}

static void random_patterns_agree_with_the_naive_matcher(void **state)
{
    static const char *const letters[] = {"a", "b", "c", "\n", "A", "\xc3\xa9", " "};
    uint64_t seed = 11;
    int compared = 0;

    (void)state;
    for (int round = 0; round < 30000; round++) {
        SW_ARENA_AUTO a = {0};
        SW_BUF_AUTO p = {.max = 4096};
        SW_BUF_AUTO t = {.max = 4096};
        struct re_tree tree = {0};
        struct sw_regex *re = NULL;
        struct naive m = {0};
        struct sw_slice g[NAIVE_GROUPS];
        int want;
        int n;

        random_pattern(&p, &seed, 3);
        for (uint32_t i = rnd(&seed, 8); i > 0; i--)
            assert_int_equal(sw_buf_append_str(&t, letters[rnd(&seed, 7)]), SW_OK);
        if (sw_regex_new(sw_buf_slice(&p), &re, NULL) < 0)
            continue;
        assert_int_equal(re_parse(&a, sw_buf_slice(&p), false, &tree, NULL), SW_OK);
        m.text = sw_buf_slice(&t);
        m.text.p = m.text.p ? m.text.p : "";
        want = naive_search(&m, &tree, 0);
        n = sw_regex_groups(re, m.text, 0, NAIVE_GROUPS, g, NULL);
        if (!naive_nfa_agrees(&tree, false, m.text, g, n))
            fail_msg("%.*s on '%.*s': NFA", (int)p.n, sw_buf_slice(&p).p, (int)m.text.n, m.text.p);
        if (want >= 0 && (n > 0) != (want == 1))
            fail_msg("%.*s on '%.*s': %d", (int)p.n, sw_buf_slice(&p).p, (int)m.text.n, m.text.p,
                     n);
        for (int i = 0; i < n && want == 1 && !naive_loops(tree.root); i++) {
            bool set = m.at[2 * i] != SIZE_MAX && m.at[2 * i + 1] != SIZE_MAX;

            if (set != (g[i].p != NULL) || (set && (g[i].p != m.text.p + m.at[2 * i] ||
                                                    g[i].n != m.at[2 * i + 1] - m.at[2 * i])))
                fail_msg("%.*s on '%.*s': group %d", (int)p.n, sw_buf_slice(&p).p, (int)m.text.n,
                         m.text.p, i);
            compared++;
        }
        sw_regex_free(re);
    }
    assert_true(compared > 5000);
}

/* --- work --------------------------------------------------------------------------------- */

static void hostile_patterns_take_linear_work(void **state)
{
    static const char *const patterns[] = {
        "(a+a+)+b",
        "(a|aa)+$b",
        "(a?){100}a{100}b",
        "(.*)(.*)(.*)(.*)x",
        "(a|b|ab)*c",
        "(?:a*)*b",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        ".*.*.*=.*",
        "[ab]*a[ab]{50}c",
    };
    static char text[100000];

    (void)state;
    memset(text, 'a', sizeof(text));
    for (size_t i = 0; i < SW_ARRAY_LEN(patterns); i++) {
        struct sw_regex *re = NULL;
        size_t size;

        assert_int_equal(sw_regex_new(sw_slice_str(patterns[i]), &re, NULL), SW_OK);
        size = sw_regex_size(re);
        for (size_t n = 1000; n <= sizeof(text); n *= 10) {
            struct sw_budget b = {.steps = 10 * (n + 100) * (size + 20)};

            assert_true(sw_regex_match(re, sw_slice(text, n), &b) >= 0);
        }
        sw_regex_free(re);
    }
}

static void a_budget_that_ends_is_no_match(void **state)
{
    struct sw_regex *re = NULL;
    struct sw_slice g[2];
    int ended = 0;

    (void)state;
    assert_int_equal(sw_regex_new(SW_SLICE_LIT("(x*)y|^.*z$"), &re, NULL), SW_OK);
    for (uint64_t steps = 0; steps < 400; steps++) {
        struct sw_budget b = {.steps = steps};
        int rc = sw_regex_groups(re, SW_SLICE_LIT("xxxxxz"), 0, 2, g, &b);

        assert_true(rc == SW_ELIMIT || rc == 2);
        assert_int_equal(rc == SW_ELIMIT, b.spent);
        ended += rc == SW_ELIMIT;
    }
    assert_true(ended > 5);
    sw_regex_free(re);
}

/* A large program is paid for at its start, not by the length of the text alone. */
static void a_new_automaton_is_paid_for(void **state)
{
    struct sw_budget little = {.steps = 10000}, enough = {.steps = 10000000};
    struct sw_regex *re = NULL;

    (void)state;
    assert_int_equal(sw_regex_new(SW_SLICE_LIT("(?:(|)(|)(|)(|)(|)(|)(|)(|)){1000}"), &re, NULL),
                     SW_OK);
    assert_int_equal(sw_regex_match(re, SW_SLICE_LIT(""), &little), SW_ELIMIT);
    assert_true(little.spent);
    assert_int_equal(sw_regex_match(re, SW_SLICE_LIT(""), &enough), 1);
    assert_true(enough.steps < 10000000 - 10000);
    little = (struct sw_budget){.steps = 100};
    assert_int_equal(sw_regex_match(re, SW_SLICE_LIT(""), &little), 1); /* it was kept */
    sw_regex_free(re);
}

/* However many large ones keep an automaton, there is room for the next one's. */
static void what_is_kept_makes_room(void **state)
{
    enum { N = 60 };
    struct sw_regex *re[N];

    (void)state;
    for (size_t i = 0; i < N; i++) {
        struct sw_budget b = {.steps = SW_REGEX_STEPS};

        assert_int_equal(
            sw_regex_new(SW_SLICE_LIT("(?:(|)(|)(|)(|)(|)(|)(|)(|)(|)(|)){1000}"), &re[i], NULL),
            SW_OK);
        assert_int_equal(sw_regex_match(re[i], SW_SLICE_LIT(""), &b), 1);
        b = (struct sw_budget){.steps = 100};
        assert_int_equal(sw_regex_match(re[i], SW_SLICE_LIT(""), &b), 1);
    }
    for (size_t i = 0; i < N; i++)
        sw_regex_free(re[i]);
}

static void a_cancelled_budget_ends_the_match(void **state)
{
    struct sw_budget b = {.steps = UINT64_MAX};
    struct sw_regex *re = NULL;

    (void)state;
    assert_int_equal(sw_regex_new(SW_SLICE_LIT("a"), &re, NULL), SW_OK);
    assert_int_equal(sw_regex_match(re, SW_SLICE_LIT("a"), &b), 1);
    sw_budget_cancel(&b);
    assert_int_equal(sw_regex_match(re, SW_SLICE_LIT("a"), &b), SW_ELIMIT);
    sw_regex_free(re);
}

/* More states than are kept: they are forgotten, and found again. */
static void full_caches_are_emptied(void **state)
{
    struct sw_regex *re = NULL;
    char text[5000];
    uint64_t seed = 5;

    (void)state;
    assert_int_equal(sw_regex_new(SW_SLICE_LIT("[ab]*a[ab]{14}c"), &re, NULL), SW_OK);
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = rnd(&seed, 2) ? 'a' : 'b';
    assert_int_equal(sw_regex_match(re, sw_slice(text, sizeof(text)), NULL), 0);
    text[4000] = 'c';
    text[4000 - 15] = 'a';
    assert_int_equal(sw_regex_match(re, sw_slice(text, sizeof(text)), NULL), 1);
    text[4000 - 15] = 'b';
    assert_int_equal(sw_regex_match(re, sw_slice(text, sizeof(text)), NULL), 0);
    sw_regex_free(re);
}

static void *match_often(void *arg)
{
    const struct sw_regex *re = arg;
    uintptr_t wrong = 0;

    for (int i = 0; i < 20000; i++) {
        wrong += sw_regex_match(re, SW_SLICE_LIT("/api/v1/users/bob"), NULL) != 1;
        wrong += sw_regex_match(re, SW_SLICE_LIT("/api/vx/users/bob"), NULL) != 0;
    }
    return (void *)wrong;
}

static void threads_share_an_expression(void **state)
{
    struct sw_regex *re = NULL;
    pthread_t t[12];

    (void)state;
    assert_int_equal(sw_regex_new(SW_SLICE_LIT("^/api/v[0-9]+/users/[^/]+$"), &re, NULL), SW_OK);
    for (size_t i = 0; i < SW_ARRAY_LEN(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, match_often, re), 0);
    for (size_t i = 0; i < SW_ARRAY_LEN(t); i++) {
        void *wrong;

        assert_int_equal(pthread_join(t[i], &wrong), 0);
        assert_null(wrong);
    }
    sw_regex_free(re);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_are_leftmost_first),
        cmocka_unit_test(bytes_are_characters),
        cmocka_unit_test(searches_go_on_from_an_offset),
        cmocka_unit_test(random_patterns_agree_with_the_naive_matcher),
        cmocka_unit_test(hostile_patterns_take_linear_work),
        cmocka_unit_test(a_budget_that_ends_is_no_match),
        cmocka_unit_test(a_new_automaton_is_paid_for),
        cmocka_unit_test(what_is_kept_makes_room),
        cmocka_unit_test(a_cancelled_budget_ends_the_match),
        cmocka_unit_test(full_caches_are_emptied),
        cmocka_unit_test(threads_share_an_expression),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
