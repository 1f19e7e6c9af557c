/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as YAML: the styles of scalars, the order of keys, folding, and that it reads back. */
#include "yaml/yaml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/json.h"

static const struct {
    const char *json;
    const char *yaml;
} cases[] = {
    {"{}", "{}\n"},
    {"[]", "[]\n"},
    {"null", "null\n"},
    {"{\"b\":1,\"a\":{\"x\":[],\"z\":{}}}", "a:\n  x: []\n  z: {}\nb: 1\n"},
    {"{\"a\":[1,{\"b\":2,\"c\":[3]},[4,[5]]]}", "a:\n- 1\n- b: 2\n  c:\n  - 3\n- - 4\n  - - 5\n"},
    /* numbers inside keys count, signs come before letters */
    {"{\"a10\":1,\"a2\":2,\"a-b\":3,\"A\":4,\"a.b\":5,\"ab\":6}",
     "A: 4\na-b: 3\na.b: 5\na2: 2\na10: 1\nab: 6\n"},
    {"[\"\",\"y\",\"true\",\"null\",\"~\",\"1\",\"1.5\",\"0x1f\",\"1_0\",\"2026-01-01\",\"1:30\"]",
     "- \"\"\n- \"y\"\n- \"true\"\n- \"null\"\n- \"~\"\n- \"1\"\n- \"1.5\"\n- \"0x1f\"\n- \"1_0\"\n"
     "- \"2026-01-01\"\n- \"1:30\"\n"},
    {"[\"a\",\"a:b\",\"a#b\",\"1.2.3\",\"-a\",\"a,b\",\"=\"]",
     "- a\n- a:b\n- a#b\n- 1.2.3\n- -a\n- a,b\n- =\n"},
    {"[\"a: b\",\"a #b\",\"- a\",\" a\",\"a \",\"*a\",\"it's: x\",\"{\"]",
     "- 'a: b'\n- 'a #b'\n- '- a'\n- ' a'\n- 'a '\n- '*a'\n- 'it''s: x'\n- '{'\n"},
    {"[\"a\\tb\",\"a\\u0001b\",\"a\\r\\nb\",\"a \\nb\"]",
     "- \"a\\tb\"\n- \"a\\x01b\"\n- \"a\\r\\nb\"\n- \"a \\nb\"\n"},
    {"{\"a\":\"x\\ny\",\"b\":\"x\\n\",\"c\":\"x\\n\\n\",\"d\":\"  x\\ny\",\"e\":\"x\\n\\ny\"}",
     "a: |-\n  x\n  y\nb: |\n  x\nc: |+\n  x\n\nd: |2-\n    x\n  y\ne: |-\n  x\n\n  y\n"},
    {"{\"yes\":1,\"a b\":2,\"a: b\":3}", "a b: 2\n'a: b': 3\n\"yes\": 1\n"},
    {"[true,false,12345678901234567890,-1.5e3]",
     "- true\n- false\n- 12345678901234567890\n- -1.5e3\n"},
    {"{\"a\":\"0123456789012345678901234567890123456789012345678901234567890123456789012345 678 90 "
     "1\"}",
     "a: 0123456789012345678901234567890123456789012345678901234567890123456789012345 678\n"
     "  90 1\n"},
};

static void forms_are_those_of_the_tools(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        SW_BUF_AUTO out = {.max = 65536};
        struct sw_json *v = NULL;

        assert_int_equal(sw_json_parse(&a, sw_slice_str(cases[i].json), NULL, &v, NULL), SW_OK);
        assert_int_equal(sw_yaml_write(&out, v), SW_OK);
        assert_int_equal(sw_buf_putc(&out, 0), SW_OK);
        assert_string_equal(sw_buf_data(&out), cases[i].yaml);
    }
}

static void texts_read_back(void **state)
{
    static const char *const texts[] = {"a",     "",   "\n",    "a\nb",     " a\n b\n",
                                        "\n\na", "é☃", "a\\\"", "a\t\nb\n", "---",
                                        "?",     "- ", "a:",    "'"};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(texts); i++) {
        SW_ARENA_AUTO a = {0};
        SW_BUF_AUTO out = {.max = 65536};
        struct sw_json *v = sw_json_new_object(&a);
        const struct sw_yaml *y = NULL;
        struct sw_slice got;

        sw_json_put_str(&a, v, "k", sw_slice_str(texts[i]));
        assert_int_equal(sw_yaml_write(&out, v), SW_OK);
        assert_int_equal(sw_yaml_parse_one(&a, sw_buf_slice(&out), NULL, &y, NULL), SW_OK);
        assert_int_equal(sw_yaml_text(sw_yaml_get(y, "k"), &got, NULL), SW_OK);
        assert_int_equal(got.n, strlen(texts[i]));
        assert_memory_equal(got.p, texts[i], got.n);
    }
}

static void full_buffers_are_reported(void **state)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO out = {.max = 4};

    (void)state;
    assert_int_not_equal(sw_yaml_write(&out, sw_json_new_str(&a, "longer than that")), SW_OK);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_are_those_of_the_tools),
        cmocka_unit_test(texts_read_back),
        cmocka_unit_test(full_buffers_are_reported),
    };

    return cmocka_run_group_tests_name("yaml_write", tests, NULL, NULL);
}
