/* SPDX-License-Identifier: Apache-2.0 */
/* Waypoints, host names that several services have, other networks, conditions, addresses. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "control/mesh/status.h"
#include "control/objects.h"
#include "control/runtime_int.h"
#include "mesh_rig.h"

#define NS(name, labels) "{'kind':'Namespace','metadata':{'name':'" name "','labels':{" labels "}}}"
#define SERVICE(ns, name, labels)                                                                  \
    "{'kind':'Service','metadata':{'namespace':'" ns "','name':'" name "','labels':{" labels       \
    "}},'spec':{'clusterIP':'10.96.0.1'}}"
#define USE(name) "'istio.io/use-waypoint':'" name "'"
#define FROM(ns)  ",'istio.io/use-waypoint-namespace':'" ns "'"
#define GATEWAY(ns, name, labels, listeners, status)                                               \
    "{'kind':'Gateway','metadata':{'namespace':'" ns "','name':'" name "','labels':{" labels       \
    "}},'spec':{'gatewayClassName':'c','listeners':[" listeners                                    \
    "]},'status':{'addresses':[" status "]}}"
#define MESH_LISTENER(allowed)                                                                     \
    "{'name':'mesh','port':15008,'protocol':'HBONE','allowedRoutes':{'namespaces':{" allowed "}}}"
#define HOST(h) "{'type':'Hostname','value':'" h "'}"
#define IP(ip)  "{'type':'IPAddress','value':'" ip "'}"
#define WP(ns, name)                                                                               \
    GATEWAY(ns, name, "", MESH_LISTENER("'from':'Same'"), HOST(name "." ns ".svc.cluster.local"))
#define AT(ns, name)                                                                               \
    "waypoint { hostname { namespace: '" ns "' hostname: '" name "." ns                            \
    ".svc.cluster.local' } hbone_mtls_port: 15008 }"

#define HOLD "'spanwire.dev/hold-for-waypoint':'true'"

/* ---- statuses over the same objects ---- */

static const char *const kind_names[SW_MESH_ST_KINDS] = {
    "Namespace",     "GatewayClass",       "Gateway", "Service", "ServiceEntry",
    "WorkloadEntry", "AuthorizationPolicy"};

static int by_key(const void *a, const void *b)
{
    const struct sw_kube_obj *const *x = a;
    const struct sw_kube_obj *const *y = b;

    return sw_slice_cmp((*x)->key, (*y)->key);
}

static struct sw_view *view_of(struct sw_arena *a, const char *objects)
{
    const struct sw_json *list = mesh_rig_json(a, sw_arena_printf(a, "[%s]", objects));
    struct view_kind *kinds[SW_MESH_ST_KINDS];
    struct view_input *input = view_input_new(sw_slice("", 0));
    struct sw_view *v;

    for (size_t k = 0; k < SW_MESH_ST_KINDS; k++) {
        struct sw_kube_obj *objs[64];
        size_t n = 0;

        for (size_t i = 0; i < sw_json_len(list); i++) {
            const struct sw_json *o = sw_json_at(list, i);

            if (sw_json_str_eq(sw_json_find(o, "kind"), kind_names[k]))
                objs[n++] = sw_kube_obj_new(o);
        }
        if (n > 1)
            qsort(objs, n, sizeof(*objs), by_key);
        kinds[k] = view_kind_new(objs, n);
    }
    v = view_new(kinds, SW_MESH_ST_KINDS, input);
    for (size_t k = 0; k < SW_MESH_ST_KINDS; k++)
        view_kind_unref(kinds[k]);
    view_input_unref(input);
    return v;
}

/* The status that is written for an object; "" when none is. */
static const char *status_of(struct sw_arena *a, const char *objects, size_t kind, const char *key,
                             enum sw_mesh_visibility visibility)
{
    struct sw_mesh_status_conf conf = {.mesh = {.visibility = visibility}, .allocate = true};
    struct sw_view *v = view_of(a, objects);
    struct sw_output *out = output_new();
    const char *text = "";
    struct sw_err err;

    assert_int_equal(sw_cidr_parse(SW_SLICE_LIT("240.240.0.0/16"), &conf.prefix4, &err), SW_OK);
    assert_int_equal(sw_cidr_parse(SW_SLICE_LIT("2001:2::/48"), &conf.prefix6, &err), SW_OK);
    sw_mesh_status_build(v, &conf, out);
    for (size_t i = 0; i < out->writes.n; i++) {
        const struct out_write *w = out->writes.p[i];

        if (w->kind == kind && sw_slice_eq_str(w->key, key))
            text = sw_arena_dup(a, sw_json_text(a, w->json, NULL));
    }
    output_free(out);
    view_unref(v);
    return text;
}

static char *squeeze(struct sw_arena *a, const char *text)
{
    char *out = sw_arena_alloc(a, strlen(text) + 2);
    size_t n = 0;

    for (; *text; text++) {
        char c = isspace((unsigned char)*text) ? ' ' : *text;

        if (c != ' ' || (n && out[n - 1] != ' '))
            out[n++] = c == '"' ? '\'' : c;
    }
    return out;
}

struct row {
    const char *what;
    const char *objects;
    const char *has;     /* in d/s, or what 'name' says */
    const char *lacks;   /* NULL: nothing */
    const char *reason;  /* of WaypointBound; NULL: no condition is written */
    const char *message; /* or how it ends after '...' */
    const char *name;    /* of the resource */
};

#define SVC "d/s.d.svc.cluster.local"

static void check(const struct row *row)
{
    SW_ARENA_AUTO a = {0};
    struct mesh_rig r;
    const char *text;

    mesh_rig_init(&r, NULL);
    mesh_rig_set(&r, row->objects);
    (void)mesh_rig_flush(&r);
    text = squeeze(&a, mesh_rig_text(&r, &a, row->name ? row->name : SVC));
    if (!*text || (row->has && !strstr(text, row->has)) || (row->lacks && strstr(text, row->lacks)))
        fail_msg("%s: %s", row->what, text);
    mesh_rig_done(&r);
    if (row->name)
        return;
    text = squeeze(&a, status_of(&a, row->objects, SW_MESH_ST_SERVICE, "d/s", 0));
    if (!row->reason && *text)
        fail_msg("%s: %s", row->what, text);
    if (row->reason &&
        (!strstr(text, sw_arena_printf(&a, "'reason':'%s','message':", row->reason)) ||
         !strstr(text, squeeze(&a, row->message)) ||
         !strstr(text, strcmp(row->reason, "WaypointAccepted") == 0 ? "'status':'True'"
                                                                    : "'status':'False'")))
        fail_msg("%s: %s", row->what, text);
}

#define OK        "WaypointAccepted"
#define NOT_READY "WaypointIsNotReady"
#define DENIED    "AttachmentDenied"
#define TYPE      "UnsupportedTrafficType"

