/* SPDX-License-Identifier: Apache-2.0 */
/* Our entry in network configurations of runtimes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cni/install/conflist.h"

static struct sw_json *json(struct sw_arena *a, struct sw_slice text)
{
    struct sw_json *v = NULL;

    assert_int_equal(sw_json_parse(a, text, NULL, &v, NULL), SW_OK);
    return v;
}

static const char entry[] = "{\"type\":\"spanwire-cni\",\"agentSocket\":\"/s\"}";

static void puts_itself_last_and_once(void **state)
{
    static const struct {
        const char *in;
        const char *out; /* NULL: refused */
        bool list;
    } cases[] = {
        {"{\"name\":\"n\",\"cniVersion\":\"1.0.0\",\"disableCheck\":true,"
         "\"plugins\":[{\"type\":\"bridge\",\"x\":1}]}",
         "{\"name\":\"n\",\"cniVersion\":\"1.0.0\",\"disableCheck\":true,"
         "\"plugins\":[{\"type\":\"bridge\",\"x\":1},%s]}",
         false},
        {"{\"plugins\":[{\"type\":\"spanwire-cni\",\"old\":1},{\"type\":\"bridge\"},"
         "{\"type\":\"portmap\"}]}",
         "{\"plugins\":[{\"type\":\"bridge\"},{\"type\":\"portmap\"},%s]}", false},
        {"{\"cniVersion\":\"0.3.1\",\"name\":\"n\",\"type\":\"bridge\"}",
         "{\"name\":\"n\",\"cniVersion\":\"0.3.1\",\"plugins\":["
         "{\"name\":\"n\",\"type\":\"bridge\"},%s]}",
         true},
        {"{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"type\":\"bridge\"}",
         "{\"name\":\"n\",\"cniVersion\":\"1.1.0\",\"plugins\":["
         "{\"name\":\"n\",\"type\":\"bridge\"},%s]}",
         true},
        {"{\"cniVersion\":\"0.2.0\",\"type\":\"bridge\"}",
         "{\"name\":\"k8s-pod-network\",\"cniVersion\":\"0.3.1\",\"plugins\":["
         "{\"type\":\"bridge\"},%s]}",
         true},
        {"{\"plugins\":[]}", NULL, false},
        {"{\"plugins\":[{\"type\":\"spanwire-cni\"}]}", NULL, false},
        {"{\"plugins\":[{\"name\":\"untyped\"}]}", NULL, false},
        {"{\"plugins\":7}", NULL, false},
        {"{}", NULL, false},
        {"[1]", NULL, false},
        {"{", NULL, false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_json *plugin = json(&a, sw_slice_str(entry));
        struct sw_slice out = {0};
        struct sw_err err = {0};
        bool list = false;
        int rc = sw_conflist_insert(&a, sw_slice_str(cases[i].in), plugin, &out, &list, &err);

        if (!cases[i].out) {
            assert_int_not_equal(rc, SW_OK);
            assert_true(err.msg[0] != '\0');
            continue;
        }
        assert_int_equal(rc, SW_OK);
        assert_int_equal(list, cases[i].list);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        assert_true(sw_json_equal(json(&a, out),
                                  json(&a, sw_slice_str(sw_arena_printf(&a, cases[i].out, entry))),
                                  SW_JSON_EQ_TEXT));
#pragma GCC diagnostic pop
        assert_true(sw_conflist_has(out, plugin));
        /* twice is once */
        rc = sw_conflist_insert(&a, out, plugin, &out, &list, &err);
        assert_int_equal(rc, SW_OK);
        assert_true(sw_conflist_has(out, plugin));
        assert_false(list);
    }
}

static void tells_whether_it_is_there(void **state)
{
    static const struct {
        const char *text;
        bool has;
    } cases[] = {
        {"{\"plugins\":[{\"type\":\"b\"},{\"type\":\"spanwire-cni\",\"agentSocket\":\"/s\"}]}",
         true},
        {"{\"plugins\":[{\"type\":\"b\"},{\"agentSocket\":\"/s\",\"type\":\"spanwire-cni\"}]}",
         true},
        {"{\"plugins\":[{\"type\":\"b\"},{\"type\":\"spanwire-cni\",\"agentSocket\":\"/t\"}]}",
         false},
        {"{\"plugins\":[{\"type\":\"spanwire-cni\",\"agentSocket\":\"/s\"},{\"type\":\"b\"}]}",
         false},
        {"{\"plugins\":[{\"type\":\"spanwire-cni\"},{\"type\":\"spanwire-cni\",\"agentSocket\":\"/"
         "s\"}]}",
         false},
        {"{\"plugins\":[{\"type\":\"b\"}]}", false},
        {"{\"type\":\"spanwire-cni\"}", false},
        {"", false},
    };
    SW_ARENA_AUTO a = {0};
    struct sw_json *plugin = json(&a, sw_slice_str(entry));

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++)
        assert_int_equal(sw_conflist_has(sw_slice_str(cases[i].text), plugin), cases[i].has);
}

static void takes_itself_out(void **state)
{
    static const char text[] =
        "{\"name\":\"n\",\"plugins\":[{\"type\":\"b\"},{\"type\":\"spanwire-cni\"},"
        "{\"type\":\"c\"}]}";
    SW_ARENA_AUTO a = {0};
    struct sw_slice out;
    bool found = false;

    (void)state;
    assert_int_equal(sw_conflist_remove(&a, sw_slice_str(text), "spanwire-cni", &out, &found, NULL),
                     SW_OK);
    assert_true(found);
    assert_true(sw_json_equal(
        json(&a, out),
        json(&a, SW_SLICE_LIT("{\"name\":\"n\",\"plugins\":[{\"type\":\"b\"},{\"type\":\"c\"}]}")),
        SW_JSON_EQ_TEXT));
    assert_int_equal(sw_conflist_remove(&a, out, "spanwire-cni", &out, &found, NULL), SW_OK);
    assert_false(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_itself_last_and_once),
        cmocka_unit_test(tells_whether_it_is_there),
        cmocka_unit_test(takes_itself_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
