/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points are in Jacobian coordinates (x / z^2, y / z^3), z = 0 being infinity; the formulas are
 * those of Bernstein and Lange's database for a = -3. Scalars are cut into signed digits, so a
 * table holds the positive multiples only, and is always read from end to end.
 *
 * The addition formulas do not hold for equal or opposite points. Multiplying by k < n never asks
 * for that, infinity aside, which is handled:
 * - Multiples of G: before digit d of row i is added the sum is s * G with |s| < 2^(6 i), and d is
 * 0 or |d * 2^(6 i)| > |s|. So the two can only be equal modulo n, and then k = s + d * 2^(6 i)
 * would be 2 d * 2^(6 i) - n, whose own digit in the top row is not d for any d.
 * - Other points: the sum is 32 m, m > 0, and |d| <= 16, so again only modulo n. Opposite: k = n.
 *   Equal: 32 m - d = n with k = n + 2 d < n; then -d = n = 17 modulo 32, out of range.
 * Verification adds two such products, in which anything may happen, and looks.
 */
#include "tls/crypto/p256.h"

#include <pthread.h>
#include <stdalign.h>

#include "base/def.h"
#include "tls/crypto/inverse.h"
#include "tls/crypto/p256_field.h"

enum {
    BASE_W = 6, /* bits of a digit for multiples of G */
    BASE_ROWS = 43,
    BASE_COLS = 1 << (BASE_W - 1),
    VAR_W = 5, /* and of other points */
    VAR_ROWS = 52,
    VAR_COLS = 1 << (VAR_W - 1),
};

/* In Montgomery form, all of these. */
struct affine {
    struct sw_n256 x;
    struct sw_n256 y;
};

struct jacobian {
    struct sw_n256 x;
    struct sw_n256 y;
    struct sw_n256 z;
};

enum { SAME_X = 1, SAME_Y = 2 }; /* what an addition found: with SAME_X its result is void */

static const struct sw_n256 mont_one = {
    {1, UINT64_C(0xffffffff00000000), UINT64_C(0xffffffffffffffff), UINT64_C(0xfffffffe)}};
static const struct sw_n256 field_r2 = {
    {3, UINT64_C(0xfffffffbffffffff), UINT64_C(0xfffffffffffffffe), UINT64_C(0x4fffffffd)}};
static const struct sw_n256 field_r3 = {{UINT64_C(0xfffffffd0000000a), UINT64_C(0xffffffedfffffff7),
                                         UINT64_C(0x00000005fffffffc),
                                         UINT64_C(0x0000001800000001)}};
static const struct sw_n256 order_r2 = {{UINT64_C(0x83244c95be79eea2), UINT64_C(0x4699799c49bd6fa6),
                                         UINT64_C(0x2845b2392b6bec59),
                                         UINT64_C(0x66e12d94f3d95620)}};
static const struct sw_n256 curve_b = {{UINT64_C(0x3bce3c3e27d2604b), UINT64_C(0x651d06b0cc53b0f6),
                                        UINT64_C(0xb3ebbd55769886bc),
                                        UINT64_C(0x5ac635d8aa3a93e7)}};
static const struct sw_p256_point generator = {
    {{UINT64_C(0xf4a13945d898c296), UINT64_C(0x77037d812deb33a0), UINT64_C(0xf8bce6e563a440f2),
      UINT64_C(0x6b17d1f2e12c4247)}},
    {{UINT64_C(0xcbb6406837bf51f5), UINT64_C(0x2bce33576b315ece), UINT64_C(0x8ee7eb4a7c0f9e16),
      UINT64_C(0x4fe342e2fe1a7f9b)}}};

/* base[i][j] = (j + 1) * 2^(6 i) * G. 88 KB, filled when the first multiple is wanted. */
static alignas(64) struct affine base[BASE_ROWS][BASE_COLS];
static pthread_once_t base_once = PTHREAD_ONCE_INIT;
static bool use_adx;

/* --- field --- */

static void mul(struct sw_n256 *r, const struct sw_n256 *a, const struct sw_n256 *b)
{
    if (SW_LIKELY(use_adx))
        sw_field_mul_adx(r, a, b);
    else
        sw_field_mul_c(r, a, b);
}

static void sqr(struct sw_n256 *r, const struct sw_n256 *a)
{
    mul(r, a, a);
}

static void add(struct sw_n256 *r, const struct sw_n256 *a, const struct sw_n256 *b)
{
    sw_field_add(r, a, b);
}

static void sub(struct sw_n256 *r, const struct sw_n256 *a, const struct sw_n256 *b)
{
    sw_field_sub(r, a, b);
}

