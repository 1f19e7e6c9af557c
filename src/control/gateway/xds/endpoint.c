/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoint sets as ClusterLoadAssignments. Zones become localities; endpoints that are on their
 * way out become a second priority, which Envoy uses when the first has no endpoint left.
 */
#include <stdlib.h>

#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>

#include "base/map.h"
#include "control/gateway/resolved.h"
#include "control/gateway/xds/xds_int.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "xds/cache.h"

/* What an endpoint set is used for; a set belongs to clusters of one kind. */
struct use {
    bool udp;
    bool tunnel;
};

/* --- one endpoint --- */

Sw__LbEndpoint *sw_gwx_lb_endpoint(struct enc *e, Sw__Address *address)
{
    Sw__LbEndpoint *lb = SW_PB_NEW(e->a, Sw__LbEndpoint, sw__lb_endpoint);

    lb->host_identifier_case = SW__LB_ENDPOINT__HOST_IDENTIFIER_ENDPOINT;
    lb->endpoint = SW_PB_NEW(e->a, Sw__Endpoint, sw__endpoint);
    lb->endpoint->address = address;
    return lb;
}

Sw__LocalityLbEndpoints *sw_gwx_locality(struct enc *e, Sw__LbEndpoint *lb)
{
    Sw__LocalityLbEndpoints *lo =
        SW_PB_NEW(e->a, Sw__LocalityLbEndpoints, sw__locality_lb_endpoints);

    SW_GWX_ONE(e, lo, lb_endpoints, lb);
    return lo;
}

Sw__ClusterLoadAssignment *sw_gwx_assignment(struct enc *e, struct sw_slice name,
                                             Sw__LocalityLbEndpoints *lo)
{
    Sw__ClusterLoadAssignment *la =
        SW_PB_NEW(e->a, Sw__ClusterLoadAssignment, sw__cluster_load_assignment);

    la->cluster_name = SW_PB_BYTES(name);
    SW_GWX_ONE(e, la, endpoints, lo);
    return la;
}

/* The metadata that tells the tunnel's listener what to ask the proxy for, and logs the device. */
static Sw__Metadata *tunnel_metadata(struct enc *e, const struct sw_model_endpoint *ep)
{
    const struct sw_model_header fields[] = {
        {SW_SLICE_LIT("address"), ep->tunnel_target},
        {SW_SLICE_LIT("device"), ep->tunnel_device},
        {SW_SLICE_LIT("endpoint_id"), ep->tunnel_id},
    };

    return sw_gwx_text_metadata(e, SW_SLICE_LIT("tunnel"), fields, SW_ARRAY_LEN(fields));
}

/* Endpoints behind one internal listener are told apart by an id, here connector and target. */
static Sw__Address *tunnel_address(struct enc *e, const struct sw_model_endpoint *ep)
{
    Sw__EnvoyInternalAddress *in =
        SW_PB_NEW(e->a, Sw__EnvoyInternalAddress, sw__envoy_internal_address);
    Sw__Address *m = SW_PB_NEW(e->a, Sw__Address, sw__address);

    in->address_name_specifier_case =
        SW__ENVOY_INTERNAL_ADDRESS__ADDRESS_NAME_SPECIFIER_SERVER_LISTENER_NAME;
    in->server_listener_name = SW_PB_LIT(SW_MODEL_TUNNEL_LISTENER);
    in->endpoint_id = SW_PB_BYTES(sw_slice_str(sw_arena_printf(
        e->a, "%.*s/%.*s", SW_SLICE_ARG(ep->tunnel_id), SW_SLICE_ARG(ep->tunnel_target))));
    m->address_case = SW__ADDRESS__ADDRESS_ENVOY_INTERNAL_ADDRESS;
    m->envoy_internal_address = in;
    return m;
}

Sw__LbEndpoint *sw_gwx_tunnel_endpoint(struct enc *e, const struct sw_model_endpoint *ep)
{
    Sw__LbEndpoint *lb = sw_gwx_lb_endpoint(e, tunnel_address(e, ep));

    lb->metadata = tunnel_metadata(e, ep);
    return lb;
}

static Sw__LbEndpoint *endpoint(struct enc *e, const struct sw_model_endpoint *ep,
                                const struct use *use)
{
    if (use->tunnel)
        return sw_gwx_tunnel_endpoint(e, ep);
    return sw_gwx_lb_endpoint(e, sw_gwx_address(e, ep->address, ep->port, use->udp));
}

