/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker of the gateway as all rooms see it: one thread with its loop, listening sockets,
 * connections, upstream pools and a view of the configuration. Workers share nothing that changes.
 * What runs one is in worker/worker.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/vec.h"
#include "io/accept.h"
#include "io/addr.h"
#include "io/crew.h"
#include "io/loop.h"

struct sw_exchange;
struct sw_gateway;
struct sw_gw_abuse;
struct sw_gw_accepted;
struct sw_gw_chain;
struct sw_gw_config;
struct sw_gw_host;
struct sw_gw_hosts;
struct sw_gw_listener;
struct sw_gw_pool;
struct sw_gw_unbound;
struct sw_gw_worker;
struct sw_h1;
struct sw_json;
struct sw_metrics_shard;

enum {
    SW_GW_SPARE_EXCHANGES = 256,
    SW_GW_SPARE_PARSERS = 64,
};

/* A snapshot in use by this worker, counted without atomics: exchanges hold it, connections do not
 * (they hold their listener). */
struct sw_gw_view {
    struct sw_gw_config *config; /* a reference */
    unsigned refs;
};

static inline struct sw_gw_view *sw_gw_view_ref(struct sw_gw_view *v)
{
    v->refs++;
    return v;
}
/* Returns NULL. */
struct sw_gw_view *sw_gw_view_unref(struct sw_gw_view *v);

/*
 * Calls from a room into one above it: the whole list of them. Set once by worker.c. All run on the
 * worker's thread.
 */
struct sw_gw_calls {
    /* upstream: the host is going (up_pool.h). */
    void (*release_pool)(struct sw_gw_pool *p);
    /* exchange: as sw_gw_route_request, _route_go_on and _route_response (route.h). */
    int (*route)(struct sw_exchange *x);
    void (*route_continue)(struct sw_exchange *x);
    void (*response)(struct sw_exchange *x);
    /* exchange, while a filter waits: more of the body is in x->kept, or its end came. */
    void (*more_body)(struct sw_exchange *x);
    /* exchange, which is over: cancels pending requests of its filters. */
    void (*leave_filters)(struct sw_exchange *x);
    /* exchange, with x->gzip: bytes of the answer on their way downstream; their end. */
    void (*encode)(struct sw_exchange *x, struct sw_slice data);
    void (*encode_end)(struct sw_exchange *x);
    /* exchange: as sw_gw_pool_get and sw_gw_pool_cancel (up_pool.h). */
    void (*connect)(struct sw_exchange *x);
    void (*cancel)(struct sw_exchange *x);
    /* codec: as sw_gw_accept_fd (listen.h). */
    void (*accept_fd)(struct sw_gw_worker *w, struct sw_gw_accepted *a);
    /* l4: as sw_gw_bind_failed (bind.h). */
    void (*bind_failed)(struct sw_gw_worker *w, struct sw_gw_listener *l, const struct sw_addr *at,
                        const struct sw_addr *tried, int sys_errno);
};

/* Failed requests of exchange/failure.c. Zeroes are fresh ones. */
struct sw_gw_failures {
    uint64_t second; /* that 'lines' counts in */
    unsigned lines;
    uint64_t unlogged;     /* since the last summary */
    struct sw_timer timer; /* until the next summary */
};

struct sw_gw_worker {
    struct sw_crew_thread thread;
    const struct sw_gw_calls *calls;
    struct sw_gateway *gw;     /* of the worker room alone */
    struct sw_gw_abuse *abuse; /* shared by all workers */
    const char *port_group;    /* whose processes may have the same ports, see io/port.h */
    unsigned n_workers;        /* set before the thread starts */
    unsigned index;            /* the thread's, like the loop */
    struct sw_loop *loop;
    struct sw_gw_view *view;   /* newest; NULL before the first */
    struct sw_gw_hosts *hosts; /* cluster.c: clusters and hosts of this worker, kept across views */
    struct sw_metrics_shard *shard;
    struct sw_map lstats;   /* of stats.c: listener -> its counters here */
    void *udp;              /* of udp.c */
    struct sw_list sockets; /* listening; see listen.c */
    struct sw_accept_group accept;
    struct sw_list downs; /* of clients.h; the idle ones in the order they became so */
    struct sw_list pools; /* upstream; see up_pool.c */
    uint64_t logged_ns;   /* begin of the time 'n_logged' counts in: lines about hosts of pools */
    unsigned n_logged;
    struct sw_gw_failures failures; /* of requests, logged and not */
    struct sw_list exchanges;
    struct sw_list ended; /* exchanges to be freed */
    struct sw_defer reap;
    size_t n_downs;
    size_t n_exchanges;
    uint8_t *rx;                        /* of listen.c: the first bytes of a connection */
    SW_VEC(struct sw_exchange *) spare; /* spare exchanges */
    SW_VEC(struct sw_h1 *) parsers[2];  /* spare, by enum sw_h1_kind */
    struct sw_timer bind_retry;
    uint64_t bind_wait_ns;                /* before the next attempt */
    SW_VEC(struct sw_gw_unbound) unbound; /* of bind.c: sockets not opened in this pass */
    bool reported_unbound;                /* the last report had some */
    bool serves;                          /* a configuration was applied */
    uint64_t connection_seq;
    char date[32]; /* RFC 9110 date of this second */
    uint64_t date_until_ns;
};

/* "Sun, 06 Nov 1994 08:49:37 GMT", made once per second. */
struct sw_slice sw_gw_worker_date(struct sw_gw_worker *w);

/* Configured times in the unit of connections; what is not 0 stays so. */
static inline uint32_t sw_gw_ms(uint64_t ns)
{
    return (uint32_t)sw_min((ns + SW_NS_PER_MS - 1) / SW_NS_PER_MS, UINT32_MAX);
}

/*
 * A connection after accept, when its chain is known. The call that gets it takes fd; the rest is
 * borrowed for the call.
 */
struct sw_gw_accepted {
    struct sw_gw_listener *listener;
    const struct sw_gw_chain *chain; /* of the listener */
    int fd;
    struct sw_addr peer;
    struct sw_addr local;
    struct sw_slice sni; /* empty: none seen */
    struct sw_slice pre; /* bytes already read from fd: a ClientHello, if the chain has TLS */
    const struct sw_json *metadata;  /* from an internal listener; NULL: none */
    struct sw_gw_host *keep;         /* keeps the metadata alive; NULL: none */
    const struct sw_exchange *cause; /* the request it is for; NULL: not known */
};
