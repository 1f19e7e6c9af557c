/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of built-in kinds, as data, and the cells that only one kind has. */
#include <string.h>

#include "kube/table/table_int.h"
#include "kube/text.h"

static struct sw_json *data_items(const struct table_row *r, const char *none)
{
    return sw_json_new_i64(r->a, (int64_t)(sw_json_len(sw_json_find(r->obj, "data")) +
                                           sw_json_len(sw_json_find(r->obj, "binaryData"))));
}

/* The subjects of a kind. */
static struct sw_json *subjects(const struct table_row *r, const char *kind)
{
    const struct sw_json *list = sw_json_find(r->obj, "subjects");
    SW_BUF_AUTO b = {.max = 65536};

    SW_JSON_ITEMS (s, list) {
        struct sw_slice ns = sw_json_str(sw_json_find(s, "namespace"));

        if (!sw_json_str_eq(sw_json_find(s, "kind"), kind))
            continue;
        sw_tx_str(&b, sw_buf_len(&b) ? ", " : "");
        if (*kind == 'S' && ns.p)
            sw_tx_printf(&b, "%.*s/", SW_SLICE_ARG(ns));
        sw_tx_slice(&b, sw_json_str(sw_json_find(s, "name")));
    }
    return sw_json_new_string(r->a, sw_buf_slice(&b));
}

static struct sw_json *param_ref(const struct table_row *r, const char *none)
{
    struct sw_slice name = table_text(r->obj, "spec.paramRef.name");
    struct sw_slice ns = table_text(r->obj, "spec.paramRef.namespace");
    const struct sw_json *sel = table_at(r->obj, "spec.paramRef.selector");

    if (name.n)
        return sw_json_new_str(r->a, sw_arena_printf(r->a, "%.*s/%.*s",
                                                     SW_SLICE_ARG(ns.n ? ns : SW_SLICE_LIT("*")),
                                                     SW_SLICE_ARG(name)));
    return sw_json_new_str(r->a,
                           sel ? sw_arena_dup(r->a, sw_json_text(r->a, sel, NULL)) : "<unset>");
}

#define NAME                                                                                       \
    {                                                                                              \
        "Name", table_cell, "metadata.name", 0                                                     \
    }
#define AGE                                                                                        \
    {                                                                                              \
        "Age", table_age, NULL, 0                                                                  \
    }
/* The containers of the template in the object at a path. */
#define CONTAINERS(path)                                                                           \
    {"Containers", table_container_names, path, WIDE},                                             \
    {                                                                                              \
        "Images", table_container_images, path, WIDE                                               \
    }
#define REPLICAS                                                                                   \
    {"Desired", table_count, "spec.replicas", INTEGER},                                            \
        {"Current", table_count, "status.replicas", INTEGER},                                      \
    {                                                                                              \
        "Ready", table_count, "status.readyReplicas", INTEGER                                      \
    }

typedef const struct table_column columns[];

static columns t_plain = {NAME, AGE, {0}};
static columns t_namespace = {NAME, {"Status", table_cell, "status.phase", 0}, AGE, {0}};
static columns t_config_map = {NAME, {"Data", data_items, NULL, 0}, AGE, {0}};
static columns t_secret = {
    NAME, {"Type", table_cell, "type", 0}, {"Data", data_items, NULL, 0}, AGE, {0}};
static columns t_service = {
    NAME,
    {"Type", table_cell, "spec.type", 0},
    {"Cluster-IP", table_cell, "spec.clusterIP|<none>", 0},
    {"External-IP", table_service_external, NULL, 0},
    {"Port(s)", table_service_ports, NULL, 0},
    AGE,
    {"Selector", table_service_selector, NULL, WIDE},
    {0},
};
static columns t_account = {NAME, {"Secrets", table_length, "secrets", INTEGER}, AGE, {0}};
static columns t_event = {
    {"Last Seen", table_event_last, NULL, 0},
    {"Type", table_cell, "type", 0},
    {"Reason", table_cell, "reason", 0},
    {"Object", table_event_object, NULL, 0},
    {"Subobject", table_event_sub, NULL, WIDE},
    {"Source", table_event_source, NULL, WIDE},
    {"Message", table_event_message, NULL, 0},
    {"First Seen", table_event_first, NULL, WIDE},
    {"Count", table_event_count, NULL, WIDE | INTEGER},
    {"Name", table_cell, "metadata.name", WIDE},
    {0},
};
static columns t_slice = {
    NAME,
    {"AddressType", table_cell, "addressType", 0},
    {"Ports", table_slice_ports, NULL, 0},
    {"Endpoints", table_slice_addresses, NULL, 0},
    AGE,
    {0},
};
static columns t_endpoints = {NAME, {"Endpoints", table_endpoints, NULL, 0}, AGE, {0}};
static columns t_lease = {NAME, {"Holder", table_cell, "spec.holderIdentity", 0}, AGE, {0}};
static columns t_created = {
    NAME, {"Created At", table_cell, "metadata.creationTimestamp", DATE}, {0}};
