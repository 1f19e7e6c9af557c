/* SPDX-License-Identifier: Apache-2.0 */
/* Types of expressions: what a schema has, what operators make of them, how they are called. */
#include "base/search.h"
#include "kube/cel/cel_priv.h"

const struct cel_type cel_t_dyn = {.k = CEL_DYN};
const struct cel_type cel_t_null = {.k = CEL_NULL};
const struct cel_type cel_t_bool = {.k = CEL_BOOL};
const struct cel_type cel_t_int = {.k = CEL_INT};
const struct cel_type cel_t_uint = {.k = CEL_UINT};
const struct cel_type cel_t_double = {.k = CEL_DOUBLE};
const struct cel_type cel_t_string = {.k = CEL_STRING};
const struct cel_type cel_t_bytes = {.k = CEL_BYTES};
const struct cel_type cel_t_duration = {.k = CEL_DURATION};
const struct cel_type cel_t_timestamp = {.k = CEL_TIMESTAMP};
const struct cel_type cel_t_type = {.k = CEL_TYPE};

const struct cel_type *cel_type_container(struct sw_arena *a, enum cel_kind k,
                                          const struct cel_type *elem, bool nullable)
{
    struct cel_type *t = SW_ARENA_NEW(a, struct cel_type);

    t->k = k;
    t->elem = elem;
    t->nullable = nullable;
    return t;
}

static const struct cel_type *string_type(const struct sw_schema *s)
{
    if (sw_slice_eq_str(s->format, "byte"))
        return &cel_t_bytes;
    if (sw_slice_eq_str(s->format, "duration"))
        return &cel_t_duration;
    if (sw_slice_eq_str(s->format, "date") || sw_slice_eq_str(s->format, "date-time"))
        return &cel_t_timestamp;
    return &cel_t_string;
}

static const struct cel_type *scalar_type(struct sw_arena *a, const struct sw_schema *s)
{
    const struct cel_type *t = s->type == SW_T_STRING    ? string_type(s)
                               : s->type == SW_T_INTEGER ? &cel_t_int
                               : s->type == SW_T_NUMBER  ? &cel_t_double
                                                         : &cel_t_bool;
    struct cel_type *copy;

    if (!s->nullable)
        return t;
    copy = SW_ARENA_NEW(a, struct cel_type);
    *copy = *t;
    copy->nullable = true;
    return copy;
}

const struct cel_type *cel_type_of(struct sw_arena *a, const struct sw_schema *s, bool resource)
{
    const struct cel_type *elem;
    struct cel_type *t;

    if (s->int_or_string)
        return &cel_t_dyn;
    switch (s->type) {
    case SW_T_NONE:
        return NULL;
    case SW_T_ARRAY:
        elem = s->items ? cel_type_of(a, s->items, s->items->embedded) : NULL;
        return elem ? cel_type_container(a, CEL_LIST, elem, s->nullable) : NULL;
    case SW_T_OBJECT:
        if (s->additional) {
            elem = cel_type_of(a, s->additional, s->additional->embedded);
            return elem ? cel_type_container(a, CEL_MAP, elem, s->nullable) : NULL;
        }
        t = SW_ARENA_NEW(a, struct cel_type);
        *t = (struct cel_type){.k = CEL_OBJECT,
                               .nullable = s->nullable,
                               .schema = s,
                               .resource = resource || s->embedded};
        return t;
    case SW_T_STRING:
    case SW_T_INTEGER:
    case SW_T_NUMBER:
    case SW_T_BOOLEAN:
        break;
    }
    return scalar_type(a, s);
}

const char *cel_type_name(struct sw_arena *a, const struct cel_type *t)
{
    static const char *const names[] = {
#define X(kind, type_name, value_name) type_name,
        CEL_KINDS(X)
#undef X
    };

    if (t->k == CEL_LIST)
        return sw_arena_printf(a, "list(%s)", cel_type_name(a, t->elem));
    if (t->k == CEL_MAP)
        return sw_arena_printf(a, "map(string, %s)", cel_type_name(a, t->elem));
    if (t->k == CEL_OPTIONAL)
        return sw_arena_printf(a, "optional_type(%s)", cel_type_name(a, t->elem));
    return names[t->k];
}

/* ---- operators ---- */

/* Whether '==' between the two can be written. */
static bool comparable(const struct cel_type *x, const struct cel_type *y)
{
    if (x->k == CEL_DYN || y->k == CEL_DYN)
        return true;
    if (x->k == CEL_NULL || y->k == CEL_NULL) {
        const struct cel_type *o = x->k == CEL_NULL ? y : x;

        return o->nullable || o->k == CEL_NULL || o->k == CEL_OPTIONAL || o->k == CEL_OBJECT ||
               o->k == CEL_DURATION || o->k == CEL_TIMESTAMP;
    }
    if (x->k != y->k)
        return (x->k == CEL_MAP && y->k == CEL_OBJECT) || (x->k == CEL_OBJECT && y->k == CEL_MAP);
    if (x->k == CEL_LIST || x->k == CEL_MAP || x->k == CEL_OPTIONAL)
        return comparable(x->elem, y->elem);
    return true;
}

static bool in_kinds(enum cel_kind k, const enum cel_kind *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i] == k)
            return true;
    }
    return false;
}

