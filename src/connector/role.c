/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/role.h"

#include "kube/names.h"

/*
 * Rules with names cover "create" only where the request names the object: a server-side apply.
 * That is how devices make their objects. Lists and watches are covered with the field selector
 * metadata.name.
 */
static const char text[] =
    "# The rights of device '%.*s' in namespace '%.*s'. See spanwire-connector(8), ENROLMENT.\n"
    "apiVersion: v1\n"
    "kind: ServiceAccount\n"
    "metadata: {name: \"%.*s\", namespace: \"%.*s\"}\n"
    "---\n"
    "apiVersion: rbac.authorization.k8s.io/v1\n"
    "kind: Role\n"
    "metadata: {name: spanwire-device-%.*s, namespace: \"%.*s\"}\n"
    "rules:\n"
    "- apiGroups: [networking.datumapis.com]\n"
    "  resources: [connectors, connectoradvertisements, httpproxies]\n"
    "  resourceNames: [\"%.*s\"]\n"
    "  verbs: [get, list, watch, create, patch, delete]\n"
    "- apiGroups: [networking.datumapis.com]\n"
    "  resources: [connectors/status]\n"
    "  resourceNames: [\"%.*s\"]\n"
    "  verbs: [patch]\n"
    "- apiGroups: [coordination.k8s.io]\n"
    "  resources: [leases]\n"
    "  resourceNames: [\"%.*s\"]\n"
    "  verbs: [get, patch]\n"
    "---\n"
    "apiVersion: rbac.authorization.k8s.io/v1\n"
    "kind: RoleBinding\n"
    "metadata: {name: spanwire-device-%.*s, namespace: \"%.*s\"}\n"
    "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: spanwire-device-%.*s}\n"
    "subjects:\n"
    "- {kind: ServiceAccount, name: \"%.*s\", namespace: \"%.*s\"}\n";

int sw_device_role(struct sw_slice ns, struct sw_slice name, struct sw_buf *out, struct sw_err *err)
{
    if (sw_name_dns1123_label(ns).n || sw_name_dns1123_label(name).n)
        return sw_err_set(
            err, SW_EINVAL,
            "--name and --namespace: at most 63 of a-z, 0-9 and '-', with a letter or "
            "digit at both ends");
    return sw_buf_printf(out, text, SW_SLICE_ARG(name), SW_SLICE_ARG(ns), SW_SLICE_ARG(name),
                         SW_SLICE_ARG(ns), SW_SLICE_ARG(name), SW_SLICE_ARG(ns), SW_SLICE_ARG(name),
                         SW_SLICE_ARG(name), SW_SLICE_ARG(name), SW_SLICE_ARG(name),
                         SW_SLICE_ARG(ns), SW_SLICE_ARG(name), SW_SLICE_ARG(name),
                         SW_SLICE_ARG(ns));
}
