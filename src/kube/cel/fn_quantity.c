/* SPDX-License-Identifier: Apache-2.0 */
/* Quantities ("500m", "1.5Gi") as numbers of billionths. */
#include <string.h>

#include "kube/cel/fn.h"
#include "kube/errs.h"

__extension__ typedef __int128 wide;

struct cel_quantity {
    wide nano;
};

/* Far enough from the end that a sum of two cannot overflow. */
static const wide wide_max = (wide)1 << 125;
static const wide nanos = 1000000000;

static bool scale_up(wide *v, wide by)
{
    return !__builtin_mul_overflow(*v, by, v) && *v <= wide_max && *v >= -wide_max;
}

/* 10^3 and 2^10 times what the suffix says; false when there is no such suffix. */
static bool apply_suffix(struct sw_slice s, wide *v)
{
    static const char big[] = "kMGTPE";
    static const char *const small[] = {"n", "u", "m"};
    static const wide below[] = {1000000000, 1000000, 1000};
    const char *p;
    bool binary = s.n == 2 && s.p[1] == 'i';

    if (!s.n)
        return true;
    for (size_t i = 0; i < SW_ARRAY_LEN(small); i++) {
        if (sw_slice_eq_str(s, small[i])) {
            /* Rounded up, as the least unit is. */
            *v = *v / below[i] + (*v % below[i] > 0);
            return true;
        }
    }
    if (s.n != 1 && !binary)
        return false;
    p = binary && s.p[0] == 'K' ? big : strchr(big, s.p[0]);
    if (!p || !*p || (binary && s.p[0] == 'k'))
        return false;
    for (ptrdiff_t i = 0; i <= p - big; i++) {
        if (!scale_up(v, binary ? 1024 : 1000))
            return false;
    }
    return true;
}

static bool apply_exponent(struct sw_slice s, wide *v)
{
    bool neg = false;
    unsigned e = 0;

    if (s.n && (s.p[0] == '+' || s.p[0] == '-')) {
        neg = s.p[0] == '-';
        s = sw_slice_from(s, 1);
    }
    if (!s.n || s.n > 3)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        e = e * 10 + (unsigned)(s.p[i] - '0');
    }
    for (; e > 0; e--) {
        if (neg)
            *v /= 10;
        else if (!scale_up(v, 10))
            return false;
    }
    return true;
}

const struct cel_quantity *cel_quantity_parse(struct sw_arena *a, struct sw_slice s)
{
    struct cel_quantity *q;
    wide v = 0;
    wide unit = nanos;
    bool neg = false, dot = false;
    size_t digits = 0, i = 0;

    if (s.n && (s.p[0] == '+' || s.p[0] == '-')) {
        neg = s.p[0] == '-';
        s = sw_slice_from(s, 1);
    }
    for (; i < s.n && ((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] == '.' && !dot)); i++) {
        if (s.p[i] == '.') {
            dot = true;
            continue;
        }
        digits++;
        if (!dot && !scale_up(&v, 10))
            return NULL;
        if (dot)
            unit /= 10;
        v += (wide)(s.p[i] - '0') * (dot ? unit : nanos);
        /* Digits behind the least unit count as one of it. */
        if (dot && !unit && s.p[i] != '0' && v % 10 == 0)
            v += 1;
    }
    s = sw_slice_from(s, i);
    if (!digits || v > wide_max)
        return NULL;
    if (s.n > 1 && (s.p[0] == 'e' || s.p[0] == 'E') ? !apply_exponent(sw_slice_from(s, 1), &v)
                                                    : !apply_suffix(s, &v))
        return NULL;
    q = SW_ARENA_NEW(a, struct cel_quantity);
    q->nano = neg ? -v : v;
    return q;
}

int cel_quantity_cmp(const struct cel_quantity *x, const struct cel_quantity *y)
{
    return x->nano < y->nano ? -1 : x->nano > y->nano;
}

static struct cel_val from_nano(struct cel_env *env, wide nano)
{
    struct cel_quantity *q = SW_ARENA_NEW(env->a, struct cel_quantity);

    q->nano = nano > wide_max ? wide_max : nano < -wide_max ? -wide_max : nano;
    return (struct cel_val){.k = CEL_QUANTITY, .qty = q};
}

FN(quantity)
{
    const struct cel_quantity *q;

    NEED_STRINGS(1);
    q = cel_quantity_parse(env->a, a[0].s);
    if (!q)
        return cel_error(env, "quantities must match the regular expression "
                              "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
    return (struct cel_val){.k = CEL_QUANTITY, .qty = q};
}

FN(is_quantity)
{
    NEED_STRINGS(1);
    return cel_bool(cel_quantity_parse(env->a, a[0].s) != NULL);
}

static bool integral(const struct cel_quantity *q)
{
    wide v = q->nano / nanos;

    return q->nano % nanos == 0 && v >= INT64_MIN && v <= INT64_MAX;
}

FN(quantity_get)
{
    const struct cel_quantity *q = a[0].qty;

    if (a[0].k != CEL_QUANTITY)
        return cel_error(env, "no such overload");
    if (sw_slice_eq_str(n->name, "sign"))
        return cel_int(q->nano < 0 ? -1 : q->nano > 0);
    if (sw_slice_eq_str(n->name, "isInteger"))
        return cel_bool(integral(q));
    if (sw_slice_eq_str(n->name, "asApproximateFloat"))
        return (struct cel_val){.k = CEL_DOUBLE, .d = (double)q->nano / 1e9};
    if (!integral(q))
        return cel_error(env, "cannot convert value to integer");
    return cel_int((int64_t)(q->nano / nanos));
}

FN(quantity_compare)
{
    int c;

    if (a[0].k != CEL_QUANTITY || a[1].k != CEL_QUANTITY)
        return cel_error(env, "no such overload");
    c = cel_quantity_cmp(a[0].qty, a[1].qty);
    if (sw_slice_eq_str(n->name, "isGreaterThan"))
        return cel_bool(c > 0);
    return sw_slice_eq_str(n->name, "isLessThan") ? cel_bool(c < 0) : cel_int(c);
}

FN(quantity_add)
{
    bool sub = sw_slice_eq_str(n->name, "sub");
    wide y;

    if (a[0].k != CEL_QUANTITY || (a[1].k != CEL_QUANTITY && a[1].k != CEL_INT))
        return cel_error(env, "no such overload");
    y = a[1].k == CEL_INT ? (wide)a[1].i * nanos : a[1].qty->nano;
    return from_nano(env, sub ? a[0].qty->nano - y : a[0].qty->nano + y);
}
