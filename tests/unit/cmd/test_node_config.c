/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "node/config.h"

static struct sw_node_config c;
static struct sw_err err;

static int setup(void **state)
{
    (void)state;
    (void)clearenv();
    (void)setenv("CMOCKA_MESSAGE_OUTPUT", "TAP", 1); /* cmocka looks when it prints */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sw_node_config_done(&c);
    return 0;
}

static int read_args(const char *line)
{
    static char words[512];
    char *argv[32] = {words};
    int argc = 1;
    char *at = words + 1;

    sw_node_config_done(&c);
    words[0] = '\0';
    (void)snprintf(at, sizeof(words) - 1, "%s", line);
    while (*at) {
        char *end = strchrnul(at, ' ');
        bool last = *end == '\0';

        *end = '\0';
        argv[argc++] = at;
        at = last ? end : end + 1;
    }
    return sw_node_config_read(&c, argc, argv, &err);
}

#define NS(s) ((s)*SW_NS_PER_S)

static void test_defaults_are_the_references(void **state)
{
    char text[SW_ADDR_TEXT];

    (void)state;
    assert_int_equal(read_args(""), SW_OK);
    assert_int_equal(c.serve.mode, SW_NODE_SHARED);
    assert_true(c.serve.proxy);
    assert_string_equal(c.names.network, "");
    assert_string_equal(c.names.cluster_id, "Kubernetes");
    assert_string_equal(c.names.cluster_domain, "cluster.local");
    assert_string_equal(c.names.trust_domain, "cluster.local");
    assert_int_equal(c.ca.secret_ttl_ns, NS(86400));
    assert_int_equal(c.sockets.packet_mark, 1337);
    assert_int_equal(c.sockets.orig_src, SW_NODE_AUTO);
    assert_int_equal(c.crypto.aead, SW_NODE_AEAD_AUTO);
    assert_true(c.listen.ipv6 && c.listen.port_reuse && c.sockets.localhost_app_tunnel &&
                c.tunnel.response_baggage);
    assert_true(c.tunnel.enforce_waypoint && c.tunnel.fast_path && c.keepalive.on);
    assert_false(c.listen.socks5 || c.keepalive.user_timeout || c.log.authz_info ||
                 c.crypto.tls12 || c.names.self_proxy);
    assert_int_equal(c.tunnel.pool_max_streams, 100);
    assert_int_equal(c.tunnel.pool_unused_release_ns, NS(300));
    assert_int_equal(c.h2.stream_window, 4 << 20);
    assert_int_equal(c.h2.connection_window, 16 << 20);
    assert_int_equal(c.h2.frame_size, 1 << 20);
    assert_int_equal(c.keepalive.time_ns, NS(180));
    assert_int_equal(c.keepalive.interval_ns, NS(180));
    assert_int_equal(c.keepalive.retries, 9);
    assert_int_equal(c.keepalive.user_timeout_ms, 0);
    assert_int_equal(c.drain.ns, NS(5));
    assert_string_equal(c.log.level, "info");
    assert_int_equal(c.log.format, SW_LOG_PLAIN);
    assert_string_equal(sw_addr_text(&c.admin.addr, text), "127.0.0.1:15000");
    assert_true(c.admin.is_default);
    assert_string_equal(sw_addr_text(&c.admin.stats_addr, text), "[::]:15020");
    assert_string_equal(sw_addr_text(&c.admin.ready_addr, text), "[::]:15021");
    assert_int_equal(c.listen.ip.family, 0);
    assert_true(c.cpu.workers >= 1);
}

static void test_dedicated_mode(void **state)
{
    (void)state;
    assert_int_equal(read_args("--mode dedicated --workload shop/cart-1/cart"), SW_OK);
    assert_string_equal(c.serve.workload.ns, "shop");
    assert_string_equal(c.serve.workload.name, "cart-1");
    assert_string_equal(c.serve.workload.sa, "cart");
    assert_int_equal(c.sockets.packet_mark, 0);
    assert_int_equal(read_args("--mode dedicated --workload a/b/c --packet-mark 0x539"), SW_OK);
    assert_int_equal(c.sockets.packet_mark, 1337);
}

