/* SPDX-License-Identifier: Apache-2.0 */
/* Reading, editing, comparing, copying and writing JSON trees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/rand.h"

static struct sw_json *parse(struct sw_arena *a, const char *text)
{
    struct sw_json *v = NULL;

    assert_int_equal(sw_json_parse(a, sw_slice_str(text), NULL, &v, NULL), SW_OK);
    return v;
}

static const char *text_of(struct sw_arena *a, const struct sw_json *v)
{
    return sw_json_text(a, v, NULL).p;
}

static void reads_missing_things_as_missing(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *v = parse(&a, "{\"a\":{\"b\":[true,\"s\"]}}");

    assert_null(sw_json_find(NULL, "a"));
    assert_null(sw_json_find(v, "x"));
    assert_null(sw_json_walk(v, "a", "x", "y", NULL));
    assert_null(sw_json_at(v, 0));
    assert_null(sw_json_at(sw_json_walk(v, "a", "b", NULL), 2));
    assert_true(sw_json_true(sw_json_at(sw_json_walk(v, "a", "b", NULL), 0)));
    assert_false(sw_json_true(NULL));
    assert_null(sw_json_str(v).p);
    assert_null(sw_json_member_at(NULL, 0));
    assert_int_equal(sw_json_len(NULL), 0);
    assert_int_equal(sw_json_index_of(v, SW_SLICE_LIT("a")), 0);
    assert_int_equal(sw_json_index_of(v, SW_SLICE_LIT("b")), -1);
    assert_string_equal(sw_json_type_name(SW_JSON_BOOL), "boolean");
    assert_int_equal(sw_json_depth(v), 3);
    assert_int_equal(sw_json_depth(NULL), 0);
}

static void walks_items_and_members_in_order(void **state)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_json *v = parse(&a, "{\"l\":[1,2,3],\"e\":[],\"t\":\"s\"}");
    SW_BUF_AUTO seen = {.max = 100};

    SW_JSON_MEMBERS (m, v) {
        assert_int_equal(sw_buf_append_slice(&seen, m->key), SW_OK);
        SW_JSON_ITEMS (x, m->value) {
            if (sw_slice_eq_str(x->text, "2"))
                continue;
            assert_int_equal(sw_buf_append_slice(&seen, x->text), SW_OK);
        }
    }
    SW_JSON_MEMBERS (m, sw_json_find(v, "l"))
        fail_msg("an array has no member '%.*s'", SW_SLICE_ARG(m->key));
    SW_JSON_ITEMS (x, v)
        fail_msg("an object has no item of type %d", x->type);
    SW_JSON_ITEMS (x, NULL)
        fail_msg("nothing has no item of type %d", x->type);
    assert_true(sw_slice_eq_str(sw_buf_slice(&seen), "l13et"));
}

static void makes_objects_of_the_members_that_have_a_value(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *v = SW_JSON_OF(
        &a, {"a", .str = "x"}, {"b", .str = NULL}, {"c", .text = SW_SLICE_LIT("")},
        {"d", .some = SW_SLICE_LIT("")}, {"e", .some = SW_SLICE_LIT("y")},
        {"f", .json = sw_json_new_list(&a, sw_json_new_bool(&a, true))}, {"g", .json = NULL});

    assert_string_equal(text_of(&a, v), "{\"a\":\"x\",\"c\":\"\",\"e\":\"y\",\"f\":[true]}");
    assert_ptr_equal(sw_json_need(&a, v, "f", SW_JSON_ARRAY), sw_json_find(v, "f"));
    assert_int_equal(sw_json_need(&a, v, "a", SW_JSON_OBJECT)->type, SW_JSON_OBJECT);
    assert_int_equal(sw_json_need(&a, v, "z", SW_JSON_ARRAY)->type, SW_JSON_ARRAY);
    assert_string_equal(text_of(&a, v), "{\"a\":{},\"c\":\"\",\"e\":\"y\",\"f\":[true],\"z\":[]}");
}

static const struct {
    const char *text;
    bool i64_ok;
    int64_t i64;
    bool u64_ok;
    uint64_t u64;
    bool exact_ok;
    int64_t exact;
} integers[] = {
    {"0", true, 0, true, 0, true, 0},
    {"-0", true, 0, true, 0, true, 0},
    {"9223372036854775807", true, INT64_MAX, true, INT64_MAX, true, INT64_MAX},
    {"9223372036854775808", false, 0, true, UINT64_C(9223372036854775808), false, 0},
    {"-9223372036854775808", true, INT64_MIN, false, 0, true, INT64_MIN},
    {"-9223372036854775809", false, 0, false, 0, false, 0},
    {"18446744073709551615", false, 0, true, UINT64_MAX, false, 0},
    {"18446744073709551616", false, 0, false, 0, false, 0},
    {"1.0", false, 0, false, 0, true, 1},
    {"1.50", false, 0, false, 0, false, 0},
    {"150e-1", false, 0, false, 0, true, 15},
    {"155e-1", false, 0, false, 0, false, 0},
    {"1.2e3", false, 0, false, 0, true, 1200},
    {"-9.223372036854775808e18", false, 0, false, 0, true, INT64_MIN},
    {"9.223372036854775808e18", false, 0, false, 0, false, 0},
    {"1e18", false, 0, false, 0, true, INT64_C(1000000000000000000)},
    {"1e19", false, 0, false, 0, false, 0},
    {"1e99999999999999999999999", false, 0, false, 0, false, 0},
    {"0e99999999999999999999999", false, 0, false, 0, true, 0},
    {"0.000e5", false, 0, false, 0, true, 0},
    {"1e-99999999999999999999999", false, 0, false, 0, false, 0},
};

static void converts_integers_exactly_or_not_at_all(void **state)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(integers); i++) {
        struct sw_json v = {.type = SW_JSON_NUMBER, .text = sw_slice_str(integers[i].text)};
        int64_t n = 0;
        uint64_t u = 0;

        assert_true(sw_json_number_valid(v.text));
        assert_int_equal(sw_json_i64(&v, &n), integers[i].i64_ok);
        assert_int_equal(n, integers[i].i64);
        assert_int_equal(sw_json_u64(&v, &u), integers[i].u64_ok);
        assert_int_equal(u, integers[i].u64);
        n = 0;
        assert_int_equal(sw_json_exact_i64(&v, &n), integers[i].exact_ok);
        assert_int_equal(n, integers[i].exact);
        assert_int_equal(sw_json_is_integer(&v), !strpbrk(integers[i].text, ".e"));
    }
}

static void refuses_texts_that_are_no_numbers(void **state)
{
    static const char *const bad[] = {"", "-", "1.", ".1", "01", "1e", "1 ", "0x1", "--1", "1e1.5"};

    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++)
        assert_false(sw_json_number_valid(sw_slice_str(bad[i])));
}

static const struct {
    double d;
    const char *text; /* as Go's encoding/json writes it */
} doubles[] = {
    {0, "0"},
    {1, "1"},
    {-1.5, "-1.5"},
    {0.1, "0.1"},
    {100, "100"},
    {1e20, "100000000000000000000"},
    {1e21, "1e+21"},
    {1.5e300, "1.5e+300"},
    {0.000001, "0.000001"},
    {0.0000001, "1e-7"},
    {1.7976931348623157e308, "1.7976931348623157e+308"},
    {5e-324, "5e-324"},
    {123456789.125, "123456789.125"},
    {0.30000000000000004, "0.30000000000000004"},
    {12345678901234567890.0, "12345678901234567000"},
    {-0.00012, "-0.00012"},
};

