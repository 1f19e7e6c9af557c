/* SPDX-License-Identifier: Apache-2.0 */
/* RBAC: which rule allows what, over roles and bindings in a store. */
#include "../store/harness.h"
#include "apiserver/api/api.h"
#include "apiserver/auth/auth_int.h"

struct world {
    struct fixture *f;
    struct sw_api api;
};

static const struct {
    const char *plural;
    const char *ns;
    const char *name;
    const char *text; /* with ' for " */
} objects[] = {
    {"clusterroles", "", "reader",
     "'rules':[{'verbs':['get','list','watch'],'apiGroups':[''],'resources':['configmaps'],"
     "'resourceNames':[]}]"},
    {"clusterroles", "", "named",
     "'rules':[{'verbs':['*'],'apiGroups':[''],'resources':['secrets'],"
     "'resourceNames':['a','b']}]"},
    {"clusterroles", "", "nameless",
     "'rules':[{'verbs':['get','list'],'apiGroups':[''],'resources':['pods'],"
     "'resourceNames':['']}]"},
    {"clusterroles", "", "subs",
     "'rules':[{'verbs':['update'],'apiGroups':['apps'],'resources':['deployments/scale',"
     "'*/status']}]"},
    {"clusterroles", "", "urls",
     "'rules':[{'verbs':['get'],'nonResourceURLs':['/healthz','/metrics/*']}]"},
    {"clusterroles", "", "anything",
     "'rules':[{'verbs':['*'],'apiGroups':['*'],'resources':['*']},"
     "{'verbs':['*'],'nonResourceURLs':['*']}]"},
    {"roles", "one", "local",
     "'rules':[{'verbs':['delete'],'apiGroups':[''],'resources':['pods']},"
     "{'verbs':['get'],'nonResourceURLs':['/local']}]"},
#define BIND(kind, role, subject)                                                                  \
    "'roleRef':{'apiGroup':'rbac.authorization.k8s.io','kind':'" kind "','name':'" role            \
    "'},'subjects':[" subject "]"
    {"clusterrolebindings", "", "reader",
     BIND("ClusterRole", "reader", "{'kind':'User','name':'r'}")},
    {"clusterrolebindings", "", "named",
     BIND("ClusterRole", "named", "{'kind':'User','name':'n'}")},
    {"clusterrolebindings", "", "nameless",
     BIND("ClusterRole", "nameless", "{'kind':'User','name':'l'}")},
    {"clusterrolebindings", "", "subs", BIND("ClusterRole", "subs", "{'kind':'Group','name':'g'}")},
    {"clusterrolebindings", "", "urls", BIND("ClusterRole", "urls", "{'kind':'User','name':'u'}")},
    {"clusterrolebindings", "", "anything",
     BIND("ClusterRole", "anything", "{'kind':'ServiceAccount','name':'root','namespace':'two'}")},
    {"rolebindings", "one", "local", BIND("Role", "local", "{'kind':'ServiceAccount','name':'s'}")},
    {"rolebindings", "one", "reader", BIND("ClusterRole", "reader", "{'kind':'User','name':'x'}")},
    {"rolebindings", "one", "urls", BIND("ClusterRole", "urls", "{'kind':'User','name':'x'}")},
    {"rolebindings", "two", "lost", BIND("Role", "local", "{'kind':'User','name':'d'}")},
};

