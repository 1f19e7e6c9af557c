/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of Events, in the shape of either group. */
#include "kube/builtin/builtin_int.h"

/* The value is not shown. */
static void invalid(const struct sw_at *at, const char *detail)
{
    sw_ferr_invalid_str(at->e, &at->path, sw_slice("", 0), detail);
}

static void event_text(const struct sw_at *at)
{
    if (sw_at_need(at, NULL) && sw_at_text(at).n > 128)
        invalid(at, "can have at most 128 characters");
}

/* An event lives where its object does; one about the cluster lives in two known places. */
static void check_event_namespace(const struct sw_at *obj, const char *about, bool timed)
{
    struct sw_slice ns = sw_at_text(SW_IN(obj, "metadata.namespace"));
    struct sw_slice other = sw_json_str(sw_json_walk(obj->v, about, "namespace", NULL));
    bool ok;

    if (other.n)
        ok = timed || sw_slice_eq(other, ns);
    else
        ok = sw_slice_eq_str(ns, "default") || (timed && sw_slice_eq_str(ns, "kube-system"));
    if (!ok)
        sw_ferr_invalid_str(obj->e, &SW_IN(obj, "involvedObject.namespace")->path,
                            other.p ? other : sw_slice("", 0), "does not match event.namespace");
}

/* What both shapes have to obey; their names differ, those in the errors do not. */
static void check_any_event(const struct sw_at *obj, bool core)
{
    struct sw_slice by = sw_field_text(obj->v, core ? "reportingComponent" : "reportingController");
    const struct sw_at *at = SW_IN(obj, "reportingController");
    bool timed = sw_field_text(obj->v, "eventTime").n;

    check_event_namespace(obj, core ? "involvedObject" : "regarding", timed);
    if (!timed)
        return;
    if (!by.n)
        sw_at_required(at, NULL);
    sw_name_report(at->e, &at->path, by, sw_name_label_key(by));
    event_text(SW_IN(obj, "reportingInstance"));
    event_text(SW_IN(obj, "action"));
    event_text(SW_IN(obj, "reason"));
    if (sw_field_text(obj->v, core ? "message" : "note").n > 1024)
        invalid(SW_IN(obj, "message"), "can have at most 1024 characters");
}

void sw_b_check_event(const struct sw_at *obj, const struct sw_json *old)
{
    check_any_event(obj, true);
}

static void check_series(const struct sw_at *series)
{
    if (!series->v)
        return;
    if (sw_at_int(SW_IN(series, "count")) < 2)
        invalid(SW_IN(series, "count"), "should be at least 2");
    (void)sw_at_need(SW_IN(series, "lastObservedTime"), NULL);
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

static void check_event_v1_change(const struct sw_at *obj, const struct sw_json *old)
{
    if (!sw_json_equal(sw_json_find(obj->v, "series"), sw_json_find(old, "series"),
                       SW_JSON_EQ_VALUE))
        check_series(SW_IN(obj, "series"));
    for (size_t i = 0; i < SW_ARRAY_LEN(event_v1_fields); i++) {
        const char *field = event_v1_fields[i][0];
        struct sw_at at = sw_at_field(obj, event_v1_fields[i][1]);

        at.v = sw_json_find(obj->v, field);
        sw_at_same(&at, sw_json_find(old, field));
    }
}

void sw_b_check_event_v1(const struct sw_at *obj, const struct sw_json *old)
{
    /* Only the older shape may have these. */
    static const size_t unset[] = {4, 5, 6};
    const struct sw_at *type = SW_IN(obj, "type");
    const struct sw_json *source = sw_json_find(obj->v, "deprecatedSource");

    check_any_event(obj, false);
    if (old) {
        check_event_v1_change(obj, old);
        return;
    }
    check_series(SW_IN(obj, "series"));
    (void)sw_at_need(SW_IN(obj, "eventTime"), NULL);
    if (!sw_at_is(type, "Normal") && !sw_at_is(type, "Warning"))
        invalid(type, sw_arena_printf(type->e->arena, "has invalid value: %.*s",
                                      SW_SLICE_ARG(sw_at_text(type))));
    for (size_t i = 0; i < SW_ARRAY_LEN(unset); i++) {
        const struct sw_json *v = sw_json_find(obj->v, event_v1_fields[unset[i]][0]);

        if (v && v->type != SW_JSON_NULL)
            invalid(SW_IN(obj, event_v1_fields[unset[i]][1]), "needs to be unset");
    }
    if (sw_field_text(source, "component").n || sw_field_text(source, "host").n)
        invalid(SW_IN(obj, "source"), "needs to be unset");
}
