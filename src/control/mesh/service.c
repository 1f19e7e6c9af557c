/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/service.h"

#include <proto/workload.pb-c.h>

#include "base/hash.h"
#include "base/mem.h"
#include "control/mesh/ledger.h"
#include "control/mesh/message.h"
#include "control/mesh/read/distribution.h"
#include "control/mesh/scope.h"
#include "control/mesh/waypoint.h"
#include "proto/pb.h"

/* ---- who wins ---- */

/* True when x goes before y: Services first, then the oldest, then by name. */
static bool beats(const struct mesh_offer *x, const struct mesh_offer *y)
{
    int d;

    if (x->of->entry != y->of->entry)
        return !x->of->entry;
    d = sw_slice_cmp(x->of->created, y->of->created);
    return d ? d < 0 : sw_slice_cmp(x->of->key, y->of->key) < 0;
}

/*
 * Of another cluster only what both sides call GLOBAL counts, and the Services of its waypoints
 * where we have none of that name.
 */
static bool is_seen(const struct sw_mesh_index *ix, const struct mesh_offer *o)
{
    const struct mesh_offer *ours = ix->conf.home ? mesh_offer_find(ix->conf.home, o->key) : NULL;

    if (!ix->conf.home)
        return true;
    return ours ? ours->of->global && o->of->global : o->of->global || o->of->gateway_managed;
}

static bool wins(const struct sw_mesh_index *ix, const struct mesh_host *h,
                 const struct mesh_offer *o)
{
    if (!is_seen(ix, o) || mesh_is_hidden(o->of))
        return false;
    SW_VEC_EACH (const struct mesh_offer, other, &h->offers) {
        if (other != o && other->of->ns == o->of->ns && beats(other, o))
            return false;
    }
    return true;
}

/* One of a host is canonical: a Service, else the oldest entry that all may see. */
static const struct mesh_offer *canonical_of(const struct sw_mesh_index *ix,
                                             const struct mesh_host *h)
{
    const struct mesh_offer *best = NULL;

    SW_VEC_EACH (const struct mesh_offer, o, &h->offers) {
        if ((o->of->entry && o->of->ns->visibility == SW_MESH_VISIBILITY_NAMESPACE) ||
            mesh_is_hidden(o->of) || !is_seen(ix, o))
            continue;
        if (!best || beats(o, best))
            best = o;
    }
    return best;
}

struct mesh_offer *mesh_offer_find(const struct sw_mesh_index *ix, struct sw_slice key)
{
    struct sw_slice host = key;
    const struct mesh_host *h;

    (void)sw_slice_cut(&host, '/');
    h = host.p ? sw_map_get(&ix->hosts, host) : NULL;
    for (size_t i = 0; h && i < h->offers.n; i++) {
        if (h->offers.p[i]->won && sw_slice_eq(h->offers.p[i]->key, key))
            return h->offers.p[i];
    }
    return NULL;
}

/* ---- the resource ---- */

static void put_addresses(const struct sw_mesh_index *ix, Sw__MeshService *m,
                          const struct mesh_offer *o, struct sw_arena *a)
{
    m->addresses = sw_arena_array(a, o->n_addresses + 1, sizeof(void *));
    for (size_t i = 0; i < o->n_addresses; i++) {
        Sw__MeshNetworkAddress *n = SW_PB_NEW(a, Sw__MeshNetworkAddress, sw__mesh_network_address);
        const struct sw_cidr *c = &o->addresses[i];

        n->network = SW_PB_BYTES(mesh_str(ix->network));
        n->address = SW_PB_BYTES(sw_slice(c->ip.b, sw_ip_len(&c->ip)));
        if (c->len != 8 * sw_ip_len(&c->ip)) {
            n->length_present_case = SW__MESH_NETWORK_ADDRESS__LENGTH_PRESENT_LENGTH;
            n->length = c->len;
        }
        m->addresses[m->n_addresses++] = n;
    }
}

static void put_ports(Sw__MeshService *m, const struct mesh_svc *s, struct sw_arena *a)
{
    m->ports = sw_arena_array(a, s->n_ports + 1, sizeof(void *));
    for (size_t i = 0; i < s->n_ports; i++) {
        Sw__MeshPort *p = SW_PB_NEW(a, Sw__MeshPort, sw__mesh_port);

        p->service_port = s->ports[i].port;
        p->target_port = s->ports[i].target;
        p->app_protocol = (Sw__MeshPort__AppProtocol)s->ports[i].app;
        m->ports[m->n_ports++] = p;
    }
}

