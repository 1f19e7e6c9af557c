/* SPDX-License-Identifier: Apache-2.0 */
/* Each rule as one set of objects and the resource that comes of it. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "mesh_rig.h"

/* One case; texts of resources have single spaces and ' for ". */
struct row {
    const char *what;
    const char *objects;
    const char *name;
    const char *has[6];
    const char *lacks[4];
};

static char *squeeze(struct sw_arena *a, const char *text)
{
    char *out = sw_arena_alloc(a, strlen(text) + 2);
    size_t n = 0;

    for (; *text; text++) {
        char c = isspace((unsigned char)*text) ? ' ' : *text;

        if (c == ' ' && (n == 0 || out[n - 1] == ' '))
            continue;
        out[n++] = c == '"' ? '\'' : c;
    }
    return out;
}

static void check_row(const struct row *row, const struct sw_mesh_conf *conf)
{
    SW_ARENA_AUTO a = {0};
    struct mesh_rig r;
    const char *text;

    mesh_rig_init(&r, conf);
    mesh_rig_set(&r, row->objects);
    (void)mesh_rig_flush(&r);
    text = squeeze(&a, mesh_rig_text(&r, &a, row->name));
    for (size_t i = 0; i < SW_ARRAY_LEN(row->has) && row->has[i]; i++) {
        if (!strstr(text, row->has[i]) || !*text)
            fail_msg("%s: no '%s' in: %s", row->what, row->has[i], text);
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(row->lacks) && row->lacks[i]; i++) {
        if (strstr(text, row->lacks[i]))
            fail_msg("%s: '%s' in: %s", row->what, row->lacks[i], text);
    }
    if (!row->has[0] && *text && !row->lacks[0])
        fail_msg("%s: should not be there: %s", row->what, text);
    mesh_rig_done(&r);
}

#define CHECK(rows, conf)                                                                          \
    for (size_t i_ = 0; i_ < SW_ARRAY_LEN(rows); i_++)                                             \
    check_row(&(rows)[i_], (conf))

#define UID       "Kubernetes//Pod/d/p"
#define META(...) "'metadata':{'namespace':'d'," __VA_ARGS__ "}"
#define POD(meta, spec, status)                                                                    \
    "{'kind':'Pod','metadata':{'namespace':'d','name':'p'" meta "},'spec':{" spec                  \
    "},'status':{" status "}}"
#define UP        "'phase':'Running','podIP':'10.0.2.7'"
#define READY     UP ",'conditions':[{'type':'Ready','status':'True'}]"
#define LABELS(l) ",'labels':{" l "}"
#define NOTED(l)  ",'annotations':{" l "}"

static void test_pods(void **state)
{
    static const struct row rows[] = {
        {"failed", POD("", "", "'phase':'Failed','podIP':'10.0.0.1'"), UID, {0}, {0}},
        {"succeeded", POD("", "", "'phase':'Succeeded','podIP':'10.0.0.1'"), UID, {0}, {0}},
        {"no address", POD("", "", "'phase':'Running'"), UID, {0}, {0}},
        {"bad address", POD("", "", "'podIPs':[{'ip':'10.0.0.1'},{'ip':'x'}]"), UID, {0}, {0}},
        {"pending with an address",
         POD("", "", "'phase':'Pending','podIP':'10.0.0.1'"),
         UID,
         {"status: UNHEALTHY"},
         {0}},
        {"not ready", POD("", "", UP), UID, {"status: UNHEALTHY"}, {0}},
        {"ready", POD("", "", READY), UID, {"workload_type: POD"}, {"status:", "network_mode"}},
        {"terminating",
         POD(",'deletionTimestamp':'2026-01-01T00:00:00Z'", "", READY),
         UID,
         {"status: UNHEALTHY"},
         {0}},
        {"dual stack",
         POD("", "", "'podIPs':[{'ip':'1.2.3.4'},{'ip':'::1'}]"),
         UID,
         {"addresses: '\\x01\\x02\\x03\\x04' addresses: '\\x00"},
         {0}},
        {"podIPs go before podIP",
         POD("", "", "'podIP':'9.9.9.9','podIPs':[{'ip':'1.2.3.4'}]"),
         UID,
         {"addresses: '\\x01\\x02\\x03\\x04' "},
         {"addresses: '\\t\\t\\t\\t'"}},
        {"host network",
         POD("", "'hostNetwork':true", READY),
         UID,
         {"network_mode: HOST_NETWORK"},
         {0}},
        {"account and node",
         POD("", "'serviceAccountName':'sa','nodeName':'n'", READY),
         UID,
         {"service_account: 'sa'", "node: 'n'"},
         {"locality"}},
        {"locality",
         POD("", "'nodeName':'n'",
             READY) ",{'kind':'Node','metadata':{'name':'n','labels':{"
                    "'topology.kubernetes.io/region':'r','topology.kubernetes.io/zone':'z',"
                    "'topology.istio.io/subzone':'s'}}}",
         UID,
         {"locality { region: 'r' zone: 'z' subzone: 's' }"},
         {0}},
        {"network of the system namespace, not the pod's label",
         POD(LABELS("'topology.istio.io/network':'mine'"), "",
             READY) ",{'kind':'Namespace','metadata':{'name':'istio-system','labels':{"
                    "'topology.istio.io/network':'net'}}}",
         UID,
         {"network: 'net'"},
         {"mine"}},
        {"canonical by service label",
         POD(LABELS("'service.istio.io/canonical-name':'c','app.kubernetes.io/name':'k','app':'a',"
                    "'service.istio.io/canonical-revision':'7','version':'8'"),
             "", READY),
         UID,
         {"canonical_name: 'c'", "canonical_revision: '7'"},
         {0}},
        {"canonical by name label",
         POD(LABELS("'app.kubernetes.io/name':'k','app':'a','app.kubernetes.io/version':'v2',"
                    "'version':'8'"),
             "", READY),
         UID,
         {"canonical_name: 'k'", "canonical_revision: 'v2'"},
         {0}},
        {"canonical by app",
         POD(LABELS("'app':'a','version':'8'"), "", READY),
         UID,
         {"canonical_name: 'a'", "canonical_revision: '8'"},
         {0}},
        {"canonical by default",
         POD("", "", READY),
         UID,
         {"canonical_name: 'p'", "canonical_revision: 'latest'", "workload_name: 'p'"},
         {0}},
        {"no tunnel", POD("", "", READY), UID, {"uid:"}, {"tunnel"}},
        {"redirected",
         POD(NOTED("'ambient.istio.io/redirection':'enabled'"), "", READY),
         UID,
         {"tunnel_protocol: HBONE"},
         {"native"}},
        {"pending redirection",
         POD(NOTED("'ambient.istio.io/redirection':'pending'"), "", READY),
         UID,
         {"uid:"},
         {"tunnel"}},
        {"tunnel label",
         POD(LABELS("'networking.istio.io/tunnel':'x, http'"), "", READY),
         UID,
         {"tunnel_protocol: HBONE", "native_tunnel: true"},
         {0}},
        {"other tunnel label",
         POD(LABELS("'networking.istio.io/tunnel':'https'"), "", READY),
         UID,
         {"uid:"},
         {"tunnel_protocol"}},
    };

    (void)state;
    CHECK(rows, NULL);
}

