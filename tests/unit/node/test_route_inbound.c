/* SPDX-License-Identifier: Apache-2.0 */
/* Inbound: authority, destination validation, next hop, waypoint enforcement, guesses. */
#include "fixture.h"
#include "node/route.h"

static const char mesh[] =
    "workloads:\n"
    "- {uid: pod, name: pod, namespace: a, network: n, workloadIps: [10.0.0.1, '2001:db8::1'],\n"
    "   trustDomain: td, serviceAccount: pod, protocol: HBONE,\n"
    "   services: {a/echo: {80: 8080}, a/named: {80: 9090}, a/plain: {}}}\n"
    "- {uid: other, name: other, namespace: a, network: n, workloadIps: [10.0.0.2],\n"
    "   trustDomain: td, serviceAccount: other, services: {}}\n"
    /* waypoints: one by address, one behind a service, one with an application tunnel */
    "- {uid: wp, name: wp, namespace: a, network: n, workloadIps: [10.0.0.9], trustDomain: td,\n"
    "   serviceAccount: wp, services: {a/wp: {15008: 15008}}}\n"
    "- {uid: swp, name: swp, namespace: a, network: n, workloadIps: [10.0.0.8], trustDomain: td,\n"
    "   serviceAccount: swp, services: {a/swp: {15008: 15008}},\n"
    "   applicationTunnel: {protocol: PROXY, port: 15088}}\n"
    "- {uid: bywp, name: bywp, namespace: a, network: n, workloadIps: [10.0.0.3],\n"
    "   trustDomain: td, serviceAccount: bywp, services: {a/headless: {80: 80}},\n"
    "   waypoint: {destination: n/10.0.0.9, hboneMtlsPort: 15008}}\n"
    "- {uid: mixed, name: mixed, namespace: a, network: n, workloadIps: [10.0.0.4],\n"
    "   trustDomain: td, serviceAccount: mixed,\n"
    "   services: {a/nowp: {80: 8080}, a/haswp: {81: 8181}, b/priv: {82: 8282}},\n"
    "   waypoint: {destination: a/wp, hboneMtlsPort: 15008}}\n"
    "- {uid: lost, name: lost, namespace: a, network: n, workloadIps: [10.0.0.5], services: {},\n"
    "   waypoint: {destination: a/gone, hboneMtlsPort: 15008}}\n"
    "- {uid: svconly, name: svconly, namespace: a, network: n, workloadIps: [10.0.0.6],\n"
    "   services: {a/haswp: {81: 8181}}}\n"
    "- {uid: tunnel, name: tunnel, namespace: a, network: n, workloadIps: ['2001:db8::7'],\n"
    "   services: {}, applicationTunnel: {protocol: PROXY, port: 15088}}\n"
    "- {uid: rawtunnel, name: rawtunnel, namespace: a, network: n, workloadIps: [10.0.0.10],\n"
    "   services: {}, applicationTunnel: {protocol: NONE}}\n"
    "services:\n"
    "- {name: echo, namespace: a, hostname: echo, vips: [n/10.96.0.1], ports: {80: 80}}\n"
    "- {name: named, namespace: a, hostname: named, vips: [n/10.96.0.2], ports: {80: 0, 81: 0}}\n"
    "- {name: plain, namespace: a, hostname: plain, vips: [n/10.96.0.3], ports: {443: 8443}}\n"
    "- {name: wp, namespace: a, hostname: wp, vips: [n/10.96.0.4], ports: {15008: 15008},\n"
    "   subjectAltNames: [spiffe://td/ns/a/sa/wp-extra]}\n"
    "- {name: swp, namespace: a, hostname: swp, vips: [n/10.96.0.5], ports: {15008: 15008}}\n"
    "- {name: haswp, namespace: a, hostname: haswp, ports: {81: 81},\n"
    "   vips: ['m/10.96.1.6', 'n/2001:db8::96', n/10.96.0.6],\n"
    "   waypoint: {destination: a/swp, hboneMtlsPort: 15008}}\n"
    "- {name: nowp, namespace: a, hostname: nowp, vips: [n/10.96.0.7], ports: {80: 80}}\n"
    "- {name: headless, namespace: a, hostname: headless, vips: [], ports: {80: 80}}\n"
    "- {name: priv, namespace: b, hostname: priv, vips: [n/10.96.0.8], ports: {82: 82},\n"
    "   visibility: Namespace}\n"
    "- {name: weighted, namespace: a, hostname: weighted, vips: [n/10.96.0.9], ports: {80: 80},\n"
    "   weightedWaypoints: [{destination: n/10.0.0.9, weight: 1}]}\n";

