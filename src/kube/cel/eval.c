/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation of the tree. Every step costs; an exhausted budget is an error that nothing absorbs.
 */
#include <math.h>

#include "kube/cel/fn.h"

static struct cel_val eval_select(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val x = cel_eval(env, n->args[0]);
    struct cel_val key = cel_string(n->name);
    struct cel_val r;
    bool optional = n->optional;

    if (x.k == CEL_ERROR)
        return x;
    if (x.k == CEL_OPTIONAL) {
        if (!x.opt)
            return cel_none();
        x = *x.opt;
        optional = true;
    }
    if (!cel_is_mapping(&x))
        return cel_no_overload(env);
    if (cel_lookup(env, &x, &key, &r))
        return optional ? cel_some(env, r) : r;
    return optional ? cel_none() : cel_error(env, "no such key: %.*s", SW_SLICE_ARG(n->name));
}

static struct cel_val index_list(struct cel_env *env, const struct cel_val *x,
                                 const struct cel_val *i, bool optional)
{
    int64_t at = i->k == CEL_UINT ? (int64_t)i->u : i->i;

    if (i->k == CEL_DOUBLE)
        at = i->d == floor(i->d) && fabs(i->d) < 1e9 ? (int64_t)i->d : -1;
    else if (i->k != CEL_INT && i->k != CEL_UINT)
        return cel_no_overload(env);
    if (at >= 0 && (uint64_t)at < cel_len(x))
        return optional ? cel_some(env, cel_at(env, x, (size_t)at)) : cel_at(env, x, (size_t)at);
    return optional ? cel_none() : cel_error(env, "index out of bounds: %lld", (long long)at);
}

static struct cel_val eval_index(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val x = cel_eval(env, n->args[0]);
    struct cel_val i = x.k == CEL_ERROR ? x : cel_eval(env, n->args[1]);
    struct cel_val r;
    bool optional = n->optional;

    if (i.k == CEL_ERROR)
        return i;
    if (x.k == CEL_OPTIONAL) {
        if (!x.opt)
            return cel_none();
        x = *x.opt;
        optional = true;
    }
    if (x.k == CEL_LIST)
        return index_list(env, &x, &i, optional);
    if (!cel_is_mapping(&x))
        return cel_no_overload(env);
    if (cel_lookup(env, &x, &i, &r))
        return optional ? cel_some(env, r) : r;
    if (optional)
        return cel_none();
    return i.k == CEL_STRING ? cel_error(env, "no such key: %.*s", SW_SLICE_ARG(i.s))
                             : cel_error(env, "no such key");
}

static struct cel_val eval_has(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val x = cel_eval(env, n->args[0]);
    struct cel_val key = cel_string(n->name);
    struct cel_val r;

    if (x.k == CEL_OPTIONAL) {
        if (!x.opt)
            return cel_bool(false);
        x = *x.opt;
    }
    if (x.k == CEL_ERROR)
        return x;
    return cel_is_mapping(&x) ? cel_bool(cel_lookup(env, &x, &key, &r)) : cel_no_overload(env);
}

/* An operand that decides the result wins over errors of the others. */
static struct cel_val eval_logic(struct cel_env *env, const struct cel_node *n)
{
    bool decides = n->kind == N_OR;
    struct cel_val err = cel_bool(!decides);

    for (size_t i = 0; i < n->nargs; i++) {
        struct cel_val x = cel_eval(env, n->args[i]);

        if (x.k == CEL_BOOL && x.b == decides)
            return x;
        if (x.k != CEL_BOOL && err.k == CEL_BOOL)
            err = x.k == CEL_ERROR ? x : cel_no_overload(env);
    }
    return err;
}

static struct cel_val eval_literal(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val list = cel_new_list(env);
    struct cel_map *m;

    for (size_t i = 0; i < n->nargs; i++) {
        struct cel_val x = cel_eval(env, n->args[i]);

        if (x.k == CEL_ERROR)
            return x;
        cel_push(env, &list, x);
    }
    if (n->kind == N_LIST)
        return list;
    m = SW_ARENA_NEW(env->a, struct cel_map);
    m->n = n->nargs / 2;
    m->keys = sw_arena_array(env->a, m->n + 1, sizeof(*m->keys));
    m->vals = sw_arena_array(env->a, m->n + 1, sizeof(*m->vals));
    for (size_t i = 0; i < m->n; i++) {
        m->keys[i] = list.lst->p[2 * i];
        m->vals[i] = list.lst->p[2 * i + 1];
    }
    return (struct cel_val){.k = CEL_MAP, .map = m};
}