#define OWNED(kind, owner, labels)                                                                 \
    POD(LABELS(labels) ",'generateName':'g-','ownerReferences':[{'kind':'X','name':'no'},{'kind':" \
                       "'" kind "','name':'" owner "','controller':true}]",                        \
        "", READY)

static void test_workload_names(void **state)
{
    static const struct row rows[] = {
        {"Deployment",
         OWNED("ReplicaSet", "echo-7d4", "'pod-template-hash':'7d4'"),
         UID,
         {"workload_name: 'echo'"},
         {0}},
        {"Rollout",
         OWNED("ReplicaSet", "echo-7d4", "'rollouts-pod-template-hash':'7d4'"),
         UID,
         {"workload_name: 'echo'"},
         {0}},
        {"ReplicaSet of its own",
         OWNED("ReplicaSet", "echo-7d4", "'pod-template-hash':'8'"),
         UID,
         {"workload_name: 'echo-7d4'"},
         {0}},
        {"DeploymentConfig",
         OWNED("ReplicationController", "echo-1", "'deploymentconfig':'dc'"),
         UID,
         {"workload_name: 'dc'"},
         {0}},
        {"CronJob",
         OWNED("Job", "sweep-27812345", "'a':'b'"),
         UID,
         {"workload_name: 'sweep'"},
         {0}},
        {"CronJob, ten digits",
         OWNED("Job", "sweep-2781234567", "'a':'b'"),
         UID,
         {"workload_name: 'sweep'"},
         {0}},
        {"Job, seven digits",
         OWNED("Job", "sweep-2781234", "'a':'b'"),
         UID,
         {"workload_name: 'sweep-2781234'"},
         {0}},
        {"Job, eleven digits",
         OWNED("Job", "sweep-27812345678", "'a':'b'"),
         UID,
         {"workload_name: 'sweep-27812345678'"},
         {0}},
        {"StatefulSet", OWNED("StatefulSet", "db", "'a':'b'"), UID, {"workload_name: 'db'"}, {0}},
        {"label",
         OWNED("StatefulSet", "db", "'service.istio.io/workload-name':'w'"),
         UID,
         {"workload_name: 'w'"},
         {0}},
        {"not generated",
         POD(",'ownerReferences':[{'kind':'Node','name':'n','controller':true}]", "", READY),
         UID,
         {"workload_name: 'p'"},
         {0}},
    };

    (void)state;
    CHECK(rows, NULL);
}

#define SERVICE(name, labels, spec)                                                                \
    "{'kind':'Service','metadata':{'namespace':'d','name':'" name "','labels':{" labels            \
    "}},'spec':{" spec "}}"
#define SVC "d/s.d.svc.cluster.local"
#define WEB_POD                                                                                    \
    POD(LABELS("'app':'x'"),                                                                       \
        "'containers':[{'ports':[{'name':'web','containerPort':8080},{'name':'dns',"               \
        "'containerPort':53,'protocol':'UDP'}]}],'initContainers':[{'ports':[{'name':'once',"      \
        "'containerPort':1}]},{'restartPolicy':'Always','ports':[{'name':'side','containerPort':"  \
        "9}]}]",                                                                                   \
        READY)