static const struct sw_spiffe client = {S("td"), S("c"), S("client")};
static const struct sw_spiffe wp_id = {S("td"), S("a"), S("wp")};
static const struct sw_spiffe swp_id = {S("td"), S("a"), S("swp")};

struct call {
    const char *local;
    const char *dst; /* connection's own address */
    const char *authority;
    const struct sw_spiffe *src;
    const char *peer;
    const char *forwarded;
    bool lenient; /* enforcement off */
};

static struct sw_route_inbound ask(const struct sw_state *s, struct call c)
{
    struct sw_route_env env = {
        .network = S("n"), .enforce_waypoint = !c.lenient, .localhost_app_tunnel = true};
    struct sw_route_inbound_request req = {.local = workload(s, c.local),
                                           .conn_dst = addr(c.dst),
                                           .peer_ip = ip(c.peer ? c.peer : "10.0.9.9"),
                                           .src = c.src,
                                           .authority = sw_slice_str(c.authority),
                                           .forwarded = sw_slice_str(c.forwarded)};
    struct sw_route_inbound r;

    memset(&r, 0xa5, sizeof(r));
    sw_route_inbound_hbone(s, &env, &req, &r);
    return r;
}

static void authorities_are_parsed_strictly(void **state)
{
    static const char *const bad[] = {"",        "10.0.0.1",    "10.0.0.1:",  "10.0.0.1:0",
                                      ":80",     "host",        "host:99999", "host:http",
                                      "[::1]80", "10.0.0.1:80x"};
    STATE_AUTO s = load(mesh);

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++) {
        struct sw_route_inbound r =
            ask(s, (struct call){.local = "pod", .dst = "10.0.0.1:15008", .authority = bad[i]});

        if (r.status != 400 || !r.early || r.reason[0] == '\0')
            fail_msg("'%s' gives %d", bad[i], r.status);
    }
}

static void own_address_is_allowed(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_inbound r =
        ask(s, (struct call){"pod", "10.0.0.1:15008", "10.0.0.1:80", &client, NULL, NULL, false});

    (void)state;
    assert_int_equal(r.status, 200);
    assert_addr(r.rbac_dst, "10.0.0.1:80");
    assert_addr(r.connect, "10.0.0.1:80");
    assert_addr(r.spoof, "10.0.9.9:0");
    assert_false(r.from_loopback || r.proxy_protocol || r.forwarded_honoured || r.from_waypoint);
    r = ask(s, (struct call){"pod", "[2001:db8::1]:15008", "[2001:db8::1]:80", &client,
                             "2001:db8::9", NULL, false});
    assert_int_equal(r.status, 200);
    assert_addr(r.connect, "[2001:db8::1]:80");
}

static void other_addresses_are_refused(void **state)
{
    static const char *const cases[] = {"10.0.0.2:80", "[2001:db8::1]:80", "10.96.0.1:80",
                                        "127.0.0.1:80", "1.2.3.4:80"};
    STATE_AUTO s = load(mesh);

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_route_inbound r =
            ask(s, (struct call){.local = "pod", .dst = "10.0.0.1:15008", .authority = cases[i]});

        assert_int_equal(r.status, 400);
        assert_true(r.early);
    }
    assert_string_equal(
        ask(s, (struct call){.local = "pod", .dst = "10.0.0.1:15008", .authority = "1.2.3.4:80"})
            .reason,
        "ip mismatch: 10.0.0.1 != 1.2.3.4");
}

