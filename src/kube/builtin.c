/* SPDX-License-Identifier: Apache-2.0 */
/* The table of built-in kinds, decoding into their types, and defaults. */
#include "kube/builtin.h"

#include <stdlib.h>

#include "base/base64.h"
#include "base/time.h"
#include "kube/builtin_int.h"
#include "kube/cel_priv.h"
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
    {"", "v1", "Pod", "pods", "pod", "po", "all", true, SW_VERBS_ALL, UNCOND | KFIN, "Pod",
     sw_name_dns1123_subdomain, status_sub, sel_pod},
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
    {"autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
     "horizontalpodautoscaler", "hpa", "all", true, SW_VERBS_ALL,
     UNCOND | STRICT | SW_B_GENERATION | KFIN, "HorizontalPodAutoscaler", sw_name_dns1123_subdomain,
     status_sub, sel_ns},
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
    for (size_t i = 0; i < SW_ARRAY_LEN(kinds); i++) {
        if (sw_slice_eq_str(group, kinds[i].group) && sw_slice_eq_str(kind, kinds[i].kind))
            return &kinds[i];
    }
    return NULL;
}

const struct sw_builtin *sw_builtin_resource(struct sw_slice group, struct sw_slice plural)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(kinds); i++) {
        if (sw_slice_eq_str(group, kinds[i].group) && sw_slice_eq_str(plural, kinds[i].plural))
            return &kinds[i];
    }
    return NULL;
}

/* ---- decoding ---- */

struct decoder {
    struct sw_arena *a;
    struct sw_texts *unknown;
    const char *why;
    bool root;
};

static int decode_struct(struct decoder *d, const struct sw_pb_type *t, struct sw_json *v,
                         const struct sw_fpath *path);

static int mismatch(struct decoder *d, const struct sw_json *v, const struct sw_fpath *path,
                    const char *want)
{
    d->why = sw_arena_printf(d->a, "json: cannot unmarshal %s into Go struct field %s of type %s",
                             v->type == SW_JSON_BOOL ? "bool" : sw_json_type_name(v->type),
                             sw_fpath_text(d->a, path), want);
    return SW_EINVAL;
}

static int decode_time(struct decoder *d, struct sw_json *v, bool micros)
{
    char out[SW_RFC3339_LEN];
    int64_t sec;
    int32_t ns;

    if (!cel_parse_time(v->text, &sec, &ns) || sec < 0) {
        d->why = sw_arena_printf(d->a,
                                 "parsing time %s as \"2006-01-02T15:04:05Z07:00\": cannot "
                                 "parse it",
                                 sw_go_quote(d->a, v->text));
        return SW_EINVAL;
    }
    v->text = sw_arena_slice(
        d->a, sw_slice_str(sw_rfc3339((uint64_t)sec * SW_NS_PER_S + (uint64_t)ns, micros, out)));
    return SW_OK;
}

static int decode_bytes(struct decoder *d, const struct sw_json *v)
{
    SW_BUF_AUTO b = {0};

    sw_buf_init(&b, v->text.n + 8);
    if (sw_base64_decode(&b, v->text) == SW_OK)
        return SW_OK;
    d->why = "illegal base64 data";
    return SW_EINVAL;
}

