/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters of the model, and those that only Envoy needs. Endpoints come by themselves (EDS). */
#include <stdlib.h>

#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/tls.pb-c.h>

#include "base/buf.h"
#include "control/gateway/xds/xds_int.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "xds/limits.h"

enum {
    CONNECT_MS = 10000,
    BUFFER_BYTES = 32768,
    MAX_CONNECTIONS = 65536, /* per cluster; Envoy's own 1024 is meant for a mesh of small ones */
    MAX_REQUESTS = 65536,
    MIN_RETRIES = 10, /* at once, before the budget of a fifth of the requests counts */
    PROXY_PORT = 15040,
};

/* --- TLS to the backend --- */

static void set_sans(struct enc *e, const struct sw_model_backend_tls *t,
                     Sw__CertificateValidationContext *to)
{
    to->match_typed_subject_alt_names =
        sw_arena_array(e->a, t->n_sans + 1, sizeof(*to->match_typed_subject_alt_names));
    for (size_t i = 0; i < t->n_sans; i++) {
        Sw__SubjectAltNameMatcher *m =
            SW_PB_NEW(e->a, Sw__SubjectAltNameMatcher, sw__subject_alt_name_matcher);

        switch (t->sans[i].kind) {
        case SW_MODEL_SAN_DNS:
            m->san_type = SW__SUBJECT_ALT_NAME_MATCHER__SAN_TYPE__DNS;
            break;
        case SW_MODEL_SAN_URI:
            m->san_type = SW__SUBJECT_ALT_NAME_MATCHER__SAN_TYPE__URI;
            break;
        }
        m->matcher = sw_gwx_string_match(e, SW_MODEL_MATCH_EXACT, t->sans[i].value);
        to->match_typed_subject_alt_names[to->n_match_typed_subject_alt_names++] = m;
    }
}

static void set_validation(struct enc *e, const struct sw_model_backend_tls *t,
                           Sw__CommonTlsContext *to)
{
    Sw__CertificateValidationContext *v =
        SW_PB_NEW(e->a, Sw__CertificateValidationContext, sw__certificate_validation_context);
    Sw__CommonTlsContext__CombinedCertificateValidationContext *both;

    set_sans(e, t, v);
    if (t->ca.n == 0) {
        v->trusted_ca = SW_PB_NEW(e->a, Sw__DataSource, sw__data_source);
        v->trusted_ca->specifier_case = SW__DATA_SOURCE__SPECIFIER_FILENAME;
        v->trusted_ca->filename = SW_PB_LIT(SW_MODEL_SYSTEM_ROOTS);
        to->validation_context_type_case =
            SW__COMMON_TLS_CONTEXT__VALIDATION_CONTEXT_TYPE_VALIDATION_CONTEXT;
        to->validation_context = v;
        return;
    }
    both = SW_PB_NEW(e->a, Sw__CommonTlsContext__CombinedCertificateValidationContext,
                     sw__common_tls_context__combined_certificate_validation_context);
    both->default_validation_context = v;
    both->validation_context_sds_secret_config = sw_gwx_sds(e, t->ca);
    to->validation_context_type_case =
        SW__COMMON_TLS_CONTEXT__VALIDATION_CONTEXT_TYPE_COMBINED_VALIDATION_CONTEXT;
    to->combined_validation_context = both;
}

static void set_alpn(struct enc *e, enum sw_model_proto proto, Sw__CommonTlsContext *to)
{
    ProtobufCBinaryData one = {0};

    switch (proto) {
    case SW_MODEL_PROTO_HTTP1:
    case SW_MODEL_PROTO_WS:
        one = SW_PB_LIT("http/1.1");
        break;
    case SW_MODEL_PROTO_HTTP2:
        one = SW_PB_LIT("h2");
        break;
    case SW_MODEL_PROTO_TCP:
    case SW_MODEL_PROTO_UDP:
        return;
    }
    to->alpn_protocols = sw_arena_array(e->a, 1, sizeof(*to->alpn_protocols));
    to->alpn_protocols[0] = one;
    to->n_alpn_protocols = 1;
}

