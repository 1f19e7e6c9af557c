/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding of whole objects inside custom resources (x-kubernetes-embedded-resource). */
#include "kube/builtin/builtin.h"

struct coercion {
    struct sw_arena *a;
    struct sw_texts *unknown; /* may be NULL */
    const char *why;
};

/* apiVersion and kind are text, metadata is decoded as that of any object. */
static bool coerce_resource(struct coercion *c, struct sw_json *v, const struct sw_fpath *path)
{
    static const char *const keys[] = {"apiVersion", "kind"};
    struct sw_texts unknown = {.arena = c->a};
    const char *prefix = sw_fpath_text(c->a, path);
    struct sw_json *meta = sw_json_find(v, "metadata");
    const char *why = "";

    for (size_t i = 0; i < SW_ARRAY_LEN(keys); i++) {
        const struct sw_json *x = sw_json_find(v, keys[i]);

        if (x && x->type != SW_JSON_STRING) {
            c->why = sw_arena_printf(c->a, "%s.%s: Invalid value: %s: must be a string", prefix,
                                     keys[i], sw_go_value(c->a, x));
            return false;
        }
    }
    if (sw_meta_decode(c->a, v, &unknown, &why) < 0) {
        c->why = sw_arena_printf(c->a, "%s.metadata: Invalid value: %s: %s", prefix,
                                 sw_go_value(c->a, meta), why);
        return false;
    }
    for (size_t i = 0; c->unknown && i < unknown.n; i++)
        sw_texts_add(c->unknown, sw_arena_printf(c->a, "%s.%s", prefix, unknown.p[i]));
    if (sw_json_is(sw_json_find(meta, "creationTimestamp"), SW_JSON_NULL))
        (void)sw_json_remove(meta, SW_SLICE_LIT("creationTimestamp"));
    return true;
}

static bool coerce(struct coercion *c, const struct sw_schema *s, struct sw_json *v,
                   const struct sw_fpath *path)
{
    if (v->type == SW_JSON_OBJECT && s->embedded && !coerce_resource(c, v, path))
        return false;
    for (size_t i = 0; v->type == SW_JSON_ARRAY && s->items && i < sw_json_len(v); i++) {
        struct sw_fpath at = sw_fpath_index(path, i);

        if (!coerce(c, s->items, sw_json_at(v, i), &at))
            return false;
    }
    SW_JSON_MEMBERS (m, v) {
        const struct sw_schema *p = sw_schema_prop(s, m->key);
        struct sw_fpath at = sw_fpath_field(path, m->key);

        if (p && !coerce(c, p, m->value, &at))
            return false;
    }
    return true;
}

int sw_embedded_decode(struct sw_arena *a, struct sw_json *v, const struct sw_schema *root,
                       struct sw_texts *unknown, const char **ret_why)
{
    struct coercion c = {.a = a, .unknown = unknown};

    if (coerce(&c, root, v, NULL))
        return SW_OK;
    *ret_why = c.why;
    return SW_EINVAL;
}
