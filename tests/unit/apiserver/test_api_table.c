/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of Pods and Nodes: states that take a walk over containers and conditions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "apiserver/api/res.h"
#include "kube/table/table.h"

/* 2026-01-01T01:00:00Z */
static const int64_t now_s = 1767229200;

static const char *row(struct sw_arena *a, const char *plural, const char *json)
{
    struct api_registry g;
    const struct api_res *r;
    struct sw_json *obj = NULL;
    struct sw_json *cells;
    const char *text = "";

    api_registry_init(&g);
    r = api_registry_find(&g, sw_slice("", 0), SW_SLICE_LIT("v1"), sw_slice_str(plural));
    assert_non_null(r);
    assert_int_equal(sw_json_parse(a, sw_slice_str(json), NULL, &obj, NULL), SW_OK);
    cells = sw_table_cells(a, r->builtin, NULL, obj, now_s);
    assert_int_equal(sw_json_len(cells), sw_json_len(sw_table_columns(a, r->builtin, NULL)));
    for (size_t i = 0; i < sw_json_len(cells); i++)
        text = sw_arena_printf(a, "%s%s%.*s", text, i ? "|" : "",
                               SW_SLICE_ARG(sw_json_str(sw_json_at(cells, i))));
    api_registry_done(&g);
    return text;
}

#define META "\"metadata\":{\"name\":\"p\",\"creationTimestamp\":\"2026-01-01T00:00:00Z\"}"
#define TWO  "\"spec\":{\"containers\":[{\"name\":\"a\"},{\"name\":\"b\"}]}"
#define NONE "<none>|<none>|<none>|<none>"

static const struct {
    const char *json;
    const char *row;
} pods[] = {
    {"{" META "," TWO ",\"status\":{\"phase\":\"Pending\"}}", "p|0/2|Pending|0|60m|" NONE},
    {"{" META "," TWO ",\"status\":{\"phase\":\"Failed\",\"reason\":\"Evicted\"}}",
     "p|0/2|Evicted|0|60m|" NONE},
    {"{" META "," TWO ",\"status\":{\"phase\":\"Pending\",\"conditions\":[{\"type\":"
     "\"PodScheduled\",\"reason\":\"SchedulingGated\"}]}}",
     "p|0/2|SchedulingGated|0|60m|" NONE},
    {"{" META "," TWO ",\"status\":{\"phase\":\"Running\",\"podIPs\":[{\"ip\":\"10.0.0.1\"}],"
     "\"containerStatuses\":[{\"ready\":true,\"restartCount\":2,\"state\":{\"running\":{}},"
     "\"lastState\":{\"terminated\":{\"finishedAt\":\"2026-01-01T00:59:00Z\"}}},"
     "{\"ready\":true,\"restartCount\":0,\"state\":{\"running\":{}}}]}}",
     "p|2/2|Running|2 (60s ago)|60m|10.0.0.1|<none>|<none>|<none>"},
    {"{" META "," TWO
     ",\"status\":{\"phase\":\"Running\",\"containerStatuses\":[{\"restartCount\":7,"
     "\"state\":{\"waiting\":{\"reason\":\"CrashLoopBackOff\"}}},{\"ready\":true,\"state\":"
     "{\"running\":{}}}]}}",
     "p|1/2|CrashLoopBackOff|7|60m|" NONE},
    {"{" META "," TWO ",\"status\":{\"phase\":\"Failed\",\"containerStatuses\":[{\"state\":"
     "{\"terminated\":{\"exitCode\":3}}},{\"state\":{\"terminated\":{\"signal\":9}}}]}}",
     "p|0/2|ExitCode:3|0|60m|" NONE},
    {"{" META ",\"spec\":{\"containers\":[{\"name\":\"a\"}],\"initContainers\":[{\"name\":\"i\"},"
     "{\"name\":\"s\",\"restartPolicy\":\"Always\"}],\"nodeName\":\"n\"},\"status\":{\"phase\":"
     "\"Pending\",\"initContainerStatuses\":[{\"name\":\"i\",\"state\":{\"terminated\":{"
     "\"exitCode\":"
     "0}}},{\"name\":\"s\",\"started\":true,\"ready\":true,\"state\":{\"running\":{}}}]}}",
     "p|1/2|Pending|0|60m|<none>|n|<none>|<none>"},
    {"{" META ",\"spec\":{\"containers\":[{\"name\":\"a\"}],\"initContainers\":[{\"name\":\"i\"}]},"
     "\"status\":{\"phase\":\"Pending\",\"initContainerStatuses\":[{\"name\":\"i\","
     "\"restartCount\":1,"
     "\"state\":{\"waiting\":{\"reason\":\"PodInitializing\"}}}]}}",
     "p|0/1|Init:0/1|1|60m|" NONE},
    {"{\"metadata\":{\"name\":\"p\",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}," TWO
     ",\"status\":{\"phase\":\"Running\"}}",
     "p|0/2|Terminating|0|<unknown>|" NONE},
    {"{" META ",\"spec\":{\"containers\":[{}],\"readinessGates\":[{\"conditionType\":\"g\"},"
     "{\"conditionType\":\"h\"}]},\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":"
     "\"g\","
     "\"status\":\"True\"}]}}",
     "p|0/1|Running|0|60m|<none>|<none>|<none>|1/2"},
};

static void pods_show_what_holds_them_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(pods); i++) {
        SW_ARENA_AUTO a = {0};

        assert_string_equal(row(&a, "pods", pods[i].json), pods[i].row);
    }
}

static void nodes_show_roles_and_addresses(void **state)
{
    SW_ARENA_AUTO a = {0};

    (void)state;
    assert_string_equal(row(&a, "nodes", "{" META "}"),
                        "p|Unknown|<none>|60m||<none>|<none>|<unknown>|<unknown>|<unknown>");
    assert_string_equal(
        row(&a, "nodes",
            "{\"metadata\":{\"name\":\"n\",\"labels\":{\"node-role.kubernetes.io/worker\":\"\","
            "\"kubernetes.io/role\":\"edge\",\"node-role.kubernetes.io/\":\"\"}},\"spec\":"
            "{\"unschedulable\":true},\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":"
            "\"False\"}],\"addresses\":[{\"type\":\"ExternalIP\",\"address\":\"1.2.3.4\"}],"
            "\"nodeInfo\":{\"kubeletVersion\":\"v1\",\"osImage\":\"o\",\"kernelVersion\":\"k\","
            "\"containerRuntimeVersion\":\"c\"}}}"),
        "n|NotReady,SchedulingDisabled|edge,worker|<unknown>|v1|<none>|1.2.3.4|o|k|c");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(pods_show_what_holds_them_up),
        cmocka_unit_test(nodes_show_roles_and_addresses),
    };

    return cmocka_run_group_tests_name("api_table", tests, NULL, NULL);
}