static Sw__TransportSocket *backend_tls(struct enc *e, const struct sw_model_cluster *c)
{
    const struct sw_model_backend_tls *t = c->tls;
    Sw__UpstreamTlsContext *to = SW_PB_NEW(e->a, Sw__UpstreamTlsContext, sw__upstream_tls_context);
    Sw__CommonTlsContext *common = SW_PB_NEW(e->a, Sw__CommonTlsContext, sw__common_tls_context);

    to->common_tls_context = common;
    to->sni = SW_PB_BYTES(t->sni);
    set_validation(e, t, common);
    set_alpn(e, c->proto, common);
    if (t->client_cert.n)
        SW_GWX_ONE(e, common, tls_certificate_sds_secret_configs, sw_gwx_sds(e, t->client_cert));
    return sw_gwx_socket(e, "envoy.transport_sockets.tls", &to->base);
}

Sw__TransportSocket *sw_gwx_tls_to(struct enc *e, struct sw_slice name)
{
    const struct sw_model_san san = {.kind = SW_MODEL_SAN_DNS, .value = name};
    const struct sw_model_backend_tls tls = {.sni = name, .sans = &san, .n_sans = 1};
    const struct sw_model_cluster c = {.proto = SW_MODEL_PROTO_HTTP1, .tls = &tls};

    return backend_tls(e, &c);
}

/* --- tunnels --- */

static Sw__TransportSocket *raw_buffer(struct enc *e)
{
    Sw__RawBuffer *raw = SW_PB_NEW(e->a, Sw__RawBuffer, sw__raw_buffer);

    return sw_gwx_socket(e, "envoy.transport_sockets.raw_buffer", &raw->base);
}

/* Carries the endpoint's metadata 'tunnel' over to the internal listener. */
static Sw__TransportSocket *internal_upstream(struct enc *e, Sw__TransportSocket *inner)
{
    Sw__InternalUpstreamTransport *to =
        SW_PB_NEW(e->a, Sw__InternalUpstreamTransport, sw__internal_upstream_transport);
    Sw__InternalUpstreamTransport__MetadataValueSource *from =
        SW_PB_NEW(e->a, Sw__InternalUpstreamTransport__MetadataValueSource,
                  sw__internal_upstream_transport__metadata_value_source);

    from->kind = SW_PB_NEW(e->a, Sw__MetadataKind, sw__metadata_kind);
    from->kind->kind_case = SW__METADATA_KIND__KIND_HOST;
    from->kind->host = SW_PB_NEW(e->a, Sw__MetadataKind__Host, sw__metadata_kind__host);
    from->name = SW_PB_LIT("tunnel");
    SW_GWX_ONE(e, to, passthrough_metadata, from);
    to->transport_socket = inner;
    return sw_gwx_socket(e, "envoy.transport_sockets.internal_upstream", &to->base);
}

/* --- what all clusters have --- */

static void set_protocol(struct enc *e, bool http2, Sw__Cluster *to)
{
    Sw__UpstreamProtocolOptions *o =
        SW_PB_NEW(e->a, Sw__UpstreamProtocolOptions, sw__upstream_protocol_options);
    Sw__UpstreamProtocolOptions__ExplicitHttpConfig *x =
        SW_PB_NEW(e->a, Sw__UpstreamProtocolOptions__ExplicitHttpConfig,
                  sw__upstream_protocol_options__explicit_http_config);
    Sw__Cluster__ProtocolOptionsEntry *entry =
        SW_PB_NEW(e->a, Sw__Cluster__ProtocolOptionsEntry, sw__cluster__protocol_options_entry);

    if (http2) {
        x->protocol_config_case =
            SW__UPSTREAM_PROTOCOL_OPTIONS__EXPLICIT_HTTP_CONFIG__PROTOCOL_CONFIG_HTTP2_PROTOCOL_OPTIONS;
        x->http2_protocol_options =
            SW_PB_NEW(e->a, Sw__Http2ProtocolOptions, sw__http2_protocol_options);
    } else {
        x->protocol_config_case =
            SW__UPSTREAM_PROTOCOL_OPTIONS__EXPLICIT_HTTP_CONFIG__PROTOCOL_CONFIG_HTTP_PROTOCOL_OPTIONS;
        x->http_protocol_options =
            SW_PB_NEW(e->a, Sw__Http1ProtocolOptions, sw__http1_protocol_options);
    }
    o->upstream_protocol_options_case =
        SW__UPSTREAM_PROTOCOL_OPTIONS__UPSTREAM_PROTOCOL_OPTIONS_EXPLICIT_HTTP_CONFIG;
    o->explicit_http_config = x;
    entry->key = SW_PB_LIT("envoy.extensions.upstreams.http.v3.HttpProtocolOptions");
    entry->value = sw_pb_any(e->a, &o->base);
    SW_GWX_ONE(e, to, typed_extension_protocol_options, entry);
}

