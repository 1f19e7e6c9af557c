/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The field of P-256, modulo p = 2^256 - 2^224 + 2^192 + 2^96 - 1, in Montgomery form. Multiplying
 * is most of what a handshake computes, so on x86-64 it is written for MULX and ADX, which give a
 * row of products two independent carry chains; compilers do not arrange that. Only p256.c includes
 * this.
 */
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdbool.h>

#include "tls/crypto/mont256.h"

static const struct sw_n256 sw_p256_p = {
    {UINT64_C(0xffffffffffffffff), UINT64_C(0x00000000ffffffff), 0, UINT64_C(0xffffffff00000001)}};

/*
 * One word of Montgomery reduction: t += t[0] * p, which clears t[0], for -1 / p is 1 modulo 2^64.
 * The three lower words of p together contribute t[0] * 2^96. Returns the word above t[3].
 */
static inline void sw_field_fold(uint64_t t[5], uint64_t *top)
{
    uint64_t f = t[0];
    uint64_t c = sw_addc(t[1], f << 32, 0, &t[0]);
    sw_u128 m = (sw_u128)f * sw_p256_p.w[3];

    c = sw_addc(t[2], f >> 32, c, &t[1]);
    c = sw_addc(t[3], (uint64_t)m, c, &t[2]);
    c = sw_addc(t[4], (uint64_t)(m >> 64), c, &t[3]);
    t[4] = *top + c;
    *top = 0;
}

/* r = a * b / 2^256 modulo p */
static inline void sw_field_mul_c(struct sw_n256 *r, const struct sw_n256 *a,
                                  const struct sw_n256 *b)
{
    uint64_t t[5] = {0};
    uint64_t top = 0;

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        uint64_t c = 0;

#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            c = sw_mac(&t[j], a->w[i], b->w[j], c);
        top = sw_addc(t[4], c, 0, &t[4]);
        sw_field_fold(t, &top);
    }
    sw_n256_reduce_once(r, (const struct sw_n256 *)t, t[4], &sw_p256_p);
}

#if defined(__x86_64__)

/* t0..t4 += a[i] * b, t5 = the carry: low words by one carry chain, high words by the other. */
#define SW_ROW(i, t0, t1, t2, t3, t4, t5)                                                          \
    "movq " #i "*8(%[a]), %%rdx\n\t"                                                               \
    "xorl %k[" #t5 "], %k[" #t5 "]\n\t"                                                            \
    "mulxq 0(%[b]), %[lo], %[hi]\n\t"                                                              \
    "adcxq %[lo], %[" #t0 "]\n\t"                                                                  \
    "adoxq %[hi], %[" #t1 "]\n\t"                                                                  \
    "mulxq 8(%[b]), %[lo], %[hi]\n\t"                                                              \
    "adcxq %[lo], %[" #t1 "]\n\t"                                                                  \
    "adoxq %[hi], %[" #t2 "]\n\t"                                                                  \
    "mulxq 16(%[b]), %[lo], %[hi]\n\t"                                                             \
    "adcxq %[lo], %[" #t2 "]\n\t"                                                                  \
    "adoxq %[hi], %[" #t3 "]\n\t"                                                                  \
    "mulxq 24(%[b]), %[lo], %[hi]\n\t"                                                             \
    "adcxq %[lo], %[" #t3 "]\n\t"                                                                  \
    "adoxq %[hi], %[" #t4 "]\n\t"                                                                  \
    "adcxq %[" #t5 "], %[" #t4 "]\n\t"                                                             \
    "adoxq %[" #t5 "], %[" #t5 "]\n\t"                                                             \
    "adcq $0, %[" #t5 "]\n\t"

/* As sw_field_fold: t1..t5 += t0 * 2^96 + t0 * p[3] * 2^192, in units of t0's word. */
#define SW_FOLD(t0, t1, t2, t3, t4, t5)                                                            \
    "movq %[" #t0 "], %%rdx\n\t"                                                                   \
    "mulxq %[p3], %[lo], %[hi]\n\t"                                                                \
    "shlq $32, %%rdx\n\t"                                                                          \
    "shrq $32, %[" #t0 "]\n\t"                                                                     \
    "addq %%rdx, %[" #t1 "]\n\t"                                                                   \
    "adcq %[" #t0 "], %[" #t2 "]\n\t"                                                              \
    "adcq %[lo], %[" #t3 "]\n\t"                                                                   \
    "adcq %[hi], %[" #t4 "]\n\t"                                                                   \
    "adcq $0, %[" #t5 "]\n\t"

