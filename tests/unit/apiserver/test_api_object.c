/* SPDX-License-Identifier: Apache-2.0 */
/* The stored form of objects and what reads make of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "apiserver/api/api.h"

static struct sw_json *parse(struct sw_arena *a, const char *text)
{
    struct sw_json *v = NULL;

    assert_int_equal(sw_json_parse(a, sw_slice_str(text), NULL, &v, NULL), SW_OK);
    return v;
}

static void stored_text_has_no_version_and_type(void **state)
{
    const struct api_res plain = {.plural = "things"};
    SW_ARENA_AUTO a = {0};
    struct sw_slice s;

    (void)state;
    s = api_encode(
        &a, &plain,
        parse(&a,
              "{\"kind\":\"ConfigMap\",\"data\":{\"b\":\"1\",\"a\":\"2\"},\"apiVersion\":\"v1\","
              "\"metadata\":{\"resourceVersion\":\"7\",\"name\":\"x\",\"selfLink\":\"/y\"}}"));
    assert_true(
        sw_slice_eq_str(s, "{\"metadata\":{\"name\":\"x\"},\"data\":{\"a\":\"2\",\"b\":\"1\"}}"));
    s = api_encode(&a, &plain, parse(&a, "{\"metadata\":{\"name\":\"x\"}}"));
    assert_true(sw_slice_eq_str(s, "{\"metadata\":{\"name\":\"x\"}}"));
}

static void reads_put_them_back(void **state)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO b = {.max = 4096};
    struct api_registry g;
    const struct api_res *r;
    struct sw_store_obj o = {.revision = 42,
                             .value = SW_SLICE_LIT("{\"metadata\":{\"name\":\"x\"},\"data\":{}}")};
    struct sw_json *obj;

    (void)state;
    api_registry_init(&g);
    r = api_registry_find(&g, sw_slice("", 0), SW_SLICE_LIT("v1"), SW_SLICE_LIT("configmaps"));
    assert_int_equal(api_write_obj(&b, r, &o, true), SW_OK);
    assert_true(sw_slice_eq_str(sw_buf_slice(&b),
                                "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{"
                                "\"resourceVersion\":\"42\",\"name\":\"x\"},\"data\":{}}"));
    obj = api_load(&a, r, &o);
    assert_true(
        sw_json_equal(obj, parse(&a, sw_arena_dup(&a, sw_buf_slice(&b))), SW_JSON_EQ_VALUE));
    sw_buf_clear(&b);
    assert_int_equal(api_write_obj(&b, r, &o, false), SW_OK);
    assert_true(
        sw_slice_eq_str(sw_buf_slice(&b),
                        "{\"metadata\":{\"resourceVersion\":\"42\",\"name\":\"x\"},\"data\":{}}"));
    api_registry_done(&g);
}

static void uuids_are_random_and_well_formed(void **state)
{
    SW_ARENA_AUTO a = {0};
    const char *x = api_uuid(&a);
    const char *y = api_uuid(&a);

    (void)state;
    assert_int_equal(strlen(x), 36);
    assert_int_equal(x[14], '4');
    assert_string_not_equal(x, y);
}

static void keys_split(void **state)
{
    struct api_registry g;
    const struct api_res *r;
    struct sw_slice ns;
    struct sw_slice name;

    (void)state;
    api_registry_init(&g);
    r = api_registry_find(&g, sw_slice("", 0), SW_SLICE_LIT("v1"), SW_SLICE_LIT("configmaps"));
    api_split_key(r, SW_SLICE_LIT("/configmaps/n/a.b"), &ns, &name);
    assert_true(sw_slice_eq_str(ns, "n"));
    assert_true(sw_slice_eq_str(name, "a.b"));
    api_registry_done(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_text_has_no_version_and_type),
        cmocka_unit_test(reads_put_them_back),
        cmocka_unit_test(uuids_are_random_and_well_formed),
        cmocka_unit_test(keys_split),
    };

    return cmocka_run_group_tests_name("api object", tests, NULL, NULL);
}
