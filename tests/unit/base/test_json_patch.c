/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Pointer, Patch and Merge Patch: the RFCs' examples and the refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json/patch.h"
#include "base/mem.h"

static struct sw_json *parse(struct sw_arena *a, const char *text)
{
    struct sw_json *v = NULL;
    struct sw_err err;

    if (sw_json_parse(a, sw_slice_str(text), NULL, &v, &err) != SW_OK)
        fail_msg("'%s': %s", text, err.msg);
    return v;
}

static const struct {
    const char *pointer;
    int rc;
    const char *value;
} pointers[] = {
    /* RFC 6901 section 5 */
    {"/foo", SW_OK, "[\"bar\",\"baz\"]"},
    {"/foo/0", SW_OK, "\"bar\""},
    {"/", SW_OK, "0"},
    {"/a~1b", SW_OK, "1"},
    {"/c%d", SW_OK, "2"},
    {"/e^f", SW_OK, "3"},
    {"/g|h", SW_OK, "4"},
    {"/i\\j", SW_OK, "5"},
    {"/k\"l", SW_OK, "6"},
    {"/ ", SW_OK, "7"},
    {"/m~0n", SW_OK, "8"},
    {"/~01", SW_OK, "9"},
    {"foo", SW_EINVAL, NULL},
    {"/foo/01", SW_EINVAL, NULL},
    {"/foo/-1", SW_EINVAL, NULL},
    {"/foo/-", SW_EINVAL, NULL},
    {"/foo/2", SW_ENOENT, NULL},
    {"/nope", SW_ENOENT, NULL},
    {"/foo/0/x", SW_ENOENT, NULL},
    {"/a~2b", SW_EINVAL, NULL},
    {"/a~", SW_EINVAL, NULL},
    {"/foo/", SW_EINVAL, NULL},
    {"/foo/99999999999999999999", SW_EINVAL, NULL},
};

static void follows_pointers(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *doc =
        parse(&a, "{\"foo\":[\"bar\",\"baz\"],\"\":0,\"a/b\":1,\"c%d\":2,\"e^f\":3,"
                  "\"g|h\":4,\"i\\\\j\":5,\"k\\\"l\":6,\" \":7,\"m~n\":8,\"~1\":9}");
    struct sw_json *v;

    for (size_t i = 0; i < SW_ARRAY_LEN(pointers); i++) {
        struct sw_err err;

        assert_int_equal(sw_json_pointer_get(doc, sw_slice_str(pointers[i].pointer), &v, &err),
                         pointers[i].rc);
        if (pointers[i].rc == SW_OK)
            assert_true(sw_json_equal(v, parse(&a, pointers[i].value), SW_JSON_EQ_TEXT));
    }
    assert_int_equal(sw_json_pointer_get(doc, SW_SLICE_LIT(""), &v, NULL), SW_OK);
    assert_ptr_equal(v, doc);
}

