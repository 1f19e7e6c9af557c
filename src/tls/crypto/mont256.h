/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of 256 bits in four words, and Montgomery arithmetic modulo the two primes of P-256.
 * Every function takes the same steps and touches the same memory whatever the numbers are.
 * Values are below the modulus on entry and on return.
 */
#pragma once

#include <stdint.h>
#include <string.h>

typedef unsigned __int128 sw_u128;

/* The register every x86-64 and arm64 has. */
typedef uint64_t sw_vec __attribute__((vector_size(16), aligned(8), may_alias));

struct sw_n256 {
    uint64_t w[4]; /* least significant first */
};

/* All ones when x is not 0, all zeros otherwise. */
static inline uint64_t sw_ct_mask(uint64_t x)
{
    uint64_t top = (x | (0 - x)) >> 63;

    /* The compiler must not learn that the mask has two values only, or it may branch on it. */
    __asm__("" : "+r"(top));
    return 0 - top;
}

/* All ones when x is 0. */
static inline uint64_t sw_ct_zero(uint64_t x)
{
    return ~sw_ct_mask(x);
}

/* r |= a & mask, for n vectors. */
static inline void sw_vec_gather(sw_vec *r, const sw_vec *a, int n, uint64_t mask)
{
    const sw_vec m = {mask, mask};

    for (int i = 0; i < n; i++)
        r[i] |= a[i] & m;
}

/* *sum = a + b + carry; returns the carry out. */
static inline uint64_t sw_addc(uint64_t a, uint64_t b, uint64_t carry, uint64_t *sum)
{
    sw_u128 t = (sw_u128)a + b + carry;

    *sum = (uint64_t)t;
    return (uint64_t)(t >> 64);
}

/* *diff = a - b - borrow; returns the borrow out. */
static inline uint64_t sw_subb(uint64_t a, uint64_t b, uint64_t borrow, uint64_t *diff)
{
    sw_u128 t = (sw_u128)a - b - borrow;

    *diff = (uint64_t)t;
    return (uint64_t)(t >> 64) & 1;
}

/* *acc = low word of *acc + a * b + carry; returns the high word. */
static inline uint64_t sw_mac(uint64_t *acc, uint64_t a, uint64_t b, uint64_t carry)
{
    sw_u128 t = (sw_u128)a * b + *acc + carry;

    *acc = (uint64_t)t;
    return (uint64_t)(t >> 64);
}

static inline uint64_t sw_n256_add(struct sw_n256 *r, const struct sw_n256 *a,
                                   const struct sw_n256 *b)
{
    uint64_t c = sw_addc(a->w[0], b->w[0], 0, &r->w[0]);

    c = sw_addc(a->w[1], b->w[1], c, &r->w[1]);
    c = sw_addc(a->w[2], b->w[2], c, &r->w[2]);
    return sw_addc(a->w[3], b->w[3], c, &r->w[3]);
}

static inline uint64_t sw_n256_sub(struct sw_n256 *r, const struct sw_n256 *a,
                                   const struct sw_n256 *b)
{
    uint64_t c = sw_subb(a->w[0], b->w[0], 0, &r->w[0]);

    c = sw_subb(a->w[1], b->w[1], c, &r->w[1]);
    c = sw_subb(a->w[2], b->w[2], c, &r->w[2]);
    return sw_subb(a->w[3], b->w[3], c, &r->w[3]);
}

/* r = mask ? a : r; mask is all ones or all zeros. */
static inline void sw_n256_pick(struct sw_n256 *r, const struct sw_n256 *a, uint64_t mask)
{
    for (int i = 0; i < 4; i++)
        r->w[i] ^= mask & (r->w[i] ^ a->w[i]);
}

static inline uint64_t sw_n256_zero(const struct sw_n256 *a)
{
    return sw_ct_zero(a->w[0] | a->w[1] | a->w[2] | a->w[3]);
}

/* r = top * 2^256 + t, less m if that is not below it; the number is below 2 * m. */
static inline void sw_n256_reduce_once(struct sw_n256 *r, const struct sw_n256 *t, uint64_t top,
                                       const struct sw_n256 *m)
{
    struct sw_n256 less;
    uint64_t borrow = sw_n256_sub(&less, t, m);
    uint64_t keep = 0 - (borrow & (top ^ 1));

    __asm__("" : "+r"(keep));
    *r = less;
    sw_n256_pick(r, t, keep);
}

static inline void sw_mod_add(struct sw_n256 *r, const struct sw_n256 *a, const struct sw_n256 *b,
                              const struct sw_n256 *m)
{
    struct sw_n256 t;
    uint64_t top = sw_n256_add(&t, a, b);

    sw_n256_reduce_once(r, &t, top, m);
}

static inline void sw_mod_sub(struct sw_n256 *r, const struct sw_n256 *a, const struct sw_n256 *b,
                              const struct sw_n256 *m)
{
    struct sw_n256 t;
    uint64_t borrow = 0 - sw_n256_sub(&t, a, b);
    struct sw_n256 back;

    __asm__("" : "+r"(borrow));
    for (int i = 0; i < 4; i++)
        back.w[i] = m->w[i] & borrow;
    (void)sw_n256_add(r, &t, &back);
}

/* --- modulo the order n of the group --- */

static const struct sw_n256 sw_p256_n = {
    {UINT64_C(0xf3b9cac2fc632551), UINT64_C(0xbce6faada7179e84), UINT64_C(0xffffffffffffffff),
     UINT64_C(0xffffffff00000000)}};
#define SW_P256_N_INV UINT64_C(0xccd1c8aaee00bc4f) /* -1 / n modulo 2^64 */

/* r = a * b / 2^256 modulo n */
static inline void sw_order_mul(struct sw_n256 *r, const struct sw_n256 *a, const struct sw_n256 *b)
{
    uint64_t t[6] = {0};

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        uint64_t c = 0;
        uint64_t f;

#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            c = sw_mac(&t[j], a->w[i], b->w[j], c);
        t[5] = sw_addc(t[4], c, 0, &t[4]);
        f = t[0] * SW_P256_N_INV;
        c = sw_mac(&t[0], f, sw_p256_n.w[0], 0);
#pragma GCC unroll 4
        for (int j = 1; j < 4; j++) {
            c = sw_mac(&t[j], f, sw_p256_n.w[j], c);
            t[j - 1] = t[j];
        }
        c = sw_addc(t[4], c, 0, &t[3]);
        t[4] = t[5] + c;
    }
    sw_n256_reduce_once(r, (const struct sw_n256 *)t, t[4], &sw_p256_n);
}
