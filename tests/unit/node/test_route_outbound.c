/* SPDX-License-Identifier: Apache-2.0 */
/* One test per row of the outbound table. */
#include "fixture.h"
#include "node/route.h"

/* A mesh of one network, with waypoints of all kinds and a second network behind a gateway. */
static const char mesh[] =
    "workloads:\n"
    "- {uid: src, name: src, namespace: ns1, network: n, serviceAccount: sa, trustDomain: td,\n"
    "   workloadIps: [10.0.0.1], protocol: HBONE, services: {}}\n"
    "- {uid: hbone, name: hbone, namespace: ns1, network: n, serviceAccount: b, trustDomain: td,\n"
    "   workloadIps: [10.0.0.2], protocol: HBONE, node: far, services: {ns1/echo: {80: 8080}}}\n"
    "- {uid: tcp, name: tcp, namespace: ns1, network: n, workloadIps: [10.0.0.3], services: {}}\n"
    "- {uid: guarded, name: guarded, namespace: ns1, network: n, workloadIps: [10.0.0.4],\n"
    "   protocol: HBONE, services: {ns1/direct: {80: 80}},\n"
    "   waypoint: {destination: n/10.0.0.9, hboneMtlsPort: 15008}}\n"
    "- {uid: lost, name: lost, namespace: ns1, network: n, workloadIps: [10.0.0.5],\n"
    "   protocol: HBONE, services: {},\n"
    "   waypoint: {destination: n/10.0.0.99, hboneMtlsPort: 15008}}\n"
    "- {uid: wp, name: wp, namespace: ns1, network: n, serviceAccount: wp, trustDomain: td,\n"
    "   workloadIps: [10.0.0.9, '2001:db8::9'], protocol: HBONE,\n"
    "   services: {ns1/wp.svc: {15008: 15008}}}\n"
    "- {uid: remote, name: remote, namespace: ns1, network: other, workloadIps: [10.5.0.1],\n"
    "   protocol: HBONE, services: {ns1/far: {80: 80}},\n"
    "   networkGateway: {destination: other/10.9.9.9, hboneMtlsPort: 15009}}\n"
    "- {uid: gw, name: gw, namespace: ns1, network: other, serviceAccount: gw, trustDomain: td,\n"
    "   workloadIps: [10.9.9.9], protocol: HBONE, services: {}}\n"
    "- {uid: stranded, name: s, namespace: ns1, network: other, workloadIps: [],\n"
    "   hostname: x, services: {ns1/stranded: {80: 80}}}\n"
    "- {uid: named, name: named, namespace: ns1, network: n, workloadIps: [],\n"
    "   hostname: ext.example, protocol: HBONE, services: {ns1/named: {80: 9080}}}\n"
    "- {uid: dual, name: dual, namespace: ns1, network: n, workloadIps: ['2001:db8::d', "
    "10.0.0.6],\n"
    "   protocol: HBONE, services: {ns1/dual: {}, ns1/only6: {}, ns1/only4: {}}}\n"
    "- {uid: host, name: host, namespace: ns1, network: n, workloadIps: [10.0.0.7],\n"
    "   networkMode: HostNetwork, services: {ns1/hosted: {80: 80}}}\n"
    "- {uid: farwp, name: farwp, namespace: ns1, network: other, workloadIps: [10.5.0.9],\n"
    "   protocol: HBONE, services: {ns1/farwp.svc: {15008: 15008}},\n"
    "   networkGateway: {destination: other/10.9.9.9, hboneMtlsPort: 15009}}\n"
    "services:\n"
    "- {name: echo, namespace: ns1, hostname: echo.h, vips: [n/10.96.0.1], ports: {80: 0},\n"
    "   subjectAltNames: [spiffe://td/ns/x/sa/y, not-spiffe]}\n"
    "- {name: echo2, namespace: ns1, hostname: echo, vips: [n/10.96.0.2], ports: {80: 80},\n"
    "   subjectAltNames: [spiffe://td/ns/x/sa/y, not-spiffe]}\n"
    "- {name: direct, namespace: ns1, hostname: direct, vips: [n/10.96.0.3], ports: {80: 80}}\n"
    "- {name: viawp, namespace: ns1, hostname: viawp, vips: [n/10.96.0.4], ports: {80: 80},\n"
    "   waypoint: {destination: ns1/wp.svc, hboneMtlsPort: 15008}}\n"
    "- {name: wp, namespace: ns1, hostname: wp.svc, vips: [n/10.96.0.5], ports: {15008: 15008},\n"
    "   subjectAltNames: [spiffe://td/ns/wp/sa/extra]}\n"
    "- {name: nowp, namespace: ns1, hostname: nowp, vips: [n/10.96.0.6], ports: {80: 80},\n"
    "   waypoint: {destination: ns1/missing, hboneMtlsPort: 15008}}\n"
    "- {name: empty, namespace: ns1, hostname: empty, vips: [n/10.96.0.7], ports: {80: 80}}\n"
    "- {name: pass, namespace: ns1, hostname: pass, vips: [n/10.96.0.8], ports: {80: 80},\n"
    "   loadBalancer: {mode: Passthrough}}\n"
    "- {name: passwp, namespace: ns1, hostname: passwp, vips: [n/10.96.0.9], ports: {80: 80},\n"
    "   loadBalancer: {mode: Passthrough},\n"
    "   waypoint: {destination: n/10.0.0.9, hboneMtlsPort: 15008}}\n"
    "- {name: far, namespace: ns1, hostname: far, vips: [n/10.96.0.10], ports: {80: 80},\n"
    "   subjectAltNames: [spiffe://td/ns/far/sa/far]}\n"
    "- {name: stranded, namespace: ns1, hostname: stranded, vips: [n/10.96.0.11],\n"
    "   ports: {80: 80}}\n"
    "- {name: named, namespace: ns1, hostname: named, vips: [n/10.96.0.12], ports: {80: 80}}\n"
    "- {name: dual, namespace: ns1, hostname: dual, vips: [n/10.96.0.13, 'n/2001:db8::60'],\n"
    "   ports: {80: 80}}\n"
    "- {name: only6, namespace: ns1, hostname: only6, vips: [n/10.96.0.14], ports: {80: 80},\n"
    "   ipFamilies: IPv6}\n"
    "- {name: hosted, namespace: ns1, hostname: hosted, vips: [n/10.96.0.15], ports: {80: 80}}\n"
    "- {name: farsvc, namespace: ns1, hostname: farsvc, vips: [n/10.96.0.16], ports: {80: 80},\n"
    "   waypoint: {destination: ns1/farwp.svc, hboneMtlsPort: 15008}}\n"
    "- {name: farwp, namespace: ns1, hostname: farwp.svc, vips: [n/10.96.0.17],\n"
    "   ports: {15008: 15008}, subjectAltNames: [spiffe://td/ns/ns1/sa/farwp]}\n"
    "- {name: only4, namespace: ns1, hostname: only4, vips: ['n/2001:db8::61'], ports: {80: 80},\n"
    "   ipFamilies: IPv4}\n"
    "- {name: priv, namespace: ns2, hostname: priv, vips: [n/10.96.0.18], ports: {80: 80},\n"
    "   visibility: Namespace}\n"
    "- {name: zero, namespace: ns1, hostname: zero, vips: [n/10.96.0.19], ports: {80: 80},\n"
    "   waypoint: {destination: n/10.0.0.9, hboneMtlsPort: 15008},\n"
    "   weightedWaypoints: [{destination: n/10.0.0.99, weight: 0}]}\n"
    "- {name: weighted, namespace: ns1, hostname: weighted, vips: [n/10.96.0.20],\n"
    "   ports: {80: 80}, weightedWaypoints: [{destination: n/10.0.0.99, weight: 0},\n"
    "   {destination: {destination: n/10.0.0.9, hboneMtlsPort: 15018}, weight: 5}]}\n";

