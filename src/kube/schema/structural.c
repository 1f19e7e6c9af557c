/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a CRD's schema must be like, in the reference's words. Two kinds of checks: those that make
 * a schema structural, and those every schema of a CRD is held to, structural or not. A third looks
 * at defaults, once a schema is known to be structural.
 */
#include "kube/schema/schema_int.h"

#include <stdlib.h>

/* Bytes that an empty object may become by defaults, and those of a schema together. */
enum { DEFAULT_MAX = 256 << 10, DEFAULTS_MAX = 32 << 20 };

enum level { LEVEL_ROOT, LEVEL_ITEM, LEVEL_FIELD };

bool sw_structural_keywords(const struct sw_json *v, const struct sw_fpath *path,
                            struct sw_field_errs *e)
{
    size_t before = e->n;
    bool known;

    static const struct {
        const char *key;
        const char *text;
    } refused[] = {
        {"$ref", "$ref is not supported"},
        {"definitions", "definitions is not supported"},
        {"dependencies", "dependencies is not supported"},
        {"id", "id is not supported"},
        {"additionalItems", "additionalItems is not supported"},
        {"patternProperties", "patternProperties is not supported"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(refused); i++) {
        if (sw_json_find(v, refused[i].key)) {
            struct sw_fpath at = sw_fpath_str(path, refused[i].key);

            sw_ferr_forbidden(e, &at, refused[i].text);
        }
    }
    known = e->n == before;
    if (sw_json_true(sw_json_find(v, "uniqueItems"))) {
        struct sw_fpath at = sw_fpath_str(path, "uniqueItems");

        sw_ferr_forbidden(e, &at,
                          "uniqueItems cannot be set to true since the runtime complexity becomes "
                          "quadratic");
    }
    return known;
}

/* ---- list and map types ---- */

static void need_type(const struct sw_schema *s, enum sw_stype type, const struct sw_fpath *path,
                      const char *why, struct sw_field_errs *e)
{
    struct sw_fpath at = sw_fpath_str(path, "type");

    if (s->type == type)
        return;
    if (s->type == SW_T_NONE)
        sw_ferr_required(e, &at, why);
    else
        sw_ferr_invalid_str(e, &at, sw_slice_str(sw_stype_name(s->type)), why);
}

static bool in_list(const struct sw_slice *p, size_t n, struct sw_slice name)
{
    for (size_t i = 0; i < n; i++) {
        if (sw_slice_eq(p[i], name))
            return true;
    }
    return false;
}

static void check_map_key(const struct sw_schema *items, struct sw_slice key,
                          const struct sw_fpath *path, const struct sw_json *keys,
                          struct sw_field_errs *e)
{
    const struct sw_schema *p = sw_schema_declared(items, key);
    struct sw_fpath at_keys = sw_fpath_str(path, "x-kubernetes-list-map-keys");
    struct sw_fpath at_items = sw_fpath_str(path, "items");
    struct sw_fpath at_props = sw_fpath_str(&at_items, "properties");
    struct sw_fpath at = sw_fpath_key(&at_props, key);
    struct sw_fpath at_type = sw_fpath_str(&at, "type");
    struct sw_fpath at_default = sw_fpath_str(&at, "default");
    struct sw_fpath at_null = sw_fpath_str(&at, "nullable");

