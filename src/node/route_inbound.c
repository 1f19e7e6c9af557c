/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inbound: what a CONNECT may reach, and through whom it has to come.
 *
 * Waypoint enforcement. A workload that names a waypoint of its own may be reached only through
 * it, but the receiving end sees just an address and a caller, so the rule has to leave open
 * every path that outbound proxies (ours or others) legitimately take past that waypoint:
 *
 *  - from a waypoint of the workload or of any service it belongs to: that is the path itself;
 *  - from the workload itself (same identity and one of its addresses);
 *  - when this workload is the waypoint the authority speaks of, or has an application tunnel
 *    and is addressed for another workload: it is not the destination then;
 *  - service traffic is never sent to workload waypoints. So when a service without a waypoint,
 *    visible to the caller and with a virtual address, leads to the port, direct connections to
 *    that port are ordinary and are let through. A service without addresses (headless) is dialled
 *    by pod address, hence by the waypoint, and opens nothing;
 *  - a waypoint on the service alone does not bind callers that dial the pod's own address: no
 *    outbound proxy would route those through it. Only a hostname authority says which service
 *    was meant; then that service's waypoint is required. A name of a service the workload is not
 *    in, or of a headless one, is no such way: the workload's own waypoint stays required;
 *  - plaintext (15006) carries no identity, so it never comes from a waypoint and is refused like
 *    any other caller; the node agent's probes do not pass here (the redirection exempts them).
 *
 * What stays locked out by design: gateways that skip the waypoint of a workload (they can be
 * configured to use it, or enforcement is switched off), and all clients while the waypoint
 * reference cannot be resolved, which outbound proxies refuse as well.
 */
#include <stdarg.h>
#include <stdio.h>

#include "node/headers.h"
#include "node/route_int.h"

struct inbound {
    const struct sw_state *s;
    const struct sw_route_env *env;
    const struct sw_route_inbound_request *req;
    struct sw_route_inbound *r;

    bool by_hostname;
    struct sw_slice host;         /* by hostname */
    struct sw_addr authority;     /* by address; with a hostname only the port is set */
    const struct sw_service *svc; /* by hostname */
    uint16_t port;                /* the workload's own that is meant, before any tunnel's */
};

static bool refuse(struct inbound *in, int status, const char *fmt, ...) SW_PRINTF(3, 4);

static bool refuse(struct inbound *in, int status, const char *fmt, ...)
{
    va_list ap;

    *in->r = (struct sw_route_inbound){.status = status, .early = status != 401};
    va_start(ap, fmt);
    (void)vsnprintf(in->r->reason, sizeof(in->r->reason), fmt, ap);
    va_end(ap);
    return false;
}

bool sw_route_inbound_plain(const struct sw_route_env *env, const struct sw_addr *dst,
                            char reason[SW_ROUTE_REASON])
{
    reason[0] = '\0';
    if (!sw_route_own_port(env, dst->port))
        return true;
    (void)snprintf(reason, SW_ROUTE_REASON, "attempted recursive call to ourselves");
    return false;
}

static bool parse_authority(struct inbound *in)
{
    struct sw_slice text = in->req->authority;
    struct sw_err err;

    if (sw_addr_parse(text, &in->authority, NULL) == SW_OK) {
        if (in->authority.port == 0)
            return refuse(in, 400, "no valid authority pseudo header: %.*s",
                          SW_SLICE_ARG_MAX(text, 64));
        return true;
    }
    if (sw_authority_split(text, &in->host, &in->authority.port, &err) != SW_OK)
        return refuse(in, 400, "no valid authority pseudo header: %.*s (%s)",
                      SW_SLICE_ARG_MAX(text, 64), err.msg);
    in->by_hostname = true;
    return true;
}

/* ---- is this workload the waypoint of what the authority names? ---- */

static bool is_waypoint_of_service(const struct inbound *in, const struct sw_service *svc)
{
    const struct sw_workload *local = in->req->local;

    if (svc->waypoint && sw_gateway_is(in->s, svc->waypoint, local))
        return true;
    for (size_t i = 0; i < svc->n_weighted; i++) {
        if (sw_gateway_is(in->s, &svc->weighted[i].to, local))
            return true;
    }
    return false;
}

