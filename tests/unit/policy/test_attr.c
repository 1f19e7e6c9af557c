/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/json.h"
#include "policy/attr.h"

#define S(x) SW_SLICE_LIT(x)

enum { POLICIES_MAX = 8 };

static const struct sw_attr client[] = {{S("client/labels.app"), S("shop")},
                                        {S("client/labels.app.io/name"), S("x")},
                                        {S("client/ns"), S("default")},
                                        {S("empty"), S("")}};
static const struct sw_attr service[] = {{S("export/name"), S("web")}};

static struct sw_json *parse(struct sw_arena *a, const char *text)
{
    struct sw_json *v = NULL;

    assert_int_equal(sw_json_parse(a, sw_slice_str(text), NULL, &v, NULL), SW_OK);
    return v;
}

static struct sw_attr_policy *policy(struct sw_arena *a, const char *ns, const char *name,
                                     const char *spec)
{
    struct sw_attr_policy *p = NULL;
    struct sw_err err = {0};
    int rc =
        sw_attr_policy_parse(a, sw_slice_str(ns), sw_slice_str(name), parse(a, spec), &p, &err);

    if (rc != SW_OK)
        print_error("%s: %s\n", spec, err.msg);
    assert_int_equal(rc, SW_OK);
    return p;
}

static struct sw_attr_request request(const char *ns)
{
    return (struct sw_attr_request){.ns = sw_slice_str(ns),
                                    .src = {client, SW_ARRAY_LEN(client)},
                                    .dst = {service, SW_ARRAY_LEN(service)}};
}

#define ALL "[{\"workloadSelector\":{}}]"

/* One row: policies as "ns|name|action|from", the verdict and who gave it. */
static const struct {
    const char *policies[POLICIES_MAX];
    bool allowed;
    const char *by;
} layers[] = {
    {{NULL}, false, ""},
    {{"default|a|allow"}, true, "default/a"},
    {{"other|a|allow"}, false, ""},
    {{"default|a|allow", "default|d|deny"}, false, "default/d"},
    {{"default|d|deny", "|p|allow"}, true, "p"},
    {{"default|a|allow", "|p|deny"}, false, "p"},
    {{"default|a|allow", "default|d|deny", "|p|allow", "|q|deny"}, false, "q"},
    {{"other|d|deny", "default|a|allow"}, true, "default/a"},
};

static void tiers_count_in_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(layers); i++) {
        SW_ARENA_AUTO a = {0};
        const struct sw_attr_policy *p[POLICIES_MAX];
        struct sw_policy_verdict v;
        struct sw_attr_request req = request("default");
        size_t n = 0;

        for (; layers[i].policies[n]; n++) {
            struct sw_slice rest = sw_slice_str(layers[i].policies[n]);
            struct sw_slice ns = sw_slice_cut(&rest, '|');
            struct sw_slice name = sw_slice_cut(&rest, '|');

            p[n] =
                policy(&a, sw_arena_dup(&a, ns), sw_arena_dup(&a, name),
                       sw_arena_printf(&a, "{\"action\":\"%.*s\",\"from\":" ALL ",\"to\":" ALL "}",
                                       SW_SLICE_ARG(rest)));
        }
        assert_int_equal(sw_attr_decide(sw_attr_list_new(&a, p, n), &req, &v), layers[i].allowed);
        assert_true(sw_slice_eq_str(v.why.policy, layers[i].by));
        assert_int_equal(v.text[0] == '\0', layers[i].allowed);
    }
}

static const struct {
    const char *selector;
    bool selects;
} selectors[] = {
    {"{}", true},
    {"{\"matchLabels\":{\"client/ns\":\"default\"}}", true},
    {"{\"matchLabels\":{\"client/ns\":\"other\"}}", false},
    {"{\"matchLabels\":{\"client/ns\":\"default\",\"none\":\"x\"}}", false},
    {"{\"matchLabels\":{\"empty\":\"\"}}", true},
    {"{\"matchLabels\":{\"client/labels.app.io/name\":\"x\"}}", true},
    {"{\"matchExpressions\":[{\"key\":\"client/"
     "ns\",\"operator\":\"In\",\"values\":[\"a\",\"default\"]}]}",
     true},
    {"{\"matchExpressions\":[{\"key\":\"client/"
     "ns\",\"operator\":\"NotIn\",\"values\":[\"default\"]}]}",
     false},
    {"{\"matchExpressions\":[{\"key\":\"none\",\"operator\":\"NotIn\",\"values\":[\"x\"]}]}", true},
    {"{\"matchExpressions\":[{\"key\":\"empty\",\"operator\":\"Exists\"}]}", true},
    {"{\"matchExpressions\":[{\"key\":\"none\",\"operator\":\"Exists\"}]}", false},
    {"{\"matchExpressions\":[{\"key\":\"none\",\"operator\":\"DoesNotExist\"}]}", true},
};

static void selectors_select(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(selectors); i++) {
        SW_ARENA_AUTO a = {0};
        const struct sw_attr_policy *p = policy(
            &a, "default", "p",
            sw_arena_printf(
                &a, "{\"action\":\"allow\",\"from\":[{\"workloadSelector\":%s}],\"to\":" ALL "}",
                selectors[i].selector));
        const struct sw_attr_list *l = sw_attr_list_new(&a, &p, 1);
        struct sw_attr_request req = request("default");
        struct sw_policy_verdict v;

        if (sw_attr_decide(l, &req, &v) != selectors[i].selects)
            fail_msg("%s", selectors[i].selector);
        assert_int_equal(sw_attr_list_needs_source(l, req.ns), i > 0);
    }
}

