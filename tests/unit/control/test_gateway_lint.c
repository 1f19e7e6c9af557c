/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each rule of the linter: a resource that breaks it, and what is said about that. With
 * SW_XDS_OUT=DIR the resources also go there, for an Envoy's opinion (tests/interop/envoy).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "control/lint/lint_int.h"
#include "proto/json.h"
#include "proto/types.h"
#include "xds_export.h"

#define HCM                                                                                        \
    "'@type':'type.googleapis.com/"                                                                \
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager'"
#define TCP "'@type':'type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy'"
#define UDP "'@type':'type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig'"
#define TLS                                                                                        \
    "'@type':'type.googleapis.com/"                                                                \
    "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext'"
#define INSPECTOR                                                                                  \
    "'listener_filters':[{'name':'t','typed_config':{'@type':'type.googleapis.com/"                \
    "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector'}}]"
#define AUTHZ "'@type':'type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz'"
#define AUTHZ_ROUTE(x)                                                                             \
    VHOST("{'match':{'prefix':'/'}," TO_C ",'typed_per_filter_config':{'a':{'@type':"              \
          "'type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute'" x    \
          "}}}")
#define ROUTER                                                                                     \
    "{'name':'r','typed_config':{'@type':'type.googleapis.com/"                                    \
    "envoy.extensions.filters.http.router.v3.Router'}}"
#define ADS             "{'ads':{},'resource_api_version':'V3'}"
#define ADDR            "'address':{'socket_address':{'address':'0.0.0.0','port_value':80}}"
#define PASS            "'filters':[{'name':'f','typed_config':{" TCP ",'stat_prefix':'s','cluster':'c'}}]"
#define LISTENER(chain) "{'name':'x'," ADDR ",'filter_chains':[" chain "]}"
#define FILTER(config)  LISTENER("{'filters':[{'name':'f','typed_config':{" config "}}]}")
#define VHOST(routes)                                                                              \
    "{'name':'x','virtual_hosts':[{'name':'v','domains':['*'],'routes':[" routes "]}]}"
#define ROUTE(match, action) VHOST("{'match':{" match "}," action "}")
#define TO_C                 "'route':{'cluster':'c'}"
#define TO_TLS(common)                                                                             \
    "{'name':'x'," EDS                                                                             \
    ",'transport_socket':{'name':'envoy.transport_sockets.tls','typed_config':{"                   \
    "'@type':'type.googleapis.com/"                                                                \
    "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext','common_tls_context':{" common  \
    "}}}}"
#define SAN "'match_typed_subject_alt_names':[{'san_type':'DNS','matcher':{'exact':'a.b'}}]"
#define EDS "'type':'EDS','eds_cluster_config':{'eds_config':" ADS "}"

/* Envoy takes it. */
#define TAKEN "?"