static int decode_scalar(struct decoder *d, const struct sw_pb_field *f, struct sw_json *v,
                         const struct sw_fpath *path)
{
    int64_t n;

    switch (f->kind) {
    case SW_PB_STRING:
        return v->type == SW_JSON_STRING ? SW_OK : mismatch(d, v, path, "string");
    case SW_PB_INT:
        if (v->type != SW_JSON_NUMBER || !sw_json_exact_i64(v, &n))
            return mismatch(d, v, path, "int32");
        return SW_OK;
    case SW_PB_BOOL:
        return v->type == SW_JSON_BOOL ? SW_OK : mismatch(d, v, path, "bool");
    case SW_PB_BYTES:
        return v->type == SW_JSON_STRING ? decode_bytes(d, v) : mismatch(d, v, path, "[]uint8");
    case SW_PB_TIME:
    case SW_PB_MICROTIME:
        if (v->type != SW_JSON_STRING)
            return mismatch(d, v, path, "string");
        return decode_time(d, v, f->kind == SW_PB_MICROTIME);
    case SW_PB_INT_OR_STRING:
        if (v->type != SW_JSON_STRING && !sw_json_is_integer(v))
            return mismatch(d, v, path, "intstr.IntOrString");
        return SW_OK;
    case SW_PB_QUANTITY:
        if (v->type != SW_JSON_STRING && v->type != SW_JSON_NUMBER)
            return mismatch(d, v, path, "resource.Quantity");
        return SW_OK;
    case SW_PB_ITEMS:
        return v->type == SW_JSON_ARRAY ? SW_OK : mismatch(d, v, path, "[]string");
    case SW_PB_JSON:
        return SW_OK;
    case SW_PB_MESSAGE:
        break;
    }
    if (v->type != SW_JSON_OBJECT)
        return mismatch(d, v, path, sw_arena_dup(d->a, f->type_name));
    return decode_struct(d, f->type, v, path);
}

static int decode_field(struct decoder *d, const struct sw_pb_field *f, struct sw_json *v,
                        const struct sw_fpath *path)
{
    if (f->repeated) {
        if (v->type != SW_JSON_ARRAY)
            return mismatch(d, v, path, "slice");
        for (size_t i = 0; i < sw_json_len(v); i++) {
            struct sw_fpath at = sw_fpath_index(path, i);

            if (decode_scalar(d, f, sw_json_at(v, i), &at) < 0)
                return SW_EINVAL;
        }
        return SW_OK;
    }
    if (!f->map)
        return decode_scalar(d, f, v, path);
    if (v->type != SW_JSON_OBJECT)
        return mismatch(d, v, path, "map[string]string");
    for (size_t i = 0; i < sw_json_len(v); i++) {
        const struct sw_json_member *m = sw_json_member_at(v, i);
        struct sw_fpath at = sw_fpath_field(path, m->key);

        /* null in a map is the zero value of its type. */
        if (m->value->type == SW_JSON_NULL && f->kind != SW_PB_MESSAGE)
            *m->value = *sw_json_new_str(d->a, "");
        else if (decode_scalar(d, f, m->value, &at) < 0)
            return SW_EINVAL;
    }
    return SW_OK;
}

/* What Go's omitempty leaves out. */
static bool omitted(const struct sw_pb_field *f, const struct sw_json *v)
{
    int64_t n;

    if (v->type == SW_JSON_NULL)
        return true;
    if (f->keep || f->always || f->kind == SW_PB_JSON)
        return false;
    if (f->repeated || f->map)
        return !sw_json_len(v);
    if (f->kind == SW_PB_STRING)
        return !sw_json_str(v).n;
    if (f->kind == SW_PB_BOOL)
        return !v->boolean;
    return f->kind == SW_PB_INT && sw_json_exact_i64(v, &n) && n == 0;
}

static const struct sw_pb_field *field_named(const struct sw_pb_type *t, struct sw_slice name)
{
    for (size_t i = 0; i < t->nfields; i++) {
        if (sw_slice_eq(t->fields[i].name, name))
            return &t->fields[i];
    }
    return NULL;
}

struct keep {
    const struct sw_pb_type *type;
    bool root;
};

static bool kept(const struct sw_json_member *m, const void *arg)
{
    const struct keep *k = arg;
    const struct sw_pb_field *f = field_named(k->type, m->key);

    if (!f)
        return k->root &&
               (sw_slice_eq_str(m->key, "apiVersion") || sw_slice_eq_str(m->key, "kind"));
    return !omitted(f, m->value);
}