static columns t_binding = {
    NAME,
    {"Role", table_pair, "roleRef kind name /", 0},
    AGE,
    {"Users", subjects, "User", WIDE},
    {"Groups", subjects, "Group", WIDE},
    {"ServiceAccounts", subjects, "ServiceAccount", WIDE},
    {0},
};
static columns t_policy = {
    NAME,
    {"Validations", table_length, "spec.validations", INTEGER},
    {"ParamKind", table_pair, "spec.paramKind apiVersion kind <unset>", 0},
    AGE,
    {0},
};
static columns t_policy_binding = {
    NAME, {"PolicyName", table_cell, "spec.policyName", 0}, {"ParamRef", param_ref, NULL, 0}, AGE,
    {0},
};
static columns t_node = {
    NAME,
    {"Status", table_node_status, NULL, 0},
    {"Roles", table_node_roles, NULL, 0},
    AGE,
    {"Version", table_cell, "status.nodeInfo.kubeletVersion", 0},
    {"Internal-IP", table_node_address, "InternalIP", WIDE},
    {"External-IP", table_node_address, "ExternalIP", WIDE},
    {"OS-Image", table_cell, "status.nodeInfo.osImage|<unknown>", WIDE},
    {"Kernel-Version", table_cell, "status.nodeInfo.kernelVersion|<unknown>", WIDE},
    {"Container-Runtime", table_cell, "status.nodeInfo.containerRuntimeVersion|<unknown>", WIDE},
    {0},
};
static columns t_pod = {
    NAME,
    {"Ready", table_pod_ready, NULL, 0},
    {"Status", table_pod_status, NULL, 0},
    {"Restarts", table_pod_restarts, NULL, 0},
    AGE,
    {"IP", table_pod_ip, NULL, WIDE},
    {"Node", table_cell, "spec.nodeName|<none>", WIDE},
    {"Nominated Node", table_cell, "status.nominatedNodeName|<none>", WIDE},
    {"Readiness Gates", table_pod_gates, NULL, WIDE},
    {0},
};
static columns t_deployment = {
    NAME,
    {"Ready", table_workload_ready, NULL, 0},
    {"Up-to-date", table_count, "status.updatedReplicas", 0},
    {"Available", table_count, "status.availableReplicas", 0},
    AGE,
    CONTAINERS("spec"),
    {"Selector", table_selector, "spec.selector", WIDE},
    {0},
};
static columns t_replica_set = {
    NAME, REPLICAS, AGE, CONTAINERS("spec"), {"Selector", table_selector, "spec.selector", WIDE},
    {0},
};
static columns t_daemon_set = {
    NAME,
    {"Desired", table_count, "status.desiredNumberScheduled", INTEGER},
    {"Current", table_count, "status.currentNumberScheduled", INTEGER},
    {"Ready", table_count, "status.numberReady", INTEGER},
    {"Up-to-date", table_count, "status.updatedNumberScheduled", INTEGER},
    {"Available", table_count, "status.numberAvailable", INTEGER},
    {"Node Selector", table_labels, "spec.template.spec.nodeSelector", 0},
    AGE,
    CONTAINERS("spec"),
    {"Selector", table_selector, "spec.selector", WIDE},
    {0},
};
static columns t_stateful_set = {
    NAME, {"Ready", table_workload_ready, NULL, 0}, AGE, CONTAINERS("spec"), {0}};
