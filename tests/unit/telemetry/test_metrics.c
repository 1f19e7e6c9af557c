/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "telemetry/metrics.h"

static char *text_of(struct sw_metrics *m, enum sw_metrics_format f)
{
    struct sw_buf b;

    sw_buf_init(&b, 1 << 24);
    assert_int_equal(sw_metrics_write(m, f, &b), SW_OK);
    return sw_buf_take_str(&b);
}

static void expect(struct sw_metrics *m, enum sw_metrics_format f, const char *part)
{
    char *text = text_of(m, f);

    if (!strstr(text, part))
        fail_msg("no '%s' in\n%s", part, text);
    sw_free(text);
}

static void expect_not(struct sw_metrics *m, const char *part)
{
    char *text = text_of(m, SW_METRICS_PROMETHEUS);

    if (strstr(text, part))
        fail_msg("'%s' in\n%s", part, text);
    sw_free(text);
}

/* Sum of the samples whose line begins with the name. */
static uint64_t total_of(struct sw_metrics *m, const char *name)
{
    char *text = text_of(m, SW_METRICS_PROMETHEUS);
    struct sw_slice rest = sw_slice_str(text);
    uint64_t sum = 0;

    while (rest.p) {
        struct sw_slice line = sw_slice_cut(&rest, '\n');
        ptrdiff_t space = sw_slice_rfind(line, ' ');
        uint64_t v;

        if (sw_slice_has_prefix(line, sw_slice_str(name)) && space >= 0 &&
            sw_slice_to_u64(sw_slice_from(line, (size_t)space + 1), UINT64_MAX, &v))
            sum += v;
    }
    sw_free(text);
    return sum;
}

static struct sw_traffic_labels some_labels(const char *workload)
{
    return (struct sw_traffic_labels){
        .reporter = SW_REPORTER_SOURCE,
        .mutual_tls = true,
        .source_workload = sw_slice_str(workload),
        .source_principal = SW_SLICE_LIT("spiffe://cluster.local/ns/a/sa/b"),
        .destination_service = SW_SLICE_LIT("echo.default.svc.cluster.local"),
    };
}

static const char label_text[] =
    "{reporter=\"source\",source_workload=\"shell\",source_canonical_service=\"unknown\","
    "source_canonical_revision=\"unknown\",source_workload_namespace=\"unknown\","
    "source_principal=\"spiffe://cluster.local/ns/a/sa/b\",source_app=\"unknown\","
    "source_version=\"unknown\",source_cluster=\"unknown\","
    "destination_service=\"echo.default.svc.cluster.local\","
    "destination_service_namespace=\"unknown\",destination_service_name=\"unknown\","
    "destination_workload=\"unknown\",destination_canonical_service=\"unknown\","
    "destination_canonical_revision=\"unknown\",destination_workload_namespace=\"unknown\","
    "destination_principal=\"unknown\",destination_app=\"unknown\","
    "destination_version=\"unknown\",destination_cluster=\"unknown\",request_protocol=\"tcp\","
    "response_flags=\"%s\",connection_security_policy=\"mutual_tls\"%s} %d\n";

static void expect_traffic(struct sw_metrics *m, const char *name, const char *flag,
                           const char *more, int value)
{
    char labels[4096];
    char *line;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(labels, sizeof(labels), label_text, flag, more, value);
#pragma GCC diagnostic pop
    line = sw_asprintf("%s%s", name, labels);
    expect(m, SW_METRICS_PROMETHEUS, line);
    expect(m, SW_METRICS_OPENMETRICS, line);
    sw_free(line);
}

