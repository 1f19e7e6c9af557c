/* SPDX-License-Identifier: Apache-2.0 */
/* Workloads and services as the control plane sends them. */
#include "base/utf8.h"
#include "node/mesh/mesh.h"
#include "proto/pb.h"

#include <proto/workload.pb-c.h>

struct reader {
    struct sw_arena *a;
    struct sw_err *err;
};

/* ---- pieces ---- */

static int check_texts(const struct reader *r, const struct sw_slice *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!sw_utf8_valid(texts[i]))
            return sw_err_set(r->err, SW_EPROTO, "a string is not UTF-8");
    }
    return SW_OK;
}

static int read_port(const struct reader *r, uint32_t in, const char *what, uint16_t *ret)
{
    if (in > UINT16_MAX)
        return sw_err_set(r->err, SW_EINVAL, "%s %u is out of range", what, in);
    *ret = (uint16_t)in;
    return SW_OK;
}

static int read_ports(const struct reader *r, Sw__MeshPort *const *in, size_t n,
                      const struct sw_port_pair **ret)
{
    struct sw_port_pair *to = sw_arena_array(r->a, n, sizeof(*to));

    for (size_t i = 0; i < n; i++) {
        int rc = read_port(r, in[i]->service_port, "service port", &to[i].service_port);

        if (rc == SW_OK)
            rc = read_port(r, in[i]->target_port, "target port", &to[i].target_port);
        if (rc != SW_OK)
            return rc;
        if ((unsigned)in[i]->app_protocol > SW__MESH_PORT__APP_PROTOCOL__TLS)
            return sw_err_set(r->err, SW_EINVAL, "unknown application protocol %d",
                              (int)in[i]->app_protocol);
    }
    *ret = to;
    return SW_OK;
}

static int read_ip(const struct reader *r, ProtobufCBinaryData in, struct sw_ip *ret)
{
    if (sw_ip_from_bytes(in.data, in.len, ret, NULL) != SW_OK)
        return sw_err_set(r->err, SW_EINVAL, "an address has %zu bytes", in.len);
    return SW_OK;
}

/* NULL stays NULL: there is no such gateway. */
static int read_gateway(const struct reader *r, const Sw__MeshGatewayAddress *in, const char *what,
                        const struct sw_gateway_addr **ret)
{
    struct sw_gateway_addr *g;
    int rc;

    if (!in)
        return SW_OK;
    g = SW_ARENA_NEW(r->a, struct sw_gateway_addr);
    rc = read_port(r, in->hbone_mtls_port, "port of the gateway", &g->hbone_port);
    if (rc != SW_OK)
        return rc;
    switch ((int)in->destination_case) {
    case SW__MESH_GATEWAY_ADDRESS__DESTINATION_HOSTNAME:
        g->by_hostname = true;
        g->ns = SW_PB_SLICE(in->hostname->namespace_);
        g->hostname = SW_PB_SLICE(in->hostname->hostname);
        break;
    case SW__MESH_GATEWAY_ADDRESS__DESTINATION_ADDRESS:
        g->network = SW_PB_SLICE(in->address->network);
        rc = read_ip(r, in->address->address, &g->ip);
        break;
    case SW__MESH_GATEWAY_ADDRESS__DESTINATION__NOT_SET:
    default:
        return sw_err_set(r->err, SW_EINVAL, "%s has no destination", what);
    }
    *ret = g;
    return rc == SW_OK ? check_texts(r, (struct sw_slice[]){g->ns, g->hostname, g->network}, 3)
                       : rc;
}

static const struct sw_slice *read_texts(const struct reader *r, const ProtobufCBinaryData *in,
                                         size_t n)
{
    struct sw_slice *to = sw_arena_array(r->a, n, sizeof(*to));

    for (size_t i = 0; i < n; i++)
        to[i] = SW_PB_SLICE(in[i]);
    return to;
}

/* ---- workloads ---- */

static int workload_services(const struct reader *r, const Sw__MeshWorkload *in,
                             struct sw_workload_spec *w)
{
    struct sw_membership_spec *to = sw_arena_array(r->a, in->n_services, sizeof(*to));

