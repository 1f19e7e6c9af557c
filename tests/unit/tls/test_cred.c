/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/cert/cred.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include <gnutls/gnutls.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/time.h"
#include "tls/cert/ca.h"
#include "tls/cert/cred_core.h"
#include "tls/cert/pemfile.h"
#include "tls/cert/x509text.h"

#include "pair.h"
#include "test.h"

#define ID "spiffe://td.example/ns/shop/sa/cart"

struct fixture {
    struct sw_ca *ca;
    struct sw_buf chain;
    struct sw_buf key;
    char dir[64];
};

static int set_up(void **state)
{
    struct fixture *f = SW_NEW(struct fixture);
    struct sw_err err;

    f->ca = sw_ca_new(SW_SLICE_LIT("td.example"), 0, &err);
    assert_non_null(f->ca);
    sw_buf_init(&f->chain, 1 << 20);
    sw_buf_init(&f->key, 1 << 20);
    assert_int_equal(sw_ca_issue(f->ca, &(struct sw_ca_leaf){.id = SW_SLICE_LIT(ID), .ttl_s = 3600},
                                 &f->chain, &f->key, &err),
                     SW_OK);
    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/spanwire-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    *state = f;
    return 0;
}

static void remove_file(const char *dir, const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    (void)unlink(path);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    remove_file(f->dir, "root.crt");
    remove_file(f->dir, "root.key");
    remove_file(f->dir, "x");
    assert_int_equal(rmdir(f->dir), 0); /* nothing temporary may be left */
    sw_buf_done(&f->chain);
    sw_buf_done(&f->key);
    sw_ca_free(f->ca);
    sw_free(f);
    return 0;
}

static struct sw_tls_cred_pem pem_of(struct fixture *f)
{
    return (struct sw_tls_cred_pem){.chain = sw_buf_slice(&f->chain),
                                    .key = sw_buf_slice(&f->key),
                                    .roots = sw_ca_root_pem(f->ca)};
}

static void tells_what_it_holds(void **state)
{
    struct sw_tls_cred_pem pem = pem_of(*state);
    struct sw_err err;
    struct sw_tls_cred *c = sw_tls_cred_new(&pem, &err);
    const struct sw_tls_cert_info *info;
    uint64_t now = sw_wall_ns() / SW_NS_PER_S;

    assert_non_null(c);
    assert_true(sw_slice_eq_str(sw_tls_cred_uri(c), ID));
    assert_true(sw_slice_eq_str(sw_tls_cred_id(c)->trust_domain, "td.example"));
    assert_in_range(sw_tls_cred_not_after(c), now + 3000, now + 3600);
    assert_in_range(sw_tls_cred_not_before(c), now - 660, now - 60);
    assert_int_equal(sw_tls_cred_chain(c, &info), 1);
    assert_true(sw_slice_eq(info[0].pem, pem.chain));
    assert_true(info[0].serial.n >= 38);
    assert_int_equal(sw_tls_cred_roots(c, &info), 1);
    assert_true(sw_slice_eq(info[0].pem, pem.roots));
    assert_false(sw_tls_cred_has_crl(c));
    assert_ptr_equal(sw_tls_cred_ref(c), c);
    assert_null(sw_tls_cred_unref(c));
    assert_null(sw_tls_cred_unref(c));
    assert_null(sw_tls_cred_unref(NULL));
}

static void root_in_the_chain_is_dropped(void **state)
{
    struct fixture *f = *state;
    struct sw_tls_cred_pem pem;
    const struct sw_tls_cert_info *info;
    struct sw_tls_cred *c;
    struct sw_err err;

    assert_int_equal(sw_buf_append_slice(&f->chain, sw_ca_root_pem(f->ca)), SW_OK);
    pem = pem_of(f);
    c = sw_tls_cred_new(&pem, &err);
    assert_non_null(c);
    assert_int_equal(sw_tls_cred_chain(c, &info), 1);
    sw_tls_cred_unref(c);
}

