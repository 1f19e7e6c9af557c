/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "http/gzip.h"
#include "http/url.h"

static void target_is_split_at_the_first_mark(void **state)
{
    struct sw_slice path;
    struct sw_slice query;

    (void)state;
    sw_target_split(SW_SLICE_LIT("/a/b?x=1?2"), &path, &query);
    assert_true(sw_slice_eq_str(path, "/a/b"));
    assert_true(sw_slice_eq_str(query, "x=1?2"));
    sw_target_split(SW_SLICE_LIT("/a?"), &path, &query);
    assert_true(query.p && query.n == 0);
    sw_target_split(SW_SLICE_LIT("/a"), &path, &query);
    assert_null(query.p);
}

static void escapes_are_decoded_or_refused(void **state)
{
    static const struct {
        const char *in;
        const char *plain; /* NULL: refused */
        const char *plus;
    } cases[] = {
        {"abc", "abc", "abc"},
        {"a%20b", "a b", "a b"},
        {"a+b", "a+b", "a b"},
        {"%2f%2F", "//", "//"},
        {"%", NULL, NULL},
        {"%2", NULL, NULL},
        {"a%2", NULL, NULL},
        {"%zz", NULL, NULL},
        {"%00", NULL, NULL},
        {"%41", "A", "A"},
        {"%c3%a9", "\xc3\xa9", "\xc3\xa9"},
        {"", "", ""},
        {"x%4", NULL, NULL},
        {"%%41", NULL, NULL},
    };
    SW_ARENA_AUTO a = {0};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        for (int plus = 0; plus < 2; plus++) {
            const char *want = plus ? cases[i].plus : cases[i].plain;
            struct sw_slice out;
            struct sw_err err;
            int rc = sw_percent_decode(&a, sw_slice_str(cases[i].in), plus, &out, &err);

            assert_int_equal(rc, want ? SW_OK : SW_EINVAL);
            if (want)
                assert_true(sw_slice_eq_str(out, want));
        }
    }
}

static void all_but_unreserved_bytes_are_escaped(void **state)
{
    static const char in[] = "AZaz09-._~ /%+:\xc3\xa9\n";
    SW_BUF_AUTO b = {.max = 64};
    SW_BUF_AUTO small = {.max = 4};
    SW_ARENA_AUTO a = {0};
    struct sw_slice back;

    assert_int_equal(sw_percent_encode(&b, sw_slice_str(in)), SW_OK);
    assert_true(sw_slice_eq_str(sw_buf_slice(&b), "AZaz09-._~%20%2F%25%2B%3A%C3%A9%0A"));
    assert_int_equal(sw_percent_decode(&a, sw_buf_slice(&b), false, &back, NULL), SW_OK);
    assert_true(sw_slice_eq_str(back, in));
    assert_int_equal(sw_percent_encode(&small, sw_slice_str("ab//")), SW_ELIMIT);
    (void)state;
}

static void query_parameters_keep_their_order(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_query q;

    (void)state;
    assert_int_equal(
        sw_query_parse(&a, SW_SLICE_LIT("level=a%3Ddebug,b=info&&reset&x=1&x=2"), &q, NULL), SW_OK);
    assert_int_equal(q.n, 4);
    assert_true(sw_slice_eq_str(sw_query_get(&q, "level")->value, "a=debug,b=info"));
    assert_false(sw_query_get(&q, "reset")->has_value);
    assert_true(sw_slice_eq_str(sw_query_get(&q, "x")->value, "1"));
    assert_null(sw_query_get(&q, "y"));
    assert_int_equal(sw_query_parse(&a, sw_slice(NULL, 0), &q, NULL), SW_OK);
    assert_int_equal(q.n, 0);
}

static void query_is_bounded(void **state)
{
    SW_ARENA_AUTO a = {0};
    char in[2 * (SW_QUERY_MAX + 1)];
    struct sw_query q;

    (void)state;
    for (size_t i = 0; i < sizeof(in); i += 2) {
        in[i] = 'a';
        in[i + 1] = '&';
    }
    assert_int_equal(sw_query_parse(&a, sw_slice(in, sizeof(in) - 2), &q, NULL), SW_OK);
    assert_int_equal(q.n, SW_QUERY_MAX);
    assert_int_equal(sw_query_parse(&a, sw_slice(in, sizeof(in)), &q, NULL), SW_ELIMIT);
}

