/* SPDX-License-Identifier: Apache-2.0 */
/* See builtin_service.h. */
#include "kube/builtin/service.h"

#include <arpa/inet.h>
#include <string.h>

#include "kube/builtin/service_int.h"

/* 10.96.0.0/12; the first 256 addresses are left to Services that request a certain one. */
static const uint32_t net_base = 0x0a600000;
enum { NET_SIZE = 1 << 20, NET_STATIC = 256 };

bool svc_same(const struct sw_json *x, const struct sw_json *y, const char *key)
{
    return sw_json_equal(sw_json_find(x, key), sw_json_find(y, key), SW_JSON_EQ_VALUE);
}

void svc_carry(struct svc_settle *s, const char *key)
{
    struct sw_json *v = sw_json_find(s->was, key);

    if (v)
        sw_json_put(s->a, s->spec, key, sw_json_copy(s->a, v));
}

void svc_put_list(struct svc_settle *s, const char *key, struct sw_slice one)
{
    struct sw_json *list = sw_json_new_array(s->a);

    sw_json_push(s->a, list, sw_json_new_string(s->a, one));
    sw_json_put(s->a, s->spec, key, list);
}

static void drop(struct sw_json *spec, const char *key)
{
    (void)sw_json_remove(spec, sw_slice_str(key));
}

/* ---- what the client left out and the stored object has ---- */

static void carry_allocated(struct svc_settle *s)
{
    if (!svc_external_name(s->was) && !svc_external_name(s->spec)) {
        if (!sw_field_text(s->spec, "clusterIP").n)
            svc_carry(s, "clusterIP");
        if (!sw_json_len(sw_json_find(s->spec, "clusterIPs")) &&
            svc_same(s->spec, s->was, "clusterIP"))
            svc_carry(s, "clusterIPs");
    }
    if (svc_needs_node_ports(s->was) && svc_needs_node_ports(s->spec))
        svc_carry_node_ports(s);
    if (svc_needs_health_check(s->was) && svc_needs_health_check(s->spec) &&
        !sw_field_int(s->spec, "healthCheckNodePort"))
        svc_carry(s, "healthCheckNodePort");
}

