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

/* The member gets the value unless it has one; see sw_b_defaults. */
static void fill_member(struct sw_arena *a, struct sw_json *v, struct sw_slice key,
                        struct sw_slice value)
{
    const struct sw_json *x = sw_json_get(v, key);
    bool truth = sw_slice_eq_str(value, "true");
    bool empty = sw_slice_eq_str(value, "null[]") && !sw_json_len(x);
    uint64_t n = 0;

    if (sw_slice_eq_str(value, "{}")) {
        if (!sw_json_is(x, SW_JSON_OBJECT))
            sw_json_set(a, v, key, sw_json_new_object(a));
    } else if (sw_slice_has_prefix(value, SW_SLICE_LIT("null"))) {
        if (!x || empty)
            sw_json_set(a, v, key, sw_json_new_null(a));
    } else if (sw_slice_to_u64(value, INT64_MAX, &n)) {
        if (!x)
            sw_json_set(a, v, key, sw_json_new_i64(a, (int64_t)n));
    } else if (truth || sw_slice_eq_str(value, "false")) {
        if (!x)
            sw_json_set(a, v, key, sw_json_new_bool(a, truth));
    } else if (!x || x->type == SW_JSON_NULL || (x->type == SW_JSON_STRING && !x->text.n)) {
        sw_json_set(a, v, key, sw_json_new_string(a, value));
    }
}

static void fill_path(struct sw_arena *a, struct sw_json *v, struct sw_slice path,
                      struct sw_slice value)
{
    struct sw_slice key = sw_slice_cut(&path, '.');

    if (!sw_json_is(v, SW_JSON_OBJECT))
        return;
    if (!path.p) {
        fill_member(a, v, key, value);
    } else if (sw_slice_has_suffix(key, SW_SLICE_LIT("[]"))) {
        SW_JSON_ITEMS (item, sw_json_get(v, sw_slice_head(key, key.n - 2)))
            fill_path(a, item, path, value);
    } else {
        if (sw_slice_has_suffix(key, SW_SLICE_LIT("!"))) {
            key.n--;
            fill_member(a, v, key, SW_SLICE_LIT("{}"));
        }
        fill_path(a, sw_json_get(v, key), path, value);
    }
}

void sw_b_defaults(struct sw_arena *a, struct sw_json *v, const char *list)
{
    struct sw_slice rest = sw_slice_str(list);

    while (rest.n) {
        struct sw_slice value = sw_slice_cut(&rest, ' ');
        struct sw_slice path = sw_slice_cut(&value, '=');

        fill_path(a, v, path, value);
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
    sw_b_defaults(a, spec, "sessionAffinity=None");
    if (sw_json_str_eq(sw_json_find(spec, "sessionAffinity"), "None"))
        (void)sw_json_remove(spec, SW_SLICE_LIT("sessionAffinityConfig"));
    if (sw_json_str_eq(sw_json_find(spec, "sessionAffinity"), "ClientIP"))
        sw_b_defaults(a, spec, "sessionAffinityConfig!.clientIP!.timeoutSeconds=10800");
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

static void default_binding(struct sw_arena *a, struct sw_json *obj)
{
    const struct sw_json *subjects = sw_json_find(obj, "subjects");

    SW_JSON_ITEMS (s, subjects) {
        const struct sw_json *kind = sw_json_find(s, "kind");

        if (sw_json_str_eq(kind, "User") || sw_json_str_eq(kind, "Group"))
            sw_b_defaults(a, s, "apiGroup=rbac.authorization.k8s.io");
    }
}

static void default_crd(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_json_find(obj, "spec");
    struct sw_json *names = sw_json_find(spec, "names");
    struct sw_slice kind = sw_json_str(sw_json_find(names, "kind"));

    if (!sw_json_is(names, SW_JSON_OBJECT) || !kind.n)
        return;
    default_str(a, names, "singular", sw_tx_lower_dup(a, kind).p);
    default_str(a, names, "listKind", sw_arena_printf(a, "%.*sList", SW_SLICE_ARG(kind)));
    sw_b_defaults(a, sw_b_object_in(a, spec, "conversion"), "strategy=None");
}

/* Of the resources that an admission policy or a webhook looks at. */
#define MATCH(at)        at "matchPolicy=Equivalent " at "namespaceSelector={} " at "objectSelector={} "
#define POLICY_MATCH(at) MATCH(at) at "resourceRules[].scope=* " at "excludeResourceRules[].scope=*"
#define WEBHOOK                                                                                    \
    "webhooks[].failurePolicy=Fail " MATCH(                                                        \
        "webhooks[].") "webhooks[].timeoutSeconds=10 "                                             \
                       "webhooks[].clientConfig.service.port=443 webhooks[].rules[].scope=* "

/* What a kind gets from code, and then by sw_b_defaults. */
static const struct {
    const char *type;
    sw_b_fill_fn *fill; /* NULL: none */
    const char *list;
} defaults[] = {
    {"Secret", default_secret, "type=Opaque"},
    {"Service", default_service, ""},
    {"Namespace", default_namespace, "status!.phase=Active"},
    {"Pod", sw_b_default_pod, ""},
    {"Deployment", sw_b_default_deployment, ""},
    {"ReplicaSet", sw_b_default_workload, "spec.replicas=1"},
    {"DaemonSet", sw_b_default_daemon_set, ""},
    {"StatefulSet", sw_b_default_stateful_set, ""},
    {"ReplicationController", sw_b_default_replication_controller, ""},
    {"Job", sw_b_default_job, ""},
    {"CronJob", sw_b_default_cron_job,
     "spec.concurrencyPolicy=Allow spec.suspend=false spec.successfulJobsHistoryLimit=3 "
     "spec.failedJobsHistoryLimit=1 status={}"},
    {"PersistentVolume", NULL,
     "spec!.persistentVolumeReclaimPolicy=Retain spec.volumeMode=Filesystem spec.hostPath.type= "
     "status!.phase=Pending"},
    {"PersistentVolumeClaim", NULL, SW_B_CLAIM_DEFAULTS("")},
    {"HorizontalPodAutoscaler", sw_b_default_autoscaler, ""},
    {"HorizontalPodAutoscalerV1", NULL, "spec!.minReplicas=1"},
    {"Endpoints", default_endpoints, "subsets[].ports[].protocol=TCP"},
    {"EndpointSlice", NULL, "ports[].name= ports[].protocol=TCP endpoints=null[] ports=null[]"},
    {"IngressClass", sw_b_default_ingress_class, ""},
    {"Lease", default_lease, ""},
    {"Event", NULL,
     "eventTime=null firstTimestamp=null lastTimestamp=null reportingComponent= "
     "reportingInstance="},
    {"EventV1", NULL, "eventTime=null deprecatedFirstTimestamp=null deprecatedLastTimestamp=null"},
    {"Role", NULL, "rules=null[]"},
    {"ClusterRole", NULL, "rules=null[]"},
    {"RoleBinding", default_binding, "roleRef!.apiGroup=rbac.authorization.k8s.io"},
    {"ClusterRoleBinding", default_binding, "roleRef!.apiGroup=rbac.authorization.k8s.io"},
    {"CustomResourceDefinition", default_crd, ""},
    {"ValidatingAdmissionPolicy", NULL,
     "spec.failurePolicy=Fail " POLICY_MATCH("spec.matchConstraints.")},
    {"ValidatingAdmissionPolicyBinding", NULL, POLICY_MATCH("spec.matchResources.")},
    {"ValidatingWebhookConfiguration", NULL, WEBHOOK},
    {"MutatingWebhookConfiguration", NULL, WEBHOOK "webhooks[].reinvocationPolicy=Never"},
};

void sw_builtin_default(struct sw_arena *a, const struct sw_builtin *b, struct sw_json *obj)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(defaults); i++) {
        if (strcmp(b->type, defaults[i].type) != 0)
            continue;
        if (defaults[i].fill)
            defaults[i].fill(a, obj);
        sw_b_defaults(a, obj, defaults[i].list);
    }
}