static void test_shared_mode_with_pods(void **state)
{
    (void)state;
    assert_int_equal(read_args("--pod a/b/c=/run/netns/x --pod d/e/f=/proc/1/ns/net"), SW_OK);
    assert_int_equal(c.serve.n_pods, 2);
    assert_string_equal(c.serve.pods[1].who.sa, "f");
    assert_string_equal(c.serve.pods[1].netns, "/proc/1/ns/net");
    (void)setenv("SPANWIRE_PODS", "a/b/c=/x,d/e/f=/y", 1);
    assert_int_equal(read_args("--packet-mark 0"), SW_OK);
    assert_int_equal(c.serve.n_pods, 2);
    assert_int_equal(c.sockets.packet_mark, 0);
    assert_int_equal(
        read_args("--pod-name p --pod-namespace istio-system --service-account ztunnel"), SW_OK);
    assert_true(c.names.self_proxy);
}

static const struct {
    const char *line;
    const char *message;
} mistakes[] = {
    {"--mode dedicated", "node: --mode dedicated needs --workload NS/NAME/SA"},
    {"--mode dedicated --workload a/b", "node: --workload: 'a/b' is not "
                                        "NAMESPACE/NAME/SERVICE-ACCOUNT"},
    {"--mode dedicated --workload a//c",
     "node: --workload: 'a//c' is not NAMESPACE/NAME/SERVICE-ACCOUNT"},
    {"--mode dedicated --workload a/b/c/d",
     "node: --workload: 'a/b/c/d' has more than three parts"},
    {"--mode dedicated --workload a/b/c --pod a/b/c=/x", "node: --pod belongs to shared mode"},
    {"--workload a/b/c", "node: --workload belongs to dedicated mode"},
    {"--pod a/b/c", "node: --pod: 'a/b/c' does not end in =NETNS_PATH"},
    {"--pod a/b/c=", "node: --pod: 'a/b/c=' does not end in =NETNS_PATH"},
    {"--pod a/b/c=/x --pod d/e/f=/x", "node: --pod: '/x' is named twice"},
    {"--workers 200%",
     "node: --workers: '200%' is neither a number up to 1024 nor a share such as 50%"},
    {"--workers 1025",
     "node: --workers: '1025' is neither a number up to 1024 nor a share such as 50%"},
    {"--workers -1",
     "node: --workers: '-1' is neither a number up to 1024 nor a share such as 50%"},
    {"--cpu-limit x", "node: --cpu-limit: 'x' is not a number of CPUs such as 2 or 500m"},
    {"--drain soon", "node: --drain (CONNECTION_TERMINATION_DEADLINE): 'soon' is not a duration "
                     "such as '5s' or '10m'"},
    {"--grace-period 1m", "node: --grace-period (TERMINATION_GRACE_PERIOD_SECONDS): '1m' is not a "
                          "number of seconds"},
    {"--packet-mark x", "node: --packet-mark (PACKET_MARK): 'x' is not a number"},
    {"--h2-connection-window 65535",
     "node: --h2-connection-window 65535 must exceed --h2-stream-window 4194304, or one stream "
     "could block all others"},
    {"--stats-addr localhost", NULL},
    {"--listen-ip nowhere", NULL},
    {"--mode shared extra", "node: 'extra': unexpected argument"},
};

static void test_mistakes_are_one_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(mistakes); i++) {
        assert_true(read_args(mistakes[i].line) < 0);
        if (mistakes[i].message)
            assert_string_equal(err.msg, mistakes[i].message);
        assert_null(strchr(err.msg, '\n'));
        assert_memory_equal(err.msg, "node: ", 6);
    }
}

static void test_only_one_local_config(void **state)
{
    (void)state;
    (void)setenv("LOCAL_XDS", "workloads: []", 1);
    assert_int_equal(read_args(""), SW_OK);
    assert_string_equal(c.xds.local_inline, "workloads: []");
    assert_int_equal(read_args("--local-xds f"), SW_EINVAL);
}

