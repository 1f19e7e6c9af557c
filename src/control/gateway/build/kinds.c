/* SPDX-License-Identifier: Apache-2.0 */
/* What the build watches. */
#include "control/claims.h"
#include "control/gateway/build/build.h"
#include "control/linkname.h"

#define GW(plural, name, ns)                                                                       \
    &(const struct sw_kube_gvr)                                                                    \
    {                                                                                              \
        "gateway.networking.k8s.io", "v1", (plural), (name), (ns)                                  \
    }
/* The same kinds as clusters with an older bundle serve them. */
#define OLD(v, plural, name)                                                                       \
    &(const struct sw_kube_gvr)                                                                    \
    {                                                                                              \
        "gateway.networking.k8s.io", (v), (plural), (name), true                                   \
    }
#define CORE(plural, name, ns)                                                                     \
    &(const struct sw_kube_gvr)                                                                    \
    {                                                                                              \
        "", "v1", (plural), (name), (ns)                                                           \
    }

#define DATUM(plural, name, in_ns)                                                                 \
    &(const struct sw_kube_gvr)                                                                    \
    {                                                                                              \
        "networking.datumapis.com", "v1alpha1", (plural), (name), (in_ns)                          \
    }

/* Others hold no certificate: they would wake the build for nothing. */
static bool has_cert(const struct sw_kube_obj *o)
{
    return sw_json_walk(o->json, "data", "tls.crt", NULL) != NULL;
}

static bool has_ca(const struct sw_kube_obj *o)
{
    return sw_json_walk(o->json, "data", "ca.crt", NULL) != NULL;
}

static bool of_no_service(const struct sw_kube_obj *o)
{
    return !sw_json_walk(o->json, "metadata", "labels", "kubernetes.io/service-name", NULL);
}

static bool of_key(const struct sw_kube_obj *o)
{
    return sw_json_str_eq(sw_json_walk(o->json, "spec", "type", NULL), "Key");
}

static bool of_host(const struct sw_kube_obj *o)
{
    return sw_json_str_eq(sw_json_walk(o->json, "spec", "type", NULL), "Hostname");
}

static bool of_gateway_api(const struct sw_kube_obj *o)
{
    return sw_slice_has_suffix(o->name, SW_SLICE_LIT(".gateway.networking.k8s.io"));
}

/* Of bundles v1.2 to v1.5; the fields that are read here are those of v1. */
static const struct sw_kube_gvr *const old_grants[] = {
    OLD("v1beta1", "referencegrants", "ReferenceGrant"), NULL};
static const struct sw_kube_gvr *const old_tlsroutes[] = {
    OLD("v1alpha3", "tlsroutes", "TLSRoute"), OLD("v1alpha2", "tlsroutes", "TLSRoute"), NULL};
static const struct sw_kube_gvr *const old_tcproutes[] = {OLD("v1alpha2", "tcproutes", "TCPRoute"),
                                                          NULL};
static const struct sw_kube_gvr *const old_udproutes[] = {OLD("v1alpha2", "udproutes", "UDPRoute"),
                                                          NULL};
static const struct sw_kube_gvr *const old_policies[] = {
    OLD("v1alpha3", "backendtlspolicies", "BackendTLSPolicy"), NULL};

