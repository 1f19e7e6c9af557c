/* SPDX-License-Identifier: Apache-2.0 */
/* See table.h. */
#include "kube/table/table.h"

#include "base/search.h"
#include "kube/cel/cel_priv.h"
#include "kube/select/jsonpath.h"
#include "kube/table/table_int.h"
#include "kube/text.h"

const char *sw_human_duration(struct sw_arena *a, int64_t s)
{
    enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR, YEAR = 365 * DAY };
    static const struct {
        int64_t below;
        int64_t unit;
        int64_t part; /* shown behind it, unless there are none; 0: never */
        char letter;
        char part_letter;
    } steps[] = {
        {120, 1, 0, 's', 0},
        {10 * MINUTE, MINUTE, 1, 'm', 's'},
        {180 * MINUTE, MINUTE, 0, 'm', 0},
        {8 * HOUR, HOUR, MINUTE, 'h', 'm'},
        {48 * HOUR, HOUR, 0, 'h', 0},
        {8 * DAY, DAY, HOUR, 'd', 'h'},
        {730 * DAY, DAY, 0, 'd', 0},
        {8 * YEAR, YEAR, DAY, 'y', 'd'},
        {INT64_MAX, YEAR, 0, 'y', 0},
    };
    size_t i = 0;
    int64_t part;

    if (s < 0)
        return s < -1 ? "<invalid>" : "0s";
    while (i + 1 < SW_ARRAY_LEN(steps) && s >= steps[i].below)
        i++;
    part = steps[i].part ? s % steps[i].unit / steps[i].part : 0;
    if (part)
        return sw_arena_printf(a, "%lld%c%lld%c", (long long)(s / steps[i].unit), steps[i].letter,
                               (long long)part, steps[i].part_letter);
    return sw_arena_printf(a, "%lld%c", (long long)(s / steps[i].unit), steps[i].letter);
}

const char *sw_age_text(struct sw_arena *a, struct sw_slice time, int64_t now_s)
{
    int64_t sec;
    int32_t ns;

    if (!time.n || !cel_parse_time(time, &sec, &ns))
        return "<unknown>";
    return sw_human_duration(a, now_s - sec);
}

/* ---- cells for any kind ---- */

const struct sw_json *table_at(const struct sw_json *obj, const char *path)
{
    struct sw_slice rest = sw_slice_str(path);
    const struct sw_json *v = obj;

    while (rest.p && v)
        v = sw_json_get(v, sw_slice_cut(&rest, '.'));
    return v;
}

struct sw_slice table_text(const struct sw_json *obj, const char *path)
{
    const struct sw_json *v = table_at(obj, path);

    return sw_json_is(v, SW_JSON_STRING) ? v->text : sw_slice("", 0);
}

int64_t table_number(const struct sw_json *obj, const char *path)
{
    int64_t n = 0;

    return sw_json_i64(table_at(obj, path), &n) ? n : 0;
}

struct sw_json *table_or(const struct table_row *r, struct sw_slice s, const char *other)
{
    return s.n ? sw_json_new_string(r->a, s) : sw_json_new_str(r->a, other);
}

const char *table_between(const struct table_row *r, struct sw_slice from, struct sw_slice to)
{
    int64_t sec;
    int32_t ns;

    return sw_age_text(r->a, from, to.n && cel_parse_time(to, &sec, &ns) ? sec : r->now_s);
}

bool table_condition_true(const struct sw_json *obj, struct sw_slice type)
{
    const struct sw_json *c = sw_json_find_item(table_at(obj, "status.conditions"), "type", type);

    return sw_json_str_eq(sw_json_find(c, "status"), "True");
}

void table_put_sorted(struct sw_buf *b, struct sw_slice *p, size_t n)
{
    sw_slice_sort(p, n);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || !sw_slice_eq(p[i], p[i - 1]))
            sw_tx_printf(b, "%s%.*s", i ? "," : "", SW_SLICE_ARG(p[i]));
    }
}

struct sw_json *table_cell(const struct table_row *r, const char *arg)
{
    struct sw_slice other = sw_slice_str(arg);
    struct sw_slice path = sw_slice_cut(&other, '|');

    return table_or(r, table_text(r->obj, sw_arena_dup(r->a, path)), other.p ? other.p : "");
}

struct sw_json *table_count(const struct table_row *r, const char *path)
{
    return sw_json_new_i64(r->a, table_number(r->obj, path));
}

struct sw_json *table_length(const struct table_row *r, const char *path)
{
    return sw_json_new_i64(r->a, (int64_t)sw_json_len(table_at(r->obj, path)));
}

struct sw_json *table_age(const struct table_row *r, const char *none)
{
    return sw_json_new_str(
        r->a, sw_age_text(r->a, table_text(r->obj, "metadata.creationTimestamp"), r->now_s));
}