/* Traffic waits, or goes past, and is counted so; ready, removed or not wanted any more, it is not.
 */
static void test_services_without_their_waypoint_are_counted(void **state)
{
    static const struct {
        const char *objects;
        size_t held;
        size_t passed;
    } steps[] = {
        {SERVICE("d", "s", USE("w")) "," SERVICE("d", "t", ""), 0, 1},
        {NS("d", HOLD), 1, 0},
        {NS("d", HOLD "," USE("w")), 2, 0},
        {SERVICE("d", "t", USE("none")), 1, 0},
        {WP("d", "w"), 0, 0},
        {GATEWAY("d", "w", "", MESH_LISTENER(""), ""), 1, 0},
        {NS("d", ""), 0, 1},
    };
    struct mesh_rig r;
    struct sw_mesh_index_stats st;

    (void)state;
    mesh_rig_init(&r, NULL);
    for (size_t i = 0; i < SW_ARRAY_LEN(steps); i++) {
        mesh_rig_set(&r, steps[i].objects);
        (void)mesh_rig_flush(&r);
        st = sw_mesh_index_stats(r.ix);
        if (st.held != steps[i].held || st.passed != steps[i].passed)
            fail_msg("step %zu: %zu held, %zu passed", i, st.held, st.passed);
    }
    mesh_rig_del(&r, SW_MESH_SERVICE, "d", "s");
    (void)mesh_rig_flush(&r);
    st = sw_mesh_index_stats(r.ix);
    assert_int_equal(st.passed, 0);
    mesh_rig_done(&r);
}

static void test_services_and_their_waypoints(void **state)
{
    static const struct row rows[] = {
        {"own label", SERVICE("d", "s", USE("w")) "," WP("d", "w"), AT("d", "w"), "weighted", OK,
         "Successfully attached to waypoint d/w'", NULL},
        {"label of the namespace", NS("d", USE("w")) "," SERVICE("d", "s", "") "," WP("d", "w"),
         AT("d", "w"), NULL, OK, "Successfully attached to waypoint d/w'", NULL},
        {"opted out", NS("d", USE("w")) "," SERVICE("d", "s", USE("none")) "," WP("d", "w"),
         "canonical", "waypoint", NULL, NULL, NULL},
        {"address by IP",
         SERVICE("d", "s", USE("w")) "," GATEWAY("d", "w", "", MESH_LISTENER(""), IP("1.2.3.4")),
         "waypoint { address { address: '\\x01\\x02\\x03\\x04' } hbone_mtls_port: 15008 }", NULL,
         OK, "d/w", NULL},
        {"host name before IP",
         SERVICE("d", "s", USE("w")) "," GATEWAY("d", "w", "", MESH_LISTENER(""),
                                                 IP("1.2.3.4") "," HOST("w.d.svc.cluster.local")),
         AT("d", "w"), NULL, OK, "d/w", NULL},
        {"missing", SERVICE("d", "s", USE("w")), "canonical", "waypoint", NOT_READY,
         "waypoint \\\"d/w\\\" is not ready", NULL},
        {"without an address",
         SERVICE("d", "s", USE("w")) "," GATEWAY("d", "w", "", MESH_LISTENER(""), ""), "canonical",
         "waypoint", NOT_READY, "waypoint \\\"d/w\\\" is not ready", NULL},
        {"own label to a missing one, though the namespace's is there",
         NS("d", USE("w")) "," SERVICE("d", "s", USE("x")) "," WP("d", "w"), "canonical",
         "waypoint", NOT_READY, "waypoint \\\"d/x\\\" is not ready", NULL},
        {"missing, and the namespace holds traffic", NS("d", HOLD) "," SERVICE("d", "s", USE("w")),
         AT("d", "w"), NULL, NOT_READY, "waypoint \\\"d/w\\\" is not ready", NULL},
        {"not allowed, and the namespace holds traffic",
         NS("d", HOLD) "," SERVICE("d", "s", USE("w") FROM("e")) "," WP("e", "w"), AT("e", "w"),
         NULL, DENIED, "e/w", NULL},
        {"of another kind of traffic, and the namespace holds traffic",
         NS("d", HOLD) "," SERVICE("d", "s", USE("w")) "," GATEWAY(
             "d", "w", "'istio.io/waypoint-for':'workload'", MESH_LISTENER(""), HOST("x")),
         "canonical", "waypoint", TYPE, "d/w", NULL},
        {"opted out, and the namespace holds traffic",
         NS("d", HOLD "," USE("w")) "," SERVICE("d", "s", USE("none")), "canonical", "waypoint",
         NULL, NULL, NULL},
        {"of another namespace, Same", SERVICE("d", "s", USE("w") FROM("e")) "," WP("e", "w"),
         "canonical", "waypoint", DENIED,
         "we are not permitted to attach to waypoint \\\"e/w\\\" (missing allowedRoutes?)", NULL},
        {"of another namespace, no listener",
         SERVICE("d", "s", USE("w") FROM("e")) "," GATEWAY("e", "w", "", "", HOST("x")),
         "canonical", "waypoint", DENIED, "e/w", NULL},
        {"of another namespace, All",
         SERVICE("d", "s", USE("w") FROM("e")) "," GATEWAY(
             "e", "w", "", MESH_LISTENER("'from':'All'"), HOST("w.e.svc.cluster.local")),
         AT("e", "w"), NULL, OK, "e/w", NULL},
        {"of another namespace, Selector that matches",
         NS("d", "'team':'x'") "," SERVICE("d", "s", USE("w") FROM("e")) "," GATEWAY(
             "e", "w", "",
             MESH_LISTENER("'from':'Selector','selector':{'matchLabels':{'team':'x'}}"),
             HOST("w.e.svc.cluster.local")),
         AT("e", "w"), NULL, OK, "e/w", NULL},
        {"of another namespace, Selector that does not",
         NS("d", "'team':'y'") "," SERVICE("d", "s", USE("w") FROM("e")) "," GATEWAY(
             "e", "w", "",
             MESH_LISTENER("'from':'Selector','selector':{'matchLabels':{'team':'x'}}"), HOST("x")),
         "canonical", "waypoint", DENIED, "e/w", NULL},
        {"for workloads",
         SERVICE("d", "s", USE("w")) "," GATEWAY("d", "w", "'istio.io/waypoint-for':'workload'",
                                                 MESH_LISTENER(""), HOST("x")),
         "canonical", "waypoint", TYPE,
         "attempting to bind to traffic type \\\"service\\\" which the waypoint \\\"d/w\\\" does "
         "not "
         "support",
         NULL},
        {"for all",
         SERVICE("d", "s", USE("w")) "," GATEWAY("d", "w", "'istio.io/waypoint-for':'all'",
                                                 MESH_LISTENER(""), HOST("w.d.svc.cluster.local")),
         AT("d", "w"), NULL, OK, "d/w", NULL},
        {"the class says what for",
         SERVICE("d", "s",
                 USE("w")) "," GATEWAY("d", "w", "", MESH_LISTENER(""),
                                       HOST("x")) ",{"
                                                  "'kind':'GatewayClass','metadata':{'name':'c','"
                                                  "labels':{'istio.io/waypoint-for':'none'}}}",
         "canonical", "waypoint", TYPE, "d/w", NULL},
        {"the Gateway says it before the class",
         SERVICE("d", "s", USE("w")) "," GATEWAY(
             "d", "w", "'istio.io/waypoint-for':'service'", MESH_LISTENER(""),
             HOST("w.d.svc.cluster.local")) ",{'kind':'GatewayClass','metadata':{'name':'c','"
                                            "labels':{'istio.io/waypoint-for':'none'}}}",
         AT("d", "w"), NULL, OK, "d/w", NULL},
        {"a waypoint's own Service",
         SERVICE("d", "s",
                 USE("w") ",'gateway.istio.io/managed':'istio.io-mesh-controller'") "," WP("d",
                                                                                           "w"),
         "canonical", "waypoint {", NULL, NULL, NULL},
        {"ingress through it",
         SERVICE("d", "s", USE("w") ",'istio.io/ingress-use-waypoint':'true'") "," WP("d", "w"),
         "ingress_use_waypoint: true", NULL, OK,
         "Successfully attached to waypoint d/w. Ingress traffic will traverse the waypoint'",
         NULL},
        {"ingress through it, by the namespace",
         NS("d", "'istio.io/ingress-use-waypoint':'1'") "," SERVICE("d", "s", USE("w")) "," WP("d",
                                                                                               "w"),
         "ingress_use_waypoint: true", NULL, OK, "will traverse", NULL},
        {"ingress around it",
         SERVICE("d", "s", USE("w") ",'istio.io/ingress-use-waypoint':'false'") "," WP("d", "w"),
         AT("d", "w"), "ingress_use", OK,
         "d/w. Ingress traffic is not using the waypoint, set the istio.io/ingress-use-waypoint "
         "label to true if desired.'",
         NULL},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++)
        check(&rows[i]);
}