static void gzip_is_negotiated(void **state)
{
    static const struct {
        const char *accept;
        bool want;
    } cases[] = {
        {"gzip", true},        {"deflate, GZIP;q=0.5", true},
        {"gzip;q=0", false},   {"gzip; q=0.000", false},
        {"br", false},         {"", false},
        {"*", true},           {"*;q=0", false},
        {"*;q=0, gzip", true}, {"gzip;q=0, *", false},
        {"xgzip", false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++)
        assert_int_equal(sw_gzip_accepted(sw_slice_str(cases[i].accept)), cases[i].want);
}

static void gzip_respects_its_bound(void **state)
{
    SW_BUF_AUTO out = {.max = 10};

    (void)state;
    assert_int_equal(sw_gzip(SW_SLICE_LIT("hello"), &out), SW_ELIMIT);
    out.max = 65536;
    assert_int_equal(sw_gzip(SW_SLICE_LIT("hello"), &out), SW_OK);
    assert_int_equal((unsigned char)sw_buf_data(&out)[0], 0x1f);
    assert_int_equal((unsigned char)sw_buf_data(&out)[1], 0x8b);
}

static void collect(void *arg, struct sw_slice out)
{
    assert_int_equal(sw_buf_append_slice(arg, out), SW_OK);
    ((char *)(uintptr_t)out.p)[out.n] = 'x'; /* the byte behind is the reader's */
}

static void gzip_streams_flush_what_they_have(void **state)
{
    static const struct sw_gzip_opts small = {.level = -1, .window_bits = 12, .memory = 5};
    static const struct sw_gzip_opts wrong = {.level = -1, .window_bits = 16, .memory = 5};
    struct sw_gzip_stream *z = sw_gzip_stream_new(&small);
    SW_BUF_AUTO out = {.max = 1 << 20};
    static char noise[100000];
    uint32_t x = 1;
    size_t before;
    const unsigned char *end;

    (void)state;
    assert_null(sw_gzip_stream_new(&wrong));
    for (size_t i = 0; i < sizeof(noise); i++) {
        x = x * 1103515245 + 12345;
        noise[i] = (char)(x >> 16);
    }
    sw_gzip_stream_write(z, SW_SLICE_LIT("first"), false, collect, &out);
    before = sw_buf_len(&out);
    /* A flush ends with an empty stored block: nothing of it waits inside. */
    assert_memory_equal(sw_buf_data(&out) + before - 4, "\0\0\xff\xff", 4);
    sw_gzip_stream_write(z, sw_slice("", 0), false, collect, &out);
    assert_int_equal(sw_buf_len(&out), before);
    sw_gzip_stream_write(z, sw_slice(noise, sizeof(noise)), false, collect, &out);
    assert_true(sw_buf_len(&out) > sizeof(noise));
    sw_gzip_stream_write(z, sw_slice("", 0), true, collect, &out);
    end = (const unsigned char *)sw_buf_data(&out) + sw_buf_len(&out);
    assert_int_equal(end[-4] | end[-3] << 8 | end[-2] << 16, sizeof(noise) + 5);
    sw_gzip_stream_free(z);
    sw_gzip_stream_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(target_is_split_at_the_first_mark),
        cmocka_unit_test(escapes_are_decoded_or_refused),
        cmocka_unit_test(all_but_unreserved_bytes_are_escaped),
        cmocka_unit_test(query_parameters_keep_their_order),
        cmocka_unit_test(query_is_bounded),
        cmocka_unit_test(gzip_is_negotiated),
        cmocka_unit_test(gzip_respects_its_bound),
        cmocka_unit_test(gzip_streams_flush_what_they_have),
    };

    return cmocka_run_group_tests_name("url", tests, NULL, NULL);
}
