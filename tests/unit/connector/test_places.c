/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "connector/places.h"

#define A "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29"
#define B "197f6b23e16c8532c6abc838facd5ea789be0c76b2920334039bfa8b3d368d61"

static const struct {
    const char *in;
    size_t bad;
    const char *out; /* first letter of the id, then the address; joined by blanks */
} cases[] = {
    {"", 0, ""},
    {A "=203.0.113.1:7", 0, "3/203.0.113.1:7"},
    {A " = 203.0.113.1:7 , [2001:db8::1]:8 ; " B "=10.0.0.1:9", 0,
     "3/203.0.113.1:7 1/10.0.0.1:9 3/[2001:db8::1]:8"},
    {A "=203.0.113.1:0,203.0.113.1,x,203.0.113.2:5", 3, "3/203.0.113.2:5"},
    {"nobody=203.0.113.1:7;" B "=10.0.0.1:9", 1, "1/10.0.0.1:9"},
    {A, 0, ""},
    {";;" A "=;", 0, ""},
};

static void lists_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_places p;
        struct sw_err err = {0};
        char out[512] = "";
        size_t n = 0;

        assert_int_equal(sw_places_read(sw_slice_str(cases[i].in), &p, &err), cases[i].bad);
        for (size_t k = 0; k < p.n; k++) {
            char hex[SW_NODEID_HEX];
            char text[SW_ADDR_TEXT];

            n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%c/%s", n ? " " : "",
                                  sw_nodeid_hex(&p.p[k].id, hex)[0],
                                  sw_addr_text(&p.p[k].addr, text));
        }
        assert_string_equal(out, cases[i].out);
    }
}

static void too_many_are_cut_and_every_gateway_keeps_one(void **state)
{
    char in[8192];
    size_t n = (size_t)snprintf(in, sizeof(in), A "=10.0.0.1:1");
    struct sw_places p;
    struct sw_err err = {0};

    (void)state;
    for (int i = 2; i < 100; i++)
        n += (size_t)snprintf(in + n, sizeof(in) - n, ",10.0.0.%d:1", i);
    (void)snprintf(in + n, sizeof(in) - n, ";" B "=10.0.1.1:1");
    assert_int_equal(sw_places_read(sw_slice_str(in), &p, &err), 0);
    assert_int_equal(p.n, SW_QUIC_PLACES_MAX);
    assert_int_equal(p.p[1].addr.ip.b[2], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_read),
        cmocka_unit_test(too_many_are_cut_and_every_gateway_keeps_one),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
