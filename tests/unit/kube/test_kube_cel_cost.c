/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The estimated cost of rules against what kube-apiserver's own code answered: data/cel-cost.json
 * was recorded with the modules it names; tests/interop/apiextensions asks them again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "helper.h"
#include "kube/cel/cel.h"
#include "kube/crd/schema.h"

static struct sw_arena arena;
static const struct sw_json *golden;

static int setup(void **state)
{
    size_t n = 0;
    struct sw_json **docs = t_yaml_file(&arena, KUBE_TEST_DATA "/cel-cost.json", &n);

    golden = n ? docs[0] : NULL;
    return golden ? 0 : -1;
}

static int teardown(void **state)
{
    sw_arena_clear(&arena);
    return 0;
}

/* UINT64_MAX stands for "does not compile". */
static uint64_t cost_of(struct sw_arena *a, const struct sw_schema *s, const struct sw_json *rule,
                        const char *key, unsigned flags)
{
    struct sw_cel *c = NULL;
    const char *why = NULL;
    uint64_t cost;

    if (sw_json_true(sw_json_find(rule, "optionalOldSelf")))
        flags |= SW_CEL_OPTIONAL_OLD;
    if (sw_cel_compile(a, sw_json_str(sw_json_find(rule, key)), s, flags | SW_CEL_RESOURCE, &c,
                       &why) < 0)
        return UINT64_MAX;
    cost = sw_cel_cost(c);
    sw_cel_free(c);
    return cost;
}

static uint64_t recorded(const struct sw_json *rule, const char *key, const char *refused)
{
    const struct sw_json *v = sw_json_find(rule, key);
    uint64_t n = 0;

    if (sw_json_true(sw_json_find(rule, refused)))
        return UINT64_MAX;
    assert_true(v && sw_slice_to_u64(v->text, UINT64_MAX, &n));
    return n;
}

static size_t compare(const struct sw_schema *s, const struct sw_json *rule)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice text = sw_json_str(sw_json_find(rule, "rule"));
    uint64_t want = recorded(rule, "cost", "refused");
    uint64_t got = cost_of(&a, s, rule, "rule", 0);

    if (got != want) {
        print_message("# %.*s: %llu instead of %llu\n", SW_SLICE_ARG(text), (unsigned long long)got,
                      (unsigned long long)want);
        return 1;
    }
    if (want == UINT64_MAX || !sw_json_find(rule, "messageExpression"))
        return 0;
    want = recorded(rule, "messageCost", "messageRefused");
    got = cost_of(&a, s, rule, "messageExpression", SW_CEL_WANT_STRING);
    if (got != want)
        print_message("# message of %.*s: %llu instead of %llu\n", SW_SLICE_ARG(text),
                      (unsigned long long)got, (unsigned long long)want);
    return got != want;
}

static void every_rule_costs_what_the_reference_says(void **state)
{
    const struct sw_json *groups = sw_json_find(golden, "groups");
    size_t rules = 0;
    size_t wrong = 0;

    for (size_t i = 0; i < sw_json_len(groups); i++) {
        const struct sw_json *g = sw_json_at(groups, i);
        const struct sw_json *list = sw_json_find(g, "rules");
        struct sw_schema_set set = {0};
        struct sw_field_errs e;

        sw_field_errs_init(&e, &arena);
        assert_int_equal(sw_schema_compile(&set, sw_json_find(g, "schema"), NULL, &e), SW_OK);
        for (size_t k = 0; k < sw_json_len(list); k++)
            wrong += compare(set.root, sw_json_at(list, k));
        rules += sw_json_len(list);
        sw_schema_set_done(&set);
    }
    assert_true(rules > 700);
    assert_int_equal(wrong, 0);
}

static const char *lines(struct sw_arena *a, const struct sw_json *list)
{
    const char *out = "";

    for (size_t i = 0; i < sw_json_len(list); i++)
        out = sw_arena_printf(a, "%s%s%.*s", out, i ? "\n" : "",
                              SW_SLICE_ARG(sw_json_str(sw_json_at(list, i))));
    return out;
}

