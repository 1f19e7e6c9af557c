/* SPDX-License-Identifier: Apache-2.0 */
/* Macros as the loops they stand for, and which overloads a call may mean. */
#include "kube/cel/cost.h"

enum { NODES_MAX = 60000 }; /* optMap copies its target: chains of it double */

struct expander {
    struct sw_arena *a;
    size_t nodes;
};

static struct cel_x *expand(struct expander *e, const struct cel_node *n);

static const struct cel_val lit_true = {.k = CEL_BOOL, .b = true};
static const struct cel_val lit_false = {.k = CEL_BOOL};
static const struct cel_val lit_zero = {.k = CEL_INT};
static const struct cel_val lit_one = {.k = CEL_INT, .i = 1};

/* The accumulator of macros; no expression can name it. */
#define ACCU SW_SLICE_LIT("@result")

static struct cel_x *new_x(struct expander *e, enum cel_xkind kind, const struct cel_type *t,
                           size_t nargs)
{
    struct cel_x *x = SW_ARENA_NEW(e->a, struct cel_x);

    e->nodes++;
    x->kind = kind;
    x->type = t ? t : &cel_t_dyn;
    x->nargs = nargs;
    x->args = sw_arena_array(e->a, nargs + 1, sizeof(*x->args));
    return x;
}

static struct cel_x *literal(struct expander *e, const struct cel_val *v, const struct cel_type *t)
{
    struct cel_x *x = new_x(e, X_LITERAL, t, 0);

    x->lit = v;
    return x;
}

static struct cel_x *ident(struct expander *e, struct sw_slice name, const struct cel_type *t)
{
    struct cel_x *x = new_x(e, X_IDENT, t, 0);

    x->name = name;
    return x;
}

/* Arguments of a call, which end with NULL. */
#define ARGS(...) ((struct cel_x *const[]){__VA_ARGS__, NULL})

/* args: NULL when there are none. */
static struct cel_x *call(struct expander *e, const char *name, enum cel_overload ov,
                          const struct cel_type *t, struct cel_x *const *args)
{
    struct cel_x *x;
    size_t n = 0;

    while (args && args[n])
        n++;
    x = new_x(e, X_CALL, t, n);
    x->name = sw_slice_str(name);
    x->ov[x->nov++] = ov;
    for (size_t i = 0; i < n; i++)
        x->args[i] = args[i];
    return x;
}

static struct cel_x *member(struct expander *e, const char *name, const struct cel_type *t,
                            struct cel_x *target)
{
    struct cel_x *x = call(e, name, OV_OTHER, t, NULL);

    x->target = target;
    return x;
}

static void expand_args(struct expander *e, const struct cel_node *n, struct cel_x *x, size_t from)
{
    for (size_t i = 0; i + from < n->nargs; i++)
        x->args[i] = expand(e, n->args[i + from]);
}

/* ---- which overloads may be meant ---- */

static bool may_be(const struct cel_type *t, enum cel_kind k)
{
    return t->k == k || t->k == CEL_DYN;
}

static void add_ov(struct cel_x *x, bool may, enum cel_overload ov)
{
    if (may)
        x->ov[x->nov++] = ov;
}

static bool texts(const struct cel_type *x, const struct cel_type *y)
{
    return (may_be(x, CEL_STRING) && may_be(y, CEL_STRING)) ||
           (may_be(x, CEL_BYTES) && may_be(y, CEL_BYTES));
}

static void binary_overloads(const struct cel_node *n, struct cel_x *x)
{
    const struct cel_type *l = n->args[0]->type;
    const struct cel_type *r = n->args[1]->type;
    bool dyn = l->k == CEL_DYN && r->k == CEL_DYN;

    switch (n->op) {
    case OP_EQ:
    case OP_NE:
        add_ov(x, true, OV_EQUAL);
        return;
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
        add_ov(x, dyn || !texts(l, r), OV_OTHER);
        add_ov(x, texts(l, r), OV_ORDER);
        return;
    case OP_IN:
        add_ov(x, may_be(r, CEL_LIST), OV_IN_LIST);
        add_ov(x, r->k != CEL_LIST, OV_OTHER);
        return;
    case OP_ADD:
        add_ov(x, texts(l, r), OV_ADD_TEXT);
        add_ov(x, may_be(l, CEL_LIST) && may_be(r, CEL_LIST), OV_ADD_LIST);
        add_ov(x, dyn || !x->nov, OV_OTHER);
        return;
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_MOD:
        break;
    }
    add_ov(x, true, OV_OTHER);
}

