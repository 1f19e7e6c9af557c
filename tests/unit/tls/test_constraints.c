/* SPDX-License-Identifier: Apache-2.0 */
/* What a CA may sign: constraints on hosts of URIs, scopes of our own CA, roots renewed with them.
 */
#include "tls/cert/constraints.h"

#include "tls/cert/ca.h"
#include "tls/cert/cred.h"
#include "tls/cert/x509.h"

#include "test.h"

static void hosts_of_uris(void **state)
{
    static const struct {
        const char *uri;
        const char *host; /* NULL: none */
    } cases[] = {
        {"spiffe://cluster.local/ns/a/sa/b", "cluster.local"},
        {"spiffe://td", "td"},
        {"https://Host.Example:8443/x", "Host.Example"},
        {"https://host.example.", "host.example"},
        {"https://host.example?x", "host.example"},
        {"https://host.example#x", "host.example"},
        {"https://user@host.example/", NULL},
        {"https://user:pw@host.example/", NULL},
        {"https://a:1@host.example/", NULL},
        {"https://10.0.0.1/", NULL},
        {"https://127.1/", NULL},
        {"https://0x7f.1/", NULL},
        {"https://[2001:db8::1]/", NULL},
        {"https://.example/", NULL},
        {"https:///x", NULL},
        {"https://./", NULL},
        {"https://a%2eb/", NULL},
        {"urn:uuid:1", NULL},
        {"mailto:a@b", NULL},
        {"//host/x", NULL},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_slice host = {0};
        bool has = sw_uri_host(sw_slice_str(cases[i].uri), &host);

        if (has != (cases[i].host != NULL) || (has && !sw_slice_eq_str(host, cases[i].host)))
            fail_msg("'%s'", cases[i].uri);
    }
}

static void hosts_and_domains(void **state)
{
    static const struct {
        const char *constraint;
        const char *host;
        bool covers;
    } cases[] = {
        {"example.com", "example.com", true},      {"example.com", "EXAMPLE.com", true},
        {"example.com", "a.example.com", false},   {"example.com", "badexample.com", false},
        {".example.com", "a.example.com", true},   {".example.com", "a.b.example.com", true},
        {".example.com", "example.com", false},    {".example.com", ".example.com", false},
        {".example.com", "badexample.com", false}, {"", "anything", true},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        if (sw_uri_constraint_covers(sw_slice_str(cases[i].constraint),
                                     sw_slice_str(cases[i].host)) != cases[i].covers)
            fail_msg("'%s' and '%s'", cases[i].constraint, cases[i].host);
    }
}

static void dns_names_and_domains(void **state)
{
    static const struct {
        const char *constraint;
        const char *name;
        bool covers;
    } cases[] = {
        {"example.com", "example.com", true},
        {"example.com", "a.b.example.com", true},
        {"example.com", "A.EXAMPLE.com", true},
        {"EXAMPLE.com", "a.example.com", true},
        {"example.com", "badexample.com", false},
        {"example.com", "example.com.evil", false},
        {"example.com", "com", false},
        {"example.com", "", false},
        {".example.com", "a.example.com", true},
        {".example.com", "example.com", false},
        {".example.com", ".example.com", false},
        {"", "anything", true},
        {"example.com", ".example.com", true},
        {"com", "com", true},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        if (sw_dns_constraint_covers(sw_slice_str(cases[i].constraint),
                                     sw_slice_str(cases[i].name)) != cases[i].covers)
            fail_msg("'%s' and '%s'", cases[i].constraint, cases[i].name);
    }
}

static int issue_web(const struct sw_ca *ca, const char *name, struct sw_buf *chain,
                     struct sw_err *err)
{
    const char *const sans[] = {name, NULL};
    SW_BUF_AUTO key = {.max = SW_TLS_PEM_MAX};

    return sw_ca_issue_web(
        ca, &(struct sw_ca_web){.cn = "x", .sans = sans, .server = true, .ttl_s = 3600}, chain,
        &key, err);
}

static const struct sw_slice domains[] = {SW_SLICE_LIT("fabric.test"), SW_SLICE_LIT("localhost")};
static const struct sw_ca_scope scope = {.trust_domain = SW_SLICE_LIT("td.test"),
                                         .domains = domains,
                                         .n_domains = SW_ARRAY_LEN(domains)};

static void check_names(const struct sw_ca *ca)
{
    static const struct {
        const char *name;
        int rc;
    } cases[] = {
        {"fabric.test", SW_OK},           {"a.b.fabric.test", SW_OK},
        {"demo.localhost", SW_OK},        {"A.FABRIC.test", SW_OK},
        {"bank.example", SW_EDENIED},     {"badfabric.test", SW_EDENIED},
        {"fabric.test.evil", SW_EDENIED}, {"test", SW_EDENIED},
        {"10.0.0.1", SW_EDENIED},         {"::1", SW_EDENIED},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_BUF_AUTO chain = {.max = SW_TLS_PEM_MAX};
        struct sw_err err = {0};

        if (issue_web(ca, cases[i].name, &chain, &err) != cases[i].rc)
            fail_msg("'%s': %s", cases[i].name, err.msg);
    }
}

