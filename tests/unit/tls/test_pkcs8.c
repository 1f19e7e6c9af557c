/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private keys as others read them: one strict DER reader, over many keys of every kind the program
 * writes. About half of random keys have a private value that an integer encoding would lengthen.
 */
#include "tls/crypto/pkcs8.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/base64.h"
#include "tls/cert/ca.h"
#include "tls/cert/csr.h"
#include "tls/crypto/jws.h"

#include "test.h"

enum { KEYS = 500 };

/* The value of the next element, which must have this tag and the shortest length; moves on. */
static struct sw_slice element(struct sw_slice *in, unsigned tag)
{
    const uint8_t *p = (const uint8_t *)in->p;
    size_t head = 2;
    size_t n;
    struct sw_slice v;

    assert_true(in->n >= 2);
    assert_int_equal(p[0], tag);
    n = p[1];
    if (p[1] & 0x80) {
        assert_int_equal(p[1], 0x81); /* none of ours is longer than 255 bytes */
        assert_true(in->n >= 3);
        n = p[2];
        assert_true(n >= 0x80);
        head = 3;
    }
    assert_true(in->n >= head + n);
    v = sw_slice(in->p + head, n);
    *in = sw_slice_from(*in, head + n);
    return v;
}

static struct sw_slice der_of(struct sw_slice pem, struct sw_buf *der)
{
    const struct sw_slice begin = SW_SLICE_LIT("-----BEGIN PRIVATE KEY-----\n");
    const struct sw_slice end = SW_SLICE_LIT("-----END PRIVATE KEY-----\n");
    SW_BUF_AUTO text = {.max = 4096};

    assert_true(sw_slice_has_prefix(pem, begin));
    assert_true(sw_slice_has_suffix(pem, end));
    pem = sw_slice(pem.p + begin.n, pem.n - begin.n - end.n);
    for (size_t i = 0; i < pem.n; i++) {
        if (pem.p[i] != '\n')
            assert_int_equal(sw_buf_putc(&text, pem.p[i]), SW_OK);
    }
    assert_int_equal(sw_base64_decode(der, sw_buf_slice(&text)), SW_OK);
    return sw_buf_slice(der);
}

/* RFC 5208 and RFC 5915, nothing optional but the public key, which must be there. */
static void check_strict(struct sw_slice pem, size_t field)
{
    SW_BUF_AUTO b = {.max = 4096};
    struct sw_slice all = der_of(pem, &b);
    struct sw_slice info = element(&all, 0x30);
    struct sw_slice algorithm;
    struct sw_slice boxed;
    struct sw_slice key;
    struct sw_slice public;
    struct sw_slice point;

    assert_int_equal(all.n, 0);
    assert_true(sw_slice_eq(element(&info, 0x02), sw_slice("\0", 1)));
    algorithm = element(&info, 0x30);
    assert_true(
        sw_slice_eq(element(&algorithm, 0x06), SW_SLICE_LIT("\x2a\x86\x48\xce\x3d\x02\x01")));
    (void)element(&algorithm, 0x06);
    assert_int_equal(algorithm.n, 0);
    boxed = element(&info, 0x04);
    assert_int_equal(info.n, 0);
    key = element(&boxed, 0x30);
    assert_int_equal(boxed.n, 0);
    assert_true(sw_slice_eq(element(&key, 0x02), SW_SLICE_LIT("\x01")));
    assert_int_equal(element(&key, 0x04).n, field);
    public = element(&key, 0xa1);
    assert_int_equal(key.n, 0);
    point = element(&public, 0x03);
    assert_int_equal(public.n, 0);
    assert_int_equal(point.n, 2 + 2 * field);
    assert_memory_equal(point.p, "\0\x04", 2);
}

static void keys_of_certificates_and_tokens_have_a_fixed_length(void **state)
{
    struct sw_err err;
    struct sw_ca *ca = sw_ca_new(SW_SLICE_LIT("td.example"), 0, &err);

    (void)state;
    assert_non_null(ca);
    for (int i = 0; i < KEYS; i++) {
        SW_BUF_AUTO chain = {.max = 1 << 16};
        SW_BUF_AUTO leaf = {.max = 1 << 16};
        SW_BUF_AUTO token = {.max = 1 << 16};
        struct sw_jws_key *k = sw_jws_key_new(&err);
        const struct sw_ca_leaf what = {.id = SW_SLICE_LIT("spiffe://td.example/ns/a/sa/b")};

        assert_non_null(k);
        assert_int_equal(sw_jws_key_pem(k, &token, &err), SW_OK);
        check_strict(sw_buf_slice(&token), 32);
        sw_jws_key_free(k);
        assert_int_equal(sw_ca_issue(ca, &what, &chain, &leaf, &err), SW_OK);
        check_strict(sw_buf_slice(&leaf), 32);
    }
    sw_ca_free(ca);
}