static void formats_doubles_as_go_does(void **state)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(doubles); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_json *v = sw_json_new_double(&a, doubles[i].d);
        double back;

        assert_true(sw_slice_eq_str(v->text, doubles[i].text));
        assert_true(sw_json_double(v, &back));
        assert_true(back == doubles[i].d);
    }
    for (int i = 0; i < 20000; i++) {
        SW_ARENA_AUTO a = {0};
        uint64_t bits = sw_rand_u64();
        double d;
        double back;

        memcpy(&d, &bits, sizeof(d));
        if (!__builtin_isfinite(d))
            continue;
        assert_true(sw_json_double(sw_json_new_double(&a, d), &back));
        assert_memory_equal(&d, &back, sizeof(d));
    }
}

static void refuses_doubles_out_of_range(void **state)
{
    SW_ARENA_AUTO a = {0};
    double d;
    char digits[400];

    assert_false(sw_json_double(parse(&a, "1e400"), &d));
    assert_true(sw_json_double(parse(&a, "1e-400"), &d));
    assert_true(d == 0);
    memset(digits, '1', sizeof(digits) - 1);
    digits[sizeof(digits) - 1] = '\0';
    assert_false(sw_json_double(parse(&a, digits), &d));
    digits[1] = '.';
    assert_true(sw_json_double(parse(&a, digits), &d));
    assert_false(sw_json_double(parse(&a, "\"1\""), &d));
}

