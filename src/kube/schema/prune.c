/* SPDX-License-Identifier: Apache-2.0 */
/* Pruning, null removal and defaulting of objects against a structural schema. */
#include "kube/errs.h"
#include "kube/schema/schema.h"

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

    SW_JSON_MEMBERS (m, v) {
        struct sw_fpath at = sw_fpath_field(path, m->key);
        const struct sw_schema *p = sw_schema_prop(s, m->key);

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
    SW_JSON_MEMBERS (m, v) {
        const struct sw_schema *p = sw_schema_prop(s, m->key);

        if (p)
            sw_schema_drop_nulls(m->value, p);
    }
}

static bool missing(const struct sw_json *v, const struct sw_schema *s)
{
    return !v || (v->type == SW_JSON_NULL && !s->nullable);
}

struct defaulter {
    struct sw_arena *a;
    struct sw_budget *budget;
    const char *where; /* the budget ended; NULL: it has not */
};

static void fill(struct defaulter *d, struct sw_json *v, const struct sw_schema *s,
                 const struct sw_fpath *path);

/* Bytes of a tree in memory, about. */
static size_t weight(const struct sw_json *v)
{
    size_t n = 2 * sizeof(*v);

    if (v->type == SW_JSON_STRING || v->type == SW_JSON_NUMBER)
        return n + v->text.n;
    SW_JSON_ITEMS (item, v)
        n += weight(item);
    SW_JSON_MEMBERS (m, v)
        n += sizeof(*m) + weight(m->value);
    return n;
}

/* A copy of a default, paid for; NULL when there is nothing left to pay with. */
static struct sw_json *copy_default(struct defaulter *d, const struct sw_schema *s,
                                    const struct sw_fpath *path)
{
    if (sw_budget_bytes(d->budget, weight(s->def)))
        return sw_json_copy(d->a, s->def);
    if (!d->where)
        d->where = sw_fpath_text(d->a, path);
    return NULL;
}

static void fill_null(struct defaulter *d, struct sw_json *v, const struct sw_schema *s,
                      const struct sw_fpath *path)
{
    struct sw_json *copy = NULL;

    if (v->type == SW_JSON_NULL && s->def && !s->nullable)
        copy = copy_default(d, s, path);
    if (copy)
        *v = *copy;
    fill(d, v, s, path);
}

static void fill_object(struct defaulter *d, struct sw_json *v, const struct sw_schema *s,
                        const struct sw_fpath *path)
{
    for (size_t i = 0; i < s->nprops && !d->where; i++) {
        const struct sw_schema *p = s->props[i].schema;
        struct sw_fpath at = sw_fpath_field(path, s->props[i].name);
        struct sw_json *copy = NULL;

        if (p->def && missing(sw_json_get(v, s->props[i].name), p))
            copy = copy_default(d, p, &at);
        if (copy)
            sw_json_set(d->a, v, s->props[i].name, copy);
    }
    SW_JSON_MEMBERS (m, v) {
        const struct sw_schema *p = sw_schema_declared(s, m->key);
        struct sw_fpath at = sw_fpath_field(path, m->key);

        if (d->where)
            return;
        if (p)
            fill(d, m->value, p, &at);
        else if (s->additional)
            fill_null(d, m->value, s->additional, &at);
    }
}

static void fill(struct defaulter *d, struct sw_json *v, const struct sw_schema *s,
                 const struct sw_fpath *path)
{
    size_t n = sw_json_len(v);

    if (sw_json_is(v, SW_JSON_OBJECT) && !(s->max_props >= 0 && n > (size_t)s->max_props)) {
        fill_object(d, v, s, path);
    } else if (sw_json_is(v, SW_JSON_ARRAY) && s->items &&
               !(s->max_items >= 0 && n > (size_t)s->max_items)) {
        for (size_t i = 0; i < n && !d->where; i++) {
            struct sw_fpath at = sw_fpath_index(path, i);

            fill_null(d, sw_json_at(v, i), s->items, &at);
        }
    }
}

bool sw_schema_default_within(struct sw_arena *a, struct sw_json *v, const struct sw_schema *s,
                              struct sw_budget *b, const char **ret_where)
{
    struct defaulter d = {.a = a, .budget = b};

    fill(&d, v, s, NULL);
    if (d.where)
        *ret_where = d.where;
    return !d.where;
}

void sw_schema_default(struct sw_arena *a, struct sw_json *v, const struct sw_schema *s)
{
    struct sw_budget b = {.bytes = SW_DEFAULT_BYTES};
    const char *where;

    (void)!sw_schema_default_within(a, v, s, &b, &where);
}
