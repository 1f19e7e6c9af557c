/* SPDX-License-Identifier: Apache-2.0 */
/* How large and how small values of a schema can be, within the bounds of one request. */
#include "kube/cel/cost.h"

enum {
    REQUEST_MAX = 3 * 1024 * 1024, /* bytes */
    TEXT_MAX = REQUEST_MAX - 2,    /* of a string without maxLength: all but the quotes */
};

#define NO_BOUNDS                                                                                  \
    .min_len = -1, .max_len = -1, .min_items = -1, .max_items = -1, .min_props = -1, .max_props = -1

/* What rules of a resource see of apiVersion, kind and metadata, whatever its schema says. */
static struct sw_schema plain_string = {.type = SW_T_STRING, NO_BOUNDS};
static struct sw_prop plain_names[] = {{{"generateName", 12}, &plain_string},
                                       {{"name", 4}, &plain_string}};
static struct sw_schema plain_meta = {
    .type = SW_T_OBJECT, .props = plain_names, .nprops = 2, NO_BOUNDS};

static bool is_string(const struct sw_schema *s, const char *name)
{
    const struct sw_schema *p = sw_schema_declared(s, sw_slice_str(name));

    return p && p->type == SW_T_STRING;
}

/* A schema that declares all of the type and object metadata is taken as it is. */
static bool declares_meta(const struct sw_schema *s)
{
    const struct sw_schema *meta = sw_schema_declared(s, SW_SLICE_LIT("metadata"));

    return is_string(s, "kind") && is_string(s, "apiVersion") && meta &&
           meta->type == SW_T_OBJECT && is_string(meta, "name") && is_string(meta, "generateName");
}

static const struct sw_schema *meta_field(struct sw_slice name)
{
    if (sw_slice_eq_str(name, "kind") || sw_slice_eq_str(name, "apiVersion"))
        return &plain_string;
    return sw_slice_eq_str(name, "metadata") ? &plain_meta : NULL;
}

static const struct sw_schema *field(const struct sw_schema *s, bool resource, struct sw_slice name)
{
    const struct sw_schema *m = resource && !declares_meta(s) ? meta_field(name) : NULL;

    return m ? m : sw_schema_declared(s, name);
}

/* Whether rules can see values of the schema at all. */
static bool exposed(const struct sw_schema *s)
{
    if (s->int_or_string)
        return true;
    if (s->type == SW_T_ARRAY)
        return s->items && exposed(s->items);
    if (s->type == SW_T_OBJECT)
        return !s->additional || exposed(s->additional);
    return s->type != SW_T_NONE;
}

static bool is_required(const struct sw_schema *s, struct sw_slice name)
{
    for (size_t i = 0; i < s->nrequired; i++) {
        if (sw_slice_eq(s->required[i], name))
            return true;
    }
    return false;
}

static uint64_t min_size(const struct sw_schema *s, bool resource);

/* "{}" and every field that has to be sent. */
static uint64_t object_min_size(const struct sw_schema *s, bool resource)
{
    static const char *const meta[] = {"apiVersion", "kind", "metadata"};
    bool more = resource && !declares_meta(s);
    uint64_t n = 2;

    for (size_t i = 0; i < s->nprops; i++) {
        const struct sw_schema *p = s->props[i].schema;
        struct sw_slice name = s->props[i].name;

        if ((more && meta_field(name)) || !is_required(s, name) || !exposed(p) ||
            (p->def && p->def->type != SW_JSON_NULL))
            continue;
        n += name.n + min_size(p, p->embedded) + 4;
    }
    for (size_t i = 0; more && i < SW_ARRAY_LEN(meta); i++) {
        if (is_required(s, sw_slice_str(meta[i])))
            n += strlen(meta[i]) + 2 + 4;
    }
    return n;
}

static uint64_t min_size(const struct sw_schema *s, bool resource)
{
    if (s->int_or_string)
        return 1;
    switch (s->type) {
    case SW_T_ARRAY:
        return 2;
    case SW_T_OBJECT:
        return s->additional ? 2 : object_min_size(s, resource);
    case SW_T_STRING:
        return sw_slice_eq_str(s->format, "duration")    ? 3
               : sw_slice_eq_str(s->format, "date")      ? 12
               : sw_slice_eq_str(s->format, "date-time") ? 21
                                                         : 2;
    case SW_T_BOOLEAN:
        return 4;
    case SW_T_NONE:
    case SW_T_INTEGER:
    case SW_T_NUMBER:
        break;
    }
    return 1;
}

static uint64_t longest_enum(const struct sw_schema *s)
{
    uint64_t n = 0;

    SW_JSON_ITEMS (item, s->enums)
        n = sw_max(n, (uint64_t)sw_json_str(item).n);
    return n;
}

static uint64_t text_max(const struct sw_schema *s)
{
    if (sw_slice_eq_str(s->format, "duration") || sw_slice_eq_str(s->format, "date-time"))
        return 32;
    if (sw_slice_eq_str(s->format, "date"))
        return 12;
    if (sw_slice_eq_str(s->format, "byte"))
        return s->max_len >= 0 ? (uint64_t)s->max_len : TEXT_MAX;
    if (s->max_len >= 0)
        return cel_mul((uint64_t)s->max_len, 4); /* runes, in bytes */
    return sw_json_len(s->enums) ? longest_enum(s) : TEXT_MAX;
}

/* Runes, bytes, items or entries; 0 for everything else. */
static uint64_t max_elements(const struct sw_schema *s)
{
    if (s->int_or_string)
        return TEXT_MAX;
    if (s->type == SW_T_ARRAY)
        return s->max_items >= 0 ? (uint64_t)s->max_items
                                 : TEXT_MAX / (min_size(s->items, s->items->embedded) + 1);
    if (s->type == SW_T_OBJECT && s->additional)
        return s->max_props >= 0
                   ? (uint64_t)s->max_props
                   : TEXT_MAX / (min_size(s->additional, s->additional->embedded) + 6);
    return s->type == SW_T_STRING ? text_max(s) : 0;
}

/* One step down; NULL: nothing that rules can see. */
static const struct sw_schema *step(const struct sw_schema *s, bool resource, struct sw_slice name)
{
    const struct sw_schema *p;

    if (s->int_or_string)
        return NULL;
    if (sw_slice_eq_str(name, "@items") || sw_slice_eq_str(name, "@values"))
        p = s->type == SW_T_ARRAY ? s->items : s->type == SW_T_OBJECT ? s->additional : NULL;
    else
        p = s->type == SW_T_OBJECT && !s->additional ? field(s, resource, name) : NULL;
    return p && exposed(p) ? p : NULL;
}

bool cel_decl_size(const struct sw_cel *c, const struct cel_path *path, struct cel_span *ret)
{
    const struct sw_schema *s = c->self;
    bool resource = (c->flags & SW_CEL_RESOURCE) != 0;

    if (!path->n || !s)
        return false;
    for (size_t i = 1; i < path->n; i++) {
        if (sw_slice_eq_str(path->p[i], "@keys")) {
            /* Keys have no size of their own in the reference, and nothing below them. */
            if (s->type != SW_T_OBJECT || !s->additional || s->int_or_string || i + 1 < path->n)
                return false;
            *ret = (struct cel_span){0, 0};
            return true;
        }
        s = step(s, resource, path->p[i]);
        if (!s)
            return false;
        resource = s->embedded;
    }
    *ret = (struct cel_span){0, max_elements(s)};
    return true;
}

uint64_t sw_cel_cardinality(const struct sw_schema *s, bool resource)
{
    return REQUEST_MAX / (min_size(s, resource) + 1);
}
