/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "http/capsule.h"

static void integers_have_four_lengths(void **state)
{
    static const struct {
        uint64_t v;
        size_t n;
        const char *bytes;
    } cases[] = {
        {0, 1, "\x00"},
        {63, 1, "\x3f"},
        {64, 2, "\x40\x40"},
        {16383, 2, "\x7f\xff"},
        {16384, 4, "\x80\x00\x40\x00"},
        {494878333, 4, "\x9d\x7f\x3e\x7d"},
        {1 << 30, 8, "\xc0\x00\x00\x00\x40\x00\x00\x00"},
        {UINT64_C(151288809941952652), 8, "\xc2\x19\x7c\x5e\xff\x14\xe8\x8c"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t out[SW_VARINT_MAX];
        uint64_t v = 0;

        assert_int_equal(sw_varint_put(out, cases[i].v), cases[i].n);
        assert_memory_equal(out, cases[i].bytes, cases[i].n);
        assert_int_equal(sw_varint_get(out, cases[i].n, &v), cases[i].n);
        assert_int_equal(v, cases[i].v);
        for (size_t k = 0; k < cases[i].n; k++)
            assert_int_equal(sw_varint_get(out, k, &v), 0);
    }
    /* Longer than needed is allowed: RFC 9000, A.1. */
    assert_int_equal(sw_varint_get((const uint8_t *)"\x40\x25", 2, &(uint64_t){0}), 2);
}

/* Feeds 'in' in pieces of 'step' bytes; values joined with '|'. The last code. */
static int feed(struct sw_slice in, size_t step, struct sw_buf *out, bool *idle)
{
    struct sw_capsule_reader r = {0};
    struct sw_err err = {0};
    int rc = SW_EAGAIN;

    while (in.n && (rc == SW_OK || rc == SW_EAGAIN)) {
        struct sw_slice piece = sw_slice_head(in, step);
        struct sw_slice value = {0};
        size_t used = 0;

        rc = sw_capsule_next(&r, piece, &used, &value, &err);
        assert_true(used <= piece.n);
        if (rc == SW_EAGAIN)
            assert_int_equal(used, piece.n);
        if (rc == SW_OK) {
            assert_int_equal(sw_buf_append_slice(out, value), SW_OK);
            assert_int_equal(sw_buf_putc(out, '|'), SW_OK);
        }
        in = sw_slice_from(in, used);
    }
    *idle = sw_capsule_idle(&r);
    sw_capsule_done(&r);
    return rc;
}

static void capsules_may_come_in_any_pieces(void **state)
{
    static const struct sw_slice in =
        SW_SLICE_LIT("\x00\x03\x00hi"                  /* a datagram */
                     "\x17\x04skip"                    /* an unknown type */
                     "\x80\x00\x00\x17\x40\x02no"      /* the same, spelt longer */
                     "\x00\x00"                        /* an empty one */
                     "\x40\x00\x80\x00\x00\x02\x02x"); /* a datagram, spelt longer */

    (void)state;
    for (size_t step = 1; step <= in.n; step++) {
        SW_BUF_AUTO out = {.max = 256};
        bool idle = false;

        (void)feed(in, step, &out, &idle);
        assert_true(idle);
        assert_true(sw_slice_eq(sw_buf_slice(&out), SW_SLICE_LIT("\x00hi||\x02x|")));
    }
}

static void a_datagram_has_a_largest_size(void **state)
{
    (void)state;
    for (size_t extra = 0; extra < 2; extra++) {
        size_t n = SW_UDP_PAYLOAD_MAX + SW_VARINT_MAX + extra;
        uint8_t *in = sw_calloc(1, n + 5);
        SW_BUF_AUTO out = {.max = 1 << 18};
        bool idle = false;
        size_t k = 1 + sw_varint_put(in + 1, n);
        int rc = feed(sw_slice(in, n + k), 1000, &out, &idle);

        assert_int_equal(rc, extra ? SW_ELIMIT : SW_OK);
        assert_int_equal(sw_buf_len(&out), extra ? 0 : n + 1);
        sw_free(in);
    }
}

static void the_end_may_come_between_capsules_only(void **state)
{
    static const struct sw_slice in = SW_SLICE_LIT("\x00\x03\x00hi");

    (void)state;
    for (size_t n = 0; n <= in.n; n++) {
        SW_BUF_AUTO out = {.max = 256};
        bool idle = false;

        (void)feed(sw_slice_head(in, n), 1, &out, &idle);
        assert_int_equal(idle, n == 0 || n == in.n);
    }
}

static void payloads_have_a_context(void **state)
{
    struct sw_slice p = {0};
    uint8_t head[SW_CAPSULE_UDP_HEAD];
    char *big = sw_calloc(1, SW_UDP_PAYLOAD_MAX + 2);

    (void)state;
    assert_int_equal(sw_masque_udp_payload(SW_SLICE_LIT("\x00hi"), &p), SW_OK);
    assert_true(sw_slice_eq_str(p, "hi"));
    assert_int_equal(sw_masque_udp_payload(SW_SLICE_LIT("\x00"), &p), SW_OK);
    assert_int_equal(p.n, 0);
    assert_int_equal(sw_masque_udp_payload(SW_SLICE_LIT("\x02hi"), &p), SW_ENOENT);
    assert_int_equal(sw_masque_udp_payload(SW_SLICE_LIT(""), &p), SW_EPROTO);
    assert_int_equal(sw_masque_udp_payload(SW_SLICE_LIT("\x40"), &p), SW_EPROTO);
    assert_int_equal(sw_masque_udp_payload(sw_slice(big, SW_UDP_PAYLOAD_MAX + 1), &p), SW_OK);
    assert_int_equal(p.n, SW_UDP_PAYLOAD_MAX);
    assert_int_equal(sw_masque_udp_payload(sw_slice(big, SW_UDP_PAYLOAD_MAX + 2), &p), SW_ELIMIT);
    sw_free(big);
    assert_int_equal(sw_capsule_udp_head(head, 2), 3);
    assert_memory_equal(head, "\x00\x03\x00", 3);
    assert_int_equal(sw_capsule_udp_head(head, SW_UDP_PAYLOAD_MAX), 6);
}

static void a_capsule_fills_room_in_pieces_or_not_at_all(void **state)
{
    static const char whole[] = "\x00\x06\x00hello"; /* type, length, context, payload */
    enum { N = sizeof(whole) - 1 };

    (void)state;
    for (size_t cut = 0; cut <= N + 2; cut++) {
        for (size_t have = cut; have <= N + 2; have++) {
            char one[N + 2];
            char two[N + 2];
            char seen[2 * (N + 2)];
            struct iovec room[2] = {{one, cut}, {two, have - cut}};
            size_t n;

            memset(one, '-', sizeof(one));
            memset(two, '-', sizeof(two));
            n = sw_capsule_udp_put(room, 2, SW_SLICE_LIT("hello"));
            memcpy(seen, one, cut);
            memcpy(seen + cut, two, have - cut);
            assert_int_equal(n, have < N ? 0 : N);
            assert_memory_equal(seen, whole, n);
            for (size_t i = n; i < have; i++)
                assert_int_equal(seen[i], '-');
        }
    }
    assert_int_equal(sw_capsule_udp_put(NULL, 0, SW_SLICE_LIT("hello")), 0);
}

static void paths_name_a_target(void **state)
{
    static const struct {
        const char *path;
        const char *host; /* NULL: refused */
        uint16_t port;
        bool canonical;
    } cases[] = {
        {"/.well-known/masque/udp/192.0.2.6/443/", "192.0.2.6", 443, true},
        {"/.well-known/masque/udp/target.example.com/53/", "target.example.com", 53, true},
        {"/.well-known/masque/udp/2001%3Adb8%3A%3A42/443/", "2001:db8::42", 443, true},
        {"/.well-known/masque/udp/2001%3adb8%3a%3a42/443/", "2001:db8::42", 443, false},
        {"/.well-known/masque/udp/::1/443/", "::1", 443, false},
        {"/.well-known/masque/udp/%61/1/", "a", 1, false},
        {"/.well-known/masque/udp/a/0/", NULL, 0, false},
        {"/.well-known/masque/udp/a/65536/", NULL, 0, false},
        {"/.well-known/masque/udp/a/1", NULL, 0, false},
        {"/.well-known/masque/udp/a/1/x", NULL, 0, false},
        {"/.well-known/masque/udp//1/", NULL, 0, false},
        {"/.well-known/masque/udp/a//", NULL, 0, false},
        {"/.well-known/masque/udp/a%2Fb/1/", NULL, 0, false},
        {"/.well-known/masque/udp/a%00/1/", NULL, 0, false},
        {"/.well-known/masque/udp/fe80%3A%3A1%25eth0/1/", NULL, 0, false},
        {"/.well-known/masque/udp/a%2/1/", NULL, 0, false},
        {"/.well-known/masque/udp/a%3A1/1/", NULL, 0, false},
        {"/.well-known/masque/ip/a/1/", NULL, 0, false},
        {"/", NULL, 0, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char host[SW_MASQUE_HOST_MAX + 1];
        uint16_t port = 0;
        struct sw_err err = {0};
        SW_BUF_AUTO out = {.max = 1024};
        int rc = sw_masque_udp_path(sw_slice_str(cases[i].path), host, &port, &err);

        assert_int_equal(rc, cases[i].host ? SW_OK : SW_EINVAL);
        if (!cases[i].host)
            continue;
        assert_string_equal(host, cases[i].host);
        assert_int_equal(port, cases[i].port);
        assert_int_equal(sw_masque_put_udp_path(&out, sw_slice_str(host), port), SW_OK);
        assert_int_equal(sw_slice_eq_str(sw_buf_slice(&out), cases[i].path), cases[i].canonical);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_have_four_lengths),
        cmocka_unit_test(capsules_may_come_in_any_pieces),
        cmocka_unit_test(a_datagram_has_a_largest_size),
        cmocka_unit_test(the_end_may_come_between_capsules_only),
        cmocka_unit_test(payloads_have_a_context),
        cmocka_unit_test(a_capsule_fills_room_in_pieces_or_not_at_all),
        cmocka_unit_test(paths_name_a_target),
    };

    return cmocka_run_group_tests_name("capsule", tests, NULL, NULL);
}