static bool is_waypoint_of_address(const struct inbound *in)
{
    const struct sw_ip *ip = &in->authority.ip;
    /* Visibility is about the client, which is the caller. */
    struct sw_slice ns = in->req->src ? in->req->src->ns : in->req->local->c->ns;
    const struct sw_workload *w = sw_state_workload_by_ip(in->s, in->env->network, ip);
    const struct sw_service *svc = sw_state_service_by_vip(in->s, in->env->network, ip, ns);

    if (w && w->c->waypoint && sw_gateway_is(in->s, w->c->waypoint, in->req->local))
        return true;
    return svc && is_waypoint_of_service(in, svc);
}

static bool check_destination(struct inbound *in)
{
    char a[SW_IP_TEXT];
    char b[SW_IP_TEXT];

    if (in->by_hostname || sw_ip_eq(&in->authority.ip, &in->req->conn_dst.ip) ||
        in->req->local->c->has_app_tunnel || is_waypoint_of_address(in))
        return true;
    return refuse(in, 400, "ip mismatch: %s != %s", sw_ip_text(&in->req->conn_dst.ip, b),
                  sw_ip_text(&in->authority.ip, a));
}

/* ---- next hop ---- */

static bool port_by_hostname(struct inbound *in, uint16_t *ret)
{
    const struct sw_workload *local = in->req->local;
    const struct sw_port_pair *declared;
    uint16_t port;

    in->svc = sw_state_service_by_hostname(in->s, in->host, local->c->ns);
    if (!in->svc)
        return refuse(in, 503, "no service or workload for hostname: %.*s",
                      SW_SLICE_ARG_MAX(in->host, 128));
    port = sw_workload_target_port(local, in->svc, in->authority.port);
    declared = sw_service_port(in->svc, in->authority.port);
    if (port == 0 && declared)
        port = declared->target_port;
    if (port == 0)
        return refuse(in, 503, "requested service %.*s:%u found, but cannot resolve port",
                      SW_SLICE_ARG_MAX(in->host, 128), in->authority.port);
    *ret = port;
    return true;
}

static bool next_hop(struct inbound *in)
{
    const struct sw_workload_class *c = in->req->local->c;
    uint16_t port = in->authority.port;

    if (in->by_hostname && !port_by_hostname(in, &port))
        return false;
    if (sw_route_own_port(in->env, port))
        return refuse(in, 503, "attempted recursive call to ourselves");
    in->port = port;
    if (c->has_app_tunnel && c->app_tunnel_port)
        port = c->app_tunnel_port;
    in->r->rbac_dst = (struct sw_addr){.ip = in->req->conn_dst.ip, .port = port};
    in->r->connect = in->r->rbac_dst;
    return true;
}

/* The address shown in the PROXY header for a destination that was named. */
static const struct sw_network_addr *vip_to_show(const struct inbound *in)
{
    const struct sw_network_addr *best = NULL;
    int best_score = -1;

    for (size_t i = 0; i < in->svc->n_vips; i++) {
        const struct sw_network_addr *v = &in->svc->vips[i];
        int score = (sw_slice_eq(v->network, in->env->network) ? 2 : 0) + (v->ip.family == 4);

        if (score > best_score) {
            best_score = score;
            best = v;
        }
    }
    return best;
}

static bool app_tunnel(struct inbound *in)
{
    const struct sw_workload_class *c = in->req->local->c;
    struct sw_route_inbound *r = in->r;

    if (!c->has_app_tunnel || c->app_tunnel != SW_APP_TUNNEL_PROXY)
        return true;
    r->proxy_protocol = true;
    r->proxy_dst = in->authority;
    if (in->by_hostname) {
        const struct sw_network_addr *v = vip_to_show(in);

        if (!v)
            return refuse(in, 503, "requested service %.*s found, but has no IP addresses",
                          SW_SLICE_ARG_MAX(in->host, 128));
        r->proxy_dst.ip = v->ip;
    }
    if (in->env->localhost_app_tunnel) {
        struct sw_ip lo = {.family = r->connect.ip.family};

        if (lo.family == 4) {
            lo.b[0] = 127;
            lo.b[3] = 1;
        } else {
            lo.b[15] = 1;
        }
        r->connect.ip = lo;
        r->from_loopback = true;
    }
    return true;
}

