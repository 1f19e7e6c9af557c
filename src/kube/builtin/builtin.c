/* SPDX-License-Identifier: Apache-2.0 */
/* The table of built-in kinds. */
#include "kube/builtin/builtin.h"

#include "kube/builtin/builtin_int.h"
#include "kube/text.h"

#define STATUS_VERBS  (SW_VERB_GET | SW_VERB_PATCH | SW_VERB_UPDATE)
#define NO_COLLECTION (SW_VERBS_ALL & ~SW_VERB_DELETECOLLECTION)

static const struct sw_builtin_sub no_subs[] = {{0}};
static const struct sw_builtin_sub status_sub[] = {{"status", NULL, NULL, NULL, STATUS_VERBS}, {0}};
static const struct sw_builtin_sub scaled_subs[] = {
    {"scale", "autoscaling", "v1", "Scale", STATUS_VERBS},
    {"status", NULL, NULL, NULL, STATUS_VERBS},
    {0}};
static const struct sw_builtin_sub namespace_subs[] = {
    {"finalize", NULL, NULL, NULL, SW_VERB_UPDATE},
    {"status", NULL, NULL, NULL, STATUS_VERBS},
    {0}};
static const struct sw_builtin_sub sa_subs[] = {
    {"token", "authentication.k8s.io", "v1", "TokenRequest", SW_VERB_CREATE}, {0}};

static const char *const sel_cluster[] = {"metadata.name", NULL};
static const char *const sel_ns[] = {"metadata.name", "metadata.namespace", NULL};
static const char *const sel_namespace[] = {"metadata.name", "status.phase", NULL};
static const char *const sel_secret[] = {"metadata.name", "metadata.namespace", "type", NULL};
static const char *const sel_service[] = {"metadata.name", "metadata.namespace", "spec.clusterIP",
                                          "spec.type", NULL};
static const char *const sel_rc[] = {"metadata.name", "metadata.namespace", "status.replicas",
                                     NULL};
static const char *const sel_job[] = {"metadata.name", "metadata.namespace", "status.successful",
                                      NULL};
static const char *const sel_pod[] = {"metadata.name",
                                      "metadata.namespace",
                                      "spec.nodeName",
                                      "spec.serviceAccountName",
                                      "status.phase",
                                      "status.podIP",
                                      NULL};
static const char *const sel_event[] = {"involvedObject.kind",
                                        "involvedObject.namespace",
                                        "involvedObject.name",
                                        "involvedObject.uid",
                                        "involvedObject.apiVersion",
                                        "involvedObject.resourceVersion",
                                        "involvedObject.fieldPath",
                                        "reason",
                                        "reportingComponent",
                                        "source",
                                        "type",
                                        "metadata.name",
                                        "metadata.namespace",
                                        NULL};
static const char *const sel_event_v1[] = {"regarding.kind",
                                           "regarding.namespace",
                                           "regarding.name",
                                           "regarding.uid",
                                           "regarding.apiVersion",
                                           "regarding.resourceVersion",
                                           "regarding.fieldPath",
                                           "reason",
                                           "reportingController",
                                           "type",
                                           "metadata.name",
                                           "metadata.namespace",
                                           NULL};

#define UNCOND  SW_B_UNCONDITIONAL
#define KFIN    SW_B_KUBE_FINALIZERS
#define STRICT  SW_B_STRICT_SELECTOR
#define RBAC    "rbac.authorization.k8s.io"
#define ADMIT   "admissionregistration.k8s.io"
#define AUTHN   "authentication.k8s.io"
#define AUTHZ   "authorization.k8s.io"
#define NETWORK "networking.k8s.io"
#define REVIEW  SW_VERB_CREATE

