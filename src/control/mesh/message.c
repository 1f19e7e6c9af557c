/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/message.h"

#include <proto/google.pb-c.h>
#include <proto/workload.pb-c.h>

#include "control/mesh/names.h"
#include "control/mesh/netgw.h"
#include "control/mesh/waypoint.h"
#include "proto/pb.h"

static ProtobufCBinaryData ip_bytes(const struct sw_ip *ip)
{
    return SW_PB_BYTES(sw_slice(ip->b, sw_ip_len(ip)));
}

static Sw__MeshGatewayAddress *gateway_at(struct sw_arena *a,
                                          Sw__MeshGatewayAddress__DestinationCase what)
{
    Sw__MeshGatewayAddress *m = SW_PB_NEW(a, Sw__MeshGatewayAddress, sw__mesh_gateway_address);

    m->destination_case = what;
    m->hbone_mtls_port = MESH_HBONE_PORT;
    return m;
}

static Sw__MeshGatewayAddress *by_hostname(struct sw_arena *a, struct sw_slice ns,
                                           struct sw_slice host)
{
    Sw__MeshGatewayAddress *m = gateway_at(a, SW__MESH_GATEWAY_ADDRESS__DESTINATION_HOSTNAME);

    m->hostname = SW_PB_NEW(a, Sw__MeshNamespacedHostname, sw__mesh_namespaced_hostname);
    m->hostname->namespace_ = SW_PB_BYTES(ns);
    m->hostname->hostname = SW_PB_BYTES(host);
    return m;
}

static Sw__MeshGatewayAddress *by_ip(struct sw_arena *a, struct sw_slice network,
                                     const struct sw_ip *ip)
{
    Sw__MeshGatewayAddress *m = gateway_at(a, SW__MESH_GATEWAY_ADDRESS__DESTINATION_ADDRESS);

    m->address = SW_PB_NEW(a, Sw__MeshNetworkAddress, sw__mesh_network_address);
    m->address->network = SW_PB_BYTES(network);
    m->address->address = ip_bytes(ip);
    return m;
}

Sw__MeshGatewayAddress *mesh_msg_waypoint(const struct sw_mesh_index *ix, struct sw_arena *a,
                                          const struct mesh_gateway *g)
{
    return g->hostname.n ? by_hostname(a, g->ns, g->hostname)
                         : by_ip(a, mesh_str(ix->network), &g->ip);
}

static Sw__MeshGatewayAddress *by_key(const struct sw_mesh_index *ix, struct sw_arena *a,
                                      struct sw_slice key)
{
    struct sw_slice name = key;
    struct sw_slice ns = sw_slice_cut(&name, '/');

    return by_hostname(
        a, ns,
        sw_slice_str(sw_arena_printf(a, "%.*s.%.*s.svc.%.*s", SW_SLICE_ARG(name), SW_SLICE_ARG(ns),
                                     SW_SLICE_ARG(ix->conf.domain))));
}

Sw__MeshGatewayAddress *mesh_msg_binding(const struct sw_mesh_index *ix, struct sw_arena *a,
                                         const struct mesh_binding *b)
{
    if (b->waypoint)
        return mesh_msg_waypoint(ix, a, b->waypoint);
    return b->held ? by_key(ix, a, b->key) : NULL;
}

Sw__MeshGatewayAddress *mesh_msg_netgw(struct sw_arena *a, const struct mesh_netgw *g)
{
    Sw__MeshGatewayAddress *m =
        g->ip.family ? by_ip(a, g->network, &g->ip) : by_hostname(a, g->gateway->ns, g->address);

    m->hbone_mtls_port = g->port;
    return m;
}

Sw__MeshGatewayAddress *mesh_msg_network_gateway(const struct sw_mesh_index *ix, struct sw_arena *a,
                                                 struct sw_slice network)
{
    const struct mesh_netgw *g = mesh_netgw_first(ix, network);

    return g ? mesh_msg_netgw(a, g) : NULL;
}

Sw__MeshLocality *mesh_msg_locality(struct sw_arena *a, const struct mesh_locality *l)
{
    Sw__MeshLocality *m;

    if (!l->region.n && !l->zone.n && !l->subzone.n)
        return NULL;
    m = SW_PB_NEW(a, Sw__MeshLocality, sw__mesh_locality);
    m->region = SW_PB_BYTES(l->region);
    m->zone = SW_PB_BYTES(l->zone);
    m->subzone = SW_PB_BYTES(l->subzone);
    return m;
}

Sw__UInt32Value *mesh_msg_capacity(struct sw_arena *a, uint32_t weight)
{
    Sw__UInt32Value *m;

    if (!weight)
        return NULL;
    m = SW_PB_NEW(a, Sw__UInt32Value, sw__uint32_value);
    m->value = weight;
    return m;
}