static void traffic_has_all_labels_in_order(void **state)
{
    struct sw_metrics *m = sw_metrics_new(NULL);
    struct sw_metrics_shard *s = sw_metrics_shard_new(m);
    struct sw_traffic_labels l = some_labels("shell");
    struct sw_traffic *t = sw_metrics_traffic(s, &l);

    (void)state;
    expect_not(m, "istio_tcp_connections_opened");
    sw_traffic_opened(t);
    sw_traffic_opened(t);
    sw_traffic_bytes(t, 10, 0);
    expect_traffic(m, "istio_tcp_connections_opened_total", "-", "", 2);
    expect_traffic(m, "istio_tcp_received_bytes_total", "-", "", 10);
    expect_traffic(m, "istio_tcp_sent_bytes_total", "-", "", 0);
    expect_not(m, "istio_tcp_connections_closed");
    sw_traffic_closed(t, SW_FLAG_NONE);
    expect_traffic(m, "istio_tcp_connections_closed_total", "-", "", 1);
    expect_not(m, "istio_tcp_connections_failed");
    sw_traffic_closed(t, SW_FLAG_NETWORK_POLICY);
    expect_traffic(m, "istio_tcp_connections_closed_total", "NETWORK_POLICY", "", 1);
    expect_traffic(m, "istio_tcp_connections_failed_total", "NETWORK_POLICY", "", 1);
    sw_metrics_traffic_release(s, t);
    l.source_zone = SW_SLICE_LIT("z1");
    t = sw_metrics_traffic(s, &l);
    sw_traffic_opened(t);
    expect_traffic(m, "istio_tcp_connections_opened_total", "-",
                   ",source_region=\"unknown\",source_zone=\"z1\",destination_region=\"unknown\","
                   "destination_zone=\"unknown\"",
                   1);
    sw_metrics_traffic_release(s, t);
    sw_metrics_shard_free(s);
    sw_metrics_free(m);
}

static void formats_differ_where_they_must(void **state)
{
    struct sw_metrics *m = sw_metrics_new(&(struct sw_metrics_opts){.tag = "1.2"});
    struct sw_metrics_shard *s = sw_metrics_shard_new(m);
    char *text;

    (void)state;
    sw_metric_add(sw_metric_get1(s, SW_METRIC_REFUSALS, "policy"), 3);
    sw_metric_count(s, SW_METRIC_POOL_HITS, NULL);
    sw_metric_count(NULL, SW_METRIC_POOL_HITS, NULL);
    expect(m, SW_METRICS_PROMETHEUS,
           "# TYPE spanwire_refusals_total counter\n"
           "spanwire_refusals_total{reason=\"policy\"} 3\n");
    expect(m, SW_METRICS_OPENMETRICS,
           "# TYPE spanwire_refusals counter\n"
           "spanwire_refusals_total{reason=\"policy\"} 3\n");
    expect(m, SW_METRICS_PROMETHEUS, "\nspanwire_pool_hits_total 1\n");
    expect(m, SW_METRICS_PROMETHEUS, "istio_build{component=\"ztunnel\",tag=\"1.2\"} 1\n");
    expect(m, SW_METRICS_PROMETHEUS, "# TYPE process_open_fds gauge\nprocess_open_fds ");
    expect(m, SW_METRICS_PROMETHEUS, "process_max_fds ");
    expect_not(m, "# EOF");
    expect_not(m, "spanwire_pool_misses");
    text = text_of(m, SW_METRICS_OPENMETRICS);
    assert_true(sw_slice_has_suffix(sw_slice_str(text), SW_SLICE_LIT("\n# EOF\n")));
    sw_free(text);
    sw_metrics_shard_free(s);
    sw_metrics_free(m);
}

