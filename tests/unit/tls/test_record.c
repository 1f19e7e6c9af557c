/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/record.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/rand.h"
#include "tls/sched.h"
#include "tls/tls.h"

#include "test.h"

/* A client and a server under fixed secrets; 'wire' is what one sealed for the other. */
struct pair {
    struct sw_record c;
    struct sw_record s;
    uint8_t wire[SW_TLS_RECORD_MAX + 4096];
};

static void pair_init(struct pair *p, enum sw_aead_alg alg, size_t secret_len)
{
    uint8_t a[48], b[48];

    memset(a, 0x11, sizeof(a));
    memset(b, 0x22, sizeof(b));
    sw_record_init(&p->c, &(struct sw_record_keys){.alg = alg,
                                                   .secret_len = secret_len,
                                                   .max_plain = SW_TLS_PLAIN_MAX,
                                                   .rx_secret = a,
                                                   .tx_secret = b});
    sw_record_init(&p->s, &(struct sw_record_keys){.alg = alg,
                                                   .server = true,
                                                   .secret_len = secret_len,
                                                   .max_plain = SW_TLS_PLAIN_MAX,
                                                   .rx_secret = b,
                                                   .tx_secret = a});
}

static int set_up(void **state)
{
    struct pair *p = sw_calloc(1, sizeof(*p));

    pair_init(p, SW_AEAD_AES_128_GCM, 32);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct pair *p = *state;

    sw_record_done(&p->c);
    sw_record_done(&p->s);
    sw_free(p);
    return 0;
}

/* Opens wire[0..n) at r and expects rc; on failure expects this alert to leave. */
static void expect_open(struct pair *p, struct sw_record *r, size_t n, int rc, unsigned alert)
{
    struct sw_record *other = r == &p->c ? &p->s : &p->c;
    struct sw_err err = {0};
    struct sw_slice plain;
    uint8_t out[SW_TLS_CTRL_ROOM];
    size_t used = 99;

    assert_int_equal(sw_record_open(r, p->wire, n, &used, &plain, &err), rc);
    if (rc == SW_OK || rc == SW_EOF) {
        assert_int_equal(used, n);
        return;
    }
    assert_int_equal(used, 0);
    if (rc == SW_EAGAIN)
        return;
    n = sw_record_alert(r, &err, out);
    if (alert == 0) {
        assert_int_equal(n, 0);
        return;
    }
    assert_int_equal(n, 5 + 2 + 1 + 16);
    assert_int_equal(sw_record_open(other, out, n, &used, &plain, &err),
                     sw_alert_is_refusal(alert) ? SW_EDENIED : SW_EPROTO);
    assert_non_null(strstr(err.msg, sw_alert_is_refusal(alert) ? "refused our certificate"
                                                               : sw_alert_name(alert)));
    /* Dead means dead. */
    assert_int_equal(sw_record_open(r, out, n, &used, &plain, &err), SW_EPROTO);
    assert_int_equal(sw_record_alert(r, &err, out), 0);
    assert_int_equal(sw_record_close_notify(r, out), 0);
}

/* The client sends one record of this type and the server judges it. */
static void expect_raw(struct pair *p, struct sw_record *to, uint8_t type, const void *msg,
                       size_t n, size_t pad, int rc, unsigned alert)
{
    struct sw_record *from = to == &p->c ? &p->s : &p->c;

    expect_open(p, to, sw_record_seal_raw(from, type, msg, n, pad, p->wire), rc, alert);
}

static void round_trip(struct pair *p, struct sw_record *from, struct sw_record *to, size_t n)
{
    uint8_t *plain = sw_malloc(n + 1);
    uint8_t *copy = sw_malloc(n + 1);
    struct sw_slice got;
    struct sw_err err;
    size_t used = 0;
    size_t at = 0;
    size_t len;

    sw_rand_bytes(plain, n + 1);
    memcpy(copy, plain, n + 1);
    len = sw_record_seal(from, plain, n, p->wire);
    assert_true(len <= SW_TLS_SEAL_ROOM(n));
    assert_memory_equal(plain, copy, n + 1);
    do {
        assert_int_equal(sw_record_open(to, p->wire + at, len - at, &used, &got, &err), SW_OK);
        at += used;
    } while (at < len && got.n == 0);
    assert_int_equal(at, len);
    assert_int_equal(got.n, n);
    assert_memory_equal(got.p, copy, n);
    sw_free(plain);
    sw_free(copy);
}

