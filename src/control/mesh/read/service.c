/* SPDX-License-Identifier: Apache-2.0 */
/* Services and ServiceEntries. */
#include <string.h>

#include <proto/workload.pb-c.h>

#include "base/hash.h"
#include "base/mem.h"
#include "control/mesh/names.h"
#include "control/mesh/read/distribution.h"
#include "control/mesh/read/ports.h"
#include "control/mesh/read/read.h"
#include "control/objects.h"
#include "kube/names.h"

enum { PORTS_BYTES = 16384, ENTRY_BYTES = 512 };

/* 'more' is about what ports, hosts and endpoints take: most services fit into one small piece. */
static struct mesh_svc *make(struct sw_mesh_index *ix, const struct mesh_meta *m, size_t more)
{
    struct mesh_svc *s = SW_NEW(struct mesh_svc);
    struct sw_slice managed = js_or(m->labels, MESH_MANAGED, "");
    struct sw_slice weight = js(m->annotations, MESH_CANARY_WEIGHT);

    sw_list_init(&s->in_ns);
    sw_list_init(&s->dirty);
    sw_arena_reserve(&s->arena, 192 + m->ns.n + m->name.n + more);
    s->key = sw_name_key(&s->arena, m->ns, m->name);
    s->name = sw_slice(s->key.p + m->ns.n + 1, m->name.n);
    s->created = sw_arena_slice(&s->arena, m->created);
    s->labels = mesh_labels(&ix->pool, m->labels, NULL);
    s->canary_weight = weight.p ? sw_arena_slice(&s->arena, weight) : weight;
    s->gateway_managed = sw_slice_eq_str(managed, "istio.io-mesh-controller") ||
                         sw_slice_eq_str(managed, "istio.io-eastwest-controller");
    s->distribution = mesh_distribution(js(m->annotations, MESH_DISTRIBUTION));
    return s;
}

/* What workloads take from the service besides its name: how its ports translate. */
static void set_shape(struct mesh_svc *s)
{
    uint64_t h = s->entry;

    for (size_t i = 0; i < s->n_ports; i++) {
        const struct mesh_port *p = &s->ports[i];
        const uint64_t parts[] = {h, (uint64_t)p->port << 16 | p->target,
                                  sw_hash(p->name.p, p->name.n),
                                  sw_hash(p->target_name.p, p->target_name.n)};

        h = sw_hash(parts, sizeof(parts));
    }
    s->shape = h;
}

static struct sw_slice keep(struct mesh_svc *s, const struct sw_json *v, const char *member)
{
    return sw_arena_slice(&s->arena, js_or(v, member, ""));
}

static size_t bounded(const struct sw_json *list, size_t most)
{
    return sw_json_is(list, SW_JSON_ARRAY) ? sw_min(sw_json_len(list), most) : 0;
}

static bool add_address(struct sw_slice text, struct sw_cidr *out, size_t *n)
{
    struct sw_err err;

    if (sw_cidr_parse(text, &out[*n], &err) != SW_OK)
        return false;
    (*n)++;
    return true;
}

/* ---- Services ---- */

/* Fills in the number, which a list has as 'key', and where it leads; the rest is the kind's. */
static void read_ports(struct mesh_svc *s, const struct sw_json *list, const char *key,
                       void (*read)(struct mesh_svc *s, const struct sw_json *v,
                                    struct mesh_port *p))
{
    size_t n = bounded(list, MESH_PORTS_MAX);

    s->ports = sw_arena_array(&s->arena, n + 1, sizeof(*s->ports));
    for (size_t i = 0; i < n; i++) {
        const struct sw_json *v = sw_json_at(list, i);
        struct mesh_port *p = &s->ports[s->n_ports];

        p->port = (uint16_t)js_int(v, key, UINT16_MAX, 0);
        if (!p->port)
            continue;
        s->n_ports++;
        p->name = keep(s, v, "name");
        p->target = (uint16_t)js_int(v, "targetPort", UINT16_MAX, 0);
        read(s, v, p);
        if (!p->target && !p->target_name.n)
            p->target = p->port;
    }
}

static void read_service_port(struct mesh_svc *s, const struct sw_json *v, struct mesh_port *p)
{
    p->target_name = keep(s, v, "targetPort");
    if (p->target_name.n)
        p->target = 0;
    p->app = mesh_port_app(v);
}

static void read_cluster_ips(struct mesh_svc *s, const struct sw_json *spec)
{
    const struct sw_json *list = sw_json_find(spec, "clusterIPs");
    size_t n = bounded(list, MESH_ADDRESSES_MAX);
    struct sw_cidr *out = sw_arena_array(&s->arena, n + 1, sizeof(*out));

    /* "None" and "" are no addresses either. */
    for (size_t i = 0; i < n; i++)
        (void)add_address(sw_json_str(sw_json_at(list, i)), out, &s->offers[0].n_addresses);
    if (!n)
        (void)add_address(js_or(spec, "clusterIP", ""), out, &s->offers[0].n_addresses);
    s->offers[0].addresses = out;
}