static const struct {
    const char *type;
    const char *json;  /* with ' for " */
    const char *field; /* NULL: nothing is wrong */
    const char *text;  /* begins with TAKEN for a warning */
} cases[] = {
    /* listeners */
    {SW_TYPE_LISTENER, LISTENER("{" PASS "}"), NULL, NULL},
    {SW_TYPE_LISTENER, "{'name':'x','filter_chains':[{" PASS "}]}", "address", "missing"},
    {SW_TYPE_LISTENER, "{'name':'x'," ADDR ",'internal_listener':{},'filter_chains':[{" PASS "}]}",
     "address", "excludes"},
    {SW_TYPE_LISTENER, "{'name':'x'," ADDR "}", "filter_chains", "empty"},
    {SW_TYPE_LISTENER, LISTENER("{}"), "filter_chains[0].filters", TAKEN "empty"},
    {SW_TYPE_LISTENER, LISTENER("{'filters':[{'name':'f'}]}"),
     "filter_chains[0].filters[0].typed_config", "missing"},
    {SW_TYPE_LISTENER, LISTENER("{" PASS "},{" PASS "}"), "filter_chains[1].filter_chain_match",
     "earlier chain"},
    {SW_TYPE_LISTENER,
     "{'name':'x'," ADDR "," INSPECTOR ",'filter_chains':[{'filter_chain_match':{'server_names':"
     "['a.b','c.d']}," PASS "},{'filter_chain_match':{'server_names':['c.d']}," PASS "}]}",
     "filter_chains[1].filter_chain_match", "('c.d')"},
    {SW_TYPE_LISTENER, LISTENER("{'filter_chain_match':{'server_names':['a.b']}," PASS "}"),
     "filter_chains[0].filter_chain_match", TAKEN "TLS inspector"},
    {SW_TYPE_LISTENER,
     "{'name':'x'," ADDR "," INSPECTOR ",'filter_chains':[{'filter_chain_match':{'server_names':"
     "['*']}," PASS "}]}",
     "filter_chains[0].filter_chain_match", "neither full"},
    {SW_TYPE_LISTENER,
     "{'name':'x','address':{'socket_address':{'address':'::','protocol':'UDP','port_value':53}}}",
     "listener_filters", TAKEN "datagrams"},
    {SW_TYPE_LISTENER,
     "{'name':'x','address':{'socket_address':{'address':'::','protocol':'UDP','port_value':53}},"
     "'listener_filters':[{'name':'u','typed_config':{" UDP ",'stat_prefix':'s'}}]}",
     "listener_filters[0].typed_config", "no cluster"},
    {SW_TYPE_LISTENER,
     "{'name':'x','address':{'socket_address':{'port_value':70000}},'filter_chains':[{" PASS "}]}",
     "address.socket_address.address", "empty"},
    {SW_TYPE_LISTENER,
     "{'name':'x','address':{'socket_address':{'address':'::','port_value':70000}},"
     "'filter_chains':[{" PASS "}]}",
     "address.socket_address.port_value", "65535"},
    {SW_TYPE_LISTENER,
     LISTENER("{'transport_socket':{'name':'t','typed_config':{" TLS "}}," PASS "}"),
     "filter_chains[0].transport_socket.typed_config.common_tls_context", "no certificate"},
    {SW_TYPE_LISTENER,
     LISTENER("{'transport_socket':{'name':'t','typed_config':{" TLS
              ",'require_client_certificate':true,'common_tls_context':"
              "{'tls_certificate_sds_secret_configs':[{'name':'s','sds_config':" ADS "}]}}}," PASS
              "}"),
     "filter_chains[0].transport_socket.typed_config.require_client_certificate",
     TAKEN "validation"},
    /* filters */
    {SW_TYPE_LISTENER, FILTER(TCP ",'cluster':'c'"),
     "filter_chains[0].filters[0].typed_config.stat_prefix", "empty"},
    {SW_TYPE_LISTENER, FILTER(TCP ",'stat_prefix':'s'"), "filter_chains[0].filters[0].typed_config",
     "no cluster"},
    {SW_TYPE_LISTENER,
     FILTER(TCP ",'stat_prefix':'s','weighted_clusters':{'clusters':[{'name':'a'}]}"),
     "filter_chains[0].filters[0].typed_config.weighted_clusters.clusters[0].weight", "above 0"},
    {SW_TYPE_LISTENER,
     FILTER(TCP ",'stat_prefix':'s','cluster':'c','tunneling_config':{'post_path':'/'}"),
     "filter_chains[0].filters[0].typed_config.tunneling_config.hostname", "empty"},
    {SW_TYPE_LISTENER,
     FILTER(TCP
            ",'stat_prefix':'s','cluster':'c','tunneling_config':{'hostname':'h','post_path':'/'}"),
     "filter_chains[0].filters[0].typed_config.tunneling_config.post_path", "use_post"},
    {SW_TYPE_LISTENER,
     FILTER(TCP ",'stat_prefix':'s','cluster':'c','tunneling_config':{'hostname':'h',"
                "'headers_to_add':[{'header':{'key':'host','value':'x'}}]}"),
     "filter_chains[0].filters[0].typed_config.tunneling_config.headers_to_add[0].header.key",
     "may not"},
    {SW_TYPE_LISTENER,
     FILTER(HCM ",'stat_prefix':'s','rds':{'route_config_name':'r','config_source':" ADS
                "},'http_filters':[" ROUTER "]"),
     NULL, NULL},
    {SW_TYPE_LISTENER, FILTER(HCM ",'stat_prefix':'s','http_filters':[" ROUTER "]"),
     "filter_chains[0].filters[0].typed_config", "no routes"},
    {SW_TYPE_LISTENER,
     FILTER(HCM ",'stat_prefix':'s','route_config':{},'http_filters':[" ROUTER ",{'name':'z'}]"),
     "filter_chains[0].filters[0].typed_config.http_filters[0]", "the last"},
    {SW_TYPE_LISTENER,
     FILTER(HCM ",'stat_prefix':'s','rds':{'route_config_name':'r','config_source':"
                "{'ads':{}}},'http_filters':[" ROUTER "]"),
     "filter_chains[0].filters[0].typed_config.rds.config_source.resource_api_version", TAKEN "V3"},
    {SW_TYPE_LISTENER,
     FILTER(HCM ",'stat_prefix':'s','rds':{'route_config_name':'r','config_source':" ADS
                "},'http_filters':[{'name':'a','typed_config':{" AUTHZ
                ",'transport_api_version':'V3','http_service':{'server_uri':{'uri':'http://a',"
                "'cluster':'invalid-backend-cluster','timeout':'1s'}}},'disabled':true}," ROUTER
                "]"),
     NULL, NULL},
    {SW_TYPE_LISTENER,
     FILTER(HCM ",'stat_prefix':'s','rds':{'route_config_name':'r','config_source':" ADS
                "},'http_filters':[{'name':'a','typed_config':{" AUTHZ
                ",'transport_api_version':'V3'}}," ROUTER "]"),
     "filter_chains[0].filters[0].typed_config.http_filters[0].typed_config", TAKEN "no service"},
    {SW_TYPE_LISTENER,
     FILTER(HCM
            ",'stat_prefix':'s','rds':{'route_config_name':'r','config_source':" ADS
            "},'http_filters':[{'name':'a','typed_config':{" AUTHZ
            ",'grpc_service':{'envoy_grpc':{'cluster_name':'invalid-backend-cluster'}}}}," ROUTER
            "]"),
     "filter_chains[0].filters[0].typed_config.http_filters[0].typed_config.transport_api_version",
     TAKEN "V3"},
    /* routes */
    {SW_TYPE_ROUTE, ROUTE("'prefix':'/'", TO_C), NULL, NULL},
    {SW_TYPE_ROUTE, "{'name':'x','virtual_hosts':[{'domains':['*']}]}", "virtual_hosts[0].name",
     "empty"},
    {SW_TYPE_ROUTE, "{'name':'x','virtual_hosts':[{'name':'v'}]}", "virtual_hosts[0].domains",
     "empty"},
    {SW_TYPE_ROUTE, "{'name':'x','virtual_hosts':[{'name':'v','domains':['a.b','A.b']}]}",
     "virtual_hosts[0].domains[1]", "duplicate domain"},
    {SW_TYPE_ROUTE,
     "{'name':'x','virtual_hosts':[{'name':'v','domains':['*']},{'name':'w','domains':['*']}]}",
     "virtual_hosts[1].domains[0]", "duplicate domain"},
    {SW_TYPE_ROUTE, "{'name':'x','virtual_hosts':[{'name':'v','domains':['a*b']}]}",
     "virtual_hosts[0].domains[0]", TAKEN "not a domain"},
    {SW_TYPE_ROUTE, VHOST("{" TO_C "}"), "virtual_hosts[0].routes[0].match", "missing"},
    {SW_TYPE_ROUTE, AUTHZ_ROUTE(",'disabled':true"), NULL, NULL},
    {SW_TYPE_ROUTE, AUTHZ_ROUTE(""), "virtual_hosts[0].routes[0].typed_per_filter_config[0].value",
     "neither"},
    {SW_TYPE_ROUTE,
     AUTHZ_ROUTE(",'check_settings':{'with_request_body':{},'http_service':{'path_prefix':'x'}}"),
     "virtual_hosts[0].routes[0].typed_per_filter_config[0].value.check_settings.with_request_body."
     "max_request_bytes",
     "above 0"},
    {SW_TYPE_ROUTE, ROUTE("", TO_C), "virtual_hosts[0].routes[0].match", "no path"},
    {SW_TYPE_ROUTE, VHOST("{'match':{'prefix':'/'}}"), "virtual_hosts[0].routes[0]", "no action"},
    {SW_TYPE_ROUTE, ROUTE("'path_separated_prefix':'/'", TO_C),
     "virtual_hosts[0].routes[0].match.path_separated_prefix", "ends in"},
    {SW_TYPE_ROUTE, ROUTE("'path_separated_prefix':'/a/'", TO_C),
     "virtual_hosts[0].routes[0].match.path_separated_prefix", "ends in"},
    {SW_TYPE_ROUTE, ROUTE("'safe_regex':{'regex':'(a'}", TO_C),
     "virtual_hosts[0].routes[0].match.safe_regex.regex", ""},
    {SW_TYPE_ROUTE, ROUTE("'safe_regex':{'regex':'(?=a)b'}", TO_C),
     "virtual_hosts[0].routes[0].match.safe_regex.regex", ""},
    {SW_TYPE_ROUTE, ROUTE("'prefix':'/','headers':[{'string_match':{'exact':'a'}}]", TO_C),
     "virtual_hosts[0].routes[0].match.headers[0].name", "1 to"},
    {SW_TYPE_ROUTE, ROUTE("'prefix':'/','headers':[{'name':'a b','present_match':true}]", TO_C),
     "virtual_hosts[0].routes[0].match.headers[0].name", TAKEN "not the name"},
    {SW_TYPE_ROUTE,
     ROUTE("'prefix':'/','headers':[{'name':'a','string_match':{'exact':'x\\r\\ny'}}]", TO_C),
     "virtual_hosts[0].routes[0].match.headers[0].string_match.exact", TAKEN "CR"},
    {SW_TYPE_ROUTE, ROUTE("'prefix':'/','query_parameters':[{'present_match':true}]", TO_C),
     "virtual_hosts[0].routes[0].match.query_parameters[0].name", "empty"},
    {SW_TYPE_ROUTE, ROUTE("'prefix':'/'", "'route':{}"), "virtual_hosts[0].routes[0].route",
     "no cluster"},
    {SW_TYPE_ROUTE, ROUTE("'prefix':'/'", "'route':{'weighted_clusters':{}}"),
     "virtual_hosts[0].routes[0].route.weighted_clusters.clusters", "empty"},
    {SW_TYPE_ROUTE,
     ROUTE("'prefix':'/'", "'route':{'weighted_clusters':{'clusters':[{'name':'a','weight':0}]}}"),
     "virtual_hosts[0].routes[0].route.weighted_clusters.clusters", "add up to 0"},
    {SW_TYPE_ROUTE,
     ROUTE("'prefix':'/'", "'route':{'weighted_clusters':{'clusters':["
                           "{'name':'a','weight':4294967295},{'name':'b','weight':1}]}}"),
     "virtual_hosts[0].routes[0].route.weighted_clusters.clusters", "4294967296"},
    {SW_TYPE_ROUTE, ROUTE("'prefix':'/'", "'direct_response':{'status':199}"),
     "virtual_hosts[0].routes[0].direct_response.status", "200..599"},
    {SW_TYPE_ROUTE,
     "{'name':'x','max_direct_response_body_size_bytes':2,'virtual_hosts':[{'name':'v','domains':"
     "['*'],'routes':[{'match':{'prefix':'/'},'direct_response':{'status':200,'body':"
     "{'inline_string':'abc'}}}]}]}",
     "virtual_hosts[0].routes[0].direct_response.body", "more than 2"},
    {SW_TYPE_ROUTE, ROUTE("'prefix':'/'", "'redirect':{'port_redirect':99999}"),
     "virtual_hosts[0].routes[0].redirect.port_redirect", TAKEN "65535"},
    {SW_TYPE_ROUTE,
     ROUTE("'prefix':'/'", TO_C ",'request_headers_to_add':[{'header':{'key':':path'}}]"),
     "virtual_hosts[0].routes[0].request_headers_to_add[0].header.key", "may not"},
    {SW_TYPE_ROUTE,
     ROUTE("'prefix':'/'",
           TO_C ",'request_headers_to_add':[{'header':{'key':'a','value':'100%'}}]"),
     "virtual_hosts[0].routes[0].request_headers_to_add[0].header.value", "partner"},
    {SW_TYPE_ROUTE, ROUTE("'prefix':'/'", TO_C ",'request_headers_to_remove':['Host']"),
     "virtual_hosts[0].routes[0].request_headers_to_remove", "may not"},
    {SW_TYPE_ROUTE,
     ROUTE("'prefix':'/'",
           "'route':{'cluster':'c','retry_policy':{'retry_back_off':{'base_interval':'0s'}}}"),
     "virtual_hosts[0].routes[0].route.retry_policy.retry_back_off.base_interval", "above 0"},
    {SW_TYPE_ROUTE,
     ROUTE("'prefix':'/'",
           "'route':{'cluster':'c','request_mirror_policies':[{'cluster':'m','runtime_fraction':"
           "{'default_value':{'numerator':101}}}]}"),
     "virtual_hosts[0].routes[0].route.request_mirror_policies[0].runtime_fraction.default_value."
     "numerator",
     TAKEN "above 100"},
    /* clusters */
    {SW_TYPE_CLUSTER, "{'name':'x','connect_timeout':'1s'," EDS "}", NULL, NULL},
    {SW_TYPE_CLUSTER, "{'name':'x','connect_timeout':'0s'," EDS "}", "connect_timeout", "above 0"},
    {SW_TYPE_CLUSTER, "{'name':'x','type':'EDS'}", "eds_cluster_config", "missing"},
    {SW_TYPE_CLUSTER, "{'name':'x','type':'STATIC'}", "load_assignment", TAKEN "missing"},
    {SW_TYPE_CLUSTER,
     "{'name':'x','type':'STATIC','load_assignment':{'cluster_name':'x','endpoints':[{"
     "'lb_endpoints':[{'endpoint':{'address':{'socket_address':{'address':'a.b','port_value':1}}}}]"
     "}]}}",
     "", "not an IP"},
    {SW_TYPE_CLUSTER, "{'name':'x'," EDS ",'health_checks':[{'tcp_health_check':{}}]}",
     "health_checks[0].timeout", "is missing"},
    {SW_TYPE_CLUSTER,
     "{'name':'x'," EDS ",'transport_socket':{'name':'i','typed_config':{'@type':"
     "'type.googleapis.com/envoy.extensions.transport_sockets.internal_upstream.v3."
     "InternalUpstreamTransport','passthrough_metadata':[{'kind':{'route':{}},'name':'t'}]}}}",
     "transport_socket.typed_config.transport_socket", "missing"},
    {SW_TYPE_CLUSTER,
     "{'name':'x'," EDS ",'transport_socket':{'name':'i','typed_config':{'@type':"
     "'type.googleapis.com/envoy.extensions.transport_sockets.internal_upstream.v3."
     "InternalUpstreamTransport','passthrough_metadata':[{'kind':{'route':{}},'name':'t'}]}}}",
     "transport_socket.typed_config.passthrough_metadata[0]", "host or cluster"},
    /* endpoints */
    {SW_TYPE_ENDPOINT, "{'cluster_name':'x'}", NULL, NULL},
    {SW_TYPE_ENDPOINT, "{'cluster_name':'x','endpoints':[{'load_balancing_weight':0}]}",
     "endpoints[0].load_balancing_weight", "above 0"},
    {SW_TYPE_ENDPOINT,
     "{'cluster_name':'x','endpoints':[{'load_balancing_weight':4294967295},"
     "{'load_balancing_weight':1}]}",
     "endpoints", TAKEN "too much"},
    {SW_TYPE_CLUSTER,
     "{'name':'x','type':'STRICT_DNS','load_assignment':{'cluster_name':'x','endpoints':[{"
     "'lb_endpoints':[{}]}]}}",
     "load_assignment.endpoints[0].lb_endpoints[0]", TAKEN "no endpoint"},
    {SW_TYPE_ENDPOINT, "{'cluster_name':'x','endpoints':[{'lb_endpoints':[{}]}]}",
     "endpoints[0].lb_endpoints[0]", "no endpoint"},
    /* secrets */
    {SW_TYPE_SECRET, "{'name':'x'}", "", "nothing"},
    {SW_TYPE_SECRET, "{'name':'x','tls_certificate':{'certificate_chain':{'inline_string':'c'}}}",
     "tls_certificate.private_key", "missing"},
    {SW_TYPE_SECRET, "{'name':'x','validation_context':{'trusted_ca':{}}}",
     "validation_context.trusted_ca", "no source"},
    /* what a real Envoy was found to refuse besides */
    {SW_TYPE_LISTENER,
     "{'name':'x','address':{'socket_address':{'address':'localhost','port_value':80}},"
     "'filter_chains':[{" PASS "}]}",
     "address.socket_address.address", "not an IP address"},
    {SW_TYPE_LISTENER,
     LISTENER("{'filters':[{'name':'f','typed_config':{" TCP ",'stat_prefix':'s','cluster':'c'}},"
              "{'name':'g','typed_config':{" TCP ",'stat_prefix':'s','cluster':'c'}}]}"),
     "filter_chains[0].filters[0]", "the last"},
    {SW_TYPE_LISTENER,
     FILTER(HCM ",'stat_prefix':'s','route_config':{},'http_filters':[{'name':'z'}," ROUTER "]"),
     "filter_chains[0].filters[0].typed_config.http_filters[0].typed_config", "missing"},
    {SW_TYPE_LISTENER,
     FILTER(HCM ",'stat_prefix':'s','route_config':{},'access_log':[{'name':'a'}],'http_filters':"
                "[" ROUTER "]"),
     "filter_chains[0].filters[0].typed_config.access_log[0].typed_config", "missing"},
    {SW_TYPE_LISTENER,
     FILTER(HCM ",'stat_prefix':'s','route_config':{},'server_header_transformation':7,"
                "'http_filters':[" ROUTER "]"),
     "filter_chains[0].filters[0].typed_config.server_header_transformation", "not defined"},
    {SW_TYPE_LISTENER,
     FILTER(HCM ",'stat_prefix':'s','route_config':{},'http2_protocol_options':"
                "{'initial_stream_window_size':65534},'http_filters':[" ROUTER "]"),
     "filter_chains[0].filters[0].typed_config.http2_protocol_options.initial_stream_window_size",
     "is not in"},
    {SW_TYPE_LISTENER, FILTER(HCM ",'stat_prefix':'s','route_config':{}"),
     "filter_chains[0].filters[0].typed_config.http_filters", TAKEN "empty"},
    {SW_TYPE_LISTENER,
     FILTER(TCP ",'stat_prefix':'s','cluster':'c','tunneling_config':{'hostname':'a%b'}"),
     "filter_chains[0].filters[0].typed_config.tunneling_config.hostname", "partner"},
    {SW_TYPE_LISTENER,
     LISTENER("{'transport_socket':{'name':'envoy.transport_sockets.tls'}," PASS "}"),
     "filter_chains[0].transport_socket.typed_config", "missing"},
    {SW_TYPE_CLUSTER, TO_TLS("'validation_context':{" SAN "}"),
     "transport_socket.typed_config.common_tls_context.validation_context", "trusted_ca"},
    {SW_TYPE_CLUSTER, TO_TLS("'validation_context':{'system_root_certs':{}}"),
     "transport_socket.typed_config.common_tls_context.validation_context.system_root_certs",
     TAKEN "nothing is verified"},
    {SW_TYPE_CLUSTER,
     TO_TLS("'combined_validation_context':{'default_validation_context':{" SAN "}}"),
     "transport_socket.typed_config.common_tls_context.combined_validation_context."
     "validation_context_sds_secret_config",
     "missing"},
    {SW_TYPE_CLUSTER,
     TO_TLS("'tls_certificate_sds_secret_configs':[{'name':'a','sds_config':" ADS
            "},{'name':'b','sds_config':" ADS "}]"),
     "transport_socket.typed_config.common_tls_context", "one certificate"},
    {SW_TYPE_CLUSTER, TO_TLS("'validation_context':{'trust_chain_verification':7}"),
     "transport_socket.typed_config.common_tls_context.validation_context."
     "trust_chain_verification",
     "not defined"},
    {SW_TYPE_CLUSTER, TO_TLS("'validation_context':{'trusted_ca':{'filename':''}}"),
     "transport_socket.typed_config.common_tls_context.validation_context.trusted_ca.filename",
     "empty"},
    {SW_TYPE_ROUTE,
     ROUTE("'prefix':'/'", "'route':{'weighted_clusters':{'clusters':[{'name':'a','weight':1},"
                           "{'name':'b'}]}}"),
     "virtual_hosts[0].routes[0].route.weighted_clusters.clusters[1].weight", "missing"},
    {SW_TYPE_ROUTE,
     ROUTE("'prefix':'/'", "'route':{'cluster':'c','upgrade_configs':[{'upgrade_type':'a'},"
                           "{'upgrade_type':'A'}]}"),
     "virtual_hosts[0].routes[0].route.upgrade_configs", "twice"},
    {SW_TYPE_ROUTE,
     ROUTE("'prefix':'/'", "'route':{'cluster':'c','cluster_not_found_response_code':9}"),
     "virtual_hosts[0].routes[0].route.cluster_not_found_response_code", "not in 0..2"},
    {SW_TYPE_ROUTE, ROUTE("'prefix':'/'", "'redirect':{'prefix_rewrite':'a\\nb'}"),
     "virtual_hosts[0].routes[0].redirect.prefix_rewrite", "CR"},
    {SW_TYPE_ROUTE, ROUTE("'prefix':'/','runtime_fraction':{}", TO_C),
     "virtual_hosts[0].routes[0].match.runtime_fraction.default_value", "missing"},
    {SW_TYPE_ROUTE,
     ROUTE("'prefix':'/'", "'route':{'cluster':'c','retry_policy':{'retry_host_predicate':"
                           "[{'name':'p'}]}}"),
     "virtual_hosts[0].routes[0].route.retry_policy.retry_host_predicate[0].typed_config",
     "missing"},
    {SW_TYPE_ROUTE,
     VHOST("{'match':{'prefix':'/'}," TO_C ",'typed_per_filter_config':{'s':{'@type':"
           "'type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3."
           "StatefulSessionPerRoute','stateful_session':{'session_state':{'name':'mine',"
           "'typed_config':{'@type':'type.googleapis.com/envoy.extensions.http.stateful_session."
           "header.v3.HeaderBasedSessionState','name':'h'}}}}}}"),
     "virtual_hosts[0].routes[0].typed_per_filter_config[0].value.stateful_session."
     "session_state.name",
     "no extension"},
};

