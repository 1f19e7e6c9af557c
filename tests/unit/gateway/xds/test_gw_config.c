/* SPDX-License-Identifier: Apache-2.0 */
/* The store: what is refused, what waits, what is shared between snapshots; filter chains. */
#include "base/time.h"
#include "gateway/config/config.h"
#include "gateway/upstream/cluster.h"
#include "gateway/xds/store.h"
#include "gw_help.h"

#define HCM(routes)                                                                                \
    "{'name':'hcm','typed_config':{'@type':'type.googleapis.com/"                                  \
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',"          \
    "'stat_prefix':'s'," routes ",'http_filters':[{'name':'envoy.filters.http.router',"            \
    "'typed_config':{'@type':'type.googleapis.com/"                                                \
    "envoy.extensions.filters.http.router.v3.Router'}}]}}"
#define RDS(n)           "'rds':{'route_config_name':'" n "','config_source':{'ads':{}}}"
#define ADDR             "'address':{'socket_address':{'address':'127.0.0.1','port_value':8080}}"
#define LISTENER(chains) "{'name':'l'," ADDR ",'filter_chains':[" chains "]}"
#define TCP(c)                                                                                     \
    "{'name':'tcp','typed_config':{'@type':'type.googleapis.com/"                                  \
    "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy','stat_prefix':'s','cluster':'" c      \
    "'}}"
#define OPTIONS(o)                                                                                 \
    "{'name':'l','socket_options':[" o "]," ADDR ",'filter_chains':[{'filters':[" TCP("c") "]}]}"
#define INSPECTOR                                                                                  \
    "'listener_filters':[{'name':'tls','typed_config':{'@type':'type.googleapis.com/"              \
    "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector'}}]"
#define ROUTES                                                                                     \
    "{'name':'r','virtual_hosts':[{'name':'v','domains':['*'],'routes':[{'match':"                 \
    "{'prefix':'/'},'route':{'cluster':'c'}}]}]}"
#define EDS_CLUSTER "{'name':'c','type':'EDS','eds_cluster_config':{'eds_config':{'ads':{}}}}"
#define CLA(ip)                                                                                    \
    "{'cluster_name':'c','endpoints':[{'lb_endpoints':[{'endpoint':{'address':{'socket_address':"  \
    "{'address':'" ip "','port_value':80}}}}]}]}"

static void a_listener_waits_for_its_routes(void **state)
{
    struct sw_gw_store *s = gw_store(2);
    struct sw_gw_config *c;
    const struct sw_gw_listener *l;

    (void)state;
    assert_int_equal(
        gw_put(s, SW_GW_TYPE_LISTENER, "l", LISTENER("{'filters':[" HCM(RDS("r")) "]}"), NULL),
        SW_OK);
    c = gw_flush(s);
    assert_null(sw_gw_config_listener(c, SW_SLICE_LIT("l")));
    assert_false(sw_gw_store_ready(s));
    assert_int_equal(gw_put(s, SW_GW_TYPE_ROUTES, "r", ROUTES, NULL), SW_OK);
    c = gw_flush(s);
    l = sw_gw_config_listener(c, SW_SLICE_LIT("l"));
    assert_non_null(l);
    assert_int_equal(c->n_list, 1);
    assert_true(sw_gw_store_ready(s));
    assert_non_null(sw_gw_config_routes(c, &l->chains[0].hcm));

    /* New routes leave the listener alone. */
    assert_int_equal(gw_put(s, SW_GW_TYPE_ROUTES, "r", "{'name':'r'}", NULL), SW_OK);
    c = gw_flush(s);
    assert_ptr_equal(sw_gw_config_listener(c, SW_SLICE_LIT("l")), l);

    /* A newer listener that lacks its routes waits; the old one serves. */
    assert_int_equal(
        gw_put(s, SW_GW_TYPE_LISTENER, "l", LISTENER("{'filters':[" HCM(RDS("r2")) "]}"), NULL),
        SW_OK);
    c = gw_flush(s);
    assert_ptr_equal(sw_gw_config_listener(c, SW_SLICE_LIT("l")), l);
    sw_gw_store_free(s);
}

