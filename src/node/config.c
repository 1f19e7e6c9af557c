/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from the options of `spanwire node`, and which combinations make no sense. */
#include "node/config.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "yaml/yaml.h"

enum {
    WORKERS_MAX = 1024,
    DEFAULT_MARK = 1337,
    PORT_ADMIN = 15000,
    PORT_STATS = 15020,
    PORT_READY = 15021,
    GRACE_MAX_S = 7 * 86400,
    MESH_CONFIG_MAX = 1 << 20, /* bytes */
};

#define DEFAULT_AGENT_SOCKET "/var/run/ztunnel/ztunnel.sock"
#define MESH_CONFIG          "./etc/istio/config/mesh"

/* "2", "1.5" or "500m" in thousandths of a CPU. */
static bool cpu_milli(struct sw_slice s, uint64_t *ret)
{
    struct sw_slice whole;
    struct sw_slice part = s;
    uint64_t units;
    uint64_t milli = 0;

    if (s.n && s.p[s.n - 1] == 'm')
        return sw_slice_to_u64(sw_slice_head(s, s.n - 1), 1000000, ret);
    whole = sw_slice_cut(&part, '.');
    if (!sw_slice_to_u64(whole, 100000, &units))
        return false;
    if (part.p) {
        char digits[3] = {'0', '0', '0'};

        if (part.n == 0 || part.n > 3)
            return false;
        memcpy(digits, part.p, part.n);
        if (!sw_slice_to_u64(sw_slice(digits, sizeof(digits)), 999, &milli))
            return false;
    }
    *ret = units * 1000 + milli;
    return true;
}

/* Whole CPUs of a quantity, rounded up; 0 when there is no text. */
static int cpu_ceil(const char *text, const char *what, uint64_t *ret, struct sw_err *err)
{
    uint64_t milli = 0;

    if (text && text[0] && !cpu_milli(sw_slice_str(text), &milli))
        return sw_err_set(err, SW_EINVAL, "%s: '%.40s' is not a number of CPUs such as 2 or 500m",
                          what, text);
    *ret = (milli + 999) / 1000;
    return SW_OK;
}

static int workers_auto(uint32_t cpus, const char *request, const char *limit, uint64_t *ret,
                        struct sw_err *err)
{
    uint64_t req = 0;
    uint64_t lim = 0;
    int rc = cpu_ceil(request, "--resource-cpu-request", &req, err);

    if (rc == SW_OK)
        rc = cpu_ceil(limit, "--resource-cpu-limit", &lim, err);
    if (rc != SW_OK)
        return rc;
    if (lim)
        *ret = sw_max(lim, req);
    else
        *ret = sw_max(sw_max((cpus + 3) / 4, req), 2);
    return SW_OK;
}

int sw_node_workers(const char *text, uint32_t cpus, const char *request, const char *limit,
                    uint32_t *ret, struct sw_err *err)
{
    struct sw_slice s = sw_slice_str(text ? text : "auto");
    bool share = s.n > 0 && s.p[s.n - 1] == '%';
    uint64_t n;
    int rc;

    if (sw_slice_eq_str(s, "auto")) {
        rc = workers_auto(cpus, request, limit, &n, err);
        if (rc != SW_OK)
            return rc;
    } else {
        if (!sw_slice_to_u64(share ? sw_slice_head(s, s.n - 1) : s, WORKERS_MAX, &n) ||
            (share && (n == 0 || n > 100)))
            return sw_err_set(
                err, SW_EINVAL,
                "--workers: '%.40s' is neither a number up to 1024 nor a share such as 50%%", text);
        if (share)
            n = (n * cpus + 99) / 100;
        else if (n == 0)
            n = cpus;
    }
    *ret = (uint32_t)sw_min(sw_max(n, 1), WORKERS_MAX);
    return SW_OK;
}

static uint32_t machine_cpus(void)
{
    cpu_set_t set;
    int n;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    n = CPU_COUNT(&set);
    return n > 0 ? (uint32_t)n : 1;
}

