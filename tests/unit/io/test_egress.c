/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/egress.h"
#include "io/resolver.h"
#include "io/sock.h"

static struct sw_loop *loop;

static struct sw_addr at(const char *ip, uint16_t port)
{
    struct sw_addr a = {.port = port};

    assert_int_equal(sw_ip_parse(sw_slice_str(ip), &a.ip, NULL), SW_OK);
    return a;
}

static void hosts_are_addresses_or_names(void **state)
{
    static const struct {
        const char *text;
        int rc;
        uint8_t family;
    } cases[] = {
        {"127.0.0.1", SW_OK, 4},
        {"::1", SW_OK, 6},
        {"::ffff:127.0.0.1", SW_OK, 4},
        {"example.com", SW_OK, 0},
        {"example.com.", SW_OK, 0},
        {"localhost", SW_OK, 0},
        {"_srv.a-b.x1", SW_OK, 0},
        {"1.2.3.4.example", SW_OK, 0},
        {"0xg", SW_OK, 0},
        {"7f", SW_OK, 0},
        {"127.1", SW_EINVAL, 0},
        {"127.1.", SW_EINVAL, 0},
        {"0x7f.1", SW_EINVAL, 0},
        {"0X7F.0X1", SW_EINVAL, 0},
        {"0177.0.0.1", SW_EINVAL, 0},
        {"0.0", SW_EINVAL, 0},
        {"0", SW_EINVAL, 0},
        {"2130706433", SW_EINVAL, 0},
        {"0x7f000001", SW_EINVAL, 0},
        {"169.254.43518", SW_EINVAL, 0},
        {"256.0.0.1", SW_EINVAL, 0},
        {"a.0x", SW_EINVAL, 0},
        {"a.1", SW_EINVAL, 0},
        {"", SW_EINVAL, 0},
        {".", SW_EINVAL, 0},
        {"a..b", SW_EINVAL, 0},
        {"127.0.0.1 ", SW_EINVAL, 0},
        {"fe80::1%lo", SW_EINVAL, 0},
        {"%31", SW_EINVAL, 0},
        {"[::1]", SW_EINVAL, 0},
        {"\xef\xbc\x91", SW_EINVAL, 0},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_ip ip = {.family = 9};
        struct sw_err err = {0};

        assert_int_equal(sw_host_parse(sw_slice_str(cases[i].text), &ip, &err), cases[i].rc);
        assert_int_equal(ip.family, cases[i].rc == SW_OK ? cases[i].family : 9);
        assert_int_equal(err.msg[0] != 0, cases[i].rc != SW_OK);
    }
}

static void addresses_have_a_class_in_every_disguise(void **state)
{
    static const struct {
        const char *ip;
        enum sw_egress_class c;
    } cases[] = {
        {"10.1.2.3", SW_EGRESS_OK},
        {"8.8.8.8", SW_EGRESS_OK},
        {"2001:db8::1", SW_EGRESS_OK},
        {"fd00::1", SW_EGRESS_OK},
        {"64:ff9b::8.8.8.8", SW_EGRESS_OK},
        {"2002:808:808::1", SW_EGRESS_OK},
        {"127.0.0.1", SW_EGRESS_LOOPBACK},
        {"127.255.255.254", SW_EGRESS_LOOPBACK},
        {"::1", SW_EGRESS_LOOPBACK},
        {"::ffff:127.0.0.1", SW_EGRESS_LOOPBACK},
        {"::127.0.0.1", SW_EGRESS_LOOPBACK},
        {"::ffff:0:127.0.0.1", SW_EGRESS_LOOPBACK},
        {"64:ff9b::127.0.0.1", SW_EGRESS_LOOPBACK},
        {"64:ff9b:1:7f00:0:100::", SW_EGRESS_LOOPBACK},
        {"64:ff9b:1::127.0.0.1", SW_EGRESS_LOOPBACK},
        {"64:ff9b:1::8.8.8.8", SW_EGRESS_OK},
        {"2002:7f00:1::", SW_EGRESS_LOOPBACK},
        {"2001:0:808:808:0:0:80ff:fffe", SW_EGRESS_LOOPBACK},
        {"2001:db8::5efe:127.0.0.1", SW_EGRESS_LOOPBACK},
        {"2001:db8::200:5efe:169.254.169.254", SW_EGRESS_LINK_LOCAL},
        {"169.254.169.254", SW_EGRESS_LINK_LOCAL},
        {"2002:a9fe:a9fe::", SW_EGRESS_LINK_LOCAL},
        {"64:ff9b::169.254.169.254", SW_EGRESS_LINK_LOCAL},
        {"fe80::1", SW_EGRESS_LINK_LOCAL},
        {"febf::1", SW_EGRESS_LINK_LOCAL},
        {"0.0.0.0", SW_EGRESS_UNSPECIFIED},
        {"0.1.2.3", SW_EGRESS_UNSPECIFIED},
        {"::", SW_EGRESS_UNSPECIFIED},
        {"224.0.0.1", SW_EGRESS_MULTICAST},
        {"255.255.255.255", SW_EGRESS_MULTICAST},
        {"ff02::1", SW_EGRESS_MULTICAST},
        {"fd00:ec2::254", SW_EGRESS_METADATA},
        {"100.100.100.200", SW_EGRESS_METADATA},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_addr a = at(cases[i].ip, 80);

        if (sw_egress_classify(&a.ip) != cases[i].c)
            fail_msg("%s is %s", cases[i].ip, sw_egress_class_text(sw_egress_classify(&a.ip)));
    }
}

