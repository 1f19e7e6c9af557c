/* SPDX-License-Identifier: Apache-2.0 */
/* See builtin_service.h. */
#include "kube/builtin_service.h"

#include <arpa/inet.h>
#include <string.h>

#include "kube/builtin_int.h"

/* 10.96.0.0/12; the first 256 addresses are left to those who ask for one by name. */
static const uint32_t net_base = 0x0a600000;
enum {
    NET_SIZE = 1 << 20,
    NET_STATIC = 256,
    PORTS = SW_SERVICE_PORT_MAX - SW_SERVICE_PORT_MIN + 1
};

struct settle {
    struct sw_arena *a;
    struct sw_json *svc;
    struct sw_json *spec;
    const struct sw_json *was; /* stored spec, NULL when new */
    const struct sw_service_pool *pool;
    struct sw_field_errs *e;
    const char *why;
    uint8_t mine[(PORTS + 7) / 8]; /* ports taken by this very call */
};

static bool type_is(const struct sw_json *spec, const char *type)
{
    return sw_b_is(spec, "type", type);
}

static bool external_name(const struct sw_json *spec)
{
    return type_is(spec, "ExternalName");
}

static bool needs_node_ports(const struct sw_json *spec)
{
    return type_is(spec, "NodePort") || type_is(spec, "LoadBalancer");
}

static bool needs_health_check(const struct sw_json *spec)
{
    return type_is(spec, "LoadBalancer") && sw_b_is(spec, "externalTrafficPolicy", "Local");
}

static bool externally_accessible(const struct sw_json *spec)
{
    return needs_node_ports(spec) ||
           (type_is(spec, "ClusterIP") && sw_json_len(sw_json_find(spec, "externalIPs")));
}

static bool same(const struct sw_json *x, const struct sw_json *y, const char *key)
{
    return sw_json_equal(sw_json_find(x, key), sw_json_find(y, key), SW_JSON_EQ_VALUE);
}

static void drop(struct sw_json *spec, const char *key)
{
    (void)sw_json_remove(spec, sw_slice_str(key));
}

static void carry(struct settle *s, const char *key)
{
    struct sw_json *v = sw_json_find(s->was, key);

    if (v)
        sw_json_put(s->a, s->spec, key, sw_json_copy(s->a, v));
}

static void put_list(struct settle *s, const char *key, struct sw_slice one)
{
    struct sw_json *list = sw_json_new_array(s->a);

    sw_json_push(s->a, list, sw_json_new_string(s->a, one));
    sw_json_put(s->a, s->spec, key, list);
}

/* ---- what the client left out and we know ---- */

static bool port_in(const struct sw_json *ports, int64_t node_port)
{
    for (size_t i = 0; i < sw_json_len(ports); i++) {
        if (sw_b_int(sw_json_at(ports, i), "nodePort") == node_port)
            return true;
    }
    return false;
}

/* A port that has its name back gets its node port back, unless another port took it. */
static void carry_node_ports(struct settle *s)
{
    const struct sw_json *ports = sw_json_find(s->spec, "ports");
    const struct sw_json *old = sw_json_find(s->was, "ports");

    for (size_t i = 0; i < sw_json_len(ports); i++) {
        struct sw_json *p = sw_json_at(ports, i);
        int64_t known = 0;

        if (sw_b_int(p, "nodePort"))
            continue;
        for (size_t k = 0; k < sw_json_len(old); k++) {
            if (sw_slice_eq(sw_b_text(sw_json_at(old, k), "name"), sw_b_text(p, "name")))
                known = sw_b_int(sw_json_at(old, k), "nodePort");
        }
        if (known && !port_in(ports, known))
            sw_json_put(s->a, p, "nodePort", sw_json_new_i64(s->a, known));
    }
}

