/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything a node knows about the mesh. Readers see immutable, reference-counted snapshots with
 * their indexes and need no lock. A builder puts resources in and takes them out, and makes the
 * next snapshot of what changed: it shares everything else with the one before, so a change costs
 * microseconds however much is known. Lookups cost a hash or, for CIDR addresses, one hash per
 * prefix length in use.
 *
 * Open connections outlive snapshots: remember the uid, and on a new snapshot ask
 * sw_state_workload_by_uid and sw_state_policies_for again. A uid that is gone has no policies to
 * ask: the caller closes or keeps by its own rule. A record that did not change keeps its address,
 * but the memory behind it is only good while a reference to a snapshot that has it is held.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"
#include "node/service.h"
#include "node/workload.h"
#include "policy/policy.h"

struct sw_state;
struct sw_state_builder;

/* ---- reading ---- */

struct sw_state *sw_state_ref(const struct sw_state *s);
/* Returns NULL so that callers write s = sw_state_unref(s). NULL is fine. */
struct sw_state *sw_state_unref(const struct sw_state *s);

/* Goes up from snapshot to snapshot in this process; for logs and cache keys. */
uint64_t sw_state_version(const struct sw_state *s);
/* Changes whenever a workload of the own node does. */
uint64_t sw_state_local_version(const struct sw_state *s);
/* Changes whenever a policy, a service (its endpoints apart) or a workload of the own node does. */
uint64_t sw_state_authz_version(const struct sw_state *s);
/* Changes whenever a workload goes or changes its addresses. */
uint64_t sw_state_places_version(const struct sw_state *s);
/* Heap bytes the snapshot holds, with what it shares with others. Walks all of it. */
size_t sw_state_bytes(const struct sw_state *s);

size_t sw_state_workload_count(const struct sw_state *s);
size_t sw_state_service_count(const struct sw_state *s);
size_t sw_state_policy_count(const struct sw_state *s);
size_t sw_state_staged_count(const struct sw_state *s);
/*
 * All of them in an array that the caller frees with sw_free, sorted by uid / namespace and
 * hostname / key, for dumps. The staged ones are "ns/hostname" keys that workloads name and no
 * service has (config_dump stagedServices).
 */
const struct sw_workload **sw_state_list_workloads(const struct sw_state *s);
const struct sw_service **sw_state_list_services(const struct sw_state *s);
const struct sw_policy **sw_state_list_policies(const struct sw_state *s);
struct sw_slice *sw_state_list_staged(const struct sw_state *s);

/* Calls fn for each workload of the builder's node (all when it was given none). */
void sw_state_each_local(const struct sw_state *s,
                         void (*fn)(void *arg, const struct sw_workload *w), void *arg);

/* All of these return NULL when there is nothing. */
const struct sw_workload *sw_state_workload_by_uid(const struct sw_state *s, struct sw_slice uid);
/* The highest-ranking workload on (network, ip); host-network workloads are never found. */
const struct sw_workload *sw_state_workload_by_ip(const struct sw_state *s, struct sw_slice network,
                                                  const struct sw_ip *ip);
/* True: a node gave it its addresses. Those of others are what an object says. */
bool sw_workload_is_pod(const struct sw_workload *w);
const struct sw_workload *sw_state_workload_by_hostname(const struct sw_state *s,
                                                        struct sw_slice ns,
                                                        struct sw_slice hostname);
/*
 * The workload a pod namespace or --workload names, among those of the builder's node (all when
 * the builder was given no node).
 */
const struct sw_workload *sw_state_local_workload(const struct sw_state *s, struct sw_slice ns,
                                                  struct sw_slice name, struct sw_slice sa);

/*
 * Service owning a VIP as a client of this namespace sees it: exact entries first (same
 * namespace, canonical, first), then CIDR VIPs (same namespace, longest prefix, canonical).
 */
const struct sw_service *sw_state_service_by_vip(const struct sw_state *s, struct sw_slice network,
                                                 const struct sw_ip *ip, struct sw_slice client_ns);
/* Exact namespace and hostname, without regard to visibility. */
const struct sw_service *sw_state_service_by_key(const struct sw_state *s, struct sw_slice ns,
                                                 struct sw_slice hostname);
/* Best by hostname for a client of this namespace: visible only; same namespace, canonical, first.
 */
const struct sw_service *sw_state_service_by_hostname(const struct sw_state *s,
                                                      struct sw_slice hostname,
                                                      struct sw_slice client_ns);

/*
 * All services of a hostname, of any namespace, in the order they arrived: at most max of them.
 * Returns how many were stored.
 */
size_t sw_state_services_by_host(const struct sw_state *s, struct sw_slice hostname,
                                 const struct sw_service **ret, size_t max);

/* What applies to connections to this workload: global, its namespace's, and those it lists. */
struct sw_policy_set sw_state_policies_for(const struct sw_state *s, const struct sw_workload *w);

/* ---- building ---- */

