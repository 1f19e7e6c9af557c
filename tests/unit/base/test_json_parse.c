/* SPDX-License-Identifier: Apache-2.0 */
/* What the JSON parser takes, what it refuses and where it says the fault is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"

static struct sw_json *parse(struct sw_arena *a, const char *text)
{
    struct sw_json *v = NULL;
    struct sw_err err = {0};
    int rc = sw_json_parse(a, sw_slice_str(text), NULL, &v, &err);

    if (rc != SW_OK)
        print_error("'%s': %s\n", text, err.msg);
    assert_int_equal(rc, SW_OK);
    return v;
}

static const char *const accepted[] = {
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "-1",
    "10",
    "123456789012345678901234567890",
    "0.5",
    "-0.0",
    "1e5",
    "1E+5",
    "1e-5",
    "1.25E10",
    "\"\"",
    "\"a\"",
    " [ ] ",
    "{}",
    "[1,2,3]",
    "[[],{},[{}]]",
    "{\"a\":1,\"b\":[null]}",
    "\t\r\n 1 \n",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    "\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\"",
    "\"\\u0000\"",
    "\"\x7f\"",
    "\"\xc3\xa9\"",
    "\"\xe2\x82\xac\"",
    "\"\xf0\x9f\x98\x80\"",
    "\"\xf4\x8f\xbf\xbf\"",
    "\"\xef\xbf\xbf\"",
    "{\"\":0}",
    "{\"a\":{\"a\":{\"a\":{}}}}",
    "\"0123456789abcdef0123456789abcdef\"",
    "\"0123456789abcde\xc3\xa9\x66\\n0123456789abcdef\"",
    "{\"a\":1,\"A\":2}",
};

static void takes_wellformed_text(void **state)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(accepted); i++) {
        SW_ARENA_AUTO a = {0};

        assert_non_null(parse(&a, accepted[i]));
    }
}

static const struct {
    const char *in;
    size_t offset;
    const char *says; /* part of the message */
} refused[] = {
    {"", 0, "line 1, column 1: unexpected end, expected a value"},
    {"  ", 2, "unexpected end"},
    {"nul", 0, "expected a value"},
    {"True", 0, "unexpected 'T'"},
    {"01", 1, "expected a digit"},
    {"-", 1, "expected a digit"},
    {"+1", 0, "expected a value"},
    {"1.", 2, "expected a digit"},
    {".5", 0, "expected a value"},
    {"1e", 2, "expected a digit"},
    {"1e+", 3, "expected a digit"},
    {"-01", 2, "expected a digit"},
    {"1 2", 2, "expected the end"},
    {"1x", 1, "expected the end"},
    {"NaN", 0, "expected a value"},
    {"Infinity", 0, "expected a value"},
    {"[1,]", 3, "expected a value"},
    {"[,1]", 1, "expected a value"},
    {"[1 2]", 3, "expected ',' or ']'"},
    {"[1", 2, "expected ',' or ']'"},
    {"[", 1, "expected a value"},
    {"]", 0, "expected a value"},
    {"[1}", 2, "expected ',' or ']'"},
    {"{\"a\":1]", 6, "expected ',' or '}'"},
    {"{", 1, "expected a member name"},
    {"{a:1}", 1, "expected a member name"},
    {"{'a':1}", 1, "expected a member name"},
    {"{\"a\"}", 4, "expected ':'"},
    {"{\"a\":}", 5, "expected a value"},
    {"{\"a\":1,}", 7, "expected a member name"},
    {"{1:1}", 1, "expected a member name"},
    {"\"", 1, "unexpected end in a string"},
    {"\"a", 2, "unexpected end in a string"},
    {"\"\\", 2, "unexpected end in a string"},
    {"\"\\n", 3, "unexpected end in a string"},
    {"\"\\x41\"", 1, "unknown escape"},
    {"\"\\u12\"", 1, "bad \\u escape"},
    {"\"\\u12g4\"", 1, "bad \\u escape"},
    {"\"\\ud800\"", 1, "unpaired surrogate"},
    {"\"\\udc00\"", 1, "unpaired surrogate"},
    {"\"\\ud800\\u0041\"", 1, "unpaired surrogate"},
    {"\"\\ud800\\ud800\"", 1, "unpaired surrogate"},
    {"\"ab\tc\"", 3, "control character"},
    {"\"\\n\tc\"", 3, "control character"},
    {"\"\x80\"", 1, "invalid UTF-8"},
    {"\"\xc0\xaf\"", 1, "invalid UTF-8"},
    {"\"\xc3\"", 1, "invalid UTF-8"},
    {"\"\xe0\x80\xaf\"", 1, "invalid UTF-8"},
    {"\"\xed\xa0\x80\"", 1, "invalid UTF-8"},
    {"\"\xf4\x90\x80\x80\"", 1, "invalid UTF-8"},
    {"\"\xf8\x88\x80\x80\x80\"", 1, "invalid UTF-8"},
    {"\"\\n\xff\"", 3, "invalid UTF-8"},
    {"\"0123456789abcdef\xff\"", 17, "invalid UTF-8"},
    {"\xef\xbb\xbf{}", 0, "unexpected byte 0xef"},
    {"{\n  \"a\": 1,\n  \"b\" 2\n}", 18, "line 3, column 7: unexpected '2', expected ':'"},
    {"{\"a\":1,\"b\":2,\"a\":3}", 13, "duplicate member 'a'"},
    {"{\"x\":[0,{\"a\":1,\"a\":1}]}", 15, "duplicate member 'x[1].a'"},
    {"{\"a\":1,\"\\u0061\":1}", 7, "duplicate member 'a'"},
    {"// c\n1", 0, "unexpected '/'"},
};

