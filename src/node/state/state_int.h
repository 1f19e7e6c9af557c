/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of snapshots and of the builder that makes them. Nobody else.
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

/* What has an arena of its own: classes, places, selectors, service bodies, policies, lists. */
struct sw_shared {
    struct sw_arena arena;
    uint64_t digest[2]; /* of its contents: the key in the builder's tables */
    uint32_t refs;      /* users, counted by the builder; unused where there is one owner */
};

struct sw_shared_class {
    struct sw_shared h;
    struct sw_workload_class c;
};

struct sw_shared_place {
    struct sw_shared h;
    struct sw_workload_place at;
};

/* Policy keys as workloads list them, and where snapshots keep what they resolve to. */
struct sw_selector {
    struct sw_shared h;
    uint64_t hash;
    const struct sw_slice *keys;
    size_t n;
    struct sw_selected *now; /* of the builder's tables; NULL: not resolved yet */
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

/* ---- builder ---- */

/*
 * Who belongs to a service, known or not. Usable endpoints come first, so that what a service shows
 * is the front of the array, or all of it.
 */
struct sw_roster {
    struct sw_slice key;          /* "ns/hostname"; owned */
    const struct sw_workload **p; /* as snapshots show it */
    size_t n;                     /* all */
    size_t healthy;               /* of these, in front */
    size_t odd;                   /* not of capacity 1 or without address: all */
    size_t odd_healthy;           /* and of the healthy ones */
    struct sw_service *svc;       /* NULL: not known, its endpoints are staged */
    uint32_t svc_edit;            /* the edit that may write to svc */
    struct sw_shared *body;       /* what svc points to */
    struct sw_slice *staged;      /* the entry in the staged table; NULL: none */
    bool dirty;
    SW_VEC(const struct sw_workload *) add;
    SW_VEC(const struct sw_workload *) del;
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

    struct sw_map shared;    /* digest of a class or place -> struct sw_shared */
    struct sw_map selectors; /* digest of the keys -> struct sw_selector */
    struct sw_map rosters;   /* "ns/hostname" -> struct sw_roster */
    SW_VEC(struct sw_roster *) dirty;
    uint32_t cidrs4[33]; /* blocks of each length */
    uint32_t cidrs6[129];

    struct sw_map changed_keys; /* of policies, since the last snapshot -> itself, owned */
    struct sw_map changed_ns;   /* whose list has to be made again -> itself, owned */
    bool changed_global;
    bool fresh_selectors;

    SW_VEC(struct sw_state_claim) claims;
    struct sw_arena claim_arena;
    struct sw_buf key;    /* contents of one class, place or selector */
    uint64_t digest_k[4]; /* drawn at the start: nobody can choose contents that collide */
};

enum { SW_STATE_TEXT_MAX = 65535 };

/* A number that no builder of the process had before. */
uint64_t sw_state_tick(void);
/* Gives up something readers may still look at. */
void sw_state_junk(struct sw_state_builder *b, const void *p);
void sw_state_junk_shared(struct sw_state_builder *b, struct sw_shared *s);

int sw_state_check_gateway(const struct sw_gateway_spec *g, const char *what, struct sw_err *err);
/* Copies into the arena; NULL for NULL. */
const struct sw_gateway_addr *sw_state_take_gateway(struct sw_arena *a,
                                                    const struct sw_gateway_spec *g);
/* A copy sorted by service port. */
const struct sw_port_pair *sw_state_take_ports(struct sw_arena *a, const struct sw_port_pair *from,
                                               size_t n, size_t *ret_n);

/* share.c: the one class or place with these contents, with a reference; and back. */
const struct sw_workload_class *sw_state_class(struct sw_state_builder *b,
                                               const struct sw_workload_spec *w);
void sw_state_class_release(struct sw_state_builder *b, const struct sw_workload_class *c);
const struct sw_workload_place *sw_state_place(struct sw_state_builder *b,
                                               const struct sw_workload_spec *w);
void sw_state_place_release(struct sw_state_builder *b, const struct sw_workload_place *at);

/* roster.c */
struct sw_roster *sw_roster_get(struct sw_state_builder *b, struct sw_slice key);
void sw_roster_touch(struct sw_state_builder *b, struct sw_roster *r);
void sw_roster_add(struct sw_state_builder *b, struct sw_slice key, const struct sw_workload *w);
void sw_roster_del(struct sw_state_builder *b, struct sw_slice key, const struct sw_workload *w);
/* Makes the arrays of all that changed. */
void sw_rosters_settle(struct sw_state_builder *b);
void sw_roster_free(struct sw_roster *r);

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
