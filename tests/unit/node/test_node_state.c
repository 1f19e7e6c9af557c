/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/arena.h"
#include "fixture.h"

static const struct sw_service *by_vip(const struct sw_state *s, const char *network,
                                       const char *text, const char *ns)
{
    struct sw_ip a = ip(text);

    return sw_state_service_by_vip(s, sw_slice_str(network), &a, sw_slice_str(ns));
}

static const struct sw_workload *by_ip(const struct sw_state *s, const char *network,
                                       const char *text)
{
    struct sw_ip a = ip(text);

    return sw_state_workload_by_ip(s, sw_slice_str(network), &a);
}

/* The service's namespace, or "-" for none. */
#define assert_owner(svc, owner)                                                                   \
    do {                                                                                           \
        const struct sw_service *svc_ = (svc);                                                     \
                                                                                                   \
        assert_slice(svc_ ? svc_->ns : S("-"), (owner));                                           \
    } while (0)

/* ---- workloads ---- */

static void workloads_are_found_by_uid_and_address(void **state)
{
    STATE_AUTO s = load("workloads:\n"
                        "- {uid: c1//Pod/a/one, name: one, namespace: a, services: {},\n"
                        "   workloadIps: [10.0.0.1, '2001:db8::1'], network: n1}\n"
                        "- {uid: two, name: zwei, namespace: a, services: {},\n"
                        "   workloadIps: [10.0.0.1], network: n2}\n");

    (void)state;
    assert_int_equal(sw_state_workload_count(s), 2);
    assert_slice(sw_workload_name(workload(s, "c1//Pod/a/one")), "one");
    assert_slice(sw_workload_name(workload(s, "two")), "zwei");
    assert_ptr_equal(by_ip(s, "n1", "10.0.0.1"), workload(s, "c1//Pod/a/one"));
    assert_ptr_equal(by_ip(s, "n1", "2001:db8::1"), workload(s, "c1//Pod/a/one"));
    assert_ptr_equal(by_ip(s, "n2", "10.0.0.1"), workload(s, "two"));
    assert_null(by_ip(s, "", "10.0.0.1"));
    assert_null(by_ip(s, "n1", "10.0.0.2"));
    assert_null(sw_state_workload_by_uid(s, S("c1//Pod/a")));
}

static void shared_addresses_go_to_the_highest_rank(void **state)
{
    /* Ranks 0 to 3 in all orders; the last two tie. */
    STATE_AUTO s = load(
        "workloads:\n"
        "- {uid: c//Pod/a/hbone, namespace: a, services: {}, workloadIps: [10.0.0.1, 10.0.0.2, "
        "10.0.0.3], protocol: HBONE}\n"
        "- {uid: c//Pod/a/plain, namespace: a, services: {}, workloadIps: [10.0.0.1, 10.0.0.4]}\n"
        "- {uid: entry-hbone, namespace: a, services: {}, workloadIps: [10.0.0.2, 10.0.0.4, "
        "10.0.0.5], protocol: HBONE}\n"
        "- {uid: entry, namespace: a, services: {}, workloadIps: [10.0.0.3, 10.0.0.5, 10.0.0.6]}\n"
        "- {uid: a-later-entry, namespace: a, services: {}, workloadIps: [10.0.0.6]}\n");

    (void)state;
    assert_slice(uid_of(by_ip(s, "", "10.0.0.1")), "c//Pod/a/hbone");
    assert_slice(uid_of(by_ip(s, "", "10.0.0.2")), "c//Pod/a/hbone");
    assert_slice(uid_of(by_ip(s, "", "10.0.0.3")), "c//Pod/a/hbone");
    assert_slice(uid_of(by_ip(s, "", "10.0.0.4")), "c//Pod/a/plain");
    assert_slice(uid_of(by_ip(s, "", "10.0.0.5")), "entry-hbone");
    assert_slice(uid_of(by_ip(s, "", "10.0.0.6")), "a-later-entry");
}

static void host_network_workloads_have_no_address(void **state)
{
    STATE_AUTO s = load("workloads:\n"
                        "- {uid: u, namespace: a, services: {}, workloadIps: [10.0.0.1],\n"
                        "   networkMode: HostNetwork}\n");

    (void)state;
    assert_null(by_ip(s, "", "10.0.0.1"));
    assert_int_equal(workload(s, "u")->n_ips, 1);
}

static void workloads_are_found_by_hostname_and_namespace(void **state)
{
    STATE_AUTO s = load("workloads:\n"
                        "- {uid: u, namespace: a, services: {}, workloadIps: [], hostname: h.x}\n"
                        "- {uid: v, namespace: b, services: {}, workloadIps: [], hostname: h.x}\n");

    (void)state;
    assert_ptr_equal(sw_state_workload_by_hostname(s, S("b"), S("h.x")), workload(s, "v"));
    assert_null(sw_state_workload_by_hostname(s, S("c"), S("h.x")));
    assert_null(sw_state_workload_by_hostname(s, S("a"), S("h.y")));
}