#define OF_S "services { key: '" SVC "' value {"

static void test_service_ports(void **state)
{
    static const struct row rows[] = {
        {"number",
         WEB_POD
         "," SERVICE("s", "", "'selector':{'app':'x'},'ports':[{'port':80,'targetPort':81}]"),
         UID,
         {OF_S " ports { service_port: 80 target_port: 81 } }"},
         {0}},
        {"none",
         WEB_POD "," SERVICE("s", "", "'selector':{'app':'x'},'ports':[{'port':80}]"),
         UID,
         {OF_S " ports { service_port: 80 target_port: 80 } }"},
         {0}},
        {"name",
         WEB_POD "," SERVICE("s", "",
                             "'selector':{'app':'x'},'ports':[{'port':80,'targetPort':"
                             "'web'}]"),
         UID,
         {OF_S " ports { service_port: 80 target_port: 8080 } }"},
         {0}},
        {"name of a sidecar's port",
         WEB_POD "," SERVICE("s", "",
                             "'selector':{'app':'x'},'ports':[{'port':80,'targetPort':"
                             "'side'}]"),
         UID,
         {OF_S " ports { service_port: 80 target_port: 9 } }"},
         {0}},
        {"name of an init container's port",
         WEB_POD "," SERVICE("s", "",
                             "'selector':{'app':'x'},'ports':[{'port':80,'targetPort':"
                             "'once'}]"),
         UID,
         {OF_S " } }"},
         {"service_port"}},
        {"name of a UDP port",
         WEB_POD "," SERVICE("s", "",
                             "'selector':{'app':'x'},'ports':[{'port':80,'targetPort':"
                             "'dns'}]"),
         UID,
         {OF_S " } }"},
         {"service_port"}},
        {"DNS twice",
         WEB_POD "," SERVICE("s", "",
                             "'selector':{'app':'x'},'ports':[{'port':53,'protocol':"
                             "'UDP'},{'port':53,'protocol':'TCP'}]"),
         SVC,
         {"ports { service_port: 53 target_port: 53 } ports { service_port: 53 target_port: 53 "
          "app_protocol: TCP }"},
         {0}},
        {"not selected",
         WEB_POD "," SERVICE("s", "", "'selector':{'app':'y'},'ports':[{'port':80}]"),
         UID,
         {"uid:"},
         {"services"}},
        {"without a selector",
         WEB_POD "," SERVICE("s", "", "'ports':[{'port':80}]"),
         UID,
         {"uid:"},
         {"services"}},
        {"another namespace",
         WEB_POD ",{'kind':'Service','metadata':{'namespace':'e','name':'s'},'spec':{'selector':{"
                 "'app':'x'},'ports':[{'port':80}]}}",
         UID,
         {"uid:"},
         {"services"}},
        {"sorted",
         SERVICE("z", "", "'selector':{'app':'x'}") "," SERVICE(
             "a", "", "'selector':{'app':'x'}") "," WEB_POD,
         UID,
         {"services { key: 'd/a.d.svc.cluster.local' value { } } services { key: 'd/z.d."},
         {0}},
        {"named in the slice of a service without a selector",
         WEB_POD "," SERVICE(
             "s", "",
             "'ports':[{'name':'h','port':80,'targetPort':'web'}]") ",{'kind':'EndpointSlice','"
                                                                    "metadata':{'namespace':'d','"
                                                                    "name':'l','labels':{"
                                                                    "'kubernetes.io/"
                                                                    "service-name':'s'}},'"
                                                                    "addressType':'IPv4','"
                                                                    "endpoints':[{'addresses':["
                                                                    "'10.0.2.7'],'targetRef':{'"
                                                                    "kind':'Pod','name':'p'}}]}",
         UID,
         {OF_S " ports { service_port: 80 target_port: 8080 } }"},
         {0}},
        {"WorkloadEntry, named target",
         "{'kind':'WorkloadEntry','metadata':{'namespace':'d','name':'w','labels':{'app':'x'}},"
         "'spec':{'address':'1.1.1.1','ports':{'web':7}}}," SERVICE(
             "s", "",
             "'selector':{'app':'x'},'ports':[{'port':80,'targetPort':'web'},{'port':81,"
             "'targetPort':'no'}]"),
         "Kubernetes/networking.istio.io/WorkloadEntry/d/w",
         {OF_S " ports { service_port: 80 target_port: 7 } }"},
         {0}},
        {"WorkloadEntry, port of the service's name",
         "{'kind':'WorkloadEntry','metadata':{'namespace':'d','name':'w','labels':{'app':'x'}},"
         "'spec':{'address':'1.1.1.1','ports':{'http':7}}}," SERVICE(
             "s", "",
             "'selector':{'app':'x'},'ports':[{'name':'http','port':80,'targetPort':90},{"
             "'name':'b','port':81,'targetPort':91}]"),
         "Kubernetes/networking.istio.io/WorkloadEntry/d/w",
         {OF_S
          " ports { service_port: 80 target_port: 7 } ports { service_port: 81 target_port: 91 "
          "} }"},
         {0}},
    };

    (void)state;
    CHECK(rows, NULL);
}

