/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches Connectors and says which records the discovery zone shall have: a controller that writes
 * nothing to the API but, where the connector controllers do not run, claims on keys. The condition
 * about it is written where all of the Connector's are.
 */
#pragma once

#include "control/runtime.h"
#include "dns/zone.h"

struct sw_dns_publisher;

struct sw_dns_publisher_opts {
    struct sw_dns_name origin;
    uint32_t ttl_s;
    uint64_t stale_after_ns; /* a Connector not Ready for so long is withdrawn; 0 = never */
    /* The whole wanted set, sorted by name, whenever it changed. Borrowed for the call. */
    void (*publish)(void *arg, const struct sw_dns_rrset *sets, size_t n);
    void *arg;
    bool threaded;
    bool record; /* claims on keys: no other controller does. Several replicas may. */
};

/* Client and loop are borrowed and must outlive it. NULL with SW_EINVAL. */
SW_NODISCARD struct sw_dns_publisher *sw_dns_publisher_new(struct sw_loop *l,
                                                           struct sw_kube_client *c,
                                                           const struct sw_dns_publisher_opts *o,
                                                           struct sw_err *err);
void sw_dns_publisher_start(struct sw_dns_publisher *p);
/* done (may be NULL) comes from the loop. */
void sw_dns_publisher_stop(struct sw_dns_publisher *p, void (*done)(void *arg), void *arg);
/* NULL is fine. */
void sw_dns_publisher_free(struct sw_dns_publisher *p);
