/* SPDX-License-Identifier: Apache-2.0 */
#include "quic/id/addrs.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/netchange.h"

#define CLOCK_NS  SW_NS_PER_S         /* between looks at the clocks */
#define POLL_NS   (2 * SW_NS_PER_S)   /* between looks at the addresses, without netlink */
#define SETTLE_NS (50 * SW_NS_PER_MS) /* a change comes as several messages */
#define GAP_NS                                                                                     \
    (500 * SW_NS_PER_MS) /* between two reactions: a flapping link is no reason to run             \
                          */
#define JUMP_NS (2 * SW_NS_PER_S)

enum { LOCAL_MAX = 128 };

struct sw_addr_watch {
    struct sw_loop *loop;
    void (*changed)(void *arg, bool slept);
    void *arg;
    uint64_t (*boot)(void);
    struct sw_netchange *net; /* NULL: the kernel does not report it */
    struct sw_timer clock;
    struct sw_timer settle;
    bool route; /* a default route changed since the last look */
    struct sw_ip last[LOCAL_MAX];
    size_t n_last;
    uint64_t told_ns; /* the last reaction */
    struct sw_sleep sleep;
};

enum sw_addr_reach sw_addr_reach(const struct sw_ip *ip)
{
    const uint8_t *b = ip->b;

    if (sw_ip_is_loopback(ip))
        return SW_REACH_HOST;
    if (!ip->family || sw_ip_is_any(ip))
        return SW_REACH_NONE;
    if (ip->family == 4) {
        if (b[0] == 0 || b[0] >= 224 || (b[0] == 169 && b[1] == 254))
            return SW_REACH_NONE;
        if (b[0] == 10 || (b[0] == 172 && (b[1] & 0xf0) == 16) || (b[0] == 192 && b[1] == 168) ||
            (b[0] == 100 && (b[1] & 0xc0) == 64))
            return SW_REACH_PRIVATE;
        return SW_REACH_PUBLIC;
    }
    if (b[0] == 0xff || (b[0] == 0xfe && (b[1] & 0xc0) == 0x80))
        return SW_REACH_NONE;
    return (b[0] & 0xfe) == 0xfc ? SW_REACH_PRIVATE : SW_REACH_PUBLIC;
}

bool sw_addr_among(const struct sw_addr *list, size_t n, const struct sw_addr *a)
{
    for (size_t i = 0; i < n; i++)
        if (sw_addr_eq(&list[i], a))
            return true;
    return false;
}

static int addr_order(const struct sw_addr *a, const struct sw_addr *b)
{
    int d = (int)a->ip.family - (int)b->ip.family;

    if (d == 0)
        d = memcmp(a->ip.b, b->ip.b, sizeof(a->ip.b));
    return d ? d : (int)a->port - (int)b->port;
}

/* Insertion: they are few. */
size_t sw_addr_sort(const struct sw_addr *from, size_t n, struct sw_addr ret[SW_QUIC_ADDRS_MAX])
{
    size_t k = 0;

    for (size_t i = 0; i < n && k < SW_QUIC_ADDRS_MAX; i++) {
        size_t at = k;

        if (sw_ip_len(&from[i].ip) == 0 || sw_addr_among(ret, k, &from[i]))
            continue;
        for (; at > 0 && addr_order(&ret[at - 1], &from[i]) > 0; at--)
            ret[at] = ret[at - 1];
        ret[at] = from[i];
        k++;
    }
    return k;
}

static void push(struct sw_addr_list *l, struct sw_addr a)
{
    if (l->n < SW_QUIC_ADDRS_MAX && a.port && !sw_addr_among(l->a, l->n, &a))
        l->a[l->n++] = a;
}

/* The local addresses a wildcard socket answers on, of one reach. */
static void push_local(struct sw_addr_list *l, const struct sw_addr_sources *s,
                       enum sw_addr_reach reach)
{
    for (size_t i = 0; i < s->n_local; i++) {
        if (sw_addr_reach(&s->local[i]) != reach)
            continue;
        for (size_t k = 0; k < s->n_bound; k++) {
            if (sw_ip_is_any(&s->bound[k].ip) && s->bound[k].ip.family == s->local[i].family)
                push(l, (struct sw_addr){s->local[i], s->bound[k].port});
        }
    }
}

void sw_addr_list_build(const struct sw_addr_sources *s, struct sw_addr_list *ret)
{
    *ret = (struct sw_addr_list){0};
    for (size_t i = 0; i < s->n_given; i++) {
        struct sw_addr a = s->given[i];

        for (size_t k = 0; k < s->n_bound && a.port == 0; k++) {
            if (s->bound[k].ip.family == a.ip.family)
                a.port = s->bound[k].port;
        }
        push(ret, a);
    }
    for (size_t k = 0; k < s->n_bound; k++) {
        if (!sw_ip_is_any(&s->bound[k].ip))
            push(ret, s->bound[k]);
    }
    push_local(ret, s, SW_REACH_PUBLIC);
    push_local(ret, s, SW_REACH_PRIVATE);
    if (ret->n == 0)
        push_local(ret, s, SW_REACH_HOST);
}

