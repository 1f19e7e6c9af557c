/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that fail before they are open: connect and handshake. */
#include <errno.h>

#include "io/sock.h"

#include "conn_rig.h"

static void test_reset_in_the_handshake(void **state)
{
    struct end *e;
    int fds[2];

    (void)state;
    tcp_pair(fds);
    e = end_new(fds[0], tls_of_role(false), true, 1000);
    settle(); /* the first flight is out */
    sw_sock_set_reset(fds[1]);
    sw_sock_close(fds[1]);
    UNTIL(e->frees);
    assert_int_equal(e->fails, 1);
    assert_int_equal(e->why.rc, SW_ECLOSED);
    assert_int_equal(e->opens, 0);
    end_free(e);
}

static void test_end_in_the_handshake(void **state)
{
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    e = end_new(fds[0], tls_of_role(true), false, 1000);
    peer_write(fds[1], "\x16\x03\x01", 3);
    sw_sock_close(fds[1]);
    UNTIL(e->frees);
    assert_int_equal(e->why.rc, SW_EOF);
    end_free(e);
}

static void test_handshake_has_a_deadline(void **state)
{
    struct end *e;
    int fds[2];

    (void)state;
    unix_pair(fds);
    e = end_new(fds[0], tls_of_role(true), false, 1000);
    pass_ms(990);
    assert_int_equal(e->fails, 0);
    pass_ms(20);
    assert_int_equal(e->frees, 1);
    assert_int_equal(e->why.rc, SW_ETIME);
    assert_string_equal(e->why.msg, "handshake timed out");
    end_free(e);
    sw_sock_close(fds[1]);
}

static void test_refused_connect_fails(void **state)
{
    struct sw_addr at = {0};
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    struct sw_err err = {0};
    struct end *e;
    int fd;

    (void)state;
    assert_int_equal(sw_ip_parse(SW_SLICE_LIT("127.0.0.1"), &at.ip, &err), SW_OK);
    assert_int_equal(sw_sock_listen(&at, &o, &fd, &err), SW_OK);
    at = sw_sock_local(fd);
    sw_sock_close(fd);
    assert_int_equal(sw_sock_connect(&at, NULL, &o, &fd, &err), SW_OK);
    e = end_new(fd, NULL, true, 1000);
    UNTIL(e->frees);
    assert_int_equal(e->why.sys_errno, ECONNREFUSED);
    end_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reset_in_the_handshake),
        cmocka_unit_test(test_end_in_the_handshake),
        cmocka_unit_test(test_handshake_has_a_deadline),
        cmocka_unit_test(test_refused_connect_fails),
    };

    return cmocka_run_group_tests(tests, rig_set_up, rig_tear_down);
}