static int derive_workers(struct sw_node_config *c, struct sw_err *err)
{
    uint64_t cpus = 0;
    int rc = cpu_ceil(c->cpu.limit, "--cpu-limit", &cpus, err);

    if (rc != SW_OK)
        return rc;
    return sw_node_workers(c->cpu.workers_text, cpus ? (uint32_t)cpus : machine_cpus(),
                           c->cpu.resource_request, c->cpu.resource_limit, &c->cpu.workers, err);
}

int sw_node_workload_parse(struct sw_slice text, struct sw_arena *arena,
                           struct sw_node_workload *ret, struct sw_err *err)
{
    struct sw_slice rest = text;
    struct sw_slice part[3];

    for (size_t i = 0; i < SW_ARRAY_LEN(part); i++) {
        part[i] = rest.p ? sw_slice_cut(&rest, '/') : sw_slice("", 0);
        if (part[i].n == 0)
            return sw_err_set(err, SW_EINVAL, "'%.*s' is not NAMESPACE/NAME/SERVICE-ACCOUNT",
                              SW_SLICE_ARG_MAX(text, 80));
    }
    if (rest.p)
        return sw_err_set(err, SW_EINVAL, "'%.*s' has more than three parts",
                          SW_SLICE_ARG_MAX(text, 80));
    *ret = (struct sw_node_workload){
        .ns = sw_arena_dup(arena, part[0]),
        .name = sw_arena_dup(arena, part[1]),
        .sa = sw_arena_dup(arena, part[2]),
    };
    return SW_OK;
}

static int parse_pod(struct sw_node_config *c, const char *text, struct sw_node_pod *ret,
                     struct sw_err *err)
{
    struct sw_slice path = sw_slice_str(text);
    struct sw_slice who = sw_slice_cut(&path, '=');

    if (!path.p || path.n == 0)
        return sw_err_set(err, SW_EINVAL, "'%.80s' does not end in =NETNS_PATH", text);
    ret->netns = sw_arena_dup(&c->arena, path);
    return sw_node_workload_parse(who, &c->arena, &ret->who, err);
}

static int derive_pods(struct sw_node_config *c, struct sw_err *err)
{
    c->serve.pods = sw_arena_array(&c->arena, c->serve.pod_texts.n + 1, sizeof(*c->serve.pods));
    for (size_t i = 0; i < c->serve.pod_texts.n; i++) {
        struct sw_node_pod *p = &c->serve.pods[i];
        int rc = parse_pod(c, c->serve.pod_texts.p[i], p, err);

        if (rc != SW_OK)
            return sw_err_prefix(err, "--pod");
        for (size_t k = 0; k < i; k++) {
            if (strcmp(c->serve.pods[k].netns, p->netns) == 0)
                return sw_err_set(err, SW_EINVAL, "--pod: '%.100s' is named twice", p->netns);
        }
        c->serve.n_pods++;
    }
    return SW_OK;
}

static int derive_mode(struct sw_node_config *c, struct sw_err *err)
{
    if (c->serve.mode == SW_NODE_DEDICATED) {
        int rc;

        if (!c->serve.workload_text || !c->serve.workload_text[0])
            return sw_err_set(err, SW_EINVAL, "--mode dedicated needs --workload NS/NAME/SA");
        if (c->serve.pod_texts.n)
            return sw_err_set(err, SW_EINVAL, "--pod belongs to shared mode");
        c->serve.agent_socket = NULL; /* deployments set it for both modes */
        rc = sw_node_workload_parse(sw_slice_str(c->serve.workload_text), &c->arena,
                                    &c->serve.workload, err);
        return rc == SW_OK ? rc : sw_err_prefix(err, "--workload");
    }
    if (c->serve.workload_text && c->serve.workload_text[0])
        return sw_err_set(err, SW_EINVAL, "--workload belongs to dedicated mode");
    if (!c->serve.agent_socket && !c->serve.pod_texts.n && !c->xds.local_path &&
        !c->xds.local_inline && c->serve.proxy)
        c->serve.agent_socket = DEFAULT_AGENT_SOCKET;
    if (c->serve.agent_socket && !c->serve.agent_socket[0])
        c->serve.agent_socket = NULL;
    c->names.self_proxy = c->names.pod && c->names.pod_namespace && c->names.service_account;
    return derive_pods(c, err);
}