Sw__MeshServicePorts *mesh_msg_ports(struct sw_arena *a, const struct mesh_offer *o,
                                     mesh_target_fn target, const void *arg)
{
    Sw__MeshServicePorts *m = SW_PB_NEW(a, Sw__MeshServicePorts, sw__mesh_service_ports);
    const struct mesh_svc *s = o->of;

    m->key = SW_PB_BYTES(o->key);
    m->value = SW_PB_NEW(a, Sw__MeshPortList, sw__mesh_port_list);
    m->value->ports = sw_arena_array(a, s->n_ports + 1, sizeof(void *));
    for (size_t i = 0; i < s->n_ports; i++) {
        uint16_t port = target(s, &s->ports[i], arg);
        Sw__MeshPort *p;

        if (!port)
            continue;
        p = SW_PB_NEW(a, Sw__MeshPort, sw__mesh_port);
        p->service_port = s->ports[i].port;
        p->target_port = port;
        m->value->ports[m->value->n_ports++] = p;
    }
    return m;
}

Sw__MeshWorkload *mesh_msg_workload(const struct sw_mesh_index *ix, struct sw_arena *a)
{
    Sw__MeshWorkload *m = SW_PB_NEW(a, Sw__MeshWorkload, sw__mesh_workload);

    m->network = SW_PB_BYTES(mesh_str(ix->network));
    m->cluster_id = SW_PB_BYTES(ix->conf.cluster);
    if (!sw_slice_eq_str(ix->conf.trust_domain, "cluster.local"))
        m->trust_domain = SW_PB_BYTES(ix->conf.trust_domain);
    return m;
}

static struct sw_slice first_label(const struct mesh_text *labels, const char *const *keys)
{
    for (; *keys; keys++) {
        struct sw_slice v = mesh_labels_get(labels, *keys);

        if (v.n)
            return v;
    }
    return sw_slice("", 0);
}

void mesh_msg_canonical(Sw__MeshWorkload *w, const struct mesh_text *labels)
{
    static const char *const names[] = {MESH_CANONICAL_NAME, "app.kubernetes.io/name", "app", NULL};
    static const char *const revisions[] = {MESH_CANONICAL_REVISION, "app.kubernetes.io/version",
                                            "version", NULL};
    struct sw_slice name = first_label(labels, names);
    struct sw_slice revision = first_label(labels, revisions);

    w->canonical_name = name.n ? SW_PB_BYTES(name) : w->workload_name;
    w->canonical_revision = revision.n ? SW_PB_BYTES(revision) : SW_PB_LIT("latest");
}

void mesh_msg_policies(struct sw_arena *a, Sw__MeshWorkload *w, struct sw_slice lines)
{
    size_t n = 1;

    if (!lines.n)
        return;
    for (size_t i = 0; i < lines.n; i++)
        n += lines.p[i] == '\n';
    w->authorization_policies = sw_arena_array(a, n, sizeof(*w->authorization_policies));
    while (lines.p) {
        struct sw_slice key = sw_slice_cut(&lines, '\n');

        if (key.n)
            w->authorization_policies[w->n_authorization_policies++] = SW_PB_BYTES(key);
    }
}

static struct sw_slice alias_of(struct sw_arena *a, ProtobufCBinaryData network,
                                ProtobufCBinaryData address)
{
    struct sw_ip ip = {0};
    struct sw_err err;
    char text[SW_IP_TEXT];

    if (sw_ip_from_bytes(address.data, address.len, &ip, &err) != SW_OK)
        return sw_slice("", 0);
    return sw_slice_str(
        sw_arena_printf(a, "%.*s/%s", SW_SLICE_ARG(SW_PB_SLICE(network)), sw_ip_text(&ip, text)));
}

struct sw_mesh_change mesh_msg_change(struct sw_arena *a, Sw__MeshWorkload *w)
{
    Sw__MeshAddress m = SW__MESH_ADDRESS__INIT;
    struct sw_slice *aliases = sw_arena_array(a, w->n_addresses + 1, sizeof(*aliases));
    struct sw_slice *services = sw_arena_array(a, w->n_services + 1, sizeof(*services));

    if (w->n_services > 1)
        sw_pb_sort_entries(w->services, w->n_services);
    m.type_case = SW__MESH_ADDRESS__TYPE_WORKLOAD;
    m.workload = w;
    for (size_t i = 0; i < w->n_addresses; i++)
        aliases[i] = alias_of(a, w->network, w->addresses[i]);
    for (size_t i = 0; i < w->n_services; i++)
        services[i] = SW_PB_SLICE(w->services[i]->key);
    return (struct sw_mesh_change){.name = SW_PB_SLICE(w->uid),
                                   .value = sw_pb_pack(a, &m.base),
                                   .aliases = aliases,
                                   .n_aliases = w->n_addresses,
                                   .node = SW_PB_SLICE(w->node),
                                   .services = services,
                                   .n_services = w->n_services};
}
