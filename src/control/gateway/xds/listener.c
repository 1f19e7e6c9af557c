/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A socket of the model as a Listener: one filter chain per server name, or a default chain, each
 * with an HTTP connection manager that asks for its routes by the chain's name, or a TCP proxy.
 */
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/httpfilter.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/tls.pb-c.h>

#include "base/buf.h"
#include "control/gateway/xds/xds_int.h"
#include "proto/pb.h"
#include "proto/types.h"

enum {
    BUFFER_BYTES = 32768,     /* per connection and direction */
    H2_STREAMS = 100,         /* at once on one connection */
    H2_STREAM_WINDOW = 65536, /* bytes */
    H2_CONN_WINDOW = 1048576,
    HEAD_TIMEOUT_MS = 10000,            /* for all of a request's head */
    STREAM_IDLE_MS = 5 * 60 * 1000,     /* no byte of a request or answer */
    CONN_IDLE_MS = 60 * 60 * 1000,      /* no request */
    UDP_TUNNEL_IDLE_MS = 2 * 60 * 1000, /* RFC 9298, section 3.1: no less */
    UDP_KEPT_DATAGRAMS = 64,            /* per client, until its tunnel stands */
    UDP_KEPT_BYTES = 16384,
};

/* --- HTTP --- */

static Sw__HttpFilter *http_filter(struct enc *e, const char *name,
                                   const struct ProtobufCMessage *config, bool disabled)
{
    Sw__HttpFilter *f = SW_PB_NEW(e->a, Sw__HttpFilter, sw__http_filter);

    SW_GWX_TYPED(e, f, name, SW__HTTP_FILTER__CONFIG_TYPE_TYPED_CONFIG, config);
    f->disabled = disabled;
    return f;
}

/* What is compressed is left to the data plane's defaults: text, not tiny. */
static Sw__HttpFilter *gzip(struct enc *e)
{
    Sw__Compressor *c = SW_PB_NEW(e->a, Sw__Compressor, sw__compressor);
    Sw__GzipCompressor *g = SW_PB_NEW(e->a, Sw__GzipCompressor, sw__gzip_compressor);

    c->compressor_library = SW_PB_NEW(e->a, Sw__TypedExtensionConfig, sw__typed_extension_config);
    c->compressor_library->name = SW_PB_LIT("gzip");
    c->compressor_library->typed_config = sw_pb_any(e->a, &g->base);
    c->response_direction_config = SW_PB_NEW(e->a, Sw__CompressorResponse, sw__compressor_response);
    return http_filter(e, "envoy.filters.http.compressor", &c->base, false);
}

/*
 * The same filters on every chain, whether a route uses them or not: a route that starts to must
 * not change its listener. The router is the last one.
 */
static void set_http_filters(struct enc *e, Sw__HttpConnectionManager *to)
{
    Sw__Cors *cors = SW_PB_NEW(e->a, Sw__Cors, sw__cors);
    Sw__ExtAuthz *auth = SW_PB_NEW(e->a, Sw__ExtAuthz, sw__ext_authz);
    Sw__StatefulSession *session = SW_PB_NEW(e->a, Sw__StatefulSession, sw__stateful_session);
    Sw__Router *router = SW_PB_NEW(e->a, Sw__Router, sw__router);
    Sw__HttpFilter **f;
    size_t n = 0;

    /* A service is required; each route names its own. This one refuses all requests. */
    auth->services_case = SW__EXT_AUTHZ__SERVICES_HTTP_SERVICE;
    auth->http_service = sw_gwx_auth_service(e, SW_SLICE_LIT(SW_MODEL_INVALID_CLUSTER));
    auth->transport_api_version = SW__API_VERSION__V3;
    router->suppress_envoy_headers = true;
    to->http_filters = f = sw_arena_array(e->a, 5, sizeof(*to->http_filters));
    f[n++] = http_filter(e, "envoy.filters.http.cors", &cors->base, false);
    f[n++] = http_filter(e, "envoy.filters.http.ext_authz", &auth->base, true);
    f[n++] = http_filter(e, "envoy.filters.http.stateful_session", &session->base, true);
    if (e->conf->gzip)
        f[n++] = gzip(e);
    f[n++] = http_filter(e, "envoy.filters.http.router", &router->base, false);
    to->n_http_filters = n;
}

