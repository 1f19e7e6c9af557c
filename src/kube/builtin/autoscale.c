/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HorizontalPodAutoscalers: stored for controllers elsewhere, as autoscaling/v2; v1 is a view that
 * knows one metric, the CPU, and has the rest in annotations.
 */
#include <string.h>

#include "kube/builtin/builtin_int.h"
#include "kube/text.h"

#define NOTE          "autoscaling.alpha.kubernetes.io/"
#define NOTE_METRICS  NOTE "metrics"
#define NOTE_BEHAVIOR NOTE "behavior"
#define NOTE_CURRENT  NOTE "current-metrics"
#define NOTE_CONDS    NOTE "conditions"

enum { CPU_DEFAULT = 80, NOTE_DEPTH = 32 };

/* ---- defaults ---- */

static struct sw_json *cpu_metric(struct sw_arena *a, int64_t percent)
{
    struct sw_json *m = sw_json_new_object(a);

    sw_b_defaults(a, m, "type=Resource resource!.name=cpu resource.target!.type=Utilization");
    sw_json_put(a, sw_json_walk(m, "resource", "target", NULL), "averageUtilization",
                sw_json_new_i64(a, percent));
    return m;
}

static void default_rules(struct sw_arena *a, struct sw_json *rules, bool up)
{
    struct sw_json *list;

    sw_b_defaults(a, rules,
                  up ? "stabilizationWindowSeconds=0 selectPolicy=Max" : "selectPolicy=Max");
    if (sw_json_find(rules, "policies"))
        return;
    list = sw_json_need(a, rules, "policies", SW_JSON_ARRAY);
    for (int percent = up ? 0 : 1; percent < 2; percent++) {
        struct sw_json *p = sw_json_new_object(a);

        sw_b_defaults(a, p, percent ? "type=Percent value=100" : "type=Pods value=4");
        sw_b_defaults(a, p, "periodSeconds=15");
        sw_json_push(a, list, p);
    }
}

void sw_b_default_autoscaler(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_b_object_in(a, obj, "spec");
    struct sw_json *behavior = sw_json_find(spec, "behavior");
    struct sw_json *status = sw_b_object_in(a, obj, "status");

    sw_b_defaults(a, spec, "minReplicas=1");
    if (!sw_json_len(sw_json_find(spec, "metrics")))
        sw_json_put(a, spec, "metrics", sw_json_new_list(a, cpu_metric(a, CPU_DEFAULT)));
    if (sw_json_is(behavior, SW_JSON_OBJECT)) {
        default_rules(a, sw_b_object_in(a, behavior, "scaleUp"), true);
        default_rules(a, sw_b_object_in(a, behavior, "scaleDown"), false);
    }
    sw_b_defaults(a, status, "currentMetrics=null[]");
}

/* ---- validation ---- */

/* A number is shown, 0 when there is none. */
static void invalid_number(const struct sw_at *at, const char *detail)
{
    sw_ferr_invalid(at->e, &at->path, sw_json_new_i64(at->e->arena, sw_at_int(at)), detail);
}

void sw_b_check_autoscaler(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *spec = SW_IN(obj, "spec");
    const struct sw_at *min = SW_IN(spec, "minReplicas");
    const struct sw_at *max = SW_IN(spec, "maxReplicas");
    const struct sw_at *ref = SW_IN(spec, "scaleTargetRef");
    const struct sw_at *version = SW_IN(ref, "apiVersion");

    if (sw_b_kept(spec, old))
        return;
    if (sw_at_int(min) < 1)
        invalid_number(min, "must be greater than or equal to 1");
    if (sw_at_int(max) == 0)
        sw_at_required(max, "must be set and greater than 0");
    else if (sw_at_int(max) < 0)
        invalid_number(max, "must be greater than or equal to 1");
    if (sw_at_int(max) < sw_at_int(min))
        invalid_number(max, "must be greater than or equal to `minReplicas`");
    (void)sw_at_need(SW_IN(ref, "kind"), NULL);
    (void)sw_at_need(SW_IN(ref, "name"), NULL);
    /* The core group has one kind with a scale. */
    if (sw_slice_find(sw_at_text(version), '/') < 0 &&
        !sw_field_is(ref->v, "kind", "ReplicationController"))
        sw_at_invalid_text(version, "apiVersion must specify API group");
}

/* ---- v1 ---- */