static const struct sw_route_env env = {.network = S("n"), .enforce_waypoint = true};

static struct sw_route_outbound ask(const struct sw_state *s, const char *source, const char *dst)
{
    struct sw_addr to = addr(dst);
    struct sw_route_outbound r;

    memset(&r, 0xa5, sizeof(r)); /* everything has to be filled in */
    sw_route_outbound(s, &env, workload(s, source), &to, NULL, &r);
    return r;
}

static void assert_sans(const struct sw_route_sans *sans, const char *first, const char *second)
{
    size_t n = (first ? 1U : 0U) + (second ? 1U : 0U);

    assert_int_equal(sw_route_sans_count(sans), n);
    if (first)
        assert_slice(sw_route_sans_at(sans, 0), first);
    if (second)
        assert_slice(sw_route_sans_at(sans, 1), second);
    assert_slice(sw_route_sans_at(sans, n), "");
}

static void o0_calls_to_our_own_ports_are_dropped(void **state)
{
    static const char *const mine[] = {"127.0.0.1:15001", "127.9.9.9:15006", "[::1]:15008"};
    static const char *const fine[] = {"127.0.0.1:15053", "127.0.0.1:15080", "10.0.0.2:15008"};
    STATE_AUTO s = load(mesh);
    struct sw_route_env socks = env;
    struct sw_addr a = addr("127.0.0.1:15080");
    struct sw_route_outbound r;

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(mine); i++) {
        r = ask(s, "src", mine[i]);
        assert_int_equal(r.kind, SW_ROUTE_DROP);
        assert_int_equal(r.drop, SW_DROP_SELF_CALL);
        assert_string_equal(r.reason, "attempted recursive call to ourselves");
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(fine); i++)
        assert_int_not_equal(ask(s, "src", fine[i]).kind, SW_ROUTE_DROP);
    socks.socks5 = true;
    sw_route_outbound(s, &socks, workload(s, "src"), &a, NULL, &r);
    assert_int_equal(r.drop, SW_DROP_SELF_CALL);
}

