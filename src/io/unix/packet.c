/* SPDX-License-Identifier: Apache-2.0 */
#include "io/unix/packet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/sock.h"

/* Room for as many descriptors as a packet may carry here. */
union control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int) * SW_PACKET_FDS_MAX)];
};

static void take_fds(struct msghdr *m, struct sw_packet *ret)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        size_t n;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (ret->n_fds++ == 0) {
                ret->fd = fd;
            } else {
                sw_sock_close(fd);
                sw_sock_close(SW_TAKE_FD(ret->fd));
            }
        }
    }
}

int sw_packet_recv(int sock, void *buf, size_t cap, struct sw_packet *ret)
{
    union control control;
    struct iovec iov = {.iov_base = buf, .iov_len = cap};
    struct msghdr m = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };
    ssize_t n;

    do {
        n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return sw_sock_rc(errno);
    *ret = (struct sw_packet){.n = (size_t)n, .fd = -1};
    take_fds(&m, ret);
    ret->cut = (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    /* An empty packet looks like the end of the connection; no peer here sends one. */
    return n == 0 && ret->n_fds == 0 ? SW_EOF : SW_OK;
}

int sw_packet_send(int sock, const void *p, size_t n, int fd)
{
    union control control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)p, .iov_len = n};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t sent;

    if (fd >= 0) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(sizeof(int));
        control.head = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    }
    do {
        sent = sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? sw_sock_rc(errno) : SW_OK;
}
