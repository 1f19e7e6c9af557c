/* SPDX-License-Identifier: Apache-2.0 */
/* See table.h. */
#include "kube/table/table.h"

#include "kube/cel/cel_priv.h"
#include "kube/select/jsonpath.h"
#include "kube/table/table_int.h"
#include "kube/text.h"

const char *sw_human_duration(struct sw_arena *a, int64_t s)
{
    int64_t m = s / 60, h = s / 3600, d = s / 86400, y = d / 365;

    if (s < -1)
        return "<invalid>";
    if (s < 0)
        return "0s";
    if (s < 120)
        return sw_arena_printf(a, "%llds", (long long)s);
    if (m < 10)
        return s % 60 ? sw_arena_printf(a, "%lldm%llds", (long long)m, (long long)(s % 60))
                      : sw_arena_printf(a, "%lldm", (long long)m);
    if (m < 180)
        return sw_arena_printf(a, "%lldm", (long long)m);
    if (h < 8)
        return m % 60 ? sw_arena_printf(a, "%lldh%lldm", (long long)h, (long long)(m % 60))
                      : sw_arena_printf(a, "%lldh", (long long)h);
    if (h < 48)
        return sw_arena_printf(a, "%lldh", (long long)h);
    if (d < 8)
        return h % 24 ? sw_arena_printf(a, "%lldd%lldh", (long long)d, (long long)(h % 24))
                      : sw_arena_printf(a, "%lldd", (long long)d);
    if (d < 730)
        return sw_arena_printf(a, "%lldd", (long long)d);
    if (y < 8)
        return d % 365 ? sw_arena_printf(a, "%lldy%lldd", (long long)y, (long long)(d % 365))
                       : sw_arena_printf(a, "%lldy", (long long)y);
    return sw_arena_printf(a, "%lldy", (long long)y);
}

const char *sw_age_text(struct sw_arena *a, struct sw_slice time, int64_t now_s)
{
    int64_t sec;
    int32_t ns;

    if (!time.n || !cel_parse_time(time, &sec, &ns))
        return "<unknown>";
    return sw_human_duration(a, now_s - sec);
}

/* ---- cells of built-in kinds ---- */

typedef struct sw_json *(*cell_fn)(const struct table_row *r);

#define CELL(fn) static struct sw_json *fn(const struct table_row *r)

struct sw_slice table_text(const struct sw_json *obj, const char *path)
{
    struct sw_slice rest = sw_slice_str(path);
    const struct sw_json *v = obj;

    while (rest.p && v)
        v = sw_json_get(v, sw_slice_cut(&rest, '.'));
    return sw_json_is(v, SW_JSON_STRING) ? v->text : sw_slice("", 0);
}

struct sw_json *table_cell(const struct table_row *r, const char *path)
{
    return sw_json_new_string(r->a, table_text(r->obj, path));
}

const char *table_between(const struct table_row *r, struct sw_slice from, struct sw_slice to)
{
    int64_t sec;
    int32_t ns;

    return sw_age_text(r->a, from, to.n && cel_parse_time(to, &sec, &ns) ? sec : r->now_s);
}

CELL(c_name)
{
    return table_cell(r, "metadata.name");
}

CELL(c_age)
{
    return sw_json_new_str(
        r->a, sw_age_text(r->a, table_text(r->obj, "metadata.creationTimestamp"), r->now_s));
}

CELL(c_created)
{
    return table_cell(r, "metadata.creationTimestamp");
}

CELL(c_phase)
{
    return table_cell(r, "status.phase");
}

CELL(c_type)
{
    return table_cell(r, "type");
}

CELL(c_data)
{
    return sw_json_new_i64(r->a, (int64_t)(sw_json_len(sw_json_find(r->obj, "data")) +
                                           sw_json_len(sw_json_find(r->obj, "binaryData"))));
}

CELL(c_secrets)
{
    return sw_json_new_i64(r->a, (int64_t)sw_json_len(sw_json_find(r->obj, "secrets")));
}

CELL(c_webhooks)
{
    return sw_json_new_i64(r->a, (int64_t)sw_json_len(sw_json_find(r->obj, "webhooks")));
}

