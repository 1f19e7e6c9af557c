/* SPDX-License-Identifier: Apache-2.0 */
/* The table of types that travel in an Any. */
#include "proto/types.h"

#include <assert.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include <proto/accesslog.pb-c.h>
#include <proto/authorization.pb-c.h>
#include <proto/bootstrap.pb-c.h>
#include <proto/cluster.pb-c.h>
#include <proto/discovery.pb-c.h>
#include <proto/endpoint.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/hcm.pb-c.h>
#include <proto/httpfilter.pb-c.h>
#include <proto/l4.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/route.pb-c.h>
#include <proto/tls.pb-c.h>
#include <proto/workload.pb-c.h>

#include "proto/pb.h"

#define ENVOY "envoy.extensions."
#define LB    ENVOY "load_balancing_policies."

static const struct {
    const char *name;
    const ProtobufCMessageDescriptor *type;
} types[] = {
    {"envoy.config.listener.v3.Listener", &sw__listener__descriptor},
    {"envoy.config.route.v3.RouteConfiguration", &sw__route_configuration__descriptor},
    {"envoy.config.cluster.v3.Cluster", &sw__cluster__descriptor},
    {"envoy.config.endpoint.v3.ClusterLoadAssignment", &sw__cluster_load_assignment__descriptor},
    {ENVOY "transport_sockets.tls.v3.Secret", &sw__secret__descriptor},
    {"istio.workload.Address", &sw__mesh_address__descriptor},
    {"istio.workload.Workload", &sw__mesh_workload__descriptor},
    {"istio.security.Authorization", &sw__mesh_authorization__descriptor},
    {"envoy.config.bootstrap.v3.Bootstrap", &sw__bootstrap__descriptor},
    {ENVOY "filters.network.http_connection_manager.v3.HttpConnectionManager",
     &sw__http_connection_manager__descriptor},
    {ENVOY "filters.network.tcp_proxy.v3.TcpProxy", &sw__tcp_proxy__descriptor},
    {ENVOY "network.dns_resolver.getaddrinfo.v3.GetAddrInfoDnsResolverConfig",
     &sw__get_addr_info_dns_resolver__descriptor},
    {ENVOY "filters.network.set_filter_state.v3.Config", &sw__network_set_filter_state__descriptor},
    {ENVOY "filters.http.set_filter_state.v3.Config", &sw__http_set_filter_state__descriptor},
    {ENVOY "filters.http.router.v3.Router", &sw__router__descriptor},
    {ENVOY "filters.http.health_check.v3.HealthCheck", &sw__health_check_filter__descriptor},
    {ENVOY "filters.http.local_ratelimit.v3.LocalRateLimit", &sw__local_rate_limit__descriptor},
    {ENVOY "filters.http.lua.v3.Lua", &sw__lua_filter__descriptor},
    {ENVOY "filters.http.compressor.v3.Compressor", &sw__compressor__descriptor},
    {ENVOY "filters.http.compressor.v3.CompressorPerRoute", &sw__compressor_per_route__descriptor},
    {ENVOY "compression.gzip.compressor.v3.Gzip", &sw__gzip_compressor__descriptor},
    {ENVOY "filters.http.cors.v3.Cors", &sw__cors__descriptor},
    {ENVOY "filters.http.cors.v3.CorsPolicy", &sw__cors_policy__descriptor},
    {ENVOY "filters.http.ext_authz.v3.ExtAuthz", &sw__ext_authz__descriptor},
    {ENVOY "filters.http.ext_authz.v3.ExtAuthzPerRoute", &sw__ext_authz_per_route__descriptor},
    {ENVOY "filters.http.stateful_session.v3.StatefulSession", &sw__stateful_session__descriptor},
    {ENVOY "filters.http.stateful_session.v3.StatefulSessionPerRoute",
     &sw__stateful_session_per_route__descriptor},
    {ENVOY "http.stateful_session.cookie.v3.CookieBasedSessionState",
     &sw__cookie_based_session_state__descriptor},
    {ENVOY "http.stateful_session.header.v3.HeaderBasedSessionState",
     &sw__header_based_session_state__descriptor},
    {ENVOY "filters.udp.udp_proxy.v3.UdpProxyConfig", &sw__udp_proxy_config__descriptor},
    {ENVOY "filters.udp.udp_proxy.v3.Route", &sw__udp_route__descriptor},
    {ENVOY "filters.udp.udp_proxy.session.http_capsule.v3.FilterConfig",
     &sw__http_capsule__descriptor},
    {ENVOY "filters.listener.tls_inspector.v3.TlsInspector", &sw__tls_inspector__descriptor},
    {ENVOY "filters.listener.proxy_protocol.v3.ProxyProtocol", &sw__proxy_protocol__descriptor},
    {ENVOY "transport_sockets.tls.v3.DownstreamTlsContext",
     &sw__downstream_tls_context__descriptor},
    {ENVOY "transport_sockets.tls.v3.UpstreamTlsContext", &sw__upstream_tls_context__descriptor},
    {ENVOY "transport_sockets.raw_buffer.v3.RawBuffer", &sw__raw_buffer__descriptor},
    {ENVOY "transport_sockets.internal_upstream.v3.InternalUpstreamTransport",
     &sw__internal_upstream_transport__descriptor},
    {ENVOY "bootstrap.internal_listener.v3.InternalListener", &sw__internal_listener__descriptor},
    {ENVOY "upstreams.http.v3.HttpProtocolOptions", &sw__upstream_protocol_options__descriptor},
    {ENVOY "access_loggers.file.v3.FileAccessLog", &sw__file_access_log__descriptor},
    {ENVOY "access_loggers.stream.v3.StdoutAccessLog", &sw__stdout_access_log__descriptor},
    {ENVOY "access_loggers.stream.v3.StderrAccessLog", &sw__stderr_access_log__descriptor},
    {ENVOY "access_loggers.grpc.v3.HttpGrpcAccessLogConfig",
     &sw__http_grpc_access_log_config__descriptor},
    {ENVOY "access_loggers.grpc.v3.TcpGrpcAccessLogConfig",
     &sw__tcp_grpc_access_log_config__descriptor},
    {ENVOY "retry.host.previous_hosts.v3.PreviousHostsPredicate",
     &sw__previous_hosts_predicate__descriptor},
    {LB "least_request.v3.LeastRequest", &sw__lb_least_request__descriptor},
    {LB "round_robin.v3.RoundRobin", &sw__lb_round_robin__descriptor},
    {LB "random.v3.Random", &sw__lb_random__descriptor},
    {LB "ring_hash.v3.RingHash", &sw__lb_ring_hash__descriptor},
    {LB "maglev.v3.Maglev", &sw__lb_maglev__descriptor},
    {LB "wrr_locality.v3.WrrLocality", &sw__lb_wrr_locality__descriptor},
    {LB "cluster_provided.v3.ClusterProvided", &sw__lb_cluster_provided__descriptor},
    {ENVOY "clusters.dns.v3.DnsCluster", &sw__dns_cluster__descriptor},
    {"envoy.config.route.v3.FilterConfig", &sw__filter_config__descriptor},
    {"envoy.service.discovery.v3.DiscoveryRequest", &sw__discovery_request__descriptor},
    {"envoy.service.discovery.v3.DiscoveryResponse", &sw__discovery_response__descriptor},
    {"envoy.service.discovery.v3.DeltaDiscoveryRequest", &sw__delta_discovery_request__descriptor},
    {"envoy.service.discovery.v3.DeltaDiscoveryResponse",
     &sw__delta_discovery_response__descriptor},
};