static void set_protocol_options(struct enc *e, Sw__HttpConnectionManager *to)
{
    Sw__Http2ProtocolOptions *h2 =
        SW_PB_NEW(e->a, Sw__Http2ProtocolOptions, sw__http2_protocol_options);
    Sw__HttpProtocolOptions *common =
        SW_PB_NEW(e->a, Sw__HttpProtocolOptions, sw__http_protocol_options);

    h2->allow_connect = true; /* WebSocket over HTTP/2 (RFC 8441) */
    h2->max_concurrent_streams = sw_gwx_u32(e, H2_STREAMS);
    h2->initial_stream_window_size = sw_gwx_u32(e, H2_STREAM_WINDOW);
    h2->initial_connection_window_size = sw_gwx_u32(e, H2_CONN_WINDOW);
    to->http2_protocol_options = h2;
    common->headers_with_underscores_action =
        SW__HTTP_PROTOCOL_OPTIONS__HEADERS_WITH_UNDERSCORES_ACTION__REJECT_REQUEST;
    common->idle_timeout = sw_gwx_duration(e, CONN_IDLE_MS);
    to->common_http_protocol_options = common;
    if (e->conf->http10) {
        to->http_protocol_options =
            SW_PB_NEW(e->a, Sw__Http1ProtocolOptions, sw__http1_protocol_options);
        to->http_protocol_options->accept_http_10 = true;
    }
}

static Sw__HttpConnectionManager *manager(struct enc *e, const struct sw_model_chain *c)
{
    Sw__HttpConnectionManager *to =
        SW_PB_NEW(e->a, Sw__HttpConnectionManager, sw__http_connection_manager);

    to->stat_prefix = SW_PB_BYTES(c->name);
    to->route_specifier_case = SW__HTTP_CONNECTION_MANAGER__ROUTE_SPECIFIER_RDS;
    to->rds = SW_PB_NEW(e->a, Sw__Rds, sw__rds);
    to->rds->config_source = sw_gwx_ads(e);
    to->rds->route_config_name = SW_PB_BYTES(c->table->name);
    set_http_filters(e, to);
    set_protocol_options(e, to);
    to->access_log = sw_gwx_access_log(e, &to->n_access_log);
    /* Slow clients hold a connection no longer than this; bodies may take their time. */
    to->request_headers_timeout = sw_gwx_duration(e, HEAD_TIMEOUT_MS);
    to->stream_idle_timeout = sw_gwx_duration(e, STREAM_IDLE_MS);
    to->use_remote_address = sw_gwx_bool(e, true);
    to->normalize_path = sw_gwx_bool(e, true);
    to->merge_slashes = true;
    to->path_with_escaped_slashes_action =
        SW__HTTP_CONNECTION_MANAGER__PATH_WITH_ESCAPED_SLASHES_ACTION__UNESCAPE_AND_REDIRECT;
    to->server_header_transformation =
        SW__HTTP_CONNECTION_MANAGER__SERVER_HEADER_TRANSFORMATION__PASS_THROUGH;
    to->via = SW_PB_BYTES(e->conf->via);
    return to;
}

/* --- TCP --- */

/* A connection to a cluster that does not exist is closed: that is what is wanted without one. */
static void set_tcp_clusters(struct enc *e, const struct sw_model_chain *c, Sw__TcpProxy *to)
{
    Sw__TcpProxy__WeightedCluster *w =
        SW_PB_NEW(e->a, Sw__TcpProxy__WeightedCluster, sw__tcp_proxy__weighted_cluster);

    w->clusters = sw_arena_array(e->a, c->n_backends + 1, sizeof(*w->clusters));
    for (size_t i = 0; c->kind == SW_MODEL_CHAIN_L4 && i < c->n_backends; i++) {
        Sw__TcpProxy__WeightedCluster__ClusterWeight *one;

        if (c->backends[i].weight == 0)
            continue;
        one = SW_PB_NEW(e->a, Sw__TcpProxy__WeightedCluster__ClusterWeight,
                        sw__tcp_proxy__weighted_cluster__cluster_weight);
        one->name = SW_PB_BYTES(sw_gwx_cluster_of(&c->backends[i]));
        one->weight = c->backends[i].weight;
        w->clusters[w->n_clusters++] = one;
    }
    if (w->n_clusters > 1) {
        to->cluster_specifier_case = SW__TCP_PROXY__CLUSTER_SPECIFIER_WEIGHTED_CLUSTERS;
        to->weighted_clusters = w;
        return;
    }
    to->cluster_specifier_case = SW__TCP_PROXY__CLUSTER_SPECIFIER_CLUSTER;
    to->cluster = w->n_clusters ? w->clusters[0]->name : SW_PB_LIT(SW_MODEL_INVALID_CLUSTER);
}

