/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever happens to the objects, in whatever order, the index has emitted in the end what an
 * index emits that is filled once with the objects that are left. Objects are drawn from a small
 * world so that they meet: shared host names, labels, waypoints, slices and networks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "control/mesh/read/text.h"
#include "mesh_rig.h"

enum { SLOTS = 10, ROUNDS = 60, STEPS = 60, SEEDS = 12 };

struct world {
    uint64_t seed;
    char *objects[SW_MESH_KINDS][SLOTS]; /* JSON; NULL: it is not there */
    unsigned policies;                   /* a bit for each namespace */
};

static uint32_t draw(struct world *w, uint32_t n)
{
    w->seed = w->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(w->seed >> 33) % n;
}

#define PICK(w, list) (list)[draw((w), SW_ARRAY_LEN(list))]

static const char *const spaces[] = {"a", "b", "istio-system"};
static const char *const apps[] = {"x", "y", "z"};

static const char *waypoint_labels(struct world *w)
{
    static const char *const list[] = {
        "",
        "",
        "",
        ",'istio.io/use-waypoint':'none'",
        ",'istio.io/use-waypoint':'g0'",
        ",'istio.io/use-waypoint':'g1'",
        ",'istio.io/use-waypoint':'g1','istio.io/use-waypoint-namespace':'a'",
        ",'istio.io/use-waypoint':'g0','istio.io/use-waypoint-canary':'g1'",
        ",'istio.io/ingress-use-waypoint':'true'",
        ",'spanwire.dev/hold-for-waypoint':'true'",
        ",'istio.io/use-waypoint':'g0','spanwire.dev/hold-for-waypoint':'true'",
        ",'gateway.networking.k8s.io/gateway-name':'g1'",
    };

    return PICK(w, list);
}

static const char *meta(struct world *w, struct sw_arena *a, const char *ns, const char *name,
                        const char *annotations)
{
    return sw_arena_printf(a,
                           "'metadata':{'namespace':'%s','name':'%s','creationTimestamp':"
                           "'2026-01-0%uT00:00:00Z','labels':{'app':'%s'%s},'annotations':{%s}}",
                           ns, name, 1 + draw(w, 3), PICK(w, apps), waypoint_labels(w),
                           annotations);
}

static const char *make_ns(struct world *w, struct sw_arena *a, unsigned i)
{
    static const char *const networks[] = {"", "", ",'topology.istio.io/network':'n1'",
                                           ",'topology.istio.io/network':'n2'"};
    static const char *const annotations[] = {
        "", "'networking.istio.io/traffic-distribution':'PreferClose'",
        "'istio.io/use-waypoint-canary-weight':'20'"};

    return sw_arena_printf(a,
                           "{'kind':'Namespace','metadata':{'name':'%s','labels':{'team':'%s'%s%s},"
                           "'annotations':{%s}}}",
                           spaces[i % 3], PICK(w, apps), waypoint_labels(w), PICK(w, networks),
                           PICK(w, annotations));
}

static const char *make_node(struct world *w, struct sw_arena *a, unsigned i)
{
    return sw_arena_printf(a,
                           "{'kind':'Node','metadata':{'name':'n%u','labels':{"
                           "'topology.kubernetes.io/zone':'%s'}}}",
                           i % 3, PICK(w, apps));
}

static const char *make_class(struct world *w, struct sw_arena *a, unsigned i)
{
    static const char *const types[] = {"service", "workload", "all", "none"};
    static const char *const annotations[] = {
        "", "'ambient.istio.io/waypoint-inbound-binding':'PROXY/15088'"};

    return sw_arena_printf(a,
                           "{'kind':'GatewayClass','metadata':{'name':'c%u','labels':{"
                           "'istio.io/waypoint-for':'%s'},'annotations':{%s}}}",
                           i % 2, PICK(w, types), PICK(w, annotations));
}

