/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EnvoyPatchPolicies: connectors for an Envoy Gateway that has no extension server. One policy per
 * HTTPProxy replaces the clusters of its rules by tunnels. The listener that tunnels pass is in the
 * bootstrap (`spanwire envoy patch`).
 *
 * While a connector is offline its cluster has no endpoint, which is 503; when that is so for all
 * of an HTTPProxy, a route in front says why. Routes for CONNECT are never added: they would hand
 * raw TCP to the public, past every filter.
 */
#include "base/json.h"
#include "control/connector/proxy_int.h"
#include "control/gateway/xds/xds.h"

#define URL "type.googleapis.com/envoy."
#define TLS "envoy.transport_sockets.tls"

/* ---- values ---- */

static void put_inner(struct sw_arena *a, struct sw_json *to, const struct hp_backend *b)
{
    struct sw_json *socket = sw_json_put_object(a, to, "transport_socket");
    struct sw_json *config;
    struct sw_json *v;
    struct sw_json *san;

    sw_json_put_text(a, socket, "name", b->ep.tls ? TLS : "envoy.transport_sockets.raw_buffer");
    config = sw_json_put_object(a, socket, "typed_config");
    if (!b->ep.tls) {
        sw_json_put_text(a, config, "@type",
                         URL "extensions.transport_sockets.raw_buffer.v3.RawBuffer");
        return;
    }
    sw_json_put_text(a, config, "@type",
                     URL "extensions.transport_sockets.tls.v3.UpstreamTlsContext");
    sw_json_put_str(a, config, "sni", b->tls_name);
    v = sw_json_put_object(a, sw_json_put_object(a, config, "common_tls_context"),
                           "validation_context");
    sw_json_put_text(a, sw_json_put_object(a, v, "trusted_ca"), "filename", SW_MODEL_SYSTEM_ROOTS);
    san = cn_put_item(a, v, "match_typed_subject_alt_names");
    sw_json_put_text(a, san, "san_type", "DNS");
    sw_json_put_str(a, sw_json_put_object(a, san, "matcher"), "exact", b->tls_name);
}

static void put_socket(struct sw_arena *a, struct sw_json *to, const struct hp_backend *b)
{
    struct sw_json *socket = sw_json_put_object(a, to, "transport_socket");
    struct sw_json *config;
    struct sw_json *source;

    sw_json_put_text(a, socket, "name", "envoy.transport_sockets.internal_upstream");
    config = sw_json_put_object(a, socket, "typed_config");
    sw_json_put_text(a, config, "@type",
                     URL
                     "extensions.transport_sockets.internal_upstream.v3.InternalUpstreamTransport");
    source = cn_put_item(a, config, "passthrough_metadata");
    (void)sw_json_put_object(a, sw_json_put_object(a, source, "kind"), "host");
    sw_json_put_text(a, source, "name", "tunnel");
    put_inner(a, config, b);
}

static void put_endpoint(struct hp *h, struct sw_json *load, const struct hp_backend *b,
                         struct sw_slice id)
{
    struct sw_slice target = sw_connector_target(h->a, b->ep.host, b->ep.port);
    struct sw_json *lb = cn_put_item(h->a, cn_put_item(h->a, load, "endpoints"), "lb_endpoints");
    struct sw_json *at = sw_json_put_object(
        h->a, sw_json_put_object(h->a, sw_json_put_object(h->a, lb, "endpoint"), "address"),
        "envoy_internal_address");
    struct sw_json *tunnel = sw_json_put_object(
        h->a, sw_json_put_object(h->a, sw_json_put_object(h->a, lb, "metadata"), "filter_metadata"),
        "tunnel");

    sw_json_put_text(h->a, at, "server_listener_name", "spanwire-tunnel");
    sw_json_put_str(h->a, at, "endpoint_id",
                    cn_printf(h->a, "%.*s/%.*s", SW_SLICE_ARG(id), SW_SLICE_ARG(target)));
    sw_json_put_str(h->a, tunnel, "address", target);
    sw_json_put_str(h->a, tunnel, "endpoint_id", id);
}

static struct sw_json *cluster(struct hp *h, struct sw_slice name, const struct hp_backend *b)
{
    struct sw_json *c = sw_json_new_object(h->a);
    struct sw_slice id = hp_online(h, b);
    struct sw_json *load;

    sw_json_put_str(h->a, c, "name", name);
    sw_json_put_text(h->a, c, "type", "STATIC");
    sw_json_put_text(h->a, c, "connect_timeout", "10s");
    load = sw_json_put_object(h->a, c, "load_assignment");
    sw_json_put_str(h->a, load, "cluster_name", name);
    if (id.n) {
        put_endpoint(h, load, b, id);
        put_socket(h->a, c, b);
    }
    return c;
}

static struct sw_json *offline_route(struct hp *h)
{
    struct sw_json *r = sw_json_new_object(h->a);
    struct sw_json *d;

