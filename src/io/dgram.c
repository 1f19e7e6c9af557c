/* SPDX-License-Identifier: Apache-2.0 */
#include "io/dgram.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/netns.h"
#include "io/port.h"
#include "io/sock.h"

/* In the namespace and with the mark of the options. */
static int new_socket_in(const struct sw_addr *a, const struct sw_sock_opts *o, int *ret_fd,
                         struct sw_err *err)
{
    const struct sw_netns_socket kind = {.family = a->ip.family == 6 ? AF_INET6 : AF_INET,
                                         .type = SOCK_DGRAM};
    int mark = (int)o->mark;
    SW_AUTO_FD fd = -1;
    int rc = sw_netns_socket(o->netns_fd, kind, &fd, err);

    if (rc != SW_OK)
        return rc;
    if (fd < 0)
        return sw_err_sys(err, errno, "cannot make a UDP socket");
    if (mark && setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) != 0)
        return sw_err_sys(err, errno, "cannot set packet mark %u", o->mark);
    *ret_fd = SW_TAKE_FD(fd);
    return SW_OK;
}

static int new_socket(const struct sw_addr *a, int *ret_fd, struct sw_err *err)
{
    const struct sw_sock_opts here = SW_SOCK_OPTS_INIT;

    return new_socket_in(a, &here, ret_fd, err);
}

static int not_bound(const struct sw_addr *at, int e, struct sw_err *err)
{
    char text[SW_ADDR_TEXT];

    return sw_err_sys(err, e, "cannot bind UDP %s", sw_addr_text(at, text));
}

static int bind_fd(int fd, const struct sw_addr *at, struct sw_err *err)
{
    struct sockaddr_storage ss;
    socklen_t len = sw_addr_to_sockaddr(at, &ss);

    return bind(fd, (const struct sockaddr *)&ss, len) == 0 ? SW_OK : not_bound(at, errno, err);
}

static void set_v6only(int fd, const struct sw_addr *at)
{
    int one = 1;

    if (at->ip.family == 6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
}

static int bind_new(const struct sw_addr *at, bool v6only, int *ret_fd, struct sw_err *err)
{
    SW_AUTO_FD fd = -1;
    int rc = new_socket(at, &fd, err);

    if (rc != SW_OK)
        return rc;
    if (v6only)
        set_v6only(fd, at);
    rc = bind_fd(fd, at, err);
    if (rc != SW_OK) {
        if (err && err->sys_errno == EADDRINUSE)
            sw_port_explain(-1, at, true, NULL, err);
        return rc;
    }
    *ret_fd = SW_TAKE_FD(fd);
    return SW_OK;
}

int sw_dgram_bind(const struct sw_addr *at, int *ret_fd, struct sw_err *err)
{
    return bind_new(at, false, ret_fd, err);
}

/*
 * Looked for before and after, as for listeners; a bound UDP socket may have got datagrams in
 * between, which are lost with it.
 */
static int bind_shared(int fd, int netns_fd, const struct sw_addr *at, const char *group,
                       int *ret_mark, struct sw_err *err)
{
    SW_AUTO_FD mark = -1;
    int rc = sw_port_share(netns_fd, group, fd, &mark, err);

    if (rc == SW_OK && sw_port_has_foreign(netns_fd, at, true, group))
        rc = not_bound(at, EADDRINUSE, err);
    if (rc == SW_OK)
        rc = bind_fd(fd, at, err);
    if (rc == SW_OK && sw_port_has_foreign(netns_fd, at, true, group))
        rc = not_bound(at, EADDRINUSE, err);
    if (rc == SW_OK)
        *ret_mark = SW_TAKE_FD(mark);
    return rc;
}

int sw_dgram_bind_shared(const struct sw_addr *at, const char *group, bool one_family, int *ret_fd,
                         int *ret_mark, struct sw_err *err)
{
    SW_AUTO_FD fd = -1;
    int rc = new_socket(at, &fd, err);

    if (rc == SW_OK && one_family)
        set_v6only(fd, at);
    if (rc == SW_OK)
        rc = bind_shared(fd, -1, at, group, ret_mark, err);
    if (rc == SW_OK)
        *ret_fd = SW_TAKE_FD(fd);
    return rc;
}

int sw_dgram_bind_in(const struct sw_addr *at, const struct sw_sock_opts *o, int *ret_fd,
                     struct sw_err *err)
{
    SW_AUTO_FD fd = -1;
    int rc = new_socket_in(at, o, &fd, err);

    if (rc != SW_OK)
        return rc;
    set_v6only(fd, at);
    if (o->share)
        rc = bind_shared(fd, o->netns_fd, at, o->share, o->ret_mark, err);
    else
        rc = bind_fd(fd, at, err);
    if (rc == SW_OK)
        *ret_fd = SW_TAKE_FD(fd);
    else if (err && err->sys_errno == EADDRINUSE)
        sw_port_explain(o->netns_fd, at, true, o->share, err);
    return rc;
}

int sw_dgram_bind_one_family(const struct sw_addr *at, int *ret_fd, struct sw_err *err)
{
    return bind_new(at, true, ret_fd, err);
}

int sw_dgram_connect_in(const struct sw_addr *to, const struct sw_sock_opts *o, int *ret_fd,
                        struct sw_err *err)
{
    struct sockaddr_storage ss;
    socklen_t len = sw_addr_to_sockaddr(to, &ss);
    int fd = -1;
    int rc = new_socket_in(to, o, &fd, err);

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

int sw_dgram_connect(const struct sw_addr *to, int *ret_fd, struct sw_err *err)
{
    const struct sw_sock_opts here = SW_SOCK_OPTS_INIT;

    return sw_dgram_connect_in(to, &here, ret_fd, err);
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