#define PORT(p) SERVICE("s", "", "'ports':[{" p "}]")

static void test_protocols(void **state)
{
    static const struct row rows[] = {
        {"http", PORT("'port':1,'name':'http'"), SVC, {"app_protocol: HTTP11"}, {0}},
        {"http-x", PORT("'port':1,'name':'http-web'"), SVC, {"app_protocol: HTTP11"}, {0}},
        {"httpx", PORT("'port':1,'name':'httpx'"), SVC, {"target_port: 1 }"}, {0}},
        {"http2", PORT("'port':1,'name':'http2'"), SVC, {"app_protocol: HTTP2"}, {0}},
        {"grpc", PORT("'port':1,'name':'grpc-a'"), SVC, {"app_protocol: GRPC"}, {0}},
        {"grpc-web", PORT("'port':1,'name':'grpc-web-a'"), SVC, {"target_port: 1 }"}, {0}},
        {"https", PORT("'port':1,'name':'https'"), SVC, {"app_protocol: TLS"}, {0}},
        {"tls", PORT("'port':1,'name':'tls-x'"), SVC, {"app_protocol: TLS"}, {0}},
        {"tcp", PORT("'port':1,'name':'tcp'"), SVC, {"app_protocol: TCP"}, {0}},
        {"mongo", PORT("'port':27017,'name':'mongo'"), SVC, {"target_port: 27017 }"}, {0}},
        {"server first", PORT("'port':3306,'name':'db'"), SVC, {"app_protocol: TCP"}, {0}},
        {"sniffed", PORT("'port':3307,'name':'db'"), SVC, {"target_port: 3307 }"}, {0}},
        {"appProtocol before the name",
         PORT("'port':1,'name':'tcp','appProtocol':'http'"),
         SVC,
         {"app_protocol: HTTP11"},
         {0}},
        {"h2c",
         PORT("'port':1,'appProtocol':'kubernetes.io/h2c'"),
         SVC,
         {"app_protocol: HTTP2"},
         {0}},
        {"ws",
         PORT("'port':1,'appProtocol':'kubernetes.io/ws'"),
         SVC,
         {"app_protocol: HTTP11"},
         {0}},
        {"wss",
         PORT("'port':1,'appProtocol':'kubernetes.io/wss'"),
         SVC,
         {"app_protocol: TLS"},
         {0}},
        {"UDP", PORT("'port':53,'protocol':'UDP','name':'http'"), SVC, {"target_port: 53 }"}, {0}},
        {"named target",
         PORT("'port':1,'targetPort':'web'"),
         SVC,
         {"ports { service_port: 1 }"},
         {0}},
    };

    (void)state;
    CHECK(rows, NULL);
}

#define NOTED_SERVICE(ann, spec)                                                                   \
    "{'kind':'Service','metadata':{'namespace':'d','name':'s','annotations':{" ann                 \
    "}},'spec':{" spec "}}"
#define DISTRIBUTION(v) "'networking.istio.io/traffic-distribution':'" v "'"
#define ZONE                                                                                       \
    "load_balancing { routing_preference: NETWORK routing_preference: REGION routing_preference: " \
    "ZONE mode: FAILOVER }"
#define NODE                                                                                       \
    "load_balancing { routing_preference: NETWORK routing_preference: REGION routing_preference: " \
    "ZONE routing_preference: SUBZONE routing_preference: NODE mode: FAILOVER }"

