/* SPDX-License-Identifier: Apache-2.0 */
/* Workloads and services as the control plane sends them. */
#include "base/utf8.h"
#include "node/mesh/mesh.h"

#include <stdarg.h>
#include <stdio.h>

#include "proto/pb.h"

#include <proto/workload.pb-c.h>

/* Remembers the first error; what is read after it does not count. */
struct reader {
    struct sw_arena *a;
    struct sw_err *err;
    int rc;
};

static void SW_PRINTF(3, 4) refuse(struct reader *r, int rc, const char *fmt, ...)
{
    char why[sizeof(r->err->msg)];
    va_list ap;

    if (r->rc != SW_OK)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    r->rc = sw_err_set(r->err, rc, "%s", why);
}

/* ---- pieces ---- */

static struct sw_slice text(struct reader *r, ProtobufCBinaryData in)
{
    struct sw_slice s = SW_PB_SLICE(in);

    if (!sw_utf8_valid(s))
        refuse(r, SW_EPROTO, "a string is not UTF-8");
    return s;
}

static const struct sw_slice *texts(struct reader *r, const ProtobufCBinaryData *in, size_t n)
{
    struct sw_slice *to = sw_arena_array(r->a, n, sizeof(*to));

    for (size_t i = 0; i < n; i++)
        to[i] = text(r, in[i]);
    return to;
}

static uint16_t port(struct reader *r, uint32_t in, const char *what)
{
    if (in > UINT16_MAX)
        refuse(r, SW_EINVAL, "%s %u is out of range", what, in);
    return (uint16_t)in;
}

static const struct sw_port_pair *ports(struct reader *r, Sw__MeshPort *const *in, size_t n)
{
    struct sw_port_pair *to = sw_arena_array(r->a, n, sizeof(*to));

    for (size_t i = 0; i < n; i++) {
        to[i].service_port = port(r, in[i]->service_port, "service port");
        to[i].target_port = port(r, in[i]->target_port, "target port");
        if ((unsigned)in[i]->app_protocol > SW__MESH_PORT__APP_PROTOCOL__TLS)
            refuse(r, SW_EINVAL, "unknown application protocol %d", (int)in[i]->app_protocol);
    }
    return to;
}

static struct sw_ip address(struct reader *r, ProtobufCBinaryData in)
{
    struct sw_ip ip = {0};

    if (sw_ip_from_bytes(in.data, in.len, &ip, NULL) != SW_OK)
        refuse(r, SW_EINVAL, "an address has %zu bytes", in.len);
    return ip;
}

/* NULL stays NULL: there is no such gateway. */
static const struct sw_gateway_addr *gateway(struct reader *r, const Sw__MeshGatewayAddress *in,
                                             const char *what)
{
    struct sw_gateway_addr *g;

    if (!in)
        return NULL;
    g = SW_ARENA_NEW(r->a, struct sw_gateway_addr);
    g->hbone_port = port(r, in->hbone_mtls_port, "port of the gateway");
    switch ((int)in->destination_case) {
    case SW__MESH_GATEWAY_ADDRESS__DESTINATION_HOSTNAME:
        g->by_hostname = true;
        g->ns = text(r, in->hostname->namespace_);
        g->hostname = text(r, in->hostname->hostname);
        break;
    case SW__MESH_GATEWAY_ADDRESS__DESTINATION_ADDRESS:
        g->ip = address(r, in->address->address);
        g->network = text(r, in->address->network);
        break;
    case SW__MESH_GATEWAY_ADDRESS__DESTINATION__NOT_SET:
    default:
        refuse(r, SW_EINVAL, "%s has no destination", what);
    }
    return g;
}

/* ---- workloads ---- */

static void workload_services(struct reader *r, const Sw__MeshWorkload *in,
                              struct sw_workload_spec *w)
{
    struct sw_membership_spec *to = sw_arena_array(r->a, in->n_services, sizeof(*to));