static void carry_allocated(struct settle *s)
{
    if (!external_name(s->was) && !external_name(s->spec)) {
        if (!sw_b_text(s->spec, "clusterIP").n)
            carry(s, "clusterIP");
        if (!sw_json_len(sw_json_find(s->spec, "clusterIPs")) && same(s->spec, s->was, "clusterIP"))
            carry(s, "clusterIPs");
    }
    if (needs_node_ports(s->was) && needs_node_ports(s->spec))
        carry_node_ports(s);
    if (needs_health_check(s->was) && needs_health_check(s->spec) &&
        !sw_b_int(s->spec, "healthCheckNodePort"))
        carry(s, "healthCheckNodePort");
}

/* clusterIP and clusterIPs follow each other. */
static void align_cluster_ips(struct settle *s)
{
    struct sw_slice ip = sw_b_text(s->spec, "clusterIP");
    bool plural = sw_json_len(sw_json_find(s->spec, "clusterIPs"));

    if (!s->was) {
        if (ip.n && !plural)
            put_list(s, "clusterIPs", ip);
        return;
    }
    if (!plural && same(s->spec, s->was, "clusterIP"))
        carry(s, "clusterIPs");
    if (same(s->spec, s->was, "clusterIP") || !same(s->spec, s->was, "clusterIPs"))
        return;
    if (ip.n)
        put_list(s, "clusterIPs", ip);
    else
        drop(s->spec, "clusterIPs");
}

/* ---- families ---- */

static bool headless(const struct sw_json *spec)
{
    return sw_b_is(spec, "clusterIP", "None");
}

static void fill_policy(struct settle *s)
{
    if (sw_json_find(s->spec, "ipFamilyPolicy"))
        return;
    if (sw_json_find(s->was, "ipFamilyPolicy"))
        carry(s, "ipFamilyPolicy");
    else if (headless(s->spec) && !sw_json_len(sw_json_find(s->spec, "selector")))
        sw_json_put_str(s->a, s->spec, "ipFamilyPolicy", SW_SLICE_LIT("RequireDualStack"));
    else
        sw_json_put_str(s->a, s->spec, "ipFamilyPolicy", SW_SLICE_LIT("SingleStack"));
}

static void policy_error(struct settle *s, const char *detail)
{
    struct sw_fpath up = sw_fpath_str(NULL, "spec");
    struct sw_fpath at = sw_fpath_str(&up, "ipFamilyPolicy");

    sw_ferr_invalid(s->e, &at, sw_json_find(s->spec, "ipFamilyPolicy"), detail);
}

static void keep_first(struct settle *s, const char *key)
{
    struct sw_json *list = sw_json_find(s->spec, key);

    if (sw_json_len(list) > 1 && same(s->spec, s->was, key))
        put_list(s, key, sw_json_str(sw_json_at(list, 0)));
}

static bool reduced(struct settle *s, const char *key)
{
    size_t n = sw_json_len(sw_json_find(s->spec, key));

    return n && n < sw_json_len(sw_json_find(s->was, key));
}

/* One or two stacks: does the policy agree with what is listed? */
static void check_stacks(struct settle *s)
{
    bool single = sw_b_is(s->spec, "ipFamilyPolicy", "SingleStack");

    if (s->was && single) {
        keep_first(s, "clusterIPs");
        keep_first(s, "ipFamilies");
    } else if (s->was) {
        if (reduced(s, "clusterIPs"))
            policy_error(s, "must be 'SingleStack' to release the secondary cluster IP");
        if (reduced(s, "ipFamilies"))
            policy_error(s, "must be 'SingleStack' to release the secondary IP family");
    }
    if (single && sw_json_len(sw_json_find(s->spec, "clusterIPs")) == 2)
        policy_error(s, "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs "
                        "are specified");
    if (single && sw_json_len(sw_json_find(s->spec, "ipFamilies")) == 2)
        policy_error(s, "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families "
                        "are specified");
}

static struct sw_json *families(struct settle *s)
{
    struct sw_json *list = sw_json_find(s->spec, "ipFamilies");

    if (!sw_json_is(list, SW_JSON_ARRAY)) {
        list = sw_json_new_array(s->a);
        sw_json_put(s->a, s->spec, "ipFamilies", list);
    }
    return list;
}