CELL(c_holder)
{
    return table_cell(r, "spec.holderIdentity");
}

CELL(c_role)
{
    return sw_json_new_str(r->a, sw_arena_printf(r->a, "%.*s/%.*s",
                                                 SW_SLICE_ARG(table_text(r->obj, "roleRef.kind")),
                                                 SW_SLICE_ARG(table_text(r->obj, "roleRef.name"))));
}

static struct sw_json *subjects(const struct table_row *r, const char *kind)
{
    const struct sw_json *list = sw_json_find(r->obj, "subjects");
    SW_BUF_AUTO b = {0};

    sw_buf_init(&b, 65536);
    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *s = sw_json_at(list, i);
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

CELL(c_users)
{
    return subjects(r, "User");
}

CELL(c_groups)
{
    return subjects(r, "Group");
}

CELL(c_accounts)
{
    return subjects(r, "ServiceAccount");
}

/* ---- admission ---- */

CELL(c_vap_rules)
{
    return sw_json_new_i64(r->a,
                           (int64_t)sw_json_len(sw_json_walk(r->obj, "spec", "validations", NULL)));
}

CELL(c_vap_param)
{
    if (!sw_json_is(sw_json_walk(r->obj, "spec", "paramKind", NULL), SW_JSON_OBJECT))
        return sw_json_new_str(r->a, "<unset>");
    return sw_json_new_str(
        r->a, sw_arena_printf(r->a, "%.*s/%.*s",
                              SW_SLICE_ARG(table_text(r->obj, "spec.paramKind.apiVersion")),
                              SW_SLICE_ARG(table_text(r->obj, "spec.paramKind.kind"))));
}

CELL(c_vapb_policy)
{
    return table_cell(r, "spec.policyName");
}

CELL(c_vapb_param)
{
    struct sw_slice name = table_text(r->obj, "spec.paramRef.name");
    struct sw_slice ns = table_text(r->obj, "spec.paramRef.namespace");
    const struct sw_json *sel = sw_json_walk(r->obj, "spec", "paramRef", "selector", NULL);

    if (name.n)
        return sw_json_new_str(r->a, sw_arena_printf(r->a, "%.*s/%.*s",
                                                     SW_SLICE_ARG(ns.n ? ns : SW_SLICE_LIT("*")),
                                                     SW_SLICE_ARG(name)));
    return sw_json_new_str(r->a,
                           sel ? sw_arena_dup(r->a, sw_json_text(r->a, sel, NULL)) : "<unset>");
}

struct column {
    const char *name;
    const char *type;
    cell_fn cell;
    int priority;
};

#define NAME                                                                                       \
    {                                                                                              \
        "Name", "string", c_name, 0                                                                \
    }
#define AGE                                                                                        \
    {                                                                                              \
        "Age", "string", c_age, 0                                                                  \
    }

static const struct column t_plain[] = {NAME, AGE, {0}};
static const struct column t_namespace[] = {NAME, {"Status", "string", c_phase, 0}, AGE, {0}};
static const struct column t_config_map[] = {NAME, {"Data", "string", c_data, 0}, AGE, {0}};
static const struct column t_secret[] = {
    NAME, {"Type", "string", c_type, 0}, {"Data", "string", c_data, 0}, AGE, {0}};
static const struct column t_service[] = {NAME,
                                          {"Type", "string", table_service_type, 0},
                                          {"Cluster-IP", "string", table_service_ip, 0},
                                          {"External-IP", "string", table_service_external, 0},
                                          {"Port(s)", "string", table_service_ports, 0},
                                          AGE,
                                          {"Selector", "string", table_service_selector, 1},
                                          {0}};
static const struct column t_account[] = {NAME, {"Secrets", "integer", c_secrets, 0}, AGE, {0}};
static const struct column t_event[] = {{"Last Seen", "string", table_event_last, 0},
                                        {"Type", "string", table_event_type, 0},
                                        {"Reason", "string", table_event_reason, 0},
                                        {"Object", "string", table_event_object, 0},
                                        {"Subobject", "string", table_event_sub, 1},
                                        {"Source", "string", table_event_source, 1},
                                        {"Message", "string", table_event_message, 0},
                                        {"First Seen", "string", table_event_first, 1},
                                        {"Count", "integer", table_event_count, 1},
                                        {"Name", "string", c_name, 1},
                                        {0}};
static const struct column t_slice[] = {NAME,
                                        {"AddressType", "string", table_slice_type, 0},
                                        {"Ports", "string", table_slice_ports, 0},
                                        {"Endpoints", "string", table_slice_addresses, 0},
                                        AGE,
                                        {0}};
static const struct column t_endpoints[] = {
    NAME, {"Endpoints", "string", table_endpoints, 0}, AGE, {0}};
static const struct column t_lease[] = {NAME, {"Holder", "string", c_holder, 0}, AGE, {0}};
static const struct column t_created[] = {NAME, {"Created At", "date", c_created, 0}, {0}};
static const struct column t_binding[] = {NAME,
                                          {"Role", "string", c_role, 0},
                                          AGE,
                                          {"Users", "string", c_users, 1},
                                          {"Groups", "string", c_groups, 1},
                                          {"ServiceAccounts", "string", c_accounts, 1},
                                          {0}};
static const struct column t_policy[] = {NAME,
                                         {"Validations", "integer", c_vap_rules, 0},
                                         {"ParamKind", "string", c_vap_param, 0},
                                         AGE,
                                         {0}};
static const struct column t_policy_binding[] = {NAME,
                                                 {"PolicyName", "string", c_vapb_policy, 0},
                                                 {"ParamRef", "string", c_vapb_param, 0},
                                                 AGE,
                                                 {0}};
static const struct column t_node[] = {NAME,
                                       {"Status", "string", table_node_status, 0},
                                       {"Roles", "string", table_node_roles, 0},
                                       AGE,
                                       {"Version", "string", table_node_version, 0},
                                       {"Internal-IP", "string", table_node_internal, 1},
                                       {"External-IP", "string", table_node_external, 1},
                                       {"OS-Image", "string", table_node_os, 1},
                                       {"Kernel-Version", "string", table_node_kernel, 1},
                                       {"Container-Runtime", "string", table_node_runtime, 1},
                                       {0}};
static const struct column t_pod[] = {NAME,
                                      {"Ready", "string", table_pod_ready, 0},
                                      {"Status", "string", table_pod_status, 0},
                                      {"Restarts", "string", table_pod_restarts, 0},
                                      AGE,
                                      {"IP", "string", table_pod_ip, 1},
                                      {"Node", "string", table_pod_node, 1},
                                      {"Nominated Node", "string", table_pod_nominated, 1},
                                      {"Readiness Gates", "string", table_pod_gates, 1},
                                      {0}};
#define TEMPLATE                                                                                   \
    {"Containers", "string", table_workload_containers, 1},                                        \
        {"Images", "string", table_workload_images, 1},                                            \
    {                                                                                              \
        "Selector", "string", table_workload_selector, 1                                           \
    }

static const struct column t_deployment[] = {NAME,
                                             {"Ready", "string", table_deployment_ready, 0},
                                             {"Up-to-date", "string", table_deployment_updated, 0},
                                             {"Available", "string", table_deployment_available, 0},
                                             AGE,
                                             TEMPLATE,
                                             {0}};
static const struct column t_replica_set[] = {NAME,
                                              {"Desired", "integer", table_replicas_desired, 0},
                                              {"Current", "integer", table_replicas_current, 0},
                                              {"Ready", "integer", table_replicas_ready, 0},
                                              AGE,
                                              TEMPLATE,
                                              {0}};
static const struct column t_daemon_set[] = {NAME,
                                             {"Desired", "integer", table_daemons_desired, 0},
                                             {"Current", "integer", table_daemons_current, 0},
                                             {"Ready", "integer", table_daemons_ready, 0},
                                             {"Up-to-date", "integer", table_daemons_updated, 0},
                                             {"Available", "integer", table_daemons_available, 0},
                                             {"Node Selector", "string", table_daemons_nodes, 0},
                                             AGE,
                                             TEMPLATE,
                                             {0}};
#define IMAGES                                                                                     \
    {"Containers", "string", table_workload_containers, 1},                                        \
    {                                                                                              \
        "Images", "string", table_workload_images, 1                                               \
    }
static const struct column t_stateful_set[] = {
    NAME, {"Ready", "string", table_deployment_ready, 0}, AGE, IMAGES, {0}};
static const struct column t_controller[] = {NAME,
                                             {"Desired", "integer", table_replicas_desired, 0},
                                             {"Current", "integer", table_replicas_current, 0},
                                             {"Ready", "integer", table_replicas_ready, 0},
                                             AGE,
                                             IMAGES,
                                             {"Selector", "string", table_controller_selector, 1},
                                             {0}};
static const struct column t_job[] = {NAME,
                                      {"Status", "string", table_job_status, 0},
                                      {"Completions", "string", table_job_completions, 0},
                                      {"Duration", "string", table_job_duration, 0},
                                      AGE,
                                      TEMPLATE,
                                      {0}};
static const struct column t_cron_job[] = {NAME,
                                           {"Schedule", "string", table_cron_schedule, 0},
                                           {"Timezone", "string", table_cron_zone, 0},
                                           {"Suspend", "boolean", table_cron_suspend, 0},
                                           {"Active", "integer", table_cron_active, 0},
                                           {"Last Schedule", "string", table_cron_last, 0},
                                           AGE,
                                           {"Containers", "string", table_cron_containers, 1},
                                           {"Images", "string", table_cron_images, 1},
                                           {"Selector", "string", table_cron_selector, 1},
                                           {0}};
static const struct column t_volume[] = {
    NAME,
    {"Capacity", "string", table_volume_size, 0},
    {"Access Modes", "string", table_volume_access, 0},
    {"Reclaim Policy", "string", table_volume_policy, 0},
    {"Status", "string", table_volume_phase, 0},
    {"Claim", "string", table_volume_claim, 0},
    {"StorageClass", "string", table_volume_class, 0},
    {"VolumeAttributesClass", "string", table_volume_attributes, 0},
    {"Reason", "string", table_volume_reason, 0},
    AGE,
    {"VolumeMode", "string", table_volume_mode, 1},
    {0}};
static const struct column t_claim[] = {
    NAME,
    {"Status", "string", table_volume_phase, 0},
    {"Volume", "string", table_claim_volume, 0},
    {"Capacity", "string", table_claim_size, 0},
    {"Access Modes", "string", table_claim_access, 0},
    {"StorageClass", "string", table_volume_class, 0},
    {"VolumeAttributesClass", "string", table_volume_attributes, 0},
    AGE,
    {"VolumeMode", "string", table_volume_mode, 1},
    {0}};
static const struct column t_quota[] = {NAME,
                                        {"Request", "string", table_quota_request, 0},
                                        {"Limit", "string", table_quota_limit, 0},
                                        AGE,
                                        {0}};
static const struct column t_scaler[] = {NAME,
                                         {"Reference", "string", table_scaler_reference, 0},
                                         {"Targets", "string", table_scaler_targets, 0},
                                         {"MinPods", "string", table_scaler_min, 0},
                                         {"MaxPods", "string", table_scaler_max, 0},
                                         {"Replicas", "string", table_scaler_replicas, 0},
                                         AGE,
                                         {0}};
static const struct column t_ingress[] = {NAME,
                                          {"Class", "string", table_ingress_class, 0},
                                          {"Hosts", "string", table_ingress_hosts, 0},
                                          {"Address", "string", table_ingress_address, 0},
                                          {"Ports", "string", table_ingress_ports, 0},
                                          AGE,
                                          {0}};
static const struct column t_ingress_class[] = {NAME,
                                                {"Controller", "string", table_class_controller, 0},
                                                {"Parameters", "string", table_class_parameters, 0},
                                                AGE,
                                                {0}};
static const struct column t_webhooks[] = {NAME, {"Webhooks", "integer", c_webhooks, 0}, AGE, {0}};

static const struct column *columns_of(const struct sw_builtin *b)
{
    static const struct {
        const char *type;
        const struct column *columns;
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

    for (size_t i = 0; i < SW_ARRAY_LEN(table); i++) {
        if (strcmp(b->type, table[i].type) == 0)
            return table[i].columns;
    }
    return t_plain;
}

/* ---- definitions ---- */

static struct sw_json *definition(struct sw_arena *a, const char *name, const char *type,
                                  const char *format, const char *text, int64_t priority)
{
    struct sw_json *d = sw_json_new_object(a);

    sw_json_put(a, d, "name", sw_json_new_str(a, name));
    sw_json_put(a, d, "type", sw_json_new_str(a, type));
    sw_json_put(a, d, "format", sw_json_new_str(a, format));
    sw_json_put(a, d, "description", sw_json_new_str(a, text));
    sw_json_put(a, d, "priority", sw_json_new_i64(a, priority));
    return d;
}

static const char *column_text(struct sw_arena *a, const struct sw_json *c, const char *key)
{
    struct sw_slice s = sw_json_str(sw_json_find(c, key));

    return s.p ? sw_arena_dup(a, s) : "";
}

struct sw_json *sw_table_columns(struct sw_arena *a, const struct sw_builtin *b,
                                 const struct sw_json *columns)
{
    struct sw_json *list = sw_json_new_array(a);

    if (b || !sw_json_len(columns)) {
        const struct column *c = b ? columns_of(b) : t_plain;

        for (; c->name; c++) {
            bool age = c->cell == c_age;

            sw_json_push(a, list,
                         definition(a, c->name, age && !b ? "date" : c->type,
                                    c->cell == c_name ? "name" : "",
                                    c->cell == c_name ? "Name of the object."
                                    : age             ? "Time since the object was created."
                                                      : "",
                                    c->priority));
        }
        return list;
    }
    sw_json_push(a, list, definition(a, "Name", "string", "name", "Name of the object.", 0));
    for (size_t i = 0; i < sw_json_len(columns); i++) {
        const struct sw_json *c = sw_json_at(columns, i);
        int64_t priority = 0;

        if (!sw_json_i64(sw_json_find(c, "priority"), &priority))
            priority = 0;
        sw_json_push(a, list,
                     definition(a, column_text(a, c, "name"), column_text(a, c, "type"),
                                column_text(a, c, "format"), column_text(a, c, "description"),
                                priority));
    }
    return list;
}

/* A custom column: typed cells for numbers and booleans, text for the rest, null when missing. */
static struct sw_json *custom_cell(const struct table_row *r, const struct sw_json *c)
{
    const struct sw_json *type = sw_json_find(c, "type");
    struct sw_jsonpath_results found = {0};
    const struct sw_json *v;

    if (sw_jsonpath(r->a, sw_json_str(sw_json_find(c, "jsonPath")), r->obj, &found) < 0 || !found.n)
        return sw_json_new_null(r->a);
    v = found.p[0];
    if (v->type == SW_JSON_NULL)
        return sw_json_new_null(r->a);
    if (sw_json_str_eq(type, "date"))
        return sw_json_new_str(
            r->a,
            sw_age_text(r->a, sw_json_is(v, SW_JSON_STRING) ? v->text : sw_slice("", 0), r->now_s));
    if (sw_json_str_eq(type, "string")) {
        if (v->type == SW_JSON_STRING)
            return sw_json_copy(r->a, v);
        return sw_json_new_string(r->a, sw_json_text(r->a, v, NULL));
    }
    if (sw_json_str_eq(type, "boolean"))
        return v->type == SW_JSON_BOOL ? sw_json_copy(r->a, v) : sw_json_new_null(r->a);
    return v->type == SW_JSON_NUMBER ? sw_json_copy(r->a, v) : sw_json_new_null(r->a);
}

struct sw_json *sw_table_cells(struct sw_arena *a, const struct sw_builtin *b,
                               const struct sw_json *columns, const struct sw_json *obj,
                               int64_t now_s)
{
    struct table_row r = {.a = a, .obj = obj, .now_s = now_s};
    struct sw_json *list = sw_json_new_array(a);

    if (b || !sw_json_len(columns)) {
        for (const struct column *c = b ? columns_of(b) : t_plain; c->name; c++)
            sw_json_push(a, list, c->cell(&r));
        return list;
    }
    sw_json_push(a, list, c_name(&r));
    for (size_t i = 0; i < sw_json_len(columns); i++)
        sw_json_push(a, list, custom_cell(&r, sw_json_at(columns, i)));
    return list;
}