static void an_eds_cluster_waits_for_its_endpoints(void **state)
{
    struct sw_gw_store *s = gw_store(2);
    struct sw_gw_cluster *one;
    struct sw_gw_cluster *two;
    struct sw_gw_member *m;

    (void)state;
    assert_int_equal(gw_put(s, SW_GW_TYPE_CLUSTER, "c", EDS_CLUSTER, NULL), SW_OK);
    assert_null(sw_gw_config_cluster(gw_flush(s), SW_SLICE_LIT("c")));
    assert_int_equal(gw_put(s, SW_GW_TYPE_ENDPOINTS, "c", CLA("10.0.0.1"), NULL), SW_OK);
    one = sw_gw_cluster_ref(sw_gw_config_cluster(gw_flush(s), SW_SLICE_LIT("c")));
    assert_int_equal(one->members->n, 1);
    m = one->members->localities[0].endpoints[0].member;

    /* Endpoints alone change: same settings, same state, same member where the address stayed. */
    assert_int_equal(
        gw_put(s, SW_GW_TYPE_ENDPOINTS, "c",
               "{'cluster_name':'c','endpoints':[{'lb_endpoints':[{'endpoint':{'address':{'socket_"
               "address':{'address':'10.0.0.2','port_value':80}}}},{'endpoint':{'address':{'socket_"
               "address':{'address':'10.0.0.1','port_value':80}}}}]}]}",
               NULL),
        SW_OK);
    two = sw_gw_config_cluster(gw_flush(s), SW_SLICE_LIT("c"));
    assert_ptr_not_equal(one, two);
    assert_ptr_equal(one->spec, two->spec);
    assert_ptr_equal(one->state, two->state);
    assert_int_equal(two->members->n, 2);
    assert_ptr_equal(two->members->localities[0].endpoints[1].member, m);

    /* Endpoints that go leave the cluster what it had. */
    gw_remove(s, SW_GW_TYPE_ENDPOINTS, "c");
    assert_ptr_equal(sw_gw_config_cluster(gw_flush(s), SW_SLICE_LIT("c")), two);
    gw_remove(s, SW_GW_TYPE_CLUSTER, "c");
    assert_null(sw_gw_config_cluster(gw_flush(s), SW_SLICE_LIT("c")));
    (void)sw_gw_cluster_unref(one);
    sw_gw_store_free(s);
}

static void tls_waits_for_its_secret(void **state)
{
    struct sw_gw_store *s = gw_store(1);

    (void)state;
    assert_int_equal(
        gw_put(s, SW_GW_TYPE_LISTENER, "l",
               LISTENER(
                   "{'transport_socket':{'name':'tls','typed_config':{'@type':'type.googleapis.com/"
                   "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext',"
                   "'common_tls_context':{'tls_certificate_sds_secret_configs':[{'name':'cert',"
                   "'sds_config':{'ads':{}}}]}}},'filters':[" TCP("c") "]}"),
               NULL),
        SW_OK);
    assert_null(sw_gw_config_listener(gw_flush(s), SW_SLICE_LIT("l")));
    sw_gw_store_free(s);
}

struct wanted {
    char log[256];
};

static void on_wanted(enum sw_gw_type t, struct sw_slice name, bool wanted, void *arg)
{
    struct wanted *w = arg;
    size_t n = strlen(w->log);

    (void)snprintf(w->log + n, sizeof(w->log) - n, "%c%d:%.*s ", wanted ? '+' : '-', (int)t,
                   SW_SLICE_ARG(name));
}

static void names_are_asked_for(void **state)
{
    struct wanted w = {""};
    struct sw_gw_store_opts o = {.n_workers = 1, .no_io = true, .on_wanted = on_wanted, .arg = &w};
    struct sw_gw_store *s = sw_gw_store_new(&o);

    (void)state;
    assert_int_equal(
        gw_put(s, SW_GW_TYPE_LISTENER, "l", LISTENER("{'filters':[" HCM(RDS("r")) "]}"), NULL),
        SW_OK);
    assert_int_equal(gw_put(s, SW_GW_TYPE_CLUSTER, "c", EDS_CLUSTER, NULL), SW_OK);
    assert_int_equal(
        gw_put(s, SW_GW_TYPE_LISTENER, "l", LISTENER("{'filters':[" HCM(RDS("r2")) "]}"), NULL),
        SW_OK);
    gw_remove(s, SW_GW_TYPE_CLUSTER, "c");
    assert_string_equal(w.log, "+3:r +1:c +3:r2 -3:r -1:c ");
    sw_gw_store_free(s);
}

