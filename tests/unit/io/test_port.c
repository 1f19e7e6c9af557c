/* SPDX-License-Identifier: Apache-2.0 */
/* Sharing ports with our own kind and nobody else, against the real kernel. */
#include "test.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/dgram.h"
#include "io/port.h"
#include "io/sock.h"

static struct sw_addr address(const char *ip, uint16_t port)
{
    struct sw_addr at = {.port = port};

    assert_int_equal(sw_ip_parse(sw_slice_str(ip), &at.ip, NULL), SW_OK);
    return at;
}

static int open_shared(const struct sw_addr *at, const char *group, int *ret_mark,
                       struct sw_err *err)
{
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    int fd = -1;

    o.share = group;
    o.ret_mark = ret_mark;
    return sw_sock_listen(at, &o, &fd, err) == SW_OK ? fd : -1;
}

/* What any other program does that wants to share. */
static int stranger(const char *ip, uint16_t port, int type, bool v6only)
{
    struct sw_addr at = address(ip, port);
    struct sockaddr_storage ss;
    socklen_t n = sw_addr_to_sockaddr(&at, &ss);
    int fd = socket(ss.ss_family, type | SOCK_CLOEXEC, 0);
    int one = 1;

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)), 0);
    if (v6only)
        assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)), 0);
    if (bind(fd, (struct sockaddr *)&ss, n) != 0) {
        (void)close(fd);
        return -1;
    }
    if (type == SOCK_STREAM)
        assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static uint16_t free_port(void)
{
    struct sw_addr at = address("127.0.0.1", 0);
    const struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    int fd;
    uint16_t port;

    assert_int_equal(sw_sock_listen(&at, &o, &fd, NULL), SW_OK);
    port = sw_sock_local(fd).port;
    sw_sock_close(fd);
    return port;
}

static void a_group_shares_and_others_do_not(void **state)
{
    struct sw_addr at = address("127.0.0.1", free_port());
    struct sw_err err = {0};
    int marks[2] = {-1, -1};
    int a = open_shared(&at, "one", &marks[0], NULL);
    int b = open_shared(&at, "one", &marks[1], NULL);
    char pid[32];

    (void)state;
    assert_true(a >= 0);
    assert_true(b >= 0);
    assert_int_equal(open_shared(&at, "two", NULL, &err), -1);
    assert_int_equal(err.sys_errno, EADDRINUSE);
    (void)snprintf(pid, sizeof(pid), "(pid %d)", (int)getpid());
    assert_non_null(strstr(err.msg, "held by "));
    assert_non_null(strstr(err.msg, pid));
    /* The mark goes with the socket. */
    sw_sock_close(a);
    sw_sock_close(b);
    sw_sock_close(marks[0]);
    sw_sock_close(marks[1]);
    a = open_shared(&at, "two", &marks[0], &err);
    assert_true(a >= 0);
    sw_sock_close(a);
    sw_sock_close(marks[0]);
}

static const struct {
    const char *theirs;
    bool v6only;
    const char *ours;
    bool clash;
} overlaps[] = {
    {"127.0.0.1", false, "127.0.0.1", true},
    {"0.0.0.0", false, "127.0.0.1", true},
    {"127.0.0.1", false, "0.0.0.0", true},
    {"127.0.0.2", false, "127.0.0.1", false},
    {"::", false, "127.0.0.1", true},
    {"::", true, "127.0.0.1", false},
    {"127.0.0.1", false, "::", true},
    {"::1", false, "127.0.0.1", false},
    {"::", true, "::", true},
    {"::1", false, "::", true},
};