static void o2b_service_waypoint_by_hostname(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_outbound r = ask(s, "src", "10.96.0.4:80");

    (void)state;
    assert_int_equal(r.kind, SW_ROUTE_HBONE);
    assert_addr(r.target, "10.0.0.9:15008");
    assert_string_equal(r.authority, "10.96.0.4:80");
    assert_sans(&r.sans, "spiffe://td/ns/wp/sa/extra", "spiffe://td/ns/ns1/sa/wp");
    assert_true(r.via_waypoint);
    assert_false(r.via_gateway);
    assert_ptr_equal(r.workload, workload(s, "wp"));
    assert_slice(r.service->hostname, "viawp");
}

static void o2b_service_waypoint_by_address(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_outbound r = ask(s, "src", "10.96.0.9:443");

    (void)state;
    assert_int_equal(r.kind, SW_ROUTE_HBONE); /* a PASSTHROUGH service with a waypoint uses it */
    assert_addr(r.target, "10.0.0.9:15008");
    assert_string_equal(r.authority, "10.96.0.9:443");
    assert_sans(&r.sans, "spiffe://td/ns/ns1/sa/wp", NULL);
}

static void o2_weighted_waypoints(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_outbound r = ask(s, "src", "10.96.0.20:80");

    (void)state;
    assert_int_equal(r.kind, SW_ROUTE_HBONE); /* the only one with a weight, at its own port */
    assert_addr(r.target, "10.0.0.9:15018");
    r = ask(s, "src", "10.96.0.19:80"); /* all weights zero: the plain one */
    assert_addr(r.target, "10.0.0.9:15008");
}

static void o2_unknown_waypoint_fails_closed(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_outbound r = ask(s, "src", "10.96.0.6:80");

    (void)state;
    assert_int_equal(r.kind, SW_ROUTE_DROP);
    assert_int_equal(r.drop, SW_DROP_WAYPOINT);
    assert_slice(r.service->hostname, "nowp");
}

static void o2a_waypoint_on_another_network(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_outbound r = ask(s, "src", "10.96.0.16:80");

    (void)state;
    assert_int_equal(r.kind, SW_ROUTE_DOUBLE_HBONE);
    assert_addr(r.target, "10.9.9.9:15009");
    assert_string_equal(r.authority, "farsvc:80");
    assert_string_equal(r.inner_authority, "farsvc:80");
    assert_sans(&r.sans, "spiffe://td/ns/ns1/sa/gw", NULL);
    assert_sans(&r.inner_sans, "spiffe://td/ns/ns1/sa/farwp", NULL);
    assert_true(r.via_waypoint && r.via_gateway);
}

static void o3a_empty_service_is_dropped(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_outbound r = ask(s, "src", "10.96.0.7:80");

    (void)state;
    assert_int_equal(r.kind, SW_ROUTE_DROP);
    assert_int_equal(r.drop, SW_DROP_NO_UPSTREAM);
    assert_string_equal(r.reason, "no healthy upstream: 10.96.0.7:80");
    /* A port the service does not declare has no endpoints either. */
    assert_int_equal(ask(s, "src", "10.96.0.2:81").drop, SW_DROP_NO_UPSTREAM);
    /* A named port that no endpoint maps. */
    assert_int_equal(ask(s, "src", "10.96.0.1:80").drop, SW_DROP_NO_UPSTREAM);
}

