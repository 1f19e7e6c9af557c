/* SPDX-License-Identifier: Apache-2.0 */
/* Several networks and clusters: what nodes of the own cluster are told of the others. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mesh_rig.h"

#define NETWORK(n)                                                                                 \
    "{'kind':'Namespace','metadata':{'name':'istio-system','labels':{'topology.istio.io/network':" \
    "'" n "'}}}"
#define GLOBAL "'istio.io/global':'true'"
#define SERVICE(labels, ip)                                                                        \
    "{'kind':'Service','metadata':{'namespace':'d','name':'s','labels':{" labels                   \
    "}},'spec':{'clusterIP':'" ip "','selector':{'app':'s'},'ports':[{'name':'http','port':80,"    \
    "'targetPort':'web'},{'name':'db','port':5432}]}}"
#define POD(name, account, ip, ready)                                                              \
    "{'kind':'Pod','metadata':{'namespace':'d','name':'" name "','labels':{'app':'s'},"            \
    "'annotations':{'ambient.istio.io/redirection':'enabled'}},'spec':{'serviceAccountName':"      \
    "'" account "','containers':[{'ports':[{'name':'web','containerPort':8080}]}]},'status':{"     \
    "'podIP':'" ip "','phase':'Running','conditions':[{'type':'Ready','status':'" ready "'}]}}"
#define GATEWAY(name, class, network, tls, addresses)                                              \
    "{'kind':'Gateway','metadata':{'namespace':'istio-system','name':'" name                       \
    "','labels':{'topology.istio.io/network':'" network                                            \
    "','topology.kubernetes.io/region':'west'}},'spec':{'gatewayClassName':'" class                \
        "','listeners':[{'name':'mesh','port':15008,'protocol':'HBONE'" tls                        \
        "}]},'status':{'addresses':[" addresses "]}}"
#define EAST_WEST(network, addresses)                                                              \
    GATEWAY("ew", "istio-east-west", network, ",'tls':{'mode':'Terminate'}", addresses)
#define IP(ip)  "{'type':'IPAddress','value':'" ip "'}"
#define HOST(h) "{'type':'Hostname','value':'" h "'}"
#define WE(name, rest)                                                                             \
    "{'kind':'WorkloadEntry','metadata':{'namespace':'d','name':'" name                            \
    "','labels':{'app':'s'}},'spec':{" rest "}}"

#define KEY     "d/s.d.svc.cluster.local"
#define WE_UID  "Kubernetes/networking.istio.io/WorkloadEntry/d/"
#define SPLIT   "/SplitHorizonWorkload/istio-system/"
#define CALLER  "spiffe://cluster.local/ns/d/sa/"
#define FAR_UID "c2//Pod/d/"

/* ---- the rig ---- */

static struct sw_requirement is_global[] = {
    {.key = SW_SLICE_LIT("istio.io/global"), .values = &(struct sw_slice){"true", 4}, .n = 1}};
static const struct sw_mesh_scope scopes[] = {{.services = {.p = is_global, .n = 1}}};

static void start(struct mesh_rig *r)
{
    mesh_rig_init(r, &(struct sw_mesh_conf){.scopes = scopes, .n_scopes = 1});
    mesh_rig_join(r);
}

static struct sw_mesh_part *add(struct mesh_rig *r, const char *cluster, const char *objects)
{
    struct sw_mesh_part *p = sw_mesh_networks_add(r->nets, sw_slice_str(cluster));

    assert_non_null(p);
    mesh_rig_set_in(r, p, objects);
    sw_mesh_networks_ready(p);
    return p;
}

/* The resource in one line with single spaces. */
static const char *line(const struct mesh_rig *r, struct sw_arena *a, const char *name)
{
    char *s = sw_arena_dup(a, sw_slice_str(mesh_rig_text(r, a, name)));
    size_t n = 0;

    for (const char *p = s; *p; p++) {
        char c = isspace((unsigned char)*p) ? ' ' : *p == '"' ? '\'' : *p;

        if (c != ' ' || (n && s[n - 1] != ' '))
            s[n++] = c;
    }
    s[n] = '\0';
    return s;
}

static void assert_has(const struct mesh_rig *r, const char *name, const char *part)
{
    SW_ARENA_AUTO a = {0};

    if (!strstr(line(r, &a, name), part))
        fail_msg("'%s' lacks\n%s\nit is\n%s", name, part, line(r, &a, name));
}

