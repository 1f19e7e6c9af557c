/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/tls.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "tls/cert/ca.h"
#include "tls/crypto/aead.h"
#include "tls/tls_int.h"
#include "tls/verify.h"

#include "pair.h"
#include "test.h"

#define ALICE "spiffe://cluster.local/ns/a/sa/alice"
#define BOB   "spiffe://cluster.local/ns/b/sa/bob"

struct fixture {
    struct sw_ca *ca;
    struct sw_tls_cred *alice; /* client */
    struct sw_tls_cred *bob;   /* server */
    struct sw_tls_params cp;
    struct sw_tls_params sp;
    struct sw_slice expect[2];
    struct sw_tls *c;
    struct sw_tls *s;
    struct pair_result r;
};

static struct sw_tls_cred *issue(struct sw_ca *ca, const char *id)
{
    struct sw_err err;
    struct sw_tls_cred *c = sw_ca_issue_cred(
        ca, &(struct sw_ca_leaf){.id = sw_slice_str(id), .foreign_trust_domain = true},
        sw_slice("", 0), &err);

    assert_non_null(c);
    return c;
}

static int set_up(void **state)
{
    struct fixture *f = SW_NEW(struct fixture);
    struct sw_err err;

    f->ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, &err);
    assert_non_null(f->ca);
    f->alice = issue(f->ca, ALICE);
    f->bob = issue(f->ca, BOB);
    f->expect[0] = SW_SLICE_LIT("spiffe://cluster.local/ns/b/sa/other");
    f->expect[1] = SW_SLICE_LIT(BOB);
    f->cp =
        (struct sw_tls_params){.cred = f->alice, .alpn = "h2", .expect = f->expect, .n_expect = 2};
    f->sp = (struct sw_tls_params){.server = true, .cred = f->bob, .alpn = "h2"};
    *state = f;
    return 0;
}

static void drop_pair(struct fixture *f)
{
    sw_tls_free(f->c);
    sw_tls_free(f->s);
    pair_done(&f->r);
    f->c = NULL;
    f->s = NULL;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    drop_pair(f);
    sw_tls_cred_unref(f->alice);
    sw_tls_cred_unref(f->bob);
    sw_ca_free(f->ca);
    sw_free(f);
    return 0;
}

static void connect_pair(struct fixture *f, size_t chunk)
{
    struct sw_err err;

    f->c = sw_tls_new(&f->cp, &err);
    f->s = sw_tls_new(&f->sp, &err);
    assert_non_null(f->c);
    assert_non_null(f->s);
    pair_run(f->c, f->s, chunk, &f->r);
}

static void send_one(struct sw_tls *from, struct sw_tls *to, const char *text)
{
    uint8_t plain[200] = {0};
    uint8_t wire[SW_TLS_SEAL_ROOM(200)];
    struct sw_slice got = {0};
    struct sw_err err = {0};
    size_t n = strlen(text);
    size_t used;
    size_t at = 0;
    size_t len;

    memcpy(plain, text, n);
    len = sw_tls_seal(from, plain, n, wire);
    assert_true(len > n);
    do {
        int rc = sw_tls_open(to, wire + at, len - at, &used, &got, &err);

        if (rc != SW_OK)
            fail_msg("%s", err.msg);
        at += used;
    } while (got.n == 0 && at < len);
    assert_int_equal(at, len);
    assert_int_equal(got.n, n);
    assert_memory_equal(got.p, text, n);
}

static void check_up(struct fixture *f)
{
    if (f->r.client_rc != SW_OK || f->r.server_rc != SW_OK)
        fail_msg("client %d '%s', server %d '%s'", f->r.client_rc, f->r.client_err.msg,
                 f->r.server_rc, f->r.server_err.msg);
    send_one(f->c, f->s, "ping");
    send_one(f->s, f->c, "pong");
    send_one(f->c, f->s, "more");
}