static Sw__CircuitBreakers *limits(struct enc *e)
{
    Sw__CircuitBreakers *to = SW_PB_NEW(e->a, Sw__CircuitBreakers, sw__circuit_breakers);
    Sw__CircuitBreakers__Thresholds *t =
        SW_PB_NEW(e->a, Sw__CircuitBreakers__Thresholds, sw__circuit_breakers__thresholds);

    t->max_connections = sw_gwx_u32(e, MAX_CONNECTIONS);
    t->max_pending_requests = sw_gwx_u32(e, MAX_REQUESTS);
    t->max_requests = sw_gwx_u32(e, MAX_REQUESTS);
    t->retry_budget = SW_PB_NEW(e->a, Sw__CircuitBreakers__Thresholds__RetryBudget,
                                sw__circuit_breakers__thresholds__retry_budget);
    t->retry_budget->budget_percent = SW_PB_NEW(e->a, Sw__Percent, sw__percent);
    t->retry_budget->budget_percent->value = 20;
    t->retry_budget->min_retry_concurrency = sw_gwx_u32(e, MIN_RETRIES);
    SW_GWX_ONE(e, to, thresholds, t);
    return to;
}

static Sw__Cluster *cluster(struct enc *e, struct sw_slice name)
{
    Sw__Cluster *to = SW_PB_NEW(e->a, Sw__Cluster, sw__cluster);

    to->name = SW_PB_BYTES(name);
    to->cluster_discovery_type_case = SW__CLUSTER__CLUSTER_DISCOVERY_TYPE_TYPE;
    to->connect_timeout = sw_gwx_duration(e, CONNECT_MS);
    to->per_connection_buffer_limit_bytes = sw_gwx_u32(e, BUFFER_BYTES);
    to->lb_policy = SW__CLUSTER__LB_POLICY__LEAST_REQUEST;
    to->circuit_breakers = limits(e);
    to->ignore_health_on_host_removal = true;
    return to;
}

static void set_eds(struct enc *e, struct sw_slice service, Sw__Cluster *to)
{
    to->type = SW__CLUSTER__DISCOVERY_TYPE__EDS;
    to->eds_cluster_config =
        SW_PB_NEW(e->a, Sw__Cluster__EdsClusterConfig, sw__cluster__eds_cluster_config);
    to->eds_cluster_config->eds_config = sw_gwx_ads(e);
    to->eds_cluster_config->service_name = SW_PB_BYTES(service);
}

/* --- the clusters --- */