static const struct sw_builtin kinds[] = {
    {"", "v1", "ConfigMap", "configmaps", "configmap", "cm", "", true, SW_VERBS_ALL,
     UNCOND | STRICT | KFIN, "ConfigMap", sw_name_dns1123_subdomain, no_subs, sel_ns},
    {"", "v1", "Endpoints", "endpoints", "endpoints", "ep", "", true, SW_VERBS_ALL,
     UNCOND | STRICT | SW_B_CREATE_ON_UPDATE | KFIN, "Endpoints", sw_name_dns1123_subdomain,
     no_subs, sel_ns},
    {"", "v1", "Event", "events", "event", "ev", "", true, SW_VERBS_ALL,
     UNCOND | SW_B_CREATE_ON_UPDATE, "Event", sw_name_path_segment, no_subs, sel_event},
    {"", "v1", "Namespace", "namespaces", "namespace", "ns", "", false, NO_COLLECTION,
     UNCOND | SW_B_RETURNS_OBJECT | KFIN, "Namespace", sw_name_namespace, namespace_subs,
     sel_namespace},
    {"", "v1", "Node", "nodes", "node", "no", "", false, SW_VERBS_ALL, UNCOND | KFIN, "Node",
     sw_name_dns1123_subdomain, status_sub, sel_cluster},
    {"", "v1", "PersistentVolume", "persistentvolumes", "persistentvolume", "pv", "", false,
     SW_VERBS_ALL, UNCOND | STRICT | SW_B_RETURNS_OBJECT | KFIN, "PersistentVolume",
     sw_name_dns1123_subdomain, status_sub, sel_cluster},
    {"", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim", "pvc",
     "", true, SW_VERBS_ALL, UNCOND | STRICT | SW_B_RETURNS_OBJECT | KFIN, "PersistentVolumeClaim",
     sw_name_dns1123_subdomain, status_sub, sel_ns},
    {"", "v1", "Pod", "pods", "pod", "po", "all", true, SW_VERBS_ALL, UNCOND | KFIN, "Pod",
     sw_name_dns1123_subdomain, status_sub, sel_pod},
    {"", "v1", "ReplicationController", "replicationcontrollers", "replicationcontroller", "rc",
     "all", true, SW_VERBS_ALL, UNCOND | SW_B_GENERATION | KFIN | SW_B_ORPHANS,
     "ReplicationController", sw_name_dns1123_subdomain, scaled_subs, sel_rc},
    {"", "v1", "ResourceQuota", "resourcequotas", "resourcequota", "quota", "", true, SW_VERBS_ALL,
     UNCOND | STRICT | SW_B_RETURNS_OBJECT | KFIN, "ResourceQuota", sw_name_dns1123_subdomain,
     status_sub, sel_ns},
    {"", "v1", "Secret", "secrets", "secret", "", "", true, SW_VERBS_ALL, UNCOND | KFIN, "Secret",
     sw_name_dns1123_subdomain, no_subs, sel_secret},
    {"", "v1", "Service", "services", "service", "svc", "all", true, SW_VERBS_ALL,
     UNCOND | SW_B_CREATE_ON_UPDATE | SW_B_RETURNS_OBJECT | KFIN, "Service", sw_name_dns1035_label,
     status_sub, sel_service},
    {"", "v1", "ServiceAccount", "serviceaccounts", "serviceaccount", "sa", "", true, SW_VERBS_ALL,
     UNCOND | STRICT | KFIN, "ServiceAccount", sw_name_dns1123_subdomain, sa_subs, sel_ns},
    {ADMIT, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations",
     "mutatingwebhookconfiguration", "", "api-extensions", false, SW_VERBS_ALL,
     SW_B_GENERATION | STRICT, "MutatingWebhookConfiguration", sw_name_dns1123_subdomain, no_subs,
     sel_ns},
    {ADMIT, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies",
     "validatingadmissionpolicy", "", "api-extensions", false, SW_VERBS_ALL,
     SW_B_GENERATION | STRICT, "ValidatingAdmissionPolicy", sw_name_dns1123_subdomain, status_sub,
     sel_ns},
    {ADMIT, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings",
     "validatingadmissionpolicybinding", "", "api-extensions", false, SW_VERBS_ALL,
     SW_B_GENERATION | STRICT, "ValidatingAdmissionPolicyBinding", sw_name_dns1123_subdomain,
     no_subs, sel_ns},
    {ADMIT, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations",
     "validatingwebhookconfiguration", "", "api-extensions", false, SW_VERBS_ALL,
     SW_B_GENERATION | STRICT, "ValidatingWebhookConfiguration", sw_name_dns1123_subdomain, no_subs,
     sel_ns},
    {"apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions",
     "customresourcedefinition", "crd,crds", "api-extensions", false, SW_VERBS_ALL,
     SW_B_GENERATION | STRICT, "CustomResourceDefinition", sw_name_dns1123_subdomain, status_sub,
     sel_ns},
    {"apps", "v1", "DaemonSet", "daemonsets", "daemonset", "ds", "all", true, SW_VERBS_ALL,
     UNCOND | STRICT | SW_B_GENERATION | KFIN, "DaemonSet", sw_name_dns1123_subdomain, status_sub,
     sel_ns},
    {"apps", "v1", "Deployment", "deployments", "deployment", "deploy", "all", true, SW_VERBS_ALL,
     UNCOND | STRICT | SW_B_GENERATION | KFIN, "Deployment", sw_name_dns1123_subdomain, scaled_subs,
     sel_ns},
    {"apps", "v1", "ReplicaSet", "replicasets", "replicaset", "rs", "all", true, SW_VERBS_ALL,
     UNCOND | STRICT | SW_B_GENERATION | KFIN, "ReplicaSet", sw_name_dns1123_subdomain, scaled_subs,
     sel_ns},
    {"apps", "v1", "StatefulSet", "statefulsets", "statefulset", "sts", "all", true, SW_VERBS_ALL,
     UNCOND | STRICT | SW_B_GENERATION | KFIN, "StatefulSet", sw_name_dns1123_subdomain,
     scaled_subs, sel_ns},
    {AUTHN, "v1", "SelfSubjectReview", "selfsubjectreviews", "selfsubjectreview", "", "", false,
     REVIEW, SW_B_NOT_STORED, "SelfSubjectReview", NULL, no_subs, sel_cluster},
    {AUTHN, "v1", "TokenReview", "tokenreviews", "tokenreview", "", "", false, REVIEW,
     SW_B_NOT_STORED, "TokenReview", NULL, no_subs, sel_cluster},
    {AUTHZ, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews",
     "localsubjectaccessreview", "", "", true, REVIEW, SW_B_NOT_STORED, "LocalSubjectAccessReview",
     NULL, no_subs, sel_cluster},
    {AUTHZ, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", "selfsubjectaccessreview",
     "", "", false, REVIEW, SW_B_NOT_STORED, "SelfSubjectAccessReview", NULL, no_subs, sel_cluster},
    {AUTHZ, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", "selfsubjectrulesreview", "",
     "", false, REVIEW, SW_B_NOT_STORED, "SelfSubjectRulesReview", NULL, no_subs, sel_cluster},
    {AUTHZ, "v1", "SubjectAccessReview", "subjectaccessreviews", "subjectaccessreview", "", "",
     false, REVIEW, SW_B_NOT_STORED, "SubjectAccessReview", NULL, no_subs, sel_cluster},
    {"autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
     "horizontalpodautoscaler", "hpa", "all", true, SW_VERBS_ALL, UNCOND | STRICT | KFIN,
     "HorizontalPodAutoscalerV1", sw_name_dns1123_subdomain, status_sub, sel_ns},
    {"autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
     "horizontalpodautoscaler", "hpa", "all", true, SW_VERBS_ALL, UNCOND | STRICT | KFIN,
     "HorizontalPodAutoscaler", sw_name_dns1123_subdomain, status_sub, sel_ns},
    {"batch", "v1", "CronJob", "cronjobs", "cronjob", "cj", "all", true, SW_VERBS_ALL,
     UNCOND | STRICT | SW_B_GENERATION | KFIN, "CronJob", sw_name_dns1123_subdomain, status_sub,
     sel_ns},
    {"batch", "v1", "Job", "jobs", "job", "", "all", true, SW_VERBS_ALL,
     UNCOND | SW_B_GENERATION | KFIN | SW_B_ORPHANS, "Job", sw_name_dns1123_subdomain, status_sub,
     sel_job},
    {"coordination.k8s.io", "v1", "Lease", "leases", "lease", "", "", true, SW_VERBS_ALL,
     STRICT | SW_B_CREATE_ON_UPDATE, "Lease", sw_name_dns1123_subdomain, no_subs, sel_ns},
    {"discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", "endpointslice", "", "", true,
     SW_VERBS_ALL, UNCOND | STRICT | SW_B_GENERATION, "EndpointSlice", sw_name_dns1123_subdomain,
     no_subs, sel_ns},
    {"events.k8s.io", "v1", "Event", "events", "event", "ev", "", true, SW_VERBS_ALL,
     UNCOND | SW_B_CREATE_ON_UPDATE, "EventV1", sw_name_dns1123_subdomain, no_subs, sel_event_v1},
    {NETWORK, "v1", "Ingress", "ingresses", "ingress", "ing", "", true, SW_VERBS_ALL,
     UNCOND | STRICT | SW_B_GENERATION | KFIN, "Ingress", sw_name_dns1123_subdomain, status_sub,
     sel_ns},
    {NETWORK, "v1", "IngressClass", "ingressclasses", "ingressclass", "", "", false, SW_VERBS_ALL,
     UNCOND | STRICT | SW_B_GENERATION | KFIN, "IngressClass", sw_name_dns1123_subdomain, no_subs,
     sel_ns},
    {"policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "poddisruptionbudget", "pdb",
     "", true, SW_VERBS_ALL, UNCOND | STRICT | SW_B_GENERATION | KFIN, "PodDisruptionBudget",
     sw_name_dns1123_subdomain, status_sub, sel_ns},
    {RBAC, "v1", "ClusterRole", "clusterroles", "clusterrole", "", "", false, SW_VERBS_ALL,
     UNCOND | STRICT | SW_B_CREATE_ON_UPDATE, "ClusterRole", sw_name_path_segment, no_subs, sel_ns},
    {RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", "clusterrolebinding", "", "", false,
     SW_VERBS_ALL, UNCOND | STRICT | SW_B_CREATE_ON_UPDATE, "ClusterRoleBinding",
     sw_name_path_segment, no_subs, sel_ns},
    {RBAC, "v1", "Role", "roles", "role", "", "", true, SW_VERBS_ALL,
     UNCOND | STRICT | SW_B_CREATE_ON_UPDATE, "Role", sw_name_path_segment, no_subs, sel_ns},
    {RBAC, "v1", "RoleBinding", "rolebindings", "rolebinding", "", "", true, SW_VERBS_ALL,
     UNCOND | STRICT | SW_B_CREATE_ON_UPDATE, "RoleBinding", sw_name_path_segment, no_subs, sel_ns},
};

const struct sw_builtin *sw_builtins(size_t *ret_n)
{
    *ret_n = SW_ARRAY_LEN(kinds);
    return kinds;
}

const struct sw_builtin *sw_builtin_kind(struct sw_slice group, struct sw_slice kind)
{
    const struct sw_builtin *found = NULL;

    for (size_t i = 0; i < SW_ARRAY_LEN(kinds); i++) {
        if (sw_slice_eq_str(group, kinds[i].group) && sw_slice_eq_str(kind, kinds[i].kind))
            found = &kinds[i]; /* the newest version comes last */
    }
    return found;
}

const struct sw_builtin *sw_builtin_find(struct sw_slice api_version, struct sw_slice kind)
{
    struct sw_slice version = api_version;
    struct sw_slice group = sw_slice_cut(&version, '/');

    if (!version.p) {
        version = api_version;
        group = sw_slice("", 0);
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(kinds); i++) {
        if (sw_slice_eq_str(kind, kinds[i].kind) && sw_slice_eq_str(group, kinds[i].group) &&
            sw_slice_eq_str(version, kinds[i].version))
            return &kinds[i];
    }
    return NULL;
}