static void both_ends_export_the_same_and_nobody_else_does(void **state)
{
    struct fixture *f = *state;
    static const char label[] = "a label";
    uint8_t km[4][32];
    struct sw_err err;

    f->cp.exporter = true;
    f->sp.exporter = true;
    connect_pair(f, 1 << 20);
    check_up(f);
    assert_int_equal(sw_tls_export(f->c, label, SW_SLICE_LIT("ctx"), km[0], 32, &err), SW_OK);
    assert_int_equal(sw_tls_export(f->s, label, SW_SLICE_LIT("ctx"), km[1], 32, &err), SW_OK);
    assert_int_equal(sw_tls_export(f->s, label, SW_SLICE_LIT("ctx2"), km[2], 32, &err), SW_OK);
    assert_int_equal(sw_tls_export(f->s, "b label", SW_SLICE_LIT("ctx"), km[3], 32, &err), SW_OK);
    assert_memory_equal(km[0], km[1], 32);
    assert_memory_not_equal(km[1], km[2], 32);
    assert_memory_not_equal(km[1], km[3], 32);
    sw_tls_export_done(f->s);
    assert_int_equal(sw_tls_export(f->s, label, SW_SLICE_LIT("ctx"), km[1], 32, &err), SW_EINVAL);
    drop_pair(f);
    f->cp.exporter = false;
    connect_pair(f, 1 << 20);
    assert_int_equal(sw_tls_export(f->c, label, SW_SLICE_LIT("ctx"), km[2], 32, &err), SW_EINVAL);
    assert_int_equal(sw_tls_export(f->s, label, SW_SLICE_LIT("ctx"), km[2], 32, &err), SW_OK);
    assert_memory_not_equal(km[0], km[2], 32);
}

static void both_sides_know_each_other(void **state)
{
    struct fixture *f = *state;

    connect_pair(f, 1 << 20);
    check_up(f);
    assert_int_equal(sw_buf_len(&f->r.to_server), 0);
    assert_int_equal(sw_buf_len(&f->r.to_client), 0);
    assert_int_equal(sw_tls_peer(f->s)->n_ids, 1);
    assert_true(sw_slice_eq_str(sw_tls_peer(f->s)->ids[0].uri, ALICE));
    assert_true(sw_slice_eq_str(sw_tls_peer(f->s)->ids[0].id.sa, "alice"));
    assert_true(sw_slice_eq_str(sw_tls_peer(f->c)->ids[0].uri, BOB));
    assert_string_equal(sw_tls_alpn(f->c), "h2");
    assert_string_equal(sw_tls_alpn(f->s), "h2");
    assert_string_equal(sw_tls_cipher(f->c), "TLS1.3 AES-128-GCM");
    assert_int_equal(sw_tls_max_plain(f->c), 16384);
    assert_int_equal(sw_tls_max_plain(f->s), 16384);
    assert_null(f->c->lib);
    assert_null(f->s->lib);
    assert_true(sw_tls_mem(f->c) <= 640);
    assert_int_equal(sw_tls_peer(f->c)->n_certs, 1);
}

static void input_in_single_bytes(void **state)
{
    struct fixture *f = *state;

    connect_pair(f, 1);
    check_up(f);
}

static void input_in_odd_pieces(void **state)
{
    struct fixture *f = *state;

    for (size_t chunk = 2; chunk < 400; chunk = chunk * 3 / 2 + 1) {
        connect_pair(f, chunk);
        check_up(f);
        drop_pair(f);
    }
}

