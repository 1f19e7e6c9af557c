/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a CRD's schema must be like, in the reference's words. Two kinds of checks: those that make
 * a schema structural, and those every schema of a CRD is held to, structural or not. A third looks
 * at defaults, once a schema is known to be structural.
 */
#include "base/search.h"
#include "kube/schema/schema_int.h"

#include <stdlib.h>

/* Bytes that an empty object may become by defaults, and those of a schema together. */
enum { DEFAULT_MAX = 256 << 10, DEFAULTS_MAX = 32 << 20 };

enum level { LEVEL_ROOT, LEVEL_ITEM, LEVEL_FIELD };

bool sw_structural_keywords(const struct sw_at *at)
{
    static const char *const refused[] = {"$ref", "definitions",     "dependencies",
                                          "id",   "additionalItems", "patternProperties"};
    bool known = true;

    for (size_t i = 0; i < SW_ARRAY_LEN(refused); i++) {
        if (!sw_json_find(at->v, refused[i]))
            continue;
        known = false;
        sw_at_forbidden(SW_IN(at, refused[i]),
                        sw_arena_printf(at->e->arena, "%s is not supported", refused[i]));
    }
    if (sw_json_true(sw_json_find(at->v, "uniqueItems")))
        sw_at_forbidden(SW_IN(at, "uniqueItems"),
                        "uniqueItems cannot be set to true since the runtime complexity becomes "
                        "quadratic");
    return known;
}

/* ---- list and map types ---- */

/* 'Invalid value' that shows a type. */
static void invalid_type(const struct sw_at *at, enum sw_stype type, const char *why)
{
    sw_ferr_invalid_str(at->e, &at->path, sw_slice_str(sw_stype_name(type)), why);
}

static void need_type(const struct sw_schema *s, enum sw_stype type, const struct sw_at *node,
                      const char *why)
{
    if (s->type == type)
        return;
    if (s->type == SW_T_NONE)
        sw_at_required(SW_IN(node, "type"), why);
    else
        invalid_type(SW_IN(node, "type"), s->type, why);
}

static void check_map_key(const struct sw_schema *items, struct sw_slice key,
                          const struct sw_at *node)
{
    const struct sw_schema *p = sw_schema_declared(items, key);
    const struct sw_at *at = SW_KEY(SW_IN(node, "items.properties"), key);

    if (!p) {
        sw_at_invalid(SW_IN(node, "x-kubernetes-list-map-keys"),
                      "entries must all be names of item properties");
        return;
    }
    if (p->type == SW_T_OBJECT || p->type == SW_T_ARRAY)
        invalid_type(SW_IN(at, "type"), items->type,
                     "must be a scalar type if parent array's x-kubernetes-list-type is map");
    if (!p->def && !sw_slice_in(key, items->required, items->nrequired))
        sw_at_required(SW_IN(at, "default"),
                       "this property is in x-kubernetes-list-map-keys, so it must have a "
                       "default or be a required property");
    if (p->nullable)
        sw_at_forbidden(SW_IN(at, "nullable"),
                        "this property is in x-kubernetes-list-map-keys, so it cannot be "
                        "nullable");
}

static void check_list_map(const struct sw_schema *s, const struct sw_at *node)
{
    static const char need_map[] = "must be map if x-kubernetes-list-map-keys is non-empty";
    const struct sw_at *keys = SW_IN(node, "x-kubernetes-list-map-keys");
    const struct sw_at *type = SW_IN(node, "x-kubernetes-list-type");
    const struct sw_at *items = SW_IN(node, "items");

    if (s->list_type != SW_LIST_MAP) {
        if (s->nlist_keys && !s->has_list_type)
            sw_at_required(type, need_map);
        else if (s->nlist_keys)
            sw_at_invalid(type, need_map);
        return;
    }
    if (!s->nlist_keys)
        sw_at_required(keys, "must not be empty if x-kubernetes-list-type is map");
    if (!s->items) {
        sw_at_required(items, "must have a schema if x-kubernetes-list-type is map");
        return;
    }
    if (s->items->type != SW_T_OBJECT) {
        invalid_type(SW_IN(items, "type"), s->items->type,
                     "must be object if parent array's x-kubernetes-list-type is map");
        return;
    }
    for (size_t i = 0; i < s->nlist_keys; i++) {
        if (sw_slice_in(s->list_keys[i], s->list_keys, i))
            sw_at_invalid(keys, "must not contain duplicate entries");
        check_map_key(s->items, s->list_keys[i], node);
    }
}