static void test_services(void **state)
{
    static const struct row rows[] = {
        {"plain",
         SERVICE("s", "", "'clusterIP':'10.96.0.1'"),
         SVC,
         {"name: 's' namespace: 'd' hostname: 's.d.svc.cluster.local' addresses { address:",
          "canonical: true"},
         {"load_balancing", "ip_families", "waypoint"}},
        {"ExternalName",
         SERVICE("s", "", "'type':'ExternalName','externalName':'x'"),
         SVC,
         {0},
         {0}},
        {"headless",
         SERVICE("s", "", "'clusterIP':'None','clusterIPs':['None']"),
         SVC,
         {"canonical: true"},
         {"addresses"}},
        {"clusterIPs",
         SERVICE("s", "", "'clusterIP':'9.9.9.9','clusterIPs':['1.2.3.4','::1']"),
         SVC,
         {"address: '\\x01\\x02\\x03\\x04' } addresses {"},
         {"\\t\\t"}},
        {"IPv4", SERVICE("s", "", "'ipFamilies':['IPv4']"), SVC, {"ip_families: IPV4_ONLY"}, {0}},
        {"IPv6", SERVICE("s", "", "'ipFamilies':['IPv6']"), SVC, {"ip_families: IPV6_ONLY"}, {0}},
        {"both", SERVICE("s", "", "'ipFamilies':['IPv6','IPv4']"), SVC, {"ip_families: DUAL"}, {0}},
        {"local",
         NOTED_SERVICE(DISTRIBUTION("PreferClose"),
                       "'internalTrafficPolicy':'Local','trafficDistribution':'PreferClose'"),
         SVC,
         {"load_balancing { routing_preference: NODE mode: STRICT }"},
         {0}},
        {"PreferClose", SERVICE("s", "", "'trafficDistribution':'PreferClose'"), SVC, {ZONE}, {0}},
        {"PreferSameZone",
         SERVICE("s", "", "'trafficDistribution':'PreferSameZone'"),
         SVC,
         {ZONE},
         {0}},
        {"PreferSameNode",
         SERVICE("s", "", "'trafficDistribution':'PreferSameNode'"),
         SVC,
         {NODE},
         {0}},
        {"field before annotation",
         NOTED_SERVICE(DISTRIBUTION("PreferClose"), "'trafficDistribution':'PreferSameNode'"),
         SVC,
         {NODE},
         {0}},
        {"annotation in another case",
         NOTED_SERVICE(DISTRIBUTION("prefersamenode"), ""),
         SVC,
         {NODE},
         {0}},
        {"annotation of the namespace",
         SERVICE("s", "", "") ",{'kind':'Namespace','metadata':{'name':'d','annotations':"
                              "{" DISTRIBUTION("PreferClose") "}}}",
         SVC,
         {ZONE},
         {0}},
        {"an unknown annotation stops",
         NOTED_SERVICE(DISTRIBUTION("Any"), "") ",{'kind':'Namespace','metadata':{'name':'d',"
                                                "'annotations':{" DISTRIBUTION("PreferClose") "}}}",
         SVC,
         {"canonical"},
         {"load_balancing"}},
        {"not ready ones too",
         SERVICE("s", "", "'publishNotReadyAddresses':true"),
         SVC,
         {"load_balancing { health_policy: ALLOW_ALL }"},
         {0}},
        {"not ready ones too, near ones first",
         SERVICE("s", "", "'publishNotReadyAddresses':true,'trafficDistribution':'PreferClose'"),
         SVC,
         {"mode: FAILOVER health_policy: ALLOW_ALL }"},
         {0}},
    };

    (void)state;
    CHECK(rows, NULL);
}

#define ENTRY(meta, spec)                                                                          \
    "{'kind':'ServiceEntry','metadata':{'namespace':'d','name':'e'" meta "},'spec':{" spec "}"
#define SE_UID   "Kubernetes/networking.istio.io/ServiceEntry/d/e/"
#define TLS_PORT "'ports':[{'number':443,'name':'tls','protocol':'TLS','targetPort':8443}]"

static void test_service_entries(void **state)
{
    static const struct row rows[] = {
        {"fields",
         ENTRY("", "'hosts':['h.t'],'resolution':'DNS','subjectAltNames':['x'],'addresses'"
                   ":['1.2.3.4','10.1.2.3/8']," TLS_PORT) "}",
         "d/h.t",
         {"name: 'e' namespace: 'd' hostname: 'h.t' addresses { address: '\\x01\\x02\\x03\\x04' } "
          "addresses { address: '\\n\\x00\\x00\\x00' length: 8 }",
          "ports { service_port: 443 target_port: 8443 app_protocol: TLS }",
          "subject_alt_names: 'x'", "canonical: true"},
         {"ip_families", "load_balancing", "visibility"}},
        {"bad address",
         ENTRY("", "'hosts':['h.t'],'addresses':['1.2.3.4','x']") "}",
         "d/h.t",
         {0},
         {0}},
        {"two hosts", ENTRY("", "'hosts':['h.t','i.t']") "}", "d/i.t", {"hostname: 'i.t'"}, {0}},
        {"resolution NONE",
         ENTRY("", "'hosts':['h.t'],'resolution':'NONE'") "}",
         "d/h.t",
         {"load_balancing { mode: PASSTHROUGH health_policy: ALLOW_ALL }"},
         {0}},
        {"annotation",
         ENTRY(NOTED(DISTRIBUTION("PreferClose")), "'hosts':['h.t'],'resolution':"
                                                   "'STATIC'") "}",
         "d/h.t",
         {ZONE},
         {0}},
        {"allocated",
         ENTRY("", "'hosts':['h.t','i.t'],'resolution':'DNS'") ",'status':{'addresses':[{'host':"
                                                               "'i.t','value':'9.9.9.9'},{'host':'"
                                                               "h.t','value':'240.240.0.1'}]}}",
         "d/h.t",
         {"addresses { address: '\\xf0\\xf0\\x00\\x01' }"},
         {"\\t\\t"}},
        {"allocated, but not wanted",
         ENTRY(LABELS("'networking.istio.io/enable-autoallocate-ip':'false'"),
               "'hosts':['h.t'],'resolution':'DNS'") ",'status':{'addresses':[{'host':'h.t','value'"
                                                     ":'240.240.0.1'}]}}",
         "d/h.t",
         {"canonical"},
         {"addresses"}},
        {"implicit endpoint",
         ENTRY("", "'hosts':['h.t'],'resolution':'DNS_ROUND_ROBIN'," TLS_PORT) "}",
         SE_UID "h.t",
         {"name: 'e'", "hostname: 'h.t'",
          "services { key: 'd/h.t' value { ports { service_port: 443 target_port: 8443 } } }"},
         {"addresses", "status"}},
        {"no implicit endpoint with STATIC",
         ENTRY("", "'hosts':['h.t'],'resolution':'STATIC'") "}",
         SE_UID "h.t",
         {0},
         {0}},
        {"no implicit endpoint with a selector",
         ENTRY("",
               "'hosts':['h.t'],'resolution':'DNS','workloadSelector':{'labels':{'a':'b'}}") "}",
         SE_UID "h.t",
         {0},
         {0}},
        {"endpoint",
         ENTRY(NOTED("'ambient.istio.io/redirection':'enabled'"),
               "'hosts':['h.t'],'resolution':'STATIC','endpoints':[{'address':'1.2.3.4','network':"
               "'n2','weight':3,'serviceAccount':'sa','locality':'r/"
               "z','ports':{'tls':9}}]," TLS_PORT) "}",
         SE_UID "1.2.3.4",
         {"addresses: '\\x01\\x02\\x03\\x04' network: 'n2' tunnel_protocol: HBONE",
          "service_account: 'sa'", "capacity { value: 3 }", "locality { region: 'r' zone: 'z' }",
          "ports { service_port: 443 target_port: 9 }"},
         {"status"}},
        {"endpoint by host name",
         ENTRY("", "'hosts':['h.t'],'resolution':'DNS','endpoints':[{'address':'e.t'}]") "}",
         SE_UID "e.t",
         {"hostname: 'e.t'"},
         {"addresses"}},
        {"networks of endpoints do not leak",
         ENTRY("", "'hosts':['h.t'],'endpoints':[{'address':'1.1.1.1','network':'n2'},{'address':"
                   "'2.2.2.2'}]") "}",
         SE_UID "2.2.2.2",
         {"uid:"},
         {"network:"}},
        {"the same address twice",
         ENTRY("", "'hosts':['h.t'],'endpoints':[{'address':'1.1.1.1'},{'address':'1.1.1.1',"
                   "'weight':7}]") "}",
         SE_UID "1.1.1.1/2",
         {"capacity { value: 7 }"},
         {0}},
        {"selected pod, port by name",
         WEB_POD
         "," ENTRY("", "'hosts':['h.t'],'workloadSelector':{'labels':{'app':'x'}},'ports':[{"
                       "'number':80,'name':'web','protocol':'HTTP'},{'number':81,'name':'n',"
                       "'targetPort':82},{'number':83,'name':'m'}]") "}",
         UID,
         {"services { key: 'd/h.t' value { ports { service_port: 80 target_port: 8080 } ports { "
          "service_port: 81 target_port: 82 } ports { service_port: 83 target_port: 83 } } }"},
         {0}},
    };

    (void)state;
    CHECK(rows, NULL);
}

