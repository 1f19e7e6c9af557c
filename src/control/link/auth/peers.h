/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other sites: connections to their gateways, heartbeats, and requests for tokens. Connections
 * are kept and bounded per gateway; requests beyond them wait, each with its deadline, and all of
 * them together are bounded. Everything runs on the loop's thread.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/share.h"
#include "base/slice.h"
#include "control/link/facts.h"
#include "control/link/reach.h"

struct sw_egress;
struct sw_link_ask;
struct sw_link_peers;
struct sw_link_race_result;
struct sw_loop;
struct sw_metrics_shard;
struct sw_tls_cred;

enum { SW_LINK_ASKS_MAX = 4096 }; /* requests under way, to all peers */

/*
 * May a peer with 'own' of 'all' requests have another one? As long as it has fewer than there are
 * places left: one peer alone gets half of them, and n silent peers leave an (n+1)th part free.
 */
static inline bool sw_link_share_left(size_t own, size_t all)
{
    return sw_share_left(own, all, SW_LINK_ASKS_MAX);
}

struct sw_link_peers_opts {
    struct sw_egress *egress;         /* borrowed: judges gateways' addresses; NULL: any will do */
    struct sw_metrics_shard *metrics; /* may be NULL */
    /* Reachability or labels of a peer changed. */
    void (*on_change)(void *arg);
    void *arg;
};

SW_NODISCARD struct sw_link_peers *sw_link_peers_new(struct sw_loop *l,
                                                     const struct sw_link_peers_opts *o);
/* Fails the requests in flight. NULL is fine. */
void sw_link_peers_free(struct sw_link_peers *p);
/* Peers as they are now: new ones are probed at once, those that are gone are forgotten. */
void sw_link_peers_set(struct sw_link_peers *p, const struct sw_link_facts *f);
/* Own credential and trusted roots; NULL: no peer can be asked. */
void sw_link_peers_set_cred(struct sw_link_peers *p, struct sw_tls_cred *cred);

bool sw_link_peers_reachable(const struct sw_link_peers *p, struct sw_slice name);
/* Labels as attributes; never NULL. */
const struct sw_attrs *sw_link_peers_labels(const struct sw_link_peers *p, struct sw_slice name);
/* Those probed to an end, sorted by name, in the arena; texts are borrowed. */
size_t sw_link_peers_reach(const struct sw_link_peers *p, struct sw_arena *a,
                           struct sw_link_reach **ret);
/* Equal reports, equal value. */
uint64_t sw_link_peers_hash(const struct sw_link_peers *p);

/*
 * POST /authz with this body to a peer. done comes once, never from inside; status 0: no answer.
 * NULL with err: SW_ENOENT (no such peer), SW_ELIMIT (too many requests under way), or another.
 */
struct sw_link_ask_opts {
    struct sw_slice body; /* borrowed until done is called or the request cancelled */
    uint64_t timeout_ns;
    void (*done)(void *arg, const struct sw_link_race_result *r);
    void *arg;
};
SW_NODISCARD struct sw_link_ask *sw_link_peers_ask(struct sw_link_peers *p, struct sw_slice name,
                                                   const struct sw_link_ask_opts *o,
                                                   struct sw_err *err);
/* NULL is fine. */
void sw_link_ask_cancel(struct sw_link_ask *ask);

/*
 * The labels in a heartbeat's answer: base64 of a JSON object of strings, or of null. SW_EINVAL
 * otherwise. Into the arena; keys as sent.
 */
SW_NODISCARD int sw_link_labels_decode(struct sw_arena *a, struct sw_slice value,
                                       struct sw_attrs *ret, struct sw_err *err);
/* The field of our own answer. */
struct sw_slice sw_link_labels_encode(struct sw_arena *a, const struct sw_attrs *labels);
