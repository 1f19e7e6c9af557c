/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "io/addr.h"

static void addresses_parse_and_print(void **state)
{
    static const struct {
        const char *in;
        const char *text; /* NULL: refused */
    } cases[] = {
        {"1.2.3.4:80", "1.2.3.4:80"},
        {"1.2.3.4:0", "1.2.3.4:0"},
        {"1.2.3.4:65535", "1.2.3.4:65535"},
        {"[2001:db8::1]:15008", "[2001:db8::1]:15008"},
        {"[2001:DB8:0:0::1]:1", "[2001:db8::1]:1"},
        {"[::ffff:10.0.0.1]:80", "10.0.0.1:80"},
        {"1.2.3.4:65536", NULL},
        {"1.2.3.4:", NULL},
        {"1.2.3.4", NULL},
        {"1.2.3.4:+1", NULL},
        {"1.2.3.4: 1", NULL},
        {"1.2.3.4:000080", NULL},
        {"01.2.3.4:1", NULL},
        {"1.2.3:1", NULL},
        {"2001:db8::1:80", NULL},
        {"[2001:db8::1]", NULL},
        {"[2001:db8::1]80", NULL},
        {"[2001:db8::1:80", NULL},
        {"[]:80", NULL},
        {":80", NULL},
        {"", NULL},
        {"[fe80::1%eth0]:80", NULL},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_addr a = {.port = 7};
        char text[SW_ADDR_TEXT];
        int rc = sw_addr_parse(sw_slice_str(cases[i].in), &a, NULL);

        if (cases[i].text) {
            assert_int_equal(rc, SW_OK);
            assert_string_equal(sw_addr_text(&a, text), cases[i].text);
        } else {
            assert_int_equal(rc, SW_EINVAL);
            assert_int_equal(a.port, 7); /* written only on success */
        }
    }
}

static void authorities_split(void **state)
{
    static const struct {
        const char *in;
        const char *host; /* NULL: refused */
        uint16_t port;
    } cases[] = {
        {"db.shop.svc:5432", "db.shop.svc", 5432},
        {"[2001:db8::7]:15008", "2001:db8::7", 15008},
        {"10.0.0.1:1", "10.0.0.1", 1},
        {"h:65536", NULL, 0},
        {"h:0", NULL, 0},
        {"h:", NULL, 0},
        {"h", NULL, 0},
        {":1", NULL, 0},
        {"[]:1", NULL, 0},
        {"[::1]8080", NULL, 0},
        {"[::1", NULL, 0},
        {"a:b:1", NULL, 0},
        {"user@h:1", NULL, 0},
        {"h/path:1", NULL, 0},
        {"h h:1", NULL, 0},
        {"h\x7f:1", NULL, 0},
        {"h\xc3\xa9:1", NULL, 0},
        {"[a[b]:1", NULL, 0},
        {"[10.0.0.1]:1", NULL, 0},
        {"[name]:1", NULL, 0},
        {"[fe80::1%25eth0]:1", NULL, 0},
        {"h:1x", NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_slice host = {0};
        uint16_t port = 0;
        int rc = sw_authority_split(sw_slice_str(cases[i].in), &host, &port, NULL);

        assert_int_equal(rc, cases[i].host ? SW_OK : SW_EINVAL);
        if (cases[i].host)
            assert_true(sw_slice_eq_str(host, cases[i].host));
        assert_int_equal(port, cases[i].port);
    }
    /* A NUL inside is a byte like any other bad one. */
    assert_int_equal(
        sw_authority_split(sw_slice("a\0b:1", 5), &(struct sw_slice){0}, &(uint16_t){0}, NULL),
        SW_EINVAL);
}

static void blocks_contain_what_they_should(void **state)
{
    static const struct {
        const char *cidr;
        const char *ip;
        bool in;
    } cases[] = {
        {"10.0.0.0/8", "10.255.0.1", true},
        {"10.0.0.0/8", "11.0.0.1", false},
        {"10.1.2.3/8", "10.9.9.9", true}, /* host bits are cleared */
        {"10.1.2.3", "10.1.2.3", true},
        {"10.1.2.3", "10.1.2.2", false},
        {"0.0.0.0/0", "255.255.255.255", true},
        {"0.0.0.0/0", "::1", false},
        {"::/0", "10.0.0.1", false},
        {"::/0", "2001:db8::1", true},
        {"2001:db8::/33", "2001:db8:7fff::1", true},
        {"2001:db8::/33", "2001:db8:8000::1", false},
        {"192.168.1.128/25", "192.168.1.127", false},
        {"192.168.1.128/25", "192.168.1.129", true},
        {"::ffff:10.0.0.0/8", "10.3.0.1", true},
    };
    static const char *const bad[] = {"10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1",
                                      "/8",          "",       "10.0.0/8",  "10.0.0.0/8/8"};
    struct sw_cidr c;

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_ip ip;

        assert_int_equal(sw_cidr_parse(sw_slice_str(cases[i].cidr), &c, NULL), SW_OK);
        assert_int_equal(sw_ip_parse(sw_slice_str(cases[i].ip), &ip, NULL), SW_OK);
        assert_int_equal(sw_cidr_contains(&c, &ip), cases[i].in);
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++)
        assert_int_equal(sw_cidr_parse(sw_slice_str(bad[i]), &c, NULL), SW_EINVAL);
    assert_int_equal(sw_cidr_parse(SW_SLICE_LIT("0.0.0.0/0"), &c, NULL), SW_OK);
    assert_false(sw_cidr_contains(&c, &(struct sw_ip){0})); /* "none" is in nothing */
}