static const struct {
    const char *doc;
    const char *patch;
    int rc;
    const char *result; /* or what the message holds */
} patches[] = {
    /* RFC 6902 appendix A */
    {"{\"foo\":\"bar\"}", "[{\"op\":\"add\",\"path\":\"/baz\",\"value\":\"qux\"}]", SW_OK,
     "{\"baz\":\"qux\",\"foo\":\"bar\"}"},
    {"{\"foo\":[\"bar\",\"baz\"]}", "[{\"op\":\"add\",\"path\":\"/foo/1\",\"value\":\"qux\"}]",
     SW_OK, "{\"foo\":[\"bar\",\"qux\",\"baz\"]}"},
    {"{\"baz\":\"qux\",\"foo\":\"bar\"}", "[{\"op\":\"remove\",\"path\":\"/baz\"}]", SW_OK,
     "{\"foo\":\"bar\"}"},
    {"{\"foo\":[\"bar\",\"qux\",\"baz\"]}", "[{\"op\":\"remove\",\"path\":\"/foo/1\"}]", SW_OK,
     "{\"foo\":[\"bar\",\"baz\"]}"},
    {"{\"baz\":\"qux\",\"foo\":\"bar\"}",
     "[{\"op\":\"replace\",\"path\":\"/baz\",\"value\":\"boo\"}]", SW_OK,
     "{\"baz\":\"boo\",\"foo\":\"bar\"}"},
    {"{\"foo\":{\"bar\":\"baz\",\"waldo\":\"fred\"},\"qux\":{\"corge\":\"grault\"}}",
     "[{\"op\":\"move\",\"from\":\"/foo/waldo\",\"path\":\"/qux/thud\"}]", SW_OK,
     "{\"foo\":{\"bar\":\"baz\"},\"qux\":{\"corge\":\"grault\",\"thud\":\"fred\"}}"},
    {"{\"foo\":[\"all\",\"grass\",\"cows\",\"eat\"]}",
     "[{\"op\":\"move\",\"from\":\"/foo/1\",\"path\":\"/foo/3\"}]", SW_OK,
     "{\"foo\":[\"all\",\"cows\",\"eat\",\"grass\"]}"},
    {"{\"baz\":\"qux\",\"foo\":[\"a\",2,\"c\"]}",
     "[{\"op\":\"test\",\"path\":\"/baz\",\"value\":\"qux\"},{\"op\":\"test\",\"path\":\"/foo/1\","
     "\"value\":2.0}]",
     SW_OK, "{\"baz\":\"qux\",\"foo\":[\"a\",2,\"c\"]}"},
    {"{\"baz\":\"qux\"}", "[{\"op\":\"test\",\"path\":\"/baz\",\"value\":\"bar\"}]", SW_EDENIED,
     "operation 0 (test '/baz'): "},
    {"{\"a\":{}}",
     "[{\"op\":\"test\",\"path\":\"/a/b\",\"value\":null},"
     "{\"op\":\"add\",\"path\":\"/a/b\",\"value\":1}]",
     SW_OK, "{\"a\":{\"b\":1}}"},
    {"{\"a\":null}", "[{\"op\":\"test\",\"path\":\"/a\",\"value\":null}]", SW_OK, "{\"a\":null}"},
    {"{\"a\":1}", "[{\"op\":\"test\",\"path\":\"/a\",\"value\":null}]", SW_EDENIED, "another"},
    {"{\"a\":1}", "[{\"op\":\"test\",\"path\":\"/b/c\",\"value\":null}]", SW_ENOENT, "no 'b'"},
    {"{\"a\":[1]}", "[{\"op\":\"test\",\"path\":\"/a/1\",\"value\":null}]", SW_ENOENT, "no '1'"},
    {"{\"a\":1}", "[{\"op\":\"test\",\"path\":\"\",\"value\":{\"a\":1}}]", SW_OK, "{\"a\":1}"},
    {"{\"foo\":\"bar\"}", "[{\"op\":\"add\",\"path\":\"/child\",\"value\":{\"grandchild\":{}}}]",
     SW_OK, "{\"foo\":\"bar\",\"child\":{\"grandchild\":{}}}"},
    {"{\"foo\":\"bar\"}", "[{\"op\":\"add\",\"path\":\"/baz\",\"value\":\"qux\",\"xyz\":123}]",
     SW_OK, "{\"foo\":\"bar\",\"baz\":\"qux\"}"},
    {"{\"foo\":\"bar\"}", "[{\"op\":\"add\",\"path\":\"/baz/bat\",\"value\":\"qux\"}]", SW_ENOENT,
     "operation 0 (add '/baz/bat'): there is no 'baz'"},
    {"{\"/\":9,\"~1\":10}", "[{\"op\":\"test\",\"path\":\"/~01\",\"value\":10}]", SW_OK,
     "{\"/\":9,\"~1\":10}"},
    {"{\"/\":9,\"~1\":10}", "[{\"op\":\"test\",\"path\":\"/~01\",\"value\":\"10\"}]", SW_EDENIED,
     "operation 0"},
    {"{\"foo\":[\"bar\"]}", "[{\"op\":\"add\",\"path\":\"/foo/-\",\"value\":[\"abc\",\"def\"]}]",
     SW_OK, "{\"foo\":[\"bar\",[\"abc\",\"def\"]]}"},
    /* more of the same */
    {"{\"a\":1}",
     "[{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/b\"},"
     "{\"op\":\"replace\",\"path\":\"/b\",\"value\":2}]",
     SW_OK, "{\"a\":1,\"b\":2}"},
    {"{\"a\":{\"x\":1}}",
     "[{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/b\"},"
     "{\"op\":\"add\",\"path\":\"/b/x\",\"value\":2}]",
     SW_OK, "{\"a\":{\"x\":1},\"b\":{\"x\":2}}"},
    {"{\"a\":1}", "[{\"op\":\"replace\",\"path\":\"\",\"value\":[]}]", SW_OK, "[]"},
    {"{\"a\":1}", "[{\"op\":\"add\",\"path\":\"\",\"value\":null}]", SW_OK, "null"},
    {"{\"a\":1}", "[{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/a\"}]", SW_OK, "{\"a\":1}"},
    {"{\"a\":1}", "[]", SW_OK, "{\"a\":1}"},
    {"{\"a\":{\"b\":1}}", "[{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/a/b\"}]", SW_EINVAL,
     "cannot move into itself"},
    {"{\"a\":{\"b\":1},\"ab\":{}}", "[{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/ab/c\"}]", SW_OK,
     "{\"ab\":{\"c\":{\"b\":1}}}"},
    {"{\"a\":1}", "[{\"op\":\"remove\",\"path\":\"\"}]", SW_EINVAL, "cannot be removed"},
    {"{\"a\":1}",
     "[{\"op\":\"test\",\"path\":\"/a\",\"value\":1},{\"op\":\"remove\",\"path\":\"/x\"}]",
     SW_ENOENT, "operation 1 (remove '/x'): there is no 'x'"},
    {"{\"a\":1}", "[{\"op\":\"replace\",\"path\":\"/x\",\"value\":1}]", SW_ENOENT, "no 'x'"},
    {"{\"a\":[1]}", "[{\"op\":\"add\",\"path\":\"/a/2\",\"value\":1}]", SW_ENOENT, "past the end"},
    {"{\"a\":[1]}", "[{\"op\":\"add\",\"path\":\"/a/x\",\"value\":1}]", SW_EINVAL,
     "not an array position"},
    {"{\"a\":[1]}", "[{\"op\":\"remove\",\"path\":\"/a/-\"}]", SW_EINVAL, "not an array position"},
    {"{\"a\":1}", "[{\"op\":\"add\",\"path\":\"/a/b\",\"value\":1}]", SW_ENOENT,
     "cannot add inside a number"},
    {"{\"a\":1}", "[{\"op\":\"add\",\"path\":\"/b\"}]", SW_EINVAL, "'value' is missing"},
    {"{\"a\":1}", "[{\"op\":\"copy\",\"path\":\"/b\"}]", SW_EINVAL, "'from' is missing"},
    {"{\"a\":1}", "[{\"op\":\"copy\",\"from\":\"/z\",\"path\":\"/b\"}]", SW_ENOENT, "from '/z': "},
    {"{\"a\":1}", "[{\"op\":\"move\",\"from\":\"/z\",\"path\":\"/b\"}]", SW_ENOENT, "from '/z': "},
    {"{\"a\":1}", "[{\"op\":\"frob\",\"path\":\"/b\"}]", SW_EINVAL, "unknown operation"},
    {"{\"a\":1}", "[{\"path\":\"/b\"}]", SW_EINVAL, "operation 0: 'op' is missing"},
    {"{\"a\":1}", "[{\"op\":\"remove\"}]", SW_EINVAL, "'path' is missing"},
    {"{\"a\":1}", "[7]", SW_EINVAL, "operation 0: not an object"},
    {"{\"a\":1}", "{}", SW_EINVAL, "array of operations"},
    {"{\"a\":1}", "[{\"op\":\"add\",\"path\":\"b\",\"value\":1}]", SW_EINVAL, "begin with '/'"},
};

