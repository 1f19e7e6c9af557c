/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of Services, in the order and the words of the reference. */
#include <string.h>

#include "kube/builtin/service_int.h"
#include "kube/schema/meta.h"

/* ---- types ---- */

static void no_cluster_ip(const struct sw_at *spec)
{
    const char *type = svc_balanced(spec->v) ? "LoadBalancer" : "NodePort";

    if (svc_headless(spec->v))
        sw_at_invalid(
            SW_ITEM(SW_IN(spec, "clusterIPs"), 0),
            sw_arena_printf(spec->e->arena, "may not be set to 'None' for %s services", type));
}

static void check_balanced(const struct sw_at *spec)
{
    const struct sw_at *ports = SW_IN(spec, "ports");

    SW_AT_FOREACH (p, ports) {
        if (sw_at_int(SW_IN(&p, "port")) == 10250)
            sw_ferr_invalid(p.e, &p.path, sw_json_find(p.v, "port"),
                            "may not expose port 10250 externally since it is used by kubelet");
    }
    no_cluster_ip(spec);
}

static void check_external_name(const struct sw_at *spec)
{
    static const char *const unset[] = {"clusterIPs", "ipFamilies", "ipFamilyPolicy"};
    const struct sw_at *name = SW_IN(spec, "externalName");

    for (size_t i = 0; i < SW_ARRAY_LEN(unset); i++) {
        if (sw_json_find(spec->v, unset[i]))
            sw_at_forbidden(SW_IN(spec, unset[i]), "may not be set for ExternalName services");
    }
    if (!sw_at_text(name).n || sw_at_is(name, "."))
        sw_at_required(name, NULL);
    else
        sw_b_domain(name, false);
}

static void check_by_type(const struct sw_at *spec)
{
    if (svc_balanced(spec->v))
        check_balanced(spec);
    else if (svc_type_is(spec->v, "NodePort"))
        no_cluster_ip(spec);
    else if (svc_external_name(spec->v))
        check_external_name(spec);
}

/* ---- ports ---- */

static void check_ports(const struct sw_at *ports)
{
    struct sw_map names = {0};

    SW_AT_FOREACH (p, ports) {
        const struct sw_at *target = SW_IN(&p, "targetPort");

        if (sw_at_len(ports) > 1)
            (void)sw_at_need(SW_IN(&p, "name"), NULL);
        sw_at_name(SW_IN(&p, "name"), sw_name_dns1123_label);
        sw_at_unique(SW_IN(&p, "name"), &names);
        sw_b_port_number(SW_IN(&p, "port"));
        sw_at_one_of(SW_IN(&p, "protocol"), SW_B_PROTOCOLS);
        if (sw_json_is(target->v, SW_JSON_STRING))
            sw_at_set_name(target, sw_name_port);
        else
            sw_b_port_number(target);
        sw_at_set_name(SW_IN(&p, "appProtocol"), sw_name_label_key);
    }
    sw_map_done(&names);
}

static void duplicate_port(const struct sw_at *p)
{
    sw_ferr(p->e, SW_CAUSE_DUPLICATE, &p->path,
            sw_arena_printf(p->e->arena,
                            "Duplicate value: core.ServicePort{Name:\"\", Protocol:%s, "
                            "AppProtocol:(*string)(nil), Port:%lld, TargetPort:intstr.IntOrString{"
                            "Type:0, IntVal:0, StrVal:\"\"}, NodePort:0}",
                            sw_go_quote(p->e->arena, sw_field_text(p->v, "protocol")),
                            (long long)sw_field_int(p->v, "port")));
}

/* True when an earlier port had the pair of protocol and number. */
static bool had_pair(struct sw_map *seen, const struct sw_at *p, int64_t n)
{
    const char *pair = sw_arena_printf(p->e->arena, "%lld/%.*s", (long long)n,
                                       SW_SLICE_ARG(sw_field_text(p->v, "protocol")));

    return sw_map_put(seen, sw_slice_str(pair), seen);
}

/* Pairs of protocol and number may be there once: first node ports, then ports. */
static void check_port_pairs(const struct sw_at *ports)
{
    struct sw_map node_ports = {0};
    struct sw_map numbers = {0};

    SW_AT_FOREACH (p, ports) {
        int64_t n = sw_field_int(p.v, "nodePort");

        if (n && had_pair(&node_ports, &p, n))
            sw_at_duplicate(SW_IN(&p, "nodePort"));
    }
    SW_AT_FOREACH (p, ports) {
        if (had_pair(&numbers, &p, sw_field_int(p.v, "port")))
            duplicate_port(&p);
    }
    sw_map_done(&node_ports);
    sw_map_done(&numbers);
}