    if (!p) {
        sw_ferr_invalid(e, &at_keys, keys, "entries must all be names of item properties");
        return;
    }
    if (p->type == SW_T_OBJECT || p->type == SW_T_ARRAY)
        sw_ferr_invalid_str(
            e, &at_type, sw_slice_str(sw_stype_name(items->type)),
            "must be a scalar type if parent array's x-kubernetes-list-type is map");
    if (!p->def && !in_list(items->required, items->nrequired, key))
        sw_ferr_required(e, &at_default,
                         "this property is in x-kubernetes-list-map-keys, so it must have a "
                         "default or be a required property");
    if (p->nullable)
        sw_ferr_forbidden(e, &at_null,
                          "this property is in x-kubernetes-list-map-keys, so it cannot be "
                          "nullable");
}

static void check_list_map(const struct sw_schema *s, const struct sw_json *v,
                           const struct sw_fpath *path, struct sw_field_errs *e)
{
    const struct sw_json *keys = sw_json_find(v, "x-kubernetes-list-map-keys");
    struct sw_fpath at_keys = sw_fpath_str(path, "x-kubernetes-list-map-keys");
    struct sw_fpath at_lt = sw_fpath_str(path, "x-kubernetes-list-type");
    struct sw_fpath at_items = sw_fpath_str(path, "items");
    struct sw_fpath at_type = sw_fpath_str(&at_items, "type");
    static const char need_map[] = "must be map if x-kubernetes-list-map-keys is non-empty";

    if (s->list_type != SW_LIST_MAP) {
        if (s->nlist_keys && !s->has_list_type)
            sw_ferr_required(e, &at_lt, need_map);
        else if (s->nlist_keys)
            sw_ferr_invalid(e, &at_lt, sw_json_find(v, "x-kubernetes-list-type"), need_map);
        return;
    }
    if (!s->nlist_keys)
        sw_ferr_required(e, &at_keys, "must not be empty if x-kubernetes-list-type is map");
    if (!s->items) {
        sw_ferr_required(e, &at_items, "must have a schema if x-kubernetes-list-type is map");
        return;
    }
    if (s->items->type != SW_T_OBJECT) {
        sw_ferr_invalid_str(e, &at_type, sw_slice_str(sw_stype_name(s->items->type)),
                            "must be object if parent array's x-kubernetes-list-type is map");
        return;
    }
    for (size_t i = 0; i < s->nlist_keys; i++) {
        if (in_list(s->list_keys, i, s->list_keys[i]))
            sw_ferr_invalid(e, &at_keys, keys, "must not contain duplicate entries");
        check_map_key(s->items, s->list_keys[i], path, keys, e);
    }
}

static void check_list_type(const struct sw_schema *s, const struct sw_json *v,
                            const struct sw_fpath *path, struct sw_field_errs *e)
{
    static const char *const list_types[] = {"atomic", "set", "map", NULL};
    static const char *const map_types[] = {"atomic", "granular", NULL};
    const struct sw_json *lt = sw_json_find(v, "x-kubernetes-list-type");
    const struct sw_json *mt = sw_json_find(v, "x-kubernetes-map-type");
    struct sw_fpath at_lt = sw_fpath_str(path, "x-kubernetes-list-type");
    struct sw_fpath at_mt = sw_fpath_str(path, "x-kubernetes-map-type");
    struct sw_fpath at_items = sw_fpath_str(path, "items");
    struct sw_fpath at_null = sw_fpath_str(&at_items, "nullable");

    if (lt && !sw_json_str_eq(lt, "atomic") && s->list_type == SW_LIST_ATOMIC)
        sw_ferr_unsupported(e, &at_lt, lt, list_types);
    if (lt)
        need_type(s, SW_T_ARRAY, path, "must be array if x-kubernetes-list-type is specified", e);
    if (mt && !sw_json_str_eq(mt, "atomic") && !sw_json_str_eq(mt, "granular"))
        sw_ferr_unsupported(e, &at_mt, mt, map_types);
    if (mt)
        need_type(s, SW_T_OBJECT, path, "must be object if x-kubernetes-map-type is specified", e);
    check_list_map(s, v, path, e);
    if (s->list_type != SW_LIST_ATOMIC && s->items && s->items->nullable)
        sw_ferr_forbidden(e, &at_null,
                          sw_arena_printf(e->arena,
                                          "cannot be nullable when x-kubernetes-list-type is %.*s",
                                          SW_SLICE_ARG(sw_json_str(lt))));
    if (s->list_type == SW_LIST_SET && s->items) {
        bool granular = (s->items->type == SW_T_ARRAY && s->items->list_type != SW_LIST_ATOMIC) ||
                        (s->items->type == SW_T_OBJECT && !s->items->map_atomic);

        if (granular) {
            struct sw_fpath at =
                sw_fpath_str(&at_items, s->items->type == SW_T_ARRAY ? "x-kubernetes-list-type"
                                                                     : "x-kubernetes-map-type");

            sw_ferr_invalid(e, &at, sw_json_walk(v, "items", "x-kubernetes-list-type", NULL),
                            "must be atomic as item of a list with "
                            "x-kubernetes-list-type=set");
        }
    }
}

/* ---- value validation below logical junctors ---- */

/* anyOf: [{type: integer}, {type: string}], the one place where nested types are allowed. */
static bool int_or_string_any_of(const struct sw_schema *s)
{
    return s->nany_of == 2 && s->any_of[0]->type == SW_T_INTEGER &&
           s->any_of[1]->type == SW_T_STRING;
}

static void check_nested(const struct sw_schema *s, const struct sw_json *v,
                         const struct sw_fpath *path, bool skip_type, struct sw_field_errs *e);

static void check_nested_list(struct sw_schema *const *p, size_t n, const struct sw_json *v,
                              const char *name, const struct sw_fpath *path, bool skip_type,
                              struct sw_field_errs *e)
{
    struct sw_fpath up = sw_fpath_str(path, name);

