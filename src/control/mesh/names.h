/* SPDX-License-Identifier: Apache-2.0 */
/* Labels and annotations that the mesh reads, and fixed names of its resources. */
#pragma once

#define MESH_NETWORK            "topology.istio.io/network"
#define MESH_SUBZONE            "topology.istio.io/subzone"
#define MESH_REGION             "topology.kubernetes.io/region"
#define MESH_ZONE               "topology.kubernetes.io/zone"
#define MESH_REDIRECTION        "ambient.istio.io/redirection"
#define MESH_TUNNEL             "networking.istio.io/tunnel"
#define MESH_CANONICAL_NAME     "service.istio.io/canonical-name"
#define MESH_CANONICAL_REVISION "service.istio.io/canonical-revision"
#define MESH_WORKLOAD_NAME      "service.istio.io/workload-name"
#define MESH_AUTO_REGISTRATION  "istio.io/autoRegistrationGroup"
#define MESH_REVISION           "istio.io/rev"
#define MESH_MANAGED            "gateway.istio.io/managed"
#define MESH_GATEWAY_NAME       "gateway.networking.k8s.io/gateway-name"
#define MESH_GATEWAY_ACCOUNT    "gateway.istio.io/service-account"
#define MESH_SERVICE_NAME       "kubernetes.io/service-name"

#define MESH_USE_WAYPOINT     "istio.io/use-waypoint"
#define MESH_USE_WAYPOINT_NS  "istio.io/use-waypoint-namespace"
#define MESH_CANARY           "istio.io/use-waypoint-canary"
#define MESH_CANARY_NS        "istio.io/use-waypoint-canary-namespace"
#define MESH_CANARY_WEIGHT    "istio.io/use-waypoint-canary-weight"
#define MESH_INGRESS_WAYPOINT "istio.io/ingress-use-waypoint"
/* Ours, on a Namespace: traffic waits for the waypoint rather than going past it. */
#define MESH_HOLD "spanwire.dev/hold-for-waypoint"

#define MESH_WAYPOINT_FOR     "istio.io/waypoint-for"
#define MESH_INBOUND_BINDING  "ambient.istio.io/waypoint-inbound-binding"
#define MESH_DISTRIBUTION     "networking.istio.io/traffic-distribution"
#define MESH_CONNECT_STRATEGY "istio.io/connect-strategy"
#define MESH_AUTOALLOCATE     "networking.istio.io/enable-autoallocate-ip"

#define MESH_CLASS_REMOTE    "istio-remote"
#define MESH_CLASS_EAST_WEST "istio-east-west"

enum { MESH_HBONE_PORT = 15008 };