static void to_mont(struct sw_n256 *r, const struct sw_n256 *a)
{
    mul(r, a, &field_r2);
}

static void from_mont(struct sw_n256 *r, const struct sw_n256 *a)
{
    static const struct sw_n256 plain_one = {{1, 0, 0, 0}};

    mul(r, a, &plain_one);
}

/* In Montgomery form: (a R)^-1 * R^3 / R. */
static void invert(struct sw_n256 *r, const struct sw_n256 *a)
{
    sw_inverse(r, a, &sw_inverse_p256_p);
    mul(r, r, &field_r3);
}

static bool below(const struct sw_n256 *a, const struct sw_n256 *m)
{
    struct sw_n256 t;

    return sw_n256_sub(&t, a, m) != 0;
}

/* --- points --- */

static void pick_jacobian(struct jacobian *r, const struct jacobian *a, uint64_t mask)
{
    sw_n256_pick(&r->x, &a->x, mask);
    sw_n256_pick(&r->y, &a->y, mask);
    sw_n256_pick(&r->z, &a->z, mask);
}

/* y = -y where mask is all ones. */
static void negate_y(struct sw_n256 *y, uint64_t mask)
{
    static const struct sw_n256 zero;
    struct sw_n256 neg;

    sub(&neg, &zero, y);
    sw_n256_pick(y, &neg, mask);
}

/* dbl-2001-b: 3M + 5S. r may be a. */
static void point_double(struct jacobian *r, const struct jacobian *a)
{
    struct sw_n256 delta;
    struct sw_n256 gamma;
    struct sw_n256 beta;
    struct sw_n256 alpha;
    struct sw_n256 t;

    sqr(&delta, &a->z);
    sqr(&gamma, &a->y);
    mul(&beta, &a->x, &gamma);
    sub(&t, &a->x, &delta);
    add(&alpha, &a->x, &delta);
    mul(&alpha, &alpha, &t);
    add(&t, &alpha, &alpha);
    add(&alpha, &alpha, &t); /* 3 (x - delta) (x + delta) */
    add(&t, &a->y, &a->z);
    sqr(&t, &t);
    sub(&t, &t, &gamma);
    sub(&r->z, &t, &delta);
    add(&beta, &beta, &beta);
    add(&beta, &beta, &beta); /* 4 beta */
    sqr(&r->x, &alpha);
    sub(&r->x, &r->x, &beta);
    sub(&r->x, &r->x, &beta);
    sub(&t, &beta, &r->x);
    mul(&t, &t, &alpha);
    sqr(&gamma, &gamma);
    add(&gamma, &gamma, &gamma);
    add(&gamma, &gamma, &gamma);
    add(&gamma, &gamma, &gamma);
    sub(&r->y, &t, &gamma);
}

/*
 * The end of both additions: u1, s1 are x and y of the first point and h, d the differences to the
 * second's, all over a common denominator; z holds it, short of the factor h.
 */
static unsigned add_tail(struct jacobian *r, const struct sw_n256 *u1, const struct sw_n256 *s1,
                         const struct sw_n256 *h, const struct sw_n256 *d, const struct sw_n256 *z)
{
    struct sw_n256 hh;
    struct sw_n256 hhh;
    struct sw_n256 v;
    struct sw_n256 t;
    unsigned same = (unsigned)(sw_n256_zero(h) & SAME_X) | (unsigned)(sw_n256_zero(d) & SAME_Y);

    mul(&r->z, z, h);
    sqr(&hh, h);
    mul(&hhh, &hh, h);
    mul(&v, u1, &hh);
    mul(&t, s1, &hhh);
    sqr(&r->x, d);
    sub(&r->x, &r->x, &hhh);
    sub(&r->x, &r->x, &v);
    sub(&r->x, &r->x, &v);
    sub(&v, &v, &r->x);
    mul(&v, &v, d);
    sub(&r->y, &v, &t);
    return same;
}

/* 8M + 3S. Neither is infinity. r may be a. */
static unsigned add_affine(struct jacobian *r, const struct jacobian *a, const struct affine *b)
{
    struct sw_n256 zz;
    struct sw_n256 h;
    struct sw_n256 d;
    struct sw_n256 x = a->x;
    struct sw_n256 y = a->y;
    struct sw_n256 z = a->z;

    sqr(&zz, &z);
    mul(&h, &b->x, &zz);
    mul(&d, &z, &zz);
    mul(&d, &d, &b->y);
    sub(&h, &h, &x);
    sub(&d, &d, &y);
    return add_tail(r, &x, &y, &h, &d, &z);
}