static struct sw_egress *filter(const char *allow, const char *deny, bool only_listed)
{
    struct sw_egress_opts o = {.allow = &allow,
                               .n_allow = allow != NULL,
                               .deny = &deny,
                               .n_deny = deny != NULL,
                               .only_listed = only_listed};
    struct sw_egress *e = sw_egress_new(loop, &o, NULL);

    assert_non_null(e);
    return e;
}

static void lists_change_what_is_denied(void **state)
{
    static const struct {
        const char *allow;
        const char *deny;
        bool only_listed;
        const char *ip;
        uint16_t port;
        enum sw_egress_class c;
    } cases[] = {
        {NULL, NULL, false, "127.0.0.1", 80, SW_EGRESS_LOOPBACK},
        {NULL, NULL, false, "203.0.113.9", 80, SW_EGRESS_OK},
        {NULL, NULL, true, "127.0.0.1", 80, SW_EGRESS_OK},
        {NULL, "127.0.0.0/8", true, "127.0.0.1", 80, SW_EGRESS_LISTED},
        {"127.0.0.0/8", NULL, false, "127.0.0.1", 80, SW_EGRESS_OK},
        {"127.0.0.0/8", NULL, false, "::ffff:127.0.0.1", 80, SW_EGRESS_OK},
        {"127.0.0.0/8", NULL, false, "64:ff9b::127.0.0.1", 80, SW_EGRESS_OK},
        {"127.0.0.0/8", NULL, false, "::1", 80, SW_EGRESS_LOOPBACK},
        {"::1", NULL, false, "::1", 80, SW_EGRESS_OK},
        {"127.0.0.1:80-90", NULL, false, "127.0.0.1", 90, SW_EGRESS_OK},
        {"127.0.0.1:80-90", NULL, false, "127.0.0.1", 91, SW_EGRESS_LOOPBACK},
        {"[::1]:80", NULL, false, "::1", 80, SW_EGRESS_OK},
        {"[::1]:80", NULL, false, "::1", 81, SW_EGRESS_LOOPBACK},
        {"127.0.0.0/8", "127.0.0.0/8:15000-15063", false, "127.0.0.1", 15000, SW_EGRESS_LISTED},
        {"127.0.0.0/8", "127.0.0.0/8:15000-15063", false, "127.9.0.1", 15064, SW_EGRESS_OK},
        {NULL, "10.0.0.0/8", false, "10.1.1.1", 80, SW_EGRESS_LISTED},
        {NULL, "10.0.0.0/8", false, "2002:a01:101::", 80, SW_EGRESS_LISTED},
        {"10.1.1.1", "10.0.0.0/8", false, "10.1.1.1", 80, SW_EGRESS_LISTED},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_egress *e = filter(cases[i].allow, cases[i].deny, cases[i].only_listed);
        struct sw_addr a = at(cases[i].ip, cases[i].port);
        struct sw_err err = {0};
        enum sw_egress_class c = sw_egress_judge(e, &a);

        if (c != cases[i].c)
            fail_msg("case %zu: %s is %s", i, cases[i].ip, sw_egress_class_text(c));
        assert_int_equal(sw_egress_check(e, &a, &err), c == SW_EGRESS_OK ? SW_OK : SW_EDENIED);
        assert_int_equal(sw_egress_denied(e, c), c != SW_EGRESS_OK);
        sw_egress_free(e);
    }
    assert_int_equal(sw_egress_check(NULL, &(struct sw_addr){0}, NULL), SW_OK);
}