static const char *make_gateway(struct world *w, struct sw_arena *a, unsigned i)
{
    static const char *const status[] = {"", "{'type':'IPAddress','value':'10.9.0.1'}",
                                         "{'type':'Hostname','value':'g.a.svc.cluster.local'}"};
    static const char *const allowed[] = {
        "", "'allowedRoutes':{'namespaces':{'from':'All'}},",
        ("'allowedRoutes':{'namespaces':{'from':'Selector','selector':{'matchLabels':{'team':'x'}}}"
         "},")};
    static const char *const classes[] = {
        "c0", "c1", "istio-remote", "istio-remote", "istio-east-west", "istio-east-west"};
    static const char *const labels[] = {"", "'istio.io/waypoint-for':'all'",
                                         "'topology.istio.io/network':'n2'",
                                         "'topology.istio.io/network':'n1'"};

    return sw_arena_printf(
        a,
        "{'kind':'Gateway','metadata':{'namespace':'%s','name':'g%u','labels':{%s}},'spec':{"
        "'gatewayClassName':'%s','listeners':[{%s'name':'m','port':15008,'protocol':'HBONE','tls':{"
        "}}]},"
        "'status':{'addresses':[%s]}}",
        spaces[i % 2], i / 2 % 2, PICK(w, labels), PICK(w, classes), PICK(w, allowed),
        PICK(w, status));
}

static const char *make_service(struct world *w, struct sw_arena *a, unsigned i)
{
    static const char *const selectors[] = {"{}", "{'app':'x'}", "{'app':'y'}", "{'app':'z'}"};
    static const char *const targets[] = {"8080", "'web'", "'none'"};
    static const char *const types[] = {"ClusterIP", "ClusterIP", "ExternalName"};

    return sw_arena_printf(
        a,
        "{'kind':'Service',%s,'spec':{'type':'%s','clusterIP':'10.96.0.%u','selector':%s,'ports':[{"
        "'name':'http','port':%u,'targetPort':%s}]}}",
        meta(w, a, spaces[i % 2], sw_arena_printf(a, "s%u", i / 2 % 3), ""), PICK(w, types), i,
        PICK(w, selectors), 80 + draw(w, 2), PICK(w, targets));
}

static const char *make_entry(struct world *w, struct sw_arena *a, unsigned i)
{
    static const char *const hosts[] = {"'h.test'", "'h.test','s0.a.svc.cluster.local'",
                                        "'s0.a.svc.cluster.local'", "'i.test'"};
    static const char *const rest[] = {
        "'resolution':'DNS'", "'resolution':'STATIC','workloadSelector':{'labels':{'app':'x'}}",
        ("'resolution':'STATIC','endpoints':[{'address':'10.5.0.1','network':'n2'},{'address':"
         "'10.5.0.1','labels':{'istio.io/use-waypoint':'g0'}},{'address':'e.test'}]"),
        "'resolution':'STATIC','addresses':['10.7.0.0/24']", "'addresses':['bad']"};

    return sw_arena_printf(a,
                           "{'kind':'ServiceEntry',%s,'spec':{'hosts':[%s],'ports':[{'number':443,"
                           "'name':'tls','protocol':'TLS'}],%s}}",
                           meta(w, a, spaces[i % 2], sw_arena_printf(a, "e%u", i / 2 % 3), ""),
                           PICK(w, hosts), PICK(w, rest));
}

static const char *make_we(struct world *w, struct sw_arena *a, unsigned i)
{
    static const char *const rest[] = {"'address':'10.6.0.1'", "'address':'w.test','network':'n2'",
                                       "'address':'10.6.0.2','ports':{'http':9000},'weight':3",
                                       "'address':'unix:///x'"};

    return sw_arena_printf(a, "{'kind':'WorkloadEntry',%s,'spec':{%s}}",
                           meta(w, a, spaces[i % 2], sw_arena_printf(a, "w%u", i / 2 % 2), ""),
                           PICK(w, rest));
}

