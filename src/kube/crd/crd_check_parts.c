/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of one version of a CustomResourceDefinition, apart from its schema. */
#include "kube/crd/crd_int.h"
#include "kube/text.h"

enum { SELECTABLE_MAX = 8, WARNING_MAX = 256 };

/* The reference looks at the first character only. */
static bool simple_path(const struct sw_at *at)
{
    if (sw_slice_has_prefix(sw_at_text(at), SW_SLICE_LIT(".")))
        return true;
    sw_at_invalid_text(at, "must be a simple json path starting with .");
    return false;
}

static void check_scale_path(const struct sw_at *at, bool spec, bool status, const char *why)
{
    struct sw_slice s = sw_at_text(at);

    if (!s.n && !(spec && status))
        sw_at_required(at, NULL);
    else if (s.n && simple_path(at) && !(spec && sw_slice_has_prefix(s, SW_SLICE_LIT(".spec."))) &&
             !(status && sw_slice_has_prefix(s, SW_SLICE_LIT(".status."))))
        sw_at_invalid(at, why);
}

void sw_crd_check_subresources(const struct sw_at *subs)
{
    const struct sw_at *scale = SW_IN(subs, "scale");

    if (!sw_json_is(scale->v, SW_JSON_OBJECT))
        return;
    check_scale_path(SW_IN(scale, "specReplicasPath"), true, false,
                     "should be a json path under .spec");
    check_scale_path(SW_IN(scale, "statusReplicasPath"), false, true,
                     "should be a json path under .status");
    check_scale_path(SW_IN(scale, "labelSelectorPath"), true, true,
                     "should be a json path under either .spec or .status");
}

void sw_crd_check_columns(const struct sw_at *list)
{
    static const char want_type[] = "must be one of boolean,date,integer,number,string";

    SW_AT_FOREACH (c, list) {
        const struct sw_at *type = SW_IN(&c, "type");
        const struct sw_at *format = SW_IN(&c, "format");
        struct sw_at path = sw_at_field(&c, "jsonPath");

        (void)sw_at_need(SW_IN(&c, "name"), NULL);
        if (sw_at_need(type, want_type) &&
            !sw_at_is_any(type, "boolean date integer number string"))
            sw_at_invalid(type, want_type);
        if (sw_at_text(format).n &&
            !sw_at_is_any(format, "byte date date-time double float int32 int64 password"))
            sw_at_invalid(format, "must be one of "
                                  "byte,date,date-time,double,float,int32,int64,password");
        path.path.name = SW_SLICE_LIT("JSONPath"); /* as the reference spells it */
        if (sw_at_need(&path, NULL))
            (void)simple_path(&path);
    }
}

/* Why a path of fields (".spec.color") leads nowhere; NULL and the node when it does not. */
static const char *bad_field_path(struct sw_arena *a, const struct sw_schema *s,
                                  struct sw_slice path, const struct sw_schema **ret)
{
    while (path.n) {
        size_t i = 1;

        if (path.p[0] == '[')
            return "array notation is not allowed";
        if (path.p[0] != '.') {
            while (i < path.n && !strchr(".[]", path.p[i]))
                i++;
            return sw_arena_printf(a, "expected [ or . but got: %.*s",
                                   SW_SLICE_ARG(sw_slice_head(path, i)));
        }
        while (i < path.n && !strchr(".[]", path.p[i]))
            i++;
        if (path.n == 1)
            return "unexpected end of JSON path";
        s = sw_schema_prop(s, sw_slice(path.p + 1, i - 1));
        if (!s)
            return "does not refer to a valid field";
        path = sw_slice_from(path, i);
    }
    *ret = s;
    return NULL;
}

static bool seen_before(const struct sw_at *list, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (sw_slice_eq(sw_field_text(sw_json_at(list->v, k), "jsonPath"),
                        sw_field_text(sw_json_at(list->v, i), "jsonPath")))
            return true;
    }
    return false;
}

void sw_crd_check_selectable(const struct sw_at *list, const struct sw_schema *schema)
{
    struct sw_arena *a = list->e->arena;
    size_t distinct = 0;

    SW_AT_FOREACH (item, list) {
        const struct sw_at *at = SW_IN(&item, "jsonPath");
        struct sw_slice path = sw_at_text(at);
        const struct sw_schema *s = NULL;
        const char *why = path.n && schema ? bad_field_path(a, schema, path, &s) : NULL;

        if (!sw_at_need(at, NULL))
            continue;
        if (why) {
            sw_at_invalid(at, sw_arena_printf(a, "is an invalid path: %s", why));
            continue;
        }
        if (sw_slice_has_prefix(path, SW_SLICE_LIT(".metadata.")))
            sw_at_invalid(at, "must not point to fields in metadata");
        if (s && s->type != SW_T_STRING && s->type != SW_T_BOOLEAN && s->type != SW_T_INTEGER)
            sw_at_invalid(at, "must point to a field of type string, boolean or integer. Enum "
                              "string fields and strings with formats are allowed.");
        if (seen_before(list, item.path.index))
            sw_at_duplicate(at);
        else
            distinct++;
    }
    if (distinct > SELECTABLE_MAX)
        sw_ferr_too_many(list->e, &list->path, distinct, SELECTABLE_MAX);
}

void sw_crd_check_warning(const struct sw_at *version)
{
    const struct sw_at *at = SW_IN(version, "deprecationWarning");
    struct sw_slice w = sw_at_text(at);

    if (!sw_json_is(at->v, SW_JSON_STRING))
        return;
    if (!sw_json_true(sw_json_find(version->v, "deprecated"))) {
        sw_at_invalid(at, "can only be set for deprecated versions");
        return;
    }
    if (w.n > WARNING_MAX)
        sw_at_invalid(at, "must be <= 256 characters long");
    if (!w.n)
        sw_at_invalid(at, "must not be an empty string");
    for (size_t i = 0; i < w.n; i++) {
        if ((unsigned char)w.p[i] < 0x20 || w.p[i] == 0x7f) {
            sw_at_invalid(at, sw_arena_printf(at->e->arena,
                                              "must only contain printable UTF-8 characters; "
                                              "non-printable character found at index %zu",
                                              i));
            break;
        }
    }
}