static void o3b_unknown_destination_passes_through(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_outbound r = ask(s, "src", "1.2.3.4:8080");

    (void)state;
    assert_int_equal(r.kind, SW_ROUTE_TCP);
    assert_addr(r.target, "1.2.3.4:8080");
    assert_null(r.workload);
    assert_null(r.service);
    assert_string_equal(r.authority, "");
    assert_int_equal(sw_route_sans_count(&r.sans), 0);
    r = ask(s, "src", "10.96.0.8:80"); /* PASSTHROUGH */
    assert_int_equal(r.kind, SW_ROUTE_TCP);
    assert_addr(r.target, "10.96.0.8:80");
    r = ask(s, "src", "10.96.0.18:80"); /* not visible: unknown */
    assert_int_equal(r.kind, SW_ROUTE_TCP);
    assert_null(r.service);
}

static void wrong_network_is_unknown(void **state)
{
    STATE_AUTO s = load(mesh);

    (void)state;
    assert_int_equal(ask(s, "src", "10.5.0.1:80").kind, SW_ROUTE_TCP);
    assert_null(ask(s, "src", "10.5.0.1:80").workload);
}

static void o4_double_hbone(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_outbound r = ask(s, "src", "10.96.0.10:80");

    (void)state;
    assert_int_equal(r.kind, SW_ROUTE_DOUBLE_HBONE);
    assert_addr(r.target, "10.9.9.9:15009");
    assert_string_equal(r.authority, "far:80");
    assert_string_equal(r.inner_authority, "far:80");
    assert_sans(&r.sans, "spiffe://td/ns/ns1/sa/gw", NULL);
    assert_sans(&r.inner_sans, "spiffe://td/ns/far/sa/far", NULL);
    assert_ptr_equal(r.workload, workload(s, "gw"));
    assert_slice(r.service->hostname, "far");
    assert_true(r.via_gateway);
    assert_false(r.via_waypoint);
}

static void o4_without_a_gateway_is_dropped(void **state)
{
    STATE_AUTO s = load(mesh);

    (void)state;
    assert_int_equal(ask(s, "src", "10.96.0.11:80").drop, SW_DROP_GATEWAY);
}

static void o5_workload_waypoint(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_outbound r = ask(s, "src", "10.0.0.4:8080");

    (void)state;
    assert_int_equal(r.kind, SW_ROUTE_HBONE);
    assert_addr(r.target, "10.0.0.9:15008");
    assert_string_equal(r.authority, "10.0.0.4:8080");
    assert_sans(&r.sans, "spiffe://td/ns/ns1/sa/wp", NULL);
    assert_true(r.via_waypoint);
    assert_null(r.service);
    assert_int_equal(ask(s, "src", "10.0.0.5:80").drop, SW_DROP_WAYPOINT);
}

static void o5_is_not_for_the_waypoint_itself(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_outbound r = ask(s, "wp", "10.0.0.4:8080");

    (void)state;
    assert_int_equal(r.kind, SW_ROUTE_HBONE);
    assert_addr(r.target, "10.0.0.4:15008");
    assert_string_equal(r.authority, "10.0.0.4:8080");
    assert_false(r.via_waypoint);
}

static void o5_is_not_for_service_traffic(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_outbound r = ask(s, "src", "10.96.0.3:80");

    (void)state;
    assert_addr(r.target, "10.0.0.4:15008");
    assert_false(r.via_waypoint);
}

static void source_waypoint_is_not_used(void **state)
{
    STATE_AUTO s = load(mesh);

    (void)state;
    assert_addr(ask(s, "guarded", "10.0.0.2:80").target, "10.0.0.2:15008");
}

static void o6_hbone_to_a_workload(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_outbound r = ask(s, "src", "10.0.0.2:80");

    (void)state;
    assert_int_equal(r.kind, SW_ROUTE_HBONE);
    assert_addr(r.target, "10.0.0.2:15008");
    assert_string_equal(r.authority, "10.0.0.2:80");
    assert_sans(&r.sans, "spiffe://td/ns/ns1/sa/b", NULL);
    assert_ptr_equal(r.workload, workload(s, "hbone"));
}

static void o6_hbone_to_a_service(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_outbound r = ask(s, "src", "10.96.0.2:80");

    (void)state;
    assert_int_equal(r.kind, SW_ROUTE_HBONE);
    assert_addr(r.target, "10.0.0.2:15008");
    assert_string_equal(r.authority, "10.0.0.2:8080"); /* the endpoint's own port */
    assert_sans(&r.sans, "spiffe://td/ns/x/sa/y", "spiffe://td/ns/ns1/sa/b");
    assert_slice(r.service->hostname, "echo");
}

