/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of an authoritative server: one zone as an immutable, counted snapshot. Owner names are
 * in canonical order; empty non-terminals exist as well.
 */
#pragma once

#include "dns/wire.h"

enum { SW_DNS_NS_MAX = 8, SW_DNS_SETS_MAX = 1000000, SW_DNS_SET_BYTES = 60000 };

/* Records of one name and type. Borrowed by its users, in the zone's arena in a zone. */
struct sw_dns_rrset {
    struct sw_dns_name name;
    uint16_t type;
    uint32_t ttl;
    const struct sw_slice *rdata; /* uncompressed */
    size_t n;
};

/* A server of the zone and, when its name is inside, its addresses. */
struct sw_dns_ns {
    struct sw_dns_name name;
    struct sw_ip ips[4];
    size_t n_ips;
};

struct sw_dns_zone_conf {
    struct sw_dns_name origin;
    struct sw_dns_ns ns[SW_DNS_NS_MAX]; /* at least one */
    size_t n_ns;
    struct sw_dns_name contact; /* SOA rname; n == 0: hostmaster.<origin> */
    uint32_t apex_ttl;          /* of SOA, NS and their addresses; 0 = 3600 */
    uint32_t negative_ttl;      /* SOA minimum: how long absence may be remembered; 0 = 5 */
};

struct sw_dns_zone;

/*
 * Builds a zone with SOA, NS and addresses of the servers, and the given sets. Refused: names
 * outside, SOA or NS among the sets, two sets of one name and type, CNAME beside others, sets too
 * large for a message. NULL with SW_EINVAL.
 */
SW_NODISCARD struct sw_dns_zone *sw_dns_zone_new(const struct sw_dns_zone_conf *conf,
                                                 const struct sw_dns_rrset *sets, size_t n,
                                                 uint32_t serial, struct sw_err *err);
/* Counted; unref returns NULL. Both take NULL. */
struct sw_dns_zone *sw_dns_zone_ref(struct sw_dns_zone *z);
struct sw_dns_zone *sw_dns_zone_unref(struct sw_dns_zone *z);

const struct sw_dns_name *sw_dns_zone_origin(const struct sw_dns_zone *z);
uint32_t sw_dns_zone_serial(const struct sw_dns_zone *z);
/* The SOA record. */
const struct sw_dns_rrset *sw_dns_zone_soa(const struct sw_dns_zone *z);
uint32_t sw_dns_zone_negative_ttl(const struct sw_dns_zone *z);

/* All sets but SOA, by canonical name and then type. */
size_t sw_dns_zone_count(const struct sw_dns_zone *z);
const struct sw_dns_rrset *sw_dns_zone_at(const struct sw_dns_zone *z, size_t i);

struct sw_dns_found {
    bool exists;                     /* the name, be it only as a step to others */
    const struct sw_dns_rrset *sets; /* all of the name but SOA */
    size_t n;
};
struct sw_dns_found sw_dns_zone_find(const struct sw_dns_zone *z, const struct sw_dns_name *name);
/* The one of a type, NULL when there is none. SOA is found at the apex. */
const struct sw_dns_rrset *sw_dns_zone_get(const struct sw_dns_zone *z,
                                           const struct sw_dns_name *name, unsigned type);
