/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the service accounts of node proxies may have: the mesh's configuration, and certificates
 * for the identities of pods on their own node, and no others.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"

struct sw_caller;
struct sw_nodes;

/* Where pods are, from whoever knows. Slices live until the pod changes. */
struct sw_pod_place {
    struct sw_slice account;
    struct sw_slice node;
};
struct sw_pod_source {
    /* False when there is no such pod that has not failed. */
    bool (*pod)(const void *arg, struct sw_slice ns, struct sw_slice name, struct sw_slice uid,
                struct sw_pod_place *ret);
    /* True when a pod of that service account, not failed, is on the node. */
    bool (*runs)(const void *arg, struct sw_slice node, struct sw_slice ns,
                 struct sw_slice account);
    /* False until all pods were read once: one that is not found may be there. */
    bool (*complete)(const void *arg);
    const void *arg;
};

struct sw_nodes_opts {
    const char *const *accounts; /* "NAMESPACE/NAME", ends with NULL */
    struct sw_slice trust_domain;
    const char *const *aliases; /* further trust domains of the mesh, ends with NULL; may be NULL */
    struct sw_pod_source pods;
};

/* Everything is borrowed. NULL with SW_EINVAL. */
SW_NODISCARD struct sw_nodes *sw_nodes_new(const struct sw_nodes_opts *o, struct sw_err *err);
/* NULL is fine. */
void sw_nodes_free(struct sw_nodes *n);
/* True when it is an account of node proxies. */
bool sw_nodes_trusted(const struct sw_nodes *n, struct sw_slice ns, struct sw_slice account);
/* True when it is the mesh's own trust domain, or one of its aliases. */
bool sw_nodes_own_domain(const struct sw_nodes *n, struct sw_slice trust_domain);
/*
 * May the caller have a certificate for this identity? SW_OK, SW_EDENIED with the reason, or
 * SW_EPENDING: undecided until all pods were read.
 */
SW_NODISCARD int sw_nodes_may_impersonate(const struct sw_nodes *n, const struct sw_caller *who,
                                          struct sw_slice id, struct sw_err *err);
/*
 * The id that a node sends in its first request ("TYPE~IP~NAME.NAMESPACE~DOMAIN", and the
 * namespace and account of its metadata, which may be empty) against who it is. SW_EINVAL: no such
 * id; SW_EDENIED: it belongs to another node.
 */
SW_NODISCARD int sw_nodes_check_id(struct sw_slice node_id, struct sw_slice ns,
                                   struct sw_slice account, const struct sw_caller *who,
                                   struct sw_err *err);
