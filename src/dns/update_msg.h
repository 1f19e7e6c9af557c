/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of the updater, without I/O: updates with their prerequisites, and what a zone has.
 */
#pragma once

#include "base/map.h"
#include "dns/zone.h"

enum sw_dns_update_kind {
    SW_DNS_UPDATE_CLAIM,    /* the name is free: write records and marker */
    SW_DNS_UPDATE_REPLACE,  /* it is ours: exchange the records */
    SW_DNS_UPDATE_WITHDRAW, /* it is ours: remove records and marker */
};

/* Order of records does not count, neither does the case of the name. Never 0. */
uint64_t sw_dns_set_print(const struct sw_dns_rrset *s);
/* Name of the marker: the first label replaced. False for names without a label of their own. */
bool sw_dns_marker_name(const struct sw_dns_name *name, struct sw_dns_name *ret);
/* The record of the marker. */
struct sw_slice sw_dns_marker_rdata(struct sw_arena *a, const char *owner);

/* The message without signature; w->full when it does not fit. set->n may be 0 to withdraw. */
void sw_dns_update_write(struct sw_dns_writer *w, uint16_t id, enum sw_dns_update_kind kind,
                         const struct sw_dns_name *zone, const struct sw_dns_rrset *set,
                         struct sw_slice marker);
void sw_dns_axfr_question(struct sw_dns_writer *w, uint16_t id, const struct sw_dns_name *zone);

/* What a transfer brought: TXT sets by name (lower case), summed up. */
struct sw_dns_inventory {
    struct sw_arena arena;
    struct sw_map names; /* of struct sw_dns_inventory_name */
    unsigned soas;       /* 2: complete */
};

struct sw_dns_inventory_name {
    struct sw_dns_name name;
    uint64_t sum;
    size_t n;
    uint32_t ttl;
    struct sw_slice first; /* record */
};

/* One message of the answer. SW_OK: more to come; SW_EOF: complete; SW_EPROTO; SW_ELIMIT. */
SW_NODISCARD int sw_dns_inventory_add(struct sw_dns_inventory *v, struct sw_slice msg,
                                      const struct sw_dns_name *zone);
/* As sw_dns_set_print of the same set. */
uint64_t sw_dns_inventory_print(const struct sw_dns_inventory_name *n);
void sw_dns_inventory_done(struct sw_dns_inventory *v);
