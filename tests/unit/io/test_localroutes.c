/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/slice.h"
#include "io/localroutes.h"

enum { ROOM = 8 };

struct collected {
    struct sw_cidr nets[ROOM];
    struct sw_localroutes to;
    bool last;
    bool failed;
};

static void collect(struct collected *c, const void *buf, size_t n, size_t max)
{
    *c = (struct collected){.to.max = max};
    c->to.p = c->nets;
    sw_localroutes_read(buf, n, &c->to, &c->last, &c->failed);
}

/* A route with a destination (n bytes of dst); n 0: without the attribute. */
static size_t put(char *at, const struct rtmsg *r, const void *dst, size_t n)
{
    struct rtattr other = {.rta_type = RTA_OIF, .rta_len = RTA_LENGTH(4)};
    struct rtattr a = {.rta_type = RTA_DST, .rta_len = (uint16_t)RTA_LENGTH(n)};
    size_t len = NLMSG_LENGTH(sizeof(*r)) + RTA_SPACE(4) + (n ? RTA_SPACE(n) : 0);
    struct nlmsghdr h = {.nlmsg_type = RTM_NEWROUTE, .nlmsg_len = (uint32_t)len};
    char *p = at + NLMSG_LENGTH(sizeof(*r));

    memset(at, 0, NLMSG_ALIGN(len));
    memcpy(at, &h, sizeof(h));
    memcpy(at + NLMSG_HDRLEN, r, sizeof(*r));
    memcpy(p, &other, sizeof(other));
    if (n) {
        memcpy(p + RTA_SPACE(4), &a, sizeof(a));
        memcpy(p + RTA_SPACE(4) + RTA_LENGTH(0), dst, n);
    }
    return NLMSG_ALIGN(len);
}

static const struct rtmsg local4 = {
    .rtm_family = AF_INET, .rtm_table = RT_TABLE_LOCAL, .rtm_type = RTN_LOCAL, .rtm_dst_len = 16};
static const uint8_t ten_nine[4] = {10, 9, 0, 0};

static void only_local_routes_of_the_local_table_count(void **state)
{
    static const struct {
        struct rtmsg r;
        size_t n; /* bytes of the destination */
        bool counts;
    } cases[] = {
        {{AF_INET, 16, 0, 0, RT_TABLE_LOCAL, 0, 0, RTN_LOCAL, 0}, 4, true},
        {{AF_INET6, 64, 0, 0, RT_TABLE_LOCAL, 0, 0, RTN_LOCAL, 0}, 16, true},
        {{AF_INET, 0, 0, 0, RT_TABLE_LOCAL, 0, 0, RTN_LOCAL, 0}, 0, true}, /* everything */
        {{AF_INET, 16, 0, 0, RT_TABLE_LOCAL, 0, 0, RTN_BROADCAST, 0}, 4, false},
        {{AF_INET, 16, 0, 0, RT_TABLE_MAIN, 0, 0, RTN_LOCAL, 0}, 4, false},
        {{AF_INET, 33, 0, 0, RT_TABLE_LOCAL, 0, 0, RTN_LOCAL, 0}, 4, false},
        {{AF_INET, 16, 0, 0, RT_TABLE_LOCAL, 0, 0, RTN_LOCAL, 0}, 16, false},
        {{AF_INET, 16, 0, 0, RT_TABLE_LOCAL, 0, 0, RTN_LOCAL, 0}, 0, false},
        {{AF_INET6, 64, 0, 0, RT_TABLE_LOCAL, 0, 0, RTN_LOCAL, 0}, 4, false},
        {{AF_UNIX, 16, 0, 0, RT_TABLE_LOCAL, 0, 0, RTN_LOCAL, 0}, 4, false},
    };
    static const uint8_t dst[16] = {10, 9};
    _Alignas(struct nlmsghdr) char buf[512];
    struct collected c;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        size_t n = put(buf, &cases[i].r, dst, cases[i].n);

        /* Behind another one it is found as well. */
        n += put(buf + n, &cases[i].r, dst, cases[i].n);
        collect(&c, buf, n, ROOM);
        assert_int_equal(c.to.n, cases[i].counts ? 2 : 0);
        assert_false(c.last || c.failed || c.to.full);
        if (cases[i].counts)
            assert_int_equal(c.nets[1].len, cases[i].r.rtm_dst_len);
    }
}

static void more_than_there_is_room_for_is_reported(void **state)
{
    _Alignas(struct nlmsghdr) char buf[512];
    size_t n = put(buf, &local4, ten_nine, 4);
    struct collected c;

    (void)state;
    n += put(buf + n, &local4, ten_nine, 4);
    collect(&c, buf, n, 1);
    assert_int_equal(c.to.n, 1);
    assert_true(c.to.full);
}

static void the_end_and_errors_are_told(void **state)
{
    struct nlmsghdr done = {.nlmsg_type = NLMSG_DONE, .nlmsg_len = NLMSG_LENGTH(0)};
    struct collected c;

    (void)state;
    collect(&c, &done, sizeof(done), ROOM);
    assert_true(c.last && !c.failed);
    done.nlmsg_flags = NLM_F_DUMP_INTR;
    collect(&c, &done, sizeof(done), ROOM);
    assert_true(c.last && c.failed);
    done = (struct nlmsghdr){.nlmsg_type = NLMSG_ERROR, .nlmsg_len = NLMSG_LENGTH(0)};
    collect(&c, &done, sizeof(done), ROOM);
    assert_true(c.last && c.failed);
}

static void broken_messages_end_the_reading(void **state)
{
    _Alignas(struct nlmsghdr) char buf[256];
    size_t n = put(buf, &local4, ten_nine, 4);
    struct collected c;
    uint16_t len = 3;

    (void)state;
    for (size_t cut = 0; cut < n; cut++) {
        collect(&c, buf, cut, ROOM);
        assert_int_equal(c.to.n, 0);
    }
    memcpy(buf + NLMSG_LENGTH(sizeof(struct rtmsg)), &len, sizeof(len)); /* an attribute's */
    collect(&c, buf, n, ROOM);
    assert_int_equal(c.to.n, 0);
    len = 255;
    memcpy(buf + NLMSG_LENGTH(sizeof(struct rtmsg)), &len, sizeof(len));
    collect(&c, buf, n, ROOM);
    assert_int_equal(c.to.n, 0);
}

static void the_kernel_tells(void **state)
{
    static struct sw_cidr nets[4096];
    struct sw_localroutes to = {.p = nets, .max = 4096};
    struct sw_ip ip;
    bool found = false;

    (void)state;
    if (!sw_localroutes_get(&to))
        skip(); /* a sandbox without netlink */
    assert_int_equal(sw_ip_parse(SW_SLICE_LIT("127.8.9.1"), &ip, NULL), SW_OK);
    for (size_t i = 0; i < to.n; i++)
        found |= sw_cidr_contains(&nets[i], &ip);
    if (to.n) /* loopback is up */
        assert_true(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_local_routes_of_the_local_table_count),
        cmocka_unit_test(more_than_there_is_room_for_is_reported),
        cmocka_unit_test(the_end_and_errors_are_told),
        cmocka_unit_test(broken_messages_end_the_reading),
        cmocka_unit_test(the_kernel_tells),
    };

    return cmocka_run_group_tests_name("localroutes", tests, NULL, NULL);
}