/* Where a metric of v2 has a value and v1 has the same one. */
static const struct {
    const char *source;
    const char *v1;
    const char *v2[2];
} places[] = {
    {"object", "target", {"describedObject", NULL}},
    {"object", "metricName", {"metric", "name"}},
    {"object", "selector", {"metric", "selector"}},
    {"object", "targetValue", {"target", "value"}},
    {"object", "averageValue", {"target", "averageValue"}},
    {"pods", "metricName", {"metric", "name"}},
    {"pods", "selector", {"metric", "selector"}},
    {"pods", "targetAverageValue", {"target", "averageValue"}},
    {"resource", "name", {"name", NULL}},
    {"resource", "targetAverageUtilization", {"target", "averageUtilization"}},
    {"resource", "targetAverageValue", {"target", "averageValue"}},
    {"containerResource", "name", {"name", NULL}},
    {"containerResource", "container", {"container", NULL}},
    {"containerResource", "targetAverageUtilization", {"target", "averageUtilization"}},
    {"containerResource", "targetAverageValue", {"target", "averageValue"}},
    {"external", "metricName", {"metric", "name"}},
    {"external", "metricSelector", {"metric", "selector"}},
    {"external", "targetValue", {"target", "value"}},
    {"external", "targetAverageValue", {"target", "averageValue"}},
};

static struct sw_json *metric_to_v1(struct sw_arena *a, const struct sw_json *m)
{
    struct sw_json *out = sw_json_new_object(a);

    sw_json_put_str(a, out, "type", sw_field_text(m, "type"));
    for (size_t i = 0; i < SW_ARRAY_LEN(places); i++) {
        const struct sw_json *v = sw_json_find(m, places[i].source);

        for (size_t k = 0; k < 2 && places[i].v2[k]; k++)
            v = sw_json_find(v, places[i].v2[k]);
        if (v)
            sw_json_put(a, sw_b_object_in(a, out, places[i].source), places[i].v1,
                        sw_json_copy(a, v));
    }
    return out;
}

static struct sw_json *metric_from_v1(struct sw_arena *a, const struct sw_json *m)
{
    struct sw_json *out = sw_json_new_object(a);

    sw_json_put_str(a, out, "type", sw_field_text(m, "type"));
    for (size_t i = 0; i < SW_ARRAY_LEN(places); i++) {
        const struct sw_json *v = sw_json_walk(m, places[i].source, places[i].v1, NULL);
        struct sw_json *to;

        if (!v)
            continue;
        to = sw_b_object_in(a, out, places[i].source);
        if (!places[i].v2[1]) {
            sw_json_put(a, to, places[i].v2[0], sw_json_copy(a, v));
            continue;
        }
        to = sw_b_object_in(a, to, places[i].v2[0]);
        sw_json_put(a, to, places[i].v2[1], sw_json_copy(a, v));
        if (strcmp(places[i].v2[0], "target") == 0) /* later ones say it better */
            sw_json_put_str(a, to, "type",
                            strcmp(places[i].v2[1], "value") == 0 ? SW_SLICE_LIT("Value")
                            : strcmp(places[i].v2[1], "averageValue") == 0
                                ? SW_SLICE_LIT("AverageValue")
                                : SW_SLICE_LIT("Utilization"));
    }
    return out;
}

/* The one metric v1 has a field for. */
static bool is_cpu(const struct sw_json *m)
{
    return sw_field_is(m, "type", "Resource") &&
           sw_field_is(sw_json_find(m, "resource"), "name", "cpu") &&
           sw_json_walk(m, "resource", "target", "averageUtilization", NULL);
}

/*
 * The behavior is noted with the names of Go's fields, "ScaleUp" for "scaleUp"; either is read
 * back.
 */
static struct sw_json *recase(struct sw_arena *a, const struct sw_json *v, bool upper)
{
    struct sw_json *out;

    if (v->type == SW_JSON_ARRAY) {
        out = sw_json_new_array(a);
        SW_JSON_ITEMS (item, v)
            sw_json_push(a, out, recase(a, item, upper));
        return out;
    }
    if (v->type != SW_JSON_OBJECT)
        return sw_json_copy(a, v);
    out = sw_json_new_object(a);
    SW_JSON_MEMBERS (m, v) {
        char *key = sw_arena_dup(a, m->key);

        if (m->value->type == SW_JSON_NULL)
            continue;
        if (upper && key[0] >= 'a' && key[0] <= 'z')
            key[0] = (char)(key[0] - 'a' + 'A');
        else if (!upper)
            key[0] = sw_tx_lower(key[0]);
        sw_json_put(a, out, key, recase(a, m->value, upper));
    }
    return out;
}

static void put_note(struct sw_arena *a, struct sw_json *obj, const char *note,
                     const struct sw_json *v)
{
    struct sw_json *meta = sw_b_object_in(a, obj, "metadata");

    sw_json_put_str(a, sw_b_object_in(a, meta, "annotations"), note, sw_json_text(a, v, NULL));
}

