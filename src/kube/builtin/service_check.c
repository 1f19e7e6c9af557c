/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of Services, in the order and the words of the reference. */
#include <string.h>

#include "base/map.h"
#include "kube/builtin/service_int.h"
#include "kube/schema/meta.h"

/* ---- types ---- */

static void no_cluster_ip(const struct sw_json *spec, const struct sw_fpath *path,
                          struct sw_field_errs *e)
{
    struct sw_fpath at_ips = sw_fpath_str(path, "clusterIPs");
    struct sw_fpath at = sw_fpath_index(&at_ips, 0);
    const char *type = svc_balanced(spec) ? "LoadBalancer" : "NodePort";

    if (svc_headless(spec))
        sw_ferr_invalid_str(
            e, &at, SW_SLICE_LIT("None"),
            sw_arena_printf(e->arena, "may not be set to 'None' for %s services", type));
}

static void check_balanced(const struct sw_json *spec, const struct sw_fpath *path,
                           struct sw_field_errs *e)
{
    const struct sw_json *ports = sw_json_find(spec, "ports");
    struct sw_fpath up = sw_fpath_str(path, "ports");

    for (size_t i = 0; i < sw_json_len(ports); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);
        const struct sw_json *port = sw_json_find(sw_json_at(ports, i), "port");

        if (sw_field_int(sw_json_at(ports, i), "port") == 10250)
            sw_ferr_invalid(e, &at, port,
                            "may not expose port 10250 externally since it is used by kubelet");
    }
    no_cluster_ip(spec, path, e);
}

static void check_external_name(const struct sw_json *spec, const struct sw_fpath *path,
                                struct sw_field_errs *e)
{
    static const char *const unset[] = {"clusterIPs", "ipFamilies", "ipFamilyPolicy"};
    struct sw_fpath at;
    struct sw_slice name = sw_field_text(spec, "externalName");

    for (size_t i = 0; i < SW_ARRAY_LEN(unset); i++) {
        at = sw_fpath_str(path, unset[i]);
        if (sw_json_find(spec, unset[i]))
            sw_ferr_forbidden(e, &at, "may not be set for ExternalName services");
    }
    at = sw_fpath_str(path, "externalName");
    if (sw_slice_has_suffix(name, SW_SLICE_LIT(".")))
        name.n--; /* fully qualified */
    if (!name.n)
        sw_ferr_required(e, &at, NULL);
    else if (sw_name_dns1123_subdomain(name).n)
        sw_name_report(e, &at, name, sw_name_dns1123_subdomain(name));
    else
        sw_b_not_numeric(name, &at, e);
}

static void check_by_type(const struct sw_json *spec, const struct sw_fpath *path,
                          struct sw_field_errs *e)
{
    if (svc_balanced(spec))
        check_balanced(spec, path, e);
    else if (svc_type_is(spec, "NodePort"))
        no_cluster_ip(spec, path, e);
    else if (svc_external_name(spec))
        check_external_name(spec, path, e);
}

/* ---- ports ---- */

static void check_port(const struct sw_json *ports, size_t i, const struct sw_fpath *path,
                       struct sw_map *names, struct sw_field_errs *e)
{
    static const char *const protocols[] = {"SCTP", "TCP", "UDP", NULL};
    const struct sw_json *p = sw_json_at(ports, i);
    const struct sw_json *target = sw_json_find(p, "targetPort");
    const struct sw_json *app = sw_json_find(p, "appProtocol");
    struct sw_fpath at_name = sw_fpath_str(path, "name");
    struct sw_fpath at_port = sw_fpath_str(path, "port");
    struct sw_fpath at_proto = sw_fpath_str(path, "protocol");
    struct sw_fpath at_target = sw_fpath_str(path, "targetPort");
    struct sw_fpath at_app = sw_fpath_str(path, "appProtocol");
    struct sw_slice name = sw_field_text(p, "name");