static struct sw_slice encode(struct sw_arena *a, const char *type, const char *json)
{
    char *text = sw_arena_dup(a, sw_slice_str(json));
    struct sw_json *v = NULL;
    struct sw_slice bytes = {0};
    struct sw_err err = {0};

    for (char *p = text; *p; p++) {
        if (*p == '\'')
            *p = '"';
    }
    if (sw_json_parse(a, sw_slice_str(text), NULL, &v, &err) != SW_OK ||
        sw_pb_from_json(a, sw_pb_type_find(sw_slice_str(type)), v, &bytes, &err) != SW_OK)
        fail_msg("%s: %s", json, err.msg);
    return bytes;
}

struct expect {
    const char *field;
    const char *text;
    size_t hits;
    size_t n;
    enum sw_xds_severity severity;
    char last[256];
};

static void on_finding(void *arg, const struct sw_xds_finding *f)
{
    struct expect *e = arg;
    char text[256];

    (void)snprintf(text, sizeof(text), "%.*s", SW_SLICE_ARG(f->text));
    (void)snprintf(e->last, sizeof(e->last), "%.*s: %.*s", SW_SLICE_ARG(f->field),
                   SW_SLICE_ARG(f->text));
    e->n++;
    if (e->field && f->severity == e->severity && sw_slice_eq_str(f->field, e->field) &&
        strstr(text, e->text))
        e->hits++;
}

