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
#define ADMIT   "admissionregistration.k8s.io"
#define AUTHN   "authentication.k8s.io"
#define AUTHZ   "authorization.k8s.io"
#define NETWORK "networking.k8s.io"

/* A kind of v1 that is stored: group, kind, its names, and so on as in struct sw_builtin. */
#define K(g, name, one, s, shorts, lists, ns, flag_set, sub, sel)                                  \
    {                                                                                              \
        g, "v1", #name, #one s, #one, shorts, lists, ns, SW_VERBS_ALL, flag_set, #name,            \
            sw_name_dns1123_subdomain, sub, sel                                                    \
    }
#define REVIEW(g, name, one, ns)                                                                   \
    {                                                                                              \
        g, "v1", #name, #one "s", #one, "", "", ns, SW_VERB_CREATE, SW_B_NOT_STORED, #name, NULL,  \
            no_subs, sel_cluster                                                                   \
    }
#define ROLES(name, one, ns)                                                                       \
    {                                                                                              \
        "rbac.authorization.k8s.io", "v1", #name, #one "s", #one, "", "", ns, SW_VERBS_ALL,        \
            UNCOND | STRICT | SW_B_CREATE_ON_UPDATE, #name, sw_name_path_segment, no_subs, sel_ns  \
    }

static const struct sw_builtin kinds[] = {
    K("", ConfigMap, configmap, "s", "cm", "", true, UNCOND | STRICT | KFIN, no_subs, sel_ns),
    K("", Endpoints, endpoints, "", "ep", "", true, UNCOND | STRICT | SW_B_CREATE_ON_UPDATE | KFIN,
      no_subs, sel_ns),
    {"", "v1", "Event", "events", "event", "ev", "", true, SW_VERBS_ALL,
     UNCOND | SW_B_CREATE_ON_UPDATE, "Event", sw_name_path_segment, no_subs, sel_event},
    {"", "v1", "Namespace", "namespaces", "namespace", "ns", "", false, NO_COLLECTION,
     UNCOND | SW_B_RETURNS_OBJECT | KFIN, "Namespace", sw_name_namespace, namespace_subs,
     sel_namespace},
    K("", Node, node, "s", "no", "", false, UNCOND | KFIN, status_sub, sel_cluster),
    K("", PersistentVolume, persistentvolume, "s", "pv", "", false,
      UNCOND | STRICT | SW_B_RETURNS_OBJECT | KFIN, status_sub, sel_cluster),
    K("", PersistentVolumeClaim, persistentvolumeclaim, "s", "pvc", "", true,
      UNCOND | STRICT | SW_B_RETURNS_OBJECT | KFIN, status_sub, sel_ns),
    K("", Pod, pod, "s", "po", "all", true, UNCOND | KFIN, status_sub, sel_pod),
    K("", ReplicationController, replicationcontroller, "s", "rc", "all", true,
      UNCOND | SW_B_GENERATION | KFIN | SW_B_ORPHANS, scaled_subs, sel_rc),
    K("", ResourceQuota, resourcequota, "s", "quota", "", true,
      UNCOND | STRICT | SW_B_RETURNS_OBJECT | KFIN, status_sub, sel_ns),
    K("", Secret, secret, "s", "", "", true, UNCOND | KFIN, no_subs, sel_secret),
    {"", "v1", "Service", "services", "service", "svc", "all", true, SW_VERBS_ALL,
     UNCOND | SW_B_CREATE_ON_UPDATE | SW_B_RETURNS_OBJECT | KFIN, "Service", sw_name_dns1035_label,
     status_sub, sel_service},
    K("", ServiceAccount, serviceaccount, "s", "sa", "", true, UNCOND | STRICT | KFIN, sa_subs,
      sel_ns),
    K(ADMIT, MutatingWebhookConfiguration, mutatingwebhookconfiguration, "s", "", "api-extensions",
      false, SW_B_GENERATION | STRICT, no_subs, sel_ns),
    {ADMIT, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies",
     "validatingadmissionpolicy", "", "api-extensions", false, SW_VERBS_ALL,
     SW_B_GENERATION | STRICT, "ValidatingAdmissionPolicy", sw_name_dns1123_subdomain, status_sub,
     sel_ns},
    K(ADMIT, ValidatingAdmissionPolicyBinding, validatingadmissionpolicybinding, "s", "",
      "api-extensions", false, SW_B_GENERATION | STRICT, no_subs, sel_ns),
    K(ADMIT, ValidatingWebhookConfiguration, validatingwebhookconfiguration, "s", "",
      "api-extensions", false, SW_B_GENERATION | STRICT, no_subs, sel_ns),
    K("apiextensions.k8s.io", CustomResourceDefinition, customresourcedefinition, "s", "crd,crds",
      "api-extensions", false, SW_B_GENERATION | STRICT, status_sub, sel_ns),
    K("apps", DaemonSet, daemonset, "s", "ds", "all", true,
      UNCOND | STRICT | SW_B_GENERATION | KFIN, status_sub, sel_ns),
    K("apps", Deployment, deployment, "s", "deploy", "all", true,
      UNCOND | STRICT | SW_B_GENERATION | KFIN, scaled_subs, sel_ns),
    K("apps", ReplicaSet, replicaset, "s", "rs", "all", true,
      UNCOND | STRICT | SW_B_GENERATION | KFIN, scaled_subs, sel_ns),
    K("apps", StatefulSet, statefulset, "s", "sts", "all", true,
      UNCOND | STRICT | SW_B_GENERATION | KFIN, scaled_subs, sel_ns),
    REVIEW(AUTHN, SelfSubjectReview, selfsubjectreview, false),
    REVIEW(AUTHN, TokenReview, tokenreview, false),
    REVIEW(AUTHZ, LocalSubjectAccessReview, localsubjectaccessreview, true),
    REVIEW(AUTHZ, SelfSubjectAccessReview, selfsubjectaccessreview, false),
    REVIEW(AUTHZ, SelfSubjectRulesReview, selfsubjectrulesreview, false),
    REVIEW(AUTHZ, SubjectAccessReview, subjectaccessreview, false),
    {"autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
     "horizontalpodautoscaler", "hpa", "all", true, SW_VERBS_ALL, UNCOND | STRICT | KFIN,
     "HorizontalPodAutoscalerV1", sw_name_dns1123_subdomain, status_sub, sel_ns},
    {"autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
     "horizontalpodautoscaler", "hpa", "all", true, SW_VERBS_ALL, UNCOND | STRICT | KFIN,
     "HorizontalPodAutoscaler", sw_name_dns1123_subdomain, status_sub, sel_ns},
    K("batch", CronJob, cronjob, "s", "cj", "all", true, UNCOND | STRICT | SW_B_GENERATION | KFIN,
      status_sub, sel_ns),
    K("batch", Job, job, "s", "", "all", true, UNCOND | SW_B_GENERATION | KFIN | SW_B_ORPHANS,
      status_sub, sel_job),
    K("coordination.k8s.io", Lease, lease, "s", "", "", true, STRICT | SW_B_CREATE_ON_UPDATE,
      no_subs, sel_ns),
    K("discovery.k8s.io", EndpointSlice, endpointslice, "s", "", "", true,
      UNCOND | STRICT | SW_B_GENERATION, no_subs, sel_ns),
    {"events.k8s.io", "v1", "Event", "events", "event", "ev", "", true, SW_VERBS_ALL,
     UNCOND | SW_B_CREATE_ON_UPDATE, "EventV1", sw_name_dns1123_subdomain, no_subs, sel_event_v1},
    K(NETWORK, Ingress, ingress, "es", "ing", "", true, UNCOND | STRICT | SW_B_GENERATION | KFIN,
      status_sub, sel_ns),
    K(NETWORK, IngressClass, ingressclass, "es", "", "", false,
      UNCOND | STRICT | SW_B_GENERATION | KFIN, no_subs, sel_ns),
    K("policy", PodDisruptionBudget, poddisruptionbudget, "s", "pdb", "", true,
      UNCOND | STRICT | SW_B_GENERATION | KFIN, status_sub, sel_ns),
    ROLES(ClusterRole, clusterrole, false),
    ROLES(ClusterRoleBinding, clusterrolebinding, false),
    ROLES(Role, role, true),
    ROLES(RoleBinding, rolebinding, true),
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