/* --- localities --- */

struct group {
    struct sw_slice zone;
    uint32_t priority;
    bool draining; /* which endpoints of the zone */
};

/* Endpoints come ordered by zone: those of one from 'at' on. */
static Sw__LocalityLbEndpoints *locality(struct enc *e, const struct sw_model_endpoints *set,
                                         size_t at, const struct group *g, const struct use *use)
{
    Sw__LocalityLbEndpoints *lo =
        SW_PB_NEW(e->a, Sw__LocalityLbEndpoints, sw__locality_lb_endpoints);
    size_t end = at;

    while (end < set->n && sw_slice_eq(set->p[end].zone, g->zone))
        end++;
    lo->lb_endpoints = sw_arena_array(e->a, end - at, sizeof(*lo->lb_endpoints));
    for (size_t i = at; i < end; i++) {
        if (set->p[i].draining == g->draining)
            lo->lb_endpoints[lo->n_lb_endpoints++] = endpoint(e, &set->p[i], use);
    }
    if (g->zone.n) {
        lo->locality = SW_PB_NEW(e->a, Sw__Locality, sw__locality);
        lo->locality->zone = SW_PB_BYTES(g->zone);
    }
    lo->priority = g->priority;
    return lo;
}

static size_t count(const struct sw_model_endpoints *set, bool draining)
{
    size_t n = 0;

    for (size_t i = 0; i < set->n; i++)
        n += set->p[i].draining == draining;
    return n;
}

static void add_localities(struct enc *e, const struct sw_model_endpoints *set, bool draining,
                           uint32_t priority, const struct use *use, Sw__ClusterLoadAssignment *to)
{
    struct group g = {.priority = priority, .draining = draining};
    bool open = false;

    for (size_t i = 0; i < set->n; i++) {
        if (set->p[i].draining != draining)
            continue;
        if (open && sw_slice_eq(set->p[i].zone, g.zone))
            continue;
        g.zone = set->p[i].zone;
        open = true;
        to->endpoints[to->n_endpoints++] = locality(e, set, i, &g, use);
    }
}

static void encode_set(struct enc *e, const struct sw_model_endpoints *set, const struct use *use)
{
    Sw__ClusterLoadAssignment *to =
        SW_PB_NEW(e->a, Sw__ClusterLoadAssignment, sw__cluster_load_assignment);

    to->cluster_name = SW_PB_BYTES(set->name);
    to->endpoints = sw_arena_array(e->a, set->n + 1, sizeof(*to->endpoints));
    add_localities(e, set, false, 0, use, to);
    add_localities(e, set, true, count(set, false) ? 1 : 0, use, to);
    sw_gwx_enc_add(e, SW_TYPE_ENDPOINT, set->name, &to->base);
}

/* --- addresses of host names --- */

/* Host header and health checks keep the name, as with a cluster that looks it up itself. */
static Sw__LbEndpoint *resolved_endpoint(struct enc *e, const struct sw_resolved *r,
                                         const struct sw_ip *ip)
{
    static const struct use plain;
    char text[SW_IP_TEXT];
    const struct sw_model_endpoint ep = {
        .address = sw_arena_slice(e->a, sw_slice_str(sw_ip_text(ip, text))), .port = r->port};
    Sw__LbEndpoint *lb = endpoint(e, &ep, &plain);

    lb->endpoint->hostname = SW_PB_BYTES(r->host);
    return lb;
}

struct sw_model_resource sw_model_xds_encode_resolved(struct sw_arena *a,
                                                      const struct sw_resolved *r)
{
    static const struct sw_model_xds_conf none;
    struct enc e = {.a = a, .conf = &none};
    Sw__ClusterLoadAssignment *to =
        SW_PB_NEW(a, Sw__ClusterLoadAssignment, sw__cluster_load_assignment);
    Sw__LocalityLbEndpoints *lo = SW_PB_NEW(a, Sw__LocalityLbEndpoints, sw__locality_lb_endpoints);

    lo->lb_endpoints = sw_arena_array(a, r->n + 1, sizeof(*lo->lb_endpoints));
    for (size_t i = 0; i < r->n; i++)
        lo->lb_endpoints[lo->n_lb_endpoints++] = resolved_endpoint(&e, r, &r->ips[i]);
    to->cluster_name = SW_PB_BYTES(r->set);
    to->endpoints = sw_gwx_one(&e, lo);
    to->n_endpoints = r->n > 0;
    sw_gwx_enc_add(&e, SW_TYPE_ENDPOINT, r->set, &to->base);
    return e.res[0];
}