static void each_rule_names_the_field(void **state)
{
    const char *out = getenv("SW_XDS_OUT");
    size_t wrong = 0;

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_model_resource r = {.type = cases[i].type, .name = SW_SLICE_LIT("x")};
        bool taken = cases[i].field && cases[i].text[0] == TAKEN[0];
        bool good = !cases[i].field || taken;
        struct expect e = {.field = cases[i].field,
                           .text = taken ? cases[i].text + 1 : cases[i].text,
                           .severity = taken ? SW_XDS_WARNING : SW_XDS_ERROR};
        size_t errors;

        r.value = encode(&a, cases[i].type, cases[i].json);
        if (out)
            xds_export(out, sw_arena_printf(&a, "lint-%03zu-%s", i, good ? "good" : "bad"),
                       &(struct sw_model_resources){.p = &r, .n = 1});
        errors = sw_xds_lint(&r, 1, NULL, on_finding, &e);
        if ((errors == 0) == good && (!cases[i].field || e.hits == 1))
            continue;
        wrong++;
        print_message("%s\nexpected %s, last of %zu: %s\n", cases[i].json,
                      cases[i].field ? cases[i].field : "nothing", e.n, e.last);
    }
    assert_int_equal(wrong, 0);
}

static void a_wide_route_before_a_narrow_one_is_a_warning(void **state)
{
    static const char json[] = VHOST("{'match':{'path_separated_prefix':'/a'}," TO_C "},"
                                     "{'match':{'path':'/a/b'}," TO_C "}");
    SW_ARENA_AUTO a = {0};
    struct sw_model_resource r = {.type = SW_TYPE_ROUTE, .name = SW_SLICE_LIT("x")};
    struct expect e = {.field = "virtual_hosts[0].routes[1]",
                       .text = "unreachable: shadowed",
                       .severity = SW_XDS_WARNING};

    (void)state;
    r.value = encode(&a, SW_TYPE_ROUTE, json);
    assert_int_equal(sw_xds_lint(&r, 1, NULL, on_finding, &e), 0);
    assert_int_equal(e.hits, 1);
}

