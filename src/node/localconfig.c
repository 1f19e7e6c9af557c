/* SPDX-License-Identifier: Apache-2.0 */
/* The local file: its top level, workloads, and the readers all parts use. */
#include "node/localconfig.h"

#include <stdio.h>

#include "base/mem.h"
#include "node/localconfig_int.h"

/* ---- readers ---- */

void sw_local_warn(const struct sw_local *l, const struct sw_yaml *at, const char *fmt, ...)
{
    char what[256];
    char line[512];
    va_list ap;

    if (!l->warn)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    if (at)
        (void)snprintf(line, sizeof(line), "%s: line %u column %u: %s", l->file, at->line,
                       at->column, what);
    else
        (void)snprintf(line, sizeof(line), "%s: %s", l->file, what);
    l->warn(l->warn_ctx, line);
}

const struct sw_yaml *sw_local_get(const struct sw_yaml *map, const char *key)
{
    const struct sw_yaml *v = sw_yaml_get(map, key);

    return v && !sw_yaml_is_null(v) ? v : NULL;
}

int sw_local_need(struct sw_local *l, const struct sw_yaml *map, const char *key,
                  const struct sw_yaml **ret)
{
    *ret = sw_local_get(map, key);
    return *ret ? SW_OK : sw_yaml_error(map, l->err, "missing key '%s'", key);
}

int sw_local_text(struct sw_local *l, const struct sw_yaml *map, const char *key,
                  struct sw_slice *ret)
{
    const struct sw_yaml *v = sw_local_get(map, key);

    return v ? sw_yaml_text(v, ret, l->err) : SW_OK;
}

int sw_local_bool(struct sw_local *l, const struct sw_yaml *map, const char *key, bool *ret)
{
    const struct sw_yaml *v = sw_local_get(map, key);

    return v ? sw_yaml_bool(v, ret, l->err) : SW_OK;
}

int sw_local_enum(struct sw_local *l, const struct sw_yaml *map, const char *key,
                  const char *const *names, int *ret)
{
    const struct sw_yaml *v = sw_local_get(map, key);

    return v ? sw_yaml_enum(v, names, ret, l->err) : SW_OK;
}

static int read_u32(struct sw_local *l, const struct sw_yaml *node, uint32_t max, uint32_t *ret)
{
    int64_t v;
    int rc = sw_yaml_int(node, 0, max, &v, l->err);

    if (rc == SW_OK)
        *ret = (uint32_t)v;
    return rc;
}

int sw_local_u32(struct sw_local *l, const struct sw_yaml *map, const char *key, uint32_t max,
                 uint32_t *ret)
{
    const struct sw_yaml *v = sw_local_get(map, key);

    return v ? read_u32(l, v, max, ret) : SW_OK;
}