#define WE(meta, spec)                                                                             \
    "{'kind':'WorkloadEntry','metadata':{'namespace':'d','name':'w'" meta "},'spec':{" spec "}}"
#define WE_UID "Kubernetes/networking.istio.io/WorkloadEntry/d/w"

static void test_workload_entries(void **state)
{
    static const struct row rows[] = {
        {"fields",
         WE(LABELS("'app':'meta'"), "'address':'1.2.3.4','network':'n2','weight':5,'locality':"
                                    "'r/z/s','serviceAccount':'sa','labels':{'app':'spec','version'"
                                    ":'v3'}"),
         WE_UID,
         {"name: 'w' namespace: 'd' addresses: '\\x01\\x02\\x03\\x04' network: 'n2'",
          "capacity { value: 5 }", "locality { region: 'r' zone: 'z' subzone: 's' }",
          "service_account: 'sa'", "canonical_name: 'meta' canonical_revision: 'v3'",
          "workload_type: POD workload_name: 'w'"},
         {"status", "node"}},
        {"host name",
         WE("", "'address':'h.t'"),
         WE_UID,
         {"hostname: 'h.t'"},
         {"addresses", "capacity"}},
        {"a path", WE("", "'address':'unix:///x'"), WE_UID, {0}, {0}},
        {"registered",
         WE(NOTED("'istio.io/autoRegistrationGroup':'g'")
                LABELS("'service.istio.io/workload-name':'l'"),
            "'address':'1.2.3.4'"),
         WE_UID,
         {"workload_name: 'g'"},
         {0}},
        {"named by label",
         WE(LABELS("'service.istio.io/workload-name':'l'"), "'address':'1.2.3.4'"),
         WE_UID,
         {"workload_name: 'l'"},
         {0}},
    };

    (void)state;
    CHECK(rows, NULL);
}

#define SLICE(type, rest)                                                                          \
    "{'kind':'EndpointSlice','metadata':{'namespace':'d','name':'l','labels':{"                    \
    "'kubernetes.io/service-name':'s'}},'addressType':'" type "'," rest "}"
#define SL_UID "Kubernetes/discovery.k8s.io/EndpointSlice/d/l/"
#define S_HTTP SERVICE("s", "", "'ports':[{'name':'http','port':80},{'name':'x','port':81}]")