static void no_node_ports(const struct sw_at *spec)
{
    const struct sw_at *ports = SW_IN(spec, "ports");

    SW_AT_FOREACH (p, ports) {
        if (svc_type_is(spec->v, "ClusterIP") && sw_field_int(p.v, "nodePort"))
            sw_at_forbidden(SW_IN(&p, "nodePort"), "may not be used when `type` is 'ClusterIP'");
    }
}

/* ---- session affinity ---- */

static void check_affinity(const struct sw_at *spec)
{
    const struct sw_at *affinity = SW_IN(spec, "sessionAffinity");
    const struct sw_at *config = SW_IN(spec, "sessionAffinityConfig");
    const struct sw_at *limit = SW_IN(config, "clientIP.timeoutSeconds");

    sw_at_one_of(affinity, "ClientIP None");
    if (sw_at_is(affinity, "None") && config->v)
        sw_at_forbidden(config, "must not be set when session affinity is None");
    if (!sw_at_is(affinity, "ClientIP"))
        return;
    if (!limit->v)
        sw_at_required(limit, "when session affinity type is ClientIP");
    else if (sw_at_int(limit) <= 0 || sw_at_int(limit) > 86400)
        sw_at_invalid(limit, "must be greater than 0 and less than 86400");
}

/* ---- policies ---- */

static const char traffic[] = "Cluster Local";

static void check_class(const struct sw_at *spec)
{
    const struct sw_at *class = SW_IN(spec, "loadBalancerClass");

    if (svc_balanced(spec->v))
        sw_at_set_name(class, sw_name_label_key);
    else if (class->v)
        sw_at_forbidden(class, "may only be used when `type` is 'LoadBalancer'");
}

static void check_external_policy(const struct sw_at *spec)
{
    const struct sw_at *policy = SW_IN(spec, "externalTrafficPolicy");
    const struct sw_at *check = SW_IN(spec, "healthCheckNodePort");
    bool reachable = svc_externally_accessible(spec->v);

    if (!reachable && policy->v)
        sw_at_invalid(policy, "may only be set for externally-accessible services");
    else if (reachable && !policy->v)
        sw_at_required(policy, NULL);
    else if (reachable)
        sw_at_one_of(policy, traffic);
    if (svc_needs_health_check(spec->v)) {
        if (sw_at_need(check, NULL))
            sw_b_port_number(check);
    } else if (sw_at_int(check)) {
        sw_at_invalid(check, "may only be set when `type` is 'LoadBalancer' and "
                             "`externalTrafficPolicy` is 'Local'");
    }
}

/* ---- changes ---- */

static void changed_ips(const struct sw_at *spec, const struct sw_json *was, const char *key,
                        const char *type)
{
    const struct sw_at *now = SW_IN(spec, key);
    const struct sw_at *policy = SW_IN(spec, "ipFamilyPolicy");
    const struct sw_json *old = sw_json_find(was, key);
    bool ips = strcmp(key, "clusterIPs") == 0;
    const char *shown = sw_b_go_list(spec->e->arena, now->v, type);
    size_t n = sw_at_len(now);
    size_t m = sw_json_len(old);

    for (size_t i = 0; i < n && i < m; i++) {
        if ((i == 0 || n == m) && !sw_json_equal(sw_json_at(now->v, i), sw_json_at(old, i), 0))
            sw_b_invalid_go(SW_ITEM(now, ips ? i : 0), shown, "may not change once set");
    }
    if (m > n && n == 0)
        sw_b_invalid_go(SW_ITEM(now, 0), shown,
                        ips ? "primary clusterIP can not be unset"
                            : "primary ipFamily can not be unset");
    if (m > n && n == 1 && !sw_at_is(policy, "SingleStack"))
        sw_at_invalid(policy,
                      ips ? "must be set to 'SingleStack' when releasing the secondary clusterIP"
                          : "must be set to 'SingleStack' when releasing the secondary ipFamily");
}

