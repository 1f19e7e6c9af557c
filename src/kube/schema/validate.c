/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Value validation. The order and number of errors follow the reference: a string reports its first
 * failing bound only, an object with too few or too many properties is not looked into,
 * alternatives report the failures of the candidate that went furthest.
 */
#include <float.h>
#include <math.h>

#include "base/budget.h"
#include "base/map.h"
#include "kube/names.h"
#include "kube/schema/schema.h"
#include "kube/text.h"
#include "regex/regex.h"

struct ctx {
    const struct sw_fpath *prefix;
    struct sw_arena *a;
    struct sw_field_errs *e;
    bool status;       /* the object is the status of one */
    const char **over; /* where the budget ended; NULL: it has not */
};

static unsigned check(const struct ctx *c, const struct sw_schema *s, const struct sw_json *v,
                      const struct sw_json *old, const struct sw_fpath *path);

size_t sw_rune_count(struct sw_slice s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++)
        n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
    return n;
}

/* The inner path, as the texts name it. */
static const char *inner(const struct ctx *c, const struct sw_fpath *path)
{
    return path ? sw_fpath_text(c->a, path) : "";
}

/* The error path: prefix and inner path joined. */
static struct sw_fpath *outer(const struct ctx *c, const struct sw_fpath *path)
{
    const char *text;
    struct sw_fpath *p;

    if (!path && !c->prefix)
        return NULL;
    p = SW_ARENA_NEW(c->a, struct sw_fpath);
    if (!path) {
        *p = *c->prefix;
        return p;
    }
    text = sw_fpath_text(c->a, path);
    if (c->prefix)
        text = sw_arena_printf(c->a, "%s%s%s", sw_fpath_text(c->a, c->prefix),
                               text[0] == '[' ? "" : ".", text);
    *p = sw_fpath_str(NULL, text);
    return p;
}

SW_PRINTF(4, 5)
static void invalid(const struct ctx *c, const struct sw_fpath *path, const struct sw_json *v,
                    const char *fmt, ...)
{
    SW_BUF_AUTO b = {.max = 1 << 20};
    va_list ap;

    va_start(ap, fmt);
    if (sw_buf_vprintf(&b, fmt, ap) < 0)
        b.n = 0;
    va_end(ap);
    sw_ferr_invalid(
        c->e, outer(c, path), v,
        sw_arena_printf(c->a, "%s in body %.*s", inner(c, path), SW_SLICE_ARG(sw_buf_slice(&b))));
}

/* Errors of allOf and its kind carry no path of their own. */
static void junctor(const struct ctx *c, const struct sw_fpath *path, const char *text)
{
    sw_ferr_invalid_str(c->e, c->prefix, sw_slice("", 0),
                        sw_arena_printf(c->a, "\"%s\" %s", inner(c, path), text));
}

/* Steps of what every node costs, of comparing it with one allowed value, of a pattern's start. */
enum { NODE_STEPS = 50, ENUM_STEPS = 20, PATTERN_STEPS = 50 };

/* Takes from the budget; false, with the place noted, when it has ended. */
static bool spend(const struct ctx *c, const struct sw_fpath *path, uint64_t steps)
{
    if (sw_budget_step(c->e->budget, steps))
        return true;
    if (!*c->over)
        *c->over = sw_fpath_text(c->a, outer(c, path));
    return false;
}

/* ---- types ---- */

/* A number of 64 bits, or one that a double holds exactly: larger ones are read as doubles. */
static bool integral(const struct sw_json *v)
{
    const double max = 9007199254740991; /* 2^53 - 1 */
    int64_t n;
    double d;

    return (sw_json_is_integer(v) && sw_json_i64(v, &n)) ||
           (sw_json_double(v, &d) && d == floor(d) && fabs(d) <= max);
}

static const char *type_of(const struct sw_json *v)
{
    int64_t n;

    if (v->type == SW_JSON_NUMBER)
        return sw_json_is_integer(v) && sw_json_i64(v, &n) ? "integer" : "number";
    return sw_json_type_name(v->type);
}

