/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "telemetry/accesslog.h"

static int log_pipe[2];

/* The line written last, without its time. */
static const char *heard(void)
{
    static char line[4096];
    ssize_t n;
    char *tab;

    sw_log_flush();
    n = read(log_pipe[0], line, sizeof(line) - 1);
    line[n > 0 ? n : 0] = '\0';
    tab = strchr(line, '\t');
    return tab ? tab + 1 : line;
}

static struct sw_access full(enum sw_direction d)
{
    return (struct sw_access){
        .direction = d,
        .src = {.addr = {.ip = {.family = 4, .b = {10, 0, 1, 5}}, .port = 40000},
                .workload = SW_SLICE_LIT("shell-1"),
                .ns = SW_SLICE_LIT("default"),
                .identity = SW_SLICE_LIT("spiffe://cluster.local/ns/default/sa/shell"),
                .cluster = SW_SLICE_LIT("Kubernetes")},
        .dst = {.addr = {.ip = {.family = 6, .b = {[15] = 1}}, .port = 15008},
                .workload = SW_SLICE_LIT("echo-1"),
                .ns = SW_SLICE_LIT("default"),
                .identity = SW_SLICE_LIT("spiffe://cluster.local/ns/default/sa/echo"),
                .cluster = SW_SLICE_LIT("Kubernetes")},
        .hbone_addr = SW_SLICE_LIT("10.0.2.7:8080"),
        .dst_service = SW_SLICE_LIT("echo.default.svc.cluster.local"),
        .received = 84,
        .sent = 171,
        .duration_ns = 12999999,
    };
}

static void complete_line_has_all_fields_in_order(void **state)
{
    struct sw_access a = full(SW_OUTBOUND);

    (void)state;
    sw_accesslog_complete(&a);
    assert_string_equal(
        heard(),
        "info\taccess\tconnection complete\tsrc.addr=10.0.1.5:40000 src.workload=\"shell-1\" "
        "src.namespace=\"default\" src.identity=\"spiffe://cluster.local/ns/default/sa/shell\" "
        "src.cluster=\"Kubernetes\" dst.addr=[::1]:15008 dst.hbone_addr=10.0.2.7:8080 "
        "dst.service=\"echo.default.svc.cluster.local\" dst.workload=\"echo-1\" "
        "dst.namespace=\"default\" dst.identity=\"spiffe://cluster.local/ns/default/sa/echo\" "
        "dst.cluster=\"Kubernetes\" direction=\"outbound\" bytes_sent=84 bytes_recv=171 "
        "duration=\"12ms\"\n");
}

static void absent_fields_are_left_out_and_bytes_flip(void **state)
{
    struct sw_access a = {.direction = SW_INBOUND, .received = 84, .sent = 171};

    (void)state;
    a.error = "policy 'default/deny' \"x\"";
    sw_accesslog_complete(&a);
    assert_string_equal(heard(),
                        "error\taccess\tconnection complete\tdirection=\"inbound\" bytes_sent=171 "
                        "bytes_recv=84 duration=\"0ms\" "
                        "error=\"policy 'default/deny' \\\"x\\\"\"\n");
}

static void failed_line_is_short(void **state)
{
    struct sw_access a = full(SW_INBOUND);

    (void)state;
    a.error = "no\nway";
    sw_accesslog_failed(&a);
    assert_string_equal(heard(), "warn\taccess\tconnection failed\tsrc.addr=10.0.1.5:40000 "
                                 "dst.addr=[::1]:15008 direction=\"inbound\" "
                                 "error=\"no\\u000away\"\n");
}

static void opened_line_is_for_debugging(void **state)
{
    struct sw_access a = {.direction = SW_OUTBOUND};

    (void)state;
    sw_accesslog_opened(&a); /* filtered */
    assert_int_equal(sw_log_filter(SW_SLICE_LIT("access=debug"), false, NULL), SW_OK);
    a.trace_id = SW_SLICE_LIT("4bf92f3577b34da6a3ce929d0e0e4736");
    sw_accesslog_opened(&a);
    assert_string_equal(heard(), "debug\taccess\tconnection opened\tdirection=\"outbound\" "
                                 "trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\"\n");
}

static int set_up(void **state)
{
    (void)state;
    if (pipe(log_pipe) != 0)
        return -1;
    sw_log_start(log_pipe[1], SW_LOG_PLAIN);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sw_log_stop();
    (void)close(log_pipe[0]);
    (void)close(log_pipe[1]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(complete_line_has_all_fields_in_order),
        cmocka_unit_test(absent_fields_are_left_out_and_bytes_flip),
        cmocka_unit_test(failed_line_is_short),
        cmocka_unit_test(opened_line_is_for_debugging),
    };

    return cmocka_run_group_tests_name("accesslog", tests, set_up, tear_down);
}