static const char *make_slice(struct world *w, struct sw_arena *a, unsigned i)
{
    static const char *const endpoints[] = {
        "", "{'addresses':['10.0.0.1'],'targetRef':{'kind':'Pod','name':'p0'}}",
        "{'addresses':['10.0.0.2'],'targetRef':{'kind':'Pod','name':'p1','uid':'u1'}}",
        "{'addresses':['192.168.0.1'],'conditions':{'ready':false}},{'addresses':['192.168.0.1']}"};

    return sw_arena_printf(a,
                           "{'kind':'EndpointSlice','metadata':{'namespace':'%s','name':'l%u',"
                           "'labels':{'kubernetes.io/service-name':'s%u'}},'addressType':'IPv4',"
                           "'ports':[{'name':'http','port':%u}],'endpoints':[%s]}",
                           spaces[i % 2], i / 2 % 3, draw(w, 3), 8080 + draw(w, 2),
                           PICK(w, endpoints));
}

static const char *make_pod(struct world *w, struct sw_arena *a, unsigned i)
{
    static const char *const phases[] = {"Running", "Running", "Running", "Failed", "Succeeded"};
    static const char *const ports[] = {"", "{'name':'web','containerPort':8081}"};
    static const char *const ips[] = {
        "'podIP':'10.0.0.1',", "'podIP':'10.0.0.2',", "",
        "'podIP':'10.0.0.3','conditions':[{'type':'Ready','status':'True'}],"};
    static const char *const annotations[] = {"", "'ambient.istio.io/redirection':'enabled'"};

    return sw_arena_printf(
        a,
        "{'kind':'Pod',%s,'spec':{'nodeName':'n%u','serviceAccountName':'%s','containers':[{"
        "'ports':[%s]}]},'status':{%s'phase':'%s'}}",
        meta(w, a, spaces[i % 2], sw_arena_printf(a, "p%u", i / 2), PICK(w, annotations)),
        draw(w, 4), PICK(w, apps), PICK(w, ports), PICK(w, ips), PICK(w, phases));
}

static const char *(*const makers[SW_MESH_KINDS])(struct world *w, struct sw_arena *a,
                                                  unsigned i) = {
    [SW_MESH_NAMESPACE] = make_ns,      [SW_MESH_NODE] = make_node,
    [SW_MESH_CLASS] = make_class,       [SW_MESH_GATEWAY] = make_gateway,
    [SW_MESH_SERVICE] = make_service,   [SW_MESH_SERVICE_ENTRY] = make_entry,
    [SW_MESH_WORKLOAD_ENTRY] = make_we, [SW_MESH_SLICE] = make_slice,
    [SW_MESH_POD] = make_pod,
};
/* Objects of the same name have the same slot. */
static const unsigned slots[SW_MESH_KINDS] = {3, 3, 2, 4, 6, 6, 4, 6, SLOTS};

/* ---- policies: a bit per namespace, and a label that counts ---- */

static struct sw_slice policies_of(void *arg, const struct sw_mesh_subject *of, struct sw_arena *a)
{
    const struct world *w = arg;
    struct sw_slice rest = of->labels;
    struct sw_mesh_label l;
    unsigned bit = sw_slice_eq_str(of->ns, "a") ? 1 : 2;
    const char *keys = "root/q";

    for (size_t i = 0; i < of->n_waypoints; i++)
        keys = sw_arena_printf(a, "%s\n%.*s", keys, SW_SLICE_ARG(of->waypoints[i]));
    while (mesh_labels_next(&rest, &l)) {
        if (w->policies & bit && sw_slice_eq_str(l.key, "app") && sw_slice_eq_str(l.value, "x"))
            keys = sw_arena_printf(a, "%s\n%.*s/p", keys, SW_SLICE_ARG(of->ns));
    }
    return sw_slice_str(keys);
}

/* ---- the test ---- */

