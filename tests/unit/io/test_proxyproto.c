/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "node/proxyproto.h"

static struct sw_addr addr(const char *text)
{
    struct sw_addr a;

    assert_int_equal(sw_addr_parse(sw_slice_str(text), &a, NULL), SW_OK);
    return a;
}

static void ipv4_is_written_byte_for_byte(void **state)
{
    static const uint8_t want[] = {
        0x0d, 0x0a, 0x0d, 0x0a, 0,  0x0d, 0x0a, 'Q', 'U',  'I',  'T',  0x0a, /* signature */
        0x21, 0x11, 0,    12,                                                /* TCP over IPv4 */
        10,   0,    0,    1,    10, 0,    0,    2,   0x9c, 0x40, 0x1f, 0x90,
    };
    struct sw_addr src = addr("10.0.0.1:40000");
    struct sw_addr dst = addr("10.0.0.2:8080");
    uint8_t out[SW_PROXY_V2_MAX];

    (void)state;
    assert_int_equal(sw_proxy_v2_write(&src, &dst, (struct sw_slice){NULL, 0}, out), sizeof(want));
    assert_memory_equal(out, want, sizeof(want));
}

static void an_identity_becomes_a_tlv(void **state)
{
    struct sw_addr src = addr("[2001:db8::1]:1");
    struct sw_addr dst = addr("[2001:db8::2]:2");
    uint8_t out[SW_PROXY_V2_MAX];
    size_t n = sw_proxy_v2_write(&src, &dst, SW_SLICE_LIT("spiffe://td/x"), out);

    (void)state;
    assert_int_equal(n, 16 + 36 + 3 + 13);
    assert_int_equal(out[13], 0x21);
    assert_int_equal(out[14] << 8 | out[15], n - 16);
    assert_memory_equal(out + 52, "\xd0\x00\x0dspiffe://td/x", 16);
}

static void mixed_families_become_ipv6(void **state)
{
    struct sw_addr src = addr("10.0.0.1:1");
    struct sw_addr dst = addr("[2001:db8::2]:2");
    uint8_t out[SW_PROXY_V2_MAX];

    (void)state;
    assert_int_equal(sw_proxy_v2_write(&src, &dst, (struct sw_slice){NULL, 0}, out), 52);
    assert_memory_equal(out + 16, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x00\x00\x01", 16);
}

static void the_longest_identity_fits_exactly(void **state)
{
    struct sw_addr a = addr("[::1]:1");
    uint8_t out[SW_PROXY_V2_MAX];
    char id[1025];

    (void)state;
    memset(id, 'x', sizeof(id));
    assert_int_equal(sw_proxy_v2_write(&a, &a, sw_slice(id, 1024), out), SW_PROXY_V2_MAX);
    assert_int_equal(sw_proxy_v2_write(&a, &a, sw_slice(id, 1025), out), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ipv4_is_written_byte_for_byte),
        cmocka_unit_test(an_identity_becomes_a_tlv),
        cmocka_unit_test(mixed_families_become_ipv6),
        cmocka_unit_test(the_longest_identity_fits_exactly),
    };

    return cmocka_run_group_tests_name("proxyproto", tests, NULL, NULL);
}
