/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rand.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/hex.h"

void sw_rand_bytes(void *p, size_t n)
{
    char *at = p;

    while (n) {
        ssize_t k = getrandom(at, n, 0);

        if (k < 0) {
            if (errno == EINTR)
                continue;
            abort(); /* no entropy source: nothing safe can be done */
        }
        at += k;
        n -= (size_t)k;
    }
}

char *sw_uuid(char out[SW_UUID_LEN])
{
    static const uint8_t groups[] = {4, 2, 2, 2, 6};
    uint8_t b[16];
    const uint8_t *from = b;
    char *at = out;

    sw_rand_bytes(b, sizeof(b));
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof(groups); i++) {
        at = sw_hex_write(at, from, groups[i]);
        *at++ = '-';
        from += groups[i];
    }
    at[-1] = '\0';
    return out;
}

/* splitmix64 seeded once per thread. */
uint64_t sw_rand_u64(void)
{
    static _Thread_local uint64_t state;
    uint64_t z;

    if (state == 0)
        sw_rand_bytes(&state, sizeof(state));
    state += 0x9e3779b97f4a7c15U;
    z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

uint64_t sw_rand_below(uint64_t bound)
{
    assert(bound > 0);
    return (uint64_t)(((unsigned __int128)sw_rand_u64() * bound) >> 64);
}