static bool called(const struct cel_x *x, const char *name)
{
    return sw_slice_eq_str(x->name, name);
}

static void call_overloads(const struct cel_node *n, struct cel_x *x)
{
    static const struct {
        const char *name;
        enum cel_overload ov;
    } single[] = {
        {"contains", OV_CONTAINS},    {"startsWith", OV_AFFIX},
        {"endsWith", OV_AFFIX},       {"format", OV_FORMAT},
        {"strings.quote", OV_QUOTE},  {"sets.contains", OV_SETS},
        {"sets.intersects", OV_SETS}, {"sets.equivalent", OV_SETS_TWICE},
    };
    const struct cel_type *last = n->nargs ? n->args[n->nargs - 1]->type : &cel_t_dyn;

    for (size_t i = 0; i < SW_ARRAY_LEN(single); i++)
        add_ov(x, called(x, single[i].name), single[i].ov);
    if (called(x, "matches"))
        add_ov(x, x->target, OV_MATCHES);
    else if (called(x, "containsIP") || called(x, "containsCIDR"))
        add_ov(x, may_be(last, CEL_STRING), OV_NET_TEXT);
    else if (called(x, "bytes"))
        add_ov(x, may_be(last, CEL_STRING), OV_TO_BYTES);
    else if (called(x, "string"))
        add_ov(x, may_be(last, CEL_BYTES), OV_TO_STRING);
    add_ov(x, !x->nov || (last->k == CEL_DYN && x->nov < 2), OV_OTHER);
}

/* ---- nodes ---- */

static struct cel_x *expand_call(struct expander *e, const struct cel_node *n)
{
    bool target = n->has_target;
    struct cel_x *x = new_x(e, X_CALL, n->type, n->nargs - (target ? 1 : 0));

    x->name = n->name;
    if (target)
        x->target = expand(e, n->args[0]);
    expand_args(e, n, x, target ? 1 : 0);
    call_overloads(n, x);
    return x;
}

static struct cel_x *expand_binary(struct expander *e, const struct cel_node *n)
{
    static const char *const names[] = {"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_",
                                        "@in",  "_+_",  "_-_", "_*_",  "_/_", "_%_"};
    struct cel_x *x = new_x(e, X_CALL, n->type, 2);

    x->name = sw_slice_str(names[n->op]);
    expand_args(e, n, x, 0);
    binary_overloads(n, x);
    return x;
}

static struct cel_x *expand_index(struct expander *e, const struct cel_node *n)
{
    const struct cel_type *t = n->args[0]->type;
    struct cel_x *x = new_x(e, X_CALL, n->type, 2);

    x->name = sw_slice_str(n->optional ? "_[?_]" : "_[_]");
    expand_args(e, n, x, 0);
    add_ov(x, !n->optional && may_be(t, CEL_LIST), OV_INDEX_LIST);
    add_ov(x, !n->optional && may_be(t, CEL_MAP), OV_INDEX_MAP);
    add_ov(x, !x->nov, OV_OTHER);
    return x;
}

static struct cel_x *expand_select(struct expander *e, const struct cel_node *n)
{
    struct cel_x *operand = expand(e, n->args[0]);
    struct cel_x *x;

    if (n->optional) {
        struct cel_val *name = SW_ARENA_NEW(e->a, struct cel_val);

        *name = cel_string(n->name);
        return call(e, "_?._", OV_OTHER, n->type, ARGS(operand, literal(e, name, &cel_t_string)));
    }
    x = new_x(e, n->kind == N_HAS ? X_TEST : X_SELECT, n->type, 1);
    /* The reference finds such a field, but not its size. */
    x->name = n->unescaped ? SW_SLICE_LIT("@unescaped") : n->name;
    x->args[0] = operand;
    return x;
}

