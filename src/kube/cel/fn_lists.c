/* SPDX-License-Identifier: Apache-2.0 */
/* Functions on lists, sets and optionals. */
#include "kube/cel/fn.h"

/* ---- lists and sets ---- */

FN(is_sorted)
{
    for (size_t i = 1; i < cel_len(&a[0]); i++) {
        struct cel_val x = cel_at(env, &a[0], i - 1);
        struct cel_val y = cel_at(env, &a[0], i);
        int c;

        env->cost++;
        if (!cel_order(&x, &y, &c))
            return cel_error(env, "no such overload");
        if (c > 0)
            return cel_bool(false);
    }
    return cel_bool(true);
}

/* The sum of nothing is a zero of the list's type. */
FN(sum)
{
    struct cel_val r = cel_int(0);

    if (n->type->k == CEL_UINT || n->type->k == CEL_DOUBLE || n->type->k == CEL_DURATION)
        r = (struct cel_val){.k = n->type->k};

    for (size_t i = 0; i < cel_len(&a[0]); i++) {
        struct cel_val x = cel_at(env, &a[0], i);

        env->cost++;
        r = i ? cel_binary(env, OP_ADD, r, x) : x;
        if (r.k == CEL_ERROR)
            return r;
    }
    return r;
}

FN(min_max)
{
    bool max = sw_slice_eq_str(n->name, "max");
    struct cel_val r;

    if (!cel_len(&a[0]))
        return cel_error(env, "%s called on empty list", max ? "max" : "min");
    r = cel_at(env, &a[0], 0);
    for (size_t i = 1; i < cel_len(&a[0]); i++) {
        struct cel_val x = cel_at(env, &a[0], i);
        int c;

        env->cost++;
        if (!cel_order(&x, &r, &c))
            return cel_error(env, "no such overload");
        if (max ? c > 0 : c < 0)
            r = x;
    }
    return r;
}

/* How many items of x are in y. */
static size_t overlap(struct cel_env *env, const struct cel_val *x, const struct cel_val *y)
{
    size_t hits = 0;

    for (size_t i = 0; i < cel_len(x) && env->cost <= env->limit; i++) {
        struct cel_val item = cel_at(env, x, i);
        struct cel_val in = cel_binary(env, OP_IN, item, *y);

        hits += in.k == CEL_BOOL && in.b;
    }
    return hits;
}

FN(sets)
{
    if (sw_slice_has_suffix(n->name, SW_SLICE_LIT("intersects")))
        return cel_bool(overlap(env, &a[0], &a[1]) > 0);
    if (overlap(env, &a[1], &a[0]) != cel_len(&a[1]))
        return cel_bool(false);
    if (sw_slice_has_suffix(n->name, SW_SLICE_LIT("contains")))
        return cel_bool(true);
    return cel_bool(overlap(env, &a[0], &a[1]) == cel_len(&a[0]));
}

/* ---- optionals ---- */

static bool zero_value(const struct cel_val *v)
{
    if (v->k == CEL_STRING || v->k == CEL_BYTES)
        return !v->s.n;
    if (v->k == CEL_LIST || v->k == CEL_MAP || v->k == CEL_OBJECT)
        return !cel_len(v);
    return v->k == CEL_NULL || (v->k == CEL_BOOL && !v->b) ||
           ((v->k == CEL_INT || v->k == CEL_DURATION) && !v->i) || (v->k == CEL_UINT && !v->u) ||
           (v->k == CEL_DOUBLE && v->d == 0) || (v->k == CEL_OPTIONAL && !v->opt);
}

FN(optional)
{
    if (sw_slice_eq_str(n->name, "optional.none") ||
        (sw_slice_eq_str(n->name, "optional.ofNonZeroValue") && zero_value(&a[0])))
        return (struct cel_val){.k = CEL_OPTIONAL};
    return cel_some(env, a[0]);
}

FN(opt_access)
{
    if (a[0].k != CEL_OPTIONAL)
        return cel_error(env, "no such overload");
    if (sw_slice_eq_str(n->name, "hasValue"))
        return cel_bool(a[0].opt);
    if (sw_slice_eq_str(n->name, "or"))
        return a[0].opt ? a[0] : a[1];
    if (a[0].opt)
        return *a[0].opt;
    return na > 1 ? a[1] : cel_error(env, "optional.none() dereference");
}

FN(first_last)
{
    size_t len = cel_len(&a[0]);

    if (a[0].k != CEL_LIST)
        return cel_no_overload(env);
    if (!len)
        return cel_none();
    return cel_some(env, cel_at(env, &a[0], sw_slice_eq_str(n->name, "last") ? len - 1 : 0));
}

/* The values of those that have one. */
FN(unwrap)
{
    struct cel_val list = cel_new_list(env);

    if (a[0].k != CEL_LIST)
        return cel_no_overload(env);
    for (size_t i = 0; i < cel_len(&a[0]); i++) {
        struct cel_val x = cel_at(env, &a[0], i);

        env->cost++;
        if (x.k != CEL_OPTIONAL)
            return cel_no_overload(env);
        if (x.opt)
            cel_push(env, &list, *x.opt);
    }
    return list;
}
