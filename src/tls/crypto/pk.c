/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libhogweed that GnuTLS calls for P-256 and X25519, under their own names
 * (decision 11). An executable's symbols come before those of libraries, as with malloc
 * replacements; where that does not happen, the library's functions serve as they did.
 *
 * Each does exactly what nettle documents for it, so callers cannot tell the difference.
 */
#include "tls/crypto/pk.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gmp.h>
#include <nettle/curve25519.h>
#include <nettle/dsa.h>
#include <nettle/ecc-curve.h>
#include <nettle/ecc.h>
#include <nettle/ecdsa.h>

#include "tls/crypto/p256.h"
#include "tls/crypto/x25519.h"

#define EXPORTED __attribute__((visibility("default")))

_Static_assert(sizeof(mp_limb_t) == 8 && GMP_NAIL_BITS == 0, "limbs of 64 bits");

static struct {
    void (*sign)(const struct ecc_scalar *, void *, nettle_random_func *, size_t, const uint8_t *,
                 struct dsa_signature *);
    int (*verify)(const struct ecc_point *, size_t, const uint8_t *, const struct dsa_signature *);
    void (*keypair)(struct ecc_point *, struct ecc_scalar *, void *, nettle_random_func *);
    void (*mul)(struct ecc_point *, const struct ecc_scalar *, const struct ecc_point *);
    void (*mul_g)(struct ecc_point *, const struct ecc_scalar *);
    void (*x_mul)(uint8_t *, const uint8_t *, const uint8_t *);
    void (*x_mul_g)(uint8_t *, const uint8_t *);
    bool off; /* pass everything on */
} lib;
static pthread_once_t lib_once = PTHREAD_ONCE_INIT;

/* The library's function of this name: the next one after ours. */
static void find(const char *name, void *ret)
{
    void *p = dlsym(RTLD_NEXT, name);

    if (!p) { /* GnuTLS could not have been loaded */
        (void)fprintf(stderr, "spanwire: libhogweed has no %s\n", name);
        abort();
    }
    memcpy(ret, &p, sizeof(p));
}

static void load(void)
{
    const char *choice = getenv("SPANWIRE_PK"); /* NOLINT(concurrency-mt-unsafe): never set here */

    find("nettle_ecdsa_sign", &lib.sign);
    find("nettle_ecdsa_verify", &lib.verify);
    find("nettle_ecdsa_generate_keypair", &lib.keypair);
    find("nettle_ecc_point_mul", &lib.mul);
    find("nettle_ecc_point_mul_g", &lib.mul_g);
    find("nettle_curve25519_mul", &lib.x_mul);
    find("nettle_curve25519_mul_g", &lib.x_mul_g);
    lib.off = choice && strcmp(choice, "nettle") == 0;
}

static bool ours(void)
{
    (void)pthread_once(&lib_once, load);
    return !lib.off;
}

static bool ours_p256(const struct ecc_curve *c)
{
    return ours() && c == nettle_get_secp_256r1();
}

const char *sw_pk_name(void)
{
    static const char *const names[] = {"own", "own-adx", "own-ifma", "own-ifma-adx"};

    if (!ours() || dlsym(RTLD_DEFAULT, "nettle_curve25519_mul") != (void *)nettle_curve25519_mul)
        return "nettle";
    return names[(sw_p256_adx_ok() ? 1 : 0) | (sw_x25519_ifma_ok() ? 2 : 0)];
}

/* --- between nettle's types and ours --- */

static struct sw_n256 scalar_get(const struct ecc_scalar *s)
{
    struct sw_n256 r;

    memcpy(r.w, s->p, sizeof(r.w));
    return r;
}

static struct sw_p256_point point_get(const struct ecc_point *p)
{
    struct sw_p256_point r;

    memcpy(r.x.w, p->p, sizeof(r.x.w));
    memcpy(r.y.w, p->p + 4, sizeof(r.y.w));
    return r;
}

static void point_set(struct ecc_point *p, const struct sw_p256_point *from)
{
    memcpy(p->p, from->x.w, sizeof(from->x.w));
    memcpy(p->p + 4, from->y.w, sizeof(from->y.w));
}

/* False when v is negative or has more than 256 bits. */
static bool number_get(const mpz_t v, struct sw_n256 *ret)
{
    if (mpz_sgn(v) < 0 || mpz_size(v) > 4)
        return false;
    for (unsigned i = 0; i < 4; i++)
        ret->w[i] = mpz_getlimbn(v, i);
    return true;
}