#define CANARY(weight)                                                                             \
    "{'kind':'Service','metadata':{'namespace':'d','name':'s','labels':{" USE(                     \
        "w") ",'istio.io/use-waypoint-canary':'v'},'annotations':{" weight                         \
             "}},'spec':{}}," WP("d", "w") "," WP("d", "v")
#define WEIGHT(w) "'istio.io/use-waypoint-canary-weight':'" w "'"
#define TO(name)                                                                                   \
    "weighted_waypoints { destination { hostname { namespace: 'd' hostname: '" name                \
    ".d.svc.cluster.local' } hbone_mtls_port: 15008 }"

static void test_canaries(void **state)
{
    static const struct row rows[] = {
        {"half", CANARY(WEIGHT("50")), TO("w") " weight: 50 } " TO("v") " weight: 50 }", NULL, OK,
         "Successfully attached to waypoint d/w'", NULL},
        {"all", CANARY(WEIGHT("100")), TO("w") " } " TO("v") " weight: 100 }", NULL, OK, "d/w'",
         NULL},
        {"absent", CANARY(""), TO("w") " weight: 100 } " TO("v") " }", NULL, OK, "d/w'", NULL},
        {"zero", CANARY(WEIGHT("0")), TO("w") " weight: 100 } " TO("v") " }", NULL, OK, "d/w'",
         NULL},
        {"too much", CANARY(WEIGHT("101")), AT("d", "w"), "weighted", OK,
         "d/w. Canary waypoint not attached: canary waypoint \\\"d/v\\\" has an invalid weight; "
         "must "
         "be an integer in [0,100]'",
         NULL},
        {"no number", CANARY(WEIGHT("x")), AT("d", "w"), "weighted", OK, "has an invalid weight",
         NULL},
        {"missing",
         SERVICE("d", "s", USE("w") ",'istio.io/use-waypoint-canary':'x'") "," WP("d", "w"),
         AT("d", "w"), "weighted", OK,
         "d/w. Canary waypoint not attached: waypoint \\\"d/x\\\" is not ready'", NULL},
        {"the same",
         SERVICE("d", "s", USE("w") ",'istio.io/use-waypoint-canary':'w'") "," WP("d", "w"),
         AT("d", "w"), "weighted", OK,
         "canary waypoint \\\"d/w\\\" must differ from the primary waypoint'", NULL},
        {"of the namespace, while the service has a waypoint of its own",
         NS("d", "'istio.io/use-waypoint-canary':'v'") "," SERVICE("d", "s", USE("w")) "," WP(
             "d", "w") "," WP("d", "v"),
         AT("d", "w"), "weighted", OK, "d/w'", NULL},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++)
        check(&rows[i]);
}

#define POD(labels)                                                                                \
    "{'kind':'Pod','metadata':{'namespace':'d','name':'p','labels':{" labels                       \
    "}},'status':{'podIP':'10.0.0.1'}}"
#define UID "Kubernetes//Pod/d/p"
#define FOR_ALL                                                                                    \
    GATEWAY("d", "w", "'istio.io/waypoint-for':'all'", MESH_LISTENER(""),                          \
            HOST("w.d.svc.cluster.local"))

static void test_workloads_and_their_waypoints(void **state)
{
    static const struct row rows[] = {
        {"own label", POD(USE("w")) "," FOR_ALL, AT("d", "w"), NULL, NULL, NULL, UID},
        {"label of the namespace", NS("d", USE("w")) "," POD("") "," FOR_ALL, AT("d", "w"), NULL,
         NULL, NULL, UID},
        {"the namespace's is for services", NS("d", USE("w")) "," POD("") "," WP("d", "w"), "uid",
         "waypoint", NULL, NULL, UID},
        {"an instance of it, unbound",
         NS("d", USE("w")) "," POD("'gateway.networking.k8s.io/gateway-name':'w'") "," FOR_ALL,
         "uid", "waypoint", NULL, NULL, UID},
        {"an instance of it, bound by PROXY",
         POD("'gateway.networking.k8s.io/gateway-name':'w'") ",{'kind':'Gateway','metadata':{"
                                                             "'namespace':'d','name':'w','"
                                                             "annotations':{'ambient.istio.io/"
                                                             "waypoint-inbound-binding':"
                                                             "'PROXY/"
                                                             "15088'}},'spec':{},'status':{'"
                                                             "addresses':[" HOST("x") "]}}",
         "application_tunnel { protocol: PROXY port: 15088 }", "waypoint", NULL, NULL, UID},
        {"bound by the class",
         POD("'gateway.networking.k8s.io/gateway-name':'w'") "," GATEWAY(
             "d", "w", "", "",
             HOST("x")) ",{'kind':'GatewayClass','metadata':{'name':'c','annotations':{"
                        "'ambient.istio.io/waypoint-inbound-binding':'NONE/9'}}}",
         "application_tunnel { port: 9 }", "waypoint", NULL, NULL, UID},
        {"who may attach is the listener of the binding's port",
         POD(USE("w")
                 FROM("e")) ",{'kind':'Gateway','metadata':{'namespace':'e','name':'w','labels'"
                            ":{'istio.io/waypoint-for':'all'},'annotations':{"
                            "'ambient.istio.io/waypoint-inbound-binding':'PROXY/"
                            "15088'}},'spec':{'listeners':[" MESH_LISTENER(
                                "") ",{'port':15088,'protocol':'istio.io/PROXY','allowedRoutes':{"
                                    "'namespaces':{'from':'All'}}}]},'status':{'addresses':[" HOST(
                                        "w.e.svc.cluster.local") "]}}",
         AT("e", "w"), NULL, NULL, NULL, UID},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++)
        check(&rows[i]);
}

