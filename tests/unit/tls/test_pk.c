/* SPDX-License-Identifier: Apache-2.0 */
/* P-256 and X25519: published vectors, and libhogweed's own functions beside ours. */
#include "tls/crypto/pk.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <nettle/curve25519.h>
#include <nettle/dsa.h>
#include <nettle/ecc-curve.h>
#include <nettle/ecc.h>
#include <nettle/ecdsa.h>

#include "base/def.h"
#include "base/rand.h"
#include "tls/crypto/p256.h"
#include "tls/crypto/x25519.h"

#include "test.h"

enum { RANDOM_CASES = 400, EDGE = 70 };

/* The library's functions, which those of pk.c hide. */
static struct {
    int (*verify)(const struct ecc_point *, size_t, const uint8_t *, const struct dsa_signature *);
    void (*sign)(const struct ecc_scalar *, void *, nettle_random_func *, size_t, const uint8_t *,
                 struct dsa_signature *);
    void (*mul)(struct ecc_point *, const struct ecc_scalar *, const struct ecc_point *);
    void (*mul_g)(struct ecc_point *, const struct ecc_scalar *);
    void (*x_mul)(uint8_t *, const uint8_t *, const uint8_t *);
    void (*x_mul_g)(uint8_t *, const uint8_t *);
} lib;

static void find(const char *name, void *ret)
{
    void *p = dlsym(RTLD_NEXT, name);

    assert_non_null(p);
    memcpy(ret, &p, sizeof(p));
}

static int set_up(void **state)
{
    (void)state;
    find("nettle_ecdsa_verify", &lib.verify);
    find("nettle_ecdsa_sign", &lib.sign);
    find("nettle_ecc_point_mul", &lib.mul);
    find("nettle_ecc_point_mul_g", &lib.mul_g);
    find("nettle_curve25519_mul", &lib.x_mul);
    find("nettle_curve25519_mul_g", &lib.x_mul_g);
    return 0;
}

/* Each test of arithmetic runs twice: with what this CPU offers, and without. */
static int portable(void **state)
{
    (void)state;
    sw_p256_portable(true);
    sw_x25519_portable(true);
    return 0;
}

static int fastest(void **state)
{
    (void)state;
    sw_p256_portable(false);
    sw_x25519_portable(false);
    return 0;
}

static void from_hex(uint8_t *out, size_t n, const char *hex)
{
    assert_int_equal(strlen(hex), 2 * n);
    for (size_t i = 0; i < n; i++) {
        const char two[3] = {hex[2 * i], hex[2 * i + 1], 0};

        out[i] = (uint8_t)strtoul(two, NULL, 16);
    }
}

static struct sw_n256 number(const char *hex)
{
    struct sw_n256 r;
    uint8_t b[32];

    from_hex(b, sizeof(b), hex);
    for (int i = 0; i < 4; i++) {
        r.w[3 - i] = 0;
        for (int k = 0; k < 8; k++)
            r.w[3 - i] = r.w[3 - i] << 8 | b[8 * i + k];
    }
    return r;
}

static struct sw_n256 small(uint64_t v)
{
    return (struct sw_n256){{v, 0, 0, 0}};
}

/* From 1 to n - 1: small ones, ones just below n, runs of equal bits, any. */
static struct sw_n256 scalar(unsigned i)
{
    struct sw_n256 r = small(i + 1);

    if (i >= EDGE && i < 2 * EDGE) {
        r = small(i - EDGE + 1);
        (void)sw_n256_sub(&r, &sw_p256_n, &r);
    } else if (i >= 2 * EDGE) {
        do {
            sw_rand_bytes(r.w, sizeof(r.w));
            for (int k = 0; i % 2 && k < 4; k++)
                r.w[k] = (r.w[k] & 3) == 0   ? 0
                         : (r.w[k] & 3) == 1 ? UINT64_MAX
                                             : UINT64_MAX << (r.w[k] >> 58);
        } while (!sw_p256_scalar_ok(&r));
    }
    return r;
}

struct nettle_side {
    struct ecc_scalar k;
    struct ecc_point p;
    struct ecc_point q;
    struct dsa_signature sig;
};

static void side_init(struct nettle_side *s)
{
    ecc_scalar_init(&s->k, nettle_get_secp_256r1());
    ecc_point_init(&s->p, nettle_get_secp_256r1());
    ecc_point_init(&s->q, nettle_get_secp_256r1());
    dsa_signature_init(&s->sig);
}

static void side_done(struct nettle_side *s)
{
    ecc_scalar_clear(&s->k);
    ecc_point_clear(&s->p);
    ecc_point_clear(&s->q);
    dsa_signature_clear(&s->sig);
}