static void number_set(mpz_t v, const struct sw_n256 *from)
{
    mpz_import(v, 4, -1, 8, 0, 0, from->w);
}

/* Uniform from 1 to n - 1: what is outside is thrown away, never folded back. */
static void random_scalar(struct sw_n256 *ret, void *ctx, nettle_random_func *random)
{
    uint8_t b[32];

    do {
        random(ctx, sizeof(b), b);
        for (int i = 0; i < 4; i++) {
            uint64_t w;

            memcpy(&w, b + 24 - 8 * i, sizeof(w));
            ret->w[i] = be64toh(w);
        }
    } while (!sw_p256_scalar_ok(ret));
    explicit_bzero(b, sizeof(b));
}

/* --- P-256 --- */

EXPORTED void nettle_ecdsa_sign(const struct ecc_scalar *key, void *random_ctx,
                                nettle_random_func *random, size_t digest_length,
                                const uint8_t *digest, struct dsa_signature *signature)
{
    struct sw_n256 d;
    struct sw_n256 k;
    struct sw_n256 r;
    struct sw_n256 s;

    if (!ours_p256(key->ecc)) {
        lib.sign(key, random_ctx, random, digest_length, digest, signature);
        return;
    }
    d = scalar_get(key);
    do {
        random_scalar(&k, random_ctx, random);
    } while (!sw_p256_sign(&d, &k, digest, digest_length, &r, &s));
    number_set(signature->r, &r);
    number_set(signature->s, &s);
    explicit_bzero(&d, sizeof(d));
    explicit_bzero(&k, sizeof(k));
}

EXPORTED int nettle_ecdsa_verify(const struct ecc_point *pub, size_t length, const uint8_t *digest,
                                 const struct dsa_signature *signature)
{
    struct sw_p256_point p;
    struct sw_n256 r;
    struct sw_n256 s;

    if (!ours_p256(pub->ecc))
        return lib.verify(pub, length, digest, signature);
    p = point_get(pub);
    return sw_p256_point_ok(&p) && number_get(signature->r, &r) && number_get(signature->s, &s) &&
           sw_p256_verify(&p, digest, length, &r, &s);
}

EXPORTED void nettle_ecdsa_generate_keypair(struct ecc_point *pub, struct ecc_scalar *key,
                                            void *random_ctx, nettle_random_func *random)
{
    struct sw_p256_point p;
    struct sw_n256 k;

    if (!ours_p256(key->ecc) || pub->ecc != key->ecc) {
        lib.keypair(pub, key, random_ctx, random);
        return;
    }
    random_scalar(&k, random_ctx, random);
    sw_p256_base(&k, &p);
    memcpy(key->p, k.w, sizeof(k.w));
    point_set(pub, &p);
    explicit_bzero(&k, sizeof(k));
}

EXPORTED void nettle_ecc_point_mul(struct ecc_point *r, const struct ecc_scalar *n,
                                   const struct ecc_point *p)
{
    struct sw_p256_point q;
    struct sw_n256 k;

    if (!ours_p256(n->ecc) || p->ecc != n->ecc || r->ecc != n->ecc) {
        lib.mul(r, n, p);
        return;
    }
    q = point_get(p);
    k = scalar_get(n);
    if (sw_p256_point_ok(&q) && sw_p256_scalar_ok(&k)) {
        sw_p256_mul(&k, &q, &q);
        point_set(r, &q);
    } else {
        lib.mul(r, n, p);
    }
    explicit_bzero(&k, sizeof(k));
    explicit_bzero(&q, sizeof(q));
}

EXPORTED void nettle_ecc_point_mul_g(struct ecc_point *r, const struct ecc_scalar *n)
{
    struct sw_p256_point q;
    struct sw_n256 k;

    if (!ours_p256(n->ecc) || r->ecc != n->ecc) {
        lib.mul_g(r, n);
        return;
    }
    k = scalar_get(n);
    if (sw_p256_scalar_ok(&k)) {
        sw_p256_base(&k, &q);
        point_set(r, &q);
    } else {
        lib.mul_g(r, n);
    }
    explicit_bzero(&k, sizeof(k));
}

/* --- X25519 --- */

EXPORTED void nettle_curve25519_mul(uint8_t *q, const uint8_t *n, const uint8_t *p)
{
    if (ours())
        sw_x25519(q, n, p);
    else
        lib.x_mul(q, n, p);
}

EXPORTED void nettle_curve25519_mul_g(uint8_t *q, const uint8_t *n)
{
    if (ours())
        sw_x25519_base(q, n);
    else
        lib.x_mul_g(q, n);
}
