/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our side against plain GnuTLS sessions, records included: what our own pairs cannot show, above
 * all peers that limit the size of what they accept.
 */
#include <errno.h>

#include <gnutls/gnutls.h>

#include "base/buf.h"
#include "base/mem.h"
#include "tls/cert/ca.h"
#include "tls/tls.h"

#include "test.h"

#define ID "spiffe://cluster.local/ns/n/sa/s"

struct fixture {
    struct sw_ca *ca;
    struct sw_tls_cred *cred;
    gnutls_certificate_credentials_t xcred;
    gnutls_session_t theirs;
    struct sw_tls *ours;
    struct sw_buf to_us;
    struct sw_buf to_them;
};

static int set_up(void **state)
{
    struct fixture *f = SW_NEW(struct fixture);
    SW_BUF_AUTO crt = {.max = 1 << 20};
    SW_BUF_AUTO key = {.max = 1 << 20};
    struct sw_ca_leaf leaf = {.id = SW_SLICE_LIT(ID)};
    gnutls_datum_t c, k;

    f->ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), 0, NULL);
    assert_int_equal(sw_ca_issue(f->ca, &leaf, &crt, &key, NULL), SW_OK);
    f->cred = sw_ca_issue_cred(f->ca, &leaf, sw_slice("", 0), NULL);
    assert_non_null(f->cred);
    c = (gnutls_datum_t){(unsigned char *)crt.p, (unsigned)sw_buf_len(&crt)};
    k = (gnutls_datum_t){(unsigned char *)key.p, (unsigned)sw_buf_len(&key)};
    assert_int_equal(gnutls_certificate_allocate_credentials(&f->xcred), 0);
    assert_int_equal(gnutls_certificate_set_x509_key_mem(f->xcred, &c, &k, GNUTLS_X509_FMT_PEM), 0);
    sw_buf_init(&f->to_us, 1 << 20);
    sw_buf_init(&f->to_them, 1 << 20);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    sw_tls_free(f->ours);
    if (f->theirs)
        gnutls_deinit(f->theirs);
    gnutls_certificate_free_credentials(f->xcred);
    sw_tls_cred_unref(f->cred);
    sw_ca_free(f->ca);
    sw_buf_done(&f->to_us);
    sw_buf_done(&f->to_them);
    sw_free(f);
    return 0;
}

static ssize_t on_pull(gnutls_transport_ptr_t arg, void *data, size_t n)
{
    struct fixture *f = arg;

    n = sw_min(n, sw_buf_len(&f->to_them));
    if (n == 0) {
        gnutls_transport_set_errno(f->theirs, EAGAIN);
        return -1;
    }
    memcpy(data, sw_buf_data(&f->to_them), n);
    sw_buf_consume(&f->to_them, n);
    return (ssize_t)n;
}

static ssize_t on_push(gnutls_transport_ptr_t arg, const void *data, size_t n)
{
    struct fixture *f = arg;

    return sw_buf_append(&f->to_us, data, n) == SW_OK ? (ssize_t)n : -1;
}

static void make_theirs(struct fixture *f, unsigned flags, const char *priority)
{
    gnutls_datum_t h2 = {(unsigned char *)(uintptr_t) "h2", 2};

    assert_int_equal(gnutls_init(&f->theirs, flags | GNUTLS_NONBLOCK), 0);
    assert_int_equal(gnutls_priority_set_direct(f->theirs, priority, NULL), 0);
    assert_int_equal(gnutls_credentials_set(f->theirs, GNUTLS_CRD_CERTIFICATE, f->xcred), 0);
    assert_int_equal(gnutls_alpn_set_protocols(f->theirs, &h2, 1, 0), 0);
    gnutls_transport_set_ptr(f->theirs, f);
    gnutls_transport_set_pull_function(f->theirs, on_pull);
    gnutls_transport_set_push_function(f->theirs, on_push);
}

/* Runs both to the end; returns our result. */
static int shake(struct fixture *f, struct sw_err *err)
{
    int theirs = GNUTLS_E_AGAIN;
    int rc = SW_EAGAIN;

    for (int i = 0; i < 20; i++) {
        size_t used;

        if (theirs == GNUTLS_E_AGAIN)
            theirs = gnutls_handshake(f->theirs);
        if (rc == SW_EAGAIN) {
            rc = sw_tls_handshake(f->ours, sw_buf_slice(&f->to_us), &used, &f->to_them, err);
            sw_buf_consume(&f->to_us, used);
        }
    }
    return rc;
}

