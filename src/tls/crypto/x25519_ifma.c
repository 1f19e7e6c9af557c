/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Montgomery's ladder with AVX-512 IFMA (256-bit registers): the four coordinates of a step lie in
 * the four lanes, so its multiplications happen four at a time. A number is five vectors of words
 * of 51 bits; products take factors below 2^52 and come as low 52 bits and the rest.
 */
#include "tls/crypto/fe25519.h"
#include "tls/crypto/x25519.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define IFMA static inline __attribute__((always_inline, target("avx512f,avx512vl,avx512ifma")))

struct fe4 {
    __m256i v[5];
};

/* Moves what is above 51 bits one word up, in all words at once: they end below 2^51 + 2^15. */
IFMA void fe4_carry(struct fe4 *r)
{
    const __m256i low = _mm256_set1_epi64x((long long)SW_FE_LOW51);
    __m256i c[5];

#pragma GCC unroll 5
    for (int i = 0; i < 5; i++) {
        c[i] = _mm256_srli_epi64(r->v[i], 51);
        r->v[i] = _mm256_and_si256(r->v[i], low);
    }
#pragma GCC unroll 5
    for (int i = 1; i < 5; i++)
        r->v[i] = _mm256_add_epi64(r->v[i], c[i - 1]);
    r->v[0] = _mm256_madd52lo_epu64(r->v[0], c[4], _mm256_set1_epi64x(19));
}

/* r = a * b */
IFMA void fe4_mul(struct fe4 *r, const struct fe4 *a, const struct fe4 *b)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i lo[10];
    __m256i hi[10];

#pragma GCC unroll 10
    for (int i = 0; i < 10; i++)
        lo[i] = hi[i] = zero;
#pragma GCC unroll 5
    for (int i = 0; i < 5; i++) {
#pragma GCC unroll 5
        for (int j = 0; j < 5; j++) {
            lo[i + j] = _mm256_madd52lo_epu64(lo[i + j], a->v[i], b->v[j]);
            hi[i + j + 1] = _mm256_madd52hi_epu64(hi[i + j + 1], a->v[i], b->v[j]);
        }
    }
    /* The rest of a product counts 2^52, which is twice the next word's unit. */
#pragma GCC unroll 10
    for (int i = 0; i < 10; i++)
        lo[i] = _mm256_add_epi64(lo[i], _mm256_add_epi64(hi[i], hi[i]));
#pragma GCC unroll 5
    for (int i = 0; i < 5; i++) {
        __m256i t = lo[i + 5];

        t = _mm256_add_epi64(t, _mm256_add_epi64(_mm256_slli_epi64(t, 4), _mm256_slli_epi64(t, 1)));
        r->v[i] = _mm256_add_epi64(lo[i], t);
    }
    fe4_carry(r);
}

/* Lanes 0 to 3: (x2, z2, x3, z3), for the scalar's bit the first pair exchanged with the second. */
IFMA void fe4_swap(struct fe4 *r, uint64_t bit)
{
    const __m256i lanes = _mm256_set_epi64x(3, 2, 1, 0);
    const __m256i index = _mm256_xor_si256(lanes, _mm256_set1_epi64x((long long)(bit << 1)));

#pragma GCC unroll 5
    for (int i = 0; i < 5; i++)
        r->v[i] = _mm256_permutexvar_epi64(index, r->v[i]);
}

/* 4p, which keeps the words of a difference positive. */
IFMA __m256i four_p(int i)
{
    return _mm256_set1_epi64x((long long)((SW_FE_LOW51 - (i ? 0 : 18)) * 4));
}

/* (a0 + a1, a0 - a1, a2 + a3, a2 - a3) */
IFMA void fe4_sum_diff(struct fe4 *r, const struct fe4 *a)
{
#pragma GCC unroll 5
    for (int i = 0; i < 5; i++) {
        __m256i p = _mm256_permute4x64_epi64(a->v[i], 0xa0);
        __m256i q = _mm256_permute4x64_epi64(a->v[i], 0xf5);
        __m256i neg = _mm256_sub_epi64(four_p(i), q);

        r->v[i] = _mm256_add_epi64(p, _mm256_blend_epi32(q, neg, 0xcc));
    }
    fe4_carry(r);
}

