/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of ordinary HTTPS servers: whom they believe and whom they do not. */
#include "tls/tls.h"

#include "base/mem.h"
#include "base/time.h"
#include "tls/cert/ca.h"
#include "tls/crypto/aead.h"
#include "tls/verify.h"

#include "pair.h"
#include "test.h"

struct fixture {
    struct sw_ca *ca;
    struct sw_ca *other;
};

static int set_up(void **state)
{
    struct fixture *f = SW_NEW(struct fixture);

    f->ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, NULL);
    f->other = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, NULL);
    assert_non_null(f->ca);
    assert_non_null(f->other);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    sw_ca_free(f->ca);
    sw_ca_free(f->other);
    sw_free(f);
    return 0;
}

/* cn == NULL: no certificate, only trust. roots == NULL: trust nobody. */
static struct sw_tls_cred *cred(struct sw_ca *signer, struct sw_ca *roots,
                                const struct sw_ca_web *web)
{
    SW_BUF_AUTO chain;
    SW_BUF_AUTO key;
    struct sw_tls_cred_pem pem = {.any_identity = true, .trust_nobody = !roots};
    struct sw_err err = {0};
    struct sw_tls_cred *c;

    sw_buf_init(&chain, 1 << 16);
    sw_buf_init(&key, 1 << 16);
    if (web) {
        assert_int_equal(sw_ca_issue_web(signer, web, &chain, &key, &err), SW_OK);
        pem.chain = sw_buf_slice(&chain);
        pem.key = sw_buf_slice(&key);
    }
    if (roots)
        pem.roots = sw_ca_root_pem(roots);
    c = sw_tls_cred_new(&pem, &err);
    if (!c)
        fail_msg("%s", err.msg);
    return c;
}

static const char *const server_sans[] = {
    "api.example.com", "*.pods.example.com", "127.0.0.1", "2001:db8::7", "*.com", "*",
    "a.*.example.com", "w*.example.com",     NULL};
static const struct sw_ca_web server_web = {
    .cn = "only-in-cn.example.com", .sans = server_sans, .server = true, .ttl_s = 3600};

/* The client's verdict. */
static int run(struct sw_tls_cred *client, struct sw_tls_cred *server, const char *host,
               bool insecure, struct sw_err *err, bool *ret_refused_client, bool *ret_peer)
{
    struct sw_tls_params cp = {.web = true,
                               .cred = client,
                               .host = host,
                               .sni = host && !strpbrk(host, ":*") ? host : NULL,
                               .tls12 = true,
                               .alpn = "http/1.1",
                               .insecure_skip = insecure};
    struct sw_tls_params sp = {.web = true, .server = true, .cred = server, .alpn = "h2,http/1.1"};
    struct sw_tls *c = sw_tls_new(&cp, err);
    struct sw_tls *s = sw_tls_new(&sp, err);
    struct pair_result r;
    int rc;

    assert_non_null(c);
    assert_non_null(s);
    pair_run(c, s, 1 << 20, &r);
    *err = r.client_err;
    rc = r.client_rc;
    if (rc == SW_OK) {
        assert_int_equal(r.server_rc, SW_OK);
        assert_string_equal(sw_tls_alpn(c), "http/1.1");
        if (ret_refused_client)
            *ret_refused_client = sw_tls_peer_refused(s);
        if (ret_peer)
            *ret_peer = sw_tls_peer(s) != NULL;
        assert_int_equal(sw_tls_peer(c) == NULL, insecure);
    }
    sw_tls_free(c);
    sw_tls_free(s);
    pair_done(&r);
    return rc;
}

