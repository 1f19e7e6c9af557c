/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing: endpoints by locality and weight, waypoints and gateways by reference. */
#include "base/rand.h"
#include "node/route_int.h"

static uint64_t draw(const struct sw_picker *p, uint64_t bound)
{
    return p->env->rng ? p->env->rng(bound) : sw_rand_below(bound);
}

bool sw_pick_was_tried(const struct sw_picker *p, const struct sw_workload *w)
{
    for (size_t i = 0; p->tried && i < p->tried->n; i++) {
        if (sw_workload_same(p->tried->list[i], w))
            return true;
    }
    return false;
}

/* All endpoints of the reference were tried. */
static bool gateway_was_tried(const struct sw_picker *p, const struct sw_gateway_addr *gw)
{
    const struct sw_service *svc;
    const struct sw_workload *w;

    if (!p->tried || p->tried->n == 0)
        return false;
    sw_gateway_find(p->s, gw, p->source->c->ns, &svc, &w);
    if (!svc)
        return w && sw_pick_was_tried(p, w);
    for (size_t i = 0; i < svc->n_endpoints; i++) {
        if (!sw_pick_was_tried(p, svc->endpoints[i]))
            return false;
    }
    return svc->n_endpoints > 0;
}

/* What is tried in another network is the gateway: that settles whoever is only behind it. */
static bool endpoint_was_tried(const struct sw_picker *p, const struct sw_workload *w)
{
    return sw_pick_was_tried(p, w) ||
           (w->c->network_gateway && !sw_slice_eq(w->at->network, p->source->at->network) &&
            gateway_was_tried(p, w->c->network_gateway));
}

/* ---- locality ---- */

static bool same_scope(const struct sw_workload *a, const struct sw_workload *b,
                       enum sw_lb_scope scope)
{
    switch (scope) {
    case SW_LB_REGION:
        return sw_slice_eq(a->at->region, b->at->region);
    case SW_LB_ZONE:
        return sw_slice_eq(a->at->zone, b->at->zone);
    case SW_LB_SUBZONE:
        return sw_slice_eq(a->at->subzone, b->at->subzone);
    case SW_LB_NODE:
        return sw_slice_eq(a->at->node, b->at->node);
    case SW_LB_CLUSTER:
        return sw_slice_eq(a->at->cluster_id, b->at->cluster_id);
    case SW_LB_NETWORK:
        return sw_slice_eq(a->at->network, b->at->network);
    }
    return false;
}

/*
 * Leading preferences that agree. The network, when it comes first, weighs as much as all that
 * follow, and its mismatch does not end the comparison: an endpoint of the own network is better
 * than any other, and among foreign ones the nearest still wins.
 */
static unsigned rank_of(const struct sw_service *svc, const struct sw_workload *source,
                        const struct sw_workload *w)
{
    unsigned rank = 0;

    for (unsigned i = 0; i < svc->n_prefs; i++) {
        bool same = same_scope(source, w, svc->prefs[i]);

        if (i == 0 && svc->prefs[i] == SW_LB_NETWORK)
            rank += same ? svc->n_prefs : 0U;
        else if (same)
            rank++;
        else
            break;
    }
    return rank;
}

static bool matches_all(const struct sw_service *svc, const struct sw_workload *source,
                        const struct sw_workload *w)
{
    for (unsigned i = 0; i < svc->n_prefs; i++) {
        if (!same_scope(source, w, svc->prefs[i]))
            return false;
    }
    return true;
}

/* ---- eligibility ---- */

static uint16_t target_port(const struct sw_service *svc, const struct sw_workload *w,
                            uint16_t port)
{
    const struct sw_port_pair *declared = sw_service_port(svc, port);
    uint16_t mapped = sw_workload_target_port(w, svc, port);

    if (mapped)
        return mapped;
    if (declared && declared->target_port)
        return declared->target_port;
    return w->c->has_app_tunnel && w->c->app_tunnel_port ? port : 0;
}

