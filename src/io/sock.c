/* SPDX-License-Identifier: Apache-2.0 */
#include "io/sock.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rand.h"
#include "io/egress.h"
#include "io/netns.h"
#include "io/port.h"

enum {
    DEFAULT_BACKLOG = 1024,
    LOW_PORT_FIRST = 10240,
    LOW_PORT_LAST = 32767, /* Linux hands out 32768 and up by itself */
    LOW_PORT_TRIES = 8,
    ORIGINAL_DST = 80, /* SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST; their headers clash with ours */
};

static int set_int(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof(value));
}

void sw_sock_tune(int fd, const struct sw_sock_opts *o)
{
    (void)set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (o->keepalive) {
        (void)set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
        (void)set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, (int)o->keepalive_time_s);
        (void)set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, (int)o->keepalive_interval_s);
        (void)set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, (int)o->keepalive_retries);
    }
    if (o->user_timeout_ms)
        (void)set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)o->user_timeout_ms);
}

/* A TCP socket in the namespace the options name, with mark and transparency set. */
static int new_socket(int family, const struct sw_sock_opts *o, int *ret_fd, struct sw_err *err)
{
    const struct sw_netns_socket kind = {.family = family, .type = SOCK_STREAM};
    int v6 = family == AF_INET6;
    SW_AUTO_FD fd = -1;
    int rc = sw_netns_socket(o->netns_fd, kind, &fd, err);

    if (rc != SW_OK)
        return rc;
    if (fd < 0) {
        int full = errno == EMFILE || errno == ENFILE;

        (void)sw_err_sys(err, errno, "cannot make a socket");
        return full ? SW_ELIMIT : SW_ESYS;
    }
    if (o->mark && set_int(fd, SOL_SOCKET, SO_MARK, (int)o->mark) != 0)
        return sw_err_sys(err, errno, "cannot set packet mark %u", o->mark);
    if (o->transparent)
        (void)set_int(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_TRANSPARENT : IP_TRANSPARENT,
                      1);
    if (o->transparent || o->freebind)
        (void)set_int(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_FREEBIND : IP_FREEBIND, 1);
    *ret_fd = SW_TAKE_FD(fd);
    return SW_OK;
}

/* The error of a bind or listen that failed with e. */
static int not_bound(const struct sw_addr *at, const struct sw_sock_opts *o, int e,
                     struct sw_err *err)
{
    char text[SW_ADDR_TEXT];
    int rc = sw_err_sys(err, e, "cannot bind %s", sw_addr_text(at, text));

    if (e == EADDRINUSE && !o->unnamed)
        sw_port_explain(o->netns_fd, at, false, o->share, err);
    return rc;
}

static int bind_and_listen(int fd, const struct sw_addr *at, const struct sw_sock_opts *o,
                           struct sw_err *err)
{
    struct sockaddr_storage ss;
    socklen_t len = sw_addr_to_sockaddr(at, &ss);

    /* Before and after: of two that start at once, at least one sees the other. */
    if (o->share && sw_port_has_foreign(o->netns_fd, at, false, o->share))
        return not_bound(at, o, EADDRINUSE, err);
    if (bind(fd, (struct sockaddr *)&ss, len) != 0 ||
        listen(fd, o->backlog ? o->backlog : DEFAULT_BACKLOG) != 0)
        return not_bound(at, o, errno, err);
    if (o->share && sw_port_has_foreign(o->netns_fd, at, false, o->share))
        return not_bound(at, o, EADDRINUSE, err);
    return SW_OK;
}

int sw_sock_listen(const struct sw_addr *at, const struct sw_sock_opts *o, int *ret_fd,
                   struct sw_err *err)
{
    SW_AUTO_FD fd = -1;
    SW_AUTO_FD mark = -1;
    int rc = new_socket(at->ip.family == 6 ? AF_INET6 : AF_INET, o, &fd, err);

