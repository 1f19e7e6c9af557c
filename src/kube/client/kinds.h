/* SPDX-License-Identifier: Apache-2.0 */
/* Resource types that several parts of the program use. */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "kube/client/request.h"

#define SW_CONNECTOR_GROUP "networking.datumapis.com"

extern const struct sw_kube_gvr sw_pods_gvr;
extern const struct sw_kube_gvr sw_namespaces_gvr;
extern const struct sw_kube_gvr sw_secrets_gvr;
extern const struct sw_kube_gvr sw_configmaps_gvr;
extern const struct sw_kube_gvr sw_leases_gvr;
extern const struct sw_kube_gvr sw_daemonsets_gvr;
extern const struct sw_kube_gvr sw_connector_gvr;
extern const struct sw_kube_gvr sw_advertisement_gvr;
extern const struct sw_kube_gvr sw_httpproxy_gvr;

/*
 * A new object of the kind, with apiVersion, kind, and a metadata with the namespace and the name
 * unless they are empty; in the arena.
 */
struct sw_json *sw_kube_object_new(struct sw_arena *a, const struct sw_kube_gvr *gvr,
                                   struct sw_slice ns, struct sw_slice name);