static void refuses_malformed_text_and_says_where(void **state)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(refused); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_json *v = NULL;
        struct sw_err err = {0};
        int rc = sw_json_parse(&a, sw_slice_str(refused[i].in), NULL, &v, &err);

        if (rc != SW_EINVAL || err.offset != refused[i].offset || !strstr(err.msg, refused[i].says))
            print_error("'%s' gave %d at %zu: %s\n", refused[i].in, rc, err.offset, err.msg);
        assert_int_equal(rc, SW_EINVAL);
        assert_int_equal(err.rc, SW_EINVAL);
        assert_int_equal(err.offset, refused[i].offset);
        assert_non_null(strstr(err.msg, refused[i].says));
        assert_null(v);
    }
}

/* Every prefix of a text is refused, read from a buffer that ends exactly there. */
static void refuses_every_prefix(void **state)
{
    static const char text[] = "{\"a\": [1.5e3, \"x\\u00e9\\ud83d\\ude00\xc3\xa9\", true, null], "
                               "\"b\": {\"0123456789abcdef0123\": false}}";

    for (size_t n = 0; n < sizeof(text) - 1; n++) {
        SW_ARENA_AUTO a = {0};
        struct sw_json_opts opts = {.borrow = true};
        char *copy = sw_malloc(n ? n : 1);
        struct sw_json *v;

        memcpy(copy, text, n);
        assert_int_equal(sw_json_parse(&a, sw_slice(copy, n), &opts, &v, NULL), SW_EINVAL);
        sw_free(copy);
    }
}

static void decodes_strings(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice s = sw_json_str(
        parse(&a, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20ac\\ud83d\\ude00\\u0000z\""));

    assert_int_equal(s.n, 8 + 1 + 2 + 3 + 4 + 1 + 1);
    assert_memory_equal(s.p, "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\0z", s.n);
}

static void keeps_order_and_number_text(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *v = parse(&a, "{\"z\":1.10,\"a\":18446744073709551616,\"m\":-0.0e-7}");

    assert_int_equal(sw_json_len(v), 3);
    assert_true(sw_slice_eq_str(sw_json_member_at(v, 0)->key, "z"));
    assert_true(sw_slice_eq_str(sw_json_member_at(v, 2)->key, "m"));
    assert_true(sw_slice_eq_str(sw_json_find(v, "z")->text, "1.10"));
    assert_true(sw_slice_eq_str(sw_json_find(v, "a")->text, "18446744073709551616"));
    assert_true(sw_slice_eq_str(sw_json_find(v, "m")->text, "-0.0e-7"));
}

static void copies_the_input_unless_told_to_borrow(void **state)
{
    SW_ARENA_AUTO a = {0};
    char text[] = "[\"abc\", 12]";
    struct sw_json_opts opts = {.borrow = true};
    struct sw_json *own;
    struct sw_json *lent;

    assert_int_equal(sw_json_parse(&a, sw_slice_str(text), NULL, &own, NULL), SW_OK);
    assert_int_equal(sw_json_parse(&a, sw_slice_str(text), &opts, &lent, NULL), SW_OK);
    assert_ptr_equal(sw_json_at(lent, 0)->text.p, text + 2);
    memset(text, '#', sizeof(text));
    assert_true(sw_json_str_eq(sw_json_at(own, 0), "abc"));
    assert_true(sw_slice_eq_str(sw_json_at(own, 1)->text, "12"));
}

static void reports_duplicates_in_document_order(void **state)
{
    static const char *const want[] = {"a", "a.x", "list[1].k", "b"};
    static const char text[] = "{\"a\":1,\"b\":0,\"a\":{\"x\":1,\"x\":2},"
                               "\"list\":[{},{\"k\":1,\"k\":2}],\"b\":\"last\"}";
    SW_ARENA_AUTO a = {0};
    struct sw_json_dups dups;
    struct sw_json_opts opts = {.dups = &dups};
    struct sw_json *v;

    assert_int_equal(sw_json_parse(&a, sw_slice_str(text), &opts, &v, NULL), SW_OK);
    assert_int_equal(dups.n, SW_ARRAY_LEN(want));
    for (size_t i = 0; i < dups.n; i++)
        assert_true(sw_slice_eq_str(dups.p[i].path, want[i]));
    assert_int_equal(dups.p[0].offset, 13);
    assert_int_equal(sw_json_len(v), 3);
    assert_true(sw_slice_eq_str(sw_json_member_at(v, 1)->key, "b"));
    assert_true(sw_json_str_eq(sw_json_find(v, "b"), "last"));
    assert_true(sw_slice_eq_str(sw_json_walk(v, "a", "x", NULL)->text, "2"));
    assert_int_equal(sw_json_parse(&a, sw_slice_str("{}"), &opts, &v, NULL), SW_OK);
    assert_int_equal(dups.n, 0);
}

