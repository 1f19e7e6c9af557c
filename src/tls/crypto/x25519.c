/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any point: Montgomery's ladder. The base point: on the Edwards form of the curve, by a table of
 * its multiples and signed digits of four bits; the addition there holds for all points.
 */
#include "tls/crypto/x25519.h"

#include <pthread.h>
#include <stdalign.h>

#include "tls/crypto/fe25519.h"

enum { ROWS = 64, COLS = 8 };

/* (x / z, y / z), t = x y / z, on -x^2 + y^2 = 1 + d x^2 y^2 */
struct edwards {
    struct sw_fe x;
    struct sw_fe y;
    struct sw_fe z;
    struct sw_fe t;
};

/* An affine point in the form the addition wants. */
struct prepared {
    struct sw_fe sum;  /* y + x */
    struct sw_fe diff; /* y - x */
    struct sw_fe xy2d; /* 2 d x y */
    uint64_t pad;      /* to a whole number of vectors */
};

static const struct sw_fe curve_2d = {{UINT64_C(0x69b9426b2f159), UINT64_C(0x35050762add7a),
                                       UINT64_C(0x3cf44c0038052), UINT64_C(0x6738cc7407977),
                                       UINT64_C(0x2406d9dc56dff)}};
static const struct sw_fe base_x = {{UINT64_C(0x62d608f25d51a), UINT64_C(0x412a4b4f6592a),
                                     UINT64_C(0x75b7171a4b31d), UINT64_C(0x1ff60527118fe),
                                     UINT64_C(0x216936d3cd6e5)}};
static const struct sw_fe base_y = {{UINT64_C(0x6666666666658), UINT64_C(0x4cccccccccccc),
                                     UINT64_C(0x1999999999999), UINT64_C(0x3333333333333),
                                     UINT64_C(0x6666666666666)}};
static const struct sw_fe one = {{1, 0, 0, 0, 0}};

/* table[i][j] = (j + 1) * 16^i * B. 64 KB, filled when the first key is made. */
static alignas(64) struct prepared table[ROWS][COLS];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;
static pthread_once_t ifma_once = PTHREAD_ONCE_INIT;
static bool use_ifma;

static void find_ifma(void)
{
    use_ifma = sw_x25519_ifma_ok();
}

void sw_x25519_portable(bool portable)
{
    (void)pthread_once(&ifma_once, find_ifma);
    use_ifma = !portable && sw_x25519_ifma_ok();
}

static void clamp(uint8_t out[32], const uint8_t n[32])
{
    memcpy(out, n, 32);
    out[0] &= 248;
    out[31] = (uint8_t)((out[31] & 127) | 64);
}

/* --- any point --- */

static void swap(struct sw_fe *a, struct sw_fe *b, uint64_t mask)
{
    struct sw_fe t = *a;

    sw_fe_pick(a, b, mask);
    sw_fe_pick(b, &t, mask);
}

/* (x2 : z2) = 2 (x2 : z2), (x3 : z3) = (x2 : z2) + (x3 : z3), their difference being u. */
static void ladder_step(struct sw_fe *x2, struct sw_fe *z2, struct sw_fe *x3, struct sw_fe *z3,
                        const struct sw_fe *u)
{
    static const struct sw_fe a24 = {{121666, 0, 0, 0, 0}};
    struct sw_fe a;
    struct sw_fe b;
    struct sw_fe c;
    struct sw_fe d;

    sw_fe_add(&a, x2, z2);
    sw_fe_sub(&b, x2, z2);
    sw_fe_add(&c, x3, z3);
    sw_fe_sub(&d, x3, z3);
    sw_fe_mul(&d, &d, &a);
    sw_fe_mul(&c, &c, &b);
    sw_fe_sqr(&a, &a);
    sw_fe_sqr(&b, &b);
    sw_fe_add(x3, &d, &c);
    sw_fe_sqr(x3, x3);
    sw_fe_sub(z3, &d, &c);
    sw_fe_sqr(z3, z3);
    sw_fe_mul(z3, z3, u);
    sw_fe_mul(x2, &a, &b);
    sw_fe_sub(&a, &a, &b);
    sw_fe_mul(&c, &a, &a24);
    sw_fe_add(&c, &c, &b);
    sw_fe_mul(z2, &a, &c);
}

static void ladder(const uint8_t n[32], const struct sw_fe *u, struct sw_fe *x2, struct sw_fe *z2)
{
    struct sw_fe x3 = *u;
    struct sw_fe z3 = one;
    uint64_t last = 0;

    *x2 = one;
    *z2 = (struct sw_fe){0};
    for (int i = 254; i >= 0; i--) {
        uint64_t bit = (uint64_t)(n[i / 8] >> (i % 8)) & 1;
        uint64_t mask = 0 - (bit ^ last);

        __asm__("" : "+r"(mask));
        swap(x2, &x3, mask);
        swap(z2, &z3, mask);
        last = bit;
        ladder_step(x2, z2, &x3, &z3, u);
    }
    swap(x2, &x3, 0 - last);
    swap(z2, &z3, 0 - last);
    explicit_bzero(&x3, sizeof(x3));
    explicit_bzero(&z3, sizeof(z3));
}

