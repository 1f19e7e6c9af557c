/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of built-in kinds beyond their types. */
#include "base/base64.h"
#include "kube/builtin_int.h"
#include "kube/text.h"

enum { DATA_MAX = 1 << 20 };

void sw_b_one_of(const struct sw_json *v, const char *const *allowed, const struct sw_fpath *at,
                 struct sw_field_errs *e)
{
    for (size_t i = 0; allowed[i]; i++) {
        if (sw_json_str_eq(v, allowed[i]))
            return;
    }
    sw_ferr_unsupported(e, at, v ? v : sw_json_new_str(e->arena, ""), allowed);
}

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
    struct sw_slice text = sw_b_text(data, key);
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

    if (sw_b_is(obj, "type", "kubernetes.io/service-account-token") && !sw_b_text(notes, account).n)
        sw_ferr_required(e, &at, NULL);
    if (sw_b_is(obj, "type", "kubernetes.io/dockercfg"))
        need_json(data, ".dockercfg", e);
    if (sw_b_is(obj, "type", "kubernetes.io/dockerconfigjson"))
        need_json(data, ".dockerconfigjson", e);
    if (sw_b_is(obj, "type", "kubernetes.io/basic-auth") && !sw_json_find(data, "username") &&
        !sw_json_find(data, "password")) {
        need_key(data, "username", e);
        need_key(data, "password", e);
    }
    if (sw_b_is(obj, "type", "kubernetes.io/ssh-auth") && !sw_b_text(data, "ssh-privatekey").n)
        need_key(NULL, "ssh-privatekey", e);
    if (sw_b_is(obj, "type", "kubernetes.io/tls")) {
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

/* ---- RBAC ---- */

static void check_rule(const struct sw_json *r, bool namespaced, const struct sw_fpath *path,
                       struct sw_field_errs *e)
{
    struct sw_fpath at_verbs = sw_fpath_str(path, "verbs");
    struct sw_fpath at_groups = sw_fpath_str(path, "apiGroups");
    struct sw_fpath at_res = sw_fpath_str(path, "resources");
    struct sw_fpath at_urls = sw_fpath_str(path, "nonResourceURLs");
    const struct sw_json *urls = sw_json_find(r, "nonResourceURLs");

    if (!sw_json_len(sw_json_find(r, "verbs")))
        sw_ferr_required(e, &at_verbs, "verbs must contain at least one value");
    if (sw_json_len(urls)) {
        if (namespaced)
            sw_b_invalid_go(e, &at_urls, sw_b_go_list(e->arena, urls, "string"),
                            "namespaced rules cannot apply to non-resource URLs");
        if (sw_json_len(sw_json_find(r, "apiGroups")) ||
            sw_json_len(sw_json_find(r, "resources")) ||
            sw_json_len(sw_json_find(r, "resourceNames")))
            sw_b_invalid_go(e, &at_urls, sw_b_go_list(e->arena, urls, "string"),
                            "rules cannot apply to both regular resources and non-resource URLs");
        return;
    }
    if (!sw_json_len(sw_json_find(r, "apiGroups")))
        sw_ferr_required(e, &at_groups, "resource rules must supply at least one api group");
    if (!sw_json_len(sw_json_find(r, "resources")))
        sw_ferr_required(e, &at_res, "resource rules must supply at least one resource");
}

static void check_selector_term(const struct sw_json *t, const struct sw_fpath *path,
                                struct sw_field_errs *e)
{
    const struct sw_json *values = sw_json_find(t, "values");
    struct sw_slice key = sw_b_text(t, "key");
    struct sw_fpath at_key = sw_fpath_str(path, "key");
    struct sw_fpath at_op = sw_fpath_str(path, "operator");
    struct sw_fpath at_values = sw_fpath_str(path, "values");

    if (sw_b_is(t, "operator", "In") || sw_b_is(t, "operator", "NotIn")) {
        if (!sw_json_len(values))
            sw_ferr_required(e, &at_values, "must be specified when `operator` is 'In' or 'NotIn'");
    } else if (sw_b_is(t, "operator", "Exists") || sw_b_is(t, "operator", "DoesNotExist")) {
        if (sw_json_len(values))
            sw_ferr_forbidden(e, &at_values,
                              "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
    } else {
        sw_ferr_invalid_str(e, &at_op, sw_b_text(t, "operator"), "not a valid selector operator");
    }
    sw_name_report(e, &at_key, key, sw_name_label_key(key));
    for (size_t i = 0; i < sw_json_len(values); i++) {
        struct sw_fpath at = sw_fpath_index(&at_values, i);
        struct sw_slice v = sw_json_str(sw_json_at(values, i));

        sw_name_report(e, &at, v, sw_name_label_value(v));
    }
}

static void check_aggregation(const struct sw_json *rule, struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_find(rule, "clusterRoleSelectors");
    struct sw_fpath up = sw_fpath_str(NULL, "aggregationRule.clusterRoleSelectors");

    if (rule && !sw_json_len(list))
        sw_ferr_required(e, &up,
                         "at least one clusterRoleSelector required if aggregationRule is non-nil");
    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *terms = sw_json_find(sw_json_at(list, i), "matchExpressions");
        struct sw_fpath item = sw_fpath_index(&up, i);
        struct sw_fpath at_labels = sw_fpath_str(&item, "matchLabels");
        struct sw_fpath at_terms = sw_fpath_str(&item, "matchExpressions");

        sw_labels_validate(sw_json_find(sw_json_at(list, i), "matchLabels"), &at_labels, e);
        for (size_t k = 0; k < sw_json_len(terms); k++) {
            struct sw_fpath at = sw_fpath_index(&at_terms, k);

            check_selector_term(sw_json_at(terms, k), &at, e);
        }
    }
}

static void check_role(const struct sw_json *obj, const struct sw_json *old,
                       struct sw_field_errs *e)
{
    const struct sw_json *rules = sw_json_find(obj, "rules");
    struct sw_fpath up = sw_fpath_str(NULL, "rules");
    bool namespaced = sw_b_text(sw_json_find(obj, "metadata"), "namespace").n;

    for (size_t i = 0; i < sw_json_len(rules); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check_rule(sw_json_at(rules, i), namespaced, &at, e);
    }
    check_aggregation(sw_json_find(obj, "aggregationRule"), e);
}

static const char *const rbac_group[] = {"rbac.authorization.k8s.io", NULL};

static void check_person(const struct sw_json *s, const struct sw_fpath *path,
                         struct sw_field_errs *e)
{
    struct sw_fpath at_name = sw_fpath_str(path, "name");
    struct sw_fpath at_group = sw_fpath_str(path, "apiGroup");

    if (!sw_b_text(s, "name").n)
        sw_ferr_invalid_str(e, &at_name, sw_slice("", 0),
                            sw_b_is(s, "kind", "User") ? "user name cannot be empty"
                                                       : "group name cannot be empty");
    sw_b_one_of(sw_json_find(s, "apiGroup"), rbac_group, &at_group, e);
}

static void check_subject(const struct sw_json *s, bool namespaced, const struct sw_fpath *path,
                          struct sw_field_errs *e)
{
    static const char *const known[] = {"ServiceAccount", "User", "Group", NULL};
    static const char *const core[] = {"", NULL};
    const struct sw_json *kind = sw_json_find(s, "kind");
    struct sw_fpath at_name = sw_fpath_str(path, "name");
    struct sw_fpath at_kind = sw_fpath_str(path, "kind");
    struct sw_fpath at_ns = sw_fpath_str(path, "namespace");
    struct sw_fpath at_group = sw_fpath_str(path, "apiGroup");
    struct sw_slice name = sw_b_text(s, "name");

    if (!name.n)
        sw_ferr_required(e, &at_name, NULL);
    if (!sw_json_str_eq(kind, "ServiceAccount")) {
        if (sw_json_str_eq(kind, "User") || sw_json_str_eq(kind, "Group"))
            check_person(s, path, e);
        else
            sw_b_one_of(kind, known, &at_kind, e);
        return;
    }
    if (name.n)
        sw_name_report(e, &at_name, name, sw_name_dns1123_subdomain(name));
    if (sw_b_text(s, "apiGroup").n)
        sw_ferr_unsupported(e, &at_group, sw_json_find(s, "apiGroup"), core);
    if (!namespaced && !sw_b_text(s, "namespace").n)
        sw_ferr_required(e, &at_ns, NULL);
}

static const char *go_role_ref(struct sw_arena *a, const struct sw_json *ref)
{
    return sw_arena_printf(a, "rbac.RoleRef{APIGroup:%s, Kind:%s, Name:%s}",
                           sw_go_quote(a, sw_b_text(ref, "apiGroup")),
                           sw_go_quote(a, sw_b_text(ref, "kind")),
                           sw_go_quote(a, sw_b_text(ref, "name")));
}

static void check_binding(const struct sw_json *obj, const struct sw_json *old,
                          struct sw_field_errs *e)
{
    static const char *const role_kinds[] = {"Role", "ClusterRole", NULL};
    const struct sw_json *ref = sw_json_find(obj, "roleRef");
    const struct sw_json *subjects = sw_json_find(obj, "subjects");
    bool namespaced = sw_b_text(sw_json_find(obj, "metadata"), "namespace").n;
    struct sw_fpath at_ref = sw_fpath_str(NULL, "roleRef");
    struct sw_fpath at_group = sw_fpath_str(&at_ref, "apiGroup");
    struct sw_fpath at_name = sw_fpath_str(&at_ref, "name");
    struct sw_fpath at_kind = sw_fpath_str(&at_ref, "kind");
    struct sw_fpath up = sw_fpath_str(NULL, "subjects");

    sw_b_one_of(sw_json_find(ref, "apiGroup"), rbac_group, &at_group, e);
    sw_b_one_of(sw_json_find(ref, "kind"), namespaced ? role_kinds : role_kinds + 1, &at_kind, e);
    if (!sw_b_text(ref, "name").n)
        sw_ferr_required(e, &at_name, NULL);
    else
        sw_name_report(e, &at_name, sw_b_text(ref, "name"),
                       sw_name_path_segment(sw_b_text(ref, "name")));
    for (size_t i = 0; i < sw_json_len(subjects); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check_subject(sw_json_at(subjects, i), namespaced, &at, e);
    }
    if (old && !sw_json_equal(ref, sw_json_find(old, "roleRef"), SW_JSON_EQ_VALUE))
        sw_b_invalid_go(e, &at_ref, go_role_ref(e->arena, ref), "cannot change roleRef");
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

/* ---- all ---- */

/* ---- events ---- */

static void event_text(const struct sw_json *obj, const char *key, struct sw_field_errs *e)
{
    struct sw_slice v = sw_b_text(obj, key);
    struct sw_fpath at = sw_fpath_str(NULL, key);

    if (!v.n)
        sw_ferr_required(e, &at, NULL);
    else if (v.n > 128)
        sw_ferr_invalid_str(e, &at, sw_slice("", 0), "can have at most 128 characters");
}

/* An event lives where its object does; one about the cluster lives in two known places. */
static void check_event_namespace(const struct sw_json *obj, const char *about, bool timed,
                                  struct sw_field_errs *e)
{
    struct sw_slice ns = sw_json_str(sw_json_walk(obj, "metadata", "namespace", NULL));
    struct sw_slice other = sw_json_str(sw_json_walk(obj, about, "namespace", NULL));
    struct sw_fpath up = sw_fpath_str(NULL, "involvedObject");
    struct sw_fpath at = sw_fpath_str(&up, "namespace");
    bool ok;

    if (other.n)
        ok = timed || sw_slice_eq(other, ns);
    else
        ok = sw_slice_eq_str(ns, "default") || (timed && sw_slice_eq_str(ns, "kube-system"));
    if (!ok)
        sw_ferr_invalid_str(e, &at, other.p ? other : sw_slice("", 0),
                            "does not match event.namespace");
}

/* What both shapes have to obey; their names differ, those in the errors do not. */
static void check_any_event(const struct sw_json *obj, bool core, struct sw_field_errs *e)
{
    struct sw_slice by = sw_b_text(obj, core ? "reportingComponent" : "reportingController");
    struct sw_fpath at = sw_fpath_str(NULL, "reportingController");
    bool timed = sw_b_text(obj, "eventTime").n;

    check_event_namespace(obj, core ? "involvedObject" : "regarding", timed, e);
    if (!timed)
        return;
    if (!by.n)
        sw_ferr_required(e, &at, NULL);
    sw_name_report(e, &at, by, sw_name_label_key(by));
    event_text(obj, "reportingInstance", e);
    event_text(obj, "action", e);
    event_text(obj, "reason", e);
    at = sw_fpath_str(NULL, "message");
    if (sw_b_text(obj, core ? "message" : "note").n > 1024)
        sw_ferr_invalid_str(e, &at, sw_slice("", 0), "can have at most 1024 characters");
}

static void check_event(const struct sw_json *obj, const struct sw_json *old,
                        struct sw_field_errs *e)
{
    check_any_event(obj, true, e);
}

static void check_series(const struct sw_json *obj, struct sw_field_errs *e)
{
    const struct sw_json *series = sw_json_find(obj, "series");
    struct sw_fpath at = sw_fpath_str(NULL, "series.count");

    if (!series)
        return;
    if (sw_b_int(series, "count") < 2)
        sw_ferr_invalid_str(e, &at, sw_slice("", 0), "should be at least 2");
    at = sw_fpath_str(NULL, "series.lastObservedTime");
    if (!sw_b_text(series, "lastObservedTime").n)
        sw_ferr_required(e, &at, NULL);
}

/* Names of this shape, and those the errors use. */
static const char *const event_v1_fields[][2] = {
    {"regarding", "involvedObject"},
    {"reason", "reason"},
    {"note", "message"},
    {"deprecatedSource", "source"},
    {"deprecatedFirstTimestamp", "firstTimestamp"},
    {"deprecatedLastTimestamp", "lastTimestamp"},
    {"deprecatedCount", "count"},
    {"type", "type"},
    {"eventTime", "eventTime"},
    {"action", "action"},
    {"related", "related"},
    {"reportingController", "reportingController"},
    {"reportingInstance", "reportingInstance"},
};

static void check_event_v1_change(const struct sw_json *obj, const struct sw_json *old,
                                  struct sw_field_errs *e)
{
    if (!sw_json_equal(sw_json_find(obj, "series"), sw_json_find(old, "series"), SW_JSON_EQ_VALUE))
        check_series(obj, e);
    for (size_t i = 0; i < SW_ARRAY_LEN(event_v1_fields); i++) {
        const struct sw_json *now = sw_json_find(obj, event_v1_fields[i][0]);
        struct sw_fpath at = sw_fpath_str(NULL, event_v1_fields[i][1]);

        if (!sw_json_equal(now, sw_json_find(old, event_v1_fields[i][0]), SW_JSON_EQ_VALUE))
            sw_ferr_invalid(e, &at, now, "field is immutable");
    }
}

static void check_event_v1(const struct sw_json *obj, const struct sw_json *old,
                           struct sw_field_errs *e)
{
    /* Only the older shape may have these. */
    static const size_t unset[] = {4, 5, 6};
    struct sw_slice type = sw_b_text(obj, "type");
    const struct sw_json *source = sw_json_find(obj, "deprecatedSource");
    struct sw_fpath at = sw_fpath_str(NULL, "eventTime");

    check_any_event(obj, false, e);
    if (old) {
        check_event_v1_change(obj, old, e);
        return;
    }
    check_series(obj, e);
    if (!sw_b_text(obj, "eventTime").n)
        sw_ferr_required(e, &at, NULL);
    at = sw_fpath_str(NULL, "type");
    if (!sw_slice_eq_str(type, "Normal") && !sw_slice_eq_str(type, "Warning"))
        sw_ferr_invalid_str(
            e, &at, sw_slice("", 0),
            sw_arena_printf(e->arena, "has invalid value: %.*s", SW_SLICE_ARG(type)));
    for (size_t i = 0; i < SW_ARRAY_LEN(unset); i++) {
        const struct sw_json *v = sw_json_find(obj, event_v1_fields[unset[i]][0]);

        at = sw_fpath_str(NULL, event_v1_fields[unset[i]][1]);
        if (v && v->type != SW_JSON_NULL)
            sw_ferr_invalid_str(e, &at, sw_slice("", 0), "needs to be unset");
    }
    at = sw_fpath_str(NULL, "source");
    if (sw_b_text(source, "component").n || sw_b_text(source, "host").n)
        sw_ferr_invalid_str(e, &at, sw_slice("", 0), "needs to be unset");
}

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
        {"ConfigMap", check_config_map},
        {"Secret", check_secret},
        {"Service", sw_b_check_service},
        {"Lease", check_lease},
        {"Endpoints", sw_b_check_endpoints},
        {"EndpointSlice", sw_b_check_endpoint_slice},
        {"Ingress", sw_b_check_ingress},
        {"IngressClass", sw_b_check_ingress_class},
        {"Event", check_event},
        {"EventV1", check_event_v1},
        {"Role", check_role},
        {"ClusterRole", check_role},
        {"RoleBinding", check_binding},
        {"ClusterRoleBinding", check_binding},
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
