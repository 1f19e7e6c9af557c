/* SPDX-License-Identifier: Apache-2.0 */
/* The outbound table, top to bottom. */
#include <assert.h>
#include <stdio.h>

#include "node/route_int.h"

/* Where the decision stands while the rows are tried. */
struct outbound {
    struct sw_picker pick;
    const struct sw_addr *dst;
    const struct sw_service *service; /* what the destination address is, when it is a service */
    struct sw_route_outbound *r;
};

bool sw_route_own_port(const struct sw_route_env *env, uint16_t port)
{
    return port == SW_PORT_HBONE || port == SW_PORT_INBOUND_PLAIN || port == SW_PORT_OUTBOUND ||
           (port == SW_PORT_SOCKS5 && env->socks5);
}

size_t sw_route_sans_count(const struct sw_route_sans *s)
{
    return s->n_service + (s->own.n ? 1 : 0);
}

struct sw_slice sw_route_sans_at(const struct sw_route_sans *s, size_t i)
{
    return i < s->n_service ? s->service[i] : i == s->n_service ? s->own : sw_slice("", 0);
}

static void drop(struct outbound *o, enum sw_route_drop why, const char *fmt, ...) SW_PRINTF(3, 4);

static void drop(struct outbound *o, enum sw_route_drop why, const char *fmt, ...)
{
    va_list ap;

    *o->r = (struct sw_route_outbound){.kind = SW_ROUTE_DROP, .drop = why, .service = o->service};
    va_start(ap, fmt);
    (void)vsnprintf(o->r->reason, sizeof(o->r->reason), fmt, ap);
    va_end(ap);
}

/* 'what': a waypoint or network gateway; gw names it. */
static void drop_unpicked(struct outbound *o, enum sw_pick_result got, enum sw_route_drop why,
                          const char *what, const struct sw_gateway_addr *gw)
{
    struct sw_addr at = {.ip = gw->ip, .port = gw->hbone_port};
    char text[SW_ADDR_TEXT];

    if (got == SW_PICK_EXHAUSTED)
        drop(o, SW_DROP_EXHAUSTED, "unknown %s: every candidate was tried", what);
    else if (gw->by_hostname)
        drop(o, why, "unknown %s: %s %.*s not found", what, what,
             SW_SLICE_ARG_MAX(gw->hostname, 128));
    else
        drop(o, why, "unknown %s: %s %.*s/%s not found", what, what,
             SW_SLICE_ARG_MAX(gw->network, 64), sw_addr_text(&at, text));
}

static struct sw_route_sans sans_of(const struct sw_upstream *up)
{
    return (struct sw_route_sans){.service = up->svc ? up->svc->sans : NULL,
                                  .n_service = up->svc ? up->svc->n_sans : 0,
                                  .own = up->w->c->identity};
}

/*
 * Which address of the chosen workload to dial: the wanted one when it is its own, else one of
 * the allowed families, the wanted family first. False: none.
 */
static bool choose_ip(const struct sw_upstream *up, const struct sw_ip *wanted, struct sw_ip *ret)
{
    enum sw_ip_families families = up->svc ? up->svc->families : SW_FAMILIES_AUTO;
    struct sw_ip best = {0};

    for (unsigned i = 0; i < up->w->n_ips; i++) {
        struct sw_ip ip = sw_workload_ip(up->w, i);

        if (sw_ip_eq(&ip, wanted)) {
            *ret = ip;
            return true;
        }
        if (sw_ip_family_allowed(families, ip.family) &&
            (!best.family || (ip.family == wanted->family && best.family != wanted->family)))
            best = ip;
    }
    if (best.family)
        *ret = best;
    return best.family != 0;
}

/* Fills in whom to dial; false (and a drop) when the workload has neither address nor name. */
static bool aim(struct outbound *o, const struct sw_upstream *up, const struct sw_ip *wanted,
                uint16_t port)
{
    struct sw_ip ip;

    o->r->workload = up->w;
    o->r->prefer_family = wanted->family;
    o->r->families = up->svc ? up->svc->families : SW_FAMILIES_AUTO;
    o->r->target.port = port;
    if (choose_ip(up, wanted, &ip)) {
        o->r->target.ip = ip;
        return true;
    }
    if (up->w->has_hostname) {
        o->r->hostname = sw_workload_hostname(up->w);
        return true;
    }
    drop(o, SW_DROP_NO_ADDRESS, "workload '%.*s%.*s' has no address that can be dialled",
         SW_UID_ARG(up->w));
    return false;
}

static void address_authority(char out[SW_ROUTE_AUTHORITY], const struct sw_addr *a)
{
    char text[SW_ADDR_TEXT];

    (void)snprintf(out, SW_ROUTE_AUTHORITY, "%s", sw_addr_text(a, text));
}

