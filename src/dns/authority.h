/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An authoritative server for one zone on a loop: UDP and TCP, transfers to secondaries, NOTIFY.
 * Its answers are decided in respond.c.
 */
#pragma once

#include "dns/respond.h"
#include "io/loop.h"

struct sw_dns_authority;
struct sw_metrics_shard;

enum { SW_DNS_LISTEN_MAX = 8, SW_DNS_SECONDARIES_MAX = 16, SW_DNS_KEYS_MAX = 16 };

/* Zero in a field means the default in brackets. All is copied but the metrics and the secrets. */
struct sw_dns_authority_opts {
    struct sw_addr listen[SW_DNS_LISTEN_MAX]; /* both protocols each; port 0: any, the same for
                                                 both */
    size_t n_listen;
    /* Get NOTIFY at their port; their addresses may transfer, unless there are keys. */
    struct sw_addr secondaries[SW_DNS_SECONDARIES_MAX];
    size_t n_secondaries;
    /* With these, a transfer must be signed by one of them, from wherever. */
    struct sw_dns_key keys[SW_DNS_KEYS_MAX];
    size_t n_keys;
    uint32_t rate;                    /* UDP answers per second and source network; 0 = no limit */
    uint32_t max_connections;         /* TCP [256]; the one idle for longest makes room */
    uint32_t max_per_ip;              /* TCP [16] */
    uint64_t idle_ns;                 /* TCP: no progress for so long ends it [10 s] */
    struct sw_metrics_shard *metrics; /* NULL: nothing is counted */
};

/* The addresses are taken when it returns. NULL with what was wrong. */
SW_NODISCARD struct sw_dns_authority *
sw_dns_authority_new(struct sw_loop *l, const struct sw_dns_authority_opts *o, struct sw_err *err);
/* Serves this zone from now on, and notifies the secondaries. Takes its own reference. */
void sw_dns_authority_set_zone(struct sw_dns_authority *a, struct sw_dns_zone *z);
/* Where it listens, the first of the addresses given. */
struct sw_addr sw_dns_authority_addr(const struct sw_dns_authority *a);
/* Closes everything. NULL is fine. Not from one of its callbacks (there are none). */
void sw_dns_authority_free(struct sw_dns_authority *a);