/* 12M + 4S. Neither is infinity. r may be a. */
static unsigned add_jacobian(struct jacobian *r, const struct jacobian *a, const struct jacobian *b)
{
    struct sw_n256 za;
    struct sw_n256 zb;
    struct sw_n256 u;
    struct sw_n256 s;
    struct sw_n256 h;
    struct sw_n256 d;
    struct sw_n256 z;

    sqr(&za, &a->z);
    sqr(&zb, &b->z);
    mul(&u, &a->x, &zb);
    mul(&h, &b->x, &za);
    mul(&zb, &zb, &b->z);
    mul(&za, &za, &a->z);
    mul(&s, &a->y, &zb);
    mul(&d, &b->y, &za);
    mul(&z, &a->z, &b->z);
    sub(&h, &h, &u);
    sub(&d, &d, &s);
    return add_tail(r, &u, &s, &h, &d, &z);
}

static void to_affine(const struct jacobian *a, struct sw_p256_point *ret)
{
    struct sw_n256 inv;
    struct sw_n256 sq;

    invert(&inv, &a->z);
    sqr(&sq, &inv);
    mul(&ret->x, &a->x, &sq);
    mul(&sq, &sq, &inv);
    mul(&ret->y, &a->y, &sq);
    from_mont(&ret->x, &ret->x);
    from_mont(&ret->y, &ret->y);
    explicit_bzero(&inv, sizeof(inv));
    explicit_bzero(&sq, sizeof(sq));
}

static void from_affine(struct jacobian *r, const struct sw_p256_point *p)
{
    to_mont(&r->x, &p->x);
    to_mont(&r->y, &p->y);
    r->z = mont_one;
}

/* --- digits --- */

struct digit {
    uint64_t size;   /* 0 to 2^(w-1) */
    uint64_t negate; /* mask */
};

/* Two words more than k, shifted up by one: a digit begins with the top bit of the one below. */
struct spread {
    uint64_t w[6];
};

static struct spread spread(const struct sw_n256 *k)
{
    return (struct spread){{k->w[0] << 1, k->w[1] << 1 | k->w[0] >> 63,
                            k->w[2] << 1 | k->w[1] >> 63, k->w[3] << 1 | k->w[2] >> 63,
                            k->w[3] >> 63, 0}};
}

/* Digit i of w bits: Booth's recoding. */
static struct digit digit_at(const struct spread *k, unsigned i, unsigned w)
{
    unsigned at = i * w;
    sw_u128 two = (sw_u128)k->w[at / 64 + 1] << 64 | k->w[at / 64];
    uint64_t bits = (uint64_t)(two >> (at % 64)) & ((UINT64_C(2) << w) - 1);
    struct digit d = {.negate = 0 - (bits >> w)};

    __asm__("" : "+r"(d.negate));
    bits ^= d.negate & ((UINT64_C(2) << w) - 1);
    d.size = (bits + 1) >> 1;
    return d;
}

/* --- multiples of G --- */

/* Row i from its first point: the multiples up to 32, with one inversion for all of them. */
static void fill_row(struct affine *row, const struct jacobian *first)
{
    struct jacobian p[BASE_COLS];
    struct sw_n256 prod[BASE_COLS]; /* of z 0 to j */
    struct sw_n256 inv;

    p[0] = *first;
    point_double(&p[1], first);
    for (int j = 2; j < BASE_COLS; j++)
        (void)add_jacobian(&p[j], &p[j - 1], first);
    prod[0] = p[0].z;
    for (int j = 1; j < BASE_COLS; j++)
        mul(&prod[j], &prod[j - 1], &p[j].z);
    invert(&inv, &prod[BASE_COLS - 1]);
    for (int j = BASE_COLS - 1; j >= 0; j--) {
        struct sw_n256 zi = inv;
        struct sw_n256 sq;

        if (j > 0) {
            mul(&zi, &inv, &prod[j - 1]);
            mul(&inv, &inv, &p[j].z);
        }
        sqr(&sq, &zi);
        mul(&row[j].x, &p[j].x, &sq);
        mul(&sq, &sq, &zi);
        mul(&row[j].y, &p[j].y, &sq);
    }
}

static void fill_base(void)
{
    struct jacobian p;

    from_affine(&p, &generator);
    for (int i = 0; i < BASE_ROWS; i++) {
        fill_row(base[i], &p);
        for (int k = 0; k < BASE_W; k++)
            point_double(&p, &p);
    }
}

static void find_adx(void)
{
    use_adx = sw_field_adx_ok();
}

static void prepare(void)
{
    static pthread_once_t adx_once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&adx_once, find_adx);
}

