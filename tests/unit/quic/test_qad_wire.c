/* SPDX-License-Identifier: Apache-2.0 */
/* The parameter and the frame of address discovery, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "quic/wire/qad.h"

static struct sw_addr addr(const char *text)
{
    struct sw_addr a;

    assert_int_equal(sw_addr_parse(sw_slice_str(text), &a, NULL), SW_OK);
    return a;
}

/* A packet with a DATAGRAM frame that stands for a report, between others. */
static size_t packet(uint8_t *out, const struct sw_addr *at, uint32_t seq)
{
    static const uint8_t before[] = {0x02, 0x05, 0x00, 0x01, 0x02, 0x00, 0x01, /* ACK, 2 ranges */
                                     0x1e,                                     /* HANDSHAKE_DONE */
                                     0x06, 0x00, 0x02, 0x31, 0x09,             /* CRYPTO */
                                     0x1a, 0x31, 2,    3,    4,    5,    6,
                                     7,    8}; /* PATH_CHALLENGE */
    static const uint8_t after[] = {0x00, 0x00, 0x01};
    size_t n = sizeof(before);
    size_t len;

    memcpy(out, before, n);
    len = sw_qad_put_report(out + n + 2, at, seq);
    out[n] = 0x31;
    out[n + 1] = (uint8_t)len;
    n += 2 + len;
    memcpy(out + n, after, sizeof(after));
    return n + sizeof(after);
}

static void test_there_and_back(void **state)
{
    static const char *const texts[] = {"192.0.2.7:50000", "[2001:db8::17]:443", "0.0.0.0:0"};
    uint8_t wire[128];
    uint8_t was[128];

    for (size_t i = 0; i < 3; i++) {
        struct sw_addr at = addr(texts[i]);
        struct sw_addr got;
        uint64_t seq;
        size_t n = packet(was, &at, 77);
        bool v6 = at.ip.family == 6;

        memcpy(wire, was, n);
        assert_true(sw_qad_to_wire(wire, n));
        /* draft-seemann-quic-address-discovery: type, sequence, address, port */
        assert_memory_equal(wire + 22, v6 ? "\x80\x9f\x81\xa7" : "\x80\x9f\x81\xa6", 4);
        assert_memory_equal(wire + 26, "\x80\x00\x00\x4d", 4);
        assert_memory_equal(wire + 30, at.ip.b, sw_ip_len(&at.ip));
        assert_memory_equal(wire, was, 22);
        assert_true(sw_qad_from_wire(wire, n));
        assert_memory_equal(wire, was, n);
        assert_true(sw_qad_get_report(wire + 24, wire[23], &got, &seq));
        assert_true(sw_addr_eq(&got, &at));
        assert_int_equal(seq, 77);
    }
}

/* As a native relay writes it: the shortest sequence number, and IPv4 inside IPv6. */
static void test_native_frames(void **state)
{
    uint8_t short_seq[] = {0x80, 0x9f, 0x81, 0xa6, 0x00, 192, 0, 2, 1, 0x1e, 0xa2};
    uint8_t mapped[] = {0x01, 0x80, 0x9f, 0x81, 0xa7, 0x05, 0,  0, 0, 0, 0,    0,
                        0,    0,    0,    0,    0xff, 0xff, 10, 0, 0, 9, 0x00, 0x50};
    struct sw_addr want = addr("192.0.2.1:7842");
    struct sw_addr got;
    uint64_t seq;

    assert_true(sw_qad_from_wire(short_seq, sizeof(short_seq)));
    assert_int_equal(short_seq[0], 0x31);
    assert_int_equal(short_seq[1], 9);
    assert_true(sw_qad_get_report(short_seq + 2, 9, &got, &seq));
    assert_true(sw_addr_eq(&got, &want));
    assert_int_equal(seq, 0);
    assert_true(sw_qad_from_wire(mapped, sizeof(mapped)));
    assert_true(sw_qad_get_report(mapped + 3, mapped[2], &got, &seq));
    want = addr("10.0.0.9:80");
    assert_true(sw_addr_eq(&got, &want));
    assert_int_equal(seq, 5);
}

static void test_cut_frames_stay_as_they_are(void **state)
{
    static const uint8_t whole[] = {0x80, 0x9f, 0x81, 0xa6, 0x00, 192, 0, 2, 1, 0x1e, 0xa2};
    uint8_t p[sizeof(whole)];

    for (size_t n = 0; n < sizeof(whole); n++) {
        memcpy(p, whole, sizeof(whole));
        assert_true(sw_qad_from_wire(p, n));
        assert_memory_equal(p, whole, sizeof(whole));
    }
}

