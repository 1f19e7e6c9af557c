/* SPDX-License-Identifier: Apache-2.0 */
/* The operators with two operands. */
#include "kube/cel/cel_priv.h"

static struct cel_val int_arith(struct cel_env *env, enum cel_op op, int64_t x, int64_t y)
{
    int64_t r = 0;
    bool over = false;

    if ((op == OP_DIV || op == OP_MOD) && y == 0)
        return cel_error(env, op == OP_DIV ? "division by zero" : "modulus by zero");
    if ((op == OP_DIV || op == OP_MOD) && x == INT64_MIN && y == -1)
        over = true;
    else if (op == OP_ADD)
        over = __builtin_add_overflow(x, y, &r);
    else if (op == OP_SUB)
        over = __builtin_sub_overflow(x, y, &r);
    else if (op == OP_MUL)
        over = __builtin_mul_overflow(x, y, &r);
    else
        r = op == OP_DIV ? x / y : x % y;
    return over ? cel_error(env, "integer overflow") : cel_int(r);
}

static struct cel_val uint_arith(struct cel_env *env, enum cel_op op, uint64_t x, uint64_t y)
{
    struct cel_val v = {.k = CEL_UINT};
    bool over = false;

    if ((op == OP_DIV || op == OP_MOD) && y == 0)
        return cel_error(env, op == OP_DIV ? "division by zero" : "modulus by zero");
    if (op == OP_ADD)
        over = __builtin_add_overflow(x, y, &v.u);
    else if (op == OP_SUB)
        over = __builtin_sub_overflow(x, y, &v.u);
    else if (op == OP_MUL)
        over = __builtin_mul_overflow(x, y, &v.u);
    else
        v.u = op == OP_DIV ? x / y : x % y;
    return over ? cel_error(env, "unsigned integer overflow") : v;
}

static struct cel_val double_arith(struct cel_env *env, enum cel_op op, double x, double y)
{
    struct cel_val v = {.k = CEL_DOUBLE};

    if (op == OP_MOD)
        return cel_no_overload(env);
    v.d = op == OP_ADD ? x + y : op == OP_SUB ? x - y : op == OP_MUL ? x * y : x / y;
    return v;
}

static struct cel_val concat(struct cel_env *env, const struct cel_val *x, const struct cel_val *y)
{
    struct cel_val v = *x;
    char *p;

    if (cel_spent(env, (x->s.n + y->s.n) / 10 + 1))
        return cel_over_budget(env);
    p = sw_arena_alloc(env->a, x->s.n + y->s.n + 1);
    if (x->s.n)
        memcpy(p, x->s.p, x->s.n);
    if (y->s.n)
        memcpy(p + x->s.n, y->s.p, y->s.n);
    v.s = sw_slice(p, x->s.n + y->s.n);
    return v;
}

static struct cel_val concat_lists(struct cel_env *env, const struct cel_val *x,
                                   const struct cel_val *y)
{
    struct cel_val v = cel_new_list(env);

    if (cel_spent(env, cel_len(x) + cel_len(y)))
        return cel_over_budget(env);
    for (size_t i = 0; i < cel_len(x); i++)
        cel_push(env, &v, cel_at(env, x, i));
    for (size_t i = 0; i < cel_len(y); i++) {
        struct cel_val item = cel_at(env, y, i);

        if (!cel_unordered(x) || !cel_list_has(env, x, &item))
            cel_push(env, &v, item);
    }
    return v;
}

static struct cel_val time_arith(struct cel_env *env, enum cel_op op, const struct cel_val *x,
                                 const struct cel_val *y)
{
    struct cel_val r = {.k = CEL_DURATION};
    int64_t ns, d;

    if (x->k == CEL_DURATION && y->k == CEL_DURATION) {
        r = int_arith(env, op, x->i, y->i);
        r.k = r.k == CEL_INT ? CEL_DURATION : r.k;
        return r;
    }
    if (x->k == CEL_TIMESTAMP && y->k == CEL_TIMESTAMP && op == OP_SUB) {
        if (__builtin_sub_overflow(x->i, y->i, &d) ||
            __builtin_mul_overflow(d, INT64_C(1000000000), &d) ||
            __builtin_add_overflow(d, (int64_t)x->ns - y->ns, &r.i))
            return cel_error(env, "integer overflow");
        return r;
    }
    if (x->k == CEL_DURATION && op == OP_ADD)
        return time_arith(env, op, y, x);
    if (x->k != CEL_TIMESTAMP || y->k != CEL_DURATION)
        return cel_no_overload(env);
    d = op == OP_ADD ? y->i : y->i == INT64_MIN ? INT64_MAX : -y->i;
    ns = x->ns + d % 1000000000;
    r = (struct cel_val){.k = CEL_TIMESTAMP, .i = x->i + d / 1000000000};
    if (ns < 0) {
        ns += 1000000000;
        r.i--;
    } else if (ns >= 1000000000) {
        ns -= 1000000000;
        r.i++;
    }
    r.ns = (int32_t)ns;
    return r;
}

static struct cel_val arith(struct cel_env *env, enum cel_op op, const struct cel_val *x,
                            const struct cel_val *y)
{
    bool time = x->k == CEL_DURATION || x->k == CEL_TIMESTAMP;

    if (time && (y->k == CEL_DURATION || y->k == CEL_TIMESTAMP) && (op == OP_ADD || op == OP_SUB))
        return time_arith(env, op, x, y);
    if (x->k != y->k)
        return cel_no_overload(env);
    if (x->k == CEL_INT)
        return int_arith(env, op, x->i, y->i);
    if (x->k == CEL_UINT)
        return uint_arith(env, op, x->u, y->u);
    if (x->k == CEL_DOUBLE)
        return double_arith(env, op, x->d, y->d);
    if (op == OP_ADD && (x->k == CEL_STRING || x->k == CEL_BYTES))
        return concat(env, x, y);
    if (op == OP_ADD && x->k == CEL_LIST)
        return concat_lists(env, x, y);
    return cel_no_overload(env);
}

struct cel_val cel_binary(struct cel_env *env, enum cel_op op, struct cel_val x, struct cel_val y)
{
    struct cel_val found;
    int c;

    if (x.k == CEL_ERROR || y.k == CEL_ERROR)
        return x.k == CEL_ERROR ? x : y;
    switch (op) {
    case OP_EQ:
        return cel_bool(cel_equal(env, &x, &y));
    case OP_NE:
        return cel_bool(!cel_equal(env, &x, &y));
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
        if (!cel_order(&x, &y, &c))
            return cel_no_overload(env);
        return cel_bool(op == OP_LT ? c < 0 : op == OP_LE ? c <= 0 : op == OP_GT ? c > 0 : c >= 0);
    case OP_IN:
        if (y.k == CEL_LIST)
            return cel_bool(cel_list_has(env, &y, &x));
        return cel_is_mapping(&y) ? cel_bool(cel_lookup(env, &y, &x, &found))
                                  : cel_no_overload(env);
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_MOD:
        break;
    }
    return arith(env, op, &x, &y);
}