const struct sw_control_kind sw_gateway_kinds[SW_MODEL_KINDS] = {
    [SW_MODEL_CLASS] = {.gvr = GW("gatewayclasses", "GatewayClass", false),
                        .needed = true,
                        .own_status = true},
    [SW_MODEL_GATEWAY] = {.gvr = GW("gateways", "Gateway", true),
                          .needed = true,
                          .own_status = true},
    [SW_MODEL_LISTENERSET] = {.gvr = GW("listenersets", "ListenerSet", true),
                              .optional = true,
                              .own_status = true},
    [SW_MODEL_HTTPROUTE] = {.gvr = GW("httproutes", "HTTPRoute", true),
                            .needed = true,
                            .own_status = true},
    [SW_MODEL_GRPCROUTE] = {.gvr = GW("grpcroutes", "GRPCRoute", true),
                            .optional = true,
                            .own_status = true},
    [SW_MODEL_TLSROUTE] = {.gvr = GW("tlsroutes", "TLSRoute", true),
                           .older = old_tlsroutes,
                           .optional = true,
                           .own_status = true},
    [SW_MODEL_TCPROUTE] = {.gvr = GW("tcproutes", "TCPRoute", true),
                           .older = old_tcproutes,
                           .optional = true,
                           .own_status = true},
    [SW_MODEL_UDPROUTE] = {.gvr = GW("udproutes", "UDPRoute", true),
                           .older = old_udproutes,
                           .optional = true,
                           .own_status = true},
    [SW_MODEL_GRANT] = {.gvr = GW("referencegrants", "ReferenceGrant", true),
                        .older = old_grants,
                        .optional = true},
    [SW_MODEL_BACKENDTLS] = {.gvr = GW("backendtlspolicies", "BackendTLSPolicy", true),
                             .older = old_policies,
                             .optional = true,
                             .own_status = true},
    [SW_MODEL_SERVICE] = {.gvr = CORE("services", "Service", true)},
    [SW_MODEL_SECRET] = {.gvr = CORE("secrets", "Secret", true),
                         .relevant = has_cert,
                         .forget = true,
                         .field_selector = "type=kubernetes.io/tls"},
    [SW_MODEL_CONFIGMAP] = {.gvr = CORE("configmaps", "ConfigMap", true),
                            .relevant = has_ca,
                            .forget = true},
    [SW_MODEL_NAMESPACE] = {.gvr = CORE("namespaces", "Namespace", false)},
    [SW_MODEL_INGRESS] = {.gvr = &(const struct sw_kube_gvr){"networking.k8s.io", "v1", "ingresses",
                                                             "Ingress", true},
                          .optional = true,
                          .own_status = true},
    [SW_MODEL_INGRESSCLASS] = {.gvr = &(const struct sw_kube_gvr){"networking.k8s.io", "v1",
                                                                  "ingressclasses", "IngressClass",
                                                                  false},
                               .optional = true},
    [SW_MODEL_ACCOUNT] = {.gvr = CORE("serviceaccounts", "ServiceAccount", true),
                          .label_selector = "gateway.networking.k8s.io/gateway-name"},
    [SW_MODEL_CONNECTOR] = {.gvr = DATUM("connectors", "Connector", true), .optional = true},
    [SW_MODEL_CONNECTORCLASS] = {.gvr = DATUM("connectorclasses", "ConnectorClass", false),
                                 .optional = true},
    [SW_MODEL_CLAIM] = {.gvr = &sw_claim_gvr, .optional = true, .relevant = of_key, .forget = true},
    /* Apart from keys: these are nothing that compiled routes follow from. */
    [SW_MODEL_HOSTCLAIM] = {.gvr = &sw_claim_gvr,
                            .optional = true,
                            .relevant = of_host,
                            .forget = true},
    [SW_MODEL_ADVERTISEMENT] = {.gvr = DATUM("connectoradvertisements", "ConnectorAdvertisement",
                                             true),
                                .optional = true},
    [SW_MODEL_BACKENDSLICE] = {.gvr = &(const struct sw_kube_gvr){"discovery.k8s.io", "v1",
                                                                  "endpointslices", "EndpointSlice",
                                                                  true},
                               .optional = true,
                               .relevant = of_no_service,
                               .label_selector = "!kubernetes.io/service-name"},
    /* Of what their statuses say, leases matter. */
    [SW_MODEL_IMPORT] = {.gvr = &(const struct sw_kube_gvr){SW_LINK_GROUP, "v1alpha1", "imports",
                                                            "Import", true},
                         .optional = true},
    [SW_MODEL_CRD] = {.gvr = &(const struct sw_kube_gvr){"apiextensions.k8s.io", "v1",
                                                         "customresourcedefinitions",
                                                         "CustomResourceDefinition", false},
                      .optional = true,
                      .relevant = of_gateway_api,
                      /* The smallest; a bundle is installed as a whole. */
                      .field_selector = "metadata.name=gatewayclasses.gateway.networking.k8s.io"},
};

const struct sw_control_kind sw_gateway_endpoint_kinds[SW_MODEL_EP_KINDS] = {
    [SW_MODEL_EP_SERVICE] = {.gvr = CORE("services", "Service", true)},
    [SW_MODEL_EP_SLICE] = {.gvr =
                               &(const struct sw_kube_gvr){"discovery.k8s.io", "v1",
                                                           "endpointslices", "EndpointSlice", true},
                           .optional = true},
    [SW_MODEL_EP_ENDPOINTS] = {.gvr = CORE("endpoints", "Endpoints", true), .optional = true},
    [SW_MODEL_EP_CONNECTOR] = {.gvr = DATUM("connectors", "Connector", true), .optional = true},
    [SW_MODEL_EP_CLAIM] = {.gvr = &sw_claim_gvr,
                           .optional = true,
                           .relevant = of_key,
                           .forget = true},
    [SW_MODEL_EP_CONNECTORCLASS] = {.gvr = DATUM("connectorclasses", "ConnectorClass", false),
                                    .optional = true},
};
