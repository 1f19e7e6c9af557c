/* SPDX-License-Identifier: Apache-2.0 */
/* The discovery DNS of `spanwire control`: a server of its own, or updates of another server. */
#pragma once

#include "base/err.h"
#include "io/addr.h"
#include "opts/opts.h"

struct sw_api;
struct sw_control_dns;
struct sw_kube_client;
struct sw_loop;
struct sw_metrics_shard;

struct sw_control_dns_opts {
    struct sw_opt_list listen;      /* addresses of the server; none: no server */
    const char *zone;               /* where Connectors are published */
    struct sw_opt_list ns;          /* NAME[=IP] */
    uint32_t ttl;                   /* seconds, of the records */
    struct sw_opt_list secondaries; /* ADDR[:PORT] */
    struct sw_opt_list keys;        /* files with keys that allow transfers */
    uint32_t rate;                  /* answers per second and network */
    uint64_t stale_ns;              /* a Connector not ready for so long is withdrawn */
    bool record;                    /* claims on keys: the connector controllers do not run */
    const char *update;             /* ADDR[:PORT] of a server that takes updates */
    const char *tsig_key;           /* file with the key for them */
    uint64_t resync_ns;             /* how often that zone is compared */
    const char *owner;              /* our name among the publishers; NULL: made once, in data */
    const char *data;               /* directory for serial and owner */
};

/* True when the options ask for it. */
bool sw_control_dns_wanted(const struct sw_control_dns_opts *o);
/*
 * Everything is borrowed and must outlive it. NULL with what was wrong; the ports are taken when it
 * returns. metrics may be NULL.
 */
SW_NODISCARD struct sw_control_dns *sw_control_dns_new(struct sw_loop *l, struct sw_kube_client *c,
                                                       struct sw_metrics_shard *metrics,
                                                       const struct sw_control_dns_opts *o,
                                                       struct sw_err *err);
/* Where the server listens; family 0 when there is none. */
struct sw_addr sw_control_dns_addr(const struct sw_control_dns *d);
/* done comes from the loop. What is published stays. */
void sw_control_dns_stop(struct sw_control_dns *d, void (*done)(void *arg), void *arg);
/* NULL is fine. */
void sw_control_dns_free(struct sw_control_dns *d);