/* --- datagrams that split --- */

static int by_set_name(const void *name, const void *set)
{
    return sw_slice_cmp(*(const struct sw_slice *)name,
                        (*(const struct sw_model_endpoints *const *)set)->name);
}

static const struct sw_model_endpoints *find_set(const struct sw_endpoint_model *ep,
                                                 struct sw_slice name)
{
    const struct sw_model_endpoints *const *set =
        ep->n_sets ? bsearch(&name, ep->sets, ep->n_sets, sizeof(*ep->sets), by_set_name) : NULL;

    return set ? *set : NULL;
}

/* Each share is a locality of its own; its name tells two shares of equal zone apart. */
static void encode_split(struct enc *e, const struct sw_model_chain *c,
                         const struct sw_endpoint_model *ep)
{
    static const struct use udp = {.udp = true};
    struct sw_slice name = sw_gwx_udp_cluster_name(e->a, c);
    Sw__ClusterLoadAssignment *to =
        SW_PB_NEW(e->a, Sw__ClusterLoadAssignment, sw__cluster_load_assignment);

    to->cluster_name = SW_PB_BYTES(name);
    to->endpoints = sw_arena_array(e->a, c->n_backends + 1, sizeof(*to->endpoints));
    for (size_t i = 0; i < c->n_backends; i++) {
        const struct sw_model_backend *b = &c->backends[i];
        const struct sw_model_endpoints *set;
        Sw__LocalityLbEndpoints *lo;

        if (!b->cluster || b->weight == 0 || !(set = find_set(ep, b->cluster->endpoints)) ||
            set->n == 0)
            continue;
        lo = SW_PB_NEW(e->a, Sw__LocalityLbEndpoints, sw__locality_lb_endpoints);
        lo->locality = SW_PB_NEW(e->a, Sw__Locality, sw__locality);
        lo->locality->sub_zone = SW_PB_BYTES(sw_slice_str(sw_arena_printf(e->a, "share-%zu", i)));
        lo->load_balancing_weight = sw_gwx_u32(e, b->weight);
        lo->lb_endpoints = sw_arena_array(e->a, set->n, sizeof(*lo->lb_endpoints));
        for (size_t k = 0; k < set->n; k++)
            lo->lb_endpoints[lo->n_lb_endpoints++] = endpoint(e, &set->p[k], &udp);
        to->endpoints[to->n_endpoints++] = lo;
    }
    sw_gwx_enc_add(e, SW_TYPE_ENDPOINT, name, &to->base);
}

/* --- all --- */

static void encode_splits(struct enc *e, const struct sw_model *m,
                          const struct sw_endpoint_model *ep)
{
    size_t before = e->n;

    for (size_t i = 0; i < m->n_listeners; i++) {
        const struct sw_model_listener *l = m->listeners[i];

        for (size_t k = 0; l->udp && k < l->n_chains; k++) {
            if (sw_gwx_udp_split(l->chains[k]))
                encode_split(e, l->chains[k], ep);
        }
    }
    if (e->n != before)
        qsort(e->res, e->n, sizeof(*e->res), sw_gwx_by_name);
}

void sw_model_xds_encode_endpoints(const struct sw_model *m, const struct sw_endpoint_model *ep,
                                   struct sw_arena *a, struct sw_model_resources *ret)
{
    static const struct sw_model_xds_conf none;
    struct enc e = {.a = a, .conf = &none};
    static const struct use plain;
    struct sw_map uses = {0};
    SW_ARENA_AUTO tmp = {0};

    for (size_t i = 0; i < m->n_clusters; i++) {
        const struct sw_model_cluster *c = m->clusters[i];
        struct use *u;

        if (!c->tunnel && c->proto != SW_MODEL_PROTO_UDP)
            continue;
        u = SW_ARENA_NEW(&tmp, struct use);
        u->tunnel = c->tunnel;
        u->udp = c->proto == SW_MODEL_PROTO_UDP;
        (void)sw_map_put(&uses, c->endpoints, u);
    }
    for (size_t i = 0; i < ep->n_sets; i++) {
        const struct use *u = sw_map_get(&uses, ep->sets[i]->name);

        encode_set(&e, ep->sets[i], u ? u : &plain);
    }
    sw_map_done(&uses);
    encode_splits(&e, m, ep);
    *ret = (struct sw_model_resources){.p = e.res, .n = e.n};
}