bool sw_p256_adx_ok(void)
{
    return sw_field_adx_ok();
}

void sw_p256_portable(bool portable)
{
    prepare();
    use_adx = !portable && sw_field_adx_ok();
}

/* r = size * row's point, 0 leaves r at zero. */
static void select_affine(struct affine *r, const struct affine row[BASE_COLS], uint64_t size)
{
    sw_vec got[4] = {0};

    for (uint64_t j = 0; j < BASE_COLS; j++)
        sw_vec_gather(got, (const sw_vec *)&row[j], 4, sw_ct_zero(size ^ (j + 1)));
    memcpy(r, got, sizeof(*r));
}

static void base_mul(struct jacobian *acc, const struct sw_n256 *k)
{
    struct spread s = spread(k);
    struct jacobian sum;
    struct affine t;

    (void)pthread_once(&base_once, fill_base);
    *acc = (struct jacobian){0};
    for (unsigned i = 0; i < BASE_ROWS; i++) {
        struct digit d = digit_at(&s, i, BASE_W);
        uint64_t first = sw_n256_zero(&acc->z);
        uint64_t none = sw_ct_zero(d.size);

        select_affine(&t, base[i], d.size);
        negate_y(&t.y, d.negate);
        (void)add_affine(&sum, acc, &t);
        /* acc is infinity: the sum is t. The digit is 0: the sum is acc. */
        sw_n256_pick(&sum.x, &t.x, first);
        sw_n256_pick(&sum.y, &t.y, first);
        sw_n256_pick(&sum.z, &mont_one, first);
        pick_jacobian(acc, &sum, ~none);
    }
    explicit_bzero(&s, sizeof(s));
    explicit_bzero(&sum, sizeof(sum));
    explicit_bzero(&t, sizeof(t));
}

void sw_p256_base(const struct sw_n256 *k, struct sw_p256_point *ret)
{
    struct jacobian acc;

    prepare();
    base_mul(&acc, k);
    to_affine(&acc, ret);
    explicit_bzero(&acc, sizeof(acc));
}

/* --- multiples of other points --- */

static void select_jacobian(struct jacobian *r, const struct jacobian row[VAR_COLS], uint64_t size)
{
    sw_vec got[6] = {0};

    for (uint64_t j = 0; j < VAR_COLS; j++)
        sw_vec_gather(got, (const sw_vec *)&row[j], 6, sw_ct_zero(size ^ (j + 1)));
    memcpy(r, got, sizeof(*r));
}

/* k below n */
static void point_mul(struct jacobian *acc, const struct sw_n256 *k, const struct sw_p256_point *p)
{
    struct spread s = spread(k);
    struct jacobian row[VAR_COLS];
    struct jacobian sum;
    struct jacobian t;

    from_affine(&row[0], p);
    point_double(&row[1], &row[0]);
    for (int j = 2; j < VAR_COLS; j++)
        (void)add_jacobian(&row[j], &row[j - 1], &row[0]);
    *acc = (struct jacobian){0};
    for (unsigned i = VAR_ROWS; i-- > 0;) {
        struct digit d = digit_at(&s, i, VAR_W);

        for (int j = 0; j < VAR_W; j++)
            point_double(acc, acc);
        select_jacobian(&t, row, d.size);
        negate_y(&t.y, d.negate);
        (void)add_jacobian(&sum, acc, &t);
        pick_jacobian(&sum, &t, sw_n256_zero(&acc->z));
        pick_jacobian(acc, &sum, sw_ct_mask(d.size));
    }
    explicit_bzero(&s, sizeof(s));
    explicit_bzero(&sum, sizeof(sum));
    explicit_bzero(&t, sizeof(t));
}

void sw_p256_mul(const struct sw_n256 *k, const struct sw_p256_point *p, struct sw_p256_point *ret)
{
    struct jacobian acc;

    prepare();
    point_mul(&acc, k, p);
    to_affine(&acc, ret);
    explicit_bzero(&acc, sizeof(acc));
}

bool sw_p256_scalar_ok(const struct sw_n256 *k)
{
    struct sw_n256 t;

    return (sw_n256_sub(&t, k, &sw_p256_n) & ~sw_n256_zero(k)) != 0;
}