static void a_waypoint_takes_what_names_it(void **state)
{
    STATE_AUTO s = load(mesh);
    static const struct {
        struct call c;
        int status;
    } cases[] = {
        /* workload's waypoint, given by address */
        {{.local = "wp", .dst = "10.0.0.9:15008", .authority = "10.0.0.3:80"}, 200},
        /* workload's waypoint, given as a service this workload is an endpoint of */
        {{.local = "wp", .dst = "10.0.0.9:15008", .authority = "10.0.0.4:80"}, 200},
        /* weighted waypoint of a service */
        {{.local = "wp", .dst = "10.0.0.9:15008", .authority = "10.96.0.9:80"}, 200},
        /* attached to another waypoint, to none, to one that is gone */
        {{.local = "wp", .dst = "10.0.0.9:15008", .authority = "10.96.0.6:81"}, 400},
        {{.local = "wp", .dst = "10.0.0.9:15008", .authority = "10.96.0.1:80"}, 400},
        {{.local = "wp", .dst = "10.0.0.9:15008", .authority = "10.0.0.5:80"}, 400},
        {{.local = "other", .dst = "10.0.0.2:15008", .authority = "10.0.0.3:80"}, 400},
        /* an application tunnel takes everything */
        {{.local = "swp", .dst = "10.0.0.8:15008", .authority = "10.96.0.6:81"}, 200},
        {{.local = "swp", .dst = "10.0.0.8:15008", .authority = "1.2.3.4:80"}, 200},
        {{.local = "rawtunnel", .dst = "10.0.0.10:15008", .authority = "1.2.3.4:80"}, 200},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_route_inbound r = ask(s, cases[i].c);

        if (r.status != cases[i].status)
            fail_msg("case %zu: %d %s", i, r.status, r.reason);
    }
    /* The target is the waypoint itself, whatever the authority says. */
    assert_addr(ask(s, cases[0].c).connect, "10.0.0.9:80");
}

static void hostnames_map_to_target_ports(void **state)
{
    STATE_AUTO s = load(mesh);
    struct call c = {.local = "pod", .dst = "10.0.0.1:15008", .src = &client};
    struct sw_route_inbound r;

    (void)state;
    c.authority = "echo:80";
    r = ask(s, c);
    assert_int_equal(r.status, 200);
    assert_addr(r.connect, "10.0.0.1:8080"); /* the endpoint's own mapping first */
    assert_slice(r.service->hostname, "echo");
    c.authority = "named:80";
    assert_addr(ask(s, c).connect, "10.0.0.1:9090");
    c.authority = "plain:443";
    assert_addr(ask(s, c).connect, "10.0.0.1:8443");
    c.authority = "named:81"; /* named port without a mapping */
    assert_int_equal(ask(s, c).status, 503);
    c.authority = "plain:80"; /* undeclared */
    assert_int_equal(ask(s, c).status, 503);
    c.authority = "nobody:80";
    r = ask(s, c);
    assert_int_equal(r.status, 503);
    assert_true(r.early);
    c.authority = "priv:82"; /* not visible from here */
    assert_int_equal(ask(s, c).status, 503);
}

static void own_ports_are_refused(void **state)
{
    STATE_AUTO s = load(mesh);
    struct sw_route_env env = {.network = S("n")};
    struct sw_addr plain = addr("10.0.0.1:15006");
    char reason[SW_ROUTE_REASON];

    (void)state;
    assert_int_equal(
        ask(s,
            (struct call){.local = "pod", .dst = "10.0.0.1:15008", .authority = "10.0.0.1:15008"})
            .status,
        503);
    assert_int_equal(
        ask(s,
            (struct call){.local = "swp", .dst = "10.0.0.8:15008", .authority = "10.96.0.6:15001"})
            .status,
        503);
    /* P0 */
    assert_false(sw_route_inbound_plain(&env, &plain, reason));
    assert_string_equal(reason, "attempted recursive call to ourselves");
    plain.port = 80;
    assert_true(sw_route_inbound_plain(&env, &plain, reason));
    plain.port = 15080;
    assert_true(sw_route_inbound_plain(&env, &plain, reason));
    env.socks5 = true;
    assert_false(sw_route_inbound_plain(&env, &plain, reason));
}

static void application_tunnels(void **state)
{
    STATE_AUTO s = load(mesh);
    struct call c = {.local = "swp", .dst = "10.0.0.8:15008", .authority = "10.96.0.6:81"};
    struct sw_route_inbound r = ask(s, c);

    (void)state;
    assert_true(r.proxy_protocol && r.from_loopback);
    assert_addr(r.connect, "127.0.0.1:15088");
    assert_addr(r.rbac_dst, "10.0.0.8:15088");
    assert_addr(r.proxy_dst, "10.96.0.6:81");
    c.authority = "haswp:81"; /* own network, IPv4 */
    r = ask(s, c);
    assert_int_equal(r.status, 200);
    assert_addr(r.proxy_dst, "10.96.0.6:81");
    c.authority = "headless:80"; /* nothing to show */
    assert_int_equal(ask(s, c).status, 503);
    r = ask(s, (struct call){
                   .local = "tunnel", .dst = "[2001:db8::7]:15008", .authority = "1.2.3.4:80"});
    assert_addr(r.connect, "[::1]:15088");
    r = ask(s, (struct call){
                   .local = "rawtunnel", .dst = "10.0.0.10:15008", .authority = "1.2.3.4:80"});
    assert_false(r.proxy_protocol);
    assert_addr(r.connect, "10.0.0.10:80");
}

