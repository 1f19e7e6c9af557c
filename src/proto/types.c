/* SPDX-License-Identifier: Apache-2.0 */
/* The table of types that travel in an Any. */
#include "proto/types.h"

#include <assert.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include <proto/cluster.pb-c.h>
#include <proto/discovery.pb-c.h>
#include <proto/extension.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/httpfilter.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/route.pb-c.h>
#include <proto/tls.pb-c.h>
#include <proto/workload.pb-c.h>

#include "proto/pb.h"

#define ENVOY "envoy.extensions."
#define LB    ENVOY "load_balancing_policies."
#define T(name, message)                                                                           \
    {                                                                                              \
        name, &sw__##message##__descriptor                                                         \
    }

static const struct {
    const char *name;
    const ProtobufCMessageDescriptor *type;
} types[] = {
    T("envoy.config.listener.v3.Listener", listener),
    T("envoy.config.route.v3.RouteConfiguration", route_configuration),
    T("envoy.config.cluster.v3.Cluster", cluster),
    T("envoy.config.endpoint.v3.ClusterLoadAssignment", cluster_load_assignment),
    T(ENVOY "transport_sockets.tls.v3.Secret", secret),
    T("istio.workload.Address", mesh_address),
    T("istio.workload.Workload", mesh_workload),
    T("istio.security.Authorization", mesh_authorization),
    T("envoy.config.bootstrap.v3.Bootstrap", bootstrap),
    T(ENVOY "filters.network.http_connection_manager.v3.HttpConnectionManager",
      http_connection_manager),
    T(ENVOY "filters.network.tcp_proxy.v3.TcpProxy", tcp_proxy),
    T(ENVOY "network.dns_resolver.getaddrinfo.v3.GetAddrInfoDnsResolverConfig",
      get_addr_info_dns_resolver),
    T(ENVOY "filters.network.set_filter_state.v3.Config", network_set_filter_state),
    T(ENVOY "filters.http.set_filter_state.v3.Config", http_set_filter_state),
    T(ENVOY "filters.http.router.v3.Router", router),
    T(ENVOY "filters.http.health_check.v3.HealthCheck", health_check_filter),
    T(ENVOY "filters.http.local_ratelimit.v3.LocalRateLimit", local_rate_limit),
    T(ENVOY "filters.http.lua.v3.Lua", lua_filter),
    T(ENVOY "filters.http.compressor.v3.Compressor", compressor),
    T(ENVOY "filters.http.compressor.v3.CompressorPerRoute", compressor_per_route),
    T(ENVOY "compression.gzip.compressor.v3.Gzip", gzip_compressor),
    T(ENVOY "filters.http.cors.v3.Cors", cors),
    T(ENVOY "filters.http.cors.v3.CorsPolicy", cors_policy),
    T(ENVOY "filters.http.ext_authz.v3.ExtAuthz", ext_authz),
    T(ENVOY "filters.http.ext_authz.v3.ExtAuthzPerRoute", ext_authz_per_route),
    T(ENVOY "filters.http.stateful_session.v3.StatefulSession", stateful_session),
    T(ENVOY "filters.http.stateful_session.v3.StatefulSessionPerRoute", stateful_session_per_route),
    T(ENVOY "http.stateful_session.cookie.v3.CookieBasedSessionState", cookie_based_session_state),
    T(ENVOY "http.stateful_session.header.v3.HeaderBasedSessionState", header_based_session_state),
    T(ENVOY "filters.udp.udp_proxy.v3.UdpProxyConfig", udp_proxy_config),
    T(ENVOY "filters.udp.udp_proxy.v3.Route", udp_route),
    T(ENVOY "filters.udp.udp_proxy.session.http_capsule.v3.FilterConfig", http_capsule),
    T(ENVOY "filters.listener.tls_inspector.v3.TlsInspector", tls_inspector),
    T(ENVOY "filters.listener.proxy_protocol.v3.ProxyProtocol", proxy_protocol),
    T(ENVOY "transport_sockets.tls.v3.DownstreamTlsContext", downstream_tls_context),
    T(ENVOY "transport_sockets.tls.v3.UpstreamTlsContext", upstream_tls_context),
    T(ENVOY "transport_sockets.raw_buffer.v3.RawBuffer", raw_buffer),
    T(ENVOY "transport_sockets.internal_upstream.v3.InternalUpstreamTransport",
      internal_upstream_transport),
    T(ENVOY "bootstrap.internal_listener.v3.InternalListener", internal_listener),
    T(ENVOY "upstreams.http.v3.HttpProtocolOptions", upstream_protocol_options),
    T(ENVOY "access_loggers.file.v3.FileAccessLog", file_access_log),
    T(ENVOY "access_loggers.stream.v3.StdoutAccessLog", stdout_access_log),
    T(ENVOY "access_loggers.stream.v3.StderrAccessLog", stderr_access_log),
    T(ENVOY "access_loggers.grpc.v3.HttpGrpcAccessLogConfig", http_grpc_access_log_config),
    T(ENVOY "access_loggers.grpc.v3.TcpGrpcAccessLogConfig", tcp_grpc_access_log_config),
    T(ENVOY "retry.host.previous_hosts.v3.PreviousHostsPredicate", previous_hosts_predicate),
    T(LB "least_request.v3.LeastRequest", lb_least_request),
    T(LB "round_robin.v3.RoundRobin", lb_round_robin),
    T(LB "random.v3.Random", lb_random),
    T(LB "ring_hash.v3.RingHash", lb_ring_hash),
    T(LB "maglev.v3.Maglev", lb_maglev),
    T(LB "wrr_locality.v3.WrrLocality", lb_wrr_locality),
    T(LB "cluster_provided.v3.ClusterProvided", lb_cluster_provided),
    T(ENVOY "clusters.dns.v3.DnsCluster", dns_cluster),
    T("envoy.config.route.v3.FilterConfig", filter_config),
    T("envoy.service.discovery.v3.DiscoveryRequest", discovery_request),
    T("envoy.service.discovery.v3.DiscoveryResponse", discovery_response),
    T("envoy.service.discovery.v3.DeltaDiscoveryRequest", delta_discovery_request),
    T("envoy.service.discovery.v3.DeltaDiscoveryResponse", delta_discovery_response),
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