    for (size_t i = 0; i < in->n_services; i++) {
        const Sw__MeshPortList *ports = in->services[i]->value;
        int rc;

        to[i].key = SW_PB_SLICE(in->services[i]->key);
        rc = check_texts(r, &to[i].key, 1);
        if (rc == SW_OK && ports) {
            to[i].n_ports = ports->n_ports;
            rc = read_ports(r, ports->ports, ports->n_ports, &to[i].ports);
        }
        if (rc != SW_OK)
            return rc;
    }
    w->services = to;
    w->n_services = in->n_services;
    return SW_OK;
}

static int workload_enums(const struct reader *r, const Sw__MeshWorkload *in,
                          struct sw_workload_spec *w)
{
    if ((unsigned)in->status > SW__MESH_WORKLOAD__STATUS__UNHEALTHY)
        return sw_err_set(r->err, SW_EINVAL, "unknown status %d", (int)in->status);
    if ((unsigned)in->network_mode > SW__MESH_WORKLOAD__NETWORK_MODE__HOST_NETWORK)
        return sw_err_set(r->err, SW_EINVAL, "unknown network mode %d", (int)in->network_mode);
    w->protocol = (int)in->tunnel_protocol; /* these two are checked by the builder */
    w->type = (int)in->workload_type;
    w->unhealthy = in->status == SW__MESH_WORKLOAD__STATUS__UNHEALTHY;
    w->host_network = in->network_mode == SW__MESH_WORKLOAD__NETWORK_MODE__HOST_NETWORK;
    if (!in->application_tunnel)
        return SW_OK;
    w->has_app_tunnel = true;
    w->app_tunnel = (int)in->application_tunnel->protocol;
    return read_port(r, in->application_tunnel->port, "port of the application tunnel",
                     &w->app_tunnel_port);
}

static int workload_addresses(const struct reader *r, const Sw__MeshWorkload *in,
                              struct sw_workload_spec *w)
{
    struct sw_ip *ips = sw_arena_array(r->a, in->n_addresses, sizeof(*ips));

    for (size_t i = 0; i < in->n_addresses; i++) {
        int rc = read_ip(r, in->addresses[i], &ips[i]);

        if (rc != SW_OK)
            return rc;
    }
    w->ips = ips;
    w->n_ips = in->n_addresses;
    return SW_OK;
}

static void workload_texts(const Sw__MeshWorkload *in, struct sw_workload_spec *w)
{
    w->name = SW_PB_SLICE(in->name);
    w->ns = SW_PB_SLICE(in->namespace_);
    w->network = SW_PB_SLICE(in->network);
    w->trust_domain = SW_PB_SLICE(in->trust_domain);
    w->service_account = SW_PB_SLICE(in->service_account);
    w->node = SW_PB_SLICE(in->node);
    w->canonical_name = SW_PB_SLICE(in->canonical_name);
    w->canonical_revision = SW_PB_SLICE(in->canonical_revision);
    w->workload_name = SW_PB_SLICE(in->workload_name);
    w->cluster_id = SW_PB_SLICE(in->cluster_id);
    w->hostname = SW_PB_SLICE(in->hostname);
    if (in->locality) {
        w->region = SW_PB_SLICE(in->locality->region);
        w->zone = SW_PB_SLICE(in->locality->zone);
        w->subzone = SW_PB_SLICE(in->locality->subzone);
    }
}

static int read_workload(const struct reader *r, const Sw__MeshWorkload *in,
                         struct sw_workload_spec *w)
{
    int rc;

