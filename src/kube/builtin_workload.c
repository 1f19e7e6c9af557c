/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deployments, ReplicaSets and DaemonSets: kept for those who run them somewhere else. Defaults and
 * the rules between selector and template; nothing here makes pods.
 */
#include <string.h>

#include "kube/builtin_int.h"
#include "kube/selector.h"

static struct sw_json *object_in(struct sw_arena *a, struct sw_json *v, const char *key)
{
    struct sw_json *x = sw_json_find(v, key);

    if (!sw_json_is(x, SW_JSON_OBJECT)) {
        x = sw_json_new_object(a);
        sw_json_put(a, v, key, x);
    }
    return x;
}

static void def_number(struct sw_arena *a, struct sw_json *v, const char *key, int64_t n)
{
    if (!sw_json_find(v, key))
        sw_json_put(a, v, key, sw_json_new_i64(a, n));
}

/* ---- defaults ---- */

/* What a template and its owner have in common. */
static struct sw_json *default_workload(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = object_in(a, obj, "spec");

    sw_b_default_pod_spec(a, object_in(a, object_in(a, spec, "template"), "spec"));
    (void)object_in(a, obj, "status");
    return spec;
}

/* "RollingUpdate" with how far it may go, unless another strategy is named. */
static void default_strategy(struct sw_arena *a, struct sw_json *strategy,
                             const struct sw_json *surge, const struct sw_json *unavailable)
{
    struct sw_json *roll;

    if (!sw_b_text(strategy, "type").n)
        sw_json_put_str(a, strategy, "type", SW_SLICE_LIT("RollingUpdate"));
    if (!sw_b_is(strategy, "type", "RollingUpdate"))
        return;
    roll = object_in(a, strategy, "rollingUpdate");
    if (!sw_json_find(roll, "maxSurge"))
        sw_json_put(a, roll, "maxSurge", sw_json_copy(a, surge));
    if (!sw_json_find(roll, "maxUnavailable"))
        sw_json_put(a, roll, "maxUnavailable", sw_json_copy(a, unavailable));
}

void sw_b_default_deployment(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = default_workload(a, obj);
    const struct sw_json *quarter = sw_json_new_str(a, "25%");

    def_number(a, spec, "replicas", 1);
    def_number(a, spec, "revisionHistoryLimit", 10);
    def_number(a, spec, "progressDeadlineSeconds", 600);
    default_strategy(a, object_in(a, spec, "strategy"), quarter, quarter);
}

void sw_b_default_replica_set(struct sw_arena *a, struct sw_json *obj)
{
    def_number(a, default_workload(a, obj), "replicas", 1);
}

void sw_b_default_daemon_set(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = default_workload(a, obj);

    def_number(a, spec, "revisionHistoryLimit", 10);
    default_strategy(a, object_in(a, spec, "updateStrategy"), sw_json_new_i64(a, 0),
                     sw_json_new_i64(a, 1));
}

/* ---- validation ---- */

static void check_count(const struct sw_json *spec, const char *key, struct sw_field_errs *e)
{
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at = sw_fpath_str(&path, key);

    if (sw_b_int(spec, key) < 0)
        sw_ferr_invalid(e, &at, sw_json_find(spec, key), "must be greater than or equal to 0");
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

static void check_template(const struct sw_json *spec, struct sw_field_errs *e)
{
    static const char *const restarts[] = {"Always", NULL};
    const struct sw_json *template = sw_json_find(spec, "template");
    const struct sw_json *pod = sw_json_find(template, "spec");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at_template = sw_fpath_str(&path, "template");
    struct sw_fpath at_meta = sw_fpath_str(&at_template, "metadata");
    struct sw_fpath at_labels = sw_fpath_str(&at_meta, "labels");
    struct sw_fpath at_spec = sw_fpath_str(&at_template, "spec");
    struct sw_fpath at_restart = sw_fpath_str(&at_spec, "restartPolicy");

    sw_labels_validate(sw_json_walk(template, "metadata", "labels", NULL), &at_labels, e);
    sw_b_check_pod_spec(pod, &at_spec, e);
    sw_b_one_of(sw_json_find(pod, "restartPolicy"), restarts, &at_restart, e);
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

    sw_b_one_of(sw_json_walk(spec, key, "type", NULL), types, &at_type, e);
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
