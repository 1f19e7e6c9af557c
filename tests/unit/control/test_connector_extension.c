/* SPDX-License-Identifier: Apache-2.0 */
/* HTTPProxies behind an Envoy Gateway: what the translation hook makes of their clusters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/extension.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/route.pb-c.h>

#include "control/envoy/extension.h"
#include "control/envoy/tunnel.h"
#include "control/lint/lint.h"
#include "proto/pb.h"
#include "proto/types.h"

#define ID "d3aafc04c9dc9a9608ed9738f2b7c30d9834538e3147ef5f14fe8c725d6baf8f"

/* "on" has rules 0 (plain) and 1 (TLS), "off" is away, others are unknown. */
static enum sw_extension_rule_state rule(void *arg, struct sw_slice ns, struct sw_slice route,
                                         uint32_t index, struct sw_arena *a,
                                         struct sw_extension_rule *ret)
{
    (void)arg;
    (void)a;
    if (!sw_slice_eq_str(ns, "ns"))
        return SW_EXTENSION_RULE_OTHER;
    if (sw_slice_eq_str(route, "off"))
        return SW_EXTENSION_RULE_OFFLINE;
    if (!sw_slice_eq_str(route, "on") || index > 1)
        return SW_EXTENSION_RULE_OTHER;
    *ret = (struct sw_extension_rule){.target = SW_SLICE_LIT("[::1]:8080"), .id = SW_SLICE_LIT(ID)};
    if (index == 1)
        ret->tls_name = SW_SLICE_LIT("inner.test");
    return SW_EXTENSION_RULE_ONLINE;
}

static const struct sw_extension ext = {.rule = rule};

static const char *const clusters[] = {
    "httproute/ns/on/rule/0",    "httproute/ns/on/rule/1",
    "httproute/ns/on/rule/7",    "httproute/ns/off/rule/0",
    "httproute/other/on/rule/0", "httproute/ns/on/rule/x",
    "httproute/ns/on/rule",      "httproute/ns/on/rule/0/more",
    "grpcroute/ns/on/rule/0",    "httproute/ns/on/rule/99999999999999999999999",
};
enum { TUNNELS = 2, OFFLINE = 3 };

static Sw__Cluster *some_cluster(struct sw_arena *a, const char *name)
{
    Sw__Cluster *c = SW_PB_NEW(a, Sw__Cluster, sw__cluster);

    c->name = SW_PB_BYTES(sw_slice_str(name));
    c->cluster_discovery_type_case = SW__CLUSTER__CLUSTER_DISCOVERY_TYPE_TYPE;
    c->type = SW__CLUSTER__DISCOVERY_TYPE__EDS;
    return c;
}

static Sw__Route *some_route(struct sw_arena *a, const char *name, const char *cluster)
{
    Sw__Route *r = SW_PB_NEW(a, Sw__Route, sw__route);

    r->name = SW_PB_BYTES(sw_slice_str(name));
    r->match = SW_PB_NEW(a, Sw__RouteMatch, sw__route_match);
    r->match->path_specifier_case = SW__ROUTE_MATCH__PATH_SPECIFIER_PREFIX;
    r->match->prefix = SW_PB_LIT("/");
    r->action_case = SW__ROUTE__ACTION_ROUTE;
    r->route = SW_PB_NEW(a, Sw__RouteAction, sw__route_action);
    r->route->cluster_specifier_case = SW__ROUTE_ACTION__CLUSTER_SPECIFIER_CLUSTER;
    r->route->cluster = SW_PB_BYTES(sw_slice_str(cluster));
    return r;
}

