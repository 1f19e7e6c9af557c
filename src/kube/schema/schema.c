/* SPDX-License-Identifier: Apache-2.0 */
/* From the JSON of an openAPIV3Schema to struct sw_schema. What may stand where is checked here
 * and in structural.c. */
#include "kube/schema/schema.h"

#include <stdlib.h>

#include "base/budget.h"
#include "kube/schema/schema_int.h"
#include "regex/regex.h"

enum { DEPTH_MAX = 64, REGEX_SIZE_MAX = 2000000, REGEX_FAILED = 100000, JOINED_MAX = 1000000 };

void sw_schema_set_done(struct sw_schema_set *set)
{
    for (size_t i = 0; i < set->regexes.n; i++)
        sw_regex_free(set->regexes.p[i]);
    for (size_t i = 0; i < set->cels.n; i++)
        set->cel_free(set->cels.p[i]);
    sw_vec_done(&set->regexes);
    sw_vec_done(&set->cels);
    sw_arena_clear(&set->arena);
    set->root = NULL;
}

struct sw_schema *sw_schema_blank(struct sw_arena *a)
{
    struct sw_schema *s = SW_ARENA_NEW(a, struct sw_schema);

    s->min_len = s->max_len = s->min_items = s->max_items = s->min_props = s->max_props = -1;
    return s;
}

const char *sw_stype_name(enum sw_stype type)
{
    static const char *const names[] = {"",        "object", "array",  "string",
                                        "integer", "number", "boolean"};

    return names[type];
}

static int cmp_prop(const void *x, const void *y)
{
    const struct sw_prop *p = x;
    const struct sw_prop *q = y;

    return sw_slice_cmp(p->name, q->name);
}

const struct sw_schema *sw_schema_declared(const struct sw_schema *s, struct sw_slice name)
{
    struct sw_prop key = {.name = name};
    const struct sw_prop *p =
        s && s->nprops ? bsearch(&key, s->props, s->nprops, sizeof(key), cmp_prop) : NULL;

    return p ? p->schema : NULL;
}

const struct sw_schema *sw_schema_prop(const struct sw_schema *s, struct sw_slice name)
{
    const struct sw_schema *p = sw_schema_declared(s, name);

    return p || !s ? p : s->additional;
}

const struct sw_schema *sw_schema_step(const struct sw_schema *s, struct sw_slice name,
                                       const struct sw_fpath *path, struct sw_fpath *ret_at)
{
    const struct sw_schema *p = sw_schema_declared(s, name);

    *ret_at = p ? sw_fpath_field(path, name) : sw_fpath_key(path, name);
    return p ? p : s->additional;
}

void sw_schema_each(const struct sw_schema *s, const struct sw_json *v, const struct sw_fpath *path,
                    struct sw_field_errs *e, sw_schema_visit *visit)
{
    visit(s, v, path, e);
    for (size_t i = 0; v->type == SW_JSON_ARRAY && s->items && i < sw_json_len(v); i++) {
        struct sw_fpath at = sw_fpath_index(path, i);

        sw_schema_each(s->items, sw_json_at(v, i), &at, e, visit);
    }
    SW_JSON_MEMBERS (m, v) {
        struct sw_fpath at;
        const struct sw_schema *p = sw_schema_step(s, m->key, path, &at);

        if (p)
            sw_schema_each(p, m->value, &at, e, visit);
    }
}

/* ---- reading ---- */

struct reader {
    struct sw_schema_set *set;
    struct sw_field_errs *e;          /* of every schema */
    struct sw_field_errs *structural; /* of structural ones */
    bool foreign;                     /* has keywords a structural schema cannot express */
    unsigned depth;
};

static struct sw_schema *read_schema(struct reader *r, const struct sw_json *v,
                                     const struct sw_fpath *path);

static struct sw_slice *read_strings(struct reader *r, const struct sw_json *v, size_t *ret_n)
{
    struct sw_slice *p = sw_arena_array(&r->set->arena, sw_json_len(v) + 1, sizeof(*p));
    size_t n = 0;

    SW_JSON_ITEMS (item, v) {
        if (sw_json_is(item, SW_JSON_STRING))
            p[n++] = sw_json_str(item);
    }
    *ret_n = n;
    return p;
}

static int64_t read_count(const struct sw_json *v, const char *key)
{
    int64_t n;

    return sw_json_exact_i64(sw_json_find(v, key), &n) && n >= 0 ? n : -1;
}