static void names_must_exist_in_a_closed_set(void **state)
{
    static const struct sw_xds_lint_opts closed = {.closed = true};
    SW_ARENA_AUTO a = {0};
    struct sw_model_resource r[] = {
        {.type = SW_TYPE_LISTENER, .name = SW_SLICE_LIT("x")},
        {.type = SW_TYPE_CLUSTER, .name = SW_SLICE_LIT("x")},
    };
    struct expect e = {.field = "filter_chains[0].filters[0].typed_config.cluster",
                       .text = "no cluster named 'c'"};

    (void)state;
    r[0].value = encode(&a, SW_TYPE_LISTENER, LISTENER("{" PASS "}"));
    r[1].value = encode(&a, SW_TYPE_CLUSTER, "{'name':'x'," EDS "}");
    assert_int_equal(sw_xds_lint(r, 2, NULL, NULL, NULL), 0);
    assert_int_equal(sw_xds_lint(r, 2, &closed, on_finding, &e), 2);
    assert_int_equal(e.hits, 1);
    assert_string_equal(e.last, "eds_cluster_config.service_name: no endpoint set named 'x'");
}

static void names_are_unique_and_agree(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice bytes = encode(&a, SW_TYPE_ENDPOINT, "{'cluster_name':'x'}");
    struct sw_model_resource r[] = {
        {.type = SW_TYPE_ENDPOINT, .name = SW_SLICE_LIT("x"), .value = bytes},
        {.type = SW_TYPE_ENDPOINT, .name = SW_SLICE_LIT("x"), .value = bytes},
        {.type = SW_TYPE_ENDPOINT, .name = SW_SLICE_LIT("y"), .value = bytes},
    };

    (void)state;
    assert_int_equal(sw_xds_lint(r, 3, NULL, NULL, NULL), 2);
}

