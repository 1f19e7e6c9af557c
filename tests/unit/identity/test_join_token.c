/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/join/token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/def.h"
#include "identity/join/client.h"
#include "tls/cert/ca.h"
#include "tls/cert/csr.h"
#include "tls/crypto/jws.h"

enum { NOW = 1000000 };

static const struct {
    const char *id;
    const char *td;
    uint64_t now;
    const char *why; /* NULL: good */
} cases[] = {
    {"site/join-a", "td", NOW, NULL},
    {"site/join-a", "td", NOW + SW_MACHINE_TOKEN_S, NULL},
    {"site/join-a", "td", NOW - 30, NULL},
    {"site/join-b", "td", NOW, "another machine"},
    {"site/join-a", "other", NOW, "another machine or mesh"},
    {"site/join-a", "td", NOW + SW_MACHINE_TOKEN_S + 100, "expired"},
    {"site/join-a", "td", NOW - 100, "clock"},
};

/* The key that a request proves is the key that verifies. */
static struct sw_jws_key *make_keys(struct sw_jws_key **ret_public)
{
    SW_BUF_AUTO csr = {.max = 8192};
    SW_BUF_AUTO pem = {.max = 8192};
    SW_BUF_AUTO spki = {.max = 8192};
    struct sw_err err = {0};

    assert_int_equal(sw_csr_new(SW_SLICE_LIT("spiffe://td/ns/a/sa/b"), &csr, &pem, &err), SW_OK);
    assert_int_equal(sw_csr_public_key(sw_buf_slice(&csr), &spki, &err), SW_OK);
    *ret_public = sw_jws_key_public(sw_buf_slice(&spki), &err);
    assert_non_null(*ret_public);
    return sw_jws_key_from_pem(sw_buf_slice(&pem), &err);
}

static void a_token_is_for_one_machine_and_a_while(void **state)
{
    SW_BUF_AUTO token = {.max = SW_MACHINE_TOKEN_MAX};
    SW_ARENA_AUTO a = {0};
    struct sw_jws_key *public;
    struct sw_jws_key *other_public;
    struct sw_jws_key *key = make_keys(&public);
    struct sw_jws_key *other = make_keys(&other_public);
    struct sw_slice t;

    (void)state;
    assert_int_equal(sw_machine_token_sign(key, SW_SLICE_LIT("site/join-a"), SW_SLICE_LIT("td"),
                                           NOW, &token, NULL),
                     SW_OK);
    t = sw_buf_slice(&token);
    assert_true(sw_slice_eq_str(sw_machine_token_id(&a, t), "site/join-a"));
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_err err = {0};
        int rc = sw_machine_token_verify(public, t, sw_slice_str(cases[i].id),
                                         sw_slice_str(cases[i].td), cases[i].now, &err);

        assert_int_equal(rc, cases[i].why ? SW_EDENIED : SW_OK);
        if (cases[i].why)
            assert_non_null(strstr(err.msg, cases[i].why));
    }
    assert_int_equal(sw_machine_token_verify(other_public, t, SW_SLICE_LIT("site/join-a"),
                                             SW_SLICE_LIT("td"), NOW, NULL),
                     SW_EDENIED);
    assert_int_equal(sw_machine_token_verify(public, sw_slice_head(t, t.n - 2),
                                             SW_SLICE_LIT("site/join-a"), SW_SLICE_LIT("td"), NOW,
                                             NULL),
                     SW_EDENIED);
    sw_jws_key_free(key);
    sw_jws_key_free(public);
    sw_jws_key_free(other);
    sw_jws_key_free(other_public);
}

static void tokens_of_others_are_not_a_machines(void **state)
{
    static const char *const texts[] = {"",
                                        "a",
                                        "a.b",
                                        "a.b.c",
                                        "..",
                                        "eyJ.eyJ.x",
                                        "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.x"};
    SW_ARENA_AUTO a = {0};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(texts); i++)
        assert_null(sw_machine_token_id(&a, sw_slice_str(texts[i])).p);
}

static void the_root_of_a_code_is_found_among_others(void **state)
{
    struct sw_ca *mine = sw_ca_new(SW_SLICE_LIT("td"), 0, NULL);
    struct sw_ca *other = sw_ca_new(SW_SLICE_LIT("td"), 0, NULL);
    SW_BUF_AUTO both = {.max = 1 << 16};
    uint8_t hash[SW_JOIN_HASH];
    struct sw_slice found;
    struct sw_err err = {0};

    (void)state;
    assert_int_equal(sw_join_root_hash(sw_ca_root_pem(mine), hash, &err), SW_OK);
    assert_int_equal(sw_buf_append_slice(&both, sw_ca_root_pem(other)), SW_OK);
    assert_int_equal(sw_join_root_find(sw_buf_slice(&both), hash, &found, &err), SW_EDENIED);
    assert_non_null(strstr(err.msg, "The secret was not sent"));
    assert_int_equal(sw_buf_append_slice(&both, sw_ca_root_pem(mine)), SW_OK);
    assert_int_equal(sw_join_root_find(sw_buf_slice(&both), hash, &found, &err), SW_OK);
    assert_int_equal(sw_slice_trim_lines(found).n, sw_slice_trim_lines(sw_ca_root_pem(mine)).n);
    assert_int_equal(sw_join_root_hash(SW_SLICE_LIT("nothing"), hash, &err), SW_EINVAL);
    sw_ca_free(mine);
    sw_ca_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_for_one_machine_and_a_while),
        cmocka_unit_test(tokens_of_others_are_not_a_machines),
        cmocka_unit_test(the_root_of_a_code_is_found_among_others),
    };

    return cmocka_run_group_tests_name("identity join token", tests, NULL, NULL);
}