static void remove_object(struct mesh_rig *r, struct sw_mesh_part *p, enum sw_mesh_kind kind,
                          const char *text)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_json *meta_of = sw_json_find(mesh_rig_json(&a, text), "metadata");
    struct sw_slice ns = sw_json_str(sw_json_find(meta_of, "namespace"));

    ns = ns.p ? ns : sw_slice("", 0);
    if (p)
        sw_mesh_networks_del(p, kind, ns, sw_json_str(sw_json_find(meta_of, "name")));
    else
        sw_mesh_index_del(r->ix, kind, ns, sw_json_str(sw_json_find(meta_of, "name")));
}

static void step(struct world *w, struct mesh_rig *r, struct sw_mesh_part *p)
{
    SW_ARENA_AUTO a = {0};
    enum sw_mesh_kind kind = (enum sw_mesh_kind)draw(w, SW_MESH_KINDS);
    unsigned slot = draw(w, slots[kind]);
    char **at = &w->objects[kind][slot];

    if (draw(w, 20) == 0) {
        w->policies ^= 1 + draw(w, 2);
        sw_mesh_index_policies_changed(r->ix, sw_slice("", 0));
        return;
    }
    if (*at && draw(w, 3) == 0) {
        remove_object(r, p, kind, *at);
        sw_free(*at);
        *at = NULL;
        return;
    }
    sw_free(*at);
    *at = sw_strdup(makers[kind](w, &a, slot));
    mesh_rig_set_in(r, p, *at);
}

/* All that is there, in an order of its own. */
static void fill(struct world *w, struct mesh_rig *r, struct sw_mesh_part *p)
{
    const char *all[SW_MESH_KINDS * SLOTS];
    size_t n = 0;

    for (size_t k = 0; k < SW_MESH_KINDS; k++) {
        for (size_t i = 0; i < SLOTS; i++) {
            if (w->objects[k][i])
                all[n++] = w->objects[k][i];
        }
    }
    for (size_t i = n; i > 1; i--) {
        size_t j = draw(w, (uint32_t)i);
        const char *x = all[i - 1];

        all[i - 1] = all[j];
        all[j] = x;
    }
    for (size_t i = 0; i < n; i++)
        mesh_rig_set_in(r, p, all[i]);
}

static void compare(const struct mesh_rig *have, const struct mesh_rig *want, uint64_t seed)
{
    SW_ARENA_AUTO a = {0};

    SW_MAP_FOREACH (it, &want->have) {
        const struct mesh_got *w = it->value;
        const struct mesh_got *h = mesh_rig_get(have, w->name);

        if (!h || h->n != w->n || memcmp(h->value, w->value, h->n) != 0 ||
            strcmp(h->extra, w->extra) != 0)
            fail_msg("seed %llu: '%s' is\n%s\n%s\nand should be\n%s\n%s", (unsigned long long)seed,
                     w->name, mesh_rig_text(have, &a, w->name), h ? h->extra : "",
                     mesh_rig_text(want, &a, w->name), w->extra);
    }
    SW_MAP_FOREACH (it, &have->have) {
        const struct mesh_got *h = it->value;

        if (!mesh_rig_get(want, h->name))
            fail_msg("seed %llu: '%s' should be gone:\n%s", (unsigned long long)seed, h->name,
                     mesh_rig_text(have, &a, h->name));
    }
}

static void world_done(struct world *w)
{
    for (size_t k = 0; k < SW_MESH_KINDS; k++) {
        for (size_t i = 0; i < SLOTS; i++)
            sw_free(w->objects[k][i]);
    }
}

