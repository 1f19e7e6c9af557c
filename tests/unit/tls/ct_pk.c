/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets as memory that valgrind takes for uninitialised: it reports every branch and every
 * address that depends on them. Run under valgrind only, with --error-exitcode; without a report
 * the arithmetic takes the same steps whatever the secret is. (valgrind knows no AVX-512: the IFMA
 * ladder is not seen here.)
 */
#include <stdio.h>
#include <string.h>

#include <valgrind/memcheck.h>

#include "base/rand.h"
#include "tls/crypto/p256.h"
#include "tls/crypto/x25519.h"

static void hide(void *p, size_t n)
{
    VALGRIND_MAKE_MEM_UNDEFINED(p, n);
}

static void show(void *p, size_t n)
{
    VALGRIND_MAKE_MEM_DEFINED(p, n);
}

static struct sw_n256 secret(void)
{
    struct sw_n256 k;
    bool ok;

    do {
        sw_rand_bytes(k.w, sizeof(k.w));
        hide(&k, sizeof(k));
        ok = sw_p256_scalar_ok(&k);
        show(&ok, sizeof(ok)); /* that a candidate was refused may be known */
    } while (!ok);
    return k;
}

static void try_p256(void)
{
    struct sw_n256 key = secret();
    struct sw_n256 k = secret();
    struct sw_p256_point p;
    struct sw_n256 r;
    struct sw_n256 s;
    uint8_t digest[32] = {1, 2, 3};
    bool ok;

    sw_p256_base(&key, &p);
    show(&p, sizeof(p));
    sw_p256_mul(&k, &p, &p);
    show(&p, sizeof(p));
    ok = sw_p256_sign(&key, &k, digest, sizeof(digest), &r, &s);
    show(&ok, sizeof(ok));
    show(&r, sizeof(r));
    show(&s, sizeof(s));
    if (!ok)
        puts("r or s is 0");
}

static void try_x25519(void)
{
    uint8_t n[32];
    uint8_t q[32];

    sw_rand_bytes(n, sizeof(n));
    hide(n, sizeof(n));
    sw_x25519_base(q, n);
    show(q, sizeof(q));
    sw_x25519(q, n, q);
}

int main(int argc, char **argv)
{
    if (!RUNNING_ON_VALGRIND)
        return 77; /* skipped */
    for (int i = 0; i < 3; i++) {
        try_p256();
        try_x25519();
    }
    sw_p256_portable(true);
    try_p256();
    if (argc > 1 && strcmp(argv[1], "leak") == 0) {
        struct sw_n256 k = secret();

        if (k.w[0] & 1) /* what the check must find */
            puts("odd");
    }
    return 0;
}
