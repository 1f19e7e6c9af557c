/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts: members and clusters as one worker sees them. Data; lives are in hosts.h. */
#pragma once

#include "base/map.h"
#include "gateway/upstream/cluster.h"

struct sw_gw_lb_view;

struct sw_gw_pool;
struct sw_gw_worker;

/* The last refusal of a tunnel to a host, by the proxy on the way. */
struct sw_gw_refusal {
    uint64_t at_ns; /* loop time */
    uint16_t status;
    char reason[48];        /* x-spanwire-reason; empty: none */
    char proxy_status[160]; /* RFC 9209; empty: none */
};

/* Of one worker, kept across snapshots as long as member, settings and TLS stay the same. */
struct sw_gw_host {
    unsigned refs;                 /* not atomic: worker's own */
    struct sw_gw_addr addr;        /* of the member */
    struct sw_gw_member *member;   /* a reference */
    struct sw_gw_cluster *cluster; /* a reference: settings and TLS of its connections */
    struct sw_gw_wcluster *wc;     /* a reference */
    struct sw_gw_pool *pool;       /* up_pool.c's; NULL: none yet */
    uint32_t active;               /* requests and tunnels */
    bool gone;                     /* no longer in its cluster */
    bool passed_known;
    const struct sw_json *passed;  /* metadata for internal listeners, made on first use */
    struct sw_gw_refusal *refusal; /* in the arena; NULL: none yet */
    struct sw_arena arena;
};

/* A cluster this worker has used. */
struct sw_gw_wcluster {
    unsigned refs;                 /* not atomic: worker's own */
    unsigned index;                /* of the worker */
    struct sw_gw_worker *worker;   /* NULL: hosts without pools (tests) */
    struct sw_slice name;          /* owned */
    struct sw_gw_cluster *cluster; /* a reference: the newest version */
    struct sw_map hosts;           /* member pointer -> struct sw_gw_host, a reference each */
    struct sw_gw_lb_view *view;    /* owned; made again when members or health changed */
    uint32_t active;
    uint32_t retries;
};

struct sw_gw_hosts {
    struct sw_gw_worker *worker;
    unsigned index;
    struct sw_map clusters;      /* name -> struct sw_gw_wcluster */
    struct sw_gw_wcluster *last; /* looked up last; NULL: none */
    uint64_t applied;            /* serial of the clusters seen last */
};

enum { SW_GW_TRIED_MAX = 8 };

struct sw_gw_pick {
    uint64_t hash; /* of the hash policies */
    bool has_hash;
    bool session_strict;         /* no other host will do */
    struct sw_slice session;     /* address of a sticky session (member->text); empty: none */
    struct sw_addr original_dst; /* ORIGINAL_DST clusters; family 0: none */
    const struct sw_gw_member *tried[SW_GW_TRIED_MAX]; /* avoid these on a retry where possible */
    unsigned n_tried;
};