static void data_of_every_size_both_ways(void **state)
{
    static const size_t sizes[] = {1, 2, 15, 16, 17, 255, 1000, 16383, 16384};
    struct pair *p = *state;

    for (int alg = 0; alg < 3; alg++) {
        tear_down(state);
        set_up(state);
        p = *state;
        sw_record_done(&p->c);
        sw_record_done(&p->s);
        pair_init(p, (enum sw_aead_alg)alg, alg == SW_AEAD_AES_256_GCM ? 48 : 32);
        for (size_t i = 0; i < SW_ARRAY_LEN(sizes); i++) {
            round_trip(p, &p->c, &p->s, sizes[i]);
            round_trip(p, &p->s, &p->c, sizes[i]);
        }
        assert_int_equal(p->c.tx.seq, SW_ARRAY_LEN(sizes));
        assert_int_equal(p->c.rx.seq, SW_ARRAY_LEN(sizes));
    }
}

/* Derived with the labels of RFC 8446; secret and answers from RFC 8448 section 3 (server
 * application). */
static void derives_keys_of_rfc_8448(void **state)
{
    static const uint8_t secret[32] = {0xa1, 0x1a, 0xf9, 0xf0, 0x55, 0x31, 0xf8, 0x56,
                                       0xad, 0x47, 0x11, 0x6b, 0x45, 0xa9, 0x50, 0x32,
                                       0x82, 0x04, 0xb4, 0xf4, 0x4b, 0xfb, 0x6b, 0x3a,
                                       0x4b, 0x4f, 0x1f, 0x3f, 0xcb, 0x63, 0x16, 0x43};
    static const uint8_t key[16] = {0x9f, 0x02, 0x28, 0x3b, 0x6c, 0x9c, 0x07, 0xef,
                                    0xc2, 0x6b, 0xb9, 0xf2, 0xac, 0x92, 0xe3, 0x56};
    static const uint8_t iv[12] = {0xcf, 0x78, 0x2b, 0x88, 0xdd, 0x83,
                                   0x54, 0x9a, 0xad, 0xf1, 0xe9, 0x84};
    uint8_t out[16];

    (void)state;
    sw_hkdf_label(secret, 32, "key", out, 16);
    assert_memory_equal(out, key, 16);
    sw_hkdf_label(secret, 32, "iv", out, 12);
    assert_memory_equal(out, iv, 12);
}

static void incomplete_records_wait(void **state)
{
    struct pair *p = *state;
    uint8_t plain[100] = {0};
    size_t n = sw_record_seal(&p->c, plain, 50, p->wire);

    for (size_t i = 0; i < n; i++)
        expect_open(p, &p->s, i, SW_EAGAIN, 0);
    expect_open(p, &p->s, n, SW_OK, 0);
}

static void tampered_record(void **state)
{
    struct pair *p = *state;
    uint8_t plain[100] = {0};
    size_t n = sw_record_seal(&p->c, plain, 50, p->wire);

    p->wire[20] ^= 1;
    expect_open(p, &p->s, n, SW_EPROTO, 20);
}

static void replayed_record(void **state)
{
    struct pair *p = *state;
    uint8_t plain[100] = {0};
    uint8_t copy[200];
    size_t n = sw_record_seal(&p->c, plain, 50, p->wire);

    memcpy(copy, p->wire, n);
    expect_open(p, &p->s, n, SW_OK, 0);
    memcpy(p->wire, copy, n);
    expect_open(p, &p->s, n, SW_EPROTO, 20);
}

