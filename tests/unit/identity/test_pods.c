/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/pods.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void set(struct sw_pods *p, const char *name, const char *account, const char *node,
                bool failed)
{
    sw_pods_set(p, &(struct sw_pod_info){.ns = SW_SLICE_LIT("ns"),
                                         .name = sw_slice_str(name),
                                         .uid = SW_SLICE_LIT("uid"),
                                         .account = sw_slice_str(account),
                                         .node = sw_slice_str(node),
                                         .failed = failed});
}

static bool runs(const struct sw_pods *p, const char *account, const char *node)
{
    struct sw_pod_source s = sw_pods_source(p);

    return s.runs(s.arg, sw_slice_str(node), SW_SLICE_LIT("ns"), sw_slice_str(account));
}

static void an_account_is_on_a_node_while_a_pod_is(void **state)
{
    struct sw_pods *p = sw_pods_new();

    (void)state;
    set(p, "a", "web", "n1", false);
    set(p, "b", "web", "n1", false);
    assert_true(runs(p, "web", "n1"));
    assert_false(runs(p, "web", "n2"));
    assert_false(runs(p, "we", "bn1"));
    sw_pods_del(p, SW_SLICE_LIT("ns"), SW_SLICE_LIT("a"));
    sw_pods_del(p, SW_SLICE_LIT("ns"), SW_SLICE_LIT("a"));
    assert_true(runs(p, "web", "n1"));
    set(p, "b", "web", "n1", true);
    assert_false(runs(p, "web", "n1"));
    set(p, "b", "web", "n2", false);
    assert_true(runs(p, "web", "n2"));
    set(p, "b", "db", "n2", false);
    assert_false(runs(p, "web", "n2"));
    assert_true(runs(p, "db", "n2"));
    sw_pods_free(p);
}

static void a_pod_without_a_node_is_nowhere(void **state)
{
    struct sw_pods *p = sw_pods_new();
    struct sw_pod_source s = sw_pods_source(p);
    struct sw_pod_place at;

    (void)state;
    set(p, "a", "web", "", false);
    assert_false(runs(p, "web", ""));
    assert_true(s.pod(p, SW_SLICE_LIT("ns"), SW_SLICE_LIT("a"), SW_SLICE_LIT("uid"), &at));
    assert_true(sw_slice_eq_str(at.account, "web"));
    assert_false(s.pod(p, SW_SLICE_LIT("ns"), SW_SLICE_LIT("a"), SW_SLICE_LIT("other"), &at));
    assert_false(s.pod(p, SW_SLICE_LIT("n"), SW_SLICE_LIT("sa"), SW_SLICE_LIT("uid"), &at));
    set(p, "a", "web", "n", true);
    assert_false(s.pod(p, SW_SLICE_LIT("ns"), SW_SLICE_LIT("a"), SW_SLICE_LIT("uid"), &at));
    sw_pods_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_account_is_on_a_node_while_a_pod_is),
        cmocka_unit_test(a_pod_without_a_node_is_nowhere),
    };

    return cmocka_run_group_tests_name("identity pods", tests, NULL, NULL);
}
