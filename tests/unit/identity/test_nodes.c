/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/nodes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "identity/pods.h"
#include "identity/tokens.h"

static const char *const accounts[] = {"istio-system/ztunnel", "mesh/node", NULL};
static const char *const aliases[] = {"old.example", NULL};

static void put(struct sw_pods *p, const char *ns, const char *name, const char *account,
                const char *node)
{
    sw_pods_set(p, &(struct sw_pod_info){.ns = sw_slice_str(ns),
                                         .name = sw_slice_str(name),
                                         .uid = SW_SLICE_LIT("u1"),
                                         .account = sw_slice_str(account),
                                         .node = sw_slice_str(node)});
}

static const struct {
    const char *ns;
    const char *account;
    const char *pod;
    const char *uid;
    const char *id;
    const char *why; /* NULL: granted */
} cases[] = {
    {"istio-system", "ztunnel", "z1", "u1", "spiffe://td/ns/shop/sa/web", NULL},
    {"mesh", "node", "m1", "u1", "spiffe://td/ns/shop/sa/web", NULL},
    {"istio-system", "ztunnel", "z1", "u1", "spiffe://old.example/ns/shop/sa/web", NULL},
    {"istio-system", "ztunnel", "z1", "u1", "spiffe://td/ns/shop/sa/db", "no pod with that"},
    {"istio-system", "ztunnel", "z2", "u1", "spiffe://td/ns/shop/sa/web", "no pod with that"},
    {"istio-system", "ztunnel", "z2", "u1", "spiffe://td/ns/shop/sa/db", NULL},
    {"istio-system", "ztunnel", "z1", "u2", "spiffe://td/ns/shop/sa/web", "another one by now"},
    {"istio-system", "ztunnel", "z9", "u1", "spiffe://td/ns/shop/sa/web", "is not known"},
    {"istio-system", "ztunnel", "", "", "spiffe://td/ns/shop/sa/web", "not bound to a pod"},
    {"istio-system", "ztunnel", "x1", "u1", "spiffe://td/ns/shop/sa/web", "another one by now"},
    {"istio-system", "other", "x1", "u1", "spiffe://td/ns/shop/sa/web", "not an account of node"},
    {"istio-syste", "m/ztunnel", "z1", "u1", "spiffe://td/ns/shop/sa/web", "not an account"},
    {"istio-system", "ztunnel", "z1", "u1", "spiffe://t/ns/shop/sa/web", "trust domain"},
    {"istio-system", "ztunnel", "z1", "u1", "spiffe://td/ns/shop/sa/web/", "not an identity"},
    {"istio-system", "ztunnel", "z1", "u1", "https://td/ns/shop/sa/web", "not an identity"},
};

static void a_node_has_the_identities_of_its_pods(void **state)
{
    struct sw_pods *pods = sw_pods_new();
    struct sw_nodes *n = sw_nodes_new(&(struct sw_nodes_opts){.accounts = accounts,
                                                              .trust_domain = SW_SLICE_LIT("td"),
                                                              .aliases = aliases,
                                                              .pods = sw_pods_source(pods)},
                                      NULL);

    (void)state;
    assert_non_null(n);
    put(pods, "istio-system", "z1", "ztunnel", "n1");
    put(pods, "istio-system", "z2", "ztunnel", "n2");
    put(pods, "istio-system", "x1", "other", "n1");
    put(pods, "mesh", "m1", "node", "n1");
    put(pods, "shop", "w", "web", "n1");
    put(pods, "shop", "d", "db", "n2");
    sw_pods_complete(pods);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        const struct sw_caller who = {.ns = sw_slice_str(cases[i].ns),
                                      .account = sw_slice_str(cases[i].account),
                                      .pod = sw_slice_str(cases[i].pod),
                                      .pod_uid = sw_slice_str(cases[i].uid)};
        struct sw_err err = {0};
        int rc = sw_nodes_may_impersonate(n, &who, sw_slice_str(cases[i].id), &err);

        assert_int_equal(rc, cases[i].why ? SW_EDENIED : SW_OK);
        if (cases[i].why)
            assert_non_null(strstr(err.msg, cases[i].why));
    }
    sw_nodes_free(n);
    sw_pods_free(pods);
}

