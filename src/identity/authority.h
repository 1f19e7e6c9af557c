/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificate authority of a mesh, in a directory or in a Secret (identity/material.h): a root
 * of our own, made when there is none and followed by another before it ends
 * (identity/rotation.h), or one plugged in below another. What changes is read again: a new root
 * bundle must contain the old one or be contained in it, so that no peer is left with roots that no
 * other one trusts.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "io/loop.h"

struct sw_authority;
struct sw_ca_leaf;
struct sw_ca_signed;
struct sw_kube_client;
struct sw_metrics_shard;
struct sw_tls_cred;

struct sw_authority_opts {
    const char *dir;               /* copied; NULL: in a Secret */
    struct sw_kube_client *client; /* for a Secret; borrowed */
    const char *secret_ns;
    struct sw_slice trust_domain; /* copied */
    uint64_t wait_s;              /* between the steps of a rotation, as sw_rotation_opts */
    uint64_t linger_s;
    struct sw_metrics_shard *metrics; /* may be NULL */
    /* Roots, chain or revocation list changed, or were read at last; from the loop. */
    void (*on_change)(void *arg);
    void *arg;
};

/* NULL with err: the directory holds no CA, or not all of one. */
SW_NODISCARD struct sw_authority *
sw_authority_new(struct sw_loop *l, const struct sw_authority_opts *o, struct sw_err *err);
/* NULL is fine. */
void sw_authority_free(struct sw_authority *a);
/* False until the Secret was read; a directory is read at once. The rest needs it to be true. */
bool sw_authority_ready(const struct sw_authority *a);

struct sw_slice sw_authority_trust_domain(const struct sw_authority *a);
/* Certificates between a leaf and the roots, one PEM text each, the signer's first. */
size_t sw_authority_chain(const struct sw_authority *a, const struct sw_slice **ret);
/* All roots that peers shall trust, PEM. This and the next live until on_change returns. */
struct sw_slice sw_authority_roots(const struct sw_authority *a);
/* Revocation lists, PEM; empty: none. */
struct sw_slice sw_authority_crl(const struct sw_authority *a);

/* As sw_ca_sign. */
SW_NODISCARD int sw_authority_sign(const struct sw_authority *a, const struct sw_ca_leaf *leaf,
                                   struct sw_slice csr, struct sw_buf *ret_cert,
                                   struct sw_ca_signed *ret, struct sw_err *err);
/* A server's credential with these names (ends with NULL), which trusts the roots. NULL with err.
 */
SW_NODISCARD struct sw_tls_cred *sw_authority_cred(const struct sw_authority *a,
                                                   const char *const *names, struct sw_err *err);