    for (size_t i = 0; i < in->n_services; i++) {
        const Sw__MeshPortList *list = in->services[i]->value;

        to[i].key = text(r, in->services[i]->key);
        if (list) {
            to[i].n_ports = list->n_ports;
            to[i].ports = ports(r, list->ports, list->n_ports);
        }
    }
    w->services = to;
    w->n_services = in->n_services;
}

static void workload_enums(struct reader *r, const Sw__MeshWorkload *in, struct sw_workload_spec *w)
{
    if ((unsigned)in->status > SW__MESH_WORKLOAD__STATUS__UNHEALTHY)
        refuse(r, SW_EINVAL, "unknown status %d", (int)in->status);
    if ((unsigned)in->network_mode > SW__MESH_WORKLOAD__NETWORK_MODE__HOST_NETWORK)
        refuse(r, SW_EINVAL, "unknown network mode %d", (int)in->network_mode);
    w->protocol = (int)in->tunnel_protocol; /* these two are checked by the builder */
    w->type = (int)in->workload_type;
    w->unhealthy = in->status == SW__MESH_WORKLOAD__STATUS__UNHEALTHY;
    w->host_network = in->network_mode == SW__MESH_WORKLOAD__NETWORK_MODE__HOST_NETWORK;
    w->has_app_tunnel = in->application_tunnel != NULL;
    if (!in->application_tunnel)
        return;
    w->app_tunnel = (int)in->application_tunnel->protocol;
    w->app_tunnel_port = port(r, in->application_tunnel->port, "port of the application tunnel");
}

static void workload_texts(struct reader *r, const Sw__MeshWorkload *in, struct sw_workload_spec *w)
{
    w->name = text(r, in->name);
    w->ns = text(r, in->namespace_);
    w->network = text(r, in->network);
    w->trust_domain = text(r, in->trust_domain);
    w->service_account = text(r, in->service_account);
    w->node = text(r, in->node);
    w->canonical_name = text(r, in->canonical_name);
    w->canonical_revision = text(r, in->canonical_revision);
    w->workload_name = text(r, in->workload_name);
    w->cluster_id = text(r, in->cluster_id);
    w->hostname = text(r, in->hostname);
    if (in->locality) {
        w->region = text(r, in->locality->region);
        w->zone = text(r, in->locality->zone);
        w->subzone = text(r, in->locality->subzone);
    }
    w->policies = texts(r, in->authorization_policies, in->n_authorization_policies);
    w->n_policies = in->n_authorization_policies;
}

static void read_workload(struct reader *r, const Sw__MeshWorkload *in, struct sw_workload_spec *w)
{
    struct sw_ip *ips = sw_arena_array(r->a, in->n_addresses, sizeof(*ips));

    workload_texts(r, in, w);
    workload_enums(r, in, w);
    w->native_tunnel = in->native_tunnel;
    w->has_capacity = in->capacity != NULL;
    w->capacity = in->capacity ? in->capacity->value : 0;
    for (size_t i = 0; i < in->n_addresses; i++)
        ips[i] = address(r, in->addresses[i]);
    w->ips = ips;
    w->n_ips = in->n_addresses;
    workload_services(r, in, w);
    w->waypoint = gateway(r, in->waypoint, "waypoint");
    w->network_gateway = gateway(r, in->network_gateway, "network gateway");
}

/* ---- services ---- */

/* A length that is given and not the whole address makes it a block. */
static void service_addresses(struct reader *r, const Sw__MeshService *in,
                              struct sw_service_spec *s)
{
    struct sw_network_addr *vips = sw_arena_array(r->a, in->n_addresses, sizeof(*vips));
    struct sw_network_cidr *cidrs = sw_arena_array(r->a, in->n_addresses, sizeof(*cidrs));