/* Items of a set are compared as a whole. */
static void check_set(const struct sw_schema *items, const struct sw_at *at)
{
    const struct sw_json *shown = sw_json_find(at->v, "x-kubernetes-list-type");
    bool list = items->type == SW_T_ARRAY;

    if ((list && items->list_type != SW_LIST_ATOMIC) ||
        (items->type == SW_T_OBJECT && !items->map_atomic))
        sw_ferr_invalid(at->e,
                        &SW_IN(at, list ? "x-kubernetes-list-type" : "x-kubernetes-map-type")->path,
                        shown, "must be atomic as item of a list with x-kubernetes-list-type=set");
}

static void check_list_type(const struct sw_schema *s, const struct sw_at *node)
{
    static const char *const list_types[] = {"atomic", "set", "map", NULL};
    const struct sw_at *list = SW_IN(node, "x-kubernetes-list-type");
    const struct sw_at *map = SW_IN(node, "x-kubernetes-map-type");
    const struct sw_at *items = SW_IN(node, "items");

    if (list->v && !sw_at_is(list, "atomic") && s->list_type == SW_LIST_ATOMIC)
        sw_ferr_unsupported(list->e, &list->path, list->v, list_types);
    if (list->v)
        need_type(s, SW_T_ARRAY, node, "must be array if x-kubernetes-list-type is specified");
    sw_at_set_one_of(map, "atomic granular");
    if (map->v)
        need_type(s, SW_T_OBJECT, node, "must be object if x-kubernetes-map-type is specified");
    check_list_map(s, node);
    if (s->list_type != SW_LIST_ATOMIC && s->items && s->items->nullable)
        sw_at_forbidden(SW_IN(items, "nullable"),
                        sw_arena_printf(node->e->arena,
                                        "cannot be nullable when x-kubernetes-list-type is %.*s",
                                        SW_SLICE_ARG(sw_at_text(list))));
    if (s->list_type == SW_LIST_SET && s->items)
        check_set(s->items, items);
}

/* ---- value validation below logical junctors ---- */

/* anyOf: [{type: integer}, {type: string}], the one place where nested types are allowed. */
static bool int_or_string_any_of(const struct sw_schema *s)
{
    return s->any_of.n == 2 && s->any_of.p[0]->type == SW_T_INTEGER &&
           s->any_of.p[1]->type == SW_T_STRING;
}

static void check_nested(const struct sw_schema *s, const struct sw_at *at, bool skip_type);

static void check_nested_list(const struct sw_schema_list *l, const struct sw_at *list,
                              bool skip_type)
{
    for (size_t i = 0; i < l->n; i++)
        check_nested(l->p[i], SW_ITEM(list, i), skip_type);
}

static void check_junctors(const struct sw_schema *s, const struct sw_at *at)
{
    check_nested_list(&s->any_of, SW_IN(at, "anyOf"), int_or_string_any_of(s));
    check_nested_list(&s->all_of, SW_IN(at, "allOf"), false);
    check_nested_list(&s->one_of, SW_IN(at, "oneOf"), false);
    if (s->not )
        check_nested(s->not, SW_IN(at, "not"), false);
}

