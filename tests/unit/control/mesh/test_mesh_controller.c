/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mesh's controller against a small API: when changes are published. Time is the test's; what
 * a flush costs, too.
 */
#include "base/log.h"
#include "base/time.h"
#include "control/mesh/controller.h"
#include "proto/types.h"
#include "xds/cache.h"
#include "xds/table.h"

#include "../mini_api.h"

/* Looking at the clock costs so much: a flush, which looks when it begins and when it ends. */
static uint64_t cost_ns;
static uint64_t spent_ns;

uint64_t __wrap_sw_now_ns(void);

uint64_t __wrap_sw_now_ns(void)
{
    spent_ns += cost_ns;
    return SW_NS_PER_S + spent_ns;
}

struct world {
    struct mini m;
    struct sw_xds_cache *cache;
    struct sw_mesh_controller *c;
};

#define POD "/api/v1/namespaces/app/pods/p"
#define UID "Kubernetes//Pod/app/p"

static int set_up(void **state)
{
    struct world *w = SW_NEW(struct world);

    assert_int_equal(sw_log_filter(SW_SLICE_LIT("off"), true, NULL), SW_OK);
    cost_ns = 0;
    mini_open(&w->m);
    w->cache = sw_xds_cache_new();
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    sw_mesh_controller_free(w->c);
    mini_close(&w->m);
    sw_xds_cache_free(w->cache);
    sw_free(w);
    return 0;
}

/* The pod, with an address that tells one version of it from another. */
static void put_pod(struct world *w, unsigned n)
{
    char json[512];

    (void)snprintf(json, sizeof(json),
                   "{\"metadata\":{\"labels\":{\"v\":\"%u\"}},\"spec\":{\"nodeName\":\"n\"},"
                   "\"status\":{\"phase\":\"Running\",\"podIP\":\"10.0.%u.%u\","
                   "\"podIPs\":[{\"ip\":\"10.0.%u.%u\"}],"
                   "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}",
                   n, n / 250, n % 250 + 1, n / 250, n % 250 + 1);
    mini_put(&w->m, POD, json);
}

/* True: the nodes can have version n of the pod. */
static bool published(const struct world *w, unsigned n)
{
    const struct xds_table *t = sw_xds_cache_table(w->cache, SW_SLICE_LIT(SW_TYPE_ADDRESS));
    const struct xds_rec *r = t ? xds_table_get(t, SW_SLICE_LIT(UID)) : NULL;
    const char ip[4] = {10, 0, (char)(n / 250), (char)(n % 250 + 1)};

    return r && memmem(r->res->value.p, r->res->value.n, ip, sizeof(ip));
}

static void start(struct world *w)
{
    const struct sw_mesh_controller_opts o = {
        .conf = {.mesh = {.cluster = SW_SLICE_LIT("Kubernetes"),
                          .trust_domain = SW_SLICE_LIT("cluster.local"),
                          .domain = SW_SLICE_LIT("cluster.local"),
                          .root_ns = SW_SLICE_LIT("istio-system")},
                 .policy = {.root_ns = SW_SLICE_LIT("istio-system"),
                            .trust_domain = SW_SLICE_LIT("cluster.local")}},
        .cache = w->cache};

    mini_put(&w->m, "/api/v1/namespaces/app", "{}");
    put_pod(w, 0);
    w->c = sw_mesh_controller_new(w->m.b.client, &o, NULL);
    assert_non_null(w->c);
    sw_mesh_controller_start(w->c);
    bench_until(&w->m.b, published(w, 0));
    test_now += 10 * SW_NS_PER_S;
    bench_turns(&w->m.b, 50);
}

/* Within 10 ms, which are 10,000 turns of the loop: a timer needs a millisecond to be over. */
static void at_once(struct world *w, unsigned n)
{
    for (int i = 0; i < 10000 && !published(w, n); i++) {
        test_now += SW_NS_PER_US;
        sw_loop_turn(w->m.b.loop, i > 2000);
    }
    assert_true(published(w, n));
}

static void a_change_is_published_at_once(void **state)
{
    struct world *w = *state;
    uint64_t before;

    start(w);
    before = sw_xds_cache_generation(w->cache);
    for (unsigned n = 1; n <= 20; n++) {
        put_pod(w, n);
        at_once(w, n);
    }
    assert_int_equal(sw_xds_cache_generation(w->cache), before + 20);
    /* Also when flushes are dear, after a while without one. */
    cost_ns = 100 * SW_NS_PER_MS;
    for (unsigned n = 21; n <= 25; n++) {
        put_pod(w, n);
        at_once(w, n);
        test_now += SW_NS_PER_S;
    }
    assert_int_equal(sw_xds_cache_generation(w->cache), before + 25);
}

/* A flush takes 10 ms, so another follows 20 ms later at the earliest. */
static void changes_gather_under_load(void **state)
{
    enum { CHANGES = 500, COST_MS = 10 };
    struct world *w = *state;
    uint64_t before;

    start(w);
    before = sw_xds_cache_generation(w->cache);
    cost_ns = COST_MS * SW_NS_PER_MS;
    for (unsigned n = 1; n <= CHANGES; n++) {
        put_pod(w, n);
        bench_turns(&w->m.b, 10);
        test_now += SW_NS_PER_MS;
    }
    bench_until(&w->m.b, published(w, CHANGES));
    assert_in_range(sw_xds_cache_generation(w->cache) - before, 1, CHANGES / (2 * COST_MS) + 3);
}

static void a_change_waits_a_second_at_most(void **state)
{
    struct world *w = *state;

    start(w);
    cost_ns = 3600 * SW_NS_PER_S;
    put_pod(w, 1);
    at_once(w, 1);
    put_pod(w, 2);
    test_now += 980 * SW_NS_PER_MS;
    for (int i = 0; i < 300; i++)
        sw_loop_turn(w->m.b.loop, i > 250);
    assert_false(published(w, 2));
    test_now += 20 * SW_NS_PER_MS;
    at_once(w, 2);
}

#define MESH(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MESH(a_change_is_published_at_once),
        MESH(changes_gather_under_load),
        MESH(a_change_waits_a_second_at_most),
    };

    return cmocka_run_group_tests_name("mesh controller", tests, NULL, NULL);
}