/* A namespace waits for its content, whatever else it waits for. */
static void admit_namespace(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_b_object_in(a, obj, "spec");
    struct sw_json *list = sw_json_need(a, spec, "finalizers", SW_JSON_ARRAY);

    if (!sw_field_list_has(list, SW_SLICE_LIT("kubernetes")))
        sw_json_push(a, list, sw_json_new_str(a, "kubernetes"));
}

/* The status of a new object: no controller has observed it yet. */
static const struct {
    const char *group;
    const char *type; /* NULL: all others of the group */
    const char *status;
} begins[] = {
    {"", "Namespace", "phase=Active"},
    {"", "PersistentVolume", "phase=Pending"},
    {"", "PersistentVolumeClaim", "phase=Pending"},
    {"", "ReplicationController", "replicas=0"},
    {"networking.k8s.io", "Ingress", "loadBalancer={}"},
    {"apps", "ReplicaSet", "replicas=0"},
    {"apps", "StatefulSet", "availableReplicas=0 replicas=0"},
    {"apps", "DaemonSet",
     "currentNumberScheduled=0 desiredNumberScheduled=0 numberMisscheduled=0 numberReady=0"},
    {"apps", NULL, ""},
    {"batch", NULL, ""},
    {"autoscaling", "HorizontalPodAutoscalerV1", "currentReplicas=0 desiredReplicas=0"},
    {"autoscaling", "HorizontalPodAutoscaler", "currentMetrics=null desiredReplicas=0"},
};

void sw_builtin_admit_new(struct sw_arena *a, const struct sw_builtin *b, struct sw_json *obj)
{
    struct sw_json *status = sw_json_new_object(a);

    if (strcmp(b->type, "Pod") == 0)
        sw_b_admit_pod(a, obj);
    else if (strcmp(b->type, "Namespace") == 0)
        admit_namespace(a, obj);
    else if (strcmp(b->type, "Job") == 0)
        sw_b_admit_job(a, obj);
    for (size_t i = 0; i < SW_ARRAY_LEN(begins); i++) {
        if (strcmp(b->group, begins[i].group) != 0 ||
            (begins[i].type && strcmp(b->type, begins[i].type) != 0))
            continue;
        sw_b_defaults(a, status, begins[i].status);
        sw_json_put(a, obj, "status", status);
        return;
    }
}
