/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold for any snapshot, whatever it was made from. */
#pragma once

#include <assert.h>

#include "base/mem.h"
#include "node/route.h"
#include "node/state.h"

static inline void check_route(const struct sw_state *s, const struct sw_workload *from,
                               const struct sw_ip *ip)
{
    struct sw_route_env env = {.network = from->at->network, .enforce_waypoint = true};
    struct sw_addr dst = {.ip = *ip, .port = 80};
    struct sw_route_outbound r;

    sw_route_outbound(s, &env, from, &dst, NULL, &r);
    assert((r.kind == SW_ROUTE_DROP) == (r.drop != SW_DROP_NONE));
    assert((r.kind == SW_ROUTE_DROP) == (r.reason[0] != '\0'));
    if (r.kind == SW_ROUTE_DROP)
        return;
    assert((r.target.ip.family == 0) == (r.hostname.n > 0));
    if (r.kind != SW_ROUTE_TCP)
        assert(r.workload && (r.authority[0] || r.hostname.n));
    if (r.workload) { /* trying again never picks the same one */
        const struct sw_workload *first = r.workload;
        struct sw_route_tried tried = {&first, 1};

        sw_route_outbound(s, &env, from, &dst, &tried, &r);
        assert(r.kind == SW_ROUTE_DROP || r.workload != first);
    }
}

static inline void check_workload(const struct sw_state *s, const struct sw_workload *w)
{
    struct sw_policy_set set = sw_state_policies_for(s, w);
    struct sw_policy_request req = {.dst_port = 80};
    struct sw_policy_verdict v;
    struct sw_spiffe id = sw_workload_identity(w);
    struct sw_arena a = {0};

    assert(sw_state_workload_by_uid(s, sw_workload_uid(w, &a)) == w);
    sw_arena_clear(&a);
    (void)sw_policy_decide(&set, &req, &v);
    assert(v.allowed == (v.text[0] == '\0'));
    req.src = &id;
    (void)sw_policy_decide(&set, &req, &v);
    assert(v.allowed == (v.text[0] == '\0'));
    for (unsigned i = 0; i < w->n_ips; i++) {
        struct sw_ip ip = sw_workload_ip(w, i);
        const struct sw_workload *owner = sw_state_workload_by_ip(s, w->at->network, &ip);

        assert(w->c->host_network || (owner && sw_workload_has_ip(owner, &ip)));
        check_route(s, w, &ip);
    }
}

static inline void check_service(const struct sw_state *s, const struct sw_service *svc,
                                 const struct sw_workload *from)
{
    assert(sw_state_service_by_key(s, svc->ns, svc->hostname) == svc);
    assert(sw_state_service_by_hostname(s, svc->hostname, svc->ns));
    for (size_t i = 0; i < svc->n_endpoints; i++)
        assert(sw_workload_in_service(svc->endpoints[i], svc));
    for (size_t i = 0; i < svc->n_vips; i++) {
        assert(sw_state_service_by_vip(s, svc->vips[i].network, &svc->vips[i].ip, svc->ns));
        if (from)
            check_route(s, from, &svc->vips[i].ip);
    }
}

/* Everything a snapshot says of itself holds together. */
static inline void check_state(const struct sw_state *s)
{
    SW_AUTO_FREE const struct sw_workload **workloads = sw_state_list_workloads(s);
    SW_AUTO_FREE const struct sw_service **services = sw_state_list_services(s);
    SW_AUTO_FREE const struct sw_policy **policies = sw_state_list_policies(s);

    for (size_t i = 0; i < sw_state_workload_count(s) && i < 64; i++)
        check_workload(s, workloads[i]);
    for (size_t i = 0; i < sw_state_service_count(s) && i < 64; i++)
        check_service(s, services[i], workloads[0]);
    for (size_t i = 0; i < sw_state_policy_count(s); i++)
        assert(policies[i]->key.n > policies[i]->name.n);
}
