/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and labels of what an Import has in the API, as ClusterLink has them: for the controller
 * that makes these objects and for those that look for them.
 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/slice.h"

struct sw_json;

#define SW_LINK_GROUP     "clusterlink.net"
#define SW_LINK_API       SW_LINK_GROUP "/v1alpha1"
#define SW_LINK_NAMESPACE "clusterlink-system" /* default of --link-namespace */
#define SW_LINK_MERGE     "import.clusterlink.net/merge"
/* Labels of Services, with SW_LINK_GROUP as manager; of EndpointSlices. */
#define SW_LINK_MANAGED       "app.kubernetes.io/managed-by"
#define SW_LINK_IMPORT_NAME   "clusterlink.net/import-name"
#define SW_LINK_IMPORT_NS     "clusterlink.net/import-namespace"
#define SW_LINK_SLICE_MANAGED "endpointslice.kubernetes.io/managed-by"
#define SW_LINK_SLICE_OF      "clusterlink.net/dataplane-endpointslice-name"
#define SW_LINK_SERVICE       "kubernetes.io/service-name"

/* EndpointSlices of the system namespace with the addresses of data planes, by family. */
#define SW_LINK_PLANES  "spanwire-link"
#define SW_LINK_PLANES6 "spanwire-link6"

/* The Service in the system namespace that an Import of another namespace has. */
struct sw_slice sw_link_service_name(struct sw_arena *a, struct sw_slice ns, struct sw_slice name);
/* The object has the labels of a Service made for this Import. */
bool sw_link_service_of(const struct sw_json *service, struct sw_slice ns, struct sw_slice name);
/* True for an Import in merge mode. */
bool sw_link_merges(const struct sw_json *import);