static const struct {
    const char *a;
    const char *b;
    int order;
} number_order[] = {
    {"1", "1.0", 0},
    {"1", "10e-1", 0},
    {"0", "-0.0", 0},
    {"1", "2", -1},
    {"-1", "-2", 1},
    {"1", "-1", 1},
    {"0", "1e-999999999999999999", -1},
    {"-1", "0", -1},
    {"12", "1.2e1", 0},
    {"1.0000000000000000001", "1", 1},
    {"9007199254740993", "9007199254740992", 1},
    {"123e3", "12.3e4", 0},
    {"0.00123", "1.23e-3", 0},
    {"99", "100", -1},
    {"1e3", "999.9", 1},
    {"120", "12", 1},
    {"0.5", "0.05", 1},
    {"100", "1e2", 0},
};

static void compares_numbers_by_value(void **state)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(number_order); i++) {
        struct sw_slice x = sw_slice_str(number_order[i].a);
        struct sw_slice y = sw_slice_str(number_order[i].b);

        assert_int_equal(sw_json_number_cmp(x, y), number_order[i].order);
        assert_int_equal(sw_json_number_cmp(y, x), -number_order[i].order);
    }
}

static void compares_trees(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *x = parse(&a, "{\"a\":1,\"b\":[true,null,\"s\",{}]}");
    struct sw_json *y = parse(&a, "{\"b\":[true,null,\"s\",{}],\"a\":1.0}");

    assert_true(sw_json_equal(x, y, SW_JSON_EQ_VALUE));
    assert_false(sw_json_equal(x, y, SW_JSON_EQ_TEXT));
    assert_true(sw_json_equal(NULL, NULL, 0));
    assert_false(sw_json_equal(x, NULL, 0));
    assert_false(sw_json_equal(parse(&a, "[1,2]"), parse(&a, "[2,1]"), 0));
    assert_false(sw_json_equal(parse(&a, "[1]"), parse(&a, "[1,1]"), 0));
    assert_false(sw_json_equal(parse(&a, "{\"a\":1}"), parse(&a, "{\"b\":1}"), 0));
    assert_false(sw_json_equal(parse(&a, "true"), parse(&a, "false"), 0));
    assert_false(sw_json_equal(parse(&a, "\"1\""), parse(&a, "1"), 0));
}

static void copies_share_nothing(void **state)
{
    SW_ARENA_AUTO keep = {0};
    struct sw_json *copy;
    {
        SW_ARENA_AUTO a = {0};
        struct sw_json *v =
            parse(&a, "{\"a\":[1,\"\\n\",{}],\"b\":{\"c\":false,\"d\":null},\"e\":[]}");

        copy = sw_json_copy(&keep, v);
        sw_json_put_str(&a, sw_json_find(v, "b"), "c", SW_SLICE_LIT("changed"));
    }
    assert_string_equal(text_of(&keep, copy),
                        "{\"a\":[1,\"\\n\",{}],\"b\":{\"c\":false,\"d\":null},\"e\":[]}");
}

