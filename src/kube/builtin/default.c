/* SPDX-License-Identifier: Apache-2.0 */
/* What a built-in kind gets that its author left out, and what every new one begins with. */
#include "kube/builtin/builtin.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "kube/builtin/builtin_int.h"
#include "kube/text.h"

static void default_str(struct sw_arena *a, struct sw_json *v, const char *key, const char *value)
{
    const struct sw_json *x = sw_json_find(v, key);

    if (sw_json_is(v, SW_JSON_OBJECT) && (!x || (x->type == SW_JSON_STRING && !x->text.n)))
        sw_json_put(a, v, key, sw_json_new_str(a, value));
}

struct sw_json *sw_b_object_in(struct sw_arena *a, struct sw_json *v, const char *key)
{
    return sw_json_need(a, v, key, SW_JSON_OBJECT);
}

void sw_b_defaults(struct sw_arena *a, struct sw_json *v, const char *list)
{
    struct sw_slice rest = sw_slice_str(list);

    while (rest.n && sw_json_is(v, SW_JSON_OBJECT)) {
        struct sw_slice value = sw_slice_cut(&rest, ' ');
        struct sw_slice key = sw_slice_cut(&value, '=');
        const struct sw_json *x = sw_json_get(v, key);
        bool truth = sw_slice_eq_str(value, "true");
        uint64_t n = 0;

        if (sw_slice_to_u64(value, INT64_MAX, &n)) {
            if (!x)
                sw_json_set(a, v, key, sw_json_new_i64(a, (int64_t)n));
        } else if (truth || sw_slice_eq_str(value, "false")) {
            if (!x)
                sw_json_set(a, v, key, sw_json_new_bool(a, truth));
        } else if (!x || x->type == SW_JSON_NULL || (x->type == SW_JSON_STRING && !x->text.n)) {
            sw_json_set(a, v, key, sw_json_new_string(a, value));
        }
    }
}

/* stringData is write-only: it lands in data. */
static void default_secret(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *plain = sw_json_remove(obj, SW_SLICE_LIT("stringData"));

    SW_JSON_MEMBERS (m, plain) {
        SW_BUF_AUTO b = {0};

        sw_buf_init(&b, m->value->text.n * 2 + 8);
        if (m->value->type == SW_JSON_STRING && sw_base64_append(&b, m->value->text) == SW_OK)
            sw_json_set(a, sw_b_object_in(a, obj, "data"), m->key,
                        sw_json_new_string(a, sw_buf_slice(&b)));
    }
    sw_b_defaults(a, obj, "type=Opaque");
}

static void default_ports(struct sw_arena *a, const struct sw_json *ports)
{
    SW_JSON_ITEMS (p, ports) {
        const struct sw_json *target = sw_json_find(p, "targetPort");
        int64_t n;
        bool unset = !target || (sw_json_i64(target, &n) && n == 0) ||
                     (target->type == SW_JSON_STRING && !target->text.n);

        sw_b_defaults(a, p, "protocol=TCP");
        if (unset && sw_json_find(p, "port"))
            sw_json_put(a, p, "targetPort", sw_json_copy(a, sw_json_find(p, "port")));
    }
}