static void forbid_nested(const struct sw_at *node, bool skip_type)
{
    static const struct {
        const char *key;
        const char *text;
    } rules[] = {
        {"type", "must be empty to be structural"},
        {"additionalProperties", "must be undefined to be structural"},
        {"default", "must be undefined to be structural"},
        {"title", "must be empty to be structural"},
        {"description", "must be empty to be structural"},
        {"nullable", "must be false to be structural"},
        {"externalDocs", "must be undefined to be structural"},
        {"x-kubernetes-preserve-unknown-fields", "must be false to be structural"},
        {"x-kubernetes-embedded-resource", "must be false to be structural"},
        {"x-kubernetes-int-or-string", "must be false to be structural"},
        {"x-kubernetes-list-map-keys", "must be empty to be structural"},
        {"x-kubernetes-list-type", "must be undefined to be structural"},
        {"x-kubernetes-map-type", "must be undefined to be structural"},
        {"x-kubernetes-validations", "must be empty to be structural"},
    };

    for (size_t i = skip_type ? 1 : 0; i < SW_ARRAY_LEN(rules); i++) {
        const struct sw_at *at = SW_IN(node, rules[i].key);

        if (at->v && !(sw_json_is(at->v, SW_JSON_BOOL) && !at->v->boolean) &&
            !(sw_json_is(at->v, SW_JSON_STRING) && !at->v->text.n))
            sw_at_forbidden(at, rules[i].text);
    }
}

static void check_nested(const struct sw_schema *s, const struct sw_at *at, bool skip_type)
{
    const struct sw_at *props = SW_IN(at, "properties");

    check_junctors(s, at);
    forbid_nested(at, skip_type);
    if (s->items)
        check_nested(s->items, SW_IN(at, "items"), false);
    for (size_t i = 0; i < s->nprops; i++) {
        const struct sw_at *prop = SW_KEY(props, s->props[i].name);

        check_nested(s->props[i].schema, prop, false);
        if (sw_slice_eq_str(s->props[i].name, "metadata"))
            sw_at_forbidden(prop, "must not be specified in a nested context");
    }
}

static void check_complete(const struct sw_schema *s, const struct sw_schema *nested,
                           const struct sw_at *at, const struct sw_at *in);

static void complete_list(const struct sw_schema *s, const struct sw_schema_list *l,
                          const struct sw_at *at, const struct sw_at *list)
{
    for (size_t i = 0; i < l->n; i++)
        check_complete(s, l->p[i], at, SW_ITEM(list, i));
}

/* The alternatives of one node, which stands at 'in'; fields must be declared at 'at'. */
static void complete_junctors(const struct sw_schema *s, const struct sw_schema *nested,
                              const struct sw_at *at, const struct sw_at *in)
{
    complete_list(s, &nested->all_of, at, SW_IN(in, "allOf"));
    complete_list(s, &nested->any_of, at, SW_IN(in, "anyOf"));
    complete_list(s, &nested->one_of, at, SW_IN(in, "oneOf"));
    if (nested->not )
        check_complete(s, nested->not, at, SW_IN(in, "not"));
}

/* Every field spoken of below a junctor must be declared outside too. */
static void check_complete(const struct sw_schema *s, const struct sw_schema *nested,
                           const struct sw_at *at, const struct sw_at *in)
{
    const struct sw_at *props = SW_IN(at, "properties");
    const struct sw_at *nested_props = SW_IN(in, "properties");

    if (!s) {
        sw_at_required(at, sw_arena_printf(at->e->arena, "because it is defined in %s",
                                           sw_fpath_text(at->e->arena, &in->path)));
        return;
    }
    complete_junctors(s, nested, at, in);
    if (nested->items)
        check_complete(s->items, nested->items, SW_IN(at, "items"), SW_IN(in, "items"));
    for (size_t i = 0; i < nested->nprops; i++) {
        struct sw_slice name = nested->props[i].name;

        check_complete(sw_schema_declared(s, name), nested->props[i].schema, SW_KEY(props, name),
                       SW_KEY(nested_props, name));
    }
}

/* ---- invariants ---- */