    workload_texts(in, w);
    rc = check_texts(r,
                     (struct sw_slice[]){w->uid, w->name, w->ns, w->network, w->trust_domain,
                                         w->service_account, w->node, w->canonical_name,
                                         w->canonical_revision, w->workload_name, w->cluster_id,
                                         w->hostname, w->region, w->zone, w->subzone},
                     15);
    w->native_tunnel = in->native_tunnel;
    w->has_capacity = in->capacity != NULL;
    w->capacity = in->capacity ? in->capacity->value : 0;
    w->policies = read_texts(r, in->authorization_policies, in->n_authorization_policies);
    w->n_policies = in->n_authorization_policies;
    if (rc == SW_OK)
        rc = check_texts(r, w->policies, w->n_policies);
    if (rc == SW_OK)
        rc = workload_enums(r, in, w);
    if (rc == SW_OK)
        rc = workload_addresses(r, in, w);
    if (rc == SW_OK)
        rc = workload_services(r, in, w);
    if (rc == SW_OK)
        rc = read_gateway(r, in->waypoint, "waypoint", &w->waypoint);
    if (rc == SW_OK)
        rc = read_gateway(r, in->network_gateway, "network gateway", &w->network_gateway);
    return rc;
}

/* ---- services ---- */

/* A length that is given and not the whole address makes it a block. */
static int service_addresses(const struct reader *r, const Sw__MeshService *in,
                             struct sw_service_spec *s)
{
    struct sw_network_addr *vips = sw_arena_array(r->a, in->n_addresses, sizeof(*vips));
    struct sw_network_cidr *cidrs = sw_arena_array(r->a, in->n_addresses, sizeof(*cidrs));

    for (size_t i = 0; i < in->n_addresses; i++) {
        const Sw__MeshNetworkAddress *from = in->addresses[i];
        struct sw_slice network = SW_PB_SLICE(from->network);
        size_t full = from->address.len * 8;
        struct sw_ip ip;
        int rc = read_ip(r, from->address, &ip);

        if (rc == SW_OK)
            rc = check_texts(r, &network, 1);
        if (rc != SW_OK)
            return rc;
        if (from->length_present_case != SW__MESH_NETWORK_ADDRESS__LENGTH_PRESENT_LENGTH ||
            from->length == full) {
            vips[s->n_vips++] = (struct sw_network_addr){network, ip};
            continue;
        }
        /* IPv4 written as IPv6 has lost its first 96 bits. */
        full -= sw_ip_len(&ip) * 8;
        if (from->length > from->address.len * 8 || from->length < full)
            return sw_err_set(r->err, SW_EINVAL, "prefix length %u does not fit its address",
                              from->length);
        cidrs[s->n_cidr_vips++] =
            (struct sw_network_cidr){network, {.ip = ip, .len = (uint8_t)(from->length - full)}};
    }
    s->vips = vips;
    s->cidr_vips = cidrs;
    return SW_OK;
}

static int service_waypoints(const struct reader *r, const Sw__MeshService *in,
                             struct sw_service_spec *s)
{
    struct sw_weighted_waypoint *to = sw_arena_array(r->a, in->n_weighted_waypoints, sizeof(*to));
    int rc = read_gateway(r, in->waypoint, "waypoint", &s->waypoint);

    for (size_t i = 0; rc == SW_OK && i < in->n_weighted_waypoints; i++) {
        const Sw__MeshWeightedWaypoint *from = in->weighted_waypoints[i];
        const struct sw_gateway_addr *g = NULL;

        rc = read_gateway(r, from->destination, "weighted waypoint", &g);
        if (rc == SW_OK && !g)
            rc = sw_err_set(r->err, SW_EINVAL, "weighted waypoint has no destination");
        if (rc == SW_OK)
            to[i] = (struct sw_weighted_waypoint){*g, from->weight};
    }
    s->weighted = to;
    s->n_weighted = in->n_weighted_waypoints;
    return rc;
}

static void service_balancer(const struct reader *r, const Sw__MeshLoadBalancing *in,
                             struct sw_service_spec *s)
{
    int *prefs;

    if (!in)
        return;
    prefs = sw_arena_array(r->a, in->n_routing_preference, sizeof(*prefs));
    for (size_t i = 0; i < in->n_routing_preference; i++)
        prefs[i] = (int)in->routing_preference[i];
    s->prefs = prefs;
    s->n_prefs = in->n_routing_preference;
    s->mode = (int)in->mode; /* the numbers are the same, and checked by the builder */
    s->health_policy = (int)in->health_policy;
}