/* ---- callers that are waypoints ---- */

static bool caller_in_gateway(const struct sw_state *s, const struct sw_gateway_addr *gw,
                              struct sw_slice client_ns, const struct sw_spiffe *id)
{
    const struct sw_workload_class *seen = NULL;
    const struct sw_service *svc;
    const struct sw_workload *w;

    sw_gateway_find(s, gw, client_ns, &svc, &w);
    if (!svc)
        return w && sw_policy_caller_is(id, w->c->identity);
    for (size_t i = 0; i < svc->n_sans; i++) {
        if (sw_policy_caller_is(id, svc->sans[i]))
            return true;
    }
    for (size_t i = 0; i < svc->n_endpoints; i++) {
        const struct sw_workload_class *c = svc->endpoints[i]->c;

        if (c != seen && sw_policy_caller_is(id, c->identity))
            return true;
        seen = c;
    }
    return false;
}

static bool caller_in_service_waypoints(const struct sw_state *s, const struct sw_service *svc,
                                        const struct sw_spiffe *id)
{
    if (svc->waypoint && caller_in_gateway(s, svc->waypoint, svc->ns, id))
        return true;
    for (size_t i = 0; i < svc->n_weighted; i++) {
        if (caller_in_gateway(s, &svc->weighted[i].to, svc->ns, id))
            return true;
    }
    return false;
}

static const struct sw_service *service_of(const struct sw_state *s, const struct sw_membership *m)
{
    return sw_state_service_by_key(s, m->ns, m->hostname);
}

bool sw_route_is_waypoint_of(const struct sw_state *s, const struct sw_workload *w,
                             const struct sw_spiffe *id)
{
    if (!id)
        return false;
    if (w->c->waypoint && caller_in_gateway(s, w->c->waypoint, w->c->ns, id))
        return true;
    for (size_t i = 0; i < w->c->n_services; i++) {
        const struct sw_service *svc = service_of(s, &w->c->services[i]);

        if (svc && caller_in_service_waypoints(s, svc, id))
            return true;
    }
    return false;
}

static bool leads_to(const struct sw_workload *w, const struct sw_membership *m,
                     const struct sw_service *svc, uint16_t port)
{
    for (size_t i = 0; i < m->n_ports; i++) {
        if (m->ports[i].target_port == port)
            return true;
    }
    for (size_t i = 0; i < svc->n_ports; i++) {
        const struct sw_port_pair *p = &svc->ports[i];

        if (p->target_port == port && sw_workload_target_port(w, svc, p->service_port) == 0)
            return true;
    }
    return false;
}

/* Some service without a waypoint sends its clients straight to this port. */
static bool direct_path(const struct inbound *in)
{
    const struct sw_workload *w = in->req->local;

    for (size_t i = 0; i < w->c->n_services; i++) {
        const struct sw_membership *m = &w->c->services[i];
        const struct sw_service *svc = service_of(in->s, m);

        if (svc && !sw_service_has_waypoint(svc) && svc->n_vips + svc->n_cidr_vips > 0 &&
            sw_service_visible(svc, in->req->src ? in->req->src->ns : sw_slice("", 0)) &&
            leads_to(w, m, svc, in->port))
            return true;
    }
    return false;
}

/* A name says which service was meant: then that one decides, if it can have sent the caller. */
static bool name_decides(const struct inbound *in, bool *ret_required)
{
    const struct sw_workload *w = in->req->local;
    const struct sw_service *svc = in->svc;

    *ret_required = false;
    if (is_waypoint_of_service(in, svc))
        return true;
    if (!sw_workload_in_service(w, svc))
        return w->c->has_app_tunnel; /* else a foreign name would be a way round the waypoint */
    *ret_required = sw_service_has_waypoint(svc);
    return *ret_required || svc->n_vips + svc->n_cidr_vips > 0;
}

