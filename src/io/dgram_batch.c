/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of datagrams: recvmmsg with GRO, sendmsg with GSO, addresses and ECN beside the bytes. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>

#include "io/dgram.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* Room for every control message we enable or send. */
union control {
    struct cmsghdr align;
    uint8_t space[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(int)) +
                  CMSG_SPACE(sizeof(int))];
};

static void set_int(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

void sw_dgram_tune(int fd, const struct sw_addr *bound, size_t buffer_bytes)
{
    if (bound->ip.family == 6) {
        set_int(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
        set_int(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
        set_int(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
    } else {
        set_int(fd, IPPROTO_IP, IP_PKTINFO, 1);
        set_int(fd, IPPROTO_IP, IP_RECVTOS, 1);
        set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
    }
    set_int(fd, IPPROTO_UDP, UDP_GRO, 1);
    /* The forced forms pass the system's limit where we are allowed to. */
    set_int(fd, SOL_SOCKET, SO_RCVBUF, (int)buffer_bytes);
    set_int(fd, SOL_SOCKET, SO_SNDBUF, (int)buffer_bytes);
    set_int(fd, SOL_SOCKET, SO_RCVBUFFORCE, (int)buffer_bytes);
    set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, (int)buffer_bytes);
}

static void read_control(struct msghdr *h, struct sw_dgram_in *in)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
        const void *d = CMSG_DATA(c);
        int value = 0;

        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo info;

            memcpy(&info, d, sizeof(info));
            (void)!sw_ip_from_bytes(&info.ipi_addr, 4, &in->to, NULL);
        } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo info;

            memcpy(&info, d, sizeof(info));
            (void)!sw_ip_from_bytes(&info.ipi6_addr, 16, &in->to, NULL);
        } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
            in->ecn = *(const uint8_t *)d & 3;
        } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
            memcpy(&value, d, sizeof(value));
            in->ecn = (uint8_t)(value & 3);
        } else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
            memcpy(&value, d, sizeof(value));
            if (value > 0 && (size_t)value < in->n)
                in->segment = (size_t)value;
        }
    }
}

int sw_dgram_recv_batch(int fd, struct sw_dgram_in *v, size_t n)
{
    struct mmsghdr m[SW_DGRAM_BATCH];
    struct iovec iov[SW_DGRAM_BATCH];
    struct sockaddr_storage from[SW_DGRAM_BATCH];
    union control control[SW_DGRAM_BATCH];
    int got;

    n = sw_min(n, SW_DGRAM_BATCH);
    memset(m, 0, sizeof(m));
    for (size_t i = 0; i < n; i++) {
        iov[i] = (struct iovec){.iov_base = v[i].buf, .iov_len = SW_DGRAM_MAX};
        m[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
                                       .msg_namelen = sizeof(from[i]),
                                       .msg_iov = &iov[i],
                                       .msg_iovlen = 1,
                                       .msg_control = control[i].space,
                                       .msg_controllen = sizeof(control[i].space)};
    }
    do
        got = recvmmsg(fd, m, (unsigned)n, MSG_DONTWAIT, NULL);
    while (got < 0 && errno == EINTR);
    /* An ICMP error of an earlier datagram: reported once, and no reason to stop reading. */
    if (got < 0)
        return errno == EAGAIN ? SW_EAGAIN : errno == ECONNREFUSED ? 0 : SW_ESYS;
    for (int i = 0; i < got; i++) {
        v[i].n = m[i].msg_len;
        v[i].segment = m[i].msg_len;
        v[i].from = sw_addr_from_sockaddr(&from[i]);
        v[i].to = (struct sw_ip){0};
        v[i].ecn = 0;
        read_control(&m[i].msg_hdr, &v[i]);
    }
    return got;
}

static void add_control(struct msghdr *h, int level, int type, const void *p, size_t n)
{
    struct cmsghdr *c = (struct cmsghdr *)(void *)((uint8_t *)h->msg_control + h->msg_controllen);

    c->cmsg_level = level;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(n);
    memcpy(CMSG_DATA(c), p, n);
    h->msg_controllen += CMSG_SPACE(n);
}

static void write_control(struct msghdr *h, const struct sw_dgram_out *o)
{
    bool v6 = o->to.ip.family == 6;
    int ecn = o->ecn;

    if (o->segment < o->n) {
        uint16_t segment = (uint16_t)o->segment;

        add_control(h, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
    }
    if (ecn)
        add_control(h, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_TCLASS : IP_TOS, &ecn,
                    sizeof(ecn));
    if (o->from.family != o->to.ip.family)
        return;
    if (v6) {
        struct in6_pktinfo info = {0};

        memcpy(&info.ipi6_addr, o->from.b, 16);
        add_control(h, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
    } else {
        struct in_pktinfo info = {0};

        memcpy(&info.ipi_spec_dst, o->from.b, 4);
        add_control(h, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
    }
}

int sw_dgram_send_batch(int fd, const struct sw_dgram_out *o)
{
    struct sockaddr_storage to;
    union {
        const uint8_t *in;
        void *out;
    } p = {.in = o->p}; /* iovec does not know const */
    struct iovec iov = {.iov_base = p.out, .iov_len = o->n};
    union control control;
    struct msghdr h = {.msg_name = &to,
                       .msg_namelen = sw_addr_to_sockaddr(&o->to, &to),
                       .msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.space};
    ssize_t k;

    memset(&control, 0, sizeof(control));
    write_control(&h, o);
    if (h.msg_controllen == 0)
        h.msg_control = NULL;
    do
        k = sendmsg(fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (k < 0 && errno == EINTR);
    if (k >= 0)
        return SW_OK;
    if (errno == EAGAIN || errno == ENOBUFS)
        return SW_EAGAIN;
    if (errno == EMSGSIZE)
        return SW_ELIMIT;
    /* Our address is gone: let the kernel choose another. */
    if (o->from.family && (errno == EINVAL || errno == EADDRNOTAVAIL)) {
        struct sw_dgram_out again = *o;

        again.from = (struct sw_ip){0};
        return sw_dgram_send_batch(fd, &again);
    }
    /* EIO: no checksum offload where GSO needs it. */
    if (o->segment < o->n && (errno == EIO || errno == EINVAL))
        return SW_EINVAL;
    return SW_OK;
}