static const struct cel_type *arithmetic(enum cel_op op, const struct cel_type *x,
                                         const struct cel_type *y)
{
    static const enum cel_kind nums[] = {CEL_INT, CEL_UINT, CEL_DOUBLE};

    if (x->k == CEL_DYN || y->k == CEL_DYN)
        return x->k == CEL_DYN ? y->k == CEL_DYN ? &cel_t_dyn : y : x;
    if (op == OP_MOD)
        return x->k == y->k && (x->k == CEL_INT || x->k == CEL_UINT) ? x : NULL;
    if (x->k == y->k && in_kinds(x->k, nums, SW_ARRAY_LEN(nums)))
        return x;
    if (op == OP_ADD && x->k == y->k &&
        (x->k == CEL_STRING || x->k == CEL_BYTES || x->k == CEL_LIST))
        return x->k == CEL_LIST && x->elem->k == CEL_DYN ? y : x;
    if (op == OP_ADD || op == OP_SUB) {
        if (x->k == CEL_DURATION && y->k == CEL_DURATION)
            return x;
        if (x->k == CEL_TIMESTAMP && y->k == CEL_DURATION)
            return x;
        if (op == OP_ADD && x->k == CEL_DURATION && y->k == CEL_TIMESTAMP)
            return y;
        if (op == OP_SUB && x->k == CEL_TIMESTAMP && y->k == CEL_TIMESTAMP)
            return &cel_t_duration;
    }
    return NULL;
}

static const struct cel_type *ordering(const struct cel_type *x, const struct cel_type *y)
{
    static const enum cel_kind nums[] = {CEL_INT, CEL_UINT, CEL_DOUBLE};
    static const enum cel_kind others[] = {CEL_BOOL, CEL_STRING, CEL_BYTES, CEL_DURATION,
                                           CEL_TIMESTAMP};

    if (x->k == CEL_DYN || y->k == CEL_DYN)
        return &cel_t_bool;
    if (in_kinds(x->k, nums, 3) && in_kinds(y->k, nums, 3))
        return &cel_t_bool;
    return x->k == y->k && in_kinds(x->k, others, SW_ARRAY_LEN(others)) ? &cel_t_bool : NULL;
}

const struct cel_type *cel_type_join(const struct cel_type *x, const struct cel_type *y)
{
    if (x->k == CEL_NULL && y->nullable)
        return y;
    if (y->k == CEL_NULL && x->nullable)
        return x;
    if (x->k != y->k || x->schema != y->schema)
        return &cel_t_dyn;
    if (x->elem && y->elem && cel_type_join(x->elem, y->elem)->k == CEL_DYN &&
        x->elem->k != CEL_DYN)
        return y->elem->k == CEL_DYN ? y : x;
    return x;
}

bool cel_type_apart(const struct cel_type *x, const struct cel_type *y)
{
    return x->k != CEL_DYN && y->k != CEL_DYN && x->k != y->k && x->k != CEL_NULL &&
           y->k != CEL_NULL;
}

bool cel_type_objects_apart(const struct cel_type *x, const struct cel_type *y)
{
    if (x->k == CEL_OBJECT || y->k == CEL_OBJECT)
        return (x->k == CEL_OBJECT && y->k == CEL_OBJECT && x->schema != y->schema) ||
               x->k == CEL_MAP || y->k == CEL_MAP;
    return x->elem && y->elem && cel_type_objects_apart(x->elem, y->elem);
}

const struct cel_type *cel_type_binary(enum cel_op op, const struct cel_type *x,
                                       const struct cel_type *y)
{
    switch (op) {
    case OP_EQ:
    case OP_NE:
        return comparable(x, y) ? &cel_t_bool : NULL;
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
        return ordering(x, y);
    case OP_IN:
        if (y->k == CEL_DYN || (y->k == CEL_LIST && comparable(x, y->elem)) ||
            (y->k == CEL_MAP && (x->k == CEL_STRING || x->k == CEL_DYN || y->elem->k == CEL_DYN)))
            return &cel_t_bool;
        return NULL;
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_MOD:
        break;
    }
    return arithmetic(op, x, y);
}

/* ---- names of properties ---- */

static bool keyword(struct sw_slice s)
{
    static const char *const words[] = {
        "true",      "false",  "null",     "in",   "as",     "break", "const", "continue",
        "else",      "for",    "function", "if",   "import", "let",   "loop",  "package",
        "namespace", "return", "var",      "void", "while",  NULL,
    };

    return sw_word_in(s, words);
}

struct sw_slice cel_unescape(struct sw_arena *a, struct sw_slice name)
{
    static const struct {
        const char *from;
        const char *to;
    } pairs[] = {
        {"__underscores__", "__"}, {"__dot__", "."}, {"__dash__", "-"}, {"__slash__", "/"}};
    char *out;
    size_t n = 0;

    if (!name.n || !memmem(name.p, name.n, "__", 2))
        return name;
    if (name.n > 4 && sw_slice_has_prefix(name, SW_SLICE_LIT("__")) &&
        sw_slice_has_suffix(name, SW_SLICE_LIT("__")) && keyword(sw_slice(name.p + 2, name.n - 4)))
        return sw_slice(name.p + 2, name.n - 4);
    out = sw_arena_alloc(a, name.n + 1);
    for (size_t i = 0; i < name.n;) {
        size_t j = 0;

        while (j < SW_ARRAY_LEN(pairs) &&
               !sw_slice_has_prefix(sw_slice_from(name, i), sw_slice_str(pairs[j].from)))
            j++;
        if (j < SW_ARRAY_LEN(pairs)) {
            memcpy(out + n, pairs[j].to, strlen(pairs[j].to));
            n += strlen(pairs[j].to);
            i += strlen(pairs[j].from);
        } else {
            out[n++] = name.p[i++];
        }
    }
    return sw_slice(out, n);
}
