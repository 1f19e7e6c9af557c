/* SPDX-License-Identifier: Apache-2.0 */
/* Every load-balancing mode, with the dice in our hands. */
#include <stdio.h>

#include "base/arena.h"
#include "fixture.h"
#include "node/route.h"

static uint64_t next_roll;
static uint64_t last_bound;

static uint64_t rigged(uint64_t bound)
{
    last_bound = bound;
    return next_roll % bound;
}

static const struct sw_route_env env = {.network = S("n"), .rng = rigged};

/* The source and three endpoints at growing distance; %s is the service's loadBalancer. */
static struct sw_state *world(const char *lb)
{
    SW_ARENA_AUTO a = {0};
    const char *yaml = sw_arena_printf(
        &a,
        "workloads:\n"
        "- {uid: src, namespace: a, network: n, workloadIps: [10.0.0.1], node: n1, clusterId: c1,\n"
        "   services: {}, locality: {region: r1, zone: z1, subzone: s1}}\n"
        "- {uid: e1-near, namespace: a, network: n, workloadIps: [10.0.0.2], node: n1,\n"
        "   clusterId: c1, services: {a/h: {}}, locality: {region: r1, zone: z1, subzone: s1}}\n"
        "- {uid: e2-region, namespace: a, network: n, workloadIps: [10.0.0.3], node: n2,\n"
        "   clusterId: c1, services: {a/h: {}}, locality: {region: r1, zone: z2, subzone: s1}}\n"
        "- {uid: e3-far, namespace: a, network: n, workloadIps: [10.0.0.4], node: n3,\n"
        "   clusterId: c2, services: {a/h: {}}, locality: {region: r2, zone: z9, subzone: s9}}\n"
        "services:\n"
        "- {name: h, namespace: a, hostname: h, vips: [n/10.9.0.1], ports: {80: 80}%s}\n",
        lb);

    return load(yaml);
}

/* Who may be chosen, as a string of the digits in their names. */
static const char *choices(const struct sw_state *s, const struct sw_route_tried *tried,
                           char out[16])
{
    struct sw_addr a = addr("10.9.0.1:80");
    char *at = out;

    for (next_roll = 0; next_roll < 16; next_roll++) {
        struct sw_route_outbound r;
        char digit;

        sw_route_outbound(s, &env, workload(s, "src"), &a, tried, &r);
        if (r.kind == SW_ROUTE_DROP)
            break;
        digit = uid_of(r.workload).p[1];
        if (!memchr(out, digit, (size_t)(at - out)))
            *at++ = digit;
    }
    *at = '\0';
    return out;
}

static void expect(const char *lb, const char *wanted)
{
    STATE_AUTO s = world(lb);
    char got[16];

    assert_string_equal(choices(s, NULL, got), wanted);
}

static void standard_uses_all(void **state)
{
    (void)state;
    expect("", "123");
    expect(", loadBalancer: {mode: Standard, routingPreferences: [Region]}", "123");
}

static void failover_keeps_the_best_rank(void **state)
{
    (void)state;
    expect(", loadBalancer: {mode: Failover, routingPreferences: [Region, Zone, Subzone]}", "1");
    expect(", loadBalancer: {mode: Failover, routingPreferences: [Region]}", "12");
    expect(", loadBalancer: {mode: Failover, routingPreferences: [Node]}", "1");
    expect(", loadBalancer: {mode: Failover, routingPreferences: [Cluster]}", "12");
    expect(", loadBalancer: {mode: Failover, routingPreferences: [Network]}", "123");
    expect(", loadBalancer: {mode: Failover, routingPreferences: [Subzone]}", "12");
    /* Evaluation ends at the first mismatch: zone differs for 2, so its subzone is not seen. */
    expect(", loadBalancer: {mode: Failover, routingPreferences: []}", "123");
}

static void strict_removes_what_does_not_match(void **state)
{
    (void)state;
    expect(", loadBalancer: {mode: Strict, routingPreferences: [Region]}", "12");
    expect(", loadBalancer: {mode: Strict, routingPreferences: [Region, Zone]}", "1");
    expect(", loadBalancer: {mode: Strict, routingPreferences: []}", "123");
}

static void strict_without_a_match_is_empty(void **state)
{
    STATE_AUTO s =
        load("workloads:\n"
             "- {uid: src, namespace: a, network: n, workloadIps: [10.0.0.1], services: {}}\n"
             "- {uid: e, namespace: a, network: n, workloadIps: [10.0.0.2], services: {a/h: {}},\n"
             "   locality: {region: r2}}\n"
             "services:\n"
             "- {name: h, namespace: a, hostname: h, vips: [n/10.9.0.1], ports: {80: 80},\n"
             "   loadBalancer: {mode: Strict, routingPreferences: [Region]}}\n");
    char got[16];

    (void)state;
    assert_string_equal(choices(s, NULL, got), "");
}

