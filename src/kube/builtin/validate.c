/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of built-in kinds beyond their types. */
#include "base/base64.h"
#include "kube/admission/policy.h"
#include "kube/builtin/builtin_int.h"
#include "kube/schema/go_json.h"
#include "kube/schema/meta.h"
#include "kube/text.h"

enum { DATA_MAX = 1 << 20 };

void sw_b_port_number(const struct sw_at *at)
{
    int64_t n = 0;

    if (!at->v || !sw_json_exact_i64(at->v, &n) || n < 1 || n > 65535)
        sw_ferr_invalid(at->e, &at->path, at->v ? at->v : sw_json_new_i64(at->e->arena, 0),
                        "must be between 1 and 65535, inclusive");
}

void sw_b_invalid_go(const struct sw_at *at, const char *value, const char *detail)
{
    sw_ferr(at->e, SW_CAUSE_INVALID, &at->path,
            sw_arena_printf(at->e->arena, "Invalid value: %s: %s", value, detail));
}

const char *sw_b_go_list(struct sw_arena *a, const struct sw_json *list, const char *type)
{
    SW_BUF_AUTO b = {.max = 65536};

    if (!list)
        return sw_arena_printf(a, "[]%s(nil)", type);
    sw_tx_printf(&b, "[]%s{", type);
    for (size_t i = 0; i < sw_json_len(list); i++)
        sw_tx_printf(&b, "%s%s", i ? ", " : "", sw_go_value(a, sw_json_at(list, i)));
    sw_tx_c(&b, '}');
    return sw_arena_dup(a, sw_buf_slice(&b));
}

void sw_b_invalid_list(const struct sw_at *at, const char *type, const char *detail)
{
    sw_b_invalid_go(at, sw_b_go_list(at->e->arena, at->v, type), detail);
}

bool sw_b_kept(const struct sw_at *spec, const struct sw_json *old)
{
    return old && sw_json_equal(spec->v, sw_json_find(old, "spec"), SW_JSON_EQ_VALUE);
}

bool sw_b_equal_but(struct sw_arena *a, const struct sw_json *x, const struct sw_json *y,
                    const char *keys)
{
    struct sw_slice rest = sw_slice_str(keys);
    struct sw_json *p;
    struct sw_json *q;

    if (!x || !y)
        return x == y;
    p = sw_json_copy(a, x);
    q = sw_json_copy(a, y);
    while (rest.p) {
        struct sw_slice key = sw_slice_cut(&rest, ' ');

        (void)sw_json_remove(p, key);
        (void)sw_json_remove(q, key);
    }
    return sw_json_equal(p, q, SW_JSON_EQ_VALUE);
}

/* ---- ConfigMap, Secret ---- */

static size_t check_keys(const struct sw_at *data)
{
    size_t total = 0;

    SW_JSON_MEMBERS (m, data->v) {
        /* "." and ".." have the right letters: only their own text is given. */
        sw_name_report(data->e, &SW_KEY(data, m->key)->path, m->key, sw_name_config_key(m->key));
        total += sw_json_str(m->value).n;
    }
    return total;
}

static size_t base64_bytes(const struct sw_json *data)
{
    size_t total = 0;

    SW_JSON_MEMBERS (m, data) {
        struct sw_slice v = sw_json_str(m->value);

        total += v.n / 4 * 3;
        for (size_t k = v.n; k > 0 && v.p[k - 1] == '='; k--)
            total--;
    }
    return total;
}

static void check_frozen(const struct sw_at *obj, const struct sw_json *old, const char *fields)
{
    static const char text[] = "field is immutable when `immutable` is set";
    struct sw_slice rest = sw_slice_str(fields);

    if (!old || !sw_json_true(sw_json_find(old, "immutable")))
        return;
    if (!sw_json_true(sw_json_find(obj->v, "immutable")))
        sw_at_forbidden(SW_IN(obj, "immutable"), text);
    while (rest.p) {
        struct sw_slice key = sw_slice_cut(&rest, ' ');
        const struct sw_at *at = SW_IN(obj, sw_arena_dup(obj->e->arena, key));

        if (!sw_json_equal(at->v, sw_json_get(old, key), SW_JSON_EQ_VALUE))
            sw_at_forbidden(at, text);
    }
}

