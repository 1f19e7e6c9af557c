/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backends that are no Services: Connectors, reached through a tunnel, and EndpointSlices that
 * stand for one backend of an HTTPProxy (a connector, a name of the outside, an address).
 *
 * A connector that is offline leaves its route in place: all of it answers 503 with the reason, and
 * where it has only a share of the requests, its share fails for want of an endpoint.
 */
#include <ctype.h>
#include <string.h>

#include "control/device/device.h"
#include "control/gateway/build/build_int.h"
#include "control/gateway/resolved.h"
#include "io/addr.h"

#define TARGET_HOST "spanwire.dev/target-host"

static struct sw_slice note_of(const struct sw_kube_obj *o, const char *key)
{
    struct sw_slice s = sw_json_str(sw_json_walk(o->json, "metadata", "annotations", key, NULL));

    return s.p ? s : sw_slice("", 0);
}

static struct verdict missing(struct builder *b, const struct sw_gateway_ref *r, const char *why)
{
    return VERDICT(b, "BackendNotFound", "%.*s '%.*s/%.*s' %s", SW_SLICE_ARG(r->kind),
                   SW_SLICE_ARG(r->ns), SW_SLICE_ARG(r->name), why);
}

/* ---- tunnels ---- */

/* One of the names is of a connector that is there. */
static bool any_online(const struct builder *b, struct sw_slice ns, struct sw_slice names)
{
    while (names.p) {
        const struct sw_kube_obj *o =
            sw_view_find(b->v, SW_MODEL_CONNECTOR, ns, sw_slice_cut(&names, ','));

        if (o && sw_connector_online(&b->keys, o).n)
            return true;
    }
    return false;
}

static struct sw_model_cluster *tunnel(struct builder *b, struct sw_slice ns, struct sw_slice name,
                                       struct sw_slice target, enum sw_model_proto proto,
                                       const struct sw_model_backend_tls *tls)
{
    struct sw_model_cluster *c =
        intern_cluster(b,
                       gw_printf(b, SW_MODEL_CONNECTOR_SET "%.*s/%.*s/%.*s", SW_SLICE_ARG(ns),
                                 SW_SLICE_ARG(name), SW_SLICE_ARG(target)),
                       proto, tls);

    c->tunnel = true;
    own_cluster(c)->offline = any_online(b, ns, name) ? NULL : "connector-offline";
    if (!own_cluster(c)->device.n)
        own_cluster(c)->device = sw_arena_slice(b->keep, name);
    return c;
}

/* Data planes expand %OPERATORS% in it: nothing but a name or an address may get there. */
static bool plain_host(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!isalnum((unsigned char)s.p[i]) && (!s.p[i] || !strchr("-._:", s.p[i])))
            return false;
    }
    return s.n > 0 && s.n <= 253;
}

/* Datagrams: Envoy's udp_proxy takes target and key from the listener, not from an endpoint. */
static struct sw_model_cluster *udp_tunnel(struct builder *b, const struct sw_kube_obj *o,
                                           struct sw_slice host, uint16_t port)
{
    struct sw_model_cluster *c =
        tunnel(b, o->ns, o->name, sw_connector_target(b->a, host, port), SW_MODEL_PROTO_UDP, NULL);

    c->endpoints = sw_slice("", 0);
    c->udp_host = sw_arena_slice(b->keep, host);
    c->udp_port = port;
    c->udp_id = sw_arena_slice(b->keep, sw_connector_online(&b->keys, o));
    return c;
}

/* ---- Connectors by name ---- */

struct found {
    struct sw_slice host;
    uint16_t port;
    bool several; /* of what was looked for */
};

static void look_at_ports(const struct sw_json *service, uint16_t port, const char *transport,
                          struct found *f)
{
    const struct sw_json *ports = sw_json_find(service, "ports");
    struct sw_slice host = js_or(service, "address", "");

