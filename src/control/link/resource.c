/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What data planes get, byte for byte what ClusterLink's own control plane sends: unmodified
 * Envoys and Go data planes are driven by it.
 */
#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/tls.pb-c.h>

#include "control/gateway/xds/xds_int.h"
#include "control/link/link_int.h"
#include "control/link/secret.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "xds/cache.h"

enum { SECOND_MS = 1000, SCRATCH = 64 << 10 };

/* ---- clusters ---- */

static Sw__LbEndpoint *endpoint(struct enc *e, const struct lk_endpoint *at, struct sw_slice name)
{
    Sw__LbEndpoint *lb = sw_gwx_lb_endpoint(e, sw_gwx_address(e, at->host, at->port, false));

    lb->endpoint->hostname = SW_PB_BYTES(name);
    return lb;
}

static Sw__TypedExtensionConfig *resolver(struct enc *e)
{
    Sw__TypedExtensionConfig *to =
        SW_PB_NEW(e->a, Sw__TypedExtensionConfig, sw__typed_extension_config);
    Sw__GetAddrInfoDnsResolver *config =
        SW_PB_NEW(e->a, Sw__GetAddrInfoDnsResolver, sw__get_addr_info_dns_resolver);

    to->name = SW_PB_LIT("envoy.network.dns_resolver.getaddrinfo");
    to->typed_config = sw_pb_any(e->a, &config->base);
    return to;
}

/* hostname is that of every endpoint; empty for Exports. */
static Sw__Cluster *cluster(struct enc *e, struct sw_slice name, const struct lk_endpoint *p,
                            size_t n, struct sw_slice hostname)
{
    Sw__Cluster *to = SW_PB_NEW(e->a, Sw__Cluster, sw__cluster);
    Sw__LocalityLbEndpoints *lo =
        SW_PB_NEW(e->a, Sw__LocalityLbEndpoints, sw__locality_lb_endpoints);

    to->name = SW_PB_BYTES(name);
    to->cluster_discovery_type_case = SW__CLUSTER__CLUSTER_DISCOVERY_TYPE_TYPE;
    to->type = SW__CLUSTER__DISCOVERY_TYPE__STRICT_DNS;
    to->connect_timeout = sw_gwx_duration(e, SECOND_MS);
    to->dns_refresh_rate = sw_gwx_duration(e, SECOND_MS);
    to->typed_dns_resolver_config = resolver(e);
    lo->lb_endpoints = sw_arena_array(e->a, n + 1, sizeof(*lo->lb_endpoints));
    for (size_t i = 0; i < n; i++)
        lo->lb_endpoints[lo->n_lb_endpoints++] = endpoint(e, &p[i], hostname);
    to->load_assignment = sw_gwx_assignment(e, name, lo);
    return to;
}

static Sw__SdsSecretConfig *secret(struct enc *e, const char *name)
{
    Sw__SdsSecretConfig *s = sw_gwx_sds(e, sw_slice_str(name));

    s->sds_config->initial_fetch_timeout = sw_gwx_duration(e, SECOND_MS);
    return s;
}

static Sw__TransportSocket *peer_tls(struct enc *e, struct sw_slice peer)
{
    Sw__UpstreamTlsContext *to = SW_PB_NEW(e->a, Sw__UpstreamTlsContext, sw__upstream_tls_context);
    Sw__CommonTlsContext *common = SW_PB_NEW(e->a, Sw__CommonTlsContext, sw__common_tls_context);

    to->common_tls_context = common;
    to->sni = SW_PB_BYTES(peer);
    SW_GWX_ONE(e, common, tls_certificate_sds_secret_configs, secret(e, SW_LINK_CERTIFICATE));
    common->validation_context_type_case =
        SW__COMMON_TLS_CONTEXT__VALIDATION_CONTEXT_TYPE_VALIDATION_CONTEXT_SDS_SECRET_CONFIG;
    common->validation_context_sds_secret_config = secret(e, SW_LINK_VALIDATION);
    return sw_gwx_socket(e, "envoy.transport_sockets.tls", &to->base);
}

/* The bytes are copied by whoever takes them: nothing of one resource is kept for the next. */
static void publish(struct lk *l, const char *type, struct sw_slice name,
                    const struct ProtobufCMessage *m)
{
    sw_out_publish(l->out, type, name, sw_pb_pack(&l->tmp, m));
    sw_arena_reset(&l->tmp, SCRATCH);
}

