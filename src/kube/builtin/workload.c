/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deployments, ReplicaSets, DaemonSets, StatefulSets and ReplicationControllers: stored for
 * controllers elsewhere. Defaults and the rules between selector and template; nothing here makes
 * pods.
 */
#include <string.h>

#include "kube/builtin/builtin_int.h"
#include "kube/schema/meta.h"
#include "kube/select/selector.h"

/* ---- defaults ---- */

/* What a template and its owner have in common. */
void sw_b_default_workload(struct sw_arena *a, struct sw_json *obj)
{
    sw_b_defaults(a, obj, "spec!.template!.spec={}");
    sw_b_default_pod_spec(a, sw_json_walk(obj, "spec", "template", "spec", NULL));
    sw_b_defaults(a, obj, "status={}");
}

/* The spec of a workload. */
static struct sw_json *default_workload(struct sw_arena *a, struct sw_json *obj)
{
    sw_b_default_workload(a, obj);
    return sw_json_find(obj, "spec");
}

/* "RollingUpdate" with how far it may go, unless another strategy is named. */
static void default_strategy(struct sw_arena *a, struct sw_json *spec, const char *key,
                             const char *bounds)
{
    struct sw_json *strategy = sw_b_object_in(a, spec, key);

    sw_b_defaults(a, strategy, "type=RollingUpdate");
    if (sw_field_is(strategy, "type", "RollingUpdate"))
        sw_b_defaults(a, strategy, bounds);
}

void sw_b_default_deployment(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = default_workload(a, obj);

    sw_b_defaults(a, spec, "replicas=1 revisionHistoryLimit=10 progressDeadlineSeconds=600");
    default_strategy(a, spec, "strategy",
                     "rollingUpdate!.maxSurge=25% rollingUpdate.maxUnavailable=25%");
}

void sw_b_default_daemon_set(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = default_workload(a, obj);

    sw_b_defaults(a, spec, "revisionHistoryLimit=10");
    default_strategy(a, spec, "updateStrategy",
                     "rollingUpdate!.maxSurge=0 rollingUpdate.maxUnavailable=1");
}

void sw_b_default_stateful_set(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = default_workload(a, obj);
    struct sw_json *strategy = sw_b_object_in(a, spec, "updateStrategy");

    (void)sw_b_object_in(a, spec, "persistentVolumeClaimRetentionPolicy");
    sw_b_defaults(a, spec, "podManagementPolicy=OrderedReady");
    if (!sw_field_text(strategy, "type").n)
        sw_b_defaults(a, strategy, "type=RollingUpdate rollingUpdate={}");
    if (sw_field_is(strategy, "type", "RollingUpdate"))
        sw_b_defaults(a, strategy, "rollingUpdate.partition=0");
    sw_b_defaults(a, spec,
                  "persistentVolumeClaimRetentionPolicy.whenDeleted=Retain "
                  "persistentVolumeClaimRetentionPolicy.whenScaled=Retain "
                  "volumeClaimTemplates[].apiVersion=v1 "
                  "volumeClaimTemplates[].kind=PersistentVolumeClaim " SW_B_CLAIM_DEFAULTS(
                      "volumeClaimTemplates[].") " replicas=1 revisionHistoryLimit=10");
}