static uint8_t families_of(const struct sw_json *list)
{
    if (sw_json_len(list) >= 2)
        return SW__MESH_IPFAMILIES__DUAL;
    if (sw_json_str_eq(sw_json_at(list, 0), "IPv4"))
        return SW__MESH_IPFAMILIES__IPV4_ONLY;
    if (sw_json_str_eq(sw_json_at(list, 0), "IPv6"))
        return SW__MESH_IPFAMILIES__IPV6_ONLY;
    return SW__MESH_IPFAMILIES__AUTOMATIC;
}

struct mesh_svc *mesh_read_service(struct sw_mesh_index *ix, const struct sw_json *obj,
                                   const struct mesh_meta *m)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    enum mesh_distribution preset;
    struct mesh_svc *s;

    if (sw_slice_eq_str(js(spec, "type"), "ExternalName"))
        return NULL;
    s = make(ix, m, 192 + m->ns.n + m->name.n + 96 * sw_json_len(sw_json_find(spec, "ports")));
    preset = mesh_distribution(js(spec, "trafficDistribution"));
    if (preset == MESH_DISTRIBUTION_ZONE || preset == MESH_DISTRIBUTION_NODE)
        s->distribution = preset;
    s->n_offers = 1;
    s->offers = SW_ARENA_NEW(&s->arena, struct mesh_offer);
    s->offers[0].key = sw_slice_str(
        sw_arena_printf(&s->arena, "%.*s/%.*s.%.*s.svc.%.*s", SW_SLICE_ARG(m->ns),
                        SW_SLICE_ARG(m->name), SW_SLICE_ARG(m->ns), SW_SLICE_ARG(ix->conf.domain)));
    read_cluster_ips(s, spec);
    read_ports(s, sw_json_find(spec, "ports"), "port", read_service_port);
    s->selector = mesh_labels(&ix->pool, sw_json_find(spec, "selector"), NULL);
    s->families = families_of(sw_json_find(spec, "ipFamilies"));
    s->local_only = sw_slice_eq_str(js(spec, "internalTrafficPolicy"), "Local");
    s->publish_not_ready = sw_json_true(sw_json_find(spec, "publishNotReadyAddresses"));
    set_shape(s);
    return s;
}

/* ---- ServiceEntries ---- */

static enum mesh_resolution resolution_of(struct sw_slice s)
{
    if (sw_slice_eq_str(s, "STATIC"))
        return MESH_RESOLUTION_STATIC;
    if (sw_slice_eq_str(s, "DNS") || sw_slice_eq_str(s, "DNS_ROUND_ROBIN"))
        return MESH_RESOLUTION_DNS;
    return sw_slice_eq_str(s, "DYNAMIC_DNS") ? MESH_RESOLUTION_DYNAMIC : MESH_RESOLUTION_NONE;
}

static void read_entry_port(struct mesh_svc *s, const struct sw_json *v, struct mesh_port *p)
{
    p->app = mesh_protocol_app(js_or(v, "protocol", ""));
}

/* False when one of them is neither an address nor a block. */
static bool read_addresses(struct mesh_svc *s, const struct sw_json *list, struct sw_cidr **ret,
                           size_t *ret_n)
{
    size_t n = bounded(list, MESH_ADDRESSES_MAX);

    *ret = sw_arena_array(&s->arena, n + 1, sizeof(**ret));
    for (size_t i = 0; i < n; i++) {
        if (!add_address(sw_json_str(sw_json_at(list, i)), *ret, ret_n))
            return false;
    }
    return true;
}

static bool allocates(const struct mesh_svc *s)
{
    return s->resolution != MESH_RESOLUTION_NONE &&
           !sw_slice_eq_str(mesh_labels_get(s->labels, MESH_AUTOALLOCATE), "false");
}

/* Addresses that were given to a host by its status. */
static void read_allocated(struct mesh_svc *s, struct mesh_offer *o, struct sw_slice host,
                           const struct sw_json *status)
{
    const struct sw_json *list = sw_json_find(status, "addresses");
    size_t n = bounded(list, MESH_ADDRESSES_MAX);
    struct sw_cidr *out = sw_arena_array(&s->arena, n + 1, sizeof(*out));

    for (size_t i = 0; i < n; i++) {
        const struct sw_json *v = sw_json_at(list, i);

        if (sw_slice_eq(js_or(v, "host", ""), host))
            (void)add_address(js_or(v, "value", ""), out, &o->n_addresses);
    }
    o->addresses = out;
}

static bool has_offer(const struct mesh_svc *s, struct sw_slice key)
{
    for (size_t i = 0; i < s->n_offers; i++) {
        if (sw_slice_eq(s->offers[i].key, key))
            return true;
    }
    return false;
}

