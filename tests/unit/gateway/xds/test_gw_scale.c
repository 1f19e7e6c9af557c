/* SPDX-License-Identifier: Apache-2.0 */
/* Many resources, and resources nobody meant: costs stay small, and what was in force stays. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"

#include "gateway/config/config.h"
#include "gateway/xds/store.h"
#include "gw_help.h"

enum { CLUSTERS = 10000, ROUTES = 10000, ROUNDS = 4000 };

static void cluster_json(char *out, size_t cap, unsigned i, unsigned port)
{
    (void)snprintf(
        out, cap,
        "{'name':'c%u','load_assignment':{'cluster_name':'c%u','endpoints':[{'lb_endpoints':["
        "{'endpoint':{'address':{'socket_address':{'address':'10.0.0.1','port_value':%u}}}}]}]}}",
        i, i, port);
}

static void put_cluster(struct sw_gw_store *s, unsigned i, unsigned port)
{
    char name[16];
    char json[512];

    (void)snprintf(name, sizeof(name), "c%u", i);
    cluster_json(json, sizeof(json), i, port);
    assert_int_equal(gw_put(s, SW_GW_TYPE_CLUSTER, name, json, NULL), SW_OK);
}

/* A change costs what its set costs: all others are shared with the snapshot before. */
static void one_cluster_of_many_changes(void **state)
{
    struct sw_gw_store *s = gw_store(2);
    struct sw_gw_config *before;
    const struct sw_gw_config *now;
    unsigned mine = sw_gw_shard_of(SW_SLICE_LIT("c5000"));

    (void)state;
    for (unsigned i = 0; i < CLUSTERS; i++)
        put_cluster(s, i, 80);
    before = sw_gw_config_ref(gw_flush(s));
    put_cluster(s, 5000, 1000);
    now = gw_flush(s);
    for (unsigned i = 0; i < SW_GW_SHARDS; i++) {
        if (i == mine)
            assert_ptr_not_equal(now->clusters->set[i], before->clusters->set[i]);
        else
            assert_ptr_equal(now->clusters->set[i], before->clusters->set[i]);
    }
    assert_true(now->clusters->set[mine]->map.n < CLUSTERS / 10);
    assert_ptr_equal(now->routes, before->routes);
    assert_ptr_equal(now->listeners, before->listeners);
    (void)sw_gw_config_unref(before);
    sw_gw_store_free(s);
}

/* A snapshot that somebody still holds keeps what it had. */
static void an_old_snapshot_stays_as_it_was(void **state)
{
    struct sw_gw_store *s = gw_store(1);
    struct sw_gw_config *old;

    (void)state;
    for (unsigned i = 0; i < 100; i++)
        put_cluster(s, i, 80);
    old = sw_gw_config_ref(gw_flush(s));
    for (unsigned i = 0; i < 100; i += 2) {
        char name[16];

        (void)snprintf(name, sizeof(name), "c%u", i);
        gw_remove(s, SW_GW_TYPE_CLUSTER, name);
        put_cluster(s, 1000 + i, 80);
        (void)gw_flush(s);
    }
    for (unsigned i = 0; i < 100; i++) {
        char name[16];
        struct sw_gw_cluster *c;

        (void)snprintf(name, sizeof(name), "c%u", i);
        c = sw_gw_config_cluster(old, sw_slice_str(name));
        assert_non_null(c);
        assert_true(sw_slice_eq_str(c->spec->name, name));
        c = sw_gw_config_cluster(sw_gw_store_config(s), sw_slice_str(name));
        assert_true((c != NULL) == (i % 2 != 0));
    }
    assert_null(sw_gw_config_cluster(old, SW_SLICE_LIT("c1000")));
    assert_non_null(sw_gw_config_cluster(sw_gw_store_config(s), SW_SLICE_LIT("c1000")));
    (void)sw_gw_config_unref(old);
    sw_gw_store_free(s);
}

static void many_routes_are_matched_quickly(void **state)
{
    struct sw_gw_store *s = gw_store(1);
    size_t cap = (size_t)ROUTES * 160 + 256;
    char *json = sw_malloc(cap);
    size_t n = (size_t)snprintf(json, cap, "{'name':'r','virtual_hosts':[");
    uint64_t from;

    (void)state;
    for (unsigned i = 0; i < ROUTES; i++)
        n += (size_t)snprintf(json + n, cap - n,
                              "%s{'name':'v%u','domains':['h%u.test'],'routes':[{'match':"
                              "{'prefix':'/a'},'route':{'cluster':'c%u'}}]}",
                              i ? "," : "", i, i, i);
    (void)snprintf(json + n, cap - n, "]}");
    {
        SW_ARENA_AUTO a = {0};
        struct sw_gw_resource r = {.name = SW_SLICE_LIT("r"),
                                   .bytes = gw_encode(&a, SW_GW_TYPE_ROUTES, json)};
        struct sw_gw_delta d = {.type = SW_GW_TYPE_ROUTES, .changed = &r, .n_changed = 1};

        from = sw_now_ns();
        assert_int_equal(sw_gw_store_update(s, &d, NULL), SW_OK);
        (void)gw_flush(s);
        print_message("# a table of %d hosts: %.1f ms\n", ROUTES,
                      (double)(sw_now_ns() - from) / 1e6);
    }
    sw_free(json);
    sw_gw_store_free(s);
}