static void start(struct outbound *o, enum sw_route_kind kind)
{
    *o->r = (struct sw_route_outbound){.kind = kind, .service = o->service};
}

/* O2b, O5: through a waypoint of the own network. */
static void to_waypoint(struct outbound *o, const struct sw_gateway_addr *gw,
                        const struct sw_upstream *way)
{
    /* By address the waypoint's family decides, by name the caller's. */
    const struct sw_ip *wanted = gw->by_hostname ? &o->dst->ip : &gw->ip;

    start(o, SW_ROUTE_HBONE);
    if (!aim(o, way, wanted, way->port))
        return;
    address_authority(o->r->authority, o->dst);
    o->r->sans = sans_of(way);
    o->r->via_waypoint = true;
}

/*
 * O2a, O4: into another network through the gateway of 'to'. Both tunnels are addressed by name,
 * so the intention has to be a service; the inner one ends at whoever carries its names.
 */
static void to_gateway(struct outbound *o, const struct sw_upstream *to, bool to_is_waypoint)
{
    const struct sw_gateway_addr *gw = to->w->c->network_gateway;
    struct sw_upstream gate;
    enum sw_pick_result got;

    if (!o->service) {
        drop(o, SW_DROP_GATEWAY,
             "workload '%.*s%.*s' is on another network and only services can be "
             "reached there",
             SW_UID_ARG(to->w));
        return;
    }
    if (!gw) {
        drop(o, SW_DROP_GATEWAY, "workload '%.*s%.*s' is on another network without a gateway",
             SW_UID_ARG(to->w));
        return;
    }
    got = sw_pick_gateway(&o->pick, gw, SW_PICK_STANDARD, &gate);
    if (got != SW_PICK_OK) {
        drop_unpicked(o, got, SW_DROP_GATEWAY, "network gateway", gw);
        return;
    }
    start(o, SW_ROUTE_DOUBLE_HBONE);
    if (!aim(o, &gate, gw->by_hostname ? &o->dst->ip : &gw->ip, gate.port))
        return;
    (void)snprintf(o->r->authority, sizeof(o->r->authority), "%.*s:%u",
                   SW_SLICE_ARG(o->service->hostname), o->dst->port);
    (void)snprintf(o->r->inner_authority, sizeof(o->r->inner_authority), "%s", o->r->authority);
    o->r->sans = sans_of(&gate);
    if (to->svc)
        o->r->inner_sans =
            (struct sw_route_sans){.service = to->svc->sans, .n_service = to->svc->n_sans};
    o->r->via_gateway = true;
    o->r->via_waypoint = to_is_waypoint;
}

static bool other_network(const struct outbound *o, const struct sw_workload *w)
{
    return !sw_slice_eq(w->at->network, o->pick.source->at->network);
}

/* O2: true when the row decided. */
static bool by_service_waypoint(struct outbound *o)
{
    const struct sw_gateway_addr *gw = o->service ? sw_pick_waypoint(&o->pick, o->service) : NULL;
    struct sw_upstream way;
    enum sw_pick_result got;

    if (!gw)
        return false;
    got = sw_pick_gateway(&o->pick, gw, SW_PICK_WAYPOINT, &way);
    if (got != SW_PICK_OK)
        drop_unpicked(o, got, SW_DROP_WAYPOINT, "waypoint", gw);
    else if (other_network(o, way.w))
        to_gateway(o, &way, true);
    else
        to_waypoint(o, gw, &way);
    return true;
}

/*
 * A service and a workload that both have the address. What objects say of addresses is their
 * writers' to choose, except of pods: where the two are of different namespaces, and the service is
 * not of the client's own, a pod is not replaced by a service, and a service of just this address
 * not hidden by an entry.
 */
static bool are_apart(const struct outbound *o, const struct sw_service *svc,
                      const struct sw_workload *w)
{
    return !sw_slice_eq(svc->ns, w->c->ns) && !sw_slice_eq(svc->ns, o->pick.source->c->ns);
}

static bool yields(const struct outbound *o, const struct sw_service *svc,
                   const struct sw_workload *w)
{
    if (sw_workload_is_pod(w))
        return true;
    for (size_t i = 0; i < svc->n_vips; i++) {
        if (sw_ip_eq(&svc->vips[i].ip, &o->dst->ip))
            return false;
    }
    return true; /* it only has a block around it */
}

/* For O2: a workload of the same side makes the address no service, whatever O3 will find. */
static const struct sw_service *service_at(const struct outbound *o)
{
    const struct sw_ip *ip = &o->dst->ip;
    struct sw_slice network = o->pick.env->network;
    const struct sw_workload *w = sw_state_workload_by_ip(o->pick.s, network, ip);
    const struct sw_service *svc =
        sw_state_service_by_vip(o->pick.s, network, ip, o->pick.source->c->ns);

    if (svc && w && (!are_apart(o, svc, w) || yields(o, svc, w)))
        return NULL;
    return svc;
}

