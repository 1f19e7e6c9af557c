/* SPDX-License-Identifier: Apache-2.0 */
/* Admission: which requests rules and selectors match, match conditions, verdicts of policies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "helper.h"
#include "kube/admission/admission_match.h"
#include "kube/admission/policy.h"

/* ---- matching ---- */

static struct sw_match_attrs request(struct sw_arena *a)
{
    static const struct sw_slice versions[] = {SW_SLICE_LIT("v1"), SW_SLICE_LIT("v2")};

    return (struct sw_match_attrs){
        .operation = "CREATE",
        .group = SW_SLICE_LIT("apps"),
        .version = SW_SLICE_LIT("v1"),
        .resource = SW_SLICE_LIT("deployments"),
        .sub = SW_SLICE_LIT(""),
        .ns = SW_SLICE_LIT("shop"),
        .name = SW_SLICE_LIT("web"),
        .versions = versions,
        .nversions = SW_ARRAY_LEN(versions),
        .object = t_yaml(a, "{metadata: {labels: {tier: new}}}"),
        .old = t_yaml(a, "{metadata: {labels: {tier: old}}}"),
        .ns_object = t_yaml(a, "{metadata: {labels: {env: prod}}}"),
    };
}

#define R(ops, groups, versions, resources, more)                                                  \
    "{operations: [" ops "], apiGroups: [" groups "], apiVersions: [" versions                     \
    "], resources: [" resources "]" more "}"
#define RULE(more) R("'*'", "apps", "v1", "deployments", more)