/* Texts with ' for ". */
static void store_labelled(struct world *w, const char *plural, const char *ns, const char *name,
                           const char *labels, const char *text)
{
    SW_ARENA_AUTO a = {0};
    const struct api_res *res = api_registry_find(&w->api.reg, SW_SLICE_LIT(API_RBAC_GROUP),
                                                  SW_SLICE_LIT("v1"), sw_slice_str(plural));
    char *value = sw_arena_printf(&a, "{'metadata':{'name':'%s'%s%s%s,'labels':{%s}},%s}", name,
                                  *ns ? ",'namespace':'" : "", ns, *ns ? "'" : "", labels, text);

    for (char *c = value; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    assert_non_null(res);
    (void)put(w->f, sw_arena_dup(&a, api_key(&a, res, sw_slice_str(ns), sw_slice_str(name))),
              value);
    api_authz_changed(&w->api);
}

static void store_object(struct world *w, const char *plural, const char *ns, const char *name,
                         const char *text)
{
    store_labelled(w, plural, ns, name, "", text);
}

static int world_setup(void **state)
{
    struct world *w = SW_NEW(struct world);
    void *f;

    (void)fixture_setup(&f);
    w->f = f;
    open_store(w->f, NULL);
    w->api.store = w->f->store;
    w->api.loop = w->f->loop;
    api_registry_init(&w->api.reg);
    w->api.authz = api_authz_new(&w->api);
    for (size_t i = 0; i < SW_ARRAY_LEN(objects); i++)
        store_object(w, objects[i].plural, objects[i].ns, objects[i].name, objects[i].text);
    *state = w;
    return 0;
}

static int world_teardown(void **state)
{
    struct world *w = *state;
    void *f = w->f;

    api_authz_free(w->api.authz);
    api_registry_done(&w->api.reg);
    (void)fixture_teardown(&f);
    sw_free(w);
    return 0;
}

static bool allowed(struct world *w, struct sw_arena *a, const char *user, struct api_attrs at,
                    const char **ret_why)
{
    struct sw_slice groups[] = {SW_SLICE_LIT("system:authenticated"), SW_SLICE_LIT("g")};
    struct api_user u = {.name = sw_slice_str(user),
                         .groups = groups,
                         .ngroups = strcmp(user, "member") == 0 ? 2 : 1};

    at.user = &u;
    return api_allowed(&w->api, a, &at, ret_why);
}

static const struct {
    const char *user;
    const char *verb;
    const char *group;
    const char *resource; /* "resource/sub" */
    const char *ns;
    const char *name;
    bool yes;
} requests[] = {
    /* No names in the rule: all names, and none. */
    {"r", "get", "", "configmaps", "one", "x", true},
    {"r", "list", "", "configmaps", "one", "", true},
    {"r", "watch", "", "configmaps", "", "", true},
    {"r", "list", "", "configmaps", "", "", true},
    {"r", "update", "", "configmaps", "one", "x", false},
    {"r", "delete", "", "configmaps", "one", "x", false},
    {"r", "get", "", "secrets", "one", "x", false},
    {"r", "get", "apps", "configmaps", "one", "x", false},
    {"r", "get", "", "configmaps/status", "one", "x", false},
    {"", "get", "", "configmaps", "one", "x", false},
    {"R", "get", "", "configmaps", "one", "x", false},
    /* Names in the rule: these, and no request that names none. */
    {"n", "get", "", "secrets", "one", "a", true},
    {"n", "delete", "", "secrets", "two", "b", true},
    {"n", "watch", "", "secrets", "one", "a", true}, /* by a field selector */
    {"n", "get", "", "secrets", "one", "c", false},
    {"n", "get", "", "secrets", "one", "ab", false},
    {"n", "list", "", "secrets", "one", "", false},
    {"n", "watch", "", "secrets", "one", "", false},
    {"n", "create", "", "secrets", "one", "", false},
    {"n", "deletecollection", "", "secrets", "one", "", false},
    {"l", "get", "", "pods", "one", "a", false},
    {"l", "list", "", "pods", "one", "", false}, /* an empty name names nothing */
    /* Subresources are resources of their own. */
    {"member", "update", "apps", "deployments/scale", "one", "x", true},
    {"member", "update", "apps", "deployments/status", "one", "x", true},
    {"member", "update", "apps", "daemonsets/status", "one", "x", true},
    {"member", "update", "apps", "daemonsets/scale", "one", "x", false},
    {"member", "update", "apps", "deployments", "one", "x", false},
    {"member", "update", "", "deployments/scale", "one", "x", false},
    {"r", "update", "apps", "deployments/scale", "one", "x", false},
    /* A binding of a namespace reaches no further. */
    {"x", "get", "", "configmaps", "one", "x", true},
    {"x", "get", "", "configmaps", "two", "x", false},
    {"x", "list", "", "configmaps", "", "", false},
    {"system:serviceaccount:one:s", "delete", "", "pods", "one", "p", true},
    {"system:serviceaccount:one:s", "delete", "", "pods", "two", "p", false},
    {"system:serviceaccount:one:s", "get", "", "pods", "one", "p", false},
    {"system:serviceaccount:two:s", "delete", "", "pods", "one", "p", false},
    {"s", "delete", "", "pods", "one", "p", false},
    /* Everything. */
    {"system:serviceaccount:two:root", "bind", "x.y", "anything/at/all", "n", "x", true},
    {"system:serviceaccount:one:root", "get", "", "pods", "n", "x", false},
    /* A role of another namespace of the same name grants nothing. */
    {"d", "delete", "", "pods", "two", "p", false},
    {"d", "delete", "", "pods", "one", "p", false},
};

static void rules_allow_what_they_list(void **state)
{
    struct world *w = *state;

    for (size_t i = 0; i < SW_ARRAY_LEN(requests); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_slice sub = sw_slice_str(requests[i].resource);
        struct api_attrs at = {.verb = sw_slice_str(requests[i].verb),
                               .is_resource = true,
                               .group = sw_slice_str(requests[i].group),
                               .ns = sw_slice_str(requests[i].ns),
                               .name = sw_slice_str(requests[i].name)};

        at.resource = sw_slice_cut(&sub, '/');
        at.sub = sub.p ? sub : sw_slice("", 0);
        if (allowed(w, &a, requests[i].user, at, NULL) != requests[i].yes)
            fail_msg("%s: %s %s '%s' of '%s'", requests[i].user, requests[i].verb,
                     requests[i].resource, requests[i].name, requests[i].ns);
    }
}

static void urls_are_matched_whole_or_by_prefix(void **state)
{
    static const struct {
        const char *user;
        const char *verb;
        const char *path;
        bool yes;
    } urls[] = {
        {"u", "get", "/healthz", true},
        {"u", "get", "/healthz/", false},
        {"u", "get", "/healthz/log", false},
        {"u", "get", "/health", false},
        {"u", "post", "/healthz", false},
        {"u", "get", "/metrics/", true},
        {"u", "get", "/metrics/a/b", true},
        {"u", "get", "/metrics", false},
        {"u", "get", "/metricsx", false},
        {"u", "get", "/", false},
        {"r", "get", "/healthz", false},
        {"system:serviceaccount:two:root", "put", "/what/ever", true},
        /* Rules of a namespace are about its resources. */
        {"x", "get", "/healthz", false},
        {"system:serviceaccount:one:s", "get", "/local", false},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(urls); i++) {
        SW_ARENA_AUTO a = {0};
        struct api_attrs at = {.verb = sw_slice_str(urls[i].verb),
                               .path = sw_slice_str(urls[i].path)};

        if (allowed(*state, &a, urls[i].user, at, NULL) != urls[i].yes)
            fail_msg("%s: %s %s", urls[i].user, urls[i].verb, urls[i].path);
    }
}

static void the_reason_names_the_binding(void **state)
{
    static const struct {
        const char *user;
        const char *verb;
        const char *ns;
        const char *why;
    } cases[] = {
        {"r", "get", "one",
         "RBAC: allowed by ClusterRoleBinding \"reader\" of ClusterRole \"reader\" to User \"r\""},
        {"x", "get", "one",
         "RBAC: allowed by RoleBinding \"reader/one\" of ClusterRole \"reader\" to User \"x\""},
        {"r", "delete", "one", ""},
        {"d", "get", "two", "RBAC: role.rbac.authorization.k8s.io \"local\" not found"},
        {"d", "get", "one", ""},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        const char *why = NULL;
        struct api_attrs at = {.verb = sw_slice_str(cases[i].verb),
                               .is_resource = true,
                               .resource = SW_SLICE_LIT("configmaps"),
                               .ns = sw_slice_str(cases[i].ns),
                               .name = SW_SLICE_LIT("x")};

        (void)allowed(*state, &a, cases[i].user, at, &why);
        assert_string_equal(why, cases[i].why);
    }
}

static void masters_need_no_rule(void **state)
{
    struct world *w = *state;
    SW_ARENA_AUTO a = {0};
    struct sw_slice group = SW_SLICE_LIT("system:masters");
    struct api_user u = {.name = SW_SLICE_LIT("admin"), .groups = &group, .ngroups = 1};
    struct api_attrs at = {.user = &u, .verb = SW_SLICE_LIT("get"), .path = SW_SLICE_LIT("/x")};

    assert_true(api_allowed(&w->api, &a, &at, NULL));
    group = SW_SLICE_LIT("system:master");
    assert_false(api_allowed(&w->api, &a, &at, NULL));
}

static void a_change_counts_at_once(void **state)
{
    struct world *w = *state;
    SW_ARENA_AUTO a = {0};
    struct api_attrs at = {.verb = SW_SLICE_LIT("get"),
                           .is_resource = true,
                           .resource = SW_SLICE_LIT("nodes"),
                           .name = SW_SLICE_LIT("x")};

    assert_false(allowed(w, &a, "late", at, NULL));
    store_object(w, "clusterroles", "", "late",
                 "'rules':[{'verbs':['get'],'apiGroups':[''],'resources':['nodes']}]");
    store_object(w, "clusterrolebindings", "", "late",
                 BIND("ClusterRole", "late", "{'kind':'User','name':'late'}"));
    assert_true(allowed(w, &a, "late", at, NULL));
    store_object(w, "clusterroles", "", "late",
                 "'rules':[{'verbs':['get'],'apiGroups':[''],'resources':['nodes'],"
                 "'resourceNames':['y']}]");
    assert_false(allowed(w, &a, "late", at, NULL));
}

/* What 'kubectl auth can-i --list' shows. */
static void the_rules_of_a_user_are_listed(void **state)
{
    struct world *w = *state;
    SW_ARENA_AUTO a = {0};
    static const struct {
        const char *user;
        const char *ns;
        size_t resources;
        size_t others;
        const char *amiss;
    } cases[] = {
        {"n", "one", 1, 0, NULL},
        {"u", "one", 0, 1, NULL},
        {"x", "one", 1, 1, NULL},
        {"x", "two", 0, 0, NULL},
        {"system:serviceaccount:two:root", "", 1, 1, NULL},
        {"d", "two", 0, 0, "role.rbac.authorization.k8s.io \"local\" not found"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct api_user u = {.name = sw_slice_str(cases[i].user)};
        struct sw_json *resources = sw_json_new_array(&a);
        struct sw_json *others = sw_json_new_array(&a);
        const char *amiss =
            api_user_rules(&w->api, &a, &u, sw_slice_str(cases[i].ns), resources, others);

        assert_int_equal(sw_json_len(resources), cases[i].resources);
        assert_int_equal(sw_json_len(others), cases[i].others);
        assert_int_equal(amiss != NULL, cases[i].amiss != NULL);
        if (amiss)
            assert_string_equal(amiss, cases[i].amiss);
        if (i == 0)
            assert_int_equal(sw_json_len(sw_json_find(sw_json_at(resources, 0), "resourceNames")),
                             2);
    }
}

/* Names of the roles that take what a role with these labels has, in the order they are found. */
static const char *takers(struct world *w, struct sw_arena *a, const char *name, const char *labels)
{
    struct api_req r = {.api = &w->api, .arena = a};
    struct sw_json *role = NULL;
    struct sw_slice *names = NULL;
    char *text = sw_arena_printf(a, "{'metadata':{'name':'%s','labels':{%s}}}", name, labels);
    const char *out = "";
    size_t n;

    for (char *c = text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    assert_int_equal(sw_json_parse(a, sw_slice_str(text), NULL, &role, NULL), SW_OK);
    r.res = api_registry_find(&w->api.reg, SW_SLICE_LIT(API_RBAC_GROUP), SW_SLICE_LIT("v1"),
                              SW_SLICE_LIT("clusterroles"));
    n = api_aggregators(&r, role, &names);
    for (size_t i = 0; i < n; i++)
        out = sw_arena_printf(a, "%s%s%.*s", out, i ? " " : "", SW_SLICE_ARG(names[i]));
    return out;
}

#define TAKES(selectors) "'aggregationRule':{'clusterRoleSelectors':[" selectors "]},'rules':[]"

/* 'edit' selects by one label, 'admin' by another, which 'edit' has. */
static void aggregated_roles_take_directly_and_by_others(void **state)
{
    static const struct {
        const char *name;
        const char *labels;
        const char *takers;
    } cases[] = {
        {"x", "'to-edit':'yes'", "edit admin"},
        {"x", "'to-admin':'yes'", "admin"},
        {"x", "'to-edit':'no'", ""},
        {"x", "", ""},
        {"x", "'other':'yes'", "second"}, /* one of its selectors is enough */
        {"edit", "'to-edit':'yes'", ""},  /* no role takes from itself, not even by others */
        {"edit", "'to-admin':'yes'", "admin"},
    };
    struct world *w = *state;

    store_object(w, "clusterroles", "", "admin", TAKES("{'matchLabels':{'to-admin':'yes'}}"));
    store_labelled(w, "clusterroles", "", "edit", "'to-admin':'yes'",
                   TAKES("{'matchLabels':{'to-edit':'yes'}}"));
    store_object(w, "clusterroles", "", "second",
                 TAKES("{'matchLabels':{'none':'x'}},{'matchLabels':{'other':'yes'}}"));
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};

        assert_string_equal(takers(w, &a, cases[i].name, cases[i].labels), cases[i].takers);
    }
}

static void refusals_say_what_was_asked(void **state)
{
    struct api_user u = {.name = SW_SLICE_LIT("eve")};
    static const struct {
        struct api_attrs at;
        const char *why;
        const char *text;
    } cases[] = {
        {{.verb = SW_SLICE_LIT("get"), .path = SW_SLICE_LIT("/x")},
         NULL,
         "forbidden: User \"eve\" cannot get path \"/x\""},
        {{.verb = SW_SLICE_LIT("list"), .is_resource = true, .resource = SW_SLICE_LIT("pods")},
         "",
         "pods is forbidden: User \"eve\" cannot list resource \"pods\" in API group \"\" at the "
         "cluster scope"},
        {{.verb = SW_SLICE_LIT("update"),
          .is_resource = true,
          .group = SW_SLICE_LIT("apps"),
          .resource = SW_SLICE_LIT("deployments"),
          .sub = SW_SLICE_LIT("scale"),
          .ns = SW_SLICE_LIT("n"),
          .name = SW_SLICE_LIT("d")},
         "why",
         "deployments.apps \"d\" is forbidden: User \"eve\" cannot update resource "
         "\"deployments/scale\" in API group \"apps\" in the namespace \"n\": why"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct api_attrs at = cases[i].at;

        at.user = &u;
        assert_string_equal(api_denied_text(&a, &at, cases[i].why), cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_allow_what_they_list),
        cmocka_unit_test(urls_are_matched_whole_or_by_prefix),
        cmocka_unit_test(the_reason_names_the_binding),
        cmocka_unit_test(masters_need_no_rule),
        cmocka_unit_test(a_change_counts_at_once),
        cmocka_unit_test(the_rules_of_a_user_are_listed),
        cmocka_unit_test(aggregated_roles_take_directly_and_by_others),
        cmocka_unit_test(refusals_say_what_was_asked),
    };

    return cmocka_run_group_tests_name("api authz", tests, world_setup, world_teardown);
}
