/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of built-in kinds beyond their types. */
#include "base/base64.h"
#include "kube/admission/policy.h"
#include "kube/builtin/builtin_int.h"
#include "kube/schema/meta.h"
#include "kube/text.h"

enum { DATA_MAX = 1 << 20 };

void sw_b_port_number(const struct sw_json *v, const struct sw_fpath *at, struct sw_field_errs *e)
{
    int64_t n = 0;

    if (!v || !sw_json_exact_i64(v, &n) || n < 1 || n > 65535)
        sw_ferr_invalid(e, at, v ? v : sw_json_new_i64(e->arena, 0),
                        "must be between 1 and 65535, inclusive");
}

const char *sw_b_go_list(struct sw_arena *a, const struct sw_json *list, const char *type)
{
    SW_BUF_AUTO b = {0};

    if (!list)
        return sw_arena_printf(a, "[]%s(nil)", type);
    sw_buf_init(&b, 65536);
    sw_tx_printf(&b, "[]%s{", type);
    for (size_t i = 0; i < sw_json_len(list); i++)
        sw_tx_printf(&b, "%s%s", i ? ", " : "", sw_go_value(a, sw_json_at(list, i)));
    sw_tx_c(&b, '}');
    return sw_arena_dup(a, sw_buf_slice(&b));
}

void sw_b_invalid_go(struct sw_field_errs *e, const struct sw_fpath *at, const char *value,
                     const char *detail)
{
    sw_ferr(e, SW_CAUSE_INVALID, at,
            sw_arena_printf(e->arena, "Invalid value: %s: %s", value, detail));
}

static void immutable(const struct sw_json *obj, const struct sw_json *old, const char *key,
                      struct sw_field_errs *e)
{
    struct sw_fpath at = sw_fpath_str(NULL, key);

    if (!sw_json_equal(sw_json_find(obj, key), sw_json_find(old, key), SW_JSON_EQ_VALUE))
        sw_ferr_invalid(e, &at, sw_json_find(obj, key), "field is immutable");
}

/* ---- ConfigMap, Secret ---- */

static size_t check_keys(const struct sw_json *data, const char *name, struct sw_field_errs *e)
{
    struct sw_fpath up = sw_fpath_str(NULL, name);
    size_t total = 0;

    for (size_t i = 0; i < sw_json_len(data); i++) {
        const struct sw_json_member *m = sw_json_member_at(data, i);
        struct sw_fpath at = sw_fpath_key(&up, m->key);
        struct sw_slice v = sw_json_str(m->value);
        struct sw_name_msgs msgs = sw_name_config_key(m->key);

        /* "." and ".." have the right letters: only their own text is given. */
        sw_name_report(e, &at, m->key, msgs);
        total += v.n;
    }
    return total;
}

static size_t base64_bytes(const struct sw_json *data)
{
    size_t total = 0;

    for (size_t i = 0; i < sw_json_len(data); i++) {
        struct sw_slice v = sw_json_str(sw_json_member_at(data, i)->value);

        total += v.n / 4 * 3;
        for (size_t k = v.n; k > 0 && v.p[k - 1] == '='; k--)
            total--;
    }
    return total;
}

static void check_frozen(const struct sw_json *obj, const struct sw_json *old,
                         const char *const *fields, struct sw_field_errs *e)
{
    static const char text[] = "field is immutable when `immutable` is set";
    struct sw_fpath at = sw_fpath_str(NULL, "immutable");

    if (!old || !sw_json_true(sw_json_find(old, "immutable")))
        return;
    if (!sw_json_true(sw_json_find(obj, "immutable")))
        sw_ferr_forbidden(e, &at, text);
    for (; *fields; fields++) {
        at = sw_fpath_str(NULL, *fields);
        if (!sw_json_equal(sw_json_find(obj, *fields), sw_json_find(old, *fields),
                           SW_JSON_EQ_VALUE))
            sw_ferr_forbidden(e, &at, text);
    }
}

static void check_config_map(const struct sw_json *obj, const struct sw_json *old,
                             struct sw_field_errs *e)
{
    static const char *const fields[] = {"data", "binaryData", NULL};
    const struct sw_json *data = sw_json_find(obj, "data");
    const struct sw_json *bin = sw_json_find(obj, "binaryData");
    struct sw_fpath whole = sw_fpath_str(NULL, "[]");
    struct sw_fpath up = sw_fpath_str(NULL, "data");
    size_t total = check_keys(data, "data", e) + base64_bytes(bin);