static enum mesh_distribution distribution_of(const struct mesh_svc *s)
{
    if (s->distribution != MESH_DISTRIBUTION_NONE || !s->ns->distribution)
        return s->distribution;
    return mesh_distribution(mesh_str(s->ns->distribution));
}

/* NULL when nothing is set. */
static Sw__MeshLoadBalancing *balancing_of(const struct mesh_svc *s, struct sw_arena *a)
{
    static Sw__MeshLoadBalancing__Scope near[] = {
        SW__MESH_LOAD_BALANCING__SCOPE__NETWORK, SW__MESH_LOAD_BALANCING__SCOPE__REGION,
        SW__MESH_LOAD_BALANCING__SCOPE__ZONE, SW__MESH_LOAD_BALANCING__SCOPE__SUBZONE,
        SW__MESH_LOAD_BALANCING__SCOPE__NODE};
    enum mesh_distribution d = distribution_of(s);
    bool passthrough = s->entry && s->resolution == MESH_RESOLUTION_NONE;
    bool near_zone = d == MESH_DISTRIBUTION_ZONE;
    Sw__MeshLoadBalancing *m = SW_PB_NEW(a, Sw__MeshLoadBalancing, sw__mesh_load_balancing);

    if (passthrough || s->publish_not_ready)
        m->health_policy = SW__MESH_LOAD_BALANCING__HEALTH_POLICY__ALLOW_ALL;
    if (passthrough) {
        m->mode = SW__MESH_LOAD_BALANCING__MODE__PASSTHROUGH;
    } else if (s->local_only) {
        m->mode = SW__MESH_LOAD_BALANCING__MODE__STRICT;
        m->routing_preference = near + 4;
        m->n_routing_preference = 1;
    } else if (near_zone || d == MESH_DISTRIBUTION_NODE) {
        m->mode = SW__MESH_LOAD_BALANCING__MODE__FAILOVER;
        m->routing_preference = near;
        m->n_routing_preference = near_zone ? 3 : SW_ARRAY_LEN(near);
    } else if (!s->publish_not_ready) {
        return NULL;
    }
    return m;
}

static Sw__MeshWeightedWaypoint *weighted(const struct sw_mesh_index *ix, struct sw_arena *a,
                                          const struct mesh_gateway *g, uint32_t weight)
{
    Sw__MeshWeightedWaypoint *m =
        SW_PB_NEW(a, Sw__MeshWeightedWaypoint, sw__mesh_weighted_waypoint);

    m->destination = mesh_msg_waypoint(ix, a, g);
    m->weight = weight;
    return m;
}

/* How many services ask for a waypoint that there is not. */
static void count_missing(struct sw_mesh_index *ix, struct mesh_offer *o, enum mesh_missing now)
{
    ix->missing[o->missing]--;
    ix->missing[now]++;
    o->missing = now;
}

void mesh_offer_leave(struct sw_mesh_index *ix, struct mesh_offer *o)
{
    count_missing(ix, o, MESH_MISSING_NONE);
}

static void put_waypoint(struct sw_mesh_index *ix, Sw__MeshService *m, struct mesh_offer *o,
                         struct sw_arena *a)
{
    const struct mesh_binding b = mesh_bind_service(ix, o->of, a);

    count_missing(ix, o,
                  b.held               ? MESH_MISSING_HELD
                  : b.key.n && b.error ? MESH_MISSING_PASSED
                                       : MESH_MISSING_NONE);
    m->waypoint = mesh_msg_binding(ix, a, &b);
    if (!b.waypoint)
        return;
    m->ingress_use_waypoint = b.ingress;
    if (!b.canary)
        return;
    m->weighted_waypoints = sw_arena_array(a, 2, sizeof(void *));
    m->weighted_waypoints[m->n_weighted_waypoints++] = weighted(ix, a, b.waypoint, 100 - b.weight);
    m->weighted_waypoints[m->n_weighted_waypoints++] = weighted(ix, a, b.canary, b.weight);
}

static size_t put_aliases(struct sw_arena *a, const Sw__MeshService *m, struct sw_slice **ret)
{
    struct sw_slice *out = sw_arena_array(a, m->n_addresses + 1, sizeof(*out));
    char text[SW_IP_TEXT];
    struct sw_err err;
    size_t n = 0;

    for (size_t i = 0; i < m->n_addresses; i++) {
        const Sw__MeshNetworkAddress *at = m->addresses[i];
        struct sw_slice net = SW_PB_SLICE(at->network);
        struct sw_ip ip;

        if (sw_ip_from_bytes(at->address.data, at->address.len, &ip, &err) != SW_OK)
            continue;
        if (at->length_present_case == SW__MESH_NETWORK_ADDRESS__LENGTH_PRESENT_LENGTH)
            out[n++] = sw_slice_str(sw_arena_printf(a, "%.*s/%s/%u", SW_SLICE_ARG(net),
                                                    sw_ip_text(&ip, text), at->length));
        else
            out[n++] = sw_slice_str(
                sw_arena_printf(a, "%.*s/%s", SW_SLICE_ARG(net), sw_ip_text(&ip, text)));
    }
    *ret = out;
    return n;
}