static void refuse(struct sw_tls_cred_pem pem, const char *why)
{
    struct sw_err err = {0};

    assert_null(sw_tls_cred_new(&pem, &err));
    if (!strstr(err.msg, why))
        fail_msg("'%s' lacks '%s'", err.msg, why);
    assert_true(err.rc == SW_EINVAL || err.rc == SW_ELIMIT);
}

static void refuses_what_does_not_fit(void **state)
{
    struct fixture *f = *state;
    struct sw_tls_cred_pem good = pem_of(f);
    struct sw_tls_cred_pem pem = good;
    struct sw_ca *other = sw_ca_new(SW_SLICE_LIT("td.example"), 0, NULL);
    SW_BUF_AUTO chain = {.max = 1 << 20};
    SW_BUF_AUTO key = {.max = 1 << 20};

    assert_int_equal(
        sw_ca_issue(other, &(struct sw_ca_leaf){.id = SW_SLICE_LIT(ID)}, &chain, &key, NULL),
        SW_OK);
    pem.key = sw_buf_slice(&key);
    refuse(pem, "do not belong together");
    pem = good;
    pem.roots = sw_slice("", 0);
    refuse(pem, "no trusted roots");
    pem.roots = SW_SLICE_LIT("rubbish");
    refuse(pem, "trusted roots");
    pem = good;
    pem.chain = SW_SLICE_LIT("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    refuse(pem, "certificate chain");
    pem = good;
    pem.chain = sw_slice("", 0);
    refuse(pem, "certificate chain");
    pem = good;
    pem.key = SW_SLICE_LIT("no key");
    refuse(pem, "private key");
    pem = good;
    pem.key = sw_slice("", 0);
    refuse(pem, "private key");
    pem = good;
    pem.chain = sw_ca_root_pem(f->ca);
    refuse(pem, "no SPIFFE identity");
    pem = good;
    pem.crl = SW_SLICE_LIT("not a crl");
    refuse(pem, "CRL");
    pem.crl = SW_SLICE_LIT("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n");
    refuse(pem, "CRL");
    pem.crl = good.chain;
    refuse(pem, "CRL");
    sw_ca_free(other);
}

static void revocations(void **state)
{
    struct fixture *f = *state;
    struct sw_tls_cred_pem pem = pem_of(f);
    SW_BUF_AUTO crl = {.max = 1 << 20};
    SW_BUF_AUTO forged = {.max = 1 << 20};
    struct sw_ca *other;
    struct sw_tls_cred *c;
    struct sw_tls_cred *d;
    struct sw_err err = {0};

    assert_int_equal(sw_ca_make_crl(f->ca, &pem.chain, 1, &crl, &err), SW_OK);
    pem.crl = sw_buf_slice(&crl);
    c = sw_tls_cred_new(&pem, &err);
    assert_non_null(c);
    assert_true(sw_tls_cred_has_crl(c));
    d = sw_tls_cred_with_crl(c, SW_SLICE_LIT(" \n"), &err);
    assert_non_null(d);
    assert_false(sw_tls_cred_has_crl(d));
    assert_false(sw_slice_eq(sw_cred_bundle_hash(c), sw_cred_bundle_hash(d)));
    assert_null(sw_tls_cred_with_crl(c, SW_SLICE_LIT("broken"), &err));
    sw_tls_cred_unref(c);
    assert_true(sw_slice_eq_str(sw_tls_cred_uri(d), ID)); /* lives on its own */
    sw_tls_cred_unref(d);
    /* The same issuer name, another key. */
    other = sw_ca_new(SW_SLICE_LIT("td.example"), 0, NULL);
    assert_int_equal(sw_ca_make_crl(other, NULL, 0, &forged, &err), SW_OK);
    pem.crl = sw_buf_slice(&forged);
    refuse(pem, "not signed by the issuer it names");
    sw_ca_free(other);
}

static time_t clock_behind(time_t *t)
{
    time_t now = time(NULL) - 5;

    if (t)
        *t = now;
    return now;
}

/* A list of this very second, or of an issuer whose clock is ahead, is in force at once. */
static void revocations_of_a_clock_ahead(void **state)
{
    struct fixture *f = *state;
    struct sw_tls_cred_pem pem = pem_of(f);
    SW_BUF_AUTO crl = {.max = 1 << 20};
    SW_BUF_AUTO forged = {.max = 1 << 20};
    struct sw_ca *other;
    struct sw_tls_cred *c;
    struct sw_err err = {0};

    assert_int_equal(sw_ca_make_crl(f->ca, &pem.chain, 1, &crl, &err), SW_OK);
    other = sw_ca_new(SW_SLICE_LIT("td.example"), 0, NULL);
    assert_int_equal(sw_ca_make_crl(other, NULL, 0, &forged, &err), SW_OK);
    sw_ca_free(other);
    gnutls_global_set_time_function(clock_behind);
    pem.crl = sw_buf_slice(&crl);
    c = sw_tls_cred_new(&pem, &err);
    if (!c)
        fail_msg("%s", err.msg);
    assert_true(sw_tls_cred_has_crl(c));
    sw_tls_cred_unref(c);
    pem.crl = sw_buf_slice(&forged);
    refuse(pem, "not signed by the issuer it names");
    gnutls_global_set_time_function(time);
}

static void crl_refuses_foreign_certificates(void **state)
{
    struct fixture *f = *state;
    struct sw_ca *other = sw_ca_new(SW_SLICE_LIT("elsewhere"), 0, NULL);
    SW_BUF_AUTO crl = {.max = 1 << 20};
    struct sw_slice cert = sw_buf_slice(&f->chain);
    struct sw_err err;

    assert_int_equal(sw_ca_make_crl(other, &cert, 1, &crl, &err), SW_EINVAL);
    cert = SW_SLICE_LIT("x");
    assert_int_equal(sw_ca_make_crl(other, &cert, 1, &crl, &err), SW_EINVAL);
    sw_ca_free(other);
}

static void ca_survives_the_disk(void **state)
{
    struct fixture *f = *state;
    struct sw_err err;
    struct sw_ca *again;
    struct stat st;
    char path[128];

    assert_int_equal(sw_ca_save(f->ca, f->dir, &err), SW_OK);
    (void)snprintf(path, sizeof(path), "%s/root.key", f->dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    again = sw_ca_load(f->dir, &err);
    assert_non_null(again);
    assert_true(sw_slice_eq(sw_ca_root_pem(again), sw_ca_root_pem(f->ca)));
    sw_ca_free(again);
    assert_int_equal(sw_ca_save(f->ca, f->dir, &err), SW_EINVAL);
    assert_non_null(strstr(err.msg, "already holds a CA"));
}

static void refuse_load(struct fixture *f, const char *why)
{
    struct sw_err err = {0};

    assert_null(sw_ca_load(f->dir, &err));
    if (!strstr(err.msg, why))
        fail_msg("'%s' lacks '%s'", err.msg, why);
}

static void broken_ca_directories(void **state)
{
    struct fixture *f = *state;
    struct sw_ca *other = sw_ca_new(SW_SLICE_LIT("td.example"), 0, NULL);
    struct sw_err err;
    char crt[128];
    char key[128];

    (void)snprintf(crt, sizeof(crt), "%s/root.crt", f->dir);
    (void)snprintf(key, sizeof(key), "%s/root.key", f->dir);
    refuse_load(f, "root.crt' does not exist");
    assert_int_equal(sw_ca_save(f->ca, f->dir, &err), SW_OK);
    assert_int_equal(sw_file_write(crt, sw_ca_root_pem(other), 0644, true, &err), SW_OK);
    refuse_load(f, "is not the key of");
    assert_int_equal(sw_file_write(crt, sw_buf_slice(&f->chain), 0644, true, &err), SW_OK);
    refuse_load(f, "is not that of a CA");
    assert_int_equal(sw_file_write(crt, SW_SLICE_LIT("x"), 0644, true, &err), SW_OK);
    refuse_load(f, "root certificate does not parse");
    assert_int_equal(sw_file_write(crt, sw_ca_root_pem(f->ca), 0644, true, &err), SW_OK);
    assert_int_equal(sw_file_write(key, SW_SLICE_LIT("x"), 0600, true, &err), SW_OK);
    refuse_load(f, "root key does not parse");
    assert_int_equal(unlink(key), 0);
    refuse_load(f, "root.key' does not exist");
    sw_ca_free(other);
}

static void the_first_whole_certificate_is_the_leaf(void **state)
{
#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END   "-----END CERTIFICATE-----"
    static const struct {
        const char *pem;
        const char *der; /* empty: none */
    } cases[] = {
        {BEGIN "\nTUlJ\nQg==\n" END "\n", "MIIB"},
        {"text\n" BEGIN "\r\n TU\tlJ Qg== \r\n" END, "MIIB"},
        {BEGIN "\nTUlJQg==\n" END "\n" BEGIN "\nTUlK\n" END, "MIIB"},
        {BEGIN "\nTUlJQg==\n", ""},
        {BEGIN "\nTUlJQg==\n-----END", ""},
        {BEGIN "\nTUlJQg=\n" END, ""},
        {BEGIN "\nA: b\n\nTUlJQg==\n" END, ""},
        {BEGIN END, ""},
        {"TUlJQg==", ""},
        {"", ""},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};

        assert_true(sw_slice_eq_str(sw_pem_leaf_der(&a, sw_slice_str(cases[i].pem)), cases[i].der));
    }
}

static void files_are_bounded_and_regular(void **state)
{
    struct fixture *f = *state;
    SW_BUF_AUTO small = {.max = 3};
    struct sw_err err;
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/x", f->dir);
    assert_int_equal(sw_file_write(path, SW_SLICE_LIT("four"), 0600, false, &err), SW_OK);
    assert_int_equal(sw_file_write(path, SW_SLICE_LIT("five"), 0600, false, &err), SW_EINVAL);
    assert_int_equal(sw_pemfile_read(path, &small, &err), SW_ELIMIT);
    assert_int_equal(sw_pemfile_read(f->dir, &small, &err), SW_EINVAL);
    assert_int_equal(sw_pemfile_read("/nonexistent/x", &small, &err), SW_ENOENT);
    assert_int_equal(sw_file_write("/nonexistent/x", SW_SLICE_LIT("a"), 0600, true, &err), SW_ESYS);
    assert_true(sw_pemfile_same(path, path));
    assert_false(sw_pemfile_same(path, f->dir));
}

static void issuing_has_rules(void **state)
{
    struct fixture *f = *state;
    SW_BUF_AUTO out = {.max = 1 << 20};
    struct sw_ca_leaf leaf = {.id = SW_SLICE_LIT("spiffe://other/ns/a/sa/b")};
    struct sw_err err;

    assert_int_equal(sw_ca_issue(f->ca, &leaf, &out, &out, &err), SW_EDENIED);
    leaf.foreign_trust_domain = true;
    assert_int_equal(sw_ca_issue(f->ca, &leaf, &out, &out, &err), SW_OK);
    leaf.id = SW_SLICE_LIT("spiffe://other/a/b");
    assert_int_equal(sw_ca_issue(f->ca, &leaf, &out, &out, &err), SW_EINVAL);
    leaf.id = SW_SLICE_LIT(ID);
    leaf.ttl_s = 10;
    leaf.not_before_s = 10;
    assert_int_equal(sw_ca_issue(f->ca, &leaf, &out, &out, &err), SW_EINVAL);
    leaf.ttl_s = UINT64_MAX;
    assert_int_equal(sw_ca_issue(f->ca, &leaf, &out, &out, &err), SW_EINVAL);
    out.max = sw_buf_len(&out) + 10;
    assert_int_equal(sw_ca_issue(f->ca, &(struct sw_ca_leaf){.id = leaf.id}, &out, &out, &err),
                     SW_ELIMIT);
    assert_null(sw_ca_new(SW_SLICE_LIT("a/b"), 0, &err));
    assert_null(sw_ca_new(SW_SLICE_LIT(""), 0, &err));
}

static void explain(struct sw_slice content, uint64_t now_s, int rc, const char *has)
{
    SW_BUF_AUTO out = {.max = 1 << 20};
    struct sw_err err = {0};
    struct sw_slice text;

    assert_int_equal(sw_x509_explain(content, now_s, &out, &err), rc);
    text = rc == SW_OK ? sw_buf_slice(&out) : sw_slice_str(err.msg);
    if (!memmem(text.p, text.n, has, strlen(has)))
        fail_msg("'%.*s' lacks '%s'", SW_SLICE_ARG(text), has);
}

static void explains_certificates(void **state)
{
    struct fixture *f = *state;
    uint64_t now = sw_wall_ns() / SW_NS_PER_S;
    struct sw_slice chain = sw_buf_slice(&f->chain);
    SW_BUF_AUTO crl = {.max = 1 << 20};

    explain(chain, now, SW_OK, "identity     " ID "\n");
    explain(chain, now, SW_OK, "issuer       CN=spanwire root of td.example\n");
    explain(chain, now + 30, SW_OK, "valid, 59m");
    explain(chain, now, SW_OK, "SECP256R1");
    explain(chain, now, SW_OK, "use          server, client\n");
    explain(chain, now + 7230, SW_OK, "EXPIRED 1h0m ago");
    explain(chain, now - 7200, SW_OK, "not valid yet");
    explain(sw_ca_root_pem(f->ca), now, SW_OK, "certificate 1 (CA)\n");
    explain(sw_ca_root_pem(f->ca), now, SW_OK, "other URI    spiffe://td.example\n");
    explain(sw_buf_slice(&f->key), now, SW_OK, "private key 1 (public half only)");
    assert_int_equal(sw_ca_make_crl(f->ca, &chain, 1, &crl, NULL), SW_OK);
    explain(sw_buf_slice(&crl), now, SW_OK, "certificates 1\n");
    explain(SW_SLICE_LIT("rubbish"), now, SW_EINVAL, "no certificate");
    explain(SW_SLICE_LIT("\x30\x82\x01"), now, SW_EINVAL, "broken certificate");
    explain(SW_SLICE_LIT(""), now, SW_EINVAL, "no certificate");
    explain(SW_SLICE_LIT("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----"), now, SW_EINVAL,
            "broken certificate");
}

/* Threads that only read one credential: for the thread sanitizer. */
static void *shake_hands(void *arg)
{
    struct sw_tls_cred *c = arg;
    struct sw_slice expect = sw_tls_cred_uri(c);

    for (int i = 0; i < 10; i++) {
        struct sw_tls *client = sw_tls_new(
            &(struct sw_tls_params){.cred = c, .alpn = "h2", .expect = &expect, .n_expect = 1},
            NULL);
        struct sw_tls *server =
            sw_tls_new(&(struct sw_tls_params){.server = true, .cred = c, .alpn = "h2"}, NULL);
        struct pair_result r;

        pair_run(client, server, 1 << 20, &r);
        if (r.client_rc != SW_OK || r.server_rc != SW_OK)
            arg = NULL;
        pair_done(&r);
        sw_tls_free(client);
        sw_tls_free(server);
        sw_tls_cred_unref(sw_tls_cred_ref(c));
    }
    return arg;
}

static void threads_share_a_credential(void **state)
{
    struct sw_tls_cred_pem pem = pem_of(*state);
    struct sw_tls_cred *c = sw_tls_cred_new(&pem, NULL);
    pthread_t threads[4];
    void *ok;

    for (size_t i = 0; i < SW_ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, shake_hands, c), 0);
    for (size_t i = 0; i < SW_ARRAY_LEN(threads); i++) {
        assert_int_equal(pthread_join(threads[i], &ok), 0);
        assert_non_null(ok);
    }
    sw_tls_cred_unref(c);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(tells_what_it_holds),
        T(root_in_the_chain_is_dropped),
        T(refuses_what_does_not_fit),
        T(revocations),
        T(revocations_of_a_clock_ahead),
        T(crl_refuses_foreign_certificates),
        T(ca_survives_the_disk),
        T(broken_ca_directories),
        T(the_first_whole_certificate_is_the_leaf),
        T(files_are_bounded_and_regular),
        T(issuing_has_rules),
        T(explains_certificates),
        T(threads_share_a_credential),
    };

    return cmocka_run_group_tests_name("cred", tests, NULL, NULL);
}