static void values_are_escaped_and_cut(void **state)
{
    struct sw_metrics *m = sw_metrics_new(NULL);
    struct sw_metrics_shard *s = sw_metrics_shard_new(m);
    char longer[400];
    char *want;

    (void)state;
    sw_metric_add(sw_metric_get1(s, SW_METRIC_REFUSALS, "a\"b\\c\nd"), 1);
    expect(m, SW_METRICS_PROMETHEUS, "{reason=\"a\\\"b\\\\c\\nd\"} 1\n");
    sw_metric_add(sw_metric_get1(s, SW_METRIC_REFUSALS, "x\xff\x80y"), 1);
    sw_metric_add(sw_metric_get1(s, SW_METRIC_REFUSALS, "x??y"), 1);
    expect(m, SW_METRICS_PROMETHEUS, "{reason=\"x??y\"} 2\n");
    sw_metric_add(sw_metric_get1(s, SW_METRIC_REFUSALS, "caf\xc3\xa9"), 1);
    expect(m, SW_METRICS_PROMETHEUS, "{reason=\"caf\xc3\xa9\"} 1\n");
    sw_metric_add(sw_metric_get1(s, SW_METRIC_REFUSALS, ""), 1);
    sw_metric_add(sw_metric_get1(s, SW_METRIC_REFUSALS, "unknown"), 1);
    expect(m, SW_METRICS_PROMETHEUS, "{reason=\"unknown\"} 2\n");
    memset(longer, 'l', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    longer[255] = (char)0xc3; /* the cut would split this character */
    longer[256] = (char)0xa9;
    sw_metric_add(sw_metric_get1(s, SW_METRIC_REFUSALS, longer), 1);
    want = sw_asprintf("{reason=\"%.255s\"} 1\n", longer);
    expect(m, SW_METRICS_PROMETHEUS, want);
    sw_free(want);
    sw_metrics_shard_free(s);
    sw_metrics_free(m);
}

static void gauges_add_up_and_go(void **state)
{
    struct sw_metrics *m = sw_metrics_new(NULL);
    struct sw_metrics_shard *a = sw_metrics_shard_new(m);
    struct sw_metrics_shard *b = sw_metrics_shard_new(m);
    struct sw_metric *cert = sw_metric_get1(a, SW_METRIC_CERT_EXPIRY, "spiffe://x");

    (void)state;
    sw_metric_add(sw_metric_get1(a, SW_METRIC_SOCKETS_OPEN, "source"), 5);
    sw_metric_sub(sw_metric_get1(b, SW_METRIC_SOCKETS_OPEN, "source"), 2);
    expect(m, SW_METRICS_PROMETHEUS, "istio_tcp_sockets_open{reporter=\"source\"} 3\n");
    sw_metric_set(cert, -7);
    expect(m, SW_METRICS_PROMETHEUS, "{identity=\"spiffe://x\"} -7\n");
    sw_metric_drop(a, cert);
    expect_not(m, "spiffe://x");
    sw_metrics_shard_free(b);
    expect(m, SW_METRICS_PROMETHEUS, "istio_tcp_sockets_open{reporter=\"source\"} 5\n");
    sw_metrics_shard_free(a);
    expect_not(m, "istio_tcp_sockets_open");
    sw_metrics_free(m);
}

static void histogram_is_cumulative(void **state)
{
    struct sw_metrics *m = sw_metrics_new(NULL);
    struct sw_metrics_shard *s = sw_metrics_shard_new(m);
    const struct sw_slice labels[] = {SW_SLICE_LIT("A"), SW_SLICE_LIT("udp"), SW_SLICE_LIT("x"),
                                      SW_SLICE_LIT("v1")};
    struct sw_metric *h = sw_metric_get(s, SW_METRIC_DNS_UPSTREAM_SECONDS, labels);

    (void)state;
    sw_metric_observe(h, 0.0005);
    sw_metric_observe(h, 0.05);
    sw_metric_observe(h, 99);
    expect(m, SW_METRICS_PROMETHEUS, "source_canonical_revision=\"v1\",le=\"0.0005\"} 1\n");
    expect(m, SW_METRICS_PROMETHEUS, "le=\"0.01\"} 1\n");
    expect(m, SW_METRICS_PROMETHEUS, "le=\"0.1\"} 2\n");
    expect(m, SW_METRICS_PROMETHEUS, "le=\"5\"} 2\n");
    expect(m, SW_METRICS_OPENMETRICS, "le=\"5.0\"} 2\n");
    expect(m, SW_METRICS_PROMETHEUS, "le=\"+Inf\"} 3\n");
    expect(m, SW_METRICS_PROMETHEUS,
           "_sum{request_query_type=\"A\",request_protocol=\"udp\","
           "source_canonical_service=\"x\","
           "source_canonical_revision=\"v1\"} 99.0505\n");
    expect(m, SW_METRICS_PROMETHEUS, "source_canonical_revision=\"v1\"} 3\n");
    sw_metrics_shard_free(s);
    expect(m, SW_METRICS_PROMETHEUS, "} 99.0505\n"); /* survives its shard */
    sw_metrics_free(m);
}

static void same_labels_of_two_shards_are_one_series(void **state)
{
    struct sw_metrics *m = sw_metrics_new(NULL);
    struct sw_metrics_shard *a = sw_metrics_shard_new(m);
    struct sw_metrics_shard *b = sw_metrics_shard_new(m);
    struct sw_traffic_labels l = some_labels("shell");

    (void)state;
    sw_traffic_opened(sw_metrics_traffic(a, &l));
    sw_traffic_opened(sw_metrics_traffic(b, &l));
    assert_ptr_equal(sw_metrics_traffic(a, &l), sw_metrics_traffic(a, &l));
    expect_traffic(m, "istio_tcp_connections_opened_total", "-", "", 2);
    sw_metrics_shard_free(a);
    expect_traffic(m, "istio_tcp_connections_opened_total", "-", "", 2);
    sw_metrics_shard_free(b);
    expect_traffic(m, "istio_tcp_connections_opened_total", "-", "", 2);
    sw_metrics_free(m);
}

static void full_table_counts_as_overflow(void **state)
{
    const struct sw_metrics_opts o = {.max_traffic = 2, .max_series = 2};
    struct sw_metrics *m = sw_metrics_new(&o);
    struct sw_metrics_shard *s = sw_metrics_shard_new(m);
    struct sw_traffic *t[4];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char name[8];
        struct sw_traffic_labels l;

        (void)snprintf(name, sizeof(name), "w%zu", i);
        l = some_labels(name);
        t[i] = sw_metrics_traffic(s, &l);
        sw_traffic_opened(t[i]);
        sw_metric_add(sw_metric_get1(s, SW_METRIC_REFUSALS, name), 1);
    }
    assert_ptr_equal(t[2], t[3]);
    assert_int_equal(total_of(m, "istio_tcp_connections_opened_total"), 4);
    expect(m, SW_METRICS_PROMETHEUS, "source_workload=\"overflow\"");
    expect(m, SW_METRICS_PROMETHEUS, "spanwire_refusals_total{reason=\"overflow\"} 2\n");
    expect(m, SW_METRICS_PROMETHEUS, "spanwire_metrics_overflow_total 4\n");
    expect_not(m, "w3");
    for (size_t i = 0; i < 4; i++)
        sw_metrics_traffic_release(s, t[i]);
    sw_metrics_shard_free(s);
    assert_int_equal(total_of(m, "istio_tcp_connections_opened_total"), 4);
    sw_metrics_free(m);
}