static uint64_t now;

static uint64_t clock_now(void)
{
    return now;
}

static struct sw_gw_store *timed_store(struct sw_loop **ret_loop, struct wanted *w)
{
    struct sw_gw_store_opts o = {.n_workers = 1, .no_io = true, .on_wanted = on_wanted, .arg = w};

    now = 1000 * SW_NS_PER_S;
    o.loop = *ret_loop = sw_loop_new(NULL);
    sw_loop_set_clock(o.loop, clock_now);
    return sw_gw_store_new(&o);
}

static void pass(struct sw_loop *l, unsigned seconds)
{
    for (unsigned i = 0; i < 4 * seconds; i++) {
        now += SW_NS_PER_S / 4;
        sw_loop_turn(l, 0);
    }
}

#define TABLED LISTENER("{'filters':[" HCM(RDS("r")) "]}")

static bool has_table(struct sw_gw_store *s)
{
    return sw_map_get(&gw_flush(s)->routes->map, SW_SLICE_LIT("r")) != NULL;
}

static bool listens(struct sw_gw_store *s)
{
    return sw_gw_config_listener(gw_flush(s), SW_SLICE_LIT("l")) != NULL;
}

/* A listener of the same name may be another tenant's. */
static void old_routes_are_no_answer_to_a_new_subscription(void **state)
{
    const struct sw_gw_delta nothing = {.type = SW_GW_TYPE_CLUSTER};
    struct wanted w = {""};
    struct sw_loop *l;
    struct sw_gw_store *s = timed_store(&l, &w);

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gw_put(s, SW_GW_TYPE_LISTENER, "l", TABLED, NULL), SW_OK);
        assert_false(listens(s));
        assert_int_equal(gw_put(s, SW_GW_TYPE_ROUTES, "r", ROUTES, NULL), SW_OK);
        assert_true(listens(s));
        gw_remove(s, SW_GW_TYPE_LISTENER, "l");
        assert_true(has_table(s)); /* for connections that drain */
    }
    /* In flight when it was unsubscribed from. */
    assert_int_equal(gw_put(s, SW_GW_TYPE_ROUTES, "r", "{'name':'r'}", NULL), SW_OK);
    assert_int_equal(gw_put(s, SW_GW_TYPE_LISTENER, "l", TABLED, NULL), SW_OK);
    assert_false(listens(s));
    gw_remove(s, SW_GW_TYPE_ROUTES, "r"); /* there are none: no reason to wait */
    pass(l, 1);
    assert_true(listens(s));
    assert_false(has_table(s));

    assert_int_equal(gw_put(s, SW_GW_TYPE_ROUTES, "r", ROUTES, NULL), SW_OK);
    gw_remove(s, SW_GW_TYPE_LISTENER, "l");
    pass(l, 599);
    assert_int_equal(sw_gw_store_update(s, &nothing, NULL), SW_OK);
    assert_true(has_table(s));
    pass(l, 1);
    assert_int_equal(sw_gw_store_update(s, &nothing, NULL), SW_OK);
    assert_false(has_table(s));
    sw_gw_store_free(s);
    sw_loop_free(l);
}