static void what_does_not_decode_is_said_so(void **state)
{
    struct sw_model_resource r[] = {
        {.type = SW_TYPE_CLUSTER, .name = SW_SLICE_LIT("x"), .value = SW_SLICE_LIT("\xff")},
        {.type = "type.googleapis.com/nobody.Knows", .name = SW_SLICE_LIT("x")},
    };

    (void)state;
    assert_int_equal(sw_xds_lint(r, 2, NULL, NULL, NULL), 2);
}

static void every_constraint_names_a_field(void **state)
{
    (void)state;
    for (const struct sw_pb_constraint *r = sw_lint_constraints; r->type; r++) {
        const ProtobufCFieldDescriptor *f =
            protobuf_c_message_descriptor_get_field_by_name(r->type, r->field);

        if (!f)
            fail_msg("%s has no field %s", r->type->name, r->field);
        if (r->rule == SW_PB_CHOSEN && !(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
            fail_msg("%s.%s is in no oneof", r->type->name, r->field);
        if (r->rule == SW_PB_DEFINED && f->type != PROTOBUF_C_TYPE_ENUM)
            fail_msg("%s.%s is no enum", r->type->name, r->field);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_names_the_field),
        cmocka_unit_test(every_constraint_names_a_field),
        cmocka_unit_test(a_wide_route_before_a_narrow_one_is_a_warning),
        cmocka_unit_test(names_must_exist_in_a_closed_set),
        cmocka_unit_test(names_are_unique_and_agree),
        cmocka_unit_test(what_does_not_decode_is_said_so),
    };

    return cmocka_run_group_tests_name("gateway lint", tests, NULL, NULL);
}