/* Takes a note out and reads it; NULL when there is none, or none of ours. */
static struct sw_json *take_note(struct sw_arena *a, struct sw_json *obj, const char *note,
                                 enum sw_json_type type)
{
    struct sw_json *notes = sw_json_walk(obj, "metadata", "annotations", NULL);
    struct sw_json *text = sw_json_remove(notes, sw_slice_str(note));
    struct sw_json_opts opts = {.max_depth = NOTE_DEPTH};
    struct sw_json *v = NULL;

    if (notes && !sw_json_len(notes))
        (void)sw_json_remove(sw_json_find(obj, "metadata"), SW_SLICE_LIT("annotations"));
    if (!sw_json_is(text, SW_JSON_STRING) ||
        sw_json_parse(a, sw_json_str(text), &opts, &v, NULL) != SW_OK || v->type != type)
        return NULL;
    return v;
}

static void metrics_to_v1(struct sw_arena *a, struct sw_json *obj, struct sw_json *spec)
{
    const struct sw_json *metrics = sw_json_remove(spec, SW_SLICE_LIT("metrics"));
    struct sw_json *others = sw_json_new_array(a);
    const struct sw_json *cpu = NULL;

    SW_JSON_ITEMS (m, metrics) {
        if (!cpu && is_cpu(m))
            cpu = sw_json_walk(m, "resource", "target", "averageUtilization", NULL);
        else
            sw_json_push(a, others, metric_to_v1(a, m));
    }
    if (cpu)
        sw_json_put(a, spec, "targetCPUUtilizationPercentage", sw_json_copy(a, cpu));
    if (sw_json_len(others))
        put_note(a, obj, NOTE_METRICS, others);
}

void sw_hpa_to_v1(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_b_object_in(a, obj, "spec");
    struct sw_json *status = sw_b_object_in(a, obj, "status");
    struct sw_json *behavior = sw_json_remove(spec, SW_SLICE_LIT("behavior"));
    struct sw_json *current = sw_json_remove(status, SW_SLICE_LIT("currentMetrics"));
    struct sw_json *conditions = sw_json_remove(status, SW_SLICE_LIT("conditions"));

    metrics_to_v1(a, obj, spec);
    if (behavior)
        put_note(a, obj, NOTE_BEHAVIOR, recase(a, behavior, true));
    if (sw_json_len(current))
        put_note(a, obj, NOTE_CURRENT, current);
    if (sw_json_len(conditions))
        put_note(a, obj, NOTE_CONDS, conditions);
    SW_JSON_ITEMS (item, current) {
        const struct sw_json *used =
            sw_json_walk(item, "resource", "current", "averageUtilization", NULL);

        if (used && sw_json_str_eq(sw_json_walk(item, "resource", "name", NULL), "cpu"))
            sw_json_put(a, status, "currentCPUUtilizationPercentage", sw_json_copy(a, used));
    }
    sw_b_defaults(a, status, "currentReplicas=0 desiredReplicas=0");
}

void sw_hpa_from_v1(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_b_object_in(a, obj, "spec");
    struct sw_json *status = sw_b_object_in(a, obj, "status");
    const struct sw_json *others = take_note(a, obj, NOTE_METRICS, SW_JSON_ARRAY);
    struct sw_json *behavior = take_note(a, obj, NOTE_BEHAVIOR, SW_JSON_OBJECT);
    struct sw_json *current = take_note(a, obj, NOTE_CURRENT, SW_JSON_ARRAY);
    struct sw_json *conditions = take_note(a, obj, NOTE_CONDS, SW_JSON_ARRAY);
    struct sw_json *cpu = sw_json_remove(spec, SW_SLICE_LIT("targetCPUUtilizationPercentage"));
    struct sw_json *metrics = sw_json_new_array(a);
    int64_t n = 0;

    (void)sw_json_remove(status, SW_SLICE_LIT("currentCPUUtilizationPercentage"));
    if (!sw_field_int(status, "currentReplicas"))
        (void)sw_json_remove(status, SW_SLICE_LIT("currentReplicas"));
    SW_JSON_ITEMS (item, others)
        sw_json_push(a, metrics, metric_from_v1(a, item));
    if (cpu && sw_json_exact_i64(cpu, &n))
        sw_json_push(a, metrics, cpu_metric(a, n));
    if (sw_json_len(metrics))
        sw_json_put(a, spec, "metrics", metrics);
    if (behavior)
        sw_json_put(a, spec, "behavior", recase(a, behavior, false));
    sw_json_put(a, status, "currentMetrics", current ? current : sw_json_new_null(a));
    if (conditions)
        sw_json_put(a, status, "conditions", conditions);
}