static void test_slices(void **state)
{
    static const struct row rows[] = {
        {"foreign address",
         S_HTTP "," SLICE("IPv4", "'ports':[{'name':'http','port':8080},{'name':'x','port':1,"
                                  "'protocol':'UDP'}],'endpoints':[{'addresses':['1.2.3.4',"
                                  "'1.2.3.5']}]"),
         SL_UID "1.2.3.4",
         {"name: 'l' namespace: 'd' addresses: '\\x01\\x02\\x03\\x04' addresses: "
          "'\\x01\\x02\\x03\\x05'",
          OF_S " ports { service_port: 80 target_port: 8080 } } }", "network_mode: HOST_NETWORK"},
         {"service_account", "locality", "tunnel", "status"}},
        {"unnamed port",
         SERVICE("s", "", "'ports':[{'port':80}]") "," SLICE(
             "IPv4", "'ports':[{'name':'','port':8080}],'endpoints':[{'addresses':['1.2.3.4']}]"),
         SL_UID "1.2.3.4",
         {"service_port: 80 target_port: 8080"},
         {0}},
        {"not ready",
         S_HTTP "," SLICE("IPv4", "'endpoints':[{'addresses':['1.2.3.4'],'conditions':{'ready':"
                                  "false}}]"),
         SL_UID "1.2.3.4",
         {"status: UNHEALTHY"},
         {0}},
        {"of a pod",
         S_HTTP "," SLICE("IPv4", "'endpoints':[{'addresses':['1.2.3.4'],'targetRef':{'kind':'Pod',"
                                  "'name':'q'}}]"),
         SL_UID "1.2.3.4",
         {0},
         {0}},
        {"of host names",
         S_HTTP "," SLICE("FQDN", "'endpoints':[{'addresses':['1.2.3.4']}]"),
         SL_UID "1.2.3.4",
         {0},
         {0}},
        {"of no service",
         SLICE("IPv4", "'endpoints':[{'addresses':['1.2.3.4']}]"),
         SL_UID "1.2.3.4",
         {0},
         {0}},
        {"another pod of that name",
         "{'kind':'Pod','metadata':{'namespace':'d','name':'p','uid':'new'},'status':{" READY
         "}}," S_HTTP "," SLICE("IPv4", "'endpoints':[{'addresses':['10.0.2.7'],'targetRef':{"
                                        "'kind':'Pod','name':'p','uid':'old'}}]"),
         UID,
         {"uid:"},
         {"services"}},
        {"a pod of another namespace",
         "{'kind':'Pod','metadata':{'namespace':'d','name':'p'},'status':{" READY "}}," S_HTTP
         "," SLICE("IPv4", "'endpoints':[{'addresses':['10.0.2.7'],'targetRef':{"
                           "'kind':'Pod','name':'p','namespace':'e'}}]"),
         UID,
         {"uid:"},
         {"services"}},
    };

    (void)state;
    CHECK(rows, NULL);
}

/* ---- objects that multiply ---- */

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static void put_list(struct sw_buf *b, const char *head, size_t n, const char *each,
                     const char *tail)
{
    assert_int_equal(sw_buf_append_str(b, head), SW_OK);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(sw_buf_append_str(b, i ? "," : ""), SW_OK);
        for (const char *p = each; *p; p++)
            assert_int_equal(*p == '#' ? sw_buf_printf(b, "%zu", i + 1) : sw_buf_putc(b, *p),
                             SW_OK);
    }
    assert_int_equal(sw_buf_append_str(b, tail), SW_OK);
}

/* Objects, flushed; the bytes of all resources, and the time it took. */
static size_t bytes_of(struct sw_buf *objects, double *ret_s)
{
    struct mesh_rig r;
    size_t n = 0;

    assert_int_equal(sw_buf_putc(objects, '\0'), SW_OK);
    mesh_rig_init(&r, NULL);
    mesh_rig_set(&r, (const char *)sw_buf_data(objects));
    *ret_s = cpu_seconds();
    (void)mesh_rig_flush(&r);
    *ret_s = cpu_seconds() - *ret_s;
    SW_MAP_FOREACH (it, &r.have)
        n += ((const struct mesh_got *)it->value)->n;
    mesh_rig_done(&r);
    return n;
}

static void test_endpoints_of_one_address(void **state)
{
    SW_BUF_AUTO b = {.max = 1 << 22};
    double took;

    (void)state;
    put_list(&b,
             "{'kind':'ServiceEntry'," META("'name':'e'") ",'spec':{'resolution':'STATIC',"
                                                          "'hosts':['h.t'],'endpoints':[",
             2048, "{'address':'1.1.1.1','weight':#}", "]}}");
    assert_true(bytes_of(&b, &took) > 2048 * 40);
    if (took > 1)
        fail_msg("%.1f s", took);
}

/* One of 70 KiB was 30 MB for every node; the largest would have been 4 GB. */
static void test_an_entry_that_multiplies(void **state)
{
    static const struct {
        size_t hosts;
        bool good;
    } rows[] = {{4, true}, {64, false}};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        SW_BUF_AUTO b = {.max = 1 << 22};
        double took;

        put_list(&b, "{'kind':'ServiceEntry'," META("'name':'e'") ",'spec':{'hosts':[",
                 rows[i].hosts, "'h#.t'", "],'resolution':'STATIC'");
        put_list(&b, ",'endpoints':[", 256, "{'address':'1.1.#.1'}", "]");
        put_list(&b, ",'ports':[", 256, "{'number':#,'name':'p#'}", "]}}");
        assert_int_equal(bytes_of(&b, &took) > 0, rows[i].good);
    }
}

