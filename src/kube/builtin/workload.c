/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deployments, ReplicaSets, DaemonSets, StatefulSets and ReplicationControllers: kept for those who
 * run them somewhere else. Defaults and the rules between selector and template; nothing here makes
 * pods.
 */
#include <string.h>

#include "kube/builtin/builtin_int.h"
#include "kube/schema/meta.h"
#include "kube/select/selector.h"

struct sw_json *sw_b_object_in(struct sw_arena *a, struct sw_json *v, const char *key)
{
    struct sw_json *x = sw_json_find(v, key);

    if (!sw_json_is(x, SW_JSON_OBJECT)) {
        x = sw_json_new_object(a);
        sw_json_put(a, v, key, x);
    }
    return x;
}

void sw_b_def_number(struct sw_arena *a, struct sw_json *v, const char *key, int64_t n)
{
    if (!sw_json_find(v, key))
        sw_json_put(a, v, key, sw_json_new_i64(a, n));
}

void sw_b_def_str(struct sw_arena *a, struct sw_json *v, const char *key, const char *text)
{
    if (!sw_field_text(v, key).n)
        sw_json_put_str(a, v, key, sw_slice_str(text));
}

/* ---- defaults ---- */

/* What a template and its owner have in common. */
static struct sw_json *default_workload(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_b_object_in(a, obj, "spec");

    sw_b_default_pod_spec(a, sw_b_object_in(a, sw_b_object_in(a, spec, "template"), "spec"));
    (void)sw_b_object_in(a, obj, "status");
    return spec;
}

/* "RollingUpdate" with how far it may go, unless another strategy is named. */
static void default_strategy(struct sw_arena *a, struct sw_json *strategy,
                             const struct sw_json *surge, const struct sw_json *unavailable)
{
    struct sw_json *roll;

    if (!sw_field_text(strategy, "type").n)
        sw_json_put_str(a, strategy, "type", SW_SLICE_LIT("RollingUpdate"));
    if (!sw_field_is(strategy, "type", "RollingUpdate"))
        return;
    roll = sw_b_object_in(a, strategy, "rollingUpdate");
    if (!sw_json_find(roll, "maxSurge"))
        sw_json_put(a, roll, "maxSurge", sw_json_copy(a, surge));
    if (!sw_json_find(roll, "maxUnavailable"))
        sw_json_put(a, roll, "maxUnavailable", sw_json_copy(a, unavailable));
}

void sw_b_default_deployment(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = default_workload(a, obj);
    const struct sw_json *quarter = sw_json_new_str(a, "25%");

    sw_b_def_number(a, spec, "replicas", 1);
    sw_b_def_number(a, spec, "revisionHistoryLimit", 10);
    sw_b_def_number(a, spec, "progressDeadlineSeconds", 600);
    default_strategy(a, sw_b_object_in(a, spec, "strategy"), quarter, quarter);
}

void sw_b_default_replica_set(struct sw_arena *a, struct sw_json *obj)
{
    sw_b_def_number(a, default_workload(a, obj), "replicas", 1);
}

void sw_b_default_daemon_set(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = default_workload(a, obj);

    sw_b_def_number(a, spec, "revisionHistoryLimit", 10);
    default_strategy(a, sw_b_object_in(a, spec, "updateStrategy"), sw_json_new_i64(a, 0),
                     sw_json_new_i64(a, 1));
}

void sw_b_default_stateful_set(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = default_workload(a, obj);
    struct sw_json *strategy = sw_b_object_in(a, spec, "updateStrategy");
    const struct sw_json *claims = sw_json_find(spec, "volumeClaimTemplates");
    struct sw_json *keep = sw_b_object_in(a, spec, "persistentVolumeClaimRetentionPolicy");

    sw_b_def_str(a, spec, "podManagementPolicy", "OrderedReady");
    if (!sw_field_text(strategy, "type").n) {
        sw_b_def_str(a, strategy, "type", "RollingUpdate");
        (void)sw_b_object_in(a, strategy, "rollingUpdate");
    }
    if (sw_field_is(strategy, "type", "RollingUpdate") && sw_json_find(strategy, "rollingUpdate"))
        sw_b_def_number(a, sw_json_find(strategy, "rollingUpdate"), "partition", 0);
    sw_b_def_str(a, keep, "whenDeleted", "Retain");
    sw_b_def_str(a, keep, "whenScaled", "Retain");
    for (size_t i = 0; i < sw_json_len(claims); i++) {
        sw_b_def_str(a, sw_json_at(claims, i), "apiVersion", "v1");
        sw_b_def_str(a, sw_json_at(claims, i), "kind", "PersistentVolumeClaim");
        sw_b_default_claim(a, sw_json_at(claims, i));
    }
    sw_b_def_number(a, spec, "replicas", 1);
    sw_b_def_number(a, spec, "revisionHistoryLimit", 10);
}