static void header_is_authenticated(void **state)
{
    struct pair *p = *state;
    uint8_t plain[100] = {0};
    size_t n = sw_record_seal(&p->c, plain, 50, p->wire);

    p->wire[2] = 1; /* any version is let through, but it is part of the additional data */
    expect_open(p, &p->s, n, SW_EPROTO, 20);
}

static void outer_length_too_large(void **state)
{
    struct pair *p = *state;

    memcpy(p->wire, "\x17\x03\x03\x41\x01", 5); /* 16641 */
    expect_open(p, &p->s, 5, SW_EPROTO, 22);
}

static void outer_length_too_small(void **state)
{
    struct pair *p = *state;

    memcpy(p->wire, "\x17\x03\x03\x00\x10", 5);
    expect_open(p, &p->s, 5, SW_EPROTO, 20);
}

static void outer_types_other_than_data(void **state)
{
    static const uint8_t types[] = {0, 20, 21, 22, 24, 255};

    for (size_t i = 0; i < sizeof(types); i++) {
        struct pair *p = *state;

        p->wire[0] = types[i];
        expect_open(p, &p->s, 1, SW_EPROTO, 10);
        tear_down(state);
        set_up(state);
    }
}

static void padding_is_dropped(void **state)
{
    struct pair *p = *state;
    struct sw_slice plain;
    size_t used;
    size_t n = sw_record_seal_raw(&p->c, 23, (const uint8_t *)"hello", 5, 512, p->wire);

    assert_int_equal(sw_record_open(&p->s, p->wire, n, &used, &plain, NULL), SW_OK);
    assert_true(sw_slice_eq_str(plain, "hello"));
    expect_raw(p, &p->s, 23, "", 0, 16384, SW_OK, 0);
    expect_raw(p, &p->s, 23, "", 0, 16385, SW_EPROTO, 22);
}

static void nothing_but_padding(void **state)
{
    struct pair *p = *state;

    expect_raw(p, &p->s, 0, "\0\0\0", 3, 4, SW_EPROTO, 10);
}

static void unknown_inner_types(void **state)
{
    static const uint8_t types[] = {1, 19, 20, 24, 25, 255};

    for (size_t i = 0; i < sizeof(types); i++) {
        expect_raw(*state, &((struct pair *)*state)->s, types[i], "x", 1, 0, SW_EPROTO, 10);
        tear_down(state);
        set_up(state);
    }
}

static void empty_records_are_counted(void **state)
{
    struct pair *p = *state;

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < SW_RECORD_EMPTY_MAX; i++)
            expect_raw(p, &p->s, 23, "", 0, 0, SW_OK, 0);
        expect_raw(p, &p->s, 23, "x", 1, 0, SW_OK, 0);
    }
    for (int i = 0; i < SW_RECORD_EMPTY_MAX - 1; i++)
        expect_raw(p, &p->s, 23, "", 0, 0, SW_OK, 0);
    expect_raw(p, &p->s, 21, "\x01\x5a", 2, 0, SW_OK, 0); /* user_canceled counts as well */
    expect_raw(p, &p->s, 23, "", 0, 0, SW_EPROTO, 10);
}

static void alerts_of_the_peer(void **state)
{
    static const struct {
        const char *msg;
        size_t n;
        int rc;
        unsigned answer;
    } cases[] = {
        {"\x01\x00", 2, SW_EOF, 0},     {"\x02\x00", 2, SW_EOF, 0},
        {"\x01\x5a", 2, SW_OK, 0},      {"\x02\x5a", 2, SW_EPROTO, 0},
        {"\x02\x28", 2, SW_EPROTO, 0},  {"\x01\x28", 2, SW_EPROTO, 0},
        {"\x02\x2a", 2, SW_EDENIED, 0}, {"\x02\x30", 2, SW_EDENIED, 0},
        {"\x02\x74", 2, SW_EDENIED, 0}, {"\x02\x31", 2, SW_EDENIED, 0},
        {"\x02\xff", 2, SW_EPROTO, 0},  {"", 0, SW_EPROTO, 10},
        {"\x02", 1, SW_EPROTO, 50},     {"\x02\x28\x00", 3, SW_EPROTO, 50},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct pair *p = *state;

        expect_raw(p, &p->s, 21, cases[i].msg, cases[i].n, 0, cases[i].rc, cases[i].answer);
        tear_down(state);
        set_up(state);
    }
}