    if (!name.n && sw_json_len(ports) > 1)
        sw_ferr_required(e, &at_name, NULL);
    if (name.n)
        sw_name_report(e, &at_name, name, sw_name_dns1123_label(name));
    if (name.n && sw_map_put(names, name, names))
        sw_ferr_duplicate(e, &at_name, sw_json_find(p, "name"));
    sw_b_port_number(sw_json_find(p, "port"), &at_port, e);
    sw_field_one_of(sw_json_find(p, "protocol"), protocols, &at_proto, e);
    if (sw_json_is(target, SW_JSON_STRING))
        sw_name_report(e, &at_target, target->text, sw_name_port(target->text));
    else
        sw_b_port_number(target, &at_target, e);
    if (app)
        sw_name_report(e, &at_app, sw_json_str(app), sw_name_label_key(sw_json_str(app)));
}

static void check_ports(const struct sw_json *spec, const struct sw_fpath *path,
                        struct sw_field_errs *e)
{
    const struct sw_json *ports = sw_json_find(spec, "ports");
    struct sw_fpath up = sw_fpath_str(path, "ports");
    struct sw_map names = {0};

    for (size_t i = 0; i < sw_json_len(ports); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check_port(ports, i, &at, &names, e);
    }
    sw_map_done(&names);
}

static void duplicate_port(const struct sw_json *p, const struct sw_fpath *at,
                           struct sw_field_errs *e)
{
    sw_ferr(e, SW_CAUSE_DUPLICATE, at,
            sw_arena_printf(e->arena,
                            "Duplicate value: core.ServicePort{Name:\"\", Protocol:%s, "
                            "AppProtocol:(*string)(nil), Port:%lld, TargetPort:intstr.IntOrString{"
                            "Type:0, IntVal:0, StrVal:\"\"}, NodePort:0}",
                            sw_go_quote(e->arena, sw_field_text(p, "protocol")),
                            (long long)sw_field_int(p, "port")));
}

/* Pairs of protocol and number may be there once: first node ports, then ports. */
static void check_port_pairs(const struct sw_json *spec, const struct sw_fpath *path,
                             struct sw_field_errs *e)
{
    const struct sw_json *ports = sw_json_find(spec, "ports");
    struct sw_fpath up = sw_fpath_str(path, "ports");

    for (int round = 0; round < 2; round++) {
        const char *key = round ? "port" : "nodePort";
        struct sw_map seen = {0};

        for (size_t i = 0; i < sw_json_len(ports); i++) {
            const struct sw_json *p = sw_json_at(ports, i);
            struct sw_fpath at = sw_fpath_index(&up, i);
            struct sw_fpath at_node = sw_fpath_str(&at, "nodePort");
            int64_t n = sw_field_int(p, key);

            if (!n && !round)
                continue;
            if (!sw_map_put(
                    &seen,
                    sw_slice_str(sw_arena_printf(e->arena, "%lld/%.*s", (long long)n,
                                                 SW_SLICE_ARG(sw_field_text(p, "protocol")))),
                    &seen))
                continue;
            if (round)
                duplicate_port(p, &at, e);
            else
                sw_ferr_duplicate(e, &at_node, sw_json_find(p, key));
        }
        sw_map_done(&seen);
    }
}

static void no_node_ports(const struct sw_json *spec, const struct sw_fpath *path,
                          struct sw_field_errs *e)
{
    const struct sw_json *ports = sw_json_find(spec, "ports");
    struct sw_fpath up = sw_fpath_str(path, "ports");

    for (size_t i = 0; svc_type_is(spec, "ClusterIP") && i < sw_json_len(ports); i++) {
        struct sw_fpath item = sw_fpath_index(&up, i);
        struct sw_fpath at = sw_fpath_str(&item, "nodePort");

        if (sw_field_int(sw_json_at(ports, i), "nodePort"))
            sw_ferr_forbidden(e, &at, "may not be used when `type` is 'ClusterIP'");
    }
}

/* ---- session affinity ---- */