/* The labels of the template are those of the object and its selector, unless it has its own. */
void sw_b_default_replication_controller(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_b_object_in(a, obj, "spec");
    struct sw_json *template = sw_json_find(spec, "template");
    const struct sw_json *labels = sw_json_walk(template, "metadata", "labels", NULL);
    struct sw_json *meta = sw_b_object_in(a, obj, "metadata");

    sw_b_defaults(a, spec, "replicas=1");
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

void sw_b_check_counts(const struct sw_at *at, const char *keys)
{
    struct sw_slice rest = sw_slice_str(keys);

    while (rest.p)
        sw_at_count(SW_IN(at, sw_arena_dup(at->e->arena, sw_slice_cut(&rest, ' '))));
}

/* The labels of a template, shown as an empty object when there are none. */
static void labels_differ(const struct sw_at *spec)
{
    struct sw_at labels = sw_at_field(spec, "template.metadata.labels");

    if (!labels.v)
        labels.v = sw_json_new_object(labels.e->arena);
    sw_at_invalid(&labels, "`selector` does not match template `labels`");
}

void sw_b_check_selector(const struct sw_at *spec, const char *what)
{
    const struct sw_at *selector = SW_IN(spec, "selector");
    struct sw_arena *a = spec->e->arena;
    struct sw_label_selector parsed;
    const char *why = NULL;

    if (!sw_json_is(selector->v, SW_JSON_OBJECT))
        sw_at_required(selector, NULL);
    else if (sw_label_selector_from_json(a, selector->v, &parsed, &why) != SW_OK)
        sw_at_invalid(selector, why);
    else if (what && parsed.n == 0)
        sw_at_invalid(selector, sw_arena_printf(a, "empty selector is invalid for %s", what));
    else if (!sw_label_selector_match(&parsed, SW_IN(spec, "template.metadata.labels")->v))
        labels_differ(spec);
}

void sw_b_check_template(const struct sw_at *template)
{
    sw_labels_validate(SW_IN(template, "metadata.labels"));
    sw_b_check_pod_spec(SW_IN(template, "spec"));
}

/* A template whose pods are started again for ever. */
static void check_template(const struct sw_at *template)
{

    sw_b_check_template(template);
    sw_at_one_of(SW_IN(template, "spec.restartPolicy"), "Always");
}

static void check_workload(const struct sw_at *spec, const struct sw_json *old, const char *what)
{

    if (sw_b_kept(spec, old))
        return;
    sw_b_check_counts(spec, "replicas minReadySeconds revisionHistoryLimit");
    sw_b_check_selector(spec, what);
    check_template(SW_IN(spec, "template"));
    if (old)
        sw_at_same(SW_IN(spec, "selector"), sw_json_walk(old, "spec", "selector", NULL));
}

static const char update_strategies[] = "OnDelete RollingUpdate";

void sw_b_check_deployment(const struct sw_at *obj, const struct sw_json *old)
{
    check_workload(SW_IN(obj, "spec"), old, "deployment");
    sw_at_one_of(SW_IN(obj, "spec.strategy.type"), "Recreate RollingUpdate");
}

void sw_b_check_replica_set(const struct sw_at *obj, const struct sw_json *old)
{
    check_workload(SW_IN(obj, "spec"), old, "replicaset");
}

void sw_b_check_daemon_set(const struct sw_at *obj, const struct sw_json *old)
{
    check_workload(SW_IN(obj, "spec"), old, "daemonset");
    sw_at_one_of(SW_IN(obj, "spec.updateStrategy.type"), update_strategies);
}

/* What may change of a StatefulSet's spec; the rest stays as it was made. */
static const char set_changes[] = "replicas ordinals template updateStrategy revisionHistoryLimit "
                                  "persistentVolumeClaimRetentionPolicy minReadySeconds";

void sw_b_check_stateful_set(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *spec = SW_IN(obj, "spec");

    sw_at_one_of(SW_IN(spec, "podManagementPolicy"), "OrderedReady Parallel");
    sw_at_one_of(SW_IN(spec, "updateStrategy.type"), update_strategies);
    if (old && !sw_b_equal_but(obj->e->arena, spec->v, sw_json_find(old, "spec"), set_changes)) {
        sw_at_forbidden(spec, "updates to statefulset spec for fields other than 'replicas', "
                              "'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "
                              "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are "
                              "forbidden");
        return;
    }
    check_workload(spec, old, "statefulset");
}

void sw_b_check_replication_controller(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *spec = SW_IN(obj, "spec");
    const struct sw_at *selector = SW_IN(spec, "selector");
    const struct sw_at *template = SW_IN(spec, "template");
    const struct sw_json *labels = SW_IN(template, "metadata.labels")->v;
    bool fits = true;

    if (sw_b_kept(spec, old))
        return;
    sw_at_count(SW_IN(spec, "minReadySeconds"));
    (void)sw_at_need(selector, NULL);
    sw_at_count(SW_IN(spec, "replicas"));
    if (!sw_json_is(template->v, SW_JSON_OBJECT)) {
        sw_at_required(template, NULL);
        return;
    }
    SW_JSON_MEMBERS (m, selector->v)
        fits = fits && sw_json_equal(m->value, sw_json_get(labels, m->key), SW_JSON_EQ_VALUE);
    if (!fits)
        labels_differ(spec);
    check_template(template);
}