static void check_config_map(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *data = SW_IN(obj, "data");
    const struct sw_at *bin = SW_IN(obj, "binaryData");
    size_t total = check_keys(data) + base64_bytes(bin->v);

    (void)check_keys(bin);
    SW_JSON_MEMBERS (m, data->v) {
        if (sw_json_get(bin->v, m->key))
            sw_ferr_invalid_str(obj->e, &SW_KEY(data, m->key)->path, m->key,
                                "duplicate of key present in binaryData");
    }
    if (total > DATA_MAX)
        sw_ferr_too_long(obj->e, &SW_IN(obj, "[]")->path, DATA_MAX);
    check_frozen(obj, old, "data binaryData");
}

static void need_key(const struct sw_at *data, const char *key)
{
    const struct sw_at *at = SW_KEY(data, sw_slice_str(key));

    if (!at->v)
        sw_at_required(at, NULL);
}

/* A key that holds a JSON object. Its value is secret: errors name the defect only. */
static void need_json(const struct sw_at *data, const char *key)
{
    const struct sw_at *at = SW_KEY(data, sw_slice_str(key));
    struct sw_arena *a = at->e->arena;
    struct sw_json *v = NULL;
    struct sw_json_dups dups;
    const char *why = NULL;
    SW_BUF_AUTO b = {0};

    need_key(data, key);
    sw_buf_init(&b, sw_at_text(at).n + 8);
    if (!at->v || sw_base64_decode(&b, sw_at_text(at)) != SW_OK)
        return;
    if (sw_json_parse(a, sw_buf_slice(&b), &(struct sw_json_opts){.dups = &dups}, &v, NULL) !=
        SW_OK)
        why = sw_go_json_error(a, sw_buf_slice(&b));
    else if (v->type != SW_JSON_OBJECT && v->type != SW_JSON_NULL)
        why = sw_arena_printf(
            a, "json: cannot unmarshal %s into Go value of type map[string]interface {}",
            v->type == SW_JSON_BOOL ? "bool" : sw_json_type_name(v->type));
    if (why)
        sw_ferr_invalid_str(at->e, &at->path, SW_SLICE_LIT("<secret contents redacted>"), why);
}

static void check_secret_type(const struct sw_at *obj, const struct sw_at *data)
{
    const struct sw_at *type = SW_IN(obj, "type");
    const struct sw_at *notes = SW_IN(obj, "metadata.annotations");

    if (sw_at_is(type, "kubernetes.io/service-account-token"))
        (void)sw_at_need(SW_KEY(notes, SW_SLICE_LIT("kubernetes.io/service-account.name")), NULL);
    if (sw_at_is(type, "kubernetes.io/dockercfg"))
        need_json(data, ".dockercfg");
    if (sw_at_is(type, "kubernetes.io/dockerconfigjson"))
        need_json(data, ".dockerconfigjson");
    if (sw_at_is(type, "kubernetes.io/basic-auth") && !sw_json_find(data->v, "username") &&
        !sw_json_find(data->v, "password")) {
        need_key(data, "username");
        need_key(data, "password");
    }
    if (sw_at_is(type, "kubernetes.io/ssh-auth"))
        (void)sw_at_need(SW_KEY(data, SW_SLICE_LIT("ssh-privatekey")), NULL);
    if (sw_at_is(type, "kubernetes.io/tls")) {
        need_key(data, "tls.crt");
        need_key(data, "tls.key");
    }
}

static void check_secret(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *data = SW_IN(obj, "data");

    if (old)
        sw_at_same(SW_IN(obj, "type"), sw_json_find(old, "type"));
    check_frozen(obj, old, "data");
    (void)check_keys(data);
    if (base64_bytes(data->v) > DATA_MAX)
        sw_ferr_too_long(data->e, &data->path, DATA_MAX);
    check_secret_type(obj, data);
}

/* ---- Lease ---- */

static void check_lease(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *duration = SW_IN(obj, "spec.leaseDurationSeconds");
    int64_t n;

    if (duration->v && sw_json_exact_i64(duration->v, &n) && n <= 0)
        sw_at_invalid(duration, "must be greater than 0");
    sw_at_count(SW_IN(obj, "spec.leaseTransitions"));
}