/* clusterIP and clusterIPs follow each other. */
static void align_cluster_ips(struct svc_settle *s)
{
    struct sw_slice ip = sw_field_text(s->spec, "clusterIP");
    bool plural = sw_json_len(sw_json_find(s->spec, "clusterIPs"));

    if (!s->was) {
        if (ip.n && !plural)
            svc_put_list(s, "clusterIPs", ip);
        return;
    }
    if (!plural && svc_same(s->spec, s->was, "clusterIP"))
        svc_carry(s, "clusterIPs");
    if (svc_same(s->spec, s->was, "clusterIP") || !svc_same(s->spec, s->was, "clusterIPs"))
        return;
    if (ip.n)
        svc_put_list(s, "clusterIPs", ip);
    else
        drop(s->spec, "clusterIPs");
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

static struct sw_slice ip_at(struct svc_settle *s, uint32_t n)
{
    uint32_t ip = net_base + n;

    return sw_slice_str(sw_arena_printf(s->a, "%u.%u.%u.%u", ip >> 24, (ip >> 16) & 255,
                                        (ip >> 8) & 255, ip & 255));
}

static struct sw_slice next_ip(struct svc_settle *s)
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

static int take_ip(struct svc_settle *s)
{
    struct sw_at ips = svc_at(s, "spec.clusterIPs");
    struct sw_slice ip = sw_json_str(sw_json_at(ips.v, 0));
    const char *why = NULL;

    if (svc_external_name(s->spec) || sw_slice_eq_str(ip, "None"))
        return SW_OK;
    if (!ip.n) {
        ip = next_ip(s);
        if (!ip.p) {
            s->why = "failed to allocate a serviceIP: range is full";
            return SW_ELIMIT;
        }
        sw_json_put_str(s->a, s->spec, "clusterIP", ip);
        svc_put_list(s, "clusterIPs", ip);
        return SW_OK;
    }
    if (!in_range(ip))
        why = "the provided network does not match the current range";
    else if (s->pool->ip_taken(s->pool->arg, ip))
        why = "provided IP is already allocated";
    if (!why)
        return SW_OK;
    sw_b_invalid_list(
        &ips, "string",
        sw_arena_printf(s->a, "failed to allocate IP %.*s: %s", SW_SLICE_ARG(ip), why));
    return SW_EINVAL;
}

/* ---- fields that go with the type ---- */

/* What the server filled in and the new type has no use for goes, if the client left it alone. */
static void drop_unused(struct svc_settle *s)
{
    struct sw_json *spec = s->spec;
    const struct sw_json *ports = sw_json_find(spec, "ports");

    if (!svc_external_name(s->was) && svc_external_name(spec)) {
        if (svc_same(spec, s->was, "clusterIP") && svc_same(spec, s->was, "clusterIPs")) {
            drop(spec, "clusterIP");
            drop(spec, "clusterIPs");
        }
        if (svc_same(spec, s->was, "ipFamilies"))
            drop(spec, "ipFamilies");
        if (svc_same(spec, s->was, "ipFamilyPolicy"))
            drop(spec, "ipFamilyPolicy");
    }
    if (svc_needs_node_ports(s->was) && !svc_needs_node_ports(spec) && svc_no_new_node_port(s)) {
        SW_JSON_ITEMS (item, ports)
            drop(item, "nodePort");
    }
    if (svc_needs_health_check(s->was) && !svc_needs_health_check(spec) &&
        svc_same(spec, s->was, "healthCheckNodePort"))
        drop(spec, "healthCheckNodePort");
    if (svc_type_is(s->was, "LoadBalancer") && !svc_type_is(spec, "LoadBalancer")) {
        if (svc_same(spec, s->was, "allocateLoadBalancerNodePorts"))
            drop(spec, "allocateLoadBalancerNodePorts");
        if (svc_same(spec, s->was, "loadBalancerClass"))
            drop(spec, "loadBalancerClass");
    }
    if (svc_externally_accessible(s->was) && !svc_externally_accessible(spec) &&
        svc_same(spec, s->was, "externalTrafficPolicy"))
        drop(spec, "externalTrafficPolicy");
    if (!svc_type_is(spec, "LoadBalancer") &&
        sw_json_is(sw_json_find(s->svc, "status"), SW_JSON_OBJECT))
        sw_json_put(s->a, sw_json_find(s->svc, "status"), "loadBalancer", sw_json_new_object(s->a));
}

/* ---- all ---- */

static int settle_new(struct svc_settle *s)
{
    int rc = take_ip(s);

    if (rc == SW_OK && svc_needs_node_ports(s->spec))
        rc = svc_take_new_ports(s);
    return rc == SW_OK ? svc_take_health_check(s) : rc;
}

static int settle_changed(struct svc_settle *s)
{
    int rc = SW_OK;

    svc_keep_own_ports(s);
    if (svc_external_name(s->was))
        rc = take_ip(s);
    if (rc == SW_OK && svc_needs_node_ports(s->spec))
        rc = svc_take_changed_ports(s);
    if (rc == SW_OK)
        rc = svc_take_health_check(s);
    if (rc == SW_OK)
        drop_unused(s);
    return rc;
}

int sw_service_settle(struct sw_arena *a, struct sw_json *svc, const struct sw_json *old,
                      const struct sw_service_pool *pool, struct sw_field_errs *e,
                      const char **ret_why)
{
    struct svc_settle s = {.a = a,
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
    svc_settle_families(&s);
    if (e->n)
        return SW_EINVAL;
    rc = s.was ? settle_changed(&s) : settle_new(&s);
    if (rc == SW_ELIMIT)
        *ret_why = s.why;
    return rc;
}
