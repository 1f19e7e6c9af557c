/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks up the host names that a plan wants addresses of (resolved.h), again and again, judges the
 * addresses by the egress filter, and reports what a set has to hold whenever that changes. One
 * lookup per name at a time, a few at once; names are bounded. On one loop.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "control/gateway/resolved.h"
#include "io/addr.h"
#include "io/loop.h"

struct sw_egress;
struct sw_lookups;
struct sw_metrics_shard;
struct sw_resolve;

enum {
    SW_LOOKUPS_MAX = 8192,   /* names; those beyond have no address */
    SW_LOOKUPS_CLIENTS = 64, /* addresses of clients that are told apart */
};

struct sw_lookups_opts {
    struct sw_loop *loop;
    struct sw_egress *egress;          /* borrowed; NULL: the classes of addresses alone decide */
    struct sw_metrics_shard *metrics;  /* borrowed; NULL: nothing is counted */
    void (*ask)(struct sw_resolve *r); /* NULL: sw_resolve_start */
    /* What a set holds changed; with n 0 and ips NULL it is not wanted any more. */
    void (*on_set)(void *arg, const struct sw_resolved *r);
    /* Every name has had its first answer, or was waited for long enough. */
    void (*on_settled)(void *arg);
    void *arg;
};

/* Progress of the lookups. */
enum sw_lookups_mode {
    SW_LOOKUPS_OFF,   /* not at all; sets keep what they have */
    SW_LOOKUPS_QUIET, /* no user of the sets is known: denials are neither logged nor counted
                       */
    SW_LOOKUPS_ON,
};

/* Off at first. */
struct sw_lookups *sw_lookups_new(const struct sw_lookups_opts *o);
/* Lookups under way end without a report. NULL is fine. */
void sw_lookups_free(struct sw_lookups *l);
/*
 * The sets of a plan (build.h, as text). New ones are looked up at once; those that it does not
 * name stay until sw_lookups_sweep. NULL is fine here and below.
 */
void sw_lookups_plan(struct sw_lookups *l, struct sw_slice plan);
void sw_lookups_sweep(struct sw_lookups *l);
/*
 * 'clients' are the addresses that data planes connect from: no name may lead a data plane to
 * itself, or to another, unless the allow list names the address. The first
 * SW_LOOKUPS_CLIENTS count.
 */
void sw_lookups_mode(struct sw_lookups *l, enum sw_lookups_mode mode, const struct sw_ip *clients,
                     size_t n);
/* False while names wait for their first answer: half a second at most, at the start three. */
bool sw_lookups_settled(const struct sw_lookups *l);
