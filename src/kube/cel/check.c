/* SPDX-License-Identifier: Apache-2.0 */
/* Names and types of an expression, checked against the schema of self. */
#include "kube/cel/cel_priv.h"
#include "kube/text.h"
#include "regex/regex.h"

static const struct cel_type t_meta = {.k = CEL_OBJECT};
static const struct cel_type t_any_map = {.k = CEL_MAP, .elem = &cel_t_dyn};

enum { SCOPE_MAX = 64 };

struct checker {
    struct sw_cel *c;
    struct {
        struct sw_slice name;
        const struct cel_type *type;
        int slot;
    } scope[SCOPE_MAX];
    int depth;
};

static const struct cel_type *check(struct checker *k, struct cel_node *n);

static const struct cel_type *field_type(struct checker *k, const struct cel_type *t,
                                         struct sw_slice *name)
{
    const struct sw_schema *p;
    struct sw_slice plain = cel_unescape(&k->c->arena, *name);

    *name = plain;
    if (t == &t_meta)
        return sw_slice_eq_str(plain, "name") || sw_slice_eq_str(plain, "generateName")
                   ? &cel_t_string
                   : NULL;
    if (t->resource) {
        if (sw_slice_eq_str(plain, "apiVersion") || sw_slice_eq_str(plain, "kind"))
            return &cel_t_string;
        if (sw_slice_eq_str(plain, "metadata"))
            return &t_meta;
    }
    p = sw_schema_declared(t->schema, plain);
    return p ? cel_type_of(&k->c->arena, p, p->embedded) : NULL;
}

static const struct cel_type *select_from(struct checker *k, struct cel_node *n,
                                          const struct cel_type *t)
{
    const struct cel_type *r;

    if (t->k == CEL_DYN) {
        n->name = cel_unescape(&k->c->arena, n->name);
        return &cel_t_dyn;
    }
    if (t->k == CEL_MAP)
        return t->elem;
    if (t->k == CEL_OPTIONAL) {
        r = select_from(k, n, t->elem);
        return r ? cel_type_container(&k->c->arena, CEL_OPTIONAL, r, false) : NULL;
    }
    if (t->k == CEL_OBJECT) {
        n->unescaped = cel_reserved(n->name);
        r = field_type(k, t, &n->name);
        return r ? r : cel_fail(k->c, n->pos, "undefined field '%.*s'", SW_SLICE_ARG(n->name));
    }
    return cel_fail(k->c, n->pos, "type '%s' does not support field selection",
                    cel_type_name(&k->c->arena, t));
}

static const struct cel_type *no_overload(struct checker *k, const struct cel_node *n,
                                          const char *fn, const struct cel_type *const *args,
                                          size_t nargs)
{
    SW_BUF_AUTO b = {.max = 400};
    bool dot = n->kind == N_CALL && n->has_target && nargs;

    for (size_t i = 0; i < nargs; i++) {
        if (i)
            sw_tx_str(&b, dot && i == 1 ? ".(" : ", ");
        else
            sw_tx_str(&b, dot && nargs == 1 ? "" : dot ? "" : "(");
        sw_tx_str(&b, cel_type_name(&k->c->arena, args[i]));
    }
    if (dot && nargs == 1)
        sw_tx_str(&b, ".()");
    else
        sw_tx_str(&b, nargs ? ")" : "()");
    return cel_fail(k->c, n->pos, "found no matching overload for '%s' applied to '%.*s'", fn,
                    SW_SLICE_ARG(sw_buf_slice(&b)));
}

static const struct cel_type *check_index(struct checker *k, struct cel_node *n)
{
    const struct cel_type *t = check(k, n->args[0]);
    const struct cel_type *i = t ? check(k, n->args[1]) : NULL;
    const struct cel_type *args[2] = {t, i};
    const struct cel_type *r = NULL;
    bool opt = t && t->k == CEL_OPTIONAL;

    if (!i)
        return NULL;
    if (opt)
        t = t->elem;
    if (t->k == CEL_DYN)
        r = &cel_t_dyn;
    else if ((t->k == CEL_LIST && (i->k == CEL_INT || i->k == CEL_UINT || i->k == CEL_DYN)) ||
             (t->k == CEL_MAP && (i->k == CEL_STRING || i->k == CEL_DYN || t->elem->k == CEL_DYN)))
        r = t->elem;
    if (!r)
        return no_overload(k, n, "_[_]", args, 2);
    return n->optional || opt ? cel_type_container(&k->c->arena, CEL_OPTIONAL, r, false) : r;
}