/* O3: the workload behind the address; none for PASSTHROUGH services. */
static enum sw_pick_result find_upstream(struct outbound *o, struct sw_upstream *ret)
{
    const struct sw_workload *source = o->pick.source;
    const struct sw_service *svc =
        sw_state_service_by_vip(o->pick.s, source->at->network, &o->dst->ip, source->c->ns);
    const struct sw_workload *w =
        sw_state_workload_by_ip(o->pick.s, source->at->network, &o->dst->ip);

    if (svc && w && are_apart(o, svc, w) && yields(o, svc, w))
        svc = NULL;
    if (svc)
        return svc->mode == SW_LB_PASSTHROUGH
                   ? SW_PICK_NONE
                   : sw_pick_endpoint(&o->pick, svc, o->dst->port, SW_PICK_STANDARD, ret);
    if (!w)
        return SW_PICK_NONE;
    if (sw_pick_was_tried(&o->pick, w))
        return SW_PICK_EXHAUSTED;
    *ret = (struct sw_upstream){.w = w, .port = o->dst->port};
    return SW_PICK_OK;
}

/* O3a, O3b */
static void without_upstream(struct outbound *o, enum sw_pick_result got)
{
    char text[SW_ADDR_TEXT];

    if (got == SW_PICK_EXHAUSTED) {
        drop(o, SW_DROP_EXHAUSTED, "every endpoint was tried");
        return;
    }
    if (o->service && o->service->mode != SW_LB_PASSTHROUGH) {
        drop(o, SW_DROP_NO_UPSTREAM, "no healthy upstream: %s", sw_addr_text(o->dst, text));
        return;
    }
    start(o, SW_ROUTE_TCP);
    o->r->target = *o->dst;
    o->r->prefer_family = o->dst->ip.family;
}

/* O5: true when the row decided. */
static bool by_workload_waypoint(struct outbound *o, const struct sw_upstream *up)
{
    const struct sw_gateway_addr *gw = o->service ? NULL : up->w->c->waypoint;
    struct sw_upstream way;
    enum sw_pick_result got;

    /* The waypoint's own traffic to its workload must not meet the waypoint again. */
    if (!gw || sw_gateway_is(o->pick.s, gw, o->pick.source))
        return false;
    got = sw_pick_gateway(&o->pick, gw, SW_PICK_WAYPOINT, &way);
    if (got != SW_PICK_OK)
        drop_unpicked(o, got, SW_DROP_WAYPOINT, "waypoint", gw);
    else if (other_network(o, way.w))
        drop(o, SW_DROP_GATEWAY, "the workload's waypoint is on another network");
    else
        to_waypoint(o, gw, &way);
    return true;
}

/* O6, O7 */
static void to_workload(struct outbound *o, const struct sw_upstream *up)
{
    bool tunnel = up->w->c->protocol == SW_TUNNEL_HBONE;

    start(o, tunnel ? SW_ROUTE_HBONE : SW_ROUTE_TCP);
    if (!o->r->service)
        o->r->service = up->svc;
    if (!aim(o, up, &o->dst->ip, tunnel ? SW_PORT_HBONE : up->port))
        return;
    if (!tunnel)
        return;
    o->r->sans = sans_of(up);
    o->r->authority_is_target = true;
    o->r->app_port = up->port;
    if (o->r->hostname.n == 0)
        sw_route_resolved(o->r, &o->r->target.ip);
}

void sw_route_resolved(struct sw_route_outbound *r, const struct sw_ip *ip)
{
    struct sw_ip copy = *ip;

    r->target.ip = copy;
    if (r->authority_is_target)
        address_authority(r->authority, &(struct sw_addr){.ip = copy, .port = r->app_port});
}

void sw_route_outbound(const struct sw_state *s, const struct sw_route_env *env,
                       const struct sw_workload *source, const struct sw_addr *dst,
                       const struct sw_route_tried *tried, struct sw_route_outbound *ret)
{
    struct outbound o = {
        .pick = {.s = s, .env = env, .source = source, .tried = tried}, .dst = dst, .r = ret};
    struct sw_upstream up;
    enum sw_pick_result got;

    if (sw_ip_is_loopback(&dst->ip) && sw_route_own_port(env, dst->port)) {
        drop(&o, SW_DROP_SELF_CALL, "attempted recursive call to ourselves");
        return;
    }
    o.service = service_at(&o);
    if (by_service_waypoint(&o))
        return;
    got = find_upstream(&o, &up);
    if (got != SW_PICK_OK)
        without_upstream(&o, got);
    else if (other_network(&o, up.w))
        to_gateway(&o, &up, false);
    else if (!by_workload_waypoint(&o, &up))
        to_workload(&o, &up);
}
