/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workload as a snapshot holds it. What pods of one deployment have in common (class) and what
 * those of one node have in common (place) is stored once; use the accessors for the rest.
 *
 * Identity over time: a workload is its uid. Two snapshots that hold the same uid speak of the
 * same workload, whatever else changed; a uid that is gone means the workload is gone. Pointers
 * are only good for as long as a reference to their snapshot is held.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/slice.h"
#include "io/addr.h"
#include "policy/policy.h"
#include "tls/cert/spiffe.h"

enum sw_tunnel_protocol {
    SW_TUNNEL_NONE = 0,
    SW_TUNNEL_HBONE = 1,
};

enum sw_workload_type {
    SW_WORKLOAD_DEPLOYMENT = 0,
    SW_WORKLOAD_CRONJOB = 1,
    SW_WORKLOAD_POD = 2,
    SW_WORKLOAD_JOB = 3,
};

enum sw_app_tunnel {
    SW_APP_TUNNEL_NONE = 0,
    SW_APP_TUNNEL_PROXY = 1,
};

/* Where a waypoint or network gateway is to be found. */
struct sw_gateway_addr {
    bool by_hostname;        /* else by address */
    struct sw_slice network; /* by address */
    struct sw_ip ip;
    struct sw_slice ns; /* by hostname */
    struct sw_slice hostname;
    uint16_t hbone_port; /* hbone_mtls_port, as given */
};

/* service port -> target port; target 0 in a service means "named, see the endpoint". */
struct sw_port_pair {
    uint16_t service_port;
    uint16_t target_port;
};

/* A workload's membership of a service, which the snapshot may not know (yet). */
struct sw_membership {
    struct sw_slice ns; /* with '/' and the host name behind it: see sw_membership_key */
    struct sw_slice hostname;
    const struct sw_port_pair *ports; /* sorted by service_port */
    size_t n_ports;
};

struct sw_selector;

struct sw_workload_class {
    struct sw_slice uid_head; /* what the uids of these workloads begin with */
    struct sw_slice ns;
    struct sw_slice trust_domain;
    struct sw_slice service_account;
    struct sw_slice identity; /* "spiffe://td/ns/NS/sa/SA" */
    struct sw_slice workload_name;
    struct sw_slice canonical_name;
    struct sw_slice canonical_revision;
    enum sw_workload_type type : 8;
    enum sw_tunnel_protocol protocol : 8;
    enum sw_app_tunnel app_tunnel : 8;
    bool has_app_tunnel : 1;
    bool host_network : 1;
    bool native_tunnel : 1;
    uint16_t app_tunnel_port; /* 0: unset */
    uint16_t n_services;
    uint16_t n_policy_keys;
    const struct sw_gateway_addr *waypoint;        /* or NULL */
    const struct sw_gateway_addr *network_gateway; /* or NULL */
    const struct sw_membership *services;
    const struct sw_slice *policy_keys; /* authorization_policies as listed */
    const struct sw_selector *selector; /* the list of keys as snapshots resolve it; NULL: none */
};

struct sw_workload_place {
    struct sw_slice network;
    struct sw_slice cluster_id;
    struct sw_slice node;
    struct sw_slice region;
    struct sw_slice zone;
    struct sw_slice subzone;
};

/*
 * There may be a million of them: a byte here is a megabyte. Behind the addresses and the tail of
 * the uid comes the version, and then only what few have: capacity, and the length and the text of
 * a name apart and of a host name.
 */
struct sw_workload {
    const struct sw_workload_class *c;
    const struct sw_workload_place *at;
    uint8_t uid_n; /* of the tail */
    uint8_t n_ips;
    uint8_t version_n; /* bytes in the record */
    bool healthy : 1;
    bool only_v4 : 1;     /* every address takes four bytes; otherwise a struct sw_ip */
    bool hex_version : 1; /* two digits are a byte */
    bool has_capacity : 1;
    bool name_apart : 1; /* otherwise it is the tail of the uid */
    bool has_hostname : 1;
    char bytes[];
};

enum { SW_WORKLOAD_VERSION_MAX = 255 };

/* Bytes of one address in the record. */
static inline size_t sw_workload_ip_size(const struct sw_workload *w)
{
    return w->only_v4 ? 4 : sizeof(struct sw_ip);
}

/* The address 'i' of n_ips. */
static inline struct sw_ip sw_workload_ip(const struct sw_workload *w, unsigned i)
{
    struct sw_ip ip = {.family = 4};

    if (w->only_v4)
        memcpy(ip.b, w->bytes + 4 * (size_t)i, 4);
    else
        memcpy(&ip, w->bytes + sizeof(ip) * i, sizeof(ip));
    return ip;
}

/* "ns/hostname". */
static inline struct sw_slice sw_membership_key(const struct sw_membership *m)
{
    return sw_slice(m->ns.p, m->ns.n + 1 + m->hostname.n);
}

/* The uid is what all of its class begin with, and this. */
static inline struct sw_slice sw_workload_uid_tail(const struct sw_workload *w)
{
    return sw_slice(w->bytes + w->n_ips * sw_workload_ip_size(w), w->uid_n);
}

/* For messages: both parts of a uid under "%.*s%.*s". */
#define SW_UID_ARG(w) SW_SLICE_ARG((w)->c->uid_head), SW_SLICE_ARG(sw_workload_uid_tail(w))

/* The whole uid, in the arena. */
struct sw_slice sw_workload_uid(const struct sw_workload *w, struct sw_arena *a);
bool sw_workload_is(const struct sw_workload *w, struct sw_slice uid);
/* By their uids. */
bool sw_workload_same(const struct sw_workload *a, const struct sw_workload *b);
int sw_workload_cmp(const struct sw_workload *a, const struct sw_workload *b);
/* Version of the resource it came from, in the arena; empty when there is none. */
struct sw_slice sw_workload_version(const struct sw_workload *w, struct sw_arena *a);
uint32_t sw_workload_capacity(const struct sw_workload *w);
struct sw_slice sw_workload_name(const struct sw_workload *w);
/* Empty when it has none. */
struct sw_slice sw_workload_hostname(const struct sw_workload *w);

static inline bool sw_workload_has_ip(const struct sw_workload *w, const struct sw_ip *ip)
{
    for (unsigned i = 0; i < w->n_ips; i++) {
        struct sw_ip own = sw_workload_ip(w, i);

        if (sw_ip_eq(&own, ip))
            return true;
    }
    return false;
}

static inline struct sw_spiffe sw_workload_identity(const struct sw_workload *w)
{
    return (struct sw_spiffe){w->c->trust_domain, w->c->ns, w->c->service_account};
}

/* Lower-case name used in baggage: "deployment", "cronjob", "pod", "job". */
const char *sw_workload_type_name(enum sw_workload_type type);