static void refusal_names_the_alert(void **state)
{
    struct pair *p = *state;
    struct sw_err err;
    struct sw_slice plain;
    size_t used;
    size_t n = sw_record_seal_raw(&p->s, 21, (const uint8_t *)"\x02\x74", 2, 0, p->wire);

    assert_int_equal(sw_record_open(&p->c, p->wire, n, &used, &plain, &err), SW_EDENIED);
    assert_string_equal(err.msg, "peer refused our certificate (alert 116)");
}

static void close_notify_ends_one_direction(void **state)
{
    struct pair *p = *state;
    uint8_t plain[10] = {0};
    size_t n = sw_record_close_notify(&p->c, p->wire);

    assert_int_equal(n, 5 + 2 + 1 + 16);
    expect_open(p, &p->s, n, SW_EOF, 0);
    p->wire[0] = 99; /* what follows is not even looked at */
    expect_open(p, &p->s, 7, SW_EOF, 0);
    assert_int_equal(sw_record_close_notify(&p->c, p->wire), 0);
    assert_int_equal(sw_record_seal(&p->c, plain, 5, p->wire), 0);
    round_trip(p, &p->s, &p->c, 100);
}

static void tickets_are_skipped(void **state)
{
    struct pair *p = *state;
    uint8_t two[2 * 204] = {4, 0, 0, 200};

    two[204] = 4;
    two[207] = 200;
    expect_raw(p, &p->c, 22, two, sizeof(two), 0, SW_OK, 0);
    for (size_t i = 0; i < sizeof(two); i++) /* cut at every byte */
        expect_raw(p, &p->c, 22, two + i, 1, 0, SW_OK, 0);
    expect_raw(p, &p->c, 22, two, 210, 0, SW_OK, 0);
    expect_raw(p, &p->c, 22, two + 210, sizeof(two) - 210, 0, SW_OK, 0);
    round_trip(p, &p->s, &p->c, 100);
}

static void ticket_to_a_server(void **state)
{
    struct pair *p = *state;

    expect_raw(p, &p->s, 22, "\x04\x00\x00\x01x", 5, 0, SW_EPROTO, 10);
}

static void tickets_of_impossible_length(void **state)
{
    struct pair *p = *state;

    expect_raw(p, &p->c, 22, "\x04\xff\xff\xff", 4, 0, SW_EPROTO, 50);
    tear_down(state);
    set_up(state);
    p = *state;
    expect_raw(p, &p->c, 22, "\x04\x00\x00\x00", 4, 0, SW_EPROTO, 50);
}

static void data_inside_a_handshake_message(void **state)
{
    struct pair *p = *state;

    expect_raw(p, &p->c, 22, "\x04\x00\x00\x09xyz", 7, 0, SW_OK, 0);
    expect_raw(p, &p->c, 23, "data", 4, 0, SW_EPROTO, 10);
}

static void alert_inside_a_handshake_message(void **state)
{
    struct pair *p = *state;

    expect_raw(p, &p->c, 22, "\x04", 1, 0, SW_OK, 0);
    expect_raw(p, &p->c, 21, "\x01\x00", 2, 0, SW_EPROTO, 10);
}

static void other_handshake_messages(void **state)
{
    static const uint8_t types[] = {0, 1, 2, 5, 8, 11, 13, 15, 20, 23, 25, 254};

    for (size_t i = 0; i < sizeof(types); i++) {
        uint8_t msg[4] = {types[i], 0, 0, 1};
        struct pair *p = *state;

        expect_raw(p, &p->c, 22, msg, sizeof(msg), 0, SW_EPROTO, 10);
        tear_down(state);
        set_up(state);
    }
    expect_raw(*state, &((struct pair *)*state)->c, 22, "", 0, 0, SW_EPROTO, 10);
}