/* New expressions obey the checker of the reference; stored ones may have passed an older one. */
static bool strict(const struct checker *k)
{
    return !(k->c->flags & SW_CEL_STORED);
}

/* null and something that the checker of the reference says is never null, nullable or not. */
static bool never_null(const struct cel_type *x, const struct cel_type *y)
{
    const struct cel_type *o = x->k == CEL_NULL ? y : x;

    if (x->k != CEL_NULL && y->k != CEL_NULL)
        return false;
    return (o->k >= CEL_BOOL && o->k <= CEL_MAP) || o->k == CEL_TYPE;
}

static const struct cel_type *check_binary(struct checker *k, struct cel_node *n)
{
    static const char *const names[] = {"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_",
                                        "@in",  "_+_",  "_-_", "_*_",  "_/_", "_%_"};
    const struct cel_type *x = check(k, n->args[0]);
    const struct cel_type *y = x ? check(k, n->args[1]) : NULL;
    const struct cel_type *args[2] = {x, y};
    const struct cel_type *r;

    if (!y)
        return NULL;
    r = cel_type_binary(n->op, x, y);
    if (r && strict(k) && n->op <= OP_NE && (cel_type_objects_apart(x, y) || never_null(x, y)))
        r = NULL;
    if (r && strict(k) && n->op == OP_IN && y->k == CEL_LIST && cel_type_objects_apart(x, y->elem))
        r = NULL;
    return r ? r : no_overload(k, n, names[n->op], args, 2);
}

static const struct cel_type *mismatch(struct checker *k, const struct cel_node *n,
                                       const struct cel_type *want, const struct cel_type *found)
{
    return cel_fail(k->c, n->pos, "expected type '%s' but found '%s'",
                    cel_type_name(&k->c->arena, want), cel_type_name(&k->c->arena, found));
}

static const struct cel_type *want_bool(struct checker *k, struct cel_node *n)
{
    const struct cel_type *t = check(k, n);

    return !t || t->k == CEL_BOOL || t->k == CEL_DYN ? t : mismatch(k, n, &cel_t_bool, t);
}

static const struct cel_type *check_cond(struct checker *k, struct cel_node *n)
{
    const struct cel_type *test = check(k, n->args[0]);
    const struct cel_type *x = test ? check(k, n->args[1]) : NULL;
    const struct cel_type *y = x ? check(k, n->args[2]) : NULL;
    const struct cel_type *args[3] = {test, x, y};

    if (!y)
        return NULL;
    if ((test->k != CEL_BOOL && test->k != CEL_DYN) || cel_type_apart(x, y))
        return no_overload(k, n, "_?_:_", args, 3);
    return cel_type_join(x, y);
}

static const struct cel_type *check_literal(struct checker *k, struct cel_node *n)
{
    const struct cel_type *elem = NULL;
    size_t step = n->kind == N_MAP ? 2 : 1;

    for (size_t i = 0; i < n->nargs; i++) {
        const struct cel_type *t = check(k, n->args[i]);

        if (!t)
            return NULL;
        if (i % step == step - 1)
            elem = elem ? cel_type_join(elem, t) : t;
        else if (t->k != CEL_STRING && t->k != CEL_INT && t->k != CEL_BOOL && t->k != CEL_UINT &&
                 t->k != CEL_DYN)
            return cel_fail(k->c, n->args[i]->pos, "unsupported key type");
    }
    return cel_type_container(&k->c->arena, n->kind == N_MAP ? CEL_MAP : CEL_LIST,
                              elem ? elem : &cel_t_dyn, false);
}

/* Opens a scope for a macro variable; -1 when there are too many. */
static int open_scope(struct checker *k, const struct cel_node *n, struct sw_slice name,
                      const struct cel_type *t)
{
    int slot = SLOT_FIRST + (k->c->scope ? VAR_FIXED + (int)k->c->nvars : 0) + k->depth;

    if (k->depth >= SCOPE_MAX) {
        cel_fail(k->c, n->pos, "too many nested macros");
        return -1;
    }
    k->scope[k->depth].name = name;
    k->scope[k->depth].type = t;
    k->scope[k->depth].slot = slot;
    k->depth++;
    if (k->c->slots < slot + 1)
        k->c->slots = slot + 1;
    return slot;
}