bool sw_p256_point_ok(const struct sw_p256_point *p)
{
    struct sw_n256 x;
    struct sw_n256 y;
    struct sw_n256 b;
    struct sw_n256 t;

    if (!below(&p->x, &sw_p256_p) || !below(&p->y, &sw_p256_p))
        return false;
    prepare();
    to_mont(&x, &p->x);
    to_mont(&y, &p->y);
    to_mont(&b, &curve_b);
    sqr(&t, &x);
    sub(&t, &t, &mont_one);
    sub(&t, &t, &mont_one);
    sub(&t, &t, &mont_one);
    mul(&t, &t, &x);
    add(&t, &t, &b);
    sqr(&y, &y);
    sub(&t, &t, &y);
    return sw_n256_zero(&t);
}

/* --- ECDSA --- */

/* The leftmost 256 bits of a digest, modulo n. */
static void hash_number(struct sw_n256 *r, const uint8_t *digest, size_t n)
{
    struct sw_n256 t = {0};

    n = sw_min(n, 32);
    for (size_t i = 0; i < n; i++)
        t.w[(n - 1 - i) / 8] |= (uint64_t)digest[i] << ((n - 1 - i) % 8 * 8);
    sw_n256_reduce_once(r, &t, 0, &sw_p256_n);
}

bool sw_p256_sign(const struct sw_n256 *key, const struct sw_n256 *k, const uint8_t *digest,
                  size_t n, struct sw_n256 *ret_r, struct sw_n256 *ret_s)
{
    struct sw_p256_point p;
    struct sw_n256 z;
    struct sw_n256 t;

    sw_p256_base(k, &p);
    sw_n256_reduce_once(ret_r, &p.x, 0, &sw_p256_n);
    hash_number(&z, digest, n);
    /* (z + r key) / k; one factor in Montgomery form keeps a product plain. */
    sw_order_mul(&t, ret_r, &order_r2);
    sw_order_mul(&t, &t, key);
    sw_mod_add(&t, &t, &z, &sw_p256_n);
    sw_inverse(&z, k, &sw_inverse_p256_n);
    sw_order_mul(&z, &z, &order_r2);
    sw_order_mul(ret_s, &t, &z);
    explicit_bzero(&p, sizeof(p));
    explicit_bzero(&z, sizeof(z));
    explicit_bzero(&t, sizeof(t));
    return !(sw_n256_zero(ret_r) | sw_n256_zero(ret_s));
}

/* acc += t where anything may be infinity or equal. Public values. */
static void add_public(struct jacobian *acc, const struct affine *t)
{
    struct jacobian sum;
    unsigned same;

    if (sw_n256_zero(&acc->z)) {
        *acc = (struct jacobian){t->x, t->y, mont_one};
        return;
    }
    same = add_affine(&sum, acc, t);
    if (!(same & SAME_X))
        *acc = sum;
    else if (same & SAME_Y)
        point_double(acc, acc);
    else
        *acc = (struct jacobian){0};
}

/* acc += k * G. Public values. */
static void add_base_public(struct jacobian *acc, const struct sw_n256 *k)
{
    struct spread s = spread(k);

    (void)pthread_once(&base_once, fill_base);
    for (unsigned i = 0; i < BASE_ROWS; i++) {
        struct digit d = digit_at(&s, i, BASE_W);
        struct affine t;

        if (d.size == 0)
            continue;
        t = base[i][d.size - 1];
        negate_y(&t.y, d.negate);
        add_public(acc, &t);
    }
}

/* x of a point, without dividing: is it v? */
static bool has_x(const struct jacobian *a, const struct sw_n256 *v)
{
    struct sw_n256 t;
    struct sw_n256 m;

    sqr(&t, &a->z);
    to_mont(&m, v);
    mul(&t, &t, &m);
    sub(&t, &t, &a->x);
    return sw_n256_zero(&t);
}

bool sw_p256_verify(const struct sw_p256_point *pub, const uint8_t *digest, size_t n,
                    const struct sw_n256 *r, const struct sw_n256 *s)
{
    struct jacobian acc;
    struct sw_n256 u1;
    struct sw_n256 u2;
    struct sw_n256 v;

    if (!sw_p256_scalar_ok(r) || !sw_p256_scalar_ok(s))
        return false;
    prepare();
    sw_inverse(&v, s, &sw_inverse_p256_n);
    sw_order_mul(&v, &v, &order_r2);
    hash_number(&u1, digest, n);
    sw_order_mul(&u1, &u1, &v);
    sw_order_mul(&u2, r, &v);
    point_mul(&acc, &u2, pub);
    add_base_public(&acc, &u1);
    if (sw_n256_zero(&acc.z))
        return false;
    /* x is below p, r was reduced modulo n: x is r or r + n. */
    if (has_x(&acc, r))
        return true;
    return sw_n256_add(&v, r, &sw_p256_n) == 0 && below(&v, &sw_p256_p) && has_x(&acc, &v);
}
