/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From manifests to resources: whatever the gateway's build makes of them, Envoy would take it
 * (the linter says so), and the order in which objects come changes no byte. With SW_XDS_OUT=DIR
 * the resources also go there, for an Envoy (tests/interop/envoy).
 */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "control/gateway/xds/xds.h"
#include "control/lint/lint.h"
#include "control/runtime_int.h"
#include "gateway_rig.h"
#include "xds_export.h"

/* All resources of one build, in the arena. */
static void resources(struct rig *r, struct sw_arena *a, struct sw_model_resources *ret)
{
    static const struct sw_model_xds_conf conf;
    struct sw_view *v = rig_view(r);
    struct sw_view *ev = rig_endpoint_view(r);
    struct sw_model_result result = {0};
    struct sw_endpoint_model ep = {0};
    struct sw_model_resources most;
    struct sw_model_resources eds;
    struct sw_model_resource *all;

    sw_gateway_build(v, &r->conf, a, &result);
    sw_gateway_endpoints(ev, result.model->endpoints, result.model->n_endpoints, a, &ep);
    sw_model_xds_encode(result.model, &conf, a, &most);
    sw_model_xds_encode_endpoints(result.model, &ep, a, &eds);
    all = sw_arena_array(a, most.n + eds.n + 1, sizeof(*all));
    if (most.n)
        memcpy(all, most.p, most.n * sizeof(*all));
    if (eds.n)
        memcpy(all + most.n, eds.p, eds.n * sizeof(*all));
    *ret = (struct sw_model_resources){.p = all, .n = most.n + eds.n};
    view_unref(v);
    view_unref(ev);
}

static void complain(void *arg, const struct sw_xds_finding *f)
{
    if (f->severity == SW_XDS_ERROR)
        print_message("%s: %s %.*s: %.*s: %.*s\n", (const char *)arg, f->type,
                      SW_SLICE_ARG(f->resource), SW_SLICE_ARG(f->field), SW_SLICE_ARG(f->text));
}

/* As golden-NAME or conformance-NAME. */
static void export(const char *path, const struct sw_model_resources *r)
{
    SW_ARENA_AUTO a = {0};
    const char *out = getenv("SW_XDS_OUT");
    const char *name = strrchr(path, '/') + 1;
    const char *of = strstr(path, "/conformance/") ? "conformance" : "golden";

    if (out)
        xds_export(out, sw_arena_printf(&a, "%s-%.*s", of, (int)strcspn(name, "."), name), r);
}

/* Returns the number of resources. */
static size_t check_file(struct rig *r, const char *const *base, char *path)
{
    static const struct sw_xds_lint_opts closed = {.closed = true};
    SW_ARENA_AUTO a = {0};
    SW_ARENA_AUTO b = {0};
    struct sw_model_resources x;
    struct sw_model_resources y;
    struct sw_model_address *addrs = NULL;

    rig_clear(r);
    /* An address for each Gateway, so that none has to yield its ports. */
    assert_int_equal(
        sw_gateway_addrs_parse(&a, SW_SLICE_LIT("127.0.0.0/24"), &addrs, &r->conf.n_addrs, NULL),
        SW_OK);
    r->conf.addrs = addrs;
    for (; *base; base++)
        assert_true(rig_load(r, *base));
    if (!rig_load(r, path))
        return 0; /* manifests of kinds that are not ours */
    resources(r, &a, &x);
    assert_int_equal(sw_xds_lint(x.p, x.n, &closed, complain, path), 0);
    export(path, &x);
    rig_shuffle(r, 7);
    resources(r, &b, &y);
    assert_int_equal(x.n, y.n);
    for (size_t i = 0; i < x.n; i++) {
        assert_true(sw_slice_eq(x.p[i].name, y.p[i].name));
        assert_true(sw_slice_eq(x.p[i].value, y.p[i].value));
    }
    return x.n;
}

/* Each file together with those that all of them need. */
static size_t check_all(const char *const *base, const char *pattern)
{
    struct rig *r = rig_new();
    glob_t g = {0};
    size_t n = 0;

    if (glob(pattern, 0, NULL, &g) == 0) {
        for (size_t i = 0; i < g.gl_pathc; i++)
            n += check_file(r, base, g.gl_pathv[i]);
    }
    globfree(&g);
    rig_free(r);
    return n;
}

static void golden_manifests_make_good_resources(void **state)
{
    SW_ARENA_AUTO a = {0};
    const char *dir = getenv("SW_GOLDEN");
    const char *base[2] = {NULL};
    size_t n;

    (void)state;
    assert_non_null(dir);
    base[0] = sw_arena_printf(&a, "%s/gateway/_common.yaml", dir);
    n = check_all(base, sw_arena_printf(&a, "%s/gateway/[a-z]*.yaml", dir));
    assert_in_range(n, 100, SIZE_MAX);
}

static void conformance_manifests_make_good_resources(void **state)
{
    SW_ARENA_AUTO a = {0};
    const char *dir = getenv("SW_SHARED");
    const char *base[3] = {NULL};
    size_t n;

    (void)state;
    if (!dir)
        skip();
    dir = sw_arena_printf(&a, "%s/data/gateway-api/conformance", dir);
    base[0] = sw_arena_printf(&a, "%s/gateway/_common.yaml", getenv("SW_GOLDEN"));
    base[1] = sw_arena_printf(&a, "%s/base/manifests.yaml", dir);
    if (access(base[1], R_OK) != 0)
        skip(); /* the suite's files are not part of this tree */
    n = check_all(base, sw_arena_printf(&a, "%s/tests/*.yaml", dir));
    assert_in_range(n, 500, SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_manifests_make_good_resources),
        cmocka_unit_test(conformance_manifests_make_good_resources),
    };

    return cmocka_run_group_tests_name("gateway objects", tests, NULL, NULL);
}