static void check_affinity(const struct sw_json *spec, const struct sw_fpath *path,
                           struct sw_field_errs *e)
{
    static const char *const known[] = {"ClientIP", "None", NULL};
    const struct sw_json *config = sw_json_find(spec, "sessionAffinityConfig");
    const struct sw_json *limit = sw_json_walk(config, "clientIP", "timeoutSeconds", NULL);
    struct sw_fpath at = sw_fpath_str(path, "sessionAffinity");
    struct sw_fpath at_config = sw_fpath_str(path, "sessionAffinityConfig");
    struct sw_fpath at_ip = sw_fpath_str(&at_config, "clientIP");
    struct sw_fpath at_limit = sw_fpath_str(&at_ip, "timeoutSeconds");
    int64_t n = 0;

    sw_field_one_of(sw_json_find(spec, "sessionAffinity"), known, &at, e);
    if (sw_field_is(spec, "sessionAffinity", "None") && config)
        sw_ferr_forbidden(e, &at_config, "must not be set when session affinity is None");
    if (!sw_field_is(spec, "sessionAffinity", "ClientIP"))
        return;
    if (!limit)
        sw_ferr_required(e, &at_limit, "when session affinity type is ClientIP");
    else if (!sw_json_exact_i64(limit, &n) || n <= 0 || n > 86400)
        sw_ferr_invalid(e, &at_limit, limit, "must be greater than 0 and less than 86400");
}

/* ---- policies ---- */

static void check_class(const struct sw_json *spec, const struct sw_fpath *path,
                        struct sw_field_errs *e)
{
    const struct sw_json *c = sw_json_find(spec, "loadBalancerClass");
    struct sw_fpath at = sw_fpath_str(path, "loadBalancerClass");

    if (c && svc_balanced(spec))
        sw_name_report(e, &at, sw_json_str(c), sw_name_label_key(sw_json_str(c)));
    else if (c)
        sw_ferr_forbidden(e, &at, "may only be used when `type` is 'LoadBalancer'");
}

static void check_external_policy(const struct sw_json *spec, const struct sw_fpath *path,
                                  struct sw_field_errs *e)
{
    static const char *const known[] = {"Cluster", "Local", NULL};
    const struct sw_json *policy = sw_json_find(spec, "externalTrafficPolicy");
    const struct sw_json *check = sw_json_find(spec, "healthCheckNodePort");
    struct sw_fpath at = sw_fpath_str(path, "externalTrafficPolicy");
    struct sw_fpath at_check = sw_fpath_str(path, "healthCheckNodePort");
    bool reachable = svc_externally_accessible(spec);

    if (!reachable && policy)
        sw_ferr_invalid(e, &at, policy, "may only be set for externally-accessible services");
    else if (reachable && !policy)
        sw_ferr_required(e, &at, NULL);
    else if (reachable)
        sw_field_one_of(policy, known, &at, e);
    if (!svc_needs_health_check(spec)) {
        if (sw_field_int(spec, "healthCheckNodePort"))
            sw_ferr_invalid(e, &at_check, check,
                            "may only be set when `type` is 'LoadBalancer' and "
                            "`externalTrafficPolicy` is 'Local'");
    } else if (!sw_field_int(spec, "healthCheckNodePort")) {
        sw_ferr_required(e, &at_check, NULL);
    } else {
        sw_b_port_number(check, &at_check, e);
    }
}

static void check_internal_policy(const struct sw_json *spec, const struct sw_fpath *path,
                                  struct sw_field_errs *e)
{
    static const char *const known[] = {"Cluster", "Local", NULL};
    static const char *const spread[] = {"PreferClose", NULL};
    const struct sw_json *policy = sw_json_find(spec, "internalTrafficPolicy");
    const struct sw_json *dist = sw_json_find(spec, "trafficDistribution");
    struct sw_fpath at = sw_fpath_str(path, "internalTrafficPolicy");
    struct sw_fpath at_dist = sw_fpath_str(path, "trafficDistribution");