/* Whoever makes Services and pods chooses how many lists of ports there are. */
static void test_services_that_multiply(void **state)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO b = {.max = 1 << 25};
    SW_BUF_AUTO ports = {.max = 1 << 20};
    struct mesh_rig r;
    const char *text;

    (void)state;
    put_list(&ports,
             "{'kind':'Service'," META("'name':'s#'") ",'spec':{'selector':{'app':'x'},'ports':[",
             99, "{'port':%,'name':'p%'}", "]}}");
    assert_int_equal(sw_buf_putc(&ports, '\0'), SW_OK);
    text = (const char *)sw_buf_data(&ports);
    for (size_t i = 1; i <= 100; i++) {
        size_t port = 0;

        /* '#' is the number of the Service, '%' that of a port, each named twice. */
        for (const char *p = text; *p; p++) {
            if (*p == '%')
                assert_int_equal(sw_buf_printf(&b, "%zu", port++ / 2 + 1), SW_OK);
            else
                assert_int_equal(*p == '#' ? sw_buf_printf(&b, "%03zu", i) : sw_buf_putc(&b, *p),
                                 SW_OK);
        }
        assert_int_equal(sw_buf_putc(&b, ','), SW_OK);
    }
    assert_int_equal(sw_buf_append_str(&b, WEB_POD), SW_OK);
    assert_int_equal(sw_buf_putc(&b, '\0'), SW_OK);
    mesh_rig_init(&r, NULL);
    mesh_rig_set(&r, (const char *)sw_buf_data(&b));
    (void)mesh_rig_flush(&r);
    text = mesh_rig_text(&r, &a, UID);
    /* A hundred entries each: eighty-one fit, the first by name. */
    assert_non_null(strstr(text, "d/s081.d.svc"));
    assert_null(strstr(text, "d/s082.d.svc"));
    mesh_rig_done(&r);
}

static size_t times(const char *text, const char *what)
{
    size_t n = 0;

    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

/* The writer of a pod's status chooses how many addresses there are. */
static void test_many_addresses(void **state)
{
    static const struct {
        const char *what;
        size_t n;
        const char *item;
        size_t kept;
    } rows[] = {
        {"IPv4", 16, "{'ip':'10.0.#.1'}", 16},
        {"more IPv4 than are kept", 200, "{'ip':'10.0.#.1'}", 16},
        {"IPv6", 16, "{'ip':'fd00::#'}", 16},
        {"more IPv6 than are kept", 200, "{'ip':'fd00::#'}", 16},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        SW_ARENA_AUTO a = {0};
        SW_BUF_AUTO b = {.max = 1 << 20};
        struct mesh_rig r;
        size_t found;

        put_list(&b, "{'kind':'Pod'," META("'name':'p'") ",'spec':{},'status':{'podIPs':[",
                 rows[i].n, rows[i].item, "]}}");
        assert_int_equal(sw_buf_putc(&b, '\0'), SW_OK);
        mesh_rig_init(&r, NULL);
        mesh_rig_set(&r, (const char *)sw_buf_data(&b));
        (void)mesh_rig_flush(&r);
        found = times(mesh_rig_text(&r, &a, UID), "addresses:");
        if (found != rows[i].kept)
            fail_msg("%s: %zu addresses", rows[i].what, found);
        mesh_rig_done(&r);
    }
}

/* What a step costs counts, not only that it is one: other work of the loop gets its turn. */
static void test_a_flush_ends_with_its_share(void **state)
{
    SW_BUF_AUTO b = {.max = 1 << 25};
    struct mesh_rig r;
    size_t turns = 0;

    (void)state;
    for (size_t i = 0; i < 16; i++) {
        assert_int_equal(sw_buf_printf(&b,
                                       "%s{'kind':'ServiceEntry','metadata':{'namespace':'d','name'"
                                       ":'e%zu'},'spec':{'hosts':['h%zu.t'],'resolution':'STATIC'",
                                       i ? "," : "", i, i),
                         SW_OK);
        put_list(&b, ",'endpoints':[", 256, "{'address':'1.1.#.1'}", "]");
        put_list(&b, ",'ports':[", 1000, "{'number':#,'name':'p#'}", "]}}");
    }
    assert_int_equal(sw_buf_putc(&b, '\0'), SW_OK);
    mesh_rig_init(&r, NULL);
    mesh_rig_set(&r, (const char *)sw_buf_data(&b));
    while (!mesh_rig_turn(&r, 4096))
        turns++;
    assert_true(turns >= 8);
    mesh_rig_done(&r);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_pods),
    cmocka_unit_test(test_workload_names),
    cmocka_unit_test(test_service_ports),
    cmocka_unit_test(test_protocols),
    cmocka_unit_test(test_services),
    cmocka_unit_test(test_service_entries),
    cmocka_unit_test(test_workload_entries),
    cmocka_unit_test(test_slices),
    cmocka_unit_test(test_endpoints_of_one_address),
    cmocka_unit_test(test_an_entry_that_multiplies),
    cmocka_unit_test(test_services_that_multiply),
    cmocka_unit_test(test_many_addresses),
    cmocka_unit_test(test_a_flush_ends_with_its_share),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
