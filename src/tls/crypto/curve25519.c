/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/crypto/curve25519.h"

#include <string.h>

#include "tls/crypto/fe25519.h"

static const struct sw_fe one = {{1, 0, 0, 0, 0}};
/* d of the curve -x^2 + y^2 = 1 + d x^2 y^2. */
static const struct sw_fe curve_d = {{UINT64_C(0x34dca135978a3), UINT64_C(0x1a8283b156ebd),
                                      UINT64_C(0x5e7a26001c029), UINT64_C(0x739c663a03cbb),
                                      UINT64_C(0x52036cee2b6ff)}};

static bool fe_zero(const struct sw_fe *a)
{
    struct sw_n256 t = sw_fe_reduce(a);

    return sw_n256_zero(&t);
}

static bool fe_eq(const struct sw_fe *a, const struct sw_fe *b)
{
    struct sw_fe t;

    sw_fe_sub(&t, a, b);
    return fe_zero(&t);
}

static struct sw_fe fe_mul(const struct sw_fe *a, const struct sw_fe *b)
{
    struct sw_fe r;

    sw_fe_mul(&r, a, b);
    return r;
}

/* a^(2^k) * b */
static struct sw_fe square_and_mul(struct sw_fe a, int k, const struct sw_fe *b)
{
    while (k-- > 0)
        sw_fe_sqr(&a, &a);
    return fe_mul(&a, b);
}

/*
 * Euler's criterion: a^((p - 1) / 2) is 1 for squares. The exponent is 2^254 - 10, that is
 * 16 * (2^250 - 1) + 6; xN below is a^(2^N - 1).
 */
static bool is_square(const struct sw_fe *a)
{
    struct sw_fe aa = fe_mul(a, a);
    struct sw_fe a6 = square_and_mul(aa, 1, &aa);
    struct sw_fe x2 = fe_mul(&aa, a);
    struct sw_fe x4 = square_and_mul(x2, 2, &x2);
    struct sw_fe x5 = square_and_mul(x4, 1, a);
    struct sw_fe x10 = square_and_mul(x5, 5, &x5);
    struct sw_fe x20 = square_and_mul(x10, 10, &x10);
    struct sw_fe x40 = square_and_mul(x20, 20, &x20);
    struct sw_fe x50 = square_and_mul(x40, 10, &x10);
    struct sw_fe x100 = square_and_mul(x50, 50, &x50);
    struct sw_fe x200 = square_and_mul(x100, 100, &x100);
    struct sw_fe x250 = square_and_mul(x200, 50, &x50);
    struct sw_fe r = square_and_mul(x250, 4, &a6);

    return fe_zero(a) || fe_eq(&r, &one);
}

/*
 * x^2 = u / v has a solution when u * v is a square (v is never 0: -1/d is none). The doubled point
 * has y = 0 when x^2 = -y^2, which put into the equation of the curve is d y^4 + 2 y^2 = 1: those
 * are the points of order 8. y = 0 has order 4, y = 1 and y = -1 have 1 and 2.
 */
bool sw_ed25519_point_ok(const uint8_t p[32])
{
    struct sw_fe y = sw_fe_read(p);
    struct sw_fe yy = fe_mul(&y, &y);
    struct sw_fe v = fe_mul(&curve_d, &yy);
    struct sw_fe order8 = fe_mul(&v, &yy);
    struct sw_fe u;
    struct sw_fe uv;
    uint8_t canonical[32];

    sw_fe_write(canonical, &y);
    canonical[31] |= p[31] & 128; /* the sign of x; both exist unless x is 0 */
    if (memcmp(canonical, p, sizeof(canonical)) != 0)
        return false;
    sw_fe_sub(&u, &yy, &one);
    sw_fe_add(&v, &v, &one);
    uv = fe_mul(&u, &v);
    if (!is_square(&uv))
        return false;
    sw_fe_add(&order8, &order8, &yy);
    sw_fe_add(&order8, &order8, &yy);
    return !fe_zero(&y) && !fe_zero(&u) && !fe_eq(&order8, &one);
}