static struct sw_state *build_for_node(const char *node)
{
    struct sw_state_builder *b = sw_state_builder_new(sw_slice_str(node), true);
    struct sw_workload_spec w = {.uid = S("1"), .name = S("p"), .ns = S("a"), .node = S("n1")};

    assert_int_equal(sw_state_add_workload(b, &w, NULL), SW_OK);
    w.uid = S("2");
    w.node = S("n2");
    w.service_account = S("other");
    assert_int_equal(sw_state_add_workload(b, &w, NULL), SW_OK);
    return sw_state_finish(b);
}

static void local_workloads_are_those_of_the_node(void **state)
{
    STATE_AUTO one = build_for_node("n1");
    STATE_AUTO any = build_for_node("");

    (void)state;
    assert_ptr_equal(sw_state_local_workload(one, S("a"), S("p"), S("default")),
                     workload(one, "1"));
    assert_null(sw_state_local_workload(one, S("a"), S("p"), S("other")));
    assert_ptr_equal(sw_state_local_workload(any, S("a"), S("p"), S("other")), workload(any, "2"));
    assert_null(sw_state_local_workload(any, S("b"), S("p"), S("other")));
    assert_null(sw_state_local_workload(any, S("a"), S("q"), S("other")));
}

static void wire_defaults_fill_identity(void **state)
{
    STATE_AUTO s = build_for_node("");
    STATE_AUTO file = load("workloads:\n- {uid: u, namespace: a, services: {}, workloadIps: []}\n");

    (void)state;
    assert_slice(workload(s, "1")->c->identity, "spiffe://cluster.local/ns/a/sa/default");
    assert_slice(workload(s, "1")->at->cluster_id, "Kubernetes");
    /* In the local file empty means empty. */
    assert_slice(workload(file, "u")->c->identity, "spiffe:///ns/a/sa/");
    assert_slice(workload(file, "u")->at->cluster_id, "");
}

static void bad_workloads_are_rejected_alone(void **state)
{
    static const struct sw_gateway_addr nowhere = {0};
    static const struct sw_ip no_ip = {0};
    static const struct sw_membership_spec bad_service = {.key = S("no-slash")};
    static const struct sw_membership_spec cut_service = {.key = S("a/h\0x")};
    static const struct sw_gateway_addr cut = {
        .by_hostname = true, .ns = S("a"), .hostname = S("h\0x")};
    static const struct {
        struct sw_workload_spec w;
        const char *msg;
    } cases[] = {
        {{.name = S("x")}, "workload without a uid"},
        {{.uid = S("u"), .protocol = 2}, "tunnel protocol LEGACY_ISTIO_MTLS is not supported"},
        {{.uid = S("u"), .protocol = 7}, "unknown tunnel protocol 7"},
        {{.uid = S("u"), .type = 4}, "unknown workload type 4"},
        {{.uid = S("u"), .app_tunnel = 2}, "unknown application tunnel protocol 2"},
        {{.uid = S("u"), .ips = &no_ip, .n_ips = 1}, "an address is neither IPv4 nor IPv6"},
        {{.uid = S("u"), .waypoint = &nowhere}, "waypoint has no destination"},
        {{.uid = S("u"), .network_gateway = &nowhere}, "network gateway has no destination"},
        {{.uid = S("u"), .services = &bad_service, .n_services = 1},
         "service 'no-slash' is not NAMESPACE/HOSTNAME"},
        {{.uid = S("u"), .service_account = S("admin\0x")}, "a text has a NUL byte"},
        {{.uid = S("u"), .waypoint = &cut}, "waypoint has a NUL byte in its name"},
        {{.uid = S("u"), .services = &cut_service, .n_services = 1},
         "a service has a NUL byte in its name"},
    };
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);
    struct sw_workload_spec good = {.uid = S("ok")};
    struct sw_err err;

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        assert_int_equal(sw_state_add_workload(b, &cases[i].w, &err), SW_EINVAL);
        assert_string_equal(err.msg, cases[i].msg);
    }
    assert_int_equal(sw_state_add_workload(b, &good, &err), SW_OK);
    {
        STATE_AUTO s = sw_state_finish(b);

        assert_int_equal(sw_state_workload_count(s), 1);
    }
}

/* A key is made of them: it would end at the byte and stand for another. */
static void names_with_a_nul_byte_are_rejected(void **state)
{
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);
    struct sw_service_spec svc = {.ns = S("a"), .hostname = S("h\0x")};
    struct sw_policy p = {.ns = S("a"), .name = S("p\0x")};
    STATE_AUTO s = NULL;

    (void)state;
    assert_int_equal(sw_state_add_service(b, &svc, NULL), SW_EINVAL);
    assert_int_equal(sw_state_add_policy(b, &p, S(""), NULL), SW_EINVAL);
    p.name = S("p");
    p.ns = S("a\0");
    assert_int_equal(sw_state_add_policy(b, &p, S(""), NULL), SW_EINVAL);
    s = sw_state_finish(b);
    assert_int_equal(sw_state_policy_count(s), 0);
}

