/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of whole objects inside custom resources (x-kubernetes-embedded-resource). */
#include "kube/names.h"
#include "kube/schema/meta.h"
#include "kube/schema/schema.h"
#include "kube/text.h"

static void check_version_text(const struct sw_json *x, const struct sw_fpath *at,
                               struct sw_field_errs *e)
{
    size_t slashes = 0;

    for (size_t i = 0; i < x->text.n; i++)
        slashes += x->text.p[i] == '/';
    if (slashes > 1)
        sw_ferr_invalid(e, at, x,
                        sw_arena_printf(e->arena, "unexpected GroupVersion string: %.*s",
                                        SW_SLICE_ARG(x->text)));
}

static void check_kind_text(const struct sw_json *x, const struct sw_fpath *at,
                            struct sw_field_errs *e)
{
    struct sw_name_msgs m = sw_name_dns1035_label(sw_tx_lower_dup(e->arena, x->text));

    if (m.n)
        sw_ferr_invalid(e, at, x,
                        sw_arena_printf(e->arena,
                                        "may have mixed case, but should otherwise match: %s",
                                        sw_name_join(e->arena, m, ",")));
}

/* Names inside an embedded resource are only held to what a path can carry. */
static struct sw_name_msgs any_name(struct sw_slice s)
{
    return (struct sw_name_msgs){0};
}

static void check_embedded_meta(const struct sw_json *v, const struct sw_fpath *path,
                                struct sw_field_errs *e)
{
    struct sw_json *obj = sw_json_copy(e->arena, v);
    struct sw_json *meta = sw_json_find(obj, "metadata");
    struct sw_field_errs found;
    const char *prefix = path ? sw_fpath_text(e->arena, path) : "";

    if (!sw_json_str(sw_json_find(meta, "name")).n)
        sw_json_put_str(e->arena, meta, "name", SW_SLICE_LIT("fakename"));
    sw_field_errs_init(&found, e->arena);
    sw_meta_validate(obj, sw_json_str(sw_json_find(meta, "namespace")).n > 0, any_name, &found);
    for (size_t i = 0; i < found.n; i++) {
        struct sw_fpath at =
            sw_fpath_str(NULL, sw_arena_printf(e->arena, "%s%s%s", prefix, *prefix ? "." : "",
                                               found.p[i].field));

        sw_ferr(e, found.p[i].cause, &at, found.p[i].text);
    }
}

static void check_resource(const struct sw_schema *s, const struct sw_json *v,
                           const struct sw_fpath *path, struct sw_field_errs *e)
{
    static const char *const keys[] = {"apiVersion", "kind"};
    const struct sw_json *meta = sw_json_find(v, "metadata");
    struct sw_fpath at_meta = sw_fpath_str(path, "metadata");

    if (v->type != SW_JSON_OBJECT || !s->embedded)
        return;
    for (size_t i = 0; i < SW_ARRAY_LEN(keys); i++) {
        const struct sw_json *x = sw_json_find(v, keys[i]);
        struct sw_fpath at = sw_fpath_str(path, keys[i]);

        if (!x)
            sw_ferr_required(e, &at, "must not be empty");
        else if (x->type != SW_JSON_STRING)
            sw_ferr_invalid(e, &at, x, "must be a string");
        else if (!x->text.n)
            sw_ferr_invalid(e, &at, x, "must not be empty");
        else if (i == 0)
            check_version_text(x, &at, e);
        else
            check_kind_text(x, &at, e);
    }
    if (meta && meta->type != SW_JSON_OBJECT)
        sw_ferr_invalid(e, &at_meta, meta, "must be an object");
    else if (meta)
        check_embedded_meta(v, path, e);
}

void sw_schema_validate_embedded(const struct sw_schema *s, const struct sw_json *v,
                                 const struct sw_fpath *path, struct sw_field_errs *e)
{
    sw_schema_each(s, v, path, e, check_resource);
}