/* ---- waypoint enforcement ---- */

static void waypoint_rules(void **state)
{
    static const struct sw_spiffe self = {S("td"), S("a"), S("bywp")};
    static const struct sw_spiffe extra = {S("td"), S("a"), S("wp-extra")};
    static const struct sw_spiffe in_b = {S("td"), S("b"), S("x")};
    static const struct {
        struct call c;
        int status;
        const char *why;
    } cases[] = {
        {{"bywp", "10.0.0.3:15008", "10.0.0.3:80", &client, 0, 0, 0}, 401, "past the waypoint"},
        {{"bywp", "10.0.0.3:15008", "10.0.0.3:80", NULL, 0, 0, 0}, 401, "no identity"},
        {{"bywp", "10.0.0.3:15008", "10.0.0.3:80", &client, 0, 0, true}, 200, "switched off"},
        {{"bywp", "10.0.0.3:15008", "10.0.0.3:80", &wp_id, 0, 0, 0}, 200, "the waypoint"},
        {{"bywp", "10.0.0.3:15008", "10.0.0.3:80", &swp_id, 0, 0, 0}, 401, "another waypoint"},
        {{"bywp", "10.0.0.3:15008", "10.0.0.3:80", &self, "10.0.0.3", 0, 0}, 200, "itself"},
        {{"bywp", "10.0.0.3:15008", "10.0.0.3:80", &self, "10.0.0.30", 0, 0}, 401, "a sibling"},
        {{"bywp", "10.0.0.3:15008", "headless:80", &client, 0, 0, 0},
         401,
         "a headless service is dialled by address, hence by the waypoint"},
        {{"bywp", "10.0.0.3:15008", "nowp:80", &client, 0, 0, 0},
         401,
         "the name of a service it is not in"},
        /* A service without a waypoint leads to 8080, one with a waypoint to 8181. */
        {{"mixed", "10.0.0.4:15008", "10.0.0.4:8080", &client, 0, 0, 0}, 200, "service traffic"},
        {{"mixed", "10.0.0.4:15008", "10.0.0.4:8181", &client, 0, 0, 0}, 401, "guarded port"},
        {{"mixed", "10.0.0.4:15008", "10.0.0.4:9999", &client, 0, 0, 0}, 401, "no service port"},
        {{"mixed", "10.0.0.4:15008", "10.0.0.4:8181", &swp_id, 0, 0, 0},
         200,
         "the service's waypoint"},
        {{"mixed", "10.0.0.4:15008", "10.0.0.4:9999", &wp_id, 0, 0, 0},
         200,
         "the workload's waypoint"},
        {{"mixed", "10.0.0.4:15008", "10.0.0.4:9999", &extra, 0, 0, 0},
         200,
         "a further name of the waypoint"},
        {{"mixed", "10.0.0.4:15008", "10.0.0.4:8282", &client, 0, 0, 0},
         401,
         "a service the caller cannot see opens nothing"},
        {{"mixed", "10.0.0.4:15008", "10.0.0.4:8282", &in_b, 0, 0, 0}, 200, "one it can see"},
        {{"mixed", "10.0.0.4:15008", "haswp:81", &client, 0, 0, 0},
         401,
         "named service with a waypoint"},
        {{"mixed", "10.0.0.4:15008", "haswp:81", &swp_id, 0, 0, 0}, 200, "through it"},
        {{"mixed", "10.0.0.4:15008", "nowp:80", &client, 0, 0, 0},
         200,
         "named service without waypoint"},
        {{"lost", "10.0.0.5:15008", "10.0.0.5:80", &client, 0, 0, 0}, 401, "waypoint that is gone"},
        {{"svconly", "10.0.0.6:15008", "10.0.0.6:8181", &client, 0, 0, 0},
         200,
         "pod address, only the service has a waypoint"},
        {{"svconly", "10.0.0.6:15008", "haswp:81", &client, 0, 0, 0},
         401,
         "service named, and it has a waypoint"},
        /* The waypoint as the receiver is no destination. */
        {{"wp", "10.0.0.9:15008", "10.0.0.3:80", &client, 0, 0, 0}, 200, "for its workload"},
        {{"swp", "10.0.0.8:15008", "haswp:81", &client, 0, 0, 0}, 200, "for its service"},
        {{"wp", "10.0.0.9:15008", "10.0.0.9:80", &client, 0, 0, 0}, 200, "unguarded itself"},
    };
    STATE_AUTO s = load(mesh);

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_route_inbound r = ask(s, cases[i].c);

        if (r.status != cases[i].status)
            fail_msg("%s: %d %s", cases[i].why, r.status, r.reason);
        if (r.status == 401) {
            assert_false(r.early);
            assert_string_equal(r.reason,
                                "the destination has a waypoint and the caller is not it");
        }
    }
}