static Sw__TcpProxy *tcp_proxy(struct enc *e, const struct sw_model_chain *c)
{
    Sw__TcpProxy *to = SW_PB_NEW(e->a, Sw__TcpProxy, sw__tcp_proxy);

    to->stat_prefix = SW_PB_BYTES(c->name);
    set_tcp_clusters(e, c, to);
    to->access_log = sw_gwx_access_log(e, &to->n_access_log);
    return to;
}

/* --- TLS --- */

static void set_client_validation(struct enc *e, const struct sw_model_chain *c,
                                  Sw__DownstreamTlsContext *to)
{
    Sw__CommonTlsContext *common = to->common_tls_context;
    Sw__CommonTlsContext__CombinedCertificateValidationContext *both;

    switch (c->client_mode) {
    case SW_MODEL_CLIENT_NONE:
        return;
    case SW_MODEL_CLIENT_REQUIRE:
        common->validation_context_type_case =
            SW__COMMON_TLS_CONTEXT__VALIDATION_CONTEXT_TYPE_VALIDATION_CONTEXT_SDS_SECRET_CONFIG;
        common->validation_context_sds_secret_config = sw_gwx_sds(e, c->client_ca);
        to->require_client_certificate = sw_gwx_bool(e, true);
        return;
    case SW_MODEL_CLIENT_INSECURE:
        both = SW_PB_NEW(e->a, Sw__CommonTlsContext__CombinedCertificateValidationContext,
                         sw__common_tls_context__combined_certificate_validation_context);
        both->default_validation_context =
            SW_PB_NEW(e->a, Sw__CertificateValidationContext, sw__certificate_validation_context);
        both->default_validation_context->trust_chain_verification =
            SW__CERTIFICATE_VALIDATION_CONTEXT__TRUST_CHAIN_VERIFICATION__ACCEPT_UNTRUSTED;
        both->validation_context_sds_secret_config = sw_gwx_sds(e, c->client_ca);
        common->validation_context_type_case =
            SW__COMMON_TLS_CONTEXT__VALIDATION_CONTEXT_TYPE_COMBINED_VALIDATION_CONTEXT;
        common->combined_validation_context = both;
        to->require_client_certificate = sw_gwx_bool(e, false);
        return;
    }
}

static Sw__TransportSocket *terminate(struct enc *e, const struct sw_model_chain *c)
{
    Sw__DownstreamTlsContext *to =
        SW_PB_NEW(e->a, Sw__DownstreamTlsContext, sw__downstream_tls_context);
    Sw__CommonTlsContext *common = SW_PB_NEW(e->a, Sw__CommonTlsContext, sw__common_tls_context);

    to->common_tls_context = common;
    common->tls_certificate_sds_secret_configs =
        sw_arena_array(e->a, c->n_certs + 1, sizeof(*common->tls_certificate_sds_secret_configs));
    for (size_t i = 0; i < c->n_certs; i++)
        common->tls_certificate_sds_secret_configs[i] = sw_gwx_sds(e, c->certs[i]);
    common->n_tls_certificate_sds_secret_configs = c->n_certs;
    if (c->alpn_http) {
        common->alpn_protocols = sw_arena_array(e->a, 2, sizeof(*common->alpn_protocols));
        common->alpn_protocols[0] = SW_PB_LIT("h2");
        common->alpn_protocols[1] = SW_PB_LIT("http/1.1");
        common->n_alpn_protocols = 2;
    }
    set_client_validation(e, c, to);
    return sw_gwx_socket(e, "envoy.transport_sockets.tls", &to->base);
}

/* --- chains --- */