/* All of a cluster but what finds it: name, type and endpoint set. */
static Sw__Cluster *cluster_of(struct enc *e, const struct sw_model_cluster *c)
{
    Sw__Cluster *to = cluster(e, (struct sw_slice){0});
    Sw__TransportSocket *socket = c->tls ? backend_tls(e, c) : NULL;

    to->cluster_discovery_type_case = SW__CLUSTER__CLUSTER_DISCOVERY_TYPE__NOT_SET;
    switch (c->proto) {
    case SW_MODEL_PROTO_HTTP1:
    case SW_MODEL_PROTO_WS:
    case SW_MODEL_PROTO_HTTP2:
        set_protocol(e, c->proto == SW_MODEL_PROTO_HTTP2, to);
        break;
    case SW_MODEL_PROTO_TCP:
        break;
    case SW_MODEL_PROTO_UDP:
        to->lb_policy =
            SW__CLUSTER__LB_POLICY__ROUND_ROBIN; /* nothing is known to be in progress */
        break;
    }
    if (c->tunnel)
        socket = internal_upstream(e, socket ? socket : raw_buffer(e));
    to->transport_socket = socket;
    return to;
}

static struct sw_slice encoded_rest(struct enc *e, const struct sw_model_cluster *c)
{
    struct sw_slice *common = &e->plain_cluster[c->proto];

    if (c->tls || c->tunnel)
        return sw_pb_pack(e->a, &cluster_of(e, c)->base);
    if (common->n == 0)
        *common = sw_pb_pack(e->a, &cluster_of(e, c)->base);
    return *common;
}

/* Endpoints of a name that data planes look up, whatever comes out. */
static void set_strict_dns(struct enc *e, const struct sw_model_cluster *c, Sw__Cluster *to)
{
    Sw__LbEndpoint *lb = sw_gwx_lb_endpoint(e, sw_gwx_address(e, c->dns_host, c->dns_port, false));

    to->type = SW__CLUSTER__DISCOVERY_TYPE__STRICT_DNS;
    to->load_assignment = sw_gwx_assignment(e, c->name, sw_gwx_locality(e, lb));
}

/* A name: its addresses are an endpoint set; our own gateway gets the name (xds/limits.h). */
static void encode_dns_cluster(struct enc *e, const struct sw_model_cluster *c)
{
    struct sw_slice target =
        sw_slice_str(sw_arena_printf(e->a, "%.*s:%u", SW_SLICE_ARG(c->dns_host), c->dns_port));
    const struct sw_model_header field = {SW_SLICE_LIT(SW_XDS_NAME_FIELD), target};
    Sw__Cluster *to = cluster_of(e, c);

    to->name = SW_PB_BYTES(c->name);
    to->cluster_discovery_type_case = SW__CLUSTER__CLUSTER_DISCOVERY_TYPE_TYPE;
    if (e->conf->clients_resolve) {
        set_strict_dns(e, c, to);
    } else {
        set_eds(e, c->endpoints, to);
        to->metadata = sw_gwx_text_metadata(e, SW_SLICE_LIT(SW_XDS_NAME_KEY), &field, 1);
    }
    sw_gwx_enc_add(e, SW_TYPE_CLUSTER, sw_arena_slice(e->a, c->name), &to->base);
}

/*
 * There are many clusters and they are much alike, so the first three fields (name, type,
 * eds_cluster_config) are written by hand in front of the others, which are encoded once.
 */
void sw_gwx_encode_cluster(struct enc *e, const struct sw_model_cluster *c)
{
    struct sw_slice rest;
    struct sw_slice set = c->endpoints.n ? c->endpoints : c->name; /* as Envoy reads it */
    struct sw_buf out;
    size_t eds;

    if (c->dns_host.n) {
        encode_dns_cluster(e, c);
        return;
    }
    rest = encoded_rest(e, c);
    if (e->ads.n == 0)
        e->ads = sw_pb_pack(e->a, &sw_gwx_ads(e)->base);
    eds = sw_pb_bytes_size(1, e->ads.n) + sw_pb_bytes_size(2, set.n);
    sw_buf_init(&out, SIZE_MAX / 2);
    if (sw_pb_put_bytes(&out, 1, c->name) != SW_OK ||
        sw_pb_put_varint(&out, 2, SW__CLUSTER__DISCOVERY_TYPE__EDS) != SW_OK ||
        sw_pb_put_head(&out, 3, eds) != SW_OK || sw_pb_put_bytes(&out, 1, e->ads) != SW_OK ||
        sw_pb_put_bytes(&out, 2, set) != SW_OK || sw_buf_append_slice(&out, rest) != SW_OK)
        abort(); /* the buffer has no limit that a model could reach */
    sw_gwx_enc_add_bytes(e, SW_TYPE_CLUSTER, sw_arena_slice(e->a, c->name),
                         sw_arena_slice(e->a, sw_buf_slice(&out)));
    sw_buf_done(&out);
}