const struct ProtobufCMessageDescriptor *sw_pb_type_find(struct sw_slice type_url)
{
    struct sw_slice name = sw_pb_type_name(type_url);

    for (size_t i = 0; i < SW_ARRAY_LEN(types); i++) {
        if (sw_slice_eq_str(name, types[i].name))
            return types[i].type;
    }
    return NULL;
}

const char *sw_pb_type_of(const struct ProtobufCMessageDescriptor *type)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(types); i++) {
        if (types[i].type == type)
            return types[i].name;
    }
    return NULL;
}

struct Sw__Any *sw_pb_any(struct sw_arena *a, const struct ProtobufCMessage *m)
{
    Sw__Any *any = SW_PB_NEW(a, Sw__Any, sw__any);
    const char *name = sw_pb_type_of(m->descriptor);

    assert(name);
    any->type_url = SW_PB_BYTES(sw_slice_str(sw_arena_printf(a, SW_TYPE_PREFIX "%s", name)));
    any->value = SW_PB_BYTES(sw_pb_pack(a, m));
    return any;
}

bool sw_pb_any_is(const struct Sw__Any *any, const struct ProtobufCMessageDescriptor *type)
{
    const char *name = sw_pb_type_of(type);

    return any && name && sw_slice_eq_str(sw_pb_type_name(SW_PB_SLICE(any->type_url)), name);
}

struct ProtobufCMessage *sw_pb_any_unpack(struct sw_arena *a, const struct Sw__Any *any,
                                          const struct ProtobufCMessageDescriptor *type,
                                          const struct sw_pb_limits *limits, struct sw_err *err)
{
    if (!sw_pb_any_is(any, type)) {
        struct sw_slice is =
            any ? sw_slice_head(SW_PB_SLICE(any->type_url), 100) : SW_SLICE_LIT("nothing");

        (void)sw_err_set(err, SW_EPROTO, "expected '%s', found '%.*s'", type->short_name,
                         SW_SLICE_ARG(is));
        return NULL;
    }
    return sw_pb_unpack(a, type, SW_PB_SLICE(any->value), limits, err);
}