    if (rc != SW_OK)
        return rc;
    sw_sock_tune(fd, o); /* what is accepted here inherits it */
    (void)set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (at->ip.family == 6)
        (void)set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, !sw_ip_is_any(&at->ip));
    if (o->share) {
        rc = sw_port_share(o->netns_fd, o->share, fd, &mark, err);
        if (rc != SW_OK)
            return rc;
    }
    rc = bind_and_listen(fd, at, o, err);
    if (rc != SW_OK)
        return rc;
    if (o->share)
        *o->ret_mark = SW_TAKE_FD(mark);
    *ret_fd = SW_TAKE_FD(fd);
    return SW_OK;
}

/* A socket file without a listener is a leftover of a process that died. */
static bool unix_stale(int type, const struct sockaddr_un *sun)
{
    SW_AUTO_FD fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st;

    /* Connecting to an ordinary file is refused as well: look what it is. */
    return fd >= 0 && lstat(sun->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
           connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) != 0 && errno == ECONNREFUSED;
}

/* A Unix socket, not bound or connected yet, and the address that path is. */
static int new_unix(int type, const char *path, struct sockaddr_un *ret_sun, int *ret_fd,
                    struct sw_err *err)
{
    *ret_sun = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(ret_sun->sun_path))
        return sw_err_set(err, SW_EINVAL, "socket path '%s' is too long", path);
    (void)snprintf(ret_sun->sun_path, sizeof(ret_sun->sun_path), "%s", path);
    *ret_fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return *ret_fd >= 0 ? SW_OK : sw_err_sys(err, errno, "cannot make a socket");
}

int sw_sock_listen_unix(int type, const char *path, unsigned mode, int *ret_fd, struct sw_err *err)
{
    struct sockaddr_un sun;
    SW_AUTO_FD fd = -1;
    mode_t old;
    int saved;
    int rc = new_unix(type, path, &sun, &fd, err);

    if (rc != SW_OK)
        return rc;
    old = umask((mode_t)(~mode & 0777));
    rc = bind(fd, (struct sockaddr *)&sun, sizeof(sun));
    saved = errno;
    if (rc != 0 && saved == EADDRINUSE && unix_stale(type, &sun) && unlink(path) == 0) {
        rc = bind(fd, (struct sockaddr *)&sun, sizeof(sun));
        saved = errno;
    }
    (void)umask(old);
    if (rc != 0)
        return sw_err_sys(err, saved, "cannot bind '%s'", path);
    if (listen(fd, DEFAULT_BACKLOG) != 0)
        return sw_err_sys(err, errno, "cannot listen on '%s'", path);
    *ret_fd = SW_TAKE_FD(fd);
    return SW_OK;
}

int sw_sock_connect_unix(int type, const char *path, int *ret_fd, struct sw_err *err)
{
    struct sockaddr_un sun;
    SW_AUTO_FD fd = -1;
    int rc = new_unix(type, path, &sun, &fd, err);

    if (rc != SW_OK)
        return rc;
    if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) != 0)
        return sw_err_sys(err, errno, "cannot connect to '%s'", path);
    *ret_fd = SW_TAKE_FD(fd);
    return SW_OK;
}

static bool bind_to(int fd, const struct sw_addr *at)
{
    struct sockaddr_storage ss;
    socklen_t len = sw_addr_to_sockaddr(at, &ss);

    return bind(fd, (struct sockaddr *)&ss, len) == 0;
}

