/* SPDX-License-Identifier: Apache-2.0 */
/* The local file: services. */
#include "node/localconfig_int.h"

static int read_vip(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    struct sw_network_addr *v = item;

    return sw_local_network_ip(l, node, &v->network, &v->ip);
}

static int service_vips(struct sw_local *l, const struct sw_yaml *node, struct sw_service_spec *s)
{
    const struct sw_yaml *list;
    struct sw_local_list got = {0};
    int rc = sw_local_need(l, node, "vips", &list);

    if (rc == SW_OK)
        rc = sw_local_list(l, list, sizeof(*s->vips), read_vip, &got);
    s->vips = got.p;
    s->n_vips = got.n;
    return rc;
}

static int read_cidr(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    static const char *const known[] = {"network", "cidr", NULL};
    struct sw_network_cidr *c = item;
    const struct sw_yaml *cidr;
    struct sw_slice text = {0};
    int rc = sw_yaml_expect(node, SW_YAML_MAP, l->err);

    if (rc == SW_OK)
        rc = sw_yaml_known_keys(node, known, l->err);
    if (rc == SW_OK)
        rc = sw_local_text(l, node, "network", &c->network);
    if (rc == SW_OK)
        rc = sw_local_need(l, node, "cidr", &cidr);
    if (rc == SW_OK)
        rc = sw_yaml_text(cidr, &text, l->err);
    if (rc == SW_OK && sw_cidr_parse(text, &c->cidr, NULL) != SW_OK)
        return sw_yaml_error(cidr, l->err, "'%.*s' is not an address block",
                             (int)sw_min(text.n, 64), text.p);
    return rc;
}

static int service_cidrs(struct sw_local *l, const struct sw_yaml *node, struct sw_service_spec *s)
{
    struct sw_local_list got;
    int rc =
        sw_local_list(l, sw_local_get(node, "cidrVips"), sizeof(*s->cidr_vips), read_cidr, &got);

    s->cidr_vips = got.p;
    s->n_cidr_vips = got.n;
    return rc;
}

/* {workloadUid, port: {service: target}}; in a map the key is the uid already. */
static int one_endpoint(struct sw_local *l, const struct sw_yaml *node, struct sw_endpoint_spec *e)
{
    static const char *const known[] = {"workloadUid", "port", "status", NULL};
    const struct sw_yaml *ports;
    int rc = sw_yaml_expect(node, SW_YAML_MAP, l->err);

    if (rc == SW_OK)
        rc = sw_yaml_known_keys(node, known, l->err);
    if (node->key)
        e->uid = node->key->text;
    if (rc == SW_OK)
        rc = sw_local_text(l, node, "workloadUid", &e->uid);
    if (rc == SW_OK && e->uid.n == 0)
        return sw_yaml_error(node, l->err, "missing key 'workloadUid'");
    ports = rc == SW_OK ? sw_local_get(node, "port") : NULL;
    return ports ? sw_local_ports(l, ports, &e->ports, &e->n_ports) : rc;
}

static int service_endpoints(struct sw_local *l, const struct sw_yaml *node,
                             struct sw_service_spec *s)
{
    const struct sw_yaml *list = sw_local_get(node, "endpoints");
    struct sw_endpoint_spec *endpoints;

    if (!list)
        return SW_OK;
    if (list->kind == SW_YAML_SCALAR)
        return sw_yaml_expect(list, SW_YAML_MAP, l->err);
    endpoints = sw_arena_array(l->arena, list->count, sizeof(*endpoints));
    SW_YAML_FOREACH (it, list) {
        int rc = one_endpoint(l, it, &endpoints[s->n_endpoints++]);

        if (rc != SW_OK)
            return rc;
    }
    s->endpoints = endpoints;
    return SW_OK;
}

static int service_sans(struct sw_local *l, const struct sw_yaml *node, struct sw_service_spec *s)
{
    int rc = sw_local_texts(l, node, "subjectAltNames", &s->sans, &s->n_sans);

    for (size_t i = 0; rc == SW_OK && i < s->n_sans; i++) {
        struct sw_spiffe id;

        if (sw_spiffe_parse(s->sans[i], &id, NULL) != SW_OK)
            sw_local_warn(l, node, "subjectAltName '%.*s' is no SPIFFE name and is ignored",
                          (int)sw_min(s->sans[i].n, 96), s->sans[i].p);
    }
    return rc;
}

/* The destination is a whole gateway or only its "network/ip" or "ns/host". */
static int read_weighted(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    static const char *const known[] = {"destination", "weight", "hboneMtlsPort", NULL};
    struct sw_weighted_waypoint_spec *w = item;
    const struct sw_gateway_spec *gateway = NULL;
    const struct sw_yaml *dest;
    uint32_t port = 15008;
    int rc = sw_yaml_expect(node, SW_YAML_MAP, l->err);

    if (rc == SW_OK)
        rc = sw_yaml_known_keys(node, known, l->err);
    if (rc == SW_OK)
        rc = sw_local_need(l, node, "destination", &dest);
    if (rc == SW_OK)
        rc = sw_local_u32(l, node, "weight", UINT32_MAX, &w->weight);
    if (rc == SW_OK)
        rc = sw_local_u32(l, node, "hboneMtlsPort", 65535, &port);
    if (rc != SW_OK)
        return rc;
    if (dest->kind == SW_YAML_MAP) {
        rc = sw_local_gateway(l, node, "destination", &gateway);
        if (rc == SW_OK && gateway)
            w->to = *gateway;
        return rc;
    }
    w->to.hbone_port = (uint16_t)port;
    return sw_local_destination(l, dest, &w->to);
}