static void a_second_resource_replaces_the_first(void **state)
{
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);
    const struct sw_ip first = ip("10.0.0.1");
    const struct sw_ip second = ip("10.0.0.2");
    struct sw_workload_spec w = {.uid = S("u"), .ips = &first, .n_ips = 1, .name = S("old")};
    struct sw_service_spec svc = {.ns = S("a"), .hostname = S("h"), .name = S("old")};
    struct sw_policy p = {.ns = S("a"), .name = S("p"), .action = SW_POLICY_ALLOW};

    (void)state;
    assert_int_equal(sw_state_add_workload(b, &w, NULL), SW_OK);
    assert_int_equal(sw_state_add_service(b, &svc, NULL), SW_OK);
    assert_int_equal(sw_state_add_policy(b, &p, S(""), NULL), SW_OK);
    w.ips = &second;
    w.name = S("new");
    svc.name = S("new");
    p.action = SW_POLICY_DENY;
    assert_true(sw_state_has_workload(b, S("u")));
    assert_true(sw_state_has_service(b, S("a"), S("h")));
    assert_true(sw_state_has_policy(b, S("a"), S("p")));
    assert_int_equal(sw_state_add_workload(b, &w, NULL), SW_OK);
    assert_int_equal(sw_state_add_service(b, &svc, NULL), SW_OK);
    assert_int_equal(sw_state_add_policy(b, &p, S(""), NULL), SW_OK);
    {
        STATE_AUTO s = sw_state_finish(b);

        assert_int_equal(sw_state_workload_count(s), 1);
        assert_null(by_ip(s, "", "10.0.0.1"));
        assert_slice(sw_workload_name(by_ip(s, "", "10.0.0.2")), "new");
        assert_int_equal(sw_state_service_count(s), 1);
        assert_slice(service_at(s, 0)->name, "new");
        assert_int_equal(sw_state_policy_count(s), 1);
        assert_int_equal(policy_at(s, 0)->action, SW_POLICY_DENY);
    }
}

/* ---- services ---- */

static void shared_vips_prefer_the_own_namespace_then_canonical(void **state)
{
    STATE_AUTO s =
        load("services:\n"
             "- {name: x, namespace: a, hostname: x.a, vips: [n/10.9.0.1], ports: {80: 80}}\n"
             "- {name: x, namespace: b, hostname: x.b, vips: [n/10.9.0.1], ports: {80: 80}, "
             "canonical: true}\n"
             "- {name: x, namespace: c, hostname: x.c, vips: [n/10.9.0.1], ports: {80: 80}}\n"
             "- {name: y, namespace: d, hostname: y.d, vips: [n/10.9.0.2], ports: {80: 80}}\n"
             "- {name: y, namespace: e, hostname: y.e, vips: [n/10.9.0.2], ports: {80: 80}}\n");

    (void)state;
    assert_owner(by_vip(s, "n", "10.9.0.1", "c"), "c");
    assert_owner(by_vip(s, "n", "10.9.0.1", "a"), "a");
    assert_owner(by_vip(s, "n", "10.9.0.1", "else"), "b");
    assert_owner(by_vip(s, "n", "10.9.0.2", "else"), "d"); /* first to arrive */
    assert_owner(by_vip(s, "n", "10.9.0.3", "a"), "-");
    assert_owner(by_vip(s, "m", "10.9.0.1", "a"), "-");
}

static void one_entry_per_vip_and_namespace(void **state)
{
    STATE_AUTO s =
        load("services:\n"
             "- {name: x, namespace: a, hostname: x.a, vips: [n/10.9.0.1], ports: {80: 80}}\n"
             "- {name: y, namespace: a, hostname: y.a, vips: [n/10.9.0.1], ports: {80: 80}}\n");

    (void)state;
    assert_slice(by_vip(s, "n", "10.9.0.1", "a")->hostname, "y.a");
}