/* The sum over all label sets never goes back, whatever is given up. */
static void unused_label_sets_are_given_up(void **state)
{
    const struct sw_metrics_opts o = {.max_traffic = 3, .evict_idle_ns = 1};
    struct sw_metrics *m = sw_metrics_new(&o);
    struct sw_metrics_shard *s = sw_metrics_shard_new(m);
    struct sw_traffic_labels held = some_labels("held");
    struct sw_traffic *kept = sw_metrics_traffic(s, &held);

    (void)state;
    sw_traffic_opened(kept);
    for (size_t i = 0; i < 1000; i++) {
        char name[16];
        struct sw_traffic_labels l;
        struct sw_traffic *t;
        uint64_t now = sw_now_ns();

        (void)snprintf(name, sizeof(name), "w%zu", i);
        l = some_labels(name);
        t = sw_metrics_traffic(s, &l);
        sw_traffic_opened(t);
        sw_metrics_traffic_release(s, t);
        while (sw_now_ns() <= now + 1)
            continue;
    }
    assert_ptr_equal(kept, sw_metrics_traffic(s, &held));
    assert_int_equal(total_of(m, "istio_tcp_connections_opened_total"), 1001);
    expect(m, SW_METRICS_PROMETHEUS, "source_workload=\"w999\"");
    expect_not(m, "source_workload=\"w500\"");
    expect(m, SW_METRICS_PROMETHEUS, "source_workload=\"overflow\"");
    sw_metrics_shard_free(s);
    sw_metrics_free(m);
}

/* Labels are chosen by peers: one that says 'overflow' is a label set like any other. */
static void label_named_overflow_survives_eviction(void **state)
{
    const struct sw_metrics_opts o = {.max_traffic = 1, .evict_idle_ns = 1};
    struct sw_metrics *m = sw_metrics_new(&o);
    struct sw_metrics_shard *s = sw_metrics_shard_new(m);

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct sw_traffic_labels l = {.reporter = SW_REPORTER_SOURCE};
        struct sw_traffic *t;
        uint64_t now = sw_now_ns();

#define SET(name) l.name = i & 1 ? SW_SLICE_LIT("other") : SW_SLICE_LIT("overflow");
        SW_TRAFFIC_LABELS(SET)
#undef SET
        t = sw_metrics_traffic(s, &l);
        sw_traffic_opened(t);
        sw_metrics_traffic_release(s, t);
        while (sw_now_ns() <= now + 1)
            continue;
        assert_int_equal(total_of(m, "istio_tcp_connections_opened_total"), i + 1);
    }
    sw_metrics_shard_free(s);
    assert_int_equal(total_of(m, "istio_tcp_connections_opened_total"), 4);
    sw_metrics_free(m);
}