static void key_update_both_ways(void **state)
{
    struct pair *p = *state;
    uint32_t gen;

    for (int i = 0; i < 8; i++) {
        round_trip(p, &p->c, &p->s, 100);
        sw_record_key_update(&p->c, i % 2 == 0);
        gen = p->s.tx.gen;
        round_trip(p, &p->c, &p->s, 200); /* the update goes out in front of the data */
        assert_int_equal(p->s.ku_send, i % 2 == 0 ? 1 : 0);
        round_trip(p, &p->s, &p->c, 300);
        assert_int_equal(p->s.tx.gen, i % 2 == 0 ? gen + 1 : gen);
        round_trip(p, &p->s, &p->c, 1);
    }
    assert_int_equal(p->c.tx.gen, 8);
    assert_int_equal(p->c.rx.gen, 4);
}

static void key_update_requests_are_answered_once(void **state)
{
    struct pair *p = *state;
    uint8_t out[SW_TLS_CTRL_ROOM];

    for (int i = 0; i < 5; i++) {
        size_t n;

        sw_record_key_update(&p->c, true);
        n = sw_record_flush(&p->c, p->wire);
        assert_int_equal(n, 5 + 5 + 1 + 16);
        expect_open(p, &p->s, n, SW_OK, 0);
    }
    assert_int_equal(sw_record_flush(&p->s, out), 27);
    assert_int_equal(sw_record_flush(&p->s, out), 0);
    assert_int_equal(p->s.tx.gen, 1);
}

static void key_update_cut_in_two(void **state)
{
    struct pair *p = *state;

    expect_raw(p, &p->s, 22, "\x18\x00\x00", 3, 0, SW_OK, 0);
    expect_raw(p, &p->s, 22, "\x01", 1, 0, SW_OK, 0);
    assert_int_equal(p->s.rx.gen, 0);
    expect_raw(p, &p->s, 22, "\x00", 1, 0, SW_OK, 0);
    assert_int_equal(p->s.rx.gen, 1);
}

static void malformed_key_updates(void **state)
{
    static const struct {
        const char *msg;
        size_t n;
        unsigned alert;
    } cases[] = {
        {"\x18\x00\x00\x01\x02", 5, 47},
        {"\x18\x00\x00\x00", 4, 47},
        {"\x18\x00\x00\x02\x00\x00", 6, 47},
        {"\x18\x00\x00\x01\x00\x18", 6, 10},
        {"\x18\x00\x00\x01\x01\x04\x00\x00\x01x", 10, 10},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct pair *p = *state;

        expect_raw(p, &p->c, 22, cases[i].msg, cases[i].n, 0, SW_EPROTO, cases[i].alert);
        tear_down(state);
        set_up(state);
    }
}

static void key_update_flood(void **state)
{
    struct pair *p = *state;
    size_t n;

    for (int i = 0; i < SW_RECORD_KEY_UPDATES; i++) {
        sw_record_key_update(&p->c, false);
        n = sw_record_flush(&p->c, p->wire);
        expect_open(p, &p->s, n, SW_OK, 0);
    }
    sw_record_key_update(&p->c, false);
    n = sw_record_flush(&p->c, p->wire);
    expect_open(p, &p->s, n, SW_EPROTO, 10);
}

static void key_updates_over_time_are_fine(void **state)
{
    struct pair *p = *state;

    for (int i = 0; i < 4 * SW_RECORD_KEY_UPDATES; i++) {
        size_t n;

        sw_record_key_update(&p->c, false);
        n = sw_record_flush(&p->c, p->wire);
        expect_open(p, &p->s, n, SW_OK, 0);
        p->s.ku_from_ns -= UINT64_C(1000000000); /* as if a second had passed */
    }
}