static void read_type(struct reader *r, struct sw_schema *s, const struct sw_json *v,
                      const struct sw_fpath *path)
{
    static const char *const known[] = {"array",  "boolean", "integer", "number",
                                        "object", "string",  NULL};
    struct sw_slice t = sw_json_str(v);
    struct sw_fpath at = sw_fpath_str(path, "type");

    if (!v || !t.n)
        return;
    for (int i = SW_T_OBJECT; i <= SW_T_BOOLEAN; i++) {
        if (sw_slice_eq_str(t, sw_stype_name((enum sw_stype)i)))
            s->type = (enum sw_stype)i;
    }
    if (sw_slice_eq_str(t, "null"))
        sw_ferr_forbidden(r->e, &at, "type cannot be set to null, use nullable as an alternative");
    else if (s->type == SW_T_NONE)
        sw_ferr_unsupported(r->e, &at, v, known);
}

static void read_numbers(struct sw_schema *s, const struct sw_json *v)
{
    s->number.has_min = sw_json_double(sw_json_find(v, "minimum"), &s->number.min);
    s->number.has_max = sw_json_double(sw_json_find(v, "maximum"), &s->number.max);
    s->number.has_multiple = sw_json_double(sw_json_find(v, "multipleOf"), &s->number.multiple);
    s->number.ex_min = sw_json_true(sw_json_find(v, "exclusiveMinimum"));
    s->number.ex_max = sw_json_true(sw_json_find(v, "exclusiveMaximum"));
    s->min_len = read_count(v, "minLength");
    s->max_len = read_count(v, "maxLength");
    s->min_items = read_count(v, "minItems");
    s->max_items = read_count(v, "maxItems");
    s->min_props = read_count(v, "minProperties");
    s->max_props = read_count(v, "maxProperties");
}

static void read_pattern(struct reader *r, struct sw_schema *s, const struct sw_json *v,
                         const struct sw_fpath *path)
{
    struct sw_fpath at = sw_fpath_str(path, "pattern");
    struct sw_err err = {0};

    s->pattern = sw_json_str(v);
    if (!s->pattern.n || r->set->regex_size > REGEX_SIZE_MAX || !sw_budget_ok(r->e->budget))
        return;
    if (sw_regex_new(s->pattern, &s->re, &err) < 0) {
        s->re = NULL;
        r->set->regex_size += REGEX_FAILED; /* may have been found late */
        (void)sw_budget_step(r->e->budget, SW_REGEX_COMPILE_STEPS * REGEX_FAILED);
        sw_ferr_invalid_str(r->structural, &at, s->pattern,
                            sw_arena_printf(r->e->arena,
                                            "must be a valid regular expression, but isn't: %s",
                                            err.msg));
        return;
    }
    sw_vec_push(&r->set->regexes, s->re);
    r->set->regex_size += sw_regex_size(s->re);
    (void)sw_budget_step(r->e->budget, SW_REGEX_COMPILE_STEPS * (uint64_t)sw_regex_size(s->re));
    if (r->set->regex_size > REGEX_SIZE_MAX)
        sw_ferr_forbidden(r->structural, &at,
                          "the regular expressions of the schema are too large together");
}

static struct sw_schema_list read_list(struct reader *r, const struct sw_json *v,
                                       const struct sw_fpath *path, const char *name)
{
    const struct sw_json *list = sw_json_find(v, name);
    struct sw_fpath up = sw_fpath_str(path, name);
    struct sw_schema_list out = {
        .p = sw_arena_array(&r->set->arena, sw_json_len(list) + 1, sizeof(*out.p))};

    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        out.p[out.n] = read_schema(r, sw_json_at(list, i), &at);
        out.n += out.p[out.n] != NULL;
    }
    return out;
}

static void read_props(struct reader *r, struct sw_schema *s, const struct sw_json *v,
                       const struct sw_fpath *path)
{
    struct sw_fpath up = sw_fpath_str(path, "properties");

    s->props = sw_arena_array(&r->set->arena, sw_json_len(v) + 1, sizeof(*s->props));
    SW_JSON_MEMBERS (m, v) {
        struct sw_fpath at = sw_fpath_key(&up, m->key);

        s->props[s->nprops].name = m->key;
        s->props[s->nprops].schema = read_schema(r, m->value, &at);
        if (s->props[s->nprops].schema)
            s->nprops++;
    }
    qsort(s->props, s->nprops, sizeof(*s->props), cmp_prop);
}