static void sig_set(struct nettle_side *s, const struct sw_n256 *r, const struct sw_n256 *v)
{
    mpz_import(s->sig.r, 4, -1, 8, 0, 0, r->w);
    mpz_import(s->sig.s, 4, -1, 8, 0, 0, v->w);
}

static void random_bytes(void *ctx, size_t n, uint8_t *out)
{
    (void)ctx;
    sw_rand_bytes(out, n);
}

/* --- P-256 --- */

/* RFC 6979, A.2.5: key, nonce and signature for SHA-256 of "sample" and "test". */
static void test_p256_signs_as_rfc6979_says(void **state)
{
    static const struct {
        const char *hash;
        const char *k;
        const char *r;
        const char *s;
    } cases[] = {
        {"af2bdbe1aa9b6ec1e2ade1d694f41fc71a831d0268e9891562113d8a62add1bf",
         "a6e3c57dd01abe90086538398355dd4c3b17aa873382b0f24d6129493d8aad60",
         "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716",
         "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"},
        {"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
         "d16b6ae827f17175e040871a1c7ec3500192c4c92677336ec2537acaee0008e0",
         "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367",
         "019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083"},
    };
    struct sw_n256 key = number("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721");
    struct sw_n256 x = number("60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6");
    struct sw_n256 y = number("7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299");
    struct sw_p256_point pub;

    (void)state;
    sw_p256_base(&key, &pub);
    assert_memory_equal(&pub.x, &x, sizeof(x));
    assert_memory_equal(&pub.y, &y, sizeof(y));
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_n256 k = number(cases[i].k);
        struct sw_n256 want_r = number(cases[i].r);
        struct sw_n256 want_s = number(cases[i].s);
        struct sw_n256 r;
        struct sw_n256 s;
        uint8_t hash[32];

        from_hex(hash, sizeof(hash), cases[i].hash);
        assert_true(sw_p256_sign(&key, &k, hash, sizeof(hash), &r, &s));
        assert_memory_equal(&r, &want_r, sizeof(r));
        assert_memory_equal(&s, &want_s, sizeof(s));
        assert_true(sw_p256_verify(&pub, hash, sizeof(hash), &r, &s));
        hash[31] ^= 1;
        assert_false(sw_p256_verify(&pub, hash, sizeof(hash), &r, &s));
    }
}

static void test_p256_multiplies_as_the_library_does(void **state)
{
    struct nettle_side n;

    (void)state;
    side_init(&n);
    for (unsigned i = 0; i < 2 * EDGE + RANDOM_CASES; i++) {
        struct sw_n256 k = scalar(i);
        struct sw_n256 k2 = scalar((i * 7) % (2 * EDGE + RANDOM_CASES));
        struct sw_p256_point p;

        memcpy(n.k.p, k.w, sizeof(k.w));
        lib.mul_g(&n.p, &n.k);
        sw_p256_base(&k, &p);
        assert_memory_equal(n.p.p, &p, sizeof(p));
        assert_true(sw_p256_point_ok(&p));
        memcpy(n.k.p, k2.w, sizeof(k2.w));
        lib.mul(&n.q, &n.k, &n.p);
        sw_p256_mul(&k2, &p, &p);
        assert_memory_equal(n.q.p, &p, sizeof(p));
    }
    side_done(&n);
}

static void test_p256_signs_and_verifies_with_the_library(void **state)
{
    static const size_t lengths[] = {20, 32, 48, 64, 0};
    struct nettle_side n;

    (void)state;
    side_init(&n);
    for (unsigned i = 0; i < 2 * EDGE + RANDOM_CASES; i++) {
        struct sw_n256 key = scalar(i);
        struct sw_n256 k = scalar(2 * EDGE);
        size_t len = lengths[i % SW_ARRAY_LEN(lengths)];
        struct sw_p256_point pub;
        struct sw_n256 r;
        struct sw_n256 s;
        uint8_t hash[64];

        sw_rand_bytes(hash, sizeof(hash));
        if (i % 11 == 0)
            memset(hash, i % 2 ? 0xff : 0, sizeof(hash));
        sw_p256_base(&key, &pub);
        memcpy(n.p.p, &pub, sizeof(pub));
        memcpy(n.k.p, key.w, sizeof(key.w));
        assert_true(sw_p256_sign(&key, &k, hash, len, &r, &s));
        sig_set(&n, &r, &s);
        assert_true(lib.verify(&n.p, len, hash, &n.sig));
        assert_true(nettle_ecdsa_verify(&n.p, len, hash, &n.sig));
        lib.sign(&n.k, NULL, random_bytes, len, hash, &n.sig);
        assert_true(nettle_ecdsa_verify(&n.p, len, hash, &n.sig));
        nettle_ecdsa_sign(&n.k, NULL, random_bytes, len, hash, &n.sig);
        assert_true(lib.verify(&n.p, len, hash, &n.sig));
        mpz_add_ui(n.sig.s, n.sig.s, 1);
        assert_false(nettle_ecdsa_verify(&n.p, len, hash, &n.sig));
    }
    side_done(&n);
}

