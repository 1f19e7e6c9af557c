/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources in the forms that other control planes write (Envoy Gateway, Contour): load-balancing
 * policies as extensions, DNS as a cluster type, sockets chosen by metadata, filters that a route
 * switches on.
 */
#include "gw_help.h"

#include "gateway/config/config.h"
#include "gateway/filter/filter.h"
#include "gateway/xds/store.h"

#define T        "'@type':'type.googleapis.com/envoy."
#define LB(name) T "extensions.load_balancing_policies." name "'"
#define POLICY(config)                                                                             \
    "'load_balancing_policy':{'policies':[{'typed_extension_config':{'name':'p','typed_config':"   \
    "{" config "}}}]}"
#define LOAD                                                                                       \
    "'load_assignment':{'cluster_name':'c','endpoints':[{'lb_endpoints':[{'endpoint':{'address':{" \
    "'socket_address':{'address':'10.0.0.1','port_value':80}}}}]}]}"
#define CLUSTER(more) "{'name':'c','type':'STATIC'," LOAD "," more "}"

static const struct sw_gw_cluster *take(struct sw_gw_store *s, const char *json)
{
    struct sw_err err = {0};

    if (gw_put(s, SW_GW_TYPE_CLUSTER, "c", json, &err) != SW_OK)
        fail_msg("%s in %s", err.msg, json);
    return sw_gw_config_cluster(gw_flush(s), SW_SLICE_LIT("c"));
}

static void refuse(enum sw_gw_type t, const char *json, const char *why)
{
    struct sw_gw_store *s = gw_store(1);
    struct sw_err err = {0};

    assert_int_not_equal(gw_put(s, t, t == SW_GW_TYPE_ROUTES ? "r" : "c", json, &err), SW_OK);
    if (!strstr(err.msg, why))
        fail_msg("'%s' does not say '%s'", err.msg, why);
    sw_gw_store_free(s);
}

static void policies_say_what_the_enum_says(void **state)
{
    static const struct {
        const char *policy;
        enum sw_gw_lb_kind lb;
        bool weighted;
    } cases[] = {
        {CLUSTER(POLICY(LB("least_request.v3.LeastRequest") ",'locality_lb_config':{"
                                                            "'locality_weighted_lb_config':{}}")),
         SW_GW_LB_LEAST_REQUEST, true},
        {CLUSTER(POLICY(LB("round_robin.v3.RoundRobin") ",'locality_lb_config':{"
                                                        "'zone_aware_lb_config':{}}")),
         SW_GW_LB_ROUND_ROBIN, false},
        {CLUSTER(POLICY(LB("random.v3.Random"))), SW_GW_LB_RANDOM, false},
        {CLUSTER(POLICY(LB("maglev.v3.Maglev") ",'locality_weighted_lb_config':{}")),
         SW_GW_LB_MAGLEV, true},
        {CLUSTER(POLICY(LB("ring_hash.v3.RingHash") ",'minimum_ring_size':'2048'")),
         SW_GW_LB_RING_HASH, false},
        /* Wins over the enum. */
        {CLUSTER("'lb_policy':'RANDOM'," POLICY(LB("round_robin.v3.RoundRobin"))),
         SW_GW_LB_ROUND_ROBIN, false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_gw_store *s = gw_store(1);
        const struct sw_gw_cluster *c = take(s, cases[i].policy);

        assert_non_null(c);
        assert_int_equal(c->spec->lb, cases[i].lb);
        assert_int_equal(c->spec->locality_weighted, cases[i].weighted);
        if (cases[i].lb == SW_GW_LB_RING_HASH)
            assert_int_equal(c->spec->ring_min, 2048);
        sw_gw_store_free(s);
    }
}

static void policies_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    refuse(SW_GW_TYPE_CLUSTER, CLUSTER("'load_balancing_policy':{}"), "load_balancing_policy");
    refuse(SW_GW_TYPE_CLUSTER, CLUSTER(POLICY(T "extensions.filters.http.router.v3.Router'")),
           "envoy.extensions.filters.http.router.v3.Router");
    refuse(SW_GW_TYPE_CLUSTER,
           CLUSTER(POLICY(LB("least_request.v3.LeastRequest") ",'choice_count':1")),
           "choice_count");
    refuse(SW_GW_TYPE_CLUSTER,
           CLUSTER(POLICY(LB("ring_hash.v3.RingHash") ",'minimum_ring_size':'9','"
                                                      "maximum_ring_size':'8'")),
           "ring_hash");
    refuse(SW_GW_TYPE_CLUSTER, CLUSTER(POLICY(LB("cluster_provided.v3.ClusterProvided"))),
           "ORIGINAL_DST");
    refuse(SW_GW_TYPE_CLUSTER, CLUSTER(POLICY(LB("wrr_locality.v3.WrrLocality"))),
           "endpoint_picking_policy");
}

