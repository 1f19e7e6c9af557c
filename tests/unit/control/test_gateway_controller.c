/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway controller against a small API: objects in, an xDS cache filled, statuses written. */
#include "base/log.h"
#include "control/gateway/controller.h"
#include "io/resolver.h"
#include "xds/cache.h"

#include "mini_api.h"

struct world {
    struct mini m;
    struct sw_xds_cache *cache;
    struct sw_gateway_controller *g;
    struct sw_arena arena;
    struct sw_gateway_controller_opts o;
};

#define GWAPI     "/apis/gateway.networking.k8s.io/v1"
#define FINALIZER "gateway-exists-finalizer.gateway.networking.k8s.io"
#define ROUTE     GWAPI "/namespaces/app/httproutes/r"
#define SLICE     "/apis/discovery.k8s.io/v1/namespaces/app/endpointslices/web-1"

static int set_up(void **state)
{
    struct world *w = SW_NEW(struct world);
    struct sw_model_address *addrs;

    assert_int_equal(sw_log_filter(SW_SLICE_LIT("off"), true, NULL), SW_OK);
    mini_open(&w->m);
    w->cache = sw_xds_cache_new();
    assert_int_equal(sw_gateway_addrs_parse(&w->arena, SW_SLICE_LIT("127.0.0.1"), &addrs,
                                            &w->o.conf.n_addrs, NULL),
                     SW_OK);
    w->o.conf.addrs = addrs;
    w->o.conf.port_offset = SW_GATEWAY_PORT_OFFSET;
    w->o.cache = w->cache;
    mini_put(&w->m, GWAPI "/gatewayclasses/sw",
             "{\"metadata\":{\"generation\":1},\"spec\":{\"controllerName\":\"spanwire.dev/"
             "gateway\"}}");
    mini_put(&w->m, GWAPI "/namespaces/app/gateways/gw",
             "{\"metadata\":{\"generation\":1},\"spec\":{\"gatewayClassName\":\"sw\",\"listeners\":"
             "[{\"name\":\"h\",\"port\":80,\"protocol\":\"HTTP\"}]}}");
    mini_put(&w->m, "/api/v1/namespaces/app/services/web",
             "{\"spec\":{\"ports\":[{\"port\":80}]}}");
    mini_put(&w->m, ROUTE,
             "{\"metadata\":{\"generation\":1},\"spec\":{\"parentRefs\":[{\"name\":\"gw\"}],"
             "\"rules\":[{\"backendRefs\":[{\"name\":\"web\",\"port\":80}]}]}}");
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    sw_gateway_controller_free(w->g);
    mini_close(&w->m);
    sw_xds_cache_free(w->cache);
    sw_arena_clear(&w->arena);
    sw_free(w);
    return 0;
}

static void start(struct world *w)
{
    w->g = sw_gateway_controller_new(w->m.b.client, &w->o, NULL);
    assert_non_null(w->g);
    sw_gateway_controller_start(w->g);
    bench_until(&w->m.b, sw_gateway_controller_ready(w->g) && sw_gateway_controller_idle(w->g));
}

static size_t count(const struct world *w, const char *type)
{
    return sw_xds_cache_get(w->cache, sw_slice_str(type))->n;
}

static uint64_t builds(const struct world *w)
{
    return sw_control_stats(sw_gateway_controller_main(w->g)).builds;
}

static void run(struct world *w)
{
    start(w);
    assert_int_equal(count(w, SW_XDS_LISTENER), 1);
    assert_int_equal(count(w, SW_XDS_ROUTE), 1);
    assert_int_equal(count(w, SW_XDS_CLUSTER), 1);
    assert_int_equal(count(w, SW_XDS_ENDPOINT), 1);
    assert_non_null(strstr(mini_get(&w->m, ROUTE), "\"reason\":\"Accepted\""));
    assert_non_null(strstr(mini_get(&w->m, ROUTE), "lastTransitionTime"));
    assert_non_null(strstr(mini_get(&w->m, GWAPI "/namespaces/app/gateways/gw"),
                           "port 80 is served on port 8080"));
    assert_non_null(strstr(mini_get(&w->m, GWAPI "/gatewayclasses/sw"), "supportedFeatures"));
}

static void objects_become_resources_and_statuses(void **state)
{
    run(*state);
}