    for (size_t i = 0; i < n; i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check_nested(p[i], sw_json_at(sw_json_find(v, name), i), &at, skip_type, e);
    }
}

static void check_junctors(const struct sw_schema *s, const struct sw_json *v,
                           const struct sw_fpath *path, bool skip_any_types,
                           struct sw_field_errs *e)
{
    struct sw_fpath at_not = sw_fpath_str(path, "not");

    check_nested_list(s->any_of, s->nany_of, v, "anyOf", path, skip_any_types, e);
    check_nested_list(s->all_of, s->nall_of, v, "allOf", path, false, e);
    check_nested_list(s->one_of, s->none_of, v, "oneOf", path, false, e);
    if (s->not )
        check_nested(s->not, sw_json_find(v, "not"), &at_not, false, e);
}

static void forbid_nested(const struct sw_json *v, const struct sw_fpath *path, bool skip_type,
                          struct sw_field_errs *e)
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
        const struct sw_json *x = sw_json_find(v, rules[i].key);
        struct sw_fpath at = sw_fpath_str(path, rules[i].key);

        if (x && !(sw_json_is(x, SW_JSON_BOOL) && !x->boolean) &&
            !(sw_json_is(x, SW_JSON_STRING) && !x->text.n))
            sw_ferr_forbidden(e, &at, rules[i].text);
    }
}

static void check_nested(const struct sw_schema *s, const struct sw_json *v,
                         const struct sw_fpath *path, bool skip_type, struct sw_field_errs *e)
{
    struct sw_fpath at_items = sw_fpath_str(path, "items");
    struct sw_fpath up = sw_fpath_str(path, "properties");

    check_junctors(s, v, path, int_or_string_any_of(s), e);
    forbid_nested(v, path, skip_type, e);
    if (s->items)
        check_nested(s->items, sw_json_find(v, "items"), &at_items, false, e);
    for (size_t i = 0; i < s->nprops; i++) {
        struct sw_fpath at = sw_fpath_key(&up, s->props[i].name);

        check_nested(s->props[i].schema,
                     sw_json_get(sw_json_find(v, "properties"), s->props[i].name), &at, false, e);
        if (sw_slice_eq_str(s->props[i].name, "metadata"))
            sw_ferr_forbidden(e, &at, "must not be specified in a nested context");
    }
}

static void check_complete(const struct sw_schema *s, const struct sw_schema *nested,
                           const struct sw_fpath *path, const struct sw_fpath *at_nested,
                           struct sw_field_errs *e);

static void complete_list(const struct sw_schema *s, struct sw_schema *const *p, size_t n,
                          const char *name, const struct sw_fpath *path,
                          const struct sw_fpath *at_nested, struct sw_field_errs *e)
{
    struct sw_fpath up = sw_fpath_str(at_nested, name);

    for (size_t i = 0; i < n; i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check_complete(s, p[i], path, &at, e);
    }
}

/* The alternatives of one node, which stands at 'at_nested'; fields must be declared at 'path'. */
static void complete_junctors(const struct sw_schema *s, const struct sw_schema *nested,
                              const struct sw_fpath *path, const struct sw_fpath *at_nested,
                              struct sw_field_errs *e)
{
    struct sw_fpath at_not = sw_fpath_str(at_nested, "not");

    complete_list(s, nested->all_of, nested->nall_of, "allOf", path, at_nested, e);
    complete_list(s, nested->any_of, nested->nany_of, "anyOf", path, at_nested, e);
    complete_list(s, nested->one_of, nested->none_of, "oneOf", path, at_nested, e);
    if (nested->not )
        check_complete(s, nested->not, path, &at_not, e);
}