enum { WORKERS = 3, ROUNDS = 3000 };

static void *worker(void *arg)
{
    struct sw_metrics_shard *s = sw_metrics_shard_new(arg);

    for (size_t i = 0; i < ROUNDS; i++) {
        char name[16];
        struct sw_traffic_labels l;
        struct sw_traffic *t;

        (void)snprintf(name, sizeof(name), "w%zu", i % 40);
        l = some_labels(name);
        t = sw_metrics_traffic(s, &l);
        sw_traffic_opened(t);
        sw_traffic_bytes(t, 3, 4);
        sw_traffic_closed(t, SW_FLAG_DENY);
        sw_metrics_traffic_release(s, t);
        sw_metric_add(sw_metric_get1(s, SW_METRIC_POOL_HITS, NULL), 1);
    }
    sw_metrics_shard_free(s);
    return NULL;
}

static void threads_count_while_others_read(void **state)
{
    const struct sw_metrics_opts o = {.max_traffic = 30, .evict_idle_ns = 1};
    struct sw_metrics *m = sw_metrics_new(&o);
    pthread_t th[WORKERS];
    uint64_t last = 0;

    (void)state;
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&th[i], NULL, worker, m), 0);
    for (int i = 0; i < 50; i++) {
        uint64_t now = total_of(m, "istio_tcp_connections_opened_total");

        assert_true(now >= last);
        last = now;
    }
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_join(th[i], NULL), 0);
    assert_int_equal(total_of(m, "istio_tcp_connections_opened_total"), WORKERS * ROUNDS);
    assert_int_equal(total_of(m, "istio_tcp_connections_failed_total"), WORKERS * ROUNDS);
    assert_int_equal(total_of(m, "istio_tcp_received_bytes_total"), 3 * WORKERS * ROUNDS);
    assert_int_equal(total_of(m, "spanwire_pool_hits_total"), WORKERS * ROUNDS);
    sw_metrics_free(m);
}

static void output_is_bounded(void **state)
{
    struct sw_metrics *m = sw_metrics_new(NULL);
    SW_BUF_AUTO b = {.max = 200};

    (void)state;
    assert_int_equal(sw_metrics_write(m, SW_METRICS_PROMETHEUS, &b), SW_ELIMIT);
    sw_metrics_free(m);
}

static void accept_is_negotiated(void **state)
{
    (void)state;
    assert_int_equal(sw_metrics_negotiate(sw_slice(NULL, 0)), SW_METRICS_PROMETHEUS);
    assert_int_equal(sw_metrics_negotiate(SW_SLICE_LIT("text/plain, */*")), SW_METRICS_PROMETHEUS);
    assert_int_equal(sw_metrics_negotiate(SW_SLICE_LIT(
                         "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3")),
                     SW_METRICS_OPENMETRICS);
    assert_int_equal(sw_metrics_negotiate(SW_SLICE_LIT("application/openmetrics-text; q=0")),
                     SW_METRICS_PROMETHEUS);
}

static void reference_names_every_metric(void **state)
{
    SW_BUF_AUTO b = {.max = 65536};
    char *text;

    (void)state;
    assert_int_equal(sw_metrics_reference(&b), SW_OK);
    text = sw_buf_take_str(&b);
#define CHECK(id, type, name, labels, help) assert_non_null(strstr(text, name));
    SW_METRICS(CHECK)
#undef CHECK
    assert_non_null(strstr(text, "| `istio_tcp_sent_bytes_total` | counter |"));
    sw_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traffic_has_all_labels_in_order),
        cmocka_unit_test(formats_differ_where_they_must),
        cmocka_unit_test(values_are_escaped_and_cut),
        cmocka_unit_test(gauges_add_up_and_go),
        cmocka_unit_test(histogram_is_cumulative),
        cmocka_unit_test(same_labels_of_two_shards_are_one_series),
        cmocka_unit_test(full_table_counts_as_overflow),
        cmocka_unit_test(unused_label_sets_are_given_up),
        cmocka_unit_test(label_named_overflow_survives_eviction),
        cmocka_unit_test(threads_count_while_others_read),
        cmocka_unit_test(output_is_bounded),
        cmocka_unit_test(accept_is_negotiated),
        cmocka_unit_test(reference_names_every_metric),
    };

    (void)!sw_log_filter(SW_SLICE_LIT("off"), true, NULL);
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