/* Resources with bytes changed, cut or doubled: refused or taken, never half of both. */
static void damaged_resources_leave_the_rest(void **state)
{
    static const struct {
        enum sw_gw_type type;
        const char *name;
        const char *json;
    } seeds[] = {
        {SW_GW_TYPE_CLUSTER, "a",
         "{'name':'a','connect_timeout':'1s','lb_policy':'RING_HASH','load_assignment':"
         "{'cluster_name':'a','endpoints':[{'lb_endpoints':[{'endpoint':{'address':"
         "{'socket_address':{'address':'10.0.0.1','port_value':80}}},'load_balancing_weight':3}]}]}"
         ","
         "'health_checks':[{'timeout':'1s','interval':'1s','unhealthy_threshold':1,"
         "'healthy_threshold':1,'http_health_check':{'path':'/h'}}]}"},
        {SW_GW_TYPE_ROUTES, "r",
         "{'name':'r','virtual_hosts':[{'name':'v','domains':['*.x.test','y'],'routes':[{'match':"
         "{'safe_regex':{'regex':'/a.*'}},'route':{'cluster':'a','timeout':'3s','retry_policy':"
         "{'retry_on':'5xx','num_retries':2}}},{'match':{'prefix':'/'},'direct_response':"
         "{'status':200}}]}]}"},
        {SW_GW_TYPE_LISTENER, "l",
         "{'name':'l','address':{'socket_address':{'address':'127.0.0.1','port_value':80}},"
         "'filter_chains':[{'filter_chain_match':{'server_names':['a.test','*.b.test']},'filters':["
         "{'name':'tcp','typed_config':{'@type':'type.googleapis.com/"
         "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy','stat_prefix':'t',"
         "'cluster':'a'}}]}]}"},
        {SW_GW_TYPE_ENDPOINTS, "a",
         "{'cluster_name':'a','endpoints':[{'priority':1,'lb_endpoints':[{'endpoint':{'address':"
         "{'socket_address':{'address':'10.0.0.1','port_value':80}}}}]}]}"},
    };
    struct sw_gw_store *s = gw_store(1);
    struct sw_gw_cluster *keep;
    unsigned refused = 0;

    (void)state;
    put_cluster(s, 1, 80);
    keep = sw_gw_config_cluster(gw_flush(s), SW_SLICE_LIT("c1"));
    for (unsigned i = 0; i < ROUNDS; i++) {
        SW_ARENA_AUTO a = {0};
        size_t k = (size_t)sw_rand_below(SW_ARRAY_LEN(seeds));
        struct sw_slice good = gw_encode(&a, seeds[k].type, seeds[k].json);
        char *bytes = sw_arena_alloc(&a, good.n * 2);
        struct sw_gw_resource r = {.name = sw_slice_str(seeds[k].name)};
        struct sw_gw_delta d = {.type = seeds[k].type, .changed = &r, .n_changed = 1};
        size_t n = good.n;
        struct sw_err err = {0};

        memcpy(bytes, good.p, n);
        for (uint64_t m = sw_rand_below(4); m; m--)
            bytes[sw_rand_below(n)] = (char)sw_rand_below(256);
        if (sw_rand_below(8) == 0)
            n = (size_t)sw_rand_below(n) + 1;
        if (sw_rand_below(16) == 0) {
            memcpy(bytes + n, good.p, sw_min(good.n, good.n * 2 - n));
            n += sw_min(good.n, good.n * 2 - n);
        }
        r.bytes = sw_slice(bytes, n);
        if (sw_gw_store_update(s, &d, &err) != SW_OK) {
            refused++;
            assert_true(err.msg[0]);
        }
        if (i % 16 == 0)
            (void)gw_flush(s);
        assert_ptr_equal(sw_gw_config_cluster(sw_gw_store_config(s), SW_SLICE_LIT("c1")), keep);
    }
    assert_in_range(refused, ROUNDS / 20, ROUNDS - 1);
    sw_gw_store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_cluster_of_many_changes),
        cmocka_unit_test(an_old_snapshot_stays_as_it_was),
        cmocka_unit_test(many_routes_are_matched_quickly),
        cmocka_unit_test(damaged_resources_leave_the_rest),
    };

    return cmocka_run_group_tests_name("gw_scale", tests, NULL, NULL);
}