/* Families that were not given follow from the addresses. */
static void infer_families(struct settle *s)
{
    const struct sw_json *ips = sw_json_find(s->spec, "clusterIPs");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath up = sw_fpath_str(&path, "clusterIPs");

    for (size_t i = 0; i < sw_json_len(ips); i++) {
        struct sw_slice ip = sw_json_str(sw_json_at(ips, i));
        struct sw_fpath at = sw_fpath_index(&up, i);

        if (sw_slice_eq_str(ip, "None"))
            break;
        if (i < sw_json_len(sw_json_find(s->spec, "ipFamilies")))
            continue;
        if (sw_is_ipv4(ip))
            sw_json_push(s->a, families(s), sw_json_new_str(s->a, "IPv4"));
        else
            sw_b_invalid_go(s->e, &at, sw_b_go_list(s->a, ips, "string"),
                            "IPv6 is not configured on this cluster");
    }
}

static void add_other_family(struct settle *s)
{
    struct sw_json *list = families(s);

    if (!sw_json_len(list))
        sw_json_push(s->a, list, sw_json_new_str(s->a, "IPv4"));
    if (sw_json_len(list) == 1 && !sw_b_is(s->spec, "ipFamilyPolicy", "SingleStack"))
        sw_json_push(
            s->a, list,
            sw_json_new_str(s->a, sw_json_str_eq(sw_json_at(list, 0), "IPv4") ? "IPv6" : "IPv4"));
}

/* Only IPv4 addresses are given out. */
static void check_configured(struct settle *s)
{
    struct sw_json *list = sw_json_find(s->spec, "ipFamilies");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath up = sw_fpath_str(&path, "ipFamilies");

    if (sw_b_is(s->spec, "ipFamilyPolicy", "RequireDualStack"))
        policy_error(s, "this cluster is not configured for dual-stack services");
    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        if (!sw_json_str_eq(sw_json_at(list, i), "IPv4"))
            sw_ferr_invalid(s->e, &at, sw_json_at(list, i), "not configured on this cluster");
    }
    if (!sw_json_len(list))
        put_list(s, "ipFamilies", SW_SLICE_LIT("IPv4"));
}

static bool unchanged_preference(const struct settle *s)
{
    return s->was &&
           sw_json_equal(sw_json_find(s->was, "type"), sw_json_find(s->spec, "type"), 0) &&
           sw_b_is(s->spec, "ipFamilyPolicy", "PreferDualStack") &&
           same(s->spec, s->was, "ipFamilyPolicy") && same(s->spec, s->was, "clusterIPs") &&
           same(s->spec, s->was, "ipFamilies");
}

static void settle_families(struct settle *s)
{
    if (external_name(s->spec) || unchanged_preference(s))
        return;
    fill_policy(s);
    sw_b_check_cluster_ips(s->spec, s->e);
    if (s->e->n)
        return;
    check_stacks(s);
    infer_families(s);
    if (s->e->n)
        return;
    /* Nobody serves a headless service without selector: it may claim any family. */
    if (headless(s->spec) && !sw_json_len(sw_json_find(s->spec, "selector")))
        add_other_family(s);
    else
        check_configured(s);
}

/* ---- addresses ---- */

static bool in_range(struct sw_slice ip)
{
    char text[16];
    struct in_addr in;
    uint32_t n;

    if (ip.n >= sizeof(text))
        return false;
    memcpy(text, ip.p, ip.n);
    text[ip.n] = 0;
    if (inet_pton(AF_INET, text, &in) != 1)
        return false;
    n = ntohl(in.s_addr) - net_base;
    return n > 0 && n < NET_SIZE - 1;
}

static struct sw_slice ip_at(struct settle *s, uint32_t n)
{
    uint32_t ip = net_base + n;

    return sw_slice_str(sw_arena_printf(s->a, "%u.%u.%u.%u", ip >> 24, (ip >> 16) & 255,
                                        (ip >> 8) & 255, ip & 255));
}