static void schemas_are_refused_at_the_same_bounds_in_the_same_words(void **state)
{
    const struct sw_json *crds = sw_json_find(golden, "crds");
    struct sw_fpath path = sw_fpath_str(NULL, "spec.validation.openAPIV3Schema");
    size_t refused = 0;

    for (size_t i = 0; i < sw_json_len(crds); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_schema_set set = {0};
        const struct sw_json *want = sw_json_find(sw_json_at(crds, i), "errors");
        struct sw_field_errs e;

        sw_field_errs_init(&e, &a);
        (void)!sw_schema_compile(&set, sw_json_find(sw_json_at(crds, i), "schema"), &path, &e);
        assert_string_equal(t_errs(&a, &e), lines(&a, want));
        refused += e.n > 0;
        sw_schema_set_done(&set);
    }
    assert_true(refused > 100 && refused < sw_json_len(crds));
}

static const char costly[] =
    "{type: object, properties: {l: {type: array, items: {type: string, x-kubernetes-validations: "
    "[{rule: \"self.contains('abc')\"}]}}}}";

static int compile_as(const char *text, const struct sw_schema_opts *o)
{
    SW_ARENA_AUTO a = {0};
    struct sw_schema_set set = {0};
    struct sw_field_errs e;
    int rc;

    sw_field_errs_init(&e, &a);
    rc = sw_schema_compile_as(&set, t_yaml(&a, text), o, NULL, &e);
    sw_schema_set_done(&set);
    return rc;
}

/* What was admitted by an older release is served; only the sum is judged when it stays. */
static void stored_schemas_are_not_judged_again(void **state)
{
    static const struct sw_schema_opts stored = {.stored = true};
    static const struct sw_schema_opts unchanged = {.unchanged = true};
    static const char fine[] = "{type: object, properties: {s: {type: string, maxLength: 2600000, "
                               "x-kubernetes-validations: [{rule: '!format.uri().validate(self)."
                               "hasValue()'}]}}}";

    assert_int_equal(compile_as(costly, NULL), SW_EINVAL);
    assert_int_equal(compile_as(costly, &stored), SW_OK);
    assert_int_equal(compile_as(costly, &unchanged), SW_EINVAL);
    assert_int_equal(compile_as(fine, NULL), SW_EINVAL);
    assert_int_equal(compile_as(fine, &unchanged), SW_OK);
}

/* Functions that Kubernetes does not have are refused, unless a stored rule uses them. */
static void old_functions_work_where_they_are_stored(void **state)
{
    static const char text[] = "{type: object, properties: {s: {type: string, maxLength: 5}}, "
                               "x-kubernetes-validations: [{rule: \"cel.bind(x, self.s, x == "
                               "x.reverse())\"}]}";
    static const struct sw_schema_opts stored = {.stored = true};
    SW_ARENA_AUTO a = {0};
    struct sw_schema_opts update = {.rules = t_yaml(&a, text)};

    assert_int_equal(compile_as(text, NULL), SW_EINVAL);
    assert_int_equal(compile_as(text, &stored), SW_OK);
    assert_int_equal(compile_as(text, &update), SW_OK);
}

/* Chains of optMap double with every step: the estimate ends. */
static void estimates_are_bounded(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_schema_set set = {0};
    struct sw_field_errs e;
    struct sw_cel *c = NULL;
    const char *why = NULL;
    const char *expr = "self.?s";

    sw_field_errs_init(&e, &a);
    assert_int_equal(
        sw_schema_compile(&set, t_yaml(&a, "{type: object, properties: {s: {type: string}}}"), NULL,
                          &e),
        SW_OK);
    for (int i = 0; i < 40; i++)
        expr = sw_arena_printf(&a, "%s.optMap(x, x + 'a')", expr);
    expr = sw_arena_printf(&a, "%s.hasValue()", expr);
    assert_int_equal(sw_cel_compile(&a, sw_slice_str(expr), set.root, 0, &c, &why), SW_OK);
    assert_true(sw_cel_cost(c) == UINT64_MAX);
    sw_cel_free(c);
    sw_schema_set_done(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_costs_what_the_reference_says),
        cmocka_unit_test(schemas_are_refused_at_the_same_bounds_in_the_same_words),
        cmocka_unit_test(stored_schemas_are_not_judged_again),
        cmocka_unit_test(old_functions_work_where_they_are_stored),
        cmocka_unit_test(estimates_are_bounded),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
