/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments that are written in the expression and can only fail are refused when it is compiled:
 * durations, times, lists and maps of mixed types, and the clauses of format() with what they are
 * given. (Patterns are compiled with the expression.)
 */
#include "kube/cel/cel_priv.h"
#include "regex/regex.h"

static bool is_text(const struct cel_node *n)
{
    return n->kind == N_CONST && n->value.k == CEL_STRING;
}

static bool of_kind(const struct cel_node *n, const enum cel_kind *kinds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (n->type->k == kinds[i])
            return true;
    }
    return n->type->k == CEL_DYN;
}

/* What a clause takes; *ret_what describes it. */
static bool clause_takes(char clause, const struct cel_node *arg, const char **ret_what)
{
    static const enum cel_kind any[] = {CEL_LIST,     CEL_MAP,  CEL_INT,       CEL_UINT,
                                        CEL_DOUBLE,   CEL_BOOL, CEL_BYTES,     CEL_STRING,
                                        CEL_DURATION, CEL_TYPE, CEL_TIMESTAMP, CEL_NULL};
    static const enum cel_kind whole[] = {CEL_INT, CEL_UINT, CEL_BOOL};
    static const enum cel_kind real[] = {CEL_DOUBLE, CEL_STRING};
    static const enum cel_kind hex[] = {CEL_INT, CEL_UINT, CEL_STRING, CEL_BYTES};

    switch (clause) {
    case 's':
        *ret_what = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, "
                    "lists, types, durations, and timestamps";
        return of_kind(arg, any, SW_ARRAY_LEN(any));
    case 'd':
        *ret_what = "decimal clause can only be used on integers";
        return of_kind(arg, whole, 2);
    case 'f':
        *ret_what = "fixed-point clause can only be used on doubles";
        return of_kind(arg, real, SW_ARRAY_LEN(real));
    case 'e':
        *ret_what = "scientific clause can only be used on doubles";
        return of_kind(arg, real, SW_ARRAY_LEN(real));
    case 'b':
        *ret_what = "only integers and bools can be formatted as binary";
        return of_kind(arg, whole, SW_ARRAY_LEN(whole));
    case 'x':
    case 'X':
        *ret_what = "only integers, byte buffers, and strings can be formatted as hex";
        return of_kind(arg, hex, SW_ARRAY_LEN(hex));
    case 'o':
        *ret_what = "octal clause can only be used on integers";
        return of_kind(arg, whole, 2);
    default:
        *ret_what = NULL;
        return false;
    }
}

/* One clause, after its '%'; false: refused. */
static bool check_clause(struct sw_cel *c, const struct cel_node *n, struct sw_slice *rest,
                         size_t index)
{
    const struct cel_node *list = n->args[1];
    const char *what;

    if (!rest->n)
        return cel_fail(c, n->pos, "unexpected end of string");
    if (index >= list->nargs)
        return cel_fail(c, n->pos, "index %zu out of range", index);
    if (rest->p[0] == '.') {
        *rest = sw_slice_from(*rest, 1);
        while (rest->n && rest->p[0] >= '0' && rest->p[0] <= '9')
            *rest = sw_slice_from(*rest, 1);
        if (!rest->n)
            return cel_fail(c, n->pos,
                            "error while parsing precision: could not find end of precision "
                            "specifier");
    }
    if (!clause_takes(rest->p[0], list->args[index], &what))
        return what ? cel_fail(c, list->args[index]->pos,
                               "error during formatting: %s, was given %s", what,
                               cel_type_name(&c->arena, list->args[index]->type))
                    : cel_fail(c, n->pos,
                               "could not parse formatting clause: unrecognized formatting clause "
                               "\"%c\"",
                               rest->p[0]);
    *rest = sw_slice_from(*rest, 1);
    return true;
}