struct sw_json *table_pair(const struct table_row *r, const char *arg)
{
    struct sw_slice rest = sw_slice_str(arg);
    const struct sw_json *at = table_at(r->obj, sw_arena_dup(r->a, sw_slice_cut(&rest, ' ')));
    struct sw_slice first = sw_json_str(sw_json_get(at, sw_slice_cut(&rest, ' ')));
    struct sw_slice second = sw_json_str(sw_json_get(at, sw_slice_cut(&rest, ' ')));

    if (!sw_json_is(at, SW_JSON_OBJECT))
        return sw_json_new_str(r->a, rest.p);
    return sw_json_new_str(
        r->a, sw_arena_printf(r->a, "%.*s/%.*s", SW_SLICE_ARG(first), SW_SLICE_ARG(second)));
}

/* ---- definitions ---- */

static struct sw_json *definition(struct sw_arena *a, const char *name, const char *type,
                                  const char *format, const char *text, int64_t priority)
{
    return SW_JSON_OF(a, {"name", .str = name}, {"type", .str = type}, {"format", .str = format},
                      {"description", .str = text},
                      {"priority", .json = sw_json_new_i64(a, priority)});
}

static struct sw_json *builtin_definition(struct sw_arena *a, const struct table_column *c,
                                          const struct sw_builtin *b)
{
    bool name = strcmp(c->name, "Name") == 0;
    bool age = c->cell == table_age;
    const char *type = c->flags & INTEGER               ? "integer"
                       : c->flags & BOOLEAN             ? "boolean"
                       : c->flags & DATE || (age && !b) ? "date"
                                                        : "string";

    return definition(a, c->name, type, name ? "name" : "",
                      name  ? "Name of the object."
                      : age ? "Time since the object was created."
                            : "",
                      c->flags & WIDE ? 1 : 0);
}

static const char *column_text(struct sw_arena *a, const struct sw_json *c, const char *key)
{
    struct sw_slice s = sw_json_str(sw_json_find(c, key));

    return s.p ? sw_arena_dup(a, s) : "";
}

struct sw_json *sw_table_columns(struct sw_arena *a, const struct sw_builtin *b,
                                 const struct sw_json *columns)
{
    struct sw_json *list = sw_json_new_array(a);

    if (b || !sw_json_len(columns)) {
        for (const struct table_column *c = table_columns_of(b); c->name; c++)
            sw_json_push(a, list, builtin_definition(a, c, b));
        return list;
    }
    sw_json_push(a, list, definition(a, "Name", "string", "name", "Name of the object.", 0));
    SW_JSON_ITEMS (c, columns) {
        int64_t priority = 0;

        if (!sw_json_i64(sw_json_find(c, "priority"), &priority))
            priority = 0;
        sw_json_push(a, list,
                     definition(a, column_text(a, c, "name"), column_text(a, c, "type"),
                                column_text(a, c, "format"), column_text(a, c, "description"),
                                priority));
    }
    return list;
}

/* A custom column: typed cells for numbers and booleans, text for the rest, null when missing. */
static struct sw_json *custom_cell(const struct table_row *r, const struct sw_json *c)
{
    const struct sw_json *type = sw_json_find(c, "type");
    struct sw_jsonpath_results found = {0};
    const struct sw_json *v;

    if (sw_jsonpath(r->a, sw_json_str(sw_json_find(c, "jsonPath")), r->obj, &found) < 0 || !found.n)
        return sw_json_new_null(r->a);
    v = found.p[0];
    if (v->type == SW_JSON_NULL)
        return sw_json_new_null(r->a);
    if (sw_json_str_eq(type, "date"))
        return sw_json_new_str(
            r->a,
            sw_age_text(r->a, sw_json_is(v, SW_JSON_STRING) ? v->text : sw_slice("", 0), r->now_s));
    if (sw_json_str_eq(type, "string")) {
        if (v->type == SW_JSON_STRING)
            return sw_json_copy(r->a, v);
        return sw_json_new_string(r->a, sw_json_text(r->a, v, NULL));
    }
    if (sw_json_str_eq(type, "boolean"))
        return v->type == SW_JSON_BOOL ? sw_json_copy(r->a, v) : sw_json_new_null(r->a);
    return v->type == SW_JSON_NUMBER ? sw_json_copy(r->a, v) : sw_json_new_null(r->a);
}

struct sw_json *sw_table_cells(struct sw_arena *a, const struct sw_builtin *b,
                               const struct sw_json *columns, const struct sw_json *obj,
                               int64_t now_s)
{
    struct table_row r = {.a = a, .obj = obj, .now_s = now_s};
    struct sw_json *list = sw_json_new_array(a);

    if (b || !sw_json_len(columns)) {
        for (const struct table_column *c = table_columns_of(b); c->name; c++)
            sw_json_push(a, list, c->cell(&r, c->arg));
        return list;
    }
    sw_json_push(a, list, table_cell(&r, "metadata.name"));
    SW_JSON_ITEMS (item, columns)
        sw_json_push(a, list, custom_cell(&r, item));
    return list;
}