/* How long a client stays with its endpoint. */
static void default_affinity(struct sw_arena *a, struct sw_json *spec)
{
    struct sw_json *config;

    sw_b_defaults(a, spec, "sessionAffinity=None");
    if (sw_json_str_eq(sw_json_find(spec, "sessionAffinity"), "None"))
        (void)sw_json_remove(spec, SW_SLICE_LIT("sessionAffinityConfig"));
    if (!sw_json_str_eq(sw_json_find(spec, "sessionAffinity"), "ClientIP") ||
        sw_json_walk(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds", NULL))
        return;
    config = sw_b_object_in(a, sw_b_object_in(a, spec, "sessionAffinityConfig"), "clientIP");
    sw_json_put(a, config, "timeoutSeconds", sw_json_new_i64(a, 10800));
}

static void default_ingress(struct sw_arena *a, const struct sw_json *obj)
{
    const struct sw_json *list = sw_json_walk(obj, "status", "loadBalancer", "ingress", NULL);

    SW_JSON_ITEMS (in, list) {
        if (sw_json_str(sw_json_find(in, "ip")).n && !sw_json_find(in, "ipMode"))
            sw_json_put(a, in, "ipMode", sw_json_new_str(a, "VIP"));
    }
}

static void default_service(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_b_object_in(a, obj, "spec");
    bool balanced;
    bool node_port;
    bool plain;

    default_affinity(a, spec);
    sw_b_defaults(a, spec, "type=ClusterIP");
    balanced = sw_json_str_eq(sw_json_find(spec, "type"), "LoadBalancer");
    node_port = sw_json_str_eq(sw_json_find(spec, "type"), "NodePort");
    plain = sw_json_str_eq(sw_json_find(spec, "type"), "ClusterIP");
    default_ports(a, sw_json_find(spec, "ports"));
    if (balanced || node_port || (plain && sw_json_len(sw_json_find(spec, "externalIPs"))))
        sw_b_defaults(a, spec, "externalTrafficPolicy=Cluster");
    if ((balanced || node_port || plain) && !sw_json_find(spec, "internalTrafficPolicy"))
        sw_b_defaults(a, spec, "internalTrafficPolicy=Cluster");
    if (balanced)
        sw_b_defaults(a, spec, "allocateLoadBalancerNodePorts=true");
    if (balanced)
        default_ingress(a, obj);
}

static void default_namespace(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *meta = sw_b_object_in(a, obj, "metadata");
    const struct sw_json *name = sw_json_find(meta, "name");

    if (sw_json_str(name).n)
        sw_json_put(a, sw_b_object_in(a, meta, "labels"), "kubernetes.io/metadata.name",
                    sw_json_copy(a, name));
    sw_b_defaults(a, sw_b_object_in(a, obj, "status"), "phase=Active");
}

static int by_ip(const void *x, const void *y)
{
    const struct sw_json *const *p = x;
    const struct sw_json *const *q = y;

    return sw_slice_cmp(sw_json_str(sw_json_find(*p, "ip")), sw_json_str(sw_json_find(*q, "ip")));
}

/* Addresses are kept sorted. */
static void default_endpoints(struct sw_arena *a, struct sw_json *obj)
{
    static const char *const lists[] = {"addresses", "notReadyAddresses"};
    const struct sw_json *subsets = sw_json_find(obj, "subsets");

    SW_JSON_ITEMS (set, subsets) {
        const struct sw_json *ports = sw_json_find(set, "ports");

        for (size_t k = 0; k < sw_json_len(ports); k++)
            sw_b_defaults(a, sw_json_at(ports, k), "protocol=TCP");
        for (size_t l = 0; l < 2; l++) {
            struct sw_json *list = sw_json_find(set, lists[l]);

            if (sw_json_is(list, SW_JSON_ARRAY) && sw_json_len(list) > 1)
                qsort(list->arr.items, list->arr.n, sizeof(*list->arr.items), by_ip);
        }
    }
}

/* Leader election by the server is not for us: its fields are not kept. */
static void default_lease(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_json_find(obj, "spec");

    (void)sw_json_remove(spec, SW_SLICE_LIT("strategy"));
    (void)sw_json_remove(spec, SW_SLICE_LIT("preferredHolder"));
}

/* A list that is always written: stored as nothing when it is empty, and read back as null. */
static void null_if_empty(struct sw_arena *a, struct sw_json *obj, const char *key)
{
    if (!sw_json_len(sw_json_find(obj, key)))
        sw_json_put(a, obj, key, sw_json_new_null(a));
}

static void default_endpoint_slice(struct sw_arena *a, struct sw_json *obj)
{
    const struct sw_json *ports = sw_json_find(obj, "ports");

    SW_JSON_ITEMS (p, ports) {
        if (!sw_json_find(p, "name"))
            sw_json_put(a, p, "name", sw_json_new_str(a, ""));
        sw_b_defaults(a, p, "protocol=TCP");
    }
    null_if_empty(a, obj, "endpoints");
    null_if_empty(a, obj, "ports");
}

static void default_binding(struct sw_arena *a, struct sw_json *obj)
{
    const struct sw_json *subjects = sw_json_find(obj, "subjects");

    SW_JSON_ITEMS (s, subjects) {
        const struct sw_json *kind = sw_json_find(s, "kind");

        if (sw_json_str_eq(kind, "User") || sw_json_str_eq(kind, "Group"))
            sw_b_defaults(a, s, "apiGroup=rbac.authorization.k8s.io");
    }
    sw_b_defaults(a, sw_b_object_in(a, obj, "roleRef"), "apiGroup=rbac.authorization.k8s.io");
}

static void default_role(struct sw_arena *a, struct sw_json *obj)
{
    null_if_empty(a, obj, "rules");
}

static void default_match(struct sw_arena *a, struct sw_json *m)
{
    static const char *const lists[] = {"resourceRules", "excludeResourceRules"};

    if (!sw_json_is(m, SW_JSON_OBJECT))
        return;
    sw_b_defaults(a, m, "matchPolicy=Equivalent");
    (void)sw_b_object_in(a, m, "namespaceSelector");
    (void)sw_b_object_in(a, m, "objectSelector");
    for (size_t k = 0; k < SW_ARRAY_LEN(lists); k++) {
        const struct sw_json *rules = sw_json_find(m, lists[k]);

        for (size_t i = 0; i < sw_json_len(rules); i++)
            sw_b_defaults(a, sw_json_at(rules, i), "scope=*");
    }
}

static void default_admission(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *hooks = sw_json_find(obj, "webhooks");
    bool mutating = sw_field_is(obj, "kind", "MutatingWebhookConfiguration");

    if (sw_json_is(spec, SW_JSON_OBJECT) && !sw_json_find(spec, "policyName"))
        sw_b_defaults(a, spec, "failurePolicy=Fail");
    default_match(a, sw_json_find(spec, "matchConstraints"));
    default_match(a, sw_json_find(spec, "matchResources"));
    SW_JSON_ITEMS (h, hooks) {
        const struct sw_json *rules = sw_json_find(h, "rules");
        struct sw_json *service = sw_json_walk(h, "clientConfig", "service", NULL);

        sw_b_defaults(a, h, "failurePolicy=Fail matchPolicy=Equivalent");
        (void)sw_b_object_in(a, h, "namespaceSelector");
        (void)sw_b_object_in(a, h, "objectSelector");
        sw_b_defaults(a, h, "timeoutSeconds=10");
        sw_b_defaults(a, service, "port=443");
        if (mutating)
            sw_b_defaults(a, h, "reinvocationPolicy=Never");
        for (size_t j = 0; j < sw_json_len(rules); j++)
            sw_b_defaults(a, sw_json_at(rules, j), "scope=*");
    }
}

static void default_crd(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_json_find(obj, "spec");
    struct sw_json *names = sw_json_find(spec, "names");
    struct sw_slice kind = sw_json_str(sw_json_find(names, "kind"));
    char *lower;

    if (!sw_json_is(names, SW_JSON_OBJECT) || !kind.n)
        return;
    lower = sw_arena_dup(a, kind);
    for (size_t i = 0; i < kind.n; i++)
        lower[i] = sw_tx_lower(lower[i]);
    default_str(a, names, "singular", lower);
    default_str(a, names, "listKind", sw_arena_printf(a, "%.*sList", SW_SLICE_ARG(kind)));
    sw_b_defaults(a, sw_b_object_in(a, spec, "conversion"), "strategy=None");
}

/* Written even when nothing is known, as the types of events have it. */
static void put_missing(struct sw_arena *a, struct sw_json *obj, const char *key, bool text)
{
    if (!sw_json_find(obj, key))
        sw_json_put(a, obj, key, text ? sw_json_new_str(a, "") : sw_json_new_null(a));
}

static void default_event(struct sw_arena *a, struct sw_json *obj)
{
    put_missing(a, obj, "eventTime", false);
    put_missing(a, obj, "firstTimestamp", false);
    put_missing(a, obj, "lastTimestamp", false);
    put_missing(a, obj, "reportingComponent", true);
    put_missing(a, obj, "reportingInstance", true);
}

static void default_event_v1(struct sw_arena *a, struct sw_json *obj)
{
    put_missing(a, obj, "eventTime", false);
    put_missing(a, obj, "deprecatedFirstTimestamp", false);
    put_missing(a, obj, "deprecatedLastTimestamp", false);
}

void sw_builtin_default(struct sw_arena *a, const struct sw_builtin *b, struct sw_json *obj)
{
    static const struct {
        const char *type;
        void (*fill)(struct sw_arena *, struct sw_json *);
    } table[] = {
        {"Secret", default_secret},
        {"Service", default_service},
        {"Namespace", default_namespace},
        {"Pod", sw_b_default_pod},
        {"Deployment", sw_b_default_deployment},
        {"ReplicaSet", sw_b_default_replica_set},
        {"DaemonSet", sw_b_default_daemon_set},
        {"StatefulSet", sw_b_default_stateful_set},
        {"ReplicationController", sw_b_default_replication_controller},
        {"Job", sw_b_default_job},
        {"CronJob", sw_b_default_cron_job},
        {"PersistentVolume", sw_b_default_volume},
        {"PersistentVolumeClaim", sw_b_default_claim},
        {"HorizontalPodAutoscaler", sw_b_default_autoscaler},
        {"HorizontalPodAutoscalerV1", sw_b_default_autoscaler_v1},
        {"Endpoints", default_endpoints},
        {"EndpointSlice", default_endpoint_slice},
        {"IngressClass", sw_b_default_ingress_class},
        {"Lease", default_lease},
        {"Event", default_event},
        {"EventV1", default_event_v1},
        {"Role", default_role},
        {"ClusterRole", default_role},
        {"RoleBinding", default_binding},
        {"ClusterRoleBinding", default_binding},
        {"CustomResourceDefinition", default_crd},
        {"ValidatingAdmissionPolicy", default_admission},
        {"ValidatingAdmissionPolicyBinding", default_admission},
        {"ValidatingWebhookConfiguration", default_admission},
        {"MutatingWebhookConfiguration", default_admission},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(table); i++) {
        if (strcmp(b->type, table[i].type) == 0)
            table[i].fill(a, obj);
    }
}

/* A namespace waits for its content, whatever else it waits for. */
static void admit_namespace(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_b_object_in(a, obj, "spec");
    struct sw_json *status = sw_json_new_object(a);
    struct sw_json *list = sw_json_find(spec, "finalizers");

    if (!sw_json_is(list, SW_JSON_ARRAY)) {
        list = sw_json_new_array(a);
        sw_json_put(a, spec, "finalizers", list);
    }
    for (size_t i = 0; i < sw_json_len(list); i++) {
        if (sw_json_str_eq(sw_json_at(list, i), "kubernetes"))
            list = NULL;
    }
    if (list)
        sw_json_push(a, list, sw_json_new_str(a, "kubernetes"));
    sw_json_put(a, status, "phase", sw_json_new_str(a, "Active"));
    sw_json_put(a, obj, "status", status);
}

/* The status of a new workload: no controller has observed it yet. */
static void admit_workload(struct sw_arena *a, const char *type, struct sw_json *obj)
{
    static const struct {
        const char *type;
        const char *zero[4];
    } counts[] = {
        {"ReplicaSet", {"replicas"}},
        {"ReplicationController", {"replicas"}},
        {"StatefulSet", {"availableReplicas", "replicas"}},
        {"DaemonSet",
         {"currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"}},
        {"HorizontalPodAutoscalerV1", {"currentReplicas", "desiredReplicas"}},
    };
    struct sw_json *status = sw_json_new_object(a);

    for (size_t i = 0; i < SW_ARRAY_LEN(counts); i++) {
        for (size_t k = 0; strcmp(type, counts[i].type) == 0 && k < 4 && counts[i].zero[k]; k++)
            sw_json_put(a, status, counts[i].zero[k], sw_json_new_i64(a, 0));
    }
    if (strcmp(type, "HorizontalPodAutoscaler") == 0) {
        sw_json_put(a, status, "currentMetrics", sw_json_new_null(a));
        sw_json_put(a, status, "desiredReplicas", sw_json_new_i64(a, 0));
    }
    sw_json_put(a, obj, "status", status);
}

/* Volumes and claims wait for a controller to bind them. */
static void admit_volume(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *status = sw_json_new_object(a);

    sw_json_put_str(a, status, "phase", SW_SLICE_LIT("Pending"));
    sw_json_put(a, obj, "status", status);
}

void sw_builtin_admit_new(struct sw_arena *a, const struct sw_builtin *b, struct sw_json *obj)
{
    if (strcmp(b->type, "Pod") == 0)
        sw_b_admit_pod(a, obj);
    else if (strcmp(b->type, "Namespace") == 0)
        admit_namespace(a, obj);
    else if (strcmp(b->type, "Ingress") == 0)
        sw_b_admit_ingress(a, obj);
    else if (strcmp(b->type, "Job") == 0)
        sw_b_admit_job(a, obj);
    else if (strcmp(b->type, "PersistentVolume") == 0 ||
             strcmp(b->type, "PersistentVolumeClaim") == 0)
        admit_volume(a, obj);
    else if (strcmp(b->group, "apps") == 0 || strcmp(b->group, "batch") == 0 ||
             strcmp(b->group, "autoscaling") == 0 || strcmp(b->type, "ReplicationController") == 0)
        admit_workload(a, b->type, obj);
}