static void failover_moves_on_when_the_near_ones_were_tried(void **state)
{
    STATE_AUTO s = world(", loadBalancer: {mode: Failover, routingPreferences: [Region, Zone]}");
    const struct sw_workload *list[] = {workload(s, "e1-near"), workload(s, "e2-region"),
                                        workload(s, "e3-far")};
    struct sw_route_tried tried = {list, 1};
    struct sw_addr a = addr("10.9.0.1:80");
    struct sw_route_outbound r;
    char got[16];

    (void)state;
    assert_string_equal(choices(s, &tried, got), "2");
    tried.n = 2;
    assert_string_equal(choices(s, &tried, got), "3");
    tried.n = 3;
    sw_route_outbound(s, &env, workload(s, "src"), &a, &tried, &r);
    assert_int_equal(r.drop, SW_DROP_EXHAUSTED);
}

/* [network, region, zone]: all 5, net+region 4, net 3, region+zone 2, region 1, none 0. */
static void network_first_outweighs_the_rest(void **state)
{
    static const char *const rows[] = {
        "network: n, locality: {region: r1, zone: z1}",
        "network: n, locality: {region: r1}",
        "network: n, locality: {region: r2}",
        "network: m, locality: {region: r1, zone: z1}",
        "network: m, locality: {region: r1}",
        "network: m, locality: {region: r2}",
    };

    (void)state;
    for (size_t better = 0; better + 1 < SW_ARRAY_LEN(rows); better++) {
        SW_ARENA_AUTO a = {0};
        STATE_AUTO s = load(sw_arena_printf(
            &a,
            "workloads:\n"
            "- {uid: src, namespace: a, network: n, workloadIps: [10.0.0.1], services: {},\n"
            "   locality: {region: r1, zone: z1}}\n"
            "- {uid: gw, namespace: a, network: m, workloadIps: [10.0.0.9], services: {}}\n"
            "- {uid: e1, namespace: a, workloadIps: [10.0.0.2], services: {a/h: {}}, %s,\n"
            "   networkGateway: {destination: m/10.0.0.9}}\n"
            "- {uid: e2, namespace: a, workloadIps: [10.0.0.3], services: {a/h: {}}, %s,\n"
            "   networkGateway: {destination: m/10.0.0.9}}\n"
            "services:\n"
            "- {name: h, namespace: a, hostname: h, vips: [n/10.9.0.1], ports: {80: 80},\n"
            "   loadBalancer: {mode: Failover, routingPreferences: [Network, Region, Zone]}}\n",
            rows[better], rows[better + 1]));
        const struct sw_workload *first = workload(s, "e1");
        const struct sw_route_tried tried = {&first, 1};
        struct sw_addr to = addr("10.9.0.1:80");
        struct sw_route_outbound r;

        next_roll = 1;
        sw_route_outbound(s, &env, workload(s, "src"), &to, NULL, &r);
        assert_int_equal(last_bound, 1); /* a single candidate is left at the best rank */
        if (r.kind == SW_ROUTE_TCP)
            assert_slice(uid_of(r.workload), "e1");
        sw_route_outbound(s, &env, workload(s, "src"), &to, &tried, &r);
        assert_int_not_equal(r.kind, SW_ROUTE_DROP);
    }
}

static void capacity_weighs(void **state)
{
    STATE_AUTO s =
        load("workloads:\n"
             "- {uid: src, namespace: a, network: n, workloadIps: [10.0.0.1], services: {}}\n"
             "- {uid: e1, namespace: a, network: n, workloadIps: [10.0.0.2], services: {a/h: {}}}\n"
             "- {uid: e2, namespace: a, network: n, workloadIps: [10.0.0.3], services: {a/h: {}},\n"
             "   capacity: 3}\n"
             "- {uid: e3, namespace: a, network: n, workloadIps: [10.0.0.4], services: {a/h: {}},\n"
             "   capacity: 0}\n"
             "services:\n"
             "- {name: h, namespace: a, hostname: h, vips: [n/10.9.0.1], ports: {80: 80}}\n");
    struct sw_addr a = addr("10.9.0.1:80");
    int hits[4] = {0};

    (void)state;
    for (next_roll = 0; next_roll < 4; next_roll++) {
        struct sw_route_outbound r;

        sw_route_outbound(s, &env, workload(s, "src"), &a, NULL, &r);
        assert_int_equal(last_bound, 4);
        hits[uid_of(r.workload).p[1] - '0']++;
    }
    assert_int_equal(hits[1], 1);
    assert_int_equal(hits[2], 3);
    assert_int_equal(hits[3], 0);
}