static const struct cel_type *range_elem(struct checker *k, const struct cel_node *n,
                                         const struct cel_type *t)
{
    if (t->k == CEL_DYN)
        return &cel_t_dyn;
    if (t->k == CEL_LIST)
        return t->elem;
    if (t->k == CEL_MAP)
        return &cel_t_string;
    return cel_fail(k->c, n->args[0]->pos,
                    "expression of type '%s' cannot be range of a comprehension (must be list, "
                    "map, or dynamic)",
                    cel_type_name(&k->c->arena, t));
}

/* The variables: the element, or index and element, or key and value. */
static bool open_macro(struct checker *k, struct cel_node *n, const struct cel_type *range)
{
    const struct cel_type *elem = range_elem(k, n, range);
    const struct cel_type *first = elem;

    if (!elem)
        return false;
    if (n->name2.p) {
        first = range->k == CEL_LIST ? &cel_t_int : elem;
        n->slot2 = open_scope(k, n, n->name2, range->k == CEL_MAP ? range->elem : elem);
        if (n->slot2 < 0)
            return false;
    }
    n->slot = open_scope(k, n, n->name, first);
    return n->slot >= 0;
}

static const struct cel_type *check_macro(struct checker *k, struct cel_node *n)
{
    const struct cel_type *range = check(k, n->args[0]);
    bool transform = n->kind == N_MAPPED || n->kind == N_MAPPED_MAP;
    const struct cel_type *body;

    if (!range || !open_macro(k, n, range))
        return NULL;
    if (transform) {
        body = n->nargs == 3 ? want_bool(k, n->args[1]) : &cel_t_bool;
        body = body ? check(k, n->args[n->nargs - 1]) : NULL;
    } else {
        body = want_bool(k, n->args[1]);
    }
    k->depth -= n->name2.p ? 2 : 1;
    if (!body)
        return NULL;
    if (n->entry && body->k != CEL_MAP && body->k != CEL_DYN)
        return mismatch(k, n->args[n->nargs - 1], &t_any_map, body);
    if (n->entry)
        return body;
    if (transform)
        return cel_type_container(&k->c->arena, n->kind == N_MAPPED ? CEL_LIST : CEL_MAP, body,
                                  false);
    if (n->kind == N_FILTER)
        return range->k == CEL_MAP
                   ? cel_type_container(&k->c->arena, CEL_LIST, &cel_t_string, false)
                   : range;
    return &cel_t_bool;
}

static const struct cel_type *check_bind(struct checker *k, struct cel_node *n)
{
    const struct cel_type *t = check(k, n->args[0]);
    const struct cel_type *r;

    if (!t)
        return NULL;
    if (n->kind != N_BIND) {
        if (t->k != CEL_OPTIONAL && t->k != CEL_DYN) {
            const struct cel_type *args[1] = {t};

            return no_overload(k, n, n->kind == N_OPT_MAP ? "optMap" : "optFlatMap", args, 1);
        }
        t = t->k == CEL_OPTIONAL ? t->elem : &cel_t_dyn;
    }
    n->slot = open_scope(k, n, n->name, t);
    if (n->slot < 0)
        return NULL;
    r = check(k, n->args[1]);
    k->depth--;
    return r && n->kind == N_OPT_MAP ? cel_type_container(&k->c->arena, CEL_OPTIONAL, r, false) : r;
}

static const struct cel_type *check_ident(struct checker *k, struct cel_node *n)
{
    for (int i = k->depth - 1; i >= 0; i--) {
        if (sw_slice_eq(k->scope[i].name, n->name)) {
            n->slot = k->scope[i].slot;
            k->c->uses_old = k->c->uses_old || n->slot == SLOT_OLD;
            return k->scope[i].type;
        }
    }
    if (k->c->scope) {
        const struct cel_type *t = NULL;

        n->slot = cel_scope_find(k->c, n->name, &t);
        if (n->slot >= 0)
            return t;
    } else if (sw_slice_eq_str(n->name, "self") || sw_slice_eq_str(n->name, "oldSelf")) {
        const struct cel_type *t =
            cel_type_of(&k->c->arena, k->c->self, k->c->flags & SW_CEL_RESOURCE);

        n->slot = n->name.n == 4 ? SLOT_SELF : SLOT_OLD;
        k->c->uses_old = k->c->uses_old || n->slot == SLOT_OLD;
        if (!t)
            return cel_fail(k->c, n->pos, "undeclared reference to '%.*s' (in container '')",
                            SW_SLICE_ARG(n->name));
        return n->slot == SLOT_OLD && (k->c->flags & SW_CEL_OPTIONAL_OLD)
                   ? cel_type_container(&k->c->arena, CEL_OPTIONAL, t, false)
                   : t;
    }
    for (enum cel_kind i = CEL_BOOL; i <= CEL_MAP; i++) {
        static const char *const names[] = {"bool",   "int",   "uint", "double",
                                            "string", "bytes", "list", "map"};

        if (sw_slice_eq_str(n->name, names[i - CEL_BOOL])) {
            n->kind = N_CONST;
            n->value = (struct cel_val){.k = CEL_TYPE, .s = n->name};
            return &cel_t_type;
        }
    }
    return cel_fail(k->c, n->pos, "undeclared reference to '%.*s' (in container '')",
                    SW_SLICE_ARG(n->name));
}

