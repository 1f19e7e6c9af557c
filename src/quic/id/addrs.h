/* SPDX-License-Identifier: Apache-2.0 */
/* Where this machine can be reached, and word when that changes. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"
#include "io/loop.h"
#include "quic/id/nodeid.h"

/* At most SW_QUIC_ADDRS_MAX, each once. */
struct sw_addr_list {
    struct sw_addr a[SW_QUIC_ADDRS_MAX];
    size_t n;
};

/* Is the address one of the list? */
bool sw_addr_among(const struct sw_addr *list, size_t n, const struct sw_addr *a);
/* Those of 'from' that have a family, by family, address and port, each once; how many. */
size_t sw_addr_sort(const struct sw_addr *from, size_t n, struct sw_addr ret[SW_QUIC_ADDRS_MAX]);

/* How far away others can use an address; smaller is better. */
enum sw_addr_reach {
    SW_REACH_PUBLIC,
    SW_REACH_PRIVATE, /* RFC 1918, 4193, 6598 */
    SW_REACH_HOST,    /* loopback */
    SW_REACH_NONE,    /* link-local, multicast, unspecified: nothing to publish */
};
enum sw_addr_reach sw_addr_reach(const struct sw_ip *ip);

/* The addresses that this machine knows of. */
struct sw_addr_sources {
    const struct sw_addr *given; /* by configuration, or a mapping of the router */
    size_t n_given;
    const struct sw_addr *bound; /* of the socket: at most two, of one port or two */
    size_t n_bound;
    const struct sw_ip *local; /* of the interfaces */
    size_t n_local;
};

/*
 * What to publish, best first: 'given' ones as they are (port 0: that of the socket), then those
 * the socket is bound to, a wildcard standing for every address of every interface. Loopback
 * addresses of interfaces only when there is nothing else.
 */
void sw_addr_list_build(const struct sw_addr_sources *s, struct sw_addr_list *ret);
bool sw_addr_list_equal(const struct sw_addr_list *x, const struct sw_addr_list *y);

/* The addresses of all interfaces that are up, at most max; 0 when the kernel does not say. */
size_t sw_addrs_local(struct sw_ip *out, size_t max);

/*
 * Sleep, from two clocks: the one that stands still while the machine sleeps falls behind the one
 * that does not. Setting the time of day moves neither.
 */
struct sw_sleep {
    uint64_t boot_ns; /* at the last look */
    uint64_t mono_ns;
};
/* True when the machine slept for seconds since the last look; remembers this one. */
bool sw_sleep_look(struct sw_sleep *s, uint64_t boot_ns, uint64_t mono_ns);

/*
 * changed(arg, slept) comes within a fraction of a second when an address or a default route came
 * or went, and within a second after the machine woke up. Where the kernel does not report it, it
 * polls every few seconds. boot: the clock that advances during sleep, NULL for the real one
 * (tests).
 */
struct sw_addr_watch;
SW_NODISCARD struct sw_addr_watch *sw_addr_watch_new(struct sw_loop *l,
                                                     void (*changed)(void *arg, bool slept),
                                                     void *arg, uint64_t (*boot)(void));
void sw_addr_watch_free(struct sw_addr_watch *w);
