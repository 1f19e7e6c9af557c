/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models as Envoy resources against tests/golden/xds (SW_UPDATE_GOLDEN=1 rewrites them), each set
 * free of complaints by the linter. With SW_XDS_OUT=DIR the resources also go there, one
 * DiscoveryResponse per type and case, for checks with other implementations.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <proto/google.pb-c.h>

#include "base/buf.h"
#include "control/lint/lint.h"
#include "proto/pb.h"
#include "proto/text.h"
#include "proto/types.h"
#include "xds/cache.h"
#include "xds_export.h"
#include "xds_rig.h"

static void read_file(const char *path, struct sw_buf *out)
{
    FILE *f = fopen(path, "re");
    char block[4096];
    size_t n;

    if (!f)
        return;
    while ((n = fread(block, 1, sizeof(block), f)) > 0)
        assert_int_equal(sw_buf_append(out, block, n), SW_OK);
    (void)fclose(f);
}

static void write_file(const char *path, struct sw_slice s)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    assert_int_equal(fwrite(s.p, 1, s.n, f), s.n);
    assert_int_equal(fclose(f), 0);
}

static void text_of(const struct sw_model_resources *r, struct sw_buf *out)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct sw_model_resource *one = &r->p[i];
        const ProtobufCMessageDescriptor *type = sw_pb_type_find(sw_slice_str(one->type));
        SW_ARENA_AUTO a = {0};
        ProtobufCMessage *m;

        assert_non_null(type);
        m = sw_pb_unpack(&a, type, one->value, NULL, NULL);
        assert_non_null(m);
        assert_int_equal(
            sw_buf_printf(out, "# %s %.*s\n", type->short_name, SW_SLICE_ARG(one->name)), SW_OK);
        assert_int_equal(sw_pb_text(out, m), SW_OK);
        /* What was decoded packs to the same bytes again: order and form are canonical. */
        assert_true(sw_slice_eq(sw_pb_pack(&a, m), one->value));
    }
}

static void complain(void *arg, const struct sw_xds_finding *f)
{
    (void)arg;
    print_message("%s %.*s: %.*s: %.*s\n", f->type, SW_SLICE_ARG(f->resource),
                  SW_SLICE_ARG(f->field), SW_SLICE_ARG(f->text));
}

static void resources_are_as_recorded(void **state)
{
    const char *dir = getenv("SW_GOLDEN");
    const char *out = getenv("SW_XDS_OUT");
    size_t wrong = 0;

    (void)state;
    assert_non_null(dir);
    for (size_t i = 0; i < n_xds_cases; i++) {
        static const struct sw_xds_lint_opts closed = {.closed = true};
        SW_ARENA_AUTO a = {0};
        struct sw_model_resources r;
        SW_BUF_AUTO text = {.max = 8 << 20};
        SW_BUF_AUTO golden = {.max = 8 << 20};
        const char *path = sw_arena_printf(&a, "%s/xds/%s.txt", dir, xds_cases[i].name);

        xds_case_encode(&xds_cases[i], &a, &r);
        text_of(&r, &text);
        if (getenv("SW_UPDATE_GOLDEN"))
            write_file(path, sw_buf_slice(&text));
        read_file(path, &golden);
        if (!sw_slice_eq(sw_buf_slice(&text), sw_buf_slice(&golden))) {
            print_message("%s differs\n", path);
            wrong++;
        }
        wrong += sw_xds_lint(r.p, r.n, &closed, complain, NULL);
        if (out)
            xds_export(out, xds_cases[i].name, &r);
    }
    assert_int_equal(wrong, 0);
}

static void equal_models_give_equal_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_xds_cases; i++) {
        SW_ARENA_AUTO a = {0};
        SW_ARENA_AUTO b = {0};
        struct sw_model_resources x;
        struct sw_model_resources y;

        xds_case_encode(&xds_cases[i], &a, &x);
        xds_case_encode(&xds_cases[i], &b, &y);
        assert_int_equal(x.n, y.n);
        for (size_t k = 0; k < x.n; k++) {
            assert_true(sw_slice_eq(x.p[k].name, y.p[k].name));
            assert_true(sw_slice_eq(x.p[k].value, y.p[k].value));
        }
    }
}

static void resources_reach_the_cache(void **state)
{
    struct sw_xds_cache *cache = sw_xds_cache_new();

    (void)state;
    for (size_t i = 0; i < n_xds_cases; i++) {
        struct sw_xds_txn *t = sw_xds_txn_new();
        SW_ARENA_AUTO a = {0};
        struct sw_model m = {0};
        struct sw_endpoint_model ep = {0};
        struct sw_model_resources r;
        size_t n;

        xds_cases[i].make(&a, &m, &ep);
        sw_model_xds_encode(&m, &xds_cases[i].conf, &a, &r);
        assert_int_equal(sw_model_xds_put(t, &r, NULL), SW_OK);
        n = r.n;
        sw_model_xds_encode_endpoints(&m, &ep, &a, &r);
        assert_int_equal(sw_model_xds_put_endpoints(t, &r, NULL), SW_OK);
        n += r.n;
        (void)sw_xds_cache_commit(cache, t);
        assert_int_equal(n, sw_xds_cache_get(cache, sw_slice_str(SW_XDS_CLUSTER))->n +
                                sw_xds_cache_get(cache, sw_slice_str(SW_XDS_ENDPOINT))->n +
                                sw_xds_cache_get(cache, sw_slice_str(SW_XDS_LISTENER))->n +
                                sw_xds_cache_get(cache, sw_slice_str(SW_XDS_ROUTE))->n +
                                sw_xds_cache_get(cache, sw_slice_str(SW_XDS_SECRET))->n);
    }
    sw_xds_cache_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resources_are_as_recorded),
        cmocka_unit_test(equal_models_give_equal_bytes),
        cmocka_unit_test(resources_reach_the_cache),
    };

    return cmocka_run_group_tests_name("gateway xds", tests, NULL, NULL);
}
