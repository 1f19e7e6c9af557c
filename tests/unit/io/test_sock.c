/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets, pipes for splicing and network namespaces, against the real kernel. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/netns.h"
#include "io/sock.h"
#include "io/splice.h"

static const struct sw_sock_opts plain = SW_SOCK_OPTS_INIT;

static int listen_at(const char *ip, struct sw_addr *ret)
{
    struct sw_addr at = {0};
    int fd;

    assert_int_equal(sw_ip_parse(sw_slice_str(ip), &at.ip, NULL), SW_OK);
    if (sw_sock_listen(&at, &plain, &fd, NULL) != SW_OK)
        return -1;
    *ret = sw_sock_local(fd);
    return fd;
}

/* Until there is something to read, accept or be told of: the kernel may take its time. */
static void wait_in(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&p, 1, 60000), 1);
}

static void wait_hup(int fd)
{
    struct pollfd p = {.fd = fd};

    assert_int_equal(poll(&p, 1, 60000), 1);
}

static int accept_one(int listener, struct sw_addr *peer)
{
    int fd = -1;

    wait_in(listener);
    assert_int_equal(sw_sock_accept(listener, &fd, peer, NULL), SW_OK);
    return fd;
}

static void tcp_pair(int fds[2])
{
    struct sw_addr at;
    int listener = listen_at("127.0.0.1", &at);

    assert_int_equal(sw_sock_connect(&at, NULL, &plain, &fds[0], NULL), SW_OK);
    fds[1] = accept_one(listener, NULL);
    sw_sock_close(listener);
}

static void a_connection_knows_both_its_ends(void **state)
{
    static const char *const ips[] = {"127.0.0.1", "::1"};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(ips); i++) {
        struct sw_addr at;
        struct sw_addr peer;
        struct sw_addr local;
        struct sw_addr original;
        int listener = listen_at(ips[i], &at);
        int fd;
        int far;

        if (listener < 0)
            continue; /* no IPv6 here */
        assert_int_equal(sw_sock_accept(listener, &far, NULL, NULL), SW_EAGAIN);
        assert_int_equal(sw_sock_connect(&at, &at.ip, &plain, &fd, NULL), SW_OK);
        far = accept_one(listener, &peer);
        assert_int_equal(sw_sock_connect_result(fd, NULL), SW_OK);
        local = sw_sock_local(fd);
        assert_true(sw_addr_eq(&peer, &local));
        peer = sw_sock_peer(fd);
        assert_true(sw_addr_eq(&peer, &at));
        original = sw_sock_original_dst(far); /* not redirected: where it went */
        assert_true(sw_addr_eq(&original, &at));
        assert_true(fcntl(far, F_GETFL) & O_NONBLOCK);
        assert_true(fcntl(far, F_GETFD) & FD_CLOEXEC);
        sw_sock_close(fd);
        sw_sock_close(far);
        sw_sock_close(listener);
    }
}

static void reads_and_writes_speak_our_codes(void **state)
{
    int fds[2];
    char buf[8];
    struct iovec iov = {.iov_base = buf, .iov_len = sizeof(buf)};

    (void)state;
    tcp_pair(fds);
    assert_int_equal(sw_sock_read(fds[0], buf, sizeof(buf)), SW_EAGAIN);
    assert_int_equal(sw_sock_readv(fds[0], &iov, 1), SW_EAGAIN);
    assert_int_equal(sw_sock_writev(fds[1], &iov, 1), sizeof(buf));
    wait_in(fds[0]);
    assert_int_equal(sw_sock_readv(fds[0], &iov, 1), sizeof(buf));
    sw_sock_shutdown_write(fds[1]);
    wait_in(fds[0]);
    assert_int_equal(sw_sock_read(fds[0], buf, sizeof(buf)), SW_EOF);
    assert_int_equal(sw_sock_write(fds[0], "x", 1), 1); /* half-closed only */
    sw_sock_set_reset(fds[1]);
    sw_sock_close(fds[1]);
    wait_hup(fds[0]);
    assert_int_equal(sw_sock_write(fds[0], "x", 1), SW_ECLOSED);
    assert_int_equal(sw_sock_write(fds[0], "x", 1), SW_ECLOSED); /* no SIGPIPE either */
    sw_sock_close(fds[0]);
    sw_sock_close(-1);
    assert_int_equal(sw_sock_read(fds[0], buf, sizeof(buf)), SW_ESYS);
}

