/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "yaml/yaml.h"

static const struct sw_yaml *parse(struct sw_arena *a, const char *text)
{
    const struct sw_yaml *root = NULL;
    struct sw_err err = {0};

    if (sw_yaml_parse_one(a, sw_slice_str(text), NULL, &root, &err) != SW_OK)
        fail_msg("%s", err.msg);
    return root;
}

static void expect_error(const char *text, const struct sw_yaml_limits *limits, int rc,
                         const char *msg)
{
    SW_ARENA_AUTO a = {0};
    struct sw_yaml_stream s = {.n = 77};
    struct sw_err err = {0};

    assert_int_equal(sw_yaml_parse(&a, sw_slice_str(text), limits, &s, &err), rc);
    assert_string_equal(err.msg, msg);
    assert_int_equal(s.n, 77); /* untouched */
}

static void nodes_carry_line_and_column(void **state)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_yaml *root = parse(&a, "# comment\nkey: value\nlist:\n  - one\n  - {x: 1}\n");
    const struct sw_yaml *list = sw_yaml_get(root, "list");

    (void)state;
    assert_int_equal(root->kind, SW_YAML_MAP);
    assert_int_equal(root->count, 2);
    assert_int_equal(root->first->key->line, 2);
    assert_int_equal(root->first->key->column, 1);
    assert_int_equal(root->first->line, 2);
    assert_int_equal(root->first->column, 6);
    assert_int_equal(list->count, 2);
    assert_int_equal(list->first->line, 4);
    assert_int_equal(list->first->column, 5);
    assert_int_equal(list->first->next->kind, SW_YAML_MAP);
    assert_int_equal(list->first->next->first->column, 9);
    assert_null(sw_yaml_get(root, "nothing"));
    assert_null(sw_yaml_get(list, "key"));
}

static void scalars_are_typed_by_the_core_schema(void **state)
{
    static const struct {
        const char *text;
        enum sw_yaml_type type;
    } cases[] = {
        {"~", SW_YAML_NULL},       {"null", SW_YAML_NULL},   {"NULL", SW_YAML_NULL},
        {"true", SW_YAML_BOOL},    {"False", SW_YAML_BOOL},  {"yes", SW_YAML_STR},
        {"on", SW_YAML_STR},       {"0", SW_YAML_INT},       {"-12", SW_YAML_INT},
        {"+7", SW_YAML_INT},       {"0x1F", SW_YAML_INT},    {"0o17", SW_YAML_INT},
        {"0xg", SW_YAML_STR},      {"0x", SW_YAML_STR},      {"1.5", SW_YAML_FLOAT},
        {"1.", SW_YAML_FLOAT},     {".5", SW_YAML_FLOAT},    {"1e9", SW_YAML_FLOAT},
        {"-.inf", SW_YAML_FLOAT},  {".nan", SW_YAML_FLOAT},  {"1e", SW_YAML_STR},
        {".", SW_YAML_STR},        {"1.2.3.4", SW_YAML_STR}, {"\"1\"", SW_YAML_STR},
        {"'true'", SW_YAML_STR},   {"!!str 1", SW_YAML_STR}, {"!!int 1", SW_YAML_INT},
        {"! 1", SW_YAML_STR},      {"1:30", SW_YAML_STR},    {"- ", SW_YAML_STR},
        {"|\n  1\n", SW_YAML_STR}, {"1_000", SW_YAML_STR},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        const struct sw_yaml *n = parse(&a, cases[i].text);

        if (sw_yaml_type(n) != cases[i].type)
            fail_msg("'%s' is %s", cases[i].text, sw_yaml_describe(n));
    }
}