/* ---- finalizers ---- */

static void check_kube_finalizer(const struct sw_at *at, const struct sw_at *report)
{
    struct sw_slice f = sw_json_str(at->v);

    if (f.p && sw_slice_find(f, '/') < 0 &&
        !sw_at_is_any(at, "kubernetes orphan foregroundDeletion"))
        sw_ferr_invalid_str(at->e, &report->path, f,
                            "name is neither a standard finalizer name nor is it fully "
                            "qualified");
}

/* ---- Namespace ---- */

static void check_namespace(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *list = SW_IN(obj, "spec.finalizers");
    const struct sw_at *phase = SW_IN(obj, "status.phase");
    bool going = SW_IN(obj, "metadata.deletionTimestamp")->v;
    struct sw_fpath at = sw_fpath_str(NULL, "status.Phase");

    SW_AT_FOREACH (f, list)
        check_kube_finalizer(&f, list);
    if (old && !sw_at_is(phase, going ? "Terminating" : "Active"))
        sw_ferr_invalid(obj->e, &at, phase->v ? phase->v : sw_json_new_str(obj->e->arena, ""),
                        going ? "may only be 'Terminating' if `deletionTimestamp` is not empty"
                              : "may only be 'Active' if `deletionTimestamp` is empty");
}

/* ---- admission ---- */

static void check_policy(const struct sw_at *obj, const struct sw_json *old)
{
    sw_policy_free(sw_policy_compile(obj->v, obj->e));
}

/* ---- all ---- */

void sw_builtin_validate(const struct sw_builtin *b, const struct sw_json *obj,
                         const struct sw_json *old, struct sw_field_errs *e)
{
    static const struct {
        const char *type;
        sw_b_check_fn *check;
    } table[] = {
        {"Namespace", check_namespace},
        {"Pod", sw_b_check_pod},
        {"Deployment", sw_b_check_deployment},
        {"ReplicaSet", sw_b_check_replica_set},
        {"DaemonSet", sw_b_check_daemon_set},
        {"StatefulSet", sw_b_check_stateful_set},
        {"ReplicationController", sw_b_check_replication_controller},
        {"Job", sw_b_check_job},
        {"CronJob", sw_b_check_cron_job},
        {"PersistentVolume", sw_b_check_volume},
        {"PersistentVolumeClaim", sw_b_check_claim},
        {"ResourceQuota", sw_b_check_quota},
        {"HorizontalPodAutoscaler", sw_b_check_autoscaler},
        {"HorizontalPodAutoscalerV1", sw_b_check_autoscaler},
        {"ConfigMap", check_config_map},
        {"Secret", check_secret},
        {"Service", sw_b_check_service},
        {"Lease", check_lease},
        {"Endpoints", sw_b_check_endpoints},
        {"EndpointSlice", sw_b_check_endpoint_slice},
        {"Ingress", sw_b_check_ingress},
        {"IngressClass", sw_b_check_ingress_class},
        {"Event", sw_b_check_event},
        {"EventV1", sw_b_check_event_v1},
        {"Role", sw_b_check_role},
        {"ClusterRole", sw_b_check_role},
        {"RoleBinding", sw_b_check_binding},
        {"ClusterRoleBinding", sw_b_check_binding},
        {"ValidatingWebhookConfiguration", sw_b_check_webhooks},
        {"MutatingWebhookConfiguration", sw_b_check_webhooks},
        {"ValidatingAdmissionPolicy", check_policy},
        {"ValidatingAdmissionPolicyBinding", sw_policy_binding_check},
    };
    const struct sw_at *whole = SW_WHOLE(obj, e);
    const struct sw_at *finalizers = SW_IN(whole, "metadata.finalizers");

    sw_meta_validate(obj, b->namespaced, b->name_check, e);
    if (old)
        sw_meta_validate_update(obj, old, e);
    SW_AT_FOREACH (f, finalizers) {
        if (b->flags & SW_B_KUBE_FINALIZERS)
            check_kube_finalizer(&f, &f);
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(table); i++) {
        if (strcmp(b->type, table[i].type) == 0)
            table[i].check(whole, old);
    }
}