/* The client's first records arrive in one piece with its Finished. */
static void data_behind_the_handshake_is_left(void **state)
{
    struct fixture *f = *state;
    uint8_t plain[8] = "hello";
    uint8_t wire[SW_TLS_SEAL_ROOM(8)];
    SW_BUF_AUTO up = {0};
    SW_BUF_AUTO down = {0};
    struct sw_slice got;
    struct sw_err err;
    size_t used;
    size_t n;

    sw_buf_init(&up, 1 << 20);
    sw_buf_init(&down, 1 << 20);
    f->c = sw_tls_new(&f->cp, &err);
    f->s = sw_tls_new(&f->sp, &err);
    assert_int_equal(sw_tls_handshake(f->c, sw_slice("", 0), &used, &up, &err), SW_EAGAIN);
    assert_int_equal(sw_tls_handshake(f->s, sw_buf_slice(&up), &used, &down, &err), SW_EAGAIN);
    sw_buf_consume(&up, used);
    assert_int_equal(sw_tls_handshake(f->c, sw_buf_slice(&down), &used, &up, &err), SW_OK);
    assert_int_equal(used, sw_buf_len(&down));
    n = sw_tls_seal(f->c, plain, 5, wire);
    assert_int_equal(sw_buf_append(&up, wire, n), SW_OK);
    assert_int_equal(sw_tls_handshake(f->s, sw_buf_slice(&up), &used, &down, &err), SW_OK);
    assert_int_equal(sw_buf_len(&up) - used, n);
    memcpy(wire, sw_buf_data(&up) + used, n);
    assert_int_equal(sw_tls_open(f->s, wire, n, &used, &got, &err), SW_OK);
    assert_true(sw_slice_eq_str(got, "hello"));
}

static void key_updates_between_connections(void **state)
{
    struct fixture *f = *state;
    uint8_t out[SW_TLS_CTRL_ROOM];

    connect_pair(f, 1 << 20);
    check_up(f);
    assert_false(sw_tls_wants_flush(f->c));
    sw_tls_key_update(f->c, true);
    assert_true(sw_tls_wants_flush(f->c));
    check_up(f);
    assert_false(sw_tls_wants_flush(f->s));
    assert_int_equal(sw_tls_flush(f->s, out, sizeof(out)), 0);
}

static void close_notify_and_half_close(void **state)
{
    struct fixture *f = *state;
    uint8_t out[SW_TLS_CTRL_ROOM];
    struct sw_slice got;
    struct sw_err err;
    size_t used;
    size_t n;

    connect_pair(f, 1 << 20);
    n = sw_tls_close_notify(f->c, out, sizeof(out));
    assert_int_equal(sw_tls_open(f->s, out, n, &used, &got, &err), SW_EOF);
    send_one(f->s, f->c, "still talking");
    assert_int_equal(sw_tls_close_notify(f->c, out, sizeof(out)), 0);
}

static void other_ciphers(void **state)
{
    struct fixture *f = *state;

    f->cp.chacha = true;
    f->sp.chacha = true;
    connect_pair(f, 1 << 20);
    check_up(f);
    assert_string_equal(sw_tls_cipher(f->c), "TLS1.3 AES-128-GCM");
}

static void tls13_is_preferred_with_tls12_enabled(void **state)
{
    struct fixture *f = *state;

    f->cp.tls12 = true;
    f->sp.tls12 = true;
    connect_pair(f, 1 << 20);
    check_up(f);
    assert_string_equal(sw_tls_cipher(f->s), "TLS1.3 AES-128-GCM");
}

static void sni_is_ignored(void **state)
{
    struct fixture *f = *state;

    f->cp.sni = "x.y.svc.cluster.local";
    connect_pair(f, 1 << 20);
    check_up(f);
}

static void alpn_list_takes_the_servers_favourite(void **state)
{
    struct fixture *f = *state;

    f->cp.alpn = "http/1.1,h2";
    f->sp.alpn = "h2,http/1.1";
    connect_pair(f, 1 << 20);
    check_up(f);
    assert_string_equal(sw_tls_alpn(f->s), "h2");
}

static void a_client_without_alpn_is_served_where_it_is_optional(void **state)
{
    struct fixture *f = *state;

    f->cp.alpn = NULL;
    f->sp.alpn_optional = true;
    connect_pair(f, 1 << 20);
    check_up(f);
    assert_string_equal(sw_tls_alpn(f->s), "");
}

