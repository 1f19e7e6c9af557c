/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/endpoint.h"

#include <proto/google.pb-c.h>
#include <proto/workload.pb-c.h>

#include "control/mesh/far.h"
#include "control/mesh/ledger.h"
#include "control/mesh/message.h"
#include "control/mesh/read/ports.h"
#include "control/mesh/waypoint.h"
#include "proto/pb.h"

static void put_ip(struct sw_arena *a, Sw__MeshWorkload *m, const struct sw_ip *ip)
{
    if (!m->addresses)
        m->addresses = sw_arena_array(a, MESH_IPS_MAX, sizeof(*m->addresses));
    m->addresses[m->n_addresses++] = SW_PB_BYTES(sw_slice(ip->b, sw_ip_len(ip)));
}

/* The resources of one owner that are being made. */
struct set {
    mesh_outs *outs;
    struct sw_map names; /* how often each was asked for; keys in ix->tmp */
};

/* A second workload of the same address gets a number behind its name. */
static void emit(struct sw_mesh_index *ix, struct set *set, Sw__MeshWorkload *m)
{
    struct sw_slice uid = SW_PB_SLICE(m->uid);
    uintptr_t nth = (uintptr_t)sw_map_get(&set->names, uid) + 1;
    const struct sw_mesh_far *far;
    struct sw_mesh_change c;

    (void)sw_map_put(&set->names, uid, (void *)nth);
    /* No name has a slash where the number begins: addresses have none. */
    if (nth > 1)
        uid = sw_slice_str(sw_arena_printf(&ix->tmp, "%.*s/%u", SW_SLICE_ARG(uid), (unsigned)nth));
    m->uid = SW_PB_BYTES(uid);
    m->network_gateway = mesh_msg_network_gateway(ix, &ix->tmp, SW_PB_SLICE(m->network));
    far = mesh_far_take(ix, m);
    c = mesh_msg_change(&ix->tmp, m);
    c.far = far;
    mesh_outs_put(ix, set->outs, &c);
}

/* ---- ServiceEntries ---- */

static uint16_t endpoint_target(const struct mesh_svc *s, const struct mesh_port *p,
                                const void *arg)
{
    const struct mesh_endpoint *e = arg;

    return mesh_target_port(s, p, e ? e->ports : NULL, true);
}

static Sw__MeshWorkload *entry_workload(struct sw_mesh_index *ix, const struct mesh_svc *s,
                                        struct sw_slice address)
{
    Sw__MeshWorkload *m = mesh_msg_workload(ix, &ix->tmp);

    m->uid = SW_PB_BYTES(sw_slice_str(sw_arena_printf(
        &ix->tmp, "%.*s/networking.istio.io/ServiceEntry/%.*s/%.*s", SW_SLICE_ARG(ix->conf.cluster),
        SW_SLICE_ARG(s->key), SW_SLICE_ARG(address))));
    m->name = SW_PB_BYTES(s->name);
    m->namespace_ = SW_PB_BYTES(mesh_str(s->ns->name));
    m->workload_name = SW_PB_BYTES(s->name);
    m->workload_type = SW__MESH_WORKLOAD__TYPE__POD;
    m->native_tunnel = s->native;
    if (s->hbone)
        m->tunnel_protocol = SW__MESH_WORKLOAD__TUNNEL_PROTOCOL__HBONE;
    mesh_msg_canonical(m, s->labels);
    m->services = sw_arena_array(&ix->tmp, s->n_offers + 1, sizeof(void *));
    return m;
}

/* The entry's labels select; own: the endpoint's binding, NULL for a host. */
static void put_policies(struct sw_mesh_index *ix, Sw__MeshWorkload *m, const struct mesh_svc *s,
                         const struct mesh_binding *own)
{
    const struct mesh_binding service = mesh_bind_service(ix, s, &ix->tmp);
    struct mesh_senders from = mesh_senders(&ix->tmp, 2);
    struct sw_mesh_subject of;

    mesh_senders_add(&from, &service);
    if (own)
        mesh_senders_add(&from, own);
    of = mesh_subject(s->ns, s->labels, &from);
    if (ix->conf.policies)
        mesh_msg_policies(&ix->tmp, m, ix->conf.policies(ix->conf.policies_arg, &of, &ix->tmp));
}

static void emit_listed(struct sw_mesh_index *ix, struct set *set, const struct mesh_svc *s,
                        const struct mesh_endpoint *e)
{
    Sw__MeshWorkload *m = entry_workload(ix, s, e->address);
    const struct mesh_binding b = mesh_bind_workload(ix, s->ns, e->labels, &ix->tmp);

    if (e->ip.family)
        put_ip(&ix->tmp, m, &e->ip);
    else
        m->hostname = SW_PB_BYTES(e->address);
    if (e->network.n)
        m->network = SW_PB_BYTES(e->network);
    m->service_account = SW_PB_BYTES(e->account);
    m->locality = mesh_msg_locality(&ix->tmp, &e->locality);
    m->capacity = mesh_msg_capacity(&ix->tmp, e->weight);
    for (size_t i = 0; i < s->n_offers; i++) {
        if (s->offers[i].won)
            m->services[m->n_services++] =
                mesh_msg_ports(&ix->tmp, &s->offers[i], endpoint_target, e);
    }
    m->waypoint = mesh_msg_binding(ix, &ix->tmp, &b);
    put_policies(ix, m, s, &b);
    emit(ix, set, m);
}