static void old_endpoints_are_no_answer_to_a_new_subscription(void **state)
{
    struct wanted w = {""};
    struct sw_loop *l;
    struct sw_gw_store *s = timed_store(&l, &w);
    SW_BUF_AUTO dump = {.max = 1 << 20};

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gw_put(s, SW_GW_TYPE_CLUSTER, "c", EDS_CLUSTER, NULL), SW_OK);
        assert_null(sw_gw_config_cluster(gw_flush(s), SW_SLICE_LIT("c")));
        assert_int_equal(gw_put(s, SW_GW_TYPE_ENDPOINTS, "c", CLA("10.0.0.1"), NULL), SW_OK);
        assert_non_null(sw_gw_config_cluster(gw_flush(s), SW_SLICE_LIT("c")));
        gw_remove(s, SW_GW_TYPE_CLUSTER, "c");
        assert_int_equal(gw_put(s, SW_GW_TYPE_ENDPOINTS, "c", CLA("10.0.0.1"), NULL), SW_OK);
    }
    assert_int_equal(sw_gw_store_dump(s, &dump), SW_OK);
    assert_null(memmem(sw_buf_data(&dump), sw_buf_len(&dump), "10.0.0.1", 8));
    sw_gw_store_free(s);
    sw_loop_free(l);
}

/* It waited for a secret in vain, and its next version needs none. */
static void a_new_version_waits_no_longer_than_others(void **state)
{
    struct wanted w = {""};
    struct sw_loop *l;
    struct sw_gw_store *s = timed_store(&l, &w);

    (void)state;
    assert_int_equal(
        gw_put(s, SW_GW_TYPE_CLUSTER, "c",
               "{'name':'c','type':'EDS','eds_cluster_config':{'eds_config':{'ads':{}}},"
               "'transport_socket':{'name':'tls','typed_config':{'@type':'type.googleapis.com/"
               "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext','sni':'x',"
               "'common_tls_context':{'tls_certificate_sds_secret_configs':[{'name':'cert',"
               "'sds_config':{'ads':{}}}]}}}}",
               NULL),
        SW_OK);
    pass(l, 30);
    assert_null(sw_gw_config_cluster(gw_flush(s), SW_SLICE_LIT("c")));
    assert_int_equal(gw_put(s, SW_GW_TYPE_CLUSTER, "c", EDS_CLUSTER, NULL), SW_OK);
    pass(l, 14);
    assert_null(sw_gw_config_cluster(gw_flush(s), SW_SLICE_LIT("c")));
    pass(l, 2);
    assert_non_null(sw_gw_config_cluster(gw_flush(s), SW_SLICE_LIT("c")));
    sw_gw_store_free(s);
    sw_loop_free(l);
}

