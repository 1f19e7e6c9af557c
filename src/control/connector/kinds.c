/* SPDX-License-Identifier: Apache-2.0 */
/* What the connector builds watch. */
#include "control/claims.h"
#include "control/connector/connector_int.h"

#define DATUM(version, plural, name, ns)                                                           \
    &(const struct sw_kube_gvr)                                                                    \
    {                                                                                              \
        SW_CONNECTOR_GROUP, (version), (plural), (name), (ns)                                      \
    }
#define GVR(group, version, plural, name, ns)                                                      \
    &(const struct sw_kube_gvr)                                                                    \
    {                                                                                              \
        (group), (version), (plural), (name), (ns)                                                 \
    }

/* Leases of others, leader election above all, are renewed all the time. */
static bool of_connector(const struct sw_kube_obj *o)
{
    const struct sw_json *list = sw_json_walk(o->json, "metadata", "ownerReferences", NULL);

    /* One in the way of a Connector's has to be seen too, and it has this. */
    return sw_json_find_item(list, "kind", SW_SLICE_LIT("Connector")) ||
           !sw_slice_eq_str(o->ns, "kube-system");
}

const struct sw_control_kind sw_connector_kinds[SW_CN_KINDS] = {
    [SW_CN_CLASS] = {.gvr = DATUM("v1alpha1", "connectorclasses", "ConnectorClass", false),
                     .optional = true},
    [SW_CN_CONNECTOR] = {.gvr = DATUM("v1alpha1", "connectors", "Connector", true),
                         .optional = true},
    [SW_CN_LEASE] = {.gvr = GVR("coordination.k8s.io", "v1", "leases", "Lease", true),
                     .relevant = of_connector,
                     .managed = true},
    [SW_CN_IDENTITY] = {.gvr = GVR("", "v1", "configmaps", "ConfigMap", true),
                        .label_selector = SW_CONNECTOR_GATEWAY_SELF "=true"},
    [SW_CN_NAMESPACE] = {.gvr = GVR("", "v1", "namespaces", "Namespace", false),
                         .field_selector = "metadata.name=" SW_CONNECTOR_SYSTEM_NS},
    [SW_CN_GATEWAYCLASS] = {.gvr = GVR(GW_GROUP, "v1", "gatewayclasses", "GatewayClass", false),
                            .optional = true},
    [SW_CN_ROLE] = {.gvr = GVR("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole",
                               false),
                    .optional = true,
                    .label_selector = MANAGED "=spanwire"},
    [SW_CN_CLAIM] = {.gvr = &sw_claim_gvr, .optional = true},
    [SW_CN_POLICY] = {.gvr = GVR("admissionregistration.k8s.io", "v1",
                                 "validatingadmissionpolicies", "ValidatingAdmissionPolicy", false),
                      .optional = true,
                      .label_selector = MANAGED "=spanwire"},
    [SW_CN_BINDING] = {.gvr = GVR("admissionregistration.k8s.io", "v1",
                                  "validatingadmissionpolicybindings",
                                  "ValidatingAdmissionPolicyBinding", false),
                       .optional = true,
                       .label_selector = MANAGED "=spanwire"},
    [SW_CN_RELAYS] = {.gvr = GVR("", "v1", "configmaps", "ConfigMap", true),
                      .field_selector = "metadata.name=" SW_CONNECTOR_RELAYS},
};

/* As clusters with an older bundle serve it. */
static const struct sw_kube_gvr *const old_tlsroutes[] = {
    GVR(GW_GROUP, "v1alpha3", "tlsroutes", "TLSRoute", true),
    GVR(GW_GROUP, "v1alpha2", "tlsroutes", "TLSRoute", true), NULL};

static const struct sw_kube_gvr *const old_tcproutes[] = {
    GVR(GW_GROUP, "v1alpha2", "tcproutes", "TCPRoute", true), NULL};

const struct sw_control_kind sw_httpproxy_kinds[SW_HP_KINDS] = {
    [SW_HP_PROXY] = {.gvr = DATUM("v1alpha", "httpproxies", "HTTPProxy", true),
                     .optional = true,
                     .own_status = true},
    [SW_HP_CLASS] = {.gvr = DATUM("v1alpha1", "connectorclasses", "ConnectorClass", false),
                     .optional = true},
    [SW_HP_CONNECTOR] = {.gvr = DATUM("v1alpha1", "connectors", "Connector", true),
                         .optional = true},
    [SW_HP_ADVERTISEMENT] = {.gvr = DATUM("v1alpha1", "connectoradvertisements",
                                          "ConnectorAdvertisement", true),
                             .optional = true,
                             .own_status = true},
    [SW_HP_GATEWAY] = {.gvr = GVR(GW_GROUP, "v1", "gateways", "Gateway", true), .optional = true},
    [SW_HP_ROUTE] = {.gvr = GVR(GW_GROUP, "v1", "httproutes", "HTTPRoute", true), .optional = true},
    /* Those of Services are many and none of our business. */
    [SW_HP_SLICE] = {.gvr = GVR("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true),
                     .label_selector = "!kubernetes.io/service-name"},
    [SW_HP_SECRET] = {.gvr = GVR("", "v1", "secrets", "Secret", true),
                      .label_selector = SW_CONNECTOR_CERT_LABEL "=true"},
    [SW_HP_PATCH] = {.gvr = GVR("gateway.envoyproxy.io", "v1alpha1", "envoypatchpolicies",
                                "EnvoyPatchPolicy", true),
                     .optional = true},
    [SW_HP_BACKEND] = {.gvr = GVR("gateway.envoyproxy.io", "v1alpha1", "backends", "Backend", true),
                       .optional = true},
    [SW_HP_CLAIM] = {.gvr = &sw_claim_gvr, .optional = true},
    [SW_HP_LISTENERSET] = {.gvr = GVR(GW_GROUP, "v1", "listenersets", "ListenerSet", true),
                           .optional = true},
    [SW_HP_GRPCROUTE] = {.gvr = GVR(GW_GROUP, "v1", "grpcroutes", "GRPCRoute", true),
                         .optional = true},
    [SW_HP_TLSROUTE] = {.gvr = GVR(GW_GROUP, "v1", "tlsroutes", "TLSRoute", true),
                        .older = old_tlsroutes,
                        .optional = true},
    [SW_HP_TCPROUTE] = {.gvr = GVR(GW_GROUP, "v1", "tcproutes", "TCPRoute", true),
                        .older = old_tcproutes,
                        .optional = true},
    [SW_HP_CA] = {.gvr = GVR("", "v1", "configmaps", "ConfigMap", true), .label_selector = PROXY},
    [SW_HP_INGRESS] = {.gvr = GVR("networking.k8s.io", "v1", "ingresses", "Ingress", true),
                       .optional = true},
};