static void a_ca_signs_within_its_scope(void **state)
{
    struct sw_err err = {0};
    struct sw_ca *ca = sw_ca_new_scoped(&scope, 0, &err);
    SW_BUF_AUTO chain = {.max = SW_TLS_PEM_MAX};
    SW_BUF_AUTO key = {.max = SW_TLS_PEM_MAX};
    struct sw_ca_leaf leaf = {.id = SW_SLICE_LIT("spiffe://td.test/ns/a/sa/b")};

    (void)state;
    assert_non_null(ca);
    check_names(ca);
    assert_int_equal(sw_ca_issue(ca, &leaf, &chain, &key, &err), SW_OK);
    leaf = (struct sw_ca_leaf){.id = SW_SLICE_LIT("spiffe://other.test/ns/a/sa/b"),
                               .foreign_trust_domain = true};
    assert_int_equal(sw_ca_issue(ca, &leaf, &chain, &key, &err), SW_EDENIED);
    sw_ca_free(ca);
}

static void an_old_root_is_renewed_with_its_key(void **state)
{
    struct sw_err err = {0};
    struct sw_ca *ca = sw_ca_new(SW_SLICE_LIT("td.test"), 0, &err);
    SW_BUF_AUTO old_root = {.max = SW_TLS_PEM_MAX};
    SW_BUF_AUTO old_key = {.max = SW_TLS_PEM_MAX};
    SW_BUF_AUTO key = {.max = SW_TLS_PEM_MAX};
    SW_BUF_AUTO chain = {.max = SW_TLS_PEM_MAX};
    bool renewed = false;

    (void)state;
    assert_non_null(ca);
    assert_int_equal(issue_web(ca, "bank.example", &chain, &err), SW_OK);
    assert_int_equal(sw_buf_append_slice(&old_root, sw_ca_root_pem(ca)), SW_OK);
    assert_int_equal(sw_ca_key_pem(ca, &old_key, &err), SW_OK);
    assert_int_equal(sw_ca_narrow(ca, &scope, &renewed, &err), SW_OK);
    assert_true(renewed && !sw_slice_eq(sw_buf_slice(&old_root), sw_ca_root_pem(ca)));
    assert_int_equal(sw_ca_key_pem(ca, &key, &err), SW_OK);
    assert_true(sw_slice_eq(sw_buf_slice(&key), sw_buf_slice(&old_key)));
    check_names(ca);
    /* The same again changes nothing, another list does. */
    assert_int_equal(sw_ca_narrow(ca, &scope, &renewed, &err), SW_OK);
    assert_false(renewed);
    assert_int_equal(sw_ca_narrow(ca,
                                  &(struct sw_ca_scope){.trust_domain = scope.trust_domain,
                                                        .domains = domains,
                                                        .n_domains = 1},
                                  &renewed, &err),
                     SW_OK);
    assert_true(renewed);
    assert_int_equal(issue_web(ca, "demo.localhost", &chain, &err), SW_EDENIED);
    sw_ca_free(ca);
}

static void the_root_of_somebody_else_stays(void **state)
{
    struct sw_err err = {0};
    struct sw_ca *ca = sw_ca_new(SW_SLICE_LIT("company.test"), 0, &err);
    struct sw_slice root = sw_ca_root_pem(ca);
    bool renewed = true;

    (void)state;
    assert_int_equal(sw_ca_narrow(ca, &scope, &renewed, &err), SW_OK);
    assert_true(!renewed && sw_slice_eq(root, sw_ca_root_pem(ca)));
    check_names(ca);
    sw_ca_free(ca);
}

static void names_and_domains(void **state)
{
    (void)state;
    assert_true(sw_x509_name_under(SW_SLICE_LIT("a.b"), SW_SLICE_LIT("b")));
    assert_true(sw_x509_name_under(SW_SLICE_LIT("B"), SW_SLICE_LIT("b")));
    assert_false(sw_x509_name_under(SW_SLICE_LIT("ab"), SW_SLICE_LIT("b")));
    assert_false(sw_x509_name_under(SW_SLICE_LIT(""), SW_SLICE_LIT("b")));
    assert_false(sw_x509_name_under(SW_SLICE_LIT("a.b"), SW_SLICE_LIT("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_of_uris),
        cmocka_unit_test(hosts_and_domains),
        cmocka_unit_test(dns_names_and_domains),
        cmocka_unit_test(a_ca_signs_within_its_scope),
        cmocka_unit_test(an_old_root_is_renewed_with_its_key),
        cmocka_unit_test(the_root_of_somebody_else_stays),
        cmocka_unit_test(names_and_domains),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