static void o7_plain_tcp(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_outbound r = ask(s, "src", "10.0.0.3:80");

    (void)state;
    assert_int_equal(r.kind, SW_ROUTE_TCP);
    assert_addr(r.target, "10.0.0.3:80");
    assert_ptr_equal(r.workload, workload(s, "tcp"));
    assert_string_equal(r.authority, "");
}

static void host_network_is_reached_only_through_services(void **state)
{
    STATE_AUTO s = load(mesh);

    (void)state;
    assert_null(ask(s, "src", "10.0.0.7:80").workload);
    assert_ptr_equal(ask(s, "src", "10.96.0.15:80").workload, workload(s, "host"));
}

static void hostname_workloads_need_dns(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_outbound r = ask(s, "src", "10.96.0.12:80");
    struct sw_ip resolved = ip("192.0.2.7");

    (void)state;
    assert_int_equal(r.kind, SW_ROUTE_HBONE);
    assert_slice(r.hostname, "ext.example");
    assert_int_equal(r.target.ip.family, 0);
    assert_int_equal(r.prefer_family, 4);
    sw_route_resolved(&r, &resolved);
    assert_addr(r.target, "192.0.2.7:15008");
    assert_string_equal(r.authority, "192.0.2.7:9080");
}

static void families_follow_the_caller_and_the_service(void **state)
{
    STATE_AUTO s = load(mesh);

    (void)state;
    assert_addr(ask(s, "src", "10.96.0.13:80").target, "10.0.0.6:15008");
    assert_addr(ask(s, "src", "[2001:db8::60]:80").target, "[2001:db8::d]:15008");
    assert_addr(ask(s, "src", "10.96.0.14:80").target, "[2001:db8::d]:15008");
    assert_addr(ask(s, "src", "[2001:db8::61]:80").target, "10.0.0.6:15008");
    assert_addr(ask(s, "src", "10.0.0.6:80").target, "10.0.0.6:15008");
    assert_addr(ask(s, "src", "[2001:db8::d]:80").target, "[2001:db8::d]:15008");
}

static void tried_endpoints_are_left_out(void **state)
{
    STATE_AUTO s = load(mesh);
    const struct sw_workload *first = workload(s, "hbone");
    const struct sw_workload *way = workload(s, "wp");
    const struct sw_route_tried tried = {&first, 1};
    const struct sw_route_tried wp_tried = {&way, 1};
    struct sw_addr a = addr("10.96.0.2:80");
    struct sw_route_outbound r;

    (void)state;
    sw_route_outbound(s, &env, workload(s, "src"), &a, &tried, &r);
    assert_int_equal(r.kind, SW_ROUTE_DROP);
    assert_int_equal(r.drop, SW_DROP_EXHAUSTED);
    a = addr("10.0.0.2:80");
    sw_route_outbound(s, &env, workload(s, "src"), &a, &tried, &r);
    assert_int_equal(r.drop, SW_DROP_EXHAUSTED);
    a = addr("10.96.0.4:80");
    sw_route_outbound(s, &env, workload(s, "src"), &a, &wp_tried, &r);
    assert_int_equal(r.drop, SW_DROP_EXHAUSTED);
}

/* The address is a service's and a workload's: O2 sees the workload, O3 the service. */
static void an_address_of_both_kinds(void **state)
{
    STATE_AUTO s =
        load("workloads:\n"
             "- {uid: src, namespace: a, network: n, workloadIps: [10.0.0.1], services: {}}\n"
             "- {uid: owner, namespace: a, network: n, workloadIps: [10.0.0.2], services: {}}\n"
             "- {uid: end, namespace: a, network: n, workloadIps: [10.0.0.3],\n"
             "   services: {a/h: {80: 8080}}}\n"
             "services:\n"
             "- {name: h, namespace: a, hostname: h, vips: [n/10.0.0.2], ports: {80: 80},\n"
             "   waypoint: {destination: a/missing, hboneMtlsPort: 15008}}\n");
    struct sw_route_outbound r = ask(s, "src", "10.0.0.2:80");

    (void)state;
    assert_int_equal(r.kind, SW_ROUTE_TCP);
    assert_addr(r.target, "10.0.0.3:8080");
    assert_slice(r.service->hostname, "h");
}