static void readers_check_types_and_ranges(void **state)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_yaml *root =
        parse(&a, "s: word\nq: \"12\"\nb: true\nn: 0x10\nneg: -3\nbig: 99999999999999999999\n"
                  "e: Two\nl: [1]\nz: ~\n");
    static const char *const names[] = {"One", "Two", NULL};
    struct sw_slice s;
    struct sw_err err;
    int64_t v;
    bool b;
    int e;

    (void)state;
    assert_int_equal(sw_yaml_str(sw_yaml_get(root, "s"), &s, &err), SW_OK);
    assert_true(sw_slice_eq_str(s, "word"));
    assert_int_equal(sw_yaml_str(sw_yaml_get(root, "q"), &s, &err), SW_OK);
    assert_int_equal(sw_yaml_str(sw_yaml_get(root, "n"), &s, &err), SW_EINVAL);
    assert_string_equal(err.msg, "line 4 column 4: expected a string, found a number");
    assert_int_equal(sw_yaml_text(sw_yaml_get(root, "n"), &s, &err), SW_OK);
    assert_true(sw_slice_eq_str(s, "0x10"));
    assert_int_equal(sw_yaml_text(sw_yaml_get(root, "z"), &s, &err), SW_EINVAL);
    assert_int_equal(sw_yaml_bool(sw_yaml_get(root, "b"), &b, &err), SW_OK);
    assert_true(b);
    assert_int_equal(sw_yaml_bool(sw_yaml_get(root, "s"), &b, &err), SW_EINVAL);
    assert_int_equal(sw_yaml_int(sw_yaml_get(root, "n"), 0, 100, &v, &err), SW_OK);
    assert_int_equal(v, 16);
    assert_int_equal(sw_yaml_int(sw_yaml_get(root, "neg"), -5, 0, &v, &err), SW_OK);
    assert_int_equal(v, -3);
    assert_int_equal(sw_yaml_int(sw_yaml_get(root, "neg"), 0, 5, &v, &err), SW_EINVAL);
    assert_string_equal(err.msg, "line 5 column 6: -3 is not between 0 and 5");
    assert_int_equal(sw_yaml_int(sw_yaml_get(root, "big"), INT64_MIN, INT64_MAX, &v, &err),
                     SW_EINVAL);
    assert_int_equal(sw_yaml_int(sw_yaml_get(root, "q"), 0, 50, &v, &err), SW_EINVAL);
    assert_int_equal(sw_yaml_enum(sw_yaml_get(root, "e"), names, &e, &err), SW_OK);
    assert_int_equal(e, 1);
    assert_int_equal(sw_yaml_enum(sw_yaml_get(root, "s"), names, &e, &err), SW_EINVAL);
    assert_string_equal(err.msg, "line 1 column 4: 'word' is not one of One, Two");
    assert_int_equal(sw_yaml_expect(sw_yaml_get(root, "l"), SW_YAML_MAP, &err), SW_EINVAL);
    assert_string_equal(err.msg, "line 8 column 4: expected a map, found a list");
}

static void extreme_integers_are_exact(void **state)
{
    SW_ARENA_AUTO a = {0};
    int64_t v;

    (void)state;
    assert_int_equal(sw_yaml_int(parse(&a, "-9223372036854775808"), INT64_MIN, 0, &v, NULL), SW_OK);
    assert_true(v == INT64_MIN);
    assert_int_equal(sw_yaml_int(parse(&a, "9223372036854775807"), 0, INT64_MAX, &v, NULL), SW_OK);
    assert_true(v == INT64_MAX);
    assert_int_equal(sw_yaml_int(parse(&a, "9223372036854775808"), 0, INT64_MAX, &v, NULL),
                     SW_EINVAL);
}

static void streams_hold_several_documents(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_yaml_stream s;
    const struct sw_yaml *one;
    struct sw_err err;

    (void)state;
    assert_int_equal(sw_yaml_parse(&a, SW_SLICE_LIT("a: 1\n---\n---\n- 2\n...\n"), NULL, &s, &err),
                     SW_OK);
    assert_int_equal(s.n, 3);
    assert_int_equal(s.docs[0]->kind, SW_YAML_MAP);
    assert_true(sw_yaml_is_null(s.docs[1]));
    assert_int_equal(s.docs[2]->kind, SW_YAML_SEQ);
    assert_int_equal(sw_yaml_parse(&a, SW_SLICE_LIT(""), NULL, &s, &err), SW_OK);
    assert_int_equal(s.n, 0);
    assert_int_equal(sw_yaml_parse_one(&a, SW_SLICE_LIT("# nothing\n"), NULL, &one, &err), SW_OK);
    assert_true(sw_yaml_is_null(one));
    assert_int_equal(sw_yaml_parse_one(&a, SW_SLICE_LIT("a\n---\nb\n"), NULL, &one, &err),
                     SW_EINVAL);
    assert_string_equal(err.msg, "line 3 column 1: only one document is expected");
}

static void duplicate_keys_are_refused(void **state)
{
    SW_BUF_AUTO many = {.max = 4096};

    (void)state;
    expect_error("a: 1\nb:\n  c: 1\n  c: 2\n", NULL, SW_EINVAL,
                 "line 4 column 3: duplicate key 'c'");
    for (int i = 0; i < 40; i++)
        assert_int_equal(sw_buf_printf(&many, "k%d: 1\n", i), SW_OK);
    assert_int_equal(sw_buf_append_str(&many, "k7: 2\n"), SW_OK);
    assert_int_equal(sw_buf_putc(&many, '\0'), SW_OK);
    expect_error(sw_buf_data(&many), NULL, SW_EINVAL, "line 41 column 1: duplicate key 'k7'");
}