/* Every field spoken of below a junctor must be declared outside too. */
static void check_complete(const struct sw_schema *s, const struct sw_schema *nested,
                           const struct sw_fpath *path, const struct sw_fpath *at_nested,
                           struct sw_field_errs *e)
{
    struct sw_fpath up = sw_fpath_str(path, "properties");
    struct sw_fpath up_nested = sw_fpath_str(at_nested, "properties");
    struct sw_fpath items = sw_fpath_str(path, "items");
    struct sw_fpath items_nested = sw_fpath_str(at_nested, "items");

    if (!s) {
        sw_ferr_required(e, path,
                         sw_arena_printf(e->arena, "because it is defined in %s",
                                         sw_fpath_text(e->arena, at_nested)));
        return;
    }
    complete_junctors(s, nested, path, at_nested, e);
    if (nested->items)
        check_complete(s->items, nested->items, &items, &items_nested, e);
    for (size_t i = 0; i < nested->nprops; i++) {
        struct sw_slice name = nested->props[i].name;
        struct sw_fpath at = sw_fpath_key(&up, name);
        struct sw_fpath in = sw_fpath_key(&up_nested, name);

        check_complete(sw_schema_declared(s, name), nested->props[i].schema, &at, &in, e);
    }
}

/* ---- invariants ---- */

static void check_metadata(const struct sw_schema *s, const struct sw_json *v, enum level lvl,
                           const struct sw_fpath *path, struct sw_field_errs *e)
{
    static const char *const strings[] = {"apiVersion", "kind"};
    const struct sw_schema *meta = sw_schema_declared(s, SW_SLICE_LIT("metadata"));
    const struct sw_json *mv = sw_json_walk(v, "properties", "metadata", NULL);
    struct sw_fpath up = sw_fpath_str(path, "properties");
    struct sw_fpath at = sw_fpath_key(&up, SW_SLICE_LIT("metadata"));
    struct sw_fpath at_type = sw_fpath_str(&at, "type");
    bool ok = true;

    for (size_t i = 0; i < SW_ARRAY_LEN(strings); i++) {
        const struct sw_schema *p = sw_schema_declared(s, sw_slice_str(strings[i]));
        struct sw_fpath at_s = sw_fpath_key(&up, sw_slice_str(strings[i]));
        struct sw_fpath at_t = sw_fpath_str(&at_s, "type");

        if (p && p->type != SW_T_STRING)
            sw_ferr_invalid_str(e, &at_t, sw_slice_str(sw_stype_name(p->type)), "must be string");
    }
    if (!meta)
        return;
    if (meta->type != SW_T_OBJECT)
        sw_ferr_invalid_str(e, &at_type, sw_slice_str(sw_stype_name(meta->type)), "must be object");
    if (lvl != LEVEL_ROOT)
        return;
    for (size_t i = 0; i < meta->nprops; i++)
        ok = ok && (sw_slice_eq_str(meta->props[i].name, "name") ||
                    sw_slice_eq_str(meta->props[i].name, "generateName"));
    for (size_t i = 0; i < sw_json_len(mv); i++) {
        const struct sw_json_member *m = sw_json_member_at(mv, i);

        ok = ok && m &&
             (sw_slice_eq_str(m->key, "type") || sw_slice_eq_str(m->key, "properties") ||
              sw_slice_eq_str(m->key, "default"));
    }
    if (!ok)
        sw_ferr_forbidden(e, &at,
                          "must not specify anything other than name and generateName, but "
                          "metadata is implicitly specified");
}

