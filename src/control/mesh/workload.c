/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/workload.h"

#include <string.h>

#include <proto/google.pb-c.h>
#include <proto/workload.pb-c.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/search.h"
#include "base/time.h"
#include "control/mesh/far.h"
#include "control/mesh/ledger.h"
#include "control/mesh/message.h"
#include "control/mesh/read/ports.h"
#include "control/mesh/read/read.h"
#include "control/mesh/waypoint.h"
#include "proto/pb.h"

enum { LOOK = 8 }; /* what looking at a selector costs, beside bytes that are encoded */

/* ---- groups ---- */

typedef SW_VEC(struct mesh_offer *) offers;

/* Every workload of the group repeats the ports of all its services. */
static void bound_offers(struct mesh_group *g, offers *found)
{
    size_t ports = 0;
    size_t n = 0;
    bool cut;

    while (n < found->n && ports + found->p[n]->of->n_ports + 1 <= MESH_LISTED_MAX)
        ports += found->p[n++]->of->n_ports + 1;
    cut = n < found->n;
    if (cut && !g->cut)
        sw_log_limited(&g->ns->cut, sw_now_ns(), SW_LOG_WARN, "mesh",
                       "workloads of namespace '%.*s' are selected by %zu services with more than "
                       "%d ports together: the last %zu by name are left out",
                       SW_SLICE_ARG(mesh_str(g->ns->name)), found->n, MESH_LISTED_MAX,
                       found->n - n);
    g->cut = cut;
    found->n = n;
}

static void find_offers(struct sw_mesh_index *ix, struct mesh_group *g)
{
    offers found = {0};

    for (struct sw_list *l = g->ns->services.next; l != &g->ns->services; l = l->next) {
        struct mesh_svc *s = SW_CONTAINER_OF(l, struct mesh_svc, in_ns);

        ix->work += LOOK;
        if (!s->selector || !mesh_labels_within(s->selector, g->labels))
            continue;
        for (size_t i = 0; i < s->n_offers; i++) {
            if (s->offers[i].won)
                sw_vec_push(&found, &s->offers[i]);
        }
    }
    if (found.n > 1)
        SW_SORT_POINTERS_BY(found.p, found.n, key);
    bound_offers(g, &found);
    sw_free(g->offers);
    g->n_offers = (uint32_t)found.n;
    g->offers = NULL;
    if (found.n) {
        g->offers = SW_NEW_ARRAY(struct mesh_offer *, found.n);
        memcpy(g->offers, found.p, found.n * sizeof(*found.p));
    }
    sw_vec_done(&found);
}

static void mix(uint64_t *h, const void *p, size_t n)
{
    const uint64_t parts[] = {*h, sw_hash(p, n)};

    *h = sw_hash(parts, sizeof(parts));
}

/* What a group's labels and namespace mean to each member, besides services and policies. */
struct shared {
    struct mesh_binding binding;
    Sw__MeshGatewayAddress *waypoint;
    Sw__MeshApplicationTunnel *tunnel;
};

static struct shared shared_of(const struct sw_mesh_index *ix, const struct mesh_group *g,
                               struct sw_arena *a)
{
    const struct mesh_gateway *own = mesh_instance_of(ix, g->ns, g->labels);
    struct shared s = {0};

    if (own) {
        const struct mesh_inbound in = mesh_inbound_of(ix, own);

        if (in.set) {
            s.tunnel = SW_PB_NEW(a, Sw__MeshApplicationTunnel, sw__mesh_application_tunnel);
            s.tunnel->protocol = in.proxy ? SW__MESH_APPLICATION_TUNNEL__PROTOCOL__PROXY
                                          : SW__MESH_APPLICATION_TUNNEL__PROTOCOL__NONE;
            s.tunnel->port = in.port;
        }
    } else {
        s.binding = mesh_bind_workload(ix, g->ns, g->labels, a);
        s.waypoint = mesh_msg_binding(ix, a, &s.binding);
    }
    return s;
}

/* The Service that a slice's reference makes the pod an endpoint of; NULL: none. */
static const struct mesh_svc *target_service(const struct sw_mesh_index *ix,
                                             const struct mesh_workload *w,
                                             const struct mesh_target_ref *ref)
{
    const struct mesh_svc *s = sw_map_get(&ix->services, ref->slice->backing->key);

    return s && s->offers[0].won && (!w->uid || !ref->uid || ref->uid == w->uid) ? s : NULL;
}

