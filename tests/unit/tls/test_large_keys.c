/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of peers so large that checking one signature would take minutes. */
#include <time.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "tls/cert/csr.h"

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

static struct sw_slice rsa(struct sw_arena *a, size_t modulus, size_t exponent)
{
    static const char oid[] = "\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05";
    struct sw_slice key = tlv(a, 0x30, JOIN(a, number(a, modulus), number(a, exponent)));

    return tlv(a, 0x30,
               JOIN(a, tlv(a, 0x30, sw_slice(oid, sizeof(oid))),
                    tlv(a, 3, JOIN(a, sw_slice("", 1), key))));
}

/* A signature that is wrong, which is found out by computing. */
static struct sw_slice signed_by(struct sw_arena *a, struct sw_slice what, size_t modulus)
{
    static const char oid[] = "\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b\x05";
    uint8_t *sig = sw_arena_alloc(a, modulus + 1);

    memset(sig, 0x35, modulus + 1);
    sig[0] = 0;
    return tlv(a, 0x30,
               JOIN(a, what, tlv(a, 0x30, sw_slice(oid, sizeof(oid))),
                    tlv(a, 3, sw_slice(sig, modulus + 1))));
}

/* ---- certificate requests ---- */

static struct sw_slice request(struct sw_arena *a, size_t modulus, size_t exponent)
{
    struct sw_slice none = sw_slice("", 0);
    struct sw_slice info = tlv(a, 0x30,
                               JOIN(a, tlv(a, 2, sw_slice("", 1)), tlv(a, 0x30, none),
                                    rsa(a, modulus, exponent), tlv(a, 0xa0, none)));
    SW_BUF_AUTO pem = {.max = DER_MAX};

    assert_int_equal(sw_buf_append_str(&pem, "-----BEGIN CERTIFICATE REQUEST-----\n"), SW_OK);
    assert_int_equal(sw_base64_append(&pem, signed_by(a, info, modulus)), SW_OK);
    assert_int_equal(sw_buf_append_str(&pem, "\n-----END CERTIFICATE REQUEST-----\n"), SW_OK);
    return sw_arena_slice(a, sw_buf_slice(&pem));
}

static void requests_with_large_keys_cost_nothing(void **state)
{
    static const struct {
        size_t modulus;
        size_t exponent;
        const char *why;
    } rows[] = {
        {512, 3, "not signed by its own key"}, {1024, 8, "not signed by its own key"},
        {1025, 3, "more than 8192 bits"},      {512, 9, "exponent of more than 8 bytes"},
        {2000, 2000, "more than 8192 bits"},   {16000, 16000, "more than 8192 bits"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        SW_ARENA_AUTO a = {0};
        SW_BUF_AUTO spki = {.max = DER_MAX};
        struct sw_slice csr = request(&a, rows[i].modulus, rows[i].exponent);
        struct sw_err err = {0};
        double from = cpu_seconds();

        assert_int_equal(sw_csr_public_key(csr, &spki, &err), SW_EINVAL);
        if (!strstr(err.msg, rows[i].why))
            fail_msg("%zu bytes, %zu of exponent: %s", rows[i].modulus, rows[i].exponent, err.msg);
        assert_true(cpu_seconds() - from < 0.5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_with_large_keys_cost_nothing),
    };

    return cmocka_run_group_tests_name("large keys", tests, NULL, NULL);
}