static void visibility_hides_vips_and_hostnames(void **state)
{
    STATE_AUTO s =
        load("services:\n"
             "- {name: x, namespace: a, hostname: x.h, vips: [n/10.9.0.1], ports: {80: 80}, "
             "visibility: Namespace, canonical: true}\n"
             "- {name: x, namespace: b, hostname: x.h, vips: [n/10.9.0.2], ports: {80: 80}}\n"
             "- {name: w, namespace: c, hostname: wide, vips: [], ports: {80: 80},\n"
             "   cidrVips: [{network: n, cidr: 10.9.0.0/24}]}\n"
             "- {name: p, namespace: d, hostname: private, vips: [n/10.8.0.1], ports: {80: 80},\n"
             "   visibility: Namespace, cidrVips: [{network: n, cidr: 10.7.0.0/24}]}\n");

    (void)state;
    assert_owner(by_vip(s, "n", "10.9.0.1", "a"), "a");
    assert_owner(by_vip(s, "n", "10.9.0.1", "b"), "c"); /* falls through to the block */
    assert_owner(by_vip(s, "n", "10.8.0.1", "a"), "-");
    assert_owner(by_vip(s, "n", "10.7.0.9", "a"), "-");
    assert_owner(by_vip(s, "n", "10.7.0.9", "d"), "d");
    assert_owner(sw_state_service_by_hostname(s, S("x.h"), S("a")), "a");
    assert_owner(sw_state_service_by_hostname(s, S("x.h"), S("z")), "b");
    assert_owner(sw_state_service_by_hostname(s, S("private"), S("a")), "-");
    assert_owner(sw_state_service_by_key(s, S("a"), S("x.h")), "a");
    assert_owner(sw_state_service_by_key(s, S("c"), S("x.h")), "-");
}

static void hostnames_prefer_the_own_namespace_then_canonical(void **state)
{
    STATE_AUTO s =
        load("services:\n"
             "- {name: x, namespace: a, hostname: h, vips: [], ports: {80: 80}}\n"
             "- {name: x, namespace: b, hostname: h, vips: [], ports: {80: 80}, canonical: true}\n"
             "- {name: x, namespace: c, hostname: h, vips: [], ports: {80: 80}}\n");

    (void)state;
    assert_owner(sw_state_service_by_hostname(s, S("h"), S("c")), "c");
    assert_owner(sw_state_service_by_hostname(s, S("h"), S("x")), "b");
    assert_owner(sw_state_service_by_hostname(s, S("g"), S("x")), "-");
}

static void cidr_vips(void **state)
{
    STATE_AUTO s = load(
        "services:\n"
        "- {name: a, namespace: a, hostname: a, vips: [n/10.1.2.3], ports: {80: 80},\n"
        "   cidrVips: [{network: n, cidr: 10.0.0.0/8}, {network: n, cidr: '2001:db8::/32'}]}\n"
        "- {name: b, namespace: b, hostname: b, vips: [], ports: {80: 80},\n"
        "   cidrVips: [{network: n, cidr: 10.1.0.0/16}, {network: m, cidr: 10.2.0.0/16}]}\n"
        "- {name: c, namespace: c, hostname: c, vips: [], ports: {80: 80}, canonical: true,\n"
        "   cidrVips: [{network: n, cidr: 10.1.0.0/16}]}\n"
        "- {name: d, namespace: d, hostname: d, vips: [], ports: {80: 80},\n"
        "   cidrVips: [{network: n, cidr: '2001:db8:1::/48'}, {network: n, cidr: 10.3.0.7/32}]}\n"
        "- {name: e, namespace: e, hostname: e, vips: [], ports: {80: 80},\n"
        "   cidrVips: [{network: z, cidr: 0.0.0.0/0}]}\n");

    (void)state;
    assert_owner(by_vip(s, "n", "10.99.0.1", "x"), "a");
    assert_owner(by_vip(s, "n", "10.1.9.9", "x"), "c"); /* longest, then canonical */
    assert_owner(by_vip(s, "n", "10.1.9.9", "b"), "b"); /* own namespace */
    assert_owner(by_vip(s, "n", "10.1.9.9", "a"), "a"); /* even when shorter */
    assert_owner(by_vip(s, "n", "10.1.2.3", "b"), "a"); /* exact beats any block */
    assert_owner(by_vip(s, "n", "10.2.0.1", "x"), "a"); /* other network's block is not seen */
    assert_owner(by_vip(s, "m", "10.2.0.1", "x"), "b");
    assert_owner(by_vip(s, "m", "10.99.0.1", "x"), "-");
    assert_owner(by_vip(s, "n", "10.3.0.7", "x"), "d");
    assert_owner(by_vip(s, "n", "10.3.0.8", "x"), "a");
    assert_owner(by_vip(s, "n", "2001:db8:1::5", "x"), "d");
    assert_owner(by_vip(s, "n", "2001:db8:2::5", "x"), "a");
    assert_owner(by_vip(s, "n", "2001:db9::", "x"), "-");
    assert_owner(by_vip(s, "z", "9.9.9.9", "x"), "e");
    assert_owner(by_vip(s, "z", "::9", "x"), "-");
}

