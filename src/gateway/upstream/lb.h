/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's clusters and the balancer's view of them, for cluster.c, lb.c and outlier.c. */
#pragma once

#include "gateway/upstream/cluster.h"

struct sw_gw_lb_view;

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
    struct sw_gw_wcluster *last; /* asked for last; NULL: none */
    uint64_t applied;            /* serial of the clusters seen last */
};

/* NULL: neither used before nor in the snapshot. */
struct sw_gw_wcluster *sw_gw_wcluster_get(struct sw_gw_hosts *hs, const struct sw_gw_config *c,
                                          struct sw_slice name);
/* This worker's host for a member; borrowed. */
struct sw_gw_host *sw_gw_wcluster_host(struct sw_gw_wcluster *wc, struct sw_gw_member *m);
void sw_gw_lb_view_free(struct sw_gw_lb_view *v);
/* The choice alone, without hosts and counters (tests). */
struct sw_gw_member *sw_gw_lb_choose(struct sw_gw_wcluster *wc, const struct sw_gw_pick *pick);

/* Whether the balancer knows a usable member that is not in pick->tried. */
bool sw_gw_lb_has_untried(struct sw_gw_wcluster *wc, const struct sw_gw_pick *pick);

/* aside.c: a connection to the member failed, before anything was sent. */
void sw_gw_aside_failed(const struct sw_gw_cluster *c, struct sw_gw_member *m, uint64_t now_ns,
                        const char *why);
/* A connection succeeded. */
void sw_gw_aside_connected(const struct sw_gw_cluster *c, struct sw_gw_member *m, uint64_t now_ns);
/* A member whose time aside is over and that this request shall try; NULL: none. */
struct sw_gw_member *sw_gw_aside_due(const struct sw_gw_cluster *c, const struct sw_gw_pick *pick,
                                     uint64_t now_ns);

/* outlier.c: counts a result against the member and ejects it when it is time. */
void sw_gw_outlier_report(const struct sw_gw_cluster *c, struct sw_gw_member *m,
                          enum sw_gw_result how, int status, uint64_t now_ns);
/* Lets members back whose time has passed. True when some are still out. */
bool sw_gw_outlier_sweep(const struct sw_gw_cluster *c, uint64_t now_ns);