    for (size_t i = 0; i < in->n_addresses; i++) {
        const Sw__MeshNetworkAddress *from = in->addresses[i];
        size_t full = from->address.len * 8;
        struct sw_ip ip = address(r, from->address);
        struct sw_slice network = text(r, from->network);
        size_t lost;

        if (from->length_present_case != SW__MESH_NETWORK_ADDRESS__LENGTH_PRESENT_LENGTH ||
            from->length == full) {
            vips[s->n_vips++] = (struct sw_network_addr){network, ip};
            continue;
        }
        /* IPv4 written as IPv6 has lost its first 96 bits. */
        lost = full - sw_ip_len(&ip) * 8;
        if (from->length > full || from->length < lost)
            refuse(r, SW_EINVAL, "prefix length %u does not fit its address", from->length);
        cidrs[s->n_cidr_vips++] =
            (struct sw_network_cidr){network, {.ip = ip, .len = (uint8_t)(from->length - lost)}};
    }
    s->vips = vips;
    s->cidr_vips = cidrs;
}

static void service_waypoints(struct reader *r, const Sw__MeshService *in,
                              struct sw_service_spec *s)
{
    struct sw_weighted_waypoint *to = sw_arena_array(r->a, in->n_weighted_waypoints, sizeof(*to));

    s->waypoint = gateway(r, in->waypoint, "waypoint");
    for (size_t i = 0; i < in->n_weighted_waypoints; i++) {
        const Sw__MeshWeightedWaypoint *from = in->weighted_waypoints[i];
        const struct sw_gateway_addr *g = gateway(r, from->destination, "weighted waypoint");

        if (g)
            to[i] = (struct sw_weighted_waypoint){*g, from->weight};
        else
            refuse(r, SW_EINVAL, "weighted waypoint has no destination");
    }
    s->weighted = to;
    s->n_weighted = in->n_weighted_waypoints;
}

static void service_balancer(struct reader *r, const Sw__MeshLoadBalancing *in,
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

static void read_service(struct reader *r, const Sw__MeshService *in, struct sw_service_spec *s)
{
    s->name = text(r, in->name);
    s->ns = text(r, in->namespace_);
    s->hostname = text(r, in->hostname);
    s->sans = texts(r, in->subject_alt_names, in->n_subject_alt_names);
    s->n_sans = in->n_subject_alt_names;
    s->families = (int)in->ip_families;
    s->canonical = in->canonical;
    s->namespace_only = in->visibility == SW__MESH_SERVICE__VISIBILITY__NAMESPACE;
    service_balancer(r, in->load_balancing, s);
    s->ports = ports(r, in->ports, in->n_ports);
    s->n_ports = in->n_ports;
    service_addresses(r, in, s);
    service_waypoints(r, in, s);
}

/* ---- resources ---- */

static void check_name(struct reader *r, struct sw_slice own, struct sw_slice name)
{
    if (!sw_slice_eq(own, name))
        refuse(r, SW_EINVAL, "it calls itself '%.*s'", SW_SLICE_ARG_MAX(own, 96));
}

static int put_workload(struct reader *r, struct sw_state_builder *b, const Sw__MeshWorkload *in,
                        const struct sw_mesh_item *it)
{
    struct sw_workload_spec w = {.uid = SW_PB_SLICE(in->uid), .version = it->version};

    check_name(r, w.uid, it->name);
    (void)text(r, in->uid);
    read_workload(r, in, &w);
    return r->rc == SW_OK ? sw_state_add_workload(b, &w, r->err) : r->rc;
}

static int put_service(struct reader *r, struct sw_state_builder *b, const Sw__MeshService *in,
                       const struct sw_mesh_item *it)
{
    struct sw_service_spec s = {.version = it->version};

    read_service(r, in, &s);
    check_name(r,
               sw_slice_str(sw_arena_printf(r->a, "%.*s/%.*s", SW_SLICE_ARG(s.ns),
                                            SW_SLICE_ARG(s.hostname))),
               it->name);
    return r->rc == SW_OK ? sw_state_add_service(b, &s, r->err) : r->rc;
}

int sw_mesh_put_address(struct sw_state_builder *b, const struct sw_mesh_item *it,
                        struct sw_arena *scratch, struct sw_err *err)
{
    struct reader r = {.a = scratch, .err = err};
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
