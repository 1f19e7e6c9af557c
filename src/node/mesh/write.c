/* SPDX-License-Identifier: Apache-2.0 */
/* Records as the control plane's resources, for what is stored on disk. */
#include "node/mesh/mesh.h"

#include <stddef.h>

#include "proto/pb.h"

#include <proto/workload.pb-c.h>

/* An address of the record, which lives as long as the message. */
static ProtobufCBinaryData own_ip(const struct sw_workload *w, unsigned i)
{
    const char *at = w->bytes + i * sw_workload_ip_size(w);

    if (w->only_v4)
        return SW_PB_BYTES(sw_slice(at, 4));
    return SW_PB_BYTES(
        sw_slice(at + offsetof(struct sw_ip, b), *at == 4 ? 4 : sizeof(((struct sw_ip *)0)->b)));
}

static ProtobufCBinaryData ip_bytes(const struct sw_ip *ip)
{
    return SW_PB_BYTES(sw_slice(ip->b, sw_ip_len(ip)));
}

static Sw__MeshNetworkAddress *network_address(struct sw_arena *a, struct sw_slice network,
                                               const struct sw_ip *ip)
{
    Sw__MeshNetworkAddress *m = SW_PB_NEW(a, Sw__MeshNetworkAddress, sw__mesh_network_address);

    m->network = SW_PB_BYTES(network);
    m->address = ip_bytes(ip);
    return m;
}

static Sw__MeshGatewayAddress *gateway(struct sw_arena *a, const struct sw_gateway_addr *g)
{
    Sw__MeshGatewayAddress *m;

    if (!g)
        return NULL;
    m = SW_PB_NEW(a, Sw__MeshGatewayAddress, sw__mesh_gateway_address);
    m->hbone_mtls_port = g->hbone_port;
    if (g->by_hostname) {
        m->destination_case = SW__MESH_GATEWAY_ADDRESS__DESTINATION_HOSTNAME;
        m->hostname = SW_PB_NEW(a, Sw__MeshNamespacedHostname, sw__mesh_namespaced_hostname);
        m->hostname->namespace_ = SW_PB_BYTES(g->ns);
        m->hostname->hostname = SW_PB_BYTES(g->hostname);
    } else {
        m->destination_case = SW__MESH_GATEWAY_ADDRESS__DESTINATION_ADDRESS;
        m->address = network_address(a, g->network, &g->ip);
    }
    return m;
}

static Sw__MeshPort **ports(struct sw_arena *a, const struct sw_port_pair *from, size_t n)
{
    Sw__MeshPort **to = sw_arena_array(a, n, sizeof(Sw__MeshPort *));

    for (size_t i = 0; i < n; i++) {
        to[i] = SW_PB_NEW(a, Sw__MeshPort, sw__mesh_port);
        to[i]->service_port = from[i].service_port;
        to[i]->target_port = from[i].target_port;
    }
    return to;
}

static ProtobufCBinaryData *texts(struct sw_arena *a, const struct sw_slice *from, size_t n)
{
    ProtobufCBinaryData *to = sw_arena_array(a, n, sizeof(*to));

    for (size_t i = 0; i < n; i++)
        to[i] = SW_PB_BYTES(from[i]);
    return to;
}

static void put_services(struct sw_arena *a, const struct sw_workload_class *c, Sw__MeshWorkload *m)
{
    m->services = sw_arena_array(a, c->n_services, sizeof(*m->services));
    for (size_t i = 0; i < c->n_services; i++) {
        Sw__MeshServicePorts *s = SW_PB_NEW(a, Sw__MeshServicePorts, sw__mesh_service_ports);

        s->key = SW_PB_BYTES(sw_membership_key(&c->services[i]));
        s->value = SW_PB_NEW(a, Sw__MeshPortList, sw__mesh_port_list);
        s->value->ports = ports(a, c->services[i].ports, c->services[i].n_ports);
        s->value->n_ports = c->services[i].n_ports;
        m->services[m->n_services++] = s;
    }
}