static int service_weighted(struct sw_local *l, const struct sw_yaml *node,
                            struct sw_service_spec *s)
{
    struct sw_local_list got;
    int rc = sw_local_list(l, sw_local_get(node, "weightedWaypoints"), sizeof(*s->weighted),
                           read_weighted, &got);

    s->weighted = got.p;
    s->n_weighted = got.n;
    return rc;
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

static int service_prefs(struct sw_local *l, const struct sw_yaml *lb, struct sw_service_spec *s)
{
    struct sw_local_list got;
    int rc = sw_local_list(l, sw_local_get(lb, "routingPreferences"), sizeof(*s->prefs), read_scope,
                           &got);

    s->prefs = got.p;
    s->n_prefs = got.n;
    return rc;
}

static int service_balancer(struct sw_local *l, const struct sw_yaml *node,
                            struct sw_service_spec *s)
{
    static const char *const known[] = {"routingPreferences", "mode", "healthPolicy", NULL};
    static const char *const modes[] = {"Standard", "Strict", "Failover", "Passthrough", NULL};
    static const char *const health[] = {"OnlyHealthy", "AllowAll", NULL};
    const struct sw_yaml *lb = sw_local_get(node, "loadBalancer");
    int rc;

    if (!lb)
        return SW_OK;
    rc = sw_yaml_expect(lb, SW_YAML_MAP, l->err);
    if (rc == SW_OK)
        rc = sw_yaml_known_keys(lb, known, l->err);
    if (rc == SW_OK)
        rc = service_prefs(l, lb, s);
    if (rc == SW_OK)
        rc = sw_local_enum(l, lb, "mode", modes, &s->mode);
    if (rc == SW_OK)
        rc = sw_local_enum(l, lb, "healthPolicy", health, &s->health_policy);
    return rc;
}

static int service_names(struct sw_local *l, const struct sw_yaml *node, struct sw_service_spec *s)
{
    const struct {
        const char *key;
        struct sw_slice *to;
    } texts[] = {{"name", &s->name}, {"namespace", &s->ns}, {"hostname", &s->hostname}};

    for (size_t i = 0; i < SW_ARRAY_LEN(texts); i++) {
        const struct sw_yaml *v;
        int rc = sw_local_need(l, node, texts[i].key, &v);

        if (rc == SW_OK)
            rc = sw_yaml_text(v, texts[i].to, l->err);
        if (rc != SW_OK)
            return rc;
    }
    if (sw_state_has_service(l->b, s->ns, s->hostname))
        return sw_yaml_error(node, l->err, "a second service '%.*s/%.*s'", (int)sw_min(s->ns.n, 48),
                             s->ns.p, (int)sw_min(s->hostname.n, 64), s->hostname.p);
    return SW_OK;
}

static int service_choices(struct sw_local *l, const struct sw_yaml *node,
                           struct sw_service_spec *s)
{
    static const char *const families[] = {"Dual", "IPv4", "IPv6", NULL};
    static const int family_values[] = {SW_FAMILIES_DUAL, SW_FAMILIES_V4, SW_FAMILIES_V6};
    static const char *const visible[] = {"Public", "Namespace", NULL};
    int family = -1;
    int visibility = 0;
    int rc = sw_local_enum(l, node, "ipFamilies", families, &family);

    if (rc == SW_OK)
        rc = sw_local_enum(l, node, "visibility", visible, &visibility);
    if (rc == SW_OK)
        rc = sw_local_bool(l, node, "canonical", &s->canonical);
    if (family >= 0)
        s->families = family_values[family];
    s->namespace_only = visibility == 1;
    return rc;
}

static int service_ports(struct sw_local *l, const struct sw_yaml *node, struct sw_service_spec *s)
{
    const struct sw_yaml *ports;
    int rc = sw_local_need(l, node, "ports", &ports);

    return rc == SW_OK ? sw_local_ports(l, ports, &s->ports, &s->n_ports) : rc;
}

static int read_service(struct sw_local *l, const struct sw_yaml *node, struct sw_service_spec *s)
{
    static int (*const parts[])(struct sw_local *, const struct sw_yaml *,
                                struct sw_service_spec *) = {
        service_names,     service_vips,    service_cidrs,    service_ports,   service_sans,
        service_endpoints, service_choices, service_balancer, service_weighted};
    int rc = SW_OK;

    for (size_t i = 0; rc == SW_OK && i < SW_ARRAY_LEN(parts); i++)
        rc = parts[i](l, node, s);
    return rc == SW_OK ? sw_local_gateway(l, node, "waypoint", &s->waypoint) : rc;
}

int sw_local_service(struct sw_local *l, const struct sw_yaml *node)
{
    static const char *const known[] = {"name",         "namespace",  "hostname",
                                        "vips",         "ports",      "cidrVips",
                                        "endpoints",    "waypoint",   "subjectAltNames",
                                        "loadBalancer", "ipFamilies", "weightedWaypoints",
                                        "canonical",    "visibility", NULL};
    struct sw_service_spec s = {0};
    struct sw_err why;
    int rc = sw_yaml_expect(node, SW_YAML_MAP, l->err);

    if (rc == SW_OK)
        rc = sw_yaml_known_keys(node, known, l->err);
    if (rc == SW_OK)
        rc = read_service(l, node, &s);
    if (rc != SW_OK)
        return rc;
    if (sw_state_add_service(l->b, &s, &why) != SW_OK)
        return sw_yaml_error(node, l->err, "%s", why.msg);
    return SW_OK;
}