/* Best effort: failing loses the spoofed source only. */
static void bind_source(int fd, const struct sw_ip *src, bool low_port)
{
    struct sw_addr from = {.ip = *src};

    for (int i = 0; low_port && i < LOW_PORT_TRIES; i++) {
        from.port = (uint16_t)(LOW_PORT_FIRST + sw_rand_below(LOW_PORT_LAST - LOW_PORT_FIRST + 1));
        if (bind_to(fd, &from)) {
            /* A server of the pod may start on this port later. Only now, or two of these could
             * share one and fail to connect. */
            (void)set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
            return;
        }
    }
    from.port = 0;
    (void)set_int(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    (void)!bind_to(fd, &from);
}

int sw_sock_connect(const struct sw_addr *to, const struct sw_ip *src, const struct sw_sock_opts *o,
                    int *ret_fd, struct sw_err *err)
{
    struct sockaddr_storage ss;
    socklen_t len = sw_addr_to_sockaddr(to, &ss);
    char text[SW_ADDR_TEXT];
    SW_AUTO_FD fd = -1;
    int rc;

    if (len == 0)
        return sw_err_set(err, SW_EINVAL, "no address to connect to");
    rc = sw_egress_check(o->egress, to, err);
    if (rc != SW_OK)
        return rc;
    rc = new_socket(ss.ss_family, o, &fd, err);
    if (rc != SW_OK)
        return rc;
    sw_sock_tune(fd, o);
    if (src && src->family == to->ip.family) {
        bind_source(fd, src, o->low_port);
    }
    if (connect(fd, (struct sockaddr *)&ss, len) != 0 && errno != EINPROGRESS)
        return sw_err_sys(err, errno, "cannot connect to %s", sw_addr_text(to, text));
    *ret_fd = SW_TAKE_FD(fd);
    return SW_OK;
}

bool sw_sock_is_connected(int fd)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof(ss);

    return getpeername(fd, (struct sockaddr *)&ss, &len) == 0;
}

int sw_sock_connect_result(int fd, struct sw_err *err)
{
    int code = 0;
    socklen_t code_len = sizeof(code);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &code_len) != 0)
        code = errno;
    if (code != 0)
        return sw_err_sys(err, code, "connect failed");
    return sw_sock_is_connected(fd) ? SW_OK : SW_EAGAIN;
}

int sw_sock_accept(int listener, int *ret_fd, struct sw_addr *ret_peer, struct sw_err *err)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof(ss);
    int fd;

    for (;;) {
        fd = accept4(listener, (struct sockaddr *)&ss, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            break;
        switch (errno) {
        case EAGAIN:
            return SW_EAGAIN;
        case EINTR:
        case ECONNABORTED:
        case EPROTO:
            continue; /* this one is gone, the next may be fine */
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
        case ENOMEM:
            (void)sw_err_sys(err, errno, "cannot accept");
            return SW_ELIMIT;
        default:
            return sw_err_sys(err, errno, "cannot accept");
        }
    }
    *ret_fd = fd;
    if (ret_peer)
        *ret_peer = sw_addr_from_sockaddr(&ss);
    return SW_OK;
}

struct sw_addr sw_sock_local(int fd)
{
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof(ss);

    (void)!getsockname(fd, (struct sockaddr *)&ss, &len);
    return sw_addr_from_sockaddr(&ss);
}

struct sw_addr sw_sock_peer(int fd)
{
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof(ss);

    (void)!getpeername(fd, (struct sockaddr *)&ss, &len);
    return sw_addr_from_sockaddr(&ss);
}

struct sw_addr sw_sock_original_dst(int fd)
{
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof(ss);

    if (getsockopt(fd, IPPROTO_IP, ORIGINAL_DST, &ss, &len) == 0)
        return sw_addr_from_sockaddr(&ss);
    len = sizeof(ss);
    if (getsockopt(fd, IPPROTO_IPV6, ORIGINAL_DST, &ss, &len) == 0)
        return sw_addr_from_sockaddr(&ss);
    return sw_sock_local(fd);
}

int sw_sock_rc(int sys_errno)
{
    switch (sys_errno) {
    case EAGAIN:
        return SW_EAGAIN;
    case ECONNRESET:
    case EPIPE:
    case ENOTCONN:
    case ETIMEDOUT:
    case ECONNABORTED:
        return SW_ECLOSED;
    default:
        return SW_ESYS;
    }
}

/* The result of a read or write call in our terms. */
static ssize_t moved(ssize_t n)
{
    return n >= 0 ? n : sw_sock_rc(errno);
}