static void put_place(struct sw_arena *a, const struct sw_workload_place *at, Sw__MeshWorkload *m)
{
    m->network = SW_PB_BYTES(at->network);
    m->cluster_id = SW_PB_BYTES(at->cluster_id);
    m->node = SW_PB_BYTES(at->node);
    if (!at->region.n && !at->zone.n && !at->subzone.n)
        return;
    m->locality = SW_PB_NEW(a, Sw__MeshLocality, sw__mesh_locality);
    m->locality->region = SW_PB_BYTES(at->region);
    m->locality->zone = SW_PB_BYTES(at->zone);
    m->locality->subzone = SW_PB_BYTES(at->subzone);
}

static void put_class(struct sw_arena *a, const struct sw_workload_class *c, Sw__MeshWorkload *m)
{
    m->namespace_ = SW_PB_BYTES(c->ns);
    m->trust_domain = SW_PB_BYTES(c->trust_domain);
    m->service_account = SW_PB_BYTES(c->service_account);
    m->workload_name = SW_PB_BYTES(c->workload_name);
    m->canonical_name = SW_PB_BYTES(c->canonical_name);
    m->canonical_revision = SW_PB_BYTES(c->canonical_revision);
    m->workload_type = (Sw__MeshWorkload__Type)c->type; /* the numbers are the same */
    m->tunnel_protocol = (Sw__MeshWorkload__TunnelProtocol)c->protocol;
    m->network_mode = c->host_network ? SW__MESH_WORKLOAD__NETWORK_MODE__HOST_NETWORK
                                      : SW__MESH_WORKLOAD__NETWORK_MODE__STANDARD;
    m->native_tunnel = c->native_tunnel;
    m->waypoint = gateway(a, c->waypoint);
    m->network_gateway = gateway(a, c->network_gateway);
    m->authorization_policies = texts(a, c->policy_keys, c->n_policy_keys);
    m->n_authorization_policies = c->n_policy_keys;
    put_services(a, c, m);
    if (!c->has_app_tunnel)
        return;
    m->application_tunnel = SW_PB_NEW(a, Sw__MeshApplicationTunnel, sw__mesh_application_tunnel);
    m->application_tunnel->protocol = (Sw__MeshApplicationTunnel__Protocol)c->app_tunnel;
    m->application_tunnel->port = c->app_tunnel_port;
}

struct sw_slice sw_mesh_write_workload(const struct sw_workload *w, struct sw_arena *a)
{
    Sw__MeshAddress *out = SW_PB_NEW(a, Sw__MeshAddress, sw__mesh_address);
    Sw__MeshWorkload *m = SW_PB_NEW(a, Sw__MeshWorkload, sw__mesh_workload);

    out->type_case = SW__MESH_ADDRESS__TYPE_WORKLOAD;
    out->workload = m;
    m->uid = SW_PB_BYTES(sw_workload_uid(w, a));
    m->name = SW_PB_BYTES(sw_workload_name(w));
    m->hostname = SW_PB_BYTES(sw_workload_hostname(w));
    m->addresses = sw_arena_array(a, w->n_ips, sizeof(*m->addresses));
    for (unsigned i = 0; i < w->n_ips; i++)
        m->addresses[m->n_addresses++] = own_ip(w, i);
    m->status =
        w->healthy ? SW__MESH_WORKLOAD__STATUS__HEALTHY : SW__MESH_WORKLOAD__STATUS__UNHEALTHY;
    if (w->has_capacity) {
        m->capacity = SW_PB_NEW(a, Sw__UInt32Value, sw__uint32_value);
        m->capacity->value = sw_workload_capacity(w);
    }
    put_class(a, w->c, m);
    put_place(a, w->at, m);
    return sw_pb_pack(a, &out->base);
}

/* ---- services ---- */