/* The labels of the template are those of the object and its selector, unless it has its own. */
void sw_b_default_replication_controller(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_b_object_in(a, obj, "spec");
    struct sw_json *template = sw_json_find(spec, "template");
    const struct sw_json *labels = sw_json_walk(template, "metadata", "labels", NULL);
    struct sw_json *meta = sw_b_object_in(a, obj, "metadata");

    sw_b_def_number(a, spec, "replicas", 1);
    (void)sw_b_object_in(a, obj, "status");
    if (!sw_json_is(template, SW_JSON_OBJECT))
        return;
    sw_b_default_pod_spec(a, sw_b_object_in(a, template, "spec"));
    if (sw_json_len(labels) && !sw_json_len(sw_json_find(spec, "selector")))
        sw_json_put(a, spec, "selector", sw_json_copy(a, labels));
    if (sw_json_len(labels) && !sw_json_len(sw_json_find(meta, "labels")))
        sw_json_put(a, meta, "labels", sw_json_copy(a, labels));
}

/* ---- validation ---- */

void sw_b_check_count(const struct sw_json *v, const char *key, const struct sw_fpath *path,
                      struct sw_field_errs *e)
{
    struct sw_fpath at = sw_fpath_str(path, key);

    if (sw_field_int(v, key) < 0)
        sw_ferr_invalid(e, &at, sw_json_find(v, key), "must be greater than or equal to 0");
}

static void check_count(const struct sw_json *spec, const char *key, struct sw_field_errs *e)
{
    struct sw_fpath path = sw_fpath_str(NULL, "spec");

    sw_b_check_count(spec, key, &path, e);
}

/* The selector must select what the template makes; an empty one would take every pod there is. */
static void check_selector(const struct sw_json *spec, const char *what, struct sw_field_errs *e)
{
    const struct sw_json *selector = sw_json_find(spec, "selector");
    const struct sw_json *labels = sw_json_walk(spec, "template", "metadata", "labels", NULL);
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at = sw_fpath_str(&path, "selector");
    struct sw_fpath at_template = sw_fpath_str(&path, "template");
    struct sw_fpath at_meta = sw_fpath_str(&at_template, "metadata");
    struct sw_fpath at_labels = sw_fpath_str(&at_meta, "labels");
    struct sw_label_selector parsed;
    const char *why = NULL;

    if (!sw_json_is(selector, SW_JSON_OBJECT)) {
        sw_ferr_required(e, &at, NULL);
        return;
    }
    if (sw_label_selector_from_json(e->arena, selector, &parsed, &why) != SW_OK) {
        sw_ferr_invalid(e, &at, selector, why);
        return;
    }
    if (parsed.n == 0)
        sw_ferr_invalid(e, &at, selector,
                        sw_arena_printf(e->arena, "empty selector is invalid for %s", what));
    else if (!sw_label_selector_match(&parsed, labels))
        sw_ferr_invalid(e, &at_labels, labels ? labels : sw_json_new_object(e->arena),
                        "`selector` does not match template `labels`");
}

void sw_b_check_template(const struct sw_json *v, const struct sw_fpath *path,
                         struct sw_field_errs *e)
{
    const struct sw_json *template = sw_json_find(v, "template");
    struct sw_fpath at_template = sw_fpath_str(path, "template");
    struct sw_fpath at_meta = sw_fpath_str(&at_template, "metadata");
    struct sw_fpath at_labels = sw_fpath_str(&at_meta, "labels");
    struct sw_fpath at_spec = sw_fpath_str(&at_template, "spec");

    sw_labels_validate(sw_json_walk(template, "metadata", "labels", NULL), &at_labels, e);
    sw_b_check_pod_spec(sw_json_find(template, "spec"), &at_spec, e);
}

/* A template whose pods are started again for ever. */
static void check_template(const struct sw_json *spec, struct sw_field_errs *e)
{
    static const char *const restarts[] = {"Always", NULL};
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at = sw_fpath_str(&path, "template.spec.restartPolicy");

    sw_b_check_template(spec, &path, e);
    sw_field_one_of(sw_json_walk(spec, "template", "spec", "restartPolicy", NULL), restarts, &at,
                    e);
}

static void check_workload(const struct sw_json *obj, const struct sw_json *old, const char *what,
                           struct sw_field_errs *e)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *selector = sw_json_find(spec, "selector");
    const struct sw_json *was = sw_json_find(old, "spec");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at = sw_fpath_str(&path, "selector");

    /* A stored spec that stays is not judged again. */
    if (old && sw_json_equal(spec, was, SW_JSON_EQ_VALUE))
        return;
    check_count(spec, "replicas", e);
    check_count(spec, "minReadySeconds", e);
    check_count(spec, "revisionHistoryLimit", e);
    check_selector(spec, what, e);
    check_template(spec, e);
    if (old && !sw_json_equal(selector, sw_json_find(was, "selector"), SW_JSON_EQ_VALUE))
        sw_ferr_invalid(e, &at, selector, "field is immutable");
}