static void forwarded_is_for_waypoints_only(void **state)
{
    STATE_AUTO s = load(mesh);
    struct call c = {.local = "bywp",
                     .dst = "10.0.0.3:15008",
                     .authority = "10.0.0.3:80",
                     .src = &wp_id,
                     .peer = "10.0.0.9",
                     .forwarded = "for=\"10.7.7.7:1234\";host=headless"};
    struct sw_route_inbound r = ask(s, c);

    (void)state;
    assert_true(r.from_waypoint && r.forwarded_honoured);
    assert_addr(r.spoof, "10.7.7.7:0");
    assert_slice(r.service->hostname, "headless");
    c.src = &client;
    c.lenient = true;
    r = ask(s, c);
    assert_false(r.forwarded_honoured);
    assert_addr(r.spoof, "10.0.0.9:0");
    c.src = &wp_id;
    c.forwarded = "for=\"127.0.0.1:1\""; /* nobody poses as loopback */
    assert_addr(ask(s, c).spoof, "10.0.0.9:0");
    c.forwarded = "for=\"[2001:db8::5]:1\""; /* not the family of the destination */
    assert_addr(ask(s, c).spoof, "10.0.0.9:0");
    c.forwarded = "for=unknown";
    assert_addr(ask(s, c).spoof, "10.0.0.9:0");
}

static void the_intended_service_is_guessed(void **state)
{
    STATE_AUTO s = load(mesh);
    const struct sw_workload *pod = workload(s, "pod");

    (void)state;
    assert_slice(sw_route_guess_service(s, pod, S("named"), 8080)->hostname, "named");
    assert_slice(sw_route_guess_service(s, pod, S("haswp"), 8080)->hostname, "echo"); /* not its */
    assert_slice(sw_route_guess_service(s, pod, S(""), 9090)->hostname, "named");
    assert_slice(sw_route_guess_service(s, pod, S(""), 8443)->hostname, "plain");
    assert_null(sw_route_guess_service(s, pod, S(""), 80)); /* echo maps 80 to 8080 here */
    assert_null(sw_route_guess_service(s, workload(s, "other"), S("echo"), 80));
}

static void waypoint_identities(void **state)
{
    STATE_AUTO s = load(mesh);

    (void)state;
    assert_true(sw_route_is_waypoint_of(s, workload(s, "bywp"), &wp_id));
    assert_false(sw_route_is_waypoint_of(s, workload(s, "bywp"), &client));
    assert_false(sw_route_is_waypoint_of(s, workload(s, "bywp"), NULL));
    assert_true(sw_route_is_waypoint_of(s, workload(s, "svconly"), &swp_id));
    assert_false(sw_route_is_waypoint_of(s, workload(s, "pod"), &wp_id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(authorities_are_parsed_strictly),
        cmocka_unit_test(own_address_is_allowed),
        cmocka_unit_test(other_addresses_are_refused),
        cmocka_unit_test(a_waypoint_takes_what_names_it),
        cmocka_unit_test(hostnames_map_to_target_ports),
        cmocka_unit_test(own_ports_are_refused),
        cmocka_unit_test(application_tunnels),
        cmocka_unit_test(waypoint_rules),
        cmocka_unit_test(forwarded_is_for_waypoints_only),
        cmocka_unit_test(the_intended_service_is_guessed),
        cmocka_unit_test(waypoint_identities),
    };

    return cmocka_run_group_tests_name("route_inbound", tests, NULL, NULL);
}
