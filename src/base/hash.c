/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <pthread.h>
#include <string.h>

#include "base/rand.h"

static inline uint64_t rotl(uint64_t x, int b)
{
    return (x << b) | (x >> (64 - b));
}

struct sip {
    uint64_t a, b, c, d;
};

static inline void sip_round(struct sip *s)
{
    s->a += s->b;
    s->b = rotl(s->b, 13) ^ s->a;
    s->a = rotl(s->a, 32);
    s->c += s->d;
    s->d = rotl(s->d, 16) ^ s->c;
    s->a += s->d;
    s->d = rotl(s->d, 21) ^ s->a;
    s->c += s->b;
    s->b = rotl(s->b, 17) ^ s->c;
    s->c = rotl(s->c, 32);
}

static inline struct sip sip_new(uint64_t k0, uint64_t k1)
{
    return (struct sip){k0 ^ 0x736f6d6570736575U, k1 ^ 0x646f72616e646f6dU,
                        k0 ^ 0x6c7967656e657261U, k1 ^ 0x7465646279746573U};
}

static inline struct sip sip_input(struct sip s, const unsigned char *in, size_t n)
{
    uint64_t last = (uint64_t)n << 56;
    uint64_t m;
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        memcpy(&m, in + i, 8);
        s.d ^= m;
        sip_round(&s);
        s.a ^= m;
    }
    for (size_t j = 0; i + j < n; j++)
        last |= (uint64_t)in[i + j] << (8 * j);
    s.d ^= last;
    sip_round(&s);
    s.a ^= last;
    return s;
}

static inline uint64_t sip_output(struct sip *s)
{
    sip_round(s);
    sip_round(s);
    sip_round(s);
    return s->a ^ s->b ^ s->c ^ s->d;
}

uint64_t sw_siphash13(uint64_t k0, uint64_t k1, const void *p, size_t n)
{
    struct sip s = sip_input(sip_new(k0, k1), p, n);

    s.c ^= 0xff;
    return sip_output(&s);
}

void sw_siphash13_128(uint64_t k0, uint64_t k1, const void *p, size_t n, uint64_t ret[2])
{
    struct sip s = sip_new(k0, k1);

    s.b ^= 0xee;
    s = sip_input(s, p, n);
    s.c ^= 0xee;
    ret[0] = sip_output(&s);
    s.b ^= 0xdd;
    ret[1] = sip_output(&s);
}

static uint64_t process_key[2];
static pthread_once_t process_key_once = PTHREAD_ONCE_INIT;

static void draw_key(void)
{
    sw_rand_bytes(process_key, sizeof(process_key));
}

uint64_t sw_hash(const void *p, size_t n)
{
    (void)pthread_once(&process_key_once, draw_key);
    return sw_siphash13(process_key[0], process_key[1], p, n);
}