static void bad_resources_are_refused_by_name(void **state)
{
    static const struct {
        enum sw_gw_type type;
        const char *json;
        const char *why;
    } cases[] = {
        {SW_GW_TYPE_LISTENER, "{'name':'l'," ADDR "}", "filter chain"},
        {SW_GW_TYPE_LISTENER, "{'name':'l','filter_chains':[{'filters':[" TCP("c") "]}]}",
         "address missing"},
        {SW_GW_TYPE_LISTENER, LISTENER("{'filters':[]}"), "filter_chains[0]: exactly one"},
        {SW_GW_TYPE_LISTENER, LISTENER("{'filters':[" TCP("") "]}"), "cluster"},
        {SW_GW_TYPE_LISTENER, LISTENER("{'filters':[" TCP("c") "]},{'filters':[" TCP("c") "]}"),
         "same match"},
        {SW_GW_TYPE_LISTENER,
         LISTENER("{'filter_chain_match':{'server_names':['a']},'filters':[" TCP("c") "]}"),
         "TLS inspector"},
        {SW_GW_TYPE_LISTENER,
         LISTENER("{'filter_chain_match':{'server_names':['*']},'filters':[" TCP("c") "]}"),
         "server_names"},
        {SW_GW_TYPE_LISTENER,
         LISTENER("{'filters':[{'name':'x','typed_config':{'@type':'type.googleapis.com/"
                  "envoy.extensions.filters.http.router.v3.Router'}}]}"),
         "is not supported"},
        {SW_GW_TYPE_CLUSTER,
         "{'name':'c','connect_timeout':'0s','load_assignment':{'cluster_name':'c'}}",
         "connect_timeout"},
        {SW_GW_TYPE_CLUSTER, "{'name':'c'}", "load_assignment"},
        {SW_GW_TYPE_CLUSTER, "{'name':'c','type':'EDS'}", "eds_cluster_config"},
        {SW_GW_TYPE_CLUSTER,
         "{'name':'c','lb_policy':'LOAD_BALANCING_POLICY_CONFIG','load_assignment':{'cluster_name':"
         "'c'}}",
         "lb_policy"},
        {SW_GW_TYPE_CLUSTER,
         "{'name':'c','load_assignment':{'cluster_name':'c'},'health_checks':[{'timeout':'1s'}]}",
         "health_checks[0]"},
        {SW_GW_TYPE_CLUSTER,
         "{'name':'c','load_assignment':{'cluster_name':'c','endpoints':[{'lb_endpoints':[{'"
         "endpoint':{'address':{"
         "'socket_address':{'address':'localhost','port_value':1}}}}]}]}}",
         "not an IP address"},
        {SW_GW_TYPE_CLUSTER,
         "{'name':'c','load_assignment':{'cluster_name':'c'},'close_connections_on_host_health_"
         "failure':true}",
         "close_connections_on_host_health_failure is not supported"},
        {SW_GW_TYPE_CLUSTER,
         "{'name':'c','type':'ORIGINAL_DST','lb_policy':'CLUSTER_PROVIDED',"
         "'original_dst_lb_config':{'use_http_header':true}}",
         "original_dst_lb_config.use_http_header is not supported"},
        {SW_GW_TYPE_ENDPOINTS,
         "{'cluster_name':'c','endpoints':[{'lb_endpoints':[{'load_balancing_weight':0,'endpoint':{"
         "'address':{"
         "'socket_address':{'address':'1.2.3.4','port_value':1}}}}]}]}",
         "load_balancing_weight"},
        /* xds/fields.h, through each door; test_xds_fields has the table itself. */
        {SW_GW_TYPE_LISTENER,
         "{'name':'l','enable_mptcp':true," ADDR ",'filter_chains':[{'filters':[" TCP("c") "]}]}",
         "enable_mptcp is not supported: sockets are plain TCP"},
        {SW_GW_TYPE_LISTENER,
         LISTENER(
             "{'filters':[" HCM("'route_config':{'name':'r','internal_only_headers':['x']}") "]}"),
         "filter_chains[0]: route_config.internal_only_headers is not supported"},
        {SW_GW_TYPE_CLUSTER,
         "{'name':'c','load_assignment':{'cluster_name':'c'},'connection_pool_per_downstream_"
         "connection':true}",
         "connection_pool_per_downstream_connection is not supported"},
        {SW_GW_TYPE_CLUSTER,
         "{'name':'c','type':'EDS','eds_cluster_config':{'eds_config':{'path':'/x'}}}",
         "eds_cluster_config.eds_config.path is not supported"},
        {SW_GW_TYPE_ENDPOINTS, "{'cluster_name':'c','policy':{'weighted_priority_health':true}}",
         "policy.weighted_priority_health is not supported"},
        {SW_GW_TYPE_ROUTES, "{'name':'r','vhds':{}}", "vhds is not supported"},
        {SW_GW_TYPE_ROUTES,
         "{'name':'r','virtual_hosts':[{'name':'v','domains':['*'],'matcher':{}}]}",
         "matcher is not supported: routes are matched in the order of the list"},
        {SW_GW_TYPE_CLUSTER,
         "{'name':'c','load_assignment':{'cluster_name':'c'},'load_balancing_policy':{'policies':[{"
         "'typed_extension_config':{'name':'lr','typed_config':{'@type':'type.googleapis.com/"
         "envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest',"
         "'slow_start_config':{'slow_start_window':'60s'}}}}]}}",
         "slow_start_config is not supported: a new endpoint gets its full share at once"},
        {SW_GW_TYPE_SECRET,
         "{'name':'x','tls_certificate':{'certificate_chain':{'inline_string':'x'},"
         "'private_key':{'inline_string':'y'},'password':{'inline_string':'z'}}}",
         "tls_certificate.password is not supported: private keys have to be unencrypted"},
        {SW_GW_TYPE_LISTENER, OPTIONS("{'level':1,'name':15,'int_value':1}"),
         "socket_options[0] is not supported: only TCP keep-alive is"},
        {SW_GW_TYPE_LISTENER,
         OPTIONS("{'level':6,'name':4,'int_value':9},{'level':6,'name':5,'int_value':0}"),
         "socket_options[1]: value is out of range"},
        {SW_GW_TYPE_CLUSTER,
         "{'name':'c','load_assignment':{'cluster_name':'c'},'typed_dns_resolver_config':{'name':'"
         "own','typed_config'"
         ":{"
         "'@type':'type.googleapis.com/"
         "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer'}}}",
         "typed_dns_resolver_config 'own' is not supported"},
        {SW_GW_TYPE_SECRET, "{'name':'x'}", "secret type"},
        {SW_GW_TYPE_SECRET,
         "{'name':'x','tls_certificate':{'certificate_chain':{'inline_string':'x'},"
         "'private_key':{'inline_string':'y'}}}",
         ""},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_gw_store *s = gw_store(1);
        struct sw_err err = {0};

        if (gw_put(s, cases[i].type, "the-name", cases[i].json, &err) != SW_EINVAL)
            fail_msg("accepted: %s", cases[i].json);
        if (!strstr(err.msg, cases[i].why) || strncmp(err.msg, "the-name: ", 10) != 0)
            fail_msg("'%s' for %s", err.msg, cases[i].json);
        sw_gw_store_free(s);
    }
}

