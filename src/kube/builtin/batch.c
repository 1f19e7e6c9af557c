/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs and CronJobs: stored for controllers elsewhere. Defaults, the labels by which a Job finds
 * its pods, and immutable fields. Nothing here runs or completes a Job.
 */
#include <string.h>

#include "kube/builtin/builtin_int.h"
#include "kube/select/selector.h"

#define CONTROLLER_UID "batch.kubernetes.io/controller-uid"

enum { CRON_NAME_MAX = 52 }; /* its Jobs have 11 characters more */

/* ---- defaults ---- */

static void default_pods(struct sw_arena *a, struct sw_json *job_spec)
{
    struct sw_json *template = sw_b_object_in(a, job_spec, "template");

    sw_b_default_pod_spec(a, sw_b_object_in(a, template, "spec"));
}

void sw_b_default_job(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_b_object_in(a, obj, "spec");
    struct sw_json *meta = sw_b_object_in(a, obj, "metadata");
    const struct sw_json *labels = sw_json_walk(spec, "template", "metadata", "labels", NULL);

    default_pods(a, spec);
    if (!sw_json_find(spec, "completions") && !sw_json_find(spec, "parallelism"))
        sw_b_defaults(a, spec, "completions=1");
    sw_b_defaults(a, spec, "parallelism=1");
    sw_b_defaults(a, spec,
                  sw_json_find(spec, "backoffLimitPerIndex") ? "backoffLimit=2147483647"
                                                             : "backoffLimit=6");
    if (sw_json_len(labels) && !sw_json_len(sw_json_find(meta, "labels")))
        sw_json_put(a, meta, "labels", sw_json_copy(a, labels));
    sw_b_defaults(a, spec, "completionMode=NonIndexed suspend=false");
    sw_b_defaults(a, spec,
                  sw_json_find(spec, "podFailurePolicy")
                      ? "podReplacementPolicy=Failed"
                      : "podReplacementPolicy=TerminatingOrFailed");
    sw_b_defaults(a, spec, "manualSelector=false");
    (void)sw_b_object_in(a, obj, "status");
}

void sw_b_default_cron_job(struct sw_arena *a, struct sw_json *obj)
{
    sw_b_defaults(a, obj, "spec!.jobTemplate!.metadata={} spec.jobTemplate.spec={}");
    default_pods(a, sw_json_walk(obj, "spec", "jobTemplate", "spec", NULL));
}

void sw_b_admit_job(struct sw_arena *a, struct sw_json *obj)
{
    static const struct {
        const char *label;
        const char *field;
    } marks[] = {{"job-name", "name"},
                 {"batch.kubernetes.io/job-name", "name"},
                 {"controller-uid", "uid"},
                 {CONTROLLER_UID, "uid"}};
    const struct sw_json *meta = sw_json_find(obj, "metadata");
    struct sw_json *spec = sw_json_find(obj, "spec");
    struct sw_json *template = sw_b_object_in(a, spec, "template");
    struct sw_json *labels = sw_b_object_in(a, sw_b_object_in(a, template, "metadata"), "labels");
    struct sw_json *own = sw_json_find(meta, "labels");
    struct sw_json *selector;
    /* Labels that came from the template stay equal to it. */
    bool same = sw_json_len(own) && sw_json_equal(own, labels, SW_JSON_EQ_VALUE);

    if (sw_json_true(sw_json_find(spec, "manualSelector")))
        return;
    for (size_t i = 0; i < SW_ARRAY_LEN(marks); i++) {
        if (!sw_json_find(labels, marks[i].label))
            sw_json_put_str(a, labels, marks[i].label, sw_field_text(meta, marks[i].field));
        if (same)
            sw_json_put(a, own, marks[i].label, sw_json_find(labels, marks[i].label));
    }
    selector = sw_b_object_in(a, sw_b_object_in(a, spec, "selector"), "matchLabels");
    if (!sw_json_find(selector, CONTROLLER_UID))
        sw_json_put_str(a, selector, CONTROLLER_UID, sw_field_text(meta, "uid"));
}