static void endpoints_are_linked_whatever_the_order(void **state)
{
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);
    const struct sw_port_pair pair = {80, 8080};
    const struct sw_membership_spec in[] = {{S("a/h"), &pair, 1}, {S("a/later"), NULL, 0}};
    const struct sw_ip a1 = ip("10.0.0.1");
    struct sw_workload_spec w = {
        .uid = S("u1"), .services = in, .n_services = 2, .ips = &a1, .n_ips = 1};
    struct sw_service_spec svc = {.ns = S("a"), .hostname = S("h"), .ports = &pair, .n_ports = 1};

    (void)state;
    assert_int_equal(sw_state_add_workload(b, &w, NULL), SW_OK);
    assert_int_equal(sw_state_add_service(b, &svc, NULL), SW_OK);
    w.uid = S("u0");
    assert_int_equal(sw_state_add_workload(b, &w, NULL), SW_OK);
    w.uid = S("u2");
    w.unhealthy = true;
    assert_int_equal(sw_state_add_workload(b, &w, NULL), SW_OK);
    {
        STATE_AUTO s = sw_state_finish(b);
        const struct sw_service *h = sw_state_service_by_key(s, S("a"), S("h"));

        assert_int_equal(h->n_endpoints, 2);         /* without the unhealthy one */
        assert_slice(uid_of(h->endpoints[0]), "u1"); /* in order of arrival */
        assert_slice(uid_of(h->endpoints[1]), "u0");
        assert_true(h->uniform);
        assert_true(sw_workload_in_service(workload(s, "u2"), h));
        assert_int_equal(sw_workload_target_port(workload(s, "u1"), h, 80), 8080);
        assert_int_equal(sw_workload_target_port(workload(s, "u1"), h, 81), 0);
        assert_int_equal(sw_state_staged_count(s), 1);
        assert_slice(staged_at(s, 0), "a/later");
        /* All three are of one class, stored once. */
        assert_ptr_equal(workload(s, "u0")->c, workload(s, "u2")->c);
    }
}

static void unhealthy_endpoints_stay_with_allow_all(void **state)
{
    STATE_AUTO s = load("workloads:\n"
                        "- {uid: u, namespace: a, services: {a/h: {}}, workloadIps: [10.0.0.1],\n"
                        "   status: Unhealthy}\n"
                        "services:\n"
                        "- {name: h, namespace: a, hostname: h, vips: [], ports: {80: 80},\n"
                        "   loadBalancer: {healthPolicy: AllowAll}}\n");

    (void)state;
    assert_int_equal(service_at(s, 0)->n_endpoints, 1);
}

static void services_may_name_their_endpoints(void **state)
{
    STATE_AUTO s =
        load("workloads:\n"
             "- {uid: u, namespace: a, services: {}, workloadIps: [10.0.0.1]}\n"
             "- {uid: v, namespace: a, services: {a/h: {80: 1}}, workloadIps: [10.0.0.2]}\n"
             "services:\n"
             "- {name: h, namespace: a, hostname: h, vips: [], ports: {80: 80},\n"
             "   endpoints: {u: {workloadUid: u, port: {80: 9090}}, v: {port: {80: 2}},\n"
             "               gone: {port: {}}}}\n");
    const struct sw_service *h = service_at(s, 0);

    (void)state;
    assert_int_equal(h->n_endpoints, 2);
    assert_int_equal(sw_workload_target_port(workload(s, "u"), h, 80), 9090);
    assert_int_equal(sw_workload_target_port(workload(s, "v"), h, 80), 1); /* its own word */
}

static void bad_services_are_rejected(void **state)
{
    static const int zero = 0;
    static const struct sw_weighted_waypoint nowhere = {.weight = 1};
    static const struct sw_network_addr no_ip = {0};
    static const struct sw_network_cidr bad_block = {.cidr = {{.family = 4}, 33}};
    static const struct {
        struct sw_service_spec s;
        const char *msg;
    } cases[] = {
        {{.ns = S("a")}, "service without a hostname"},
        {{.hostname = S("h"), .mode = 4}, "unknown load balancing mode 4"},
        {{.hostname = S("h"), .families = 9}, "unknown IP families 9"},
        {{.hostname = S("h"), .health_policy = 2}, "unknown health policy 2"},
        {{.hostname = S("h"), .prefs = &zero, .n_prefs = 1}, "unknown routing preference 0"},
        {{.hostname = S("h"), .weighted = &nowhere, .n_weighted = 1},
         "weighted waypoint has no destination"},
        {{.hostname = S("h"), .vips = &no_ip, .n_vips = 1}, "an address is neither IPv4 nor IPv6"},
        {{.hostname = S("h"), .cidr_vips = &bad_block, .n_cidr_vips = 1},
         "an address block is malformed"},
    };
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);
    struct sw_err err;

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        assert_int_equal(sw_state_add_service(b, &cases[i].s, &err), SW_EINVAL);
        assert_string_equal(err.msg, cases[i].msg);
    }
    sw_state_builder_free(b);
}

/* ---- policies ---- */