static void a_refused_connect_is_told(void **state)
{
    struct sw_err err = {0};
    struct sw_addr at;
    int rc = SW_EAGAIN;
    int fd;

    (void)state;
    sw_sock_close(listen_at("127.0.0.1", &at));
    rc = sw_sock_connect(&at, NULL, &plain, &fd, &err);
    if (rc == SW_OK) {
        rc = SW_EAGAIN;
        wait_hup(fd);
        rc = sw_sock_connect_result(fd, &err);
        sw_sock_close(fd);
    }
    assert_int_equal(rc, SW_ESYS);
    assert_int_equal(err.sys_errno, ECONNREFUSED);
}

/* Hardened kernels refuse socket filters to ordinary users; without one a listener just closes. */
static bool filters_are_refused(int listener)
{
    socklen_t instructions = 0;

    return getsockopt(listener, SOL_SOCKET, SO_GET_FILTER, NULL, &instructions) == 0 &&
           instructions == 0;
}

static void a_listener_that_ends_serves_who_came_before(void **state)
{
    struct sw_addr at;
    struct sw_addr peer;
    int listener = listen_at("127.0.0.1", &at);
    int early;
    int late;
    int fd;

    (void)state;
    assert_int_equal(sw_sock_connect(&at, NULL, &plain, &early, NULL), SW_OK);
    while (!sw_sock_is_connected(early))
        ;
    sw_sock_stop_listening(listener);
    if (geteuid() != 0 && filters_are_refused(listener)) {
        sw_sock_close(early);
        sw_sock_close(listener);
        skip();
    }
    assert_int_equal(sw_sock_connect(&at, NULL, &plain, &late, NULL), SW_OK);
    fd = accept_one(listener, &peer);
    sw_sock_close(fd);
    assert_int_equal(sw_sock_accept(listener, &fd, NULL, NULL), SW_EAGAIN);
    assert_false(sw_sock_is_connected(late)); /* neither taken nor refused: it asks again */
    assert_int_equal(sw_sock_connect_result(late, NULL), SW_EAGAIN);
    sw_sock_close(early);
    sw_sock_close(late);
    sw_sock_close(listener);
}

static void a_port_is_bound_once_unless_shared(void **state)
{
    int mark;
    struct sw_sock_opts shared = {.share = "test", .ret_mark = &mark, .netns_fd = -1};
    struct sw_addr at = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_err err = {0};
    int first;
    int a;
    int b;

    (void)state;
    assert_int_equal(sw_sock_listen(&at, &shared, &a, NULL), SW_OK);
    at = sw_sock_local(a);
    first = mark;
    assert_int_equal(sw_sock_listen(&at, &plain, &b, &err), SW_ESYS);
    assert_int_equal(err.sys_errno, EADDRINUSE);
    assert_int_equal(sw_sock_listen(&at, &shared, &b, NULL), SW_OK);
    sw_sock_close(a);
    sw_sock_close(b);
    sw_sock_close(first);
    sw_sock_close(mark);
}