static void check_format(struct sw_cel *c, const struct cel_node *n)
{
    struct sw_slice rest = n->args[0]->value.s;
    size_t used = 0;

    while (rest.n) {
        char ch = rest.p[0];

        rest = sw_slice_from(rest, 1);
        if (ch != '%')
            continue;
        if (rest.n && rest.p[0] == '%')
            rest = sw_slice_from(rest, 1);
        else if (!check_clause(c, n, &rest, used++))
            return;
    }
    if (n->args[1]->nargs > used)
        cel_fail(c, n->pos, "too many arguments supplied to string.format (expected %zu, got %zu)",
                 used, n->args[1]->nargs);
}

/* Conversions of constants happen when the program is made. */
static void check_conversion(struct sw_cel *c, const struct cel_node *n)
{
    static const char *const names[] = {"bool", "double", "int", "uint"};
    SW_ARENA_AUTO tmp = {0};
    struct sw_budget work = {.steps = SW_REGEX_STEPS};
    struct cel_env env = {.a = &tmp, .limit = SW_CEL_RULE_COST, .work = &work};
    struct cel_val v;

    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        if (!sw_slice_eq_str(n->name, names[i]))
            continue;
        v = cel_eval(&env, n);
        if (v.k != CEL_ERROR)
            return;
        c->unplaced = true;
        cel_fail(c, 0, "program instantiation failed: %.*s", SW_SLICE_ARG(v.s));
    }
}

static void check_call(struct sw_cel *c, const struct cel_node *n)
{
    int64_t sec;
    int32_t ns;

    if (n->nargs == 1 && n->args[0]->kind == N_CONST)
        check_conversion(c, n);
    if (n->nargs == 1 && is_text(n->args[0]) &&
        ((sw_slice_eq_str(n->name, "duration") && !cel_parse_duration(n->args[0]->value.s, &sec)) ||
         (sw_slice_eq_str(n->name, "timestamp") &&
          !cel_parse_time(n->args[0]->value.s, &sec, &ns))))
        cel_fail(c, n->args[0]->pos, "invalid %.*s argument", SW_SLICE_ARG(n->name));
    else if (sw_slice_eq_str(n->name, "format") && n->has_target && n->nargs == 2 &&
             is_text(n->args[0]) && n->args[1]->kind == N_LIST)
        check_format(c, n);
}

/* Elements of one list, or keys or values of one map, of two types. */
static bool mixed(const struct cel_type *x, const struct cel_type *y)
{
    if (x->k == CEL_DYN || y->k == CEL_DYN)
        return false;
    return x->k != y->k || cel_type_objects_apart(x, y) ||
           (x->elem && y->elem && mixed(x->elem, y->elem));
}

static void check_aggregate(struct sw_cel *c, const struct cel_node *n)
{
    size_t step = n->kind == N_MAP ? 2 : 1;

    for (size_t i = step; i < n->nargs && !c->failed; i++) {
        const struct cel_type *want = n->args[i % step]->type;

        if (mixed(want, n->args[i]->type) ||
            (want->k == CEL_DYN) != (n->args[i]->type->k == CEL_DYN))
            cel_fail(c, n->args[i]->pos, "expected type '%s' but found '%s'",
                     cel_type_name(&c->arena, want), cel_type_name(&c->arena, n->args[i]->type));
    }
}

/* format() takes lists of anything, wherever below it they stand. */
static void visit(struct sw_cel *c, const struct cel_node *n, bool in_format)
{
    if (n->kind == N_CALL)
        check_call(c, n);
    else if ((n->kind == N_LIST || n->kind == N_MAP) && !in_format)
        check_aggregate(c, n);
    in_format = in_format || (n->kind == N_CALL && sw_slice_eq_str(n->name, "format"));
    for (size_t i = 0; i < n->nargs && !c->failed; i++)
        visit(c, n->args[i], in_format);
}

void cel_check_literals(struct sw_cel *c)
{
    if (!(c->flags & SW_CEL_STORED))
        visit(c, c->root, false);
}