static void assert_lacks(const struct mesh_rig *r, const char *name, const char *part)
{
    SW_ARENA_AUTO a = {0};

    assert_non_null(mesh_rig_get(r, name));
    if (strstr(line(r, &a, name), part))
        fail_msg("'%s' has\n%s\nit is\n%s", name, part, line(r, &a, name));
}

static size_t count_splits(const struct mesh_rig *r)
{
    size_t n = 0;

    SW_MAP_FOREACH (it, &r->have)
        n += strstr(((const struct mesh_got *)it->value)->name, SPLIT) != NULL;
    return n;
}

/* ---- objects of one cluster ---- */

static void test_network_by_option_and_label(void **state)
{
    struct mesh_rig r;

    (void)state;
    mesh_rig_init(&r, &(struct sw_mesh_conf){.network = SW_SLICE_LIT("opt")});
    mesh_rig_set(&r, POD("p", "a", "10.0.0.1", "True"));
    (void)mesh_rig_flush(&r);
    assert_has(&r, "Kubernetes//Pod/d/p", "network: 'opt'");
    mesh_rig_set(&r, NETWORK("label"));
    (void)mesh_rig_flush(&r);
    assert_has(&r, "Kubernetes//Pod/d/p", "network: 'label'");
    mesh_rig_del(&r, SW_MESH_NAMESPACE, "", "istio-system");
    (void)mesh_rig_flush(&r);
    assert_has(&r, "Kubernetes//Pod/d/p", "network: 'opt'");
    mesh_rig_done(&r);
}

/* A LOCAL service: the entry is an endpoint itself, and the service names who it is. */
static void test_entry_on_another_network(void **state)
{
    struct mesh_rig r;

    (void)state;
    start(&r);
    mesh_rig_set(&r, NETWORK("n1") "," SERVICE("", "10.96.0.1") "," WE(
                         "w", "'address':'10.9.0.1','network':'n2','serviceAccount':'wa'"));
    (void)mesh_rig_flush(&r);
    assert_has(&r, WE_UID "w", "key: '" KEY "'");
    assert_lacks(&r, WE_UID "w", "network_gateway");
    assert_has(&r, KEY, "subject_alt_names: '" CALLER "wa'");
    assert_int_equal(sw_mesh_networks_stats(r.nets).doorless, 1);
    mesh_rig_set(&r, GATEWAY("r", "istio-remote", "n2", "", IP("192.0.2.1")));
    (void)mesh_rig_flush(&r);
    assert_has(&r, WE_UID "w",
               "network_gateway { address { network: 'n2' address: "
               "'\\xc0\\x00\\x02\\x01' } hbone_mtls_port: 15008 }");
    assert_has(&r, WE_UID "w", "key: '" KEY "'");
    assert_int_equal(count_splits(&r), 0);
    assert_int_equal(sw_mesh_networks_stats(r.nets).doorless, 0);
    /* It goes, and with it its name in the service. */
    mesh_rig_del(&r, SW_MESH_WORKLOAD_ENTRY, "d", "w");
    (void)mesh_rig_flush(&r);
    assert_lacks(&r, KEY, "subject_alt_names");
    assert_int_equal(sw_mesh_networks_stats(r.nets).joined, 0);
    mesh_rig_done(&r);
}

