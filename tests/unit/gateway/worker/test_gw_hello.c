/* SPDX-License-Identifier: Apache-2.0 */
/* What is read out of a ClientHello before TLS begins, byte by byte and in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "gateway/exchange/exchange.h"
#include "gateway/message/fields.h"
#include "gateway/worker/listen_hello.h"

/* A minimal hello: version, random, no session, one cipher, SNI "A.test", ALPN "h2". */
static size_t make_hello(uint8_t *out)
{
    static const uint8_t exts[] = {0,   0,   0,   11, 0,  9, 0, 0, 6, 'A', '.', 't',
                                   'e', 's', 't', 0,  16, 0, 5, 0, 3, 2,   'h', '2'};
    uint8_t *p = out + 9;

    memset(out, 0, 128);
    p[0] = 3;
    p[1] = 3;
    p += 2 + 32;
    *p++ = 0;                                  /* session */
    *p++ = 0, *p++ = 2, *p++ = 0x13, *p++ = 1; /* ciphers */
    *p++ = 1, *p++ = 0;                        /* compression */
    *p++ = 0, *p++ = sizeof(exts);
    memcpy(p, exts, sizeof(exts));
    p += sizeof(exts);
    out[0] = 22;
    out[1] = 3;
    out[2] = 1;
    out[4] = (uint8_t)(p - out - 5);
    out[5] = 1;
    out[8] = (uint8_t)(p - out - 9);
    return (size_t)(p - out);
}

static void names_and_protocols_are_found(void **state)
{
    struct sw_gw_hello h;
    uint8_t text[128];
    size_t n = make_hello(text);

    (void)state;
    assert_int_equal(sw_gw_hello_parse(sw_slice(text, n), &h), SW_OK);
    assert_true(sw_slice_eq_str(h.sni, "a.test"));
    assert_int_equal(h.n_alpn, 1);
    assert_true(sw_slice_eq_str(h.alpn[0], "h2"));
}

static void every_prefix_asks_for_more(void **state)
{
    struct sw_gw_hello h;
    uint8_t text[128];
    size_t n = make_hello(text);

    (void)state;
    for (size_t i = 0; i < n; i++)
        assert_int_equal(sw_gw_hello_parse(sw_slice(text, i), &h), SW_EAGAIN);
}

static void other_bytes_are_not_tls(void **state)
{
    struct sw_gw_hello h;
    uint8_t text[128];
    size_t n = make_hello(text);

    (void)state;
    assert_int_equal(sw_gw_hello_parse(SW_SLICE_LIT("GET / HTTP/1.1\r\n"), &h), SW_EPROTO);
    text[5] = 2; /* a ServerHello */
    assert_int_equal(sw_gw_hello_parse(sw_slice(text, n), &h), SW_EPROTO);
    (void)make_hello(text);
    text[44] = 255; /* session longer than the message */
    assert_int_equal(sw_gw_hello_parse(sw_slice(text, n), &h), SW_EPROTO);
    assert_int_equal(h.sni.n, 0);
}

static void known_fields_are_recognised_without_case(void **state)
{
    (void)state;
#define ROW(id, text) assert_int_equal(sw_gw_hid(SW_SLICE_LIT(text)), SW_GW_H_##id);
    SW_GW_HEADERS(ROW)
#undef ROW
    assert_int_equal(sw_gw_hid(SW_SLICE_LIT("X-Forwarded-FOR")), SW_GW_H_X_FORWARDED_FOR);
    assert_int_equal(sw_gw_hid(SW_SLICE_LIT("x-forwarded-fox")), SW_GW_H_OTHER);
    assert_int_equal(sw_gw_hid(SW_SLICE_LIT("")), SW_GW_H_OTHER);
    assert_int_equal(sw_gw_hid(SW_SLICE_LIT("a-name-that-is-longer-than-any-known")),
                     SW_GW_H_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_protocols_are_found),
        cmocka_unit_test(every_prefix_asks_for_more),
        cmocka_unit_test(other_bytes_are_not_tls),
        cmocka_unit_test(known_fields_are_recognised_without_case),
    };

    return cmocka_run_group_tests_name("gw_hello", tests, NULL, NULL);
}
