/* SPDX-License-Identifier: Apache-2.0 */
/* Signing requests, the files of a CA, and the record of what was issued. */
#include "identity/authority.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "identity/issued.h"
#include "tls/cert/ca.h"
#include "tls/cert/cred.h"
#include "tls/cert/csr.h"
#include "tls/cert/spiffe.h"

#define ID "spiffe://td/ns/shop/sa/web"

static const struct sw_ca_leaf leaf_opts = {.id = {ID, sizeof(ID) - 1}, .ttl_s = 600};

struct world {
    char dir[64];
    struct sw_loop *loop;
    struct sw_buf csr;
    struct sw_buf key;
    int changes;
};

static void on_change(void *arg)
{
    ((struct world *)arg)->changes++;
}

static int set_up(void **state)
{
    struct world *w = SW_NEW(struct world);

    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/spanwire-authority-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    w->loop = sw_loop_new(NULL);
    sw_buf_init(&w->csr, 1 << 16);
    sw_buf_init(&w->key, 1 << 16);
    assert_int_equal(sw_csr_new(SW_SLICE_LIT("spiffe://evil/ns/a/sa/b"), &w->csr, &w->key, NULL),
                     SW_OK);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    static const char *const files[] = {"root.crt", "root.key",     "roots.pem",   "next.crt",
                                        "next.key", "previous.crt", "ca-cert.pem", "ca-crl.pem",
                                        "issued",   "issued.1"};
    struct world *w = *state;

    for (size_t i = 0; i < SW_ARRAY_LEN(files); i++) {
        char path[128];

        (void)snprintf(path, sizeof(path), "%s/%s", w->dir, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(w->dir);
    sw_buf_done(&w->csr);
    sw_buf_done(&w->key);
    sw_loop_free(w->loop);
    sw_free(w);
    return 0;
}

static struct sw_authority *open_it(struct world *w, struct sw_err *err)
{
    return sw_authority_new(
        w->loop,
        &(struct sw_authority_opts){
            .dir = w->dir, .trust_domain = SW_SLICE_LIT("td"), .on_change = on_change, .arg = w},
        err);
}

static void write_file(const struct world *w, const char *name, struct sw_slice text)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", w->dir, name);
    assert_int_equal(sw_file_write(path, text, 0600, true, NULL), SW_OK);
}

static void the_key_counts_and_nothing_else_in_a_request(void **state)
{
    struct world *w = *state;
    struct sw_err err = {0};
    struct sw_authority *a = open_it(w, &err);
    SW_BUF_AUTO leaf = {.max = 1 << 16};
    struct sw_ca_signed done;
    struct sw_tls_cred *cred;

    assert_non_null(a);
    assert_int_equal(sw_authority_sign(a, &leaf_opts, sw_buf_slice(&w->csr), &leaf, &done, &err),
                     SW_OK);
    assert_int_equal(strlen(done.serial), 32);
    /* The certificate belongs to the key, chains to the roots and has the identity it was given. */
    cred = sw_tls_cred_new(&(struct sw_tls_cred_pem){.chain = sw_buf_slice(&leaf),
                                                     .key = sw_buf_slice(&w->key),
                                                     .roots = sw_authority_roots(a)},
                           &err);
    assert_non_null(cred);
    assert_true(sw_slice_eq_str(sw_tls_cred_id(cred)->sa, "web"));
    assert_true(sw_slice_eq_str(sw_tls_cred_id(cred)->trust_domain, "td"));
    (void)sw_tls_cred_unref(cred);
    sw_authority_free(a);
}

static void bad_requests_are_refused(void **state)
{
    struct world *w = *state;
    const struct sw_ca_leaf foreign = {.id = SW_SLICE_LIT("spiffe://other/ns/a/sa/b"),
                                       .ttl_s = 600};
    struct sw_authority *a = open_it(w, NULL);
    SW_BUF_AUTO leaf = {.max = 1 << 16};
    struct sw_ca_signed done;
    struct sw_err err = {0};
    char *text;
    char *at;

    assert_non_null(a);
    assert_int_equal(sw_authority_sign(a, &leaf_opts, SW_SLICE_LIT("x"), &leaf, &done, &err),
                     SW_EINVAL);
    /* A bit of the signature. */
    text = sw_slice_dup(sw_buf_slice(&w->csr));
    at = text + sw_buf_len(&w->csr) - 50;
    *at = *at == 'A' ? 'B' : 'A';
    assert_int_equal(sw_authority_sign(a, &leaf_opts, sw_slice_str(text), &leaf, &done, &err),
                     SW_EINVAL);
    sw_free(text);
    assert_int_equal(sw_authority_sign(a, &foreign, sw_buf_slice(&w->csr), &leaf, &done, &err),
                     SW_EDENIED);
    assert_int_equal(sw_buf_len(&leaf), 0);
    sw_authority_free(a);
}

static void an_incomplete_set_is_an_error(void **state)
{
    struct world *w = *state;
    struct sw_err err = {0};

    write_file(w, "ca-cert.pem", SW_SLICE_LIT("x"));
    assert_null(open_it(w, &err));
    assert_non_null(strstr(err.msg, "'ca-key.pem' is missing"));
}

static void await(struct world *w, int changes)
{
    for (int i = 0; i < 1000 && w->changes < changes; i++)
        sw_loop_turn(w->loop, 10);
    assert_int_equal(w->changes, changes);
}

static void roots_change_by_way_of_both(void **state)
{
    struct world *w = *state;
    struct sw_authority *a = open_it(w, NULL);
    struct sw_ca *next = sw_ca_new(SW_SLICE_LIT("td"), 0, NULL);
    SW_BUF_AUTO key = {.max = 1 << 16};
    struct sw_slice old;

    assert_non_null(a);
    old = sw_slice(sw_slice_dup(sw_authority_roots(a)), sw_authority_roots(a).n);
    write_file(w, "roots.pem", sw_ca_root_pem(next));
    await(w, 1);
    assert_non_null(strstr(sw_authority_roots(a).p, "-----END CERTIFICATE-----\n-----BEGIN"));
    /* Exchanged: the new one signs, the old one is trusted as long as it must be. */
    write_file(w, "roots.pem", old);
    assert_int_equal(sw_ca_key_pem(next, &key, NULL), SW_OK);
    write_file(w, "root.key", sw_buf_slice(&key));
    write_file(w, "root.crt", sw_ca_root_pem(next));
    for (int i = 0; i < 1000 && w->changes < 2; i++)
        sw_loop_turn(w->loop, 10);
    assert_true(sw_slice_has_prefix(sw_authority_roots(a), sw_slice_trim(sw_ca_root_pem(next))));
    sw_slice_free(&old);
    sw_ca_free(next);
    sw_authority_free(a);
}

/* With no time to wait, the steps follow one another; leaves of the old root stay valid. */
static void a_root_that_was_announced_is_used_and_the_old_one_forgotten(void **state)
{
    struct world *w = *state;
    struct sw_authority *a = open_it(w, NULL);
    struct sw_ca *next = sw_ca_new(SW_SLICE_LIT("td"), 0, NULL);
    SW_BUF_AUTO key = {.max = 1 << 16};
    SW_BUF_AUTO leaf = {.max = 1 << 16};
    struct sw_ca_signed done;
    struct sw_tls_cred *cred;

    assert_non_null(a);
    assert_int_equal(sw_authority_sign(a, &leaf_opts, sw_buf_slice(&w->csr), &leaf, &done, NULL),
                     SW_OK);
    assert_int_equal(sw_ca_key_pem(next, &key, NULL), SW_OK);
    write_file(w, "next.key", sw_buf_slice(&key));
    write_file(w, "next.crt", sw_ca_root_pem(next));
    await(w, 1);
    cred = sw_tls_cred_new(&(struct sw_tls_cred_pem){.chain = sw_buf_slice(&leaf),
                                                     .key = sw_buf_slice(&w->key),
                                                     .roots = sw_authority_roots(a)},
                           NULL);
    assert_non_null(cred);
    (void)sw_tls_cred_unref(cred);
    await(w, 3);
    assert_true(
        sw_slice_eq(sw_slice_trim(sw_authority_roots(a)), sw_slice_trim(sw_ca_root_pem(next))));
    sw_ca_free(next);
    sw_authority_free(a);
}

static void the_record_is_bounded(void **state)
{
    struct world *w = *state;
    char path[128];
    struct sw_slice text = {0};
    struct sw_issued *s;

    (void)snprintf(path, sizeof(path), "%s/issued", w->dir);
    s = sw_issued_open(path, 1000, NULL);
    assert_non_null(s);
    for (int i = 0; i < 50; i++) {
        char serial[8];

        (void)snprintf(serial, sizeof(serial), "%d", i);
        assert_int_equal(sw_issued_add(s,
                                       &(struct sw_issued_cert){.serial = sw_slice_str(serial),
                                                                .id = SW_SLICE_LIT(ID),
                                                                .requester = SW_SLICE_LIT("me")},
                                       NULL),
                         SW_OK);
    }
    sw_issued_close(s);
    assert_int_equal(sw_file_read(path, 1400, &text, NULL), SW_OK);
    assert_non_null(strstr(text.p, "\"serial\":\"49\""));
    sw_slice_free(&text);
    (void)snprintf(path, sizeof(path), "%s/issued.1", w->dir);
    assert_int_equal(sw_file_read(path, 1400, &text, NULL), SW_OK);
    sw_slice_free(&text);
}

#define LIVE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIVE(the_key_counts_and_nothing_else_in_a_request),
        LIVE(bad_requests_are_refused),
        LIVE(an_incomplete_set_is_an_error),
        LIVE(roots_change_by_way_of_both),
        LIVE(a_root_that_was_announced_is_used_and_the_old_one_forgotten),
        LIVE(the_record_is_bounded),
    };

    return cmocka_run_group_tests_name("identity authority", tests, NULL, NULL);
}
