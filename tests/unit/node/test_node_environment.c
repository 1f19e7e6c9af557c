/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of the node: every environment variable and the field it sets, and what follows. */
#include "node/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define FIELD(f) offsetof(struct sw_node_config, f)

/* A value that is not the default, what the field then is, and flags that the value needs. */
static const struct row {
    const char *env;
    const char *value;
    size_t offset;
    enum sw_opt_type type;
    const char *want; /* NULL: the value itself */
    const char *flags[3];
    int rc;
} rows[] = {
    {"PROXY_MODE", "dedicated", FIELD(serve.mode), SW_OPT_ENUM, "1", {"--workload=a/b/c"}, 0},
    {"PROXY_WORKLOAD_INFO",
     "a/b/c",
     FIELD(serve.workload.sa),
     SW_OPT_STR,
     "c",
     {"--mode=dedicated"},
     0},
    {"SPANWIRE_PODS", "a/b/c=/n,a/d/e=/m", FIELD(serve.pod_texts), SW_OPT_LIST, "2", {NULL}, 0},
    {"INPOD_UDS", "/s", FIELD(serve.agent_socket), SW_OPT_STR, NULL, {NULL}, 0},
    {"ENABLE_PROXY", "false", FIELD(serve.proxy), SW_OPT_BOOL, NULL, {NULL}, 0},
    {"LOCAL_XDS_PATH", "/f", FIELD(xds.local_path), SW_OPT_STR, NULL, {NULL}, 0},
    {"LOCAL_XDS", "{}", FIELD(xds.local_inline), SW_OPT_STR, NULL, {NULL}, 0},
    {"XDS_ADDRESS", "https://x:1", FIELD(xds.address), SW_OPT_STR, NULL, {NULL}, 0},
    {"XDS_ROOT_CA", "SYSTEM", FIELD(xds.root_ca), SW_OPT_STR, NULL, {NULL}, 0},
    {"ALT_XDS_HOSTNAME", "x.example", FIELD(xds.alt_hostname), SW_OPT_STR, NULL, {NULL}, 0},
    {"XDS_ON_DEMAND", "true", FIELD(xds.on_demand), SW_OPT_BOOL, NULL, {"--dns=false"}, 0},
    {"SPANWIRE_XDS_ON_DEMAND_MAX", "7", FIELD(xds.on_demand_max), SW_OPT_U32, NULL, {NULL}, 0},
    {"SPANWIRE_STATE_DIR", "/d", FIELD(xds.state_dir), SW_OPT_STR, NULL, {NULL}, 0},
    {"SPANWIRE_LOCAL_CA", "/ca", FIELD(ca.local), SW_OPT_STR, NULL, {NULL}, 0},
    {"CA_ADDRESS", "https://c:1", FIELD(ca.address), SW_OPT_STR, NULL, {NULL}, 0},
    {"CA_ROOT_CA", "SYSTEM", FIELD(ca.root_ca), SW_OPT_STR, NULL, {NULL}, 0},
    {"ALT_CA_HOSTNAME", "c.example", FIELD(ca.alt_hostname), SW_OPT_STR, NULL, {NULL}, 0},
    {"AUTH_TOKEN", "secret", FIELD(ca.auth_token), SW_OPT_STR, NULL, {NULL}, 0},
    {"SPANWIRE_MACHINE_DIR", "/m", FIELD(ca.machine_dir), SW_OPT_STR, NULL, {NULL}, 0},
    {"CRL_PATH", "/crl", FIELD(ca.crl), SW_OPT_STR, NULL, {NULL}, 0},
    {"SECRET_TTL", "2h", FIELD(ca.secret_ttl_ns), SW_OPT_DURATION, "7200000000000", {NULL}, 0},
    {"TLS12_ENABLED", "true", FIELD(crypto.tls12), SW_OPT_BOOL, NULL, {NULL}, 0},
    {"COMPLIANCE_POLICY",
     "pqc",
     FIELD(crypto.compliance_policy),
     SW_OPT_STR,
     NULL,
     {NULL},
     SW_EINVAL},
    {"NODE_NAME", "n1", FIELD(names.node), SW_OPT_STR, NULL, {NULL}, 0},
    {"NETWORK", "net1", FIELD(names.network), SW_OPT_STR, NULL, {NULL}, 0},
    {"CLUSTER_ID", "east", FIELD(names.cluster_id), SW_OPT_STR, NULL, {NULL}, 0},
    {"ISTIO_META_CLUSTER_ID", "west", FIELD(names.cluster_id), SW_OPT_STR, NULL, {NULL}, 0},
    {"CLUSTER_DOMAIN", "c.local", FIELD(names.cluster_domain), SW_OPT_STR, NULL, {NULL}, 0},
    {"TRUST_DOMAIN", "td.example", FIELD(names.trust_domain), SW_OPT_STR, NULL, {NULL}, 0},
    {"POD_NAME", "z", FIELD(names.pod), SW_OPT_STR, NULL, {NULL}, 0},
    {"POD_NAMESPACE", "ns", FIELD(names.pod_namespace), SW_OPT_STR, NULL, {NULL}, 0},
    {"SERVICE_ACCOUNT", "sa", FIELD(names.service_account), SW_OPT_STR, NULL, {NULL}, 0},
    {"INSTANCE_IP", "10.0.0.9", FIELD(names.instance_ip), SW_OPT_STR, NULL, {NULL}, 0},
    {"SPANWIRE_UPSTREAM_ALLOW", "10.0.0.0/8", FIELD(upstream.allow), SW_OPT_LIST, "1", {NULL}, 0},
    {"SPANWIRE_UPSTREAM_DENY", "10.0.0.0/8,::1", FIELD(upstream.deny), SW_OPT_LIST, "2", {NULL}, 0},
    {"SPANWIRE_LISTEN_IP", "127.0.0.2", FIELD(listen.ip), SW_OPT_IP, NULL, {NULL}, 0},
    {"SPANWIRE_ADMIN_ADDR", "127.0.0.2:1", FIELD(admin.addr), SW_OPT_ADDR, NULL, {NULL}, 0},
    {"SPANWIRE_ADMIN_AUTH", "none", FIELD(admin.access.auth), SW_OPT_ENUM, "1", {NULL}, 0},
    {"SPANWIRE_ADMIN_TOKEN_FILE",
     "/t",
     FIELD(admin.access.token_file),
     SW_OPT_STR,
     NULL,
     {NULL},
     0},
    {"SPANWIRE_STATS_ADDR", "127.0.0.2:2", FIELD(admin.stats_addr), SW_OPT_ADDR, NULL, {NULL}, 0},
    {"SPANWIRE_READY_ADDR", "127.0.0.2:3", FIELD(admin.ready_addr), SW_OPT_ADDR, NULL, {NULL}, 0},
    {"UNSTABLE_ENABLE_SOCKS5", "true", FIELD(listen.socks5), SW_OPT_BOOL, NULL, {NULL}, 0},
    {"IPV6_ENABLED", "false", FIELD(listen.ipv6), SW_OPT_BOOL, NULL, {NULL}, 0},
    {"ISTIO_META_DNS_CAPTURE", "false", FIELD(dns.capture), SW_OPT_BOOL, NULL, {NULL}, 0},
    {"ISTIO_META_DNS_PROXY_ADDR", "127.0.0.3:53", FIELD(dns.addr), SW_OPT_ADDR, NULL, {NULL}, 0},
    {"SPANWIRE_RESOLV_CONF", "/r", FIELD(dns.resolv_conf), SW_OPT_STR, NULL, {NULL}, 0},
    {"PREFERED_SERVICE_NAMESPACE",
     "p",
     FIELD(dns.preferred_namespace),
     SW_OPT_STR,
     NULL,
     {NULL},
     0},
    {"INPOD_PORT_REUSE", "false", FIELD(listen.port_reuse), SW_OPT_BOOL, NULL, {NULL}, 0},
    {"ZTUNNEL_WORKER_THREADS", "7", FIELD(cpu.workers), SW_OPT_U32, NULL, {NULL}, 0},
    {"ZTUNNEL_CPU_LIMIT", "400", FIELD(cpu.workers), SW_OPT_U32, "100", {NULL}, 0},
    {"ZTUNNEL_RESOURCE_CPU_LIMIT", "98500m", FIELD(cpu.workers), SW_OPT_U32, "99", {NULL}, 0},
    {"ZTUNNEL_RESOURCE_CPU_REQUEST", "98.5", FIELD(cpu.workers), SW_OPT_U32, "99", {NULL}, 0},
    {"CONNECTION_TERMINATION_DEADLINE",
     "9s",
     FIELD(drain.ns),
     SW_OPT_DURATION,
     "9000000000",
     {NULL},
     0},
    {"TERMINATION_GRACE_PERIOD_SECONDS",
     "30",
     FIELD(drain.ns),
     SW_OPT_DURATION,
     "25000000000",
     {NULL},
     0},
    {"PACKET_MARK", "7", FIELD(sockets.packet_mark), SW_OPT_U32, NULL, {NULL}, 0},
    {"ENABLE_ORIG_SRC", "false", FIELD(sockets.orig_src), SW_OPT_ENUM, "2", {NULL}, 0},
    {"LOCALHOST_APP_TUNNEL",
     "false",
     FIELD(sockets.localhost_app_tunnel),
     SW_OPT_BOOL,
     NULL,
     {NULL},
     0},
    {"SPANWIRE_ENFORCE_WAYPOINT",
     "false",
     FIELD(tunnel.enforce_waypoint),
     SW_OPT_BOOL,
     NULL,
     {NULL},
     0},
    {"SPANWIRE_FAST_PATH", "false", FIELD(tunnel.fast_path), SW_OPT_BOOL, NULL, {NULL}, 0},
    {"SPANWIRE_EARLY_DATA", "false", FIELD(tunnel.early_data), SW_OPT_BOOL, NULL, {NULL}, 0},
    {"ENABLE_RESPONSE_BAGGAGE",
     "false",
     FIELD(tunnel.response_baggage),
     SW_OPT_BOOL,
     NULL,
     {NULL},
     0},
    {"SPANWIRE_AEAD", "gnutls", FIELD(crypto.aead), SW_OPT_ENUM, "2", {NULL}, 0},
    {"POOL_MAX_STREAMS_PER_CONNECTION",
     "7",
     FIELD(tunnel.pool_max_streams),
     SW_OPT_U32,
     NULL,
     {NULL},
     0},
    {"POOL_UNUSED_RELEASE_TIMEOUT",
     "7s",
     FIELD(tunnel.pool_unused_release_ns),
     SW_OPT_DURATION,
     "7000000000",
     {NULL},
     0},
    {"HTTP2_STREAM_WINDOW_SIZE", "70000", FIELD(h2.stream_window), SW_OPT_U32, NULL, {NULL}, 0},
    {"HTTP2_CONNECTION_WINDOW_SIZE",
     "70000000",
     FIELD(h2.connection_window),
     SW_OPT_U32,
     NULL,
     {NULL},
     0},
    {"HTTP2_FRAME_SIZE", "20000", FIELD(h2.frame_size), SW_OPT_U32, NULL, {NULL}, 0},
    {"KEEPALIVE_ENABLED", "false", FIELD(keepalive.on), SW_OPT_BOOL, NULL, {NULL}, 0},
    {"KEEPALIVE_TIME", "7s", FIELD(keepalive.time_ns), SW_OPT_DURATION, "7000000000", {NULL}, 0},
    {"KEEPALIVE_INTERVAL",
     "7s",
     FIELD(keepalive.interval_ns),
     SW_OPT_DURATION,
     "7000000000",
     {NULL},
     0},
    {"KEEPALIVE_RETRIES", "7", FIELD(keepalive.retries), SW_OPT_U32, NULL, {NULL}, 0},
    {"USER_TIMEOUT_ENABLED",
     "true",
     FIELD(keepalive.user_timeout_ms),
     SW_OPT_U32,
     "1800000",
     {NULL},
     0},
    {"RUST_LOG", "debug", FIELD(log.level), SW_OPT_STR, NULL, {NULL}, 0},
    {"LOG_FORMAT", "json", FIELD(log.format), SW_OPT_ENUM, "1", {NULL}, 0},
    {"AUTHZ_POLICY_INFO_LOGGING", "true", FIELD(log.authz_info), SW_OPT_BOOL, NULL, {NULL}, 0},
    {"PROXY_CONFIG",
     "{proxyAdminPort: 7}",
     FIELD(admin.addr),
     SW_OPT_ADDR,
     "127.0.0.1:7",
     {NULL},
     0},
    {"PROXY_CONFIG", "{statsPort: 7}", FIELD(admin.stats_addr), SW_OPT_ADDR, "[::]:7", {NULL}, 0},
    {"PROXY_CONFIG", "{concurrency: 7}", FIELD(cpu.workers), SW_OPT_U32, "7", {NULL}, 0},
    {"PROXY_CONFIG", "{discoveryAddress: 'd:1'}", FIELD(xds.address), SW_OPT_STR, "d:1", {NULL}, 0},
    {"PROXY_CONFIG",
     "{proxyMetadata: {a: b, c: d}}",
     FIELD(istio.n_metadata),
     SW_OPT_DURATION,
     "2",
     {NULL},
     0},
    {"PROXY_CONFIG",
     "{proxyMetadata: {DNS_CAPTURE: 'false'}}",
     FIELD(dns.capture),
     SW_OPT_BOOL,
     "false",
     {NULL},
     0},
    {"PROXY_CONFIG",
     "{proxyMetadata: {ISTIO_META_DNS_CAPTURE: 'false'}}",
     FIELD(dns.capture),
     SW_OPT_BOOL,
     "false",
     {NULL},
     0},
    {"PROXY_CONFIG",
     "{proxyMetadata: {DNS_PROXY_ADDR: '127.0.0.3:53'}}",
     FIELD(dns.addr),
     SW_OPT_ADDR,
     "127.0.0.3:53",
     {NULL},
     0},
};