static int decode_struct(struct decoder *d, const struct sw_pb_type *t, struct sw_json *v,
                         const struct sw_fpath *path)
{
    struct keep k = {.type = t, .root = !path};

    for (size_t i = 0; i < sw_json_len(v); i++) {
        const struct sw_json_member *m = sw_json_member_at(v, i);
        const struct sw_pb_field *f = field_named(t, m->key);
        struct sw_fpath at = sw_fpath_field(path, m->key);

        if (!f && !path &&
            (sw_slice_eq_str(m->key, "apiVersion") || sw_slice_eq_str(m->key, "kind")))
            continue;
        if (f && m->value->type != SW_JSON_NULL && decode_field(d, f, m->value, &at) < 0)
            return SW_EINVAL;
        if (!f && d->unknown && d->unknown->n < 100)
            sw_texts_add(d->unknown, sw_fpath_text(d->unknown->arena, &at));
    }
    (void)sw_json_filter(v, kept, &k);
    for (size_t i = 0; i < t->nfields; i++) {
        if (!t->fields[i].always || sw_json_get(v, t->fields[i].name))
            continue;
        sw_json_set(d->a, v, t->fields[i].name, sw_json_new_object(d->a));
        if (decode_struct(d, t->fields[i].type, sw_json_get(v, t->fields[i].name),
                          &(struct sw_fpath){0}) < 0)
            return SW_EINVAL;
    }
    return SW_OK;
}

int sw_builtin_decode(struct sw_arena *a, const struct sw_schema *s, struct sw_json *v,
                      struct sw_texts *unknown, const char **ret_why)
{
    struct decoder d = {.a = a, .unknown = unknown};
    const struct sw_pb_type *t = sw_builtin_type(s->ref);

    if (!t || v->type != SW_JSON_OBJECT) {
        *ret_why = "not an object";
        return SW_EINVAL;
    }
    if (decode_struct(&d, t, v, NULL) < 0) {
        *ret_why = d.why;
        return SW_EINVAL;
    }
    return SW_OK;
}

int sw_meta_decode(struct sw_arena *a, struct sw_json *obj, struct sw_texts *unknown,
                   const char **ret_why)
{
    struct decoder d = {.a = a, .unknown = unknown};
    struct sw_json *meta = sw_json_find(obj, "metadata");
    struct sw_fpath path = sw_fpath_str(NULL, "metadata");

    if (!meta || meta->type == SW_JSON_NULL)
        return SW_OK;
    if (meta->type != SW_JSON_OBJECT) {
        (void)mismatch(&d, meta, &path, "v1.ObjectMeta");
        *ret_why = d.why;
        return SW_EINVAL;
    }
    if (decode_struct(&d, sw_builtin_type(SW_SLICE_LIT("ObjectMeta")), meta, &path) < 0) {
        *ret_why = d.why;
        return SW_EINVAL;
    }
    return SW_OK;
}

/* ---- defaults ---- */

static void default_str(struct sw_arena *a, struct sw_json *v, const char *key, const char *value)
{
    const struct sw_json *x = sw_json_find(v, key);

    if (sw_json_is(v, SW_JSON_OBJECT) && (!x || (x->type == SW_JSON_STRING && !x->text.n)))
        sw_json_put(a, v, key, sw_json_new_str(a, value));
}

static struct sw_json *object_at(struct sw_arena *a, struct sw_json *v, const char *key)
{
    struct sw_json *x = sw_json_find(v, key);

    if (!sw_json_is(x, SW_JSON_OBJECT)) {
        x = sw_json_new_object(a);
        sw_json_put(a, v, key, x);
    }
    return x;
}