static int derive_mark(struct sw_node_config *c, struct sw_err *err)
{
    static const struct sw_opt u32 = {.type = SW_OPT_U32};
    int rc;

    c->sockets.packet_mark = c->serve.mode == SW_NODE_SHARED ? DEFAULT_MARK : 0;
    if (!c->sockets.packet_mark_text)
        return SW_OK;
    rc = sw_opt_set(&u32, &c->sockets.packet_mark, &c->arena,
                    sw_slice_str(c->sockets.packet_mark_text), err);
    return rc == SW_OK ? rc : sw_err_prefix(err, "--packet-mark (PACKET_MARK)");
}

/* The deadline itself, or what a container's grace period leaves after a margin, or 5 s. */
static int derive_drain(struct sw_node_config *c, struct sw_err *err)
{
    uint64_t grace;
    int rc;

    c->drain.ns = 5 * SW_NS_PER_S;
    if (c->drain.text) {
        rc = sw_duration_parse(sw_slice_str(c->drain.text), &c->drain.ns, err);
        return rc == SW_OK ? rc : sw_err_prefix(err, "--drain (CONNECTION_TERMINATION_DEADLINE)");
    }
    if (!c->drain.grace_text)
        return SW_OK;
    if (!sw_slice_to_u64(sw_slice_str(c->drain.grace_text), GRACE_MAX_S, &grace))
        return sw_err_set(
            err, SW_EINVAL,
            "--grace-period (TERMINATION_GRACE_PERIOD_SECONDS): '%.40s' is not a number of seconds",
            c->drain.grace_text);
    if (grace > 10)
        grace -= 5;
    else
        grace = grace > 1 ? grace - 1 : 1;
    c->drain.ns = grace * SW_NS_PER_S;
    return SW_OK;
}

/* What of Istio's ProxyConfig concerns us; its other keys are not ours to judge. */
struct proxy_config {
    uint16_t admin;
    uint16_t stats;
    int64_t concurrency; /* -1: not set */
    struct sw_slice discovery;
};

static int proxy_port(const struct sw_yaml *doc, const char *key, uint16_t *port,
                      struct sw_err *err)
{
    const struct sw_yaml *v = sw_yaml_get(doc, key);
    int64_t n;
    int rc;

    if (!v)
        return SW_OK;
    rc = sw_yaml_int(v, 1, 65535, &n, err);
    if (rc == SW_OK)
        *port = (uint16_t)n;
    return rc;
}

/* A key that is there already gets the new value; one may be written like its variable. */
static void put_metadata(struct sw_node_config *c, struct sw_slice key, struct sw_slice value)
{
    const struct sw_slice prefix = SW_SLICE_LIT("ISTIO_META_");
    size_t i = 0;

    if (sw_slice_has_prefix(key, prefix))
        key = sw_slice_from(key, prefix.n);
    while (i < c->istio.n_metadata && !sw_slice_eq(c->istio.metadata[i].key, key))
        i++;
    c->istio.metadata[i] = (struct sw_node_meta){key, value};
    c->istio.n_metadata = sw_max(c->istio.n_metadata, i + 1);
}

