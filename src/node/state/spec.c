/* SPDX-License-Identifier: Apache-2.0 */
/* Records turned back into what the builder takes. */
#include "node/state/state_int.h"

void sw_state_spec_of(const struct sw_workload *w, struct sw_arena *a, struct sw_workload_spec *ret)
{
    const struct sw_workload_class *c = w->c;
    struct sw_ip *ips = sw_arena_array(a, w->n_ips, sizeof(*ips));
    struct sw_membership_spec *services = sw_arena_array(a, c->n_services, sizeof(*services));

    for (unsigned i = 0; i < w->n_ips; i++)
        ips[i] = sw_workload_ip(w, i);
    for (size_t i = 0; i < c->n_services; i++)
        services[i] = (struct sw_membership_spec){.key = sw_membership_key(&c->services[i]),
                                                  .ports = c->services[i].ports,
                                                  .n_ports = c->services[i].n_ports};
    *ret = (struct sw_workload_spec){
        .uid = sw_workload_uid(w, a),
        .version = sw_workload_version(w, a),
        .name = sw_workload_name(w),
        .ns = c->ns,
        .ips = ips,
        .n_ips = w->n_ips,
        .network = w->at->network,
        .protocol = c->protocol,
        .trust_domain = c->trust_domain,
        .service_account = c->service_account,
        .waypoint = c->waypoint,
        .network_gateway = c->network_gateway,
        .node = w->at->node,
        .canonical_name = c->canonical_name,
        .canonical_revision = c->canonical_revision,
        .type = c->type,
        .workload_name = c->workload_name,
        .native_tunnel = c->native_tunnel,
        .policies = c->policy_keys,
        .n_policies = c->n_policy_keys,
        .unhealthy = !w->healthy,
        .cluster_id = w->at->cluster_id,
        .hostname = sw_workload_hostname(w),
        .services = services,
        .n_services = c->n_services,
        .has_app_tunnel = c->has_app_tunnel,
        .app_tunnel = c->app_tunnel,
        .app_tunnel_port = c->app_tunnel_port,
        .region = w->at->region,
        .zone = w->at->zone,
        .subzone = w->at->subzone,
        .host_network = c->host_network,
        .has_capacity = true,
        .capacity = sw_workload_capacity(w),
    };
}