    (void)check_keys(bin, "binaryData", e);
    for (size_t i = 0; i < sw_json_len(data); i++) {
        const struct sw_json_member *m = sw_json_member_at(data, i);
        struct sw_fpath at = sw_fpath_key(&up, m->key);

        if (sw_json_get(bin, m->key))
            sw_ferr_invalid_str(e, &at, m->key, "duplicate of key present in binaryData");
    }
    if (total > DATA_MAX)
        sw_ferr_too_long(e, &whole, DATA_MAX);
    check_frozen(obj, old, fields, e);
}

static void need_key(const struct sw_json *data, const char *key, struct sw_field_errs *e)
{
    struct sw_fpath up = sw_fpath_str(NULL, "data");
    struct sw_fpath at = sw_fpath_key(&up, sw_slice_str(key));

    if (!sw_json_find(data, key))
        sw_ferr_required(e, &at, NULL);
}

/* A key that holds a JSON object. What it holds is secret: only what is wrong is told. */
static void need_json(const struct sw_json *data, const char *key, struct sw_field_errs *e)
{
    struct sw_slice text = sw_field_text(data, key);
    struct sw_fpath up = sw_fpath_str(NULL, "data");
    struct sw_fpath at = sw_fpath_key(&up, sw_slice_str(key));
    struct sw_json *v = NULL;
    struct sw_json_dups dups;
    const char *why = NULL;
    SW_BUF_AUTO b = {0};

    need_key(data, key, e);
    sw_buf_init(&b, text.n + 8);
    if (!sw_json_find(data, key) || sw_base64_decode(&b, text) != SW_OK)
        return;
    if (sw_json_parse(e->arena, sw_buf_slice(&b), &(struct sw_json_opts){.dups = &dups}, &v,
                      NULL) != SW_OK)
        why = sw_go_json_error(e->arena, sw_buf_slice(&b));
    else if (v->type != SW_JSON_OBJECT && v->type != SW_JSON_NULL)
        why =
            sw_arena_printf(e->arena,
                            "json: cannot unmarshal %s into Go value of type map[string]interface "
                            "{}",
                            v->type == SW_JSON_BOOL ? "bool" : sw_json_type_name(v->type));
    if (why)
        sw_ferr_invalid_str(e, &at, SW_SLICE_LIT("<secret contents redacted>"), why);
}

static void check_secret_type(const struct sw_json *obj, struct sw_field_errs *e)
{
    static const char account[] = "kubernetes.io/service-account.name";
    const struct sw_json *data = sw_json_find(obj, "data");
    const struct sw_json *notes = sw_json_walk(obj, "metadata", "annotations", NULL);
    struct sw_fpath at_notes = sw_fpath_str(NULL, "metadata.annotations");
    struct sw_fpath at = sw_fpath_key(&at_notes, sw_slice_str(account));

    if (sw_field_is(obj, "type", "kubernetes.io/service-account-token") &&
        !sw_field_text(notes, account).n)
        sw_ferr_required(e, &at, NULL);
    if (sw_field_is(obj, "type", "kubernetes.io/dockercfg"))
        need_json(data, ".dockercfg", e);
    if (sw_field_is(obj, "type", "kubernetes.io/dockerconfigjson"))
        need_json(data, ".dockerconfigjson", e);
    if (sw_field_is(obj, "type", "kubernetes.io/basic-auth") && !sw_json_find(data, "username") &&
        !sw_json_find(data, "password")) {
        need_key(data, "username", e);
        need_key(data, "password", e);
    }
    if (sw_field_is(obj, "type", "kubernetes.io/ssh-auth") &&
        !sw_field_text(data, "ssh-privatekey").n)
        need_key(NULL, "ssh-privatekey", e);
    if (sw_field_is(obj, "type", "kubernetes.io/tls")) {
        need_key(data, "tls.crt", e);
        need_key(data, "tls.key", e);
    }
}

static void check_secret(const struct sw_json *obj, const struct sw_json *old,
                         struct sw_field_errs *e)
{
    static const char *const fields[] = {"data", NULL};
    const struct sw_json *data = sw_json_find(obj, "data");
    struct sw_fpath at = sw_fpath_str(NULL, "data");

    if (old)
        immutable(obj, old, "type", e);
    check_frozen(obj, old, fields, e);
    (void)check_keys(data, "data", e);
    if (base64_bytes(data) > DATA_MAX)
        sw_ferr_too_long(e, &at, DATA_MAX);
    check_secret_type(obj, e);
}