static void options_of_a_socket_are_taken(void **state)
{
    struct sw_gw_store *s = gw_store(1);
    struct sw_err err = {0};
    const struct sw_gw_listener *l;
    uint64_t plain;

    (void)state;
    assert_int_equal(gw_put(s, SW_GW_TYPE_LISTENER, "l", OPTIONS(""), &err), SW_OK);
    l = sw_gw_config_listener(gw_flush(s), SW_SLICE_LIT("l"));
    assert_false(l->keepalive.on);
    assert_false(l->freebind);
    plain = l->socket_hash;
    /* What Contour sends, in its order. */
    assert_int_equal(gw_put(s, SW_GW_TYPE_LISTENER, "l",
                            OPTIONS("{'level':1,'name':9,'int_value':1,'state':'STATE_LISTENING'},"
                                    "{'level':6,'name':4,'int_value':45},"
                                    "{'level':6,'name':5,'int_value':5},"
                                    "{'description':'probes','level':6,'name':6,'int_value':3}"),
                            &err),
                     SW_OK);
    l = sw_gw_config_listener(gw_flush(s), SW_SLICE_LIT("l"));
    assert_true(l->keepalive.on);
    assert_int_equal(l->keepalive.time_s, 45);
    assert_int_equal(l->keepalive.interval_s, 5);
    assert_int_equal(l->keepalive.probes, 3);
    assert_true(l->socket_hash != plain);
    assert_int_equal(gw_put(s, SW_GW_TYPE_LISTENER, "l",
                            "{'name':'l','freebind':true," ADDR
                            ",'filter_chains':[{'filters':[" TCP("c") "]}]}",
                            &err),
                     SW_OK);
    l = sw_gw_config_listener(gw_flush(s), SW_SLICE_LIT("l"));
    assert_true(l->freebind);
    assert_true(l->socket_hash != plain);
    sw_gw_store_free(s);
}

static void names_are_looked_up_at_the_rate_of_the_cluster(void **state)
{
    static const struct {
        const char *rate;
        uint64_t ns;
    } cases[] = {
        {"", 5 * SW_NS_PER_S},
        {",'dns_refresh_rate':'30s'", 30 * SW_NS_PER_S},
        {",'dns_refresh_rate':'0.010s'", SW_NS_PER_S},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_gw_store *s = gw_store(1);
        struct sw_err err = {0};
        char json[256];

        (void)snprintf(json, sizeof(json),
                       "{'name':'c','type':'STRICT_DNS','load_assignment':{'cluster_name':'c'}%s}",
                       cases[i].rate);
        assert_int_equal(gw_put(s, SW_GW_TYPE_CLUSTER, "c", json, &err), SW_OK);
        assert_int_equal(sw_gw_config_cluster(gw_flush(s), SW_SLICE_LIT("c"))->spec->dns_refresh_ns,
                         cases[i].ns);
        sw_gw_store_free(s);
    }
}

