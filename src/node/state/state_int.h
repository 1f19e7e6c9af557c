/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of snapshots and of the builder that makes them; not for other files.
 *
 * Memory: a snapshot is the roots of persistent maps (node/state/smap.h). What the next snapshot
 * replaces goes into the junk of the one before it, and every snapshot holds a reference to its
 * successor: so junk is freed when neither its own snapshot nor any older one is read any more.
 * What is left at the very end belongs to the builder, which lives as long as its last snapshot.
 */
#pragma once

#include <stdatomic.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/vec.h"
#include "node/state.h"
#include "node/state/smap.h"

/* What has an arena of its own: policies and lists of them. */
struct sw_shared {
    struct sw_arena arena;
};

/* What exists once for all that have the same contents, which lie behind it in the same block. */
struct sw_counted {
    uint64_t digest[2]; /* of its contents: the key in the builder's tables */
    uint32_t refs;      /* users, counted by the builder */
};

struct sw_shared_class {
    struct sw_counted h;
    struct sw_workload_class c;
    _Alignas(8) char contents[];
};

struct sw_shared_place {
    struct sw_counted h;
    struct sw_workload_place at;
    _Alignas(8) char contents[];
};

/* Policy keys as workloads list them, and where snapshots keep what they resolve to. */
struct sw_selector {
    struct sw_counted h;
    uint64_t hash;
    const struct sw_slice *keys;
    size_t n;
    struct sw_selected *now; /* of the builder's tables; NULL: not resolved yet */
    _Alignas(8) char contents[];
};

struct sw_selected {
    struct sw_shared h;
    const struct sw_selector *of;
    const struct sw_policy_list *list; /* those that are known, or NULL */
    struct sw_slice missing;           /* the first that is not; empty: none */
};

struct sw_shared_policy {
    struct sw_shared h;
    struct sw_policy *p;
    struct sw_slice version;
};

struct sw_scope_list {
    struct sw_shared h;
    struct sw_slice ns; /* empty: the global ones */
    const struct sw_policy_list *list;
};

/* Everything a snapshot shows. */
struct sw_state_tables {
    struct sw_smap by_uid;      /* of struct sw_workload, like the next three */
    struct sw_smap by_ip;       /* all on an address; host-network ones apart */
    struct sw_smap by_hostname; /* those that have one */
    struct sw_smap local;       /* of the own node */
    struct sw_smap by_service;  /* hostname -> struct sw_service, in order of arrival */
    struct sw_smap by_vip;
    struct sw_smap by_cidr;
    struct sw_smap by_policy; /* key -> struct sw_shared_policy */
    struct sw_smap by_ns;     /* ns -> struct sw_scope_list */
    struct sw_smap selected;  /* selector -> struct sw_selected */
    struct sw_smap staged;    /* "ns/hostname" -> struct sw_slice with it */
    uint64_t cidr_lens4[1];   /* bit n: some block has length n */
    uint64_t cidr_lens6[3];
    const struct sw_scope_list *global; /* or NULL */
    uint64_t local_version;
    uint64_t authz_version;
    uint64_t places_version; /* a workload went, or changed its addresses */
};

struct sw_state_junk {
    struct sw_smap_bin plain;
    SW_VEC(struct sw_shared *) shared;
};

struct sw_state {
    atomic_uint refs;
    uint64_t version;
    struct sw_state_tables t;
    struct sw_state_builder *builder; /* a reference */
    struct sw_state *next;            /* the successor: a reference; NULL: none yet */
    struct sw_state_junk junk;        /* what the successor does not have */
};

uint64_t sw_state_hash_text(struct sw_slice a, struct sw_slice b);
uint64_t sw_state_hash_ip(struct sw_slice network, const struct sw_ip *ip, unsigned len);
/* The address with all bits after 'len' cleared. */
struct sw_ip sw_state_mask(const struct sw_ip *ip, unsigned len);

const struct sw_workload *sw_state_find_uid(const struct sw_state_tables *t, struct sw_slice uid);
const struct sw_service *sw_state_find_service(const struct sw_state_tables *t, struct sw_slice ns,
                                               struct sw_slice hostname);
const struct sw_shared_policy *sw_state_find_policy(const struct sw_state_tables *t,
                                                    struct sw_slice key);
const struct sw_scope_list *sw_state_find_scope(const struct sw_state_tables *t,
                                                struct sw_slice ns);

/* ---- builder ---- */

/*
 * Who belongs to a service, known or not. Usable endpoints come first, so that what a service shows
 * is the front of the array, or all of it.
 */
struct sw_roster {
    struct sw_slice key;          /* "ns/hostname", which is 'text' */
    const struct sw_workload **p; /* as snapshots show it */
    struct sw_service *svc;       /* NULL: not known, its endpoints are staged */
    void *body;                   /* what svc points to: one block */
    struct sw_slice *staged;      /* the entry in the staged table; NULL: none */
    /* While rosters are settled: those that join, and behind them those that leave. */
    const struct sw_workload **moves; /* borrowed */
    uint32_t n;                       /* all */
    uint32_t healthy;                 /* of these, in front */
    uint32_t odd;                     /* not of capacity 1 or without address: all */
    uint32_t odd_healthy;             /* and of the healthy ones */
    uint32_t svc_edit;                /* the edit that may write to svc */
    uint32_t joining;                 /* since the last snapshot */
    uint32_t leaving;
    uint32_t moved; /* of both, already in 'moves' */
    bool dirty;
    char text[];
};