static int read_config(struct sw_node_config *c, const char *const *flags, struct sw_err *err)
{
    static char name[] = "node";
    char *argv[5] = {name};
    int argc = 1;

    for (; flags && *flags; flags++)
        argv[argc++] = (char *)(uintptr_t)*flags;
    return sw_node_config_read(c, argc, argv, err);
}

static const char *text_of(const struct sw_node_config *c, const struct row *r, char out[128])
{
    const void *at = (const char *)c + r->offset;

    switch (r->type) {
    case SW_OPT_STR: {
        const char *s = *(const char *const *)at;

        return s ? s : "(none)";
    }
    case SW_OPT_BOOL:
        return *(const bool *)at ? "true" : "false";
    case SW_OPT_U32:
        (void)snprintf(out, 128, "%u", *(const uint32_t *)at);
        return out;
    case SW_OPT_ENUM:
        (void)snprintf(out, 128, "%d", *(const int *)at);
        return out;
    case SW_OPT_DURATION:
        (void)snprintf(out, 128, "%llu", (unsigned long long)*(const uint64_t *)at);
        return out;
    case SW_OPT_LIST:
        (void)snprintf(out, 128, "%zu", ((const struct sw_opt_list *)at)->n);
        return out;
    case SW_OPT_IP:
        return ((const struct sw_ip *)at)->family ? sw_ip_text(at, out) : "(none)";
    case SW_OPT_ADDR:
        return sw_addr_text(at, out);
    case SW_OPT_GROUP:
        break;
    }
    return "";
}