static int proxy_metadata(struct sw_node_config *c, const struct sw_yaml *doc, struct sw_err *err)
{
    const struct sw_yaml *map = sw_yaml_get(doc, "proxyMetadata");
    const struct sw_node_meta *before = c->istio.metadata;
    int rc = SW_OK;

    if (!map || sw_yaml_is_null(map))
        return SW_OK;
    rc = sw_yaml_expect(map, SW_YAML_MAP, err);
    if (rc != SW_OK)
        return rc;
    c->istio.metadata =
        sw_arena_array(&c->arena, c->istio.n_metadata + map->count, sizeof(*c->istio.metadata));
    for (size_t i = 0; i < c->istio.n_metadata; i++)
        c->istio.metadata[i] = before[i];
    SW_YAML_FOREACH (it, map) {
        struct sw_slice value;

        rc = sw_yaml_text(it, &value, err);
        if (rc != SW_OK)
            return rc;
        put_metadata(c, it->key->text, value);
    }
    return SW_OK;
}

/* Over what *p has; a document without content changes nothing. */
static int read_proxy_config(struct sw_node_config *c, const struct sw_yaml *doc,
                             struct proxy_config *p, struct sw_err *err)
{
    const struct sw_yaml *v;
    int rc;

    if (!doc || sw_yaml_is_null(doc))
        return SW_OK;
    rc = sw_yaml_expect(doc, SW_YAML_MAP, err);
    rc = rc == SW_OK ? proxy_port(doc, "proxyAdminPort", &p->admin, err) : rc;
    rc = rc == SW_OK ? proxy_port(doc, "statsPort", &p->stats, err) : rc;
    rc = rc == SW_OK ? proxy_metadata(c, doc, err) : rc;
    v = rc == SW_OK ? sw_yaml_get(doc, "discoveryAddress") : NULL;
    if (v && !sw_yaml_is_null(v))
        rc = sw_yaml_text(v, &p->discovery, err);
    v = rc == SW_OK ? sw_yaml_get(doc, "concurrency") : NULL;
    if (v && !sw_yaml_is_null(v))
        rc = sw_yaml_int(v, 0, WORKERS_MAX, &p->concurrency, err);
    return rc;
}

/* The mesh's configuration where a container has it mounted: defaultConfig is a ProxyConfig. */
static int read_mesh_config(struct sw_node_config *c, struct proxy_config *p, struct sw_err *err)
{
    const struct sw_yaml *doc;
    struct sw_slice file = {0};
    struct sw_slice text;
    struct sw_err why = {0};
    int rc = sw_file_read(MESH_CONFIG, MESH_CONFIG_MAX, &file, &why);

    if (rc == SW_ENOENT)
        return SW_OK;
    if (rc != SW_OK)
        return sw_err_set(err, rc, "%s", why.msg);
    text = sw_arena_slice(&c->arena, file);
    sw_slice_free(&file);
    rc = sw_yaml_parse_one(&c->arena, text, NULL, &doc, err);
    if (rc == SW_OK && !sw_yaml_is_null(doc))
        rc = sw_yaml_expect(doc, SW_YAML_MAP, err);
    if (rc == SW_OK && !sw_yaml_is_null(doc))
        rc = read_proxy_config(c, sw_yaml_get(doc, "defaultConfig"), p, err);
    return rc == SW_OK ? rc : sw_err_prefix(err, "'%s'", MESH_CONFIG);
}

static int read_variable(struct sw_node_config *c, struct proxy_config *p, struct sw_err *err)
{
    const struct sw_yaml *doc;
    int rc;

    if (!c->istio.config)
        return SW_OK;
    rc = sw_yaml_parse_one(&c->arena, sw_slice_str(c->istio.config), NULL, &doc, err);
    rc = rc == SW_OK ? read_proxy_config(c, doc, p, err) : rc;
    return rc == SW_OK ? rc : sw_err_prefix(err, "PROXY_CONFIG");
}

/* The setting itself, or what the metadata have under the key, or the default. */
static struct sw_slice or_metadata(const struct sw_node_config *c, const char *text,
                                   const char *key, struct sw_slice def)
{
    if (text)
        return sw_slice_str(text);
    for (size_t i = 0; i < c->istio.n_metadata; i++) {
        if (sw_slice_eq_str(c->istio.metadata[i].key, key))
            return c->istio.metadata[i].value;
    }
    return def;
}