static bool type_ok(const struct sw_schema *s, const struct sw_json *v)
{
    if (v->type == SW_JSON_NULL)
        return s->nullable || (s->type == SW_T_NONE && !s->int_or_string);
    if (s->int_or_string)
        return v->type == SW_JSON_STRING || (v->type == SW_JSON_NUMBER && integral(v));
    switch (s->type) {
    case SW_T_NONE:
        return true;
    case SW_T_OBJECT:
        return v->type == SW_JSON_OBJECT;
    case SW_T_ARRAY:
        return v->type == SW_JSON_ARRAY;
    case SW_T_STRING:
        return v->type == SW_JSON_STRING;
    case SW_T_INTEGER:
        return v->type == SW_JSON_NUMBER && integral(v);
    case SW_T_NUMBER:
        return v->type == SW_JSON_NUMBER;
    case SW_T_BOOLEAN:
        return v->type == SW_JSON_BOOL;
    }
    return false;
}

static void check_type(const struct ctx *c, const struct sw_schema *s, const struct sw_json *v,
                       const struct sw_fpath *path)
{
    const char *want = s->int_or_string ? "integer,string" : sw_stype_name(s->type);
    const char *is = type_of(v);

    if (!type_ok(s, v))
        sw_ferr_type(c->e, outer(c, path), sw_slice_str(is),
                     sw_arena_printf(c->a, "%s in body must be of type %s: \"%s\"", inner(c, path),
                                     want, is));
}

static void check_enum(const struct ctx *c, const struct sw_schema *s, const struct sw_json *v,
                       const struct sw_fpath *path)
{
    size_t n = sw_json_len(s->enums);
    const char **names;

    if (!spend(c, path, n * ENUM_STEPS))
        return;
    for (size_t i = 0; i < n; i++) {
        if (sw_json_equal(sw_json_at(s->enums, i), v, SW_JSON_EQ_VALUE))
            return;
    }
    names = sw_arena_array(c->a, n + 1, sizeof(*names));
    for (size_t i = 0; i < n; i++) {
        const struct sw_json *x = sw_json_at(s->enums, i);

        names[i] = sw_json_is(x, SW_JSON_STRING) ? sw_arena_dup(c->a, x->text)
                                                 : sw_json_text(c->a, x, NULL).p;
    }
    sw_ferr_unsupported(c->e, outer(c, path), v, names);
}

/* ---- scalars ---- */

/* What is not known when the budget ends is not reported here: the end itself is. */
static bool matches(const struct ctx *c, const struct sw_schema *s, const struct sw_json *v,
                    const struct sw_fpath *path)
{
    int rc =
        spend(c, path, PATTERN_STEPS) ? sw_regex_match(s->re, v->text, c->e->budget) : SW_ELIMIT;

    if (rc < 0)
        (void)spend(c, path, UINT64_MAX);
    return rc == 1 || (rc < 0 && c->e->budget);
}

static void check_string(const struct ctx *c, const struct sw_schema *s, const struct sw_json *v,
                         const struct sw_fpath *path)
{
    int64_t n = s->max_len >= 0 || s->min_len >= 0 ? (int64_t)sw_rune_count(v->text) : 0;

    if (s->max_len >= 0 && n > s->max_len)
        sw_ferr_too_long(c->e, outer(c, path), (uint64_t)s->max_len);
    else if (s->min_len >= 0 && n < s->min_len)
        invalid(c, path, v, "should be at least %lld chars long", (long long)s->min_len);
    else if (s->re && !matches(c, s, v, path))
        invalid(c, path, v, "should match '%.*s'", SW_SLICE_ARG(s->pattern));
}

static void check_format(const struct ctx *c, const struct sw_schema *s, const struct sw_json *v,
                         const struct sw_fpath *path)
{
    if (!s->format.n || !spend(c, path, PATTERN_STEPS) ||
        sw_format_ok(s->format, v->text, c->e->budget))
        return;
    if (!sw_budget_ok(c->e->budget))
        (void)spend(c, path, 1);
    else
        sw_ferr_type(c->e, outer(c, path), v->text,
                     sw_arena_printf(c->a, "%s in body must be of type %.*s: %s", inner(c, path),
                                     SW_SLICE_ARG(s->format), sw_go_quote(c->a, v->text)));
}

/*
 * The reference takes formats of numbers away before it looks at an object, but forgets to when it
 * looks at the status alone.
 */