/* One namespace's objects take no addresses from another's: 'evil' claims what 'a' has. */
static void addresses_of_other_namespaces(void **state)
{
    STATE_AUTO s = load(
        "workloads:\n"
        "- {uid: src, namespace: c, network: n, workloadIps: [10.0.0.1], services: {}}\n"
        "- {uid: own, namespace: evil, network: n, workloadIps: [10.0.0.9], services: {}}\n"
        "- {uid: k//Pod/a/p, namespace: a, network: n, workloadIps: [10.0.0.2],\n"
        "   protocol: HBONE, services: {}}\n"
        "- {uid: vm, namespace: a, network: n, workloadIps: [10.0.0.3], services: {}}\n"
        "- {uid: end, namespace: a, network: n, workloadIps: [10.0.0.4],\n"
        "   services: {a/h: {80: 8080}}}\n"
        "- {uid: trap, namespace: evil, network: n, workloadIps: [10.0.0.66],\n"
        "   services: {evil/pod: {80: 80}, evil/all: {80: 80}}}\n"
        "- {uid: false-vip, namespace: evil, network: n, workloadIps: [10.96.0.1],\n"
        "   services: {}}\n"
        "- {uid: false-vm, namespace: evil, network: n, workloadIps: [10.0.0.3],\n"
        "   protocol: HBONE, services: {}}\n"
        "services:\n"
        "- {name: h, namespace: a, hostname: h, vips: [n/10.96.0.1], ports: {80: 80},\n"
        "   waypoint: {destination: a/missing, hboneMtlsPort: 15008}}\n"
        "- {name: pod, namespace: evil, hostname: pod, vips: [n/10.0.0.2], ports: {80: 80}}\n"
        "- {name: all, namespace: evil, hostname: all, vips: [], cidrVips: [{network: n, cidr: "
        "10.0.0.0/16}],\n"
        "   ports: {80: 80}}\n");
    struct sw_route_outbound r = ask(s, "src", "10.0.0.2:80");

    (void)state;
    /* A pod stays where it is, and its tunnel. */
    assert_int_equal(r.kind, SW_ROUTE_HBONE);
    assert_addr(r.target, "10.0.0.2:15008");
    /* So does a machine, whatever later entries and blocks say. */
    r = ask(s, "src", "10.0.0.3:80");
    assert_int_equal(r.kind, SW_ROUTE_TCP);
    assert_addr(r.target, "10.0.0.3:80");
    /* An entry at a service's address does not lead past its waypoint. */
    r = ask(s, "src", "10.96.0.1:80");
    assert_int_equal(r.kind, SW_ROUTE_DROP);
    assert_int_equal(r.drop, SW_DROP_WAYPOINT);
    /* At home they may do what they like. */
    r = ask(s, "own", "10.0.0.2:80");
    assert_addr(r.target, "10.0.0.66:80");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(o0_calls_to_our_own_ports_are_dropped),
        cmocka_unit_test(o2b_service_waypoint_by_hostname),
        cmocka_unit_test(o2b_service_waypoint_by_address),
        cmocka_unit_test(o2_weighted_waypoints),
        cmocka_unit_test(o2_unknown_waypoint_fails_closed),
        cmocka_unit_test(o2a_waypoint_on_another_network),
        cmocka_unit_test(o3a_empty_service_is_dropped),
        cmocka_unit_test(o3b_unknown_destination_passes_through),
        cmocka_unit_test(wrong_network_is_unknown),
        cmocka_unit_test(o4_double_hbone),
        cmocka_unit_test(o4_without_a_gateway_is_dropped),
        cmocka_unit_test(o5_workload_waypoint),
        cmocka_unit_test(o5_is_not_for_the_waypoint_itself),
        cmocka_unit_test(o5_is_not_for_service_traffic),
        cmocka_unit_test(source_waypoint_is_not_used),
        cmocka_unit_test(o6_hbone_to_a_workload),
        cmocka_unit_test(o6_hbone_to_a_service),
        cmocka_unit_test(o7_plain_tcp),
        cmocka_unit_test(host_network_is_reached_only_through_services),
        cmocka_unit_test(hostname_workloads_need_dns),
        cmocka_unit_test(families_follow_the_caller_and_the_service),
        cmocka_unit_test(tried_endpoints_are_left_out),
        cmocka_unit_test(an_address_of_both_kinds),
        cmocka_unit_test(addresses_of_other_namespaces),
    };

    return cmocka_run_group_tests_name("route_outbound", tests, NULL, NULL);
}