/* m = (aa, bb, da, cb): *l = (aa, e, da + cb, da - cb), *r = (bb, bb + 121666 e, and the same). */
IFMA void fe4_cross(struct fe4 *l, struct fe4 *r, const struct fe4 *m)
{
    const __m256i zero = _mm256_setzero_si256();
    const __m256i a24 = _mm256_set1_epi64x(121666);
    struct fe4 s;
    struct fe4 t;
    __m256i hi[5];

    /* s = (aa + bb, aa - bb, da + cb, da - cb) */
    fe4_sum_diff(&s, m);
#pragma GCC unroll 5
    for (int i = 0; i < 5; i++) {
        __m256i bb = _mm256_permute4x64_epi64(m->v[i], 0x55);

        l->v[i] = _mm256_blend_epi32(s.v[i], m->v[i], 0x03);
        t.v[i] = _mm256_madd52lo_epu64(bb, s.v[i], a24);
        hi[i] = _mm256_madd52hi_epu64(zero, s.v[i], a24);
        hi[i] = _mm256_add_epi64(hi[i], hi[i]);
        r->v[i] = bb;
    }
#pragma GCC unroll 5
    for (int i = 1; i < 5; i++)
        t.v[i] = _mm256_add_epi64(t.v[i], hi[i - 1]);
    t.v[0] = _mm256_madd52lo_epu64(t.v[0], hi[4], _mm256_set1_epi64x(19));
    fe4_carry(&t);
#pragma GCC unroll 5
    for (int i = 0; i < 5; i++) {
        r->v[i] = _mm256_blend_epi32(r->v[i], t.v[i], 0x0c);
        r->v[i] = _mm256_blend_epi32(r->v[i], s.v[i], 0xf0);
    }
}

IFMA void step(struct fe4 *s, const struct fe4 *u)
{
    struct fe4 a;
    struct fe4 b;
    struct fe4 c;

    fe4_sum_diff(&a, s); /* a, b, c, d */
#pragma GCC unroll 5
    for (int i = 0; i < 5; i++) {
        b.v[i] = _mm256_permute4x64_epi64(a.v[i], 0xb4); /* a, b, d, c */
        c.v[i] = _mm256_permute4x64_epi64(a.v[i], 0x44); /* a, b, a, b */
    }
    fe4_mul(&a, &b, &c);
    fe4_cross(&b, &c, &a);
    fe4_mul(&a, &b, &c);
    fe4_mul(s, &a, u); /* by 1, 1, 1 and u */
}

__attribute__((target("avx512f,avx512vl,avx512ifma"))) void
sw_x25519_ifma(const uint8_t n[32], const struct sw_fe *u, struct sw_fe *x, struct sw_fe *z)
{
    uint64_t lane[4];
    struct fe4 s;
    struct fe4 f;
    uint64_t last = 0;

    for (int i = 0; i < 5; i++) {
        long long word = (long long)u->v[i];
        long long first = i == 0;

        s.v[i] = _mm256_set_epi64x(first, word, 0, first);
        f.v[i] = _mm256_set_epi64x(word, first, first, first);
    }
    for (int i = 254; i >= 0; i--) {
        uint64_t bit = (uint64_t)(n[i / 8] >> (i % 8)) & 1;

        fe4_swap(&s, bit ^ last);
        last = bit;
        step(&s, &f);
    }
    fe4_swap(&s, last);
    for (int i = 0; i < 5; i++) {
        _mm256_storeu_si256((__m256i *)(void *)lane, s.v[i]);
        x->v[i] = lane[0];
        z->v[i] = lane[1];
    }
    explicit_bzero(lane, sizeof(lane));
    explicit_bzero(&s, sizeof(s));
}

bool sw_x25519_ifma_ok(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512ifma");
}

#else

bool sw_x25519_ifma_ok(void)
{
    return false;
}

void sw_x25519_ifma(const uint8_t n[32], const struct sw_fe *u, struct sw_fe *x, struct sw_fe *z)
{
    *x = *u;
    *z = (struct sw_fe){{1, 0, 0, 0, 0}};
}

#endif