static void check_metadata(const struct sw_schema *s, const struct sw_at *node, enum level lvl)
{
    static const char *const strings[] = {"apiVersion", "kind"};
    const struct sw_schema *meta = sw_schema_declared(s, SW_SLICE_LIT("metadata"));
    const struct sw_at *props = SW_IN(node, "properties");
    const struct sw_at *at = SW_KEY(props, SW_SLICE_LIT("metadata"));
    bool ok = true;

    for (size_t i = 0; i < SW_ARRAY_LEN(strings); i++) {
        struct sw_slice name = sw_slice_str(strings[i]);
        const struct sw_schema *p = sw_schema_declared(s, name);

        if (p && p->type != SW_T_STRING)
            invalid_type(SW_IN(SW_KEY(props, name), "type"), p->type, "must be string");
    }
    if (!meta)
        return;
    if (meta->type != SW_T_OBJECT)
        invalid_type(SW_IN(at, "type"), meta->type, "must be object");
    if (lvl != LEVEL_ROOT)
        return;
    for (size_t i = 0; i < meta->nprops; i++)
        ok = ok && (sw_slice_eq_str(meta->props[i].name, "name") ||
                    sw_slice_eq_str(meta->props[i].name, "generateName"));
    SW_JSON_MEMBERS (m, at->v)
        ok = ok && (sw_slice_eq_str(m->key, "type") || sw_slice_eq_str(m->key, "properties") ||
                    sw_slice_eq_str(m->key, "default"));
    if (!ok)
        sw_at_forbidden(at, "must not specify anything other than name and generateName, but "
                            "metadata is implicitly specified");
}

static void check_own_type(const struct sw_schema *s, const struct sw_at *node, enum level lvl)
{
    static const char *const empty[] = {"must not be empty at the root",
                                        "must not be empty for specified array items",
                                        "must not be empty for specified object fields"};
    const struct sw_at *type = SW_IN(node, "type");
    const struct sw_at *additional = SW_IN(node, "additionalProperties");

    if (s->embedded)
        need_type(s, SW_T_OBJECT, node, "must be object if x-kubernetes-embedded-resource is true");
    else if (!sw_at_text(type).n && !s->int_or_string && !s->preserve)
        sw_at_required(type, empty[lvl]);
    if (lvl == LEVEL_ROOT && s->type != SW_T_NONE && s->type != SW_T_OBJECT)
        invalid_type(type, s->type, "must be object at the root");
    if (lvl == LEVEL_ROOT && additional->v)
        sw_at_forbidden(additional, "must not be used at the root");
    if (s->type == SW_T_ARRAY && !s->items)
        sw_at_required(SW_IN(node, "items"), "must be specified");
    if (s->embedded && additional->v)
        sw_at_forbidden(additional, "must not be used if x-kubernetes-embedded-resource is set");
    if (s->embedded && !s->preserve && !s->nprops)
        sw_at_required(SW_IN(node, "properties"),
                       "must not be empty if x-kubernetes-embedded-resource is true without "
                       "x-kubernetes-preserve-unknown-fields");
}

static void check_extensions(const struct sw_schema *s, const struct sw_at *node)
{
    static const char why[] = "must be false if x-kubernetes-int-or-string is true";

    if (s->int_or_string && s->preserve)
        sw_at_invalid(SW_IN(node, "x-kubernetes-preserve-unknown-fields"), why);
    if (s->int_or_string && s->embedded)
        sw_at_invalid(SW_IN(node, "x-kubernetes-embedded-resource"), why);
}

static void check_node(const struct sw_schema *s, const struct sw_at *at, enum level lvl)
{
    const struct sw_at *props = SW_IN(at, "properties");

    check_own_type(s, at, lvl);
    check_extensions(s, at);
    if (lvl == LEVEL_ROOT || s->embedded)
        check_metadata(s, at, lvl);
    check_junctors(s, at);
    complete_junctors(s, s, at, at);
    if (s->items)
        check_node(s->items, SW_IN(at, "items"), LEVEL_ITEM);
    if (s->additional)
        check_node(s->additional, SW_IN(at, "additionalProperties"), LEVEL_FIELD);
    for (size_t i = 0; i < s->nprops; i++)
        check_node(s->props[i].schema, SW_KEY(props, s->props[i].name), LEVEL_FIELD);
}

static int by_text(const void *x, const void *y)
{
    const struct sw_field_err *p = x;
    const struct sw_field_err *q = y;
    int c = strcmp(p->field, q->field);

    return c ? c : strcmp(p->text, q->text);
}

