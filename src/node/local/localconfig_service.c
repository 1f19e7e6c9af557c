/* SPDX-License-Identifier: Apache-2.0 */
/* The local file: services. */
#include "node/local/localconfig_int.h"
#include "node/route.h"

#define AT(field) .at = offsetof(struct sw_service_spec, field)
#define LIST(field, read)                                                                          \
    AT(field), .n_at = offsetof(struct sw_service_spec, n_##field), .item = (read),                \
               .size = sizeof(*((struct sw_service_spec *)NULL)->field)

/* "network/ip" */
static int read_vip(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    struct sw_network_addr *vip = item;
    struct sw_slice ip = {0};
    int rc = sw_yaml_text(node, &ip, l->err);

    if (rc != SW_OK)
        return rc;
    vip->network = sw_slice_cut(&ip, '/');
    if (!ip.p || sw_ip_parse(ip, &vip->ip, NULL) != SW_OK)
        return sw_yaml_error(node, l->err, "'%.*s' is not NETWORK/IP",
                             SW_SLICE_ARG_MAX(node->text, 64));
    return SW_OK;
}

static int read_cidr(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    static const struct sw_local_field fields[] = {
        {"network", sw_local_text, .at = offsetof(struct sw_network_cidr, network)},
        {"cidr", sw_local_cidr, .at = offsetof(struct sw_network_cidr, cidr), .needed = true},
    };

    return sw_local_map(l, node, fields, SW_ARRAY_LEN(fields), item);
}

/* {workloadUid, port: {service: target}}; in a map the key is the uid already. */
static int read_endpoint(struct sw_local *l, const struct sw_yaml *node, struct sw_endpoint_spec *e)
{
    static const struct sw_local_field fields[] = {
        {"workloadUid", sw_local_text, .at = offsetof(struct sw_endpoint_spec, uid)},
        {"port", sw_local_ports, .at = offsetof(struct sw_endpoint_spec, ports),
         .n_at = offsetof(struct sw_endpoint_spec, n_ports)},
        {.key = "status"},
    };
    int rc;

    if (node->key)
        e->uid = node->key->text;
    rc = sw_local_map(l, node, fields, SW_ARRAY_LEN(fields), e);
    if (rc == SW_OK && e->uid.n == 0)
        return sw_yaml_error(node, l->err, "missing key 'workloadUid'");
    return rc;
}

static int read_endpoints(struct sw_local *l, const struct sw_yaml *list,
                          const struct sw_local_field *f, void *to)
{
    struct sw_service_spec *s = to;
    struct sw_endpoint_spec *endpoints;

    if (list->kind == SW_YAML_SCALAR)
        return sw_yaml_expect(list, SW_YAML_MAP, l->err);
    endpoints = sw_arena_array(l->arena, list->count, sizeof(*endpoints));
    SW_YAML_FOREACH (it, list) {
        int rc = read_endpoint(l, it, &endpoints[s->n_endpoints++]);

        if (rc != SW_OK)
            return rc;
    }
    s->endpoints = endpoints;
    return SW_OK;
}

/* The destination is a whole gateway or only its "network/ip" or "ns/host". */
static int read_waypoint(struct sw_local *l, const struct sw_yaml *v,
                         const struct sw_local_field *f, void *to)
{
    static const struct sw_local_field whole = {0};
    struct sw_weighted_waypoint *w = to;
    const struct sw_gateway_addr *gateway;
    int rc;

    if (v->kind != SW_YAML_MAP)
        return sw_local_destination(l, v, f, w);
    rc = sw_local_gateway(l, v, &whole, &gateway);
    if (rc == SW_OK)
        w->to = *gateway;
    return rc;
}

static int read_weighted(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    static const struct sw_local_field fields[] = {
        {"weight", sw_local_u32, .at = offsetof(struct sw_weighted_waypoint, weight)},
        {"hboneMtlsPort", sw_local_port,
         .at = offsetof(struct sw_weighted_waypoint, to.hbone_port)},
        {"destination", read_waypoint, .at = offsetof(struct sw_weighted_waypoint, to),
         .needed = true},
    };
    struct sw_weighted_waypoint *w = item;

    w->to.hbone_port = SW_PORT_HBONE;
    return sw_local_map(l, node, fields, SW_ARRAY_LEN(fields), w);
}

static int read_scope(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    /* In the order of enum sw_lb_scope, which starts at 1. */
    static const char *const scopes[] = {"Region",  "Zone",    "Subzone", "Node",
                                         "Cluster", "Network", NULL};
    int at = 0;
    int rc = sw_yaml_enum(node, scopes, &at, l->err);

    *(int *)item = at + SW_LB_REGION;
    return rc;
}

static int read_balancer(struct sw_local *l, const struct sw_yaml *v,
                         const struct sw_local_field *f, void *to)
{
    static const char *const modes[] = {"Standard", "Strict", "Failover", "Passthrough", NULL};
    static const char *const health[] = {"OnlyHealthy", "AllowAll", NULL};
    static const struct sw_local_field fields[] = {
        {"routingPreferences", sw_local_list, LIST(prefs, read_scope)},
        {"mode", sw_local_enum, AT(mode), .names = modes},
        {"healthPolicy", sw_local_enum, AT(health_policy), .names = health},
    };

    return sw_local_map(l, v, fields, SW_ARRAY_LEN(fields), to);
}

static int read_families(struct sw_local *l, const struct sw_yaml *v,
                         const struct sw_local_field *f, void *to)
{
    static const char *const names[] = {"Dual", "IPv4", "IPv6", NULL};
    static const int values[] = {SW_FAMILIES_DUAL, SW_FAMILIES_V4, SW_FAMILIES_V6};
    struct sw_service_spec *s = to;
    int at = 0;
    int rc = sw_yaml_enum(v, names, &at, l->err);

    s->families = values[at];
    return rc;
}

static const char *const visible[] = {"Public", "Namespace", NULL};

static const struct sw_local_field service_fields[] = {
    {"name", sw_local_text, AT(name), .needed = true},
    {"namespace", sw_local_text, AT(ns), .needed = true},
    {"hostname", sw_local_text, AT(hostname), .needed = true},
    {"vips", sw_local_list, LIST(vips, read_vip), .needed = true},
    {"cidrVips", sw_local_list, LIST(cidr_vips, read_cidr)},
    {"ports", sw_local_ports, AT(ports), .n_at = offsetof(struct sw_service_spec, n_ports),
     .needed = true},
    {"subjectAltNames", sw_local_list, LIST(sans, sw_local_item_text)},
    {"endpoints", .read = read_endpoints},
    {"ipFamilies", .read = read_families},
    {"visibility", sw_local_flag, AT(namespace_only), .names = visible},
    {"canonical", sw_local_bool, AT(canonical)},
    {"loadBalancer", .read = read_balancer},
    {"weightedWaypoints", sw_local_list, LIST(weighted, read_weighted)},
    {"waypoint", sw_local_gateway, AT(waypoint)},
};

static void warn_sans(struct sw_local *l, const struct sw_yaml *node,
                      const struct sw_service_spec *s)
{
    for (size_t i = 0; i < s->n_sans; i++) {
        struct sw_spiffe id;

        if (sw_spiffe_parse(s->sans[i], &id, NULL) != SW_OK)
            sw_local_warn(l, node, "subjectAltName '%.*s' is no SPIFFE name and is ignored",
                          SW_SLICE_ARG_MAX(s->sans[i], 96));
    }
}

int sw_local_service(struct sw_local *l, const struct sw_yaml *node)
{
    struct sw_service_spec s = {0};
    struct sw_err why;
    int rc = sw_local_map(l, node, service_fields, SW_ARRAY_LEN(service_fields), &s);

    if (rc != SW_OK)
        return rc;
    if (sw_state_has_service(l->b, s.ns, s.hostname))
        return sw_yaml_error(node, l->err, "a second service '%.*s/%.*s'",
                             SW_SLICE_ARG_MAX(s.ns, 48), SW_SLICE_ARG_MAX(s.hostname, 64));
    warn_sans(l, node, &s);
    if (sw_state_add_service(l->b, &s, &why) != SW_OK)
        return sw_yaml_error(node, l->err, "%s", why.msg);
    return SW_OK;
}