static void put_sans(Sw__MeshService *m, const struct mesh_svc *s, struct sw_arena *a)
{
    m->subject_alt_names = sw_arena_array(a, s->n_sans + 1, sizeof(*m->subject_alt_names));
    for (size_t i = 0; i < s->n_sans; i++)
        m->subject_alt_names[m->n_subject_alt_names++] = SW_PB_BYTES(s->sans[i]);
}

Sw__MeshService *mesh_service_message(struct sw_mesh_index *ix, struct mesh_offer *o,
                                      struct sw_arena *a)
{
    const struct mesh_svc *s = o->of;
    Sw__MeshService *v = SW_PB_NEW(a, Sw__MeshService, sw__mesh_service);

    v->name = SW_PB_BYTES(s->name);
    v->namespace_ = SW_PB_BYTES(mesh_str(s->ns->name));
    v->hostname = SW_PB_BYTES(mesh_str(o->host->name));
    v->canonical = o->canonical;
    v->ip_families = (Sw__MeshIPFamilies)s->families;
    if (s->entry && s->ns->visibility == SW_MESH_VISIBILITY_NAMESPACE)
        v->visibility = SW__MESH_SERVICE__VISIBILITY__NAMESPACE;
    put_addresses(ix, v, o, a);
    put_ports(v, s, a);
    put_sans(v, s, a);
    put_waypoint(ix, v, o, a);
    v->load_balancing = balancing_of(s, a);
    return v;
}

struct sw_mesh_change mesh_service_change(struct sw_arena *a, struct sw_slice key,
                                          Sw__MeshService *v)
{
    Sw__MeshAddress m = SW__MESH_ADDRESS__INIT;
    struct sw_mesh_change c = {.name = key};
    struct sw_slice *aliases;

    m.type_case = SW__MESH_ADDRESS__TYPE_SERVICE;
    m.service = v;
    c.n_aliases = put_aliases(a, v, &aliases);
    c.aliases = aliases;
    c.value = sw_pb_pack(a, &m.base);
    return c;
}

static void emit(struct sw_mesh_index *ix, struct mesh_offer *o)
{
    struct sw_mesh_change c =
        mesh_service_change(&ix->tmp, o->key, mesh_service_message(ix, o, &ix->tmp));

    c.global = o->of->global;
    mesh_publish(ix, &o->emitted, &c);
}

static uint64_t bound_of(const struct sw_mesh_index *ix, const struct mesh_svc *s,
                         struct sw_arena *a)
{
    const struct mesh_binding b = mesh_bind_service(ix, s, a);
    const struct sw_slice waypoint = b.waypoint ? b.waypoint->key : sw_slice("", 0);
    const struct sw_slice canary = b.canary ? b.canary->key : sw_slice("", 0);
    const uint64_t h[] = {sw_hash(waypoint.p, waypoint.n), sw_hash(canary.p, canary.n)};

    return sw_hash(h, sizeof(h));
}

void mesh_host_renew(struct sw_mesh_index *ix, struct mesh_host *h,
                     void (*flipped)(struct sw_mesh_index *ix, struct mesh_svc *s))
{
    const struct mesh_offer *canonical;

    for (size_t i = 0; i < h->offers.n; i++) {
        struct mesh_svc *s = h->offers.p[i]->of;
        bool global = mesh_is_global(ix, s);

        if (global != s->global) {
            s->global = global;
            flipped(ix, s);
        }
    }
    canonical = canonical_of(ix, h);
    SW_VEC_EACH (struct mesh_offer, o, &h->offers) {
        bool won = wins(ix, h, o);

        o->canonical = o == canonical;
        if (won != o->won) {
            o->won = won;
            flipped(ix, o->of);
        }
        if (!won) {
            mesh_offer_leave(ix, o);
            mesh_retire(ix, &o->emitted, o->key);
        }
    }
    /* After the losers, whose names the winners take over. */
    SW_VEC_EACH (struct mesh_offer, o, &h->offers) {
        uint64_t bound;

        if (!o->won)
            continue;
        emit(ix, o);
        bound = bound_of(ix, o->of, &ix->tmp);
        if (bound != o->bound)
            flipped(ix, o->of);
        o->bound = bound;
    }
}