static void running_out_of_descriptors_is_a_limit(void **state)
{
    struct sw_addr at;
    struct sw_err err = {0};
    struct rlimit old;
    struct rlimit low;
    int listener = listen_at("127.0.0.1", &at);
    int fd;
    int far;

    (void)state;
    assert_int_equal(sw_sock_connect(&at, NULL, &plain, &fd, NULL), SW_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = (rlim_t)fd + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    wait_in(listener);
    assert_int_equal(sw_sock_accept(listener, &far, NULL, &err), SW_ELIMIT);
    assert_int_equal(sw_sock_connect(&at, NULL, &plain, &far, &err), SW_ELIMIT);
    assert_null(sw_pipe_get());
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    far = accept_one(listener, NULL); /* it was not lost */
    sw_sock_close(far);
    sw_sock_close(fd);
    sw_sock_close(listener);
}

static void temp_path(char out[64], const char *name)
{
    static char dir[32];

    if (!dir[0]) {
        (void)snprintf(dir, sizeof(dir), "/tmp/sw-sock-XXXXXX");
        assert_non_null(mkdtemp(dir));
    }
    (void)snprintf(out, 64, "%s/%s", dir, name);
}

static void a_unix_listener_replaces_only_what_is_dead(void **state)
{
    char path[64];
    char file[64];
    struct stat st;
    struct sw_err err = {0};
    int a;
    int b;

    (void)state;
    temp_path(path, "s");
    temp_path(file, "precious");
    assert_int_equal(sw_sock_listen_unix(SOCK_STREAM, path, 0600, &a, NULL), SW_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(sw_sock_listen_unix(SOCK_STREAM, path, 0600, &b, &err), SW_ESYS); /* in use */
    assert_int_equal(err.sys_errno, EADDRINUSE);
    sw_sock_close(a);
    assert_int_equal(sw_sock_listen_unix(SOCK_STREAM, path, 0660, &b, NULL),
                     SW_OK); /* a leftover */
    sw_sock_close(b);
    /* Somebody's file is not a leftover of ours. */
    a = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(a >= 0);
    (void)close(a);
    assert_int_equal(sw_sock_listen_unix(SOCK_STREAM, file, 0600, &b, &err), SW_ESYS);
    assert_int_equal(err.sys_errno, EADDRINUSE);
    assert_int_equal(stat(file, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(unlink(path), 0);
    *strrchr(path, '/') = '\0';
    assert_int_equal(rmdir(path), 0);
    memset(path, 'x', sizeof(path) - 1);
    {
        char *longer = sw_asprintf("%.63s%.63s", path, path);

        assert_int_equal(sw_sock_listen_unix(SOCK_STREAM, longer, 0600, &b, NULL), SW_EINVAL);
        sw_free(longer);
    }
}

static void pipes_carry_bytes_between_sockets(void **state)
{
    int a[2];
    int b[2];
    struct sw_pipe *p;
    struct sw_pipe *again;
    char buf[16];

    (void)state;
    tcp_pair(a);
    tcp_pair(b);
    p = sw_pipe_get();
    assert_non_null(p);
    assert_int_equal(sw_pipe_fill(p, a[0], 1 << 20), SW_EAGAIN);
    assert_int_equal(sw_sock_write(a[1], "0123456789", 10), 10);
    wait_in(a[0]);
    assert_int_equal(sw_pipe_fill(p, a[0], 4), 4);
    assert_int_equal(sw_pipe_fill(p, a[0], 1 << 20), 6);
    assert_int_equal(sw_pipe_fill(p, a[0], 1 << 20), SW_ELIMIT); /* nothing there, but not empty */
    assert_int_equal(p->n, 10);
    assert_int_equal(sw_pipe_drain(p, b[0]), 10);
    wait_in(b[1]);
    assert_int_equal(sw_sock_read(b[1], buf, sizeof(buf)), 10);
    assert_memory_equal(buf, "0123456789", 10);
    assert_null(sw_pipe_put(p));
    again = sw_pipe_get();
    assert_ptr_equal(again, p); /* the pool keeps it */
    sw_pipe_grow(again);
    sw_pipe_grow(again);
    assert_int_equal(sw_sock_write(a[1], "x", 1), 1);
    wait_in(a[0]);
    assert_int_equal(sw_pipe_fill(again, a[0], 10), 1);
    (void)sw_pipe_put(again); /* holds bytes: closed, not kept */
    p = sw_pipe_get();
    assert_int_equal(p->n, 0);
    sw_sock_close(a[1]);
    wait_in(a[0]);
    assert_int_equal(sw_pipe_fill(p, a[0], 10), SW_EOF);
    (void)sw_pipe_put(p);
    (void)sw_pipe_put(NULL);
    sw_pipe_pool_done();
    sw_sock_close(a[0]);
    sw_sock_close(b[0]);
    sw_sock_close(b[1]);
}

static int loopback_is_down(void *arg)
{
    struct sw_addr at = {.ip = {.family = 4, .b = {127, 0, 0, 1}}, .port = 1};
    int fd = -1;

    (void)arg;
    if (sw_sock_connect(&at, NULL, &plain, &fd, NULL) == SW_OK)
        sw_sock_close(fd);
    return fd < 0 ? SW_OK : SW_EINVAL;
}

/* In a child, because a user namespace cannot be left again. Exit status 77: not permitted. */
static int in_namespaces(void)
{
    struct stat mine;
    struct stat other;
    struct stat after;
    struct sw_sock_opts there = SW_SOCK_OPTS_INIT;
    struct sw_addr at = {.ip = {.family = 4}};
    int home;
    int ns;
    int fd;

    /* A process with threads, as ThreadSanitizer makes every one, gets no user namespace. */
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 && unshare(CLONE_NEWNET) != 0)
        return 77;
    if (sw_netns_open("/proc/self/ns/net", &home, NULL) != SW_OK)
        return 1;
    if (unshare(CLONE_NEWNET) != 0)
        return 77;
    if (sw_netns_open("/proc/self/ns/net", &ns, NULL) != SW_OK || fstat(home, &mine) != 0 ||
        fstat(ns, &other) != 0)
        return 2;
    if (mine.st_ino == other.st_ino)
        return 3;
    /* "ns" is where we are now; enter "home" and come back. */
    if (sw_netns_run(home, loopback_is_down, NULL, NULL) != SW_OK)
        return 4;
    fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (fstat(fd, &after) != 0 || after.st_ino != other.st_ino)
        return 5;
    there.netns_fd = home;
    return sw_sock_listen(&at, &there, &fd, NULL) == SW_OK ? 0 : 6;
}

static void namespaces_are_entered_and_left(void **state)
{
    struct sw_err err = {0};
    int status = 0;
    pid_t pid;
    int fd;

    (void)state;
    assert_int_equal(sw_netns_open("/nonexistent/ns", &fd, &err), SW_ENOENT);
    assert_int_equal(sw_netns_open("/dev/null", &fd, &err), SW_EINVAL);
    assert_int_equal(sw_netns_open("/proc/self/ns/uts", &fd, &err), SW_EINVAL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(in_namespaces());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Unix sockets know no reset; a peer that is gone is told from one that only ended. */
static void a_peer_that_is_gone_hung_up(void **state)
{
    int fds[2];
    char c;

    (void)state;
    assert_int_equal(sw_sock_pair(fds, NULL), SW_OK);
    assert_false(sw_sock_hung_up(fds[0]));
    sw_sock_shutdown_write(fds[1]);
    assert_int_equal(sw_sock_read(fds[0], &c, 1), SW_EOF);
    assert_false(sw_sock_hung_up(fds[0]));
    sw_sock_close(fds[1]);
    assert_int_equal(sw_sock_read(fds[0], &c, 1), SW_EOF);
    assert_true(sw_sock_hung_up(fds[0]));
    sw_sock_close(fds[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_knows_both_its_ends),
        cmocka_unit_test(reads_and_writes_speak_our_codes),
        cmocka_unit_test(a_refused_connect_is_told),
        cmocka_unit_test(a_listener_that_ends_serves_who_came_before),
        cmocka_unit_test(a_port_is_bound_once_unless_shared),
        cmocka_unit_test(running_out_of_descriptors_is_a_limit),
        cmocka_unit_test(a_unix_listener_replaces_only_what_is_dead),
        cmocka_unit_test(pipes_carry_bytes_between_sockets),
        cmocka_unit_test(namespaces_are_entered_and_left),
        cmocka_unit_test(a_peer_that_is_gone_hung_up),
    };

    return cmocka_run_group_tests_name("sock", tests, NULL, NULL);
}