static bool declared(const struct checker *k, struct sw_slice name)
{
    const struct cel_type *t;

    for (int i = 0; i < k->depth; i++) {
        if (sw_slice_eq(k->scope[i].name, name))
            return true;
    }
    if (k->c->scope)
        return cel_scope_find(k->c, name, &t) >= 0 || sw_slice_eq_str(name, "variables");
    return sw_slice_eq_str(name, "self") || sw_slice_eq_str(name, "oldSelf");
}

/* format.dns1123Label() and sets.contains(): the target is a namespace, not a value. */
static void fold_namespace(struct checker *k, struct cel_node *n)
{
    const struct cel_node *t = n->has_target ? n->args[0] : NULL;
    const char *full;

    if (!t || t->kind != N_IDENT || declared(k, t->name))
        return;
    full = sw_arena_printf(&k->c->arena, "%.*s.%.*s", SW_SLICE_ARG(t->name), SW_SLICE_ARG(n->name));
    if (!cel_fn_exists(sw_slice_str(full)))
        return;
    n->name = sw_slice_str(full);
    n->has_target = false;
    n->args++;
    n->nargs--;
}

static bool constant_regex(struct checker *k, struct cel_node *n)
{
    const struct cel_node *p = n->nargs >= 2 ? n->args[1] : NULL;
    struct sw_err err = {0};

    if (!p || p->kind != N_CONST || p->value.k != CEL_STRING ||
        !(sw_slice_eq_str(n->name, "matches") || sw_slice_eq_str(n->name, "find") ||
          sw_slice_eq_str(n->name, "findAll")))
        return true;
    if (sw_regex_new(p->value.s, &n->re, &err) < 0) {
        n->re = NULL;
        cel_fail(k->c, p->pos, "invalid %.*s argument: %s", SW_SLICE_ARG(n->name), err.msg);
        return false;
    }
    sw_vec_push(&k->c->regexes, n->re);
    return true;
}

/* Known here before the libraries were held to those of the API's version. */
static bool legacy(const struct cel_node *n)
{
    return n->has_target &&
           (sw_slice_eq_str(n->name, "reverse") || sw_slice_eq_str(n->name, "sign"));
}

static const struct cel_type *check_call(struct checker *k, struct cel_node *n)
{
    const struct cel_type **args;
    const struct cel_type *r;
    bool any;

    fold_namespace(k, n);
    args = sw_arena_array(&k->c->arena, n->nargs + 1, sizeof(*args));
    for (size_t i = 0; i < n->nargs; i++) {
        args[i] = check(k, n->args[i]);
        if (!args[i])
            return NULL;
    }
    r = cel_call_find(&k->c->arena, n, args, &any);
    if (r && strict(k) && legacy(n)) {
        r = NULL;
        any = !sw_slice_eq_str(n->name, "reverse");
    }
    if (!any)
        return cel_fail(k->c, n->pos, "undeclared reference to '%.*s' (in container '')",
                        SW_SLICE_ARG(n->name));
    if (!r)
        return no_overload(k, n, sw_arena_dup(&k->c->arena, n->name), args, n->nargs);
    return constant_regex(k, n) ? r : NULL;
}

static const struct cel_type *check_has(struct checker *k, struct cel_node *n)
{
    const struct cel_type *t = check(k, n->args[0]);

    if (t && t->k == CEL_OPTIONAL)
        t = t->elem;
    return t && select_from(k, n, t) ? &cel_t_bool : NULL;
}

static const struct cel_type *check_field(struct checker *k, struct cel_node *n)
{
    const struct cel_type *t = check(k, n->args[0]);
    const struct cel_type *r = t ? select_from(k, n, t) : NULL;

    if (r && n->optional && r->k != CEL_OPTIONAL)
        return cel_type_container(&k->c->arena, CEL_OPTIONAL, r, false);
    return r;
}

