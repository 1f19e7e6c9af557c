/* SPDX-License-Identifier: Apache-2.0 */
/* Label and field selectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "helper.h"
#include "kube/select/fieldsel.h"
#include "kube/select/selector.h"

static void labels_select(void **state)
{
    static const struct {
        const char *selector;
        const char *text; /* canonical */
        bool match;
    } cases[] = {
        {"", "", true},
        {"a=1", "a=1", true},
        {"a==1", "a==1", true},
        {"a!=1", "a!=1", false},
        {"none!=1", "none!=1", true},
        {"a in (1, 2)", "a in (1,2)", true},
        {"a in (2,3)", "a in (2,3)", false},
        {"a notin (2)", "a notin (2)", true},
        {"none notin (x)", "none notin (x)", true},
        {"a", "a", true},
        {"!a", "!a", false},
        {"!none", "!none", true},
        {"n>4", "n>4", true},
        {"n<5", "n<5", false},
        {"a>x1", NULL, false},
        {"b=,a=1", "a=1,b=", true},
        {"x.example/y=z, a", "a,x.example/y=z", true},
        {"in in (in,notin)", "in in (in,notin)", true},
        {"a in (,1)", "a in (,1)", true},
        {"a in ()", "a in ()", false},
    };
    SW_ARENA_AUTO a = {0};
    const struct sw_json *labels = t_yaml(&a, "{a: '1', b: '', n: '5', x.example/y: z, in: in}");

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_label_selector s, again;
        const char *why = NULL;
        int rc = sw_label_selector_parse(&a, sw_slice_str(cases[i].selector), &s, &why);

        if (!cases[i].text) {
            assert_int_equal(rc, SW_EINVAL);
            continue;
        }
        assert_int_equal(rc, SW_OK);
        assert_string_equal(sw_label_selector_text(&a, &s), cases[i].text);
        assert_int_equal(sw_label_selector_match(&s, labels), cases[i].match);
        assert_int_equal(sw_label_selector_parse(&a, sw_slice_str(cases[i].text), &again, &why),
                         SW_OK);
        assert_string_equal(sw_label_selector_text(&a, &again), cases[i].text);
    }
}

static void bad_label_selectors(void **state)
{
    static const struct {
        const char *selector;
        const char *why;
    } cases[] = {
        {"a=b=c", "found '=', expected: ',' or 'end of string'"},
        {"a,", "found '', expected: identifier after ','"},
        {",a", "found ',', expected: !, identifier, or 'end of string'"},
        {"a in x", "unable to parse requirement: found 'x' expected: '('"},
        {"a in (x", "unable to parse requirement: found '', expected: ',' or ')'"},
        {"a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"},
        {"!", "unable to parse requirement: found '', expected: identifier"},
        {"!a=b", "found '=', expected: ',' or 'end of string'"},
        {"n>x", "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' "
                "operators, the value must be an integer"},
        {"a=-", "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label "
                "must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
                "and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
                "'my_value',  or '12345', regex used for validation is "
                "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"},
        {"-a=1",
         "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist "
         "of alphanumeric characters, '-', '_' or '.', and must start and end with an "
         "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used "
         "for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_label_selector s;
        const char *why = "";

        assert_int_equal(sw_label_selector_parse(&a, sw_slice_str(cases[i].selector), &s, &why),
                         SW_EINVAL);
        assert_string_equal(why, cases[i].why);
    }
}

static void structured_selectors(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_label_selector s;
    const char *why = NULL;

    assert_int_equal(sw_label_selector_from_json(
                         &a,
                         t_yaml(&a, "{matchLabels: {b: x}, matchExpressions: [{key: a, operator: "
                                    "In, values: [z, y]}, {key: c, operator: DoesNotExist}]}"),
                         &s, &why),
                     SW_OK);
    assert_string_equal(sw_label_selector_text(&a, &s), "a in (y,z),b=x,!c");
    assert_true(sw_label_selector_match(&s, t_yaml(&a, "{a: y, b: x}")));
    assert_int_equal(sw_label_selector_from_json(&a, NULL, &s, &why), SW_OK);
    assert_false(sw_label_selector_match(&s, t_yaml(&a, "{a: y}")));
    assert_int_equal(sw_label_selector_from_json(&a, t_yaml(&a, "{}"), &s, &why), SW_OK);
    assert_true(sw_label_selector_match(&s, NULL));
    assert_int_equal(
        sw_label_selector_from_json(
            &a, t_yaml(&a, "{matchExpressions: [{key: a, operator: Like}]}"), &s, &why),
        SW_EINVAL);
    assert_string_equal(why, "\"Like\" is not a valid label selector operator");
}

static void fields_select(void **state)
{
    static const char *const known[] = {"metadata.name", "metadata.namespace", NULL};
    static const struct {
        const char *selector;
        int match; /* -1: refused */
        const char *why;
    } cases[] = {
        {"metadata.name=x", 1, NULL},
        {"metadata.name==x,metadata.namespace!=y", 1, NULL},
        {"metadata.name!=x", 0, NULL},
        {"metadata.namespace=", 0, NULL},
        {"metadata.name", -1,
         "invalid selector: 'metadata.name'; can't understand 'metadata.name'"},
        {"metadata.name=a\\xb", -1, "invalid field selector: invalid escape sequence: \\x"},
        {"spec.x=1", -1, "field label not supported: spec.x"},
    };
    SW_ARENA_AUTO a = {0};
    const struct sw_json *obj = t_yaml(&a, "{metadata: {name: x, namespace: n}, spec: {n: 5}}");
    struct sw_field_selector s;
    struct sw_slice v;
    const char *why = NULL;

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        int rc = sw_field_selector_parse(&a, sw_slice_str(cases[i].selector), &s, &why);

        if (rc == SW_OK)
            rc = sw_field_selector_check(&a, &s, known, false, &why);
        assert_int_equal(rc, cases[i].match < 0 ? SW_EINVAL : SW_OK);
        if (rc == SW_OK)
            assert_int_equal(sw_field_selector_match(&s, obj), cases[i].match);
        else
            assert_string_equal(why, cases[i].why);
    }
    assert_int_equal(sw_field_selector_parse(&a, SW_SLICE_LIT("a=b\\,c\\=d\\\\"), &s, &why), SW_OK);
    assert_true(sw_field_selector_exact(&s, "a", &v) && sw_slice_eq_str(v, "b,c=d\\"));
    assert_string_equal(sw_field_selector_text(&a, &s), "a=b\\,c\\=d\\\\");
    assert_int_equal(sw_field_selector_parse(&a, SW_SLICE_LIT("data.a=b"), &s, &why), SW_OK);
    assert_int_equal(sw_field_selector_check(&a, &s, known, true, &why), SW_EINVAL);
    assert_string_equal(why, "\"data.a\" is not a known field selector: only \"metadata.name\", "
                             "\"metadata.namespace\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_select),
        cmocka_unit_test(bad_label_selectors),
        cmocka_unit_test(structured_selectors),
        cmocka_unit_test(fields_select),
    };

    return cmocka_run_group_tests_name("kube_selector", tests, NULL, NULL);
}