/* a && b && c: the shape of the tree does not matter, only the sum. */
static struct cel_x *expand_logic(struct expander *e, const struct cel_node *n)
{
    struct cel_x *x = expand(e, n->args[0]);
    const char *name = n->kind == N_AND ? "_&&_" : "_||_";

    for (size_t i = 1; i < n->nargs; i++)
        x = call(e, name, OV_LOGIC, &cel_t_bool, ARGS(x, expand(e, n->args[i])));
    return x;
}

static struct cel_x *expand_unary(struct expander *e, const struct cel_node *n)
{
    return call(e, n->kind == N_NOT ? "!_" : "-_", OV_OTHER, n->type, ARGS(expand(e, n->args[0])));
}

/* ---- macros ---- */

static struct cel_x *loop(struct expander *e, const struct cel_node *n, struct cel_x *start,
                          struct cel_x *cond, struct cel_x *step, struct cel_x *result)
{
    struct cel_x *x = new_x(e, X_LOOP, n->type, 5);

    x->name = n->name;
    x->name2 = n->name2;
    x->accu = ACCU;
    x->args[0] = expand(e, n->args[0]);
    x->args[1] = start;
    x->args[2] = cond;
    x->args[3] = step;
    x->args[4] = result;
    return x;
}

static struct cel_x *expand_quantifier(struct expander *e, const struct cel_node *n)
{
    bool all = n->kind == N_ALL;
    const struct cel_type *t = &cel_t_bool;
    struct cel_x *seen = ident(e, ACCU, t);

    if (!all)
        seen = call(e, "!_", OV_OTHER, t, ARGS(seen));
    return loop(
        e, n, literal(e, all ? &lit_true : &lit_false, t),
        call(e, "@not_strictly_false", OV_OTHER, t, ARGS(seen)),
        call(e, all ? "_&&_" : "_||_", OV_LOGIC, t, ARGS(ident(e, ACCU, t), expand(e, n->args[1]))),
        ident(e, ACCU, t));
}

static struct cel_x *expand_exists_one(struct expander *e, const struct cel_node *n)
{
    const struct cel_type *t = &cel_t_int;
    struct cel_x *more =
        call(e, "_+_", OV_OTHER, t, ARGS(ident(e, ACCU, t), literal(e, &lit_one, t)));

    return loop(
        e, n, literal(e, &lit_zero, t), literal(e, &lit_true, &cel_t_bool),
        call(e, "_?_:_", OV_COND, t, ARGS(expand(e, n->args[1]), more, ident(e, ACCU, t))),
        call(e, "_==_", OV_EQUAL, &cel_t_bool, ARGS(ident(e, ACCU, t), literal(e, &lit_one, t))));
}

/* filter, map, transformList: a list grows by one element. */
static struct cel_x *expand_collect(struct expander *e, const struct cel_node *n)
{
    const struct cel_type *t = n->type;
    bool filter = n->kind == N_FILTER;
    struct cel_x *one = new_x(e, X_LIST, t, 1);
    struct cel_x *step;

    one->args[0] = filter ? ident(e, n->name, t->elem) : expand(e, n->args[n->nargs - 1]);
    step = call(e, "_+_", OV_ADD_LIST, t, ARGS(ident(e, ACCU, t), one));
    if (filter || n->nargs == 3)
        step = call(e, "_?_:_", OV_COND, t, ARGS(expand(e, n->args[1]), step, ident(e, ACCU, t)));
    return loop(e, n, new_x(e, X_LIST, t, 0), literal(e, &lit_true, &cel_t_bool), step,
                ident(e, ACCU, t));
}