static void edits_objects_in_place(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *v = parse(&a, "{\"a\":1,\"b\":2,\"c\":3}");
    struct sw_json *b = sw_json_find(v, "b");

    sw_json_put(&a, v, "b", sw_json_new_bool(&a, true));
    sw_json_put(&a, v, "d", sw_json_new_null(&a));
    assert_string_equal(text_of(&a, v), "{\"a\":1,\"b\":true,\"c\":3,\"d\":null}");
    assert_true(sw_slice_eq_str(b->text, "2"));
    assert_non_null(sw_json_remove(v, SW_SLICE_LIT("a")));
    assert_null(sw_json_remove(v, SW_SLICE_LIT("a")));
    sw_json_insert(&a, v, 0, SW_SLICE_LIT("z"), sw_json_new_i64(&a, -7));
    sw_json_insert(&a, v, 2, SW_SLICE_LIT("y"), sw_json_new_u64(&a, UINT64_MAX));
    assert_string_equal(text_of(&a, v),
                        "{\"z\":-7,\"b\":true,\"y\":18446744073709551615,\"c\":3,\"d\":null}");
    sw_json_sort_members(v);
    assert_string_equal(text_of(&a, v),
                        "{\"b\":true,\"c\":3,\"d\":null,\"y\":18446744073709551615,\"z\":-7}");
    assert_non_null(sw_json_remove_at(v, 4));
    assert_null(sw_json_remove_at(v, 4));
}

static void edits_arrays_in_place(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *v = sw_json_new_array(&a);

    for (int i = 0; i < 10; i++)
        sw_json_push(&a, v, sw_json_new_i64(&a, i));
    sw_json_insert_item(&a, v, 0, sw_json_new_str(&a, "first"));
    sw_json_insert_item(&a, v, 11, sw_json_new_str(&a, "last"));
    assert_non_null(sw_json_remove_at(v, 5));
    assert_string_equal(text_of(&a, v), "[\"first\",0,1,2,3,5,6,7,8,9,\"last\"]");
}

/* The index of a big object follows random edits: compared with a plain table. */
static void big_objects_stay_consistent(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *v = sw_json_new_object(&a);
    int64_t model[300];

    for (size_t i = 0; i < SW_ARRAY_LEN(model); i++)
        model[i] = -1;
    for (int round = 0; round < 20000; round++) {
        size_t k = sw_rand_below(SW_ARRAY_LEN(model));
        char key[16];
        size_t live = 0;

        (void)snprintf(key, sizeof(key), "k%zu", k);
        if (sw_rand_below(3) == 0) {
            assert_int_equal(sw_json_remove(v, sw_slice_str(key)) != NULL, model[k] >= 0);
            model[k] = -1;
        } else {
            sw_json_insert(&a, v, sw_rand_below(sw_json_len(v) + 1), sw_slice_str(key),
                           sw_json_new_i64(&a, round));
            model[k] = round;
        }
        if (round % 1000 == 999)
            sw_json_sort_members(v);
        if (round % 97)
            continue;
        for (size_t i = 0; i < SW_ARRAY_LEN(model); i++) {
            int64_t n = -1;

            (void)snprintf(key, sizeof(key), "k%zu", i);
            if (sw_json_find(v, key))
                assert_true(sw_json_i64(sw_json_find(v, key), &n));
            assert_int_equal(n, model[i]);
            live += model[i] >= 0;
        }
        assert_int_equal(sw_json_len(v), live);
    }
}

static void writes_compact_and_like_go_indent(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *v = parse(&a, "{\"b\":[1,{},[],{\"x\":null}],\"a\":\"<&>\\u2028\"}");
    struct sw_json_write_opts pretty = {.indent = 2,
                                        .flags = SW_JSON_GO_ESCAPE | SW_JSON_SORT_KEYS};

    assert_string_equal(text_of(&a, v), "{\"b\":[1,{},[],{\"x\":null}],\"a\":\"<&>\xe2\x80\xa8\"}");
    assert_string_equal(sw_json_text(&a, v, &pretty).p,
                        "{\n"
                        "  \"a\": \"\\u003c\\u0026\\u003e\\u2028\",\n"
                        "  \"b\": [\n"
                        "    1,\n"
                        "    {},\n"
                        "    [],\n"
                        "    {\n"
                        "      \"x\": null\n"
                        "    }\n"
                        "  ]\n"
                        "}");
}