void sw_x25519(uint8_t q[32], const uint8_t n[32], const uint8_t p[32])
{
    struct sw_fe u = sw_fe_read(p);
    struct sw_fe x;
    struct sw_fe z;
    uint8_t k[32];

    (void)pthread_once(&ifma_once, find_ifma);
    clamp(k, n);
    if (use_ifma)
        sw_x25519_ifma(k, &u, &x, &z);
    else
        ladder(k, &u, &x, &z);
    sw_fe_invert(&z, &z);
    sw_fe_mul(&x, &x, &z);
    sw_fe_write(q, &x);
    explicit_bzero(k, sizeof(k));
    explicit_bzero(&x, sizeof(x));
    explicit_bzero(&z, sizeof(z));
}

/* --- the base point --- */

/* The end of an addition: e, f, g, h as in Hisil, Wong, Carter and Dawson (2008). */
static void add_end(struct edwards *r, const struct sw_fe *e, const struct sw_fe *f,
                    const struct sw_fe *g, const struct sw_fe *h)
{
    sw_fe_mul(&r->x, e, f);
    sw_fe_mul(&r->y, g, h);
    sw_fe_mul(&r->t, e, h);
    sw_fe_mul(&r->z, f, g);
}

/* r = r + p */
static void add_prepared(struct edwards *r, const struct prepared *p)
{
    struct sw_fe a;
    struct sw_fe b;
    struct sw_fe c;
    struct sw_fe d;
    struct sw_fe e;
    struct sw_fe f;

    sw_fe_sub(&a, &r->y, &r->x);
    sw_fe_mul(&a, &a, &p->diff);
    sw_fe_add(&b, &r->y, &r->x);
    sw_fe_mul(&b, &b, &p->sum);
    sw_fe_mul(&c, &r->t, &p->xy2d);
    sw_fe_add(&d, &r->z, &r->z);
    sw_fe_sub(&e, &b, &a);
    sw_fe_add(&b, &b, &a); /* h */
    sw_fe_sub(&f, &d, &c);
    sw_fe_add(&d, &d, &c); /* g */
    add_end(r, &e, &f, &d, &b);
}

/* p prepared, with 1 / z given. */
static void prepare(struct prepared *r, const struct edwards *p, const struct sw_fe *inv)
{
    struct sw_fe x;
    struct sw_fe y;

    sw_fe_mul(&x, &p->x, inv);
    sw_fe_mul(&y, &p->y, inv);
    sw_fe_add(&r->sum, &y, &x);
    sw_fe_sub(&r->diff, &y, &x);
    sw_fe_mul(&x, &x, &y);
    sw_fe_mul(&r->xy2d, &x, &curve_2d);
}

/* Row i is that of first = 16^i * B, which becomes that of the next. */
static void fill_row(struct prepared row[COLS], struct edwards *first)
{
    struct edwards p = *first;
    struct sw_fe inv;

    sw_fe_invert(&inv, &p.z);
    prepare(&row[0], &p, &inv);
    for (int j = 1; j < COLS; j++) {
        add_prepared(&p, &row[0]);
        sw_fe_invert(&inv, &p.z);
        prepare(&row[j], &p, &inv);
    }
    add_prepared(&p, &row[COLS - 1]); /* 8 and 8 */
    *first = p;
}

static void fill_table(void)
{
    struct edwards p = {.x = base_x, .y = base_y, .z = one};

    sw_fe_mul(&p.t, &p.x, &p.y);
    for (int i = 0; i < ROWS; i++)
        fill_row(table[i], &p);
}

/* r = digit * (the row's point), for digits from -8 to 8. */
static void select_prepared(struct prepared *r, const struct prepared row[COLS], uint64_t size,
                            uint64_t negate)
{
    static const struct sw_fe zero;
    struct sw_fe t;

    sw_vec got[8] = {0};

    for (uint64_t j = 0; j < COLS; j++)
        sw_vec_gather(got, (const sw_vec *)&row[j], 8, sw_ct_zero(size ^ (j + 1)));
    memcpy(r, got, sizeof(*r));
    r->sum.v[0] |= sw_ct_zero(size) & 1; /* 0: x is 0, y is 1 */
    r->diff.v[0] |= sw_ct_zero(size) & 1;
    swap(&r->sum, &r->diff, negate);
    sw_fe_sub(&t, &zero, &r->xy2d);
    sw_fe_pick(&r->xy2d, &t, negate);
}

void sw_x25519_base(uint8_t q[32], const uint8_t n[32])
{
    struct edwards acc = {.y = one, .z = one};
    struct prepared p;
    struct sw_fe t;
    uint8_t k[32];
    unsigned carry = 0;

    (void)pthread_once(&table_once, fill_table);
    clamp(k, n);
    for (int i = 0; i < ROWS; i++) {
        /* 0 to 16; above 8 it counts from the next one down. */
        unsigned d = ((k[i / 2] >> (i % 2 * 4)) & 15u) + carry;
        uint64_t negate;

        carry = (d + 7) >> 4;
        negate = 0 - (uint64_t)carry;
        __asm__("" : "+r"(negate));
        select_prepared(&p, table[i], (d ^ negate) - negate + (16 & negate), negate);
        add_prepared(&acc, &p);
    }
    /* u = (1 + y) / (1 - y) */
    sw_fe_sub(&t, &acc.z, &acc.y);
    sw_fe_invert(&t, &t);
    sw_fe_add(&acc.z, &acc.z, &acc.y);
    sw_fe_mul(&t, &t, &acc.z);
    sw_fe_write(q, &t);
    explicit_bzero(k, sizeof(k));
    explicit_bzero(&acc, sizeof(acc));
    explicit_bzero(&p, sizeof(p));
}