static void check_range(const struct ctx *c, const struct sw_schema *s, double d,
                        const struct sw_fpath *path)
{
    bool ok = true;

    if (!c->status)
        return;
    if (s->type == SW_T_INTEGER && sw_slice_eq_str(s->format, "int32"))
        ok = d >= INT32_MIN && d <= INT32_MAX;
    else if (s->type == SW_T_INTEGER && sw_slice_eq_str(s->format, "uint32"))
        ok = d >= 0 && d <= UINT32_MAX;
    else if (s->type == SW_T_INTEGER && sw_slice_eq_str(s->format, "uint64"))
        ok = d >= 0;
    else if (s->type == SW_T_NUMBER &&
             (sw_slice_eq_str(s->format, "float") || sw_slice_eq_str(s->format, "float32")))
        ok = fabs(d) <= (double)FLT_MAX;
    if (!ok)
        sw_ferr_invalid_str(c->e, c->prefix, sw_slice("", 0),
                            sw_arena_printf(c->a,
                                            "Checked value must be of type %s with format %.*s in "
                                            "%s",
                                            sw_stype_name(s->type), SW_SLICE_ARG(s->format),
                                            inner(c, path)));
}

static void check_number(const struct ctx *c, const struct sw_schema *s, const struct sw_json *v,
                         const struct sw_fpath *path)
{
    double d;

    if (!sw_json_double(v, &d))
        return;
    check_range(c, s, d, path);
    if (s->number.has_multiple && s->number.multiple > 0 &&
        fabs(remainder(d, s->number.multiple)) > 1e-9 * fmax(1, fabs(s->number.multiple)))
        invalid(c, path, v, "should be a multiple of %s", sw_go_float(c->a, s->number.multiple));
    if (s->number.has_max && (s->number.ex_max ? d >= s->number.max : d > s->number.max))
        invalid(c, path, v, "should be less than %s%s", s->number.ex_max ? "" : "or equal to ",
                sw_go_float(c->a, s->number.max));
    if (s->number.has_min && (s->number.ex_min ? d <= s->number.min : d < s->number.min))
        invalid(c, path, v, "should be greater than %s%s", s->number.ex_min ? "" : "or equal to ",
                sw_go_float(c->a, s->number.min));
}

/* ---- containers ---- */

/* A text that is equal exactly for equal items (or equal keys of a list-map). */
static struct sw_slice identity(struct sw_arena *a, const struct sw_schema *s,
                                const struct sw_json *item, struct sw_json **ret_value)
{
    static const struct sw_json_write_opts sorted = {.flags = SW_JSON_SORT_KEYS};
    struct sw_json *keys;

    *ret_value = NULL;
    if (s->list_type == SW_LIST_SET)
        return sw_json_text(a, item, &sorted);
    keys = sw_json_new_object(a);
    for (size_t i = 0; i < s->nlist_keys; i++) {
        const struct sw_json *k = sw_json_get(item, s->list_keys[i]);

        if (k)
            sw_json_set(a, keys, s->list_keys[i], sw_json_copy(a, k));
    }
    *ret_value = keys;
    return sw_json_text(a, keys, &sorted);
}

void sw_correlate_begin(struct sw_correlator *c, const struct sw_schema *list,
                        const struct sw_json *old)
{
    *c = (struct sw_correlator){0};
    if (list->list_type != SW_LIST_MAP || !sw_json_is(old, SW_JSON_ARRAY))
        return;
    c->list = list;
    for (size_t i = sw_json_len(old); i > 0; i--) {
        struct sw_json *item = sw_json_at(old, i - 1);
        struct sw_json *keys;

        if (sw_json_is(item, SW_JSON_OBJECT))
            (void)sw_map_put(&c->map, identity(&c->arena, list, item, &keys), item);
    }
}

const struct sw_json *sw_correlate_find(struct sw_correlator *c, const struct sw_json *item)
{
    struct sw_json *keys;

    if (!c->list || !sw_json_is(item, SW_JSON_OBJECT))
        return NULL;
    return sw_map_get(&c->map, identity(&c->arena, c->list, item, &keys));
}

void sw_correlate_end(struct sw_correlator *c)
{
    sw_map_done(&c->map);
    sw_arena_clear(&c->arena);
}

