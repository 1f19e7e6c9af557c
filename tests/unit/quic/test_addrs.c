/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <cmocka.h>

#include "base/time.h"
#include "io/netchange.h"
#include "quic/id/addrs.h"

static uint64_t mono = 1000 * SW_NS_PER_S;
static uint64_t asleep; /* since the start, in all */

static uint64_t mono_clock(void)
{
    return mono;
}

static uint64_t boot_clock(void)
{
    return mono + asleep;
}

static unsigned n_changed;
static unsigned n_slept;

static void on_changed(void *arg, bool slept)
{
    (void)arg;
    n_changed++;
    n_slept += slept;
}

static void test_two_clocks_tell_of_sleep(void **state)
{
    struct sw_sleep s = {0};

    (void)state;
    (void)sw_sleep_look(&s, 50 * SW_NS_PER_S, 10 * SW_NS_PER_S);
    /* A loop that was busy for a minute did not sleep. */
    assert_false(sw_sleep_look(&s, 110 * SW_NS_PER_S, 70 * SW_NS_PER_S));
    /* Nothing is gained by noise, and nothing is added up from it. */
    for (uint64_t i = 1; i < 10; i++)
        assert_false(sw_sleep_look(&s, (110 + 2 * i) * SW_NS_PER_S, (70 + i) * SW_NS_PER_S));
    assert_true(sw_sleep_look(&s, 4000 * SW_NS_PER_S, 80 * SW_NS_PER_S));
    assert_false(sw_sleep_look(&s, 4001 * SW_NS_PER_S, 81 * SW_NS_PER_S));
    /* Clocks do not go backwards; if they did, that would be no sleep. */
    assert_false(sw_sleep_look(&s, 4002 * SW_NS_PER_S, 200 * SW_NS_PER_S));
}

static void test_waking_up_is_told_once(void **state)
{
    struct sw_err err = {0};
    struct sw_loop *l = sw_loop_new(&err);
    struct sw_addr_watch *w;

    (void)state;
    assert_non_null(l);
    sw_loop_set_clock(l, mono_clock);
    sw_loop_turn(l, 0);
    w = sw_addr_watch_new(l, on_changed, NULL, boot_clock);
    for (int i = 0; i < 30; i++) {
        mono += 100 * SW_NS_PER_MS;
        sw_loop_turn(l, 0);
    }
    assert_int_equal(n_changed, 0);
    asleep += 3600 * SW_NS_PER_S;
    for (int i = 0; i < 11; i++) { /* a second */
        mono += 100 * SW_NS_PER_MS;
        sw_loop_turn(l, 0);
    }
    assert_int_equal(n_slept, 1);
    for (int i = 0; i < 50; i++) {
        mono += 100 * SW_NS_PER_MS;
        sw_loop_turn(l, 0);
    }
    assert_int_equal(n_changed, 1);
    sw_addr_watch_free(w);
    sw_loop_free(l);
}

/* One message of a type, with a body of n bytes. */
static size_t put(char *at, unsigned type, const void *body, size_t n)
{
    struct nlmsghdr h = {.nlmsg_type = (uint16_t)type, .nlmsg_len = (uint32_t)NLMSG_LENGTH(n)};

    memset(at, 0, NLMSG_SPACE(n));
    memcpy(at, &h, sizeof(h));
    memcpy(at + NLMSG_HDRLEN, body, n);
    return NLMSG_SPACE(n);
}

static void test_only_what_matters_is_told(void **state)
{
    static const struct {
        unsigned type;
        struct rtmsg r;
        bool any, route;
    } cases[] = {
        {RTM_NEWADDR, {0}, true, false},
        {RTM_DELADDR, {0}, true, false},
        {RTM_NEWLINK, {0}, true, false},
        {RTM_NEWNEIGH, {0}, false, false},
        {RTM_NEWROUTE, {.rtm_table = RT_TABLE_MAIN}, true, true},
        {RTM_DELROUTE, {.rtm_table = RT_TABLE_MAIN}, true, true},
        {RTM_NEWROUTE, {.rtm_table = RT_TABLE_MAIN, .rtm_dst_len = 24}, false, false},
        {RTM_NEWROUTE, {.rtm_table = RT_TABLE_LOCAL}, false, false},
        {RTM_NEWROUTE, {.rtm_table = RT_TABLE_LOCAL, .rtm_type = RTN_LOCAL}, true, false},
        {RTM_DELROUTE, {.rtm_table = RT_TABLE_LOCAL, .rtm_type = RTN_LOCAL}, true, false},
        {RTM_NEWROUTE,
         {.rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_LOCAL, .rtm_dst_len = 16},
         false,
         false},
    };
    _Alignas(struct nlmsghdr) char buf[1024];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        bool route = false;
        size_t n = put(buf, cases[i].type, &cases[i].r, sizeof(cases[i].r));

        assert_int_equal(sw_netchange_read(buf, n, &route), cases[i].any);
        assert_int_equal(route, cases[i].route);
        /* Behind something else it is found as well. */
        route = false;
        n = put(buf, RTM_NEWNEIGH, "", 0);
        n += put(buf + n, cases[i].type, &cases[i].r, sizeof(cases[i].r));
        assert_int_equal(sw_netchange_read(buf, n, &route), cases[i].any);
        assert_int_equal(route, cases[i].route);
    }
}

static void test_broken_messages_end_the_reading(void **state)
{
    _Alignas(struct nlmsghdr) char buf[256];
    struct rtmsg r = {.rtm_table = RT_TABLE_MAIN};
    size_t n = put(buf, RTM_NEWROUTE, &r, sizeof(r));
    bool route = false;
    uint32_t len;

    (void)state;
    for (size_t cut = 0; cut < n; cut++)
        assert_false(sw_netchange_read(buf, cut, &route));
    len = 3;
    memcpy(buf, &len, sizeof(len));
    assert_false(sw_netchange_read(buf, n, &route));
    len = NLMSG_LENGTH(2); /* a route without its middle */
    memcpy(buf, &len, sizeof(len));
    assert_false(sw_netchange_read(buf, n, &route));
    assert_false(route);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_clocks_tell_of_sleep),
        cmocka_unit_test(test_waking_up_is_told_once),
        cmocka_unit_test(test_only_what_matters_is_told),
        cmocka_unit_test(test_broken_messages_end_the_reading),
    };

    return cmocka_run_group_tests_name("connector addrs", tests, NULL, NULL);
}