static const struct mesh_target *targets_of(const struct sw_mesh_index *ix,
                                            const struct mesh_workload *w)
{
    return ix->targets.n && !w->we ? sw_map_get(&ix->targets, sw_slice(w->key, w->key_len)) : NULL;
}

/* What the group's members list; w: one of them that is an endpoint by slices, too; or NULL. */
static struct sw_slice policies_of(struct sw_mesh_index *ix, const struct mesh_group *g,
                                   const struct mesh_binding *own, const struct mesh_workload *w)
{
    const struct mesh_target *t = w ? targets_of(ix, w) : NULL;
    const size_t n_refs = t ? t->refs.n : 0;
    struct mesh_senders from = mesh_senders(&ix->tmp, 1 + g->n_offers + n_refs);
    struct sw_mesh_subject of;

    mesh_senders_add(&from, own);
    for (uint32_t i = 0; i < g->n_offers; i++) {
        const struct mesh_binding b = mesh_bind_service(ix, g->offers[i]->of, &ix->tmp);

        mesh_senders_add(&from, &b);
    }
    for (size_t i = 0; i < n_refs; i++) {
        const struct mesh_svc *s = target_service(ix, w, &t->refs.p[i]);
        const struct mesh_binding b =
            s ? mesh_bind_service(ix, s, &ix->tmp) : (struct mesh_binding){.waypoint = NULL};

        mesh_senders_add(&from, &b);
    }
    of = mesh_subject(g->ns, g->labels, &from);
    return ix->conf.policies ? ix->conf.policies(ix->conf.policies_arg, &of, &ix->tmp)
                             : sw_slice("", 0);
}

static void renew_policies(struct sw_mesh_index *ix, struct mesh_group *g,
                           const struct mesh_binding *own)
{
    struct mesh_text *now = mesh_text(&ix->pool, policies_of(ix, g, own, NULL));

    mesh_text_drop(&ix->pool, &g->policies);
    g->policies = now;
}

bool mesh_group_renew(struct sw_mesh_index *ix, struct mesh_group *g)
{
    struct shared s;
    uint64_t h = 0;
    bool changed;

    find_offers(ix, g);
    s = shared_of(ix, g, &ix->tmp);
    renew_policies(ix, g, &s.binding);
    for (uint32_t i = 0; i < g->n_offers; i++) {
        mix(&h, g->offers[i]->key.p, g->offers[i]->key.n);
        mix(&h, &g->offers[i]->of->shape, sizeof(g->offers[i]->of->shape));
        mix(&h, &g->offers[i]->of->global, sizeof(g->offers[i]->of->global));
    }
    mix(&h, mesh_str(g->policies).p, mesh_str(g->policies).n);
    if (s.waypoint) {
        struct sw_slice bytes = sw_pb_pack(&ix->tmp, &s.waypoint->base);

        mix(&h, bytes.p, bytes.n);
    }
    if (s.tunnel)
        mix(&h, &(uint32_t){s.tunnel->port << 1 | s.tunnel->protocol}, sizeof(uint32_t));
    changed = g->fresh || h != g->context;
    g->fresh = false;
    g->context = h;
    return changed;
}

/* ---- one workload ---- */

static struct sw_slice uid_of(const struct sw_mesh_index *ix, const struct mesh_workload *w,
                              struct sw_arena *a)
{
    return sw_slice_str(sw_arena_printf(a, "%.*s/%s/%.*s", SW_SLICE_ARG(ix->conf.cluster),
                                        w->we ? "networking.istio.io/WorkloadEntry" : "/Pod",
                                        w->key_len, w->key));
}

static void put_addresses(struct sw_arena *a, Sw__MeshWorkload *m, const struct mesh_workload *w)
{
    const char *p = w->key + w->key_len;
    const char *end = p + w->ips_len;

    m->addresses = sw_arena_array(a, MESH_IPS_MAX, sizeof(*m->addresses));
    while (p < end) {
        size_t n = *p == 4 ? 4 : 16;

        m->addresses[m->n_addresses++] = SW_PB_BYTES(sw_slice(p + 1, n));
        p += 1 + n;
    }
}

static uint16_t target_of(const struct mesh_svc *s, const struct mesh_port *p, const void *arg)
{
    const struct mesh_workload *w = arg;

    return mesh_target_port(s, p, w->ports, w->we != NULL);
}