static Sw__Filter *filter(struct enc *e, const char *name, const struct ProtobufCMessage *config)
{
    Sw__Filter *f = SW_PB_NEW(e->a, Sw__Filter, sw__filter);

    SW_GWX_TYPED(e, f, name, SW__FILTER__CONFIG_TYPE_TYPED_CONFIG, config);
    return f;
}

static Sw__FilterChain *chain(struct enc *e, const struct sw_model_chain *c)
{
    Sw__FilterChain *to = SW_PB_NEW(e->a, Sw__FilterChain, sw__filter_chain);
    Sw__Filter *f = NULL;

    to->name = SW_PB_BYTES(c->name);
    switch (c->kind) {
    case SW_MODEL_CHAIN_HTTP:
        f = filter(e, "envoy.filters.network.http_connection_manager", &manager(e, c)->base);
        break;
    case SW_MODEL_CHAIN_L4:
    case SW_MODEL_CHAIN_REFUSE:
        f = filter(e, "envoy.filters.network.tcp_proxy", &tcp_proxy(e, c)->base);
        break;
    }
    SW_GWX_ONE(e, to, filters, f);
    /* A chain that refuses has nothing to show: closed before a handshake begins. */
    if (c->tls == SW_MODEL_TLS_TERMINATE && c->kind != SW_MODEL_CHAIN_REFUSE)
        to->transport_socket = terminate(e, c);
    return to;
}

static Sw__FilterChainMatch *server_names(struct enc *e, const struct sw_model_chain *c)
{
    Sw__FilterChainMatch *m = SW_PB_NEW(e->a, Sw__FilterChainMatch, sw__filter_chain_match);

    if (c->n_server_names == 0) {
        m->transport_protocol = SW_PB_LIT("tls");
        return m;
    }
    m->server_names = sw_arena_array(e->a, c->n_server_names, sizeof(*m->server_names));
    for (size_t i = 0; i < c->n_server_names; i++)
        m->server_names[i] = SW_PB_BYTES(c->server_names[i]);
    m->n_server_names = c->n_server_names;
    return m;
}

static bool has_plain(const struct sw_model_listener *l)
{
    for (size_t i = 0; i < l->n_chains; i++) {
        if (l->chains[i]->tls == SW_MODEL_TLS_NONE)
            return true;
    }
    return false;
}

static void set_chains(struct enc *e, const struct sw_model_listener *l, Sw__Listener *to)
{
    bool plain = has_plain(l);

    to->filter_chains = sw_arena_array(e->a, l->n_chains + 1, sizeof(*to->filter_chains));
    for (size_t i = 0; i < l->n_chains; i++) {
        const struct sw_model_chain *c = l->chains[i];
        Sw__FilterChain *fc = chain(e, c);

        /* What nothing else takes: plain bytes if a chain takes them, else any server name. */
        if (c->tls == SW_MODEL_TLS_NONE || (c->n_server_names == 0 && !plain)) {
            to->default_filter_chain = fc;
            continue;
        }
        fc->filter_chain_match = server_names(e, c);
        to->filter_chains[to->n_filter_chains++] = fc;
    }
}

/* --- UDP --- */

bool sw_gwx_udp_split(const struct sw_model_chain *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n_backends; i++)
        n += c->backends[i].cluster && c->backends[i].weight;
    return n > 1;
}

struct sw_slice sw_gwx_udp_cluster_name(struct sw_arena *a, const struct sw_model_chain *c)
{
    return sw_slice_str(sw_arena_printf(a, "split/%.*s", SW_SLICE_ARG(c->name)));
}

/* Where all datagrams of a chain that does not split go; NULL: nowhere. */
static const struct sw_model_cluster *udp_only(const struct sw_model_chain *c)
{
    for (size_t i = 0; i < c->n_backends; i++) {
        if (c->backends[i].cluster && c->backends[i].weight)
            return c->backends[i].cluster;
    }
    return NULL;
}

static struct sw_slice udp_target(struct enc *e, const struct sw_model_chain *c)
{
    const struct sw_model_cluster *only = udp_only(c);

    if (sw_gwx_udp_split(c))
        return sw_gwx_udp_cluster_name(e->a, c);
    if (!only || (only->tunnel && !only->udp_id.n))
        return SW_SLICE_LIT(SW_MODEL_INVALID_CLUSTER);
    return only->tunnel ? SW_SLICE_LIT(SW_MODEL_CONNECT_PROXY_UDP) : only->name;
}