static void the_same_on_threads(void **state)
{
    struct world *w = *state;

    w->o.threaded = true;
    run(w);
}

/* Writing statuses must not make the controller build again, and again. */
static void its_own_statuses_wake_nobody(void **state)
{
    struct world *w = *state;
    int writes;

    start(w);
    writes = w->m.writes;
    bench_turns(&w->m.b, 200);
    assert_int_equal(builds(w), 1);
    assert_int_equal(w->m.writes, writes);
    /* Three statuses and the class's finalizer; the two writes to the class may cross. */
    assert_in_range(writes, 4, 5);
}

static void a_class_is_held_while_it_is_used(void **state)
{
    struct world *w = *state;

    start(w);
    bench_until(&w->m.b, strstr(mini_get(&w->m, GWAPI "/gatewayclasses/sw"), FINALIZER) &&
                             sw_gateway_controller_idle(w->g));
    assert_true(mini_delete(&w->m, GWAPI "/namespaces/app/gateways/gw"));
    bench_until(&w->m.b, !strstr(mini_get(&w->m, GWAPI "/gatewayclasses/sw"), FINALIZER) &&
                             sw_gateway_controller_idle(w->g));
}

static void a_status_somebody_spoilt_is_put_right(void **state)
{
    struct world *w = *state;

    start(w);
    mini_put(&w->m, ROUTE,
             "{\"metadata\":{\"generation\":1},\"spec\":{\"parentRefs\":[{\"name\":\"gw\"}],"
             "\"rules\":[{\"backendRefs\":[{\"name\":\"web\",\"port\":80}]}]},\"status\":{"
             "\"parents\":[]}}");
    bench_until(&w->m.b, strstr(mini_get(&w->m, ROUTE), "\"reason\":\"Accepted\"") &&
                             sw_gateway_controller_idle(w->g));
}

static void endpoints_change_nothing_else(void **state)
{
    struct world *w = *state;
    const struct sw_xds_snap *routes;
    const struct sw_xds_snap *before;

    start(w);
    routes = sw_xds_cache_get(w->cache, SW_SLICE_LIT(SW_XDS_ROUTE));
    before = sw_xds_cache_get(w->cache, SW_SLICE_LIT(SW_XDS_ENDPOINT));
    mini_put(
        &w->m, SLICE,
        "{\"metadata\":{\"labels\":{\"kubernetes.io/service-name\":\"web\"}},\"addressType\":"
        "\"IPv4\",\"ports\":[{\"port\":8080}],\"endpoints\":[{\"addresses\":[\"10.0.0.1\"]}]}");
    bench_until(&w->m.b, sw_xds_cache_get(w->cache, SW_SLICE_LIT(SW_XDS_ENDPOINT)) != before);
    assert_ptr_equal(sw_xds_cache_get(w->cache, SW_SLICE_LIT(SW_XDS_ROUTE)), routes);
    assert_int_equal(builds(w), 1);
}

static void a_deleted_route_is_gone(void **state)
{
    struct world *w = *state;

    start(w);
    assert_true(mini_delete(&w->m, ROUTE));
    bench_until(&w->m.b, count(w, SW_XDS_CLUSTER) == 0 && count(w, SW_XDS_ENDPOINT) == 0 &&
                             sw_gateway_controller_idle(w->g));
    assert_int_equal(count(w, SW_XDS_LISTENER), 1);
    assert_non_null(
        strstr(mini_get(&w->m, GWAPI "/namespaces/app/gateways/gw"), "\"attachedRoutes\":0"));
}

/* ---- what goes out together ---- */

static void put_service(struct world *w, int i)
{
    SW_ARENA_AUTO a = {0};

    mini_put(&w->m, sw_arena_printf(&a, "/api/v1/namespaces/app/services/new-%d", i),
             "{\"spec\":{\"ports\":[{\"port\":80}]}}");
}

static void put_route_to(struct world *w, int i)
{
    SW_ARENA_AUTO a = {0};

    mini_put(&w->m, ROUTE,
             sw_arena_printf(&a,
                             "{\"metadata\":{\"generation\":%d},\"spec\":{\"parentRefs\":[{"
                             "\"name\":\"gw\"}],\"rules\":[{\"backendRefs\":[{\"name\":\"new-%d\","
                             "\"port\":80}]}]}}",
                             i + 2, i));
}