static int read_service(const struct reader *r, const Sw__MeshService *in,
                        struct sw_service_spec *s)
{
    int rc;

    s->name = SW_PB_SLICE(in->name);
    s->ns = SW_PB_SLICE(in->namespace_);
    s->hostname = SW_PB_SLICE(in->hostname);
    s->sans = read_texts(r, in->subject_alt_names, in->n_subject_alt_names);
    s->n_sans = in->n_subject_alt_names;
    s->families = (int)in->ip_families;
    s->canonical = in->canonical;
    s->namespace_only = in->visibility == SW__MESH_SERVICE__VISIBILITY__NAMESPACE;
    s->n_ports = in->n_ports;
    service_balancer(r, in->load_balancing, s);
    rc = check_texts(r, (struct sw_slice[]){s->name, s->ns, s->hostname}, 3);
    if (rc == SW_OK)
        rc = check_texts(r, s->sans, s->n_sans);
    if (rc == SW_OK)
        rc = read_ports(r, in->ports, in->n_ports, &s->ports);
    if (rc == SW_OK)
        rc = service_addresses(r, in, s);
    return rc == SW_OK ? service_waypoints(r, in, s) : rc;
}

/* ---- resources ---- */

static int check_name(struct sw_slice own, struct sw_slice name, struct sw_err *err)
{
    if (sw_slice_eq(own, name))
        return SW_OK;
    return sw_err_set(err, SW_EINVAL, "it calls itself '%.*s'", (int)sw_min(own.n, 96), own.p);
}

static int put_workload(const struct reader *r, struct sw_state_builder *b,
                        const Sw__MeshWorkload *in, const struct sw_mesh_item *it)
{
    struct sw_workload_spec w = {.uid = SW_PB_SLICE(in->uid), .version = it->version};
    int rc = check_name(w.uid, it->name, r->err);

    if (rc == SW_OK)
        rc = read_workload(r, in, &w);
    return rc == SW_OK ? sw_state_add_workload(b, &w, r->err) : rc;
}

static int put_service(const struct reader *r, struct sw_state_builder *b,
                       const Sw__MeshService *in, const struct sw_mesh_item *it)
{
    struct sw_service_spec s = {.version = it->version};
    int rc = read_service(r, in, &s);

    if (rc == SW_OK)
        rc = check_name(sw_slice_str(sw_arena_printf(r->a, "%.*s/%.*s", SW_SLICE_ARG(s.ns),
                                                     SW_SLICE_ARG(s.hostname))),
                        it->name, r->err);
    return rc == SW_OK ? sw_state_add_service(b, &s, r->err) : rc;
}

int sw_mesh_put_address(struct sw_state_builder *b, const struct sw_mesh_item *it,
                        struct sw_arena *scratch, struct sw_err *err)
{
    const struct reader r = {.a = scratch, .err = err};
    const Sw__MeshAddress *m =
        SW_PB_VIEW(scratch, Sw__MeshAddress, sw__mesh_address, it->value, NULL, err);

    if (!m)
        return err->rc;
    switch ((int)m->type_case) {
    case SW__MESH_ADDRESS__TYPE_WORKLOAD:
        return put_workload(&r, b, m->workload, it);
    case SW__MESH_ADDRESS__TYPE_SERVICE:
        return put_service(&r, b, m->service, it);
    case SW__MESH_ADDRESS__TYPE__NOT_SET:
    default:
        return sw_err_set(err, SW_EINVAL, "neither a workload nor a service");
    }
}

bool sw_mesh_remove_address(struct sw_state_builder *b, struct sw_slice name)
{
    struct sw_slice host = name;
    struct sw_slice ns;

    if (sw_state_remove_workload(b, name))
        return true;
    ns = sw_slice_cut(&host, '/');
    return host.p && sw_slice_find(host, '/') < 0 && sw_state_remove_service(b, ns, host);
}