/* A GLOBAL service: one workload for the network, with the weight of all. */
static void test_split_horizon_of_entries(void **state)
{
    static const char name[] = "n2" SPLIT "r/192.0.2.1/" KEY;
    struct mesh_rig r;

    (void)state;
    start(&r);
    mesh_rig_set(&r, NETWORK("n1") "," SERVICE(GLOBAL, "10.96.0.1") "," GATEWAY(
                         "r", "istio-remote", "n2", "", IP("192.0.2.1")));
    mesh_rig_set(&r,
                 WE("w", "'address':'10.9.0.1','network':'n2','serviceAccount':'wa'") "," WE(
                     "v", "'address':'10.9.0.2','network':'n2','weight':4,'serviceAccount':'va'"));
    mesh_rig_set(&r, WE("u", "'address':'10.0.0.9','serviceAccount':'ua'"));
    (void)mesh_rig_flush(&r);
    assert_has(&r, name, "workload { namespace: 'd' network: 'n2' ");
    assert_has(&r, name, "tunnel_protocol: HBONE");
    assert_has(&r, name,
               "network_gateway { address { network: 'n2' address: "
               "'\\xc0\\x00\\x02\\x01' } hbone_mtls_port: 15008 }");
    assert_has(&r, name, "capacity { value: 5 }");
    assert_has(&r, name, "locality { region: 'west' }");
    assert_has(&r, name,
               "services { key: '" KEY "' value { ports { service_port: 80 target_port: 80 } ports "
               "{ service_port: 5432 target_port: 5432 } } }");
    assert_lacks(&r, name, "addresses");
    assert_lacks(&r, name, "cluster_id");
    assert_lacks(&r, WE_UID "w", "services");
    assert_has(&r, WE_UID "u", "services"); /* on our own network */
    assert_has(&r, KEY, "subject_alt_names: '" CALLER "va' subject_alt_names: '" CALLER "wa'");
    assert_lacks(&r, KEY, CALLER "ua");
    /* Without the label each is an endpoint again. */
    mesh_rig_set(&r, SERVICE("", "10.96.0.1"));
    (void)mesh_rig_flush(&r);
    assert_int_equal(count_splits(&r), 0);
    assert_has(&r, WE_UID "w", "services");
    mesh_rig_done(&r);
}

static void test_several_gateways_share_the_weight(void **state)
{
    struct mesh_rig r;

    (void)state;
    start(&r);
    mesh_rig_set(&r, NETWORK("n1") "," SERVICE(GLOBAL, "10.96.0.1") "," WE(
                         "w", "'address':'10.9.0.1','network':'n2','weight':5"));
    mesh_rig_set(&r, GATEWAY("r", "istio-remote", "n2", "", IP("192.0.2.1") "," HOST("gw.test")));
    (void)mesh_rig_flush(&r);
    assert_int_equal(count_splits(&r), 2);
    assert_has(&r, "n2" SPLIT "r/192.0.2.1/" KEY, "capacity { value: 3 }");
    assert_has(&r, "n2" SPLIT "r/gw.test/" KEY,
               "network_gateway { hostname { namespace: 'istio-system' hostname: 'gw.test' } "
               "hbone_mtls_port: 15008 }");
    assert_has(&r, "NetworkGateway/n2/gw.test/15008", "hostname: 'gw.test'");
    mesh_rig_set(&r, GATEWAY("r", "istio-remote", "n2", "", HOST("gw.test")));
    (void)mesh_rig_flush(&r);
    assert_int_equal(count_splits(&r), 1);
    assert_has(&r, "n2" SPLIT "r/gw.test/" KEY, "capacity { value: 5 }");
    mesh_rig_done(&r);
}

/* ---- other clusters ---- */

static void test_cluster_on_another_network(void **state)
{
    static const char name[] = "n2" SPLIT "ew/192.0.2.2/" KEY;
    struct mesh_rig r;
    struct sw_mesh_part *p;

    (void)state;
    start(&r);
    mesh_rig_set(
        &r, NETWORK("n1") "," SERVICE(GLOBAL, "10.96.0.1") "," POD("p", "a", "10.0.0.1", "True"));
    p = add(
        &r, "c2",
        NETWORK("n2") "," SERVICE(GLOBAL, "10.97.0.1") "," POD(
            "q", "qa", "10.0.0.1", "True") "," POD("o", "oa", "10.0.0.2",
                                                   "False") "," EAST_WEST("n2", IP("192.0.2.2")));
    (void)mesh_rig_flush(&r);
    assert_null(mesh_rig_get(&r, FAR_UID "q"));
    assert_has(&r, name, "capacity { value: 1 }"); /* the ready one */
    assert_has(&r, "NetworkGateway/n2/192.0.2.2/15008", "service_account: 'ew'");
    assert_has(&r, "NetworkGateway/n2/192.0.2.2/15008", "cluster_id: 'c2'");
    assert_has(&r, KEY,
               "addresses { network: 'n1' address: '\\n`\\x00\\x01' } addresses { network: "
               "'n2' address: '\\na\\x00\\x01' }");
    assert_has(&r, KEY, "subject_alt_names: '" CALLER "oa' subject_alt_names: '" CALLER "qa'");
    assert_string_equal(mesh_rig_get(&r, KEY)->extra, "n1/10.96.0.1,n2/10.97.0.1;;");
    /* One pod over there costs the services it is of. */
    mesh_rig_set_in(&r, p, POD("o", "oa", "10.0.0.2", "True"));
    assert_int_equal(mesh_rig_flush(&r), 1);
    assert_has(&r, name, "capacity { value: 2 }");
    /* Ours is LOCAL: theirs is another service. */
    mesh_rig_set(&r, SERVICE("", "10.96.0.1"));
    (void)mesh_rig_flush(&r);
    assert_int_equal(count_splits(&r), 0);
    assert_lacks(&r, KEY, "n2");
    assert_lacks(&r, KEY, "subject_alt_names");
    /* We have none: theirs alone is the service. */
    mesh_rig_del(&r, SW_MESH_SERVICE, "d", "s");
    (void)mesh_rig_flush(&r);
    assert_has(&r, KEY, "addresses { network: 'n2'");
    assert_int_equal(count_splits(&r), 1);
    /* Theirs is LOCAL: nobody sees it. */
    mesh_rig_set_in(&r, p, SERVICE("", "10.97.0.1"));
    (void)mesh_rig_flush(&r);
    assert_null(mesh_rig_get(&r, KEY));
    assert_int_equal(count_splits(&r), 0);
    mesh_rig_done(&r);
}