/* variables.x, which is no object: x is evaluated when it is first needed. NULL: not that. */
static const struct cel_type *check_variable(struct checker *k, struct cel_node *n)
{
    const struct cel_node *of = n->args[0];
    const struct cel_type *t = NULL;

    if (!k->c->scope || of->kind != N_IDENT || n->optional)
        return NULL;
    for (int i = 0; i < k->depth; i++) {
        if (sw_slice_eq(k->scope[i].name, of->name))
            return NULL;
    }
    if (sw_slice_eq_str(of->name, "authorizer") && sw_slice_eq_str(n->name, "requestResource") &&
        cel_scope_find(k->c, of->name, &t) >= 0) {
        n->kind = N_REQUEST_RESOURCE;
        n->nargs = 0;
        return cel_scope_request_resource();
    }
    if (!sw_slice_eq_str(of->name, "variables") || !k->c->nvars)
        return NULL;
    n->slot = cel_scope_variable(k->c, n->name, &t);
    if (n->slot < 0)
        return cel_fail(k->c, n->pos, "undefined field '%.*s'", SW_SLICE_ARG(n->name));
    n->kind = N_VARIABLE;
    n->nargs = 0;
    return t;
}

static const struct cel_type *check_select(struct checker *k, struct cel_node *n)
{
    const struct cel_type *var = check_variable(k, n);

    if (var || k->c->failed)
        return var;
    return check_field(k, n);
}

static const struct cel_type *check_logic(struct checker *k, struct cel_node *n)
{
    for (size_t i = 0; i < n->nargs; i++) {
        const struct cel_type *t =
            n->kind == N_NOT ? check(k, n->args[i]) : want_bool(k, n->args[i]);

        if (!t)
            return NULL;
        if (t->k != CEL_BOOL && t->k != CEL_DYN)
            return no_overload(k, n, "!_", &t, 1);
    }
    return &cel_t_bool;
}

static const struct cel_type *check_neg(struct checker *k, struct cel_node *n)
{
    const struct cel_type *t = check(k, n->args[0]);
    const struct cel_type *args[1] = {t};

    if (!t || t->k == CEL_INT || t->k == CEL_DOUBLE || t->k == CEL_DYN)
        return t;
    return no_overload(k, n, "-_", args, 1);
}

static const struct cel_type *check_const(struct checker *k, struct cel_node *n)
{
    static const struct cel_type *const types[] = {
        [CEL_NULL] = &cel_t_null,   [CEL_BOOL] = &cel_t_bool,     [CEL_INT] = &cel_t_int,
        [CEL_UINT] = &cel_t_uint,   [CEL_DOUBLE] = &cel_t_double, [CEL_STRING] = &cel_t_string,
        [CEL_BYTES] = &cel_t_bytes,
    };
    enum cel_kind kind = n->value.k;

    return kind < SW_ARRAY_LEN(types) && types[kind] ? types[kind] : &cel_t_dyn;
}

/* A node that this pass made has its type already. */
static const struct cel_type *check_made(struct checker *k, struct cel_node *n)
{
    return n->type;
}

static const struct cel_type *check_kind(struct checker *k, struct cel_node *n)
{
    static const struct cel_type *(*const checks[])(struct checker *, struct cel_node *) = {
#define X(kind, check, eval, expand) [kind] = check,
        CEL_NODES(X)
#undef X
    };

    return checks[n->kind](k, n);
}

static const struct cel_type *check(struct checker *k, struct cel_node *n)
{
    n->type = k->c->failed ? NULL : check_kind(k, n);
    return n->type;
}

void cel_check(struct sw_cel *c)
{
    struct checker k = {.c = c};
    const struct cel_type *t;

    c->slots = SLOT_FIRST + (c->scope ? VAR_FIXED + (int)c->nvars : 0);
    t = check(&k, c->root);
    if (!t || c->scope) /* compilers of admission expressions check the type */
        return;
    if ((c->flags & SW_CEL_WANT_STRING) ? t->k != CEL_STRING : t->k != CEL_BOOL) {
        c->unplaced = t->k != CEL_DYN;
        if (t->k != CEL_DYN)
            cel_fail(c, 0, "%s",
                     c->flags & SW_CEL_WANT_STRING ? "messageExpression must evaluate to a string"
                                                   : "cel expression must evaluate to a bool");
    }
}
