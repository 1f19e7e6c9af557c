/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters, their members and the choice of one. A cluster object is immutable; what changes lives
 * in the members and the cluster's state, which survive a new version of the cluster, and in the
 * hosts of each worker. Cells indexed by worker are written by that worker only.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gateway/config/config.h"
#include "io/sock.h"

enum { SW_GW_LINE = 64 };

/* ---- members: endpoints as all workers share them ---- */

enum sw_gw_health_flag {
    SW_GW_FAILED_ACTIVE = 1,  /* active health check */
    SW_GW_FAILED_OUTLIER = 2, /* ejected */
    SW_GW_PENDING_ACTIVE = 4, /* not checked yet */
    SW_GW_SET_ASIDE = 8,      /* refuses connections; see aside.c */
};

/* Counters of one worker; written by it alone, read by the admin page. */
struct sw_gw_member_cell {
    _Atomic uint64_t rq;
    _Atomic uint64_t rq_err; /* 5xx and failures */
    _Atomic uint64_t cx_fail;
    _Atomic uint32_t active;
    struct sw_gw_host *host; /* of that worker, the one used last; NULL: none */
} __attribute__((aligned(SW_GW_LINE)));

struct sw_gw_member {
    _Atomic uint32_t refs;
    struct sw_arena arena;
    struct sw_gw_addr addr;
    struct sw_slice hostname;       /* Endpoint.hostname or the DNS name; may be empty */
    struct sw_slice text;           /* "10.0.0.1:80", for logs and session cookies */
    const struct sw_json *metadata; /* NULL or {"tunnel": {"address": ...}} */
    struct sw_gw_addr check_addr;   /* where health checks go */
    struct sw_slice check_host;
    bool no_active_check;
    struct sw_slice key;     /* address and metadata: what makes it the same member */
    _Atomic uint32_t health; /* enum sw_gw_health_flag */
    /* Outlier detection; see outlier.c. */
    _Atomic uint32_t consecutive_5xx;
    _Atomic uint32_t consecutive_gateway;
    _Atomic uint32_t consecutive_local;
    uint32_t ejections; /* under the cluster state's lock, like the next one */
    uint64_t ejected_until_ns;
    /* Refused connections; see aside.c. Under that lock, too, but for the first. */
    _Atomic uint32_t connect_failures; /* in a row */
    uint32_t aside_times;              /* since a connection succeeded */
    bool aside_probed;                 /* a request was sent to see whether it is back */
    uint64_t aside_since_ns;
    uint64_t aside_until_ns;
    unsigned n_cells;
    struct sw_gw_member_cell *cells; /* by worker */
};

/* With one reference. */
struct sw_gw_member *sw_gw_member_new(void);
/* Counters for so many workers. */
void sw_gw_member_add_cells(struct sw_gw_member *m, unsigned n_workers);
struct sw_gw_member *sw_gw_member_ref(struct sw_gw_member *m);
struct sw_gw_member *sw_gw_member_unref(struct sw_gw_member *m);

static inline bool sw_gw_member_usable(const struct sw_gw_member *m)
{
    return (atomic_load_explicit(&m->health, memory_order_relaxed) &
            (SW_GW_FAILED_ACTIVE | SW_GW_FAILED_OUTLIER)) == 0;
}

static inline bool sw_gw_member_aside(const struct sw_gw_member *m)
{
    return atomic_load_explicit(&m->health, memory_order_relaxed) & SW_GW_SET_ASIDE;
}

/* A member as one assignment sees it. */
struct sw_gw_endpoint {
    struct sw_gw_member *member; /* a reference */
    uint32_t weight;             /* 1 or more */
    bool unhealthy;              /* EDS reports UNHEALTHY, DRAINING or TIMEOUT */
    bool degraded;
};

struct sw_gw_locality {
    uint32_t priority;
    uint32_t weight; /* 0: takes part only without locality weights */
    struct sw_slice region;
    struct sw_slice zone;
    struct sw_slice sub_zone;
    struct sw_gw_endpoint *endpoints;
    size_t n;
};

/* One version of a cluster's members. Immutable but for the health flags. */
struct sw_gw_members {
    _Atomic uint32_t refs;
    struct sw_arena arena;
    struct sw_gw_locality *localities; /* by priority, then as given */
    size_t n_localities;
    uint32_t n_priorities;
    uint32_t overprovisioning; /* percent [140] */
    size_t n;
    uint64_t version; /* unique in the process */
};

