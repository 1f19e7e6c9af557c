/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs and CronJobs: kept for those who run them somewhere else. Defaults, the labels by which a
 * Job finds its pods, and what may not change. Nothing here runs or completes a Job.
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

static void def_bool(struct sw_arena *a, struct sw_json *v, const char *key, bool b)
{
    if (!sw_json_find(v, key))
        sw_json_put(a, v, key, sw_json_new_bool(a, b));
}

void sw_b_default_job(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_b_object_in(a, obj, "spec");
    struct sw_json *meta = sw_b_object_in(a, obj, "metadata");
    const struct sw_json *labels = sw_json_walk(spec, "template", "metadata", "labels", NULL);

    default_pods(a, spec);
    if (!sw_json_find(spec, "completions") && !sw_json_find(spec, "parallelism"))
        sw_b_def_number(a, spec, "completions", 1);
    sw_b_def_number(a, spec, "parallelism", 1);
    sw_b_def_number(a, spec, "backoffLimit",
                    sw_json_find(spec, "backoffLimitPerIndex") ? INT32_MAX : 6);
    if (sw_json_len(labels) && !sw_json_len(sw_json_find(meta, "labels")))
        sw_json_put(a, meta, "labels", sw_json_copy(a, labels));
    sw_b_def_str(a, spec, "completionMode", "NonIndexed");
    def_bool(a, spec, "suspend", false);
    sw_b_def_str(a, spec, "podReplacementPolicy",
                 sw_json_find(spec, "podFailurePolicy") ? "Failed" : "TerminatingOrFailed");
    def_bool(a, spec, "manualSelector", false);
    (void)sw_b_object_in(a, obj, "status");
}

