/* SPDX-License-Identifier: Apache-2.0 */
/* The local file: its top level, workloads, and the readers all parts use. */
#include "node/local/localconfig.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "node/local/localconfig_int.h"
#include "node/route.h"

/* ---- readers ---- */

void sw_local_warn(const struct sw_local *l, const struct sw_yaml *at, const char *fmt, ...)
{
    char what[256];
    char line[512];
    va_list ap;

    if (!l->config->warn)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    if (at)
        (void)snprintf(line, sizeof(line), "%s: line %u column %u: %s", l->config->file, at->line,
                       at->column, what);
    else
        (void)snprintf(line, sizeof(line), "%s: %s", l->config->file, what);
    l->config->warn(l->config->warn_ctx, line);
}

/* The value, or NULL when the key is absent or null. */
static const struct sw_yaml *get(const struct sw_yaml *map, const char *key)
{
    const struct sw_yaml *v = sw_yaml_get(map, key);

    return v && !sw_yaml_is_null(v) ? v : NULL;
}

int sw_local_known(const struct sw_yaml *map, const struct sw_local_field *fields, size_t n,
                   struct sw_err *err)
{
    const char *known[SW_LOCAL_FIELDS_MAX] = {NULL};

    assert(n < SW_LOCAL_FIELDS_MAX);
    for (size_t i = 0; i < n; i++)
        known[i] = fields[i].key;
    return sw_yaml_known_keys(map, known, err);
}

