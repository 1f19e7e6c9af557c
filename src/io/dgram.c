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

static const struct sw_sock_opts here = SW_SOCK_OPTS_INIT;

/* In the namespace and with the mark of the options. */
static int new_socket(const struct sw_addr *a, const struct sw_sock_opts *o, int *ret_fd,
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

/*
 * Looked for before and after, as for listeners; a bound UDP socket may have got datagrams in
 * between, which are lost with it.
 */
static int bind_shared(int fd, const struct sw_addr *at, const struct sw_sock_opts *o,
                       struct sw_err *err)
{
    SW_AUTO_FD mark = -1;
    int rc = sw_port_share(o->netns_fd, o->share, fd, &mark, err);

    if (rc == SW_OK && sw_port_has_foreign(o->netns_fd, at, true, o->share))
        rc = not_bound(at, EADDRINUSE, err);
    if (rc == SW_OK)
        rc = bind_fd(fd, at, err);
    if (rc == SW_OK && sw_port_has_foreign(o->netns_fd, at, true, o->share))
        rc = not_bound(at, EADDRINUSE, err);
    if (rc == SW_OK)
        *o->ret_mark = SW_TAKE_FD(mark);
    return rc;
}

int sw_dgram_bind(const struct sw_addr *at, const struct sw_sock_opts *o, int *ret_fd,
                  struct sw_err *err)
{
    SW_AUTO_FD fd = -1;
    int one = 1;
    int rc;

    o = o ? o : &here;
    rc = new_socket(at, o, &fd, err);
    if (rc != SW_OK)
        return rc;
    if (o->v6only && at->ip.family == 6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    rc = o->share ? bind_shared(fd, at, o, err) : bind_fd(fd, at, err);
    if (rc == SW_OK)
        *ret_fd = SW_TAKE_FD(fd);
    else if (err && err->sys_errno == EADDRINUSE && !o->unnamed)
        sw_port_explain(o->netns_fd, at, true, o->share, err);
    return rc;
}

int sw_dgram_connect(const struct sw_addr *to, const struct sw_sock_opts *o, int *ret_fd,
                     struct sw_err *err)
{
    struct sockaddr_storage ss;
    socklen_t len = sw_addr_to_sockaddr(to, &ss);
    SW_AUTO_FD fd = -1;
    int rc = new_socket(to, o ? o : &here, &fd, err);

    if (rc != SW_OK)
        return rc;
    if (connect(fd, (const struct sockaddr *)&ss, len) != 0)
        return sw_err_sys(err, errno, "cannot connect a UDP socket");
    *ret_fd = SW_TAKE_FD(fd);
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