/* ---- host names ---- */

#define ENTRY(ns, name, day, host)                                                                 \
    "{'kind':'ServiceEntry','metadata':{'namespace':'" ns "','name':'" name                        \
    "','creationTimestamp':'2026-01-0" day "T00:00:00Z'},'spec':{'hosts':['" host                  \
    "'],'resolution':'STATIC','endpoints':[{'address':'10.1.0." day "'}]}}"

static void test_host_names_of_several(void **state)
{
    struct mesh_rig r;
    SW_ARENA_AUTO a = {0};

    (void)state;
    mesh_rig_init(&r, NULL);
    mesh_rig_set(&r, ENTRY("d", "young", "3", "h.t") "," ENTRY("d", "old", "1", "h.t") "," ENTRY(
                         "e", "middle", "2", "h.t"));
    (void)mesh_rig_flush(&r);
    /* One in each namespace, the oldest; and of these one is canonical. */
    assert_non_null(strstr(mesh_rig_text(&r, &a, "d/h.t"), "name: \"old\""));
    assert_non_null(strstr(mesh_rig_text(&r, &a, "d/h.t"), "canonical: true"));
    assert_non_null(strstr(mesh_rig_text(&r, &a, "e/h.t"), "name: \"middle\""));
    assert_null(strstr(mesh_rig_text(&r, &a, "e/h.t"), "canonical: true"));
    /* The loser has no endpoints either. */
    assert_non_null(mesh_rig_get(&r, "Kubernetes/networking.istio.io/ServiceEntry/d/old/10.1.0.1"));
    assert_null(mesh_rig_get(&r, "Kubernetes/networking.istio.io/ServiceEntry/d/young/10.1.0.3"));
    mesh_rig_del(&r, SW_MESH_SERVICE_ENTRY, "d", "old");
    (void)mesh_rig_flush(&r);
    assert_non_null(strstr(mesh_rig_text(&r, &a, "d/h.t"), "name: \"young\""));
    assert_non_null(strstr(mesh_rig_text(&r, &a, "e/h.t"), "canonical: true"));
    assert_non_null(
        mesh_rig_get(&r, "Kubernetes/networking.istio.io/ServiceEntry/d/young/10.1.0.3"));
    /* A Service beats them. */
    mesh_rig_set(&r, ENTRY("e", "as-svc", "1", "s.d.svc.cluster.local") "," ENTRY(
                         "d", "as-svc", "1", "s.d.svc.cluster.local") "," SERVICE("d", "s", ""));
    (void)mesh_rig_flush(&r);
    assert_non_null(strstr(mesh_rig_text(&r, &a, SVC), "name: \"s\""));
    assert_non_null(strstr(mesh_rig_text(&r, &a, SVC), "canonical: true"));
    assert_null(strstr(mesh_rig_text(&r, &a, "e/s.d.svc.cluster.local"), "canonical: true"));
    mesh_rig_done(&r);
}

static void test_visibility(void **state)
{
    const struct sw_mesh_conf own = {.visibility = SW_MESH_VISIBILITY_NAMESPACE};
    const struct sw_mesh_conf none = {.visibility = SW_MESH_VISIBILITY_NONE};
    struct mesh_rig r;
    SW_ARENA_AUTO a = {0};

    (void)state;
    mesh_rig_init(&r, &own);
    mesh_rig_set(&r, ENTRY("d", "e", "1", "h.t"));
    (void)mesh_rig_flush(&r);
    assert_non_null(strstr(mesh_rig_text(&r, &a, "d/h.t"), "visibility: NAMESPACE"));
    assert_null(strstr(mesh_rig_text(&r, &a, "d/h.t"), "canonical"));
    mesh_rig_done(&r);
    mesh_rig_init(&r, &none);
    mesh_rig_set(&r, ENTRY("d", "e", "1", "h.t"));
    assert_int_equal(mesh_rig_flush(&r), 0);
    mesh_rig_done(&r);
}

#define TEAM(ns, team)                                                                             \
    "{'kind':'Namespace','metadata':{'name':'" ns "','labels':{'team':'" team "'}}}"

/* The first rule whose selector matches the namespace counts, live. */
static void test_visibility_by_namespace(void **state)
{
    struct sw_slice a_team = SW_SLICE_LIT("a");
    struct sw_slice teams[] = {SW_SLICE_LIT("a"), SW_SLICE_LIT("b")};
    struct sw_requirement is_a = {.key = SW_SLICE_LIT("team"), .values = &a_team, .n = 1};
    struct sw_requirement is_any = {
        .key = SW_SLICE_LIT("team"), .op = SW_SEL_IN, .values = teams, .n = 2};
    const struct sw_mesh_visibility_rule rules[] = {
        {.namespaces = {.p = &is_a, .n = 1}, .visibility = SW_MESH_VISIBILITY_NAMESPACE},
        {.namespaces = {.p = &is_any, .n = 1}, .visibility = SW_MESH_VISIBILITY_NONE},
    };
    const struct sw_mesh_conf conf = {.visibility = SW_MESH_VISIBILITY_PUBLIC,
                                      .visibilities = rules,
                                      .n_visibilities = SW_ARRAY_LEN(rules)};
    struct mesh_rig r;
    SW_ARENA_AUTO a = {0};

    (void)state;
    mesh_rig_init(&r, &conf);
    mesh_rig_set(&r, TEAM("a", "a") "," TEAM("b", "b") "," ENTRY("a", "e", "1", "h.t") "," ENTRY(
                         "b", "e", "2", "h.t") "," ENTRY("c", "e", "3", "h.t"));
    (void)mesh_rig_flush(&r);
    assert_non_null(strstr(mesh_rig_text(&r, &a, "a/h.t"), "visibility: NAMESPACE"));
    assert_null(strstr(mesh_rig_text(&r, &a, "a/h.t"), "canonical"));
    assert_null(mesh_rig_get(&r, "b/h.t"));
    assert_null(mesh_rig_get(&r, "Kubernetes/networking.istio.io/ServiceEntry/b/e/10.1.0.2"));
    assert_null(strstr(mesh_rig_text(&r, &a, "c/h.t"), "visibility"));
    assert_non_null(strstr(mesh_rig_text(&r, &a, "c/h.t"), "canonical: true"));
    /* Labels change: b is for all now and older than c, a is hidden, then gone, and so without
     * labels. */
    mesh_rig_set(&r, TEAM("a", "b") "," TEAM("b", "z"));
    (void)mesh_rig_flush(&r);
    assert_null(mesh_rig_get(&r, "a/h.t"));
    assert_non_null(strstr(mesh_rig_text(&r, &a, "b/h.t"), "canonical: true"));
    assert_null(strstr(mesh_rig_text(&r, &a, "c/h.t"), "canonical: true"));
    mesh_rig_del(&r, SW_MESH_NAMESPACE, "", "a");
    (void)mesh_rig_flush(&r);
    assert_non_null(strstr(mesh_rig_text(&r, &a, "a/h.t"), "canonical: true"));
    mesh_rig_done(&r);
}