static void test_drain_follows_the_grace_period(void **state)
{
    static const struct {
        const char *grace;
        uint64_t want_s;
    } cases[] = {{"30", 25}, {"11", 6}, {"10", 9}, {"2", 1}, {"1", 1}, {"0", 1}};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        (void)setenv("TERMINATION_GRACE_PERIOD_SECONDS", cases[i].grace, 1);
        assert_int_equal(read_args(""), SW_OK);
        assert_int_equal(c.drain.ns, NS(cases[i].want_s));
    }
    (void)setenv("CONNECTION_TERMINATION_DEADLINE", "3s", 1);
    assert_int_equal(read_args(""), SW_OK);
    assert_int_equal(c.drain.ns, NS(3));
    assert_int_equal(read_args("--drain 500ms"), SW_OK);
    assert_int_equal(c.drain.ns, 500 * SW_NS_PER_MS);
}

static void test_number_of_workers(void **state)
{
    static const struct {
        const char *text;
        uint32_t cpus;
        const char *request;
        const char *limit;
        uint32_t want;
    } cases[] = {
        {NULL, 2, NULL, NULL, 2},      {NULL, 64, NULL, NULL, 16}, {NULL, 65, NULL, NULL, 17},
        {NULL, 64, "20", NULL, 20},    {NULL, 4, "500m", NULL, 2}, {NULL, 64, NULL, "1500m", 2},
        {NULL, 64, NULL, "1.5", 2},    {NULL, 64, "4", "2", 4},    {NULL, 64, NULL, "1", 1},
        {"auto", 64, NULL, "500m", 1}, {"0", 8, NULL, NULL, 8},    {"3", 8, "1", "1", 3},
        {"50%", 8, NULL, NULL, 4},     {"1%", 8, NULL, NULL, 1},   {"100%", 7, NULL, NULL, 7},
        {"1024", 8, NULL, NULL, 1024},
    };
    static const char *const bad[] = {"", "x", "5.5", "0%", "101%", "%", "1 ", "-1"};
    uint32_t n;

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        assert_int_equal(sw_node_workers(cases[i].text, cases[i].cpus, cases[i].request,
                                         cases[i].limit, &n, &err),
                         SW_OK);
        assert_int_equal(n, cases[i].want);
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++)
        assert_int_equal(sw_node_workers(bad[i], 8, NULL, NULL, &n, &err), SW_EINVAL);
    assert_int_equal(sw_node_workers("auto", 8, "1.2345", NULL, &n, &err), SW_EINVAL);
    assert_int_equal(sw_node_workers("auto", 8, NULL, "1.", &n, &err), SW_EINVAL);
}

static void test_the_cpu_limit_counts_instead_of_the_machine(void **state)
{
    (void)state;
    (void)setenv("ZTUNNEL_CPU_LIMIT", "40", 1);
    assert_int_equal(read_args(""), SW_OK);
    assert_int_equal(c.cpu.workers, 10);
    assert_int_equal(read_args("--workers 50%"), SW_OK);
    assert_int_equal(c.cpu.workers, 20);
}

static void test_proxy_config(void **state)
{
    (void)state;
    (void)setenv("PROXY_CONFIG",
                 "discoveryAddress: istiod:15012\nproxyAdminPort: 16000\nstatsPort: 16020\n"
                 "concurrency: 3\nproxyMetadata: {A: b}\n",
                 1);
    assert_int_equal(read_args(""), SW_OK);
    assert_int_equal(c.admin.addr.port, 16000);
    assert_int_equal(c.admin.stats_addr.port, 16020);
    assert_int_equal(c.cpu.workers, 3);
    assert_int_equal(read_args("--admin-addr 127.0.0.1:1 --stats-addr [::1]:2 --workers 5"), SW_OK);
    assert_int_equal(c.admin.addr.port, 1);
    assert_false(c.admin.is_default);
    assert_int_equal(c.admin.stats_addr.port, 2);
    assert_int_equal(c.cpu.workers, 5);
    (void)setenv("PROXY_CONFIG", "statsPort: 70000\n", 1);
    assert_int_equal(read_args(""), SW_EINVAL);
    assert_memory_equal(err.msg, "node: PROXY_CONFIG: line 1 column 12:", 36);
    (void)setenv("PROXY_CONFIG", "a: [", 1);
    assert_int_equal(read_args(""), SW_EINVAL);
}