static void applies_patches(void **state)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(patches); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_json *doc = parse(&a, patches[i].doc);
        struct sw_json *before = sw_json_copy(&a, doc);
        struct sw_json *result = NULL;
        struct sw_err err = {0};
        int rc = sw_json_patch(&a, doc, parse(&a, patches[i].patch), NULL, &result, &err);

        if (rc != patches[i].rc)
            print_error("%s: %d %s\n", patches[i].patch, rc, err.msg);
        assert_int_equal(rc, patches[i].rc);
        if (rc == SW_OK)
            assert_true(sw_json_equal(result, parse(&a, patches[i].result), SW_JSON_EQ_TEXT));
        else
            assert_non_null(strstr(err.msg, patches[i].result));
        assert_true(sw_json_equal(doc, before, SW_JSON_EQ_TEXT));
    }
}

static void bounds_what_a_patch_may_do(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json_patch_opts opts = {.max_ops = 2};
    struct sw_json *bomb = sw_json_new_array(&a);
    struct sw_json *doc = parse(&a, "{\"a\":[\"0123456789\"]}");
    struct sw_json *v;
    struct sw_err err;

    /* Each step doubles the document. */
    for (int i = 0; i < 64; i++)
        sw_json_push(&a, bomb, parse(&a, "{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/a/-\"}"));
    assert_int_equal(sw_json_patch(&a, doc, bomb, NULL, &v, &err), SW_ELIMIT);
    assert_non_null(strstr(err.msg, "copies too much"));
    assert_int_equal(sw_json_patch(&a, doc, bomb, &opts, &v, &err), SW_ELIMIT);
    assert_non_null(strstr(err.msg, "64 operations"));
}