/* ---- networks, trust domains, names ---- */

static void test_names_of_the_mesh(void **state)
{
    const struct sw_mesh_conf conf = {.cluster = SW_SLICE_LIT("c1"),
                                      .trust_domain = SW_SLICE_LIT("td.example"),
                                      .domain = SW_SLICE_LIT("k.example"),
                                      .root_ns = SW_SLICE_LIT("root"),
                                      .revision = SW_SLICE_LIT("blue")};
    struct mesh_rig r;
    SW_ARENA_AUTO a = {0};

    (void)state;
    mesh_rig_init(&r, &conf);
    mesh_rig_set(&r, NS("root", "'topology.istio.io/network':'n1'") "," POD(
                         "'app':'x'") "," SERVICE("d", "s", ""));
    (void)mesh_rig_flush(&r);
    assert_non_null(strstr(mesh_rig_text(&r, &a, "c1//Pod/d/p"), "trust_domain: \"td.example\""));
    assert_non_null(strstr(mesh_rig_text(&r, &a, "c1//Pod/d/p"), "cluster_id: \"c1\""));
    assert_string_equal(mesh_rig_get(&r, "c1//Pod/d/p")->extra, "n1/10.0.0.1;;");
    assert_string_equal(mesh_rig_get(&r, "d/s.d.svc.k.example")->extra, "n1/10.96.0.1;;");
    mesh_rig_set(&r, "{'kind':'WorkloadEntry','metadata':{'namespace':'d','name':'w','labels':{"
                     "'istio.io/rev':'green'}},'spec':{'address':'1.1.1.1'}},{'kind':"
                     "'WorkloadEntry','metadata':{'namespace':'d','name':'v','labels':{"
                     "'istio.io/rev':'blue'}},'spec':{'address':'1.1.1.1'}}");
    assert_int_equal(mesh_rig_flush(&r), 1);
    mesh_rig_done(&r);
}

static void test_doors_to_other_networks(void **state)
{
    struct mesh_rig r;
    SW_ARENA_AUTO a = {0};

    (void)state;
    mesh_rig_init(&r, NULL);
    mesh_rig_set(
        &r, "{'kind':'Gateway','metadata':{'namespace':'g','name':'n2','labels':{"
            "'topology.istio.io/network':'n2'}},'spec':{'gatewayClassName':'istio-remote',"
            "'listeners':[{'port':15009,'protocol':'HBONE'}]},'status':{'addresses':[" IP(
                "1.2.3.4") "]}},{'kind':'WorkloadEntry','metadata':{'namespace':'d','name':"
                           "'w'},'spec':{'address':'1.1.1.1','network':'n2'}}," POD("'app':'x'"));
    (void)mesh_rig_flush(&r);
    assert_non_null(strstr(squeeze(&a, mesh_rig_text(&r, &a, "NetworkGateway/n2/1.2.3.4/15009")),
                           "service_account: 'n2-istio-remote'"));
    assert_non_null(strstr(
        squeeze(&a, mesh_rig_text(&r, &a, "Kubernetes/networking.istio.io/WorkloadEntry/d/w")),
        "network_gateway { address { network: 'n2' address: '\\x01\\x02\\x03\\x04' } "
        "hbone_mtls_port: 15009 }"));
    assert_null(strstr(mesh_rig_text(&r, &a, UID), "network_gateway"));
    mesh_rig_del(&r, SW_MESH_GATEWAY, "g", "n2");
    assert_int_equal(mesh_rig_flush(&r), 2);
    mesh_rig_done(&r);
}

/* ---- instances ---- */

static void note_instances(void *arg, const struct sw_mesh_instances *of)
{
    struct sw_buf *b = arg;

    (void)!sw_buf_printf(b, "%.*s/%.*s:", SW_SLICE_ARG(of->ns), SW_SLICE_ARG(of->name));
    for (size_t i = 0; i < of->n; i++)
        (void)!sw_buf_printf(b, " %.*s", SW_SLICE_ARG(of->accounts[i]));
    (void)!sw_buf_append_str(b, "\n");
}

static void check_instances(struct mesh_rig *r, const char *want)
{
    SW_BUF_AUTO b = {.max = 4096};
    char *text;

    sw_mesh_index_instances(r->ix, note_instances, &b);
    text = sw_buf_take_str(&b);
    assert_string_equal(text, want);
    sw_free(text);
}

#define INSTANCE(name, account)                                                                    \
    "{'kind':'Pod','metadata':{'namespace':'d','name':'" name                                      \
    "','labels':{'gateway.networking.k8s.io/"                                                      \
    "gateway-name':'w'}},'spec':{'serviceAccountName':'" account                                   \
    "'},'status':{'podIP':'10.0.0.1'}}"

static void test_accounts_of_instances(void **state)
{
    struct mesh_rig r;

    (void)state;
    mesh_rig_init(&r, NULL);
    mesh_rig_set(&r, INSTANCE("a", "z") "," INSTANCE("b", "y") "," INSTANCE("c", "y") "," POD(""));
    check_instances(&r, "d/w: y z\n");
    check_instances(&r, "");
    mesh_rig_del(&r, SW_MESH_POD, "d", "a");
    check_instances(&r, "d/w: y\n");
    mesh_rig_del(&r, SW_MESH_POD, "d", "b");
    mesh_rig_del(&r, SW_MESH_POD, "d", "c");
    check_instances(&r, "d/w:\n");
    mesh_rig_done(&r);
}

/* ---- one change costs one ---- */

