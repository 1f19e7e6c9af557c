/* SPDX-License-Identifier: Apache-2.0 */
/* HTTPS servers: optional client certificates by name, and signed tokens. */
#include "tls/tls.h"

#include "base/mem.h"
#include "tls/cert/ca.h"
#include "tls/crypto/jws.h"

#include "pair.h"
#include "test.h"

struct fixture {
    struct sw_ca *ca;
    struct sw_ca *other;
    struct sw_tls_cred *server;
};

static struct sw_tls_cred *web_cred(struct sw_ca *ca, struct sw_ca *trust,
                                    const struct sw_ca_web *web)
{
    SW_BUF_AUTO chain = {.max = 65536};
    SW_BUF_AUTO key = {.max = 65536};
    struct sw_err err = {0};
    struct sw_tls_cred *c;

    assert_int_equal(sw_ca_issue_web(ca, web, &chain, &key, &err), SW_OK);
    c = sw_tls_cred_new(&(struct sw_tls_cred_pem){.chain = sw_buf_slice(&chain),
                                                  .key = sw_buf_slice(&key),
                                                  .roots = sw_ca_root_pem(trust),
                                                  .any_identity = true},
                        &err);
    assert_non_null(c);
    return c;
}

static int set_up(void **state)
{
    static const char *const sans[] = {"localhost", "127.0.0.1", "::1", NULL};
    struct fixture *f = SW_NEW(struct fixture);
    struct sw_err err;

    f->ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, &err);
    f->other = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, &err);
    f->server =
        web_cred(f->ca, f->ca,
                 &(struct sw_ca_web){.cn = "api", .sans = sans, .server = true, .ttl_s = 3600});
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    sw_tls_cred_unref(f->server);
    sw_ca_free(f->ca);
    sw_ca_free(f->other);
    sw_free(f);
    return 0;
}

/* Connects with a credential (NULL: none) and hands the server's side to 'look'. */
static void connect_as(struct fixture *f, struct sw_tls_cred *cred, bool tls12, const char *alpn,
                       void (*look)(struct sw_tls *server))
{
    struct sw_err err = {0};
    struct sw_tls_cred *none =
        cred ? NULL
             : sw_tls_cred_new(&(struct sw_tls_cred_pem){.roots = sw_ca_root_pem(f->ca)}, &err);
    struct sw_tls_params cp = {
        .cred = cred ? cred : none, .insecure_any = true, .tls12 = tls12, .alpn = alpn};
    struct sw_tls_params sp = {
        .server = true, .web = true, .tls12 = true, .cred = f->server, .alpn = "h2,http/1.1"};
    struct sw_tls *c = sw_tls_new(&cp, &err);
    struct sw_tls *s = sw_tls_new(&sp, &err);
    struct pair_result r;

    assert_non_null(c);
    assert_non_null(s);
    pair_run(c, s, 4096, &r);
    assert_int_equal(r.server_rc, SW_OK);
    assert_int_equal(r.client_rc, SW_OK);
    look(s);
    pair_done(&r);
    sw_tls_free(c);
    sw_tls_free(s);
    sw_tls_cred_unref(none);
}

static void look_nobody(struct sw_tls *s)
{
    assert_null(sw_tls_peer(s));
    assert_false(sw_tls_peer_refused(s));
}

static void look_nobody_plain(struct sw_tls *s)
{
    look_nobody(s);
    assert_string_equal(sw_tls_alpn(s), "");
}

static void look_alice(struct sw_tls *s)
{
    const struct sw_tls_peer *p = sw_tls_peer(s);

    assert_non_null(p);
    assert_true(sw_slice_eq_str(p->cn, "alice, \"the\" admin"));
    assert_int_equal(p->n_orgs, 2);
    /* A subject has no fixed order of its parts; both must be there. */
    assert_true(sw_slice_eq_str(p->orgs[0], "system:masters") ||
                sw_slice_eq_str(p->orgs[1], "system:masters"));
    assert_true(sw_slice_eq_str(p->orgs[0], "dev") || sw_slice_eq_str(p->orgs[1], "dev"));
    assert_string_equal(sw_tls_alpn(s), "http/1.1");
}

static void look_refused(struct sw_tls *s)
{
    assert_null(sw_tls_peer(s));
    assert_true(sw_tls_peer_refused(s));
}

static void client_without_certificate_is_served(void **state)
{
    connect_as(*state, NULL, false, "h2", look_nobody);
    connect_as(*state, NULL, true, "h2", look_nobody);
}

static void client_without_alpn_is_served(void **state)
{
    connect_as(*state, NULL, false, NULL, look_nobody_plain);
}