static Sw__Route *some_split(struct sw_arena *a, const char *one, const char *two)
{
    Sw__Route *r = some_route(a, "split", one);
    Sw__WeightedCluster *w = SW_PB_NEW(a, Sw__WeightedCluster, sw__weighted_cluster);
    const char *const both[] = {one, two};

    w->clusters = sw_arena_array(a, 2, sizeof(void *));
    for (size_t i = 0; i < 2; i++) {
        w->clusters[i] =
            SW_PB_NEW(a, Sw__WeightedCluster__ClusterWeight, sw__weighted_cluster__cluster_weight);
        w->clusters[i]->name = SW_PB_BYTES(sw_slice_str(both[i]));
    }
    w->n_clusters = 2;
    r->route->cluster_specifier_case = SW__ROUTE_ACTION__CLUSTER_SPECIFIER_WEIGHTED_CLUSTERS;
    r->route->weighted_clusters = w;
    return r;
}

static struct sw_slice request(struct sw_arena *a)
{
    Sw__PostTranslateModifyRequest *in =
        SW_PB_NEW(a, Sw__PostTranslateModifyRequest, sw__post_translate_modify_request);
    Sw__RouteConfiguration *rc = SW_PB_NEW(a, Sw__RouteConfiguration, sw__route_configuration);
    Sw__VirtualHost *v = SW_PB_NEW(a, Sw__VirtualHost, sw__virtual_host);

    in->clusters = sw_arena_array(a, SW_ARRAY_LEN(clusters), sizeof(void *));
    for (size_t i = 0; i < SW_ARRAY_LEN(clusters); i++)
        in->clusters[in->n_clusters++] = some_cluster(a, clusters[i]);
    v->name = SW_PB_LIT("v");
    v->routes = sw_arena_array(a, 4, sizeof(void *));
    v->routes[0] = some_route(a, "to-on", "httproute/ns/on/rule/0");
    v->routes[1] = some_route(a, "to-off", "httproute/ns/off/rule/0");
    v->routes[2] = some_split(a, "httproute/ns/off/rule/0", "httproute/ns/on/rule/0");
    v->routes[3] = some_split(a, "httproute/ns/off/rule/0", "httproute/ns/off/rule/0");
    v->n_routes = 4;
    rc->name = SW_PB_LIT("rc");
    rc->virtual_hosts = sw_arena_array(a, 1, sizeof(void *));
    rc->virtual_hosts[0] = v;
    rc->n_virtual_hosts = 1;
    in->routes = sw_arena_array(a, 1, sizeof(void *));
    in->routes[0] = rc;
    in->n_routes = 1;
    return sw_pb_pack(a, &in->base);
}

static Sw__PostTranslateModifyResponse *call(struct sw_arena *a, const struct sw_extension *x,
                                             struct sw_slice in)
{
    struct sw_slice out;

    assert_int_equal(sw_extension_call(x, SW_EXTENSION_HOOK_TRANSLATE, in, a, &out, NULL), SW_OK);
    return SW_PB_UNPACK(a, Sw__PostTranslateModifyResponse, sw__post_translate_modify_response, out,
                        NULL, NULL);
}

static void online_rules_become_tunnels_under_their_name(void **state)
{
    SW_ARENA_AUTO a = {0};
    Sw__PostTranslateModifyResponse *out = call(&a, &ext, request(&a));

    (void)state;
    /* All that came, and the proxy of tunnels. */
    assert_int_equal(out->n_clusters, SW_ARRAY_LEN(clusters) + 1);
    assert_int_equal(out->n_listeners, 1);
    for (size_t i = 0; i < SW_ARRAY_LEN(clusters); i++) {
        const Sw__Cluster *c = out->clusters[i];
        struct sw_model_resource r = {.type = SW_TYPE_CLUSTER, .name = SW_PB_SLICE(c->name)};

        assert_true(sw_slice_eq_str(SW_PB_SLICE(c->name), clusters[i]));
        assert_int_equal(c->load_assignment != NULL, i < TUNNELS);
        if (i >= TUNNELS)
            continue;
        r.value = sw_pb_pack(&a, &c->base);
        assert_int_equal(sw_xds_lint(&r, 1, NULL, NULL, NULL), 0);
    }
}