static columns t_controller = {
    NAME, REPLICAS, AGE, CONTAINERS("spec"), {"Selector", table_labels, "spec.selector", WIDE}, {0},
};
static columns t_job = {
    NAME,
    {"Status", table_job_status, NULL, 0},
    {"Completions", table_job_completions, NULL, 0},
    {"Duration", table_job_duration, NULL, 0},
    AGE,
    CONTAINERS("spec"),
    {"Selector", table_selector, "spec.selector", WIDE},
    {0},
};
static columns t_cron_job = {
    NAME,
    {"Schedule", table_cell, "spec.schedule", 0},
    {"Timezone", table_cell, "spec.timeZone|<none>", 0},
    {"Suspend", table_cron_suspend, NULL, BOOLEAN},
    {"Active", table_length, "status.active", INTEGER},
    {"Last Schedule", table_cron_last, NULL, 0},
    AGE,
    CONTAINERS("spec.jobTemplate.spec"),
    {"Selector", table_selector, "spec.jobTemplate.spec.selector", WIDE},
    {0},
};
static columns t_volume = {
    NAME,
    {"Capacity", table_volume_size, NULL, 0},
    {"Access Modes", table_volume_access, NULL, 0},
    {"Reclaim Policy", table_cell, "spec.persistentVolumeReclaimPolicy", 0},
    {"Status", table_volume_phase, NULL, 0},
    {"Claim", table_pair, "spec.claimRef namespace name ", 0},
    {"StorageClass", table_volume_class, NULL, 0},
    {"VolumeAttributesClass", table_cell, "spec.volumeAttributesClassName|<unset>", 0},
    {"Reason", table_cell, "status.reason", 0},
    AGE,
    {"VolumeMode", table_cell, "spec.volumeMode|<unset>", WIDE},
    {0},
};
static columns t_claim = {
    NAME,
    {"Status", table_volume_phase, NULL, 0},
    {"Volume", table_cell, "spec.volumeName", 0},
    {"Capacity", table_claim_size, NULL, 0},
    {"Access Modes", table_claim_access, NULL, 0},
    {"StorageClass", table_volume_class, NULL, 0},
    {"VolumeAttributesClass", table_cell, "spec.volumeAttributesClassName|<unset>", 0},
    AGE,
    {"VolumeMode", table_cell, "spec.volumeMode|<unset>", WIDE},
    {0},
};
static columns t_quota = {
    NAME, {"Request", table_quota, "", 0}, {"Limit", table_quota, "limits.", 0}, AGE, {0}};
static columns t_scaler = {
    NAME,
    {"Reference", table_pair, "spec.scaleTargetRef kind name /", 0},
    {"Targets", table_scaler_targets, NULL, 0},
    {"MinPods", table_scaler_min, NULL, 0},
    {"MaxPods", table_count, "spec.maxReplicas", 0},
    {"Replicas", table_count, "status.currentReplicas", 0},
    AGE,
    {0},
};
static columns t_ingress = {
    NAME,
    {"Class", table_cell, "spec.ingressClassName|<none>", 0},
    {"Hosts", table_ingress_hosts, NULL, 0},
    {"Address", table_ingress_address, NULL, 0},
    {"Ports", table_ingress_ports, NULL, 0},
    AGE,
    {0},
};
static columns t_ingress_class = {
    NAME,
    {"Controller", table_cell, "spec.controller", 0},
    {"Parameters", table_class_parameters, NULL, 0},
    AGE,
    {0},
};
static columns t_webhooks = {NAME, {"Webhooks", table_length, "webhooks", INTEGER}, AGE, {0}};

const struct table_column *table_columns_of(const struct sw_builtin *b)
{
    static const struct {
        const char *type;
        const struct table_column *shown;
    } table[] = {
        {"Namespace", t_namespace},
        {"ConfigMap", t_config_map},
        {"Secret", t_secret},
        {"Service", t_service},
        {"ServiceAccount", t_account},
        {"Event", t_event},
        {"EventV1", t_event},
        {"Endpoints", t_endpoints},
        {"Node", t_node},
        {"Pod", t_pod},
        {"Deployment", t_deployment},
        {"ReplicaSet", t_replica_set},
        {"DaemonSet", t_daemon_set},
        {"StatefulSet", t_stateful_set},
        {"ReplicationController", t_controller},
        {"Job", t_job},
        {"CronJob", t_cron_job},
        {"PersistentVolume", t_volume},
        {"PersistentVolumeClaim", t_claim},
        {"ResourceQuota", t_quota},
        {"HorizontalPodAutoscaler", t_scaler},
        {"HorizontalPodAutoscalerV1", t_scaler},
        {"ValidatingAdmissionPolicy", t_policy},
        {"ValidatingAdmissionPolicyBinding", t_policy_binding},
        {"EndpointSlice", t_slice},
        {"Ingress", t_ingress},
        {"IngressClass", t_ingress_class},
        {"Lease", t_lease},
        {"Role", t_created},
        {"ClusterRole", t_created},
        {"RoleBinding", t_binding},
        {"ClusterRoleBinding", t_binding},
        {"CustomResourceDefinition", t_created},
        {"ValidatingWebhookConfiguration", t_webhooks},
        {"MutatingWebhookConfiguration", t_webhooks},
    };

    for (size_t i = 0; b && i < SW_ARRAY_LEN(table); i++) {
        if (strcmp(b->type, table[i].type) == 0)
            return table[i].shown;
    }
    return t_plain;
}