int sw_local_members(struct sw_local *l, const struct sw_yaml *map,
                     const struct sw_local_field *fields, size_t n, void *to)
{
    for (size_t i = 0; i < n; i++) {
        const struct sw_local_field *f = &fields[i];
        const struct sw_yaml *v = get(map, f->key);
        int rc = SW_OK;

        if (v && f->read)
            rc = f->read(l, v, f, to);
        else if (!v && f->needed)
            rc = sw_yaml_error(map, l->err, "missing key '%s'", f->key);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

int sw_local_map(struct sw_local *l, const struct sw_yaml *map, const struct sw_local_field *fields,
                 size_t n, void *to)
{
    int rc = sw_yaml_expect(map, SW_YAML_MAP, l->err);

    if (rc == SW_OK)
        rc = sw_local_known(map, fields, n, l->err);
    return rc == SW_OK ? sw_local_members(l, map, fields, n, to) : rc;
}

static void *place(const struct sw_local_field *f, void *to)
{
    return (char *)to + f->at;
}

int sw_local_text(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                  void *to)
{
    return sw_yaml_text(v, place(f, to), l->err);
}

int sw_local_bool(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                  void *to)
{
    return sw_yaml_bool(v, place(f, to), l->err);
}

int sw_local_enum(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                  void *to)
{
    return sw_yaml_enum(v, f->names, place(f, to), l->err);
}

int sw_local_flag(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                  void *to)
{
    int index = 0;
    int rc = sw_yaml_enum(v, f->names, &index, l->err);

    *(bool *)place(f, to) = index == 1;
    return rc;
}

int sw_local_u32(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                 void *to)
{
    int64_t n = 0;
    int rc = sw_yaml_int(v, 0, UINT32_MAX, &n, l->err);

    *(uint32_t *)place(f, to) = (uint32_t)n;
    return rc;
}

static int read_port(struct sw_local *l, const struct sw_yaml *v, uint16_t *ret)
{
    int64_t n = 0;
    int rc = sw_yaml_int(v, 0, 65535, &n, l->err);

    *ret = (uint16_t)n;
    return rc;
}

int sw_local_port(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                  void *to)
{
    return read_port(l, v, place(f, to));
}

static void set_list(const struct sw_local_field *f, void *to, const void *p, size_t n)
{
    memcpy(place(f, to), &p, sizeof(p));
    *(size_t *)((char *)to + f->n_at) = n;
}

int sw_local_list(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                  void *to)
{
    int rc = sw_yaml_expect(v, SW_YAML_SEQ, l->err);
    char *p = rc == SW_OK ? sw_arena_array(l->arena, v->count, f->size) : NULL;
    size_t n = 0;

    if (rc != SW_OK)
        return rc;
    SW_YAML_FOREACH (it, v) {
        rc = f->item(l, it, p + f->size * n++);
        if (rc != SW_OK)
            return rc;
    }
    set_list(f, to, p, n);
    return SW_OK;
}

int sw_local_item_text(struct sw_local *l, const struct sw_yaml *v, void *item)
{
    return sw_yaml_text(v, item, l->err);
}

int sw_local_cidr(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                  void *to)
{
    struct sw_slice text = {0};
    int rc = sw_yaml_text(v, &text, l->err);

    if (rc != SW_OK)
        return rc;
    /* Dropping a bad block, as one might, would widen what a policy matches. */
    if (sw_cidr_parse(text, place(f, to), NULL) != SW_OK)
        return sw_yaml_error(v, l->err, "'%.*s' is not an address block",
                             SW_SLICE_ARG_MAX(text, 64));
    return SW_OK;
}

/* ---- ports ---- */

static int port_map(struct sw_local *l, const struct sw_yaml *node, struct sw_port_pair *out)
{
    SW_YAML_FOREACH (it, node) {
        struct sw_yaml key = *it->key;
        int rc;

        key.plain = true; /* JSON writes keys in quotes */
        rc = read_port(l, &key, &out->service_port);
        if (rc == SW_OK)
            rc = read_port(l, it, &out->target_port);
        if (rc != SW_OK)
            return rc;
        out++;
    }
    return SW_OK;
}

static int port_list(struct sw_local *l, const struct sw_yaml *list, struct sw_port_pair *out)
{
    static const struct sw_local_field fields[] = {
        {"servicePort", sw_local_port, .at = offsetof(struct sw_port_pair, service_port)},
        {"targetPort", sw_local_port, .at = offsetof(struct sw_port_pair, target_port)},
        {.key = "appProtocol"},
    };

    SW_YAML_FOREACH (it, list) {
        int rc = sw_local_map(l, it, fields, SW_ARRAY_LEN(fields), out++);

        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

int sw_local_ports(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                   void *to)
{
    const struct sw_yaml *list = sw_yaml_get(v, "ports");
    size_t n = list ? list->count : v->count;
    struct sw_port_pair *pairs;
    int rc = sw_yaml_expect(v, SW_YAML_MAP, l->err);

    if (rc == SW_OK && list)
        rc = sw_yaml_expect(list, SW_YAML_SEQ, l->err);
    if (rc != SW_OK)
        return rc;
    pairs = sw_arena_array(l->arena, n, sizeof(*pairs));
    set_list(f, to, pairs, n);
    return list ? port_list(l, list, pairs) : port_map(l, v, pairs);
}

/* ---- gateways ---- */

int sw_local_destination(struct sw_local *l, const struct sw_yaml *v,
                         const struct sw_local_field *f, void *to)
{
    struct sw_gateway_addr *ret = place(f, to);
    struct sw_slice rest = {0};
    struct sw_slice first;
    int rc = sw_yaml_text(v, &rest, l->err);

    if (rc != SW_OK)
        return rc;
    first = sw_slice_cut(&rest, '/');
    if (rest.n == 0)
        return sw_yaml_error(v, l->err, "'%.*s' is neither NETWORK/IP nor NAMESPACE/HOSTNAME",
                             SW_SLICE_ARG_MAX(first, 64));
    if (sw_ip_parse(rest, &ret->ip, NULL) == SW_OK) {
        ret->network = first;
        return SW_OK;
    }
    ret->by_hostname = true;
    ret->ns = first;
    ret->hostname = rest;
    return SW_OK;
}

int sw_local_gateway(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                     void *to)
{
    static const struct sw_local_field fields[] = {
        {"destination", sw_local_destination, .needed = true},
        {"hboneMtlsPort", sw_local_port, .at = offsetof(struct sw_gateway_addr, hbone_port)},
    };
    struct sw_gateway_addr *g = SW_ARENA_NEW(l->arena, struct sw_gateway_addr);

    g->hbone_port = SW_PORT_HBONE;
    memcpy(place(f, to), &g, sizeof(g));
    return sw_local_map(l, v, fields, SW_ARRAY_LEN(fields), g);
}

/* ---- workloads ---- */

#define AT(field) .at = offsetof(struct sw_workload_spec, field)
#define LIST(field, read)                                                                          \
    AT(field), .n_at = offsetof(struct sw_workload_spec, n_##field), .item = (read),               \
               .size = sizeof(*((struct sw_workload_spec *)NULL)->field)

static int read_ip(struct sw_local *l, const struct sw_yaml *v, void *item)
{
    struct sw_slice text = {0};
    int rc = sw_yaml_text(v, &text, l->err);

    if (rc == SW_OK && sw_ip_parse(text, item, NULL) != SW_OK)
        return sw_yaml_error(v, l->err, "'%.*s' is not an IP address", SW_SLICE_ARG_MAX(text, 64));
    return rc;
}

/* {NAMESPACE/HOSTNAME: ports} */
static int read_services(struct sw_local *l, const struct sw_yaml *map,
                         const struct sw_local_field *f, void *to)
{
    static const struct sw_local_field ports = {.at = offsetof(struct sw_membership_spec, ports),
                                                .n_at =
                                                    offsetof(struct sw_membership_spec, n_ports)};
    struct sw_workload_spec *w = to;
    struct sw_membership_spec *list;
    int rc = sw_yaml_expect(map, SW_YAML_MAP, l->err);

    if (rc != SW_OK)
        return rc;
    list = sw_arena_array(l->arena, map->count, sizeof(*list));
    SW_YAML_FOREACH (it, map) {
        struct sw_membership_spec *m = &list[w->n_services++];

        m->key = it->key->text;
        if (sw_slice_find(m->key, '/') < 0)
            return sw_yaml_error(it->key, l->err, "'%.*s' is not NAMESPACE/HOSTNAME",
                                 SW_SLICE_ARG_MAX(m->key, 64));
        rc = sw_yaml_is_null(it) ? SW_OK : sw_local_ports(l, it, &ports, m);
        if (rc != SW_OK)
            return rc;
    }
    w->services = list;
    return SW_OK;
}

static int read_tunnel(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                       void *to)
{
    static const char *const protocols[] = {"NONE", "PROXY", NULL};
    static const struct sw_local_field fields[] = {
        {"protocol", sw_local_enum, AT(app_tunnel), .names = protocols},
        {"port", sw_local_port, AT(app_tunnel_port)},
    };
    struct sw_workload_spec *w = to;

    w->has_app_tunnel = true;
    return sw_local_map(l, v, fields, SW_ARRAY_LEN(fields), w);
}

static int read_locality(struct sw_local *l, const struct sw_yaml *v,
                         const struct sw_local_field *f, void *to)
{
    static const struct sw_local_field fields[] = {
        {"region", sw_local_text, AT(region)},
        {"zone", sw_local_text, AT(zone)},
        {"subzone", sw_local_text, AT(subzone)},
    };

    return sw_local_map(l, v, fields, SW_ARRAY_LEN(fields), to);
}

static const char *const protocols[] = {"TCP", "HBONE", NULL};
static const char *const network_modes[] = {"Standard", "HostNetwork", NULL};
static const char *const workload_types[] = {"deployment", "cronjob", "pod", "job", NULL};
static const char *const health[] = {"Healthy", "Unhealthy", NULL};

static const struct sw_local_field workload_fields[] = {
    {"namespace", sw_local_text, AT(ns), .needed = true},
    {"uid", sw_local_text, AT(uid)},
    {"name", sw_local_text, AT(name)},
    {"trustDomain", sw_local_text, AT(trust_domain)},
    {"serviceAccount", sw_local_text, AT(service_account)},
    {"network", sw_local_text, AT(network)},
    {"workloadName", sw_local_text, AT(workload_name)},
    {"canonicalName", sw_local_text, AT(canonical_name)},
    {"canonicalRevision", sw_local_text, AT(canonical_revision)},
    {"hostname", sw_local_text, AT(hostname)},
    {"node", sw_local_text, AT(node)},
    {"clusterId", sw_local_text, AT(cluster_id)},
    {"workloadIps", sw_local_list, LIST(ips, read_ip), .needed = true},
    {"services", read_services, .needed = true},
    {"protocol", sw_local_enum, AT(protocol), .names = protocols},
    {"networkMode", sw_local_flag, AT(host_network), .names = network_modes},
    {"workloadType", sw_local_enum, AT(type), .names = workload_types},
    {"status", sw_local_flag, AT(unhealthy), .names = health},
    {"nativeTunnel", sw_local_bool, AT(native_tunnel)},
    {"capacity", sw_local_u32, AT(capacity)},
    {"applicationTunnel", .read = read_tunnel},
    {"locality", .read = read_locality},
    {"authorizationPolicies", sw_local_list, LIST(policies, sw_local_item_text)},
    {"waypoint", sw_local_gateway, AT(waypoint)},
    {"networkGateway", sw_local_gateway, AT(network_gateway)},
};

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
                             SW_SLICE_ARG_MAX(w->uid, 64));
    return SW_OK;
}

static int load_workload(struct sw_local *l, const struct sw_yaml *node)
{
    struct sw_workload_spec w = {.has_capacity = true, .capacity = 1};
    struct sw_err why;
    int rc = sw_local_map(l, node, workload_fields, SW_ARRAY_LEN(workload_fields), &w);

    if (rc == SW_OK)
        rc = workload_uid(l, node, &w);
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
    const struct sw_yaml *list = get(root, key);
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

/* The file is valid, but connections to these will be refused. */
static void warn_missing_policies(const struct sw_local *l, const struct sw_state *s)
{
    SW_AUTO_FREE const struct sw_workload **list = sw_state_list_workloads(s);

    for (size_t i = 0; i < sw_state_workload_count(s); i++) {
        struct sw_slice missing = sw_state_policies_for(s, list[i]).missing;

        if (missing.n)
            sw_local_warn(l, NULL,
                          "workload '%.*s%.*s' lists policy '%.*s', which is not known: all "
                          "connections to it are denied",
                          SW_SLICE_ARG_MAX(list[i]->c->uid_head, 96),
                          SW_SLICE_ARG(sw_slice_head(sw_workload_uid_tail(list[i]), 96)),
                          SW_SLICE_ARG_MAX(missing, 64));
    }
}

int sw_localconfig_parse(const struct sw_localconfig *c, struct sw_state **ret, struct sw_err *err)
{
    SW_ARENA_AUTO arena = {0};
    struct sw_err own;
    struct sw_local l = {.arena = &arena,
                         .b = sw_state_builder_new(c->node, false),
                         .config = c,
                         .err = err ? err : &own};
    struct sw_state *s;
    int rc = load(&l, c->text);

    if (rc != SW_OK) {
        sw_state_builder_free(l.b);
        (void)sw_err_prefix(l.err, "%s", c->file);
        return rc;
    }
    s = sw_state_finish(l.b);
    warn_missing_policies(&l, s);
    *ret = s;
    return SW_OK;
}
