/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fabric with connectors has from the start: the default classes, a namespace for the
 * ConfigMaps of gateways, and roles that let devices and gateways do their work and no more. Made
 * where missing; what is there is left as it is, but for roles: rules of older releases go, new
 * ones come, those of users stay (kube/schema/bundled.h).
 */
#include "control/connector/connector_int.h"
#include "control/roles.h"

/* Single quotes, to be readable here. */
#define R(group, resources, verbs)                                                                 \
    "{'apiGroups':['" group "'],'resources':[" resources "],'verbs':[" verbs "]}"

/* Of a device, in its namespace; unchanged since the releases that left no note beside a role. */
#define VERBS "'get','list','watch','create','patch','update','delete'"
static const char device_rules[] =
    "["
    "{'apiGroups':['" SW_CONNECTOR_GROUP "'],'resources':['connectors','connectoradvertisements',"
    "'httpproxies'],'verbs':[" VERBS "]},"
    "{'apiGroups':['" SW_CONNECTOR_GROUP "'],'resources':['connectorclasses'],"
    "'verbs':['get','list','watch']},"
    "{'apiGroups':['" SW_CONNECTOR_GROUP "'],'resources':['connectors/status'],"
    "'verbs':['get','patch','update']},"
    "{'apiGroups':['coordination.k8s.io'],'resources':['leases'],"
    "'verbs':['get','list','watch','patch','update']},"
    "{'apiGroups':['gateway.networking.k8s.io'],'resources':['gateways'],"
    "'verbs':['get','list','watch']}"
    "]";

/* Of a gateway or sidecar, everywhere. */
static const char gateway_rules[] = "[{'nonResourceURLs':['/xds'],'verbs':['get']}," R(
    SW_CONNECTOR_GROUP, "'connectors'", "'get','list','watch'") "]";

/* The same, to be bound in the namespace where they say who they are. */
static const char identity_rules[] =
    "[" R("", "'configmaps'", "'get','list','watch','create','patch','update'") "]";

static const struct sw_role roles[] = {
    {"spanwire-connector", device_rules, device_rules},
    {"spanwire-gateway", gateway_rules, NULL},
    {"spanwire-gateway-identity", identity_rules, NULL},
};

static const struct {
    const char *name;
    const char *controller;
} classes[] = {
    {"datum-connect", SW_CONNECTOR_GROUP "/datum-connect"},
    {"iroh-quic-tunnel", SW_CONNECTOR_GROUP "/iroh-quic-tunnel"},
};

static void add(const struct sw_view *v, struct sw_output *out, size_t kind, struct sw_json *obj)
{
    struct sw_slice name = sw_json_str(sw_json_walk(obj, "metadata", "name", NULL));

    if (sw_view_find(v, kind, sw_slice("", 0), name))
        return;
    cn_meta(sw_out_arena(out), obj, "labels", MANAGED, SW_SLICE_LIT("spanwire"));
    sw_out_apply(out, kind, obj);
}

static struct sw_json *class_object(struct sw_arena *a, const char *api, const char *kind,
                                    struct sw_slice name, struct sw_slice controller)
{
    struct sw_json *obj = cn_object(a, api, kind, sw_slice("", 0), name);

    sw_json_put(a, obj, "spec", SW_JSON_OF(a, {"controllerName", .text = controller}));
    return obj;
}

void cn_defaults(const struct sw_view *v, const struct sw_connector_conf *conf,
                 struct sw_output *out)
{
    struct sw_arena *a = sw_out_arena(out);

    for (size_t i = 0; i < SW_ARRAY_LEN(classes); i++)
        add(v, out, SW_CN_CLASS,
            class_object(a, CN_API, "ConnectorClass", sw_slice_str(classes[i].name),
                         sw_slice_str(classes[i].controller)));
    /* A class that Envoy Gateway serves names Envoy Gateway, which is not ours to say. */
    if (conf->gateway_class.n && conf->gateway_controller.n && !conf->envoy_gateway &&
        !conf->patch_policies)
        add(v, out, SW_CN_GATEWAYCLASS,
            class_object(a, GW_API, "GatewayClass", conf->gateway_class, conf->gateway_controller));
    add(v, out, SW_CN_NAMESPACE,
        cn_object(a, "v1", "Namespace", sw_slice("", 0), SW_SLICE_LIT(SW_CONNECTOR_SYSTEM_NS)));
    for (size_t i = 0; i < SW_ARRAY_LEN(roles); i++)
        sw_role_want(v, SW_CN_ROLE, out, &roles[i]);
    cn_relays(v, conf, out);
}