static void bad_rules_are_refused(void **state)
{
    static const char *const bad[] = {"",          "127.1",          "10.0.0.0/33",     "localhost",
                                      "::1:80/8x", "10.0.0.1:0",     "10.0.0.1:x",      "[::1]x",
                                      "[::1",      "10.0.0.1:90-80", "10.0.0.1:1-70000"};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++) {
        struct sw_egress_opts o = {.deny = &bad[i], .n_deny = 1};
        struct sw_err err = {0};

        assert_null(sw_egress_new(loop, &o, &err));
        assert_true(err.msg[0]);
    }
}

/* Whatever addresses the machine has besides loopback ones. */
static void own_addresses_are_denied(void **state)
{
    struct ifaddrs *all = NULL;
    struct sw_egress *e = filter(NULL, NULL, false);
    struct sw_egress *own = filter("own", NULL, false);

    (void)state;
    assert_int_equal(getifaddrs(&all), 0);
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        struct sockaddr_storage ss = {0};
        struct sw_addr a;

        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
            continue;
        memcpy(&ss, i->ifa_addr, sizeof(struct sockaddr_in));
        a = sw_addr_from_sockaddr(&ss);
        assert_int_not_equal(sw_egress_judge(e, &a), SW_EGRESS_OK);
        if (sw_egress_classify(&a.ip) == SW_EGRESS_OK) {
            assert_int_equal(sw_egress_judge(e, &a), SW_EGRESS_OWN);
            assert_int_equal(sw_egress_judge(own, &a), SW_EGRESS_OK);
        }
    }
    freeifaddrs(all);
    sw_egress_free(e);
    sw_egress_free(own);
}

static void sockets_are_not_connected(void **state)
{
    struct sw_egress *e = filter(NULL, NULL, false);
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    struct sw_addr to = at("127.0.0.1", 9);
    struct sw_err err = {0};
    int fd = -1;

    (void)state;
    o.egress = e;
    assert_int_equal(sw_sock_connect(&to, NULL, &o, &fd, &err), SW_EDENIED);
    assert_int_equal(fd, -1);
    assert_string_equal(err.msg, "connection to 127.0.0.1:9 denied: loopback address");
    sw_egress_free(e);
}

static void on_answer(struct sw_resolve *r)
{
    *(int *)r->arg = r->rc;
    sw_loop_stop(r->loop);
}

static void disguised_names_are_not_resolved(void **state)
{
    static struct sw_resolve r;
    int rc = SW_OK;

    (void)state;
    r = (struct sw_resolve){.loop = loop, .cb = on_answer, .arg = &rc, .name = "127.1"};
    sw_resolve_start(&r);
    sw_loop_run(loop);
    assert_int_equal(rc, SW_EINVAL);
    sw_resolver_stop();
}

static int set_up(void **state)
{
    (void)state;
    loop = sw_loop_new(NULL);
    return loop ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    sw_loop_free(loop);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_addresses_or_names),
        cmocka_unit_test(addresses_have_a_class_in_every_disguise),
        cmocka_unit_test(lists_change_what_is_denied),
        cmocka_unit_test(bad_rules_are_refused),
        cmocka_unit_test(own_addresses_are_denied),
        cmocka_unit_test(sockets_are_not_connected),
        cmocka_unit_test(disguised_names_are_not_resolved),
    };

    return cmocka_run_group_tests_name("egress", tests, set_up, tear_down);
}