static struct sw_slice next_ip(struct settle *s)
{
    uint32_t span = NET_SIZE - 1 - NET_STATIC;
    uint32_t start = (uint32_t)s->pool->random(span);

    for (uint32_t i = 0; i < span; i++) {
        struct sw_slice ip = ip_at(s, NET_STATIC + (start + i) % span);

        if (!s->pool->ip_taken(s->pool->arg, ip))
            return ip;
    }
    return sw_slice(NULL, 0);
}

static int take_ip(struct settle *s)
{
    const struct sw_json *ips = sw_json_find(s->spec, "clusterIPs");
    struct sw_slice ip = sw_json_str(sw_json_at(ips, 0));
    struct sw_fpath up = sw_fpath_str(NULL, "spec");
    struct sw_fpath at = sw_fpath_str(&up, "clusterIPs");
    const char *why = NULL;

    if (external_name(s->spec) || sw_slice_eq_str(ip, "None"))
        return SW_OK;
    if (!ip.n) {
        ip = next_ip(s);
        if (!ip.p) {
            s->why = "failed to allocate a serviceIP: range is full";
            return SW_ELIMIT;
        }
        sw_json_put_str(s->a, s->spec, "clusterIP", ip);
        put_list(s, "clusterIPs", ip);
        return SW_OK;
    }
    if (!in_range(ip))
        why = "the provided network does not match the current range";
    else if (s->pool->ip_taken(s->pool->arg, ip))
        why = "provided IP is already allocated";
    if (!why)
        return SW_OK;
    sw_b_invalid_go(s->e, &at, sw_b_go_list(s->a, ips, "string"),
                    sw_arena_printf(s->a, "failed to allocate IP %.*s: %s", SW_SLICE_ARG(ip), why));
    return SW_EINVAL;
}

/* ---- node ports ---- */

static bool is_mine(const struct settle *s, int64_t port)
{
    size_t n = (size_t)(port - SW_SERVICE_PORT_MIN);

    return s->mine[n / 8] & (1u << (n % 8));
}

static void make_mine(struct settle *s, int64_t port)
{
    size_t n = (size_t)(port - SW_SERVICE_PORT_MIN);

    s->mine[n / 8] = (uint8_t)(s->mine[n / 8] | (1u << (n % 8)));
}

/* NULL, or why the port cannot be had. */
static const char *take_port(struct settle *s, int64_t port)
{
    if (port < SW_SERVICE_PORT_MIN || port > SW_SERVICE_PORT_MAX)
        return "provided port is not in the valid range. The range of valid ports is 30000-32767";
    if (is_mine(s, port) || s->pool->port_taken(s->pool->arg, (uint16_t)port))
        return "provided port is already allocated";
    make_mine(s, port);
    return NULL;
}

/* 0 when all are gone. */
static int64_t next_port(struct settle *s)
{
    uint64_t start = s->pool->random(PORTS);

    for (uint64_t i = 0; i < PORTS; i++) {
        int64_t port = SW_SERVICE_PORT_MIN + (int64_t)((start + i) % PORTS);

        if (!take_port(s, port))
            return port;
    }
    return 0;
}

static int port_error(struct settle *s, size_t i, int64_t port, const char *why)
{
    struct sw_fpath spec = sw_fpath_str(NULL, "spec");
    struct sw_fpath up = sw_fpath_str(&spec, "ports");
    struct sw_fpath item = sw_fpath_index(&up, i);
    struct sw_fpath at = sw_fpath_str(&item, "nodePort");

    sw_ferr_invalid(s->e, &at, sw_json_new_i64(s->a, port), why);
    return SW_EINVAL;
}

static int give_port(struct settle *s, struct sw_json *p)
{
    int64_t port = next_port(s);

    if (!port) {
        s->why = "failed to allocate a nodePort: range is full";
        return SW_ELIMIT;
    }
    sw_json_put(s->a, p, "nodePort", sw_json_new_i64(s->a, port));
    return SW_OK;
}

