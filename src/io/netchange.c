/* SPDX-License-Identifier: Apache-2.0 */
#include "io/netchange.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

enum {
    READ_MAX = 16 * 1024,
    BATCH = 64, /* messages of one wake-up; more are as good as lost ones */
};

struct sw_netchange {
    struct sw_watch watch;
    int fd;
    void (*changed)(void *arg, bool route);
    void *arg;
};

/* The route in a message; NULL: it is cut off. */
static const struct rtmsg *route_of(const struct nlmsghdr *h)
{
    const struct rtmsg *r = (const void *)((const char *)h + NLMSG_HDRLEN);

    return h->nlmsg_len >= NLMSG_LENGTH(sizeof(*r)) ? r : NULL;
}

static bool default_route(const struct rtmsg *r)
{
    return r->rtm_dst_len == 0 && r->rtm_table == RT_TABLE_MAIN && !(r->rtm_flags & RTM_F_CLONED);
}

/* As good as an address: what is sent there is delivered here. */
static bool local_route(const struct rtmsg *r)
{
    return r->rtm_table == RT_TABLE_LOCAL && r->rtm_type == RTN_LOCAL;
}

bool sw_netchange_read(const void *buf, size_t n, bool *ret_route)
{
    const struct nlmsghdr *h = buf;
    size_t left = n;
    bool any = false;

    while (left >= sizeof(*h) && h->nlmsg_len >= sizeof(*h) && h->nlmsg_len <= left) {
        size_t step = NLMSG_ALIGN(h->nlmsg_len);
        const struct rtmsg *r;

        switch (h->nlmsg_type) {
        case RTM_NEWADDR:
        case RTM_DELADDR:
        case RTM_NEWLINK:
        case RTM_DELLINK:
            any = true;
            break;
        case RTM_NEWROUTE:
        case RTM_DELROUTE:
            r = route_of(h);
            if (r && default_route(r))
                *ret_route = true;
            any |= r && (default_route(r) || local_route(r));
            break;
        default:
            break;
        }
        if (step >= left)
            break;
        left -= step;
        h = (const struct nlmsghdr *)((const char *)h + step);
    }
    return any;
}

static void on_readable(struct sw_watch *w, unsigned events)
{
    struct sw_netchange *n = SW_CONTAINER_OF(w, struct sw_netchange, watch);
    __attribute__((uninitialized)) _Alignas(struct nlmsghdr) char buf[READ_MAX];
    bool any = false;
    bool route = false;

    for (int i = 0;; i++) {
        ssize_t got = recv(n->fd, buf, sizeof(buf), MSG_DONTWAIT);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == ENOBUFS) {
            any = true; /* messages were lost: anything may have happened */
            route = true;
            continue;
        }
        if (got <= 0)
            break;
        if (i < BATCH)
            any = sw_netchange_read(buf, (size_t)got, &route) || any;
        else
            any = true;
    }
    if (any)
        n->changed(n->arg, route);
}

struct sw_netchange *sw_netchange_new(struct sw_loop *l, void (*changed)(void *arg, bool route),
                                      void *arg, struct sw_err *err)
{
    struct sockaddr_nl at = {.nl_family = AF_NETLINK,
                             .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
                                          RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE};
    struct sw_netchange *n = SW_NEW(struct sw_netchange);

    n->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    n->changed = changed;
    n->arg = arg;
    if (n->fd < 0 || bind(n->fd, (const struct sockaddr *)&at, sizeof(at)) != 0)
        (void)sw_err_sys(err, errno, "netlink");
    else if (sw_watch_start(l, &n->watch, n->fd, on_readable, err) == SW_OK)
        return n;
    sw_netchange_free(n);
    return NULL;
}

void sw_netchange_free(struct sw_netchange *n)
{
    if (!n)
        return;
    sw_watch_stop(&n->watch);
    if (n->fd >= 0)
        (void)close(n->fd);
    sw_free(n);
}