    SW_JSON_ITEMS (p, ports) {
        uint16_t number = (uint16_t)js_int(p, "port", UINT16_MAX, 0);

        if (!sw_slice_eq_str(js_or(p, "protocol", "TCP"), transport) || !number ||
            (port && number != port) || sw_slice_find(host, '*') >= 0)
            continue;
        f->several |= f->host.n && (!sw_slice_eq(f->host, host) || f->port != number);
        f->host = host;
        f->port = number;
    }
}

/* What the connector advertises at this port; port 0: at all. */
static struct found advertised(const struct builder *b, const struct sw_gateway_ref *r,
                               const char *transport)
{
    struct found f = {0};

    SW_VIEW_EACH (o, b->v, SW_MODEL_ADVERTISEMENT) {
        const struct sw_json *spec = sw_json_find(o->json, "spec");
        const struct sw_json *layer4 = sw_json_find(spec, "layer4");

        if (!sw_slice_eq(o->ns, r->ns) ||
            !sw_slice_eq(sw_json_str(sw_json_walk(spec, "connectorRef", "name", NULL)), r->name))
            continue;
        for (size_t k = 0; k < sw_json_len(layer4); k++) {
            const struct sw_json *services = sw_json_find(sw_json_at(layer4, k), "services");

            for (size_t n = 0; n < sw_json_len(services); n++)
                look_at_ports(sw_json_at(services, n), r->port, transport, &f);
        }
    }
    return f;
}

/* False, with the reason, when a connector has not what this kind of route needs. */
static bool can_carry(struct builder *b, const struct backend_ctx *ctx, const struct sw_kube_obj *o,
                      struct verdict *ret)
{
    const char *capability = ctx->route->kind == RK_UDP ? "ConnectUDP" : "ConnectTCP";
    const char *why = NULL;

    if (sw_connector_lacks(o->json, capability, &why))
        *ret = VERDICT(b, "UnsupportedProtocol", "the route needs %s, and Connector '%.*s' %s",
                       capability, SW_SLICE_ARG(o->key), why);
    return !ret->reason;
}

/*
 * A Connector has many places behind it. Which one is meant: the host its annotation names, or the
 * one it advertises at the port, or the device itself.
 */
struct sw_model_cluster *connector_backend(struct builder *b, const struct backend_ctx *ctx,
                                           const struct sw_gateway_ref *r, struct verdict *ret)
{
    const struct sw_kube_obj *o = sw_view_find(b->v, SW_MODEL_CONNECTOR, r->ns, r->name);
    bool udp = ctx->route->kind == RK_UDP;
    struct found f = o ? advertised(b, r, udp ? "UDP" : "TCP") : (struct found){0};
    struct sw_slice host = o ? note_of(o, TARGET_HOST) : sw_slice("", 0);
    uint16_t port = r->port ? r->port : f.port;

    if (!o)
        *ret = missing(b, r, "does not exist");
    else if (!can_carry(b, ctx, o, ret))
        return NULL;
    else if (!port || (!r->port && f.several))
        *ret = missing(b, r, "needs a port: it does not advertise exactly one");
    else if (!host.n && f.several)
        *ret = missing(b, r,
                       "advertises several addresses with this port: name one in the "
                       "annotation " TARGET_HOST);
    if (ret->reason)
        return NULL;
    if (!host.n)
        host = f.host.n ? f.host : SW_SLICE_LIT("127.0.0.1");
    if (udp && !plain_host(host)) {
        *ret = missing(b, r, "has a target host that is neither a name nor an address");
        return NULL;
    }
    if (udp)
        return udp_tunnel(b, o, host, port);
    return tunnel(b, r->ns, r->name, sw_connector_target(b->a, host, port),
                  ctx->http2 ? SW_MODEL_PROTO_HTTP2 : route_protos[ctx->route->kind], NULL);
}

/* ---- EndpointSlices ---- */

