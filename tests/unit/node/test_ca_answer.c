/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to a certificate authority, and which answers make a credential. */
#include "fixture.h"

#include <string.h>

#include "base/buf.h"
#include "node/cert/ca_answer.h"
#include "proto/pb.h"
#include "tls/cert/ca.h"
#include "tls/cert/csr.h"

#define ME "spiffe://td/ns/n/sa/me"

struct pieces {
    struct sw_ca *ca;
    struct sw_buf leaf;
    struct sw_buf key;
    struct sw_buf msg;
};

static void init(struct pieces *p, struct sw_ca_leaf leaf)
{
    struct sw_err err = {0};

    *p = (struct pieces){.ca = sw_ca_new(S("td"), 0, &err)};
    sw_buf_init(&p->leaf, 1 << 16);
    sw_buf_init(&p->key, 1 << 16);
    sw_buf_init(&p->msg, 1 << 20);
    assert_int_equal(sw_ca_issue(p->ca, &leaf, &p->leaf, &p->key, &err), SW_OK);
}

static void done(struct pieces *p)
{
    sw_ca_free(p->ca);
    sw_buf_done(&p->leaf);
    sw_buf_done(&p->key);
    sw_buf_done(&p->msg);
}

static void add(struct pieces *p, struct sw_slice element)
{
    assert_int_equal(sw_pb_put_bytes(&p->msg, 1, element), SW_OK);
}

/* What the message comes to; text is part of the reason of a refusal, NULL: it is good. */
static void judge(struct pieces *p, const char *text)
{
    struct sw_ca_expect e = {.identity = S(ME), .key = sw_buf_slice(&p->key)};
    struct sw_err err = {0};
    struct sw_tls_cred *cred = sw_ca_answer(sw_buf_slice(&p->msg), &e, &err);

    if (!text && !cred)
        fail_msg("%s", err.msg);
    if (text && (cred || !strstr(err.msg, text)))
        fail_msg("'%s' in '%s'", text, err.msg);
    if (cred)
        assert_slice(sw_tls_cred_uri(cred), ME);
    (void)sw_tls_cred_unref(cred);
}

static void leaf_and_roots(void **state)
{
    struct pieces p;

    (void)state;
    init(&p, (struct sw_ca_leaf){.id = S(ME)});
    add(&p, sw_buf_slice(&p.leaf));
    add(&p, sw_ca_root_pem(p.ca));
    judge(&p, NULL);
    done(&p);
}

/* Of an element in front only the first block counts; the last may hold several. */
static void several_blocks(void **state)
{
    SW_BUF_AUTO twice = {.max = 1 << 16};
    struct sw_err err = {0};
    struct sw_ca *other = sw_ca_new(S("td"), 0, &err);
    struct pieces p;

    (void)state;
    init(&p, (struct sw_ca_leaf){.id = S(ME)});
    assert_int_equal(sw_buf_printf(&twice, "text\n%.*s\n%.*s", SW_SLICE_ARG(sw_buf_slice(&p.leaf)),
                                   SW_SLICE_ARG(sw_ca_root_pem(other))),
                     SW_OK);
    add(&p, sw_buf_slice(&twice));
    sw_buf_clear(&twice);
    assert_int_equal(sw_buf_printf(&twice, "%.*s%.*s", SW_SLICE_ARG(sw_ca_root_pem(other)),
                                   SW_SLICE_ARG(sw_ca_root_pem(p.ca))),
                     SW_OK);
    add(&p, sw_buf_slice(&twice));
    judge(&p, NULL);
    sw_ca_free(other);
    done(&p);
}

static void wrong_number_of_elements(void **state)
{
    struct pieces p;

    (void)state;
    init(&p, (struct sw_ca_leaf){.id = S(ME)});
    judge(&p, "0 elements");
    add(&p, sw_buf_slice(&p.leaf));
    judge(&p, "1 elements");
    for (int i = 0; i < SW_CA_ELEMENTS_MAX; i++)
        add(&p, S("x"));
    judge(&p, "33 elements");
    done(&p);
}