/* A change of a roster that its array does not show yet. */
struct sw_roster_move {
    struct sw_roster *r;
    const struct sw_workload *w;
};

/* An endpoint a service named itself; the workload may come later. */
struct sw_state_claim {
    struct sw_slice key; /* of the service; in the claims' arena, like all of it */
    struct sw_slice uid;
    const struct sw_port_pair *ports;
    size_t n_ports;
};

struct sw_state_builder {
    atomic_uint refs; /* the owner and each snapshot */
    char *node;
    bool wire_defaults;
    struct sw_state *head; /* the last snapshot, a reference; NULL: none yet */
    struct sw_state_tables t;
    struct sw_smap_edit edit;
    struct sw_state_junk junk; /* what the head has and the next snapshot does not */
    bool changed;

    /* Of the builder alone: no snapshot shows them, so all edits are 'own_edit'. */
    struct sw_smap shared;    /* of struct sw_counted that lead classes and places */
    struct sw_smap selectors; /* of struct sw_selector */
    struct sw_smap rosters;   /* of struct sw_roster */
    struct sw_smap_edit own_edit;
    SW_VEC(struct sw_roster *) dirty;
    /* Of all rosters together: lists of their own would leave a hole in the heap each. */
    SW_VEC(struct sw_roster_move) joins;
    SW_VEC(struct sw_roster_move) leaves;
    uint32_t cidrs4[33]; /* blocks of each length */
    uint32_t cidrs6[129];

    struct sw_map changed_keys; /* of policies, since the last snapshot -> itself, owned */
    struct sw_map changed_ns;   /* whose list has to be made again -> itself, owned */
    bool changed_global;
    bool fresh_selectors;

    SW_VEC(struct sw_state_claim) claims;
    struct sw_arena claim_arena;
    struct sw_buf key;     /* contents of one class, place or selector */
    struct sw_arena draft; /* for contents: the size of the block they need */
    uint64_t digest_k[2];  /* drawn at the start: peers cannot choose contents that collide */
};

enum {
    SW_STATE_TEXT_MAX = 65535,
    SW_STATE_DRAFT = 4096, /* bytes that stay for the next draft */
};

/* A number that no builder of the process had before. */
uint64_t sw_state_tick(void);
/* Gives up something readers may still look at. */
void sw_state_junk(struct sw_state_builder *b, const void *p);
void sw_state_junk_shared(struct sw_state_builder *b, struct sw_shared *s);

int sw_state_check_gateway(const struct sw_gateway_addr *g, const char *what, struct sw_err *err);
/* Copies into the arena; NULL for NULL. */
const struct sw_gateway_addr *sw_state_take_gateway(struct sw_arena *a,
                                                    const struct sw_gateway_addr *g);
/* A copy sorted by service port. */
const struct sw_port_pair *sw_state_take_ports(struct sw_arena *a, const struct sw_port_pair *from,
                                               size_t n, size_t *ret_n);

/* record.c: all but the class and the place. */
struct sw_workload *sw_state_record(const struct sw_workload_spec *spec);

/* share.c: the one class or place with these contents, with a reference; and back. */
const struct sw_workload_class *sw_state_class(struct sw_state_builder *b,
                                               const struct sw_workload_spec *w,
                                               struct sw_slice uid_head);
void sw_state_class_release(struct sw_state_builder *b, const struct sw_workload_class *c);
const struct sw_workload_place *sw_state_place(struct sw_state_builder *b,
                                               const struct sw_workload_spec *w);
void sw_state_place_release(struct sw_state_builder *b, const struct sw_workload_place *at);

/* roster.c */
/* NULL: there is none. */
struct sw_roster *sw_roster_find(const struct sw_state_builder *b, struct sw_slice key);
struct sw_roster *sw_roster_get(struct sw_state_builder *b, struct sw_slice key);
void sw_roster_touch(struct sw_state_builder *b, struct sw_roster *r);
void sw_roster_add(struct sw_state_builder *b, struct sw_slice key, const struct sw_workload *w);
void sw_roster_del(struct sw_state_builder *b, struct sw_slice key, const struct sw_workload *w);
/* Makes the arrays of all that changed. */
void sw_rosters_settle(struct sw_state_builder *b);

/* service.c: puts 'to' where 'from' was in all indexes; either may be NULL. */
void sw_state_relink_service(struct sw_state_builder *b, struct sw_service *from,
                             struct sw_service *to);
/* policy.c: makes the lists again that a change of policies or selectors touches. */
void sw_state_settle_policies(struct sw_state_builder *b);
/* workload.c: endpoints that services named themselves. */
void sw_state_settle_claims(struct sw_state_builder *b);
/* spec.c: what would make this very record again; lists go to the arena. */
void sw_state_spec_of(const struct sw_workload *w, struct sw_arena *a,
                      struct sw_workload_spec *ret);