static void check_own_type(const struct sw_schema *s, const struct sw_json *v, enum level lvl,
                           const struct sw_fpath *path, struct sw_field_errs *e)
{
    bool additional = sw_json_find(v, "additionalProperties") != NULL;
    static const char *const empty[] = {"must not be empty at the root",
                                        "must not be empty for specified array items",
                                        "must not be empty for specified object fields"};
    struct sw_fpath at = sw_fpath_str(path, "type");
    struct sw_fpath at_ap = sw_fpath_str(path, "additionalProperties");
    struct sw_fpath at_items = sw_fpath_str(path, "items");
    struct sw_fpath at_props = sw_fpath_str(path, "properties");

    if (s->embedded)
        need_type(s, SW_T_OBJECT, path, "must be object if x-kubernetes-embedded-resource is true",
                  e);
    else if (!sw_json_str(sw_json_find(v, "type")).n && !s->int_or_string && !s->preserve)
        sw_ferr_required(e, &at, empty[lvl]);
    if (lvl == LEVEL_ROOT && s->type != SW_T_NONE && s->type != SW_T_OBJECT)
        sw_ferr_invalid_str(e, &at, sw_slice_str(sw_stype_name(s->type)),
                            "must be object at the root");
    if (lvl == LEVEL_ROOT && additional)
        sw_ferr_forbidden(e, &at_ap, "must not be used at the root");
    if (s->type == SW_T_ARRAY && !s->items)
        sw_ferr_required(e, &at_items, "must be specified");
    if (s->embedded && additional)
        sw_ferr_forbidden(e, &at_ap, "must not be used if x-kubernetes-embedded-resource is set");
    if (s->embedded && !s->preserve && !s->nprops)
        sw_ferr_required(e, &at_props,
                         "must not be empty if x-kubernetes-embedded-resource is true without "
                         "x-kubernetes-preserve-unknown-fields");
}

static void check_extensions(const struct sw_schema *s, const struct sw_json *v,
                             const struct sw_fpath *path, struct sw_field_errs *e)
{
    struct sw_fpath at_p = sw_fpath_str(path, "x-kubernetes-preserve-unknown-fields");
    struct sw_fpath at_e = sw_fpath_str(path, "x-kubernetes-embedded-resource");
    const struct sw_json *p = sw_json_find(v, "x-kubernetes-preserve-unknown-fields");

    if (s->int_or_string && s->preserve)
        sw_ferr_invalid(e, &at_p, p, "must be false if x-kubernetes-int-or-string is true");
    if (s->int_or_string && s->embedded)
        sw_ferr_invalid(e, &at_e, sw_json_find(v, "x-kubernetes-embedded-resource"),
                        "must be false if x-kubernetes-int-or-string is true");
}

static void check_node(const struct sw_schema *s, const struct sw_json *v, enum level lvl,
                       const struct sw_fpath *path, struct sw_field_errs *e)
{
    struct sw_fpath at_items = sw_fpath_str(path, "items");
    struct sw_fpath at_ap = sw_fpath_str(path, "additionalProperties");
    struct sw_fpath up = sw_fpath_str(path, "properties");

    check_own_type(s, v, lvl, path, e);
    check_extensions(s, v, path, e);
    if (lvl == LEVEL_ROOT || s->embedded)
        check_metadata(s, v, lvl, path, e);
    check_junctors(s, v, path, int_or_string_any_of(s), e);
    complete_junctors(s, s, path, path, e);
    if (s->items)
        check_node(s->items, sw_json_find(v, "items"), LEVEL_ITEM, &at_items, e);
    if (s->additional)
        check_node(s->additional, sw_json_find(v, "additionalProperties"), LEVEL_FIELD, &at_ap, e);
    for (size_t i = 0; i < s->nprops; i++) {
        struct sw_fpath at = sw_fpath_key(&up, s->props[i].name);

        check_node(s->props[i].schema, sw_json_get(sw_json_find(v, "properties"), s->props[i].name),
                   LEVEL_FIELD, &at, e);
    }
}

static int by_text(const void *x, const void *y)
{
    const struct sw_field_err *p = x;
    const struct sw_field_err *q = y;
    int c = strcmp(p->field, q->field);

    return c ? c : strcmp(p->text, q->text);
}

void sw_structural_check(const struct sw_schema *s, const struct sw_json *v,
                         const struct sw_fpath *path, struct sw_field_errs *e)
{
    size_t before = e->n;

    check_node(s, v, LEVEL_ROOT, path, e);
    if (e->n > before)
        qsort(e->p + before, e->n - before, sizeof(*e->p), by_text);
}

/* ---- what every schema is held to ---- */

static void general_node(const struct sw_schema *s, const struct sw_json *v, enum level lvl,
                         const char *no_default, const struct sw_fpath *path,
                         struct sw_field_errs *e)
{
    const struct sw_json *preserve = sw_json_find(v, "x-kubernetes-preserve-unknown-fields");
    struct sw_fpath at_items = sw_fpath_str(path, "items");
    struct sw_fpath at_ap = sw_fpath_str(path, "additionalProperties");
    struct sw_fpath at_p = sw_fpath_str(path, "x-kubernetes-preserve-unknown-fields");
    struct sw_fpath at_default = sw_fpath_str(path, "default");
    struct sw_fpath up = sw_fpath_str(path, "properties");