/* Every cluster has its set; the names of clusters begin with those of sets. */
static bool all_have_endpoints(const struct world *w)
{
    const struct sw_xds_snap *clusters = sw_xds_cache_get(w->cache, SW_SLICE_LIT(SW_XDS_CLUSTER));
    const struct sw_xds_snap *sets = sw_xds_cache_get(w->cache, SW_SLICE_LIT(SW_XDS_ENDPOINT));

    for (size_t i = 0; i < clusters->n; i++) {
        struct sw_slice name = clusters->res[i]->name;

        name.n = (size_t)sw_slice_rfind(name, '/');
        if (!sw_xds_snap_get(sets, name))
            return false;
    }
    return true;
}

static bool served_by(const struct world *w, const char *set)
{
    const struct sw_xds_snap *s = sw_xds_cache_get(w->cache, SW_SLICE_LIT(SW_XDS_CLUSTER));

    return s->n == 1 && sw_slice_has_prefix(s->res[0]->name, sw_slice_str(set));
}

static bool served_in_order(const struct world *w, const char *set)
{
    assert_true(all_have_endpoints(w));
    return served_by(w, set);
}

/* Or data planes would hear that it has none, and answer 503 until they come. */
static void a_new_backend_comes_with_its_endpoints(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 2; i++)
        put_service(w, i);
    start(w);
    put_route_to(w, 0);
    bench_until(&w->m.b, served_in_order(w, "app/new-0/80"));
    put_route_to(w, 1);
    bench_until(&w->m.b, served_in_order(w, "app/new-1/80"));
    put_route_to(w, 0);
    bench_until(&w->m.b, served_in_order(w, "app/new-0/80") && sw_gateway_controller_idle(w->g));
    assert_int_equal(count(w, SW_XDS_ENDPOINT), 1);
}

/* Changes come faster than endpoints are built: none is lost, none waits for the last. */
static void changes_that_come_meanwhile_wait_their_turn(void **state)
{
    struct world *w = *state;

    w->o.threaded = true;
    for (int i = 0; i < 50; i++)
        put_service(w, i);
    start(w);
    for (int i = 0; i < 50; i++) {
        put_route_to(w, i);
        for (int k = 0; k < 3; k++) {
            sw_loop_turn(w->m.b.loop, 1);
            assert_true(all_have_endpoints(w));
        }
    }
    bench_until(&w->m.b, served_by(w, "app/new-49/80") && sw_gateway_controller_idle(w->g));
    assert_true(all_have_endpoints(w));
    assert_int_equal(count(w, SW_XDS_ENDPOINT), 1);
}

/* A backend that goes and comes back while endpoints are built is there at the end. */
static void a_backend_that_comes_back_meanwhile_is_served(void **state)
{
    struct world *w = *state;

    w->o.threaded = true;
    put_service(w, 0);
    for (int i = 0; i < 1000; i++) { /* endpoints take longer than routes */
        SW_ARENA_AUTO a = {0};

        mini_put(&w->m, sw_arena_printf(&a, "%s-%d", SLICE, i),
                 "{\"metadata\":{\"labels\":{\"kubernetes.io/service-name\":\"new-0\"}},"
                 "\"addressType\":\"IPv4\",\"ports\":[{\"port\":8080}],\"endpoints\":["
                 "{\"addresses\":[\"10.0.0.1\"]}]}");
    }
    start(w);
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 3; k++) {
            uint64_t before = builds(w);

            if (k == 1)
                assert_true(mini_delete(&w->m, ROUTE));
            else
                put_route_to(w, 0);
            bench_until(&w->m.b, builds(w) > before);
        }
        bench_until(&w->m.b, sw_gateway_controller_idle(w->g));
        assert_true(served_by(w, "app/new-0/80"));
        assert_true(mini_delete(&w->m, ROUTE));
        bench_until(&w->m.b, count(w, SW_XDS_CLUSTER) == 0 && sw_gateway_controller_idle(w->g));
    }
}

/* ---- host names ---- */

#define NAMED_SET "resolved/tcp/origin.test/8080"

static struct sw_resolve *asked;

static void ask(struct sw_resolve *r)
{
    assert_null(asked);
    asked = r;
}

static void found(const char *ip)
{
    struct sw_resolve *r = asked;

    asked = NULL;
    r->rc = ip ? SW_OK : SW_ENOENT;
    r->unknown = !ip;
    r->n = ip != NULL;
    if (ip)
        assert_int_equal(sw_ip_parse(sw_slice_str(ip), &r->ips[0], NULL), SW_OK);
    r->cb(r);
}

