/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/kinds.h"

#define GVR(group, version, plural, name, ns)                                                      \
    {                                                                                              \
        (group), (version), (plural), (name), (ns)                                                 \
    }

const struct sw_mesh_kind_info sw_mesh_kinds[SW_MESH_WATCHED] = {
    [SW_MESH_NAMESPACE] = {GVR("", "v1", "namespaces", "Namespace", false), false},
    [SW_MESH_NODE] = {GVR("", "v1", "nodes", "Node", false), true},
    [SW_MESH_CLASS] = {GVR("gateway.networking.k8s.io", "v1", "gatewayclasses", "GatewayClass",
                           false),
                       true},
    [SW_MESH_GATEWAY] = {GVR("gateway.networking.k8s.io", "v1", "gateways", "Gateway", true), true},
    [SW_MESH_SERVICE] = {GVR("", "v1", "services", "Service", true), false},
    [SW_MESH_SERVICE_ENTRY] = {GVR("networking.istio.io", "v1", "serviceentries", "ServiceEntry",
                                   true),
                               true},
    [SW_MESH_WORKLOAD_ENTRY] = {GVR("networking.istio.io", "v1", "workloadentries", "WorkloadEntry",
                                    true),
                                true},
    [SW_MESH_SLICE] = {GVR("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true),
                       true},
    [SW_MESH_POD] = {GVR("", "v1", "pods", "Pod", true), true},
    [SW_MESH_WATCH_POLICY] = {GVR("security.istio.io", "v1", "authorizationpolicies",
                                  "AuthorizationPolicy", true),
                              true},
    [SW_MESH_WATCH_PEER] = {GVR("security.istio.io", "v1", "peerauthentications",
                                "PeerAuthentication", true),
                            true},
};