/* ---- validation ---- */

static void check_job_spec(const struct sw_at *spec)
{
    const struct sw_at *mode = SW_IN(spec, "completionMode");
    const struct sw_at *restart = SW_IN(spec, "template.spec.restartPolicy");

    sw_b_check_counts(spec, "parallelism completions activeDeadlineSeconds backoffLimit "
                            "ttlSecondsAfterFinished backoffLimitPerIndex maxFailedIndexes");
    sw_at_set_one_of(mode, "NonIndexed Indexed");
    if (sw_at_is(mode, "Indexed") && !sw_json_find(spec->v, "completions"))
        sw_at_required(SW_IN(spec, "completions"), "when completion mode is Indexed");
    sw_b_check_template(SW_IN(spec, "template"));
    if (!restart->v || sw_at_is(restart, "Always"))
        sw_at_required(restart, "valid values: \"OnFailure\", \"Never\"");
    else
        sw_at_one_of(restart, "OnFailure Never");
}

static void check_frozen_fields(const struct sw_at *spec, const struct sw_json *was)
{
    static const char *const frozen[] = {
        "completions",          "selector",  "template",     "completionMode", "podFailurePolicy",
        "backoffLimitPerIndex", "managedBy", "successPolicy"};

    for (size_t i = 0; i < SW_ARRAY_LEN(frozen); i++) {
        if (strcmp(frozen[i], "completions") == 0 &&
            sw_field_is(was, "completionMode", "Indexed") &&
            sw_field_int(spec->v, "completions") == sw_field_int(spec->v, "parallelism"))
            continue; /* an indexed Job may grow and shrink as a whole */
        if (strcmp(frozen[i], "template") == 0 && sw_json_true(sw_json_find(was, "suspend")))
            continue; /* not started: a queue may still place it */
        sw_at_same(SW_IN(spec, frozen[i]), sw_json_find(was, frozen[i]));
    }
}

void sw_b_check_job(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *spec = SW_IN(obj, "spec");

    if (sw_b_kept(spec, old))
        return;
    check_job_spec(spec);
    sw_b_check_selector(spec, NULL);
    if (old)
        check_frozen_fields(spec, sw_json_find(old, "spec"));
}

static size_t count_fields(struct sw_slice s)
{
    size_t n = 0;
    bool inside = false;

    for (size_t i = 0; i < s.n; i++) {
        bool space = s.p[i] == ' ' || s.p[i] == '\t';

        n += !space && !inside;
        inside = !space;
    }
    return n;
}

/* Five fields, or a macro like @daily; the controller that runs it checks the fields' values. */
static void check_schedule(const struct sw_at *at)
{
    struct sw_slice s = sw_at_text(at);
    size_t n = count_fields(s);

    if (!s.n)
        sw_at_required(at, NULL);
    else if (memmem(s.p, s.n, "TZ", 2))
        sw_at_invalid(at, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    else if (s.p[0] != '@' && n != 5)
        sw_at_invalid(at,
                      sw_arena_printf(at->e->arena, "expected exactly 5 fields, found %zu: [%.*s]",
                                      n, SW_SLICE_ARG(s)));
}

void sw_b_check_cron_job(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *spec = SW_IN(obj, "spec");
    const struct sw_at *name = SW_IN(obj, "metadata.name");

    if (!old && sw_at_text(name).n > CRON_NAME_MAX)
        sw_at_invalid(name, "must be no more than 52 characters");
    if (sw_b_kept(spec, old))
        return;
    check_schedule(SW_IN(spec, "schedule"));
    sw_at_one_of(SW_IN(spec, "concurrencyPolicy"), "Allow Forbid Replace");
    sw_b_check_counts(spec,
                      "startingDeadlineSeconds successfulJobsHistoryLimit failedJobsHistoryLimit");
    check_job_spec(SW_IN(spec, "jobTemplate.spec"));
}