static struct sw_model_cluster *by_name(struct builder *b, struct sw_slice host, uint16_t port,
                                        enum sw_model_proto proto,
                                        const struct sw_model_backend_tls *tls)
{
    struct sw_model_cluster *c = intern_cluster(
        b, gw_printf(b, SW_MODEL_DNS_CLUSTER "%.*s/%u", SW_SLICE_ARG(host), port), proto, tls);

    c->dns_host = sw_arena_slice(b->keep, host);
    c->dns_port = port;
    c->endpoints = sw_resolved_name(b->keep, host, port);
    return c;
}

/* For the answer's header. */
static const char *refusal(struct sw_slice why)
{
    return sw_slice_eq_str(why, "no-capability") ? "connector-no-capability"
                                                 : "connector-not-advertised";
}

static struct sw_model_cluster *slice_cluster(struct builder *b, const struct sw_gateway_ref *r,
                                              const struct sw_kube_obj *o, uint16_t port,
                                              enum sw_model_proto proto,
                                              const struct sw_model_backend_tls *tls)
{
    struct sw_slice connector = note_of(o, SW_CONNECTOR_BACKEND);
    const struct sw_json *endpoint = sw_json_at(sw_json_find(o->json, "endpoints"), 0);
    struct sw_slice host = sw_json_str(sw_json_at(sw_json_find(endpoint, "addresses"), 0));

    if (connector.n) {
        struct sw_model_cluster *c =
            tunnel(b, o->ns, connector, note_of(o, SW_CONNECTOR_DIAL), proto, tls);

        if (note_of(o, SW_CONNECTOR_REFUSED).n)
            own_cluster(c)->offline = refusal(note_of(o, SW_CONNECTOR_REFUSED));
        return c;
    }
    if (sw_slice_eq_str(js_or(o->json, "addressType", ""), "FQDN"))
        return by_name(b, host, port, proto, tls);
    return intern_cluster(b,
                          gw_printf(b, SW_MODEL_SLICE_SET "%.*s/%.*s/%u", SW_SLICE_ARG(r->ns),
                                    SW_SLICE_ARG(r->name), port),
                          proto, tls);
}

/* The CAs that a backend's certificate may be from; false when they cannot be had. */
static bool slice_ca(struct builder *b, const struct sw_kube_obj *o, struct sw_slice *ret_name,
                     struct verdict *ret)
{
    static const struct ca_reasons why = {"InvalidCACertificateRef", "InvalidKind", NULL};
    struct sw_slice name = note_of(o, SW_CONNECTOR_CA);
    struct sw_json *refs;

    if (!name.n)
        return true;
    refs = sw_json_new_list(b->a, SW_JSON_OF(b->a, {"group", .str = ""},
                                             {"kind", .str = "ConfigMap"}, {"name", .text = name}));
    return resolve_cas(b, &(struct ref_from){"EndpointSlice", o->ns}, refs, &why, ret_name, ret);
}

void build_slice_cas(struct builder *b)
{
    for (size_t i = 0; i < sw_view_count(b->v, SW_MODEL_BACKENDSLICE); i++) {
        struct sw_slice name = {0};
        struct verdict v = {0};

        (void)slice_ca(b, sw_view_at(b->v, SW_MODEL_BACKENDSLICE, i), &name, &v);
    }
}

bool slices_have_cas(const struct sw_view *v)
{
    for (size_t i = 0; i < sw_view_count(v, SW_MODEL_BACKENDSLICE); i++) {
        if (note_of(sw_view_at(v, SW_MODEL_BACKENDSLICE, i), SW_CONNECTOR_CA).n)
            return true;
    }
    return false;
}