/* Expects the named side to refuse and, where it can, the other to be told. */
static void check_refused(struct fixture *f, bool by_server, int rc, const char *why,
                          unsigned alert)
{
    struct sw_err *err = by_server ? &f->r.server_err : &f->r.client_err;
    struct sw_slice got;
    size_t used;
    char name[64];
    int other = by_server ? f->r.client_rc : f->r.server_rc;
    struct sw_err *other_err = by_server ? &f->r.client_err : &f->r.server_err;

    assert_int_equal(by_server ? f->r.server_rc : f->r.client_rc, rc);
    if (!strstr(err->msg, why))
        fail_msg("'%s' lacks '%s'", err->msg, why);
    /* A TLS 1.3 client is done before the server judges it: the alert is its first record. */
    if (by_server && other == SW_OK) {
        uint8_t wire[4096];
        size_t n = sw_buf_len(&f->r.to_client);

        assert_in_range(n, 1, sizeof(wire));
        memcpy(wire, sw_buf_data(&f->r.to_client), n);
        other = sw_tls_open(f->c, wire, n, &used, &got, other_err);
    }
    (void)snprintf(name, sizeof(name), "alert %u", alert);
    if (!strstr(other_err->msg, name))
        fail_msg("'%s' lacks '%s'", other_err->msg, name);
    assert_int_equal(other, sw_alert_is_refusal(alert) ? SW_EDENIED : SW_EPROTO);
}

static void alpn_mismatch(void **state)
{
    struct fixture *f = *state;

    f->cp.alpn = "http/1.1";
    connect_pair(f, 1 << 20);
    check_refused(f, true, SW_EPROTO, "", 120);
}

static void client_without_alpn(void **state)
{
    struct fixture *f = *state;

    f->cp.alpn = NULL;
    connect_pair(f, 1 << 20);
    check_refused(f, true, SW_EPROTO, "no common ALPN", 120);
}

/* Optional is not the same as another protocol. */
static void optional_alpn_with_another_protocol(void **state)
{
    struct fixture *f = *state;

    f->cp.alpn = "http/1.1";
    f->sp.alpn_optional = true;
    connect_pair(f, 1 << 20);
    assert_int_equal(f->r.server_rc, SW_EPROTO);
}

static void server_without_alpn(void **state)
{
    struct fixture *f = *state;

    f->sp.alpn = NULL;
    connect_pair(f, 1 << 20);
    check_refused(f, false, SW_EPROTO, "no common ALPN", 120);
}

static void expected_identity_missing(void **state)
{
    struct fixture *f = *state;

    f->cp.n_expect = 1;
    connect_pair(f, 1 << 20);
    check_refused(f, false, SW_EDENIED, "expected 'spiffe://cluster.local/ns/b/sa/other'", 42);
}

static void nobody_expected(void **state)
{
    struct fixture *f = *state;

    f->cp.n_expect = 0;
    connect_pair(f, 1 << 20);
    check_refused(f, false, SW_EDENIED, "expected no identity", 42);
}

static void anybody_on_request(void **state)
{
    struct fixture *f = *state;

    f->cp.n_expect = 0;
    f->cp.insecure_any = true;
    connect_pair(f, 1 << 20);
    check_up(f);
}

static void client_of_another_trust_domain(void **state)
{
    struct fixture *f = *state;

    sw_tls_cred_unref(f->alice);
    f->alice = issue(f->ca, "spiffe://other.example/ns/a/sa/alice");
    f->cp.cred = f->alice;
    connect_pair(f, 1 << 20);
    check_refused(f, true, SW_EDENIED, "not of trust domain 'cluster.local'", 42);
}

static void server_of_another_trust_domain_is_fine(void **state)
{
    struct fixture *f = *state;

    sw_tls_cred_unref(f->bob);
    f->bob = issue(f->ca, "spiffe://other.example/ns/b/sa/bob");
    f->sp.cred = f->bob;
    f->expect[0] = SW_SLICE_LIT("spiffe://other.example/ns/b/sa/bob");
    connect_pair(f, 1 << 20);
    check_refused(f, true, SW_EDENIED, "not of trust domain 'other.example'", 42);
}

static void client_of_another_ca(void **state)
{
    struct fixture *f = *state;
    struct sw_err err;
    struct sw_ca *other = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, &err);
    struct sw_tls_cred *mallory = issue(other, ALICE);

    f->cp.cred = mallory;
    f->cp.insecure_any = true;
    connect_pair(f, 1 << 20); /* its own roots do not know bob's issuer */
    check_refused(f, false, SW_EDENIED, "not signed by a trusted root", 48);
    sw_tls_cred_unref(mallory);
    sw_ca_free(other);
}