static void a_refused_update_keeps_the_old_version(void **state)
{
    struct sw_gw_store *s = gw_store(1);
    struct sw_err err = {0};
    const struct sw_gw_listener *l;

    (void)state;
    assert_int_equal(
        gw_put(s, SW_GW_TYPE_LISTENER, "l", LISTENER("{'filters':[" TCP("c") "]}"), &err), SW_OK);
    l = sw_gw_config_listener(gw_flush(s), SW_SLICE_LIT("l"));
    assert_non_null(l);
    assert_int_equal(gw_put(s, SW_GW_TYPE_LISTENER, "l", LISTENER("{'filters':[]}"), &err),
                     SW_EINVAL);
    assert_ptr_equal(sw_gw_config_listener(gw_flush(s), SW_SLICE_LIT("l")), l);
    sw_gw_store_free(s);
}

static void the_most_specific_chain_is_chosen(void **state)
{
    static const struct {
        const char *sni;
        bool tls;
        const char *src;
        const char *chain;
    } cases[] = {
        {"foo.com", true, "192.0.2.1", "exact"},    {"FOO.com.", true, "192.0.2.1", "exact"},
        {"a.foo.com", true, "192.0.2.1", "suffix"}, {"b.a.foo.com", true, "192.0.2.1", "longer"},
        {"other", true, "192.0.2.1", "tls"},        {"", false, "192.0.2.1", "rest"},
        {"", false, "10.1.2.3", "inside"},          {"", true, "10.1.2.3", "tls"},
    };
    struct sw_gw_store *s = gw_store(1);
    struct sw_err err = {0};
    const struct sw_gw_listener *l;

    (void)state;
#define CHAIN(n, m) "{'name':'" n "','filter_chain_match':{" m "},'filters':[" TCP("c") "]}"
    if (gw_put(
            s, SW_GW_TYPE_LISTENER, "l",
            "{'name':'l'," ADDR "," INSPECTOR
            ",'filter_chains':[" CHAIN("suffix", "'server_names':['*.foo.com']") "," CHAIN("longer", "'server_names':['*.a.foo.com']") "," CHAIN(
                "exact",
                "'server_names':['foo.com']") "," CHAIN("tls",
                                                        "'transport_protocol':'"
                                                        "tls'") "," CHAIN("inside",
                                                                          "'source_"
                                                                          "prefix_"
                                                                          "ranges':"
                                                                          "[{'"
                                                                          "address_"
                                                                          "prefix':"
                                                                          "'10.0.0."
                                                                          "0','"
                                                                          "prefix_"
                                                                          "len':8}"
                                                                          "]") "],'"
                                                                               "def"
                                                                               "aul"
                                                                               "t_"
                                                                               "fil"
                                                                               "ter"
                                                                               "_ch"
                                                                               "ain"
                                                                               "':{"
                                                                               "'na"
                                                                               "me'"
                                                                               ":'"
                                                                               "res"
                                                                               "t',"
                                                                               "'fi"
                                                                               "lte"
                                                                               "rs'"
                                                                               ":"
                                                                               "[" TCP("c") "]}}",
            &err) != SW_OK)
        fail_msg("%s", err.msg);
    l = sw_gw_config_listener(gw_flush(s), SW_SLICE_LIT("l"));
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_gw_chain_key k = {.sni = sw_slice_str(cases[i].sni), .tls = cases[i].tls};
        const struct sw_gw_chain *c;

        assert_int_equal(sw_ip_parse(sw_slice_str(cases[i].src), &k.src.ip, NULL), SW_OK);
        assert_int_equal(sw_ip_parse(SW_SLICE_LIT("127.0.0.1"), &k.dst.ip, NULL), SW_OK);
        c = sw_gw_chain_find(l, &k);
        assert_non_null(c);
        if (!sw_slice_eq_str(c->name, cases[i].chain))
            fail_msg("%s: %.*s instead of %s", cases[i].sni, SW_SLICE_ARG(c->name), cases[i].chain);
    }
    sw_gw_store_free(s);
}