static void test_datagrams_of_peers_are_refused(void **state)
{
    uint8_t with_len[] = {0x01, 0x31, 0x02, 0x04, 0x00};
    uint8_t to_end[] = {0x30, 0x04, 0x00};
    uint8_t ours_wrong[] = {0x31, 0x02, 0x04, 0x00};
    uint8_t ping[] = {0x1e, 0x31, 0x02, 0x00, 0x00};

    assert_false(sw_qad_from_wire(with_len, sizeof(with_len)));
    assert_false(sw_qad_from_wire(to_end, sizeof(to_end)));
    assert_false(sw_qad_to_wire(ours_wrong, sizeof(ours_wrong)));
    assert_true(sw_qad_to_wire(ping, sizeof(ping)));
    assert_memory_equal(ping, "\x1e\x01\x00\x00\x00", sizeof(ping));
}

static void test_reports_of_wrong_shape(void **state)
{
    static const struct {
        const char *p;
        size_t n;
    } bad[] = {
        {"", 0},
        {"\x04", 1},
        {"\x04\x00", 2},
        {"\x05\x00\x00\x01\x02\x03\x04\x05\x06", 9}, /* family */
        {"\x04\x01\x00\x01\x02\x03\x04\x05\x06", 9}, /* mark */
        {"\x04\x00\x00\x01\x02\x03\x04\x05", 8},     /* cut */
        {"\x04\x00\x00\x01\x02\x03\x04\x05\x06\x07", 10},
        {"\x06\x00\x00\x01\x02\x03\x04\x05\x06", 9},
    };
    struct sw_addr at;
    uint64_t seq;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(sw_qad_get_report((const uint8_t *)bad[i].p, bad[i].n, &at, &seq));
}

static void test_parameters(void **state)
{
    static const uint8_t in[] = {0x01, 0x02, 0x47, 0xd0,             /* idle */
                                 0x20, 0x04, 0x80, 0x00, 0xff, 0xff, /* datagrams */
                                 0xc0, 0,    0,    0,    0x9f, 0x81,
                                 0xa1, 0x76, 0x01, 0x01, /* ours */
                                 0x0f, 0x00};
    static const uint8_t want[] = {0x01, 0x02, 0x47, 0xd0, 0x0f, 0x00, 0x20, 0x02, 0x42, 0x00};
    uint8_t out[64];
    uint8_t param[SW_QAD_PARAM];
    enum sw_qad_role role;
    size_t n;
    struct sw_err err = {0};

    assert_int_equal(sw_qad_params_in(sw_slice(in, sizeof(in)), out, &n, &role, &err), SW_OK);
    assert_int_equal(n, sizeof(want));
    assert_memory_equal(out, want, n);
    assert_int_equal(role, SW_QAD_RECEIVES);
    sw_qad_put_param(param, SW_QAD_RECEIVES);
    assert_memory_equal(param, in + 10, sizeof(param));
    /* Cut anywhere but between two: an error that says where. */
    for (size_t i = 0; i <= sizeof(in); i++) {
        int rc = sw_qad_params_in(sw_slice(in, i), out, &n, &role, &err);

        assert_int_equal(rc == SW_OK, i == 0 || i == 4 || i == 10 || i == 20 || i == 22);
        if (rc == SW_OK && i <= 10)
            assert_int_equal(role, SW_QAD_NONE);
    }
}

static void test_parameters_that_are_wrong(void **state)
{
    static const uint8_t three[] = {0xc0, 0, 0, 0, 0x9f, 0x81, 0xa1, 0x76, 1, 3};
    static const uint8_t empty[] = {0xc0, 0, 0, 0, 0x9f, 0x81, 0xa1, 0x76, 0};
    static const uint8_t longer[] = {0xc0, 0, 0, 0, 0x9f, 0x81, 0xa1, 0x76, 2, 1, 1};
    static const uint8_t twice[] = {0xc0, 0, 0, 0, 0x9f, 0x81, 0xa1, 0x76, 1, 1,
                                    0xc0, 0, 0, 0, 0x9f, 0x81, 0xa1, 0x76, 1, 1};
    const struct sw_slice bad[] = {
        sw_slice(three, sizeof(three)),
        sw_slice(empty, sizeof(empty)),
        sw_slice(longer, sizeof(longer)),
        sw_slice(twice, sizeof(twice)),
    };
    uint8_t out[64];
    enum sw_qad_role role;
    size_t n;
    struct sw_err err = {0};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(sw_qad_params_in(bad[i], out, &n, &role, &err), SW_EPROTO);
        assert_non_null(strstr(err.msg, "0x9f81a176"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_native_frames),
        cmocka_unit_test(test_cut_frames_stay_as_they_are),
        cmocka_unit_test(test_datagrams_of_peers_are_refused),
        cmocka_unit_test(test_reports_of_wrong_shape),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_parameters_that_are_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