static void put_addresses(struct sw_arena *a, const struct sw_service *s, Sw__MeshService *m)
{
    m->addresses = sw_arena_array(a, s->n_vips + s->n_cidr_vips, sizeof(*m->addresses));
    for (size_t i = 0; i < s->n_vips; i++)
        m->addresses[m->n_addresses++] = network_address(a, s->vips[i].network, &s->vips[i].ip);
    for (size_t i = 0; i < s->n_cidr_vips; i++) {
        const struct sw_network_cidr *c = &s->cidr_vips[i];
        Sw__MeshNetworkAddress *to = network_address(a, c->network, &c->cidr.ip);

        to->length_present_case = SW__MESH_NETWORK_ADDRESS__LENGTH_PRESENT_LENGTH;
        to->length = c->cidr.len;
        m->addresses[m->n_addresses++] = to;
    }
}

static Sw__MeshLoadBalancing *balancer(struct sw_arena *a, const struct sw_service *s)
{
    Sw__MeshLoadBalancing *m;

    if (s->mode == SW_LB_STANDARD && s->n_prefs == 0 && !s->allow_unhealthy)
        return NULL;
    m = SW_PB_NEW(a, Sw__MeshLoadBalancing, sw__mesh_load_balancing);
    m->mode = (Sw__MeshLoadBalancing__Mode)s->mode;
    m->health_policy = s->allow_unhealthy ? SW__MESH_LOAD_BALANCING__HEALTH_POLICY__ALLOW_ALL
                                          : SW__MESH_LOAD_BALANCING__HEALTH_POLICY__ONLY_HEALTHY;
    m->routing_preference = sw_arena_array(a, s->n_prefs, sizeof(*m->routing_preference));
    for (unsigned i = 0; i < s->n_prefs; i++)
        m->routing_preference[m->n_routing_preference++] =
            (Sw__MeshLoadBalancing__Scope)s->prefs[i];
    return m;
}

static void put_weighted(struct sw_arena *a, const struct sw_service *s, Sw__MeshService *m)
{
    m->weighted_waypoints = sw_arena_array(a, s->n_weighted, sizeof(*m->weighted_waypoints));
    for (size_t i = 0; i < s->n_weighted; i++) {
        Sw__MeshWeightedWaypoint *w =
            SW_PB_NEW(a, Sw__MeshWeightedWaypoint, sw__mesh_weighted_waypoint);

        w->destination = gateway(a, &s->weighted[i].to);
        w->weight = s->weighted[i].weight;
        m->weighted_waypoints[m->n_weighted_waypoints++] = w;
    }
}

struct sw_slice sw_mesh_write_service(const struct sw_service *s, struct sw_arena *a)
{
    Sw__MeshAddress *out = SW_PB_NEW(a, Sw__MeshAddress, sw__mesh_address);
    Sw__MeshService *m = SW_PB_NEW(a, Sw__MeshService, sw__mesh_service);

    out->type_case = SW__MESH_ADDRESS__TYPE_SERVICE;
    out->service = m;
    m->name = SW_PB_BYTES(s->name);
    m->namespace_ = SW_PB_BYTES(s->ns);
    m->hostname = SW_PB_BYTES(s->hostname);
    put_addresses(a, s, m);
    m->ports = ports(a, s->ports, s->n_ports);
    m->n_ports = s->n_ports;
    m->subject_alt_names = texts(a, s->sans, s->n_sans);
    m->n_subject_alt_names = s->n_sans;
    m->waypoint = gateway(a, s->waypoint);
    m->load_balancing = balancer(a, s);
    m->ip_families = (Sw__MeshIPFamilies)s->families;
    m->canonical = s->canonical;
    m->visibility = s->namespace_only ? SW__MESH_SERVICE__VISIBILITY__NAMESPACE
                                      : SW__MESH_SERVICE__VISIBILITY__PUBLIC;
    put_weighted(a, s, m);
    return sw_pb_pack(a, &out->base);
}