/* stringData is write-only: it lands in data. */
static void default_secret(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *plain = sw_json_remove(obj, SW_SLICE_LIT("stringData"));

    for (size_t i = 0; i < sw_json_len(plain); i++) {
        const struct sw_json_member *m = sw_json_member_at(plain, i);
        SW_BUF_AUTO b = {0};

        sw_buf_init(&b, m->value->text.n * 2 + 8);
        if (m->value->type == SW_JSON_STRING && sw_base64_append(&b, m->value->text) == SW_OK)
            sw_json_set(a, object_at(a, obj, "data"), m->key,
                        sw_json_new_string(a, sw_buf_slice(&b)));
    }
    default_str(a, obj, "type", "Opaque");
}

static void default_ports(struct sw_arena *a, const struct sw_json *ports)
{
    for (size_t i = 0; i < sw_json_len(ports); i++) {
        struct sw_json *p = sw_json_at(ports, i);
        const struct sw_json *target = sw_json_find(p, "targetPort");
        int64_t n;
        bool unset = !target || (sw_json_i64(target, &n) && n == 0) ||
                     (target->type == SW_JSON_STRING && !target->text.n);

        default_str(a, p, "protocol", "TCP");
        if (unset && sw_json_find(p, "port"))
            sw_json_put(a, p, "targetPort", sw_json_copy(a, sw_json_find(p, "port")));
    }
}