static const char policies_yaml[] =
    "workloads:\n"
    "- {uid: w, namespace: a, services: {}, workloadIps: [],\n"
    "   authorizationPolicies: [root/strict, a/sel]}\n"
    "- {uid: other, namespace: b, services: {}, workloadIps: []}\n"
    "- {uid: broken, namespace: b, services: {}, workloadIps: [],\n"
    "   authorizationPolicies: [b/gone, root/strict]}\n"
    "policies:\n"
    "- {name: glob, namespace: root, scope: Global, action: Allow, rules: [[]], dryRun: false}\n"
    "- {name: mine, namespace: a, scope: Namespace, action: Deny, rules: [], dryRun: false}\n"
    "- {name: theirs, namespace: b, scope: Namespace, action: Deny, rules: [[]], dryRun: false}\n"
    "- {name: sel, namespace: a, scope: WorkloadSelector, action: Deny, rules: [],\n"
    "   dryRun: false}\n"
    "- {name: strict, namespace: root, scope: WorkloadSelector, action: Deny, dryRun: false,\n"
    "   rules: [[[{notPrincipals: [{Presence: []}]}]]]}\n";

static size_t count(const struct sw_policy_set *set)
{
    size_t n = 0;

    for (int i = 0; i < SW_POLICY_PARTS; i++)
        n += sw_policy_list_count(set->part[i]);
    return n;
}

static void policies_apply_by_scope(void **state)
{
    STATE_AUTO s = load(policies_yaml);
    struct sw_policy_set w = sw_state_policies_for(s, workload(s, "w"));
    struct sw_policy_set other = sw_state_policies_for(s, workload(s, "other"));
    const struct sw_spiffe id = {S("td"), S("x"), S("y")};
    struct sw_policy_request mtls = {.src = &id};
    struct sw_policy_request plain = {0};
    struct sw_policy_verdict v;

    (void)state;
    assert_int_equal(count(&w), 4); /* global, namespace, two listed */
    assert_int_equal(count(&other), 2);
    assert_true(sw_policy_decide(&w, &mtls, &v));
    assert_false(sw_policy_decide(&w, &plain, &v));
    assert_string_equal(v.text, "explicitly denied by: root/strict");
    assert_false(sw_policy_decide(&other, &mtls, &v));
    assert_string_equal(v.text, "explicitly denied by: b/theirs");
    assert_true(has_policy(s, "root/strict"));
    assert_false(has_policy(s, "root/loose"));
}

static void missing_policies_fail_closed(void **state)
{
    STATE_AUTO s = load(policies_yaml);
    struct sw_policy_set set = sw_state_policies_for(s, workload(s, "broken"));
    struct sw_policy_request req = {0};
    struct sw_policy_verdict v;

    (void)state;
    assert_false(sw_policy_decide(&set, &req, &v));
    assert_string_equal(v.text, "policy 'b/gone' is not known");
}

/* ---- records ---- */

static struct sw_state *one_workload(const struct sw_workload_spec *spec)
{
    struct sw_state_builder *b = sw_state_builder_new(sw_slice("", 0), true);

    assert_int_equal(sw_state_add_workload(b, spec, NULL), SW_OK);
    return sw_state_finish(b);
}

/* Texts of a record come back, however they are laid out in it. */
static void records_give_back_what_they_were_made_of(void **state)
{
    static char longest[400];
    const struct sw_slice long_text = sw_slice(longest, sizeof(longest));
    const struct {
        struct sw_slice uid, name, hostname, version;
        uint32_t capacity;
        bool pod;
    } rows[] = {
        {S("c//Pod/ns/web-1"), S("web-1"), S(""), S("0123456789abcdef"), 1, true},
        {S("c//Pod/ns/web-1"), S("web-1"), S("h.example"), S("0123456789ABCDEF"), 7, true},
        {S("c//Pod/ns/web-1"), S("other"), S("h.example"), S("abc"), 0, true},
        {S("c//Pod/ns/web-1"), S(""), S(""), S(""), 2, true},
        {S("web-1"), S("web-1"), S(""), S("v1"), 1, false},
        {S("c//Pod/x"), S("Pod/x"), S("h"), S("ff"), 1, true},
        {S("e"), S("apart"), S("h"), S("0g"), 9, false},
        {long_text, S("apart"), S(""), S("00"), 1, false},
        {long_text, long_text, S("h"), S("00ff"), 3, false},
        {S("u"), long_text, long_text, sw_slice(longest, 255), 3, false},
    };

    (void)state;
    memset(longest, 'a', sizeof(longest));
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        const struct sw_ip ips[] = {ip("10.0.0.1"), ip("2001:db8::1")};
        STATE_AUTO s = one_workload(&(struct sw_workload_spec){.uid = rows[i].uid,
                                                               .name = rows[i].name,
                                                               .hostname = rows[i].hostname,
                                                               .version = rows[i].version,
                                                               .ips = ips,
                                                               .n_ips = 1 + i % 2,
                                                               .has_capacity = true,
                                                               .capacity = rows[i].capacity});
        const struct sw_workload *w = sw_state_workload_by_uid(s, rows[i].uid);
        SW_ARENA_AUTO a = {0};

        assert_non_null(w);
        assert_true(sw_slice_eq(sw_workload_uid(w, &a), rows[i].uid));
        assert_true(sw_slice_eq(sw_workload_version(w, &a), rows[i].version));
        assert_true(sw_slice_eq(sw_workload_name(w), rows[i].name));
        assert_true(sw_slice_eq(sw_workload_hostname(w), rows[i].hostname));
        assert_int_equal(sw_workload_capacity(w), rows[i].capacity);
        assert_int_equal(sw_workload_is_pod(w), rows[i].pod);
        assert_true(sw_workload_has_ip(w, &ips[i % 2]));
        assert_null(sw_state_workload_by_uid(s, S("c//Pod/ns/web-")));
    }
}