static void socket_addresses_survive_the_round_trip(void **state)
{
    static const char *const texts[] = {"1.2.3.4:80", "[2001:db8::1]:443", "0.0.0.0:0", "[::]:1"};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(texts); i++) {
        struct sockaddr_storage ss;
        struct sw_addr a;
        struct sw_addr b;

        assert_int_equal(sw_addr_parse(sw_slice_str(texts[i]), &a, NULL), SW_OK);
        assert_true(sw_addr_to_sockaddr(&a, &ss) > 0);
        b = sw_addr_from_sockaddr(&ss);
        assert_true(sw_addr_eq(&a, &b));
    }
    assert_int_equal(sw_addr_to_sockaddr(&(struct sw_addr){0}, &(struct sockaddr_storage){0}), 0);
    assert_int_equal(
        sw_addr_from_sockaddr(&(struct sockaddr_storage){.ss_family = AF_UNIX}).ip.family, 0);
}

static void special_addresses_are_recognised(void **state)
{
    static const struct {
        const char *ip;
        bool loopback;
        bool any;
    } cases[] = {
        {"127.0.0.1", true, false},  {"127.255.0.9", true, false},
        {"128.0.0.1", false, false}, {"::1", true, false},
        {"::2", false, false},       {"0.0.0.0", false, true},
        {"::", false, true},         {"::ffff:127.0.0.1", true, false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_ip ip;

        assert_int_equal(sw_ip_parse(sw_slice_str(cases[i].ip), &ip, NULL), SW_OK);
        assert_int_equal(sw_ip_is_loopback(&ip), cases[i].loopback);
        assert_int_equal(sw_ip_is_any(&ip), cases[i].any);
    }
    assert_false(sw_ip_is_any(&(struct sw_ip){0}));
    assert_int_equal(sw_ip_from_bytes("abc", 3, &(struct sw_ip){0}, NULL), SW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_parse_and_print),
        cmocka_unit_test(authorities_split),
        cmocka_unit_test(blocks_contain_what_they_should),
        cmocka_unit_test(socket_addresses_survive_the_round_trip),
        cmocka_unit_test(special_addresses_are_recognised),
    };

    return cmocka_run_group_tests_name("addr", tests, NULL, NULL);
}
