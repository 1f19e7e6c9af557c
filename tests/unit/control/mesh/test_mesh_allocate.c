/* SPDX-License-Identifier: Apache-2.0 */
/* How namespaces share the block of addresses for hosts of ServiceEntries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "control/mesh/allocate.h"
#include "control/runtime_int.h"
#include "mesh_rig.h"

enum { ENTRIES = 8 };

/* An entry; the next one is younger. */
struct asks {
    const char *ns; /* NULL: none */
    size_t hosts;
    const char *fixed; /* spec.addresses; NULL: none, hosts are given some */
    bool given;        /* it has as many as hosts, from the first on */
};

static const struct sw_json *entry(struct sw_arena *a, const struct asks *e, size_t at)
{
    const char *hosts = "";
    const char *given = "";

    for (size_t i = 0; i < e->hosts; i++) {
        hosts = sw_arena_printf(a, "%s%s'h%zu.%zu.t'", hosts, i ? "," : "", i, at);
        given = sw_arena_printf(a, "%s%s{'host':'h%zu.%zu.t','value':'10.0.0.%zu'}", given,
                                i ? "," : "", i, at, i + 1);
    }
    return mesh_rig_json(
        a,
        sw_arena_printf(a,
                        "{'metadata':{'namespace':'%s','name':'e%zu','creationTimestamp':"
                        "'2026-01-0%zuT00:00:00Z'},'spec':{'resolution':'DNS','hosts':[%s],"
                        "'addresses':[%s]},'status':{'addresses':[%s]}}",
                        e->ns, at, at + 1, hosts, e->fixed ? e->fixed : "", e->given ? given : ""));
}

static struct sw_view *view_of(struct sw_arena *a, const struct asks *list, size_t *ret_n)
{
    struct view_kind *kinds[SW_MESH_ST_KINDS];
    struct view_input *input = view_input_new(sw_slice("", 0));
    struct sw_view *v;

    for (size_t k = 0; k < SW_MESH_ST_KINDS; k++) {
        struct sw_kube_obj *objs[ENTRIES];
        size_t n = 0;

        for (; k == SW_MESH_ST_SERVICE_ENTRY && n < ENTRIES && list[n].ns; n++)
            objs[n] = sw_kube_obj_new(entry(a, &list[n], n));
        kinds[k] = view_kind_new(objs, n);
        *ret_n = k == SW_MESH_ST_SERVICE_ENTRY ? n : *ret_n;
    }
    v = view_new(kinds, SW_MESH_ST_KINDS, input);
    for (size_t k = 0; k < SW_MESH_ST_KINDS; k++)
        view_kind_unref(kinds[k]);
    view_input_unref(input);
    return v;
}

/* IPv4 addresses only: the block of the others is large. */
static size_t count_of(const struct mesh_allocation *g)
{
    size_t n = 0;

    for (size_t i = 0; i < sw_json_len(g->addresses); i++) {
        struct sw_slice ip = sw_json_str(sw_json_find(sw_json_at(g->addresses, i), "value"));

        n += sw_slice_find(ip, ':') < 0;
    }
    return n;
}

/* Fifteen addresses. */
static void no_namespace_takes_all_addresses(void **state)
{
    static const struct {
        const char *what;
        struct asks of[ENTRIES];
        size_t have[ENTRIES];
        size_t refused[ENTRIES];
    } rows[] = {
        {"enough for all", {{"x", 3, NULL, false}, {"y", 2, NULL, false}}, {3, 2}, {0}},
        {"one greedy namespace", {{"x", 20, NULL, false}, {"y", 3, NULL, false}}, {8, 3}, {12, 0}},
        {"with several entries",
         {{"x", 6, NULL, false}, {"x", 6, NULL, false}, {"y", 3, NULL, false}},
         {6, 2, 3},
         {0, 4, 0}},
        {"two greedy namespaces",
         {{"x", 20, NULL, false}, {"y", 20, NULL, false}, {"z", 1, NULL, false}},
         {8, 4, 1},
         {12, 16, 0}},
        {"greedy with addresses of its own choice",
         {{"x", 1,
           "'10.0.0.1','10.0.0.2','10.0.0.3','10.0.0.4','10.0.0.5','10.0.0.6','10.0.0.7',"
           "'10.0.0.8','10.0.0.9','10.0.0.10','10.0.0.11','10.0.0.12','10.0.0.13','10.0.0.14',"
           "'10.0.0.15'",
           false},
          {"y", 3, NULL, false}},
         {0, 3},
         {0, 0}},
        {"addresses elsewhere do not count",
         {{"x", 1, "'10.1.0.1','10.1.0.2','10.1.0.3'", false}, {"x", 8, NULL, false}},
         {0, 8},
         {0, 0}},
        {"what there was stays",
         {{"x", 12, NULL, true}, {"x", 2, NULL, false}, {"y", 2, NULL, false}},
         {12, 0, 2},
         {0, 2, 0}},
    };
    struct sw_mesh_status_conf conf = {.allocate = true};

    (void)state;
    assert_int_equal(sw_cidr_parse(SW_SLICE_LIT("10.0.0.0/28"), &conf.prefix4, NULL), SW_OK);
    assert_int_equal(sw_cidr_parse(SW_SLICE_LIT("2001:2::/48"), &conf.prefix6, NULL), SW_OK);
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        SW_ARENA_AUTO a = {0};
        size_t n = 0;
        struct sw_view *v = view_of(&a, rows[i].of, &n);
        const struct mesh_allocation *given = mesh_allocate(v, &conf, &a);

        for (size_t k = 0; k < n; k++) {
            if (count_of(&given[k]) != rows[i].have[k] || given[k].refused != rows[i].refused[k])
                fail_msg("%s: entry %zu has %zu, %zu refused", rows[i].what, k, count_of(&given[k]),
                         given[k].refused);
        }
        view_unref(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_namespace_takes_all_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