/* Else one team's policy would lock out the clients of all others that have no attributes. */
static void policies_of_others_need_no_source(void **state)
{
    static const char open[] = "{\"action\":\"allow\",\"from\":" ALL ",\"to\":" ALL "}";
    static const char picky[] = "{\"action\":\"deny\",\"from\":[{\"workloadSelector\":"
                                "{\"matchLabels\":{\"x\":\"y\"}}}],\"to\":" ALL "}";
    SW_ARENA_AUTO a = {0};
    const struct sw_attr_policy *p[] = {policy(&a, "mine", "p", open),
                                        policy(&a, "theirs", "p", picky),
                                        policy(&a, "", "p", picky)};
    const struct sw_attr_list *l = sw_attr_list_new(&a, p, 2);

    (void)state;
    assert_false(sw_attr_list_needs_source(l, SW_SLICE_LIT("mine")));
    assert_true(sw_attr_list_needs_source(l, SW_SLICE_LIT("theirs")));
    assert_false(sw_attr_list_needs_source(l, SW_SLICE_LIT("nobodys")));
    /* Privileged ones are everybody's. */
    l = sw_attr_list_new(&a, p, 3);
    assert_true(sw_attr_list_needs_source(l, SW_SLICE_LIT("mine")));
}

static void the_verdict_names_entry_and_attribute(void **state)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_attr_policy *p = policy(
        &a, "", "no",
        "{\"action\":\"deny\",\"from\":[{\"workloadSelector\":{\"matchLabels\":{\"x\":\"y\"}}},"
        "{\"workloadSelector\":{\"matchLabels\":{\"client/ns\":\"default\"}}}],\"to\":" ALL "}");
    struct sw_attr_request req = request("default");
    struct sw_policy_verdict v;

    (void)state;
    assert_false(sw_attr_decide(sw_attr_list_new(&a, &p, 1), &req, &v));
    assert_int_equal(v.why.rule, 1);
    assert_true(v.why.privileged);
    assert_true(sw_slice_eq_str(v.why.attribute, "client/ns"));
    assert_string_equal(v.text,
                        "explicitly denied by: privileged no, from[1], attribute client/ns");
}

static const char *const bad[] = {
    "{\"action\":\"Allow\",\"from\":" ALL ",\"to\":" ALL "}",
    "{\"from\":" ALL ",\"to\":" ALL "}",
    "{\"action\":\"allow\",\"to\":" ALL "}",
    "{\"action\":\"allow\",\"from\":[],\"to\":" ALL "}",
    "{\"action\":\"allow\",\"from\":" ALL ",\"to\":[{}]}",
    "{\"action\":\"allow\",\"from\":" ALL ",\"to\":[{\"workloadSets\":[\"x\"]}]}",
    "{\"action\":\"allow\",\"from\":[{\"workloadSelector\":{\"matchLabels\":{\"a/b/"
    "c\":\"x\"}}}],\"to\":" ALL "}",
    "{\"action\":\"allow\",\"from\":[{\"workloadSelector\":{\"matchLabels\":{\"a\":\"not a "
    "value\"}}}],\"to\":" ALL "}",
    "{\"action\":\"allow\",\"from\":[{\"workloadSelector\":{\"matchExpressions\":[{\"key\":\"a\","
    "\"operator\":"
    "\"Near\"}]}}],\"to\":" ALL "}",
    "{\"action\":\"allow\",\"from\":[{\"workloadSelector\":{\"matchExpressions\":[{\"key\":\"a\","
    "\"operator\":"
    "\"In\"}]}}],\"to\":" ALL "}",
    "{\"action\":\"allow\",\"from\":[{\"workloadSelector\":{\"matchExpressions\":[{\"key\":\"a\","
    "\"operator\":"
    "\"Exists\",\"values\":[\"x\"]}]}}],\"to\":" ALL "}",
};

static void unusable_policies_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_attr_policy *p = NULL;
        struct sw_err err = {0};

        if (sw_attr_policy_parse(&a, S("default"), S("p"), parse(&a, bad[i]), &p, &err) == SW_OK)
            fail_msg("%s", bad[i]);
        assert_true(err.msg[0]);
    }
}

static void policies_are_bounded(void **state)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO b = {.max = 1 << 20};
    struct sw_attr_policy *p = NULL;
    struct sw_err err = {0};

    (void)state;
    assert_int_equal(sw_buf_append_str(&b, "{\"action\":\"deny\",\"to\":" ALL
                                           ",\"from\":[{\"workloadSelector\":{"
                                           "\"matchExpressions\":[{\"key\":\"k\",\"operator\":"
                                           "\"In\",\"values\":[\"v\""),
                     SW_OK);
    for (size_t i = 0; i < SW_ATTR_TERMS_MAX; i++)
        assert_int_equal(sw_buf_append_str(&b, ",\"v\""), SW_OK);
    assert_int_equal(sw_buf_append_str(&b, "]}]}}]}"), SW_OK);
    assert_int_equal(sw_buf_putc(&b, '\0'), SW_OK);
    assert_int_equal(sw_attr_policy_parse(&a, S("default"), S("p"),
                                          parse(&a, (const char *)sw_buf_data(&b)), &p, &err),
                     SW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiers_count_in_order),
        cmocka_unit_test(selectors_select),
        cmocka_unit_test(policies_of_others_need_no_source),
        cmocka_unit_test(the_verdict_names_entry_and_attribute),
        cmocka_unit_test(unusable_policies_are_refused),
        cmocka_unit_test(policies_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