/* A credential whose certificate comes from one CA and whose trust is in another. */
static struct sw_tls_cred *mixed(struct sw_ca *from, struct sw_ca *trust, struct sw_ca_leaf *leaf)
{
    SW_BUF_AUTO chain = {0};
    SW_BUF_AUTO key = {0};
    struct sw_tls_cred *c;
    struct sw_err err;

    sw_buf_init(&chain, 1 << 20);
    sw_buf_init(&key, 1 << 20);
    assert_int_equal(sw_ca_issue(from, leaf, &chain, &key, &err), SW_OK);
    c = sw_tls_cred_new(&(struct sw_tls_cred_pem){.chain = sw_buf_slice(&chain),
                                                  .key = sw_buf_slice(&key),
                                                  .roots = sw_ca_root_pem(trust)},
                        &err);
    assert_non_null(c);
    return c;
}

static void untrusted_client_certificate(void **state)
{
    struct fixture *f = *state;
    struct sw_err err;
    struct sw_ca *other = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, &err);
    struct sw_tls_cred *mallory =
        mixed(other, f->ca, &(struct sw_ca_leaf){.id = SW_SLICE_LIT(ALICE)});

    f->cp.cred = mallory;
    connect_pair(f, 1 << 20);
    check_refused(f, true, SW_EDENIED, "not signed by a trusted root", 48);
    sw_tls_cred_unref(mallory);
    sw_ca_free(other);
}

static void client_without_certificate(void **state)
{
    struct fixture *f = *state;
    struct sw_err err;
    struct sw_tls_cred *none =
        sw_tls_cred_new(&(struct sw_tls_cred_pem){.roots = sw_ca_root_pem(f->ca)}, &err);

    assert_non_null(none);
    assert_null(sw_tls_cred_id(none));
    f->cp.cred = none;
    connect_pair(f, 1 << 20);
    check_refused(f, true, SW_EDENIED, "no certificate", 116);
    f->sp.cred = none;
    assert_null(sw_tls_new(&f->sp, &err));
    f->sp.cred = f->bob;
    sw_tls_cred_unref(none);
}

static void expired_certificates(void **state)
{
    struct fixture *f = *state;
    struct sw_ca_leaf old = {.id = SW_SLICE_LIT(ALICE), .ttl_s = 60, .backdate_s = 3600};
    struct sw_tls_cred *late = mixed(f->ca, f->ca, &old);

    f->cp.cred = late;
    connect_pair(f, 1 << 20);
    check_refused(f, true, SW_EDENIED, "has expired", 45);
    drop_pair(f);
    f->cp.cred = f->alice;
    f->sp.cred = late;
    f->expect[0] = SW_SLICE_LIT(ALICE);
    connect_pair(f, 1 << 20);
    check_refused(f, false, SW_EDENIED, "has expired", 45);
    sw_tls_cred_unref(late);
}

static void certificate_of_tomorrow(void **state)
{
    struct fixture *f = *state;
    struct sw_tls_cred *early =
        mixed(f->ca, f->ca, &(struct sw_ca_leaf){.id = SW_SLICE_LIT(ALICE), .not_before_s = 3600});

    f->cp.cred = early;
    connect_pair(f, 1 << 20);
    check_refused(f, true, SW_EDENIED, "not valid yet", 45);
    sw_tls_cred_unref(early);
}