    if (policy)
        sw_field_one_of(policy, known, &at, e);
    if (dist)
        sw_field_one_of(dist, spread, &at_dist, e);
}

/* ---- changes ---- */

static void changed_ips(const struct sw_json *spec, const struct sw_json *was, const char *key,
                        const char *type, struct sw_field_errs *e)
{
    const struct sw_json *now = sw_json_find(spec, key);
    const struct sw_json *old = sw_json_find(was, key);
    bool ips = strcmp(key, "clusterIPs") == 0;
    const char *shown = sw_b_go_list(e->arena, now, type);
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath up = sw_fpath_str(&path, key);
    struct sw_fpath at_policy = sw_fpath_str(&path, "ipFamilyPolicy");
    size_t n = sw_json_len(now);
    size_t m = sw_json_len(old);

    for (size_t i = 0; i < n && i < m; i++) {
        struct sw_fpath at = sw_fpath_index(&up, ips ? i : 0);

        if ((i == 0 || n == m) && !sw_json_equal(sw_json_at(now, i), sw_json_at(old, i), 0))
            sw_b_invalid_go(e, &at, shown, "may not change once set");
    }
    if (m <= n)
        return;
    if (n == 0) {
        struct sw_fpath at = sw_fpath_index(&up, 0);

        sw_b_invalid_go(e, &at, shown,
                        ips ? "primary clusterIP can not be unset"
                            : "primary ipFamily can not be unset");
    }
    if (n == 1 && !sw_field_is(spec, "ipFamilyPolicy", "SingleStack"))
        sw_ferr_invalid(e, &at_policy, sw_json_find(spec, "ipFamilyPolicy"),
                        sw_arena_printf(e->arena,
                                        "must be set to 'SingleStack' when releasing the secondary "
                                        "%s",
                                        ips ? "clusterIP" : "ipFamily"));
}

static void check_change(const struct sw_json *spec, const struct sw_json *was,
                         struct sw_field_errs *e)
{
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at_class = sw_fpath_str(&path, "loadBalancerClass");
    struct sw_fpath at_check = sw_fpath_str(&path, "healthCheckNodePort");

    if (!svc_external_name(spec) && !svc_external_name(was)) {
        if (!svc_headless(spec) || !svc_headless(was))
            changed_ips(spec, was, "clusterIPs", "string", e);
        if (!svc_headless(spec) && !svc_headless(was))
            changed_ips(spec, was, "ipFamilies", "core.IPFamily", e);
    }
    if (svc_balanced(spec) && svc_balanced(was) &&
        !sw_json_equal(sw_json_find(spec, "loadBalancerClass"),
                       sw_json_find(was, "loadBalancerClass"), 0))
        sw_ferr_invalid(e, &at_class, sw_json_find(spec, "loadBalancerClass"),
                        "may not change once set");
    if (svc_needs_health_check(spec) && svc_needs_health_check(was) &&
        sw_field_int(spec, "healthCheckNodePort") != sw_field_int(was, "healthCheckNodePort"))
        sw_ferr_forbidden(e, &at_check, "field is immutable");
}

/* ---- status ---- */

static void check_ingress(const struct sw_json *in, const struct sw_fpath *at,
                          struct sw_field_errs *e)
{
    static const char *const modes[] = {"Proxy", "VIP", NULL};
    const struct sw_json *mode = sw_json_find(in, "ipMode");
    struct sw_slice ip = sw_field_text(in, "ip");
    struct sw_slice host = sw_field_text(in, "hostname");
    struct sw_fpath at_ip = sw_fpath_str(at, "ip");
    struct sw_fpath at_mode = sw_fpath_str(at, "ipMode");
    struct sw_fpath at_host = sw_fpath_str(at, "hostname");