static void a_stranger_at_an_overlapping_address_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(overlaps); i++) {
        uint16_t port = free_port();
        int fd = stranger(overlaps[i].theirs, port, SOCK_STREAM, overlaps[i].v6only);
        struct sw_addr at = address(overlaps[i].ours, port);
        struct sw_err err = {0};
        int mark = -1;
        int ours;

        if (fd < 0)
            continue; /* a kernel without IPv6 */
        ours = open_shared(&at, "one", &mark, &err);
        if ((ours < 0) != overlaps[i].clash)
            fail_msg("%s beside %s: %s", overlaps[i].ours, overlaps[i].theirs, err.msg);
        if (overlaps[i].clash)
            assert_int_equal(err.sys_errno, EADDRINUSE);
        sw_sock_close(ours);
        sw_sock_close(mark);
        sw_sock_close(fd);
    }
}

static void a_stranger_has_a_udp_port(void **state)
{
    uint16_t port = free_port();
    struct sw_addr at = address("127.0.0.1", port);
    int theirs = stranger("0.0.0.0", port, SOCK_DGRAM, false);
    struct sw_err err = {0};
    int fds[2];
    int marks[2];
    struct sw_sock_opts shared = {
        .share = "one", .ret_mark = &marks[0], .unnamed = true, .netns_fd = -1};

    (void)state;
    assert_int_equal(sw_dgram_bind(&at, &shared, &fds[0], &err), SW_ESYS);
    assert_int_equal(err.sys_errno, EADDRINUSE);
    assert_int_equal(sw_dgram_bind(&at, NULL, &fds[0], &err), SW_ESYS);
    assert_non_null(strstr(err.msg, "held by "));
    sw_sock_close(theirs);
    for (int i = 0; i < 2; i++) {
        shared.ret_mark = &marks[i];
        assert_int_equal(sw_dgram_bind(&at, &shared, &fds[i], &err), SW_OK);
    }
    for (int i = 0; i < 2; i++) {
        sw_sock_close(fds[i]);
        sw_sock_close(marks[i]);
    }
}

static void a_stranger_that_joins_later_is_found(void **state)
{
    struct sw_addr at = address("127.0.0.1", free_port());
    struct sw_port_holder h = {0};
    char name[96];
    int mark;
    int ours = open_shared(&at, "one", &mark, NULL);
    int theirs;

    (void)state;
    assert_int_equal(sw_port_find_foreign(-1, &at, false, "one", &h, NULL), SW_ENOENT);
    theirs = stranger("127.0.0.1", at.port, SOCK_STREAM, false);
    assert_true(theirs >= 0);
    assert_int_equal(sw_port_find_foreign(-1, &at, false, "one", &h, NULL), SW_OK);
    assert_int_equal(h.uid, geteuid());
    sw_port_holder_name(&h, name, sizeof(name));
    assert_non_null(strstr(name, "test_io_port"));
    sw_sock_close(theirs);
    sw_sock_close(ours);
    sw_sock_close(mark);
}

static void a_holder_that_is_not_seen_has_a_user(void **state)
{
    const struct sw_port_holder h = {.uid = 77};
    char name[96];

    (void)state;
    sw_port_holder_name(&h, name, sizeof(name));
    assert_string_equal(name, "another process (uid 77)");
}

static void a_cause_is_the_same_whoever_holds_the_port(void **state)
{
    const char *seen = "cannot bind [::]:15006: Address already in use, held by python3 (pid 12)";

    (void)state;
    assert_true(sw_port_same_cause(seen, "cannot bind [::]:15006: Address already in use, "
                                         "held by another process (uid 0)"));
    assert_true(sw_port_same_cause(seen, "cannot bind [::]:15006: Address already in use"));
    assert_false(sw_port_same_cause(seen, "cannot bind [::]:15008: Address already in use, "
                                          "held by python3 (pid 12)"));
    assert_false(sw_port_same_cause(seen, ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_shares_and_others_do_not),
        cmocka_unit_test(a_stranger_at_an_overlapping_address_is_refused),
        cmocka_unit_test(a_stranger_has_a_udp_port),
        cmocka_unit_test(a_stranger_that_joins_later_is_found),
        cmocka_unit_test(a_holder_that_is_not_seen_has_a_user),
        cmocka_unit_test(a_cause_is_the_same_whoever_holds_the_port),
    };

    return cmocka_run_group_tests_name("port", tests, NULL, NULL);
}