void sw_structural_check(const struct sw_schema *s, const struct sw_at *at)
{
    struct sw_field_errs *e = at->e;
    size_t before = e->n;

    check_node(s, at, LEVEL_ROOT);
    if (e->n > before)
        qsort(e->p + before, e->n - before, sizeof(*e->p), by_text);
}

/* ---- what every schema is held to ---- */

static void general_node(const struct sw_schema *s, const struct sw_at *at, enum level lvl,
                         const char *no_default)
{
    const struct sw_at *preserve = SW_IN(at, "x-kubernetes-preserve-unknown-fields");
    const struct sw_at *props = SW_IN(at, "properties");

    if (s->def && no_default)
        sw_at_forbidden(SW_IN(at, "default"), no_default);
    if (preserve->v && !sw_json_true(preserve->v))
        sw_at_invalid(preserve, "must be true or undefined");
    check_list_type(s, at);
    if (s->items)
        general_node(s->items, SW_IN(at, "items"), LEVEL_ITEM, no_default);
    if (s->additional)
        general_node(s->additional, SW_IN(at, "additionalProperties"), LEVEL_FIELD, no_default);
    for (size_t i = 0; i < s->nprops; i++) {
        struct sw_slice name = s->props[i].name;
        const char *why = no_default;

        if (lvl == LEVEL_ROOT &&
            (sw_slice_eq_str(name, "metadata") || sw_slice_eq_str(name, "kind") ||
             sw_slice_eq_str(name, "apiVersion")))
            why = sw_arena_printf(at->e->arena, "must not be set in top-level %.*s",
                                  SW_SLICE_ARG(name));
        general_node(s->props[i].schema, SW_KEY(props, name), LEVEL_FIELD, why);
    }
}

void sw_structural_general(const struct sw_schema *s, const struct sw_at *at)
{
    general_node(s, at, LEVEL_ROOT, NULL);
}

/* ---- defaults ---- */

/* Fills a default with those inside of it; false, with an error, when that is too much. */
static bool expands(struct sw_json *v, const struct sw_schema *s, struct sw_budget *all,
                    const struct sw_at *at)
{
    struct sw_budget b = {.bytes = sw_min(all->bytes, DEFAULT_MAX)};
    uint64_t had = b.bytes;
    const char *where;

    if (all->spent)
        return false;
    if (!sw_schema_default_within(at->e->arena, v, s, &b, &where)) {
        all->spent = true;
        sw_at_forbidden(at, sw_arena_printf(at->e->arena,
                                            "defaults of an object under this one expand to too "
                                            "much, at %s",
                                            where));
        return false;
    }
    all->bytes -= had - b.bytes;
    return true;
}

static void check_default(const struct sw_schema *s, const struct sw_at *at, struct sw_budget *b)
{
    struct sw_arena *a = at->e->arena;
    struct sw_json *copy;

    if (!s->def || s->def->type == SW_JSON_NULL)
        return;
    if (sw_schema_prune_part(sw_json_copy(a, s->def), s))
        sw_ferr_invalid(at->e, &at->path, s->def, "must not have unknown fields");
    copy = sw_json_copy(a, s->def);
    if (!expands(copy, s, b, at))
        return;
    sw_schema_validate_embedded(s, copy, &at->path, at->e);
    sw_schema_validate(s, copy, NULL, &at->path, at->e);
}

static void check_defaults(const struct sw_schema *s, const struct sw_at *at, struct sw_budget *b)
{
    const struct sw_at *props = SW_IN(at, "properties");

    check_default(s, SW_IN(at, "default"), b);
    if (s->type == SW_T_OBJECT)
        (void)expands(sw_json_new_object(at->e->arena), s, b, at);
    if (s->items)
        check_defaults(s->items, SW_IN(at, "items"), b);
    if (s->additional)
        check_defaults(s->additional, SW_IN(at, "additionalProperties"), b);
    for (size_t i = 0; i < s->nprops; i++)
        check_defaults(s->props[i].schema, SW_KEY(props, s->props[i].name), b);
}

void sw_structural_defaults(const struct sw_schema *s, const struct sw_at *at)
{
    struct sw_budget b = {.bytes = DEFAULTS_MAX};

    check_defaults(s, at, &b);
}