/* The same key and name, with and without constraints: what the one signed, below the other. */
static void dns_name_constraints_hold(void **state)
{
    static const struct sw_slice domains[] = {SW_SLICE_LIT("example.com")};
    static const char *const inside[] = {"a.example.com", NULL};
    static const char *const outside[] = {"login.bank.test", NULL};
    static const char *const both[] = {"a.example.com", "login.bank.test", NULL};
    static const char *const address[] = {"127.0.0.1", NULL};
    static const struct {
        const char *const *sans;
        const char *host;
        bool ok;
    } cases[] = {{inside, "a.example.com", true},
                 {outside, "login.bank.test", false},
                 {both, "a.example.com", false},
                 {address, "127.0.0.1", false}};
    struct sw_ca *ca = sw_ca_new(SW_SLICE_LIT("td.test"), 0, NULL);
    struct sw_tls_cred *servers[SW_ARRAY_LEN(cases)];
    struct sw_tls_cred *clients[SW_ARRAY_LEN(cases)];
    const struct sw_ca_scope scope = {
        .trust_domain = SW_SLICE_LIT("td.test"), .domains = domains, .n_domains = 1};
    struct sw_err err = {0};
    struct sw_tls_cred *c;
    struct sw_tls_cred *s;
    bool refused = false;
    bool renewed;

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        servers[i] = cred(
            ca, ca,
            &(struct sw_ca_web){.cn = "x", .sans = cases[i].sans, .server = true, .ttl_s = 3600});
        clients[i] =
            cred(ca, ca, &(struct sw_ca_web){.cn = "x", .sans = cases[i].sans, .ttl_s = 3600});
    }
    s = cred(ca, ca, &(struct sw_ca_web){.cn = "s", .sans = inside, .server = true, .ttl_s = 3600});
    assert_int_equal(sw_ca_narrow(ca, &scope, &renewed, &err), SW_OK);
    assert_true(renewed);
    c = cred(NULL, ca, NULL);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        int rc = run(c, servers[i], cases[i].host, false, &err, NULL, NULL);

        if (rc != (cases[i].ok ? SW_OK : SW_EDENIED))
            fail_msg("server '%s': %d %s", cases[i].host, rc, err.msg);
        assert_true(cases[i].ok || strstr(err.msg, "outside the name constraints"));
        sw_tls_cred_unref(servers[i]);
    }
    sw_tls_cred_unref(s);
    s = cred(ca, ca, &(struct sw_ca_web){.cn = "s", .sans = inside, .server = true, .ttl_s = 3600});
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        assert_int_equal(run(clients[i], s, "a.example.com", false, &err, &refused, NULL), SW_OK);
        if (refused == cases[i].ok)
            fail_msg("client '%s'", cases[i].host);
        sw_tls_cred_unref(clients[i]);
    }
    sw_tls_cred_unref(c);
    sw_tls_cred_unref(s);
    sw_ca_free(ca);
}

static void names_are_checked(void **state)
{
    static const struct {
        const char *host;
        bool ok;
    } cases[] = {
        {"api.example.com", true},
        {"API.Example.com", true},
        {"api.example.com.", true},
        {"x.pods.example.com", true},
        {"127.0.0.1", true},
        {"2001:db8::7", true},
        {"2001:0db8:0:0::0007", true},
        {"127.0.0.2", false},
        {"2001:db8::8", false},
        {"::ffff:127.0.0.1", false},
        {"x.y.pods.example.com", false},
        {"pods.example.com", false},
        {".pods.example.com", false},
        {"only-in-cn.example.com", false},
        {"example.com", false},
        {"evil.com", false},
        {"localhost", false},
        {"a.b.example.com", false},
        {"www.example.com", false},
        {"api.example.com.evil.org", false},
        {"*.pods.example.com", false},
    };
    struct fixture *f = *state;
    struct sw_tls_cred *s = cred(f->ca, f->ca, &server_web);
    struct sw_tls_cred *c = cred(NULL, f->ca, NULL);

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_err err = {0};
        int rc = run(c, s, cases[i].host, false, &err, NULL, NULL);

        if (rc != (cases[i].ok ? SW_OK : SW_EDENIED))
            fail_msg("%s: %d %s", cases[i].host, rc, err.msg);
    }
    sw_tls_cred_unref(s);
    sw_tls_cred_unref(c);
}

static void the_wrong_ca_is_refused(void **state)
{
    struct fixture *f = *state;
    struct sw_tls_cred *s = cred(f->other, f->ca, &server_web);
    struct sw_tls_cred *c = cred(NULL, f->ca, NULL);
    struct sw_tls_cred *nobody = cred(NULL, NULL, NULL);
    struct sw_err err = {0};

    assert_int_equal(run(c, s, "api.example.com", false, &err, NULL, NULL), SW_EDENIED);
    assert_non_null(strstr(err.msg, "trusted root"));
    assert_int_equal(run(nobody, s, "api.example.com", false, &err, NULL, NULL), SW_EDENIED);
    /* Only the explicit word lets it pass, and then nothing is claimed about the peer. */
    assert_int_equal(run(c, s, "api.example.com", true, &err, NULL, NULL), SW_OK);
    assert_int_equal(run(nobody, s, NULL, true, &err, NULL, NULL), SW_OK);
    sw_tls_cred_unref(s);
    sw_tls_cred_unref(c);
    sw_tls_cred_unref(nobody);
}