/* The endpoints of all localities. 'break' leaves a locality only. */
#define SW_GW_ENDPOINTS_EACH(e, ms)                                                                \
    for (size_t sw_i_##e = 0; sw_i_##e < (ms)->n_localities; sw_i_##e++)                           \
        for (struct sw_gw_endpoint *e = (ms)->localities[sw_i_##e].endpoints,                      \
                                   *sw_end_##e = e + (ms)->localities[sw_i_##e].n;                 \
             e < sw_end_##e; e++)

struct sw_gw_members *sw_gw_members_ref(struct sw_gw_members *m);
struct sw_gw_members *sw_gw_members_unref(struct sw_gw_members *m);

/* ---- clusters ---- */

enum sw_gw_lb_kind {
    SW_GW_LB_ROUND_ROBIN,
    SW_GW_LB_LEAST_REQUEST,
    SW_GW_LB_RING_HASH,
    SW_GW_LB_RANDOM,
    SW_GW_LB_MAGLEV, /* served by the ring */
};

enum sw_gw_discovery {
    SW_GW_STATIC,
    SW_GW_STRICT_DNS,
    SW_GW_LOGICAL_DNS,
    SW_GW_EDS,
    SW_GW_ORIGINAL_DST,
};

enum sw_gw_up_protocol {
    SW_GW_UP_H1,
    SW_GW_UP_H2,
    SW_GW_UP_AUTO,       /* by ALPN */
    SW_GW_UP_DOWNSTREAM, /* as the request came */
};

struct sw_gw_limits {
    uint32_t max_connections; /* [1024] */
    uint32_t max_pending;     /* [1024] */
    uint32_t max_requests;    /* [1024] */
    uint32_t max_retries;     /* [3] */
    double budget_percent;    /* retry budget; 0: none */
    uint32_t budget_min;
};

struct sw_gw_outlier_opts {
    bool on;
    uint32_t consecutive_5xx;     /* [5]; 0: off */
    uint32_t consecutive_gateway; /* [5 when enforced]; 0: off */
    uint32_t consecutive_local;   /* [5] */
    bool split_local;
    uint64_t interval_ns;      /* [10 s] */
    uint64_t base_ejection_ns; /* [30 s] */
    uint64_t max_ejection_ns;  /* [300 s] */
    uint32_t max_percent;      /* [10] */
};

enum sw_gw_check_kind { SW_GW_CHECK_HTTP, SW_GW_CHECK_TCP, SW_GW_CHECK_GRPC };

struct sw_gw_check {
    enum sw_gw_check_kind kind;
    uint64_t timeout_ns;
    uint64_t interval_ns;
    uint64_t jitter_ns;
    uint64_t no_traffic_interval_ns; /* until the first request; 0: as interval_ns */
    uint64_t unhealthy_interval_ns;
    uint32_t unhealthy_threshold;
    uint32_t healthy_threshold;
    uint16_t alt_port;
    bool h2;
    struct sw_slice method; /* "GET" */
    struct sw_slice host;
    struct sw_slice path;
    struct sw_slice service; /* gRPC */
    struct sw_slice send;    /* TCP */
    const struct sw_slice *receive;
    size_t n_receive;
    struct {
        int64_t from; /* half open */
        int64_t to;
    } * expected;
    size_t n_expected;
};

/* All settings of a Cluster resource, members excluded. */
struct sw_gw_cluster_spec {
    _Atomic uint32_t refs;
    struct sw_arena arena;
    struct sw_slice name;
    struct sw_slice eds_name; /* resource to subscribe to */
    struct sw_egress *egress; /* judges the addresses of members; NULL: they may be any */
    enum sw_gw_discovery discovery;
    enum sw_gw_lb_kind lb;
    uint32_t choice_count; /* least request [2] */
    uint64_t ring_min;     /* [1024] */
    uint64_t ring_max;     /* [8 M] */
    double panic_percent;  /* [50] */
    bool locality_weighted;
    uint64_t connect_timeout_ns; /* [5 s] */
    enum sw_gw_up_protocol protocol;
    struct sw_gw_h2_opts h2;
    uint64_t idle_timeout_ns;            /* [1 h] */
    uint64_t max_connection_duration_ns; /* 0: no limit */
    uint64_t max_stream_ns;              /* of one attempt; 0: no limit */
    uint32_t max_requests_per_connection;
    bool auto_sni; /* from HttpProtocolOptions */
    bool auto_san_validation;
    bool keepalive;
    uint32_t keepalive_time_s;
    uint32_t keepalive_interval_s;
    uint32_t keepalive_probes;
    uint64_t dns_refresh_ns;
    uint8_t dns_family;         /* as the enum of the proto */
    uint16_t dst_port;          /* ORIGINAL_DST: instead of the client's; 0: that */
    struct sw_gw_limits limits; /* of priority DEFAULT: routes with another are refused */
    struct sw_gw_outlier_opts outlier;
    const struct sw_gw_check *checks;
    size_t n_checks;
    const struct sw_json *metadata; /* NULL or {"filter": {...}} */
    /* internal_upstream: which metadata goes along to the internal listener. */
    bool internal_upstream;
    struct sw_gw_passthrough {
        bool host; /* else cluster metadata */
        struct sw_slice name;
    } * passthrough;
    size_t n_passthrough;
};

/* Counters of one worker, as struct sw_gw_member_cell. */
struct sw_gw_cluster_cell {
    _Atomic uint64_t rq;
    _Atomic uint64_t overflow; /* refused by a circuit limit */
    _Atomic uint64_t retries;
    _Atomic uint64_t failovers; /* attempts at another host, nothing having been sent */
    _Atomic uint64_t no_host;
    _Atomic uint64_t status[6]; /* responses by class; [0]: failed without one */
    _Atomic uint64_t cx_fail;
    _Atomic uint64_t tls_fail;
    _Atomic uint64_t timeouts;
    _Atomic uint32_t active;
    _Atomic uint32_t cx;      /* connections open or being opened */
    _Atomic uint32_t pending; /* requests that wait for one */
} __attribute__((aligned(SW_GW_LINE)));

/* What survives a new version of the cluster of the same name. */
struct sw_gw_cluster_state {
    _Atomic uint32_t refs;
    _Atomic uint64_t health_version; /* bumped when a flag of some member changes */
    pthread_mutex_t lock;            /* ejections */
    uint32_t n_ejected;
    _Atomic uint64_t ejections;    /* ever */
    _Atomic uint64_t aside_due_ns; /* when a member that was set aside is tried next; 0: none */
    unsigned n_cells;
    struct sw_gw_cluster_cell *cells; /* by worker */
};

struct sw_gw_cluster_state *sw_gw_cluster_state_ref(struct sw_gw_cluster_state *s);
struct sw_gw_cluster_state *sw_gw_cluster_state_unref(struct sw_gw_cluster_state *s);
struct sw_gw_cluster_spec *sw_gw_cluster_spec_ref(struct sw_gw_cluster_spec *s);
struct sw_gw_cluster_spec *sw_gw_cluster_spec_unref(struct sw_gw_cluster_spec *s);

struct sw_gw_cluster {
    _Atomic uint32_t refs;
    struct sw_gw_cluster_spec *spec;   /* a reference */
    struct sw_gw_members *members;     /* a reference */
    struct sw_gw_cluster_state *state; /* a reference */
    struct sw_gw_tls *tls;             /* a reference; NULL: plain */
};

struct sw_gw_cluster *sw_gw_cluster_ref(struct sw_gw_cluster *c);
struct sw_gw_cluster *sw_gw_cluster_unref(struct sw_gw_cluster *c);

struct sw_gw_cluster_state *sw_gw_cluster_state_new(unsigned n_workers);
/* A cluster from its parts, each of which gets another reference. */
struct sw_gw_cluster *sw_gw_cluster_new(struct sw_gw_cluster_spec *spec, struct sw_gw_members *m,
                                        struct sw_gw_cluster_state *st, struct sw_gw_tls *tls);

/* For sockets to its members. */
static inline struct sw_sock_opts sw_gw_sock_opts(const struct sw_gw_cluster_spec *s)
{
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;

    o.keepalive = s->keepalive;
    o.keepalive_time_s = s->keepalive_time_s;
    o.keepalive_interval_s = s->keepalive_interval_s;
    o.keepalive_retries = s->keepalive_probes;
    o.egress = s->egress;
    return o;
}

/* ---- counters and limits ---- */

/* Counts in a cell, whose one writer is the caller. */
static inline void sw_gw_bump(_Atomic uint64_t *n)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Each worker has its part of a limit, at least one. */
static inline bool sw_gw_limit_below(uint32_t used, uint32_t limit, unsigned worker, unsigned n)
{
    uint32_t share = limit / n + (worker < limit % n ? 1 : 0);

    return used < (share || limit == 0 ? share : 1);
}

enum sw_gw_result {                       /* the outcome of an attempt, for its host */
                    SW_GW_RESULT_OK,      /* a response, by its status; for TCP: connected */
                    SW_GW_RESULT_LOCAL,   /* no connection, TLS failure */
                    SW_GW_RESULT_BROKEN,  /* broke off or timed out after it was sent */
                    SW_GW_RESULT_NEUTRAL, /* the client went, or a limit: no verdict */
};
