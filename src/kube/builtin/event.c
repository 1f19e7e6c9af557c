/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of Events, in the shape of either group. */
#include "kube/builtin/builtin_int.h"

static void event_text(const struct sw_json *obj, const char *key, struct sw_field_errs *e)
{
    struct sw_slice v = sw_field_text(obj, key);
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
    struct sw_slice by = sw_field_text(obj, core ? "reportingComponent" : "reportingController");
    struct sw_fpath at = sw_fpath_str(NULL, "reportingController");
    bool timed = sw_field_text(obj, "eventTime").n;

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
    if (sw_field_text(obj, core ? "message" : "note").n > 1024)
        sw_ferr_invalid_str(e, &at, sw_slice("", 0), "can have at most 1024 characters");
}

void sw_b_check_event(const struct sw_json *obj, const struct sw_json *old, struct sw_field_errs *e)
{
    check_any_event(obj, true, e);
}

static void check_series(const struct sw_json *obj, struct sw_field_errs *e)
{
    const struct sw_json *series = sw_json_find(obj, "series");
    struct sw_fpath at = sw_fpath_str(NULL, "series.count");

    if (!series)
        return;
    if (sw_field_int(series, "count") < 2)
        sw_ferr_invalid_str(e, &at, sw_slice("", 0), "should be at least 2");
    at = sw_fpath_str(NULL, "series.lastObservedTime");
    if (!sw_field_text(series, "lastObservedTime").n)
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

void sw_b_check_event_v1(const struct sw_json *obj, const struct sw_json *old,
                         struct sw_field_errs *e)
{
    /* Only the older shape may have these. */
    static const size_t unset[] = {4, 5, 6};
    struct sw_slice type = sw_field_text(obj, "type");
    const struct sw_json *source = sw_json_find(obj, "deprecatedSource");
    struct sw_fpath at = sw_fpath_str(NULL, "eventTime");

    check_any_event(obj, false, e);
    if (old) {
        check_event_v1_change(obj, old, e);
        return;
    }
    check_series(obj, e);
    if (!sw_field_text(obj, "eventTime").n)
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
    if (sw_field_text(source, "component").n || sw_field_text(source, "host").n)
        sw_ferr_invalid_str(e, &at, sw_slice("", 0), "needs to be unset");
}