/* Input of the builder; nothing is kept by reference. Zero values are the protocol's defaults. */
struct sw_membership_spec {
    struct sw_slice key; /* "ns/hostname" */
    const struct sw_port_pair *ports;
    size_t n_ports;
};

struct sw_workload_spec {
    struct sw_slice uid;     /* required */
    struct sw_slice version; /* of the resource; longer than 255 bytes counts as none */
    struct sw_slice name;
    struct sw_slice ns;
    const struct sw_ip *ips;
    size_t n_ips;
    struct sw_slice network;
    int protocol; /* enum sw_tunnel_protocol; numbers from the wire are checked */
    struct sw_slice trust_domain;
    struct sw_slice service_account;
    const struct sw_gateway_addr *waypoint;
    const struct sw_gateway_addr *network_gateway;
    struct sw_slice node;
    struct sw_slice canonical_name;
    struct sw_slice canonical_revision;
    int type; /* enum sw_workload_type */
    struct sw_slice workload_name;
    bool native_tunnel;
    const struct sw_slice *policies;
    size_t n_policies;
    bool unhealthy;
    struct sw_slice cluster_id;
    struct sw_slice hostname;
    const struct sw_membership_spec *services;
    size_t n_services;
    bool has_app_tunnel;
    int app_tunnel; /* enum sw_app_tunnel */
    uint16_t app_tunnel_port;
    struct sw_slice region;
    struct sw_slice zone;
    struct sw_slice subzone;
    bool host_network;
    bool has_capacity; /* else 1 */
    uint32_t capacity;
};

/* An endpoint named by the service itself (local file only). */
struct sw_endpoint_spec {
    struct sw_slice uid;
    const struct sw_port_pair *ports;
    size_t n_ports;
};

struct sw_service_spec {
    struct sw_slice version;
    struct sw_slice name;
    struct sw_slice ns;
    struct sw_slice hostname;
    const struct sw_network_addr *vips;
    size_t n_vips;
    const struct sw_network_cidr *cidr_vips;
    size_t n_cidr_vips;
    const struct sw_port_pair *ports;
    size_t n_ports;
    const struct sw_slice *sans; /* those that are no SPIFFE name are dropped */
    size_t n_sans;
    const struct sw_gateway_addr *waypoint;
    const struct sw_weighted_waypoint *weighted;
    size_t n_weighted;
    int mode;         /* enum sw_lb_mode */
    const int *prefs; /* enum sw_lb_scope */
    size_t n_prefs;
    int health_policy; /* 0 only healthy, 1 allow all */
    int families;      /* enum sw_ip_families */
    bool canonical;
    bool namespace_only;
    const struct sw_endpoint_spec *endpoints;
    size_t n_endpoints;
};

/*
 * Empty builder. 'node' restricts sw_state_local_workload (empty: no restriction). With
 * 'wire_defaults' empty trust domain, service account and cluster become "cluster.local",
 * "default" and "Kubernetes", as for resources from xDS.
 */
struct sw_state_builder *sw_state_builder_new(struct sw_slice node, bool wire_defaults);
void sw_state_builder_free(struct sw_state_builder *b);

/*
 * Add one resource; one with the same uid / namespace and hostname / key replaces the earlier.
 * SW_EINVAL or SW_ELIMIT with the reason rejects this resource only; the builder stays usable.
 */
SW_NODISCARD int sw_state_add_workload(struct sw_state_builder *b, const struct sw_workload_spec *w,
                                       struct sw_err *err);
SW_NODISCARD int sw_state_add_service(struct sw_state_builder *b, const struct sw_service_spec *s,
                                      struct sw_err *err);
SW_NODISCARD int sw_state_add_policy(struct sw_state_builder *b, const struct sw_policy *p,
                                     struct sw_slice version, struct sw_err *err);
/* Take one out again; false: it was not there. */
bool sw_state_remove_workload(struct sw_state_builder *b, struct sw_slice uid);
bool sw_state_remove_service(struct sw_state_builder *b, struct sw_slice ns,
                             struct sw_slice hostname);
bool sw_state_remove_policy(struct sw_state_builder *b, struct sw_slice key);
/* Is there one already? For loaders that refuse duplicates. */
bool sw_state_has_workload(const struct sw_state_builder *b, struct sw_slice uid);
bool sw_state_has_service(const struct sw_state_builder *b, struct sw_slice ns,
                          struct sw_slice hostname);
bool sw_state_has_policy(const struct sw_state_builder *b, struct sw_slice ns,
                         struct sw_slice name);

/*
 * A snapshot of what is in the builder now; one reference is the caller's. The same one again when
 * nothing changed since the last. Never fails. The builder continues, on its thread; snapshots may
 * be read and released on any.
 */
struct sw_state *sw_state_commit(struct sw_state_builder *b);
/* The same, and the end of the builder. */
struct sw_state *sw_state_finish(struct sw_state_builder *b);
