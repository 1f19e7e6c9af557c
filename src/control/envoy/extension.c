/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests are decoded with our schemas; fields that those do not have are kept by the decoder and
 * go back with the rest, so a newer Envoy Gateway loses nothing here.
 */
#include "control/envoy/extension.h"

#include <string.h>

#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/extension.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/listener.pb-c.h>

#include "control/envoy/extension_int.h"
#include "control/gateway/xds/xds_int.h"
#include "http/grpc/grpc.h"
#include "proto/pb.h"
#include "proto/types.h"

#define SERVICE "/envoygateway.extension.EnvoyGatewayExtension/"

enum {
    REQUEST_MAX = 64 << 20,
};

static const struct sw_pb_limits limits = {.bytes = REQUEST_MAX, .memory = (size_t)1 << 30};

/* --- clusters of custom backends --- */

/* The first object that means a connector. */
static bool find_target(const struct sw_extension *x, const Sw__PostClusterExtensionContext *ctx,
                        struct sw_arena *a, struct sw_model_endpoint *ret)
{
    for (size_t i = 0; ctx && x->resolve && i < ctx->n_backend_extension_resources; i++) {
        struct sw_slice json = SW_PB_SLICE(ctx->backend_extension_resources[i]->unstructured_bytes);
        struct sw_json *object;

        if (sw_json_parse(a, json, NULL, &object, NULL) == SW_OK &&
            x->resolve(x->arg, object, a, &ret->tunnel_target, &ret->tunnel_id))
            return true;
    }
    return false;
}

/*
 * Envoy Gateway's cluster keeps its name and settings, and gets one endpoint: the connector, behind
 * the internal listener.
 */
static int cluster_hook(const struct sw_extension *x, struct sw_slice request, struct sw_arena *a,
                        struct sw_slice *ret, struct sw_err *err)
{
    Sw__PostClusterModifyRequest *in = SW_PB_UNPACK(
        a, Sw__PostClusterModifyRequest, sw__post_cluster_modify_request, request, &limits, err);
    Sw__PostClusterModifyResponse *out;
    struct sw_model_endpoint to = {0};
    struct enc e = {.a = a, .conf = &x->conf};

    if (!in)
        return SW_EPROTO;
    out = SW_PB_NEW(a, Sw__PostClusterModifyResponse, sw__post_cluster_modify_response);
    if (in->cluster && find_target(x, in->post_cluster_context, a, &to)) {
        out->cluster = in->cluster;
        sw_gwx_make_tunnel(&e, out->cluster, &to);
    }
    *ret = sw_pb_pack(a, &out->base);
    return SW_OK;
}

/* --- the whole translation --- */

static bool has_tunnels(const Sw__PostTranslateModifyRequest *in)
{
    for (size_t i = 0; i < in->n_clusters; i++) {
        if (sw_gwx_is_tunnel(in->clusters[i]))
            return true;
    }
    return false;
}

static bool has_cluster(const Sw__PostTranslateModifyRequest *in, const char *name)
{
    for (size_t i = 0; i < in->n_clusters; i++) {
        if (sw_slice_eq_str(SW_PB_SLICE(in->clusters[i]->name), name))
            return true;
    }
    return false;
}

static bool has_listener(const Sw__PostTranslateModifyRequest *in, const char *name)
{
    for (size_t i = 0; i < in->n_listeners; i++) {
        if (sw_slice_eq_str(SW_PB_SLICE(in->listeners[i]->name), name))
            return true;
    }
    return false;
}

/* What was sent, and one more. */
static void *with(struct sw_arena *a, const void *list, size_t n, void *one)
{
    void **all = sw_arena_array(a, n + 1, sizeof(void *));

    if (n)
        memcpy(all, list, n * sizeof(void *));
    all[n] = one;
    return all;
}

static void add_tunnels(const struct sw_extension *x, const Sw__PostTranslateModifyRequest *in,
                        struct sw_arena *a, Sw__PostTranslateModifyResponse *out)
{
    struct enc e = {.a = a, .conf = &x->conf};

    if (!has_cluster(in, SW_MODEL_CONNECT_PROXY)) {
        out->clusters = with(a, in->clusters, in->n_clusters, sw_gwx_connect_proxy(&e));
        out->n_clusters = in->n_clusters + 1;
    }
    if (!has_listener(in, SW_MODEL_TUNNEL_LISTENER)) {
        out->listeners = with(a, in->listeners, in->n_listeners, sw_gwx_tunnel_listener(&e));
        out->n_listeners = in->n_listeners + 1;
    }
}

/* Whatever is not in the answer is deleted, so all of it is. */
static int translate_hook(const struct sw_extension *x, struct sw_slice request, struct sw_arena *a,
                          struct sw_slice *ret, struct sw_err *err)
{
    Sw__PostTranslateModifyRequest *in =
        SW_PB_UNPACK(a, Sw__PostTranslateModifyRequest, sw__post_translate_modify_request, request,
                     &limits, err);
    Sw__PostTranslateModifyResponse *out;

