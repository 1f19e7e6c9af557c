/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the snapshot, shared by the builder, the indexer and the readers. Nobody else. */
#pragma once

#include <stdatomic.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/vec.h"
#include "node/state.h"

/*
 * Hash table of entry numbers, sized once. Entries of one key lie in one probe run in the order
 * of insertion, so it serves as a multimap. Keys are compared in the entries themselves.
 */
struct sw_state_slot {
    uint32_t tag; /* upper half of the hash */
    uint32_t id;  /* entry + 1; 0: free, ends a run */
};

struct sw_state_index {
    struct sw_state_slot *slots; /* in the snapshot's arena */
    uint64_t mask;
};

/* Visits the entries whose hash agrees; the body still has to compare keys. */
#define SW_STATE_PROBE(ix, hash, at)                                                               \
    for (uint64_t at = (hash) & (ix)->mask; (ix)->slots && (ix)->slots[at].id;                     \
         at = (at + 1) & (ix)->mask)                                                               \
        if ((ix)->slots[at].tag == (uint32_t)((hash) >> 32))

void sw_state_index_init(struct sw_state_index *ix, struct sw_arena *a, size_t entries);
void sw_state_index_add(struct sw_state_index *ix, uint64_t hash, size_t entry);

struct sw_state_vip {
    struct sw_slice network;
    struct sw_ip ip;
    const struct sw_service *service;
};

struct sw_state_cidr {
    struct sw_slice network;
    struct sw_cidr cidr;
    const struct sw_service *service;
};

struct sw_state {
    atomic_uint refs;
    uint64_t version;
    struct sw_arena arena;

    struct sw_workload *workloads; /* by uid */
    size_t n_workloads;
    struct sw_service **services; /* by "ns/hostname" */
    size_t n_services;
    struct sw_policy **policies; /* by key */
    size_t n_policies;
    struct sw_slice *staged;
    size_t n_staged;

    struct sw_state_index by_uid;
    struct sw_state_index by_ip;
    struct sw_state_index by_hostname; /* workloads that have one */
    struct sw_state_index local;       /* of the own node */

    struct sw_state_vip *vips;
    struct sw_state_index by_vip;
    struct sw_state_cidr *cidrs;
    struct sw_state_index by_cidr;
    uint64_t cidr_lens4[1]; /* bit n: some block has length n */
    uint64_t cidr_lens6[3];
    struct sw_state_index by_service; /* hostname -> services, in order of arrival */

    struct sw_map by_policy;                      /* key -> struct sw_policy */
    struct sw_map policies_of_ns;                 /* ns -> struct sw_policy_list */
    const struct sw_policy_list *global_policies; /* or NULL */
};

uint64_t sw_state_hash_text(struct sw_slice a, struct sw_slice b);
uint64_t sw_state_hash_ip(struct sw_slice network, const struct sw_ip *ip, unsigned len);
/* The address with all bits after 'len' cleared. */
struct sw_ip sw_state_mask(const struct sw_ip *ip, unsigned len);

/* ---- builder ---- */

struct sw_state_draft {
    struct sw_workload w;
    size_t ip_at; /* into the builder's list of addresses */
};

/* An endpoint a service named itself; the workload may come later. */
struct sw_state_claim {
    struct sw_slice ns;
    struct sw_slice hostname;
    struct sw_slice uid;
    const struct sw_port_pair *ports;
    size_t n_ports;
};

struct sw_state_builder {
    struct sw_state *s; /* owned until finished; its arena takes everything that stays */
    struct sw_slice node;
    bool wire_defaults;

    SW_VEC(struct sw_state_draft) drafts;
    SW_VEC(struct sw_ip) ips;
    SW_VEC(struct sw_service *) services;
    SW_VEC(struct sw_policy *) policies;
    SW_VEC(struct sw_workload_class *) classes;
    SW_VEC(struct sw_state_claim) claims;
    struct sw_map uids;         /* uid -> draft number + 1 */
    struct sw_map service_keys; /* "ns/hostname" -> service number + 1 */
    struct sw_map policy_keys;  /* "ns/name" -> policy number + 1 */
    struct sw_map strings;      /* text -> itself */
    struct sw_map shared;       /* bytes of a class, place or gateway -> the one copy */
    char *text_at;              /* packed strings: the arena's alignment would waste half */
    char *text_end;
    struct sw_arena scratch; /* for one resource */
    struct sw_buf key;       /* for one key */
};

enum { SW_STATE_TEXT_MAX = 65535 };

/* A packed, NUL-terminated copy; with intern the one copy of that text. */
struct sw_slice sw_state_text(struct sw_state_builder *b, struct sw_slice s);
struct sw_slice sw_state_intern(struct sw_state_builder *b, struct sw_slice s);
/* The one class with these contents; texts are interned already, lists are copied if need be. */
struct sw_workload_class *sw_state_share_class(struct sw_state_builder *b,
                                               const struct sw_workload_class *c);

int sw_state_check_gateway(const struct sw_gateway_spec *g, const char *what, struct sw_err *err);
struct sw_gateway_addr sw_state_take_gateway(struct sw_state_builder *b,
                                             const struct sw_gateway_spec *g);
/* The one copy; NULL for NULL. */
const struct sw_gateway_addr *sw_state_share_gateway(struct sw_state_builder *b,
                                                     const struct sw_gateway_spec *spec);
/* A copy sorted by service port. */
const struct sw_port_pair *sw_state_take_ports(struct sw_arena *a, const struct sw_port_pair *from,
                                               size_t n, size_t *ret_n);