static void foreign_identity(void **state)
{
    struct pieces p;

    (void)state;
    init(&p, (struct sw_ca_leaf){.id = S("spiffe://td/ns/n/sa/other")});
    add(&p, sw_buf_slice(&p.leaf));
    add(&p, sw_ca_root_pem(p.ca));
    judge(&p, "issued a certificate for 'spiffe://td/ns/n/sa/other'");
    done(&p);
}

static void foreign_key_root_and_time(void **state)
{
    struct pieces p;
    struct pieces q;

    (void)state;
    init(&p, (struct sw_ca_leaf){.id = S(ME)});
    init(&q, (struct sw_ca_leaf){.id = S(ME)});
    add(&p, sw_buf_slice(&q.leaf));
    add(&p, sw_ca_root_pem(q.ca));
    judge(&p, "do not belong together");
    sw_buf_clear(&p.msg);
    add(&p, sw_buf_slice(&p.leaf));
    add(&p, sw_ca_root_pem(q.ca));
    judge(&p, "does not lead to one of its roots");
    done(&p);
    done(&q);
    init(&p, (struct sw_ca_leaf){.id = S(ME), .ttl_s = 60, .backdate_s = 3600});
    add(&p, sw_buf_slice(&p.leaf));
    add(&p, sw_ca_root_pem(p.ca));
    judge(&p, "not valid at this time");
    done(&p);
}

static void nonsense(void **state)
{
    struct pieces p;

    (void)state;
    init(&p, (struct sw_ca_leaf){.id = S(ME)});
    add(&p, S("-----BEGIN CERTIFICATE-----\nAAAA"));
    add(&p, sw_ca_root_pem(p.ca));
    judge(&p, "element 0 of the answer is not a certificate");
    sw_buf_clear(&p.msg);
    add(&p, sw_buf_slice(&p.leaf));
    add(&p, S("no roots"));
    judge(&p, "trusted roots");
    sw_buf_clear(&p.msg);
    assert_int_equal(sw_buf_append(&p.msg, "\xff\xff\xff", 3), SW_OK);
    judge(&p, "");
    done(&p);
}

static void request_has_what_was_asked(void **state)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO csr = {.max = 1 << 14};
    SW_BUF_AUTO key = {.max = 1 << 14};
    struct sw_err err = {0};
    struct sw_slice msg;
    unsigned seen = 0;

    (void)state;
    assert_int_equal(sw_csr_new(S(ME), &csr, &key, &err), SW_OK);
    assert_non_null(memmem(sw_buf_data(&csr), sw_buf_len(&csr), "-BEGIN CERTIFICATE REQUEST-", 27));
    assert_non_null(memmem(sw_buf_data(&key), sw_buf_len(&key), "-BEGIN PRIVATE KEY-", 19));
    msg = sw_ca_request(&a, sw_buf_slice(&csr), 3600, S(ME));
    while (msg.n) {
        struct sw_pb_field f;

        assert_int_equal(sw_pb_next(&msg, &f), SW_OK);
        seen |= 1u << f.number;
        if (f.number == 1)
            assert_true(sw_slice_eq(f.bytes, sw_buf_slice(&csr)));
        if (f.number == 4) {
            assert_non_null(memmem(f.bytes.p, f.bytes.n, "ImpersonatedIdentity", 20));
            assert_non_null(memmem(f.bytes.p, f.bytes.n, ME, sizeof(ME) - 1));
        }
    }
    assert_int_equal(seen, 1u << 1 | 1u << 3 | 1u << 4);
    assert_int_equal(sw_csr_new(S("https://no"), &csr, &key, &err), SW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaf_and_roots),
        cmocka_unit_test(several_blocks),
        cmocka_unit_test(wrong_number_of_elements),
        cmocka_unit_test(foreign_identity),
        cmocka_unit_test(foreign_key_root_and_time),
        cmocka_unit_test(nonsense),
        cmocka_unit_test(request_has_what_was_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