static char *repeat(const char *open, size_t n, const char *middle, const char *shut)
{
    size_t step = strlen(open) + strlen(shut);
    char *s = sw_malloc(step * n + strlen(middle) + 1);
    char *p = s;

    for (size_t i = 0; i < n; i++)
        p = stpcpy(p, open);
    p = stpcpy(p, middle);
    for (size_t i = 0; i < n; i++)
        p = stpcpy(p, shut);
    return s;
}

static void bounds_depth_size_and_nodes(void **state)
{
    SW_ARENA_AUTO a = {0};
    SW_AUTO_FREE char *fits = repeat("[", 1000, "", "]");
    SW_AUTO_FREE char *deep = repeat("[", 1001, "", "]");
    SW_AUTO_FREE char *abyss = repeat("{\"a\":", 100000, "1", "}");
    struct sw_json_opts opts = {.max_depth = 2};
    struct sw_err err;
    struct sw_json *v;

    assert_int_equal(sw_json_parse(&a, sw_slice_str(fits), NULL, &v, &err), SW_OK);
    assert_int_equal(sw_json_depth(v), 1000);
    assert_int_equal(sw_json_parse(&a, sw_slice_str(deep), NULL, &v, &err), SW_ELIMIT);
    assert_int_equal(err.offset, 1000);
    assert_int_equal(sw_json_parse(&a, sw_slice_str(abyss), NULL, &v, &err), SW_ELIMIT);
    assert_int_equal(sw_json_parse(&a, sw_slice_str("[[1]]"), &opts, &v, &err), SW_OK);
    assert_int_equal(sw_json_parse(&a, sw_slice_str("[[[1]]]"), &opts, &v, &err), SW_ELIMIT);

    opts = (struct sw_json_opts){.max_bytes = 5};
    assert_int_equal(sw_json_parse(&a, sw_slice_str("[1,2]"), &opts, &v, &err), SW_OK);
    assert_int_equal(sw_json_parse(&a, sw_slice_str("[1,2] "), &opts, &v, &err), SW_ELIMIT);

    opts = (struct sw_json_opts){.max_nodes = 3};
    assert_int_equal(sw_json_parse(&a, sw_slice_str("[1,2]"), &opts, &v, &err), SW_OK);
    assert_int_equal(sw_json_parse(&a, sw_slice_str("[1,2,3]"), &opts, &v, &err), SW_ELIMIT);
}

static void finds_members_of_big_objects(void **state)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO b;
    struct sw_json *v;
    struct sw_err err;
    char key[32];

    sw_buf_init(&b, 1 << 20);
    assert_int_equal(sw_buf_putc(&b, '{'), SW_OK);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(sw_buf_printf(&b, "%s\"key-%d\":%d", i ? "," : "", i, i), SW_OK);
    assert_int_equal(sw_buf_putc(&b, '}'), SW_OK);
    assert_int_equal(sw_json_parse(&a, sw_buf_slice(&b), NULL, &v, NULL), SW_OK);
    assert_int_equal(sw_json_len(v), 5000);
    for (int i = 0; i < 5000; i++) {
        int64_t n;

        (void)snprintf(key, sizeof(key), "key-%d", i);
        assert_true(sw_json_i64(sw_json_find(v, key), &n));
        assert_int_equal(n, i);
    }
    assert_null(sw_json_find(v, "key-5000"));
    b.p[b.n - 1] = ',';
    assert_int_equal(sw_buf_append_str(&b, "\"key-77\":0}"), SW_OK);
    assert_int_equal(sw_json_parse(&a, sw_buf_slice(&b), NULL, &v, &err), SW_EINVAL);
    assert_non_null(strstr(err.msg, "duplicate member 'key-77'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_wellformed_text),
        cmocka_unit_test(refuses_malformed_text_and_says_where),
        cmocka_unit_test(refuses_every_prefix),
        cmocka_unit_test(decodes_strings),
        cmocka_unit_test(keeps_order_and_number_text),
        cmocka_unit_test(copies_the_input_unless_told_to_borrow),
        cmocka_unit_test(reports_duplicates_in_document_order),
        cmocka_unit_test(bounds_depth_size_and_nodes),
        cmocka_unit_test(finds_members_of_big_objects),
    };

    return cmocka_run_group_tests_name("json_parse", tests, NULL, NULL);
}