static void put_named(struct world *w)
{
    mini_put(&w->m, "/apis/discovery.k8s.io/v1/namespaces/app/endpointslices/out",
             "{\"metadata\":{},\"addressType\":\"FQDN\",\"ports\":[{\"name\":\"p\",\"port\":8080,"
             "\"appProtocol\":\"http\"}],\"endpoints\":[{\"addresses\":[\"origin.test\"]}]}");
    mini_put(&w->m, ROUTE,
             "{\"metadata\":{\"generation\":2},\"spec\":{\"parentRefs\":[{\"name\":\"gw\"}],"
             "\"rules\":[{\"backendRefs\":[{\"group\":\"discovery.k8s.io\",\"kind\":"
             "\"EndpointSlice\",\"name\":\"out\",\"port\":8080}]}]}}");
}

static const struct sw_xds_res *named_set(const struct world *w)
{
    return sw_xds_snap_get(sw_xds_cache_get(w->cache, SW_SLICE_LIT(SW_XDS_ENDPOINT)),
                           SW_SLICE_LIT(NAMED_SET));
}

static bool named_has(const struct world *w, const char *text)
{
    const struct sw_xds_res *r = named_set(w);

    return r && memmem(r->value.p, r->value.n, text, strlen(text));
}

/* Whoever hears of the cluster finds its addresses; a new answer builds nothing. */
static void a_name_is_served_by_its_addresses(void **state)
{
    struct world *w = *state;
    const struct sw_xds_snap *clusters;
    uint64_t before;

    w->o.ask = ask;
    start(w);
    sw_gateway_controller_clients(w->g, SW_LOOKUPS_ON, NULL, 0);
    put_named(w);
    bench_until(&w->m.b, asked != NULL);
    assert_string_equal(asked->name, "origin.test");
    for (int i = 0; i < 20; i++) {
        bench_turns(&w->m.b, 1);
        assert_true(named_set(w) || !served_by(w, "dns/origin.test/8080"));
    }
    found("203.0.113.7");
    bench_until(&w->m.b, served_by(w, "dns/origin.test/8080"));
    assert_true(named_has(w, "203.0.113.7"));
    assert_true(named_has(w, "origin.test"));
    bench_until(&w->m.b, sw_gateway_controller_idle(w->g));
    before = builds(w) + sw_control_stats(sw_gateway_controller_endpoints(w->g)).builds;
    clusters = sw_xds_cache_get(w->cache, SW_SLICE_LIT(SW_XDS_CLUSTER));
    sw_gateway_controller_clients(w->g, SW_LOOKUPS_OFF, NULL, 0);
    sw_gateway_controller_clients(w->g, SW_LOOKUPS_ON, NULL, 0); /* asks anew */
    found("127.0.0.1");
    bench_until(&w->m.b, !named_has(w, "203.0.113.7"));
    assert_non_null(named_set(w));
    assert_false(named_has(w, "127.0.0.1"));
    assert_ptr_equal(sw_xds_cache_get(w->cache, SW_SLICE_LIT(SW_XDS_CLUSTER)), clusters);
    assert_int_equal(builds(w) + sw_control_stats(sw_gateway_controller_endpoints(w->g)).builds,
                     before);
    put_service(w, 0);
    put_route_to(w, 0);
    bench_until(&w->m.b, served_by(w, "app/new-0/80") && !named_set(w));
}

/* Half a second of somebody's name is all that others wait. */
static void a_name_without_an_answer_holds_up_nobody(void **state)
{
    struct world *w = *state;

    w->o.ask = ask;
    start(w);
    sw_gateway_controller_clients(w->g, SW_LOOKUPS_ON, NULL, 0);
    put_named(w);
    bench_until(&w->m.b, served_by(w, "dns/origin.test/8080"));
    assert_non_null(named_set(w));
    assert_non_null(asked);
    found(NULL);
}

static void names_are_left_to_clients_that_want_it_so(void **state)
{
    struct world *w = *state;

    w->o.ask = ask;
    w->o.xds.clients_resolve = true;
    start(w);
    sw_gateway_controller_clients(w->g, SW_LOOKUPS_ON, NULL, 0);
    put_named(w);
    bench_until(&w->m.b, served_by(w, "dns/origin.test/8080") && sw_gateway_controller_idle(w->g));
    assert_null(asked);
    assert_null(named_set(w));
}