static void expired_and_misused_certificates(void **state)
{
    struct fixture *f = *state;
    struct sw_ca_web old = server_web;
    struct sw_ca_web user = server_web;
    struct sw_tls_cred *c = cred(NULL, f->ca, NULL);
    struct sw_tls_cred *s;
    struct sw_err err = {0};

    old.backdate_s = 7200;
    s = cred(f->ca, f->ca, &old);
    assert_int_equal(run(c, s, "api.example.com", false, &err, NULL, NULL), SW_EDENIED);
    assert_non_null(strstr(err.msg, "expired"));
    sw_tls_cred_unref(s);
    /* A user's certificate cannot play server, even with the right names in it. */
    user.server = false;
    s = cred(f->ca, f->ca, &user);
    assert_int_equal(run(c, s, "api.example.com", false, &err, NULL, NULL), SW_EDENIED);
    sw_tls_cred_unref(s);
    sw_tls_cred_unref(c);
}

static void client_certificates_are_shown(void **state)
{
    struct fixture *f = *state;
    const struct sw_ca_web user = {.cn = "alice", .ttl_s = 3600};
    struct sw_tls_cred *s = cred(f->ca, f->ca, &server_web);
    struct sw_tls_cred *c = cred(f->ca, f->ca, &user);
    struct sw_tls_cred *foreign = cred(f->other, f->ca, &user);
    struct sw_err err = {0};
    bool refused = true;
    bool peer = false;

    assert_int_equal(run(c, s, "127.0.0.1", false, &err, &refused, &peer), SW_OK);
    assert_true(peer && !refused);
    assert_int_equal(run(foreign, s, "127.0.0.1", false, &err, &refused, &peer), SW_OK);
    assert_true(!peer && refused);
    sw_tls_cred_unref(s);
    sw_tls_cred_unref(c);
    sw_tls_cred_unref(foreign);
}

/* A verdict about the chain, remembered, must not carry over to another name. */
static void remembered_chains_do_not_skip_the_name(void **state)
{
    struct fixture *f = *state;
    struct sw_tls_cred *s = cred(f->ca, f->ca, &server_web);
    struct sw_tls_cred *c = cred(NULL, f->ca, NULL);
    struct sw_err err = {0};
    uint64_t hits;

    assert_int_equal(run(c, s, "api.example.com", false, &err, NULL, NULL), SW_OK);
    hits = sw_verify_cache_hits();
    assert_int_equal(run(c, s, "api.example.org", false, &err, NULL, NULL), SW_EDENIED);
    assert_true(sw_verify_cache_hits() > hits);
    assert_non_null(strstr(err.msg, "api.example.org"));
    sw_tls_cred_unref(s);
    sw_tls_cred_unref(c);
}

static void unsafe_parameters_are_refused(void **state)
{
    struct fixture *f = *state;
    struct sw_tls_cred *s = cred(f->ca, f->ca, &server_web);
    struct sw_tls_params p = {.cred = s, .web = true};
    struct sw_err err = {0};

    assert_null(sw_tls_new(&p, &err));
    p.host = "";
    assert_null(sw_tls_new(&p, &err));
    p = (struct sw_tls_params){.cred = s, .insecure_skip = true, .host = "x"};
    assert_null(sw_tls_new(&p, &err)); /* never for mesh clients */
    p = (struct sw_tls_params){.cred = s, .insecure_skip = true, .web = true, .server = true};
    assert_null(sw_tls_new(&p, &err));
    sw_tls_cred_unref(s);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(names_are_checked),
        T(dns_name_constraints_hold),
        T(the_wrong_ca_is_refused),
        T(expired_and_misused_certificates),
        T(client_certificates_are_shown),
        T(remembered_chains_do_not_skip_the_name),
        T(unsafe_parameters_are_refused),
    };

    if (sw_aead_init(SW_AEAD_AUTO, NULL) != SW_OK)
        return 1;
    return cmocka_run_group_tests_name("web", tests, NULL, NULL);
}