static void test_a_change_costs_what_it_affects(void **state)
{
    struct mesh_rig r;
    uint64_t before;

    (void)state;
    mesh_rig_init(&r, NULL);
    for (unsigned i = 0; i < 200; i++) {
        SW_ARENA_AUTO a = {0};

        mesh_rig_set(&r, sw_arena_printf(&a,
                                         "{'kind':'Pod','metadata':{'namespace':'d','name':'p%u',"
                                         "'labels':{'app':'a%u'}},'status':{'podIP':'10.0.0.%u'}}",
                                         i, i % 20, i));
    }
    (void)mesh_rig_flush(&r);
    assert_int_equal(sw_mesh_index_stats(r.ix).groups, 20);
    before = sw_mesh_index_stats(r.ix).computed;
    mesh_rig_set(&r, "{'kind':'Pod','metadata':{'namespace':'d','name':'p7','labels':{'app':'a7'}},"
                     "'status':{'podIP':'10.0.1.1'}}");
    assert_int_equal(mesh_rig_flush(&r), 1);
    assert_int_equal(sw_mesh_index_stats(r.ix).computed - before, 1);
    before = sw_mesh_index_stats(r.ix).computed;
    mesh_rig_set(&r,
                 "{'kind':'Service','metadata':{'namespace':'d','name':'s'},'spec':{'selector':{"
                 "'app':'a3'}}}");
    assert_int_equal(mesh_rig_flush(&r), 11);
    assert_int_equal(sw_mesh_index_stats(r.ix).computed - before, 11);
    before = sw_mesh_index_stats(r.ix).computed;
    mesh_rig_set(&r, NS("d", "'x':'y'")); /* means nothing to anybody */
    assert_int_equal(mesh_rig_flush(&r), 0);
    assert_int_equal(sw_mesh_index_stats(r.ix).computed - before, 1); /* the service */
    mesh_rig_done(&r);
}

/* ---- policies of waypoints ---- */

static struct sw_slice senders_of(void *arg, const struct sw_mesh_subject *of, struct sw_arena *a)
{
    const char *keys = "";

    (void)arg;
    for (size_t i = 0; i < of->n_waypoints; i++)
        keys = sw_arena_printf(a, "%s%sfrom/%.*s", keys, i ? "\n" : "",
                               SW_SLICE_ARG(of->waypoints[i]));
    return sw_slice_str(keys);
}

/* What the resource lists, without what is before and behind it. */
static const char *listed(const struct mesh_rig *r, struct sw_arena *a, const char *name)
{
    const char *rest = squeeze(a, mesh_rig_text(r, a, name));
    const char *out = "";

    while ((rest = strstr(rest, "authorization_policies: 'from/"))) {
        const char *from = strchr(rest, '/') + 1;

        out = sw_arena_printf(a, "%s%.*s ", out, (int)strcspn(from, "'"), from);
        rest = from;
    }
    return out;
}

#define UP_POD(name, labels)                                                                       \
    "{'kind':'Pod','metadata':{'namespace':'d','name':'" name "','labels':{" labels                \
    "}},'spec':{},'status':{'phase':'Running','podIP':'10.0.0.1'}}"
#define SELECTING(name, labels)                                                                    \
    "{'kind':'Service','metadata':{'namespace':'d','name':'" name "','labels':{" labels            \
    "},'annotations':{'istio.io/use-waypoint-canary-weight':'10'}},'spec':{'selector':{'app':'x'"  \
    "}}}"

/* Connections to a Service come from its waypoint, whichever way the workload is its endpoint. */
static void test_workloads_list_the_waypoints_of_their_services(void **state)
{
    static const struct {
        const char *what;
        const char *objects;
        const char *name;
        const char *want;
    } rows[] = {
        {"by the pod's labels",
         UP_POD("p", "'app':'x'") "," SELECTING("s", USE("w")) "," WP("d", "w"),
         "Kubernetes//Pod/d/p", "d/w "},
        {"not selected", UP_POD("p", "'app':'y'") "," SELECTING("s", USE("w")) "," WP("d", "w"),
         "Kubernetes//Pod/d/p", ""},
        {"the waypoint is not there", UP_POD("p", "'app':'x'") "," SELECTING("s", USE("w")),
         "Kubernetes//Pod/d/p", ""},
        {"canary",
         UP_POD("p", "'app':'x'") "," SELECTING(
             "s", USE("w") ",'istio.io/use-waypoint-canary':'v'") "," WP("d", "w") "," WP("d", "v"),
         "Kubernetes//Pod/d/p", "d/v d/w "},
        {"several services, one waypoint",
         UP_POD("p", "'app':'x'") "," SELECTING("s", USE("w")) "," SELECTING("t", USE("w")) "," WP(
             "d", "w"),
         "Kubernetes//Pod/d/p", "d/w "},
        {"by a slice",
         UP_POD("p", "") "," SERVICE("d", "s", USE("w")) "," WP(
             "d", "w") ",{'kind':'EndpointSlice','metadata':{'namespace':'d','name':'s1','labels':"
                       "{'kubernetes.io/service-name':'s'}},'addressType':'IPv4','endpoints':[{"
                       "'addresses':['10.0.0.1'],'targetRef':{'kind':'Pod','name':'p'}}]}",
         "Kubernetes//Pod/d/p", "d/w "},
        {"WorkloadEntry",
         "{'kind':'WorkloadEntry','metadata':{'namespace':'d','name':'m'},'spec':{'address':"
         "'1.1.1.1','labels':{'app':'x'}}}," SELECTING("s", USE("w")) "," WP("d", "w"),
         "Kubernetes/networking.istio.io/WorkloadEntry/d/m", "d/w "},
        {"endpoint of a ServiceEntry",
         "{'kind':'ServiceEntry','metadata':{'namespace':'d','name':'e','labels':{" USE(
             "w") "}},'spec':{'hosts':['h.t'],'resolution':'STATIC','endpoints':[{'address':"
                  "'1.1.1.1'}]}}," WP("d", "w"),
         "Kubernetes/networking.istio.io/ServiceEntry/d/e/1.1.1.1", "d/w "},
        {"host of a ServiceEntry",
         "{'kind':'ServiceEntry','metadata':{'namespace':'d','name':'e','labels':{" USE(
             "w") "}},'spec':{'hosts':['h.t'],'resolution':'DNS'}}," WP("d", "w"),
         "Kubernetes/networking.istio.io/ServiceEntry/d/e/h.t", "d/w "},
    };
    const struct sw_mesh_conf conf = {.policies = senders_of};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        SW_ARENA_AUTO a = {0};
        struct mesh_rig r;

        mesh_rig_init(&r, &conf);
        mesh_rig_set(&r, rows[i].objects);
        (void)mesh_rig_flush(&r);
        if (strcmp(listed(&r, &a, rows[i].name), rows[i].want) != 0)
            fail_msg("%s: '%s' in %s", rows[i].what, listed(&r, &a, rows[i].name),
                     mesh_rig_text(&r, &a, rows[i].name));
        mesh_rig_done(&r);
    }
}

