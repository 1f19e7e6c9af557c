/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "io/proxyproto.h"

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

static int read_text(const char *text, struct sw_proxy_head *ret)
{
    return sw_proxy_read(sw_slice_str(text), ret);
}

static void text_headers_are_read(void **state)
{
    struct sw_proxy_head h;
    struct sw_addr want = addr("192.0.2.1:40000");
    struct sw_addr want6 = addr("[2001:db8::2]:443");

    (void)state;
    assert_int_equal(read_text("PROXY TCP4 192.0.2.1 192.0.2.2 40000 443\r\nGET", &h), SW_OK);
    assert_int_equal(h.len, 42);
    assert_true(sw_addr_eq(&h.src, &want));
    assert_int_equal(read_text("PROXY TCP6 2001:db8::1 2001:db8::2 1 443\r\n", &h), SW_OK);
    assert_true(sw_addr_eq(&h.dst, &want6));
    assert_int_equal(read_text("PROXY UNKNOWN what ever\r\n", &h), SW_OK);
    assert_int_equal(h.src.ip.family, 0);
    assert_int_equal(read_text("PRO", &h), SW_EAGAIN);
    assert_int_equal(read_text("PROXY TCP4 192.0.2.1 ", &h), SW_EAGAIN);
    assert_int_equal(read_text("GET / HTTP/1.1\r\n", &h), SW_ENOENT);
}

static void broken_text_headers_are_refused(void **state)
{
    static const char *const bad[] = {
        "PROXY TCP4 192.0.2.1 192.0.2.2 40000 443\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 40000 65536\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 040 443\r\n",
        "PROXY TCP4 192.0.2.1  192.0.2.2 40000 443\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 40000 443 \r\n",
        "PROXY TCP4 2001:db8::1 192.0.2.2 40000 443\r\n",
        "PROXY TCP6 192.0.2.1 192.0.2.2 40000 443\r\n",
        "PROXY TCP5 192.0.2.1 192.0.2.2 40000 443\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 40000\r\n",
        "PROXY \r\n",
    };
    struct sw_proxy_head h;
    char text[256];

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++)
        assert_int_equal(read_text(bad[i], &h), SW_EPROTO);
    memset(text, 'x', sizeof(text));
    memcpy(text, "PROXY UNKNOWN ", 14);
    assert_int_equal(sw_proxy_read(sw_slice(text, 106), &h), SW_EAGAIN);
    assert_int_equal(sw_proxy_read(sw_slice(text, 107), &h), SW_EPROTO);
}

static void binary_headers_are_read(void **state)
{
    struct sw_addr src = addr("[2001:db8::1]:1");
    struct sw_addr dst = addr("10.0.0.2:2");
    uint8_t out[SW_PROXY_V2_MAX];
    struct sw_proxy_head h;
    size_t n = sw_proxy_v2_write(&src, &dst, SW_SLICE_LIT("id"), out);

    (void)state;
    assert_int_equal(sw_proxy_read(sw_slice(out, n), &h), SW_OK);
    assert_true(sw_addr_eq(&h.src, &src) && sw_addr_eq(&h.dst, &dst) && h.len == n);
    for (size_t i = 1; i < n; i++)
        assert_int_equal(sw_proxy_read(sw_slice(out, i), &h), SW_EAGAIN);
    out[12] = 0x20; /* a balancer's own check */
    assert_int_equal(sw_proxy_read(sw_slice(out, n), &h), SW_OK);
    assert_int_equal(h.src.ip.family, 0);
    out[12] = 0x31;
    assert_int_equal(sw_proxy_read(sw_slice(out, n), &h), SW_EPROTO);
    out[12] = 0x21;
    out[13] = 0x22; /* datagrams */
    assert_int_equal(sw_proxy_read(sw_slice(out, n), &h), SW_EPROTO);
    out[13] = 0x21;
    out[n - 3]++; /* an element longer than the header */
    assert_int_equal(sw_proxy_read(sw_slice(out, n), &h), SW_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ipv4_is_written_byte_for_byte),
        cmocka_unit_test(an_identity_becomes_a_tlv),
        cmocka_unit_test(mixed_families_become_ipv6),
        cmocka_unit_test(the_longest_identity_fits_exactly),
        cmocka_unit_test(text_headers_are_read),
        cmocka_unit_test(broken_text_headers_are_refused),
        cmocka_unit_test(binary_headers_are_read),
    };

    return cmocka_run_group_tests_name("proxyproto", tests, NULL, NULL);
}