static void test_user_timeout(void **state)
{
    (void)state;
    assert_int_equal(read_args("--user-timeout --keepalive-time 10s --keepalive-interval 5s "
                               "--keepalive-retries 3"),
                     SW_OK);
    assert_int_equal(c.keepalive.user_timeout_ms, 25000);
    assert_int_equal(read_args("--user-timeout --no-keepalive"), SW_OK);
    assert_int_equal(c.keepalive.user_timeout_ms, 0);
}

static void test_ipv4_only(void **state)
{
    char text[SW_ADDR_TEXT];

    (void)state;
    (void)setenv("IPV6_ENABLED", "false", 1);
    assert_int_equal(read_args("--listen-ip 127.0.0.2"), SW_OK);
    assert_string_equal(sw_addr_text(&c.admin.stats_addr, text), "0.0.0.0:15020");
    assert_int_equal(c.listen.ip.b[3], 2);
}

static void test_the_agents_socket(void **state)
{
    (void)state;
    /* As ztunnel: shared mode without a list of pods has an agent. */
    assert_int_equal(read_args(""), SW_OK);
    assert_string_equal(c.serve.agent_socket, "/var/run/ztunnel/ztunnel.sock");
    assert_int_equal(read_args("--pod a/b/c=/run/netns/x"), SW_OK);
    assert_null(c.serve.agent_socket);
    assert_int_equal(read_args("--enable-proxy=false"), SW_OK);
    assert_null(c.serve.agent_socket);
    (void)setenv("INPOD_UDS", "/run/x.sock", 1);
    (void)setenv("TLS12_ENABLED", "true", 1);
    assert_int_equal(read_args("--pod a/b/c=/run/netns/x"), SW_OK);
    assert_true(c.crypto.tls12);
    assert_string_equal(c.serve.agent_socket, "/run/x.sock");
    assert_int_equal(read_args("--mode dedicated --workload a/b/c"), SW_OK);
    assert_null(c.serve.agent_socket);
}

static void test_control_plane(void **state)
{
    (void)state;
    assert_int_equal(read_args(""), SW_OK);
    assert_null(c.xds.address);
    (void)setenv("PROXY_CONFIG", "discoveryAddress: plane:15012\nproxyMetadata: {A: b, C: '1'}\n",
                 1);
    assert_int_equal(read_args(""), SW_OK);
    assert_string_equal(c.xds.address, "plane:15012");
    assert_int_equal(c.istio.n_metadata, 2);
    assert_true(sw_slice_eq_str(c.istio.metadata[1].key, "C"));
    assert_int_equal(read_args("--local-xds f"), SW_EINVAL);
    assert_int_equal(read_args("--xds-address http://x:1"), SW_OK);
    assert_string_equal(c.xds.address, "http://x:1");
    (void)setenv("XDS_ADDRESS", "", 1); /* on purpose: none */
    assert_int_equal(read_args("--local-xds f"), SW_OK);
    assert_null(c.xds.address);
    (void)setenv("PROXY_CONFIG", "proxyMetadata: [a]\n", 1);
    assert_int_equal(read_args(""), SW_EINVAL);
}

static void test_help(void **state)
{
    SW_BUF_AUTO b = {.max = 1 << 16};

    (void)state;
    assert_int_equal(read_args("--help"), SW_EOF);
    assert_int_equal(sw_opts_help(&sw_node_options, &b), SW_OK);
    assert_int_equal(sw_opts_man(&sw_node_options, &b), SW_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_defaults_are_the_references, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dedicated_mode, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shared_mode_with_pods, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mistakes_are_one_line, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_one_local_config, setup, teardown),
        cmocka_unit_test_setup_teardown(test_drain_follows_the_grace_period, setup, teardown),
        cmocka_unit_test_setup_teardown(test_number_of_workers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_cpu_limit_counts_instead_of_the_machine, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_proxy_config, setup, teardown),
        cmocka_unit_test_setup_teardown(test_user_timeout, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ipv4_only, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_agents_socket, setup, teardown),
        cmocka_unit_test_setup_teardown(test_control_plane, setup, teardown),
        cmocka_unit_test_setup_teardown(test_help, setup, teardown),
    };

    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
