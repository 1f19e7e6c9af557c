/* SPDX-License-Identifier: Apache-2.0 */
/* ResourceQuotas: what names and numbers mean, what is refused and how, columns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "helper.h"
#include "kube/builtin/builtin.h"
#include "kube/table/table.h"

static void names_count_objects(void **state)
{
    static const struct {
        const char *name, *plural, *group;
    } cases[] = {
        {"count/configmaps", "configmaps", ""},
        {"count/httpproxies.networking.datumapis.com", "httpproxies", "networking.datumapis.com"},
        {"secrets", "secrets", ""},
        {"pods", "pods", ""},
        {"requests.cpu", "", ""},
        {"services.nodeports", "", ""},
        {"example.com/gpu", "", ""},
        {"count", "", ""},
        {"", "", ""},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_slice group;
        struct sw_slice plural = sw_quota_counts(sw_slice_str(cases[i].name), &group);

        assert_true(sw_slice_eq_str(plural, cases[i].plural));
        assert_true(sw_slice_eq_str(group, cases[i].group));
    }
}

static void limits_are_whole_numbers(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        uint64_t n;
    } cases[] = {
        {"'0'", true, 0},
        {"'10'", true, 10},
        {"7", true, 7},
        {"2k", true, 2000},
        {"1M", true, 1000000},
        {"1500m", false, 0},
        {"'1.5'", false, 0},
        {"-1", false, 0},
        {"''", false, 0},
        {"k", false, 0},
        {"'99999999999999999999'", false, 0},
    };
    SW_ARENA_AUTO a = {0};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        uint64_t n = 0;

        assert_int_equal(sw_quota_number(t_yaml(&a, cases[i].text), &n), cases[i].ok);
        if (cases[i].ok)
            assert_int_equal(n, cases[i].n);
    }
}

static const char *admit(struct sw_arena *a, const char *spec, const char *old)
{
    const struct sw_builtin *b = sw_builtin_kind(sw_slice("", 0), SW_SLICE_LIT("ResourceQuota"));
    static const char form[] = "{metadata: {name: q, namespace: n}, spec: %s}";

    return t_admit_kind(a, b, t_yaml(a, sw_arena_printf(a, form, spec)),
                        old ? t_yaml(a, sw_arena_printf(a, form, old)) : NULL);
}

static void wrong_quotas_are_refused(void **state)
{
    SW_ARENA_AUTO a = {0};

    (void)state;
    assert_string_equal(admit(&a, "{hard: {count/configmaps: '3', requests.cpu: 500m}}", NULL), "");
    assert_string_equal(admit(&a, "{hard: {nonsense: '3'}}", NULL),
                        "spec.hard[nonsense]: Invalid value: \"nonsense\": must be a standard "
                        "resource for quota");
    assert_string_equal(admit(&a, "{hard: {secrets: '-3'}}", NULL),
                        "spec.hard[secrets]: Invalid value: \"-3\": must be greater than or equal "
                        "to 0");
    assert_string_equal(admit(&a, "{hard: {secrets: 1500m}}", NULL),
                        "spec.hard[secrets]: Invalid value: \"1500m\": must be an integer");
}

static void columns_show_use(void **state)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_builtin *b = sw_builtin_kind(sw_slice("", 0), SW_SLICE_LIT("ResourceQuota"));
    const struct sw_json *q =
        t_yaml(&a, "{metadata: {name: q}, status: {hard: {limits.cpu: '4', secrets: '5', "
                   "count/configmaps: '3'}, used: {secrets: '1', count/configmaps: '2'}}}");
    const struct sw_json *cells = sw_table_cells(&a, b, NULL, q, 0);

    (void)state;
    assert_true(sw_json_str_eq(sw_json_at(cells, 1), "count/configmaps: 2/3, secrets: 1/5"));
    assert_true(sw_json_str_eq(sw_json_at(cells, 2), "limits.cpu: 0/4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_count_objects),
        cmocka_unit_test(limits_are_whole_numbers),
        cmocka_unit_test(wrong_quotas_are_refused),
        cmocka_unit_test(columns_show_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
