/* SPDX-License-Identifier: Apache-2.0 */
/* Cells of Events, in the shape of either group. */
#include "kube/table/table.h"
#include "kube/table/table_int.h"
#include "kube/text.h"

static struct sw_slice either(const struct table_row *r, const char *core, const char *other)
{
    struct sw_slice t = table_text(r->obj, core);

    return t.n ? t : table_text(r->obj, other);
}

static struct sw_slice first_seen(const struct table_row *r)
{
    struct sw_slice t = either(r, "firstTimestamp", "deprecatedFirstTimestamp");

    return t.n ? t : table_text(r->obj, "eventTime");
}

struct sw_json *table_event_last(const struct table_row *r, const char *none)
{
    struct sw_slice t = table_text(r->obj, "series.lastObservedTime");

    if (!sw_json_is(sw_json_find(r->obj, "series"), SW_JSON_OBJECT))
        t = either(r, "lastTimestamp", "deprecatedLastTimestamp");
    if (!t.n && !sw_json_is(sw_json_find(r->obj, "series"), SW_JSON_OBJECT))
        t = first_seen(r);
    return sw_json_new_str(r->a, sw_age_text(r->a, t, r->now_s));
}

struct sw_json *table_event_first(const struct table_row *r, const char *none)
{
    return sw_json_new_str(r->a, sw_age_text(r->a, first_seen(r), r->now_s));
}

struct sw_json *table_event_object(const struct table_row *r, const char *none)
{
    struct sw_slice name = either(r, "involvedObject.name", "regarding.name");
    char *s = sw_arena_printf(r->a, "%.*s%s%.*s",
                              SW_SLICE_ARG(either(r, "involvedObject.kind", "regarding.kind")),
                              name.n ? "/" : "", SW_SLICE_ARG(name));

    for (size_t i = 0; s[i] && s[i] != '/'; i++)
        s[i] = sw_tx_lower(s[i]);
    return sw_json_new_str(r->a, s);
}

struct sw_json *table_event_sub(const struct table_row *r, const char *none)
{
    return sw_json_new_string(r->a, either(r, "involvedObject.fieldPath", "regarding.fieldPath"));
}

struct sw_json *table_event_source(const struct table_row *r, const char *none)
{
    struct sw_slice c = either(r, "source.component", "deprecatedSource.component");
    struct sw_slice h = either(r, "source.host", "deprecatedSource.host");

    if (!c.n)
        c = either(r, "reportingComponent", "reportingController");
    if (!h.n)
        h = table_text(r->obj, "reportingInstance");
    return sw_json_new_str(
        r->a, h.n ? sw_arena_printf(r->a, "%.*s, %.*s", SW_SLICE_ARG(c), SW_SLICE_ARG(h))
                  : sw_arena_dup(r->a, c));
}

struct sw_json *table_event_message(const struct table_row *r, const char *none)
{
    struct sw_slice m = either(r, "message", "note");

    while (m.n && strchr(" \t\n\v\f\r", m.p[0]))
        m = sw_slice_from(m, 1);
    while (m.n && strchr(" \t\n\v\f\r", m.p[m.n - 1]))
        m = sw_slice_head(m, m.n - 1);
    return sw_json_new_string(r->a, m);
}

struct sw_json *table_event_count(const struct table_row *r, const char *none)
{
    const struct sw_json *series = sw_json_find(r->obj, "series");
    const struct sw_json *n = sw_json_find(r->obj, "count");
    int64_t count = 0;

    if (sw_json_is(series, SW_JSON_OBJECT))
        n = sw_json_find(series, "count");
    else if (!n)
        n = sw_json_find(r->obj, "deprecatedCount");
    if (!n || !sw_json_i64(n, &count))
        count = 0;
    return sw_json_new_i64(r->a, count || sw_json_is(series, SW_JSON_OBJECT) ? count : 1);
}