#define RETRY(call)                                                                                \
    __extension__({                                                                                \
        ssize_t r_;                                                                                \
        do {                                                                                       \
            r_ = (call);                                                                           \
        } while (r_ < 0 && errno == EINTR);                                                        \
        r_;                                                                                        \
    })

/*
 * In a process with threads the C library makes a cancellation point of each call, for two atomic
 * operations. No thread is cancelled here. Sanitizers want to see the calls.
 */
#ifdef SW_SANITIZED
#define RECV(fd, buf, n)        recv((fd), (buf), (n), 0)
#define SEND(fd, buf, n, flags) send((fd), (buf), (n), (flags))
#else
#define RECV(fd, buf, n)        syscall(SYS_recvfrom, (fd), (buf), (n), 0, NULL, NULL)
#define SEND(fd, buf, n, flags) syscall(SYS_sendto, (fd), (buf), (n), (flags), NULL, 0)
#endif

ssize_t sw_sock_read(int fd, void *buf, size_t n)
{
    ssize_t k = RETRY(RECV(fd, buf, n));

    return k == 0 && n ? SW_EOF : moved(k);
}

ssize_t sw_sock_readv(int fd, const struct iovec *iov, int count)
{
    ssize_t k = RETRY(readv(fd, iov, count));

    return k == 0 ? SW_EOF : moved(k);
}

ssize_t sw_sock_peek(int fd, void *buf, size_t n)
{
    ssize_t k = RETRY(recv(fd, buf, n, MSG_PEEK));

    return k == 0 && n ? SW_EOF : moved(k);
}

int sw_sock_discard(int fd, size_t n)
{
    return RETRY(recv(fd, NULL, n, MSG_TRUNC)) == (ssize_t)n ? SW_OK : SW_ECLOSED;
}

ssize_t sw_sock_write(int fd, const void *buf, size_t n)
{
    return moved(RETRY(SEND(fd, buf, n, MSG_NOSIGNAL)));
}

ssize_t sw_sock_writev(int fd, const struct iovec *iov, int count)
{
    struct msghdr m = {.msg_iovlen = (size_t)count};

    memcpy(&m.msg_iov, &iov, sizeof(iov)); /* sendmsg does not write through it */
    return moved(RETRY(sendmsg(fd, &m, MSG_NOSIGNAL)));
}

int sw_sock_write_buf(int fd, struct sw_buf *b)
{
    while (sw_buf_len(b)) {
        ssize_t n = sw_sock_write(fd, sw_buf_data(b), sw_buf_len(b));

        if (n < 0)
            return (int)n;
        sw_buf_consume(b, (size_t)n);
    }
    return SW_OK;
}

void sw_sock_shutdown_write(int fd)
{
    (void)shutdown(fd, SHUT_WR);
}

bool sw_sock_hung_up(int fd)
{
    struct pollfd p = {.fd = fd};

    return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR));
}

void sw_sock_stop_listening(int fd)
{
    enum { FLAGS_AT = 13, SYN = 2 }; /* in the header of a segment */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS_AT),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    struct sock_fprog filter = {.len = SW_ARRAY_LEN(code), .filter = code};
    int protocol = 0;
    socklen_t n = sizeof(protocol);

    if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &n) == 0 && protocol == IPPROTO_TCP)
        (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter));
}

void sw_sock_set_reset(int fd)
{
    struct linger l = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
}

void sw_sock_close(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

bool sw_sock_may_be_transparent(void)
{
    SW_AUTO_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return fd >= 0 && set_int(fd, IPPROTO_IP, IP_TRANSPARENT, 1) == 0;
}

int sw_sock_pair(int ret[2], struct sw_err *err)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret) != 0)
        return sw_err_sys(err, errno, "cannot make a socket pair");
    return SW_OK;
}

uint64_t sw_sock_raise_fd_limit(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) != 0)
        return 0;
    r.rlim_cur = r.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &r);
    return r.rlim_cur;
}