static void test_p256_refuses_numbers_out_of_range(void **state)
{
    const struct sw_n256 good = small(7);
    const struct sw_n256 zero = small(0);
    const struct sw_n256 max = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    const struct sw_n256 *const bad[] = {&zero, &sw_p256_n, &max};
    struct sw_p256_point pub;
    struct nettle_side n;
    uint8_t hash[32] = {1};

    (void)state;
    side_init(&n);
    sw_p256_base(&good, &pub);
    memcpy(n.p.p, &pub, sizeof(pub));
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++) {
        assert_false(sw_p256_scalar_ok(bad[i]));
        assert_false(sw_p256_verify(&pub, hash, sizeof(hash), bad[i], &good));
        assert_false(sw_p256_verify(&pub, hash, sizeof(hash), &good, bad[i]));
    }
    mpz_set_si(n.sig.r, -7);
    mpz_set_ui(n.sig.s, 7);
    assert_false(nettle_ecdsa_verify(&n.p, sizeof(hash), hash, &n.sig));
    mpz_set_ui(n.sig.r, 7);
    mpz_mul_2exp(n.sig.r, n.sig.r, 256); /* 7, had the words above been dropped */
    assert_false(nettle_ecdsa_verify(&n.p, sizeof(hash), hash, &n.sig));
    assert_true(sw_p256_point_ok(&pub));
    pub.x.w[0] ^= 1;
    assert_false(sw_p256_point_ok(&pub));
    pub.x.w[0] ^= 1;
    (void)sw_n256_sub(&pub.y, &zero, &pub.y); /* not reduced */
    assert_false(sw_p256_point_ok(&pub));
    side_done(&n);
}

/* u1 * G + u2 * Q with equal, opposite and absent summands, and an x that is not below n. */
static void test_p256_verifies_exceptional_sums(void **state)
{
    const struct sw_n256 three = small(3);
    const struct sw_n256 one = small(1);
    /* x = n + 3: the signature's r is 3. */
    const struct sw_p256_point high = {
        number("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632554"),
        number("484f0c0fda434ef0a808458914f328715d7a545e198ac7eee31dffe861b5d23f")};
    struct sw_p256_point g;
    struct sw_p256_point twice;
    struct sw_n256 r;
    struct sw_n256 neg;
    uint8_t hash[32] = {0};

    (void)state;
    assert_true(sw_p256_point_ok(&high));
    assert_true(sw_p256_verify(&high, hash, sizeof(hash), &three, &three));
    assert_false(sw_p256_verify(&high, hash, sizeof(hash), &one, &one));
    /* Q = G. With s = r and a hash of r both factors are 1: G + G. */
    sw_p256_base(&one, &g);
    r = small(2);
    sw_p256_base(&r, &twice);
    assert_true(sw_p256_scalar_ok(&twice.x));
    for (int i = 0; i < 32; i++)
        hash[i] = (uint8_t)(twice.x.w[3 - i / 8] >> (56 - i % 8 * 8));
    assert_true(sw_p256_verify(&g, hash, sizeof(hash), &twice.x, &twice.x));
    /* A hash of -r: the sum is infinity, which has no x. */
    (void)sw_n256_sub(&neg, &sw_p256_n, &twice.x);
    for (int i = 0; i < 32; i++)
        hash[i] = (uint8_t)(neg.w[3 - i / 8] >> (56 - i % 8 * 8));
    assert_false(sw_p256_verify(&g, hash, sizeof(hash), &twice.x, &twice.x));
}

/* --- X25519 --- */

/* RFC 7748, 5.2 */
static void test_x25519_agrees_with_rfc7748(void **state)
{
    static const struct {
        const char *n;
        const char *u;
        const char *out;
    } cases[] = {
        {"a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
         "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
         "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"},
        {"4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
         "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
         "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957"},
    };
    uint8_t k[32] = {9};
    uint8_t u[32] = {9};
    uint8_t want[32];

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        uint8_t n[32];
        uint8_t out[32];

        from_hex(n, sizeof(n), cases[i].n);
        from_hex(u, sizeof(u), cases[i].u);
        from_hex(want, sizeof(want), cases[i].out);
        sw_x25519(out, n, u);
        assert_memory_equal(out, want, sizeof(want));
    }
    /* A thousand times, each result the next scalar and each scalar the next point. */
    memset(u, 0, sizeof(u));
    u[0] = 9;
    for (int i = 0; i < 1000; i++) {
        uint8_t out[32];

        sw_x25519(out, k, u);
        memcpy(u, k, sizeof(u));
        memcpy(k, out, sizeof(k));
    }
    from_hex(want, sizeof(want),
             "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51");
    assert_memory_equal(k, want, sizeof(want));
}

