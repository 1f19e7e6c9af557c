/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic modulo p = 2^255 - 19 on five words of 51 bits each. Every function takes the same
 * steps whatever the numbers are.
 *
 * Products are tight: their words are below 2^51 + 2^14. A sum or a difference of two tight numbers
 * is not (below 2^53.6, as is a difference whose first number is such a sum), but is good as a
 * factor and for sw_fe_reduce. What is subtracted is tight, or the sum of two tight numbers.
 */
#pragma once

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "tls/crypto/inverse.h"
#include "tls/crypto/mont256.h"

#define SW_FE_LOW51 (UINT64_MAX >> 13)

struct sw_fe {
    uint64_t v[5]; /* least significant first */
};

/* Moves what is above 51 bits one word up; the top comes back times 19. */
static inline void sw_fe_carry(struct sw_fe *r)
{
    uint64_t c = 0;

    for (int i = 0; i < 5; i++) {
        r->v[i] += c;
        c = r->v[i] >> 51;
        r->v[i] &= SW_FE_LOW51;
    }
    r->v[0] += c * 19;
}

static inline void sw_fe_add(struct sw_fe *r, const struct sw_fe *a, const struct sw_fe *b)
{
    for (int i = 0; i < 5; i++)
        r->v[i] = a->v[i] + b->v[i];
}

static inline void sw_fe_sub(struct sw_fe *r, const struct sw_fe *a, const struct sw_fe *b)
{
    /* 4p keeps every word positive. */
    r->v[0] = a->v[0] + (SW_FE_LOW51 - 18) * 4 - b->v[0];
    for (int i = 1; i < 5; i++)
        r->v[i] = a->v[i] + SW_FE_LOW51 * 4 - b->v[i];
}

/* A product's words, before any carry, to a tight number. */
static inline void sw_fe_settle(struct sw_fe *r, sw_u128 t0, sw_u128 t1, sw_u128 t2, sw_u128 t3,
                                sw_u128 t4)
{
    t1 += (uint64_t)(t0 >> 51);
    t2 += (uint64_t)(t1 >> 51);
    t3 += (uint64_t)(t2 >> 51);
    t4 += (uint64_t)(t3 >> 51);
    r->v[0] = ((uint64_t)t0 & SW_FE_LOW51) + (uint64_t)(t4 >> 51) * 19;
    r->v[1] = ((uint64_t)t1 & SW_FE_LOW51) + (r->v[0] >> 51);
    r->v[0] &= SW_FE_LOW51;
    r->v[2] = (uint64_t)t2 & SW_FE_LOW51;
    r->v[3] = (uint64_t)t3 & SW_FE_LOW51;
    r->v[4] = (uint64_t)t4 & SW_FE_LOW51;
}

static inline void sw_fe_mul(struct sw_fe *r, const struct sw_fe *a, const struct sw_fe *b)
{
    const uint64_t *x = a->v;
    const uint64_t *y = b->v;
    uint64_t y1 = y[1] * 19;
    uint64_t y2 = y[2] * 19;
    uint64_t y3 = y[3] * 19;
    uint64_t y4 = y[4] * 19;
    sw_u128 t0 = (sw_u128)x[0] * y[0] + (sw_u128)x[1] * y4 + (sw_u128)x[2] * y3 +
                 (sw_u128)x[3] * y2 + (sw_u128)x[4] * y1;
    sw_u128 t1 = (sw_u128)x[0] * y[1] + (sw_u128)x[1] * y[0] + (sw_u128)x[2] * y4 +
                 (sw_u128)x[3] * y3 + (sw_u128)x[4] * y2;
    sw_u128 t2 = (sw_u128)x[0] * y[2] + (sw_u128)x[1] * y[1] + (sw_u128)x[2] * y[0] +
                 (sw_u128)x[3] * y4 + (sw_u128)x[4] * y3;
    sw_u128 t3 = (sw_u128)x[0] * y[3] + (sw_u128)x[1] * y[2] + (sw_u128)x[2] * y[1] +
                 (sw_u128)x[3] * y[0] + (sw_u128)x[4] * y4;
    sw_u128 t4 = (sw_u128)x[0] * y[4] + (sw_u128)x[1] * y[3] + (sw_u128)x[2] * y[2] +
                 (sw_u128)x[3] * y[1] + (sw_u128)x[4] * y[0];

    sw_fe_settle(r, t0, t1, t2, t3, t4);
}