/* The same uid may be cut at different places, of which nothing is seen. */
static void uids_compare_as_whole_texts(void **state)
{
    static const struct {
        const char *uid;
        const char *name;
    } rows[] = {{"a//Pod/n/a", "a"}, {"a//Pod/n/ab", "ab"}, {"a//Pod/n/ab", "b"},
                {"a//Pod/n/b", "b"}, {"a//Pod/o/a", "a"},   {"b", "b"}};
    struct sw_state *s[SW_ARRAY_LEN(rows)];
    const struct sw_workload *w[SW_ARRAY_LEN(rows)];

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        s[i] = one_workload(&(struct sw_workload_spec){.uid = sw_slice_str(rows[i].uid),
                                                       .name = sw_slice_str(rows[i].name)});
        w[i] = sw_state_workload_by_uid(s[i], sw_slice_str(rows[i].uid));
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        for (size_t k = 0; k < SW_ARRAY_LEN(rows); k++) {
            int want = strcmp(rows[i].uid, rows[k].uid);
            int got = sw_workload_cmp(w[i], w[k]);

            assert_int_equal(got < 0, want < 0);
            assert_int_equal(got > 0, want > 0);
            assert_int_equal(sw_workload_same(w[i], w[k]), want == 0);
        }
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++)
        (void)sw_state_unref(s[i]);
}

/* ---- snapshots ---- */

static void a_uid_is_the_same_workload_in_the_next_snapshot(void **state)
{
    STATE_AUTO old = load("workloads:\n"
                          "- {name: p, namespace: a, services: {}, workloadIps: [10.0.0.1]}\n");
    struct sw_slice uid = uid_of(workload_at(old, 0));
    STATE_AUTO new =
        load("workloads:\n"
             "- {name: p, namespace: a, services: {}, workloadIps: [10.0.0.9],\n"
             "   authorizationPolicies: [a/none]}\n"
             "policies:\n"
             "- {name: none, namespace: a, scope: WorkloadSelector, action: Allow, rules: [],\n"
             "   dryRun: false}\n");
    const struct sw_workload *again = sw_state_workload_by_uid(new, uid);
    struct sw_policy_request req = {0};
    struct sw_policy_verdict v;
    struct sw_policy_set set;

    (void)state;
    assert_true(sw_state_version(new) > sw_state_version(old));
    assert_non_null(again);
    set = sw_state_policies_for(old, workload_at(old, 0));
    assert_true(sw_policy_decide(&set, &req, &v));
    set = sw_state_policies_for(new, again);
    assert_false(sw_policy_decide(&set, &req, &v));
}

static void references_keep_a_snapshot_alive(void **state)
{
    struct sw_state *s = load("services:\n- {name: h, namespace: a, hostname: h, vips: [], "
                              "ports: {}}\n");
    struct sw_state *again = sw_state_ref(s);

    (void)state;
    s = sw_state_unref(s);
    assert_null(s);
    assert_int_equal(sw_state_service_count(again), 1);
    (void)sw_state_unref(again);
    (void)sw_state_unref(NULL);
    assert_null(sw_state_ref(NULL));
}

/* A hundred thousand pods of a thousand deployments on a thousand nodes. */
static void workloads_are_compact(void **state)
{
    enum { N = 100000 };
    struct sw_state_builder *b = sw_state_builder_new(S("node-1"), true);
    const struct sw_port_pair port = {80, 8080};
    size_t text = 0;
    size_t each;

    (void)state;
    for (unsigned i = 0; i < N; i++) {
        char uid[96];
        char name[64];
        char svc[64];
        char node[32];
        struct sw_ip a = {.family = 4,
                          .b = {10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i}};
        struct sw_membership_spec in = {.ports = &port, .n_ports = 1};
        struct sw_workload_spec w = {.ips = &a,
                                     .n_ips = 1,
                                     .ns = S("prod"),
                                     .protocol = 1,
                                     .services = &in,
                                     .n_services = 1,
                                     .zone = S("z1")};

        (void)snprintf(name, sizeof(name), "app-%u-7d9fd5c4b-%05u", i % 1000, i);
        (void)snprintf(uid, sizeof(uid), "Kubernetes//Pod/prod/%s", name);
        (void)snprintf(svc, sizeof(svc), "prod/app-%u.prod.svc.cluster.local", i % 1000);
        (void)snprintf(node, sizeof(node), "node-%u", i % 997);
        in.key = sw_slice_str(svc);
        w.uid = sw_slice_str(uid);
        w.name = sw_slice_str(name);
        w.workload_name = sw_slice_head(w.name, 6);
        w.node = sw_slice_str(node);
        text += w.uid.n + 1;
        assert_int_equal(sw_state_add_workload(b, &w, NULL), SW_OK);
    }
    {
        STATE_AUTO s = sw_state_finish(b);

        each = (sw_state_bytes(s) - text) / N;
        print_message("# %zu bytes each, and %zu of text\n", each, text / N);
        assert_true(each < 100); /* as malloc counts, with the builder's tables */
        assert_slice(by_ip(s, "", "10.0.1.44")->at->node, "node-300");
    }
}