/* ---- Lease ---- */

static void check_lease(const struct sw_json *obj, const struct sw_json *old,
                        struct sw_field_errs *e)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *d = sw_json_find(spec, "leaseDurationSeconds");
    const struct sw_json *t = sw_json_find(spec, "leaseTransitions");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at_d = sw_fpath_str(&path, "leaseDurationSeconds");
    struct sw_fpath at_t = sw_fpath_str(&path, "leaseTransitions");
    int64_t n;

    if (d && sw_json_exact_i64(d, &n) && n <= 0)
        sw_ferr_invalid(e, &at_d, d, "must be greater than 0");
    if (t && sw_json_exact_i64(t, &n) && n < 0)
        sw_ferr_invalid(e, &at_t, t, "must be greater than or equal to 0");
}

/* ---- finalizers ---- */

static void check_kube_finalizer(struct sw_slice f, const struct sw_fpath *at,
                                 struct sw_field_errs *e)
{
    static const char *const standard[] = {"kubernetes", "orphan", "foregroundDeletion"};
    bool known = !f.p || sw_slice_find(f, '/') >= 0;

    for (size_t k = 0; k < SW_ARRAY_LEN(standard); k++)
        known = known || sw_slice_eq_str(f, standard[k]);
    if (!known)
        sw_ferr_invalid_str(e, at, f,
                            "name is neither a standard finalizer name nor is it fully "
                            "qualified");
}

static void check_kube_finalizers(const struct sw_json *obj, struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_walk(obj, "metadata", "finalizers", NULL);
    struct sw_fpath up = sw_fpath_str(NULL, "metadata.finalizers");

    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check_kube_finalizer(sw_json_str(sw_json_at(list, i)), &at, e);
    }
}

/* ---- Namespace ---- */

static void check_namespace(const struct sw_json *obj, const struct sw_json *old,
                            struct sw_field_errs *e)
{
    const struct sw_json *phase = sw_json_walk(obj, "status", "phase", NULL);
    bool going = sw_json_walk(obj, "metadata", "deletionTimestamp", NULL);
    const struct sw_json *list = sw_json_walk(obj, "spec", "finalizers", NULL);
    struct sw_fpath at = sw_fpath_str(NULL, "status.Phase");
    struct sw_fpath at_list = sw_fpath_str(NULL, "spec.finalizers");

    for (size_t i = 0; i < sw_json_len(list); i++)
        check_kube_finalizer(sw_json_str(sw_json_at(list, i)), &at_list, e);
    if (!old)
        return;
    if (going && !sw_json_str_eq(phase, "Terminating"))
        sw_ferr_invalid(e, &at, phase ? phase : sw_json_new_str(e->arena, ""),
                        "may only be 'Terminating' if `deletionTimestamp` is not empty");
    else if (!going && !sw_json_str_eq(phase, "Active"))
        sw_ferr_invalid(e, &at, phase ? phase : sw_json_new_str(e->arena, ""),
                        "may only be 'Active' if `deletionTimestamp` is empty");
}

/* ---- admission ---- */

static void check_policy(const struct sw_json *obj, const struct sw_json *old,
                         struct sw_field_errs *e)
{
    (void)old;
    sw_policy_free(sw_policy_compile(obj, e));
}

static void check_policy_binding(const struct sw_json *obj, const struct sw_json *old,
                                 struct sw_field_errs *e)
{
    (void)old;
    sw_policy_binding_check(obj, e);
}

/* ---- all ---- */

void sw_builtin_validate(const struct sw_builtin *b, const struct sw_json *obj,
                         const struct sw_json *old, struct sw_field_errs *e)
{
    static const struct {
        const char *type;
        void (*check)(const struct sw_json *, const struct sw_json *, struct sw_field_errs *);
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
        {"ValidatingAdmissionPolicyBinding", check_policy_binding},
    };

    sw_meta_validate(obj, b->namespaced, b->name_check, e);
    if (old)
        sw_meta_validate_update(obj, old, e);
    if (b->flags & SW_B_KUBE_FINALIZERS)
        check_kube_finalizers(obj, e);
    for (size_t i = 0; i < SW_ARRAY_LEN(table); i++) {
        if (strcmp(b->type, table[i].type) == 0)
            table[i].check(obj, old, e);
    }
}