static void check_change(const struct sw_at *spec, const struct sw_json *was)
{
    const struct sw_at *class = SW_IN(spec, "loadBalancerClass");
    const struct sw_at *check = SW_IN(spec, "healthCheckNodePort");

    if (!svc_external_name(spec->v) && !svc_external_name(was)) {
        if (!svc_headless(spec->v) || !svc_headless(was))
            changed_ips(spec, was, "clusterIPs", "string");
        if (!svc_headless(spec->v) && !svc_headless(was))
            changed_ips(spec, was, "ipFamilies", "core.IPFamily");
    }
    if (svc_balanced(spec->v) && svc_balanced(was) &&
        !sw_json_equal(class->v, sw_json_find(was, "loadBalancerClass"), 0))
        sw_at_invalid(class, "may not change once set");
    if (svc_needs_health_check(spec->v) && svc_needs_health_check(was) &&
        sw_at_int(check) != sw_field_int(was, "healthCheckNodePort"))
        sw_at_forbidden(check, "field is immutable");
}

/* ---- status ---- */

static void check_ingress(const struct sw_at *in)
{
    const struct sw_at *ip = SW_IN(in, "ip");
    const struct sw_at *mode = SW_IN(in, "ipMode");

    if (sw_at_text(ip).n)
        (void)sw_b_ip(ip);
    if (!mode->v && sw_at_text(ip).n)
        sw_at_required(mode, "must be specified when `ip` is set");
    else if (mode->v && !sw_at_text(ip).n)
        sw_at_forbidden(mode, "may not be specified when `ip` is not set");
    else
        sw_at_set_one_of(mode, "Proxy VIP");
    sw_at_name(SW_IN(in, "hostname"), sw_name_dns1123_subdomain);
    sw_b_no_ip(SW_IN(in, "hostname"));
}

static void check_status(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *list = SW_IN(obj, "status.loadBalancer.ingress");

    if (!sw_at_len(list) ||
        sw_json_equal(list->v, sw_json_walk(old, "status", "loadBalancer", "ingress", NULL), 0))
        return;
    if (!svc_balanced(sw_json_find(obj->v, "spec"))) {
        sw_at_forbidden(list, "may only be used when `spec.type` is 'LoadBalancer'");
        return;
    }
    SW_AT_FOREACH (in, list)
        check_ingress(&in);
}

/* ---- all ---- */

static void check_topology(const struct sw_at *notes)
{
    static const char hints[] = "service.kubernetes.io/topology-aware-hints";
    const struct sw_json *hint = sw_json_find(notes->v, hints);
    const struct sw_at *mode = SW_KEY(notes, SW_SLICE_LIT("service.kubernetes.io/topology-mode"));

    if (hint && mode->v && !sw_json_equal(hint, mode->v, 0))
        sw_at_invalid(mode,
                      sw_arena_printf(notes->e->arena,
                                      "must match annotations[%s] when both are specified", hints));
}

void sw_b_check_service(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *spec = SW_IN(obj, "spec");
    const struct sw_at *ports = SW_IN(spec, "ports");
    const struct sw_at *allocate = SW_IN(spec, "allocateLoadBalancerNodePorts");
    const struct sw_at *external = SW_IN(spec, "externalIPs");

    if (old)
        check_change(spec, sw_json_find(old, "spec"));
    check_topology(SW_IN(obj, "metadata.annotations"));
    if (!svc_headless(spec->v) && !svc_external_name(spec->v))
        (void)sw_at_need(ports, NULL);
    check_by_type(spec);
    check_ports(ports);
    sw_labels_validate(SW_IN(spec, "selector"));
    check_affinity(spec);
    sw_b_check_cluster_ips(spec);
    SW_AT_FOREACH (ip, external) {
        if (sw_b_ip(&ip))
            sw_b_special_ip(&ip);
    }
    sw_at_one_of(SW_IN(spec, "type"), "ClusterIP ExternalName LoadBalancer NodePort");
    no_node_ports(spec);
    check_port_pairs(ports);
    svc_check_source_ranges(obj, spec);
    if (allocate->v && !svc_balanced(spec->v))
        sw_at_forbidden(allocate, "may only be used when `type` is 'LoadBalancer'");
    check_class(spec);
    check_external_policy(spec);
    sw_at_set_one_of(SW_IN(spec, "internalTrafficPolicy"), traffic);
    sw_at_set_one_of(SW_IN(spec, "trafficDistribution"), "PreferClose");
    check_status(obj, old);
}
