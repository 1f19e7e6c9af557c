/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The L4 authorisation engine: immutable policies, lists of them indexed for evaluation, and one
 * decision function. No I/O, no clock, no allocation while deciding; safe from any thread.
 * Links between clusters are judged by attributes (attr.h), with the same matchers and verdict.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"
#include "tls/cert/spiffe.h"

enum sw_policy_scope {
    SW_POLICY_GLOBAL = 0,
    SW_POLICY_NAMESPACE = 1,
    SW_POLICY_SELECTOR = 2, /* applies where a workload lists its key */
};

enum sw_policy_action {
    SW_POLICY_ALLOW = 0,
    SW_POLICY_DENY = 1,
};

enum sw_strmatch_kind {
    SW_STRMATCH_EXACT = 0,
    SW_STRMATCH_PREFIX,
    SW_STRMATCH_SUFFIX,
    SW_STRMATCH_PRESENCE, /* any non-empty value */
};

struct sw_strmatch {
    enum sw_strmatch_kind kind;
    struct sw_slice text;
};

struct sw_sa_match {
    struct sw_slice ns;
    struct sw_slice sa;
};

struct sw_strmatch_list {
    const struct sw_strmatch *p;
    size_t n;
};
struct sw_sa_match_list {
    const struct sw_sa_match *p;
    size_t n;
};
struct sw_cidr_list {
    const struct sw_cidr *p;
    size_t n;
};
struct sw_port_list {
    const uint16_t *p;
    size_t n;
};

/*
 * All populated attributes must hold. A positive list holds when any element does, a negative one
 * when none does; empty lists hold. A match without any list never matches.
 *
 * 'unknown' marks a match that carried a condition this version does not know. It fails closed:
 * in an ALLOW policy such a match never matches (the unknown condition might have refused); in a
 * DENY policy the known lists alone decide, and with no known list it always matches.
 */
struct sw_policy_match {
    struct sw_strmatch_list namespaces, not_namespaces;
    struct sw_strmatch_list principals, not_principals;
    struct sw_sa_match_list service_accounts, not_service_accounts;
    struct sw_cidr_list source_ips, not_source_ips;
    struct sw_cidr_list destination_ips, not_destination_ips;
    struct sw_port_list destination_ports, not_destination_ports;
    bool unknown;
};

/*
 * The lists of a match, in the order of configuration files: X(function, member, key of the list
 * there, key of its negation), with the caller's function for what the list has.
 */
#define SW_POLICY_LISTS(X, strings, accounts, cidrs, ports)                                        \
    X(strings, namespaces, "namespaces", "notNamespaces")                                          \
    X(accounts, service_accounts, "serviceAccounts", "notServiceAccounts")                         \
    X(strings, principals, "principals", "notPrincipals")                                          \
    X(cidrs, source_ips, "sourceIps", "notSourceIps")                                              \
    X(cidrs, destination_ips, "destinationIps", "notDestinationIps")                               \
    X(ports, destination_ports, "destinationPorts", "notDestinationPorts")

/* No list is populated: it never matches, unless it is unknown. */
bool sw_policy_match_is_empty(const struct sw_policy_match *m);

/* True when any match holds; no matches: true. */
struct sw_policy_clause {
    const struct sw_policy_match *matches;
    size_t n;
};

/* True when all clauses hold; no clauses: true. */
struct sw_policy_rule {
    const struct sw_policy_clause *clauses;
    size_t n;
};

/* Matches when any rule does; no rules: never (an ALLOW without rules denies everything). */
struct sw_policy {
    struct sw_slice name;
    struct sw_slice ns;
    struct sw_slice key; /* "ns/name"; filled by sw_policy_copy */
    enum sw_policy_scope scope;
    enum sw_policy_action action;
    bool dry_run;
    const struct sw_policy_rule *rules;
    size_t n;
};

struct sw_policy_request {
    struct sw_ip src_ip;         /* the TCP peer */
    const struct sw_spiffe *src; /* NULL: plaintext, or no SPIFFE name */
    struct sw_ip dst_ip;
    uint16_t dst_port;
};

/* Policies that apply together, indexed; immutable and arena-owned. */
struct sw_policy_list;

enum { SW_POLICY_PARTS = 3, SW_POLICY_DRY_MAX = 8, SW_POLICY_TEXT = 640 };

/* What applies to one destination: the union of a few lists. Passed by value, owns nothing. */
struct sw_policy_set {
    const struct sw_policy_list *part[SW_POLICY_PARTS]; /* each may be NULL */
    struct sw_slice missing; /* a key that was asked for and is not known: everything is denied */
};

/* What decided. Slices live as long as the policies; all empty: nothing matched. */
struct sw_policy_why {
    struct sw_slice policy;    /* its key */
    struct sw_slice attribute; /* that a matching rule looked at; empty: it looks at none */
    size_t rule;               /* index into the policy's rules */
    bool privileged;           /* it is of the tier above the others (attr.h) */
};

struct sw_policy_verdict {
    bool allowed;
    struct sw_policy_why why;
    const struct sw_policy
        *by; /* the policy that decided, or NULL (default, none allowed, missing) */
    char text[SW_POLICY_TEXT]; /* why it was denied; "" when allowed */
    /* For logging only: dry-run policies that match (the first few; n_dry counts all). */
    const struct sw_policy *dry[SW_POLICY_DRY_MAX];
    size_t n_dry;
    bool dry_allowed; /* the verdict had the dry-run policies been enforced */
};

/*
 * Deep copy into the arena with 'key' filled in. SW_EINVAL: empty name, an enum out of range, a
 * CIDR longer than its family.
 */
SW_NODISCARD int sw_policy_copy(struct sw_arena *a, const struct sw_policy *from,
                                struct sw_policy **ret, struct sw_err *err);

/*
 * Indexes policies (borrowed: they must outlive the list) for evaluation. Policies that can only
 * match certain exact callers are found by hash, so ten thousand of them cost a request what its
 * own few cost. Order is kept: of several denying policies the first is named.
 */
const struct sw_policy_list *sw_policy_list_new(struct sw_arena *a,
                                                const struct sw_policy *const *policies, size_t n);
size_t sw_policy_list_count(const struct sw_policy_list *l);

/* A denial without a reason yet. The arrays stay as they are. */
static inline void sw_policy_verdict_init(struct sw_policy_verdict *v)
{
    v->allowed = false;
    v->dry_allowed = false;
    v->by = NULL;
    v->why = (struct sw_policy_why){0};
    v->text[0] = '\0';
    v->n_dry = 0;
}

/*
 * Decides and returns verdict->allowed:
 *   missing key             -> denied, "policy 'ns/name' is not known"
 *   a DENY matches          -> denied, "explicitly denied by: ns/name"
 *   no ALLOW in the set     -> allowed
 *   an ALLOW matches        -> allowed
 *   otherwise               -> denied, "allow policies exist, but none allowed"
 */
bool sw_policy_decide(const struct sw_policy_set *set, const struct sw_policy_request *req,
                      struct sw_policy_verdict *ret);

/* One policy's match, without action or dry-run; for tests, explain and the index's own proof. */
bool sw_policy_matches(const struct sw_policy *p, const struct sw_policy_request *req);

/* One matcher of text: what all policies are made of. */
bool sw_strmatch_holds(const struct sw_strmatch *m, struct sw_slice s);
/* Any of the list does. */
bool sw_strmatch_any(struct sw_strmatch_list l, struct sw_slice s);

/* True when the identity's URI is exactly this text. */
bool sw_policy_caller_is(const struct sw_spiffe *id, struct sw_slice uri);