struct fold {
    struct cel_val err;  /* the first error seen, CEL_NULL when none */
    struct cel_val out;  /* filter, map */
    struct cel_val keys; /* transformMap */
    size_t hits;
};

static bool transforms(const struct cel_node *n)
{
    return n->kind == N_MAPPED || n->kind == N_MAPPED_MAP;
}

/* The entries of a map into the result; false: one is there already, or y is no map. */
static bool insert_entries(struct cel_env *env, const struct cel_val *y, struct fold *f)
{
    if (!cel_is_mapping(y)) {
        f->err = cel_no_overload(env);
        return false;
    }
    for (size_t i = 0; i < cel_len(y); i++) {
        struct cel_val key = cel_key_at(env, y, i);
        struct cel_val val;

        if (cel_spent(env, 1) || cel_list_has(env, &f->keys, &key)) {
            f->err = cel_error(env, "insert failed: key already exists");
            return false;
        }
        (void)cel_lookup(env, y, &key, &val);
        cel_push(env, &f->out, val);
        cel_push(env, &f->keys, key);
    }
    return true;
}

/* One element, or an index or key with its element; true when the macro's result is decided. */
static bool fold_step(struct cel_env *env, const struct cel_node *n, struct cel_val first,
                      struct cel_val second, struct fold *f)
{
    bool test = !transforms(n) || n->nargs == 3;
    struct cel_val b = cel_bool(true);

    env->slots[n->slot] = first;
    if (n->name2.p)
        env->slots[n->slot2] = second;
    if (test)
        b = cel_eval(env, n->args[1]);
    if (b.k != CEL_BOOL) {
        if (f->err.k == CEL_NULL)
            f->err = b.k == CEL_ERROR ? b : cel_no_overload(env);
        return n->kind == N_FILTER || transforms(n) || n->kind == N_EXISTS_ONE;
    }
    f->hits += b.b;
    if (n->kind == N_FILTER && b.b)
        cel_push(env, &f->out, first);
    if (transforms(n) && b.b) {
        struct cel_val y = cel_eval(env, n->args[n->nargs - 1]);

        if (y.k == CEL_ERROR) {
            f->err = y;
            return true;
        }
        if (n->entry)
            return !insert_entries(env, &y, f);
        cel_push(env, &f->out, y);
        cel_push(env, &f->keys, first);
    }
    return (n->kind == N_ALL && !b.b) || (n->kind == N_EXISTS && b.b);
}

static bool fold_at(struct cel_env *env, const struct cel_node *n, const struct cel_val *range,
                    size_t i, struct fold *f)
{
    struct cel_val first = range->k == CEL_LIST ? cel_at(env, range, i) : cel_key_at(env, range, i);
    struct cel_val second = {.k = CEL_NULL};

    if (n->name2.p && range->k == CEL_LIST) {
        second = first;
        first = cel_int((int64_t)i);
    } else if (n->name2.p) {
        (void)cel_lookup(env, range, &first, &second);
    }
    return fold_step(env, n, first, second, f);
}

static struct cel_val fold_result(struct cel_env *env, const struct cel_node *n, struct fold *f,
                                  bool decided)
{
    struct cel_map *m;

    if (f->err.k != CEL_NULL && !(decided && (n->kind == N_ALL || n->kind == N_EXISTS)))
        return f->err;
    if (n->kind == N_FILTER || n->kind == N_MAPPED)
        return f->out;
    if (n->kind == N_EXISTS_ONE)
        return cel_bool(f->hits == 1);
    if (n->kind != N_MAPPED_MAP)
        return cel_bool(n->kind == N_ALL ? !decided : decided);
    m = SW_ARENA_NEW(env->a, struct cel_map);
    m->n = f->out.lst->n;
    m->keys = f->keys.lst->p;
    m->vals = f->out.lst->p;
    return (struct cel_val){.k = CEL_MAP, .map = m};
}