void sw_b_default_cron_job(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_b_object_in(a, obj, "spec");
    struct sw_json *template = sw_b_object_in(a, spec, "jobTemplate");

    (void)sw_b_object_in(a, template, "metadata");
    default_pods(a, sw_b_object_in(a, template, "spec"));
    sw_b_def_str(a, spec, "concurrencyPolicy", "Allow");
    def_bool(a, spec, "suspend", false);
    sw_b_def_number(a, spec, "successfulJobsHistoryLimit", 3);
    sw_b_def_number(a, spec, "failedJobsHistoryLimit", 1);
    (void)sw_b_object_in(a, obj, "status");
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

    sw_json_put(a, obj, "status", sw_json_new_object(a));
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

static void check_job_spec(const struct sw_json *spec, const struct sw_fpath *path,
                           struct sw_field_errs *e)
{
    static const char *const counts[] = {"parallelism",
                                         "completions",
                                         "activeDeadlineSeconds",
                                         "backoffLimit",
                                         "ttlSecondsAfterFinished",
                                         "backoffLimitPerIndex",
                                         "maxFailedIndexes"};
    static const char *const modes[] = {"NonIndexed", "Indexed", NULL};
    static const char *const restarts[] = {"OnFailure", "Never", NULL};
    const struct sw_json *restart = sw_json_walk(spec, "template", "spec", "restartPolicy", NULL);
    struct sw_fpath at_mode = sw_fpath_str(path, "completionMode");
    struct sw_fpath at_completions = sw_fpath_str(path, "completions");
    struct sw_fpath at_restart = sw_fpath_str(path, "template.spec.restartPolicy");

    for (size_t i = 0; i < SW_ARRAY_LEN(counts); i++)
        sw_b_check_count(spec, counts[i], path, e);
    if (sw_json_find(spec, "completionMode"))
        sw_field_one_of(sw_json_find(spec, "completionMode"), modes, &at_mode, e);
    if (sw_field_is(spec, "completionMode", "Indexed") && !sw_json_find(spec, "completions"))
        sw_ferr_required(e, &at_completions, "when completion mode is Indexed");
    sw_b_check_template(spec, path, e);
    if (!restart || sw_json_str_eq(restart, "Always"))
        sw_ferr_required(e, &at_restart, "valid values: \"OnFailure\", \"Never\"");
    else
        sw_field_one_of(restart, restarts, &at_restart, e);
}

/* The pods of a Job must be those it selects. */
static void check_job_selector(const struct sw_json *spec, struct sw_field_errs *e)
{
    const struct sw_json *selector = sw_json_find(spec, "selector");
    const struct sw_json *labels = sw_json_walk(spec, "template", "metadata", "labels", NULL);
    struct sw_fpath at = sw_fpath_str(NULL, "spec.selector");
    struct sw_fpath at_labels = sw_fpath_str(NULL, "spec.template.metadata.labels");
    struct sw_label_selector parsed;
    const char *why = NULL;

    if (!sw_json_is(selector, SW_JSON_OBJECT))
        sw_ferr_required(e, &at, NULL);
    else if (sw_label_selector_from_json(e->arena, selector, &parsed, &why) != SW_OK)
        sw_ferr_invalid(e, &at, selector, why);
    else if (!sw_label_selector_match(&parsed, labels))
        sw_ferr_invalid(e, &at_labels, labels ? labels : sw_json_new_object(e->arena),
                        "`selector` does not match template `labels`");
}

static void check_frozen_fields(const struct sw_json *spec, const struct sw_json *was,
                                struct sw_field_errs *e)
{
    static const char *const frozen[] = {
        "completions",          "selector",  "template",     "completionMode", "podFailurePolicy",
        "backoffLimitPerIndex", "managedBy", "successPolicy"};
    struct sw_fpath path = sw_fpath_str(NULL, "spec");

    for (size_t i = 0; i < SW_ARRAY_LEN(frozen); i++) {
        const struct sw_json *now = sw_json_find(spec, frozen[i]);
        struct sw_fpath at = sw_fpath_str(&path, frozen[i]);

        if (strcmp(frozen[i], "completions") == 0 &&
            sw_field_is(was, "completionMode", "Indexed") &&
            sw_field_int(spec, "completions") == sw_field_int(spec, "parallelism"))
            continue; /* an indexed Job may grow and shrink as a whole */
        if (strcmp(frozen[i], "template") == 0 && sw_json_true(sw_json_find(was, "suspend")))
            continue; /* not started: a queue may still place it */
        if (!sw_json_equal(now, sw_json_find(was, frozen[i]), SW_JSON_EQ_VALUE))
            sw_ferr_invalid(e, &at, now ? now : sw_json_new_null(e->arena), "field is immutable");
    }
}

void sw_b_check_job(const struct sw_json *obj, const struct sw_json *old, struct sw_field_errs *e)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *was = sw_json_find(old, "spec");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");

    if (old && sw_json_equal(spec, was, SW_JSON_EQ_VALUE))
        return;
    check_job_spec(spec, &path, e);
    check_job_selector(spec, e);
    if (old)
        check_frozen_fields(spec, was, e);
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

/* Five fields, or a word like @daily; what is in the fields is for those who run it. */
static void check_schedule(const struct sw_json *spec, struct sw_field_errs *e)
{
    struct sw_slice s = sw_field_text(spec, "schedule");
    struct sw_fpath at = sw_fpath_str(NULL, "spec.schedule");
    size_t n = count_fields(s);

    if (!s.n)
        sw_ferr_required(e, &at, NULL);
    else if (memmem(s.p, s.n, "TZ", 2))
        sw_ferr_invalid_str(e, &at, s,
                            "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    else if (s.p[0] != '@' && n != 5)
        sw_ferr_invalid_str(e, &at, s,
                            sw_arena_printf(e->arena,
                                            "expected exactly 5 fields, found %zu: [%.*s]", n,
                                            SW_SLICE_ARG(s)));
}

void sw_b_check_cron_job(const struct sw_json *obj, const struct sw_json *old,
                         struct sw_field_errs *e)
{
    static const char *const policies[] = {"Allow", "Forbid", "Replace", NULL};
    static const char *const counts[] = {"startingDeadlineSeconds", "successfulJobsHistoryLimit",
                                         "failedJobsHistoryLimit"};
    const struct sw_json *spec = sw_json_find(obj, "spec");
    struct sw_slice name = sw_field_text(sw_json_find(obj, "metadata"), "name");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at_name = sw_fpath_str(NULL, "metadata.name");
    struct sw_fpath at_policy = sw_fpath_str(&path, "concurrencyPolicy");
    struct sw_fpath at_job = sw_fpath_str(&path, "jobTemplate.spec");

    if (!old && name.n > CRON_NAME_MAX)
        sw_ferr_invalid_str(e, &at_name, name, "must be no more than 52 characters");
    if (old && sw_json_equal(spec, sw_json_find(old, "spec"), SW_JSON_EQ_VALUE))
        return;
    check_schedule(spec, e);
    sw_field_one_of(sw_json_find(spec, "concurrencyPolicy"), policies, &at_policy, e);
    for (size_t i = 0; i < SW_ARRAY_LEN(counts); i++)
        sw_b_check_count(spec, counts[i], &path, e);
    check_job_spec(sw_json_walk(spec, "jobTemplate", "spec", NULL), &at_job, e);
}
