/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The division steps of Bernstein and Yang ("Fast constant-time gcd computation and modular
 * inversion", 2019), with delta starting at 1/2: 590 of them suffice for numbers of 256 bits. They
 * are taken 59 at a time on the lowest words of f and g; a matrix then does the same to the whole
 * numbers. Numbers are signed, in five digits of 62 bits.
 */
#include "tls/crypto/inverse.h"

enum { DIGIT = 62, STEPS = 59, BATCHES = 10 };
#define LOW62 (UINT64_MAX >> 2)

typedef __int128 i128;

struct s310 {
    int64_t v[5];
};

/* What a batch of steps does to (f, g), times 2^62. */
struct matrix {
    int64_t u;
    int64_t v;
    int64_t q;
    int64_t r;
};

const struct sw_inverse_mod sw_inverse_p256_p = {
    .m = {0x3fffffffffffffff, 0x3ffffffff, 0, 0x3fffffc000000040, 0xff},
    .inverse = 0x3fffffffffffffff,
};
const struct sw_inverse_mod sw_inverse_p256_n = {
    .m = {0x33b9cac2fc632551, 0x339beab69c5e7a13, 0x3ffffffffffffffb, 0x3fffffc00000003f, 0xff},
    .inverse = 0x332e375511ff43b1,
};
const struct sw_inverse_mod sw_inverse_25519 = {
    .m = {0x3fffffffffffffed, 0x3fffffffffffffff, 0x3fffffffffffffff, 0x3fffffffffffffff, 0x7f},
    .inverse = 0x39435e50d79435e5,
};

static struct s310 to_digits(const struct sw_n256 *a)
{
    const uint64_t *w = a->w;

    return (struct s310){{
        (int64_t)(w[0] & LOW62),
        (int64_t)((w[0] >> 62 | w[1] << 2) & LOW62),
        (int64_t)((w[1] >> 60 | w[2] << 4) & LOW62),
        (int64_t)((w[2] >> 58 | w[3] << 6) & LOW62),
        (int64_t)(w[3] >> 56),
    }};
}

static struct sw_n256 from_digits(const struct s310 *a)
{
    const int64_t *d = a->v;

    return (struct sw_n256){{
        (uint64_t)d[0] | (uint64_t)d[1] << 62,
        (uint64_t)d[1] >> 2 | (uint64_t)d[2] << 60,
        (uint64_t)d[2] >> 4 | (uint64_t)d[3] << 58,
        (uint64_t)d[3] >> 6 | (uint64_t)d[4] << 56,
    }};
}

/* zeta is -(delta + 1/2); returns the new one. */
static int64_t steps(int64_t zeta, uint64_t f, uint64_t g, struct matrix *ret)
{
    /* 59 steps shift by 59 bits; starting with 8 makes it 62. */
    uint64_t u = 8;
    uint64_t v = 0;
    uint64_t q = 0;
    uint64_t r = 8;

    for (int i = 0; i < STEPS; i++) {
        uint64_t swap = (uint64_t)(zeta >> 63); /* delta is positive */
        uint64_t odd = 0 - (g & 1);

        __asm__("" : "+r"(swap), "+r"(odd));
        g += ((f ^ swap) - swap) & odd;
        q += ((u ^ swap) - swap) & odd;
        r += ((v ^ swap) - swap) & odd;
        swap &= odd;
        zeta = (int64_t)((uint64_t)zeta ^ swap) - 1;
        f += g & swap;
        u += q & swap;
        v += r & swap;
        g >>= 1;
        u <<= 1;
        v <<= 1;
    }
    *ret = (struct matrix){(int64_t)u, (int64_t)v, (int64_t)q, (int64_t)r};
    return zeta;
}

/* (f, g) = (u f + v g, q f + r g) / 2^62, exactly. */
static void update_fg(struct s310 *f, struct s310 *g, const struct matrix *t)
{
    i128 cf = (i128)t->u * f->v[0] + (i128)t->v * g->v[0];
    i128 cg = (i128)t->q * f->v[0] + (i128)t->r * g->v[0];

    cf >>= DIGIT;
    cg >>= DIGIT;
    for (int i = 1; i < 5; i++) {
        cf += (i128)t->u * f->v[i] + (i128)t->v * g->v[i];
        cg += (i128)t->q * f->v[i] + (i128)t->r * g->v[i];
        f->v[i - 1] = (int64_t)((uint64_t)cf & LOW62);
        g->v[i - 1] = (int64_t)((uint64_t)cg & LOW62);
        cf >>= DIGIT;
        cg >>= DIGIT;
    }
    f->v[4] = (int64_t)cf;
    g->v[4] = (int64_t)cg;
}

/*
 * (d, e) = (u d + v e, q d + r e) / 2^62 modulo m: multiples of m are added that clear the lowest
 * digit. Both stay between -2m and m, the sign being that of the top digit.
 */
static void update_de(struct s310 *d, struct s310 *e, const struct matrix *t,
                      const struct sw_inverse_mod *mod)
{
    int64_t sd = d->v[4] >> 63;
    int64_t se = e->v[4] >> 63;
    int64_t md = (t->u & sd) + (t->v & se);
    int64_t me = (t->q & sd) + (t->r & se);
    i128 cd = (i128)t->u * d->v[0] + (i128)t->v * e->v[0];
    i128 ce = (i128)t->q * d->v[0] + (i128)t->r * e->v[0];

    md -= (int64_t)((mod->inverse * (uint64_t)cd + (uint64_t)md) & LOW62);
    me -= (int64_t)((mod->inverse * (uint64_t)ce + (uint64_t)me) & LOW62);
    cd += (i128)mod->m[0] * md;
    ce += (i128)mod->m[0] * me;
    cd >>= DIGIT;
    ce >>= DIGIT;
    for (int i = 1; i < 5; i++) {
        cd += (i128)t->u * d->v[i] + (i128)t->v * e->v[i] + (i128)mod->m[i] * md;
        ce += (i128)t->q * d->v[i] + (i128)t->r * e->v[i] + (i128)mod->m[i] * me;
        d->v[i - 1] = (int64_t)((uint64_t)cd & LOW62);
        e->v[i - 1] = (int64_t)((uint64_t)ce & LOW62);
        cd >>= DIGIT;
        ce >>= DIGIT;
    }
    d->v[4] = (int64_t)cd;
    e->v[4] = (int64_t)ce;
}

/* a += m where mask is all ones, a = -a where 'negate' is, and digits between 0 and 2^62 again. */
static void adjust(struct s310 *a, const struct sw_inverse_mod *mod, int64_t mask, int64_t negate)
{
    int64_t carry = 0;

    for (int i = 0; i < 5; i++) {
        int64_t x = a->v[i] + (mod->m[i] & mask);

        x = ((x ^ negate) - negate) + carry;
        a->v[i] = i < 4 ? (int64_t)((uint64_t)x & LOW62) : x;
        carry = x >> DIGIT;
    }
}

void sw_inverse(struct sw_n256 *r, const struct sw_n256 *a, const struct sw_inverse_mod *mod)
{
    struct s310 f = {{mod->m[0], mod->m[1], mod->m[2], mod->m[3], mod->m[4]}};
    struct s310 g = to_digits(a);
    struct s310 d = {{0}};
    struct s310 e = {{1, 0, 0, 0, 0}};
    struct matrix t;
    int64_t zeta = -1;

    for (int i = 0; i < BATCHES; i++) {
        zeta = steps(zeta, (uint64_t)f.v[0] | (uint64_t)f.v[1] << 62,
                     (uint64_t)g.v[0] | (uint64_t)g.v[1] << 62, &t);
        update_de(&d, &e, &t, mod);
        update_fg(&f, &g, &t);
    }
    /* f is 1 or -1 now (m or -m for 0), and d the inverse times that. */
    adjust(&d, mod, d.v[4] >> 63, f.v[4] >> 63);
    adjust(&d, mod, d.v[4] >> 63, 0);
    *r = from_digits(&d);
    explicit_bzero(&f, sizeof(f));
    explicit_bzero(&d, sizeof(d));
    explicit_bzero(&e, sizeof(e));
    explicit_bzero(&t, sizeof(t));
}