    if (s->def && no_default)
        sw_ferr_forbidden(e, &at_default, no_default);
    if (preserve && !sw_json_true(preserve))
        sw_ferr_invalid(e, &at_p, preserve, "must be true or undefined");
    check_list_type(s, v, path, e);
    if (s->items)
        general_node(s->items, sw_json_find(v, "items"), LEVEL_ITEM, no_default, &at_items, e);
    if (s->additional)
        general_node(s->additional, sw_json_find(v, "additionalProperties"), LEVEL_FIELD,
                     no_default, &at_ap, e);
    for (size_t i = 0; i < s->nprops; i++) {
        struct sw_slice name = s->props[i].name;
        struct sw_fpath at = sw_fpath_key(&up, name);
        const char *why = no_default;

        if (lvl == LEVEL_ROOT &&
            (sw_slice_eq_str(name, "metadata") || sw_slice_eq_str(name, "kind") ||
             sw_slice_eq_str(name, "apiVersion")))
            why =
                sw_arena_printf(e->arena, "must not be set in top-level %.*s", SW_SLICE_ARG(name));
        general_node(s->props[i].schema, sw_json_get(sw_json_find(v, "properties"), name),
                     LEVEL_FIELD, why, &at, e);
    }
}

void sw_structural_general(const struct sw_schema *s, const struct sw_json *v,
                           const struct sw_fpath *path, struct sw_field_errs *e)
{
    general_node(s, v, LEVEL_ROOT, NULL, path, e);
}

/* ---- defaults ---- */

/* Fills a default with those inside of it; false, with an error, when that is too much. */
static bool expands(struct sw_json *v, const struct sw_schema *s, struct sw_budget *all,
                    const struct sw_fpath *path, struct sw_field_errs *e)
{
    struct sw_budget b = {.bytes = sw_min(all->bytes, DEFAULT_MAX)};
    uint64_t had = b.bytes;
    const char *where;

    if (all->spent)
        return false;
    if (!sw_schema_default_within(e->arena, v, s, &b, &where)) {
        all->spent = true;
        sw_ferr_forbidden(
            e, path,
            sw_arena_printf(e->arena,
                            "defaults of an object under this one expand to too much, "
                            "at %s",
                            where));
        return false;
    }
    all->bytes -= had - b.bytes;
    return true;
}

static void check_default(const struct sw_schema *s, const struct sw_fpath *path,
                          struct sw_budget *b, struct sw_field_errs *e)
{
    struct sw_fpath at = sw_fpath_str(path, "default");
    struct sw_json *copy;

    if (!s->def || s->def->type == SW_JSON_NULL)
        return;
    copy = sw_json_copy(e->arena, s->def);
    if (sw_schema_prune_part(copy, s))
        sw_ferr_invalid(e, &at, s->def, "must not have unknown fields");
    copy = sw_json_copy(e->arena, s->def);
    if (!expands(copy, s, b, &at, e))
        return;
    sw_schema_validate_embedded(s, copy, &at, e);
    sw_schema_validate(s, copy, NULL, &at, e);
}

static void check_defaults(const struct sw_schema *s, const struct sw_fpath *path,
                           struct sw_budget *b, struct sw_field_errs *e)
{
    struct sw_fpath at_items = sw_fpath_str(path, "items");
    struct sw_fpath at_ap = sw_fpath_str(path, "additionalProperties");
    struct sw_fpath up = sw_fpath_str(path, "properties");

    check_default(s, path, b, e);
    if (s->type == SW_T_OBJECT)
        (void)expands(sw_json_new_object(e->arena), s, b, path, e);
    if (s->items)
        check_defaults(s->items, &at_items, b, e);
    if (s->additional)
        check_defaults(s->additional, &at_ap, b, e);
    for (size_t i = 0; i < s->nprops; i++) {
        struct sw_fpath at = sw_fpath_key(&up, s->props[i].name);

        check_defaults(s->props[i].schema, &at, b, e);
    }
}

void sw_structural_defaults(const struct sw_schema *s, const struct sw_fpath *path,
                            struct sw_field_errs *e)
{
    struct sw_budget b = {.bytes = DEFAULTS_MAX};

    check_defaults(s, path, &b, e);
}