static void check_strategy(const struct sw_json *spec, const char *key, const char *other,
                           struct sw_field_errs *e)
{
    const char *const types[] = {other, "RollingUpdate", NULL};
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at = sw_fpath_str(&path, key);
    struct sw_fpath at_type = sw_fpath_str(&at, "type");

    sw_field_one_of(sw_json_walk(spec, key, "type", NULL), types, &at_type, e);
}

void sw_b_check_deployment(const struct sw_json *obj, const struct sw_json *old,
                           struct sw_field_errs *e)
{
    check_workload(obj, old, "deployment", e);
    check_strategy(sw_json_find(obj, "spec"), "strategy", "Recreate", e);
}

void sw_b_check_replica_set(const struct sw_json *obj, const struct sw_json *old,
                            struct sw_field_errs *e)
{
    check_workload(obj, old, "replicaset", e);
}

void sw_b_check_daemon_set(const struct sw_json *obj, const struct sw_json *old,
                           struct sw_field_errs *e)
{
    check_workload(obj, old, "daemonset", e);
    check_strategy(sw_json_find(obj, "spec"), "updateStrategy", "OnDelete", e);
}

/* All of a StatefulSet's spec but these stays as it was made. */
static bool only_allowed_changes(const struct sw_json *spec, const struct sw_json *was)
{
    static const char *const free_fields[] = {"replicas",
                                              "ordinals",
                                              "template",
                                              "updateStrategy",
                                              "revisionHistoryLimit",
                                              "persistentVolumeClaimRetentionPolicy",
                                              "minReadySeconds"};
    const struct sw_json *pair[2] = {spec, was};

    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < sw_json_len(pair[side]); i++) {
            const struct sw_json_member *m = sw_json_member_at(pair[side], i);
            bool may = false;

            for (size_t k = 0; k < SW_ARRAY_LEN(free_fields); k++)
                may = may || sw_slice_eq_str(m->key, free_fields[k]);
            if (!may &&
                !sw_json_equal(m->value, sw_json_get(pair[1 - side], m->key), SW_JSON_EQ_VALUE))
                return false;
        }
    }
    return true;
}

void sw_b_check_stateful_set(const struct sw_json *obj, const struct sw_json *old,
                             struct sw_field_errs *e)
{
    static const char *const policies[] = {"OrderedReady", "Parallel", NULL};
    const struct sw_json *spec = sw_json_find(obj, "spec");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at_policy = sw_fpath_str(&path, "podManagementPolicy");

    sw_field_one_of(sw_json_find(spec, "podManagementPolicy"), policies, &at_policy, e);
    check_strategy(spec, "updateStrategy", "OnDelete", e);
    if (old && !only_allowed_changes(spec, sw_json_find(old, "spec"))) {
        sw_ferr_forbidden(e, &path,
                          "updates to statefulset spec for fields other than 'replicas', "
                          "'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "
                          "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are "
                          "forbidden");
        return;
    }
    check_workload(obj, old, "statefulset", e);
}

void sw_b_check_replication_controller(const struct sw_json *obj, const struct sw_json *old,
                                       struct sw_field_errs *e)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *selector = sw_json_find(spec, "selector");
    const struct sw_json *labels = sw_json_walk(spec, "template", "metadata", "labels", NULL);
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at_selector = sw_fpath_str(&path, "selector");
    struct sw_fpath at_template = sw_fpath_str(&path, "template");
    struct sw_fpath at_labels = sw_fpath_str(&at_template, "metadata.labels");
    bool fits = true;

    if (old && sw_json_equal(spec, sw_json_find(old, "spec"), SW_JSON_EQ_VALUE))
        return;
    check_count(spec, "minReadySeconds", e);
    if (!sw_json_len(selector))
        sw_ferr_required(e, &at_selector, NULL);
    check_count(spec, "replicas", e);
    if (!sw_json_is(sw_json_find(spec, "template"), SW_JSON_OBJECT)) {
        sw_ferr_required(e, &at_template, NULL);
        return;
    }
    for (size_t i = 0; i < sw_json_len(selector); i++) {
        const struct sw_json_member *m = sw_json_member_at(selector, i);

        fits = fits && sw_json_equal(m->value, sw_json_get(labels, m->key), SW_JSON_EQ_VALUE);
    }
    if (!fits)
        sw_ferr_invalid(e, &at_labels, labels ? labels : sw_json_new_object(e->arena),
                        "`selector` does not match template `labels`");
    check_template(spec, e);
}
