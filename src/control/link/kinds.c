/* SPDX-License-Identifier: Apache-2.0 */
/* What the build of links watches. */
#include "control/link/link_int.h"

#define LINK(plural, name, ns)                                                                     \
    &(const struct sw_kube_gvr)                                                                    \
    {                                                                                              \
        SW_LINK_GROUP, "v1alpha1", (plural), (name), (ns)                                          \
    }
#define CORE(plural, name, ns)                                                                     \
    &(const struct sw_kube_gvr)                                                                    \
    {                                                                                              \
        "", "v1", (plural), (name), (ns)                                                           \
    }

static const struct sw_kube_gvr slices = {"discovery.k8s.io", "v1", "endpointslices",
                                          "EndpointSlice", true};
static const struct sw_kube_gvr roles = {"rbac.authorization.k8s.io", "v1", "clusterroles",
                                         "ClusterRole", false};

/* Those of other Services are many and change all the time. */
static bool of_link(const struct sw_kube_obj *o)
{
    const struct sw_json *labels = sw_json_walk(o->json, "metadata", "labels", NULL);

    return sw_json_str_eq(sw_json_find(labels, SW_LINK_SLICE_MANAGED), SW_LINK_GROUP) ||
           sw_json_str_eq(sw_json_find(labels, SW_LINK_SERVICE), SW_LINK_INGRESS);
}

static bool of_other_service(const struct sw_kube_obj *o)
{
    return sw_json_walk(o->json, "metadata", "labels", SW_LINK_SERVICE, NULL) && !of_link(o);
}

const struct sw_control_kind sw_link_kinds[SW_LK_KINDS] = {
    [SW_LK_PEER] = {.gvr = LINK("peers", "Peer", true), .optional = true, .own_status = true},
    [SW_LK_EXPORT] = {.gvr = LINK("exports", "Export", true), .optional = true},
    [SW_LK_IMPORT] = {.gvr = LINK("imports", "Import", true), .optional = true},
    [SW_LK_POLICY] = {.gvr = LINK("accesspolicies", "AccessPolicy", true), .optional = true},
    [SW_LK_PRIVILEGED] = {.gvr = LINK("privilegedaccesspolicies", "PrivilegedAccessPolicy", false),
                          .optional = true},
    [SW_LK_SERVICE] = {.gvr = CORE("services", "Service", true)},
    [SW_LK_SLICE] = {.gvr = &slices, .relevant = of_link, .forget = true},
    [SW_LK_POD] = {.gvr = CORE("pods", "Pod", true), .label_selector = "app=cl-dataplane"},
    /* Helm overwrites the label of what it installs: our chart has these roles, too. */
    [SW_LK_ROLE] = {.gvr = &roles,
                    .optional = true,
                    .label_selector = SW_LINK_MANAGED " in (spanwire,Helm)"},
    [SW_LK_NAMESPACE] = {.gvr = CORE("namespaces", "Namespace", false)},
    [SW_LK_BACKEND] = {.gvr = &slices, .relevant = of_other_service, .forget = true},
};