static bool port_ok(const struct sw_service *svc, const struct sw_workload *w, uint16_t port,
                    enum sw_pick_use use)
{
    const struct sw_port_pair *declared = sw_service_port(svc, port);

    switch (use) {
    case SW_PICK_STANDARD:
        return declared && (declared->target_port || sw_workload_target_port(w, svc, port));
    case SW_PICK_WAYPOINT:
        break;
    }
    return declared || w->c->has_app_tunnel;
}

/* Can it be dialled at all: an address, a name, or a gateway into another network. */
static bool reachable(const struct sw_workload *source, const struct sw_workload *w)
{
    if (w->n_ips || w->has_hostname)
        return true;
    return w->c->network_gateway && !sw_slice_eq(w->at->network, source->at->network);
}

static bool eligible(const struct sw_picker *p, const struct sw_service *svc,
                     const struct sw_workload *w, uint16_t port, enum sw_pick_use use)
{
    if (!port_ok(svc, w, port, use) || !reachable(p->source, w))
        return false;
    return svc->mode != SW_LB_STRICT || matches_all(svc, p->source, w);
}

/* ---- the pick ---- */

struct tally {
    unsigned rank;
    uint64_t weight;
    bool tried; /* something fitting was left out because it was tried */
};

static unsigned rank_for(const struct sw_picker *p, const struct sw_service *svc,
                         const struct sw_workload *w)
{
    return svc->mode == SW_LB_FAILOVER ? rank_of(svc, p->source, w) : 0;
}

static struct tally count(const struct sw_picker *p, const struct sw_service *svc, uint16_t port,
                          enum sw_pick_use use)
{
    struct tally t = {0};

    for (size_t i = 0; i < svc->n_endpoints; i++) {
        const struct sw_workload *w = svc->endpoints[i];
        unsigned rank;

        if (!eligible(p, svc, w, port, use))
            continue;
        if (endpoint_was_tried(p, w)) {
            t.tried = true;
            continue;
        }
        rank = rank_for(p, svc, w);
        if (rank > t.rank) {
            t.rank = rank;
            t.weight = 0;
        }
        if (rank == t.rank)
            t.weight += sw_workload_capacity(w);
    }
    return t;
}

static const struct sw_workload *pick_weighted(const struct sw_picker *p,
                                               const struct sw_service *svc, uint16_t port,
                                               enum sw_pick_use use, const struct tally *t)
{
    uint64_t left = draw(p, t->weight);

    for (size_t i = 0; i < svc->n_endpoints; i++) {
        const struct sw_workload *w = svc->endpoints[i];

        if (!eligible(p, svc, w, port, use) || endpoint_was_tried(p, w) ||
            rank_for(p, svc, w) != t->rank)
            continue;
        if (left < sw_workload_capacity(w))
            return w;
        left -= sw_workload_capacity(w);
    }
    return NULL;
}

/* All alike and none excluded: no need to look at each. */
static const struct sw_workload *pick_uniform(const struct sw_picker *p,
                                              const struct sw_service *svc, uint16_t port)
{
    const struct sw_port_pair *declared = sw_service_port(svc, port);

    if (!svc->uniform || svc->n_endpoints == 0 || svc->mode != SW_LB_STANDARD || !declared ||
        declared->target_port == 0 || (p->tried && p->tried->n))
        return NULL;
    return svc->endpoints[draw(p, svc->n_endpoints)];
}

enum sw_pick_result sw_pick_endpoint(const struct sw_picker *p, const struct sw_service *svc,
                                     uint16_t port, enum sw_pick_use use, struct sw_upstream *ret)
{
    const struct sw_workload *w = pick_uniform(p, svc, port);
    uint16_t to;

    if (!w) {
        struct tally t = count(p, svc, port, use);

        if (t.weight == 0)
            return t.tried ? SW_PICK_EXHAUSTED : SW_PICK_NONE;
        w = pick_weighted(p, svc, port, use, &t);
    }
    to = w ? target_port(svc, w, port) : 0;
    if (to == 0)
        return SW_PICK_NONE;
    *ret = (struct sw_upstream){.w = w, .svc = svc, .port = to};
    return SW_PICK_OK;
}