static struct cel_val eval_macro(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val range = cel_eval(env, n->args[0]);
    struct fold f = {.err = {.k = CEL_NULL}, .out = cel_new_list(env), .keys = cel_new_list(env)};
    struct cel_val saved = env->slots[n->slot];
    struct cel_val saved2 = n->name2.p ? env->slots[n->slot2] : saved;
    bool decided = false;

    if (range.k == CEL_ERROR)
        return range;
    if (range.k != CEL_LIST && !cel_is_mapping(&range))
        return cel_no_overload(env);
    for (size_t i = 0; i < cel_len(&range) && !decided; i++) {
        if (cel_spent(env, 1))
            return cel_over_budget(env);
        decided = fold_at(env, n, &range, i, &f);
    }
    env->slots[n->slot] = saved;
    if (n->name2.p)
        env->slots[n->slot2] = saved2;
    if (env->cost > env->limit)
        return cel_over_budget(env);
    return fold_result(env, n, &f, decided);
}

static struct cel_val eval_call(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val args[8];

    if (n->nargs > SW_ARRAY_LEN(args))
        return cel_no_overload(env);
    for (size_t i = 0; i < n->nargs; i++) {
        args[i] = cel_eval(env, n->args[i]);
        if (args[i].k == CEL_ERROR)
            return args[i];
    }
    return n->fn(env, n, args, n->nargs);
}

static struct cel_val eval_bind(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val x = cel_eval(env, n->args[0]);
    struct cel_val saved = env->slots[n->slot];

    if (x.k == CEL_ERROR)
        return x;
    if (n->kind != N_BIND) {
        if (x.k != CEL_OPTIONAL)
            return cel_no_overload(env);
        if (!x.opt)
            return x;
        x = *x.opt;
    }
    env->slots[n->slot] = x;
    x = cel_eval(env, n->args[1]);
    env->slots[n->slot] = saved;
    return n->kind == N_OPT_MAP && x.k != CEL_ERROR ? cel_some(env, x) : x;
}

static struct cel_val eval_unary(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val x = cel_eval(env, n->args[0]);

    if (x.k == CEL_ERROR)
        return x;
    if (n->kind == N_NOT)
        return x.k == CEL_BOOL ? cel_bool(!x.b) : cel_no_overload(env);
    if (x.k == CEL_DOUBLE)
        return (struct cel_val){.k = CEL_DOUBLE, .d = -x.d};
    return x.k == CEL_INT ? cel_binary(env, OP_SUB, cel_int(0), x) : cel_no_overload(env);
}

static struct cel_val eval_cond(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val x = cel_eval(env, n->args[0]);

    if (x.k != CEL_BOOL)
        return x.k == CEL_ERROR ? x : cel_no_overload(env);
    return cel_eval(env, n->args[x.b ? 1 : 2]);
}

static struct cel_val eval_const(struct cel_env *env, const struct cel_node *n)
{
    return n->value;
}

static struct cel_val eval_ident(struct cel_env *env, const struct cel_node *n)
{
    return env->slots[n->slot];
}

static struct cel_val eval_binary(struct cel_env *env, const struct cel_node *n)
{
    struct cel_val x = cel_eval(env, n->args[0]);

    return x.k == CEL_ERROR ? x : cel_binary(env, n->op, x, cel_eval(env, n->args[1]));
}

static struct cel_val eval_variable(struct cel_env *env, const struct cel_node *n)
{
    return cel_run_variable(env, n->slot);
}

static struct cel_val eval_request(struct cel_env *env, const struct cel_node *n)
{
    return cel_run_request_resource(env);
}

struct cel_val cel_eval(struct cel_env *env, const struct cel_node *n)
{
    static struct cel_val (*const evals[])(struct cel_env *, const struct cel_node *) = {
#define X(kind, check, eval, expand) [kind] = eval,
        CEL_NODES(X)
#undef X
    };

    return cel_spent(env, 1) ? cel_over_budget(env) : evals[n->kind](env, n);
}
