/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access policies over attributes: flat maps of text that describe the two ends of a connection.
 * The other half of the engine in policy.h: the same string matchers, the same verdict with the
 * same explanation. Immutable and arena-owned; no I/O, no clock, no allocation while deciding; safe
 * from any thread.
 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "policy/policy.h"

struct sw_json;

enum {
    SW_ATTRS_MAX = 512,        /* attributes of one end */
    SW_ATTR_POLICY_PARTS = 64, /* entries of 'from', and of 'to' */
    SW_ATTR_TERMS_MAX = 4096,  /* selectors, keys and values of one policy */
};

/* What is known about one end, sorted by key, keys distinct. */
struct sw_attr {
    struct sw_slice key;
    struct sw_slice value;
};
struct sw_attrs {
    const struct sw_attr *p;
    size_t n;
};

/* Sorts in place; of a key given twice one stays. */
void sw_attrs_sort(struct sw_attr *p, size_t *n);
/* The value, or NULL. */
const struct sw_slice *sw_attrs_get(const struct sw_attrs *a, struct sw_slice key);

enum sw_attr_op {
    SW_ATTR_IN = 0,
    SW_ATTR_NOT_IN,
    SW_ATTR_EXISTS,
    SW_ATTR_NOT_EXISTS,
};

/* One requirement. NOT_IN holds where the attribute is missing, as in Kubernetes. */
struct sw_attr_match {
    struct sw_slice key;
    enum sw_attr_op op;
    struct sw_strmatch_list values;
};

/* All matches must hold; none: everything. */
struct sw_attr_selector {
    const struct sw_attr_match *p;
    size_t n;
};
struct sw_attr_selectors {
    const struct sw_attr_selector *p;
    size_t n;
};

/* Matches when any of 'from' selects the source and any of 'to' the destination. */
struct sw_attr_policy {
    struct sw_slice name;
    struct sw_slice ns;  /* empty: privileged, it counts everywhere */
    struct sw_slice key; /* "ns/name", or "name" */
    enum sw_policy_action action;
    struct sw_attr_selectors from;
    struct sw_attr_selectors to;
};

/*
 * From the 'spec' of an AccessPolicy (ns given) or PrivilegedAccessPolicy (ns empty): action, from,
 * to, each entry a workloadSelector. A selector's key may also be "PREFIX/labels." followed by a
 * label's key that has a prefix of its own
 * ("client.clusterlink.net/labels.app.kubernetes.io/name").
 *
 * Everything is copied into the arena. Returns SW_OK, or SW_EINVAL with what is wrong.
 */
SW_NODISCARD int sw_attr_policy_parse(struct sw_arena *a, struct sw_slice ns, struct sw_slice name,
                                      const struct sw_json *spec, struct sw_attr_policy **ret,
                                      struct sw_err *err);

/* What a decision may have to compare for it: selectors, keys and values. */
size_t sw_attr_policy_terms(const struct sw_attr_policy *p);

/* Policies that apply together, indexed by namespace. */
struct sw_attr_list;

/* Policies are borrowed and must outlive the list. Within a tier they count in the order given. */
const struct sw_attr_list *sw_attr_list_new(struct sw_arena *a,
                                            const struct sw_attr_policy *const *policies, size_t n);
/*
 * Some policy that counts for the namespace looks at the source: who has no attributes cannot be
 * judged. Those of other namespaces do not matter: their writers decide about their own.
 */
bool sw_attr_list_needs_source(const struct sw_attr_list *l, struct sw_slice ns);

struct sw_attr_request {
    struct sw_slice ns; /* whose regular policies count: the Import's or the Export's */
    struct sw_attrs src;
    struct sw_attrs dst;
};

/*
 * Decides and returns ret->allowed; the first of these that matches:
 *   privileged DENY, privileged ALLOW, DENY of the namespace, ALLOW of the namespace, default deny.
 * ret->why names policy, tier, entry of 'from' and the attribute; ret->by stays NULL.
 */
bool sw_attr_decide(const struct sw_attr_list *l, const struct sw_attr_request *req,
                    struct sw_policy_verdict *ret);
