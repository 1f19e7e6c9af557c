/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP endpoints every role has: admin (15000, loopback only by default, with a token), metrics
 * (15020) and readiness (15021). All run on one loop that carries no traffic.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "http/server.h"
#include "io/addr.h"
#include "io/loop.h"
#include "telemetry/admin_token.h"
#include "telemetry/metrics.h"
#include "telemetry/ready.h"

struct sw_admin;
struct sw_egress;

enum { SW_ADMIN_ADDRS = 4 };

struct sw_admin_opts {
    const char *title;                    /* of the index page ["spanwire"] */
    struct sw_addr admin[SW_ADMIN_ADDRS]; /* family 0 = unused; none: 127.0.0.1 and ::1, 15000 */
    struct sw_addr stats;                 /* family 0: [::]:15020 */
    struct sw_addr ready_at;              /* family 0: [::]:15021 */
    bool no_ipv6;                         /* defaults use IPv4 only */
    /*
     * Metrics and readiness (/metrics, /ready) are pages of the admin listener and have none of
     * their own; 'extra' is called first and may answer "/".
     */
    bool one_port;
    /*
     * With one_port: metrics, readiness and 'extra' a second time, read only and under any host
     * name, for probes and scrapers from elsewhere. Family 0: not.
     */
    struct sw_addr pages;
    /*
     * Whether pages need the token: all of the admin listener's but "/" and, with one_port, those
     * that 'pages' has too.
     */
    struct sw_admin_access access;
    const char *share;            /* group of processes that may listen beside us; NULL: none */
    struct sw_metrics *metrics;   /* borrowed */
    void (*on_scrape)(void *arg); /* before the metrics are written; may be NULL */
    struct sw_ready *ready;       /* borrowed */
    struct sw_egress *egress;     /* borrowed; its denials become metrics. NULL: none */
    /*
     * Called on the admin loop besides 'ready': true while something else is pending, and appends
     * what. May be NULL.
     */
    bool (*pending)(void *arg, struct sw_buf *out);
    const char *log_filter; /* what '/logging?reset' returns to; NULL = "info" */
    /* JSON for /config_dump; NULL: 404. Runs on the admin loop. */
    int (*config_dump)(struct sw_buf *out, void *arg);
    /* POST /quitquitquit; NULL: 404. The answer is already on its way. */
    void (*quit)(void *arg);
    void *quit_arg;
    /*
     * Pages that require a secret of their own instead of the token, which a browser cannot send:
     * called first, whatever the method, once the request is known to be no other site's. True when
     * it answered. May be NULL.
     */
    bool (*guarded)(struct sw_http_req *req, struct sw_http_resp *resp, void *arg);
    /* Pages of the role itself, called before 404; true when it answered. May be NULL. */
    bool (*extra)(struct sw_http_req *req, struct sw_http_resp *resp, void *arg);
    void *arg;
};

/*
 * Opens all listeners or none. The default IPv6 listeners fall back to IPv4 on a kernel without
 * IPv6. NULL with err filled otherwise.
 */
SW_NODISCARD struct sw_admin *sw_admin_new(struct sw_loop *l, const struct sw_admin_opts *o,
                                           struct sw_err *err);
/* Addresses as bound, for tests and logs. */
struct sw_addr sw_admin_addr(const struct sw_admin *a);
struct sw_addr sw_admin_stats_addr(const struct sw_admin *a);
struct sw_addr sw_admin_ready_addr(const struct sw_admin *a);
void sw_admin_free(struct sw_admin *a);
