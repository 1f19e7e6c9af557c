/* SPDX-License-Identifier: Apache-2.0 */
/* The local file: every key, every spelling, every refusal with its place. */
#include <stdio.h>

#include "base/buf.h"
#include "fixture.h"

static const char everything[] =
    "workloads:\n"
    "- uid: cluster1//Pod/default/a\n"
    "  name: a\n"
    "  namespace: default\n"
    "  workloadIps: [\"10.0.0.1\", \"::ffff:10.0.0.2\", 2001:db8::1]\n"
    "  services:\n"
    "    \"default/echo.default\": {80: 8080, 443: 8443}\n"
    "    default/other:\n"
    "      ports: [{servicePort: 80, targetPort: 9090}]\n"
    "    default/none: {}\n"
    "  protocol: HBONE\n"
    "  networkMode: HostNetwork\n"
    "  trustDomain: td\n"
    "  serviceAccount: sa\n"
    "  network: net\n"
    "  workloadName: a-name\n"
    "  workloadType: cronjob\n"
    "  canonicalName: cn\n"
    "  canonicalRevision: v2\n"
    "  hostname: a.example\n"
    "  node: node1\n"
    "  nativeTunnel: true\n"
    "  applicationTunnel: {protocol: PROXY, port: 15088}\n"
    "  authorizationPolicies: [default/p, root/q]\n"
    "  status: Unhealthy\n"
    "  clusterId: cluster1\n"
    "  locality: {region: r, zone: z, subzone: s}\n"
    "  capacity: 7\n"
    "  waypoint: {destination: net/10.0.0.9, hboneMtlsPort: 15008}\n"
    "  networkGateway: {destination: gw-ns/gw.host, hboneMtlsPort: 15009}\n"
    "services:\n"
    "- name: echo\n"
    "  namespace: default\n"
    "  hostname: echo.default\n"
    "  vips: [net/10.96.0.1, /10.96.0.2, 'net/2001:db8::60']\n"
    "  ports: {80: 8080, 443: 0}\n"
    "  cidrVips: [{network: net, cidr: 10.97.1.9/16}]\n"
    "  endpoints: {}\n"
    "  subjectAltNames: [spiffe://td/ns/x/sa/y, plain]\n"
    "  waypoint: {destination: default/wp.host, hboneMtlsPort: 15008}\n"
    "  weightedWaypoints:\n"
    "  - {destination: {destination: net/10.0.0.9, hboneMtlsPort: 15010}, weight: 3}\n"
    "  - {destination: default/wp2, weight: 1}\n"
    "  loadBalancer:\n"
    "    routingPreferences: [Region, Zone, Subzone, Node, Cluster, Network]\n"
    "    mode: Failover\n"
    "    healthPolicy: AllowAll\n"
    "  ipFamilies: Dual\n"
    "  canonical: true\n"
    "  visibility: Namespace\n"
    "policies:\n"
    "- name: p\n"
    "  namespace: default\n"
    "  scope: WorkloadSelector\n"
    "  action: Deny\n"
    "  dryRun: true\n"
    "  rules:\n"
    "  - - - namespaces: [{Exact: a}]\n"
    "        notNamespaces: [{Prefix: b}, !Suffix c]\n"
    "        serviceAccounts: [{namespace: n, serviceAccount: s}]\n"
    "        notServiceAccounts: [n/t]\n"
    "        principals: [{Suffix: /x}]\n"
    "        notPrincipals: [{Presence: []}, !Presence []]\n"
    "        sourceIps: [10.0.0.0/8]\n"
    "        notSourceIps: [10.1.0.0/16, 10.2.3.4]\n"
    "        destinationIps: [2001:db8::/32]\n"
    "        notDestinationIps: [0.0.0.0/0]\n"
    "        destinationPorts: [80, 443]\n"
    "        notDestinationPorts: [8080]\n"
    "- {name: q, namespace: root, scope: Global, action: Allow, rules: [], dryRun: false}\n";

