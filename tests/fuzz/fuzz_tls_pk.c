/* SPDX-License-Identifier: Apache-2.0 */
/*
 * P-256 and X25519 beside libhogweed's: the same products, the same verdicts on signatures, for any
 * bytes a peer can send. With the fast arithmetic and with the portable one.
 */
#include <assert.h>
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include <nettle/curve25519.h>
#include <nettle/dsa.h>
#include <nettle/ecc-curve.h>
#include <nettle/ecc.h>
#include <nettle/ecdsa.h>

#include "tls/crypto/p256.h"
#include "tls/crypto/x25519.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { PART = 32, PARTS = 4 };

static void find(const char *name, void *ret)
{
    void *p = dlsym(RTLD_NEXT, name);

    assert(p);
    memcpy(ret, &p, sizeof(p));
}

static void x25519(const uint8_t *n, const uint8_t *p)
{
    static void (*mul)(uint8_t *, const uint8_t *, const uint8_t *);
    static void (*mul_g)(uint8_t *, const uint8_t *);
    uint8_t want[PART];
    uint8_t got[PART];

    if (!mul) {
        find("nettle_curve25519_mul", &mul);
        find("nettle_curve25519_mul_g", &mul_g);
    }
    mul(want, n, p);
    sw_x25519(got, n, p);
    assert(memcmp(want, got, PART) == 0);
    mul_g(want, n);
    sw_x25519_base(got, n);
    assert(memcmp(want, got, PART) == 0);
}

/* A point the library accepts: given, or else the multiple of G that x names. */
static bool point(struct ecc_point *p, struct ecc_scalar *k, const uint8_t *x, const uint8_t *y)
{
    struct sw_p256_point raw;
    bool ok;
    mpz_t nx;
    mpz_t ny;

    mpz_inits(nx, ny, NULL);
    mpz_import(nx, PART, 1, 1, 0, 0, x);
    mpz_import(ny, PART, 1, 1, 0, 0, y);
    memset(&raw, 0, sizeof(raw));
    mpz_export(&raw.x, NULL, -1, 8, 0, 0, nx);
    mpz_export(&raw.y, NULL, -1, 8, 0, 0, ny);
    ok = ecc_point_set(p, nx, ny);
    assert(ok == sw_p256_point_ok(&raw));
    if (!ok && ecc_scalar_set(k, nx)) {
        ecc_point_mul_g(p, k);
        ok = true;
    }
    mpz_clears(nx, ny, NULL);
    return ok;
}

/*
 * hash / s * G = r / s * p: libhogweed 3.8 adds such points with a formula that does not hold for
 * them and refuses a good signature.
 */
static bool equal_summands(const struct ecc_point *p, const uint8_t *hash,
                           const struct dsa_signature *sig)
{
    struct ecc_scalar k;
    struct ecc_point a;
    struct ecc_point b;
    bool same = false;
    mpz_t order;
    mpz_t u1;
    mpz_t u2;

    mpz_inits(order, u1, u2, NULL);
    ecc_scalar_init(&k, nettle_get_secp_256r1());
    ecc_point_init(&a, nettle_get_secp_256r1());
    ecc_point_init(&b, nettle_get_secp_256r1());
    mpz_import(order, 4, -1, 8, 0, 0, sw_p256_n.w);
    mpz_import(u1, PART, 1, 1, 0, 0, hash);
    assert(mpz_invert(u2, sig->s, order));
    mpz_mul(u1, u1, u2);
    mpz_mod(u1, u1, order);
    mpz_mul(u2, u2, sig->r);
    mpz_mod(u2, u2, order);
    if (ecc_scalar_set(&k, u1)) {
        ecc_point_mul_g(&a, &k);
        assert(ecc_scalar_set(&k, u2));
        ecc_point_mul(&b, &k, p);
        same = memcmp(a.p, b.p, 2 * PART) == 0;
    }
    ecc_point_clear(&b);
    ecc_point_clear(&a);
    ecc_scalar_clear(&k);
    mpz_clears(order, u1, u2, NULL);
    return same;
}

static void p256(const uint8_t *data)
{
    static int (*verify)(const struct ecc_point *, size_t, const uint8_t *,
                         const struct dsa_signature *);
    static void (*mul)(struct ecc_point *, const struct ecc_scalar *, const struct ecc_point *);
    struct dsa_signature sig;
    struct ecc_scalar k;
    struct ecc_point p;
    struct ecc_point want;
    struct ecc_point got;

    if (!verify) {
        find("nettle_ecdsa_verify", &verify);
        find("nettle_ecc_point_mul", &mul);
    }
    ecc_scalar_init(&k, nettle_get_secp_256r1());
    ecc_point_init(&p, nettle_get_secp_256r1());
    ecc_point_init(&want, nettle_get_secp_256r1());
    ecc_point_init(&got, nettle_get_secp_256r1());
    dsa_signature_init(&sig);
    mpz_import(sig.r, PART, 1, 1, 0, 0, data + 2 * PART);
    mpz_import(sig.s, PART, 1, 1, 0, 0, data + 3 * PART);
    if (point(&p, &k, data, data + PART)) {
        bool theirs = verify(&p, PART, data + PART, &sig);
        bool ours = nettle_ecdsa_verify(&p, PART, data + PART, &sig);

        assert(theirs == ours || (ours && equal_summands(&p, data + PART, &sig)));
        if (ecc_scalar_set(&k, sig.r)) {
            mul(&want, &k, &p);
            nettle_ecc_point_mul(&got, &k, &p);
            assert(memcmp(want.p, got.p, 2 * PART) == 0);
        }
    }
    dsa_signature_clear(&sig);
    ecc_point_clear(&got);
    ecc_point_clear(&want);
    ecc_point_clear(&p);
    ecc_scalar_clear(&k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t in[PART * PARTS] = {0};

    if (n == 0 || n > 1 + sizeof(in))
        return 0;
    memcpy(in, data + 1, n - 1);
    sw_p256_portable(data[0] & 2);
    sw_x25519_portable(data[0] & 2);
    if (data[0] & 1)
        x25519(in, in + PART);
    else
        p256(in);
    return 0;
}