static void aliases_share_but_are_charged(void **state)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_yaml *root = parse(&a, "x: &v [1, 2]\ny: *v\nz: *v\n");
    static const struct sw_yaml_limits few = {.nodes = 64};
    static const struct sw_yaml_limits two = {.aliases = 2};
    static const struct sw_yaml_limits shallow = {.depth = 4};

    (void)state;
    assert_int_equal(sw_yaml_get(root, "z")->count, 2);
    assert_true(sw_slice_eq_str(sw_yaml_get(root, "z")->key->text, "z"));
    expect_error("a: *nobody\n", NULL, SW_EINVAL, "line 1 column 4: alias to an unknown anchor");
    expect_error("a: &a [*a]\n", NULL, SW_EINVAL, "line 1 column 8: alias to an unknown anchor");
    expect_error("- &a 1\n- *a\n- *a\n- *a\n", &two, SW_ELIMIT,
                 "line 4 column 3: too many aliases");
    expect_error("- &a [1,2,3,4,5,6,7,8]\n- &b [*a,*a,*a,*a]\n- [*b,*b,*b,*b]\n", &few, SW_ELIMIT,
                 "line 3 column 4: too many nodes");
    expect_error("- &a [[1]]\n- [[*a]]\n", &shallow, SW_ELIMIT,
                 "line 2 column 5: nested too deeply");
    /* Anchors end with their document. */
    expect_error("&a 1\n---\n*a\n", NULL, SW_EINVAL, "line 3 column 1: alias to an unknown anchor");
}

static void bounds_hold(void **state)
{
    static const struct sw_yaml_limits tiny = {.bytes = 4};
    static const struct sw_yaml_limits shallow = {.depth = 3};
    static const struct sw_yaml_limits docs = {.docs = 2};
    SW_ARENA_AUTO a = {0};
    char deep[200];

    (void)state;
    expect_error("12345", &tiny, SW_ELIMIT, "line 1 column 1: more than 4 bytes");
    expect_error("[[[[1]]]]", &shallow, SW_ELIMIT, "line 1 column 4: nested too deeply");
    expect_error("1\n---\n2\n---\n3\n", &docs, SW_ELIMIT, "line 6 column 1: too many documents");
    memset(deep, '[', 64);
    memset(deep + 64, ']', 64);
    deep[128] = '\0';
    (void)parse(&a, deep); /* 64 levels are fine */
    memset(deep, '[', 65);
    memset(deep + 65, ']', 65);
    deep[130] = '\0';
    expect_error(deep, NULL, SW_ELIMIT, "line 1 column 65: nested too deeply");
}

static void malformed_text_is_placed(void **state)
{
    (void)state;
    expect_error("a: [1, 2\nb: 3\n", NULL, SW_EINVAL,
                 "line 2 column 2: did not find expected ',' or ']'");
    expect_error("{[a]: 1}", NULL, SW_EINVAL, "line 1 column 4: a key must be a plain value");
    expect_error("!thing x", NULL, SW_EINVAL, "line 1 column 1: tags are not supported here");
    expect_error("a: b: c\n", NULL, SW_EINVAL,
                 "line 1 column 5: mapping values are not allowed in this context");
}

static void local_tags_are_kept_on_request(void **state)
{
    static const struct sw_yaml_limits tags = {.local_tags = true};
    SW_ARENA_AUTO a = {0};
    const struct sw_yaml *root;

    (void)state;
    assert_int_equal(
        sw_yaml_parse_one(&a, SW_SLICE_LIT("[!Exact x, !Presence []]"), &tags, &root, NULL), SW_OK);
    assert_true(sw_slice_eq_str(root->first->tag, "!Exact"));
    assert_true(sw_slice_eq_str(root->first->next->tag, "!Presence"));
}

static void unknown_keys_are_named(void **state)
{
    static const char *const known[] = {"a", "b", NULL};
    SW_ARENA_AUTO a = {0};
    struct sw_err err;

    (void)state;
    assert_int_equal(sw_yaml_known_keys(parse(&a, "a: 1\nb: 2\n"), known, &err), SW_OK);
    assert_int_equal(sw_yaml_known_keys(parse(&a, "a: 1\n\"c d\": 2\n"), known, &err), SW_EINVAL);
    assert_string_equal(err.msg, "line 2 column 1: unknown key 'c d'");
}

static void bad_bytes_are_refused(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_yaml_stream s;
    struct sw_err err = {0};

    (void)state;
    assert_int_equal(sw_yaml_parse(&a, SW_SLICE_LIT("a: \xff\xfe"), NULL, &s, &err), SW_EINVAL);
    assert_int_equal(sw_yaml_parse(&a, SW_SLICE_LIT("a: b\0c"), NULL, &s, &err), SW_EINVAL);
    assert_int_equal(sw_yaml_parse(&a, sw_slice(NULL, 0), NULL, &s, &err), SW_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_carry_line_and_column),
        cmocka_unit_test(scalars_are_typed_by_the_core_schema),
        cmocka_unit_test(readers_check_types_and_ranges),
        cmocka_unit_test(extreme_integers_are_exact),
        cmocka_unit_test(streams_hold_several_documents),
        cmocka_unit_test(duplicate_keys_are_refused),
        cmocka_unit_test(aliases_share_but_are_charged),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(malformed_text_is_placed),
        cmocka_unit_test(local_tags_are_kept_on_request),
        cmocka_unit_test(unknown_keys_are_named),
        cmocka_unit_test(bad_bytes_are_refused),
    };

    return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}