static void worn_keys_are_replaced(void **state)
{
    struct pair *p = *state;

    p->c.tx.seq = SW_RECORD_REKEY_RECORDS - 1;
    p->s.rx.seq = SW_RECORD_REKEY_RECORDS - 1;
    round_trip(p, &p->c, &p->s, 10);
    assert_int_equal(p->c.tx.gen, 0);
    round_trip(p, &p->c, &p->s, 10);
    assert_int_equal(p->c.tx.gen, 1);
    assert_int_equal(p->c.tx.seq, 1);
    p->c.tx.bytes = SW_RECORD_REKEY_BYTES;
    round_trip(p, &p->c, &p->s, 10);
    assert_int_equal(p->c.tx.gen, 2);
    assert_int_equal(p->s.tx.gen, 0);
}

static void own_failures_choose_an_alert(void **state)
{
    struct pair *p = *state;
    struct sw_err err = {.rc = SW_EDENIED};
    struct sw_slice plain;
    size_t used;
    size_t n = sw_record_alert(&p->c, &err, p->wire);

    assert_int_equal(sw_record_open(&p->s, p->wire, n, &used, &plain, &err), SW_EDENIED);
    tear_down(state);
    set_up(state);
    p = *state;
    n = sw_record_alert(&p->c, NULL, p->wire);
    assert_int_equal(sw_record_open(&p->s, p->wire, n, &used, &plain, &err), SW_EPROTO);
    assert_non_null(strstr(err.msg, "internal_error"));
}

static void many_connections_share_the_schedules(void **state)
{
    struct pair *all = sw_calloc(100, sizeof(*all));

    (void)state;
    for (int i = 0; i < 100; i++)
        pair_init(&all[i], SW_AEAD_AES_128_GCM, 32);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++) {
            round_trip(&all[i], &all[i].c, &all[i].s, 64);
            if (i % 7 == round)
                sw_record_key_update(&all[i].s, true);
            round_trip(&all[i], &all[i].s, &all[i].c, 64);
        }
    }
    for (int i = 0; i < 100; i++) {
        sw_record_done(&all[i].c);
        sw_record_done(&all[i].s);
    }
    sw_free(all);
}

static void done_leaves_no_keys(void **state)
{
    struct pair *p = *state;
    uint8_t zero[sizeof(p->c.rx)] = {0};

    round_trip(p, &p->c, &p->s, 10);
    sw_record_done(&p->c);
    assert_memory_equal(&p->c.rx, zero, sizeof(zero));
    assert_memory_equal(&p->c.tx, zero, sizeof(zero));
    assert_int_equal(sw_record_seal(&p->c, p->wire, 1, p->wire + 100), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    /* The same once more over the fallback. */
    const char *aead = getenv("SPANWIRE_AEAD");
    int choice = aead && strcmp(aead, "gnutls") == 0 ? SW_AEAD_GNUTLS : SW_AEAD_AUTO;
    const struct CMUnitTest tests[] = {
        T(data_of_every_size_both_ways),
        T(derives_keys_of_rfc_8448),
        T(incomplete_records_wait),
        T(tampered_record),
        T(replayed_record),
        T(header_is_authenticated),
        T(outer_length_too_large),
        T(outer_length_too_small),
        T(outer_types_other_than_data),
        T(padding_is_dropped),
        T(nothing_but_padding),
        T(unknown_inner_types),
        T(empty_records_are_counted),
        T(alerts_of_the_peer),
        T(refusal_names_the_alert),
        T(close_notify_ends_one_direction),
        T(tickets_are_skipped),
        T(ticket_to_a_server),
        T(tickets_of_impossible_length),
        T(data_inside_a_handshake_message),
        T(alert_inside_a_handshake_message),
        T(other_handshake_messages),
        T(key_update_both_ways),
        T(key_update_requests_are_answered_once),
        T(key_update_cut_in_two),
        T(malformed_key_updates),
        T(key_update_flood),
        T(key_updates_over_time_are_fine),
        T(worn_keys_are_replaced),
        T(own_failures_choose_an_alert),
        T(many_connections_share_the_schedules),
        T(done_leaves_no_keys),
    };

    if (sw_aead_init((enum sw_aead_choice)choice, NULL) != SW_OK)
        return 1;
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