static void emit_host(struct sw_mesh_index *ix, struct set *set, const struct mesh_svc *s,
                      const struct mesh_offer *o)
{
    struct sw_slice host = mesh_str(o->host->name);
    Sw__MeshWorkload *m = entry_workload(ix, s, host);

    m->hostname = SW_PB_BYTES(host);
    m->services[m->n_services++] = mesh_msg_ports(&ix->tmp, o, endpoint_target, NULL);
    put_policies(ix, m, s, NULL);
    emit(ix, set, m);
}

void mesh_entry_emit(struct sw_mesh_index *ix, struct mesh_svc *s)
{
    bool implicit =
        !s->n_endpoints && !s->selector &&
        (s->resolution == MESH_RESOLUTION_DNS || s->resolution == MESH_RESOLUTION_DYNAMIC);
    struct set set = {.outs = &s->outs};
    size_t won = 0;

    mesh_outs_retire(ix, &s->outs);
    for (size_t i = 0; i < s->n_offers; i++) {
        won += s->offers[i].won;
        if (implicit && s->offers[i].won)
            emit_host(ix, &set, s, &s->offers[i]);
    }
    for (size_t i = 0; won && i < s->n_endpoints; i++)
        emit_listed(ix, &set, s, &s->endpoints[i]);
    sw_map_done(&set.names);
}

/* ---- slices ---- */

static uint16_t slice_target(const struct mesh_svc *s, const struct mesh_port *p, const void *arg)
{
    const struct mesh_slice *slice = arg;

    return mesh_ports_find(slice->ports, p->name);
}

struct foreign {
    const struct mesh_slice *slice;
    const struct mesh_svc *of;
};

static void emit_foreign(struct sw_mesh_index *ix, struct set *set, const struct foreign *in,
                         const struct mesh_foreign *f)
{
    const struct mesh_slice *slice = in->slice;
    Sw__MeshWorkload *m = mesh_msg_workload(ix, &ix->tmp);
    char text[SW_IP_TEXT];

    m->uid = SW_PB_BYTES(sw_slice_str(sw_arena_printf(
        &ix->tmp, "%.*s/discovery.k8s.io/EndpointSlice/%.*s/%s", SW_SLICE_ARG(ix->conf.cluster),
        SW_SLICE_ARG(slice->key), sw_ip_text(&f->ips[0], text))));
    m->name = SW_PB_BYTES(slice->name);
    m->namespace_ = SW_PB_BYTES(mesh_str(slice->ns->name));
    for (size_t i = 0; i < f->n_ips; i++)
        put_ip(&ix->tmp, m, &f->ips[i]);
    if (!f->ready)
        m->status = SW__MESH_WORKLOAD__STATUS__UNHEALTHY;
    /* Nothing is known of it, not even that the address is its own. */
    m->network_mode = SW__MESH_WORKLOAD__NETWORK_MODE__HOST_NETWORK;
    m->services = sw_arena_array(&ix->tmp, 1, sizeof(void *));
    m->services[m->n_services++] =
        mesh_msg_ports(&ix->tmp, &in->of->offers[0], slice_target, slice);
    emit(ix, set, m);
}

void mesh_slice_emit(struct sw_mesh_index *ix, struct mesh_slice *slice, struct mesh_svc *s)
{
    const struct foreign in = {slice, s};
    struct set set = {.outs = &slice->outs};

    mesh_outs_retire(ix, &slice->outs);
    for (size_t i = 0; s && s->offers[0].won && i < slice->n_foreign; i++)
        emit_foreign(ix, &set, &in, &slice->foreign[i]);
    sw_map_done(&set.names);
}

/* ---- other networks ---- */

void mesh_netgws_emit(struct sw_mesh_index *ix)
{
    mesh_outs_retire(ix, &ix->netgw_outs);
    for (size_t i = 0; i < ix->netgws.n; i++) {
        const struct mesh_netgw *g = &ix->netgws.p[i];
        Sw__MeshWorkload *m = mesh_msg_workload(ix, &ix->tmp);
        struct sw_slice uid = sw_slice_str(sw_arena_printf(&ix->tmp, "NetworkGateway/%.*s/%.*s/%u",
                                                           SW_SLICE_ARG(g->network),
                                                           SW_SLICE_ARG(g->address), g->port));
        struct sw_mesh_change c;

        if (mesh_outs_has(&ix->netgw_outs, uid))
            continue; /* two Gateways for one door */
        m->uid = SW_PB_BYTES(uid);
        m->namespace_ = SW_PB_BYTES(g->gateway->ns);
        m->service_account = SW_PB_BYTES(g->gateway->account);
        m->network = SW_PB_BYTES(g->network);
        if (g->gateway->far.p) {
            struct sw_slice rest = g->gateway->far;
            struct sw_slice cluster = sw_slice_cut(&rest, '/');

            m->cluster_id = SW_PB_BYTES(cluster);
        }
        if (g->ip.family)
            put_ip(&ix->tmp, m, &g->ip);
        else
            m->hostname = SW_PB_BYTES(g->address);
        c = mesh_msg_change(&ix->tmp, m);
        mesh_outs_put(ix, &ix->netgw_outs, &c);
    }
}
