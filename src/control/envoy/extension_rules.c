/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTPProxies behind an Envoy Gateway. It makes a cluster "httproute/<ns>/<name>/rule/<i>" for each
 * rule; those of connectors become tunnels under the same name, and while a connector is offline
 * the routes to it answer by themselves. Nothing is added under a new name, so nothing can collide
 * with what another tenant has; the same input gives the same output, however often it passes.
 *
 * No route for CONNECT is added: it would give raw TCP to the public, past every filter.
 */
#include "control/envoy/extension_int.h"

#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/extension.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/route.pb-c.h>

#include "base/map.h"
#include "control/gateway/xds/xds_int.h"
#include "proto/pb.h"
#include "proto/types.h"

bool sw_gwx_is_tunnel(const Sw__Cluster *c)
{
    return c->transport_socket &&
           c->transport_socket->config_type_case ==
               SW__TRANSPORT_SOCKET__CONFIG_TYPE_TYPED_CONFIG &&
           sw_pb_any_is(c->transport_socket->typed_config,
                        &sw__internal_upstream_transport__descriptor);
}

/* "httproute/<ns>/<name>/rule/<i>", exactly five parts. */
static bool split_name(struct sw_slice name, struct sw_slice *ret_ns, struct sw_slice *ret_route,
                       uint32_t *ret_index)
{
    struct sw_slice kind = sw_slice_cut(&name, '/');
    struct sw_slice rule;
    uint64_t index;

    *ret_ns = sw_slice_cut(&name, '/');
    *ret_route = sw_slice_cut(&name, '/');
    rule = sw_slice_cut(&name, '/');
    if (!name.p || !sw_slice_eq_str(kind, "httproute") || !sw_slice_eq_str(rule, "rule") ||
        !sw_slice_to_u64(name, UINT32_MAX, &index))
        return false;
    *ret_index = (uint32_t)index;
    return true;
}

static enum sw_extension_rule_state look_up(const struct sw_extension *x, struct sw_arena *a,
                                            struct sw_slice cluster, struct sw_extension_rule *ret)
{
    struct sw_slice ns;
    struct sw_slice route;
    uint32_t index;

    if (!split_name(cluster, &ns, &route, &index))
        return SW_EXTENSION_RULE_OTHER;
    return x->rule(x->rule_arg, ns, route, index, a, ret);
}

/* --- clusters --- */

static void make_tunnel(const struct sw_extension *x, struct sw_arena *a,
                        const struct sw_extension_rule *rule, Sw__Cluster *c)
{
    const struct sw_model_endpoint ep = {.tunnel_target = rule->target, .tunnel_id = rule->id};
    struct enc e = {.a = a, .conf = &x->conf};
    Sw__TransportSocket *already = sw_gwx_is_tunnel(c) ? c->transport_socket : NULL;

    if (!already && rule->tls_name.n && !c->transport_socket)
        c->transport_socket = sw_gwx_tls_to(&e, rule->tls_name);
    sw_gwx_make_tunnel(&e, c, &ep);
    if (already)
        c->transport_socket = already;
}

/* --- routes --- */

static bool all_offline(const struct sw_map *offline, const Sw__RouteAction *r)
{
    const Sw__WeightedCluster *w = r->weighted_clusters;

    if (r->cluster_specifier_case == SW__ROUTE_ACTION__CLUSTER_SPECIFIER_CLUSTER)
        return sw_map_get(offline, SW_PB_SLICE(r->cluster)) != NULL;
    if (r->cluster_specifier_case != SW__ROUTE_ACTION__CLUSTER_SPECIFIER_WEIGHTED_CLUSTERS)
        return false; /* who knows where it goes */
    for (size_t i = 0; i < w->n_clusters; i++) {
        if (!sw_map_get(offline, SW_PB_SLICE(w->clusters[i]->name)))
            return false;
    }
    return w->n_clusters != 0;
}

/* Match, name and metadata stay: others find the route by them. */
static void answer_offline(const struct sw_extension *x, struct sw_arena *a, Sw__Route *to)
{
    static const struct sw_model_header set[] = {
        {SW_SLICE_LIT("retry-after"), SW_SLICE_LIT("5")},
        {SW_SLICE_LIT("x-spanwire-reason"), SW_SLICE_LIT("connector-offline")}};
    static const struct sw_model_headers headers = {.set = set, .n_set = SW_ARRAY_LEN(set)};
    struct enc e = {.a = a, .conf = &x->conf};
    Sw__DirectResponseAction *d =
        SW_PB_NEW(a, Sw__DirectResponseAction, sw__direct_response_action);

    d->status = 503;
    d->body = SW_PB_NEW(a, Sw__DataSource, sw__data_source);
    d->body->specifier_case = SW__DATA_SOURCE__SPECIFIER_INLINE_STRING;
    d->body->inline_string = SW_PB_LIT("Tunnel not online");
    to->action_case = SW__ROUTE__ACTION_DIRECT_RESPONSE;
    to->direct_response = d;
    to->response_headers_to_add =
        sw_gwx_header_options(&e, &headers, &to->n_response_headers_to_add);
}

static void apply_routes(const struct sw_extension *x, struct sw_arena *a,
                         const struct sw_map *offline, const Sw__RouteConfiguration *rc)
{
    for (size_t i = 0; i < rc->n_virtual_hosts; i++) {
        const Sw__VirtualHost *v = rc->virtual_hosts[i];

        for (size_t k = 0; k < v->n_routes; k++) {
            Sw__Route *r = v->routes[k];

            if (r->action_case == SW__ROUTE__ACTION_ROUTE && all_offline(offline, r->route))
                answer_offline(x, a, r);
        }
    }
}

void sw_gwx_apply_rules(const struct sw_extension *x, struct sw_arena *a,
                        Sw__PostTranslateModifyRequest *in)
{
    struct sw_map offline = {0};

    for (size_t i = 0; x->rule && i < in->n_clusters; i++) {
        Sw__Cluster *c = in->clusters[i];
        struct sw_extension_rule rule = {0};

        switch (look_up(x, a, SW_PB_SLICE(c->name), &rule)) {
        case SW_EXTENSION_RULE_OTHER:
            break;
        case SW_EXTENSION_RULE_ONLINE:
            make_tunnel(x, a, &rule, c);
            break;
        case SW_EXTENSION_RULE_OFFLINE:
            (void)sw_map_put(&offline, SW_PB_SLICE(c->name), c);
            break;
        }
    }
    for (size_t i = 0; offline.n && i < in->n_routes; i++)
        apply_routes(x, a, &offline, in->routes[i]);
    sw_map_done(&offline);
}
