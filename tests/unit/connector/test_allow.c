/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "connector/allow.h"
#include "connector/peers.h"
#include "quic/id/addrs.h"

static bool allowed(const struct sw_allow *a, const char *host, uint16_t port, bool udp)
{
    return sw_allow_find(a, sw_slice_str(host), port, udp) != NULL;
}

static void test_only_what_is_listed_passes(void **state)
{
    static const char *const rules[] = {"127.0.0.1:3000",  "db.lan:5432",  "*.svc.lan:80",
                                        "10.0.0.7:53/udp", "[fd00::7]:80", "Printer.Lan.:631"};
    static const struct {
        const char *host;
        uint16_t port;
        bool udp;
        bool ok;
    } cases[] = {
        {"127.0.0.1", 3000, false, true},
        {"localhost", 3000, false, true},
        {"LOCALHOST.", 3000, false, true},
        {"::1", 3000, false, true},
        {"[::1]", 3000, false, true},
        {"127.0.0.1", 3001, false, false},
        {"127.0.0.1", 3000, true, false},
        {"127.0.0.2", 3000, false, false},
        {"db.lan", 5432, false, true},
        {"DB.LAN.", 5432, false, true},
        {"xdb.lan", 5432, false, false},
        {"a.svc.lan", 80, false, true},
        {"a.b.svc.lan", 80, false, true},
        {"svc.lan", 80, false, false},
        {".svc.lan", 80, false, false},
        {"evilsvc.lan", 80, false, false},
        {"10.0.0.7", 53, true, true},
        {"10.0.0.7", 53, false, false},
        {"fd00::7", 80, false, true},
        {"fd00:0:0::7", 80, false, true},
        {"::ffff:127.0.0.1", 3000, false, true},
        {"printer.lan", 631, false, true},
        {"", 3000, false, false},
        {"127.0.0.1\0x", 3000, false, true},
        {"a..svc.lan", 80, false, false},
        {"*.svc.lan", 80, false, false},
        {"a b.svc.lan", 80, false, false},
        {"0x7f.1", 3000, false, false},
        {"127.1", 3000, false, false},
    };
    struct sw_allow a = {0};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(rules); i++)
        assert_int_equal(sw_allow_add_text(&a, sw_slice_str(rules[i]), NULL), SW_OK);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        if (allowed(&a, cases[i].host, cases[i].port, cases[i].udp) != cases[i].ok)
            fail_msg("%s:%u", cases[i].host, cases[i].port);
    }
    sw_allow_done(&a);
}

static void test_a_name_never_stands_for_an_address(void **state)
{
    struct sw_allow a = {0};

    (void)state;
    assert_int_equal(sw_allow_add_text(&a, SW_SLICE_LIT("*:80"), NULL), SW_OK);
    assert_true(allowed(&a, "anything.example", 80, false));
    assert_false(allowed(&a, "127.0.0.1", 80, false));
    assert_false(allowed(&a, "localhost", 80, false));
    assert_false(allowed(&a, "::1", 80, false));
    sw_allow_done(&a);
}

static void test_bad_rules_are_refused(void **state)
{
    static const char *const bad[] = {"",          "host",    "host:0",   "host:65536", ":80",
                                      "a b:80",    "*a.b:80", "a.*.b:80", "*.:80",      "-:x",
                                      "h:80/sctp", "[::1]80", "..:80",    "a..b:80"};
    struct sw_allow a = {0};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++) {
        struct sw_err err = {0};

        if (sw_allow_add_text(&a, sw_slice_str(bad[i]), &err) == SW_OK)
            fail_msg("'%s' was taken", bad[i]);
        assert_true(err.msg[0]);
    }
    assert_int_equal(a.entries.n, 0);
    sw_allow_done(&a);
}

static void test_advertisements_are_read_service_by_service(void **state)
{
    static const char text[] =
        "{\"metadata\":{\"name\":\"web\"},\"spec\":{\"connectorRef\":{\"name\":\"c\"},\"layer4\":["
        "{\"name\":\"default\",\"services\":["
        "{\"address\":\"127.0.0.1\",\"ports\":[{\"name\":\"a\",\"port\":3000},"
        "{\"name\":\"b\",\"port\":53,\"protocol\":\"UDP\"},{\"name\":\"c\",\"port\":0},"
        "{\"name\":\"d\",\"port\":9,\"protocol\":\"SCTP\"}]},"
        "{\"address\":\"bad host\",\"ports\":[{\"name\":\"a\",\"port\":1}]},"
        "{\"address\":\"*.lan\",\"ports\":[{\"name\":\"a\",\"port\":80,\"protocol\":\"TCP\"}]}"
        "]}]}}";
    SW_ARENA_AUTO arena = {0};
    struct sw_allow a = {0};
    struct sw_err err = {0};
    struct sw_json *obj;

    (void)state;
    assert_int_equal(sw_json_parse(&arena, sw_slice_str(text), NULL, &obj, NULL), SW_OK);
    assert_int_equal(sw_allow_add_advertisement(&a, obj, &err), 3);
    assert_true(err.msg[0]);
    assert_true(allowed(&a, "127.0.0.1", 3000, false));
    assert_true(allowed(&a, "127.0.0.1", 53, true));
    assert_false(allowed(&a, "127.0.0.1", 53, false));
    assert_true(allowed(&a, "x.lan", 80, false));
    assert_string_equal(sw_allow_text(&arena, &a.entries.p[0]), "127.0.0.1:3000");
    assert_string_equal(sw_allow_text(&arena, &a.entries.p[1]), "127.0.0.1:53/udp");
    assert_string_equal(sw_allow_text(&arena, &a.entries.p[2]), "*.lan:80");
    assert_true(sw_slice_eq_str(a.entries.p[0].from, "web"));
    sw_allow_done(&a);
}

