/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of peers so large that checking one signature would take minutes. */
#include <errno.h>
#include <time.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "tls/cert/ca.h"
#include "tls/cert/cred.h"
#include "tls/cert/csr.h"
#include "tls/tls.h"

#include "test.h"

enum { DER_MAX = 1 << 20 };

static double cpu_seconds(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- DER ---- */

static struct sw_slice tlv(struct sw_arena *a, uint8_t tag, struct sw_slice in)
{
    uint8_t *p = sw_arena_alloc(a, in.n + 6);
    const uint8_t head[6] = {
        tag,          0x84, (uint8_t)(in.n >> 24), (uint8_t)(in.n >> 16), (uint8_t)(in.n >> 8),
        (uint8_t)in.n};

    /* The shortest form is the only one. */
    if (in.n < 128) {
        p[0] = tag;
        p[1] = (uint8_t)in.n;
        memcpy(p + 2, in.p ? in.p : "", in.n);
        return sw_slice(p, in.n + 2);
    }
    for (size_t bytes = 1; bytes <= 4; bytes++) {
        if (in.n >> (8 * bytes))
            continue;
        p[0] = tag;
        p[1] = (uint8_t)(0x80 | bytes);
        memcpy(p + 2, head + 6 - bytes, bytes);
        memcpy(p + 2 + bytes, in.p, in.n);
        return sw_slice(p, in.n + 2 + bytes);
    }
    return sw_slice(p, 0);
}

static struct sw_slice join(struct sw_arena *a, const struct sw_slice *parts, size_t n)
{
    SW_BUF_AUTO b = {.max = DER_MAX};

    for (size_t i = 0; i < n; i++)
        assert_int_equal(sw_buf_append_slice(&b, parts[i]), SW_OK);
    return sw_arena_slice(a, sw_buf_slice(&b));
}
#define JOIN(a, ...)                                                                               \
    join(a, (const struct sw_slice[]){__VA_ARGS__},                                                \
         sizeof((const struct sw_slice[]){__VA_ARGS__}) / sizeof(struct sw_slice))

/* An odd number of so many bytes. */
static struct sw_slice number(struct sw_arena *a, size_t bytes)
{
    uint8_t *p = sw_arena_alloc(a, bytes + 1);

    p[0] = 0;
    memset(p + 1, 0xb7, bytes);
    return tlv(a, 2, sw_slice(p, bytes + 1));
}

/* What the key is for: AlgorithmIdentifiers of the key and of what it signs. */
struct kind {
    struct sw_slice key;
    struct sw_slice signature;
    gnutls_pk_algorithm_t pk;
};

#define TEXT(s)                                                                                    \
    {                                                                                              \
        (s), sizeof(s) - 1                                                                         \
    }
#define OID_SHA256 "\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00"
static const struct kind pkcs1 = {
    TEXT("\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00"),
    TEXT("\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b\x05\x00"),
    GNUTLS_PK_RSA,
};
static const struct kind pss = {
    TEXT("\x30\x0b\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a"),
    TEXT("\x30\x41\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a\x30\x34"
         "\xa0\x0f" OID_SHA256
         "\xa1\x1c\x30\x1a\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x08" OID_SHA256
         "\xa2\x03\x02\x01\x20"),
    GNUTLS_PK_RSA_PSS,
};

static struct sw_slice spki(struct sw_arena *a, struct sw_slice algorithm, struct sw_slice key)
{
    return tlv(a, 0x30, JOIN(a, algorithm, tlv(a, 3, JOIN(a, sw_slice("", 1), key))));
}

static struct sw_slice rsa(struct sw_arena *a, const struct kind *k, size_t modulus,
                           size_t exponent)
{
    return spki(a, k->key, tlv(a, 0x30, JOIN(a, number(a, modulus), number(a, exponent))));
}

/* The modulus, a group of 256 bits, and a base. */
static struct sw_slice dsa(struct sw_arena *a, size_t modulus)
{
    static const char oid[] = "\x06\x07\x2a\x86\x48\xce\x38\x04\x01";
    struct sw_slice parameters =
        tlv(a, 0x30, JOIN(a, number(a, modulus), number(a, 32), number(a, modulus - 1)));

    return spki(a, tlv(a, 0x30, JOIN(a, sw_slice(oid, sizeof(oid) - 1), parameters)),
                number(a, modulus - 2));
}

/* A signature that is wrong, which is found out by computing. */
static struct sw_slice signed_by(struct sw_arena *a, struct sw_slice what,
                                 struct sw_slice algorithm, size_t modulus)
{
    uint8_t *sig = sw_arena_alloc(a, modulus + 1);

    memset(sig, 0x35, modulus + 1);
    sig[0] = 0;
    return tlv(a, 0x30, JOIN(a, what, algorithm, tlv(a, 3, sw_slice(sig, modulus + 1))));
}

/* ---- certificate requests ---- */

static struct sw_slice request(struct sw_arena *a, struct sw_slice key, struct sw_slice signature,
                               size_t len)
{
    struct sw_slice none = sw_slice("", 0);
    struct sw_slice info = tlv(
        a, 0x30, JOIN(a, tlv(a, 2, sw_slice("", 1)), tlv(a, 0x30, none), key, tlv(a, 0xa0, none)));
    SW_BUF_AUTO pem = {.max = DER_MAX};

    assert_int_equal(sw_buf_append_str(&pem, "-----BEGIN CERTIFICATE REQUEST-----\n"), SW_OK);
    assert_int_equal(sw_base64_append(&pem, signed_by(a, info, signature, len)), SW_OK);
    assert_int_equal(sw_buf_append_str(&pem, "\n-----END CERTIFICATE REQUEST-----\n"), SW_OK);
    return sw_arena_slice(a, sw_buf_slice(&pem));
}

static void check_refused(struct sw_slice csr, const char *why)
{
    SW_BUF_AUTO out = {.max = DER_MAX};
    struct sw_err err = {0};
    double from = cpu_seconds();

    assert_int_equal(sw_csr_public_key(csr, &out, &err), SW_EINVAL);
    if (!strstr(err.msg, why))
        fail_msg("'%s' instead of '%s'", err.msg, why);
    assert_true(cpu_seconds() - from < 0.5);
}

static void requests_with_large_keys_cost_nothing(void **state)
{
    static const struct {
        const struct kind *kind;
        size_t modulus;
        size_t exponent;
        const char *why;
    } rows[] = {
        {&pkcs1, 512, 3, "not signed by its own key"},
        {&pkcs1, 1024, 8, "not signed by its own key"},
        {&pkcs1, 1025, 3, "more than 8192 bits"},
        {&pkcs1, 512, 9, "exponent of more than 8 bytes"},
        {&pkcs1, 2000, 2000, "more than 8192 bits"},
        {&pkcs1, 16000, 16000, "more than 8192 bits"},
        {&pss, 512, 3, "keys of kind RSA-PSS are not signed"},
        {&pss, 4000, 4000, "keys of kind RSA-PSS are not signed"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        SW_ARENA_AUTO a = {0};

        check_refused(request(&a, rsa(&a, rows[i].kind, rows[i].modulus, rows[i].exponent),
                              rows[i].kind->signature, rows[i].modulus),
                      rows[i].why);
    }
}

static void requests_with_dsa_keys_cost_nothing(void **state)
{
    SW_ARENA_AUTO a = {0};

    (void)state;
    check_refused(request(&a, dsa(&a, 12000),
                          SW_SLICE_LIT("\x30\x0b\x06\x09\x60\x86\x48\x01\x65\x03\x04\x03\x02"), 64),
                  "keys of kind DSA are not signed");
}

/* ---- handshakes ---- */

static struct sw_slice certificate(struct sw_arena *a, const struct kind *k, size_t modulus,
                                   size_t exponent)
{
    static const char times[] = "\x17\x0d"
                                "260101000000Z"
                                "\x17\x0d"
                                "490101000000Z";
    static const char cn[] = "\x31\x0c\x30\x0a\x06\x03\x55\x04\x03\x0c\x03"
                             "big";
    struct sw_slice name = tlv(a, 0x30, sw_slice(cn, sizeof(cn) - 1));
    struct sw_slice body =
        JOIN(a, tlv(a, 0xa0, SW_SLICE_LIT("\x02\x01\x02")), SW_SLICE_LIT("\x02\x01\x07"),
             pkcs1.signature, name, tlv(a, 0x30, sw_slice(times, sizeof(times) - 1)), name,
             rsa(a, k, modulus, exponent));

    return signed_by(a, tlv(a, 0x30, body), pkcs1.signature, 256);
}

/* A client of another make: it has no key, and signs with noise. */
struct stranger {
    gnutls_session_t session;
    gnutls_certificate_credentials_t cred;
    struct sw_buf in;
    struct sw_buf out;
    gnutls_pk_algorithm_t pk;
    size_t modulus;
};

static int sign_noise(gnutls_privkey_t key, gnutls_sign_algorithm_t algo, void *arg, unsigned flags,
                      const gnutls_datum_t *data, gnutls_datum_t *sig)
{
    const struct stranger *x = arg;

    (void)key;
    (void)algo;
    (void)flags;
    (void)data;
    sig->data = gnutls_malloc(x->modulus);
    sig->size = (unsigned)x->modulus;
    memset(sig->data, 0x35, x->modulus);
    return 0;
}

static int key_info(gnutls_privkey_t key, unsigned flags, void *arg)
{
    const struct stranger *x = arg;

    (void)key;
    if (flags & GNUTLS_PRIVKEY_INFO_PK_ALGO)
        return (int)x->pk;
    if (flags & GNUTLS_PRIVKEY_INFO_PK_ALGO_BITS)
        return (int)x->modulus * 8;
    return flags & GNUTLS_PRIVKEY_INFO_HAVE_SIGN_ALGO ? 1 : -1;
}

static ssize_t pull(gnutls_transport_ptr_t arg, void *to, size_t n)
{
    struct stranger *x = arg;
    struct sw_slice s = sw_slice_head(sw_buf_slice(&x->in), n);

    if (s.n == 0) {
        gnutls_transport_set_errno(x->session, EAGAIN);
        return -1;
    }
    memcpy(to, s.p, s.n);
    sw_buf_consume(&x->in, s.n);
    return (ssize_t)s.n;
}

static ssize_t push(gnutls_transport_ptr_t arg, const void *from, size_t n)
{
    struct stranger *x = arg;

    assert_int_equal(sw_buf_append(&x->out, from, n), SW_OK);
    return (ssize_t)n;
}

static void stranger_init(struct stranger *x, struct sw_slice der, const struct kind *k,
                          size_t modulus)
{
    static const gnutls_datum_t h2 = {(unsigned char *)(uintptr_t) "h2", 2};
    const gnutls_datum_t raw = {(unsigned char *)(uintptr_t)der.p, (unsigned)der.n};
    gnutls_pcert_st cert; /* what it holds becomes the credentials' */
    gnutls_privkey_t key;

    *x = (struct stranger){
        .pk = k->pk, .modulus = modulus, .in = {.max = DER_MAX}, .out = {.max = DER_MAX}};
    assert_int_equal(gnutls_privkey_init(&key), 0);
    assert_int_equal(
        gnutls_privkey_import_ext4(key, x, sign_noise, sign_noise, NULL, NULL, key_info, 0), 0);
    assert_int_equal(gnutls_pcert_import_x509_raw(&cert, &raw, GNUTLS_X509_FMT_DER, 0), 0);
    assert_int_equal(gnutls_certificate_allocate_credentials(&x->cred), 0);
    gnutls_certificate_set_flags(x->cred, GNUTLS_CERTIFICATE_SKIP_KEY_CERT_MATCH);
    assert_int_equal(gnutls_certificate_set_key(x->cred, NULL, 0, &cert, 1, key), 0);
    assert_int_equal(gnutls_init(&x->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK), 0);
    assert_int_equal(gnutls_priority_set_direct(
                         x->session, "NORMAL:-VERS-ALL:+VERS-TLS1.3:%VERIFY_ALLOW_BROKEN", NULL),
                     0);
    assert_int_equal(gnutls_credentials_set(x->session, GNUTLS_CRD_CERTIFICATE, x->cred), 0);
    assert_int_equal(gnutls_alpn_set_protocols(x->session, &h2, 1, 0), 0);
    gnutls_transport_set_ptr(x->session, x);
    gnutls_transport_set_pull_function(x->session, pull);
    gnutls_transport_set_push_function(x->session, push);
    gnutls_handshake_set_timeout(x->session, 0);
}

static void stranger_done(struct stranger *x)
{
    gnutls_deinit(x->session);
    gnutls_certificate_free_credentials(x->cred);
    sw_buf_done(&x->in);
    sw_buf_done(&x->out);
}

/* The server's verdict and the CPU time it took. */
static double meet(struct stranger *x, struct sw_tls *server, struct sw_err *err)
{
    int rc = SW_EAGAIN;
    double spent = 0;

    for (int turn = 0; turn < 20 && rc == SW_EAGAIN; turn++) {
        double from;
        size_t used;

        (void)gnutls_handshake(x->session);
        from = cpu_seconds();
        rc = sw_tls_handshake(server, sw_buf_slice(&x->out), &used, &x->in, err);
        spent += cpu_seconds() - from;
        sw_buf_consume(&x->out, used);
    }
    assert_true(rc != SW_OK && rc != SW_EAGAIN);
    return spent;
}

static void certificates_with_large_keys_cost_nothing(void **state)
{
    static const struct {
        const struct kind *kind;
        size_t modulus;
        size_t exponent;
        bool web;
        const char *why;
    } rows[] = {
        {&pkcs1, 256, 3, false, ""}, /* is looked at, and not good */
        {&pkcs1, 4000, 4000, false, "RSA key"},
        {&pkcs1, 1100, 3, false, "RSA key"},
        {&pkcs1, 4000, 4000, true, "RSA key"},
        {&pss, 256, 3, false, ""},
        {&pss, 4000, 4000, false, "RSA key"},
        {&pss, 4000, 4000, true, "RSA key"},
    };
    struct sw_err err;
    struct sw_ca *ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, &err);
    struct sw_tls_cred *cred = sw_ca_issue_cred(
        ca, &(struct sw_ca_leaf){.id = SW_SLICE_LIT("spiffe://cluster.local/ns/b/sa/bob")},
        sw_slice("", 0), &err);

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        SW_ARENA_AUTO a = {0};
        const struct sw_tls_params p = {
            .server = true, .cred = cred, .alpn = "h2", .web = rows[i].web};
        struct sw_tls *server = sw_tls_new(&p, &err);
        struct stranger x;
        double spent;

        assert_non_null(server);
        stranger_init(&x, certificate(&a, rows[i].kind, rows[i].modulus, rows[i].exponent),
                      rows[i].kind, rows[i].modulus);
        err = (struct sw_err){0};
        spent = meet(&x, server, &err);
        print_message("%zu and %zu bytes: %.3f s, %s\n", rows[i].modulus, rows[i].exponent, spent,
                      err.msg);
        if (!strstr(err.msg, rows[i].why))
            fail_msg("%zu and %zu bytes: %s", rows[i].modulus, rows[i].exponent, err.msg);
        assert_true(spent < 0.5);
        stranger_done(&x);
        sw_tls_free(server);
    }
    sw_tls_cred_unref(cred);
    sw_ca_free(ca);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_with_large_keys_cost_nothing),
        cmocka_unit_test(requests_with_dsa_keys_cost_nothing),
        cmocka_unit_test(certificates_with_large_keys_cost_nothing),
    };

    return cmocka_run_group_tests_name("large keys", tests, NULL, NULL);
}
