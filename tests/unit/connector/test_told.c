/* SPDX-License-Identifier: Apache-2.0 */
/* Relays that only the Connector's annotation names, and what is asked of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "connector/inspect/observe.h"
#include "connector/told.h"
#include "io/loop.h"

static void test_plain_only_on_machines_we_trust(void **state)
{
    static const struct {
        const char *url;
        const char *api;
        bool ok;
    } cases[] = {
        {"https://relay.example/", "api.example:6443", true},
        {"http://relay.example/", "api.example:6443", false},
        {"http://API.example:3340/", "api.example:6443", true},
        {"http://api.example.evil:3340/", "api.example:6443", false},
        {"http://203.0.113.10:3340/", "203.0.113.10:6443", true},
        {"http://203.0.113.1:3340/", "203.0.113.10:6443", false},
        {"http://[2001:db8::1]:3340/", "2001:db8::1:6443", true},
        {"http://127.0.0.1:3340/", "api.example:6443", true},
        {"http://relay.example/", "", false},
        {"ws://relay.example/", ":6443", false},
        {"file:///etc/passwd", "api.example:6443", false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_err err = {0};

        if (sw_published_relay_ok(sw_slice_str(cases[i].url), sw_slice_str(cases[i].api), &err) !=
            cases[i].ok)
            fail_msg("'%s' with API '%s'", cases[i].url, cases[i].api);
        assert_true(cases[i].ok || err.msg[0]);
    }
}

static void on_observed(void *arg, const struct sw_ip *ip)
{
    (void)arg;
    (void)ip;
}

/* However the URL of a relay is written, that relay is asked for our address, too. */
static void test_every_relay_url_is_asked(void **state)
{
    static const struct {
        const char *url;
        bool ok;
    } cases[] = {{"http://127.0.0.1:3340/", true}, {"HTTP://relay.example", true},
                 {"ws://[2001:db8::1]:80/", true}, {"http://relay.example.:80/x", true},
                 {"http://:80/", false},           {"http://[::1/", false},
                 {"ftp://relay.example/", false},  {"http://a:0/", false}};
    struct sw_loop *l = sw_loop_new(NULL);

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_err err = {0};
        struct sw_observe *o =
            sw_observe_new(l, sw_slice_str(cases[i].url), NULL, on_observed, NULL, &err);

        if ((o != NULL) != cases[i].ok)
            fail_msg("'%s': %s", cases[i].url, err.msg);
        sw_observe_free(o);
    }
    sw_loop_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain_only_on_machines_we_trust),
                                       cmocka_unit_test(test_every_relay_url_is_asked)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