static unsigned check_array(const struct ctx *c, const struct sw_schema *s, const struct sw_json *v,
                            const struct sw_json *old, const struct sw_fpath *path)
{
    int64_t n = (int64_t)sw_json_len(v);
    struct sw_correlator was;
    struct sw_json *count;
    unsigned seen = 0;

    if (s->max_items >= 0 && n > s->max_items) { /* before anything is done with the items */
        sw_ferr_too_many(c->e, outer(c, path), (uint64_t)n, (uint64_t)s->max_items);
        return seen;
    }
    sw_correlate_begin(&was, s, old);
    for (size_t i = 0; s->items && i < (size_t)n; i++) {
        struct sw_fpath at = sw_fpath_index(path, i);
        const struct sw_json *item = sw_json_at(v, i);

        seen += check(c, s->items, item, sw_correlate_find(&was, item), &at);
    }
    sw_correlate_end(&was);
    if (s->min_items >= 0 && n < s->min_items) {
        count = sw_json_new_i64(c->a, n);
        invalid(c, path, count, "should have at least %lld items", (long long)s->min_items);
    }
    return seen;
}

static unsigned check_object(const struct ctx *c, const struct sw_schema *s,
                             const struct sw_json *v, const struct sw_json *old,
                             const struct sw_fpath *path)
{
    int64_t n = (int64_t)sw_json_len(v);
    unsigned seen = 0;

    if (s->min_props >= 0 && n < s->min_props) {
        invalid(c, path, sw_json_new_i64(c->a, n), "should have at least %lld properties",
                (long long)s->min_props);
        return 0;
    }
    if (s->max_props >= 0 && n > s->max_props) {
        sw_ferr_too_many(c->e, outer(c, path), (uint64_t)n, (uint64_t)s->max_props);
        return 0;
    }
    for (size_t i = 0; i < s->nrequired; i++) {
        struct sw_fpath at = sw_fpath_field(path, s->required[i]);

        if (!sw_json_get(v, s->required[i]))
            sw_ferr_required(c->e, outer(c, &at), NULL);
    }
    SW_JSON_MEMBERS (m, v) {
        const struct sw_schema *p = sw_schema_prop(s, m->key);

        if (p) {
            struct sw_fpath at = sw_fpath_field(path, m->key);

            seen += check(c, p, m->value, old ? sw_json_get(old, m->key) : NULL, &at);
        }
    }
    return seen;
}

/* ---- junctors ---- */

struct attempt {
    struct sw_field_errs e;
    unsigned seen;
};

static void attempt(const struct ctx *c, const struct sw_schema *s, const struct sw_json *v,
                    const struct sw_json *old, const struct sw_fpath *path, struct attempt *ret)
{
    struct ctx sub = *c;

    sw_field_errs_init(&ret->e, c->a);
    ret->e.budget = c->e->budget;
    sub.e = &ret->e;
    ret->seen = check(&sub, s, v, old, path);
}

struct choice {
    const struct sw_schema_list *of;
    bool first; /* one valid alternative is enough */
    size_t valid;
    struct attempt best; /* the failure that went furthest, while none is valid */
};

static void try_alternatives(const struct ctx *c, struct choice *o, const struct sw_json *v,
                             const struct sw_json *old, const struct sw_fpath *path)
{
    bool have = false;

    for (size_t i = 0; i < o->of->n && !(o->first && o->valid); i++) {
        struct attempt t;

        attempt(c, o->of->p[i], v, old, path, &t);
        if (!t.e.n) {
            o->valid++;
        } else if (!have || t.seen > o->best.seen) {
            o->best = t;
            have = true;
        }
    }
}

static void check_junctors(const struct ctx *c, const struct sw_schema *s, const struct sw_json *v,
                           const struct sw_json *old, const struct sw_fpath *path)
{
    struct choice any = {.of = &s->any_of, .first = true};
    struct choice one = {.of = &s->one_of};
    struct attempt t = {0};
    size_t valid = 0;

    try_alternatives(c, &any, v, old, path);
    if (s->any_of.n && !any.valid) {
        junctor(c, path, "must validate at least one schema (anyOf)");
        sw_ferr_append(c->e, &any.best.e);
    }
    try_alternatives(c, &one, v, old, path);
    if (s->one_of.n) {
        if (!one.valid) {
            junctor(c, path, "must validate one and only one schema (oneOf). Found none valid");
            sw_ferr_append(c->e, &one.best.e);
        } else if (one.valid > 1) {
            junctor(c, path,
                    sw_arena_printf(c->a,
                                    "must validate one and only one schema (oneOf). Found %zu "
                                    "valid alternatives",
                                    one.valid));
        }
    }
    for (size_t i = 0; i < s->all_of.n; i++) {
        attempt(c, s->all_of.p[i], v, old, path, &t);
        valid += !t.e.n;
        sw_ferr_append(c->e, &t.e);
    }
    if (valid != s->all_of.n)
        junctor(c, path, "must validate all the schemas (allOf)");
    if (s->not ) {
        attempt(c, s->not, v, old, path, &t);
        if (!t.e.n)
            junctor(c, path, "must not validate the schema (not)");
    }
}