/* The key of a machine that joins, and of every workload of a node. */
static void keys_of_requests_have_a_fixed_length(void **state)
{
    (void)state;
    for (int i = 0; i < KEYS; i++) {
        SW_BUF_AUTO csr = {.max = 1 << 16};
        SW_BUF_AUTO key = {.max = 1 << 16};
        struct sw_err err;

        assert_int_equal(
            sw_csr_new(SW_SLICE_LIT("spiffe://td.example/ns/a/sa/b"), &csr, &key, &err), SW_OK);
        check_strict(sw_buf_slice(&key), 32);
    }
}

static void root_keys_have_a_fixed_length(void **state)
{
    (void)state;
    for (int i = 0; i < 32; i++) {
        SW_BUF_AUTO pem = {.max = 1 << 16};
        struct sw_err err;
        struct sw_ca *ca = sw_ca_new(SW_SLICE_LIT("td.example"), 0, &err);

        assert_non_null(ca);
        assert_int_equal(sw_ca_key_pem(ca, &pem, &err), SW_OK);
        check_strict(sw_buf_slice(&pem), 32);
        sw_ca_free(ca);
    }
}

static void key_id(gnutls_x509_privkey_t key, uint8_t id[32])
{
    size_t n = 32;

    assert_true(gnutls_x509_privkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, id, &n) >= 0);
}

/* What is written is the same key again, of whatever kind. */
static void every_kind_reads_back(void **state)
{
    static const struct {
        gnutls_pk_algorithm_t kind;
        unsigned bits;
        size_t field; /* 0: no curve with a private value of that form */
        int times;
    } cases[] = {
        {GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 32, 20},
        {GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP384R1), 48, 20},
        {GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP521R1), 66, 20},
        {GNUTLS_PK_EDDSA_ED25519, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_ED25519), 0, 1},
        {GNUTLS_PK_RSA, 2048, 0, 1},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        for (int k = 0; k < cases[i].times; k++) {
            SW_BUF_AUTO pem = {.max = 1 << 16};
            gnutls_x509_privkey_t key = NULL;
            gnutls_x509_privkey_t back = NULL;
            gnutls_datum_t d;
            uint8_t id[2][32];
            struct sw_err err;

            assert_int_equal(gnutls_x509_privkey_init(&key), 0);
            assert_int_equal(gnutls_x509_privkey_generate(key, cases[i].kind, cases[i].bits, 0), 0);
            assert_int_equal(sw_pkcs8_pem(key, &pem, &err), SW_OK);
            if (cases[i].field)
                check_strict(sw_buf_slice(&pem), cases[i].field);
            d = (gnutls_datum_t){.data = (unsigned char *)pem.p, .size = (unsigned)pem.n};
            assert_int_equal(gnutls_x509_privkey_init(&back), 0);
            assert_int_equal(gnutls_x509_privkey_import2(back, &d, GNUTLS_X509_FMT_PEM, NULL, 0),
                             0);
            assert_int_equal(gnutls_x509_privkey_verify_params(back), 0);
            key_id(key, id[0]);
            key_id(back, id[1]);
            assert_memory_equal(id[0], id[1], 32);
            gnutls_x509_privkey_deinit(key);
            gnutls_x509_privkey_deinit(back);
        }
    }
}

static void a_small_buffer_is_refused(void **state)
{
    struct sw_err err;
    struct sw_jws_key *k = sw_jws_key_new(&err);
    SW_BUF_AUTO pem = {.max = 100};

    (void)state;
    assert_non_null(k);
    assert_int_equal(sw_jws_key_pem(k, &pem, &err), SW_ELIMIT);
    assert_int_equal(sw_buf_len(&pem), 0);
    sw_jws_key_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_certificates_and_tokens_have_a_fixed_length),
        cmocka_unit_test(keys_of_requests_have_a_fixed_length),
        cmocka_unit_test(root_keys_have_a_fixed_length),
        cmocka_unit_test(every_kind_reads_back),
        cmocka_unit_test(a_small_buffer_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