    if (!in)
        return SW_EPROTO;
    sw_gwx_apply_rules(x, a, in);
    out = SW_PB_NEW(a, Sw__PostTranslateModifyResponse, sw__post_translate_modify_response);
    out->clusters = in->clusters;
    out->n_clusters = in->n_clusters;
    out->secrets = in->secrets;
    out->n_secrets = in->n_secrets;
    out->listeners = in->listeners;
    out->n_listeners = in->n_listeners;
    out->routes = in->routes;
    out->n_routes = in->n_routes;
    if (!x->static_parts && has_tunnels(in))
        add_tunnels(x, in, a, out);
    *ret = sw_pb_pack(a, &out->base);
    return SW_OK;
}

/* --- calls --- */

/* A request we have nothing to say to: an empty answer means "unchanged". */
static int unchanged(const ProtobufCMessageDescriptor *type, struct sw_slice request,
                     struct sw_arena *a, struct sw_slice *ret, struct sw_err *err)
{
    if (!sw_pb_unpack(a, type, request, &limits, err))
        return SW_EPROTO;
    *ret = SW_SLICE_LIT("");
    return SW_OK;
}

int sw_extension_call(const struct sw_extension *x, enum sw_extension_hook hook,
                      struct sw_slice request, struct sw_arena *a, struct sw_slice *ret,
                      struct sw_err *err)
{
    switch (hook) {
    case SW_EXTENSION_HOOK_ROUTE:
        return unchanged(&sw__post_route_modify_request__descriptor, request, a, ret, err);
    case SW_EXTENSION_HOOK_VHOST:
        return unchanged(&sw__post_virtual_host_modify_request__descriptor, request, a, ret, err);
    case SW_EXTENSION_HOOK_LISTENER:
        return unchanged(&sw__post_httplistener_modify_request__descriptor, request, a, ret, err);
    case SW_EXTENSION_HOOK_CLUSTER:
        return cluster_hook(x, request, a, ret, err);
    case SW_EXTENSION_HOOK_ENDPOINTS:
        return unchanged(&sw__post_endpoints_modify_request__descriptor, request, a, ret, err);
    case SW_EXTENSION_HOOK_TRANSLATE:
        return translate_hook(x, request, a, ret, err);
    case SW_EXTENSION_HOOKS:
        break;
    }
    return sw_err_set(err, SW_EINVAL, "no such hook");
}

static void answer(struct sw_grpc_call *c, struct sw_slice msg, const struct sw_extension *x,
                   enum sw_extension_hook hook)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice out;
    struct sw_err err = {0};

    if (sw_extension_call(x, hook, msg, &a, &out, &err) == SW_OK)
        sw_grpc_reply(c, out);
    else
        sw_grpc_finish(c, SW_GRPC_INVALID_ARGUMENT, "%s", err.msg);
}

/* One function each: a method carries nothing but the extension. */
#define HOOK(fn, hook)                                                                             \
    static void fn(struct sw_grpc_call *c, struct sw_slice msg, void *arg)                         \
    {                                                                                              \
        answer(c, msg, arg, hook);                                                                 \
    }
HOOK(on_route, SW_EXTENSION_HOOK_ROUTE)
HOOK(on_vhost, SW_EXTENSION_HOOK_VHOST)
HOOK(on_listener, SW_EXTENSION_HOOK_LISTENER)
HOOK(on_cluster, SW_EXTENSION_HOOK_CLUSTER)
HOOK(on_endpoints, SW_EXTENSION_HOOK_ENDPOINTS)
HOOK(on_translate, SW_EXTENSION_HOOK_TRANSLATE)

void sw_extension_serve(struct sw_grpc_server *s, struct sw_extension *x)
{
#define METHOD(hook, name, fn) [hook] = {.path = SERVICE name, .unary = fn, .arg = x }
    const struct sw_grpc_method methods[SW_EXTENSION_HOOKS] = {
        METHOD(SW_EXTENSION_HOOK_ROUTE, "PostRouteModify", on_route),
        METHOD(SW_EXTENSION_HOOK_VHOST, "PostVirtualHostModify", on_vhost),
        METHOD(SW_EXTENSION_HOOK_LISTENER, "PostHTTPListenerModify", on_listener),
        METHOD(SW_EXTENSION_HOOK_CLUSTER, "PostClusterModify", on_cluster),
        METHOD(SW_EXTENSION_HOOK_ENDPOINTS, "PostEndpointsModify", on_endpoints),
        METHOD(SW_EXTENSION_HOOK_TRANSLATE, "PostTranslateModify", on_translate),
    };

    sw_grpc_server_methods(s, methods, SW_EXTENSION_HOOKS);
}