/* Services without a selector whose slices name the pod. */
static void put_targets(struct sw_mesh_index *ix, Sw__MeshWorkload *m,
                        const struct mesh_workload *w, const struct mesh_target *t)
{
    for (size_t i = 0; i < t->refs.n; i++) {
        const struct mesh_svc *s = target_service(ix, w, &t->refs.p[i]);
        bool twice = false;

        if (!s)
            continue;
        for (size_t k = 0; k < m->n_services; k++)
            twice |= sw_slice_eq(SW_PB_SLICE(m->services[k]->key), s->offers[0].key);
        if (!twice)
            m->services[m->n_services++] = mesh_msg_ports(&ix->tmp, &s->offers[0], target_of, w);
    }
}

static void put_services(struct sw_mesh_index *ix, Sw__MeshWorkload *m,
                         const struct mesh_workload *w)
{
    const struct mesh_group *g = w->group;
    const struct mesh_target *t = targets_of(ix, w);

    if (!g->n_offers && !t)
        return;
    m->services = sw_arena_array(&ix->tmp, g->n_offers + (t ? t->refs.n : 0), sizeof(void *));
    for (uint32_t i = 0; i < g->n_offers; i++)
        m->services[m->n_services++] = mesh_msg_ports(&ix->tmp, g->offers[i], target_of, w);
    if (t)
        put_targets(ix, m, w, t);
}

static void put_we(struct sw_mesh_index *ix, Sw__MeshWorkload *m, const struct mesh_we *we)
{
    const struct mesh_locality l = mesh_read_locality(mesh_str(we->locality));

    if (we->network)
        m->network = SW_PB_BYTES(mesh_str(we->network));
    m->hostname = SW_PB_BYTES(mesh_str(we->hostname));
    m->capacity = mesh_msg_capacity(&ix->tmp, we->weight);
    m->locality = mesh_msg_locality(&ix->tmp, &l);
}

static void put_node(struct sw_mesh_index *ix, Sw__MeshWorkload *m, const struct mesh_node *n)
{
    const struct mesh_locality l = {
        .region = mesh_str(n->region), .zone = mesh_str(n->zone), .subzone = mesh_str(n->subzone)};

    m->node = SW_PB_BYTES(mesh_str(n->name));
    m->locality = mesh_msg_locality(&ix->tmp, &l);
}

static void put_facts(struct sw_mesh_index *ix, Sw__MeshWorkload *m, const struct mesh_workload *w)
{
    struct sw_slice ns = mesh_str(w->group->ns->name);

    m->uid = SW_PB_BYTES(uid_of(ix, w, &ix->tmp));
    m->namespace_ = SW_PB_BYTES(ns);
    m->name = SW_PB_BYTES(sw_slice(w->key + ns.n + 1, w->key_len - ns.n - 1));
    m->service_account = SW_PB_BYTES(mesh_str(w->account));
    m->workload_name = SW_PB_BYTES(mesh_str(w->workload_name));
    m->workload_type = SW__MESH_WORKLOAD__TYPE__POD;
    m->native_tunnel = w->native;
    if (w->hbone)
        m->tunnel_protocol = SW__MESH_WORKLOAD__TUNNEL_PROTOCOL__HBONE;
    if (!w->healthy)
        m->status = SW__MESH_WORKLOAD__STATUS__UNHEALTHY;
    if (w->host_network)
        m->network_mode = SW__MESH_WORKLOAD__NETWORK_MODE__HOST_NETWORK;
    mesh_msg_canonical(m, w->group->labels);
}

void mesh_workload_emit(struct sw_mesh_index *ix, struct mesh_workload *w)
{
    Sw__MeshWorkload *m = mesh_msg_workload(ix, &ix->tmp);
    const struct shared s = shared_of(ix, w->group, &ix->tmp);
    const struct sw_mesh_far *far;
    struct sw_mesh_change c;

    put_facts(ix, m, w);
    put_addresses(&ix->tmp, m, w);
    if (w->we)
        put_we(ix, m, w->we);
    if (w->node)
        put_node(ix, m, w->node);
    put_services(ix, m, w);
    mesh_msg_policies(&ix->tmp, m,
                      targets_of(ix, w) ? policies_of(ix, w->group, &s.binding, w)
                                        : mesh_str(w->group->policies));
    m->waypoint = s.waypoint;
    m->application_tunnel = s.tunnel;
    m->network_gateway = mesh_msg_network_gateway(ix, &ix->tmp, SW_PB_SLICE(m->network));
    far = mesh_far_take(ix, m);
    c = mesh_msg_change(&ix->tmp, m);
    c.far = far;
    mesh_publish(ix, &w->emitted, &c);
}

void mesh_workload_retire(struct sw_mesh_index *ix, struct mesh_workload *w)
{
    if (w->emitted)
        mesh_retire(ix, &w->emitted, uid_of(ix, w, &ix->tmp));
}