static void every_workload_key(void **state)
{
    STATE_AUTO s = load(everything);
    const struct sw_workload *w = workload(s, "cluster1//Pod/default/a");
    const struct sw_workload_class *c = w->c;

    (void)state;
    assert_slice(sw_workload_name(w), "a");
    assert_int_equal(w->n_ips, 3);
    assert_int_equal(sw_workload_ip(w, 1).family, 4); /* mapped addresses become IPv4 */
    assert_slice(c->identity, "spiffe://td/ns/default/sa/sa");
    assert_int_equal(c->protocol, SW_TUNNEL_HBONE);
    assert_true(c->host_network && c->native_tunnel && !w->healthy);
    assert_slice(w->at->network, "net");
    assert_slice(w->at->node, "node1");
    assert_slice(w->at->cluster_id, "cluster1");
    assert_slice(w->at->region, "r");
    assert_slice(w->at->zone, "z");
    assert_slice(w->at->subzone, "s");
    assert_slice(c->workload_name, "a-name");
    assert_string_equal(sw_workload_type_name(c->type), "cronjob");
    assert_slice(c->canonical_name, "cn");
    assert_slice(c->canonical_revision, "v2");
    assert_slice(sw_workload_hostname(w), "a.example");
    assert_true(c->has_app_tunnel);
    assert_int_equal(c->app_tunnel, SW_APP_TUNNEL_PROXY);
    assert_int_equal(c->app_tunnel_port, 15088);
    assert_int_equal(c->n_policy_keys, 2);
    assert_slice(sw_state_policies_for(s, w).missing, "");
    assert_int_equal(sw_workload_capacity(w), 7);
    assert_false(c->waypoint->by_hostname);
    assert_slice(c->waypoint->network, "net");
    assert_int_equal(c->waypoint->hbone_port, 15008);
    assert_true(c->network_gateway->by_hostname);
    assert_slice(c->network_gateway->ns, "gw-ns");
    assert_slice(c->network_gateway->hostname, "gw.host");
    assert_int_equal(c->n_services, 3);
    assert_int_equal(c->services[0].n_ports, 2);
    assert_int_equal(c->services[1].ports[0].target_port, 9090);
    assert_int_equal(c->services[2].n_ports, 0);
}