static void revoked_certificates(void **state)
{
    struct fixture *f = *state;
    const struct sw_tls_cert_info *info;
    SW_BUF_AUTO crl = {0};
    struct sw_tls_cred *strict;
    struct sw_tls *old;
    struct sw_err err;

    sw_buf_init(&crl, 1 << 20);
    connect_pair(f, 1 << 20); /* before */
    check_up(f);
    assert_int_equal(sw_tls_cred_chain(f->alice, &info), 1);
    if (sw_ca_make_crl(f->ca, &info[0].pem, 1, &crl, &err) != SW_OK)
        fail_msg("%s", err.msg);
    strict = sw_tls_cred_with_crl(f->bob, sw_buf_slice(&crl), &err);
    assert_non_null(strict);
    assert_true(sw_tls_cred_has_crl(strict));
    assert_int_equal(sw_tls_recheck(f->s, f->bob, &err), SW_OK);
    assert_int_equal(sw_tls_recheck(f->s, strict, &err), SW_EDENIED);
    assert_non_null(strstr(err.msg, "revoked (serial "));
    assert_int_equal(sw_tls_recheck(f->c, strict, &err), SW_OK);
    old = f->s;
    f->s = NULL;
    drop_pair(f);
    f->sp.cred = strict;
    connect_pair(f, 1 << 20); /* after; alice is in the verdict cache of the old bundle */
    check_refused(f, true, SW_EDENIED, "revoked", 44);
    drop_pair(f);
    f->sp.cred = f->alice; /* the other way round */
    f->cp.cred = strict;
    f->expect[0] = SW_SLICE_LIT(ALICE);
    connect_pair(f, 1 << 20);
    check_refused(f, false, SW_EDENIED, "revoked", 44);
    sw_tls_free(old);
    sw_tls_cred_unref(strict);
}

static int say_no(void *arg, const struct sw_tls_peer *peer, struct sw_err *err)
{
    (*(int *)arg)++;
    return sw_err_set(err, SW_EDENIED, "'%.*s' is on the list", SW_SLICE_ARG(peer->ids[0].uri));
}

static int say_yes(void *arg, const struct sw_tls_peer *peer, struct sw_err *err)
{
    (void)peer;
    (void)err;
    (*(int *)arg)++;
    return SW_OK;
}

static void callback_has_the_last_word(void **state)
{
    struct fixture *f = *state;
    int calls = 0;

    f->sp.verify = say_yes;
    f->sp.verify_arg = &calls;
    connect_pair(f, 1 << 20);
    check_up(f);
    assert_int_equal(calls, 1);
    drop_pair(f);
    f->sp.verify = say_no;
    connect_pair(f, 1 << 20);
    check_refused(f, true, SW_EDENIED, "is on the list", 49);
    assert_int_equal(calls, 2);
}

static void verdicts_are_remembered_per_role(void **state)
{
    struct fixture *f = *state;
    uint64_t hits;

    sw_verify_cache_clear();
    hits = sw_verify_cache_hits();
    for (int i = 0; i < 3; i++) {
        connect_pair(f, 1 << 20);
        check_up(f);
        drop_pair(f);
    }
    assert_int_equal(sw_verify_cache_hits() - hits, 4);
    /* Identity is judged on a hit too. */
    f->cp.n_expect = 1;
    connect_pair(f, 1 << 20);
    check_refused(f, false, SW_EDENIED, "expected", 42);
}

static void remembered_verdicts_expire(void **state)
{
    struct fixture *f = *state;
    struct sw_tls_cred *brief =
        mixed(f->ca, f->ca, &(struct sw_ca_leaf){.id = SW_SLICE_LIT(ALICE), .ttl_s = 1});
    uint64_t end = sw_tls_cred_not_after(brief);

    f->cp.cred = brief;
    connect_pair(f, 1 << 20);
    if (f->r.server_rc == SW_OK) /* a very slow machine may be late already */
        check_up(f);
    drop_pair(f);
    /* time() is what the library asks; it is some milliseconds behind sw_wall_ns. */
    while ((uint64_t)time(NULL) <= end)
        (void)usleep(20000);
    connect_pair(f, 1 << 20);
    check_refused(f, true, SW_EDENIED, "has expired", 45);
    sw_tls_cred_unref(brief);
}

static void garbage_is_refused(void **state)
{
    static const struct sw_slice inputs[] = {
        SW_SLICE_LIT("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        SW_SLICE_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        SW_SLICE_LIT("\x17\x03\x03\x00\x11"
                     "aaaaaaaaaaaaaaaaa"),
        SW_SLICE_LIT("\x16\x03\x01\xff\xff"),
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < SW_ARRAY_LEN(inputs); i++) {
        SW_BUF_AUTO out = {0};
        struct sw_err err;
        size_t used;

        sw_buf_init(&out, SW_TLS_HANDSHAKE_OUT_MAX);
        f->s = sw_tls_new(&f->sp, &err);
        if (sw_tls_handshake(f->s, inputs[i], &used, &out, &err) != SW_EPROTO)
            fail_msg("input %zu was not refused", i);
        assert_int_equal(sw_tls_handshake(f->s, sw_slice_str("x"), &used, &out, &err), SW_EINVAL);
        assert_null(sw_tls_peer(f->s));
        sw_tls_free(f->s);
        f->s = NULL;
    }
}