static void read_additional(struct reader *r, struct sw_schema *s, const struct sw_json *v,
                            const struct sw_fpath *path)
{
    struct sw_fpath at = sw_fpath_str(path, "additionalProperties");

    if (sw_json_is(v, SW_JSON_OBJECT))
        s->additional = read_schema(r, v, &at);
    else
        s->additional_any = sw_json_true(v);
    if (v && s->nprops && !sw_json_true(v))
        sw_ferr_forbidden(r->e, &at, "additionalProperties and properties are mutual exclusive");
}

static void read_extensions(struct reader *r, struct sw_schema *s, const struct sw_json *v)
{
    struct sw_slice list = sw_json_str(sw_json_find(v, "x-kubernetes-list-type"));

    s->preserve = sw_json_true(sw_json_find(v, "x-kubernetes-preserve-unknown-fields"));
    s->embedded = sw_json_true(sw_json_find(v, "x-kubernetes-embedded-resource"));
    s->int_or_string = sw_json_true(sw_json_find(v, "x-kubernetes-int-or-string"));
    s->map_atomic = sw_json_str_eq(sw_json_find(v, "x-kubernetes-map-type"), "atomic");
    s->has_list_type = list.p;
    if (sw_slice_eq_str(list, "set"))
        s->list_type = SW_LIST_SET;
    if (sw_slice_eq_str(list, "map"))
        s->list_type = SW_LIST_MAP;
    s->list_keys = read_strings(r, sw_json_find(v, "x-kubernetes-list-map-keys"), &s->nlist_keys);
}

static struct sw_slice trim_all(struct sw_slice s)
{
    while (s.n && strchr(" \t\r\n", s.p[0]))
        s = sw_slice(s.p + 1, s.n - 1);
    while (s.n && strchr(" \t\r\n", s.p[s.n - 1]))
        s.n--;
    return s;
}

static enum sw_cause rule_reason(struct sw_slice s)
{
    static const enum sw_cause causes[] = {SW_CAUSE_REQUIRED, SW_CAUSE_FORBIDDEN,
                                           SW_CAUSE_DUPLICATE};

    for (size_t i = 0; i < SW_ARRAY_LEN(causes); i++) {
        if (sw_slice_eq_str(s, sw_cause_reason(causes[i])))
            return causes[i];
    }
    return SW_CAUSE_INVALID;
}

static void read_rules(struct reader *r, struct sw_schema *s, const struct sw_json *v)
{
    s->nrules = sw_json_len(v);
    s->rules = sw_arena_array(&r->set->arena, s->nrules + 1, sizeof(*s->rules));
    for (size_t i = 0; i < s->nrules; i++) {
        const struct sw_json *x = sw_json_at(v, i);

        s->rules[i].rule = sw_json_str(sw_json_find(x, "rule"));
        s->rules[i].message = trim_all(sw_json_str(sw_json_find(x, "message")));
        s->rules[i].message_expr = trim_all(sw_json_str(sw_json_find(x, "messageExpression")));
        s->rules[i].field_path = sw_json_str(sw_json_find(x, "fieldPath"));
        s->rules[i].blank_message =
            sw_json_str(sw_json_find(x, "message")).n && !s->rules[i].message.n;
        s->rules[i].blank_message_expr =
            sw_json_str(sw_json_find(x, "messageExpression")).n && !s->rules[i].message_expr.n;
        s->rules[i].given_reason = sw_json_str(sw_json_find(x, "reason"));
        s->rules[i].reason = rule_reason(s->rules[i].given_reason);
        s->rules[i].has_optional_old = sw_json_find(x, "optionalOldSelf") != NULL;
        s->rules[i].optional_old = sw_json_true(sw_json_find(x, "optionalOldSelf"));
    }
    s->rules_below = s->nrules > 0;
}

static void note_rules(struct sw_schema *s)
{
    for (size_t i = 0; i < s->nprops; i++)
        s->rules_below = s->rules_below || s->props[i].schema->rules_below;
    s->rules_below = s->rules_below || (s->items && s->items->rules_below) ||
                     (s->additional && s->additional->rules_below);
}