/* transformMap and transformMapEntry: a map grows by one entry. */
static struct cel_x *expand_collect_map(struct expander *e, const struct cel_node *n)
{
    const struct cel_type *t = n->type;
    struct cel_x *value = expand(e, n->args[n->nargs - 1]);
    struct cel_x *key = n->entry ? NULL : ident(e, n->name, &cel_t_dyn);
    struct cel_x *step = call(e, "cel.@mapInsert", OV_OTHER, t,
                              ARGS(ident(e, ACCU, t), key ? key : value, key ? value : NULL));

    if (n->nargs == 3)
        step = call(e, "_?_:_", OV_COND, t, ARGS(expand(e, n->args[1]), step, ident(e, ACCU, t)));
    return loop(e, n, new_x(e, X_MAP, t, 0), literal(e, &lit_true, &cel_t_bool), step,
                ident(e, ACCU, t));
}

/* A value with a name: a loop that never turns. */
static struct cel_x *named(struct expander *e, const struct cel_node *n, struct cel_x *value)
{
    struct cel_x *x = new_x(e, X_LOOP, n->args[1]->type, 5);

    x->name = SW_SLICE_LIT("#unused");
    x->accu = n->name;
    x->bind = true;
    x->args[0] = new_x(e, X_LIST, &cel_t_dyn, 0);
    x->args[1] = value;
    x->args[2] = literal(e, &lit_false, &cel_t_bool);
    x->args[3] = ident(e, n->name, value->type);
    x->args[4] = expand(e, n->args[1]);
    return x;
}

/* t.optMap(v, f): t.hasValue() ? optional.of(v = t.value() in f) : optional.none() */
static struct cel_x *expand_opt_map(struct expander *e, const struct cel_node *n)
{
    const struct cel_type *target = n->args[0]->type;
    const struct cel_type *elem = target->k == CEL_OPTIONAL ? target->elem : &cel_t_dyn;
    struct cel_x *has = member(e, "hasValue", &cel_t_bool, expand(e, n->args[0]));
    struct cel_x *x = named(e, n, member(e, "value", elem, expand(e, n->args[0])));

    if (n->kind == N_OPT_MAP)
        x = call(e, "optional.of", OV_OTHER, n->type, ARGS(x));
    return call(e, "_?_:_", OV_COND, n->type,
                ARGS(has, x, call(e, "optional.none", OV_OTHER, n->type, NULL)));
}

static struct cel_x *expand_aggregate(struct expander *e, const struct cel_node *n)
{
    struct cel_x *x = new_x(e, n->kind == N_LIST ? X_LIST : X_MAP, n->type, n->nargs);

    expand_args(e, n, x, 0);
    return x;
}

static struct cel_x *expand_const(struct expander *e, const struct cel_node *n)
{
    return n->value.k == CEL_TYPE ? ident(e, n->value.s, n->type) : literal(e, &n->value, n->type);
}

static struct cel_x *expand_ident(struct expander *e, const struct cel_node *n)
{
    return ident(e, n->name, n->type);
}

static struct cel_x *expand_cond(struct expander *e, const struct cel_node *n)
{
    return call(e, "_?_:_", OV_COND, n->type,
                ARGS(expand(e, n->args[0]), expand(e, n->args[1]), expand(e, n->args[2])));
}

static struct cel_x *expand_bind(struct expander *e, const struct cel_node *n)
{
    return named(e, n, expand(e, n->args[0]));
}

/* Admission expressions are not estimated, and too many nodes are not looked at. */
static struct cel_x *expand_nothing(struct expander *e, const struct cel_node *n)
{
    return new_x(e, X_LITERAL, n->type, 0);
}

static struct cel_x *expand(struct expander *e, const struct cel_node *n)
{
    static struct cel_x *(*const expands[])(struct expander *, const struct cel_node *) = {
#define X(kind, check, eval, expand) [kind] = expand,
        CEL_NODES(X)
#undef X
    };

    return e->nodes > NODES_MAX ? expand_nothing(e, n) : expands[n->kind](e, n);
}

struct cel_x *cel_expand(struct sw_arena *a, const struct sw_cel *c)
{
    struct expander e = {.a = a};
    struct cel_x *x = expand(&e, c->root);

    return e.nodes > NODES_MAX ? NULL : x;
}
