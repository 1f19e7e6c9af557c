/* SPDX-License-Identifier: Apache-2.0 */
/* Packets keep their borders and carry descriptors; what does not fit is reported, never leaked. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/unix/packet.h"

static int pair[2];

static int setup(void **state)
{
    (void)state;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int teardown(void **state)
{
    (void)state;
    (void)close(pair[0]);
    (void)close(pair[1]);
    return 0;
}

/* The lowest descriptor that is free: the same before and after means that none was kept. */
static int lowest(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)close(fd);
    return fd;
}

static void keeps_borders(void **state)
{
    struct sw_packet pk;
    char buf[8];

    (void)state;
    assert_int_equal(sw_packet_recv(pair[1], buf, sizeof(buf), &pk), SW_EAGAIN);
    assert_int_equal(sw_packet_send(pair[0], "one", 3, -1), SW_OK);
    assert_int_equal(sw_packet_send(pair[0], "three", 5, -1), SW_OK);
    assert_int_equal(sw_packet_recv(pair[1], buf, sizeof(buf), &pk), SW_OK);
    assert_true(pk.n == 3 && pk.fd == -1 && pk.n_fds == 0 && !pk.cut);
    assert_memory_equal(buf, "one", 3);
    assert_int_equal(sw_packet_recv(pair[1], buf, 4, &pk), SW_OK);
    assert_true(pk.cut);
}

static void passes_one_descriptor(void **state)
{
    struct sw_packet pk;
    char buf[8];
    int pipes[2];

    (void)state;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(sw_packet_send(pair[0], "x", 1, pipes[1]), SW_OK);
    (void)close(pipes[1]);
    assert_int_equal(sw_packet_recv(pair[1], buf, sizeof(buf), &pk), SW_OK);
    assert_true(pk.n == 1 && pk.n_fds == 1 && pk.fd >= 0);
    assert_true((fcntl(pk.fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(write(pk.fd, "y", 1), 1);
    assert_int_equal(read(pipes[0], buf, 1), 1);
    (void)close(pk.fd);
    (void)close(pipes[0]);
}

static void closes_more_than_one(void **state)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(20 * sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = (char[]){'x'}, .iov_len = 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes};
    static const size_t counts[] = {2, SW_PACKET_FDS_MAX, SW_PACKET_FDS_MAX + 5};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(counts); i++) {
        struct sw_packet pk;
        char buf[8];
        int before = lowest();

        m.msg_controllen = CMSG_SPACE(counts[i] * sizeof(int));
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(counts[i] * sizeof(int));
        for (size_t k = 0; k < counts[i]; k++)
            memcpy(CMSG_DATA(&control.head) + k * sizeof(int), &(int){0}, sizeof(int));
        assert_int_equal(sendmsg(pair[0], &m, 0), 1);
        assert_int_equal(sw_packet_recv(pair[1], buf, sizeof(buf), &pk), SW_OK);
        assert_int_equal(pk.fd, -1);
        assert_true(pk.n_fds > 1);
        assert_int_equal(pk.cut, counts[i] > SW_PACKET_FDS_MAX);
        assert_int_equal(lowest(), before);
    }
}

static void tells_the_end(void **state)
{
    struct sw_packet pk;
    char buf[8];

    (void)state;
    (void)close(pair[0]);
    pair[0] = -1;
    assert_int_equal(sw_packet_recv(pair[1], buf, sizeof(buf), &pk), SW_EOF);
    assert_int_equal(sw_packet_send(pair[1], "x", 1, -1), SW_ECLOSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keeps_borders, setup, teardown),
        cmocka_unit_test_setup_teardown(passes_one_descriptor, setup, teardown),
        cmocka_unit_test_setup_teardown(closes_more_than_one, setup, teardown),
        cmocka_unit_test_setup_teardown(tells_the_end, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