void sw_gwx_encode_udp_cluster(struct enc *e, const struct sw_model_chain *c)
{
    struct sw_slice name = sw_gwx_udp_cluster_name(e->a, c);
    Sw__Cluster *to = cluster(e, name);

    set_eds(e, name, to);
    to->lb_policy = SW__CLUSTER__LB_POLICY__ROUND_ROBIN;
    to->common_lb_config =
        SW_PB_NEW(e->a, Sw__Cluster__CommonLbConfig, sw__cluster__common_lb_config);
    to->common_lb_config->locality_config_specifier_case =
        SW__CLUSTER__COMMON_LB_CONFIG__LOCALITY_CONFIG_SPECIFIER_LOCALITY_WEIGHTED_LB_CONFIG;
    to->common_lb_config->locality_weighted_lb_config =
        SW_PB_NEW(e->a, Sw__Cluster__CommonLbConfig__LocalityWeightedLbConfig,
                  sw__cluster__common_lb_config__locality_weighted_lb_config);
    sw_gwx_enc_add(e, SW_TYPE_CLUSTER, name, &to->base);
}

static Sw__Address *proxy_address(struct enc *e)
{
    const struct sw_model_xds_conf *conf = e->conf;
    Sw__Address *m;

    if (!sw_slice_has_prefix(conf->connect_proxy, SW_SLICE_LIT("/")))
        return sw_gwx_address(
            e, conf->connect_proxy.n ? conf->connect_proxy : SW_SLICE_LIT("127.0.0.1"),
            conf->connect_proxy_port ? conf->connect_proxy_port : PROXY_PORT, false);
    m = SW_PB_NEW(e->a, Sw__Address, sw__address);
    m->address_case = SW__ADDRESS__ADDRESS_PIPE;
    m->pipe = SW_PB_NEW(e->a, Sw__Pipe, sw__pipe);
    m->pipe->path = SW_PB_BYTES(conf->connect_proxy);
    return m;
}

static Sw__Cluster *connect_proxy(struct enc *e, const char *name, bool http2)
{
    Sw__Cluster *to = cluster(e, sw_slice_str(name));
    Sw__LbEndpoint *lb = sw_gwx_lb_endpoint(e, proxy_address(e));

    to->load_assignment = sw_gwx_assignment(e, sw_slice_str(name), sw_gwx_locality(e, lb));
    to->type = SW__CLUSTER__DISCOVERY_TYPE__STATIC;
    set_protocol(e, http2, to);
    return to;
}

Sw__Cluster *sw_gwx_connect_proxy(struct enc *e)
{
    return connect_proxy(e, SW_MODEL_CONNECT_PROXY, e->conf->connect_proxy_h2);
}

Sw__Cluster *sw_gwx_connect_proxy_udp(struct enc *e)
{
    return connect_proxy(e, SW_MODEL_CONNECT_PROXY_UDP, true);
}

void sw_gwx_make_tunnel(struct enc *e, Sw__Cluster *to, const struct sw_model_endpoint *ep)
{
    Sw__LocalityLbEndpoints *lo = sw_gwx_locality(e, sw_gwx_tunnel_endpoint(e, ep));

    to->load_assignment = sw_gwx_assignment(e, SW_PB_SLICE(to->name), lo);
    to->cluster_discovery_type_case = SW__CLUSTER__CLUSTER_DISCOVERY_TYPE_TYPE;
    to->type = SW__CLUSTER__DISCOVERY_TYPE__STATIC;
    to->eds_cluster_config = NULL;
    to->transport_socket =
        internal_upstream(e, to->transport_socket ? to->transport_socket : raw_buffer(e));
}