static void test_cluster_on_the_same_network(void **state)
{
    struct mesh_rig r;
    struct sw_mesh_part *p;

    (void)state;
    start(&r);
    mesh_rig_set(&r, NETWORK("n1") "," SERVICE(GLOBAL, "10.96.0.1"));
    p = add(&r, "c2",
            NETWORK("n1") "," SERVICE(GLOBAL, "10.97.0.1") "," POD("q", "qa", "10.0.0.1", "True"));
    (void)mesh_rig_flush(&r);
    assert_has(&r, FAR_UID "q", "cluster_id: 'c2'");
    assert_has(&r, FAR_UID "q",
               "key: '" KEY "' value { ports { service_port: 80 target_port: 8080");
    assert_lacks(&r, KEY, "subject_alt_names");
    mesh_rig_set(&r, SERVICE("", "10.96.0.1"));
    (void)mesh_rig_flush(&r);
    assert_lacks(&r, FAR_UID "q", "services"); /* not of ours, and still known by its address */
    /* It moves to a network that nothing leads to. */
    mesh_rig_set(&r, SERVICE(GLOBAL, "10.96.0.1"));
    mesh_rig_set_in(&r, p, NETWORK("n3"));
    (void)mesh_rig_flush(&r);
    assert_null(mesh_rig_get(&r, FAR_UID "q"));
    assert_int_equal(count_splits(&r), 0);
    assert_int_equal(sw_mesh_networks_stats(r.nets).doorless, 1);
    mesh_rig_done(&r);
}

/* Waypoints of others are there for services of others, and do not mix with ours. */
static void test_waypoints_of_others(void **state)
{
#define WAYPOINT(ip)                                                                               \
    "{'kind':'Service','metadata':{'namespace':'d','name':'w','labels':{'gateway.istio.io/"        \
    "managed':'istio.io-mesh-controller'}},'spec':{'clusterIP':'" ip                               \
    "','selector':{'app':'s'},'ports':[{'port':15008}]}}"
    static const char key[] = "d/w.d.svc.cluster.local";
    struct mesh_rig r;

    (void)state;
    start(&r);
    mesh_rig_set(&r, NETWORK("n1"));
    (void)add(&r, "c2",
              NETWORK("n2") "," WAYPOINT("10.97.0.9") "," POD(
                  "q", "qa", "10.0.0.1", "True") "," EAST_WEST("n2", IP("192.0.2.2")));
    (void)mesh_rig_flush(&r);
    assert_has(&r, key, "n2");
    assert_int_equal(count_splits(&r), 1);
    mesh_rig_set(&r, WAYPOINT("10.96.0.9"));
    (void)mesh_rig_flush(&r);
    assert_lacks(&r, key, "n2");
    assert_int_equal(count_splits(&r), 0);
    mesh_rig_done(&r);
}