static void endpoints_need_an_address_a_name_or_a_gateway(void **state)
{
    STATE_AUTO s = load(
        "workloads:\n"
        "- {uid: src, namespace: a, network: n, workloadIps: [10.0.0.1], services: {}}\n"
        "- {uid: e1, namespace: a, network: n, workloadIps: [], services: {a/h: {}},\n"
        "   networkGateway: {destination: m/10.0.0.9}}\n"
        "- {uid: e2, namespace: a, network: m, workloadIps: [], services: {a/h: {}}}\n"
        "- {uid: e3, namespace: a, network: n, workloadIps: [], hostname: x, services: {a/h: {}}}\n"
        "- {uid: e4, namespace: a, network: m, workloadIps: [], services: {a/h: {}},\n"
        "   networkGateway: {destination: m/10.0.0.9}}\n"
        "- {uid: e9, namespace: a, network: m, workloadIps: [10.0.0.9], services: {}}\n"
        "services:\n"
        "- {name: h, namespace: a, hostname: h, vips: [n/10.9.0.1], ports: {80: 80}}\n");
    char got[16];

    (void)state;
    assert_string_equal(choices(s, NULL, got), "39"); /* e4 goes by its gateway, e9 */
}

static void named_ports_need_a_mapping(void **state)
{
    STATE_AUTO s = load(
        "workloads:\n"
        "- {uid: src, namespace: a, network: n, workloadIps: [10.0.0.1], services: {}}\n"
        "- {uid: e1, namespace: a, network: n, workloadIps: [10.0.0.2], services: {a/h: {}}}\n"
        "- {uid: e2, namespace: a, network: n, workloadIps: [10.0.0.3],\n"
        "   services: {a/h: {80: 8080}}}\n"
        "services:\n"
        "- {name: h, namespace: a, hostname: h, vips: [n/10.9.0.1], ports: {80: 0, 81: 8081}}\n");
    struct sw_addr a = addr("10.9.0.1:81");
    struct sw_route_outbound r;
    char got[16];

    (void)state;
    assert_string_equal(choices(s, NULL, got), "2");
    next_roll = 0;
    sw_route_outbound(s, &env, workload(s, "src"), &a, NULL, &r);
    assert_addr(r.target, "10.0.0.2:8081"); /* the service's own target */
}

static void waypoints_with_an_application_tunnel_need_no_port(void **state)
{
    STATE_AUTO s =
        load("workloads:\n"
             "- {uid: src, namespace: a, network: n, workloadIps: [10.0.0.1], services: {}}\n"
             "- {uid: w1, namespace: a, network: n, workloadIps: [10.0.0.2], services: {a/w: {}}}\n"
             "- {uid: w2, namespace: a, network: n, workloadIps: [10.0.0.3], services: {a/w: {}},\n"
             "   applicationTunnel: {protocol: PROXY, port: 15088}}\n"
             "services:\n"
             "- {name: w, namespace: a, hostname: w, vips: [n/10.9.0.2], ports: {}}\n"
             "- {name: h, namespace: a, hostname: h, vips: [n/10.9.0.1], ports: {80: 80},\n"
             "   waypoint: {destination: n/10.9.0.2, hboneMtlsPort: 15008}}\n");
    struct sw_addr a = addr("10.9.0.1:80");
    struct sw_route_outbound r;
    char got[16];

    (void)state;
    assert_string_equal(choices(s, NULL, got), "2");
    sw_route_outbound(s, &env, workload(s, "src"), &a, NULL, &r);
    assert_addr(r.target, "10.0.0.3:15008");
}

static void uniform_services_are_chosen_by_index(void **state)
{
    STATE_AUTO s = world("");
    struct sw_addr a = addr("10.9.0.1:80");
    struct sw_route_outbound r;

    (void)state;
    next_roll = 2;
    sw_route_outbound(s, &env, workload(s, "src"), &a, NULL, &r);
    assert_int_equal(last_bound, 3);
    assert_slice(uid_of(r.workload), "e3-far");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(standard_uses_all),
        cmocka_unit_test(failover_keeps_the_best_rank),
        cmocka_unit_test(strict_removes_what_does_not_match),
        cmocka_unit_test(strict_without_a_match_is_empty),
        cmocka_unit_test(failover_moves_on_when_the_near_ones_were_tried),
        cmocka_unit_test(network_first_outweighs_the_rest),
        cmocka_unit_test(capacity_weighs),
        cmocka_unit_test(endpoints_need_an_address_a_name_or_a_gateway),
        cmocka_unit_test(named_ports_need_a_mapping),
        cmocka_unit_test(waypoints_with_an_application_tunnel_need_no_port),
        cmocka_unit_test(uniform_services_are_chosen_by_index),
    };

    return cmocka_run_group_tests_name("route_lb", tests, NULL, NULL);
}