static bool gives_ports(const struct sw_json *spec)
{
    return type_is(spec, "NodePort") ||
           sw_json_true(sw_json_find(spec, "allocateLoadBalancerNodePorts"));
}

/* The node port of an earlier entry with the same port (up to 'before'), or one asked for. */
static int64_t shared_port(const struct sw_json *ports, size_t before, int64_t port)
{
    for (size_t i = 0; i < before && i < sw_json_len(ports); i++) {
        const struct sw_json *p = sw_json_at(ports, i);

        if (sw_b_int(p, "port") == port && sw_b_int(p, "nodePort"))
            return sw_b_int(p, "nodePort");
    }
    return 0;
}

/* The same port with two protocols shares one node port. */
static int take_new_ports(struct settle *s)
{
    const struct sw_json *ports = sw_json_find(s->spec, "ports");

    for (size_t i = 0; i < sw_json_len(ports); i++) {
        struct sw_json *p = sw_json_at(ports, i);
        int64_t port = sw_b_int(p, "port");
        int64_t want = sw_b_int(p, "nodePort");
        int64_t have = shared_port(ports, i, port);
        const char *why;
        int rc = SW_OK;

        if (!want && !gives_ports(s->spec))
            continue;
        if (have && (!want || want == have)) {
            sw_json_put(s->a, p, "nodePort", sw_json_new_i64(s->a, have));
            continue;
        }
        if (!want)
            want = shared_port(ports, SIZE_MAX, port);
        if (want) {
            why = take_port(s, want);
            if (why)
                return port_error(s, i, want, why);
            sw_json_put(s->a, p, "nodePort", sw_json_new_i64(s->a, want));
        } else if ((rc = give_port(s, p)) != SW_OK) {
            return rc;
        }
    }
    return SW_OK;
}

static int take_changed_ports(struct settle *s)
{
    const struct sw_json *ports = sw_json_find(s->spec, "ports");
    const struct sw_json *old = sw_json_find(s->was, "ports");

    for (size_t i = 0; i < sw_json_len(ports); i++) {
        struct sw_json *p = sw_json_at(ports, i);
        int64_t want = sw_b_int(p, "nodePort");
        const char *why;
        int rc;

        if (!want && !gives_ports(s->spec))
            continue;
        if (!want) {
            if ((rc = give_port(s, p)) != SW_OK)
                return rc;
            continue;
        }
        if (port_in(old, want) ||
            (want >= SW_SERVICE_PORT_MIN && want <= SW_SERVICE_PORT_MAX && is_mine(s, want)))
            continue;
        why = take_port(s, want);
        if (why)
            return port_error(s, i, want, why);
    }
    return SW_OK;
}

static int take_health_check(struct settle *s)
{
    int64_t want = sw_b_int(s->spec, "healthCheckNodePort");
    const char *why;

    if (!needs_health_check(s->spec) || needs_health_check(s->was))
        return SW_OK;
    if (want) {
        why = take_port(s, want);
        if (why)
            s->why =
                sw_arena_printf(s->a, "failed to allocate requested HealthCheck NodePort %lld: %s",
                                (long long)want, why);
        return why ? SW_ELIMIT : SW_OK;
    }
    want = next_port(s);
    if (!want) {
        s->why = "failed to allocate a HealthCheck NodePort 0: range is full";
        return SW_ELIMIT;
    }
    sw_json_put(s->a, s->spec, "healthCheckNodePort", sw_json_new_i64(s->a, want));
    return SW_OK;
}

/* ---- fields that go with the type ---- */

static bool no_new_node_port(const struct settle *s)
{
    const struct sw_json *ports = sw_json_find(s->spec, "ports");

    for (size_t i = 0; i < sw_json_len(ports); i++) {
        int64_t n = sw_b_int(sw_json_at(ports, i), "nodePort");

        if (n && !port_in(sw_json_find(s->was, "ports"), n))
            return false;
    }
    return true;
}