static Sw__ListenerFilter *listener_filter(struct enc *e, const char *name,
                                           const struct ProtobufCMessage *config)
{
    Sw__ListenerFilter *f = SW_PB_NEW(e->a, Sw__ListenerFilter, sw__listener_filter);

    SW_GWX_TYPED(e, f, name, SW__LISTENER_FILTER__CONFIG_TYPE_TYPED_CONFIG, config);
    return f;
}

/* The header that tells the proxy on the way which connector is meant. */
static Sw__HeaderValueOption *endpoint_header(struct enc *e, struct sw_slice value)
{
    Sw__HeaderValueOption *id = SW_PB_NEW(e->a, Sw__HeaderValueOption, sw__header_value_option);

    id->header = SW_PB_NEW(e->a, Sw__HeaderValue, sw__header_value);
    id->header->key = SW_PB_LIT("x-iroh-endpoint-id");
    id->header->value = SW_PB_BYTES(value);
    id->append_action = SW__HEADER_VALUE_OPTION__HEADER_APPEND_ACTION__OVERWRITE_IF_EXISTS_OR_ADD;
    return id;
}

/* CONNECT-UDP to a connector: capsules, and a little room until the tunnel stands. */
static void set_udp_tunnel(struct enc *e, const struct sw_model_cluster *c, Sw__UdpProxyConfig *to)
{
    Sw__UdpProxyConfig__UdpTunnelingConfig *t = SW_PB_NEW(
        e->a, Sw__UdpProxyConfig__UdpTunnelingConfig, sw__udp_proxy_config__udp_tunneling_config);
    Sw__UdpProxyConfig__UdpTunnelingConfig__BufferOptions *room =
        SW_PB_NEW(e->a, Sw__UdpProxyConfig__UdpTunnelingConfig__BufferOptions,
                  sw__udp_proxy_config__udp_tunneling_config__buffer_options);
    Sw__UdpProxyConfig__SessionFilter *f =
        SW_PB_NEW(e->a, Sw__UdpProxyConfig__SessionFilter, sw__udp_proxy_config__session_filter);

    room->max_buffered_datagrams = sw_gwx_u32(e, UDP_KEPT_DATAGRAMS);
    room->max_buffered_bytes = SW_PB_NEW(e->a, Sw__UInt64Value, sw__uint64_value);
    room->max_buffered_bytes->value = UDP_KEPT_BYTES;
    t->proxy_host = SW_PB_LIT("connector.local");
    t->target_host = SW_PB_BYTES(c->udp_host);
    t->default_target_port = c->udp_port;
    SW_GWX_ONE(e, t, headers_to_add, endpoint_header(e, c->udp_id));
    t->buffer_options = room;
    SW_GWX_TYPED(e, f, "envoy.filters.udp.session.http_capsule",
                 SW__UDP_PROXY_CONFIG__SESSION_FILTER__CONFIG_TYPE_TYPED_CONFIG,
                 &SW_PB_NEW(e->a, Sw__HttpCapsule, sw__http_capsule)->base);
    SW_GWX_ONE(e, to, session_filters, f);
    to->tunneling_config = t;
    to->idle_timeout = sw_gwx_duration(e, UDP_TUNNEL_IDLE_MS);
}

static Sw__ListenerFilter *udp_proxy(struct enc *e, const struct sw_model_chain *c)
{
    const struct sw_model_cluster *only = sw_gwx_udp_split(c) ? NULL : udp_only(c);
    Sw__UdpRoute *route = SW_PB_NEW(e->a, Sw__UdpRoute, sw__udp_route);
    Sw__TypedExtensionConfig *action =
        SW_PB_NEW(e->a, Sw__TypedExtensionConfig, sw__typed_extension_config);
    Sw__UdpProxyConfig *to = SW_PB_NEW(e->a, Sw__UdpProxyConfig, sw__udp_proxy_config);

    route->cluster_specifier_case = SW__UDP_ROUTE__CLUSTER_SPECIFIER_CLUSTER;
    route->cluster = SW_PB_BYTES(udp_target(e, c));
    action->name = SW_PB_LIT("route");
    action->typed_config = sw_pb_any(e->a, &route->base);
    to->stat_prefix = SW_PB_BYTES(c->name);
    to->route_specifier_case = SW__UDP_PROXY_CONFIG__ROUTE_SPECIFIER_MATCHER;
    to->matcher = SW_PB_NEW(e->a, Sw__Matcher, sw__matcher);
    to->matcher->on_no_match = SW_PB_NEW(e->a, Sw__Matcher__OnMatch, sw__matcher__on_match);
    to->matcher->on_no_match->on_match_case = SW__MATCHER__ON_MATCH__ON_MATCH_ACTION;
    to->matcher->on_no_match->action = action;
    if (sw_model_is_udp_tunnel(only) && only->udp_id.n)
        set_udp_tunnel(e, only, to);
    to->access_log = sw_gwx_access_log(e, &to->n_access_log);
    return listener_filter(e, "envoy.filters.udp_listener.udp_proxy", &to->base);
}