static size_t run_seed(uint64_t seed, enum sw_mesh_visibility visibility)
{
    struct world w = {.seed = seed};
    struct sw_slice x = SW_SLICE_LIT("x");
    struct sw_requirement team_x = {.key = SW_SLICE_LIT("team"), .values = &x, .n = 1};
    struct sw_requirement team_any = {.key = SW_SLICE_LIT("team"), .op = SW_SEL_EXISTS};
    const struct sw_mesh_visibility_rule rules[] = {
        {.namespaces = {.p = &team_x, .n = 1}, .visibility = SW_MESH_VISIBILITY_NONE},
        {.namespaces = {.p = &team_any, .n = 1}, .visibility = SW_MESH_VISIBILITY_NAMESPACE},
    };
    const struct sw_mesh_conf conf = {.policies = policies_of,
                                      .policies_arg = &w,
                                      .visibility = visibility,
                                      .visibilities = rules,
                                      .n_visibilities = seed % 2 ? SW_ARRAY_LEN(rules) : 0};
    struct mesh_rig r;
    size_t most = 0;

    mesh_rig_init(&r, &conf);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct mesh_rig fresh;

        for (unsigned i = 1 + draw(&w, STEPS); i > 0; i--)
            step(&w, &r, NULL);
        (void)mesh_rig_flush(&r);
        mesh_rig_init(&fresh, &conf);
        fill(&w, &fresh, NULL);
        (void)mesh_rig_flush(&fresh);
        compare(&r, &fresh, seed);
        most = sw_max(most, fresh.have.n);
        mesh_rig_done(&fresh);
    }
    mesh_rig_done(&r);
    world_done(&w);
    return most;
}

/* ---- two clusters ---- */

static struct sw_mesh_part *add_part(struct mesh_rig *r)
{
    struct sw_mesh_part *p = sw_mesh_networks_add(r->nets, SW_SLICE_LIT("c2"));

    assert_non_null(p);
    sw_mesh_networks_ready(p);
    return p;
}

/* away: NULL while there is no other cluster. */
static size_t compare_joined(struct world *home, struct world *away, const struct mesh_rig *have,
                             const struct sw_mesh_conf *conf)
{
    struct mesh_rig fresh;
    size_t split = 0;

    mesh_rig_init(&fresh, conf);
    mesh_rig_join(&fresh);
    if (away && draw(home, 2))
        fill(away, &fresh, add_part(&fresh));
    fill(home, &fresh, NULL);
    if (away && sw_mesh_networks_stats(fresh.nets).clusters == 0)
        fill(away, &fresh, add_part(&fresh));
    (void)mesh_rig_flush(&fresh);
    compare(have, &fresh, home->seed);
    SW_MAP_FOREACH (it, &fresh.have)
        split += strstr(((const struct mesh_got *)it->value)->name, "/SplitHorizon") != NULL;
    mesh_rig_done(&fresh);
    return split;
}

static size_t run_joined(uint64_t seed)
{
    struct world home = {.seed = seed};
    struct world away = {.seed = seed + 1000000};
    struct sw_requirement x[] = {
        {.key = SW_SLICE_LIT("app"), .values = &(struct sw_slice){"x", 1}, .n = 1}};
    struct sw_requirement not_y[] = {{.key = SW_SLICE_LIT("team"),
                                      .op = SW_SEL_NE,
                                      .values = &(struct sw_slice){"y", 1},
                                      .n = 1}};
    const struct sw_mesh_scope scope = {.services = {.p = x, .n = 1},
                                        .namespaces = {.p = not_y, .n = 1}};
    const struct sw_mesh_conf conf = {
        .policies = policies_of, .policies_arg = &home, .scopes = &scope, .n_scopes = 1};
    struct sw_mesh_part *p = NULL;
    struct mesh_rig r;
    size_t split = 0;

    mesh_rig_init(&r, &conf);
    mesh_rig_join(&r);
    for (unsigned round = 0; round < ROUNDS; round++) {
        if (p && draw(&home, 10) == 0) {
            sw_mesh_networks_remove(p);
            p = NULL;
        } else if (!p && draw(&home, 2)) {
            p = add_part(&r);
            fill(&away, &r, p);
        }
        for (unsigned i = 1 + draw(&home, STEPS); i > 0; i--) {
            bool here = !p || draw(&home, 2);

            step(here ? &home : &away, &r, here ? NULL : p);
        }
        (void)mesh_rig_flush(&r);
        split += compare_joined(&home, p ? &away : NULL, &r, &conf);
    }
    mesh_rig_done(&r);
    world_done(&home);
    world_done(&away);
    return split;
}

