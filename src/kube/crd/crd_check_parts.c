/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of one version of a CustomResourceDefinition, apart from its schema. */
#include "kube/crd/crd_int.h"
#include "kube/text.h"

enum { SELECTABLE_MAX = 8, WARNING_MAX = 256 };

/* The reference looks at the first character only. */
static bool simple_path(struct sw_slice s, const struct sw_fpath *at, struct sw_field_errs *e)
{
    if (s.n && s.p[0] == '.')
        return true;
    sw_ferr_invalid_str(e, at, s, "must be a simple json path starting with .");
    return false;
}

static void check_scale_path(const struct sw_json *scale, const char *key, bool spec, bool status,
                             const char *why, const struct sw_fpath *path, struct sw_field_errs *e)
{
    struct sw_fpath up = sw_fpath_str(path, "scale");
    struct sw_fpath at = sw_fpath_str(&up, key);
    struct sw_slice s = crd_text(scale, key);

    if (!s.n && !(spec && status))
        sw_ferr_required(e, &at, NULL);
    else if (s.n && simple_path(s, &at, e) &&
             !(spec && sw_slice_has_prefix(s, SW_SLICE_LIT(".spec."))) &&
             !(status && sw_slice_has_prefix(s, SW_SLICE_LIT(".status."))))
        sw_ferr_invalid_str(e, &at, s, why);
}

void sw_crd_check_subresources(const struct sw_json *subs, const struct sw_fpath *path,
                               struct sw_field_errs *e)
{
    const struct sw_json *scale = sw_json_find(subs, "scale");

    if (!sw_json_is(scale, SW_JSON_OBJECT))
        return;
    check_scale_path(scale, "specReplicasPath", true, false, "should be a json path under .spec",
                     path, e);
    check_scale_path(scale, "statusReplicasPath", false, true,
                     "should be a json path under .status", path, e);
    check_scale_path(scale, "labelSelectorPath", true, true,
                     "should be a json path under either .spec or .status", path, e);
}

void sw_crd_check_columns(const struct sw_json *list, const struct sw_fpath *up,
                          struct sw_field_errs *e)
{
    static const char *const types[] = {"boolean", "date", "integer", "number", "string", NULL};
    static const char *const formats[] = {"byte",  "date",  "date-time", "double", "float",
                                          "int32", "int64", "password",  NULL};
    static const char want_type[] = "must be one of boolean,date,integer,number,string";

    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *c = sw_json_at(list, i);
        struct sw_fpath at = sw_fpath_index(up, i);
        struct sw_fpath at_name = sw_fpath_str(&at, "name");
        struct sw_fpath at_type = sw_fpath_str(&at, "type");
        struct sw_fpath at_format = sw_fpath_str(&at, "format");
        struct sw_fpath at_path = sw_fpath_str(&at, "JSONPath");

        if (!crd_text(c, "name").n)
            sw_ferr_required(e, &at_name, NULL);
        if (!crd_text(c, "type").n)
            sw_ferr_required(e, &at_type, want_type);
        else if (!crd_one_of(crd_text(c, "type"), types))
            sw_ferr_invalid(e, &at_type, sw_json_find(c, "type"), want_type);
        if (crd_text(c, "format").n && !crd_one_of(crd_text(c, "format"), formats))
            sw_ferr_invalid(e, &at_format, sw_json_find(c, "format"),
                            "must be one of byte,date,date-time,double,float,int32,int64,password");
        if (!crd_text(c, "jsonPath").n)
            sw_ferr_required(e, &at_path, NULL);
        else
            (void)simple_path(crd_text(c, "jsonPath"), &at_path, e);
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

static bool seen_before(const struct sw_json *list, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (sw_slice_eq(crd_text(sw_json_at(list, k), "jsonPath"),
                        crd_text(sw_json_at(list, i), "jsonPath")))
            return true;
    }
    return false;
}

void sw_crd_check_selectable(const struct sw_json *list, const struct sw_schema *schema,
                             const struct sw_fpath *up, struct sw_field_errs *e)
{
    size_t distinct = 0;

    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *v = sw_json_find(sw_json_at(list, i), "jsonPath");
        struct sw_slice path = crd_text(sw_json_at(list, i), "jsonPath");
        struct sw_fpath item = sw_fpath_index(up, i);
        struct sw_fpath at = sw_fpath_str(&item, "jsonPath");
        const struct sw_schema *s = NULL;
        const char *why = path.n && schema ? bad_field_path(e->arena, schema, path, &s) : NULL;

        if (!path.n) {
            sw_ferr_required(e, &at, NULL);
            continue;
        }
        if (why) {
            sw_ferr_invalid(e, &at, v, sw_arena_printf(e->arena, "is an invalid path: %s", why));
            continue;
        }
        if (sw_slice_has_prefix(path, SW_SLICE_LIT(".metadata.")))
            sw_ferr_invalid(e, &at, v, "must not point to fields in metadata");
        if (s && s->type != SW_T_STRING && s->type != SW_T_BOOLEAN && s->type != SW_T_INTEGER)
            sw_ferr_invalid(e, &at, v,
                            "must point to a field of type string, boolean or integer. Enum "
                            "string fields and strings with formats are allowed.");
        if (seen_before(list, i))
            sw_ferr_duplicate(e, &at, v);
        else
            distinct++;
    }
    if (distinct > SELECTABLE_MAX)
        sw_ferr_too_many(e, up, distinct, SELECTABLE_MAX);
}

void sw_crd_check_warning(const struct sw_json *v, const struct sw_fpath *path,
                          struct sw_field_errs *e)
{
    const struct sw_json *w = sw_json_find(v, "deprecationWarning");
    struct sw_fpath at = sw_fpath_str(path, "deprecationWarning");

    if (!sw_json_is(w, SW_JSON_STRING))
        return;
    if (!sw_json_true(sw_json_find(v, "deprecated"))) {
        sw_ferr_invalid(e, &at, w, "can only be set for deprecated versions");
        return;
    }
    if (w->text.n > WARNING_MAX)
        sw_ferr_invalid(e, &at, w, "must be <= 256 characters long");
    if (!w->text.n)
        sw_ferr_invalid(e, &at, w, "must not be an empty string");
    for (size_t i = 0; i < w->text.n; i++) {
        if ((unsigned char)w->text.p[i] < 0x20 || w->text.p[i] == 0x7f) {
            sw_ferr_invalid(e, &at, w,
                            sw_arena_printf(e->arena,
                                            "must only contain printable UTF-8 characters; "
                                            "non-printable character found at index %zu",
                                            i));
            break;
        }
    }
}