/* --- listeners --- */

void sw_gwx_encode_listener(struct enc *e, const struct sw_model_listener *l)
{
    Sw__Listener *to = SW_PB_NEW(e->a, Sw__Listener, sw__listener);

    if (l->n_chains == 0)
        return; /* nothing to serve: the port stays closed */
    to->name = SW_PB_BYTES(l->name);
    to->address = sw_gwx_address(e, l->bind, l->bind_port, l->udp);
    to->address->socket_address->ipv4_compat = sw_slice_eq_str(l->bind, "::");
    if (l->udp) {
        SW_GWX_ONE(e, to, listener_filters, udp_proxy(e, l->chains[0]));
    } else {
        set_chains(e, l, to);
        to->per_connection_buffer_limit_bytes = sw_gwx_u32(e, BUFFER_BYTES);
        if (l->inspect_tls) {
            Sw__TlsInspector *t = SW_PB_NEW(e->a, Sw__TlsInspector, sw__tls_inspector);

            SW_GWX_ONE(e, to, listener_filters,
                       listener_filter(e, "envoy.filters.listener.tls_inspector", &t->base));
        }
    }
    sw_gwx_enc_add(e, SW_TYPE_LISTENER, l->name, &to->base);
}

/*
 * The listener inside the process that connector traffic passes: whom to ask for, and what, comes
 * with the endpoint's metadata, so one listener serves them all.
 */
Sw__Listener *sw_gwx_tunnel_listener(struct enc *e)
{
    Sw__Listener *to = SW_PB_NEW(e->a, Sw__Listener, sw__listener);
    Sw__TcpProxy *tcp = SW_PB_NEW(e->a, Sw__TcpProxy, sw__tcp_proxy);
    Sw__FilterChain *fc = SW_PB_NEW(e->a, Sw__FilterChain, sw__filter_chain);
    Sw__TcpProxy__TunnelingConfig *t =
        SW_PB_NEW(e->a, Sw__TcpProxy__TunnelingConfig, sw__tcp_proxy__tunneling_config);

    t->hostname = SW_PB_LIT("%DYNAMIC_METADATA(tunnel:address)%");
    SW_GWX_ONE(e, t, headers_to_add,
               endpoint_header(e, SW_SLICE_LIT("%DYNAMIC_METADATA(tunnel:endpoint_id)%")));
    tcp->stat_prefix = SW_PB_LIT(SW_MODEL_TUNNEL_LISTENER);
    tcp->cluster_specifier_case = SW__TCP_PROXY__CLUSTER_SPECIFIER_CLUSTER;
    tcp->cluster = SW_PB_LIT(SW_MODEL_CONNECT_PROXY);
    tcp->tunneling_config = t;
    tcp->access_log = sw_gwx_access_log(e, &tcp->n_access_log);
    fc->name = SW_PB_LIT(SW_MODEL_TUNNEL_LISTENER);
    SW_GWX_ONE(e, fc, filters, filter(e, "envoy.filters.network.tcp_proxy", &tcp->base));
    to->name = SW_PB_LIT(SW_MODEL_TUNNEL_LISTENER);
    SW_GWX_ONE(e, to, filter_chains, fc);
    to->listener_specifier_case = SW__LISTENER__LISTENER_SPECIFIER_INTERNAL_LISTENER;
    to->internal_listener = SW_PB_NEW(e->a, Sw__Listener__InternalListenerConfig,
                                      sw__listener__internal_listener_config);
    return to;
}