/* As sw_field_mul_c. The CPU has BMI2 and ADX. */
static inline void sw_field_mul_adx(struct sw_n256 *r, const struct sw_n256 *a,
                                    const struct sw_n256 *b)
{
    uint64_t t0 = 0;
    uint64_t t1 = 0;
    uint64_t t2 = 0;
    uint64_t t3 = 0;
    uint64_t t4 = 0;
    uint64_t t5;
    uint64_t lo;
    uint64_t hi;

    __asm__(SW_ROW(0, t0, t1, t2, t3, t4, t5) SW_FOLD(t0, t1, t2, t3, t4, t5)
                SW_ROW(1, t1, t2, t3, t4, t5, t0) SW_FOLD(t1, t2, t3, t4, t5, t0)
                    SW_ROW(2, t2, t3, t4, t5, t0, t1) SW_FOLD(t2, t3, t4, t5, t0, t1)
                        SW_ROW(3, t3, t4, t5, t0, t1, t2) SW_FOLD(t3, t4, t5, t0, t1, t2)
            /* The number is t2:t1:t0:t5:t4 now: less p, unless that borrows. */
            "movq %[t4], %[lo]\n\t"
            "movq %[t5], %[hi]\n\t"
            "movq %[t0], %[t3]\n\t"
            "movq %[t1], %%rdx\n\t"
            "subq $-1, %[t4]\n\t"
            "sbbq %[p1], %[t5]\n\t"
            "sbbq $0, %[t0]\n\t"
            "sbbq %[p3], %[t1]\n\t"
            "sbbq $0, %[t2]\n\t"
            "cmovcq %[lo], %[t4]\n\t"
            "cmovcq %[hi], %[t5]\n\t"
            "cmovcq %[t3], %[t0]\n\t"
            "cmovcq %%rdx, %[t1]\n\t"
            : [t0] "+&r"(t0), [t1] "+&r"(t1), [t2] "+&r"(t2), [t3] "+&r"(t3), [t4] "+&r"(t4),
              [t5] "=&r"(t5), [lo] "=&r"(lo), [hi] "=&r"(hi)
            : [a] "r"(a), [b] "r"(b), [p1] "m"(sw_p256_p.w[1]), [p3] "r"(sw_p256_p.w[3]), "m"(*a),
              "m"(*b)
            : "rdx", "cc");
    *r = (struct sw_n256){{t4, t5, t0, t1}};
}

/* Carry flags and conditional moves: half the time of what gcc makes of the portable form. */
static inline void sw_field_add(struct sw_n256 *r, const struct sw_n256 *a, const struct sw_n256 *b)
{
    uint64_t t0 = a->w[0];
    uint64_t t1 = a->w[1];
    uint64_t t2 = a->w[2];
    uint64_t t3 = a->w[3];
    uint64_t s0;
    uint64_t s1;
    uint64_t s2;
    uint64_t s3;
    uint64_t top;

    __asm__("xorl %k[top], %k[top]\n\t"
            "addq 0(%[b]), %[t0]\n\t"
            "adcq 8(%[b]), %[t1]\n\t"
            "adcq 16(%[b]), %[t2]\n\t"
            "adcq 24(%[b]), %[t3]\n\t"
            "adcq $0, %[top]\n\t"
            "movq %[t0], %[s0]\n\t"
            "movq %[t1], %[s1]\n\t"
            "movq %[t2], %[s2]\n\t"
            "movq %[t3], %[s3]\n\t"
            "subq $-1, %[t0]\n\t"
            "sbbq %[p1], %[t1]\n\t"
            "sbbq $0, %[t2]\n\t"
            "sbbq %[p3], %[t3]\n\t"
            "sbbq $0, %[top]\n\t"
            "cmovcq %[s0], %[t0]\n\t"
            "cmovcq %[s1], %[t1]\n\t"
            "cmovcq %[s2], %[t2]\n\t"
            "cmovcq %[s3], %[t3]\n\t"
            : [t0] "+&r"(t0), [t1] "+&r"(t1), [t2] "+&r"(t2), [t3] "+&r"(t3), [s0] "=&r"(s0),
              [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [top] "=&r"(top)
            : [b] "r"(b), [p1] "m"(sw_p256_p.w[1]), [p3] "m"(sw_p256_p.w[3]), "m"(*b)
            : "cc");
    *r = (struct sw_n256){{t0, t1, t2, t3}};
}

static inline void sw_field_sub(struct sw_n256 *r, const struct sw_n256 *a, const struct sw_n256 *b)
{
    uint64_t t0 = a->w[0];
    uint64_t t1 = a->w[1];
    uint64_t t2 = a->w[2];
    uint64_t t3 = a->w[3];
    uint64_t mask;
    uint64_t low;
    uint64_t high;

    __asm__("subq 0(%[b]), %[t0]\n\t"
            "sbbq 8(%[b]), %[t1]\n\t"
            "sbbq 16(%[b]), %[t2]\n\t"
            "sbbq 24(%[b]), %[t3]\n\t"
            "sbbq %[mask], %[mask]\n\t"
            "movl %k[mask], %k[low]\n\t" /* p[1] is the low half of a mask */
            "movq %[p3], %[high]\n\t"
            "andq %[mask], %[high]\n\t"
            "addq %[mask], %[t0]\n\t"
            "adcq %[low], %[t1]\n\t"
            "adcq $0, %[t2]\n\t"
            "adcq %[high], %[t3]\n\t"
            : [t0] "+&r"(t0), [t1] "+&r"(t1), [t2] "+&r"(t2), [t3] "+&r"(t3), [mask] "=&r"(mask),
              [low] "=&r"(low), [high] "=&r"(high)
            : [b] "r"(b), [p3] "m"(sw_p256_p.w[3]), "m"(*b)
            : "cc");
    *r = (struct sw_n256){{t0, t1, t2, t3}};
}

static inline bool sw_field_adx_ok(void)
{
    /* GCC 12 has no name for ADX in __builtin_cpu_supports. */
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_BMI2) && (b & bit_ADX);
}

#else

static inline void sw_field_add(struct sw_n256 *r, const struct sw_n256 *a, const struct sw_n256 *b)
{
    sw_mod_add(r, a, b, &sw_p256_p);
}

static inline void sw_field_sub(struct sw_n256 *r, const struct sw_n256 *a, const struct sw_n256 *b)
{
    sw_mod_sub(r, a, b, &sw_p256_p);
}

static inline void sw_field_mul_adx(struct sw_n256 *r, const struct sw_n256 *a,
                                    const struct sw_n256 *b)
{
    sw_field_mul_c(r, a, b);
}

static inline bool sw_field_adx_ok(void)
{
    return false;
}

#endif