    if (ip.n)
        (void)sw_b_ip(ip, &at_ip, e);
    if (!mode && ip.n)
        sw_ferr_required(e, &at_mode, "must be specified when `ip` is set");
    else if (mode && !ip.n)
        sw_ferr_forbidden(e, &at_mode, "may not be specified when `ip` is not set");
    else if (mode)
        sw_field_one_of(mode, modes, &at_mode, e);
    if (!host.n)
        return;
    sw_name_report(e, &at_host, host, sw_name_dns1123_subdomain(host));
    if (sw_is_ipv4(host) || sw_is_ipv6(host))
        sw_ferr_invalid_str(e, &at_host, host, "must be a DNS name, not an IP address");
}

static void check_status(const struct sw_json *obj, const struct sw_json *old,
                         struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_walk(obj, "status", "loadBalancer", "ingress", NULL);
    struct sw_fpath up = sw_fpath_str(NULL, "status.loadBalancer.ingress");

    if (!sw_json_len(list) ||
        sw_json_equal(list, sw_json_walk(old, "status", "loadBalancer", "ingress", NULL), 0))
        return;
    if (!svc_balanced(sw_json_find(obj, "spec"))) {
        sw_ferr_forbidden(e, &up, "may only be used when `spec.type` is 'LoadBalancer'");
        return;
    }
    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check_ingress(sw_json_at(list, i), &at, e);
    }
}

/* ---- all ---- */

static void check_topology(const struct sw_json *obj, struct sw_field_errs *e)
{
    static const char hints[] = "service.kubernetes.io/topology-aware-hints";
    static const char mode[] = "service.kubernetes.io/topology-mode";
    const struct sw_json *notes = sw_json_walk(obj, "metadata", "annotations", NULL);
    const struct sw_json *x = sw_json_find(notes, hints);
    const struct sw_json *y = sw_json_find(notes, mode);
    struct sw_fpath up = sw_fpath_str(NULL, "metadata.annotations");
    struct sw_fpath at = sw_fpath_key(&up, sw_slice_str(mode));

    if (x && y && !sw_json_equal(x, y, 0))
        sw_ferr_invalid(
            e, &at, y,
            sw_arena_printf(e->arena, "must match annotations[%s] when both are specified", hints));
}

void sw_b_check_service(const struct sw_json *obj, const struct sw_json *old,
                        struct sw_field_errs *e)
{
    static const char *const types[] = {"ClusterIP", "ExternalName", "LoadBalancer", "NodePort",
                                        NULL};
    const struct sw_json *spec = sw_json_find(obj, "spec");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at_ports = sw_fpath_str(&path, "ports");
    struct sw_fpath at_type = sw_fpath_str(&path, "type");
    struct sw_fpath at_sel = sw_fpath_str(&path, "selector");
    struct sw_fpath at_alloc = sw_fpath_str(&path, "allocateLoadBalancerNodePorts");

    if (old)
        check_change(spec, sw_json_find(old, "spec"), e);
    check_topology(obj, e);
    if (!sw_json_len(sw_json_find(spec, "ports")) && !svc_headless(spec) &&
        !svc_external_name(spec))
        sw_ferr_required(e, &at_ports, NULL);
    check_by_type(spec, &path, e);
    check_ports(spec, &path, e);
    sw_labels_validate(sw_json_find(spec, "selector"), &at_sel, e);
    check_affinity(spec, &path, e);
    sw_b_check_cluster_ips(spec, e);
    svc_check_external_ips(spec, &path, e);
    sw_field_one_of(sw_json_find(spec, "type"), types, &at_type, e);
    no_node_ports(spec, &path, e);
    check_port_pairs(spec, &path, e);
    svc_check_source_ranges(obj, spec, &path, e);
    if (sw_json_find(spec, "allocateLoadBalancerNodePorts") && !svc_balanced(spec))
        sw_ferr_forbidden(e, &at_alloc, "may only be used when `type` is 'LoadBalancer'");
    check_class(spec, &path, e);
    check_external_policy(spec, &path, e);
    check_internal_policy(spec, &path, e);
    check_status(obj, old, e);
}