/* False when the addresses make no sense. */
static bool read_hosts(struct mesh_svc *s, const struct mesh_meta *m, const struct sw_json *obj)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *hosts = sw_json_find(spec, "hosts");
    size_t n = bounded(hosts, MESH_HOSTS_MAX);
    struct sw_cidr *fixed;
    size_t n_fixed = 0;

    if (!read_addresses(s, sw_json_find(spec, "addresses"), &fixed, &n_fixed))
        return false;
    s->offers = sw_arena_array(&s->arena, n + 1, sizeof(*s->offers));
    for (size_t i = 0; i < n; i++) {
        struct sw_slice host = sw_json_str(sw_json_at(hosts, i));
        struct mesh_offer *o = &s->offers[s->n_offers];
        struct sw_slice key;

        if (!mesh_read_is_name(host))
            continue;
        key = sw_name_key(&s->arena, m->ns, host);
        if (has_offer(s, key))
            continue;
        s->wildcard |= host.p[0] == '*';
        o->key = key;
        s->n_offers++;
        if (n_fixed) {
            o->addresses = fixed;
            o->n_addresses = n_fixed;
        } else if (allocates(s)) {
            read_allocated(s, o, host, sw_json_find(obj, "status"));
        }
    }
    return true;
}

static void read_endpoints(struct sw_mesh_index *ix, struct mesh_svc *s, const struct sw_json *list)
{
    size_t n = bounded(list, MESH_ENDPOINTS_MAX);

    s->endpoints = sw_arena_array(&s->arena, n + 1, sizeof(*s->endpoints));
    for (size_t i = 0; i < n; i++) {
        const struct sw_json *v = sw_json_at(list, i);
        struct mesh_endpoint *e = &s->endpoints[s->n_endpoints];
        SW_BUF_AUTO b = {.max = PORTS_BYTES};
        struct sw_err err;

        e->address = keep(s, v, "address");
        if (!mesh_read_is_name(e->address) ||
            sw_slice_has_prefix(e->address, SW_SLICE_LIT("unix:")))
            continue;
        s->n_endpoints++;
        if (sw_ip_parse(e->address, &e->ip, &err) != SW_OK)
            e->ip = (struct sw_ip){0};
        e->labels = mesh_labels(&ix->pool, sw_json_find(v, "labels"), NULL);
        e->network = keep(s, v, "network");
        e->account = keep(s, v, "serviceAccount");
        e->locality = mesh_read_locality(keep(s, v, "locality"));
        e->weight = (uint32_t)js_int(v, "weight", UINT32_MAX, 0);
        mesh_ports_add_map(&b, sw_json_find(v, "ports"));
        e->ports = mesh_text(&ix->pool, sw_buf_slice(&b));
    }
}

static void read_sans(struct mesh_svc *s, const struct sw_json *list)
{
    size_t n = bounded(list, MESH_ADDRESSES_MAX);
    struct sw_slice *out = sw_arena_array(&s->arena, n + 1, sizeof(*out));

    for (size_t i = 0; i < n; i++) {
        struct sw_slice san = sw_json_str(sw_json_at(list, i));

        if (san.n)
            out[s->n_sans++] = sw_arena_slice(&s->arena, san);
    }
    s->sans = out;
}

/* Each endpoint has a resource, which repeats all ports under every host. */
static bool multiplies(const struct mesh_svc *s)
{
    return s->n_offers * sw_max(s->n_endpoints, 1) * sw_max(s->n_ports, 1) > MESH_TERMS_MAX;
}

struct mesh_svc *mesh_read_service_entry(struct sw_mesh_index *ix, const struct sw_json *obj,
                                         const struct mesh_meta *m, const char **ret_why)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    struct mesh_svc *s;

    s = make(ix, m, ENTRY_BYTES);
    s->entry = true;
    s->resolution = resolution_of(js_or(spec, "resolution", ""));
    s->native = mesh_read_has_word(mesh_labels_get(s->labels, MESH_TUNNEL), "http");
    s->hbone = s->native || sw_slice_eq_str(js(m->annotations, MESH_REDIRECTION), "enabled");
    s->racing =
        sw_slice_eq_str(js(m->annotations, MESH_CONNECT_STRATEGY), "RACE_FIRST_TCP_CONNECT");
    read_ports(s, sw_json_find(spec, "ports"), "number", read_entry_port);
    read_endpoints(ix, s, sw_json_find(spec, "endpoints"));
    read_sans(s, sw_json_find(spec, "subjectAltNames"));
    s->selector =
        mesh_labels(&ix->pool, sw_json_walk(spec, "workloadSelector", "labels", NULL), NULL);
    if (!read_hosts(s, m, obj)) {
        *ret_why = "spec.addresses has something that is no address and no block of addresses";
        mesh_svc_free(ix, s);
        return NULL;
    }
    if (multiplies(s)) {
        *ret_why = "hosts times endpoints times ports are more than 262144";
        mesh_svc_free(ix, s);
        return NULL;
    }
    set_shape(s);
    return s;
}

void mesh_svc_free(struct sw_mesh_index *ix, struct mesh_svc *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_endpoints; i++) {
        mesh_text_drop(&ix->pool, &s->endpoints[i].labels);
        mesh_text_drop(&ix->pool, &s->endpoints[i].ports);
    }
    mesh_text_drop(&ix->pool, &s->labels);
    mesh_text_drop(&ix->pool, &s->selector);
    sw_vec_done(&s->outs);
    sw_arena_clear(&s->arena);
    sw_free(s);
}