/* Records of IPv4 alone hold their addresses more tightly: what follows them is found all the same.
 */
static void addresses_of_both_families_are_read_back(void **state)
{
    static const struct sw_ip v4 = {.family = 4, .b = {10, 0, 0, 1}};
    static const struct sw_ip v4b = {.family = 4, .b = {10, 0, 0, 2}};
    static const struct sw_ip v6 = {.family = 6, .b = {0x20, 1, 13, 184, [15] = 9}};
    const struct sw_ip lists[][3] = {{v4}, {v4, v4b}, {v6}, {v4, v6}, {v6, v4, v4b}, {{0}}};
    static const size_t lens[] = {1, 2, 1, 2, 3, 0};
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);

    (void)state;
    /* One uid: each list takes the place of the one before in the index. */
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        struct sw_workload_spec w = {.uid = S("the-uid"),
                                     .version = S("7"),
                                     .name = S("apart"),
                                     .hostname = S("h.example"),
                                     .ips = lists[i],
                                     .n_ips = lens[i]};
        const struct sw_workload *got;

        assert_int_equal(sw_state_add_workload(b, &w, NULL), SW_OK);
        STATE_AUTO s = sw_state_commit(b);
        got = sw_state_workload_by_uid(s, S("the-uid"));
        assert_non_null(got);
        assert_int_equal(got->n_ips, lens[i]);
        for (unsigned k = 0; k < got->n_ips; k++) {
            struct sw_ip ip = sw_workload_ip(got, k);

            assert_true(sw_ip_eq(&ip, &lists[i][k]));
            assert_ptr_equal(sw_state_workload_by_ip(s, S(""), &ip), got);
        }
        assert_int_equal(sw_workload_has_ip(got, &v6), i >= 2 && i <= 4);
        assert_int_equal(sw_state_workload_by_ip(s, S(""), &v4b) != NULL, i == 1 || i == 4);
        assert_slice(version_of(got), "7");
        assert_slice(sw_workload_name(got), "apart");
        assert_slice(sw_workload_hostname(got), "h.example");
    }
    sw_state_builder_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workloads_are_found_by_uid_and_address),
        cmocka_unit_test(addresses_of_both_families_are_read_back),
        cmocka_unit_test(shared_addresses_go_to_the_highest_rank),
        cmocka_unit_test(host_network_workloads_have_no_address),
        cmocka_unit_test(workloads_are_found_by_hostname_and_namespace),
        cmocka_unit_test(local_workloads_are_those_of_the_node),
        cmocka_unit_test(wire_defaults_fill_identity),
        cmocka_unit_test(bad_workloads_are_rejected_alone),
        cmocka_unit_test(names_with_a_nul_byte_are_rejected),
        cmocka_unit_test(a_second_resource_replaces_the_first),
        cmocka_unit_test(shared_vips_prefer_the_own_namespace_then_canonical),
        cmocka_unit_test(one_entry_per_vip_and_namespace),
        cmocka_unit_test(visibility_hides_vips_and_hostnames),
        cmocka_unit_test(hostnames_prefer_the_own_namespace_then_canonical),
        cmocka_unit_test(cidr_vips),
        cmocka_unit_test(endpoints_are_linked_whatever_the_order),
        cmocka_unit_test(unhealthy_endpoints_stay_with_allow_all),
        cmocka_unit_test(services_may_name_their_endpoints),
        cmocka_unit_test(bad_services_are_rejected),
        cmocka_unit_test(policies_apply_by_scope),
        cmocka_unit_test(missing_policies_fail_closed),
        cmocka_unit_test(records_give_back_what_they_were_made_of),
        cmocka_unit_test(uids_compare_as_whole_texts),
        cmocka_unit_test(a_uid_is_the_same_workload_in_the_next_snapshot),
        cmocka_unit_test(references_keep_a_snapshot_alive),
        cmocka_unit_test(workloads_are_compact),
    };

    return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