static void bounds_the_depth_a_patch_builds(void **state)
{
    SW_ARENA_AUTO a = {0};
    char text[2 * 600 + 64];
    struct sw_json *doc;
    struct sw_json *v;
    struct sw_err err;

    memset(text, '[', 600);
    memset(text + 600, ']', 600);
    text[1200] = '\0';
    doc = sw_json_new_object(&a);
    sw_json_put(&a, doc, "a", parse(&a, text));
    SW_BUF_AUTO b;
    sw_buf_init(&b, 4096);
    assert_int_equal(sw_buf_append_str(&b, "[{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/a"),
                     SW_OK);
    for (int i = 0; i < 599; i++)
        assert_int_equal(sw_buf_append_str(&b, "/0"), SW_OK);
    assert_int_equal(sw_buf_append_str(&b, "/-\"}]"), SW_OK);
    SW_AUTO_FREE char *patch = sw_buf_take_str(&b);
    assert_int_equal(sw_json_patch(&a, doc, parse(&a, patch), NULL, &v, &err), SW_ELIMIT);
    assert_non_null(strstr(err.msg, "nested too deeply"));
}

static const struct {
    const char *target;
    const char *patch;
    const char *result;
} merges[] = {
    /* RFC 7386 appendix A */
    {"{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
    {"{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"},
    {"{\"a\":\"b\"}", "{\"a\":null}", "{}"},
    {"{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}"},
    {"{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
    {"{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}"},
    {"{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}"},
    {"{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}"},
    {"[\"a\",\"b\"]", "[\"c\",\"d\"]", "[\"c\",\"d\"]"},
    {"{\"a\":\"b\"}", "[\"c\"]", "[\"c\"]"},
    {"{\"a\":\"foo\"}", "null", "null"},
    {"{\"a\":\"foo\"}", "\"bar\"", "\"bar\""},
    {"{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}"},
    {"[1,2]", "{\"a\":\"b\",\"c\":null}", "{\"a\":\"b\"}"},
    {"{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}"},
};

static void merges_patches(void **state)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(merges); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_json *target = parse(&a, merges[i].target);
        struct sw_json *before = sw_json_copy(&a, target);
        struct sw_json *v = sw_json_merge_patch(&a, target, parse(&a, merges[i].patch));

        assert_true(sw_json_equal(v, parse(&a, merges[i].result), SW_JSON_EQ_TEXT));
        assert_true(sw_json_equal(target, before, SW_JSON_EQ_TEXT));
    }
}

static void diffs_are_patches(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *from = parse(&a, "{\"a\":1,\"b\":{\"c\":[1],\"d\":2},\"gone\":{}}");
    struct sw_json *to = parse(&a, "{\"a\":1.0,\"b\":{\"c\":[1,2],\"d\":2},\"new\":{\"x\":{}}}");
    struct sw_json *diff = sw_json_merge_diff(&a, from, to);

    assert_true(sw_json_equal(
        diff, parse(&a, "{\"b\":{\"c\":[1,2]},\"new\":{\"x\":{}},\"gone\":null}"), 0));
    assert_true(sw_json_equal(sw_json_merge_patch(&a, from, diff), to, SW_JSON_EQ_VALUE));
    assert_int_equal(sw_json_len(sw_json_merge_diff(&a, from, from)), 0);
    assert_true(sw_json_equal(sw_json_merge_patch(&a, NULL, to), to, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_pointers),
        cmocka_unit_test(applies_patches),
        cmocka_unit_test(bounds_what_a_patch_may_do),
        cmocka_unit_test(bounds_the_depth_a_patch_builds),
        cmocka_unit_test(merges_patches),
        cmocka_unit_test(diffs_are_patches),
    };

    return cmocka_run_group_tests_name("json_patch", tests, NULL, NULL);
}