static void names_of_the_subject_are_exposed(void **state)
{
    static const char *const groups[] = {"system:masters", "dev", NULL};
    struct fixture *f = *state;
    struct sw_tls_cred *c =
        web_cred(f->ca, f->ca,
                 &(struct sw_ca_web){.cn = "alice, \"the\" admin", .orgs = groups, .ttl_s = 60});

    connect_as(f, c, false, "http/1.1", look_alice);
    connect_as(f, c, true, "http/1.1", look_alice);
    sw_tls_cred_unref(c);
}

static void foreign_certificate_counts_as_none(void **state)
{
    struct fixture *f = *state;
    struct sw_tls_cred *c =
        web_cred(f->other, f->ca, &(struct sw_ca_web){.cn = "mallory", .ttl_s = 60});

    connect_as(f, c, false, "h2", look_refused);
    sw_tls_cred_unref(c);
}

static void server_certificate_is_no_client_certificate(void **state)
{
    struct fixture *f = *state;

    connect_as(f, f->server, false, "h2", look_refused);
}

static void mesh_servers_still_need_an_identity(void **state)
{
    struct fixture *f = *state;
    struct sw_err err = {0};

    assert_null(
        sw_tls_new(&(struct sw_tls_params){.server = true, .cred = f->server, .alpn = "h2"}, &err));
    assert_int_equal(err.rc, SW_EINVAL);
}

/* --- tokens --- */

static void tokens_verify_and_forgeries_do_not(void **state)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO pem = {.max = 65536};
    SW_BUF_AUTO token = {.max = SW_JWS_TOKEN_MAX};
    struct sw_err err = {0};
    struct sw_jws_key *k = sw_jws_key_new(&err);
    struct sw_jws_key *again;
    struct sw_jws_key *other = sw_jws_key_new(&err);
    struct sw_slice payload;
    char *copy;

    (void)state;
    assert_non_null(k);
    assert_int_equal(sw_jws_key_pem(k, &pem, &err), SW_OK);
    again = sw_jws_key_from_pem(sw_buf_slice(&pem), &err);
    assert_non_null(again);
    for (int i = 0; i < 64; i++) { /* short r and s are rare: make them likely */
        sw_buf_clear(&token);
        assert_int_equal(sw_jws_sign(k, SW_SLICE_LIT("{\"sub\":\"x\"}"), &token, &err), SW_OK);
        assert_int_equal(sw_jws_verify(again, &a, sw_buf_slice(&token), &payload, &err), SW_OK);
        assert_true(sw_slice_eq_str(payload, "{\"sub\":\"x\"}"));
    }
    assert_int_equal(sw_jws_verify(other, &a, sw_buf_slice(&token), &payload, &err), SW_EDENIED);
    copy = sw_arena_dup(&a, sw_buf_slice(&token));
    for (size_t i = 0; copy[i]; i++) {
        char was = copy[i];

        copy[i] = was == 'A' ? 'B' : 'A';
        assert_int_not_equal(sw_jws_verify(k, &a, sw_slice_str(copy), &payload, NULL), SW_OK);
        copy[i] = was;
    }
    sw_jws_key_free(k);
    sw_jws_key_free(again);
    sw_jws_key_free(other);
}

static void other_algorithms_are_refused(void **state)
{
    static const char *const heads[] = {"{\"alg\":\"none\"}",
                                        "{\"alg\":\"HS256\"}",
                                        "{}",
                                        "[]",
                                        "",
                                        "{\"alg\":\"ES256\",\"crit\":[\"x\"]}"};
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    struct sw_jws_key *k = sw_jws_key_new(&err);
    struct sw_slice payload;

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(heads); i++) {
        SW_BUF_AUTO t = {.max = 4096};

        assert_int_equal(sw_base64url_append(&t, sw_slice_str(heads[i])), SW_OK);
        assert_int_equal(sw_buf_append_str(&t, ".e30."), SW_OK);
        assert_int_equal(sw_jws_verify(k, &a, sw_buf_slice(&t), &payload, NULL), SW_EINVAL);
    }
    assert_int_equal(sw_jws_verify(k, &a, SW_SLICE_LIT("a.b"), &payload, NULL), SW_EINVAL);
    assert_int_equal(sw_jws_verify(k, &a, SW_SLICE_LIT("a.b.c.d"), &payload, NULL), SW_EINVAL);
    sw_jws_key_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(client_without_certificate_is_served, set_up, tear_down),
        cmocka_unit_test_setup_teardown(client_without_alpn_is_served, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_of_the_subject_are_exposed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(foreign_certificate_counts_as_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(server_certificate_is_no_client_certificate, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(mesh_servers_still_need_an_identity, set_up, tear_down),
        cmocka_unit_test(tokens_verify_and_forgeries_do_not),
        cmocka_unit_test(other_algorithms_are_refused),
    };

    return cmocka_run_group_tests_name("tls web server", tests, NULL, NULL);
}
