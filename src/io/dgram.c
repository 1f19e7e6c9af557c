/* SPDX-License-Identifier: Apache-2.0 */
#include "io/dgram.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static int new_socket(const struct sw_addr *a, int *ret_fd, struct sw_err *err)
{
    int fd = socket(a->ip.family == 6 ? AF_INET6 : AF_INET,
                    SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return sw_err_sys(err, errno, "cannot make a UDP socket");
    *ret_fd = fd;
    return SW_OK;
}

static int bind_new(const struct sw_addr *at, bool reuse_port, bool v6only, int *ret_fd,
                    struct sw_err *err)
{
    struct sockaddr_storage ss;
    socklen_t len = sw_addr_to_sockaddr(at, &ss);
    int one = 1;
    int fd = -1;
    int rc = new_socket(at, &fd, err);

    if (rc != SW_OK)
        return rc;
    if (reuse_port)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
    if (v6only && at->ip.family == 6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    if (bind(fd, (const struct sockaddr *)&ss, len) != 0) {
        char text[SW_ADDR_TEXT];

        rc = sw_err_sys(err, errno, "cannot bind UDP %s", sw_addr_text(at, text));
        (void)close(fd);
        return rc;
    }
    *ret_fd = fd;
    return SW_OK;
}

int sw_dgram_bind(const struct sw_addr *at, bool reuse_port, int *ret_fd, struct sw_err *err)
{
    return bind_new(at, reuse_port, false, ret_fd, err);
}

int sw_dgram_bind_one_family(const struct sw_addr *at, int *ret_fd, struct sw_err *err)
{
    return bind_new(at, false, true, ret_fd, err);
}

int sw_dgram_connect(const struct sw_addr *to, int *ret_fd, struct sw_err *err)
{
    struct sockaddr_storage ss;
    socklen_t len = sw_addr_to_sockaddr(to, &ss);
    int fd = -1;
    int rc = new_socket(to, &fd, err);

    if (rc != SW_OK)
        return rc;
    if (connect(fd, (const struct sockaddr *)&ss, len) != 0) {
        rc = sw_err_sys(err, errno, "cannot connect a UDP socket");
        (void)close(fd);
        return rc;
    }
    *ret_fd = fd;
    return SW_OK;
}

static int explain(int e)
{
    if (e == EAGAIN || e == ENOBUFS || e == EINTR)
        return SW_EAGAIN;
    return e == ECONNREFUSED || e == EHOSTUNREACH || e == ENETUNREACH ? SW_ECLOSED : SW_ESYS;
}

ssize_t sw_dgram_recv(int fd, void *buf, size_t cap, struct sw_addr *ret_from)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof(ss);
    ssize_t n = recvfrom(fd, buf, cap, 0, (struct sockaddr *)&ss, &len);

    if (n < 0)
        return explain(errno);
    if (ret_from)
        *ret_from = sw_addr_from_sockaddr(&ss);
    return n;
}

int sw_dgram_send(int fd, const void *p, size_t n, const struct sw_addr *to)
{
    struct sockaddr_storage ss;
    socklen_t len = to ? sw_addr_to_sockaddr(to, &ss) : 0;
    ssize_t k = sendto(fd, p, n, MSG_NOSIGNAL, to ? (const struct sockaddr *)&ss : NULL, len);

    return k < 0 ? explain(errno) : SW_OK;
}