/* ---- how much is written ---- */

enum { MANY = 2000 };

static void put_gateway(struct world *w, const char *more, unsigned generation)
{
    SW_ARENA_AUTO a = {0};

    mini_put(&w->m, GWAPI "/namespaces/app/gateways/gw",
             sw_arena_printf(&a,
                             "{\"metadata\":{\"generation\":%u},\"spec\":{\"gatewayClassName\":"
                             "\"sw\",\"listeners\":[{\"name\":\"h\",\"port\":80,\"protocol\":"
                             "\"HTTP\"%s}]}}",
                             generation, more));
}

static void put_many(struct world *w)
{
    for (int i = 0; i < MANY; i++) {
        SW_ARENA_AUTO a = {0};

        mini_put(&w->m, sw_arena_printf(&a, GWAPI "/namespaces/app/httproutes/many-%d", i),
                 sw_arena_printf(&a,
                                 "{\"metadata\":{\"generation\":1},\"spec\":{\"parentRefs\":"
                                 "[{\"name\":\"gw\"}],\"hostnames\":[\"%s.example\"],\"rules\":"
                                 "[{\"backendRefs\":[{\"name\":\"web\",\"port\":80}]}]}}",
                                 i % 2 ? "odd" : "even"));
    }
}

static void settle(struct world *w)
{
    bench_until(&w->m.b, sw_gateway_controller_idle(w->g));
    bench_turns(&w->m.b, 200);
    bench_until(&w->m.b, sw_gateway_controller_idle(w->g));
}

/* A Gateway has many routes: a change of it is theirs only where it says something new of them. */
static void only_statuses_that_change_are_written(void **state)
{
    struct world *w = *state;
    int writes;

    put_many(w);
    start(w);
    settle(w);
    /* Each once; the class's status and finalizer may cross. */
    assert_in_range(w->m.writes, MANY + 4, MANY + 5);

    writes = w->m.writes;
    put_gateway(w, "", 2);
    bench_until(&w->m.b, strstr(mini_get(&w->m, GWAPI "/namespaces/app/gateways/gw"),
                                "\"observedGeneration\":2"));
    settle(w);
    assert_int_equal(w->m.writes - writes, 1);

    writes = w->m.writes;
    put_gateway(w, ",\"hostname\":\"even.example\"", 3);
    bench_until(&w->m.b, strstr(mini_get(&w->m, GWAPI "/namespaces/app/httproutes/many-1"),
                                "NoMatchingListenerHostname"));
    settle(w);
    assert_int_equal(w->m.writes - writes, 1 + MANY / 2);
    assert_null(strstr(mini_get(&w->m, GWAPI "/namespaces/app/httproutes/many-0"),
                       "NoMatchingListenerHostname"));
}

/* Somebody writes to the objects meanwhile: what was built on an older state is written anew. */
static void conflicts_are_tried_again(void **state)
{
    struct world *w = *state;

    w->m.conflicts = 3;
    start(w);
    settle(w);
    assert_int_equal(w->m.conflicts, 0);
    assert_in_range(sw_control_stats(sw_gateway_controller_main(w->g)).conflicts, 1, 3);
    assert_int_equal(sw_control_stats(sw_gateway_controller_main(w->g)).failures, 0);
    assert_non_null(strstr(mini_get(&w->m, ROUTE), "\"reason\":\"Accepted\""));
    assert_non_null(strstr(mini_get(&w->m, GWAPI "/gatewayclasses/sw"), "supportedFeatures"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(objects_become_resources_and_statuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_same_on_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_own_statuses_wake_nobody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_class_is_held_while_it_is_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_status_somebody_spoilt_is_put_right, set_up, tear_down),
        cmocka_unit_test_setup_teardown(endpoints_change_nothing_else, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_deleted_route_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_backend_comes_with_its_endpoints, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_backend_that_comes_back_meanwhile_is_served, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(changes_that_come_meanwhile_wait_their_turn, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_name_is_served_by_its_addresses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_without_an_answer_holds_up_nobody, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(names_are_left_to_clients_that_want_it_so, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(only_statuses_that_change_are_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(conflicts_are_tried_again, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("gateway_controller", tests, NULL, NULL);
}