static void make_server(struct fixture *f, bool chacha)
{
    struct sw_tls_params p = {.server = true, .cred = f->cred, .alpn = "h2", .chacha = chacha};

    f->ours = sw_tls_new(&p, NULL);
    assert_non_null(f->ours);
}

/* We send 'total' bytes in the largest records allowed; they must arrive whole, none too large. */
static void check_sending(struct fixture *f, size_t total)
{
    static uint8_t plain[SW_TLS_PLAIN_MAX + 1];
    static uint8_t wire[SW_TLS_SEAL_ROOM(SW_TLS_PLAIN_MAX)];
    static uint8_t got[1 << 17];
    size_t at = 0;
    size_t n;

    for (size_t sent = 0; sent < total; sent += n) {
        n = sw_min(total - sent, sw_tls_max_plain(f->ours));
        for (size_t i = 0; i < n; i++)
            plain[i] = (uint8_t)((sent + i) * 13);
        assert_int_equal(sw_buf_append(&f->to_them, wire, sw_tls_seal(f->ours, plain, n, wire)),
                         SW_OK);
    }
    while (at < total) {
        ssize_t r = gnutls_record_recv(f->theirs, got + at, sizeof(got) - at);

        if (r == GNUTLS_E_AGAIN && sw_buf_len(&f->to_them) > 0)
            continue; /* it says so after a key update */
        if (r <= 0)
            fail_msg("%s", gnutls_strerror((int)r));
        at += (size_t)r;
    }
    for (size_t i = 0; i < total; i++)
        assert_int_equal(got[i], (uint8_t)(i * 13));
}

static void check_receiving(struct fixture *f, const char *text)
{
    size_t n = strlen(text);
    struct sw_slice got;
    struct sw_err err;
    size_t used = 0;
    int rc;

    assert_int_equal(gnutls_record_send(f->theirs, text, n), (ssize_t)n);
    do {
        rc = sw_tls_open(f->ours, (uint8_t *)f->to_us.p + f->to_us.off, sw_buf_len(&f->to_us),
                         &used, &got, &err);
        if (rc != SW_OK)
            fail_msg("%s", err.msg);
        if (got.n == 0)
            sw_buf_consume(&f->to_us, used);
    } while (got.n == 0);
    assert_true(sw_slice_eq_str(got, text));
    sw_buf_consume(&f->to_us, used);
}

#define NORMAL "NORMAL:-VERS-ALL:+VERS-TLS1.3"