static void test_waypoints_of_services_come_and_go(void **state)
{
    const struct sw_mesh_conf conf = {.policies = senders_of};
    SW_ARENA_AUTO a = {0};
    struct mesh_rig r;

    (void)state;
    mesh_rig_init(&r, &conf);
    mesh_rig_set(&r, UP_POD("p", "'app':'x'") "," SELECTING("s", USE("w")));
    (void)mesh_rig_flush(&r);
    assert_string_equal(listed(&r, &a, "Kubernetes//Pod/d/p"), "");
    mesh_rig_set(&r, WP("d", "w"));
    (void)mesh_rig_flush(&r);
    assert_string_equal(listed(&r, &a, "Kubernetes//Pod/d/p"), "d/w ");
    mesh_rig_set(&r, SELECTING("s", ""));
    (void)mesh_rig_flush(&r);
    assert_string_equal(listed(&r, &a, "Kubernetes//Pod/d/p"), "");
    mesh_rig_set(&r, NS("d", USE("w")));
    (void)mesh_rig_flush(&r);
    assert_string_equal(listed(&r, &a, "Kubernetes//Pod/d/p"), "d/w ");
    mesh_rig_del(&r, SW_MESH_GATEWAY, "d", "w");
    (void)mesh_rig_flush(&r);
    assert_string_equal(listed(&r, &a, "Kubernetes//Pod/d/p"), "");
    mesh_rig_done(&r);
}

/* Traffic to the endpoint's address must not go past the waypoint either. */
static void test_endpoints_are_held(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct mesh_rig r;

    (void)state;
    mesh_rig_init(&r, NULL);
    mesh_rig_set(&r, NS("d", HOLD) ",{'kind':'ServiceEntry','metadata':{'namespace':'d','name':'e'}"
                                   ",'spec':{'hosts':['h.t'],'resolution':'STATIC','endpoints':[{"
                                   "'address':'1.1.1.1','labels':{" USE("w") "}}]}}");
    (void)mesh_rig_flush(&r);
    assert_non_null(strstr(
        squeeze(&a,
                mesh_rig_text(&r, &a, "Kubernetes/networking.istio.io/ServiceEntry/d/e/1.1.1.1")),
        AT("d", "w")));
    mesh_rig_done(&r);
}

/* ---- statuses ---- */

#define SE_KIND SW_MESH_ST_SERVICE_ENTRY

static void test_conditions(void **state)
{
    SW_ARENA_AUTO a = {0};
    const char *wild = "{'kind':'ServiceEntry','metadata':{'namespace':'d','name':'e'},'spec':{"
                       "'hosts':['*.t']}}";
    const char *race =
        "{'kind':'ServiceEntry','metadata':{'namespace':'d','name':'e','annotations':{"
        "'istio.io/connect-strategy':'RACE_FIRST_TCP_CONNECT'}},'spec':{'hosts':["
        "'h.t']}}";
    const char *plain = "{'kind':'ServiceEntry','metadata':{'namespace':'d','name':'e'},'spec':{"
                        "'hosts':['h.t']}}";
    const char *far =
        "{'kind':'ServiceEntry','metadata':{'namespace':'d','name':'e','labels':{" USE("w")
            FROM("e") "}},'spec':{'hosts':['h.t']}}," GATEWAY(
                "e", "w", "", MESH_LISTENER("'from':'All'"), HOST("x"));

    (void)state;
    assert_non_null(strstr(status_of(&a, wild, SE_KIND, "d/e", 0),
                           "\"reason\":\"NoWaypointForWildcardService\",\"message\":\"ServiceEntry "
                           "will not apply until "
                           "it is bound to a valid waypoint.\""));
    assert_non_null(strstr(status_of(&a, race, SE_KIND, "d/e", 0),
                           "\"type\":\"istio.io/WaypointMissing\",\"status\":\"True\",\"reason\":"
                           "\"NoWaypointForRacingConnectStrategy\""));
    assert_string_equal(status_of(&a, plain, SE_KIND, "d/e", 0), "");
    assert_non_null(strstr(status_of(&a, plain, SE_KIND, "d/e", SW_MESH_VISIBILITY_PUBLIC),
                           "\"reason\":\"Public\""));
    assert_non_null(strstr(status_of(&a, plain, SE_KIND, "d/e", SW_MESH_VISIBILITY_NAMESPACE),
                           "\"reason\":\"Namespace\""));
    assert_non_null(
        strstr(status_of(&a, far, SE_KIND, "d/e", SW_MESH_VISIBILITY_NAMESPACE),
               "cannot bind to waypoint \\\"e/w\\\" in another namespace: cross-namespace waypoint "
               "binding is not permitted for a ServiceEntry with NAMESPACE visibility"));
    assert_non_null(strstr(
        status_of(&a,
                  "{'kind':'WorkloadEntry','metadata':{'namespace':'d','name':'w','labels':{" USE(
                      "w") "}},'spec':{'address':'1.1.1.1'}}," WP("d", "w"),
                  SW_MESH_ST_WORKLOAD_ENTRY, "d/w", 0),
        "attempting to bind to traffic type \\\"workload\\\""));
}

#define TARGETING(refs)                                                                            \
    "{'kind':'AuthorizationPolicy','metadata':{'namespace':'d','name':'a'},'spec':{'targetRefs':"  \
    "[" refs "]}}"