/* ---- references ---- */

void sw_gateway_find(const struct sw_state *s, const struct sw_gateway_addr *gw,
                     struct sw_slice client_ns, const struct sw_service **ret_svc,
                     const struct sw_workload **ret_w)
{
    *ret_w = NULL;
    if (gw->by_hostname) {
        *ret_svc = sw_state_service_by_key(s, gw->ns, gw->hostname);
        if (!*ret_svc)
            *ret_w = sw_state_workload_by_hostname(s, gw->ns, gw->hostname);
        return;
    }
    *ret_svc = sw_state_service_by_vip(s, gw->network, &gw->ip, client_ns);
    if (!*ret_svc)
        *ret_w = sw_state_workload_by_ip(s, gw->network, &gw->ip);
}

enum sw_pick_result sw_pick_gateway(const struct sw_picker *p, const struct sw_gateway_addr *gw,
                                    enum sw_pick_use use, struct sw_upstream *ret)
{
    const struct sw_service *svc;
    const struct sw_workload *w;

    sw_gateway_find(p->s, gw, p->source->c->ns, &svc, &w);
    if (svc)
        return svc->mode == SW_LB_PASSTHROUGH ? SW_PICK_NONE
                                              : sw_pick_endpoint(p, svc, gw->hbone_port, use, ret);
    if (!w || gw->hbone_port == 0)
        return SW_PICK_NONE;
    if (sw_pick_was_tried(p, w))
        return SW_PICK_EXHAUSTED;
    *ret = (struct sw_upstream){.w = w, .port = gw->hbone_port};
    return SW_PICK_OK;
}

static uint64_t weight_now(const struct sw_picker *p, const struct sw_weighted_waypoint *to)
{
    return gateway_was_tried(p, &to->to) ? 0 : to->weight;
}

/* Nothing to draw from: no weights at all, or all were tried and one of them has to say so. */
static const struct sw_gateway_addr *first_weighted(const struct sw_service *svc)
{
    for (size_t i = 0; i < svc->n_weighted; i++) {
        if (svc->weighted[i].weight)
            return &svc->weighted[i].to;
    }
    return svc->waypoint;
}

const struct sw_gateway_addr *sw_pick_waypoint(const struct sw_picker *p,
                                               const struct sw_service *svc)
{
    uint64_t total = 0;
    uint64_t left;

    for (size_t i = 0; i < svc->n_weighted; i++)
        total += weight_now(p, &svc->weighted[i]);
    if (total == 0)
        return first_weighted(svc);
    left = draw(p, total);
    for (size_t i = 0; i < svc->n_weighted; i++) {
        uint64_t weight = weight_now(p, &svc->weighted[i]);

        if (left < weight)
            return &svc->weighted[i].to;
        left -= weight;
    }
    return svc->waypoint;
}

/* Two records may describe one workload (a pod and an entry made for it): addresses tell. */
static bool same_workload(const struct sw_workload *a, const struct sw_workload *b)
{
    if (a == b)
        return true;
    if (!sw_slice_eq(a->at->network, b->at->network) ||
        !sw_slice_eq(a->c->identity, b->c->identity))
        return false;
    for (unsigned i = 0; i < b->n_ips; i++) {
        struct sw_ip ip = sw_workload_ip(b, i);

        if (sw_workload_has_ip(a, &ip))
            return true;
    }
    return false;
}

bool sw_gateway_is(const struct sw_state *s, const struct sw_gateway_addr *gw,
                   const struct sw_workload *w)
{
    const struct sw_service *svc;
    const struct sw_workload *other;

    /* The reference was made by the control plane: its own namespace sees it. */
    sw_gateway_find(s, gw, gw->by_hostname ? gw->ns : w->c->ns, &svc, &other);
    if (svc)
        return sw_workload_in_service(w, svc);
    return other && same_workload(other, w);
}