/* A message that promises megabytes is not collected. */
static void endless_message_is_cut_off(void **state)
{
    struct fixture *f = *state;
    uint8_t record[5 + 16384] = {0x16, 3, 1, 0x40, 0, 1, 0x7f, 0xff, 0xff};
    SW_BUF_AUTO out = {0};
    struct sw_err err;
    size_t used;
    int rc = SW_EAGAIN;

    sw_buf_init(&out, SW_TLS_HANDSHAKE_OUT_MAX);
    f->s = sw_tls_new(&f->sp, &err);
    for (int i = 0; i < 12 && rc == SW_EAGAIN; i++) {
        rc = sw_tls_handshake(f->s, sw_slice(record, sizeof(record)), &used, &out, &err);
        memset(record + 5, 0, 4);
    }
    assert_int_equal(rc, SW_EPROTO);
}

static void no_room_for_output(void **state)
{
    struct fixture *f = *state;
    SW_BUF_AUTO out = {0};
    struct sw_err err;
    size_t used;

    sw_buf_init(&out, 50);
    f->c = sw_tls_new(&f->cp, &err);
    assert_int_equal(sw_tls_handshake(f->c, sw_slice("", 0), &used, &out, &err), SW_ELIMIT);
}

static void bad_alpn_lists(void **state)
{
    static const char *const lists[] = {"", "h2,", ",h2", "a-protocol-name-too-long",
                                        "a,b,c,d,e,f,g,h,i"};
    struct fixture *f = *state;
    struct sw_err err;

    for (size_t i = 0; i < SW_ARRAY_LEN(lists); i++) {
        f->sp.alpn = lists[i];
        assert_null(sw_tls_new(&f->sp, &err));
        assert_int_equal(err.rc, SW_EINVAL);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    /* The same once more over the fallback. */
    const char *aead = getenv("SPANWIRE_AEAD");
    int choice = aead && strcmp(aead, "gnutls") == 0 ? SW_AEAD_GNUTLS : SW_AEAD_AUTO;
    const struct CMUnitTest tests[] = {
        T(both_sides_know_each_other),
        T(both_ends_export_the_same_and_nobody_else_does),
        T(input_in_single_bytes),
        T(input_in_odd_pieces),
        T(data_behind_the_handshake_is_left),
        T(key_updates_between_connections),
        T(close_notify_and_half_close),
        T(other_ciphers),
        T(tls13_is_preferred_with_tls12_enabled),
        T(sni_is_ignored),
        T(alpn_list_takes_the_servers_favourite),
        T(alpn_mismatch),
        T(client_without_alpn),
        T(a_client_without_alpn_is_served_where_it_is_optional),
        T(optional_alpn_with_another_protocol),
        T(server_without_alpn),
        T(expected_identity_missing),
        T(nobody_expected),
        T(anybody_on_request),
        T(client_of_another_trust_domain),
        T(server_of_another_trust_domain_is_fine),
        T(client_of_another_ca),
        T(untrusted_client_certificate),
        T(client_without_certificate),
        T(expired_certificates),
        T(certificate_of_tomorrow),
        T(revoked_certificates),
        T(callback_has_the_last_word),
        T(verdicts_are_remembered_per_role),
        T(remembered_verdicts_expire),
        T(garbage_is_refused),
        T(endless_message_is_cut_off),
        T(no_room_for_output),
        T(bad_alpn_lists),
    };

    if (sw_aead_init((enum sw_aead_choice)choice, NULL) != SW_OK)
        return 1;
    return cmocka_run_group_tests_name("handshake", tests, NULL, NULL);
}