/* "localhost:PORT" or an address of this machine. */
static int derive_dns(struct sw_node_config *c, struct sw_err *err)
{
    const struct sw_slice local = SW_SLICE_LIT("localhost:");
    struct sw_slice capture =
        or_metadata(c, c->dns.capture_text, "DNS_CAPTURE", SW_SLICE_LIT("true"));
    struct sw_slice text =
        or_metadata(c, c->dns.addr_text, "DNS_PROXY_ADDR", SW_SLICE_LIT("localhost:15053"));
    uint64_t port;

    if (!sw_opt_bool(capture, &c->dns.capture))
        return sw_err_set(err, SW_EINVAL,
                          "--dns (ISTIO_META_DNS_CAPTURE): '%.*s' is neither true nor false",
                          SW_SLICE_ARG_MAX(capture, 40));
    if (!sw_slice_has_prefix(text, local)) {
        if (sw_addr_parse(text, &c->dns.addr, err) != SW_OK)
            return sw_err_prefix(err, "--dns-addr (ISTIO_META_DNS_PROXY_ADDR)");
        return SW_OK;
    }
    if (!sw_slice_to_u64(sw_slice_from(text, local.n), UINT16_MAX, &port) || !port)
        return sw_err_set(err, SW_EINVAL,
                          "--dns-addr (ISTIO_META_DNS_PROXY_ADDR): '%.*s' has no port",
                          SW_SLICE_ARG_MAX(text, 60));
    c->dns.localhost = !c->listen.ip.family;
    c->dns.addr = (struct sw_addr){.ip = c->listen.ip, .port = (uint16_t)port};
    if (c->dns.localhost)
        c->dns.addr.ip = (struct sw_ip){.family = 4, .b = {127, 0, 0, 1}};
    return SW_OK;
}

static struct sw_addr any_addr(const struct sw_node_config *c, uint16_t port)
{
    return (struct sw_addr){.ip = {.family = c->listen.ipv6 ? 6 : 4}, .port = port};
}

static int derive_ports(struct sw_node_config *c, struct sw_err *err)
{
    struct proxy_config p = {.admin = PORT_ADMIN, .stats = PORT_STATS, .concurrency = -1};
    int rc = read_mesh_config(c, &p, err);

    rc = rc == SW_OK ? read_variable(c, &p, err) : rc;
    if (rc != SW_OK)
        return rc;
    if (p.discovery.p && !c->xds.address)
        c->xds.address = sw_arena_dup(&c->arena, p.discovery);
    if (p.concurrency >= 0 && !c->cpu.workers_text)
        c->cpu.workers_text = sw_arena_printf(&c->arena, "%lld", (long long)p.concurrency);
    if (!c->admin.addr.ip.family) {
        c->admin.is_default = true;
        c->admin.addr = (struct sw_addr){.ip = {.family = 4, .b = {127, 0, 0, 1}}, .port = p.admin};
    }
    if (!c->admin.stats_addr.ip.family)
        c->admin.stats_addr = any_addr(c, p.stats);
    if (!c->admin.ready_addr.ip.family)
        c->admin.ready_addr = any_addr(c, PORT_READY);
    return SW_OK;
}

