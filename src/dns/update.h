/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps our records in a zone of another server: dynamic updates (RFC 2136) over TCP, signed with
 * TSIG. A name belongs to its first writer: a marker beside the records carries the owner, and
 * every change has it as its prerequisite. What is found there that is ours and no longer wanted is
 * withdrawn.
 */
#pragma once

#include "dns/tsig.h"
#include "dns/zone.h"
#include "io/loop.h"

struct sw_dns_updater;
struct sw_metrics_shard;

/* Zero in a field means the default in brackets. Copied but for the key's secret. */
struct sw_dns_updater_opts {
    struct sw_addr server;
    struct sw_dns_name zone;
    struct sw_dns_key key;
    const char *owner;   /* unique among the publishers of the zone; at most 64 characters */
    uint64_t timeout_ns; /* for a connection, and for each answer [10 s] */
    uint64_t resync_ns;  /* the zone is compared as a whole so often [5 min] */
    uint64_t retry_ns;   /* first pause after a failure; doubles up to a minute [1 s] */
    struct sw_metrics_shard *metrics; /* NULL: nothing is counted */
};

SW_NODISCARD struct sw_dns_updater *sw_dns_updater_new(struct sw_loop *l,
                                                       const struct sw_dns_updater_opts *o);
/* The records that shall be there, all of type TXT and none twice; copied. */
void sw_dns_updater_set(struct sw_dns_updater *u, const struct sw_dns_rrset *sets, size_t n);

struct sw_dns_updater_stats {
    size_t wanted;
    size_t pending; /* not yet as wanted */
    size_t foreign; /* names that another publisher owns */
    uint64_t done;  /* updates the server accepted */
    uint64_t failures;
    bool idle; /* nothing to do, nothing under way */
};
struct sw_dns_updater_stats sw_dns_updater_stats(const struct sw_dns_updater *u);
/* Leaves the zone as it is. NULL is fine. */
void sw_dns_updater_free(struct sw_dns_updater *u);
