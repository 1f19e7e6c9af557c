/* SPDX-License-Identifier: Apache-2.0 */
/* Pruning, null removal and defaulting of objects against a structural schema. */
#include "kube/errs.h"
#include "kube/schema.h"

enum { UNKNOWN_MAX = 100 };

static void note(struct sw_texts *unknown, const struct sw_fpath *at)
{
    if (unknown && unknown->n < UNKNOWN_MAX)
        sw_texts_add(unknown, sw_fpath_text(unknown->arena, at));
}

static bool resource_key(struct sw_slice key)
{
    return sw_slice_eq_str(key, "apiVersion") || sw_slice_eq_str(key, "kind") ||
           sw_slice_eq_str(key, "metadata");
}

static void prune(struct sw_json *v, const struct sw_schema *s, bool resource,
                  const struct sw_fpath *path, struct sw_texts *unknown);

struct declared {
    const struct sw_schema *schema;
    bool resource;
};

static bool is_declared(const struct sw_json_member *m, const void *arg)
{
    const struct declared *d = arg;

    return (d->resource && resource_key(m->key)) || sw_schema_prop(d->schema, m->key) != NULL;
}

static void prune_object(struct sw_json *v, const struct sw_schema *s, bool resource,
                         const struct sw_fpath *path, struct sw_texts *unknown)
{
    bool strict = !s->preserve && !s->additional_any;

    for (size_t i = 0; i < sw_json_len(v); i++) {
        const struct sw_json_member *m = sw_json_member_at(v, i);
        struct sw_fpath at;
        const struct sw_schema *p;

        if (!m)
            break;
        at = sw_fpath_field(path, m->key);
        p = sw_schema_prop(s, m->key);
        if (resource && resource_key(m->key))
            continue;
        if (p)
            prune(m->value, p, p->embedded, &at, unknown);
        else if (strict)
            note(unknown, &at);
    }
    if (strict)
        (void)sw_json_filter(v, is_declared, &(struct declared){s, resource});
}

static void prune(struct sw_json *v, const struct sw_schema *s, bool resource,
                  const struct sw_fpath *path, struct sw_texts *unknown)
{
    if (v->type == SW_JSON_OBJECT) {
        prune_object(v, s, resource, path, unknown);
    } else if (v->type == SW_JSON_ARRAY && s->items) {
        for (size_t i = 0; i < sw_json_len(v); i++) {
            struct sw_fpath at = sw_fpath_index(path, i);

            prune(sw_json_at(v, i), s->items, s->items->embedded, &at, unknown);
        }
    }
}

void sw_schema_prune(struct sw_json *v, const struct sw_schema *root, struct sw_texts *unknown)
{
    prune(v, root, true, NULL, unknown);
}

bool sw_schema_prune_part(struct sw_json *v, const struct sw_schema *s)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_texts unknown = {.arena = &tmp};

    prune(v, s, s->embedded, NULL, &unknown);
    return unknown.n > 0;
}

static bool may_be_null(const struct sw_json_member *m, const void *schema)
{
    const struct sw_schema *p = sw_schema_prop(schema, m->key);

    return !p || m->value->type != SW_JSON_NULL || p->nullable;
}

void sw_schema_drop_nulls(struct sw_json *v, const struct sw_schema *s)
{
    if (v->type == SW_JSON_ARRAY) {
        for (size_t i = 0; s->items && i < sw_json_len(v); i++)
            sw_schema_drop_nulls(sw_json_at(v, i), s->items);
        return;
    }
    (void)sw_json_filter(v, may_be_null, s);
    for (size_t i = 0; i < sw_json_len(v); i++) {
        const struct sw_json_member *m = sw_json_member_at(v, i);
        const struct sw_schema *p = m ? sw_schema_prop(s, m->key) : NULL;

        if (p)
            sw_schema_drop_nulls(m->value, p);
    }
}

static bool missing(const struct sw_json *v, const struct sw_schema *s)
{
    return !v || (v->type == SW_JSON_NULL && !s->nullable);
}

static void default_object(struct sw_arena *a, struct sw_json *v, const struct sw_schema *s)
{
    for (size_t i = 0; i < s->nprops; i++) {
        const struct sw_schema *p = s->props[i].schema;

        if (p->def && missing(sw_json_get(v, s->props[i].name), p))
            sw_json_set(a, v, s->props[i].name, sw_json_copy(a, p->def));
    }
    for (size_t i = 0; i < sw_json_len(v); i++) {
        const struct sw_json_member *m = sw_json_member_at(v, i);
        const struct sw_schema *p = m ? sw_schema_declared(s, m->key) : NULL;

        if (!m)
            break;
        if (p) {
            sw_schema_default(a, m->value, p);
        } else if (s->additional) {
            if (m->value->type == SW_JSON_NULL && s->additional->def && !s->additional->nullable)
                *m->value = *sw_json_copy(a, s->additional->def);
            sw_schema_default(a, m->value, s->additional);
        }
    }
}

void sw_schema_default(struct sw_arena *a, struct sw_json *v, const struct sw_schema *s)
{
    if (v->type == SW_JSON_OBJECT) {
        default_object(a, v, s);
    } else if (v->type == SW_JSON_ARRAY && s->items) {
        for (size_t i = 0; i < sw_json_len(v); i++) {
            struct sw_json *item = sw_json_at(v, i);

            if (item->type == SW_JSON_NULL && s->items->def && !s->items->nullable)
                *item = *sw_json_copy(a, s->items->def);
            sw_schema_default(a, item, s->items);
        }
    }
}