/* Right after a start: a refusal would keep the node from trying again for a second. */
static void nobody_is_refused_before_all_pods_were_read(void **state)
{
    const struct sw_caller who = {.ns = SW_SLICE_LIT("istio-system"),
                                  .account = SW_SLICE_LIT("ztunnel"),
                                  .pod = SW_SLICE_LIT("z1"),
                                  .pod_uid = SW_SLICE_LIT("u1")};
    const struct sw_slice web = SW_SLICE_LIT("spiffe://td/ns/shop/sa/web");
    struct sw_pods *pods = sw_pods_new();
    struct sw_nodes *n = sw_nodes_new(&(struct sw_nodes_opts){.accounts = accounts,
                                                              .trust_domain = SW_SLICE_LIT("td"),
                                                              .pods = sw_pods_source(pods)},
                                      NULL);
    struct sw_err err = {0};

    (void)state;
    assert_int_equal(sw_nodes_may_impersonate(n, &who, web, &err), SW_EPENDING);
    put(pods, "istio-system", "z1", "ztunnel", "n1");
    assert_int_equal(sw_nodes_may_impersonate(n, &who, web, &err), SW_EPENDING);
    /* What does not depend on pods is refused all the same. */
    assert_int_equal(
        sw_nodes_may_impersonate(n, &who, SW_SLICE_LIT("spiffe://x/ns/shop/sa/web"), &err),
        SW_EDENIED);
    put(pods, "shop", "w", "web", "n1");
    assert_int_equal(sw_nodes_may_impersonate(n, &who, web, &err), SW_OK);
    sw_pods_del(pods, SW_SLICE_LIT("shop"), SW_SLICE_LIT("w"));
    sw_pods_complete(pods);
    assert_int_equal(sw_nodes_may_impersonate(n, &who, web, &err), SW_EDENIED);
    sw_nodes_free(n);
    sw_pods_free(pods);
}

static const struct {
    const char *id;
    const char *ns;
    const char *account;
    int rc;
} ids[] = {
    {"ztunnel~10.0.0.1~z1.istio-system~x", "", "", SW_OK},
    {"ztunnel~fd00::1~z1.istio-system~x", "istio-system", "ztunnel", SW_OK},
    {"ztunnel~10.0.0.1~z.1.istio-system~x", "", "", SW_OK},
    {"ztunnel~10.0.0.1~z1~x", "istio-system", "", SW_OK},
    {"ztunnel~10.0.0.1~z1~x", "", "", SW_EDENIED},
    {"ztunnel~10.0.0.1~z1.shop~x", "", "", SW_EDENIED},
    {"ztunnel~10.0.0.1~z1.istio-system~x", "shop", "", SW_EDENIED},
    {"ztunnel~10.0.0.1~z1.istio-system~x", "", "web", SW_EDENIED},
    {"", "istio-system", "", SW_EINVAL},
    {"ztunnel", "istio-system", "", SW_EINVAL},
    {"ztunnel~10.0.0.1~z1.istio-system", "", "", SW_EINVAL},
    {"ztunnel~10.0.0.1~z1.istio-system~x~y", "", "", SW_EINVAL},
    {"ztunnel~host~z1.istio-system~x", "", "", SW_EINVAL},
    {"zzz~10.0.0.1~z1.istio-system~x", "", "", SW_EINVAL},
};

static void a_node_says_who_it_is(void **state)
{
    const struct sw_caller who = {.ns = SW_SLICE_LIT("istio-system"),
                                  .account = SW_SLICE_LIT("ztunnel")};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(ids); i++) {
        struct sw_err err = {0};

        assert_int_equal(sw_nodes_check_id(sw_slice_str(ids[i].id), sw_slice_str(ids[i].ns),
                                           sw_slice_str(ids[i].account), &who, &err),
                         ids[i].rc);
    }
}

static void accounts_are_checked(void **state)
{
    static const char *const bad[] = {"ztunnel", "/ztunnel", "ns/", "a/b/c"};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++) {
        const char *const list[] = {bad[i], NULL};
        struct sw_err err = {0};

        assert_null(sw_nodes_new(&(struct sw_nodes_opts){.accounts = list}, &err));
        assert_int_equal(err.rc, SW_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_has_the_identities_of_its_pods),
        cmocka_unit_test(nobody_is_refused_before_all_pods_were_read),
        cmocka_unit_test(a_node_says_who_it_is),
        cmocka_unit_test(accounts_are_checked),
    };

    return cmocka_run_group_tests_name("identity nodes", tests, NULL, NULL);
}