/* A name that data planes would read as an address is none. */
static bool slice_host_ok(struct builder *b, const struct sw_kube_obj *o, struct verdict *ret)
{
    const struct sw_json *endpoint = sw_json_at(sw_json_find(o->json, "endpoints"), 0);
    struct sw_slice host = sw_json_str(sw_json_at(sw_json_find(endpoint, "addresses"), 0));
    struct sw_err err = {0};
    struct sw_ip ip;

    if (note_of(o, SW_CONNECTOR_BACKEND).n ||
        !sw_slice_eq_str(js_or(o->json, "addressType", ""), "FQDN") ||
        (sw_host_parse(host, &ip, &err) == SW_OK && !ip.family))
        return true;
    *ret = VERDICT(b, "RefNotPermitted", "EndpointSlice '%.*s': %s", SW_SLICE_ARG(o->key),
                   err.msg[0] ? err.msg : "an address is not a name");
    return false;
}

struct sw_model_cluster *slice_backend(struct builder *b, const struct backend_ctx *ctx,
                                       const struct sw_gateway_ref *r, struct verdict *ret)
{
    const struct sw_kube_obj *o = sw_view_find(b->v, SW_MODEL_BACKENDSLICE, r->ns, r->name);
    const struct sw_json *p =
        o ? cn_port(sw_json_find(o->json, "ports"), r->port, sw_slice(NULL, 0), "TCP") : NULL;
    struct sw_model_san san = {.kind = SW_MODEL_SAN_DNS};
    struct sw_model_backend_tls tls = {.sans = &san, .n_sans = 1, .client_cert = ctx->client_cert};
    uint16_t port = (uint16_t)js_int(p, "port", UINT16_MAX, 0);
    enum sw_model_proto proto;
    bool wants_tls;

    if (!o || !port || ctx->route->kind == RK_UDP) {
        *ret = missing(b, r, o ? "has no such TCP port" : "does not exist, or is a Service's");
        return NULL;
    }
    if ((ctx->route->kind == RK_TCP || ctx->route->kind == RK_TLS) &&
        note_of(o, SW_CONNECTOR_REFUSED).n) {
        *ret = missing(b, r, "is refused by its Connector's class or capabilities");
        return NULL;
    }
    tls.sni = san.value = note_of(o, SW_CONNECTOR_TLS);
    if (!slice_ca(b, o, &tls.ca, ret))
        return NULL;
    if (!app_proto(js_or(p, "appProtocol", ""), ctx->route->kind, &proto, &wants_tls) ||
        (wants_tls && !tls.sni.n)) {
        *ret = VERDICT(b, "UnsupportedProtocol",
                       "EndpointSlice '%.*s' port %u has no supported protocol",
                       SW_SLICE_ARG(o->key), port);
        return NULL;
    }
    if (!slice_host_ok(b, o, ret))
        return NULL;
    return slice_cluster(b, r, o, port, proto, wants_tls ? &tls : NULL);
}

/* ---- what data planes say meanwhile ---- */

const struct own_cluster *all_offline(const struct sw_model_backend *list, size_t n)
{
    const struct own_cluster *away = NULL;

    for (size_t i = 0; i < n; i++) {
        if (!list[i].weight || !list[i].cluster)
            continue;
        if (!own_cluster(list[i].cluster)->offline)
            return NULL;
        away = away ? away : own_cluster(list[i].cluster);
    }
    return away;
}

void respond_offline(struct builder *b, struct sw_model_route *to, const struct own_cluster *away)
{
    struct sw_model_header *set = sw_arena_array(b->a, 2, sizeof(*set));

    set[0] = (struct sw_model_header){SW_SLICE_LIT("retry-after"), SW_SLICE_LIT("5")};
    set[1] =
        (struct sw_model_header){SW_SLICE_LIT("x-spanwire-reason"), sw_slice_str(away->offline)};
    to->action = SW_MODEL_RESPOND;
    to->status = 503;
    to->body = SW_SLICE_LIT("Tunnel not online");
    to->reason = away->offline;
    to->device = sw_arena_slice(b->a, away->device);
    to->response = (struct sw_model_headers){.set = set, .n_set = 2};
}