    sw_json_put_str(h->a, r, "name",
                    cn_printf(h->a, "connector-offline-%.*s-%.*s", SW_SLICE_ARG(h->obj->ns),
                              SW_SLICE_ARG(h->obj->name)));
    sw_json_put_text(h->a, sw_json_put_object(h->a, r, "match"), "prefix", "/");
    d = sw_json_put_object(h->a, r, "direct_response");
    sw_json_put(h->a, d, "status", sw_json_new_i64(h->a, 503));
    sw_json_put_text(h->a, sw_json_put_object(h->a, d, "body"), "inline_string",
                     "Tunnel not online");
    d = cn_put_item(h->a, r, "response_headers_to_add");
    sw_json_put_text(h->a, sw_json_put_object(h->a, d, "header"), "key", "retry-after");
    sw_json_put_text(h->a, sw_json_find(d, "header"), "value", "5");
    return r;
}

/* ---- operations ---- */

struct xds_patch {
    const char *type; /* of the resource */
    struct sw_slice name;
    const char *op;
    const char *path;
    struct sw_json *value;
};

static void add_patch(struct hp *h, struct sw_json *list, const struct xds_patch *x)
{
    struct sw_json *p = sw_json_new_object(h->a);
    struct sw_json *o;

    sw_json_put_text(h->a, p, "type", x->type);
    sw_json_put_str(h->a, p, "name", x->name);
    o = sw_json_put_object(h->a, p, "operation");
    sw_json_put_text(h->a, o, "op", x->op);
    sw_json_put_text(h->a, o, "path", x->path);
    sw_json_put(h->a, o, "value", x->value);
    sw_json_push(h->a, list, p);
}

static bool is_programmed(const struct sw_json *listener)
{
    return cn_is_true(sw_json_find(listener, "conditions"), "Programmed");
}

/* Route configurations exist only for listeners that are programmed. */
static void patch_offline(struct hp *h, struct sw_json *list)
{
    const struct sw_json *all = sw_json_walk(h->gateway->json, "status", "listeners", NULL);

    SW_JSON_ITEMS (l, all) {
        struct sw_slice name = js_or(l, "name", "");

        if (is_programmed(l) && (sw_slice_has_prefix(name, SW_SLICE_LIT("https-")) ||
                                 sw_slice_eq_str(name, "default-https")))
            add_patch(
                h, list,
                &(struct xds_patch){.type = URL "config.route.v3.RouteConfiguration",
                                    .name = cn_printf(h->a, "%.*s/%.*s", SW_SLICE_ARG(h->obj->key),
                                                      SW_SLICE_ARG(name)),
                                    .op = "add",
                                    .path = "/virtual_hosts/0/routes/0",
                                    .value = offline_route(h)});
    }
}

static void patch_all(struct hp *h, struct sw_json *list)
{
    bool up = false;

    for (size_t i = 0; i < h->n_rules; i++) {
        const struct hp_backend *b = &h->backends[i];
        struct sw_slice name =
            cn_printf(h->a, "httproute/%.*s/rule/%zu", SW_SLICE_ARG(h->obj->key), i);

        up |= b->used && (!b->connector.n || hp_online(h, b).n);
        if (b->connector.n)
            add_patch(h, list,
                      &(struct xds_patch){.type = URL "config.cluster.v3.Cluster",
                                          .name = name,
                                          .op = "replace",
                                          .path = "",
                                          .value = cluster(h, name, b)});
    }
    if (!up)
        patch_offline(h, list);
}

/* ---- the policy ---- */

static bool ready_for_patches(const struct hp *h)
{
    const struct sw_json *status = h->gateway ? sw_json_find(h->gateway->json, "status") : NULL;

    return cn_is_true(sw_json_find(status, "conditions"), "Programmed");
}

void hp_patches(struct hp *h)
{
    struct sw_slice name = cn_printf(h->a, "connector-%.*s", SW_SLICE_ARG(h->obj->name));
    const struct sw_kube_obj *have = sw_view_find(h->v, SW_HP_PATCH, h->obj->ns, name);
    struct sw_json *obj;
    struct sw_json *spec;
    struct sw_json *target;
    struct sw_json *list;

    if (!h->any_connector) {
        if (have && cn_owned_by(have, h->obj->uid))
            sw_out_delete(h->out, SW_HP_PATCH, have);
        return;
    }
    if (!ready_for_patches(h) || (have && !cn_owned_by(have, h->obj->uid)))
        return;
    obj = cn_object(h->a, "gateway.envoyproxy.io/v1alpha1", "EnvoyPatchPolicy", h->obj->ns, name);
    cn_meta(h->a, obj, "labels", MANAGED, SW_SLICE_LIT("spanwire"));
    cn_own(h->a, obj, h->obj, HP_API, "HTTPProxy");
    spec = sw_json_new_object(h->a);
    target = sw_json_put_object(h->a, spec, "targetRef");
    sw_json_put_text(h->a, target, "group", GW_GROUP);
    sw_json_put_text(h->a, target, "kind", "GatewayClass");
    sw_json_put_str(h->a, target, "name", h->conf->gateway_class);
    sw_json_put_text(h->a, spec, "type", "JSONPatch");
    list = sw_json_new_array(h->a);
    patch_all(h, list);
    sw_json_put(h->a, spec, "jsonPatches", list);
    hp_put_spec(h, obj, spec);
    sw_out_apply(h->out, SW_HP_PATCH, obj);
}