static void every_variable_sets_its_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        const struct row *r = &rows[i];
        const char *want = r->want ? r->want : r->value;
        struct sw_node_config c;
        struct sw_err err = {0};
        char text[128];

        if (r->flags[0] && r->type == SW_OPT_ENUM)
            assert_int_equal(read_config(&c, NULL, &err), SW_OK);
        else if (!r->flags[0] || strcmp(r->flags[0], "--mode=dedicated") != 0)
            assert_int_equal(read_config(&c, r->flags, &err), SW_OK);
        else
            memset(&c, 0, sizeof(c)); /* the mode alone is refused */
        assert_string_not_equal(text_of(&c, r, text), want);
        sw_node_config_done(&c);
        assert_int_equal(setenv(r->env, r->value, 1), 0);
        assert_int_equal(read_config(&c, r->flags, &err), r->rc);
        assert_string_equal(text_of(&c, r, text), want);
        sw_node_config_done(&c);
        assert_int_equal(unsetenv(r->env), 0);
    }
}

static bool has_row(struct sw_slice env)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        if (sw_slice_eq_str(env, rows[i].env))
            return true;
    }
    return false;
}

static void no_variable_is_without_a_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < sw_node_options.n; i++) {
        struct sw_slice names = sw_slice_str(sw_node_options.opts[i].env);

        while (sw_node_options.opts[i].env && names.p) {
            struct sw_slice name = sw_slice_cut(&names, ',');

            if (!has_row(name))
                fail_msg("no row for %.*s", SW_SLICE_ARG(name));
        }
    }
}

