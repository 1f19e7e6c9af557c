/* SPDX-License-Identifier: Apache-2.0 */
/* Resources: finding them, their keys, the order of discovery. */
#include "apiserver/api/res.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void builtins_are_found_by_path_and_kind(void **state)
{
    struct api_registry g;
    const struct api_res *r;

    (void)state;
    api_registry_init(&g);
    r = api_registry_find(&g, sw_slice("", 0), SW_SLICE_LIT("v1"), SW_SLICE_LIT("configmaps"));
    assert_non_null(r);
    assert_string_equal(r->kind, "ConfigMap");
    assert_string_equal(r->api_version, "v1");
    assert_true(r->namespaced);
    assert_ptr_equal(
        api_registry_kind(&g, sw_slice("", 0), SW_SLICE_LIT("v1"), SW_SLICE_LIT("ConfigMap")), r);
    assert_null(
        api_registry_find(&g, sw_slice("", 0), SW_SLICE_LIT("v2"), SW_SLICE_LIT("configmaps")));
    assert_null(
        api_registry_find(&g, SW_SLICE_LIT("x"), SW_SLICE_LIT("v1"), SW_SLICE_LIT("configmaps")));
    assert_true(
        api_registry_has_group(&g, SW_SLICE_LIT("rbac.authorization.k8s.io"), SW_SLICE_LIT("v1")));
    assert_false(api_registry_has_group(&g, SW_SLICE_LIT("extensions"), sw_slice("", 0)));
    api_registry_done(&g);
}

static void keys_separate_namespaces(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct api_registry g;
    const struct api_res *cm;
    const struct api_res *ns;

    (void)state;
    api_registry_init(&g);
    cm = api_registry_find(&g, sw_slice("", 0), SW_SLICE_LIT("v1"), SW_SLICE_LIT("configmaps"));
    ns = api_registry_find(&g, sw_slice("", 0), SW_SLICE_LIT("v1"), SW_SLICE_LIT("namespaces"));
    assert_true(
        sw_slice_eq_str(api_key(&a, cm, SW_SLICE_LIT("n"), SW_SLICE_LIT("x")), "/configmaps/n/x"));
    assert_true(
        sw_slice_eq_str(api_key(&a, ns, sw_slice("", 0), SW_SLICE_LIT("x")), "/namespaces/x"));
    api_registry_done(&g);
}

static void both_kinds_of_events_share_their_objects(void **state)
{
    struct api_registry g;
    const struct api_res *core;
    const struct api_res *events;

    (void)state;
    api_registry_init(&g);
    core = api_registry_find(&g, sw_slice("", 0), SW_SLICE_LIT("v1"), SW_SLICE_LIT("events"));
    events = api_registry_find(&g, SW_SLICE_LIT("events.k8s.io"), SW_SLICE_LIT("v1"),
                               SW_SLICE_LIT("events"));
    assert_string_equal(core->prefix, events->prefix);
    api_registry_done(&g);
}

struct order {
    const char *group;
    const char *plural;
    int bad;
    int n;
};

static void look(const struct api_res *res, void *arg)
{
    struct order *o = arg;
    int c = o->n ? strcmp(o->group, res->group) : -1;

    if (c > 0 || (c == 0 && strcmp(o->plural, res->plural) > 0))
        o->bad++;
    o->group = res->group;
    o->plural = res->plural;
    o->n++;
}

static void discovery_is_sorted(void **state)
{
    struct api_registry g;
    struct order o = {0};

    (void)state;
    api_registry_init(&g);
    api_registry_each(&g, look, &o);
    assert_int_equal(o.bad, 0);
    assert_true(o.n > 20);
    api_registry_done(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builtins_are_found_by_path_and_kind),
        cmocka_unit_test(keys_separate_namespaces),
        cmocka_unit_test(both_kinds_of_events_share_their_objects),
        cmocka_unit_test(discovery_is_sorted),
    };

    return cmocka_run_group_tests_name("api res", tests, NULL, NULL);
}