static bool waypoint_required(const struct inbound *in)
{
    const struct sw_workload *w = in->req->local;
    bool required;

    if (!in->env->enforce_waypoint)
        return false;
    if (in->by_hostname && name_decides(in, &required))
        return required;
    if (!w->c->waypoint ||
        (!in->by_hostname && !sw_ip_eq(&in->authority.ip, &in->req->conn_dst.ip)))
        return false;
    return !sw_gateway_is(in->s, w->c->waypoint, w) && !direct_path(in);
}

static bool caller_is_self(const struct inbound *in)
{
    const struct sw_workload *w = in->req->local;

    return in->req->src && sw_policy_caller_is(in->req->src, w->c->identity) &&
           sw_workload_has_ip(w, &in->req->peer_ip);
}

static bool check_waypoint(struct inbound *in)
{
    in->r->by_address = !in->by_hostname;
    in->r->from_waypoint = sw_route_is_waypoint_of(in->s, in->req->local, in->req->src);
    if (in->r->from_waypoint || !waypoint_required(in) || caller_is_self(in))
        return true;
    return refuse(in, 401, "the destination has a waypoint and the caller is not it");
}

bool sw_route_may_pass(const struct sw_state *s, const struct sw_route_env *env,
                       const struct sw_workload *local, const struct sw_ip *peer,
                       const struct sw_spiffe *src, const struct sw_addr *dst)
{
    struct sw_route_inbound_request req = {
        .local = local, .conn_dst = *dst, .peer_ip = *peer, .src = src};
    struct inbound in = {.s = s, .env = env, .req = &req, .authority = *dst, .port = dst->port};

    return !waypoint_required(&in) || sw_route_is_waypoint_of(s, local, src) ||
           (src ? caller_is_self(&in) : sw_workload_has_ip(local, peer));
}

/* ---- the whole ---- */

static void source_and_service(struct inbound *in)
{
    struct sw_route_inbound *r = in->r;
    struct sw_forwarded fwd;

    sw_forwarded_parse(in->req->forwarded, &fwd);
    r->spoof = (struct sw_addr){.ip = in->req->peer_ip};
    /* Applications trust loopback: no client may use it as its source. */
    if (r->from_waypoint && fwd.has_for && fwd.client.ip.family == r->rbac_dst.ip.family &&
        !sw_ip_is_loopback(&fwd.client.ip) && !sw_ip_is_any(&fwd.client.ip)) {
        r->spoof.ip = fwd.client.ip;
        r->forwarded_honoured = true;
    }
    r->service = in->svc
                     ? in->svc
                     : sw_route_guess_service(in->s, in->req->local, fwd.host, r->rbac_dst.port);
}

void sw_route_inbound_hbone(const struct sw_state *s, const struct sw_route_env *env,
                            const struct sw_route_inbound_request *req,
                            struct sw_route_inbound *ret)
{
    struct inbound in = {.s = s, .env = env, .req = req, .r = ret};

    *ret = (struct sw_route_inbound){.status = 200};
    if (parse_authority(&in) && check_destination(&in) && next_hop(&in) && app_tunnel(&in) &&
        check_waypoint(&in))
        source_and_service(&in);
}

const struct sw_service *sw_route_guess_service(const struct sw_state *s,
                                                const struct sw_workload *w,
                                                struct sw_slice forwarded_host, uint16_t dst_port)
{
    const struct sw_service *first = NULL;

    for (size_t i = 0; i < w->c->n_services; i++) {
        const struct sw_membership *m = &w->c->services[i];
        const struct sw_service *svc = service_of(s, m);

        if (!svc)
            continue;
        if (forwarded_host.n && sw_slice_eq(m->hostname, forwarded_host))
            return svc;
        if (!first && leads_to(w, m, svc, dst_port))
            first = svc;
        if (first && forwarded_host.n == 0)
            break;
    }
    return first;
}