static void offline_routes_answer_by_themselves(void **state)
{
    SW_ARENA_AUTO a = {0};
    const Sw__VirtualHost *v = call(&a, &ext, request(&a))->routes[0]->virtual_hosts[0];

    (void)state;
    assert_int_equal(v->n_routes, 4);
    assert_int_equal(v->routes[0]->action_case, SW__ROUTE__ACTION_ROUTE);
    assert_int_equal(v->routes[1]->action_case, SW__ROUTE__ACTION_DIRECT_RESPONSE);
    assert_int_equal(v->routes[1]->direct_response->status, 503);
    assert_true(sw_slice_eq_str(SW_PB_SLICE(v->routes[1]->direct_response->body->inline_string),
                                "Tunnel not online"));
    assert_true(sw_slice_eq_str(SW_PB_SLICE(v->routes[1]->name), "to-off"));
    assert_non_null(v->routes[1]->match);
    assert_int_equal(v->routes[1]->n_response_headers_to_add, 2);
    /* A share of the traffic still has somewhere to go. */
    assert_int_equal(v->routes[2]->action_case, SW__ROUTE__ACTION_ROUTE);
    assert_int_equal(v->routes[3]->action_case, SW__ROUTE__ACTION_DIRECT_RESPONSE);
}

static void its_own_output_passes_unchanged(void **state)
{
    SW_ARENA_AUTO a = {0};
    Sw__PostTranslateModifyResponse *once = call(&a, &ext, request(&a));
    Sw__PostTranslateModifyRequest *in =
        SW_PB_NEW(&a, Sw__PostTranslateModifyRequest, sw__post_translate_modify_request);
    Sw__PostTranslateModifyResponse *twice;

    (void)state;
    in->clusters = once->clusters;
    in->n_clusters = once->n_clusters;
    in->listeners = once->listeners;
    in->n_listeners = once->n_listeners;
    in->routes = once->routes;
    in->n_routes = once->n_routes;
    twice = call(&a, &ext, sw_pb_pack(&a, &in->base));
    assert_true(sw_slice_eq(sw_pb_pack(&a, &once->base), sw_pb_pack(&a, &twice->base)));
}

static void static_parts_are_not_sent_again(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_extension x = ext;
    Sw__PostTranslateModifyResponse *out;

    (void)state;
    x.static_parts = true;
    out = call(&a, &x, request(&a));
    assert_int_equal(out->n_clusters, SW_ARRAY_LEN(clusters));
    assert_int_equal(out->n_listeners, 0);
}

static void an_envoy_for_one_connector(void **state)
{
    struct sw_envoy_tunnel t = {.target = SW_SLICE_LIT("[::1]:80"),
                                .id = SW_SLICE_LIT(ID),
                                .listen = SW_SLICE_LIT("0.0.0.0"),
                                .port = 10000};
    SW_BUF_AUTO out = {.max = 1 << 20};
    struct sw_err err = {0};

    (void)state;
    assert_int_equal(sw_envoy_tunnel_write(&t, &out, &err), SW_OK);
    assert_non_null(memmem(sw_buf_data(&out), sw_buf_len(&out), "hostname: '[::1]:80'", 20));
    t.target = SW_SLICE_LIT("no-port");
    assert_int_equal(sw_envoy_tunnel_write(&t, &out, &err), SW_EINVAL);
    t.target = SW_SLICE_LIT("a:1");
    t.listen = SW_SLICE_LIT("a.name");
    assert_int_equal(sw_envoy_tunnel_write(&t, &out, &err), SW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(online_rules_become_tunnels_under_their_name),
        cmocka_unit_test(offline_routes_answer_by_themselves),
        cmocka_unit_test(its_own_output_passes_unchanged),
        cmocka_unit_test(static_parts_are_not_sent_again),
        cmocka_unit_test(an_envoy_for_one_connector),
    };

    return cmocka_run_group_tests_name("connector_extension", tests, NULL, NULL);
}