/* Points of small order, numbers from p to 2^255, the bit that does not count. */
static void x25519_point(unsigned i, uint8_t p[32])
{
    static const char *const special[] = {
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    };

    if (i < SW_ARRAY_LEN(special))
        from_hex(p, 32, special[i]);
    else
        sw_rand_bytes(p, 32);
}

static void test_x25519_multiplies_as_the_library_does(void **state)
{
    (void)state;
    for (unsigned i = 0; i < RANDOM_CASES; i++) {
        uint8_t n[32];
        uint8_t p[32];
        uint8_t want[32];
        uint8_t got[32];

        sw_rand_bytes(n, sizeof(n));
        if (i % 5 == 0)
            memset(n, i % 2 ? 0xff : 0, sizeof(n));
        x25519_point(i, p);
        lib.x_mul(want, n, p);
        sw_x25519(got, n, p);
        assert_memory_equal(got, want, sizeof(want));
        lib.x_mul_g(want, n);
        sw_x25519_base(got, n);
        assert_memory_equal(got, want, sizeof(want));
    }
}

/* --- under GnuTLS --- */

static void test_gnutls_calls_ours_unless_told_otherwise(void **state)
{
    const char *choice = getenv("SPANWIRE_PK");
    bool nettle = choice && strcmp(choice, "nettle") == 0;

    (void)state;
    assert_int_equal(strncmp(sw_pk_name(), nettle ? "nettle" : "own", nettle ? 6 : 3), 0);
}

/* The other curves are passed on. */
static void test_gnutls_signs_and_verifies_with_every_curve(void **state)
{
    static const struct {
        gnutls_ecc_curve_t curve;
        gnutls_sign_algorithm_t sign;
    } cases[] = {
        {GNUTLS_ECC_CURVE_SECP256R1, GNUTLS_SIGN_ECDSA_SHA256},
        {GNUTLS_ECC_CURVE_SECP384R1, GNUTLS_SIGN_ECDSA_SHA384},
        {GNUTLS_ECC_CURVE_SECP521R1, GNUTLS_SIGN_ECDSA_SHA512},
    };
    const gnutls_datum_t text = {.data = (unsigned char *)(uintptr_t) "sample", .size = 6};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        gnutls_privkey_t key = NULL;
        gnutls_pubkey_t pub = NULL;
        gnutls_datum_t sig = {0};

        assert_int_equal(gnutls_privkey_init(&key), 0);
        assert_int_equal(gnutls_pubkey_init(&pub), 0);
        assert_int_equal(
            gnutls_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(cases[i].curve), 0),
            0);
        assert_int_equal(gnutls_pubkey_import_privkey(pub, key, 0, 0), 0);
        assert_int_equal(gnutls_privkey_sign_data2(key, cases[i].sign, 0, &text, &sig), 0);
        assert_int_equal(gnutls_pubkey_verify_data2(pub, cases[i].sign, 0, &text, &sig), 0);
        sig.data[sig.size - 1] ^= 1;
        assert_true(gnutls_pubkey_verify_data2(pub, cases[i].sign, 0, &text, &sig) < 0);
        gnutls_free(sig.data);
        gnutls_privkey_deinit(key);
        gnutls_pubkey_deinit(pub);
    }
}

#define BOTH(f)                                                                                    \
    {#f, f, fastest, NULL, NULL},                                                                  \
    {                                                                                              \
#f "_portably", f, portable, fastest, NULL                                                 \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_p256_signs_as_rfc6979_says),
        BOTH(test_p256_multiplies_as_the_library_does),
        BOTH(test_p256_signs_and_verifies_with_the_library),
        BOTH(test_p256_refuses_numbers_out_of_range),
        BOTH(test_p256_verifies_exceptional_sums),
        BOTH(test_x25519_agrees_with_rfc7748),
        BOTH(test_x25519_multiplies_as_the_library_does),
        cmocka_unit_test(test_gnutls_calls_ours_unless_told_otherwise),
        cmocka_unit_test(test_gnutls_signs_and_verifies_with_every_curve),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