/* How long a client stays with its endpoint. */
static void default_affinity(struct sw_arena *a, struct sw_json *spec)
{
    struct sw_json *config;

    default_str(a, spec, "sessionAffinity", "None");
    if (sw_json_str_eq(sw_json_find(spec, "sessionAffinity"), "None"))
        (void)sw_json_remove(spec, SW_SLICE_LIT("sessionAffinityConfig"));
    if (!sw_json_str_eq(sw_json_find(spec, "sessionAffinity"), "ClientIP") ||
        sw_json_walk(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds", NULL))
        return;
    config = object_at(a, object_at(a, spec, "sessionAffinityConfig"), "clientIP");
    sw_json_put(a, config, "timeoutSeconds", sw_json_new_i64(a, 10800));
}

static void default_ingress(struct sw_arena *a, const struct sw_json *obj)
{
    const struct sw_json *list = sw_json_walk(obj, "status", "loadBalancer", "ingress", NULL);

    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_json *in = sw_json_at(list, i);

        if (sw_json_str(sw_json_find(in, "ip")).n && !sw_json_find(in, "ipMode"))
            sw_json_put(a, in, "ipMode", sw_json_new_str(a, "VIP"));
    }
}

static void default_service(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = object_at(a, obj, "spec");
    bool balanced;
    bool node_port;
    bool plain;

    default_affinity(a, spec);
    default_str(a, spec, "type", "ClusterIP");
    balanced = sw_json_str_eq(sw_json_find(spec, "type"), "LoadBalancer");
    node_port = sw_json_str_eq(sw_json_find(spec, "type"), "NodePort");
    plain = sw_json_str_eq(sw_json_find(spec, "type"), "ClusterIP");
    default_ports(a, sw_json_find(spec, "ports"));
    if (balanced || node_port || (plain && sw_json_len(sw_json_find(spec, "externalIPs"))))
        default_str(a, spec, "externalTrafficPolicy", "Cluster");
    if ((balanced || node_port || plain) && !sw_json_find(spec, "internalTrafficPolicy"))
        sw_json_put(a, spec, "internalTrafficPolicy", sw_json_new_str(a, "Cluster"));
    if (balanced && !sw_json_find(spec, "allocateLoadBalancerNodePorts"))
        sw_json_put(a, spec, "allocateLoadBalancerNodePorts", sw_json_new_bool(a, true));
    if (balanced)
        default_ingress(a, obj);
}

static void default_namespace(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *meta = object_at(a, obj, "metadata");
    const struct sw_json *name = sw_json_find(meta, "name");

    if (sw_json_str(name).n)
        sw_json_put(a, object_at(a, meta, "labels"), "kubernetes.io/metadata.name",
                    sw_json_copy(a, name));
    default_str(a, object_at(a, obj, "status"), "phase", "Active");
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

    for (size_t i = 0; i < sw_json_len(subsets); i++) {
        const struct sw_json *set = sw_json_at(subsets, i);
        const struct sw_json *ports = sw_json_find(set, "ports");

        for (size_t k = 0; k < sw_json_len(ports); k++)
            default_str(a, sw_json_at(ports, k), "protocol", "TCP");
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

    (void)a;
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

    for (size_t i = 0; i < sw_json_len(ports); i++) {
        struct sw_json *p = sw_json_at(ports, i);

        if (!sw_json_find(p, "name"))
            sw_json_put(a, p, "name", sw_json_new_str(a, ""));
        default_str(a, p, "protocol", "TCP");
    }
    null_if_empty(a, obj, "endpoints");
    null_if_empty(a, obj, "ports");
}

static void default_binding(struct sw_arena *a, struct sw_json *obj)
{
    const struct sw_json *subjects = sw_json_find(obj, "subjects");

    for (size_t i = 0; i < sw_json_len(subjects); i++) {
        struct sw_json *s = sw_json_at(subjects, i);
        const struct sw_json *kind = sw_json_find(s, "kind");

        if (sw_json_str_eq(kind, "User") || sw_json_str_eq(kind, "Group"))
            default_str(a, s, "apiGroup", RBAC);
    }
    default_str(a, object_at(a, obj, "roleRef"), "apiGroup", RBAC);
}

static void default_role(struct sw_arena *a, struct sw_json *obj)
{
    null_if_empty(a, obj, "rules");
}

static void default_match(struct sw_arena *a, struct sw_json *m)
{
    struct sw_json *rules = sw_json_find(m, "resourceRules");

    if (!sw_json_is(m, SW_JSON_OBJECT))
        return;
    default_str(a, m, "matchPolicy", "Equivalent");
    (void)object_at(a, m, "namespaceSelector");
    (void)object_at(a, m, "objectSelector");
    for (size_t i = 0; i < sw_json_len(rules); i++)
        default_str(a, sw_json_at(rules, i), "scope", "*");
}

static void default_admission(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *hooks = sw_json_find(obj, "webhooks");

    if (sw_json_find(spec, "validations") || sw_json_find(spec, "failurePolicy"))
        default_str(a, spec, "failurePolicy", "Fail");
    default_match(a, sw_json_find(spec, "matchConstraints"));
    default_match(a, sw_json_find(spec, "matchResources"));
    for (size_t i = 0; i < sw_json_len(hooks); i++) {
        struct sw_json *h = sw_json_at(hooks, i);
        const struct sw_json *rules = sw_json_find(h, "rules");

        default_str(a, h, "failurePolicy", "Fail");
        default_str(a, h, "matchPolicy", "Equivalent");
        (void)object_at(a, h, "namespaceSelector");
        (void)object_at(a, h, "objectSelector");
        if (!sw_json_find(h, "timeoutSeconds"))
            sw_json_put(a, h, "timeoutSeconds", sw_json_new_i64(a, 10));
        for (size_t j = 0; j < sw_json_len(rules); j++)
            default_str(a, sw_json_at(rules, j), "scope", "*");
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
    default_str(a, object_at(a, spec, "conversion"), "strategy", "None");
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
    struct sw_json *spec = object_at(a, obj, "spec");
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

void sw_builtin_admit_new(struct sw_arena *a, const struct sw_builtin *b, struct sw_json *obj)
{
    if (strcmp(b->type, "Pod") == 0)
        sw_b_admit_pod(a, obj);
    else if (strcmp(b->type, "Namespace") == 0)
        admit_namespace(a, obj);
    else if (strcmp(b->type, "Ingress") == 0)
        sw_b_admit_ingress(a, obj);
    else if (strcmp(b->group, "apps") == 0)
        sw_json_put(a, obj, "status", sw_json_new_object(a)); /* nobody has looked at it yet */
}
