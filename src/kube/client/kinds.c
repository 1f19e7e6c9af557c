/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/kinds.h"

const struct sw_kube_gvr sw_pods_gvr = {"", "v1", "pods", "Pod", true};
const struct sw_kube_gvr sw_namespaces_gvr = {"", "v1", "namespaces", "Namespace", false};
const struct sw_kube_gvr sw_secrets_gvr = {"", "v1", "secrets", "Secret", true};
const struct sw_kube_gvr sw_configmaps_gvr = {"", "v1", "configmaps", "ConfigMap", true};
const struct sw_kube_gvr sw_leases_gvr = {"coordination.k8s.io", "v1", "leases", "Lease", true};
const struct sw_kube_gvr sw_daemonsets_gvr = {"apps", "v1", "daemonsets", "DaemonSet", true};
const struct sw_kube_gvr sw_connector_gvr = {SW_CONNECTOR_GROUP, "v1alpha1", "connectors",
                                             "Connector", true};
const struct sw_kube_gvr sw_advertisement_gvr = {
    SW_CONNECTOR_GROUP, "v1alpha1", "connectoradvertisements", "ConnectorAdvertisement", true};
const struct sw_kube_gvr sw_httpproxy_gvr = {SW_CONNECTOR_GROUP, "v1alpha", "httpproxies",
                                             "HTTPProxy", true};

struct sw_json *sw_kube_object_new(struct sw_arena *a, const struct sw_kube_gvr *gvr,
                                   struct sw_slice ns, struct sw_slice name)
{
    struct sw_json *o = sw_json_new_object(a);
    struct sw_json *meta;

    sw_json_put_text(a, o, "apiVersion",
                     gvr->group[0] ? sw_arena_printf(a, "%s/%s", gvr->group, gvr->version)
                                   : gvr->version);
    sw_json_put_text(a, o, "kind", gvr->kind);
    meta = sw_json_put_object(a, o, "metadata");
    if (ns.n)
        sw_json_put_str(a, meta, "namespace", ns);
    if (name.n)
        sw_json_put_str(a, meta, "name", name);
    return o;
}
