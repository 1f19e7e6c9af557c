/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mesh's port of `spanwire control`: xDS for node proxies and the certificate authority, on one
 * gRPC server over TLS whose certificate the authority issues.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "io/addr.h"
#include "opts/opts.h"

struct sw_buf;
struct sw_control_mesh_xds;
struct sw_jw;
struct sw_join_peers;
struct sw_kube_client;
struct sw_loop;
struct sw_metrics_shard;
struct sw_xds_cache;

struct sw_control_mesh_xds_opts {
    struct sw_addr listen; /* family 0: nowhere */
    const char *ca_dir;    /* NULL: DATA/mesh-ca */
    bool ca_secret;        /* in a Secret of root_ns instead */
    uint64_t rotate_ns;    /* from the announcement of a root until it signs */
    const char *data;      /* may be NULL with ca_dir */
    const char *trust_domain;
    struct sw_opt_list trust_aliases;
    const char *cluster_id;
    struct sw_opt_list node_accounts; /* "NAMESPACE/ACCOUNT" */
    struct sw_opt_list names;         /* of the server's certificate, besides istiod's */
    const char *join_address;         /* where machines join, in codes; NULL: what is bound */
    bool by_certificate;              /* certificates renew themselves, without a token */
    uint64_t ttl_ns;                  /* of a certificate */
    uint64_t max_ttl_ns;
    /* Not flags of their own: */
    const char *root_ns;
    const struct sw_join_peers *peers; /* signer for peers that join; NULL: none */
    const char *lease_ns;              /* leader election; NULL: we are alone and lead */
    const char *identity;              /* in the lease; NULL: made up */
    uint64_t review_ns;                /* how often tokens of open streams are reviewed */
};

/* Everything is borrowed and must outlive it, o included; metrics may be NULL. NULL with err. */
SW_NODISCARD struct sw_control_mesh_xds *
sw_control_mesh_xds_new(struct sw_kube_client *client, struct sw_metrics_shard *metrics,
                        const struct sw_control_mesh_xds_opts *o, struct sw_err *err);
/* NULL is fine. */
void sw_control_mesh_xds_free(struct sw_control_mesh_xds *m);
/*
 * What node proxies get. Both types are awaited: streams end with UNAVAILABLE until whoever fills
 * the cache has committed all there is of them.
 */
struct sw_xds_cache *sw_control_mesh_xds_cache(const struct sw_control_mesh_xds *m);
struct sw_addr sw_control_mesh_xds_addr(const struct sw_control_mesh_xds *m);
/* Writes an object for each type of each stream, into an array. */
void sw_control_mesh_xds_status(const struct sw_control_mesh_xds *m, struct sw_jw *w);