bool sw_addr_list_equal(const struct sw_addr_list *x, const struct sw_addr_list *y)
{
    if (x->n != y->n)
        return false;
    for (size_t i = 0; i < x->n; i++) {
        if (!sw_addr_eq(&x->a[i], &y->a[i]))
            return false;
    }
    return true;
}

size_t sw_addrs_local(struct sw_ip *out, size_t max)
{
    struct ifaddrs *all = NULL;
    size_t n = 0;

    if (getifaddrs(&all) != 0)
        return 0;
    for (const struct ifaddrs *i = all; i && n < max; i = i->ifa_next) {
        struct sw_addr a = sw_addr_from_ifaddr(i->ifa_addr);

        if (a.ip.family && (i->ifa_flags & IFF_UP) && sw_addr_reach(&a.ip) != SW_REACH_NONE)
            out[n++] = a.ip;
    }
    freeifaddrs(all);
    return n;
}

static bool has(const struct sw_ip *ips, size_t n, const struct sw_ip *ip)
{
    for (size_t i = 0; i < n; i++) {
        if (sw_ip_eq(&ips[i], ip))
            return true;
    }
    return false;
}

static bool same_set(const struct sw_ip *x, size_t nx, const struct sw_ip *y, size_t ny)
{
    for (size_t i = 0; i < nx; i++) {
        if (!has(y, ny, &x[i]))
            return false;
    }
    for (size_t i = 0; i < ny; i++) {
        if (!has(x, nx, &y[i]))
            return false;
    }
    return true;
}

bool sw_sleep_look(struct sw_sleep *s, uint64_t boot_ns, uint64_t mono_ns)
{
    uint64_t boot = boot_ns - s->boot_ns;
    uint64_t mono = mono_ns - s->mono_ns;

    *s = (struct sw_sleep){boot_ns, mono_ns};
    return boot > mono && boot - mono > JUMP_NS;
}

static uint64_t boot_clock(void)
{
    struct timespec t = {0};

    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * SW_NS_PER_S + (uint64_t)t.tv_nsec;
}

static void look(struct sw_addr_watch *w, bool addresses)
{
    uint64_t now = sw_loop_now(w->loop);
    bool slept = sw_sleep_look(&w->sleep, w->boot(), now);
    bool moved = w->route;
    struct sw_ip ips[LOCAL_MAX];

    if (addresses || slept) {
        size_t n = sw_addrs_local(ips, LOCAL_MAX);

        moved = moved || !same_set(ips, n, w->last, w->n_last);
        memcpy(w->last, ips, n * sizeof(*ips));
        w->n_last = n;
        w->route = false;
    }
    if (!slept && !(addresses && moved))
        return;
    w->told_ns = now;
    w->changed(w->arg, slept);
}

static void on_settled(struct sw_timer *t)
{
    look(SW_CONTAINER_OF(t, struct sw_addr_watch, settle), true);
}

static void on_clock(struct sw_timer *t)
{
    struct sw_addr_watch *w = SW_CONTAINER_OF(t, struct sw_addr_watch, clock);

    sw_timer_start(w->loop, &w->clock, w->net ? CLOCK_NS : POLL_NS, on_clock);
    look(w, !w->net);
}

static void on_netchange(void *arg, bool route)
{
    struct sw_addr_watch *w = arg;
    uint64_t since = sw_loop_now(w->loop) - w->told_ns;

    w->route = w->route || route;
    if (!sw_timer_running(&w->settle))
        sw_timer_start(w->loop, &w->settle,
                       w->told_ns && since < GAP_NS ? sw_max(GAP_NS - since, SETTLE_NS) : SETTLE_NS,
                       on_settled);
}

struct sw_addr_watch *sw_addr_watch_new(struct sw_loop *l, void (*changed)(void *arg, bool slept),
                                        void *arg, uint64_t (*boot)(void))
{
    struct sw_addr_watch *w = SW_NEW(struct sw_addr_watch);
    struct sw_err err = {0};

    w->loop = l;
    w->changed = changed;
    w->arg = arg;
    w->boot = boot ? boot : boot_clock;
    w->net = sw_netchange_new(l, on_netchange, w, &err);
    if (!w->net)
        sw_log_info("connector", "polling interface addresses every %d s: %s",
                    (int)(POLL_NS / SW_NS_PER_S), err.msg);
    (void)sw_sleep_look(&w->sleep, w->boot(), sw_loop_now(l));
    w->n_last = sw_addrs_local(w->last, LOCAL_MAX);
    sw_timer_start(l, &w->clock, CLOCK_NS, on_clock);
    return w;
}

void sw_addr_watch_free(struct sw_addr_watch *w)
{
    if (!w)
        return;
    sw_timer_stop(w->loop, &w->clock);
    sw_timer_stop(w->loop, &w->settle);
    sw_netchange_free(w->net);
    sw_free(w);
}
