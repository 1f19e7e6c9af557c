/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic modulo p = 2^255 - 19 on four words of 64 bits, kept below 2^256 and reduced fully
 * only for comparisons. Not constant time: nothing here is secret.
 */
#include "tls/curve25519.h"

#include <endian.h>
#include <string.h>

typedef unsigned __int128 u128;

struct fe {
    uint64_t w[4]; /* least significant first */
};

static const struct fe one = {{1, 0, 0, 0}};
/* d of the curve -x^2 + y^2 = 1 + d x^2 y^2. */
static const struct fe curve_d = {{UINT64_C(0x75eb4dca135978a3), UINT64_C(0x00700a4d4141d8ab),
                                   UINT64_C(0x8cc740797779e898), UINT64_C(0x52036cee2b6ffe73)}};

/* Adds small * 38 (2^256 = 38 modulo p) until nothing is carried out. */
static void fold(struct fe *r, uint64_t carry)
{
    while (carry) {
        u128 t = (u128)carry * 38;

        for (int i = 0; i < 4; i++) {
            t += r->w[i];
            r->w[i] = (uint64_t)t;
            t >>= 64;
        }
        carry = (uint64_t)t;
    }
}

static struct fe fe_add(const struct fe *a, const struct fe *b)
{
    struct fe r;
    u128 t = 0;

    for (int i = 0; i < 4; i++) {
        t += (u128)a->w[i] + b->w[i];
        r.w[i] = (uint64_t)t;
        t >>= 64;
    }
    fold(&r, (uint64_t)t);
    return r;
}

static struct fe fe_sub(const struct fe *a, const struct fe *b)
{
    struct fe r = *a;
    unsigned borrow = 0;

    for (int i = 0; i < 4; i++) {
        u128 t = (u128)r.w[i] - b->w[i] - borrow;

        r.w[i] = (uint64_t)t;
        borrow = (unsigned)(t >> 64) & 1;
    }
    /* A borrow added 2^256, that is 38 too much. */
    while (borrow) {
        u128 t = (u128)r.w[0] - 38;

        r.w[0] = (uint64_t)t;
        borrow = (unsigned)(t >> 64) & 1;
        for (int i = 1; i < 4 && borrow; i++)
            borrow = r.w[i]-- == 0;
    }
    return r;
}

static struct fe fe_mul(const struct fe *a, const struct fe *b)
{
    uint64_t t[8] = {0};
    struct fe r;
    u128 acc;

    for (int i = 0; i < 4; i++) {
        acc = 0;
        for (int j = 0; j < 4; j++) {
            acc += (u128)a->w[i] * b->w[j] + t[i + j];
            t[i + j] = (uint64_t)acc;
            acc >>= 64;
        }
        t[i + 4] = (uint64_t)acc;
    }
    acc = 0;
    for (int i = 0; i < 4; i++) {
        acc += (u128)t[i + 4] * 38 + t[i];
        r.w[i] = (uint64_t)acc;
        acc >>= 64;
    }
    fold(&r, (uint64_t)acc);
    return r;
}

static struct fe fe_sqr(const struct fe *a)
{
    return fe_mul(a, a);
}

/* True when w is below p. */
static bool reduced(const struct fe *a)
{
    return a->w[3] < UINT64_C(0x7fffffffffffffff) ||
           (a->w[3] == UINT64_C(0x7fffffffffffffff) &&
            (a->w[2] != UINT64_MAX || a->w[1] != UINT64_MAX || a->w[0] < (uint64_t)-19));
}

static bool fe_zero(struct fe a)
{
    static const struct fe p = {
        {(uint64_t)-19, UINT64_MAX, UINT64_MAX, UINT64_C(0x7fffffffffffffff)}};

    while (!reduced(&a))
        a = fe_sub(&a, &p);
    return (a.w[0] | a.w[1] | a.w[2] | a.w[3]) == 0;
}

static bool fe_eq(const struct fe *a, const struct fe *b)
{
    return fe_zero(fe_sub(a, b));
}

/* a^(2^k) * b */
static struct fe square_and_mul(struct fe a, int k, const struct fe *b)
{
    while (k-- > 0)
        a = fe_sqr(&a);
    return fe_mul(&a, b);
}

/*
 * Euler's criterion: a^((p - 1) / 2) is 1 for squares. The exponent is 2^254 - 10, that is
 * 16 * (2^250 - 1) + 6; xN below is a^(2^N - 1).
 */
static bool is_square(const struct fe *a)
{
    struct fe aa = fe_sqr(a);
    struct fe a6 = square_and_mul(aa, 1, &aa);
    struct fe x2 = fe_mul(&aa, a);
    struct fe x4 = square_and_mul(x2, 2, &x2);
    struct fe x5 = square_and_mul(x4, 1, a);
    struct fe x10 = square_and_mul(x5, 5, &x5);
    struct fe x20 = square_and_mul(x10, 10, &x10);
    struct fe x40 = square_and_mul(x20, 20, &x20);
    struct fe x50 = square_and_mul(x40, 10, &x10);
    struct fe x100 = square_and_mul(x50, 50, &x50);
    struct fe x200 = square_and_mul(x100, 100, &x100);
    struct fe x250 = square_and_mul(x200, 50, &x50);
    struct fe r = square_and_mul(x250, 4, &a6);

    return fe_zero(*a) || fe_eq(&r, &one);
}

/*
 * x^2 = u / v has a solution when u * v is a square (v is never 0: -1/d is none). The doubled point
 * has y = 0 when x^2 = -y^2, which put into the equation of the curve is d y^4 + 2 y^2 = 1: those
 * are the points of order 8. y = 0 has order 4, y = 1 and y = -1 have 1 and 2.
 */
bool sw_ed25519_point_ok(const uint8_t p[32])
{
    struct fe y;
    struct fe yy;
    struct fe u;
    struct fe v;
    struct fe uv;
    struct fe order8;

    memcpy(y.w, p, sizeof(y.w));
    for (int i = 0; i < 4; i++)
        y.w[i] = le64toh(y.w[i]);
    y.w[3] &= UINT64_C(0x7fffffffffffffff); /* the sign of x; both exist unless x is 0 */
    if (!reduced(&y))
        return false;
    yy = fe_sqr(&y);
    u = fe_sub(&yy, &one);
    v = fe_mul(&curve_d, &yy);
    order8 = fe_mul(&v, &yy);
    v = fe_add(&v, &one);
    uv = fe_mul(&u, &v);
    if (!is_square(&uv))
        return false;
    order8 = fe_add(&order8, &yy);
    order8 = fe_add(&order8, &yy);
    return !fe_zero(y) && !fe_zero(u) && !fe_eq(&order8, &one);
}