/* Returns how many nodes were looked at: the measure of how far an alternative went. */
static unsigned check(const struct ctx *c, const struct sw_schema *s, const struct sw_json *v,
                      const struct sw_json *old, const struct sw_fpath *path)
{
    unsigned seen = 1;

    if (!spend(c, path, NODE_STEPS))
        return seen;
    if (old && sw_json_equal(v, old, SW_JSON_EQ_VALUE))
        return seen;
    check_type(c, s, v, path);
    if (v->type == SW_JSON_NULL) {
        if (s->enums)
            check_enum(c, s, v, path);
        return seen;
    }
    check_junctors(c, s, v, old, path);
    if (s->enums)
        check_enum(c, s, v, path);
    switch (v->type) {
    case SW_JSON_STRING:
        check_string(c, s, v, path);
        check_format(c, s, v, path);
        break;
    case SW_JSON_NUMBER:
        check_number(c, s, v, path);
        break;
    case SW_JSON_ARRAY:
        seen += check_array(c, s, v, old, path);
        break;
    case SW_JSON_OBJECT:
        seen += check_object(c, s, v, old, path);
        break;
    case SW_JSON_BOOL:
    case SW_JSON_NULL:
        break;
    }
    return seen;
}

void sw_schema_validate(const struct sw_schema *s, const struct sw_json *v,
                        const struct sw_json *old, const struct sw_fpath *prefix,
                        struct sw_field_errs *e)
{
    const char *over = NULL;
    struct ctx c = {.prefix = prefix, .a = e->arena, .e = e, .over = &over};

    c.status = prefix && !prefix->up && sw_slice_eq_str(prefix->name, "status");
    (void)check(&c, s, v, old, NULL);
    if (over) {
        struct sw_fpath at = sw_fpath_str(NULL, over);

        sw_ferr_forbidden(e, &at, "checking the object up to here takes more work than is allowed");
    }
}

/* ---- list types ---- */

static void check_duplicates(const struct sw_schema *s, const struct sw_json *v,
                             const struct sw_fpath *path, struct sw_field_errs *e)
{
    struct sw_map seen = {0};

    for (size_t i = 0; i < sw_json_len(v); i++) {
        struct sw_json *item = sw_json_at(v, i);
        struct sw_json *keys;
        struct sw_slice id;

        if (s->list_type == SW_LIST_MAP && !sw_json_is(item, SW_JSON_OBJECT))
            continue;
        id = identity(e->arena, s, item, &keys);
        if (sw_map_put(&seen, id, item)) {
            struct sw_fpath at = sw_fpath_index(path, i);

            sw_ferr_duplicate(e, &at, keys ? keys : item);
        }
    }
    sw_map_done(&seen);
}

static void check_list(const struct sw_schema *s, const struct sw_json *v,
                       const struct sw_fpath *path, struct sw_field_errs *e)
{
    if (v->type == SW_JSON_ARRAY && s->type == SW_T_ARRAY && s->list_type != SW_LIST_ATOMIC)
        check_duplicates(s, v, path, e);
}

void sw_schema_validate_lists(const struct sw_schema *s, const struct sw_json *v,
                              const struct sw_fpath *path, struct sw_field_errs *e)
{
    sw_schema_each(s, v, path, e, check_list);
}

bool sw_schema_blocks_rules(const struct sw_field_errs *e)
{
    for (size_t i = 0; i < e->n; i++) {
        enum sw_cause c = e->p[i].cause;

        if (c == SW_CAUSE_REQUIRED || c == SW_CAUSE_TYPE_INVALID || c == SW_CAUSE_NOT_SUPPORTED ||
            c == SW_CAUSE_TOO_LONG || c == SW_CAUSE_TOO_MANY)
            return true;
    }
    return false;
}