static void test_policies_for_waypoints(void **state)
{
    static const struct {
        const char *objects;
        const char *want;
    } rows[] = {
        {TARGETING("{'kind':'Service','name':'s'}") "," SERVICE("d", "s", USE("w")) "," WP("d",
                                                                                           "w"),
         "'status':'True','reason':'Accepted','message':'bound to d/w'"},
        {TARGETING("{'kind':'Service','name':'s'}") "," SERVICE("d", "s", ""),
         "'status':'False','reason':'AncestorNotBound','message':'Service d/s is not bound to a "
         "waypoint'"},
        {TARGETING("{'kind':'ServiceEntry','name':'s'}"),
         "'status':'False','reason':'TargetNotFound','message':'ServiceEntry d/s was not found'"},
        {TARGETING("{'kind':'Gateway','group':'gateway.networking.k8s.io','name':'w'}") "," WP("d",
                                                                                               "w"),
         "'message':'bound to d/w'"},
        {TARGETING("{'kind':'GatewayClass','name':'c'}"), "must be in the root namespace"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        SW_ARENA_AUTO a = {0};
        const char *text = squeeze(&a, status_of(&a, rows[i].objects, SW_MESH_ST_POLICY, "d/a", 0));

        if (!strstr(text, rows[i].want) || !strstr(text, "'type':'WaypointAccepted'"))
            fail_msg("%s: %s", rows[i].want, text);
    }
}

#define WITH_CONDITIONS(labels, list)                                                              \
    "{'kind':'Service','metadata':{'namespace':'d','name':'s','labels':{" labels                   \
    "}},'spec':{},'status':{'conditions':[" list "]}}"
#define THERE                                                                                      \
    "{'type':'istio.io/WaypointBound','status':'True','reason':'WaypointAccepted','message':"      \
    "'Successfully attached to waypoint d/w','lastTransitionTime':'2026-01-01T00:00:00Z'}"
#define OTHER "{'type':'other','status':'True','reason':'R','message':'m'}"

static void test_conditions_that_stand_are_left_alone(void **state)
{
    SW_ARENA_AUTO a = {0};
    const char *text;

    (void)state;
    assert_string_equal(status_of(&a, WITH_CONDITIONS(USE("w"), OTHER "," THERE) "," WP("d", "w"),
                                  SW_MESH_ST_SERVICE, "d/s", 0),
                        "");
    /* One that does not apply any more goes, those of others stay. */
    text = status_of(&a, WITH_CONDITIONS("", OTHER "," THERE), SW_MESH_ST_SERVICE, "d/s", 0);
    assert_non_null(strstr(text, "\"other\""));
    assert_null(strstr(text, "WaypointBound"));
}

#define DNS_ENTRY(name, day, hosts, rest)                                                          \
    "{'kind':'ServiceEntry','metadata':{'namespace':'d','name':'" name                             \
    "','creationTimestamp':'2026-01-0" day "T00:00:00Z'},'spec':{'hosts':[" hosts                  \
    "],'resolution':'DNS'" rest "}"
#define GIVEN(list)       ",'status':{'addresses':[" list "]}}"
#define TO_HOST(host, ip) "{'value':'" ip "','host':'" host "'}"

static void test_addresses_are_given(void **state)
{
    static const struct {
        const char *what;
        const char *objects;
        const char *want; /* of d/e; NULL: nothing is written */
    } rows[] = {
        {"first", DNS_ENTRY("e", "1", "'h.t'", "") "}",
         "{'addresses':[{'value':'240.240.0.1','host':'h.t'},{'value':'2001:2::1','host':'h.t'}]}"},
        {"two hosts", DNS_ENTRY("e", "1", "'h.t','i.t'", "") "}",
         "{'addresses':[{'value':'240.240.0.1','host':'h.t'},{'value':'2001:2::1','host':'h.t'},{"
         "'value':'240.240.0.2','host':'i.t'},{'value':'2001:2::2','host':'i.t'}]}"},
        {"the second in age",
         DNS_ENTRY("e", "2", "'h.t'", "") "}," DNS_ENTRY("a", "1", "'x.t'", "") "}",
         "{'addresses':[{'value':'240.240.0.2','host':'h.t'},{'value':'2001:2::2','host':'h.t'}]}"},
        {"kept",
         DNS_ENTRY("e", "1", "'h.t'", "")
             GIVEN(TO_HOST("h.t", "240.240.7.7") "," TO_HOST("h.t", "2001:2::7")),
         NULL},
        {"kept for the host that stays",
         DNS_ENTRY("e", "1", "'h.t','n.t'", "") GIVEN(TO_HOST("h.t", "240.240.0.1") "," TO_HOST(
             "h.t", "2001:2::1") "," TO_HOST("gone.t", "240.240.0.2")),
         "{'addresses':[{'value':'240.240.0.1','host':'h.t'},{'value':'2001:2::1','host':'h.t'},{"
         "'value':'240.240.0.2','host':'n.t'},{'value':'2001:2::2','host':'n.t'}]}"},
        {"an older entry keeps it",
         DNS_ENTRY("e", "2", "'h.t'", "") GIVEN(TO_HOST("h.t", "240.240.0.1") "," TO_HOST(
             "h.t", "2001:2::1")) "," DNS_ENTRY("a", "1", "'x.t'", "")
             GIVEN(TO_HOST("x.t", "240.240.0.1") "," TO_HOST("x.t", "2001:2::9")),
         "{'addresses':[{'value':'240.240.0.2','host':'h.t'},{'value':'2001:2::1','host':'h.t'}]}"},
        {"what a user wrote is taken",
         DNS_ENTRY("e", "1", "'h.t'", "") "}," DNS_ENTRY("z", "9", "'x.t'",
                                                         ",'addresses':['240.240.0.1']") "}",
         "{'addresses':[{'value':'240.240.0.2','host':'h.t'},{'value':'2001:2::1','host':'h.t'}]}"},
        {"own addresses", DNS_ENTRY("e", "1", "'h.t'", ",'addresses':['1.1.1.1']") "}", NULL},
        {"no longer wanted",
         DNS_ENTRY("e", "1", "'h.t'", ",'addresses':['1.1.1.1']")
             GIVEN(TO_HOST("h.t", "240.240.0.1")),
         "{'addresses':[]}"},
        {"without resolution",
         "{'kind':'ServiceEntry','metadata':{'namespace':'d','name':'e'},'spec':{'hosts':['h.t']}}",
         NULL},
        {"opted out",
         "{'kind':'ServiceEntry','metadata':{'namespace':'d','name':'e','labels':{"
         "'networking.istio.io/enable-autoallocate-ip':'false'}},'spec':{'hosts':['h.t'],"
         "'resolution':'DNS'}}",
         NULL},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        SW_ARENA_AUTO a = {0};
        const char *text =
            squeeze(&a, status_of(&a, rows[i].objects, SE_KIND, "d/e", SW_MESH_VISIBILITY_UNSET));

        if (strcmp(text, rows[i].want ? rows[i].want : "") != 0)
            fail_msg("%s: %s", rows[i].what, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_services_and_their_waypoints),
        cmocka_unit_test(test_services_without_their_waypoint_are_counted),
        cmocka_unit_test(test_canaries),
        cmocka_unit_test(test_workloads_and_their_waypoints),
        cmocka_unit_test(test_host_names_of_several),
        cmocka_unit_test(test_visibility),
        cmocka_unit_test(test_visibility_by_namespace),
        cmocka_unit_test(test_names_of_the_mesh),
        cmocka_unit_test(test_doors_to_other_networks),
        cmocka_unit_test(test_accounts_of_instances),
        cmocka_unit_test(test_a_change_costs_what_it_affects),
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_policies_for_waypoints),
        cmocka_unit_test(test_workloads_list_the_waypoints_of_their_services),
        cmocka_unit_test(test_waypoints_of_services_come_and_go),
        cmocka_unit_test(test_endpoints_are_held),
        cmocka_unit_test(test_conditions_that_stand_are_left_alone),
        cmocka_unit_test(test_addresses_are_given),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