static void resources_match(void **state)
{
    static const struct {
        const char *match;
        const char *version; /* NULL: does not match */
        const char *why;
    } cases[] = {
        {"{}", "v1", NULL},
        {"{resourceRules: [" RULE("") "]}", "v1", NULL},
        {"{resourceRules: [" R("DELETE, UPDATE", "apps", "v1", "deployments", "") "]}", NULL, NULL},
        {"{resourceRules: [" R("DELETE, CREATE", "apps", "v1", "deployments", "") "]}", "v1", NULL},
        {"{resourceRules: [" R("'*'", "''", "v1", "deployments", "") "]}", NULL, NULL},
        {"{resourceRules: [" R("'*'", "'*'", "v1", "deployments", "") "]}", "v1", NULL},
        {"{resourceRules: [" R("'*'", "apps", "v1", "deployments/scale", "") "]}", NULL, NULL},
        {"{resourceRules: [" R("'*'", "apps", "v1", "'*/*'", "") "]}", "v1", NULL},
        {"{resourceRules: [" R("'*'", "apps", "v1", "'*/scale'", "") "]}", NULL, NULL},
        {"{resourceRules: [" RULE(", scope: Cluster") "]}", NULL, NULL},
        {"{resourceRules: [" RULE(", scope: Namespaced") "]}", "v1", NULL},
        {"{resourceRules: [" RULE(", resourceNames: [db, web]") "]}", "v1", NULL},
        {"{resourceRules: [" RULE(", resourceNames: [db]") "]}", NULL, NULL},
        {"{resourceRules: [" R("'*'", "apps", "v2", "deployments", "") "]}", "v2", NULL},
        {"{matchPolicy: Exact, resourceRules: [" R("'*'", "apps", "v2", "deployments", "") "]}",
         NULL, NULL},
        {"{resourceRules: [" R("'*'", "apps", "v3", "deployments", "") "]}", NULL, NULL},
        {"{excludeResourceRules: [" RULE("") "]}", NULL, NULL},
        {"{resourceRules: [" RULE("") "], excludeResourceRules: [" RULE(
             ", resourceNames: [db]") "]}",
         "v1", NULL},
        {"{objectSelector: {matchLabels: {tier: new}}}", "v1", NULL},
        {"{objectSelector: {matchLabels: {tier: old}}}", "v1", NULL},
        {"{objectSelector: {matchLabels: {tier: none}}}", NULL, NULL},
        {"{namespaceSelector: {matchLabels: {env: prod}}}", "v1", NULL},
        {"{namespaceSelector: {matchLabels: {env: lab}}}", NULL, NULL},
        {"{objectSelector: {matchExpressions: [{key: a, operator: Odd}]}}", "v1", "Odd"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_match_attrs at = request(&a);
        struct sw_slice version = {0};
        const char *why = NULL;
        bool match = sw_match_resources(&a, t_yaml(&a, cases[i].match), &at, &version, &why);

        print_message("# %s\n", cases[i].match);
        assert_int_equal(match, cases[i].version != NULL);
        if (match)
            assert_true(sw_slice_eq_str(version, cases[i].version));
        assert_int_equal(why != NULL, cases[i].why != NULL);
    }
}

static void namespaces_match_by_their_own_labels(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_match_attrs at = request(&a);
    const struct sw_json *m = t_yaml(&a, "{namespaceSelector: {matchLabels: {tier: new}}}");
    const char *why = NULL;

    (void)state;
    assert_false(sw_match_selectors(&a, m, &at, &why));
    at.is_namespace = true;
    assert_true(sw_match_selectors(&a, m, &at, &why));
    at.object = NULL; /* a deletion: the old one counts */
    assert_false(sw_match_selectors(&a, m, &at, &why));
    /* Other cluster-scoped objects are in no namespace: the selector does not exclude them. */
    at = request(&a);
    at.ns_object = NULL;
    assert_true(sw_match_selectors(&a, m, &at, &why));
}

/* ---- expressions ---- */

/* Ten thousand rounds: far below the limit of one expression. */
#define DEEP                                                                                       \
    "[1,2,3,4,5,6,7,8,9,0].all(a, [1,2,3,4,5,6,7,8,9,0].all(b, [1,2,3,4,5,6,7,8,9,0].all(c, "      \
    "[1,2,3,4,5,6,7,8,9,0].all(d, a + b + c + d < 99))))"

static bool allow_get(void *arg, struct sw_arena *a, const struct sw_cel_access *x,
                      const char **ret_reason)
{
    (void)arg;
    (void)a;
    *ret_reason = "";
    return sw_slice_eq_str(x->verb, "get");
}

static struct sw_cel_input input(struct sw_arena *a)
{
    return (struct sw_cel_input){
        .object = t_yaml(a, "{metadata: {name: web}, spec: {replicas: 3}}"),
        .request = t_yaml(a, "{operation: CREATE, name: web, namespace: shop, resource: {group: "
                             "apps, version: v1, resource: deployments}, userInfo: {username: "
                             "ann}}"),
        .allowed = allow_get,
    };
}

static struct sw_match_conditions *t_conditions(struct sw_arena *a, const struct sw_json *list,
                                                struct sw_field_errs *e)
{
    struct sw_fpath path = sw_fpath_str(NULL, "matchConditions");
    struct sw_at at = sw_at_path(list, &path, e);

    return sw_match_conditions_compile(a, &sw_webhook_scope, &at);
}

static void conditions_decide(void **state)
{
    static const struct {
        const char *first, *second;
        enum sw_match_outcome outcome;
        const char *why;
    } cases[] = {
        {"true", "request.userInfo.username == 'ann'", SW_MATCH_HOLDS, NULL},
        {"oldObject == null", "object.spec.replicas == 3", SW_MATCH_HOLDS, NULL},
        {"authorizer.requestResource.check('get').allowed()",
         "!authorizer.requestResource.check('list').allowed()", SW_MATCH_HOLDS, NULL},
        {"true", "false", SW_MATCH_EXCLUDES, NULL},
        {"object.none == 1", "false", SW_MATCH_EXCLUDES, NULL},
        {"false", "object.none == 1", SW_MATCH_EXCLUDES, NULL},
        {"object.none == 1", "true", SW_MATCH_FAILED,
         "expression 'object.none == 1' resulted in error: no such key: none"},
        {"object.none == 1", "object.two == 2", SW_MATCH_FAILED,
         "[expression 'object.none == 1' resulted in error: no such key: none, expression "
         "'object.two == 2' resulted in error: no such key: two]"},
        {"1 +", "true", SW_MATCH_FAILED, "compilation error: matchConditions[0].expression: "},
        {"true", "params == null", SW_MATCH_FAILED,
         "compilation error: matchConditions[1].expression: "},
        {DEEP, DEEP, SW_MATCH_HOLDS, NULL},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_json *list = t_yaml(&a, "[{name: a}, {name: b}]");
        struct sw_cel_input in = input(&a);
        struct sw_match_conditions *c;
        struct sw_field_errs e;
        const char *why = NULL;

        print_message("# %s\n", cases[i].first);
        sw_json_put_str(&a, sw_json_at(list, 0), "expression", sw_slice_str(cases[i].first));
        sw_json_put_str(&a, sw_json_at(list, 1), "expression", sw_slice_str(cases[i].second));
        sw_field_errs_init(&e, &a);
        c = t_conditions(&a, list, &e);
        assert_int_equal(
            sw_match_conditions_eval(c, &a, sw_cel_run_new(&a, &sw_webhook_scope, &in), &why),
            cases[i].outcome);
        if (cases[i].why)
            assert_memory_equal(why, cases[i].why, strlen(cases[i].why));
        sw_match_conditions_done(c);
    }
}

static void conditions_share_one_budget(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *list = sw_json_new_array(&a);
    struct sw_cel_input in = input(&a);
    struct sw_match_conditions *c;
    struct sw_field_errs e;
    const char *why = NULL;

    (void)state;
    for (int i = 0; i < 64; i++) {
        struct sw_json *v = t_yaml(&a, sw_arena_printf(&a, "{name: c%d}", i));

        sw_json_put_str(&a, v, "expression", SW_SLICE_LIT(DEEP));
        sw_json_push(&a, list, v);
    }
    sw_field_errs_init(&e, &a);
    c = t_conditions(&a, list, &e);
    assert_int_equal(e.n, 0);
    assert_int_equal(
        sw_match_conditions_eval(c, &a, sw_cel_run_new(&a, &sw_webhook_scope, &in), &why),
        SW_MATCH_FAILED);
    assert_string_equal(why, SW_CEL_OUT_OF_BUDGET);
    sw_match_conditions_done(c);
}

static void conditions_are_checked(void **state)
{
    static const struct {
        const char *list;
        const char *errs;
    } cases[] = {
        {"[{name: a, expression: 'true'}, {name: example.com/a, expression: 'true'}]", ""},
        {"[{name: a, expression: ' '}]", "matchConditions[0].expression: Required value"},
        {"[{expression: 'true'}]", "matchConditions[0].name: Required value"},
        {"[{name: a, expression: 'true'}, {name: a, expression: 'true'}]",
         "matchConditions[1].name: Duplicate value: \"a\""},
        {"[{name: a, expression: '1'}]",
         "matchConditions[0].expression: Invalid value: \"1\": must evaluate to bool but got int"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_field_errs e;

        sw_field_errs_init(&e, &a);
        sw_match_conditions_done(t_conditions(&a, t_yaml(&a, cases[i].list), &e));
        assert_string_equal(t_errs(&a, &e), cases[i].errs);
    }
}

/* ---- policies ---- */

/* Verdict as text: "index reason message" of each denial, then "key=value" of annotations. */
static const char *verdict(struct sw_arena *a, const char *policy, const char *spec)
{
    struct sw_cel_input in = input(a);
    struct sw_json *v = t_yaml(
        a, sw_arena_printf(a,
                           "{metadata: {name: p}, spec: {failurePolicy: %s, matchConstraints: "
                           "{matchPolicy: Equivalent, resourceRules: [" RULE("") "]}, %s}}",
                           policy, spec));
    const char *out = "";
    struct sw_policy_result r;
    struct sw_field_errs e;
    struct sw_admission_policy *p;

    sw_field_errs_init(&e, a);
    p = sw_policy_compile(v, &e);
    assert_int_equal(e.n > 0, p->broken != NULL);
    r = sw_policy_eval(p, a, &in);
    for (size_t i = 0; i < r.ndenials; i++)
        out = sw_arena_printf(a, "%s%zu %.*s %s\n", out, r.denials[i].index,
                              SW_SLICE_ARG(r.denials[i].reason), r.denials[i].message);
    for (size_t i = 0; i < r.naudits; i++)
        out = sw_arena_printf(a, "%s%.*s=%.*s\n", out, SW_SLICE_ARG(r.audits[i].key),
                              SW_SLICE_ARG(r.audits[i].value));
    sw_policy_free(p);
    return out;
}

static void policies_decide(void **state)
{
    static const struct {
        const char *policy;
        const char *spec;
        const char *verdict;
    } cases[] = {
        {"Fail", "validations: [{expression: 'true'}]", ""},
        {"Fail", "validations: [{expression: ' false '}]", "0  failed expression: false\n"},
        {"Fail",
         "validations: [{expression: 'true'}, {expression: 'false', message: no, reason: "
         "Forbidden}]",
         "1 Forbidden no\n"},
        {"Fail",
         "validations: [{expression: 'false', message: no, messageExpression: \"'is ' + "
         "string(object.spec.replicas)\"}]",
         "0  is 3\n"},
        {"Fail",
         "validations: [{expression: 'false', message: no, messageExpression: "
         "\"string(object.none)\"}]",
         "0  no\n"},
        {"Fail", "validations: [{expression: object.none == 1}]",
         "0  expression 'object.none == 1' resulted in error: no such key: none\n"},
        {"Ignore", "validations: [{expression: object.none == 1}]", ""},
        {"Ignore", "validations: [{expression: '1 +'}]", ""},
        {"Fail",
         "matchConditions: [{name: a, expression: 'false'}], validations: [{expression: "
         "'false'}]",
         ""},
        {"Fail",
         "matchConditions: [{name: a, expression: object.none}], validations: [{expression: "
         "'true'}]",
         NULL},
        {"Fail",
         "variables: [{name: n, expression: object.spec.replicas}], validations: [{expression: "
         "variables.n > 3}]",
         "0  failed expression: variables.n > 3\n"},
        {"Fail",
         "auditAnnotations: [{key: who, valueExpression: request.userInfo.username}, {key: none, "
         "valueExpression: 'null'}]",
         "who=ann\n"},
        {"Fail", "validations: [{expression: '1'}]", NULL},
        {"Fail", "variables: [{name: a-b, expression: '1'}], validations: [{expression: 'true'}]",
         NULL},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        const char *got = verdict(&a, cases[i].policy, cases[i].spec);

        print_message("# %s\n", cases[i].spec);
        if (cases[i].verdict)
            assert_string_equal(got, cases[i].verdict);
        else /* it cannot be evaluated: denied */
            assert_int_equal(*got, '0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resources_match),
        cmocka_unit_test(namespaces_match_by_their_own_labels),
        cmocka_unit_test(conditions_decide),
        cmocka_unit_test(conditions_share_one_budget),
        cmocka_unit_test(conditions_are_checked),
        cmocka_unit_test(policies_decide),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