static void test_clusters_come_and_go(void **state)
{
    struct mesh_rig r;
    struct sw_mesh_part *other;
    struct sw_mesh_part *p;
    size_t alone;

    (void)state;
    start(&r);
    mesh_rig_set(
        &r, NETWORK("n1") "," SERVICE(GLOBAL, "10.96.0.1") "," POD("p", "a", "10.0.0.1", "True"));
    (void)mesh_rig_flush(&r);
    alone = r.have.n;
    assert_null(sw_mesh_networks_add(r.nets, SW_SLICE_LIT("Kubernetes")));
    assert_null(sw_mesh_networks_add(r.nets, SW_SLICE_LIT("a/b")));
    p = sw_mesh_networks_add(r.nets, SW_SLICE_LIT("c2"));
    assert_null(sw_mesh_networks_add(r.nets, SW_SLICE_LIT("c2")));
    mesh_rig_set_in(&r, p,
                    NETWORK("n2") "," SERVICE(GLOBAL, "10.97.0.1") "," POD(
                        "q", "qa", "10.0.0.1", "True") "," EAST_WEST("n2", IP("192.0.2.2")));
    (void)mesh_rig_flush(&r);
    assert_lacks(&r, KEY, "n2"); /* it was not read whole */
    sw_mesh_networks_ready(p);
    (void)mesh_rig_flush(&r);
    assert_has(&r, KEY, "n2");
    assert_int_equal(count_splits(&r), 1);
    sw_mesh_networks_remove(p);
    (void)mesh_rig_flush(&r);
    assert_int_equal(r.have.n, alone);
    /* One that is replaced while another leaves: what it has of the same names stays. */
    other = add(&r, "c1", NETWORK("n1"));
    p = add(&r, "c2", NETWORK("n1") "," POD("q", "qa", "10.0.0.7", "True"));
    (void)mesh_rig_flush(&r);
    sw_mesh_networks_remove(other);
    sw_mesh_networks_remove(p);
    p = add(&r, "c2", NETWORK("n1") "," POD("q", "qa", "10.0.0.8", "True"));
    (void)mesh_rig_flush(&r);
    assert_non_null(mesh_rig_get(&r, FAR_UID "q"));
    assert_lacks(&r, KEY, "n2");
    assert_int_equal(r.have.n, alone + 1);
    sw_mesh_networks_remove(p);
    (void)mesh_rig_flush(&r);
    assert_int_equal(r.have.n, alone);
    assert_int_equal(sw_mesh_networks_stats(r.nets).clusters, 0);
    mesh_rig_done(&r);
}

/* What is no way into a network: plaintext, another class, no label, our own network. */
static void test_gateways_that_lead_nowhere(void **state)
{
    static const char *const gateways[] = {
        GATEWAY("ew", "istio-east-west", "n2", "", IP("192.0.2.2")),
        GATEWAY("ew", "istio-east-west", "n2", ",'tls':{'mode':'Passthrough'}", IP("192.0.2.2")),
        GATEWAY("ew", "istio-remote", "n2", ",'tls':{}", IP("192.0.2.2")),
        GATEWAY("ew", "istio-east-west", "", ",'tls':{}", IP("192.0.2.2")),
        EAST_WEST("n1", IP("192.0.2.2")),
        EAST_WEST("n2", ""),
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(gateways); i++) {
        struct mesh_rig r;
        SW_ARENA_AUTO a = {0};

        start(&r);
        mesh_rig_set(&r, NETWORK("n1") "," SERVICE(GLOBAL, "10.96.0.1"));
        (void)add(&r, "c2",
                  sw_arena_printf(&a, "%s,%s",
                                  NETWORK("n2") "," SERVICE(GLOBAL, "10.97.0.1") "," POD(
                                      "q", "qa", "10.0.0.1", "True"),
                                  gateways[i]));
        (void)mesh_rig_flush(&r);
        if (count_splits(&r) != 0)
            fail_msg("gateway %zu leads somewhere", i);
        assert_int_equal(sw_mesh_networks_stats(r.nets).doorless, 1);
        mesh_rig_done(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_network_by_option_and_label),
        cmocka_unit_test(test_entry_on_another_network),
        cmocka_unit_test(test_split_horizon_of_entries),
        cmocka_unit_test(test_several_gateways_share_the_weight),
        cmocka_unit_test(test_cluster_on_another_network),
        cmocka_unit_test(test_cluster_on_the_same_network),
        cmocka_unit_test(test_waypoints_of_others),
        cmocka_unit_test(test_clusters_come_and_go),
        cmocka_unit_test(test_gateways_that_lead_nowhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