static void read_children(struct reader *r, struct sw_schema *s, const struct sw_json *v,
                          const struct sw_fpath *path)
{
    const struct sw_json *items = sw_json_find(v, "items");
    const struct sw_json *not = sw_json_find(v, "not");
    struct sw_fpath at_items = sw_fpath_str(path, "items");
    struct sw_fpath at_not = sw_fpath_str(path, "not");

    if (sw_json_is(items, SW_JSON_ARRAY)) {
        r->foreign = true;
        sw_ferr_forbidden(r->e, &at_items, "items must be a schema object and not an array");
    } else if (items) {
        s->items = read_schema(r, items, &at_items);
    }
    read_props(r, s, sw_json_find(v, "properties"), path);
    read_additional(r, s, sw_json_find(v, "additionalProperties"), path);
    s->all_of = read_list(r, v, path, "allOf");
    s->any_of = read_list(r, v, path, "anyOf");
    s->one_of = read_list(r, v, path, "oneOf");
    if (not )
        s->not = read_schema(r, not, &at_not);
}

static struct sw_schema *read_schema(struct reader *r, const struct sw_json *v,
                                     const struct sw_fpath *path)
{
    struct sw_schema *s = sw_schema_blank(&r->set->arena);
    const struct sw_json *enums = sw_json_find(v, "enum");
    struct sw_at at = sw_at_path(v, path, r->e);

    if (!sw_json_is(v, SW_JSON_OBJECT)) {
        sw_ferr_invalid(r->e, path, v, "must be a schema object");
        return NULL;
    }
    if (r->depth >= DEPTH_MAX) {
        sw_ferr_forbidden(r->e, path, "schema is nested too deeply");
        return NULL;
    }
    r->depth++;
    if (!sw_structural_keywords(&at))
        r->foreign = true;
    read_type(r, s, sw_json_find(v, "type"), path);
    s->nullable = sw_json_true(sw_json_find(v, "nullable"));
    s->def = sw_json_find(v, "default");
    s->enums = sw_json_is(enums, SW_JSON_ARRAY) && sw_json_len(enums) ? enums : NULL;
    s->format = sw_json_str(sw_json_find(v, "format"));
    s->description = sw_json_str(sw_json_find(v, "description"));
    s->required = read_strings(r, sw_json_find(v, "required"), &s->nrequired);
    read_numbers(s, v);
    read_pattern(r, s, sw_json_find(v, "pattern"), path);
    read_extensions(r, s, v);
    read_rules(r, s, sw_json_find(v, "x-kubernetes-validations"));
    read_children(r, s, v, path);
    note_rules(s);
    r->depth--;
    return s;
}

int sw_schema_read(struct sw_schema_set *set, const struct sw_json *v, const struct sw_fpath *path,
                   struct sw_field_errs *e)
{
    struct sw_field_errs general, structural;
    struct reader r = {.set = set, .e = &general, .structural = &structural};
    struct sw_json *copy = sw_json_copy(&set->arena, v);
    struct sw_at at = sw_at_path(copy, path, &structural);
    size_t before = e->n;

    sw_field_errs_init(&general, e->arena);
    sw_field_errs_init(&structural, e->arena);
    general.budget = e->budget;
    set->root = read_schema(&r, copy, path);
    if (set->root && !r.foreign) {
        sw_structural_check(set->root, &at);
        if (!structural.n)
            sw_structural_defaults(set->root, &at);
        sw_ferr_append(e, &structural);
    }
    at.e = &general;
    if (set->root)
        sw_structural_general(set->root, &at);
    sw_ferr_append(e, &general);
    return e->n == before ? SW_OK : SW_EINVAL;
}

void sw_texts_add(struct sw_texts *t, const char *text)
{
    t->p = sw_arena_grow(t->arena, t->p, t->n, &t->cap, sizeof(*t->p));
    t->p[t->n++] = text;
}

bool sw_texts_has(const struct sw_texts *t, struct sw_slice text)
{
    for (size_t i = 0; i < t->n; i++) {
        if (sw_slice_eq_str(text, t->p[i]))
            return true;
    }
    return false;
}

const char *sw_texts_join(const struct sw_texts *t)
{
    SW_BUF_AUTO b = {.max = JOINED_MAX};

    for (size_t i = 0; i < t->n; i++) {
        if (sw_buf_printf(&b, "%s%s", i ? ", " : "", t->p[i]) != SW_OK)
            break;
    }
    return sw_arena_dup(t->arena, sw_buf_slice(&b));
}