static void test_changes_give_what_a_whole_build_gives(void **state)
{
    const char *more = getenv("SW_MESH_SEEDS");
    uint64_t seeds = more ? strtoull(more, NULL, 10) : SEEDS;
    size_t most = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        most = sw_max(most, run_seed(seed, seed % 3 ? SW_MESH_VISIBILITY_UNSET
                                                    : SW_MESH_VISIBILITY_NAMESPACE));
    assert_true(most > 12); /* the world was not empty */
}

static void test_clusters_give_what_a_whole_build_gives(void **state)
{
    const char *more = getenv("SW_MESH_SEEDS");
    uint64_t seeds = more ? strtoull(more, NULL, 10) : SEEDS;
    size_t split = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        split += run_joined(seed);
    print_message("# %zu split-horizon workloads\n", split);
    assert_true(split > 30); /* networks met */
}

static void test_an_index_emptied_has_removed_everything(void **state)
{
    struct world w = {.seed = 99};
    struct mesh_rig r;

    (void)state;
    mesh_rig_init(&r, NULL);
    for (unsigned i = 0; i < 500; i++)
        step(&w, &r, NULL);
    (void)mesh_rig_flush(&r);
    assert_true(r.have.n > 0);
    for (size_t k = 0; k < SW_MESH_KINDS; k++) {
        for (size_t i = 0; i < SLOTS; i++) {
            if (w.objects[k][i])
                remove_object(&r, NULL, (enum sw_mesh_kind)k, w.objects[k][i]);
            sw_free(w.objects[k][i]);
        }
    }
    (void)mesh_rig_flush(&r);
    assert_int_equal(r.have.n, 0);
    assert_int_equal(sw_mesh_index_stats(r.ix).texts, 0);
    assert_int_equal(sw_mesh_index_stats(r.ix).groups, 0);
    mesh_rig_done(&r);
}

/* Processor time to set a Service and a slice n times, all in one namespace, and to set them again.
 */
static uint64_t time_services(unsigned n)
{
    struct timespec t[2];
    struct mesh_rig r;
    SW_ARENA_AUTO a = {0};

    mesh_rig_init(&r, NULL);
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t[0]), 0);
    for (unsigned i = 0; i < 2 * n; i++)
        mesh_rig_set(&r, sw_arena_printf(
                             &a,
                             "{'kind':'Service','metadata':{'namespace':'d','name':'s%u'},'spec':{"
                             "'clusterIP':'10.%u.%u.1','ports':[{'port':%u}]}},{'kind':"
                             "'EndpointSlice','metadata':{'namespace':'d','name':'l%u','labels':{"
                             "'kubernetes.io/service-name':'s%u'}},'addressType':'IPv4','ports':[{"
                             "'port':80}],'endpoints':[{'addresses':['1.2.3.4']}]}",
                             i % n, i % n / 256, i % 256, 80 + i / n, i % n, i % n));
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t[1]), 0);
    assert_int_equal(mesh_rig_flush(&r), 2 * n);
    mesh_rig_done(&r);
    return (uint64_t)((t[1].tv_sec - t[0].tv_sec) * 1000000 + (t[1].tv_nsec - t[0].tv_nsec) / 1000);
}

/* Ten times the Services cost about eleven times the processor time; a walk over all cost 526. */
static void test_setting_is_linear_in_services_of_a_namespace(void **state)
{
    static const unsigned sizes[] = {1000, 10000};
    uint64_t took[SW_ARRAY_LEN(sizes)];

    (void)state;
    for (size_t k = 0; k < SW_ARRAY_LEN(sizes); k++) {
        took[k] = time_services(sizes[k]);
        print_message("# %u Services: %llu us\n", sizes[k], (unsigned long long)took[k]);
    }
    assert_true(took[1] < took[0] * 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes_give_what_a_whole_build_gives),
        cmocka_unit_test(test_clusters_give_what_a_whole_build_gives),
        cmocka_unit_test(test_an_index_emptied_has_removed_everything),
        cmocka_unit_test(test_setting_is_linear_in_services_of_a_namespace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
