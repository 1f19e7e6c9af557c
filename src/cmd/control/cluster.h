/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `spanwire control` as a client of an API server elsewhere: controllers and xDS without an API of
 * our own. What the embedded API would give them comes from here: a credential for the xDS server,
 * the judgement of its clients' tokens, and pages for people and monitoring.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "io/addr.h"
#include "opts/admin.h"
#include "opts/opts.h"

struct sw_control_access;
struct sw_control_cluster;
struct sw_control_gateway;
struct sw_control_pages;
struct sw_kube_client;
struct sw_loop;
struct sw_tls_cred;

struct sw_control_cluster_opts {
    const char *kubeconfig; /* NULL: not this way */
    const char *context;
    bool in_cluster;
    const char *lease_ns;
    const char *identity;
    const char *xds_cert; /* PEM files; NULL: from a CA of our own in DIR/xds-ca */
    const char *xds_key;
    const char *xds_secret; /* instead: a CA that replicas share in this Secret of lease_ns */
    struct sw_addr admin;
    struct sw_admin_access access;
    struct sw_addr pages; /* the read-only part of them; family 0: nowhere else */
    uint64_t review_ns;   /* how long the review of a token counts as new */
    /* Not flags of their own: */
    const char *data;
    const struct sw_opt_list *names;
};

/* True when controllers shall work on a cluster elsewhere. */
bool sw_control_cluster_wanted(const struct sw_control_cluster_opts *o);
/* Borrows o. NULL with what was wrong. */
SW_NODISCARD struct sw_control_cluster *
sw_control_cluster_new(struct sw_loop *l, const struct sw_control_cluster_opts *o,
                       struct sw_err *err);
/* Closes the admin listener: before the controllers go, whose metrics it shows. */
void sw_control_cluster_close(struct sw_control_cluster *c);
/* NULL is fine. After everything that uses its client. */
void sw_control_cluster_free(struct sw_control_cluster *c);
struct sw_kube_client *sw_control_cluster_client(struct sw_control_cluster *c);
struct sw_tls_cred *sw_control_cluster_cred(struct sw_control_cluster *c);
struct sw_control_access *sw_control_cluster_access(struct sw_control_cluster *c);
/* Namespace of leases: as asked, else that of the kubeconfig's context, else "default". */
const char *sw_control_cluster_lease_ns(const struct sw_control_cluster *c);
/* Opens the admin listener, which shows the pages; g may be NULL. Both are borrowed. */
SW_NODISCARD int sw_control_cluster_serve(struct sw_control_cluster *c,
                                          struct sw_control_gateway *g,
                                          const struct sw_control_pages *p, struct sw_err *err);
struct sw_addr sw_control_cluster_addr(const struct sw_control_cluster *c);
