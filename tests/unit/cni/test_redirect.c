/* SPDX-License-Identifier: Apache-2.0 */
/* The rules as text, word for word: they are a contract with Istio's marks and ports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cni/redirect.h"

#define DROP                                                                                       \
    "table inet istio-ambient-nat\n"                                                               \
    "delete table inet istio-ambient-nat\n"                                                        \
    "table inet istio-ambient-mangle\n"                                                            \
    "delete table inet istio-ambient-mangle\n"                                                     \
    "table inet istio-ambient-raw\n"                                                               \
    "delete table inet istio-ambient-raw\n"

#define NAT_PREROUTING                                                                             \
    "table inet istio-ambient-nat {\n"                                                             \
    "\tchain prerouting {\n"                                                                       \
    "\t\ttype nat hook prerouting priority -100; policy accept;\n"                                 \
    "\t\tjump istio-prerouting\n"                                                                  \
    "\t}\n"                                                                                        \
    "\tchain istio-prerouting {\n"

#define NAT_OUTPUT                                                                                 \
    "\t}\n"                                                                                        \
    "\tchain output {\n"                                                                           \
    "\t\ttype nat hook output priority -100; policy accept;\n"                                     \
    "\t\tjump istio-output\n"                                                                      \
    "\t}\n"                                                                                        \
    "\tchain istio-output {\n"

#define MANGLE                                                                                     \
    "\t}\n"                                                                                        \
    "}\n"                                                                                          \
    "table inet istio-ambient-mangle {\n"                                                          \
    "\tchain prerouting {\n"                                                                       \
    "\t\ttype filter hook prerouting priority -150; policy accept;\n"                              \
    "\t\tjump istio-prerouting\n"                                                                  \
    "\t}\n"                                                                                        \
    "\tchain istio-prerouting {\n"                                                                 \
    "\t\tmeta mark & 0xfff == 0x539 ct mark set ct mark & 0xfffff000 | 0x111\n"                    \
    "\t}\n"                                                                                        \
    "\tchain output {\n"                                                                           \
    "\t\ttype route hook output priority -150; policy accept;\n"                                   \
    "\t\tjump istio-output\n"                                                                      \
    "\t}\n"                                                                                        \
    "\tchain istio-output {\n"                                                                     \
    "\t\tct mark & 0xfff == 0x111 meta mark set ct mark\n"                                         \
    "\t}\n"                                                                                        \
    "}\n"

#define PROBE6 "fd16:9254:7127:1337:ffff:ffff:ffff:ffff"

static const char golden_default[] = DROP NAT_PREROUTING
    "\t\tip saddr 169.254.7.127 meta l4proto tcp accept\n"
    "\t\tip6 saddr " PROBE6 " meta l4proto tcp accept\n"
    "\t\tip daddr != 127.0.0.1 tcp dport != 15008 meta mark & 0xfff != 0x539 redirect to :15006\n"
    "\t\tip6 daddr != ::1 tcp dport != 15008 meta mark & 0xfff != 0x539 redirect to "
    ":15006\n" NAT_OUTPUT "\t\tip daddr 169.254.7.127 meta l4proto tcp accept\n"
    "\t\tip6 daddr " PROBE6 " meta l4proto tcp accept\n"
    "\t\tmeta l4proto tcp meta mark & 0xfff == 0x111 accept\n"
    "\t\toifname \"lo\" ip daddr != 127.0.0.1 accept\n"
    "\t\toifname \"lo\" ip6 daddr != ::1 accept\n"
    "\t\tip daddr != 127.0.0.1 meta l4proto tcp meta mark & 0xfff != 0x539 redirect to :15001\n"
    "\t\tip6 daddr != ::1 meta l4proto tcp meta mark & 0xfff != 0x539 redirect to :15001\n" MANGLE;

static const char golden_special[] = DROP NAT_PREROUTING
    "\t\tiifname \"tap0\" meta l4proto tcp redirect to :15001\n"
    "\t\tiifname \"tap0\" meta l4proto tcp return\n" NAT_OUTPUT
    "\t\tip daddr 169.254.7.127 meta l4proto tcp accept\n"
    "\t\tmeta nfproto ipv4 oifname != \"lo\" udp dport 53 meta mark & 0xfff != 0x539 redirect to "
    ":15053\n"
    "\t\tip daddr != 127.0.0.1 tcp dport 53 meta mark & 0xfff != 0x539 redirect to :15053\n"
    "\t\tmeta l4proto tcp meta mark & 0xfff == 0x111 accept\n"
    "\t\toifname \"lo\" ip daddr != 127.0.0.1 accept\n"
    "\t\tip daddr != 127.0.0.1 meta l4proto tcp meta mark & 0xfff != 0x539 redirect to "
    ":15001\n" MANGLE "table inet istio-ambient-raw {\n"
    "\tchain prerouting {\n"
    "\t\ttype filter hook prerouting priority -300; policy accept;\n"
    "\t\tjump istio-prerouting\n"
    "\t}\n"
    "\tchain istio-prerouting {\n"
    "\t\tudp sport 53 meta mark & 0xfff != 0x539 ct zone set 1\n"
    "\t}\n"
    "\tchain output {\n"
    "\t\ttype filter hook output priority -300; policy accept;\n"
    "\t\tjump istio-output\n"
    "\t}\n"
    "\tchain istio-output {\n"
    "\t\tudp dport 53 meta mark & 0xfff == 0x539 ct zone set 1\n"
    "\t}\n"
    "}\n";

static void check_text(struct sw_buf *b, const char *want)
{
    assert_int_equal(sw_buf_putc(b, '\0'), SW_OK);
    assert_string_equal(sw_buf_data(b), want);
}

static void test_default_rules(void **state)
{
    SW_BUF_AUTO b = {.max = SW_REDIRECT_TEXT_MAX};
    struct sw_redirect r;

    (void)state;
    sw_redirect_init(&r);
    assert_int_equal(sw_redirect_ruleset(&r, &b), SW_OK);
    check_text(&b, golden_default);
}

static void test_dns_virtual_interface_and_no_inbound(void **state)
{
    static const char *const ifs[] = {"tap0"};
    SW_BUF_AUTO b = {.max = SW_REDIRECT_TEXT_MAX};
    struct sw_redirect r;

    (void)state;
    sw_redirect_init(&r);
    r.dns = true;
    r.ipv6 = false;
    r.inbound = false;
    r.virtual_ifs = ifs;
    r.n_virtual_ifs = 1;
    assert_int_equal(sw_redirect_ruleset(&r, &b), SW_OK);
    check_text(&b, golden_special);
}

static void test_removal_names_only_our_tables(void **state)
{
    SW_BUF_AUTO b = {.max = SW_REDIRECT_TEXT_MAX};

    (void)state;
    assert_int_equal(sw_redirect_removal(&b), SW_OK);
    check_text(&b, DROP);
}

static void test_show_begins_with_the_routes(void **state)
{
    static const char v4[] =
        "# routing: replies to connections made with the client's address come back here\n"
        "ip -4 rule add fwmark 0x111/0xfff priority 32764 lookup 100\n"
        "ip -4 route add local 0.0.0.0/0 dev lo table 100\n";
    static const char v6[] = "ip -6 rule add fwmark 0x111/0xfff priority 32764 lookup 100\n"
                             "ip -6 route add local ::/0 dev lo table 100\n";
    SW_BUF_AUTO b = {.max = SW_REDIRECT_TEXT_MAX};
    struct sw_redirect r;

    (void)state;
    sw_redirect_init(&r);
    assert_int_equal(sw_redirect_show(&r, &b), SW_OK);
    assert_memory_equal(sw_buf_data(&b), v4, sizeof(v4) - 1);
    assert_memory_equal(sw_buf_data(&b) + sizeof(v4) - 1, v6, sizeof(v6) - 1);
    sw_buf_clear(&b);
    r.ipv6 = false;
    assert_int_equal(sw_redirect_show(&r, &b), SW_OK);
    assert_null(memmem(sw_buf_data(&b), sw_buf_len(&b), "ip -6", 5));
    assert_null(memmem(sw_buf_data(&b), sw_buf_len(&b), "ip6", 3));
}

static void test_interface_names_cannot_break_out(void **state)
{
    static const char *const bad[] = {"",  "a b", "x\"", "x;y", "..", "a/b", "sixteencharslong",
                                      "e*"};
    static const char *const good[] = {"eth0", "tap-1.5", "a@b:c", "fifteen_chars_x"};
    struct sw_redirect r;
    struct sw_err err;

    (void)state;
    sw_redirect_init(&r);
    r.n_virtual_ifs = 1;
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++) {
        r.virtual_ifs = &bad[i];
        assert_int_equal(sw_redirect_check(&r, &err), SW_EINVAL);
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(good); i++) {
        r.virtual_ifs = &good[i];
        assert_int_equal(sw_redirect_check(&r, &err), SW_OK);
    }
    r.n_virtual_ifs = SW_REDIRECT_IFS_MAX + 1;
    assert_int_equal(sw_redirect_check(&r, &err), SW_ELIMIT);
}

static void test_a_small_buffer_is_an_error(void **state)
{
    struct sw_redirect r;

    (void)state;
    sw_redirect_init(&r);
    for (size_t max = 0; max < sizeof(golden_default) - 1; max += 101) {
        SW_BUF_AUTO b = {.max = max};

        assert_int_equal(sw_redirect_ruleset(&r, &b), SW_ELIMIT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_rules),
        cmocka_unit_test(test_dns_virtual_interface_and_no_inbound),
        cmocka_unit_test(test_removal_names_only_our_tables),
        cmocka_unit_test(test_show_begins_with_the_routes),
        cmocka_unit_test(test_interface_names_cannot_break_out),
        cmocka_unit_test(test_a_small_buffer_is_an_error),
    };

    return cmocka_run_group_tests_name("redirect", tests, NULL, NULL);
}