static void the_dump_shows_everything_but_keys(void **state)
{
    struct sw_gw_store *s = gw_store(1);
    SW_BUF_AUTO out;
    SW_ARENA_AUTO a = {0};
    struct sw_json *v;
    struct sw_err err = {0};

    (void)state;
    assert_int_equal(gw_put(s, SW_GW_TYPE_ROUTES, "r", ROUTES, NULL), SW_OK);
    assert_int_equal(gw_put(s, SW_GW_TYPE_CLUSTER, "c", EDS_CLUSTER, NULL), SW_OK);
    assert_int_equal(gw_put(s, SW_GW_TYPE_ENDPOINTS, "c", CLA("10.0.0.1"), NULL), SW_OK);
    assert_int_equal(gw_put(s, SW_GW_TYPE_SECRET, "g",
                            "{'name':'g','generic_secret':{'secret':{'inline_string':'hush'}}}",
                            NULL),
                     SW_OK);
    sw_buf_init(&out, 1 << 20);
    assert_int_equal(sw_gw_store_dump(s, &out), SW_OK);
    assert_int_equal(sw_json_parse(&a, sw_buf_slice(&out), NULL, &v, &err), SW_OK);
    assert_null(memmem(out.p, out.n, "hush", 4));
    assert_true(sw_slice_eq_str(sw_json_str(sw_json_walk(sw_json_at(sw_json_find(v, "routes"), 0),
                                                         "resource", "name", NULL)),
                                "r"));
    sw_buf_clear(&out);
    assert_int_equal(sw_gw_store_clusters(s, &out), SW_OK);
    assert_non_null(memmem(out.p, out.n, "c::10.0.0.1:80::health_flags::healthy", 37));
    sw_gw_store_free(s);
}

static void json_survives_both_ways(void **state)
{
    SW_ARENA_AUTO a = {0};
    static const char *const texts[] = {
        LISTENER("{'filters':[" HCM(RDS("r")) "]}"),
        ROUTES,
        CLA("10.0.0.1"),
        "{'name':'c','connect_timeout':'1.500s','metadata':{'filter_metadata':{'n':{'k':[1,true,"
        "null,{'x':'y'}]}}},"
        "'common_lb_config':{'healthy_panic_threshold':{'value':12.5}},'per_connection_buffer_"
        "limit_bytes':0}",
    };
    static const enum sw_gw_type types[] = {SW_GW_TYPE_LISTENER, SW_GW_TYPE_ROUTES,
                                            SW_GW_TYPE_ENDPOINTS, SW_GW_TYPE_CLUSTER};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(texts); i++) {
        const struct ProtobufCMessageDescriptor *d =
            sw_pb_type_find(sw_slice_str(sw_gw_type_names[types[i]].url));
        struct sw_slice one = gw_encode(&a, types[i], texts[i]);
        struct ProtobufCMessage *m = sw_pb_unpack(&a, d, one, NULL, NULL);
        struct sw_slice two;

        assert_non_null(m);
        assert_int_equal(sw_pb_from_json(&a, d, sw_pb_to_json(&a, m, true), &two, NULL), SW_OK);
        assert_true(sw_slice_eq(one, two));
        assert_true(sw_slice_eq(one, sw_pb_pack(&a, m)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_listener_waits_for_its_routes),
        cmocka_unit_test(an_eds_cluster_waits_for_its_endpoints),
        cmocka_unit_test(tls_waits_for_its_secret),
        cmocka_unit_test(names_are_asked_for),
        cmocka_unit_test(old_routes_are_no_answer_to_a_new_subscription),
        cmocka_unit_test(old_endpoints_are_no_answer_to_a_new_subscription),
        cmocka_unit_test(a_new_version_waits_no_longer_than_others),
        cmocka_unit_test(bad_resources_are_refused_by_name),
        cmocka_unit_test(options_of_a_socket_are_taken),
        cmocka_unit_test(names_are_looked_up_at_the_rate_of_the_cluster),
        cmocka_unit_test(a_refused_update_keeps_the_old_version),
        cmocka_unit_test(the_most_specific_chain_is_chosen),
        cmocka_unit_test(the_dump_shows_everything_but_keys),
        cmocka_unit_test(json_survives_both_ways),
    };

    return cmocka_run_group_tests_name("gateway config", tests, NULL, NULL);
}