static void escapes_what_must_be_escaped(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *v = sw_json_new_string(
        &a, SW_SLICE_LIT("\"\\/\b\f\n\r\t\x01\x1f\x7f\0 <long plain text follows here> \xff\xc3\xa9"
                         "\xe2\x80\xa9\xed\xa0\x80"));

    assert_string_equal(text_of(&a, v),
                        "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\\u0000 <long plain text "
                        "follows here> \\ufffd\xc3\xa9\xe2\x80\xa9\\ufffd\\ufffd\\ufffd\"");
}

static void streams_tokens(void **state)
{
    struct sw_json_write_opts opts = {.indent = 1};
    SW_BUF_AUTO b;
    struct sw_jw w;

    sw_buf_init(&b, 1024);
    sw_jw_begin(&w, &b, NULL);
    sw_jw_object(&w);
    sw_jw_name(&w, "items");
    sw_jw_array(&w);
    sw_jw_i64(&w, -1);
    sw_jw_u64(&w, 2);
    sw_jw_double(&w, 0.5);
    sw_jw_bool(&w, false);
    sw_jw_null(&w);
    sw_jw_raw(&w, SW_SLICE_LIT("{\"raw\":1}"));
    sw_jw_array_end(&w);
    sw_jw_key(&w, SW_SLICE_LIT("s"));
    sw_jw_str(&w, "x");
    sw_jw_object_end(&w);
    assert_int_equal(sw_jw_end(&w), SW_OK);
    assert_true(sw_slice_eq_str(sw_buf_slice(&b),
                                "{\"items\":[-1,2,0.5,false,null,{\"raw\":1}],\"s\":\"x\"}"));

    sw_buf_clear(&b);
    sw_jw_begin(&w, &b, &opts);
    sw_jw_array(&w);
    sw_jw_array(&w);
    sw_jw_array_end(&w);
    sw_jw_null(&w);
    sw_jw_array_end(&w);
    assert_int_equal(sw_jw_end(&w), SW_OK);
    assert_true(sw_slice_eq_str(sw_buf_slice(&b), "[\n [],\n null\n]"));
}

static void builds_objects_from_outside_in(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *o = sw_json_new_object(&a);
    struct sw_json *list;

    sw_json_put_text(&a, sw_json_put_object(&a, o, "metadata"), "name", "x");
    list = sw_json_put_array(&a, o, "items");
    sw_json_put_text(&a, sw_json_push_object(&a, list), "id", "1");
    (void)sw_json_push_object(&a, list);
    assert_string_equal(sw_json_text(&a, o, NULL).p,
                        "{\"metadata\":{\"name\":\"x\"},\"items\":[{\"id\":\"1\"},{}]}");
}

static void stops_at_the_buffer_limit(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *v = parse(&a, "{\"key\":[\"value\\n\",12345,{\"a\":\"b\"}]}");
    size_t full = sw_json_text(&a, v, NULL).n;

    for (size_t max = 0; max < full; max++) {
        SW_BUF_AUTO b;

        sw_buf_init(&b, max);
        assert_int_equal(sw_json_write(&b, v, NULL), SW_ELIMIT);
        assert_true(sw_buf_len(&b) <= max);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_missing_things_as_missing),
        cmocka_unit_test(walks_items_and_members_in_order),
        cmocka_unit_test(makes_objects_of_the_members_that_have_a_value),
        cmocka_unit_test(converts_integers_exactly_or_not_at_all),
        cmocka_unit_test(refuses_texts_that_are_no_numbers),
        cmocka_unit_test(formats_doubles_as_go_does),
        cmocka_unit_test(refuses_doubles_out_of_range),
        cmocka_unit_test(compares_numbers_by_value),
        cmocka_unit_test(compares_trees),
        cmocka_unit_test(copies_share_nothing),
        cmocka_unit_test(edits_objects_in_place),
        cmocka_unit_test(edits_arrays_in_place),
        cmocka_unit_test(big_objects_stay_consistent),
        cmocka_unit_test(writes_compact_and_like_go_indent),
        cmocka_unit_test(escapes_what_must_be_escaped),
        cmocka_unit_test(streams_tokens),
        cmocka_unit_test(builds_objects_from_outside_in),
        cmocka_unit_test(stops_at_the_buffer_limit),
    };

    return cmocka_run_group_tests_name("json_tree", tests, NULL, NULL);
}
