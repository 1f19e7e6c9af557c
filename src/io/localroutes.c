/* SPDX-License-Identifier: Apache-2.0 */
#include "io/localroutes.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/mem.h"

enum {
    READ_MAX = 32 * 1024,
    READS_MAX = 4096, /* of one table: kernels that do not filter send all of them */
    TRIES = 3,        /* when the table changes while it is read */
    WAIT_S = 2,
};

/* The destination of a local route; false: the message is about something else. */
static bool read_route(const struct nlmsghdr *h, struct sw_cidr *ret)
{
    const struct rtmsg *r = (const void *)((const char *)h + NLMSG_HDRLEN);
    size_t left = h->nlmsg_len - NLMSG_LENGTH(0);
    const char *at;

    if (left < sizeof(*r) || r->rtm_table != RT_TABLE_LOCAL || r->rtm_type != RTN_LOCAL ||
        (r->rtm_family != AF_INET && r->rtm_family != AF_INET6) ||
        r->rtm_dst_len > (r->rtm_family == AF_INET ? 32 : 128))
        return false;
    *ret = (struct sw_cidr){.ip.family = r->rtm_family == AF_INET ? 4 : 6, .len = r->rtm_dst_len};
    at = (const char *)r + NLMSG_ALIGN(sizeof(*r));
    left -= sw_min(left, NLMSG_ALIGN(sizeof(*r)));
    while (left >= sizeof(struct rtattr)) {
        const struct rtattr *a = (const void *)at;
        size_t step = RTA_ALIGN((size_t)a->rta_len);

        if (a->rta_len < sizeof(*a) || a->rta_len > left)
            return false;
        if (a->rta_type == RTA_DST) {
            size_t n = a->rta_len - RTA_LENGTH(0);

            if (n != sw_ip_len(&ret->ip))
                return false;
            memcpy(ret->ip.b, at + RTA_LENGTH(0), n);
            return true;
        }
        at += sw_min(step, left);
        left -= sw_min(step, left);
    }
    return r->rtm_dst_len == 0; /* a route for everything has no destination */
}

static void add(struct sw_localroutes *to, const struct sw_cidr *net)
{
    to->full |= to->n == to->max;
    if (to->n < to->max)
        to->p[to->n++] = *net;
}

void sw_localroutes_read(const void *buf, size_t n, struct sw_localroutes *to, bool *ret_last,
                         bool *ret_failed)
{
    const char *at = buf;

    while (n >= sizeof(struct nlmsghdr)) {
        const struct nlmsghdr *h = (const void *)at;
        size_t step = NLMSG_ALIGN((size_t)h->nlmsg_len);
        struct sw_cidr net;

        if (h->nlmsg_len < sizeof(*h) || h->nlmsg_len > n)
            break;
        *ret_failed |= h->nlmsg_type == NLMSG_ERROR || (h->nlmsg_flags & NLM_F_DUMP_INTR);
        *ret_last |= h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR;
        if (h->nlmsg_type == RTM_NEWROUTE && read_route(h, &net))
            add(to, &net);
        at += sw_min(step, n);
        n -= sw_min(step, n);
    }
}

/* A socket with a timeout; strict: the kernel sends the requested table and no other. */
static int open_socket(void)
{
    const struct timeval wait = {.tv_sec = WAIT_S};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    int on = 1;

    if (fd >= 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
        (void)setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
    }
    return fd;
}

/* One family; false: no answer, or one that cannot be relied on. */
static bool dump(int fd, unsigned char family, struct sw_localroutes *to)
{
    struct {
        struct nlmsghdr h;
        struct rtmsg r;
    } ask = {.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
                   .nlmsg_type = RTM_GETROUTE,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
             .r = {.rtm_family = family, .rtm_table = RT_TABLE_LOCAL, .rtm_type = RTN_LOCAL}};
    __attribute__((uninitialized)) _Alignas(struct nlmsghdr) char buf[READ_MAX];
    bool last = false;
    bool failed = false;

    if (send(fd, &ask, ask.h.nlmsg_len, 0) != (ssize_t)ask.h.nlmsg_len)
        return false;
    for (int i = 0; i < READS_MAX && !last; i++) {
        ssize_t got = recv(fd, buf, sizeof(buf), 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        sw_localroutes_read(buf, (size_t)got, to, &last, &failed);
    }
    return last && !failed;
}

bool sw_localroutes_get(struct sw_localroutes *to)
{
    size_t before = to->n;

    for (int i = 0; i < TRIES; i++) {
        SW_AUTO_FD fd = open_socket(); /* a new one: what is left of a dump is not read */

        to->n = before;
        to->full = false;
        if (fd < 0)
            return false;
        if (dump(fd, AF_INET, to) && dump(fd, AF_INET6, to))
            return true;
    }
    return false;
}