/* ztunnel's defaults, for a container that was made for it. */
static int derive_ca(struct sw_node_config *c, struct sw_err *err)
{
    static const char token[] = "./var/run/secrets/tokens/istio-token";

    /* Empty, as an option or as the variable: none, as with XDS_ADDRESS. */
    bool none = c->ca.address ? !c->ca.address[0]
                              : getenv("CA_ADDRESS") != NULL; /* NOLINT(concurrency-mt-unsafe) */

    if (none)
        c->ca.address = NULL;
    if (c->ca.address && c->ca.local)
        return sw_err_set(err, SW_EINVAL,
                          "--local-ca and --ca-address (CA_ADDRESS) exclude each other");
    if (!none && !c->ca.address && !c->ca.local &&
        getenv("KUBERNETES_SERVICE_HOST")) /* NOLINT(concurrency-mt-unsafe) */
        c->ca.address = "https://istiod.istio-system.svc:15012";
    if (!c->ca.auth_token && access(token, R_OK) == 0)
        c->ca.auth_token = token;
    if (!c->crypto.compliance_policy || !c->crypto.compliance_policy[0])
        return SW_OK;
    return sw_err_set(err, SW_EINVAL,
                      "COMPLIANCE_POLICY '%.40s' cannot be met: the TLS library of this build has "
                      "no post-quantum key exchange",
                      c->crypto.compliance_policy);
}

static int derive_xds(struct sw_node_config *c, struct sw_err *err)
{
    bool local = c->xds.local_path || c->xds.local_inline;

    if (!c->xds.address && !local &&
        getenv("KUBERNETES_SERVICE_HOST")) /* NOLINT(concurrency-mt-unsafe) */
        c->xds.address = "https://istiod.istio-system.svc:15012";
    if (c->xds.address && !c->xds.address[0])
        c->xds.address = NULL;
    if (c->xds.address && local)
        return sw_err_set(err, SW_EINVAL,
                          "--xds-address (XDS_ADDRESS) and --local-xds exclude each other");
    if (c->xds.on_demand && c->dns.capture)
        return sw_err_set(err, SW_EINVAL,
                          "--xds-on-demand (XDS_ON_DEMAND) excludes ISTIO_META_DNS_CAPTURE: names "
                          "can only be answered when all services are known");
    return SW_OK;
}

static int derive(struct sw_node_config *c, struct sw_err *err)
{
    int rc = SW_OK;

    /* An empty option counts as absent; an empty address means that there is no control plane. */
    if (!c->xds.address && getenv("XDS_ADDRESS")) /* NOLINT(concurrency-mt-unsafe) */
        c->xds.address = "";

    if (c->xds.local_path && c->xds.local_inline)
        rc = sw_err_set(err, SW_EINVAL,
                        "LOCAL_XDS and --local-xds (LOCAL_XDS_PATH) exclude each "
                        "other");
    if (rc == SW_OK && c->h2.connection_window <= c->h2.stream_window)
        rc = sw_err_set(err, SW_EINVAL,
                        "--h2-connection-window %u must exceed --h2-stream-window %u, or one "
                        "stream could block all others",
                        c->h2.connection_window, c->h2.stream_window);
    rc = rc == SW_OK ? derive_mode(c, err) : rc;
    rc = rc == SW_OK ? derive_ports(c, err) : rc;
    rc = rc == SW_OK ? derive_workers(c, err) : rc;
    rc = rc == SW_OK ? derive_dns(c, err) : rc;
    rc = rc == SW_OK ? derive_ca(c, err) : rc;
    rc = rc == SW_OK ? derive_xds(c, err) : rc;
    rc = rc == SW_OK ? derive_mark(c, err) : rc;
    rc = rc == SW_OK ? derive_drain(c, err) : rc;
    if (rc == SW_OK && c->keepalive.user_timeout && c->keepalive.on)
        c->keepalive.user_timeout_ms =
            (uint32_t)((c->keepalive.time_ns + c->keepalive.retries * c->keepalive.interval_ns) /
                       SW_NS_PER_MS);
    return rc;
}

int sw_node_config_read(struct sw_node_config *c, int argc, char **argv, struct sw_err *err)
{
    int rc;

    memset(c, 0, sizeof(*c));
    rc = sw_opts_parse(&sw_node_options, c, &c->arena, (struct sw_args){argc, argv}, NULL, err);
    if (rc != SW_OK)
        return rc;
    rc = derive(c, err);
    return rc == SW_OK ? rc : sw_err_prefix(err, "node");
}

void sw_node_config_done(struct sw_node_config *c)
{
    sw_arena_clear(&c->arena);
}