static void test_the_list_has_a_bound(void **state)
{
    struct sw_allow a = {0};
    int rc = SW_OK;
    size_t n = 0;

    (void)state;
    while (rc == SW_OK && n < 2 * SW_ALLOW_MAX) {
        rc = sw_allow_add(&a, SW_SLICE_LIT("h"), 1, false, SW_SLICE_LIT("x"), NULL);
        n++;
    }
    assert_int_equal(rc, SW_ELIMIT);
    assert_int_equal(a.entries.n, SW_ALLOW_MAX);
    sw_allow_done(&a);
}

/* Keys of RFC 8032's test vectors: ids must be points of the curve. */
#define KEY1 "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
#define KEY2 "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"

static void test_peers_are_a_set(void **state)
{
    struct sw_peers a = {0};
    struct sw_peers b = {0};
    struct sw_nodeid id;
    struct sw_err err = {0};

    (void)state;
    assert_int_equal(sw_peers_add_list(&a, SW_SLICE_LIT(KEY1 ", " KEY2 "," KEY1 ",,"), &err), 0);
    assert_int_equal(a.ids.n, 2);
    assert_int_equal(sw_peers_add_list(&b, SW_SLICE_LIT(KEY2 ",nonsense," KEY1), &err), 1);
    assert_true(sw_peers_equal(&a, &b));
    assert_int_equal(sw_nodeid_parse(SW_SLICE_LIT(KEY1), &id, NULL), SW_OK);
    assert_true(sw_peers_has(&a, &id));
    id.b[31] ^= 1;
    assert_false(sw_peers_has(&a, &id));
    sw_peers_done(&a);
    assert_false(sw_peers_equal(&a, &b));
    assert_false(sw_peers_has(&a, &b.ids.p[0]));
    sw_peers_done(&b);
}

static struct sw_addr addr(const char *text)
{
    struct sw_addr a;

    assert_int_equal(sw_addr_parse(sw_slice_str(text), &a, NULL), SW_OK);
    return a;
}

static struct sw_ip ip(const char *text)
{
    struct sw_ip i;

    assert_int_equal(sw_ip_parse(sw_slice_str(text), &i, NULL), SW_OK);
    return i;
}

static void expect(const struct sw_addr_list *l, const char *const *want)
{
    size_t n = 0;

    for (; want[n]; n++) {
        char text[SW_ADDR_TEXT];

        assert_true(n < l->n);
        assert_string_equal(sw_addr_text(&l->a[n], text), want[n]);
    }
    assert_int_equal(l->n, n);
}

static void test_addresses_go_public_first_and_are_bounded(void **state)
{
    struct sw_ip local[] = {ip("127.0.0.1"),   ip("192.168.1.4"), ip("fe80::1"),
                            ip("203.0.113.9"), ip("2001:db8::5"), ip("fd00::2")};
    struct sw_addr any[] = {addr("0.0.0.0:4000"), addr("[::]:4001")};
    struct sw_addr given[] = {addr("198.51.100.1:0"), addr("198.51.100.2:99")};
    struct sw_addr one = addr("127.0.0.1:5000");
    struct sw_ip many[40];
    struct sw_addr_list l;

    (void)state;
    sw_addr_list_build(&(struct sw_addr_sources){given, 2, any, 2, local, SW_ARRAY_LEN(local)}, &l);
    expect(&l, (const char *[]){"198.51.100.1:4000", "198.51.100.2:99", "203.0.113.9:4000",
                                "[2001:db8::5]:4001", "192.168.1.4:4000", "[fd00::2]:4001", NULL});
    sw_addr_list_build(&(struct sw_addr_sources){NULL, 0, &one, 1, local, SW_ARRAY_LEN(local)}, &l);
    expect(&l, (const char *[]){"127.0.0.1:5000", NULL});
    sw_addr_list_build(&(struct sw_addr_sources){NULL, 0, any, 2, local, 1}, &l);
    expect(&l, (const char *[]){"127.0.0.1:4000", NULL});
    for (size_t i = 0; i < SW_ARRAY_LEN(many); i++) {
        many[i] = ip("10.0.0.1");
        many[i].b[3] = (uint8_t)i;
    }
    many[39] = ip("203.0.113.1");
    sw_addr_list_build(&(struct sw_addr_sources){NULL, 0, any, 2, many, SW_ARRAY_LEN(many)}, &l);
    assert_int_equal(l.n, SW_QUIC_ADDRS_MAX);
    assert_true(sw_ip_eq(&l.a[0].ip, &many[39]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_what_is_listed_passes),
        cmocka_unit_test(test_a_name_never_stands_for_an_address),
        cmocka_unit_test(test_bad_rules_are_refused),
        cmocka_unit_test(test_advertisements_are_read_service_by_service),
        cmocka_unit_test(test_the_list_has_a_bound),
        cmocka_unit_test(test_peers_are_a_set),
        cmocka_unit_test(test_addresses_go_public_first_and_are_bounded),
    };

    return cmocka_run_group_tests_name("connector_allow", tests, NULL, NULL);
}