int sw_local_list(struct sw_local *l, const struct sw_yaml *list, size_t size,
                  sw_local_item_cb read, struct sw_local_list *ret)
{
    int rc;

    *ret = (struct sw_local_list){0};
    if (!list)
        return SW_OK;
    rc = sw_yaml_expect(list, SW_YAML_SEQ, l->err);
    if (rc != SW_OK)
        return rc;
    ret->p = sw_arena_array(l->arena, list->count, size);
    SW_YAML_FOREACH (it, list) {
        rc = read(l, it, (char *)ret->p + size * ret->n++);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

static int read_text(struct sw_local *l, const struct sw_yaml *node, void *item)
{
    return sw_yaml_text(node, item, l->err);
}

int sw_local_texts(struct sw_local *l, const struct sw_yaml *map, const char *key,
                   const struct sw_slice **ret, size_t *ret_n)
{
    struct sw_local_list got;
    int rc = sw_local_list(l, sw_local_get(map, key), sizeof(**ret), read_text, &got);

    *ret = got.p;
    *ret_n = got.n;
    return rc;
}

int sw_local_network_ip(struct sw_local *l, const struct sw_yaml *node, struct sw_slice *ret_net,
                        struct sw_ip *ret_ip)
{
    struct sw_slice ip = {0};
    int rc = sw_yaml_text(node, &ip, l->err);

    if (rc != SW_OK)
        return rc;
    *ret_net = sw_slice_cut(&ip, '/');
    if (!ip.p || sw_ip_parse(ip, ret_ip, NULL) != SW_OK)
        return sw_yaml_error(node, l->err, "'%.*s' is not NETWORK/IP",
                             (int)sw_min(node->text.n, 64), node->text.p);
    return SW_OK;
}

/* ---- ports ---- */

static int port_map(struct sw_local *l, const struct sw_yaml *node, struct sw_port_pair *out)
{
    SW_YAML_FOREACH (it, node) {
        uint32_t from = 0;
        uint32_t to = 0;
        struct sw_yaml key = *it->key;
        int rc;

        key.plain = true; /* JSON writes keys in quotes */
        rc = read_u32(l, &key, 65535, &from);
        if (rc == SW_OK)
            rc = read_u32(l, it, 65535, &to);
        if (rc != SW_OK)
            return rc;
        *out++ = (struct sw_port_pair){(uint16_t)from, (uint16_t)to};
    }
    return SW_OK;
}

static int port_list(struct sw_local *l, const struct sw_yaml *list, struct sw_port_pair *out)
{
    static const char *const known[] = {"servicePort", "targetPort", "appProtocol", NULL};

    SW_YAML_FOREACH (it, list) {
        uint32_t from = 0;
        uint32_t to = 0;
        int rc = sw_yaml_expect(it, SW_YAML_MAP, l->err);

        if (rc == SW_OK)
            rc = sw_yaml_known_keys(it, known, l->err);
        if (rc == SW_OK)
            rc = sw_local_u32(l, it, "servicePort", 65535, &from);
        if (rc == SW_OK)
            rc = sw_local_u32(l, it, "targetPort", 65535, &to);
        if (rc != SW_OK)
            return rc;
        *out++ = (struct sw_port_pair){(uint16_t)from, (uint16_t)to};
    }
    return SW_OK;
}

int sw_local_ports(struct sw_local *l, const struct sw_yaml *node, const struct sw_port_pair **ret,
                   size_t *ret_n)
{
    const struct sw_yaml *list = sw_yaml_get(node, "ports");
    struct sw_port_pair *pairs;
    int rc;

    if (sw_yaml_is_null(node))
        return SW_OK;
    rc = sw_yaml_expect(node, SW_YAML_MAP, l->err);
    if (rc == SW_OK && list)
        rc = sw_yaml_expect(list, SW_YAML_SEQ, l->err);
    if (rc != SW_OK)
        return rc;
    *ret_n = list ? list->count : node->count;
    pairs = sw_arena_array(l->arena, *ret_n, sizeof(*pairs));
    *ret = pairs;
    return list ? port_list(l, list, pairs) : port_map(l, node, pairs);
}

/* ---- gateways ---- */

int sw_local_destination(struct sw_local *l, const struct sw_yaml *node,
                         struct sw_gateway_spec *ret)
{
    struct sw_slice rest = {0};
    struct sw_slice first;
    int rc = sw_yaml_text(node, &rest, l->err);

    if (rc != SW_OK)
        return rc;
    first = sw_slice_cut(&rest, '/');
    if (rest.n == 0)
        return sw_yaml_error(node, l->err, "'%.*s' is neither NETWORK/IP nor NAMESPACE/HOSTNAME",
                             (int)sw_min(first.n, 64), first.p);
    if (sw_ip_parse(rest, &ret->ip, NULL) == SW_OK) {
        ret->network = first;
        return SW_OK;
    }
    ret->by_hostname = true;
    ret->ns = first;
    ret->hostname = rest;
    return SW_OK;
}

int sw_local_gateway(struct sw_local *l, const struct sw_yaml *map, const char *key,
                     const struct sw_gateway_spec **ret)
{
    static const char *const known[] = {"destination", "hboneMtlsPort", NULL};
    const struct sw_yaml *node = sw_local_get(map, key);
    const struct sw_yaml *dest;
    struct sw_gateway_spec *g;
    uint32_t port = 15008;
    int rc;

    if (!node)
        return SW_OK;
    g = SW_ARENA_NEW(l->arena, struct sw_gateway_spec);
    rc = sw_yaml_expect(node, SW_YAML_MAP, l->err);
    if (rc == SW_OK)
        rc = sw_yaml_known_keys(node, known, l->err);
    if (rc == SW_OK)
        rc = sw_local_need(l, node, "destination", &dest);
    if (rc == SW_OK)
        rc = sw_local_destination(l, dest, g);
    if (rc == SW_OK)
        rc = sw_local_u32(l, node, "hboneMtlsPort", 65535, &port);
    if (rc != SW_OK)
        return rc;
    g->hbone_port = (uint16_t)port;
    *ret = g;
    return SW_OK;
}

/* ---- workloads ---- */

static int workload_ips(struct sw_local *l, const struct sw_yaml *node, struct sw_workload_spec *w)
{
    const struct sw_yaml *list;
    struct sw_ip *ips;
    int rc = sw_local_need(l, node, "workloadIps", &list);

    if (rc == SW_OK)
        rc = sw_yaml_expect(list, SW_YAML_SEQ, l->err);
    if (rc != SW_OK)
        return rc;
    ips = sw_arena_array(l->arena, list->count, sizeof(*ips));
    SW_YAML_FOREACH (it, list) {
        struct sw_slice text = {0};

        rc = sw_yaml_text(it, &text, l->err);
        if (rc != SW_OK)
            return rc;
        if (sw_ip_parse(text, &ips[w->n_ips++], NULL) != SW_OK)
            return sw_yaml_error(it, l->err, "'%.*s' is not an IP address", (int)sw_min(text.n, 64),
                                 text.p);
    }
    w->ips = ips;
    return SW_OK;
}

static int workload_services(struct sw_local *l, const struct sw_yaml *node,
                             struct sw_workload_spec *w)
{
    struct sw_membership_spec *list;
    const struct sw_yaml *map;
    int rc = sw_local_need(l, node, "services", &map);

    if (rc == SW_OK)
        rc = sw_yaml_expect(map, SW_YAML_MAP, l->err);
    if (rc != SW_OK)
        return rc;
    list = sw_arena_array(l->arena, map->count, sizeof(*list));
    SW_YAML_FOREACH (it, map) {
        struct sw_membership_spec *m = &list[w->n_services++];

        m->key = it->key->text;
        if (sw_slice_find(m->key, '/') < 0)
            return sw_yaml_error(it->key, l->err, "'%.*s' is not NAMESPACE/HOSTNAME",
                                 (int)sw_min(m->key.n, 64), m->key.p);
        rc = sw_local_ports(l, it, &m->ports, &m->n_ports);
        if (rc != SW_OK)
            return rc;
    }
    w->services = list;
    return SW_OK;
}

static int workload_tunnel(struct sw_local *l, const struct sw_yaml *node,
                           struct sw_workload_spec *w)
{
    static const char *const known[] = {"protocol", "port", NULL};
    static const char *const protocols[] = {"NONE", "PROXY", NULL};
    const struct sw_yaml *t = sw_local_get(node, "applicationTunnel");
    uint32_t port = 0;
    int rc;

    if (!t)
        return SW_OK;
    w->has_app_tunnel = true;
    rc = sw_yaml_expect(t, SW_YAML_MAP, l->err);
    if (rc == SW_OK)
        rc = sw_yaml_known_keys(t, known, l->err);
    if (rc == SW_OK)
        rc = sw_local_enum(l, t, "protocol", protocols, &w->app_tunnel);
    if (rc == SW_OK)
        rc = sw_local_u32(l, t, "port", 65535, &port);
    w->app_tunnel_port = (uint16_t)port;
    return rc;
}

static int workload_locality(struct sw_local *l, const struct sw_yaml *node,
                             struct sw_workload_spec *w)
{
    static const char *const known[] = {"region", "zone", "subzone", NULL};
    const struct sw_yaml *t = sw_local_get(node, "locality");
    int rc;

    if (!t)
        return SW_OK;
    rc = sw_yaml_expect(t, SW_YAML_MAP, l->err);
    if (rc == SW_OK)
        rc = sw_yaml_known_keys(t, known, l->err);
    if (rc == SW_OK)
        rc = sw_local_text(l, t, "region", &w->region);
    if (rc == SW_OK)
        rc = sw_local_text(l, t, "zone", &w->zone);
    if (rc == SW_OK)
        rc = sw_local_text(l, t, "subzone", &w->subzone);
    return rc;
}

static int workload_texts(struct sw_local *l, const struct sw_yaml *node,
                          struct sw_workload_spec *w)
{
    const struct {
        const char *key;
        struct sw_slice *to;
    } texts[] = {
        {"uid", &w->uid},
        {"name", &w->name},
        {"namespace", &w->ns},
        {"trustDomain", &w->trust_domain},
        {"serviceAccount", &w->service_account},
        {"network", &w->network},
        {"workloadName", &w->workload_name},
        {"canonicalName", &w->canonical_name},
        {"canonicalRevision", &w->canonical_revision},
        {"hostname", &w->hostname},
        {"node", &w->node},
        {"clusterId", &w->cluster_id},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(texts); i++) {
        int rc = sw_local_text(l, node, texts[i].key, texts[i].to);

        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

static int workload_choices(struct sw_local *l, const struct sw_yaml *node,
                            struct sw_workload_spec *w)
{
    static const char *const protocols[] = {"TCP", "HBONE", NULL};
    static const char *const modes[] = {"Standard", "HostNetwork", NULL};
    static const char *const types[] = {"deployment", "cronjob", "pod", "job", NULL};
    static const char *const states[] = {"Healthy", "Unhealthy", NULL};
    int mode = 0;
    int status = 0;
    int rc = sw_local_enum(l, node, "protocol", protocols, &w->protocol);

    if (rc == SW_OK)
        rc = sw_local_enum(l, node, "networkMode", modes, &mode);
    if (rc == SW_OK)
        rc = sw_local_enum(l, node, "workloadType", types, &w->type);
    if (rc == SW_OK)
        rc = sw_local_enum(l, node, "status", states, &status);
    if (rc == SW_OK)
        rc = sw_local_bool(l, node, "nativeTunnel", &w->native_tunnel);
    w->host_network = mode == 1;
    w->unhealthy = status == 1;
    w->has_capacity = true;
    w->capacity = 1;
    return rc == SW_OK ? sw_local_u32(l, node, "capacity", UINT32_MAX, &w->capacity) : rc;
}

/*
 * Everything is keyed by uid. A file may leave it out, and then it has to come out the same at
 * every reload, or open connections would lose their workload.
 */
static int workload_uid(struct sw_local *l, const struct sw_yaml *node, struct sw_workload_spec *w)
{
    char text[SW_IP_TEXT];

    if (w->uid.n == 0 && w->name.n)
        w->uid = sw_slice_str(sw_arena_printf(l->arena, "%.*s//Pod/%.*s/%.*s",
                                              SW_SLICE_ARG(w->cluster_id), SW_SLICE_ARG(w->ns),
                                              SW_SLICE_ARG(w->name)));
    else if (w->uid.n == 0 && w->n_ips)
        w->uid = sw_slice_str(sw_arena_printf(l->arena, "%.*s/%s", SW_SLICE_ARG(w->network),
                                              sw_ip_text(&w->ips[0], text)));
    if (w->uid.n == 0)
        return sw_yaml_error(node, l->err, "a workload needs a uid, a name or an address");
    if (sw_state_has_workload(l->b, w->uid))
        return sw_yaml_error(node, l->err, "a second workload with uid '%.*s'",
                             (int)sw_min(w->uid.n, 64), w->uid.p);
    return SW_OK;
}

static int read_workload(struct sw_local *l, const struct sw_yaml *node, struct sw_workload_spec *w)
{
    static int (*const parts[])(struct sw_local *, const struct sw_yaml *,
                                struct sw_workload_spec *) = {
        workload_texts,  workload_ips,      workload_services, workload_choices,
        workload_tunnel, workload_locality, workload_uid,
    };
    const struct sw_yaml *ns;
    int rc = sw_local_need(l, node, "namespace", &ns);

    for (size_t i = 0; rc == SW_OK && i < SW_ARRAY_LEN(parts); i++)
        rc = parts[i](l, node, w);
    if (rc == SW_OK)
        rc = sw_local_texts(l, node, "authorizationPolicies", &w->policies, &w->n_policies);
    if (rc == SW_OK)
        rc = sw_local_gateway(l, node, "waypoint", &w->waypoint);
    if (rc == SW_OK)
        rc = sw_local_gateway(l, node, "networkGateway", &w->network_gateway);
    return rc;
}

static int load_workload(struct sw_local *l, const struct sw_yaml *node)
{
    static const char *const known[] = {"workloadIps",
                                        "namespace",
                                        "services",
                                        "uid",
                                        "name",
                                        "protocol",
                                        "networkMode",
                                        "trustDomain",
                                        "serviceAccount",
                                        "network",
                                        "workloadName",
                                        "workloadType",
                                        "canonicalName",
                                        "canonicalRevision",
                                        "hostname",
                                        "node",
                                        "nativeTunnel",
                                        "applicationTunnel",
                                        "authorizationPolicies",
                                        "status",
                                        "clusterId",
                                        "locality",
                                        "capacity",
                                        "waypoint",
                                        "networkGateway",
                                        NULL};
    struct sw_workload_spec w = {0};
    struct sw_err why;
    int rc = sw_yaml_expect(node, SW_YAML_MAP, l->err);

    if (rc == SW_OK)
        rc = sw_yaml_known_keys(node, known, l->err);
    if (rc == SW_OK)
        rc = read_workload(l, node, &w);
    if (rc != SW_OK)
        return rc;
    if (sw_state_add_workload(l->b, &w, &why) != SW_OK)
        return sw_yaml_error(node, l->err, "%s", why.msg);
    return SW_OK;
}

/* ---- the file ---- */

static int load_list(struct sw_local *l, const struct sw_yaml *root, const char *key,
                     int (*load)(struct sw_local *, const struct sw_yaml *))
{
    const struct sw_yaml *list = sw_local_get(root, key);
    int rc;

    if (!list)
        return SW_OK;
    rc = sw_yaml_expect(list, SW_YAML_SEQ, l->err);
    if (rc != SW_OK)
        return rc;
    SW_YAML_FOREACH (it, list) {
        rc = load(l, it);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

static int load(struct sw_local *l, struct sw_slice text)
{
    static const char *const known[] = {"workloads", "services", "policies", NULL};
    static const struct sw_yaml_limits limits = {.local_tags = true};
    const struct sw_yaml *root;
    int rc = sw_yaml_parse_one(l->arena, text, &limits, &root, l->err);

    if (rc != SW_OK || sw_yaml_is_null(root))
        return rc;
    rc = sw_yaml_expect(root, SW_YAML_MAP, l->err);
    if (rc == SW_OK)
        rc = sw_yaml_known_keys(root, known, l->err);
    if (rc == SW_OK)
        rc = load_list(l, root, "workloads", load_workload);
    if (rc == SW_OK)
        rc = load_list(l, root, "services", sw_local_service);
    if (rc == SW_OK)
        rc = load_list(l, root, "policies", sw_local_policy);
    return rc;
}

/* Nothing is wrong with the file, but nobody will get through to these. */
static void warn_missing_policies(const struct sw_local *l, const struct sw_state *s)
{
    SW_AUTO_FREE const struct sw_workload **list = sw_state_list_workloads(s);

    for (size_t i = 0; i < sw_state_workload_count(s); i++) {
        struct sw_slice missing = sw_state_policies_for(s, list[i]).missing;

        if (missing.n)
            sw_local_warn(l, NULL,
                          "workload '%.*s' lists policy '%.*s', which is not known: all "
                          "connections to it are denied",
                          (int)sw_min(list[i]->uid_n, 96), sw_workload_uid(list[i]).p,
                          (int)sw_min(missing.n, 64), missing.p);
    }
}

int sw_localconfig_parse(const char *file, struct sw_slice text, struct sw_slice node,
                         sw_localconfig_warn_cb warn, void *warn_ctx, struct sw_state **ret,
                         struct sw_err *err)
{
    SW_ARENA_AUTO arena = {0};
    struct sw_err own;
    struct sw_local l = {.arena = &arena,
                         .b = sw_state_builder_new(node, false),
                         .file = file,
                         .warn = warn,
                         .warn_ctx = warn_ctx,
                         .err = err ? err : &own};
    struct sw_state *s;
    int rc = load(&l, text);

    if (rc != SW_OK) {
        sw_state_builder_free(l.b);
        (void)sw_err_prefix(l.err, "%s", file);
        return rc;
    }
    s = sw_state_finish(l.b);
    warn_missing_policies(&l, s);
    *ret = s;
    return SW_OK;
}