static void every_service_key(void **state)
{
    STATE_AUTO s = load(everything);
    const struct sw_service *e = sw_state_service_by_key(s, S("default"), S("echo.default"));

    (void)state;
    assert_slice(e->name, "echo");
    assert_int_equal(e->n_vips, 3);
    assert_slice(e->vips[1].network, "");
    assert_int_equal(e->n_cidr_vips, 1);
    assert_int_equal(e->cidr_vips[0].cidr.len, 16);
    assert_int_equal(sw_service_port(e, 443)->target_port, 0);
    assert_null(sw_service_port(e, 81));
    assert_int_equal(e->n_sans, 1);
    assert_int_equal(e->n_endpoints, 1); /* unhealthy, but AllowAll */
    assert_slice(e->waypoint->hostname, "wp.host");
    assert_int_equal(e->n_weighted, 2);
    assert_int_equal(e->weighted[0].to.hbone_port, 15010);
    assert_int_equal(e->weighted[0].weight, 3);
    assert_slice(e->weighted[1].to.hostname, "wp2");
    assert_int_equal(e->weighted[1].to.hbone_port, 15008);
    assert_int_equal(e->n_prefs, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(e->prefs[i], SW_LB_REGION + i);
    assert_string_equal(sw_lb_scope_name(e->prefs[5]), "Network");
    assert_string_equal(sw_lb_mode_name(e->mode), "Failover");
    assert_string_equal(sw_ip_families_name(e->families), "Dual");
    assert_true(e->allow_unhealthy && e->canonical && e->namespace_only);
}

static void every_policy_key(void **state)
{
    STATE_AUTO s = load(everything);
    const struct sw_policy *p = policy_at(s, 0);
    const struct sw_policy_match *m;

    (void)state;
    assert_int_equal(p->scope, SW_POLICY_SELECTOR);
    assert_int_equal(p->action, SW_POLICY_DENY);
    assert_true(p->dry_run);
    assert_int_equal(p->n, 1);
    m = p->rules[0].clauses[0].matches;
    assert_int_equal(m->namespaces.n, 1);
    assert_int_equal(m->not_namespaces.n, 2);
    assert_int_equal(m->not_namespaces.p[1].kind, SW_STRMATCH_SUFFIX);
    assert_slice(m->not_namespaces.p[1].text, "c");
    assert_slice(m->service_accounts.p[0].sa, "s");
    assert_slice(m->not_service_accounts.p[0].sa, "t");
    assert_int_equal(m->principals.p[0].kind, SW_STRMATCH_SUFFIX);
    assert_int_equal(m->not_principals.p[0].kind, SW_STRMATCH_PRESENCE);
    assert_int_equal(m->not_principals.p[1].kind, SW_STRMATCH_PRESENCE);
    assert_int_equal(m->source_ips.n, 1);
    assert_int_equal(m->not_source_ips.n, 2);
    assert_int_equal(m->destination_ips.n, 1);
    assert_int_equal(m->not_destination_ips.n, 1);
    assert_int_equal(m->destination_ports.n, 2);
    assert_int_equal(m->not_destination_ports.p[0], 8080);
    assert_false(m->unknown);
}

static void refusals_say_where(void **state)
{
    static const struct {
        const char *yaml;
        const char *msg;
    } cases[] = {
        {"workloads: []\n\n    \nworkloadz: []\n", "f: line 4 column 1: unknown key 'workloadz'"},
        {"workloads:\n- {namespace: a, workloadIps: [], services: {}, ip: 1}\n",
         "f: line 2 column 49: unknown key 'ip'"},
        {"workloads: {}\n", "f: line 1 column 12: expected a list, found a map"},
        {"workloads: [1]\n", "f: line 1 column 13: expected a map, found a number"},
        {"[]\n", "f: line 1 column 1: expected a map, found a list"},
        {"a: [\n", "f: line 2 column 1: did not find expected node content"},
        {"workloads:\n- {workloadIps: [], services: {}}\n",
         "f: line 2 column 3: missing key 'namespace'"},
        {"workloads:\n- {namespace: a, services: {}}\n",
         "f: line 2 column 3: missing key 'workloadIps'"},
        {"workloads:\n- {namespace: a, workloadIps: []}\n",
         "f: line 2 column 3: missing key 'services'"},
        {"workloads:\n- {namespace: a, workloadIps: [], services: {}}\n",
         "f: line 2 column 3: a workload needs a uid, a name or an address"},
        {"workloads:\n- {uid: u, namespace: a, workloadIps: [10.0.0.300], services: {}}\n",
         "f: line 2 column 40: '10.0.0.300' is not an IP address"},
        {"workloads:\n- {uid: u, namespace: a, workloadIps: [], services: {x: {}}}\n",
         "f: line 2 column 54: 'x' is not NAMESPACE/HOSTNAME"},
        {"workloads:\n- {uid: u, namespace: a, workloadIps: [], services: {a/x: {80: 70000}}}\n",
         "f: line 2 column 64: 70000 is not between 0 and 65535"},
        {"workloads:\n- {uid: u, namespace: a, workloadIps: [], services: {}, protocol: hbone}\n",
         "f: line 2 column 67: 'hbone' is not one of TCP, HBONE"},
        {"workloads:\n- {uid: u, namespace: a, workloadIps: [], services: {}, waypoint: {}}\n",
         "f: line 2 column 67: missing key 'destination'"},
        {"workloads:\n- {uid: u, namespace: a, workloadIps: [], services: {},\n"
         "   waypoint: {destination: nowhere}}\n",
         "f: line 3 column 28: 'nowhere' is neither NETWORK/IP nor NAMESPACE/HOSTNAME"},
        {"workloads:\n- &w {uid: u, namespace: a, workloadIps: [], services: {}}\n- *w\n",
         "f: line 2 column 3: a second workload with uid 'u'"},
        {"services:\n- {name: a, namespace: a, hostname: h, vips: [10.0.0.1], ports: {}}\n",
         "f: line 2 column 47: '10.0.0.1' is not NETWORK/IP"},
        {"services:\n- {name: a, namespace: a, hostname: h, ports: {}}\n",
         "f: line 2 column 3: missing key 'vips'"},
        {"services:\n- {name: a, namespace: a, hostname: h, vips: [], ports: {},\n"
         "   loadBalancer: {mode: Random}}\n",
         "f: line 3 column 25: 'Random' is not one of Standard, Strict, Failover, Passthrough"},
        {"services:\n- {name: a, namespace: a, hostname: h, vips: [], ports: {}}\n"
         "- {name: b, namespace: a, hostname: h, vips: [], ports: {}}\n",
         "f: line 3 column 3: a second service 'a/h'"},
        {"policies:\n- {name: p, namespace: a, scope: Global, action: Allow, rules: []}\n",
         "f: line 2 column 3: missing key 'dryRun'"},
        {"policies:\n- {name: p, namespace: a, scope: All, action: Allow, rules: [], dryRun: "
         "false}\n",
         "f: line 2 column 34: 'All' is not one of Global, Namespace, WorkloadSelector"},
        {"policies:\n- {name: p, namespace: a, scope: Global, action: Allow, dryRun: false,\n"
         "   rules: [[[{sourceIps: [10.0.0.0/33]}]]]}\n",
         "f: line 3 column 27: '10.0.0.0/33' is not an address block"},
        {"policies:\n- {name: p, namespace: a, scope: Global, action: Allow, dryRun: false,\n"
         "   rules: [[[{principals: [x]}]]]}\n",
         "f: line 3 column 28: expected one of {Exact: x}, {Prefix: x}, {Suffix: x}, "
         "{Presence: []}"},
        {"policies:\n- {name: p, namespace: a, scope: Global, action: Allow, dryRun: false,\n"
         "   rules: [[{sourceIps: []}]]}\n",
         "f: line 3 column 13: expected a list, found a map"},
        {"a: 1\n---\nb: 2\n", "f: line 3 column 1: only one document is expected"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_state *s = NULL;
        struct sw_err err = {0};

        assert_int_equal(
            sw_localconfig_parse(
                &(struct sw_localconfig){.file = "f", .text = sw_slice_str(cases[i].yaml)}, &s,
                &err),
            SW_EINVAL);
        assert_null(s);
        assert_string_equal(err.msg, cases[i].msg);
    }
}

static void empty_files_are_an_empty_mesh(void **state)
{
    static const char *const texts[] = {"", "# nothing\n", "{}", "workloads:\nservices: ~\n"};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(texts); i++) {
        STATE_AUTO s = load(texts[i]);

        assert_int_equal(sw_state_workload_count(s), 0);
    }
}

static void uids_are_made_up_the_same_way_each_time(void **state)
{
    STATE_AUTO s = load("workloads:\n"
                        "- {name: p, namespace: a, clusterId: c, workloadIps: [], services: {}}\n"
                        "- {namespace: a, network: n, workloadIps: [10.0.0.1], services: {}}\n");

    (void)state;
    (void)workload(s, "c//Pod/a/p");
    (void)workload(s, "n/10.0.0.1");
}

/* ---- warnings ---- */

static void collect(void *ctx, const char *text)
{
    struct sw_buf *b = ctx;

    assert_int_equal(sw_buf_printf(b, "%s\n", text), SW_OK);
}

static void unknown_match_keys_fail_closed_and_warn(void **state)
{
    static const char yaml[] =
        "workloads:\n"
        "- {uid: w, namespace: a, workloadIps: [], services: {}}\n"
        "policies:\n"
        "- {name: open, namespace: a, scope: Namespace, action: Allow, dryRun: false,\n"
        "   rules: [[[{moonPhase: [full], destinationPorts: [80]}]]]}\n";
    struct sw_state *loaded = NULL;
    SW_BUF_AUTO said = {.max = 1024};
    struct sw_policy_request req = {.dst_port = 80};
    struct sw_policy_verdict v;
    struct sw_policy_set set;

    (void)state;
    assert_int_equal(sw_localconfig_parse(&(struct sw_localconfig){.file = "f",
                                                                   .text = sw_slice_str(yaml),
                                                                   .warn = collect,
                                                                   .warn_ctx = &said},
                                          &loaded, NULL),
                     SW_OK);
    {
        STATE_AUTO s = loaded;

        set = sw_state_policies_for(s, workload(s, "w"));
        assert_false(sw_policy_decide(&set, &req, &v));
        assert_string_equal(v.text, "allow policies exist, but none allowed");
    }
    assert_slice(sw_buf_slice(&said), "f: line 5 column 15: unknown key 'moonPhase': the match "
                                      "never allows, and denies by its known conditions\n");
}

static void missing_policies_and_odd_names_warn(void **state)
{
    static const char yaml[] =
        "workloads:\n"
        "- {uid: w, namespace: a, workloadIps: [], services: {}, authorizationPolicies: [a/x]}\n"
        "services:\n"
        "- {name: s, namespace: a, hostname: h, vips: [], ports: {}, subjectAltNames: [x.y]}\n";
    struct sw_state *loaded = NULL;
    SW_BUF_AUTO said = {.max = 1024};

    (void)state;
    assert_int_equal(sw_localconfig_parse(&(struct sw_localconfig){.file = "f",
                                                                   .text = sw_slice_str(yaml),
                                                                   .warn = collect,
                                                                   .warn_ctx = &said},
                                          &loaded, NULL),
                     SW_OK);
    (void)sw_state_unref(loaded);
    assert_slice(sw_buf_slice(&said),
                 "f: line 4 column 3: subjectAltName 'x.y' is no SPIFFE name and is ignored\n"
                 "f: workload 'w' lists policy 'a/x', which is not known: all connections to it "
                 "are denied\n");
}

static void json_is_yaml(void **state)
{
    STATE_AUTO s = load("{\"workloads\": [{\"uid\": \"u\", \"namespace\": \"a\", "
                        "\"workloadIps\": [\"10.0.0.1\"], \"services\": "
                        "{\"a/h\": {\"80\": 8080}}}]}");

    (void)state;
    assert_int_equal(workload(s, "u")->c->services[0].ports[0].service_port, 80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_workload_key),
        cmocka_unit_test(every_service_key),
        cmocka_unit_test(every_policy_key),
        cmocka_unit_test(refusals_say_where),
        cmocka_unit_test(empty_files_are_an_empty_mesh),
        cmocka_unit_test(uids_are_made_up_the_same_way_each_time),
        cmocka_unit_test(unknown_match_keys_fail_closed_and_warn),
        cmocka_unit_test(missing_policies_and_odd_names_warn),
        cmocka_unit_test(json_is_yaml),
    };

    return cmocka_run_group_tests_name("localconfig", tests, NULL, NULL);
}