/* ---- the mesh's configuration ---- */

static char dir[] = "/tmp/test_node_config.XXXXXX";

static void write_mesh(const char *text)
{
    FILE *f = fopen("etc/istio/config/mesh", "we");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int in_a_directory(void **state)
{
    (void)state;
    return mkdtemp(dir) && chdir(dir) == 0 && mkdir("etc", 0755) == 0 &&
                   mkdir("etc/istio", 0755) == 0 && mkdir("etc/istio/config", 0755) == 0
               ? 0
               : -1;
}

static int out_of_it(void **state)
{
    (void)state;
    (void)unlink("etc/istio/config/mesh");
    (void)rmdir("etc/istio/config");
    (void)rmdir("etc/istio");
    (void)rmdir("etc");
    return chdir("/") == 0 && rmdir(dir) == 0 ? 0 : -1;
}

static const char *metadata_of(const struct sw_node_config *c, const char *key, char out[64])
{
    for (size_t i = 0; i < c->istio.n_metadata; i++) {
        if (sw_slice_eq_str(c->istio.metadata[i].key, key)) {
            (void)snprintf(out, 64, "%.*s", SW_SLICE_ARG(c->istio.metadata[i].value));
            return out;
        }
    }
    return "(none)";
}

static void the_variable_overrides_the_mesh(void **state)
{
    struct sw_node_config c;
    struct sw_err err = {0};
    char text[64];

    (void)state;
    assert_int_equal(read_config(&c, NULL, &err), SW_OK); /* there is none */
    assert_int_equal(err.rc, SW_OK);
    sw_node_config_done(&c);
    write_mesh("trustDomain: other\n"
               "defaultConfig:\n"
               "  discoveryAddress: mesh:1\n"
               "  proxyAdminPort: 7\n"
               "  statsPort: 8\n"
               "  concurrency: 9\n"
               "  image: {imageType: x}\n"
               "  proxyMetadata: {A: mesh, B: mesh}\n");
    assert_int_equal(read_config(&c, NULL, &err), SW_OK);
    assert_string_equal(c.xds.address, "mesh:1");
    assert_int_equal(c.admin.addr.port, 7);
    assert_int_equal(c.admin.stats_addr.port, 8);
    assert_int_equal(c.cpu.workers, 9);
    assert_string_equal(metadata_of(&c, "A", text), "mesh");
    sw_node_config_done(&c);

    assert_int_equal(setenv("PROXY_CONFIG",
                            "{discoveryAddress: 'own:2', statsPort: 10, "
                            "proxyMetadata: {B: own, C: own}}",
                            1),
                     0);
    assert_int_equal(read_config(&c, NULL, &err), SW_OK);
    assert_string_equal(c.xds.address, "own:2");
    assert_int_equal(c.admin.addr.port, 7);
    assert_int_equal(c.admin.stats_addr.port, 10);
    assert_int_equal(c.istio.n_metadata, 3);
    assert_string_equal(metadata_of(&c, "A", text), "mesh");
    assert_string_equal(metadata_of(&c, "B", text), "own");
    assert_string_equal(metadata_of(&c, "C", text), "own");
    sw_node_config_done(&c);
    /* And options both. */
    assert_int_equal(
        read_config(&c, (const char *[]){"--xds-address=https://o:3", "--workers=3", NULL}, &err),
        SW_OK);
    assert_string_equal(c.xds.address, "https://o:3");
    assert_int_equal(c.cpu.workers, 3);
    sw_node_config_done(&c);
    assert_int_equal(unsetenv("PROXY_CONFIG"), 0);
}

static void of_two_variables_istios_counts(void **state)
{
    struct sw_node_config c;
    struct sw_err err = {0};

    (void)state;
    assert_int_equal(setenv("CLUSTER_ID", "east", 1), 0);
    assert_int_equal(setenv("ISTIO_META_CLUSTER_ID", "west", 1), 0);
    assert_int_equal(read_config(&c, NULL, &err), SW_OK);
    assert_string_equal(c.names.cluster_id, "west");
    sw_node_config_done(&c);
    assert_int_equal(unsetenv("CLUSTER_ID"), 0);
    assert_int_equal(unsetenv("ISTIO_META_CLUSTER_ID"), 0);
    /* And of a variable and the configuration, the variable. */
    assert_int_equal(setenv("PROXY_CONFIG", "proxyMetadata: {DNS_CAPTURE: 'false'}", 1), 0);
    assert_int_equal(setenv("ISTIO_META_DNS_CAPTURE", "true", 1), 0);
    assert_int_equal(read_config(&c, NULL, &err), SW_OK);
    assert_true(c.dns.capture);
    sw_node_config_done(&c);
    assert_int_equal(setenv("ISTIO_META_DNS_CAPTURE", "perhaps", 1), 0);
    assert_int_equal(read_config(&c, NULL, &err), SW_EINVAL);
    assert_non_null(strstr(err.msg, "ISTIO_META_DNS_CAPTURE"));
    sw_node_config_done(&c);
    assert_int_equal(unsetenv("PROXY_CONFIG"), 0);
    assert_int_equal(unsetenv("ISTIO_META_DNS_CAPTURE"), 0);
}

/* As every other option that is true or false. */
static void dns_is_a_switch(void **state)
{
    static const struct {
        const char *env;
        const char *const flags[3];
        bool dns;
    } cases[] = {
        {"false", {"--dns"}, true},          {"false", {"--dns", "--socks5"}, true},
        {"false", {"--dns", "true"}, true},  {"true", {"--no-dns"}, false},
        {"true", {"--dns", "false"}, false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_node_config c;
        struct sw_err err = {0};

        assert_int_equal(setenv("ISTIO_META_DNS_CAPTURE", cases[i].env, 1), 0);
        assert_int_equal(read_config(&c, cases[i].flags, &err), SW_OK);
        assert_int_equal(c.dns.capture, cases[i].dns);
        sw_node_config_done(&c);
    }
    assert_int_equal(unsetenv("ISTIO_META_DNS_CAPTURE"), 0);
}

static void empty_addresses_are_none(void **state)
{
    struct sw_node_config c;
    struct sw_err err = {0};

    (void)state;
    assert_int_equal(setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1), 0);
    assert_int_equal(read_config(&c, NULL, &err), SW_OK);
    assert_non_null(c.xds.address);
    assert_non_null(c.ca.address);
    sw_node_config_done(&c);
    assert_int_equal(setenv("XDS_ADDRESS", "", 1), 0);
    assert_int_equal(setenv("CA_ADDRESS", "", 1), 0);
    assert_int_equal(read_config(&c, NULL, &err), SW_OK);
    assert_null(c.xds.address);
    assert_null(c.ca.address);
    sw_node_config_done(&c);
    assert_int_equal(unsetenv("XDS_ADDRESS"), 0);
    assert_int_equal(unsetenv("CA_ADDRESS"), 0);
    assert_int_equal(unsetenv("KUBERNETES_SERVICE_HOST"), 0);
}

static void a_mesh_without_our_keys_is_fine_and_nonsense_is_not(void **state)
{
    static const struct {
        const char *text;
        int rc;
    } cases[] = {
        {"", SW_OK},
        {"defaultConfig:\n", SW_OK},
        {"trustDomain: x\n", SW_OK},
        {"[1]\n", SW_EINVAL},
        {"defaultConfig: 7\n", SW_EINVAL},
        {"defaultConfig: {statsPort: 70000}\n", SW_EINVAL},
        {"a: [\n", SW_EINVAL},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_node_config c;
        struct sw_err err = {0};

        write_mesh(cases[i].text);
        assert_int_equal(read_config(&c, NULL, &err), cases[i].rc);
        if (cases[i].rc != SW_OK)
            assert_non_null(strstr(err.msg, "./etc/istio/config/mesh"));
        sw_node_config_done(&c);
    }
    (void)unlink("etc/istio/config/mesh");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variable_sets_its_field),
        cmocka_unit_test(no_variable_is_without_a_row),
        cmocka_unit_test(the_variable_overrides_the_mesh),
        cmocka_unit_test(of_two_variables_istios_counts),
        cmocka_unit_test(dns_is_a_switch),
        cmocka_unit_test(empty_addresses_are_none),
        cmocka_unit_test(a_mesh_without_our_keys_is_fine_and_nonsense_is_not),
    };

    (void)unsetenv("KUBERNETES_SERVICE_HOST");
    return cmocka_run_group_tests(tests, in_a_directory, out_of_it);
}