void lk_publish_peer(struct lk *l, struct sw_slice peer, const struct lk_endpoint *p, size_t n,
                     struct sw_slice form)
{
    struct enc e = {.a = &l->tmp};
    struct sw_slice name = cn_printf(&l->tmp, "remote-peer-%.*s", SW_SLICE_ARG(peer));
    struct sw_slice hostname = cn_printf(&l->tmp, "%.*s:443", SW_SLICE_ARG(peer));
    Sw__Cluster *to = cluster(&e, name, p, n, hostname);

    to->transport_socket = peer_tls(&e, peer);
    if (form.n) {
        const struct sw_model_header field = {SW_SLICE_LIT("form"), form};

        to->metadata = sw_gwx_text_metadata(&e, SW_SLICE_LIT(SW_LINK_METADATA), &field, 1);
    }
    publish(l, SW_XDS_CLUSTER, name, &to->base);
}

void lk_publish_export(struct lk *l, const struct sw_kube_obj *o, const struct lk_endpoint *p,
                       size_t n)
{
    struct enc e = {.a = &l->tmp};
    struct sw_slice name = cn_printf(&l->tmp, "export-%.*s", SW_SLICE_ARG(o->key));
    Sw__Cluster *to = cluster(&e, name, p, n, sw_slice("", 0));

    publish(l, SW_XDS_CLUSTER, name, &to->base);
}

/* ---- listeners ---- */

static Sw__HeaderValueOption *header(struct enc *e, const char *name, struct sw_slice value)
{
    Sw__HeaderValueOption *m = SW_PB_NEW(e->a, Sw__HeaderValueOption, sw__header_value_option);

    m->header = SW_PB_NEW(e->a, Sw__HeaderValue, sw__header_value);
    m->header->key = SW_PB_BYTES(sw_slice_str(name));
    m->header->value = SW_PB_BYTES(value);
    m->keep_empty_value = true;
    return m;
}

static Sw__TcpProxy *tcp_proxy(struct enc *e, const struct sw_kube_obj *o)
{
    Sw__TcpProxy *to = SW_PB_NEW(e->a, Sw__TcpProxy, sw__tcp_proxy);
    Sw__TcpProxy__TunnelingConfig *t =
        SW_PB_NEW(e->a, Sw__TcpProxy__TunnelingConfig, sw__tcp_proxy__tunneling_config);

    to->stat_prefix = SW_PB_BYTES(cn_printf(e->a, "tcp-proxy-%.*s", SW_SLICE_ARG(o->name)));
    to->cluster_specifier_case = SW__TCP_PROXY__CLUSTER_SPECIFIER_CLUSTER;
    to->cluster = SW_PB_LIT("egress-router");
    t->hostname = SW_PB_LIT("egress-router:443");
    t->headers_to_add = sw_arena_array(e->a, 3, sizeof(*t->headers_to_add));
    t->headers_to_add[t->n_headers_to_add++] = header(e, "x-import-name", o->name);
    t->headers_to_add[t->n_headers_to_add++] = header(e, "x-import-namespace", o->ns);
    t->headers_to_add[t->n_headers_to_add++] =
        header(e, "x-client-ip", SW_SLICE_LIT("%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"));
    to->tunneling_config = t;
    return to;
}

void lk_publish_import(struct lk *l, const struct sw_link_lease *i)
{
    struct enc e = {.a = &l->tmp};
    struct sw_slice name = cn_printf(&l->tmp, "import-%.*s", SW_SLICE_ARG(i->import->key));
    Sw__Listener *to = SW_PB_NEW(&l->tmp, Sw__Listener, sw__listener);
    Sw__FilterChain *chain = SW_PB_NEW(&l->tmp, Sw__FilterChain, sw__filter_chain);
    Sw__Filter *filter = SW_PB_NEW(&l->tmp, Sw__Filter, sw__filter);

    to->name = SW_PB_BYTES(name);
    to->address = sw_gwx_address(&e, SW_SLICE_LIT("0.0.0.0"), i->target, false);
    filter->name = SW_PB_LIT("envoy.filters.network.tcp_proxy");
    filter->config_type_case = SW__FILTER__CONFIG_TYPE_TYPED_CONFIG;
    filter->typed_config = sw_pb_any(&l->tmp, &tcp_proxy(&e, i->import)->base);
    SW_GWX_ONE(&e, chain, filters, filter);
    SW_GWX_ONE(&e, to, filter_chains, chain);
    publish(l, SW_XDS_LISTENER, name, &to->base);
}