/* What the server filled in and the new type has no use for goes, if the client left it alone. */
static void drop_unused(struct settle *s)
{
    struct sw_json *spec = s->spec;
    const struct sw_json *ports = sw_json_find(spec, "ports");

    if (!external_name(s->was) && external_name(spec)) {
        if (same(spec, s->was, "clusterIP") && same(spec, s->was, "clusterIPs")) {
            drop(spec, "clusterIP");
            drop(spec, "clusterIPs");
        }
        if (same(spec, s->was, "ipFamilies"))
            drop(spec, "ipFamilies");
        if (same(spec, s->was, "ipFamilyPolicy"))
            drop(spec, "ipFamilyPolicy");
    }
    if (needs_node_ports(s->was) && !needs_node_ports(spec) && no_new_node_port(s)) {
        for (size_t i = 0; i < sw_json_len(ports); i++)
            drop(sw_json_at(ports, i), "nodePort");
    }
    if (needs_health_check(s->was) && !needs_health_check(spec) &&
        same(spec, s->was, "healthCheckNodePort"))
        drop(spec, "healthCheckNodePort");
    if (type_is(s->was, "LoadBalancer") && !type_is(spec, "LoadBalancer")) {
        if (same(spec, s->was, "allocateLoadBalancerNodePorts"))
            drop(spec, "allocateLoadBalancerNodePorts");
        if (same(spec, s->was, "loadBalancerClass"))
            drop(spec, "loadBalancerClass");
    }
    if (externally_accessible(s->was) && !externally_accessible(spec) &&
        same(spec, s->was, "externalTrafficPolicy"))
        drop(spec, "externalTrafficPolicy");
    if (!type_is(spec, "LoadBalancer") &&
        sw_json_is(sw_json_find(s->svc, "status"), SW_JSON_OBJECT))
        sw_json_put(s->a, sw_json_find(s->svc, "status"), "loadBalancer", sw_json_new_object(s->a));
}

/* ---- all ---- */

static int settle_new(struct settle *s)
{
    int rc = take_ip(s);

    if (rc == SW_OK && needs_node_ports(s->spec))
        rc = take_new_ports(s);
    return rc == SW_OK ? take_health_check(s) : rc;
}

/* What the stored one has is not free for another port of it. */
static void keep_own_ports(struct settle *s)
{
    const struct sw_json *old = sw_json_find(s->was, "ports");

    for (size_t i = 0; i <= sw_json_len(old); i++) {
        int64_t port = i < sw_json_len(old) ? sw_b_int(sw_json_at(old, i), "nodePort")
                                            : sw_b_int(s->was, "healthCheckNodePort");

        if (port >= SW_SERVICE_PORT_MIN && port <= SW_SERVICE_PORT_MAX)
            make_mine(s, port);
    }
}

static int settle_changed(struct settle *s)
{
    int rc = SW_OK;

    keep_own_ports(s);
    if (external_name(s->was))
        rc = take_ip(s);
    if (rc == SW_OK && needs_node_ports(s->spec))
        rc = take_changed_ports(s);
    if (rc == SW_OK)
        rc = take_health_check(s);
    if (rc == SW_OK)
        drop_unused(s);
    return rc;
}

int sw_service_settle(struct sw_arena *a, struct sw_json *svc, const struct sw_json *old,
                      const struct sw_service_pool *pool, struct sw_field_errs *e,
                      const char **ret_why)
{
    struct settle s = {.a = a,
                       .svc = svc,
                       .spec = sw_json_find(svc, "spec"),
                       .was = sw_json_find(old, "spec"),
                       .pool = pool,
                       .e = e};
    int rc;

    if (!sw_json_is(s.spec, SW_JSON_OBJECT))
        return SW_OK; /* validation has the words for it */
    if (s.was)
        carry_allocated(&s);
    align_cluster_ips(&s);
    settle_families(&s);
    if (e->n)
        return SW_EINVAL;
    rc = s.was ? settle_changed(&s) : settle_new(&s);
    if (rc == SW_ELIMIT)
        *ret_why = s.why;
    return rc;
}
