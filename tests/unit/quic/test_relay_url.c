/* SPDX-License-Identifier: Apache-2.0 */
/* Which relay a URL names: what is the same, what is not, what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quic/wire/relay_url.h"

static void test_parts(void **state)
{
    static const struct {
        const char *url;
        int rc;
        const char *host;
        uint16_t port;
        bool tls;
    } cases[] = {
        {"https://Relay.Example./x?y", SW_OK, "relay.example", 443, true},
        {"WSS://r:8443", SW_OK, "r", 8443, true},
        {"http://[2001:db8::7]:3340/", SW_OK, "2001:db8::7", 3340, false},
        {"ws://127.0.0.1", SW_OK, "127.0.0.1", 80, false},
        {"https://relay.example@evil.example/", SW_EINVAL, NULL, 0, false},
        {"https://user:pw@relay.example/", SW_EINVAL, NULL, 0, false},
        {"https://relay.example:0/", SW_EINVAL, NULL, 0, false},
        {"https://relay.example:65536/", SW_EINVAL, NULL, 0, false},
        {"https:///relay", SW_EINVAL, NULL, 0, false},
        {"https://relay .example/", SW_EINVAL, NULL, 0, false},
        {"https:\\\\relay.example", SW_EINVAL, NULL, 0, false},
        {"ftp://relay.example/", SW_EINVAL, NULL, 0, false},
        {"relay.example", SW_EINVAL, NULL, 0, false},
        {"", SW_EINVAL, NULL, 0, false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_relay_url u;

        if (sw_relay_url_parse(sw_slice_str(cases[i].url), &u, NULL) != cases[i].rc)
            fail_msg("'%s'", cases[i].url);
        if (cases[i].rc != SW_OK)
            continue;
        assert_string_equal(u.host, cases[i].host);
        assert_int_equal(u.port, cases[i].port);
        assert_int_equal(u.tls, cases[i].tls);
    }
}

static void test_what_is_missing_is_named(void **state)
{
    static const char *const urls[] = {"http://", "WSS://", "https:///relay", "ws://?x"};
    struct sw_relay_url u;
    struct sw_err err;

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(urls); i++) {
        assert_int_equal(sw_relay_url_parse(sw_slice_str(urls[i]), &u, &err), SW_EINVAL);
        assert_string_equal(err.msg, "relay URL without a valid host");
    }
}

static void test_same(void **state)
{
    static const struct {
        const char *a;
        const char *b;
        bool same;
    } cases[] = {
        {"https://relay.example/", "https://relay.example:443/relay", true},
        {"https://relay.example/", "wss://RELAY.example.", true},
        {"http://r", "ws://r:80/", true},
        {"https://relay.example/", "http://relay.example/", false},
        {"https://relay.example/", "http://relay.example:443/", false},
        {"https://relay.example/", "https://relay.example:444/", false},
        {"https://relay.example/", "https://relay.example.evil/", false},
        {"https://relay.example/", "https://evil/?relay.example", false},
        {"https://relay.example/", "https://relay.example#@evil/", true}, /* dials relay.example */
        {"nonsense", "nonsense", false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        if (sw_relay_url_same_text(sw_slice_str(cases[i].a), sw_slice_str(cases[i].b)) !=
            cases[i].same)
            fail_msg("'%s' and '%s'", cases[i].a, cases[i].b);
    }
}

static void test_loopback_is_an_address(void **state)
{
    static const struct {
        const char *url;
        bool yes;
    } cases[] = {{"http://127.0.0.1:1/", true},  {"http://127.8.9.10/", true},
                 {"http://[::1]/", true},        {"http://localhost/", false},
                 {"http://127.1/", false},       {"http://127.0.0.1.evil/", false},
                 {"http://192.0.2.1/", false},   {"http://0.0.0.0/", false},
                 {"https://127.0.0.1:1/", true}, {"http://[2001:db8::1]/", false}};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_relay_url u;

        assert_int_equal(sw_relay_url_parse(sw_slice_str(cases[i].url), &u, NULL), SW_OK);
        if (sw_relay_url_loopback(&u) != cases[i].yes)
            fail_msg("'%s'", cases[i].url);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_what_is_missing_is_named),
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_loopback_is_an_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