static void record_size_limit_of_a_client(void **state)
{
    struct fixture *f = *state;
    struct sw_err err;

    make_theirs(f, GNUTLS_CLIENT, NORMAL);
    assert_int_equal(gnutls_record_set_max_recv_size(f->theirs, 600), 0);
    make_server(f, false);
    if (shake(f, &err) != SW_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(sw_tls_max_plain(f->ours), 600);
    check_sending(f, 10000);
    check_receiving(f, "hello");
}

static void record_size_limit_of_a_server(void **state)
{
    struct fixture *f = *state;
    struct sw_slice expect = SW_SLICE_LIT(ID);
    struct sw_tls_params p = {.cred = f->cred, .alpn = "h2", .expect = &expect, .n_expect = 1};
    struct sw_err err;

    make_theirs(f, GNUTLS_SERVER, NORMAL); /* with tickets */
    gnutls_certificate_server_set_request(f->theirs, GNUTLS_CERT_REQUEST);
    assert_int_equal(gnutls_record_set_max_recv_size(f->theirs, 1000), 0);
    f->ours = sw_tls_new(&p, NULL);
    if (shake(f, &err) != SW_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(sw_tls_max_plain(f->ours), 1000);
    check_sending(f, 10000);
    check_receiving(f, "hello");
}

static void key_updates_with_gnutls(void **state)
{
    struct fixture *f = *state;
    struct sw_err err;

    make_theirs(f, GNUTLS_CLIENT, NORMAL);
    make_server(f, false);
    assert_int_equal(shake(f, &err), SW_OK);
    assert_int_equal(sw_tls_max_plain(f->ours), 16384);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(gnutls_session_key_update(f->theirs, i % 2 ? GNUTLS_KU_PEER : 0), 0);
        check_receiving(f, "after theirs");
        check_sending(f, 100000);
        sw_tls_key_update(f->ours, true);
        check_sending(f, 20000);
        check_receiving(f, "after ours");
    }
}

static void chacha_when_asked_for(void **state)
{
    struct fixture *f = *state;
    struct sw_err err;

    make_theirs(f, GNUTLS_CLIENT, NORMAL ":-CIPHER-ALL:+CHACHA20-POLY1305");
    make_server(f, true);
    assert_int_equal(shake(f, &err), SW_OK);
    assert_string_equal(sw_tls_cipher(f->ours), "TLS1.3 CHACHA20-POLY1305");
    check_sending(f, 50000);
    check_receiving(f, "hello");
}

static void chacha_is_refused_by_default(void **state)
{
    struct fixture *f = *state;
    struct sw_err err;

    make_theirs(f, GNUTLS_CLIENT, NORMAL ":-CIPHER-ALL:+CHACHA20-POLY1305");
    make_server(f, false);
    assert_int_equal(shake(f, &err), SW_EPROTO);
    assert_true(sw_buf_len(&f->to_them) > 0 || gnutls_alert_get(f->theirs) == 40);
}

static void aes256_only(void **state)
{
    struct fixture *f = *state;
    struct sw_err err;

    make_theirs(f, GNUTLS_CLIENT, NORMAL ":-CIPHER-ALL:+AES-256-GCM:-GROUP-ALL:+GROUP-SECP256R1");
    make_server(f, false);
    assert_int_equal(shake(f, &err), SW_OK);
    assert_string_equal(sw_tls_cipher(f->ours), "TLS1.3 AES-256-GCM");
    check_sending(f, 50000);
    check_receiving(f, "hello");
}

/* The suites Istio's ztunnel offers, in its order. */
static void server_prefers_aes128(void **state)
{
    struct fixture *f = *state;
    struct sw_err err;

    make_theirs(f, GNUTLS_CLIENT, NORMAL ":-CIPHER-ALL:+AES-256-GCM:+AES-128-GCM");
    make_server(f, false);
    assert_int_equal(shake(f, &err), SW_OK);
    assert_string_equal(sw_tls_cipher(f->ours), "TLS1.3 AES-128-GCM");
}

#define ONLY12 "NORMAL:-VERS-ALL:+VERS-TLS1.2"

static void start_tls12(struct fixture *f)
{
    struct sw_tls_params p = {.server = true, .cred = f->cred, .alpn = "h2", .tls12 = true};
    struct sw_err err;

    make_theirs(f, GNUTLS_CLIENT, ONLY12);
    f->ours = sw_tls_new(&p, NULL);
    if (shake(f, &err) != SW_OK)
        fail_msg("%s", err.msg);
    assert_non_null(strstr(sw_tls_cipher(f->ours), "TLS1.2 "));
    assert_string_equal(sw_tls_alpn(f->ours), "h2");
    check_sending(f, 50000);
    check_receiving(f, "hello");
}

static void a_client_of_tls12_only_is_told_the_version(void **state)
{
    struct fixture *f = *state;
    struct sw_err err;

    make_theirs(f, GNUTLS_CLIENT, ONLY12);
    make_server(f, false);
    assert_int_equal(shake(f, &err), SW_EPROTO);
    assert_string_equal(err.msg, "peer does not offer TLS 1.3");
    assert_int_equal(gnutls_alert_get(f->theirs), GNUTLS_A_PROTOCOL_VERSION);
}

static int open_next(struct fixture *f, struct sw_err *err)
{
    struct sw_slice in = sw_buf_slice(&f->to_us);
    struct sw_slice got;
    size_t used = 0;
    int rc = sw_tls_open(f->ours, (uint8_t *)(uintptr_t)in.p, in.n, &used, &got, err);

    sw_buf_consume(&f->to_us, used);
    return rc;
}

static void tls12_half_close(void **state)
{
    struct fixture *f = *state;
    uint8_t out[SW_TLS_CTRL_ROOM];
    uint8_t byte;
    struct sw_err err;
    size_t n;

    start_tls12(f);
    assert_int_equal(open_next(f, &err), SW_EAGAIN);
    sw_tls_key_update(f->ours, true); /* there is no such thing here */
    assert_false(sw_tls_wants_flush(f->ours));
    n = sw_tls_close_notify(f->ours, out, sizeof(out));
    assert_true(n > 0);
    assert_int_equal(sw_buf_append(&f->to_them, out, n), SW_OK);
    assert_int_equal(gnutls_record_recv(f->theirs, &byte, 1), 0);
    assert_int_equal(sw_tls_close_notify(f->ours, out, sizeof(out)), 0);
    check_receiving(f, "still here");
    assert_int_equal(gnutls_bye(f->theirs, GNUTLS_SHUT_WR), 0);
    assert_int_equal(open_next(f, &err), SW_EOF);
    assert_int_equal(open_next(f, &err), SW_EOF);
}

static void tls12_tampering(void **state)
{
    struct fixture *f = *state;
    uint8_t out[SW_TLS_CTRL_ROOM];
    struct sw_err err;

    start_tls12(f);
    assert_int_equal(gnutls_record_send(f->theirs, "hello", 5), 5);
    f->to_us.p[f->to_us.off + 15] ^= 1;
    assert_int_equal(open_next(f, &err), SW_EPROTO);
    assert_int_equal(open_next(f, &err), SW_EPROTO);
    assert_true(sw_tls_alert_for_err(f->ours, &err, out, sizeof(out)) > 0);
    assert_int_equal(sw_tls_alert_for_err(f->ours, &err, out, sizeof(out)), 0);
    assert_int_equal(sw_tls_seal(f->ours, out, 1, out + 8), 0);
}

static void tls12_alerts(void **state)
{
    struct fixture *f = *state;
    uint8_t out[SW_TLS_CTRL_ROOM];
    struct sw_err err;

    start_tls12(f);
    assert_int_equal(gnutls_alert_send(f->theirs, GNUTLS_AL_FATAL, GNUTLS_A_UNKNOWN_CA), 0);
    assert_int_equal(open_next(f, &err), SW_EDENIED);
    assert_non_null(strstr(err.msg, "alert 48"));
    assert_int_equal(sw_tls_alert_for_err(f->ours, &err, out, sizeof(out)), 0);
}

static void tls12_renegotiation_is_refused(void **state)
{
    struct fixture *f = *state;
    uint8_t out[SW_TLS_CTRL_ROOM];
    struct sw_err err;

    start_tls12(f);
    (void)gnutls_handshake(f->theirs); /* asks for another */
    assert_int_equal(open_next(f, &err), SW_EPROTO);
    assert_true(sw_tls_alert_for_err(f->ours, &err, out, sizeof(out)) > 0);
}

static void tls12_own_failure(void **state)
{
    struct fixture *f = *state;
    uint8_t out[SW_TLS_CTRL_ROOM];
    struct sw_err err = {.rc = SW_EDENIED};
    uint8_t byte;
    size_t n;

    start_tls12(f);
    n = sw_tls_alert_for_err(f->ours, &err, out, sizeof(out));
    assert_int_equal(sw_buf_append(&f->to_them, out, n), SW_OK);
    assert_int_equal(gnutls_record_recv(f->theirs, &byte, 1), GNUTLS_E_FATAL_ALERT_RECEIVED);
    assert_int_equal(gnutls_alert_get(f->theirs), GNUTLS_A_ACCESS_DENIED);
}

static void leniency_is_for_servers(void **state)
{
    struct fixture *f = *state;
    struct sw_tls_params p = {.cred = f->cred, .web = true};
    struct sw_err err;

    assert_null(sw_tls_new(&p, &err));
    assert_int_equal(err.rc, SW_EINVAL);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(record_size_limit_of_a_client),
        T(record_size_limit_of_a_server),
        T(key_updates_with_gnutls),
        T(chacha_when_asked_for),
        T(chacha_is_refused_by_default),
        T(aes256_only),
        T(server_prefers_aes128),
        T(a_client_of_tls12_only_is_told_the_version),
        T(tls12_half_close),
        T(tls12_tampering),
        T(tls12_alerts),
        T(tls12_renegotiation_is_refused),
        T(tls12_own_failure),
        T(leniency_is_for_servers),
    };

    return cmocka_run_group_tests_name("gnutls", tests, NULL, NULL);
}