static inline void sw_fe_sqr(struct sw_fe *r, const struct sw_fe *a)
{
    const uint64_t *x = a->v;
    uint64_t x0 = x[0] * 2;
    uint64_t x1 = x[1] * 2;
    uint64_t x3 = x[3] * 19;
    uint64_t x4 = x[4] * 19;
    sw_u128 t0 = (sw_u128)x[0] * x[0] + (sw_u128)x1 * x4 + (sw_u128)(x[2] * 2) * x3;
    sw_u128 t1 = (sw_u128)x0 * x[1] + (sw_u128)(x[2] * 2) * x4 + (sw_u128)x[3] * x3;
    sw_u128 t2 = (sw_u128)x0 * x[2] + (sw_u128)x[1] * x[1] + (sw_u128)(x[3] * 2) * x4;
    sw_u128 t3 = (sw_u128)x0 * x[3] + (sw_u128)x1 * x[2] + (sw_u128)x[4] * x4;
    sw_u128 t4 = (sw_u128)x0 * x[4] + (sw_u128)x1 * x[3] + (sw_u128)x[2] * x[2];

    sw_fe_settle(r, t0, t1, t2, t3, t4);
}

/* r = mask ? a : r */
static inline void sw_fe_pick(struct sw_fe *r, const struct sw_fe *a, uint64_t mask)
{
    for (int i = 0; i < 5; i++)
        r->v[i] ^= mask & (r->v[i] ^ a->v[i]);
}

/* The number below p, in words of 64 bits. */
static inline struct sw_n256 sw_fe_reduce(const struct sw_fe *a)
{
    struct sw_fe t = *a;
    uint64_t q;

    sw_fe_carry(&t);
    sw_fe_carry(&t);
    /* 1 when t is p or more, which is when t + 19 reaches 2^255. */
    q = (t.v[0] + 19) >> 51;
    for (int i = 1; i < 5; i++)
        q = (t.v[i] + q) >> 51;
    t.v[0] += 19 * q;
    for (int i = 0; i < 4; i++) {
        t.v[i + 1] += t.v[i] >> 51;
        t.v[i] &= SW_FE_LOW51;
    }
    t.v[4] &= SW_FE_LOW51;
    return (struct sw_n256){{t.v[0] | t.v[1] << 51, t.v[1] >> 13 | t.v[2] << 38,
                             t.v[2] >> 26 | t.v[3] << 25, t.v[3] >> 39 | t.v[4] << 12}};
}

/* From words of 64 bits; bit 255 is ignored. */
static inline struct sw_fe sw_fe_from(const struct sw_n256 *a)
{
    const uint64_t *w = a->w;

    return (struct sw_fe){{w[0] & SW_FE_LOW51, (w[0] >> 51 | w[1] << 13) & SW_FE_LOW51,
                           (w[1] >> 38 | w[2] << 26) & SW_FE_LOW51,
                           (w[2] >> 25 | w[3] << 39) & SW_FE_LOW51, w[3] >> 12 & SW_FE_LOW51}};
}

static inline void sw_fe_invert(struct sw_fe *r, const struct sw_fe *a)
{
    struct sw_n256 t = sw_fe_reduce(a);

    sw_inverse(&t, &t, &sw_inverse_25519);
    *r = sw_fe_from(&t);
}

static inline struct sw_fe sw_fe_read(const uint8_t p[32])
{
    struct sw_n256 t;

    memcpy(t.w, p, sizeof(t.w));
    for (int i = 0; i < 4; i++)
        t.w[i] = le64toh(t.w[i]);
    return sw_fe_from(&t);
}

static inline void sw_fe_write(uint8_t p[32], const struct sw_fe *a)
{
    struct sw_n256 t = sw_fe_reduce(a);

    for (int i = 0; i < 4; i++)
        t.w[i] = htole64(t.w[i]);
    memcpy(p, t.w, sizeof(t.w));
}