#define CHECK(more)                                                                                \
    "'health_checks':[{'timeout':'1s','interval':'1s','unhealthy_threshold':2,"                    \
    "'healthy_threshold':1,'tcp_health_check':{}," more "}]"
#define ROUTE(more)                                                                                \
    "{'name':'r','virtual_hosts':[{'name':'v','domains':['*'],'routes':[{'match':"                 \
    "{'prefix':'/'},'route':{'cluster':'c'," more "}}]}]}"
#define ASSIGN(more) "{'cluster_name':'c'," more "}"

/* Numbers of a control plane never size a loop or a table: what Envoy refuses we refuse. */
static void numbers_out_of_range_are_refused_by_name(void **state)
{
    static const struct {
        const char *json;
        const char *field;
    } clusters[] = {
        {CLUSTER("'lb_policy':'LEAST_REQUEST','least_request_lb_config':{'choice_count':1}"),
         "least_request_lb_config.choice_count"},
        {CLUSTER(POLICY(LB("least_request.v3.LeastRequest") ",'choice_count':0")),
         "choice_count must be at least 2"},
        {CLUSTER("'lb_policy':'RING_HASH','ring_hash_lb_config':{'maximum_ring_size':'8388609'}"),
         "ring_hash_lb_config.maximum_ring_size"},
        {CLUSTER("'lb_policy':'RING_HASH','ring_hash_lb_config':{'minimum_ring_size':"
                 "'18446744073709551615'}"),
         "ring_hash_lb_config.minimum_ring_size"},
        {CLUSTER("'common_lb_config':{'healthy_panic_threshold':{'value':101}}"),
         "common_lb_config.healthy_panic_threshold"},
        {CLUSTER("'circuit_breakers':{'thresholds':[{'retry_budget':{'budget_percent':"
                 "{'value':1e300}}}]}"),
         "circuit_breakers.thresholds[0].retry_budget.budget_percent"},
        {CLUSTER("'outlier_detection':{'interval':'0s'}"), "outlier_detection.interval"},
        {CLUSTER("'outlier_detection':{'base_ejection_time':'0s'}"),
         "outlier_detection.base_ejection_time"},
        {CLUSTER("'outlier_detection':{'max_ejection_percent':101}"),
         "outlier_detection.max_ejection_percent"},
        {CLUSTER(CHECK("'unhealthy_interval':'0s'")), "health_checks[0].unhealthy_interval"},
        {CLUSTER(CHECK("'alt_port':65536")), "health_checks[0].alt_port"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(clusters); i++)
        refuse(SW_GW_TYPE_CLUSTER, clusters[i].json, clusters[i].field);
    refuse(SW_GW_TYPE_ENDPOINTS, ASSIGN("'policy':{'overprovisioning_factor':0}"),
           "policy.overprovisioning_factor");
    refuse(SW_GW_TYPE_ENDPOINTS, ASSIGN("'endpoints':[{'priority':129}]"), "endpoints[0]");
    refuse(SW_GW_TYPE_ROUTES, ROUTE("'retry_policy':{'retry_back_off':{'base_interval':'0s'}}"),
           "retry_back_off.base_interval");
}

static void numbers_beyond_use_are_cut(void **state)
{
    struct sw_gw_store *s = gw_store(1);
    const struct sw_gw_cluster *c;
    const struct sw_gw_listener *l;

    (void)state;
    c = take(s,
             CLUSTER("'lb_policy':'LEAST_REQUEST','least_request_lb_config':"
                     "{'choice_count':4294967295},'outlier_detection':{'interval':'0.000001s'}"));
    assert_int_equal(c->spec->choice_count, 64);
    assert_true(c->spec->outlier.interval_ns >= 1000000);
    c = take(s, CLUSTER(POLICY(LB("least_request.v3.LeastRequest") ",'choice_count':4294967295")));
    assert_int_equal(c->spec->choice_count, 64);
    c = take(s, CLUSTER(CHECK("'unhealthy_interval':'0.000001s'")));
    assert_int_equal(c->spec->checks[0].unhealthy_interval_ns, 1000000);
    assert_int_equal(
        gw_put(s, SW_GW_TYPE_LISTENER, "l",
               "{'name':'l','address':{'socket_address':{'address':'127.0.0.1',"
               "'port_value':80}},'filter_chains':[{'filters':[{'name':'t',"
               "'typed_config':{" T "extensions.filters.network.tcp_proxy.v3.TcpProxy',"
               "'stat_prefix':'s','cluster':'c','max_connect_attempts':4294967295}}]}]}",
               NULL),
        SW_OK);
    l = sw_map_get(&gw_flush(s)->listeners->map, SW_SLICE_LIT("l"));
    assert_int_equal(l->chains[0].tcp.max_connect_attempts, 100);
    sw_gw_store_free(s);
}

/* One locality after the other in the order of priorities, those of one as they came. */
static void localities_are_in_order(void **state)
{
    struct sw_gw_store *s = gw_store(1);
    const struct sw_gw_cluster *c;
    const struct sw_gw_members *m;

    (void)state;
    c = take(s, "{'name':'c','type':'STATIC','load_assignment':{'cluster_name':'c','endpoints':["
                "{'priority':2,'locality':{'zone':'a'}},{'locality':{'zone':'b'}},"
                "{'priority':1,'locality':{'zone':'c'}},{'priority':2,'locality':{'zone':'d'}},"
                "{'locality':{'zone':'e'}}]}}");
    m = c->members;
    assert_int_equal(m->n_localities, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(m->localities[i].zone.p[0], "becad"[i]);
    sw_gw_store_free(s);
}

#define DNS(more)                                                                                  \
    "{'name':'c','cluster_type':{'name':'envoy.cluster.dns','typed_config':{" T                    \
    "extensions.clusters.dns.v3.DnsCluster'" more "}}," LOAD "}"

static void dns_is_a_cluster_type_too(void **state)
{
    struct sw_gw_store *s = gw_store(1);
    const struct sw_gw_cluster *c =
        take(s, DNS(",'dns_lookup_family':4,'dns_refresh_rate':'30s','respect_dns_ttl':true"));

    (void)state;
    assert_int_equal(c->spec->discovery, SW_GW_STRICT_DNS);
    assert_int_equal(c->spec->dns_family, 3); /* V4_PREFERRED */
    assert_int_equal(c->spec->dns_refresh_ns / 1000000000, 30);
    c = take(s, DNS(",'all_addresses_in_single_endpoint':true"));
    assert_int_equal(c->spec->discovery, SW_GW_LOGICAL_DNS);
    sw_gw_store_free(s);
    refuse(SW_GW_TYPE_CLUSTER, DNS(",'dns_lookup_family':7"), "dns_lookup_family");
    refuse(SW_GW_TYPE_CLUSTER,
           "{'name':'c','cluster_type':{'name':'envoy.clusters.aggregate'}," LOAD "}",
           "envoy.clusters.aggregate");
}

#define NAMED(target)                                                                              \
    "{'name':'c','type':'EDS','eds_cluster_config':{'eds_config':{'ads':{}},'service_name':'s'},"  \
    "'metadata':{'filter_metadata':{'spanwire':{'resolve':'" target "'}}}}"

/* Our control plane's: Envoy takes the addresses of the set, we look the name up. */
static void a_name_beside_a_set_is_looked_up(void **state)
{
    struct sw_gw_store *s = gw_store(1);
    const struct sw_gw_cluster *c = take(s, NAMED("origin.test:8443"));

    (void)state;
    assert_int_equal(c->spec->discovery, SW_GW_STRICT_DNS);
    assert_int_equal(c->spec->dns_refresh_ns / 1000000000, 5);
    assert_int_equal(c->members->n, 1);
    assert_true(
        sw_slice_eq_str(c->members->localities[0].endpoints[0].member->addr.name, "origin.test"));
    assert_int_equal(c->members->localities[0].endpoints[0].member->addr.ip.port, 8443);
    sw_gw_store_free(s);
    refuse(SW_GW_TYPE_CLUSTER, NAMED("origin.test"), "spanwire.resolve");
    refuse(SW_GW_TYPE_CLUSTER, NAMED("127.1:80"), "127.1");
}

#define TLS(sni)                                                                                   \
    "{'name':'tls','typed_config':{" T "extensions.transport_sockets.tls.v3.UpstreamTlsContext',"  \
    "'sni':'" sni "','common_tls_context':{}}}"
#define RAW                                                                                        \
    "{'name':'raw','typed_config':{" T "extensions.transport_sockets.raw_buffer.v3.RawBuffer'}}"

static const struct sw_json *metadata(struct sw_arena *a, const char *text)
{
    struct sw_json *v = NULL;

    assert_int_equal(sw_json_parse(a, sw_slice_str(text), NULL, &v, NULL), SW_OK);
    return v;
}

/* The server name of the socket for a member; "plain" for none. */
static const char *chosen(const struct sw_gw_cluster *c, const char *match)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_gw_tls *t = sw_gw_tls_for(c->tls, match ? metadata(&a, match) : NULL);

    return t ? t->sni : "plain";
}

#define MATCH(what) "{\"envoy.transport_socket_match\":{" what "}}"

static void sockets_are_chosen_by_metadata(void **state)
{
    struct sw_gw_store *s = gw_store(1);
    const struct sw_gw_cluster *c = take(
        s, CLUSTER("'transport_socket':" TLS(
               "rest") ",'transport_socket_matches':["
                       "{'name':'a','match':{'name':'a'},'transport_socket':" TLS(
                           "a") "},"
                                "{'name':'b','match':{'name':'b','x':true},'transport_socket':" RAW
                                "}]"));

    (void)state;
    assert_string_equal(chosen(c, MATCH("\"name\":\"a\"")), "a");
    assert_string_equal(chosen(c, MATCH("\"name\":\"b\",\"x\":true")), "plain");
    assert_string_equal(chosen(c, MATCH("\"name\":\"b\"")), "rest");
    assert_string_equal(chosen(c, NULL), "rest");
    /* An empty match is for everybody; without a socket for the rest those are plain. */
    c = take(s,
             CLUSTER("'transport_socket_matches':[{'name':'a','transport_socket':" TLS("a") "}]"));
    assert_string_equal(chosen(c, NULL), "a");
    c = take(s, CLUSTER("'transport_socket_matches':[{'name':'a','match':{'name':'a'},"
                        "'transport_socket':" TLS("a") "}]"));
    assert_string_equal(chosen(c, NULL), "plain");
    sw_gw_store_free(s);
    refuse(SW_GW_TYPE_CLUSTER, CLUSTER("'transport_socket_matches':[{'name':'a'}]"),
           "transport_socket missing");
    refuse(SW_GW_TYPE_CLUSTER,
           CLUSTER("'transport_socket_matches':[{'name':'a','transport_socket':{'name':'x',"
                   "'typed_config':{" T "extensions.filters.http.router.v3.Router'}}}]"),
           "transport_socket_matches[0]");
}

#define ROUTER                                                                                     \
    "{'name':'router','typed_config':{" T "extensions.filters.http.router.v3.Router',"             \
    "'suppress_envoy_headers':true}}"
#define LISTENER(filters)                                                                          \
    "{'name':'c','address':{'socket_address':{'address':'127.0.0.1','port_value':80}},"            \
    "'filter_chains':[{'filters':[{'name':'hcm','typed_config':{" T                                \
    "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',"                \
    "'stat_prefix':'s','route_config':{'name':'r'},'http_filters':[" filters ROUTER "]}}]}]}"
/* A type our schemas know, which is no HTTP filter. */
#define STRANGE "'typed_config':{" T "extensions.filters.listener.tls_inspector.v3.TlsInspector'}"

static void filters_of_others(void **state)
{
    struct sw_gw_store *s = gw_store(1);
    const struct sw_gw_hcm *h;

    (void)state;
    refuse(SW_GW_TYPE_LISTENER, LISTENER("{'name':'strange'," STRANGE "},"), "'strange'");
    refuse(SW_GW_TYPE_LISTENER,
           LISTENER("{'name':'limit','typed_config':{" T
                    "extensions.filters.http.local_ratelimit.v3.LocalRateLimit','stat_prefix':'s',"
                    "'token_bucket':{'max_tokens':1}}},"),
           "'limit'");
    refuse(SW_GW_TYPE_LISTENER,
           LISTENER("{'name':'lua','typed_config':{" T "extensions.filters.http.lua.v3.Lua',"
                    "'default_source_code':{'inline_string':'-- a\\nreturn'}}},"),
           "'lua'");
    refuse(SW_GW_TYPE_LISTENER,
           LISTENER("{'name':'lua','typed_config':{" T "extensions.filters.http.lua.v3.Lua',"
                    "'default_source_code':{'inline_string':'--[[ ]] return'}}},"),
           "'lua'");
    refuse(SW_GW_TYPE_LISTENER,
           LISTENER("{'name':'h','typed_config':{" T
                    "extensions.filters.http.health_check.v3.HealthCheck'}},"),
           "health_check");
    assert_int_equal(
        gw_put(s, SW_GW_TYPE_LISTENER, "c",
               LISTENER("{'name':'strange','disabled':true," STRANGE "},"
                        "{'name':'h','typed_config':{" T
                        "extensions.filters.http.health_check.v3.HealthCheck',"
                        "'pass_through_mode':false,'headers':[{'name':':path','string_match':"
                        "{'exact':'/ready'}}]}},"
                        "{'name':'limit','typed_config':{" T
                        "extensions.filters.http.local_ratelimit.v3.LocalRateLimit',"
                        "'stat_prefix':'s'}},"
                        "{'name':'lua','typed_config':{" T "extensions.filters.http.lua.v3.Lua',"
                        "'default_source_code':{'inline_string':'-- room for routes'}}},"),
               NULL),
        SW_OK);
    h = &sw_gw_config_listener(gw_flush(s), SW_SLICE_LIT("c"))->chains[0].hcm;
    assert_int_equal(h->n_filters, 4);
    assert_int_equal(h->filters[0].kind, SW_GW_FILTER_UNKNOWN);
    assert_int_equal(h->filters[1].kind, SW_GW_FILTER_HEALTH);
    assert_true(h->filters[2].disabled && h->filters[3].disabled);
    assert_true(h->suppress_envoy);
    sw_gw_store_free(s);
}

#define ROUTES(per)                                                                                \
    "{'name':'r','virtual_hosts':[{'name':'v','domains':['*'],'routes':[{'match':{'prefix':'/'},"  \
    "'route':{'cluster':'c'},'typed_per_filter_config':{'x':{" per "}}}]}]}"

#define COMPRESSOR  T "extensions.filters.http.compressor.v3.Compressor'"
#define GZIP(more)  "{'name':'z','typed_config':{" COMPRESSOR more "}},"
#define LIBRARY(of) ",'compressor_library':{'name':'l','typed_config':{" T of "}}"
#define GZIP_LIB    "extensions.compression.gzip.compressor.v3.Gzip'"
#define OTHER_LIB   "extensions.filters.http.router.v3.Router'"
#define GZIP_PLAIN  GZIP(LIBRARY(GZIP_LIB))
#define GZIP_OTHER  GZIP(LIBRARY(OTHER_LIB))
#define GZIP_FULL                                                                                  \
    GZIP(LIBRARY(GZIP_LIB                                                                          \
                 ",'compression_level':'BEST_SPEED'") ",'response_direction_config':{'common_"     \
                                                      "config':{'content_type':['text/x'],"        \
                                                      "'min_content_length':1}}")

static void compression_is_checked(void **state)
{
    struct sw_gw_store *s = gw_store(1);
    const struct sw_gw_hcm *h;

    (void)state;
    refuse(SW_GW_TYPE_LISTENER, LISTENER(GZIP("")), "compressor_library is missing");
    refuse(SW_GW_TYPE_LISTENER, LISTENER(GZIP(LIBRARY(GZIP_LIB ",'window_bits':16"))), "is not in");
    refuse(SW_GW_TYPE_LISTENER, LISTENER(GZIP(LIBRARY(GZIP_LIB ",'window_bits':8"))), "is not in");
    refuse(SW_GW_TYPE_LISTENER, LISTENER(GZIP(LIBRARY(GZIP_LIB ",'memory_level':10"))),
           "is not in");
    /* Two that are here, and one that is not: answers are right without it. */
    assert_int_equal(
        gw_put(s, SW_GW_TYPE_LISTENER, "c", LISTENER(GZIP_PLAIN GZIP_OTHER GZIP_FULL), NULL),
        SW_OK);
    h = &sw_gw_config_listener(gw_flush(s), SW_SLICE_LIT("c"))->chains[0].hcm;
    assert_int_equal(h->n_filters, 2);
    assert_int_equal(h->filters[0].kind, SW_GW_FILTER_GZIP);
    assert_int_equal(h->filters[1].kind, SW_GW_FILTER_GZIP);
    sw_gw_store_free(s);
}

static void filters_are_switched_by_routes(void **state)
{
    struct sw_gw_store *s = gw_store(1);
    struct sw_err err = {0};

    (void)state;
    if (gw_put(s, SW_GW_TYPE_ROUTES, "r",
               ROUTES(T "config.route.v3.FilterConfig','is_optional':true"), &err) != SW_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(gw_put(s, SW_GW_TYPE_ROUTES, "r",
                            ROUTES(T "config.route.v3.FilterConfig','disabled':true"), NULL),
                     SW_OK);
    assert_int_equal(gw_put(s, SW_GW_TYPE_ROUTES, "r",
                            ROUTES(T "config.route.v3.FilterConfig','config':{" T
                                     "extensions.filters.http.cors.v3.CorsPolicy'}"),
                            NULL),
                     SW_OK);
    sw_gw_store_free(s);
    refuse(SW_GW_TYPE_ROUTES,
           ROUTES(T "config.route.v3.FilterConfig','config':{" T
                    "extensions.filters.http.router.v3.Router'}"),
           "is not supported");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_say_what_the_enum_says),
        cmocka_unit_test(policies_that_make_no_sense_are_refused),
        cmocka_unit_test(numbers_out_of_range_are_refused_by_name),
        cmocka_unit_test(numbers_beyond_use_are_cut),
        cmocka_unit_test(localities_are_in_order),
        cmocka_unit_test(dns_is_a_cluster_type_too),
        cmocka_unit_test(a_name_beside_a_set_is_looked_up),
        cmocka_unit_test(sockets_are_chosen_by_metadata),
        cmocka_unit_test(filters_of_others),
        cmocka_unit_test(compression_is_checked),
        cmocka_unit_test(filters_are_switched_by_routes),
    };

    return cmocka_run_group_tests_name("gw_foreign", tests, NULL, NULL);
}
